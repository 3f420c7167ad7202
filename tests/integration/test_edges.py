"""Data at the edge of what a ranking can be made of: what comes out, as the table of docs/edges.md says."""

import pathlib
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, GraphError, NuisanceError, OptionError

from ..support import FORMULA, needs, two_of

TREES = {"n_estimators": 2, "num_leaves": 3, "min_data_in_leaf": 3}
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "edges.md"
ODD_NAMES = {
    "spaces": ("a b", "a  b", "A b"),
    "no-break space": ("a b", "a\u00a0b", "a\u200bb"),
    "compatibility": ("\uff45", "e", "E"),
    "length": ("x" * 10_000, "y", "z"),
    "quotes": ("'", '"', "`"),
    "line ends": ("a\nb", "a\r\nb", "a\u2028b"),
    "markup": ("<b>", "&amp;", "</script>"),
    "right to left": ("\u202eabc", "\u0639\u0631\u0628\u064a", "\u05d0"),
    "emoji": ("\U0001f916", "\U0001f469\u200d\U0001f52c", "\u2764"),
    "NUL": ("\0", "a\0b", "a"),
    "spreadsheets": ("=1+1", "@SUM(A1)", "+1"),
    "LaTeX": ("$x^2$", "\\textbf{x}", "%"),
    "numbers": ("1", "1.0", "1e0"),
}


def battles(n=300, n_models=3, seed=0, winner=None, names=None):
    """Votes on random pairs, won by chance, each on a prompt of its own."""
    rng = np.random.default_rng(seed)
    first, second = two_of(rng, n_models, n)
    models = np.array(names or [f"m{place}" for place in range(n_models)], dtype=object)
    winners = rng.choice(["model_a", "model_b"], size=n) if winner is None else winner
    votes = pd.DataFrame({"winner": winners, "model_a": models[first], "model_b": models[second]})
    return votes.assign(prompt=[f"q{place}" for place in range(n)], x=rng.normal(size=n))


def separated(results):
    """Names of the pairs whose simultaneous interval excludes zero."""
    pairs = results.t_test_pairwise().result_frame
    return [f"{row.first} - {row.second}" for row in pairs.itertuples() if row.conf_low > 0 or row.conf_high < 0]


def says_that_first_place_is_open(results):
    return any("First place is not decided" in note for note in results.summary().notes)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality", "softmin", "dominance"])
def test_labels_without_variation_separate_nothing(rank, functional):
    results = rank(battles(winner="tie"), functional=functional)
    assert np.ptp(results.params) < 1e-8
    assert (results.bse > 1e-4).all()
    assert separated(results) == []
    assert set(results.best_set(1)) == {"m0", "m1", "m2"}
    assert says_that_first_place_is_open(results)
    assert any("labels without variation" in warning for warning in results.diagnostics.warnings)
    p_values = results.tidy()["p_value"]
    assert p_values.isna().all() or (p_values > 0.05).all()


def with_a_winner_of_all():
    votes = battles()
    wins = [votes["model_a"] == "m2", votes["model_b"] == "m2"]
    return votes.assign(winner=np.select(wins, ["model_a", "model_b"], votes["winner"]))


@pytest.mark.parametrize("functional", ["borda", "bt"])
def test_a_model_that_won_all_its_votes(rank, functional):
    results = rank(with_a_winner_of_all(), functional=functional)
    assert results.best_set(1)[0] == "m2"
    assert results.bse["m2"] > 0.005
    interval = results.conf_int().loc["m2"]
    assert np.isfinite(interval).all()
    assert interval["lower"] < results.params["m2"]
    assert any("won all their votes" in warning for warning in results.diagnostics.warnings)


def test_maximum_likelihood_scores_of_separated_models_do_not_exist():
    with pytest.raises(GraphError):
        dr.dml_rank(FORMULA, with_a_winner_of_all(), estimator="bt_mle", rng=0)


def two_parts(n_between):
    """Two groups of three models with 150 votes each, and a few votes on the one pair between them."""
    parts = [battles(150, names=[f"m{3 * part + k}" for k in range(3)], seed=part) for part in (0, 1)]
    between = pd.DataFrame({"winner": ["model_a", "model_b"], "model_a": "m0", "model_b": "m3", "x": 0.0})
    between = pd.concat([between, between.rename(columns={"model_a": "model_b", "model_b": "model_a"})])
    votes = pd.concat([*parts, between.iloc[:n_between]], ignore_index=True)
    return votes.assign(prompt=[f"q{place}" for place in range(len(votes))])


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_one_pair_that_holds_the_graph_together(rank, functional):
    results = rank(two_parts(4), functional=functional)
    assert not [pair for pair in separated(results) if (pair[1] < "3") != (pair[-1] < "3")]
    assert any("few prompts determine" in warning for warning in results.diagnostics.warnings)
    if functional == "bt":
        across, within = results.t_test("m1 - m4").sd.item(), results.t_test("m1 - m2").sd.item()
        assert across > 3 * within
        # Options that are set are no advice.
        pooled = rank(two_parts(4), functional=functional, position_bias=False)
        advice = [str(fit.diagnostics.warnings) for fit in (results, pooled)]
        assert ["position_bias=False joins both" in text for text in advice] == [True, False]


def test_a_graph_in_two_parts_is_refused_with_its_parts():
    with pytest.raises(GraphError):
        dr.dml_rank(FORMULA, two_parts(0), rng=0, pairs=dr.Pairs(min_labels=1))


def test_two_models(rank):
    votes = battles(100, 2)
    share = rank(votes).params
    assert share.sum() == pytest.approx(1)
    odds = rank(votes, functional="bt").params
    assert odds.sum() == pytest.approx(0, abs=1e-12)
    with pytest.raises(OptionError):
        rank(votes, functional="rank_centrality")


def test_one_prompt_is_no_sample(rank):
    votes = battles(50).assign(prompt="the only one")
    with pytest.raises(DataError):
        dr.dml_rank(FORMULA, votes, context="prompt", rng=0, pairs=dr.Pairs(min_labels=1))
    votes.loc[:20, "prompt"] = "another one"
    votes["x"] = (votes["prompt"] == "another one").astype(float)
    # Features need folds of prompts. Without features two prompts have standard errors, but give no ranks.
    with pytest.raises(DataError):
        dr.dml_rank("winner ~ x | model_a + model_b", votes, context="prompt", rng=0, pairs=dr.Pairs(min_labels=1))
    results = rank(votes)
    assert any("their effective number is 2 of 2 prompts" in warning for warning in results.diagnostics.warnings)
    assert results.ranks()["rank"].isna().all()


def test_ten_thousand_votes_on_a_prompt_are_one_prompt(rank):
    many = battles(10_000, seed=1).assign(prompt="asked often")
    few = battles(200)
    results = rank(pd.concat([many, few], ignore_index=True))
    alone = rank(few)
    assert (results.nobs, results.diagnostics.n_votes) == (201, 10_200)
    # One more prompt of 201 moves a mean by little, however many votes it has.
    assert np.abs(results.params - alone.params).max() < 0.05
    assert (results.bse / alone.bse).between(0.7, 1.5).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["constant", "constant category", "collinear", "copies"])
def test_features_that_say_nothing_new_are_no_error(rank, kind):
    votes = battles(200).assign(c=1.0, word="same")
    votes = votes.assign(y=votes["x"], z=2 * votes["x"] + 1)
    features = {"constant": "c", "constant category": "C(word)", "collinear": "x + y + z", "copies": "x + y"}[kind]
    results = rank(votes, f"winner ~ {features} | model_a + model_b")
    assert np.isfinite(results.cov_params()).all().all()
    if kind.startswith("constant"):
        np.testing.assert_allclose(results.params, rank(votes).params, atol=0.02)
    else:
        alone = rank(votes, "winner ~ x | model_a + model_b")
        np.testing.assert_allclose(results.params, alone.params, atol=0.02)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality", "softmin"])
def test_mu_of_zeros_and_ones(rank, functional):
    mu = np.zeros((300, 3, 3, 2))
    mu[..., 0] = 1
    options = {"mu": mu, "propensity": "marginal", "functional": functional, "graph": "complete"}
    results = rank(battles(), **options)
    assert np.isfinite(results.params).all()
    assert (results.bse > 0).all()
    if functional == "bt":
        with pytest.raises(NuisanceError, match="floor above 0"):
            rank(battles(), floor=0, **options)


@pytest.mark.long
@needs("sklearn")
def test_prompts_of_a_million_characters(rank):
    text = "lorem ipsum dolor " * 2778
    votes = battles(40).assign(text=[f"{text * 20} {k % 7}" if k < 3 else f"word {k % 7}" for k in range(40)])
    assert votes["text"].str.len().max() > 10**6
    results = rank(votes, "winner ~ text(text, 2) | model_a + model_b", tune=TREES, propensity="marginal")
    assert np.isfinite(results.params).all()


@pytest.mark.parametrize("learner", ["auto", "lightgbm"])
def test_a_handful_of_votes_with_a_feature(rank, learner):
    results = rank(battles(n=18), "winner ~ x | model_a + model_b", n_folds=2, learner=learner)
    assert np.isfinite(results.params).all()
    assert (results.bse > 0).all()


@pytest.mark.parametrize("kind", ODD_NAMES)
def test_names_of_all_kinds_are_names(rank, kind, tmp_path):
    names = list(ODD_NAMES[kind])
    if kind == "NUL" and int(pd.__version__.partition(".")[0]) < 3:
        with pytest.raises(dr.exceptions.DataError):
            rank(battles(names=names))
        return
    plain, results = rank(battles()), rank(battles(names=names))
    assert results.models == sorted(names)
    called = [f"m{names.index(name)}" for name in results.models]
    np.testing.assert_allclose(results.params.to_numpy(), plain.params[called].to_numpy(), rtol=0, atol=1e-12)
    first, second = results.models[:2]
    difference = results.params[first] - results.params[second]
    assert results.t_test((first, second)).effect.item() == pytest.approx(difference)
    assert dr.read_json(results.to_json()).models == results.models
    results.tidy().to_csv(tmp_path / "scores.csv", index=False)
    for text in (str(results.summary()), str(results.ranks()), results.summary().as_latex()):
        assert "\0" not in text
        assert "\u202e" not in text
    html = results.summary().as_html()
    assert "<b>" not in html
    assert "</script>" not in html.replace("&lt;/script&gt;", "")


def test_names_have_no_outer_blanks_and_one_unicode_form(rank):
    plain = battles(names=["\u00e9", "b", "c"])
    odd = plain.copy()
    odd.loc[::2, "model_a"] = odd["model_a"].map({"\u00e9": "e\u0301", "b": " b", "c": "c\n"})
    results = rank(odd)
    pd.testing.assert_series_equal(results.params, rank(plain).params)
    assert "3 names of models had outer blanks or another Unicode form" in " ".join(str(results.summary()).split())


@pytest.mark.parametrize("kind", ["spaces", "no-break space", "compatibility"])
def test_names_that_look_alike_are_asked_about(kind):
    report = dr.check(FORMULA, battles(names=list(ODD_NAMES[kind])), context="prompt")
    assert any("names differ only by" in problem for problem in report.problems["found"])


def test_every_row_of_the_page_names_a_test_of_this_file():
    """The page says what comes out, and a test here (or of the slow step) holds each of its rows."""
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    texts = "".join(
        (pathlib.Path(__file__).parents[1] / place).read_text(encoding="utf-8")
        for place in ("integration/test_edges.py", "properties/test_large_edges.py")
    )
    tests = set(re.findall(r"def (test_\w+)", texts))
    assert named <= tests
    assert tests - named <= {"test_every_row_of_the_page_names_a_test_of_this_file"}

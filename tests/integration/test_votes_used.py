"""Small models keep their votes, or are told what they lose: the default, counts by model, warnings, given weights."""

from __future__ import annotations

import html
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import DataError, GraphError
from dmlrank.options import OPTIONS, in_objects

from ..support import two_of

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
PLAIN, SIDES = "winner ~ 1 | model_a + model_b", "winner ~ 1 | left + right"


def draw_votes(counts, seed=0):
    """Votes with given numbers of each ordered pair."""
    rng = np.random.default_rng(seed)
    names = [f"m{j:02d}" for j in range(len(counts))]
    rows = [(names[j], names[k]) for j, k in np.ndindex(counts.shape) for _ in range(counts[j, k])]
    frame = pd.DataFrame(rows, columns=["model_a", "model_b"])
    frame["winner"] = rng.choice(["model_a", "model_b", "tie"], size=len(frame))
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@pytest.fixture
def rare():
    """Four models of which the last was shown first 6 times in 66 votes with two, and has 4 votes with the third."""
    counts = np.full((4, 4), 40) * ~np.eye(4, dtype=bool)
    counts[3], counts[:, 3] = (3, 3, 2, 0), (30, 30, 2, 0)
    return counts


def rank(frame, **options):
    return dr.dml_rank(PLAIN, frame, **in_objects({"functional": "bt", "rng": 0, "n_folds": 2, "apart": 0} | options))


def test_order_is_ignored_where_it_would_lose_votes_and_matters_elsewhere(rare):
    res = rank(draw_votes(rare))
    text = " ".join(res.explain().split())
    assert not res.estimates.description.ordered
    reason = "2 of 5 pairs with at least 10 labels have fewer than 10 in one of their two display orders"
    assert f"Display order is ignored, because {reason}" in text
    other = rank(draw_votes(rare), position_bias=False)
    # The last model is shown first by design, so that an effect of order is taken off.
    assert res.diagnostics.order_effect_error > 0
    assert other.diagnostics.order_effect_error == 0
    assert (res.bse >= other.bse).all()
    assert other.estimates.description.order_reason == ""
    even = draw_votes(np.full((4, 4), 30) * ~np.eye(4, dtype=bool))
    both = rank(even)
    assert both.estimates.description.ordered
    assert "every pair with at least 10 labels has at least 10 in each display order" in both.explain().replace(
        "\n  ", " "
    )
    np.testing.assert_array_equal(both.params, rank(even, position_bias=True).params)


def test_rows_of_a_model_against_itself_are_no_votes_that_ten_labels_lose():
    """Pairs with fewer than ten labels have 2 % of the votes, and 6 % with 15 rows that no setting can use."""
    counts = np.full((5, 5), 20) * ~np.eye(5, dtype=bool)
    counts[3, 4] = counts[4, 3] = 4

    def with_same(counts):
        votes = draw_votes(counts)
        return pd.concat([votes, votes[:15].assign(model_b=votes["model_a"][:15])], ignore_index=True)

    assert dr.check(PLAIN, with_same(counts)).options.loc["min_labels", "value"] == 10
    for j, k in ((2, 4), (1, 3)):
        counts[j, k] = counts[k, j] = 4
    with pytest.warns(
        dr.DmlrankWarning,
        match=f"without pairs that have fewer than 10, {100 * 24 / counts.sum():.3g} % of the votes would be lost",
    ):
        rank(with_same(counts))


@pytest.mark.parametrize("given", ["category weights", "mu", "propensities"])
def test_what_needs_both_orders_keeps_them(rare, given):
    votes = draw_votes(rare)
    n = len(votes)
    options = {
        "category weights": {"category_weights": ((1, 0, 0.3), (0, 1, 0.5))},
        "mu": {"mu": np.full((n, 4, 4, 3), 1 / 3)},
        "propensities": {"propensity": np.broadcast_to(rare / n, (n, 4, 4))},
    }[given]
    words = {
        "category weights": "treat the two items differently",
        "mu": "learning=Learning(mu=...) has probabilities for both orders",
        "propensities": "propensities of ordered pairs",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = rank(votes, min_labels=3, **options)
    assert res.estimates.description.ordered
    assert words[given] in res.estimates.description.order_reason


def test_votes_are_counted_by_model(rare):
    votes = draw_votes(rare)
    res = rank(votes)
    tidy = res.tidy().set_index("term")
    assert tidy.loc["m03", ["votes", "votes_left_out"]].tolist() == [66, 4]
    assert tidy.loc["m00", ["votes", "votes_left_out"]].tolist() == [193, 0]
    assert (res.diagnostics.n_votes, res.estimates.votes.n_used) == (len(votes), len(votes) - 4)
    text = res.explain()
    assert f"{len(votes) - 4} of {len(votes)} used" in text
    assert "66/70" in str(res.summary(slim=True))
    assert "1 pair with too few labels (4 votes) is not compared" in text
    likelihood = rank(votes, estimator="bt_mle", n_folds=5).tidy().set_index("term")
    assert likelihood["votes_left_out"].sum() == 0


def test_lost_votes_are_named_with_the_option_that_uses_them(rare):
    rare[3, 0], rare[0, 3] = 12, 12
    votes = draw_votes(rare)
    with pytest.warns(
        dr.DmlrankWarning,
        match=r"fewer than 10 votes in one of the two orders \(min_labels=10\), among them 37 of the 61 .* 'm03'",
    ) as caught:
        res = rank(votes, position_bias=True, min_labels=10)
    (said,) = [str(w.message) for w in caught if "left out" in str(w.message)]
    assert "position_bias=False would use 98.7 % of all votes" in said
    assert said in " ".join(res.summary().as_text().split())
    with pytest.warns(dr.DmlrankWarning, match=r"min_labels=5\) would use 98.7 %.*edge_weights='counts'"):
        rank(votes, position_bias=False, min_labels=30)
    with pytest.warns(dr.DmlrankWarning, match=r"min_labels=5\) would use 98.7 % of all votes$"):
        rank(votes, position_bias=False, min_labels=30, functional="dominance")
    edges = np.zeros((4, 4), dtype=bool)
    edges[[0, 1, 2], [1, 2, 3]] = edges[[1, 2, 3], [0, 1, 2]] = True
    with pytest.warns(dr.DmlrankWarning, match="add these pairs to the graph"):
        rank(votes, graph=edges, estimator="bt_mle", n_folds=5)


def test_errors_about_the_graph_name_what_works():
    counts = np.full((4, 4), 2) * ~np.eye(4, dtype=bool)
    with pytest.raises(GraphError, match=r"pairs=Pairs\(min_labels=2\), position_bias=False connects them"):
        rank(draw_votes(counts), min_labels=10, position_bias=True)
    with pytest.warns(
        dr.DmlrankWarning,
        match=r"min_labels='auto' is 1\): without pairs that have fewer than 10, 100 % of .*edge_weights='counts'",
    ):
        assert rank(draw_votes(counts)).estimates.votes.share_used == 1
    # Scores that take no edge weights are not sent there.
    with pytest.warns(dr.DmlrankWarning, match=r"100 % of .* count as much as others$"):
        rank(draw_votes(counts), functional="dominance")


def is_refused(check):
    return (check.problems["severity"] == "error").any()


@pytest.fixture
def odd_rows(rare):
    """Votes on four models with three rows of a model with itself, and two votes on a pair of its own."""
    rare[3] = rare[:, 3] = (30, 30, 30, 0)
    odd = pd.DataFrame(
        {
            "model_a": ["m00", "m00", "m01", "x", "x"],
            "model_b": ["m00", "m00", "m01", "y", "y"],
            "winner": ["tie", "model_a", "tie", "model_a", "model_b"],
        }
    )
    return pd.concat([draw_votes(rare), odd], ignore_index=True)


@pytest.mark.parametrize(
    "options", [{}, {"estimator": "bt_mle", "n_folds": 5}, {"min_labels": 1, "position_bias": False}]
)
def test_odd_rows_are_left_out_with_one_warning(odd_rows, options):
    with pytest.warns(dr.DmlrankWarning, match="are left out") as caught:
        res = rank(odd_rows, **options)
    (said,) = [str(w.message) for w in caught if "left out" in str(w.message)]
    assert "2 of 422 votes (0.47 %) are left out" in said
    assert "3 rows compare a model with itself ('m00' 2, 'm01' 1) and count as no vote" in said
    assert "2 votes are on 2 models that compared pairs do not connect with the others ('x', 'y')" in said
    clean = odd_rows[:-5]
    np.testing.assert_allclose(res.params, rank(clean, **options).params, atol=1e-12)
    assert res.diagnostics.models_dropped == ("x", "y")
    found = dr.check(PLAIN, odd_rows)
    assert not is_refused(found)
    assert found.problems["found"].str.contains("3 rows compare a model with itself").any()
    with pytest.raises(GraphError, match=r"component='largest'\) ranks the 4 models of the largest alone"):
        rank(odd_rows, component="all", **options)


@pytest.fixture(scope="module")
def thin():
    """Six models with 60 votes a pair, and "m06" with 12 votes on one pair and 4 on three; rows that are no votes."""
    counts = np.full((7, 7), 30) * ~np.eye(7, dtype=bool)
    counts[6], counts[:, 6] = (6, 2, 2, 2, 0, 0, 0), (6, 2, 2, 2, 0, 0, 0)
    votes = draw_votes(counts)
    skill = pd.Series([1.0, 0.8, 0.0, -0.2, -0.4, -0.6, 0.7], index=sorted({*votes["model_a"]}))
    ahead = 1 / (1 + np.exp(skill[votes["model_b"]].to_numpy() - skill[votes["model_a"]].to_numpy()))
    draw = np.random.default_rng(2).random(len(votes))
    votes["winner"] = np.where(draw < 0.3, "tie", np.where(draw < 0.3 + 0.7 * ahead, "model_a", "model_b"))
    odd = pd.DataFrame({"model_a": ["m00"] * 20 + ["x"] * 2, "model_b": ["m00"] * 20 + ["m00"] * 2, "winner": "tie"})
    return pd.concat([votes, odd], ignore_index=True).assign(user=lambda frame: np.arange(len(frame)) // 2)


@pytest.fixture(scope="module")
def thin_page(thin):
    pytest.importorskip("jinja2")
    return rank(thin, cov_type="cluster", cov_kwds={"groups": "user"}).report()


def text_of(page):
    """The text of a page as a reader sees it."""
    shown = re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", page, flags=re.S)
    return " ".join(html.unescape(shown).split())


def test_a_rival_with_few_votes_does_not_set_how_many_more_votes_decide(thin, thin_page):
    wanted = (
        r"About ([\d,]+) independent values of the column 'user' in all \(463 so far; about 2 votes of each, [\d,]+ "
        r"votes\) would decide it with 80 % chance if leads are as estimated, with pairs drawn as so far\."
    )
    found = re.search(wanted, text_of(thin_page))
    assert found
    usual = rank(
        thin[~thin[["model_a", "model_b"]].isin(["m06", "x"]).any(axis=1)],
        cov_type="cluster",
        cov_kwds={"groups": "user"},
    )
    without = re.search(r"About ([\d,]+) independent values of the column 'user' in all", usual.verdict())
    assert 0.5 < int(found[1].replace(",", "")) / int(without[1].replace(",", "")) < 2


def test_a_win_probability_over_one_opponent_is_not_shown(thin, thin_page):
    summary = rank(thin).summary()
    assert {row[0]: row[-1] == "-" for row in summary.rows} == {f"m0{j}": j == 6 for j in range(7)}
    assert 'was compared with, which differ ("-": fewer than 3).' in summary.notes[-1]
    assert re.search(r'<bdi>m06</bdi>.*<td class="wide" data-sort="-1">–<td', thin_page)
    assert "averaged over the models that it is compared with (a dash stands for fewer than 3)" in text_of(thin_page)
    # Of four models, one that has met two of the three others has a probability.
    counts = np.full((4, 4), 30) * ~np.eye(4, dtype=bool)
    counts[0, 3] = counts[3, 0] = 0
    assert not any("-" in row for row in rank(draw_votes(counts)).summary().rows)


def test_a_page_says_what_became_of_every_row_and_how_many_votes_are_ties(thin):
    pytest.importorskip("jinja2")
    later = pd.concat([thin, thin[:3].assign(winner="none")], ignore_index=True)
    res = rank(later, categories={"none": "missing"})
    text = text_of(res.report())
    said = (
        "949 rows: 20 of a model against itself, 3 without a vote, 2 with a vote on a model that is left out, 12 with "
        "a vote on a pair that is not compared; the votes of the other 912 are used."
    )
    assert said in text
    assert said in " ".join(res.summary().notes)
    assert text.count(said) == 1
    assert "912 votes used, of 949 rows (see Data below)" in text
    share = (thin["winner"][thin["model_a"] != thin["model_b"]][:924] == "tie").mean()
    assert text.count(f"A tie counts as half a win; {100 * share:.2g} % of the votes are ties.") == 1
    no_ties = rank(draw_votes(np.full((3, 3), 30) * ~np.eye(3, dtype=bool)).query("winner != 'tie'")).report()
    assert "A tie counts" not in no_ties


def test_doubts_about_some_models_do_not_concern_the_others(thin, thin_page):
    said = "Intervals, tests and ranks of m06 may not hold for these data"
    rest = "This does not concern comparisons among the other 6 models."
    res = rank(thin)
    for text in (" ".join(res.summary().notes), res.verdict(), " ".join(res.explain().split()), text_of(thin_page)):
        assert f"{said}: 1 warning of the fit says why. {rest}" in text
    assert res.diagnostics.doubtful_models == ("m06",)


def test_many_votes_are_not_left_out(odd_rows):
    apart = pd.concat([odd_rows, *[odd_rows[-2:]] * 20], ignore_index=True)
    with pytest.raises(
        GraphError, match=r"the largest has 90.\d % of the votes, and 95 % have to stay; pairs=Pairs\(component='la"
    ):
        rank(apart)
    assert "component='largest'" in dr.check(PLAIN, apart).problems["found"][0]
    assert not is_refused(dr.check(PLAIN, apart, pairs=dr.Pairs(component="largest")))
    assert rank(apart, component="largest").models == rank(odd_rows).models
    itself = pd.concat([odd_rows, *[odd_rows[-5:-2]] * 20], ignore_index=True)
    with pytest.raises(dr.DmlrankError, match="63 of 485 rows compare a model with itself"):
        rank(itself)
    assert dr.check(PLAIN, itself).problems["found"][0].startswith("63 of 485 rows compare a model with itself")


def test_check_says_what_settings_cost(rare):
    rare[3, 0], rare[0, 3] = 12, 12
    votes = draw_votes(rare)
    found = dr.check(PLAIN, votes)
    assert not found.options.loc["position_bias", "value"]
    row = found.settings.loc[(True, 10, "equal")]
    assert row["votes"] == len(votes) - 37
    ordered = dr.check(PLAIN, votes, position_bias=True, pairs=dr.Pairs(min_labels=10))
    assert ordered.options.loc["position_bias", "value"]
    assert ordered.problems["advice"].str.contains("With position_bias=False it would use 98.7 % of").any()


def test_the_command_line_reads_yes_no_and_auto():
    parse = OPTIONS["position_bias"].parse
    assert [parse(word) for word in ("yes", "No", "auto", "true")] == [True, False, "auto", True]


# --- Given propensities ---------------------------------------------------------------------------------------------


def given(factor=1.0, **options):
    simulator = dr.datasets.Bt(n_items=4, n_features=2, gamma=1)
    votes = simulator.sample(600, rng=0)
    x = votes.drop_duplicates("question_id")[["x0", "x1"]].to_numpy()
    options = {"propensity": simulator.propensity(x) * factor, "mu": simulator.mu(x), "position_bias": True} | options
    options |= {"context": "question_id", "rng": 0, "n_folds": 2}
    return dr.dml_rank("winner ~ x0 + x1 | model_a + model_b", votes, **in_objects(options))


@pytest.mark.parametrize("options", [{}, {"propensity": "propensity"}])
def test_right_propensities_pass(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert given(**options).diagnostics.propensity_factor == pytest.approx(1, abs=0.1)


def test_propensities_ten_times_too_small_are_named():
    with pytest.warns(dr.DmlrankWarning, match=r"S / pi .* is 9\.\d+ .*about 9\.\d+ times too small"):
        given(0.1)


def test_propensities_of_the_unordered_pair_are_named():
    with pytest.warns(dr.DmlrankWarning, match="in the display order that was shown"):
        given(1.9)


def test_a_column_of_ordered_propensities_without_order_is_named():
    with pytest.warns(dr.DmlrankWarning, match="in either display order, the sum over both"):
        given(propensity="propensity", mu=None, position_bias=False, tune={"n_estimators": 20})


def test_the_summary_shows_the_pair_with_the_fewest_votes(rare):
    results = rank(draw_votes(rare), propensity="marginal", min_labels=1)
    votes = np.where(np.eye(4, dtype=bool), 1000, rare + rare.T)
    assert results.estimates.description.smallest_pair == votes.min() == 4
    assert "Smallest pair:" in results.explain()


def test_models_with_few_votes_are_named_and_can_be_left_out(tmp_path, capsys):
    rng, n, models = np.random.default_rng(0), 3000, np.array(["a", "b", "c", "d", "new"])
    first, second = two_of(rng, 4, n)
    few = rng.random(n) < 0.02
    first, second = np.where(few, 4, first), np.where(few, 0, second)
    ahead = rng.random(n) < 0.5 + 0.12 * (second - first) / 3 + 0.12 * few
    votes = pd.DataFrame({"left": models[first], "right": models[second], "winner": np.where(ahead, "left", "right")})
    n_few = int(few.sum())
    path = tmp_path / "votes.csv"
    votes.to_csv(path, index=False)
    assert main(["fit", SIDES, str(path), "--functional", "bt"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    named = f"new ({n_few} votes) has too few votes to be placed"
    assert f"{named}; res.update(min_votes={n_few + 1}) ranks the others." in said
    expected = dr.dml_rank(SIDES, votes[~few], functional="bt", rng=0)
    with pytest.warns(dr.DmlrankWarning, match=rf"left out with {n_few} of 3,000 votes: new {n_few} "):
        res = dr.dml_rank(SIDES, votes, functional="bt", pairs=dr.Pairs(min_votes=n_few + 1), rng=0)
    np.testing.assert_allclose(res.params, expected.params, rtol=1e-12)
    assert "too few votes" not in res.verdict()
    again = dr.dml_rank(SIDES, votes, functional="bt", rng=0).update(min_votes=n_few + 1)
    pd.testing.assert_frame_equal(again.cov_params(), res.cov_params())
    # The votes in the data count: those of y on x, which is left out, too.
    chain = pd.concat([votes[~few], pd.DataFrame({"left": ["x"] * 5 + ["y"] * 6, "right": ["y"] * 5 + ["a"] * 6})])
    chain["winner"] = chain["winner"].fillna("left")
    with pytest.warns(dr.DmlrankWarning, match=r"1 of 6 models have fewer than 10 votes .* 5 of .*: x 5"):
        kept = dr.dml_rank(SIDES, chain, functional="bt", pairs=dr.Pairs(min_votes=10, min_labels=1), rng=0)
    assert set(kept.models) == {*models[:4], "y"}
    assert any(
        "fewer than 10 votes and are left out" in text
        for text in dr.check(SIDES, chain, pairs=dr.Pairs(min_votes=10)).problems["found"]
    )
    with pytest.raises(DataError, match=r"min_votes=90000\) leaves 0 models"):
        dr.dml_rank(SIDES, votes, pairs=dr.Pairs(min_votes=90000))

"""What a check finds is what is in the data, and what it warns of is what a fit stumbles over."""

import dataclasses

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import dmlrank as dr
from dmlrank.exceptions import ColumnError, FormulaError, OptionError, OptionTypeError, OutcomeError
from dmlrank.inspection.run_check import order_table
from dmlrank.options import in_objects

FORMULA = "winner ~ x0 + x1 | model_a + model_b"


@pytest.fixture(scope="module")
def frame(draw_battles):
    return draw_battles(np.random.default_rng(0), 500, 4, 4, repeats=True, unlabelled=25).frame


@pytest.fixture(scope="module")
def found(frame):
    return dr.check(FORMULA, frame, context="prompt", pairs=dr.Pairs(min_labels=5))


def words(check):
    return " ".join(check.problems[["found", "advice"]].to_numpy().ravel())


def number(check, name):
    return check.counts.loc[name, "number"]


def compared(fit):
    return {(fit.models[j], fit.models[k]) for j, k in zip(*np.nonzero(np.triu(fit.graph.edges)), strict=True)}


def test_counts_are_those_of_a_fit(frame, found, rank):
    fit = rank(frame, FORMULA, tune={"n_estimators": 2}, n_folds=2, min_labels=5)
    d = fit.diagnostics
    counts = [number(found, name) for name in ("prompts", "votes", "comparisons")]
    assert counts == [fit.nobs, d.n_votes, d.n_comparisons]
    assert number(found, "prompts_without_a_label") == fit.estimates.description.n_unlabelled == 25
    assert list(found.models.index) == fit.models
    assert {*found.pairs.index[found.pairs["compared"]]} == compared(fit)
    assert (number(found, "rows"), number(found, "rows_with_missing_values")) == (len(frame), 0)


def test_labels_with_their_meaning_and_votes(frame, found):
    expected = frame["winner"].value_counts()
    assert found.labels["votes"].to_dict() == expected.to_dict()
    assert found.labels["read_as"].to_dict() == {
        "model_a": "first",
        "model_b": "second",
        "both_good": "both_good",
        "both_bad": "both_bad",
    }
    assert found.labels["share"].sum() == pytest.approx(1)


def test_pairs_against_a_count_by_hand(frame, found):
    labelled = frame[frame["winner"].notna()]
    worth = labelled["winner"].map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5)
    cells = labelled.assign(worth=worth).groupby(["prompt", "model_a", "model_b"])["worth"].mean().reset_index()
    assert len(found.pairs) == 6
    for pair in found.pairs.reset_index().itertuples():
        one, other = (
            cells[(cells["model_a"] == a) & (cells["model_b"] == b)]["worth"]
            for a, b in ((pair.first, pair.second), (pair.second, pair.first))
        )
        assert (pair.shown_first, pair.shown_second) == (len(one), len(other))
        assert pair.contexts == len(one) + len(other)
        assert pair.win_share == pytest.approx((one.sum() + (1 - other).sum()) / pair.contexts)
        both = {pair.first, pair.second}
        assert pair.votes == sum({a, b} == both for a, b in labelled[["model_a", "model_b"]].to_numpy())
    assert found.models["votes"].sum() == 2 * number(found, "votes")
    assert (found.models["share_first"] * found.models["comparisons"]).sum() == pytest.approx(
        number(found, "comparisons")
    )


def test_the_order_test_is_a_sum_of_chi_squares():
    counts = np.array([[0, 30, 12], [20, 0, 7], [15, 0, 0]])
    expected = sum(chisquare(pair).statistic for pair in ((30, 20), (12, 15), (7, 0)))
    test = order_table(counts, counts / 2, counts / 4).loc["balance"]
    assert test["value"] == pytest.approx(expected)
    assert test["df"] == 3


def test_a_strong_model_shown_first_is_no_position_effect():
    # The strong item wins 9 of 10 in both orders and is shown first nine times in ten.
    counts = np.array([[0, 900], [100, 0]])
    total = np.array([[0.0, 810.0], [10.0, 0.0]])
    effect = order_table(counts, total, total)
    assert effect["value"][1:].tolist() == pytest.approx([0.82, 0.5])
    assert effect.loc["first wins, adjusted", "p_value"] == pytest.approx(1)


def test_a_position_effect_is_reported(frame):
    battles = dr.datasets.simulate_arena(n=2000, rng=0)
    battles.loc[battles["winner"].isin(["tie", "tie (bothbad)"]), "winner"] = "model_a"
    found = dr.check("winner ~ 1 | model_a + model_b", battles)
    assert "There is a position effect" in words(found)
    assert "equally often, so that this hardly changes the scores of a fit that ignores display order" in words(found)
    wins = found.order.loc["first wins, adjusted"]
    assert wins["p_value"] < 0.001 < wins["std_error"]
    assert f"wins {wins['value']:.3f} of the comparisons if both" in words(found)


def test_unbalanced_order_is_reported():
    battles = dr.datasets.simulate_arena(n=3000, rng=0)
    keep = (battles["model_a"] < battles["model_b"]) | (np.arange(3000) % 3 == 0) | battles["winner"].isna()
    found = dr.check("winner ~ 1 | model_a + model_b", battles[keep.fillna(True)])
    assert found.order.loc["balance", "p_value"] < 1e-6
    assert "Display order is not balanced" in words(found)
    # Names that are spelt otherwise on one side are no display order.
    even = dr.datasets.simulate_arena(n=3000, rng=0)
    even.loc[even["winner"].isin(["tie", "tie (bothbad)"]), "winner"] = "model_a"
    even.loc[::3, "model_b"] = even["model_b"].str.upper()
    found = dr.check("winner ~ 1 | model_a + model_b", even)
    assert found.order.loc["balance", "p_value"] < 1e-6
    assert "Display order is not balanced" not in words(found)
    assert "There is a position effect" in words(found)
    assert "would mix this effect into the scores" not in words(found)
    assert "differ only by letter case" in found.problems["found"][0]


def test_a_disconnected_graph_is_reported_not_raised():
    apart = dr.datasets.simulate_arena(n=2000, rng=0)
    left = ["gpt-4", "claude-v1", "palm-2"]
    apart = apart[apart["winner"].isna() | (apart["model_a"].isin(left) == apart["model_b"].isin(left))]
    found = dr.check("winner ~ 1 | model_a + model_b", apart, pairs=dr.Pairs(min_labels=3))
    assert set(found.models.index[found.models["component"] == 2]) == set(left)
    assert "component='largest'" in found.problems["found"][0]
    assert found.models["component"].value_counts().to_dict() == {1: 5, 2: 3}
    with pytest.raises(dr.DmlrankError):
        dr.dml_rank("winner ~ 1 | model_a + model_b", apart, pairs=dr.Pairs(min_labels=3), rng=0)


def test_pairs_left_out_are_named(frame):
    found = dr.check(FORMULA, frame, context="prompt", pairs=dr.Pairs(min_labels=1000))
    assert not found.pairs["compared"].any()
    assert "6 of 6 pairs have labels, but fewer than min_labels=1000" in words(found)
    assert "do not connect" in found.problems["found"][0]


def test_missing_values_are_counted_by_column(frame):
    holes = frame.copy()
    holes.loc[[3, 4], "x0"] = np.nan
    holes.loc[frame.index[frame["winner"].notna()][0], "model_a"] = None
    found = dr.check(FORMULA, holes)
    assert found.columns.loc[["model_a", "x0"], "missing"].tolist() == [1, 2]
    assert "'x0' in 2 of" in words(found)
    assert "missing='drop' drops 3 rows" in words(found)
    kept = dr.check(FORMULA, holes.assign(model_a=frame["model_a"]), missing="keep")
    assert number(kept, "rows_with_missing_values") == 0


def test_repeated_votes_and_prompts(frame, found):
    labelled = frame[frame["winner"].notna()]
    votes = labelled.groupby("prompt").size()
    cells = labelled.groupby(["prompt", "model_a", "model_b"])["winner"]
    several = cells.size() > 1
    assert number(found, "prompts_with_several_votes") == (votes > 1).sum()
    assert found.counts.loc["prompts_with_several_votes", "note"] == f"at most {votes.max()}"
    assert number(found, "comparisons_with_several_votes") == several.sum()
    assert number(found, "comparisons_that_disagree") == (cells.nunique()[several] > 1).sum()
    assert "have more than one vote" in words(found)
    # Rows of one prompt without context= look like the same prompt.
    assert "are these the same prompt?" in words(dr.check(FORMULA, frame))
    renamed = frame.assign(prompt=frame["prompt"].where(frame.index > 3, "again"))
    assert not dr.check("winner ~ 1 | model_a + model_b", renamed, context="prompt").columns["repeats"].any()


def test_the_same_text_under_two_identifiers():
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    numbers = battles["question_id"].astype(str).where(battles.index != 7, battles["question_id"].astype(str)[3])
    battles = battles.assign(prompt="write about number " + numbers)
    found = dr.check(
        "winner ~ text(prompt, 2) | model_a + model_b", battles, context="question_id", pairs=dr.Pairs(min_labels=1)
    )
    assert found.columns["repeats"].to_dict() == {"prompt": 1}
    assert "repeat a value of 'prompt'" in words(found)


def test_clusters_have_numbers_and_sizes(frame):
    found = dr.check(FORMULA, frame, context="prompt", cov_kwds={"groups": ["topic", "judge"]})
    sizes = frame.groupby("prompt")["topic"].first().value_counts()
    row = found.clusters.loc["topic"]
    assert (row["clusters"], row["smallest"], row["largest"]) == (7, sizes.min(), sizes.max())
    assert row["effective"] == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum())
    assert found.clusters["of"].tolist() == ["contexts", "votes"]
    assert "only 7 clusters in 'topic'" in words(found)
    one = dr.check(FORMULA, frame.assign(one="x"), context="prompt", cov_kwds={"groups": "one"}).problems
    assert one[["severity", "where"]].to_numpy().tolist()[0] == ["error", "clusters"]
    with pytest.raises(OptionError):
        dr.check(FORMULA, frame, context="prompt", cov_kwds={"groups": "judge"})


def test_rare_and_odd_labels():
    battles = pd.DataFrame({"winner": [1, 0, 1], "model_a": ["a", "b", "a"], "model_b": ["b", "a", "b"]})
    found = dr.check("winner ~ 1 | model_a + model_b", battles, pairs=dr.Pairs(min_labels=1))
    assert found.labels["read_as"].to_dict() == {"1": "first", "0": "second"}
    assert "fewer than 10 votes each: '1', '0'" in words(found)
    with_feature = dr.check("winner ~ x | model_a + model_b", battles.assign(x=[1, 2, 3]), pairs=dr.Pairs(min_labels=1))
    assert "3 prompts cannot be divided into 5 folds" in words(with_feature)
    only = dr.check("winner ~ 1 | model_a + model_b", battles.assign(winner="model_a"), pairs=dr.Pairs(min_labels=1))
    assert "No label says that the model shown second wins" in words(only)


def test_nothing_is_trained_on_the_data(frame, monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a model was trained")

    for name in ("train", "cv"):
        monkeypatch.setattr(lightgbm, name, refuse)
    assert dr.check(FORMULA, frame, context="prompt").counts.loc["comparisons", "number"] > 0


def odd_battles():
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    labelled = battles.index[battles["winner"].notna()]
    battles.loc[labelled[:3], "model_b"] = battles["model_a"]
    battles.loc[labelled[3:8], "winner"] = "0-1"
    compared = set(battles.loc[labelled[8], ["model_a", "model_b"]])
    battles.loc[labelled[8], "winner"] = min(set(battles["model_a"].dropna()) - compared)
    return battles


def test_rows_that_a_fit_refuses_are_reported_and_left_out():
    battles = odd_battles()
    found = dr.check("winner ~ 1 | model_a + model_b", battles, pairs=dr.Pairs(min_labels=1))
    errors = found.problems["found"][found.problems["severity"] == "error"]
    assert "Unknown winner label '0-1', first in row " in errors[0]
    assert "'0-1' 5, " in errors[0]
    assert found.labels.loc["0-1", ["read_as", "votes"]].tolist() == ["not read", 5]
    assert "'both_good'" in errors[0]
    assert "1 votes name a winner that was not compared, first in row " in errors[1]
    assert len(errors) == 2
    assert "3 rows compare a model with itself ('" in words(found)
    assert (number(found, "rows_that_cannot_be_read"), number(found, "rows_with_missing_values")) == (6, 0)
    assert number(found, "votes") == battles["winner"].notna().sum() - 9
    assert "Rows that cannot be read:" in str(found)
    known = dr.check(
        "winner ~ 1 | model_a + model_b", battles, pairs=dr.Pairs(min_labels=1), categories={"0-1": "second"}
    )
    assert number(known, "rows_that_cannot_be_read") == 1


def test_preferences_and_probabilities_that_a_fit_refuses_are_reported_and_left_out():
    battles = dr.datasets.simulate_arena(n=600, rng=0).dropna().reset_index(drop=True)
    share = np.random.default_rng(0).random(len(battles))
    battles = battles.assign(winner=share, p_a=share, p_b=1 - share)
    battles.loc[[3, 5], "winner"] = [1.4, -0.2]
    battles.loc[4, "p_b"] += 0.9
    battles.loc[[7, 8], ["p_a", "p_b"]] = 1.5, -0.5
    for outcome, said, n_wrong in (
        ("winner", "The outcome 'winner' is 1.4 in row 3 (2 such rows): preferences lie in [0, 1]", 2),
        ("p_a + p_b", "(3 such rows); probabilities sum to one, each at least 0.", 3),
    ):
        found = dr.check(f"{outcome} ~ 1 | model_a + model_b", battles, pairs=dr.Pairs(min_labels=1))
        assert said in found.problems["found"][0]
        assert (number(found, "rows_that_cannot_be_read"), number(found, "votes")) == (n_wrong, len(battles) - n_wrong)
    with pytest.raises(OutcomeError):
        dr.dml_rank("winner ~ 1 | model_a + model_b", battles, pairs=dr.Pairs(min_labels=1), rng=0)
    with pytest.raises(OutcomeError):
        dr.check("winner ~ 1 | model_a + model_b", battles.assign(winner=2.5), pairs=dr.Pairs(min_labels=1))


@pytest.mark.parametrize(
    "options",
    [
        {"position_bias": False},
        {"graph": "complete"},
        {"edge_weights": "counts"},
        {"position_bias": False, "edge_weights": "counts", "graph": "observed"},
    ],
)
def test_options_about_pairs_and_votes_are_those_of_a_fit(frame, rank, options, ignore_warnings):
    found = dr.check(FORMULA, frame, **in_objects({"context": "prompt", "min_labels": 60, **options}))
    try:
        fit = rank(frame, FORMULA, functional="bt", tune={"n_estimators": 2}, n_folds=2, min_labels=60, **options)
    except dr.DmlrankError:
        assert number(found, "components") > 1
        return
    assert {*found.pairs.index[found.pairs["compared"]]} == compared(fit)
    assert [*found.counts.loc[["votes", "comparisons"], "number"]] == [
        fit.diagnostics.n_votes,
        fit.diagnostics.n_comparisons,
    ]


def test_edge_weights_and_graphs_that_a_fit_refuses_are_refused(frame):
    wrong = np.ones((3, 3))
    with pytest.raises(dr.DmlrankError, match="edge_weights"):
        dr.check(FORMULA, frame, context="prompt", pairs=dr.Pairs(min_labels=1, edge_weights=wrong))
    with pytest.raises(dr.DmlrankError, match="graph="):
        dr.check(FORMULA, frame, context="prompt", pairs=dr.Pairs(graph=wrong > 0))


def test_text_and_page_show_the_frames(found):
    pytest.importorskip("jinja2")
    text, page, frames = str(found), found.report(), found.frames()
    assert len(frames) == 13
    assert all(len(line) <= 94 for line in text.splitlines())
    for name in ("labels", "order", "settings", "models"):
        for row in frames[name].iloc[:, 0].astype(str):
            assert row.lower().replace("true", "yes").replace("false", "no") in text.lower()
            assert name.capitalize() in page
    for fact in ("Prompts without a label", "Comparisons that disagree"):
        assert fact in text
        assert fact in page
    for place, (problem, advice) in enumerate(found.problems[["found", "advice"]].to_numpy(), start=1):
        assert f"[{place}] {problem} {advice}".strip() in " ".join(text.split())
    assert {*found.problems["where"]} <= {"", *frames}


def test_a_good_file_has_no_problems():
    battles = dr.datasets.simulate_arena(n=3000, rng=0)
    found = dr.check("winner ~ C(category) | model_a + model_b", battles, context="question_id")
    assert found.problems.empty
    assert "No problems were found." in str(found)
    assert "No problems were found." in found._repr_html_()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.problems = found.order


def test_functions_of_the_caller_are_found(frame):
    def doubled(column):
        return 2 * column

    found = dr.check("winner ~ doubled(x0) | model_a + model_b", frame, context="prompt")
    assert found.features.index.tolist() == ["doubled(x0)"]


@pytest.mark.parametrize(
    ("formula", "options", "error"),
    [
        ("winner ~ x0", {}, FormulaError),
        ("winer ~ x0 | model_a + model_b", {}, ColumnError),
        (FORMULA, {"context": "promt"}, ColumnError),
        (FORMULA, {"categories": ["tie"]}, OptionTypeError),
        (FORMULA, {"cov_kwds": {"group": "topic"}}, OptionError),
        ("prompt ~ x0 | model_a + model_b", {}, OutcomeError),
    ],
)
def test_what_cannot_be_read_is_an_error(frame, formula, options, error):
    with pytest.raises(error):
        dr.check(formula, frame, **in_objects(options))


def test_a_table_of_zeros_and_ones_says_which_margins_can_pass_a_gate():
    table = pd.DataFrame({"task": np.repeat(range(80), 2), "model": ["a", "b"] * 80, "score": [1, 0, 1, 1] * 40})
    found = dr.check("score ~ 1 | model", table, context="task")
    assert (
        "can be 0.037 and more if none is lost; 0.01 needs 299, 0.02 needs 149" in found.counts.loc["prompts", "note"]
    )
    grades = dr.check("score ~ 1 | model", table.assign(score=table["score"] / 2), context="task")
    assert not grades.counts.loc["prompts", "note"]


def test_one_model_is_checked_like_several():
    rng = np.random.default_rng(0)
    answers = pd.DataFrame({"prompt": range(200), "model": "alone", "judge": rng.normal(size=200)})
    answers["grade"] = (answers["judge"] + rng.normal(size=200)).where(answers.index < 50)
    found = dr.check("grade ~ 1 | model", answers, context="prompt", judge="judge")
    assert found.models.loc["alone", ["prompts", "missing"]].tolist() == [50, 150]
    assert "50 of 200 answers" in found.grades["found"].iloc[0]


def test_errors_in_a_table_of_scores_count_for_their_model():
    table = pd.DataFrame({"q": np.repeat(range(6), 2), "m": ["a", " b "] * 6, "s": 1.0, "error": None})
    table.loc[[1, 2, 5], ["s", "error"]] = np.nan, "timeout"
    found = dr.check("s ~ 1 | m", table, context="q")
    assert found.models["errors"].to_dict() == {"a": 1, "b": 2}

"""Tables and pictures of pairwise tests, and the sentence on first place."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

from ...support import optional, simulated_votes

plt = optional("matplotlib.pyplot")


@pytest.fixture(scope="module")
def result(arena_result):
    return arena_result


def one_line(summary):
    return " ".join(summary.as_text().split())


def test_the_table_has_a_row_per_difference_with_its_numbers(result):
    tests = result.t_test_pairwise(models=["gpt-4", "palm-2", "koala-13b"])
    summary = tests.summary()
    assert len(summary.rows) == 3
    for cells, row in zip(summary.rows, tests.result_frame.itertuples(), strict=True):
        assert cells[0] == f"{row.first} - {row.second}"
        shown = [float(cell) for cell in (*cells[1:4], *cells[6:])]
        expected = [row.estimate, row.std_error, row.statistic, row.conf_low, row.conf_high]
        np.testing.assert_allclose(shown, expected, atol=0.006)
    assert "[95% simult. CI]" in one_line(summary)
    assert f"The critical value of the intervals is {tests.critical:.2f}" in one_line(summary)
    for written in (summary.as_html(), summary.as_latex(), summary.as_markdown(), summary.as_csv()):
        assert "palm-2" in written
    assert str(tests) == summary.as_text()


def test_many_differences_are_printed_of_the_best_models():
    votes = simulated_votes(16, 3000, seed=0)
    pairs = dr.Pairs(min_labels=1)
    res = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, context="prompt", pairs=pairs, rng=0)
    assert len(res.t_test_pairwise(models=res.models[:15]).summary().rows) == 105
    tests = res.t_test_pairwise()
    summary, frame = tests.summary(), tests.result_frame
    assert len(frame) == 120
    best = frame[frame["first"].isin(tests.models[:10]) & frame["second"].isin(tests.models[:10])]
    assert [row[0] for row in summary.rows] == (best["first"] + " - " + best["second"]).tolist()
    assert "120 between 16 models" in one_line(summary)
    said = (
        "shows 10 of 16 models; 6 are left out. Adjusted p-values, intervals and the numbers above the table refer to"
    )
    assert said in one_line(summary)
    assert "All differences: summary(top=16), or the frame result_frame." in one_line(summary)
    assert len(tests.summary(top=16).rows) == 120


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "none"}, ["pointwise CI", "hold for one difference"]),
        ({"method": "fdr_bh"}, ["pointwise CI", "false discovery rate"]),
        ({"method": "step-down"}, ["simult. CI", "those of the single step"]),
        ({"side": "equivalence", "delta": 0.3}, ["[equivalence limits]", "lies between -0.3 and 0.3"]),
        ({"side": "noninferiority", "delta": 0.3}, ["the difference is above -0.3", "inf"]),
        ({"against": "gpt-4"}, ["Compared with: gpt-4"]),
        ({"alpha": 0.2}, ["[80% simult. CI]"]),
    ],
)
def test_the_table_says_what_was_done(result, options, words):
    text = one_line(result.t_test_pairwise(**options).summary())
    for word in words:
        assert word in text


def test_small_and_large_units_are_shown_with_two_figures(result):
    small = result.update(functional="rank_centrality").t_test_pairwise().summary()
    assert all(len(row[2].lstrip("0.")) >= 2 for row in small.rows)
    elo = result.rescale("elo").t_test_pairwise().summary()
    assert "bt (log-odds projection), elo" in one_line(elo)
    assert all(len(row[1].split(".")[1]) == 1 for row in elo.rows)


def test_the_win_matrix_colours_what_is_rejected(result):
    tests = result.t_test_pairwise()
    axes = tests.plot()
    mesh = axes.collections[0].get_array()
    coloured = ~np.ma.getmaskarray(mesh) & np.isfinite(np.ma.filled(mesh, np.nan))
    assert coloured.sum() == 2 * tests.rejected.sum()
    best = [label.get_text() for label in axes.get_yticklabels()]
    assert tuple(best) == tests.models
    matrix = np.ma.filled(mesh, np.nan).reshape(8, 8)
    row = tests.result_frame[tests.rejected].iloc[0]
    j, k = best.index(row["first"]), best.index(row["second"])
    assert matrix[j, k] == pytest.approx(row["estimate"])
    assert matrix[k, j] == pytest.approx(-row["estimate"])
    one_sided = result.t_test_pairwise(side="larger", delta=0.2)
    mesh = np.ma.filled(one_sided.plot().collections[0].get_array(), np.nan)
    assert np.isfinite(mesh).sum() == one_sided.rejected.sum()


def test_differences_from_one_model_are_drawn_with_their_limits(result):
    _, axes = plt.subplots()
    tests = result.t_test_pairwise(against="palm-2", side="noninferiority", delta=0.3)
    assert tests.plot(ax=axes) is axes
    frame = tests.result_frame
    assert [label.get_text() for label in axes.get_yticklabels()] == frame["first"].tolist()
    segments = np.array(axes.containers[0][2][0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 0], frame["conf_low"])
    # What has no upper limit ends beyond all estimates.
    assert (segments[:, 1, 0] > frame["estimate"].max()).all()


# --- first place ---------------------------------------------------------------------------------------------------


def test_first_place_is_open_with_the_gaps_that_more_prompts_would_show(result):
    text = " ".join(result.explain().split())
    claim = (
        r"First place is not decided: (\S+) leads, but (\S+) may be first, too \(test of first place: "
        r"P = ([\d.]+)\)\. \1 would by its score win (\d+) of 100 comparisons with \2 \(95 % interval "
        r"(\d+) to (\d+)\)\."
    )
    first, second, p, share, low, high = re.search(claim, text).groups()
    row = result.t_test_pairwise().result_frame.iloc[0]
    for said, column in ((share, "estimate"), (low, "conf_low"), (high, "conf_high")):
        assert int(said) == round(100 / (1 + np.exp(-row[column])))
    assert (first, second) == (row["first"], row["second"])
    assert float(p) == pytest.approx(result.t_test(f"{first} - {second}").pvalue, abs=6e-4)


@pytest.mark.parametrize("functional", ["borda", "bt"])
def test_votes_on_the_leader_and_its_rivals_decide_as_the_verdict_says(functional):
    """As many further votes on their pairs shrink the standard error as much as votes on all pairs would."""
    formula, votes = "winner ~ 1 | model_a + model_b", simulated_votes(12, 6000, seed=4)
    fit = dr.dml_rank(formula, votes, context="prompt", functional=functional, rng=0)
    text = " ".join(fit.explain().split())
    claim = (
        r"About ([\d,]+) more independent votes on pairs with the leader or (\S+) would .* "
        r"([\d,]+) independent prompts in all \(6,000 so far\)"
    )
    further, rival, prompts = re.search(claim, text).groups()
    pair = [fit.params.idxmax(), rival]
    involved = votes[votes["model_a"].isin(pair) | votes["model_b"].isin(pair)]
    times = int(prompts.replace(",", "")) / 6000
    # The two models' own pair counts twice, and numbers have two digits.
    assert int(further.replace(",", "")) / len(involved) == pytest.approx(times - 1, rel=0.15)
    added = [involved.assign(prompt=involved["prompt"] + f"-{copy}") for copy in range(2)]
    targeted = dr.dml_rank(formula, pd.concat([votes, *added]), context="prompt", functional=functional, rng=0)
    errors = [result.t_test(f"{pair[0]} - {pair[1]}").sd.item() for result in (fit, targeted)]
    assert errors[0] / errors[1] == pytest.approx(np.sqrt(3), rel=0.05)


def test_first_place_is_decided_where_it_is(result):
    text = " ".join(result.explain(alpha=0.95).split())
    assert re.search(r"First place is decided: \S+ is first \(test of first place: P = [\d.]+\)", text)
    assert "would decide it" not in text


def test_a_decision_beside_pairs_that_are_not_separated_is_explained():
    formula = "winner ~ 1 | model_a + model_b"
    for seed in range(3, 40):
        votes = simulated_votes(6, 400, seed=seed)
        fit = dr.dml_rank(formula, votes, context="prompt", pairs=dr.Pairs(min_labels=1), rng=0)
        said = fit.verdict()
        if "is first" in said and fit.ranks().result_frame["upper"].min() > 1:
            break
    leader = fit.params.idxmax()
    assert "First place is decided" not in said
    assert re.search(
        rf"{leader} is first if this is the only question \(test of first place: P = [\d.]+\); its rank in the table, "
        rf"1-{fit.ranks().loc[leader, 'upper']}, allows for questions about all 15 pairs of models at once\.",
        said,
    )
    # The first line of the page agrees with its ranks, and the other test stands below it.
    page = fit.report()
    headline, below = re.search(r"<summary><b>(.*?)</b>(.*?)<table", page, re.S).groups()
    assert leader in headline
    assert headline.endswith("are tied for first.")
    assert f"{leader} is first if this is the only question" in below
    assert "they alone leave" in page


def test_pairs_separated_are_those_without_a_common_letter(result):
    text = one_line(result.summary())
    groups = result.ranks()["group"].tolist()
    apart = sum(not set(a) & set(b) for i, a in enumerate(groups) for b in groups[:i])
    assert f"{apart} of 28 pairs are told apart" in text

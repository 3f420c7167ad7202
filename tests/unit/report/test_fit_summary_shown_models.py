"""Tables of some models, the short table and tables of small results print the numbers of the result."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank import exceptions as errors
from dmlrank.tables.summary_table import decimals

FORMULA = "winner ~ 1 | model_a + model_b"


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=1500, rng=0)


@pytest.fixture(scope="module")
def result(battles):
    return dr.dml_rank(FORMULA, battles, functional="bt", pairs=dr.Pairs(min_labels=5), position_bias=False, rng=0)


@pytest.fixture(scope="module")
def tables(result, battles):
    """Every result whose table has models, with the names in the order of its full table."""
    learned = dr.dml_rank(
        "winner ~ C(category) | model_a + model_b",
        battles,
        learning=dr.Learning(tune={"n_estimators": 2}, n_folds=2),
        rng=0,
        pairs=dr.Pairs(min_labels=1),
    )
    results = {
        "fit": result,
        "groups": learned.by("category"),
        "projection": learned.by("~ C(category)"),
        "comparison": dr.compare(result, result.update(functional="borda")),
        "plan": result.design(100),
        "differences": result.t_test_pairwise(against="gpt-4"),
    }
    return {name: (owner, [row[0] for row in owner.summary().rows]) for name, owner in results.items()}


KINDS = ["fit", "groups", "projection", "comparison", "plan", "differences"]


def without_pairs(rows):
    """Rows of a table without those of pairs, with which the summary of a plan ends."""
    return tuple(row for row in rows if " vs. " not in row[0])


# --- models= and top= -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_top_shows_the_first_rows_unchanged_and_says_how_many_are_left_out(tables, kind):
    owner, names = tables[kind]
    full, short = owner.summary(), owner.summary(top=3)
    n_rows = 2 if kind == "differences" else 3
    assert without_pairs(short.rows) == full.rows[:n_rows]
    assert re.match(r"The table shows 3 of 8 models; 5 are left out\. .* refer to all 8 models\.", short.notes[0])
    # The last note of a plan says how many pairs are shown.
    end = -1 if kind == "plan" else None
    assert short.notes[1:end] == full.notes[:end]
    assert (short.header, short.columns) == (full.header, full.columns)
    assert owner.summary(top=8) == owner.summary(top=100) == full
    for form in (short.as_text(), short.as_html(), short.as_latex(), short.as_markdown()):
        assert "5 are left out" in " ".join(form.split())
        assert all(name in form for name in names[:n_rows])


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_models_are_shown_in_the_order_in_which_they_are_named(tables, kind):
    owner, _ = tables[kind]
    rows = {row[0]: row for row in owner.summary().rows}
    chosen = ["palm-2", "gpt-4", "koala-13b"]
    assert without_pairs(owner.summary(models=chosen).rows) == tuple(rows[name] for name in chosen)
    assert without_pairs(owner.summary(models="palm-2").rows) == (rows["palm-2"],)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"models": ["gpt4"]}, errors.UnknownModelError),
        ({"models": ["gpt-4", "gpt-4"]}, errors.OptionError),
        ({"models": []}, errors.OptionError),
        ({"models": 3}, errors.OptionTypeError),
        ({"models": ["gpt-4"], "top": 1}, errors.OptionError),
        ({"top": 0}, errors.OptionError),
        ({"top": 2.5}, errors.OptionTypeError),
    ],
)
def test_wrong_choices_are_refused(tables, kind, options, error):
    with pytest.raises(error):
        tables[kind][0].summary(**options)


def test_differences_are_shown_between_the_named_models(result):
    tests = result.t_test_pairwise()
    names = ["koala-13b", "gpt-4", "palm-2"]
    rows = {row[0]: row for row in tests.summary().rows}
    shown = tests.summary(models=names)
    assert [row[0] for row in shown.rows] == ["gpt-4 - koala-13b", "palm-2 - koala-13b", "gpt-4 - palm-2"]
    assert all(row == rows[row[0]] for row in shown.rows)
    with pytest.raises(errors.OptionError):
        tests.summary(models="gpt-4")


# --- the short table --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [None, "elo"])
def test_the_short_table_has_the_numbers_of_the_result(result, unit):
    shown = result if unit is None else result.rescale(unit, mean=1000)
    table = shown.summary(slim=True)
    assert [head for head, _ in table.columns] == ["model", "score", "[95% simult. CI]", "votes"]
    frame = pd.DataFrame(table.rows, columns=["set", "model", "score", "low", "high", "votes"]).set_index("model")
    assert frame.index.tolist() == shown.params.sort_values(ascending=False).index.tolist()
    order, digits = frame.index, decimals(shown.bse.to_numpy(), fewest=3 if unit is None else 1)
    limits = shown.conf_int().loc[order]
    for column, numbers in (("score", shown.params), ("low", limits["lower"]), ("high", limits["upper"])):
        assert frame[column].tolist() == [f"{number:.{digits}f}" for number in numbers[order]]
    ranks = shown.ranks().loc[order]
    assert frame["set"].tolist() == [
        "-".join(map(str, sorted(set(ends)))) for ends in zip(ranks["lower"], ranks["upper"], strict=True)
    ]
    votes = shown.tidy().set_index("term")["votes"][order]
    assert frame["votes"].tolist() == [f"{count:,}" for count in votes]
    assert len(table.notes) == 1
    assert f"{shown.diagnostics.n_votes:,} votes" in table.notes[0]
    assert table.header == ()


def test_the_short_table_without_intervals_says_why(result):
    table = result.update(estimator="plugin").summary(slim=True)
    assert [head for head, _ in table.columns] == ["model", "score", "votes"]
    assert table.row_head == "order"
    assert [row[0] for row in table.rows] == [str(rank) for rank in range(1, 9)]
    assert "estimates without intervals" in table.notes[0]


# --- tables of small results ------------------------------------------------------------------------------------------


def test_every_small_result_has_every_form(result):
    share, region = result.win_probability("gpt-4", "palm-2"), result.ellipsoid(models=["gpt-4", "palm-2"])
    for owner, cell in (
        (share, f"{share.estimate:.3f}"),
        (region, f"{result.params['gpt-4']:.3f}"),
        (result.diagnostics, f"{result.diagnostics.log_loss:.3f}"),
        (result.design(100), "gpt-4"),
    ):
        table = owner.summary()
        for form in (table.as_text(), table.as_html(), table.as_latex(), table.as_markdown(), table.as_csv()):
            assert cell in form
        assert owner._repr_html_() == table.as_html()
        assert str(owner)
        assert owner.summary(title="Other").title == "Other"


def test_a_win_probability_has_the_digits_of_its_standard_error(result):
    share = result.win_probability("gpt-4", "dolly-v2-12b")
    row = share.summary().rows[0]
    numbers = (share.estimate, share.std_error, share.conf_low, share.conf_high)
    assert row == ("gpt-4 against dolly-v2-12b", *(f"{number:.3f}" for number in numbers))


def test_ends_of_a_region_are_the_extreme_values_in_it(result):
    for shown in (result, result.rescale("elo")):
        region = shown.ellipsoid(models=["gpt-4", "palm-2"])
        lengths, directions = region.axes()
        angle = np.linspace(0, 2 * np.pi, 4000)
        outline = region.center + ((directions * lengths) @ np.stack([np.cos(angle), np.sin(angle)])).T
        rows = np.array([row[1:] for row in region.summary().rows], dtype=float)
        tolerance = 0.051 if shown is not result else 5.1e-4
        np.testing.assert_allclose(rows[:, 0], shown.params[["gpt-4", "palm-2"]], atol=tolerance)
        np.testing.assert_allclose(rows[:, 1], shown.bse[["gpt-4", "palm-2"]], atol=tolerance)
        np.testing.assert_allclose(rows[:, 2], outline.min(axis=0), atol=tolerance)
        np.testing.assert_allclose(rows[:, 3], outline.max(axis=0), atol=tolerance)


def test_diagnostics_show_their_figures_and_warnings(result, battles):
    figures = {row[0]: row[1] for row in result.diagnostics.summary().rows}
    assert figures["equivalent prompts"] == f"{result.diagnostics.effective_contexts:,.0f}"
    assert result.diagnostics.summary().notes == ("The fit gave no warnings.",)
    likelihood = dr.dml_rank(FORMULA, battles, functional="bt", estimator="bt_mle")
    names = [row[0] for row in likelihood.diagnostics.summary().rows]
    assert "log-loss" in names
    assert "calibration slope of mu" not in names
    assert not any("nan" in cell for row in likelihood.diagnostics.summary().rows for cell in row)


# --- one rule for p-values and digits ---------------------------------------------------------------------------------


def test_no_table_shows_a_p_value_of_zero(result):
    tests = result.t_test_pairwise()
    texts = [
        result.summary().as_text(),
        tests.summary().as_text(),
        result.t_test("gpt-4 - dolly-v2-12b").summary().as_text(),
        result.t_test("gpt-4 - dolly-v2-12b", side="larger").summary().as_text(),
    ]
    for text in texts:
        assert "<0.001" in text
        assert not re.search(r"(?<![-\d.,])0\.000(?!\d)", text.rsplit("\n===", 1)[0])
    p = tests.result_frame["p_adjusted"]
    column = [row[5] for row in tests.summary().rows]
    assert column == ["<0.001" if number < 0.0005 else f"{number:.3f}" for number in p]


def test_numbers_that_are_rounded_to_zero_have_no_sign(result):
    centred = result.rescale("elo", anchor=("gpt-4", -0.001))
    row = next(row for row in centred.summary().rows if row[0] == "gpt-4")
    assert row[1] == "0.0"

"""Fits that adjust for style: what they estimate, what does not change them, and what they refuse."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import ColumnError, DataError, IntervalWarning, MissingDataError, OptionError, OptionTypeError
from dmlrank.options import in_objects
from tests.styled import Styled

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
ADJUST = "~ log_length + headers"
OPTIONS = {
    "functional": "bt",
    "rng": 0,
    "n_jobs": 1,
    "position_bias": False,
    "n_folds": 2,
    "tune": {"n_estimators": 10},
}


@pytest.fixture(scope="module")
def battles():
    return Styled().sample(1200, rng=3)


@pytest.fixture(scope="module")
def fitted(battles):
    return dr.dml_rank(FORMULA, battles, **in_objects({"adjust": ADJUST, **OPTIONS}))


# --- what is estimated --------------------------------------------------------------------------------------------


def test_scores_and_slopes_are_near_the_truth(fitted):
    truth = Styled().truth("bt")
    interval = fitted.conf_int()
    assert ((interval.iloc[:, 0] <= truth.equal) & (truth.equal <= interval.iloc[:, 1])).all()
    assert (abs(fitted.style.params - truth.slopes) < 3 * fitted.style.bse).all()
    # Without the adjustment, the long answers of the second model win.
    assert fitted.params.idxmax() == "model_1"
    assert fitted.style.table["raw"].idxmax() == "model_2"
    assert fitted.style.wald_test().pvalue < 1e-6
    assert fitted.style.estimates.style.log_loss < fitted.style.estimates.style.log_loss_without


def test_the_table_has_the_scores_of_the_fit_and_of_the_fit_without_adjustment(fitted):
    # At equal style, the second-order bias of the raw scores is left in.
    raw, table = fitted.update(adjust=None, second_order=False), fitted.style.table
    np.testing.assert_allclose(table["equal"], fitted.params[table.index])
    np.testing.assert_allclose(table["equal_se"], fitted.bse[table.index])
    np.testing.assert_allclose(table["raw"], raw.params[table.index])
    # The positive part of the variance correction is taken jointly for all columns of the table.
    np.testing.assert_allclose(table["raw_se"], raw.bse[table.index], rtol=0.005)
    assert raw.style is None
    assert list(table) == [
        *("raw", "raw_se", "averaged", "averaged_se", "equal", "equal_se"),
        *("rank_raw", "rank_equal"),
    ]


def test_rank_changes_hold_jointly(fitted):
    changes = fitted.style.rank_changes()
    assert (changes["change"] == changes["rank_raw"] - changes["rank_equal"]).all()
    assert ((changes["change_low"] <= changes["change"]) & (changes["change"] <= changes["change_high"])).all()
    wider = fitted.style.rank_changes(alpha=1e-6)
    assert (wider["change_high"] - wider["change_low"] >= changes["change_high"] - changes["change_low"]).all()
    shift = changes["shift"] / changes["shift_se"]
    assert (changes["p_adjusted"][abs(shift) > 5] < 0.01).all()


# --- what does not change the estimates ---------------------------------------------------------------------------


# --- options and methods ------------------------------------------------------------------------------------------


def test_groups_have_slopes_of_their_own(battles):
    grouped = battles.assign(part=np.where(battles["x0"] > 0.5, "late", "early"), all=True, late=battles["x0"] > 0.5)
    fitted = dr.dml_rank(FORMULA.replace("|", "+ C(part) |"), grouped, **in_objects({"adjust": ADJUST, **OPTIONS}))
    groups = fitted.by("part")
    assert list(groups.slopes["group"].unique()) == groups.groups
    late = groups["late"]
    np.testing.assert_allclose(late.style.params, groups.slopes.query("group == 'late'")["estimate"])
    np.testing.assert_allclose(late.style.table["equal"], late.params[late.style.table.index])
    np.testing.assert_allclose(late.style.table["equal_se"], late.bse[late.style.table.index], rtol=1e-6)
    every = fitted.by(["all", "late"])
    np.testing.assert_allclose(every["all"].params, fitted.params, rtol=1e-9)
    np.testing.assert_allclose(every["all"].style.params, fitted.style.params, rtol=1e-9)
    np.testing.assert_allclose(every["late"].params, late.params, rtol=1e-9)


def test_methods_about_votes_as_they_are_refuse_adjusted_scores(fitted):
    for name in ("predict", "sensitivity", "design", "win_probability"):
        with pytest.raises(OptionError, match=r"update\(adjust=None\)"):
            getattr(fitted, name)
    with pytest.raises(OptionError, match=r"update\(adjust=None\)"):
        fitted.by("~ x0")


# --- what is refused ----------------------------------------------------------------------------------------------


def test_combinations_that_have_no_meaning_are_refused(battles):
    def fit(**options):
        return dr.dml_rank(FORMULA, battles, **in_objects(OPTIONS | {"adjust": ADJUST} | options))

    formulas = ("~ log(log_length)", "~ log_length * headers", "~", "~ log_length + log_length")
    for options, words in (
        ({"functional": "dominance"}, None),
        ({"category_weights": [[1, 0, 0.3], [0, 1, 0.3]]}, None),
        ({"judge": "winner"}, "judge="),
        ({"average": "preferences"}, "average="),
        *(({"adjust": formula}, "style formula") for formula in formulas),
    ):
        with pytest.raises(OptionError, match=words):
            fit(**options)
    for estimator in ("plugin", "bt_restricted", "bt_mle"):
        with pytest.raises(OptionError, match="adjust="):
            dr.dml_rank(FORMULA, battles, functional="bt", estimator=estimator, adjust=ADJUST)
    with pytest.raises(OptionTypeError, match="EqualStyle"):
        fit(adjust=3)


@pytest.mark.long
def test_columns_that_cannot_be_used_are_refused(battles):
    def fit(table, adjust=ADJUST, **options):
        return dr.dml_rank(FORMULA, table, **in_objects({"adjust": adjust, **(OPTIONS | options)}))

    with pytest.raises(ColumnError, match="log_lenght"):
        fit(battles, "~ log_lenght")
    code = battles["model_a"].str[-1].astype(int) - battles["model_b"].str[-1].astype(int)
    twice = 2 * battles["log_length"]
    for headers, words in ((0.0, None), (twice, "linearly dependent"), ("many", "finite number"), (code, None)):
        with pytest.raises(DataError, match=words):
            fit(battles.assign(headers=headers))
    holes = battles.copy()
    holes.loc[:9, "headers"] = np.nan
    with pytest.raises(MissingDataError, match="headers"):
        fit(holes)
    assert fit(holes, missing="drop").diagnostics.n_votes == len(battles) - 10
    # A prompt that was not voted on needs no style.
    holes.loc[:9, "winner"] = None
    assert fit(holes).nobs == len(battles)


# --- slopes that cannot be estimated --------------------------------------------------------------------------------


def one_column(slope=1.0, noise=1.0, n=1500, seed=0):
    """Battles of four models whose style is a smooth function of model and feature, plus noise."""
    rng = np.random.default_rng(seed)
    first = rng.integers(4, size=n)
    second, x = (first + rng.integers(1, 4, size=n)) % 4, rng.normal(size=n)
    style_of = [0.5 * np.sin(x * (model + 1) / 2) + 0.3 * model for model in (first, second)]
    style = style_of[0] - style_of[1] + noise * rng.normal(size=n)
    wins = rng.uniform(size=n) < 1 / (1 + np.exp(-0.3 * (first - second) - slope * style))
    names = np.array(["a", "b", "c", "d"])
    winner = np.where(wins if np.isfinite(slope) else style > 0, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner, "x": x, "style": style})


def slope_of(frame, **options):
    options = {"propensity": "marginal", "adjust": "~ style"} | options
    return dr.dml_rank("winner ~ x | model_a + model_b", frame, **in_objects(OPTIONS | options))


@pytest.mark.parametrize(("seed", "unit"), [(0, 1.0), (1, 1e-5), (2, 1.0)])
def test_a_harmless_style_column_gives_no_warning(seed, unit):
    style = slope_of(one_column(seed=seed).assign(style=lambda votes: unit * votes["style"])).style
    assert abs(style.params.item() * unit - 1) < 4 * style.bse.item() * unit < 0.5


def test_votes_on_one_pair_of_a_prompt_are_averaged():
    votes = one_column(n=900).assign(prompt=range(900))
    once, twice = (slope_of(pd.concat([votes] * n, ignore_index=True), context="prompt") for n in (1, 2))
    np.testing.assert_allclose(twice.bse, once.bse, rtol=0.03)


@pytest.mark.filterwarnings("ignore:few prompts")
@pytest.mark.parametrize("options", [{"slope": 8.0}, {"noise": 0.0}, {"noise": 0.01}])
def test_slopes_that_may_be_far_off_give_a_warning(options):
    with pytest.warns(IntervalWarning, match="style column 'style'"):
        slope_of(one_column(**options))


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1e12])
def test_a_column_of_another_order_of_magnitude_needs_another_unit(unit):
    frame = one_column(n=300)
    with pytest.raises(DataError, match="unit"):
        slope_of(frame.assign(style=frame["style"] * unit))

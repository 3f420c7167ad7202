"""Coefficients on functions of the prompt against statsmodels, the scores themselves and scores by group."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import norm

import dmlrank as dr
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DataNotStoredError,
    FormulaError,
    NoIntervalError,
    OptionError,
    UnknownModelError,
)

from ..support import COVARIANCES, by_prompt, draw_with_groups, fits_of

K = 4
FORMULA = "winner ~ C(half) + x0 + x1 | model_a + model_b"
KINDS = COVARIANCES | {
    "repeated": {"n_rep": 2, "mu": None, "learner": lambda x, y, w, rng: lambda x: np.full((len(x), 3), 1 / 3)}
}
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Seven clusters are meant here


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_with_groups(draw_battles, seed=5, n=150, unlabelled=5)


@pytest.fixture(scope="module")
def fitted(battles, rank):
    fit = fits_of(battles, rank, FORMULA)
    return lambda functional="borda", kind="robust": fit(functional, **KINDS[kind])


def regression(battles, results, kind, model):
    """statsmodels' regression of a model's raw scores on the same functions."""
    weight = by_prompt(battles.frame, "importance") if kind == "weighted" else np.ones(150)
    raw = results.influence[:, model] / (weight / weight.mean()) + results.params.iloc[model]
    odd = (by_prompt(battles.frame, "half") == "rest").astype(float)
    v = np.column_stack([np.ones(150), odd, by_prompt(battles.frame, "x0"), by_prompt(battles.frame, "x0") ** 2])
    made = sm.WLS(raw, v, weights=weight)
    if kind == "cluster":
        codes = pd.factorize(by_prompt(battles.frame, "topic"))[0]
        fit = made.fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False})
        return fit.params, fit.cov_params() * 7 / 6
    return made.fit(cov_type="HC0").params, made.fit(cov_type="HC0").cov_params()


@pytest.mark.parametrize("kind", ["robust", "cluster", "weighted"])
def test_coefficients_and_covariance_are_those_of_statsmodels(battles, fitted, kind):
    results = fitted("borda", kind)
    projection = results.by("~ C(half) + x0 + I(x0 ** 2)")
    assert projection.coefficients == ["Intercept", "C(half)[T.rest]", "x0", "I(x0 ** 2)"]
    matrix = projection.cov_params()
    for model, name in enumerate(projection.models):
        params, covariance = regression(battles, results, kind, model)
        np.testing.assert_allclose(projection.params[name], params, rtol=1e-8)
        own = matrix.xs(name, level="model").xs(name, level="model", axis=1)
        np.testing.assert_allclose(own, covariance, rtol=1e-7, atol=1e-14)


def test_functions_of_the_caller_and_splines_are_read_as_in_a_fit(battles, fitted):
    results, x0 = fitted(), by_prompt(battles.frame, "x0")
    raw = results.influence + results.params.to_numpy()
    projection = results.by("~ np.exp(x0)")
    v = np.column_stack([np.ones(150), np.exp(x0)])
    np.testing.assert_allclose(projection.params, np.linalg.lstsq(v, raw, rcond=None)[0], rtol=1e-8)
    spline = results.by("~ bs(x0, 4)")
    assert spline.test_terms().index.tolist() == ["bs(x0, 4)"]
    inside = float(np.median(x0))
    band = spline.bands("x0", [inside], models="m1")["estimate"].item()
    v = spline.design.matrix
    at = int(np.abs(x0 - inside).argmin())
    assert abs(band - v[at] @ spline.params["m1"]) < 0.05
    np.testing.assert_allclose(spline.design.at(spline.design.table), v, rtol=1e-10)


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_alone_gives_the_scores(fitted, functional, kind):
    results = fitted(functional, kind)
    projection = results.by("~ 1")
    np.testing.assert_allclose(projection.params.loc["Intercept"], results.params, rtol=1e-9)
    # Repetitions add their variance after the bound of the second-order step here, and before it in the fit.
    loose = kind == "repeated" and functional == "rank_centrality"
    np.testing.assert_allclose(projection.bse.loc["Intercept"], results.bse, rtol=1e-3 if loose else 1e-8)
    if loose:
        return
    np.testing.assert_allclose(projection.cov_params().to_numpy(), results.cov_params(), rtol=1e-7, atol=1e-13)
    tidy = projection.tidy()
    if functional != "borda":  # limits of win shares of all prompts are not symmetric
        np.testing.assert_allclose(tidy["statistic"], results.tvalues, rtol=1e-6)
        np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], results.conf_int(), rtol=1e-6)


@pytest.mark.parametrize("functional", ["borda", "bt"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_category_without_a_constant_gives_the_groups(fitted, functional, kind):
    results = fitted(functional, kind)
    groups, projection = results.by("half"), results.by("~ 0 + C(half)")
    np.testing.assert_allclose(projection.params.T, groups.params, rtol=1e-9)
    np.testing.assert_allclose(projection.cov_params().to_numpy(), groups.cov_params(), rtol=1e-7, atol=1e-13)
    # With a constant the coefficients are differences of the groups, and so is their covariance.
    contrasts = results.by("~ C(half)")
    moved = np.kron([[1, 0], [-1, 1]], np.eye(K))
    expected = moved @ groups.cov_params().to_numpy() @ moved.T
    np.testing.assert_allclose(contrasts.cov_params(), expected, rtol=1e-6, atol=1e-12)
    gap = (groups.params["rest"] - groups.params["odd one"]).to_numpy()
    statistic = gap @ np.linalg.pinv(expected[K:, K:], rcond=1e-8) @ gap
    # Few clusters, and few prompts in a group, have Hotelling's F.
    term = contrasts.test_terms().loc["C(half)"]
    between = contrasts.joint.covariance.of_combinations(np.eye(2 * K)[K:])
    statistic /= between.wald_law(int(term["df"])).scale
    np.testing.assert_allclose(term["statistic"], statistic, rtol=0.02)


def test_units_multiply_slopes_and_shift_the_constant(fitted):
    results = fitted("bt")
    plain = results.by("~ x0")
    for unit, factor in (("elo", 400 / np.log(10)), (1, 1)):
        shown = results.rescale(unit, mean=1000).by("~ x0")
        np.testing.assert_allclose(shown.params.loc["x0"], factor * plain.params.loc["x0"], rtol=1e-9)
        constant = 1000 + factor * plain.params.loc["Intercept"]
        np.testing.assert_allclose(shown.params.loc["Intercept"], constant, rtol=1e-9)
        np.testing.assert_allclose(shown.bse, factor * plain.bse, rtol=1e-8)


def test_coefficients_of_bt_sum_to_zero_and_their_sum_is_no_hypothesis(fitted):
    projection = fitted("bt").by("~ x0")
    np.testing.assert_allclose(projection.params.sum(axis=1), 0, atol=1e-12)
    test = projection.t_test("x0: m0 - x0: m1")
    gap = projection.params.loc["x0", "m0"] - projection.params.loc["x0", "m1"]
    np.testing.assert_allclose(test.effect, [gap])
    assert projection.wald_test([f"x0: m{j}" for j in range(K)]).rank == K - 1
    with pytest.raises(dr.exceptions.HypothesisError):
        projection.t_test("x0: m0 + x0: m1 + x0: m2 + x0: m3")
    assert projection.test_terms().loc["x0", "df"] == K - 1


def test_bands_are_linear_combinations_with_one_critical_value(battles, fitted):
    results = fitted("bt")
    projection = results.by("~ C(half) + x0")
    grid = [-1.0, 0.5, 2.0]
    frame = projection.bands("x0", grid, at={"half": "rest"}, models=["m2", "m0"])
    assert list(frame) == ["x0", "model", "estimate", "std_error", "lower", "upper"]
    matrix = projection.cov_params()
    rng = np.random.default_rng(1)
    own = [("Intercept", "m2"), ("C(half)[T.rest]", "m2"), ("x0", "m2")]
    for row, point in zip(frame.itertuples(), grid, strict=False):
        v = np.array([1, 1, point])
        assert row.model == "m2"
        np.testing.assert_allclose(row.estimate, v @ projection.params["m2"])
        np.testing.assert_allclose(row.std_error**2, v @ matrix.loc[own, own].to_numpy() @ v, rtol=1e-8)
    # Another way to the critical value: draws of the coefficients themselves.
    draws = rng.multivariate_normal(np.zeros(len(matrix)), matrix.to_numpy(), size=60_000, method="eigh")
    draws = draws.reshape(-1, 3, K)
    curves = np.einsum("rpk,gp->rkg", draws, np.column_stack([np.ones(3), np.ones(3), grid]))[:, [2, 0]]
    t = np.abs(curves.reshape(len(draws), -1) / frame["std_error"].to_numpy()).max(axis=1)
    critical = ((frame["upper"] - frame["estimate"]) / frame["std_error"]).to_numpy()
    assert np.ptp(critical) < 1e-9
    assert abs(critical[0] - projection.joint.covariance.from_normal(np.quantile(t, 0.95))) < 0.03
    assert critical[0] > norm.ppf(0.975)


def test_a_grid_by_default_covers_the_data_and_others_stay_at_their_usual_values(battles, fitted):
    projection = fitted().by("~ C(half) + x0")
    frame = projection.bands("x0", models="m1")
    x0 = by_prompt(battles.frame, "x0")
    assert (frame["x0"].min(), frame["x0"].max(), len(frame)) == (x0.min(), x0.max(), 25)
    usual = projection.bands("x0", [1.0], at={"half": "rest"}, models="m1")
    np.testing.assert_allclose(projection.bands("x0", [1.0], models="m1")["estimate"], usual["estimate"])
    assert projection.bands("half")["half"].unique().tolist() == ["odd one", "rest"]


def test_what_cannot_be_projected_on_is_refused_with_the_reason(battles, rank, fitted):
    results = fitted()
    projection = results.by("~ C(half) + x0")
    for call, error, words in (
        (lambda: results.by("~ importance"), OptionError, "importance"),
        (lambda: results.by("~ x0 | model_a"), FormulaError, None),
        (lambda: results.by("~"), FormulaError, None),
        (lambda: results.by("~ 0"), FormulaError, "no column to project on; write '~ 1'"),
        (lambda: results.by("~ x0", "half"), OptionError, "beside others"),
        (lambda: results.by("~ x0 + I(2 * x0)"), FormulaError, "linearly dependent"),
        (lambda: results.by("~ x3"), ColumnError, None),
        (lambda: results.by("~ C(winner)"), FormulaError, "winner"),
        (lambda: results.by("~ C(judge)"), DataError, "judge"),
        (lambda: results.update(estimator="plugin").by("~ x0"), NoIntervalError, "not debiased"),
        (lambda: dr.read_json(results.to_json()).by("~ x0"), DataNotStoredError, None),
        (lambda: projection.bands("x1"), ColumnError, None),
        (lambda: projection.bands("x0", models=["m9"]), UnknownModelError, "'m9'"),
        (lambda: projection.bands("x0", at={"x0": 1}), OptionError, None),
        (lambda: projection.bands("x0", []), OptionError, None),
    ):
        with pytest.raises(error, match=words):
            call()


def test_terms_are_told_apart_from_their_columns(fitted):
    projection = fitted("bt").by("~ x1 + C(half) * x0")
    terms = projection.test_terms()
    assert terms["df"].to_dict() == {"C(half)": 3, "x1": 3, "x0": 3, "C(half):x0": 3}
    for term, columns in projection.design.terms:
        assert [projection.coefficients[c].replace("[T.rest]", "") for c in columns] == [term]
    direct = projection.wald_test([f"x1: m{j}" for j in range(K)])
    np.testing.assert_allclose(terms.loc["x1", "statistic"], float(direct.statistic), rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e90])
def test_the_unit_of_a_feature_changes_the_unit_of_its_coefficient_alone(rank, draw_battles, unit):
    """A time in milliseconds has numbers of 1e12; the standard errors were off by 5e-5 there."""
    battles = draw_battles(np.random.default_rng(0), 160, 3, 3).frame
    options = {"tune": {"n_estimators": 3, "min_data_in_leaf": 5}, "n_folds": 2, "propensity": "marginal"}
    in_other_unit = battles.assign(x0=battles["x0"] * unit)
    formula = "winner ~ x0 | model_a + model_b"
    one, other = (rank(frame, formula, **options).by("~ x0") for frame in (battles, in_other_unit))
    for numbers in ("params", "bse"):
        expected, found = getattr(one, numbers), getattr(other, numbers)
        np.testing.assert_allclose(found.loc["x0"] * unit, expected.loc["x0"], rtol=1e-9)
        np.testing.assert_allclose(found.loc["Intercept"], expected.loc["Intercept"], rtol=1e-9)

"""Smooth columns and their ridge, missing values, too many features; the minimiser against SciPy's."""

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.optimize import minimize, rosen, rosen_der
from scipy.special import expit

from dmlrank.nuisance import smooth
from dmlrank.nuisance.smooth import SmoothBasis, minimise


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(-1, 2, size=(400, 1))


def spline_of(basis):
    ((_, spline),) = basis.columns
    return spline


def test_columns_are_orthogonal_over_the_contexts_and_the_rougher_the_shorter(x):
    columns = SmoothBasis.learn(x).of(x)
    gram = columns.T @ columns / len(x)
    np.testing.assert_allclose(columns.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8)
    np.testing.assert_allclose(np.diag(gram)[:2], 1, atol=1e-8)
    assert (np.diff(np.diag(gram)[1:]) < 0).all()


def test_the_first_column_is_the_straight_line(x):
    line = SmoothBasis.learn(x).of(x)[:, 0]
    np.testing.assert_allclose(np.abs(np.corrcoef(line, x[:, 0])[0, 1]), 1, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.01, 1.0, 100.0])
def test_a_ridge_is_the_roughness_penalty_of_a_smoothing_spline(x, ridge):
    """Its twin: least squares on the B-splines themselves with the integral of the squared second derivative."""
    rng = np.random.default_rng(1)
    y = np.sin(3 * x[:, 0]) + rng.normal(size=len(x))
    y -= y.mean()
    basis = SmoothBasis.learn(x)
    columns, knots = basis.of(x), spline_of(basis).knots
    at = np.linspace(knots[0], knots[-1], 200)
    bend = BSpline(knots, np.eye(len(knots) - 4), 3)(at, 2)
    design = BSpline(knots, np.eye(len(knots) - 4), 3)(x[:, 0])
    design = design - design.mean(axis=0)
    # The line's own ridge is the one thing that a roughness penalty does not have.
    line = columns[:, 0]
    free = columns[:, 1:] @ np.linalg.solve(
        columns[:, 1:].T @ columns[:, 1:] + ridge * np.eye(columns.shape[1] - 1), columns[:, 1:].T @ y
    )
    free += line * (line @ y) / (line @ line)
    # The second column has a unit penalty: that scales the integral.
    second = np.linalg.lstsq(design, columns[:, 1], rcond=None)[0]
    scale = 1 / np.square(bend @ second).sum()
    penalty = ridge * scale * bend.T @ bend
    twin = design @ np.linalg.lstsq(design.T @ design + penalty, design.T @ y, rcond=None)[0]
    np.testing.assert_allclose(free, twin, atol=1e-6)


def test_curves_are_constant_beyond_what_was_seen(x):
    basis = SmoothBasis.learn(x)
    ends = basis.of(np.array([[x.min()], [x.max()]]))
    np.testing.assert_array_equal(basis.of(np.array([[x.min() - 5], [x.max() + 50]])), ends)


def test_units_and_origin_of_a_feature_do_not_matter(x):
    one, two = (SmoothBasis.learn(feature).of(feature) for feature in (x, 1000 * x - 7))
    np.testing.assert_allclose(np.abs(two), np.abs(one), atol=1e-7)


def test_the_order_of_contexts_does_not_matter(x):
    order = np.random.default_rng(2).permutation(len(x))
    one, two = SmoothBasis.learn(x).of(x), SmoothBasis.learn(x[order]).of(x)
    np.testing.assert_allclose(np.abs(one), np.abs(two), atol=1e-9)


def test_two_values_give_one_standardised_column():
    x = np.repeat([[0.0], [1.0]], [30, 10], axis=0)
    columns = SmoothBasis.learn(x).of(x)
    np.testing.assert_allclose(columns, (x - 0.25) / np.sqrt(0.1875))


def test_three_values_give_columns_that_tell_them_apart():
    x = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    columns = SmoothBasis.learn(x).of(x)
    assert np.linalg.matrix_rank(columns - columns.mean(axis=0), tol=1e-6) == 2


def test_a_constant_feature_gives_no_column(x):
    table = np.column_stack([np.full(len(x), 3.7), x])
    basis = SmoothBasis.learn(table)
    assert [place for place, _ in basis.columns] == [1]
    np.testing.assert_array_equal(basis.of(table), SmoothBasis.learn(x).of(x))
    assert SmoothBasis.learn(table[:, :1]).of(table[:, :1]).shape == (len(x), 0)


def test_missing_values_are_read_as_the_mean_and_flagged(x):
    holes = np.column_stack([x[:, 0], np.random.default_rng(3).normal(size=len(x))])
    holes[::7, 0] = np.nan
    basis = SmoothBasis.learn(holes)
    columns = basis.of(holes)
    np.testing.assert_array_equal(columns[:, -1], np.isnan(holes[:, 0]))
    imputed = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    np.testing.assert_allclose(columns[:, :-1], basis.of(imputed)[:, :-1])
    assert columns.shape[1] == basis.width
    assert np.isfinite(columns).all()


def test_a_value_missing_only_later_is_read_as_the_mean(x):
    basis = SmoothBasis.learn(x)
    np.testing.assert_allclose(basis.of(np.array([[np.nan]])), basis.of(x.mean(axis=0, keepdims=True)))


def test_many_features_get_straight_lines(x):
    rng = np.random.default_rng(4)
    wide = rng.normal(size=(300, 40))
    columns = SmoothBasis.learn(wide).of(wide)
    np.testing.assert_allclose(columns, (wide - wide.mean(axis=0)) / wide.std(axis=0), atol=1e-12)


def test_very_many_features_give_principal_components(monkeypatch):
    """Their twin: the leading left singular vectors of the standardised features."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 14)) + 0.3 * rng.normal(size=(200, 14)) + 4
    x[:, 6] = 2.0
    monkeypatch.setattr(smooth, "_MAX_FEATURES", 10)
    monkeypatch.setattr(smooth, "_N_COMPONENTS", 5)
    basis = SmoothBasis.learn(x)
    columns = basis.of(x)
    varying = np.delete(x, 6, axis=1)
    left, size, _ = np.linalg.svd((varying - varying.mean(axis=0)) / varying.std(axis=0), full_matrices=False)
    twin = left[:, :5] * size[:5] / size[0] * np.sqrt(len(x))
    np.testing.assert_allclose(np.abs(columns), np.abs(twin), atol=1e-8)
    assert basis.width == 5


@pytest.mark.parametrize("n", [3, 6, 12])
def test_few_contexts(n):
    x = np.random.default_rng(6).normal(size=(n, 3))
    basis = SmoothBasis.learn(x)
    assert basis.of(x).shape == (n, basis.width)
    assert np.isfinite(basis.of(x)).all()


@pytest.mark.parametrize("values", [[0.0, 1e-12, 1.0], [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3]])
def test_awkward_values(values):
    x = np.random.default_rng(7).choice(values, size=(100, 1))
    columns = SmoothBasis.learn(x).of(x)
    assert np.isfinite(columns).all()
    assert np.abs(columns).max() < 100


def test_rare_values_far_away_do_not_swamp_the_rest():
    rng = np.random.default_rng(8)
    x = np.append(rng.normal(size=500), [1e4])[:, None]
    columns = SmoothBasis.learn(x).of(x)
    assert np.isfinite(columns).all()
    np.testing.assert_allclose(np.square(columns).mean(axis=0).max(), 1, atol=1e-6)


def test_bases_of_single_features_join_to_the_one_of_all():
    rng = np.random.default_rng(20)
    x = rng.normal(size=(80, 5))
    x[:, 1] = x[:, 1] > 0
    x[::9, 3] = np.nan
    chosen = np.array([0, 1, 3])
    chosen_basis = SmoothBasis.learn(x, chosen)
    joined = SmoothBasis.joined([SmoothBasis.learn(x, chosen[[at]]) for at in range(3)])
    np.testing.assert_array_equal(joined.of(x), chosen_basis.of(x))
    assert joined.missing == chosen_basis.missing == (3,)
    assert [f for f, _ in joined.columns] == [0, 1, 3]


def logistic(seed, n=300, p=6, ridge=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    y = rng.random(n) < expit(x @ rng.normal(size=p))

    def objective(theta):
        scores = x @ theta
        loss = np.logaddexp(0, scores).sum() - scores[y].sum() + ridge * theta @ theta / 2
        return float(loss), x.T @ (expit(scores) - y) + ridge * theta

    return objective, np.zeros(p)


def scipys(objective, start):
    return minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    ).x


@pytest.mark.parametrize("seed", range(5))
def test_a_logistic_regression_equals_scipys(seed):
    objective, start = logistic(seed)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-16), scipys(objective, start), atol=1e-5)


@pytest.mark.parametrize("d", [2, 5])
def test_a_curved_valley(d):
    def objective(z):
        return float(rosen(z)), rosen_der(z)

    start = np.full(d, -0.5)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-18), scipys(objective, start), atol=1e-4)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-18), 1, atol=1e-4)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-8])
def test_what_is_left_to_gain_is_of_the_size_of_the_tolerance(tolerance):
    objective, start = logistic(7)
    least = objective(scipys(objective, start))[0]
    excess = objective(minimise(objective, start, tolerance))[0] - least
    assert excess < 3 * tolerance
    assert objective(start)[0] - least > 10


def test_it_never_goes_up_and_starts_where_it_is_told():
    objective, _ = logistic(8)
    values = []

    def watched(theta):
        values.append(objective(theta))
        return values[-1]

    start = np.full(6, 3.0)
    end = objective(minimise(watched, start))[0]
    assert values[0][0] == objective(start)[0]
    assert end == min(value for value, _ in values)
    # A whole step of -2 z would end as high as it starts; half of it ends at the minimum.
    search = smooth.LBFGS(lambda z: (float(z @ z), 2 * z), np.ones(1))
    search.advance(1)
    assert search.best == 0


def test_a_function_without_a_minimum_ends_too():
    end = minimise(lambda z: (float(np.logaddexp(0, -z[0])), np.array([-expit(-z[0])])), np.zeros(1), 1e-12)
    assert np.isfinite(end).all()
    assert end[0] > 10

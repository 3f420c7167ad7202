"""Additive regressions: twins with dense designs, one of them scikit-learn's, and what exchanging the items does."""

import numpy as np
import pytest

from dmlrank.nuisance import style
from dmlrank.nuisance.style import AdditiveModel, AdditiveRows, fit_by_fold, style_regressors
from tests.support import optional

linear_model = optional("sklearn.linear_model")

K = 4


def drawn_rows(rng, n, n_extra=1):
    first = rng.integers(0, K, n)
    second = (first + rng.integers(1, K, n)) % K
    design = np.hstack([np.ones((n, 1)), rng.normal(size=(n, 2))])
    return AdditiveRows(design, first, second, rng.normal(size=(n, n_extra)), np.ones(n))


def dense(rows, sign):
    """The design with a block of columns for every item, then shared and extra columns."""
    n, width = rows.design.shape
    table = np.zeros((n, K, width))
    table[np.arange(n), rows.first] += rows.design
    table[np.arange(n), rows.second] += sign * rows.design
    shared = rows.design if sign > 0 else np.ones((n, 1))
    return np.hstack([table.reshape(n, -1), shared, rows.extra])


@pytest.mark.parametrize("sign", [-1, 1])
def test_linear_fits_solve_a_ridge_regression(sign):
    rng = np.random.default_rng(0)
    rows = drawn_rows(rng, 300)
    y = dense(rows, sign) @ rng.normal(size=dense(rows, sign).shape[1]) + rng.normal(size=300)
    model = AdditiveModel(K, sign, True, False, np.array([0.01]))
    fold = np.arange(300) % 3
    fits = fit_by_fold(model, rows, [y[:, None]] * 3, fold)
    x, penalty = dense(rows, sign), model.penalty(3)
    for f, fit in enumerate(fits):
        training = fold != f
        misfit = []
        for ridge in (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0):
            square = x[training].T @ x[training] + np.diag(ridge * penalty + 1e-4)
            predicted = x @ np.linalg.solve(square, x[training].T @ y[training])
            with_pairs = fit.predictor(rows)[:, 0] - fit.pair[rows.first, rows.second, 0]
            misfit.append(np.abs(predicted - with_pairs).max())
        assert min(misfit) < 1e-8


def test_logistic_fits_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    rows = drawn_rows(rng, 400)
    x = dense(rows, -1)
    y = (rng.uniform(size=400) < 1 / (1 + np.exp(-x @ rng.normal(size=x.shape[1])))).astype(float)
    model = AdditiveModel(K, -1, True, True, np.array([0.01]))
    fold = np.arange(400) % 2
    fit = fit_by_fold(model, rows, [y[:, None]] * 2, fold)[0]
    predictor = fit.predictor(rows)[:, 0] - fit.pair[rows.first, rows.second, 0]
    training, misfit = fold != 0, []
    for ridge in (100.0, 30.0, 10.0, 3.0, 1.0):
        # Columns divided by the root of their penalty turn it into a plain ridge.
        root = np.sqrt(ridge * model.penalty(3) + 1e-4)
        twin = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000)
        twin.fit(x[training] / root, y[training])
        misfit.append(np.abs(twin.decision_function(x / root) - predictor).max())
    assert min(misfit) < 1e-3


@pytest.mark.parametrize("sign", [-1, 1])
def test_exchanging_the_items_changes_the_sign_or_nothing(sign):
    rng = np.random.default_rng(2)
    rows = drawn_rows(rng, 200, n_extra=0)
    y = rng.normal(size=(200, 2)) + rows.first[:, None]
    model = AdditiveModel(K, sign, False, False, np.empty(0))
    fit = fit_by_fold(model, rows, [y, y], np.arange(200) % 2)[1]
    swapped = AdditiveRows(rows.design, rows.second, rows.first, rows.extra, rows.weight)
    np.testing.assert_allclose(fit.predictor(swapped), sign * fit.predictor(rows), atol=1e-12)


def test_a_sample_selects_the_settings_where_rows_are_many(monkeypatch):
    rng = np.random.default_rng(3)
    rows = drawn_rows(rng, 600, n_extra=0)
    y = 2.0 * rows.first[:, None] - 2.0 * rows.second[:, None] + rng.normal(size=(600, 1))
    model = AdditiveModel(K, -1, False, False, np.empty(0))
    monkeypatch.setattr(style, "SELECTION_SAMPLE", 200)
    fits = fit_by_fold(model, rows, [y, y], np.arange(600) % 2)
    assert all(np.abs(fit.predictor(rows) - (2 * rows.first - 2 * rows.second)[:, None]).mean() < 0.3 for fit in fits)


def test_style_regressors_change_their_sign_with_the_style():
    rng = np.random.default_rng(4)
    style = np.stack([rng.normal(size=100), rng.integers(-2, 3, 100) / 3], axis=1)
    design = np.hstack([np.ones((200, 1)), np.tile(rng.normal(size=(100, 3)), (2, 1))])
    columns, penalty = style_regressors(np.concatenate([style, -style]), design)
    assert columns.shape[1] == len(penalty) > 2
    np.testing.assert_allclose(columns[:100], -columns[100:], atol=1e-12)

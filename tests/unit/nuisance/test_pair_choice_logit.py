"""Shares of the pairs shown, compared with sums over all pairs and with other software, and their invariances."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.nuisance import pair_choice
from dmlrank.nuisance.pair_choice import PairChoiceEffects, PairChoiceLikelihood, pair_shares
from dmlrank.nuisance.smooth import PenalisedSearch
from dmlrank.nuisance.training_rows import LabelledRows

K = 4


# Decrease of the loss that a further step has to promise, where effects are compared digit by digit.
EXACT = 1e-15


def rows_of(columns, first, second):
    ones = np.ones(len(columns))
    return LabelledRows(columns, np.arange(len(columns)), first, second, ones[:, None], ones)


def draw(seed, n=400, q=3, n_items=K):
    """Rows whose pairs follow items' effects on both places."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n, q))
    truth = PairChoiceEffects(shares(rng, n_items), *(0.5 * rng.normal(size=(2, 1 + q, n_items))))
    table = truth.table(columns).reshape(n, -1)
    chosen = (table.cumsum(axis=1) / table.sum(axis=1, keepdims=True) < rng.random((n, 1))).sum(axis=1)
    return rows_of(columns, chosen // n_items, chosen % n_items), truth


def shares(rng, n_items=K):
    share = rng.uniform(0.5, 2, size=(n_items, n_items))
    np.fill_diagonal(share, 0.0)
    return share / share.sum()


def log_shares_written_out(effects, columns, first, second):
    """Every pair's score, one by one."""
    n_items, log_shares = len(effects.share), []
    design = np.column_stack([np.ones(len(columns)), columns])
    a, b = design @ effects.first, design @ effects.second
    for i, (j, k) in enumerate(zip(first, second, strict=True)):
        scores = {
            (c, d): np.log(effects.share[c, d]) + a[i, c] + b[i, d]
            for c in range(n_items)
            for d in range(n_items)
            if c != d
        }
        log_shares.append(scores[j, k] - logsumexp(list(scores.values())))
    return np.array(log_shares)


def fit_effects(rows, share, ridge, start=None, tolerance=1e-3):
    problem = PairChoiceLikelihood(rows, share)
    search = PenalisedSearch(problem, ridge, start, tolerance)
    search.advance()
    return problem.effects(search.flat)


@pytest.mark.parametrize("n_items", [2, 3, 5])
def test_shares_follow_the_formula_and_the_table_holds_those_of_every_pair(n_items):
    rows, effects = draw(n_items, 30, n_items=n_items)
    expected = log_shares_written_out(effects, rows.table, rows.first, rows.second)
    np.testing.assert_allclose(effects.log_at(rows.table, rows.first, rows.second, rows.context), expected, rtol=1e-12)
    assert effects.loss(rows) == pytest.approx(-expected.sum(), rel=1e-12)
    table = effects.table(rows.table)
    table /= table.sum(axis=(1, 2), keepdims=True)
    at = table[np.arange(30), rows.first, rows.second]
    np.testing.assert_allclose(np.log(at), expected, rtol=1e-10)
    np.testing.assert_array_equal(table[:, np.arange(n_items), np.arange(n_items)], 0)


@pytest.mark.parametrize(("chunk_size", "parallel_from"), [(250_000, 10**8), (60, 10**8), (60, 0)])
def test_the_gradient_equals_finite_differences(chunk_size, parallel_from, monkeypatch):
    """All rows at once, or in chunks, by one thread or two; rows with equal columns among them."""
    rows, truth = draw(1, 50)
    rows.table[30:] = rows.table[:20]
    monkeypatch.setattr(pair_choice, "_CHUNK_SIZE", chunk_size)
    monkeypatch.setattr(pair_choice, "_PARALLEL_FROM", parallel_from)
    problem = PairChoiceLikelihood(rows, truth.share)
    assert problem.count.tolist() == [2] * 20 + [1] * 10
    flat = np.random.default_rng(2).normal(size=4 * 2 * K) / 2
    with computing_with(2):
        value, gradient = problem.loss(flat)
    np.testing.assert_allclose(gradient, approx_fprime(flat, lambda z: problem.loss(z)[0], 1e-6), atol=1e-3)
    assert value == pytest.approx(problem.effects(flat).loss(rows), rel=1e-12)


def test_two_items_without_a_ridge_are_statsmodels_logit():
    """With two items only their places can vary: which one comes first is a logit in twice the difference of w."""
    rows, _ = draw(4, 500, n_items=2)
    even = np.array([[0.0, 0.5], [0.5, 0.0]])
    effects = fit_effects(rows, even, 1e-9, tolerance=EXACT)
    expected = sm.Logit((rows.first == 0).astype(float), sm.add_constant(rows.table)).fit(disp=0).params
    logit = effects.first[:, 0] + effects.second[:, 1] - effects.first[:, 1] - effects.second[:, 0]
    np.testing.assert_allclose(logit, expected, atol=1e-5)


def test_the_effects_that_drew_the_pairs_are_recovered():
    rows, truth = draw(5, 20_000)
    columns = rows.table[:200]
    tables = [effects.table(columns) for effects in (fit_effects(rows, truth.share, 1.0), truth)]
    estimate, expected = (table / table.sum(axis=(1, 2), keepdims=True) for table in tables)
    off_diagonal = ~np.eye(K, dtype=bool)
    assert np.abs(np.log(estimate[:, off_diagonal] / expected[:, off_diagonal])).mean() < 0.1


def test_points_far_from_the_optimum_have_finite_losses():
    rows, truth = draw(12, 30)
    problem = PairChoiceLikelihood(rows, truth.share)
    value, gradient = problem.loss(1e4 * np.random.default_rng(13).normal(size=4 * 2 * K))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_items_and_pairs_that_were_never_shown_have_positive_shares():
    share = pair_shares(np.array([0, 0]), np.array([1, 1]), 3, 1.0)
    assert share.sum() == pytest.approx(1)
    assert (share[~np.eye(3, dtype=bool)] > 0).all()
    assert pair_shares(np.array([], int), np.array([], int), 3, 1.0)[0, 1] == pytest.approx(1 / 6)

"""Extension of a fit: brute force from the models of the fit, what is kept, and when the first stages are trained."""

import numpy as np
import pytest

import dmlrank as dr

FORMULA = "winner ~ C(category) + length | model_a + model_b"
OPTIONS = {"context": "question_id", "rng": 0, "n_jobs": 1}


def arena(n, rng=0):
    return dr.datasets.simulate_arena(n=n, rng=rng)


@pytest.fixture(scope="module")
def battles():
    return arena(1300)


@pytest.fixture(scope="module")
def fitted(battles):
    return dr.dml_rank(FORMULA, battles[:1000], functional="bt", **OPTIONS)


def win_share(mu):
    """Share of wins of the item shown first, ties as half a win, (..., K, K)."""
    return mu[..., 0] + mu[..., 2:].sum(axis=-1) / 2


def borda(mu):
    """Mean win share of each item over its opponents and both orders, (n, K), from mu, (n, K, K, C)."""
    first = win_share(mu)
    second = 1 - np.swapaxes(first, 1, 2)
    n_items = mu.shape[1]
    off = ~np.eye(n_items, dtype=bool)
    return np.where(off, (first + second) / 2, 0).sum(axis=2) / (n_items - 1)


def bradley_terry(mu):
    """Least squares of the log-odds of all pairs, (n, K): the mean over opponents of the log-odds of both orders."""
    first = win_share(mu)
    off = ~np.eye(mu.shape[1], dtype=bool)
    odds = np.where(off, np.log(np.where(off, first, 0.5) / np.where(off, 1 - first, 0.5)), 0)
    advantage = (odds - np.swapaxes(odds, 1, 2)) / 2
    return advantage.sum(axis=2) / mu.shape[1]


def brute_force(score, mu, floor, cells, pi, ordered, weight=None):
    """One-step estimate and influence values, with derivatives by central differences, context by context."""
    mu = np.maximum(mu, floor) / np.maximum(mu, floor).sum(axis=-1, keepdims=True) if floor else mu
    n = len(mu)
    weight = np.ones(n) if weight is None else weight / weight.mean()
    value, correction = score(mu), np.zeros((n, mu.shape[1]))
    swap = [1, 0, *range(2, mu.shape[-1])]
    for c, j, k, y, p in zip(cells.context, cells.first, cells.second, cells.y, pi, strict=True):
        delta = np.zeros_like(mu[c])
        delta[j, k] = (y - mu[c, j, k]) / p
        if not ordered:
            delta[k, j] = delta[j, k][swap]
        step = 1e-6 / np.abs(delta).max()
        correction[c] += (score((mu[c] + step * delta)[None])[0] - score((mu[c] - step * delta)[None])[0]) / (2 * step)
    terms = value + correction
    estimate = weight @ terms / n
    return estimate, weight[:, None] * (terms - estimate)


def mu_by_hand(fit, extended, n_old):
    """mu of old contexts from the model of their fold, and of new contexts from the mean of all models."""
    models, x = fit.steps.mu.models, extended.steps.data.x
    mu = np.mean([model.predict(x) for model in models], axis=0)
    for f, model in enumerate(models):
        rows = np.flatnonzero(fit.steps.folds.fold == f)
        mu[rows] = model.predict(x[rows])
    assert len(fit.steps.folds.fold) == n_old
    return mu


def propensities_by_hand(fit, extended):
    """Mean over models for new contexts; floor at a tenth of the pair's labelling rate; mean of S / pi one by pair."""
    data, models = extended.steps.data, fit.steps.propensity.pairs.models
    cells, n_items = data.cells, data.n_items
    estimates = np.empty(len(cells))
    for i, (c, j, k) in enumerate(zip(cells.context, *cells.in_display_order, strict=True)):
        in_fit = c < len(fit.steps.folds.fold)
        used = [models[fit.steps.folds.fold[c]]] if in_fit else models
        one = [model.at(data.x[[c]], np.array([j]), np.array([k]), n_items, 1)[0] for model in used]
        estimates[i] = np.mean(one)
    pi = np.empty_like(estimates)
    for pair in set(zip(cells.first, cells.second, strict=True)):
        rows = (cells.first == pair[0]) & (cells.second == pair[1])
        raised = np.maximum(estimates[rows], 0.1 * rows.sum() / data.n_contexts)
        pi[rows] = raised * (1 / raised).sum() / data.n_contexts
    return pi


@pytest.mark.parametrize(("functional", "score"), [("borda", borda), ("bt", bradley_terry)])
def test_an_extension_is_the_one_step_estimate_with_the_models_of_the_fit(battles, fitted, functional, score):
    fit = fitted.update(functional=functional)
    extended = fit.extend(battles[1000:1100], refit="never")
    steps = extended.steps
    mu = mu_by_hand(fit, extended, 1000)
    estimate, phi = brute_force(
        score, mu, fit.steps.first.floor, steps.data.cells, propensities_by_hand(fit, extended), steps.data.ordered
    )
    np.testing.assert_allclose(extended.params, estimate, atol=1e-8)
    np.testing.assert_allclose(extended.influence, phi, atol=1e-5)
    robust = phi.T @ phi / len(phi) ** 2
    # The variance correction and the variance of uniform pairs are added to this covariance.
    assert (extended.bse.to_numpy() >= 0.999 * np.sqrt(np.diag(robust))).all()
    assert (extended.bse.to_numpy() <= 1.2 * np.sqrt(np.diag(robust))).all()

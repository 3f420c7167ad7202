"""Means of scores of which many are missing: the predictor against loops, and what holds whatever it predicts."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.estimation import predicted_scores as module
from dmlrank.estimation.predicted_scores import (
    ScoreCells,
    answer_columns,
    conditional_means,
    corrected_means,
    estimated_propensities,
    hierarchical_ridge,
    predicted_scores,
    regressors,
)

N, K = 400, 6


def drawn(seed, *, share=0.15, quality=0.8, whole=False, complete=0, n=N):
    """Scores with gaps, a judge's scores (n, K, 1), propensities and all scores."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 1)) + rng.normal(size=(n, K)) + np.linspace(-0.6, 0.6, K)
    judge = quality * latent + (1 - quality) * 2 * rng.normal(size=(n, K))
    propensity = np.tile(np.where(np.arange(K) < complete, 1.0, share), (n, 1))
    scores = (latent > 0).astype(float)
    is_drawn = rng.random((n, 1 if whole else K)) < propensity
    return np.where(is_drawn, scores, np.nan), judge[:, :, None], propensity, scores


def cells_of(scores, judges=None, features=None, **given):
    n = len(scores)
    judges = np.empty((*scores.shape, 0)) if judges is None else judges
    features = np.empty((n, 0)) if features is None else features
    given = {"fold": np.arange(n) % 5, "weight": np.ones(n)} | given
    return ScoreCells(scores, answer_columns(judges, features), **given)


def estimates(means):
    return (means.fitted + means.correction).mean(axis=0)


def test_slopes_and_conditional_means_are_those_of_dense_computations():
    rng = np.random.default_rng(0)
    design, y = rng.normal(size=(K, 30, 4)), rng.normal(size=(K, 30))
    design[:, :, 0] = 1.0
    penalty = np.kron(np.eye(K), np.diag([1.0, 10.0, 10.0, 10.0]))
    both = np.zeros((K * 30, 4 + 4 * K))
    for j in range(K):
        both[30 * j : 30 * j + 30, :4] = both[30 * j : 30 * j + 30, 4 + 4 * j : 8 + 4 * j] = design[j]
    full = np.zeros((4 + 4 * K,) * 2)
    full[:4, :4], full[4:, 4:] = np.diag([1e-9, 3.0, 3.0, 3.0]), penalty
    solved = np.linalg.solve(both.T @ both + full, both.T @ y.ravel())
    gram, moment = np.swapaxes(design, 1, 2) @ design, np.einsum("jnp,jn->jp", design, y)
    found = hierarchical_ridge(gram, moment, 3.0, 10.0)
    np.testing.assert_allclose(found, solved[:4] + solved[4:].reshape(K, 4), atol=1e-9)
    root, e = rng.normal(size=(K, K)), rng.normal(size=(50, K))
    covariance, is_seen = root @ root.T + np.eye(K), rng.random((50, K)) < 0.5
    found = conditional_means(np.where(is_seen, e, np.nan_to_num(np.nan)), is_seen, covariance)
    for i in range(50):
        for j in range(K):
            others = np.flatnonzero(is_seen[i] & (np.arange(K) != j))
            weights = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, j])
            assert found[i, j] == pytest.approx(weights @ e[i, others], abs=1e-10)


@pytest.mark.parametrize("whole", [True, False])
def test_estimates_are_unbiased_with_known_propensities(whole):
    scores = drawn(0)[3]
    found = []
    for seed in range(60):
        rng = np.random.default_rng([1, seed])
        p = np.clip(0.05 + 0.3 * scores.mean(axis=1, keepdims=True), 0, 1) * np.ones((1, K))
        is_drawn = rng.random((N, 1 if whole else K)) < p
        judge = scores[:, :, None] + 2 * np.arange(K)[:, None] * scores[:, [0], None]
        found.append(estimates(corrected_means(cells_of(np.where(is_drawn, scores, np.nan), judge), p)))
    error = np.mean(found, axis=0) - scores.mean(axis=0)
    assert (np.abs(error) < 4 * np.std(found, axis=0) / np.sqrt(60)).all()


def test_plain_means_where_nothing_predicts_and_where_nothing_is_missing():
    scores, judges, propensity, complete = drawn(1, whole=True)
    weight = np.random.default_rng(0).uniform(0.5, 2, N)
    is_there = np.isfinite(scores)
    plain = (np.nan_to_num(scores) * weight[:, None]).sum(axis=0) / (is_there * weight[:, None]).sum(axis=0)
    noise = np.random.default_rng(5).normal(size=judges.shape)
    for given in ({}, {"judges": noise}):
        means = corrected_means(cells_of(scores, **given, weight=weight), propensity)
        np.testing.assert_allclose(weight @ (means.fitted + means.correction) / weight.sum(), plain, atol=1e-12)
        np.testing.assert_allclose(weight @ means.correction, 0, atol=1e-10)
    means = corrected_means(cells_of(complete, judges), None)
    np.testing.assert_array_equal(means.fitted, complete)
    np.testing.assert_array_equal(means.correction, 0)
    assert (means.propensity == 1).all()


def test_levels_and_scales_of_scores_and_judges_change_nothing():
    scores, judges, propensity, _ = drawn(2, complete=2)
    means = corrected_means(cells_of(scores, judges), propensity)
    other = corrected_means(cells_of(5 + 3 * scores, 100 - 1e-3 + 7 * judges), propensity)
    np.testing.assert_allclose(estimates(other), 5 + 3 * estimates(means), atol=1e-9)
    order, rows = np.random.default_rng(0).permutation(K), np.random.default_rng(1).permutation(N)
    turned = cells_of(scores[rows][:, order], judges[rows][:, order], fold=(np.arange(N) % 5)[rows])
    moved = corrected_means(turned, propensity[rows][:, order])
    np.testing.assert_allclose(estimates(moved), estimates(means)[order], atol=1e-10)
    inverse = np.isfinite(scores) / propensity
    m = predicted_scores(cells_of(scores, judges), inverse, np.ones((K, K), dtype=bool))
    assert 0 <= m.min() <= m.max() <= 1


def test_scores_on_the_same_prompts_do_not_predict_each_other():
    scores, _, propensity, _ = drawn(3, whole=True, complete=1)
    is_complete = np.arange(K) < 1
    allowed = regressors(np.isfinite(scores), propensity, is_complete, N)
    assert allowed[:, 0].all()
    assert not allowed[:, 1:].any()
    unknown = np.where(np.isfinite(scores), propensity, np.nan)
    np.testing.assert_array_equal(regressors(np.isfinite(scores), unknown, is_complete, N), allowed)
    independent = drawn(3)[0]
    assert regressors(np.isfinite(independent), propensity * 0 + 0.15, is_complete & False, N).all()

    def too_small(predicts):
        """Errors over the standard errors of influence values."""
        found = []
        for seed in range(80):
            scores, _, propensity, complete = drawn([4, seed], whole=True, share=0.08)
            inverse = np.isfinite(scores) / propensity
            inverse /= inverse.mean(axis=0)
            m = predicted_scores(cells_of(scores), inverse, np.full((K, K), predicts))
            values = m + inverse * np.nan_to_num(scores - m)
            left = inverse * np.nan_to_num(scores - m - (inverse * np.nan_to_num(scores - m)).mean(axis=0))
            error = values.mean(axis=0) - complete.mean(axis=0)
            found.append(error / (left.std(axis=0) / np.sqrt(N)))
        return np.sqrt(np.square(found).mean())

    assert too_small(True) > 1.15 * too_small(False)


@pytest.mark.parametrize("wrong", ["predictor", "propensities"])
def test_one_of_predictor_and_propensities_may_be_wrong(wrong, monkeypatch):
    bias = []
    for seed in range(12):
        judges, rng = drawn([6, seed], quality=0.95, n=1000)[1], np.random.default_rng([7, seed])
        complete = judges[:, :, 0] + 0.5 * rng.normal(size=(1000, K))
        p = 0.6 / (1 + np.exp(-1.5 * judges[:, :, 0]))
        cells = cells_of(np.where(rng.random(p.shape) < p, complete, np.nan), judges)
        with monkeypatch.context() as patched:
            if wrong == "predictor":
                patched.setattr(module, "predicted_scores", lambda *_: np.zeros((1000, K)))
                means = corrected_means(cells, None)
            else:
                means = corrected_means(cells, np.full(p.shape, 0.3))
        plain = np.nanmean(cells.scores, axis=0)
        bias.append([estimates(means) - complete.mean(axis=0), plain - complete.mean(axis=0)])
    ours, theirs = np.mean(bias, axis=0)
    assert theirs.min() > 0.1
    assert (np.abs(ours) < 0.3 * theirs).all()


def test_propensities_follow_the_judge_and_keep_a_floor():
    scores, judges, _, _ = drawn(8, n=2000, complete=1)
    latent = judges[:, :, 0]
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(1 - 2 * latent))
    p[:, 0] = 1.0
    found = estimated_propensities(cells_of(np.where(rng.random(p.shape) < p, latent, np.nan), judges))
    assert (found[:, 0] == 1).all()
    assert np.abs(found - p)[:, 1:].mean() < 0.03
    assert found[:, 1:].min() >= 0.1 * np.isfinite(scores[:, 1:]).mean() * 0.9


def test_a_judge_that_misses_answers_is_filled_in_from_its_scores_of_others():
    judges, rng = drawn(9)[1], np.random.default_rng(0)
    some = np.where(rng.random(judges.shape) < 0.3, np.nan, judges)
    full, filled = answer_columns(judges, np.empty((N, 0))), answer_columns(some, np.empty((N, 0)))
    assert np.isfinite(filled).all()
    lost = np.isnan(some[:, :, 0])
    assert np.corrcoef(full[lost][:, 0], filled[lost][:, 0])[0, 1] > 0.4


def test_clusters_tell_what_a_task_leaves_of_other_models():
    rng = np.random.default_rng(10)
    cluster = np.repeat(np.arange(40), 20)
    effect = 1.5 * rng.normal(size=(40, 1))
    scores = effect[cluster] + 0.3 * effect[cluster] * rng.normal(size=(1, K)) + rng.normal(size=(800, K))
    is_run = np.ones((800, K), dtype=bool)
    is_run[:, 3:] = (effect[:, 0] > 0)[cluster, None] | (cluster[:, None] % 5 == 0)
    cells = cells_of(np.where(is_run, scores, np.nan), fold=cluster % 5, cluster=cluster)
    ours = estimates(corrected_means(cells, None))[3:] - scores[:, 3:].mean(axis=0)
    plain = np.nanmean(cells.scores, axis=0)[3:] - scores[:, 3:].mean(axis=0)
    assert np.abs(ours).max() < 0.3 * np.abs(plain).min()

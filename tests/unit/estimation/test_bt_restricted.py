"""The restricted estimator's parts against brute force: projection, information, identification."""

import numpy as np
import pytest
from scipy.special import expit, logit

from dmlrank.estimation.bt_restricted import (
    RestrictedBradleyTerry,
    check_identified,
    information_inverse,
    require_pair_propensities,
)
from dmlrank.exceptions import GraphError, NuisanceError
from dmlrank.functionals import BradleyTerry, CategoryWeights, Graph
from dmlrank.nuisance.propensity import Propensity, TabulatedPairPropensity

K = 4
HALF = CategoryWeights.half(2)


def drawn(seed, n=6, n_items=K):
    rng = np.random.default_rng(seed)
    first = rng.uniform(0.1, 0.9, size=(n, n_items, n_items))
    mu = np.stack([first, 1 - first], axis=-1)
    mu[:, np.arange(n_items), np.arange(n_items)] = 0.0
    return rng, mu, rng.uniform(0.05, 0.9, size=(n, n_items, n_items))


def score(pi, position=True, graph=None):
    graph = graph or Graph.all_pairs(pi.shape[1])
    return RestrictedBradleyTerry(BradleyTerry(HALF, graph), graph, TabulatedPairPropensity(pi), position)


def brute_force(mu, pi, label, graph, position):
    """Scores and the step of one label, with every sum and every inverse written out."""
    n_items = len(mu)
    pairs = [(j, k) for j in range(n_items) for k in range(n_items) if graph.edges[j, k]]
    rows, odds = [], []
    for j, k in pairs:
        rows.append(np.eye(n_items)[j] - np.eye(n_items)[k])
        odds.append(logit(mu[j, k, 0]))
    strength = np.linalg.lstsq(np.array(rows), np.array(odds), rcond=None)[0]
    effect = np.mean(np.array(odds) - np.array(rows) @ strength) if position else 0.0
    total = np.zeros((n_items + 1, n_items + 1))
    for (j, k), row in zip(pairs, rows, strict=True):
        if not position and j > k:
            continue
        z = np.append(row, float(position))
        fitted = expit(strength[j] - strength[k] + effect)
        total += pi[j, k] * fitted * (1 - fitted) * np.outer(z, z)
    j, k, y = label
    z = np.append(np.eye(n_items)[j] - np.eye(n_items)[k], float(position))
    residual = y - expit(strength[j] - strength[k] + effect)
    return strength, (np.linalg.pinv(total, rcond=1e-10) @ z * residual)[:n_items]


@pytest.mark.parametrize("position", [True, False])
@pytest.mark.parametrize("graph", [None, Graph.of([(0, 1), (1, 2), (2, 3), (3, 0)], K)], ids=["complete", "ring"])
def test_scores_and_steps_against_brute_force(position, graph):
    rng, mu, pi = drawn(0)
    graph = graph or Graph.all_pairs(K)
    if not position:
        mu, pi = (mu + np.swapaxes(mu, 1, 2)[..., ::-1]) / 2, pi + np.swapaxes(pi, 1, 2)
    place = np.array([0, 0, 3, 5])
    first, second = np.array([0, 1, 2, 0]), np.array([1, 2, 3, 3])
    y = np.array([1.0, 0.0])[rng.integers(2, size=4)]
    value, share, added = score(pi, position, graph).by_label(mu, np.arange(6), place, first, second)
    step = added * (y - share)[:, None]
    for e in range(4):
        strength, expected = brute_force(mu[place[e]], pi[place[e]], (first[e], second[e], y[e]), graph, position)
        np.testing.assert_allclose(value[place[e]], strength, atol=1e-12)
        np.testing.assert_allclose(step[e], expected, atol=1e-10)
    np.testing.assert_allclose(step.sum(axis=1), 0, atol=1e-12)


def test_labels_off_the_graph_add_nothing():
    _, mu, pi = drawn(1)
    ring = Graph.of([(0, 1), (1, 2), (2, 3), (3, 0)], K)
    added = score(pi, graph=ring).by_label(mu, np.arange(6), np.array([0]), np.array([0]), np.array([2]))[2]
    assert not added.any()


def test_the_projection_of_a_model_is_the_model():
    rng = np.random.default_rng(2)
    strength, effect = rng.normal(size=(5, K)), rng.normal(size=5)
    strength -= strength.mean(axis=1, keepdims=True)
    first = expit(strength[:, :, None] - strength[:, None] + effect[:, None, None])
    found = score(np.ones((5, K, K))).project(np.stack([first, 1 - first], axis=-1))
    np.testing.assert_allclose(found[0], strength, atol=1e-12)
    np.testing.assert_allclose(found[1], effect, atol=1e-12)


@pytest.mark.parametrize("position", [True, False])
def test_the_inverse_is_exact_where_propensities_are_tiny(position):
    rng = np.random.default_rng(3)
    amount = 10.0 ** rng.uniform(-7, -1, size=(4, K, K)) * ~np.eye(K, dtype=bool)
    inverse = information_inverse(amount, position)
    for i in range(4):
        total = np.zeros((K + 1, K + 1))
        for j, k in np.argwhere(~np.eye(K, dtype=bool)):
            z = np.append(np.eye(K)[j] - np.eye(K)[k], float(position))
            total += amount[i, j, k] * np.outer(z, z)
        total = total if position else total[:K, :K]
        centre = np.eye(K) - 1 / K
        expected = np.eye(K + position)
        expected[:K, :K] = centre
        np.testing.assert_allclose(total @ inverse[i], expected, atol=1e-6)


def offered(*pairs, n_items=3):
    table = np.zeros((1, n_items, n_items), dtype=bool)
    for j, k in pairs:
        table[0, j, k] = True
    return table


def test_identification():
    ring = offered((0, 1), (1, 2), (2, 0))
    # Going round, differences of scores cancel and the position effect is left: it is identified.
    check_identified(ring, True)
    check_identified(offered((0, 1), (1, 0), (1, 2)), True)
    check_identified(offered((0, 1), (1, 2)), False)
    with pytest.raises(GraphError):
        check_identified(offered((0, 1), (1, 2)), True)
    with pytest.raises(GraphError):
        check_identified(np.concatenate([ring, offered((0, 1), (2, 1))]), True)
    for position in (True, False):
        with pytest.raises(GraphError):
            check_identified(offered((0, 1), (1, 0)), position)


def test_propensities_of_all_pairs_are_asked_for():
    with pytest.raises(NuisanceError, match="marginal"):
        require_pair_propensities(Propensity(np.ones(3), "given"))

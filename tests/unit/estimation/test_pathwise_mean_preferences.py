"""The influence of scores of mean preferences is the pathwise derivative of F(E mu(X)), by enumeration."""

from dataclasses import replace

import numpy as np
import pytest

from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.mean_preferences import mean_preference_influence, mean_preferences
from dmlrank.estimation.one_step import one_step
from dmlrank.functionals import CategoryWeights, Custom, named
from dmlrank.functionals.linear_scores import Linearised, curvature_bias, jacobian_at

from ...support import inputs_of, without_order
from .populations import Population, submodels
from .test_pathwise import KINDS, N_ITEMS, as_data, check_gradient, drawn_mu, either_order

# Two functionals of this list are linear or a single number of a pair; they are covered by the other file.
NON_LINEAR = [name for name in KINDS if name not in ("borda", "pair_share", "first_advantage")]
N_PROMPTS = 3


def drawn_population(rng, n_categories, ordered):
    mu = np.concatenate([drawn_mu(rng, n_categories) for _ in range(2)])[:N_PROMPTS]
    return Population(rng, mu if ordered else without_order(mu))


def given(population, data, ordered, weight):
    pi = population.propensity()
    pi = pi if ordered else either_order(pi)
    prompt, cells = population.prompt, data.cells
    of_cells = pi[prompt[cells.context], cells.first, cells.second]
    return inputs_of(data, SuppliedMu(population.mu[prompt]), of_cells, weight=weight)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", NON_LINEAR)
def test_influence_of_mean_preferences_is_a_gradient(name, ordered, make_data):
    rng = np.random.default_rng(0)
    functional = KINDS[name](CategoryWeights.half(3))
    if not ordered and isinstance(functional, Custom):
        functional = replace(functional, mirrored=True)
    population = drawn_population(rng, 3, ordered)
    base = population.probability()

    def theta(probability):
        share, counted = population.counted(probability, ordered)
        return functional.value(np.tensordot(share, counted, 1)[None])[0]

    data = as_data(population, make_data, ordered)
    # Every atom is a context, so that weights make the sample the population.
    inputs = given(population, data, ordered, base * len(base))
    means = mean_preferences(inputs)
    np.testing.assert_allclose(means.one_step[0], np.tensordot(population.share, population.mu, 1), atol=1e-12)
    np.testing.assert_allclose(means.plugin, means.one_step, atol=1e-12)
    score = Linearised.at(functional, means.one_step[0])
    result = one_step({"target": score}, inputs).target
    np.testing.assert_allclose(result.estimate, theta(base), atol=1e-9)
    phi = result.value + result.correction_by_context - theta(base)
    for direction, derivative in submodels(theta, rng, base):
        check_gradient(phi, direction, derivative, base)


@pytest.mark.parametrize("name", ["bt", "softmin", "rank_centrality"])
def test_influence_in_overlapping_groups_is_a_gradient(name, make_data):
    rng = np.random.default_rng(1)
    functional = KINDS[name](CategoryWeights.half(2))
    population = drawn_population(rng, 2, True)
    base, worth = population.probability(), np.array([0.4, 1.0, 2.5])
    groups = np.array([[True, True, False], [False, True, True]])

    def theta(probability):
        share, counted = population.counted(probability)
        tables = [
            np.tensordot(share * worth * inside, counted, 1) / (share * worth * inside).sum() for inside in groups
        ]
        return functional.value(np.stack(tables)).ravel()

    data = as_data(population, make_data)
    inputs = given(population, data, True, base * worth[population.prompt])
    members = groups[:, population.prompt]
    means = mean_preferences(inputs, members)
    scores = [Linearised.at(functional, table) for table in means.one_step]
    influence = mean_preference_influence(scores, inputs, members)
    np.testing.assert_allclose(influence.estimate, theta(base), atol=1e-9)
    # Every atom is a context, whose influence values have the weight of the atom among all atoms as a factor.
    joint = influence.by_context()
    phi = np.zeros((2, len(base), joint.sizes[0]))
    for group, contexts in enumerate(joint.contexts):
        phi[group, contexts] = joint.centred_in(group)
    phi = np.hstack(phi) / (len(base) * base)[:, None]
    for direction, derivative in submodels(theta, rng, base):
        check_gradient(phi, direction, derivative, base)


@pytest.mark.parametrize("name", KINDS)
def test_the_linear_approximation_has_the_derivative_of_the_functional(name):
    rng = np.random.default_rng(2)
    functional = KINDS[name](CategoryWeights.half(3))
    table = drawn_mu(rng, 3)[0]
    delta = rng.normal(size=(4, N_ITEMS, N_ITEMS, 3)) * 0.01
    delta -= delta.mean(axis=-1, keepdims=True)
    delta[:, np.arange(N_ITEMS), np.arange(N_ITEMS)] = 0.0
    expected = functional.value_and_derivative(np.repeat(table[None], 4, axis=0), delta)[1]
    derivative = np.tensordot(delta, jacobian_at(functional, table), axes=([1, 2, 3], [1, 2, 3]))
    np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", ["bt", "softmin"])
def test_information_and_covariance_of_the_linear_approximation(name):
    rng = np.random.default_rng(3)
    functional = KINDS[name](CategoryWeights.half(3))
    mu, table = drawn_mu(rng, 3), drawn_mu(rng, 3)[0]
    linear, amount = Linearised.at(functional, table), rng.uniform(size=(2, N_ITEMS, N_ITEMS))
    expected = np.zeros((3, 3))
    information = np.zeros(mu.shape[:3])
    for i, j, k in np.argwhere(np.broadcast_to(~np.eye(N_ITEMS, dtype=bool), mu.shape[:3])):
        p = mu[i, j, k]
        term = linear.jacobian[:, j, k] @ (np.diag(p) - np.outer(p, p)) @ linear.jacobian[:, j, k].T
        information[i, j, k] = np.trace(term)
        expected += amount[i, j, k] * term
    np.testing.assert_allclose(linear.accumulate(table[None], amount, mu), expected, atol=1e-12)
    np.testing.assert_allclose(linear.information(mu), information, atol=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
def test_curvature_of_a_pair_local_functional_is_that_of_second_differences(ordered):
    rng = np.random.default_rng(5)
    functional = KINDS["bt-weighted"](CategoryWeights.half(3))
    table = drawn_mu(rng, 3)[0]
    table = table if ordered else without_order(table)
    factors = rng.normal(size=(N_ITEMS, N_ITEMS, 3, 2)) * 0.02
    factors -= factors.mean(axis=2, keepdims=True)
    moment = factors @ np.swapaxes(factors, 2, 3)
    pairs = np.triu(np.ones((N_ITEMS, N_ITEMS), dtype=bool), 1)
    moment[~(pairs if not ordered else pairs | pairs.T)] = 0.0
    same_function = Custom(functional.value).bind(CategoryWeights.half(3))
    uses = ~np.eye(N_ITEMS, dtype=bool)
    local, general = (curvature_bias(f, table, moment, uses, ordered) for f in (functional, same_function))
    assert np.abs(local).max() > 1e-4
    np.testing.assert_allclose(local, general, rtol=2e-3, atol=1e-8)


@pytest.mark.parametrize("kind", ["bt", "rank_centrality", "softmin", "dominance"])
@pytest.mark.parametrize("rare", [1e-18, 1e-9, 0.0])
def test_a_category_that_nobody_chose_does_not_change_the_curvature(kind, rare):
    """Two kinds of ties count alike, so that the bias is that of one kind, however rare the other one is."""
    rng = np.random.default_rng(6)

    three = drawn_mu(rng, 3)[0]
    four = np.concatenate([three, np.full((*three.shape[:-1], 1), rare)], axis=-1)
    four[..., 2] -= rare
    factors = rng.normal(size=(N_ITEMS, N_ITEMS, 4, 2)) * 0.02
    factors -= factors.mean(axis=2, keepdims=True)
    moment = factors @ np.swapaxes(factors, 2, 3)
    merge = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1.0]])
    uses = ~np.eye(N_ITEMS, dtype=bool)
    one, other = (
        curvature_bias(named(kind).bind(weights=CategoryWeights.half(n)), table, covariance, uses, True)
        for n, table, covariance in ((3, three, merge @ moment @ merge.T), (4, four, moment))
    )
    assert np.abs(one).max() > 1e-5
    np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-7)

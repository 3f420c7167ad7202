"""Every influence function is a pathwise derivative: E[phi s] = d theta along random submodels, by enumeration.

A variance proves nothing here: something that is no gradient can vary less. Each test states theta as a function of the
probabilities of what is observed, moves them, and compares.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from dmlrank.estimation.bt_restricted import RestrictedBradleyTerry
from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import blocks_by_context, blocks_by_group
from dmlrank.estimation.one_step import one_step
from dmlrank.functionals import (
    FUNCTIONALS,
    BradleyTerry,
    CategoryWeights,
    Custom,
    Dominance,
    Graph,
    RankCentrality,
    SoftMin,
)
from dmlrank.functionals.linear_scores import PositionEffect, WinShare
from dmlrank.nuisance.propensity import TabulatedPairPropensity

from ...support import either_order, inputs_of, without_order
from .populations import Population, data_of, slope, submodels

N_PROMPTS, N_ITEMS = 2, 3
DIRECTIONS = 8
# What the method needs is below 1e-3; enumeration leaves no more than this.
TOLERANCE = 1e-6


def gap(mu):
    """Gap of the first two items in the product of their chances, and a number that is no score."""
    share = mu[..., 0] + mu[..., 2:].sum(axis=-1) / 2
    return np.stack([np.log(share[:, 0, 1] / share[:, 1, 0]), share[:, 0, 2] * share[:, 2, 1] ** 2], axis=1)


# Every functional with a name, and variants.
KINDS = dict(FUNCTIONALS) | {
    "bt-weighted": lambda weights: BradleyTerry(weights, None, np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0.0]])),
    "bt-tree": lambda weights: BradleyTerry(weights, Graph.of([(0, 1), (1, 2)], 3)),
    "rank_centrality-rate": lambda weights: RankCentrality(weights, walk="rate"),
    "dominance": lambda weights: Dominance(weights, tau=0.55, sharpness=12),
    "softmin": lambda weights: SoftMin(weights, sharpness=12),
    "custom": lambda weights: Custom(gap, outputs=("gap", "product")).bind(weights),
    "pair_share": lambda weights: WinShare(weights, 0, 2),
    "first_advantage": lambda weights: PositionEffect(weights, Graph.all_pairs(3)),
}


def drawn_mu(rng, n_categories):
    mu = 0.2 / n_categories + 0.8 * rng.dirichlet(np.ones(n_categories), size=(N_PROMPTS, N_ITEMS, N_ITEMS))
    mu[:, np.arange(N_ITEMS), np.arange(N_ITEMS)] = 0.0
    return mu


def as_data(population, make_data, ordered=True):
    data = data_of(population, population.votes(), make_data)
    return data if ordered else data.unordered()


def uncentred(score, population, make_data, ordered=True, annotators=False):
    """F + correction of every atom, (A, d), as the estimator computes it with true first stages."""
    data = as_data(population, make_data, ordered)
    pi = population.propensity()
    pi = pi if ordered else either_order(pi)
    cells, prompt = data.cells, population.prompt
    propensity = pi[prompt[cells.context], cells.first, cells.second]
    blocks = blocks_by_context(data)
    if annotators:
        blocks, _ = blocks_by_group(data, np.arange(data.n_votes) % 2)
    made = one_step(
        {"target": score},
        inputs_of(data, SuppliedMu(population.mu[prompt]), propensity, blocks=blocks),
    ).target
    return made.value + made.correction_by_context


def check_gradient(phi, score, derivative, probability):
    """E[phi s] = d theta, to a tolerance that no formula which is merely close would meet."""
    pathwise = (probability * score) @ phi
    scale = np.abs(derivative).max()
    assert scale > 1e-5
    np.testing.assert_allclose(pathwise, derivative, rtol=0, atol=TOLERANCE * scale)


# --- functionals, in the model that says nothing ------------------------------------------------------------------


# Where order does not matter there is no advantage of being first.
CASES = [(name, ordered) for name in KINDS for ordered in (True, False) if ordered or name != "first_advantage"]


@pytest.mark.parametrize(("name", "ordered"), CASES)
@pytest.mark.parametrize("n_categories", [2, 3])
def test_influence_is_a_gradient(name, ordered, n_categories, make_data):
    rng = np.random.default_rng(0)
    functional = KINDS[name](CategoryWeights.half(n_categories))
    if not ordered and isinstance(functional, Custom):
        functional = replace(functional, mirrored=True)
    mu = drawn_mu(rng, n_categories)
    population = Population(rng, mu if ordered else without_order(mu))
    base = population.probability()
    assert base.sum() == pytest.approx(1)

    def theta(probability):
        share, counted = population.counted(probability, ordered)
        return share @ functional.value(counted)

    np.testing.assert_allclose(population.counted(base, ordered)[1], population.mu, atol=1e-12)
    phi = uncentred(functional, population, make_data, ordered) - theta(base)
    # Difference quotients of a custom functional round at 1e-11.
    np.testing.assert_allclose(base @ phi, 0, atol=1e-9 if isinstance(functional, Custom) else 1e-12)
    for score, derivative in submodels(theta, rng, base):
        check_gradient(phi, score, derivative, base)


@pytest.mark.parametrize("kind", [KINDS["bt"], KINDS["softmin"]], ids=["bt", "softmin"])
def test_pieces_by_annotator_add_up_to_the_same_gradient(kind, make_data):
    rng = np.random.default_rng(1)
    functional = kind(CategoryWeights.half(3))
    population = Population(rng, drawn_mu(rng, 3))
    whole, parts = (uncentred(functional, population, make_data, annotators=a) for a in (False, True))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


@pytest.mark.parametrize("kind", [KINDS["bt"], KINDS["rank_centrality"]], ids=["bt", "rank_centrality"])
def test_weighted_influence_is_a_gradient(kind, make_data):
    rng = np.random.default_rng(2)
    functional, worth = kind(CategoryWeights.half(2)), np.array([0.4, 2.5])
    population = Population(rng, drawn_mu(rng, 2))
    base = population.probability()

    def theta(probability):
        share, counted = population.counted(probability)
        return (share * worth) @ functional.value(counted) / (share @ worth)

    weight = worth[population.prompt] / (population.share @ worth)
    phi = weight[:, None] * (uncentred(functional, population, make_data) - theta(base))
    for score, derivative in submodels(theta, rng, base):
        check_gradient(phi, score, derivative, base)


@pytest.mark.parametrize("kind", [KINDS["borda"], KINDS["bt"], KINDS["dominance"]], ids=["borda", "bt", "dominance"])
def test_sums_over_clusters_are_gradients(kind, make_data):
    # A cluster is two prompts whose labels depend on each other in any way; submodels move their joint law.
    rng = np.random.default_rng(3)
    functional = kind(CategoryWeights.half(2))
    population = Population(rng, drawn_mu(rng, 2), several=False)
    single = population.probability()
    joint = np.outer(single, single)
    # Dependence that leaves both margins as they are.
    tie = rng.uniform(-0.5, 0.5, size=joint.shape)
    tie -= (tie @ single)[:, None]
    tie -= single @ tie
    joint *= 1 + tie
    np.testing.assert_allclose(joint.sum(axis=0), single)

    def theta(probability):
        share, counted = population.counted((probability.sum(axis=0) + probability.sum(axis=1)) / 2)
        return share @ functional.value(counted)

    phi = uncentred(functional, population, make_data) - theta(joint)
    of_cluster = (phi[:, None] + phi[None]) / 2
    flat = joint.ravel()
    for score, derivative in submodels(theta, rng, joint):
        check_gradient(of_cluster.reshape(-1, of_cluster.shape[-1]), score, derivative, flat)


# --- the restricted model -----------------------------------------------------------------------------------------


def bradley_terry(strength, effect):
    """Probabilities of a Bradley-Terry model in every prompt, (X, K, K, 2), from (X, K) and (X,)."""
    first = expit(strength[:, :, None] - strength[:, None, :] + effect[:, None, None])
    mu = np.stack([first, 1 - first], axis=-1)
    mu[:, np.arange(strength.shape[1]), np.arange(strength.shape[1])] = 0.0
    return mu


@pytest.fixture
def model():
    """A Bradley-Terry population with or without position effect, and random paths within the model."""

    def make(seed, position, several=True):
        rng = np.random.default_rng(seed)
        strength = rng.normal(size=(N_PROMPTS, N_ITEMS))
        strength -= strength.mean(axis=1, keepdims=True)
        effect = rng.normal(0.5, 0.5, size=N_PROMPTS) if position else np.zeros(N_PROMPTS)
        population = Population(rng, bradley_terry(strength, effect), several)

        def path():
            d_share = rng.uniform(-1, 1, size=N_PROMPTS)
            d_selection = rng.uniform(-1, 1, size=population.selection.shape)
            d_strength = rng.normal(size=strength.shape)
            d_strength -= d_strength.mean(axis=1, keepdims=True)
            d_effect = rng.normal(size=N_PROMPTS) * position

            def at(h):
                share = population.share * (1 + h * (d_share - population.share @ d_share))
                tilt = d_selection - (population.selection * d_selection).sum(axis=1, keepdims=True)
                moved = strength + h * d_strength
                mu = bradley_terry(moved, effect + h * d_effect)
                return population.probability(share, population.selection * (1 + h * tilt), mu), share @ moved

            base = at(0.0)[0]
            return slope(lambda h: np.log(at(h)[0])), slope(lambda h: at(h)[1]), base

        return population, path, population.share @ strength

    return make


def restricted_score(population, position):
    pi = population.propensity()
    pi = pi if position else either_order(pi)
    return RestrictedBradleyTerry(
        BradleyTerry(CategoryWeights.half(2)),
        Graph.all_pairs(N_ITEMS),
        TabulatedPairPropensity(pi[population.prompt]),
        position,
    )


@pytest.mark.parametrize("position", [True, False], ids=["position effect", "position_bias=False"])
@pytest.mark.parametrize("several", [True, False], ids=["several pairs", "one pair"])
def test_the_restricted_influence_is_a_gradient(model, make_data, position, several):
    population, path, theta = model(4, position, several)
    phi = uncentred(restricted_score(population, position), population, make_data, position) - theta
    free = uncentred(BradleyTerry(CategoryWeights.half(2)), population, make_data, position) - theta
    base = population.probability()
    np.testing.assert_allclose(base @ phi, 0, atol=1e-12)
    for _ in range(DIRECTIONS):
        score, derivative, _ = path()
        check_gradient(phi, score, derivative, base)
        check_gradient(free, score, derivative, base)


@pytest.mark.parametrize("position", [True, False], ids=["position effect", "position_bias=False"])
def test_it_is_the_efficient_one(model, make_data, position):
    # A gradient that is orthogonal to its difference from any other gradient lies in the tangent space.
    population, _, theta = model(5, position)
    phi = uncentred(restricted_score(population, position), population, make_data, position) - theta
    free = uncentred(BradleyTerry(CategoryWeights.half(2)), population, make_data, position) - theta
    base = population.probability()[:, None]
    np.testing.assert_allclose((base * (free - phi)).T @ phi, 0, atol=1e-12)
    gain = (base * free).T @ free - (base * phi).T @ phi
    spectrum = np.linalg.eigvalsh(gain)
    assert spectrum[0] > -1e-12
    assert spectrum[1] > 1e-3

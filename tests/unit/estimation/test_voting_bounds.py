"""Bounds for votes not cast: influence values are pathwise derivatives, bounds are attained and equal brute force."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import blocks_by_context
from dmlrank.estimation.voting_bounds import (
    BoundInputs,
    CorrectionRows,
    ExtremeShares,
    VotingStage,
    additive_bounds,
    first_order_bounds,
)
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Dominance, Graph, RankCentrality, SoftMin
from dmlrank.nuisance.propensity import TabulatedPairPropensity

from ...support import inputs_of, without_order
from .populations import Population, data_of, slope, submodels

N_PROMPTS, N_ITEMS = 2, 3
TOLERANCE = 1e-6
CONTRASTS = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.5, -1.0]])


def extreme(mu, worth, gamma):
    """The law with the largest mean worth, (C,): factors gamma for the best categories, 1/gamma for the worst."""
    factor = np.full(len(mu), 1 / gamma)
    left = 1 - (mu * factor).sum()
    for category in np.argsort(-worth, kind="stable"):
        added = min(left, mu[category] * (gamma - 1 / gamma))
        factor[category] += added / mu[category]
        left -= added
    return mu * factor


class ShownPopulation:
    """Prompts, patterns of shown pairs, and for every shown pair a label or no vote."""

    def __init__(self, rng, mu, rate):
        self.mu, self.rate = mu, rate
        self.n_categories = mu.shape[-1]
        pairs = list(itertools.permutations(range(N_ITEMS), 2))
        self.patterns = [(), *((pair,) for pair in pairs), (pairs[0], pairs[3]), ((0, 1), (1, 0))]
        self.share = rng.dirichlet(np.full(N_PROMPTS, 5.0))
        self.selection = rng.dirichlet(np.full(len(self.patterns), 2.0), size=N_PROMPTS)
        outcomes = range(self.n_categories + 1)  # the last one is no vote
        self.atoms = [
            (x, number, tuple(zip(pattern, labels, strict=True)))
            for x in range(N_PROMPTS)
            for number, pattern in enumerate(self.patterns)
            for labels in itertools.product(outcomes, repeat=len(pattern))
        ]
        self.prompt = np.array([x for x, _, _ in self.atoms])

    def probability(self):
        total = []
        for x, number, votes in self.atoms:
            p = self.share[x] * self.selection[x, number]
            for (j, k), c in votes:
                v = self.rate[x, j, k]
                p *= 1 - v if c == self.n_categories else v * self.mu[x, j, k, c]
            total.append(p)
        return np.array(total)

    def counted(self, probability, ordered):
        """Shares of prompts, mu and vote rates, counted from the probabilities of the atoms."""
        C, flip = self.n_categories, [1, 0, *range(2, self.n_categories)]
        share, table = np.zeros(N_PROMPTS), np.zeros((N_PROMPTS, N_ITEMS, N_ITEMS, C + 1))
        for (x, _, votes), p in zip(self.atoms, probability, strict=True):
            share[x] += p
            for (j, k), c in votes:
                table[x, j, k, c] += p
                if not ordered:
                    table[x, k, j, c if c == C else flip[c]] += p
        voted, shown = table[..., :C].sum(axis=-1), table.sum(axis=-1)
        items = np.arange(N_ITEMS)
        voted[:, items, items] = shown[:, items, items] = 1.0
        return share, table[..., :C] / voted[..., None], voted / shown, voted, shown

    def inputs(self, make_data, weights, ordered, floor=0.0, annotators=False):
        base = self.probability()
        share, _, rate, voted, shown = self.counted(base, ordered)
        labels = [(i, j, k, c) for i, (_, _, votes) in enumerate(self.atoms) for (j, k), c in votes]
        rows = np.array([row for row in labels if row[3] < self.n_categories]).T
        data = make_data(*rows, n_items=N_ITEMS, n_categories=self.n_categories, n_contexts=len(self.atoms))
        data = data if ordered else data.unordered()
        pi, r = voted / share[:, None, None], shown / share[:, None, None]
        cells, blocks, mu = data.cells, blocks_by_context(data), self.mu[self.prompt]
        context, first, second, label = np.array(labels).T
        if not ordered:
            first, second = np.minimum(first, second), np.maximum(first, second)
        x = self.prompt[context]
        v = rate[x, first, second]
        of_battle = mu[context, first, second]
        battles = CorrectionRows(
            context, context, first, second, of_battle, v, np.zeros_like(of_battle),
            ((label < self.n_categories) - v) / r[x, first, second],
        )  # fmt: skip
        x = self.prompt[cells.context]
        voting = VotingStage(
            rates=TabulatedPairPropensity(rate[self.prompt]),
            cell_rate=rate[x, cells.first, cells.second],
            shown=battles,
            block_context=blocks.context,
            block_weight=np.ones(len(blocks.context)),
            annotator=None,
            shares_rates=False,
        )
        fit = inputs_of(data, SuppliedMu(mu), pi[x, cells.first, cells.second], floor, blocks=blocks)
        worth = np.subtract(weights.first, weights.second)
        return BoundInputs(fit, voting, worth), base


def drawn(rng, n_categories, ordered):
    mu = 0.2 / n_categories + 0.8 * rng.dirichlet(np.ones(n_categories), size=(N_PROMPTS, N_ITEMS, N_ITEMS))
    rate = rng.uniform(0.3, 0.9, size=(N_PROMPTS, N_ITEMS, N_ITEMS))
    items = np.arange(N_ITEMS)
    mu[:, items, items], rate[:, items, items] = 0.0, 1.0
    return (mu, rate) if ordered else (without_order(mu), (rate + np.swapaxes(rate, 1, 2)) / 2)


def bound_of(functional, contrast, share, mu, rate, gamma, worth_of):
    """The upper bound of a contrast, by its definition, from the extreme law of every pair of every prompt."""
    moved = mu.copy()
    for x, j, k in np.ndindex(mu.shape[:3]):
        if j != k:
            u = extreme(mu[x, j, k], worth_of(x, j, k), gamma)
            moved[x, j, k] = rate[x, j, k] * mu[x, j, k] + (1 - rate[x, j, k]) * u
    return share @ functional.value(moved) @ contrast


def gradient(functional, mu, contrast, ordered):
    """Numerical derivative of a contrast in the category probabilities of every pair, (X, K, K, C)."""
    flip, total = [1, 0, *range(2, mu.shape[-1])], np.zeros(mu.shape)
    for j, k in itertools.permutations(range(N_ITEMS), 2):
        for c in range(mu.shape[-1] - 1):

            def value(h, j=j, k=k, c=c):
                moved = mu.copy()
                step = np.zeros(mu.shape[-1])
                step[c], step[-1] = h, -h
                moved[:, j, k] += step
                if not ordered:
                    moved[:, k, j] += step[flip]
                return functional.value(moved) @ contrast

            total[:, j, k, c] = slope(value)
    return total


FUNCTIONALS = {
    "borda": Borda,
    "bt": BradleyTerry,
    "bt-tree": lambda weights: BradleyTerry(weights, Graph.of([(0, 1), (1, 2)], 3)),
    "rank_centrality": RankCentrality,
    "softmin": lambda weights: SoftMin(weights, sharpness=12),
    "dominance": lambda weights: Dominance(weights, tau=0.55, sharpness=12),
}
SHARP = ("borda", "bt", "bt-tree")
EVALUATORS = [(name, "additive") for name in SHARP] + [(name, "any") for name in FUNCTIONALS]


def influence_of(part, inputs):
    """Value and correction of every context, (n, 2 J), where all contexts are one part."""
    total = part.value.copy()
    np.add.at(total, inputs.voting.block_context[part.blocks], part.correction)
    return total


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("n_categories", [2, 3])
@pytest.mark.parametrize(("name", "evaluator"), EVALUATORS)
@pytest.mark.long
def test_bounds_and_their_influence(name, evaluator, n_categories, ordered, make_data):
    """By enumeration: the mean of the values is the bound, and E[phi s] is its derivative along any submodel."""
    rng = np.random.default_rng(3)
    weights, gamma = CategoryWeights.half(n_categories), 1.7
    functional = FUNCTIONALS[name](weights)
    population = ShownPopulation(rng, *drawn(rng, n_categories, ordered))
    inputs, base = population.inputs(make_data, weights, ordered)
    evaluate = additive_bounds if evaluator == "additive" else first_order_bounds
    (part,) = evaluate(functional, CONTRASTS, [gamma], inputs)
    uncentred = influence_of(part, inputs)
    # At the population the derivatives do not cross zero, so that the extreme category of a pair stays what it is.
    signs = [gradient(functional, population.mu, c, ordered) for c in CONTRASTS]

    def theta(probability, contrast, sign, g):
        share, mu, rate, _, _ = population.counted(probability, ordered)
        mu[population.mu == 0] = 0.0
        return sign * bound_of(functional, sign * contrast, share, mu, rate, gamma, lambda *q: sign * g[q])

    for number, (contrast, g) in enumerate(zip(CONTRASTS, signs, strict=True)):
        for sign, column in ((-1, number), (1, number + len(CONTRASTS))):
            bound_at = partial(theta, contrast=contrast, sign=sign, g=g)
            phi = uncentred[:, column] - bound_at(base)
            np.testing.assert_allclose(base @ phi, 0, atol=1e-9)
            for score, derivative in submodels(bound_at, rng, base, 3):
                np.testing.assert_allclose((base * score) @ phi, derivative, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["borda", "bt", "rank_centrality"])
def test_the_influence_where_every_pair_counts_as_shown(name, make_data):
    """Then v = pi: the bound depends on mu and on the propensity of a label at all pairs."""
    rng = np.random.default_rng(5)
    weights, gamma = CategoryWeights.half(2), 1.6
    functional, contrast = FUNCTIONALS[name](weights), CONTRASTS[0]
    population = Population(rng, drawn(rng, 2, ordered=True)[0])
    base, prompt = population.probability(), population.prompt
    data = data_of(population, population.votes(), make_data)
    pi, cells, blocks = population.propensity(), data.cells, blocks_by_context(data)
    cell_pi = pi[prompt[cells.context], cells.first, cells.second]
    voting = VotingStage(
        rates=TabulatedPairPropensity(pi[prompt]),
        cell_rate=cell_pi,
        shown=None,
        block_context=blocks.context,
        block_weight=blocks.weight,
        annotator=None,
        shares_rates=False,
    )
    fit = inputs_of(data, SuppliedMu(population.mu[prompt]), cell_pi, blocks=blocks)
    worth = np.subtract(weights.first, weights.second)
    inputs = BoundInputs(fit, voting, worth)
    evaluate = additive_bounds if name in SHARP else first_order_bounds
    (part,) = evaluate(functional, contrast[None], [gamma], inputs)
    g = gradient(functional, population.mu, contrast, ordered=True)
    labelled = np.array([[[(j, k) in pattern for pattern in population.patterns] for k in range(3)] for j in range(3)])

    def theta(probability):
        share, mu = population.counted(probability)
        shown = np.zeros((N_PROMPTS, len(population.patterns)))
        for (atom, pattern), p in zip(population.atoms, probability, strict=True):
            shown[atom.prompt, pattern] += p / share[atom.prompt]
        rate = np.einsum("jks,xs->xjk", labelled, shown)
        return bound_of(functional, contrast, share, mu, rate, gamma, lambda *q: g[q])

    phi = influence_of(part, inputs)[:, 1] - theta(base)
    np.testing.assert_allclose(base @ phi, 0, atol=1e-9)
    for score, derivative in submodels(theta, rng, base, 4):
        np.testing.assert_allclose((base * score) @ phi, derivative, rtol=0, atol=TOLERANCE)


def vertices(mu, gamma):
    """All extreme laws of one pair, (., C): every category but one has the factor gamma or 1/gamma."""
    laws = []
    for free in range(len(mu)):
        others = [c for c in range(len(mu)) if c != free]
        for factors in itertools.product([gamma, 1 / gamma], repeat=len(others)):
            law = np.zeros(len(mu))
            law[others] = mu[others] * factors
            law[free] = 1 - law.sum()
            if mu[free] / gamma - 1e-12 <= law[free] <= mu[free] * gamma + 1e-12:
                laws.append(law)
    return np.array(laws)


@pytest.mark.parametrize("name", SHARP)
def test_bounds_are_the_extremes_over_all_laws(name, make_data):
    """Brute force over the vertices of all pairs at once: no law passes the bound, and one attains it."""
    rng = np.random.default_rng(6)
    weights, gamma = CategoryWeights.half(2), 2.0
    functional = FUNCTIONALS[name](weights)
    mu, rate = drawn(rng, 2, ordered=True)
    inputs, _ = ShownPopulation(rng, mu, rate).inputs(make_data, weights, ordered=True)
    (part,) = additive_bounds(functional, CONTRASTS, [gamma], inputs)
    prompt = 0
    atom = int(np.flatnonzero(np.all(inputs.fit.mu.mu == mu[prompt], axis=(1, 2, 3)))[0])
    pairs = list(itertools.permutations(range(N_ITEMS), 2))
    combinations = list(itertools.product(*(vertices(mu[prompt][pair], gamma) for pair in pairs)))
    moved = np.tile(mu[prompt], (len(combinations), 1, 1, 1))
    for number, laws in enumerate(combinations):
        for pair, law in zip(pairs, laws, strict=True):
            v = rate[prompt][pair]
            moved[number][pair] = v * mu[prompt][pair] + (1 - v) * law
    scores = functional.value(moved) @ CONTRASTS.T
    np.testing.assert_allclose(part.value[atom, :3], scores.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(part.value[atom, 3:], scores.max(axis=0), atol=1e-12)


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_extreme_shares_solve_the_linear_program(n_categories):
    rng = np.random.default_rng(n_categories)
    for _ in range(20):
        mu, gamma = rng.dirichlet(np.ones(n_categories)), 1 + 3 * rng.random()
        worth = rng.normal(size=n_categories)
        shares = ExtremeShares(np.argsort(-worth), gamma).of(mu)
        solved = linprog(-worth * mu, A_eq=mu[None], b_eq=[1.0], bounds=[(1 / gamma, gamma)] * n_categories)
        assert shares.sum() == pytest.approx(1)
        assert worth @ shares == pytest.approx(-solved.fun, abs=1e-9)


def test_extreme_shares_are_unchanged_at_one_and_differentiable():
    rng = np.random.default_rng(9)
    mu = rng.dirichlet(np.ones(3), size=(4, 5))
    order = np.argsort(rng.normal(size=(4, 5, 3)), axis=-1)
    np.testing.assert_allclose(ExtremeShares(order, 1.0).of(mu), mu, atol=1e-14)
    delta = rng.normal(size=mu.shape)
    delta -= delta.mean(axis=-1, keepdims=True)
    shares = ExtremeShares(order, 1.8)
    numeric = slope(lambda h: shares.of(mu + 1e-3 * h * delta)) * 1e3
    np.testing.assert_allclose(shares.derivative(mu, delta), numeric, atol=1e-8)

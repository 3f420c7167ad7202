"""With style differences the influence functions are pathwise derivatives too, by enumeration of a finite sample space.

Atoms are prompts, which pairs are labelled, the style difference of every labelled vote, and its label. Along saturated
submodels, slopes and scores are computed from the moved atoms by counting.
"""

import itertools

import numpy as np
import pytest

from dmlrank.estimation.equal_style import EqualStyleTerms
from dmlrank.estimation.influence import InfluenceBlocks
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Graph
from dmlrank.functionals.linear_scores import LinkedScore
from dmlrank.nuisance.style import AdditiveFit, AdditiveModel, StyleRows, StyleStages

from .populations import submodels

N_PROMPTS, N_ITEMS = 2, 3
STYLES = np.array([[-1.0, 0.3], [0.2, -0.5], [0.9, 0.8]])
DIRECTIONS, TOLERANCE = 6, 1e-6
EDGE_WEIGHTS = np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0.0]])


class StyledPopulation:
    """Prompts, patterns of labelled pairs, style differences and labels of two categories."""

    def __init__(self, rng, several):
        self.n_items, self.n_categories = N_ITEMS, 2
        pairs = list(itertools.permutations(range(N_ITEMS), 2))
        patterns = [(), *((pair,) for pair in pairs)]
        if several:
            # Two votes on one cell, whose answers may differ, and votes on two pairs.
            patterns += [((0, 1), (0, 1)), ((0, 2), (1, 0))]
        share = rng.dirichlet(np.full(N_PROMPTS, 5.0))
        offered = 0.8 * rng.dirichlet(np.full(len(patterns), 2.0), size=N_PROMPTS) + 0.2 / len(patterns)
        shape = (N_PROMPTS, N_ITEMS, N_ITEMS)
        style = 0.2 + 0.4 * rng.dirichlet(np.ones(len(STYLES)), size=shape)
        style /= style.sum(axis=-1, keepdims=True)
        first_wins = rng.uniform(0.15, 0.85, size=(*shape, len(STYLES)))
        outcomes = list(itertools.product(range(len(STYLES)), (0, 1)))
        self.atoms, probability = [], []
        for x, (number, pattern) in itertools.product(range(N_PROMPTS), enumerate(patterns)):
            for drawn in itertools.product(outcomes, repeat=len(pattern)):
                p = share[x] * offered[x, number]
                for (j, k), (d, c) in zip(pattern, drawn, strict=True):
                    win = first_wins[x, j, k, d]
                    p *= style[x, j, k, d] * (win if c == 0 else 1 - win)
                self.atoms.append((x, tuple((*pair, *one) for pair, one in zip(pattern, drawn, strict=True))))
                probability.append(p)
        self.probability = np.array(probability)
        self.prompt = np.array([x for x, _ in self.atoms])

    def counted(self, probability, ordered):
        """Shares of prompts, pi, the law of style, (X, K, K, S), and the preference given style, (X, K, K, S).

        Without order, pairs have the smaller item first, and style has 2 S values: as it is, and with its sign changed.
        Votes on one cell count by their share of the cell.
        """
        n_styles = len(STYLES) * (1 if ordered else 2)
        labelled, known = np.zeros((2, N_PROMPTS, N_ITEMS, N_ITEMS, n_styles)), np.zeros((N_PROMPTS, N_ITEMS, N_ITEMS))
        for (x, votes), p in zip(self.atoms, probability, strict=True):
            cells = [(j, k) for j, k, *_ in votes]
            for j, k, d, c in votes:
                part = p / cells.count((j, k))
                if not ordered and j > k:
                    j, k, d, c = k, j, d + len(STYLES), 1 - c
                labelled[c, x, j, k, d] += part
                known[x, j, k] += part
        share = np.bincount(self.prompt, probability, N_PROMPTS)
        total = labelled.sum(axis=0)
        law = total / np.where(known > 0, known, 1)[..., None]
        return share, known / share[:, None, None], law, labelled[0] / np.where(total > 0, total, 1)

    def nuisances(self, link, probability, ordered):
        """Return pi, m, lbar, e, c and V as tables, with the shares of prompts."""
        share, pi, law, m = self.counted(probability, ordered)
        styles = STYLES if ordered else np.concatenate([STYLES, -STYLES])
        value = np.where(law > 0, link.value(np.where(law > 0, m, 0.5)), 0.0)
        lbar, e = (law * value).sum(axis=-1), law @ styles
        apart = styles - e[..., None, :]
        c = np.einsum("xjks,xjksr->xjkr", law * (value - lbar[..., None]), apart)
        v = np.einsum("xjks,xjksr,xjkst->xjkrt", law, apart, apart)
        return share, pi, m, lbar, e, c, v

    def estimates(self, link, probability, ordered, worth=None):
        """Return slopes, averaged scores and scores at equal style, from the atoms by counting."""
        share, _, _, lbar, e, c, v = self.nuisances(link, probability, ordered)
        share = share * (1 if worth is None else worth)
        share = share / share.sum()
        first, second = link.pairs()
        a, coefficients = link.edges[first, second], link.coefficients(first, second)
        sums = [np.tensordot(share, table[:, first, second], axes=1) for table in (lbar, e, c, v)]
        beta = np.linalg.solve(np.tensordot(a, sums[3], axes=1), a @ sums[2])
        averaged = link.constant + sums[0] @ coefficients
        return np.concatenate([averaged - (sums[1] @ beta) @ coefficients, averaged, beta])

    def votes(self):
        return [(i, *vote) for i, (_, votes) in enumerate(self.atoms) for vote in votes]


def table_fit(table):
    """A regression whose prediction in one prompt is a table, (K, K, R)."""
    n_responses = table.shape[-1]
    no_extra = np.empty((0, n_responses))
    model = AdditiveModel(N_ITEMS, -1, False, False, np.empty(0))
    return AdditiveFit(np.zeros((N_ITEMS, 1, n_responses)), np.zeros((0, n_responses)), no_extra, table, model)


def even_fit(table):
    fit = table_fit(table)
    model = AdditiveModel(N_ITEMS, 1, False, False, np.empty(0))
    return AdditiveFit(fit.item, np.zeros((1, table.shape[-1])), fit.extra, fit.pair, model)


def terms_of(population, link, make_data, ordered, worth=None, wrong=()):
    """The estimator's terms with true first stages; every prompt is a fold, whose regressions are tables.

    The first stages with the names in ``wrong``, "means" (lbar and e) or "moments" (c and V), are wrong by constants.
    """
    votes = np.array(population.votes())
    context, first, second, style, category = votes.T
    if not ordered:
        reverse = first > second
        first, second = np.where(reverse, second, first), np.where(reverse, first, second)
        style, category = style + len(STYLES) * reverse, np.where(reverse, 1 - category, category)
    original = votes[:, :3]
    share_of_cell = np.array([1 / (original == row).all(axis=1).sum() for row in original])
    _, pi, m, lbar, e, c, v = population.nuisances(link, population.probability, ordered)
    if "means" in wrong:
        lbar, e = lbar + 0.3, e - 0.2
    if "moments" in wrong:
        c, v = c + 0.1, v + 0.4 * np.eye(STYLES.shape[1])
    prompt = population.prompt[context]
    styles = STYLES if ordered else np.concatenate([STYLES, -STYLES])
    rows = StyleRows(
        context=context,
        block=context,
        first=first,
        second=second,
        share=share_of_cell,
        propensity=pi[prompt, first, second],
        style=styles[style],
        y=(category == 0).astype(float),
        fold=prompt,
    )
    row, column = np.triu_indices(STYLES.shape[1])
    moments = np.concatenate([c, v[..., row, column]], axis=-1)
    n = len(population.atoms)
    stages = StyleStages(
        design=np.ones((n, 1)),
        fold=population.prompt,
        m=m[prompt, first, second, style],
        floor=0.0,
        link_mean=tuple(table_fit(table[..., None]) for table in lbar),
        style_mean=tuple(table_fit(table) for table in e),
        moments=tuple(even_fit(table) for table in moments),
        log_loss=0.0,
        log_loss_without=0.0,
    )
    weight = population.probability * (1 if worth is None else worth[population.prompt])
    blocks = InfluenceBlocks(
        np.arange(n), context, np.arange(len(context)), share_of_cell, np.zeros((len(context), 2)), np.arange(n)
    )
    return EqualStyleTerms.of(link, stages, rows, blocks, weight * n / weight.sum())


KINDS = {
    "borda": lambda: Borda(CategoryWeights.half(2)),
    "borda-weighted": lambda: Borda(CategoryWeights.half(2), None, EDGE_WEIGHTS),
    "bt": lambda: BradleyTerry(CategoryWeights.half(2)),
    "bt-weighted": lambda: BradleyTerry(CategoryWeights.half(2), None, EDGE_WEIGHTS),
    "bt-tree": lambda: BradleyTerry(CategoryWeights.half(2), Graph.of([(0, 1), (1, 2)], 3)),
}


@pytest.mark.parametrize("several", [True, False], ids=["several votes", "one vote"])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_equal_style_is_a_gradient(name, ordered, several, make_data):
    rng = np.random.default_rng(0)
    population = StyledPopulation(rng, several)
    link = LinkedScore(KINDS[name](), N_ITEMS, ordered)
    base = population.probability
    assert base.sum() == pytest.approx(1)
    influence = terms_of(population, link, make_data, ordered).influence()
    parts = (influence.equal, influence.averaged, influence.slopes)
    estimate = np.concatenate([part.estimate for part in parts])
    np.testing.assert_allclose(estimate, population.estimates(link, base, ordered), atol=1e-12)
    phi = np.hstack([part.value + part.correction for part in parts]) - estimate
    np.testing.assert_allclose(base @ phi, 0, atol=1e-12)
    for score, derivative in submodels(lambda p: population.estimates(link, p, ordered), rng, base, DIRECTIONS):
        scale = np.abs(derivative).max()
        assert scale > 1e-5
        np.testing.assert_allclose((base * score) @ phi, derivative, rtol=0, atol=TOLERANCE * scale)


def test_weighted_equal_style_is_a_gradient(make_data):
    rng = np.random.default_rng(2)
    population, worth = StyledPopulation(rng, False), np.array([0.4, 2.5])
    link = LinkedScore(KINDS["bt"](), N_ITEMS, True)
    base = population.probability
    terms = terms_of(population, link, make_data, True, worth)
    influence = terms.influence()
    estimate = np.concatenate([influence.equal.estimate, influence.slopes.estimate])

    def theta(probability):
        every = population.estimates(link, probability, True, worth)
        return np.concatenate([every[:N_ITEMS], every[2 * N_ITEMS :]])

    np.testing.assert_allclose(estimate, theta(base), atol=1e-12)
    weight = worth[population.prompt] / (base @ worth[population.prompt])
    raw = [part.value + part.correction for part in (influence.equal, influence.slopes)]
    phi = weight[:, None] * (np.hstack(raw) - estimate)
    for score, derivative in submodels(theta, rng, base, DIRECTIONS):
        np.testing.assert_allclose((base * score) @ phi, derivative, rtol=0, atol=TOLERANCE * np.abs(derivative).max())


def at_equal_style(means):
    """Scores at equal style."""
    return means.averaged - means.style @ means.slopes


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", ["borda", "bt", "bt-weighted"])
def test_with_true_propensities_wrong_means_and_moments_cause_no_bias(name, ordered, make_data):
    population = StyledPopulation(np.random.default_rng(7), True)
    link = LinkedScore(KINDS[name](), N_ITEMS, ordered)
    truth = population.estimates(link, population.probability, ordered)
    right = terms_of(population, link, make_data, ordered).means()
    terms = terms_of(population, link, make_data, ordered, wrong=("moments",))
    means, influence = terms.means(), terms.influence()
    one_step = influence.equal.estimate, influence.slopes.estimate
    for found in (one_step, (at_equal_style(means), means.slopes)):
        np.testing.assert_allclose(np.concatenate(found), np.delete(truth, slice(3, 6)), atol=1e-12)
    wrong = terms_of(population, link, make_data, ordered, wrong=("means",)).means()
    np.testing.assert_allclose(wrong.averaged, truth[3:6], atol=1e-12)
    np.testing.assert_allclose(wrong.style, right.style, atol=1e-12)


def test_influence_by_part_is_the_influence_of_each_part(make_data):
    population = StyledPopulation(np.random.default_rng(3), True)
    link = LinkedScore(KINDS["bt"](), N_ITEMS, True)
    terms = terms_of(population, link, make_data, True)
    indicators = [(population.prompt == x).astype(float) for x in range(N_PROMPTS)]
    for indicator in indicators:
        part, weight = terms.influence(indicator).equal, terms.weight * indicator
        raw = part.value + part.correction
        np.testing.assert_allclose(weight @ raw / weight.sum(), at_equal_style(terms.means(indicator)), rtol=1e-10)


def test_the_link_is_that_of_the_functional():
    rng = np.random.default_rng(5)
    mu = 0.1 + 0.7 * rng.dirichlet(np.ones(3), size=(4, N_ITEMS, N_ITEMS))
    mu[:, np.arange(N_ITEMS), np.arange(N_ITEMS)] = 0
    for make in (Borda, BradleyTerry):
        for ordered in (True, False):
            table = mu if ordered else (mu + np.swapaxes(mu, 1, 2)[..., [1, 0, 2]]) / 2
            functional = make(CategoryWeights.half(3), None, EDGE_WEIGHTS)
            link = LinkedScore(functional, N_ITEMS, ordered)
            first, second = link.pairs()
            values = link.value(link.preference(table[:, first, second].reshape(-1, 3))).reshape(4, -1)
            scores = link.constant + values @ link.coefficients(first, second)
            np.testing.assert_allclose(scores, functional.value(table))

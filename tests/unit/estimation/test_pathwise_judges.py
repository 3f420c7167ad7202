"""With a judge the influence function is a pathwise derivative too: verdicts on some pairs, labels on some of these.

The population is enumerated: prompts, which pairs are judged, the verdicts, who is labelled given the verdict, and the
labels. Along saturated submodels theta is computed from the moved atoms by counting.
"""

import itertools

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import JudgeCorrection, blocks_by_context, blocks_by_group
from dmlrank.estimation.one_step import one_step
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Dominance, RankCentrality, SoftMin

from ...support import inputs_of
from .populations import data_of, submodels

N_PROMPTS, N_ITEMS, N_VERDICTS = 2, 3, 2
TOLERANCE = 1e-6

KINDS = {
    "borda": Borda,
    "bt": BradleyTerry,
    "rank_centrality": RankCentrality,
    "dominance": lambda weights: Dominance(weights, tau=0.55, sharpness=12),
    "softmin": lambda weights: SoftMin(weights, sharpness=12),
}


class JudgedPopulation:
    """Prompts, judged pairs, verdicts, labels on judged pairs that depend on the verdict; atoms with probabilities."""

    def __init__(self, rng, n_categories, several):
        self.n_items, self.n_categories = N_ITEMS, n_categories
        pairs = list(itertools.permutations(range(N_ITEMS), 2))
        patterns = [(), *((pair,) for pair in pairs)]
        if several:
            patterns += [((0, 1), (2, 1)), ((0, 2), (1, 0)), ((0, 1), (1, 0))]
        shape = (N_PROMPTS, N_ITEMS, N_ITEMS, N_VERDICTS)
        share = rng.dirichlet(np.full(N_PROMPTS, 5.0))
        offered = 0.8 * rng.dirichlet(np.full(len(patterns), 2.0), size=N_PROMPTS) + 0.2 / len(patterns)
        verdict = 0.15 + 0.7 * rng.dirichlet(np.ones(N_VERDICTS), size=shape[:3])
        asked = rng.uniform(0.2, 0.8, size=shape)
        label = 0.2 / n_categories + 0.8 * rng.dirichlet(np.ones(n_categories), size=shape)
        told = list(itertools.product(range(N_VERDICTS), [None, *range(n_categories)]))
        self.atoms, made = [], []
        for x, (number, pattern) in itertools.product(range(N_PROMPTS), enumerate(patterns)):
            for said in itertools.product(told, repeat=len(pattern)):
                p = share[x] * offered[x, number]
                for (j, k), (v, c) in zip(pattern, said, strict=True):
                    p *= verdict[x, j, k, v]
                    p *= 1 - asked[x, j, k, v] if c is None else asked[x, j, k, v] * label[x, j, k, v, c]
                self.atoms.append((x, tuple((pair, *what) for pair, what in zip(pattern, said, strict=True))))
                made.append(p)
        self.probability = np.array(made)
        self.prompt = np.array([x for x, _ in self.atoms])

    def counted(self, probability):
        """Shares of prompts, P(judged | x), P(labelled | x, judged, verdict), m, and mu, counted from the atoms."""
        judged = np.zeros((N_PROMPTS, N_ITEMS, N_ITEMS, N_VERDICTS))
        labelled = np.zeros((*judged.shape, self.n_categories))
        share = np.bincount(self.prompt, weights=probability, minlength=N_PROMPTS)
        for (x, said), p in zip(self.atoms, probability, strict=True):
            for (j, k), v, c in said:
                judged[x, j, k, v] += p
                if c is not None:
                    labelled[x, j, k, v, c] += p
        off = ~np.eye(N_ITEMS, dtype=bool)
        known, total = labelled.sum(axis=-1), judged.sum(axis=-1)
        m = np.where(known[..., None] > 0, labelled / np.where(known > 0, known, 1)[..., None], 0)
        of_verdict = np.where(off[..., None], judged / np.where(off, total, 1)[..., None], 0)
        asked = np.where(off[..., None], known / np.where(off[..., None], judged, 1), 0)
        return share, total / share[:, None, None], asked, m, (of_verdict[..., None] * m).sum(axis=3)

    def said(self, labelled_only=False):
        """Atom, first, second, verdict and category (-1: none) of every judged pair, sorted."""
        rows = [
            (i, j, k, v, -1 if c is None else c)
            for i, (_, said) in enumerate(self.atoms)
            for (j, k), v, c in said
            if c is not None or not labelled_only
        ]
        return np.array(sorted(rows)).T

    def theta(self, functional, probability):
        share, *_, mu = self.counted(probability)
        return share @ functional.value(mu)


def uncentred(functional, population, make_data, verdicts=True, annotators=False):
    """F and correction of every atom, (A, d), with true first stages; with the verdicts' term or without it."""
    _, rho, asked, m, mu = population.counted(population.probability)
    prompt = population.prompt
    context, first, second, _, category = population.said(labelled_only=True)
    data = data_of(population, (context, first, second, category), make_data)
    i, j, k, v, c = population.said()
    given = m[prompt[i], j, k, v]
    cells = Cells(i, j, k, given, np.ones(len(i), dtype=int), np.zeros(len(i), dtype=bool))
    # Labels are the judged pairs with a category, in the same order.
    label = np.flatnonzero(c >= 0)
    propensity = (rho[prompt[i], j, k] * asked[prompt[i], j, k, v])[label]
    weight = verdicts / rho[prompt[i], j, k]
    blocks = blocks_by_context(data)
    if annotators:
        blocks, _ = blocks_by_group(data, np.arange(data.n_votes) % 2, cells.context)
    judged = JudgeCorrection(cells, weight, given, label)
    made = one_step(
        {"target": functional},
        inputs_of(data, SuppliedMu(mu[prompt]), propensity, judge=judged, blocks=blocks),
    ).target
    return made.value + made.correction_by_context


def apart(phi, score, derivative, probability):
    """Largest difference of E[phi s] and d theta, relative to the largest derivative."""
    assert np.abs(derivative).max() > 1e-5
    return np.abs((probability * score) @ phi - derivative).max() / np.abs(derivative).max()


@pytest.mark.parametrize("several", [True, False], ids=["several pairs", "one pair"])
@pytest.mark.parametrize("n_categories", [2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_the_two_stage_influence_is_a_gradient(name, n_categories, several, make_data):
    rng = np.random.default_rng(0)
    functional = KINDS[name](CategoryWeights.half(n_categories))
    population = JudgedPopulation(rng, n_categories, several)
    base = population.probability
    assert base.sum() == pytest.approx(1)
    phi = uncentred(functional, population, make_data) - population.theta(functional, base)
    np.testing.assert_allclose(base @ phi, 0, atol=1e-12)
    for score, derivative in submodels(lambda p: population.theta(functional, p), rng, base):
        assert apart(phi, score, derivative, base) < TOLERANCE


def test_labels_corrected_by_the_verdict_alone_are_no_gradient(make_data):
    # S/pi (Y - m) without G/rho (m - mu): nothing answers for what the verdict says of unlabelled pairs.
    rng = np.random.default_rng(1)
    functional = BradleyTerry(CategoryWeights.half(3))
    population = JudgedPopulation(rng, 3, True)
    base = population.probability
    phi = uncentred(functional, population, make_data, verdicts=False) - population.theta(functional, base)
    missed = []
    for score, derivative in submodels(lambda p: population.theta(functional, p), rng, base):
        missed.append(apart(phi, score, derivative, base))
    assert np.median(missed) > 0.05


def test_pieces_by_annotator_add_up_to_the_same_influence(make_data):
    functional = BradleyTerry(CategoryWeights.half(3))
    population = JudgedPopulation(np.random.default_rng(2), 3, True)
    whole, parts = (uncentred(functional, population, make_data, annotators=a) for a in (False, True))
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize("name", ["borda", "bt"])
def test_sums_over_clusters_are_gradients(name, make_data):
    # A cluster is two prompts that depend on each other in any way; submodels move their joint law.
    rng = np.random.default_rng(3)
    functional = KINDS[name](CategoryWeights.half(2))
    population = JudgedPopulation(rng, 2, False)
    single = population.probability
    tie = rng.uniform(-0.5, 0.5, size=(len(single), len(single)))
    tie -= (tie @ single)[:, None]
    tie -= single @ tie
    joint = np.outer(single, single) * (1 + tie)
    np.testing.assert_allclose(joint.sum(axis=0), single)

    def theta(probability):
        return population.theta(functional, (probability.sum(axis=0) + probability.sum(axis=1)) / 2)

    phi = uncentred(functional, population, make_data) - theta(joint)
    of_cluster = ((phi[:, None] + phi[None]) / 2).reshape(-1, phi.shape[1])
    for score, derivative in submodels(theta, rng, joint):
        assert apart(of_cluster, score, derivative, joint.ravel()) < TOLERANCE

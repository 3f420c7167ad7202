"""What unanimous pairs hide: against the sums of J V J' that functionals make themselves."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.unanimous_pairs import RULE_OF_THREE, LabelErrors, find_unanimous_pairs, positive_difference
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality
from dmlrank.functionals.custom import Custom

WEIGHTS = CategoryWeights.half(2)
K = 3
EDGES = ~np.eye(K, dtype=bool)


def errors(outcomes, mu, *, residual=0.0, clusters=1):
    """Labels of pairs (first, second, first wins, number), each in a context of its own."""
    first, second, won = (np.repeat([row[i] for row in outcomes], [row[3] for row in outcomes]) for i in range(3))
    n = len(first)
    y = np.stack([won, 1 - won], axis=1).astype(float)
    cells = Cells(np.arange(n), first, second, y, np.ones(n, dtype=int), np.zeros(n, dtype=bool))
    off = np.tile([residual, -residual], (n, 1))
    return LabelErrors(cells, np.full(n, 6 / n), mu[first, second], off, np.arange(n) // clusters)


def probabilities(share=0.7):
    mu = np.full((K, K, 2), 0.5)
    mu[..., 0], mu[..., 1] = share, 1 - share
    mu[np.arange(K), np.arange(K)] = 0.0
    return mu


OUTCOMES = [(0, 1, 1, 40), (1, 0, 0, 40), (0, 2, 1, 30), (0, 2, 0, 30), (1, 2, 1, 60), (2, 1, 0, 50)]
DATA = SimpleNamespace(n_items=K, ordered=True)


@pytest.mark.parametrize("functional", [Borda(WEIGHTS), BradleyTerry(WEIGHTS), RankCentrality(WEIGHTS)])
def test_each_pair_adds_what_the_functional_says_of_such_labels(functional):
    mu = probabilities()
    given = errors(OUTCOMES, mu)
    found = find_unanimous_pairs(given, DATA, WEIGHTS, EDGES)
    assert list(zip(found.first, found.second, strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    # Model 1 lost 80 uniform labels, model 2 lost 110; model 1 won 110 and model 0 won 80.
    assert found.n_pooled.tolist() == [80, 80, 110, 110]
    assert found.n_both_orders.tolist() == [80, 80, 110, 110]
    assert found.n_labels.tolist() == [40, 40, 60, 50]
    labels, amount = np.full((K, K, 2), 0.5), np.zeros((K, K))
    for j, k, number, alike in zip(found.first, found.second, found.n_labels, found.n_pooled, strict=True):
        small = (1 - np.sqrt(1 - 4 * RULE_OF_THREE / alike)) / 2
        labels[j, k] = small, 1 - small
        amount[j, k] = number * given.weight[0] ** 2
    expected = functional.accumulate(found.table[None], amount[None], labels[None])
    assert found.covariance(functional, 0.0) == pytest.approx(expected, abs=1e-12)


def test_a_function_of_ones_own_gives_the_same_as_the_closed_form():
    found = find_unanimous_pairs(errors(OUTCOMES, probabilities()), DATA, WEIGHTS, EDGES)
    closed = Borda(WEIGHTS)
    own = Custom(lambda mu: closed.value(mu), interior=False, linear=True, weights=WEIGHTS)
    assert found.covariance(own, 0.0) == pytest.approx(found.covariance(closed, 0.0), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("residual", [0.0, 0.05])
def test_bradley_terry_scores_need_lengths_only(ordered, residual):
    class AsOthers(BradleyTerry):
        """A subclass, whose derivatives the package does not know to have one direction for each pair."""

    outcomes = OUTCOMES if ordered else OUTCOMES[::2]
    found = find_unanimous_pairs(errors(outcomes, probabilities(), residual=residual), DATA, WEIGHTS, EDGES)
    found = replace(found, ordered=ordered)
    expected = found.covariance(AsOthers(WEIGHTS), 0.01)
    assert found.covariance(BradleyTerry(WEIGHTS), 0.01) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert expected.any()


def test_what_residuals_show_is_not_added_again():
    none, some, more = (
        find_unanimous_pairs(errors(OUTCOMES, probabilities(), residual=r), DATA, WEIGHTS, EDGES).covariance(
            Borda(WEIGHTS), 0.0
        )
        for r in (0.0, 0.1, 0.5)
    )
    # Of N = 80 the variance is c / 80, of which 0.01 is there; of 0.25 nothing is lacking.
    assert some[0, 0] / none[0, 0] == pytest.approx(1 - 0.01 * 80 / RULE_OF_THREE, rel=1e-9)
    assert not more.any()


def test_clusters_count_once():
    alone = find_unanimous_pairs(errors(OUTCOMES, probabilities()), DATA, WEIGHTS, EDGES)
    tens = find_unanimous_pairs(errors(OUTCOMES, probabilities(), clusters=10), DATA, WEIGHTS, EDGES)
    assert (tens.n_labels * 10 == alone.n_labels).all()
    # A tenth of the units: ten times the share, ten times the squared weights.
    assert (np.diag(tens.covariance(Borda(WEIGHTS), 0.0)) > 50 * np.diag(alone.covariance(Borda(WEIGHTS), 0.0))).all()


def test_mixed_labels_are_no_unanimous_pairs():
    mixed = [(0, 1, 1, 3), (0, 1, 0, 1), (1, 2, 1, 2), (1, 2, 0, 2)]
    assert find_unanimous_pairs(errors(mixed, probabilities()), DATA, WEIGHTS, EDGES) is None


def test_only_the_positive_part_is_added():
    rng = np.random.default_rng(0)
    needed, held = rng.normal(size=(2, 5, 2, 4))
    made = positive_difference(needed, held)
    for rows, one, other in zip(made, needed, held, strict=True):
        values, axes = np.linalg.eigh(one.T @ one - other.T @ other)
        positive = (axes * np.maximum(values, 0)) @ axes.T
        assert rows.T @ rows == pytest.approx(positive, abs=1e-10)


def test_of_two_crossed_groupings_the_coarser_one_counts():
    prompts = errors(OUTCOMES, probabilities())
    # The annotators of each pair are two; pairs share no annotator.
    pair = prompts.cells.first * K + prompts.cells.second
    annotator = 2 * pair + np.arange(len(pair)) % 2
    crossed = replace(prompts, other_unit=annotator)
    alone, both = (find_unanimous_pairs(given, DATA, WEIGHTS, EDGES) for given in (prompts, crossed))
    by_annotator = find_unanimous_pairs(replace(prompts, unit=annotator), DATA, WEIGHTS, EDGES)
    assert both.n_labels.tolist() == [2, 2, 2, 2]
    np.testing.assert_allclose(both.squared_weight, by_annotator.squared_weight)
    assert (both.squared_weight > 10 * alone.squared_weight).all()
    finer = replace(prompts, unit=annotator, other_unit=prompts.unit)
    assert find_unanimous_pairs(finer, DATA, WEIGHTS, EDGES).n_labels.tolist() == [2, 2, 2, 2]

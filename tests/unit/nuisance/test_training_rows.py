"""Labelled cells as rows: votes of the kept contexts, in an order that that of the data does not change."""

from collections import Counter

import numpy as np
import pytest

from dmlrank.nuisance import training_rows
from dmlrank.nuisance.training_rows import log_loss, ordered_cells, outcome_rows, stack_rows

from ...support import two_of


@pytest.fixture
def votes():
    rng = np.random.default_rng(0)
    first, second = two_of(rng, 4, 300)
    return np.column_stack([rng.integers(60, size=300), first, second, rng.integers(3, size=300)])


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_are_the_votes_of_the_kept_contexts(make_data, votes, ordered):
    x = np.random.default_rng(1).normal(size=(60, 2))
    data = make_data(*votes.T, n_items=4, n_categories=3, x=x)
    data = data if ordered else data.unordered()
    in_training, unit = np.arange(60) % 3 > 0, np.arange(60) // 2
    rows = outcome_rows(data, in_training, unit)
    weights = Counter()
    for features, label, weight, its_unit in zip(rows.features, rows.label, rows.weight, rows.unit, strict=True):
        context = int(np.flatnonzero(x[:, 0] == features[0])[0])
        assert features[1] == x[context, 1]
        assert its_unit == context // 2
        weights[(context, *features[2:].astype(int), label)] += weight
    expected = Counter()
    for context, j, k, label in votes[in_training[votes[:, 0]]].tolist():
        expected[context, j, k, label] += 1 if ordered else 0.5
        expected[context, k, j, (1, 0, 2)[label]] += 0 if ordered else 0.5
    assert +weights == pytest.approx(+expected)


def test_order_of_rows_is_that_of_the_identifiers(make_data, votes):
    rng = np.random.default_rng(2)
    x, place = rng.normal(size=(60, 2)), rng.permutation(60)
    data = make_data(*votes.T, n_items=4, n_categories=3, x=x)
    moved = votes.copy()
    moved[:, 0] = place[votes[:, 0]]
    x_moved = np.empty_like(x)
    x_moved[place] = x
    order = np.empty(60, dtype=int)
    order[place] = np.arange(60)
    shuffled = make_data(*moved[rng.permutation(300)].T, n_items=4, n_categories=3, x=x_moved, order=order)
    everything = np.ones(60, dtype=bool)
    rows, same = (outcome_rows(d, everything, d.seed_order) for d in (data, shuffled))
    for name in ("features", "label", "weight", "unit"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(same, name))
    cells = ordered_cells(shuffled, everything)
    assert (np.diff(order[shuffled.cells.context[cells]]) >= 0).all()


def test_stacked_rows_are_gathered_in_blocks_and_keep_their_precision(monkeypatch):
    rng = np.random.default_rng(9)
    x, context = rng.normal(size=(5, 4)).astype(np.float32), rng.integers(5, size=11)
    first, second = rng.integers(9, size=(2, 11))
    monkeypatch.setattr(training_rows, "_BLOCK", 3)
    rows = stack_rows(x, context, first, second)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.column_stack([x[context], first, second]))


def test_it_is_the_sum_over_votes_and_impossible_labels_cost_what_the_smallest_probability_costs():
    rng = np.random.default_rng(0)
    p, votes = rng.dirichlet(np.ones(3), size=20), rng.integers(4, size=(20, 3)).astype(float)
    expected = -sum(votes[i, c] * np.log(p[i, c]) for i in range(20) for c in range(3))
    assert log_loss(p, votes) == pytest.approx(expected, rel=1e-12)
    never = np.array([[1.0, 0.0]])
    assert log_loss(never, np.array([[0.0, 2.0]])) == pytest.approx(-2 * np.log(1e-12))
    assert log_loss(never, np.array([[0.0, 2.0]]), smallest=1e-3) == pytest.approx(-2 * np.log(1e-3))

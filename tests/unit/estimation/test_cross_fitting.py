"""No model is asked about a context that it has seen."""

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import CrossFittedMu, FoldUnits, SuppliedMu, assign_folds, distinct_rows, fold_key
from dmlrank.exceptions import DataError
from dmlrank.nuisance.training_rows import Folds

from ...support import chunks_of


class Memory:
    """A model that knows which contexts it was trained on and refuses to be asked about them."""

    def __init__(self, known):
        self.known = known

    def predict(self, x):
        assert not set(x[:, 0].astype(int)) & self.known
        return np.broadcast_to(x[:, :1, None, None], (len(x), 2, 2, 2))

    def at(self, x, first, second):
        assert not set(x[:, 0].astype(int)) & self.known
        return np.stack([x[:, 0], 10.0 * first + second], axis=1)


def deal(unit):
    return assign_folds(FoldUnits(unit, unit.astype(np.uint64)), 4, fold_key(0, 0))


def remembering(folds, x):
    return CrossFittedMu(
        tuple(Memory(set(np.flatnonzero(folds.fold != held_out))) for held_out in range(folds.n_folds)), folds, x
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_model_is_asked_about_its_own_fold(size):
    folds = deal(np.arange(60) // 2)
    made = remembering(folds, np.arange(60.0)[:, None])
    seen = []
    for contexts, mu in chunks_of(made, size):
        assert len(contexts) <= size
        np.testing.assert_array_equal(mu[:, 0, 0, 0], contexts)
        seen += contexts.tolist()
    assert sorted(seen) == list(range(60))


def test_labelled_cells_are_asked_of_the_model_that_has_not_seen_them():
    rng = np.random.default_rng(1)
    context, first = np.sort(rng.integers(60, size=200)), rng.integers(2, size=200)
    cells = Cells(context, first, 1 - first, np.eye(2)[first], np.ones(200, dtype=int), np.zeros(200, dtype=bool))
    made = remembering(deal(np.arange(60)), np.arange(60.0)[:, None]).at(cells)
    np.testing.assert_array_equal(made, np.stack([context, 10.0 * first + 1 - first], axis=1))


def test_new_contexts_get_the_mean_of_all_models():
    class Constant:
        def __init__(self, level):
            self.level = level

        def predict(self, x):
            return np.full((len(x), 2, 2, 2), self.level)

    folds = Folds(np.arange(3), np.arange(3), 3)
    made = CrossFittedMu((Constant(1.0), Constant(2.0), Constant(6.0)), folds, np.zeros((3, 1)))
    np.testing.assert_array_equal(made.average(np.zeros((4, 1))), np.full((4, 2, 2, 2), 3.0))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_given_probabilities_come_in_order(size):
    mu = np.random.default_rng(0).random((8, 3, 3, 2))
    parts = list(chunks_of(SuppliedMu(mu), size))
    np.testing.assert_array_equal(np.concatenate([at for at, _ in parts]), np.arange(8))
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), mu)
    assert max(len(part) for _, part in parts) <= size


def test_given_probabilities_of_labelled_cells():
    mu = np.random.default_rng(2).random((4, 3, 3, 2))
    cells = Cells(
        *(np.array(part) for part in ([0, 3, 3], [1, 0, 2], [2, 1, 0])),
        np.eye(2)[[0, 1, 1]],
        np.ones(3, dtype=int),
        np.zeros(3, dtype=bool),
    )
    np.testing.assert_array_equal(SuppliedMu(mu).at(cells), [mu[0, 1, 2], mu[3, 0, 1], mu[3, 2, 0]])


def test_given_probabilities_know_no_other_contexts():
    with pytest.raises(DataError):
        SuppliedMu(np.zeros((1, 2, 2, 2))).average(np.zeros((1, 1)))


def test_equal_rows_of_features_are_found_whatever_the_sign_of_a_zero():
    x = np.array([[1.0, 0.0], [2.0, np.nan], [1.0, -0.0], [2.0, np.nan], [2.0, 0.0]] * 3)
    rows = np.array([14, 0, 1, 2, 3, 5])
    first, place = distinct_rows(x, rows)
    assert sorted(first.tolist()) == [0, 1, 14]
    np.testing.assert_array_equal(x[first[place]], x[rows])

"""Folds that never change, models that are not asked about a context they have seen, and the floor of mu."""

import itertools

import numpy as np
import pytest

from dmlrank.data.contexts import identity_numbers
from dmlrank.data.preferences import Cells
from dmlrank.estimation import cross_fitting as floor
from dmlrank.estimation.cross_fitting import (
    UNITS_PER_FOLD,
    CrossFittedMu,
    FoldUnits,
    HeldOutLabels,
    SuppliedMu,
    assign_folds,
    distinct_rows,
    fold_key,
    keyed_hash,
    select_floor,
)
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


# These folds must never change: the same prompts have the same folds in every version.
LITERAL = [
    (0, (1, 3, 1)), (1, (1, 4, 3)), (2, (0, 4, 0)), (3, (1, 1, 0)), (-1, (3, 4, 2)), (10, (0, 1, 3)),
    (123456789, (1, 3, 0)), (1099511627776, (4, 2, 0)), (100000000000000000, (1, 1, 2)),
    (1000000000000000000, (1, 4, 4)), (9223372036854775808, (0, 4, 1)), (0.5, (3, 2, 2)), (-2.25, (1, 2, 0)),
    (1e300, (2, 4, 4)), ("", (1, 2, 1)), ("a", (1, 4, 2)), ("prompt-1", (0, 1, 2)), ("prompt-2", (4, 4, 0)),
    ("prompt-3", (4, 2, 3)), ("03", (0, 0, 2)), ("été", (0, 2, 1)), ("日本語", (2, 4, 2)), ("😀", (0, 1, 1)),
    ("a" * 1000, (4, 0, 2)), (True, (3, 4, 0)), (("session", 12), (0, 4, 1)), (("session", 13), (0, 2, 1)),
    (("a", 0.5, "b"), (4, 1, 1)), (b"\x00\xff", (0, 2, 0)),
]  # fmt: skip
KEY = fold_key(0, 0)


def column_of(identifiers):
    cells = list(identifiers)
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def fold_by_hash(identity, key, n_folds):
    """The fold floor(k u) of each identifier, (n,)."""
    return np.array([int(word) * n_folds >> 64 for word in keyed_hash(identity, key)])


def units_of(unit):
    return FoldUnits(np.asarray(unit), np.asarray(unit).astype(np.uint64))


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_units_are_never_split_and_few_units_are_dealt_evenly(n_folds):
    unit = np.random.default_rng(0).integers(50, size=400) * 3
    folds = assign_folds(units_of(unit), n_folds, KEY)
    units = np.unique(unit)
    fold_of = {u: set(folds.fold[unit == u]) for u in units}
    assert all(len(fold) == 1 for fold in fold_of.values())
    size = np.bincount([fold.pop() for fold in fold_of.values()], minlength=n_folds)
    assert np.ptp(size) <= 1
    assert folds.n_folds == n_folds


@pytest.mark.parametrize("n", [12, 100, 999, 1000, 5000])
def test_folds_follow_the_identifiers_and_not_their_places(n):
    rng = np.random.default_rng(n)
    units, order = FoldUnits(np.arange(n), rng.integers(2**63, size=n, dtype=np.uint64)), rng.permutation(n)
    shuffled = FoldUnits(rng.permutation(n), units.identity[order])
    np.testing.assert_array_equal(
        assign_folds(shuffled, 5, KEY).fold, assign_folds(units, 5, KEY).fold[order], strict=True
    )
    assert (assign_folds(units, 5, fold_key(0, 1)).fold != assign_folds(units, 5, KEY).fold).any()


def test_units_may_have_gaps_between_their_numbers():
    unit = np.random.default_rng(3).integers(30, size=100)
    spread = FoldUnits(7 * unit + 2, unit.astype(np.uint64))
    np.testing.assert_array_equal(assign_folds(units_of(unit), 4, KEY).fold, assign_folds(spread, 4, KEY).fold)


@pytest.mark.parametrize("n_folds", [2, 5])
def test_with_many_units_the_other_units_do_not_matter(n_folds):
    n = UNITS_PER_FOLD * n_folds
    larger = assign_folds(units_of(np.arange(3 * n)), n_folds, KEY)
    np.testing.assert_array_equal(assign_folds(units_of(np.arange(n)), n_folds, KEY).fold, larger.fold[:n])
    some = np.flatnonzero(np.random.default_rng(0).random(3 * n) < 0.5)
    folds = assign_folds(FoldUnits(np.arange(len(some)), some.astype(np.uint64)), n_folds, KEY)
    np.testing.assert_array_equal(folds.fold, larger.fold[some])
    np.testing.assert_array_equal(larger.fold, fold_by_hash(np.arange(3 * n, dtype=np.uint64), KEY, n_folds))


def test_with_few_units_a_further_unit_moves_one_unit_at_a_boundary_at_most():
    folds = [assign_folds(units_of(np.arange(n)), 5, KEY).fold for n in range(100, 300)]
    moved = [(one != other[:-1]).sum() for one, other in itertools.pairwise(folds)]
    assert 0 < max(moved) <= 4


def test_few_folds_change_where_units_become_many():
    limit = UNITS_PER_FOLD * 5
    moved = []
    for repetition in range(20):
        few, many = (assign_folds(units_of(np.arange(n)), 5, fold_key(0, repetition)) for n in (limit - 1, limit))
        moved.append((few.fold != many.fold[:-1]).mean())
    assert 0.01 < np.mean(moved) < 0.08


@pytest.mark.parametrize(("n", "n_folds"), [(2, 2), (7, 7), (50, 50), (4000, 19), (4000, 20), (4000, 21)])
def test_every_fold_has_units(n, n_folds):
    for repetition in range(20):
        size = np.bincount(assign_folds(units_of(np.arange(n)), n_folds, fold_key(3, repetition)).fold)
        assert len(size) == n_folds
        assert size.min() > 0.5 * n / n_folds


def test_no_fold_is_empty_even_where_all_identifiers_have_one_hash():
    units = FoldUnits(np.arange(1000), np.full(1000, 5, dtype=np.uint64))
    assert np.bincount(assign_folds(units, 5, KEY).fold).tolist() == [200] * 5


def test_fewer_units_than_folds():
    units = FoldUnits(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 2], dtype=np.uint64), "clusters of 'topic'")
    with pytest.raises(DataError, match="topic"):
        assign_folds(units, 5, KEY)


def test_literal_folds():
    identifiers, expected = zip(*LITERAL, strict=True)
    numbers = identity_numbers(column_of(identifiers))
    folds = np.stack([fold_by_hash(numbers, fold_key(*of), 5) for of in ((0, 0), (0, 1), (12345, 0))], axis=1)
    np.testing.assert_array_equal(folds, expected)


MASK = 2**64 - 1
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(message, key):
    """SipHash-2-4 of bytes of any length, written from the paper with Python's integers."""
    k = [int.from_bytes(key[i : i + 8], "little") for i in (0, 8)]
    v = [constant ^ k[i % 2] for i, constant in enumerate(INITIAL)]

    def rounds(count):
        for _ in range(count):
            for p, q, r, s, b, d in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                for target, other, bits in ((p, q, b), (r, s, d)):
                    v[target] = (v[target] + v[other]) & MASK
                    v[other] = ((v[other] << bits) & MASK | v[other] >> (64 - bits)) ^ v[target]
                v[p] = (v[p] << 32) & MASK | v[p] >> 32

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for start in range(0, len(padded), 8):
        block = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= block
        rounds(2)
        v[0] ^= block
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_second_implementation_gives_the_example_of_the_paper():
    assert siphash(bytes(range(15)), bytes(range(16))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("n", [0, 1, 8192, 8200])
def test_hashes_are_those_of_siphash(n):
    rng = np.random.default_rng(n)
    numbers, key = rng.integers(2**64, size=n, dtype=np.uint64), rng.bytes(16)
    hashes = keyed_hash(numbers, key)
    assert hashes.dtype == np.uint64
    assert len(hashes) == n
    for place in [*range(min(n, 20)), *range(max(n - 10, 0), n)]:
        assert int(hashes[place]) == siphash(int(numbers[place]).to_bytes(8, "little"), key)


def test_the_callers_numbers_are_not_changed():
    numbers = np.arange(10, dtype=np.uint64)
    keyed_hash(numbers, bytes(16))
    assert (numbers == np.arange(10)).all()


def cells_of(y, n_votes=None):
    n = len(y)
    zeros = np.zeros(n, dtype=int)
    votes = np.ones(n, dtype=int) if n_votes is None else n_votes
    return Cells(np.arange(n), zeros, zeros + 1, np.asarray(y, dtype=float), votes, np.zeros(n, dtype=bool))


def draw(seed, n_categories, n=300, concentration=0.5):
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(n_categories, concentration), size=n)
    votes = rng.integers(1, 5, size=n)
    y = np.stack([rng.multinomial(count, p) / count for count, p in zip(votes, mu, strict=True)])
    return mu, cells_of(y, votes)


@pytest.mark.parametrize("overconfidence", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_it_has_the_smallest_log_loss_of_its_grid(n_categories, overconfidence):
    mu, cells = draw(0, n_categories)
    predicted = mu**overconfidence / (mu**overconfidence).sum(axis=1, keepdims=True)
    losses = {}
    for level in floor.FLOORS:
        if level * n_categories >= 0.5:
            continue
        losses[level] = 0.0
        for p, y, votes in zip(predicted, cells.y, cells.n_votes, strict=True):
            raised = [max(value, level) for value in p]
            losses[level] -= sum(
                votes * share * np.log(value / sum(raised)) for share, value in zip(y, raised, strict=True)
            )
    assert select_floor(HeldOutLabels(predicted, cells)) == min(losses, key=losses.get)


def test_predictions_more_extreme_than_the_truth_raise_it():
    mu, cells = draw(1, 3, n=3000)
    assert select_floor(HeldOutLabels(mu, cells)) <= 0.005
    too_sure = mu**3 / (mu**3).sum(axis=1, keepdims=True)
    assert select_floor(HeldOutLabels(too_sure, cells)) >= 0.02


@pytest.mark.parametrize(("n_categories", "largest"), [(2, 0.1), (3, 0.1), (4, 0.1), (5, 0.07)])
def test_floors_leave_room_for_the_other_categories(n_categories, largest):
    wrong = np.tile(np.r_[1.0, np.zeros(n_categories - 1)], (50, 1))
    assert select_floor(HeldOutLabels(np.roll(wrong, 1, axis=1), cells_of(wrong))) == largest

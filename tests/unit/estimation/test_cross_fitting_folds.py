"""Folds are dealt by identifier and key alone: evenly, at random, the same on all machines."""

import itertools

import numpy as np
import pytest

from dmlrank.data.contexts import identity_numbers
from dmlrank.estimation.cross_fitting import UNITS_PER_FOLD, FoldUnits, assign_folds, fold_key, keyed_hash
from dmlrank.exceptions import DataError

# These folds must never change: the same prompts have the same folds in every version.
LITERAL = [
    (0, (1, 3, 1)),
    (1, (1, 4, 3)),
    (2, (0, 4, 0)),
    (3, (1, 1, 0)),
    (-1, (3, 4, 2)),
    (10, (0, 1, 3)),
    (123456789, (1, 3, 0)),
    (1099511627776, (4, 2, 0)),
    (100000000000000000, (1, 1, 2)),
    (1000000000000000000, (1, 4, 4)),
    (9223372036854775808, (0, 4, 1)),
    (0.5, (3, 2, 2)),
    (-2.25, (1, 2, 0)),
    (1e300, (2, 4, 4)),
    ("", (1, 2, 1)),
    ("a", (1, 4, 2)),
    ("prompt-1", (0, 1, 2)),
    ("prompt-2", (4, 4, 0)),
    ("prompt-3", (4, 2, 3)),
    ("03", (0, 0, 2)),
    ("été", (0, 2, 1)),
    ("日本語", (2, 4, 2)),
    ("😀", (0, 1, 1)),
    ("a" * 1000, (4, 0, 2)),
    (True, (3, 4, 0)),
    (("session", 12), (0, 4, 1)),
    (("session", 13), (0, 2, 1)),
    (("a", 0.5, "b"), (4, 1, 1)),
    (b"\x00\xff", (0, 2, 0)),
]
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

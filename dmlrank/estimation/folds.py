"""Folds of cross-fitting, dealt to contexts or clusters by a keyed hash of their identifiers.

Let k be the number of folds, n the number of units (contexts, or clusters of contexts), and u the keyed hash of the
identifier of a unit, divided by 2^64. Without the key, u cannot be told from a uniform draw.

- **Many units**, n >= 200 k: the fold of a unit is floor(k u). The fold depends on identifier, key and k alone, and not
  on the other units. The sizes of the folds are binomial. Chernoff's bound exp(-m / 8) for a fold of fewer than half of
  the m = n / k units expected is below 1e-10 for m = 200, and the size of a training set, n minus one fold, has a
  relative standard deviation of 1 / sqrt(n (k - 1)), at most 1.6 % for k = 5.
- **Few units**, n < 200 k (and, for completeness, more units of which no one falls into some fold): the units are
  sorted by u, and the unit at position i from 0 gets fold floor(k i / n). Sizes of folds differ by at most one, so that
  every fold has units. The fold depends on the other identifiers, but i / n is close to u: a further unit changes the
  fold of less than one unit per fold, and a sample that crosses n = 200 k changes few folds.

In both cases folds depend neither on the order of the rows, nor on the machine, the process or the operating system.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..data.contexts import IdentityNumbers
from ..data.preferences import IntArray
from ..exceptions import DataError
from ..nuisance.training_rows import Folds

Words = NDArray[np.uint64]
_State = tuple[Words, Words, Words, Words]

# Numbers that are hashed at a time: few enough for a processor's cache.
_BLOCK = 8192
# The initial state of SipHash, "somepseudorandomlygeneratedbytes".
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
# The last block of a message holds the message's length in bytes, here 8, in its highest byte.
_LENGTH_BLOCK = 8 << 56


def keyed_hash(numbers: Words, key: bytes) -> Words:
    """Return SipHash-2-4 of each number, taken as a message of 8 bytes with the lowest byte first.

    SipHash is a pseudo-random function: without the key, hashes cannot be told from independent uniform draws. It
    consists of additions, rotations and exclusive or of 64-bit words, so that all machines compute the same hashes.

    Shapes: numbers (n,), returns (n,).
    """
    hashes = np.empty(len(numbers), np.uint64)
    for start in range(0, len(numbers), _BLOCK):
        hashes[start : start + _BLOCK] = _hash_block(numbers[start : start + _BLOCK].astype(np.uint64), key)
    return hashes


def _hash_block(message: Words, key: bytes) -> Words:
    """Return the hashes of a few numbers, (b,)."""
    words = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    a, b, c, d = (np.full_like(message, constant ^ words[i % 2]) for i, constant in enumerate(_INITIAL))
    for block in (message, np.full_like(message, _LENGTH_BLOCK)):
        a, b, c, d = _round(_round((a, b, c, d ^ block)))
        a = a ^ block
    a, b, c, d = _round(_round(_round(_round((a, b, c ^ np.uint64(0xFF), d)))))
    return a ^ b ^ c ^ d


def _round(state: _State) -> _State:
    """Return the four words of the state after one round of SipHash; sums are modulo 2^64."""
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    c, a = c + b, a + d
    b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
    return a, b, _rotated(c, 32), d


def _rotated(words: Words, bits: int) -> Words:
    """Return the words with their bits rotated to the left: bits that leave on the left come in on the right."""
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


# From this number of units per fold on, the fold of a unit does not depend on the other units.
UNITS_PER_FOLD = 200


@dataclass(frozen=True, slots=True, eq=False)
class FoldUnits:
    """The units that are dealt to folds: contexts, clusters of contexts, or several of these that share a text.

    unit (n,): Unit of each context, numbered from 0; some numbers may not occur.
    identity (n,): Number that stands for the identifier of each context's unit, as
        :func:`dmlrank.data.contexts.identity_numbers` computes it; the same in all contexts of a unit.
    noun: Plural noun for the units, for errors.
    cluster (n,): Cluster of each context; None without clusters. Several clusters that share a text are one unit.
    """

    unit: IntArray
    identity: IdentityNumbers
    noun: str = "contexts"
    cluster: IntArray | None = None

    @property
    def groupings(self) -> list[IntArray]:
        """The groupings of contexts that must not be split, (n,) each: units, then clusters."""
        return [self.unit] if self.cluster is None else [self.unit, self.cluster]


def fold_key(seed: int, repetition: int) -> bytes:
    """Return the key, 16 bytes, by which a repetition of a fit deals its folds.

    The key follows from the seed of the fit and the number of the repetition from 0. Results keep the seed (pickled and
    in JSON: ``description.seed``), so that the folds of a stored fit can be dealt to further units.
    """
    return blake2b(f"dmlrank folds: seed {seed}, repetition {repetition}".encode(), digest_size=16).digest()


def fold_by_hash(identity: IdentityNumbers, key: bytes, n_folds: int) -> IntArray:
    """Return floor(k u) for each identifier, where u is its keyed hash in [0, 1) and k the number of folds, (n,).

    Shapes: identity (n,).
    """
    return _share_of(keyed_hash(identity, key), n_folds)


def assign_folds(units: FoldUnits, n_folds: int, key: bytes) -> Folds:
    """Deal units to folds, so that all contexts of a unit share a fold; see the rule at the top of this module."""
    is_present = np.bincount(units.unit) > 0
    n_units = int(is_present.sum())
    if n_units < n_folds:
        advice = "use fewer folds" if n_units > 1 else "a fit needs two or more of them: collect votes on others"
        raise DataError(
            f"{n_units} {units.noun} cannot be divided into n_folds={n_folds} folds, because every fold needs at least "
            f"one of them; {advice}"
        )
    identity = np.zeros(len(is_present), np.uint64)
    identity[units.unit] = units.identity
    hashes = keyed_hash(identity[is_present], key)
    fold = _share_of(hashes, n_folds)
    if n_units < UNITS_PER_FOLD * n_folds or (np.bincount(fold, minlength=n_folds) == 0).any():
        fold[np.lexsort((identity[is_present], hashes))] = np.arange(n_units) * n_folds // n_units
    fold_of_unit = np.zeros(len(is_present), np.intp)
    fold_of_unit[is_present] = fold
    return Folds(fold_of_unit[units.unit], units.unit, n_folds)


def extend_folds(folds: Folds, place: IntArray, units: FoldUnits, key: bytes) -> Folds:
    """Deal the units that an earlier fit did not have to its folds; all earlier contexts keep their fold.

    Shapes: place (n,).
    """
    # Earlier contexts are not hashed, because they keep their fold.
    fold = np.zeros(len(units.identity), dtype=np.intp)
    is_further = np.ones(len(fold), dtype=bool)
    is_further[place] = False
    fold[is_further] = fold_by_hash(units.identity[is_further], key, folds.n_folds)
    for unit in units.groupings:
        of_known_unit = spread_over_units(unit, place, folds.fold)
        fold = np.where(of_known_unit >= 0, of_known_unit, fold)
    fold[place] = folds.fold
    return Folds(fold, units.unit, folds.n_folds)


def spread_over_units(unit: IntArray, place: IntArray, number: IntArray) -> IntArray:
    """Return for each context the number that a given context of its unit has, (n,); -1 where none is given.

    If the numbers of the given contexts of a unit differ, the first one counts. Negative numbers do not count.

    Shapes: unit (n,), place (g,), number (g,).
    """
    counts = np.flatnonzero(number >= 0)[::-1]
    number_of_unit = np.full(int(unit.max()) + 1, -1)
    number_of_unit[unit[place[counts]]] = number[counts]
    return number_of_unit[unit]


def _share_of(hashes: IdentityNumbers, n_folds: int) -> IntArray:
    """Return floor(k u), (n,), where u is a hash divided by 2^64; the upper 32 bits of the hash decide."""
    upper = hashes >> np.uint64(32)
    return ((upper * np.uint64(n_folds)) >> np.uint64(32)).astype(np.intp)

"""Sources of mu: the preference probabilities of all pairs in contexts that their model was not trained on.

Without features, mu is one table of all labels, a pilot for the one step from it, and contexts with the same labels are
identical. The held-out probabilities of a label are then those without its own votes. The floor is the smallest
probability of mu.

Folds are dealt to contexts or clusters by a keyed hash of their identifiers.
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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import in_workers, report
from ..data.arrays import BoolArray, row_slices
from ..data.contexts import IdentityNumbers
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError
from ..nuisance.outcome_model.cross_fit import ConstantMu, MuModel
from ..nuisance.training_rows import FLOORS, Folds, log_loss

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
    words = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    for block in row_slices(len(numbers), 1, _BLOCK):
        message = numbers[block].astype(np.uint64)
        a, b, c, d = (np.full_like(message, constant ^ words[i % 2]) for i, constant in enumerate(_INITIAL))
        for word in (message, np.full_like(message, _LENGTH_BLOCK)):
            a, b, c, d = _round(_round((a, b, c, d ^ word)))
            a = a ^ word
        a, b, c, d = _round(_round(_round(_round((a, b, c ^ np.uint64(0xFF), d)))))
        hashes[block] = a ^ b ^ c ^ d
    return hashes


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
    """

    unit: IntArray
    identity: IdentityNumbers
    noun: str = "contexts"


def fold_key(seed: int, repetition: int) -> bytes:
    """Return the key, 16 bytes, by which a repetition of a fit deals its folds.

    The key follows from the seed of the fit and the number of the repetition from 0.
    """
    return blake2b(f"dmlrank folds: seed {seed}, repetition {repetition}".encode(), digest_size=16).digest()


def assign_folds(units: FoldUnits, n_folds: int, key: bytes) -> Folds:
    """Deal units to folds, so that all contexts of a unit share a fold; see the rule at the top of this module."""
    is_present = np.bincount(units.unit) > 0
    n_units = int(is_present.sum())
    if n_units < n_folds:
        advice = "use fewer folds" if n_units > 1 else "a fit needs two or more of them: collect votes on others"
        noun = units.noun.removesuffix("s" * (n_units == 1))
        raise DataError(
            f"{n_units} {noun} cannot be divided into learning=Learning(n_folds={n_folds}) folds, because "
            f"every fold needs at least one of them; {advice}"
        )
    identity = np.zeros(len(is_present), np.uint64)
    identity[units.unit] = units.identity
    hashes = keyed_hash(identity[is_present], key)
    # floor(k u): the upper 32 bits of the hash decide.
    fold = (((hashes >> np.uint64(32)) * np.uint64(n_folds)) >> np.uint64(32)).astype(np.intp)
    if n_units < UNITS_PER_FOLD * n_folds or (np.bincount(fold, minlength=n_folds) == 0).any():
        fold[np.lexsort((identity[is_present], hashes))] = np.arange(n_units) * n_folds // n_units
    fold_of_unit = np.zeros(len(is_present), np.intp)
    fold_of_unit[is_present] = fold
    return Folds(fold_of_unit[units.unit], units.unit, n_folds)


@dataclass(frozen=True, slots=True, eq=False)
class IdenticalContexts:
    """Kinds of contexts in the same fold, with the same features, and the same label on the same ordered pair.

    All contexts of a kind have the same mu, that of a table, and therefore the same influence value.

    A million contexts with one vote each on K models form at most K (K - 1) C kinds for a table. The contexts without
    labels form one kind per table. A context with several labelled cells, or with a label that is not one-hot, is a
    kind of its own.

    kind (n,): Kind of each context.
    table (k,): Table of each kind, never decreasing.
    cells: The r labelled cells of one representative context of each kind, with the votes of all contexts in the
        kind.
    cell_kind (r,): Kind of each of these r cells, never decreasing.
    representative (r,): For each of the r cells, its index among the m labelled cells of the data.
    row (m,): For each labelled cell of the data, the index of the cell among the r that represents it.
    table_context (T,): A context of each table.
    copies (n,): Copies of each context, as in the data.
    """

    kind: IntArray
    table: IntArray
    cells: Cells
    cell_kind: IntArray
    representative: IntArray
    row: IntArray
    table_context: IntArray
    copies: IntArray | None = None

    def __len__(self) -> int:
        return len(self.table)

    def is_constant_within_kinds(self, values: FloatArray) -> bool:
        """Whether the labelled cells that one cell represents all have the same value; ``values`` is (m,)."""
        # What is computed from equal features may differ by rounding.
        return np.allclose(values[self.representative][self.row], values, rtol=1e-12, atol=0)


def may_save_half(data: PreferenceData) -> bool:
    """Whether the kinds of identical contexts could be at most half as many as the contexts.

    A context with several labelled cells is a kind of its own. Where most contexts are like this, a search for
    kinds saves nothing.
    """
    n_cells = np.bincount(data.cells.context, minlength=len(data.x))
    return 2 * int((n_cells > 1).sum()) < len(data.x)


def find_identical_contexts(data: PreferenceData, table: IntArray, table_context: IntArray) -> IdenticalContexts:
    """Sort contexts into kinds of identical ones; shapes: table (n,), table_context (T,)."""
    cells = data.cells
    n_cells = np.bincount(cells.context, minlength=len(data.x))
    code, n_codes = _label_codes(data, n_cells)
    _, context_of_kind, kind = np.unique(table * n_codes + code, return_index=True, return_inverse=True)
    # The cells of the representative contexts follow each other in the order of the kinds.
    first_cell, n_kind_cells = np.cumsum(n_cells) - n_cells, n_cells[context_of_kind]
    cell_kind = np.repeat(np.arange(len(context_of_kind)), n_kind_cells)
    first_row = np.cumsum(n_kind_cells) - n_kind_cells
    cell = np.arange(len(cell_kind)) + (first_cell[context_of_kind] - first_row)[cell_kind]
    row = first_row[kind[cells.context]]
    # A context with several cells is a kind of its own, whose cells have consecutive rows. With one
    # cell in every context, the number to add is zero, and the addition is skipped.
    if len(row) > len(context_of_kind) or n_kind_cells.max(initial=0) > 1:
        row += np.arange(len(row)) - first_cell[cells.context]
    votes = np.bincount(row, weights=cells.n_votes, minlength=len(cell)).astype(np.intp)
    copies = np.bincount(row, cells.copies, len(cell)).astype(np.intp)
    merged = replace(cells.only(cell), n_votes=votes, copies=copies)
    of_kind = table[context_of_kind]
    return IdenticalContexts(kind, of_kind, merged, cell_kind, cell, row, table_context, data.copies)


def _label_codes(data: PreferenceData, n_cells: IntArray) -> tuple[IntArray, int]:
    """Return an integer code for the labels of each context, (n,), and an upper limit: all codes are smaller."""
    cells, n_items, n_categories = data.cells, data.n_items, data.n_categories
    cell_code = (cells.first * n_items + cells.second) * n_categories
    n_ones, n_other = np.zeros((2, len(cells)), dtype=np.intp)
    # Category by category, because sums over a short last axis take several times as long.
    for category, share in enumerate(cells.y.T):
        cell_code += category * (share == 1)
        n_ones += share == 1
        n_other += (share != 0) & (share != 1)
    can_share = (n_ones == 1) & (n_other == 0)
    n_cell_codes = n_items**2 * n_categories
    if can_share.all() and (n_cells == 1).all():
        return cell_code, n_cell_codes
    code = np.full(len(data.x), n_cell_codes)
    # Contexts with several labelled cells, or a label that is not one-hot, get a code that no other context has.
    can_share &= n_cells[cells.context] == 1
    code[cells.context[can_share]] = cell_code[can_share]
    single = np.flatnonzero((n_cells > 0) & (code == n_cell_codes))
    code[single] += 1 + np.arange(len(single))
    return code, n_cell_codes + 1 + len(single)


def select_floor(labels: HeldOutLabels, apart: BoolArray | None = None) -> float:
    """Select the floor with the smallest log-loss of the out-of-fold probabilities at cells of no model apart, (K,).

    Predictions that are more extreme than the truth bias a functional with a logit or a division, because the slope of
    the functional is large there. Clipping the predictions at one of ten floors, selected by the log-loss, removes most
    of this bias. Where true probabilities are extreme, too, the smallest of the ten floors is selected.
    """
    allowed = [floor for floor in FLOORS if floor * labels.mu.shape[1] < 0.5]
    counted = ~labels.cells.of(apart)
    mu, votes = labels.mu[counted], labels.votes[counted]
    return min(allowed, key=lambda floor: log_loss(clip_and_renormalise(mu, floor), votes))


def clip_and_renormalise(mu: FloatArray, floor: float) -> FloatArray:
    """Raise probabilities, (n, K, K, C), to the floor, and renormalise those of the categories."""
    return clip_and_count(mu, floor, np.ones(len(mu), np.intp))[0]


def clip_and_count(mu: FloatArray, floor: float, count: IntArray) -> tuple[FloatArray, int]:
    """Return clipped probabilities and how many were below the floor, where each of n tables counts for some contexts.

    Shapes: mu (n, K, K, C), count (n,).
    """
    low, items = mu < floor, np.arange(mu.shape[1] if mu.ndim == 4 else 0)
    diagonal = (slice(None), items, items) if mu.ndim == 4 else (items,)
    low[diagonal] = False
    n_low = int(np.count_nonzero(low))
    if not n_low:
        return mu, 0
    raised = np.maximum(mu, floor)
    raised[diagonal] = mu[diagonal]
    # The sum is computed category by category, because a sum over a short last axis takes several times as long.
    total = raised[..., 0].copy()
    for c in range(1, mu.shape[-1]):
        total += raised[..., c]
    np.maximum(total, np.finfo(float).tiny, out=total)
    raised /= total[..., None]
    if (count != 1).any():
        n_low = int(np.count_nonzero(low.reshape(len(mu), -1), axis=1) @ count)
    return raised, n_low


T = TypeVar("T")

# Number of contexts whose features are inspected to decide whether a search for contexts with equal features pays.
_ROWS_INSPECTED = 2000
# Number of probabilities in a block of rows. With smaller blocks, threads often wait for one another.
_BLOCK_ENTRIES = 400_000
# Number of sets of cells whose probabilities are cached: labels, verdicts, and labels by kind of context.
_MAX_CACHED = 4


@dataclass(frozen=True, slots=True, eq=False)
class ContextPart:
    """A part of the contexts, with a function that computes their probabilities.

    Contexts with equal features have the same probabilities and share a row.

    contexts (c,): The contexts of the part.
    place (c,): Row of each context in the probabilities.
    probabilities: Takes no arguments and returns the probabilities, (b, K, K, C): one row for each of the b sets of
        contexts with equal features.
    concurrent: Whether ``probabilities`` may be called in another thread.
    stream: Takes no arguments and returns an iterator over ranges of rows with their probabilities, or None; None where
        the model has no such function.
    """

    contexts: IntArray
    place: IntArray
    probabilities: Callable[[], FloatArray]
    concurrent: bool
    stream: Callable[[], Iterator[tuple[slice, FloatArray]] | None] | None = None

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ranges of rows and their probabilities, (r, K, K, C), a few megabytes at a time.

        The next step may overwrite the probabilities.
        """
        streamed = None if self.stream is None else self.stream()
        if streamed is not None:
            yield from streamed
            return
        table = self.probabilities()
        for rows in row_slices(len(table), int(np.prod(table.shape[1:])), _BLOCK_ENTRIES):
            yield rows, table[rows]


class MuSource(Protocol):
    """Out-of-fold preference probabilities of all contexts, in parts that fit into memory."""

    def parts(self, size: int, selected: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Yield parts of at most ``size`` rows of probabilities each, of all contexts or of the selected ones, (n,)."""
        ...

    def average(self, x: FloatArray) -> FloatArray:
        """Return the probabilities in new contexts with features ``x``, (n, p): the mean over the folds' models."""
        ...

    def at(self, cells: Cells) -> FloatArray:
        """Return the out-of-fold probabilities of m cells, (m, C)."""
        ...


class NumberedParts:
    """The parts of a source of mu by number, so that a worker in another process finds the part of its task.

    size: Number of rows of probabilities in a part.
    selected (n,): The contexts that are needed; all contexts when None.
    """

    def __init__(self, mu: MuSource, size: int, selected: NDArray[np.bool_] | None = None) -> None:
        self._arguments = (mu, size, selected)
        self.parts = tuple(mu.parts(size, selected))

    def __reduce__(self) -> tuple[type[NumberedParts], tuple[MuSource, int, NDArray[np.bool_] | None]]:
        # The parts refer to the models one by one; pickled with them, a model would be sent once for every part.
        return NumberedParts, self._arguments


def over_parts(
    evaluate: Callable[[ContextPart], T],
    mu: MuSource,
    size: int,
    what: str,
    selected: NDArray[np.bool_] | None = None,
) -> Iterator[tuple[ContextPart, T]]:
    """Yield the parts of a source of mu with what ``evaluate`` returns for each; threads and workers share the parts.

    ``what`` says in reports of the progress what is computed.
    """
    numbered = NumberedParts(mu, size, selected)
    parts, name = numbered.parts, f"{what} of contexts"
    n_done, total, numbers = 0, sum(len(part.contexts) for part in parts), range(len(parts))
    are_concurrent = [part.concurrent for part in parts]
    results = in_workers(
        _evaluate_part, (evaluate, numbered), numbers, name=name, is_concurrent=are_concurrent.__getitem__
    )
    for part, result in zip(parts, results, strict=True):
        yield part, result
        n_done += len(part.contexts)
        report(n_done, total, f"{what}, contexts")


def _evaluate_part(shared: tuple[Callable[[ContextPart], T], NumberedParts], number: int) -> T:
    """Evaluate one part, which a worker finds by its number."""
    evaluate, numbered = shared
    return evaluate(numbered.parts[number])


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedMu:
    """Cross-fitted mu: one model per fold, each trained on the other folds.

    models: The model of each fold.
    x (n, p): Features of the contexts.
    _cache: Probabilities of whole sets of cells: several steps of a fit need those of the labels and of the verdicts.
    _kinds: Cache of the kinds of identical contexts for one set of labelled cells: several fits on the same first
        stages have the same labels.
    """

    models: tuple[MuModel, ...]
    folds: Folds
    x: FloatArray
    _cache: dict[Cells, FloatArray] = field(default_factory=dict, init=False, repr=False)
    _kinds: dict[Cells, IdenticalContexts] = field(default_factory=dict, init=False, repr=False)

    def parts(self, size: int, selected: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Yield parts fold by fold; contexts with equal features are predicted once per fold."""
        for held_out, model in enumerate(self.models):
            in_fold = self.folds.fold == held_out
            contexts = np.flatnonzero(in_fold if selected is None else in_fold & selected)
            representative, place = distinct_rows(self.x, contexts)
            by_place = np.argsort(place, kind="stable")
            bounds = np.searchsorted(place[by_place], np.arange(0, len(representative) + size, size))
            for number, start in enumerate(range(0, len(representative), size)):
                members = np.sort(by_place[bounds[number] : bounds[number + 1]])
                rows = representative[start : start + size]
                stream = getattr(model, "blocks", None)
                yield ContextPart(
                    contexts[members],
                    place[members] - start,
                    partial(_predict_rows, model.predict, self.x, rows),
                    getattr(model, "concurrent", False),
                    None if stream is None else partial(_predict_rows, stream, self.x, rows),
                )

    def average(self, x: FloatArray) -> FloatArray:
        """Return the mean over the models of all folds, (n, K, K, C)."""
        return sum((model.predict(x) for model in self.models[1:]), self.models[0].predict(x)) / len(self.models)

    def at(self, cells: Cells) -> FloatArray:
        """Return the out-of-fold probabilities of m cells, (m, C), as a read-only array."""
        if cells not in self._cache:
            probabilities = np.empty(cells.y.shape)
            for held_out, model in enumerate(self.models):
                in_fold = np.flatnonzero(self.folds.fold[cells.context] == held_out)
                if len(in_fold):
                    x = self.x[cells.context[in_fold]]
                    probabilities[in_fold] = model.at(x, cells.first[in_fold], cells.second[in_fold])
            probabilities.flags.writeable = False
            if len(self._cache) == _MAX_CACHED:
                self._cache.pop(next(iter(self._cache)))
            self._cache[cells] = probabilities
        return self._cache[cells]

    # --- where many contexts of a fold have the same features, or there are none --------------------------------------

    def numbered_tables(self) -> tuple[IntArray, IntArray]:
        """Return the number of each context's probabilities, (n,), and a context of each of these T tables, (T,)."""
        number, contexts = np.empty(len(self.x), dtype=np.intp), list[int]()
        for fold in range(self.folds.n_folds):
            in_fold = np.flatnonzero(self.folds.fold == fold)
            representative, place = distinct_rows(self.x, in_fold)
            number[in_fold] = place + len(contexts)
            contexts += representative.tolist()
        return number, np.array(contexts, dtype=np.intp)

    def identical_contexts(self, data: PreferenceData) -> IdenticalContexts:
        """Return the kinds of contexts with the same fold, the same features and the same labels."""
        if data.cells not in self._kinds:
            self._kinds.clear()
            self._kinds[data.cells] = find_identical_contexts(data, *self.numbered_tables())
        return self._kinds[data.cells]

    def tables(self, contexts: IntArray | None = None) -> FloatArray:
        """Return the probabilities in T contexts, sorted by fold, (T, K, K, C), by default one of each fold."""
        if contexts is None:
            return np.concatenate([model.predict(np.empty((1, 0))) for model in self.models])
        by_fold = (self.x[contexts[self.folds.fold[contexts] == fold]] for fold in range(len(self.models)))
        return np.concatenate([model.predict(x) for model, x in zip(self.models, by_fold, strict=True)])

    def held_out(self, cells: Cells) -> FloatArray:
        """Return the probabilities of m cells, (m, C), that their own labels have not entered.

        Those of the one table from all labels are computed without the votes of the cell's unit on its pair.
        """
        pilot, fold = self.models[0], self.folds.fold[cells.context]
        if self.folds.n_folds > 1 or not isinstance(pilot, ConstantMu):
            return np.asarray(self.tables()[fold, cells.first, cells.second])
        n_items = len(pilot.table)
        code = (self.folds.unit[cells.context] * n_items + cells.first) * n_items + cells.second
        place = np.unique(code, return_inverse=True)[1].reshape(-1)
        own = np.stack([np.bincount(place, share * cells.votes_each)[place] for share in cells.y.T], axis=1)
        return pilot.without(own, cells.first, cells.second)


def mu_by_fold(mu: MuSource) -> CrossFittedMu | None:
    """Return probabilities that are one table per fold; None where contexts of one fold may differ."""
    return mu if isinstance(mu, CrossFittedMu) and not mu.x.shape[1] else None


@dataclass(frozen=True, slots=True, eq=False)
class SuppliedMu:
    """Probabilities that the user supplied for all contexts and pairs. mu (n, K, K, C)."""

    mu: FloatArray

    def parts(self, size: int, selected: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Yield parts in the order of the contexts."""
        contexts = np.arange(len(self.mu)) if selected is None else np.flatnonzero(selected)
        for start in range(0, len(contexts), size):
            part = contexts[start : start + size]
            yield ContextPart(part, np.arange(len(part)), partial(self.mu.__getitem__, part), True)

    def average(self, x: FloatArray) -> FloatArray:
        """Raise: supplied probabilities are those of the fit's contexts alone."""
        raise DataError(
            "this fit was given learning=Learning(mu=...), which holds probabilities of the fit's own prompts alone; "
            "predict(newdata) needs a learner: fit without mu"
        )

    def at(self, cells: Cells) -> FloatArray:
        """Return the supplied probabilities of m cells, (m, C)."""
        return self.mu[cells.context, cells.first, cells.second]


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutLabels:
    """Labels beside their out-of-fold probabilities; cells with equal probabilities may be merged into one.

    mu (r, C): Out-of-fold probabilities, not clipped at the floor.
    cells: The r cells, with the mean label and the numbers of all votes and cells that were merged into them.
    """

    mu: FloatArray
    cells: Cells

    @property
    def votes(self) -> FloatArray:
        """Number of votes for each category, (r, C)."""
        return self.cells.n_votes[:, None] * self.cells.y

    @property
    def log_loss(self) -> float:
        """Log-loss per vote."""
        return log_loss(self.mu, self.votes) / float(self.cells.n_votes.sum())

    @classmethod
    def of(cls, mu: MuSource, data: PreferenceData, held_out: FloatArray | None = None) -> HeldOutLabels:
        """Return all labels, merged where their probabilities are equal because mu is the same in all contexts.

        The log-loss is linear in the labels, so that merging does not change it. ``held_out``, (m, C), are the
        probabilities of the cells that their own labels have not entered, where they are known already.
        """
        constant = mu_by_fold(mu)
        if held_out is None:
            held_out = mu.at(data.cells) if constant is None else constant.held_out(data.cells)
        if constant is not None and may_save_half(data):
            kinds = constant.identical_contexts(data)
            if all(map(kinds.is_constant_within_kinds, held_out.T)):
                return cls(held_out[kinds.representative], kinds.cells)
        return cls(held_out, data.cells)


def _predict_rows(predict: Callable[[FloatArray], T], x: FloatArray, rows: IntArray) -> T:
    return predict(x[rows])


def distinct_rows(x: FloatArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Find equal rows of the features.

    Where a column has different values in most of the rows inspected, the search is skipped and every row counts as
    different.

    Shapes: x (n, p), rows (r,), returns (b,), returns (r,).
    """
    if x.shape[1] == 0 or len(rows) == 0:
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    inspected = rows[:_ROWS_INSPECTED]
    if max(len(np.unique(x[inspected, f])) for f in range(x.shape[1])) > len(inspected) / 2:
        return rows, np.arange(len(rows))
    # Rows are compared byte by byte, which takes an eighth of the time; the sum makes one zero of both zeros.
    table = np.ascontiguousarray(x[rows] + 0.0)
    of_bytes = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).reshape(-1)
    _, first, place = np.unique(of_bytes, return_index=True, return_inverse=True)
    return rows[first], place


def contexts_at_a_time(data: PreferenceData, chunk: int = 2_000_000) -> int:
    """Return the number of contexts whose probabilities have at most ``chunk`` entries, at least one."""
    return max(1, chunk // (data.n_items**2 * data.n_categories))

"""The debiased estimator: F(mu) and its correction, context by context, in one pass over the probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from .._progress import report
from ..data.preferences import FloatArray, IntArray, PreferenceData
from .crossfit import MuSource
from ..functionals.base import is_linear
from .steepening import Steep, is_steep, pair_worth, steepening

# Doubles in one chunk of mu: a few arrays of this size live at a time.
_CHUNK = 2_000_000


class Score(Protocol):
    """What the estimator needs of a functional."""

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be floored."""
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F(mu) and DF(mu)[delta], (b, d) each."""
        ...


@runtime_checkable
class LabelScore(Protocol):
    """A score whose correction is not the derivative of a functional, but a sum over labels."""

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be floored."""
        ...

    def by_label(
        self, mu: FloatArray, contexts: IntArray, place: IntArray, first: IntArray, second: IntArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of the contexts, (b, d), and what each label adds to its context's influence, (e, d)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The votes by the pieces that the correction is kept in: one per context, or one per context and annotator.

    Attributes
    ----------
    context : ndarray of int, shape (q,)
        Context of each piece.
    entry_piece, entry_cell : ndarray of int, shape (e,)
        A piece's votes on one cell.
    entry_share : ndarray, shape (e,)
        Their number as a share of the cell's votes.
    entry_y : ndarray, shape (e, C)
        Their mean label.
    """

    context: IntArray
    entry_piece: IntArray
    entry_cell: IntArray
    entry_share: FloatArray
    entry_y: FloatArray

    @property
    def weight(self) -> FloatArray:
        """Labelled cells that each piece amounts to, shared cells in proportion to the votes, (q,)."""
        total: FloatArray = np.zeros(len(self.context))
        np.add.at(total, self.entry_piece, self.entry_share)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """The pieces phi_i = a_i + sum of the corrections in context i, not yet centred.

    Attributes
    ----------
    value : ndarray, shape (n, d)
        F(mu(x_i)).
    correction : ndarray, shape (q, d)
        DF(mu(x_i))[S / pi (Y - mu)], by piece.
    piece_context : ndarray of int, shape (q,)
    piece_weight : ndarray, shape (q,)
        Labelled cells that each piece amounts to.
    weight : ndarray, shape (n,)
        Weight of each context in the target population, with mean one.
    steepening : ndarray, shape (d, d), or None
        How much larger the second moment of the correction would be if the derivative of F were taken at the true mu
        instead of the fitted one, to first order (:mod:`dmlrank.estimation.steepening`); None where it is not known.
    """

    value: FloatArray
    correction: FloatArray
    piece_context: IntArray
    piece_weight: FloatArray
    weight: FloatArray
    steepening: FloatArray | None = None

    @property
    def plugin(self) -> FloatArray:
        """Weighted mean of F(mu), (d,)."""
        return self.weight @ self.value / len(self.value)

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimate, (d,)."""
        return self.plugin + self.weight[self.piece_context] @ self.correction / len(self.value)

    @property
    def by_context(self) -> FloatArray:
        """Correction of each context, (n, d)."""
        total = np.zeros_like(self.value)
        np.add.at(total, self.piece_context, self.correction)
        return total

    @property
    def centred(self) -> FloatArray:
        """phi_i, (n, d), with mean zero: w_i (F_i + correction - theta) with weights of mean one."""
        return self.weight[:, None] * (self.value + self.by_context - self.estimate)

    @property
    def centred_correction(self) -> FloatArray:
        """Weighted corrections, (q, d), less each piece's share in their sum, the bias of F(mu) that they undo."""
        share = self.piece_weight / self.piece_weight.sum()
        weighted = self.weight[self.piece_context, None] * self.correction
        return weighted - share[:, None] * weighted.sum(axis=0)

    def without_correction(self) -> Influence:
        """What the plug-in estimator makes of it: F(mu) alone."""
        return replace(self, correction=np.zeros_like(self.correction), steepening=None)

    def given_prompts(self) -> Influence:
        """What is uncertain where the prompts are fixed: the correction alone, around the same estimate."""
        return replace(self, value=np.broadcast_to(self.plugin, self.value.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What one pass over the probabilities of all contexts brings.

    Attributes
    ----------
    influences : tuple of Influence
        One per functional.
    cell_mu : ndarray, shape (m, C)
        Out-of-fold probabilities at the labelled cells, not floored.
    n_floored : int
        Entries of mu (context, ordered pair, category) below the floor, pairs off the graph included.
    n_entries : int
        Entries looked at; zero where no functional needs a floor.
    """

    influences: tuple[Influence, ...]
    cell_mu: FloatArray
    n_floored: int
    n_entries: int


def mean_influence(influences: Sequence[Influence]) -> Influence:
    """The mean over repetitions with other folds, value by value and piece by piece."""
    value = np.mean([influence.value for influence in influences], axis=0)
    correction = np.mean([influence.correction for influence in influences], axis=0)
    known = [influence.steepening for influence in influences if influence.steepening is not None]
    steepening = np.mean(known, axis=0) if len(known) == len(influences) else None
    return replace(influences[0], value=value, correction=correction, steepening=steepening)


def pieces_by_context(data: PreferenceData) -> Pieces:
    """One piece per context; it is empty where the context has no label."""
    cells = data.cells
    return Pieces(np.arange(data.n_contexts), cells.context, np.arange(len(cells)), np.ones(len(cells)), cells.y)


def pieces_by_group(data: PreferenceData, vote_group: IntArray) -> tuple[Pieces, IntArray]:
    """One piece per context and group, and the group of each piece, (q,); -1 for contexts without a label.

    Parameters
    ----------
    data : PreferenceData
    vote_group : ndarray of int, shape (v,)
        Who gave each vote, numbered from 0.
    """
    entries, vote_entry, count = np.unique(
        np.stack([data.vote_cell, vote_group], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    y = np.zeros((len(entries), data.n_categories))
    np.add.at(y, vote_entry.reshape(-1), data.vote_y)
    cell, group = entries.T
    unlabelled = np.setdiff1d(np.arange(data.n_contexts), data.cells.context)
    owners = np.concatenate(
        [
            np.stack([data.cells.context[cell], group], axis=1),
            np.stack([unlabelled, np.full_like(unlabelled, -1)], axis=1),
        ]
    )
    pieces, owner_piece = np.unique(owners, axis=0, return_inverse=True)
    share = count / data.cells.n_votes[cell]
    made = Pieces(pieces[:, 0], owner_piece.reshape(-1)[: len(cell)], cell, share, y / count[:, None])
    return made, pieces[:, 1]


def evaluate(
    scores: Sequence[Score | LabelScore],
    mu: MuSource,
    data: PreferenceData,
    propensity: FloatArray,
    pieces: Pieces,
    floor: float,
    context_weight: FloatArray | None = None,
) -> Pass:
    """Evaluate functionals and their corrections in one pass over the probabilities [P eq:debiased_estimator].

    Parameters
    ----------
    scores : sequence of Score or LabelScore
    mu : MuSource
    data : PreferenceData
    propensity : ndarray, shape (m,)
        pi at the labelled cells.
    pieces : Pieces
        In what pieces the correction is kept.
    floor : float
        Categories of mu below it are raised for functionals with a logit or a division, and rows renormalised. The
        floored mu is used everywhere: in F, in its derivative and in the residual.
    context_weight : ndarray, shape (n,), optional
        Weights in the target population, with mean one; one for every context when None.

    Notes
    -----
    The correction sum_jk S/pi J_jk (Y - mu_jk) is the directional derivative along delta_jk = S/pi (Y - mu_jk), so no
    Jacobian is ever built. Where order does not matter, the residuals of both orders of a pair add up and stand flipped
    at the other order, and pi is the expected number of labelled orders.
    """
    population = np.ones(data.n_contexts) if context_weight is None else context_weight
    entry_bounds = np.searchsorted(pieces.context[pieces.entry_piece], np.arange(data.n_contexts + 1))
    piece_bounds = np.searchsorted(pieces.context, np.arange(data.n_contexts + 1))
    off_diagonal = ~np.eye(data.n_items, dtype=bool)
    interior = any(score.interior for score in scores)
    results = [_Collected(data.n_contexts, len(pieces.context)) for _ in scores]
    curved = not all(is_linear(score) for score in scores)
    worth = pair_worth(mu.at(data.cells), data, propensity) if curved else np.empty((0, 0))
    cell_mu = np.empty((len(data.cells), data.n_categories))
    n_floored = n_entries = done = 0
    for contexts, raw in mu.chunks(max(1, _CHUNK // (data.n_items**2 * data.n_categories))):
        entries, entry_place = _within(entry_bounds, contexts)
        piece, piece_place = _within(piece_bounds, contexts)
        cell = pieces.entry_cell[entries]
        at = (entry_place, data.cells.first[cell], data.cells.second[cell])
        cell_mu[cell] = raw[at]
        floored = raised(raw, floor) if interior else raw
        if interior:
            n_floored += int((raw[:, off_diagonal] < floor).sum())
            n_entries += len(raw) * int(off_diagonal.sum()) * data.n_categories
        weight = pieces.entry_share[entries] / propensity[cell]
        row = np.searchsorted(piece, pieces.entry_piece[entries])
        for score, result in zip(scores, results, strict=True):
            table = floored if score.interior else raw
            if isinstance(score, LabelScore):
                value, added = score.by_label(table, contexts, *at, pieces.entry_y[entries])
                correction = np.zeros((len(piece), added.shape[1]))
                np.add.at(correction, row, pieces.entry_share[entries][:, None] * added)
                result.add(contexts, piece, piece_place, value[piece_place], correction)
                continue
            residual = weight[:, None] * (pieces.entry_y[entries] - table[at])
            base = table if len(piece) == len(contexts) else table[piece_place]
            delta = np.zeros(base.shape)
            np.add.at(delta, (row, *at[1:]), residual)
            if not data.ordered:
                delta += np.swapaxes(delta, 1, 2)[..., data.flip]
            result.add(contexts, piece, piece_place, *score.value_and_derivative(base, delta))
            if isinstance(score, Steep) and is_steep(score, data.n_items):
                whole = delta if len(piece) == len(contexts) else _summed(delta, piece_place, len(contexts))
                result.steepen(steepening(score, table, whole, worth, population[contexts]) / data.n_contexts)
        done += len(contexts)
        report(done, data.n_contexts, "scores, contexts")
    influences = tuple(result.influence(pieces, population) for result in results)
    return Pass(influences, cell_mu, n_floored, n_entries)


class _Collected:
    """Values by context and corrections by piece, filled chunk by chunk."""

    def __init__(self, n_contexts: int, n_pieces: int) -> None:
        self._shape = (n_contexts, n_pieces)
        self._value: FloatArray | None = None
        self._correction: FloatArray | None = None
        self._steepening: FloatArray | None = None

    def add(
        self, contexts: IntArray, piece: IntArray, place: IntArray, value: FloatArray, derivative: FloatArray
    ) -> None:
        """File the scores of a chunk: one row per piece, the value the same for all pieces of a context."""
        if self._value is None or self._correction is None:
            self._value, self._correction = (np.empty((size, value.shape[1])) for size in self._shape)
        self._value[contexts[place]] = value
        self._correction[piece] = derivative

    def steepen(self, amount: FloatArray) -> None:
        """Add a chunk's share of the steepening."""
        self._steepening = amount if self._steepening is None else self._steepening + amount

    def influence(self, pieces: Pieces, weight: FloatArray) -> Influence:
        """Everything that was filed."""
        assert self._value is not None
        assert self._correction is not None
        return Influence(self._value, self._correction, pieces.context, pieces.weight, weight, self._steepening)


def _summed(delta: FloatArray, place: IntArray, n_contexts: int) -> FloatArray:
    """Directions of contexts, (b, K, K, C), from those of their pieces."""
    total = np.zeros((n_contexts, *delta.shape[1:]))
    np.add.at(total, place, delta)
    return total


def _within(bounds: IntArray, contexts: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the given contexts in a table sorted by context, and the place of each row's context among these."""
    start, count = bounds[contexts], bounds[contexts + 1] - bounds[contexts]
    place = np.repeat(np.arange(len(contexts)), count)
    return np.arange(count.sum()) + (start - (np.cumsum(count) - count))[place], place


def raised(mu: FloatArray, floor: float) -> FloatArray:
    """Probabilities, (n, K, K, C), with categories below the floor raised to it and rows renormalised."""
    low = (mu < floor) & ~np.eye(mu.shape[1], dtype=bool)[:, :, None]
    if not low.any():
        return mu
    lifted = np.where(low, floor, mu)
    total = lifted.sum(axis=-1, keepdims=True)
    return lifted / np.where(total > 0, total, 1.0)

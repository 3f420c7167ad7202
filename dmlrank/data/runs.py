"""Scores of models on prompts, with repeated runs: their means, shares of runs that win, and pass@k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """The scores of K models on n prompts, averaged over the runs of a model on a prompt.

    mean (n, K): Mean score over runs; NaN where a model has no score.
    n_runs (n, K): Number of runs with a score.
    variance (n, K): Sample variance of the runs; NaN with fewer than two runs.
    """

    mean: FloatArray
    n_runs: IntArray
    variance: FloatArray

    def only(self, items: IntArray) -> ScoreTable:
        """Return the scores of some models."""
        return ScoreTable(self.mean[:, items], self.n_runs[:, items], self.variance[:, items])


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Scores of single runs, sorted by record and item; a record is a prompt.

    record, item, value (r,): Record, item and score of each run; no score is missing.
    n_lost (n, K): Number of runs without a score.
    """

    record: IntArray
    item: IntArray
    value: FloatArray
    n_lost: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and items, (n, K)."""
        return self.n_lost.shape[0], self.n_lost.shape[1]

    @classmethod
    def of(cls, record: IntArray, item: IntArray, value: FloatArray, shape: tuple[int, int]) -> Runs:
        """Return the runs that have a score, sorted, and count those without.

        ``item`` is -1 for a record that nothing was run on.
        """
        has_score = ~np.isnan(value)
        n_lost = np.zeros(shape, dtype=np.intp)
        is_lost = ~has_score & (item >= 0)
        np.add.at(n_lost, (record[is_lost], item[is_lost]), 1)
        record, item, value = record[has_score], item[has_score], value[has_score]
        order = np.lexsort((item, record))
        return cls(record[order], item[order], value[order], n_lost)

    def only(self, is_used: NDArray[np.bool_]) -> Runs:
        """Return the runs of some of the records, by a mask, (n,)."""
        inside = is_used[self.record]
        record = (np.cumsum(is_used) - 1)[self.record[inside]]
        return Runs(record, self.item[inside], self.value[inside], self.n_lost[is_used])

    def filled(self, value: float) -> Runs:
        """Return the runs with this score for every run without one, and for every record and item without a run."""
        n_further = np.where(self.table().n_runs == 0, np.maximum(self.n_lost, 1), self.n_lost)
        record, item = (np.repeat(place, n_further.ravel()) for place in map(np.ravel, np.indices(self.shape)))
        return Runs.of(
            np.concatenate([self.record, record]),
            np.concatenate([self.item, item]),
            np.concatenate([self.value, np.full(len(record), value)]),
            self.shape,
        )

    def table(self) -> ScoreTable:
        """Return means, numbers and variances of the runs of each record and item."""
        cell, size = self.record * self.shape[1] + self.item, self.shape[0] * self.shape[1]
        n_runs = np.bincount(cell, minlength=size)
        mean = np.full(size, np.nan)
        np.divide(np.bincount(cell, self.value, size), n_runs, out=mean, where=n_runs > 0)
        variance, squares = np.full(size, np.nan), np.bincount(cell, np.square(self.value - mean[cell]), size)
        np.divide(squares, n_runs - 1, out=variance, where=n_runs > 1)
        return ScoreTable(mean.reshape(self.shape), n_runs.reshape(self.shape), variance.reshape(self.shape))

    def padded(self, records: slice) -> FloatArray:
        """Return the runs of some records, (b, K, R), with NaN where an item has fewer than R runs."""
        low, high = np.searchsorted(self.record, [records.start, records.stop])
        cell = self.record[low:high] * self.shape[1] + self.item[low:high]
        starts = np.flatnonzero(np.diff(cell, prepend=-1))
        number = np.arange(len(cell)) - np.repeat(starts, np.diff(starts, append=len(cell)))
        n_records = min(records.stop, self.shape[0]) - records.start
        table = np.full((n_records, self.shape[1], int(number.max(initial=0)) + 1), np.nan)
        table[self.record[low:high] - records.start, self.item[low:high], number] = self.value[low:high]
        return table


def win_shares(runs: FloatArray, first: IntArray, second: IntArray, tolerance: float = 0.0) -> FloatArray:
    """Return shares of pairs of runs that the first, the second and neither item wins, (b, P, 3); NaN without pairs.

    Scores that differ by at most ``tolerance`` times the larger of the two tie.

    Shapes: runs (b, K, R), first, second (P,).
    """
    by_run = np.moveaxis(runs, 2, 0)
    wins = np.zeros((3, len(runs), len(first)))
    for ours in (run[:, first] for run in by_run):
        for theirs in (run[:, second] for run in by_run):
            difference = ours - theirs
            if tolerance:
                is_tie = np.abs(difference) <= tolerance * np.maximum(np.abs(ours), np.abs(theirs))
                difference[is_tie] = 0.0
            wins += difference > 0, difference < 0, difference == 0
    count = wins.sum(axis=0)
    shares = np.full(wins.shape, np.nan)
    np.divide(wins, count, out=shares, where=count > 0)
    return np.moveaxis(shares, 0, 2)

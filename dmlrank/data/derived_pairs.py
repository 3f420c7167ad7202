"""Scores of models on prompts with their runs, and the comparisons that scores or rankings imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtri

from .arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """The scores of K models on n prompts, averaged over the runs of a model on a prompt. Shapes: all (n, K).

    mean: Mean score over runs; NaN where a model has no score.
    variance: Sample variance of the runs; NaN with fewer than two runs.
    """

    mean: FloatArray
    n_runs: IntArray
    variance: FloatArray

    def only(self, items: IntArray) -> ScoreTable:
        """Return the scores of some models."""
        return ScoreTable(self.mean[:, items], self.n_runs[:, items], self.variance[:, items])


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Scores of single runs, (r,), by record (a prompt) and item; ``n_lost``, (n, K), are without a score."""

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
        """Return the runs that have a score, sorted; ``item`` is -1 for a record that nothing was run on."""
        has_score = ~np.isnan(value)
        n_lost = np.zeros(shape, dtype=np.intp)
        is_lost = ~has_score & (item >= 0)
        np.add.at(n_lost, (record[is_lost], item[is_lost]), 1)
        record, item, value = record[has_score], item[has_score], value[has_score]
        order = np.lexsort((item, record))
        return cls(record[order], item[order], value[order], n_lost)

    def only(self, is_used: BoolArray) -> Runs:
        """Return the runs of some of the records, by a mask, (n,)."""
        inside = is_used[self.record]
        record = (np.cumsum(is_used) - 1)[self.record[inside]]
        return Runs(record, self.item[inside], self.value[inside], self.n_lost[is_used])

    def of_items(self, items: IntArray) -> Runs:
        """Return the runs of some of the items."""
        code = np.full(self.shape[1], -1)
        code[items] = np.arange(len(items))
        inside = code[self.item] >= 0
        return Runs(self.record[inside], code[self.item[inside]], self.value[inside], self.n_lost[:, items])

    @property
    def expected(self) -> IntArray:
        """Expected number of runs, (n, K): as many as any item has on the record, and as the item has on any record."""
        rows = self.table().n_runs + self.n_lost
        return np.asarray(np.minimum(rows.max(axis=0), rows.max(axis=1, keepdims=True)))

    @property
    def n_missing(self) -> IntArray:
        """Number of expected runs without a score, (n, K)."""
        return self.expected - self.table().n_runs

    def filled(self, value: float | FloatArray) -> Runs:
        """Return the runs with this score, or one for each item, (K,), for every missing one; NaN leaves it missing."""
        n_further = self.n_missing
        record, item = (np.repeat(place, n_further.ravel()) for place in map(np.ravel, np.indices(self.shape)))
        return Runs.of(
            np.concatenate([self.record, record]),
            np.concatenate([self.item, item]),
            np.concatenate([self.value, np.broadcast_to(value, self.shape[1])[item]]),
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


# A difference that exceeds the margin by at most this many units of the numbers' relative precision still is a tie,
# because rounding can cause the excess: in floating point, 0.8 - 0.7 is a little more than 0.1.
_ROUNDING = 4

# What derived pairs are derived from; also the kinds of outcomes of a fit to them.
DERIVED_KINDS = ("scores", "ranks")

# A model that lacks a share of its runs that is larger by this much, in a test of this level, is named; most names.
_MATERIAL_GAPS, _LEVEL_OF_GAPS, _GAPS_NAMED = 0.02, 0.01, 3

# Number of comparisons that are computed at a time, to limit memory.
_COMPARED_AT_ONCE = 250_000


@dataclass(frozen=True, slots=True, eq=False)
class DerivedPairs:
    """Records of numbers by item; every two items with a number in one record are compared.

    A record is what one source says about one prompt: the scores of a benchmark on it, or one annotator's ranking.
    Storing records saves the memory of a row for each of the K (K - 1) / 2 comparisons of a record.
    :func:`dmlrank.data.pairs_from_scores` and :func:`dmlrank.data.pairs_from_rankings` make them.

    table: A row per record: the columns that identify it, and others that do not differ within a record.
    prompt: The columns that identify a prompt, the context of a fit.
    models: Names of the K models, sorted.
    values (records, K): The number of each model; NaN where it has none. The larger number wins.
    margin: Two models whose numbers differ by at most this much tie.
    kind: What the numbers are, "scores" or "ranks".
    number: The column that holds the numbers.
    lower_wins: Whether the smaller number of this column wins, so that ``values`` have the opposite sign.
    runs: Scores of single runs, whose means are ``values``, where the data are a table of runs.
    n_names_changed: Names of models that had outer blanks or another Unicode form than NFC.
    rows, run, model: The table of runs, and its columns of runs and of models.
    of_runs: Whether ``values`` are another functional of the runs than their mean.
    """

    table: pd.DataFrame
    prompt: tuple[str, ...]
    models: tuple[str, ...]
    values: FloatArray
    margin: float
    kind: str = "scores"
    number: str = "score"
    lower_wins: bool = False
    runs: Runs | None = None
    n_names_changed: int = 0
    rows: pd.DataFrame | None = None
    run: str | None = None
    model: str = ""
    of_runs: bool = False

    @property
    def labels(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """What decides a comparison and what makes a tie, each with its meaning, as the labels of votes have one."""
        tie = f"difference of at most {self.margin:g}" if self.margin else f"equal {self.number!r}"
        return (f"{'smaller' if self.lower_wins else 'larger'} {self.number!r}", "the model that wins"), (tie, "tie")

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons that the records imply."""
        n_known = np.isfinite(self.values).sum(axis=1)
        return int((n_known * (n_known - 1) // 2).sum())

    @property
    def has_comparison(self) -> BoolArray:
        """Records with a number for at least two models, (records,)."""
        return np.asarray(np.isfinite(self.values).sum(axis=1) >= 2)

    def only(self, is_used: BoolArray) -> DerivedPairs:
        """Return some of the records, by a mask, (records,)."""
        runs = None if self.runs is None else self.runs.only(is_used)
        return replace(self, table=self.table[is_used].reset_index(drop=True), values=self.values[is_used], runs=runs)

    @property
    def n_numbers(self) -> IntArray:
        """Number of numbers of each model, (K,): of runs where the data are a table of runs."""
        if self.runs is None:
            return np.asarray(np.isfinite(self.values).sum(axis=0))
        return np.bincount(self.runs.item, minlength=len(self.models))

    def with_enough(self, fewest: int) -> DerivedPairs:
        """Return the same records with only the models that have so many numbers; all with ``fewest`` = 1."""
        kept = np.flatnonzero((self.n_numbers >= fewest) | (fewest == 1))
        if len(kept) == len(self.models):
            return self
        return self.of_models([self.models[j] for j in kept])

    def of_models(self, models: Sequence[str]) -> DerivedPairs:
        """Return the same records with only some of the models."""
        kept = np.array([self.models.index(name) for name in models])
        runs = None if self.runs is None else self.runs.of_items(kept)
        return replace(self, models=tuple(models), values=self.values[:, kept], runs=runs)

    @property
    def n_missing(self) -> IntArray:
        """Number of missing numbers of each model, (K,): of runs, and of models on records without a run."""
        return np.asarray((np.isnan(self.values) if self.runs is None else self.runs.n_missing).sum(axis=0))

    @property
    def runs_there(self) -> str:
        """How many of the expected runs have a score, and which model has the fewest; empty where all have one."""
        if self.runs is None or not self.runs.n_missing.any():
            return ""
        expected = self.runs.expected.sum(axis=0)
        there = expected - self.n_missing
        j = int(np.argmin(there / expected))
        fewest = f"fewest: {self.models[j]} ({there[j]:,} of {expected[j]:,})"
        # A run that both of two models lost is known from other models only.
        runs = "runs, as many as either has on a prompt," if len(expected) == 2 else "runs"
        return f"{there.sum():,} of {expected.sum():,} {runs} have a score; {fewest}"

    @property
    def runs_missing(self) -> str:
        """How many expected runs have no score, and the least and the largest share of a model's; empty where none."""
        if not self.runs_there or self.runs is None:
            return ""
        expected = self.runs.expected.sum(axis=0)
        shares = 100 * self.n_missing / expected
        return (
            f"{self.n_missing.sum():,} of {expected.sum():,} runs, {shares.min():.1f} to {shares.max():.1f} % by "
            f"model{', by more than chance' if self.unequal_gaps else ''}"
        )

    @property
    def unequal_gaps(self) -> str:
        """Which models lack materially more of their runs than the model that lacks fewest; empty where none does."""
        # Prompts are the units of the test, which is McNemar's where each model has one run on a prompt. All pairs
        # share its level, because the model that lacks fewest is found in the data.
        if self.runs is None or len(self.models) == 1:
            return ""
        expected, lost = self.runs.expected.sum(axis=0), self.runs.n_missing
        share, n_models = lost.sum(axis=0) / expected, len(self.models)
        best = int(np.argmin(share))
        by_prompt = lost / expected - (lost / expected)[:, [best]]
        least = -ndtri(_LEVEL_OF_GAPS / (n_models * (n_models - 1))) * np.sqrt((by_prompt**2).sum(axis=0))
        is_worse = share - share[best] > np.maximum(least, _MATERIAL_GAPS)
        if not is_worse.any():
            return ""
        worst = [j for j in np.argsort(-share, kind="stable") if is_worse[j]]
        n_lost = lost.sum(axis=0)
        named = [f"{self.models[j]} {100 * share[j]:.1f} % ({n_lost[j]:,} of {expected[j]:,})" for j in (*worst, best)]
        others = f" and {len(worst) - _GAPS_NAMED} more" if len(worst) > _GAPS_NAMED else ""
        return f"{', '.join(named[: min(_GAPS_NAMED, len(worst))])}{others}, but {named[-1]}"

    def filled(self, value: float | FloatArray) -> DerivedPairs:
        """Return the same records with a number, or one for each model, (K,), in place of every missing one."""
        if self.runs is None:
            return replace(self, values=np.where(np.isnan(self.values), value, self.values))
        runs = self.runs.filled(value)
        return replace(self, values=runs.table().mean, runs=runs)

    @property
    def score_table(self) -> ScoreTable:
        """The numbers as scores: their means over runs, numbers of runs and variances between runs, if known."""
        if self.runs is not None and not self.of_runs:
            return self.runs.table()
        if self.runs is not None:
            n_runs = np.where(np.isnan(self.values), 0, self.runs.table().n_runs)
            return ScoreTable(self.values, n_runs, np.full_like(self.values, np.nan))
        return ScoreTable(self.values, np.isfinite(self.values).astype(np.intp), np.full_like(self.values, np.nan))

    def compare(self) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """Return the record, the first item and the second item of every comparison, (v,) each, and its label, (v, C).

        Where there are several runs, the label holds the shares of pairs of runs. The categories are first, second and,
        where two numbers of a record tie, tie. The model whose name comes first is the first item of every comparison;
        display order has no meaning here. Comparisons are sorted by record, first and second item.
        """
        first, second = np.triu_indices(len(self.models), 1)
        if self.runs is not None and len(self.runs.value) > np.isfinite(self.values).sum():
            return self._compare_runs(self.runs, first, second)
        n_comparisons, tolerance = self.n_comparisons, _ROUNDING * _precision(self.values)
        record, pair = np.empty((2, n_comparisons), dtype=np.intp)
        category = np.empty(n_comparisons, dtype=np.int8)
        step, end = max(1, _COMPARED_AT_ONCE // max(1, len(first))), 0
        for start in range(0, len(self.values), step):
            values = self.values[start : start + step]
            difference = values[:, first] - values[:, second]
            place = np.flatnonzero(~np.isnan(difference))
            part = slice(end, end + len(place))
            np.divmod(place, len(first), out=(record[part], pair[part]))
            record[part] += start
            size = np.maximum(np.abs(values[:, first]), np.abs(values[:, second])).ravel()[place]
            difference, margin = difference.ravel()[place], self.margin + tolerance * np.maximum(size, self.margin)
            category[part] = np.where(difference > margin, 0, np.where(difference < -margin, 1, 2))
            end += len(place)
        has_tie = bool((category == 2).any())
        y = np.stack([category == number for number in range(2 + has_tie)], axis=1).astype(float)
        return record, first[pair], second[pair], y

    def _compare_runs(
        self, runs: Runs, first: IntArray, second: IntArray
    ) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        tolerance = _ROUNDING * _precision(runs.value)
        step, parts = max(1, _COMPARED_AT_ONCE // max(1, len(first))), []
        for start in range(0, len(self.values), step):
            shares = win_shares(runs.padded(slice(start, start + step)), first, second, tolerance).reshape(-1, 3)
            place = np.flatnonzero(~np.isnan(shares[:, 0]))
            record, pair = np.divmod(place, len(first))
            parts.append((record + start, pair, shares[place]))
        record, pair, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        return record, first[pair], second[pair], y if y[:, 2].any() else y[:, :2]

    def __repr__(self) -> str:
        n_prompts = len(self.table.drop_duplicates(list(self.prompt)))
        return f"DerivedPairs of {len(self.models)} models on {n_prompts:,} prompts: {self.n_comparisons:,} comparisons"


def _precision(values: FloatArray) -> float:
    """Return the relative precision in which numbers were stored: zero for whole numbers, single, or double."""
    known = values[np.isfinite(values)]
    if (known == np.rint(known)).all():
        return 0.0
    with np.errstate(over="ignore", under="ignore"):
        is_single = (known.astype(np.float32) == known).all()
    return float(np.finfo(np.float32 if is_single else np.float64).eps)

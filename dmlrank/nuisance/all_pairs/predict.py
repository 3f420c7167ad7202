"""Predictions for all ordered pairs of items of every context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import lightgbm as lgb
import numpy as np

from ..._utils.parallel import core_count, in_order
from ..._utils.warning_collection import warn
from ...data.preferences import FloatArray, IntArray
from .context_splits import Branches, branches_taken, evaluate_items
from .parse_trees import Link, Trees, UnreadableTreesError, as_read, read_trees
from .rectangles import RectangleSum, scores_by_first, sums_of_rectangles

# Contexts that are summed at once: at most so many, to stay in cache, and where there are more for a second thread no
# fewer than pay for a round of calls.
_CONTEXTS, _FEW_CONTEXTS = 256, 32
# Rows that are stacked for one call of Booster.predict: enough to keep the threads busy, small enough to stay in cache.
_ROWS = 200_000
# Numbers in such a stack, where rows are long.
_NUMBERS = 8_000_000


class RowPredictor(Protocol):
    """A LightGBM booster, or what predicts like one."""

    def predict(self, data: FloatArray, /, *, raw_score: bool = False, **options: Any) -> Any:
        """Predictions or scores, (r,) or (r, C), for rows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Trees, their branches, and the sum of rectangles of every output."""

    trees: Trees
    branches: Branches
    sums: tuple[RectangleSum, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PairTrees:
    """A booster over rows [x, first, second], prepared for the scores of all pairs.

    Within a context only the items change. What the splits on them leave of the trees is a sum of rectangles of the
    K x K table of pairs; the weights of the rectangles depend on the context alone. So a context's scores are sums over
    distinct rectangles, not over trees and pairs.

    Attributes
    ----------
    booster : lightgbm.Booster
    n_items : int
    prepared : Prepared or None
        None where rows have to be stacked for the booster.
    """

    booster: RowPredictor
    n_items: int
    prepared: Prepared | None

    @classmethod
    def of(cls, booster: RowPredictor, n_items: int) -> PairTrees:
        """Prepare a booster whose last two features are the codes of the first and the second item.

        Boosters with linear models in their leaves or with objectives other than the multiclass and the binary one are
        asked about stacked rows, as is anything else that predicts like a booster.

        Warns
        -----
        DmlrankWarning
            For a LightGBM booster that will be asked about stacked rows.
        """
        try:
            trees = read_trees(booster)
        except UnreadableTreesError as reason:
            if isinstance(booster, lgb.Booster):
                warn(
                    f"all pairs are predicted from stacked rows, which is many times slower than summing trees: the "
                    f"booster cannot be taken apart, because {reason}",
                    stacklevel=2,
                )
            return cls(booster, n_items, None)
        branches, leaves = evaluate_items(trees, n_items)
        sums = sums_of_rectangles(leaves, trees.value * trees.link.scale, trees.link.n_outputs)
        return cls(booster, n_items, Prepared(trees, branches, sums))

    def __reduce__(self) -> tuple[Callable[[RowPredictor, int], PairTrees], tuple[RowPredictor, int]]:
        return PairTrees.of, (self.booster, self.n_items)


def predict_all_pairs(
    booster: RowPredictor | PairTrees,
    x: FloatArray,
    n_items: int,
    *,
    raw_score: bool = False,
    offset: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """What a booster over rows [x, first, second] predicts for every ordered pair.

    Parameters
    ----------
    booster : lightgbm.Booster or PairTrees
        Its last two features are the codes of the first and second item. Where it is asked again and again, as chunk by
        chunk, ``PairTrees.of(booster, n_items)`` prepares it once.
    x : ndarray, shape (n, p)
        Context features; equal contexts are scored once.
    n_items : int
        K.
    raw_score : bool
        Scores before the softmax or the logistic function; averages over the trees of a random forest.
    offset : ndarray, shape (n, K, K, C), optional
        Added to the scores before they become probabilities, such as main effects that the booster was trained on.
    n_jobs : int, optional
        Threads; all cores when None. Their number changes no bit.

    Returns
    -------
    ndarray, shape (n, K, K, C)
        Equal to ``Booster.predict`` on stacked rows, with zeros on the diagonal; C = 1 for a binary booster, whose
        prediction is the probability of the positive class.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> rows = np.random.default_rng(0).integers(0, 3, size=(300, 3)).astype(float)
    >>> data = lgb.Dataset(rows, (rows[:, 1] > rows[:, 2]).astype(int), categorical_feature=[1, 2])
    >>> booster = lgb.train({"objective": "multiclass", "num_class": 2, "verbosity": -1}, data, 10)
    >>> predict_all_pairs(booster, np.array([[0.0], [1.0]]), n_items=3).shape
    (2, 3, 3, 2)
    """
    pairs = booster if isinstance(booster, PairTrees) else PairTrees.of(booster, n_items)
    if pairs.n_items != n_items:
        raise ValueError(f"the booster was prepared for {pairs.n_items} items, not for {n_items}")
    if pairs.prepared is None:
        return _from_stacked_rows(pairs.booster, x, n_items, raw_score=raw_score, offset=offset, n_jobs=n_jobs)
    return _from_rectangles(pairs.prepared, x, n_items, raw_score=raw_score, offset=offset, n_jobs=n_jobs)


def _from_rectangles(
    prepared: Prepared, x: FloatArray, n_items: int, *, raw_score: bool, offset: FloatArray | None, n_jobs: int | None
) -> FloatArray:
    trees, branches = prepared.trees, prepared.branches
    if x.shape[1] + 2 != trees.n_features:
        raise ValueError(f"x has {x.shape[1]} features, the booster {trees.n_features - 2} and the two items")
    read = as_read(x[:, branches.features])
    distinct, place = distinct_rows(read)
    repeated = len(distinct) < len(x)
    by_place = np.argsort(place, kind="stable") if repeated else place
    table = np.empty((len(x), n_items, n_items, trees.link.n_outputs))
    link = None if raw_score else trees.link

    step = _contexts_at_once(len(distinct))

    def fill(start: int) -> None:
        stop = min(start + step, len(distinct))
        scores = scores_by_first(prepared.sums, branches_taken(trees, branches, read[distinct[start:stop]]))
        if repeated:
            rows = by_place[slice(*np.searchsorted(place[by_place], [start, stop]))]
            _write(table, rows, place[rows] - start, scores, link=link, offset=offset)
        else:
            # Slices are views; copies would cost as much as the softmax.
            _write(table, slice(start, stop), slice(stop - start), scores, link=link, offset=offset)

    starts = range(0, len(distinct), step)
    for _ in in_order(fill, starts, core_count(n_jobs)):
        pass
    return table


def _contexts_at_once(n: int) -> int:
    """Contexts in each of some parts of even size; whatever the number of threads, so that no bit depends on it."""
    parts = max(-(-n // _CONTEXTS), min(2, n // _FEW_CONTEXTS), 1)
    return max(1, -(-n // parts))


def _write(
    table: FloatArray,
    rows: IntArray | slice,
    place: IntArray | slice,
    by_first: Iterator[FloatArray],
    *,
    link: Link | None,
    offset: FloatArray | None,
) -> None:
    """Fill ``rows`` of the table from scores of distinct contexts, (C, n, K), at their ``place``."""
    for first, scores in enumerate(by_first):
        if offset is not None:
            own = scores[:, place] + np.moveaxis(offset[rows, first], 2, 0)
            table[rows, first] = np.moveaxis(own if link is None else link.probabilities(own), 0, 2)
        else:
            done = scores if link is None else link.probabilities(scores)
            table[rows, first] = np.moveaxis(done[:, place], 0, 2)
        table[rows, first, first] = 0.0


def distinct_rows(x: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows that stand for all equal ones, (d,), and for every row the place of its representative among them, (n,)."""
    bits = np.where(np.isnan(x), np.nan, x + 0.0).view(np.uint64)
    factors = np.random.default_rng(0).integers(2**64, size=bits.shape[1], dtype=np.uint64) | np.uint64(1)
    # Small whole numbers differ in their highest bits only, which a product of integers would lose.
    key = ((bits ^ (bits >> np.uint64(32))) * factors).sum(axis=1, dtype=np.uint64)
    _, distinct, place = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(bits[distinct[place]], bits):  # two unequal rows share a key
        _, distinct, place = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    # In the order of the rows.
    order = np.argsort(distinct)
    return distinct[order], np.argsort(order)[place.reshape(-1)]


def _from_stacked_rows(
    booster: RowPredictor,
    x: FloatArray,
    n_items: int,
    *,
    raw_score: bool,
    offset: FloatArray | None,
    n_jobs: int | None,
) -> FloatArray:
    distinct, place = distinct_rows(as_read(x))
    n_pairs = n_items * n_items - n_items
    step = max(1, min(_ROWS, _NUMBERS // (x.shape[1] + 2)) // max(n_pairs, 1))
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    # With offsets probabilities are made here; without them the booster knows best.
    raw = raw_score or offset is not None
    parts = [
        _stacked(booster, x[distinct[at : at + step]], (first, second), raw, n_jobs)
        for at in range(0, len(distinct), step)
    ]
    values = np.concatenate(parts)[place]
    if offset is not None:
        values = values + offset[:, first, second]
        if not raw_score:
            values = np.moveaxis(Link(values.shape[-1]).probabilities(np.moveaxis(values, -1, 0)), 0, -1)
    table = np.zeros((len(x), n_items, n_items, values.shape[-1]))
    table[:, first, second] = values
    return table


def _stacked(
    booster: RowPredictor, x: FloatArray, items: tuple[IntArray, IntArray], raw_score: bool, n_jobs: int | None
) -> FloatArray:
    n, pairs = len(x), len(items[0])
    rows = np.empty((n, pairs, x.shape[1] + 2), dtype=x.dtype)
    rows[:, :, :-2] = x[:, None]
    rows[:, :, -2], rows[:, :, -1] = items
    values = booster.predict(rows.reshape(n * pairs, -1), raw_score=raw_score, num_threads=n_jobs or 0)
    return np.asarray(values).reshape(n, pairs, -1)


def softmax_in_place(scores: FloatArray) -> FloatArray:
    """The softmax over the few entries of the last axis, in the memory of the scores."""
    top = scores[..., 0].copy()
    for c in range(1, scores.shape[-1]):
        np.maximum(top, scores[..., c], out=top)
    scores -= top[..., None]
    np.exp(scores, out=scores)
    total = scores[..., 0].copy()
    for c in range(1, scores.shape[-1]):
        total += scores[..., c]
    scores /= total[..., None]
    return scores

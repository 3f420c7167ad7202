"""Predictions for all ordered pairs of items of every context."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ..data.preferences import FloatArray

# Rows that are stacked for one call of Booster.predict: enough to keep the threads busy, small enough to stay in cache.
_ROWS = 200_000
# Numbers in such a stack, where rows are long.
_NUMBERS = 8_000_000


def predict_all_pairs(
    booster: lgb.Booster,
    x: FloatArray,
    n_items: int,
    raw_score: bool = False,
    offset: FloatArray | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """What a booster over rows [x, first, second] predicts for every ordered pair.

    Parameters
    ----------
    booster : lightgbm.Booster
        Its last two features are the codes of the first and second item.
    x : ndarray, shape (n, p)
        Context features; equal contexts are scored once.
    n_items : int
        K.
    raw_score : bool
        Scores before the softmax or the logistic function.
    offset : ndarray, shape (n, K, K, C), optional
        Added to the scores before they become probabilities, such as main effects that the booster was trained on.
    n_jobs : int, optional
        Threads; all cores when None.

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
    distinct, place = (x[:1], np.zeros(len(x), dtype=int)) if x.shape[1] == 0 else _distinct(x)
    pairs = n_items * n_items - n_items
    step = max(1, min(_ROWS, _NUMBERS // (x.shape[1] + 2)) // pairs)
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    blocks = (distinct[at : at + step] for at in range(0, len(distinct), step))
    parts = [_stacked(booster, block, first, second, n_jobs) for block in blocks]
    scores = np.concatenate(parts)[place]
    if offset is not None:
        scores = scores + offset[:, first, second]
    if not raw_score:
        scores = expit(scores) if scores.shape[-1] == 1 else softmax(scores, axis=-1)
    table = np.zeros((len(x), n_items, n_items, scores.shape[-1]))
    table[:, first, second] = scores
    return table


def _distinct(x: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    distinct, place = np.unique(x, axis=0, return_inverse=True, equal_nan=True)
    return distinct, place.reshape(-1)


def _stacked(
    booster: lgb.Booster, x: FloatArray, first: NDArray[np.intp], second: NDArray[np.intp], n_jobs: int | None
) -> FloatArray:
    n, pairs = len(x), len(first)
    rows = np.empty((n, pairs, x.shape[1] + 2), dtype=x.dtype)
    rows[:, :, :-2] = x[:, None]
    rows[:, :, -2], rows[:, :, -1] = first, second
    scores = np.asarray(booster.predict(rows.reshape(n * pairs, -1), raw_score=True, num_threads=n_jobs or 0))
    return scores.reshape(n, pairs, -1)

"""Predictions of scores from those of complete models, for plans of runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data.preferences import FloatArray, IntArray
from ..nuisance.style import context_design

# Penalties of the ridge regression of scores, in units of the variance of a regressor; the last one leaves the mean.
_PENALTIES = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 1e6])
# Quantiles of the mean of complete models' scores at which its curve bends.
_KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
# Number of rows by which chance may improve on the mean; see ridge_out_of_fold.
_CHANCE = 4.0
# Fewest scores of a model from which a regression is learnt; with fewer its mean is used.
_FEWEST_TO_REGRESS = 10
# Number of complete models, those with the closest scores, that say how a model with few scores does.
_N_ALIKE = 3


def closest(gaps: FloatArray) -> IntArray:
    """Return which complete models say how another model does, from the gaps between its score and theirs, (K,)."""
    return np.argsort(np.abs(gaps), kind="stable")[:_N_ALIKE]


def score_regressors(complete: FloatArray, x: FloatArray, seed_order: IntArray) -> FloatArray:
    """Return smooth features, scores of complete models and a curve of their mean, (n, q), to regress scores on."""
    columns = [complete]
    if complete.shape[1] > 1:
        # A curve of straight pieces: where models are much alike, success is nearly a step in the mean of the others.
        mean = complete.mean(axis=1, keepdims=True)
        knots = np.unique(np.quantile(mean, _KNOTS))
        columns.append(np.maximum(mean - knots, 0.0))
    if x.shape[1]:
        columns.append(context_design(x[np.argsort(seed_order)], x, 1)[:, 1:])
    return np.hstack(columns)


def ridge_out_of_fold(
    y: FloatArray,
    regressors: FloatArray,
    weight: FloatArray,
    *,
    fold: IntArray,
    n_folds: int,
    start: Callable[[IntArray], FloatArray] | None = None,
) -> FloatArray:
    """Predict y, (n,), from a ridge regression on the other folds, with the penalty of the least leave-one-out loss.

    Rows with a weight of zero are predicted, but not learnt from. The regression is of what a first prediction, (n,),
    leaves, which ``start`` returns for the rows that are learnt from. No prediction is outside the range of both.

    Shapes: regressors (n, q), weight, fold (n,).
    """
    fitted = np.zeros(len(y))
    for number in range(n_folds):
        is_held_out = fold == number
        used = np.flatnonzero((weight > 0) & (~is_held_out if n_folds > 1 else is_held_out))
        if not len(used):
            # No score of the model in any other fold: any number is valid, and zero is one.
            continue
        base, seen = np.zeros(len(y)), y[used]
        if start is not None:
            base = start(used)
            seen = np.append(seen, base)
        w = weight[used] / weight[used].sum()
        centre, mean = w @ regressors[used], float(w @ (y - base)[used])
        left, z = (y - base)[used] - mean, regressors[used] - centre
        scale = np.sqrt(w @ np.square(z))
        is_varying = scale > 1e-9
        found = base[is_held_out] + mean
        if is_varying.any() and len(used) >= _FEWEST_TO_REGRESS:
            z = z[:, is_varying] / scale[is_varying]
            values, vectors = np.linalg.eigh((z * w[:, None]).T @ z)
            turned, shrunk = z @ vectors, 1 / (np.maximum(values, 0)[:, None] + _PENALTIES)
            slopes = (w * left @ turned)[:, None] * shrunk
            leverage = w[:, None] * (1 + np.square(turned) @ shrunk)
            losses = w @ np.square((left[:, None] - turned @ slopes) / np.maximum(1 - leverage, 0.05))
            # Chance improves on the mean by a few rows in their effective number; regressors have to improve by more.
            if losses.min() < losses[-1] * (1 - _CHANCE * w @ w):
                rows = (regressors[is_held_out][:, is_varying] - centre[is_varying]) / scale[is_varying]
                found = found + rows @ (vectors @ slopes[:, losses.argmin()])
        fitted[is_held_out] = np.clip(found, seen.min(), seen.max())
    return fitted

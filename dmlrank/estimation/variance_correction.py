"""The variance correction: at a shrunken mu the second moment of the correction is too small and is increased.

mu is shrunken where regularisation moves its probabilities towards each other. J is the derivative of the functional,
and V the covariance of a label.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.base import Functional, LabelScore
from .cross_fitting import HeldOutLabels

# Length of a finite-difference step, relative to the smallest probability.
_STEP = 1e-3


def has_variance_correction(score: Functional, n_contexts: int, n_items: int) -> bool:
    """Whether the covariance of a score's correction depends on mu, and is cheap to compute."""
    return not (score.linear or isinstance(score, LabelScore)) and score.cheap(n_contexts, n_items)


def relative_label_variance(labels: HeldOutLabels, around: FloatArray | None = None) -> float:
    """Return the variance of the labels divided by the variance of one-hot labels with probabilities mu; at most one.

    The variance is the sum of the squared residuals. Residuals are taken around mu, or around other probabilities,
    ``around``, (m, C).
    """
    residual = labels.cells.y - (labels.mu if around is None else around)
    squares = float((labels.count[:, None] * np.square(residual)).sum())
    squares_of_one_hot = float((labels.count * (1 - np.square(labels.mu).sum(axis=1))).sum())
    return min(squares / max(squares_of_one_hot, 1e-300), 1.0)


def pair_variance_scale(
    labels: HeldOutLabels, propensity: FloatArray, data: PreferenceData, *, relative_variance: float | None = None
) -> FloatArray:
    """Return the mean of 1 / pi over contexts by ordered pair, (K, K), times the relative variance of a label.

    The mean of 1 / pi is estimated by the mean of S / pi^2, which needs the propensities of labelled pairs only. Labels
    that are means of several votes, or soft, have a smaller variance than one-hot labels with the same probabilities.
    With a judge, the variance of the labels around m = P(Y | x, verdict) is smaller still and has to be passed.

    Where display order does not matter, a pair has one entry, above the diagonal. A label then moves the probabilities
    of both orders, which doubles the correction and multiplies its second moment by 4.

    Shapes: propensity (m,).
    """
    cells, n_items = labels.cells, data.n_items
    relative_variance = relative_label_variance(labels) if relative_variance is None else relative_variance
    pair = cells.first * n_items + cells.second
    mean = np.bincount(pair, weights=labels.count / propensity**2, minlength=n_items**2) / data.n_contexts
    return mean.reshape(n_items, n_items) * relative_variance * (1 if data.ordered else 4)


def variance_correction(
    score: Functional, mu: FloatArray, delta: FloatArray, scale: FloatArray, context_weight: FloatArray
) -> FloatArray:
    """Estimate the first-order change of the correction's second moment if J were taken at the true mu, (d, d).

    The mean of phi phi' contains the true covariance of the labels, through the residuals, but the derivative J = DF at
    the fitted mu. Where mu is shrunken, J is too small, and so are the standard errors. The second moment
    sum_jk J V J' / pi is a functional of the mu in J, and has a one-step correction: its derivative along
    delta = S / pi (Y - mu), whose expectation given the context is the true minus the fitted mu. The derivative is
    computed as a central difference.

    Shapes: mu (b, K, K, C), delta (b, K, K, C), scale (K, K), context_weight (b,), returns (d, d).
    """
    largest = np.abs(delta).max(axis=(1, 2, 3))
    nonzero = np.flatnonzero(largest > 0)
    fitted, direction = mu[nonzero], delta[nonzero]
    smallest = np.where(fitted > 0, fitted, 1.0).min(axis=(1, 2, 3))
    step = _STEP * smallest / largest[nonzero]
    amount = (context_weight[nonzero] ** 2 / (2 * step))[:, None, None] * scale
    change = step[:, None, None, None] * direction
    # V stays at the fitted mu: the residuals contain the true covariance of the labels already.
    return score.accumulate(fitted + change, amount, fitted) - score.accumulate(fitted - change, amount, fitted)


def local_variance_correction(
    score: Functional,
    mu: FloatArray,
    delta: FloatArray,
    weight: FloatArray,
    pairs: tuple[IntArray, IntArray, int],
) -> FloatArray:
    """Compute :func:`variance_correction`, (d, d), for a score whose J at a pair depends on mu at the same pair only.

    The sum over pairs is then a sum over labelled cells.

    Shapes: mu (m, C), delta (m, C), weight (m,).
    """
    # Category by category, because the maximum over a short last axis takes several times as long.
    largest = reduce(np.maximum, np.abs(delta).T)
    nonzero = np.flatnonzero(largest > 0)
    fitted = mu[nonzero]
    nonzero_pairs = (pairs[0][nonzero], pairs[1][nonzero], pairs[2])
    step = _STEP * reduce(np.minimum, np.where(fitted > 0, fitted, 1.0).T) / largest[nonzero]
    amount, change = weight[nonzero] / (2 * step), step[:, None] * delta[nonzero]
    above = score.accumulate_at(fitted + change, amount, fitted, *nonzero_pairs)
    return above - score.accumulate_at(fitted - change, amount, fitted, *nonzero_pairs)

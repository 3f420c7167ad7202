"""The variance correction: by how much a shrunken mu makes the second moment of the correction too small."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from ..data.preferences import FloatArray, PreferenceData
from ..functionals.base import is_linear
from ..functionals.protocols import OrderedPairs
from .cross_fitting import HeldOutLabels

# Length of a finite-difference step, as a share of the smallest probability.
_STEP = 1e-3


@runtime_checkable
class CorrectionCovariance(Protocol):
    """A functional that knows the covariance of its correction in closed form."""

    @property
    def interior(self) -> bool:
        """Whether it has a logit or a division."""
        ...

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J', J at ``mu``, V that of a label with probabilities ``labels``."""
        ...


def knows_correction_covariance(score: object, n_contexts: int, n_items: int) -> bool:
    """Whether a score's covariance depends on mu and is known at a cost that is still small."""
    cheap = getattr(score, "cheap", None)
    return (
        isinstance(score, CorrectionCovariance)
        and not is_linear(score)
        and (cheap is None or cheap(n_contexts, n_items))
    )


@runtime_checkable
class LocalCorrectionCovariance(Protocol):
    """A local score, see :class:`dmlrank.functionals.base.PairLocalScore`, that knows its correction's covariance."""

    def accumulate_at(self, mu: FloatArray, amount: FloatArray, labels: FloatArray, pairs: OrderedPairs) -> FloatArray:
        """Sum of amount J V J' over given pairs, J at ``mu``, V that of a label with probabilities ``labels``."""
        ...


def label_spread(labels: HeldOutLabels, around: FloatArray | None = None) -> float:
    """Squared residuals of labels as a share of those of one-hot labels with their probabilities; at most one.

    Residuals are taken around mu, or around other probabilities, (m, C).
    """
    times = labels.count[:, None]
    residual = labels.cells.y - (labels.mu if around is None else around)
    most = float((labels.count * (1 - np.square(labels.mu).sum(axis=1))).sum())
    return min(float((times * np.square(residual)).sum()) / max(most, 1e-300), 1.0)


def pair_variance_scale(
    labels: HeldOutLabels, propensity: FloatArray, data: PreferenceData, *, spread: float | None = None
) -> FloatArray:
    """Mean of 1 / pi over all contexts by pair, (K, K), times the spread of a label as a share of the model's.

    The mean of 1 / pi is estimated by that of S / pi^2, which asks for no propensity that is not known. Labels that
    are means of several votes, or soft, spread less than one-hot labels would, and less still around the probabilities
    given a judge's verdict, for which there is ``spread``.
    Where order does not matter a pair has one place, above the diagonal, and its label acts through both orders.

    Parameters
    ----------
    labels : HeldOutLabels
        All labelled cells, by themselves or by pair.
    propensity : ndarray, shape (m,)
        pi at these cells.
    data : PreferenceData
    spread : float, optional
        That of the labels around mu when None; see :func:`label_spread`.
    """
    cells, n_items = labels.cells, data.n_items
    spread = label_spread(labels) if spread is None else spread
    pair = cells.first * n_items + cells.second
    mean = np.bincount(pair, weights=labels.count / propensity**2, minlength=n_items**2) / data.n_contexts
    return mean.reshape(n_items, n_items) * spread * (1 if data.ordered else 4)


def variance_correction(
    score: CorrectionCovariance, mu: FloatArray, delta: FloatArray, scale: FloatArray, population: FloatArray
) -> FloatArray:
    """First-order change of the correction's second moment as J moves from the fitted mu to the true one, (d, d).

    The mean of phi phi' holds the labels' true covariance, for residuals are real, but J = DF at the fitted mu. Where
    mu is shrunk, J is too small, and so are standard errors. The second moment sum_jk J V J' / pi is a functional of
    the mu in J like any other: its derivative along delta = S / pi (Y - mu), whose expectation given the context is
    the true minus the fitted mu, is its one-step correction. The derivative is a central difference.

    Parameters
    ----------
    score : CorrectionCovariance
    mu, delta : ndarray, shape (b, K, K, C)
    scale : ndarray, shape (K, K)
        See :func:`pair_variance_scale`.
    population : ndarray, shape (b,)
        Weights of the contexts, with mean one over all of them.

    Returns
    -------
    ndarray, shape (d, d)
        Summed over the contexts.
    """
    largest = np.abs(delta).max(axis=(1, 2, 3))
    moving = np.flatnonzero(largest > 0)
    labels, along = mu[moving], delta[moving]
    smallest = np.where(labels > 0, labels, 1.0).min(axis=(1, 2, 3))
    step = _STEP * smallest / largest[moving]
    amount = (population[moving] ** 2 / (2 * step))[:, None, None] * scale
    by = step[:, None, None, None] * along
    return score.accumulate(labels + by, amount, labels) - score.accumulate(labels - by, amount, labels)


def local_variance_correction(
    score: LocalCorrectionCovariance, mu: FloatArray, delta: FloatArray, weight: FloatArray, pairs: OrderedPairs
) -> FloatArray:
    """The same, (d, d), where J at a pair depends on that pair's mu alone: summed over labelled cells only.

    Parameters
    ----------
    mu, delta : ndarray, shape (m, C)
    weight : ndarray, shape (m,)
        :func:`pair_variance_scale` of each cell's pair, times the squared weight of its context.
    pairs : OrderedPairs
        The pair of each cell.
    """
    largest = np.abs(delta).max(axis=1)
    moving = np.flatnonzero(largest > 0)
    labels, at = mu[moving], OrderedPairs(pairs.first[moving], pairs.second[moving], pairs.n_items)
    step = _STEP * np.where(labels > 0, labels, 1.0).min(axis=1) / largest[moving]
    amount, by = weight[moving] / (2 * step), step[:, None] * delta[moving]
    return score.accumulate_at(labels + by, amount, labels, at) - score.accumulate_at(labels - by, amount, labels, at)

"""How far a shrunken mu makes standard errors too small."""

from __future__ import annotations

from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals.base import is_linear

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
    """A local score, see :class:`dmlrank.functionals.base.Local`, that knows its correction's covariance."""

    def accumulate_at(
        self, mu: FloatArray, amount: FloatArray, labels: FloatArray, *, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Sum of amount J V J' over given pairs, J at ``mu``, V that of a label with probabilities ``labels``."""
        ...


def label_spread(mu: FloatArray, residual: FloatArray, count: IntArray | None = None) -> float:
    """Squares of residuals, (m, C), as a share of those of one-hot labels with probabilities ``mu``; at most one.

    ``count`` says how many cells each stands for.
    """
    times = 1 if count is None else count[:, None]
    most = float((np.ravel(times) * (1 - np.square(mu).sum(axis=1))).sum())
    return min(float((times * np.square(residual)).sum()) / max(most, 1e-300), 1.0)


def pair_variance_scale(
    mu: FloatArray,
    data: PreferenceData,
    propensity: FloatArray,
    spread: float | None = None,
    cells: Cells | None = None,
    count: IntArray | None = None,
) -> FloatArray:
    """Mean of 1 / pi over all contexts by pair, (K, K), times the spread of a label as a share of the model's.

    The mean of 1 / pi is estimated by that of S / pi^2, which asks for no propensity that is not known. Labels that
    are means of several votes, or soft, spread less than one-hot labels with probabilities ``mu``, (m, C), would, and
    less still around what a judge's verdict makes of them, for which there is ``spread``.
    Where order does not matter a pair has one place, above the diagonal, and its label acts through both orders.
    ``cells`` are all labelled ones, or such that each stands for ``count`` equal ones, with their propensities.
    """
    cells, n_items = data.cells if cells is None else cells, data.n_items
    spread = label_spread(mu, cells.y - mu, count) if spread is None else spread
    pair = cells.first * n_items + cells.second
    squares = (1 if count is None else count) / propensity**2
    mean = np.bincount(pair, weights=squares, minlength=n_items**2) / data.n_contexts
    return mean.reshape(n_items, n_items) * spread * (1 if data.ordered else 4)


def variance_correction(
    score: CorrectionCovariance, mu: FloatArray, delta: FloatArray, worth: FloatArray, population: FloatArray
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
    worth : ndarray, shape (K, K)
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
    amount = (population[moving] ** 2 / (2 * step))[:, None, None] * worth
    by = step[:, None, None, None] * along
    return score.accumulate(labels + by, amount, labels) - score.accumulate(labels - by, amount, labels)


def local_variance_correction(
    score: LocalCorrectionCovariance,
    mu: FloatArray,
    delta: FloatArray,
    weight: FloatArray,
    first: IntArray,
    second: IntArray,
    n_items: int,
) -> FloatArray:
    """The same, (d, d), where J at a pair depends on that pair's mu alone: summed over labelled cells only.

    Parameters
    ----------
    mu, delta : ndarray, shape (m, C)
    weight : ndarray, shape (m,)
        :func:`pair_variance_scale` of each cell's pair, times the squared weight of its context.
    first, second : ndarray of int, shape (m,)
    """
    largest = np.abs(delta).max(axis=1)
    moving = np.flatnonzero(largest > 0)
    labels = mu[moving]
    covariance_at = partial(score.accumulate_at, first=first[moving], second=second[moving], n_items=n_items)
    step = _STEP * np.where(labels > 0, labels, 1.0).min(axis=1) / largest[moving]
    amount, by = weight[moving] / (2 * step), step[:, None] * delta[moving]
    return covariance_at(labels + by, amount, labels) - covariance_at(labels - by, amount, labels)

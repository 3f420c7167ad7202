"""The protocol of a ranking functional, and its gauge: the combinations of scores that the functional fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """Linear combinations of scores that are constant whatever the data say, and the reason.

    The gauge of a functional fixes the level of the scores, for example by a sum of zero.

    Parameters
    ----------
    basis : ndarray, shape (g, K)
        Coefficients of the g combinations as orthonormal rows. There are no rows where every score is identified by
        itself.
    reason : str
        Sentence that explains the combinations in a summary, such as "scores sum to 0, so only differences between
        models are identified".

    Examples
    --------
    >>> gauge = Gauge.spanned_by([[1.0, 1.0]], "scores sum to 0")
    >>> gauge.basis.round(3)
    array([[0.707, 0.707]])
    >>> gauge.fixed
    array([False, False])
    """

    basis: FloatArray
    reason: str

    @classmethod
    def spanned_by(cls, directions: ArrayLike, reason: str) -> Gauge:
        """Return the gauge of g linearly independent combinations of scores, after making them orthonormal.

        Parameters
        ----------
        directions : array_like, shape (g, K)
            Coefficients of each combination.
        reason : str
            Sentence that explains the combinations in a summary.

        Returns
        -------
        Gauge
            The gauge, whose basis spans the same combinations.

        Examples
        --------
        >>> Gauge.spanned_by([[3.0, 4.0]], "an example").basis
        array([[0.6, 0.8]])
        """
        rows = np.atleast_2d(np.asarray(directions, dtype=float))
        columns, upper = np.linalg.qr(rows.T)
        return cls(np.sign(np.diag(upper))[:, None] * columns.T, reason)

    @classmethod
    def none(cls, n_items: int) -> Gauge:
        """Return the gauge of a functional that fixes no combination: every score is identified by itself.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The gauge, whose basis has no rows.
        """
        return cls(np.empty((0, n_items)), "the functional fixes no combination of the scores")

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Which items have a constant score, (K,): its standard error is zero by construction."""
        return np.asarray(np.square(self.basis).sum(axis=0) > 1 - 1e-9)


class Functional(Protocol):
    """A ranking functional F(mu), with its directional derivative and the variance that labels contribute.

    ``mu`` holds category probabilities in n contexts, (n, K, K, C), where ``[:, j, k]`` is about item j shown first and
    item k shown second. Scores are (n, K).

    Methods that describe the contribution of a label use two matrices for every context and ordered pair: J, the
    Jacobian of the scores in the category probabilities of the pair, (K, C), and V, the covariance of a label, (C, C).

    Parameters
    ----------
    *args, **kwargs : object
        Not used: a protocol is not instantiated.

    Examples
    --------
    >>> from dmlrank.functionals import Borda, CategoryWeights
    >>> functional = Borda().bind(weights=CategoryWeights.half(2))
    >>> functional.name, functional.neutral(n_items=3)
    ('borda', 0.5)
    """

    @property
    def name(self) -> str:
        """Name for the option ``functional=``."""
        ...

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        ...

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be clipped at a floor above 0, because the functional has a logit or a division."""
        ...

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Functional:
        """Return a copy of the functional in which the arguments replace settings that are None.

        Parameters
        ----------
        weights : CategoryWeights, optional
            Used if the functional has no category weights yet.
        graph : Graph, optional
            Used if the functional has no graph yet.
        edge_weights : ndarray, shape (K, K), optional
            Used if the functional has no edge weights yet.

        Returns
        -------
        Functional
            The copy.
        """
        ...

    def neutral(self, n_items: int) -> float | None:
        """Return the score of an item that is as good as the other items.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        float or None
            The score; None where it depends on the data.
        """
        ...

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores of the items.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K)
            Scores of the items in each context.
        """
        ...

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative of the scores at ``mu`` along ``delta``.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        ndarray, shape (n, K)
            Directional derivative of the scores in each context.
        """
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores and their directional derivative at ``mu`` along ``delta``.

        Computations that :meth:`value` and :meth:`derivative` have in common are made once.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        scores : ndarray, shape (n, K)
            Scores of the items in each context.
        derivative : ndarray, shape (n, K)
            Directional derivative of the scores in each context.
        """
        ...

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the variance that one label of each ordered pair contributes to the scores.

        This is the trace of M J V J'. J is the Jacobian of the scores in the category probabilities of the pair, V the
        covariance of a label with probabilities ``mu``, and M the metric.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        metric : ndarray, shape (K, K), optional
            Positive semidefinite matrix M; the identity by default.

        Returns
        -------
        ndarray, shape (n, K, K)
            The trace for each context and ordered pair; zero for pairs off the graph.
        """
        ...

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs.

        J is the Jacobian of the scores in the category probabilities of the pair at ``mu``, and V the covariance of a
        label. With the inverse propensities as amounts, the sum is the contribution of the labels to the covariance of
        the scores.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        amount : ndarray, shape (n, K, K)
            Factor of each context and ordered pair, for example the inverse propensity.
        labels : ndarray, shape (n, K, K, C), optional
            Category probabilities of the labels, from which V is computed; ``mu`` by default.

        Returns
        -------
        ndarray, shape (K, K)
            The sum, a symmetric matrix.
        """
        ...

    def gauge(self, n_items: int) -> Gauge:
        """Return the combinations of scores that the functional fixes.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The combinations of scores that are constant, and the reason.
        """
        ...


def is_linear(functional: object) -> bool:
    """Return whether a functional is linear in ``mu``.

    The attribute ``linear`` of the functional says so. A functional without this attribute is taken as linear if ``mu``
    need not be clipped at a floor (``interior`` is false).
    """
    return bool(getattr(functional, "linear", not getattr(functional, "interior", True)))


def output_names(functional: object, items: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a functional's outputs: the items, unless the functional has its own names."""
    names = getattr(functional, "names", None)
    return tuple(items) if names is None else tuple(names(items))


@runtime_checkable
class PairLocalScore(Protocol):
    """A score whose derivative in the probabilities of a pair depends on the probabilities of this pair alone.

    The debiased estimator adds a correction to F(mu): the derivative of the score along the residuals of the labels,
    weighted by 1 / propensity. For such a score, the correction needs mu at the labelled pairs only, not at all pairs
    of every context.
    """

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores, (n, d)."""
        ...

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, d), along directions that are zero except at one ordered pair each.

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        ...


@runtime_checkable
class PairAdditiveScore(PairLocalScore, Protocol):
    """A score F(mu) that is a constant plus a sum over ordered pairs of a direction d_jk times a term t(mu_jk).

    The term t(mu_jk) is a number that depends on the probabilities of one ordered pair alone, and increases with the
    preference for the item shown first. The direction d_jk does not depend on mu. A linear combination c of the scores
    therefore increases with the term of a pair if c'd_jk is positive, and decreases if c'd_jk is negative.
    """

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be clipped at a floor."""
        ...

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Return the directions d_jk, (K, K, K); None where the score has no such form."""
        ...

    def pair_terms(self, mu: FloatArray) -> FloatArray:
        """Return the terms t(mu_jk), (n, K, K), from probabilities ``mu``, (n, K, K, C)."""
        ...

    def pair_term_changes(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of the terms along ``delta``, (n, K, K)."""
        ...

    def pair_term_changes_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative of the term of one ordered pair each, (r,).

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        ...


@runtime_checkable
class PairDerivativeScore(Protocol):
    """A score with a fast derivative at one mu along many directions, each of which is zero except at one pair."""

    def derivative_along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the derivative, (r, d), along directions that are zero except at one ordered pair each.

        Shapes: mu (K, K, C), delta (r, C), first, second (r,).
        """
        ...


def symmetric_metric(metric: FloatArray | None, n_items: int) -> FloatArray:
    """Return the symmetric part of a metric, (K, K); by default the identity."""
    if metric is None:
        return np.eye(n_items)
    if metric.shape != (n_items, n_items):
        raise OptionError(f"metric has shape {metric.shape}; allowed for these scores: {(n_items, n_items)}")
    return (metric + metric.T) / 2

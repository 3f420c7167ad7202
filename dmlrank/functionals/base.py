"""The base class of ranking functionals, and the gauge: combinations of scores that are constant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import array_of_numbers, check_type, must_be
from ..data.arrays import BoolArray
from ..data.graph import Graph
from ..data.outcomes import CategoryWeights, exchanged_wins, in_other_order
from ..data.preferences import FloatArray, IntArray
from ..exceptions import GraphError, OptionError, shown

# Largest change of a probability in a finite-difference step, as a share of this probability, where the functional has
# a logit or a division.
_STEP = 1e-4
# Largest change where the functional has neither, whatever the probabilities. Take two differences, one inside the
# other, of a function that changes on a scale s. Its relative error from the change h is near h^2 / (3 s^2), and that
# from rounding probabilities near e s / h^2, with e = 1e-16. Their sum is smallest at h = (3 e s^3)^(1/4), which is
# 2e-5 at s = 0.1. A share of a probability near 0 would let the second error grow without limit.
SMALL_CHANGE = 2e-5
# Entries of the tables that are in memory at a time where a derivative needs a table for every direction.
_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """Linear combinations of scores that are constant whatever the data say, such as their sum, and the reason.

    Parameters
    ----------
    basis : ndarray, shape (g, K)
        Coefficients of the g combinations as orthonormal rows; no rows where every score is identified by itself.
    reason : str
        Sentence that explains the combinations in a summary, such as "scores sum to 0".

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
        """
        rows = np.atleast_2d(np.asarray(directions, dtype=float))
        if np.linalg.matrix_rank(rows) < len(rows):
            raise OptionError(f"{len(rows)} combinations are said to be constant, and they are not independent rows")
        columns, upper = np.linalg.qr(rows.T)
        return cls(np.sign(np.diag(upper))[:, None] * columns.T, reason)

    @classmethod
    def none(cls, n_items: int) -> Gauge:
        """Return the gauge of a functional that fixes no combination.

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


class Functional(ABC):
    """A ranking functional F(mu), with its directional derivative and the variance that labels contribute.

    ``mu`` holds category probabilities in n contexts, (n, K, K, C), where ``[:, j, k]`` is about item j shown first and
    item k shown second. Scores are (n, d); d is K unless :meth:`names` says otherwise.

    A functional is a subclass with a method :meth:`value`. All other methods have defaults: the derivative is a central
    difference of two calls of :meth:`value`, no combination of scores is constant, and the scores are those of the
    items. A subclass overrides what it knows better. Methods that describe the contribution of a label use two matrices
    for every context and ordered pair: J, the Jacobian of the scores in the category probabilities of the pair, (d, C),
    and V, the covariance of a label, (C, C).

    Attributes
    ----------
    name : str
        Name for the option ``functional=`` and in results; another one than those of built-in functionals.
    interior : bool
        Whether ``mu`` is clipped at a floor, for a logit or a division. If not, numbers just outside [0, 1] occur.
    linear : bool
        Whether the functional is linear in ``mu``.
    weights, graph, edge_weights : CategoryWeights, Graph, ndarray of shape (K, K), or None
        How much each category counts, the compared pairs (None: every pair) and their weights; see :meth:`bind`.
    apart : ndarray, shape (K,), or None
        Items that count in no score but their own, for functionals that can set them apart.
    of_scores, takes_edge_weights : bool
        Whether it is a mean of scores, and no functional of preferences; whether pairs can be weighted.
    link : {None, "identity", "logit"}
        Link of the preferences in which the scores are linear; scores with a logit are log-odds.
    limits : tuple of float
        Smallest and largest possible score, to which a fit clips estimates: only for scores that are linear shares.
    uses_shares, pair_local : bool
        Whether ``mu`` enters through the weighted preferences of each pair alone; whether the derivative in the
        probabilities of a pair depends on these alone, so that there is a method :meth:`derivative_at`.
    gauge_is_known, ignores_opponents : bool
        Whether the gauge is known from theory, or else compared with the covariance; whether scores do not take into
        account how strong opponents are, so that a fit warns of missing pairs.
    says_fixed : str
        What a user writes to say that combinations of scores are constant; ``{}`` is an array of their coefficients.
    meaning, in_short, meaning_of_grades : str
        Sentences about a score of a built-in functional, the second in a few words, the third with labels that are
        grades; ``{n_models}`` is "8 models", ``{opponents}`` "the other 7 models".

    Examples
    --------
    >>> import numpy as np
    >>> from dmlrank.functionals import CategoryWeights, Functional
    >>> class BestCase(Functional):
    ...     name = "best_case"
    ...
    ...     def value(self, mu):
    ...         return np.log(np.exp(self.category_weights.symmetric(mu)).mean(axis=2))
    >>> functional = BestCase().bind(weights=CategoryWeights.half(2))
    >>> functional.value(np.full((1, 3, 3, 2), 0.5)).round(3)
    array([[0.5, 0.5, 0.5]])
    """

    name: str = "custom"
    interior: bool = True
    linear: bool = False
    weights: CategoryWeights | None = None
    graph: Graph | None = None
    edge_weights: FloatArray | None = None
    apart: BoolArray | None = None
    of_scores: ClassVar[bool] = False
    takes_edge_weights: ClassVar[bool] = False
    link: ClassVar[Literal["identity", "logit"] | None] = None
    limits: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    uses_shares: ClassVar[bool] = False
    pair_local: ClassVar[bool] = False
    gauge_is_known: ClassVar[bool] = False
    ignores_opponents: ClassVar[bool] = False
    says_fixed: ClassVar[str] = "so in the method gauge(), which returns Gauge.spanned_by({}, 'the reason')"
    meaning: ClassVar[str] = ""
    in_short: ClassVar[str] = ""
    meaning_of_grades: ClassVar[str] = "The share of a pair that a model wins is the mean worth of the pair's labels."

    def __post_init__(self) -> None:
        """Check the settings."""
        check_type(f"{self.name}: weights", self.weights, CategoryWeights | None, "CategoryWeights.half(3), or None")
        check_type(f"{self.name}: graph", self.graph, Graph | None, "Graph.of([(0, 1)], n_items=2), or None")
        if self.apart is not None:
            object.__setattr__(self, "apart", np.asarray(self.apart))
            must_be(lambda apart: apart.dtype == bool and apart.ndim == 1, "a truth value for each item")(
                "apart", self.apart
            )
        if self.takes_edge_weights and self.edge_weights is not None:
            numbers = array_of_numbers(self.edge_weights, 2)
            is_matrix = (
                numbers is not None and numbers.shape == numbers.T.shape and ((numbers >= 0) & (numbers < np.inf)).all()
            )
            if numbers is None or not is_matrix or not np.allclose(numbers, numbers.T):
                raise OptionError(
                    f"edge_weights={shown(self.edge_weights)}; allowed: a symmetric matrix of numbers of at least 0"
                )
            matrix = (numbers + numbers.T) / 2
            matrix.setflags(write=False)
            object.__setattr__(self, "edge_weights", matrix)

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return self.name

    @property
    def category_weights(self) -> CategoryWeights:
        """The category weights; an error where :meth:`bind` has not set them."""
        if self.weights is None:
            raise OptionError(
                f"{self.name} has no category weights yet; pass weights=CategoryWeights.half(C), or call bind()"
            )
        return self.weights

    def bind(
        self, weights: CategoryWeights | None = None, graph: Graph | None = None, edge_weights: FloatArray | None = None
    ) -> Self:
        """Return a copy of the functional in which the arguments replace settings that are None.

        Parameters
        ----------
        weights : CategoryWeights, optional
            How much each category counts.
        graph : Graph, optional
            The compared pairs.
        edge_weights : ndarray, shape (K, K), optional
            Weights of the pairs; an :class:`OptionError` where the functional takes none.

        Returns
        -------
        Functional
            The copy.
        """
        if edge_weights is not None and not self.takes_edge_weights:
            raise OptionError(f"{self.name} takes no edge weights; leave edge_weights out")
        bound = copy(self)
        for name, value in (("weights", weights), ("graph", graph), ("edge_weights", edge_weights)):
            if getattr(self, name) is None:
                object.__setattr__(bound, name, value)
        bound.__post_init__()
        return bound

    def neutral(self, n_items: int) -> float | None:
        """Return the score of an item that is as good as the other items, with which tests compare scores.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        float or None
            The score; None where it depends on the data.
        """
        return None

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the scores.

        Parameters
        ----------
        items : sequence of str
            Names of the K items.

        Returns
        -------
        tuple of str
            One name for each of the d scores; by default the items.
        """
        return tuple(items)

    @abstractmethod
    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, d)
            Scores in each context.
        """

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative of the scores at ``mu`` along ``delta``.

        The default is a central difference of two calls of :meth:`value`. No probability changes by more than a
        ten-thousandth of itself if ``interior``, and by more than 2e-5 if not.

        Parameters
        ----------
        mu, delta : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`, and the direction in which they change.

        Returns
        -------
        ndarray, shape (n, d)
            Directional derivative of the scores in each context.
        """
        return central_differences(self.value, mu, delta, self.interior)

    def second_derivative(self, mu: FloatArray, delta: FloatArray, other: FloatArray) -> FloatArray:
        """Return the second derivative of the scores at ``mu``, along ``delta`` and along ``other``.

        The default is zero for a functional that is linear, elsewhere a central difference of :meth:`derivative`.

        Parameters
        ----------
        mu, delta, other : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`, and two directions in which they change.

        Returns
        -------
        ndarray, shape (n, d)
            Second derivative of the scores in each context.
        """
        if self.linear:
            return np.zeros_like(self.value(mu))
        return central_differences(lambda at: self.derivative(at, delta), mu, other, self.interior)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores and their directional derivative at ``mu`` along ``delta``.

        Parameters
        ----------
        mu, delta : ndarray, shape (n, K, K, C)
            As for :meth:`derivative`.

        Returns
        -------
        tuple of ndarray, shapes (n, d)
            What :meth:`value` and :meth:`derivative` return.
        """
        return self.value(mu), self.derivative(mu, delta)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative of a pair-local functional along directions that change one ordered pair each.

        Parameters
        ----------
        mu, delta : ndarray, shape (r, C)
            Category probabilities of r ordered pairs, and the change of each.
        first, second : ndarray of int, shape (r,)
            Codes of the two items of each pair.
        n_items : int
            Number of items, K.

        Returns
        -------
        ndarray, shape (r, d)
            Derivative of the scores along each direction.
        """
        raise NotImplementedError

    def derivative_along(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        """Return the derivative at one table of probabilities along directions that change one pair each.

        Parameters
        ----------
        table : ndarray, shape (K, K, C)
            Category probabilities of all pairs in one context.
        delta, first, second : ndarray, shapes (r, C), (r,), (r,)
            The change of each ordered pair, and its two items.
        ordered : bool
            If false, the other order of the pair changes, too, with the wins exchanged.

        Returns
        -------
        ndarray, shape (r, d)
            Derivative of the scores along each direction.
        """
        if self.pair_local:
            change = self.derivative_at(table[first, second], delta, first, second, len(table))
            if ordered:
                return change
            flip = exchanged_wins(delta.shape[1])
            return change + self.derivative_at(table[second, first], delta[:, flip], second, first, len(table))
        return at_tables(self.derivative, table, delta, first, second, ordered=ordered)

    def second_derivative_along(
        self,
        table: FloatArray,
        delta: FloatArray,
        other: FloatArray,
        first: IntArray,
        second: IntArray,
        *,
        ordered: bool = True,
    ) -> FloatArray:
        """Return the second derivative at one table along directions that change one pair each, and another one.

        Parameters
        ----------
        table, delta : ndarray, shapes (K, K, C), (r, C)
            As for :meth:`derivative_along`.
        other : ndarray, shape (K, K, C)
            The other direction, which may change all pairs.
        first, second, ordered : ndarray, ndarray, bool
            As for :meth:`derivative_along`.

        Returns
        -------
        ndarray, shape (r, d)
            Second derivative of the scores for each direction.
        """
        if not self.has_fast_pairs:

            def along(tables: FloatArray, directions: FloatArray) -> FloatArray:
                return self.second_derivative(tables, directions, np.broadcast_to(other, directions.shape))

            return at_tables(along, table, delta, first, second, ordered=ordered)
        step = float(difference_step(table[None], other[None], self.interior)[0])
        above, below = (
            self.derivative_along(table + shift * other, delta, first, second, ordered=ordered)
            for shift in (step, -step)
        )
        return (above - below) / (2 * step)

    @property
    def has_fast_pairs(self) -> bool:
        """Whether :meth:`derivative_along` takes no table of probabilities for every direction."""
        return self.pair_local or type(self).derivative_along is not Functional.derivative_along

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the variance that one label of each ordered pair contributes to the scores: the trace of M J V J'.

        J is the Jacobian of the scores in the category probabilities of the pair, V the covariance of a label with
        probabilities ``mu``, and M the metric.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`.
        metric : ndarray, shape (d, d), optional
            Positive semidefinite matrix M; the identity by default.

        Returns
        -------
        ndarray, shape (n, K, K)
            The trace for each context and ordered pair; zero for pairs off the graph.
        """
        directions = self.label_directions(mu.shape[1])
        if directions is not None:
            scale = symmetric_metric(metric, mu.shape[1])
            squared_lengths = np.einsum("jka,ab,jkb->jk", directions, scale, directions, optimize=True)
            return self.label_variances(mu) * np.maximum(squared_lengths, 0)
        total, scale = np.zeros(mu.shape[:3]), symmetric_metric(metric, self.value(mu[:1]).shape[1])
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            total[:, j, k] = np.einsum("nab,ab->n", self.label_covariances(mu, j, k), scale)
        return np.maximum(total, 0.0)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs, with J and V of :meth:`information`.

        With inverse propensities as amounts, this is the contribution of the labels to the covariance of the scores.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`.
        amount : ndarray, shape (n, K, K)
            Factor of each context and ordered pair.
        labels : ndarray, shape (n, K, K, C), optional
            Category probabilities of the labels, from which V is computed; ``mu`` by default.

        Returns
        -------
        ndarray, shape (d, d)
            The sum, a symmetric matrix.
        """
        n_scores = self.value(mu[:1]).shape[1]
        total, label_mean = np.zeros((n_scores, n_scores)), mu if labels is None else labels
        amount = np.broadcast_to(amount, mu.shape[:3])
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            total += np.tensordot(amount[:, j, k], self.label_covariances(mu, j, k, label_mean), 1)
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def accumulate_at(
        self, mu: FloatArray, amount: FloatArray, labels: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return :meth:`accumulate` of a pair-local functional that is not linear, from r ordered pairs.

        Parameters
        ----------
        mu, amount, labels : ndarray, shapes (r, C), (r,), (r, C)
            Category probabilities of the pairs, at which J is computed; factors; probabilities of a label.
        first, second, n_items : ndarray, ndarray, int
            As for :meth:`derivative_at`.

        Returns
        -------
        ndarray, shape (d, d)
            The sum, a symmetric matrix.
        """
        raise NotImplementedError

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Return the direction d in which a label of each ordered pair moves the scores, so that J V J' = v d d'.

        The variance v is that of :meth:`label_variances`. The scores are a constant plus the sum over ordered pairs of
        d times a term: the preference for the item shown first, or its log-odds less those of the other item's.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        ndarray, shape (K, K, K), or None
            The direction d of ordered pair (j, k) in ``[j, k]``; None where the scores have no such form, the default.
        """
        return None

    def sum_over_pairs(self, amounts: FloatArray) -> FloatArray:
        """Return the sum over ordered pairs of an amount times d d', with the direction d of :meth:`label_directions`.

        Parameters
        ----------
        amounts : ndarray, shape (K, K)
            Amount of each ordered pair.

        Returns
        -------
        ndarray, shape (K, K)
            The sum.
        """
        raise NotImplementedError

    def term_changes(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        """Return how far directions move the scores along the direction d of their pair.

        Parameters
        ----------
        table, delta, first, second, ordered : ndarray, ndarray, ndarray, ndarray, bool
            As for :meth:`derivative_along`.

        Returns
        -------
        ndarray, shape (r,)
            The multiple of d for each direction: :meth:`derivative_along` returns this number times d.
        """
        raise NotImplementedError

    def label_variances(self, mu: FloatArray) -> FloatArray:
        """Return the variance v of a label along its direction, see :meth:`label_directions`.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`.

        Returns
        -------
        ndarray, shape (n, K, K)
            Variance for each context and ordered pair.
        """
        raise NotImplementedError

    def gauge(self, n_items: int) -> Gauge:
        """Return the combinations of scores that the functional fixes; by default none.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The combinations of scores that are constant, and the reason.
        """
        return Gauge.none(len(self.names([str(place) for place in range(n_items)])))

    def _edges(self, n_items: int) -> FloatArray:
        """Return the edge weights, (K, K), zero off the graph."""
        return edge_matrix(self.graph, self.edge_weights, n_items)

    def label_covariances(self, mu: FloatArray, j: int, k: int, labels: FloatArray | None = None) -> FloatArray:
        """Return what a label of one ordered pair contributes to the covariance of the scores, J V J'.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities, see :meth:`value`.
        j, k : int
            The model shown first, and the one shown second.
        labels : ndarray, shape (n, K, K, C), optional
            As for :meth:`accumulate`.

        Returns
        -------
        ndarray, shape (n, d, d)
            The covariances.
        """
        columns = []
        for category in range(mu.shape[-1] - 1):
            unit = np.zeros_like(mu)
            unit[:, j, k, category], unit[:, j, k, -1] = 1.0, -1.0
            columns.append(self.derivative(mu, unit))
        jacobian, p = np.stack(columns, axis=1), (mu if labels is None else labels)[:, j, k, :-1]
        # Of a label in all categories but the last.
        covariance = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
        return np.asarray(np.einsum("nca,neb,nce->nab", jacobian, jacobian, covariance, optimize=True))


def central_differences(
    function: Callable[[FloatArray], FloatArray], mu: FloatArray, delta: FloatArray, interior: bool
) -> FloatArray:
    """Return the derivative of a function along ``delta``, (n, d), with the step of :meth:`Functional.derivative`."""
    step = difference_step(mu, delta, interior)
    shift = step[:, None, None, None] * delta
    return (function(mu + shift) - function(mu - shift)) / (2 * step[:, None])


def at_tables(
    function: Callable[[FloatArray, FloatArray], FloatArray],
    table: FloatArray,
    delta: FloatArray,
    first: IntArray,
    second: IntArray,
    *,
    ordered: bool,
) -> FloatArray:
    """Return a function of tables and directions, (r, d), with a table for every direction of one pair."""
    rows, step = [], max(1, _CHUNK // table.size)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        directions = np.zeros((len(first[part]), *table.shape))
        directions[np.arange(len(directions)), first[part], second[part]] = delta[part]
        if not ordered:
            directions += in_other_order(directions)
        rows.append(function(np.broadcast_to(table, directions.shape), directions))
    return np.concatenate(rows)


def difference_step(mu: FloatArray, delta: FloatArray, interior: bool, share: float = _STEP) -> FloatArray:
    """Return the step along ``delta``, (n,), that changes no mu by more than a share of it, or by ``SMALL_CHANGE``."""
    limit = np.where(mu > 0, share * mu, np.inf) if interior else SMALL_CHANGE
    with np.errstate(divide="ignore"):
        step = (limit / np.abs(delta)).min(axis=(1, 2, 3), initial=np.inf)
    return np.where(np.isfinite(step), step, 1.0)


def symmetric_metric(metric: FloatArray | None, n_scores: int) -> FloatArray:
    """Return the symmetric part of a metric, (d, d); by default the identity."""
    if metric is None:
        return np.eye(n_scores)
    if metric.shape != (n_scores, n_scores):
        raise OptionError(f"metric has shape {metric.shape}; allowed for these scores: {(n_scores, n_scores)}")
    return (metric + metric.T) / 2


def checked_graph(graph: Graph | None, n_items: int) -> Graph:
    """Return the comparison graph over ``n_items`` items; by default the graph with every pair."""
    graph = graph or Graph.all_pairs(n_items)
    if graph.n_items != n_items:
        raise GraphError(f"the graph has {graph.n_items} items, the probabilities have {n_items}")
    if n_items < 2:
        raise GraphError(f"there are {n_items} items; allowed: at least 2")
    if not graph.connected:
        parts = "; ".join(str(part.tolist()) for part in graph.components())
        raise GraphError(
            f"the compared pairs do not connect the items: components {parts}; rank one component at a time"
        )
    return graph


def edge_matrix(graph: Graph | None, edge_weights: FloatArray | None, n_items: int) -> FloatArray:
    """Return the weight of every pair, (K, K), zero off the graph, scaled to a largest weight of one."""
    edges = checked_graph(graph, n_items).edges
    if edge_weights is None:
        return edges.astype(float)
    if edge_weights.shape != edges.shape:
        raise OptionError(f"edge_weights has shape {edge_weights.shape}; allowed for these items: {edges.shape}")
    weighted = np.where(edges, edge_weights, 0.0)
    checked_graph(Graph(weighted > 0), n_items)
    return weighted / weighted.max()


def directed(edges: FloatArray, apart: BoolArray) -> FloatArray:
    """Return the weight of every pair for the item of its row: pairs with items apart do not count for the others."""
    if len(apart) != len(edges):
        raise OptionError(f"apart has {len(apart)} entries for {len(edges)} items; give True or False for each item")
    return np.where(apart[None, :] & ~apart[:, None], 0.0, edges)

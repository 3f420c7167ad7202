"""Custom functionals: a user's function of mu, whose derivative is a difference of two calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import check_flag, real_array, real_number
from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, listed, shown
from .base import Gauge
from .category_weights import CategoryWeights
from .differentiability import Probe, check_derivative, check_off_graph, check_smooth, check_values, uses_pairs
from .graph_weights import check_weights_and_graph, checked_graph

# Largest change of a probability in a finite-difference step, as a share of the smallest probability.
_STEP = 1e-4
# Largest number of probabilities that all calls of the function for the variance correction may get together.
_CHEAP = 4e8


@dataclass(frozen=True, slots=True, eq=False)
class Custom:
    """A functional from a user's function of ``mu``, which gives d scores of models or d named numbers per context.

    The derivative along a direction is a central difference and takes two calls of the function, however many models
    there are. The step of context i is h_i = 1e-4 min(mu_i) / max|delta_i|, so that no probability changes by more than
    a ten-thousandth of the smallest one.

    Two computations need the derivatives along all pairs, which take 2 K (K - 1) (C - 1) calls: plans (``design``), and
    the variance correction. The correction enlarges standard errors that are too small where the fitted mu is shrunken,
    that is, less extreme than the true probabilities. It needs all these derivatives at two different mu. A fit makes
    it only where all calls together get at most 4e8 probabilities, for example up to 330 prompts for K = 20 and C = 2,
    or up to 2,300 prompts for K = 8 and C = 4.

    Parameters
    ----------
    function : callable
        Takes ``mu``, (n, K, K, C): category probabilities with j first and k second in ``[:, j, k]``, zero where
        j = k, items and categories in the order of :attr:`RankResults.models` and :attr:`RankResults.categories`.
        Returns (n, d), or (n,) for one number. The result of a context has to depend on that context alone and has to
        be differentiable in mu: a function with a jump, such as a share above a threshold, or with a kink, such as a
        minimum over models, is refused.
    outputs : str or sequence of str, optional
        Names of the d numbers. Without names and with d = K, the numbers are the scores of the models. Otherwise a
        result has the names in place of models, and no ranks.
    directional : callable, optional
        Analytic derivative ``(mu, delta) -> (n, d)``, which is compared with differences before it is used.
    fixed : array_like, (g, d), optional
        Coefficients of linear combinations of the outputs that are constant whatever the data say, such as
        ``[np.ones(K)]`` for scores with a constant sum. By default no combination is constant, and a fit warns where
        its covariance shows otherwise.
    reference : float, optional
        Value with which z tests compare an output; by default the mean score, or 0 where the outputs are not models.
    interior : bool
        Whether the function has a logit or a division, so that mu is clipped at a floor above 0. If not, the function
        has to be defined for numbers slightly outside of [0, 1].
    linear : bool
        Whether the function is linear in mu; corrections for curvature are then left out.
    weights : CategoryWeights, optional
        Category weights, which say how many categories there are; a fit sets them with :meth:`bind`.
    graph : Graph, optional
        The compared pairs; a fit sets them with :meth:`bind`.
    mirrored : bool
        Whether display order is ignored: the function then gets the mean of ``mu`` over both orders of a pair, see
        :meth:`without_order`.

    Raises
    ------
    OptionError, OptionTypeError, GraphError
        If a trial of the function, in a fit or by :meth:`examine`, shows that it fails, that it does not return finite
        numbers (n, d), that it mixes contexts, that it has a jump or a kink, that it uses pairs that are not compared,
        or that its analytic derivative is wrong.

    Examples
    --------
    >>> def gap(mu):
    ...     share = (mu[..., 0] + np.swapaxes(mu[..., 1], 1, 2)).sum(axis=2) / 2
    ...     return share[:, 0] - share[:, 1]
    >>> top_gap = Custom(gap, outputs="gap of the first two", interior=False)
    >>> mu = np.full((1, 3, 3, 2), 0.5); mu[0, 0, 1] = [0.7, 0.3]
    >>> top_gap.value(mu).round(3), top_gap.derivative(mu, mu).round(3)
    (array([[0.2]]), array([[0.2]]))
    """

    function: Callable[[FloatArray], ArrayLike]
    outputs: str | Sequence[str] | None = None
    directional: Callable[[FloatArray, FloatArray], ArrayLike] | None = None
    fixed: ArrayLike | None = None
    reference: float | None = None
    interior: bool = True
    linear: bool = False
    weights: CategoryWeights | None = None
    graph: Graph | None = None
    mirrored: bool = field(default=False, repr=False)
    name = "custom"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionTypeError(f"Custom(function=) is a {type(self.function).__name__}; allowed: a function of mu")
        if self.directional is not None and not callable(self.directional):
            raise OptionTypeError(
                f"Custom(directional=) is a {type(self.directional).__name__}; allowed: a function of (mu, delta)"
            )
        check_weights_and_graph("Custom", self.weights, self.graph)
        neutral = 0.0 if self.reference is None else real_number(self.reference)
        if neutral is None or not np.isfinite(neutral):
            raise OptionTypeError(f"Custom(reference={shown(self.reference)}); allowed: a finite number, or None")
        for name in ("interior", "linear", "mirrored"):
            check_flag(f"Custom({name}=)", getattr(self, name))
        if self.outputs is not None:
            if not isinstance(self.outputs, Iterable):
                raise OptionTypeError(f"Custom(outputs=) is a {type(self.outputs).__name__}; allowed: a list of names")
            names = (self.outputs,) if isinstance(self.outputs, str) else tuple(self.outputs)
            if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
                raise OptionError(f"Custom(outputs=) is {listed(names)}; allowed: different, non-empty names")
            object.__setattr__(self, "outputs", names)

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"custom ({self.title})"

    @property
    def title(self) -> str:
        """Name of the function; a lambda is called "own function"."""
        title = getattr(self.function, "__name__", type(self.function).__name__)
        return "own function" if title == "<lambda>" else str(title)

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Custom:
        """Return a copy of the functional in which the arguments replace settings that are None.

        Parameters
        ----------
        weights : CategoryWeights, optional
            Used if the functional has no category weights yet.
        graph : Graph, optional
            Used if the functional has no graph yet.
        edge_weights : None
            Refused, because this functional has no edge weights.

        Returns
        -------
        Custom
            The copy.

        Raises
        ------
        OptionError
            If there are edge weights.
        """
        if edge_weights is not None:
            raise OptionError(
                "a custom functional has no edge weights: edge_weights apply to borda and bt; weight the pairs in the "
                "function"
            )
        return replace(
            self,
            weights=weights if self.weights is None else self.weights,
            graph=graph if self.graph is None else self.graph,
        )

    def without_order(self) -> Custom:
        """Return the functional that ignores display order.

        It applies the same function to the mean of two probabilities: those of the order (j, k) in ``mu``, and those of
        the order (k, j) with the categories exchanged accordingly.

        Returns
        -------
        Custom
            The functional.
        """
        return replace(self, mirrored=True)

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the outputs.

        These are ``outputs`` if the user gave names. Otherwise, they are the names of the items if there are as many
        outputs as items, and else the name of the function, numbered if there are several outputs.

        Parameters
        ----------
        items : sequence of str
            Names of the K items.

        Returns
        -------
        tuple of str
            One name for each of the d outputs.
        """
        n_outputs = self.n_outputs(len(items))
        if self.outputs is not None:
            return tuple(self.outputs)
        if n_outputs == len(items):
            return tuple(items)
        return (self.title,) if n_outputs == 1 else tuple(f"{self.title}_{place + 1}" for place in range(n_outputs))

    def n_outputs(self, n_items: int) -> int:
        """Return the number of outputs, d.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        int
            Number of columns that the function returns.
        """
        return self.value(Probe.of(n_items, self._n_categories()).uniform).shape[1]

    def examine(self, n_items: int) -> None:
        """Try the function at random probabilities, and raise an error where it cannot be a functional.

        Jumps and kinks are searched for along a few paths only, so that some of them may not be discovered.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Raises
        ------
        OptionError
            If the function fails, does not return finite numbers (n, d), mixes contexts or is not smooth, if its
            analytic derivative is wrong, or if ``outputs`` or ``fixed`` do not match the number of outputs.
        GraphError
            If the function uses pairs that are not compared.
        """
        probe = Probe.of(n_items, self._n_categories())
        values = check_values(self.value, probe, self.title)
        if self.outputs is not None and len(self.outputs) != values.shape[1]:
            raise OptionError(
                f"functional {self.title!r} returns {values.shape[1]} numbers per context, but outputs= has "
                f"{len(self.outputs)} names: {listed(self.outputs)}; give one name per number"
            )
        check_off_graph(self.value, probe, checked_graph(self.graph, n_items), self.title)
        check_smooth(self.value, probe, self.title)
        if self.directional is not None:
            check_derivative(self.derivative, self._differences, probe, self.title)
        self.gauge(n_items)

    def uses(self, pairs: NDArray[np.bool_]) -> bool:
        """Return whether the outputs depend on the probabilities of some ordered pairs.

        Parameters
        ----------
        pairs : ndarray of bool, shape (K, K)
            The ordered pairs in question.

        Returns
        -------
        bool
            Whether an output changes when the probabilities of these pairs change.
        """
        return uses_pairs(self.value, Probe.of(len(pairs), self._n_categories()), pairs)

    def neutral(self, n_items: int) -> float | None:
        """Return the number with which z tests compare an output.

        This is ``reference`` if the user gave it. Otherwise, it is 0 for outputs that are not scores of models.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        float or None
            The number; None stands for the mean score of the models.
        """
        if self.reference is not None:
            return float(self.reference)
        models = self.outputs is None and self.n_outputs(n_items) == n_items
        return None if models else 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the function's outputs.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, d)
            The d outputs in each context.

        Raises
        ------
        OptionError
            If the function fails, or does not return one row of numbers per context.
        """
        table = self._argument(mu)
        try:
            values = real_array(self.function(table))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError) as error:
            raise OptionError(
                f"functional {self.title!r} fails on probabilities of shape {mu.shape}: {type(error).__name__}: {error}"
            ) from error
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(mu):
            raise OptionError(
                f"functional {self.title!r} returns shape {values.shape} for {len(mu)} contexts; allowed: "
                f"({len(mu)}, d), one row per context"
            )
        return values

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative of the outputs at ``mu`` along ``delta``.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        ndarray, shape (n, d)
            Directional derivative of the outputs in each context.
        """
        if self.directional is None:
            return self._differences(mu, delta)
        change = np.asarray(self.directional(self._argument(mu), self._argument(delta)), dtype=np.float64)
        return change[:, None] if change.ndim == 1 else change

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the outputs and their directional derivative at ``mu`` along ``delta``.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        outputs : ndarray, shape (n, d)
            The d outputs in each context.
        derivative : ndarray, shape (n, d)
            Directional derivative of the outputs in each context.
        """
        return self.value(mu), self.derivative(mu, delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the variance that one label of each ordered pair contributes to the outputs.

        This is the trace of M J V J'. J is the Jacobian of the outputs in the category probabilities of the pair, V the
        covariance of a label with probabilities ``mu``, and M the metric. The computation calls the function twice for
        every ordered pair and each of C - 1 categories, 2 K (K - 1) (C - 1) times in all.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        metric : ndarray, shape (d, d), optional
            Positive semidefinite matrix M; the identity by default.

        Returns
        -------
        ndarray, shape (n, K, K)
            The trace for each context and ordered pair; zero for pairs off the graph.
        """
        n_scores, total = self.value(mu[:1]).shape[1], np.zeros(mu.shape[:3])
        scale = np.eye(n_scores) if metric is None else (metric + metric.T) / 2
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            jacobian, covariance = self._pair_jacobian(mu, j, k), _label_covariance(mu[:, j, k])
            total[:, j, k] = np.einsum("nca,ab,neb,nce->n", jacobian, scale, jacobian, covariance, optimize=True)
        return np.maximum(total, 0.0)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs.

        J is the Jacobian of the outputs in the category probabilities of the pair at ``mu``, and V the covariance of a
        label. The computation calls the function as often as :meth:`information` does.

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
        ndarray, shape (d, d)
            The sum, a symmetric matrix.
        """
        n_scores = self.value(mu[:1]).shape[1]
        total = np.zeros((n_scores, n_scores))
        amount, label_mean = np.broadcast_to(amount, mu.shape[:3]), mu if labels is None else labels
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            jacobian, covariance = self._pair_jacobian(mu, j, k), _label_covariance(label_mean[:, j, k])
            total += np.einsum("n,nca,neb,nce->ab", amount[:, j, k], jacobian, jacobian, covariance, optimize=True)
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def cheap(self, n_contexts: int, n_items: int) -> bool:
        """Return whether a fit can afford the variance correction, which needs the derivatives along all pairs.

        The correction takes these derivatives at two different ``mu``.

        Parameters
        ----------
        n_contexts : int
            Number of contexts, n.
        n_items : int
            Number of items, K.

        Returns
        -------
        bool
            Whether all calls of the function together get at most 4e8 probabilities.
        """
        calls = 2 * n_items * (n_items - 1) * (self._n_categories() - 1)
        return 2.0 * calls * n_contexts * n_items**2 * self._n_categories() <= _CHEAP

    def gauge(self, n_items: int) -> Gauge:
        """Return the gauge that ``fixed`` spans; by default a gauge without combinations.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The combinations of scores that are constant, and the reason.

        Raises
        ------
        OptionError
            If ``fixed`` does not hold independent rows with one number per output.
        """
        n_outputs = self.n_outputs(n_items)
        if self.fixed is None:
            return Gauge(np.empty((0, n_outputs)), "the functional is assumed to fix no combination of the outputs")
        rows = np.atleast_2d(np.asarray(self.fixed, dtype=float))
        if rows.shape[1] != n_outputs or np.linalg.matrix_rank(rows) < len(rows):
            raise OptionError(
                f"Custom(fixed=) has shape {rows.shape} and rank {np.linalg.matrix_rank(rows)}; allowed: independent "
                f"rows of {n_outputs} numbers, one number for each output"
            )
        return Gauge.spanned_by(rows, "the combinations of outputs in fixed= are constants by assumption")

    def _n_categories(self) -> int:
        """Return the number of categories, C; 2 before category weights are bound."""
        return 2 if self.weights is None else self.weights.n_categories

    def _argument(self, mu: FloatArray) -> FloatArray:
        """Return the argument of the function: ``mu``, or its mean over both orders where order is ignored."""
        if not self.mirrored:
            return mu
        return np.asarray((mu + in_other_order(mu)) / 2)

    def _differences(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative along ``delta``, (n, d), from two calls of the function."""
        largest = np.abs(delta).max(axis=(1, 2, 3), initial=0.0)
        smallest = np.where(mu > 0, mu, np.inf).min(axis=(1, 2, 3), initial=1.0)
        step = _STEP * smallest / np.where(largest > 0, largest, 1.0)
        shift = step[:, None, None, None] * delta
        return (self.value(mu + shift) - self.value(mu - shift)) / (2 * step[:, None])

    def _pair_jacobian(self, mu: FloatArray, j: int, k: int) -> FloatArray:
        """Return the derivatives in the probabilities of one ordered pair, (n, C - 1, d)."""
        columns = []
        for category in range(mu.shape[-1] - 1):
            unit = np.zeros_like(mu)
            unit[:, j, k, category], unit[:, j, k, -1] = 1.0, -1.0
            columns.append(self.derivative(mu, unit))
        return np.stack(columns, axis=1)


def _label_covariance(p: FloatArray) -> FloatArray:
    """Return the covariance of a label in all categories but the last, (n, C - 1, C - 1)."""
    first = p[:, :-1]
    return np.asarray(first[:, :, None] * np.eye(first.shape[1]) - first[:, :, None] * first[:, None, :])

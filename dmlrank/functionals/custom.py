"""Custom functionals: a user's function of mu, with a derivative from two calls of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, listed
from .base import Gauge
from .category_weights import CategoryWeights
from .differentiability import Probe, check_derivative, check_off_graph, check_smooth, check_values, uses_pairs
from .graph_weights import checked_graph

# Length of a finite-difference step, as a share of the smallest probability.
_STEP = 1e-4
# Numbers that the function may be handed for something that needs the derivatives along all pairs, unasked.
_CHEAP = 4e8


@dataclass(frozen=True, slots=True, eq=False)
class Custom:
    """A functional from a function ``mu -> (n, d)`` of arrays; d scores of models, or d named numbers.

    The derivative along a direction is a central difference: two calls of the function, however many models there are.
    The step of context i is h_i = 1e-4 min(mu_i) / max|delta_i|, so that no probability moves by more than a
    ten-thousandth of the smallest one. What needs the derivatives along all pairs takes 2 K (K - 1) (C - 1) calls:
    plans (``design``), and the correction of standard errors for a shrunken mu, which is made in a fit only where these
    calls are handed less than 4e8 numbers in all (K = 20, C = 2: 330 prompts; K = 8, C = 4: 2,300).

    Parameters
    ----------
    function : callable
        Takes ``mu``, (n, K, K, C): category probabilities with j first and k second in ``[:, j, k]``, zero where
        j = k, items in the order of the results, categories in canonical order. Returns (n, d), or (n,) for one
        number. A context's result depends on that context alone. It has to be differentiable: a step or a minimum is
        refused.
    outputs : str or sequence of str, optional
        Names of the d numbers. Where d = K and none are given they are the models' scores. Otherwise a
        result has names in place of models, and no ranks.
    directional : callable, optional
        An analytic derivative ``(mu, delta) -> (n, d)``, compared with differences before it is used.
    fixed : array_like, (g, d), optional
        Directions in which the outputs are constant whatever the data say, such as ``[np.ones(K)]`` where scores
        sum to a constant. None given: every output is taken to vary by itself, and a fit warns where its covariance
        shows otherwise.
    reference : float, optional
        The value that z tests compare an output with. None: the mean score, or 0 where the outputs are not models.
    interior : bool
        Whether the function has a logit or a division, so that mu is kept away from 0 and 1 by the floor. Without, it
        has to be defined a little outside of [0, 1].
    linear : bool
        Whether it is linear in mu; nothing that curvature brings is then computed.
    weights, graph
        Filled in by :meth:`bind`.

    Raises
    ------
    OptionError, OptionTypeError, GraphError
        When a fit, or :meth:`examine`, tries the function: it fails, returns something else than finite numbers (n, d),
        mixes contexts, has a jump or a kink, uses pairs that are not compared, or the analytic derivative is another.

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
            raise OptionTypeError(f"Custom needs a function of mu; got a {type(self.function).__name__}")
        if self.directional is not None and not callable(self.directional):
            raise OptionTypeError(
                f"Custom(directional=) needs a function of (mu, delta); got a {type(self.directional).__name__}"
            )
        if self.outputs is not None:
            names = (self.outputs,) if isinstance(self.outputs, str) else tuple(self.outputs)
            if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
                raise OptionError(f"Custom(outputs=) needs different, non-empty names; got {listed(names)}")
            object.__setattr__(self, "outputs", names)

    @property
    def label(self) -> str:
        """Human words for a header."""
        return f"custom ({self.title})"

    @property
    def title(self) -> str:
        """What the function calls itself."""
        title = getattr(self.function, "__name__", type(self.function).__name__)
        return "own function" if title == "<lambda>" else str(title)

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Custom:
        """A copy in which what was not set yet is set; it has no edge weights."""
        if edge_weights is not None:
            raise OptionError("edge_weights apply to borda and bt; a function of one's own weighs the pairs itself")
        return replace(
            self,
            weights=weights if self.weights is None else self.weights,
            graph=graph if self.graph is None else self.graph,
        )

    def without_order(self) -> Custom:
        """The same function where both orders of a pair are one: of the mean of ``mu`` and its flip."""
        return replace(self, mirrored=True)

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        """Names of the outputs: those given; else the items where there are as many; else the function's, numbered."""
        n_outputs = self.n_outputs(len(items))
        if self.outputs is not None:
            return tuple(self.outputs)
        if n_outputs == len(items):
            return tuple(items)
        return (self.title,) if n_outputs == 1 else tuple(f"{self.title}_{place + 1}" for place in range(n_outputs))

    def n_outputs(self, n_items: int) -> int:
        """Number of outputs, d."""
        return self.value(Probe.of(n_items, self._n_categories()).even).shape[1]

    def examine(self, n_items: int) -> None:
        """Try the function at random probabilities and raise where it is not what a functional has to be.

        Jumps and kinks are searched for along a few paths: what is found is one, what is not found may still be there.
        """
        probe = Probe.of(n_items, self._n_categories())
        values = check_values(self.value, probe, self.title)
        if self.outputs is not None and len(self.outputs) != values.shape[1]:
            raise OptionError(
                f"functional {self.title!r} returns {values.shape[1]} numbers per context, and outputs= has "
                f"{len(self.outputs)} names: {listed(self.outputs)}"
            )
        check_off_graph(self.value, probe, checked_graph(self.graph, n_items), self.title)
        check_smooth(self.value, probe, self.title)
        if self.directional is not None:
            check_derivative(self.derivative, self._differences, probe, self.title)
        self.gauge(n_items)

    def uses(self, pairs: NDArray[np.bool_]) -> bool:
        """Whether the outputs depend on the probabilities of these pairs, (K, K)."""
        return uses_pairs(self.value, Probe.of(len(pairs), self._n_categories()), pairs)

    def neutral(self, n_items: int) -> float | None:
        """The reference; without one None (the mean score) for models and 0 for other outputs."""
        if self.reference is not None:
            return float(self.reference)
        models = self.outputs is None and self.n_outputs(n_items) == n_items
        return None if models else 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        """The function's outputs, (n, d)."""
        table = self._seen(mu)
        try:
            values = np.asarray(self.function(table), dtype=np.float64)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError) as error:
            raise OptionError(
                f"functional {self.title!r} fails on probabilities of shape {mu.shape}: {type(error).__name__}: {error}"
            ) from error
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(mu):
            raise OptionError(
                f"functional {self.title!r} returns shape {values.shape} for {len(mu)} contexts; needed is "
                f"({len(mu)}, d): a row per context"
            )
        return values

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Directional derivative, (n, d), at ``mu`` along ``delta``, both (n, K, K, C)."""
        if self.directional is None:
            return self._differences(mu, delta)
        made = np.asarray(self.directional(self._seen(mu), self._seen(delta)), dtype=np.float64)
        return made[:, None] if made.ndim == 1 else made

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Outputs and their derivative along ``delta``, (n, d) each."""
        return self.value(mu), self.derivative(mu, delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Trace of metric J V J' for every ordered pair, (n, K, K): what one label of the pair tells.

        A directional derivative for every ordered pair and all categories but one, 2 K (K - 1) (C - 1) calls of the
        function. ``metric`` is (d, d).
        """
        n_scores, total = self.value(mu[:1]).shape[1], np.zeros(mu.shape[:3])
        scale = np.eye(n_scores) if metric is None else (metric + metric.T) / 2
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            jacobian, spread = self._pair(mu, j, k), _label_covariance(mu[:, j, k])
            total[:, j, k] = np.einsum("nca,ab,neb,nce->n", jacobian, scale, jacobian, spread, optimize=True)
        return np.maximum(total, 0.0)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J' over contexts and ordered pairs, (d, d), for amounts (n, K, K).

        As many calls of the function as :meth:`information`.
        """
        n_scores = self.value(mu[:1]).shape[1]
        total = np.zeros((n_scores, n_scores))
        where = np.broadcast_to(amount, mu.shape[:3])
        for j, k in np.argwhere(checked_graph(self.graph, mu.shape[1]).edges):
            jacobian, spread = self._pair(mu, j, k), _label_covariance((mu if labels is None else labels)[:, j, k])
            total += np.einsum("n,nca,neb,nce->ab", where[:, j, k], jacobian, jacobian, spread, optimize=True)
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def cheap(self, n_contexts: int, n_items: int) -> bool:
        """Whether the derivatives along all pairs of all contexts are few enough to be computed unasked."""
        calls = 2 * n_items * (n_items - 1) * (self._n_categories() - 1)
        return 2.0 * calls * n_contexts * n_items**2 * self._n_categories() <= _CHEAP

    def gauge(self, n_items: int) -> Gauge:
        """What was given as ``fixed``; nothing otherwise."""
        n_outputs = self.n_outputs(n_items)
        if self.fixed is None:
            return Gauge(np.empty((0, n_outputs)), "the functional is assumed to fix no combination of the outputs")
        rows = np.atleast_2d(np.asarray(self.fixed, dtype=float))
        if rows.shape[1] != n_outputs or np.linalg.matrix_rank(rows) < len(rows):
            raise OptionError(
                f"Custom(fixed=) has shape {rows.shape}; needed are independent rows of {n_outputs} numbers, one for "
                f"each output"
            )
        return Gauge.spanned_by(rows, "the combinations in fixed= are constants; they follow from the others")

    def _n_categories(self) -> int:
        return 2 if self.weights is None else self.weights.n_categories

    def _seen(self, mu: FloatArray) -> FloatArray:
        """What the function sees: ``mu``, or the mean of both orders of a pair where these are one."""
        if not self.mirrored:
            return mu
        return np.asarray((mu + in_other_order(mu)) / 2)

    def _differences(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """The derivative along ``delta`` from two calls of the function."""
        largest = np.abs(delta).max(axis=(1, 2, 3), initial=0.0)
        smallest = np.where(mu > 0, mu, np.inf).min(axis=(1, 2, 3), initial=1.0)
        step = _STEP * smallest / np.where(largest > 0, largest, 1.0)
        by = step[:, None, None, None] * delta
        return (self.value(mu + by) - self.value(mu - by)) / (2 * step[:, None])

    def _pair(self, mu: FloatArray, j: int, k: int) -> FloatArray:
        """Derivatives along (category c up, the last one down) of one ordered pair, (n, C - 1, d)."""
        columns = []
        for category in range(mu.shape[-1] - 1):
            unit = np.zeros_like(mu)
            unit[:, j, k, category], unit[:, j, k, -1] = 1.0, -1.0
            columns.append(self.derivative(mu, unit))
        return np.stack(columns, axis=1)


def _label_covariance(p: FloatArray) -> FloatArray:
    """Covariance of all categories of a label but the last, (n, C - 1, C - 1), from its probabilities, (n, C)."""
    first = p[:, :-1]
    return np.asarray(first[:, :, None] * np.eye(first.shape[1]) - first[:, :, None] * first[:, None, :])

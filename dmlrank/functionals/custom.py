"""Custom functionals: a user's function of mu, which a trial checks, with a difference of two calls as derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import check_flag, must_be, number_in, real_array
from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError, OptionTypeError, failing_as, listed
from .base import CategoryWeights, Functional, Gauge, central_differences, checked_graph

_SEED = 20260121
# Relative differences between values up to this number are rounding.
_VALUE_TOLERANCE = 1e-9
# Relative differences between an analytic derivative and a difference quotient up to this number are rounding.
_DERIVATIVE_TOLERANCE = 1e-5
# Number of points on a path, number of refinements around the sharpest bend, and factor by which each refines.
_N_POINTS, _N_REFINEMENTS, _ZOOM = 65, 8, 6
# Slopes at the last, tiny step may differ by this share of the path's largest slope.
_KINK_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Custom(Functional):
    """A functional from a user's function of ``mu``, which gives d scores of models or d named numbers per context.

    The derivative along a direction is a central difference and takes two calls of the function, however many models
    there are. See :meth:`Functional.derivative` for its step.

    Two computations need the derivatives along all pairs, which take 2 K (K - 1) (C - 1) calls: plans (``design``), and
    the variance correction. The correction enlarges standard errors that are too small where the fitted mu is shrunken,
    that is, less extreme than the true probabilities. It needs all these derivatives at two different mu. A fit makes
    it only where all calls together get at most 4e8 probabilities, for example up to 330 prompts for K = 20 and C = 2,
    or up to 2,300 prompts for K = 8 and C = 4.

    Parameters
    ----------
    function : callable
        Takes ``mu``, (n, K, K, C): category probabilities with j first and k second in ``[:, j, k]``, zero where
        j = k, items and categories in the order of ``res.models`` and ``res.diagnostics.categories`` of a result.
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
        Whether display order is ignored: the function then gets the mean of two probabilities, those of the order
        (j, k) in ``mu``, and those of the order (k, j) with the categories exchanged accordingly.

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
    singular_advice = "if this combination is constant whatever the data are, say so with Custom(fixed=...)"

    def __post_init__(self) -> None:
        must_be(callable, "a function of mu")("Custom(function=)", self.function)
        if self.directional is not None:
            must_be(callable, "a function of (mu, delta), or None")("Custom(directional=)", self.directional)
        if self.reference is not None:
            number_in("Custom(reference=)", self.reference, np.isfinite, "allowed: a finite number, or None")
        for name in ("interior", "linear", "mirrored"):
            check_flag(f"Custom({name}=)", getattr(self, name))
        if self.outputs is not None:
            if not isinstance(self.outputs, Iterable):
                raise OptionTypeError(f"Custom(outputs=) is a {type(self.outputs).__name__}; allowed: a list of names")
            names = (self.outputs,) if isinstance(self.outputs, str) else tuple(self.outputs)
            if not names or len(set(names)) < len(names) or not all(isinstance(n, str) and n for n in names):
                raise OptionError(f"Custom(outputs=) is {listed(names)}; allowed: different, non-empty names")
            object.__setattr__(self, "outputs", names)
        super().__post_init__()

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"custom ({self.title})"

    @property
    def title(self) -> str:
        """Name of the function; a lambda is called "own function"."""
        title = getattr(self.function, "__name__", type(self.function).__name__)
        return "own function" if title == "<lambda>" else str(title)

    def in_fit(self, n_items: int, ordered: bool) -> Custom:
        bound = self if ordered else replace(self, mirrored=True)
        bound.examine(n_items)
        return bound

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        n_outputs = self._n_outputs(len(items))
        if self.outputs is not None:
            return tuple(self.outputs)
        if n_outputs == len(items):
            return tuple(items)
        return (self.title,) if n_outputs == 1 else tuple(f"{self.title}_{place + 1}" for place in range(n_outputs))

    def _n_outputs(self, n_items: int) -> int:
        """Return the number of columns that the function returns, d."""
        return self.value(self._trial(n_items)[0]).shape[1]

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
        uniform, draws = self._trial(n_items)
        self._check_values(uniform, draws)
        off = ~checked_graph(self.graph, n_items).edges & ~np.eye(n_items, dtype=bool)
        if self.uses(off):
            raise GraphError(
                f"functional {self.title!r} uses pairs that are not compared ({int(off.sum()) // 2} of "
                f"{n_items * (n_items - 1) // 2} pairs are not), so that no label corrects their estimates; let "
                f"the function use compared pairs only (res.graph.edges), give a lower pairs=Pairs(min_labels=...), or "
                f"leave out the votes on models with few of them"
            )
        self._check_smooth(uniform, draws)
        if self.directional is not None:
            self._check_derivative(draws)
        self.gauge(n_items)

    def uses(self, pairs: NDArray[np.bool_]) -> bool:
        uniform, draws = self._trial(len(pairs))
        changed, values = draws.copy(), self.value(draws)
        changed[:, pairs] = uniform[:, pairs]
        return bool(np.abs(self.value(changed) - values).max() > _VALUE_TOLERANCE * np.abs(values).max(initial=1e-300))

    def neutral(self, n_items: int) -> float | None:
        if self.reference is not None:
            return float(self.reference)
        models = self.outputs is None and self._n_outputs(n_items) == n_items
        return None if models else 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        table = self._argument(mu)
        with failing_as(OptionError, f"functional {self.title!r} on probabilities of shape {mu.shape}"):
            returned = self.function(table)
        values = real_array(returned, f"what functional {self.title!r} returns", "an array (contexts, d)", OptionError)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(mu):
            raise OptionError(
                f"functional {self.title!r} returns shape {values.shape} for {len(mu)} contexts; allowed: "
                f"({len(mu)}, d), one row per context"
            )
        return values

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        if self.directional is None:
            return central_differences(self.value, mu, delta, self.interior)
        change = np.asarray(self.directional(self._argument(mu), self._argument(delta)), dtype=np.float64)
        return change[:, None] if change.ndim == 1 else change

    def gauge(self, n_items: int) -> Gauge:
        n_outputs = self._n_outputs(n_items)
        if self.fixed is None:
            return Gauge(np.empty((0, n_outputs)), "the functional is assumed to fix no combination of the outputs")
        rows = np.atleast_2d(np.asarray(self.fixed, dtype=float))
        if rows.shape[1] != n_outputs or np.linalg.matrix_rank(rows) < len(rows):
            raise OptionError(
                f"Custom(fixed=) has shape {rows.shape} and rank {np.linalg.matrix_rank(rows)}; allowed: independent "
                f"rows of {n_outputs} numbers, one number for each output"
            )
        return Gauge.spanned_by(rows, "the combinations of outputs in fixed= are constants by assumption")

    def _argument(self, mu: FloatArray) -> FloatArray:
        """Return the argument of the function: ``mu``, or its mean over both orders where order is ignored."""
        return np.asarray((mu + in_other_order(mu)) / 2) if self.mirrored else mu

    def _trial(self, n_items: int) -> tuple[FloatArray, FloatArray]:
        """Return probabilities with which all items tie, (1, K, K, C), and four random draws away from 0 and 1."""
        n_categories = 2 if self.weights is None else self.weights.n_categories
        rng, items = np.random.default_rng(_SEED), np.arange(n_items)
        uniform = np.full((1, n_items, n_items, n_categories), 1 / n_categories)
        draws = 0.1 / n_categories + 0.9 * rng.dirichlet(np.ones(n_categories), size=(4, n_items, n_items))
        uniform[:, items, items] = draws[:, items, items] = 0.0
        return uniform, draws

    def _check_values(self, uniform: FloatArray, draws: FloatArray) -> None:
        """Check that the values are finite numbers, and that those of a context depend on this context alone."""
        values, title = self.value(draws), self.title
        if not (np.isfinite(values).all() and np.isfinite(self.value(uniform)).all()):
            raise OptionError(
                f"functional {title!r} returns NaN or infinity at ordinary probabilities; allowed: finite numbers; "
                f"check that the function leaves out the diagonal, where mu is zero"
            )
        if values.shape[1] == 0:
            raise OptionError(f"functional {title!r} returns no numbers; allowed: an array (n, d) with d at least 1")
        if self.outputs is not None and len(self.outputs) != values.shape[1]:
            raise OptionError(
                f"functional {title!r} returns {values.shape[1]} numbers per context, but outputs= has "
                f"{len(self.outputs)} names: {listed(self.outputs)}; give one name per number"
            )
        tolerance = _VALUE_TOLERANCE * np.abs(values).max(initial=1e-300)
        if np.abs(self.value(draws) - values).max() > tolerance:
            raise OptionError(
                f"functional {title!r} returns other values when it is called again; let it draw no random numbers and "
                f"keep no state"
            )
        if np.abs(np.concatenate([self.value(one[None]) for one in draws]) - values).max() > tolerance:
            raise OptionError(
                f"functional {title!r} gives a context another value when it is called with other contexts; let a row "
                f"of the result depend on the same row of mu only (the mean over contexts is taken afterwards)"
            )

    def _check_smooth(self, uniform: FloatArray, draws: FloatArray) -> None:
        """Search for jumps and kinks along three straight paths from one array of probabilities to another.

        The first path passes through the point where all items tie, because many functions have their kink there. Each
        path is refined around its sharpest bend. As the steps get smaller, the slopes on both sides of a point approach
        each other on a smooth path. At a kink their difference stays; at a jump it grows.
        """
        for start, stop in ((draws[0], 2 * uniform[0] - draws[0]), (draws[1], draws[2]), (draws[2], draws[3])):
            slope, bends = self._sharpest_bends(start, stop)
            # Where no slope exceeds this limit, the function is constant along the path, up to rounding.
            if slope <= 1e-9 * max(1.0, np.abs(self.value(draws)).max()) or bends[-1] <= _KINK_TOLERANCE * slope:
                continue
            kind, hint = "kink", "a minimum is smooth as SoftMin(sharpness=20), a threshold"
            if bends[-1] > 100 * max(bends[0], slope):
                kind, hint = "jump", "a step such as 'share above 0.6' is smooth"
            raise OptionError(
                f"functional {self.title!r} is not differentiable: it has a {kind}, where no estimate is normally "
                f"distributed; {hint} as Dominance(tau=0.6, sharpness=20)"
            )

    def _sharpest_bends(self, start: FloatArray, stop: FloatArray) -> tuple[float, list[float]]:
        """Return the largest slope of the path, and the largest change of slope at smaller and smaller steps."""
        low, high, bends, slope = 0.0, 1.0, list[float](), 0.0
        for level in range(_N_REFINEMENTS):
            t = np.linspace(low, high, _N_POINTS)
            step = t[1] - t[0]
            slopes = np.diff(self.value(start + t[:, None, None, None] * (stop - start)), axis=0) / step
            if level == 0:
                slope = float(np.abs(slopes).max())
            change = np.abs(np.diff(slopes, axis=0)).max(axis=1)
            place = int(np.argmax(change))
            bends.append(float(change[place]))
            if step < 1e-7:
                break
            reach = _N_POINTS // (2 * _ZOOM) * step
            low, high = max(0.0, t[place + 1] - reach), min(1.0, t[place + 1] + reach)
        return slope, bends

    def _check_derivative(self, draws: FloatArray) -> None:
        """Check that the analytic derivative agrees with differences of the function."""
        delta = draws[::-1] - draws
        expected, derivative = central_differences(self.value, draws, delta, True), self.derivative(draws, delta)
        if derivative.shape != expected.shape:
            raise OptionError(
                f"the derivative of functional {self.title!r} returns shape {derivative.shape}; allowed: "
                f"{expected.shape}, the shape that the function returns"
            )
        error = np.abs(derivative - expected)
        if not error.max() <= _DERIVATIVE_TOLERANCE * max(float(np.abs(expected).max()), 1e-12):
            i, output = np.unravel_index(int(np.nanargmax(np.where(np.isnan(error), np.inf, error))), error.shape)
            raise OptionError(
                f"the derivative of functional {self.title!r} is {derivative[i, output]:.6g} where differences of the "
                f"function give {expected[i, output]:.6g} (output {output + 1}); correct directional=, or leave it out "
                f"to use differences"
            )

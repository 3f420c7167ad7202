"""Functionals of users: a function of mu or a class, and their trial at random probabilities before a fit uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import check_flag, must_be, number_in, real_array
from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError, OptionTypeError, failing_as, listed
from .base import SMALL_CHANGE, CategoryWeights, Functional, Gauge, central_differences, checked_graph

_SEED = 20260121
# Relative differences between values up to this number are rounding.
_VALUE_TOLERANCE = 1e-9
# What a functional says of itself may be wrong by this share, from differences.
_CLAIM_TOLERANCE = 1e-5
# Number of points on a path, number of refinements around the sharpest bend, and factor by which each refines.
_N_POINTS, _N_REFINEMENTS, _ZOOM = 65, 8, 6
# Slopes at the last, tiny step may differ by this share of the path's largest slope.
_KINK_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Custom(Functional):
    """A functional from a user's function of ``mu``, which gives d scores of models or d named numbers per context.

    The derivative along a direction is a central difference and takes two calls of the function, however many models
    there are. See :meth:`Functional.derivative` for its step.

    Plans (``design``) and the variance correction need derivatives along all pairs, 2 K (K - 1) (C - 1) calls. A fit
    makes the correction, which enlarges standard errors where the fitted mu is less extreme than the truth, only where
    all calls together get at most 4e8 probabilities: up to 330 prompts for K = 20 and C = 2.

    Parameters
    ----------
    function : callable
        Takes ``mu``, (n, K, K, C): category probabilities with j first and k second in ``[:, j, k]``, zero where
        j = k, in the order of ``res.models`` and ``res.diagnostics.categories``. Returns (n, d), or (n,) for one
        number. A context's result depends on that context alone and is differentiable in mu: jumps (a share above a
        threshold) and kinks (a minimum over models) are refused.
    outputs : str or sequence of str, optional
        Names of the d numbers, which then stand in place of models; without names and with d = K, scores of the models.
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
        If a trial at random probabilities, in a fit or a plan, shows that the function fails, returns no finite numbers
        (n, d), mixes contexts, has a jump or a kink, uses pairs that are not compared, or is not what it says.

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
    says_fixed = "fixed={}"

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

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        if self.outputs is not None:
            return tuple(self.outputs)
        n_outputs = self.value(trial_tables(self, len(items))[0]).shape[1]
        if n_outputs == len(items):
            return tuple(items)
        return (self.title,) if n_outputs == 1 else tuple(f"{self.title}_{place + 1}" for place in range(n_outputs))

    def neutral(self, n_items: int) -> float | None:
        if self.reference is not None:
            return float(self.reference)
        items = tuple(map(str, range(n_items)))
        return None if self.names(items) == items else 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        values = np.asarray(self.function(self._argument(mu)))
        return values[:, None] if values.ndim == 1 else values

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        if self.directional is None:
            return central_differences(self.value, mu, delta, self.interior)
        change = np.asarray(self.directional(self._argument(mu), self._argument(delta)), dtype=np.float64)
        return change[:, None] if change.ndim == 1 else change

    def gauge(self, n_items: int) -> Gauge:
        if self.fixed is None:
            return super().gauge(n_items)
        return Gauge.spanned_by(self.fixed, "the combinations of outputs in fixed= are constants by assumption")

    def _argument(self, mu: FloatArray) -> FloatArray:
        """Return the argument of the function: ``mu``, or its mean over both orders where order is ignored."""
        return np.asarray((mu + in_other_order(mu)) / 2) if self.mirrored else mu


# --- the trial --------------------------------------------------------------------------------------------------------


def examine(functional: Functional, n_items: int, ordered: bool = True) -> None:
    """Try a functional at random probabilities, and raise an error where it cannot be one, or is not what it says."""
    uniform, draws = trial_tables(functional, n_items)
    _check_values(functional, draws)
    if not ordered and not _are_equal(functional.value(draws), functional.value(in_other_order(draws))):
        raise OptionError(
            f"functional {functional.label!r} reads the two display orders of a pair in different ways, and where "
            f"display order does not matter a label is about both; take the mean of both orders, as Custom(function) "
            f"does by itself, or pass position_bias=True"
        )
    off = ~checked_graph(functional.graph, n_items).edges & ~np.eye(n_items, dtype=bool)
    if looks_at(functional, off):
        raise GraphError(
            f"functional {functional.label!r} uses pairs that are not compared ({int(off.sum()) // 2} of "
            f"{n_items * (n_items - 1) // 2}); let it use compared pairs only, res.graph.edges"
        )
    _check_smooth(functional, uniform, draws)
    _check_claims(functional, draws)


def looks_at(functional: Functional, pairs: NDArray[np.bool_]) -> bool:
    """Return whether the scores change when the probabilities of some ordered pairs, (K, K), change."""
    uniform, draws = trial_tables(functional, len(pairs))
    changed, values = draws.copy(), functional.value(draws)
    changed[:, pairs] = uniform[:, pairs]
    return not _are_equal(functional.value(changed), values)


def words_of_fixed(functional: Functional, combination: FloatArray, items: Sequence[str]) -> str | None:
    """Return what to say where a combination of the scores, (d,), is the same at all probabilities; None elsewhere."""
    values = functional.value(trial_tables(functional, len(items))[1])
    constant = values @ combination
    if np.ptp(constant) > _tolerance(values):
        return None
    is_sum = np.allclose(combination, 1, rtol=0, atol=1e-6)
    what = "the scores always sum to" if is_sum else f"{terms_of(combination, functional.names(items))} is always"
    code = f"[np.ones({len(combination)})]" if is_sum else str([np.round(combination + 0.0, 7).tolist()])
    return f"{what} {np.round(constant.mean(), 9):.6g}; say {functional.says_fixed.format(code)}"


def terms_of(combination: FloatArray, names: Sequence[str]) -> str:
    """Return a linear combination of scores, (d,), in words."""
    return " ".join(f"{c:+.3g}*{name}" for c, name in zip(combination, names, strict=True) if abs(c) > 1e-6)


def trial_tables(functional: Functional, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Return probabilities with which all items tie, (1, K, K, C), and four random draws away from 0 and 1."""
    n_categories = 2 if functional.weights is None else functional.weights.n_categories
    rng, items = np.random.default_rng(_SEED), np.arange(n_items)
    uniform = np.full((1, n_items, n_items, n_categories), 1 / n_categories)
    draws = 0.1 / n_categories + 0.9 * rng.dirichlet(np.ones(n_categories), size=(4, n_items, n_items))
    uniform[:, items, items] = draws[:, items, items] = 0.0
    return uniform, draws


def _are_equal(values: FloatArray, others: FloatArray) -> bool:
    """Return whether values agree but for rounding."""
    return np.allclose(values, others, rtol=0, atol=_VALUE_TOLERANCE * np.abs(others).max(initial=1e-300))


def _tolerance(values: FloatArray) -> float:
    """Return how far a combination of values, (n, d), may vary that is said to be constant."""
    largest = float(np.abs(values).max(initial=0.0))
    return _CLAIM_TOLERANCE * float(np.ptp(values, axis=0).max(initial=0.0)) + _VALUE_TOLERANCE * largest


def _values_at(functional: Functional, mu: FloatArray) -> FloatArray:
    """Return the scores at probabilities; an error where they are no finite numbers."""
    what = f"functional {functional.label!r}"
    with failing_as(OptionError, f"{what} on probabilities of shape {mu.shape}"):
        returned = functional.value(mu)
    values = real_array(returned, f"what {what} returns", "an array (contexts, d)", OptionError)
    if values.ndim != 2 or len(values) != len(mu):
        raise OptionError(f"{what} returns shape {values.shape} for {len(mu)} contexts; allowed: ({len(mu)}, d)")
    if np.isfinite(values).all():
        return values
    advice = "its result has to be finite wherever all probabilities are above 0; the entries with j = k are zero"
    if mu.min() < 0:
        advice = "interior=False says that there is no logarithm and no division by a probability: leave it out"
    raise OptionError(f"{what} returns NaN or infinity; {advice}")


def _check_values(functional: Functional, draws: FloatArray) -> None:
    """Check that the values are finite numbers with names, and that those of a context depend on it alone."""
    values, title, n_items = _values_at(functional, draws), functional.label, draws.shape[1]
    names = functional.names([f"model_{place}" for place in range(n_items)])
    if not 0 < values.shape[1] == len(names):
        raise OptionError(
            f"functional {title!r} returns {values.shape[1]} numbers per context for {n_items} models, but has "
            f"{len(names)} names: {listed(names)}; give each a name (outputs= of Custom, names() of a class)"
        )
    if not functional.interior:
        # In a fit, steps from predictions of 0 or 1 lead slightly outside.
        is_largest = draws == draws.max(axis=-1, keepdims=True)
        outside = np.where(is_largest, 1 + (draws.shape[-1] - 1) * SMALL_CHANGE, -SMALL_CHANGE)
        _values_at(functional, np.where(draws > 0, outside, 0.0))
    if not _are_equal(np.concatenate([functional.value(one[None]) for one in draws]), values):
        raise OptionError(
            f"functional {title!r} gives a context another value when it is called again, with other contexts; let a "
            f"row of the result depend on the same row of mu only, draw no random numbers and keep no state"
        )


def _check_smooth(functional: Functional, uniform: FloatArray, draws: FloatArray) -> None:
    """Search for jumps and kinks along three straight paths from one array of probabilities to another.

    The first path passes through the point where all items tie, because many functions have their kink there. Each path
    is refined around its sharpest bend. As the steps get smaller, the slopes on both sides of a point approach each
    other on a smooth path. At a kink their difference stays; at a jump it grows.
    """
    # The path goes on beyond the tie as far as all probabilities stay above 0.
    beyond = uniform[0] + (uniform[0] - draws[0]) / (draws.shape[-1] - 1)
    for start, stop in ((draws[0], beyond), (draws[1], draws[2]), (draws[2], draws[3])):
        slope, bends = _sharpest_bends(functional, start, stop)
        # Where no slope exceeds this limit, the function is constant along the path, up to rounding.
        if slope <= 1e-9 * max(1.0, np.abs(functional.value(draws)).max()) or bends[-1] <= _KINK_TOLERANCE * slope:
            continue
        kind, hint = "kink", "a minimum is smooth as SoftMin(sharpness=20), a threshold"
        if bends[-1] > 100 * max(bends[0], slope):
            kind, hint = "jump", "a step such as 'share above 0.6' is smooth"
        raise OptionError(
            f"functional {functional.label!r} is not differentiable, with a {kind}; {hint} as Dominance(tau=0.6, "
            f"sharpness=20)"
        )


def _sharpest_bends(functional: Functional, start: FloatArray, stop: FloatArray) -> tuple[float, list[float]]:
    """Return the largest slope of the path, and the largest change of slope at smaller and smaller steps."""
    low, high, bends, slope = 0.0, 1.0, list[float](), 0.0
    for level in range(_N_REFINEMENTS):
        t = np.linspace(low, high, _N_POINTS)
        step = t[1] - t[0]
        slopes = np.diff(_values_at(functional, start + t[:, None, None, None] * (stop - start)), axis=0) / step
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


def _check_claims(functional: Functional, draws: FloatArray) -> None:
    """Check the gauge, the derivative, and that what is said to be linear is linear."""
    values, title, n_items = functional.value(draws), functional.label, draws.shape[1]
    basis, names = functional.gauge(n_items).basis, functional.names([f"model_{place}" for place in range(n_items)])
    if basis.shape[1] != len(names):
        raise OptionError(
            f"functional {title!r} is said to fix {basis.shape[1]} scores; allowed: coefficients of {len(names)}"
        )
    for row in basis / np.abs(basis).max(axis=1, keepdims=True, initial=1e-300):
        constant = values @ row
        if np.ptp(constant) > _tolerance(values):
            raise OptionError(
                f"functional {title!r} is said to fix {terms_of(row, names)}, which is {constant.min():.6g} and "
                f"{constant.max():.6g} at two arrays of probabilities"
            )
    delta = draws[::-1] - draws
    with failing_as(OptionError, f"the derivative of functional {title!r}"):
        derivative = np.asarray(functional.derivative(draws, delta))
    expected = central_differences(functional.value, draws, delta, functional.interior)
    advice = "correct directional= (derivative() of a class), or leave it out to use differences"
    _check_equal(f"the derivative of functional {title!r}", derivative, expected, "differences of its values", advice)
    if functional.linear:
        advice = "leave out linear=True, so that the bias from curvature is removed"
        means, of_means = (values[1:] + values[:-1]) / 2, functional.value((draws[1:] + draws[:-1]) / 2)
        _check_equal(
            f"functional {title!r}, said to be linear, between two points", of_means, means, "their mean", advice
        )


def _check_equal(what: str, found: FloatArray, expected: FloatArray, source: str, advice: str) -> None:
    """Raise unless two arrays by output agree but for rounding."""
    if found.shape != expected.shape:
        raise OptionError(f"{what} returns shape {found.shape}; allowed: {expected.shape}; {advice}")
    error = np.abs(found - expected)
    if not error.max() <= _CLAIM_TOLERANCE * max(float(np.abs(expected).max()), 1e-12):
        i, output = np.unravel_index(int(np.where(np.isnan(error), np.inf, error).argmax()), error.shape)
        raise OptionError(
            f"{what} is {found[i, output]:.6g} where {source} is {expected[i, output]:.6g} (output {output + 1}); "
            f"{advice}"
        )

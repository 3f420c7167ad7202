"""The trial of a user's functional, a function or a class, at random probabilities, before anything relies on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._utils.argument_checks import real_array
from ..data.preferences import FloatArray, IntArray
from ..exceptions import GraphError, OptionError, failing_as, listed
from .base import SMALL_CHANGE, Functional, central_differences, checked_graph

_SEED = 20260121
# Relative differences between values up to this number are rounding.
_VALUE_TOLERANCE = 1e-9
# What a functional says of itself may be wrong by this share, from differences.
_CLAIM_TOLERANCE = 1e-5
# Number of points on a path, number of refinements around the sharpest bend, and factor by which each refines.
_N_POINTS, _N_REFINEMENTS, _ZOOM = 65, 8, 6
# Slopes at the last, tiny step may differ by this share of the path's largest slope.
_KINK_TOLERANCE = 1e-2


def examine(functional: Functional, n_items: int) -> None:
    """Try a functional at random probabilities, and raise an error where it cannot be one, or is not what it says.

    Parameters
    ----------
    functional : Functional
        The functional, bound to category weights and a graph.
    n_items : int
        Number of items, K.

    Raises
    ------
    OptionError
        If the functional fails, does not return finite numbers (n, d), mixes contexts or is not smooth; if its names,
        its derivative or its constant combinations are wrong; or if it is said to be linear, and is not.
    GraphError
        If the functional uses pairs that are not compared.
    """
    uniform, draws = trial_tables(functional, n_items)
    _check_values(functional, draws)
    off = ~checked_graph(functional.graph, n_items).edges & ~np.eye(n_items, dtype=bool)
    if looks_at(functional, off):
        raise GraphError(
            f"functional {functional.label!r} uses pairs that are not compared ({int(off.sum()) // 2} of "
            f"{n_items * (n_items - 1) // 2} pairs are not), so that no label corrects their estimates; let "
            f"it use compared pairs only (res.graph.edges), give a lower pairs=Pairs(min_labels=...), or "
            f"leave out the votes on models with few of them"
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


# --- the checks -------------------------------------------------------------------------------------------------------


def _are_equal(values: FloatArray, others: FloatArray) -> bool:
    """Return whether values agree but for rounding."""
    return np.allclose(values, others, rtol=0, atol=_VALUE_TOLERANCE * np.abs(others).max(initial=1e-300))


def _tolerance(values: FloatArray) -> float:
    """Return how far a combination of values, (n, d), may vary that is said to be constant."""
    largest = float(np.abs(values).max(initial=0.0))
    return _CLAIM_TOLERANCE * float(np.ptp(values, axis=0).max(initial=0.0)) + _VALUE_TOLERANCE * largest


def _values_at(functional: Functional, mu: FloatArray) -> FloatArray:
    """Return the scores at probabilities; an error with the probabilities where they are no finite numbers."""
    what = f"functional {functional.label!r}"
    with failing_as(OptionError, f"{what} on probabilities of shape {mu.shape}"):
        returned = functional.value(mu)
    values = real_array(returned, f"what {what} returns", "an array (contexts, d)", OptionError)
    if values.ndim != 2 or len(values) != len(mu):
        raise OptionError(
            f"{what} returns shape {values.shape} for {len(mu)} contexts; allowed: ({len(mu)}, d), one row per context"
        )
    if np.isfinite(values).all():
        return values
    table, places = mu[np.flatnonzero(~np.isfinite(values).all(axis=1))[:1]], np.arange(mu.shape[1])

    def is_finite_without(first: IntArray, second: IntArray) -> bool:
        changed = table.copy()
        changed[:, first, second] = 1 / mu.shape[-1]
        return bool(np.isfinite(functional.value(changed)).all())

    pairs = np.argwhere(~np.eye(len(places), dtype=bool))
    smallest_first = pairs[table[0, pairs[:, 0], pairs[:, 1]].min(axis=1).argsort()]
    j, k = next((pair for pair in smallest_first if is_finite_without(*pair)), smallest_first[0])
    cause = f"probabilities such as mu[{j}, {k}] = {np.array2string(table[0, j, k], precision=3)}"
    advice = "allowed: finite numbers wherever all probabilities are above 0"
    if is_finite_without(places, places):
        cause, advice = "the entries with j = k, which are zero", "leave them out"
    elif table.min() < 0:
        advice = "interior=False says that there is no logarithm and no division by a probability: leave it out"
    raise OptionError(f"{what} returns NaN or infinity from {cause}; {advice}")


def _check_values(functional: Functional, draws: FloatArray) -> None:
    """Check that the values are finite numbers with names, and that those of a context depend on it alone."""
    values, title, n_items = _values_at(functional, draws), functional.label, draws.shape[1]
    names = functional.names([f"model_{place}" for place in range(n_items)])
    if not 0 < values.shape[1] == len(names):
        raise OptionError(
            f"functional {title!r} returns {values.shape[1]} numbers per context for {n_items} models, but has "
            f"{len(names)} names: {listed(names)}; give one name per number (outputs= of Custom, names() of a class)"
        )
    if not functional.interior:
        # In a fit, steps from predictions of 0 or 1 lead slightly outside.
        is_largest = draws == draws.max(axis=-1, keepdims=True)
        outside = np.where(is_largest, 1 + (draws.shape[-1] - 1) * SMALL_CHANGE, -SMALL_CHANGE)
        _values_at(functional, np.where(draws > 0, outside, 0.0))
    if not _are_equal(np.concatenate([functional.value(one[None]) for one in draws]), values):
        raise OptionError(
            f"functional {title!r} gives a context another value when it is called again, with other contexts; let a "
            f"row of the result depend on the same row of mu only (the mean over contexts is taken afterwards), draw "
            f"no random numbers and keep no state"
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
            f"functional {functional.label!r} is not differentiable: it has a {kind}, where no estimate is normally "
            f"distributed; {hint} as Dominance(tau=0.6, sharpness=20)"
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
            f"functional {title!r} is said to fix combinations with {basis.shape[1]} coefficients; allowed: "
            f"{len(names)}, one for each score (fixed= of Custom, gauge() of a class)"
        )
    for row in basis / np.abs(basis).max(axis=1, keepdims=True, initial=1e-300):
        constant = values @ row
        if np.ptp(constant) > _tolerance(values):
            raise OptionError(
                f"functional {title!r} is said to fix {terms_of(row, names)}, which is {constant.min():.6g} and "
                f"{constant.max():.6g} at two arrays of probabilities; correct the combination, or leave it out "
                f"(fixed= of Custom, gauge() of a class)"
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

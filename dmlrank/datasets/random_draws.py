"""Random draws of simulators: the generator of an ``rng``, categories drawn with it, checks of what sets draws up."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray

from ..exceptions import OptionError, OptionTypeError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rng = int | np.random.Generator | None


def generator(rng: Rng) -> np.random.Generator:
    """The generator that ``rng`` stands for: SPEC 7, never the global one.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        A seed, a generator that is used and advanced, or None for fresh entropy.

    Raises
    ------
    OptionTypeError
        For anything else, a legacy ``RandomState`` or the module ``numpy.random`` among them.
    OptionError
        For a negative seed.

    Examples
    --------
    >>> float(generator(0).random()) == float(generator(0).random())
    True
    """
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool) or not isinstance(rng, Integral):
        raise OptionTypeError(f"rng must be an int, a numpy.random.Generator or None, not {type(rng).__name__}")
    return np.random.default_rng(check_count(rng, "rng", smallest=0))


def check_count(value: object, option: str, smallest: int = 1) -> int:
    """``value`` as an int, or an error that names the option: no bool, no float, not below ``smallest``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionTypeError(f"{option} must be an int, not {type(value).__name__}")
    if value < smallest:
        raise OptionError(f"{option}={value} is too small; it must be at least {smallest}")
    return int(value)


def check_between(value: object, option: str, lower: float = -np.inf, upper: float = np.inf) -> None:
    """Raise unless ``value`` is a finite number with ``lower <= value <= upper``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionTypeError(f"{option} must be a number, not {type(value).__name__}")
    if not (np.isfinite(float(value)) and lower <= float(value) <= upper):
        bounds = [f"at least {lower:g}"] * (lower > -np.inf) + [f"at most {upper:g}"] * (upper < np.inf)
        raise OptionError(f"{option}={value} is not allowed; it must be {' and '.join(['finite', *bounds])}")


def draw_categories(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One category per row, (m,), from ``probabilities``, (m, C) with rows that sum to one.

    Examples
    --------
    >>> draw_categories(np.array([[0.0, 1.0], [1.0, 0.0]]), generator(0))
    array([1, 0])
    """
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    return (rng.random((len(probabilities), 1)) >= steps).sum(axis=1)

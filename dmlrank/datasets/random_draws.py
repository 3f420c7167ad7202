"""Random draws of simulators: the generator behind ``rng``, draws of categories, and checks of parameters."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from .._utils.argument_checks import real_number
from ..data.arrays import FloatArray, IntArray
from ..exceptions import OptionError, OptionTypeError, shown

Rng = int | np.random.Generator | None


def generator(rng: Rng) -> np.random.Generator:
    """Return the random generator that the option ``rng`` stands for; numpy's global generator is never used."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool) or not isinstance(rng, Integral):
        raise OptionTypeError(f"rng must be an int, a numpy.random.Generator or None, not {type(rng).__name__}")
    return np.random.default_rng(check_count(rng, "rng", smallest=0))


def check_count(value: object, option: str, smallest: int = 1) -> int:
    """Return ``value`` as an int; raise where it is no whole number or below ``smallest``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionTypeError(f"{option} must be an int, not {type(value).__name__}")
    if value < smallest:
        raise OptionError(f"{option}={value} is too small; it must be at least {smallest}")
    return int(value)


def check_between(value: object, option: str, lower: float = -np.inf, upper: float = np.inf) -> None:
    """Check that the value of an option is a finite number between two bounds."""
    number = real_number(value)
    if number is None:
        raise OptionTypeError(f"{option} must be a number, not {type(value).__name__}")
    if not (np.isfinite(number) and lower <= number <= upper):
        bounds = [f"at least {lower:g}"] * (lower > -np.inf) + [f"at most {upper:g}"] * (upper < np.inf)
        raise OptionError(f"{option}={shown(value)} is not allowed; it must be {' and '.join(['finite', *bounds])}")


def draw_categories(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one category per row of a matrix of probabilities, (m, C); return their places, (m,)."""
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    return (rng.random((len(probabilities), 1)) >= steps).sum(axis=1)

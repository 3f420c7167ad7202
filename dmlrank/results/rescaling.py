"""Scores in other units: Elo points, log-odds, multiples; intervals are multiplied with the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .._utils.argument_checks import real_number
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, UnknownModelError, check_choice, listed, nearest, shown
from ..fit.estimates import Estimates, Scale

ELO_PER_LOG_ODDS = 400 / np.log(10)
# Begins the text that says why the functional fixes a combination of scores, because the text names natural values.
_PREFIX_OF_REASON = "before rescaling, "
_NAMED = {"elo": ELO_PER_LOG_ODDS, "log-odds": 1.0}


def make_scale(estimates: Estimates, scale: object, mean: object = None, anchor: object = None) -> Scale:
    """Return the scale that a user asks for."""
    name, factor = _factor(estimates, scale)
    natural = natural_scores(estimates)
    if mean is not None and anchor is not None:
        raise OptionError("mean= and anchor= both determine the shift of the scores; give one of them")
    if mean is not None:
        value = _finite("mean", mean)
        return Scale(name, factor, value - factor * float(natural.mean()), mean=value)
    if anchor is not None:
        model, value = _anchor(anchor)
        if model not in estimates.names:
            raise UnknownModelError(
                f"anchor: no model {model!r} was ranked{nearest(model, estimates.names)} "
                f"(models: {listed(estimates.names, 25)})"
            )
        shift = value - factor * float(natural[estimates.names.index(model)])
        return Scale(name, factor, shift, anchor=(model, value))
    return Scale(name, factor, 0.0)


def rescaled(estimates: Estimates, scale: Scale) -> Estimates:
    """Return the estimates on another scale: scores are multiplied and shifted, their covariance is multiplied.

    The shift is a constant for display: the scores do not become differences from the anchor's score. Therefore the
    shift does not change the width of any interval, and the anchor keeps its interval. z statistics, p-values, ranks
    and win shares do not change.
    """
    old, factor, shift = estimates.scale, scale.factor, scale.shift
    multiplier = factor / old.factor
    covariance = estimates.covariance
    neutral = None if estimates.neutral is None else factor * ((estimates.neutral - old.shift) / old.factor) + shift
    return replace(
        estimates,
        estimate=factor * natural_scores(estimates) + shift,
        plugin=factor * ((estimates.plugin - old.shift) / old.factor) + shift,
        covariance=replace(covariance, matrix=covariance.matrix * multiplier**2),
        neutral=neutral,
        reason=_PREFIX_OF_REASON + estimates.reason.removeprefix(_PREFIX_OF_REASON),
        scale=scale,
        style=None if estimates.style is None else estimates.style.rescaled(multiplier, shift - multiplier * old.shift),
    )


def natural_scores(estimates: Estimates) -> FloatArray:
    """Return the scores in the functional's own unit, (K,)."""
    return (estimates.estimate - estimates.scale.shift) / estimates.scale.factor


def _factor(estimates: Estimates, scale: object) -> tuple[str, float]:
    """Return the name and the factor of a scale."""
    if isinstance(scale, str):
        check_choice(scale, _NAMED, "scale")
        if estimates.kind.link != "logit":
            raise OptionError(
                f"scale={scale!r} is a unit of log-odds, and {estimates.functional} scores are not log-odds; "
                f"update(functional='bt') first, or give a positive number to multiply the scores with, such as 100"
            )
        return scale, float(_NAMED[scale])
    factor = real_number(scale)
    if factor is None:
        raise OptionTypeError(f"scale is a {type(scale).__name__}; allowed: 'elo', 'log-odds' or a positive number")
    if not (np.isfinite(factor) and factor > 0):
        raise OptionError(
            f"scale={shown(scale)} is not allowed, because a factor that is not positive would reverse the ranking; "
            f"give a positive number"
        )
    return f"{factor:g} times", factor


def _anchor(anchor: object) -> tuple[str, float]:
    """Return the model of an anchor and its new score."""
    pairs = list(anchor.items()) if isinstance(anchor, Mapping) else [anchor]
    if len(pairs) != 1 or not isinstance(pairs[0], tuple) or len(pairs[0]) != 2 or not isinstance(pairs[0][0], str):
        raise OptionTypeError(
            f"anchor={shown(anchor)} is not one model with its value; give a pair such as ('gpt-4', 1200)"
        )
    model, value = pairs[0]
    return model, _finite(f"the value of {model!r}", value)


def _finite(what: str, value: object) -> float:
    """Return the value as a finite number; ``what`` names it in the error."""
    number = real_number(value)
    if number is None or not np.isfinite(number):
        raise OptionTypeError(f"{what} is {shown(value)}; give a finite number")
    return number

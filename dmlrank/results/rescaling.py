"""Affine views of scores: Elo points, log-odds, a number; intervals keep their width in the new unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real

import numpy as np

from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, UnknownModelError, check_choice, listed, nearest
from ..fit.estimates import Estimates, Scale

ELO_PER_LOG_ODDS = 400 / np.log(10)
_BEFORE = "before rescaling, "
_NAMED = {"elo": ELO_PER_LOG_ODDS, "log-odds": 1.0}


def make_scale(estimates: Estimates, scale: object, mean: object = None, anchor: object = None) -> Scale:
    """The scale that is asked for.

    Parameters
    ----------
    estimates : Estimates
        On any scale.
    scale : {"elo", "log-odds"} or float
    mean : float, optional
        What the mean score becomes.
    anchor : mapping or tuple, optional
        ``{model: value}`` or ``(model, value)``: what the score of one model becomes.

    Raises
    ------
    OptionError, OptionTypeError
        If the scale is unknown, not positive, or not one of the functional's; if both ``mean`` and ``anchor`` are
        given or one is no finite number.
    UnknownModelError
        If the anchor is not among the models.
    """
    name, factor = _factor(estimates, scale)
    natural = natural_scores(estimates)
    if mean is not None and anchor is not None:
        raise OptionError("mean= and anchor= both fix where zero lies; give one of them")
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
    """The estimates on another scale: scores are multiplied and shifted, their covariance is multiplied only.

    The shift is a constant chosen for display. No difference to the anchor is taken, so that anchoring neither widens
    an interval nor makes the anchor's own interval vanish; z statistics, p-values, ranks and win shares stay.
    """
    old, factor, shift = estimates.scale, scale.factor, scale.shift
    times = factor / old.factor
    covariance = estimates.covariance
    neutral = None if estimates.neutral is None else factor * ((estimates.neutral - old.shift) / old.factor) + shift
    return replace(
        estimates,
        estimate=factor * natural_scores(estimates) + shift,
        plugin=factor * ((estimates.plugin - old.shift) / old.factor) + shift,
        covariance=replace(covariance, matrix=covariance.matrix * times**2),
        neutral=neutral,
        reason=_BEFORE + estimates.reason.removeprefix(_BEFORE),
        scale=scale,
    )


def natural_scores(estimates: Estimates) -> FloatArray:
    """The scores as the functional gives them, (K,)."""
    return (estimates.estimate - estimates.scale.shift) / estimates.scale.factor


def _factor(estimates: Estimates, scale: object) -> tuple[str, float]:
    if isinstance(scale, str):
        check_choice(scale, _NAMED, "scale")
        if estimates.functional != "bt":
            raise OptionError(
                f"scale={scale!r} is a scale of log-odds, and {estimates.functional} scores are none: no number of "
                f"points belongs to a difference of them; update(functional='bt') first, or give a number to multiply "
                f"with, such as 100"
            )
        return scale, float(_NAMED[scale])
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise OptionTypeError(f"scale is a {type(scale).__name__}; allowed: 'elo', 'log-odds' or a positive number")
    factor = float(scale)
    if not (np.isfinite(factor) and factor > 0):
        raise OptionError(f"scale={scale!r}: needed is a positive number; a negative one would turn the ranking round")
    return f"{factor:g} times", factor


def _anchor(anchor: object) -> tuple[str, float]:
    pairs = list(anchor.items()) if isinstance(anchor, Mapping) else [anchor]
    if len(pairs) != 1 or not isinstance(pairs[0], tuple) or len(pairs[0]) != 2 or not isinstance(pairs[0][0], str):
        raise OptionTypeError(f"anchor={anchor!r}: needed is one model and its value, such as ('gpt-4', 1200)")
    model, value = pairs[0]
    return model, _finite(f"the value of {model!r}", value)


def _finite(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise OptionTypeError(f"{what} is {value!r}; needed is a finite number")
    return float(value)

"""Views of a result: in other units such as Elo points, at all looks, and with limits drawn by the bootstrap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .._utils.argument_checks import check_alpha, check_text, check_whole, number_in, place_of, real_number
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice, listed, shown
from ..fit.estimates import UNITS, Estimates, Scale
from ..inference.confidence_sequence import ConfidenceSequence
from ..inference.ranks import first_place
from ..inference.simultaneous import METHODS, AllLooks, MaxT, Simultaneous, separate
from ..options import DEFAULT_START
from ..report.phrases import SummaryLevel, models_with_few_votes


def simultaneous_of(estimates: Estimates) -> Simultaneous:
    """Return how wide simultaneous statements on the scores of a result are."""
    if estimates.sequence is not None:
        return AllLooks(estimates.covariance, estimates.sequence)
    return MaxT(estimates.covariance, estimates.description.seed)


def drawn(estimates: Estimates) -> tuple[Estimates, Simultaneous]:
    """Return estimates with their critical value, which was not drawn before, and the draws."""
    simultaneous = simultaneous_of(estimates)
    return replace(estimates, critical=simultaneous.critical(estimates.alpha)), simultaneous


def alpha_or_default(alpha: float | None, default: float) -> float:
    """Return the user's alpha, or the default where the user gives None."""
    return default if alpha is None else check_alpha(alpha)


def alpha_of(estimates: Estimates, alpha: float | None) -> float:
    """Return the user's alpha for statements about a result, or the result's where the user gives None."""
    alpha, sequence = alpha_or_default(alpha, estimates.alpha), estimates.sequence
    if sequence is not None and alpha != sequence.alpha:
        raise OptionError(sequence.why_not_alpha(alpha))
    return alpha


def critical_value_of(
    estimates: Estimates, simultaneous: Simultaneous, alpha: float | None, method: str = "max-t"
) -> float:
    """Return the half-width of the scores' intervals in standard errors; NaN where the result has no intervals."""
    check_choice(method, METHODS, "method")
    alpha = alpha_of(estimates, alpha)
    if not estimates.has_intervals:
        return float("nan")
    is_kept = method == "max-t" and alpha == estimates.alpha and simultaneous.multipliers is None
    return estimates.critical if is_kept else simultaneous.critical(alpha, method)


def summary_level(estimates: Estimates, simultaneous: Simultaneous, alpha: float | None) -> SummaryLevel:
    """Return critical value, tests of ranks for a table; NaN and none without intervals."""
    alpha, critical = alpha_of(estimates, alpha), critical_value_of(estimates, simultaneous, alpha)
    if not estimates.has_intervals or not estimates.of_models or len(estimates.models) == 1:
        return SummaryLevel(alpha, critical, None, simultaneous.multipliers)
    separation = separate(estimates.estimate, simultaneous, alpha, estimates.sign)
    names = {*models_with_few_votes(estimates), *estimates.diagnostics.models_with_few_prompts}
    first = first_place(
        estimates.estimate, simultaneous, separation, estimates.sign, np.isin(estimates.models, [*names])
    )
    # A model without a vote in a group leads by a prediction alone.
    first = None if first is None or estimates.is_unseen[first.leader] else first
    return SummaryLevel(alpha, critical, separation, simultaneous.multipliers, first)


def adjusted_p_values(estimates: Estimates, simultaneous: Simultaneous) -> FloatArray:
    """Return adjusted p-values of the scores against the neutral value, or without one the mean score, (d,)."""
    return simultaneous.adjusted_p_values(estimates.neutral_statistics(), centred=estimates.neutral is None)


def sequential_view(estimates: Estimates, *, planned: int, start: int) -> Estimates:
    """Return the estimates with a :class:`ConfidenceSequence`; see :meth:`RankResults.sequential`.

    It is refused where estimates at several looks are not averages over one growing sample of independent units.
    """
    description, old = estimates.description, estimates.sequence
    if old is not None:
        raise OptionError(f"this is a sequential view already, for planned={old.planned:,} and start={old.start:,}")
    if description.prompts == "fixed":
        raise OptionError(
            "sequential() with cov_kwds={'prompts': 'fixed'}: every look has other scores; use update(prompts='random')"
        )
    if len(description.clusters) > 1:
        raise OptionError(
            f"sequential() with clusters of {listed(description.clusters)}: intervals that hold at all looks have no "
            f"theory for crossed clusters; use the intervals of one look, or one column of clusters"
        )
    check_whole("planned", planned, 2)
    check_whole("start", start, 2)
    n_units, unit = description.n_contexts, "prompts" if description.context else "rows"
    if description.clusters:
        n_units, unit = estimates.covariance.n_clusters[0], f"clusters of {description.clusters[0]!r}"
    if planned < start:
        raise OptionError(
            f"planned={planned:,} is below start={start:,} ({DEFAULT_START:,} by default); give planned= the number of "
            f"{unit} at which you expect to decide, or fix a smaller start= before the first look"
        )
    if n_units < start:
        raise OptionError(
            f"sequential(start={start:,}): this result has {n_units:,} {unit}; collect more, or fix a smaller "
            f"start= before the first look"
        )
    sequence = ConfidenceSequence(int(planned), int(start), estimates.alpha, n_units, unit)
    return replace(estimates, sequence=sequence, covariance=estimates.covariance.normal)


# Begins the text that says why the functional fixes a combination of scores, because the text names natural values.
_PREFIX_OF_REASON = "before rescaling, "
# Largest factor, whose square covariances can hold, and largest shift as a multiple of the factor.
_LARGEST_FACTOR, _LARGEST_SHIFT = 1e100, 1e8


def make_scale(estimates: Estimates, scale: object, mean: object = None, anchor: object = None) -> Scale:
    """Return the scale that a user asks for."""
    if isinstance(scale, str):
        check_choice(scale, UNITS, "scale")
        if estimates.kind.link != "logit":
            raise OptionError(
                f"scale={scale!r} is a unit of log-odds, and {estimates.functional} scores are not log-odds; "
                f"update(functional='bt') first, or give a positive number, such as 100"
            )
        name, factor = scale, UNITS[scale]
    else:
        allowed = f"it is 'elo', 'log-odds' or a factor between {1 / _LARGEST_FACTOR:g} and {_LARGEST_FACTOR:g}"
        factor = number_in("scale", scale, lambda number: 1 / _LARGEST_FACTOR <= number <= _LARGEST_FACTOR, allowed)
        name = Scale.name_of(factor)
    natural = (estimates.estimate - estimates.scale.shift) / estimates.scale.factor
    if mean is not None and anchor is not None:
        raise OptionError("mean= and anchor= both determine the shift of the scores; give one of them")
    if mean is not None:
        value = _shift("mean", mean, factor)
        is_kept = [name not in estimates.description.models_apart for name in estimates.names]
        return Scale(name, factor, value - factor * float(natural[is_kept].mean()), mean=value)
    if anchor is not None:
        pairs = list(anchor.items()) if isinstance(anchor, Mapping) else [anchor]
        if len(pairs) != 1 or not isinstance(pairs[0], tuple) or len(pairs[0]) != 2 or not isinstance(pairs[0][0], str):
            raise OptionTypeError(
                f"anchor={shown(anchor)} is not one model with its value; give a pair such as ('gpt-4', 1200)"
            )
        model, value = pairs[0][0], _shift(f"the value of {pairs[0][0]!r}", pairs[0][1], factor)
        shift = value - factor * float(natural[place_of(estimates.names, model)])
        return Scale(name, factor, shift, anchor=(model, value))
    return Scale(name, factor, 0.0)


def rescaled(estimates: Estimates, scale: Scale) -> Estimates:
    """Return the estimates on another scale: scores are multiplied and shifted, their covariance is multiplied.

    The shift is a constant for display: the scores do not become differences from the anchor's score, which keeps its
    interval. z statistics, p-values, ranks and win shares do not change.
    """
    e, old = estimates, estimates.scale
    multiplier, neutral = scale.factor / old.factor, e.neutral
    natural, natural_plugin = ((scores - old.shift) / old.factor for scores in (e.estimate, e.plugin))
    if neutral is not None:
        neutral = scale.factor * ((neutral - old.shift) / old.factor) + scale.shift
    return replace(
        e,
        estimate=scale.of(natural),
        plugin=scale.of(natural_plugin),
        covariance=e.covariance.scaled(multiplier, scale.shift - multiplier * old.shift),
        neutral=neutral,
        reason=_PREFIX_OF_REASON + e.reason.removeprefix(_PREFIX_OF_REASON),
        scale=scale,
        style=None if e.style is None else e.style.rescaled(multiplier, scale.shift - multiplier * old.shift),
    )


def in_unit(estimates: Estimates, simultaneous: Simultaneous, unit: str) -> tuple[Estimates, Simultaneous]:
    """Return the estimates of a page in the unit of its reader, and what is drawn for them.

    "%" multiplies by 100, other units are only written.
    """
    check_text("unit", unit)
    scale, factor = estimates.scale, 100.0
    if unit != "%":
        return replace(estimates, scale=replace(scale, name=unit)) if unit else estimates, simultaneous
    if not scale.natural:
        raise OptionError(f"unit='%' multiplies scores by 100, and these scores are in another unit: {scale.name}")
    if not ((estimates.estimate >= 0) & (estimates.estimate <= 1)).all():
        ends = f"{estimates.estimate.min():.3g} to {estimates.estimate.max():.3g}"
        raise OptionError(f"unit='%' is for scores from 0 to 1, and these are from {ends}; leave it out")
    shown = rescaled(estimates, Scale(unit, factor))
    bootstrap = None if isinstance(simultaneous, AllLooks) else simultaneous.bootstrap
    if bootstrap is None:
        return shown, simultaneous_of(shown)
    scaled = replace(bootstrap, units=factor * bootstrap.units, added=factor**2 * bootstrap.added)
    return shown, MaxT(shown.covariance, bootstrap=scaled)


def _shift(what: str, value: object, factor: float) -> float:
    """Return the value as a number beside which scores with this factor keep digits; ``what`` names it in the error."""
    number = real_number(value)
    if number is None or not np.isfinite(number):
        raise OptionTypeError(f"{what} is {shown(value)}; give a finite number")
    if abs(number) > _LARGEST_SHIFT * factor:
        most = _LARGEST_SHIFT * factor
        raise OptionError(f"{what} is {shown(value)}, beside which digits of differences are lost; at most {most:g}")
    return number

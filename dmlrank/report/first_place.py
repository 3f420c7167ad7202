"""The sentence on first place: whether it is open, and how large a gap more prompts would show."""

from __future__ import annotations

import numpy as np

from .._utils.number_text import p_value_clause
from ..fit.estimates import Estimates
from ..inference.ranks import Separation, smallest_gap
from ..inference.resampling import differences

_POWER = 0.8
# How many times the prompts of the fit the sentence looks at.
_TIMES = (1, 2, 10)


def first_place(results: Estimates, separation: Separation) -> list[str]:
    """One sentence or two; none where no difference can be tested, or tests are not valid.

    Parameters
    ----------
    results : Estimates
    separation : Separation
        At the level of the summary.
    """
    order = np.argsort(-results.estimate, kind="stable")
    first, others = int(order[0]), order[1:]
    open_to = [int(k) for k in others if not separation.above[first, k]]
    rival = open_to[0] if open_to else int(others[0])
    pair = differences(results.covariance, np.array([first]), np.array([rival]))
    gap = float(results.estimate[first] - results.estimate[rival])
    if not results.has_intervals or not np.isfinite(separation.critical) or not pair.usable[0]:
        return []
    digits = max(3, int(np.ceil(1 - np.log10(pair.std_error[0])))) if results.scale.natural else 1
    names = f"{results.models[first]} - {results.models[rival]}"
    claim = f"{names} = {gap:.{digits}f}"
    if not open_to:
        p = p_value_clause(float(separation.p_above[first, others].max()), figures=2)
        return [f"First place is settled: {claim}; above every other model, largest adjusted p {p} (stepping down)."]
    p = p_value_clause(float(separation.p_single[first, rival]), figures=2)
    shown = _gaps_shown(results, separation, float(pair.std_error[0]), digits)
    return [f"First place is open: {claim}, adjusted p {p}.{shown}"]


def _gaps_shown(results: Estimates, separation: Separation, std_error: float, digits: int) -> str:
    """The true gaps that so many prompts would show, where prompts are what the standard error comes from.

    How many prompts the *estimated* gap would need is no number to plan with: it goes with the inverse square of an
    estimate that is indistinguishable from zero.
    """
    if results.description.prompts == "fixed":
        return ""
    unit, number = _unit(results)
    gap = smallest_gap(std_error, separation.critical, _POWER)
    now, twice, many = (f"{gap / np.sqrt(times):.{digits}f}" for times in _TIMES)
    return (
        f" With power {_POWER:.2f}, these {number:,} {unit} show a true gap of {now} or more, {number:,} more like "
        f"them one of {twice}, {(_TIMES[-1] - 1) * number:,} more one of {many}."
    )


def _unit(results: Estimates) -> tuple[str, int]:
    """What is independent, in words, and how many of them there are."""
    names, counts = results.description.clusters, results.covariance.n_clusters
    if not names:
        return "prompts" if results.description.context else "rows", results.description.n_contexts
    more = "" if len(names) == 1 else f", with {names[1]} in proportion,"
    return f"clusters of {names[0]}{more}", counts[0]

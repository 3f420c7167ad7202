"""The sentence on first place: whether it is open, and what it would take to close it."""

from __future__ import annotations

import numpy as np

from .._utils.number_text import p_value_clause
from ..fit.estimates import Estimates
from ..inference.ranks import Separation, units_needed
from ..inference.resampling import differences

_POWER = 0.8
# Beyond, a number would only feign knowledge.
_MOST = 1e7


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
    if not results.estimated_by.valid_intervals or not np.isfinite(separation.critical) or not pair.usable[0]:
        return []
    digits = max(3, int(np.ceil(1 - np.log10(pair.std_error[0])))) if results.scale.natural else 1
    names = f"{results.models[first]} - {results.models[rival]}"
    claim = f"{names} = {gap:.{digits}f}"
    if not open_to:
        p = p_value_clause(float(separation.p_above[first, others].max()), figures=2)
        return [f"First place is settled: {claim}; above every other model, largest adjusted p {p} (stepping down)."]
    p = p_value_clause(float(separation.p_single[first, rival]), figures=2)
    needed = _needed(results, separation, gap, float(pair.std_error[0]))
    return [f"First place is open: {claim}, adjusted p {p}.{needed}"]


def _needed(results: Estimates, separation: Separation, gap: float, std_error: float) -> str:
    """What would close it, where prompts are what the standard error comes from."""
    description = results.description
    if not gap > 0 or description.prompts == "fixed":
        return ""
    unit, number = _unit(results)
    more = units_needed(gap, std_error, number, separation.critical, _POWER)
    count = f"about {_rounded(more):,}" if more < _MOST else f"more than {_MOST:,.0f}"
    return f" If that gap is real, {count} more {unit} would separate them with power {_POWER:.2f}."


def _unit(results: Estimates) -> tuple[str, int]:
    """What is independent, in words, and how many of them there are."""
    names, counts = results.description.clusters, results.covariance.n_clusters
    if not names:
        prompts = "prompts" if results.description.context else "rows"
        return f"{prompts} like these", results.description.n_contexts
    more = "" if len(names) == 1 else f", with {names[1]} in proportion,"
    return f"clusters of {names[0]}{more}", counts[0]


def _rounded(number: float) -> int:
    """Two significant figures.

    Examples
    --------
    >>> _rounded(1537.2), _rounded(0.4)
    (1500, 1)
    """
    digits = int(np.floor(np.log10(max(number, 1.0))))
    step = 10 ** max(digits - 1, 0)
    return max(1, round(number / step) * step)

"""The note on first place: whether it is decided, and which gaps further prompts would show."""

from __future__ import annotations

import numpy as np

from .._utils.number_text import decimals, fewest_decimals, p_value_clause
from ..fit.estimates import Estimates
from ..inference.ranks import Separation, smallest_gap
from ..inference.resampling import differences

_POWER = 0.8
# Sample sizes for which the note gives the smallest gap, as multiples of the fit's own.
_SAMPLE_MULTIPLES = (1, 2, 10)


def first_place_note(results: Estimates, separation: Separation) -> list[str]:
    """Write the note on first place.

    First place is decided where the model with the highest score is above every other model. Otherwise the note names
    the best of the models that it is not separated from.
    """
    ranking = np.argsort(-results.estimate, kind="stable")
    first, followers = int(ranking[0]), ranking[1:]
    not_separated = [int(k) for k in followers if not separation.above[first, k]]
    rival = not_separated[0] if not_separated else int(followers[0])
    pair = differences(results.covariance, np.array([first]), np.array([rival]))
    gap = float(results.estimate[first] - results.estimate[rival])
    if not results.has_intervals or not np.isfinite(separation.critical) or not pair.usable[0]:
        return []
    std_error = float(pair.std_error[0])
    digits = decimals(pair.std_error, fewest=fewest_decimals(results.scale.natural))
    unit = " Elo points" if results.scale.name == "elo" else ""
    lead = f"{results.models[first]} leads {results.models[rival]} by {gap:.{digits}f}{unit}"
    if not not_separated:
        p = p_value_clause(float(separation.p_above[first, followers].max()))
        tests = "step-down tests" if results.sequence is None else "Holm's tests at all looks"
        return [f"First place is decided: {lead} and is above every other model ({tests}; the largest adjusted p {p})."]
    p = p_value_clause(float(separation.p_single[first, rival]))
    if results.sequence is not None:
        # The power of tests at one sample size says little about tests at all looks.
        return [f"First place is not decided: {lead} (adjusted p {p}). A later look may decide it."]
    gaps = _gap_clause(results, separation, std_error, digits)
    return [f"First place is not decided: {lead} (adjusted p {p}).{gaps}"]


def _gap_clause(results: Estimates, separation: Separation, std_error: float, digits: int) -> str:
    """Write which true gaps the present and larger numbers of prompts would show."""
    if results.description.prompts == "fixed":
        return ""
    unit, number, remark = _sampling_unit(results)
    gap = smallest_gap(std_error, separation.critical, _POWER)
    present, doubled, tenfold = (f"{gap / np.sqrt(multiple):.{digits}f}" for multiple in _SAMPLE_MULTIPLES)
    largest_addition = (_SAMPLE_MULTIPLES[-1] - 1) * number
    return (
        f" The smallest true gap that would be found with power {_POWER:.2f} is {present} with these {number:,} "
        f"{unit}, {doubled} with {number:,} more and {tenfold} with {largest_addition:,} more.{remark}"
    )


def _sampling_unit(results: Estimates) -> tuple[str, int, str]:
    """Return what is independent in words, how many of these there are, and a remark where there are two kinds."""
    names, counts = results.description.clusters, results.covariance.n_clusters
    if not names:
        return "prompts" if results.description.context else "rows", results.description.n_contexts, ""
    remark = (
        "" if len(names) == 1 else f" The number of clusters (values of {names[1]!r}) is assumed to grow in proportion."
    )
    return f"clusters (values of {names[0]!r})", counts[0], remark

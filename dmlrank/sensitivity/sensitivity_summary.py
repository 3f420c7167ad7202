"""The summary table and the sentence of a sensitivity analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from ..report.phrases import counted, percentage
from ..tables.display_text import decimals, fewest_decimals
from ..tables.summary_table import Summary
from .tipping_points import SensitivityNumbers


def gamma_text(gamma: float) -> str:
    """Return a tipping point as text."""
    if np.isinf(gamma):
        return ">100"
    return f"{gamma:.2f}" if gamma < 10 else f"{gamma:.3g}"


def tipping_sentence(tipping: pd.DataFrame) -> str:
    """Return the sentence on the first result that changes."""
    decided = tipping[tipping["gamma_interval"] > 1]
    if not len(decided):
        return "None of the contrasts is decided, so that no assumption about who votes can undo a result."
    place = int(decided["gamma_interval"].to_numpy(dtype=float).argmin())
    name, sign, interval = (
        decided[column].iloc[place] for column in ("hypothesis", "gamma_estimate", "gamma_interval")
    )
    if np.isinf(interval):
        return "All decided contrasts stay decided even if the label changes the odds of voting by a factor of 100."
    change = "and its sign does not change up to 100" if np.isinf(sign) else f"and its sign may change at {sign:.2f}"
    subject = f"The result that depends most on who votes is {name}: it" if len(tipping) > 1 else str(name)
    factor = f"a factor of {interval:.2f}"
    return f"{subject} is no longer decided if the label changes the odds of voting by {factor}, {change}."


def _at_middle_gamma(results: SensitivityNumbers) -> tuple[float, FloatArray, FloatArray, int]:
    """Return the middle gamma above 1, or the only one, its bounds, (J, 4), tipping points, (J, 2), and decimals."""
    above = [gamma for gamma in results.gammas if gamma > 1]
    gamma = above[(len(above) - 1) // 2] if above else results.gammas[0]
    frame = results.result_frame[results.result_frame["gamma"] == gamma]
    limits = frame[["lower", "upper", "conf_lower", "conf_upper"]].to_numpy(dtype=float)
    tips = results.tipping[["gamma_estimate", "gamma_interval"]].to_numpy(dtype=float)
    return gamma, limits, tips, decimals(results.std_error, fewest=fewest_decimals(results.is_natural))


def sensitivity_summary(results: SensitivityNumbers) -> Summary:
    """Return the table: tipping points, with the bounds at one gamma."""
    gamma, limits, tips, digits = _at_middle_gamma(results)
    rows = []
    for place, name in enumerate(results.hypothesis.labels):
        numbers = (f"{number:.{digits}f}" for number in (results.estimate[place], *limits[place]))
        rows.append((name, *numbers, *map(gamma_text, tips[place])))
    level = f"{100 * (1 - results.alpha):g}"
    pairs = (f"[bounds, gamma={gamma:g}]", f"[{level}% simult. CI]", "[tipping gamma, CI]")
    columns = (("estimate", 1), *((pair, 2) for pair in pairs))
    unvoted = f"{results.n_unvoted:,} of {results.n_shown:,}" if results.n_unvoted else "not in the data"
    header = (
        ("Functional:", results.functional, "Contrasts:", f"{len(rows):,}"),
        ("Gamma:", ", ".join(f"{g:g}" for g in results.gammas), "Shown without a vote:", unvoted),
        ("Bounds:", "sharp" if results.is_sharp else "first order", "Level:", f"{level} % simultaneous"),
    )
    ends = [f"{pair} {end}" for pair in pairs[:2] for end in ("lower", "upper")]
    heads = ("estimate", *ends, "tipping gamma", "tipping gamma of CI")
    return Summary(
        "Sensitivity to Who Votes", header, columns, tuple(rows), _notes(results), "contrast", column_heads=heads
    )


def page_paragraphs(results: SensitivityNumbers) -> tuple[str, ...]:
    """Return the paragraphs of a page: what gamma means, the first result that changes, and one line per contrast."""
    gamma, limits, tips, digits = _at_middle_gamma(results)
    lines = []
    for name, estimate, (lower, upper, *_), (sign, interval) in zip(
        results.hypothesis.labels, results.estimate, limits, tips, strict=True
    ):
        decided = (
            f"Decided up to gamma = {gamma_text(interval)}. Its lower or upper bound changes the sign at "
            f"{gamma_text(sign)}."
        )
        lines.append(
            f"{name}: {estimate:.{digits}f}, between {lower:.{digits}f} and {upper:.{digits}f} if gamma = {gamma:g}. "
            f"{decided if interval > 1 else 'Not decided for any gamma.'}"
        )
    shown = (
        f"{counted(results.n_unvoted, 'battle')} of {results.n_shown:,} were shown and got no vote."
        if results.n_unvoted
        else "The data do not say which battles were shown without a vote, so that every pair without a vote counts as "
        "such a battle and the ranges are wide."
    )
    return (
        f"The scores assume that votes that were not cast are like those that were. Suppose that they are not: given "
        f"the label that a voter would give, the odds of voting are up to gamma times, and at least 1/gamma of, the "
        f"odds given the prompt and the pair. {shown}",
        tipping_sentence(results.tipping),
        *lines,
    )


def _notes(results: SensitivityNumbers) -> tuple[str, ...]:
    """Return the notes: what gamma and bounds mean, and what limits them."""
    notes = [
        "gamma: given the label that a voter would give, the odds of voting lie between 1/gamma and gamma times the "
        "odds given the prompt and the pair alone. gamma = 1 is the assumption of the fit. The bounds are the lowest "
        "and the highest value that all shown battles together can have. The tipping gamma is the smallest gamma "
        "at which the bound reaches the hypothetical value (0 for a difference); the column after it is the smallest "
        "gamma at which the interval of the bound reaches the value, which is 1.00 if the interval of the estimate "
        "already contains it.",
        tipping_sentence(results.tipping),
    ]
    if not results.is_sharp:
        notes.append(
            "The bounds hold to first order: the derivative of the functional at the estimated preferences says "
            "whether a pair takes its largest or its smallest possible share. Votes that reach these bounds exist. "
            "Because the functional is not linear, other votes may lie slightly beyond the bounds."
        )
    if results.is_chosen_by_data:
        notes.append(
            "The contrasts are neighbours on the leaderboard, which the data have chosen. Their intervals have the "
            "critical value for all pairs of models."
        )
    if results.n_unvoted:
        share = percentage(results.n_unvoted / results.n_shown)
        notes.append(f"{counted(results.n_unvoted, 'shown battle')} ({share}) got no vote.")
    else:
        notes.append(
            "The data have no shown battles without a vote (rows with two models and a missing winner). Every pair of "
            "every prompt therefore counts as shown, and every pair without a vote as one on which people refrained "
            "from voting, so that the bounds are wide. Keep the battles without a vote in the data for narrower bounds."
        )
    return tuple(notes)

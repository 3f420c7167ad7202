"""The gate of a pipeline: whether a candidate is as good as a baseline, as one line and an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy

from .._utils.argument_checks import check_alpha, place_of
from ..data.read_votes import UNEQUAL_GAPS
from ..exceptions import OptionError
from ..tables.display_text import decimals, fewest_decimals, fixed_text, p_value_clause

if TYPE_CHECKING:
    from ..fit.estimates import Estimates
    from ..results.rank_results import RankResults

# Decisions with their exit codes; 1 and 2 are those of errors.
EXIT_CODES = {"pass": 0, "worse": 3, "not decided": 4}
# Decimals with which a limit next to the margin is shown, at most.
_MOST_DIGITS = 9


def check_gate(candidate: str, baseline: str, margin: float, level: float) -> None:
    """Check, before a fit, the options of a gate that can be judged without the data."""
    if candidate == baseline:
        raise OptionError(f"--candidate and --baseline are both {candidate!r}; name two different models")
    if not (np.isfinite(margin) and margin >= 0):
        raise OptionError(f"--margin is {margin:g}; give a number of at least 0, in the unit of the scores")
    if not 0.5 <= level < 1:
        raise OptionError(f"--level is {level:g}; give a number from 0.5 to below 1, such as 0.95")
    check_alpha(1 - level)


def _check_margin(e: Estimates, margin: float) -> None:
    """Refuse a margin that no difference of two scores can exceed, with which every candidate would pass."""
    low, high = sorted(float(e.scale.of(np.array(end))) for end in e.description.score_range) or e.limits
    if high > low and margin >= high - low and np.isfinite(high - low):
        smaller = f", such as {margin * (high - low) / 100:g} for {margin:g} % of this range" if margin < 100 else ""
        raise OptionError(
            f"--margin is {margin:g}, but the scores lie between {low:g} and {high:g}, so that every candidate would "
            f"pass; give a smaller number in the unit of the scores{smaller}"
        )


def lost_runs(results: RankResults, models: tuple[str, ...]) -> str:
    """Return the fit's warning that one of these models lost another share of its runs than others; empty without."""
    found = [text for text in results.diagnostics.warnings if text.startswith(UNEQUAL_GAPS)]
    return next((text for text in found if any(f"{model} " in text for model in models)), "")


def with_lost_runs(
    decision: Mapping[str, object], counted: Mapping[str, object] | None, lowest: float
) -> Mapping[str, object]:
    """Return a decision without lost runs, or none where that which counts them differs or is not known."""
    if counted is not None and counted["decision"] == decision["decision"]:
        text = f"{decision['text']}; the decision is the same where they count as {lowest:g}"
    else:
        short = [str(each["text"]).partition("; ")[0] for each in (decision, counted) if each]
        text = "not decided: models lost different shares of their runs, and the decision may depend on what these "
        text += f"count; left out, {short[0]}"
        if counted:
            text += f"; as {lowest:g}, {short[1]}; say with --missing which holds ({lowest:g}, or drop)"
        else:
            text += "; a stored result has no runs to count: give the formula and the file"
        decision = {**decision, "decision": "not decided"}
    return {**decision, "text": text, "lost_runs_count_as": lowest if counted else None, "lost_runs_counted": counted}


def decide_by_group(
    results: RankResults, columns: Sequence[str], candidate: str, baseline: str, margin: float, level: float
) -> Mapping[str, object]:
    """Return the decision of the worst group; limits of all groups hold jointly by Bonferroni's inequality."""
    groups = results.by(*columns)
    each = 1 - (1 - level) / len(groups)
    found = {name: decide(groups[name], candidate, baseline, margin, each) for name in groups}
    decisions = [str(part["decision"]) for part in found.values()]
    decision = next(word for word in ("worse", "not decided", "pass") if word in decisions)
    lines = [f"  {name}: {str(part['text']).partition('; ')[0]}" for name, part in found.items()]
    jointly = f"limits hold jointly with {100 * level:g} % confidence"
    head = f"{decision}: the worst of {len(groups)} groups decides ({jointly})"
    return {"decision": decision, "level": level, "groups": found, "text": "\n".join([head, *lines])}


def decide(results: RankResults, candidate: str, baseline: str, margin: float, level: float) -> Mapping[str, object]:
    """Return the decision of a gate with its figures and one line of text.

    The candidate passes where the lower confidence limit of candidate - baseline is above -margin, and is worse where
    the upper limit is below it. Each limit holds by itself with probability ``level``. Only one of the two claims can
    be wrong, so that a wrong decision has probability 1 - level at most.
    """
    from ..inference.bootstrap_and_max_t import differences
    from ..report.statements import POWER, data_wanted, functional_unit, scores_there

    e, alpha = results.estimates, round(1 - level, 12)
    _check_margin(e, margin)
    places = [np.array([place_of(e.models, name)]) for name in (candidate, baseline)]
    gap = float(e.estimate[places[0]][0] - e.estimate[places[1]][0])
    std_error = float(differences(e.covariance.widened, *places).std_error[0])
    figures: dict[str, object] = {
        "candidate": candidate,
        "baseline": baseline,
        "margin": margin,
        "level": level,
        "difference": gap,
        "scores": functional_unit(e),
        "std_error": std_error,
    }
    if not std_error > 0:
        same = f"the difference of {candidate} and {baseline} is {gap:g} on all prompts, and says nothing about others"
        return figures | {"decision": "not decided", "text": f"not decided: {same}"}
    above, below = (results.t_test((candidate, baseline), delta=-margin, side=side) for side in ("larger", "smaller"))
    low, high = float(above.conf_int(alpha)[0, 0]), float(below.conf_int(alpha)[0, 1])
    p_pass, p_worse = float(above.pvalue), float(below.pvalue)
    digits = decimals(np.array([std_error]), fewest=fewest_decimals(e.scale.natural))
    while digits < _MOST_DIGITS and fixed_text(-margin, digits) in (fixed_text(low, digits), fixed_text(high, digits)):
        digits += 1
    shown = {name: fixed_text(value, digits) for name, value in {"gap": gap, "low": low, "high": high}.items()}
    least = f"{baseline} - {margin:g}" if margin else baseline
    about, confidence = f"difference {shown['gap']}", f"with {100 * level:.4g} % confidence"
    decision = "pass" if p_pass <= alpha else "worse" if p_worse <= alpha else "not decided"
    limit = f"the limit is {-margin:g}, " if margin else ""
    confidence += f" ({limit}P {p_value_clause(p_worse if decision == 'worse' else p_pass)})"
    looks = "" if e.sequence is None else f", {e.sequence.clause}"
    if decision == "pass":
        text = f"{candidate} is at least {least}: {about}, above {shown['low']} {confidence}{looks}"
    elif decision == "worse":
        text = f"{candidate} is below {least}: {about}, below {shown['high']} {confidence}{looks}"
    else:
        text = f"is {candidate} at least {least}? {about}, above {shown['low']} and below {shown['high']}, each "
        text += f"{confidence}{looks}"
        wanted = (above.alternative.critical(alpha) + float(scipy.stats.norm.ppf(POWER))) * std_error
        more = data_wanted(e, (wanted / abs(gap + margin)) ** 2 if gap + margin else np.inf)
        text += f"; {more[0].lower()}{more[1:]} if the difference were true" if more else ""
    figures |= {"lower": low, "upper": high, "p_pass": p_pass, "p_worse": p_worse}
    unit = "" if e.are_means else f"; scores are {functional_unit(e)}"
    of_all = f"all {len(e.models)} models: " if len(e.models) > 2 else ""
    gaps = "".join(f"; {of_all}{sentence.rstrip('.')}" for sentence in scores_there(e))
    return figures | {"decision": decision, "text": f"{decision}: {text}{unit}{gaps}"}

"""The gate of a pipeline: whether a candidate is as good as a baseline, as one line and an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._utils.argument_checks import place_of
from ..exceptions import OptionError
from ..tables.summary_table import decimals, fewest_decimals, fixed_text, p_value_clause

if TYPE_CHECKING:
    from ..data.derived_pairs import DerivedPairs
    from ..fit.estimates import Estimates
    from ..results.rank_results import RankResults
    from ..tables.summary_table import Summary

# Decisions with their exit codes; 1 and 2 are those of errors.
EXIT_CODES = {"pass": 0, "worse": 3, "not decided": 4}
# Decimals with which a limit next to the margin is shown, at most.
_MOST_DIGITS = 9
# What the runs that the candidate or the baseline lost count.
LOST = ("bounds", "left-out", "lowest")


def check_gate(candidate: str, baseline: str, margin: float, level: float) -> None:
    """Check, before a fit, the options of a gate that can be judged without the data."""
    if candidate == baseline:
        raise OptionError(f"--candidate and --baseline are both {candidate!r}; name two different models")
    if not (np.isfinite(margin) and margin >= 0):
        raise OptionError(f"--margin is {margin:g}; give a number of at least 0, in the unit of the scores")
    if not 0.5 <= level < 1:
        raise OptionError(f"--level is {level:g}; give a number from 0.5 to below 1, such as 0.95")


def _check_margin(e: Estimates, margin: float) -> None:
    """Refuse a margin that no difference of two scores can exceed, with which every candidate would pass."""
    low, high = sorted(float(e.scale.of(np.array(end))) for end in e.description.score_range) or e.limits
    if high > low and margin >= high - low and np.isfinite(high - low):
        raise OptionError(
            f"--margin is {margin:g}, but the scores lie between {low:g} and {high:g}, so that every candidate would "
            f"pass; a margin is in the unit of the scores: {(high - low) / 100:g} is 1 % of this range"
        )


def gaps_of_scores(frame: DerivedPairs, models: Sequence[str]) -> str:
    """Say on how many prompts two models have no score in comparisons derived from scores; empty where on none."""
    n_missing = {name: int(np.isnan(frame.values[:, frame.models.index(name)]).sum()) for name in models}
    counts = " and ".join(f"{n:,} of {name}" for name, n in n_missing.items() if n)
    of_any = "are left out, whatever they would count; with --run RUN the decision has to hold for any scores there"
    return counts and f"prompts without a score ({counts}) {of_any}"


def with_lost_runs(
    decision: Mapping[str, object], bounds: Sequence[Mapping[str, object]], lost: Mapping[str, int]
) -> Mapping[str, object]:
    """Return the decision that holds whatever lost runs count; ``decision`` leaves them out.

    ``bounds`` are the decision with the candidate's lost runs at the worst and the baseline's at the best score, and
    the other way round; empty where the runs are not known.
    """
    said = f"lost runs: {' and '.join(f'{n:,} of {model}' for model, n in lost.items())}"
    short = [str(each["text"]).splitlines()[0].partition("; ")[0] for each in (decision, *bounds)]
    same, found = decision, "not decided"
    holding = [each for each, wanted in zip(bounds, ("pass", "worse"), strict=False) if each["decision"] == wanted]
    if holding:
        same = decision if decision["decision"] == holding[0]["decision"] else holding[0]
        found = str(same["decision"])
        text = f"{str(same['text']).splitlines()[0]}; {said}; the decision holds whatever they count"
    elif bounds:
        text = f"not decided: {said}; left out, {short[0]}; at their worst for the candidate, "
        text += f"{short[1]}; at their best, {short[2]}; say with --lost what they count"
    else:
        text = f"not decided: {said}, and the decision may depend on what they count; left out, "
        text += f"{short[0]}; a stored result has no runs to count: give the formula and the file, or --lost left-out"
    of_bounds = dict(zip(("lost_runs_at_worst", "lost_runs_at_best"), bounds or (None, None), strict=True))
    # Below the line are those of the groups, if any.
    text = "\n".join([text, *str(same["text"]).splitlines()[1:]])
    return {**decision, "decision": found, "text": text, "lost_runs": lost, **of_bounds}


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
    the upper limit is below it; where the lowest score is the best, of baseline - candidate. Each limit holds by itself
    with probability ``level``. Only one of the two claims can be wrong, so that a wrong decision has probability
    1 - level at most.
    """
    from ..inference.bootstrap_and_max_t import differences
    from ..inference.ranks import multiple_needed
    from ..inference.score_limits import fewest_units
    from ..report.first_place import POWER, data_wanted
    from ..report.phrases import functional_unit, scores_there

    e, alpha = results.estimates, round(1 - level, 12)
    _check_margin(e, margin)
    places = [np.array([place_of(e.models, name)]) for name in (candidate, baseline)]
    gap = float(e.merit[places[0]][0] - e.merit[places[1]][0])
    std_error, plain = (float(differences(part, *places).std_error[0]) for part in (e.covariance.widened, e.covariance))
    figures: dict[str, object] = {"candidate": candidate, "baseline": baseline, "margin": margin, "level": level}
    figures |= {"difference": gap, "scores": functional_unit(e), "std_error": plain}
    if not std_error > 0:
        same = f"the difference of {candidate} and {baseline} is {gap:g} on all prompts, and says nothing about others"
        return figures | {"decision": "not decided", "text": f"not decided: {same}"}
    pair = (candidate, baseline) if e.sign > 0 else (baseline, candidate)
    above, below = (results.t_test(pair, delta=-margin, side=side) for side in ("larger", "smaller"))
    low, high = float(above.conf_int(alpha)[0, 0]), float(below.conf_int(alpha)[0, 1])
    p_pass, p_worse = float(above.pvalue), float(below.pvalue)
    digits = decimals(np.array([std_error]), fewest=fewest_decimals(e.scale.natural))
    while digits < _MOST_DIGITS and fixed_text(-margin, digits) in (fixed_text(low, digits), fixed_text(high, digits)):
        digits += 1
    shown_gap, shown_low, shown_high = (fixed_text(value, digits) for value in (gap, low, high))
    least = f"{baseline} - {margin:g}" if margin else baseline
    least += " (the lowest is the best, and a lower score counts as a gain)" * (e.sign < 0)
    decision = "pass" if p_pass <= alpha else "worse" if p_worse <= alpha else "not decided"
    limit, looks = f"the limit is {-margin:g}, " * (margin > 0), f", {e.looks}" if e.looks else ""
    found = f"P {p_value_clause(p_worse if decision == 'worse' else p_pass)}"
    claim, limits = {
        "pass": (f"{candidate} is at least {least}:", f"above {shown_low}"),
        "worse": (f"{candidate} is below {least}:", f"below {shown_high}"),
        "not decided": (f"is {candidate} at least {least}?", f"above {shown_low} and below {shown_high}, each"),
    }[decision]
    text = f"{claim} difference {shown_gap}, {limits} with {100 * level:.4g} % confidence ({limit}{found}){looks}"
    if decision == "not decided":
        more = data_wanted(e, multiple_needed(gap + margin, std_error, above.alternative.critical(alpha), POWER))
        text += f"; {more[0].lower()}{more[1:]} if the difference were true" if more and plain > 0 else ""
        if e.covariance.means is not None and margin and not looks:
            unit, n_units = "clusters" if e.description.clusters else "prompts", e.covariance.means.parts[0].n
            # What one unseen unit adds to the variance is the square of its size over the number of units.
            if (fewest := fewest_units(margin, alpha, n_units * float(np.sqrt(std_error**2 - plain**2)))) > n_units:
                text += f"; this margin needs {fewest:,} {unit}, even if none of them is lost ({n_units:,.0f} so far)"
    unit = "" if e.functional == "mean" else f"; scores are {functional_unit(e)}"
    of_all = f"all {len(e.models)} models: " if len(e.models) > 2 else ""
    gaps = "".join(f"; {of_all}{sentence.rstrip('.')}" for sentence in scores_there(e))
    figures |= {"lower": low, "upper": high, "p_pass": p_pass, "p_worse": p_worse, "decision": decision}
    return figures | {"text": f"{decision}: {text}{unit}{gaps}"}


def comment_on(results: RankResults, decision: Mapping[str, object], models: Sequence[str]) -> Summary:
    """Return what a pull request is told: the decision, both scores, what was counted, and the warnings of the fit."""
    e = results.estimates
    counted = f"{e.description.n_votes:,} {e.counts}s on {e.description.n_contexts:,} prompts were counted."
    warnings = (f"Warning: {warning}" for warning in e.diagnostics.warnings)
    notes = (*map(str.strip, str(decision["text"]).splitlines()), counted, *warnings)
    return replace(results.summary(slim=True, models=models), title=f"Gate: {decision['decision']}", notes=notes)

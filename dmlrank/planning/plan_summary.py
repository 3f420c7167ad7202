"""The summary and the picture of a plan; report/ is below planning/ and cannot import what a plan is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FEW_CLUSTERS, FloatArray, IntArray
from ..exceptions import OptionError, listed
from ..fit.direct_fits import FEWEST_PROMPTS
from ..functionals import BradleyTerry
from ..inference.ranks import leads_needed, multiple_for_all, smallest_gap
from ..plotting.charts import heat_map
from ..report.first_place import POWER
from ..report.fit_summary import choose_models, chosen_names
from ..report.phrases import counted
from ..tables.summary_table import Summary, decimals, fewest_decimals, fixed_text
from .criteria import Targets
from .problem import VoteProblem, map_blocks
from .solution import Solution, cheapest, covariance_of, critical_value, precision_of, solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A variance is larger than that of the fit if it is so many times as large: standard errors are estimates.
_LARGER = 1.02
# Largest number of contrasts, and of pairs, in a summary.
_MAX_CONTRASTS = 20
_MAX_PAIRS = 10


def plan_summary(solution: Solution, alpha: float, *, models: object = None, top: object = None) -> Summary:
    """Return the summary of a plan: its cost and predicted precision, beside those of the uniform plan."""
    problem, goal = solution.problem, solution.goal
    names, (contrasts, labels) = problem.names, goal.targets
    of_models = names == problem.models
    ranking = np.argsort(-goal.merit, kind="stable") if of_models else np.arange(len(names))
    shown = choose_models(names, ranking.tolist(), models, top, noun="model" if of_models else "output")
    counts = dict(zip(problem.models, problem.expected_by_model(solution.propensities), strict=True))
    counted_models = {model: f"{count:,.1f}" for model, count in counts.items()}
    every = np.eye(len(names)), names
    rows = [(*row, counted_models.get(row[0], "")) for row in _rows_of(solution, every, shown.places, alpha)]
    notes = list(_statements(solution, alpha))
    if not goal.of_all_scores:
        first_rows = range(len(labels))[:_MAX_CONTRASTS]
        rows += [(*row, "") for row in _rows_of(solution, (contrasts, labels), first_rows, alpha)]
        part = f" (the first {_MAX_CONTRASTS} of {len(labels)})" if len(labels) > _MAX_CONTRASTS else ""
        notes.append(f"Rows below the models are the contrasts of the plan{part}; their intervals hold jointly.")
    if isinstance(problem, VoteProblem):
        in_table = {problem.models[place] for place in shown.places} if of_models else set(problem.models)
        by_score = ranking if of_models else np.arange(len(problem.models))
        pair_rows, pair_note = _rows_of_pairs(problem, solution, by_score, in_table)
        rows, notes = [*rows, *pair_rows], [*notes, pair_note]
    heads = ("score", "std err", "uniform", f"{100 * (1 - alpha):g}% width", "ratio", problem.what)
    title = f"Plan of {problem.what.capitalize()}" if problem.of_scores else "Labelling Plan"
    header = _header(solution)
    table = Summary(title, header, tuple((head, 1) for head in heads), tuple(rows), tuple(notes))
    return table.with_notes(shown.note(f"Cost, {problem.what} and widths"))


def _rows_of(solution: Solution, targets: Targets, places: Sequence[int], alpha: float) -> Iterator[tuple[str, ...]]:
    """Yield some rows of the table of predicted precision of combinations of scores."""
    frame, names = precision_of(solution, targets, alpha, "max-t"), solution.problem.names
    candidate, digits = solution.problem.candidate, _digits(solution, frame["std_error"].to_numpy())
    for j in places:
        figures = frame[["score", "std_error", "uniform_std_error", "width"]].iloc[j]
        score, *errors = (fixed_text(number, digits) for number in figures)
        is_assumed = candidate in names and targets[0][j, names.index(candidate)] != 0
        yield targets[1][j], "assumed" if is_assumed else score, *errors, f"{frame['ratio'].iloc[j]:.3f}"


def _digits(solution: Solution, numbers: FloatArray) -> int:
    """Return the decimals of numbers in the unit of the scores."""
    return decimals(numbers, fewest=fewest_decimals(solution.problem.unit == 1.0))


# --- what the plan adds to the fit, and what it finds -----------------------------------------------------------------


def _rounds_note(solution: Solution) -> str:
    """Say what the data of the fit add to a round on new prompts; empty for plans for the prompts of the fit.

    One fit of all rows, each with the propensity of its own round, is the mean over all prompts; w is the share of the
    new ones: Sigma = (1 - w)^2 A + w^2 (Sigma of the new round alone), with A that of the fit.
    """
    problem, goal, (rows, labels) = solution.problem, solution.goal, solution.goal.targets
    # A round of its own is on as many prompts as the fit.
    w = 0.5 if problem.is_own_round else goal.share
    if w is None or goal.fit is None:
        return ""
    earlier = goal.fit.matrix * problem.n_contexts
    fit, alone, both = (1 - w) ** 2 * earlier, solution.sigma, solution.sigma
    if problem.of_scores:
        both = fit + w**2 * alone
    elif goal.counts is None:
        alone = (both - fit) / w**2
    widest = int(np.argmax(((rows @ alone) * rows).sum(axis=1)))
    errors = np.sqrt([max(rows[widest] @ each @ rows[widest], 0.0) for each in (alone, both, earlier)])
    digits = _digits(solution, errors[1:2] / np.sqrt(problem.n_contexts))
    new, joint, before = (fixed_text(float(error), digits) for error in errors / np.sqrt(problem.n_contexts))
    start = f"Standard error of {labels[widest]}:"
    if goal.counts is not None:
        return f"{start} {before} from the fit, {joint} from one fit of all rows (or with mixture_propensity)."
    # For votes a note names the mixture of all rounds' propensities.
    rest = ""
    if problem.of_scores and errors[1] > errors[2]:
        rest = " Fit the new rows by themselves: they have fewer runs, and every prompt counts the same in one fit."
    return (
        f"{start} {new} from the new prompts alone, {joint} together with the data of the fit in one fit of all rows, "
        f"each with the propensity of its own round (the fit: {before}).{rest}"
    )


def _nothing_found(solution: Solution, alpha: float) -> str:
    """Say of a plan for all scores where it finds no difference that is open so far, and which plan finds some."""
    problem, goal, scores = solution.problem, solution.goal, solution.goal.scores
    before = goal.sigma_without_plan(problem.between)
    if problem.of_scores or problem.interdependent or problem.names != problem.models:
        return ""
    order = np.argsort(-scores, kind="stable")
    first, second = (order[place] for place in np.triu_indices(len(scores), 1))
    rows = np.eye(len(scores))[first] - np.eye(len(scores))[second]
    gap, n = rows @ scores, problem.n_contexts
    of_pairs, of_one = (critical_value(solution, alpha, method) for method in ("max-t", "none"))

    def standardised(sigma: FloatArray) -> FloatArray:
        errors = np.sqrt(np.maximum(((rows @ sigma) * rows).sum(axis=1), 0) / n)
        return np.divide(gap, errors, out=np.zeros(len(gap)), where=errors > 0)

    z, known = standardised(solution.sigma), np.zeros(len(gap)) if before is None else standardised(before)
    is_open = (gap > 0) & (known < of_pairs)
    if not is_open.any() or (is_open & (z >= smallest_gap(1.0, of_pairs, POWER))).any():
        return ""
    n_labels = problem.expected_number(solution.propensities)
    start = (
        f"With {n_labels:,.6g} labels, 0 of {counted(int(is_open.sum()), 'difference')} of models "
        f"{'' if before is None else 'that the fit leaves open '}will be found with power {POWER:.2f} or more (tests "
        f"of all pairs), because they are spread over all scores."
    )
    rivals = np.flatnonzero((gap > 0) & (known < of_one) & (first == order[0]))
    closest = int(np.argmax(np.where(is_open, z, 0)))
    pair = f"({problem.models[first[closest]]!r}, {problem.models[second[closest]]!r})"
    # A random sample of the rows says about as much, and takes little time.
    sample, limits = problem.in_sample(solution.limits)
    for call, asked, critical in (("top=1", rivals, of_one), (f"contrasts={pair}", np.array([closest]), of_pairs)):
        if len(asked) and goal.criterion == "A":
            plan = solve(Solution, sample, replace(goal, rows=rows[asked]), limits, certify=False)
            after = standardised(plan.sigma)[asked]
            if found := int((after >= smallest_gap(1.0, critical, POWER)).sum()):
                return f"{start} With {call}, {found} of {counted(len(asked), 'difference')} will be."
    by_counts = isinstance(problem.functional, BradleyTerry) and problem.functional.edge_weights is None
    advice = "a fit with pairs='arena' needs the fewest labels" if by_counts else "more labels are needed"
    return f"{start} For the leader against its rivals (top=1) {advice}." if len(rivals) else start


def _differences_found(solution: Solution, alpha: float) -> str:
    """Say how many differences of two models the plan is expected to find, alone and at once, and at which budget."""
    problem, goal, (rows, labels) = solution.problem, solution.goal, solution.goal.targets
    is_difference = (np.sort(rows, axis=1)[:, [0, -1]] == [-1, 1]).all(axis=1) & (np.abs(rows).sum(axis=1) == 2)
    if not is_difference.any():
        return ""
    is_alone, is_first = len(rows) == 1, goal.top == 1
    rows, labels = rows[is_difference], tuple(labels[j] for j in np.flatnonzero(is_difference))
    # A difference is found with the power if it is so many standard errors. One that is planned for alone is one test.
    critical = critical_value(solution, alpha, "none" if is_alone or is_first else "max-t")
    needed = smallest_gap(1.0, critical, POWER) * covariance_of(solution, rows).widened.std_errors
    gap = np.abs(rows @ goal.scores)
    is_equal, is_found = gap == 0, (gap > 0) & (gap >= needed)
    start = f"With {problem.expected_number(solution.propensities):,.6g} {problem.what}"
    least = fixed_text(float(needed[is_equal | ~is_equal.any()].max()), _digits(solution, needed))
    at_least = f"at least {least}{' tested alone' if is_alone else ''}"
    sentences = []
    if not is_equal.all():
        found = f"{is_found.sum()} of {counted(int((~is_equal).sum()), 'difference')}"
        tests = "test of first place" if is_first else f"it takes {at_least}" if is_alone else "tests of all pairs"
        at_once, wanted = _all_at_once(solution, (rows, labels), critical, is_equal, is_found)
        sentences.append(
            f"{start}, {found} will be found with power {POWER:.2f} or more{at_once}, if the present estimates are "
            f"right ({tests}){wanted}."
        )
    if is_equal.any():
        known = "assumed to be" if problem.candidate else "estimated as"
        sentences.append(
            f"{start}, a difference that is {known} zero is found with power {POWER:.2f} if it is {at_least}."
        )
    return " ".join(sentences)


def _all_at_once(
    solution: Solution, targets: Targets, critical: float, is_equal: NDArray[np.bool_], is_found: NDArray[np.bool_]
) -> tuple[str, str]:
    """Say with which power all differences are found at once, and how many labels this takes."""
    (rows, labels), problem, goal = targets, solution.problem, solution.goal
    names, scores, is_first = problem.names, goal.merit, goal.top == 1
    rows = rows * np.sign(rows @ scores)[:, None]
    if is_first:
        placed = np.setdiff1d(np.arange(len(scores)), goal.aside)
        best = placed[int(np.argmax(scores[placed]))]
        rows = np.eye(len(scores))[best] - np.eye(len(scores))[placed]
        labels = tuple(f"{names[best]} - {names[j]}" for j in placed)
    is_lead = rows @ scores > 0
    rows, labels = rows[is_lead], tuple(labels[j] for j in np.flatnonzero(is_lead))
    leads, covariance = rows @ scores, covariance_of(solution, rows).widened
    power = float((leads_needed(leads, covariance.factor, critical) <= 1).mean())
    at_once, need, aim = "", "all at once need", "for all at once"
    if is_first:
        need, aim = "deciding first place needs", "to decide first place"
    elif len(leads) == 1:
        need, aim = "it needs", "for it"
    if len(leads) > 1 and not (is_first and is_equal.any()):
        what = "all of them at once"
        if is_first:
            what = f"first place ({names[best]} above all {len(placed) - 1} others at once)"
        at_once = f", {what} with power {power:.2f}"
    # In an interdependent problem a search for a budget takes long.
    if ((is_found | is_equal).all() and round(power, 2) >= POWER) or problem.interdependent:
        return at_once, ""
    is_added = goal.earlier is not None
    if is_added and goal.share is None and problem.n_contexts <= FEW_CLUSTERS and not problem.fixed_prompts:
        return at_once, f"; {problem.n_contexts} prompts are too few to say how many labels it takes {aim}"
    hardest = labels[int(np.argmax(covariance.std_errors / leads))]
    elsewhere = "; the fit's summary says how many without a plan" if is_first and is_added else ""
    most = f" ({hardest} needs the most{elsewhere})" if len(leads) > 1 else ""

    def relative_gap(of: Solution) -> float:
        covariance = covariance_of(replace(of, problem=problem)).widened
        return float(np.sqrt(multiple_for_all(leads, rows, covariance, critical, POWER)))

    # A random sample of the rows says about as much, and takes little time.
    sample, limits = problem.in_sample(solution.limits)
    start = replace(limits, budget=limits.budget * relative_gap(solution) ** 2)
    enough, least = cheapest(replace(solution, problem=sample, limits=start), relative_gap)
    if least > 1:
        more = "" if is_added else f", about {int(np.ceil(problem.n_contexts * least**2)):,} like these"
        return at_once, (
            f"; all {problem.what} that these prompts allow are too few {aim}{most}, so more prompts are needed{more}"
        )
    number = sample.expected_number(enough.propensities) * solution.budget / limits.budget
    wanted = float(f"{np.ceil(number):.2g}")
    return at_once, f"; {need} about {wanted:,.6g}{' further independent' * is_added} {problem.what}{most}"


# --- the table of pairs, the header and the notes ---------------------------------------------------------------------


def _rows_of_pairs(
    problem: VoteProblem, solution: Solution, by_score: IntArray, in_table: Set[str]
) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows of the pairs with the most expected labels, and a note on them and on all other pairs."""
    models, labels = problem.models, problem.both_orders(problem.expected_labels(solution.propensities))
    first, second = (by_score[place] for place in np.triu_indices(len(models), 1))
    total = labels[first, second]
    order = np.argsort(-total, kind="stable")
    chosen = [p for p in order if total[p] > 0 and {models[first[p]], models[second[p]]} & in_table][:_MAX_PAIRS]
    rows = [(f"{models[first[p]]} vs. {models[second[p]]}", *[""] * 5, f"{total[p]:,.1f}") for p in chosen]
    is_all = len(chosen) == np.count_nonzero(total)
    uniform = problem.uniform(solution.expected_cost) * problem.n_contexts * (1 + problem.ordered)
    which = "all pairs" if is_all else "the pairs with the most expected labels"
    which += "" if len(in_table) == len(models) else " in which a model of the table is compared"
    which += ", both display orders together" if problem.ordered else ""
    note = f"The rows with 'vs.' are {which}; the uniform plan has {uniform:,.1f} labels of each pair."
    rest = f" All other pairs of the plan have {total.sum() - total[chosen].sum():,.1f} labels together."
    return rows, note + ("" if is_all else rest)


def _header(solution: Solution) -> tuple[tuple[str, str, str, str], ...]:
    """Return the entries above the table."""
    problem, goal, words = solution.problem, solution.goal, solution.problem.words(solution.goal.earlier is not None)
    number = problem.expected_number(solution.propensities)
    kind = {"A": "A (sum of variances)", "D": "D (log determinant)"}[goal.criterion]
    criterion = f"{kind}, {'all scores' if goal.of_all_scores else counted(len(goal.targets[1]), 'contrast')}"

    def limits_of(rows: slice) -> tuple[float, float]:
        block = solution.propensities[rows]
        return float(block.min()), float(block.max())

    lowest, highest = zip(*map_blocks(limits_of, problem.shape), strict=True)
    objective, uniform = (goal.objective(sigma) for sigma in (solution.sigma, solution.uniform_sigma))
    functional = "bt (Bradley-Terry assumed)" if problem.interdependent else problem.functional.label
    budget = f"{solution.budget:,.6g} ({'slack' if solution.slack else 'binding'})"
    share, per_prompt = solution.limits.explore, "at most one" if problem.one_pair else "any number"
    return (
        ("Functional:", functional, "No. Prompts:", f"{problem.n_contexts:,}"),
        ("Criterion:", criterion, words["cells"], words["number"]),
        ("Budget:", budget, "Expected cost:", f"{solution.expected_cost:,.6g}"),
        ("Propensity:", f"{min(lowest):.3g} to {max(highest):.3g}", f"Expected {problem.what}:", f"{number:,.1f}"),
        (f"{problem.what.capitalize()} per prompt:", per_prompt, "Uniform plan's share:", f"{100 * share:g} %"),
        ("Objective:", f"{objective:.5g}", "Uniform plan's:", f"{uniform:.5g}"),
    )


def _statements(solution: Solution, alpha: float) -> Iterator[str]:
    """Yield the notes below the table, the most important first."""
    problem, goal, cost, level = solution.problem, solution.goal, solution.expected_cost, f"{100 * (1 - alpha):g}%"
    what, words = problem.what, problem.words(goal.earlier is not None)
    found = _nothing_found(solution, alpha) if goal.of_all_scores else _differences_found(solution, alpha)
    news = [*goal.remarks, found, _rounds_note(solution)]
    if goal.of_all_scores and found:
        news = [found, *goal.remarks, _rounds_note(solution)]
    if any(news):
        yield " ".join(filter(None, news))
    yield (
        f"Standard errors are predicted for {words['fit']}. uniform: {words['uniform']}, at "
        f"the same cost; ratio: std err / uniform. {level} width: of simultaneous intervals (max-t). {what}: "
        f"{words['labels']}"
    )
    if solution.slack and cost < (1 - 1e-9) * solution.budget:
        times = int(solution.budget / max(cost, 1e-300)) if problem.of_scores else 1
        rest = f", or run every planned cell {times:,} times (a fit takes the mean of its runs)" if times > 1 else ""
        start = f"The budget is slack: all {what} that make the plan's scores more precise cost {cost:,.6g} together"
        yield f"{start}. Use the rest for further prompts{rest}."
    rows = np.vstack([np.eye(len(solution.sigma)), goal.targets[0]])
    sigmas = (solution.sigma if goal.earlier is None else goal.earlier, solution.sigma)
    before, after = (((rows @ sigma) * rows).sum(axis=1) for sigma in sigmas)
    if (after > _LARGER * before).any():
        yield (
            "Some standard error is larger than that of the fit without the planned labels: few labels on many new "
            "prompts get the weight of these (plan for fewer, or fit all rows with mixture_propensity), and weights by "
            "counts follow labels."
        )
    if isinstance(problem, VoteProblem) and not problem.ordered:
        yield "The display order of a pair is drawn at random; fit the labels with position_bias=False."
    if problem.is_own_round:
        yield (
            "Samples have the identifiers of the fit's prompts. For new prompts of the same kind, put the identifier "
            "(and features) of one in the place of each, at random, also in rows without a model, and fit with "
            "propensity='propensity' in place of the plan."
        )
    if thin := thin_models(solution):
        yield f"{listed(thin, 5)} will have too few runs for intervals; leave them out (min_votes={FEWEST_PROMPTS})."


def thin_models(solution: Solution) -> tuple[str, ...]:
    """Return the models that a round of its own runs on too few prompts for a fit; none where it is for one of them."""
    problem, goal = solution.problem, solution.goal
    if not problem.is_own_round or goal.of_all_scores:
        return ()
    is_thin = problem.expected_by_model(solution.propensities) < FEWEST_PROMPTS
    if (is_thin & (goal.targets[0] != 0).any(axis=0)).any():
        return ()
    return tuple(problem.models[j] for j in np.flatnonzero(is_thin))


def draw_plan(solution: Solution, ax: Axes | None, models: Sequence[str] | None) -> Axes:
    """Draw the expected labels by pair, see :meth:`Plan.plot`."""
    problem = solution.problem
    assert isinstance(problem, VoteProblem)
    names = list(chosen_names(problem.models, models))
    if len(names) < 2:
        raise OptionError(f"a picture of pairs needs two models, and models= names one: {names[0]!r}")
    chosen = [problem.models.index(name) for name in names]
    labels = problem.expected_labels(solution.propensities)[np.ix_(chosen, chosen)]
    size = f"{problem.n_contexts:,} prompts, expected cost {solution.expected_cost:,.5g}"
    label = "expected labels" + (", first model in rows" if problem.ordered else ", either order")
    return heat_map(names, labels, label, ax, title=f"{solution.goal.criterion}-optimal plan: {size}")

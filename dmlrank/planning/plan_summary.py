"""The summary and the picture of a plan; report/ is below planning/ and cannot import what a plan is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from ..data.vote_columns import FEW_CLUSTERS
from ..exceptions import OptionError, listed
from ..fit.direct_fits import FEWEST_PROMPTS
from ..inference.ranks import leads_needed, smallest_gap
from ..plotting.heat_maps import heat_map
from ..report.first_place import POWER
from ..report.fit_summary import choose_models, chosen_names
from ..report.statements import counted
from ..tables.display_text import decimals, fewest_decimals, fixed_text
from ..tables.summary_table import Summary
from .allocation import map_blocks
from .criteria import Targets
from .precision import cheapest_solution, covariance_of, pair_critical_value, predicted_precision
from .problem import VoteProblem
from .search import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A variance is larger than that of the fit if it is so many times as large: standard errors are estimates.
_LARGER = 1.02
# Largest number of contrasts, and of pairs, in a summary.
_MAX_CONTRASTS = 20
_MAX_PAIRS = 10


def plan_summary(solution: Solution, alpha: float, *, models: object = None, top: object = None) -> Summary:
    """Return the summary of a plan: its cost and predicted precision, beside those of the uniform plan."""
    specification, problem = solution.specification, solution.specification.problem
    names, all_models, (contrasts, labels) = specification.names, problem.models, specification.contrasts
    of_models = names == all_models
    if top is not None and not of_models:
        raise OptionError(
            f"top= shows the models with the highest scores, and the outputs of this functional ({listed(names, 5)}) "
            f"are not scores of models; use models= with names of outputs"
        )
    ranking = np.argsort(-specification.scores, kind="stable") if of_models else np.arange(len(names))
    shown = choose_models(names, ranking.tolist(), models, top, noun="model" if of_models else "output")
    per_model = problem.expected_by_model(solution.propensities)
    counts = {model: f"{count:,.1f}" for model, count in zip(all_models, per_model, strict=True)}
    rows = [
        (*row, counts.get(row[0], "")) for row in _rows_of(solution, (np.eye(len(names)), names), shown.places, alpha)
    ]
    level = f"{100 * (1 - alpha):g}%"
    news = " ".join(filter(None, [specification.remark, _power_note(solution, alpha), _rounds_note(solution)]))
    notes = [*filter(None, [news]), *(_notes_on_runs if problem.of_scores else _notes_on_labels)(solution, level)]
    if labels:
        first = range(len(labels))[:_MAX_CONTRASTS]
        rows += [(*row, "") for row in _rows_of(solution, (contrasts, labels), first, alpha)]
        part = f" (the first {_MAX_CONTRASTS} of {len(labels)})" if len(labels) > _MAX_CONTRASTS else ""
        notes.append(
            f"The rows below the models are the contrasts that the plan is for{part}; their intervals hold jointly."
        )
    if isinstance(problem, VoteProblem):
        in_table = {all_models[place] for place in shown.places} if of_models else set(all_models)
        by_score = ranking if of_models else np.arange(len(all_models))
        pair_rows, pair_note = _rows_of_pairs(problem, solution, by_score, in_table)
        rows, notes = [*rows, *pair_rows], [*notes, pair_note]
    heads = ("score", "std err", "uniform", f"{level} width", "ratio", problem.what)
    title = "Plan of Runs" if problem.of_scores else "Labelling Plan"
    header = _header(solution, float(per_model.sum()))
    table = Summary(title, header, tuple((head, 1) for head in heads), tuple(rows), tuple(notes))
    return table.with_notes(shown.note(f"Cost, {problem.what} and widths"))


def _rows_of(solution: Solution, targets: Targets, places: Sequence[int], alpha: float) -> Iterator[tuple[str, ...]]:
    """Yield some rows of the table of predicted precision of combinations of scores."""
    frame, names = predicted_precision(solution, targets, alpha, "max-t"), solution.specification.names
    candidate, digits = solution.specification.goal.candidate, _digits(solution, frame["std_error"].to_numpy())
    for j in places:
        figures = frame[["score", "std_error", "uniform_std_error", "width"]].iloc[j]
        score, *errors = (fixed_text(number, digits) for number in figures)
        is_assumed = candidate in names and targets[0][j, names.index(candidate)] != 0
        yield targets[1][j], "assumed" if is_assumed else score, *errors, f"{frame['ratio'].iloc[j]:.3f}"


def _digits(solution: Solution, numbers: FloatArray) -> int:
    """Return the decimals of numbers in the unit of the scores."""
    return decimals(numbers, fewest=fewest_decimals(solution.specification.problem.unit == 1.0))


# --- what the plan adds to the fit, and what it finds -----------------------------------------------------------------


def _rounds_note(solution: Solution) -> str:
    """Say what the data of the fit add to a round on new prompts; empty for plans for the prompts of the fit.

    One fit of all rows, each with the propensity of its own round, is the mean over all prompts; w is the share of the
    new ones: Sigma = (1 - w)^2 A + w^2 (Sigma of the new round alone), with A that of the fit.
    """
    specification, goal = solution.specification, solution.specification.goal
    if goal.earlier is None or goal.share is None:
        return ""
    problem, (rows, labels), w = specification.problem, specification.targets, goal.share
    fit, alone, both = (1 - w) ** 2 * goal.earlier, solution.sigma, solution.sigma
    if problem.of_scores:
        both = fit + w**2 * alone
    elif goal.counts is None:
        alone = (both - fit) / w**2
    of_new = np.einsum("jk,kl,jl->j", rows, alone, rows)
    row = rows[int(np.argmax(of_new))]
    sigmas = (alone, both, goal.earlier)
    errors = [np.sqrt(max(row @ sigma @ row, 0.0) / problem.n_contexts) for sigma in sigmas]
    weighted = float(1 / np.hypot(1 / errors[0], 1 / errors[2])) if errors[0] and errors[2] else 0.0
    digits = _digits(solution, np.array(errors[1:2]))
    new, joint, before, mean = (fixed_text(error, digits) for error in (*errors, weighted))
    start = f"Standard error of {labels[int(np.argmax(of_new))]}:"
    if goal.counts is not None:
        return (
            f"{start} {before} from the fit, {joint} from one fit of all rows (with estimated propensities, or those "
            f"of mixture_propensity)."
        )
    start += f" {new} from the new prompts alone"
    # For votes a note names the mixture of all rounds' propensities.
    if problem.of_scores and errors[1] > errors[2]:
        return (
            f"{start}, {before} from the fit alone. Do not fit the rows of both together, each with the propensity of "
            f"its own round: that gives {joint}, because every prompt then counts the same, and the new ones have "
            f"fewer runs. Fit the new rows by themselves; the mean of the two estimates, weighted by 1 / (standard "
            f"error)^2, has the standard error {mean}."
        )
    return (
        f"{start}, {joint} together with the data of the fit in one fit of all rows, each with the propensity of its "
        f"own round (the fit: {before})."
    )


def _power_note(solution: Solution, alpha: float) -> str:
    """Say how many differences of two models the plan is expected to find, alone and at once, and at which budget."""
    specification, problem = solution.specification, solution.specification.problem
    rows, labels = specification.contrasts
    is_difference = (np.sort(rows, axis=1)[:, [0, -1]] == [-1, 1]).all(axis=1) & (np.abs(rows).sum(axis=1) == 2)
    if not is_difference.any():
        return ""
    n_scores, is_alone, is_first = len(specification.scores), len(rows) == 1, specification.is_first_place
    rows, labels = rows[is_difference], tuple(labels[j] for j in np.flatnonzero(is_difference))
    # A difference is found with the power if it is so many standard errors. One that is planned for alone is one test.
    single = pair_critical_value(solution, alpha, "none" if is_alone or is_first else "max-t")
    error = covariance_of(specification, solution.sigma, rows).std_errors
    needed, gap = smallest_gap(1.0, single, POWER) * error, np.abs(rows @ specification.scores)
    is_equal, is_found = gap == 0, (gap > 0) & (gap >= needed)
    number = float(problem.expected_by_model(solution.propensities).sum()) / (1 if problem.of_scores else 2)
    # Costs need not be numbers of labels.
    is_number = bool(np.isclose(number, solution.expected_cost))
    start = f"With {number:,.6g} {problem.what}" if is_number else "With this budget"
    digits = _digits(solution, needed)
    at_least = f"at least {fixed_text(float(needed[is_equal | ~is_equal.any()].max()), digits)}"
    if is_alone and n_scores > 2:
        critical = pair_critical_value(solution, alpha, "max-t")
        of_pairs = fixed_text(smallest_gap(float(error[0]), critical, POWER), digits)
        at_least += f" tested alone, {of_pairs} among all {n_scores * (n_scores - 1) // 2:,} pairs"
    sentences = []
    if not is_equal.all():
        found = f"{is_found.sum()} of {counted(int((~is_equal).sum()), 'difference')}"
        tests = "test of first place" if is_first else f"it takes {at_least}" if is_alone else "tests of all pairs"
        at_once, wanted = _all_at_once(solution, (rows, labels), single, is_equal, is_found, is_number)
        sentences.append(
            f"{start}, {found} will be found with power {POWER:.2f} or more{at_once}, if the present estimates are "
            f"right ({tests}){wanted}."
        )
    if is_equal.any():
        known = "assumed to be" if specification.goal.candidate else "estimated as"
        sentences.append(
            f"{start}, a difference that is {known} zero is found with power {POWER:.2f} if it is {at_least}."
        )
    return " ".join(sentences)


def _all_at_once(
    solution: Solution,
    targets: Targets,
    critical: float,
    is_equal: NDArray[np.bool_],
    is_found: NDArray[np.bool_],
    is_number: bool,
) -> tuple[str, str]:
    """Say with which power all differences are found at once, and how many labels this takes."""
    specification, (joint, labels) = solution.specification, targets
    problem, goal, scores, names = specification.problem, specification.goal, specification.scores, specification.names
    is_first, best = specification.is_first_place, int(np.argmax(specification.scores))
    joint = joint * np.sign(joint @ scores)[:, None]
    if is_first:
        joint = np.eye(len(scores))[best] - np.eye(len(scores))
        labels = tuple(f"{names[best]} - {name}" for name in names)
    is_lead = joint @ scores > 0
    joint, labels = joint[is_lead], tuple(labels[j] for j in np.flatnonzero(is_lead))
    leads = joint @ scores

    def multiples(of: Solution) -> FloatArray:
        """Draw the multiple of the leads at which all of them are found, (draws,)."""
        return leads_needed(leads, covariance_of(specification, of.sigma, joint).factor, critical, goal.seed)

    def relative_gap(of: Solution) -> float:
        return float(np.quantile(multiples(of), POWER))

    is_added = goal.earlier is not None and not problem.of_scores
    power, at_once = float((multiples(solution) <= 1).mean()), ""
    need, aim = "all at once need", "for all at once"
    if is_first:
        need, aim = "deciding first place needs", "to decide first place"
    elif len(specification.contrasts[1]) == 1:
        need, aim = "it needs", "for it"
    if len(leads) > 1 and not (is_first and is_equal.any()):
        first = f"first place ({names[best]} above all {len(scores) - 1} others at once)"
        at_once = f", {first if is_first else 'all of them at once'} with power {power:.2f}"
    if (is_found | is_equal).all() and round(power, 2) >= POWER:
        return at_once, ""
    if is_added and goal.share is None and problem.n_contexts <= FEW_CLUSTERS and not problem.fixed_prompts:
        return at_once, f"; {problem.n_contexts} prompts are too few to say how many labels it takes {aim}"
    if problem.interdependent:
        # A search for a budget takes long.
        return at_once, ""
    hardest = labels[int(np.argmax(covariance_of(specification, solution.sigma, joint).std_errors / leads))]
    elsewhere = "; the fit's summary says how many without a plan" if is_first and is_added else ""
    most = f" ({hardest} needs the most{elsewhere})" if len(leads) > 1 else ""
    # A random sample of the rows says about as much, and takes little time.
    sample = problem.sample() or problem
    share = sample.total_cost / problem.total_cost
    start, small = share * solution.budget * relative_gap(solution) ** 2, replace(specification, problem=sample)
    try:
        enough = cheapest_solution(small, start, relative_gap, lambda _: "").expected_cost / share
    except OptionError:
        all_labels = f"all {problem.what} that these prompts allow"
        return at_once, f"; {all_labels} are too few {aim}{most}, so more prompts are needed"
    independent = f" further independent {problem.what}" if is_added and is_number else ""
    return at_once, f"; {need} about {float(f'{np.ceil(enough):.2g}'):,.6g}{independent}{most}"


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
    uniform = problem.uniform(solution.budget) * problem.n_contexts * (1 + problem.ordered)
    which = "all pairs" if is_all else "the pairs with the most expected labels"
    which += "" if len(in_table) == len(models) else " in which a model of the table is compared"
    which += ", both display orders together" if problem.ordered else ""
    note = f"The rows with 'vs.' are {which}; the uniform plan has {uniform:,.1f} labels of each pair."
    rest = (
        "" if is_all else f" All other pairs of the plan have {total.sum() - total[chosen].sum():,.1f} labels together."
    )
    return rows, note + rest


def _header(solution: Solution, n_runs: float) -> tuple[tuple[str, str, str, str], ...]:
    """Return the entries above the table; ``n_runs`` counts a label for both of its models."""
    specification, problem = solution.specification, solution.specification.problem
    n_contrasts = len(specification.contrasts[1])
    kind = {"A": "A (sum of variances)", "D": "D (log determinant)"}[specification.goal.criterion]
    criterion = f"{kind}, {f'{n_contrasts} contrasts' if n_contrasts else 'all scores'}"
    functional = "bt (Bradley-Terry assumed)" if problem.interdependent else problem.functional.label
    budget = f"{solution.budget:,.6g} ({'slack' if solution.slack else 'binding'})"
    cost, n_contexts = f"{solution.expected_cost:,.6g}", f"{problem.n_contexts:,}"

    def limits_of(rows: slice) -> tuple[float, float]:
        block = solution.propensities[rows]
        return float(block.min()), float(block.max())

    lowest, highest = zip(*map_blocks(limits_of, problem.shape), strict=True)
    propensity = f"{min(lowest):.3g} to {max(highest):.3g}"
    if not isinstance(problem, VoteProblem):
        return (
            ("Functional:", functional, "No. Prompts:", n_contexts),
            ("Criterion:", criterion, "Expected runs:", f"{n_runs:,.1f}"),
            ("Budget:", budget, "Expected cost:", cost),
            ("Propensity:", propensity, "Groups of models:", f"{problem.n_cells}"),
        )
    objective, uniform = (specification.objective(sigma) for sigma in (solution.sigma, solution.uniform_sigma))
    return (
        ("Functional:", functional, "No. Contexts:", n_contexts),
        ("Criterion:", criterion, "Pairs:", f"{problem.n_cells} {'ordered' if problem.ordered else 'unordered'}"),
        ("Budget:", budget, "Labels per context:", "at most one" if problem.one_pair else "any number"),
        ("Expected cost:", cost, "Expected labels:", f"{n_runs / 2:,.1f}"),
        ("Propensity:", propensity, "Uniform plan's share:", f"{100 * specification.limits.explore:g} %"),
        ("Objective:", f"{objective:.5g}", "Uniform plan's:", f"{uniform:.5g}"),
    )


def _notes_on_runs(solution: Solution, level: str) -> Iterator[str]:
    """Yield the notes below the table of a plan for scores."""
    specification, cost = solution.specification, solution.expected_cost
    has_runs = specification.problem.spent > 0 or specification.goal.candidate
    yield (
        f"Standard errors are predicted for a fit of {'all runs' if has_runs else 'these runs alone'} with "
        f"propensity=plan. uniform: all models that are not complete, on the same random prompts, at the same cost; "
        f"ratio: std err / uniform. {level} width: of simultaneous intervals (max-t). runs: expected number of further "
        f"runs. A model is run once on a prompt: another prompt is worth more than another run, until all are run."
    )
    if solution.slack:
        times = int(solution.budget / max(cost, 1e-300))
        rest = f", or run every planned cell {times} times (a fit takes the mean of its runs)" if times > 1 else ""
        yield (
            f"The budget is slack: one run of every cell that makes the plan's scores more precise costs {cost:,.6g} "
            f"together. Use the rest to run all models on further prompts{rest}."
        )
    if specification.goal.earlier is not None:
        yield (
            "Samples have the identifiers of the fit's prompts. For new prompts of the same kind, put the identifier "
            "(and features) of one new prompt in the place of each, at random, also in rows without a model, and fit "
            "with the column of propensities (propensity='propensity') in place of the plan."
        )
    if thin := thin_models(solution):
        yield (
            f"{listed(thin, 5)} will have too few runs for intervals; leave them out of the fit (min_votes="
            f"{FEWEST_PROMPTS}), where they keep ranks open."
        )


def _notes_on_labels(solution: Solution, level: str) -> Iterator[str]:
    """Yield the notes below the table of a plan of labels."""
    specification, earlier = solution.specification, solution.specification.earlier
    source = "the planned labels alone" if earlier is None else "the labels of the fit and the planned labels together"
    yield (
        f"Standard errors are predicted for an estimate from {source}. uniform: all pairs with the same probability, "
        f"at the same cost; ratio: std err / uniform. {level} width: of simultaneous intervals (max-t). labels: "
        f"expected number in which the model, or the pair, is compared. Labels of different prompts are "
        f"taken as independent: if annotators or other clusters give several of the new labels, standard errors may be "
        f"larger than predicted."
    )
    if solution.slack:
        yield (
            f"The budget is slack: all labels that can make the plan's scores more precise cost "
            f"{solution.expected_cost:,.6g} together. Plan for more contexts to use a larger budget."
        )
    rows = np.vstack([np.eye(len(solution.sigma)), specification.contrasts[0]])
    sigmas = (solution.sigma if earlier is None else earlier, solution.sigma)
    before, after = (((rows @ sigma) * rows).sum(axis=1) for sigma in sigmas)
    if (after > _LARGER * before).any():
        why = (
            "every prompt has the same weight in one fit of all rows, and these labels are few for so many new "
            "prompts. Plan for fewer prompts, or fit all rows with the mixture of all rounds' propensities "
            "(mixture_propensity)"
        )
        if specification.goal.counts is not None:
            why = (
                "with weights by counts, pairs that get labels get more weight, also those whose labels vary more; "
                "other weights (edge_weights=) stay as they are"
            )
        yield (
            f"For some scores or contrasts the standard error is larger than that of the fit without the planned "
            f"labels: {why}."
        )
    if isinstance(specification.problem, VoteProblem) and not specification.problem.ordered:
        yield "The display order of a pair is drawn at random; fit the labels with position_bias=False."


def thin_models(solution: Solution) -> tuple[str, ...]:
    """Return the models that a round of its own runs on too few prompts for a fit; none where it is for one of them."""
    specification, problem = solution.specification, solution.specification.problem
    contrasts = specification.contrasts[0]
    if not problem.of_scores or problem.spent or specification.goal.candidate or not len(contrasts):
        return ()
    is_thin = problem.expected_by_model(solution.propensities) < FEWEST_PROMPTS
    if (is_thin & (contrasts != 0).any(axis=0)).any():
        return ()
    return tuple(problem.models[j] for j in np.flatnonzero(is_thin))


def draw_plan(solution: Solution, ax: Axes | None, models: Sequence[str] | None) -> Axes:
    """Draw the expected labels by pair, see :meth:`Plan.plot`."""
    problem = solution.specification.problem
    assert isinstance(problem, VoteProblem)
    names = list(chosen_names(problem.models, models))
    if len(names) < 2:
        raise OptionError(f"a picture of pairs needs two models, and models= names one: {names[0]!r}")
    chosen = [problem.models.index(name) for name in names]
    labels = problem.expected_labels(solution.propensities)[np.ix_(chosen, chosen)]
    title = (
        f"{solution.specification.goal.criterion}-optimal plan: {problem.n_contexts:,} prompts, expected cost "
        f"{solution.expected_cost:,.5g}"
    )
    label = "expected labels" + (", first model in rows" if problem.ordered else ", either order")
    return heat_map(names, labels, label, ax, title=title)

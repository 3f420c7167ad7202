"""The summary and the pictures of a plan; report/ is below planning/ and cannot import what a plan is made of."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

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
from .precision import cheapest_solution, contrast_covariance, pair_critical_value, predicted_precision
from .search import PlanSolution, PlanSpecification, Targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A variance is larger than that of the fit if it is so many times as large: standard errors are estimates.
_LARGER = 1.02
# Largest number of contrasts, and of pairs, in a summary.
_MAX_CONTRASTS = 20
_MAX_PAIRS = 10

_NEW_PROMPTS = (
    "Samples have the identifiers of the fit's prompts. For new prompts of the same kind, put the identifier (and "
    "features) of one new prompt in the place of each, at random, also in rows without a model, and fit with the "
    "column of propensities "
    "(propensity='propensity') in place of the plan, which does not know the new identifiers."
)


def plan_summary(
    specification: PlanSpecification, solution: PlanSolution, alpha: float, *, models: object = None, top: object = None
) -> Summary:
    """Return the summary of a plan: its cost and predicted precision, beside those of the uniform plan."""
    all_models, names, problem = specification.names.models, specification.names.scores, specification.problem
    of_models, of_scores = names == all_models, problem.of_scores
    if top is not None and not of_models:
        raise OptionError(
            "top= shows the models with the highest scores, and the outputs of this functional "
            f"({listed(names, 5)}) are not scores of models; use models= with names of outputs"
        )

    def precision_rows(targets: Targets, places: Sequence[int]) -> list[tuple[str, ...]]:
        """Return some rows of the table of predicted precision of combinations of scores."""
        frame = predicted_precision(specification, solution, targets, alpha, "max-t")
        digits = decimals(frame["std_error"].to_numpy(), fewest=fewest_decimals(problem.unit == 1.0))
        numbers = frame[["score", "std_error", "uniform_std_error", "width"]].to_numpy()
        rows = [
            (targets[1][j], *(fixed_text(number, digits) for number in numbers[j]), f"{frame['ratio'].iloc[j]:.3f}")
            for j in places
        ]
        if specification.candidate not in names:
            return rows
        has_candidate = targets[0][:, names.index(specification.candidate)] != 0
        return [(row[0], "assumed", *row[2:]) if has_candidate[j] else row for j, row in zip(places, rows, strict=True)]

    ranking = np.argsort(-specification.scores, kind="stable") if of_models else np.arange(len(names))
    shown = choose_models(names, ranking.tolist(), models, top, noun="model" if of_models else "output")
    per_model = problem.expected_by_model(solution.propensities)
    counts = {model: f"{count:,.1f}" for model, count in zip(all_models, per_model, strict=True)}
    rows = [(*row, counts.get(row[0], "")) for row in precision_rows((np.eye(len(names)), names), shown.places)]
    level = f"{100 * (1 - alpha):g}%"
    news = filter(
        None, [specification.remark, _power_note(specification, solution, alpha), _rounds_note(specification, solution)]
    )
    notes = [*filter(None, [" ".join(news)]), *_notes(specification, solution, level)]
    n_contrasts = len(specification.contrasts)
    if n_contrasts:
        places = range(min(n_contrasts, _MAX_CONTRASTS))
        rows += [(*row, "") for row in precision_rows(specification.targets, places)]
        part = f" (the first {_MAX_CONTRASTS} of {n_contrasts})" if n_contrasts > _MAX_CONTRASTS else ""
        notes.append(
            f"The rows below the models are the contrasts that the plan is for{part}; their intervals hold jointly."
        )
    in_table = {all_models[place] for place in shown.places} if of_models else set(all_models)
    by_score = ranking if of_models else np.arange(len(all_models))
    heads = ("score", "std err", "uniform", f"{level} width", "ratio", "runs" if of_scores else "labels")
    if not of_scores:
        pair_rows, pair_note = _rows_of_pairs(specification, solution, by_score, in_table)
        rows, notes = [*rows, *pair_rows], [*notes, pair_note]
    table = Summary(
        "Plan of Runs" if of_scores else "Labelling Plan",
        _header(specification, solution, float(per_model.sum())),
        tuple((head, 1) for head in heads),
        tuple(rows),
        tuple(notes),
    )
    return table.with_notes(shown.note(f"Cost, {heads[-1]} and widths"))


def _rounds_note(specification: PlanSpecification, solution: PlanSolution) -> str:
    """Say what the data of the fit add to a round on new prompts; empty for plans for the prompts of the fit.

    One fit of all rows, each with the propensity of its own round, is the mean over all prompts; w is the share of the
    new ones: Sigma = (1 - w)^2 A + w^2 (Sigma of the new round alone), with A that of the fit.
    """
    earlier = specification.earlier
    if earlier is None or earlier.share is None:
        return ""
    (rows, labels), w = specification.targets, earlier.share
    fit, alone, both = (1 - w) ** 2 * earlier.sigma, solution.sigma, solution.sigma
    if specification.problem.of_scores:
        both = fit + w**2 * alone
    elif not earlier.joined:
        alone = (both - fit) / w**2
    errors = [
        np.sqrt(np.maximum(np.einsum("jk,kl,jl->j", rows, sigma, rows), 0.0) / specification.problem.n_contexts)
        for sigma in (alone, both, earlier.sigma)
    ]
    place = int(np.argmax(errors[0]))
    of_place = [float(error[place]) for error in errors]
    new, fit_alone = of_place[::2]
    weighted = 1 / float(np.hypot(1 / new, 1 / fit_alone)) if all(of_place) else 0.0
    digits = decimals(np.array([of_place[1]]), fewest=fewest_decimals(specification.problem.unit == 1.0))
    of_new, of_all, of_fit, of_weighted = (fixed_text(error, digits) for error in (*of_place, weighted))
    start = f"Standard error of {labels[place]}: {of_new} from the new prompts alone, "
    if earlier.joined:
        return f"Standard error of {labels[place]}: {of_fit} from the fit, {of_all} from one fit of all rows."
    # For votes a note names the mixture of all rounds' propensities.
    if specification.problem.of_scores and of_place[1] > of_place[2]:
        return (
            f"{start}{of_fit} from the fit alone. Do not fit the rows of both together, each with the propensity of "
            f"its own round: that gives {of_all}, because every prompt then counts the same, and the new ones have "
            f"fewer runs. Fit the new rows by themselves; the mean of the two independent estimates, weighted by "
            f"1 / (standard error)^2, has the standard error {of_weighted}."
        )
    return (
        f"{start}{of_all} together with the data of the fit in one fit of all rows, each with the propensity of its "
        f"own round (the fit: {of_fit})."
    )


def _power_note(specification: PlanSpecification, solution: PlanSolution, alpha: float) -> str:
    """Say how many differences of two models the plan is expected to find, alone and at once, and at which budget."""
    problem, rows = specification.problem, specification.contrasts
    is_difference = (np.sort(rows, axis=1)[:, [0, -1]] == [-1, 1]).all(axis=1) & (np.abs(rows).sum(axis=1) == 2)
    rows, labels = rows[is_difference], [specification.contrast_labels[j] for j in np.flatnonzero(is_difference)]
    if not len(rows):
        return ""
    # A difference is found with the power if it is so many standard errors. One that is planned for alone is one test.
    n_scores, is_alone = len(specification.scores), len(specification.contrasts) == 1
    is_first, names = specification.test == "none", specification.names.scores
    single = pair_critical_value(specification, solution, alpha, "none" if is_alone else specification.test)
    least = smallest_gap(1.0, single, POWER)

    def needed_for(rows: FloatArray) -> FloatArray:
        """Return the differences that are found, (J,)."""
        return np.asarray(least * contrast_covariance(specification, solution.sigma, rows).std_errors)

    gap, needed = np.abs(rows @ specification.scores), needed_for(rows)
    joint, best = rows * np.sign(rows @ specification.scores)[:, None], int(np.argmax(specification.scores))
    if is_first:
        joint, labels = np.eye(n_scores)[best] - np.eye(n_scores), [f"{names[best]} - {name}" for name in names]
    is_lead = joint @ specification.scores > 0
    joint, labels = joint[is_lead], [labels[j] for j in np.flatnonzero(is_lead)]
    leads = joint @ specification.scores

    def multiples(of: PlanSolution) -> FloatArray:
        """Draw the multiple of the leads at which all of them are found, (draws,)."""
        factor = contrast_covariance(specification, of.sigma, joint).factor
        return leads_needed(leads, factor, single, specification.seed)

    unit, number = ("runs", 1.0) if problem.of_scores else ("labels", 0.5)
    number *= float(problem.expected_by_model(solution.propensities).sum())
    spent = f"{number:,.6g} {unit}" if np.isclose(number, solution.expected_cost) else "this budget"
    is_equal, is_found = gap == 0, (gap > 0) & (gap >= needed)
    sentences = []
    digits = decimals(needed, fewest=fewest_decimals(problem.unit == 1.0))
    at_least = f"at least {fixed_text(float(needed[is_equal | ~is_equal.any()].max()), digits)}"
    if is_alone and n_scores > 2:
        critical = pair_critical_value(specification, solution, alpha, "max-t")
        of_pairs = fixed_text(smallest_gap(float(needed[0]) / least, critical, POWER), digits)
        at_least += f" tested alone, {of_pairs} among all {n_scores * (n_scores - 1) // 2:,} pairs"
    if not is_equal.all():
        asked = counted(int((~is_equal).sum()), "difference")
        is_added = specification.earlier is not None and not problem.of_scores
        text = f"With {spent}, {is_found.sum()} of {asked} will be found with power {POWER:.2f} or more"
        power = float((multiples(solution) <= 1).mean())
        tests, all_need, goal, elsewhere = "tests of all pairs", "all at once need", "for all at once", ""
        at_once = "all of them at once"
        if is_alone:
            tests, all_need, goal = f"it takes {at_least}", "it needs", "for it"
        if is_first:
            tests, all_need, goal = "test of first place", "deciding first place needs", "to decide first place"
            elsewhere = "; the fit's summary says how many without a plan" if is_added else ""
            at_once = f"first place ({names[best]} above all {n_scores - 1} others at once)"
        if len(leads) > 1 and not (is_first and is_equal.any()):
            text += f", {at_once} with power {power:.2f}"
        # Costs need not be numbers of labels.
        counts = is_added and np.isclose(number, solution.expected_cost)
        independent = f" further independent {unit}" if counts else ""
        text += f", if the present estimates are right ({tests})"
        # Where labels depend on each other, a search for a budget takes long.
        is_own = is_added and specification.earlier is not None and specification.earlier.share is None
        is_short = is_found.sum() + is_equal.sum() < len(gap) or round(power, 2) < POWER
        if is_short and is_own and problem.n_contexts <= FEW_CLUSTERS and not problem.fixed_prompts:
            text += f"; {problem.n_contexts} prompts are too few to say how many labels it takes {goal}"
        elif is_short and not problem.interdependent:

            def relative_gap(of: PlanSolution) -> float:
                return float(np.quantile(multiples(of), POWER))

            hardest = labels[int(np.argmax(needed_for(joint) / leads))]
            most = f" ({hardest} needs the most{elsewhere})" if len(leads) > 1 else ""
            # A random sample of the rows says about as much, and takes little time.
            sample = problem.sample() or problem
            share = sample.total_cost / problem.total_cost
            start = share * solution.budget * relative_gap(solution) ** 2
            try:
                small = replace(specification, problem=sample)
                enough = cheapest_solution(small, start, relative_gap, lambda _: "").expected_cost / share
                wanted = f"{float(f'{np.ceil(enough):.2g}'):,.6g}{independent}"
                text += f"; {all_need} about {wanted}{most}"
            except OptionError:
                text += f"; all {unit} that these prompts allow are too few {goal}{most}, so more prompts are needed"
        sentences.append(f"{text}.")
    if is_equal.any():
        sentences.append(
            f"With {spent}, a difference that is {'assumed to be' if specification.candidate else 'estimated as'} zero "
            f"is found with power {POWER:.2f} if it is {at_least}."
        )
    return " ".join(sentences)


def _rows_of_pairs(
    specification: PlanSpecification, solution: PlanSolution, by_score: IntArray, in_table: Set[str]
) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows of the pairs with the most expected labels, and a note on them and on all other pairs."""
    problem, models = specification.problem, specification.names.models
    labels = problem.expected_labels(solution.propensities)
    first, second = (by_score[place] for place in np.triu_indices(len(models), 1))
    total = labels[first, second] + (labels[second, first] if problem.pairs.ordered else 0)
    order = np.argsort(-total, kind="stable")
    candidates = [p for p in order if total[p] > 0 and {models[first[p]], models[second[p]]} & in_table]
    chosen = candidates[:_MAX_PAIRS]
    rows = [(f"{models[first[p]]} vs. {models[second[p]]}", *[""] * 5, f"{total[p]:,.1f}") for p in chosen]
    others = np.delete(total, chosen)
    others = others[others > 0]
    uniform = specification.uniform(solution.budget) * problem.n_contexts * (1 + problem.pairs.ordered)
    which = "the pairs with the most expected labels" if others.size else "all pairs"
    which += "" if len(in_table) == len(models) else " in which a model of the table is compared"
    which += ", both display orders together" if problem.pairs.ordered else ""
    note = f"The rows with 'vs.' are {which}; the uniform plan has {uniform:,.1f} labels of each pair."
    if others.size:
        note += f" All other pairs of the plan ({len(others)}) have {others.sum():,.1f} labels together"
        note += f", at most {others.max():,.1f} each." if len(others) > 1 else "."
    return rows, note


def _header(
    specification: PlanSpecification, solution: PlanSolution, n_runs: float
) -> tuple[tuple[str, str, str, str], ...]:
    """Return the entries above the table; ``n_runs`` counts a label for both of its models."""
    problem, criterion = specification.problem, specification.criterion
    targets = f"{len(specification.contrasts)} contrasts" if len(specification.contrasts) else "all scores"
    kind = {"A": "A (sum of variances)", "D": "D (log determinant)"}[criterion.kind]
    functional = "bt (Bradley-Terry assumed)" if problem.interdependent else problem.functional.label
    budget = f"{solution.budget:,.6g} ({'slack' if solution.slack else 'binding'})"
    cost = f"{solution.expected_cost:,.6g}"
    objectives = [f"{criterion.objective(sigma):.5g}" for sigma in (solution.sigma, solution.uniform_sigma)]

    def limits_of(rows: slice) -> tuple[float, float]:
        block = solution.propensities[rows]
        return float(block.min()), float(block.max())

    lowest, highest = zip(*map_blocks(limits_of, problem.shape), strict=True)
    propensity = f"{min(lowest):.3g} to {max(highest):.3g}"
    if problem.of_scores:
        return (
            ("Functional:", functional, "No. Prompts:", f"{problem.n_contexts:,}"),
            ("Criterion:", f"{kind}, {targets}", "Expected runs:", f"{n_runs:,.1f}"),
            ("Budget:", budget, "Expected cost:", cost),
            ("Propensity:", propensity, "Groups of models:", f"{len(problem.pairs)}"),
        )
    pairs = f"{len(problem.pairs)} {'ordered' if problem.pairs.ordered else 'unordered'}"
    return (
        ("Functional:", functional, "No. Contexts:", f"{problem.n_contexts:,}"),
        ("Criterion:", f"{kind}, {targets}", "Pairs:", pairs),
        ("Budget:", budget, "Labels per context:", "at most one" if problem.one_pair else "any number"),
        ("Expected cost:", cost, "Expected labels:", f"{n_runs / 2:,.1f}"),
        ("Propensity:", propensity, "Uniform plan's share:", f"{100 * specification.explore:g} %"),
        ("Objective:", objectives[0], "Uniform plan's:", objectives[1]),
    )


def _notes(specification: PlanSpecification, solution: PlanSolution, level: str) -> list[str]:
    """Return the notes below the table."""
    if specification.problem.of_scores:
        has_runs = specification.problem.spent > 0 or specification.candidate
        thin = thin_models(specification, solution)
        thin_note = (
            f"{listed(thin, 5)} will have too few runs for intervals; leave them out of the fit (min_votes="
            f"{FEWEST_PROMPTS}), where they keep ranks open."
        )
        return [
            f"Standard errors are predicted for a fit of {'all' if has_runs else 'these'} runs"
            f"{', earlier and planned' if has_runs else ' alone'}, with the propensities of the plan "
            f"(propensity=plan). "
            f"uniform: all models that are not complete, on the same random prompts, at the same cost; ratio: std err "
            f"divided by uniform. {level} width: full width of simultaneous intervals (max-t). runs: expected number "
            f"of further runs. Models that are compared are run on the same prompts. A model is run once on a prompt: "
            f"another prompt is worth more than another run, until every prompt is run.",
            f"The plan meets the conditions of an optimum with a relative error of "
            f"{solution.optimum.kkt_residual:.1e}.",
            *_slack_of_runs(solution),
            *[_NEW_PROMPTS] * (specification.earlier is not None),
            *([thin_note] if thin else []),
        ]
    source, earlier = "from the planned labels alone", specification.earlier
    if earlier is not None:
        source = "from the labels of the fit and the planned labels together"
        if earlier.share is not None:
            source += ", in one fit of all rows, "
            mixed = "with estimated propensities or the mixture of all rounds' propensities (mixture_propensity)"
            source += mixed if earlier.joined else "each with the propensity of its own round"
        if earlier.joined:
            source += ", with pairs weighted by the counts of all labels"
    notes = [
        f"Standard errors are predicted from the plan's probabilities, for an estimate {source}. uniform: standard "
        f"error of the uniform plan, which labels all pairs with the same probability at the same cost; ratio: std err "
        f"divided by uniform. {level} width: full width of simultaneous intervals (max-t). labels: expected number of "
        f"labels in which the model, or the pair, is compared. Labels of different prompts are taken as "
        f"independent: if annotators or other clusters give several of the new labels, standard errors may be larger "
        f"than predicted.",
        f"The smallest propensity that the plan may have is {solution.smallest_propensity:.3g}. The plan meets the "
        f"conditions of an optimum with a relative error of {solution.optimum.kkt_residual:.1e}.",
    ]
    if solution.slack:
        notes.append(
            f"The budget is slack: all labels that can make the contrasts or scores of the plan more precise cost "
            f"{solution.expected_cost:,.6g} together. Plan for more contexts to use a larger budget."
        )
    if earlier is not None:
        rows = np.vstack([np.eye(len(solution.sigma)), specification.contrasts])
        before, after = (((rows @ sigma) * rows).sum(axis=1) for sigma in (earlier.sigma, solution.sigma))
        why = (
            "every prompt has the same weight in one fit of all rows, and these labels are few for so many new "
            "prompts. Plan for fewer prompts, or fit all rows with the mixture of all rounds' propensities "
            "(mixture_propensity)"
        )
        if earlier.joined:
            why = (
                "with weights by counts, pairs that get labels get more weight, also pairs whose labels vary more than "
                "those of others. Equal weights, or those of a matrix (edge_weights=), stay as they are"
            )
        if (after > _LARGER * before).any():
            larger = "For some scores or contrasts the standard error is larger than that of the fit without the"
            notes.append(f"{larger} planned labels: {why}.")
    if not specification.problem.pairs.ordered:
        notes.append(
            "The display order of a pair does not matter in this plan and is drawn at random; fit the labels with "
            "position_bias=False."
        )
    return notes


def thin_models(specification: PlanSpecification, solution: PlanSolution) -> tuple[str, ...]:
    """Return the models that a round of its own runs on too few prompts for a fit; none where it is for one of them."""
    problem = specification.problem
    if not problem.of_scores or problem.spent or specification.candidate or not len(specification.contrasts):
        return ()
    is_thin = problem.expected_by_model(solution.propensities) < FEWEST_PROMPTS
    has_contrast = (specification.contrasts != 0).any(axis=0)
    names = specification.names.models
    return () if (is_thin & has_contrast).any() else tuple(names[j] for j in np.flatnonzero(is_thin))


def _slack_of_runs(solution: PlanSolution) -> list[str]:
    """Say what a budget is good for that is larger than one run of every cell costs."""
    if not solution.slack:
        return []
    cost, times = solution.expected_cost, int(solution.budget / max(solution.expected_cost, 1e-300))
    rest = f", or run every planned cell {times} times (a fit takes the mean of its runs)" if times > 1 else ""
    return [
        f"The budget is slack: one run of every cell that makes the contrasts or scores of the plan more precise costs "
        f"{cost:,.6g} together. Use the rest to run all models on further prompts{rest}; fit the rows of all prompts."
    ]


def draw_plan(
    specification: PlanSpecification, solution: PlanSolution, ax: Axes | None, models: Sequence[str] | None
) -> Axes:
    """Draw the expected labels by pair, see :meth:`Plan.plot`."""
    problem, all_models = specification.problem, specification.names.models
    names = list(chosen_names(all_models, models))
    chosen = [all_models.index(name) for name in names]
    if len(names) < 2:
        raise OptionError(f"a picture of pairs needs two models, and models= names one: {names[0]!r}")
    labels = problem.expected_labels(solution.propensities)[np.ix_(chosen, chosen)]
    title = (
        f"{specification.criterion.kind}-optimal plan: {problem.n_contexts:,} prompts, expected cost "
        f"{solution.expected_cost:,.5g}"
    )
    label = "expected labels" + (", first model in rows" if problem.pairs.ordered else ", either order")
    return heat_map(names, labels, label, ax, title=title)

"""The summary and the pictures of a plan; report/ is below planning/ and cannot import what a plan is made of."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole
from .._utils.number_text import decimals, fewest_decimals, fixed_text
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, OptionTypeError, check_choice, listed
from ..plotting.diagnostic_charts import pair_chart
from ..plotting.heat_maps import heat_map
from ..plotting.theme import short_names
from ..report.leaderboard import choose_models, chosen_names
from ..report.statements import counted, percentage
from ..tables.summary_table import Summary
from .allocation import map_blocks
from .precision import predicted_precision
from .specification import PlanSolution, PlanSpecification

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of contrasts in a summary.
_MAX_CONTRASTS = 20
# Largest number of pairs in a summary.
_MAX_PAIRS = 10


def expected_labels(specification: PlanSpecification, solution: PlanSolution) -> FloatArray:
    """Return the expected number of labels by pair, (K, K); symmetric where order does not matter."""
    total = specification.problem.expected_labels(solution.propensities)
    return specification.problem.pairs.matrices(total[None])[0]


def plan_summary(
    specification: PlanSpecification, solution: PlanSolution, alpha: float, *, models: object = None, top: object = None
) -> Summary:
    """Return the summary of a plan: its cost and predicted precision, beside those of the uniform plan."""

    def precision(rows: FloatArray, names: Sequence[str]) -> pd.DataFrame:
        return predicted_precision(specification, solution, rows, names, alpha=alpha, method="max-t")

    all_models, names = specification.names.models, specification.names.scores
    of_models = names == all_models
    scores = precision(np.eye(len(names)), names)
    if top is not None and not of_models:
        raise OptionError(
            "top= shows the models with the highest scores, and the outputs of this functional "
            f"({listed(names, 5)}) are not scores of models; use models= with names of outputs"
        )
    ranking = np.argsort(-scores["score"].to_numpy(), kind="stable") if of_models else np.arange(len(names))
    shown = choose_models(names, ranking.tolist(), models, top, noun="model" if of_models else "output")
    natural = specification.problem.unit == 1.0
    targets = specification.contrasts
    contrasts = precision(targets, specification.contrast_labels) if len(targets) else None
    labels = expected_labels(specification, solution)
    per_model = labels.sum(axis=1) + (labels.sum(axis=0) if specification.problem.pairs.ordered else 0)
    counts = {model: f"{count:,.1f}" for model, count in zip(all_models, per_model, strict=True)}
    level = f"{100 * (1 - alpha):g}%"
    heads = ("score", "std err", "uniform", f"{level} width", "ratio", "labels")
    digits = decimals(scores["std_error"].to_numpy(), fewest=fewest_decimals(natural))
    rows = _rows(scores.iloc[list(shown.places)], counts, digits)
    if contrasts is not None:
        digits = decimals(contrasts["std_error"].to_numpy(), fewest=fewest_decimals(natural))
        rows += _rows(contrasts.head(_MAX_CONTRASTS), {}, digits)
    notes = _notes(specification, solution, level)
    in_table = {all_models[place] for place in shown.places} if of_models else set(all_models)
    by_score = ranking if of_models else np.arange(len(all_models))
    pair_rows, pair_note = _rows_of_pairs(specification, solution, labels, by_score, in_table)
    rows += pair_rows
    if contrasts is not None:
        part = f" (the first {_MAX_CONTRASTS} of {len(contrasts)})" if len(contrasts) > _MAX_CONTRASTS else ""
        notes = (
            *notes,
            f"The rows below the models are the contrasts that the plan is for{part}; their intervals hold jointly.",
        )
    notes = (*notes, pair_note)
    header = _header(specification, solution)
    table = Summary("Labelling Plan", header, tuple((head, 1) for head in heads), rows, notes)
    return table.with_notes(shown.note("Cost, labels and widths"))


def _rows(frame: pd.DataFrame, labels: dict[str, str], digits: int) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a table of predicted precision, with numbers of labels by model."""
    numbers = frame[["score", "std_error", "uniform_std_error", "width"]].to_numpy()
    return tuple(
        (str(name), *(fixed_text(number, digits) for number in row), f"{ratio:.3f}", labels.get(str(name), ""))
        for name, row, ratio in zip(frame.index, numbers, frame["ratio"], strict=True)
    )


def _rows_of_pairs(
    specification: PlanSpecification, solution: PlanSolution, labels: FloatArray, by_score: IntArray, in_table: Set[str]
) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the rows of the pairs with the most expected labels, and a note on them and on all other pairs.

    Shapes: labels (K, K), by_score (K,).
    """
    problem, models = specification.problem, specification.names.models
    first, second = (by_score[place] for place in np.triu_indices(len(models), 1))
    total = labels[first, second] + (labels[second, first] if problem.pairs.ordered else 0)
    order = np.argsort(-total, kind="stable")
    candidates = [p for p in order if total[p] > 0 and {models[first[p]], models[second[p]]} & in_table]
    chosen = candidates[:_MAX_PAIRS]
    rows = tuple(
        (f"{models[first[p]]} vs. {models[second[p]]}", "", "", "", "", "", f"{total[p]:,.1f}") for p in chosen
    )
    others = np.delete(total, chosen)
    uniform = specification.uniform(solution.budget) * problem.n_contexts * (1 + problem.pairs.ordered)
    all_in_table = len(in_table) == len(models)
    which = "the pairs with the most expected labels" if others.size else "all pairs"
    which += "" if all_in_table else " in which a model of the table is compared"
    orders = ", both display orders together" if problem.pairs.ordered else ""
    note = f"The rows with 'vs.' are {which}{orders}; the uniform plan has {uniform:,.1f} labels of each pair."
    if others.size:
        note += f" All other pairs of the plan ({len(others)}) have {others.sum():,.1f} labels together"
        note += f", at most {others.max():,.1f} each." if len(others) > 1 else "."
    return rows, note


def _header(specification: PlanSpecification, solution: PlanSolution) -> tuple[tuple[str, str, str, str], ...]:
    """Return the entries above the table: functional, criterion, budget and cost."""
    problem, criterion = specification.problem, specification.criterion
    pairs = f"{len(problem.pairs)} {'ordered' if problem.pairs.ordered else 'unordered'}"
    targets = f"{len(specification.contrasts)} contrasts" if len(specification.contrasts) else "all scores"
    names = {"A": "A (sum of variances)", "D": "D (log determinant)"}
    state = "slack" if solution.slack else "binding"

    def limits_of(rows: slice) -> tuple[float, float]:
        block = solution.propensities[rows]
        return float(block.min()), float(block.max())

    limits = map_blocks(limits_of, problem.shape)
    return (
        (
            "Functional:",
            "bt (Bradley-Terry assumed)" if problem.interdependent else problem.functional.label,
            "No. Contexts:",
            f"{problem.n_contexts:,}",
        ),
        ("Criterion:", f"{names[criterion.kind]}, {targets}", "Pairs:", pairs),
        (
            "Budget:",
            f"{solution.budget:,.6g} ({state})",
            "Labels per context:",
            "at most one" if problem.one_pair else "any number",
        ),
        (
            "Expected cost:",
            f"{solution.expected_cost:,.6g}",
            "Expected labels:",
            f"{problem.expected_labels(solution.propensities).sum():,.1f}",
        ),
        (
            "Propensity:",
            f"{min(low for low, _ in limits):.3g} to {max(high for _, high in limits):.3g}",
            "Uniform plan's share:",
            f"{100 * specification.explore:g} %",
        ),
        (
            "Objective:",
            f"{criterion.objective(solution.sigma):.5g}",
            "Uniform plan's:",
            f"{criterion.objective(solution.uniform_sigma):.5g}",
        ),
    )


def _notes(specification: PlanSpecification, solution: PlanSolution, level: str) -> tuple[str, ...]:
    """Return the notes below the table."""
    source, earlier = "from the planned labels alone", specification.earlier
    if earlier is not None:
        source = "from the labels of the fit and the planned labels together"
        if earlier.share is not None:
            source += ", in one fit of all rows, each with the propensity of its own round"
    notes = [
        f"Standard errors are predicted from the plan's probabilities, for an estimate {source}. uniform: standard "
        f"error of the uniform plan, which labels all pairs with the same probability at the same cost; ratio: std err "
        f"divided by uniform. {level} width: full width of simultaneous intervals (max-t). labels: expected number of "
        f"labels in which the model, or the pair, is compared. New prompts are taken as independent: if annotators or "
        f"other clusters give several of the new labels, standard errors may be larger than predicted.",
        f"The smallest propensity that the plan may have is {solution.smallest_propensity:.3g}. The plan meets the "
        f"conditions of an optimum with a relative error of {solution.kkt_residual:.1e}.",
    ]
    if solution.slack:
        notes.append(
            f"The budget is slack: all labels that can make the contrasts or scores of the plan more precise cost "
            f"{solution.expected_cost:,.6g} together. Plan for more contexts to use a larger budget."
        )
    if earlier is not None and (np.diag(solution.sigma) > np.diag(earlier.sigma)).any():
        notes.append(
            "For some scores the standard error is larger than that of the fit without the planned labels: every "
            "prompt has the same weight in one fit of all rows, and these labels are few for so many new prompts. Plan "
            "for fewer prompts, or fit all rows with mixture_propensity() of the rounds."
        )
    if specification.questions:
        questions = ", ".join(f"{first} > {second}" for first, second in specification.questions)
        notes.append(
            f"Rounds end when decide() of a sequential view answers: {questions}. The answer may be the other "
            f"order, too."
        )
    if not specification.problem.pairs.ordered:
        notes.append(
            "The display order of a pair does not matter in this plan and is drawn at random; fit the labels with "
            "position_bias=False."
        )
    return tuple(notes)


_PICTURES = ("heat_map", "pairs")
_PAIRS = 30
# Letters of the name of a model in the name of a pair.
_LONGEST_NAME = 22


def draw_plan(
    specification: PlanSpecification,
    solution: PlanSolution,
    picture: object,
    *,
    ax: Axes | None,
    models: Sequence[str] | None,
    top: int | None,
) -> Axes:
    """Draw a picture of a plan, see :meth:`Plan.plot`."""
    if not isinstance(picture, str):
        raise OptionTypeError(
            f"plot takes the name of a picture ('heat_map', 'pairs'), not a {type(picture).__name__}; give axes as ax="
        )
    check_choice(picture, _PICTURES, "picture")
    all_models = specification.names.models
    chosen = [all_models.index(name) for name in chosen_names(all_models, models)]
    labels = expected_labels(specification, solution)[np.ix_(chosen, chosen)]
    names = [all_models[j] for j in chosen]
    if len(names) < 2:
        raise OptionError(f"a picture of pairs needs two models, and models= names one: {names[0]!r}")
    if picture == "pairs":
        return _draw_pairs(specification, solution, names, labels, n_pairs=top, ax=ax)
    if top is not None:
        raise OptionError("plot('heat_map') does not use top=; choose models with models=, or draw plot('pairs')")
    ordered = specification.problem.pairs.ordered
    label = "expected labels" + (", first model in rows" if ordered else ", either order")
    return heat_map(names, labels, label, ax, title=_counts(specification, solution))


def _draw_pairs(
    specification: PlanSpecification,
    solution: PlanSolution,
    names: Sequence[str],
    labels: FloatArray,
    *,
    n_pairs: int | None,
    ax: Axes | None,
) -> Axes:
    """Draw bars of the pairs with most expected labels.

    Shapes: labels (J, J).
    """
    if n_pairs is not None:
        check_whole("top", n_pairs, 1)
    problem = specification.problem
    first, second = np.triu_indices(len(names), 1)
    # Where order does not matter, both triangles hold the same labels.
    orders = [labels[first, second], labels[second, first]] if problem.pairs.ordered else [labels[first, second]]
    by_order = np.stack(orders, axis=1)
    total = by_order.sum(axis=1)
    in_plan = int(np.count_nonzero(total))
    shown = np.argsort(-total, kind="stable")[: min(in_plan, _PAIRS if n_pairs is None else n_pairs)]
    short = short_names(names, _LONGEST_NAME)
    pairs = [f"{short[first[p]]} − {short[second[p]]}" for p in shown]
    share = percentage(float(total[shown].sum() / total.sum()))
    title = f"{_counts(specification, solution)}\n{len(shown)} of {counted(in_plan, 'pair')}, {share} of their labels"
    uniform = specification.uniform(solution.budget) * problem.n_contexts * len(orders)
    parts = ("first model shown first", "first model shown second") if len(orders) == 2 else ("either order",)
    return pair_chart(
        pairs,
        by_order[shown],
        parts=parts,
        mean=float(uniform),
        n_contexts=problem.n_contexts,
        title=title,
        ax=ax,
    )


def _counts(specification: PlanSpecification, solution: PlanSolution) -> str:
    """Return criterion, number of prompts and expected cost, for titles."""
    kind, n_contexts = specification.criterion.kind, specification.problem.n_contexts
    return f"{kind}-optimal plan: {n_contexts:,} prompts, expected cost {solution.expected_cost:,.5g}"

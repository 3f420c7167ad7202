"""The summary of a plan: cost, predicted standard errors beside the uniform plan's, expected labels by model.

It stays in planning: it reads a plan's specification and solution, and report/ stands below planning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .._utils.number_text import decimals
from ..data.preferences import FloatArray
from ..report.table import Summary
from .power import predicted_precision
from .propensities import propensity_range
from .specification import PlanSolution, PlanSpecification

# Contrasts that a summary shows.
_SHOWN = 20


def expected_labels(specification: PlanSpecification, solution: PlanSolution) -> FloatArray:
    """Expected number of labels by pair, (K, K); symmetric where order does not matter."""
    total = specification.problem.expected_labels(solution.propensities)
    return specification.problem.pairs.table(total[None])[0]


def plan_summary(specification: PlanSpecification, solution: PlanSolution, alpha: float) -> Summary:
    """The summary of a plan: what it costs, what it will know, beside the uniform plan."""

    def precision(rows: FloatArray, names: Sequence[str]) -> pd.DataFrame:
        return predicted_precision(specification, solution, rows, names, alpha=alpha, method="max-t")

    models, names = specification.names.models, specification.names.scores
    scores = precision(np.eye(len(names)), names)
    if names == models:
        scores = scores.sort_values("score", ascending=False, kind="stable")
    targets = specification.contrasts
    contrasts = precision(targets, specification.contrast_labels) if len(targets) else None
    labels = expected_labels(specification, solution)
    per_model = labels.sum(axis=1) + (labels.sum(axis=0) if specification.problem.pairs.ordered else 0)
    counts = {model: f"{count:,.1f}" for model, count in zip(models, per_model, strict=True)}
    level = f"{100 * (1 - alpha):g}%"
    heads = ("score", "std err", "uniform", f"{level} width", "ratio", "labels")
    rows = (*_rows(scores, counts), *(_rows(contrasts.head(_SHOWN), {}) if contrasts is not None else ()))
    notes = _notes(specification, solution, level)
    if contrasts is not None:
        more = f" ({_SHOWN} of {len(contrasts)} are shown)" if len(contrasts) > _SHOWN else ""
        notes = (*notes, f"Below the models: the contrasts that the plan is for{more}, their widths joint.")
    header = _header(specification, solution)
    return Summary("Labelling Plan", header, tuple((head, 1) for head in heads), rows, notes)


def _rows(frame: pd.DataFrame, labels: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    digits = decimals(frame["std_error"].to_numpy())
    numbers = frame[["score", "std_error", "uniform_std_error", "width"]].to_numpy()
    return tuple(
        (str(name), *(f"{number:.{digits}f}" for number in row), f"{ratio:.3f}", labels.get(str(name), ""))
        for name, row, ratio in zip(frame.index, numbers, frame["ratio"], strict=True)
    )


def _header(specification: PlanSpecification, solution: PlanSolution) -> tuple[tuple[str, str, str, str], ...]:
    problem, criterion = specification.problem, specification.criterion
    pairs = f"{len(problem.pairs)} {'ordered' if problem.pairs.ordered else 'unordered'}"
    targets = f"{len(specification.contrasts)} contrasts" if len(specification.contrasts) else "all scores"
    names = {"A": "A (sum of variances)", "D": "D (log determinant)"}
    spent = "slack" if solution.slack else "binding"
    return (
        (
            "Functional:",
            "bt (model assumed)" if problem.interdependent else problem.functional.label,
            "No. Contexts:",
            f"{problem.n_contexts:,}",
        ),
        ("Criterion:", f"{names[criterion.kind]}, {targets}", "Pairs:", pairs),
        (
            "Budget:",
            f"{solution.budget:,.6g} ({spent})",
            "Labels per context:",
            "at most one" if problem.one_pair else "any",
        ),
        (
            "Expected cost:",
            f"{solution.expected_cost:,.6g}",
            "Expected labels:",
            f"{problem.expected_labels(solution.propensities).sum():,.1f}",
        ),
        (
            "Propensity:",
            "{:.3g} to {:.3g}".format(*propensity_range(solution.propensities)),
            "Explored:",
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
    counted = "from the planned labels alone"
    if specification.earlier is not None:
        counted = "from the labels that the fit has and the planned ones together"
    notes = [
        f"Predicted from these probabilities, for an estimate {counted}. uniform: standard errors "
        f"if all pairs are labelled alike at the same cost; ratio: to them. {level} width: full width of simultaneous "
        f"intervals (max-t). labels: expected number with the model.",
        f"Optimality conditions hold up to {solution.kkt_residual:.1e} (relative), with propensities of at least "
        f"{solution.floor:.3g}.",
    ]
    if solution.slack:
        notes.append(
            f"The budget is slack: every label that tells something is bought for {solution.expected_cost:,.6g}. "
            f"A larger budget needs more contexts."
        )
    if not specification.problem.pairs.ordered:
        notes.append("Order does not matter: fit with position_bias=False. Which model is shown first is drawn.")
    return tuple(notes)

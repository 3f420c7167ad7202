"""What a plan's summary says."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from ..report.fit_summary import decimals
from ..report.table import Summary
from .power import forecast
from .specification import Filled, Order

# Contrasts that a summary shows.
_SHOWN = 20


def expected_labels(order: Order, filled: Filled) -> FloatArray:
    """Expected number of labels by pair, (K, K); symmetric where order does not matter."""
    total: FloatArray = filled.propensity.sum(axis=0)
    return order.problem.pairs.table(total[None])[0]


def plan_summary(order: Order, filled: Filled, alpha: float) -> Summary:
    """The summary of a plan: what it costs, what it will know, beside the uniform plan."""
    models, names = list(order.labels.models), list(order.labels.names)
    scores = forecast(order, filled, np.eye(len(names)), names, alpha, "max-t")
    if names == models:
        scores = scores.sort_values("score", ascending=False, kind="stable")
    asked = forecast(order, filled, order.asked, list(order.asked_labels), alpha, "max-t") if len(order.asked) else None
    labels = expected_labels(order, filled)
    per_model = labels.sum(axis=1) + (labels.sum(axis=0) if order.problem.pairs.ordered else 0)
    bought = {model: f"{count:,.1f}" for model, count in zip(models, per_model, strict=True)}
    level = f"{100 * (1 - alpha):g}%"
    heads = ("score", "std err", "uniform", f"{level} width", "ratio", "labels")
    rows = (*_rows(scores, bought), *(_rows(asked.head(_SHOWN), {}) if asked is not None else ()))
    notes = _notes(order, filled, level)
    if asked is not None:
        more = f" ({_SHOWN} of {len(asked)} are shown)" if len(asked) > _SHOWN else ""
        notes = (*notes, f"Below the models: the contrasts that the plan is for{more}, their widths joint.")
    return Summary("Labelling Plan", _header(order, filled), tuple((head, 1) for head in heads), rows, notes)


def _rows(frame: pd.DataFrame, bought: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    digits = decimals(frame["std_error"].to_numpy())
    numbers = frame[["score", "std_error", "uniform_std_error", "width"]].to_numpy()
    return tuple(
        (str(name), *(f"{number:.{digits}f}" for number in row), f"{ratio:.3f}", bought.get(str(name), ""))
        for name, row, ratio in zip(frame.index, numbers, frame["ratio"], strict=True)
    )


def _header(order: Order, filled: Filled) -> tuple[tuple[str, str, str, str], ...]:
    problem = order.problem
    pairs = f"{len(problem.pairs)} {'ordered' if problem.pairs.ordered else 'unordered'}"
    asked = f"{len(order.asked)} contrasts" if len(order.asked) else "all scores"
    names = {"A": "A (sum of variances)", "D": "D (log determinant)"}
    spent = "slack" if filled.multiplier == 0 else "binding"
    return (
        (
            "Functional:",
            "bt (model assumed)" if problem.interdependent else problem.functional.label,
            "No. Contexts:",
            f"{problem.n_contexts:,}",
        ),
        ("Criterion:", f"{names[order.criterion.kind]}, {asked}", "Pairs:", pairs),
        (
            "Budget:",
            f"{filled.budget:,.6g} ({spent})",
            "Labels per context:",
            "at most one" if problem.one_pair else "any",
        ),
        (
            "Expected cost:",
            f"{filled.cost:,.6g}",
            "Expected labels:",
            f"{filled.propensity.sum():,.1f}",
        ),
        (
            "Propensity:",
            f"{filled.propensity.min():.3g} to {filled.propensity.max():.3g}",
            "Explored:",
            f"{100 * order.explore:g} %",
        ),
        (
            "Objective:",
            f"{order.criterion.objective(filled.sigma):.5g}",
            "Uniform plan's:",
            f"{order.criterion.objective(filled.uniform_sigma):.5g}",
        ),
    )


def _notes(order: Order, filled: Filled, level: str) -> tuple[str, ...]:
    notes = [
        f"Predicted from these probabilities, for an estimate from the planned labels alone. uniform: standard errors "
        f"if all pairs are labelled alike at the same cost; ratio: to them. {level} width: full width of simultaneous "
        f"intervals (max-t). labels: expected number with the model.",
        f"Optimality conditions hold up to {filled.kkt_residual:.1e} (relative), with propensities of at least "
        f"{filled.floor:.3g}.",
    ]
    if filled.multiplier == 0:
        notes.append(
            f"The budget is slack: every label that tells something is bought for {filled.cost:,.6g}. A larger budget "
            f"needs more contexts."
        )
    if not order.problem.pairs.ordered:
        notes.append("Order does not matter: fit with position_bias=False. Which model is shown first is drawn.")
    return tuple(notes)

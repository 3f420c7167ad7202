"""Tables of several results side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, p_value_clause, score_text
from ..fit.estimates import Estimates
from ..tables.summary_table import Summary
from .fit_summary import functional_unit
from .sentences import as_sentence, counted
from .shown_models import ShownModels, choose_models

_REVERSALS_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals of the scores of all results.

    of_result: A frame with ``lower`` and ``upper``, a row per model, for each result; empty for results without
        intervals.
    head: Head of the columns.
    note: What the intervals hold for, in a sentence.
    """

    of_result: Mapping[str, pd.DataFrame]
    head: str
    note: str


def comparison_summary(
    names: Sequence[str],
    results: Sequence[Estimates],
    ranks: pd.DataFrame,
    *,
    rank_changes: pd.DataFrame,
    reversals: pd.DataFrame | str,
    alpha: float,
    further_notes: Sequence[str] = (),
    intervals: Intervals | None = None,
    shown: ShownModels | None = None,
) -> Summary:
    """Build a table with score, standard error and rank of every model (rows) in every result (columns)."""
    models, columns, heads = list(ranks.index), [], []
    for name, result in zip(names, results, strict=True):
        std_errors = result.std_errors
        digits = decimals(std_errors, fewest=fewest_decimals(result.scale.natural))
        cells = {
            model: score_text(score, error if intervals is None else np.nan, digits)
            for model, score, error in zip(result.models, result.estimate, std_errors, strict=True)
        }
        columns.append([cells.get(model, "") for model in models])
        if intervals is not None:
            limits = intervals.of_result[name]
            columns.append([_interval(limits, model, digits) for model in models])
        columns.append([_rank(rank, change) for rank, change in zip(ranks[name], rank_changes[name], strict=True)])
        heads += [(name, 1), *([] if intervals is None else [(intervals.head, 1)]), ("rank", 1)]
    shown = choose_models(models, range(len(models))) if shown is None else shown
    rows = tuple((models[place], *(column[place] for column in columns)) for place in shown.places)
    notes = (
        *_notes(names, results, intervals),
        *further_notes,
        _reversal_note(names, results, reversals, alpha),
    )
    together = 2 if intervals is None else 3
    table = Summary("Results Side by Side", _header(names, results), tuple(heads), rows, notes, heads_together=together)
    return table.with_notes(shown.note("Ranks, changes of ranks and tests"))


def _header(names: Sequence[str], results: Sequence[Estimates]) -> tuple[tuple[str, str, str, str], ...]:
    """Return a line per result: functional, estimator, sizes and type of covariance."""
    lines = []
    for name, e in zip(names, results, strict=True):
        cov = f"cluster ({', '.join(e.description.clusters)})" if e.description.clusters else "robust"
        size = f"{e.description.n_contexts:,} prompts, {e.description.n_votes:,} votes, {len(e.models)} models, {cov}"
        method = f"{functional_unit(e)}, {e.estimator}" + (f", {e.part}" if e.part else "")
        lines.append((f"{name}:", method, "Data:", size))
    return tuple(lines)


def _interval(limits: pd.DataFrame, model: str, digits: int) -> str:
    """Return the interval of a model's score as text; empty where the result does not have it."""
    if model not in limits.index:
        return ""
    low, high = limits.loc[model, ["lower", "upper"]]
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _rank(rank: int, change: int) -> str:
    """Return a rank with the places gained or lost in brackets."""
    if pd.isna(rank):
        return ""
    return str(rank) if pd.isna(change) or change == 0 else f"{rank} ({change:+d})"


def _notes(names: Sequence[str], results: Sequence[Estimates], intervals: Intervals | None) -> list[str]:
    """Return the notes on what the columns show, and on results without intervals."""
    columns = (
        "a column with the score and its standard error in brackets, and a column with the rank."
        if intervals is None
        else f"columns with the score, its interval and its rank. {intervals.note}"
    )
    notes = [
        f"Each result has {columns} The "
        f"number in brackets beside a rank is the number of places gained (+) or lost (-) compared with {names[0]!r}, "
        f"counted among the models that both results have."
    ]
    if len({functional_unit(result) for result in results}) > 1:
        notes[0] += " Scores of different functionals have different units: compare ranks, not scores."
    notes += [
        f"{name!r} is an estimate without intervals, so that no test supports its order: {result.why_no_intervals}."
        for name, result in zip(names, results, strict=True)
        if not result.has_intervals
    ]
    return notes


def _reversal_note(
    names: Sequence[str], results: Sequence[Estimates], reversals: pd.DataFrame | str, alpha: float
) -> str:
    """Say which pairs of models two results order differently, and for which of them a test shows it."""
    without_intervals = [name for name, result in zip(names, results, strict=True) if not result.has_intervals]
    if without_intervals:
        # The note before this one says why there are no intervals.
        return f"There are no tests between the results, because {without_intervals[0]!r} has no intervals."
    if isinstance(reversals, str):
        return f"There are no tests between the results. {as_sentence(reversals)}"
    if not len(reversals):
        return "All results have the models that they share in the same order."
    n_reversed = len(reversals)
    significant = reversals[reversals["p_adjusted"] <= alpha]
    columns = ["model", "other", "above_in", "below_in", "p_adjusted"]
    reversal_texts = "; ".join(
        f"{model} is above {other} in {above_in} and below in {below_in} (adjusted p {p_value_clause(p)})"
        for model, other, above_in, below_in, p in significant[columns].head(_REVERSALS_NAMED).to_numpy(dtype=object)
    )
    n_unnamed = len(significant) - _REVERSALS_NAMED
    unnamed = f"; and {n_unnamed} more" if n_unnamed > 0 else ""
    verb = "is" if n_reversed == 1 else "are"
    statement = f"{counted(n_reversed, 'pair')} of models {verb} in opposite orders in two of the results."
    confidence = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    if not len(significant):
        return f"{statement} The tests do not show for any of them {confidence} that both orders are real."
    return (
        f"{statement} For {len(significant):,} of them the tests show {confidence} that both orders are real: "
        f"{reversal_texts}{unnamed}."
    )

"""Tables of leaderboards side by side."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .fit_summary import decimals, functional_unit
from .groups_summary import compared
from .table import Summary


def comparison_summary(comparison: Any, reversals: pd.DataFrame | None) -> Summary:
    """Score, standard error and rank of every model (rows) in every result (columns).

    Parameters
    ----------
    comparison : Comparison
    reversals : DataFrame or None
        Pairs in another order, where there is a covariance between the results.
    """
    models, columns, heads = comparison.models, [], []
    ranks, changes = comparison.ranks, comparison.rank_changes
    for number, (name, result) in enumerate(zip(comparison.names, comparison.results, strict=True)):
        errors = result.estimates.covariance.std_errors
        digits = decimals(errors, fewest=3 if result.estimates.scale.natural else 1)
        scores = dict(zip(result.models, zip(result.estimates.estimate, errors, strict=True), strict=True))
        columns.append([_score(scores.get(model), digits) for model in models])
        columns.append([_rank(ranks.loc[model, name], changes.loc[model, name], number) for model in models])
        heads += [(name, 1), ("rank", 1)]
    rows = tuple((model, *(column[place] for column in columns)) for place, model in enumerate(models))
    notes = _notes(comparison, reversals)
    return Summary("Results Side by Side", _header(comparison), tuple(heads), rows, notes)


def _header(comparison: Any) -> tuple[tuple[str, str, str, str], ...]:
    lines = []
    for name, result in zip(comparison.names, comparison.results, strict=True):
        e = result.estimates
        cov = f"cluster ({', '.join(e.design.clusters)})" if e.design.clusters else "robust"
        size = f"{e.design.n_contexts:,} contexts, {e.design.n_votes:,} votes, {len(e.models)} models, {cov}"
        lines.append((f"{name}:", functional_unit(e) + (f", {e.part}" if e.part else ""), f"{e.estimator}:", size))
    return tuple(lines)


def _score(entry: tuple[float, float] | None, digits: int) -> str:
    return "" if entry is None else f"{entry[0]:.{digits}f} ({entry[1]:.{digits}f})"


def _rank(rank: Any, change: Any, column: int) -> str:
    if pd.isna(rank):
        return ""
    if column == 0 or pd.isna(change) or change == 0:
        return str(rank)
    return f"{rank} ({change:+d})"


def _notes(comparison: Any, reversals: pd.DataFrame | None) -> tuple[str, ...]:
    names = comparison.names
    notes = [
        f"Score (standard error), and rank; in brackets the places gained (+) or lost (-) against {names[0]}, among "
        f"the models that both have."
    ]
    if len({functional_unit(result.estimates) for result in comparison.results}) > 1:
        notes[0] += " Scores of different functionals have different units: compare ranks."
    invalid = [
        n for n, r in zip(names, comparison.results, strict=True) if not r.estimates.estimated_by.valid_intervals
    ]
    if invalid:
        notes.append(f"Plug-in estimates are not debiased, and their standard errors not valid: {', '.join(invalid)}.")
    if reversals is None:
        return (*notes, f"No tests between the results: {comparison.joint_or_reason}.")
    level = comparison.joint.alpha
    shown = reversals[reversals["p_adjusted"] <= level]
    counted = f"{len(reversals)} pairs of models are in another order in two of the results"
    if not len(reversals):
        return (*notes, "No two results order a pair of models differently.")
    records: list[Any] = list(shown.head(3).itertuples())
    found = "; ".join(
        f"{row.model} is above {row.other} in {row.above_in} and below in {row.below_in}, adjusted P "
        f"{compared(row.p_adjusted)}"
        for row in records
    )
    rest = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    claim = f"shown for {len(shown)}: {found}{rest}" if len(shown) else "shown for none of them"
    return (*notes, f"{counted}; that both orders are real, at joint level {100 * (1 - level):g} %, is {claim}.")

"""Tables of leaderboards side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .._utils.number_text import decimals, p_value_clause, score_text
from ..fit.estimates import Estimates
from .fit_summary import functional_unit
from .table import Summary

# Reversals that the notes name.
_SHOWN = 3


def comparison_summary(
    names: Sequence[str],
    results: Sequence[Estimates],
    ranks: pd.DataFrame,
    *,
    rank_changes: pd.DataFrame,
    reversals: pd.DataFrame | str,
    alpha: float,
) -> Summary:
    """Score, standard error and rank of every model (rows) in every result (columns).

    Parameters
    ----------
    names : sequence of str
        Of the R results.
    results : sequence of Estimates
    ranks, rank_changes : DataFrame
        A row per model, a column per result; missing where a result does not have the model.
    reversals : DataFrame or str
        Pairs in another order with their adjusted p-values, or why the results have no joint covariance.
    alpha : float
        One minus the joint level.
    """
    models, columns, heads = list(ranks.index), [], []
    for name, result in zip(names, results, strict=True):
        errors = result.std_errors
        digits = decimals(errors, fewest=3 if result.scale.natural else 1)
        both = zip(result.estimate, errors, strict=True)
        scores = dict(zip(result.models, (score_text(*one, digits) for one in both), strict=True))
        columns.append([scores.get(model, "") for model in models])
        columns.append([_rank(*one) for one in zip(ranks[name], rank_changes[name], strict=True)])
        heads += [(name, 1), ("rank", 1)]
    rows = tuple((model, *(column[place] for column in columns)) for place, model in enumerate(models))
    notes = (*_notes(names, results), _tested(reversals, alpha))
    return Summary("Results Side by Side", _header(names, results), tuple(heads), rows, notes)


def _header(names: Sequence[str], results: Sequence[Estimates]) -> tuple[tuple[str, str, str, str], ...]:
    lines = []
    for name, e in zip(names, results, strict=True):
        cov = f"cluster ({', '.join(e.description.clusters)})" if e.description.clusters else "robust"
        size = f"{e.description.n_contexts:,} contexts, {e.description.n_votes:,} votes, {len(e.models)} models, {cov}"
        lines.append((f"{name}:", functional_unit(e) + (f", {e.part}" if e.part else ""), f"{e.estimator}:", size))
    return tuple(lines)


def _rank(rank: int, change: int) -> str:
    if pd.isna(rank):
        return ""
    return str(rank) if pd.isna(change) or change == 0 else f"{rank} ({change:+d})"


def _notes(names: Sequence[str], results: Sequence[Estimates]) -> list[str]:
    notes = [
        f"Score (standard error), and rank; in brackets the places gained (+) or lost (-) against {names[0]}, among "
        f"the models that both have."
    ]
    if len({functional_unit(result) for result in results}) > 1:
        notes[0] += " Scores of different functionals have different units: compare ranks."
    notes += [
        f"{name} is an estimate without intervals, and its order is by score alone: {result.why_no_intervals}."
        for name, result in zip(names, results, strict=True)
        if not result.has_intervals
    ]
    return notes


def _tested(reversals: pd.DataFrame | str, alpha: float) -> str:
    if isinstance(reversals, str):
        return f"No tests between the results: {reversals}."
    if not len(reversals):
        return "No two results order a pair of models differently."
    shown = reversals[reversals["p_adjusted"] <= alpha]
    columns = ["model", "other", "above_in", "below_in", "p_adjusted"]
    found = "; ".join(
        f"{model} is above {other} in {above_in} and below in {below_in}, adjusted P {p_value_clause(p)}"
        for model, other, above_in, below_in, p in shown[columns].head(_SHOWN).to_numpy(dtype=object)
    )
    rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    claim = f"shown for {len(shown)}: {found}{rest}" if len(shown) else "shown for none of them"
    return (
        f"{len(reversals)} pairs of models are in another order in two of the results; that both orders are real, at "
        f"joint level {100 * (1 - alpha):g} %, is {claim}."
    )

"""Leaderboards side by side as a table and a bump chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..plotting.style import literal, new_axes, palette
from .fit_summary import decimals, functional_unit
from .groups_summary import compared
from .table import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    invalid = [n for n, r in zip(names, comparison.results, strict=True) if r.estimates.estimator == "plugin"]
    if invalid:
        notes.append(f"Plug-in estimates are not debiased, and their standard errors not valid: {', '.join(invalid)}.")
    if reversals is None:
        return (*notes, f"No tests between the results: {comparison.together}.")
    level = comparison.together.alpha
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


def bump_chart(ranks: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """A line per model through its ranks in the results, names at both ends.

    Parameters
    ----------
    ranks : DataFrame
        A row per model, a column per result; missing where a result does not have the model.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    n_models, n_results = ranks.shape
    axes = new_axes(ax, height=1.0 + 0.32 * n_models, width=3.6 + 1.6 * n_results)
    values = ranks.to_numpy(dtype=float, na_value=np.nan)
    place = np.arange(n_results)
    moved = np.nanmax(values, axis=1) > np.nanmin(values, axis=1)
    colours = dict(zip(np.flatnonzero(moved).tolist(), palette(int(moved.sum())), strict=True))
    for row, name in enumerate(ranks.index):
        colour, own = colours.get(row, "0.45"), values[row]
        axes.plot(place, own, "-o", color=colour, linewidth=2, markersize=6, clip_on=False)
        known = np.flatnonzero(~np.isnan(own))
        label = literal(str(name))
        axes.annotate(
            label, (known[0], own[known[0]]), (-9, 0), textcoords="offset points", ha="right", va="center", color=colour
        )
        if len(known) > 1:
            axes.annotate(
                label,
                (known[-1], own[known[-1]]),
                (9, 0),
                textcoords="offset points",
                ha="left",
                va="center",
                color=colour,
            )
    axes.set_xlim(-0.9, n_results - 0.1)
    axes.set_ylim(np.nanmax(values) + 0.6, 0.4)
    axes.set_xticks(place, [literal(str(name)) for name in ranks.columns])
    axes.xaxis.tick_top()
    axes.set_yticks(np.arange(1, int(np.nanmax(values)) + 1))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes

"""Coefficients of scores on functions of the prompt as a table and a picture."""

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


def projection_summary(projection: Any, terms: pd.DataFrame) -> Summary:
    """Coefficients with standard errors: a row per model, a column per coefficient.

    Parameters
    ----------
    projection : Projection
    terms : DataFrame
        Tests of the terms.
    """
    e = projection.estimates
    values, errors = projection.params.to_numpy(), projection.bse.to_numpy()
    cells = []
    for value, error in zip(values, errors, strict=True):
        digits = decimals(error, fewest=3 if e.scale.natural else 1)
        cells.append([f"{v:.{digits}f} ({s:.{digits}f})" for v, s in zip(value, error, strict=True)])
    order = np.argsort(-e.estimate, kind="stable")
    rows = tuple((e.models[j], *(column[j] for column in cells)) for j in order)
    cov = f"cluster ({', '.join(e.design.clusters)})" if e.design.clusters else "robust (contexts independent)"
    header = (
        ("Functional:", functional_unit(e), "Cov. Type:", cov),
        ("Projected on:", projection.design.formula, "No. Contexts:", f"{e.design.n_contexts:,}"),
    )
    heads = tuple((name, 1) for name in projection.coefficients)
    return Summary("Scores Projected on Functions of the Prompt", header, heads, rows, _notes(projection, terms))


def _notes(projection: Any, terms: pd.DataFrame) -> tuple[str, ...]:
    notes = [
        "Coefficient (standard error): the best linear description of how scores vary over prompts, right or not. "
        f"{projection.estimates.reason.capitalize()}: coefficients of all models on anything but the constant sum to "
        f"zero where that fixes a sum of scores."
    ]
    records: list[Any] = list(terms.itertuples())
    if records:
        tests = [
            f"{row.Index} chi2({row.df:g}) = {row.statistic:.1f}, P {compared(row.p_value)}"
            if np.isfinite(row.statistic)
            else f"{row.Index} not testable ({row.df:g} restrictions)"
            for row in records
        ]
        notes.append(f"Tests that a term tells nothing about any model: {'; '.join(tests)}.")
    note = projection.joint.covariance.note
    return (*notes, f"{note.capitalize()}.") if note else tuple(notes)


def band_plot(projection: Any, frame: pd.DataFrame, variable: str, alpha: float, ax: Axes | None = None) -> Axes:
    """Projected scores along a variable with their bands, a colour per model.

    Parameters
    ----------
    projection : Projection
    frame : DataFrame
        What ``Projection.bands`` returns.
    variable : str
    alpha : float
        One minus the joint level of the bands.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    axes = new_axes(ax, height=4.8, width=8.0)
    models = list(dict.fromkeys(frame["model"]))
    values = frame[variable][frame["model"] == models[0]].tolist()
    numeric = all(isinstance(value, int | float | np.number) for value in values)
    place = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    step = 0.6 / len(models)
    for number, (model, colour) in enumerate(zip(models, palette(len(models)), strict=True)):
        own = frame[frame["model"] == model]
        score, low, high = (own[name].to_numpy() for name in ("estimate", "lower", "upper"))
        if numeric:
            axes.fill_between(place, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(place, score, color=colour, label=literal(model))
        else:
            at = place + step * (number - (len(models) - 1) / 2)
            reach = np.stack([score - low, high - score])
            axes.errorbar(at, score, yerr=reach, fmt="o", markersize=4, color=colour, label=literal(model))
    if not numeric:
        axes.set_xticks(place, [literal(str(value)) for value in values])
    axes.set_xlabel(literal(variable))
    unit = functional_unit(projection.estimates)
    shown = "" if len(models) == len(projection.models) else f"; {len(models)} of {len(projection.models)} models"
    axes.set_ylabel(unit)
    axes.set_title(
        f"Projection on {literal(projection.design.formula)}\n{100 * (1 - alpha):g} % simultaneous bands{shown}",
        fontsize=9,
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes

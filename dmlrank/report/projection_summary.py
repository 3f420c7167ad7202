"""Tables of the coefficients of scores projected on functions of the prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .fit_summary import decimals, functional_unit
from .groups_summary import compared
from .table import Summary


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

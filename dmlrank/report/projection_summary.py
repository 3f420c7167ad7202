"""Tables of the coefficients of scores projected on functions of the prompt."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, p_value_clause, score_text
from ..fit.estimates import Estimates
from .fit_summary import covariance_words, functional_unit
from .table import Summary


def projection_summary(
    fit: Estimates,
    coefficients: pd.DataFrame,
    std_errors: pd.DataFrame,
    *,
    formula: str,
    terms: pd.DataFrame,
    note: str,
) -> Summary:
    """Coefficients with standard errors: a row per model, a column per coefficient.

    Parameters
    ----------
    fit : Estimates
    coefficients, std_errors : DataFrame
        A row per coefficient, a column per model.
    formula : str
        Of the functions of the prompt.
    terms : DataFrame
        Tests of the terms: ``statistic``, ``df`` and ``p_value``.
    note : str
        What the reader has to know of the joint covariance, or nothing.
    """
    cells = []
    for value, error in zip(coefficients.to_numpy(), std_errors.to_numpy(), strict=True):
        digits = decimals(error, fewest=3 if fit.scale.natural else 1)
        cells.append([score_text(*both, digits) for both in zip(value, error, strict=True)])
    order = np.argsort(-fit.estimate, kind="stable")
    rows = tuple((fit.models[j], *(column[j] for column in cells)) for j in order)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Projected on:", formula, "No. Contexts:", f"{fit.description.n_contexts:,}"),
    )
    heads = tuple((str(name), 1) for name in coefficients.index)
    notes = (*_notes(fit, terms), *([f"{note.capitalize()}."] if note else []))
    return Summary("Scores Projected on Functions of the Prompt", header, heads, rows, notes)


def _notes(fit: Estimates, terms: pd.DataFrame) -> list[str]:
    notes = [
        "Coefficient (standard error): the best linear description of how scores vary over prompts, right or not. "
        f"{fit.reason.capitalize()}: coefficients of all models on anything but the constant sum to "
        f"zero where that fixes a sum of scores."
    ]
    numbers = zip(terms.index, terms["statistic"], terms["df"], terms["p_value"], strict=True)
    tests = [
        f"{name} chi2({df:g}) = {statistic:.1f}, P {p_value_clause(p)}"
        if np.isfinite(statistic)
        else f"{name} not testable ({df:g} restrictions)"
        for name, statistic, df, p in numbers
    ]
    if tests:
        notes.append(f"Tests that a term tells nothing about any model: {'; '.join(tests)}.")
    return notes

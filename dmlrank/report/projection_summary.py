"""Tables of the coefficients of scores projected on functions of the prompt."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, p_value_clause, score_text
from ..fit.estimates import Estimates
from ..tables.summary_table import Summary
from .fit_notes import doubt_note
from .fit_summary import covariance_words, functional_unit
from .sentences import as_sentence
from .shown_models import ShownModels


def projection_summary(
    fit: Estimates,
    coefficients: pd.DataFrame,
    std_errors: pd.DataFrame,
    *,
    formula: str,
    terms: pd.DataFrame,
    note: str,
    shown: ShownModels,
) -> Summary:
    """Build a table of coefficients with standard errors: a row per model, a column per coefficient."""
    cells = []
    for values, errors in zip(coefficients.to_numpy(), std_errors.to_numpy(), strict=True):
        digits = decimals(errors, fewest=fewest_decimals(fit.scale.natural))
        cells.append([score_text(number, std_error, digits) for number, std_error in zip(values, errors, strict=True)])
    rows = tuple((fit.models[j], *(column[j] for column in cells)) for j in shown.places)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Projected on:", formula, "No. Prompts:", f"{fit.description.n_contexts:,}"),
    )
    heads = tuple((str(name), 1) for name in coefficients.index)
    notes = (*_notes(fit, terms), *([as_sentence(note)] if note else []), *doubt_note(fit))
    return Summary("Scores Projected on Functions of the Prompt", header, heads, rows, notes).with_notes(
        shown.note("Sums of coefficients and tests of terms")
    )


def _notes(fit: Estimates, terms: pd.DataFrame) -> list[str]:
    """Return the notes on what coefficients are, and on the tests of the terms."""
    notes = [
        "Each cell has a coefficient and its (standard error). The coefficients are the best linear approximation of "
        "how a model's score varies over prompts, whether or not the relation is linear. "
        f"{as_sentence(fit.reason)}"
    ]
    basis = fit.covariance.basis
    if basis.shape[1] < len(fit.models) and np.allclose(basis.sum(axis=0), 0.0):
        notes[0] += " The models' coefficients on every term except the constant therefore sum to 0."
    numbers = zip(terms.index, terms["statistic"], terms["df"], terms["p_value"], strict=True)
    tests = [
        f"{name}: chi2({df:g}) = {statistic:.1f}, P {p_value_clause(p)}"
        if np.isfinite(statistic)
        else f"{name}: cannot be tested ({df:g} restrictions)"
        for name, statistic, df, p in numbers
    ]
    if tests:
        notes.append(f"Tests of the terms (hypothesis: no model's score varies with the term): {'; '.join(tests)}.")
    return notes

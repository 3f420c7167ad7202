"""Features that are columns of numbers, such as embeddings: written into X directly, because patsy would copy them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import Term

from ...exceptions import DataError
from ..plain_columns import Variable, is_vector_column, stack_vectors, vector_layout
from .parse import names_in


@dataclass(frozen=True, slots=True)
class NumericTerm:
    """A term that is one column of numbers, or one column or array of vectors.

    variable: Name of the column or array.
    label: The term as the formula writes it.
    width: Number of columns of X that the term has.
    """

    variable: str
    label: str
    width: int

    @property
    def names(self) -> list[str]:
        """Names of the term's columns of X, as patsy would name them."""
        return [self.label] if self.width == 1 else [f"{self.label}[{place}]" for place in range(self.width)]


def numeric_terms(terms: Sequence[Term], columns: Mapping[str, Variable]) -> dict[Term, NumericTerm]:
    """Return the terms that are a column of numbers or vectors and that no other term uses.

    Booleans, texts and categories are left to patsy.
    """
    uses = Counter(factor for term in terms for factor in term.factors)
    numeric = {}
    for term in terms:
        variable = _single_variable(term.factors[0].code) if len(term.factors) == 1 else None
        # A name that is no column, such as None, is a constant of Python, which patsy evaluates.
        layout = numeric_layout(columns[variable]) if variable is not None and variable in columns else None
        if variable is not None and layout and uses[term.factors[0]] == 1:
            numeric[term] = NumericTerm(variable, term.factors[0].name(), layout[0])
    return numeric


def _single_variable(code: str) -> str | None:
    """Return the name of a column or array if the factor is nothing but this name, or ``Q("name")``; else None."""
    return code if code.isidentifier() else next(iter(names_in(code).features), None)


def numeric_layout(column: Variable) -> tuple[int, np.dtype[np.generic]] | None:
    """Return width and type of a column or array of numbers or vectors; None where it holds something else."""
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            return vector_layout(column)
        return (1, column.dtype) if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf" else None
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iuf" or column.ndim not in (1, 2):
        return None
    width = 1 if column.ndim == 1 else column.shape[1]
    return (width, column.dtype) if width else None


def common_type(columns: Iterable[Variable]) -> type[np.float32] | type[np.float64]:
    """Return float32 if all columns have this type, else float64; float32 needs half the memory."""
    layouts = [numeric_layout(column) for column in columns]
    return np.float32 if all(layout is not None and layout[1] == np.float32 for layout in layouts) else np.float64


def write_term(term: NumericTerm, column: Variable, out: NDArray[np.floating]) -> None:
    """Write a numeric term into its columns of X, (n, width)."""
    layout = numeric_layout(column)
    if layout is None:
        value = column.iloc[0] if isinstance(column, pd.Series) and len(column) else column
        raise DataError(f"newdata: {term.label!r} is {value!r}; it must hold numbers, as it did at the fit")
    if layout[0] != term.width:
        raise DataError(
            f"newdata: factor {term.label} has {layout[0]} columns instead of {term.width}; its vectors must be as "
            f"long as at the fit"
        )
    if isinstance(column, pd.Series) and is_vector_column(column):
        stack_vectors(column, out)
    else:
        out[:] = np.asarray(column).reshape(len(out), term.width)

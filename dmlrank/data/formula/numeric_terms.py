"""Features that are numbers as they stand, such as embeddings: written into X once, without patsy's copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import Term

from ...exceptions import DataError
from ..frames import is_vector_column, stack_vectors, vector_layout
from .parse import names_in


@dataclass(frozen=True, slots=True)
class NumericTerm:
    """A term that is one column of numbers, or one column or array of vectors.

    Attributes
    ----------
    variable : str
        Name of the column or array.
    label : str
        As written in the formula.
    width : int
        Number of its columns in X.
    """

    variable: str
    label: str
    width: int

    @property
    def names(self) -> list[str]:
        """Names of its columns of X, those that patsy would give."""
        return [self.label] if self.width == 1 else [f"{self.label}[{place}]" for place in range(self.width)]


def numeric_terms(terms: Sequence[Term], columns: Mapping[str, Any]) -> dict[Term, NumericTerm]:
    """The terms that are numbers as they stand and have no part in another term.

    Booleans, texts and categories are patsy's to code.
    """
    uses = Counter(factor for term in terms for factor in term.factors)
    found = {}
    for term in terms:
        alone = _alone(term.factors[0].code) if len(term.factors) == 1 else ()
        layout = numeric_layout(columns[alone[0]]) if alone else None
        if layout and uses[term.factors[0]] == 1:
            found[term] = NumericTerm(alone[0], term.factors[0].name(), layout[0])
    return found


def _alone(code: str) -> tuple[str, ...]:
    """The column or array that a factor is, as it stands."""
    return (code,) if code.isidentifier() else names_in(code).alone


def numeric_layout(column: Any) -> tuple[int, np.dtype[Any]] | None:
    """Width and type of a column of numbers or vectors, or of an array; None where it is something else."""
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            return vector_layout(column)
        return (1, column.dtype) if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf" else None
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iuf" or column.ndim not in (1, 2):
        return None
    width = 1 if column.ndim == 1 else column.shape[1]
    return (width, column.dtype) if width else None


def common_type(columns: Iterable[Any]) -> type[np.floating[Any]]:
    """float32 where everything was handed in so, which holds the same numbers in half the memory; else float64."""
    layouts = [numeric_layout(column) for column in columns]
    return np.float32 if all(layout is not None and layout[1] == np.float32 for layout in layouts) else np.float64


def write(term: NumericTerm, column: Any, out: NDArray[Any]) -> None:
    """Write a numeric term into its columns of X, (n, width).

    Raises
    ------
    DataError
        Where new data do not have the numbers that the fitted ones had.
    """
    layout = numeric_layout(column)
    if layout is None:
        shown = column.iloc[0] if isinstance(column, pd.Series) and len(column) else column
        raise DataError(f"newdata: {term.label!r} is {shown!r}; the features need numbers there")
    if layout[0] != term.width:
        raise DataError(f"newdata: factor {term.label} has {layout[0]} columns instead of {term.width}")
    if isinstance(column, pd.Series) and is_vector_column(column):
        stack_vectors(column, out)
    else:
        out[:] = np.asarray(column).reshape(len(out), term.width)

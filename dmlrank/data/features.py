"""The feature part of a formula, evaluated with patsy on one row per context."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
import patsy.builtins
from numpy.typing import NDArray
from patsy import EvalEnvironment, ModelDesc, NAAction, PatsyError

from ..exceptions import ColumnError, DataError, DmlrankError, FormulaError, MissingDataError, listed, nearest
from .formula import names_in
from .frames import is_vector_column, require_columns, stack_vectors
from .transforms import text

# patsy is never to drop a row by itself: missing values are one joint decision, taken before it is called.
_KEEP_ROWS = NAAction(on_NA="raise", NA_types=[])


@dataclass(frozen=True, slots=True)
class FeatureNames:
    """Where the names in the features live: columns of the data, and arrays of the caller with one row per data row."""

    columns: tuple[str, ...]
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """Fitted features: what turns further contexts into rows of X.

    Attributes
    ----------
    names : tuple of str
        Names of the p columns of X.
    """

    text: str
    variables: tuple[str, ...]
    names: tuple[str, ...]
    info: Any

    def transform(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """X, (n, p), of further contexts, with the transforms fitted before."""
        if self.info is None:
            return np.empty((len(table), 0))
        require_columns(self.variables, list(table.columns), "newdata")
        columns = {name: _values(table[name]) for name in self.variables}
        try:
            (matrix,) = patsy.build_design_matrices([self.info], columns, NA_action=_KEEP_ROWS)
        except PatsyError as error:
            raise DataError(f"the features {self.text!r} cannot be computed: {error.message}") from None
        return _without_intercept(matrix, self.info)


def caller_environment(env: int | Mapping[str, Any] | EvalEnvironment | None, depth: int) -> EvalEnvironment:
    """The namespace in which functions and arrays of a formula are looked up, ``text`` included.

    Parameters
    ----------
    env : int, mapping, patsy EvalEnvironment or None
        A mapping of names; or how many callers above the calling function to look (None means 0).
    depth : int
        Frames between the user's call and this one.
    """
    if isinstance(env, Mapping):
        found = EvalEnvironment([dict(env)])
    else:
        above = env if isinstance(env, int) else 0
        found = EvalEnvironment.capture(env if isinstance(env, EvalEnvironment) else above, reference=depth + 1)
    return found.with_outer_namespace({"text": text})


def locate_names(
    features: str, available: Sequence[str], environment: EvalEnvironment, n_rows: int, taken: Sequence[str]
) -> FeatureNames:
    """Tell columns from arrays and functions of the caller; raise where a name is neither.

    Raises
    ------
    ColumnError
        If a name is neither a column nor known where the formula is written.
    FormulaError
        If a feature is the outcome or an item column (``taken``): these belong to a comparison, not to a context.
    """
    values, calls = names_in(features)
    columns, arrays = [], []
    for name in values:
        if name in taken:
            raise FormulaError(
                f"{name!r} is the outcome or an item column and cannot be a feature; features describe the context"
            )
        if name in available:
            columns.append(name)
        elif _is_rows(environment.namespace.get(name), n_rows):
            arrays.append(name)
        elif not _is_known(name, environment):
            raise ColumnError(
                f"the features {features!r} use {name!r}, which is neither a column nor known where the formula is "
                f"written{nearest(name, available)} (columns: {listed(available)})"
            )
    for name in calls:
        if not _is_known(name, environment):
            raise FormulaError(
                f"the features {features!r} call {name!r}, which is not known where the formula is written"
                f"{nearest(name, [*patsy.builtins.__all__, 'text'])}; pass env={{{name!r}: function}}"
            )
    return FeatureNames(tuple(columns), tuple(arrays))


def fit_features(
    features: str, columns: Mapping[str, Any], n_rows: int, environment: EvalEnvironment
) -> tuple[NDArray[np.float64], FeatureMap]:
    """Evaluate the features on one row per context and keep what further contexts need.

    Returns
    -------
    X : ndarray, shape (n, p)
        Without an intercept.
    feature_map : FeatureMap
        Fitted transforms.
    """
    terms = ModelDesc.from_formula("~ " + features).rhs_termlist
    if not any(term.factors for term in terms):
        return np.empty((n_rows, 0)), FeatureMap(features, (), (), None)
    data = {name: _values(column) for name, column in columns.items()}
    try:
        matrix = patsy.dmatrix("~ " + features, data, environment, NA_action=_KEEP_ROWS)
    except PatsyError as error:
        if isinstance(error.__cause__, DmlrankError):
            raise error.__cause__ from None
        raise FormulaError(f"the features {features!r} cannot be computed: {error.message}") from None
    info = matrix.design_info
    names = tuple(name for name in info.column_names if name != "Intercept")
    return _without_intercept(matrix, info), FeatureMap(features, tuple(columns), names, info)


def check_features(x: NDArray[np.float64], names: Sequence[str], keep_missing: bool) -> NDArray[np.bool_]:
    """Contexts whose features are missing, (n,); infinite features, and missing ones unless kept, are errors."""
    infinite = np.isinf(x).any(axis=0)
    if infinite.any():
        columns = listed(np.array(names)[infinite])
        raise DataError(f"infinite values in the features {columns}; replace or drop these rows")
    missing: NDArray[np.bool_] = np.asarray(np.isnan(x).any(axis=1))
    if missing.any() and not keep_missing:
        columns = listed(np.array(names)[np.isnan(x).any(axis=0)])
        raise MissingDataError(
            f"the features {columns} are NaN in {int(missing.sum())} contexts although their columns are not missing; "
            f"pass missing='drop' to leave these contexts out or missing='keep' to hand NaN to the learner"
        )
    return missing


def _values(column: Any) -> Any:
    if isinstance(column, pd.Series):
        return stack_vectors(column) if is_vector_column(column) else column.reset_index(drop=True)
    return column


def _is_rows(value: Any, n_rows: int) -> bool:
    return isinstance(value, np.ndarray | pd.Series | pd.DataFrame) and len(value) == n_rows


def _is_known(name: str, environment: EvalEnvironment) -> bool:
    return name in environment.namespace or name in patsy.builtins.__all__ or hasattr(builtins, name)


def _without_intercept(matrix: Any, info: Any) -> NDArray[np.float64]:
    keep = [position for position, name in enumerate(info.column_names) if name != "Intercept"]
    return np.asarray(matrix, dtype=float)[:, keep]

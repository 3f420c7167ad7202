"""The feature part of a formula, evaluated with patsy on one row per context."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
import patsy.builtins
from numpy.typing import NDArray
from patsy import EvalEnvironment, ModelDesc, NAAction, PatsyError, Term

from ...exceptions import (
    ColumnError,
    DataError,
    DmlrankError,
    FormulaError,
    MissingDataError,
    OptionError,
    OptionTypeError,
    listed,
    nearest,
)
from ..frames import is_vector_column, require_columns, stack_vectors
from .numeric_terms import NumericTerm, common_type, numeric_terms, write
from .parse import dotted_names, equivalent, names_in, terms_of
from .transforms import KNOWN_ONLY, text


class _KeepRows(NAAction):
    """Missing values are one joint decision, taken before patsy is called: it never drops a row.

    NaN in numbers stays. A missing category gets some code here, and NaN in its columns later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[NDArray[np.bool_]] = []

    def is_numerical_NA(self, arr: Any) -> NDArray[np.bool_]:
        return np.zeros(len(arr), dtype=bool)

    def is_categorical_NA(self, obj: Any) -> bool:
        return bool(pd.api.types.is_scalar(obj) and pd.isna(obj))

    def handle_NA(self, values: list[Any], is_NAs: list[Any], origins: list[Any]) -> list[Any]:
        self.missing = [np.asarray(missing) for missing in is_NAs]
        return [
            np.where(gone, 0, value) if gone.any() else value for value, gone in zip(values, self.missing, strict=True)
        ]


# With more categories than this, most of them in one context only, a text is no category but a prompt.
_MANY_CATEGORIES = 50


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
    info : patsy DesignInfo or None
        What codes all terms but the numeric ones.
    numeric : tuple of (int, NumericTerm)
        Terms that are numbers as they stand, with their first column of X.
    coded : ndarray of int
        Columns of X that patsy makes.
    """

    text: str
    variables: tuple[str, ...]
    names: tuple[str, ...]
    info: Any
    numeric: tuple[tuple[int, NumericTerm], ...] = ()
    coded: NDArray[np.intp] | None = None

    def transform(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """X, (n, p), of further contexts, with the transforms fitted before."""
        require_columns(self.variables, list(table.columns), "newdata")
        columns = {name: table[name] for name in self.variables}
        for _, term in self.numeric:
            columns[term.variable] = self._numbers(columns[term.variable], term.variable, term.width)
        for factor, fitted in self.info.factor_infos.items() if self.info is not None else ():
            if fitted.type == "numerical" and factor.name() in columns:
                columns[factor.name()] = self._numbers(columns[factor.name()], factor.name(), fitted.num_columns)
        return self.matrix(columns, len(table), DataError)

    def matrix(self, columns: Mapping[str, Any], n_rows: int, kind: type[DmlrankError]) -> NDArray[np.float64]:
        """X, (n, p), each number written once; errors in patsy's part are of the given kind.

        X is in single precision where it consists of numbers that were handed in so: learners see the same numbers.
        """
        numeric = [columns[term.variable] for _, term in self.numeric]
        dtype = np.float64 if self.info is not None or not numeric else common_type(numeric)
        x = np.empty((n_rows, len(self.names)), dtype)
        for (start, term), column in zip(self.numeric, numeric, strict=True):
            write(term, column, x[:, start : start + term.width])
        if self.info is not None:
            values = {name: _values(columns[name]) for name in _variables(self.info.factor_infos, columns)}
            x[:, self.coded] = _matrix(self.info, values, n_rows, self.text, kind)
        return x

    def _numbers(self, column: Any, name: str, width: int) -> Any:
        """A column, or vectors of the given width, where the fit had numbers."""
        if not isinstance(column, pd.Series) or is_vector_column(column):
            return column
        if column.dtype == object and column.isna().all():
            return np.full((len(column), width), np.nan)
        if column.dtype == bool:
            # Booleans among which some were missing are numbers.
            return column.astype(float)
        if not pd.api.types.is_numeric_dtype(column.dtype):
            raise DataError(f"newdata: {name!r} is {column.iloc[0]!r}; the features {self.text!r} need numbers there")
        return column


def caller_environment(env: int | Mapping[str, Any] | EvalEnvironment | None, depth: int) -> EvalEnvironment:
    """The namespace in which functions and arrays of a formula are looked up, our transforms included.

    Parameters
    ----------
    env : int, mapping, patsy EvalEnvironment or None
        A mapping of names; or how many callers above the calling function to look (None means 0).
    depth : int
        Frames between the user's call and this one.

    Raises
    ------
    OptionTypeError, OptionError
        If ``env`` is something else, or there are not that many callers.
    """
    if isinstance(env, Mapping):
        found = EvalEnvironment([dict(env)])
    elif isinstance(env, EvalEnvironment):
        found = env
    elif env is None or isinstance(env, int):
        if (env or 0) < 0:
            raise OptionError(f"env={env}: needed is a number of callers to look above, at least 0")
        try:
            found = EvalEnvironment.capture(env or 0, reference=depth + 1)
        except ValueError:
            raise OptionError(f"env={env}: there are not that many callers above") from None
    else:
        raise OptionTypeError(
            f"env is a {type(env).__name__}; allowed: a mapping of names, the number of callers above, or a patsy "
            f"EvalEnvironment"
        )
    return found.with_outer_namespace({"np": np, "text": text, **KNOWN_ONLY})


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
    values, calls, alone = names_in(features)
    for name in dotted_names(features):
        if name in available:
            raise FormulaError(
                f"the features {features!r} use {name!r}, which Python reads as a part of {name.split('.')[0]!r}; the "
                f"column of this name is written Q({name!r})"
            )
    columns, arrays = [], []
    for name in values:
        if name in taken:
            raise FormulaError(
                f"{name!r} is the outcome or an item column and cannot be a feature; features describe the context"
            )
        if name in available:
            columns.append(name)
        elif _is_rows(environment.namespace.get(name), n_rows, name in alone):
            arrays.append(name)
        elif name in alone or not _is_known(name, environment):
            raise ColumnError(
                f"the features {features!r} use {name!r}, which is neither a column nor "
                f"{_what_is_known(name, environment, n_rows)}{nearest(name, available)} (columns: {listed(available)})"
            )
    for name in calls:
        if not _is_known(name, environment):
            raise FormulaError(
                f"the features {features!r} call {name!r}, which is not known where the formula is written"
                f"{_advice_for_function(name)}"
            )
    return FeatureNames(tuple(columns), tuple(arrays))


def _advice_for_function(name: str) -> str:
    """What to write in place of a function that is not known: its equivalent, a close name, or how to hand it in."""
    known = equivalent(name)
    return known or f"{nearest(name, [*patsy.builtins.__all__, 'text'], cutoff=0.8)}; pass env={{{name!r}: function}}"


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
    terms = terms_of(features)
    uncoded = numeric_terms(terms, columns)
    rest = [term for term in terms if term not in uncoded]
    info = None
    if any(term.factors for term in rest):
        data = {name: _values(columns[name]) for name in _variables([f for t in rest for f in t.factors], columns)}
        for name in set(names_in(features).alone) & set(data):
            _check_category(name, data[name], n_rows)
        with _own_errors(features, FormulaError):
            info = patsy.incr_dbuilder(ModelDesc([], rest), lambda: iter([data]), environment, NA_action=_KeepRows())
    names, starts, coded = _arranged(terms, uncoded, info)
    feature_map = FeatureMap(features, tuple(columns), names, info, starts, coded)
    return feature_map.matrix(columns, n_rows, FormulaError), feature_map


def new_features(feature_map: FeatureMap, table: pd.DataFrame, keep_missing: bool) -> NDArray[np.float64]:
    """X, (n, p), of further contexts; infinite features, and missing values unless kept, are errors."""
    missing = [name for name in feature_map.variables if table[name].isna().any()]
    if missing and not keep_missing:
        n_missing = int(table[missing].isna().any(axis=1).sum())
        raise MissingDataError(
            f"newdata: {listed(missing)} are NaN or missing in {n_missing} of {len(table)} rows; only a fit with "
            f"missing='keep' takes them"
        )
    x = feature_map.transform(table)
    check_features(x, feature_map.names, keep_missing)
    return x


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


def _arranged(
    terms: Sequence[Term], uncoded: Mapping[Term, NumericTerm], info: Any
) -> tuple[tuple[str, ...], tuple[tuple[int, NumericTerm], ...], NDArray[np.intp]]:
    """Names of the columns of X, where each numeric term starts, and the columns that patsy makes.

    The order is patsy's: terms without numbers, then the others by the numbers they have in common, in order of
    appearance.
    """
    fitted = info.factor_infos if info is not None else {}
    coded = [term for term in info.term_slices if term.factors] if info is not None else []
    numeric = {factor for term in uncoded for factor in term.factors}
    numeric |= {factor for factor, about in fitted.items() if about.type == "numerical"}
    shared = [numeric.intersection(term.factors) for term in terms]
    place = {term: shared.index(numbers) if numbers else -1 for term, numbers in zip(terms, shared, strict=True)}
    names: list[str] = []
    starts: list[tuple[int, NumericTerm]] = []
    columns: list[int] = []
    for term in sorted([*coded, *uncoded], key=lambda term: place[term]):
        if term in uncoded:
            starts.append((len(names), uncoded[term]))
            names += uncoded[term].names
        else:
            own = info.column_names[info.term_slices[term]]
            columns += range(len(names), len(names) + len(own))
            names += own
    return tuple(names), tuple(starts), np.array(columns, dtype=np.intp)


def _variables(factors: Iterable[Any], columns: Mapping[str, Any]) -> list[str]:
    """The columns and arrays that these factors read."""
    read = {name for factor in factors for name in names_in(factor.code).values}
    return [name for name in columns if name in read]


def _values(column: Any) -> Any:
    if isinstance(column, pd.Series):
        return stack_vectors(column) if is_vector_column(column) else column.reset_index(drop=True)
    return column


def _is_rows(value: Any, n_rows: int, alone: bool) -> bool:
    """Whether a value holds something for every row; a list does only where it is meant as a feature."""
    kinds = np.ndarray | pd.Series | pd.DataFrame
    return isinstance(value, kinds | list | tuple if alone else kinds) and len(value) == n_rows


def _is_known(name: str, environment: EvalEnvironment) -> bool:
    return name in environment.namespace or name in patsy.builtins.__all__ or hasattr(builtins, name)


def _what_is_known(name: str, environment: EvalEnvironment, n_rows: int) -> str:
    value = environment.namespace.get(name)
    if value is None:
        return "known where the formula is written"
    size = f" of {len(value)}" if isinstance(value, Sized) else ""
    return f"an array with one entry for each of the {n_rows} rows (it is a {type(value).__name__}{size})"


def _check_category(name: str, column: Any, n_rows: int) -> None:
    """Raise where a text would become nearly as many columns as there are contexts."""
    values = pd.Series(column) if np.ndim(column) == 1 else pd.Series(dtype=float)
    if values.dtype.kind in "OUS" and values.nunique() > max(_MANY_CATEGORIES, n_rows / 2):
        raise FormulaError(
            f"feature {name!r} has {values.nunique()} different values in {n_rows} contexts, which is no category; "
            f"text({name}, 100) makes numbers of texts"
        )


@contextmanager
def _own_errors(features: str, kind: type[DmlrankError]) -> Iterator[None]:
    """Errors of patsy, and of functions in the formula, as one of ours."""
    try:
        yield
    except DmlrankError:
        raise
    except PatsyError as error:
        if isinstance(error.__cause__, DmlrankError):
            raise error.__cause__ from None
        raise kind(f"the features {features!r} cannot be computed: {error.message}") from None
    except (MemoryError, Warning):
        raise
    except Exception as error:
        # Functions in a formula may raise anything.
        why = str(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"
        raise kind(f"the features {features!r} cannot be computed: {why}") from None


def _matrix(
    info: Any, columns: Mapping[str, Any], n_rows: int, features: str, kind: type[DmlrankError]
) -> NDArray[np.float64]:
    """X without the intercept, (n, p), NaN where a number or category is missing."""
    rows = _KeepRows()
    # Infinite and missing products are looked for in X; numpy need not warn of them.
    with _own_errors(features, kind), np.errstate(over="ignore", invalid="ignore"):
        (matrix,) = patsy.build_design_matrices([info], columns, NA_action=rows)
    if len(matrix) != n_rows:
        raise kind(f"the features {features!r} have {len(matrix)} rows for {n_rows} contexts; needed is one for each")
    x = np.array(matrix, dtype=float)
    for factor, missing in zip(info.factor_infos, rows.missing, strict=True):
        for term, place in info.term_slices.items():
            if factor in term.factors and missing.any():
                x[missing, place] = np.nan
    return x[:, _is_feature(info)]


def _is_feature(info: Any) -> NDArray[np.bool_]:
    """Columns of a design that are not its intercept."""
    columns = np.ones(len(info.column_names), dtype=bool)
    for term, place in info.term_slices.items():
        columns[place] = bool(term.factors)
    return columns

"""From a frame and a formula to :class:`PreferenceData`: one joint mask, contexts, votes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from ..exceptions import ColumnError, DataError, DmlrankWarning, MissingDataError, listed, nearest
from .features import FeatureMap, FeatureNames, check_features, fit_features, locate_names
from .formula import Formula, parse_formula
from .frames import (
    as_array,
    check_names,
    column_names,
    is_vector_column,
    name_of,
    require_columns,
    stack_vectors,
    take_columns,
)
from .outcomes import read_outcomes
from .preferences import IntArray, PreferenceData, gather_cells

# Kinds of columns that patsy would take for a category per value.
_TIMES = {
    "datetime64": "timestamp",
    "datetime": "timestamp",
    "date": "date",
    "period": "period",
    "timedelta64": "time difference",
    "timedelta": "time difference",
    "time": "time of day",
}


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The needed columns of the rows that are kept, and what stands in which."""

    formula: Formula
    names: FeatureNames
    context: tuple[str, ...]
    extras: tuple[str, ...]
    table: pd.DataFrame
    arrays: dict[str, Any]
    index: IntArray
    n_rows: int

    def only(self, kept: NDArray[np.bool_]) -> _Rows:
        """These rows without the ones that are not kept."""
        arrays = {name: array[kept] for name, array in self.arrays.items()}
        table = self.table[kept].reset_index(drop=True)
        return replace(self, table=table, arrays=arrays, index=self.index[kept])


def read_preferences(
    formula: str,
    data: Any,
    environment: EvalEnvironment,
    context: Sequence[str] = (),
    categories: Mapping[Any, str] | None = None,
    missing: str = "raise",
    groups: Sequence[str] = (),
    propensity: str | None = None,
) -> PreferenceData:
    """Read what a fit needs from a frame.

    Parameters
    ----------
    formula : str
        ``winner ~ features | model_a + model_b``.
    data : eager frame
        One row per vote, or per context without a vote (missing winner).
    environment : EvalEnvironment
        Where functions and arrays of the formula are looked up.
    context : sequence of str
        Columns that identify a context; none means that every row is one.
    categories : mapping, optional
        Meanings of labels that are not known.
    missing : {"raise", "drop", "keep"}
        What to do with rows in which a needed value is missing.
    groups, propensity : sequence of str, str
        Further columns to read: clusters, and the propensity of the row's pair.

    Raises
    ------
    DataError, MissingDataError, OutcomeError, FormulaError, ColumnError
        Where formula and data do not go together.
    """
    everything = _needed_columns(formula, data, environment, tuple(context), tuple(groups), propensity)
    rows = everything.only(_complete(everything, missing, propensity))
    while True:
        row_context, first_row, seed_order = _contexts(rows)
        _check_constant(rows, row_context, first_row)
        x, feature_map = _features(rows, first_row, environment)
        incomplete = check_features(x, feature_map.names, keep_missing=missing != "raise")
        _check_something_known(x, feature_map.names, incomplete, missing)
        if missing != "drop" or not incomplete.any():
            break
        rows = rows.only(~incomplete[row_context])
    _warn_of_repeats(rows)
    return _assemble(rows, row_context, first_row, seed_order, x, feature_map, categories)


def count_missing(
    formula: str, data: Any, environment: EvalEnvironment, context: Sequence[str] = (), groups: Sequence[str] = ()
) -> dict[str, int]:
    """Rows in which a value is missing where one is needed, by column (and array of the caller).

    Parameters are those of :func:`read_preferences`. A missing winner is none of these, nor are the models of such a
    row.
    """
    rows = _needed_columns(formula, data, environment, tuple(context), tuple(groups), None)
    return {name: int(np.sum(mask)) for name, mask in _missing_values(rows, "raise", None).items()}


def _needed_columns(
    text: str,
    data: Any,
    environment: EvalEnvironment,
    context: tuple[str, ...],
    groups: tuple[str, ...],
    propensity: str | None,
) -> _Rows:
    formula = parse_formula(text)
    available = column_names(data)
    roles = (formula.outcome, formula.first, formula.second)
    require_columns(roles, available, f"formula {text!r}")
    require_columns(context, available, "context=")
    require_columns(groups, available, "cov_kwds groups")
    if propensity and propensity not in available:
        words = ["estimate", "marginal"]
        raise ColumnError(
            f"propensity={propensity!r} is neither 'estimate' nor 'marginal' nor a column"
            f"{nearest(propensity, [*words, *available])} (columns: {listed(available)})"
        )
    extras = tuple(dict.fromkeys([*groups, *([propensity] if propensity else [])]))
    n_rows = len(take_columns(data, [formula.outcome]))
    names = locate_names(formula.features, available, environment, n_rows, roles)
    table = take_columns(data, list(dict.fromkeys([*roles, *names.columns, *context, *extras])))
    arrays = {name: as_array(environment.namespace[name]) for name in names.arrays}
    check_names(
        table, [name for name in table.columns if name not in names.columns or not is_vector_column(table[name])]
    )
    for name in names.columns:
        kind = pd.api.types.infer_dtype(table[name], skipna=True)
        if kind in _TIMES:
            raise DataError(
                f"feature {name!r} is a {_TIMES[kind]}; turn it into a number (days since ...) or a category"
            )
    return _Rows(formula, names, context, extras, table, arrays, np.arange(n_rows), n_rows)


def _complete(rows: _Rows, missing: str, propensity: str | None) -> NDArray[np.bool_]:
    """Rows without a missing value where one is needed, (rows,): the one joint mask."""
    needed = _missing_values(rows, missing, propensity)
    counts = {name: int(np.sum(mask)) for name, mask in needed.items()}
    if missing != "drop" and any(counts.values()):
        raise MissingDataError(_missing_message(rows, {name: n for name, n in counts.items() if n}))
    keep = ~np.logical_or.reduce([np.asarray(mask) for mask in needed.values()])
    if not keep.any():
        found = ", ".join(f"{name!r} in {n}" for name, n in counts.items() if n)
        raise MissingDataError(f"every one of the {rows.n_rows} rows misses a needed value: {found}")
    return keep


def _missing_values(rows: _Rows, missing: str, propensity: str | None) -> dict[str, Any]:
    """Where a needed value is missing, (rows,) for every column."""
    table, formula = rows.table, rows.formula
    labelled = table[formula.outcome].notna()
    needed: dict[str, Any] = {name: table[name].isna() & labelled for name in (formula.first, formula.second)}
    needed |= {name: table[name].isna() for name in (*rows.context, *rows.extras) if name != propensity}
    if propensity:
        needed[propensity] = table[propensity].isna() & labelled
    if missing != "keep":
        needed |= {name: table[name].isna() for name in rows.names.columns}
        needed |= {name: pd.isna(array).reshape(len(table), -1).any(axis=1) for name, array in rows.arrays.items()}
    return needed


def _missing_message(rows: _Rows, counts: dict[str, int]) -> str:
    found = ", ".join(f"{name!r} in {n} of {rows.n_rows} rows" for name, n in counts.items())
    ids = [name for name in counts if name in rows.context]
    if ids:
        return f"missing values: {found}; a row without {listed(ids)} belongs to no context (missing='drop' drops it)"
    numeric = [name for name in counts if name in rows.names.columns]
    keep = " or missing='keep' to hand missing values to the learner" if numeric else ""
    return f"missing values: {found}; pass missing='drop' to drop these rows{keep}"


def _contexts(rows: _Rows) -> tuple[IntArray, IntArray, IntArray]:
    """Context of each row, first row of each context, and each context's place in the order of its identifiers."""
    n = len(rows.table)
    if not rows.context:
        return np.arange(n), np.arange(n), np.arange(n)
    ids = rows.table[list(rows.context)].astype(str)
    row_context = np.asarray(ids.groupby(list(rows.context), sort=False).ngroup(), dtype=np.intp)
    first_row = np.unique(row_context, return_index=True)[1].astype(np.intp)
    by_id = ids.iloc[first_row].reset_index(drop=True).sort_values(list(rows.context)).index.to_numpy()
    seed_order = np.empty(len(first_row), dtype=np.intp)
    seed_order[by_id] = np.arange(len(first_row))
    return row_context, first_row, seed_order


def _check_constant(rows: _Rows, row_context: IntArray, first_row: IntArray) -> None:
    """Raise where two rows of one context have different features."""
    if len(first_row) == len(row_context):
        return
    columns = {name: rows.table[name] for name in rows.names.columns} | rows.arrays
    for name, column in columns.items():
        codes = _codes(column)
        differs = codes != codes[first_row][row_context]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            here = list(rows.table[list(rows.context)].iloc[row])
            n_bad = len(np.unique(row_context[differs]))
            raise DataError(
                f"feature {name!r} differs within {n_bad} contexts, first in "
                f"{dict(zip(rows.context, here, strict=True))}: "
                f"{_cell(column, first_row[row_context[row]])} and {_cell(column, row)}; a context has one value of "
                f"every feature (if {name!r} tells contexts apart, add it to context=)"
            )


def _codes(column: Any) -> IntArray:
    if isinstance(column, pd.Series) and not is_vector_column(column):
        return pd.factorize(column, use_na_sentinel=True)[0]
    matrix = stack_vectors(column) if isinstance(column, pd.Series) else column.reshape(len(column), -1)
    if matrix.dtype.kind not in "biuf":
        rows_alike = pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False)
        return np.asarray(rows_alike.ngroup(), dtype=np.intp)
    # Rows as bytes: one hash for each in place of a comparison for each number. Adding zero turns -0.0 into 0.0.
    rows = np.ascontiguousarray(matrix, dtype=float) + 0.0
    return pd.factorize(np.array([row.tobytes() for row in rows], dtype=object))[0]


def _cell(column: Any, row: int) -> str:
    cell = column.iloc[row] if isinstance(column, pd.Series) else column[row]
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else text[:57] + "..."


def _features(rows: _Rows, first_row: IntArray, environment: EvalEnvironment) -> tuple[NDArray[np.float64], FeatureMap]:
    columns: dict[str, Any] = {name: rows.table[name].iloc[first_row] for name in rows.names.columns}
    columns |= {name: array[first_row] for name, array in rows.arrays.items()}
    return fit_features(rows.formula.features, columns, len(first_row), environment)


def _check_something_known(
    x: NDArray[np.float64], names: Sequence[str], incomplete: NDArray[np.bool_], missing: str
) -> None:
    """Raise where a feature is missing in every context, or dropping the incomplete contexts would leave none."""
    empty = np.isnan(x).all(axis=0)
    if empty.any():
        raise MissingDataError(
            f"the features {listed(np.array(names)[empty])} are NaN in every context; one NaN that goes into center() "
            f"or the like makes all of them NaN: put such a feature into a column first"
        )
    if missing == "drop" and incomplete.all():
        raise MissingDataError(f"no context is left: in each of the {len(x)} contexts some feature is NaN")


def _warn_of_repeats(rows: _Rows) -> None:
    """Without ``context=``, equal texts or vectors are most likely one prompt that was used more than once."""
    if rows.context or not len(rows.names.columns):
        return
    for name, count in repeated_values(rows.table[list(rows.names.columns)]).items():
        if count:
            warnings.warn(
                f"{count} rows repeat a value of {name!r}: are these the same prompt? Every row is taken as a context "
                f"of its own; pass context= with the column that identifies prompts",
                DmlrankWarning,
                stacklevel=5,
            )
            return


def repeated_values(table: pd.DataFrame) -> dict[str, int]:
    """Rows that repeat a value, for every column that tells prompts apart, as texts and vectors do."""
    telling = [name for name in table.columns if _tells_prompts_apart(table[name])]
    return {name: len(table) - len(np.unique(_codes(table[name]))) for name in telling}


def _tells_prompts_apart(column: pd.Series) -> bool:
    """Whether almost every value of a text, vector or float column is its own, as a prompt's is."""
    if not (is_vector_column(column) or column.dtype == object or column.dtype.kind == "f"):
        return False
    return len(np.unique(_codes(column))) > len(column) / 2


def _items(first: pd.Series, second: pd.Series) -> tuple[str, ...]:
    """Names of the items, in the order of the Categorical where both columns share one, else sorted."""
    present = {name_of(name) for column in (first, second) for name in column.dropna().unique()}
    levels = [column.cat.categories for column in (first, second) if isinstance(column.dtype, pd.CategoricalDtype)]
    if len(levels) == 2:
        named = [[name_of(name) for name in level] for level in levels]
        merged = list(dict.fromkeys([*named[0], *named[1]]))
        orders = [[merged.index(name) for name in level] for level in named]
        if all(order == sorted(order) for order in orders):
            return tuple(name for name in merged if name in present)
    return tuple(sorted(present))


def _assemble(
    rows: _Rows,
    row_context: IntArray,
    first_row: IntArray,
    seed_order: IntArray,
    x: NDArray[np.float64],
    feature_map: FeatureMap,
    categories: Mapping[Any, str] | None,
) -> PreferenceData:
    table, formula = rows.table, rows.formula
    items = _items(table[formula.first], table[formula.second])
    first, second = (_item_codes(table[name], items) for name in (formula.first, formula.second))
    _check_battles(rows, items, first, second)
    vote_row = np.flatnonzero(table[formula.outcome].notna())
    if not len(vote_row):
        raise DataError(f"no row has a label: {formula.outcome!r} is missing in all {len(table)} rows")
    names = np.array(items, dtype=object)
    first, second = first[vote_row], second[vote_row]
    outcomes = read_outcomes(table[formula.outcome].iloc[vote_row], names[first], names[second], categories)
    cells, vote_cell = gather_cells(row_context[vote_row], first, second, outcomes.y)
    return PreferenceData(
        items=items,
        categories=outcomes.categories,
        labels=outcomes.labels,
        x=x,
        feature_map=feature_map,
        context_ids=_identifiers(rows, first_row),
        seed_order=seed_order,
        cells=cells,
        vote_cell=vote_cell,
        vote_y=outcomes.y,
        vote_row=vote_row,
        row_context=row_context,
        row_index=rows.index,
        extras=table[list(rows.extras)],
        n_rows=rows.n_rows,
        n_dropped=rows.n_rows - len(table),
    )


def _item_codes(column: pd.Series, items: tuple[str, ...]) -> IntArray:
    code = {name: position for position, name in enumerate(items)}
    return np.array([code[name_of(name)] if known else -1 for name, known in zip(column, column.notna(), strict=True)])


def _check_battles(rows: _Rows, items: tuple[str, ...], first: IntArray, second: IntArray) -> None:
    itself = (first == second) & (first >= 0)
    if itself.any():
        row = int(np.flatnonzero(itself)[0])
        raise DataError(
            f"{int(itself.sum())} rows compare a model with itself, first row {rows.index[row]}: "
            f"{items[first[row]]!r}; a comparison needs two models"
        )
    if len(items) < 2:
        seen = f"only one model in the data ({items[0]!r})" if items else "no model in the data"
        raise DataError(f"{seen}; a ranking needs at least two")


def _identifiers(rows: _Rows, first_row: IntArray) -> NDArray[np.object_]:
    ids = np.empty(len(first_row), dtype=object)
    if not rows.context:
        ids[:] = rows.index[first_row]
    elif len(rows.context) == 1:
        ids[:] = rows.table[rows.context[0]].iloc[first_row].tolist()
    else:
        ids[:] = list(rows.table[list(rows.context)].iloc[first_row].itertuples(index=False, name=None))
    return ids

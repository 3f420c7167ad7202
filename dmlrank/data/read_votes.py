"""From a frame and a formula to :class:`PreferenceData`: one joint mask, contexts, votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from ..exceptions import ColumnError, DataError, MissingDataError, listed, nearest
from .contexts import Rows, check_constant, find_contexts, identifiers, warn_of_repeats
from .formula.features import FeatureMap, check_features, fit_features, locate_names
from .formula.parse import names_in, parse_formula
from .frames import (
    Coded,
    as_array,
    check_names,
    column_names,
    is_vector_column,
    kind_of_time,
    name_of,
    require_columns,
    take_columns,
)
from .outcomes import Outcomes, read_coded, read_probabilities
from .preferences import IntArray, PreferenceData, gather_cells
from .unlabelled import append_unlabelled


def read_preferences(
    formula: str,
    data: Any,
    environment: EvalEnvironment,
    context: Sequence[str] = (),
    categories: Mapping[Any, str] | None = None,
    missing: str = "raise",
    groups: Sequence[str] = (),
    propensity: str | None = None,
    votes: str = "mean",
    unlabelled: Any = None,
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
    votes : {"mean", "first"}
        Whether all votes on one context, first and second item count, or the first in the order of the rows.
    unlabelled : frame, optional
        Further contexts, none of them labelled; see :func:`dmlrank.data.unlabelled.append_unlabelled`.

    Raises
    ------
    DataError, MissingDataError, OutcomeError, FormulaError, ColumnError
        Where formula and data do not go together.
    """
    everything = _needed_columns(formula, data, environment, tuple(context), tuple(groups), propensity)
    if unlabelled is not None:
        everything = append_unlabelled(everything, unlabelled, tuple(groups))
    rows = everything.only(_complete(everything, missing, propensity))
    while True:
        row_context, first_row, seed_order = find_contexts(rows)
        check_constant(rows, row_context, first_row)
        x, feature_map = _features(rows, first_row, environment)
        incomplete = check_features(x, feature_map.names, keep_missing=missing != "raise")
        _check_something_known(x, feature_map.names, incomplete, missing)
        if missing != "drop" or not incomplete.any():
            break
        rows = rows.only(~incomplete[row_context])
    warn_of_repeats(rows)
    if votes == "first":
        again = _later_votes(rows, row_context)
        rows, row_context = replace(rows.only(~again), n_later_votes=int(again.sum())), row_context[~again]
        # A context's first row is never a later vote, so the features stay those of its first row.
        first_row = np.unique(row_context, return_index=True)[1]
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
) -> Rows:
    formula = parse_formula(text)
    available = column_names(data)
    roles = (*formula.outcomes, formula.first, formula.second)
    require_columns(roles, available, f"formula {text!r}")
    require_columns(context, available, "context=")
    require_columns(groups, available, "cov_kwds groups and weights")
    if propensity and propensity not in available:
        words = ["estimate", "marginal"]
        raise ColumnError(
            f"propensity={propensity!r} is neither 'estimate' nor 'marginal' nor a column"
            f"{nearest(propensity, [*words, *available])} (columns: {listed(available)})"
        )
    extras = tuple(dict.fromkeys([*groups, *([propensity] if propensity else [])]))
    # One reading of all columns: a relation may have its rows in another order the next time.
    used = [name for name in names_in(formula.features).values if name in available]
    table = take_columns(data, list(dict.fromkeys([*roles, *used, *context, *extras])))
    n_rows = len(table)
    names = locate_names(formula.features, available, environment, n_rows, roles)
    arrays = {name: as_array(environment.namespace[name]) for name in names.arrays}
    coded = check_names(
        table, [name for name in table.columns if name not in names.columns or _may_be_odd(table[name])]
    )
    for name in names.columns:
        kind = kind_of_time(table[name])
        if kind:
            raise DataError(f"feature {name!r} is a {kind}; turn it into a number (days since ...) or a category")
    in_roles = {name: coded[name] if name in coded else check_names(table, [name])[name] for name in roles}
    return Rows(formula, names, context, extras, table, in_roles, arrays, np.arange(n_rows), n_rows, n_rows)


def _may_be_odd(feature: pd.Series) -> bool:
    """Whether cells could hold what is no value: numbers cannot, and vectors are looked at elsewhere."""
    return feature.dtype.kind == "O" and not is_vector_column(feature)


def _complete(rows: Rows, missing: str, propensity: str | None) -> NDArray[np.bool_]:
    """Rows without a missing value where one is needed, (rows,): the one joint mask."""
    needed = _missing_values(rows, missing, propensity)
    holes = {name: np.asarray(mask) for name, mask in needed.items() if np.any(mask)}
    if missing != "drop" and holes:
        raise MissingDataError(_missing_message(rows, holes))
    keep = ~np.logical_or.reduce([np.zeros(len(rows.table), dtype=bool), *holes.values()])
    if not keep.any():
        found = ", ".join(f"{name!r} in {mask.sum()}" for name, mask in holes.items())
        raise MissingDataError(f"every one of the {rows.n_rows} rows misses a needed value: {found}")
    return keep


def _missing_values(rows: Rows, missing: str, propensity: str | None) -> dict[str, Any]:
    """Where a needed value is missing, (rows,) for every column."""
    table, formula = rows.table, rows.formula
    labelled = rows.labelled
    roles = (*formula.outcomes, formula.first, formula.second)
    needed: dict[str, Any] = {name: ~rows.roles[name].known & labelled for name in roles}
    needed |= {name: table[name].isna() for name in (*rows.context, *rows.extras) if name != propensity}
    if propensity:
        needed[propensity] = table[propensity].isna() & labelled
    if missing != "keep":
        needed |= {name: table[name].isna() for name in rows.names.columns}
        needed |= {name: pd.isna(array).reshape(len(table), -1).any(axis=1) for name, array in rows.arrays.items()}
    return needed


def _missing_message(rows: Rows, holes: dict[str, NDArray[np.bool_]]) -> str:
    found = ", ".join(f"{name!r} in {mask.sum()} of {rows.n_rows} rows" for name, mask in holes.items())
    n_added = int(np.logical_or.reduce(list(holes.values()))[rows.n_own :].sum())
    found += f" ({n_added} of these rows in unlabelled=)" if n_added else ""
    ids = [name for name in holes if name in rows.context]
    if ids:
        return f"missing values: {found}; a row without {listed(ids)} belongs to no context (missing='drop' drops it)"
    numeric = [name for name in holes if name in rows.names.columns]
    keep = " or missing='keep' to hand missing values to the learner" if numeric else ""
    return f"missing values: {found}; pass missing='drop' to drop these rows{keep}"


def _features(rows: Rows, first_row: IntArray, environment: EvalEnvironment) -> tuple[NDArray[np.float64], FeatureMap]:
    columns: dict[str, Any] = {name: rows.table[name].iloc[first_row] for name in rows.names.columns}
    # Where every row is a context of its own, there is nothing to choose and nothing to copy.
    alone = len(first_row) == len(rows.table)
    columns |= {name: array if alone else array[first_row] for name, array in rows.arrays.items()}
    return fit_features(rows.formula.features, columns, len(first_row), environment)


def _check_something_known(
    x: NDArray[np.float64], names: Sequence[str], incomplete: NDArray[np.bool_], missing: str
) -> None:
    """Raise where a feature is missing in every context, or dropping the incomplete contexts would leave none."""
    empty = np.isnan(x).all(axis=0)
    if empty.any():
        raise MissingDataError(
            f"the features {listed(np.array(names)[empty])} are NaN in every context; a function that is given one NaN "
            f"may make NaN of all"
        )
    if missing == "drop" and incomplete.all():
        raise MissingDataError(f"no context is left: in each of the {len(x)} contexts some feature is NaN")


def _later_votes(rows: Rows, row_context: IntArray) -> NDArray[np.bool_]:
    """Votes, (rows,), before which there is another one on the same context and the same items in the same order."""
    labelled, formula = rows.labelled, rows.formula
    columns = rows.roles[formula.first], rows.roles[formula.second]
    code = {name: number for number, name in enumerate({name_of(level) for c in columns for level in c.levels})}
    votes = pd.DataFrame({"context": row_context[labelled]})
    for place, column in enumerate(columns):
        votes[place] = _item_codes(column, code)[labelled]
    again = np.zeros(len(labelled), dtype=bool)
    again[labelled] = votes.duplicated()
    return again


def _items(rows: Rows) -> tuple[str, ...]:
    """Names of the items, in the order of the Categorical where both columns share one, else sorted."""
    names = (rows.formula.first, rows.formula.second)
    present = {name_of(level) for name in names for level in rows.roles[name].levels}
    columns = [rows.table[name] for name in names]
    levels = [column.cat.categories for column in columns if isinstance(column.dtype, pd.CategoricalDtype)]
    if len(levels) == 2:
        named = [[name_of(name) for name in level] for level in levels]
        merged = list(dict.fromkeys([*named[0], *named[1]]))
        orders = [[merged.index(name) for name in level] for level in named]
        if all(order == sorted(order) for order in orders):
            return tuple(name for name in merged if name in present)
    return tuple(sorted(present))


def _assemble(
    rows: Rows,
    row_context: IntArray,
    first_row: IntArray,
    seed_order: IntArray,
    x: NDArray[np.float64],
    feature_map: FeatureMap,
    categories: Mapping[Any, str] | None,
) -> PreferenceData:
    table, formula = rows.table, rows.formula
    items = _items(rows)
    code = {name: position for position, name in enumerate(items)}
    first, second = (_item_codes(rows.roles[name], code) for name in (formula.first, formula.second))
    _check_battles(rows, items, first, second)
    vote_row = np.flatnonzero(rows.labelled)
    if not len(vote_row):
        raise DataError(f"no row has a label: {formula.outcome!r} is missing in all {len(table)} rows")
    if len(vote_row) < len(first):
        first, second = first[vote_row], second[vote_row]

    outcomes = _outcomes(rows, vote_row, first, second, items, categories)
    cells, vote_cell = gather_cells(row_context[vote_row], first, second, outcomes.y)
    return PreferenceData(
        items=items,
        categories=outcomes.categories,
        labels=outcomes.labels,
        outcome_kind=outcomes.kind,
        x=x,
        feature_map=feature_map,
        context_ids=identifiers(rows, first_row),
        seed_order=seed_order,
        cells=cells,
        vote_cell=vote_cell,
        vote_y=outcomes.y,
        vote_row=vote_row,
        row_context=row_context,
        row_index=rows.index,
        extras=table[list(rows.extras)],
        n_rows=rows.n_rows,
        n_dropped=rows.n_rows - len(table) - rows.n_later_votes,
        n_votes_dropped=rows.n_later_votes,
        n_added=int((rows.index[first_row] >= rows.n_own).sum()),
    )


def _outcomes(
    rows: Rows,
    vote_row: IntArray,
    first: IntArray,
    second: IntArray,
    items: tuple[str, ...],
    categories: Mapping[Any, str] | None,
) -> Outcomes:
    """The labels of the rows that have one, and of whom they are."""
    formula = rows.formula

    def votes() -> pd.DataFrame:
        return rows.table[list(formula.outcomes)].iloc[vote_row].set_axis(rows.index[vote_row])

    if formula.probabilities:
        return read_probabilities(votes(), categories)
    label = rows.roles[formula.outcome]
    label = label if len(vote_row) == len(rows.table) else label.only(vote_row)
    return read_coded(label, first, second, items, lambda: votes()[formula.outcome], categories)


def _item_codes(column: Coded, code: Mapping[str, int]) -> IntArray:
    """Code of each cell's item, -1 where there is none."""
    return np.array([*(code[name_of(level)] for level in column.levels), -1], dtype=np.intp)[column.codes]


def _check_battles(rows: Rows, items: tuple[str, ...], first: IntArray, second: IntArray) -> None:
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

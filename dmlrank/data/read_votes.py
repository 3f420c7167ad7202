"""Reading votes: from a frame and a formula to :class:`PreferenceData`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from ..exceptions import ColumnError, DataError, MissingDataError, listed, nearest
from .columns import Columns, check_identity, check_names
from .contexts import Rows, check_constant, find_contexts, identifiers, warn_of_repeats
from .formula.features import FeatureMap, check_features, fit_features, locate_names
from .formula.parse import names_in, parse_formula
from .frames import (
    as_array,
    column_names,
    is_vector_column,
    kind_of_time,
    name_of,
    require_columns,
    take_columns,
)
from .labels import by_label, row_labels
from .outcomes import ComparedItems, Outcomes, read_labels, read_probabilities
from .preferences import IntArray, PreferenceData, first_rows, gather_cells
from .shared_texts import find_shared_texts
from .unlabelled import append_unlabelled, rows_below

# What to do about a frame that is not the same at every reading.
_STEADY = "; hand over one that stays as it is, for a DuckDB relation relation.to_arrow_table()"


def read_preferences(
    formula: str,
    data: Any,
    environment: EvalEnvironment,
    *,
    context: Sequence[str] = (),
    categories: Mapping[Any, str] | None = None,
    missing: str = "raise",
    groups: Sequence[str] = (),
    propensity: str | None = None,
    votes: str = "mean",
    unlabelled: Any = None,
    also: Sequence[str] | None = (),
) -> PreferenceData:
    """Read what a fit needs from a frame, all of it at once.

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
        Further columns that are needed: clusters and weights, and the propensity of the row's pair.
    votes : {"mean", "first"}
        Whether all votes on one context, first and second item count, or the first in the order of the rows.
    unlabelled : frame, optional
        Further contexts, none of them labelled; see :func:`dmlrank.data.unlabelled.append_unlabelled`.
    also : sequence of str, or None
        Columns to take along, whose values may be missing: verdicts, features of the propensity. Names that are no
        columns are left to who asks for them. None means every column.

    Raises
    ------
    DataError, MissingDataError, OutcomeError, FormulaError, ColumnError
        Where formula and data do not go together.
    """
    rows = take_rows(
        formula,
        data,
        environment,
        context=context,
        groups=groups,
        propensity=propensity,
        unlabelled=unlabelled,
        also=also,
    )
    return preferences_of(rows, environment, categories=categories, missing=missing, votes=votes)


def take_rows(
    text: str,
    data: Any,
    environment: EvalEnvironment,
    *,
    context: Sequence[str] = (),
    groups: Sequence[str] = (),
    propensity: str | None = None,
    unlabelled: Any = None,
    also: Sequence[str] | None = (),
) -> Rows:
    """All rows with every column that anything will ask for; parameters as in :func:`read_preferences`."""
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
    along = tuple(available) if also is None else tuple(name for name in also if name in available)
    # One reading of all columns: a relation may have its rows in another order the next time.
    used = [name for name in names_in(formula.features).values if name in available]
    needed = list(dict.fromkeys([*roles, *used, *context, *extras]))
    table = take_columns(data, list(dict.fromkeys([*needed, *along])))
    n_rows = len(table)
    names = locate_names(formula.features, available, environment, n_rows, roles)
    labels = row_labels(data, n_rows)
    own = {name: environment.namespace[name] for name in names.arrays}
    arrays = {name: as_array(by_label(value, labels, name=name, of="the data's rows")) for name, value in own.items()}
    coded = check_names(table, [name for name in needed if name not in names.columns or _may_be_odd(table[name])])
    for name in names.columns:
        kind = kind_of_time(table[name])
        if kind:
            raise DataError(f"feature {name!r} is a {kind}; turn it into a number (days since ...) or a category")
    rows = Rows(
        formula=formula,
        names=names,
        available=tuple(available),
        context=tuple(context),
        extras=extras,
        also=along,
        propensity=propensity,
        table=table,
        roles={name: coded[name] if name in coded else check_names(table, [name])[name] for name in roles},
        arrays=arrays,
        index=np.arange(n_rows),
        n_rows=n_rows,
        n_own=n_rows,
    )
    return rows if unlabelled is None else append_unlabelled(rows, unlabelled, tuple(groups))


def preferences_of(
    everything: Rows,
    environment: EvalEnvironment,
    *,
    categories: Mapping[Any, str] | None = None,
    missing: str = "raise",
    votes: str = "mean",
) -> PreferenceData:
    """Preference data of the rows that were taken: one joint mask, contexts, votes; see :func:`read_preferences`."""
    rows = everything.only(_complete(everything, missing))
    while True:
        row_context, first_row, seed_order = find_contexts(rows)
        check_constant(rows, row_context, first_row)
        x, feature_map = _features(rows, first_row, environment)
        incomplete = check_features(x, feature_map.names, keep_missing=missing != "raise")
        _check_something_known(x, feature_map.names, incomplete, missing)
        if missing != "drop" or not incomplete.any():
            break
        rows = rows.only(~incomplete[row_context])
    shared = find_shared_texts(rows.formula.features, _feature_columns(rows, first_row))
    if warn_of_repeats(rows) and shared is not None:
        shared = replace(shared, is_known=True)
    if votes == "first":
        again = _later_votes(rows, row_context)
        rows, row_context = replace(rows.only(~again), n_later_votes=int(again.sum())), row_context[~again]
        # A context's first row is never a later vote, so the features stay those of its first row.
        first_row = first_rows(row_context)
    items = _items(rows)
    pairs = _compared(rows, items)
    vote_row = np.flatnonzero(rows.labelled)
    if not len(vote_row):
        raise DataError(f"no row has a label: {rows.formula.outcome!r} is missing in all {len(rows.table)} rows")
    if len(vote_row) < len(pairs.first):
        pairs = ComparedItems(pairs.first[vote_row], pairs.second[vote_row], items)
    outcomes = _outcomes(rows, vote_row, pairs, categories)
    cells, vote_cell = gather_cells(row_context[vote_row], pairs.first, pairs.second, outcomes.y)
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
        first_row=first_row,
        row_index=rows.index,
        columns=_kept_columns(rows),
        n_rows=rows.n_rows,
        n_dropped=rows.n_rows - len(rows.table) - rows.n_later_votes,
        n_votes_dropped=rows.n_later_votes,
        n_added=int((rows.index[first_row] >= rows.n_own).sum()),
        shared_texts=shared,
    )


def count_missing(rows: Rows) -> dict[str, int]:
    """Rows in which a value is missing where one is needed, by column (and array of the caller).

    A missing winner is none of these, nor are the models of such a row.
    """
    return {name: int(np.sum(mask)) for name, mask in _missing_values(rows, "raise").items()}


def with_columns(data: PreferenceData, frame: Any, unlabelled: Any, names: Sequence[str] | None) -> PreferenceData:
    """The data with further columns of the frames that they were read from.

    Parameters
    ----------
    data : PreferenceData
    frame, unlabelled : frame
        They are read again only if ``data`` do not have all of the columns.
    names : sequence of str, or None
        As ``also`` of :func:`read_preferences`.

    Raises
    ------
    DataError
        If the rows are others than when the data were read, or come in another order.
    """
    known = data.columns
    wanted = known.available if names is None else names
    new = [name for name in dict.fromkeys(wanted) if name in known.available and name not in known]
    return replace(data, columns=known.joined(_read_again(data, frame, unlabelled, new))) if new else data


def check_same_rows(data: PreferenceData, frame: Any, unlabelled: Any) -> None:
    """Raise :class:`DataError` unless the frames have the rows that the data were read from, in the same order."""
    _read_again(data, frame, unlabelled, ())


def _read_again(data: PreferenceData, frame: Any, unlabelled: Any, names: Sequence[str]) -> Columns:
    """The columns of the data and others, from another reading of the frames."""
    known = data.columns
    table = take_columns(frame, [*known, *names])
    if unlabelled is not None:
        has = column_names(unlabelled)
        table = rows_below(table, take_columns(unlabelled, [name for name in table.columns if name in has]))
    if len(table) != data.n_rows:
        raise DataError(f"the frame has {len(table)} rows; when it was read it had {data.n_rows}{_STEADY}")
    again = Columns(known.available, table).only(data.row_index)
    changed = known.differing(again)
    if changed:
        raise DataError(
            f"the frame has other values of {listed(changed)} than when it was read, or its rows in another order"
            f"{_STEADY}"
        )
    return again


def _kept_columns(rows: Rows) -> Columns:
    """The columns that are asked for later: vectors of the formula are in the features already."""
    names = [name for name in rows.table.columns if name in rows.also or not is_vector_column(rows.table[name])]
    return Columns(rows.available, rows.table[names])


def _may_be_odd(feature: pd.Series) -> bool:
    """Whether cells could hold what is no value: numbers cannot, and vectors are looked at elsewhere."""
    return feature.dtype.kind == "O" and not is_vector_column(feature)


def _complete(rows: Rows, missing: str) -> NDArray[np.bool_]:
    """Rows without a missing value where one is needed, (rows,): the one joint mask."""
    needed = _missing_values(rows, missing)
    holes = {name: np.asarray(mask) for name, mask in needed.items() if np.any(mask)}
    if missing != "drop" and holes:
        raise MissingDataError(_missing_message(rows, holes))
    keep = ~np.logical_or.reduce([np.zeros(len(rows.table), dtype=bool), *holes.values()])
    if not keep.any():
        found = ", ".join(f"{name!r} in {mask.sum()}" for name, mask in holes.items())
        raise MissingDataError(f"every one of the {rows.n_rows} rows misses a needed value: {found}")
    return keep


def _missing_values(rows: Rows, missing: str) -> dict[str, Any]:
    """Where a needed value is missing, (rows,) for every column."""
    table, formula = rows.table, rows.formula
    labelled = rows.labelled
    roles = (*formula.outcomes, formula.first, formula.second)
    needed: dict[str, Any] = {name: ~rows.roles[name].known & labelled for name in roles}
    needed |= {name: table[name].isna() for name in (*rows.context, *rows.extras) if name != rows.propensity}
    if rows.propensity:
        needed[rows.propensity] = table[rows.propensity].isna() & labelled
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
    return fit_features(rows.formula.features, _feature_columns(rows, first_row), len(first_row), environment)


def _feature_columns(rows: Rows, first_row: IntArray) -> dict[str, Any]:
    """What the features read, a value per context."""
    columns: dict[str, Any] = {name: rows.table[name].iloc[first_row] for name in rows.names.columns}
    # Where every row is a context of its own, there is nothing to choose and nothing to copy.
    alone = len(first_row) == len(rows.table)
    return columns | {name: array if alone else array[first_row] for name, array in rows.arrays.items()}


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
        votes[place] = column.places(code)[labelled]
    again = np.zeros(len(labelled), dtype=bool)
    again[labelled] = votes.duplicated()
    return again


def _items(rows: Rows) -> tuple[str, ...]:
    """Names of the items, in the order of the Categorical where both columns share one, else sorted."""
    names = (rows.formula.first, rows.formula.second)
    found = [level for name in names for level in rows.roles[name].levels]
    check_identity(names, dict.fromkeys(found))
    present = {name_of(level) for level in found}
    columns = [rows.table[name] for name in names]
    levels = [column.cat.categories for column in columns if isinstance(column.dtype, pd.CategoricalDtype)]
    if len(levels) == 2:
        named = [[name_of(name) for name in level] for level in levels]
        merged = list(dict.fromkeys([*named[0], *named[1]]))
        orders = [[merged.index(name) for name in level] for level in named]
        if all(order == sorted(order) for order in orders):
            return tuple(name for name in merged if name in present)
    return tuple(sorted(present))


def _compared(rows: Rows, items: tuple[str, ...]) -> ComparedItems:
    """The items of each row, -1 where there is none; raise where a row compares an item with itself."""
    place_of = {name: place for place, name in enumerate(items)}
    first, second = (rows.roles[name].places(place_of) for name in (rows.formula.first, rows.formula.second))
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
    return ComparedItems(first, second, items)


def _outcomes(rows: Rows, vote_row: IntArray, pairs: ComparedItems, categories: Mapping[Any, str] | None) -> Outcomes:
    """The labels of the rows that have one."""
    formula = rows.formula

    def votes() -> pd.DataFrame:
        return rows.table[list(formula.outcomes)].iloc[vote_row].set_axis(rows.index[vote_row])

    if formula.probabilities:
        return read_probabilities(votes(), categories)
    label = rows.roles[formula.outcome]
    label = label if len(vote_row) == len(rows.table) else label.only(vote_row)
    return read_labels(label, pairs, lambda: votes()[formula.outcome], categories)

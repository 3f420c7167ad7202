"""Reading votes: :class:`PreferenceData` from those columns of a frame that a formula and options name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from ..exceptions import ColumnError, DataError, MissingDataError, listed, nearest
from .arrays import AnyArray, FloatArray, IntArray, row_slices
from .columns import CodedColumn, Columns, align_by_index, check_identity, check_unicode, code_columns, row_index
from .contexts import Rows, check_constant_features, find_contexts, identifiers, warn_of_repeats
from .derived_pairs import DerivedPairs
from .equal_values import find_shared_texts
from .formula.features import FeatureMap, FeatureNames, check_features, fit_features, locate_names
from .formula.parse import names_in, parse_formula
from .frames import column_names, is_partitioned, release_unused_memory, require_columns, take_columns
from .outcomes import Categories, ComparedItems, Outcomes, read_labels, read_probabilities
from .plain_columns import Variable, as_array, is_vector_column, kind_of_time, name_of
from .preferences import LearntFeatures, PreferenceData, first_rows, gather_cells
from .style_columns import check_style_columns

# Advice for a frame that changes between two readings.
_UNCHANGING_FRAME = "; pass a frame that does not change (instead of a DuckDB relation: relation.to_arrow_table())"


def read_preferences(
    formula: str,
    data: object,
    environment: EvalEnvironment,
    *,
    context: Sequence[str] = (),
    categories: Categories | None = None,
    missing: str = "raise",
    groups: Sequence[str] = (),
    propensity: str | None = None,
    style: Sequence[str] = (),
    votes: str = "mean",
    optional: Sequence[str] | None = (),
    learnt: LearntFeatures | None = None,
) -> PreferenceData:
    """Read all columns that a fit needs from a frame, in one reading."""
    rows = take_rows(
        formula,
        data,
        environment,
        context=context,
        groups=groups,
        propensity=propensity,
        style=style,
        optional=optional,
    )
    preferences = preferences_of(rows, environment, categories=categories, missing=missing, votes=votes, learnt=learnt)
    if rows.are_partitioned:
        del rows  # the columns as they were read, which need as much memory again as the features
        release_unused_memory()
    return preferences


def take_rows(
    formula_text: str,
    data: object,
    environment: EvalEnvironment,
    *,
    context: Sequence[str] = (),
    groups: Sequence[str] = (),
    propensity: str | None = None,
    style: Sequence[str] = (),
    optional: Sequence[str] | None = (),
) -> Rows:
    """Take all rows of the frames, with every column that the fit or a later step asks for."""
    formula = parse_formula(formula_text)
    available = column_names(data)
    derived = data if isinstance(data, DerivedPairs) else None
    roles = () if derived else (*formula.outcomes, formula.first, formula.second)
    require_columns(roles, available, f"formula {formula_text!r}")
    require_columns(context, available, "context=")
    extras = _columns_of_votes(available, groups, propensity, style)
    existing = tuple(available) if optional is None else tuple(name for name in optional if name in available)
    # All columns are read at once, because a relation may return its rows in another order the next time.
    features = [name for name in names_in(formula.features).values if name in available]
    required = list(dict.fromkeys([*roles, *features, *context, *extras]))
    table = take_columns(data, list(dict.fromkeys([*required, *existing])))
    n_rows = len(table)
    names = locate_names(formula.features, available, environment, n_rows, roles)
    coded_roles = _coded_roles(table, roles, required, names)
    return Rows(
        formula=formula,
        names=names,
        available=tuple(available),
        context=tuple(context),
        extras=extras,
        optional=existing,
        propensity=propensity,
        style=tuple(style),
        table=table,
        roles=coded_roles,
        arrays=_caller_arrays(names.arrays, data, environment, n_rows),
        index=np.arange(n_rows),
        n_rows=n_rows,
        derived=derived,
        are_partitioned=is_partitioned(data),
    )


def _columns_of_votes(
    available: Sequence[str], groups: Sequence[str], propensity: str | None, style: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of clusters, weights, propensities and style; raise where one does not exist."""
    require_columns(groups, available, "cov_kwds groups and weights")
    _check_propensity_column(propensity, available)
    check_style_columns(style, available)
    return tuple(dict.fromkeys([*groups, *([propensity] if propensity else []), *style]))


def _coded_roles(
    table: pd.DataFrame, roles: Sequence[str], required: Sequence[str], names: FeatureNames
) -> dict[str, CodedColumn]:
    """The columns of the outcome and of the items, coded; check that other columns hold values that can be read."""
    coded = code_columns(table, roles)
    # Columns of numbers need no check, and vectors are checked when they are stacked.
    for name in required:
        if name not in roles and (name not in names.columns or _may_hold_other_objects(table[name])):
            code_columns(table, [name])
    _check_no_times(table[list(names.columns)])
    return coded


def preferences_of(
    all_rows: Rows,
    environment: EvalEnvironment,
    *,
    categories: Categories | None = None,
    missing: str = "raise",
    votes: str = "mean",
    learnt: LearntFeatures | None = None,
) -> PreferenceData:
    """Return the preference data that the rows hold."""
    rows = all_rows.only(_is_complete(all_rows, missing))
    rows, contexts, x, feature_map = _complete_features(rows, environment, missing, learnt)
    row_context, first_row, seed_order = contexts
    shared = find_shared_texts(rows.formula.features, _feature_columns(rows, first_row))
    if warn_of_repeats(rows) and shared is not None:
        shared = replace(shared, was_warned_of=True)
    if votes == "first":
        rows, row_context, first_row = _without_later_votes(rows, row_context)
    items, vote_row, first, second, outcomes = (
        _derived_votes(rows) if rows.derived else _votes_of_rows(rows, categories)
    )
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
        first_row=first_row,
        row_index=rows.index,
        columns=_columns_for_later_steps(rows),
        n_rows=rows.n_rows,
        n_dropped=rows.n_rows - len(rows.table) - rows.n_later_votes,
        n_votes_dropped=rows.n_later_votes,
        shared_texts=shared,
    )


class LabelledVotes(NamedTuple):
    """The votes of all rows, as arrays.

    items: Names of the K items.
    row (v,): Row of each vote.
    first, second (v,): The item shown first and the item shown second in each vote.
    outcomes: The labels.
    """

    items: tuple[str, ...]
    row: IntArray
    first: IntArray
    second: IntArray
    outcomes: Outcomes


def _votes_of_rows(rows: Rows, categories: Categories | None) -> LabelledVotes:
    """Return the votes of rows that hold at most one each; raise :class:`DataError` where there is none."""
    items = _items(rows)
    pairs = _compared_items(rows, items)
    vote_row = np.flatnonzero(rows.labelled)
    if not len(vote_row):
        raise DataError(
            f"no row has a label: {rows.formula.outcome!r} is missing in all {len(rows.table)} rows; a fit needs votes "
            f"with a label"
        )
    if len(vote_row) < len(pairs.first):
        pairs = ComparedItems(pairs.first[vote_row], pairs.second[vote_row], items)
    return LabelledVotes(items, vote_row, pairs.first, pairs.second, _outcomes(rows, vote_row, pairs, categories))


def _derived_votes(rows: Rows) -> LabelledVotes:
    """Return the votes that records of scores or ranks imply."""
    assert rows.derived is not None
    row, first, second, y = rows.derived.compare()
    categories = ("first", "second", "tie")[: y.shape[1]]
    labels = rows.derived.labels[: y.shape[1] - 1]
    return LabelledVotes(rows.derived.models, row, first, second, Outcomes(categories, y, labels, rows.derived.kind))


def _check_propensity_column(propensity: str | None, available: Sequence[str]) -> None:
    """Raise where the option ``propensity=`` names neither a method nor a column."""
    if propensity and propensity not in available:
        raise ColumnError(
            f"propensity={propensity!r} is neither 'estimate' nor 'marginal' nor a column"
            f"{nearest(propensity, ['estimate', 'marginal', *available])} (columns: {listed(available)})"
        )


def _check_no_times(features: pd.DataFrame) -> None:
    """Raise where a feature holds dates or times, which patsy would code as a category for each value."""
    for name in features.columns:
        kind = kind_of_time(features[name])
        if kind:
            raise DataError(
                f"feature {name!r} is a {kind}; features must be numbers, categories or texts: turn {name!r} into a "
                f"number (days since ...) or a category"
            )


def _caller_arrays(
    names: Sequence[str], data: object, environment: EvalEnvironment, n_rows: int
) -> dict[str, AnyArray]:
    """Return arrays of the caller with an entry for each row, in the order of the rows."""
    labels = row_index(data, n_rows)
    return {
        name: as_array(align_by_index(environment.namespace[name], labels, name=name, of="the data's rows"))
        for name in names
    }


def _complete_features(
    rows: Rows, environment: EvalEnvironment, missing: str, learnt: LearntFeatures | None
) -> tuple[Rows, tuple[IntArray, IntArray, IntArray], FloatArray, FeatureMap]:
    """The rows whose features can be computed, their contexts, the features, (n, p), and the fitted transforms."""
    while True:
        contexts = find_contexts(rows)
        row_context, first_row, _ = contexts
        check_constant_features(rows, row_context, first_row)
        x, feature_map = _features(rows, first_row, environment, learnt)
        incomplete = check_features(x, feature_map.names, keep_missing=missing != "raise")
        _check_features_not_empty(x, feature_map.names, incomplete, missing)
        if missing != "drop" or not incomplete.any():
            return rows, contexts, x, feature_map
        rows = rows.only(~incomplete[row_context])


def count_missing(rows: Rows) -> dict[str, int]:
    """Return the number of rows in which a needed value is missing, for every column (and array of the caller).

    A missing winner is not counted, because such a row is a context without a vote. Its models may be missing too.
    """
    return {name: int(np.sum(mask)) for name, mask in _missing_values(rows, "raise").items()}


def with_columns(data: PreferenceData, frame: object, names: Sequence[str] | None) -> PreferenceData:
    """Return the data with further columns of the frames that they were read from."""
    columns = data.columns
    requested = columns.available if names is None else names
    new = [name for name in dict.fromkeys(requested) if name in columns.available and name not in columns]
    return replace(data, columns=columns.joined(_read_again(data, frame, new))) if new else data


def check_same_rows(data: PreferenceData, frame: object) -> None:
    """Raise :class:`DataError` unless the frames have the rows that the data were read from, in the same order."""
    _read_again(data, frame, ())


def _read_again(data: PreferenceData, frame: object, names: Sequence[str]) -> Columns:
    """Read the columns of the data and further columns once more, and check that the former have not changed."""
    columns = data.columns
    table = take_columns(frame, [*columns, *names])
    if len(table) != data.n_rows:
        raise DataError(f"the frame has {len(table)} rows; when it was read it had {data.n_rows}{_UNCHANGING_FRAME}")
    later_columns = Columns(columns.available, table).only(data.row_index)
    changed = columns.differing(later_columns)
    if changed:
        raise DataError(
            f"the frame has other values of {listed(changed)} than when it was read, or its rows in another order"
            f"{_UNCHANGING_FRAME}"
        )
    return later_columns


def _columns_for_later_steps(rows: Rows) -> Columns:
    """Return the columns that later steps may ask for: all but those that only the features use and that are large.

    These are vectors, and the numbers of data that may be larger than memory.
    """
    kept = {*rows.optional, *rows.context, *rows.extras}
    names = [
        name
        for name, column in rows.table.items()
        if name in kept
        or (
            not is_vector_column(column)
            and not (rows.are_partitioned and name in rows.names.columns and column.dtype.kind in "iuf")
        )
    ]
    return Columns(rows.available, rows.table[names])


def _may_hold_other_objects(feature: pd.Series) -> bool:
    """Return whether a column may hold cells that are neither numbers, texts nor vectors."""
    return feature.dtype.kind == "O" and not is_vector_column(feature)


def _is_complete(rows: Rows, missing: str) -> NDArray[np.bool_]:
    """Return which rows lack no value that a fit needs, (rows,); raise if some do and ``missing`` is not "drop"."""
    masks = {name: mask for name, mask in _missing_values(rows, missing).items() if mask.any()}
    if missing != "drop" and masks:
        raise MissingDataError(_missing_message(rows, masks))
    is_complete = ~np.logical_or.reduce([np.zeros(len(rows.table), dtype=bool), *masks.values()])
    if not is_complete.any():
        counts = ", ".join(f"{name!r} in {mask.sum()}" for name, mask in masks.items())
        raise MissingDataError(
            f"a value that a fit needs is missing in each of the {rows.n_rows} rows: {counts}; check these columns"
        )
    return is_complete


def _missing_values(rows: Rows, missing: str) -> dict[str, NDArray[np.bool_]]:
    """Return where a needed value is missing, (rows,), for every column and array."""
    table, formula = rows.table, rows.formula
    labelled = rows.labelled
    roles = () if rows.derived else (*formula.outcomes, formula.first, formula.second)
    masks = {name: ~rows.roles[name].is_present & labelled for name in roles}
    of_votes = {name for name in (rows.propensity, *rows.style) if name}
    for name in (*rows.context, *rows.extras):
        is_needed = labelled if name in of_votes else True
        masks[name] = table[name].isna().to_numpy() & is_needed
    if missing != "keep":
        masks |= {name: table[name].isna().to_numpy() for name in rows.names.columns}
        for name, array in rows.arrays.items():
            is_missing = np.asarray(pd.isna(array)).reshape(len(table), -1)
            masks[name] = np.asarray(is_missing.any(axis=1))
    return masks


def _missing_message(rows: Rows, masks: dict[str, NDArray[np.bool_]]) -> str:
    """Return the error about missing values: where they are, and what to do about them."""
    counts = ", ".join(f"{name!r} in {mask.sum()} of {rows.n_rows} rows" for name, mask in masks.items())
    identifiers = [name for name in masks if name in rows.context]
    if identifiers:
        return (
            f"missing values: {counts}; a row without {listed(identifiers)} belongs to no context: pass missing='drop' "
            f"to drop it"
        )
    if rows.propensity in masks:
        return (
            f"missing values: {counts}; every vote needs the propensity of its pair, and missing='drop' would leave "
            f"votes without it out. If the propensities of these votes are not known, as those of votes from before a "
            f"plan, fit these votes alone with propensity='estimate', fill {rows.propensity!r} with the column "
            f"'propensity' of augment(), and fit all votes (documentation: how to stop, old votes and a plan)"
        )
    is_feature = any(name in rows.names.columns for name in masks)
    keep = " or missing='keep' to hand missing values to the learner" if is_feature else ""
    return f"missing values: {counts}; pass missing='drop' to drop these rows{keep}"


def _features(
    rows: Rows, first_row: IntArray, environment: EvalEnvironment, learnt: LearntFeatures | None
) -> tuple[FloatArray, FeatureMap]:
    """Return the features of the contexts, (n, p), and the fitted map that computes features of further contexts.

    Shapes: first_row (n,).
    """
    if learnt is not None:
        x = learnt.matrix(identifiers(rows, first_row), lambda new: _feature_columns(rows, first_row[new]))
        return x, learnt.feature_map
    columns, in_file = _feature_columns(rows, first_row), rows.are_partitioned
    return fit_features(rows.formula.features, columns, len(first_row), environment, in_file=in_file)


def _feature_columns(rows: Rows, first_row: IntArray) -> dict[str, Variable]:
    """Return the columns and arrays that the features use, with a value per context."""
    columns: dict[str, Variable] = {name: rows.table[name] for name in rows.names.columns}
    if len(first_row) == len(rows.table):  # every row is a context: nothing need be copied
        return columns | rows.arrays
    columns = {name: rows.table[name].iloc[first_row] for name in columns}
    return columns | {name: array[first_row] for name, array in rows.arrays.items()}


def _check_features_not_empty(x: FloatArray, names: Sequence[str], incomplete: NDArray[np.bool_], missing: str) -> None:
    """Raise where a feature is missing in every context, or where dropping incomplete contexts would leave none.

    Shapes: x (n, p), incomplete (n,).
    """
    if not incomplete.any():
        return
    is_empty = np.logical_and.reduce([np.isnan(x[rows]).all(axis=0) for rows in row_slices(*x.shape)])
    if is_empty.any():
        raise MissingDataError(
            f"the features {listed(np.array(names)[is_empty])} are NaN in every context; a function of the formula "
            f"that gets a single NaN may return nothing but NaN: check the function, or drop the rows with missing "
            f"values before"
        )
    if missing == "drop" and incomplete.all():
        raise MissingDataError(f"no context is left: in each of the {len(x)} contexts some feature is NaN")


def _without_later_votes(rows: Rows, row_context: IntArray) -> tuple[Rows, IntArray, IntArray]:
    """The rows without later votes, the context of each row, (rows,), and the first row of each context, (n,)."""
    is_later = _later_votes(rows, row_context)
    row_context = row_context[~is_later]
    return replace(rows.only(~is_later), n_later_votes=int(is_later.sum())), row_context, first_rows(row_context)


def _later_votes(rows: Rows, row_context: IntArray) -> NDArray[np.bool_]:
    """Return which rows are a vote on a context and ordered pair that has an earlier vote, (rows,)."""
    labelled, formula = rows.labelled, rows.formula
    columns = rows.roles[formula.first], rows.roles[formula.second]
    place_of = {name: number for number, name in enumerate({name_of(level) for c in columns for level in c.levels})}
    votes = pd.DataFrame({"context": row_context[labelled]})
    for side, column in enumerate(columns):
        votes[side] = column.places(place_of)[labelled]
    is_later = np.zeros(len(labelled), dtype=bool)
    is_later[labelled] = votes.duplicated()
    return is_later


def _items(rows: Rows) -> tuple[str, ...]:
    """Return the names of the items: in the order of the categories where both columns share one, else sorted."""
    names = (rows.formula.first, rows.formula.second)
    levels = [level for name in names for level in rows.roles[name].levels]
    check_identity(names, dict.fromkeys(levels))
    present = {name_of(level) for level in levels}
    check_unicode(names, present)
    columns = [rows.table[name] for name in names]
    categories = [
        [name_of(level) for level in column.cat.categories]
        for column in columns
        if isinstance(column.dtype, pd.CategoricalDtype)
    ]
    if len(categories) == 2:
        merged = list(dict.fromkeys([*categories[0], *categories[1]]))
        places = [[merged.index(name) for name in column] for column in categories]
        if all(place == sorted(place) for place in places):
            return tuple(name for name in merged if name in present)
    return tuple(sorted(present))


def _compared_items(rows: Rows, items: tuple[str, ...]) -> ComparedItems:
    """Return the two items of each row, -1 where an item is missing; raise where a row compares an item with itself."""
    place_of = {name: place for place, name in enumerate(items)}
    first, second = (rows.roles[name].places(place_of) for name in (rows.formula.first, rows.formula.second))
    is_same = (first == second) & (first >= 0)
    if is_same.any():
        row = int(np.flatnonzero(is_same)[0])
        raise DataError(
            f"{int(is_same.sum())} rows compare a model with itself, first row {rows.index[row]}: "
            f"{items[first[row]]!r}; a comparison needs two models: drop these rows"
        )
    if len(items) < 2:
        models = f"only one model in the data ({items[0]!r})" if items else "no model in the data"
        raise DataError(f"{models}; a ranking needs at least two")
    return ComparedItems(first, second, items)


def _outcomes(rows: Rows, vote_row: IntArray, pairs: ComparedItems, categories: Categories | None) -> Outcomes:
    """Read the labels of the votes.

    Shapes: vote_row (v,).
    """
    formula = rows.formula

    def votes() -> pd.DataFrame:
        return rows.table[list(formula.outcomes)].iloc[vote_row].set_axis(rows.index[vote_row])

    if formula.probabilities:
        return read_probabilities(votes(), categories)
    label = rows.roles[formula.outcome]
    label = label if len(vote_row) == len(rows.table) else label.only(vote_row)
    return read_labels(label, pairs, lambda: votes()[formula.outcome], categories)

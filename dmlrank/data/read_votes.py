"""Reading votes: :class:`PreferenceData` from those columns of a frame that a formula and options name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.tasks_and_threads import warn
from ..exceptions import (
    DataError,
    IntervalWarning,
    MissingDataError,
    OptionError,
    OutcomeError,
    listed,
    named_rows,
    shown,
)
from ..options import Options
from .arrays import (
    LARGEST_EXACT,
    AnyArray,
    FloatArray,
    IntArray,
    Variable,
    as_array,
    is_vector_column,
    kind_of_time,
    name_of,
    row_slices,
)
from .columns import (
    CodedColumn,
    Columns,
    align_by_index,
    check_identity,
    check_unicode,
    find_shared_texts,
    row_index,
    similar_names,
)
from .contexts import Rows, check_constant_features, find_contexts, warn_of_repeats, warn_of_shared_prompts
from .derived_pairs import DerivedPairs
from .formula.features import Environment, FeatureMap, check_features, fit_features, locate_names
from .formula.parse import Formula, names_in, parse_formula
from .frames import column_names, is_partitioned, require_columns, take_columns
from .graph import MOST_OF_ALL
from .outcomes import (
    WINNERS,
    Outcomes,
    is_named_probability,
    read_labels,
    read_probabilities,
    without_missing,
)
from .preferences import CONTEXTS, PreferenceData, gather_cells

# Groups of names that a warning lists.
_MOST_NAMED = 5
# A larger share of missing scores that count as a value, or of prompts that lack scores and are left out, is warned of.
_MOST_MISSING = 0.2
# Columns with these names say which prompt a vote is on.
PROMPT_NAMES = ("prompt_id", "question_id", "prompt", "question")
# Advice for a frame that changes between two readings.
_UNCHANGING_FRAME = "; pass a frame that does not change (instead of a DuckDB relation: relation.to_arrow_table())"


def take_rows(
    formula_text: str,
    data: object,
    environment: Environment,
    options: Options,
    *,
    optional: Sequence[str] | None = (),
    copies: IntArray | None = None,
) -> Rows:
    """Take all rows of a frame with every column that the fit or a later step asks for, in one reading."""
    # A DuckDB relation may return its rows in another order the next time.
    formula, available = parse_formula(formula_text), column_names(data)
    context, propensity, style = options.context, options.propensity_column, options.style_columns
    derived = data if isinstance(data, DerivedPairs) else None
    # "context" stands for the contexts themselves where no column has this name.
    clusters = [name for name in options.clusters if name != CONTEXTS or name in available]
    weights = [] if options.weights_column is None else [options.weights_column]
    groups = [*clusters, *weights]
    roles = () if derived else (*formula.outcomes, *formula.items)
    require_columns(roles, available, f"formula {formula_text!r}")
    if derived is not None and derived.rows is not None:
        names_of_prompts = (*names_in(formula.features).values, *groups)
        varying = [name for name in names_of_prompts if name not in available and name in derived.rows]
        if varying:
            columns = [derived.rows[name] for name in derived.prompt]
            values = derived.rows[varying[0]].map(shown).groupby(columns, sort=False).unique()
            prompt, found = next((prompt, several) for prompt, several in values.items() if len(several) > 1)
            raise DataError(
                f"column {varying[0]!r} differs between the rows of a prompt ({listed(derived.prompt)} is "
                f"{shown(prompt)}: {', '.join(found[:2])}); features, clusters and weights have one value for each: "
                f"leave it out"
            )
    require_columns(context, available, "context=")
    require_columns(clusters, available, "cov_kwds groups")
    require_columns(weights, available, "weights=")
    of_votes = (propensity,) if propensity else ()
    require_columns(of_votes, available, "propensity=", words=("estimate", "marginal"))
    advice = "; style_columns() makes them from the answers, before the first fit: update() reads the same frame"
    require_columns(style, available, "adjust=", advice)
    extras = tuple(dict.fromkeys([*groups, *of_votes, *style]))
    existing = tuple(available) if optional is None else tuple(name for name in optional if name in available)
    features = [name for name in names_in(formula.features).values if name in available]
    required = list(dict.fromkeys([*roles, *features, *context, *extras]))
    rows_are_prompts = not (context or derived or is_partitioned(data)) and options.prompts == "random"
    prompts = [name for name in available if name in PROMPT_NAMES and name not in roles] if rows_are_prompts else []
    table = take_columns(data, list(dict.fromkeys([*required, *existing, *prompts])))
    if prompts:
        warn_of_shared_prompts(table[list(dict.fromkeys([*prompts, *clusters]))], clusters)
        table = table[list(dict.fromkeys([*required, *existing]))]
    names = locate_names(formula.features, available, environment, len(table), roles)
    labels = row_index(data, len(table))
    coded = {}
    for name in required:
        kind = kind_of_time(table[name]) if name in names.columns else None
        if kind:
            # Patsy would code dates and times as a category for each value.
            raise DataError(
                f"feature {name!r} is a {kind}; turn it into a number (days since ...), a category or a text"
            )
        # Features that are numbers need no check, and vectors are checked when they are stacked.
        if name not in names.columns or (table[name].dtype.kind == "O" and not is_vector_column(table[name])):
            coded[name] = CodedColumn.of(table[name])
    coded = {name: coded[name] for name in roles}
    if derived is not None:
        n_names_changed = derived.n_names_changed
    else:
        if formula.outcome and not formula.probabilities:
            models = [level for name in formula.items for level in coded[name].levels]
            # A label that the votes do not have may be one of a judge.
            warns = options.judge is None
            coded[formula.outcome] = without_missing(coded[formula.outcome], options.categories, models, warns=warns)
        coded, n_names_changed = _with_plain_names(coded, formula)
    arrays = {
        name: as_array(align_by_index(environment.namespace[name], labels, name=name, of="the data's rows"))
        for name in names.arrays
    }
    return Rows(
        formula=formula,
        environment=environment,
        options=options,
        names=names,
        available=tuple(available),
        extras=extras,
        optional=existing,
        table=table,
        roles=coded,
        arrays=arrays,
        index=np.arange(len(table)),
        n_rows=len(table) if copies is None else int(copies.sum()),
        derived=derived,
        n_names_changed=n_names_changed,
        are_partitioned=is_partitioned(data),
        copies=copies,
    )


def votes_of_counts(formula: Formula, data: object) -> tuple[pd.DataFrame, IntArray] | None:
    """Return a row for each kind of vote and numbers of votes, where columns hold such numbers; None elsewhere."""
    # Rows that all sum to one hold probabilities, and so do columns whose names say so.
    names = list(formula.outcomes)
    available = [] if is_partitioned(data) or isinstance(data, DerivedPairs) else column_names(data)
    if len(names) < 2 or not set(names) <= set(available) or any(map(is_named_probability, names)):
        return None
    table = take_columns(data, names)
    if any(column.dtype.kind not in "iuf" for _, column in table.items()):
        return None
    counts = table.to_numpy(dtype=float)
    # A row without any number has no votes; a single empty cell says nothing.
    counts = np.where(np.isnan(counts).all(axis=1, keepdims=True), 0.0, counts)
    is_wrong, sums_to_more = (counts < 0) | (counts != np.rint(counts)), counts.sum(axis=1) > 1
    wrong_rows = is_wrong.any(axis=1)
    if not sums_to_more.any() or (is_wrong.any() and not (sums_to_more & ~wrong_rows).mean() > 0.5):
        return None
    if is_wrong.any():
        place = int(is_wrong[wrong_rows][0].argmax())
        raise OutcomeError(
            f"column {names[place]!r} is {counts[wrong_rows][0, place]:g} in {named_rows(wrong_rows)}; numbers of "
            f"votes are whole, 0 or more"
        )
    if counts.sum() > LARGEST_EXACT:
        raise DataError(f"the columns {listed(names)} count {counts.sum():.3g} votes; shares sum to one in every row")
    # Counts and models are of one reading: a relation may return its rows in another order the next time.
    table = take_columns(data, available)
    counts = np.nan_to_num(table[names].to_numpy(dtype=float)).astype(np.intp)
    row, column = np.nonzero(counts)
    one_hot = {name: (column == place).astype(np.int8) for place, name in enumerate(names)}
    return table.iloc[row].reset_index(drop=True).assign(**one_hot), counts[row, column]


def _with_plain_names(roles: dict[str, CodedColumn], formula: Formula) -> tuple[dict[str, CodedColumn], int]:
    """Return the roles with plain names of models, and how many names changed; warn of names that look the same."""
    plain, changed = dict(roles), set[str]()
    for side in formula.items:
        plain[side], changed_here = roles[side].with_plain_names()
        changed |= changed_here
    names = {name_of(level) for side in formula.items for level in plain[side].levels}
    if formula.outcome in roles:
        # Labels may name the winning model.
        plain[formula.outcome], _ = roles[formula.outcome].with_plain_names(names)
    if groups := similar_names(sorted(names)):
        named = "; ".join(", ".join(map(repr, group)) for group in groups[:_MOST_NAMED])
        named += f"; and {len(groups) - _MOST_NAMED} more" if len(groups) > _MOST_NAMED else ""
        warn(
            f"{sum(map(len, groups))} names differ only by letter case, inner blanks or Unicode form and are ranked as "
            f"different models: {named}. Write one name for each"
        )
    return plain, len(changed)


def preferences_of(all_rows: Rows, *, compares: bool = True) -> PreferenceData:
    """Return the preference data that the rows hold; ``compares`` says whether scores are compared."""
    options = all_rows.options
    counts_scores = all_rows.derived is not None and (not compares or options.of_scores)
    if all_rows.derived is not None and counts_scores and options.pairs.min_votes > 1:
        number = all_rows.derived.n_numbers
        lost = f"{number[number < options.pairs.min_votes].sum():,} of {number.sum():,} scores"
        _warn_of_few(all_rows.derived.models, number, options.pairs.min_votes, lost)
        all_rows = replace(all_rows, derived=all_rows.derived.with_enough(options.pairs.min_votes))
    all_rows, missing = _without_missing_scores(all_rows, options, compares)
    rows = _without_same(all_rows.only(_is_complete(all_rows, missing)))
    rows, contexts, x, feature_map = _complete_features(rows, missing)
    row_context, first_row, seed_order = contexts
    shared = find_shared_texts(rows.formula.features, _feature_columns(rows, first_row))
    if warn_of_repeats(rows) and shared is not None:
        shared = replace(shared, was_warned_of=True)
    if rows.derived is None:
        items, formula = _items(rows), rows.formula
        if len(items) < 2:
            models = f"only one model in the data ({items[0]!r})" if items else "no model in the data"
            raise DataError(f"{models}; a ranking needs at least two")
        vote_row = np.flatnonzero(rows.labelled)
        if not len(vote_row):
            raise DataError(
                f"no row has a label: {formula.outcome!r} is missing in all {len(rows.table)} rows; a fit needs labels"
            )
        first, second = (rows.roles[name].places(items)[vote_row] for name in formula.items)
        votes_of_rows = rows.table[list(formula.outcomes)].iloc[vote_row].set_axis(rows.index[vote_row])
        if formula.probabilities:
            outcomes = read_probabilities(votes_of_rows, options.categories, formula.items)
        elif not formula.outcome:
            y = np.eye(2)[np.zeros_like(first)]
            outcomes = Outcomes(("first", "second"), y, ((formula.first, "first"),), WINNERS)
        else:
            label = rows.roles[formula.outcome]
            label = label if len(vote_row) == len(rows.table) else label.only(vote_row)
            column = votes_of_rows[formula.outcome]
            outcomes = read_labels(label, column, (first, second), items, options.categories)
    else:
        compared = rows.derived if compares else rows.derived.only(np.zeros(len(rows.table), dtype=bool))
        items, (vote_row, first, second, y) = rows.derived.models, compared.compare()
        meanings, labels = ("first", "second", "tie")[: y.shape[1]], rows.derived.labels[: y.shape[1] - 1]
        outcomes = Outcomes(meanings, y, labels, rows.derived.kind)
    cells, vote_cell = gather_cells(row_context[vote_row], first, second, outcomes.y)
    if rows.copies is not None:
        cells = replace(cells, n_votes=rows.copies, copies=rows.copies)
    ids, context = np.empty(len(first_row), dtype=object), options.context
    ids[:] = Columns(context, rows.table.iloc[first_row]).identifiers(context) if context else rows.index[first_row]
    # Later steps need no columns that only features use and that are large: vectors, and numbers of partitioned data.
    named = {*rows.optional, *options.context, *rows.extras}
    large = {*rows.names.columns} if rows.are_partitioned else set()
    kept = [
        name
        for name, column in rows.table.items()
        if name in named or not (is_vector_column(column) or (name in large and column.dtype.kind in "iuf"))
    ]
    data = PreferenceData(
        items=items,
        categories=outcomes.categories,
        labels=outcomes.labels,
        outcome_kind=outcomes.kind,
        x=x,
        feature_map=feature_map,
        context_ids=ids,
        seed_order=seed_order,
        cells=cells,
        vote_cell=vote_cell,
        vote_y=outcomes.y,
        vote_row=vote_row,
        row_context=row_context,
        first_row=first_row,
        row_index=rows.index,
        columns=Columns(rows.available, rows.table[kept]),
        n_rows=rows.n_rows,
        n_dropped=rows.n_rows - rows.number(np.ones(len(rows.table), dtype=bool)) - sum(n for _, n in rows.same),
        same=rows.same,
        n_names_changed=rows.n_names_changed,
        shared_texts=shared,
        scores=rows.derived.score_table if rows.derived is not None and rows.derived.kind == "scores" else None,
        copies=rows.copies,
    )
    return data if options.pairs.min_votes == 1 or counts_scores else _without_few_votes(data, options.pairs.min_votes)


def _without_few_votes(data: PreferenceData, min_votes: int) -> PreferenceData:
    """Return the data of models with enough votes; a warning names the others."""
    votes = data.pair_votes()
    of_pair = votes + votes.T
    number = of_pair.sum(axis=1)
    few = number < min_votes
    n_lost = data.n_votes - int(of_pair[np.ix_(~few, ~few)].sum()) // 2
    _warn_of_few(data.items, number, min_votes, f"{n_lost:,} of {data.n_votes:,} votes")
    return data.restrict(np.flatnonzero(~few))


def _warn_of_few(models: Sequence[str], number: IntArray, min_votes: int, lost: str) -> None:
    """Warn of models with fewer votes, or scores, than ``min_votes``; raise where fewer than two have as many."""
    few = np.flatnonzero(number < min_votes)
    n_kept, noun = len(models) - len(few), lost.split()[-1]
    if n_kept < 2:
        raise DataError(
            f"pairs=Pairs(min_votes={min_votes}) leaves {n_kept} models with so many {noun}, and a ranking needs two; "
            f"the most that a model has is {number.max():,}: give a smaller number"
        )
    if len(few):
        named = ", ".join(f"{models[j]} {number[j]:,}" for j in few[:_MOST_NAMED])
        warn(
            f"{len(few)} of {len(models)} models have fewer than {min_votes:,} {noun} and are left out with {lost}: "
            f"{named}{', ...' if len(few) > _MOST_NAMED else ''} (min_votes={min_votes})",
        )


def warn_of_unequal_gaps(data: object, options: Options) -> None:
    """Warn where models lack different shares of their runs, unless a plan or the caller says what this means."""
    is_unexplained = options.estimates_propensity and options.missing in ("raise", "drop", "keep", "common")
    is_unexplained &= options.judge is None
    fewest = options.pairs.min_votes if options.of_scores else 1
    if isinstance(data, DerivedPairs) and is_unexplained and (gaps := data.with_enough(fewest).unequal_gaps):
        warn(
            f"models lack different shares of their runs, by more than chance: {gaps}. Who loses runs in which it "
            f"fails looks better than it is: find out why they are missing; missing=0.0 counts failures",
            kind=IntervalWarning,
        )


def _without_missing_scores(rows: Rows, options: Options, compares: bool) -> tuple[Rows, str]:
    """Leave out prompts with missing scores, or fill them in; also return what is done with other gaps."""
    # Scores that are not compared are those that the functional takes from the runs on a prompt.
    missing, derived = options.missing, rows.derived
    if derived is not None and not compares and isinstance(missing, str):
        derived = options.functional.of_runs(derived, missing in ("common", "model"))
        rows = replace(rows, derived=derived)
    if missing in ("raise", "drop", "keep"):
        return rows, str(missing)
    if derived is None or derived.kind != "scores":
        raise OptionError(
            f"missing={missing!r} is about scores, and these data are none; allowed: 'raise', 'drop' and 'keep'"
        )
    if missing == "model":
        return rows, "raise"
    if missing != "common":
        filled, n_filled = derived.filled(float(missing)), derived.n_missing
        n_empty = int(np.isnan(filled.values).any(axis=1).sum())
        if n_empty:
            raise MissingDataError(
                f"missing={missing!r}: {n_empty:,} of {len(derived.values):,} prompts have rows without a model, on "
                f"which nothing was run. Drop these; if a plan drew the runs, fit with its propensity="
            )
        share = n_filled / (n_filled + derived.n_numbers)
        j = int(np.argmax(share))
        if share[j] > _MOST_MISSING:
            warn(
                f"{n_filled[j]:,} missing scores of {derived.models[j]!r} ({100 * share[j]:.0f} %) count as "
                f"{missing:g}: is each a failure? sensitivity() of a fit with missing='model' says how much they "
                f"could change",
                kind=IntervalWarning,
            )
        return replace(rows, derived=filled if compares else options.functional.of_runs(filled, False)), "raise"
    is_common = np.asarray(np.isfinite(derived.values).all(axis=1))
    if is_common.sum() < 2:
        raise MissingDataError(
            f"missing='common': {int(is_common.sum())} of {len(is_common):,} prompts have a score of every model; "
            f"leave out the models with the fewest scores, or count missing scores as a value, such as missing=0.0"
        )
    n_left_out = len(is_common) - int(is_common.sum())
    if n_left_out > _MOST_MISSING * len(is_common):
        warn(
            f"missing='common' leaves out {n_left_out:,} of {len(is_common):,} prompts, which scores are then not "
            f"about. If a plan drew the runs, the result is biased: fit with its propensities (propensity=) instead",
            kind=IntervalWarning,
        )
    return rows.only(is_common), "raise"


def _complete_features(
    rows: Rows, missing: str
) -> tuple[Rows, tuple[IntArray, IntArray, IntArray], FloatArray, FeatureMap]:
    """The rows whose features can be computed, their contexts, the features, (n, p), and the fitted transforms."""
    while True:
        contexts = find_contexts(rows)
        row_context, first_row, _ = contexts
        check_constant_features(rows, row_context, first_row)
        x, feature_map = fit_features(
            rows.formula.features,
            _feature_columns(rows, first_row),
            len(first_row),
            rows.environment,
            in_file=rows.are_partitioned,
        )
        incomplete = check_features(x, feature_map.names, missing != "raise", rows.index[first_row])
        if not incomplete.any():
            return rows, contexts, x, feature_map
        is_empty = np.logical_and.reduce([np.isnan(x[part]).all(axis=0) for part in row_slices(*x.shape)])
        if is_empty.any():
            raise MissingDataError(
                f"the features {listed(np.array(feature_map.names)[is_empty])} are NaN in every context, as center() "
                f"returns for a single NaN: leave the function out, or drop the rows with missing values before"
            )
        if missing != "drop":
            return rows, contexts, x, feature_map
        if incomplete.all():
            raise MissingDataError(f"no context is left: in each of the {len(x)} contexts some feature is NaN")
        rows = rows.only(~incomplete[row_context])


def with_columns(data: PreferenceData, frame: object, names: Sequence[str] | None) -> PreferenceData:
    """Return the data with further columns of the frame, all for None; raise where its rows have changed."""
    requested = data.columns.available if names is None else names
    new = [name for name in dict.fromkeys(requested) if name in data.columns.available and name not in data.columns]
    if not new:
        return data
    before = data.columns.table()
    table = take_columns(frame, [*before, *new])
    if len(table) != data.n_rows:
        raise DataError(f"the frame has {len(table)} rows; when it was read it had {data.n_rows}{_UNCHANGING_FRAME}")
    table = table.iloc[data.row_index].reset_index(drop=True)
    comparable = [name for name in before if not is_vector_column(before[name])]
    if changed := [name for name in comparable if not before[name].equals(table[name])]:
        raise DataError(
            f"the frame has other values of {listed(changed)} than when first read, or another order{_UNCHANGING_FRAME}"
        )
    return replace(data, columns=Columns(data.columns.available, table))


def full_column(
    data: PreferenceData, frame: object, name: str, what: str, words: Sequence[str] = ()
) -> tuple[IntArray, AnyArray]:
    """Return the place of each row's value in a column without empty cells, (rows,), and the values as text, (u,).

    ``what`` names the caller in errors, and ``words`` may stand in place of a column.
    """
    require_columns([name], data.columns.available, what, words=words)
    columns = with_columns(data, frame, [name]).columns
    code, texts = columns.sorted_codes(name), columns.texts(name)
    if n_empty := int((code < 0).sum()):
        raise DataError(f"{what}: the column {name!r} is empty in {n_empty:,} rows; fill them, or leave these rows out")
    return code, texts[np.unique(code, return_index=True)[1]]


def _is_complete(rows: Rows, missing: str) -> NDArray[np.bool_]:
    """Return which rows lack no value that a fit needs, (rows,); raise if some do and ``missing`` is not "drop"."""
    masks = {name: mask for name, mask in missing_values(rows, missing).items() if mask.any()}
    counts = ", ".join(
        f"{name!r} in {rows.number(mask):,} of {rows.n_rows:,} rows, first row {rows.index[mask][0]}"
        for name, mask in masks.items()
    )
    if missing != "drop" and masks:
        identifiers = [name for name in masks if name in rows.options.context]
        advice = "pass missing='drop' to drop these rows"
        if identifiers:
            advice = f"a row without {listed(identifiers)} belongs to no context: pass missing='drop' to drop it"
        elif lacking := [name for name in rows.formula.items if name in masks]:
            advice = "a vote needs both of its models: pass missing='drop' to leave these rows out"
            if max(masks[name].mean() for name in lacking) > 0.5:
                advice = "a vote needs two models; one model a row is a table of scores, 'score ~ 1 | model'"
        elif (column := rows.options.propensity_column) in masks:
            advice = (
                f"every vote needs the propensity of its pair. For votes from before a plan, fit these alone with "
                f"propensity='estimate', and fill {column!r} with the propensities of this fit"
            )
        elif any(name in rows.names.columns for name in masks):
            advice += " or missing='keep' to hand missing values to the learner"
        raise MissingDataError(f"missing values: {counts}; {advice}")
    is_complete = ~np.logical_or.reduce([np.zeros(len(rows.table), dtype=bool), *masks.values()])
    if not is_complete.any():
        raise MissingDataError(f"a value that a fit needs is missing in every row: {counts}; check these columns")
    return is_complete


def missing_values(rows: Rows, missing: str = "raise") -> dict[str, NDArray[np.bool_]]:
    """Return where a needed value is missing, (rows,), by column and array of the caller; winners may be missing."""
    table, formula = rows.table, rows.formula
    labelled = rows.labelled
    roles = () if rows.derived else (*formula.outcomes, *formula.items)
    masks = {name: (rows.roles[name].codes < 0) & labelled for name in roles}
    options = rows.options
    of_votes = {options.propensity_column, *options.style_columns}
    for name in (*options.context, *rows.extras):
        is_needed = labelled if name in of_votes else True
        masks[name] = table[name].isna().to_numpy() & is_needed
    if missing != "keep":
        masks |= {name: table[name].isna().to_numpy() for name in rows.names.columns}
        for name, array in rows.arrays.items():
            is_missing = np.asarray(pd.isna(array)).reshape(len(table), -1)
            masks[name] = np.asarray(is_missing.any(axis=1))
    return masks


def _feature_columns(rows: Rows, first_row: IntArray) -> dict[str, Variable]:
    """Return the columns and arrays that the features use, with a value per context."""
    # Where every row is a context, nothing is copied.
    chosen = slice(None) if len(first_row) == len(rows.table) else first_row
    columns: dict[str, Variable] = {name: rows.table[name].iloc[chosen] for name in rows.names.columns}
    return columns | {name: array[chosen] for name, array in rows.arrays.items()}


def _without_same(rows: Rows) -> Rows:
    """The rows without those that compare a model with itself; raise where these are more than 5 % of all rows."""
    if rows.derived is not None:
        return rows
    items, formula = _items(rows), rows.formula
    first, second = (rows.roles[name].places(items) for name in (formula.first, formula.second))
    is_same = (first == second) & (first >= 0)
    of_same = None if rows.copies is None else rows.copies[is_same]
    count, n_all = np.bincount(first[is_same], of_same, len(items)), rows.number(first >= -1)
    n_same = rows.number(is_same)
    if n_same > MOST_OF_ALL * n_all:
        places = rows.index[is_same]
        raise DataError(
            f"{n_same:,} of {n_all:,} rows compare a model with itself, first row {places[0]}: "
            f"{items[first[is_same][0]]!r}; check the columns {formula.first!r} and {formula.second!r}, or drop these "
            f"rows",
            places,
        )
    most_first = np.argsort(-count, kind="stable")[: np.count_nonzero(count)]
    return replace(rows.only(~is_same), same=tuple((items[j], int(count[j])) for j in most_first))


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

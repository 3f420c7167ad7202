"""Verdicts of judges on pairs, and the models that relate labels to verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .._utils.argument_checks import real_array
from ..data.columns import Columns
from ..data.formula.parse import Formula
from ..data.frames import column_names, require_columns
from ..data.outcomes import MEANINGS, Categories, ComparedItems, exchange_wins, is_category, read_outcome_columns
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, DmlrankError, JudgeError, OptionTypeError, listed
from .smooth.penalty import MULTINOMIAL_CURVATURE, PenalisedSearch
from .training_rows import Folds, log_loss

# Largest accepted error of the sum of a judge's probabilities, which should be one.
_SUM_TOLERANCE = 1e-4
# Largest rating of a judge: its square is a float, too.
_LARGEST_RATING = 1e100
# Smaller probabilities are replaced by this one before logarithms are taken.
_SMALLEST = 1e-3

# What ``judge=`` may hold for one judge: a tuple of columns, a frame, an array, or a function.
JudgeSpec: TypeAlias = Any


@dataclass(frozen=True, slots=True, eq=False)
class JudgeRatings:
    """The verdicts of one judge, one row for each verdict.

    context, first, second (r,): Context of each verdict, and the items in the order in which the judge was shown them.
    values (r, 5): Probabilities of the five meanings of a label, which are ``dmlrank.data.outcomes.MEANINGS`` (first
        wins, second wins, and three kinds of ties), or q other numbers.
    is_probability: Whether ``values`` are probabilities.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    values: FloatArray
    is_probability: bool


@dataclass(frozen=True, slots=True, eq=False)
class VerdictSource:
    """The data and options of a fit that verdicts refer to.

    data: The votes, with the columns that :func:`judge_columns` names.
    formula: Names the columns with the items, in the data and in frames of verdicts.
    context: Columns that identify a context in frames of verdicts.
    categories: Meanings of labels with other spellings than the recognised ones.
    """

    data: PreferenceData
    formula: Formula
    context: tuple[str, ...]
    categories: Categories | None


def named_judges(judge: object) -> list[tuple[str, JudgeSpec]]:
    """Return the name of every judge in ``judge=``, and where the judge's verdicts come from."""
    if isinstance(judge, str):
        return [(judge, (judge,))]
    if isinstance(judge, tuple) and judge and all(isinstance(name, str) for name in judge):
        if all(is_category(name) for name in judge):
            return [("judge", judge)]
        return [(name, (name,)) for name in judge]
    if isinstance(judge, tuple) and judge and all(isinstance(entry, tuple) and len(entry) == 2 for entry in judge):
        return [(str(name), (spec,) if isinstance(spec, str) else spec) for name, spec in judge]
    return [("judge", judge)]


def judge_columns(judge: object) -> tuple[str, ...] | None:
    """Return the columns of the data that ``judge=`` needs; None means all columns, which a function receives."""
    specs = [spec for _, spec in named_judges(judge)]
    if any(callable(spec) and not _is_frame(spec) for spec in specs):
        return None
    return tuple(dict.fromkeys(column for spec in specs if _names_columns(spec) for column in spec))


def are_of_fixed_prompts(judge: object) -> bool:
    """Return whether a judge is an array or a frame, which holds verdicts on prompts that were fixed beforehand."""
    if judge is None:
        return False
    return any(_is_frame(spec) or not (_names_columns(spec) or callable(spec)) for _, spec in named_judges(judge))


def _read_ratings(name: str, spec: JudgeSpec, source: VerdictSource) -> JudgeRatings:
    """Read the verdicts of one judge; errors name the judge."""
    try:
        if _names_columns(spec):
            return _from_columns(spec, source)
        if _is_frame(spec):
            return _from_frame(spec, source)
        if callable(spec):
            return _from_array(spec(source.data.context_table(), list(source.data.items)), source.data)
        return _from_array(spec, source.data)
    except DmlrankError as error:
        raise type(error)(f"judge {name!r}: {error}") from None


def _names_columns(spec: object) -> bool:
    """Return whether a specification is a tuple of names of columns."""
    return isinstance(spec, tuple) and bool(spec) and all(isinstance(column, str) for column in spec)


def _is_frame(spec: object) -> bool:
    """Return whether a specification is a data frame."""
    return hasattr(spec, "columns") or hasattr(spec, "column_names")


def _from_columns(columns: tuple[str, ...], source: VerdictSource) -> JudgeRatings:
    """Read verdicts in columns of the data, each on the pair of its row."""
    require_columns(columns, source.data.columns.available, "columns of the data that hold verdicts")
    return _from_rows(source.data.columns, source.data.row_context, columns, source)


def _from_frame(frame: Any, source: VerdictSource) -> JudgeRatings:
    """Read verdicts in a long frame; each row holds a context, two items, and a label or probabilities."""
    if not source.context:
        raise JudgeError(
            "the verdicts are in a frame, but no columns identify a prompt there and in the data; pass context= with "
            "the names of such columns, or put the verdicts into columns of the data"
        )
    available = column_names(frame)
    pair = (source.formula.first, source.formula.second)
    require_columns((*source.context, *pair), available, "a frame of verdicts")
    candidates = [name for name in available if name not in (*source.context, *pair)]
    columns = tuple(source.formula.outcomes) if set(source.formula.outcomes) <= set(candidates) else ()
    columns = columns or tuple(name for name in candidates if is_category(name)) or tuple(candidates)
    if len(columns) != 1 and not all(is_category(name) for name in columns):
        raise JudgeError(
            f"the frame of verdicts has the columns {listed(candidates)} besides {listed([*source.context, *pair])}, "
            f"and it is not clear which of them hold the verdicts; keep one column of labels "
            f"({source.formula.outcome!r}), or columns of probabilities that are named by category (p_a, p_b, p_tie)"
        )
    rows = Columns.read(frame, [*source.context, *pair, *columns])
    context_number = {name: number for number, name in enumerate(source.data.context_ids)}
    ids = rows.identifiers(source.context)
    context = np.array([context_number.get(name, -1) for name in ids], dtype=np.intp)
    if (context < 0).all():
        raise JudgeError(
            f"none of the {len(rows)} verdicts is about a context of the data; contexts of the verdicts are "
            f"{listed(ids[:3])}, contexts of the data {listed(list(source.data.context_ids[:3]))}; use the same "
            f"identifiers in both"
        )
    return _from_rows(rows, context, columns, source)


def _from_rows(rows: Columns, context: IntArray, columns: tuple[str, ...], source: VerdictSource) -> JudgeRatings:
    """Read the verdicts of rows; rows about other models or contexts and missing verdicts are left out.

    Shapes: context (v,).
    """
    items = source.data.items
    item_code = {name: code for code, name in enumerate(items)}
    first, second = (rows.coded(name).places(item_code) for name in (source.formula.first, source.formula.second))
    is_missing = np.logical_or.reduce([rows.missing(name) for name in columns])
    used = np.flatnonzero(~is_missing & (context >= 0) & (first >= 0) & (second >= 0))
    context, first, second = context[used], first[used], second[used]
    n_wrong = int((first == second).sum())
    if n_wrong:
        raise DataError(f"{n_wrong} of {len(used)} verdicts compare a model with itself; remove these verdicts")
    if not len(used):
        return JudgeRatings(context, first, second, np.empty((0, len(MEANINGS))), True)
    outcomes = read_outcome_columns(rows, columns, used, ComparedItems(first, second, items), source.categories)
    values = np.zeros((len(used), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in outcomes.categories]] = outcomes.y
    return JudgeRatings(context, first, second, values, True)


def _from_array(array: object, data: PreferenceData) -> JudgeRatings:
    """Read verdicts in an array, (n, K, K, q), of probabilities in the order of the categories or of other numbers."""
    shape = (data.n_contexts, data.n_items, data.n_items)
    try:
        table = real_array(array)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(
            f"judge= has the type {type(array).__name__}, which is not allowed; pass one or more columns of the data, "
            f"a frame, an array (contexts, models, models, q), a function that returns such an array, or a mapping of "
            f"names to these"
        ) from None
    if table.ndim == 3:
        table = table[..., None]
    if table.ndim != 4 or table.shape[:3] != shape:
        raise JudgeError(
            f"the array has shape {table.shape}; the shape has to be (contexts, models, models, q) = {(*shape, 'q')}, "
            f"with contexts in order of first appearance and models as in the results"
        )
    is_judged = ~np.isnan(table).any(axis=-1) & ~np.eye(data.n_items, dtype=bool)
    context, first, second = np.nonzero(is_judged)
    numbers = table[is_judged]
    if (np.abs(numbers) > _LARGEST_RATING).any():
        raise JudgeError(
            f"the array has infinite values, or values beyond {_LARGEST_RATING:g}, whose squares are infinite; use NaN "
            f"where there is no verdict"
        )
    fits_categories = numbers.shape[1] == data.n_categories and len(numbers) > 0
    sums_to_one = np.abs(numbers.sum(axis=1) - 1) <= _SUM_TOLERANCE
    if not (fits_categories and (numbers >= 0).all() and sums_to_one.all()):
        return JudgeRatings(context, first, second, numbers, False)
    values = np.zeros((len(numbers), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in data.categories]] = numbers
    return JudgeRatings(context, first, second, values, True)


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdicts of J judges on judged cells, which are sorted by context, first item and second item.

    names: Names of the judges.
    cells: The judged cells, r of them. ``y`` is the mean of the verdicts as probabilities of the human categories, and
        NaN where a judge's numbers are not probabilities. Where display order does not matter, ``flipped`` says whether
        the judges were shown the pair in the other order.
    features (r, q): The verdicts as features of a learner, in the order in which the pair was shown.
    shares (J, r, 3): Probability by judge that the first item as shown wins, that the second wins, and of a tie. NaN
        where a judge has no verdict, or where the judge's numbers are not probabilities.
    label (m,): Judged cell of every labelled cell; -1 for labelled cells that no judge judged.
    covers_all_pairs: Whether every pair of every context was judged.
    both_orders (J, 2): By judge, the number of pairs judged in both display orders, and how many of these had the same
        winner in both.
    """

    names: tuple[str, ...]
    cells: Cells
    features: FloatArray
    shares: FloatArray
    label: IntArray
    covers_all_pairs: bool
    both_orders: IntArray

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether a judged cell has a human label, (r,)."""
        is_labelled = np.zeros(len(self.cells), dtype=bool)
        is_labelled[self.label[self.label >= 0]] = True
        return is_labelled

    def as_votes(self, data: PreferenceData) -> PreferenceData:
        """Return the data with the verdicts in place of the human votes."""
        if np.isnan(self.cells.y).any():
            raise JudgeError(
                "the judge's numbers are not probabilities of the categories, so that the judge has no ranking of its "
                "own; pass labels or probabilities to get this ranking"
            )
        votes = np.arange(len(self.cells))
        # Verdicts belong to no row of the votes; their rows are not used.
        rows = np.zeros(len(votes), dtype=np.intp)
        return replace(data, cells=self.cells, vote_cell=votes, vote_y=self.cells.y, vote_row=rows)


def read_verdicts(
    judge: object,
    data: PreferenceData,
    formula: Formula,
    *,
    context: tuple[str, ...] = (),
    categories: Categories | None = None,
) -> Verdicts:
    """Read the verdicts of all judges."""
    named = named_judges(judge)
    source = VerdictSource(data, formula, context, categories)
    by_judge = [_average_by_cell(_read_ratings(name, spec, source), data) for name, spec in named]
    for (name, _), judged in zip(named, by_judge, strict=True):
        if not len(judged.cells):
            raise JudgeError(
                f"judge {name!r} has no verdict on a pair of these models in a context of the data; pass verdicts on "
                f"such pairs, or leave the judge out"
            )
    verdicts = _join_judges(tuple(name for name, _ in named), by_judge, data)
    _check_useful(verdicts, data)
    return verdicts


class _JudgedCells(NamedTuple):
    """The verdicts of one judge, averaged by cell.

    cells: The judged cells, r of them.
    values (r, 5): Mean verdicts, in the order in which the pair was shown.
    is_probability: Whether ``values`` are probabilities.
    both_orders (2,): Number of pairs judged in both display orders, and how many of these had the same winner in both.
    """

    cells: Cells
    values: FloatArray
    is_probability: bool
    both_orders: IntArray


def _average_by_cell(ratings: JudgeRatings, data: PreferenceData) -> _JudgedCells:
    """Average the verdicts of one judge on the same cell."""
    first, second = ratings.first, ratings.second
    is_reversed = np.zeros(len(first), dtype=bool) if data.ordered else first > second
    low, high = np.where(is_reversed, second, first), np.where(is_reversed, first, second)
    keys, cell = np.unique(np.stack([ratings.context, low, high], axis=1), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    n_verdicts = np.bincount(cell, minlength=len(keys))
    n_reversed = np.bincount(cell, weights=is_reversed, minlength=len(keys))
    flipped = (n_reversed == n_verdicts) & (n_verdicts > 0)
    values, is_used = ratings.values, np.ones(len(cell), dtype=bool)
    differs = is_reversed & ~flipped[cell]
    if ratings.is_probability:
        values = exchange_wins(values, differs)
    else:
        is_used = ~differs
    total = np.zeros((len(keys), values.shape[1]))
    np.add.at(total, cell[is_used], values[is_used])
    n_used = np.bincount(cell[is_used], minlength=len(keys))
    context, j, k = keys.T.astype(np.intp)
    cells = Cells(context, j, k, np.full((len(keys), data.n_categories), np.nan), n_verdicts, flipped)
    means = total / np.maximum(n_used, 1)[:, None]
    return _JudgedCells(cells, means, ratings.is_probability, _count_both_orders(ratings))


def _count_both_orders(ratings: JudgeRatings) -> IntArray:
    """Count the pairs that were judged in both display orders, and those with the same winner in both, (2,)."""
    if not ratings.is_probability or not len(ratings.first):
        return np.zeros(2, dtype=np.intp)
    low, high = np.minimum(ratings.first, ratings.second), np.maximum(ratings.first, ratings.second)
    is_reversed = ratings.first > ratings.second
    winner = np.sign(ratings.values[:, 0] - ratings.values[:, 1]) * np.where(is_reversed, -1, 1)
    pair = np.stack([ratings.context, low, high], axis=1)
    # Of several verdicts on a pair in one order, the first one counts.
    pairs, winners = [], []
    for in_order in (~is_reversed, is_reversed):
        distinct, row = np.unique(pair[in_order], axis=0, return_index=True)
        pairs.append(distinct)
        winners.append(winner[in_order][row])
    union, place = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), [len(pairs[0])])
    by_order = np.full((2, len(union)), np.nan)
    by_order[0, places[0]], by_order[1, places[1]] = winners
    has_both = ~np.isnan(by_order).any(axis=0)
    return np.array([has_both.sum(), (by_order[0] == by_order[1]).sum()], dtype=np.intp)


def _join_judges(names: tuple[str, ...], by_judge: Sequence[_JudgedCells], data: PreferenceData) -> Verdicts:
    """Join the verdicts of all judges on the union of their cells."""
    keys = [np.stack([judged.cells.context, judged.cells.first, judged.cells.second], axis=1) for judged in by_judge]
    union, place = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    n = len(union)
    flipped = _order_of_first_judge(places, by_judge, n)
    n_verdicts, n_probabilities = np.zeros(n, dtype=np.intp), np.zeros(n)
    shares, features = np.full((len(names), n, 3), np.nan), []
    votes = np.zeros((n, data.n_categories))
    for judge, (place, judged) in enumerate(zip(places, by_judge, strict=True)):
        n_verdicts[place] += 1
        values = judged.values
        if judged.is_probability:
            # In the order in which the first judge of the cell was shown the pair.
            values = exchange_wins(values, judged.cells.flipped != flipped[place])
            shares[judge, place] = np.stack([values[:, 0], values[:, 1], values[:, 2:].sum(axis=1)], axis=1)
            votes[place] += _as_categories(exchange_wins(values, flipped[place]), data.categories)
            n_probabilities[place] += 1
            values = _as_features(values)
        else:
            # One judge without probabilities leaves the mean of the cell undefined: it becomes NaN below.
            n_probabilities[place] = np.nan
        features.append(_on_all_cells(values, place, n))
    context, first, second = union.T.astype(np.intp)
    with np.errstate(invalid="ignore", divide="ignore"):
        cells = Cells(context, first, second, votes / n_probabilities[:, None], n_verdicts, flipped)
    n_pairs = data.n_items * (data.n_items - 1) // (1 if data.ordered else 2)
    return Verdicts(
        names,
        cells,
        np.hstack(features),
        shares,
        _judged_cell_of_labels(union, data),
        n == data.n_contexts * n_pairs,
        np.stack([judged.both_orders for judged in by_judge]),
    )


def _order_of_first_judge(places: Sequence[IntArray], by_judge: Sequence[_JudgedCells], n: int) -> NDArray[np.bool_]:
    """Return whether the first judge of each cell was shown the pair in the other order, (n,)."""
    flipped, has_judge = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    for place, judged in zip(places, by_judge, strict=True):
        is_new = ~has_judge[place]
        flipped[place[is_new]] = judged.cells.flipped[is_new]
        has_judge[place] = True
    return flipped


def _as_features(values: FloatArray) -> FloatArray:
    """Return the verdicts as features, one column for each win and for each kind of tie that occurs."""
    present = values[:, [place for place in range(len(MEANINGS)) if place < 2 or values[:, place].any()]]
    if ((present == 0) | (present == 1)).all():
        return present
    logs = np.log(np.maximum(present, _SMALLEST))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _on_all_cells(features: FloatArray, place: IntArray, n: int) -> FloatArray:
    """Return the features of one judge on all n judged cells.

    Shapes: features (r, q), place (r,).
    """
    if len(place) == n:
        table = np.empty_like(features)
        table[place] = features
        return table
    table = np.zeros((n, features.shape[1] + 1))
    table[place, :-1], table[place, -1] = features, 1.0
    return table


def _as_categories(values: FloatArray, categories: tuple[str, ...]) -> FloatArray:
    """Return probabilities of the meanings, (r, 5), as probabilities of the human categories, (r, C)."""
    ties = [c for c, name in enumerate(categories) if c >= 2]
    shares = np.zeros((len(values), len(categories)))
    for place, meaning in enumerate(MEANINGS):
        targets = [categories.index(meaning)] if meaning in categories else ties or [0, 1]
        shares[:, targets] += values[:, [place]] / len(targets)
    return shares


def _judged_cell_of_labels(judged: IntArray, data: PreferenceData) -> IntArray:
    """Return for every labelled cell its place among the judged cells, (m,), or -1 if no judge judged it.

    Shapes: judged (r, 3).
    """
    cells, n_items = data.cells, data.n_items
    code = (judged[:, 0] * n_items + judged[:, 1]) * n_items + judged[:, 2]
    label_code = (cells.context * n_items + cells.first) * n_items + cells.second
    place = np.minimum(np.searchsorted(code, label_code), len(code) - 1)
    return np.where(code[place] == label_code, place, -1)


def _check_useful(verdicts: Verdicts, data: PreferenceData) -> None:
    """Check that some judged cells have a label, and that some have none.

    With m for the probabilities of a label given the verdict, S for whether a pair is labelled, and pi for the
    probability of S, the estimate contains S/pi (m - mu) + S/pi (Y - m) = S/pi (Y - mu) for a labelled pair: m cancels.
    """
    if (verdicts.label < 0).all():
        raise JudgeError(
            f"none of the {len(verdicts.cells)} judged pairs is among the {len(data.cells)} pairs with a human label, "
            f"so that the data do not show how verdicts and labels are related; judge some of the labelled pairs"
            + ("" if not data.ordered else ", in the order shown, or pass position_bias=False")
        )
    if verdicts.labelled.all():
        raise JudgeError(
            f"all {len(verdicts.cells)} judged pairs have a human label, so that the verdicts cannot improve the "
            f"estimate: on a labelled pair the label is used, and the verdict cancels out of the estimate; pass "
            f"verdicts on pairs without a human label as well"
        )


# Prior precisions of the coefficients of the verdicts, in decreasing order. The best of these ridges is used only if it
# predicts labels better than mu without recalibration does.
_RIDGES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Penalties of the stretch and of the levels of a Recalibration, as multiples of the ridge.
_STRETCH_PENALTY, _LEVEL_PENALTY = 1.0, 0.1
# Smaller probabilities are replaced by this one before logarithms are taken.
_TINY = 1e-12
# Largest number of soft labels that mu is fitted to: 10 for each human label, or 20,000 if that is more.
_SOFT_PER_LABEL, _SOFT_LEAST = 10, 20_000
# The share of a pair's judged cells with a label is shrunk towards the overall share, as if the overall share had been
# observed on this number of further judged cells of the pair.
_PRIOR_CELLS = 20
# Largest number of context features that may explain which judged pairs have a label.
_MOST_FEATURES = 50


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationRows:
    """Labels, the predictions to recalibrate, and the features that recalibrate the predictions.

    base (r, C): Predicted probabilities, which do not use the features.
    features (r, q): Features of the recalibration.
    y (r, C): Shares of the categories among the votes of each row.
    weight (r,): Number of votes.
    """

    base: FloatArray
    features: FloatArray
    y: FloatArray
    weight: FloatArray

    def only(self, selected: NDArray[np.bool_]) -> CalibrationRows:
        """Return the rows that are selected by a mask, (r,)."""
        return CalibrationRows(self.base[selected], self.features[selected], self.y[selected], self.weight[selected])

    def loss(self, p: FloatArray) -> float:
        """Return the log-loss of probabilities, (r, C)."""
        return log_loss(p, self.weight[:, None] * self.y)


@dataclass(frozen=True, slots=True, eq=False)
class Recalibration:
    """A multinomial regression that recalibrates probabilities by features.

    stretch: The log-odds of the probabilities are multiplied by one plus this number.
    level (C,): Intercepts of the categories.
    slope (q, C): Coefficients of the standardised features.
    centre, scale (q,): Means and standard deviations that standardise the features.

    References
    ----------
    Cox (1958), Two further applications of a model for binary regression, on recalibration by a regression on log-odds.
    """

    stretch: float
    level: FloatArray
    slope: FloatArray
    centre: FloatArray
    scale: FloatArray

    def of(self, base: FloatArray, features: FloatArray) -> FloatArray:
        """Return the recalibrated probabilities, (r, C), for ``base``, (r, C), and ``features``, (r, q)."""
        logs = np.log(np.maximum(base, _TINY))
        scores = (1 + self.stretch) * logs + self.level + (features - self.centre) / self.scale @ self.slope
        return np.asarray(softmax(scores, axis=1))


def fit_recalibration(rows: CalibrationRows, ridge: float) -> Recalibration:
    """Fit a recalibration by penalised maximum likelihood; an infinite ridge would leave the base as it is."""
    y, weight, features = rows.y, rows.weight, rows.features
    logs = np.log(np.maximum(rows.base, _TINY))
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    z = (features - centre) / scale
    n_categories, q = y.shape[1], z.shape[1]
    penalty = ridge * np.concatenate(
        [[_STRETCH_PENALTY], np.full(n_categories, _LEVEL_PENALTY), np.ones(q * n_categories)]
    )
    mean_square = np.concatenate(
        [[np.square(logs - logs.mean(axis=1, keepdims=True)).sum(axis=1).mean()], np.ones(len(penalty) - 1)]
    )
    step_scale = 1 / np.sqrt(MULTINOMIAL_CURVATURE * weight.sum() * mean_square + penalty)

    y_total = y.sum(axis=1)

    def split(flat: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return float(flat[0]), flat[1 : 1 + n_categories], flat[1 + n_categories :].reshape(q, n_categories)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        stretch, level, slope = split(flat)
        scores = (1 + stretch) * logs + level + z @ slope
        scores -= scores.max(axis=1, keepdims=True)
        share = np.exp(scores)
        total = share.sum(axis=1)
        value = float(weight @ (np.log(total) * y_total - (y * scores).sum(axis=1)))
        residual = weight[:, None] * (share * (y_total / total)[:, None] - y)
        gradient = np.concatenate([[(residual * logs).sum()], residual.sum(axis=0), (z.T @ residual).reshape(-1)])
        return value, gradient

    search = PenalisedSearch(loss, penalty, step_scale, tolerance=1e-6)
    search.advance()
    return Recalibration(*split(search.flat), centre, scale)


def select_recalibrations(rows: CalibrationRows, fold: IntArray, n_folds: int) -> tuple[Recalibration | None, ...]:
    """Fit one recalibration per fold on the other folds, with the ridge that has the smallest held-out log-loss.

    The result is None for every fold if no ridge lowers the held-out log-loss of the base. The regression has few
    coefficients and is fitted on predictions that are already out of fold, as in the short-stacking of Ahrens et al.
    (2025). Therefore mu is not fitted again within the training set of each fold.

    Shapes: fold (r,).
    """
    no_recalibration: tuple[Recalibration | None, ...] = (None,) * n_folds
    varying = rows.features.std(axis=0) > 1e-9 if len(rows.features) else np.zeros(0, dtype=bool)
    if not varying.any() or any(not (fold != f).any() for f in range(n_folds)):
        return no_recalibration
    best_loss = rows.loss(rows.base)
    best, n_failures = no_recalibration, 0
    for ridge in _RIDGES:
        fitted = tuple(fit_recalibration(rows.only(fold != f), ridge) for f in range(n_folds))
        loss = rows.loss(recalibrated(fitted, rows.base, rows.features, fold))
        if loss < best_loss:
            best_loss, best, n_failures = loss, fitted, 0
        elif best is not no_recalibration:
            n_failures += 1
            if n_failures > 1:
                break
    return best


def recalibrated(
    fitted: Sequence[Recalibration | None], base: FloatArray, features: FloatArray, fold: IntArray
) -> FloatArray:
    """Return probabilities, (r, C), that are recalibrated row by row with the recalibration of the row's fold.

    Shapes: base (r, C), features (r, q), fold (r,).
    """
    probabilities = base.copy()
    for f, recalibration in enumerate(fitted):
        rows = np.flatnonzero(fold == f)
        if recalibration is not None and len(rows):
            probabilities[rows] = recalibration.of(base[rows], features[rows])
    return probabilities


@dataclass(frozen=True, slots=True, eq=False)
class HumanGivenVerdict:
    """The fitted m = P(Y | x, verdict).

    recalibrations: One per fold; None where the verdicts do not lower the held-out log-loss.
    m (r, C): Out-of-fold m at the judged cells, with wins of the cell's first item as the first category.
    """

    recalibrations: tuple[Recalibration | None, ...]
    m: FloatArray


def human_given_verdict(data: PreferenceData, verdicts: Verdicts, base: FloatArray, folds: Folds) -> HumanGivenVerdict:
    """Regress labels on out-of-fold mu and verdicts.

    In the regression, labels, mu and verdicts refer to the order in which the judges were shown the pair.

    Shapes: base (r, C).
    """
    cells = verdicts.cells
    # Cells that have votes and verdicts: their places among the cells of the votes, and among the judged cells.
    in_votes = np.flatnonzero(verdicts.label >= 0)
    in_verdicts = verdicts.label[in_votes]
    base_as_shown = exchange_wins(base, cells.flipped)
    y = exchange_wins(data.cells.y[in_votes], cells.flipped[in_verdicts])
    n_votes = data.cells.n_votes[in_votes].astype(float)
    rows = CalibrationRows(base_as_shown[in_verdicts], verdicts.features[in_verdicts], y, n_votes)
    fitted = select_recalibrations(rows, folds.fold[cells.context[in_verdicts]], folds.n_folds)
    m = recalibrated(fitted, base_as_shown, verdicts.features, folds.fold[cells.context])
    return HumanGivenVerdict(fitted, exchange_wins(m, cells.flipped))


def soft_labels(
    verdicts: Verdicts,
    recalibration: Recalibration,
    places: IntArray,
    base: FloatArray,
) -> Cells:
    """Return m at judged cells without a label, as soft labels that weigh as much as one vote each.

    Shapes: places (s,), base (s, C).
    """
    cells = verdicts.cells
    flipped = cells.flipped[places]
    m = exchange_wins(recalibration.of(exchange_wins(base, flipped), verdicts.features[places]), flipped)
    context, first, second = cells.context[places], cells.first[places], cells.second[places]
    return Cells(context, first, second, m, np.ones(len(places), dtype=np.intp), flipped)


def draw_soft_label_cells(data: PreferenceData, verdicts: Verdicts, rng: np.random.Generator) -> IntArray:
    """Return the places of the judged cells without a label, (s,), or of a random sample where they are many."""
    unlabelled = np.flatnonzero(~verdicts.labelled)
    sample_size = max(_SOFT_LEAST, _SOFT_PER_LABEL * len(data.cells))
    if len(unlabelled) <= sample_size:
        return unlabelled
    # The sample is drawn from an order that does not depend on the order of the rows.
    unlabelled = unlabelled[np.argsort(data.seed_order[verdicts.cells.context[unlabelled]], kind="stable")]
    return np.sort(rng.choice(unlabelled, sample_size, replace=False))


def labelled_share(data: PreferenceData, verdicts: Verdicts, folds: Folds) -> FloatArray:
    """Return the estimated probability that a judged cell has a human label, at each labelled cell, (m,)."""
    cells, labelled = verdicts.cells, verdicts.labelled
    pair = cells.first * data.n_items + cells.second
    n_judged, n_labelled = (np.bincount(pair, weights=w, minlength=data.n_items**2) for w in (None, labelled))
    share = n_labelled.sum() / n_judged.sum()
    pair_share = ((n_labelled + _PRIOR_CELLS * share) / (n_judged + _PRIOR_CELLS))[pair]
    pair_share = np.clip(pair_share, 1e-6, 1 - 1e-6)
    base = np.stack([pair_share, 1 - pair_share], axis=1)
    features = np.hstack([verdicts.features, leading_components(data.x)[cells.context]])
    y = np.stack([labelled, ~labelled], axis=1).astype(float)
    fold = folds.fold[cells.context]
    fitted = select_recalibrations(CalibrationRows(base, features, y, np.ones(len(y))), fold, folds.n_folds)
    return recalibrated(fitted, base, features, fold)[verdicts.label, 0]


def leading_components(x: FloatArray) -> FloatArray:
    """Return standardised features, (n, p), or their 50 leading principal components if there are more than 50.

    Missing values count as the mean of their feature.
    """
    is_present = ~np.isnan(x)
    count = np.maximum(is_present.sum(axis=0), 1)
    centred = np.where(is_present, x - np.where(is_present, x, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    z = centred / np.where(scale > 1e-12, scale, 1.0)
    if z.shape[1] <= _MOST_FEATURES:
        return np.asarray(z)
    return np.asarray(z @ np.linalg.eigh(z.T @ z)[1][:, -_MOST_FEATURES:])

"""Judges' verdicts on ordered pairs, as arrays, from columns, frames, arrays and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.columns import Columns
from ...data.formula.parse import Formula
from ...data.frames import column_names, require_columns
from ...data.outcomes import MEANINGS, ComparedItems, exchange_wins, is_category, read_outcome_columns
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ...exceptions import DataError, DmlrankError, JudgeError, OptionTypeError, listed

# How far probabilities may be from summing to one.
_SUM = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class JudgeRatings:
    """One judge's verdicts, one by one.

    Attributes
    ----------
    context, first, second : ndarray of int, shape (r,)
        Of each verdict; items as they were shown.
    values : ndarray, shape (r, 5) or (r, q)
        Probabilities by meaning, or numbers that are none.
    probabilities : bool
        Which of the two.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    values: FloatArray
    probabilities: bool


@dataclass(frozen=True, slots=True, eq=False)
class VerdictSource:
    """What verdicts are read against.

    Attributes
    ----------
    data : PreferenceData
        With the columns that :func:`judge_columns` names.
    formula : Formula
        Whose item columns name the pairs in the data and in frames of verdicts.
    context : tuple of str
        Columns that identify a context in frames of verdicts.
    categories : mapping or None
        Meanings of labels that are not known.
    """

    data: PreferenceData
    formula: Formula
    context: tuple[str, ...]
    categories: Mapping[Any, str] | None


def named_judges(judge: Any) -> list[tuple[str, Any]]:
    """Judges by name."""
    if isinstance(judge, str):
        return [(judge, (judge,))]
    if isinstance(judge, tuple) and judge and all(isinstance(name, str) for name in judge):
        if all(is_category(name) for name in judge):
            return [("judge", judge)]
        return [(name, (name,)) for name in judge]
    if isinstance(judge, tuple) and judge and all(isinstance(entry, tuple) and len(entry) == 2 for entry in judge):
        return [(str(name), (spec,) if isinstance(spec, str) else spec) for name, spec in judge]
    return [("judge", judge)]


def judge_columns(judge: Any) -> tuple[str, ...] | None:
    """Columns of the data that ``judge=`` asks for; None means every column, as a function does.

    Examples
    --------
    >>> judge_columns((("gpt", "verdict"), ("mini", ("p_a", "p_b")))), judge_columns(None)
    (('verdict', 'p_a', 'p_b'), ())
    """
    specs = [spec for _, spec in named_judges(judge)]
    if any(callable(spec) and not _is_frame(spec) for spec in specs):
        return None
    return tuple(dict.fromkeys(column for spec in specs if _names_columns(spec) for column in spec))


def _votes_of(name: str, spec: Any, source: VerdictSource) -> JudgeRatings:
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


def _names_columns(spec: Any) -> bool:
    return isinstance(spec, tuple) and bool(spec) and all(isinstance(column, str) for column in spec)


def _is_frame(spec: Any) -> bool:
    return hasattr(spec, "columns") or hasattr(spec, "column_names")


def _from_columns(columns: tuple[str, ...], source: VerdictSource) -> JudgeRatings:
    """Verdicts in columns of the data, on each row's own pair."""
    require_columns(columns, source.data.columns.available, "columns of the data that hold verdicts")
    return _from_rows(source.data.columns, source.data.row_context, columns, source)


def _from_frame(spec: Any, source: VerdictSource) -> JudgeRatings:
    """Verdicts in a long frame: context, two items, and a label or probabilities."""
    if not source.context:
        raise JudgeError(
            "a frame of verdicts names its contexts; pass context= with the columns that identify a prompt in it and "
            "in the data, or put the verdicts into columns of the data"
        )
    available = column_names(spec)
    pair = (source.formula.first, source.formula.second)
    require_columns((*source.context, *pair), available, "a frame of verdicts")
    rest = [name for name in available if name not in (*source.context, *pair)]
    columns = tuple(source.formula.outcomes) if set(source.formula.outcomes) <= set(rest) else ()
    columns = columns or tuple(name for name in rest if is_category(name)) or tuple(rest)
    if len(columns) != 1 and not all(is_category(name) for name in columns):
        raise JudgeError(
            f"a frame of verdicts has the context, the two items and one column of labels "
            f"({source.formula.outcome!r}), or probabilities named by category (p_a, p_b, p_tie); beside "
            f"{listed([*source.context, *pair])} this one has {listed(rest)}"
        )
    rows = Columns.read(spec, [*source.context, *pair, *columns])
    place = {name: at for at, name in enumerate(source.data.context_ids)}
    ids = rows.identifiers(source.context)
    context = np.array([place.get(name, -1) for name in ids], dtype=np.intp)
    if (context < 0).all():
        raise JudgeError(
            f"none of the {len(rows)} verdicts is about a context of the data (contexts of the verdicts: "
            f"{listed(ids[:3])}; of the data: {listed(list(source.data.context_ids[:3]))})"
        )
    return _from_rows(rows, context, columns, source)


def _from_rows(rows: Columns, context: IntArray, columns: tuple[str, ...], source: VerdictSource) -> JudgeRatings:
    """Verdicts of rows; those about other models or contexts, and missing ones, are left out."""
    items = source.data.items
    place_of = {name: place for place, name in enumerate(items)}
    first, second = (rows.coded(name).places(place_of) for name in (source.formula.first, source.formula.second))
    missing = np.logical_or.reduce([rows.missing(name) for name in columns])
    kept = np.flatnonzero(~missing & (context >= 0) & (first >= 0) & (second >= 0))
    context, first, second = context[kept], first[kept], second[kept]
    if (first == second).any():
        raise DataError("a verdict compares a model with itself")
    if not len(kept):
        return JudgeRatings(context, first, second, np.empty((0, 5)), True)
    read = read_outcome_columns(rows, columns, kept, ComparedItems(first, second, items), source.categories)
    values = np.zeros((len(kept), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in read.categories]] = read.y
    return JudgeRatings(context, first, second, values, True)


def _from_array(values: Any, data: PreferenceData) -> JudgeRatings:
    """Verdicts in an array, (n, K, K, q): probabilities in the order of the categories, or any numbers."""
    shape = (data.n_contexts, data.n_items, data.n_items)
    try:
        table = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(
            f"judge= is a {type(values).__name__}; allowed: a column of the data or several, a frame, an array "
            f"(contexts, models, models, q), a function that returns one, or a mapping of names to these"
        ) from None
    if table.ndim == 3:
        table = table[..., None]
    if table.ndim != 4 or table.shape[:3] != shape:
        raise JudgeError(
            f"the array has shape {table.shape}; needed is (contexts, models, models, q) = {(*shape, 'q')}, contexts "
            f"in order of first appearance and models as in the results"
        )
    known = ~np.isnan(table).any(axis=-1) & ~np.eye(data.n_items, dtype=bool)
    context, first, second = np.nonzero(known)
    found = table[known]
    if np.isinf(found).any():
        raise JudgeError("the array holds infinite values; NaN stands for a verdict that is not known")
    even = found.shape[1] == data.n_categories and len(found) > 0
    if not (even and (found >= 0).all() and (np.abs(found.sum(axis=1) - 1) <= _SUM).all()):
        return JudgeRatings(context, first, second, found, False)
    values = np.zeros((len(found), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in data.categories]] = found
    return JudgeRatings(context, first, second, values, True)


# Probabilities below it are raised before their logarithm is taken.
_SMALLEST = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Judged cells (context, first, second), sorted in this order, and what J judges said there.

    Attributes
    ----------
    names : tuple of str
        The judges.
    cells : Cells
        Where they judged, (r,). ``y`` is the mean of their verdicts as shares of the human categories, NaN where
        features are no probabilities. Where order does not matter ``flipped`` says that the pair was shown the other
        way round.
    features : ndarray, shape (r, q)
        What a learner is told of the verdicts, of the pair *as shown*.
    shares : ndarray, shape (J, r, 3)
        Probability of the first, of the second as shown and of a tie by judge; NaN where a judge said nothing, or
        something that is no probability.
    label : ndarray of int, shape (m,)
        Judged cell of every labelled cell, -1 where no judge saw it.
    everywhere : bool
        Whether every pair of every context was judged.
    both_orders : ndarray, shape (J, 2)
        Pairs judged in both orders by judge, and how many of them had the same winner in both.
    """

    names: tuple[str, ...]
    cells: Cells
    features: FloatArray
    shares: FloatArray
    label: IntArray
    everywhere: bool
    both_orders: IntArray

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Judged cells with a human label, (r,)."""
        found = np.zeros(len(self.cells), dtype=bool)
        found[self.label[self.label >= 0]] = True
        return found

    def as_votes(self, data: PreferenceData) -> PreferenceData:
        """The data with the verdicts in place of the human votes.

        Raises
        ------
        JudgeError
            If a judge gave features that are no probabilities.
        """
        if np.isnan(self.cells.y).any():
            raise JudgeError(
                "the judge's features are not probabilities of the categories, so that it has no ranking of its own"
            )
        votes = np.arange(len(self.cells))
        rows = np.zeros(len(votes), dtype=np.intp)
        return replace(data, cells=self.cells, vote_cell=votes, vote_y=self.cells.y, vote_row=rows)


def read_verdicts(
    judge: Any,
    data: PreferenceData,
    formula: Formula,
    *,
    context: tuple[str, ...] = (),
    categories: Mapping[Any, str] | None = None,
) -> Verdicts:
    """Read verdicts.

    Parameters
    ----------
    judge
        As the option, normalised: a column, columns, a long frame, an array, a function, or pairs of a name and one
        of these.
    data : PreferenceData
        With the columns that :func:`judge_columns` names.
    formula : Formula
        Whose item columns name the pairs in the data and in long frames.
    context : tuple of str
        Columns that identify a context in long frames.
    categories : mapping, optional
        Meanings of labels that are not known.

    Raises
    ------
    JudgeError
        If nothing was judged, or the verdicts can add nothing to the labels.
    OptionTypeError, DataError
        If they cannot be read.
    """
    named = named_judges(judge)
    source = VerdictSource(data, formula, context, categories)
    merged = [_merged(_votes_of(name, spec, source), data) for name, spec in named]
    for (name, _), (cells, *_) in zip(named, merged, strict=True):
        if not len(cells):
            raise JudgeError(f"judge {name!r} has no verdict on a pair of these models in a context of the data")
    verdicts = _together(tuple(name for name, _ in named), merged, data)
    _check_useful(verdicts, data)
    return verdicts


_Merged = tuple[Cells, FloatArray, bool, IntArray]


def _merged(ratings: JudgeRatings, data: PreferenceData) -> _Merged:
    """Cells in the data's orientation, mean values as shown, whether they are probabilities, and orders that agree."""
    first, second = ratings.first, ratings.second
    back = np.zeros(len(first), dtype=bool) if data.ordered else first > second
    low, high = np.where(back, second, first), np.where(back, first, second)
    places, at = np.unique(np.stack([ratings.context, low, high], axis=1), axis=0, return_inverse=True)
    at = at.reshape(-1)
    count = np.bincount(at, minlength=len(places))
    n_back = np.bincount(at, weights=back, minlength=len(places))
    # A pair that was seen in both orders stands as its first order, verdicts of the other one flipped.
    flipped = (n_back == count) & (count > 0)
    values, kept = ratings.values, np.ones(len(at), dtype=bool)
    turned = back & ~flipped[at]
    if ratings.probabilities:
        values = exchange_wins(values, turned)
    else:
        kept = ~turned
    total = np.zeros((len(places), values.shape[1]))
    np.add.at(total, at[kept], values[kept])
    number = np.bincount(at[kept], minlength=len(places))
    context, j, k = places.T.astype(np.intp)
    cells = Cells(context, j, k, np.full((len(places), data.n_categories), np.nan), count, flipped)
    return cells, total / np.maximum(number, 1)[:, None], ratings.probabilities, _agreeing_orders(ratings)


def _agreeing_orders(ratings: JudgeRatings) -> IntArray:
    """Pairs that were judged in both orders, and those of them with one winner, (2,)."""
    if not ratings.probabilities or not len(ratings.first):
        return np.zeros(2, dtype=np.intp)
    low, high = np.minimum(ratings.first, ratings.second), np.maximum(ratings.first, ratings.second)
    back = ratings.first > ratings.second
    lead = np.sign(ratings.values[:, 0] - ratings.values[:, 1]) * np.where(back, -1, 1)
    pair = np.stack([ratings.context, low, high], axis=1)
    # The first verdict on a pair in an order is the one that counts.
    leads = []
    for order in (False, True):
        places, at = np.unique(pair[back == order], axis=0, return_index=True)
        leads.append((places, lead[back == order][at]))
    (places, one), (others, other) = leads
    both, at = np.unique(np.concatenate([places, others]), axis=0, return_inverse=True)
    by_order = np.full((2, len(both)), np.nan)
    by_order[0, at.reshape(-1)[: len(places)]], by_order[1, at.reshape(-1)[len(places) :]] = one, other
    known = ~np.isnan(by_order).any(axis=0)
    return np.array([known.sum(), (by_order[0] == by_order[1]).sum()], dtype=np.intp)


def _together(names: tuple[str, ...], merged: Sequence[_Merged], data: PreferenceData) -> Verdicts:
    """All judges' verdicts on the union of their cells."""
    keys = [np.stack([cells.context, cells.first, cells.second], axis=1) for cells, *_ in merged]
    places, at = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    place_of = np.split(at.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    n = len(places)
    flipped, claimed, n_votes = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp)
    shares, features = np.full((len(names), n, 3), np.nan), []
    votes, number = np.zeros((n, data.n_categories)), np.zeros(n)
    for judge, (place, (cells, values, probabilities, _)) in enumerate(zip(place_of, merged, strict=True)):
        new = place[~claimed[place]]
        flipped[new] = cells.flipped[~claimed[place]]
        claimed[place] = True
        n_votes[place] += 1
        if probabilities:
            # As the first judge was shown the pair.
            values = exchange_wins(values, cells.flipped != flipped[place])
            shares[judge, place] = np.stack([values[:, 0], values[:, 1], values[:, 2:].sum(axis=1)], axis=1)
            own = exchange_wins(values, flipped[place])
            votes[place] += _as_categories(own, data.categories)
            number[place] += 1
        else:
            number[place] = np.nan
        features.append(_spread(_as_features(values) if probabilities else values, place, n))
    context, j, k = places.T.astype(np.intp)
    with np.errstate(invalid="ignore", divide="ignore"):
        cells = Cells(context, j, k, votes / number[:, None], n_votes, flipped)
    orders = data.n_items * (data.n_items - 1) // (1 if data.ordered else 2)
    return Verdicts(
        names,
        cells,
        np.hstack(features),
        shares,
        _label_places(places, data),
        n == data.n_contexts * orders,
        np.stack([orders_agree for *_, orders_agree in merged]),
    )


def _as_features(values: FloatArray) -> FloatArray:
    """Indicators of hard verdicts, centred log-probabilities of soft ones, for the meanings that occur."""
    present = values[:, [place for place in range(5) if place < 2 or values[:, place].any()]]
    if ((present == 0) | (present == 1)).all():
        return present
    logs = np.log(np.maximum(present, _SMALLEST))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _spread(features: FloatArray, place: IntArray, n: int) -> FloatArray:
    """Features of one judge on the cells of all, zero and with an indicator where it said nothing."""
    if len(place) == n:
        spread = np.empty_like(features)
        spread[place] = features
        return spread
    spread = np.zeros((n, features.shape[1] + 1))
    spread[place, :-1], spread[place, -1] = features, 1.0
    return spread


def _as_categories(values: FloatArray, categories: tuple[str, ...]) -> FloatArray:
    """Probabilities by meaning, (r, 5), as shares of the human categories, (r, C).

    A kind of tie that humans did not have is spread over those that they had; where they had none it is half a win
    for both.
    """
    ties = [c for c, name in enumerate(categories) if c >= 2]
    shares = np.zeros((len(values), len(categories)))
    for place, meaning in enumerate(MEANINGS):
        into = [categories.index(meaning)] if meaning in categories else ties or [0, 1]
        shares[:, into] += values[:, [place]] / len(into)
    return shares


def _label_places(places: IntArray, data: PreferenceData) -> IntArray:
    cells = data.cells
    code = (places[:, 0] * data.n_items + places[:, 1]) * data.n_items + places[:, 2]
    wanted = (cells.context * data.n_items + cells.first) * data.n_items + cells.second
    at = np.minimum(np.searchsorted(code, wanted), len(code) - 1)
    return np.where(code[at] == wanted, at, -1)


def _check_useful(verdicts: Verdicts, data: PreferenceData) -> None:
    """Raise where verdicts and labels do not overlap, or verdicts add nothing to the labels."""
    if (verdicts.label < 0).all():
        raise JudgeError(
            f"no judge saw a pair with a human label ({len(verdicts.cells)} verdicts, {len(data.cells)} labelled "
            f"pairs), so that nothing says what its verdicts mean; judge some of the labelled pairs"
            + ("" if not data.ordered else ", in the order shown, or pass position_bias=False")
        )
    if verdicts.labelled.all():
        raise JudgeError(
            f"all {len(verdicts.cells)} judged pairs are pairs with a human label: a verdict tells what humans would "
            f"have said where they said nothing, and where both are known it cancels out of the estimate, "
            f"S/pi (m - mu) + S/pi (Y - m) = S/pi (Y - mu); give verdicts on unlabelled battles or on other pairs"
        )

"""What judges said, as arrays: verdicts on ordered pairs, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.formula import Formula
from ..data.outcomes import MEANINGS
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import JudgeError
from .verdict_sources import Said, Source, named_judges, read_said

# Probabilities below it are raised before their logarithm is taken.
_SMALLEST = 1e-3
_SWAPPED = [1, 0, 2, 3, 4]


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
    frame: Any,
    unlabelled: Any = None,
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
    formula : Formula
        Whose item columns name the pairs in the data and in long frames.
    frame, unlabelled : frame
        The caller's.
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
    source = Source(data, formula, frame, unlabelled, context, categories)
    said = [read_said(name, spec, source) for name, spec in named]
    merged = [_merged(one, data) for one in said]
    for (name, _), (cells, *_) in zip(named, merged, strict=True):
        if not len(cells):
            raise JudgeError(f"judge {name!r} has no verdict on a pair of these models in a context of the data")
    verdicts = _together(tuple(name for name, _ in named), merged, data)
    _check_useful(verdicts, data)
    return verdicts


_Merged = tuple[Cells, FloatArray, bool, IntArray]


def _merged(said: Said, data: PreferenceData) -> _Merged:
    """Cells in the data's orientation, mean values as shown, whether they are probabilities, and orders that agree."""
    first, second = said.first, said.second
    back = np.zeros(len(first), dtype=bool) if data.ordered else first > second
    low, high = np.where(back, second, first), np.where(back, first, second)
    places, at = np.unique(np.stack([said.context, low, high], axis=1), axis=0, return_inverse=True)
    at = at.reshape(-1)
    count = np.bincount(at, minlength=len(places))
    n_back = np.bincount(at, weights=back, minlength=len(places))
    # A pair that was seen in both orders stands as its first order, verdicts of the other one flipped.
    flipped = (n_back == count) & (count > 0)
    values, kept = said.values, np.ones(len(at), dtype=bool)
    turned = back & ~flipped[at]
    if said.probabilities:
        values = np.where(turned[:, None], values[:, _SWAPPED], values)
    else:
        kept = ~turned
    total = np.zeros((len(places), values.shape[1]))
    np.add.at(total, at[kept], values[kept])
    number = np.bincount(at[kept], minlength=len(places))
    context, j, k = places.T.astype(np.intp)
    cells = Cells(context, j, k, np.full((len(places), data.n_categories), np.nan), count, flipped)
    return cells, total / np.maximum(number, 1)[:, None], said.probabilities, _agreeing_orders(said)


def _agreeing_orders(said: Said) -> IntArray:
    """Pairs that were judged in both orders, and those of them with one winner, (2,)."""
    if not said.probabilities or not len(said.first):
        return np.zeros(2, dtype=np.intp)
    low, high = np.minimum(said.first, said.second), np.maximum(said.first, said.second)
    back = said.first > said.second
    lead = np.sign(said.values[:, 0] - said.values[:, 1]) * np.where(back, -1, 1)
    table = pd.DataFrame({"c": said.context, "j": low, "k": high, "back": back, "lead": lead})
    by_order = table.groupby(["c", "j", "k", "back"])["lead"].first().unstack("back")
    if by_order.shape[1] < 2:
        return np.zeros(2, dtype=np.intp)
    both = by_order.dropna()
    return np.array([len(both), int((both[False] == both[True]).sum())], dtype=np.intp)


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
            values = np.where((cells.flipped != flipped[place])[:, None], values[:, _SWAPPED], values)
            shares[judge, place] = np.stack([values[:, 0], values[:, 1], values[:, 2:].sum(axis=1)], axis=1)
            own = np.where(flipped[place][:, None], values[:, _SWAPPED], values)
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

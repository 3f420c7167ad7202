"""Verdicts of judges on pairs, and the models that relate labels to verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from .._utils.argument_checks import is_frame
from .._utils.tasks_and_threads import warn
from ..data.arrays import RowRecord
from ..data.columns import CodedColumn, Columns, beside
from ..data.formula.parse import Formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.outcomes import (
    MEANINGS,
    Categories,
    category_of_column,
    exchange_wins,
    read_labels,
    read_probabilities,
    without_missing,
)
from ..data.preferences import BoolArray, Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, DmlrankError, JudgeError, listed
from .smooth import MULTINOMIAL_CURVATURE, PenalisedLikelihood
from .training_rows import Folds, log_loss

# Smaller probabilities are replaced by this one before logarithms are taken.
_SMALLEST = 1e-3


def _columns_by_judge(columns: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the columns of every judge by the judge's name."""
    if len(columns) > 1 and all(category_of_column(name) for name in columns):
        return {"judge": columns}
    return {name: (name,) for name in columns}


def _read_frame(
    frame: Any, data: PreferenceData, formula: Formula, context: tuple[str, ...]
) -> tuple[Columns, IntArray, tuple[str, ...]]:
    """Read a long frame whose rows hold a context, two items, and a label or probabilities.

    Returns its columns, the context of each row, (v,), and the names of the columns with the verdicts.
    """
    if not context:
        raise JudgeError(
            "a frame of verdicts needs columns that identify a prompt there and in the data; pass context="
        )
    available = column_names(frame)
    known = (*context, formula.first, formula.second)
    require_columns(known, available, "a frame of verdicts")
    candidates = [name for name in available if name not in known]
    columns = tuple(formula.outcomes) if set(formula.outcomes) <= set(candidates) else ()
    columns = columns or tuple(name for name in candidates if category_of_column(name)) or tuple(candidates)
    if len(columns) != 1 and not (columns and all(category_of_column(name) for name in columns)):
        found = f"the columns {listed(candidates)}" if candidates else "no column"
        raise JudgeError(
            f"the frame of verdicts has {found} besides {listed(known)}; keep one column of "
            f"labels ({formula.outcome!r}), or columns of probabilities named by category (p_a, p_b, p_tie)"
        )
    rows = Columns(tuple(available), take_columns(frame, [*known, *columns]))
    context_number = {name: number for number, name in enumerate(data.context_ids)}
    ids = rows.identifiers(context)
    row_context = np.array([context_number.get(name, -1) for name in ids], dtype=np.intp)
    if (row_context < 0).all():
        raise JudgeError(
            f"none of {len(rows)} verdicts is about a context of the data{beside(data.context_ids, ids)}; use its names"
        )
    return rows, row_context, columns


def _from_rows(
    rows: Columns,
    context: IntArray,
    columns: tuple[str, ...],
    data: PreferenceData,
    formula: Formula,
    categories: Categories | None,
) -> tuple[IntArray, FloatArray]:
    """Read the verdicts of rows; rows about other models or contexts and missing verdicts are left out.

    Returned are context, first and second item as shown, (v, 3), and probabilities of the five ``MEANINGS``, (v, 5).
    """
    items = data.items
    coded = (rows.coded(name).with_plain_names()[0] for name in (formula.first, formula.second))
    first, second = (column.places(items) for column in coded)
    is_missing = rows.table(columns).isna().to_numpy().any(axis=1)
    if len(columns) == 1:  # Also verdicts that could not be read, which ``categories=`` calls missing.
        is_missing |= without_missing(rows.coded(columns[0]), categories, items, warns=False).codes < 0
    is_known = (context >= 0) & (first >= 0) & (second >= 0)
    unknown = np.flatnonzero(~is_missing & ~is_known)
    if len(unknown) and rows is not data.columns:
        names = (*(rows.identifiers((name,))[unknown[0]] for name in (formula.first, formula.second)), unknown[0] + 1)
        warn(
            f"{len(unknown)} of {len(is_known)} verdicts are about prompts or models that do not count in this fit, "
            f"and are left out; the first one compares {names[0]!r} with {names[1]!r} in row {names[2]}"
        )
    used = np.flatnonzero(~is_missing & is_known)
    context, first, second = context[used], first[used], second[used]
    cells, values = np.stack([context, first, second], axis=1), np.zeros((len(used), len(MEANINGS)))
    n_wrong = int((first == second).sum())
    if n_wrong:
        raise DataError(f"{n_wrong} of {len(used)} verdicts compare a model with itself; remove these verdicts")
    if not len(used):
        return cells, values
    table = rows.table(columns, used)
    if len(columns) > 1:
        outcomes = read_probabilities(table, categories)
    else:
        winners, _ = CodedColumn.of(table[columns[0]]).with_plain_names(items)
        outcomes = read_labels(winners, table[columns[0]], (first, second), items, categories)
    values[:, [MEANINGS.index(meaning) for meaning in outcomes.categories]] = outcomes.y
    return cells, values


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdicts of J judges on judged cells, which are sorted by context, first item and second item.

    cells: The judged cells, r of them. ``y`` is the mean of the verdicts as probabilities of the human categories.
        Where display order does not matter, ``flipped`` says whether the judges were shown the pair in the other order.
    features (r, q): The verdicts as features of a learner, in the order in which the pair was shown.
    shares (J, r, 3): Probability by judge that the first item as shown wins, that the second wins, and of a tie. NaN
        where a judge has no verdict.
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
    def labelled(self) -> BoolArray:
        """Whether a judged cell has a human label, (r,)."""
        is_labelled = np.zeros(len(self.cells), dtype=bool)
        is_labelled[self.label[self.label >= 0]] = True
        return is_labelled

    def as_votes(self, data: PreferenceData) -> PreferenceData:
        """Return the data with the verdicts in place of the human votes."""
        votes = np.arange(len(self.cells))
        # Verdicts belong to no row of the votes; their rows are not used.
        rows = np.zeros(len(votes), dtype=np.intp)
        return replace(data, cells=self.cells, vote_cell=votes, vote_y=self.cells.y, vote_row=rows)


def read_verdicts(
    judge: Any,
    data: PreferenceData,
    formula: Formula,
    *,
    context: tuple[str, ...] = (),
    categories: Categories | None = None,
) -> Verdicts:
    """Read the verdicts of all judges: columns of the data, or a frame."""
    by_judge = {}
    for name, columns in ({"judge": ()} if is_frame(judge) else _columns_by_judge(judge)).items():
        try:
            if columns:
                require_columns(columns, data.columns.available, "columns of the data that hold verdicts")
                cells, values = _from_rows(data.columns, data.row_context, columns, data, formula, categories)
            else:
                cells, values = _from_rows(*_read_frame(judge, data, formula, context), data, formula, categories)
        except DmlrankError as error:
            raise type(error)(f"judge {name!r}: {error}") from None
        if not len(cells):
            raise JudgeError(f"judge {name!r} has no verdict on these models and contexts; leave it out")
        by_judge[name] = _average_by_cell(cells, values, data)
    verdicts = _join_judges(tuple(by_judge), list(by_judge.values()), data)
    # With m for the probabilities of a label given the verdict, S for whether a pair is labelled, and pi for the
    # probability of S, the estimate contains S/pi (m - mu) + S/pi (Y - m) = S/pi (Y - mu) for a labelled pair: m
    # cancels.
    if (verdicts.label < 0).all():
        raise JudgeError(
            f"none of the {len(verdicts.cells)} judged pairs is among the {len(data.cells)} pairs with a human label; "
            f"judge some of these" + ("" if not data.ordered else ", in the order shown, or pass position_bias=False")
        )
    if verdicts.labelled.all():
        raise JudgeError(
            f"all {len(verdicts.cells)} judged pairs have a label, where verdicts cancel; pass verdicts on other pairs"
        )
    return verdicts


class _JudgedCells(NamedTuple):
    """The verdicts of one judge, averaged by cell.

    cells (r, 3): Context and items of the judged cells, sorted.
    values (r, 5): Mean verdicts, in the order in which the pair was shown.
    """

    cells: IntArray
    flipped: BoolArray
    values: FloatArray
    both_orders: tuple[int, int]


def _average_by_cell(shown: IntArray, values: FloatArray, data: PreferenceData) -> _JudgedCells:
    """Average the verdicts of one judge on the same cell."""
    in_other_order, pair = shown[:, 1] > shown[:, 2], np.column_stack([shown[:, 0], np.sort(shown[:, 1:], axis=1)])
    winner = np.sign(values[:, 0] - values[:, 1]) * np.where(in_other_order, -1, 1)
    # Of several verdicts on a pair in one order, the first one counts.
    distinct, row = np.unique(np.column_stack([pair, in_other_order]), axis=0, return_index=True)
    has_both = (distinct[1:, :3] == distinct[:-1, :3]).all(axis=1)
    both_orders = int(has_both.sum()), int((has_both & (winner[row][1:] == winner[row][:-1])).sum())
    is_reversed = np.zeros(len(shown), dtype=bool) if data.ordered else in_other_order
    cells, cell = np.unique(shown if data.ordered else pair, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    n_verdicts = np.bincount(cell, minlength=len(cells))
    flipped = np.bincount(cell, weights=is_reversed, minlength=len(cells)) == n_verdicts
    total = np.zeros((len(cells), values.shape[1]))
    np.add.at(total, cell, exchange_wins(values, is_reversed & ~flipped[cell]))
    return _JudgedCells(cells, flipped, total / n_verdicts[:, None], both_orders)


def _join_judges(names: tuple[str, ...], by_judge: Sequence[_JudgedCells], data: PreferenceData) -> Verdicts:
    """Join the verdicts of all judges on the union of their cells."""
    union, place = np.unique(np.concatenate([judged.cells for judged in by_judge]), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), np.cumsum([len(judged.cells) for judged in by_judge])[:-1])
    n = len(union)
    # The order in which the first judge of a cell was shown the pair.
    flipped = np.zeros(n, dtype=bool)
    for place, judged in zip(reversed(places), reversed(by_judge), strict=True):
        flipped[place] = judged.flipped
    n_verdicts = np.zeros(n, dtype=np.intp)
    shares, features = np.full((len(names), n, 3), np.nan), []
    votes = np.zeros((n, data.n_categories))
    for judge, (place, judged) in enumerate(zip(places, by_judge, strict=True)):
        n_verdicts[place] += 1
        values = exchange_wins(judged.values, judged.flipped != flipped[place])
        shares[judge, place] = np.stack([values[:, 0], values[:, 1], values[:, 2:].sum(axis=1)], axis=1)
        votes[place] += _as_categories(exchange_wins(values, flipped[place]), data.categories)
        values = _as_features(values)
        if len(place) < n:
            # A further column says whether the judge judged the cell.
            values = np.column_stack([values, np.ones(len(place))])
        of_judge = np.zeros((n, values.shape[1]))
        of_judge[place] = values
        features.append(of_judge)
    context, first, second = union.T.astype(np.intp)
    cells = Cells(context, first, second, votes / n_verdicts[:, None], n_verdicts, flipped)
    code, code_of_label = (
        (of.context * data.n_items + of.first) * data.n_items + of.second for of in (cells, data.cells)
    )
    label = np.minimum(np.searchsorted(code, code_of_label), n - 1)
    return Verdicts(
        names,
        cells,
        np.hstack(features),
        shares,
        np.where(code[label] == code_of_label, label, -1),
        n == data.n_contexts * data.n_items * (data.n_items - 1) // (1 if data.ordered else 2),
        np.array([judged.both_orders for judged in by_judge], dtype=np.intp),
    )


def _as_features(values: FloatArray) -> FloatArray:
    """Return the verdicts as features, one column for each win and for each kind of tie that occurs."""
    present = values[:, [place for place in range(len(MEANINGS)) if place < 2 or values[:, place].any()]]
    if ((present == 0) | (present == 1)).all():
        return present
    logs = np.log(np.maximum(present, _SMALLEST))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _as_categories(values: FloatArray, categories: tuple[str, ...]) -> FloatArray:
    """Return probabilities of the meanings, (r, 5), as probabilities of the human categories, (r, C)."""
    ties = [c for c, name in enumerate(categories) if c >= 2]
    shares = np.zeros((len(values), len(categories)))
    for place, meaning in enumerate(MEANINGS):
        targets = [categories.index(meaning)] if meaning in categories else ties or [0, 1]
        shares[:, targets] += values[:, [place]] / len(targets)
    return shares


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
class CalibrationRows(RowRecord):
    """Labels, the predictions to recalibrate, and the features that recalibrate the predictions.

    base (r, C): Predicted probabilities, which do not use the features, (r, q).
    y (r, C): Shares of the categories among the votes of each row, whose number is its weight.
    """

    base: FloatArray
    features: FloatArray
    y: FloatArray
    weight: FloatArray

    def loss(self, p: FloatArray) -> float:
        """Return the log-loss of probabilities, (r, C)."""
        return log_loss(p, self.weight[:, None] * self.y)


@dataclass(frozen=True, slots=True, eq=False)
class Recalibration:
    """A multinomial regression that recalibrates probabilities by features.

    stretch: The log-odds of the probabilities are multiplied by one plus this number.
    slope (q, C): Coefficients of the features, standardised by ``centre`` and ``scale``, (q,).

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


class _RecalibrationLikelihood(PenalisedLikelihood[Recalibration]):
    """The multinomial log-likelihood of rows as a function of stretch, level and slope, in one flat vector."""

    def __init__(self, rows: CalibrationRows) -> None:
        self.rows = rows
        self.logs = np.log(np.maximum(rows.base, _TINY))
        self.centre, scale = rows.features.mean(axis=0), rows.features.std(axis=0)
        self.scale = np.where(scale > 1e-9, scale, 1.0)
        self.z = (rows.features - self.centre) / self.scale
        n_categories, n_slopes = rows.y.shape[1], self.z.shape[1] * rows.y.shape[1]
        self.penalty = np.concatenate([[_STRETCH_PENALTY], np.full(n_categories, _LEVEL_PENALTY), np.ones(n_slopes)])
        mean_square = np.ones(len(self.penalty))
        mean_square[0] = np.square(self.logs - self.logs.mean(axis=1, keepdims=True)).sum(axis=1).mean()
        self.precision = MULTINOMIAL_CURVATURE * rows.weight.sum() * mean_square

    def effects(self, flat: FloatArray) -> Recalibration:
        """Return the recalibration whose coefficients stand in a flat vector."""
        n_categories = self.rows.y.shape[1]
        level, slope = flat[1 : 1 + n_categories], flat[1 + n_categories :].reshape(-1, n_categories)
        return Recalibration(float(flat[0]), level, slope, self.centre, self.scale)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient."""
        effects, y, weight = self.effects(flat), self.rows.y, self.rows.weight
        scores = (1 + effects.stretch) * self.logs + effects.level + self.z @ effects.slope
        scores -= scores.max(axis=1, keepdims=True)
        share = np.exp(scores)
        total = share.sum(axis=1)
        value = float(weight @ (np.log(total) - (y * scores).sum(axis=1)))
        residual = weight[:, None] * (share / total[:, None] - y)
        of_slope = (self.z.T @ residual).reshape(-1)
        return value, np.concatenate([[(residual * self.logs).sum()], residual.sum(axis=0), of_slope])


def select_recalibrations(rows: CalibrationRows, fold: IntArray, n_folds: int) -> tuple[Recalibration | None, ...]:
    """Fit one recalibration per fold on the other folds, with the ridge that has the smallest held-out log-loss.

    The result is None for every fold if no ridge lowers the held-out log-loss of the base. Predictions are out of fold
    already (short-stacking of Ahrens et al., 2025): mu is not fitted again within the training set of each fold.
    """
    no_recalibration: tuple[Recalibration | None, ...] = (None,) * n_folds
    varying = rows.features.std(axis=0) > 1e-9 if len(rows.features) else np.zeros(0, dtype=bool)
    if not varying.any() or any(not (fold != f).any() for f in range(n_folds)):
        return no_recalibration
    best_loss = rows.loss(rows.base)
    best, n_failures = no_recalibration, 0
    likelihoods = [_RecalibrationLikelihood(rows.only(fold != f)) for f in range(n_folds)]
    for ridge in _RIDGES:
        fitted = tuple(of_fold.effects(of_fold.fit(ridge, tolerance=1e-6)) for of_fold in likelihoods)
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
    """Return probabilities, (r, C), that are recalibrated row by row with the recalibration of the row's fold."""
    probabilities = base.copy()
    for f, recalibration in enumerate(fitted):
        rows = np.flatnonzero(fold == f)
        if recalibration is not None and len(rows):
            probabilities[rows] = recalibration.of(base[rows], features[rows])
    return probabilities


def human_given_verdict(
    data: PreferenceData, verdicts: Verdicts, base: FloatArray, folds: Folds
) -> tuple[tuple[Recalibration | None, ...], FloatArray]:
    """Regress labels on out-of-fold mu, (r, C), and verdicts, all in the order that the judges were shown.

    Returns the recalibration of each fold, None where verdicts do not help, and out-of-fold m = P(Y | x, verdict) at
    the judged cells, (r, C), with wins of the cell's first item as the first category.
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
    return fitted, exchange_wins(m, cells.flipped)


def soft_labels(verdicts: Verdicts, recalibration: Recalibration, places: IntArray, base: FloatArray) -> Cells:
    """Return m at judged cells without a label, as soft labels that weigh as much as one vote each."""
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
    n_judged, n_labelled = (cells.sums(counted, data.n_items) for counted in (None, labelled))
    share = n_labelled.sum() / n_judged.sum()
    pair_share = ((n_labelled + _PRIOR_CELLS * share) / (n_judged + _PRIOR_CELLS))[cells.first, cells.second]
    pair_share = np.clip(pair_share, 1e-6, 1 - 1e-6)
    base = np.stack([pair_share, 1 - pair_share], axis=1)
    features = np.hstack([verdicts.features, leading_components(data.x)[cells.context]])
    y = np.stack([labelled, ~labelled], axis=1).astype(float)
    fold = folds.fold[cells.context]
    fitted = select_recalibrations(CalibrationRows(base, features, y, np.ones(len(y))), fold, folds.n_folds)
    return recalibrated(fitted, base, features, fold)[verdicts.label, 0]


def leading_components(x: FloatArray) -> FloatArray:
    """Return standardised features, (n, p), missing ones at the mean, or the 50 leading components of more."""
    is_present = ~np.isnan(x)
    count = np.maximum(is_present.sum(axis=0), 1)
    centred = np.where(is_present, x - np.where(is_present, x, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    z = centred / np.where(scale > 1e-12, scale, 1.0)
    if z.shape[1] <= _MOST_FEATURES:
        return np.asarray(z)
    return np.asarray(z @ np.linalg.eigh(z.T @ z)[1][:, -_MOST_FEATURES:])

"""The steps of a fit with ``adjust=BalancedStyle(...)``: votes on answers of like style, and their propensities.

A vote whose answers have the style differences D counts with the weight w(D). The propensity of a cell with positive
weight is pi omega / W. Here pi is the propensity of a label, omega = E[w(D) | x, pair] the expected weight of a vote,
and W the mean weight of the cell's votes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.style_differences import read_style_differences
from ..exceptions import DataError, OptionError, listed
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.style import AdditiveModel, AdditiveRows, context_design, fit_by_fold, predict_by_fold
from ..nuisance.training_rows import Folds
from ..style_adjustment import BalancedStyle

# Smallest expected weight of a vote.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class BalancedVotes:
    """Which cells have votes of positive weight, with the data and weights of all votes.

    every: All votes on the ranked items.
    weight (m_all,): W, the mean weight w(D) of the votes of each cell of ``every``.
    cell (m,): Place of each cell that counts among the cells of ``every``.
    deviations (r,): Root mean square of each style difference over all votes.
    n_votes: Number of all votes that were read.
    """

    every: PreferenceData
    weight: FloatArray
    cell: IntArray
    deviations: FloatArray
    n_votes: int


def keep_balanced_votes(data: PreferenceData, adjust: BalancedStyle) -> PreferenceData:
    """Return the data with the votes of positive weight alone; a cell's label is the weighted mean of its votes."""
    weight = _vote_weights(data, adjust)
    total = np.bincount(data.vote_cell, weight, len(data.cells))
    counts, kept = total > 0, weight > 0
    if not kept.any():
        raise DataError(
            f"no vote is on answers whose differences in {listed(adjust.columns)} are below within={adjust.within:g}; "
            f"use a larger within"
        )
    y = np.stack([np.bincount(data.vote_cell, weight * share, len(data.cells)) for share in data.vote_y.T], axis=1)
    n_votes = np.bincount(data.vote_cell[kept], minlength=len(data.cells))
    cells = replace(data.cells, y=y / np.where(counts, total, 1.0)[:, None], n_votes=n_votes).only(counts)
    votes = replace(
        data,
        cells=cells,
        vote_cell=(np.cumsum(counts) - 1)[data.vote_cell[kept]],
        vote_y=data.vote_y[kept],
        vote_row=data.vote_row[kept],
    )
    # Categories that no vote has left are dropped, as in votes that are read.
    return votes.restrict(np.arange(data.n_items))


def match_balanced_votes(data: PreferenceData, every: PreferenceData, adjust: BalancedStyle) -> BalancedVotes:
    """Find the cells that count among all cells."""
    n_votes = every.n_votes
    if every.items != data.items:
        every = every.restrict(np.array([every.items.index(name) for name in data.items]))
    differences = read_style_differences(every, adjust.columns, must_vary=False)
    weight = np.bincount(every.vote_cell, adjust.vote_weights(differences.values), len(every.cells))
    code = _codes(every)
    order = np.argsort(code)
    cell = order[np.searchsorted(code[order], _codes(data))]
    return BalancedVotes(every, weight / every.cells.n_votes, cell, differences.deviations, n_votes)


def weighted_training_data(data: PreferenceData, votes: BalancedVotes) -> PreferenceData:
    """Return the data for the training of mu: the number of votes of each cell is the sum of their weights."""
    total = votes.weight[votes.cell] * votes.every.cells.n_votes[votes.cell]
    # Learners take these numbers as weights; whole numbers are not needed.
    return replace(data, cells=replace(data.cells, n_votes=total))  # type: ignore[arg-type]


def balanced_propensity(votes: BalancedVotes, propensity: Propensity, folds: Folds) -> Propensity:
    """Return the propensities of the cells that count, pi omega / W."""
    every, cell = votes.every, votes.cell
    cells = every.cells
    order = np.lexsort((votes.weight, cells.second, cells.first, every.seed_order[cells.context]))
    design = context_design(every.x[np.argsort(every.seed_order)], every.x, every.n_items)
    rows = AdditiveRows(
        design[cells.context[order]],
        cells.first[order],
        cells.second[order],
        np.empty((len(order), 0)),
        np.ones(len(order)),
    )
    model = AdditiveModel(every.n_items, 1, False, True, np.empty(0))
    fold = folds.fold[cells.context[order]]
    fits = fit_by_fold(model, rows, [votes.weight[order, None]] * folds.n_folds, fold)
    omega = np.empty(len(order))
    omega[order] = expit(predict_by_fold(fits, rows, fold)[:, 0])
    share = np.maximum(omega[cell], _LEAST_SHARE)
    return Propensity(
        propensity.cells[cell] * share / votes.weight[cell], propensity.how, int((omega[cell] < _LEAST_SHARE).sum())
    )


def check_balanced_clusters(adjust: BalancedStyle, annotator: IntArray | None) -> None:
    """Raise where votes on a cell have different weights, and their annotators are clusters."""
    if adjust.weights == "smooth" and annotator is not None:
        raise OptionError(
            "BalancedStyle(weights='smooth') was given with clusters of annotators: the votes of several annotators on "
            "one prompt and pair would have different weights; use weights='band', or cluster by prompts"
        )


def _vote_weights(data: PreferenceData, adjust: BalancedStyle) -> FloatArray:
    """Return w(D) of every vote, (v,)."""
    return adjust.vote_weights(read_style_differences(data, adjust.columns, must_vary=False).values)


def _codes(data: PreferenceData) -> IntArray:
    """Return a number for each labelled cell, (m,), that determines its context, its pair and the order shown."""
    cells, n_items = data.cells, data.n_items
    code = (cells.context.astype(np.int64) * n_items + cells.first) * n_items + cells.second
    return code * 2 + cells.flipped

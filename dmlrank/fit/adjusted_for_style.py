"""Scores of votes on answers of like style, and scores at equal style (:mod:`dmlrank.estimation.equal_style`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from .._utils.computation import warn
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.style_columns import StyleDifferences, read_style_differences
from ..estimation.equal_style import EqualStyleTerms
from ..estimation.influence import Influence, mean_influence
from ..exceptions import DataError, IntervalWarning, listed
from ..functionals.linear_scores import LinkedScore
from ..inference.covariance import Covariance
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.style import (
    AdditiveModel,
    AdditiveRows,
    StyleRows,
    context_design,
    fit_by_fold,
    fit_style_stages,
    predict_by_fold,
)
from ..nuisance.training_rows import Folds
from ..options import BalancedStyle
from .compared_pairs import Setup
from .fit_covariance import make_covariance
from .state import BalancedVotes, Inputs, Repetition, StyleFit

# Log-odds that are hardly learnt, and shares of the variation of a style column in votes with larger ones: of slopes
# that may be infinite, and of slopes that are too small. Smallest share of the variation left by models and features.
# benchmarks/style_limits.py has what they find.
_EDGE, _DECIDED, _SATURATED, _LEAST_LEFT = 4.0, 0.95, 0.5, 0.05
# Smallest expected weight of a vote.
_LEAST_SHARE = 0.01


def keep_balanced_votes(data: PreferenceData, adjust: BalancedStyle) -> PreferenceData:
    """Return the data with the votes of positive weight alone; a cell's label is the weighted mean of its votes."""
    weight = adjust.vote_weights(read_style_differences(data, adjust.columns, must_vary=False).values)
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
    # Learners take the sums of weights as numbers of votes; whole numbers are not needed.
    mean_weight = weight / every.cells.n_votes
    cells = replace(data.cells, n_votes=mean_weight[cell] * every.cells.n_votes[cell])  # type: ignore[arg-type]
    return BalancedVotes(every, mean_weight, cell, differences.deviations, n_votes, replace(data, cells=cells))


def balanced_propensity(votes: BalancedVotes, propensity: Propensity, folds: Folds) -> Propensity:
    """Return the propensities of the cells that count, pi omega / W, where W is the mean weight of a cell's votes.

    omega is E[W | x, pair], a logistic regression by fold, so that weights S W / (pi omega) have mean one.
    """
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


def _codes(data: PreferenceData) -> IntArray:
    """Return a number for each labelled cell, (m,), that determines its context, its pair and the order shown."""
    cells, n_items = data.cells, data.n_items
    code = (cells.context.astype(np.int64) * n_items + cells.first) * n_items + cells.second
    return code * 2 + cells.flipped


def equal_style_terms(
    inputs: Inputs, differences: StyleDifferences, propensity: FloatArray, fold: IntArray
) -> EqualStyleTerms:
    """Fit the first stages of scores at equal style on rows of votes; return terms of the one-step estimates."""
    data, units, cells, style = inputs.data, inputs.units, inputs.data.cells, differences.values
    link = LinkedScore(inputs.setup.functional, data.n_items, data.ordered)
    y, cell, context = link.preference(data.vote_y), data.vote_cell, cells.context[data.vote_cell]
    # Rows are sorted by context, and do not depend on the order of the votes.
    vote = np.lexsort((y, *style.T, cells.second[cell], cells.first[cell], data.seed_order[context]))
    block = context
    if units.annotator is not None and units.clusters is not None and units.clusters.of_vote is not None:
        # The influence block of a vote is that of its context and annotator.
        n_groups = int(units.annotator.max()) + 2
        code = units.blocks.context * n_groups + units.annotator + 1
        order = np.argsort(code)
        block = order[np.searchsorted(code[order], context * n_groups + units.clusters.of_vote + 1)]
    cell, context = cell[vote], context[vote]
    rows = StyleRows(
        context=context,
        block=block[vote],
        first=cells.first[cell],
        second=cells.second[cell],
        share=1 / cells.n_votes[cell],
        propensity=propensity[cell],
        style=style[vote],
        y=y[vote],
        fold=fold[context],
    )
    stages = fit_style_stages(rows, link, data.x, fold=fold, seed_order=data.seed_order)
    weight = np.ones(data.n_contexts) if units.context_weight is None else units.context_weight
    return EqualStyleTerms.of(link, stages, rows, units.blocks, weight / weight.mean())


def joint_style_fit(
    inputs: Inputs, repetitions: Sequence[Repetition], fixed_prompts: bool, unanimous_covariance: FloatArray | None
) -> StyleFit:
    """Return joint estimates of raw scores, averaged scores, scores at equal style and slopes."""
    differences, stacked = inputs.style, list[Influence]()
    assert differences is not None
    for r in repetitions:
        raw, style = r.one_step_result.target.by_context(), r.style_influence
        assert style is not None, "a fit at equal style has the influence of its scores in every repetition"
        joint, n_items = side_by_side((raw, style.averaged, style.equal, style.slopes)), raw.n_scores
        if raw.variance_correction is not None:
            variance_correction = np.zeros((joint.n_scores, joint.n_scores))
            variance_correction[:n_items, :n_items] = raw.variance_correction
            joint = replace(joint, variance_correction=variance_correction)
        stacked.append(joint)
    influence, added = mean_influence(stacked), None
    if unanimous_covariance is not None:
        # A label that had another category would move raw, averaged and equal scores together.
        added = np.zeros((influence.n_scores,) * 2)
        added[: 3 * n_items, : 3 * n_items] = np.tile(unanimous_covariance, (3, 3))
    gauge = style_gauge(inputs.setup, len(differences.names), influence.n_scores)
    estimates = np.stack([one.estimate for one in stacked])
    covariance = make_covariance(influence, gauge, inputs.units, fixed_prompts, estimates, unanimous_covariance=added)
    by_repetition = tuple(r.style_terms for r in repetitions if r.style_terms is not None)
    # Slopes may be far off, or infinite.
    terms = by_repetition[0]
    at_edge = terms.share_at_edge(_EDGE) if terms.link.is_logit else np.zeros(len(differences.names))
    left = np.diag(terms.relative(terms.means().variance))
    for name, share, variation in zip(differences.names, at_edge, left, strict=True):
        if share > _DECIDED:
            raise DataError(
                f"{share:.0%} of the variation of style column {name!r} is in votes whose winner style, models and "
                f"features predict almost surely, so that its slope may be infinite; use functional='borda', whose "
                f"slopes are in probabilities, or leave the column out"
            )
        if share > _SATURATED:
            warn(
                f"{share:.0%} of the variation of style column {name!r} is in votes whose fitted log-odds are beyond "
                f"+-{_EDGE:g}: its slope is probably too small, and its interval too short; use functional='borda', "
                f"whose slopes are in probabilities",
                kind=IntervalWarning,
            )
        if variation < _LEAST_LEFT:
            warn(
                f"given model and features, {variation:.1%} of the variation of style column {name!r} is left, which "
                f"can be error of the regression on them: its slope may be far off; leave the column out if models "
                f"and features determine it",
                kind=IntervalWarning,
            )
    return StyleFit(differences, by_repetition, influence.estimate, covariance)


def side_by_side(parts: Sequence[Influence]) -> Influence:
    """Return the influence of several vectors of estimates as one influence, without a variance correction."""
    value, correction = (np.hstack([getattr(part, name) for part in parts]) for name in ("value", "correction"))
    return replace(parts[0], value=value, correction=correction, variance_correction=None)


def style_gauge(setup: Setup, n_slopes: int, n_estimates: int) -> FloatArray:
    """Return the gauge of raw, averaged and equal scores and slopes, (3 g, 3 K + r): each score vector has its own."""
    basis = setup.functional.gauge((n_estimates - n_slopes) // 3).basis
    return np.hstack([np.kron(np.eye(3), basis), np.zeros((3 * len(basis), n_slopes))])


@dataclass(frozen=True, slots=True, eq=False)
class StyleEstimates:
    """What a result keeps of an adjustment for style.

    formula, columns: The style columns as the user wrote them, and their r names.
    deviations (r,): Root mean square of each style difference over the votes.
    estimate (3 K + r,): Raw scores, scores averaged over style, scores at equal style, and slopes, with their joint
        covariance; empty, without covariance, for balanced style.
    log_loss, log_loss_without: Out-of-fold log-loss per vote of the preference with and without style; NaN for balanced
        style.
    n_votes, n_votes_left: Number of votes, and of votes that count. All votes count at equal style.
    within: Largest style difference of a vote that counts; infinite at equal style.
    weights: How votes with differences up to ``within`` are weighted: "band" or "smooth"; empty at equal style.
    """

    kind: str
    formula: str
    columns: tuple[str, ...]
    deviations: FloatArray
    n_votes: int
    n_votes_left: int
    estimate: FloatArray = field(default_factory=lambda: np.empty(0))
    covariance: Covariance | None = None
    log_loss: float = float("nan")
    log_loss_without: float = float("nan")
    within: float = float("inf")
    weights: str = ""

    @property
    def n_models(self) -> int:
        """Number of models, K."""
        return (len(self.estimate) - len(self.columns)) // 3

    def scores(self, which: str) -> FloatArray:
        """Return the scores "raw", "averaged" or "equal", (K,)."""
        return self.estimate[self._place(which)]

    def errors(self, which: str) -> FloatArray:
        """Return the standard errors of the scores "raw", "averaged" or "equal", (K,)."""
        assert self.covariance is not None
        return self.covariance.std_errors[self._place(which)]

    @property
    def slopes(self) -> FloatArray:
        """Slopes on style, (r,)."""
        return self.estimate[3 * self.n_models :]

    @property
    def slope_covariance(self) -> Covariance:
        """Covariance of the slopes, (r, r)."""
        assert self.covariance is not None
        last = slice(3 * self.n_models, None)
        matrix = self.covariance.matrix[last, last]
        return replace(self.covariance, matrix=matrix, basis=np.eye(len(self.columns)))

    def score_covariance(self, *which: str) -> FloatArray:
        """Return the joint covariance of s vectors of K scores, (K s, K s), named "raw", "averaged" or "equal"."""
        assert self.covariance is not None
        places = np.concatenate([np.arange(len(self.estimate))[self._place(one)] for one in which])
        return self.covariance.matrix[np.ix_(places, places)]

    def rescaled(self, factor: float, shift: float) -> StyleEstimates:
        """Return the estimates with scores factor * score + shift and slopes factor * slope."""
        if self.covariance is None:
            return self
        estimate = factor * self.estimate
        estimate[: 3 * self.n_models] += shift
        return replace(self, estimate=estimate, covariance=self.covariance.scaled(factor))

    def _place(self, which: str) -> slice:
        number = ("raw", "averaged", "equal").index(which)
        return slice(number * self.n_models, (number + 1) * self.n_models)

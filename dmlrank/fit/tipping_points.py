"""Numbers of a sensitivity analysis: the voting stage of a fit, bounds with their errors, tipping points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy

from ..data.formula.parse import parse_formula
from ..data.preferences import FloatArray, IntArray, ShownBattles, read_shown_battles
from ..estimation.cross_fitting import CrossFittedMu
from ..estimation.influence import Influence, InfluenceFunction, add_to_rows, mean_influence
from ..estimation.voting_bounds import (
    BoundInputs,
    CorrectionRows,
    PartBounds,
    VotingStage,
    additive_bounds,
    first_order_bounds,
)
from ..exceptions import OptionError
from ..inference.covariance import Covariance
from ..inference.simultaneous import Family
from ..nuisance.propensity import TabulatedPairPropensity, estimate_vote_rates
from .fit_covariance import make_covariance
from .stages import Draw, RepetitionSeed, propensities_of_cells
from .state import FitState, Repetition

# --- the voting stage -------------------------------------------------------------------------------------------------


def _all_shown(state: FitState, repetition: Repetition) -> VotingStage:
    """Return the voting stage of a repetition where every pair of every context counts as shown."""
    pairs = repetition.propensity.pairs
    if pairs is None:
        raise OptionError(
            "sensitivity needs to know how often battles get no vote, and these data have no rows with two models and "
            "no winner; add them, give propensities of all pairs, or use propensity='estimate'"
        )
    if isinstance(pairs, TabulatedPairPropensity):
        is_shared = len(pairs.values) == 1
    else:
        # Propensities are then learnt from the features of the fit, on the same folds.
        is_shared = isinstance(repetition.inputs.mu, CrossFittedMu) and state.options.propensity_formula is None
    cell_rate, blocks = np.minimum(repetition.propensity.cells, 1.0), state.units.blocks
    return VotingStage(pairs, cell_rate, None, blocks.context, blocks.weight, state.units.annotator, is_shared)


def _from_battles(state: FitState, repetition: Repetition, number: int, battles: ShownBattles) -> VotingStage:
    """Return the voting stage of a repetition with estimated probabilities of showing a pair and of voting."""
    data, options, seed = state.data, state.options, RepetitionSeed(state.options.seed, number)
    folds, seeds = repetition.folds, seed.child(Draw.VOTE_RATES).spawn(repetition.folds.n_folds)
    rates = estimate_vote_rates(data, battles, folds, seeds, tune=options.learning.tune)
    cells, cell = battles.cells(data.n_items, data.n_categories)
    shown = replace(data, cells=cells), options.for_other_cells, Draw.PROPENSITY
    propensity = propensities_of_cells(state.source, folds, state.setup.graph, seed, *shown)
    block_context, block_weight, annotator, block = _blocks(state, battles)
    rate, mu = rates.at(cells.context, cells.first, cells.second)[cell], repetition.inputs.mu.at(cells)[cell]
    residual = (battles.voted - rate) * battles.share / propensity.cells[cell]
    of_votes = np.zeros_like(mu)
    shown_rows = CorrectionRows(battles.context, block, battles.first, battles.second, mu, rate, of_votes, residual)
    cell_rate = rates.at(data.cells.context, data.cells.first, data.cells.second)
    return VotingStage(rates, cell_rate, shown_rows, block_context, block_weight, annotator)


def _blocks(state: FitState, battles: ShownBattles) -> tuple[IntArray, FloatArray, IntArray | None, IntArray]:
    """Return the influence blocks of the fit, followed by blocks for battles that belong to no block of the fit."""
    blocks, clusters = state.units.blocks, state.units.clusters
    if state.units.annotator is None or clusters is None:
        block = blocks.context_block[battles.context]
        return blocks.context, np.bincount(block, battles.share, len(blocks.context)).astype(float), None, block
    # Blocks of the fit keep their numbers; contexts and annotators that the fit has no block for get further numbers.
    of_row = state.data.columns.sorted_codes(clusters.names[-1])[battles.row]
    contexts = np.concatenate([blocks.context, battles.context])
    annotators = np.concatenate([state.units.annotator, of_row]) + 1
    size = int(annotators.max()) + 1
    number, pairs = pd.factorize(contexts * size + annotators)
    block, (context, annotator) = number[len(blocks.context) :], np.divmod(pairs, size)
    return context, np.bincount(block, battles.share, len(context)).astype(float), annotator - 1, block


# --- bounds -----------------------------------------------------------------------------------------------------------

# Largest number of influence values that are stored for one pass over the contexts.
_MAX_STORED = 60_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Bounds of J contrasts at G values of gamma, (G, J), with standard errors of the estimated bounds.

    critical (G,): Half-width of the intervals in standard errors, simultaneous over contrasts and over both bounds.
    """

    gamma: FloatArray
    lower: FloatArray
    upper: FloatArray
    lower_error: FloatArray
    upper_error: FloatArray
    critical: FloatArray

    @property
    def conf_lower(self) -> FloatArray:
        """Lower confidence limits of the lower bounds, (G, J)."""
        return self.lower - self.critical[:, None] * self.lower_error

    @property
    def conf_upper(self) -> FloatArray:
        """Upper confidence limits of the upper bounds, (G, J)."""
        return self.upper + self.critical[:, None] * self.upper_error

    def joined(self, further: Bounds) -> Bounds:
        """Return these bounds and further ones, sorted by gamma."""
        order = np.argsort(np.concatenate([self.gamma, further.gamma]), kind="stable")
        return Bounds(
            *(np.concatenate([getattr(self, name), getattr(further, name)])[order] for name in self.__slots__)
        )


@dataclass(frozen=True, slots=True, eq=False)
class BoundEvaluation:
    """The bounds of contrasts of a fit, ready to be evaluated at any gamma.

    added_covariance (2 J, 2 J): What the fit's covariance of the contrasts contains beyond the covariance of the
        influence values: variance correction and unanimous pairs. The bounds get the same addition.
    critical_of_family: Critical value of a larger family of contrasts, from which the data have chosen these; 0 for
        none.
    """

    state: FitState
    contrasts: FloatArray
    battles: ShownBattles
    inputs: tuple[BoundInputs, ...]
    added_covariance: FloatArray
    critical_of_family: float = 0.0

    @classmethod
    def of(cls, state: FitState, contrasts: FloatArray, critical_of_family: float = 0.0) -> BoundEvaluation:
        """Prepare the evaluation: estimate vote rates and the probabilities of showing a pair."""
        formula = parse_formula(state.source.formula)
        battles = read_shown_battles(state.data, formula.first, formula.second)
        worth = np.subtract(state.setup.weights.first, state.setup.weights.second)
        inputs = []
        for number, one in enumerate(state.repetitions):
            voting = _from_battles(state, one, number, battles) if battles.n_unvoted else _all_shown(state, one)
            inputs.append(BoundInputs(one.inputs, voting, worth))
        # The fit's covariance of the scores may be larger than that of the influence values alone.
        without: InfluenceFunction = replace(state.influence.by_context(), variance_correction=None)
        gauge = state.setup.functional.gauge(state.data.n_items).basis
        estimates = state.estimator.estimates([r.one_step_result.target for r in state.repetitions])
        alone = make_covariance(without, gauge, state.units, state.options.prompts == "fixed", estimates)
        added = contrasts @ (state.covariance.matrix - alone.matrix) @ contrasts.T
        return cls(state, contrasts, battles, tuple(inputs), np.tile(added, (2, 2)), critical_of_family)

    @property
    def is_sharp(self) -> bool:
        """Whether no votes that were not cast give a contrast outside of the bounds; else to first order in gamma."""
        return _has_pair_terms(self.state) or self.state.setup.functional.linear

    def at(self, gammas: Sequence[float], alpha: float) -> Bounds:
        """Return the bounds with their standard errors."""
        is_fixed, units = self.state.options.prompts == "fixed", self.state.units
        step, influences_of = len(gammas), self._summed
        # Sums over contexts are all that independent prompts need.
        if is_fixed or units.clusters is not None or len(self.inputs) > 1:
            n_rows = self.state.data.n_contexts + len(self.inputs[0].voting.block_context)
            step = max(1, _MAX_STORED // (n_rows * 2 * len(self.contrasts) * len(self.inputs)))
            influences_of = self._stored
        estimates, errors, critical = [], [], []
        for start in range(0, len(gammas), step):
            for estimate, covariance in influences_of(gammas[start : start + step]):
                estimates.append(estimate)
                errors.append(covariance.std_errors)
                critical.append(max(Family.of_contrasts(covariance).critical(alpha), self.critical_of_family))
        lower, upper = np.split(np.array(estimates), 2, axis=1)
        lower_error, upper_error = np.split(np.array(errors), 2, axis=1)
        return Bounds(np.asarray(gammas, dtype=float), lower, upper, lower_error, upper_error, np.array(critical))

    def _parts(self, gammas: Sequence[float], inputs: BoundInputs) -> Iterator[PartBounds]:
        """Return the influence of the bounds, part by part."""
        bounds_of = additive_bounds if _has_pair_terms(self.state) else first_order_bounds
        return bounds_of(self.state.setup.functional, self.contrasts, gammas, inputs)

    def _summed(self, gammas: Sequence[float]) -> Iterator[tuple[FloatArray, Covariance]]:
        """Yield the bounds at each gamma with their covariance, where contexts are independent and are the blocks."""
        (inputs,), (repetition,), weight = self.inputs, self.state.repetitions, self.inputs[0].fit.weight[:, None]
        n, n_estimates = self.state.data.n_contexts, 2 * len(self.contrasts)
        sums, moments = np.zeros((2, len(gammas), n_estimates)), np.zeros((len(gammas), n_estimates, n_estimates))
        # Deviations from numbers near the bounds, so that no digits are lost.
        near = np.tile(self.contrasts @ repetition.one_step_result.target.estimate, 2)
        for part in self._parts(gammas, inputs):
            deviation = part.value - near
            self._add_second_order_bias(deviation, repetition, part.contexts)
            add_to_rows(deviation, np.searchsorted(part.contexts, part.blocks), part.correction)
            deviation *= weight[part.contexts]
            sums[:, part.number] += deviation.sum(axis=0), (weight[part.contexts] * deviation).sum(axis=0)
            moments[part.number] += deviation.T @ deviation
        for (total, weighted), moment in zip(sums.transpose(1, 0, 2), moments, strict=True):
            shift = total / n
            crossed = np.outer(weighted, shift)
            centred = moment - crossed - crossed.T + np.square(weight).sum() * np.outer(shift, shift)
            covariance = Covariance(centred / n**2, np.eye(n_estimates), df=n - 1.0).plus(self.added_covariance)
            yield near + shift, covariance.without_rounding(near + shift)

    def _stored(self, gammas: Sequence[float]) -> Iterator[tuple[FloatArray, Covariance]]:
        """Yield the bounds at each gamma with their covariance, from the influence values of all contexts."""
        voting, n_estimates = self.inputs[0].voting, 2 * len(self.contrasts)
        of_gammas: list[list[Influence]] = [[] for _ in gammas]
        for inputs, repetition in zip(self.inputs, self.state.repetitions, strict=True):
            value = np.empty((len(gammas), self.state.data.n_contexts, n_estimates))
            correction = np.zeros((len(gammas), len(voting.block_context), n_estimates))
            for part in self._parts(gammas, inputs):
                value[part.number, part.contexts] = part.value
                correction[part.number, part.blocks] = part.correction
            of_fit = slice(0, len(self.state.units.blocks.context))
            given = voting.block_context, voting.block_weight, inputs.fit.weight
            for influences, of_contexts, of_blocks in zip(of_gammas, value, correction, strict=True):
                # The blocks of the fit come before those of battles that belong to none.
                self._add_second_order_bias(of_blocks[of_fit], repetition, of_fit)
                influences.append(Influence(of_contexts, of_blocks, *given))
        units, is_fixed = replace(self.state.units, annotator=voting.annotator), self.state.options.prompts == "fixed"
        for influences in of_gammas:
            influence, estimates = mean_influence(influences), np.stack([one.estimate for one in influences])
            gauge, added = np.empty((0, n_estimates)), self.added_covariance
            covariance = make_covariance(influence, gauge, units, is_fixed, estimates, unanimous_covariance=added)
            yield np.mean(estimates, axis=0), covariance

    def _add_second_order_bias(self, rows: FloatArray, repetition: Repetition, blocks: IntArray | slice) -> None:
        """Add what the fit added to the scores to the corrections of its blocks, lower and upper bounds, in place."""
        change = repetition.change
        if change is not None and self.state.options.learning.second_order:
            added = change.by_context().correction[blocks] @ self.contrasts.T
            for of_bound in np.split(rows, 2, axis=1):
                of_bound += added


def _has_pair_terms(state: FitState) -> bool:
    """Whether the scores are a sum over pairs of terms, so that the bounds are sharp."""
    functional, weights = state.setup.functional, state.setup.weights
    if functional.link is None or functional.label_directions(state.data.n_items) is None:
        return False
    order = np.argsort(np.subtract(weights.first, weights.second), kind="stable")
    first, second = np.array(weights.first)[order], np.array(weights.second)[order]
    return bool((np.diff(first) >= 0).all() and (np.diff(second) <= 0).all())


# Values of gamma at which bounds are evaluated to find tipping points, as far as these need them.
GRID = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 100.0)


def extend_to_tipping_points(
    bounds: Bounds, value: FloatArray, evaluate: Callable[[Sequence[float]], Bounds]
) -> Bounds:
    """Return the bounds with those values of the grid that tipping points need; value (J,)."""
    # Until every bound has reached its value, or gamma is 100; then between the values that enclose a tipping point.
    for gamma in GRID:
        if gamma > bounds.gamma[-1] and (distances(bounds, value)[0][-1] > 0).any():
            bounds = bounds.joined(evaluate([gamma]))
    inside = set[float]()
    for distance in distances(bounds, value):
        places = np.argmax(distance <= 0, axis=0)
        for place in places[places > 0]:
            low, high = bounds.gamma[place - 1], bounds.gamma[place]
            inside |= {gamma for gamma in GRID if low < gamma < high}
    return bounds.joined(evaluate(sorted(inside))) if inside else bounds


# Distances below this number count as zero.
_ROUNDING = 1e-12


def distances(bounds: Bounds, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how far bounds and confidence limits are from the value, (G, J) each.

    The bound is the one that comes closer to the value as gamma grows: the lower bound where the estimate is above the
    value, the upper bound elsewhere. A distance is negative where the value lies between the bounds.
    """
    is_above = bounds.lower[0] + bounds.upper[0] >= 2 * value
    of_bounds = np.where(is_above, bounds.lower - value, value - bounds.upper)
    of_limits = np.where(is_above, bounds.conf_lower - value, value - bounds.conf_upper)
    # Where all votes are ties, a difference is zero up to rounding at every gamma.
    return np.where(np.abs(of_bounds) < _ROUNDING, 0.0, of_bounds), of_limits


def tipping_gammas(gamma: FloatArray, distance: FloatArray) -> FloatArray:
    """Return the smallest gamma at which each distance, (G, J), is zero: 1 if it is none at gamma = 1, else inf.

    Between the values of gamma, (G,), the distance is interpolated by monotone cubics in log gamma.
    """
    log_gamma, tips = np.log(gamma), np.full(distance.shape[1], np.inf)
    for column, values in enumerate(distance.T):
        reached = np.flatnonzero(values <= 0)
        if not len(reached):
            continue
        place = reached[0]
        root = log_gamma[place]
        if place and values[place]:
            curve = scipy.interpolate.PchipInterpolator(log_gamma, values)
            root = scipy.optimize.brentq(curve, log_gamma[place - 1], root)
        tips[column] = np.exp(root)
    return tips

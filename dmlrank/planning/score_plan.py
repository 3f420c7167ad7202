r"""A plan of runs from a fit of scores: which models are run on which prompts, also a candidate.

Notes
-----
Let m_j be the prediction of the score of model j, r_j what it leaves, and R_jk(x) = E[r_j r_k | x]. Each prompt has one
uniform number, and a model is run where the number is below its propensity p_j. Models are then run on the same prompts
as far as their propensities allow (common random numbers), both j and k with probability min(p_j, p_k), and

    n Var(estimate)_jk = Cov(Y_j, Y_k) + E[R_jk (min(p_j, p_k) / (p_j p_k) - 1)] = B_jk + E[R_jk / max(p_j, p_k)]

with B = Cov(Y) - E[R]. With the contrasts L the criterion is the trace of L (.) L'. Models that are compared, directly
or through others, form a *group* with one propensity. The criterion is then a sum over prompts and groups of

    a_g(x) / p_g,    a_g = sum over contrasts l of E[(sum_{j in g} l_j r_j)^2 | x],

because contrasts do not connect groups: the allocation of Neyman, p_g proportional to sqrt(a_g / cost of the group),
between the propensities so far and one. Without contrasts every model is a group. A model that was run on every prompt
has r = 0, and needs no run.

A planned cell is run once. With R runs of it, let v be what a prompt leaves unexplained and s^2 the variance between
runs: a cell adds (v + s^2 / R) / p to the variance at the cost R p. At a given R p this is proportional to v R + s^2,
which is least for R = 1, until p is one. Then only the part s^2 is left, which further runs of all prompts divide.

A score of a new cell is one run, while a score of the fit may be the mean of several runs, whose residual varies less.
Let d be the variance of the residual of such a mean, and e what a single run varies more: the variance between runs
less its share in the mean, s^2 (1 - 1 / runs). With the propensity q so far, a cell has a mean with probability q and a
single run with p - q, so that the variance from the draws of a model is d / p + e (p - q) / p^2. Runs are independent,
and covariances of two models have no such part. The allocation takes (d + e) / p, which differs only for models of
earlier rounds.

R is learnt from the residuals of the fit: variances are quadratic in the prediction (for scores of 0 and 1 they are
m (1 - m)), with a factor for each model, and correlations are constant. Few residuals say little of variances, so that
curve and factors are drawn to what all residuals say in common.

References
----------
Neyman (1934), On the two different aspects of the representative method; Zrnic and Candes (2024), Active statistical
inference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import parse_formula
from ..data.preferences import FloatArray, IntArray
from ..estimation.cross_fitting import assign_folds, fold_key
from ..estimation.influence import Influence
from ..estimation.predicted_scores import predicted_scores
from ..exceptions import OptionError, listed
from ..fit.direct_fits import score_cells
from ..fit.estimates import Estimates
from ..fit.stages import fold_units
from ..fit.state import LEAST_LIKELY, FitState
from ..inference.score_limits import CombinedMeans
from .criteria import Goal, criterion_rows, of_eigenvalues
from .problem import (
    SMALLEST_SHARE,
    Computed,
    Drawn,
    Limits,
    Problem,
    Propensities,
    cell_rates,
    drawn_together,
    propensity_table,
)
from .reading import array_of_costs, positive_costs, read_context_weights, rows_of_samples

# A residual variance is at least this share of the model's mean, because rare misses are hard to predict.
_LEAST_VARIANCE = 0.05
# Number of scores, or of pairs of scores, that a model's own factor, or correlation, is weighed against.
_PRIOR_SCORES = 20.0
_LARGEST_CORRELATION = 0.95


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreProblem(Problem):
    """Runs of groups of models, for means of scores.

    mu (n, K): Standard deviations of residuals, zero for models that are complete.
    group (K,): The group of each model, -1 for complete ones.
    single_run (n, K): e, by which the residual of one run varies more than that of the mean of the runs of the fit.
    so_far (n, K): Propensities of the rounds so far.
    is_there (n, K): Whether there is a score.
    cost_of_run (n or 1, K): Cost of a run; ``cost`` has those of groups.
    are_grades: Whether runs are grades of answers that a judge has scored.
    """

    mu: FloatArray
    group: IntArray
    correlation: FloatArray
    single_run: FloatArray
    so_far: FloatArray
    is_there: NDArray[np.bool_]
    cost_of_run: FloatArray
    are_grades: bool
    of_scores: ClassVar[bool] = True

    @property
    def n_cells(self) -> int:
        return int(self.group.max()) + 1

    @property
    def what(self) -> str:
        return "grades" if self.are_grades else "runs"

    def words(self, joins_fit: bool) -> dict[str, str]:
        runs = f"these {self.what} alone" if self.is_own_round else f"all {self.what}"
        once = " A model is run once on a prompt: another prompt is worth more than another run, until all are run."
        return {
            "cells": "Groups of models:",
            "number": f"{self.n_cells}",
            "everything": f"{'grading' if self.are_grades else 'running'} every model that is not complete on",
            "fit": f"a fit of {runs} with propensity=plan",
            "uniform": "all models that are not complete, on the same random prompts",
            "labels": f"expected number of further {self.what}.{'' if self.are_grades else once}",
        }

    @property
    def is_own_round(self) -> bool:
        """Whether a later fit has these runs alone, and no others."""
        return not (self.spent > 0 or self.candidate)

    @property
    def groups(self) -> list[IntArray]:
        """The models of each group."""
        return [np.flatnonzero(self.group == g) for g in range(self.n_cells)]

    @property
    def spent(self) -> float:
        return float((self.so_far * self.cost_of_run)[:, self.group >= 0].sum())

    def scanned(self) -> tuple[FloatArray, ScoreProblem]:
        return self.mu.mean(axis=0), self

    def matrices(self, columns: FloatArray) -> FloatArray:
        return np.hstack([columns, np.ones((len(columns), 1))])[:, self.group]

    def expected_by_model(self, propensities: Propensities) -> FloatArray:
        return np.asarray((self.matrices(propensity_table(propensities)) - self.so_far).sum(axis=0))

    def least(self, limits: Limits) -> FloatArray:
        lower, budget = self.smallest_propensity(limits), limits.budget
        least = self._at_least(lower)
        needed = self.expected_cost(least)
        if needed > budget * (1 + 1e-9):
            raise OptionError(
                f"budget={budget:g} is too small: propensities of at least {lower:.3g} and those so far, on the same "
                f"prompts, cost {needed:.6g}; raise the budget, or lower min_propensity="
            )
        return least

    def _at_least(self, lower: float) -> FloatArray:
        """Return the smallest propensities, (n, G): those so far of a group's models, and no less than ``lower``."""
        so_far = np.stack([self.so_far[:, models].max(axis=1) for models in self.groups], axis=1)
        return np.minimum(np.maximum(so_far, lower), 1.0)

    def smallest_budget(self, limits: Limits) -> float:
        lower, budget = limits.min_propensity, 0.0
        # Where the user gave no smallest propensity, that of a plan depends on its budget.
        for _ in range(20):
            least = SMALLEST_SHARE * self.uniform(budget) if lower is None else lower
            budget = self.expected_cost(self._at_least(least))
        return budget * (1 + 1e-8)

    def cell_rates(self, metric: FloatArray, propensity: FloatArray | None = None) -> Computed:
        weighed, rates = metric * self.correlation, np.empty(self.shape)
        for g, models in enumerate(self.groups):
            deviation = self.mu[:, models]
            rates[:, g] = ((deviation @ weighed[np.ix_(models, models)]) * deviation).sum(axis=1)
            rates[:, g] += self.single_run[:, models] @ np.diag(metric)[models]
        return cell_rates(np.sqrt(np.maximum(rates, 0) * self.scale(slice(0, self.n_rows)) / self.cost))

    def labelling_covariance(self, propensities: Propensities) -> FloatArray:
        table, groups, total = propensity_table(propensities), self.groups, np.zeros(self.correlation.shape)
        weight = self.scale(slice(0, self.n_rows))[:, 0] / self.n_contexts
        for g, models in enumerate(groups):
            for h, others in enumerate(groups[: g + 1]):
                scaled = self.mu[:, models] * (weight / np.maximum(table[:, g], table[:, h]))[:, None]
                total[np.ix_(models, others)] = scaled.T @ self.mu[:, others]
                total[np.ix_(others, models)] = total[np.ix_(models, others)].T
        p = np.maximum(self.matrices(table), self.so_far)
        runs = self.single_run * (p - self.so_far) / np.maximum(p, 1e-150) ** 2
        return total * self.correlation + np.diag((weight[:, None] * runs).sum(axis=0))

    def limits(self, of_fit: CombinedMeans | None, propensities: Propensities) -> CombinedMeans | None:
        """Return what limits of means need, with the effective numbers of runs that propensities lead to."""
        if of_fit is None or of_fit.matrix.shape != self.correlation.shape:
            return None
        after, (part,) = self.matrices(propensity_table(propensities)), of_fit.parts
        so_far, of_plan = ((1 / np.where(p > 0, p, 1.0)).mean(axis=0) for p in (self.so_far, after))
        return replace(of_fit, parts=(replace(part, reach=part.reach * of_plan / so_far),))

    def draw(self, propensities: Propensities, rng: np.random.Generator) -> Drawn:
        """Draw the further runs, in the order of the prompts, with the propensities after this round.

        The uniform number of a prompt lies above the propensities of models without a score, and below those of models
        with one. Groups with smaller propensities are drawn from the prompts of groups with larger ones, which is the
        same as one uniform number; each draw has a fixed size, so that runs cost what is expected.
        """
        is_open, groups = self.group >= 0, propensity_table(propensities)
        low = np.where(self.is_there | ~is_open, 0.0, self.so_far).max(axis=1)
        high = np.where(self.is_there & is_open, self.so_far, 1.0).min(axis=1)
        low, high = np.minimum(low, high)[:, None], np.maximum(low, high)[:, None]
        share = np.clip((groups - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        cost = np.where(self.is_there, 0.0, self.cost_of_run) @ (self.group[:, None] == np.arange(self.n_cells))
        rank = np.argsort(-share, axis=1, kind="stable")
        share, cost = np.take_along_axis(share, rank, 1), np.take_along_axis(share * cost, rank, 1)
        # The expected cost of a prompt's runs of this group and all later ones, if this group is drawn.
        ahead = np.cumsum(cost[:, ::-1], axis=1)[:, ::-1] / np.maximum(share, 1e-300)
        is_drawn, is_inside = np.zeros(share.shape), np.ones(len(share), dtype=bool)
        for g in range(share.shape[1]):
            wider = share[:, g - 1] if g else np.ones(len(share))
            given = np.divide(share[:, g], wider, out=np.zeros(len(share)), where=is_inside & (wider > 0))
            is_inside = drawn_together(given, ahead[:, g], rng)
            is_drawn[is_inside, rank[is_inside, g]] = 1.0
        prompt, model = np.nonzero((self.matrices(is_drawn) > 0) & ~self.is_there)
        # Where nothing was run before, prompts that nothing is run on belong to the sample.
        empty = np.setdiff1d(np.arange(0 if self.is_there.any() else len(groups)), prompt)
        after = np.append(self.matrices(groups)[prompt, model], np.full(len(empty), np.nan))
        return np.append(prompt, empty), [np.append(model, np.full(len(empty), -1))], after


def score_problem(
    estimates: Estimates, steps: FitState, goal: Goal, limits: Limits, candidate: str | None, from_scratch: bool
) -> tuple[ScoreProblem, Goal]:
    """Return the problem of further runs, of the models of a fit and of a ``candidate`` that has not been run.

    With ``from_scratch`` the runs are a round of their own, whose fit has no other scores; those of this fit say how
    much scores vary, and how alike models are.
    """
    scores, n = steps.data.score_table, steps.data.n_contexts
    if goal.criterion != "A" or limits.one_pair or limits.explore:
        raise OptionError(
            "a plan for scores minimises a sum of variances: leave criterion=, one_pair= and explore= out"
        )
    before, influence, names = _propensities_so_far(estimates, steps), steps.influence, list(estimates.names)
    assert isinstance(influence, Influence)
    is_complete, sigma = np.asarray((before >= 1).all(axis=0)), estimates.covariance.matrix * n
    predicted = _predictions(steps, from_scratch=from_scratch)
    # The columns of the arrays below are models; the candidate has the column of the model that stands for it.
    like = np.arange(len(names))
    if candidate is not None:
        proxy, goal = _stand_in(candidate, goal, estimates, is_complete)
        like, names = np.append(like, proxy), [*names, candidate]
    if from_scratch and (candidate is not None or not is_complete.all()):
        raise OptionError(
            "from_scratch=True needs all scores (missing='common'); leave candidate= out, or from_scratch="
        )
    is_new = np.full(len(names), from_scratch) | (np.arange(len(names)) >= len(estimates.names))
    mean, predicted, before = scores.mean[:, like], predicted[:, like], np.where(is_new, 0.0, before[:, like])
    is_complete, is_there = is_complete[like] & ~is_new, np.isfinite(mean) & ~is_new
    residual, goal = mean - predicted, replace(goal, scores=estimates.estimate[like])
    if is_complete.all():
        raise OptionError(
            "every model was run on every prompt of the fit; take further prompts or further runs of all cells, name a "
            "model without runs as candidate=, or plan a new round with from_scratch=True"
        )
    group = _groups(steps, goal, names, is_complete)
    # Without a score, or in a round of its own, a residual stands for one that is there.
    drawn, squares = np.where(is_there, before, 1.0), np.square(residual)
    # The square of the residual of one run, less that of the mean of all runs, in expectation.
    further = np.nan_to_num(scores.variance * (1 - 1 / np.maximum(scores.n_runs, 1)))[:, like]
    variance = residual_variances(squares, predicted, drawn, is_complete)
    of_single_runs = residual_variances(squares + further, predicted, drawn, is_complete) if further.any() else variance
    correlation, fitted = residual_correlations(residual, is_complete), np.where(is_complete, mean, predicted)
    shapes = {(n,): "prompt", (len(names),): "model", (n, len(names)): "prompt and model"}
    costs = array_of_costs(limits.costs, shapes)
    by_row = positive_costs(costs[:, None] if costs.shape == (n,) else np.atleast_2d(costs))
    cost = np.array(np.broadcast_to(by_row, (len(by_row), len(names))))
    context_weight = read_context_weights(steps.units.context_weight, n)
    problem = ScoreProblem(
        functional=steps.setup.functional,
        mu=np.sqrt(variance),
        row=np.arange(n),
        cost=cost @ (group[:, None] == np.arange(group.max() + 1)),
        context_weight=context_weight,
        models=tuple(names),
        candidate=candidate or "",
        contexts=_rows_of_samples(steps),
        columns=(parse_formula(steps.source.formula).first,),
        between=_between(np.sqrt(variance), before, correlation, sigma, fitted, context_weight),
        group=group,
        correlation=correlation,
        single_run=np.maximum(of_single_runs - variance, 0.0),
        so_far=before,
        is_there=is_there,
        cost_of_run=cost,
        are_grades=estimates.grades is not None,
    )
    return problem, goal


def _stand_in(candidate: str, goal: Goal, estimates: Estimates, is_complete: NDArray[np.bool_]) -> tuple[int, Goal]:
    """Return which model stands for a candidate, the best of the complete ones or of all, and the goal with it."""
    names, merit = estimates.names, estimates.merit
    if candidate in names:
        raise OptionError(f"candidate={candidate!r} has scores already; leave candidate= out")
    proxy = int(np.argmax(np.where(is_complete, merit, -np.inf) if is_complete.any() else merit))
    return proxy, replace(
        goal,
        contrasts=[(candidate, names[proxy])] if goal.of_all_scores else goal.contrasts,
        above=None if goal.above is None else np.pad(goal.above, (0, 1)),
        remarks=(f"{candidate} has not been run: its score is assumed to be that of {names[proxy]}.",),
    )


def _predictions(steps: FitState, *, from_scratch: bool) -> FloatArray:
    """Return what predicts every score out of fold, (n, K); other models' scores do not where all are drawn anew."""
    kept, data = steps.predictor, steps.data
    if kept is not None and not from_scratch:
        return kept.predicted
    n_folds = min(steps.options.learning.n_folds, data.n_contexts)
    units = fold_units(data, steps.units.clusters, n_folds=n_folds)
    fold = assign_folds(units, n_folds, fold_key(steps.options.seed, 0)).fold
    cells = score_cells(data, steps.units, None, fold) if kept is None else kept.cells
    every = np.ones(cells.scores.shape)
    return predicted_scores(cells, every, np.full((data.n_items,) * 2, not from_scratch))


def _propensities_so_far(estimates: Estimates, steps: FitState) -> FloatArray:
    """Return the propensities with which the scores of a fit were drawn, (n, K)."""
    is_there, known = np.isfinite(steps.data.score_table.mean), steps.known_propensity
    if known is None and not is_there.all():
        p = np.nan if estimates.grades is None else estimates.grades.unlike_p
        looks = f", as their judge scores look (P = {p:.2g})" if p >= LEAST_LIKELY else ""
        raise OptionError(
            "a plan of further scores needs the probabilities with which those so far were drawn. If they were drawn "
            f"at random{looks}, fit with propensity='marginal' (res.update(propensity='marginal').design(...)); if a "
            "plan or a column has them, with propensity= that; else leave out the models that have gaps"
        )
    before = is_there.astype(float) if known is None else known
    if not np.isfinite(before).all():
        raise OptionError(
            "propensities of scores that were not drawn are not known from a column; fit with the plan or a frame"
        )
    return before


def _groups(steps: FitState, goal: Goal, names: list[str], is_complete: NDArray[np.bool_]) -> IntArray:
    """Return the group of each model, (K,): contrasts connect the models of a group; -1 for complete models."""
    targets = goal.contrasts_of(names, goal.scores)
    rows = criterion_rows(goal.criterion, targets, steps.setup.functional.gauge(len(names)).basis)
    metric, is_open = rows.T @ rows, np.flatnonzero(~is_complete)
    if not np.diag(metric)[is_open].any():
        raise OptionError(f"{listed(targets[1], 5)}: run on all prompts, so that no run makes these more precise")
    group = np.full(len(names), -1)
    group[is_open] = connected_components(metric[np.ix_(is_open, is_open)] != 0)[1]
    return group


def _rows_of_samples(steps: FitState) -> pd.DataFrame:
    """Return the columns of samples that a row of the table needs: identifiers, features, clusters, weights and run."""
    data, source = steps.data, steps.source.data
    carried = data.context_table([name for name in data.columns if name not in steps.options.context])
    if isinstance(source, DerivedPairs) and source.rows is not None and source.run is not None:
        # A planned cell has no run yet, so that its run may have the name of any.
        carried[source.run] = source.rows[source.run].dropna().iloc[[0] * data.n_contexts].to_numpy()
    return rows_of_samples(data.context_ids, steps.options.context, carried)


def residual_variances(
    squares: FloatArray, fitted: FloatArray, before: FloatArray, is_complete: NDArray[np.bool_]
) -> FloatArray:
    """Return variances of residuals given the predictions, from their squares, (n, K): zero for complete models.

    Shapes: squares, NaN where there is no score, fitted, before, 1 where there is no score, (n, K), is_complete (K,).
    """
    has_residual, is_open = np.isfinite(squares), ~is_complete
    inverse = np.where(has_residual, 1 / before, 0.0)
    squares = np.where(has_residual, squares, 0.0)
    cells = np.nonzero(has_residual)
    mean = max(float(np.average(squares[cells], weights=inverse[cells])), 1e-12)
    # In units of a residual, so that predictions that hardly differ hardly tell residuals apart, given the penalty.
    z = (fitted - fitted[cells].mean()) / np.sqrt(mean)
    centre = [float(np.average(z[cells] ** power, weights=inverse[cells])) for power in (1, 2)]
    curve = np.stack([z - centre[0], z**2 - centre[1]])
    of_cells, w = curve[:, cells[0], cells[1]], inverse[cells] / inverse[cells].mean()
    gram = (of_cells * w) @ of_cells.T + _PRIOR_SCORES * np.eye(2)
    coefficients = np.linalg.solve(gram, (of_cells * w) @ (squares[cells] - mean))
    variance = np.maximum(mean + np.tensordot(coefficients, curve, 1), _LEAST_VARIANCE * mean)
    # A factor for each model: its squared residuals over those that the common curve expects.
    effective = np.square(inverse.sum(axis=0)) / np.maximum(np.square(inverse).sum(axis=0), 1e-12)
    expected = (inverse * variance).sum(axis=0) / np.maximum(inverse.sum(axis=0), 1e-12)
    observed = (inverse * squares).sum(axis=0) / np.maximum(inverse.sum(axis=0), 1e-12)
    factor = (effective * observed + _PRIOR_SCORES * expected) / (
        (effective + _PRIOR_SCORES) * np.maximum(expected, 1e-12)
    )
    return np.asarray(np.where(is_open, variance * np.where(is_open, factor, 1.0), 0.0))


def residual_correlations(residual: FloatArray, is_complete: NDArray[np.bool_]) -> FloatArray:
    """Return correlations of residuals of models that were run on the same prompts, (K, K), drawn to their mean.

    Negative correlations count as zero, because models are run on the same prompts in any case.

    Shapes: residual (n, K), NaN where there is no score, is_complete (K,).
    """
    both = np.isfinite(residual) & ~is_complete
    values, shared = np.where(both, residual, 0.0), both.astype(float)
    squares = np.square(values).T @ shared
    size, count = np.sqrt(squares * squares.T), shared.T @ shared
    correlation = np.divide(values.T @ values, size, out=np.zeros(size.shape), where=size > 0)
    off = ~np.eye(len(size), dtype=bool)
    total = count[off].sum()
    mean = float((count * correlation)[off].sum() / total) if total else 0.0
    correlation = np.clip(
        (count * correlation + _PRIOR_SCORES * mean) / (count + _PRIOR_SCORES), 0, _LARGEST_CORRELATION
    )
    np.fill_diagonal(correlation, 1.0)
    correlation = of_eigenvalues(correlation, partial(np.maximum, 1e-6))
    return np.asarray(correlation / np.sqrt(np.outer(np.diag(correlation), np.diag(correlation))))


def _between(
    deviation: FloatArray,
    before: FloatArray,
    correlation: FloatArray,
    sigma: FloatArray,
    fitted: FloatArray,
    context_weight: FloatArray,
) -> FloatArray:
    """Return B, (K, K): the fit's covariance less that of its draws; a candidate has the covariance of predictions."""
    so_far, n_known = np.where(before > 0, before, 1.0), len(sigma)
    of_prompt = np.broadcast_to(context_weight, len(fitted))[:, None]
    centred = of_prompt * (fitted - (of_prompt * fitted).mean(axis=0))
    total, deviation = centred.T @ centred / len(fitted), of_prompt * deviation
    drawn = np.zeros_like(total)
    for j in range(n_known):
        weight = deviation[:, [j]] / np.maximum(so_far[:, [j]], so_far[:, :n_known])
        drawn[j, :n_known] = (weight * deviation[:, :n_known]).mean(axis=0)
    total[:n_known, :n_known] = sigma - (drawn * correlation)[:n_known, :n_known]
    return of_eigenvalues((total + total.T) / 2, partial(np.maximum, 0))

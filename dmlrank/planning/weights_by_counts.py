r"""Plans where pairs are weighted by the counts of all labels, those of the plan, too.

Notes
-----
Scores with pairs weighted by w are combinations of the log-odds of pairs, Sigma = sum of v / w cc' for w labels of
variance v, with c = w L^+ e for the Laplacian L and the difference e of the pair's two scores. With weights that stay
as they are, all pairs of two models would need labels for the difference of the two, however many labels there are of
their own pair. Here a label makes the log-odds of its pair more precise, which lowers the trace of G Sigma, for the
metric G, by v c'Gc / w^2, and raises the weight of the pair, which lowers it by 2 (e'Sigma Gc - v c'Gc / w) / w. The
latter is zero if all v are the same, since weights by counts are then the best ones (Gauss-Markov). Elsewhere a label
is *worth* more or less than its information. The search begins at the uniform plan; a step takes what labels are worth
as given, is made shorter until it lowers the objective, and leads to other weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..data.preferences import FloatArray
from ..functionals import BradleyTerry
from .allocation import allocate
from .criteria import Goal, Limits
from .precision import S, solve
from .problem import VoteProblem

# A search for weights by counts ends when a step lowers the objective by less than this share, or after so many steps.
# A step that does not lower it is made half as long.
_SMALLEST_GAIN, _MOST_STEPS, _SMALLEST_STEP = 1e-7, 300, 1e-3
# Smallest factor of the information of a label, which may be worth nothing or less where it also changes weights.
_LEAST_WORTH = 1e-4


def labels_before(problem: VoteProblem, counts: FloatArray) -> FloatArray:
    """Return the labels so far of each pair, (1, m), by context of the plan, from those of both orders, (K, K)."""
    return problem.take(counts[None]) / ((2 if problem.ordered else 1) * problem.n_contexts)


def weighted_by_counts(kind: type[S], whole: VoteProblem, goal: Goal, limits: Limits) -> S:
    """Solve the problem with pairs weighted by the labels of ``goal.counts``, (K, K), and those of its plan."""
    counts = goal.counts
    assert counts is not None
    joined = replace(whole, before=labels_before(whole, counts))
    uniform = np.broadcast_to(whole.uniform(limits.budget), whole.shape)
    labels = counts + whole.both_orders(whole.expected_labels(uniform))
    # Weights change the covariance of the scores between contexts, so that another pass is needed.
    joined = replace(joined, even=_weighted(joined, labels).scanned()[1])
    # The search leaves out that weights change this covariance. Where this makes a plan worse than the uniform one, the
    # plan has as many labels of each pair as the uniform one.
    for most_steps in (_MOST_STEPS, 0):
        problem = _weights_of_optimum(joined, goal, limits, most_steps).scanned()[1]
        solution = solve(kind, problem, goal, limits)
        if goal.objective(solution.sigma) <= goal.objective(solution.uniform_sigma):
            break
    return solution


def _weights_of_optimum(whole: VoteProblem, goal: Goal, limits: Limits, most_steps: int) -> VoteProblem:
    """Return the problem with the weights of an optimal plan, and what its labels are worth, (m,)."""
    problem, counts = whole.sample() or whole, goal.counts
    assert counts is not None
    share = problem.total_cost / whole.total_cost
    of_part = replace(limits, budget=share * limits.budget)
    least, budget = problem.least(of_part), of_part.budget

    def at(length: FloatArray) -> tuple[float, VoteProblem, FloatArray]:
        """Return the objective, the problem, and the next squared lengths, (m,), of a plan with these."""
        propensities, *_ = allocate(problem, problem.rates_of_lengths(length), least, budget)
        labels = problem.expected_labels(propensities) / share + counts / (2 if problem.ordered else 1)
        weights = problem.both_orders(labels)
        of_plan = _weighted(problem, weights)
        along, variance = of_plan.directions, problem.labelling_variances(propensities)
        labelling = (along.T * variance) @ along
        metric = goal.metric(labelling, whole.between)
        squared = of_plan.squared_lengths(metric)
        change, place, added = labelling @ metric @ along.T, np.arange(problem.n_cells), variance * squared
        by_weight = change[problem.first, place] - change[problem.second, place]
        # Only ratios of weights matter: if all of them were larger by the same factor, nothing would change.
        by_weight *= added.sum() / by_weight.sum()
        by_weight -= added
        of_pair = problem.take(problem.both_orders(problem.matrices(by_weight[None])[0])[None])[0]
        part = problem.take(np.divide(labels, weights, out=np.zeros_like(labels), where=weights > 0)[None])[0]
        following = np.maximum(squared + 2 * part * of_pair / variance, _LEAST_WORTH * squared)
        worth = np.divide(length, squared, out=np.ones_like(length), where=squared > 0)
        return goal.objective(goal.sigma(labelling, whole.between)), replace(of_plan, worth=worth), following

    mean = problem.count @ np.asarray(problem.deviation, dtype=np.float64) / problem.n_contexts
    even = (problem.before + whole.uniform(limits.budget)) / np.maximum(mean, np.finfo(float).tiny)
    length = np.square(np.broadcast_to(even, problem.shape)[0])
    objective, best, following = at(length)
    for _ in range(most_steps):
        step = 1.0
        while step > _SMALLEST_STEP:
            candidate = length ** (1 - step) * following**step
            found = at(candidate)
            if found[0] < objective:
                break
            step /= 2
        else:
            break
        gain, length = objective - found[0], candidate
        objective, best, following = found
        if gain < _SMALLEST_GAIN * max(1.0, abs(objective)):
            break
    return replace(whole, functional=best.functional, worth=best.worth)


def _weighted(problem: VoteProblem, weights: FloatArray) -> VoteProblem:
    """Return a problem of Bradley-Terry scores with other weights of pairs, (K, K)."""
    of_fit = problem.functional
    assert isinstance(of_fit, BradleyTerry)
    functional = BradleyTerry(of_fit.weights, of_fit.graph, weights, of_fit.apart)
    directions = functional.label_directions(problem.n_items)[problem.first, problem.second]
    return replace(problem, functional=functional, directions=directions)

"""The search for the optimal propensities of a problem, for a goal, within limits.

Where the objective is linear in the labelling covariance, one allocation is the optimum. Otherwise steps lead to it:
each minimises a bound on the objective at the current point (the *metric* there is given), and so lowers the objective.
With the estimator ``bt_restricted`` the information of a label depends on the other labels of its context; such a
problem is called *interdependent*.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from .._utils.tasks_and_threads import report
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from ..functionals.trial import terms_of, words_of_fixed
from .allocation import Allocation, allocate, kkt_residual, level_of
from .cells import Computed, propensity_table
from .criteria import ROUNDING, Goal, Limits, of_eigenvalues, symmetric
from .problem import Problem, VoteProblem

# The search for an optimum ends if a step changes the logarithm of the labelling covariance by no more than this in
# every direction.
_TOLERANCE = 1e-6
# A search whose steps evaluate the scores of many prompts ends if the optimality conditions are violated by less than
# this. Every propensity is then within half of this share of its optimum for the metric, so that the part of the
# criterion that a plan changes is at most a quarter of the square, 2e-4, above its smallest value. In a plan for 52
# models (rank centrality, 16,000 prompts) the first step had a violation of 0.016 and a criterion 4e-7 too large.
NEARLY_STATIONARY = 0.03
# Largest number of steps of a search where the objective is not linear in the labelling covariance.
MAX_STEPS = 300
# Largest number of steps of a search in an interdependent problem; three steps are one cycle of the search.
MAX_INTERDEPENDENT_STEPS = 6000
# Number of past steps from which the next one is extrapolated.
_HISTORY = 5
# The search in an interdependent problem ends if the optimality conditions are violated by less than this.
_STATIONARY = 1e-5
# Largest factor by which an extrapolation in an interdependent problem lengthens a step.
_LONGEST = 300.0


# --- an objective that is concave in the labelling covariance ---------------------------------------------------------


def by_steps(
    problem: Problem, goal: Goal, limits: Limits, start: tuple[FloatArray, float] | None, certify: bool
) -> tuple[Allocation, FloatArray, float]:
    """Find the optimum of an objective that is concave in the labelling covariance, by majorise-minimise steps.

    The search begins at ``start``, a labelling covariance, (K, K), and the level of an allocation near the optimum.
    Returned are the allocation, its labelling covariance and its relative violation of the optimality conditions, NaN
    without ``certify`` where the search does not need it.
    """
    # Of means of scores the objective is always linear.
    assert isinstance(problem, VoteProblem)
    between, rows, least, budget = problem.between, goal.rows, problem.least(limits), limits.budget
    labelling, level = start or _first_step(problem, goal, limits)
    if goal.criterion == "D":
        variances, axes = np.linalg.eigh(rows @ goal.sigma(labelling, between) @ rows.T)
        if not variances[0] > 1e-12 * variances[-1]:
            constant = axes[:, 0] @ rows
            constant /= constant[np.argmax(np.abs(constant))]
            known = words_of_fixed(problem.functional, constant, problem.models)
            raise OptionError(
                f"the determinant of criterion='D' is zero, because {terms_of(constant, problem.names)} has no "
                f"variance: {known or 'take contrasts= without it'}, or use criterion='A'"
            )
    values, vectors = np.linalg.eigh(labelling)
    # The directions in which there is variance.
    basis = vectors[:, values > ROUNDING * values[-1]]
    # A step starts at the labelling covariance ``state`` and leads to ``reached``, in coordinates of the basis.
    state = reached = basis.T @ labelling @ basis
    best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
    is_slow, accepted = problem.deviation is None and problem.cell_type is not np.float64, None
    for step in range(1, MAX_STEPS + 1):
        metric = goal.metric(basis @ state @ basis.T, between)
        rates = problem.cell_rates(metric)
        if accepted is not None and is_slow and state is reached:
            residual = kkt_residual(problem, rates, least, accepted[0])
            if residual <= NEARLY_STATIONARY:
                return *accepted, residual
        allocation = allocate(problem, rates, least, budget, level)
        level = level_of(allocation[1])
        labelling = problem.labelling_covariance(allocation[0])
        objective = goal.objective(goal.sigma(labelling, between))
        if objective > best + 1e-12 * max(1.0, abs(best)) and state is not reached:
            state, past = reached, []
            continue
        best, reached = min(best, objective), basis.T @ labelling @ basis
        accepted = allocation, labelling
        if is_slow and not past:
            # The bound takes no pass over the probabilities.
            residual = _largest_change(basis.T @ metric @ basis, basis.T @ goal.metric(labelling, between) @ basis)
            if residual <= NEARLY_STATIONARY:
                return *accepted, residual
        move = float(np.abs(np.log(scipy.linalg.eigh(reached, state, eigvals_only=True))).max())
        is_last = move <= _TOLERANCE
        remaining = 0 if is_last else max(1, round(np.log10(move / _TOLERANCE)))
        # Steps of small problems take so little time that a log file gets no line for them.
        report(step, step + remaining, "plan, steps", minor=problem.cell_type is np.float64)
        if is_last:
            break
        past = [*past[1 - _HISTORY :], (of_eigenvalues(state, np.log), of_eigenvalues(reached, np.log))]
        state = _extrapolate(past) if len(past) > 1 else reached
    # The last step was accepted.
    assert accepted is not None
    if not certify:
        return *accepted, np.nan
    rates = problem.cell_rates(goal.metric(accepted[1], between))
    return *accepted, kkt_residual(problem, rates, least, accepted[0])


def _largest_change(before: FloatArray, after: FloatArray) -> float:
    """Return a bound on the relative change of the information of a label from one metric to another, (r, r) both.

    An allocation that is optimal for the first metric violates the optimality conditions for the second by no more.
    """
    try:
        ratio = scipy.linalg.eigh(after, before, eigvals_only=True)
    except np.linalg.LinAlgError:
        return np.inf  # a label may have no information in the first metric
    return float(max(1 - ratio[0], 1 - 1 / ratio[-1]))


def _first_step(problem: Problem, goal: Goal, limits: Limits) -> tuple[FloatArray, float]:
    """Return where a search by steps begins: at the optimum of a sample of the rows, or at the uniform plan."""
    sample, of_sample = problem.in_sample(limits)
    if sample is problem:
        share = min(1.0, limits.budget / problem.total_cost)
        return problem.labelling_covariance(np.broadcast_to(share, problem.shape)), np.inf
    (_, multiplier, _), labelling, _ = by_steps(sample, goal, of_sample, None, False)
    return labelling, level_of(multiplier)


def _extrapolate(past: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the Anderson acceleration of past steps, (r, r) each, as a positive definite matrix."""
    moves = np.stack([(after - before).ravel() for before, after in past])
    change = np.diff(moves, axis=0)
    share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
    ends = np.stack([after for _, after in past])
    return of_eigenvalues(symmetric(ends[-1] - np.tensordot(share, np.diff(ends, axis=0), axes=1)), np.exp)


# --- interdependent labels --------------------------------------------------------------------------------------------


def with_interdependent_labels(problem: Problem, goal: Goal, limits: Limits) -> tuple[Allocation, FloatArray, float]:
    """Find the optimum of an interdependent problem, by majorise-minimise in cycles of three steps.

    Two steps are followed by an extrapolation and a third step, which starts at the extrapolated propensities. If the
    third step leads to a larger objective than the second step, the result of the second step is kept. Where the
    objective is not linear in the labelling covariance, each step minimises the tangent at the current point.
    """
    least, budget = problem.least(limits), limits.budget

    def rates_at(propensity: FloatArray, labelling: FloatArray) -> Computed:
        return problem.cell_rates(goal.metric(labelling, problem.between), propensity)

    def step(propensity: FloatArray, labelling: FloatArray) -> tuple[Allocation, FloatArray, FloatArray]:
        """Return the next allocation, its propensities and their labelling covariance."""
        allocation = allocate(problem, rates_at(propensity, labelling), least, budget)
        table = propensity_table(allocation[0])
        return allocation, table, problem.labelling_covariance(table)

    propensity = np.full(problem.shape, problem.uniform(budget))
    allocation, propensity, labelling = step(propensity, problem.labelling_covariance(propensity))
    cycle, residual = 0, np.inf
    while cycle < max(1, MAX_INTERDEPENDENT_STEPS // 3) and residual >= _STATIONARY:
        cycle += 1
        first = step(propensity, labelling)
        second = step(*first[1:])
        extrapolated = _extrapolate_two_steps(propensity, first[1], second[1], float(least.min()))
        # The extrapolated propensities may violate the constraints; the step from there meets them again.
        third = step(extrapolated, problem.labelling_covariance(extrapolated))
        after_third, after_second = (goal.objective(goal.sigma(of[2], problem.between)) for of in (third, second))
        allocation, propensity, labelling = third if after_third < after_second else second
        residual = kkt_residual(problem, rates_at(propensity, labelling), least, allocation)
    return allocation, labelling, residual


def _extrapolate_two_steps(start: FloatArray, first: FloatArray, second: FloatArray, lower: float) -> FloatArray:
    """Extrapolate two steps of a slowly converging iteration, (g, m) each, on the log scale (SQUAREM)."""
    origin, move = np.log(start), np.log(first) - np.log(start)
    turn = np.log(second) - np.log(first) - move
    size = np.sqrt(np.square(turn).sum(axis=1, keepdims=True))
    length = np.divide(
        np.sqrt(np.square(move).sum(axis=1, keepdims=True)), size, out=np.ones_like(size), where=size > 0
    )
    length = np.clip(length, 1.0, _LONGEST)
    return np.asarray(np.clip(np.exp(origin + 2 * length * move + length**2 * turn), lower / 2, 1.0))

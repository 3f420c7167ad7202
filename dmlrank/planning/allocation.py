"""The A-optimal allocation of a budget, and the search for the optimum where an objective needs several allocations.

An allocation has the propensities that minimise sum information / propensity, and cost the budget. Where the objective
is linear in the labelling covariance, one allocation is the optimum. Otherwise steps lead to it: each minimises a bound
on the objective at the current point (the *metric* there is given), and so lowers the objective.

Notes
-----
The Lagrangian of the problem has a multiplier lambda for the budget. Where a context gets at most one label, there is a
further multiplier nu for each context. At the optimum information / pi^2 = lambda cost + nu in every cell, unless pi is
one or the smallest propensity allowed. Where nu is zero, pi is the *rate* sqrt(information / cost) times the
*level* lambda^(-1/2). The cost increases with the level, so that one search for the level finds the optimum.

In this module n is the number of rows and m the number of cells of a row, such as pairs. Costs, the number of contexts
of each row, whether a context gets at most one label, and earlier labels are those of the problem; ``least`` holds the
smallest propensities, (n or 1, m or 1), which together cost no more than the budget.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np
import scipy
import scipy.linalg

from .._utils.tasks_and_threads import report
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from ..functionals.custom import terms_of, words_of_fixed
from .criteria import ROUNDING, Goal, of_eigenvalues, symmetric
from .problem import Computed, Limits, Problem, Propensities, Rows, VoteProblem, at_rows, map_blocks, propensity_table

# Relative precision of a cost that is to equal the budget; a sum over millions of cells is no more precise.
_BUDGET_PRECISION = 1e-11
# Precision of the sum of a context's propensities.
_SUM_PRECISION = 1e-13

# Optimal propensities, (n, m), with the Lagrange multipliers: lambda, the amount by which one more unit of budget would
# lower the sum, zero where the budget is slack and infinite where it pays for no more than the smallest propensities;
# and nu of each row, (n,), where a context gets at most one label.
Allocation: TypeAlias = tuple[Propensities, float, FloatArray | None]


def allocate(problem: Problem, rates: Computed, least: FloatArray, budget: float, start: float = np.inf) -> Allocation:
    """Find the propensities that minimise the sum of information / propensity; ``start`` is a level near the optimum's.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    budget += problem.spent
    if problem.one_pair and problem.cost.shape[1] > 1:
        return _allocate_one_pair(problem, rates, least, budget)
    cap = _largest_levels(problem, rates, least)
    level = _budget_level(problem, rates, least, budget, cap, start)
    multiplier = 0.0 if np.isinf(level) else level**-2.0 if level > 0 else np.inf
    propensities = Computed(rates.shape, partial(_propensities_at_level, rates, least, problem.before, level, cap))
    if cap is None:
        return propensities, multiplier, None
    with np.errstate(divide="ignore"):
        return propensities, multiplier, np.where(cap < level, problem.cost[:, 0] * (cap**-2.0 - multiplier), 0.0)


def propensities_at_multiplier(problem: Problem, rates: Computed, least: FloatArray, multiplier: float) -> FloatArray:
    """Return the propensities of other contexts, (n, m), by the rule of an allocation: with the same lambda."""
    if problem.one_pair and problem.cost.shape[1] > 1:
        return propensity_table(_one_pair_at(problem, rates, least, multiplier)[0])
    cap, every_row = _largest_levels(problem, rates, least), slice(0, rates.shape[0])
    return _propensities_at_level(rates, least, problem.before, level_of(multiplier), cap, every_row)


def level_of(multiplier: float) -> float:
    """Return the level lambda^(-1/2), by which rates are multiplied."""
    return np.inf if multiplier == 0 else multiplier**-0.5


def kkt_residual(problem: Problem, rates: Computed, least: FloatArray, allocation: Allocation) -> float:
    """Return the largest relative violation of the Karush-Kuhn-Tucker conditions information / pi^2 = lambda cost + nu.

    With earlier labels, pi is ``before`` + propensity. Where a propensity is the smallest one allowed, the left side
    may be smaller; where it is one, it may be larger.
    """
    propensities, multiplier, context_multiplier = allocation
    if np.isinf(multiplier):
        return 0.0

    def violation_of(block: slice) -> float:
        propensity, cost = propensities[block], at_rows(problem.cost, block)
        total_price = multiplier * cost
        if context_multiplier is not None:
            total_price = total_price + context_multiplier[block, None]
        gain = np.square(rates[block] / (propensity + problem.before)) * cost
        violation = (gain - total_price) / np.maximum(np.maximum(total_price, gain), np.finfo(float).tiny)
        at_floor = propensity <= at_rows(least, block) * (1 + 1e-12)
        np.maximum(violation, 0, out=violation, where=at_floor)
        np.minimum(violation, 0, out=violation, where=propensity >= 1 - 1e-12)
        return float(np.abs(violation).max(initial=0.0))

    return max(map_blocks(violation_of, rates.shape), default=0.0)


# --- any number of labels, or at most one where the labels of a context cost the same ---------------------------------


def _largest_levels(problem: Problem, rates: Computed, least: FloatArray) -> FloatArray | None:
    """Return the level at which the propensities of each row add up to one, (n,); None for any number of labels.

    All labels of a context cost the same here, so that lambda cost + nu is one number per context. The constraint of at
    most one label is therefore a largest level of the context.
    """
    if not problem.one_pair:
        return None
    before = problem.before
    return np.concatenate(
        map_blocks(lambda block: _one_pair_level(rates[block], at_rows(least, block), before), rates.shape)
    )


def _propensities_at_level(
    rates: Computed, least: FloatArray, before: FloatArray | float, level: float, cap: FloatArray | None, rows: Rows
) -> FloatArray:
    """Return the propensities of some rows at a level, or at the largest level of the row, ``cap``.

    Where the level is infinite, the result is one for every label with information.
    """
    most, rate = level if cap is None else np.minimum(level, cap[rows])[:, None], rates[rows]
    with np.errstate(invalid="ignore"):
        rate *= most
    if not np.isfinite(most).all():
        rate[np.isnan(rate)] = 0.0  # infinity times the rate of a label without information
    rate -= before
    np.maximum(rate, at_rows(least, rows), out=rate)
    return np.minimum(rate, 1.0, out=rate)


def _budget_level(
    problem: Problem, rates: Computed, least: FloatArray, budget: float, cap: FloatArray | None, start: float
) -> float:
    """Find the level at which the propensities cost the budget; infinite where the budget is slack."""
    count = problem.count

    def spent(propensity: FloatArray, block: slice) -> float:
        return float(count[block] @ problem.row_costs(propensity, block))

    def spending(level: float) -> tuple[float, float]:
        """Return the expected cost at a level, and its derivative."""

        def of_block(block: slice) -> tuple[float, float]:
            propensity = _propensities_at_level(rates, least, problem.before, level, cap, block)
            total = spent(propensity, block)
            if not np.isfinite(level):
                return total, 0.0
            # Only propensities that are not clipped change with the level.
            is_free = (propensity > at_rows(least, block)) & (propensity < 1)
            if cap is not None:
                is_free &= (cap[block] > level)[:, None]
            propensity += problem.before
            propensity *= is_free
            return total, spent(propensity, block) / level

        parts = map_blocks(of_block, rates.shape)
        return sum(total for total, _ in parts), sum(slope for _, slope in parts)

    def is_slack() -> bool:
        return spending(np.inf)[0] <= budget * (1 + _BUDGET_PRECISION)

    if np.isinf(start):
        if is_slack():
            return np.inf
        # The level at which the budget would be spent if no propensity were clipped.
        start = budget / sum(map_blocks(lambda block: spent(rates[block], block), rates.shape))
    level, low, high = start, 0.0, np.inf
    for _ in range(200):
        total, slope = spending(level)
        if abs(total - budget) <= _BUDGET_PRECISION * budget:
            break
        if slope <= 0 and total < budget and is_slack():
            return np.inf
        low, high = (level, high) if total < budget else (low, level)
        step = level + (budget - total) / slope if slope > 0 else np.inf
        level = step if low < step < high else 2 * level if np.isinf(high) else (low + high) / 2
        if high <= low:
            break
    return level


def _one_pair_level(rate: FloatArray, lower: FloatArray | float, before: FloatArray | float) -> FloatArray:
    """Find the level at which the propensities of a row add up to one, (b,); infinite where there is none."""
    with np.errstate(divide="ignore"):
        level = np.asarray((1 + np.sum(before)) / rate.sum(axis=1), dtype=np.float64)
    active = np.isfinite(level)
    if not active.all():
        rate = rate[active]
    for _ in range(100):
        raised = level[active, None] * rate - before
        is_free = raised > lower
        excess = np.where(is_free, raised, lower).sum(axis=1) - 1
        slope = np.where(is_free, rate, 0).sum(axis=1)
        step = np.divide(excess, slope, out=np.zeros_like(excess), where=(slope > 0) & (excess > _SUM_PRECISION))
        level[active] -= step
        if not step.any():
            break
    return level


# --- at most one label of a context, whose labels differ in cost ------------------------------------------------------


def _at_price(root: FloatArray, price: FloatArray, lower: float, before: FloatArray | float) -> FloatArray:
    """Return the propensities root / sqrt(price) - before, (b, m), or the smallest ones allowed where larger."""
    with np.errstate(divide="ignore", invalid="ignore"):
        propensity = root / np.sqrt(price)
    return np.maximum(np.nan_to_num(propensity, copy=False, nan=0.0, posinf=np.inf) - before, lower)


def _propensities_at_price(
    rates: Computed,
    cost: FloatArray,
    least: FloatArray,
    before: FloatArray | float,
    multiplier: float,
    nu: FloatArray,
    rows: Rows,
) -> FloatArray:
    """Return the propensities of some rows, sqrt(information / price) at the price lambda x cost + nu of a label."""
    price = multiplier * at_rows(cost, rows) + nu[rows][:, None]
    return _at_price(rates[rows] * np.sqrt(at_rows(cost, rows)), price, float(least.min()), before)


def _allocate_one_pair(problem: Problem, rates: Computed, least: FloatArray, budget: float) -> Allocation:
    """Allocate at most one label per context where the pairs of a context differ in cost."""

    def excess(log_multiplier: float) -> float:
        propensities, *_ = _one_pair_at(problem, rates, least, float(np.exp(log_multiplier)))
        return problem.expected_cost(propensities) + problem.spent - budget

    if excess(-np.inf) <= budget * _BUDGET_PRECISION:
        return _one_pair_at(problem, rates, least, 0.0)
    largest_rate = max(map_blocks(lambda block: rates[block].max(), rates.shape))
    # For any lambda beyond ``high`` every propensity is the smallest one allowed, and the smallest propensities cost no
    # more than the budget.
    high = 2 * float(np.log(largest_rate / least.min()))
    if excess(high) >= 0:
        return _one_pair_at(problem, rates, least, float(np.exp(high)))
    low = high - 4.0
    while excess(low) <= 0:
        high, low = low, low - 4.0
    log_multiplier = scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16)
    return _one_pair_at(problem, rates, least, float(np.exp(log_multiplier)))


def _one_pair_at(problem: Problem, rates: Computed, least: FloatArray, multiplier: float) -> Allocation:
    """Return the allocation of at most one label per context with a given lambda."""

    def nu_of(block: slice) -> FloatArray:
        cost = np.broadcast_to(at_rows(problem.cost, block), (block.stop - block.start, rates.shape[1]))
        root, lower = rates[block] * np.sqrt(cost), float(least.min())
        return _context_multipliers(root, multiplier * cost, lower, problem.before)

    nu = np.concatenate(map_blocks(nu_of, rates.shape))
    rule = partial(_propensities_at_price, rates, problem.cost, least, problem.before, multiplier, nu)
    return Computed(rates.shape, rule), multiplier, nu


def _context_multipliers(root: FloatArray, price: FloatArray, lower: float, before: FloatArray | float) -> FloatArray:
    """Find the smallest nu of each row, (b,), at which the propensities at price + nu, (b, m), add up to at most 1."""
    nu = np.zeros(len(root))
    # nu lies between ``low`` and ``high``. A propensity is at most root / sqrt(nu) plus the smallest propensity. At
    # ``high`` the sum of root / sqrt(nu) is one minus the sum of the smallest propensities. The propensities therefore
    # add up to at most one there.
    room = 1 - lower * root.shape[1]
    with np.errstate(divide="ignore"):
        high = np.where(root.any(axis=1), np.square(root.sum(axis=1) / np.maximum(room, 1e-300)), 0.0)
    low = np.zeros(len(root))
    active = np.flatnonzero(_at_price(root, price, lower, before).sum(axis=1) > 1 + _SUM_PRECISION)
    nu[active] = np.maximum(np.square(root[active].sum(axis=1)) - price[active].max(axis=1), 0.0)
    for _ in range(200):
        if not len(active):
            break
        current_nu = nu[active]
        total_price = price[active] + current_nu[:, None]
        propensity = _at_price(root[active], total_price, lower, before)
        total = propensity.sum(axis=1)
        fall = np.where(propensity > lower, (propensity + before) / (2 * total_price), 0).sum(axis=1)
        low[active] = np.where(total > 1, np.maximum(low[active], current_nu), low[active])
        high[active] = np.where(total < 1, np.minimum(high[active], current_nu), high[active])
        step = np.divide(total * (total**2 - 1), 2 * fall, out=np.full(len(active), np.inf), where=fall > 0)
        newton = current_nu + step
        inside = (newton >= low[active]) & (newton <= high[active])
        done = (np.abs(total - 1) <= _SUM_PRECISION) | (high[active] - low[active] <= 1e-16 * high[active])
        nu[active] = np.where(done, current_nu, np.where(inside, newton, (low[active] + high[active]) / 2))
        active = active[~done]
    return nu


# --- the search, where the objective is concave in the labelling covariance -------------------------------------------

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

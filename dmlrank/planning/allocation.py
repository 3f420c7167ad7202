"""The A-optimal allocation of a budget: propensities that minimise sum information / propensity, and cost the budget.

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

from ..data.preferences import FloatArray
from .cells import Computed, Propensities, Rows, at_rows, map_blocks, propensity_table
from .problem import Problem

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

"""The A-optimal allocation of a budget: propensities that minimise sum information / propensity, and cost the budget.

The Lagrangian of the problem has a multiplier lambda for the budget. Where a context gets at most one label, there is a
further multiplier nu for each context. At the optimum information / pi^2 = lambda cost + nu in every cell, unless pi is
one or the smallest propensity allowed. Where nu is zero, pi is the *rate* sqrt(information / cost) times the *level*
lambda^(-1/2). The cost increases with the level, so that one search for the level finds the optimum.

In this module n is the number of rows, m the number of pairs, and ``lower`` the smallest propensity of each pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq

from ..data.preferences import FloatArray
from .propensities import (
    CellRates,
    LevelPropensities,
    PricedPropensities,
    Propensities,
    Rows,
    at_level,
    at_price,
    map_blocks,
    propensity_table,
)

# Relative precision of a cost that is to equal the budget; a sum over millions of cells is no more precise.
_BUDGET_PRECISION = 1e-11
# Precision of the sum of a context's propensities.
_SUM_PRECISION = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Propensities that minimise the sum of information / propensity, and the Lagrange multipliers of the constraints.

    propensities (n, m).
    multiplier: lambda: the amount by which one more unit of budget would lower the sum. Zero where the budget is slack;
        infinite where the budget pays for no more than the smallest propensities.
    context_multiplier (n,): nu of each row where a context gets at most one label.
    """

    propensities: Propensities
    multiplier: float
    context_multiplier: FloatArray | None = None

    @property
    def propensity(self) -> FloatArray:
        """All propensities as an array, (n, m), computed on every call."""
        return propensity_table(self.propensities)

    @property
    def level(self) -> float:
        """The level lambda^(-1/2), by which rates are multiplied."""
        return np.inf if self.multiplier == 0 else self.multiplier**-0.5

    @property
    def slack(self) -> bool:
        """Whether a larger budget would not lower the sum."""
        return self.multiplier == 0


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The constraints of an allocation.

    cost (n or 1, m or 1): Cost of a label; positive.
    lower (1, m or 1): Smallest propensities, which together cost no more than the budget.
    one_pair: Whether the propensities of a context add up to at most one.
    count (n,): Number of contexts that each row stands for; None for one.
    """

    cost: FloatArray
    lower: FloatArray
    budget: float
    one_pair: bool
    count: FloatArray | None = None

    def cost_of(self, rows: Rows) -> FloatArray:
        """Return the costs of some rows, (b or 1, m or 1)."""
        return self.cost if len(self.cost) == 1 else self.cost[rows]

    def total(self, by_row: FloatArray, rows: slice) -> float:
        """Return the sum over the contexts of some rows, from one number for each row, (b,)."""
        return float(by_row.sum() if self.count is None else self.count[rows] @ by_row)


def allocate(
    rates: CellRates, constraints: Constraints, *, start: float | None = None, n_jobs: int = 1, rows: int | None = None
) -> Allocation:
    """Find the propensities that minimise the sum of information / propensity, which is cost rate^2 / propensity.

    Shapes: rates (n, m).

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    if constraints.one_pair and constraints.cost.shape[1] > 1:
        return _allocate_one_pair(rates, constraints, n_jobs, rows)
    lower = constraints.lower
    # All labels of a context cost the same here, so that lambda cost + nu is one number per context. The constraint of
    # at most one label is therefore a largest level of the context.
    cap = None
    if constraints.one_pair:
        caps = map_blocks(
            lambda block: _one_pair_level(rates.block(block), lower), rates.shape, n_jobs=n_jobs, size=rows
        )
        cap = np.concatenate(caps)
    level = _budget_level(_Spending(rates, constraints, cap, n_jobs, rows), start)
    propensities = LevelPropensities(rates, lower, level, cap)
    multiplier = 0.0 if np.isinf(level) else level**-2.0 if level > 0 else np.inf
    if cap is None:
        return Allocation(propensities, multiplier)
    with np.errstate(divide="ignore"):
        context_multiplier = np.where(cap < level, constraints.cost[:, 0] * (cap**-2.0 - multiplier), 0.0)
    return Allocation(propensities, multiplier, context_multiplier)


def propensities_at_multiplier(
    information: FloatArray, cost: FloatArray, lower: FloatArray, multiplier: float, one_pair: bool
) -> FloatArray:
    """Return the propensities of other contexts, (n, m), by the rule of an allocation: with the same multiplier lambda.

    Shapes: information (n, m), cost (n or 1, m or 1), lower (1, m or 1).
    """
    if one_pair and cost.shape[1] > 1:
        root, price = np.sqrt(information), multiplier * np.broadcast_to(cost, information.shape)
        return at_price(root, price + _context_multipliers(root, price, lower)[:, None], lower)
    rate = np.sqrt(information / cost)
    level = np.inf if multiplier == 0 else multiplier**-0.5
    return at_level(rate, lower, np.minimum(level, _one_pair_level(rate, lower)) if one_pair else level)


def kkt_residual(
    rates: CellRates, constraints: Constraints, allocation: Allocation, *, n_jobs: int = 1, rows: int | None = None
) -> float:
    """Return the largest relative violation of the Karush-Kuhn-Tucker conditions information / pi^2 = lambda cost + nu.

    Where pi is the smallest propensity allowed, the left side may be smaller; where pi is one, it may be larger.

    Shapes: rates (n, m).
    """
    if np.isinf(allocation.multiplier):
        return 0.0

    def violation_of(block: slice) -> float:
        propensity, cost = allocation.propensities.block(block), constraints.cost_of(block)
        total_price = allocation.multiplier * cost
        if allocation.context_multiplier is not None:
            total_price = total_price + allocation.context_multiplier[block, None]
        gain = np.square(rates.block(block) / propensity) * cost
        violation = (gain - total_price) / np.maximum(np.maximum(total_price, gain), np.finfo(float).tiny)
        at_floor = propensity <= constraints.lower * (1 + 1e-12)
        np.maximum(violation, 0, out=violation, where=at_floor)
        np.minimum(violation, 0, out=violation, where=propensity >= 1 - 1e-12)
        return float(np.abs(violation).max(initial=0.0))

    return max(map_blocks(violation_of, rates.shape, n_jobs=n_jobs, size=rows), default=0.0)


def _budget_level(spending: _Spending, start: float | None) -> float:
    """Find the level at which the propensities cost the budget; infinite where the budget is slack."""
    budget = spending.constraints.budget
    if start is None:
        if spending.is_slack():
            return np.inf
        start = budget / spending.per_unit_of_level()
    level, low, high = start, 0.0, np.inf
    for _ in range(200):
        total, slope = spending.at(level)
        if abs(total - budget) <= _BUDGET_PRECISION * budget:
            break
        if slope <= 0 and total < budget and spending.is_slack():
            return np.inf
        low, high = (level, high) if total < budget else (low, level)
        step = level + (budget - total) / slope if slope > 0 else np.inf
        level = step if low < step < high else 2 * level if np.isinf(high) else (low + high) / 2
        if high <= low:
            break
    return level


@dataclass(frozen=True, slots=True, eq=False)
class _Spending:
    """The expected cost of propensities as a function of the level.

    The propensities are the rate times the level, or times the largest level of the row where this is smaller, clipped
    to the range from the smallest propensity to one.

    rates (n, m).
    cap (n,): Largest level of each row.
    n_jobs: Number of threads.
    rows: Number of rows that are processed at a time; see :func:`allocate`.
    """

    rates: CellRates
    constraints: Constraints
    cap: FloatArray | None
    n_jobs: int
    rows: int | None

    def at(self, level: float) -> tuple[float, float]:
        """Return the expected cost at a level, and its derivative."""
        parts = map_blocks(partial(self._of_block, level), self.rates.shape, n_jobs=self.n_jobs, size=self.rows)
        return sum(total for total, _ in parts), sum(slope for _, slope in parts)

    def is_slack(self) -> bool:
        """Return whether the budget pays for the largest propensities."""
        return self.at(np.inf)[0] <= self.constraints.budget * (1 + _BUDGET_PRECISION)

    def per_unit_of_level(self) -> float:
        """Return the derivative of the cost at a level at which no propensity is clipped."""
        constraints = self.constraints

        def of_block(block: slice) -> float:
            return constraints.total(_row_sums(self.rates.block(block), constraints.cost_of(block)), block)

        return sum(map_blocks(of_block, self.rates.shape, n_jobs=self.n_jobs, size=self.rows))

    def _of_block(self, level: float, block: slice) -> tuple[float, float]:
        """Return the expected cost of a range of rows at a level, and its derivative."""
        constraints, lower, cap = self.constraints, self.constraints.lower, self.cap
        levels = level if cap is None else np.minimum(level, cap[block])
        propensity = at_level(self.rates.block(block), lower, levels)
        cost = constraints.cost_of(block)
        total = constraints.total(_row_sums(propensity, cost), block)
        if not np.isfinite(level):
            return total, 0.0
        # Only propensities that are not clipped change with the level.
        is_free = (propensity > lower) & (propensity < 1)
        if cap is not None:
            is_free &= (cap[block] > level)[:, None]
        np.multiply(propensity, is_free, out=propensity)
        return total, constraints.total(_row_sums(propensity, cost), block) / level


def _row_sums(values: FloatArray, cost: FloatArray) -> FloatArray:
    """Return the sum of values, (b, m), times cost, (b or 1, m or 1), by row, (b,)."""
    if cost.shape[1] == 1:
        return np.asarray(values.sum(axis=1) * cost[:, 0])
    return values @ cost[0] if len(cost) == 1 else np.einsum("nm,nm->n", values, cost)


def _one_pair_level(rate: FloatArray, lower: FloatArray) -> FloatArray:
    """Find the level at which the propensities of a row add up to one, (b,); infinite where there is none."""
    with np.errstate(divide="ignore"):
        level = np.asarray(1 / rate.sum(axis=1), dtype=np.float64)
    active = np.isfinite(level)
    if not active.all():
        rate = rate[active]
    for _ in range(100):
        raised = level[active, None] * rate
        is_free = raised > lower
        excess = np.where(is_free, raised, lower).sum(axis=1) - 1
        slope = np.where(is_free, rate, 0).sum(axis=1)
        step = np.divide(excess, slope, out=np.zeros_like(excess), where=(slope > 0) & (excess > _SUM_PRECISION))
        level[active] -= step
        if not step.any():
            break
    return level


def _allocate_one_pair(rates: CellRates, constraints: Constraints, n_jobs: int, rows: int | None) -> Allocation:
    """Allocate at most one label per context where the pairs of a context differ in cost.

    Shapes: rates (n, m).
    """
    cost, lower, budget = constraints.cost, constraints.lower, constraints.budget

    def roots(block: slice) -> tuple[FloatArray, FloatArray]:
        """Return the square root of the information of each label, and the cost of each label, (b, m)."""
        cost_of_label = np.broadcast_to(constraints.cost_of(block), (block.stop - block.start, rates.shape[1]))
        return rates.block(block) * np.sqrt(cost_of_label), cost_of_label

    def context_multipliers(multiplier: float) -> FloatArray:
        def of_block(block: slice) -> FloatArray:
            root, cost_of_label = roots(block)
            return _context_multipliers(root, multiplier * cost_of_label, lower)

        return np.concatenate(map_blocks(of_block, rates.shape, n_jobs=n_jobs, size=rows))

    def allocation_at(multiplier: float) -> Allocation:
        nu = context_multipliers(multiplier)
        return Allocation(PricedPropensities(rates, cost, lower, multiplier, nu), multiplier, nu)

    def spend(multiplier: float) -> float:
        propensities = allocation_at(multiplier).propensities

        def of_block(block: slice) -> float:
            return constraints.total(_row_sums(propensities.block(block), constraints.cost_of(block)), block)

        return sum(map_blocks(of_block, rates.shape, n_jobs=n_jobs, size=rows))

    if spend(0.0) <= budget * (1 + _BUDGET_PRECISION):
        return allocation_at(0.0)
    largest_rate = max(map_blocks(lambda block: rates.block(block).max(), rates.shape, n_jobs=n_jobs, size=rows))
    # The search ends at this logarithm of lambda: for any larger lambda every propensity is the smallest one allowed,
    # and the smallest propensities cost no more than the budget.
    largest_log = 2 * float(np.log(largest_rate / lower.min()))
    return allocation_at(
        float(np.exp(_root_of_decreasing(lambda log: spend(float(np.exp(log))) - budget, largest_log)))
    )


def _root_of_decreasing(function: Callable[[float], float], high: float) -> float:
    """Return the root of a decreasing function, which is not positive at ``high``."""
    low = high - 4.0
    while function(low) <= 0:
        high, low = low, low - 4.0
    return float(brentq(function, low, high, xtol=1e-15, rtol=8.9e-16))


def _context_multipliers(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """Find the smallest nu of each row, (b,), at which the propensities root / sqrt(price + nu) add up to at most one.

    Shapes: root (b, m), price (b, m), lower (1, m or 1).
    """
    nu = np.zeros(len(root))
    # nu lies between ``low`` and ``high``. A propensity is at most root / sqrt(nu) plus the smallest propensity. At
    # ``high`` the sum of root / sqrt(nu) is one minus the sum of the smallest propensities. The propensities therefore
    # add up to at most one there.
    room = 1 - np.broadcast_to(lower, root.shape).sum(axis=1)
    with np.errstate(divide="ignore"):
        high = np.where(root.any(axis=1), np.square(root.sum(axis=1) / np.maximum(room, 1e-300)), 0.0)
    low = np.zeros(len(root))
    active = np.flatnonzero(at_price(root, price, lower).sum(axis=1) > 1 + _SUM_PRECISION)
    nu[active] = np.maximum(np.square(root[active].sum(axis=1)) - price[active].max(axis=1), 0.0)
    for _ in range(200):
        if not len(active):
            break
        current = nu[active]
        total_price = price[active] + current[:, None]
        propensity = at_price(root[active], total_price, lower)
        total = propensity.sum(axis=1)
        fall = np.where(propensity > lower, propensity / (2 * total_price), 0).sum(axis=1)
        low[active] = np.where(total > 1, np.maximum(low[active], current), low[active])
        high[active] = np.where(total < 1, np.minimum(high[active], current), high[active])
        step = np.divide(total * (total**2 - 1), 2 * fall, out=np.full(len(active), np.inf), where=fall > 0)
        newton = current + step
        inside = (newton >= low[active]) & (newton <= high[active])
        done = (np.abs(total - 1) <= _SUM_PRECISION) | (high[active] - low[active] <= 1e-16 * high[active])
        nu[active] = np.where(done, current, np.where(inside, newton, (low[active] + high[active]) / 2))
        active = active[~done]
    return nu

"""The A-optimal allocation of a budget: a monotone search for one multiplier, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

# Relative precision of budgets: sums over millions of cells are no more precise.
_BUDGET_PRECISION = 1e-11
# Precision of the sum of a context's propensities.
_SUM_PRECISION = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Propensities that minimise the sum of information / propensity, and the Lagrange multipliers that prove it.

    Attributes
    ----------
    propensities : Propensities
        Of all rows and pairs, (n, m).
    multiplier : float
        lambda: how much one more unit of budget would lower the sum; zero where the budget is slack.
    context_multiplier : ndarray, shape (n,), or None
        nu of each context where a context gets at most one label.
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
        """lambda^(-1/2), by which rates are multiplied."""
        return np.inf if self.multiplier == 0 else self.multiplier**-0.5

    @property
    def slack(self) -> bool:
        """Whether a larger budget would lower nothing."""
        return self.multiplier == 0


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """What propensities have to meet.

    Attributes
    ----------
    cost : ndarray, shape (n or 1, m or 1)
        Cost of a label; positive.
    lower : ndarray, shape (1, m or 1)
        Floors; they cost no more than the budget.
    budget : float
    one_pair : bool
        Whether the propensities of a context add up to at most one.
    count : ndarray, shape (n,), or None
        Contexts that each row stands for; None for one.
    """

    cost: FloatArray
    lower: FloatArray
    budget: float
    one_pair: bool
    count: FloatArray | None = None

    def cost_of(self, rows: Rows) -> FloatArray:
        """Costs of some rows, (b or 1, m or 1)."""
        return self.cost if len(self.cost) == 1 else self.cost[rows]

    def total(self, by_row: FloatArray, rows: slice) -> float:
        """Sum over the contexts of some rows, (b,) numbers each."""
        return float(by_row.sum() if self.count is None else self.count[rows] @ by_row)


def allocate(
    rates: CellRates, constraints: Constraints, *, start: float | None = None, n_jobs: int = 1, rows: int | None = None
) -> Allocation:
    """Find the propensities that minimise the sum of information / propensity = cost rate^2 / propensity.

    Parameters
    ----------
    rates : CellRates, shape (n, m)
    constraints : Constraints
    start : float, optional
        A level near the optimum's, such as that of a similar problem.
    n_jobs : int
        Threads.
    rows : int, optional
        Rows whose temporary arrays live at a time; about 65,536 cells when None.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    if constraints.one_pair and constraints.cost.shape[1] > 1:
        return _allocate_one_pair(rates, constraints, n_jobs, rows)
    lower = constraints.lower
    # Where labels of a context cost the same, lambda c + nu is one number per context: a cap on its level.
    cap = None
    if constraints.one_pair:
        caps = map_blocks(
            lambda block: _one_pair_level(rates.block(block), lower), rates.shape, n_jobs=n_jobs, size=rows
        )
        cap = np.concatenate(caps)
    level = _budget_level(rates, constraints, cap, start=start, n_jobs=n_jobs, rows=rows)
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
    """Apply the rule of an allocation to other contexts: their propensities, (n, m), with the same budget multiplier.

    Parameters
    ----------
    information : ndarray, shape (n, m)
        Information of a label of each cell.
    cost : ndarray, shape (n or 1, m or 1)
    lower : ndarray, shape (1, m or 1)
        Floors.
    multiplier : float
    one_pair : bool
        Whether the propensities of a context add up to at most one.
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

    At floors and at ones the conditions are one-sided.

    Parameters
    ----------
    rates : CellRates, shape (n, m)
    constraints : Constraints
    allocation : Allocation
    n_jobs : int
        Threads.
    rows : int, optional
        Rows whose temporary arrays live at a time; about 65,536 cells when None.
    """
    if np.isinf(allocation.multiplier):
        return 0.0

    def violation_of(block: slice) -> float:
        propensity, cost = allocation.propensities.block(block), constraints.cost_of(block)
        price = allocation.multiplier * cost
        if allocation.context_multiplier is not None:
            price = price + allocation.context_multiplier[block, None]
        gain = np.square(rates.block(block) / propensity) * cost
        violation = (gain - price) / np.maximum(np.maximum(price, gain), np.finfo(float).tiny)
        at_floor = propensity <= constraints.lower * (1 + 1e-12)
        np.maximum(violation, 0, out=violation, where=at_floor)
        np.minimum(violation, 0, out=violation, where=propensity >= 1 - 1e-12)
        return float(np.abs(violation).max(initial=0.0))

    return max(map_blocks(violation_of, rates.shape, n_jobs=n_jobs, size=rows), default=0.0)


def _budget_level(
    rates: CellRates,
    constraints: Constraints,
    cap: FloatArray | None,
    *,
    start: float | None,
    n_jobs: int,
    rows: int | None,
) -> float:
    """Find the level t = lambda^(-1/2) at which min(t, cap) rate, clipped, costs the budget; infinite if it is slack.

    The cost is increasing and piecewise linear in t, so that Newton's method with a bracket ends at the exact root.

    Parameters
    ----------
    rates : CellRates, shape (n, m)
    constraints : Constraints
    cap : ndarray, shape (n,), or None
        Largest level of each row.
    start : float, optional
        Where the search begins.
    n_jobs, rows
        As for :func:`allocate`.
    """
    budget, lower = constraints.budget, constraints.lower

    def add_up(of_block: Callable[[slice], tuple[float, float]]) -> tuple[float, float]:
        parts = map_blocks(of_block, rates.shape, n_jobs=n_jobs, size=rows)
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def spend(level: float) -> tuple[float, float]:
        """Return the expected cost at a level, and its derivative."""

        def spend_of(block: slice) -> tuple[float, float]:
            levels = level if cap is None else np.minimum(level, cap[block])
            propensity = at_level(rates.block(block), lower, levels)
            cost = constraints.cost_of(block)
            total = constraints.total(_row_sums(propensity, cost), block)
            if not np.isfinite(level):
                return total, 0.0
            moving = (propensity > lower) & (propensity < 1)
            if cap is not None:
                moving &= (cap[block] > level)[:, None]
            np.multiply(propensity, moving, out=propensity)
            return total, constraints.total(_row_sums(propensity, cost), block) / level

        return add_up(spend_of)

    def is_slack() -> bool:
        return spend(np.inf)[0] <= budget * (1 + _BUDGET_PRECISION)

    if start is None:
        if is_slack():
            return np.inf
        start = (
            budget
            / add_up(
                lambda block: (constraints.total(_row_sums(rates.block(block), constraints.cost_of(block)), block), 0.0)
            )[0]
        )
    level, low, high = start, 0.0, np.inf
    for _ in range(200):
        total, slope = spend(level)
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


def _row_sums(values: FloatArray, cost: FloatArray) -> FloatArray:
    """Sum of values, (b, m), times cost, (b or 1, m or 1), by row, (b,)."""
    if cost.shape[1] == 1:
        return np.asarray(values.sum(axis=1) * cost[:, 0])
    return values @ cost[0] if len(cost) == 1 else np.einsum("nm,nm->n", values, cost)


def _one_pair_level(rate: FloatArray, lower: FloatArray) -> FloatArray:
    """Find the level at which the propensities of a context add up to one, (b,); infinite where they never do.

    The sum is convex and piecewise linear, so that Newton's method from above ends at the exact root.
    """
    with np.errstate(divide="ignore"):
        level = np.asarray(1 / rate.sum(axis=1), dtype=np.float64)
    active = np.isfinite(level)
    if not active.all():
        rate = rate[active]
    for _ in range(100):
        raised = level[active, None] * rate
        moving = raised > lower
        excess = np.where(moving, raised, lower).sum(axis=1) - 1
        slope = np.where(moving, rate, 0).sum(axis=1)
        step = np.divide(excess, slope, out=np.zeros_like(excess), where=(slope > 0) & (excess > _SUM_PRECISION))
        level[active] -= step
        if not step.any():
            break
    return level


def _allocate_one_pair(rates: CellRates, constraints: Constraints, n_jobs: int, rows: int | None) -> Allocation:
    """Allocate at most one label per context where its pairs differ in cost: two nested monotone searches.

    Parameters
    ----------
    rates : CellRates, shape (n, m)
    constraints : Constraints
    n_jobs, rows
        As for :func:`allocate`.
    """
    cost, lower, budget = constraints.cost, constraints.lower, constraints.budget

    def roots(block: slice) -> tuple[FloatArray, FloatArray]:
        price = np.broadcast_to(constraints.cost_of(block), (block.stop - block.start, rates.shape[1]))
        return rates.block(block) * np.sqrt(price), price

    def context_multipliers(multiplier: float) -> FloatArray:
        def of_block(block: slice) -> FloatArray:
            root, price = roots(block)
            return _context_multipliers(root, multiplier * price, lower)

        return np.concatenate(map_blocks(of_block, rates.shape, n_jobs=n_jobs, size=rows))

    def allocation_at(multiplier: float) -> Allocation:
        added = context_multipliers(multiplier)
        return Allocation(PricedPropensities(rates, cost, lower, multiplier, added), multiplier, added)

    def spend(multiplier: float) -> float:
        propensities = allocation_at(multiplier).propensities

        def of_block(block: slice) -> float:
            return constraints.total(_row_sums(propensities.block(block), constraints.cost_of(block)), block)

        return sum(map_blocks(of_block, rates.shape, n_jobs=n_jobs, size=rows))

    if spend(0.0) <= budget * (1 + _BUDGET_PRECISION):
        return allocation_at(0.0)
    largest_rate = max(map_blocks(lambda block: rates.block(block).max(), rates.shape, n_jobs=n_jobs, size=rows))
    top = 2 * float(np.log(largest_rate / lower.min()))
    return allocation_at(_root_of_falling(lambda logarithm: spend(float(np.exp(logarithm))) - budget, top))


def _root_of_falling(excess: Callable[[float], float], top: float) -> float:
    """Return exp of the point below ``top`` where a falling function, positive far to the left, crosses zero."""
    low = top - 4.0
    while excess(low) <= 0:
        top, low = low, low - 4.0
    return float(np.exp(brentq(excess, low, top, xtol=1e-15, rtol=8.9e-16)))


def _context_multipliers(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """Find nu of each context, (b,): it raises the price of its labels until their propensities add up to one.

    1 / (sum of propensities)^2 is close to linear in nu, so that Newton's method on it takes a few steps.
    """
    nu = np.zeros(len(root))
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

"""The A-optimal allocation of a budget: propensities that minimise sum information / propensity, and cost the budget.

Notes
-----
The Lagrangian of the problem has a multiplier lambda for the budget. Where a context gets at most one label, there is a
further multiplier nu for each context. At the optimum information / pi^2 = lambda cost + nu in every cell, unless pi is
one or the smallest propensity allowed. Where nu is zero, pi is the *rate* sqrt(information / cost) times the *level*
lambda^(-1/2). The cost increases with the level, so that one search for the level finds the optimum.

In this module n is the number of rows, m the number of pairs, and ``lower`` the smallest propensity of each pair.

A plan for many contexts and models has very many propensities. They are not stored: classes compute them, for the rows
that a caller needs, from numbers that the plan stores in any case. A cell is one row and one pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from .._utils.computation import current, in_order
from ..data.preferences import FloatArray, IntArray

T = TypeVar("T")

# Rows of a plan's problem: a range, or an array of indices.
Rows: TypeAlias = slice | IntArray
# Numbers by row and pair, in double or, where there are very many, in single precision.
CellArray: TypeAlias = NDArray[np.floating]

# Number of cells in a block: a few arrays of this size fit into the cache of a processor.
CACHED_CELLS = 65_536
# Number of cells in a task. A thread works on the blocks of one task, one after the other.
_TASK_CELLS = 4_000_000


class Propensities(Protocol):
    """Probabilities that pairs are labelled, (n, m), which are computed for the rows that a caller needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m): rows and pairs."""
        ...

    def block(self, rows: Rows) -> FloatArray:
        """Return the propensities of some rows, (b, m); the caller must not change the array."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class StoredPropensities:
    """Propensities in an array.

    table (n, m).
    """

    table: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self.table.shape
        return n, m

    def block(self, rows: Rows) -> FloatArray:
        """Return the propensities of some rows, (b, m)."""
        return self.table[rows]


@dataclass(frozen=True, slots=True, eq=False)
class CellRates:
    """The rates ``sqrt(information / cost)`` of all cells, (n, m), as the product of up to three factors.

    Optimal propensities are proportional to the rates where they are neither the smallest ones allowed nor one.

    base (n, m): First factor.
    factor (n or 1, 1 or m): Second factor; None for one.
    pair_factor (m,): Third factor; None for one.
    """

    base: CellArray
    factor: FloatArray | None = None
    pair_factor: FloatArray | None = None

    @classmethod
    def of(cls, information: FloatArray, cost: FloatArray) -> CellRates:
        """Return the rates of labels with this information, (n, m), and these costs, which broadcast to (n, m)."""
        rate = information / cost
        return cls(np.sqrt(rate, out=rate))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        n, m = self.base.shape
        return n, m

    def block(self, rows: Rows) -> FloatArray:
        """Return the rates of some rows, (b, m), in double precision; a new array."""
        scale: FloatArray | float = 1.0
        if self.factor is not None:
            scale = self.factor if len(self.factor) == 1 else self.factor[rows]
        if self.pair_factor is not None:
            scale = scale * self.pair_factor
        return np.multiply(self.base[rows], scale, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class LevelPropensities:
    """Propensities level x rate, clipped to the range from the smallest propensity to one.

    lower (1, 1 or m): Smallest propensities.
    level: lambda^(-1/2), where lambda is the Lagrange multiplier of the budget; infinite where the budget is slack.
    cap (n,): Largest level of each row, at which the propensities of the row add up to one; None where their sum may be
        larger.
    """

    rates: CellRates
    lower: FloatArray
    level: float
    cap: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.rates.shape

    def block(self, rows: Rows) -> FloatArray:
        """Return the propensities of some rows, (b, m)."""
        level = self.level if self.cap is None else np.minimum(self.level, self.cap[rows])
        return at_level(self.rates.block(rows), self.lower, level)


@dataclass(frozen=True, slots=True, eq=False)
class PricedPropensities:
    """Propensities where a context gets at most one label and its possible labels differ in cost.

    The propensity of a cell is sqrt(information / price), where the price of a label is lambda x cost + nu.

    cost (n or 1, m).
    lower (1, 1 or m): Smallest propensities.
    multiplier: lambda, the Lagrange multiplier of the budget.
    context_multiplier (n,): nu of each row, the Lagrange multiplier of the constraint that its propensities add up to
        at most one.
    """

    rates: CellRates
    cost: FloatArray
    lower: FloatArray
    multiplier: float
    context_multiplier: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.rates.shape

    def block(self, rows: Rows) -> FloatArray:
        """Return the propensities of some rows, (b, m)."""
        cost = self.cost if len(self.cost) == 1 else self.cost[rows]
        price = self.multiplier * cost + self.context_multiplier[rows][:, None]
        return at_price(self.rates.block(rows) * np.sqrt(cost), price, self.lower)


@dataclass(frozen=True, slots=True, eq=False)
class MixedPropensities:
    """The mixture of a plan's propensities with those of a uniform plan.

    optimal: Propensities of the plan.
    share: Share of the uniform plan.
    uniform: The uniform plan's propensity.
    """

    optimal: Propensities
    share: float
    uniform: float

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.optimal.shape

    def block(self, rows: Rows) -> FloatArray:
        """Return the propensities of some rows, (b, m)."""
        return (1 - self.share) * self.optimal.block(rows) + self.share * self.uniform


def as_propensities(values: Propensities | FloatArray | float, shape: tuple[int, int]) -> Propensities:
    """Return propensities as they are, and numbers that broadcast to ``shape`` as stored propensities."""
    if isinstance(values, np.ndarray | float):
        return StoredPropensities(np.broadcast_to(values, shape))
    return values


def propensity_table(propensities: Propensities) -> FloatArray:
    """Return all propensities as an array, (n, m)."""
    if isinstance(propensities, StoredPropensities):
        return propensities.table
    table = np.empty(propensities.shape)
    for block in cached_blocks(slice(0, len(table)), table.shape[1]):
        table[block] = propensities.block(block)
    return table


def propensity_range(propensities: Propensities) -> tuple[float, float]:
    """Return the smallest and the largest propensity."""

    def limits_of(rows: slice) -> tuple[float, float]:
        block = propensities.block(rows)
        return float(block.min()), float(block.max())

    limits = map_blocks(limits_of, propensities.shape)
    return min(low for low, _ in limits), max(high for _, high in limits)


def at_level(rate: FloatArray, lower: FloatArray, level: FloatArray | float) -> FloatArray:
    """Return level x rate, (b, m), clipped to the range from the smallest propensity to one.

    Where the level is infinite, the result is one for every label with information.

    Shapes: rate (b, m), lower (1, m or 1), level (b,).
    """
    finite = bool(np.isfinite(level).all())
    with np.errstate(invalid="ignore"):
        rate *= level if np.ndim(level) == 0 else np.asarray(level)[:, None]
    if not finite:
        rate[np.isnan(rate)] = 0.0  # infinity times the rate of a label without information
    np.maximum(rate, lower if lower.size > 1 else lower[0, 0], out=rate)
    return np.minimum(rate, 1.0, out=rate)


def at_price(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """Return the propensities root / sqrt(price), (b, m), or the smallest ones allowed where these are larger.

    Shapes: root (b, m), price (b, m), lower (1, m or 1).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        propensity = root / np.sqrt(price)
    return np.maximum(np.nan_to_num(propensity, copy=False, nan=0.0, posinf=np.inf), lower)


def cached_blocks(rows: slice, n_pairs: int) -> list[slice]:
    """Return the blocks of a range of rows, each of about as many rows as have 65,536 cells."""
    size = max(1, CACHED_CELLS // n_pairs)
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]


def map_blocks(work: Callable[[slice], T], shape: tuple[int, int]) -> list[T]:
    """Return the results of a function for all blocks of rows, in order.

    The blocks do not depend on the number of threads. Sums of the results are therefore the same to the last bit.
    """
    n_rows, n_pairs = shape
    rows_of_task = max(1, _TASK_CELLS // n_pairs)
    tasks = [slice(start, min(start + rows_of_task, n_rows)) for start in range(0, n_rows, rows_of_task)]

    def work_on(task: slice) -> list[T]:
        return [work(block) for block in cached_blocks(task, n_pairs)]

    return [result for results in in_order(work_on, tasks, current().n_threads) for result in results]


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


def allocate(rates: CellRates, constraints: Constraints, *, start: float | None = None) -> Allocation:
    """Find the propensities that minimise the sum of information / propensity, which is cost rate^2 / propensity.

    Shapes: rates (n, m).

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    if constraints.one_pair and constraints.cost.shape[1] > 1:
        return _allocate_one_pair(rates, constraints)
    lower = constraints.lower
    # All labels of a context cost the same here, so that lambda cost + nu is one number per context. The constraint of
    # at most one label is therefore a largest level of the context.
    cap = None
    if constraints.one_pair:
        caps = map_blocks(lambda block: _one_pair_level(rates.block(block), lower), rates.shape)
        cap = np.concatenate(caps)
    level = _budget_level(_Spending(rates, constraints, cap), start)
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


def kkt_residual(rates: CellRates, constraints: Constraints, allocation: Allocation) -> float:
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

    return max(map_blocks(violation_of, rates.shape), default=0.0)


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
    """

    rates: CellRates
    constraints: Constraints
    cap: FloatArray | None

    def at(self, level: float) -> tuple[float, float]:
        """Return the expected cost at a level, and its derivative."""
        parts = map_blocks(partial(self._of_block, level), self.rates.shape)
        return sum(total for total, _ in parts), sum(slope for _, slope in parts)

    def is_slack(self) -> bool:
        """Return whether the budget pays for the largest propensities."""
        return self.at(np.inf)[0] <= self.constraints.budget * (1 + _BUDGET_PRECISION)

    def per_unit_of_level(self) -> float:
        """Return the derivative of the cost at a level at which no propensity is clipped."""
        constraints = self.constraints

        def of_block(block: slice) -> float:
            return constraints.total(_row_sums(self.rates.block(block), constraints.cost_of(block)), block)

        return sum(map_blocks(of_block, self.rates.shape))

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


def _allocate_one_pair(rates: CellRates, constraints: Constraints) -> Allocation:
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

        return np.concatenate(map_blocks(of_block, rates.shape))

    def allocation_at(multiplier: float) -> Allocation:
        nu = context_multipliers(multiplier)
        return Allocation(PricedPropensities(rates, cost, lower, multiplier, nu), multiplier, nu)

    def spend(multiplier: float) -> float:
        propensities = allocation_at(multiplier).propensities

        def of_block(block: slice) -> float:
            return constraints.total(_row_sums(propensities.block(block), constraints.cost_of(block)), block)

        return sum(map_blocks(of_block, rates.shape))

    if spend(0.0) <= budget * (1 + _BUDGET_PRECISION):
        return allocation_at(0.0)
    largest_rate = max(map_blocks(lambda block: rates.block(block).max(), rates.shape))
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

"""The A-optimal allocation of a budget: propensities that minimise sum information / propensity, and cost the budget.

Notes
-----
The Lagrangian of the problem has a multiplier lambda for the budget. Where a context gets at most one label, there is a
further multiplier nu for each context. At the optimum information / pi^2 = lambda cost + nu in every cell, unless pi is
one or the smallest propensity allowed, ``lower``. Where nu is zero, pi is the *rate* sqrt(information / cost) times the
*level* lambda^(-1/2). The cost increases with the level, so that one search for the level finds the optimum.

In this module n is the number of rows and m the number of pairs; a cell is one row and one pair. A plan for many
contexts and models has very many propensities. They are not stored, but computed for the rows that a caller needs, from
numbers that the plan stores in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from .._utils.tasks_and_threads import current, in_order
from ..data.arrays import row_slices
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
# Relative precision of a cost that is to equal the budget; a sum over millions of cells is no more precise.
_BUDGET_PRECISION = 1e-11
# Precision of the sum of a context's propensities.
_SUM_PRECISION = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """Numbers by row, (n, ...), that are computed for the rows that are indexed: by ``rule``, as new arrays."""

    shape: tuple[int, ...]
    rule: Callable[[Rows], FloatArray]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows) -> FloatArray:
        return self.rule(rows)


# Probabilities that pairs are labelled, (n, m).
Propensities: TypeAlias = FloatArray | Computed


def cell_rates(base: CellArray, factor: FloatArray | float = 1.0, pair_factor: FloatArray | float = 1.0) -> Computed:
    """Return the rates ``sqrt(information / cost)`` of all cells, (n, m), as the product of up to three factors.

    Optimal propensities are proportional to the rates where they are neither the smallest ones allowed nor one.

    Shapes: base (n, m), factor (n or 1, 1 or m), pair_factor (m,).
    """
    return Computed(base.shape, partial(_product, base, np.atleast_2d(factor), pair_factor))


def _product(base: CellArray, factor: FloatArray, pair_factor: FloatArray | float, rows: Rows) -> FloatArray:
    """Return the rates of some rows, (b, m), in double precision; a new array."""
    return np.multiply(base[rows], at_rows(factor, rows) * pair_factor, dtype=np.float64)


def at_rows(table: FloatArray, rows: Rows) -> FloatArray:
    """Return some rows of a table that has one row for each row of a problem, or a single row for all of them."""
    return table if len(table) == 1 else table[rows]


def propensity_table(propensities: Propensities) -> FloatArray:
    """Return all propensities as an array, (n, m)."""
    if isinstance(propensities, np.ndarray):
        return propensities
    table = np.empty(propensities.shape)
    for block in row_slices(len(table), table.shape[1], CACHED_CELLS):
        table[block] = propensities[block]
    return table


def cached_blocks(rows: slice, n_pairs: int) -> list[slice]:
    """Return the blocks of a range of rows, each of about as many rows as have 65,536 cells."""
    size = max(1, CACHED_CELLS // n_pairs)
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]


def map_blocks(work: Callable[[slice], T], shape: tuple[int, ...]) -> list[T]:
    """Return the results of a function for all blocks of rows, in order.

    The blocks do not depend on the number of threads. Sums of the results are therefore the same to the last bit.
    """
    n_rows, n_pairs = shape

    def work_on(task: slice) -> list[T]:
        return [work(block) for block in cached_blocks(task, n_pairs)]

    tasks = list(row_slices(n_rows, n_pairs, _TASK_CELLS))
    return [result for results in in_order(work_on, tasks, current().n_threads) for result in results]


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Propensities, (n, m), that minimise the sum of information / propensity, with the Lagrange multipliers.

    multiplier: lambda: the amount by which one more unit of budget would lower the sum. Zero where the budget is slack;
        infinite where the budget pays for no more than the smallest propensities.
    context_multiplier (n,): nu of each row where a context gets at most one label.
    """

    propensities: Propensities
    multiplier: float
    context_multiplier: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The constraints of an allocation; cost and lower are (n or 1, m or 1).

    lower: Smallest propensity; the smallest propensities together cost no more than the budget.
    one_pair: Whether the propensities of a context add up to at most one.
    count (n,): Number of contexts that each row stands for; None for one.
    before: Labels of each pair that there are already, (1, m), by context; with them the sum to minimise is that of
        information / (before + propensity).
    """

    cost: FloatArray
    lower: FloatArray
    budget: float
    one_pair: bool
    count: FloatArray | None = None
    before: FloatArray | float = 0.0

    def spent(self, propensity: FloatArray, rows: slice) -> float:
        """Return the cost over the contexts of some rows, from their propensities, (b, m)."""
        cost = at_rows(self.cost, rows)
        if cost.shape[1] == 1:
            by_row = propensity.sum(axis=1) * cost[:, 0]
        else:
            by_row = propensity @ cost[0] if len(cost) == 1 else np.einsum("nm,nm->n", propensity, cost)
        return float(by_row.sum() if self.count is None else self.count[rows] @ by_row)


def allocate(rates: Computed, constraints: Constraints, *, start: float = np.inf) -> Allocation:
    """Find the propensities that minimise the sum of information / propensity; ``start`` is a level near the optimum's.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    if constraints.one_pair and constraints.cost.shape[1] > 1:
        return _allocate_one_pair(rates, constraints)
    cap = _largest_levels(rates, constraints)
    level = _budget_level(rates, constraints, cap, start)
    propensities = Computed(rates.shape, partial(_propensities_at_level, rates, constraints, level, cap))
    multiplier = 0.0 if np.isinf(level) else level**-2.0 if level > 0 else np.inf
    if cap is None:
        return Allocation(propensities, multiplier)
    with np.errstate(divide="ignore"):
        context_multiplier = np.where(cap < level, constraints.cost[:, 0] * (cap**-2.0 - multiplier), 0.0)
    return Allocation(propensities, multiplier, context_multiplier)


def propensities_at_multiplier(rates: Computed, constraints: Constraints, multiplier: float) -> FloatArray:
    """Return the propensities of other contexts, (n, m), by the rule of an allocation: with the same lambda."""
    if constraints.one_pair and constraints.cost.shape[1] > 1:
        return propensity_table(_one_pair_at(rates, constraints, multiplier).propensities)
    cap, every_row = _largest_levels(rates, constraints), slice(0, rates.shape[0])
    return _propensities_at_level(rates, constraints, level_of(multiplier), cap, every_row)


def level_of(multiplier: float) -> float:
    """Return the level lambda^(-1/2), by which rates are multiplied."""
    return np.inf if multiplier == 0 else multiplier**-0.5


def kkt_residual(rates: Computed, constraints: Constraints, allocation: Allocation) -> float:
    """Return the largest relative violation of the Karush-Kuhn-Tucker conditions information / pi^2 = lambda cost + nu.

    With earlier labels, pi is ``before`` + propensity. Where a propensity is the smallest one allowed, the left side
    may be smaller; where it is one, it may be larger.
    """
    if np.isinf(allocation.multiplier):
        return 0.0

    def violation_of(block: slice) -> float:
        propensity, cost = allocation.propensities[block], at_rows(constraints.cost, block)
        total_price = allocation.multiplier * cost
        if allocation.context_multiplier is not None:
            total_price = total_price + allocation.context_multiplier[block, None]
        gain = np.square(rates[block] / (propensity + constraints.before)) * cost
        violation = (gain - total_price) / np.maximum(np.maximum(total_price, gain), np.finfo(float).tiny)
        at_floor = propensity <= at_rows(constraints.lower, block) * (1 + 1e-12)
        np.maximum(violation, 0, out=violation, where=at_floor)
        np.minimum(violation, 0, out=violation, where=propensity >= 1 - 1e-12)
        return float(np.abs(violation).max(initial=0.0))

    return max(map_blocks(violation_of, rates.shape), default=0.0)


# --- any number of labels, or at most one where the labels of a context cost the same ---------------------------------


def _largest_levels(rates: Computed, constraints: Constraints) -> FloatArray | None:
    """Return the level at which the propensities of each row add up to one, (n,); None for any number of labels.

    All labels of a context cost the same here, so that lambda cost + nu is one number per context. The constraint of at
    most one label is therefore a largest level of the context.
    """
    if not constraints.one_pair:
        return None
    lower, before = constraints.lower, constraints.before
    return np.concatenate(
        map_blocks(lambda block: _one_pair_level(rates[block], at_rows(lower, block), before), rates.shape)
    )


def _propensities_at_level(
    rates: Computed, constraints: Constraints, level: float, cap: FloatArray | None, rows: Rows
) -> FloatArray:
    """Return the propensities of some rows at a level, or at the largest level of the row, ``cap``.

    Where the level is infinite, the result is one for every label with information.
    """
    most, rate = level if cap is None else np.minimum(level, cap[rows])[:, None], rates[rows]
    with np.errstate(invalid="ignore"):
        rate *= most
    if not np.isfinite(most).all():
        rate[np.isnan(rate)] = 0.0  # infinity times the rate of a label without information
    rate -= constraints.before
    np.maximum(rate, at_rows(constraints.lower, rows), out=rate)
    return np.minimum(rate, 1.0, out=rate)


def _budget_level(rates: Computed, constraints: Constraints, cap: FloatArray | None, start: float) -> float:
    """Find the level at which the propensities cost the budget; infinite where the budget is slack."""
    lower, budget = constraints.lower, constraints.budget

    def spending(level: float) -> tuple[float, float]:
        """Return the expected cost at a level, and its derivative."""

        def of_block(block: slice) -> tuple[float, float]:
            propensity = _propensities_at_level(rates, constraints, level, cap, block)
            total = constraints.spent(propensity, block)
            if not np.isfinite(level):
                return total, 0.0
            # Only propensities that are not clipped change with the level.
            is_free = (propensity > at_rows(lower, block)) & (propensity < 1)
            if cap is not None:
                is_free &= (cap[block] > level)[:, None]
            propensity += constraints.before
            propensity *= is_free
            return total, constraints.spent(propensity, block) / level

        parts = map_blocks(of_block, rates.shape)
        return sum(total for total, _ in parts), sum(slope for _, slope in parts)

    def is_slack() -> bool:
        return spending(np.inf)[0] <= budget * (1 + _BUDGET_PRECISION)

    if np.isinf(start):
        if is_slack():
            return np.inf
        # The level at which the budget would be spent if no propensity were clipped.
        start = budget / sum(map_blocks(lambda block: constraints.spent(rates[block], block), rates.shape))
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
    rates: Computed, constraints: Constraints, multiplier: float, nu: FloatArray, rows: Rows
) -> FloatArray:
    """Return the propensities of some rows, sqrt(information / price) at the price lambda x cost + nu of a label."""
    cost_of_label, lower = at_rows(constraints.cost, rows), float(np.min(constraints.lower))
    price = multiplier * cost_of_label + nu[rows][:, None]
    return _at_price(rates[rows] * np.sqrt(cost_of_label), price, lower, constraints.before)


def _allocate_one_pair(rates: Computed, constraints: Constraints) -> Allocation:
    """Allocate at most one label per context where the pairs of a context differ in cost."""
    lower, budget = float(np.min(constraints.lower)), constraints.budget

    def excess(log_multiplier: float) -> float:
        propensities = _one_pair_at(rates, constraints, float(np.exp(log_multiplier))).propensities
        return sum(map_blocks(lambda block: constraints.spent(propensities[block], block), rates.shape)) - budget

    if excess(-np.inf) <= budget * _BUDGET_PRECISION:
        return _one_pair_at(rates, constraints, 0.0)
    largest_rate = max(map_blocks(lambda block: rates[block].max(), rates.shape))
    # For any lambda beyond ``high`` every propensity is the smallest one allowed, and the smallest propensities cost no
    # more than the budget.
    high = 2 * float(np.log(largest_rate / lower))
    low = high - 4.0
    while excess(low) <= 0:
        high, low = low, low - 4.0
    log_multiplier = scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16)
    return _one_pair_at(rates, constraints, float(np.exp(log_multiplier)))


def _one_pair_at(rates: Computed, constraints: Constraints, multiplier: float) -> Allocation:
    """Return the allocation of at most one label per context with a given lambda."""

    def nu_of(block: slice) -> FloatArray:
        cost = np.broadcast_to(at_rows(constraints.cost, block), (block.stop - block.start, rates.shape[1]))
        root, lower = rates[block] * np.sqrt(cost), float(np.min(constraints.lower))
        return _context_multipliers(root, multiplier * cost, lower, constraints.before)

    nu = np.concatenate(map_blocks(nu_of, rates.shape))
    rule = partial(_propensities_at_price, rates, constraints, multiplier, nu)
    return Allocation(Computed(rates.shape, rule), multiplier, nu)


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

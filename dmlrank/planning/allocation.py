"""The A-optimal allocation of a budget: monotone searches over one multiplier, vectorised over contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from ..data.preferences import FloatArray

# Contexts whose temporary arrays live at a time.
ROWS = 4096
# Relative precision of budgets: sums over millions of cells are no more precise.
_SPENT = 1e-11
_CLOSE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Propensities that minimise the sum of information / propensity, and the Lagrange multipliers that prove it.

    Attributes
    ----------
    propensity : ndarray, shape (n, m)
    multiplier : float
        lambda, what one more unit of budget would take off; zero where the budget is slack.
    context_multiplier : ndarray, shape (n,), or None
        nu of each context where it gets at most one label.
    """

    propensity: FloatArray
    multiplier: float
    context_multiplier: FloatArray | None = None

    @property
    def slack(self) -> bool:
        """Whether more budget would buy nothing."""
        return self.multiplier == 0


def allocate(
    information: FloatArray,
    cost: FloatArray,
    lower: FloatArray,
    budget: float,
    one_pair: bool,
    *,
    count: FloatArray | None = None,
    rows: int = ROWS,
) -> Allocation:
    """Propensities between ``lower`` and 1 that minimise the sum of information / propensity within the budget.

    Parameters
    ----------
    information : ndarray, shape (n, m)
        Of a label of each cell; not negative.
    cost : ndarray, shape (n or 1, m or 1)
        Positive.
    lower : ndarray, shape (1, m or 1)
        Floors; they have to cost no more than the budget.
    budget : float
    one_pair : bool
        Whether the propensities of a context must not add up to more than one.
    count : ndarray, shape (n,), optional
        Contexts that each row stands for; one when None.
    rows : int
        Contexts whose temporary arrays live at a time.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    count = np.ones(len(information)) if count is None else count
    if one_pair and cost.shape[1] > 1:
        whole = np.broadcast_to(cost, information.shape)
        return _allocate_one_pair(information, whole, lower, budget, count=count, rows=rows)
    rate = information / cost
    np.sqrt(rate, out=rate)
    # Where labels of a context cost the same, lambda c + nu is one number per context: a cap on its level.
    cap = _one_pair_level(rate, lower, rows) if one_pair else np.full(len(rate), np.inf)
    level = _budget_level(rate, cost, lower, cap, budget=budget, count=count, rows=rows)
    propensity = np.empty_like(rate)
    for block in _blocks(len(rate), rows):
        propensity[block] = _at_level(rate[block], lower, np.minimum(level, cap[block]))
    multiplier = 0.0 if np.isinf(level) else level**-2.0 if level > 0 else np.inf
    if not one_pair:
        return Allocation(propensity, multiplier)
    with np.errstate(divide="ignore"):
        context_multiplier = np.where(cap < level, cost[:, 0] * (cap**-2.0 - multiplier), 0.0)
    return Allocation(propensity, multiplier, context_multiplier)


def propensities_at_multiplier(
    information: FloatArray, cost: FloatArray, lower: FloatArray, multiplier: float, one_pair: bool
) -> FloatArray:
    """The rule of an allocation in other contexts, (n, m): propensities there with the same budget multiplier."""
    if one_pair and cost.shape[1] > 1:
        root, price = np.sqrt(information), multiplier * np.broadcast_to(cost, information.shape)
        return _at_price(root, price + _context_multipliers(root, price, lower)[:, None], lower)
    rate = np.sqrt(information / cost)
    cap = _one_pair_level(rate, lower, ROWS) if one_pair else np.full(len(rate), np.inf)
    level = np.inf if multiplier == 0 else multiplier**-0.5
    return _at_level(rate, lower, np.minimum(level, cap))


def kkt_residual(
    information: FloatArray, cost: FloatArray, lower: FloatArray, found: Allocation, *, cells: int = 50_000
) -> float:
    """Largest relative violation of the Karush-Kuhn-Tucker conditions information / pi^2 = lambda cost + nu.

    At floors and at ones the conditions are one-sided. About ``cells`` cells are looked at together: a dozen arrays of
    this size stay in the processor's cache, which is several times as fast as arrays of whole blocks of contexts.
    """
    if np.isinf(found.multiplier):
        return 0.0
    worst = 0.0
    cost = np.broadcast_to(cost, information.shape)
    for block in _blocks(len(information), max(1, cells // information.shape[1])):
        price = found.multiplier * cost[block]
        if found.context_multiplier is not None:
            price = price + found.context_multiplier[block, None]
        gain = information[block] / np.square(found.propensity[block])
        scale = np.maximum(np.maximum(price, gain), np.finfo(float).tiny)
        violation = (gain - price) / scale
        at_floor = found.propensity[block] <= lower * (1 + 1e-12)
        at_one = found.propensity[block] >= 1 - 1e-12
        violation = np.where(at_floor, np.maximum(violation, 0), violation)
        violation = np.where(at_one, np.minimum(violation, 0), violation)
        worst = max(worst, float(np.abs(violation).max(initial=0.0)))
    return worst


def _blocks(n: int, rows: int) -> Iterator[slice]:
    return (slice(at, min(at + rows, n)) for at in range(0, n, rows))


def _block_of(cost: FloatArray, block: slice, shape: tuple[int, ...]) -> FloatArray:
    return np.broadcast_to(cost if len(cost) == 1 else cost[block], shape)


def _at_level(rate: FloatArray, lower: FloatArray, level: FloatArray | float) -> FloatArray:
    """clip(level rate) between the floors and one, (b, m); at level infinity, one wherever a label tells anything."""
    with np.errstate(invalid="ignore"):
        scaled = np.asarray(level)[..., None] * rate
    if not np.isfinite(level).all():
        scaled[np.isnan(scaled)] = 0.0  # a label that tells nothing
    return np.clip(scaled, lower, 1.0, out=scaled)


def _budget_level(
    rate: FloatArray,
    cost: FloatArray,
    lower: FloatArray,
    cap: FloatArray,
    *,
    budget: float,
    count: FloatArray,
    rows: int,
) -> float:
    """The level t = lambda^(-1/2) at which min(t, cap) rate, clipped, costs the budget; infinite where it is slack.

    The cost is increasing and piecewise linear in t, so that Newton's method with a bracket ends at the exact root.
    """

    def spend(level: float) -> tuple[float, float]:
        total, slope = 0.0, 0.0
        for block in _blocks(len(rate), rows):
            own = np.minimum(level, cap[block])
            made = _at_level(rate[block], lower, own)
            price = _block_of(cost, block, made.shape)
            total += float(count[block] @ np.einsum("nm,nm->n", made, price))
            moving = (made > lower) & (made < 1) & (own == level)[:, None]
            slope += float(count[block] @ np.einsum("nm,nm,nm->n", rate[block], price, moving))
        return total, slope

    if spend(np.inf)[0] <= budget * (1 + _SPENT):
        return np.inf
    low, high = 0.0, np.inf
    level = budget / sum(
        float(count[block] @ np.einsum("nm,nm->n", rate[block], _block_of(cost, block, rate[block].shape)))
        for block in _blocks(len(rate), rows)
    )
    for _ in range(200):
        total, slope = spend(level)
        if abs(total - budget) <= _SPENT * budget:
            break
        low, high = (level, high) if total < budget else (low, level)
        step = level + (budget - total) / slope if slope > 0 else np.inf
        inside = low < step < high
        level = step if inside else 2 * level if np.isinf(high) else (low + high) / 2
        if high <= low:
            break
    return level


def _one_pair_level(rate: FloatArray, lower: FloatArray, rows: int) -> FloatArray:
    """The level at which the propensities of a context add up to one, (n,); infinite where they never do.

    The sum is convex and piecewise linear, so that Newton's method from above ends at the exact root.
    """
    caps = np.empty(len(rate))
    for block in _blocks(len(rate), rows):
        own = rate[block]
        total = own.sum(axis=1)
        with np.errstate(divide="ignore"):
            level = 1 / total
        active = np.isfinite(level)
        for _ in range(100):
            raised = level[active, None] * own[active]
            moving = raised > lower
            excess = np.where(moving, raised, lower).sum(axis=1) - 1
            slope = np.where(moving, own[active], 0).sum(axis=1)
            step = np.divide(excess, slope, out=np.zeros_like(excess), where=(slope > 0) & (excess > _CLOSE))
            level[active] -= step
            if not step.any():
                break
        caps[block] = level
    return caps


def _allocate_one_pair(
    information: FloatArray, cost: FloatArray, lower: FloatArray, budget: float, *, count: FloatArray, rows: int
) -> Allocation:
    """At most one label per context whose pairs differ in cost: two nested monotone searches."""
    root = np.sqrt(information)

    def at_multiplier(multiplier: float) -> tuple[FloatArray, FloatArray]:
        propensity, added = np.empty_like(root), np.empty(len(root))
        for block in _blocks(len(root), rows):
            added[block] = _context_multipliers(root[block], multiplier * cost[block], lower)
            propensity[block] = _at_price(root[block], multiplier * cost[block] + added[block, None], lower)
        return propensity, added

    def spent(propensity: FloatArray) -> float:
        blocks = _blocks(len(root), rows)
        return float(sum(count[block] @ np.einsum("nm,nm->n", propensity[block], cost[block]) for block in blocks))

    def excess(log_multiplier: float) -> float:
        propensity = at_multiplier(float(np.exp(log_multiplier)))[0]
        return spent(propensity) - budget

    propensity, added = at_multiplier(0.0)
    if spent(propensity) <= budget * (1 + _SPENT):
        return Allocation(propensity, 0.0, added)
    multiplier = _root_of_falling(excess, float(np.log((information / cost).max() / lower.min() ** 2)))
    propensity, added = at_multiplier(multiplier)
    return Allocation(propensity, multiplier, added)


def _root_of_falling(excess: Callable[[float], float], top: float) -> float:
    """exp of the point below ``top`` where a falling function, positive far to the left, crosses zero."""
    low = top - 4.0
    while excess(low) <= 0:
        top, low = low, low - 4.0
    return float(np.exp(brentq(excess, low, top, xtol=1e-15, rtol=8.9e-16)))


def _context_multipliers(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """nu of each context, (b,): what raises the price of its labels until their propensities add up to one.

    1 / (sum of propensities)^2 is close to linear in nu, so that Newton's method on it takes a few steps.
    """
    found = np.zeros(len(root))
    room = 1 - np.broadcast_to(lower, root.shape).sum(axis=1)
    with np.errstate(divide="ignore"):
        high = np.where(root.any(axis=1), np.square(root.sum(axis=1) / np.maximum(room, 1e-300)), 0.0)
    low = np.zeros(len(root))
    full = np.flatnonzero(_at_price(root, price, lower).sum(axis=1) > 1 + _CLOSE)
    found[full] = np.maximum(np.square(root[full].sum(axis=1)) - price[full].max(axis=1), 0.0)
    for _ in range(200):
        if not len(full):
            break
        now = found[full]
        paid = price[full] + now[:, None]
        made = _at_price(root[full], paid, lower)
        total = made.sum(axis=1)
        fall = np.where(made > lower, made / (2 * paid), 0).sum(axis=1)
        low[full] = np.where(total > 1, np.maximum(low[full], now), low[full])
        high[full] = np.where(total < 1, np.minimum(high[full], now), high[full])
        step = np.divide(total * (total**2 - 1), 2 * fall, out=np.full(len(full), np.inf), where=fall > 0)
        moved = now + step
        inside = (moved >= low[full]) & (moved <= high[full])
        done = (np.abs(total - 1) <= _CLOSE) | (high[full] - low[full] <= 1e-16 * high[full])
        found[full] = np.where(done, now, np.where(inside, moved, (low[full] + high[full]) / 2))
        full = full[~done]
    return found


def _at_price(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """Propensities root / sqrt(price), (b, m), not below the floors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = root / np.sqrt(price)
    return np.maximum(np.nan_to_num(raised, copy=False, nan=0.0, posinf=np.inf), lower)

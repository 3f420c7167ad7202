"""The A-optimal allocation of a budget: monotone searches over one multiplier, vectorised over contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from ..data.preferences import FloatArray

# Contexts whose temporary arrays live at a time.
_ROWS = 4096
# Relative precision of budgets: sums over millions of cells are no more precise.
_SPENT = 1e-11
_CLOSE = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Propensities that minimise sum w / pi, and the multipliers that prove it.

    Attributes
    ----------
    propensity : ndarray, shape (n, m)
    multiplier : float
        lambda, what one more unit of budget would take off; zero where the budget is slack.
    water : ndarray, shape (n,), or None
        nu of each context where it gets at most one label.
    """

    propensity: FloatArray
    multiplier: float
    water: FloatArray | None = None

    @property
    def slack(self) -> bool:
        """Whether more budget would buy nothing."""
        return self.multiplier == 0


def allocate(worth: FloatArray, cost: FloatArray, lower: FloatArray, budget: float, one_pair: bool) -> Allocation:
    """Propensities between ``lower`` and 1 that minimise the sum of worth / propensity within the budget.

    Parameters
    ----------
    worth : ndarray, shape (n, m)
        Not negative.
    cost : ndarray, shape (n or 1, m or 1)
        Positive.
    lower : ndarray, shape (1, m or 1)
        Floors; they have to cost no more than the budget.
    budget : float
    one_pair : bool
        Whether the propensities of a context must not add up to more than one.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation] and [P thm:allocation_onehot0].
    """
    if one_pair and cost.shape[1] > 1:
        return _water_filled(worth, np.broadcast_to(cost, worth.shape), lower, budget)
    rate = worth / cost
    np.sqrt(rate, out=rate)
    # Where labels of a context cost the same, lambda c + nu is one number per context: a cap on its level.
    cap = _water_level(rate, lower) if one_pair else np.full(len(rate), np.inf)
    level = _level(rate, cost, lower, cap, budget)
    propensity = np.empty_like(rate)
    for rows in _blocks(len(rate)):
        propensity[rows] = _at_level(rate[rows], lower, np.minimum(level, cap[rows]))
    multiplier = 0.0 if np.isinf(level) else level**-2.0 if level > 0 else np.inf
    if not one_pair:
        return Allocation(propensity, multiplier)
    with np.errstate(divide="ignore"):
        water = np.where(cap < level, cost[:, 0] * (cap**-2.0 - multiplier), 0.0)
    return Allocation(propensity, multiplier, water)


def follow(worth: FloatArray, cost: FloatArray, lower: FloatArray, multiplier: float, one_pair: bool) -> FloatArray:
    """The rule of an allocation in other contexts, (n, m): what it does there with the same multiplier."""
    if one_pair and cost.shape[1] > 1:
        root, price = np.sqrt(worth), multiplier * np.broadcast_to(cost, worth.shape)
        return _under_water(root, price + _water(root, price, lower)[:, None], lower)
    rate = np.sqrt(worth / cost)
    cap = _water_level(rate, lower) if one_pair else np.full(len(rate), np.inf)
    level = np.inf if multiplier == 0 else multiplier**-0.5
    return _at_level(rate, lower, np.minimum(level, cap))


def stationarity(worth: FloatArray, cost: FloatArray, lower: FloatArray, found: Allocation) -> float:
    """Largest relative violation of the optimality conditions w / pi^2 = lambda c + nu, (floors and ones one-sided)."""
    if np.isinf(found.multiplier):
        return 0.0
    worst = 0.0
    cost = np.broadcast_to(cost, worth.shape)
    for rows in _blocks(len(worth)):
        price = found.multiplier * cost[rows]
        if found.water is not None:
            price = price + found.water[rows, None]
        gain = worth[rows] / np.square(found.propensity[rows])
        scale = np.maximum(np.maximum(price, gain), np.finfo(float).tiny)
        violation = (gain - price) / scale
        at_floor = found.propensity[rows] <= lower * (1 + 1e-12)
        at_one = found.propensity[rows] >= 1 - 1e-12
        violation = np.where(at_floor, np.maximum(violation, 0), violation)
        violation = np.where(at_one, np.minimum(violation, 0), violation)
        worst = max(worst, float(np.abs(violation).max(initial=0.0)))
    return worst


def _blocks(n: int) -> Iterator[slice]:
    return (slice(at, min(at + _ROWS, n)) for at in range(0, n, _ROWS))


def _rows_of(cost: FloatArray, rows: slice, shape: tuple[int, ...]) -> FloatArray:
    return np.broadcast_to(cost if len(cost) == 1 else cost[rows], shape)


def _at_level(rate: FloatArray, lower: FloatArray, level: FloatArray | float) -> FloatArray:
    """clip(level rate) between the floors and one, (b, m); at level infinity, one wherever a label tells anything."""
    with np.errstate(invalid="ignore"):
        raised = np.asarray(level)[..., None] * rate
    np.nan_to_num(raised, copy=False, nan=0.0)  # a label that tells nothing, at an infinite level
    return np.clip(raised, lower, 1.0)


def _level(rate: FloatArray, cost: FloatArray, lower: FloatArray, cap: FloatArray, budget: float) -> float:
    """The level t = lambda^(-1/2) at which min(t, cap) rate, clipped, costs the budget; infinite where it is slack.

    The cost is increasing and piecewise linear in t, so that Newton's method with a bracket ends at the exact root.
    """

    def spend(level: float) -> tuple[float, float]:
        total, slope = 0.0, 0.0
        for rows in _blocks(len(rate)):
            own = np.minimum(level, cap[rows])
            made = _at_level(rate[rows], lower, own)
            price = _rows_of(cost, rows, made.shape)
            total += float(np.einsum("nm,nm->", made, price))
            moving = (made > lower) & (made < 1) & (own == level)[:, None]
            slope += float(np.einsum("nm,nm,nm->", rate[rows], price, moving))
        return total, slope

    if spend(np.inf)[0] <= budget * (1 + _SPENT):
        return np.inf
    low, high = 0.0, np.inf
    level = budget / sum(
        float(np.einsum("nm,nm->", rate[rows], _rows_of(cost, rows, rate[rows].shape))) for rows in _blocks(len(rate))
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


def _water_level(rate: FloatArray, lower: FloatArray) -> FloatArray:
    """The level at which the propensities of a context add up to one, (n,); infinite where they never do.

    The sum is convex and piecewise linear, so that Newton's method from above ends at the exact root.
    """
    caps = np.empty(len(rate))
    for rows in _blocks(len(rate)):
        own = rate[rows]
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
        caps[rows] = level
    return caps


def _water_filled(worth: FloatArray, cost: FloatArray, lower: FloatArray, budget: float) -> Allocation:
    """At most one label per context whose pairs differ in cost: two nested monotone searches."""
    root = np.sqrt(worth)

    def filled(multiplier: float) -> tuple[FloatArray, FloatArray]:
        propensity, water = np.empty_like(root), np.empty(len(root))
        for rows in _blocks(len(root)):
            water[rows] = _water(root[rows], multiplier * cost[rows], lower)
            propensity[rows] = _under_water(root[rows], multiplier * cost[rows] + water[rows, None], lower)
        return propensity, water

    def excess(log_multiplier: float) -> float:
        propensity = filled(float(np.exp(log_multiplier)))[0]
        return float(sum(np.einsum("nm,nm->", propensity[rows], cost[rows]) for rows in _blocks(len(root)))) - budget

    propensity, water = filled(0.0)
    if float((propensity * cost).sum()) <= budget * (1 + _SPENT):
        return Allocation(propensity, 0.0, water)
    multiplier = _root_of_falling(excess, float(np.log((worth / cost).max() / lower.min() ** 2)))
    propensity, water = filled(multiplier)
    return Allocation(propensity, multiplier, water)


def _root_of_falling(excess: Callable[[float], float], top: float) -> float:
    """exp of the point below ``top`` where a falling function, positive far to the left, crosses zero."""
    low = top - 4.0
    while excess(low) <= 0:
        top, low = low, low - 4.0
    return float(np.exp(brentq(excess, low, top, xtol=1e-15, rtol=8.9e-16)))


def _water(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    """nu of each context, (b,): what raises the price of its labels until their propensities add up to one.

    1 / (sum of propensities)^2 is close to linear in nu, so that Newton's method on it takes a few steps.
    """
    water = np.zeros(len(root))
    room = 1 - np.broadcast_to(lower, root.shape).sum(axis=1)
    with np.errstate(divide="ignore"):
        high = np.where(root.any(axis=1), np.square(root.sum(axis=1) / np.maximum(room, 1e-300)), 0.0)
    low = np.zeros(len(root))
    full = np.flatnonzero(_under_water(root, price, lower).sum(axis=1) > 1 + _CLOSE)
    water[full] = np.maximum(np.square(root[full].sum(axis=1)) - price[full].max(axis=1), 0.0)
    for _ in range(200):
        if not len(full):
            break
        now = water[full]
        paid = price[full] + now[:, None]
        made = _under_water(root[full], paid, lower)
        total = made.sum(axis=1)
        fall = np.where(made > lower, made / (2 * paid), 0).sum(axis=1)
        low[full] = np.where(total > 1, np.maximum(low[full], now), low[full])
        high[full] = np.where(total < 1, np.minimum(high[full], now), high[full])
        step = np.divide(total * (total**2 - 1), 2 * fall, out=np.full(len(full), np.inf), where=fall > 0)
        moved = now + step
        inside = (moved >= low[full]) & (moved <= high[full])
        done = (np.abs(total - 1) <= _CLOSE) | (high[full] - low[full] <= 1e-16 * high[full])
        water[full] = np.where(done, now, np.where(inside, moved, (low[full] + high[full]) / 2))
        full = full[~done]
    return water


def _under_water(root: FloatArray, price: FloatArray, lower: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = root / np.sqrt(price)
    return np.maximum(np.nan_to_num(raised, copy=False, nan=0.0, posinf=np.inf), lower)

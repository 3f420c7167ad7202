"""Propensities of a plan, computed for a block of rows at a time.

A plan for many contexts and models has very many propensities. They are not stored: the classes of this module compute
them, for the rows that a caller needs, from numbers that the plan stores in any case. A cell is one row and one pair.
In this module n is the number of rows, and m the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._utils.parallel import in_order
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


def cached_blocks(rows: slice, n_pairs: int, size: int | None = None) -> list[slice]:
    """Return the blocks of a range of rows: ``size`` rows each, or about as many rows as have 65,536 cells."""
    size = max(1, CACHED_CELLS // n_pairs) if size is None else size
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]


def map_blocks(
    work: Callable[[slice], T], shape: tuple[int, int], *, n_jobs: int = 1, size: int | None = None
) -> list[T]:
    """Return the results of a function for all blocks of rows, in order.

    The blocks do not depend on the number of threads. Sums of the results are therefore the same to the last bit.
    """
    n_rows, n_pairs = shape
    rows_of_task = max(1, _TASK_CELLS // n_pairs)
    tasks = [slice(start, min(start + rows_of_task, n_rows)) for start in range(0, n_rows, rows_of_task)]

    def work_on(task: slice) -> list[T]:
        return [work(block) for block in cached_blocks(task, n_pairs, size)]

    return [result for results in in_order(work_on, tasks, n_jobs) for result in results]

"""Numbers by row and cell of a plan's problem: computed for the rows that are indexed, and block by block.

A plan for many contexts and models has very many propensities. They are not stored, but computed for the rows that a
caller needs, from numbers that the plan stores in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
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


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Sequence[Any]):
    """Numbers by row, (n, ...), that are computed for the rows that are indexed: by ``rule``, as new arrays."""

    shape: tuple[int, ...]
    rule: Callable[[Any], Any]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
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

"""The design problem of a plan: contexts, the pairs that can be labelled, and the information and cost of a label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from .._utils.parallel import in_order
from .._utils.progress import report
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..estimation.outcome_floor import clip_and_renormalise
from ..exceptions import DataNotStoredError
from ..functionals import Functional
from .allocation import ROWS, propensities_at_multiplier

T = TypeVar("T")

# Fewer chunks are done too soon for a report.
_SHORT = 20


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The m pairs of items that can be labelled: ordered ones, or unordered ones with ``first < second``.

    Attributes
    ----------
    first, second : ndarray of int, shape (m,)
    n_items : int
    ordered : bool
    """

    first: IntArray
    second: IntArray
    n_items: int
    ordered: bool

    @classmethod
    def of(cls, graph: Graph, ordered: bool) -> Pairs:
        """The pairs on a graph."""
        first, second = np.nonzero(graph.edges if ordered else np.triu(graph.edges))
        return cls(first, second, graph.n_items, ordered)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, table: FloatArray) -> FloatArray:
        """Columns (n, m) of a table (n, K, K)."""
        # One index into the flat rows is several times as fast as two into the table.
        return np.take(table.reshape(len(table), -1), self.first * self.n_items + self.second, axis=1)

    def table(self, columns: FloatArray) -> FloatArray:
        """The table (n, K, K) of columns (n, m), zero off the graph; symmetric where pairs have no order."""
        made = np.zeros((len(columns), self.n_items**2))
        made[:, self.first * self.n_items + self.second] = columns
        if not self.ordered:
            made[:, self.second * self.n_items + self.first] = columns
        return made.reshape(-1, self.n_items, self.n_items)


class Tables(Protocol):
    """Probabilities of contexts, (n, K, K, C): an array, or what reads them from a fit when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, K, K, C)."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> FloatArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class SomeTables:
    """Tables of others, in another order or repeated; ``index`` (g,) says which."""

    tables: Tables
    index: IntArray

    @property
    def shape(self) -> tuple[int, ...]:
        """(g, K, K, C)."""
        return (len(self.index), *self.tables.shape[1:])

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, part: slice) -> FloatArray:
        wanted, place = np.unique(self.index[part], return_inverse=True)
        read = [self.tables[slice(at, at + 1)] for at in wanted]
        return np.concatenate(read)[place.reshape(-1)]


@dataclass(frozen=True, slots=True)
class TablesNotStored:
    """The place of probabilities that a stored plan does without."""

    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> FloatArray:
        raise DataNotStoredError(
            f"this plan was stored without the probabilities of its {self.shape[0]:,} different contexts, which its "
            f"fit predicts; make it again with design()"
        )


@runtime_checkable
class FixedDirections(Protocol):
    """A functional whose label of a pair moves the scores along the same direction in every context."""

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Directions d, (K, K, K), of the pairs (j, k): J V J' = v dd'; None where one direction is not enough."""
        ...

    def label_variances(self, mu: FloatArray) -> FloatArray:
        """v, (n, K, K), the variance of a label along its direction."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LabelVariances:
    """What a label of each cell is worth, where its direction does not depend on the context.

    Attributes
    ----------
    variance : ndarray, shape (g, m)
    directions : ndarray, shape (m, K)
    """

    variance: FloatArray
    directions: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class DesignProblem:
    """Everything about the contexts that a plan depends on: what a label tells and costs.

    Contexts that are alike are one row: "row" stands for all contexts with the same probabilities, weight and costs.

    Attributes
    ----------
    functional : Functional
        Bound to weights and graph.
    mu : Tables, shape (g, K, K, C)
        Probabilities of each row, not floored.
    floor : float
        Smallest probability of a category for functionals with a logit or a division.
    pairs : Pairs
    cost : ndarray, shape (g or 1, m or 1)
        What a label costs.
    one_pair : bool
        Whether a context gets at most one label.
    context_weight : ndarray, shape (g,), or None
        Weight of each context in the target population, with mean one over contexts.
    fixed_prompts : bool
        Whether the scores of these contexts alone are wanted, not of contexts like them.
    unit : float
        What scores are multiplied by where they are shown, such as Elo points per log-odds.
    n_jobs : int
        Threads.
    chunk_size : int
        Doubles in the chunks of mu that all threads hold together: a few arrays of this size live at a time.
    row : ndarray of int, shape (n,), or None
        Row of each context; None where every context is a row of its own.
    known : LabelVariances or None
        What labels are worth, where one pass over mu has found it.
    """

    functional: Functional
    mu: Tables
    floor: float
    pairs: Pairs
    cost: FloatArray
    one_pair: bool
    context_weight: FloatArray | None
    fixed_prompts: bool
    unit: float = 1.0
    n_jobs: int = 1
    chunk_size: int = 4_000_000
    row: IntArray | None = None
    known: LabelVariances | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, g."""
        return len(self.mu)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return self.n_rows if self.row is None else len(self.row)

    @property
    def count(self) -> FloatArray:
        """Contexts of each row, (g,)."""
        return np.ones(self.n_rows) if self.row is None else np.bincount(self.row, minlength=self.n_rows).astype(float)

    def rows_of(self, contexts: slice | IntArray) -> slice | IntArray:
        """The rows of contexts."""
        return contexts if self.row is None else self.row[contexts]

    def of_contexts(self, mu: FloatArray) -> DesignProblem:
        """The same problem for probabilities, (n, K, K, C), that may differ between all its contexts."""
        everyone = self.rows_of(slice(0, self.n_contexts))
        cost = self.cost if len(self.cost) == 1 else self.cost[everyone]
        weight = None if self.context_weight is None else self.context_weight[everyone]
        return replace(self, mu=mu, row=None, known=None, cost=cost, context_weight=weight)

    @property
    def interdependent(self) -> bool:
        """Whether the information of a label depends on the other labels of its context."""
        return False

    @property
    def total_cost(self) -> float:
        """What a label on every pair of every context would cost."""
        return self.expected_cost(1.0)

    def expected_cost(self, propensity: FloatArray | float) -> float:
        """Expected cost of propensities that broadcast to (g, m)."""
        whole = np.broadcast_to(propensity, (self.n_rows, len(self.pairs)))
        return blockwise_cost(whole, self.cost, self.count)

    def map_chunks(self, make: Callable[[slice, FloatArray], T]) -> list[T]:
        """``make`` of contexts and their floored probabilities, for chunks that fit into memory, in order."""
        size = max(1, self.chunk_size // self.n_jobs // int(np.prod(self.mu.shape[1:])))
        parts = [slice(at, min(at + size, self.n_rows)) for at in range(0, self.n_rows, size)]

        def one(part: slice) -> T:
            table = np.asarray(self.mu[part], dtype=np.float64)
            # With the diagonal alone below the floor nothing is raised, and a count tells so faster than clipping does.
            low = np.count_nonzero(table < self.floor) if self.functional.interior else 0
            return make(part, clip_and_renormalise(table, self.floor) if low > table[:, :, 0].size else table)

        made = []
        for number, result in enumerate(in_order(one, parts, self.n_jobs), start=1):
            made.append(result)
            report(number, len(parts), "plan, prompts", minor=len(parts) < _SHORT)
        return made

    def scanned(self) -> tuple[FloatArray, FloatArray, DesignProblem]:
        """Mean score, (K,), and covariance of the scores between contexts, (K, K), zero where contexts are fixed.

        The third is this problem with what the same pass over mu has found of the worth of labels, if they have fixed
        directions: no further pass is needed then.
        """
        functional, directions = self.functional, None
        if isinstance(functional, FixedDirections) and not self.interdependent:
            directions = functional.label_directions(self.pairs.n_items)
        variance = np.empty((self.n_rows, len(self.pairs))) if directions is not None else None

        def one(part: slice, mu: FloatArray) -> FloatArray:
            if variance is not None and isinstance(functional, FixedDirections):
                variance[part] = self.pairs.take(functional.label_variances(mu))
            return functional.value(mu)

        value = self.unit * np.concatenate(self.map_chunks(one))
        weight = self.count if self.context_weight is None else self.count * self.context_weight
        mean = weight @ value / self.n_contexts
        deviation = value - mean
        spread = (weight if self.context_weight is None else weight * self.context_weight)[:, None] * deviation
        covariance = spread.T @ deviation / self.n_contexts
        covariance = np.zeros_like(covariance) if self.fixed_prompts else (covariance + covariance.T) / 2
        if variance is None or directions is None:
            return mean, covariance, self
        known = LabelVariances(variance, directions[self.pairs.first, self.pairs.second])
        return mean, covariance, replace(self, known=known)

    def label_information(self, metric: FloatArray, propensity: FloatArray | None = None) -> FloatArray:
        """Information of a label of every cell, (g, m): the trace of metric times M, its share in the covariance.

        Parameters
        ----------
        metric : ndarray, shape (K, K)
        propensity : ndarray, shape (g, m), optional
            Used only by problems that are ``interdependent``.
        """
        if self.known is not None:
            directions = self.known.directions
            length = np.maximum(np.einsum("mj,jk,mk->m", directions, metric, directions, optimize=True), 0)
            made = self.known.variance * length
            made *= self._scale(slice(0, self.n_rows))
            return made
        made = np.empty((self.n_rows, len(self.pairs)))

        def one(part: slice, mu: FloatArray) -> None:
            np.multiply(self.pairs.take(self.functional.information(mu, metric)), self._scale(part), out=made[part])

        self.map_chunks(one)
        return made

    def labelling_covariance(self, propensity: FloatArray) -> FloatArray:
        """The part of the covariance Sigma, (K, K), that labelling adds: E sum M / pi; pi broadcasts to (g, m)."""
        table = np.broadcast_to(propensity, (self.n_rows, len(self.pairs)))
        count = self.count[:, None]
        if self.known is not None:
            directions, total = self.known.directions, np.zeros(len(self.pairs))
            for at in range(0, self.n_rows, ROWS):
                part = slice(at, min(at + ROWS, self.n_rows))
                total += (count[part] * self._scale(part) * self.known.variance[part] / table[part]).sum(axis=0)
            return np.asarray((directions.T * total) @ directions / self.n_contexts)
        # A pair without order is one label, counted where its first item stands first.
        alone = replace(self.pairs, ordered=True)

        def one(part: slice, mu: FloatArray) -> FloatArray:
            return np.asarray(
                self.functional.accumulate(mu, alone.table(count[part] * self._scale(part) / table[part]))
            )

        return np.asarray(sum(self.map_chunks(one)) / self.n_contexts)

    def propensities_at(self, metric: FloatArray, lower: FloatArray, multiplier: float) -> FloatArray:
        """Propensities, (g, m), by the rule of a plan with this multiplier in the problem's contexts."""
        information = self.label_information(metric)
        return propensities_at_multiplier(information, self.cost, lower, multiplier, self.one_pair)

    def _scale(self, part: slice) -> FloatArray | float:
        """Squared weights and unit; where order does not matter, J_jk + J_kj flip = 2 J_jk, so that M counts 4."""
        scale = self.unit**2 * (1.0 if self.pairs.ordered else 4.0)
        return scale if self.context_weight is None else scale * np.square(self.context_weight[part])[:, None]


def blockwise_cost(propensity: FloatArray, cost: FloatArray, count: FloatArray, rows: int = ROWS) -> float:
    """Sum of count times cost times propensity, (g, m), without a product of that size."""
    cost = np.broadcast_to(cost, propensity.shape)
    return float(
        sum(
            count[at : at + rows] @ np.einsum("nm,nm->n", propensity[at : at + rows], cost[at : at + rows])
            for at in range(0, len(propensity), rows)
        )
    )

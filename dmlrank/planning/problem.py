"""What a plan is made for: contexts, the cells that can be labelled, and what a label of each is worth and costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import raised

# Doubles in one chunk of mu: a few arrays of this size live at a time.
_CHUNK = 2_000_000


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
        return table[:, self.first, self.second]

    def table(self, columns: FloatArray) -> FloatArray:
        """The table (n, K, K) of columns (n, m), zero off the graph; symmetric where pairs have no order."""
        made = np.zeros((len(columns), self.n_items, self.n_items))
        made[:, self.first, self.second] = columns
        if not self.ordered:
            made[:, self.second, self.first] = columns
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Everything about the contexts that a plan depends on.

    Attributes
    ----------
    functional : Functional
        Bound to weights and graph, with ``value``, ``information``, ``accumulate`` and ``gauge``.
    mu : ndarray, shape (n, K, K, C)
        Probabilities, not floored.
    floor : float
        Smallest probability of a category for functionals with a logit or a division.
    pairs : Pairs
    cost : ndarray, shape (n or 1, m or 1)
        What a label costs.
    one_pair : bool
        Whether a context gets at most one label.
    weight : ndarray, shape (n,), or None
        Weight of each context in the target population, with mean one.
    fixed : bool
        Whether the scores of these contexts alone are wanted, not of contexts like them.
    """

    functional: Any
    mu: FloatArray
    floor: float
    pairs: Pairs
    cost: FloatArray
    one_pair: bool
    weight: FloatArray | None
    fixed: bool

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.mu)

    @property
    def total_cost(self) -> float:
        """What a label on every pair of every context would cost."""
        return self.cost_of(1.0)

    def cost_of(self, propensity: FloatArray | float) -> float:
        """Expected cost of propensities that broadcast to (n, m)."""
        return blockwise_cost(np.broadcast_to(propensity, (self.n_contexts, len(self.pairs))), self.cost)

    def chunks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Contexts and their probabilities, floored where the functional needs it, in pieces that fit into memory."""
        size = max(1, _CHUNK // int(np.prod(self.mu.shape[1:])))
        for at in range(0, self.n_contexts, size):
            part = slice(at, at + size)
            table = np.asarray(self.mu[part], dtype=np.float64)
            yield part, raised(table, self.floor) if self.functional.interior else table

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Mean score and covariance of the scores between contexts, (K,) and (K, K); zero where contexts are fixed."""
        value = np.concatenate([self.functional.value(mu) for _, mu in self.chunks()])
        weight = np.ones(len(value)) if self.weight is None else self.weight
        mean = weight @ value / len(value)
        spread = weight[:, None] * (value - mean)
        covariance = spread.T @ spread / len(value)
        return mean, np.zeros_like(covariance) if self.fixed else covariance

    def worth(self, metric: FloatArray) -> FloatArray:
        """Trace of metric M for every cell, (n, m): what a label takes off the objective, times its propensity."""
        made = np.empty((self.n_contexts, len(self.pairs)))
        for part, mu in self.chunks():
            made[part] = self.pairs.take(self.functional.information(mu, metric))
            made[part] *= self._scale(part)
        return made

    def spread(self, propensity: FloatArray) -> FloatArray:
        """What labels with these propensities, broadcast to (n, m), add to the covariance Sigma: E sum M / pi."""
        total = np.zeros((self.pairs.n_items,) * 2)
        table = np.broadcast_to(propensity, (self.n_contexts, len(self.pairs)))
        for part, mu in self.chunks():
            amount = np.zeros(mu.shape[:3])
            amount[:, self.pairs.first, self.pairs.second] = self._scale(part) / table[part]
            total += self.functional.accumulate(mu, amount)
        return total / self.n_contexts

    def _scale(self, part: slice) -> FloatArray | float:
        """Squared weights of contexts; where order does not matter, J_jk + J_kj flip = 2 J_jk, so that M counts 4."""
        order = 1.0 if self.pairs.ordered else 4.0
        return order if self.weight is None else order * np.square(self.weight[part])[:, None]


def blockwise_cost(propensity: FloatArray, cost: FloatArray, rows: int = 4096) -> float:
    """Sum of cost times propensity, (n, m), without a product of that size."""
    cost = np.broadcast_to(cost, propensity.shape)
    return float(
        sum(
            np.einsum("nm,nm->", propensity[at : at + rows], cost[at : at + rows])
            for at in range(0, len(propensity), rows)
        )
    )

"""The design problem of a plan: contexts, the pairs that can be labelled, and the information and cost of a label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from .._utils.parallel import in_order
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..estimation.outcome_floor import clip_and_renormalise
from ..functionals import Functional
from .allocation import propensities_at_multiplier

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True, eq=False)
class DesignProblem:
    """Everything about the contexts that a plan depends on: what a label tells and costs.

    Attributes
    ----------
    functional : Functional
        Bound to weights and graph.
    mu : ndarray, shape (n, K, K, C)
        Probabilities, not floored.
    floor : float
        Smallest probability of a category for functionals with a logit or a division.
    pairs : Pairs
    cost : ndarray, shape (n or 1, m or 1)
        What a label costs.
    one_pair : bool
        Whether a context gets at most one label.
    context_weight : ndarray, shape (n,), or None
        Weight of each context in the target population, with mean one.
    fixed_prompts : bool
        Whether the scores of these contexts alone are wanted, not of contexts like them.
    unit : float
        What scores are multiplied by where they are shown, such as Elo points per log-odds.
    n_jobs : int
        Threads.
    chunk_size : int
        Doubles in the chunks of mu that all threads hold together: a few arrays of this size live at a time.
    """

    functional: Functional
    mu: FloatArray
    floor: float
    pairs: Pairs
    cost: FloatArray
    one_pair: bool
    context_weight: FloatArray | None
    fixed_prompts: bool
    unit: float = 1.0
    n_jobs: int = 1
    chunk_size: int = 4_000_000

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.mu)

    @property
    def interdependent(self) -> bool:
        """Whether the information of a label depends on the other labels of its context."""
        return False

    @property
    def total_cost(self) -> float:
        """What a label on every pair of every context would cost."""
        return self.expected_cost(1.0)

    def expected_cost(self, propensity: FloatArray | float) -> float:
        """Expected cost of propensities that broadcast to (n, m)."""
        return blockwise_cost(np.broadcast_to(propensity, (self.n_contexts, len(self.pairs))), self.cost)

    def map_chunks(self, make: Callable[[slice, FloatArray], T]) -> list[T]:
        """``make`` of contexts and their floored probabilities, for chunks that fit into memory, in order."""
        size = max(1, self.chunk_size // self.n_jobs // int(np.prod(self.mu.shape[1:])))
        parts = [slice(at, min(at + size, self.n_contexts)) for at in range(0, self.n_contexts, size)]

        def one(part: slice) -> T:
            table = np.asarray(self.mu[part], dtype=np.float64)
            # With the diagonal alone below the floor nothing is raised, and a count tells so faster than clipping does.
            low = np.count_nonzero(table < self.floor) if self.functional.interior else 0
            return make(part, clip_and_renormalise(table, self.floor) if low > table[:, :, 0].size else table)

        return list(in_order(one, parts, self.n_jobs))

    def score_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean score and covariance of the scores between contexts, (K,) and (K, K); zero where contexts are fixed."""
        value = self.unit * np.concatenate(self.map_chunks(lambda _, mu: self.functional.value(mu)))
        weight = np.ones(len(value)) if self.context_weight is None else self.context_weight
        mean = weight @ value / len(value)
        spread = weight[:, None] * (value - mean)
        covariance = spread.T @ spread / len(value)
        return mean, np.zeros_like(covariance) if self.fixed_prompts else covariance

    def label_information(self, metric: FloatArray, propensity: FloatArray | None = None) -> FloatArray:
        """Information of a label of every cell, (n, m): the trace of metric times M, its share in the covariance.

        Parameters
        ----------
        metric : ndarray, shape (K, K)
        propensity : ndarray, shape (n, m), optional
            Used only by problems that are ``interdependent``.
        """
        made = np.empty((self.n_contexts, len(self.pairs)))

        def one(part: slice, mu: FloatArray) -> None:
            np.multiply(self.pairs.take(self.functional.information(mu, metric)), self._scale(part), out=made[part])

        self.map_chunks(one)
        return made

    def labelling_covariance(self, propensity: FloatArray) -> FloatArray:
        """The part of the covariance Sigma, (K, K), that labelling adds: E sum M / pi; pi broadcasts to (n, m)."""
        table = np.broadcast_to(propensity, (self.n_contexts, len(self.pairs)))
        # A pair without order is one label, counted where its first item stands first.
        alone = replace(self.pairs, ordered=True)

        def one(part: slice, mu: FloatArray) -> FloatArray:
            return np.asarray(self.functional.accumulate(mu, alone.table(self._scale(part) / table[part])))

        return np.asarray(sum(self.map_chunks(one)) / self.n_contexts)

    def propensities_at(self, metric: FloatArray, lower: FloatArray, multiplier: float) -> FloatArray:
        """Propensities, (n, m), by the rule of a plan with this multiplier in the problem's contexts."""
        information = self.label_information(metric)
        return propensities_at_multiplier(information, self.cost, lower, multiplier, self.one_pair)

    def _scale(self, part: slice) -> FloatArray | float:
        """Squared weights and unit; where order does not matter, J_jk + J_kj flip = 2 J_jk, so that M counts 4."""
        scale = self.unit**2 * (1.0 if self.pairs.ordered else 4.0)
        return scale if self.context_weight is None else scale * np.square(self.context_weight[part])[:, None]


def blockwise_cost(propensity: FloatArray, cost: FloatArray, rows: int = 4096) -> float:
    """Sum of cost times propensity, (n, m), without a product of that size."""
    cost = np.broadcast_to(cost, propensity.shape)
    return float(
        sum(
            np.einsum("nm,nm->", propensity[at : at + rows], cost[at : at + rows])
            for at in range(0, len(propensity), rows)
        )
    )

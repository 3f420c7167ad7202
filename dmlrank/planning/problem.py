"""The problem of a plan: what a label or a run adds to the precision of scores, and what it costs.

Votes and scores are two problems with one interface, :class:`Problem`: :class:`VoteProblem` is about labels of pairs of
models, and :class:`~dmlrank.planning.score_plan.ScoreProblem` about runs of models. The n contexts (prompts) are
grouped into g *rows*: contexts with equal probabilities, weights and costs share a row. A *cell* is a row and one of m
pairs, or groups of models that are run together.

Sigma is n times the covariance of the scores. The labels of the pair (j, k) on a context add M_jk / pi_jk to Sigma,
with M_jk = J V J', (K, K): J is the derivative of the functional by the probabilities of the pair, and V the covariance
of the label. The derivative of the objective by Sigma is the *metric*, a (K, K) matrix, and the trace of metric times M
is the *information* of the label: the larger it is, the more the objective falls if the pair is labelled more often.

With the restricted Bradley-Terry estimator the information of a label depends on the other labels of its context: such
a problem is *interdependent*. A plan then needs steps, each of which takes the information as given; see
:mod:`dmlrank.planning.allocation`.

A plan for many contexts and models has very many propensities. They are not stored, but computed for the rows that a
caller needs, from numbers that the plan stores in any case (:class:`Computed`), block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import number_in
from .._utils.tasks_and_threads import current, in_order, in_workers, report
from ..data.arrays import row_slices
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_restricted import RestrictedBradleyTerry, information_inverse
from ..estimation.cross_fitting import clip_and_renormalise
from ..exceptions import OptionError
from ..functionals import BradleyTerry, Functional
from ..nuisance.propensity import TabulatedPairPropensity

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

# Tables of contexts, (g, K, K, C): an array, or predicted when they are indexed.
Tables: TypeAlias = FloatArray | Computed
# What is drawn: contexts, the places of their models (-1 for none) by column of a sample, and propensities, (d,) each.
Drawn: TypeAlias = tuple[IntArray, list[IntArray], FloatArray]
# Number of probabilities in a chunk of rows. Every thread holds a few arrays of this size in memory.
CHUNK_SIZE = 2_000_000
# Largest number of cells whose numbers are stored in double precision; computations always are in this precision.
DOUBLE_CELLS = 20_000_000
# A pass over fewer chunks than this takes so little time that a log file gets no line of progress for it.
_FEW_CHUNKS = 20
# Where a problem has more than four times as many rows, a search begins at the optimum of a sample of so many rows.
SAMPLE_SIZE = 4_000
# With a smaller budget, what labels add to the information is lost in rounding.
_SMALLEST_BUDGET = 1e-9
# Number of contexts for which labels are drawn at a time.
_DRAWN_CONTEXTS = 1024
# Without min_propensity= the smallest propensity is this share of the uniform plan's propensity.
SMALLEST_SHARE = 0.1
# Number of classes of costs within which the order of draws is random.
_COST_CLASSES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The limits of a plan, as the caller gives them: what it may cost, and how propensities may differ."""

    budget: float
    costs: ArrayLike = 1.0
    min_propensity: float | None = None
    one_pair: bool = False
    explore: float = 0.0

    def __post_init__(self) -> None:
        number_in("explore", self.explore, lambda x: 0 <= x < 1, "it must be a share, from 0 to below 1")
        allowed = f"it must be a number of labels or runs, of at least {_SMALLEST_BUDGET:g}"
        number_in("budget", self.budget, lambda x: _SMALLEST_BUDGET <= x < np.inf, allowed)
        if (least := self.min_propensity) is not None:
            number_in("min_propensity", least, lambda x: 0 < x <= 1, "it must be a number above 0 and at most 1")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Problem(ABC):
    """Everything about the contexts that a plan depends on.

    mu (g, ...): What is known of the labels or runs of each row.
    cost (g or 1, m or 1): Cost of a cell.
    context_weight (g or 1,): Weight of each context in the target population, with mean one over contexts.
    fixed_prompts: Whether the scores are about these contexts alone, and not about a population.
    candidate: The last model, if it has no score and another model's stands for it; empty for none.
    contexts: The other columns of samples, such as features, with the identifiers of the n contexts as index.
    columns: The columns of a sample with models: of the model shown first and of the one shown second, or of the model.
    unit: Factor that turns the values of the functional into the unit of the reported scores, such as Elo points.
    between (K, K): Covariance of the scores between contexts, which no plan changes.
    before: Labels of each pair that there are already, (1, m), by context, where a fit of all labels joins them with
        those of a plan pair by pair: the labelling covariance is then E sum M / (before + pi).
    even: The problem of the uniform plan, where its pairs have other weights than those of the plan.
    """

    functional: Functional
    mu: Tables
    row: IntArray
    cost: FloatArray
    context_weight: FloatArray
    models: tuple[str, ...]
    contexts: pd.DataFrame
    columns: tuple[str, ...]
    fixed_prompts: bool = False
    candidate: str = ""
    one_pair: bool = False
    unit: float = 1.0
    between: FloatArray = field(default_factory=lambda: np.zeros(()))
    before: FloatArray | float = 0.0
    even: Problem | None = None
    interdependent: ClassVar[bool] = False
    of_scores: ClassVar[bool] = False

    @property
    def is_own_round(self) -> bool:
        """Whether a later fit has the runs of this plan alone, as it may where scores are planned."""
        return False

    @property
    def what(self) -> str:
        """What is bought."""
        return "labels"

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Number of cells of a row, m."""

    @abstractmethod
    def words(self, joins_fit: bool) -> dict[str, str]:
        """Return words of summaries and errors: the cells and their number, the later fit, the uniform plan, labels."""

    @abstractmethod
    def scanned(self) -> tuple[FloatArray, Problem]:
        """Return the scores that the problem implies, (K,), and the problem with what one pass over it tells."""

    @abstractmethod
    def least(self, limits: Limits) -> FloatArray:
        """Return the smallest propensities of cells, (g or 1, m or 1), of a plan within limits."""

    @abstractmethod
    def cell_rates(self, metric: FloatArray, propensity: FloatArray | None = None) -> Computed:
        """Return sqrt(information / cost) of every cell, (g, m), in a metric; if interdependent, at propensities."""

    @abstractmethod
    def labelling_covariance(self, propensities: Propensities) -> FloatArray:
        """Return the covariance, (K, K), which labels or runs with propensities (g, m) add to Sigma."""

    @abstractmethod
    def matrices(self, columns: FloatArray) -> FloatArray:
        """Return numbers by cell, (b, m), as the user sees them: (b, K, K) by pair, or (b, K) by model."""

    @abstractmethod
    def expected_by_model(self, propensities: Propensities) -> FloatArray:
        """Return the expected number of labels or runs of each model, (K,)."""

    @abstractmethod
    def draw(self, propensities: Propensities, rng: np.random.Generator) -> Drawn:
        """Draw what to label or run, and the contexts without anything that belong to the sample."""

    def expected_number(self, propensities: Propensities) -> float:
        """Return the expected number of labels or runs; a label is of two models."""
        return float(self.expected_by_model(propensities).sum()) / len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores: those of the models, or of a functional's own outputs."""
        return self.functional.names(self.models)

    @property
    def gauge(self) -> FloatArray:
        """Coefficients of the combinations of scores that the functional fixes; K columns."""
        return self.functional.gauge(len(self.models)).basis

    @property
    def n_rows(self) -> int:
        """Number of rows, g."""
        return len(self.mu)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.row)

    @property
    def shape(self) -> tuple[int, int]:
        """(g, m): rows and cells of a row."""
        return self.n_rows, self.n_cells

    @property
    def count(self) -> FloatArray:
        """Number of contexts that each row stands for, (g,)."""
        return np.bincount(self.row, minlength=self.n_rows).astype(float)

    @property
    def cell_type(self) -> type[np.float64] | type[np.float32]:
        """Precision in which numbers by cell are kept."""
        return np.float64 if self.n_rows * self.n_cells <= DOUBLE_CELLS else np.float32

    @property
    def spent(self) -> float:
        """Cost that is in the propensities, but was paid in earlier rounds."""
        return 0.0

    @property
    def total_cost(self) -> float:
        """Cost of a label or run of every cell of every context that there is not yet."""
        by_row = self.cost.sum(axis=1) * (self.n_cells / self.cost.shape[1])
        return float((self.count * by_row).sum()) - self.spent

    @property
    def max_uniform(self) -> float:
        """The largest propensity that all cells can have at the same time."""
        return 1 / self.n_cells if self.one_pair else 1.0

    def smallest_propensity(self, limits: Limits) -> float:
        """Return the smallest propensity of a plan within limits."""
        smallest, budget = limits.min_propensity, limits.budget
        if smallest is None:
            return SMALLEST_SHARE * self.uniform(budget)
        if smallest > self.max_uniform * (1 + 1e-12):
            raise OptionError(f"with one_pair=True the largest min_propensity is {self.max_uniform:.6g}")
        least = smallest * (self.total_cost + self.spent) - self.spent
        if least > budget * (1 + 1e-12):
            of = "of every model" if self.of_scores else "on every pair"
            raise OptionError(
                f"budget={budget:g} is too small for min_propensity={smallest:g} {of}; raise the budget to "
                f"{least:.8g}, or take min_propensity={self.uniform(budget):.6g}"
            )
        return smallest

    def smallest_budget(self, limits: Limits) -> float:
        """Return the smallest budget that keeps every propensity at least the smallest one of the limits."""
        return (limits.min_propensity or 0.0) * self.total_cost

    def uniform(self, cost: float) -> float:
        """Return the uniform plan's propensity at this cost, or the largest possible one."""
        return min(self.max_uniform, (cost + self.spent) / (self.total_cost + self.spent))

    def sample(self) -> Self:
        """Return the problem of a random sample of the rows; itself where there are few rows."""
        return self

    def in_sample(self, limits: Limits) -> tuple[Self, Limits]:
        """Return the problem of a sample, about as good and much faster to solve, with its part of the budget."""
        sample = self.sample()
        return sample, replace(limits, budget=limits.budget * (sample.total_cost / self.total_cost))

    def row_costs(self, propensity: FloatArray, rows: slice) -> FloatArray:
        """Return the expected cost of a context of some rows, (b,), from their propensities, (b, m)."""
        cost = at_rows(self.cost, rows)
        if cost.shape[1] == 1:
            return np.asarray(propensity.sum(axis=1) * cost[:, 0])
        return np.asarray(propensity @ cost[0] if len(cost) == 1 else np.einsum("nm,nm->n", propensity, cost))

    def expected_cost(self, propensities: Propensities) -> float:
        """Return the expected cost of propensities, (g, m)."""
        count, costs = self.count, self.row_costs
        by_block = map_blocks(lambda block: float(count[block] @ costs(propensities[block], block)), self.shape)
        return sum(by_block) - self.spent

    def label_information(self, metric: FloatArray) -> FloatArray:
        """Return the information of every cell, (g, m)."""
        return np.asarray(np.square(propensity_table(self.cell_rates(metric))) * self.cost)

    def scale(self, part: slice) -> FloatArray:
        """Return the factor of the covariance of a cell, (b or 1, 1), from the weights of contexts and the unit."""
        return self.unit**2 * np.square(at_rows(self.context_weight, part))[:, None]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VoteProblem(Problem):
    """Labels of m pairs of models: ordered pairs, or unordered ones with ``first < second``.

    mu (g, K, K, C): Probabilities of each row, not yet clipped at the floor.
    ordered: Whether the two display orders of a pair have propensities of their own.
    floor: Smallest probability of a category for functionals with a logit or a division.
    deviation (g, m), directions (m, K): Where a label of a pair moves the scores along the same direction d in every
        context, M = v dd': the standard deviations of labels along it, and the directions.
    moments (g, m, d, d): M of the labels of each pair, where a functional of the user takes many calls for them.
    worth (m,): Factor of the information of a label of each pair, where labels also change the weights of pairs.
    """

    first: IntArray
    second: IntArray
    ordered: bool
    floor: float
    deviation: CellArray | None = None
    moments: CellArray | None = None
    directions: FloatArray = field(default_factory=lambda: np.zeros(()))
    worth: FloatArray | float = 1.0

    @property
    def n_cells(self) -> int:
        return len(self.first)

    def words(self, joins_fit: bool) -> dict[str, str]:
        new, old = "the planned labels", "the labels of the fit and "
        return {
            "cells": "Pairs:",
            "number": f"{self.n_cells} {'ordered' if self.ordered else 'unordered'}",
            "everything": f"labelling {'one' if self.one_pair else 'every'} pair of",
            "fit": f"an estimate from {f'{old}{new} together' if joins_fit else f'{new} alone'}",
            "uniform": "all pairs with the same probability",
            "labels": "expected number in which the model, or the pair, is compared. Labels of different prompts are "
            "taken as independent: if annotators or other clusters give several of the new labels, standard errors may "
            "be larger than predicted.",
        }

    @property
    def n_items(self) -> int:
        """Number of models, K."""
        return self.mu.shape[1]

    def take(self, matrices: FloatArray) -> FloatArray:
        """Return the entries of the pairs, (b, m), from matrices, (b, K, K)."""
        # Indexing flattened matrices once is several times as fast as indexing two axes.
        return np.take(matrices.reshape(len(matrices), -1), self.first * self.n_items + self.second, axis=1)

    def directed(self, columns: FloatArray) -> FloatArray:
        """Return matrices, (b, K, K), with these entries of the pairs, (b, m), and zeros elsewhere."""
        matrices = np.zeros((len(columns), self.n_items**2))
        matrices[:, self.first * self.n_items + self.second] = columns
        return matrices.reshape(-1, self.n_items, self.n_items)

    def matrices(self, columns: FloatArray) -> FloatArray:
        matrices = self.directed(columns)
        return matrices if self.ordered else matrices + matrices.swapaxes(1, 2)

    def both_orders(self, table: FloatArray) -> FloatArray:
        """Return the sums of the entries (j, k) and (k, j), (K, K), where display orders have entries of their own."""
        return table + table.T if self.ordered else table

    def by_row(self) -> VoteProblem:
        """Return the problem whose rows are the contexts with equal tables, costs and weights.

        Costs and weights of this problem are by context, (n or 1, ...), and those of the returned problem by row.
        """
        cost, weight, row = self.cost, self.context_weight, self.row
        if len(self.mu) == len(row) or len(cost) == len(weight) == 1:
            return self
        if cost.shape[1] > 1 and len(cost) > 1:
            # Costs by context and pair hardly ever agree in all pairs: every context is a row of its own.
            first_context = group = np.arange(len(row))
        else:
            by_context = [row.astype(float), *(part for part in (cost[:, 0], weight) if len(part) > 1)]
            _, first_context, group = np.unique(
                np.stack(by_context, axis=1), axis=0, return_index=True, return_inverse=True
            )
        return replace(
            self,
            mu=some_tables(self.mu, row[first_context]),
            row=group.reshape(-1),
            cost=at_rows(cost, first_context),
            context_weight=at_rows(weight, first_context),
        )

    def sample(self) -> Self:
        """Draw rows with all their contexts, the same in every call: fewer where probabilities need much memory."""
        size, deviation = SAMPLE_SIZE, self.deviation
        if deviation is None:
            size = min(size, max(200, 10 * CHUNK_SIZE // int(np.prod(self.mu.shape[1:]))))
        if self.n_rows <= 4 * size:
            return self
        index = np.sort(np.random.default_rng(0).choice(self.n_rows, size, replace=False))
        return self.only(index)

    def only(self, index: IntArray) -> Self:
        """Return the problem of some rows with all their contexts."""
        deviation, place, even = self.deviation, np.full(self.n_rows, -1), self.even
        place[index] = np.arange(len(index))
        return replace(
            self,
            even=even.only(index) if isinstance(even, VoteProblem) else None,
            # Searches pass over mu many times, so that the probabilities of a sample are kept in an array. Where the
            # problem holds the standard deviations of labels, searches do not use mu, and none is read here.
            mu=self.mu[index] if deviation is None else some_tables(self.mu, index),
            row=place[self.row][place[self.row] >= 0],
            cost=at_rows(self.cost, index),
            context_weight=at_rows(self.context_weight, index),
            deviation=None if deviation is None else deviation[index],
            moments=None if self.moments is None else self.moments[index],
        )

    def least(self, limits: Limits) -> FloatArray:
        return np.array([[self.smallest_propensity(limits)]])

    def expected_labels(self, propensities: Propensities) -> FloatArray:
        """Return the expected number of labels by pair, (K, K); symmetric where order does not matter."""
        count = self.count
        total = sum(map_blocks(lambda block: count[block] @ propensities[block], self.shape))
        return self.matrices(np.atleast_2d(total))[0]

    def expected_by_model(self, propensities: Propensities) -> FloatArray:
        labels = self.expected_labels(propensities)
        return np.asarray(labels.sum(axis=1) + (labels.sum(axis=0) if self.ordered else 0))

    def draw(self, propensities: Propensities, rng: np.random.Generator) -> Drawn:
        """Draw the pairs to label on each context: of every pair as many labels as expected, rounded down or up.

        With at most one label of a context, the number of all labels is the expected one, rounded down or up. Every
        context without a label is drawn once without models. The order is that of the contexts.
        """
        context, cell, propensity = self._drawn_cells(propensities, rng)
        first, second = self.first[cell], self.second[cell]
        if not self.ordered:
            exchange = rng.random(len(cell)) < 0.5
            first, second = np.where(exchange, second, first), np.where(exchange, first, second)
        unlabelled = np.setdiff1d(np.arange(self.n_contexts), context)
        every, none = np.concatenate([context, unlabelled]), np.full(len(unlabelled), -1)
        order = np.argsort(every, kind="stable")
        models = [np.concatenate([side, none])[order] for side in (first, second)]
        return every[order], models, np.concatenate([propensity, np.full(len(unlabelled), np.nan)])[order]

    def _drawn_cells(
        self, propensities: Propensities, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return contexts, pairs and propensities of the labels that are drawn, (d,) each, in order.

        Every pair has the contexts in a random order of its own, in which its propensities are added up from a uniform
        number on. A label is drawn where the sum passes a whole number (systematic sampling), so that each cell is
        drawn with its propensity. The draws of pairs are independent, except that sums are rounded up together, so that
        the number of all labels is the expected one, too. With at most one label of a context, the contexts that get a
        label are drawn in this way, and then a pair for each of them.
        """
        classes = cost_classes(np.broadcast_to(self.cost.mean(axis=1), self.n_rows))[self.row]
        order = np.lexsort((rng.random(self.n_contexts), classes))
        start = rng.random(1 if self.one_pair else self.n_cells)
        if not self.one_pair:
            count = self.count

            def expected_in(block: slice) -> FloatArray:
                table = propensities[block]
                return np.asarray(count[block] @ np.where(table < 1, table, 0.0))

            rest = np.asarray(sum(map_blocks(expected_in, self.shape))) % 1.0
            is_up = drawn_together(rest, np.broadcast_to(self.cost.mean(axis=0), rest.shape), rng)
            start = np.where(is_up, 1 - rest + rest * start, (1 - rest) * start)
        parts = []
        for first_place in range(0, self.n_contexts, _DRAWN_CONTEXTS):
            contexts = order[first_place : first_place + _DRAWN_CONTEXTS]
            table = propensities[self.row[contexts]]
            cells = table.sum(axis=1, keepdims=True) if self.one_pair else table
            # Each pair has an order of its own, in which classes of costs stay together.
            by = np.argsort(classes[contexts][:, None] + rng.random(cells.shape), axis=0)
            ordered = np.take_along_axis(cells, by, 0)
            is_certain = ordered >= 1
            steps = np.cumsum(np.vstack([start, np.where(is_certain, 0.0, ordered)]), axis=0)
            start, is_drawn = steps[-1], np.empty(cells.shape, dtype=bool)
            np.put_along_axis(is_drawn, by, is_certain | (np.diff(np.floor(steps), axis=0) > 0), 0)
            place, column = np.nonzero(is_drawn)
            if self.one_pair:
                # The first pair whose cumulative propensity exceeds a uniform share of that of all pairs.
                passed = np.cumsum(table[place], axis=1) > rng.random((len(place), 1)) * cells[place]
                column = passed.argmax(axis=1)
            parts.append((contexts[place], column, table[place, column]))
        context, column, propensity = (np.concatenate(part) for part in zip(*parts, strict=True))
        in_order = np.lexsort((column, context))
        return context[in_order], column[in_order], propensity[in_order]

    def scanned(self) -> tuple[FloatArray, VoteProblem]:
        """Pass over mu once; return the mean of F(mu), (K,), and the problem with what the pass tells of labels."""
        functional, n_scores = self.functional, len(self.names)
        directions = None if self.interdependent else functional.label_directions(self.n_items)
        moments_shape = (*self.shape, n_scores, n_scores)
        kept: CellArray | None = None
        if directions is not None:
            kept = np.empty(self.shape, self.cell_type)
        elif not (self.interdependent or functional.has_fast_pairs) and np.prod(moments_shape) <= DOUBLE_CELLS:
            kept = np.empty(moments_shape)
        count, values, is_kept = self.count, [], kept is not None
        for part, (scores, of_labels) in self.passed_over(type(self).scores_and_labels, lambda part: (is_kept,)):
            values.append(scores)
            if kept is not None:
                kept[part] = of_labels
        value = self.unit * np.concatenate(values)
        weight = count * self.context_weight
        mean = weight @ value / self.n_contexts
        difference = value - mean
        covariance = ((weight * self.context_weight)[:, None] * difference).T @ difference / self.n_contexts
        between = np.zeros_like(covariance) if self.fixed_prompts else (covariance + covariance.T) / 2
        if directions is None:
            return mean, replace(self, between=between, moments=kept)
        return mean, replace(self, between=between, deviation=kept, directions=directions[self.first, self.second])

    def cell_rates(self, metric: FloatArray, propensity: FloatArray | None = None) -> Computed:
        if self.deviation is not None:
            return self.rates_of_lengths(self.worth * self.squared_lengths(metric))
        if self.moments is not None:
            information = np.maximum(np.einsum("gmab,ab->gm", self.moments, metric, optimize=True), 0)
            return cell_rates(np.sqrt(information / self.cost))
        base: CellArray = np.empty(self.shape, self.cell_type)
        at = np.broadcast_to(1.0, self.shape) if propensity is None else propensity
        for part, information in self.passed_over(type(self).information_in, lambda part: (metric, at[part])):
            base[part] = np.sqrt(information * self.worth / at_rows(self.cost, part))
        return cell_rates(base)

    def squared_lengths(self, metric: FloatArray) -> FloatArray:
        """Return the squared lengths of the directions of labels, (m,), in a metric, (K, K)."""
        along = self.directions
        return np.maximum(np.einsum("mj,jk,mk->m", along, metric, along, optimize=True), 0)

    def rates_of_lengths(self, length: FloatArray) -> Computed:
        """Return the rates of labels whose directions have these squared lengths, (m,)."""
        assert self.deviation is not None
        scale = self.scale(slice(0, self.n_rows))
        if len(self.cost) == 1:
            return cell_rates(self.deviation, np.sqrt(scale), np.sqrt(length / self.cost[0]))
        return cell_rates(self.deviation, np.sqrt(scale / self.cost), np.sqrt(length))

    def labelling_covariance(self, propensities: Propensities) -> FloatArray:
        if self.deviation is not None:
            return np.asarray((self.directions.T * self.labelling_variances(propensities)) @ self.directions)
        count = self.count[:, None]
        if self.moments is not None:
            total = np.tensordot(count / propensity_table(propensities), self.moments, 2) / self.n_contexts
            return np.asarray((total + total.T) / 2)
        parts = self.passed_over(type(self).added_covariance, lambda part: (count[part], propensities[part]))
        return np.asarray(sum(total for _, total in parts) / self.n_contexts)

    def labelling_variances(self, propensities: Propensities) -> FloatArray:
        """Return the variances, (m,), which labels add to Sigma along the directions of their pairs."""
        deviation, count = self.deviation, self.count[:, None]
        assert deviation is not None

        def variances(block: slice) -> FloatArray:
            variance = np.square(deviation[block], dtype=np.float64)
            variance /= propensities[block] + self.before
            return np.asarray((count[block] * self.scale(block))[:, 0] @ variance)

        return np.asarray(sum(map_blocks(variances, self.shape)) / self.n_contexts)

    def scale(self, part: slice) -> FloatArray:
        """Return the factor of M, (b or 1, 1), from the weights of contexts, the unit, and the display order of pairs.

        Where pairs are not ordered, one label counts for the ordered pair (j, k) and for (k, j). With the categories
        "first wins" and "second wins" exchanged, the functional has the same derivative in (k, j) as in (j, k). The
        label therefore moves the scores twice as far, and M is four times as large.
        """
        return (1.0 if self.ordered else 4.0) * Problem.scale(self, part)

    def passed_over(
        self, work: Callable[..., T], arguments_of: Callable[[slice], tuple[object, ...]]
    ) -> Iterator[tuple[slice, T]]:
        """Yield the ranges of rows of all chunks, in order, with the results of a function.

        The function takes the problem, a range of rows, their probabilities, (b, K, K, C), and further arguments.
        Ranges depend on the size of the problem alone, so that results do not depend on threads or workers.
        """
        parts = list(row_slices(self.n_rows, int(np.prod(self.mu.shape[1:])), CHUNK_SIZE))
        cells = self.n_items**2

        def task(number: int) -> tuple[slice, list[tuple[object, ...]]]:
            return parts[number], list(map(arguments_of, cached_blocks(parts[number], cells)))

        # Arguments are computed when a task begins: those of all would not fit into memory.
        tasks = Computed((len(parts),), task)
        results = in_workers(partial(VoteProblem.work_on, work=work), self, tasks, name="prompts of a plan")
        for number, (part, of_part) in enumerate(zip(parts, results, strict=True)):
            yield from zip(cached_blocks(part, cells), of_part, strict=True)
            report(number + 1, len(parts), "plan, prompts", minor=len(parts) < _FEW_CHUNKS)

    def work_on(self, task: tuple[slice, list[tuple[object, ...]]], work: Callable[..., T]) -> list[T]:
        """Return the results of a task by block, for probabilities that are clipped at the floor and renormalised."""
        part, arguments = task
        chunk, results = self.mu[part], []
        for rows, of_rows in zip(cached_blocks(part, self.n_items**2), arguments, strict=True):
            # In a copy the numbers of a block are next to each other, also where those of a category are in ``chunk``.
            mu = np.array(chunk[rows.start - part.start : rows.stop - part.start], dtype=np.float64, order="K")
            # The diagonal is zero and below the floor in any case. Where no other probability is below the floor,
            # clipping would change nothing. To count these probabilities takes less time than to clip the table.
            if self.functional.interior and np.count_nonzero(mu < self.floor) > mu[:, :, 0].size:
                mu = clip_and_renormalise(mu, self.floor)
            results.append(work(self, rows, mu, *of_rows))
        return results

    # Functions of a range of rows and its probabilities, mu (b, K, K, C), which workers call.

    def scores_and_labels(self, part: slice, mu: FloatArray, is_kept: bool) -> tuple[FloatArray, CellArray | None]:
        """Return the scores of a range of rows, (b, d), and deviations, (b, m), or M of labels, (b, m, d, d)."""
        functional, values = self.functional, self.functional.value(mu)
        if not is_kept:
            return values, None
        if functional.label_directions(self.n_items) is not None:
            return values, np.sqrt(np.maximum(self.take(functional.label_variances(mu)), 0)).astype(self.cell_type)
        moments = [functional.label_covariances(mu, j, k) for j, k in zip(self.first, self.second, strict=True)]
        return values, np.stack(moments, axis=1) * self.scale(part)[..., None, None]

    def of_contexts(self, mu: FloatArray) -> VoteProblem:
        """Return the problem of contexts with other probabilities, (n, K, K, C), each of which is a row."""
        return replace(self, mu=mu, row=np.arange(len(mu)), deviation=None, moments=None)

    def information_in(self, part: slice, mu: FloatArray, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the information of the labels of a range of rows, (b, m): the trace of metric times M."""
        return self.take(self.functional.information(mu, metric)) * self.scale(part)

    def added_covariance(self, part: slice, mu: FloatArray, count: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the sum of M / pi over the labels of a range of rows, (K, K), for counts (b, 1)."""
        # The entries (k, j) of unordered pairs are zero; the factor ``scale`` makes up for them.
        return np.asarray(self.functional.accumulate(mu, self.directed(count / propensity * self.scale(part))))


def some_tables(tables: Tables, index: IntArray) -> Tables:
    """Return some of the tables, also several times; those that are predicted are so when they are indexed."""
    return Computed((len(index), *tables.shape[1:]), partial(_tables_at, tables, index))


def _tables_at(tables: Tables, index: IntArray, rows: Rows) -> FloatArray:
    distinct, place = np.unique(index[rows], return_inverse=True)
    return tables[distinct][place.reshape(-1)]


# --- numbers by row and cell, block by block --------------------------------------------------------------------------


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


# --- draws of a fixed size --------------------------------------------------------------------------------------------


def cost_classes(cost: FloatArray) -> IntArray:
    """Return classes of costs, (n,): samples are drawn in this order, random within a class, to cost as expected."""
    return np.digitize(cost, np.quantile(cost, np.linspace(0, 1, _COST_CLASSES + 1)[1:-1]))


def drawn_together(propensity: FloatArray, cost: FloatArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw units with their propensities; their number is the sum of the propensities, rounded down or up (systematic).

    Shapes: propensity, cost (n,).
    """
    is_drawn = propensity >= 1
    uncertain = np.flatnonzero((propensity > 0) & ~is_drawn)
    if len(uncertain):
        order = uncertain[np.lexsort((rng.random(len(uncertain)), cost_classes(cost[uncertain])))]
        steps = np.floor(rng.random() + np.cumsum(propensity[order]))
        is_drawn[order] = np.diff(steps, prepend=0.0) > 0
    return np.asarray(is_drawn)


# --- the restricted Bradley-Terry estimator ---------------------------------------------------------------------------


class RestrictedVoteProblem(VoteProblem):
    r"""Labels for the estimator ``bt_restricted``, with the labelling covariance E [I(X; pi)^-1].

    The information matrix of a context is :math:`I = \sum_{jk} \pi_{jk} w_{jk} z_{jk} z_{jk}'`, as in
    :class:`dmlrank.estimation.bt_restricted.RestrictedBradleyTerry`: :math:`w_{jk}` is the variance of a label, and
    :math:`z_{jk}` is the derivative of its logit by the scores and the position effect. The covariance of the scores is
    the block of the scores in the inverse.

    With the metric G, the derivative of the objective by Sigma, a plan minimises the trace of :math:`G I^{-1}`, which
    is convex in :math:`\pi`. A step starts at propensities :math:`\pi_0`, where the information matrix is :math:`I_0`.
    By the Gauss-Markov theorem the objective is at most :math:`\sum_{jk} \pi_{0,jk}^2 g_{jk} / \pi_{jk}` with
    :math:`g_{jk} = w_{jk} z_{jk}' I_0^{-1} G I_0^{-1} z_{jk}`, and equals this bound at :math:`\pi_0`. The step
    minimises the bound, which is a sum over pairs, and so lowers the objective. In the bound a label has the
    information :math:`\pi_0^2 g`.
    """

    __slots__ = ()
    interdependent: ClassVar[bool] = True

    def variances_and_inverse(self, mu: FloatArray, propensity: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return variances of labels in the Bradley-Terry model nearest to ``mu``, and inverse information matrices.

        Shapes: mu (b, K, K, C), propensity (b, m), returns (b, K, K) and (b, D, D).
        """
        functional, n_items, ordered = self.functional, self.n_items, self.ordered
        assert isinstance(functional, BradleyTerry)
        assert functional.graph is not None
        # The estimator needs propensities for its estimate, but not for the probabilities of the nearest model.
        unused = TabulatedPairPropensity(np.zeros((1, n_items, n_items)))
        fitted = RestrictedBradleyTerry(functional, functional.graph, unused, ordered).probabilities(mu)
        variance = np.asarray(fitted * (1 - fitted))
        return variance, information_inverse(self.directed(propensity) * variance, ordered)

    def information_in(self, part: slice, mu: FloatArray, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the information of the labels of a range of rows, (b, m), in the bound at ``propensity``, (b, m)."""
        first, second, n_items = self.first, self.second, self.n_items
        variance, inverse = self.variances_and_inverse(mu, propensity)
        gram = inverse[:, :, :n_items] @ metric @ inverse[:, :n_items]
        diagonal = np.einsum("njj->nj", gram)
        length = diagonal[:, first] + diagonal[:, second] - 2 * gram[:, first, second]
        if self.ordered:
            # The last coordinate of z belongs to the position effect and is one.
            length += 2 * (gram[:, first, n_items] - gram[:, second, n_items]) + diagonal[:, n_items, None]
        scale = Problem.scale(self, part)
        return np.asarray(scale * np.square(propensity) * self.take(variance) * np.maximum(length, 0))

    def added_covariance(self, part: slice, mu: FloatArray, count: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the sum over the contexts of a range of rows of the block of the scores in I^-1, (K, K)."""
        n_items = self.n_items
        _, inverse = self.variances_and_inverse(mu, propensity)
        weight = (count * Problem.scale(self, part))[:, 0]
        return np.asarray(np.einsum("n,njk->jk", weight, inverse[:, :n_items, :n_items]))

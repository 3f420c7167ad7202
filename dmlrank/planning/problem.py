"""The design problem of a plan: contexts, the pairs that can be labelled, and the information and cost of a label.

A *table* is the array (K, K, C) of the probabilities of one context. Contexts with equal tables, weights and costs
share a *row* of the problem, so that g rows stand for n contexts. A *cell* is one row and one of the m pairs.

Sigma is n times the covariance of the scores. The labels of the pair (j, k) on a context add M_jk / pi_jk to Sigma.
M_jk = J V J', (K, K), with the derivative J of the functional by the probabilities of the pair, and the covariance V of
the label. The derivative of the objective by Sigma is the *metric*, a (K, K) matrix. The trace of metric times M is the
*information* of the label: the larger it is, the more the objective falls if the pair is labelled more often.

With the restricted Bradley-Terry estimator, the labels of a context depend on each other: the information of a label
depends on the other labels of its context. A plan then needs a search by steps, each of which solves a problem with
fixed information; see :mod:`dmlrank.planning.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.computation import in_workers, report
from ..data.arrays import row_slices
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_restricted import RestrictedBradleyTerry, check_restricted_categories, information_inverse
from ..estimation.cross_fitting import clip_and_renormalise
from ..exceptions import OptionError
from ..fit.estimators import estimator_named
from ..functionals import BradleyTerry, Functional
from ..functionals.base import edge_matrix
from ..nuisance.propensity_model.estimate import TabulatedPairPropensity
from .allocation import (
    CellArray,
    CellRates,
    Computed,
    Constraints,
    Propensities,
    Rows,
    at_rows,
    cached_blocks,
    map_blocks,
    propensities_at_multiplier,
)

T = TypeVar("T")

# Tables of contexts, (g, K, K, C): an array, or predicted when they are indexed.
Tables: TypeAlias = FloatArray | Computed
# A pass over fewer chunks than this takes so little time that a log file gets no line of progress for it.
_FEW_CHUNKS = 20
# Where a problem has more than four times as many rows, a search begins at the optimum of a sample of so many rows.
SAMPLE_SIZE = 4_000
# Number of contexts for which labels are drawn at a time.
_DRAWN_CONTEXTS = 1024
# Number of classes of costs within which the order of draws is random.
_COST_CLASSES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The m pairs of items that can be labelled: ordered ones, or unordered ones with ``first < second``.

    first, second (m,).
    """

    first: IntArray
    second: IntArray
    n_items: int
    ordered: bool

    @classmethod
    def of(cls, functional: Functional, n_items: int, ordered: bool) -> Pairs:
        """Return the pairs that a functional uses: those of its graph with a positive edge weight."""
        edges = edge_matrix(functional.graph, functional.edge_weights, n_items) > 0
        first, second = np.nonzero(edges if ordered else np.triu(edges))
        return cls(first, second, n_items, ordered)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, matrices: FloatArray) -> FloatArray:
        """Return the entries of the pairs, (n, m), from matrices, (n, K, K)."""
        # Indexing flattened matrices once is several times as fast as indexing two axes.
        return np.take(matrices.reshape(len(matrices), -1), self.first * self.n_items + self.second, axis=1)

    def matrices(self, columns: FloatArray) -> FloatArray:
        """Return matrices, (n, K, K), with these entries of the pairs, (n, m).

        The matrices are zero where a pair is not compared, and symmetric where pairs have no order.
        """
        matrices = np.zeros((len(columns), self.n_items**2))
        matrices[:, self.first * self.n_items + self.second] = columns
        if not self.ordered:
            matrices[:, self.second * self.n_items + self.first] = columns
        return matrices.reshape(-1, self.n_items, self.n_items)

    def directed(self, columns: FloatArray) -> FloatArray:
        """Return matrices, (n, K, K), as :meth:`matrices`, where an unordered pair stands in the entry j < k alone."""
        return replace(self, ordered=True).matrices(columns)


@dataclass(frozen=True, slots=True, eq=False)
class PlanNames:
    """Names of the models, scores and contexts of a plan, and of the columns of its samples.

    contexts (n,): Identifiers; tuples where several columns identify a context.
    context_columns: The columns that identify a context.
    first_column, second_column: The columns of the model shown first and of the one shown second.
    scores: Names of the scores: those of the models, or of a functional's own outputs.
    carried (n, c): Further columns of samples that a row needs, such as features and the run; None for none.
    """

    models: tuple[str, ...]
    contexts: NDArray[np.object_]
    context_columns: tuple[str, ...]
    first_column: str
    second_column: str
    scores: tuple[str, ...] = ()
    carried: pd.DataFrame | None = None

    def rows_of(self, context: IntArray) -> pd.DataFrame:
        """Return the columns that identify contexts, a row for each of the places ``context``."""
        ids = list(self.contexts[context])
        if len(self.context_columns) == 1:
            rows = pd.DataFrame({self.context_columns[0]: pd.Series(ids).infer_objects()})
        else:
            rows = pd.DataFrame(ids, columns=list(self.context_columns))
        return rows if self.carried is None else rows.join(self.carried.iloc[context].reset_index(drop=True))


@dataclass(frozen=True, slots=True, eq=False)
class LabelDeviations:
    """Standard deviations of labels that move the scores along the same direction in every context: M = v dd'.

    deviation (g, m): Standard deviation of a label of each cell along the direction of its pair; in single precision
        where there are very many cells.
    directions (m, K): The direction in which a label of each pair moves the scores.
    """

    deviation: CellArray
    directions: FloatArray

    def squared_lengths(self, metric: FloatArray) -> FloatArray:
        """Return the squared lengths of the directions, (m,), in a metric, (K, K)."""
        directions = self.directions
        return np.maximum(np.einsum("mj,jk,mk->m", directions, metric, directions, optimize=True), 0)


@dataclass(frozen=True, slots=True, eq=False)
class DesignProblem:
    """Everything about the contexts that a plan depends on: the information and the cost of a label.

    A row stands for all contexts with the same probabilities, weight and costs; see the module's docstring.

    functional: Holds its category weights and its graph already.
    mu (g, K, K, C): Probabilities of each row, not yet clipped at the floor.
    row (n,): Row of each context.
    floor: Smallest probability of a category for functionals with a logit or a division.
    cost (g or 1, m or 1): Cost of a label.
    one_pair: Whether a context gets at most one label.
    context_weight (g or 1,): Weight of each context in the target population, with mean one over contexts.
    fixed_prompts: Whether the scores are about these contexts alone, and not about the population that they are a
        sample of.
    unit: Factor that turns the values of the functional into the unit of the reported scores, such as Elo points per
        log-odds.
    chunk_size: Number of probabilities in a chunk of rows. Every thread holds a few arrays of this size in memory.
    double_cells: Largest number of cells, rows x pairs, whose numbers are stored in double precision. The numbers of
        more cells are stored in single precision; computations are in double precision in any case.
    deviations: Standard deviations of labels, where one pass over mu has computed them.
    before: Labels of each pair that there are already, (1, m), by context, where a fit of all labels joins them with
        those of a plan pair by pair: the labelling covariance is then E sum M / (before + pi).
    worth (m,): Factor of the information of a label of each pair, where labels also change the weights of pairs.
    interdependent: Whether the information of a label depends on the other labels of its context.
    of_scores: Whether the cells are runs of groups of models, and not labels of pairs.
    """

    functional: Functional
    mu: Tables
    row: IntArray
    floor: float
    pairs: Pairs
    cost: FloatArray
    one_pair: bool
    context_weight: FloatArray
    fixed_prompts: bool
    unit: float = 1.0
    chunk_size: int = 2_000_000
    double_cells: int = 20_000_000
    deviations: LabelDeviations | None = None
    before: FloatArray | float = 0.0
    worth: FloatArray | float = 1.0
    interdependent: ClassVar[bool] = False
    of_scores: ClassVar[bool] = False

    @property
    def spent(self) -> float:
        """Cost that is in the propensities, but was paid in earlier rounds."""
        return 0.0

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
        """(g, m): rows and pairs."""
        return self.n_rows, len(self.pairs)

    @property
    def count(self) -> FloatArray:
        """Number of contexts that each row stands for, (g,)."""
        return np.bincount(self.row, minlength=self.n_rows).astype(float)

    @property
    def cell_type(self) -> type[np.float64] | type[np.float32]:
        """Precision in which numbers by cell are kept."""
        return np.float64 if self.n_rows * len(self.pairs) <= self.double_cells else np.float32

    def by_row(self) -> DesignProblem:
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
            columns = [row.astype(float), *(part for part in (cost[:, 0], weight) if len(part) > 1)]
            _, first_context, group = np.unique(
                np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True
            )
        return replace(
            self,
            mu=some_tables(self.mu, row[first_context]),
            row=group.reshape(-1),
            cost=at_rows(cost, first_context),
            context_weight=at_rows(weight, first_context),
        )

    def sample(self) -> DesignProblem | None:
        """Return the problem of a random sample of the rows with all their contexts; None where there are few rows.

        Every call draws the same rows: fewer where the probabilities of so many rows need too much memory.
        """
        size, deviations = SAMPLE_SIZE, self.deviations
        if deviations is None:
            size = min(size, max(200, 10 * self.chunk_size // int(np.prod(self.mu.shape[1:]))))
        if self.n_rows <= 4 * size:
            return None
        index = np.sort(np.random.default_rng(0).choice(self.n_rows, size, replace=False))
        place = np.full(self.n_rows, -1)
        place[index] = np.arange(size)
        return replace(
            self,
            # Searches pass over mu many times, so that the probabilities of a sample are kept in an array. Where the
            # problem holds the standard deviations of labels, searches do not use mu, and none is read here.
            mu=self.mu[index] if deviations is None else some_tables(self.mu, index),
            row=place[self.row][place[self.row] >= 0],
            cost=at_rows(self.cost, index),
            context_weight=at_rows(self.context_weight, index),
            deviations=None if deviations is None else replace(deviations, deviation=deviations.deviation[index]),
        )

    @property
    def total_cost(self) -> float:
        """Cost of a label on every pair of every context."""
        return self.expected_cost(np.broadcast_to(1.0, self.shape))

    def constraints(self, lower: float, budget: float) -> Constraints:
        """Return the constraints of an allocation with propensities of at least ``lower`` within a budget."""
        return Constraints(self.cost, np.array([[lower]]), budget, self.one_pair, self.count, self.before)

    def expected_cost(self, propensities: Propensities) -> float:
        """Return the expected cost of propensities, (g, m)."""
        count = self.count

        def cost_of(block: slice) -> float:
            return float(count[block] @ (propensities[block] * at_rows(self.cost, block)).sum(axis=1))

        return sum(map_blocks(cost_of, self.shape))

    def expected_labels(self, propensities: Propensities) -> FloatArray:
        """Return the expected number of labels by pair, (K, K); symmetric where order does not matter."""
        count = self.count
        total = sum(map_blocks(lambda block: count[block] @ propensities[block], self.shape))
        return self.pairs.matrices(np.atleast_2d(total))[0]

    def expected_by_model(self, propensities: Propensities) -> FloatArray:
        """Return the expected number of labels in which each model is compared, (K,)."""
        labels = self.expected_labels(propensities)
        return np.asarray(labels.sum(axis=1) + (labels.sum(axis=0) if self.pairs.ordered else 0))

    def draw(self, propensities: Propensities, names: PlanNames, rng: np.random.Generator) -> pd.DataFrame:
        """Draw the pairs to label on each context: of every pair as many labels as expected, rounded down or up.

        With at most one label of a context, the number of all labels is the expected one, rounded down or up. The frame
        has a row for every label to collect and for every context without a label, in the order of the contexts.
        """
        context, column, propensity = self._drawn_cells(propensities, rng)
        first, second = self.pairs.first[column], self.pairs.second[column]
        if not self.pairs.ordered:
            exchange = rng.random(len(column)) < 0.5
            first, second = np.where(exchange, second, first), np.where(exchange, first, second)
        unlabelled = np.setdiff1d(np.arange(self.n_contexts), context)
        every = np.concatenate([context, unlabelled])
        order = np.argsort(every, kind="stable")
        frame, models = names.rows_of(every[order]), np.array([*names.models, None], dtype=object)
        no_model = np.full(len(unlabelled), len(names.models))
        frame[names.first_column] = models[np.concatenate([first, no_model])[order]]
        frame[names.second_column] = models[np.concatenate([second, no_model])[order]]
        frame["propensity"] = np.concatenate([propensity, np.full(len(unlabelled), np.nan)])[order]
        return frame

    def _drawn_cells(
        self, propensities: Propensities, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return contexts, pairs and propensities of the labels that are drawn, (d,) each, in order.

        Notes
        -----
        Every pair has the contexts in a random order of its own, in which its propensities are added up from a uniform
        number on. A label is drawn where the sum passes a whole number (systematic sampling), so that each cell is
        drawn with its propensity. The draws of pairs are independent, except that sums are rounded up together, so that
        the number of all labels is the expected one, too. With at most one label of a context, the contexts that get a
        label are drawn in this way, and then a pair for each of them.
        """
        classes = cost_classes(np.broadcast_to(self.cost.mean(axis=1), self.n_rows))[self.row]
        order = np.lexsort((rng.random(self.n_contexts), classes))
        start = rng.random(1 if self.one_pair else len(self.pairs))
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

    def scan(self) -> tuple[FloatArray, FloatArray, FloatArray, DesignProblem]:
        """Pass over mu once; return mean, (K,), and covariance, (K, K), of F(mu), and the problem with deviations.

        The third result is the labelling covariance, (K, K), with a label on every pair of every context.
        """
        functional, directions = self.functional, None
        if not self.interdependent:
            directions = functional.label_directions(self.pairs.n_items)
        cell_type = self.cell_type if directions is not None else None
        deviation: CellArray | None = None if cell_type is None else np.empty(self.shape, cell_type)
        count, values, labelling = self.count, [], np.zeros(())
        work, arguments_of = type(self).scores_and_deviations, lambda part: (cell_type, count[part, None])
        for part, (scores, part_deviation, added) in pass_over(self, work, arguments_of):
            values.append(scores)
            labelling = labelling + added
            if deviation is not None:
                deviation[part] = part_deviation
        value = self.unit * np.concatenate(values)
        weight = count * self.context_weight
        mean = weight @ value / self.n_contexts
        difference = value - mean
        covariance = ((weight * self.context_weight)[:, None] * difference).T @ difference / self.n_contexts
        covariance = np.zeros_like(covariance) if self.fixed_prompts else (covariance + covariance.T) / 2
        if deviation is None or directions is None:
            return mean, covariance, labelling / self.n_contexts, self
        deviations = LabelDeviations(deviation, directions[self.pairs.first, self.pairs.second])
        problem = replace(self, deviations=deviations)
        return mean, covariance, problem.labelling_covariance(np.broadcast_to(1.0, self.shape)), problem

    def label_rates(self, metric: FloatArray) -> CellRates:
        """Return sqrt(information / cost) of a label of every cell, (g, m), in a metric, (K, K)."""
        if self.deviations is not None:
            return self.rates_of_lengths(self.worth * self.deviations.squared_lengths(metric))
        base: CellArray = np.empty(self.shape, self.cell_type)
        one = np.broadcast_to(1.0, self.shape)
        for part, information in pass_over(self, type(self).information_in, lambda part: (metric, one[part])):
            base[part] = np.sqrt(information / at_rows(self.cost, part))
        return CellRates(base)

    def rates_of_lengths(self, length: FloatArray) -> CellRates:
        """Return the rates of labels whose directions have these squared lengths, (m,)."""
        assert self.deviations is not None
        deviation, scale = self.deviations.deviation, self.scale(slice(0, self.n_rows))
        if len(self.cost) == 1:
            return CellRates(deviation, np.sqrt(scale), np.sqrt(length / self.cost[0]))
        return CellRates(deviation, np.sqrt(scale / self.cost), np.sqrt(length))

    def label_information(self, metric: FloatArray, propensity: FloatArray | None = None) -> FloatArray:
        """Return the information of a label of every cell, (g, m), of interdependent labels at ``propensity``."""
        if self.deviations is not None:
            information = np.square(self.deviations.deviation, dtype=np.float64)
            information *= self.worth * self.deviations.squared_lengths(metric)
            information *= self.scale(slice(0, self.n_rows))
            return information
        information = np.empty(self.shape)
        at = np.broadcast_to(1.0, self.shape) if propensity is None else propensity
        for part, of_part in pass_over(self, type(self).information_in, lambda part: (metric, at[part])):
            information[part] = of_part * self.worth
        return information

    def labelling_covariance(self, propensities: Propensities) -> FloatArray:
        """Return the covariance, (K, K), which labels with propensities (g, m) add to Sigma."""
        count = self.count[:, None]
        if self.deviations is not None:
            directions = self.deviations.directions
            return np.asarray((directions.T * self.labelling_variances(propensities)) @ directions)
        parts = pass_over(self, type(self).added_covariance, lambda part: (count[part], propensities[part]))
        return np.asarray(sum(total for _, total in parts) / self.n_contexts)

    def labelling_variances(self, propensities: Propensities) -> FloatArray:
        """Return the variances, (m,), which labels add to Sigma along the directions of their pairs."""
        assert self.deviations is not None
        deviation, count = self.deviations.deviation, self.count[:, None]

        def variances(block: slice) -> FloatArray:
            variance = np.square(deviation[block], dtype=np.float64)
            variance /= propensities[block] + self.before
            return np.asarray((count[block] * self.scale(block))[:, 0] @ variance)

        return np.asarray(sum(map_blocks(variances, self.shape)) / self.n_contexts)

    def propensities_at(self, metric: FloatArray, lower: float, multiplier: float) -> FloatArray:
        """Return the propensities of this problem's contexts, (g, m), by the rule of a plan for other contexts."""
        rates = CellRates(np.sqrt(self.label_information(metric) / self.cost))
        return propensities_at_multiplier(rates, self.constraints(lower, np.inf), multiplier)

    # Functions of a range of rows and its probabilities, mu (b, K, K, C), which workers call.

    def scores_and_deviations(
        self, part: slice, mu: FloatArray, cell_type: type[np.floating] | None, count: FloatArray
    ) -> tuple[FloatArray, CellArray | None, FloatArray | float]:
        """Return the scores of a range of rows, (b, d), and the standard deviations of their labels, (b, m).

        Where these do not tell what the labels add to Sigma, the third result is :meth:`added_covariance` of a label on
        every pair, for counts (b, 1).
        """
        scores = self.functional.value(mu)
        if cell_type is None:
            every_pair = np.broadcast_to(1.0, (len(mu), len(self.pairs)))
            return scores, None, self.added_covariance(part, mu, count, every_pair)
        variances = self.pairs.take(self.functional.label_variances(mu))
        return scores, np.sqrt(np.maximum(variances, 0)).astype(cell_type), 0.0

    def information_in(self, part: slice, mu: FloatArray, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the information of the labels of a range of rows, (b, m): the trace of metric times M."""
        return self.pairs.take(self.functional.information(mu, metric)) * self.scale(part)

    def added_covariance(self, part: slice, mu: FloatArray, count: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the sum of M / pi over the labels of a range of rows, (K, K), for counts (b, 1)."""
        # The entries (k, j) of unordered pairs are zero; the factor ``scale`` makes up for them.
        return np.asarray(self.functional.accumulate(mu, self.pairs.directed(count / propensity * self.scale(part))))

    def scale(self, part: slice) -> FloatArray:
        """Return the factor of M, (b or 1, 1), from the weights of contexts, the unit, and the display order of pairs.

        Where pairs are not ordered, one label counts for the ordered pair (j, k) and for (k, j). With the categories
        "first wins" and "second wins" exchanged, the functional has the same derivative in (k, j) as in (j, k). The
        label therefore moves the scores twice as far, and M is four times as large.
        """
        scale = self.unit**2 * (1.0 if self.pairs.ordered else 4.0)
        return scale * np.square(at_rows(self.context_weight, part))[:, None]


def some_tables(tables: Tables, index: IntArray) -> Tables:
    """Return some of the tables, also several times; those that are predicted are so when they are indexed."""
    return Computed((len(index), *tables.shape[1:]), partial(_tables_at, tables, index))


def _tables_at(tables: Tables, index: IntArray, rows: Rows) -> FloatArray:
    distinct, place = np.unique(index[rows], return_inverse=True)
    return tables[distinct][place.reshape(-1)]


# --- draws of a fixed size --------------------------------------------------------------------------------------------


def cost_classes(cost: FloatArray) -> IntArray:
    """Return classes of costs, (n,): samples are drawn in their order, random within a class, to cost what is expected.

    Shapes: cost (n,).
    """
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


# --- passes over the probabilities ------------------------------------------------------------------------------------


def pass_over(
    problem: DesignProblem,
    work: Callable[..., T],
    arguments_of: Callable[[slice], tuple[object, ...]],
) -> Iterator[tuple[slice, T]]:
    """Yield the ranges of rows of all chunks, in order, with the results of a function.

    The function takes the problem, a range of rows, their probabilities, (b, K, K, C), and further arguments. Ranges
    depend on the size of the problem alone, so that results do not depend on the number of threads or workers.
    """
    parts = list(row_slices(problem.n_rows, int(np.prod(problem.mu.shape[1:])), problem.chunk_size))
    cells = problem.mu.shape[1] ** 2
    tasks = _Tasks(parts, cells, arguments_of)
    results = in_workers(partial(_work_on, work), problem, tasks, name="prompts of a plan")
    for number, (part, of_part) in enumerate(zip(parts, results, strict=True)):
        yield from zip(cached_blocks(part, cells), of_part, strict=True)
        report(number + 1, len(parts), "plan, prompts", minor=len(parts) < _FEW_CHUNKS)


@dataclass(frozen=True, slots=True)
class _Tasks(Sequence[tuple[slice, list[tuple[object, ...]]]]):
    """A range of rows and the arguments of its blocks for each task, computed when it begins: all would not fit."""

    parts: list[slice]
    cells: int
    arguments_of: Callable[[slice], tuple[object, ...]]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number: int) -> tuple[slice, list[tuple[object, ...]]]:  # type: ignore[override]
        return self.parts[number], list(map(self.arguments_of, cached_blocks(self.parts[number], self.cells)))


def _work_on(work: Callable[..., T], problem: DesignProblem, task: tuple[slice, list[tuple[object, ...]]]) -> list[T]:
    """Return the results of a task by block, for probabilities that are clipped at the floor and renormalised."""
    part, arguments = task
    chunk, results = problem.mu[part], []
    for rows, of_rows in zip(cached_blocks(part, problem.mu.shape[1] ** 2), arguments, strict=True):
        # In a copy the numbers of a block are next to each other, also where those of a category are in ``chunk``.
        mu = np.array(chunk[rows.start - part.start : rows.stop - part.start], dtype=np.float64, order="K")
        # The diagonal is zero and below the floor in any case. Where no other probability is below the floor, clipping
        # would change nothing. To count these probabilities takes less time than to clip the table.
        if problem.functional.interior and np.count_nonzero(mu < problem.floor) > mu[:, :, 0].size:
            mu = clip_and_renormalise(mu, problem.floor)
        results.append(work(problem, rows, mu, *of_rows))
    return results


# --- the restricted Bradley-Terry estimator ---------------------------------------------------------------------------

# A plan's rule for contexts outside the plan is a fixed point: the information of a label depends on the propensities,
# and the propensities on the information. The steps towards this point end after _MAX_STEPS, or if no propensity
# changes by more than _TOLERANCE, relative to its size.
_MAX_STEPS, _TOLERANCE = 2000, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedDesignProblem(DesignProblem):
    r"""A design problem for the estimator ``bt_restricted``, with the labelling covariance E [I(X; pi)^-1].

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

    interdependent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        functional = self.functional
        if not isinstance(functional, BradleyTerry) or functional.weights is None:
            raise OptionError(
                f"functional={functional.name!r} with estimator='bt_restricted'; this estimator needs functional='bt'"
            )
        check_restricted_categories(functional.weights, ("first", "second", "ties")[: self.mu.shape[3]])

    def propensities_at(self, metric: FloatArray, lower: float, multiplier: float) -> FloatArray:
        """Return the propensities of this problem's contexts, (g, m), by the rule of a plan for other contexts.

        The information of a label depends on the propensities, so that these are a fixed point, found by iteration.
        """
        propensity = np.full(self.shape, 1.0 / len(self.pairs) if self.one_pair else 0.5)
        for _ in range(_MAX_STEPS):
            rates = CellRates(np.sqrt(self.label_information(metric, propensity) / self.cost))
            new = propensities_at_multiplier(rates, self.constraints(lower, np.inf), multiplier)
            change = np.abs(np.log(new / propensity)).max(initial=0.0)
            propensity = new
            if change < _TOLERANCE:
                break
        return propensity

    def variances_and_inverse(self, mu: FloatArray, propensity: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return variances of labels in the Bradley-Terry model nearest to ``mu``, and inverse information matrices.

        Shapes: mu (b, K, K, C), propensity (b, m), returns (b, K, K) and (b, D, D).
        """
        functional, n_items, ordered = self.functional, self.pairs.n_items, self.pairs.ordered
        assert isinstance(functional, BradleyTerry)
        assert functional.graph is not None
        # The estimator needs propensities for its estimate, but not for the probabilities of the nearest model.
        unused = TabulatedPairPropensity(np.zeros((1, n_items, n_items)))
        fitted = RestrictedBradleyTerry(functional, functional.graph, unused, ordered).probabilities(mu)
        variance = np.asarray(fitted * (1 - fitted))
        return variance, information_inverse(self.pairs.directed(propensity) * variance, ordered)

    def information_in(self, part: slice, mu: FloatArray, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the information of the labels of a range of rows, (b, m), in the bound at ``propensity``, (b, m)."""
        first, second, n_items = self.pairs.first, self.pairs.second, self.pairs.n_items
        variance, inverse = self.variances_and_inverse(mu, propensity)
        gram = inverse[:, :, :n_items] @ metric @ inverse[:, :n_items]
        diagonal = np.einsum("njj->nj", gram)
        length = diagonal[:, first] + diagonal[:, second] - 2 * gram[:, first, second]
        if self.pairs.ordered:
            # The last coordinate of z belongs to the position effect and is one.
            length += 2 * (gram[:, first, n_items] - gram[:, second, n_items]) + diagonal[:, n_items, None]
        scale = np.square(self.unit * at_rows(self.context_weight, part))[:, None]
        return np.asarray(scale * np.square(propensity) * self.pairs.take(variance) * np.maximum(length, 0))

    def added_covariance(self, part: slice, mu: FloatArray, count: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the sum over the contexts of a range of rows of the block of the scores in I^-1, (K, K)."""
        n_items = self.pairs.n_items
        _, inverse = self.variances_and_inverse(mu, propensity)
        weight = count[:, 0] * np.square(self.unit * at_rows(self.context_weight, part))
        return np.asarray(np.einsum("n,njk->jk", weight, inverse[:, :n_items, :n_items]))


def problem_of(estimator: str) -> type[DesignProblem]:
    """Return the class of the design problems of an estimator."""
    return RestrictedDesignProblem if estimator_named(estimator).needs_all_propensities else DesignProblem

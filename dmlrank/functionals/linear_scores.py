"""Scores that are linear in mu, linear forms of functionals, and means of scores, which are none of preferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from .._utils.argument_checks import check_whole
from ..data.arrays import name_of, row_slices
from ..data.derived_pairs import DerivedPairs
from ..data.graph import Graph
from ..data.outcomes import exchanged_wins
from ..data.preferences import FloatArray, IntArray
from ..exceptions import DataError, OptionError
from .base import CategoryWeights, Functional, Gauge, at_tables, edge_matrix, symmetric_metric

# Entries of the derivatives at pairs that are in memory at a time.
_CHUNK = 2_000_000
# Largest number of such entries in all for which the curvature of a functional is computed.
_MOST_ENTRIES = 400_000_000
# Largest step of a second difference, as a share of the distance to the nearest limit of a share or probability.
_STEP = 0.02
# The room for steps of a functional that is finite at all shares of a win.
_ROOM = 0.2
# Entries of a direction that are smaller than this share of its largest entry are rounding errors.
_MOVES = 1e-9


class LinearInMu(Functional):
    """A functional that is linear in the probabilities, and therefore the derivative of itself."""

    interior = False
    linear = True
    pair_local = True

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value(delta)


@dataclass(frozen=True, eq=False)
class PositionEffect(LinearInMu):
    """Mean of s1 - s2 over the ordered pairs of the graph, (n, 1), which is zero where display order does not matter.

    s1 and s2 are the preferences for the item shown first and for the item shown second, by ``weights`` that are
    symmetric in the items (``mirrored``), such as one half for every tie.
    """

    weights: CategoryWeights = field()
    graph: Graph = field()

    def value(self, mu: FloatArray) -> FloatArray:
        # Category by category, because most have no part in the gap.
        gap, edges = np.subtract(self.weights.first, self.weights.second), self.graph.edges.astype(float)
        gaps = (gap[c] * np.einsum("njk,jk->n", mu[..., c], edges) for c in np.flatnonzero(gap))
        return sum(gaps, np.zeros(len(mu)))[:, None] / (2 * self.graph.n_edges)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        gap = delta @ np.subtract(self.weights.first, self.weights.second)
        return np.asarray((gap * self.graph.edges[first, second])[:, None] / (2 * self.graph.n_edges))


@dataclass(frozen=True, eq=False)
class WinShare(LinearInMu):
    """The preference for ``item`` over ``opponent``, (n, 1): the mean over both display orders."""

    weights: CategoryWeights = field()
    item: int = field()
    opponent: int = field()
    limits = (0.0, 1.0)

    def value(self, mu: FloatArray) -> FloatArray:
        as_first = mu[:, self.item, self.opponent] @ np.array(self.weights.first)
        as_second = mu[:, self.opponent, self.item] @ np.array(self.weights.second)
        return np.asarray((as_first + as_second)[:, None] / 2)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        as_first = ((first == self.item) & (second == self.opponent)) * (delta @ np.array(self.weights.first))
        as_second = ((first == self.opponent) & (second == self.item)) * (delta @ np.array(self.weights.second))
        return np.asarray((as_first + as_second)[:, None] / 2)


@dataclass(frozen=True, eq=False)
class Linearised(LinearInMu):
    """The linear approximation F(m) + DF(m) [mu - c] of a functional F at a table m of preferences.

    The scores of mean preferences, F(E mu(X)), have the influence values DF(m) [mu(x) + S / pi (Y - mu(x)) - m] with
    m = E mu(X). The one-step estimator of this linear approximation therefore has the right influence values. If c is
    the debiased mean of mu, its estimate is F(m).

    functional: F.
    table (K, K, C): m: probabilities of which F and its derivative are finite.
    centre (K, K, C): c: m, before probabilities were raised to a floor.
    jacobian (d, K, K, C): DF(m). Only its values along directions that sum to zero over the categories have a meaning.
    scores (d,): F(m), less the bias of F at an estimate of m.
    """

    functional: Functional
    table: FloatArray
    centre: FloatArray
    jacobian: FloatArray
    scores: FloatArray
    name: str = ""

    @classmethod
    def at(
        cls, functional: Functional, table: FloatArray, centre: FloatArray | None = None, bias: FloatArray | None = None
    ) -> Linearised:
        """Return the linear approximation at a table of preferences; table and centre (K, K, C), bias (d,)."""
        scores = functional.value(table[None])[0]
        if bias is not None:
            scores = scores - bias
        centre, jacobian = table if centre is None else centre, jacobian_at(functional, table)
        return cls(functional, table, centre, jacobian, scores, functional.name)

    @property
    def label(self) -> str:
        """Name and short description of the functional."""
        return self.functional.label

    def gauge(self, n_items: int) -> Gauge:
        return self.functional.gauge(n_items)

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        return self.functional.names(items)

    def value(self, mu: FloatArray) -> FloatArray:
        return self.derivative(mu, mu) + self._constant

    @cached_property
    def _constant(self) -> FloatArray:
        """F(m) - DF(m) c, (d,)."""
        centre = self.centre[None]
        return np.asarray(self.scores - self.derivative(centre, centre)[0])

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        if self.functional.link == "logit":
            # A pair moves the scores along one direction: this takes K^2 C operations, the Jacobian K^3 C.
            return self.functional.derivative(self.table[None], delta)
        flat = self.jacobian.reshape(len(self.jacobian), -1)
        return np.asarray(delta.reshape(len(delta), flat.shape[1]) @ flat.T)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        if self.functional.link == "logit":
            return self.functional.derivative_along(self.table, delta, first, second)
        total = np.zeros((len(first), len(self.jacobian)))
        for category in range(delta.shape[1]):
            total += delta[:, category, None] * self.jacobian[:, first, second, category].T
        return total

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        scale = symmetric_metric(metric, len(self.jacobian))
        gram = np.einsum("ajkc,ab,bjke->jkce", self.jacobian, scale, self.jacobian, optimize=True)
        mean_square = np.einsum("jkcc,njkc->njk", gram, mu)
        return np.maximum(mean_square - np.einsum("njkc,jkce,njke->njk", mu, gram, mu, optimize=True), 0.0)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        mean = mu if labels is None else labels
        amounts = np.broadcast_to(amount, mean.shape[:3])
        variance = -np.einsum("njk,njkc,njke->jkce", amounts, mean, mean, optimize=True)
        categories = np.arange(mean.shape[-1])
        variance[..., categories, categories] += np.einsum("njk,njkc->jkc", amounts, mean)
        total = np.einsum("ajkc,jkce,bjke->ab", self.jacobian, variance, self.jacobian, optimize=True)
        return np.asarray((total + total.T) / 2)


def jacobian_at(functional: Functional, table: FloatArray, ordered: bool = True) -> FloatArray:
    """Return the derivative of a functional at a table in the probabilities of all ordered pairs, (d, K, K, C).

    Entry c is the derivative along the direction that raises the probability of category c and lowers that of the last
    category by the same amount. It is zero for the last category, and for pairs of a model with itself. Where display
    order does not matter, the probabilities of both orders of the pair change together.
    """
    n_items, n_categories = len(table), table.shape[-1]
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    columns = []
    for category in range(n_categories - 1):
        direction = np.zeros((len(first), n_categories))
        direction[:, category], direction[:, -1] = 1.0, -1.0
        columns.append(functional.derivative_along(table, direction, first, second, ordered=ordered))
    jacobian = np.zeros((columns[0].shape[1], n_items, n_items, n_categories))
    for category, column in enumerate(columns):
        jacobian[:, first, second, category] = column.T
    return jacobian


def curvature_bias(
    functional: Functional, table: FloatArray, moment: FloatArray, uses: NDArray[np.bool_], ordered: bool
) -> FloatArray:
    """Return the second-order bias of F at an estimated table, (d,): half the trace of D2F V; NaN if too costly."""
    # Errors of different pairs are taken as independent, with second moments V (K, K, C, C).
    n_scores = functional.value(table[None]).shape[1]
    values, axes = np.linalg.eigh(moment)
    roots = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    first, second, axis = np.nonzero((np.abs(roots).max(axis=-2) > 0) & uses[:, :, None])
    direction = roots[first, second, :, axis]
    share = _step_lengths(functional, table[first, second], direction)
    is_counted = share > 0
    first, second, direction, share = first[is_counted], second[is_counted], direction[is_counted], share[is_counted]
    if not len(first):
        return np.zeros(n_scores)
    if functional.pair_local:
        # The derivative at a pair depends on this pair alone.
        delta = share[:, None] * direction
        orders = [(first, second, delta)]
        if not ordered:
            orders.append((second, first, delta[:, exchanged_wins(delta.shape[1])]))
        sums = list[FloatArray]()
        for j, k, change in orders:
            for part in row_slices(len(j), len(table), _CHUNK):
                mu, rows = table[j[part], k[part]], (j[part], k[part], len(table))
                second_difference = functional.derivative_at(mu + change[part], change[part], *rows)
                second_difference = second_difference - functional.derivative_at(mu - change[part], change[part], *rows)
                sums.append((second_difference / (4 * share[part, None] ** 2)).sum(axis=0))
        return reduce(np.add, sums)
    if 2 * len(first) * table.size > _MOST_ENTRIES:
        return np.full(n_scores, np.nan)
    at_table = functional.value(table[None])[0]

    def difference(tables: FloatArray, directions: FloatArray) -> FloatArray:
        return functional.value(tables + directions) + functional.value(tables - directions) - 2 * at_table

    differences = at_tables(difference, table, share[:, None] * direction, first, second, ordered=ordered)
    return np.asarray((differences / share[:, None] ** 2).sum(axis=0) / 2)


def _step_lengths(functional: Functional, probabilities: FloatArray, direction: FloatArray) -> FloatArray:
    """Return the length of the step along each direction, (r, C), as a share of the direction, (r,), at most 1."""
    weights = functional.weights if functional.uses_shares else None
    if weights is None:
        change = np.where(np.abs(direction) > _MOVES * np.abs(direction).max(axis=1, keepdims=True), direction, 0.0)
        room = probabilities
    else:
        by_share = np.array([weights.first, weights.second]).T
        change, wins = direction @ by_share, probabilities @ by_share
        room = np.minimum(wins, 1 - wins) if functional.interior else np.full_like(wins, _ROOM)
    ratio = np.divide(room, np.abs(change), out=np.full(change.shape, np.inf), where=change != 0)
    return np.minimum(1.0, _STEP * np.maximum(ratio.min(axis=1), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class LinkedScore:
    r"""A functional as a linear map of link values: :math:`F(\mu) = c + \sum_q A_q\, l(s_q)`.

    The sum is over ordered pairs q, or over pairs where display order does not matter. The preference
    :math:`s_q = \langle w_1, \mu_q\rangle` is that for the first item of the pair. The link l is s - 1/2 for Borda and
    logit s for Bradley-Terry; it changes its sign where the items are exchanged.
    """

    functional: Functional
    n_items: int
    ordered: bool

    def __post_init__(self) -> None:
        functional, weights = self.functional, self.functional.category_weights
        if functional.link is None:
            raise OptionError(
                f"adjust= with the functional {functional.name!r}: style needs functional='borda' or 'bt'"
            )
        if weights.total is None or abs(weights.total - 1) > 1e-12:
            raise OptionError(
                f"adjust= was given with category weights {weights.first} and {weights.second}, which do not sum to 1 "
                f"in every category; use pairs=Pairs(category_weights='half')"
            )

    @property
    def is_logit(self) -> bool:
        """Whether the link is the logit."""
        return self.functional.link == "logit"

    @property
    def constant(self) -> float:
        """The constant c of every score."""
        return 0.0 if self.is_logit else 0.5

    @property
    def edges(self) -> FloatArray:
        """Weight of every pair, (K, K)."""
        return edge_matrix(self.functional.graph, self.functional.edge_weights, self.n_items)

    def preference(self, y: FloatArray) -> FloatArray:
        """Return the preference for the first item, (r,), from labels or probabilities, (r, C)."""
        return y @ np.array(self.functional.category_weights.first)

    def value(self, s: FloatArray) -> FloatArray:
        """Return the link of preferences, (r,)."""
        return np.asarray(logit(s) if self.is_logit else s - 0.5)

    def slope(self, s: FloatArray) -> FloatArray:
        """Return the derivative of the link at preferences, (r,)."""
        return np.asarray(1 / (s * (1 - s)) if self.is_logit else np.ones_like(s))

    def coefficients(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return A_q of r pairs, (r, K): the change of the scores by the link value of each pair."""
        directions = self.functional.label_directions(self.n_items)
        assert directions is not None, "the functionals with a link are sums over pairs"
        # The pair term of Bradley-Terry is logit s1 - logit s2, which is twice logit s1, and that of Borda is s1. Both
        # orders of a pair count where they are one.
        return directions[first, second] * ((2 if self.is_logit else 1) * (1 if self.ordered else 2))

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Return the items of all pairs over which is summed, (Q,) each: both orders only where order matters."""
        first, second = np.triu_indices(self.n_items, 1)
        if not self.ordered:
            return first, second
        return np.concatenate([first, second]), np.concatenate([second, first])


@dataclass(frozen=True)
class MeanScore(Functional):
    """The mean of a model's scores over prompts; ``number`` is the column of scores."""

    number: str = field(default="score", kw_only=True)
    name = "mean"
    of_scores = True
    interior = False
    linear = True
    gauge_is_known = True
    in_short = "means over prompts of the mean score of a model's runs"
    meaning = "Each score is the mean over prompts of the mean score of the model's runs on the prompt."

    @property
    def label(self) -> str:
        """The name with the column of scores."""
        return f"{self.name} (of {self.number})"

    def of_runs(self, scores: DerivedPairs, leaves_out: bool) -> DerivedPairs:
        """Return the scores of which this is the mean over prompts; those of runs are averaged as they are.

        Parameters
        ----------
        scores : DerivedPairs
            A table of scores, with its runs.
        leaves_out : bool
            Whether a score that cannot be computed from too few runs is missing, and no error.

        Returns
        -------
        DerivedPairs
            The scores of prompts.
        """
        return scores

    def gauge(self, n_items: int) -> Gauge:
        return Gauge(np.empty((0, n_items)), "")

    def value(self, mu: FloatArray) -> FloatArray:
        raise OptionError(f"functional={self.name!r} is a mean of scores, not of preferences; use functional='borda'")


@dataclass(frozen=True)
class PassAtK(MeanScore):
    r"""Chance that at least one of k runs of a model solves a prompt (pass@k), averaged over prompts.

    With c successes in n runs on a prompt, the estimate is :math:`1 - \binom{n - c}{k} / \binom{n}{k}`, the share of
    subsets of k runs that have a success (Chen et al., arXiv 2107.03374). It is unbiased; n may differ between prompts.

    Parameters
    ----------
    k : int
        Number of runs; each model needs as many on every prompt. ``missing=0.0`` of the fit counts lost runs as
        failures, "common" and "model" leave out models on prompts with fewer.
    number : str
        The column of scores, 1 or true for a success and 0 or false for a failure; a fit sets it.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> solved = [1, 0, 0, 0, 1, 1, 0, 1] * 20
    >>> runs = pd.DataFrame({"task": np.repeat(np.arange(40), 4), "model": "a", "solved": solved})
    >>> res = dr.dml_rank("solved ~ 1 | model", runs, context="task", functional=dr.functionals.PassAtK(2), rng=0)
    >>> res.functional, float(res.params["a"])
    ('pass@2', 0.75)
    """

    k: int
    in_short = "{name}, the chance that at least one of {k} runs of a model solves a prompt"
    meaning = (
        "Each score is {name}: the chance that at least one of {k} runs of the model solves a prompt, averaged over "
        "prompts and estimated from all runs on each."
    )
    written: ClassVar[str] = "pass@"

    def __post_init__(self) -> None:
        """Check the number of runs."""
        check_whole("k", self.k, 1)
        super().__post_init__()

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the number of runs."""
        return f"{self.written}{self.k}"

    def of_runs(self, scores: DerivedPairs, leaves_out: bool) -> DerivedPairs:
        runs = scores.values if scores.runs is None else scores.runs.value
        wrong = runs[~np.isnan(runs) & (runs != 0) & (runs != 1)]
        if len(wrong):
            raise DataError(
                f"column {scores.number!r} holds {wrong[0]:g}; {self.name} needs runs that succeed (1) or fail (0)"
            )
        table = scores.score_table
        n_runs, is_few = table.n_runs, (table.n_runs < self.k) & (table.n_runs > 0)
        if is_few.any() and (not leaves_out or (n_runs < self.k).all()):
            i, j = (int(place[0]) for place in np.nonzero(is_few))
            where = ", ".join(f"{name} {name_of(scores.table[name].iloc[i])!r}" for name in scores.prompt)
            kept = "; missing=0.0 counts each lost run as a failure, and missing='common' leaves out the prompts"
            kept *= bool((n_runs >= self.k).any())
            raise DataError(
                f"{int(is_few.sum()):,} pairs of prompt and model have fewer than k={self.k} runs with a score, first "
                f"{where}, model {scores.models[j]!r} ({n_runs[i, j]}); use a smaller k{kept}"
            )
        n_solved = np.rint(np.where(n_runs > 0, table.mean, 0.0) * n_runs)
        share = np.where(n_runs < self.k, np.nan, self._share(n_runs, n_solved))
        return replace(scores, values=share, of_runs=True)

    def _share(self, n_runs: IntArray, n_solved: FloatArray) -> FloatArray:
        """Return the share of subsets in which the model succeeds, for n runs of which c succeed."""
        return 1 - self._all_of(n_runs, n_runs - n_solved)

    def _all_of(self, n_runs: IntArray, number: FloatArray) -> FloatArray:
        """Return the share of subsets of k runs that consist of ``number`` given ones alone."""
        drawn = [np.maximum(number - i, 0) / np.maximum(n_runs - i, 1) for i in range(self.k)]
        return np.asarray(np.prod(drawn, axis=0))


@dataclass(frozen=True)
class PassHatK(PassAtK):
    r"""Chance that all of k runs of a model solve a prompt (pass^k), averaged over prompts.

    With c successes in n runs on a prompt, the estimate is :math:`\binom{c}{k} / \binom{n}{k}`.

    Parameters
    ----------
    k : int
        Number of runs; see :class:`PassAtK`.
    number : str
        The column of scores; a fit sets it.

    Examples
    --------
    >>> PassHatK(3).name
    'pass^3'
    """

    in_short = "{name}, the chance that all of {k} runs of a model solve a prompt"
    meaning = (
        "Each score is {name}: the chance that all of {k} runs of the model solve a prompt, averaged over prompts and "
        "estimated from all runs on each."
    )
    written: ClassVar[str] = "pass^"

    def _share(self, n_runs: IntArray, n_solved: FloatArray) -> FloatArray:
        return self._all_of(n_runs, n_solved)

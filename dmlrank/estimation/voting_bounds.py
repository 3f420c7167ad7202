"""Bounds of contrasts of scores if those who vote differ from those who do not, with their influence values.

Notes
-----
A pair is shown with the probability r(x), a shown pair gets a vote with the probability v(x), and pi = r v is the
propensity of a label. Where the data do not contain shown battles without a vote, every pair of every context counts as
shown (r = 1), and v = pi.

Given the label that a voter would give, the odds that this voter votes are within 1/gamma and gamma of the odds given
the context alone (the marginal sensitivity model). The votes that were cast have the category probabilities mu, those
that were not cast mu(y) w(y) with 1/gamma <= w(y) <= gamma and a sum of one. The largest mean worth of such a vote
solves a fractional knapsack problem: w is gamma for the best categories, 1/gamma for the worst, and one category
between them has the factor with which the probabilities sum to one. With B the sum of mu over the best categories, the
cumulative sums of the extreme probabilities u are G(B) = min(gamma B, 1 - (1 - B) / gamma).

All shown battles together, with and without a vote, have the category probabilities mu+ = v mu + (1 - v) u. A bound is
the mean over contexts of c'F(mu+), and its influence value is

    c'F(mu+) + sum_q c'DF_q(mu+) { S/pi [v + (1 - v) u'] (Y - mu) + R/r (mu - u) (V - v) } - bound

with u' the derivative of u in mu, and S, R, V equal to 1 where a pair is labelled, shown, voted on.

Some scores are a constant plus a sum over pairs q of a direction d_q times a term t(mu_q), as Borda and Bradley-Terry
scores are (:meth:`dmlrank.functionals.Functional.label_directions`). A contrast c increases in the term of pair q if
c'd_q > 0. The upper bound has the u that is best for the first item in these pairs, and the u that is worst for the
first item in all other pairs; the lower bound has the reverse. Both bounds are sharp, because all pairs can have these
extreme probabilities at the same time.

For other scores, the derivative of the contrast at mu determines u: categories along which the contrast increases have
the largest probabilities that the model allows. These probabilities are possible, so that the contrast can be as large
as the upper bound. To first order in gamma - 1 the contrast cannot be larger.

References
----------
Tan (2006), A distributional approach for causal inference using propensity scores, JASA 101.
Dorn, Guo, Kallus (2024), Doubly-valid/doubly-sharp sensitivity analysis for causal inference with unmeasured
confounding, JASA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial

import numpy as np

from .._utils.computation import report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals import CategoryWeights, Functional
from ..functionals.linear_scores import jacobian_at
from ..nuisance.propensity_model.estimate import PairPropensity
from .cross_fitting import ContextPart, clip_and_renormalise, contexts_at_a_time, over_parts
from .influence import Influence, InfluenceBlocks, NuisanceEstimates, add_to_rows
from .one_step import Residuals


@dataclass(frozen=True, slots=True, eq=False)
class ShownRows:
    """Shown battles as rows, with the residual of the vote that each of them got or did not get.

    context, block, first, second (b,): Context, influence block and ordered pair of each battle.
    rate (b,): v at the battle's context and pair.
    residual (b,): (V - v) / r, divided by the number of battles on the same shown cell. V is 1 if the battle got a
        vote, else 0.
    mu (b, C): mu at the battle's context and pair, not clipped.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    rate: FloatArray
    residual: FloatArray
    mu: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class VotingStage:
    """Probabilities of a vote and shown battles, from which the bounds for votes not cast are computed.

    rates: v of all pairs.
    cell_rate (m,): v at the labelled cells.
    shown: The shown battles; None where every pair counts as shown.
    block_context (q,): Context of each influence block: the blocks of the fit, followed by blocks for shown battles
        that belong to none of them.
    block_weight (q,): Number of shown cells in each block; labelled cells where every pair counts as shown.
    annotator (q,): Annotator of each block where annotators are clusters.
    shares_rates: Whether contexts of one fold with equal features have equal probabilities v.
    """

    rates: PairPropensity
    cell_rate: FloatArray
    shown: ShownRows | None
    block_context: IntArray
    block_weight: FloatArray
    annotator: IntArray | None
    shares_rates: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ExtremeShares:
    """The extreme probabilities of the categories of votes that were not cast.

    With the categories sorted from the best to the worst, M is the probability under mu of the best k categories. Their
    probability among votes not cast is G(M) = min(gamma M, 1 - (1 - M) / gamma): the first branch holds where all of
    them have the factor gamma, the second where all others have the factor 1/gamma.

    order (C,): Categories from the best to the worst; one order for all probabilities, or one for each of them.
    gamma: Bound of the odds ratio, at least 1.
    """

    order: IntArray
    gamma: float

    def of(self, mu: FloatArray) -> FloatArray:
        """Return the extreme probabilities u, (..., C), for probabilities ``mu``, (..., C), of votes that were cast."""
        extreme = by_category_first(mu.shape)
        best = below = np.zeros(mu.shape[:-1])
        for category in self._categories(mu):
            best = best + _get(mu, category)
            share = np.minimum(self.gamma * best, 1 - (1 - best) / self.gamma)
            _put(extreme, category, share - below)
            below = share
        return extreme

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of u along ``delta``, (..., C), a direction that sums to zero over the categories."""
        derivative = by_category_first(mu.shape)
        best = change = below = np.zeros(mu.shape[:-1])
        for category in self._categories(mu):
            best, change = best + _get(mu, category), change + _get(delta, category)
            slope = np.where(best * (self.gamma + 1) < 1, self.gamma, 1 / self.gamma) * change
            _put(derivative, category, slope - below)
            below = slope
        return derivative

    def _categories(self, mu: FloatArray) -> Iterator[int | IntArray]:
        """Yield the best category, the second best and so on: one for all probabilities, or one for each of them."""
        yield from self.order.tolist() if self.order.ndim == 1 else np.moveaxis(self.order, -1, 0)


def _get(values: FloatArray, category: int | IntArray) -> FloatArray:
    """Return the values, (...), of one category, or of the category that is given for each place."""
    if isinstance(category, int):
        return values[..., category]
    return np.take_along_axis(values, category[..., None], axis=-1)[..., 0]


def _put(values: FloatArray, category: int | IntArray, new: FloatArray) -> None:
    """Replace the values that :func:`_get` returns."""
    if isinstance(category, int):
        values[..., category] = new
    else:
        np.put_along_axis(values, category[..., None], new[..., None], axis=-1)


def by_category_first(shape: tuple[int, ...]) -> FloatArray:
    """Return memory for probabilities, (..., C), in which those of one category lie side by side."""
    return np.moveaxis(np.empty((shape[-1], *shape[:-1])), 0, -1)


# Largest number of rows of votes or battles that are evaluated at a time.
_ROWS = 10_000
# Largest number of terms of pairs that are evaluated at a time, so that a few arrays of this size stay in cache.
_TERMS = 60_000


@dataclass(frozen=True, slots=True, eq=False)
class BoundInputs:
    """The data, first stages and weights from which bounds are computed; the functional is not among them.

    nuisances: First stages of a fit without a judge.
    weight (n,): Weights of the contexts in the target population, with mean one.
    worth (C,): How much a category counts for the item shown first, less how much it counts for the other item.
    """

    data: PreferenceData
    nuisances: NuisanceEstimates
    blocks: InfluenceBlocks
    voting: VotingStage
    weight: FloatArray
    worth: FloatArray

    def mu(self, probabilities: FloatArray, interior: bool) -> FloatArray:
        """Return probabilities, clipped at the floor for functionals that need a floor."""
        return clip_and_renormalise(probabilities, self.nuisances.floor) if interior else probabilities

    def rates(self, part: ContextPart) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the vote rates v in a part of the contexts, and which rows of mu and of the rates belong together.

        Shapes: rates (s, K, K), row (s,), place (c,).
        """
        if not self.voting.shares_rates:
            return self.voting.rates.table(part.contexts), part.place, np.arange(len(part.contexts))
        row, representative, place = np.unique(part.place, return_index=True, return_inverse=True)
        return self.voting.rates.table(part.contexts[representative]), row, place.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionRows:
    """Votes and shown battles as rows, from which corrections are computed.

    context, block, first, second (r,): Context, influence block and ordered pair of each row.
    mu (r, C): mu at the pair, clipped at the floor for functionals that need a floor.
    rate (r,): v at the pair.
    label (r, C): Weighted residual of the votes, S/pi (Y - mu); zero in rows of shown battles.
    vote (r,): Weighted residual of voting, R/r (V - v); zero in rows of votes, unless every pair counts as shown.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    mu: FloatArray
    rate: FloatArray
    label: FloatArray
    vote: FloatArray

    @classmethod
    def of(cls, inputs: BoundInputs, interior: bool) -> CorrectionRows:
        """Gather the rows of all votes, and of all shown battles where these are known."""
        blocks, voting = inputs.blocks, inputs.voting
        votes = Residuals.of(inputs.data, inputs.nuisances, blocks, inputs.nuisances.mu.at(inputs.data.cells))
        label = votes.weighted(slice(None), interior)
        rate = voting.cell_rate[blocks.entry_cell]
        shown = voting.shown
        if shown is None:
            # With r = 1, the term R/r (V - v) has the part V at labelled pairs, which the rows contain, and the part -v
            # at every pair, which the value of each context contains.
            vote = blocks.entry_share.astype(float)
            return cls(votes.context, votes.block, votes.first, votes.second, votes.mu[interior], rate, label, vote)
        return cls(
            context=np.concatenate([votes.context, shown.context]),
            block=np.concatenate([votes.block, shown.block]),
            first=np.concatenate([votes.first, shown.first]),
            second=np.concatenate([votes.second, shown.second]),
            mu=np.concatenate([votes.mu[interior], inputs.mu(shown.mu, interior)]),
            rate=np.concatenate([rate, shown.rate]),
            label=np.concatenate([label, np.zeros_like(shown.mu)]),
            vote=np.concatenate([np.zeros(len(label)), shown.residual]),
        )

    def only(self, rows: IntArray | slice) -> CorrectionRows:
        """Return some of the rows."""
        return CorrectionRows(*(getattr(self, name)[rows] for name in self.__slots__))

    def directions(self, shares: ExtremeShares) -> tuple[FloatArray, FloatArray]:
        """Return mu+ at the pairs, (r, C), and the direction in which each row moves mu+, (r, C)."""
        extreme, rate = shares.of(self.mu), self.rate[:, None]
        change = rate * self.label + (1 - rate) * shares.derivative(self.mu, self.label)
        change += self.vote[:, None] * (self.mu - extreme)
        return rate * self.mu + (1 - rate) * extreme, change


def additive_bounds(
    functional: Functional,
    contrasts: FloatArray,
    gammas: Sequence[float],
    inputs: BoundInputs,
) -> Iterator[Influence]:
    """Yield the influence of the lower and upper bounds of contrasts, one for each gamma.

    The next step overwrites the arrays of the influence.

    Shapes: contrasts (J, K).
    """
    data, n_contrasts = inputs.data, len(contrasts)
    directions = functional.label_directions(data.n_items)
    assert directions is not None, "a pair-additive score has directions"
    order = np.argsort(-inputs.worth, kind="stable")
    of_table, table_weights = functional, np.eye(data.n_categories)
    if functional.uses_shares and is_dataclass(functional):
        # Scores depend on two preferences for each pair, which need less work than the probabilities of all categories.
        table_weights = np.array([functional.category_weights.first, functional.category_weights.second])
        of_table = replace(functional, weights=CategoryWeights((1.0, 0.0), (0.0, 1.0)))
    task = _AdditiveTask(functional, contrasts, inputs, directions @ contrasts.T, order, of_table, table_weights)
    rows = CorrectionRows.of(inputs, functional.interior)
    values_of_part = partial(task.values, gammas=tuple(gammas))
    parts = list(over_parts(values_of_part, inputs.nuisances.mu, contexts_at_a_time(data), "bounds"))
    voting = inputs.voting
    value = np.empty((data.n_contexts, 2 * n_contrasts))
    correction = np.empty((len(voting.block_context), 2 * n_contrasts))
    for number, gamma in enumerate(gammas):
        task.corrections(rows, gamma, correction)
        for part, (distinct, place) in parts:
            value[part.contexts] = distinct[number, place]
        yield Influence(value, correction, voting.block_context, voting.block_weight, inputs.weight)


@dataclass(frozen=True, slots=True, eq=False)
class _AdditiveTask:
    """The evaluation of bounds of contrasts of a pair-additive score.

    contrasts (J, K).
    slopes (K, K, J): c'd_q: how much each contrast changes with the term of each ordered pair.
    order (C,): Categories from the best to the worst for the item shown first.
    of_table: The functional of tables of m numbers for each pair.
    table_weights (m, C): These numbers as sums of the probabilities.
    """

    functional: Functional
    contrasts: FloatArray
    inputs: BoundInputs
    slopes: FloatArray
    order: IntArray
    of_table: Functional
    table_weights: FloatArray

    def values(self, part: ContextPart, gammas: Sequence[float]) -> tuple[FloatArray, IntArray]:
        """Return c'F(mu+) of a part, lower and upper bound.

        Shapes: values (gammas, s, 2 J) of distinct contexts, and which of them each context of the part equals, (c,).
        """
        rates, row, place = self.inputs.rates(part)
        probabilities = self.inputs.mu(part.probabilities(), self.functional.interior)
        flat = self.slopes.reshape(-1, len(self.contrasts))
        size = np.abs(flat)
        values = np.empty((len(gammas), len(row), 2 * len(self.contrasts)))
        step = max(1, _TERMS // rates[0].size)
        # Terms of both display orders then have a constant sum: what is best for one item is worst for the other.
        mirrored = not self.inputs.data.ordered and self.functional.category_weights.total is not None
        for start in range(0, len(row), step):
            rows = slice(start, start + step)
            mu = by_category_first((len(row[rows]), *probabilities.shape[1:]))
            mu[...] = probabilities[row[rows]]
            table, best_first = self._table(mu, self.order)
            worst_first = None if mirrored else self._table(mu, self.order[::-1])[1]
            centre, terms = self.of_table.value(table) @ self.contrasts.T, self.of_table.pair_terms(table)
            for number, gamma in enumerate(gammas):
                high = self._term_changes(table, terms, rates[rows], best_first, gamma)
                low = -high.swapaxes(1, 2)
                if worst_first is not None:
                    low = self._term_changes(table, terms, rates[rows], worst_first, gamma)
                high, low = high.reshape(len(mu), -1), low.reshape(len(mu), -1)
                # The upper bound has the high terms of pairs in which the contrast rises and the low terms of pairs in
                # which it falls; the lower bound has the others.
                middle, half_width = centre + (high + low) @ flat / 2, (high - low) @ size / 2
                values[number, rows] = np.hstack([middle - half_width, middle + half_width])
        return values, place

    def _table(self, mu: FloatArray, order: IntArray) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
        """Return the numbers of all pairs, and the steps by which they depend on the probabilities in an order.

        With M the probability of the first k categories, the numbers are the sum of a step, (m,), times M, (b, K, K),
        over k. Their extremes are the same sum of G(M), see :class:`ExtremeShares`.

        Shapes: mu (b, K, K, C), table (b, K, K, m).
        """
        table = by_category_first((*mu.shape[:-1], len(self.table_weights)))
        for number, weights in enumerate(self.table_weights):
            table[..., number] = sum(weights[c] * mu[..., c] for c in np.flatnonzero(weights))
        weights, steps = self.table_weights[:, order], list[tuple[FloatArray, FloatArray]]()
        first = np.zeros(mu.shape[:-1])
        for place, step in enumerate((weights - np.pad(weights, ((0, 0), (0, 1)))[:, 1:]).T):
            first = first + mu[..., order[place]]
            if step.any():
                steps.append((step, first))
        return table, steps

    def _term_changes(
        self,
        mu: FloatArray,
        terms: FloatArray,
        rates: FloatArray,
        steps: list[tuple[FloatArray, FloatArray]],
        gamma: float,
    ) -> FloatArray:
        """Return the terms at mu+ less those at mu, (b, K, K).

        Shapes: mu (b, K, K, m), terms (b, K, K), rates (b, K, K).
        """
        extreme, rate = by_category_first(mu.shape), rates[..., None]
        extreme[...] = 0.0
        for step, first in steps:
            share = np.minimum(gamma * first, first / gamma + (1 - 1 / gamma))
            for number in np.flatnonzero(step):
                extreme[..., number] += step[number] * share
        extreme -= mu
        moved = mu + (1 - rate) * extreme
        change = self.of_table.pair_terms(moved)
        change -= terms
        if self.inputs.voting.shown is None:
            change += rates * self.of_table.pair_terms(moved, extreme)
        return change

    def corrections(self, all_rows: CorrectionRows, gamma: float, total: FloatArray) -> None:
        """Write the corrections of all blocks, lower and upper bound, to ``total``, (q, 2 J)."""
        data = self.inputs.data
        total[...] = 0.0
        for start in range(0, len(all_rows.block), _ROWS):
            rows = all_rows.only(slice(start, start + _ROWS))
            # Probabilities and directions that are best and worst for the item shown first.
            high, low = (rows.directions(ExtremeShares(order, gamma)) for order in (self.order, self.order[::-1]))
            orders = [(rows.first, rows.second, high, low)]
            if not data.ordered:
                high, low = ((moved[:, data.flip], change[:, data.flip]) for moved, change in (high, low))
                # Where the two items are exchanged, the shares that were best for the first item are the worst ones.
                orders.append((rows.second, rows.first, low, high))
            for first, second, best, worst in orders:
                up, down = (
                    self.functional.derivative_at(*moved_and_change, first, second, data.n_items) @ self.contrasts.T
                    for moved_and_change in (best, worst)
                )
                rising = self.slopes[first, second] > 0
                bounds = np.hstack([np.where(rising, down, up), np.where(rising, up, down)])
                add_to_rows(total, rows.block, bounds)


# Largest number of derivatives (with respect to category probabilities) that are in memory at a time.
_ENTRIES = 5_000_000


def first_order_bounds(
    functional: Functional, contrasts: FloatArray, gammas: Sequence[float], inputs: BoundInputs
) -> list[Influence]:
    """Return the influence of the lower and upper bounds of contrasts, one for each gamma.

    Shapes: contrasts (J, d).

    Notes
    -----
    The derivatives in the probabilities of all pairs and all categories are computed in every context, or once for
    contexts of a fold with equal features. The cost grows with the fourth power of the number of models.
    """
    data, voting, n_estimates = inputs.data, inputs.voting, 2 * len(contrasts)
    rows = CorrectionRows.of(inputs, functional.interior)
    by_context = np.argsort(rows.context, kind="stable")
    bounds = np.searchsorted(rows.context[by_context], np.arange(data.n_contexts + 1))
    values = np.zeros((len(gammas), data.n_contexts, n_estimates))
    corrections = np.zeros((len(gammas), len(voting.block_context), n_estimates))
    size = max(1, _ENTRIES // (data.n_items**2 * data.n_categories * contrasts.shape[1]))
    n_done, above = 0, np.triu(np.ones((data.n_items, data.n_items), dtype=bool), 1)[..., None]
    for part in inputs.nuisances.mu.parts(size):
        of_part = rows.only(np.concatenate([by_context[bounds[i] : bounds[i + 1]] for i in part.contexts]))
        rates, row_of_mu, place = inputs.rates(part)
        rate, mu = rates[..., None], inputs.mu(part.probabilities(), functional.interior)[row_of_mu]
        # Derivatives in the category probabilities of all pairs, (s, d, K, K, C).
        gradients = np.stack([jacobian_at(functional, table, data.ordered) for table in mu])
        block, first_row, row_block = np.unique(of_part.block, return_index=True, return_inverse=True)
        place_of = np.full(data.n_contexts, -1)
        place_of[part.contexts] = place
        block_place, row_place = place_of[of_part.context[first_row]], place_of[of_part.context]
        at_rows = row_place, of_part.first, of_part.second
        at_blocks = row_block.reshape(-1), of_part.first, of_part.second
        change = np.empty((len(gammas), len(block), n_estimates))
        for column in range(n_estimates):
            contrast = contrasts[column % len(contrasts)]
            slope = np.einsum("sdjkc,d->sjkc", gradients, contrast if column >= len(contrasts) else -contrast)
            order = np.argsort(-slope, axis=-1, kind="stable")
            for number, gamma in enumerate(gammas):
                extreme = ExtremeShares(order, gamma).of(mu)
                delta = np.zeros((len(block), *mu.shape[1:]))
                np.add.at(delta, at_blocks, of_part.directions(ExtremeShares(order[at_rows], gamma))[1])
                if not data.ordered:
                    extreme = np.where(above, extreme, in_other_order(extreme))
                    delta += in_other_order(delta)
                moved = rate * mu + (1 - rate) * extreme
                change[number, :, column] = functional.derivative(moved[block_place], delta) @ contrast
                of_mu = functional.value(moved)
                if voting.shown is None:
                    of_mu = of_mu - functional.derivative(moved, rate * (mu - extreme))
                values[number, part.contexts, column] = (of_mu @ contrast)[place]
        for correction, of_gamma in zip(corrections, change, strict=True):
            add_to_rows(correction, block, of_gamma)
        n_done += len(part.contexts)
        report(n_done, data.n_contexts, "bounds, contexts")
    given = voting.block_context, voting.block_weight, inputs.weight
    return [Influence(value, correction, *given) for value, correction in zip(values, corrections, strict=True)]

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
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from .._utils.tasks_and_threads import report
from ..data.arrays import RowRecord, row_slices
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray
from ..functionals import Functional
from ..functionals.linear_scores import jacobian_at
from ..nuisance.propensity import PairPropensity
from .cross_fitting import ContextPart, clip_and_renormalise, contexts_at_a_time, over_parts
from .influence import OneStepInputs, add_to_rows
from .one_step import Residuals, rows_of_contexts


@dataclass(frozen=True, slots=True, eq=False)
class VotingStage:
    """Probabilities of a vote and shown battles, from which the bounds for votes not cast are computed.

    rates: v of all pairs.
    cell_rate (m,): v at the labelled cells.
    shown: The shown battles, with mu not clipped; None where every pair counts as shown.
    block_context (q,): Context of each influence block: the blocks of the fit, followed by blocks for shown battles
        that belong to none of them.
    block_weight (q,): Number of shown cells in each block; labelled cells where every pair counts as shown.
    annotator (q,): Annotator of each block where annotators are clusters.
    shares_rates: Whether contexts of one fold with equal features have equal probabilities v.
    """

    rates: PairPropensity
    cell_rate: FloatArray
    shown: CorrectionRows | None
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
        best = self._sums_over_best(mu)
        return self._of_categories(np.minimum(self.gamma * best, 1 - (1 - best) / self.gamma))

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of u along ``delta``, (..., C), a direction that sums to zero over the categories."""
        best, change = self._sums_over_best(mu), self._sums_over_best(delta)
        return self._of_categories(np.where(best * (self.gamma + 1) < 1, self.gamma, 1 / self.gamma) * change)

    def _sums_over_best(self, values: FloatArray) -> FloatArray:
        """Return the sums of values, (..., C), over the best category, the best two and so on, (C, ...)."""
        best_first = np.take_along_axis(np.moveaxis(values, -1, 0), self._places(values.ndim), axis=0)
        return np.asarray(np.cumsum(best_first, axis=0, out=best_first))

    def _of_categories(self, sums: FloatArray) -> FloatArray:
        """Return the values of the categories, (..., C), from sums over the best ones, (C, ...)."""
        values = np.empty_like(sums)
        np.put_along_axis(values, self._places(sums.ndim), np.diff(sums, axis=0, prepend=0.0), axis=0)
        return np.moveaxis(values, 0, -1)

    def _places(self, n_axes: int) -> IntArray:
        """Return the categories from the best to the worst on the first of so many axes."""
        return np.moveaxis(self.order.reshape(*(1,) * (n_axes - self.order.ndim), *self.order.shape), -1, 0)


# Largest number of rows of votes or battles that are evaluated at a time.
_ROWS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class BoundInputs:
    """The inputs of a fit without a judge from which bounds are computed; the functional is not among them.

    worth (C,): How much a category counts for the item shown first, less how much it counts for the other item.
    """

    fit: OneStepInputs
    voting: VotingStage
    worth: FloatArray

    def mu(self, probabilities: FloatArray, interior: bool) -> FloatArray:
        """Return probabilities, clipped at the floor for functionals that need a floor."""
        return clip_and_renormalise(probabilities, self.fit.floor) if interior else probabilities

    def rates(self, part: ContextPart) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the vote rates v in a part of the contexts, and which rows of mu and of the rates belong together.

        Shapes: rates (s, K, K), row (s,), never decreasing, place (c,).
        """
        if not self.voting.shares_rates:
            by_row = np.argsort(part.place, kind="stable")
            rates = np.minimum(self.voting.rates.table(part.contexts[by_row]), 1.0)
            return rates, part.place[by_row], np.argsort(by_row)
        row, representative, place = np.unique(part.place, return_index=True, return_inverse=True)
        return np.minimum(self.voting.rates.table(part.contexts[representative]), 1.0), row, place.reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionRows(RowRecord):
    """Votes and shown battles as rows in the order of their contexts, from which corrections are computed.

    context, block, first, second (r,): Context, influence block and ordered pair of each row.
    mu (r, C): mu at the pair, clipped at the floor for functionals that need a floor.
    rate (r,): v at the pair.
    label (r, C): Weighted residual of the votes, S/pi (Y - mu); zero in rows of shown battles.
    vote (r,): Weighted residual of voting, R/r (V - v), divided by the number of battles on the same shown cell; zero
        in rows of votes, unless every pair counts as shown.
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
        blocks, voting = inputs.fit.blocks, inputs.voting
        votes = Residuals.of(inputs.fit, inputs.fit.mu.at(inputs.fit.data.cells))
        label = votes.weighted(slice(None), interior)
        rate, shown = voting.cell_rate[blocks.entry_cell], voting.shown
        # With r = 1, the term R/r (V - v) has the part V at labelled pairs, which the rows contain, and the part -v at
        # every pair, which the value of each context contains.
        vote = blocks.entry_share.astype(float) if shown is None else np.zeros(len(label))
        rows = cls(votes.context, votes.block, votes.first, votes.second, votes.mu[interior], rate, label, vote)
        if shown is not None:
            shown = replace(shown, mu=inputs.mu(shown.mu, interior))
            rows = cls(*(np.concatenate([getattr(part, name) for part in (rows, shown)]) for name in cls.__slots__))
        return rows.only(np.argsort(rows.context, kind="stable"))

    def of_contexts(self, contexts: IntArray) -> tuple[CorrectionRows, IntArray, IntArray]:
        """Return the rows of some contexts, the blocks that they have, (p,), and which of them each row is in, (r,)."""
        rows = self.only(rows_of_contexts(self.context, contexts)[0])
        blocks, place = np.unique(rows.block, return_inverse=True)
        return rows, blocks, place.reshape(-1)

    def directions(self, shares: ExtremeShares) -> tuple[FloatArray, FloatArray]:
        """Return mu+ at the pairs, (r, C), and the direction in which each row moves mu+, (r, C)."""
        extreme, rate = shares.of(self.mu), self.rate[:, None]
        change = rate * self.label + (1 - rate) * shares.derivative(self.mu, self.label)
        change += self.vote[:, None] * (self.mu - extreme)
        return rate * self.mu + (1 - rate) * extreme, change


@dataclass(frozen=True, slots=True, eq=False)
class PartBounds:
    """The influence of lower and upper bounds in a part of the contexts, at one gamma.

    number: Which of the gammas it is.
    contexts (c,), value (c, 2 J): The contexts and c'F(mu+) in each of them.
    blocks (p,), correction (p, 2 J): The influence blocks of these contexts that have votes or battles.
    """

    number: int
    contexts: IntArray
    value: FloatArray
    blocks: IntArray
    correction: FloatArray


def additive_bounds(
    functional: Functional, contrasts: FloatArray, gammas: Sequence[float], inputs: BoundInputs
) -> Iterator[PartBounds]:
    """Yield the influence of the lower and upper bounds of contrasts, part by part and for each gamma.

    Shapes: contrasts (J, K).
    """
    data, weights = inputs.fit.data, functional.category_weights
    directions = functional.label_directions(data.n_items)
    assert directions is not None, "a pair-additive score has directions"
    # The term of a pair is a link of the preference s1, or logit s1 - logit s2. It is twice logit s1 where s1 + s2 = 1.
    shares = [(np.array(weights.first), 1.0)]
    if functional.link == "logit":
        shares = [(shares[0][0], 2.0)] if weights.total == 1 else [*shares, (np.array(weights.second), -1.0)]
    # Where order does not matter, the terms of both orders of a pair have a constant sum, if the shares have: what is
    # best for one item is worst for the other, and both orders change the scores alike.
    is_joined = not data.ordered and weights.total is not None
    slopes = directions @ contrasts.T * (2 if is_joined else 1)
    moves = slopes.any(axis=-1)
    pairs = np.flatnonzero(np.triu(moves) if is_joined else moves)
    order = np.argsort(-inputs.worth, kind="stable")
    task = _AdditiveTask(functional, contrasts, inputs, slopes, order, shares, pairs, is_joined)
    rows = CorrectionRows.of(inputs, functional.interior)
    values_of_part = partial(task.values, gammas=tuple(gammas))
    for part, (distinct, place) in over_parts(values_of_part, inputs.fit.mu, contexts_at_a_time(data), "bounds"):
        of_part, blocks, row_block = rows.of_contexts(part.contexts)
        for number, gamma in enumerate(gammas):
            correction = np.zeros((len(blocks), 2 * len(contrasts)))
            task.add_corrections(of_part, row_block, gamma, correction)
            yield PartBounds(number, part.contexts, distinct[number, place], blocks, correction)


# Pairs (step, step * M), with M the probabilities of the best categories, (...). The sum of step * M is a share.
_Steps: TypeAlias = list[tuple[float, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class _AdditiveTask:
    """The evaluation of bounds of contrasts of a pair-additive score.

    contrasts (J, K).
    slopes (K, K, J): c'd_q: how much each contrast changes with the term of each ordered pair, or of both its orders.
    order (C,): Categories from the best to the worst for the item shown first.
    shares: The preferences whose links are added up to the term of a pair: weights of the categories, (C,), and factor.
    pairs (Q,): The ordered pairs j K + k whose terms are evaluated.
    is_joined: Whether both orders of a pair have one term.
    """

    functional: Functional
    contrasts: FloatArray
    inputs: BoundInputs
    slopes: FloatArray
    order: IntArray
    shares: list[tuple[FloatArray, float]]
    pairs: IntArray
    is_joined: bool

    def values(self, part: ContextPart, gammas: Sequence[float]) -> tuple[FloatArray, IntArray]:
        """Return c'F(mu+) of a part, lower and upper bound.

        Shapes: values (gammas, s, 2 J) of distinct contexts, and which of them each context of the part equals, (c,).
        """
        rates, row, place = self.inputs.rates(part)
        slopes = self.slopes.reshape(-1, len(self.contrasts))[self.pairs]
        size = np.abs(slopes)
        values = np.empty((len(gammas), len(row), 2 * len(self.contrasts)))
        for block, unclipped in part.blocks():
            table = self.inputs.mu(unclipped, self.functional.interior)
            rows = slice(*np.searchsorted(row, [block.start, block.stop]))
            of_row, rate = row[rows] - block.start, rates[rows].reshape(-1, table.shape[1] ** 2)[:, self.pairs]
            of_pairs = [of_category.reshape(len(table), -1)[:, self.pairs] for of_category in np.moveaxis(table, -1, 0)]
            mu = np.stack(of_pairs)[:, of_row]
            centre = (self.functional.value(table) @ self.contrasts.T)[of_row]
            # Each share with the steps to its extremes that are best and worst for the item shown first.
            shares = [
                (np.tensordot(weights, mu, 1), factor, [_steps(weights, mu, o) for o in (self.order, self.order[::-1])])
                for weights, factor in self.shares
            ]
            # Memory of this loop, because new memory takes longer than the operations on it.
            high, low, *memory = np.empty((6, *rate.shape))
            unvoted = 1 - rate
            for number, gamma in enumerate(gammas):
                for extreme, o in ((high, 0), (low, 1)):
                    extreme[...] = 0.0
                    for share, factor, both in shares:
                        change = self._change(share, rate, unvoted, both[o], gamma, memory)
                        change *= factor
                        extreme += change
                # The upper bound has the high terms of pairs in which the contrast rises and the low terms of pairs in
                # which it falls; the lower bound has the others.
                difference = np.subtract(high, low, out=memory[0])
                high += low
                middle, half_width = centre + high @ slopes / 2, difference @ size / 2
                values[number, rows] = np.hstack([middle - half_width, middle + half_width])
        return values, place

    def _change(
        self,
        share: FloatArray,
        rate: FloatArray,
        unvoted: FloatArray,
        steps: _Steps,
        gamma: float,
        memory: Sequence[FloatArray],
    ) -> FloatArray:
        """Return the link of a share at mu+ less that at mu, and what the votes not cast add to the value, (b, Q).

        The result is one of the four arrays of ``memory``.
        """
        to_extreme, change, left, moved = memory
        np.negative(share, out=to_extreme)
        for step, part in steps:
            np.multiply(part, gamma, out=change)
            np.multiply(part, 1 / gamma, out=left)
            left += step * (1 - 1 / gamma)
            # A negative step turns the smaller branch into the larger one.
            to_extreme += (np.minimum if step > 0 else np.maximum)(change, left, out=change)
        counts_all = self.inputs.voting.shown is None
        if self.functional.link == "identity":
            return to_extreme if counts_all else np.multiply(unvoted, to_extreme, out=change)
        np.multiply(unvoted, to_extreme, out=change)
        np.add(share, change, out=moved)
        np.subtract(1, moved, out=left)
        # The log-odds after the change less those before.
        np.multiply(share, left, out=left)
        np.divide(change, left, out=change)
        np.log1p(change, out=change)
        if counts_all:
            to_extreme *= rate
            moved *= np.subtract(1, moved, out=left)
            to_extreme /= moved
            change += to_extreme
        return change

    def add_corrections(self, all_rows: CorrectionRows, block: IntArray, gamma: float, total: FloatArray) -> None:
        """Add the corrections of rows, lower and upper bound, to those of their blocks: ``total`` is (p, 2 J)."""
        data = self.inputs.fit.data
        for part in row_slices(len(block), 1, _ROWS):
            rows = all_rows.only(part)
            # Probabilities and directions that are best and worst for the item shown first.
            high, low = (rows.directions(ExtremeShares(order, gamma)) for order in (self.order, self.order[::-1]))
            orders = [(rows.first, rows.second, high, low)]
            if not data.ordered and not self.is_joined:
                high, low = ((moved[:, data.flip], change[:, data.flip]) for moved, change in (high, low))
                # Where the two items are exchanged, the shares that were best for the first item are the worst ones.
                orders.append((rows.second, rows.first, low, high))
            for first, second, best, worst in orders:
                slope = self.slopes[first, second]
                up, down = (self._term_change(*moved_and_change)[:, None] for moved_and_change in (best, worst))
                rising = slope > 0
                bounds = np.hstack([slope * np.where(rising, down, up), slope * np.where(rising, up, down)])
                add_to_rows(total, block[part], bounds)

    def _term_change(self, moved: FloatArray, change: FloatArray) -> FloatArray:
        """Return how far directions, (r, C), at probabilities, (r, C), move the terms of their pairs, (r,)."""
        total = np.zeros(len(moved))
        for weights, factor in self.shares:
            share = moved @ weights
            slope = 1 / (share * (1 - share)) if self.functional.link == "logit" else 1.0
            total += factor * slope * (change @ weights)
        return total


def _steps(weights: FloatArray, mu: FloatArray, order: IntArray) -> _Steps:
    """Return the steps of a share of the probabilities ``mu``, (C, b, Q), with the categories in an order.

    With M the probability of the first k categories, the share is the sum of a step times M over k. Its extreme is the
    same sum of G(M), see :class:`ExtremeShares`. Each step stands beside the step times M.
    """
    steps, first = list[tuple[float, FloatArray]](), 0.0
    for step, category in zip(weights[order] - np.append(weights[order][1:], 0.0), order, strict=True):
        first = first + mu[category]
        if step:
            steps.append((float(step), step * first))
    return steps


# Largest number of derivatives (with respect to category probabilities) that are in memory at a time.
_ENTRIES = 5_000_000


def first_order_bounds(
    functional: Functional, contrasts: FloatArray, gammas: Sequence[float], inputs: BoundInputs
) -> Iterator[PartBounds]:
    """Yield the influence of the lower and upper bounds of contrasts, part by part and for each gamma.

    Shapes: contrasts (J, d).

    Notes
    -----
    The derivatives in the probabilities of all pairs and all categories are computed in every context, or once for
    contexts of a fold with equal features. The cost grows with the fourth power of the number of models.
    """
    data, n_estimates, n_done = inputs.fit.data, 2 * len(contrasts), 0
    rows = CorrectionRows.of(inputs, functional.interior)
    size = max(1, _ENTRIES // (data.n_items**2 * data.n_categories * contrasts.shape[1]))
    above = np.triu(np.ones((data.n_items, data.n_items), dtype=bool), 1)[..., None]
    for part in inputs.fit.mu.parts(size):
        of_part, block, row_block = rows.of_contexts(part.contexts)
        rates, row_of_mu, place = inputs.rates(part)
        rate, mu = rates[..., None], inputs.mu(part.probabilities(), functional.interior)[row_of_mu]
        # Derivatives in the category probabilities of all pairs, (s, d, K, K, C).
        gradients = np.stack([jacobian_at(functional, table, data.ordered) for table in mu])
        row_place = place[np.searchsorted(part.contexts, of_part.context)]
        block_place = place[np.searchsorted(part.contexts, inputs.voting.block_context[block])]
        at_rows, at_blocks = ((where, of_part.first, of_part.second) for where in (row_place, row_block))
        values, changes = (np.empty((len(gammas), len(each), n_estimates)) for each in (place, block))
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
                changes[number, :, column] = functional.derivative(moved[block_place], delta) @ contrast
                of_mu = functional.value(moved)
                if inputs.voting.shown is None:
                    of_mu = of_mu - functional.derivative(moved, rate * (mu - extreme))
                values[number, :, column] = (of_mu @ contrast)[place]
        for number, (value, change) in enumerate(zip(values, changes, strict=True)):
            yield PartBounds(number, part.contexts, value, block, change)
        n_done += len(part.contexts)
        report(n_done, data.n_contexts, "bounds, contexts")

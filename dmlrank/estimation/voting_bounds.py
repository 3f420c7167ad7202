"""Bounds of contrasts of scores if those who vote differ from those who do not, with their influence values.

Given the label that a voter would give, the odds that this voter votes are within 1/gamma and gamma of the odds given
the context alone. The votes that were not cast on a shown pair then have category probabilities u between two extremes
(:mod:`dmlrank.estimation.extreme_shares`). All shown battles together, with and without a vote, have the category
probabilities mu+ = v mu + (1 - v) u, where v is the probability that a shown battle gets a vote. A
bound is the mean over contexts of c'F(mu+), and its influence value is

    c'F(mu+) + sum_q c'DF_q(mu+) { S/pi [v + (1 - v) u'] (Y - mu) + R/r (mu - u) (V - v) } - bound

with u' the derivative of u in mu, S, R, V equal to 1 where a pair is labelled, shown, voted on, and pi = r v.

This module evaluates scores that are a constant plus a sum over pairs q of a direction d_q times a term t(mu_q)
(:class:`dmlrank.functionals.base.Functional`: Borda and Bradley-Terry scores). A contrast c increases in the
term of pair q if c'd_q > 0. The upper bound has the u that is best for the first item in these pairs, and the u that is
worst for the first item in all other pairs; the lower bound has the reverse. Both bounds are sharp, because all pairs
can have these extreme probabilities at the same time. :mod:`dmlrank.estimation.first_order_bounds` evaluates other
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.computation import in_workers, report
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals import Functional
from .cross_fitting import ContextPart, NumberedParts
from .extreme_shares import ExtremeShares
from .influence import Influence
from .influence_blocks import InfluenceBlocks
from .influence_by_context import contexts_at_a_time
from .nuisance_estimates import NuisanceEstimates
from .outcome_floor import clip_and_renormalise
from .residuals import Residuals
from .voting_stage import VotingStage, block_sums

# Largest number of rows of votes or battles that are evaluated at a time.
_ROWS = 200_000


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
            mu = votes.mu_for(interior)
            return cls(
                votes.context, votes.block, votes.first, votes.second, mu, rate, label, blocks.entry_share.astype(float)
            )
        return cls(
            context=np.concatenate([votes.context, shown.context]),
            block=np.concatenate([votes.block, shown.block]),
            first=np.concatenate([votes.first, shown.first]),
            second=np.concatenate([votes.second, shown.second]),
            mu=np.concatenate([votes.mu_for(interior), inputs.mu(shown.mu, interior)]),
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
) -> list[Influence]:
    """Return the influence of the lower and upper bounds of contrasts, one for each gamma.

    Shapes: contrasts (J, K).
    """
    task = _AdditiveTask.of(functional, contrasts, inputs)
    data, n_contrasts = inputs.data, len(contrasts)
    values = np.empty((len(gammas), data.n_contexts, 2 * n_contrasts))
    parts = NumberedParts(inputs.nuisances.mu, contexts_at_a_time(data))
    values_of_parts = in_workers(
        _values_of_part,
        (task, parts, tuple(gammas)),
        range(len(parts)),
        name="bounds of contexts",
        is_concurrent=parts.is_concurrent,
    )
    n_done = 0
    for number, part_values in enumerate(values_of_parts):
        values[:, parts[number].contexts] = part_values
        n_done += len(parts[number].contexts)
        report(n_done, data.n_contexts, "bounds, contexts")
    voting = inputs.voting
    return [
        Influence(value, task.corrections(gamma), voting.block_context, voting.block_weight, inputs.weight)
        for value, gamma in zip(values, gammas, strict=True)
    ]


def _values_of_part(shared: tuple[_AdditiveTask, NumberedParts, tuple[float, ...]], number: int) -> FloatArray:
    """Return the bounds in the contexts of a part, (gammas, c, 2 J)."""
    task, parts, gammas = shared
    return task.values(parts[number], gammas)


@dataclass(frozen=True, slots=True, eq=False)
class _AdditiveTask:
    """The evaluation of bounds of contrasts of a pair-additive score.

    contrasts (J, K).
    slopes (K, K, J): c'd_q: how much each contrast changes with the term of each ordered pair.
    order (C,): Categories from the best to the worst for the item shown first.
    """

    functional: Functional
    contrasts: FloatArray
    inputs: BoundInputs
    slopes: FloatArray
    rows: CorrectionRows
    order: IntArray

    @classmethod
    def of(cls, functional: Functional, contrasts: FloatArray, inputs: BoundInputs) -> _AdditiveTask:
        """Prepare the evaluation."""
        directions = functional.label_directions(inputs.data.n_items)
        assert directions is not None, "a pair-additive score has directions"
        rows = CorrectionRows.of(inputs, bool(functional.interior))
        order = np.argsort(-inputs.worth, kind="stable")
        return cls(functional, contrasts, inputs, directions @ contrasts.T, rows, order)

    def values(self, part: ContextPart, gammas: Sequence[float]) -> FloatArray:
        """Return c'F(mu+) of every context of a part, lower and upper bound, (gammas, c, 2 J)."""
        rates, row, place = self.inputs.rates(part)
        mu = self.inputs.mu(part.probabilities(), bool(self.functional.interior))[row]
        centre, terms = self.functional.value(mu) @ self.contrasts.T, self.functional.pair_terms(mu)
        flat = self.slopes.reshape(-1, len(self.contrasts))
        rising, falling = np.maximum(flat, 0.0), np.minimum(flat, 0.0)
        values = np.empty((len(gammas), len(part.contexts), 2 * len(self.contrasts)))
        for number, gamma in enumerate(gammas):
            high, low = (
                self._term_changes(mu, terms, rates, shares).reshape(len(mu), -1) for shares in self._extremes(gamma)
            )
            lower, upper = low @ rising + high @ falling, high @ rising + low @ falling
            values[number] = np.hstack([centre + lower, centre + upper])[place]
        return values

    def _extremes(self, gamma: float) -> tuple[ExtremeShares, ExtremeShares]:
        """Return the shares that are best for the item shown first, and those that are worst."""
        return ExtremeShares(self.order, gamma), ExtremeShares(self.order[::-1], gamma)

    def _term_changes(self, mu: FloatArray, terms: FloatArray, rates: FloatArray, shares: ExtremeShares) -> FloatArray:
        """Return the terms at mu+ less those at mu, (b, K, K).

        Shapes: mu (b, K, K, C), terms (b, K, K), rates (b, K, K).
        """
        extreme, rate = shares.of(mu), rates[..., None]
        moved = rate * mu + (1 - rate) * extreme
        change = self.functional.pair_terms(moved)
        change -= terms
        if self.inputs.voting.all_shown:
            change -= rates * self.functional.pair_term_changes(moved, mu - extreme)
        return change

    def corrections(self, gamma: float) -> FloatArray:
        """Return the corrections of all blocks, lower and upper bound, (q, 2 J)."""
        total = np.zeros((len(self.inputs.voting.block_context), 2 * len(self.contrasts)))
        for start in range(0, len(self.rows.block), _ROWS):
            rows = self.rows.only(slice(start, start + _ROWS))
            high, low = (rows.directions(shares) for shares in self._extremes(gamma))
            changes = self._changes(rows, rows.first, rows.second, high=high, low=low)
            if not self.inputs.data.ordered:
                flip = self.inputs.data.flip
                high, low = ((moved[:, flip], change[:, flip]) for moved, change in (high, low))
                # Where the two items are exchanged, the shares that were best for the first item are the worst ones.
                changes += self._changes(rows, rows.second, rows.first, high=low, low=high)
            block_sums(total, rows.block, changes)
        return total

    def _changes(
        self,
        rows: CorrectionRows,
        first: IntArray,
        second: IntArray,
        *,
        high: tuple[FloatArray, FloatArray],
        low: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Return the derivatives of lower and upper bounds along the direction of each row, (r, 2 J).

        Shapes: first, second (r,), high, low (r, C).
        """
        n_items, slopes = self.inputs.data.n_items, self.slopes[first, second]
        up, down = (
            self.functional.pair_term_changes_at(moved, change, first, second, n_items)[:, None]
            for moved, change in (high, low)
        )
        rising = slopes > 0
        return np.hstack([slopes * np.where(rising, down, up), slopes * np.where(rising, up, down)])

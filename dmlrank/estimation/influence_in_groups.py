"""Influence values of the scores in groups of contexts; groups may overlap.

The score theta_g of group g has the influence values phi_g(i) = 1(i in g) w_i (phi_raw(i) - theta_g) / p_g. Here w_i is
the weight of context i, phi_raw(i) the sum of its value and its correction, and p_g the group's weighted share of the
contexts. The values are stored for the contexts of the group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import in_workers, report
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.linear_scores import Linearised
from .cross_fitting import NumberedParts
from .influence import Influence, mean_influence, unit_sums
from .influence_blocks import InfluenceBlocks
from .influence_by_context import CHUNK, contexts_at_a_time
from .linear_projection import ProjectedInfluence
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .residuals import Residuals


class GroupParts(Sequence[Influence]):
    """The influence of each group, made whenever it is asked for, so that the groups are not in memory together.

    make: Returns the influence of a group from its number.
    """

    def __init__(self, make: Callable[[int], Influence], n_groups: int) -> None:
        self._make, self._n_groups = make, n_groups

    @classmethod
    def of(cls, parts: Sequence[Influence]) -> GroupParts:
        """Return parts that exist already."""
        return cls(parts.__getitem__, len(parts))

    def __len__(self) -> int:
        return self._n_groups

    @overload
    def __getitem__(self, group: int) -> Influence: ...

    @overload
    def __getitem__(self, group: slice) -> list[Influence]: ...

    def __getitem__(self, group: int | slice) -> Influence | list[Influence]:
        if isinstance(group, slice):
            return [self._make(number) for number in range(self._n_groups)[group]]
        return self._make(range(self._n_groups)[group])

    def changed(self, change: Callable[[Influence], Influence]) -> GroupParts:
        """Return the parts after a change, which is made whenever a part is asked for."""
        return GroupParts(lambda group: change(self._make(group)), self._n_groups)


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceInGroups:
    """Scores of G groups of contexts with their influence values; d scores in each group.

    Coordinate g d + k of the estimate is score k of group g.

    parts: Influence of each group's scores, with the contexts and blocks of the group alone.
    contexts (n_g,): Contexts of each group, in order.
    blocks (q_g,): Influence blocks of each group.
    n_contexts: Number of all contexts, n.
    n_blocks: Number of all influence blocks, q.
    """

    parts: GroupParts
    contexts: tuple[IntArray, ...]
    blocks: tuple[IntArray, ...]
    n_contexts: int
    n_blocks: int

    @property
    def estimate(self) -> FloatArray:
        """The debiased scores, (G d,)."""
        return np.concatenate([part.estimate for part in self.parts])

    @property
    def n_scores(self) -> int:
        """Number of scores of a group, d."""
        return len(self.estimate) // len(self.parts)

    def centred_in(self, group: int) -> FloatArray:
        """Return phi_g in the contexts of a group, (n_g, d)."""
        return self.parts[group].centred * (self.n_contexts / len(self.contexts[group]))

    def given_prompts(self) -> InfluenceInGroups:
        """Return the influence of the same scores where the prompts are fixed: the corrections alone."""
        return replace(self, parts=self.parts.changed(Influence.given_prompts))

    def second_moment(self) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (G d, G d).

        For two groups only the contexts in both groups contribute.
        """
        n_groups, size = len(self.parts), self.n_scores
        total = np.zeros((n_groups, size, n_groups, size))
        centred = [self.centred_in(group) for group in range(n_groups)]
        for g in range(n_groups):
            place = np.full(self.n_contexts, -1, dtype=np.intp)
            place[self.contexts[g]] = np.arange(len(self.contexts[g]))
            for h in range(g, n_groups):
                in_first = place[self.contexts[h]]
                is_shared = in_first >= 0
                product = centred[g][in_first[is_shared]].T @ centred[h][is_shared]
                total[g, :, h, :], total[h, :, g, :] = product, product.T
        return total.reshape(n_groups * size, n_groups * size)

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Return the sums of phi over units, (u, G d); ``unit``, (n,), numbers each context's unit from 0."""
        n_units, size, columns = int(unit.max()) + 1, self.n_scores, []
        for group, contexts in enumerate(self.contexts):
            sums = unit_sums(self.centred_in(group), unit[contexts])
            columns.append(np.vstack([sums, np.zeros((n_units - len(sums), size))]))
        return np.hstack(columns)

    def by_context(self) -> ProjectedInfluence:
        """Return the influence values of all contexts and blocks as dense arrays, which are zero outside of a group."""
        n_groups, size = len(self.parts), self.n_scores
        centred, correction = np.zeros((self.n_contexts, n_groups, size)), np.zeros((self.n_blocks, n_groups, size))
        block_context = np.zeros(self.n_blocks, dtype=np.intp)
        for group, (part, contexts, blocks) in enumerate(zip(self.parts, self.contexts, self.blocks, strict=True)):
            centred[contexts, group] = self.centred_in(group)
            correction[blocks, group] = part.centred_correction * (self.n_contexts / len(contexts))
            block_context[blocks] = contexts[part.block_context]
        return ProjectedInfluence(
            self.estimate,
            np.concatenate([part.plugin for part in self.parts]),
            centred.reshape(self.n_contexts, -1),
            correction.reshape(self.n_blocks, -1),
            block_context,
        )


def influence_in_groups(influence: Influence, members: NDArray[np.bool_]) -> InfluenceInGroups:
    """Return the influence of the mean scores of groups of contexts.

    Shapes: members (G, n).
    """
    contexts = [np.flatnonzero(inside) for inside in members]
    blocks = [np.flatnonzero(inside[influence.block_context]) for inside in members]
    parts = GroupParts(lambda group: _restricted(influence, contexts[group], blocks[group]), len(members))
    return InfluenceInGroups(parts, tuple(contexts), tuple(blocks), influence.n_contexts, len(influence.block_context))


def _restricted(influence: Influence, contexts: IntArray, blocks: IntArray) -> Influence:
    """Return the influence of the mean over some contexts, with these contexts and blocks alone."""
    place = np.full(influence.n_contexts, -1, dtype=np.intp)
    place[contexts] = np.arange(len(contexts))
    weight = influence.weight[contexts]
    return Influence(
        value=influence.value[contexts],
        correction=influence.correction[blocks],
        block_context=place[influence.block_context[blocks]],
        block_weight=influence.block_weight[blocks],
        weight=weight / weight.mean(),
        sample_weight=None if influence.sample_weight is None else influence.sample_weight[contexts],
    )


def mean_over_repetitions(repetitions: Sequence[InfluenceInGroups]) -> InfluenceInGroups:
    """Average the influence in groups over repetitions with other folds."""
    first = repetitions[0]
    if len(repetitions) == 1:
        return first
    parts = GroupParts(
        lambda group: mean_influence([repetition.parts[group] for repetition in repetitions]), len(first.parts)
    )
    return replace(first, parts=parts)


def mean_preference_influence(
    scores: Sequence[Linearised],
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    *,
    members: NDArray[np.bool_],
    chunk: int = CHUNK,
) -> InfluenceInGroups:
    """Return the influence of the scores of mean preferences in groups, in one pass over the probabilities.

    Shapes: members (G, n).
    """
    sample_weight = population.sample_weights(data.n_contexts)
    valued = members if sample_weight is None else members & (sample_weight > 0)
    contexts = [np.flatnonzero(inside) for inside in members]
    values = [np.zeros((len(inside), len(score.scores))) for inside, score in zip(contexts, scores, strict=True)]
    parts = NumberedParts(nuisances.mu, contexts_at_a_time(data, chunk), np.asarray(valued.any(axis=0)))
    values_of_parts = in_workers(
        _values_in_groups,
        (scores, valued, parts),
        range(len(parts)),
        name="scores of groups",
        is_concurrent=parts.is_concurrent,
    )
    n_done = 0
    for number, part_values in enumerate(values_of_parts):
        in_part = parts[number].contexts
        for group, value in enumerate(part_values):
            chosen = in_part[valued[group][in_part]]
            values[group][np.searchsorted(contexts[group], chosen)] = value
        n_done += len(in_part)
        report(n_done, parts.n_contexts, "scores of groups, contexts")
    residuals = Residuals.of(data, nuisances, blocks, nuisances.mu.at(data.cells))
    weight, block_weight = population.weights(data.n_contexts), blocks.weight
    kept_blocks = [np.flatnonzero(inside[blocks.context]) for inside in members]
    corrections = [_corrections(score, residuals, data, kept) for score, kept in zip(scores, kept_blocks, strict=True)]

    def part_of(group: int) -> Influence:
        kept, inside = kept_blocks[group], contexts[group]
        group_weight = weight[inside]
        return Influence(
            value=values[group],
            correction=corrections[group],
            block_context=np.searchsorted(inside, blocks.context[kept]),
            block_weight=block_weight[kept],
            weight=group_weight / group_weight.mean(),
            sample_weight=None if sample_weight is None else sample_weight[inside],
        )

    return InfluenceInGroups(
        GroupParts(part_of, len(scores)), tuple(contexts), tuple(kept_blocks), data.n_contexts, len(blocks.context)
    )


def _values_in_groups(
    shared: tuple[Sequence[Linearised], NDArray[np.bool_], NumberedParts], number: int
) -> list[FloatArray]:
    """Return the linear approximations of each group in its contexts of a part, one product for each group."""
    scores, valued, part = shared[0], shared[1], shared[2][number]
    probabilities, values = part.probabilities(), []
    for score, inside in zip(scores, valued, strict=True):
        rows, place = np.unique(part.place[inside[part.contexts]], return_inverse=True)
        table = probabilities if len(rows) == len(probabilities) else probabilities[rows]
        values.append(score.value(table)[place])
    return values


def _corrections(score: Linearised, residuals: Residuals, data: PreferenceData, blocks: IntArray) -> FloatArray:
    """Return the corrections of some blocks, (q_g, d).

    Shapes: blocks (q_g,).
    """
    place = np.full(int(residuals.block.max(initial=-1)) + 1, -1, dtype=np.intp)
    known = blocks[blocks < len(place)]
    place[known] = np.arange(len(known))
    rows = np.flatnonzero(place[residuals.block] >= 0)
    first, second, residual = residuals.first[rows], residuals.second[rows], residuals.weighted(rows, False)
    mu = residuals.mu[rows]
    change = score.derivative_at(mu, residual, first, second, data.n_items)
    if not data.ordered:
        change = change + score.derivative_at(mu, residual[:, data.flip], second, first, data.n_items)
    total = np.zeros((len(blocks), change.shape[1]))
    np.add.at(total, place[residuals.block[rows]], change)
    return total

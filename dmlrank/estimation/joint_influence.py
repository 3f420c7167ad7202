"""Linear maps of influence values: scores of groups, coefficients on functions of the context, several fits at once.

Notes
-----
A fit has for every context the value F(mu(x)) and the sum C of the corrections of its blocks, phi = F(mu(x)) + C, and a
weight w with mean one; its scores are E[w phi]. A linear map gives every context a weight W_p for each of P targets:

    beta_p = E[W_p w phi],        psi_p = W_p w (phi - m_p)                                                        (1)

where psi are the influence values, with m_p(x) = E[phi | the functions of x that p is about], as the map fits it:

- Groups: W_g = 1(x in g) / P_w(g) and m_g = beta_g. Groups may overlap, and a group of all prompts is the fit.
- Functions v of the context, by weighted least squares: W = E[w v v']^-1 v, and m = v'beta is the same for all targets.
  Indicators of groups that make up all contexts give W and m of these groups.
- Fits on common contexts: W_r = n / n_r in the n_r contexts of fit r, which has its own phi, and m_r = beta_r.

Everything in the covariance of a fit is a sum over contexts, blocks or labels, and (1) carries it over:

- *Robust and clusters*: products of sums of psi over units. Blocks of votes count as W_p (w C_b - n_b d(x)), with n_b
  the labelled cells of block b: the sum of the corrections is minus the estimated bias, which is no noise and is
  subtracted in proportion to n_b; d is fitted as m is.
- *Fixed prompts*: psi of the corrections alone, and at most the covariance of new prompts.
- *Variance correction* V_c of the fit's V: the symmetric A with A V A' = V + V_c makes A V_pq A' of targets p and q.
- *Second order*: at least the covariance before the step u, plus that of u, which (1) maps as it maps the scores.
- *Unanimous pairs*: of a group, those of its own labels; of functions, the fit's times the second moment of the W of
  its labels. Under maximum likelihood both are derivatives at the means of z = (1, x) that (1) gives.
- *Repetitions*: the covariance between the repetitions' beta.

Least squares on the influence values of a fit would give the same beta and lose all but the first of these: for
Bradley-Terry scores, standard errors would be up to 1.37 times too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import transposed_product
from ..data.arrays import FloatArray, IntArray, row_slices
from .influence import Influence, StackedInfluence, mean_influence

# Products of numbers of contexts that are in memory at a time.
_MOMENT_ENTRIES = 2_000_000
# Patterns of groups for each context above which adding up by pattern saves nothing.
_MOST_PATTERNS = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class JointInfluence:
    """Vectors of estimates, the targets of a linear map, side by side with their influence values.

    part: Returns the influence of a target, with :class:`CentredValues`, from its number, in its own contexts and
        blocks alone. It is made whenever it is asked for, so that few targets are in memory at a time.
    sizes: Number of estimates of each target, d_p.
    contexts (n_p,): Contexts of each target, in order.
    blocks (q_p,): Influence blocks of each target.
    n_contexts: Number of all contexts, n.
    n_blocks: Number of all influence blocks, q.
    means: The estimates without bias correction, and the correction, (d,) each, where known without the parts.
    whole, members (G, n): The influence of all contexts, and the groups, where every part consists of its rows: sums
        over groups are then matrix products. None where the scores of a group are not means of those of its contexts.
    """

    part: Callable[[int], Any]
    sizes: tuple[int, ...]
    contexts: tuple[IntArray, ...]
    blocks: tuple[IntArray, ...]
    n_contexts: int
    n_blocks: int
    means: tuple[FloatArray, FloatArray] | None = None
    whole: Influence | None = None
    members: NDArray[np.bool_] | None = None

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimates, (d,)."""
        return self.means[0] + self.means[1] if self.means else self._of_parts("estimate")

    @property
    def plugin(self) -> FloatArray:
        """The estimates without bias correction, (d,)."""
        return self.means[0] if self.means else self._of_parts("plugin")

    def _of_parts(self, name: str) -> FloatArray:
        return np.concatenate([getattr(self.part(number), name) for number in range(len(self.contexts))])

    def changed(self, change: Callable[[Influence], Influence]) -> JointInfluence:
        """Return the influence after a change of every part, which is made whenever a part is asked for."""
        return replace(self, part=lambda number: change(self.part(number)), means=None, whole=None)

    def only(self, number: int) -> JointInfluence:
        """Return the influence of one target."""
        sizes, contexts, blocks = (self.sizes[number],), (self.contexts[number],), (self.blocks[number],)
        n = self.n_contexts, self.n_blocks
        return JointInfluence(lambda _: self.part(number), sizes, contexts, blocks, *n)

    def centred_in(self, number: int) -> FloatArray:
        """Return psi of a target in its contexts, (n_p, d_p)."""
        return self.part(number).centred * (self.n_contexts / len(self.contexts[number]))

    def second_moment(self) -> FloatArray:
        """Return the sum of psi psi' over all contexts, (d, d).

        For two targets only the contexts of both contribute.
        """
        if self.whole is not None:
            return self._moment_from_sums(self.whole)
        if all(len(contexts) == self.n_contexts for contexts in self.contexts):
            every = np.empty((self.n_contexts, sum(self.sizes)))
            for number, (place, contexts) in enumerate(zip(self._places, self.contexts, strict=True)):
                every[contexts, place] = self.centred_in(number)
            return StackedInfluence(every).second_moment()
        centred = [self.centred_in(number) for number in range(len(self.contexts))]
        table = [[np.empty(0)] * len(centred) for _ in centred]
        for g, own in enumerate(centred):
            row = np.full(self.n_contexts, -1, dtype=np.intp)
            row[self.contexts[g]] = np.arange(len(own))
            for h, other in enumerate(centred[g:], g):
                in_first = row[self.contexts[h]]
                is_shared = in_first >= 0
                product = own[in_first[is_shared]].T @ other[is_shared]
                table[g][h], table[h][g] = product, product.T
        return np.block(table)

    def _moment_from_sums(self, whole: Influence) -> FloatArray:
        """Return the sum of psi psi' of groups, (G d, G d), from one pass over the contexts.

        The psi of a group are linear combinations of the same d + 1 numbers of a context, z, whose coefficients are
        the group's. The sum over the contexts in two groups needs only the sum of z z' over these contexts.
        """
        assert self.members is not None
        assert self.means is not None
        n_groups, size, weight = len(self.contexts), whole.n_scores, whole.weight[:, None]
        plugin, correction = (of_all.reshape(n_groups, size) for of_all in self.means)
        # Less its mean over all contexts, so that no digits are lost where scores are far from zero.
        mean = whole.plugin
        z = weight * whole.correction_by_context
        z += weight * (whole.value - mean)
        table = _moments_of_pairs(self.members, np.hstack([z, weight]))
        g, h = np.triu_indices(n_groups)
        maps = np.zeros((n_groups, size, size + 1))
        maps[:, range(size), range(size)] = 1.0
        maps[:, :, size] = mean - plugin - correction
        maps *= (self.n_contexts / (self.members @ whole.weight))[:, None, None]
        total = np.empty((n_groups, size, n_groups, size))
        of_pairs = maps[g] @ table @ maps[h].transpose(0, 2, 1)
        total[g, :, h, :], total[h, :, g, :] = of_pairs, of_pairs.transpose(0, 2, 1)
        return total.reshape(n_groups * size, n_groups * size)

    def sums_by(self, unit: IntArray, power: int = 1) -> FloatArray:
        """Return the sums of powers of psi over units, (u, d); ``unit``, (n,), numbers each context's unit from 0."""
        sums = np.zeros((int(unit.max()) + 1, sum(self.sizes)))
        for number, (place, contexts) in enumerate(zip(self._places, self.contexts, strict=True)):
            np.add.at(sums[:, place], unit[contexts], self.centred_in(number) ** power)
        return sums

    def block_sums_by(self, unit: IntArray, power: int = 1) -> FloatArray:
        """Return the sums of powers of corrections over units of blocks, (u, d); a ``unit``, (q,), of -1 is none."""
        sums = np.zeros((int(unit.max()) + 1, sum(self.sizes)))
        for number, (place, contexts, blocks) in enumerate(zip(self._places, self.contexts, self.blocks, strict=True)):
            own, has_unit = unit[blocks], unit[blocks] >= 0
            rows = self.part(number).centred_correction[has_unit] * (self.n_contexts / len(contexts))
            np.add.at(sums[:, place], own[has_unit], rows**power)
        return sums

    @property
    def block_context(self) -> IntArray:
        """The context of each block, (q,)."""
        context = np.zeros(self.n_blocks, dtype=np.intp)
        for number, (contexts, blocks) in enumerate(zip(self.contexts, self.blocks, strict=True)):
            context[blocks] = contexts[self.part(number).block_context]
        return context

    def by_context(self) -> JointInfluence:
        """Return this object, whose parts have the values of every context already."""
        return self

    @property
    def _places(self) -> list[slice]:
        """The places of each target among all estimates."""
        ends = np.cumsum(self.sizes)
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]


def in_groups(influence: Influence, members: NDArray[np.bool_]) -> JointInfluence:
    """Return the influence of the mean scores of groups of contexts; coordinate g d + k is score k of group g.

    Shapes: members (G, n).
    """
    contexts = tuple(np.flatnonzero(inside) for inside in members)
    blocks = tuple(np.flatnonzero(inside[influence.block_context]) for inside in members)

    def part(group: int) -> Influence:
        inside, kept = contexts[group], blocks[group]
        weight = influence.weight[inside]
        return Influence(
            value=influence.value[inside],
            correction=influence.correction[kept],
            block_context=np.searchsorted(inside, influence.block_context[kept]),
            block_weight=influence.block_weight[kept],
            weight=weight / weight.mean(),
        )

    of_context, weight = members.T.astype(float), influence.weight
    plugin, correction = (
        transposed_product(of_context, weight[:, None] * rows) / (weight @ of_context)[:, None]
        for rows in (influence.value, influence.correction_by_context)
    )
    sizes, n_blocks = (influence.n_scores,) * len(members), len(influence.block_context)
    means = plugin.ravel(), correction.ravel()
    return JointInfluence(part, sizes, contexts, blocks, len(weight), n_blocks, means, influence, members)


def on_functions(influence: Influence, design: FloatArray, *, with_blocks: bool) -> JointInfluence:
    """Return the influence of coefficients on functions v of the context, by weighted least squares.

    Coordinate p d + k is the coefficient of score k on function p. Only where votes of an annotator are units, the
    influence of blocks is asked for.

    Shapes: design (n, P).
    """
    weight, n, context = influence.weight, len(design), influence.block_context
    gram = design.T @ (weight[:, None] * design)
    w = np.asarray(np.linalg.solve(gram / n, design.T).T, dtype=float)
    correction = influence.correction_by_context
    plugin = np.linalg.solve(gram, design.T @ (weight[:, None] * influence.value))
    of_correction = w.T @ (weight[:, None] * correction) / n
    centred = weight[:, None] * (correction - design @ of_correction)
    centred += weight[:, None] * (influence.value - design @ plugin)
    of_blocks = np.empty((0, centred.shape[1]))
    if with_blocks:
        n_cells, weighted = influence.block_weight[:, None], weight[context, None] * influence.correction
        of_cells = design[context].T @ (n_cells * design[context])
        bias = np.linalg.lstsq(of_cells, design[context].T @ weighted, rcond=None)[0]
        of_blocks = weighted - n_cells * (design[context] @ bias)
    context = context[: len(of_blocks)]

    def part(column: int) -> StackedInfluence:
        return StackedInfluence(w[:, [column]] * centred, w[context][:, [column]] * of_blocks, context)

    n_targets, n_blocks = design.shape[1], len(of_blocks)
    means = np.ravel(plugin), np.ravel(of_correction)
    everywhere = (np.arange(n),) * n_targets, (np.arange(n_blocks),) * n_targets
    return JointInfluence(part, (influence.n_scores,) * n_targets, *everywhere, n, n_blocks, means)


def side_by_side(
    fits: Sequence[Influence | StackedInfluence],
    places: Sequence[IntArray] | None = None,
    n_contexts: int | None = None,
) -> JointInfluence:
    """Return the influence of several fits; ``places`` are those of each one's contexts among all ``n_contexts``."""
    n = fits[0].n_contexts if n_contexts is None else n_contexts
    ends = np.cumsum([0, *(len(fit.block_context) for fit in fits)]).tolist()
    blocks = tuple(np.arange(start, end) for start, end in pairwise(ends))
    contexts = (np.arange(n),) * len(fits) if places is None else tuple(places)
    return JointInfluence(fits.__getitem__, tuple(fit.n_scores for fit in fits), contexts, blocks, n, ends[-1])


def mean_over_repetitions(repetitions: Sequence[JointInfluence]) -> JointInfluence:
    """Average the influence of the same targets over repetitions with other folds."""
    if len(repetitions) == 1:
        return repetitions[0]
    part = lambda number: mean_influence([one.part(number) for one in repetitions])  # noqa: E731
    return replace(repetitions[0], part=part, means=None, whole=None)


def column_units(design: FloatArray) -> FloatArray:
    """Return the power of two, for exact division, next to the largest |value| of each column, (P,); 1 for zeros."""
    return np.asarray(2.0 ** np.frexp(np.abs(design).max(axis=0))[1], dtype=float)


def _moments_of_pairs(members: NDArray[np.bool_], z: FloatArray) -> FloatArray:
    """Return the sum of z z' over the contexts in both of two groups, for all pairs g <= h of groups, (p, s, s).

    Shapes: members (G, n), z (n, s).
    """
    # Contexts in the same groups, a pattern, count together.
    bits, pattern, n_rows = np.unique(np.packbits(members, axis=0).T, axis=0, return_inverse=True, return_counts=True)
    if len(bits) > _MOST_PATTERNS * len(z):
        return _moments_by_pair(members, z)
    # Patterns with as many contexts stand together, so that their products are computed at once.
    pattern, by_count = pattern.reshape(-1), np.argsort(n_rows, kind="stable")
    inside = np.unpackbits(bits[by_count].T, axis=0, count=len(members)).astype(bool)
    z, n_rows = z[np.lexsort((pattern, n_rows[pattern]))], n_rows[by_count]
    size, (g, h), (j, k) = z.shape[1], np.triu_indices(len(inside)), np.triu_indices(z.shape[1])
    moments, upper, bounds = np.zeros((len(g), len(j))), j * size + k, np.append(0, np.cumsum(n_rows))
    for block in row_slices(len(bits), max(len(g), len(j)), _MOMENT_ENTRIES):
        products = np.empty((block.stop - block.start, len(j)))
        for count in np.unique(n_rows[block]):
            first, last = block.start + np.searchsorted(n_rows[block], [count, count + 1])
            rows = z[bounds[first] : bounds[last]].reshape(-1, count, size)
            squares = (rows.transpose(0, 2, 1) @ rows).reshape(len(rows), -1)
            products[first - block.start : last - block.start] = squares[:, upper]
        moments += (inside[g, block] & inside[h, block]).astype(float) @ products
    table = np.empty((len(g), size, size))
    table[:, j, k] = table[:, k, j] = moments
    return table


def _moments_by_pair(members: NDArray[np.bool_], z: FloatArray) -> FloatArray:
    """Return the sum of z z' over the contexts in both of two groups, for all pairs g <= h of groups, (p, s, s).

    Where a group is large, its complement counts: the indicator of the group is one less that of the rest.

    Shapes: members (G, n), z (n, s).
    """
    g, h = np.triu_indices(len(members))
    is_large = (members.sum(axis=1) > len(z) / 2)[:, None, None]
    small, sign = members ^ is_large[:, 0], 1.0 - 2.0 * is_large
    table, memory = np.zeros((len(g), z.shape[1], z.shape[1])), np.empty_like(z)
    for group, inside in enumerate(small):
        contexts = np.flatnonzero(inside)
        rows, others = z.take(contexts, axis=0), small[group:].take(contexts, axis=1)
        for pair, shared in zip(np.flatnonzero(g == group), others, strict=True):
            places = np.flatnonzero(shared)
            both = rows.take(places, axis=0, out=memory[: len(places)], mode="clip")
            table[pair] = both.T @ both
    of_group = table[g == h]
    table *= sign[g] * sign[h]
    table += is_large[g] * sign[h] * of_group[h] + is_large[h] * sign[g] * of_group[g]
    return np.asarray(table + is_large[g] * is_large[h] * (z.T @ z))

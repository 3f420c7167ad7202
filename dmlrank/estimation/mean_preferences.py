"""Mean preferences: the one-step estimate of E mu(X), the table of preferences averaged over contexts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray
from ..functionals.linear_scores import Linearised
from .cross_fitting import ContextPart, contexts_at_a_time, over_parts
from .influence import Influence, OneStepInputs, add_to_rows
from .joint_influence import JointInfluence, in_groups
from .one_step import CHUNK, Residuals


@dataclass(frozen=True, slots=True, eq=False)
class MeanPreferences:
    """Mean preferences in G groups of contexts; all contexts are one group in a fit.

    plugin (G, K, K, C): Weighted mean of mu over the contexts of each group.
    one_step (G, K, K, C): ``plugin`` plus the weighted mean of S / pi (Y - mu), which corrects the bias of ``plugin``.
        Entries may lie outside of [0, 1].
    n_labels (G, K, K): Labelled contexts of each pair: by display order where order matters, otherwise in either order.
    moment (G, K, K, C, C): Second moment of the error of ``one_step`` that comes from the labels, by ordered pair.
        Where display order does not matter, the moment of a pair is that of its order in the cells.
    """

    plugin: FloatArray
    one_step: FloatArray
    n_labels: IntArray
    moment: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FlooredPreferences:
    """A table of mean preferences at which functionals with a logit or a division are finite.

    table (K, K, C): Probabilities that are non-negative and sum to one for every pair.
    n_raised: Number of pairs whose probabilities were raised to the floor.
    n_outside: Number of pairs that had a probability below 0 before probabilities were set to 0 or raised.
    lowest: Smallest probability before probabilities were set to 0 or raised; 0 where none was below 0.
    """

    table: FloatArray
    n_raised: int
    n_outside: int
    lowest: float


def mean_preferences(inputs: OneStepInputs, members: NDArray[np.bool_] | None = None) -> MeanPreferences:
    """Estimate the mean preferences of groups of contexts by one step, in one pass over the probabilities.

    Shapes: members (G, n).

    Notes
    -----
    The table m = E mu(X) has the one-step estimate c, the mean of mu(x) + S / pi (Y - mu(x)). The scores of mean
    preferences are F(m) and have the influence values DF(m) [mu(x) + S / pi (Y - mu(x)) - m]: the one-step estimator of
    the linear approximation F(m) + DF(m) [mu - c] of F (:class:`dmlrank.functionals.linear_scores.Linearised`) has this
    influence, and its estimate is F(m) with c for m. F is curved, so that F(c) has the second-order bias
    tr(D2F(m) V) / 2 with the covariance V of c. The variance of c comes mostly from the labels; V is estimated by the
    sums of squares of the weighted residuals of each pair, with errors of different pairs taken as independent, and the
    bias is subtracted. c may lie outside of [0, 1];
    :func:`dmlrank.fit.compared_pairs.finite_table` gives a table at which F is finite.

    In a group g with the weighted share p_g of the contexts, the influence value of context i is
    phi_g(i) = 1(i in g) w_i (phi_raw(i) - theta_g) / p_g, where w_i is the weight of the context and phi_raw the sum of
    value and correction.
    """
    data, weights = inputs.data, inputs.weight[None] if members is None else members * inputs.weight
    shape = (len(weights), data.n_items, data.n_items, data.n_categories)
    total = np.zeros(shape)
    size, needed = contexts_at_a_time(data, CHUNK), np.asarray(weights.any(axis=0))
    weighted_sum = partial(_weighted_sum, weights)
    for _, part_sum in over_parts(weighted_sum, inputs.mu, size, "mean preferences", needed):
        total += part_sum
    plugin = total / weights.sum(axis=1)[:, None, None, None]
    residuals = Residuals.of(inputs, inputs.mu.at(data.cells))
    weights = weights / weights.sum(axis=1)[:, None]
    # Weighted sums of the residuals and of their products by pair.
    residual, n_pairs = residuals.weighted(slice(None), False), data.n_items**2
    products = (residual[:, :, None] * residual[:, None, :]).reshape(len(residual), -1)
    pair, rows = residuals.first * data.n_items + residuals.second, np.arange(len(residual))
    by_pair = sparse.csr_array((np.ones(len(pair)), (pair, rows)), shape=(n_pairs, len(pair)))
    in_residuals = [row[residuals.context][:, None] for row in weights]
    correction = np.stack([by_pair @ (row * residual) for row in in_residuals]).reshape(shape)
    moment = np.stack([by_pair @ (row**2 * products) for row in in_residuals]).reshape(*shape, data.n_categories)
    n_labels = np.stack([data.cells.only(row[data.cells.context] > 0).counts(data.n_items) for row in weights])
    if not data.ordered:
        correction, n_labels = correction + in_other_order(correction), n_labels + np.swapaxes(n_labels, 1, 2)
    return MeanPreferences(plugin, plugin + correction, n_labels, moment)


def _weighted_sum(weights: FloatArray, part: ContextPart) -> FloatArray:
    """Add up the probabilities of a part of the contexts, weighted for each group, (G, K, K, C)."""
    by_row = np.stack([np.bincount(part.place, row[part.contexts]) for row in weights])
    # Category by category: the probabilities of a category lie side by side.
    sums = (
        by_row[:, rows] @ np.moveaxis(table, -1, 0).reshape(table.shape[-1], len(table), -1)
        for rows, table in part.blocks()
    )
    total = reduce(operator.iadd, sums)
    return np.moveaxis(total, 0, -1).reshape(len(weights), *[round(total.shape[-1] ** 0.5)] * 2, -1)


def mean_preference_influence(
    scores: Sequence[Linearised], inputs: OneStepInputs, members: NDArray[np.bool_]
) -> JointInfluence:
    """Return the influence of the scores of mean preferences in groups, in one pass over the probabilities.

    Shapes: members (G, n).
    """
    data, blocks = inputs.data, inputs.blocks
    # The groups of contexts and blocks, without values.
    empty = np.empty((data.n_contexts, 0)), np.empty((len(blocks.context), 0))
    groups = in_groups(Influence(*empty, blocks.context, blocks.weight, inputs.weight), members)
    contexts = groups.contexts
    values = [np.zeros((len(inside), len(score.scores))) for inside, score in zip(contexts, scores, strict=True)]
    size, needed = contexts_at_a_time(data, CHUNK), np.asarray(members.any(axis=0))
    values_in_groups = partial(_values_in_groups, scores, members)
    for part, part_values in over_parts(values_in_groups, inputs.mu, size, "scores of groups", needed):
        for group, value in enumerate(part_values):
            chosen = part.contexts[members[group][part.contexts]]
            values[group][np.searchsorted(contexts[group], chosen)] = value
    residuals = Residuals.of(inputs, inputs.mu.at(data.cells))

    def part_of(group: int) -> Influence:
        """Return the influence in a group, with corrections that are computed again, to be in memory for one group."""
        kept = groups.blocks[group]
        place = np.full(int(residuals.block.max(initial=-1)) + 1, -1, dtype=np.intp)
        known = kept[kept < len(place)]
        place[known] = np.arange(len(known))
        rows = np.flatnonzero(place[residuals.block] >= 0)
        correction = np.zeros((len(kept), values[group].shape[1]))
        add_to_rows(correction, place[residuals.block[rows]], residuals.derivatives(scores[group], rows, data))
        return replace(groups.part(group), value=values[group], correction=correction)

    return replace(groups, part=part_of, sizes=tuple(len(score.scores) for score in scores), means=None, whole=None)


def _values_in_groups(scores: Sequence[Linearised], valued: NDArray[np.bool_], part: ContextPart) -> list[FloatArray]:
    """Return the linear approximations of each group in its contexts of a part, one product for each group."""
    probabilities, values = part.probabilities(), list[FloatArray]()
    for score, inside in zip(scores, valued, strict=True):
        rows, place = np.unique(part.place[inside[part.contexts]], return_inverse=True)
        table = probabilities if len(rows) == len(probabilities) else probabilities[rows]
        values.append(score.value(table)[place])
    return values

r"""One effect of display order for all pairs, estimated in pairs that were shown in both orders, and taken off scores.

The model is l(s) = l(mu) + a_pair + beta z, with s the preference for the first item of a cell's pair, z = 1 where this
item was shown first and -1 elsewhere, and l the link of the functional: the logit for Bradley-Terry, where the model is
that of Davidson and Beaver (1977), and s - 1/2 for Borda. The constants a_pair take up what the learner of mu leaves,
so that order is compared within pairs alone.

Where order is ignored, mu of a pair is about the mixture of orders in which the pair was shown: with t the mean of z in
the pair, l(mu) contains beta t, exactly where t is 1 or -1, and to first order in beta between these. Scores are linear
in the links of pairs, F = c + sum_q A_q l(s_q), so that F - beta sum_q A_q t_q is about both orders of a pair alike.
This needs one assumption: the effect in pairs that were shown in one order is that in the pairs shown in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from ..data.graph import Graph
from ..data.preferences import FloatArray, PreferenceData
from ..functionals.linear_scores import LinkedScore
from .influence import Influence, InfluenceBlocks, InfluenceFunction

# Labels of a pair in both orders with which its constant is known well enough, and of the rarer order in all pairs.
_ENOUGH_LABELS = 10
# Standard errors by which pairs are shown in one of their orders more often than by chance.
_BY_DESIGN = 4.0
_MOST_STEPS, _LARGEST_STEP = 100, 2.0
# Preferences closer to 0 or 1 than this have no more than its log-odds.
_EXTREME = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class OrderEffect:
    """What being shown first adds to the link of a preference.

    change (q,): Influence values of beta by block.
    tilt (K, K): Mean of z for every compared pair j < k, in [j, k].
    """

    beta: float
    change: FloatArray
    tilt: FloatArray

    def taken_off(self, scores: InfluenceFunction, link: LinkedScore) -> Influence:
        """Return scores without the effect; its error enters their influence values by the delta method."""
        first, second = np.nonzero(self.tilt)
        per_unit = self.tilt[first, second] @ link.coefficients(first, second)
        whole = scores.by_context()
        value, correction = whole.value - self.beta * per_unit, whole.correction - self.change[:, None] * per_unit
        return replace(whole, value=value, correction=correction)

    def influence(self, scores: InfluenceFunction) -> Influence:
        """Return beta with its influence values, from scores of the same fit."""
        whole = scores.by_context()
        value = np.full((len(whole.value), 1), self.beta)
        return replace(whole, value=value, correction=self.change[:, None], variance_correction=None)


@dataclass(frozen=True, slots=True)
class IgnoredOrder:
    """What votes say of display order where a fit ignores it, from pairs of models that are not apart.

    effect, z: Advantage of the model shown first, in win shares, and its z statistic; NaN where it cannot be tested.
    uneven: Models that are not shown first in about half of their labels, with this share, the furthest first.
    in_one_order: Share of compared pairs that lack an order.
    of_lead: How many of 100 comparisons a model would have to win when it is shown first for this alone to make the
        lead of the first over the second model; 0 where most pairs were shown in both orders, where it could not make
        the lead, and where order has no meaning.
    """

    effect: float
    z: float
    uneven: tuple[tuple[str, float], ...]
    in_one_order: float
    of_lead: float


def order_effect(
    link: LinkedScore, data: PreferenceData, graph: Graph, mu: FloatArray, blocks: InfluenceBlocks, weight: FloatArray
) -> OrderEffect | None:
    """Estimate the effect of order; None where orders are by chance, or too few labels have the rarer order.

    It is taken off labels of models apart, too, which have no part in its estimate.

    Shapes: mu (m, C), weight (n,).
    """
    cells = data.cells
    z, weights = np.where(cells.flipped, -1.0, 1.0), weight[cells.context] * cells.count
    weights = weights * graph.edges[cells.first, cells.second]
    has_part = (weights > 0) & ~cells.of(link.functional.apart)
    count = cells.count * has_part
    code = cells.first * data.n_items + cells.second
    pair = np.unique(code, return_inverse=True)[1].reshape(-1)
    n_labels, balance = np.bincount(pair, count), np.bincount(pair, z * count)
    n = np.maximum(n_labels, 1)
    # Under a random order, balance^2 / n has the mean 1 and the variance 2 (1 - 1 / n).
    by_chance = 2 * (1 - 1 / n[n_labels > 0]).sum()
    excess = (np.square(balance) / n - (n_labels > 0)).sum()
    y = link.preference(cells.y)
    won, lost = (np.bincount(pair, share * cells.count) for share in (y, 1 - y))
    decided = np.bincount(pair, (np.minimum(y, 1 - y) > 0) * cells.count) + np.minimum(won, lost)
    is_known = (n_labels >= _ENOUGH_LABELS) & (np.abs(balance) < n_labels) & (decided > 0)
    n_rarer = (n_labels - np.abs(balance))[is_known].sum() / 2
    if not excess > _BY_DESIGN * np.sqrt(by_chance) or n_rarer < _ENOUGH_LABELS:
        return None
    known = is_known[pair] & has_part
    place = (np.cumsum(is_known) - 1)[pair[known]]
    base = link.value(np.clip(link.preference(mu[known]), _EXTREME, 1 - _EXTREME))
    found = _within_pairs(y[known], base, z[known], weights[known], place, link.is_logit)
    if found is None:
        return None
    beta, residual_weight, constants = found
    entry = blocks.entry_cell
    at = (np.cumsum(known) - 1)[entry]
    inside = known[entry]
    fitted = _inverse(base + constants[place] + beta * z[known], link.is_logit)
    residual = link.preference(blocks.entry_y[inside]) - fitted[at[inside]]
    change = np.bincount(
        blocks.entry_block[inside],
        blocks.entry_share[inside] * residual_weight[at[inside]] * residual,
        len(blocks.context),
    )
    total, difference = (cells.sums(amounts, data.n_items) for amounts in (weights, weights * z))
    tilt = difference / np.where(total > 0, total, 1)
    return OrderEffect(beta, np.asarray(data.n_contexts * change, float), tilt)


def _inverse(link_value: FloatArray, is_logit: bool) -> FloatArray:
    """Return preferences from their links."""
    return np.asarray(expit(link_value) if is_logit else link_value + 0.5)


def _within_pairs(
    y: FloatArray, base: FloatArray, z: FloatArray, weights: FloatArray, pair: np.ndarray, is_logit: bool
) -> tuple[float, FloatArray, FloatArray] | None:
    """Return beta, the derivative of beta in the labels, (r,), and the constants of pairs; None without a maximum.

    The quasi-likelihood is maximised by Newton steps in which the constants are eliminated.
    """
    constants, beta = np.zeros(int(pair.max()) + 1), 0.0
    for _ in range(_MOST_STEPS):
        p = _inverse(base + constants[pair] + beta * z, is_logit)
        information = weights * p * (1 - p) if is_logit else weights
        of_pair = np.maximum(np.bincount(pair, information), 1e-300)
        within = z - (np.bincount(pair, information * z) / of_pair)[pair]
        size = float(information @ np.square(within))
        if not size > 1e-9 * weights.sum():
            return None
        step = float((weights * (y - p)) @ within) / size
        of_constants = np.bincount(pair, weights * (y - p) - information * z * step) / of_pair
        beta += float(np.clip(step, -_LARGEST_STEP, _LARGEST_STEP))
        constants += np.clip(of_constants, -_LARGEST_STEP, _LARGEST_STEP)
        if abs(step) < 1e-10:
            return beta, within / size, constants
    return None

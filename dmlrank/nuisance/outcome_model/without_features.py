"""Outcome model without features: frequencies of each pair, shrunk towards main effects by empirical Bayes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln

from ...data.preferences import FloatArray, IntArray

# Prior precision of an item's effects. It is far below the information of one vote, and large enough to keep the effect
# of an item that never wins finite.
_RIDGE = 0.1
_MAX_STEPS = 100
# Numbers of votes that the main effects may count for: with the smallest one the votes on a pair prevail, with the
# largest one the main effects alone remain.
_PRIOR_STRENGTHS = np.concatenate([2.0 ** np.arange(-1, 14), [1e6]])


def shrunken_frequencies(counts: FloatArray) -> FloatArray:
    """Return the estimated category probabilities of every ordered pair, (K, K, C), from counts of votes.

    The estimate is the posterior mean under a Dirichlet prior. The mean of the prior is the fit of the main effects,
    and the strength of the prior maximises the marginal likelihood of the counts (empirical Bayes; Good 1965).

    Shapes: counts (K, K, C).
    """
    probabilities = main_effects(counts)
    pairs = PairVotes.of(counts)
    expected = probabilities[pairs.first, pairs.second]
    strength = max(_PRIOR_STRENGTHS, key=lambda m: _marginal_likelihood(pairs.votes, expected, m))
    total = counts.sum(axis=-1, keepdims=True)
    probabilities *= strength
    probabilities += counts
    probabilities /= total + strength
    return probabilities


@dataclass(frozen=True, slots=True, eq=False)
class PairVotes:
    """The ordered pairs with votes, m of them; where items are many, most pairs have no votes.

    first, second (m,): Items of each pair.
    votes (m, C): Votes of each pair by category.
    n_items: Number of items, K.
    """

    first: IntArray
    second: IntArray
    votes: FloatArray
    n_items: int

    @classmethod
    def of(cls, counts: FloatArray) -> PairVotes:
        """Collect the pairs with votes in a table of counts, (K, K, C)."""
        first, second = np.nonzero(counts.any(axis=-1))
        return cls(first, second, counts[first, second], len(counts))

    def sum_by(self, items: IntArray, amounts: FloatArray) -> FloatArray:
        """Return the sums by item, (K,), of amounts, (m,); ``items`` is ``first`` or ``second``."""
        return np.asarray(np.bincount(items, amounts, self.n_items))


def main_effects(counts: FloatArray) -> FloatArray:
    """Return the category probabilities of a multinomial logit with main effects of the items, (K, K, C).

    Every item has one strength r, and one inclination t_c to every kind c of tie. The scores of the categories are
    a_1 + r_j - r_k (first wins), a_2 - r_j + r_k (second wins) and a_c + t_cj + t_ck (ties). This is the Bradley-Terry
    model with a position effect and ties; it is fitted by penalised Newton steps.

    Shapes: counts (K, K, C).

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
    """
    n_items, n_categories = counts.shape[0], counts.shape[2]
    penalty = np.full(n_categories + n_items * (n_categories - 1), _RIDGE)
    # The intercepts are identified up to a constant only; a very small penalty selects one of the solutions.
    penalty[:n_categories] = 1e-6
    pairs, effects = PairVotes.of(counts), np.zeros(len(penalty))
    value, p = penalised_likelihood(effects, pairs, penalty)
    for _ in range(_MAX_STEPS):
        gradient, hessian = likelihood_derivatives(effects, pairs, p, penalty)
        step = cho_solve(cho_factor(hessian, overwrite_a=True), gradient)
        size, (new_value, p) = 1.0, penalised_likelihood(effects + step, pairs, penalty)
        while new_value < value and size > 1e-6:
            size /= 2
            new_value, p = penalised_likelihood(effects + size * step, pairs, penalty)
        effects, gain, value = effects + size * step, new_value - value, new_value
        if gain <= 1e-10 * (1 + abs(value)):
            break
    items = np.arange(n_items)
    table = softmax_rows(_scores(effects, items[:, None], items[None, :], n_categories))[0]
    table[items, items] = 0.0
    return table


def softmax_rows(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities that belong to scores of the categories, along the last axis, and their logarithms."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    scores -= np.log(total)
    return p, scores


def _scores(effects: FloatArray, first: IntArray, second: IntArray, n_categories: int) -> FloatArray:
    """Return the scores of the categories for ordered pairs, (..., C).

    Shapes: effects (C + K (C - 1).
    """
    of_items = effects[n_categories:].reshape(n_categories - 1, -1)
    gap = of_items[0][first] - of_items[0][second]
    scores = np.empty((*gap.shape, n_categories))
    scores[..., 0], scores[..., 1] = effects[0] + gap, effects[1] - gap
    for category, inclination in enumerate(of_items[1:], start=2):
        scores[..., category] = effects[category] + inclination[first] + inclination[second]
    return scores


def penalised_likelihood(effects: FloatArray, pairs: PairVotes, penalty: FloatArray) -> tuple[float, FloatArray]:
    """Return the penalised log-likelihood, and the probabilities of the pairs with votes, (m, C).

    Shapes: effects, penalty (C + K (C - 1).
    """
    p, log_p = softmax_rows(_scores(effects, pairs.first, pairs.second, pairs.votes.shape[1]))
    return float((pairs.votes * log_p).sum() - (penalty * effects**2).sum() / 2), p


def likelihood_derivatives(
    effects: FloatArray, pairs: PairVotes, p: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and the negative Hessian of the penalised log-likelihood.

    Every kind of effect changes one linear combination of the scores: a strength changes the score of "first wins" less
    that of "second wins", and an inclination changes the score of one kind of tie. The effect of the item shown first
    has the factor one, and that of the item shown second the factor ``sign``.

    Shapes: effects, penalty (C + K (C - 1), p (m, C).
    """
    n_items, n_categories, first, second = pairs.n_items, pairs.votes.shape[1], pairs.first, pairs.second
    n_kinds = n_categories - 1
    expected = pairs.votes.sum(axis=1, keepdims=True) * p
    residual = pairs.votes - expected
    combinations = np.eye(n_categories)[1:]
    combinations[0, :2] = 1.0, -1.0
    sign = np.ones(n_kinds)
    sign[0] = -1.0

    def sum_by_item(amounts: FloatArray, kind: int) -> FloatArray:
        return pairs.sum_by(first, amounts) + sign[kind] * pairs.sum_by(second, amounts)

    slopes = residual @ combinations.T
    by_item = [sum_by_item(slopes[:, kind], kind) for kind in range(n_kinds)]
    gradient = np.concatenate([residual.sum(axis=0), *by_item]) - penalty * effects
    # The votes of a pair are multinomial. These are their covariances with the linear combinations, (m, C, kinds), and
    # the covariances of the combinations among themselves, (kinds, kinds, m).
    covariance_with_votes = expected[..., None] * (combinations.T - (p @ combinations.T)[:, None, :])
    covariance_of_combinations = np.einsum("fc,mcg->fgm", combinations, covariance_with_votes)
    hessian = np.diag(penalty)
    hessian[:n_categories, :n_categories] += np.diag(expected.sum(axis=0)) - expected.T @ p
    pair = first * n_items + second
    for g in range(n_kinds):
        columns = slice(n_categories + g * n_items, n_categories + (g + 1) * n_items)
        with_intercepts = np.stack([sum_by_item(covariance_with_votes[:, c, g], g) for c in range(n_categories)])
        hessian[:n_categories, columns] += with_intercepts
        hessian[columns, :n_categories] += with_intercepts.T
        for f in range(n_kinds):
            by_pair = np.bincount(pair, covariance_of_combinations[f, g], n_items**2).reshape(n_items, n_items)
            block = sign[g] * by_pair + sign[f] * by_pair.T
            block[np.diag_indices(n_items)] += by_pair.sum(axis=1) + sign[f] * sign[g] * by_pair.sum(axis=0)
            hessian[n_categories + f * n_items : n_categories + (f + 1) * n_items, columns] += block
    return gradient, hessian


def _marginal_likelihood(votes: FloatArray, expected: FloatArray, strength: float) -> float:
    """Return the log-likelihood of votes on pairs under the prior Dirichlet(strength * expected), up to a constant.

    Shapes: votes, expected (m, C).
    """
    # A category without votes contributes zero.
    has_votes, total = votes > 0, votes.sum(axis=1)
    n, prior = votes[has_votes], strength * np.maximum(expected[has_votes], 1e-12)
    return float((gammaln(n + prior) - gammaln(prior)).sum() - (gammaln(total + strength) - gammaln(strength)).sum())

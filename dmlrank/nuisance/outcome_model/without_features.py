"""Outcome model without features: pair frequencies shrunk to a main-effects fit by empirical Bayes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln

from ...data.preferences import FloatArray, IntArray

# Prior precision of an item effect: far below one vote's information, enough to keep a model without a win finite.
_RIDGE = 0.1
_MAX_STEPS = 100
# Pseudo-votes that the main effects count for, from "trust the pair's own votes" to "main effects only".
_STRENGTHS = np.concatenate([2.0 ** np.arange(-1, 14), [1e6]])


def shrunken_frequencies(counts: FloatArray) -> FloatArray:
    """Probabilities of the categories for every ordered pair, (K, K, C), from its votes.

    The posterior mean under a Dirichlet prior whose mean is the main-effects fit and whose strength maximises the
    marginal likelihood of the counts (empirical Bayes; Good 1965).

    Parameters
    ----------
    counts : ndarray, shape (K, K, C)
        Votes by ordered pair and category, first and second win in front; zero diagonal.

    Examples
    --------
    >>> counts = np.zeros((2, 2, 2)); counts[0, 1] = [30, 10]; counts[1, 0] = [12, 28]
    >>> shrunken_frequencies(counts)[0, 1].round(2)
    array([0.75, 0.25])
    """
    fitted = main_effects(counts)
    voted = Voted.of(counts)
    known, expected = voted.votes, fitted[voted.first, voted.second]
    strength = max(_STRENGTHS, key=lambda m: _marginal_likelihood(known, expected, m))
    total = counts.sum(axis=-1, keepdims=True)
    fitted *= strength
    fitted += counts
    fitted /= total + strength
    return fitted


@dataclass(frozen=True, slots=True, eq=False)
class Voted:
    """The ordered pairs with votes, m of them: of many models most pairs have none, and say nothing.

    Attributes
    ----------
    first, second : ndarray of int, shape (m,)
    votes : ndarray, shape (m, C)
        By category.
    n_items : int
    """

    first: IntArray
    second: IntArray
    votes: FloatArray
    n_items: int

    @classmethod
    def of(cls, counts: FloatArray) -> Voted:
        """Those of a table of votes, (K, K, C)."""
        first, second = np.nonzero(counts.any(axis=-1))
        return cls(first, second, counts[first, second], len(counts))

    def sum_by(self, side: IntArray, amounts: FloatArray) -> FloatArray:
        """Sums of amounts by pair, (m,), over the pairs of each item, (K,), on one side."""
        return np.asarray(np.bincount(side, amounts, self.n_items))


def main_effects(counts: FloatArray) -> FloatArray:
    """A multinomial logit with one strength per item, and for every kind of tie one inclination per item, (K, K, C).

    The scores of the categories are a_1 + r_j - r_k (first wins), a_2 - r_j + r_k (second wins) and
    a_c + t_cj + t_ck (ties): Bradley-Terry with a position effect and ties, fitted by penalised Newton steps.

    Parameters
    ----------
    counts : ndarray, shape (K, K, C)

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
    """
    n_items, n_categories = counts.shape[0], counts.shape[2]
    penalty = np.full(n_categories + n_items * (n_categories - 1), _RIDGE)
    # The intercepts are identified up to a constant only; a whisper of a penalty picks one.
    penalty[:n_categories] = 1e-6
    voted, effects = Voted.of(counts), np.zeros(len(penalty))
    value, p = _objective(effects, voted, penalty)
    for _ in range(_MAX_STEPS):
        gradient, hessian = _derivatives(effects, voted, p, penalty)
        step = cho_solve(cho_factor(hessian, overwrite_a=True), gradient)
        size, (new, p) = 1.0, _objective(effects + step, voted, penalty)
        while new < value and size > 1e-6:
            size /= 2
            new, p = _objective(effects + size * step, voted, penalty)
        effects, gain, value = effects + size * step, new - value, new
        if gain <= 1e-10 * (1 + abs(value)):
            break
    items = np.arange(n_items)
    table = softmax_rows(_scores(effects, items[:, None], items[None, :], n_categories))[0]
    table[items, items] = 0.0
    return table


def softmax_rows(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probabilities from the scores of the categories, along the last axis, and their logarithms.

    Examples
    --------
    >>> softmax_rows(np.array([0.0, np.log(3.0)]))[0].round(2).tolist()
    [0.25, 0.75]
    """
    scores = scores - scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    scores -= np.log(total)
    return p, scores


def _scores(effects: FloatArray, first: IntArray, second: IntArray, n_categories: int) -> FloatArray:
    """Scores of the categories for ordered pairs, whose two items are broadcast against each other, (..., C)."""
    of_items = effects[n_categories:].reshape(n_categories - 1, -1)
    gap = of_items[0][first] - of_items[0][second]
    scores = np.empty((*gap.shape, n_categories))
    scores[..., 0], scores[..., 1] = effects[0] + gap, effects[1] - gap
    for category, inclination in enumerate(of_items[1:], start=2):
        scores[..., category] = effects[category] + inclination[first] + inclination[second]
    return scores


def _objective(effects: FloatArray, voted: Voted, penalty: FloatArray) -> tuple[float, FloatArray]:
    """Penalised log-likelihood, and the probabilities of the pairs with votes, (m, C)."""
    p, log_p = softmax_rows(_scores(effects, voted.first, voted.second, voted.votes.shape[1]))
    return float((voted.votes * log_p).sum() - (penalty * effects**2).sum() / 2), p


def _derivatives(
    effects: FloatArray, voted: Voted, p: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and negative Hessian of the penalised log-likelihood.

    Every effect of an item moves the scores of one combination of the categories: of the first win less the second
    for its strength, of one kind of tie for its inclination. It does so by the same amount for the item shown first,
    and by ``turned`` times that for the item shown second.
    """
    n_items, n_categories, first, second = voted.n_items, voted.votes.shape[1], voted.first, voted.second
    n_kinds = n_categories - 1
    expected = voted.votes.sum(axis=1, keepdims=True) * p
    residual = voted.votes - expected
    combinations = np.eye(n_categories)[1:]
    combinations[0, :2] = 1.0, -1.0
    turned = np.ones(n_kinds)
    turned[0] = -1.0

    def of_items(amounts: FloatArray, kind: int) -> FloatArray:
        return voted.sum_by(first, amounts) + turned[kind] * voted.sum_by(second, amounts)

    moved = residual @ combinations.T
    by_item = [of_items(moved[:, kind], kind) for kind in range(n_kinds)]
    gradient = np.concatenate([residual.sum(axis=0), *by_item]) - penalty * effects
    # Covariance of the categories of a pair's votes with the combinations, (m, C, kinds), and among these.
    cross = expected[..., None] * (combinations.T - (p @ combinations.T)[:, None, :])
    among = np.einsum("fc,mcg->fgm", combinations, cross)
    hessian = np.diag(penalty)
    hessian[:n_categories, :n_categories] += np.diag(expected.sum(axis=0)) - expected.T @ p
    pair = first * n_items + second
    for g in range(n_kinds):
        columns = slice(n_categories + g * n_items, n_categories + (g + 1) * n_items)
        side = np.stack([of_items(cross[:, c, g], g) for c in range(n_categories)])
        hessian[:n_categories, columns] += side
        hessian[columns, :n_categories] += side.T
        for f in range(n_kinds):
            both = np.bincount(pair, among[f, g], n_items**2).reshape(n_items, n_items)
            block = turned[g] * both + turned[f] * both.T
            block[np.diag_indices(n_items)] += both.sum(axis=1) + turned[f] * turned[g] * both.sum(axis=0)
            hessian[n_categories + f * n_items : n_categories + (f + 1) * n_items, columns] += block
    return gradient, hessian


def _marginal_likelihood(votes: FloatArray, fitted: FloatArray, strength: float) -> float:
    """Log-likelihood of votes on pairs, (m, C), under Dirichlet(strength * fitted), up to a constant."""
    # A category without votes adds nothing.
    seen, total = votes > 0, votes.sum(axis=1)
    n, prior = votes[seen], strength * np.maximum(fitted[seen], 1e-12)
    return float((gammaln(n + prior) - gammaln(prior)).sum() - (gammaln(total + strength) - gammaln(strength)).sum())

"""Outcome model without features: pair frequencies shrunk to a main-effects fit by empirical Bayes."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln

from ...data.preferences import FloatArray

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
    total = counts.sum(axis=-1, keepdims=True)
    strength = max(_STRENGTHS, key=lambda m: _marginal_likelihood(counts, fitted, m))
    return (counts + strength * fitted) / (total + strength)


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
    effects = np.zeros(len(penalty))
    value, p = _objective(effects, counts, penalty)
    for _ in range(_MAX_STEPS):
        gradient, hessian = _derivatives(effects, counts, p, penalty)
        step = cho_solve(cho_factor(hessian), gradient)
        size, (new, p) = 1.0, _objective(effects + step, counts, penalty)
        while new < value and size > 1e-6:
            size /= 2
            new, p = _objective(effects + size * step, counts, penalty)
        effects, gain, value = effects + size * step, new - value, new
        if gain <= 1e-10 * (1 + abs(value)):
            break
    p[np.arange(n_items), np.arange(n_items)] = 0.0
    return p


def _scores(effects: FloatArray, n_items: int, n_categories: int) -> FloatArray:
    """Scores of the categories for every ordered pair, (K, K, C)."""
    scores = np.empty((n_items, n_items, n_categories))
    of_items = effects[n_categories:].reshape(n_categories - 1, n_items)
    gap = of_items[0][:, None] - of_items[0]
    scores[..., 0], scores[..., 1] = effects[0] + gap, effects[1] - gap
    for category, inclination in enumerate(of_items[1:], start=2):
        scores[..., category] = effects[category] + inclination[:, None] + inclination
    return scores


def _objective(effects: FloatArray, counts: FloatArray, penalty: FloatArray) -> tuple[float, FloatArray]:
    """Penalised log-likelihood, and the probabilities, (K, K, C)."""
    scores = _scores(effects, *counts.shape[1:])
    scores -= scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    value = (counts * (scores - np.log(total))).sum() - (penalty * effects**2).sum() / 2
    return float(value), p


def _derivatives(
    effects: FloatArray, counts: FloatArray, p: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and negative Hessian of the penalised log-likelihood.

    Every effect of an item moves the scores of one combination of the categories: of the first win less the second
    for its strength, of one kind of tie for its inclination. It does so by the same amount for the item shown first,
    and by ``turned`` times that for the item shown second.
    """
    n_items, n_categories = counts.shape[1:]
    n_kinds = n_categories - 1
    total = counts.sum(axis=-1)
    residual = counts - total[..., None] * p
    combinations = np.eye(n_categories)[1:]
    combinations[0, :2] = 1.0, -1.0
    turned = np.ones(n_kinds)
    turned[0] = -1.0
    moved = residual @ combinations.T
    of_items = moved.sum(axis=1).T + turned[:, None] * moved.sum(axis=0).T
    gradient = np.concatenate([residual.sum(axis=(0, 1)), of_items.ravel()]) - penalty * effects
    # Covariance of the categories of a pair's votes with the combinations, (K, K, C, kinds).
    expected = total[..., None] * p
    cross = expected[..., None] * (combinations.T - (p @ combinations.T)[..., None, :])
    among = np.einsum("fc,jkcg->fgjk", combinations, cross)
    hessian = np.diag(penalty)
    hessian[:n_categories, :n_categories] += np.diag(expected.sum(axis=(0, 1)))
    hessian[:n_categories, :n_categories] -= np.einsum("jkc,jkd->cd", expected, p)
    for g in range(n_kinds):
        columns = slice(n_categories + g * n_items, n_categories + (g + 1) * n_items)
        side = cross[..., g].sum(axis=1).T + turned[g] * cross[..., g].sum(axis=0).T
        hessian[:n_categories, columns] += side
        hessian[columns, :n_categories] += side.T
        for f in range(n_kinds):
            both = among[f, g]
            block = turned[g] * both + turned[f] * both.T
            block[np.diag_indices(n_items)] += both.sum(axis=1) + turned[f] * turned[g] * both.sum(axis=0)
            hessian[n_categories + f * n_items : n_categories + (f + 1) * n_items, columns] += block
    return gradient, hessian


def _marginal_likelihood(counts: FloatArray, fitted: FloatArray, strength: float) -> float:
    """Log-likelihood of the counts under Dirichlet(strength * fitted), up to a constant."""
    n_items = len(counts)
    pairs = ~np.eye(n_items, dtype=bool)
    n, prior = counts[pairs], strength * np.maximum(fitted[pairs], 1e-12)
    total = n.sum(axis=1)
    return float((gammaln(n + prior) - gammaln(prior)).sum() - (gammaln(total + strength) - gammaln(strength)).sum())

"""Preference probabilities without context: pair frequencies shrunk to a main-effects fit, all from counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln, softmax

from ..data.preferences import FloatArray

# Prior precision of an item effect: far below one vote's information, enough to keep a model without a win finite.
_RIDGE = 0.1
_MAX_STEPS = 100
# Pseudo-votes that the main effects are worth, from "trust the pair's own votes" to "main effects only".
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
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    votes = counts[first, second]
    designs = _designs(first, second, n_items, n_categories)
    penalty = np.full(designs[0].shape[1], _RIDGE)
    # The intercepts are identified up to a constant only; a whisper of a penalty picks one.
    penalty[:n_categories] = 1e-6
    effects = np.zeros(len(penalty))
    value = _objective(effects, designs, votes, penalty)
    for _ in range(_MAX_STEPS):
        gradient, hessian = _derivatives(effects, designs, votes, penalty)
        step = cho_solve(cho_factor(hessian), gradient)
        size, new = 1.0, _objective(effects + step, designs, votes, penalty)
        while new < value and size > 1e-6:
            size /= 2
            new = _objective(effects + size * step, designs, votes, penalty)
        effects, gain, value = effects + size * step, new - value, new
        if gain <= 1e-10 * (1 + abs(value)):
            break
    table = np.zeros_like(counts)
    table[first, second] = softmax(_scores(effects, designs), axis=1)
    return table


def _designs(
    first: NDArray[np.intp], second: NDArray[np.intp], n_items: int, n_categories: int
) -> list[sparse.csr_array]:
    """For every category the sparse matrix that takes the effects to its score for every ordered pair."""
    n_pairs = len(first)
    width = n_categories + n_items * (n_categories - 1)
    rows = np.tile(np.arange(n_pairs), 3)
    designs = []
    for category in range(n_categories):
        block = n_categories + n_items * max(0, category - 1)
        signs = [(1.0, -1.0), (-1.0, 1.0)][category] if category < 2 else (1.0, 1.0)
        columns = np.concatenate([np.full(n_pairs, category), block + first, block + second])
        values = np.repeat([1.0, *signs], n_pairs)
        designs.append(sparse.csr_array((values, (rows, columns)), shape=(n_pairs, width)))
    return designs


def _scores(effects: FloatArray, designs: list[sparse.csr_array]) -> FloatArray:
    return np.stack([design @ effects for design in designs], axis=1)


def _objective(effects: FloatArray, designs: list[sparse.csr_array], votes: FloatArray, penalty: FloatArray) -> float:
    scores = _scores(effects, designs)
    top = scores.max(axis=1, keepdims=True)
    log_norm = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
    return float((votes * (scores - log_norm[:, None])).sum() - (penalty * effects**2).sum() / 2)


def _derivatives(
    effects: FloatArray, designs: list[sparse.csr_array], votes: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and negative Hessian of the penalised log-likelihood."""
    total = votes.sum(axis=1)
    p = softmax(_scores(effects, designs), axis=1)
    gradient = -penalty * effects
    hessian = sparse.csr_array(np.diag(penalty))
    mean: sparse.csr_array | None = None
    for category, design in enumerate(designs):
        gradient = gradient + design.T @ (votes[:, category] - total * p[:, category])
        hessian = hessian + design.T @ sparse.diags_array(total * p[:, category]) @ design
        share = sparse.diags_array(p[:, category]) @ design
        mean = share if mean is None else mean + share
    assert mean is not None
    hessian = hessian - mean.T @ sparse.diags_array(total) @ mean
    return gradient, hessian.toarray()


def _marginal_likelihood(counts: FloatArray, fitted: FloatArray, strength: float) -> float:
    """Log-likelihood of the counts under Dirichlet(strength * fitted), up to a constant."""
    n_items = len(counts)
    pairs = ~np.eye(n_items, dtype=bool)
    n, prior = counts[pairs], strength * np.maximum(fitted[pairs], 1e-12)
    total = n.sum(axis=1)
    return float((gammaln(n + prior) - gammaln(prior)).sum() - (gammaln(total + strength) - gammaln(strength)).sum())

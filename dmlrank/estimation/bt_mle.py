"""Parametric Bradley-Terry by maximum likelihood, and the influence of each vote on its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, log_expit

from ..data.graph import laplacian_inverse
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import GraphError, NuisanceError, listed
from .influence import Influence
from .influence_blocks import InfluenceBlocks

_MAX_STEPS = 200
# Largest number of groups of models that an error lists, and of models that it names in each group.
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class BradleyTerryFit:
    """Maximum-likelihood scores of the model P(j beats k) = 1 / (1 + exp(r_k - r_j)).

    scores (K,): r, with sum zero.
    inverse (K, K): Pseudo-inverse of the information of all votes.
    log_loss: In-sample log-loss per vote, with a tie counted as half a win for each of the two models.
    """

    scores: FloatArray
    inverse: FloatArray
    log_loss: float

    @property
    def table(self) -> FloatArray:
        """P(j beats k), (K, K), with one half on the diagonal."""
        return np.asarray(expit(np.subtract.outer(self.scores, self.scores)))

    def probabilities(self, n_categories: int) -> FloatArray:
        """Return category probabilities, (K, K, C), with a zero diagonal; the model has no ties."""
        mu = np.zeros((*self.table.shape, n_categories))
        mu[..., 0], mu[..., 1] = self.table, self.table.T
        mu[np.arange(len(mu)), np.arange(len(mu))] = 0.0
        return mu

    def mean_probabilities(self, x: FloatArray, n_categories: int) -> FloatArray:
        """Return :meth:`probabilities`, which are the same for all features ``x``, (n, p)."""
        return self.probabilities(n_categories)

    def cell_probabilities(self, data: PreferenceData) -> FloatArray:
        """Return for every labelled cell, (m,), the probability that the model shown first wins."""
        return np.asarray(self.table[data.cells.first, data.cells.second])

    def scores_at(self, x: FloatArray) -> FloatArray:
        """Return the scores, (n, K), which are the same for all features ``x``, (n, p)."""
        return np.tile(self.scores, (len(x), 1))

    def influence(
        self,
        data: PreferenceData,
        first_weights: Sequence[float],
        edges: NDArray[np.bool_],
        blocks: InfluenceBlocks,
    ) -> Influence:
        """Return the influence values of the scores, see :func:`likelihood_influence`.

        Shapes: edges (K, K).
        """
        return likelihood_influence(self, data, first_weights, edges, blocks)

    def score_changes(
        self, first_weights: Sequence[float], directions: FloatArray, first: IntArray, second: IntArray
    ) -> FloatArray:
        """Return the changes of the scores, (r, K), that come from changes of single votes.

        Shapes: directions (r, C), first, second (r,).
        """
        win_change = directions @ np.asarray(first_weights)
        return np.asarray(win_change[:, None] * (self.inverse[first] - self.inverse[second]))

    def win_probability_influence(self, influence: Influence, item: int, opponent: int) -> Influence:
        """Return the influence values of P(item beats opponent), (n, 1), by the delta method.

        ``influence`` has the influence values of the scores.
        """
        p = self.table[item, opponent]
        change = p * (1 - p) * (influence.correction[:, item] - influence.correction[:, opponent])
        return replace(influence, value=np.full((len(influence.value), 1), p), correction=change[:, None])

    def win_probability_gradient(self, item: int, opponent: int) -> FloatArray:
        """Return the derivative of P(item beats opponent) with respect to the scores, (K,)."""
        p, gradient = self.table[item, opponent], np.zeros(len(self.scores))
        gradient[item], gradient[opponent] = p * (1 - p), -p * (1 - p)
        return gradient


def won_votes(data: PreferenceData, first_weights: Sequence[float], edges: NDArray[np.bool_]) -> FloatArray:
    """Count the votes that each model won against each other model, (K, K), in both display orders together.

    Shapes: edges (K, K).
    """
    cells, n_items = data.cells, data.n_items
    won_as_first = cells.n_votes * (cells.y @ np.asarray(first_weights))
    pair = cells.first * n_items + cells.second
    # Tables by ordered pair (j, k): the votes that j won and lost when j was shown first.
    won, all_votes = (
        np.bincount(pair, weights=weights, minlength=n_items**2).reshape(n_items, n_items)
        for weights in (won_as_first, cells.n_votes)
    )
    lost = np.maximum(all_votes - won, 0.0)
    # Whether the scores exist depends on which numbers of wins are zero, so that rounding errors are set to zero.
    lost[lost < 1e-9] = 0.0
    return np.where(edges, won + lost.T, 0.0)


def fit_bradley_terry(won: FloatArray, items: Sequence[str]) -> BradleyTerryFit:
    """Maximise the Bradley-Terry likelihood, which is concave, by Newton steps.

    Shapes: won (K, K).

    References
    ----------
    Ford (1957), Solution of a ranking problem from binary comparisons: the scores exist where, for every division
    of the models into two groups, some model of each group has won against a model of the other group.
    """
    check_scores_exist(won, items)
    n_items, total = len(won), won + won.T
    scores = np.zeros(n_items)
    log_likelihood = _log_likelihood(scores, won)
    n_final_steps = 2
    for _ in range(_MAX_STEPS):
        p = expit(np.subtract.outer(scores, scores))
        step = laplacian_inverse(total * p * p.T) @ (won - total * p).sum(axis=1)
        step_size, candidate_log_likelihood = 1.0, _log_likelihood(scores + step, won)
        while candidate_log_likelihood < log_likelihood - 1e-12 * abs(log_likelihood) and step_size > 1e-8:
            step_size /= 2
            candidate_log_likelihood = _log_likelihood(scores + step_size * step, won)
        scores, log_likelihood = scores + step_size * step, candidate_log_likelihood
        # Newton steps converge quadratically: after the first tiny step, two more steps reach machine precision.
        n_final_steps -= np.abs(step).max() < 1e-6
        if n_final_steps < 0:
            break
    else:
        raise NuisanceError(
            f"the Bradley-Terry likelihood was not maximised in {_MAX_STEPS} Newton steps; use "
            f"estimator='debiased' with functional='bt'"
        )
    scores = scores - scores.mean()
    p = expit(np.subtract.outer(scores, scores))
    return BradleyTerryFit(
        scores, laplacian_inverse(total * p * p.T), float(-2 * _log_likelihood(scores, won) / total.sum())
    )


def likelihood_influence(
    fitted: BradleyTerryFit,
    data: PreferenceData,
    first_weights: Sequence[float],
    edges: NDArray[np.bool_],
    blocks: InfluenceBlocks,
) -> Influence:
    """Return the influence values of the scores for every influence block i: phi_i = n H^-1 s_i.

    n is the number of contexts, H is the information of all votes, and s_i is the gradient of the log-likelihood of the
    votes of block i: the sum of (y - p)(e_j - e_k) over these votes.

    Shapes: edges (K, K).

    Notes
    -----
    The mean of phi phi' / n is the sandwich covariance H^-1 (sum s s') H^-1. Under the Bradley-Terry model the scores
    are the same for all prompts. The part of the influence that does not come from labels, ``Influence.value``, is
    therefore the vector of scores in every context.
    """
    cell = blocks.entry_cell
    first, second = data.cells.first[cell], data.cells.second[cell]
    votes = blocks.entry_share * data.cells.n_votes[cell] * edges[first, second]
    residual = votes * (blocks.entry_y @ np.asarray(first_weights) - fitted.table[first, second])
    gradient = np.zeros((len(blocks.context), data.n_items))
    np.add.at(gradient, (blocks.entry_block, first), residual)
    np.add.at(gradient, (blocks.entry_block, second), -residual)
    scores_by_context = np.tile(fitted.scores, (data.n_contexts, 1))
    correction = data.n_contexts * gradient @ fitted.inverse
    return Influence(scores_by_context, correction, blocks.context, blocks.weight, np.ones(data.n_contexts))


def _log_likelihood(scores: FloatArray, won: FloatArray) -> float:
    """Return the log-likelihood of scores, (K,), for the votes won, (K, K)."""
    return float((won * log_expit(np.subtract.outer(scores, scores))).sum())


def check_scores_exist(won: FloatArray, items: Sequence[str]) -> None:
    """Raise :class:`GraphError` where the likelihood has no maximum; see :func:`fit_bradley_terry`."""
    n_parts, part = connected_components(won > 0, directed=True, connection="strong")
    if n_parts == 1:
        return
    winners, losers = [], []
    for label in range(n_parts):
        inside = part == label
        names = listed((items[int(j)] for j in np.flatnonzero(inside)), _MAX_NAMED)
        if not won[~inside][:, inside].any():
            winners.append(f"{names} never lost to the others")
        elif not won[inside][:, ~inside].any():
            losers.append(f"{names} never won against the others")
    reasons = winners + losers
    n_more = len(reasons) - _MAX_NAMED
    reason_text = "; ".join(reasons[:_MAX_NAMED]) + (f"; and {n_more} more" if n_more > 0 else "")
    raise GraphError(
        f"the maximum-likelihood scores do not exist, because the likelihood grows as some scores go to infinity: "
        f"{reason_text}. Every group of models needs a win and a loss against the other models: drop the rows of these "
        f"models, collect more labels, or use estimator='debiased'"
    )

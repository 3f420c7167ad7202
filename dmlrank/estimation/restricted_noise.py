"""What the labels' chance alone does to the difference between the projection and the restricted estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..data.preferences import FloatArray, IntArray, PreferenceData
from .crossfit import MuSource
from .evaluation import chunk_size
from .influence import raised
from .restricted import RestrictedBradleyTerry

# Draws, and what they may cost together in multiplications; never fewer than the second.
_DRAWS, _FEWEST, _WORK = 1999, 199, 2e10


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedNoise:
    """Labelled cells in an order that the order of the rows does not change.

    Attributes
    ----------
    context : ndarray of int, shape (m,)
    share : ndarray, shape (m,)
        Probability that the first wins, in the model.
    moved : ndarray, shape (m, K)
        By how much a win of the first moves phi(projection) - phi(restricted) of its context.
    n_votes : ndarray of int, shape (m,)
    n_contexts : int
    """

    context: IntArray
    share: FloatArray
    moved: FloatArray
    n_votes: IntArray
    n_contexts: int

    def statistics(self, along: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Wald statistics of the difference in samples of labels from the model, with each sample's own covariance.

        Parameters
        ----------
        along : ndarray, shape (K, r)
            Directions in which the estimators differ.
        rng : Generator
        """
        return np.array(list(self._statistics(along, rng)))

    def _statistics(self, along: FloatArray, rng: np.random.Generator) -> Iterator[float]:
        moved = self.moved @ along
        n, m = self.n_contexts, len(self.share)
        into = csr_array((np.ones(m), (self.context, np.arange(m))), shape=(n, m))
        for _ in range(int(np.clip(_WORK / max(moved.size * along.shape[1], 1), _FEWEST, _DRAWS))):
            noise = rng.binomial(self.n_votes, self.share) / self.n_votes - self.share
            phi = into @ (moved * noise[:, None])
            mean = phi.mean(axis=0)
            phi -= mean
            yield float(mean @ np.linalg.lstsq(phi.T @ phi / n**2, mean, rcond=None)[0])


def noise_under_restriction(
    score: RestrictedBradleyTerry,
    mu: MuSource,
    data: PreferenceData,
    propensity: FloatArray,
    floor: float,
    population: FloatArray | None = None,
) -> RestrictedNoise:
    """How every label moves the difference, and its probability in the model.

    Both influence values start from the same F(mu), so that their difference is a sum over labels, linear in each Y.

    Parameters
    ----------
    score : RestrictedBradleyTerry
    mu : MuSource
    data : PreferenceData
    propensity : ndarray, shape (m,)
        pi at the labelled cells.
    floor : float
    population : ndarray, shape (n,), optional
        Weights of the contexts; one when None.
    """
    cells = data.cells
    share, moved = np.empty(len(cells)), np.empty((len(cells), data.n_items))
    for part in mu.parts(chunk_size(data)):
        table = raised(part.probabilities(), floor)[part.place]
        place = np.full(data.n_contexts, -1)
        place[part.contexts] = np.arange(len(part.contexts))
        here = np.flatnonzero(place[cells.context] >= 0)
        pairs = place[cells.context[here]], cells.first[here], cells.second[here]
        share[here] = score.fitted(table)[pairs]
        won = np.tile([1.0, 0.0], (len(here), 1))
        assumed = [score.by_label(table, part.contexts, *pairs, y)[1] for y in (won, won[:, ::-1])]
        moved[here] = _projection_moves(score, table[pairs], propensity[here], *pairs[1:]) - (assumed[0] - assumed[1])
    if population is not None:
        moved *= population[cells.context][:, None]
    order = np.lexsort((cells.second, cells.first, data.seed_order[cells.context]))
    return RestrictedNoise(cells.context[order], share[order], moved[order], cells.n_votes[order], data.n_contexts)


def _projection_moves(
    score: RestrictedBradleyTerry, own: FloatArray, propensity: FloatArray, first: IntArray, second: IntArray
) -> FloatArray:
    """By how much a win of the first, instead of the second, moves the projection's influence, (e, K)."""
    step, n_items = np.array([1.0, -1.0]) / propensity[:, None], len(score.graph.edges)
    change = score.functional.derivative_at(own, step, first, second, n_items)
    if score.position:
        return change
    return change + score.functional.derivative_at(own[:, ::-1], step[:, ::-1], second, first, n_items)

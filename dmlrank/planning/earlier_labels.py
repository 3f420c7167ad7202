"""Labels that are there before a plan: what they know already, and what its own labels add to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray

# Share of the largest eigenvalue below which a direction has no variance.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class EarlierLabels:
    r"""What a fit knows of the scores from the labels and verdicts that it has, and how a plan's labels add to it.

    Planned labels are independent of earlier ones given the prompts, so that their precisions add up. On the fit's own
    prompts the spread of the scores over prompts, B, is the same for both, and the noise of the labels is the parallel
    sum of two: :math:`\Sigma = B + (A^{-1} + L^{-1})^{-1}`, A what the fit's covariance has beyond B, L the planned
    labels' share. New prompts have a spread of their own: :math:`\Sigma = (A^{-1} + (B + L)^{-1})^{-1}` with A all of
    the fit's covariance. Both are the covariances of the best weighted mean of the two estimates; one fit to all
    votes is no less precise, since it weighs pair by pair.

    Attributes
    ----------
    sigma : ndarray, shape (K, K)
        Covariance of the fit's scores, times the number of contexts of the plan.
    own_prompts : bool
        Whether the plan is for the fit's own prompts.
    """

    sigma: FloatArray
    own_prompts: bool

    def combined(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Sigma, (K, K), of the estimate from all labels.

        Parameters
        ----------
        between : ndarray, shape (K, K)
            Covariance of the scores between contexts, B.
        labelling : ndarray, shape (K, K)
            What the planned labels add to it, L.

        Examples
        --------
        >>> known = EarlierLabels(np.array([[3.0]]), own_prompts=True)
        >>> known.combined(np.array([[1.0]]), np.array([[2.0]]))      # 1 + 1 / (1 / 2 + 1 / 2)
        array([[2.]])
        """
        shared, known, own = self._parts(between, labelling)
        return np.asarray(shared + _symmetric(known @ _inverse(known + own) @ own))

    def alone(self, between: FloatArray) -> FloatArray:
        """Sigma, (K, K), without any planned label."""
        shared, known, _ = self._parts(between, np.zeros_like(between))
        return shared + known

    def slope(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """G, (K, K), with which Sigma moves by G' dL G as the planned labels' share L moves by dL."""
        _, known, own = self._parts(between, labelling)
        return _inverse(known + own) @ known

    def _parts(self, between: FloatArray, labelling: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        if not self.own_prompts:
            return np.zeros_like(between), self.sigma, between + labelling
        values, vectors = np.linalg.eigh(_symmetric(self.sigma - between))
        # Where the fit's covariance is below the spread over prompts, by chance, its labels are taken as noiseless.
        return between, np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T), labelling


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """The generalised inverse of a covariance, (K, K), zero where it has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=_ROUNDING, hermitian=True), dtype=np.float64)

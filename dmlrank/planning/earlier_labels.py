"""Labels that a fit has before a plan: how precise they make the scores, and what planned labels add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray

# Share of the largest eigenvalue below which a direction has no variance.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class EarlierLabels:
    r"""How precise the labels and verdicts of a fit make the scores, and what a plan's labels add.

    Planned labels are independent of earlier ones given the prompts, so that their precisions add up. On the fit's own
    prompts both estimates share the covariance of the scores between prompts, B, and the noise of the labels is a
    parallel sum: :math:`\Sigma = B + (A^{-1} + L^{-1})^{-1}`, where A is the part of the fit's covariance beyond B, and
    L is what the planned labels add to B. New prompts are a sample of their own:
    :math:`\Sigma = (A^{-1} + (B + L)^{-1})^{-1}`, where A is all of the fit's covariance. Both formulas give the
    covariance of the best weighted mean of the two estimates. One fit to all votes is no less precise, since it weighs
    the two sources pair by pair.

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
        """Return Sigma, (K, K), of the estimate from all labels.

        Parameters
        ----------
        between : ndarray, shape (K, K)
            Covariance of the scores between contexts, B.
        labelling : ndarray, shape (K, K)
            What the planned labels add to it, L.

        Examples
        --------
        >>> earlier = EarlierLabels(np.array([[3.0]]), own_prompts=True)
        >>> earlier.combined(np.array([[1.0]]), np.array([[2.0]]))      # 1 + 1 / (1 / 2 + 1 / 2)
        array([[2.]])
        """
        shared, earlier, planned = self._parts(between, labelling)
        return np.asarray(shared + _symmetric(earlier @ _inverse(earlier + planned) @ planned))

    def without_plan(self, between: FloatArray) -> FloatArray:
        """Return Sigma, (K, K), without any planned label."""
        shared, earlier, _ = self._parts(between, np.zeros_like(between))
        return shared + earlier

    def slope(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Return G, (K, K): Sigma changes by G' dL G where what the planned labels add changes by dL."""
        _, earlier, planned = self._parts(between, labelling)
        return _inverse(earlier + planned) @ earlier

    def _parts(self, between: FloatArray, labelling: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the part of Sigma that both estimates share, the fit's own part and the plan's, (K, K) each."""
        if not self.own_prompts:
            return np.zeros_like(between), self.sigma, between + labelling
        values, vectors = np.linalg.eigh(_symmetric(self.sigma - between))
        # Where the fit's covariance is by chance smaller than that between prompts, its labels count as noiseless.
        return between, np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T), labelling


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=_ROUNDING, hermitian=True), dtype=np.float64)

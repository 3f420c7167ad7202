"""The labels of a fit for which a plan is made: how precise the scores are with these labels and the planned ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray

# Share of the largest eigenvalue below which a direction has no variance.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class EarlierLabels:
    r"""How precise the scores are with the labels and verdicts of a fit and the labels of a plan together.

    There are two estimates of the scores: that of the fit, and that from the planned labels alone. Given the prompts,
    the errors of their labels are independent. Sigma is the covariance of the best weighted mean of the two estimates,
    times the number of contexts of the plan. B is the covariance of the scores between prompts, and L the labelling
    covariance of the plan.

    - A plan for the fit's own prompts: both estimates share B, and the precisions of the labels add up,
      :math:`\Sigma = B + (A^{-1} + L^{-1})^{-1}`. Here A is the part of the fit's covariance beyond B.
    - A plan for new prompts: these are a sample of their own, and the precisions of the estimates add up,
      :math:`\Sigma = (A^{-1} + (B + L)^{-1})^{-1}`. Here A is the whole covariance of the fit.

    A single fit to all votes is at least as precise, because it can weight the two sets of labels differently for every
    pair.

    sigma (K, K): Covariance of the fit's scores, times the number of contexts of the plan.
    own_prompts: Whether the plan is for the fit's own prompts.
    """

    sigma: FloatArray
    own_prompts: bool

    def combined(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Return Sigma, (K, K), of the estimate from all labels.

        Shapes: between (K, K), labelling (K, K).
        """
        shared, earlier, planned = self._parts(between, labelling)
        return np.asarray(shared + _symmetric(earlier @ _inverse(earlier + planned) @ planned))

    def without_plan(self, between: FloatArray) -> FloatArray:
        """Return Sigma, (K, K), without any planned label."""
        shared, earlier, _ = self._parts(between, np.zeros_like(between))
        return shared + earlier

    def slope(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Return the matrix G, (K, K), with d Sigma = G' dL G: how Sigma changes with the labelling covariance L."""
        _, earlier, planned = self._parts(between, labelling)
        return _inverse(earlier + planned) @ earlier

    def _parts(self, between: FloatArray, labelling: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the part of Sigma that both estimates share, the fit's own part and the plan's, (K, K) each."""
        if not self.own_prompts:
            return np.zeros_like(between), self.sigma, between + labelling
        values, vectors = np.linalg.eigh(_symmetric(self.sigma - between))
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        return between, np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T), labelling


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=_ROUNDING, hermitian=True), dtype=np.float64)

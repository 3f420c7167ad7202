"""Linear projection of scores on functions of the context, such as group indicators, from the influence of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .influence import CentredValues, Influence


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedInfluence(CentredValues):
    """P coefficients of each of K scores with their influence values.

    Coordinate p K + k is coefficient p of score k.

    estimate, plugin (P K,): Debiased coefficients, and the coefficients of F(mu) without the correction.
    centred (n, P K): Influence values of the coefficients, with mean zero.
    centred_correction (q, P K): Corrections by influence block, centred.
    block_context (q,): Context of each block.
    """

    estimate: FloatArray
    plugin: FloatArray
    centred: FloatArray
    centred_correction: FloatArray
    block_context: IntArray


def project_influence(
    influence: Influence, design: FloatArray, fixed_prompts: bool = False, with_blocks: bool = True
) -> ProjectedInfluence:
    """Regress the values F(mu(x)) + correction of the contexts, phi_raw, on functions v of the context.

    The regression is by weighted least squares.

    The coefficients are beta = E[w v v']^-1 E[w v phi_raw'], and their influence is E[w v v']^-1 w v (phi_raw -
    beta'v)'. With indicators of groups G in v, the coefficients are the scores theta_g of each group, with influence
    1(G = g) (phi_raw - theta_g) / p_g. With a constant as the only function they are the scores of the fit.

    Shapes: design (n, P).

    Notes
    -----
    Where F(mu) is averaged over a sample of the contexts, F(mu) is regressed on v in the sample, and the correction in
    all contexts.

    Corrections by block are centred as for the scores themselves (:attr:`Influence.centred_correction`). The projection
    of the corrections on v is minus the estimated bias of F(mu). This bias is subtracted from the blocks in proportion
    to their labelled cells.
    """
    weight, value_weight, n = influence.weight, influence.value_weight, len(design)
    correction = influence.correction_by_context
    # Rows E[w v v']^-1 v of the contexts.
    scaled_design: FloatArray = np.asarray(np.linalg.solve(_gram(design, weight) / n, design.T).T, float)
    value_coefficients = np.linalg.solve(
        _gram(design, value_weight), design.T @ (value_weight[:, None] * influence.value)
    )
    correction_coefficients = scaled_design.T @ (weight[:, None] * correction) / n
    residual = weight[:, None] * (correction - design @ correction_coefficients)
    if not fixed_prompts:
        residual = residual + value_weight[:, None] * (influence.value - design @ value_coefficients)
    centred = _row_products(scaled_design, residual)
    estimate = np.asarray(value_coefficients + correction_coefficients, dtype=float).ravel()
    plugin = np.asarray(value_coefficients, dtype=float).ravel()
    if not with_blocks:
        no_blocks = np.empty((0, centred.shape[1]))
        return ProjectedInfluence(estimate, plugin, centred, no_blocks, np.empty(0, dtype=np.intp))
    context, n_cells = influence.block_context, influence.block_weight[:, None]
    weighted = weight[context, None] * influence.correction
    bias = np.linalg.lstsq(_gram(design[context], n_cells[:, 0]), design[context].T @ weighted, rcond=None)[0]
    blocks = _row_products(scaled_design[context], weighted - n_cells * (design[context] @ bias))
    return ProjectedInfluence(estimate, plugin, centred, blocks, context)


def column_units(design: FloatArray) -> FloatArray:
    """Return the power of two next to the largest absolute value of each column, (P,); 1 for a column of zeros.

    Division by a power of two is exact.
    """
    return np.asarray(2.0 ** np.frexp(np.abs(design).max(axis=0))[1], dtype=float)


def _gram(design: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the sum of w v v', (P, P)."""
    return np.asarray(design.T @ (weight[:, None] * design), dtype=float)


def _row_products(design: FloatArray, values: FloatArray) -> FloatArray:
    """Return the products of all entries of ``design``, (n, P), and ``values``, (n, K), row by row: (n, P K)."""
    return (design[:, :, None] * values[:, None, :]).reshape(len(values), -1)

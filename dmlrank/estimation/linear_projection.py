"""Coefficients of scores on functions of the context, group means among them, from the influence of one fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .influence import CentredValues, Influence


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedInfluence(CentredValues):
    """P coefficients of each of K scores with their influence; coordinate p K + k is coefficient p of score k.

    Attributes
    ----------
    estimate, plugin : ndarray, shape (P K,)
        Debiased coefficients, and those of F(mu) alone.
    centred : ndarray, shape (n, P K)
        Influence values with mean zero.
    centred_correction : ndarray, shape (q, P K)
        Their corrections by block, with mean zero.
    block_context : ndarray of int, shape (q,)
    """

    estimate: FloatArray
    plugin: FloatArray
    centred: FloatArray
    centred_correction: FloatArray
    block_context: IntArray


def project_influence(
    influence: Influence, design: FloatArray, fixed_prompts: bool = False, with_blocks: bool = True
) -> ProjectedInfluence:
    """Regress phi_raw = F(mu(x)) + correction on functions v of the context, by weighted least squares.

    beta = E[w v v']^-1 E[w v phi_raw'], with influence E[w v v']^-1 w v (phi_raw - beta'v)'. With indicators of groups
    in v these are theta_g and 1(G = g) (phi_raw - theta_g) / p_g; with a constant alone they are the scores.

    Parameters
    ----------
    influence : Influence
        Of K scores, not centred.
    design : ndarray, shape (n, P)
        v of each context, of full rank where weights are positive.
    fixed_prompts : bool
        Whether the prompts are fixed, so that the correction alone is uncertain.
    with_blocks : bool
        Whether corrections by block are wanted, as they are for annotators crossed with prompts; otherwise there are
        none of them.

    Notes
    -----
    Where F(mu) is averaged over a sample of the contexts, it is regressed on v in the sample, the correction in all.

    The same correction of blocks as for the scores themselves: what their projection on v says of the bias of F(mu) is
    spread over the blocks by the labelled cells that they hold, and taken out.
    """
    weight, counted, n = influence.weight, influence.value_weight, len(design)
    correction = influence.correction_by_context
    load: FloatArray = np.asarray(np.linalg.solve(_gram(design, weight) / n, design.T).T, float)
    of_value = np.linalg.solve(_gram(design, counted), design.T @ (counted[:, None] * influence.value))
    of_correction = load.T @ (weight[:, None] * correction) / n
    residual = weight[:, None] * (correction - design @ of_correction)
    if not fixed_prompts:
        residual = residual + counted[:, None] * (influence.value - design @ of_value)
    centred = _products(load, residual)
    estimate, plugin = (np.asarray(part, dtype=float).ravel() for part in (of_value + of_correction, of_value))
    if not with_blocks:
        nothing = np.empty((0, centred.shape[1]))
        return ProjectedInfluence(estimate, plugin, centred, nothing, np.empty(0, dtype=np.intp))
    at, size = influence.block_context, influence.block_weight[:, None]
    weighted = weight[at, None] * influence.correction
    lean = np.linalg.lstsq(_gram(design[at], size[:, 0]), design[at].T @ weighted, rcond=None)[0]
    blocks = _products(load[at], weighted - size * (design[at] @ lean))
    return ProjectedInfluence(estimate, plugin, centred, blocks, at)


def _gram(design: FloatArray, weight: FloatArray) -> FloatArray:
    """sum w v v', (P, P)."""
    return np.asarray(design.T @ (weight[:, None] * design), dtype=float)


def _products(load: FloatArray, rows: FloatArray) -> FloatArray:
    """Rows of load (x) rows, (n, P K)."""
    return (load[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)

"""Coefficients of scores on functions of the context, group means among them, from the influence of one fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .influence import Influence


@dataclass(frozen=True, slots=True, eq=False)
class Projected:
    """P coefficients of each of K scores with their influence; coordinate p K + k is coefficient p of score k.

    Attributes
    ----------
    estimate, plugin : ndarray, shape (P K,)
        Debiased coefficients, and those of F(mu) alone.
    centred : ndarray, shape (n, P K)
        Influence values with mean zero.
    centred_correction : ndarray, shape (q, P K)
        Their corrections by piece, with mean zero.
    piece_context : ndarray of int, shape (q,)
    """

    estimate: FloatArray
    plugin: FloatArray
    centred: FloatArray
    centred_correction: FloatArray
    piece_context: IntArray


def project_influence(
    influence: Influence, design: FloatArray, fixed_prompts: bool = False, with_pieces: bool = True
) -> Projected:
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
    with_pieces : bool
        Whether corrections by piece are wanted, as they are for annotators crossed with prompts; otherwise there are
        none of them.

    Notes
    -----
    The same correction of pieces as for the scores themselves: what their projection on v says of the bias of F(mu) is
    spread over the pieces by the labelled cells that they hold, and taken out.
    """
    weight, n = influence.weight, len(design)
    load: FloatArray = np.asarray(np.linalg.solve(design.T @ (weight[:, None] * design) / n, design.T).T, float)
    shares = weight[:, None] * load / n
    correction = influence.by_context
    raw = influence.value + correction
    estimate = shares.T @ raw
    uncertain, fitted = (correction, shares.T @ correction) if fixed_prompts else (raw, estimate)
    centred = _products(load, weight[:, None] * (uncertain - design @ fitted))

    plugin = (shares.T @ influence.value).ravel()
    if not with_pieces:
        nothing = np.empty((0, centred.shape[1]))
        return Projected(estimate.ravel(), plugin, centred, nothing, np.empty(0, dtype=np.intp))
    at, size = influence.piece_context, influence.piece_weight[:, None]
    weighted = weight[at, None] * influence.correction
    lean = np.linalg.lstsq(design[at].T @ (size * design[at]), design[at].T @ weighted, rcond=None)[0]
    pieces = _products(load[at], weighted - size * (design[at] @ lean))
    return Projected(estimate.ravel(), plugin, centred, pieces, at)


def _products(load: FloatArray, rows: FloatArray) -> FloatArray:
    """Rows of load (x) rows, (n, P K)."""
    return (load[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)

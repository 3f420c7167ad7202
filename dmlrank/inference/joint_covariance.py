"""Joint covariances of several estimates from one set of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import CentredValues
from .covariance import Covariance


@dataclass(frozen=True, slots=True, eq=False)
class StackedInfluence(CentredValues):
    """Influence values of several estimates side by side, as the covariances want them.

    Attributes
    ----------
    centred : ndarray, shape (n, d)
    centred_correction : ndarray, shape (q, d)
        The blocks of all estimates one after the other, each zero in the others' columns.
    block_context : ndarray of int, shape (q,)
    """

    centred: FloatArray
    centred_correction: FloatArray
    block_context: IntArray


def stack_influences(
    centred: Sequence[FloatArray], corrections: Sequence[FloatArray], contexts: Sequence[IntArray]
) -> StackedInfluence:
    """Estimates side by side: influence (n, d_r), corrections (q_r, d_r) and the contexts of these, (q_r,)."""
    return StackedInfluence(np.hstack(centred), block_diag(*corrections), np.concatenate(contexts))


def match_blocks(joint: FloatArray, blocks: Sequence[Covariance]) -> FloatArray:
    """A joint covariance with the given diagonal blocks and the dependence of the one that is given, (d, d).

    An estimate's own covariance may hold more than the sum over its influence values, such as the correction for a
    shrunken mu, and what this adds between two estimates is not known. Each estimate's error is therefore moved by the
    linear map A with A V A' = the estimate's own covariance that is nearest to the identity (the optimal transport
    between the two normal distributions), and the joint covariance with it: A_r V_rs A_s'. It stays positive
    semidefinite, and where nothing was added A is the identity.

    Parameters
    ----------
    joint : ndarray, shape (d, d)
    blocks : sequence of Covariance
        Of d_1, d_2, ... scores, d in all, with bases that span what is free.
    """
    ends = np.cumsum([len(block.matrix) for block in blocks])
    places = [slice(end - len(block.matrix), end) for end, block in zip(ends, blocks, strict=True)]
    maps = [transport_map(joint[place, place], block) for place, block in zip(places, blocks, strict=True)]
    whole = block_diag(*maps)
    moved = whole @ joint @ whole.T
    moved = (moved + moved.T) / 2
    for place, block in zip(places, blocks, strict=True):
        moved[place, place] = block.matrix
    return np.asarray(moved)


def transport_map(have: FloatArray, want: Covariance) -> FloatArray:
    """The symmetric map A, (d, d), with A have A' = want in what is free; zero in what is fixed.

    Where ``have`` is singular in some direction, so is the result: nothing is known there.
    """
    basis = want.basis
    own, target = basis.T @ have @ basis, want.reduced
    if np.allclose(own, target, rtol=1e-12, atol=1e-14 * max(np.abs(target).max(initial=0.0), 1e-300)):
        return basis @ basis.T
    root, inverse = _roots(own)
    middle = _roots(root @ target @ root)[0]
    reduced = inverse @ middle @ inverse
    return np.asarray(basis @ ((reduced + reduced.T) / 2) @ basis.T)


def _roots(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The symmetric square root of a positive semidefinite matrix, and its pseudo-inverse."""
    spectrum, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    size = np.sqrt(np.maximum(spectrum, 0.0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 1e-7 * size.max(initial=0.0))
    return (axes * size) @ axes.T, (axes * inverse) @ axes.T

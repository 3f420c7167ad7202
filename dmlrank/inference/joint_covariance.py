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
    """Influence values of several estimates side by side.

    centred (n, d): Influence values of all estimates.
    centred_correction (q, d): Corrections by block. Each estimate has rows of its own, one for each of its blocks,
        which are zero in the columns of the other estimates.
    block_context (q,): Context of each block.
    """

    centred: FloatArray
    centred_correction: FloatArray
    block_context: IntArray


def stack_influences(
    centred: Sequence[FloatArray], corrections: Sequence[FloatArray], contexts: Sequence[IntArray]
) -> StackedInfluence:
    """Put the influence values of several estimates side by side."""
    return StackedInfluence(np.hstack(centred), block_diag(*corrections), np.concatenate(contexts))


def match_blocks(joint: FloatArray, blocks: Sequence[Covariance]) -> FloatArray:
    """Change a joint covariance so that its diagonal blocks are the given ones, and keep the dependence, (d, d).

    Shapes: joint (d, d).
    """
    ends = np.cumsum([len(block.matrix) for block in blocks])
    places = [slice(end - len(block.matrix), end) for end, block in zip(ends, blocks, strict=True)]
    maps = [transport_map(joint[place, place], block) for place, block in zip(places, blocks, strict=True)]
    joint_map = block_diag(*maps)
    mapped = joint_map @ joint @ joint_map.T
    mapped = (mapped + mapped.T) / 2
    for place, block in zip(places, blocks, strict=True):
        mapped[place, place] = block.matrix
    return np.asarray(mapped)


def transport_map(source: FloatArray, target: Covariance) -> FloatArray:
    """Return the symmetric map A, (d, d), with A source A' = target in the free directions and zero in fixed ones.

    Where the source has no variance in some direction, no map can give it the variance of the target, and A is zero in
    this direction.

    Shapes: source (d, d).
    """
    basis = target.basis
    reduced_source, reduced_target = basis.T @ source @ basis, target.reduced
    smallest = 1e-14 * max(np.abs(reduced_target).max(initial=0.0), 1e-300)
    if np.allclose(reduced_source, reduced_target, rtol=1e-12, atol=smallest):
        return basis @ basis.T
    root, inverse_root = _roots(reduced_source)
    reduced_map = inverse_root @ _roots(root @ reduced_target @ root)[0] @ inverse_root
    return np.asarray(basis @ ((reduced_map + reduced_map.T) / 2) @ basis.T)


def _roots(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric square root of a positive semidefinite matrix, and the pseudo-inverse of this root."""
    spectrum, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    size = np.sqrt(np.maximum(spectrum, 0.0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 1e-7 * size.max(initial=0.0))
    return (axes * size) @ axes.T, (axes * inverse) @ axes.T

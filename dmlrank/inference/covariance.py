"""Covariances of the estimate, each with its structural rank: one function per kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import unit_sums
from ..exceptions import DataError, IntervalWarning

_FEW_CLUSTERS = 30
_ROUNDING = 1e-10
# Standard errors below this share of the largest estimate are its rounding.
_EXACT = 1e-13
# Variances so many times apart are projected without mixing them.
_FAR_APART = 1e6


class CentredInfluence(Protocol):
    """Influence values as covariances want them: of scores, of their projections, of several estimates at once."""

    @property
    def centred(self) -> FloatArray:
        """phi, (n, d), with mean zero."""
        ...

    @property
    def centred_correction(self) -> FloatArray:
        """Corrections by block, (q, d), with mean zero."""
        ...

    @property
    def block_context(self) -> IntArray:
        """Context of each block, (q,)."""
        ...


class CentredSums(Protocol):
    """Sums of influence values as covariances want them, whether the values are held by context or by group."""

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        ...

    def second_moment(self) -> FloatArray:
        """Sum of phi phi' over all contexts, (d, d)."""
        ...

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Sums of phi over units of contexts, (u, d), for the unit of each context, (n,)."""
        ...

    def by_context(self) -> CentredInfluence:
        """The same with the values of every context."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """Covariance of an estimate of d scores.

    Attributes
    ----------
    matrix : ndarray, shape (d, d)
    basis : ndarray, shape (d, r)
        Orthonormal columns that span what the functional leaves free; r is the structural rank.
    n_clusters : tuple of int
        Numbers of clusters, one per way; empty where contexts are independent.
    note : str
        What the reader has to know of how it was computed, or nothing.
    """

    matrix: FloatArray
    basis: FloatArray
    n_clusters: tuple[int, ...] = ()
    note: str = ""

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors, (d,)."""
        # Rounding can leave a variance of zero a hair below it.
        return np.sqrt(np.maximum(np.diag(self.matrix), 0.0))

    @property
    def reduced(self) -> FloatArray:
        """Covariance in the basis of what is free, (r, r)."""
        return self.basis.T @ self.matrix @ self.basis

    @property
    def factor(self) -> FloatArray:
        """A factor, (d, r), with factor factor' the covariance in what is free."""
        values, vectors = np.linalg.eigh(self.reduced)
        return np.asarray(self.basis @ (vectors * np.sqrt(np.maximum(values, 0.0))))

    def with_repetition_variance(self, estimates: FloatArray) -> Covariance:
        """With the uncertainty of a mean over R repetitions with other folds added, from their estimates, (R, d).

        The covariance of the averaged influence values plus the covariance of the repetitions' estimates over R: what
        another deal of folds would change is noise, too.
        """
        return replace(self, matrix=self.matrix + covariance_of_mean(estimates))

    def plus(self, hidden: FloatArray) -> Covariance:
        """With a covariance added, (d, d), that the influence values do not show."""
        return replace(self, matrix=_inside(self.matrix + hidden, self.basis))

    def without_rounding(self, estimate: FloatArray) -> Covariance:
        """The same where a variance that is the rounding of the estimate, (d,), is zero, with its covariances."""
        smallest = np.square(_EXACT * np.abs(estimate).max(initial=0.0))
        constant = ~(np.diag(self.matrix) > smallest)
        if not constant.any():
            return self
        matrix = self.matrix.copy()
        matrix[constant] = matrix[:, constant] = 0.0
        return replace(self, matrix=matrix)

    def at_least(self, variance_correction: FloatArray) -> Covariance:
        """The larger, direction by direction, of this covariance and the one with the correction, (d, d), added.

        Both estimate the same thing. The sum corrects what a shrunken mu leaves out, but overshoots where mu is
        extreme; as a difference it leaves what votes on the same prompt share counted. Directions are those in which
        the two are proportional.
        """
        root = _root(self.reduced)
        if root is None:
            return self
        back = np.linalg.inv(root)
        moved = back @ self.basis.T @ variance_correction @ self.basis @ back.T
        gains, directions = np.linalg.eigh((moved + moved.T) / 2)
        sides = root @ (directions * np.sqrt(np.maximum(gains, 0.0)))
        return replace(self, matrix=_inside(self.matrix + self.basis @ (sides @ sides.T) @ self.basis.T, self.basis))

    def at_most(self, other: FloatArray) -> Covariance:
        """The smaller, direction by direction, of this covariance and another one, (d, d), of the same estimate.

        For two covariances that are both too large, if anything. Directions are those in which the two are
        proportional; the result exceeds neither in any of them.

        Examples
        --------
        >>> wide, narrow = np.diag([4.0, 1.0]), np.diag([1.0, 3.0])
        >>> np.diag(Covariance(wide, np.eye(2)).at_most(narrow).matrix).round(9).tolist()
        [1.0, 1.0]
        """
        root = _root(self.reduced)
        if root is None:
            return self
        back = np.linalg.inv(root)
        ratio = back @ self.basis.T @ other @ self.basis @ back.T
        ratios, directions = np.linalg.eigh((ratio + ratio.T) / 2)
        sides = root @ (directions * np.sqrt(np.clip(ratios, 0.0, 1.0)))
        return replace(self, matrix=_inside(self.basis @ (sides @ sides.T) @ self.basis.T, self.basis))


def clip_to_limits(
    estimate: FloatArray, covariance: Covariance, limits: tuple[float, float]
) -> tuple[FloatArray, Covariance]:
    """Estimates, (d,), moved to the limits that they cannot exceed, and their covariance with the moves' products.

    How far an estimate stands outside is known to be error: the standard error is never below it.

    Examples
    --------
    >>> share, covariance = clip_to_limits(np.array([1.5]), Covariance(np.array([[0.0]]), np.eye(1)), (0.0, 1.0))
    >>> float(share[0]), float(covariance.std_errors[0])
    (1.0, 0.5)
    """
    inside = np.clip(estimate, *limits)
    moved = estimate - inside
    if not moved.any():
        return estimate, covariance
    return inside, replace(covariance, matrix=covariance.matrix + np.outer(moved, moved))


def covariance_of_mean(estimates: FloatArray) -> FloatArray:
    """Covariance, (d, d), of the mean of R independent estimates, (R, d); zero where there is one.

    Examples
    --------
    >>> covariance_of_mean(np.array([[0.0], [2.0]]))
    array([[1.]])
    """
    if len(estimates) == 1:
        return np.zeros((estimates.shape[1], estimates.shape[1]))
    deviation = estimates - estimates.mean(axis=0)
    return np.asarray(deviation.T @ deviation / (len(deviation) - 1) / len(deviation))


def _root(matrix: FloatArray) -> FloatArray | None:
    """A square root of a positive definite matrix, None for others."""
    spectrum, axes = np.linalg.eigh(matrix)
    if not len(spectrum) or spectrum[0] <= 1e-12 * spectrum[-1]:
        return None
    return np.asarray(axes * np.sqrt(spectrum))


def free_basis(gauge: FloatArray, n_scores: int) -> FloatArray:
    """Orthonormal columns, (d, r), orthogonal to the gauge's rows, (g, d).

    Examples
    --------
    >>> free_basis(np.array([[1.0, 1.0]]) / np.sqrt(2), 2).shape
    (2, 1)
    """
    return np.linalg.qr(np.vstack([gauge, np.eye(n_scores)]).T)[0][:, len(gauge) : n_scores]


def find_constant_combination(covariance: Covariance) -> FloatArray | None:
    """A combination of scores, (d,), that does not vary although the functional leaves it free; None without one.

    Numerical rank is read off correlations, whose zeros are rounding, far below a tenth of a millionth. Scores without
    any variance are left out: they show by themselves.
    """
    errors = covariance.std_errors
    varying = np.flatnonzero(errors > 0)
    known = len(errors) - covariance.basis.shape[1]
    if len(varying) < 2 or known >= len(varying):
        return None
    scaled = covariance.matrix[np.ix_(varying, varying)] / np.outer(errors[varying], errors[varying])
    spectrum, axes = np.linalg.eigh(scaled)
    null = spectrum < _ROUNDING * len(varying)
    if null.sum() <= known:
        return None
    # Of what does not vary, the part that is not a known constant.
    found = np.zeros((len(errors), int(null.sum())))
    found[varying] = axes[:, null] / errors[varying, None]
    found = covariance.basis @ (covariance.basis.T @ found)
    largest = found[:, np.argmax(np.square(found).sum(axis=0))]
    return np.asarray(largest / np.abs(largest).max())


def robust(influence: CentredSums, gauge: FloatArray) -> Covariance:
    """Contexts are independent: the mean of phi phi', divided by n [P app:cis]."""
    return _structured(influence.second_moment() / influence.n_contexts**2, gauge)


def one_way(influence: CentredSums, group: IntArray, gauge: FloatArray) -> Covariance:
    """Groups of contexts are independent: sums of phi by group, with the factor G / (G - 1).

    Parameters
    ----------
    influence : CentredSums
    group : ndarray of int, shape (n,)
        Group of each context.
    gauge : ndarray, shape (g, d)
    """
    n_groups = _count_clusters([group])[0]
    total = influence.sums_by(group)
    matrix = total.T @ total * n_groups / (n_groups - 1) / influence.n_contexts**2
    return _structured(matrix, gauge, (n_groups,))


def cluster_sums(influence: CentredInfluence, group: IntArray | None) -> tuple[FloatArray, float]:
    """What each context, or group of contexts, adds to the error of the estimate, (g, d), and the small-sample factor.

    The factor times ``rows.T @ rows`` is the covariance of :func:`robust`, or of :func:`one_way`.
    """
    phi = influence.centred
    if group is None:
        return phi / len(phi), 1.0
    names, group = np.unique(group, return_inverse=True)
    return unit_sums(phi, group) / len(phi), len(names) / (len(names) - 1)


def two_way(influence: CentredInfluence, prompt: IntArray, annotator: IntArray, gauge: FloatArray) -> Covariance:
    """Prompts and annotators, crossed: V_prompt + V_annotator - V_cell, from the blocks of the influence.

    What a context says without labels, F(mu(x)) - theta, belongs to its prompt alone; a correction belongs to its
    prompt and its annotator. Corrections are centred before they are added up: their mean is minus the bias of F(mu),
    and what all annotators share is no covariance between prompts. Where the difference is not positive semidefinite
    in what the functional leaves free, nothing is subtracted, which is conservative, and the note says so.

    Parameters
    ----------
    influence : CentredInfluence
        With one block per context and annotator.
    prompt : ndarray of int, shape (n,)
        Prompt of each context: the context itself or something coarser.
    annotator : ndarray of int, shape (q,)
        Annotator of each block, -1 where the block is empty.
    gauge : ndarray, shape (g, d)

    References
    ----------
    Cameron, Gelbach and Miller (2011), Robust inference with multiway clustering.
    """
    labelled = annotator >= 0
    blocks, annotator = influence.centred_correction[labelled], annotator[labelled]
    block_prompt = prompt[influence.block_context[labelled]]
    return _crossed(
        influence.centred, prompt, blocks=blocks, block_first=block_prompt, block_second=annotator, gauge=gauge
    )


def two_way_contexts(influence: CentredInfluence, first: IntArray, second: IntArray, gauge: FloatArray) -> Covariance:
    """Two groupings of contexts, crossed: V_first + V_second - V_cell, from the sums of phi.

    Parameters
    ----------
    influence : CentredInfluence
    first, second : ndarray of int, shape (n,)
    gauge : ndarray, shape (g, d)
    """
    phi = influence.centred
    return _crossed(phi, first, blocks=phi, block_first=first, block_second=second, gauge=gauge)


def _crossed(
    phi: FloatArray,
    first: IntArray,
    *,
    blocks: FloatArray,
    block_first: IntArray,
    block_second: IntArray,
    gauge: FloatArray,
) -> Covariance:
    counts = _count_clusters([first, block_second])
    both = np.unique(block_first * (block_second.max() + 1) + block_second, return_inverse=True)[1]
    added = _by_group(phi, first) + _by_group(blocks, block_second)
    matrix = added - _by_group(blocks, both)
    basis = free_basis(gauge, len(matrix))
    spectrum = np.linalg.eigvalsh(basis.T @ matrix @ basis)
    note = ""
    if spectrum[0] < -1e-10 * max(spectrum[-1], 0.0):
        matrix = added
        note = "two-way covariance not positive semidefinite: the overlap is not subtracted (conservative)"
    fewest = min(counts)
    return _structured(matrix * fewest / (fewest - 1) / len(phi) ** 2, gauge, counts, note)


def _by_group(rows: FloatArray, group: IntArray) -> FloatArray:
    total = unit_sums(rows, group)
    return total.T @ total


def _count_clusters(groups: list[NDArray[np.intp]]) -> tuple[int, ...]:
    counts = tuple(len(np.unique(group)) for group in groups)
    if min(counts) < 2:
        raise DataError("clustered standard errors need at least two clusters; the grouping column has one value")
    if min(counts) < _FEW_CLUSTERS:
        hint = "; bootstrap='webb' in conf_int, t_test_pairwise and ranks allows for it" if len(groups) == 1 else ""
        warn(
            f"only {min(counts)} clusters: clustered standard errors are too small on average below {_FEW_CLUSTERS}"
            f"{hint}",
            stacklevel=6,
            kind=IntervalWarning,
        )
    return counts


def _structured(matrix: FloatArray, gauge: FloatArray, n_clusters: tuple[int, ...] = (), note: str = "") -> Covariance:
    basis = free_basis(gauge, len(matrix))
    return Covariance(_inside(matrix, basis), basis, n_clusters, note)


def _inside_by_parts(matrix: FloatArray, basis: FloatArray) -> FloatArray:
    """The same for variances far apart: of what stands in fixed directions only what exceeds rounding is removed.

    Sums over a row mix scores, and the rounding of a huge variance is far above a small one.
    """
    outside = free_basis(basis.T, len(matrix)) if basis.shape[1] < len(matrix) else np.empty((len(matrix), 0))
    leak, size = outside.T @ matrix, np.abs(outside).T @ np.abs(matrix)
    leak = np.where(np.abs(leak) > _ROUNDING * size, leak, 0.0)
    both, size = leak @ outside, size @ np.abs(outside)
    both = np.where(np.abs(both) > _ROUNDING * size, both, 0.0)
    crossed = outside @ leak
    return np.asarray(matrix - crossed - crossed.T + outside @ both @ outside.T)


def _inside(matrix: FloatArray, basis: FloatArray) -> FloatArray:
    """Remove what rounding put into directions that the functional fixes."""
    variances = np.diag(matrix)
    if variances.max(initial=0.0) > _FAR_APART * variances[variances > 0].min(initial=np.inf):
        inside = _inside_by_parts(matrix, basis)
    else:
        inside = basis @ (basis.T @ matrix @ basis) @ basis.T
    fixed = np.square(basis).sum(axis=1) < 1e-9
    inside[fixed] = inside[:, fixed] = 0.0
    return np.asarray((inside + inside.T) / 2)

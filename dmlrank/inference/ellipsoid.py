"""Joint confidence ellipsoids, in the directions that the functional leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2

from ..exceptions import HypothesisError, listed
from .covariance import Covariance, FloatArray

# Directions of a selection whose variance is below this share of the largest are fixed by the functional.
_FIXED = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """The points theta with (theta - center)' cov^- (theta - center) <= radius2, where only free directions count.

    Attributes
    ----------
    models : tuple of str
        The d scores it is about.
    center : ndarray, shape (d,)
    cov : ndarray, shape (d, d)
    basis : ndarray, shape (d, df)
        Orthonormal columns that span the free directions.
    radius2 : float
        The chi-squared quantile with ``df`` degrees of freedom.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P eq:ci_ellipsoid]; the inverse in the paper does not exist for scores that add
    up to a constant, hence the reduced basis.
    """

    models: tuple[str, ...]
    center: FloatArray
    cov: FloatArray
    basis: FloatArray
    radius2: float

    @property
    def df(self) -> int:
        """Degrees of freedom: the structural rank."""
        return self.basis.shape[1]

    @property
    def volume(self) -> float:
        """Its df-dimensional volume."""
        determinant = np.linalg.slogdet(self._reduced)[1]
        ball = self.df / 2 * np.log(np.pi) - gammaln(self.df / 2 + 1)
        return float(np.exp(ball + self.df / 2 * np.log(self.radius2) + determinant / 2))

    def contains(self, theta: Sequence[float] | FloatArray) -> bool:
        """Whether the point lies inside.

        Parameters
        ----------
        theta : array_like, shape (d,)
            Scores in the order of ``models``.

        Raises
        ------
        HypothesisError
            If it has another length, or contradicts what the functional fixes (such as a sum of zero).
        """
        point = np.asarray(theta, dtype=float)
        if point.shape != self.center.shape or not np.isfinite(point).all():
            raise HypothesisError(
                f"needed are {len(self.center)} finite numbers, for {listed(self.models)}; got {theta}"
            )
        away = point - self.center
        inside = self.basis @ (self.basis.T @ away)
        if np.abs(away - inside).max() > 1e-6 * max(1.0, np.abs(point).max()):
            raise HypothesisError(
                "the point contradicts what the functional fixes: these scores satisfy a linear constraint "
                f"(their weighted sum is constant), and the point misses it by {np.abs(away - inside).max():.3g}"
            )
        coordinates = self.basis.T @ away
        return bool(coordinates @ np.linalg.solve(self._reduced, coordinates) <= self.radius2)

    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Half-lengths, (df,), the longest first, and directions, (d, df), of the principal axes."""
        values, vectors = np.linalg.eigh(self._reduced)
        return np.sqrt(self.radius2 * values[::-1]), self.basis @ vectors[:, ::-1]

    @property
    def _reduced(self) -> FloatArray:
        return self.basis.T @ self.cov @ self.basis


def confidence_ellipsoid(
    estimate: FloatArray, covariance: Covariance, models: Sequence[str], selected: Sequence[int], alpha: float
) -> Ellipsoid:
    """The joint region of the selected scores.

    Parameters
    ----------
    estimate : ndarray, shape (d,)
    covariance : Covariance
        Of all d scores.
    models : sequence of str
        Their names.
    selected : sequence of int
        Which of them the region is about.
    alpha : float
        One minus the level.

    Raises
    ------
    HypothesisError
        If the selected scores are all fixed by the functional, or do not vary in the data.
    """
    chosen = list(selected)
    names = tuple(models[j] for j in chosen)
    left, sizes, _ = np.linalg.svd(covariance.basis[chosen], full_matrices=False)
    basis = left[:, sizes > _FIXED]
    cov = covariance.matrix[np.ix_(chosen, chosen)]
    if basis.shape[1] == 0:
        raise HypothesisError(f"{listed(names)}: the functional fixes these scores, so there is no region to draw")
    spectrum = np.linalg.eigvalsh(basis.T @ cov @ basis)
    if spectrum[0] <= 1e-14 * spectrum[-1] or spectrum[-1] <= 0:
        raise HypothesisError(f"{listed(names)}: some combination of these scores does not vary in the data")
    return Ellipsoid(names, estimate[chosen], cov, basis, float(chi2.ppf(1 - alpha, basis.shape[1])))

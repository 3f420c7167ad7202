"""Joint confidence ellipsoids, in the directions that the functional leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln
from scipy.stats import chi2

from ..data.hypotheses import LinearHypothesis
from ..exceptions import HypothesisError, OptionError, listed
from ..plotting.regions import ellipse_plot
from .covariance import FloatArray
from .wald import NamedEstimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Directions of a selection whose variance is below this share of the largest are fixed by the functional.
_FIXED = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """The points theta with (theta - center)' cov^- (theta - center) <= radius2, where only free directions count.

    Attributes
    ----------
    models : tuple of str
        The d scores it is about, or the contrasts of scores.
    center : ndarray, shape (d,)
    cov : ndarray, shape (d, d)
    basis : ndarray, shape (d, df)
        Orthonormal columns that span the free directions.
    radius2 : float
        The chi-squared quantile with ``df`` degrees of freedom.
    scores : bool
        Whether it is about scores, not about contrasts of them.

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
    scores: bool = True

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

    def outline(self, n_points: int = 200) -> FloatArray:
        """Points on the surface of the region of a pair, (n, 2); its two ends where only one direction is free.

        Raises
        ------
        OptionError
            If the region is not about two scores or contrasts.
        """
        if len(self.models) != 2:
            raise OptionError(
                f"a region of {len(self.models)} scores has no outline in the plane; ask for two, "
                f"such as ellipsoid(models=[{listed(self.models, 2)}])"
                if len(self.models) > 2
                else f"a region of {listed(self.models)} alone is an interval; ask for two scores"
            )
        lengths, directions = self.axes()
        turn = np.linspace(0, 2 * np.pi, n_points)
        circle = np.stack([np.cos(turn), np.sin(turn)]) if self.df == 2 else np.array([[-1.0, 1.0]])
        return self.center + ((directions * lengths) @ circle).T

    def plot(self, ax: Axes | None = None) -> Axes:
        """The region of a pair with its centre; needs matplotlib.

        Dashed are equal scores, or contrasts of zero: a region that misses the line, or the point, tells them apart.

        Raises
        ------
        OptionError
            If the region is not about two scores or contrasts.
        MissingExtraError
            If matplotlib is not installed.
        """
        title = f"{100 * chi2.cdf(self.radius2, self.df):.4g} % region, {self.df} degrees of freedom"
        return ellipse_plot(self.outline(), self.center, self.models, scores=self.scores, title=title, ax=ax)

    @property
    def _reduced(self) -> FloatArray:
        return self.basis.T @ self.cov @ self.basis


def confidence_ellipsoid(
    estimates: NamedEstimates, contrasts: LinearHypothesis, alpha: float, *, scores: bool = False
) -> Ellipsoid:
    """The joint region of d linear combinations of scores, less their hypothetical values.

    Parameters
    ----------
    estimates : NamedEstimates
        Of all K scores.
    contrasts : LinearHypothesis
        Matrix (d, K): rows of the unit matrix for scores themselves.
    alpha : float
        One minus the level.
    scores : bool
        Whether the combinations are scores themselves.

    Raises
    ------
    HypothesisError
        If the combinations are all fixed by the functional, or do not vary in the data.
    """
    covariance, matrix, about = estimates.covariance, contrasts.matrix, listed(contrasts.labels)
    left, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=False)
    basis = left[:, sizes > _FIXED * np.linalg.norm(matrix, axis=1).max()]
    cov = matrix @ covariance.matrix @ matrix.T
    if basis.shape[1] == 0:
        raise HypothesisError(f"{about}: fixed whatever the data say, so there is no region: {estimates.reason}")
    spectrum = np.linalg.eigvalsh(basis.T @ cov @ basis)
    if spectrum[0] <= 1e-14 * spectrum[-1] or spectrum[-1] <= 0:
        raise HypothesisError(f"{about}: some combination of these scores does not vary in the data")
    center = matrix @ estimates.estimate - contrasts.value
    return Ellipsoid(contrasts.labels, center, cov, basis, float(chi2.ppf(1 - alpha, basis.shape[1])), scores)

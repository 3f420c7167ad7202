"""Joint confidence regions of several scores: ellipsoids in the directions that the functional leaves free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from .._utils.argument_checks import array_of_numbers
from .._utils.computation import one_thread
from .._utils.number_text import decimals, fewest_decimals, fixed_text
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, OptionError, listed, shown
from ..inference.confidence_sequence import ConfidenceSequence
from ..inference.wald import NamedEstimates
from ..plotting.intervals import ellipse_plot
from ..tables.summary_table import Summary
from .requirements import TitledTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A direction counts as fixed by the functional where its free part is below this share of the longest contrast.
_FIXED_BELOW = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid(TitledTable):
    """Joint confidence region: the points theta with (theta - center)' cov^- (theta - center) <= radius2.

    The functional may fix directions, such as the sum of the scores; the region extends in the free directions only.

    Attributes
    ----------
    models : tuple of str
        Names of the d scores, or labels of the d contrasts of scores.
    center : ndarray, shape (d,)
        The estimates.
    cov : ndarray, shape (d, d)
        Covariance of the estimates.
    basis : ndarray, shape (d, df)
        Orthonormal columns that span the free directions.
    radius2 : float
        The chi-squared quantile with ``df`` degrees of freedom; larger where the region holds at all looks, and
        Hotelling's with fewer than 100 prompts or clusters.
    alpha : float
        One minus the level.
    scores : bool
        Whether the region is one of scores, not of contrasts of scores.
    is_natural : bool
        Whether the scores have the functional's own unit.
    sequence : ConfidenceSequence or None
        Where the region holds at all looks, what was fixed before the first look.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P eq:ci_ellipsoid]. The inverse in the paper does not exist for scores whose sum
    is constant; the region therefore uses the free directions.
    """

    models: tuple[str, ...]
    center: FloatArray
    cov: FloatArray
    basis: FloatArray
    radius2: float
    alpha: float = 0.05
    scores: bool = True
    is_natural: bool = True
    sequence: ConfidenceSequence | None = None

    @property
    def df(self) -> int:
        """Degrees of freedom: the structural rank."""
        return self.basis.shape[1]

    @property
    @one_thread()
    def volume(self) -> float:
        """Volume of the region in its df dimensions."""
        determinant = np.linalg.slogdet(self._reduced)[1]
        ball = self.df / 2 * np.log(np.pi) - gammaln(self.df / 2 + 1)
        return float(np.exp(ball + self.df / 2 * np.log(self.radius2) + determinant / 2))

    @one_thread()
    def contains(self, theta: Sequence[float] | FloatArray) -> bool:
        """Whether a point lies inside the region.

        Parameters
        ----------
        theta : array_like, shape (d,)
            Scores in the order of ``models``.

        Raises
        ------
        HypothesisError
            If the point has another length, or contradicts what the functional fixes (such as a sum of zero).
        """
        point = array_of_numbers(theta, 1)
        if point is None or point.shape != self.center.shape or not np.isfinite(point).all():
            raise HypothesisError(
                f"theta is {shown(theta)}; give {len(self.center)} finite numbers, for {listed(self.models)}"
            )
        from_center = point - self.center
        distance = np.abs(from_center - self.basis @ (self.basis.T @ from_center)).max()
        if distance > 1e-6 * max(1.0, np.abs(point).max()):
            raise HypothesisError(
                "the point contradicts what the functional fixes: a weighted sum of these scores is constant, and the "
                f"point is {distance:.3g} away from the points with this sum; give a point with the same weighted sum "
                f"as the estimates"
            )
        coordinates = self.basis.T @ from_center
        return bool(coordinates @ np.linalg.solve(self._reduced, coordinates) <= self.radius2)

    @one_thread()
    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Return half-lengths, (df,), and directions, (d, df), of the principal axes, the longest first."""
        values, vectors = np.linalg.eigh(self._reduced)
        return np.sqrt(self.radius2 * values[::-1]), self.basis @ vectors[:, ::-1]

    @one_thread()
    def outline(self, n_points: int = 200) -> FloatArray:
        """Return points on the boundary of a region of two scores, (n, 2).

        Where only one direction is free, the region is a line segment, and the points are its two ends.

        Parameters
        ----------
        n_points : int
            Number of points, n, where both directions are free.

        Raises
        ------
        OptionError
            If the region is not one of two scores or contrasts.
        """
        if len(self.models) != 2:
            raise OptionError(
                f"a region of {len(self.models)} scores has no outline in the plane, only one of two scores has; "
                f"ask for two, such as ellipsoid(models=[{listed(self.models, 2)}])"
                if len(self.models) > 2
                else f"a region of {listed(self.models)} alone is an interval, which has no outline; ask for two scores"
            )
        lengths, directions = self.axes()
        angle = np.linspace(0, 2 * np.pi, n_points)
        circle = np.stack([np.cos(angle), np.sin(angle)]) if self.df == 2 else np.array([[-1.0, 1.0]])
        return self.center + ((directions * lengths) @ circle).T

    def summary(self, title: str | None = None) -> Summary:
        std_errors = np.sqrt(np.maximum(np.diag(self.cov), 0.0))
        digits = decimals(std_errors, fewest=fewest_decimals(self.is_natural))
        reach, lengths = np.sqrt(self.radius2) * std_errors, self.axes()[0]
        numbers = np.column_stack([self.center, std_errors, self.center - reach, self.center + reach])
        rows = tuple(
            (name, *(fixed_text(number, digits) for number in row))
            for name, row in zip(self.models, numbers, strict=True)
        )
        noun = "score" if self.scores else "contrast"
        size = f"{len(rows)} {noun.title()}{'s' * (len(rows) != 1)}"
        header = (
            ("Level:", f"{self._level} %", "Degrees of freedom:", f"{self.df}"),
            ("Squared radius:", f"{self.radius2:.2f}", "Volume:", f"{self.volume:.3g}"),
            ("Longest half-axis:", f"{lengths[0]:.{digits}f}", "Shortest half-axis:", f"{lengths[-1]:.{digits}f}"),
        )
        note = (
            f"With {self._level} % confidence the region contains the true {noun}s jointly. Its ends are the smallest "
            f"and the largest value that each {noun} has in the region. Not every combination of values between the "
            f"ends lies in the region; contains() tells of a point."
        )
        columns = (("estimate", 1), ("std err", 1), ("[ends of the region]", 2))
        notes = (note,) if self.sequence is None else (note, self.sequence.promise)
        table = Summary(f"Joint Confidence Region of {size}", header, columns, rows, notes, noun)
        return table.with_title(title)

    @property
    def _level(self) -> str:
        """The level of confidence as a percentage."""
        return f"{100 * (1 - self.alpha):.4g}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a region of two scores with its centre, with matplotlib.

        Dashed lines mark equal scores, or contrasts of zero. Where the region does not touch the line of equal scores
        (or the point where both contrasts are zero), the data exclude it.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw in; new ones when None.

        Raises
        ------
        OptionError
            If the region is not one of two scores or contrasts.
        """
        title = f"{self._level} % region, {self.df} degree{'s' * (self.df != 1)} of freedom"
        title += "" if self.sequence is None else f"\n{self.sequence.clause}"
        return ellipse_plot(self.outline(), self.center, self.models, scores=self.scores, title=title, ax=ax)

    @property
    def _reduced(self) -> FloatArray:
        """Covariance in the free directions, (df, df)."""
        return self.basis.T @ self.cov @ self.basis


@one_thread()
def confidence_ellipsoid(
    estimates: NamedEstimates,
    contrasts: LinearHypothesis,
    alpha: float,
    *,
    scores: bool = False,
    is_natural: bool = True,
) -> Ellipsoid:
    """Compute the joint confidence region of d linear combinations of scores, less their hypothetical values."""
    covariance, matrix, about = estimates.covariance.widened, contrasts.matrix, listed(contrasts.labels)
    left_vectors, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=False)
    basis = left_vectors[:, sizes > _FIXED_BELOW * np.linalg.norm(matrix, axis=1).max()]
    cov = matrix @ covariance.matrix @ matrix.T
    if basis.shape[1] == 0:
        raise HypothesisError(
            f"there is no region of {about}, because the functional fixes the values whatever the data say: "
            f"{estimates.reason}. Ask for scores or contrasts that the functional leaves free"
        )
    spectrum = np.linalg.eigvalsh(basis.T @ cov @ basis)
    if spectrum[0] <= 1e-14 * spectrum[-1] or spectrum[-1] <= 0:
        raise HypothesisError(
            f"some combination of {about} does not vary in the data, so that there is no joint region; leave one of "
            f"them out"
        )
    center, df, sequence = matrix @ estimates.estimate - contrasts.value, basis.shape[1], estimates.sequence
    radius2 = float(covariance.wald_law(df).ppf(1 - alpha))
    if sequence is not None:
        radius2 = sequence.boundary(1, df).squared_radius(sequence.alpha, df)
    return Ellipsoid(contrasts.labels, center, cov, basis, radius2, alpha, scores, is_natural, sequence)

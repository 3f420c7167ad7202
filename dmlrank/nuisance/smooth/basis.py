"""Smooth columns of the context features: penalised splines in coordinates in which a ridge is a smoothness penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.interpolate import BSpline

from ..._utils.blas import product, transposed_product
from ...data.preferences import FloatArray, IntArray

# Knots per continuous feature, both ends included: curves with a bump or two, as prompts' effects have.
_KNOTS = 6
_DEGREE = 3
# Columns of a spline beside its straight line.
CURVES = _KNOTS + _DEGREE - 3
# Columns up to which continuous features get splines, features up to which each gets a column of its own, and the
# number of principal components that stand for more features than that.
MOST_SPLINE_COLUMNS = 128
_MOST_FEATURES = 256
_COMPONENTS = 64
# Points at which curvature is integrated.
_GRID = 200
_TINY = 1e-8


class _Columns(Protocol):
    """Columns made of one feature."""

    @property
    def width(self) -> int: ...

    def of(self, feature: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """A feature centred and scaled, (n, 1)."""

    centre: float
    scale: float
    width: int = 1

    def of(self, feature: FloatArray) -> FloatArray:
        return ((feature - self.centre) / self.scale)[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class _Spline:
    """Orthonormal curves of a feature, ever less weight on the rougher ones, constant beyond the range seen."""

    knots: FloatArray
    mean: FloatArray
    rotation: FloatArray

    @property
    def width(self) -> int:
        return int(self.rotation.shape[1])

    def of(self, feature: FloatArray) -> FloatArray:
        return product(_b_splines(feature, self.knots) - self.mean, self.rotation)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothBasis:
    """Columns B(x), (n, q), of context features, (n, p), learnt from features alone.

    A feature with two values, or with too many others beside it, gives one standardised column. A continuous one gives
    a cubic spline basis in Demmler-Reinsch coordinates: orthonormal over the contexts, the straight line first, the
    rest scaled by the root of their curvature. A ridge penalty on these columns is the roughness penalty of a smoothing
    spline. Very many features are replaced by their leading principal components. A missing value is read as the mean
    and flagged by a column of its own.

    Attributes
    ----------
    columns : tuple
        One per feature that varies, with its place.
    centre : ndarray, shape (p,)
        What stands for a missing value.
    missing : ndarray of int, shape (m,)
        Features that have a flag for missing values.
    loadings : ndarray, shape (p, c), or None
        Principal components of the standardised features, where these are too many.

    References
    ----------
    Demmler and Reinsch (1975), Oscillation matrices with spline smoothing; Wood (2017), Generalized Additive Models.
    """

    columns: tuple[tuple[int, _Columns], ...]
    centre: FloatArray
    missing: tuple[int, ...]
    loadings: FloatArray | None = None

    @classmethod
    def learn(cls, x: FloatArray, features: IntArray | None = None) -> SmoothBasis:
        """Choose the columns for features ``x``, (n, p), or for some of them only.

        Examples
        --------
        >>> x = np.random.default_rng(0).uniform(size=(100, 2)); x[:, 1] = x[:, 1] > 0.5
        >>> SmoothBasis.learn(x).of(x).shape
        (100, 8)
        """
        used = np.arange(x.shape[1]) if features is None else features
        own = x if features is None else x[:, features]
        seen = np.isfinite(own)
        centre = np.where(seen, own, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        imputed = np.where(seen, own, centre)
        spread = imputed.std(axis=0)
        varying = np.flatnonzero(spread > _TINY * np.maximum(np.abs(centre), 1e-300))
        missing = tuple(int(f) for f in used[~seen.all(axis=0)])
        centres = np.zeros(x.shape[1])
        centres[used] = centre
        if len(varying) > _MOST_FEATURES:
            return cls((), centres, missing, _loadings(imputed, centre, spread, varying))
        low, high = imputed.min(axis=0), imputed.max(axis=0)
        between = ((imputed > low) & (imputed < high)).any(axis=0)
        curved = [f for f in varying if between[f]]
        smooth = len(varying) + CURVES * len(curved) <= MOST_SPLINE_COLUMNS
        columns: list[tuple[int, _Columns]] = []
        for f in varying:
            made = _spline(imputed[:, f]) if smooth and f in curved else None
            columns.append((int(used[f]), made or _Linear(float(centre[f]), float(spread[f]))))
        return cls(tuple(columns), centres, missing)

    @classmethod
    def joined(cls, parts: Sequence[SmoothBasis]) -> SmoothBasis:
        """The columns of several bases, each learnt from features of its own."""
        return cls(
            tuple(own for part in parts for own in part.columns),
            np.sum([part.centre for part in parts], axis=0),
            tuple(f for part in parts for f in part.missing),
        )

    @property
    def width(self) -> int:
        """Number of columns, q."""
        main = sum(c.width for _, c in self.columns) if self.loadings is None else self.loadings.shape[1]
        return main + len(self.missing)

    @property
    def straight(self) -> IntArray:
        """Features that have a straight line only, because curves for all would be too many columns."""
        lines = [f for f, columns in self.columns if isinstance(columns, _Linear)]
        return np.array(lines if len(lines) * (1 + CURVES) > MOST_SPLINE_COLUMNS else [], dtype=np.intp)

    def of(self, x: FloatArray) -> FloatArray:
        """Columns, (n, q), of features ``x``, (n, p)."""
        flags = ~np.isfinite(x[:, self.missing])
        return np.hstack([np.empty((len(x), 0)), *self._main(x), flags])

    def _main(self, x: FloatArray) -> list[FloatArray]:
        """Columns but for the flags of missing values."""
        if self.loadings is not None:
            return [product(np.where(np.isfinite(x), x, self.centre) - self.centre, self.loadings)]
        made = []
        for f, columns in self.columns:
            feature = x[:, f]
            made.append(columns.of(np.where(np.isfinite(feature), feature, self.centre[f])))
        return made


def _b_splines(feature: FloatArray, knots: FloatArray) -> FloatArray:
    inside = np.clip(feature, knots[0], knots[-1])
    return np.asarray(BSpline.design_matrix(inside, knots, _DEGREE).toarray())


def _spline(feature: FloatArray) -> _Spline | None:
    """Demmler-Reinsch columns of a feature; None where its values are too few for a curve."""
    # Quantiles of distinct values: a feature that is zero on most prompts still gets knots where it varies.
    values = np.unique(feature)
    inner = np.unique(np.quantile(values, np.linspace(0, 1, _KNOTS)))
    knots = np.concatenate([np.repeat(inner[0], _DEGREE), inner, np.repeat(inner[-1], _DEGREE)])
    design = _b_splines(feature, knots)
    mean = design.mean(axis=0)
    spectrum, axes = np.linalg.eigh(transposed_product(design - mean, design - mean) / len(design))
    kept = spectrum > _TINY * spectrum[-1]
    whitening = axes[:, kept] / np.sqrt(spectrum[kept])
    grid = np.linspace(inner[0], inner[-1], _GRID)
    bend = BSpline(knots, np.eye(len(mean)), _DEGREE).derivative(2)(grid)
    roughness, turn = np.linalg.eigh(whitening.T @ (bend.T @ bend) @ whitening)
    if len(roughness) < 2 or not roughness[1] > 0:
        return None
    # The straight line bends nowhere; it is penalised like the smoothest curve.
    weight = 1 / np.sqrt(np.maximum(roughness / roughness[1], 1.0))
    return _Spline(knots, mean, whitening @ turn * weight)


def _loadings(imputed: FloatArray, centre: FloatArray, spread: FloatArray, varying: IntArray) -> FloatArray:
    """What takes centred features to their leading principal components, standardised by the largest, (p, c)."""
    scaled = (imputed[:, varying] - centre[varying]) / spread[varying]
    values, axes = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    leading = slice(-1, -_COMPONENTS - 1, -1)
    loadings = np.zeros((len(centre), min(_COMPONENTS, len(varying))))
    loadings[varying] = axes[:, leading] / spread[varying, None] / np.sqrt(values[-1])
    return loadings

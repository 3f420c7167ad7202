"""Penalised smooth functions of the context features: splines in which a ridge penalises roughness, and the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import scipy

from .._utils.tasks_and_threads import product, rows_of_a_product, transposed_product
from ..data.arrays import AnyArray, BoolArray, FloatArray, IntArray, row_slices

# Knots of a continuous feature, including the two ends. They allow curves with one or two bumps.
_KNOTS = 6
_DEGREE = 3
# Columns of a spline besides its straight line.
CURVES = _KNOTS + _DEGREE - 3
# Continuous features get splines if all columns together do not exceed this number; otherwise they get straight lines.
MOST_SPLINE_COLUMNS = 128
# With more features than the first number, their leading principal components replace them; the second number says how
# many.
_MAX_FEATURES = 256
_N_COMPONENTS = 64
# Number of points at which the curvature is integrated.
_GRID = 200
# Blocks of a product for whose rows B-splines are computed at a time.
_SPLINE_ROWS = 16
# Largest numbers of entries of a design that is copied, in double and in single precision. Gathering takes 1.3 times as
# long as reading a copy in single precision, which has to be converted anyway, and 2 to 3 times in double precision.
_LARGEST_COPY, _LARGEST_SINGLE_COPY = 2**25, 2**22
# Relative size below which a standard deviation or an eigenvalue counts as zero.
_TINY = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """One column with the standardised feature; each value is transformed by itself, in blocks of one row."""

    centre: float
    scale: float
    width: int = 1
    rows_at_a_time: int = 1

    def of(self, feature: FloatArray) -> FloatArray:
        """Return the standardised feature, (n, 1)."""
        return ((feature - self.centre) / self.scale)[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class _Spline:
    """Orthogonal curves of a feature, constant beyond its range in the data; rougher curves have a smaller scale.

    mean (b,): Means of the B-splines in the data.
    rotation (b, q): Coefficients of the curves in the centred B-splines.
    rows_at_a_time: Number of values in a block of the product.
    """

    knots: FloatArray
    mean: FloatArray
    rotation: FloatArray
    width: int
    rows_at_a_time: int

    def of(self, feature: FloatArray) -> FloatArray:
        """Return the curves, (n, q), at the values of the feature, (n,)."""
        return product(_b_splines(feature, self.knots) - self.mean, self.rotation)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothBasis:
    """Columns B(x), (n, q), of context features x, (n, p), which are chosen without labels.

    A feature with two values gives one standardised column. A continuous feature gives the columns of a cubic spline in
    Demmler-Reinsch coordinates: the columns are orthogonal over the contexts, the straight line comes first, and each
    curve is divided by the root of its curvature. Therefore a ridge penalty on these columns is the roughness penalty
    of a smoothing spline. Where splines would give too many columns, every feature gives one standardised column
    instead. Where features are very many, their leading principal components replace them. A missing value counts as
    the mean of its feature, and a feature with missing values has a further column that indicates them.

    columns: For each feature that varies, its number and its columns.
    centre (p,): Means of the features, which replace missing values.
    missing: Numbers of the features that have missing values, and therefore a column that indicates these values.
    loadings (p, c): Principal components of the standardised features where features are very many, otherwise None.

    References
    ----------
    Demmler and Reinsch (1975), Oscillation matrices with spline smoothing; Wood (2017), Generalized Additive Models.
    """

    columns: tuple[tuple[int, _Linear | _Spline], ...]
    centre: FloatArray
    missing: tuple[int, ...]
    loadings: FloatArray | None = None

    @classmethod
    def learn(cls, x: FloatArray, features: IntArray | None = None) -> SmoothBasis:
        """Choose the columns for features, (n, p)."""
        used = np.arange(x.shape[1]) if features is None else features
        values = x if features is None else x[:, features]
        n_present = column_sums(values, np.isfinite)
        centre = column_sums(values, lambda rows: np.where(np.isfinite(rows), rows, 0.0)) / np.maximum(n_present, 1)
        mean = column_sums(values, lambda rows: _imputed(rows, centre)) / len(values)
        squares = column_sums(values, lambda rows: np.square(_imputed(rows, centre) - mean))
        scale = np.sqrt(squares / len(values))
        varying = np.flatnonzero(scale > _TINY * np.maximum(np.abs(centre), 1e-300))
        missing = tuple(int(f) for f in used[n_present < len(values)])
        centres = np.zeros(x.shape[1])
        centres[used] = centre
        if len(varying) > _MAX_FEATURES:
            moment = np.zeros((len(varying), len(varying)))
            for rows in row_slices(*values.shape):
                standardised = (_imputed(values[rows], centre)[:, varying] - centre[varying]) / scale[varying]
                moment += standardised.T @ standardised
            spectrum, axes = np.linalg.eigh(moment / len(values))
            # In units of the standard deviation of the first component.
            axes, deviation = axes[:, : -_N_COMPONENTS - 1 : -1], float(np.sqrt(spectrum[-1]))
            loadings = np.zeros((x.shape[1], axes.shape[1]))
            loadings[used[varying]] = axes / scale[varying, None] / deviation
            return cls((), centres, missing, loadings)
        has_middle_values = _has_middle_values(values, centre)
        continuous = [f for f in varying if has_middle_values[f]]
        use_splines = len(varying) + CURVES * len(continuous) <= MOST_SPLINE_COLUMNS
        columns = list[tuple[int, _Linear | _Spline]]()
        for f in varying:
            spline = _fit_spline(_imputed(values[:, f], centre[f])) if use_splines and f in continuous else None
            columns.append((int(used[f]), spline or _Linear(float(centre[f]), float(scale[f]))))
        return cls(tuple(columns), centres, missing)

    @classmethod
    def joined(cls, parts: Sequence[SmoothBasis]) -> SmoothBasis:
        """Return the basis with the columns of several bases, no two of which describe the same feature."""
        return cls(
            tuple(columns for part in parts for columns in part.columns),
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
        """Numbers of the features with a straight line, where splines of all these features would be too many columns.

        Empty where there would not be too many: then every other feature has its spline already, and the features with
        a straight line have too few distinct values for a curve.
        """
        lines = [f for f, columns in self.columns if isinstance(columns, _Linear)]
        return np.array(lines if len(lines) * (1 + CURVES) > MOST_SPLINE_COLUMNS else [], dtype=np.intp)

    def of(self, x: FloatArray) -> FloatArray:
        """Return the columns, (n, q), of features ``x``, (n, p), in single precision where these are in a file."""
        table = np.empty((len(x), self.width), np.float32 if isinstance(x, np.memmap) else float)
        at_a_time = [columns.rows_at_a_time for _, columns in self.columns]
        if self.loadings is not None:
            at_a_time.append(rows_of_a_product(self.loadings))
        for block in row_slices(len(x), max(x.shape[1], self.width), multiple_of=lcm(*at_a_time)):
            rows = x[block]
            if self.loadings is None:
                parts = [columns.of(_imputed(rows[:, f], self.centre[f])) for f, columns in self.columns]
            else:
                parts = [product(_imputed(rows, self.centre) - self.centre, self.loadings)]
            np.concatenate([*parts, ~np.isfinite(rows[:, self.missing])], axis=1, out=table[block])
        return table


def column_sums(matrix: FloatArray | Design, function: Callable[[FloatArray], AnyArray]) -> FloatArray:
    """Return the sums of the columns, (p,), of a function of a matrix's entries, (n, p), by chunks of rows.

    numpy adds up the rows of a matrix one after the other, so that several columns have the same sums in any chunks.
    """
    total = np.zeros(matrix.shape[1])
    for rows in row_slices(*matrix.shape):
        chunk = function(matrix[rows])
        total = np.add.reduce(np.vstack([total[None], chunk]) if rows.start else chunk, axis=0, dtype=float)
    return total


def with_constant(columns: FloatArray) -> FloatArray:
    """Return a matrix with a column of ones in front, in its precision."""
    design = np.ones((len(columns), 1 + columns.shape[1]), columns.dtype)
    design[:, 1:] = columns
    return design


class Design:
    """A constant and the smooth columns of r rows, (r, 1 + q): for each, a row of ``table``, (n, q), for its context.

    The rows of a large design are gathered anew for every slice, because a copy for every vote would be the largest
    array of a fit.
    """

    def __init__(self, table: FloatArray, context: IntArray) -> None:
        self.table, self.context = table, context
        self.shape = len(context), 1 + table.shape[1]
        largest = _LARGEST_COPY if table.dtype == float else _LARGEST_SINGLE_COPY
        self._copy = with_constant(table[context]) if len(context) * self.shape[1] <= largest else None

    def __getitem__(self, rows: slice) -> FloatArray:
        return with_constant(self.table[self.context[rows]]) if self._copy is None else self._copy[rows]


def _imputed(values: FloatArray, centre: FloatArray | float) -> FloatArray:
    """Return features in double precision, with missing values replaced by their means."""
    return np.where(np.isfinite(values), values, centre)


def _has_middle_values(values: FloatArray, centre: FloatArray) -> BoolArray:
    """Return whether each feature has values between its smallest and its largest one, (p,)."""
    chunks = list(row_slices(*values.shape))
    low = np.min([_imputed(values[rows], centre).min(axis=0) for rows in chunks], axis=0)
    high = np.max([_imputed(values[rows], centre).max(axis=0) for rows in chunks], axis=0)
    is_middle = np.zeros(values.shape[1], dtype=bool)
    for rows in chunks:
        imputed = _imputed(values[rows], centre)
        is_middle |= ((imputed > low) & (imputed < high)).any(axis=0)
    return is_middle


def _b_splines(feature: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the B-splines, (n, b), at the values of a feature, (n,), which are clipped to the range of the knots."""
    inside = np.clip(feature, knots[0], knots[-1])
    return np.asarray(scipy.interpolate.BSpline.design_matrix(inside, knots, _DEGREE).toarray())


def _fit_spline(feature: FloatArray) -> _Spline | None:
    """Return the Demmler-Reinsch columns of a feature; None where it has too few distinct values for a curve."""
    # Knots at quantiles of the distinct values: a feature that is zero on most prompts gets knots where it varies.
    values = np.unique(feature)
    inner = np.unique(np.quantile(values, np.linspace(0, 1, _KNOTS)))
    knots = np.concatenate([np.repeat(inner[0], _DEGREE), inner, np.repeat(inner[-1], _DEGREE)])
    # The sums and the moment of the B-splines; few values have one design, which is computed once.
    n, width = len(feature), len(knots) - _DEGREE - 1
    step = _SPLINE_ROWS * rows_of_a_product(np.empty((width, width)))
    total, moment = np.zeros(width), np.zeros((width, width))
    designs = [_b_splines(feature[:step], knots)]
    for start in range(0, n, step):
        design = _b_splines(feature[start : start + step], knots) if start else designs[0]
        total = np.add.reduce(np.vstack([total[None], design]), axis=0)
    for start in range(0, n, step):
        design = _b_splines(feature[start : start + step], knots) if start else designs[0]
        centred = design - total / n
        # Of an array with itself, the linear algebra library computes a product by another algorithm.
        moment = transposed_product(centred, centred.copy(), start=moment)
    spectrum, axes = np.linalg.eigh(moment / n)
    is_positive = spectrum > _TINY * spectrum[-1]
    whitening = axes[:, is_positive] / np.sqrt(spectrum[is_positive])
    grid = np.linspace(inner[0], inner[-1], _GRID)
    bend = scipy.interpolate.BSpline(knots, np.eye(width), _DEGREE).derivative(2)(grid)
    roughness, rotation = np.linalg.eigh(whitening.T @ (bend.T @ bend) @ whitening)
    if len(roughness) < 2 or not roughness[1] > 0:
        return None
    # The straight line has no curvature; it is penalised like the smoothest curve.
    scale = 1 / np.sqrt(np.maximum(roughness / roughness[1], 1.0))
    coefficients = whitening @ rotation * scale
    return _Spline(knots, total / n, coefficients, coefficients.shape[1], rows_of_a_product(coefficients))


# Number of last steps, with the changes of the gradient along them, from which the inverse Hessian is estimated.
_MEMORY = 12
_MAX_STEPS = 200
# The slope promises a decrease of the function along a step. A step is halved until the function decreases by at least
# this share of the promise (Armijo condition) ...
_SUFFICIENT_SHARE = 1e-4
# ... or until the step has become shorter than this multiple of the first try.
_SHORTEST = 1e-10
# Typical second derivative of one vote's multinomial log-likelihood with respect to a score; it scales the steps.
MULTINOMIAL_CURVATURE = 0.15
# The search for the largest penalised log-likelihood ends where a further step promises a smaller increase than this,
# which changes no coefficient by a noticeable part of its standard error.
_TOLERANCE = 1e-3

Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
E = TypeVar("E")


class LBFGS:
    """A search for the minimum of a function by the limited-memory BFGS method, which can pause and go on.

    SciPy's L-BFGS-B cannot pause, as the selection of a ridge penalty does to see whether the ridge is worth further
    steps, and waits for the threads of BLAS: on the main effects of the simulated arena it evaluated the function as
    often and took 1.0 times as long with one BLAS thread, and 1.8 to 4.2 times as long with two.

    objective: Returns the value and the gradient. Coordinates should be scaled so that second derivatives are about
        one.
    start (d,): Where the search begins.
    tolerance: The search ends where a further step promises a smaller decrease than this.

    References
    ----------
    Nocedal and Wright (2006), Numerical Optimization, algorithms 7.4 and 3.1.
    """

    def __init__(self, objective: Objective, start: FloatArray, tolerance: float = _TOLERANCE) -> None:
        self._objective, self._tolerance = objective, tolerance
        self.best = start
        self._value, self._gradient = objective(start)
        self._steps: list[FloatArray] = []
        self._gradient_changes: list[FloatArray] = []
        self._steps_left = _MAX_STEPS

    def advance(self, n_steps: int | None = None) -> None:
        """Take at most ``n_steps`` further steps; when None, go on to the end of the search."""
        for _ in range(self._steps_left if n_steps is None else min(n_steps, self._steps_left)):
            direction = -self._inverse_hessian_times(self._gradient)
            slope = float((self._gradient * direction).sum())
            if -slope < self._tolerance:
                self._steps_left = 0
                return
            size = 1.0
            while True:
                point = self.best + size * direction
                value, gradient = self._objective(point)
                if value <= self._value + _SUFFICIENT_SHARE * size * slope or size < _SHORTEST:
                    break
                size /= 2
            step, change = point - self.best, gradient - self._gradient
            # A step along which the function curves downwards would make the estimated Hessian indefinite.
            if (step * change).sum() > 1e-10 * (change * change).sum():
                self._steps = [*self._steps, step][-_MEMORY:]
                self._gradient_changes = [*self._gradient_changes, change][-_MEMORY:]
            self.best, self._value, self._gradient = point, value, gradient
            self._steps_left -= 1

    def _inverse_hessian_times(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient, (d,), times the inverse Hessian that is estimated from the last steps."""
        steps, changes = self._steps, self._gradient_changes
        product, weights = gradient, []
        for step, change in zip(reversed(steps), reversed(changes), strict=True):
            weight = (step * product).sum() / (step * change).sum()
            product = product - weight * change
            weights.append(weight)
        if steps:
            product = product * ((steps[-1] * changes[-1]).sum() / (changes[-1] * changes[-1]).sum())
        for step, change, weight in zip(steps, changes, reversed(weights), strict=True):
            product = product + step * (weight - (change * product).sum() / (step * change).sum())
        return product


def minimise(objective: Objective, start: FloatArray, tolerance: float = _TOLERANCE) -> FloatArray:
    """Return the minimum of a function, (d,); see :class:`LBFGS` for the arguments."""
    search = LBFGS(objective, start, tolerance)
    search.advance()
    return search.best


class PenalisedLikelihood(Generic[E]):
    """The likelihood of labels as a function of effects in one flat vector, (d,), which a ridge penalises.

    penalty (d,): Penalty of every effect, as a multiple of the ridge.
    precision (d,): Approximate Fisher information of the labels about every effect. It only scales the steps of the
        search: in units of the standard errors, effects of items with few votes converge as fast as the others.
    is_free (d,): Whether an effect is fitted; an effect that is not fitted stays where the search begins. By default,
        all effects are.
    """

    penalty: FloatArray
    precision: FloatArray
    is_free: BoolArray | bool = True

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient."""
        raise NotImplementedError

    def effects(self, flat: FloatArray) -> E:
        """Return the effects whose coefficients stand in a flat vector."""
        raise NotImplementedError

    def fit(self, ridge: float, start: FloatArray | None = None, tolerance: float = _TOLERANCE) -> FloatArray:
        """Return the coefficients of the most likely effects under a ridge penalty, (d,)."""
        search = PenalisedSearch(self, ridge, start, tolerance)
        search.advance()
        return search.flat


class PenalisedSearch(LBFGS):
    """A search for the most likely effects under a ridge penalty, in steps of each coefficient's standard error.

    start (d,): Where the search begins, and where effects that are not free stay; zero when None.
    """

    def __init__(
        self,
        likelihood: PenalisedLikelihood[Any],
        ridge: float,
        start: FloatArray | None = None,
        tolerance: float = _TOLERANCE,
    ) -> None:
        penalty = ridge * likelihood.penalty
        step_scale = np.where(likelihood.is_free, 1 / np.sqrt(likelihood.precision + penalty), 0.0)
        begin = np.zeros(len(penalty)) if start is None else start

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            flat = begin + step_scale * steps
            value, gradient = likelihood.loss(flat)
            return value + float((penalty * flat**2).sum()) / 2, step_scale * (gradient + penalty * flat)

        self._begin, self._step_scale = begin, step_scale
        super().__init__(objective, np.zeros(len(penalty)), tolerance)

    @property
    def flat(self) -> FloatArray:
        """The best coefficients so far, (d,)."""
        return self._begin + self._step_scale * self.best

"""Covariance matrices of estimates, from influence values: of independent contexts, or of one or two clusterings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import block_diag

from .._utils.tasks_and_threads import warn
from ..data.preferences import FEW_CLUSTERS, FEW_EFFECTIVE, FloatArray, IntArray, few_prompts_advice
from ..estimation.influence import (
    CompressedInfluence,
    Influence,
    StackedInfluence,
    unit_sums,
)
from ..estimation.joint_influence import JointInfluence
from ..exceptions import DataError, IntervalWarning
from .score_limits import FEW_UNITS, CombinedMeans, ContrastLaw, ContrastMatrix, Sides, Tails, WaldLaw, WinShares

# Fewest clusters for which bootstrap('webb') is advised: with fewer, draws of six values are too few to tell.
FEWEST_FOR_WEBB = 5
WEBB_HINT = "; bootstrap('webb') of the result is a view whose intervals, tests and ranks allow for few clusters"
# Clusters count as uneven where their effective number is below this share of their number.
_UNEVEN = 0.75
# A variance within clusters below this share of its terms is a rounding error.
_ROUNDED = 1e-12
# Smallest share of the weight outside of a cluster by which its sum is corrected.
_SMALLEST_REST = 1e-6
# Results of sums and differences below this share of the summed numbers count as rounding errors.
_ROUNDING = 1e-10
# Standard errors below this share of the largest estimate count as rounding errors of the estimate.
_EXACT = 1e-13
# Largest ratio of the variances of two scores at which a covariance is projected on the free directions by plain matrix
# products. Beyond it, rounding errors of the largest variance would reach the size of the smallest one.
_MAX_RATIO = 1e6


# Influence values of every context, and those that may be stored by group of contexts.
CentredInfluence: TypeAlias = Influence | StackedInfluence
CentredSums: TypeAlias = CentredInfluence | CompressedInfluence | JointInfluence


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """Covariance of an estimate of d scores, with its structural rank.

    A functional may fix linear combinations of the scores, such as their sum (the gauge). The structural rank is the
    number of free directions.

    basis (d, r): Orthonormal columns that span the free directions; r is the structural rank.
    n_clusters: Number of clusters of each clustering; empty where contexts are independent.
    note: Remark for the reader about how the covariance was computed; may be empty.
    df: Degrees of freedom: effective independent units less one. Tests of one number are normal where these are many.
    means: What limits of means of scores need; None for other scores, whose limits are normal or Student's.
    scale: What standard errors are multiplied by in intervals and tests with few units, for clusters of unequal size.
    of_scores (d,): Degrees of freedom of each score with clusters, of which ``df`` is typical; None where all have df.
    shares: What limits of win shares need; None for other scores.
    """

    matrix: FloatArray
    basis: FloatArray
    n_clusters: tuple[int, ...] = ()
    note: str = ""
    df: float = np.inf
    means: CombinedMeans | None = None
    scale: float = 1.0
    of_scores: FloatArray | None = None
    shares: WinShares | None = None

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors, (d,)."""
        # Rounding can make a variance of zero slightly negative.
        return np.sqrt(np.maximum(np.diag(self.matrix), 0.0))

    @property
    def reduced(self) -> FloatArray:
        """Covariance in the free directions, (r, r)."""
        return self.basis.T @ self.matrix @ self.basis

    @property
    def factor(self) -> FloatArray:
        """A matrix, (d, r), whose product with its transpose is the covariance in the free directions."""
        return self.basis @ root_of(self.reduced)

    @property
    def widened(self) -> Covariance:
        """The covariance behind joint critical values, and joint tests: of means with one unseen unit."""
        return self if self.means is None else replace(self, matrix=self.matrix + self.means.own)

    def law(
        self, estimate: FloatArray, std_error: FloatArray | None = None, contrasts: ContrastMatrix | None = None
    ) -> ContrastLaw:
        """Return the law of contrasts, (J, d), or of all estimates: how their limits and z statistics are computed.

        Shapes: estimate, std_error (J,), of the contrasts.
        """
        std_error = self.std_errors if std_error is None else std_error
        sides: tuple[Sides, ...] = ()
        if self.shares is not None:
            shares = self.shares if contrasts is None else self.shares.combined(contrasts)
            sides = shares.sides(estimate, std_error)
        elif self.means is not None:
            fewest = min(self.n_clusters, default=np.inf)
            small_sample = fewest / (fewest - 1) if self.n_clusters else 1.0
            sides = self.means.sides(estimate, std_error, contrasts, small_sample)
        return ContrastLaw(estimate, std_error, sides, self.tails(contrasts), self.tails(of_typical=True))

    def scaled(self, factor: float, shift: float = 0.0) -> Covariance:
        """Return the covariance of the estimates times a factor, plus a shift."""
        means = None if self.means is None else replace(self.means, matrix=self.means.matrix * factor)
        shares = self.shares
        if shares is not None:
            shares = replace(shares, low=factor * shares.low + shift, high=factor * shares.high + shift)
        return replace(self, matrix=self.matrix * factor**2, means=means, shares=shares)

    def of_combinations(self, matrix: FloatArray) -> Covariance:
        """Return the covariance of J combinations of the estimates, (J, d); all of their directions count as free."""
        means = None if self.means is None else self.means.combined(matrix)
        shares = None if self.shares is None else self.shares.combined(matrix)
        covariance, basis = matrix @ self.matrix @ matrix.T, np.eye(len(matrix))
        made = replace(self, matrix=covariance, basis=basis, means=means, shares=shares)
        return made if self.of_scores is None else made.with_df(np.asarray(self._df(matrix)))

    def with_df(self, of_scores: FloatArray) -> Covariance:
        """Return the covariance with degrees of freedom of each score, (d,), and the typical ones for joint tests."""
        return replace(self, of_scores=of_scores, df=_typical(of_scores))

    def with_blocks(self, blocks: Sequence[Covariance], orders: Sequence[IntArray] | None = None) -> Covariance:
        """Return the covariance of several results, or groups, with what quantiles and limits of these need.

        ``orders``: See :meth:`CombinedMeans.side_by_side`.
        """
        each_has_all = all(block.of_scores is None for block in blocks)
        dfs = None if each_has_all else [np.broadcast_to(block._df(), len(block.matrix)) for block in blocks]
        means = [block.means for block in blocks if block.means is not None]
        shares = [block.shares for block in blocks if block.shares is not None]
        return replace(
            self,
            df=min(block.df for block in blocks),
            scale=max(block.scale for block in blocks),
            of_scores=None if dfs is None else np.concatenate(dfs),
            means=CombinedMeans.side_by_side(means, orders) if len(means) == len(blocks) else None,
            shares=WinShares.side_by_side(shares) if len(shares) == len(blocks) else None,
        )

    @property
    def normal(self) -> Covariance:
        """The covariance for methods that need no quantiles of Student's t."""
        shares = None if self.shares is None else replace(self.shares, df=np.inf)
        return replace(self, df=np.inf, of_scores=None, shares=shares)

    def _df(self, contrasts: ContrastMatrix | None = None, of_typical: bool = False) -> FloatArray | float:
        """Return the degrees of freedom of contrasts, (J, d), or of all estimates, (J,), or one number for all.

        Contributions of clusters to a contrast are a mixture of those to the scores. With shares w of the scores in
        sum c_j^2 V_jj, 1 / sqrt(df) is at most the mean of the scores' 1 / sqrt(df_j) with weights w
        (Cauchy-Schwarz), and equal to it where a cluster has the same part in all scores.
        """
        if of_typical or self.of_scores is None:
            return self.df if self.shares is None else max(self.df, self.shares.df)
        if contrasts is None:
            return self.of_scores
        squares, variance = contrasts**2, np.maximum(np.diag(self.matrix), 1e-300)
        return np.asarray(np.square((squares @ variance) / (squares @ (variance / np.sqrt(self.of_scores)))))

    def tails(self, contrasts: ContrastMatrix | None = None, *, of_typical: bool = False) -> Tails:
        """Return the tails of t statistics of contrasts, (J, d), or of all estimates, or of a typical one."""
        df = self._df(contrasts, of_typical)
        # Limits of means of scores know the number of prompts, and not that of clusters.
        return Tails() if self.means and not self.n_clusters else Tails(df, self._scale(df))

    @property
    def has_few_units(self) -> bool:
        """Whether units are so few that quantiles are Student's; limits of means know the number of prompts."""
        return bool(self.tails().few.any())

    def from_normal(self, z: float) -> float:
        """Return the number that a typical t statistic exceeds as often as a normal variable exceeds z, above zero."""
        return float(self.tails(of_typical=True).from_normal(z))

    def wald_law(self, rank: int) -> WaldLaw:
        """Return the law, one of scipy's, of Wald statistics of typical combinations: Hotelling's, or chi-squared.

        A Wald statistic needs many units for each of its restrictions: with 170 clusters and 33 restrictions, a test at
        5 % by chi-squared would reject in 27 % of normal data without differences.
        """
        if self.df + 1 >= FEW_UNITS * rank:
            return WaldLaw(rank)
        second = max(self.df - rank + 1, 1)
        return WaldLaw(rank, second, self._scale(self.df) ** 2 * rank * self.df / second)

    def _scale(self, df: FloatArray | float) -> float:
        # Where contexts are independent, the variance has the divisor n, and Student's t the divisor n - 1.
        return self.scale if self.n_clusters else float(np.sqrt(1 + 1 / df))

    def with_repetition_variance(self, estimates: FloatArray) -> Covariance:
        """Return this covariance plus that of the mean of R repetitions' estimates, (R, d), which differ in folds."""
        return replace(self, matrix=self.matrix + covariance_of_mean(estimates))

    def plus(self, addition: FloatArray) -> Covariance:
        """Return this covariance plus another one, (d, d), that the influence values do not contain."""
        return replace(self, matrix=_project_on_free(self.matrix + addition, self.basis))

    def without_rounding(self, estimate: FloatArray) -> Covariance:
        """Return this covariance with zeros for scores whose variance is only rounding of the estimate, (d,)."""
        smallest = np.square(_EXACT * np.abs(estimate).max(initial=0.0))
        constant = ~(np.diag(self.matrix) > smallest)
        if not constant.any():
            return self
        matrix = self.matrix.copy()
        matrix[constant] = matrix[:, constant] = 0.0
        return replace(self, matrix=matrix)

    def with_variance_correction(self, variance_correction: FloatArray) -> Covariance:
        """Return this covariance plus the positive part of a variance correction, (d, d).

        Scores that are no part of a fixed sum beside others that are, those of models apart, have a part of their own.
        """
        has_no_sum, increase = np.square(self.basis).sum(axis=1) > 1 - 1e-9, np.zeros_like(self.matrix)
        for of_part in [~has_no_sum, has_no_sum]:
            block, is_of_part = np.ix_(of_part, of_part), (np.abs(self.basis[~of_part]) < 1e-9).all(axis=0)
            part = Covariance(self.matrix[block], self.basis[of_part][:, is_of_part])
            of_block = part._in_own_units(variance_correction[block], lambda ratios: np.maximum(ratios, 0.0))
            increase[block] = 0.0 if of_block is None else of_block
        return self.plus(increase) if increase.any() else self

    def at_most(self, other: FloatArray) -> Covariance:
        """Return, direction by direction, the smaller of this covariance and another one, (d, d), of the same estimate.

        Both have to be conservative: neither may be smaller than the true one. On each axis of the generalised
        eigenvectors, which make both diagonal, the result has the smaller variance.
        """
        smaller = self._in_own_units(other, lambda ratios: np.clip(ratios, 0.0, 1.0))
        return self if smaller is None else replace(self, matrix=_project_on_free(smaller, self.basis))

    def at_least(self, other: FloatArray) -> Covariance:
        """Return, direction by direction, the larger of this covariance and another one, (d, d): see ``at_most``."""
        larger = self._in_own_units(other, lambda ratios: np.maximum(ratios, 1.0))
        return self if larger is None else replace(self, matrix=_project_on_free(larger, self.basis))

    def _in_own_units(self, other: FloatArray, change: Callable[[FloatArray], FloatArray]) -> FloatArray | None:
        """Return another matrix, (d, d), with changed variances on the axes of both, in units of this covariance."""
        root, inverse_root = _factor_and_inverse(self.reduced)
        if not root.shape[1]:
            return None
        relative = inverse_root @ self.basis.T @ other @ self.basis @ inverse_root.T
        ratios, directions = np.linalg.eigh((relative + relative.T) / 2)
        changed_root = root @ (directions * np.sqrt(change(ratios)))
        return np.asarray(self.basis @ (changed_root @ changed_root.T) @ self.basis.T)


def clip_to_limits(
    estimate: FloatArray, covariance: Covariance, limits: tuple[float, float]
) -> tuple[FloatArray, Covariance]:
    """Clip estimates, (d,), to the limits of the true values, and add the squared distances to the covariance."""
    # The distance is an error for certain, so that the standard error is never below it.
    clipped = np.clip(estimate, *limits)
    distance = estimate - clipped
    if not distance.any():
        return estimate, covariance
    return clipped, replace(covariance, matrix=covariance.matrix + np.outer(distance, distance))


def covariance_of_mean(estimates: FloatArray) -> FloatArray:
    """Return the covariance, (d, d), of the mean of R independent estimates, (R, d); zero where R is one."""
    if len(estimates) == 1:
        return np.zeros((estimates.shape[1], estimates.shape[1]))
    deviation = estimates - estimates.mean(axis=0)
    return np.asarray(deviation.T @ deviation / (len(deviation) - 1) / len(deviation))


def free_basis(gauge: FloatArray, n_scores: int) -> FloatArray:
    """Return orthonormal columns, (d, r), that are orthogonal to the rows of the gauge, (g, d)."""
    return np.linalg.qr(np.vstack([gauge, np.eye(n_scores)]).T)[0][:, len(gauge) : n_scores]


def _fixed_basis(basis: FloatArray) -> FloatArray:
    """Return orthonormal columns, (d, d - r), that are orthogonal to the columns of a basis, (d, r)."""
    # Cholesky's algorithm with pivots on 1 - basis basis' takes less time than a decomposition where few are fixed.
    fixed = np.zeros((len(basis), len(basis) - basis.shape[1]))
    left = 1 - np.square(basis).sum(axis=1)
    for number in range(fixed.shape[1]):
        pivot = int(left.argmax())
        column = -(basis @ basis[pivot]) - fixed @ fixed[pivot]
        column[pivot] += 1
        fixed[:, number] = column / np.sqrt(column[pivot])
        left -= np.square(fixed[:, number])
    return fixed


def find_constant_combination(covariance: Covariance) -> FloatArray | None:
    """Find a combination of scores, (d,), that does not vary although the functional leaves it free."""
    errors = covariance.std_errors
    varying = np.flatnonzero(errors > 0)
    n_fixed = len(errors) - covariance.basis.shape[1]
    if len(varying) < 2 or n_fixed >= len(varying):
        return None
    scaled = covariance.matrix[np.ix_(varying, varying)] / np.outer(errors[varying], errors[varying])
    spectrum, axes = np.linalg.eigh(scaled)
    null = spectrum < _ROUNDING * len(varying)
    if null.sum() <= n_fixed:
        return None
    # Of the combinations that do not vary, the part that the functional leaves free.
    constant = np.zeros((len(errors), int(null.sum())))
    constant[varying] = axes[:, null] / errors[varying, None]
    constant = covariance.basis @ (covariance.basis.T @ constant)
    largest = constant[:, np.argmax(np.square(constant).sum(axis=0))]
    return np.asarray(largest / largest[np.argmax(np.abs(largest))])


def robust(influence: CentredSums, gauge: FloatArray) -> Covariance:
    """Return the covariance where contexts are independent: the mean of phi phi', divided by n [P app:cis]."""
    matrix = influence.second_moment() / influence.n_contexts**2
    return replace(_with_free_directions(matrix, gauge), df=float(influence.n_contexts - 1))


def one_way(influence: CentredSums, group: IntArray, gauge: FloatArray) -> Covariance:
    """Return the covariance where G groups of contexts are independent: from sums of phi, times G / (G - 1).

    G / (G - 1) makes up for the part of its own error that a group does not show, because it has drawn the estimate to
    itself, where groups have one size. See :func:`_effective_df` for others.
    """
    counts = _count_clusters([group])
    total = influence.sums_by(group)
    matrix = total.T @ total * counts[0] / (counts[0] - 1) / influence.n_contexts**2
    df, scale = _effective_df(lambda power: total if power == 1 else influence.sums_by(group, power), counts[0])
    return replace(_with_free_directions(matrix, gauge, counts), scale=scale).with_df(df)


def _typical(df: FloatArray) -> float:
    """Return the degrees of freedom of joint tests: 1 / sqrt(df) is the mean of that of the combinations, (d,).

    The entries of a covariance of r standardised combinations vary in all as those of a Wishart matrix with df, where
    r (r + 1) / df = (sum 1 / sqrt(df_j))^2 + sum 1 / df_j at most; the mean of the roots is about the same.
    """
    return float(1 / np.square(np.mean(1 / np.sqrt(df)))) if len(df) else np.inf


def _effective_df(sums: Callable[[int], FloatArray], n_clusters: int) -> tuple[FloatArray, float]:
    """Return each score's degrees of freedom, (d,), and the scale of quantiles; warn where clusters count as few.

    ``sums`` of a power returns sums of powers of phi by cluster, (g, d). Two parts make the variance v of a cluster's
    contribution to a score (Imbens and Kolesar 2016, after Bell and McCaffrey 2002). The variance of votes within
    clusters gives each its share q. What votes in a cluster share adds the rest, in proportion to q^2, so that all
    variances together are those of the clusters' sums; one number for all scores says how much it is. Shares that
    differ from those of the rows by no more than the noise of estimated variances, n_g (kurtosis - 1 + 2 / (n_g - 1))
    for n_g rows, are shrunk to the latter. Fourth powers of the sums need no model, but are small by chance just where
    the standard error is.

    A sum of deviations from the estimate, which the cluster has drawn to itself, has the variance m = v (1 - 2 q) + q^2
    sum v. The variance estimate has (sum m)^2 / sum m^2 - 1 degrees of freedom (Satterthwaite), G - 1 for clusters of
    one size. It shows G / (G - 1) sum m of sum v: the scale is one over the root of this share's mean over scores.

    References
    ----------
    Bell and McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage samples;
    Imbens and Kolesar (2016), Robust standard errors in small samples: some practical advice.
    """
    squares = sums(2)
    varies = squares.sum(axis=0) > 0
    df = np.full(len(varies), n_clusters - 1.0)
    if not varies.any():
        return df, 1.0
    size, total, squares, fourths = (part[:, varies] for part in (sums(0), sums(1), squares, sums(4)))
    n, all_squares = size.sum(axis=0), squares.sum(axis=0)
    # Clusters of one row have the mean variance.
    has_many, others = size > 1, np.maximum(size - 1, 1)
    # Rounding errors would be shares where votes do not vary within clusters.
    within = squares - total**2 / np.maximum(size, 1)
    within = np.where(within > _ROUNDED * squares, within, 0.0) * has_many * size / others
    rows = (size * has_many).sum(axis=0)
    mean = np.where(rows > 0, within.sum(axis=0) / np.maximum(rows, 1), all_squares / n)
    within = np.where(has_many, within, mean * size)
    whole = within.sum(axis=0)
    of_rows = size / n
    q = np.where(whole > 0, within / np.maximum(whole, 1e-300), of_rows)
    kurtosis = n * fourths.sum(axis=0) / all_squares**2
    noise = ((kurtosis - 1) * rows + 2 * (has_many * size / others).sum(axis=0)) / n**2
    q = of_rows + np.clip(1 - noise / np.maximum(np.square(q - of_rows).sum(axis=0), 1e-300), 0, 1) * (q - of_rows)
    of_sums = (total**2 / np.maximum(1 - q, _SMALLEST_REST)).sum(axis=0)
    part = min(float((whole / all_squares).sum() / (of_sums / all_squares).sum()), 1.0)
    v = part * q + (1 - part) * q**2 / np.square(q).sum(axis=0)
    m = v * (1 - 2 * q) + q**2 * v.sum(axis=0)
    # All of m is zero where one cluster has all of the votes.
    df[varies] = np.square(m.sum(axis=0)) / np.maximum(np.square(m).sum(axis=0), 1e-300) - 1
    df = np.clip(df, 1.0, n_clusters - 1)
    shown = float((m.sum(axis=0) / v.sum(axis=0)).mean()) * n_clusters / (n_clusters - 1)
    effective = df.min() + 1
    if effective < FEW_EFFECTIVE and effective < _UNEVEN * n_clusters:
        for_one = " for one of the scores" * (_typical(df) + 1 >= FEW_EFFECTIVE)
        warn(
            f"the {n_clusters:,} clusters count as {effective:.1f} of one size{for_one} (the largest has "
            f"{100 * q.max():.0f} % of the variance of independent votes); with fewer than {FEW_EFFECTIVE}, intervals "
            f"hold only roughly",
            kind=IntervalWarning,
        )
    return df, 1 / float(np.sqrt(np.clip(shown, _SMALLEST_REST, 1.0)))


def cluster_sums(influence: CentredInfluence, group: IntArray | None) -> tuple[FloatArray, float]:
    """Return contributions of units to the error, (g, d), and what the sum of their products is multiplied by."""
    phi = influence.centred
    if group is None:
        return phi / len(phi), 1.0
    names, group = np.unique(group, return_inverse=True)
    return unit_sums(phi, group) / len(phi), len(names) / (len(names) - 1)


def two_way(
    influence: CentredInfluence | JointInfluence,
    first: IntArray,
    second: IntArray,
    gauge: FloatArray,
    *,
    of_contexts: bool = False,
    n_parts: int = 1,
) -> Covariance:
    """Return the covariance for two crossed groupings, V_first + V_second - V_both, such as prompts and annotators.

    ``second`` groups influence blocks, (q,), where -1 is no group, or with ``of_contexts`` contexts, (n,). The
    estimates are ``n_parts`` parts of equal size, such as the scores of groups of contexts. Where the difference is no
    covariance matrix, V_both is not subtracted in those parts where it is none.

    References
    ----------
    Cameron, Gelbach and Miller (2011), Robust inference with multiway clustering.
    """
    block_first, sums_of_blocks = first, influence.sums_by
    if not of_contexts:
        block_first, sums_of_blocks = first[influence.block_context], influence.block_sums_by
    has_second, both = second >= 0, np.full(len(second), -1)
    codes = block_first[has_second] * (second.max() + 1) + second[has_second]
    both[has_second] = np.unique(codes, return_inverse=True)[1]
    counts = _count_clusters([first, second[has_second]], of_votes=not of_contexts)
    sums, in_both = (influence.sums_by(first), sums_of_blocks(second)), sums_of_blocks(both)
    total = sums[0].T @ sums[0] + sums[1].T @ sums[1]
    matrix = total - in_both.T @ in_both
    del in_both
    basis = free_basis(gauge, len(matrix))
    note = ""
    if _is_negative(basis.T @ matrix @ basis):
        matrix, n_twice = _valid_by_part(matrix, total, gauge, n_parts)
        note = (
            "the variance of votes in the same cluster of both columns is counted twice, because some differences "
            "would have a negative one: standard errors are too large. Clusters of the column that matters more avoid "
            "it"
        )
        note = (
            "" if not n_twice else note if n_parts == 1 else f"for {n_twice} of {n_parts} groups or coefficients {note}"
        )
    fewest = min(counts)
    covariance = _with_free_directions(matrix * fewest / (fewest - 1) / influence.n_contexts**2, gauge, counts, note)

    def law(unit: IntArray, sums_by: Callable[..., FloatArray], total: FloatArray, n: int) -> tuple[FloatArray, float]:
        # All contexts, or blocks, count as rows, also for estimates of other ones.
        rows = np.repeat(np.bincount(unit[unit >= 0]).astype(float)[:, None], total.shape[1], axis=1)
        known = {0: rows, 1: total}
        return _effective_df(lambda power: known[power] if power in known else sums_by(unit, power), n)

    df, scale = law(first, influence.sums_by, sums[0], counts[0])
    other_df, other_scale = law(second, sums_of_blocks, sums[1], counts[1])
    return replace(covariance, scale=max(scale, other_scale)).with_df(np.minimum(df, other_df))


def _is_negative(matrix: FloatArray) -> bool:
    """Return whether a symmetric matrix has a negative eigenvalue beyond rounding."""
    spectrum = np.linalg.eigvalsh(matrix)
    return bool(spectrum[0] < -1e-10 * max(spectrum[-1], 0.0))


def _valid_by_part(matrix: FloatArray, total: FloatArray, gauge: FloatArray, n_parts: int) -> tuple[FloatArray, int]:
    """Return a covariance, (d, d), for a matrix that is none, and how many parts got that of ``total``."""
    # Other parts keep their own. The dependence between parts is that of the positive part of the whole.
    size, n_fixed = len(matrix) // n_parts, len(gauge) // n_parts
    parts, n_twice, mended = [], 0, matrix.copy()
    for number in range(n_parts):
        place = slice(number * size, (number + 1) * size)
        basis = free_basis(gauge[number * n_fixed : (number + 1) * n_fixed, place], size)
        if _is_negative(basis.T @ matrix[place, place] @ basis):
            mended[place, place] = total[place, place]
            n_twice += 1
        parts.append(Covariance(_project_on_free(mended[place, place], basis), basis))
    if n_parts == 1:
        return mended, n_twice
    in_free = Covariance(total, free_basis(gauge, len(total)))
    positive = in_free._in_own_units(mended, lambda ratios: np.maximum(ratios, 0.0))
    return match_blocks(np.zeros_like(total) if positive is None else positive, parts), n_twice


def _count_clusters(groups: list[NDArray[np.intp]], *, of_votes: bool = False) -> tuple[int, ...]:
    """Count the clusters of each grouping; raise where a grouping has one, and warn where it has few."""
    counts = tuple(len(np.unique(group)) for group in groups)
    if min(counts) < 2:
        raise DataError("the column of the clusters has one value, and standard errors need at least two; give another")
    if min(counts) <= FEW_CLUSTERS:
        hint = "; use columns with more clusters, if their clusters still keep dependent votes together"
        if of_votes and counts[0] <= FEW_CLUSTERS < counts[1]:
            hint = f". {few_prompts_advice(counts[0], 'the second column')}"
        elif len(groups) == 1 and counts[0] >= FEWEST_FOR_WEBB:
            hint = WEBB_HINT
        elif len(groups) == 1:
            hint = "; so few clusters say next to nothing of how much they vary"
        warn(
            f"there are only {min(counts)} clusters, and with {FEW_CLUSTERS} or fewer standard errors are too "
            f"small{hint}",
            kind=IntervalWarning,
        )
    return counts


def _with_free_directions(
    matrix: FloatArray, gauge: FloatArray, n_clusters: tuple[int, ...] = (), note: str = ""
) -> Covariance:
    """Return a covariance, (d, d), whose free directions are those orthogonal to the gauge, (g, d)."""
    basis = free_basis(gauge, len(matrix))
    return Covariance(_project_on_free(matrix, basis), basis, n_clusters, note)


def _project_on_free(matrix: FloatArray, basis: FloatArray) -> FloatArray:
    """Project a covariance, (d, d), on the free directions, because rounding errors give fixed ones a variance."""
    variances, fixed = np.diag(matrix), _fixed_basis(basis)
    # Covariances of the fixed directions with the scores, and among each other.
    with_scores = fixed.T @ matrix
    if variances.max(initial=0.0) > _MAX_RATIO * variances[variances > 0].min(initial=np.inf):
        # Only what exceeds rounding errors is subtracted; these are a share of the sums of absolute values.
        size = np.abs(fixed).T @ np.abs(matrix)
        with_scores = np.where(np.abs(with_scores) > _ROUNDING * size, with_scores, 0.0)
        among_fixed, size = with_scores @ fixed, size @ np.abs(fixed)
        among_fixed = np.where(np.abs(among_fixed) > _ROUNDING * size, among_fixed, 0.0)
    else:
        among_fixed = with_scores @ fixed
    crossed = fixed @ with_scores
    projected = matrix - crossed - crossed.T + fixed @ among_fixed @ fixed.T
    is_fixed = np.square(basis).sum(axis=1) < 1e-9
    projected[is_fixed] = projected[:, is_fixed] = 0.0
    return np.asarray((projected + projected.T) / 2)


def match_blocks(joint: FloatArray, blocks: Sequence[Covariance]) -> FloatArray:
    """Change a joint covariance so that its diagonal blocks are the given ones, and keep the dependence, (d, d)."""
    ends = np.cumsum([len(block.matrix) for block in blocks])
    places = [slice(end - len(block.matrix), end) for end, block in zip(ends, blocks, strict=True)]
    maps = [transport_map(joint[place, place], block) for place, block in zip(places, blocks, strict=True)]
    joint_map = block_diag(*maps)
    mapped = joint_map @ joint @ joint_map.T
    mapped = (mapped + mapped.T) / 2
    for place, block in zip(places, blocks, strict=True):
        mapped[place, place] = block.matrix
    return np.asarray(mapped)


def _factor_and_inverse(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return R, (r, s), with R R' = a positive semidefinite matrix, (r, r), of rank s, and its pseudo-inverse."""
    if matrix.size and np.trace(matrix) > 0:
        # Cholesky's algorithm takes a tenth of the time of a decomposition by eigenvalues. Below this ratio of standard
        # deviations, directions may be rounding errors, which only eigenvalues tell apart.
        root, failed = scipy.linalg.lapack.dpotrf(matrix, lower=True, clean=True)
        if not failed and np.diag(root).min() > 1e-4 * np.diag(root).max():
            return root, scipy.linalg.lapack.dtrtri(root, lower=True)[0]
    spectrum, axes = np.linalg.eigh(matrix)
    # Directions without variance stay without.
    varies = spectrum > 1e-12 * max(spectrum.max(initial=0.0), 1e-300)
    size = np.sqrt(spectrum[varies])
    return axes[:, varies] * size, (axes[:, varies] / size).T


def transport_map(source: FloatArray, target: Covariance) -> FloatArray:
    """Return the symmetric A, (d, d), with A source A' = target; zero in fixed directions and where source is."""
    basis = target.basis
    reduced_source, reduced_target = basis.T @ source @ basis, target.reduced
    smallest = 1e-14 * max(np.abs(reduced_target).max(initial=0.0), 1e-300)
    if np.allclose(reduced_source, reduced_target, rtol=1e-12, atol=smallest):
        return basis @ basis.T
    root, inverse_root = _roots(reduced_source)
    reduced_map = inverse_root @ _roots(root @ reduced_target @ root)[0] @ inverse_root
    return np.asarray(basis @ ((reduced_map + reduced_map.T) / 2) @ basis.T)


def root_of(matrix: FloatArray) -> FloatArray:
    """Return a matrix, (d, d), whose product with its transpose is the positive part of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _roots(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric square root of a positive semidefinite matrix, and the pseudo-inverse of this root."""
    spectrum, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    size = np.sqrt(np.maximum(spectrum, 0.0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 1e-7 * size.max(initial=0.0))
    return (axes * size) @ axes.T, (axes * inverse) @ axes.T

"""Tests and regions of linear combinations of scores, win probabilities, the test of the Bradley-Terry model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import gammaln

from .._utils.argument_checks import array_of_numbers, place_of
from .._utils.tasks_and_threads import one_thread
from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import GraphError, HypothesisError, NoIntervalError, OptionError, listed, shown
from ..fit.compared_pairs import unlabelled_pairs
from ..fit.estimates import Estimates
from ..fit.post_estimation import pair_win_probability, restricted_against_projection
from ..fit.state import FitState
from ..inference.confidence_sequence import ConfidenceSequence
from ..inference.score_limits import normal_critical
from ..inference.wald import TWO_SIDED, NamedEstimates, ZTests, read_alternative, z_statistics, z_tests
from ..report.fit_summary import choose_models
from ..report.phrases import functional_unit
from ..tables.summary_table import (
    Summarised,
    Summary,
    decimals,
    fewest_decimals,
    fixed_text,
    p_value_clause,
    p_value_text,
)
from .requirements import ModelTable, TitledTable, named_estimates, not_stored, require_intervals

_CHOSEN_BY_DATA = (
    "The scores of this fit place {first} first and {second} second. If you compare them for this reason, use "
    "verdict(), whose test of first place holds although the data chose the leader; the p-value above does not take "
    "account of the choice. t_test_pairwise() tests all pairs."
)
# A direction counts as fixed by the functional where its free part is below this share of the longest contrast.
_FIXED_BELOW = 1e-9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ZTestResults(Summarised, ZTests):
    """z tests of J linear combinations; attributes have the names that they have in statsmodels.

    Attributes
    ----------
    effect, sd, statistic : ndarray, shape (J,)
        Estimates of the combinations, their standard errors, and z statistics.
    pvalue : ndarray, shape (J,)
        p-values, not adjusted for several tests; an array without dimensions where J is 1.
    c_names : list of str
        Names of the combinations, as the hypothesis states them.
    alternative : Alternative
        The alternative hypothesis of every test.
    sequence : ConfidenceSequence or None
        Where the tests hold at all looks, what was fixed before the first look.
    remark : str
        Sentence for the reader of the table; may be empty.
    functional : str
        The functional and the unit of the scores; empty for tests of other numbers.
    """

    remark: str = ""
    functional: str = ""

    def summary(self, alpha: float | None = None, title: str | None = None) -> Summary:
        """Return the table of the tests.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of the intervals; 0.05 when None, or that of a sequential view.
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        sided = self.alternative != TWO_SIDED
        default = "z tests"
        if self.sequence is not None:
            default = f"Tests of whether {self.alternative.clause}, each valid {self.sequence.clause}"
        elif sided:
            one_sided = self.alternative.side not in ("two-sided", "equivalence")
            default = f"Tests of whether {self.alternative.clause}{' (p-values are for this side)' * one_sided}"
        digits = decimals(self.sd)
        numbers = np.column_stack([self.effect, self.sd, self.conf_int(alpha)])
        rows = []
        for name, z, p, row in zip(self.c_names, self.statistic, np.atleast_1d(self.pvalue), numbers, strict=True):
            gap, error, low, high = (fixed_text(number, digits) for number in row)
            rows.append((name, gap, error, fixed_text(z, 2), p_value_text(float(p)), low, high))
        level = f"{100 * (1 - self._level(alpha)):g}%"
        columns = (("coef", 1), ("std err", 1), ("z", 1), ("P" if sided else "P>|z|", 1), (f"[{level} CI]", 2))
        covariance, law = self.covariance, ""
        if covariance.means is not None:
            law = "z, P and intervals: each limit allows for one unseen prompt or cluster."
        elif covariance.shares is not None:
            law = "z, P and intervals: those of shares with an effective number of votes."
        elif covariance.has_few_units:
            law = f"P and intervals: Student's t with {covariance.df:.0f} degrees of freedom."
        law = law if self.sequence is None else ""
        header = (("Functional:", self.functional),) if self.functional else ()
        table = Summary(default, header, columns, tuple(rows), (law, self.remark), row_head="hypothesis")
        return table.with_title(title)

    def summary_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """Return the table of the tests as a frame, with the columns of statsmodels.

        Parameters
        ----------
        alpha : float, optional
            As for :meth:`summary`.

        Returns
        -------
        DataFrame
            Columns ``coef``, ``std err``, ``z``, ``P>|z|``, ``Conf. Int. Low`` and ``Conf. Int. Upp.``.
        """
        low, high = self.conf_int(alpha).T
        columns = {
            "coef": self.effect,
            "std err": self.sd,
            "z": self.statistic,
            "P>|z|": np.atleast_1d(self.pvalue),
            "Conf. Int. Low": low,
            "Conf. Int. Upp.": high,
        }
        return pd.DataFrame(columns, index=self.c_names)


@dataclass(frozen=True, slots=True)
class WinProbability(TitledTable):
    """Share of comparisons that ``first`` wins against ``second``.

    Attributes
    ----------
    first, second : str
        Names of the models.
    estimate, std_error : float
        The share and its standard error.
    conf_low, conf_high : float
        Limits of the interval at level ``1 - alpha`` for this share alone; between 0 and 1.
    alpha : float
        One minus the level.
    sequence : ConfidenceSequence or None
        Where the interval holds at all looks, what was fixed before the first look.
    """

    first: str
    second: str
    estimate: float
    std_error: float
    conf_low: float
    conf_high: float
    alpha: float
    sequence: ConfidenceSequence | None = None

    def __str__(self) -> str:
        digits = decimals(np.array([self.std_error]))
        level = f"{100 * (1 - self.alpha):g} %" + ("" if self.sequence is None else f" {self.sequence.clause}")
        limits = f"{self.conf_low:.{digits}f} to {self.conf_high:.{digits}f}"
        return f"{self.first} wins {self.estimate:.{digits}f} against {self.second} ({level}: {limits})"

    def _table(self) -> Summary:
        numbers = (self.estimate, self.std_error, self.conf_low, self.conf_high)
        digits = decimals(np.array([self.std_error]))
        row = (f"{self.first} against {self.second}", *(f"{number:.{digits}f}" for number in numbers))
        level = f"{100 * (1 - self.alpha):g}"
        columns = (("win share", 1), ("std err", 1), (f"[{level}% CI]", 2))
        note = (
            f"The win share is the share of comparisons that {self.first} wins against {self.second}, averaged over "
            f"prompts. With {level} % confidence the interval contains the true share; it holds for this share alone."
        )
        notes = (note,) if self.sequence is None else (note, self.sequence.promise)
        return Summary("Win Probability", (), columns, (row,), notes, row_head="pair")


@dataclass(frozen=True, slots=True, eq=False)
class RestrictionTest(ModelTable):
    """Hausman test of the Bradley-Terry model: restricted against unrestricted scores.

    Attributes
    ----------
    statistic : float
        Wald statistic; chi-squared in large samples if the model holds.
    df : int
        Degrees of freedom: the number of directions in which the two estimators can differ.
    pvalue : float
        The share of ``n_draws`` samples of labels from the restricted model whose statistic is at least as large; with
        clusters from the chi-squared distribution.
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, their ``difference`` with ``std_error``, and ``z``.
    n_draws : int
        Number of samples from the restricted model; zero where the p-value comes from the chi-squared distribution.
    is_natural : bool
        Whether the scores have the functional's own unit.
    """

    statistic: float
    df: int
    pvalue: float
    frame: pd.DataFrame
    n_draws: int = 0

    is_natural: bool = True

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        names = [str(name) for name in self.frame.index]
        ranking = np.argsort(-self.frame["restricted"].to_numpy(), kind="stable").tolist()
        chosen = choose_models(names, ranking, models, top)
        digits = decimals(self.frame["std_error"].to_numpy(), fewest=fewest_decimals(self.is_natural))
        scores = self.frame[["restricted", "unrestricted", "difference", "std_error"]].to_numpy()
        z_texts = [fixed_text(number, 2) if np.isfinite(number) else "n/a" for number in self.frame["z"]]
        rows = tuple(
            (names[j], *(fixed_text(number, digits) for number in scores[j]), z_texts[j]) for j in chosen.places
        )
        how = f"{self.n_draws:,} samples of labels from the model" if self.n_draws else "the chi-squared distribution"
        header = (("Statistic:", f"chi2({self.df}) = {self.statistic:.2f}", "P:", p_value_text(self.pvalue)),)
        notes = (
            f"Hausman test of the Bradley-Terry model: P {p_value_clause(self.pvalue)}, from {how}. The hypothesis is "
            f"that the Bradley-Terry model holds for every prompt; the test has power against failures that change the "
            "scores.",
            '"difference" is the unrestricted minus the restricted score; "std err" is that of the difference. z tests '
            "one difference and is not adjusted.",
        )
        columns = (("restricted", 1), ("unrestricted", 1), ("difference", 1), ("std err", 1), ("z", 1))
        table = Summary("Test of the Bradley-Terry Model", header, columns, rows, notes)
        return table.with_notes(chosen.note("The statistic and its P"))


@one_thread()
def bradley_terry_test(estimates: Estimates, state: FitState) -> RestrictionTest:
    """Test the Bradley-Terry model that the fit assumes, see :meth:`RankResults.restriction_test`."""
    estimator = estimates.estimated_by
    if not (estimator.assumes_bradley_terry and estimator.has_first_stages):
        raise OptionError(
            f"restriction_test is for estimator='bt_restricted'; this fit has {estimates.estimator!r}: fit votes "
            f"without ties with functional='bt' and estimator='bt_restricted'"
        )
    require_intervals(estimates, "restriction_test")
    restricted, unrestricted, test = restricted_against_projection(state)
    gap = unrestricted - restricted
    columns = {"restricted": restricted, "unrestricted": unrestricted, "difference": gap}
    columns |= {"std_error": test.std_errors, "z": z_statistics(gap, test.std_errors)}
    frame = pd.DataFrame(columns, index=list(estimates.models))
    return RestrictionTest(test.statistic, test.df, test.pvalue, frame, test.n_draws, estimates.scale.natural)


def t_test_of_scores(estimates: Estimates, hypothesis: HypothesisLike, *, delta: float, side: str) -> ZTestResults:
    """Test linear combinations of scores, see :meth:`RankResults.t_test`."""
    alternative, named = read_alternative(side, delta), named_estimates(estimates)
    contrasts = named.hypothesis(hypothesis)
    tests = replace(z_tests(ZTestResults, named, contrasts, alternative), functional=functional_unit(estimates))
    if not estimates.of_models or len(estimates.models) < 3:
        return tests
    top = np.argsort(-estimates.merit, kind="stable")[:2]
    # A multiple of first minus second has two coefficients that cancel, and no others.
    of_top, of_others = contrasts.matrix[:, top], np.delete(contrasts.matrix, top, axis=1)
    is_first_against_second = (of_others == 0).all(axis=1) & (of_top[:, 0] != 0) & np.isclose(of_top.sum(axis=1), 0)
    if not is_first_against_second.any():
        return tests
    first, second = (estimates.models[j] for j in top)
    return replace(tests, remark=_CHOSEN_BY_DATA.format(first=first, second=second))


def win_probability_of(
    estimates: Estimates, state: FitState | None, first: str, second: str, *, alpha: float
) -> WinProbability:
    """Return the share of comparisons that ``first`` wins, see :meth:`RankResults.win_probability`."""
    j, k = (place_of(estimates.models, name) for name in (first, second))
    if j == k:
        raise OptionError(f"win_probability got the model {first!r} twice; give two different models")
    if not estimates.graph.edges[j, k]:
        raise GraphError(_why_no_share(estimates, state, j, k))
    if estimates.estimated_by.why_no_intervals:
        require_intervals(estimates, "win_probability")
    if state is None:
        raise not_stored(estimates, "win_probability")
    has_none = unlabelled_pairs(state.data, state.setup.functional.apart)
    if state.likelihood is None and isinstance(state.options.propensity, str) and has_none[j, k]:
        order = " in both display orders" if state.data.ordered else ""
        raise NoIntervalError(
            f"win_probability: {first!r} and {second!r} were never compared{order}, so that no label corrects the "
            f"learner's prediction; collect votes on this pair"
        )
    share, covariance = pair_win_probability(state, j, k)
    sequence, (error,) = estimates.sequence, covariance.std_errors
    critical = covariance.from_normal(normal_critical(alpha / 2)) if sequence is None else sequence.critical()
    (low,), (high,) = covariance.law(share).limits(critical)
    return WinProbability(first, second, float(share[0]), float(error), float(low), float(high), alpha, sequence)


def _why_no_share(estimates: Estimates, state: FitState | None, j: int, k: int) -> str:
    """Say why two models are no compared pair, and what answers who is better."""
    first, second = estimates.models[j], estimates.models[k]
    n_labels = 0 if state is None else int(state.data.pair_counts()[[j, k], [k, j]].sum())
    there = "too few votes" if state is None else f"{n_labels:,} labelled prompts" if n_labels else "no vote"
    text = (
        f"{first!r} and {second!r} have {there} on each other and are not a compared pair, so that this share has no "
    )
    text += f"estimate; t_test(({first!r}, {second!r})) tests the difference of their scores"
    if n_labels and state is not None and isinstance(state.options.pairs.graph, str):
        text += f", and update(min_labels={n_labels}{', position_bias=False' * state.data.ordered}) compares this pair"
    return text


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
        The chi-squared quantile; Hotelling's with few prompts, and larger where the region holds at all looks.
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
    Frauen et al., arXiv 2601.21816, [P eq:ci_ellipsoid], in the directions in which the inverse exists.
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
            Scores in the order of ``models``, with the sum that the functional fixes.
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
                f"the functional fixes a weighted sum of these scores, and the point is {distance:.3g} away from "
                f"points with this sum; give a point with the same weighted sum as the estimates"
            )
        coordinates = self.basis.T @ from_center
        return bool(coordinates @ np.linalg.solve(self._reduced, coordinates) <= self.radius2)

    @one_thread()
    def axes(self) -> tuple[FloatArray, FloatArray]:
        """Return half-lengths, (df,), and directions, (d, df), of the principal axes, the longest first."""
        values, vectors = np.linalg.eigh(self._reduced)
        return np.sqrt(self.radius2 * values[::-1]), self.basis @ vectors[:, ::-1]

    def _table(self) -> Summary:
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
        return Summary(f"Joint Confidence Region of {size}", header, columns, rows, notes, noun)

    @property
    def _level(self) -> str:
        """The level of confidence as a percentage."""
        return f"{100 * (1 - self.alpha):.4g}"

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
            f"there is no region of {about}, because the functional fixes the values ({estimates.reason}); give others"
        )
    spectrum, axes = np.linalg.eigh(basis.T @ cov @ basis)
    if spectrum[0] <= 1e-14 * spectrum[-1] or spectrum[-1] <= 0:
        raise HypothesisError(f"some combination of {about} does not vary in the data; leave one of them out")
    whitened = (axes / np.sqrt(spectrum)).T @ basis.T @ matrix
    center, df, sequence = matrix @ estimates.estimate - contrasts.value, basis.shape[1], estimates.sequence
    radius2 = float(covariance.of_combinations(whitened).wald_law(df).critical(alpha))
    if sequence is not None:
        radius2 = sequence.boundary(1, df).squared_radius(sequence.alpha, df)
    return Ellipsoid(contrasts.labels, center, cov, basis, radius2, alpha, scores, is_natural, sequence)

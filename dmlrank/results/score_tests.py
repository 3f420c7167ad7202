"""Tests of linear combinations of scores, win probabilities, and the test of the Bradley-Terry model, with tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy
from scipy.special import expit, logit

from .._utils.computation import one_thread
from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_clause, p_value_text
from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..exceptions import GraphError, NoIntervalError, OptionError
from ..fit.estimand import unlabelled_pairs
from ..fit.estimates import Estimates
from ..fit.post_estimation import pair_win_probability, restricted_against_projection
from ..fit.state import FitState
from ..inference.confidence_sequence import ConfidenceSequence
from ..inference.covariance import Covariance
from ..inference.wald import TWO_SIDED, Alternative, NamedEstimates, ZTests, read_alternative, z_tests
from ..report.leaderboard import choose_models
from ..tables.summary_table import Summarised, Summary
from .requirements import ModelTable, TitledTable, named_estimates, place_of, require_intervals, require_steps

_CHOSEN_BY_DATA = (
    "The scores of this fit place {first} first and {second} second. If you compare them for this reason, "
    "the p-value is too small, because it is not adjusted for the choice; use t_test_pairwise()."
)
# Largest standard error, in units of p (1 - p), for which the interval of a win probability is computed on the logit
# scale.
_MAX_LOGIT_ERROR = 2.0


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
    """

    remark: str = ""

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
            default = f"Tests of whether {self.alternative.clause} (p-values are for this side)"
        digits = decimals(self.sd)
        numbers = np.column_stack([self.effect, self.sd, self.conf_int(alpha)])
        rows = []
        for name, z, p, row in zip(self.c_names, self.statistic, np.atleast_1d(self.pvalue), numbers, strict=True):
            gap, error, low, high = (fixed_text(number, digits) for number in row)
            rows.append((name, gap, error, fixed_text(z, 2), p_value_text(float(p)), low, high))
        level = f"{100 * (1 - self._level(alpha)):g}%"
        columns = (("coef", 1), ("std err", 1), ("z", 1), ("P" if sided else "P>|z|", 1), (f"[{level} CI]", 2))
        df = self.covariance.df
        few = f"Student's t with {df:.0f} degrees of freedom" if np.isfinite(df) else "normal"
        beyond = ", with an allowance beyond std err in z" if self.covariance.is_visibly_widened else ""
        law = f"P and intervals: {few}{beyond}." if (np.isfinite(df) or beyond) and self.sequence is None else ""
        notes = tuple(filter(None, (law, self.remark)))
        return Summary(default, (), columns, tuple(rows), notes, row_head="hypothesis").with_title(title)

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


def t_test(
    estimates: NamedEstimates, hypothesis: LinearHypothesis, alternative: Alternative = TWO_SIDED
) -> ZTestResults:
    """Test every row of a hypothesis by a z test."""
    return z_tests(ZTestResults, estimates, hypothesis, alternative)


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
        digits = self._digits
        level = f"{100 * (1 - self.alpha):g} %" + ("" if self.sequence is None else f" {self.sequence.clause}")
        limits = f"{self.conf_low:.{digits}f} to {self.conf_high:.{digits}f}"
        return f"{self.first} wins {self.estimate:.{digits}f} against {self.second} ({level}: {limits})"

    @property
    def _digits(self) -> int:
        """Number of decimals, which follows the standard error."""
        return decimals(np.array([self.std_error]))

    def summary(self, title: str | None = None) -> Summary:
        numbers = (self.estimate, self.std_error, self.conf_low, self.conf_high)
        row = (f"{self.first} against {self.second}", *(f"{number:.{self._digits}f}" for number in numbers))
        level = f"{100 * (1 - self.alpha):g}"
        columns = (("win share", 1), ("std err", 1), (f"[{level}% CI]", 2))
        note = (
            f"The win share is the share of comparisons that {self.first} wins against {self.second}, averaged over "
            f"prompts. With {level} % confidence the interval contains the true share; it holds for this share alone."
        )
        notes = (note,) if self.sequence is None else (note, self.sequence.promise)
        return Summary("Win Probability", (), columns, (row,), notes, row_head="pair").with_title(title)


@one_thread()
def win_probability(
    first: str,
    second: str,
    estimate: float,
    covariance: Covariance,
    alpha: float,
    *,
    sequence: ConfidenceSequence | None = None,
) -> WinProbability:
    """Return the share with an interval by the delta method on the logit scale, or on its own scale near 0 and 1.

    A debiased share can lie outside the unit interval by chance. It is then clipped to 0 or 1, and the squared distance
    between the share and this limit is added to the variance. The interval is computed on the scale of the share itself
    where the standard error is at least twice p (1 - p), because the slope of the logit has no bound.
    """
    share = min(max(estimate, 0.0), 1.0)
    std_error = float(np.hypot(covariance.std_errors[0], estimate - share))
    critical = covariance.from_normal(scipy.stats.norm.isf(alpha / 2)) if sequence is None else sequence.critical()
    half_width = critical * std_error
    if std_error < _MAX_LOGIT_ERROR * share * (1 - share):
        logit_half_width = half_width / (share * (1 - share))
        low, high = (float(expit(logit(share) + sign * logit_half_width)) for sign in (-1, 1))
    else:
        low, high = (float(np.clip(share + sign * half_width, 0, 1)) for sign in (-1, 1))
    return WinProbability(first, second, share, std_error, low, high, alpha, sequence)


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
        The share of ``n_draws`` samples of labels from the restricted model whose statistic is at least as large; the
        p-value is at least 1 / (n_draws + 1). Samples are used because the statistic has heavier tails than chi-squared
        where probabilities are near 0 or 1. With clusters, the p-value comes from the chi-squared distribution.
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, ``difference`` (unrestricted minus restricted), ``std_error`` of the
        difference and ``z``.
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

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
        names = [str(name) for name in self.frame.index]
        ranking = np.argsort(-self.frame["restricted"].to_numpy(), kind="stable").tolist()
        shown = choose_models(names, ranking, models, top)
        digits = decimals(self.frame["std_error"].to_numpy(), fewest=fewest_decimals(self.is_natural))
        scores = self.frame[["restricted", "unrestricted", "difference", "std_error"]].to_numpy()
        z = self.frame["z"].to_numpy()
        z_texts = [fixed_text(number, 2) if np.isfinite(number) else "n/a" for number in z]
        rows = tuple(
            (names[j], *(fixed_text(number, digits) for number in scores[j]), z_texts[j]) for j in shown.places
        )
        how = f"{self.n_draws:,} samples of labels from the model" if self.n_draws else "the chi-squared distribution"
        header = (("Statistic:", f"chi2({self.df}) = {self.statistic:.2f}", "P:", p_value_text(self.pvalue)),)
        notes = (
            f"Hausman test of the Bradley-Terry model: P {p_value_clause(self.pvalue)}, from {how}. The hypothesis is "
            f"that the Bradley-Terry model holds for every prompt.",
            '"difference" is the unrestricted minus the restricted score; "std err" is that of the difference. z tests '
            "one difference and is not adjusted.",
        )
        columns = (("restricted", 1), ("unrestricted", 1), ("difference", 1), ("std err", 1), ("z", 1))
        table = Summary("Test of the Bradley-Terry Model", header, columns, rows, notes)
        return table.with_notes(shown.note("The statistic and its P")).with_title(title)


@one_thread()
def bradley_terry_test(estimates: Estimates, steps: FitState) -> RestrictionTest:
    """Test the Bradley-Terry model that the fit assumes, see :meth:`RankResults.restriction_test`."""
    estimator = estimates.estimated_by
    if not (estimator.assumes_bradley_terry and estimator.has_first_stages):
        raise OptionError(
            f"restriction_test is for estimator='bt_restricted'; this fit has {estimates.estimator!r}: fit votes "
            f"without ties with functional='bt' and estimator='bt_restricted'"
        )
    require_intervals(estimates, "restriction_test")
    test = restricted_against_projection(steps)
    columns = {
        "restricted": test.restricted,
        "unrestricted": test.unrestricted,
        "difference": test.unrestricted - test.restricted,
        "std_error": test.std_errors,
        "z": test.z,
    }
    frame = pd.DataFrame(columns, index=list(estimates.models))
    return RestrictionTest(test.statistic, test.df, test.pvalue, frame, test.n_draws, estimates.scale.natural)


def t_test_of_scores(
    estimates: Estimates, hypothesis: HypothesisLike, *, delta: float = 0.0, side: str = "two-sided"
) -> ZTestResults:
    """Test linear combinations of scores, see :meth:`RankResults.t_test`."""
    alternative, named = read_alternative(side, delta), named_estimates(estimates)
    contrasts = named.hypothesis(hypothesis)
    tests = t_test(named, contrasts, alternative)
    if not estimates.of_models or len(estimates.models) < 3:
        return tests
    top = np.argsort(-estimates.estimate, kind="stable")[:2]
    # A multiple of first minus second has two coefficients that cancel, and no others.
    of_top, of_others = contrasts.matrix[:, top], np.delete(contrasts.matrix, top, axis=1)
    is_first_against_second = (of_others == 0).all(axis=1) & (of_top[:, 0] != 0) & np.isclose(of_top.sum(axis=1), 0)
    if not is_first_against_second.any():
        return tests
    first, second = (estimates.models[j] for j in top)
    return replace(tests, remark=_CHOSEN_BY_DATA.format(first=first, second=second))


def win_probability_of(
    estimates: Estimates, steps: FitState | None, first: str, second: str, *, alpha: float
) -> WinProbability:
    """Return the share of comparisons that ``first`` wins, see :meth:`RankResults.win_probability`."""
    j, k = (place_of(estimates.models, name) for name in (first, second))
    if j == k:
        raise OptionError(f"win_probability got the model {first!r} twice; give two different models")
    if not estimates.graph.edges[j, k]:
        raise GraphError(
            f"{first!r} and {second!r} are not a compared pair, so that the share has no estimate; min_labels= and "
            f"position_bias= decide how many labels a pair needs"
        )
    if not estimates.estimated_by.valid_intervals:
        require_intervals(estimates, "win_probability")
    fit_steps = require_steps(estimates, steps, "win_probability")
    if (
        fit_steps.likelihood is None
        and isinstance(fit_steps.options.propensity, str)
        and unlabelled_pairs(fit_steps.data)[j, k]
    ):
        order = " in both display orders" if fit_steps.data.ordered else ""
        raise NoIntervalError(
            f"win_probability: {first!r} and {second!r} were never compared{order}, so that no label corrects the "
            f"learner's prediction; collect votes on this pair for a share with an interval"
        )
    share, covariance = pair_win_probability(fit_steps, j, k)
    return win_probability(first, second, share, covariance, alpha, sequence=estimates.sequence)

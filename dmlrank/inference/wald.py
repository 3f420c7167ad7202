"""Wald and t tests on statsmodels' results core, with the structural rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy.stats import norm
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.iolib.table import SimpleTable
from statsmodels.stats.contrast import ContrastResults

from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, listed
from .alternatives import TWO_SIDED, Alternative
from .covariance import Covariance

# A row's free part below this share of the row lies in the gauge.
_FIXED = 1e-9
# Share of its terms that a variance has by rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class NamedEstimates:
    """Estimates under the names that hypotheses use, with their covariance.

    Attributes
    ----------
    estimate : ndarray, shape (d,)
    covariance : Covariance
    names : sequence of str
        d names.
    reason : str
        What the functional fixes, for errors.
    """

    estimate: FloatArray
    covariance: Covariance
    names: Sequence[str]
    reason: str

    def hypothesis(self, hypothesis: HypothesisLike) -> LinearHypothesis:
        """A hypothesis about the estimates, in words or numbers."""
        return read_hypothesis(hypothesis, self.names)


class _Stub:
    """The little that statsmodels' results want of a model."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exog_names = list(names)
        self.endog_names = "winner"
        self.data = SimpleNamespace(cov_names=list(names), param_names=list(names))


class RemarkedResults(ContrastResults):
    """statsmodels' two-sided z tests with a remark below the title of their table.

    Attributes
    ----------
    remark : str
        What the reader has to know of the tests.
    """

    def __init__(self, plain: ContrastResults, remark: str) -> None:
        self.__dict__.update(plain.__dict__)
        self.remark = remark

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """statsmodels' table, with the remark in its title."""
        title = f"Test for Constraints\n{self.remark}" if title is None else title
        return super().summary(xname=xname, alpha=alpha, title=title)


class SidedResults(ContrastResults):
    """statsmodels' z tests with a margin, or against one side; limits are infinite where the side asks for one.

    Attributes
    ----------
    side : str
    delta : float
    remark : str
        What the reader has to know of the tests, or nothing.
    """

    remark = ""

    def __init__(self, effect: FloatArray, sd: FloatArray, hypothesis: LinearHypothesis, to_show: Alternative) -> None:
        z = to_show.statistics(effect - hypothesis.value, sd)
        super().__init__(effect=effect, sd=sd, statistic=z, distribution="norm")
        self.side, self.delta, self.c_names = to_show.side, to_show.delta, list(hypothesis.labels)
        self.pvalue = np.squeeze(to_show.p_values(z))

    @property
    def alternative(self) -> Alternative:
        """What the tests are to show."""
        return Alternative(self.side, self.delta)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Limits that decide the test at ``alpha``, (J, 2): for equivalence an interval of level 1 - 2 alpha."""
        half_width = norm.isf(self.alternative.tail(alpha)) * self.sd
        return np.column_stack(self.alternative.limits(self.effect, half_width))

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """statsmodels' table; its title says what is tested against what."""
        if title is None:
            title = f"Tests of whether {self.alternative.words} (p-values are for this side)"
            title += f"\n{self.remark}" if self.remark else ""
        table = super().summary(xname=xname, alpha=alpha, title=title)
        heads = table[0]
        for cell, head in zip(heads[-3:], ("P", "[lower", "upper]"), strict=True):
            cell.data = head
        return table


def results_core(estimates: NamedEstimates) -> LikelihoodModelResults:
    """statsmodels' results over the estimates, for its tests and its printing."""
    matrix = estimates.covariance.matrix
    core = LikelihoodModelResults(_Stub(estimates.names), estimates.estimate, normalized_cov_params=matrix, scale=1.0)
    core.df_resid = np.inf
    core.df_resid_inference = np.inf
    core.use_t = False
    return core


def t_test(
    estimates: NamedEstimates, hypothesis: LinearHypothesis, alternative: Alternative = TWO_SIDED
) -> ContrastResults:
    """One z test for every row of a hypothesis ``matrix @ theta = value``.

    Parameters
    ----------
    estimates : NamedEstimates
    hypothesis : LinearHypothesis
        Of J rows.
    alternative : Alternative
        What is tested of ``matrix @ theta - value``.

    Returns
    -------
    statsmodels ContrastResults

    Raises
    ------
    HypothesisError
        If a row lies in the gauge, so that its contrast is a constant, or does not vary in the data.
    """
    covariance, matrix = estimates.covariance, hypothesis.matrix
    free = np.linalg.norm(matrix @ covariance.basis, axis=1)
    for row, label in enumerate(hypothesis.labels):
        if free[row] <= _FIXED * np.linalg.norm(matrix[row]):
            constant = round(float(matrix[row] @ estimates.estimate), 12) + 0.0  # no minus zero
            raise HypothesisError(f"{label!r} is the constant {constant:.4g} whatever the data say: {estimates.reason}")
        # Whether terms cancel to nothing or to their last digits depends on the order in which they are summed.
        terms = np.abs(matrix[row]) @ np.abs(covariance.matrix) @ np.abs(matrix[row])
        if not matrix[row] @ covariance.matrix @ matrix[row] > _ROUNDING * terms:
            raise HypothesisError(f"{label!r} has a standard error of zero: it does not vary in these data")
    if alternative.side != "two-sided":
        std_errors = np.sqrt(np.einsum("jd,de,je->j", matrix, covariance.matrix, matrix))
        return SidedResults(matrix @ estimates.estimate, std_errors, hypothesis, alternative)
    result = results_core(estimates).t_test((matrix, hypothesis.value + alternative.delta), use_t=False)
    result.c_names = list(hypothesis.labels)
    return result


def wald_test(estimates: NamedEstimates, hypothesis: LinearHypothesis) -> ContrastResults:
    """One joint chi-squared test of a hypothesis; its degrees of freedom are the structural rank.

    Parameters
    ----------
    estimates : NamedEstimates
    hypothesis : LinearHypothesis

    Returns
    -------
    statsmodels ContrastResults

    Raises
    ------
    HypothesisError
        If the whole hypothesis lies in the gauge, contradicts it, or does not vary in the data.
    """
    covariance, matrix, value = estimates.covariance, hypothesis.matrix, hypothesis.value
    about = listed(hypothesis.labels)
    left, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=True)
    rank = int((sizes > _FIXED * np.linalg.norm(matrix)).sum())
    if rank == 0:
        raise HypothesisError(f"{about}: a constant whatever the data say, nothing to test: {estimates.reason}")
    fixed = left[:, rank:].T
    misfit = fixed @ (matrix @ estimates.estimate - value)
    if len(misfit) and np.abs(misfit).max() > 1e-8 * max(1.0, np.abs(value).max()):
        raise HypothesisError(
            f"{about}: together they contradict what is fixed whatever the data say: {estimates.reason}"
        )
    kept = left[:, :rank].T
    restrictions, values = kept @ matrix, kept @ value
    spectrum = np.linalg.eigvalsh(restrictions @ covariance.matrix @ restrictions.T)
    if spectrum[-1] <= 0 or spectrum[0] <= 1e-14 * spectrum[-1]:
        raise HypothesisError(f"{about}: some combination of these does not vary in the data")
    return results_core(estimates).wald_test((restrictions, values), use_f=False, scalar=True)


def add_remark(tests: ContrastResults, remark: str) -> ContrastResults:
    """The tests with a remark in the title of their table.

    Parameters
    ----------
    tests : ContrastResults
        Of :func:`t_test`.
    remark : str
    """
    if isinstance(tests, SidedResults):
        tests.remark = remark
        return tests
    return RemarkedResults(tests, remark)

"""z tests and Wald tests of linear hypotheses by statsmodels, with the structural rank of the covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.stats import norm
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.iolib.table import SimpleTable
from statsmodels.stats.contrast import ContrastResults

from .._utils.blas import one_thread
from .._utils.number_text import p_value_text
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, listed
from .alternatives import TWO_SIDED, Alternative
from .covariance import Covariance

if TYPE_CHECKING:
    import pandas as pd

# A contrast counts as fixed by the functional where the norm of its projection on the free directions is below this
# share of the contrast's norm.
_FIXED_BELOW = 1e-9
# A variance below this share of the sum of the absolute values of its terms counts as a rounding error.
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class NamedEstimates:
    """Estimates under the names that hypotheses use, with their covariance.

    Attributes
    ----------
    estimate : ndarray, shape (d,)
    covariance : Covariance
    names : sequence of str
        The d names.
    reason : str
        Clause that says what the functional fixes, for errors.
    """

    estimate: FloatArray
    covariance: Covariance
    names: Sequence[str]
    reason: str

    def hypothesis(self, hypothesis: HypothesisLike) -> LinearHypothesis:
        """Read a hypothesis about the estimates, in words or numbers."""
        return read_hypothesis(hypothesis, self.names)


class TextTable(Protocol):
    """A table of statsmodels, which has no annotations: the types of its methods that return the table as text."""

    def as_text(self) -> str:
        """Return the table as plain text."""
        ...

    def as_csv(self) -> str:
        """Return the table as CSV."""
        ...

    def as_html(self) -> str:
        """Return the table as HTML."""
        ...

    def as_latex_tabular(self) -> str:
        """Return the table as a LaTeX ``tabular``."""
        ...


class ZTestResults(Protocol):
    """The type of z tests of J linear combinations: ``ContrastResults`` of statsmodels, which has no annotations."""

    @property
    def effect(self) -> FloatArray:
        """Estimates of the combinations, (J,)."""
        ...

    @property
    def sd(self) -> FloatArray:
        """Standard errors, (J,)."""
        ...

    @property
    def statistic(self) -> FloatArray:
        """Z statistics, (J,)."""
        ...

    @property
    def pvalue(self) -> FloatArray:
        """p-values, (J,), not adjusted for several tests; an array without dimensions where J is 1."""
        ...

    @property
    def c_names(self) -> list[str]:
        """Names of the combinations, as the hypothesis states them."""
        ...

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the confidence limits, (J, 2), each of the combinations by itself."""
        ...

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> TextTable:
        """Return the table of the tests."""
        ...

    def summary_frame(self, xname: Sequence[str] | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table of the tests as a frame."""
        ...


class WaldTestResults(Protocol):
    """The type of one joint chi-squared test: ``ContrastResults`` of statsmodels, which has no annotations."""

    @property
    def statistic(self) -> float:
        """Wald statistic."""
        ...

    @property
    def pvalue(self) -> FloatArray:
        """p-value, an array without dimensions."""
        ...

    @property
    def df_denom(self) -> int:
        """Degrees of freedom of the chi-squared distribution."""
        ...

    def summary(self) -> str:
        """Return statistic, p-value and degrees of freedom as text."""
        ...


class _NamedModel:
    """The attributes of a model that the results of statsmodels read: the names of the estimates."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exog_names = list(names)
        self.endog_names = "winner"
        self.data = SimpleNamespace(cov_names=list(names), param_names=list(names))


def _with_small_p_values(table: SimpleTable, p_values: FloatArray) -> SimpleTable:
    """Write p-values that statsmodels shows as 0.000 as the other tables of this package do."""
    for row, p in zip(table[1:], np.atleast_1d(p_values), strict=True):
        row[-3].data = p_value_text(float(p))
    return table


class RemarkedResults(ContrastResults):
    """The z tests of statsmodels with a remark below the title of the table.

    Parameters
    ----------
    tests : ZTestResults
        The tests without remark.
    remark : str

    Attributes
    ----------
    remark : str
        Sentence for the reader of the table; may be empty.
    """

    def __init__(self, tests: ZTestResults, remark: str = "") -> None:
        self.__dict__.update(tests.__dict__)
        self.remark = remark

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """Return the table of statsmodels, with the remark in the title."""
        if title is None:
            title = "Test for Constraints" + (f"\n{self.remark}" if self.remark else "")
        return _with_small_p_values(super().summary(xname=xname, alpha=alpha, title=title), self.pvalue)


class SidedResults(ContrastResults):
    """z tests with a one-sided alternative or a margin, in the form of the results of statsmodels.

    For one-sided alternatives one of the confidence limits is infinite.

    Attributes
    ----------
    side : str
        See :class:`Alternative`.
    delta : float
        See :class:`Alternative`.
    remark : str
        Sentence for the reader of the table; may be empty.
    """

    remark = ""

    def __init__(
        self, effect: FloatArray, sd: FloatArray, hypothesis: LinearHypothesis, alternative: Alternative
    ) -> None:
        z = alternative.statistics(effect - hypothesis.value, sd)
        super().__init__(effect=effect, sd=sd, statistic=z, distribution="norm")
        self.side, self.delta, self.c_names = alternative.side, alternative.delta, list(hypothesis.labels)
        self.pvalue = np.squeeze(alternative.p_values(z))

    @property
    def alternative(self) -> Alternative:
        """The alternative hypothesis of every test."""
        return Alternative(self.side, self.delta)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Return the limits that decide the tests at ``alpha``, (J, 2); the level for equivalence is 1 - 2 alpha."""
        half_width = norm.isf(self.alternative.tail(alpha)) * self.sd
        return np.column_stack(self.alternative.limits(self.effect, half_width))

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> SimpleTable:
        """Return the table of statsmodels, with the alternative in the title."""
        if title is None:
            title = f"Tests of whether {self.alternative.clause} (p-values are for this side)"
            title += f"\n{self.remark}" if self.remark else ""
        table = _with_small_p_values(super().summary(xname=xname, alpha=alpha, title=title), self.pvalue)
        header_row = table[0]
        for cell, header in zip(header_row[-3:], ("P", "[lower", "upper]"), strict=True):
            cell.data = header
        return table


def results_core(estimates: NamedEstimates) -> LikelihoodModelResults:
    """Return the estimates as results of statsmodels, for its tests and tables."""
    matrix = estimates.covariance.matrix
    core = LikelihoodModelResults(
        _NamedModel(estimates.names), estimates.estimate, normalized_cov_params=matrix, scale=1.0
    )
    core.df_resid = np.inf
    core.df_resid_inference = np.inf
    core.use_t = False
    return core


@one_thread()
def t_test(
    estimates: NamedEstimates, hypothesis: LinearHypothesis, alternative: Alternative = TWO_SIDED
) -> ZTestResults:
    """Test every row of a hypothesis ``matrix @ theta = value`` by a z test.

    Parameters
    ----------
    estimates : NamedEstimates
    hypothesis : LinearHypothesis
        With J rows.
    alternative : Alternative
        The alternative about each difference ``matrix @ theta - value``.

    Returns
    -------
    statsmodels ContrastResults

    Raises
    ------
    HypothesisError
        If the functional fixes the contrast of a row, or the contrast does not vary in the data.
    """
    covariance, matrix = estimates.covariance, hypothesis.matrix
    free = np.linalg.norm(matrix @ covariance.basis, axis=1)
    for row, label in enumerate(hypothesis.labels):
        if free[row] <= _FIXED_BELOW * np.linalg.norm(matrix[row]):
            constant = round(float(matrix[row] @ estimates.estimate), 12) + 0.0  # no minus zero
            raise HypothesisError(
                f"{label!r} is the constant {constant:.4g} whatever the data say: {estimates.reason}. A test needs a "
                f"combination that the functional leaves free, such as a difference"
            )
        # Where the terms of a variance cancel, the sum is a rounding error instead of zero.
        terms = np.abs(matrix[row]) @ np.abs(covariance.matrix) @ np.abs(matrix[row])
        if not matrix[row] @ covariance.matrix @ matrix[row] > _ROUNDING * terms:
            raise HypothesisError(
                f"{label!r} has a standard error of zero, because it does not vary in these data, and a z test divides "
                f"by the standard error; leave it out"
            )
    if alternative.side != "two-sided":
        std_errors = np.sqrt(np.einsum("jd,de,je->j", matrix, covariance.matrix, matrix))
        return SidedResults(matrix @ estimates.estimate, std_errors, hypothesis, alternative)
    result = results_core(estimates).t_test((matrix, hypothesis.value + alternative.delta), use_t=False)
    result.c_names = list(hypothesis.labels)
    return RemarkedResults(result)


@one_thread()
def wald_test(estimates: NamedEstimates, hypothesis: LinearHypothesis) -> WaldTestResults:
    """Test all rows of a hypothesis jointly by a Wald test.

    The degrees of freedom of the chi-squared distribution are the structural rank of the hypothesis: the number of
    independent restrictions on what the functional leaves free.

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
        If the functional fixes all rows, the rows contradict what the functional fixes, or some combination of the
        rows does not vary in the data.
    """
    covariance, matrix, value = estimates.covariance, hypothesis.matrix, hypothesis.value
    about = listed(hypothesis.labels)
    left_vectors, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=True)
    rank = int((sizes > _FIXED_BELOW * np.linalg.norm(matrix)).sum())
    if rank == 0:
        raise HypothesisError(
            f"there is nothing to test about {about}, because the functional fixes the value whatever the data say: "
            f"{estimates.reason}. A test needs a combination that the functional leaves free, such as a difference"
        )
    fixed = left_vectors[:, rank:].T
    misfit = fixed @ (matrix @ estimates.estimate - value)
    if len(misfit) and np.abs(misfit).max() > 1e-8 * max(1.0, np.abs(value).max()):
        raise HypothesisError(
            f"the equations about {about} contradict what the functional fixes whatever the data say: "
            f"{estimates.reason}. Change the hypothetical values, or leave one equation out"
        )
    free = left_vectors[:, :rank].T
    restrictions, values = free @ matrix, free @ value
    spectrum = np.linalg.eigvalsh(restrictions @ covariance.matrix @ restrictions.T)
    if spectrum[-1] <= 0 or spectrum[0] <= 1e-14 * spectrum[-1]:
        raise HypothesisError(
            f"some combination of {about} does not vary in the data, so that there is no joint test; leave one of "
            f"them out"
        )
    return results_core(estimates).wald_test((restrictions, values), use_f=False, scalar=True)


def add_remark(tests: ZTestResults, remark: str) -> ZTestResults:
    """Add a remark to the title of the table of tests.

    Parameters
    ----------
    tests : ZTestResults
        Result of :func:`t_test`.
    remark : str
        Sentence for the reader of the table.
    """
    if isinstance(tests, SidedResults):
        tests.remark = remark
        return tests
    return RemarkedResults(tests, remark)

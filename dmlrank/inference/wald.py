"""Wald and t tests on statsmodels' results core, with the structural rank."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import norm
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.stats.contrast import ContrastResults

from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, listed
from . import alternatives as sides
from .covariance import Covariance

# A row's free part below this share of the row lies in the gauge.
_FIXED = 1e-9


class _Stub:
    """The little that statsmodels' results want of a model."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exog_names = list(names)
        self.endog_names = "winner"
        self.data = SimpleNamespace(cov_names=list(names), param_names=list(names))


class SidedResults(ContrastResults):
    """statsmodels' z tests with a margin, or against one side; limits are infinite where the side asks for one.

    Attributes
    ----------
    side : str
    delta : float
    """

    def __init__(
        self, effect: FloatArray, sd: FloatArray, value: FloatArray, labels: Sequence[str], side: str, delta: float
    ) -> None:
        z = sides.statistics(effect - value, sd, side, delta)
        super().__init__(effect=effect, sd=sd, statistic=z, distribution="norm")
        self.side, self.delta, self.c_names = side, delta, list(labels)
        self.pvalue = np.squeeze(sides.p_values(z, side))

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Limits that decide the test at ``alpha``, (J, 2): for equivalence an interval of level 1 - 2 alpha."""
        half_width = norm.isf(sides.tail(alpha, self.side)) * self.sd
        return np.column_stack(sides.limits(self.effect, half_width, self.side))

    def summary(self, xname: Any = None, alpha: float = 0.05, title: str | None = None) -> Any:
        """statsmodels' table; its title says what is tested against what."""
        if title is None:
            title = f"Tests of whether {sides.question(self.side, self.delta)} (p-values are for this side)"
        table = super().summary(xname=xname, alpha=alpha, title=title)
        heads = table[0]
        for cell, head in zip(heads[-3:], ("P", "[lower", "upper]"), strict=True):
            cell.data = head
        return table


def results_core(estimate: FloatArray, covariance: Covariance, names: Sequence[str]) -> LikelihoodModelResults:
    """statsmodels' results over the scores, for its tests and its printing."""
    core = LikelihoodModelResults(_Stub(names), estimate, normalized_cov_params=covariance.matrix, scale=1.0)
    core.df_resid = np.inf
    core.df_resid_inference = np.inf
    core.use_t = False
    return core


def t_test(
    estimate: FloatArray,
    covariance: Covariance,
    names: Sequence[str],
    matrix: FloatArray,
    value: FloatArray,
    labels: Sequence[str],
    reason: str,
    side: str = "two-sided",
    delta: float = 0.0,
) -> Any:
    """One z test for every row of ``matrix @ theta = value``.

    Parameters
    ----------
    estimate : ndarray, shape (d,)
    covariance : Covariance
    names : sequence of str
        Names of the d scores.
    matrix, value : ndarray, shape (J, d) and (J,)
    labels : sequence of str
        What the rows are called.
    reason : str
        What the functional fixes, for errors.
    side, delta
        What is tested of ``matrix @ theta - value``, see :func:`dmlrank.inference.alternatives.statistics`.

    Returns
    -------
    statsmodels ContrastResults

    Raises
    ------
    HypothesisError
        If a row lies in the gauge, so that its contrast is a constant, or does not vary in the data.
    """
    free = np.linalg.norm(matrix @ covariance.basis, axis=1)
    for row, label in enumerate(labels):
        if free[row] <= _FIXED * np.linalg.norm(matrix[row]):
            constant = round(float(matrix[row] @ estimate), 12) + 0.0  # no minus zero
            raise HypothesisError(f"{label!r} is the constant {constant:.4g} whatever the data say: {reason}")
        if not matrix[row] @ covariance.matrix @ matrix[row] > 0:
            raise HypothesisError(f"{label!r} has a standard error of zero: it does not vary in these data")
    if side != "two-sided":
        std_errors = np.sqrt(np.einsum("jd,de,je->j", matrix, covariance.matrix, matrix))
        return SidedResults(matrix @ estimate, std_errors, value, labels, side, delta)
    result = results_core(estimate, covariance, names).t_test((matrix, value + delta), use_t=False)
    result.c_names = list(labels)
    return result


def wald_test(
    estimate: FloatArray,
    covariance: Covariance,
    names: Sequence[str],
    matrix: FloatArray,
    value: FloatArray,
    labels: Sequence[str],
    reason: str,
) -> Any:
    """One joint chi-squared test of ``matrix @ theta = value``; its degrees of freedom are the structural rank.

    Parameters are those of :func:`t_test`.

    Raises
    ------
    HypothesisError
        If the whole hypothesis lies in the gauge, contradicts it, or does not vary in the data.
    """
    left, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=True)
    rank = int((sizes > _FIXED * np.linalg.norm(matrix)).sum())
    if rank == 0:
        raise HypothesisError(f"{listed(labels)}: a constant whatever the data say, nothing to test: {reason}")
    fixed = left[:, rank:].T
    misfit = fixed @ (matrix @ estimate - value)
    if len(misfit) and np.abs(misfit).max() > 1e-8 * max(1.0, np.abs(value).max()):
        raise HypothesisError(
            f"{listed(labels)}: together they contradict what is fixed whatever the data say: {reason}"
        )
    kept = left[:, :rank].T
    restrictions, values = kept @ matrix, kept @ value
    spectrum = np.linalg.eigvalsh(restrictions @ covariance.matrix @ restrictions.T)
    if spectrum[-1] <= 0 or spectrum[0] <= 1e-14 * spectrum[-1]:
        raise HypothesisError(f"{listed(labels)}: some combination of these does not vary in the data")
    core = results_core(estimate, covariance, names)
    return core.wald_test((restrictions, values), use_f=False, scalar=True)

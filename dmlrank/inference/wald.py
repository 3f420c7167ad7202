"""z tests and Wald tests of linear hypotheses by statsmodels, with the structural rank of the covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from statsmodels.base.model import LikelihoodModelResults

from .._utils.blas import one_thread
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, listed
from .alternatives import TWO_SIDED, Alternative
from .confidence_sequence import ConfidenceSequence
from .contrast_results import (
    RemarkedResults,
    SequentialTests,
    SequentialWaldTest,
    SidedResults,
    WaldTestResults,
    ZTestResults,
)
from .covariance import Covariance

__all__ = [
    "NamedEstimates",
    "WaldTestResults",
    "ZTestResults",
    "add_remark",
    "results_core",
    "t_test",
    "wald_test",
]

# A contrast counts as fixed by the functional where the norm of its projection on the free directions is below this
# share of the contrast's norm.
_FIXED_BELOW = 1e-9
# A variance below this share of the sum of the absolute values of its terms counts as a rounding error.
_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class NamedEstimates:
    """Estimates under the names that hypotheses use, with their covariance.

    estimate (d,).
    names: The d names.
    reason: Clause that says what the functional fixes, for errors.
    sequence: Where tests and regions hold at all looks, what was fixed before the first look.
    """

    estimate: FloatArray
    covariance: Covariance
    names: Sequence[str]
    reason: str
    sequence: ConfidenceSequence | None = None

    def hypothesis(self, hypothesis: HypothesisLike) -> LinearHypothesis:
        """Read a hypothesis about the estimates, in words or numbers."""
        return read_hypothesis(hypothesis, self.names)


class _NamedModel:
    """The attributes of a model that the results of statsmodels read: the names of the estimates."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exog_names = list(names)
        self.endog_names = "winner"
        self.data = SimpleNamespace(cov_names=list(names), param_names=list(names))


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
    """Test every row of a hypothesis ``matrix @ theta = value`` by a z test."""
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
    std_errors = np.sqrt(np.einsum("jd,de,je->j", matrix, covariance.matrix, matrix))
    if estimates.sequence is not None:
        return SequentialTests(
            matrix @ estimates.estimate, std_errors, hypothesis, alternative=alternative, sequence=estimates.sequence
        )
    if alternative.side != "two-sided":
        return SidedResults(matrix @ estimates.estimate, std_errors, hypothesis, alternative)
    result = results_core(estimates).t_test((matrix, hypothesis.value + alternative.delta), use_t=False)
    result.c_names = list(hypothesis.labels)
    return RemarkedResults(result)


@one_thread()
def wald_test(estimates: NamedEstimates, hypothesis: LinearHypothesis) -> WaldTestResults:
    """Test all rows of a hypothesis jointly by a Wald test.

    The degrees of freedom of the chi-squared distribution are the structural rank of the hypothesis: the number of
    independent restrictions on what the functional leaves free. With ``sequence`` the p-value is that of the joint
    martingale of :mod:`dmlrank.inference.confidence_sequence` in place of the chi-squared distribution.
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
    test = results_core(estimates).wald_test((restrictions, values), use_f=False, scalar=True)
    return test if estimates.sequence is None else SequentialWaldTest(test, estimates.sequence)


def add_remark(tests: ZTestResults, remark: str) -> ZTestResults:
    """Add a remark to the title of the table of tests."""
    if isinstance(tests, SidedResults | SequentialTests):
        tests.remark = remark
        return tests
    return RemarkedResults(tests, remark)

"""The numbers of a labelling plan, by name; a base of Plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from .order import Filled, Order


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlanNumbers:
    """What was ordered, what it was filled with, and what follows from these.

    Attributes
    ----------
    propensity : ndarray, shape (n, K, K)
    order : Order
    filled : Filled
    """

    propensity: FloatArray
    order: Order
    filled: Filled

    @property
    def models(self) -> list[str]:
        """Names of the K models, in the order of every array."""
        return list(self.order.labels.models)

    @property
    def names(self) -> list[str]:
        """What the scores are called: the models, or the outputs of a functional of one's own."""
        return list(self.order.labels.names)

    @property
    def contexts(self) -> list[Any]:
        """Identifiers of the n contexts."""
        return list(self.order.labels.contexts)

    @property
    def position_bias(self) -> bool:
        """Whether both orders of a pair have propensities of their own."""
        return self.order.problem.pairs.ordered

    @property
    def budget(self) -> float:
        """What the plan was allowed to cost."""
        return self.filled.budget

    @property
    def expected_cost(self) -> float:
        """What it costs in expectation."""
        return self.filled.cost

    @property
    def slack(self) -> bool:
        """Whether a larger budget would buy nothing: every label that tells something is bought already."""
        return self.filled.multiplier == 0

    @property
    def objective(self) -> float:
        """tr L Sigma L' ("A") or log det of the reduced Sigma ("D"), Sigma being n times the covariance."""
        return self.order.criterion.objective(self.filled.sigma)

    @property
    def uniform_objective(self) -> float:
        """The objective of the plan that labels all pairs alike at the same cost."""
        return self.order.criterion.objective(self.filled.uniform_sigma)

    @property
    def kkt_residual(self) -> float:
        """Largest relative violation of the optimality conditions; before exploration is mixed in."""
        return self.filled.kkt_residual

    @property
    def std_errors(self) -> pd.Series:
        """Predicted standard errors of the scores by model."""
        return self._errors(self.filled.sigma, "std_errors")

    @property
    def uniform_std_errors(self) -> pd.Series:
        """Those of the uniform plan of the same cost."""
        return self._errors(self.filled.uniform_sigma, "uniform_std_errors")

    def cov_params(self, uniform: bool = False) -> pd.DataFrame:
        """Predicted covariance of the scores, (K, K), for the plan or for the uniform one of the same cost."""
        sigma = self.filled.uniform_sigma if uniform else self.filled.sigma
        return pd.DataFrame(sigma / self.order.problem.n_contexts, index=self.names, columns=self.names)

    def _errors(self, sigma: FloatArray, name: str) -> pd.Series:
        variances = np.maximum(np.diag(sigma), 0) / self.order.problem.n_contexts
        return pd.Series(np.sqrt(variances), index=self.names, name=name)

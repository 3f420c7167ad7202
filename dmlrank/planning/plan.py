"""A labelling plan: propensities, what they cost and buy, and the rows to send to annotators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .._options import resolve_seed
from ..data.preferences import FloatArray
from ..inference.covariance import Covariance, free_basis
from .order import Filled, Order, fill
from .sampling import draw_cells, sample_frame


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """Which pairs are labelled on which contexts, with what probability. Made by :func:`dmlrank.design`.

    Attributes
    ----------
    propensity : ndarray, shape (n, K, K)
        Probability that the pair is labelled on the context, zero off the graph; j first and k second in ``[:, j, k]``.
        With ``position_bias=False`` symmetric: that of either order.
    order : Order
        What was ordered.
    filled : Filled
        What it is filled with.
    """

    propensity: FloatArray
    order: Order
    filled: Filled

    @property
    def models(self) -> list[str]:
        """Names of the K models, in the order of every array."""
        return list(self.order.labels.models)

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

    def covariance(self, uniform: bool = False) -> Covariance:
        """Predicted covariance of the scores, for the plan or for the uniform one."""
        sigma = self.filled.uniform_sigma if uniform else self.filled.sigma
        return Covariance(sigma / self.order.problem.n_contexts, free_basis(self.order.gauge, len(self.models)))

    def sample(self, rng: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw what is to be labelled.

        Pairs are drawn independently, or at most one of a context where the plan says so. With ``position_bias=False``
        the order in which a drawn pair is shown is drawn, too.

        Parameters
        ----------
        rng : int, Generator or None

        Returns
        -------
        DataFrame
            A row for every label to buy: the columns that identify the context, the two models in the order in which
            they are shown, and ``propensity``, which estimation needs (``dml_rank(..., propensity="propensity")``).
            Contexts without a label have one row with the others missing: they tell what prompts are like.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(100, rng=0)), budget=30)
        >>> int(plan.sample(rng=0)["propensity"].count())
        22
        """
        generator = np.random.default_rng(resolve_seed(rng)) if not isinstance(rng, np.random.Generator) else rng
        cells = draw_cells(self.filled.propensity, self.order.problem.pairs, self.order.problem.one_pair, generator)
        return sample_frame(cells, self.propensity, self.order.labels)

    def _errors(self, sigma: FloatArray, name: str) -> pd.Series:
        variances = np.maximum(np.diag(sigma), 0) / self.order.problem.n_contexts
        return pd.Series(np.sqrt(variances), index=self.models, name=name)

    def __repr__(self) -> str:
        size = f"{len(self.propensity):,} contexts, {len(self.models)} models"
        return f"<Plan: {self.order.criterion.kind}-optimal, {size}, cost {self.expected_cost:,.6g}>"


def make_plan(order: Order, budget: float) -> Plan:
    """The plan that fills an order within a budget."""
    filled = fill(order, budget)
    return Plan(order.problem.pairs.table(filled.propensity), order, filled)

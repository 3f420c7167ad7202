r"""The design problem of a plan for scores: which models are run on which prompts.

Notes
-----
Let m_j be the prediction of the score of model j, r_j what it leaves, and R_jk(x) = E[r_j r_k | x]. Each prompt has one
uniform number, and a model is run where the number is below its propensity p_j. Models are then run on the same prompts
as far as their propensities allow (common random numbers), both j and k with probability min(p_j, p_k), and

    n Var(estimate)_jk = Cov(Y_j, Y_k) + E[R_jk (min(p_j, p_k) / (p_j p_k) - 1)] = B_jk + E[R_jk / max(p_j, p_k)]

with B = Cov(Y) - E[R]. With the contrasts L the criterion is the trace of L (.) L'. Models that are compared, directly
or through others, form a *group* with one propensity. The criterion is then a sum over prompts and groups of

    a_g(x) / p_g,    a_g = sum over contrasts l of E[(sum_{j in g} l_j r_j)^2 | x],

because contrasts do not connect groups: the allocation of Neyman, p_g proportional to sqrt(a_g / cost of the group),
between the propensities so far and one. Without contrasts every model is a group. A model that was run on every prompt
has r = 0, and needs no run.

R is learnt from the residuals of the fit: variances are quadratic in the prediction (for scores of 0 and 1 they are
m (1 - m)), with a factor for each model, and correlations are constant.

References
----------
Neyman (1934), On the two different aspects of the representative method; Zrnic and Candes (2024), Active statistical
inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError
from .allocation import CellRates, Constraints, Propensities, at_rows, propensity_table
from .problem import DesignProblem, Pairs
from .specification import PlanNames


@dataclass(frozen=True, slots=True, eq=False)
class RunGroups(Pairs):
    """The groups of models that are run together on a prompt, in the place of pairs.

    group (K,): Group of each model; -1 for a model that was run on every prompt.
    """

    group: IntArray

    def matrices(self, columns: FloatArray) -> FloatArray:
        """Return propensities of models, (n, K), from those of groups, (n, G)."""
        return np.hstack([columns, np.ones((len(columns), 1))])[:, self.group]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreProblem(DesignProblem):
    """A design problem for means of scores, with groups of models for pairs; ``mu`` (n, K) are residual deviations.

    correlation (K, K): Correlation of residuals.
    before (n, K): Propensities of the rounds so far.
    is_there (n, K): Whether there is a score.
    cost_of_run (n or 1, K): Cost of a run; ``cost`` has those of groups.
    """

    correlation: FloatArray
    before: FloatArray
    is_there: NDArray[np.bool_]
    cost_of_run: FloatArray
    of_scores: ClassVar[bool] = True

    @property
    def deviation(self) -> FloatArray:
        """Standard deviations of residuals, (n, K)."""
        assert isinstance(self.mu, np.ndarray)
        return self.mu

    @property
    def groups(self) -> list[IntArray]:
        """The models of each group."""
        assert isinstance(self.pairs, RunGroups)
        return [np.flatnonzero(self.pairs.group == g) for g in range(len(self.pairs))]

    @property
    def spent(self) -> float:
        """Expected cost of the rounds so far, of models that are not complete."""
        assert isinstance(self.pairs, RunGroups)
        return float((self.before * self.cost_of_run)[:, self.pairs.group >= 0].sum())

    def sample(self) -> None:
        return None

    def expected_cost(self, propensities: Propensities) -> float:
        return float((propensity_table(propensities) * self.cost).sum()) - self.spent

    def expected_runs(self, propensities: Propensities) -> FloatArray:
        """Return the expected number of further runs of each model, (K,)."""
        return np.asarray((self.pairs.matrices(propensity_table(propensities)) - self.before).sum(axis=0))

    def constraints(self, lower: float, budget: float) -> Constraints:
        before = np.stack([self.before[:, models].max(axis=1) for models in self.groups], axis=1)
        least = np.minimum(np.maximum(before, lower), 1.0)
        needed = self.expected_cost(least)
        if needed > budget * (1 + 1e-9):
            raise OptionError(
                f"budget={budget:g} is too small: to run the compared models on the same prompts with at least the "
                f"propensities of earlier rounds, and at least {lower:.3g}, costs {needed:.6g}; raise the budget, or "
                f"lower min_propensity"
            )
        return Constraints(self.cost, least, budget + self.spent, False)

    def label_rates(self, metric: FloatArray) -> CellRates:
        weighed, rates = metric * self.correlation, np.empty(self.shape)
        for g, models in enumerate(self.groups):
            deviation = self.deviation[:, models]
            rates[:, g] = ((deviation @ weighed[np.ix_(models, models)]) * deviation).sum(axis=1)
        return CellRates(np.sqrt(np.maximum(rates, 0) * self.scale(slice(0, self.n_rows)) / self.cost))

    def labelling_covariance(self, propensities: Propensities) -> FloatArray:
        table, groups, total = propensity_table(propensities), self.groups, np.zeros(self.correlation.shape)
        weight = self.scale(slice(0, self.n_rows))[:, 0] / self.n_contexts
        for g, models in enumerate(groups):
            for h, others in enumerate(groups[: g + 1]):
                scaled = self.deviation[:, models] * (weight / np.maximum(table[:, g], table[:, h]))[:, None]
                total[np.ix_(models, others)] = scaled.T @ self.deviation[:, others]
                total[np.ix_(others, models)] = total[np.ix_(models, others)].T
        return total * self.correlation

    def scale(self, part: slice) -> FloatArray:
        return np.square(at_rows(self.context_weight, part))[:, None]

    def draw(self, propensities: Propensities, names: PlanNames, rng: np.random.Generator) -> pd.DataFrame:
        """Draw the further runs, in the order of the prompts, with the propensities after this round.

        The uniform number of a prompt lies above the propensities of models without a score, and below those of models
        with one.
        """
        assert isinstance(self.pairs, RunGroups)
        is_open, after = self.pairs.group >= 0, self.pairs.matrices(propensity_table(propensities))
        low = np.where(self.is_there | ~is_open, 0.0, self.before).max(axis=1)
        high = np.where(self.is_there & is_open, self.before, 1.0).min(axis=1)
        uniform = low + (high - low) * rng.random(len(low))
        prompt, model = np.nonzero((uniform[:, None] < after) & ~self.is_there)
        ids, columns = names.contexts[prompt], list(names.context_columns)
        frame = pd.DataFrame({columns[0]: list(ids)}) if len(columns) == 1 else pd.DataFrame(list(ids), columns=columns)
        frame[names.first_column] = np.array(names.models, dtype=object)[model]
        return frame.infer_objects().assign(propensity=after[prompt, model])

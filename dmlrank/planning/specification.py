"""A plan's specification (its purpose and its limits) and its solution (the optimal propensities).

Sigma is n times the covariance of the scores. It is the sum of the covariance of the scores between contexts, which no
plan changes, and of the *labelling covariance* E sum_jk M_jk / pi_jk, which becomes smaller when the propensities pi
become larger; see :func:`dmlrank.design`. The labels of an earlier fit make Sigma smaller; see
:class:`dmlrank.planning.criteria.Precision`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .._utils.computation import warn
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import CellRates, Computed, Propensities, Rows, propensity_table
from .criteria import Criterion, EarlierLabels, Optimum, Precision, SearchStart, optimise
from .problem import DesignProblem, PlanNames

# One minus the level of intervals and tests where no fit has one.
ALPHA = 0.05
# Without min_propensity= the smallest propensity is this share of the uniform plan's propensity.
_SMALLEST_SHARE = 0.1
# Violation of the optimality conditions above which there is a warning.
_LARGEST_RESIDUAL = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class PlanSpecification:
    """The purpose of a plan and its limits, the budget aside.

    contrasts (J, K): Coefficients of the contrasts that the plan is for; J is 0 for a plan for all scores.
    contrast_labels: Names of the contrasts.
    scores (K,): The fit's estimates where a fit made the plan, else the mean of F(mu).
    between_covariance (K, K): Covariance of the scores between contexts.
    full_covariance (K, K): Labelling covariance with a label on every pair of every context.
    gauge: Coefficients of the combinations of scores that the functional fixes; K columns.
    explore: Share of the uniform plan that is mixed in.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C); None for a plan without a
        fit.
    earlier: The labels of the fit, to which those of the plan are added.
    alpha: One minus the level of intervals and tests where the caller of a method gives none.
    seed: Seed of the draws behind critical values.
    questions: Pairs of models whose order ends rounds of labelling when it is decided.
    """

    problem: DesignProblem
    criterion: Criterion
    contrasts: FloatArray
    contrast_labels: tuple[str, ...]
    scores: FloatArray
    between_covariance: FloatArray
    full_covariance: FloatArray
    gauge: FloatArray
    min_propensity: float | None
    explore: float
    names: PlanNames
    predict: Callable[[object], FloatArray] | None = None
    earlier: EarlierLabels | None = None
    alpha: float = ALPHA
    seed: int = 0
    questions: tuple[tuple[str, str], ...] = ()

    @property
    def precision(self) -> Precision:
        """How precise the scores become, as a function of the labelling covariance."""
        return Precision(self.criterion, self.between_covariance, self.earlier)

    @property
    def max_uniform(self) -> float:
        """The largest propensity that all pairs can have at the same time."""
        return 1 / len(self.problem.pairs) if self.problem.one_pair else 1.0

    def uniform(self, cost: float) -> float:
        """Return the uniform plan's propensity at this cost, or the largest possible one."""
        problem = self.problem
        return min(self.max_uniform, (cost + problem.spent) / (problem.total_cost + problem.spent))

    def smallest_propensity(self, budget: float) -> float:
        """Return the smallest propensity of a plan within a budget."""
        if self.min_propensity is None:
            return _SMALLEST_SHARE * self.uniform(budget)
        if self.min_propensity > self.max_uniform * (1 + 1e-12):
            raise OptionError(
                f"min_propensity={self.min_propensity:g} on {len(self.problem.pairs)} pairs is more than one pair per "
                f"context; with one_pair=True min_propensity is at most {self.max_uniform:.6g}"
            )
        least = self.min_propensity * self.problem.total_cost
        if least > budget * (1 + 1e-12):
            raise OptionError(
                f"budget={budget:g} is too small for min_propensity={self.min_propensity:g} on every pair; raise the "
                f"budget to {least:.8g}, or lower min_propensity to {budget / self.problem.total_cost:.6g}"
            )
        return self.min_propensity


@dataclass(frozen=True, slots=True, eq=False)
class PlanSolution:
    """The optimal propensities of a specification within a budget, and the covariance that they lead to.

    smallest_propensity: The smallest propensity that a pair of the graph may have, before the uniform plan is mixed in.
    propensities (g, m): Propensities of the m pairs by row of the problem.
    sigma, uniform_sigma (K, K): n times the covariance of the scores: for the plan, and for the uniform plan of the
        same cost.
    optimum: The optimum before the uniform plan is mixed in. Its violation of the optimality conditions is NaN where it
        was not computed, which saves time in a search over budgets. The multiplier of its allocation is n times the
        amount by which one more unit of budget lowers the objective.
    """

    budget: float
    expected_cost: float
    smallest_propensity: float
    propensities: Propensities
    sigma: FloatArray
    uniform_sigma: FloatArray
    optimum: Optimum

    @property
    def propensity(self) -> FloatArray:
        """All propensities as an array, (g, m), computed on every call."""
        return propensity_table(self.propensities)

    @property
    def slack(self) -> bool:
        """Whether a larger budget would change nothing."""
        return self.optimum.allocation.multiplier == 0


def solve(
    specification: PlanSpecification,
    budget: float,
    *,
    rates: CellRates | None = None,
    start: SearchStart | None = None,
    certify: bool = True,
) -> PlanSolution:
    """Find the optimal propensities within a budget, mixed with the uniform plan where ``explore`` is positive."""
    problem, precision, explore = specification.problem, specification.precision, specification.explore
    lower = specification.smallest_propensity(budget)
    best = optimise(problem, precision, lower=lower, budget=budget, rates=rates, start=start, certify=certify)
    if best.kkt_residual > _LARGEST_RESIDUAL:
        warn(
            f"the plan violates the optimality conditions by {best.kkt_residual:.1e} (relative; kkt_residual), more "
            f"than {_LARGEST_RESIDUAL:g}; the plan keeps to the budget and to the smallest propensity, but it may not "
            f"be optimal",
            stacklevel=2,
        )
    propensities, sigma = best.allocation.propensities, best.sigma
    if explore:
        # Both plans keep to the smallest propensity and the budget. So does their mixture.
        rule = partial(_mixed, propensities, explore, specification.uniform(budget))
        propensities = Computed(problem.shape, rule)
        sigma = precision.sigma(problem.labelling_covariance(propensities))
    cost = problem.expected_cost(propensities)
    uniform_sigma = precision.sigma(specification.full_covariance / specification.uniform(cost))
    return PlanSolution(budget, cost, lower, propensities, sigma, uniform_sigma, best)


def _mixed(propensities: Propensities, share: float, uniform: float, rows: Rows) -> FloatArray:
    """Return the propensities of some rows, mixed with a share of the uniform plan."""
    return (1 - share) * propensities[rows] + share * uniform

"""Regret of a plan: what it loses if the probabilities that it was made from are wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..exceptions import NuisanceError, OptionError
from .allocation import Constraints, allocate
from .propensities import CellRates
from .specification import PlanSolution, PlanSpecification
from .validate import check_mu, mu_array


@dataclass(frozen=True, slots=True)
class Regret:
    """What a plan made from probabilities mu_hat loses if the probabilities are mu.

    All losses are in units of the sum of the variances of what the plan is for (its trace, over n).

    Attributes
    ----------
    excess : float
        The plan's sum of variances less that of the plan that knows mu, at the same budget and floor.
    relative : float
        The same as a share of what the plan that knows mu reaches.
    uniform_excess : float
        What the uniform plan of the same cost loses.
    sharp_bound : float
        Bound on ``excess`` from mu_hat and mu alone: (1/n) E sum |a(mu_hat) - a(mu)| (1 / pi + 1 / floor), and what
        exploration costs under mu_hat.
    bound : float
        The coarser bound of the theorem, (2 / (floor n)) E sum |a(mu_hat) - a(mu)|, and what exploration costs.
    distance : float
        E sum over pairs of |a(mu_hat) - a(mu)|, a being the information of a label.
    floor : float
        The plan's smallest propensity before exploration is mixed in.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thm:aopt_robustness]; the sharp bound is a step of its proof.
    """

    excess: float
    relative: float
    uniform_excess: float
    sharp_bound: float
    bound: float
    distance: float
    floor: float

    def __str__(self) -> str:
        return (
            f"If these probabilities are true, the plan's sum of variances is {100 * self.relative:.1f} % above the "
            f"best: {self.excess:.3g} (the uniform plan's {self.uniform_excess:.3g}), at most {self.sharp_bound:.3g}"
        )


def regret_of(specification: PlanSpecification, solution: PlanSolution, mu: ArrayLike) -> Regret:
    """Return what the plan loses if the probabilities are ``mu``, (n, K, K, C).

    Raises
    ------
    OptionError
        If the plan is D-optimal: the theorem is about the trace.
    NuisanceError
        If ``mu`` has another shape than the plan's, or no probabilities.
    """
    problem, criterion = specification.problem, specification.criterion
    if criterion.kind == "D":
        raise OptionError(
            "this plan has criterion='D', which minimises a determinant, but regret is about sums of variances; make "
            "the plan with criterion='A'"
        )
    if problem.interdependent:
        raise OptionError(
            "this plan has estimator='bt_restricted', where the information of a label depends on the other labels of "
            "its prompt; regret is about estimator='debiased', where this is not so"
        )
    if specification.earlier is not None:
        raise OptionError(
            "this plan adds labels to those of a fit, but regret is about an estimate from the planned labels alone; "
            "make the plan with design(..., from_scratch=True)"
        )
    table = mu_array(mu)
    shape = (problem.n_contexts, *problem.mu.shape[1:])
    if table.shape != shape:
        raise NuisanceError(f"mu has shape {table.shape}, the plan was made from {shape}")
    names, explore = specification.names, specification.explore
    check_mu(table, names.models, names.contexts, problem.pairs.ordered)
    metric, n = criterion.metric(specification.between_covariance), problem.n_contexts
    _, between_covariance, truth = problem.of_contexts(table).scan()
    everyone = problem.rows_of(slice(0, n))
    believed, real = problem.label_information(metric)[everyone], truth.label_information(metric)
    constraints = Constraints(truth.cost, np.full((1, 1), solution.floor), solution.budget, problem.one_pair)
    best = allocate(CellRates.of(real, truth.cost), constraints, n_jobs=problem.n_jobs).propensity
    chosen, uniform = solution.propensity[everyone], specification.uniform(solution.expected_cost)
    least = float((real / best).sum()) / n
    between = float(np.trace(metric @ between_covariance))
    excess = float((real / chosen).sum()) / n - least
    gap = np.abs(believed - real)
    # The theorem is about the minimiser. A mixture with the uniform plan loses in addition what it loses under mu_hat.
    pure = (chosen - explore * specification.uniform(solution.budget)) / (1 - explore)
    mixing = float((believed / chosen - believed / pure).sum()) / n if explore else 0.0
    return Regret(
        excess=excess / n,
        relative=excess / (least + between),
        uniform_excess=(float(real.sum()) / uniform / n - least) / n,
        sharp_bound=(float((gap * (1 / chosen + 1 / solution.floor)).sum()) / n + mixing) / n,
        bound=(2 * float(gap.sum()) / (solution.floor * n) + mixing) / n,
        distance=float(gap.sum()) / n,
        floor=solution.floor,
    )

"""Regret of a plan: how much larger variances are if the probabilities that the plan was made from are wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError
from ..tables.summary_table import Summary
from .allocation import Constraints, allocate
from .propensities import CellRates
from .specification import PlanSolution, PlanSpecification
from .validate import check_mu, mu_array


@dataclass(frozen=True, slots=True)
class Regret:
    """The loss of a plan that was made from probabilities mu_hat if the true probabilities are mu.

    The loss is compared with the best plan for mu, which has the same budget and the same smallest propensity. All
    losses are differences of sums of variances: of the variances of the plan's contrasts, or of all scores. Below, pi
    are the propensities of the plan, a(mu) is the information of a label of a pair under mu, and sums are over pairs.

    Attributes
    ----------
    excess : float
        Sum of variances of the plan minus that of the best plan.
    relative : float
        ``excess`` divided by the sum of variances of the best plan.
    uniform_excess : float
        Sum of variances of the uniform plan of the same cost minus that of the best plan.
    sharp_bound : float
        Upper bound on ``excess``: (1/n) E sum ``|a(mu_hat) - a(mu)|`` (1 / pi + 1 / floor), plus the loss from
        exploration under mu_hat.
    bound : float
        The coarser upper bound of the theorem: (2 / (floor n)) E sum ``|a(mu_hat) - a(mu)|``, plus the loss from
        exploration under mu_hat.
    distance : float
        E sum ``|a(mu_hat) - a(mu)|``.
    floor : float
        The plan's smallest propensity before the uniform plan is mixed in.

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

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report: the losses and their bounds.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        figures = (
            ("Sum of variances above that of the best plan", f"{self.excess:.3g}"),
            ("The same as a share of the best plan's sum", f"{100 * self.relative:.1f} %"),
            ("Upper bound", f"{self.sharp_bound:.3g}"),
            ("Coarser upper bound of the theorem", f"{self.bound:.3g}"),
            ("The uniform plan's sum above that of the best plan", f"{self.uniform_excess:.3g}"),
            ("Distance in the information of labels", f"{self.distance:.3g}"),
            ("Smallest propensity", f"{self.floor:.3g}"),
        )
        table = Summary("Regret of a Labelling Plan", (), (("value", 1),), figures, (str(self),), row_head="figure")
        return table.with_title(title)

    def __str__(self) -> str:
        return (
            f"If these probabilities are true, the plan's sum of variances is {100 * self.relative:.1f} % above that "
            f"of the best plan. The difference is {self.excess:.3g}, with the upper bound {self.sharp_bound:.3g}; the "
            f"difference between the uniform plan and the best plan is {self.uniform_excess:.3g}."
        )


def regret_of(specification: PlanSpecification, solution: PlanSolution, mu: ArrayLike) -> Regret:
    """Return the loss of a plan if the true probabilities are ``mu``, (n, K, K, C)."""
    table = _checked_probabilities(specification, mu)
    problem, explore = specification.problem, specification.explore
    metric, n = specification.criterion.metric(specification.between_covariance), problem.n_contexts
    _, between_covariance, truth = problem.of_contexts(table).scan()
    row_of_context = problem.rows_of(slice(0, n))
    assumed_information = problem.label_information(metric)[row_of_context]
    information = truth.label_information(metric)
    floor = solution.smallest_propensity
    constraints = Constraints(truth.cost, np.full((1, 1), floor), solution.budget, problem.one_pair)
    best = allocate(CellRates.of(information, truth.cost), constraints, n_jobs=problem.n_jobs).propensity
    propensity, uniform = solution.propensity[row_of_context], specification.uniform(solution.expected_cost)
    best_variance = float((information / best).sum()) / n
    between = float(np.trace(metric @ between_covariance))
    excess = float((information / propensity).sum()) / n - best_variance
    gap = np.abs(assumed_information - information)
    # The theorem is about the optimal propensities. Exploration mixes the uniform plan into them; the bounds allow for
    # the loss of this mixture under mu_hat.
    optimal = (propensity - explore * specification.uniform(solution.budget)) / (1 - explore)
    loss_from_mixing = 0.0
    if explore:
        loss_from_mixing = float((assumed_information / propensity - assumed_information / optimal).sum()) / n
    return Regret(
        excess=excess / n,
        relative=excess / (best_variance + between),
        uniform_excess=(float(information.sum()) / uniform / n - best_variance) / n,
        sharp_bound=(float((gap * (1 / propensity + 1 / floor)).sum()) / n + loss_from_mixing) / n,
        bound=(2 * float(gap.sum()) / (floor * n) + loss_from_mixing) / n,
        distance=float(gap.sum()) / n,
        floor=floor,
    )


def _checked_probabilities(specification: PlanSpecification, mu: ArrayLike) -> FloatArray:
    """Return probabilities, (n, K, K, C), after a check of them and of the plan; see :func:`regret_of` for errors."""
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
        raise NuisanceError(
            f"mu has shape {table.shape}, but the plan was made from probabilities of shape {shape}; pass mu of the "
            f"plan's contexts, models and categories"
        )
    names = specification.names
    check_mu(table, names.models, names.contexts, problem.pairs.ordered)
    return table

"""What was ordered of a plan, and the numbers of the plan that fills it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.preferences import FloatArray
from ..exceptions import DmlrankWarning, OptionError
from .criteria import Criterion, optimise
from .problem import Problem

# Without min_propensity= no pair gets less than this share of what the uniform plan would give it.
_FLOOR = 0.1
# A larger violation of the optimality conditions is warned of.
_CERTAIN = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Names that a plan's arrays are shown with.

    Attributes
    ----------
    models : tuple of str
    contexts : ndarray of object, shape (n,)
        Identifiers; tuples where several columns identify a context.
    columns : tuple of str
        The columns that identify a context.
    first, second : str
        The columns of the model shown first and of the one shown second.
    outputs : tuple of str
        Names of what is estimated where these are not the models' scores.
    """

    models: tuple[str, ...]
    contexts: Any
    columns: tuple[str, ...]
    first: str
    second: str
    outputs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the scores are called: the models, or a functional's own outputs."""
        return self.outputs or self.models


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What was ordered.

    Attributes
    ----------
    problem : Problem
    criterion : Criterion
    asked : ndarray, shape (J, K)
        The contrasts, with ``asked_labels``; none where all scores are wanted.
    scores : ndarray, shape (K,)
        Mean of F(mu).
    between : ndarray, shape (K, K)
        Its covariance over contexts.
    even : ndarray, shape (K, K)
        What a label on every pair adds to it.
    gauge : ndarray, shape (g, K)
    min_propensity : float or None
    explore : float
    labels : Labels
    predict : callable, optional
        Probabilities, (n, K, K, C), of further contexts from a frame of them, where a fit made the plan.
    """

    problem: Problem
    criterion: Criterion
    asked: FloatArray
    asked_labels: tuple[str, ...]
    scores: FloatArray
    between: FloatArray
    even: FloatArray
    gauge: FloatArray
    min_propensity: float | None
    explore: float
    labels: Labels
    predict: Callable[[Any], FloatArray] | None = None

    @property
    def cap(self) -> float:
        """The largest propensity that all pairs can have together."""
        return 1 / len(self.problem.pairs) if self.problem.one_pair else 1.0

    def uniform(self, cost: float) -> float:
        """The propensity that is the same for all pairs and costs as much, or the largest possible one."""
        return min(self.cap, cost / self.problem.total_cost)

    def floor(self, budget: float) -> float:
        """The smallest propensity of a plan.

        Raises
        ------
        OptionError
            If the floors cost more than the budget, or add up to more than one label where one is allowed.
        """
        if self.min_propensity is None:
            return _FLOOR * self.uniform(budget)
        if self.min_propensity > self.cap * (1 + 1e-12):
            raise OptionError(
                f"min_propensity={self.min_propensity:g} on {len(self.problem.pairs)} pairs is more than one pair per "
                f"context; with one_pair=True it is at most {self.cap:.6g}"
            )
        least = self.min_propensity * self.problem.total_cost
        if least > budget * (1 + 1e-12):
            raise OptionError(
                f"budget={budget:g} is less than what min_propensity={self.min_propensity:g} costs; the smallest "
                f"feasible budget is {least:.8g}, or lower min_propensity to {budget / self.problem.total_cost:.6g}"
            )
        return self.min_propensity


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A filled order: the propensities and what they lead to.

    Attributes
    ----------
    budget, cost, floor : float
    propensity : ndarray, shape (n, m)
    sigma, rule_sigma, uniform_sigma : ndarray, shape (K, K)
        n times the covariance of the estimates: for the plan, for the plan before exploration is mixed in, and for the
        uniform one of the same cost.
    kkt_residual : float
    multiplier : float
        What one more unit of budget would take off the objective, times n; zero where the budget is slack.
    n_steps : int
    """

    budget: float
    cost: float
    floor: float
    propensity: FloatArray
    sigma: FloatArray
    rule_sigma: FloatArray
    uniform_sigma: FloatArray
    kkt_residual: float
    multiplier: float
    n_steps: int


def fill(order: Order, budget: float, worth: FloatArray | None = None) -> Filled:
    """The optimal plan within a budget, mixed with the uniform one where exploration is asked for.

    ``worth``, (n, m), is what a label of each cell is worth to an A criterion, where that is known already.
    """
    problem, floor = order.problem, order.floor(budget)
    best = optimise(problem, order.criterion, np.full((1, 1), floor), budget, order.between, worth)
    if best.kkt_residual > _CERTAIN:
        warnings.warn(
            f"the plan violates the optimality conditions by {best.kkt_residual:.1e} (relative; its kkt_residual): it "
            f"is feasible, but not certified as optimal",
            DmlrankWarning,
            stacklevel=2,
        )
    propensity, sigma = best.allocation.propensity, best.sigma
    if order.explore:
        # Both plans meet floor and budget, so that their mixture does.
        propensity = (1 - order.explore) * propensity + order.explore * order.uniform(budget)
        sigma = order.between + problem.spread(propensity)
    cost = problem.cost_of(propensity)
    uniform = order.between + order.even / order.uniform(cost)
    multiplier = best.allocation.multiplier
    return Filled(
        budget, cost, floor, propensity, sigma, best.sigma, uniform, best.kkt_residual, multiplier, best.n_steps
    )

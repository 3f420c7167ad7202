"""How a plan is made: the steps in their order, the same for votes and scores, from a fit and from scratch.

1. *The problem*, what a label or a run adds to the precision of scores and what it costs: a ``VoteProblem`` from
   probabilities (:mod:`~dmlrank.planning.design`) or from a fit (:mod:`~dmlrank.planning.from_fit`), a ``ScoreProblem``
   from a fit of scores (:mod:`~dmlrank.planning.score_plan`), also of a table of scores.
2. *The goal*, a criterion for contrasts (:mod:`~dmlrank.planning.criteria`) with what a fit knows, and *the limits*:
   budget, costs, smallest propensities (:mod:`~dmlrank.planning.plan_options`).
3. *The specification* (:mod:`~dmlrank.planning.specify`): one pass over the problem gives the scores and their
   covariance between prompts; the goal becomes coefficients of contrasts. It says how precise scores become.
4. *The solution* (:mod:`~dmlrank.planning.search`): steps, each of which is an allocation of the budget
   (:mod:`~dmlrank.planning.allocation`). Where the fit weights pairs by counts, weights are searched for, too
   (:mod:`~dmlrank.planning.weights_by_counts`).
5. *The plan* (:mod:`~dmlrank.planning.plan`) shows the solution: predicted precision and budgets
   (:mod:`~dmlrank.planning.precision`), a summary (:mod:`~dmlrank.planning.plan_summary`), samples.
"""

from __future__ import annotations

from .criteria import Goal
from .plan import Plan
from .plan_options import Limits
from .problem import Problem
from .search import solve
from .specify import specify
from .weights_by_counts import solve_by_counts


def build(problem: Problem, goal: Goal, limits: Limits) -> Plan:
    """Return the optimal plan of a problem for a goal within limits."""
    specification = specify(problem, goal, limits)
    return Plan(solve(specification, limits.budget) if goal.counts is None else solve_by_counts(specification))

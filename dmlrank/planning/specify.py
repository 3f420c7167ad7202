r"""``specify``: a problem, a goal and limits become the specification of a plan, which says how precise scores become.

Sigma is n times the covariance of the scores, and L, (J, K), holds the coefficients of the J contrasts that the plan is
for. The A criterion is the trace of L Sigma L', the D criterion its log determinant. The *labelling covariance* is the
part of Sigma that depends on the propensities of the plan: E sum_jk M_jk / pi_jk (:mod:`dmlrank.planning.problem`).

Notes
-----
Let B be the covariance of the scores between contexts, A the covariance of the fit, times n, and V the labelling
covariance. Without earlier labels :math:`\Sigma = B + V`. With them, Sigma is the covariance of the estimate from all
labels, times the number of contexts of the plan. Given the prompts, the errors of the labels are independent.

- A plan for new prompts: one fit of all rows, each with the propensity of its own round, weights every prompt equally.
  If the plan's prompts are a share w of all prompts, :math:`\Sigma = (1 - w)^2 A + w^2 (B + V)`. Sigma may be larger
  than A where few labels are spread over many new prompts.
- Labels that are joined pair by pair, with the propensities of all rounds together: :math:`\Sigma = B + V`, or
  :math:`w B + V` with new prompts.
- A plan for the fit's own prompts: the estimate from all labels is at least as precise as the best weighted mean of the
  fit's estimate and the one from the planned labels, which share B, :math:`\Sigma = B + (A^{-1} + V^{-1})^{-1}`. Here A
  is the part of the fit's covariance beyond B. One fit of all rows weights labels as if they were independent. What the
  dependence of the fit's labels in clusters adds to its covariance, C, is therefore not in A and adds :math:`G C G'`
  with the weight :math:`G = V (A + V)^{-1}` of the fit's estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..data.preferences import FloatArray
from .criteria import Goal, Targets, Top, criterion_rows, remark_on
from .plan_options import Limits
from .problem import Problem

# Share of the largest eigenvalue below which a direction has no variance.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Specification:
    """What a plan is to reach: a problem, a goal and limits, with what follows from the three.

    scores (K,): Those that the plan starts from.
    contrasts: Coefficients, (J, K), and names of the contrasts that the plan is for; J is 0 for all scores.
    rows: L, the coefficients whose covariance the criterion is about.
    remark: Sentences of the summary on the fit and the contrasts.
    even_problem: The problem of the uniform plan, where its pairs have other weights than those of the plan.
    """

    problem: Problem
    goal: Goal
    limits: Limits
    scores: FloatArray
    contrasts: Targets
    rows: FloatArray
    remark: str
    even_problem: Problem | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores: those of the models, or of a functional's own outputs."""
        return self.problem.functional.names(self.problem.models)

    @property
    def merit(self) -> FloatArray:
        """Scores of which the highest are the best, (K,)."""
        return self.goal.sign * self.scores

    @property
    def targets(self) -> Targets:
        """What the plan is for: contrasts, or all scores."""
        return self.contrasts if len(self.contrasts[0]) else (np.eye(len(self.scores)), self.names)

    @property
    def gauge(self) -> FloatArray:
        """Coefficients of the combinations of scores that the functional fixes; K columns."""
        return self.problem.functional.gauge(len(self.problem.models)).basis

    @property
    def is_first_place(self) -> bool:
        """Whether the plan asks who is first, so that differences are tested by the test of first place."""
        return isinstance(self.goal.contrasts, Top) and self.goal.contrasts.count == 1

    @property
    def earlier(self) -> FloatArray | None:
        """Covariance of the fit's labels to which those of the plan are added; None for none."""
        return None if self.problem.of_scores else self.goal.earlier

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in the labelling covariance, so that one allocation finds the optimum."""
        goal = self.goal
        of_own = self.earlier is not None and goal.counts is None and goal.share is None
        return goal.criterion == "A" and not of_own

    def objective(self, sigma: FloatArray) -> float:
        """Return the trace of L Sigma L' ("A"), or the log determinant of L Sigma L' ("D")."""
        covariance = self.rows @ sigma @ self.rows.T
        return float(np.trace(covariance) if self.goal.criterion == "A" else np.linalg.slogdet(covariance)[1])

    def sigma(self, labelling: FloatArray) -> FloatArray:
        """Return Sigma, n times the covariance of the scores, from the labelling covariance; (K, K) both."""
        between, earlier, share = self.problem.between, self.earlier, self.goal.share
        if earlier is None:
            return between + labelling
        if self.goal.counts is not None:
            return between * (share or 1.0) + labelling
        if share is not None:
            return (1 - share) ** 2 * earlier + share**2 * (between + labelling)
        beyond = self._beyond(earlier)
        weight = labelling @ _inverse(beyond + labelling)
        return between + symmetric(beyond @ weight.T + weight @ self.goal.dependence @ weight.T)

    def sigma_without_plan(self) -> FloatArray | None:
        """Return Sigma, (K, K), from the earlier labels alone; None without any."""
        earlier, goal = self.earlier, self.goal
        if earlier is None or goal.counts is not None or goal.share is not None:
            return earlier
        return self.problem.between + self._beyond(earlier) + goal.dependence

    def metric(self, labelling: FloatArray) -> FloatArray:
        """Return the derivative of the objective by the labelling covariance, (K, K)."""
        rows, earlier, share = self.rows, self.earlier, self.goal.share
        metric = rows.T @ rows
        if self.goal.criterion == "D":
            inverse = symmetric(np.asarray(np.linalg.inv(rows @ self.sigma(labelling) @ rows.T)))
            metric = np.asarray(rows.T @ inverse @ rows)
        if earlier is None or self.goal.counts is not None:
            return metric
        if share is not None:
            return share**2 * metric
        # Sigma changes by G' dV G with this slope G, and with the weight of dependent labels.
        beyond = self._beyond(earlier)
        inverse = _inverse(beyond + labelling)
        slope = inverse @ beyond
        of_weight = inverse @ self.goal.dependence @ inverse @ labelling @ metric @ slope.T
        return np.asarray(slope @ metric @ slope.T + of_weight + of_weight.T)

    def _beyond(self, earlier: FloatArray) -> FloatArray:
        """Return the part of the fit's covariance beyond B that independent labels would have, (K, K)."""
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        of_labels = earlier - self.goal.dependence - self.problem.between
        return of_eigenvalues(symmetric(of_labels), partial(np.maximum, 0.0))


def specify(problem: Problem, goal: Goal, limits: Limits) -> Specification:
    """Return the specification of a plan; this takes one pass over the probabilities of votes."""
    implied, problem = problem.scanned()
    scores, models = goal.scores(implied), list(problem.functional.names(problem.models))
    contrasts = goal.targets(models, scores)
    rows = criterion_rows(goal.criterion, contrasts, problem.functional.gauge(len(problem.models)).basis)
    about = remark_on(goal.contrasts, models, goal.sign * scores, goal.above)
    about = about.replace("highest", "lowest") if goal.sign < 0 else about
    remark = " ".join(filter(None, [*goal.remarks, about]))
    return Specification(problem, goal, limits, scores, contrasts, rows, remark)


def of_eigenvalues(matrix: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a symmetric matrix with a function of its eigenvalues in their place."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * function(values)) @ vectors.T)


def symmetric(matrix: FloatArray) -> FloatArray:
    """Return the mean of a matrix and its transpose."""
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=ROUNDING, hermitian=True), dtype=np.float64)

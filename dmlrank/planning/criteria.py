r"""The goal of a plan: a criterion, contrasts, and what a fit knows.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray, IntArray
from ..exceptions import HypothesisError, OptionError, check_choice, shown
from ..inference.covariance import Covariance, free_basis
from ..report.phrases import some_of

# Coefficients of combinations of scores, (J, K), and their names.
Targets: TypeAlias = tuple[FloatArray, tuple[str, ...]]
# Share of the largest eigenvalue below which a direction has no variance.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What a plan is for, what a fit knows of it, and how precise scores become.

    contrasts, top, against: What the caller asks for, at most one of the three: combinations of scores, the differences
        that decide which models are the ``top`` best, or those of one model from all others. None: all scores.
    scores (K,): Those that the plan starts from, before :meth:`settled` those of the fit; None: the problem has them.
    sign: -1 where the lowest score of the fit is the best.
    plugin (K,): Plug-in estimates of the fit, where the plan is for other prompts.
    above (K, K): Which models the fit shows to be above which others; None where it is not known.
    aside (q,): Places of the models with too few votes to be rivals; none without a fit.
    earlier (K, K): Covariance of the fit's scores, times the number of contexts of the plan, where the labels of
        the fit are used together with those of the plan.
    share: Share w of the plan's prompts among all prompts; None for a plan for the fit's own prompts.
    fit: Covariance of the fit's scores, whose clusters say how precise standard errors are; None without a fit.
    dependence (K, K): The part of ``earlier`` that comes from the dependence of labels in a cluster.
    counts (K, K): Labels of each pair so far, where pairs are weighted by the counts of all labels, and a fit of all
        labels joins them with those of the plan pair by pair; None: weights stay as they are.
    alpha, seed: Default of intervals and tests, and the seed of the draws behind critical values.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C).
    targets: Coefficients, (J, K), and names of the contrasts, or of all scores.
    rows: L, the coefficients whose covariance the criterion is about.
    """

    criterion: str = "A"
    contrasts: HypothesisLike | None = None
    top: int | None = None
    against: str | None = None
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    sign: int = 1
    plugin: FloatArray | None = None
    above: NDArray[np.bool_] | None = None
    aside: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    earlier: FloatArray | None = None
    share: float | None = None
    fit: Covariance | None = None
    dependence: FloatArray = field(default_factory=lambda: np.zeros(()))
    counts: FloatArray | None = None
    remarks: tuple[str, ...] = ()
    alpha: float = 0.05
    seed: int = 0
    predict: Callable[[object], FloatArray] | None = None
    targets: Targets = field(default_factory=lambda: (np.empty((0, 0)), ()))
    rows: FloatArray = field(default_factory=lambda: np.zeros(()))

    def __post_init__(self) -> None:
        check_choice(self.criterion, ("A", "D"), "criterion")
        given = [f"{name}=" for name in ("contrasts", "top", "against") if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} are both given, and each is what a plan is for; leave one out")

    @property
    def of_all_scores(self) -> bool:
        """Whether the caller asks for all scores."""
        return self.contrasts is None and self.top is None and self.against is None

    def settled(self, implied: FloatArray, names: Sequence[str], gauge: FloatArray) -> Goal:
        """Return the goal of a problem: with scores, from those that it implies, and with coefficients of contrasts."""
        scores = implied
        if len(self.scores):
            # The bias of mu is assumed to be the same on other prompts as on the fit's.
            scores = self.scores if self.plugin is None else self.scores + implied - self.plugin
        contrasts, remark = self.contrasts_of(list(names), scores), self.remark(list(names), scores)
        return replace(
            self,
            scores=scores,
            remarks=(*self.remarks, *([remark] if remark else [])),
            targets=(np.eye(len(scores)), tuple(names)) if self.of_all_scores else contrasts,
            rows=criterion_rows(self.criterion, contrasts, gauge),
        )

    def contrasts_of(self, names: list[str], scores: FloatArray) -> Targets:
        """Return the coefficients of the J contrasts, (J, K), and their names; J is 0 for all scores.

        A plan from a fit asks which models are the best, too: another model may be among them unless simultaneous tests
        of the fit show ``top`` models to be above it. Its differences from those of the best models that it is not
        separated from are contrasts as well. For first place the test is that of first place.
        """
        asked = self.contrasts
        if self.against is not None:
            asked = [(self.against, name) for name in names if name != self.against]
        elif self.top is not None:
            asked = [(names[j], names[k]) for j, k in self._pairs_of_top(self.top, names, scores)]
        if asked is None:
            return np.empty((0, len(names))), ()
        hypothesis = read_hypothesis(asked, names)
        if hypothesis.value.any():
            raise HypothesisError(
                f"contrasts={shown(asked, 80)} has a value other than 0, but a plan makes combinations of scores "
                f"precise, whatever their value; leave the value out"
            )
        return hypothesis.matrix, tuple(hypothesis.labels)

    def _pairs_of_top(self, count: int, names: list[str], scores: FloatArray) -> list[tuple[int, int]]:
        if not 1 <= count <= len(names):
            raise OptionError(f"top={count} is no number of {len(names)} models; give one from 1 to {len(names)}")
        best, others = self._best_and_open(count, scores)
        if count == 1 and self.above is None:
            others = np.delete(np.arange(len(names)), best)
        if count == 1 and not len(others):
            raise OptionError(
                f"top=1 asks who is first, and this is decided: {names[best[0]]} is above every other model; plan for "
                f"more models, such as top=2, or for all scores"
            )
        if count == 1:
            return [(best[0], k) for k in others]
        is_open = [] if self.above is None else [(j, k) for k in others for j in best if not self.above[j, k]]
        return [*combinations(np.sort(best), 2), *is_open]

    def _best_and_open(self, count: int, scores: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the models with the best scores, and the others that may be among the best."""
        order = np.argsort(-self.sign * scores, kind="stable")
        order = order[np.argsort(np.isin(order, self.aside), kind="stable")]
        best, others = order[:count], order[count:]
        if self.above is None:
            return best, others[:0]
        others = others[~np.isin(others, self.aside)]
        return best, others[self.above[:, others].sum(axis=0) < count]

    def remark(self, names: list[str], scores: FloatArray) -> str:
        """Return the sentence of a summary on which models are the best, where the contrasts are about them."""
        if self.top is None:
            return ""
        best, others = ([names[j] for j in part] for part in self._best_and_open(self.top, scores))
        which, few = "highest" if self.sign > 0 else "lowest", ""
        if aside := [names[j] for j in self.aside]:
            few = f" Next to no votes are planned for {some_of(aside)}: too few so far; contrasts= can name them."
        if self.top == 1 and self.above is None:
            return f"The contrasts are the differences of {best[0]}, which has the {which} score, from all others."
        if self.top == 1:
            return (
                f"First place is not decided: {best[0]} has the {which} score, and the plan is for its differences "
                f"from the closest other model{'s' * (len(others) > 1)}, {some_of(others)}.{few}"
            )
        if self.above is None:
            return f"The best {self.top} models are taken to be those with the {which} scores: {some_of(best)}."
        if not others:
            return f"It is decided that the best {self.top} models are {some_of(best)}."
        return (
            f"It is not decided which {self.top} models are the best: besides {some_of(best)}, which have the {which} "
            f"scores, {some_of(others)} may be among them. The contrasts include the differences that decide it."
        )

    @property
    def merit(self) -> FloatArray:
        """Scores of which the highest are the best, (K,)."""
        return self.sign * self.scores

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in the labelling covariance, so that one allocation finds the optimum."""
        of_own = self.earlier is not None and self.counts is None and self.share is None
        return self.criterion == "A" and not of_own

    def objective(self, sigma: FloatArray) -> float:
        """Return the trace of L Sigma L' ("A"), or the log determinant of L Sigma L' ("D")."""
        covariance = self.rows @ sigma @ self.rows.T
        return float(np.trace(covariance) if self.criterion == "A" else np.linalg.slogdet(covariance)[1])

    def sigma(self, labelling: FloatArray, between: FloatArray) -> FloatArray:
        """Return Sigma, n times the covariance of the scores, from the labelling covariance V and B; (K, K) all."""
        if self.earlier is None:
            return between + labelling
        if self.counts is not None:
            return between * (self.share or 1.0) + labelling
        if self.share is not None:
            return (1 - self.share) ** 2 * self.earlier + self.share**2 * (between + labelling)
        beyond = self._beyond(self.earlier, between)
        weight = labelling @ _inverse(beyond + labelling)
        return between + symmetric(beyond @ weight.T + weight @ self.dependence @ weight.T)

    def sigma_without_plan(self, between: FloatArray) -> FloatArray | None:
        """Return Sigma, (K, K), from the earlier labels alone; None without any."""
        if self.earlier is None or self.counts is not None or self.share is not None:
            return self.earlier
        return between + self._beyond(self.earlier, between) + self.dependence

    def metric(self, labelling: FloatArray, between: FloatArray) -> FloatArray:
        """Return the derivative of the objective by the labelling covariance, (K, K)."""
        rows = self.rows
        metric = rows.T @ rows
        if self.criterion == "D":
            inverse = symmetric(np.asarray(np.linalg.inv(rows @ self.sigma(labelling, between) @ rows.T)))
            metric = np.asarray(rows.T @ inverse @ rows)
        if self.earlier is None or self.counts is not None:
            return metric
        if self.share is not None:
            return self.share**2 * metric
        # Sigma changes by G' dV G with this slope G, and with the weight of dependent labels.
        beyond = self._beyond(self.earlier, between)
        inverse = _inverse(beyond + labelling)
        slope = inverse @ beyond
        of_weight = inverse @ self.dependence @ inverse @ labelling @ metric @ slope.T
        return np.asarray(slope @ metric @ slope.T + of_weight + of_weight.T)

    def _beyond(self, earlier: FloatArray, between: FloatArray) -> FloatArray:
        """Return the part of the fit's covariance beyond B that independent labels would have, (K, K)."""
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        return of_eigenvalues(symmetric(earlier - self.dependence - between), partial(np.maximum, 0.0))


def criterion_rows(kind: str, targets: Targets, gauge: FloatArray) -> FloatArray:
    """Return L, the coefficients of the combinations of scores whose covariance the criterion is about, (J, K).

    For "D" the rows are linearly independent, and no combination of them is fixed by the functional.
    """
    rows, labels = targets
    free = free_basis(gauge, rows.shape[1])
    if not len(rows):
        return np.eye(rows.shape[1]) if kind == "A" else free.T
    # The contrasts in coordinates of the combinations that the functional does not fix.
    free_rows = rows @ free
    constant = np.linalg.norm(free_rows, axis=1) <= 1e-9 * np.linalg.norm(rows, axis=1)
    if constant.any():
        raise HypothesisError(
            f"contrast {labels[int(np.argmax(constant))]!r} has a value that the functional fixes; leave it out"
        )
    if kind == "A":
        return rows
    # Some contrasts may follow from others, as one of the three differences of three models follows from the other two.
    # Their covariance has the determinant zero. The criterion takes a basis of the contrasts in their place.
    _, size, directions = np.linalg.svd(free_rows, full_matrices=False)
    return np.asarray(directions[size > 1e-9 * size[0]] @ free.T)


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

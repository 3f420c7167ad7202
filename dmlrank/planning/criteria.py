"""What a plan is for: the criterion (A or D), and the contrasts, such as the differences among the best models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray, IntArray
from ..exceptions import HypothesisError, OptionError, check_choice
from ..inference.covariance import Covariance, free_basis
from ..report.phrases import some_of

# Coefficients of combinations of scores, (J, K), and their names.
Targets: TypeAlias = tuple[FloatArray, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Top:
    """All differences among the ``count`` best models, and those that decide which models these are.

    A plan from a fit asks which models are the best, too: another model may be among them unless simultaneous tests of
    the fit show ``count`` models to be above it. Its differences from those of the best models that it is not separated
    from are contrasts as well, and the plan's summary names the model. A plan from probabilities alone takes the models
    that they rank highest for the best.

    ``Top(1)`` asks who is first: its contrasts are the differences between the model with the highest score and those
    that the fit's test of first place does not separate from it, and this test decides which are found.

    Parameters
    ----------
    count : int
        From 1 to the number of models.

    Examples
    --------
    >>> Top(3).rows(["a", "b", "c", "d"], np.array([0.1, 0.9, 0.5, 0.7]))[1]
    ('b - c', 'b - d', 'c - d')
    """

    count: int

    def rows(
        self, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None = None
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores : ndarray, shape (K,)
            Scores, by which the best models are chosen.
        above : ndarray of bool, shape (K, K), optional
            Whether model j is shown to be above model k, for ``Top(1)`` by the test of first place. None: the models
            with the highest scores are the best.

        Returns
        -------
        coefficients : ndarray, shape (J, K)
            One row for each of the J differences.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.

        Raises
        ------
        OptionError
            If ``count`` is not between 1 and the number of models, or is 1 and first place is decided.
        """
        if not 1 <= self.count <= len(models):
            raise OptionError(
                f"Top({self.count}) has no meaning for {len(models)} models; give a number from 1 to {len(models)}"
            )
        best, others = _best_and_open(self.count, scores, above)
        if self.count == 1:
            if above is None:
                others = np.delete(np.arange(len(models)), best)
            elif not len(others):
                raise OptionError(
                    f"Top(1) asks who is first, and this is decided: {models[best[0]]} is above every other model "
                    f"(test of first place); plan for the differences of more models, such as Top(2), or for all scores"
                )
            pairs = [(best[0], k) for k in others]
        else:
            boundary = [] if above is None else [(j, k) for k in others for j in best if not above[j, k]]
            pairs = [*combinations(np.sort(best), 2), *boundary]
        return _read([(models[j], models[k]) for j, k in pairs], models)


@dataclass(frozen=True, slots=True)
class Against:
    """The differences between one model and each of the others, such as a new model and all earlier ones.

    Parameters
    ----------
    model : str
        Name of the model whose differences from all others matter.

    Examples
    --------
    >>> Against("b").rows(["a", "b", "c"], np.zeros(3))[1]
    ('b - a', 'b - c')
    """

    model: str

    def rows(
        self, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None = None
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores, above : ndarray, shape (K,), and ndarray, shape (K, K), optional
            Not used; arguments because ``Top`` needs them.

        Returns
        -------
        coefficients : ndarray, shape (K - 1, K)
            One row for each difference.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.
        """
        return _read([(self.model, name) for name in models if name != self.model], models)


ContrastsLike: TypeAlias = HypothesisLike | Top | Against | None


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What a plan is for, and what a fit knows of it.

    criterion: "A" for the sum of the variances of the contrasts, "D" for their log determinant.
    contrasts: As the caller gave them; None for all scores.
    estimate (K,): Scores of the fit; None: those that the problem implies.
    sign: -1 where the lowest score of the fit is the best.
    plugin (K,): Plug-in estimates of the fit, where the plan is for other prompts.
    above (K, K): Which models the fit shows to be above which others; None where it is not known.
    earlier (K, K): Covariance of the fit's scores, times the number of contexts of the plan, where the labels of
        the fit are used together with those of the plan. For a round of scores of its own only the summary uses it.
    share: Share w of the plan's prompts among all prompts; None for a plan for the fit's own prompts.
    fit: Covariance of the fit's scores, whose clusters say how precise standard errors are; None without a fit.
    dependence (K, K): The part of ``earlier`` that comes from the dependence of labels in a cluster.
    counts (K, K): Labels of each pair so far, where pairs are weighted by the counts of all labels, and a fit of all
        labels joins them with those of the plan pair by pair; None: weights stay as they are.
    candidate: The last model, if it has no score and another model's stands for it; empty for none.
    remarks: Sentences of the summary, such as doubts about the fit.
    alpha, seed: Default of intervals and tests, and the seed of the draws behind critical values.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C).
    """

    criterion: str = "A"
    contrasts: ContrastsLike = None
    estimate: FloatArray | None = None
    sign: int = 1
    plugin: FloatArray | None = None
    above: NDArray[np.bool_] | None = None
    earlier: FloatArray | None = None
    share: float | None = None
    fit: Covariance | None = None
    dependence: FloatArray = field(default_factory=lambda: np.zeros(()))
    counts: FloatArray | None = None
    candidate: str = ""
    remarks: tuple[str, ...] = ()
    alpha: float = 0.05
    seed: int = 0
    predict: Callable[[object], FloatArray] | None = None

    def __post_init__(self) -> None:
        check_choice(self.criterion, ("A", "D"), "criterion")

    def scores(self, implied: FloatArray) -> FloatArray:
        """Return the scores, (K,), from those that the problem implies, the means of F(mu)."""
        if self.estimate is None:
            return implied
        # The bias of mu is assumed to be the same on other prompts as on the fit's.
        return self.estimate if self.plugin is None else self.estimate + implied - self.plugin

    def targets(self, models: list[str], scores: FloatArray) -> Targets:
        """Return the coefficients of the J contrasts, (J, K), and their names; J is 0 for all scores."""
        if self.contrasts is None:
            return np.empty((0, len(models))), ()
        if isinstance(self.contrasts, Top | Against):
            return self.contrasts.rows(models, self.sign * scores, self.above)
        return _read(self.contrasts, models)


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
            f"contrast {labels[int(np.argmax(constant))]!r} has a value that the functional fixes, which no label can "
            f"change; leave it out"
        )
    if kind == "A":
        return rows
    # Some contrasts may follow from others, as one of the three differences of three models follows from the other two.
    # Their covariance has the determinant zero. The criterion takes a basis of the contrasts in their place.
    _, size, directions = np.linalg.svd(free_rows, full_matrices=False)
    return np.asarray(directions[size > 1e-9 * size[0]] @ free.T)


def remark_on(contrasts: ContrastsLike, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None) -> str:
    """Return the sentence of a summary on which models are the best, where the contrasts are about them."""
    if not isinstance(contrasts, Top):
        return ""
    count = contrasts.count
    best, others = ([models[j] for j in part] for part in _best_and_open(count, scores, above))
    if count == 1:
        if above is None:
            return (
                f"The contrasts are the differences of {best[0]}, which has the highest score, from all other models."
            )
        return (
            f"First place is not decided: {best[0]} has the highest score, and the plan is for its differences from "
            f"the closest other model{'s' * (len(others) > 1)}, {some_of(others)}."
        )
    if above is None:
        return f"The best {count} models are taken to be those with the highest scores: {some_of(best)}."
    if not others:
        return f"It is decided that the best {count} models are {some_of(best)}."
    return (
        f"It is not decided which {count} models are the best: besides {some_of(best)}, which have the highest scores, "
        f"{some_of(others)} may be among them. The contrasts include the differences that decide it."
    )


def _best_and_open(count: int, scores: FloatArray, above: NDArray[np.bool_] | None) -> tuple[IntArray, IntArray]:
    """Return the models with the highest scores, and the others that may be among the best."""
    order = np.argsort(-scores, kind="stable")
    best, others = order[:count], order[count:]
    return best, others[:0] if above is None else others[above[:, others].sum(axis=0) < count]


def _read(contrasts: HypothesisLike, models: list[str]) -> Targets:
    """Return the coefficients of contrasts, (J, K), and their names."""
    hypothesis = read_hypothesis(contrasts, models)
    return hypothesis.matrix, tuple(hypothesis.labels)

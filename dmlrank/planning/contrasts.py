"""Target contrasts of a plan: the combinations of scores that the plan is to estimate precisely."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, OptionError, UnknownModelError, check_choice, listed, nearest
from ..inference.covariance import free_basis
from .criteria import Criterion


@dataclass(frozen=True, slots=True)
class Top:
    """All differences among the ``count`` models that the probabilities rank highest.

    Parameters
    ----------
    count : int
        From 2 to the number of models.

    Examples
    --------
    >>> Top(3).rows(["a", "b", "c", "d"], np.array([0.1, 0.9, 0.5, 0.7]))[1]
    ('b - c', 'b - d', 'c - d')
    """

    count: int

    def rows(self, models: list[str], scores: FloatArray) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores : ndarray, shape (K,)
            Scores, by which the best models are chosen.

        Returns
        -------
        coefficients : ndarray, shape (J, K)
            One row for each of the J differences.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.

        Raises
        ------
        OptionError
            If ``count`` is not between 2 and the number of models.
        """
        if not 2 <= self.count <= len(models):
            raise OptionError(
                f"Top({self.count}) has no meaning for {len(models)} models; give a number from 2 to {len(models)}"
            )
        best = np.sort(np.argsort(-scores, kind="stable")[: self.count])
        pairs = list(combinations(best, 2))
        return _differences(pairs, len(models)), tuple(f"{models[j]} - {models[k]}" for j, k in pairs)


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

    def rows(self, models: list[str], scores: FloatArray) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores : ndarray, shape (K,)
            Not used; an argument because ``Top`` needs the scores.

        Returns
        -------
        coefficients : ndarray, shape (K - 1, K)
            One row for each difference.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.

        Raises
        ------
        UnknownModelError
            If there is no such model.
        """
        if self.model not in models:
            raise UnknownModelError(
                f"unknown model {self.model!r}; the models are {listed(models)}{nearest(self.model, models)}"
            )
        item = models.index(self.model)
        pairs = [(item, k) for k in range(len(models)) if k != item]
        return _differences(pairs, len(models)), tuple(f"{self.model} - {models[k]}" for _, k in pairs)


ContrastsLike = HypothesisLike | Top | Against | None


def make_criterion(
    kind: str, contrasts: ContrastsLike, models: list[str], scores: FloatArray, gauge: FloatArray
) -> tuple[Criterion, FloatArray, tuple[str, ...]]:
    """Return the criterion, the coefficients of the J contrasts, (J, K), and their names; J is 0 for all scores.

    Shapes: scores (K,).
    """
    check_choice(kind, ("A", "D"), "criterion")
    free = free_basis(gauge, len(models))
    if contrasts is None:
        rows = np.eye(len(models)) if kind == "A" else free.T
        return Criterion(kind, rows), np.empty((0, len(models))), ()
    if isinstance(contrasts, Top | Against):
        targets, labels = contrasts.rows(models, scores)
    else:
        hypothesis = read_hypothesis(contrasts, models)
        targets, labels = hypothesis.matrix, hypothesis.labels
    # The contrasts in coordinates of the combinations that the functional does not fix.
    free_targets = targets @ free
    constant = np.linalg.norm(free_targets, axis=1) <= 1e-9 * np.linalg.norm(targets, axis=1)
    if constant.any():
        label = labels[int(np.flatnonzero(constant)[0])]
        raise HypothesisError(
            f"contrast {label!r} has a value that the functional fixes, which no label can change; leave it out"
        )
    if kind == "A":
        return Criterion(kind, targets), targets, labels
    # Some contrasts may follow from others, as one of the three differences of three models follows from the other two.
    # Their covariance has the determinant zero. The criterion takes a basis of the contrasts in their place.
    _, size, directions = np.linalg.svd(free_targets, full_matrices=False)
    return Criterion(kind, directions[size > 1e-9 * size[0]] @ free.T), targets, labels


def _differences(pairs: list[tuple[int, int]], n_items: int) -> FloatArray:
    """Return the coefficients of the differences first - second, (J, K)."""
    rows = np.zeros((len(pairs), n_items))
    for row, (j, k) in enumerate(pairs):
        rows[row, j], rows[row, k] = 1, -1
    return rows

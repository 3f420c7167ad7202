"""Scores of several leaderboards, or coefficients of several kinds, with one covariance: tests and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from ..exceptions import HypothesisError
from ..inference.alternatives import check_side
from ..inference.covariance import Covariance
from ..inference.hypotheses import HypothesisLike, read_hypothesis
from ..inference.resampling import NormalNoise, normal_noise
from ..inference.simultaneous import critical_value
from ..inference.wald import t_test, wald_test
from ..options import check_alpha


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimates:
    """Numbers of models in several blocks (groups, coefficients, results).

    Attributes
    ----------
    kind : str
        What a block is: ``"group"``, ``"coefficient"`` or ``"result"``.
    blocks, models : tuple of str
        Block and model of each of the d numbers.
    estimate : ndarray, shape (d,)
    covariance : Covariance
    reason : str
        What the functional fixes.
    alpha : float
    seed : int
        Of the fit, for critical values.
    """

    kind: str
    blocks: tuple[str, ...]
    models: tuple[str, ...]
    estimate: FloatArray
    covariance: Covariance
    reason: str
    alpha: float
    seed: int

    @property
    def names(self) -> list[str]:
        """``block: model``, the names that hypotheses use."""
        return [f"{block}: {model}" for block, model in zip(self.blocks, self.models, strict=True)]

    @property
    def index(self) -> pd.MultiIndex:
        """Block and model, (d,)."""
        return pd.MultiIndex.from_arrays([self.blocks, self.models], names=[self.kind, "model"])

    @property
    def noise(self) -> NormalNoise:
        """Joint draws of t statistics."""
        return normal_noise(self.covariance, self.seed)

    def table(self, values: FloatArray, blocks: Sequence[str]) -> pd.DataFrame:
        """Values, (d,), as a frame with a row per model and a column per block, in the order of first appearance."""
        models = list(dict.fromkeys(self.models))
        frame = pd.DataFrame(np.nan, index=models, columns=list(blocks))
        for block, model, value in zip(self.blocks, self.models, values, strict=True):
            frame.loc[model, block] = value
        return frame

    def tested(self, hypothesis: HypothesisLike) -> tuple[Any, ...]:
        """What a test of the hypothesis takes."""
        read = read_hypothesis(hypothesis, self.names)
        return self.estimate, self.covariance, self.names, read.matrix, read.value, read.labels, self.reason

    def wald(self, tested: Iterable[Any]) -> Any:
        """The joint test; with fewer clusters than restrictions it is refused with this reason."""
        estimate, covariance, names, matrix, *rest = tested
        rank = np.linalg.matrix_rank(matrix @ covariance.basis)
        fewest = min(covariance.n_clusters, default=rank + 1)
        if fewest <= rank:
            raise HypothesisError(
                f"{rank} restrictions cannot be tested with {fewest} clusters: their covariance has no inverse; test "
                f"fewer models at once, or use t_test"
            )
        return wald_test(estimate, covariance, names, matrix, *rest)


class JointQuestions:
    """Questions to joint estimates; the base of what has them."""

    __slots__ = ()

    def _together(self) -> JointEstimates:
        """The numbers with their covariance."""
        raise NotImplementedError

    def cov_params(self) -> pd.DataFrame:
        """Joint covariance, (d, d), with (block, model) on both sides."""
        joint = self._together()
        return pd.DataFrame(joint.covariance.matrix.copy(), index=joint.index, columns=joint.index)

    def conf_int(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Confidence intervals, simultaneous over all blocks and models.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            Simultaneous for everything (the first two), or each for itself.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, a row per block and model.
        """
        joint = self._together()
        half_width = self._joint_critical(alpha, method) * joint.covariance.std_errors
        limits = {"lower": joint.estimate - half_width, "upper": joint.estimate + half_width}
        return pd.DataFrame(limits, index=joint.index)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> Any:
        """z tests of linear combinations, each for itself.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`RankResults.t_test`, with names ``"block: model"``, such as ``"coding: gpt-4 - writing:
            gpt-4"``; columns of a matrix are in the order of :meth:`cov_params`.
        delta, side
            See :meth:`RankResults.t_test`.

        Returns
        -------
        statsmodels ContrastResults
        """
        margin = check_side(side, delta)
        return t_test(*(*self._together().tested(hypothesis), side, margin))

    def wald_test(self, hypothesis: HypothesisLike) -> Any:
        """One joint chi-squared test of linear restrictions; its degrees of freedom are the structural rank.

        Parameters
        ----------
        hypothesis
            As for :meth:`t_test`.

        Returns
        -------
        statsmodels ContrastResults
        """
        joint = self._together()
        return joint.wald(joint.tested(hypothesis))

    def _joint_critical(self, alpha: float | None, method: str) -> float:
        joint = self._together()
        level = joint.alpha if alpha is None else check_alpha(alpha)
        return critical_value(joint.covariance, level, method)

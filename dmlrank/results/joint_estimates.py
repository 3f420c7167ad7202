"""Scores of several leaderboards, or coefficients of several kinds, with one covariance: tests and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from statsmodels.stats.contrast import ContrastResults

from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError
from ..fit.estimates import Estimates
from ..inference.alternatives import read_alternative
from ..inference.covariance import Covariance
from ..inference.resampling import NormalDraws, normal_draws
from ..inference.simultaneous import critical_value
from ..inference.wald import NamedEstimates, t_test, wald_test
from ..inference.z_tests import two_sided_p_values
from .critical_values import level_or_default
from .lookup import joined_names


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

    @classmethod
    def of_blocks(
        cls, kind: str, names: Sequence[str], estimate: FloatArray, covariance: Covariance, fit: Estimates
    ) -> JointEstimates:
        """Numbers of all models of one fit, block by block.

        Parameters
        ----------
        kind : str
        names : sequence of str
            Of the B blocks.
        estimate : ndarray, shape (B K,)
        covariance : Covariance
            Of them.
        fit : Estimates
            Of the K models.
        """
        return cls(
            kind=kind,
            blocks=tuple(np.repeat(np.array(names, dtype=object), len(fit.models)).tolist()),
            models=fit.models * len(names),
            estimate=estimate,
            covariance=covariance,
            reason=fit.reason,
            alpha=fit.alpha,
            seed=fit.description.seed,
        )

    @property
    def names(self) -> list[str]:
        """``block: model``, the names that hypotheses use.

        Where two would be the same, names that hold ``": "`` stand in quotes.
        """
        return joined_names(list(zip(self.blocks, self.models, strict=True)), ": ")

    @property
    def named(self) -> NamedEstimates:
        """The numbers as tests take them."""
        return NamedEstimates(self.estimate, self.covariance, self.names, self.reason)

    @property
    def index(self) -> pd.MultiIndex:
        """Block and model, (d,)."""
        return pd.MultiIndex.from_arrays([self.blocks, self.models], names=[self.kind, "model"])

    @property
    def noise(self) -> NormalDraws:
        """Joint draws of t statistics."""
        return normal_draws(self.covariance, self.seed)

    def table(self, values: FloatArray, blocks: Sequence[str]) -> pd.DataFrame:
        """Values, (d,), as a frame with a row per model and a column per block, in the order of first appearance."""
        models = list(dict.fromkeys(self.models))
        frame = pd.DataFrame(np.nan, index=models, columns=list(blocks))
        for block, model, value in zip(self.blocks, self.models, values, strict=True):
            frame.loc[model, block] = value
        return frame

    def cov_params(self) -> pd.DataFrame:
        """Joint covariance, (d, d), with (block, model) on both sides."""
        return pd.DataFrame(self.covariance.matrix.copy(), index=self.index, columns=self.index)

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
        critical = critical_value(self.covariance, level_or_default(alpha, self.alpha), method)
        half_width = critical * self.covariance.std_errors
        limits = {"lower": self.estimate - half_width, "upper": self.estimate + half_width}
        return pd.DataFrame(limits, index=self.index)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ContrastResults:
        """z tests of linear combinations, each for itself.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`RankResults.t_test`, with names ``"block: model"``; columns of a matrix are in the order of
            :meth:`cov_params`.
        delta, side
            See :meth:`RankResults.t_test`.

        Returns
        -------
        statsmodels ContrastResults
        """
        alternative, named = read_alternative(side, delta), self.named
        return t_test(named, named.hypothesis(hypothesis), alternative)

    def wald_test(self, hypothesis: HypothesisLike | LinearHypothesis) -> ContrastResults:
        """One joint chi-squared test of linear restrictions; its degrees of freedom are the structural rank.

        Parameters
        ----------
        hypothesis
            As for :meth:`t_test`, or restrictions that have been read already.

        Returns
        -------
        statsmodels ContrastResults

        Raises
        ------
        HypothesisError
            If there are fewer clusters than restrictions, so that the covariance of these has no inverse.
        """
        named, basis = self.named, self.covariance.basis
        read = hypothesis if isinstance(hypothesis, LinearHypothesis) else named.hypothesis(hypothesis)
        rank = np.linalg.matrix_rank(read.matrix @ basis)
        fewest = min(self.covariance.n_clusters, default=rank + 1)
        if fewest <= rank:
            raise HypothesisError(
                f"{rank} restrictions cannot be tested with {fewest} clusters: their covariance has no inverse; test "
                f"fewer models at once, or use t_test"
            )
        return wald_test(named, read)

    def tidy(self, z: FloatArray, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """A row per block and model, with the block's name in the column of its kind.

        Parameters
        ----------
        z : ndarray, shape (d,)
            z statistic of each number.
        alpha, method
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            The kind, then ``term estimate std_error statistic p_value conf_low conf_high``.
        """
        limits = self.conf_int(alpha, method)
        return pd.DataFrame(
            {
                self.kind: list(self.blocks),
                "term": list(self.models),
                "estimate": self.estimate,
                "std_error": self.covariance.std_errors,
                "statistic": z,
                "p_value": two_sided_p_values(z),
                "conf_low": limits["lower"].to_numpy(),
                "conf_high": limits["upper"].to_numpy(),
            }
        )

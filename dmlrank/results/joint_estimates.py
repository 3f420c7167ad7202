"""Scores of several groups or results, or several coefficients, with one covariance, tests and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError
from ..fit.estimates import Estimates
from ..inference.covariance import Covariance
from ..inference.simultaneous import MaxT
from ..inference.wald import NamedEstimates, WaldTestResults, read_alternative, two_sided_p_values, wald_test
from ..tables.summary_table import Summarised
from .requirements import joined_names
from .score_tests import ZTestResults, t_test
from .views import alpha_or_default


def score_label(estimates: Estimates) -> str:
    """Return the label of an axis of scores: the functional and the unit."""
    unit = "" if estimates.scale.natural else f", {estimates.scale.name}"
    return f"{'score' if estimates.of_models else 'estimate'}: {estimates.functional_label}{unit}"


@dataclass(frozen=True, slots=True, eq=False)
class JointEstimates:
    """Estimates by block (group, coefficient or result) and model, with one covariance.

    kind: Kind of the blocks: ``"group"``, ``"coefficient"`` or ``"result"``.
    blocks, models: Block and model of each of the d estimates.
    estimate (d,).
    covariance: Joint covariance, (d, d).
    reason: What the functional fixes, for errors.
    alpha: One minus the level of intervals by default.
    seed: Seed of the fit, from which critical values are drawn.
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
        """Return estimates for all models of one fit, block by block.

        Shapes: estimate (B K,).
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
        """Names that hypotheses use, ``block: model``.

        Where two of these would be equal, names of blocks or models that contain ``": "`` are quoted.
        """
        return joined_names(list(zip(self.blocks, self.models, strict=True)), ": ")

    @property
    def named(self) -> NamedEstimates:
        """The estimates in the form that tests take."""
        return NamedEstimates(self.estimate, self.covariance, self.names, self.reason)

    @property
    def index(self) -> pd.MultiIndex:
        """Block and model, (d,)."""
        return pd.MultiIndex.from_arrays([self.blocks, self.models], names=[self.kind, "model"])

    @property
    def max_t(self) -> MaxT:
        """max-t of the estimates and of their differences."""
        return MaxT(self.covariance, self.seed)

    def table(self, values: FloatArray, blocks: Sequence[str]) -> pd.DataFrame:
        """Return values, (d,), as a frame with a row per model and a column per block."""
        models = list(dict.fromkeys(self.models))
        frame = pd.DataFrame(np.nan, index=models, columns=list(blocks))
        for block, model, value in zip(self.blocks, self.models, values, strict=True):
            frame.loc[model, block] = value
        return frame

    def conf_int(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return confidence intervals, simultaneous over all blocks and models."""
        critical = self.max_t.critical(alpha_or_default(alpha, self.alpha), method)
        half_width = critical * self.covariance.std_errors
        limits = {"lower": self.estimate - half_width, "upper": self.estimate + half_width}
        return pd.DataFrame(limits, index=self.index)

    def wald_test(self, restrictions: LinearHypothesis) -> WaldTestResults:
        """Test linear restrictions jointly by one chi-squared test; its degrees of freedom are the structural rank."""
        rank = np.linalg.matrix_rank(restrictions.matrix @ self.covariance.basis)
        fewest = min(self.covariance.n_clusters, default=rank + 1)
        if fewest <= rank:
            raise HypothesisError(
                f"{rank} restrictions cannot be tested with {fewest} clusters, because their covariance has no "
                f"inverse; test fewer models at once, or use t_test"
            )
        return wald_test(self.named, restrictions)

    def tidy(self, z: FloatArray, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return a row per block and model, with the block's name in the column of its kind.

        Shapes: z (d,).
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


class JointResults(Summarised):
    """What groups, projections and comparisons share: tests of estimates that have one covariance."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def joint(self) -> JointEstimates:
            """The estimates of all blocks (groups, coefficients or results) with their covariance."""
            ...

    def cov_params(self) -> pd.DataFrame:
        """Return the joint covariance of all estimates, with (block, model) on both sides."""
        return pd.DataFrame(self.joint.covariance.matrix.copy(), index=self.joint.index, columns=self.joint.index)

    def conf_int(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return confidence intervals, simultaneous over all blocks (groups, coefficients or results) and models.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`RankResults.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, a row per block and model.

        Raises
        ------
        OptionError
            If there is no joint covariance, or alpha or the method cannot be used.
        """
        return self.joint.conf_int(alpha, method)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ZTestResults:
        """Test linear combinations of estimates, such as ``"coding: gpt-4 - writing: gpt-4"``, one z test for each.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`RankResults.t_test`, with names ``"block: model"``. The columns of a matrix are in the order
            of :meth:`cov_params`.
        delta : float
            As for :meth:`RankResults.t_test`.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            As for :meth:`RankResults.t_test`.

        Returns
        -------
        ZTestResults
            As in statsmodels; p-values are not adjusted.

        Raises
        ------
        OptionError
            If there is no joint covariance.
        """
        named = self.joint.named
        return t_test(named, named.hypothesis(hypothesis), read_alternative(side, delta))

    def wald_test(self, hypothesis: HypothesisLike) -> WaldTestResults:
        """Test linear restrictions on estimates jointly, see :meth:`RankResults.wald_test`.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`t_test`.

        Returns
        -------
        WaldTestResults
            As in statsmodels; the degrees of freedom are the structural rank.

        Raises
        ------
        HypothesisError
            If there are too few clusters for so many restrictions.
        OptionError
            If there is no joint covariance.
        """
        return self.joint.wald_test(self.joint.named.hypothesis(hypothesis))

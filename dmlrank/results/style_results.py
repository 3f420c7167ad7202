"""Slopes on style differences, and scores before and after an adjustment for style, with rank changes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..data.hypotheses import HypothesisLike
from ..data.preferences import FloatArray, IntArray
from ..fit.estimates import Estimates
from ..fit.state import StyleEstimates
from ..inference.ranks import rank_changes, ranks_of
from ..inference.simultaneous import Family, MaxT, separate
from ..inference.wald import WaldTestResults, two_sided_p_values, z_statistics
from ..report.joint_tables import build_style_summary
from ..tables.summary_table import Summary
from .joint_estimates import JointEstimates, JointResults
from .sequential_and_bootstrap import alpha_or_default

_BOARDS = ("raw", "averaged", "equal")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StyleResults(JointResults):
    """Slopes on style differences, and the scores before and after the adjustment; ``RankResults.style`` returns it.

    Slopes and adjusted scores are associations, not causal effects: the style of an answer depends on the model, and
    better answers may be longer.

    Attributes
    ----------
    estimates : Estimates
        Estimates of the fit or of a group of prompts, with an adjustment for style.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.Bt().sample(300, rng=0)
    >>> battles["log_length"] = np.random.default_rng(0).normal(size=len(battles))
    >>> formula, options = "winner ~ 1 | model_a + model_b", {"context": "question_id", "rng": 0}
    >>> res = dr.dml_rank(formula, battles, adjust="~ log_length", **options)
    >>> list(res.style.params.index), list(res.style.table)[:3]
    (['log_length'], ['raw', 'raw_se', 'averaged'])
    """

    estimates: Estimates

    @property
    def columns(self) -> list[str]:
        """Names of the style columns."""
        return list(self._style.columns)

    @property
    def n_votes(self) -> int:
        """Number of votes."""
        return self._style.n_votes

    @property
    def joint(self) -> JointEstimates:
        """The slopes with their covariance."""
        style, terms = self._style, pd.Index(self._style.columns)
        covariance, reason = style.slope_covariance, "no slope is fixed"
        return JointEstimates(style.slopes, covariance, style.columns, reason, index=terms, alpha=self.estimates.alpha)

    @property
    def params(self) -> pd.Series:
        """Slopes of the preference (borda) or its log-odds (bt) on the style differences, within prompt and pair."""
        return pd.Series(self._style.slopes, index=self.columns, name="params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors of the slopes."""
        return pd.Series(self._style.slope_covariance.std_errors, index=self.columns, name="bse")

    @property
    def tvalues(self) -> pd.Series:
        """Statistics of z tests of each slope against zero."""
        return (self.params / self.bse).rename("tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of :attr:`tvalues`, not adjusted."""
        z = z_statistics(self.params.to_numpy(), self.bse.to_numpy())
        return pd.Series(
            two_sided_p_values(z, self._style.slope_covariance.tails()), index=self.columns, name="pvalues"
        )

    def conf_int(self, alpha: float | None = None, method: str = "none") -> pd.DataFrame:
        """Return confidence intervals of the slopes, by default each of which holds by itself.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; that of the fit by default.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`RankResults.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``.
        """
        return JointResults.conf_int(self, alpha, method)

    def wald_test(self, hypothesis: HypothesisLike | None = None) -> WaldTestResults:
        """Test linear combinations of the slopes jointly.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list, optional
            As for :meth:`t_test`, with names of style columns: ``"log_length = 0"``; by default, that all slopes are
            zero.

        Returns
        -------
        WaldTestResults
            Chi-squared statistic and p-value.
        """
        return JointResults.wald_test(self, np.eye(len(self.columns)) if hypothesis is None else hypothesis)

    @property
    def table(self) -> pd.DataFrame:
        """Scores of the three leaderboards by model.

        The columns are ``raw`` (scores without adjustment), ``averaged`` (averaged over style, with no slope removed)
        and ``equal`` (scores at equal style), each followed by a column of its standard errors, then ``rank_raw`` and
        ``rank_equal``. Models are in the order of ``equal``.
        """
        style, columns = self._style, dict[str, FloatArray | IntArray]()
        for board in _BOARDS:
            columns |= {board: style.scores(board), f"{board}_se": style.errors(board)}
        columns |= {f"rank_{board}": ranks_of(style.scores(board)) for board in ("raw", "equal")}
        table = pd.DataFrame(columns, index=pd.Index(self.estimates.models, name="model"))
        return table.sort_values("equal", ascending=False, kind="stable")

    def rank_changes(self, alpha: float | None = None) -> pd.DataFrame:
        """Return how ranks and scores change by the adjustment, with intervals that hold jointly.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; that of the fit by default.

        Returns
        -------
        DataFrame
            By model: ``rank_raw``, ``rank_equal``, ``change`` (positive for a model that rises), ``change_low`` and
            ``change_high``, whose intervals hold for all models at the same time; ``shift`` (equal minus raw score)
            with ``shift_se``, simultaneous intervals ``shift_low`` and ``shift_high`` and adjusted p-values
            ``p_adjusted``.

        Notes
        -----
        Rank sets of the raw scores and of the scores at equal style hold with probability 1 - alpha / 2 each, so that
        all differences of ranks lie between the differences of their ends with probability 1 - alpha.
        """
        style, alpha = self._style, alpha_or_default(alpha, self.estimates.alpha)
        basis, n_models = self.estimates.covariance.basis, len(self.estimates.models)
        raw, equal = (style.scores(board) for board in ("raw", "equal"))
        above = []
        for board, scores in (("raw", raw), ("equal", equal)):
            covariance = replace(self.estimates.covariance, matrix=style.score_covariance(board), basis=basis)
            above.append(separate(scores, MaxT(covariance, self.estimates.description.seed), alpha / 2).above)
        of_both: FloatArray = np.asarray(np.kron(np.eye(2), basis), dtype=np.float64)
        joint = replace(covariance, matrix=style.score_covariance("raw", "equal"), basis=of_both, of_scores=None)
        contrasts = np.hstack([-np.eye(n_models), np.eye(n_models)])
        shift = equal - raw
        errors = np.sqrt(np.maximum(np.einsum("jd,de,je->j", contrasts, joint.matrix, contrasts), 0.0))
        family = Family.of_contrasts(joint, contrasts)
        critical = family.critical(alpha)
        names = {"rank_before": "rank_raw", "rank_after": "rank_equal", "rank_change": "change"}
        names |= {"rank_change_low": "change_low", "rank_change_high": "change_high"}
        moves = pd.DataFrame(rank_changes((raw, equal), above), index=pd.Index(self.estimates.models, name="model"))
        shifts = {
            "shift": shift,
            "shift_se": errors,
            "shift_low": shift - critical * errors,
            "shift_high": shift + critical * errors,
            "p_adjusted": family.p_values(z_statistics(shift, errors)),
        }
        return moves.rename(columns=names).assign(**shifts).sort_values("rank_equal", kind="stable")

    def tidy(self, alpha: float | None = None) -> pd.DataFrame:
        """Return one row per slope.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of the intervals; that of the fit by default.

        Returns
        -------
        DataFrame
            Columns ``term``, ``estimate``, ``std_error``, ``statistic``, ``p_value``, ``conf_low``, ``conf_high`` and
            ``deviation``, the root mean square of the style difference.
        """
        return self._tidy(self.tvalues.to_numpy(), alpha, "none").assign(deviation=self._style.deviations)

    def summary(self, alpha: float | None = None) -> Summary:
        """Return the three leaderboards side by side, with rank changes and slopes.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level of the rank changes; that of the fit by default.

        Returns
        -------
        Summary
            A table that prints as text and converts to HTML, LaTeX, Markdown and CSV.
        """
        alpha = alpha_or_default(alpha, self.estimates.alpha)
        return build_style_summary(self.estimates, self._style, self.table, self.rank_changes(alpha), alpha)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write :attr:`table` as CSV.

        Parameters
        ----------
        path : str or path, optional
            File to write; None returns the text.

        Returns
        -------
        str or None
            The text, where no path is given.
        """
        return self.table.to_csv(path)

    def __repr__(self) -> str:
        return str(self.summary())

    @property
    def _style(self) -> StyleEstimates:
        assert self.estimates.style is not None
        return self.estimates.style

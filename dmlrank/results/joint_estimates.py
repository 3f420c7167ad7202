"""Estimates with one covariance, such as scores of several groups or results, and slopes on style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray, IntArray
from ..fit.estimates import Estimates
from ..fit.state import StyleEstimates
from ..inference.covariance import Covariance
from ..inference.ranks import rank_changes, ranks_of
from ..inference.score_limits import normal_tail
from ..inference.simultaneous import Family, MaxT, law_of_differences, separate
from ..inference.wald import (
    NamedEstimates,
    WaldTestResults,
    read_alternative,
    two_sided_p_values,
    wald_test,
    z_statistics,
    z_tests,
)
from ..report.fact_words import slope_sentences
from ..report.fit_summary import INTERVAL_KINDS
from ..tables.summary_table import Summarised, Summary, decimals, p_value_text, score_texts
from .requirements import joined_names
from .score_tests import ZTestResults
from .units_and_views import alpha_or_default


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JointEstimates(NamedEstimates):
    """Estimates with one covariance, such as scores by block (group, coefficient or result) and model.

    index: Block and model of each of the d estimates, or the name of each.
    alpha: One minus the level of intervals by default.
    seed: Seed of the fit, from which critical values are drawn.
    max_t: Critical values and adjusted p-values; what is drawn is kept.
    """

    index: pd.Index
    alpha: float
    seed: int = 0
    max_t: MaxT = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_t", MaxT(self.covariance, self.seed))

    @classmethod
    def by_block(
        cls,
        index: pd.Index,
        estimate: FloatArray,
        covariance: Covariance,
        fit: Estimates,
        reason: str | None = None,
    ) -> JointEstimates:
        """Return estimates that are named ``block: model``, or by model alone, with level and seed of a fit.

        Where two names would be equal, names of blocks or models that contain ``": "`` are quoted.
        """
        return cls(
            estimate=estimate,
            covariance=covariance,
            names=joined_names(index.to_frame().to_numpy().tolist(), ": "),
            reason=fit.reason if reason is None else reason,
            index=index,
            alpha=fit.alpha,
            seed=fit.description.seed,
        )

    def test_zero(self, places: Sequence[int] | None = None) -> WaldTestResults:
        """Test by one Wald test that the estimates at these places, or all, are zero."""
        at = range(len(self.names)) if places is None else places
        labels = tuple(self.names[place] for place in at)
        return wald_test(self, LinearHypothesis(np.eye(len(self.names))[[*at]], np.zeros(len(labels)), labels))

    def table(self, values: FloatArray) -> pd.DataFrame:
        """Return values, (d,), as a frame with a row per block and a column per model."""
        blocks, models = (list(dict.fromkeys(self.index.get_level_values(level))) for level in (0, 1))
        return pd.DataFrame(values.reshape(len(blocks), -1).copy(), index=blocks, columns=models)


class JointResults(Summarised):
    """What groups, projections, comparisons and slopes on style share: tests of estimates that have one covariance."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def joint(self) -> JointEstimates:
            """The estimates of all blocks (groups, coefficients or results) with their covariance."""
            ...

    @property
    def _is_unseen(self) -> NDArray[np.bool_]:
        """Whether a score is a prediction that is not shown, (d,); see :class:`GroupResults`."""
        return np.zeros(len(self.joint.index), dtype=bool)

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
        """
        joint, max_t = self.joint, self.joint.max_t
        critical = max_t.critical(alpha_or_default(alpha, joint.alpha), method)
        low, high = joint.covariance.law(joint.estimate).limits(critical)
        limits = pd.DataFrame({"lower": low, "upper": high}, index=joint.index)
        limits[self._is_unseen] = np.nan
        return limits

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ZTestResults:
        """Test linear combinations of estimates, such as ``"coding: gpt-4 - writing: gpt-4"``, one z test for each.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`RankResults.t_test`, with names ``"block: model"``, or those of the slopes on style. The
            columns of a matrix are in the order of :meth:`cov_params`.
        delta : float
            As for :meth:`RankResults.t_test`.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            As for :meth:`RankResults.t_test`.

        Returns
        -------
        ZTestResults
            As in statsmodels; p-values are not adjusted.
        """
        return z_tests(ZTestResults, self.joint, self.joint.hypothesis(hypothesis), read_alternative(side, delta))

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
        """
        return wald_test(self.joint, self.joint.hypothesis(hypothesis))

    def _tidy(self, z: FloatArray, alpha: float | None, method: str, max_t: MaxT | None = None) -> pd.DataFrame:
        """Return a row per estimate with z statistics, (d,), p-values, adjusted by ``max_t``, and intervals."""
        joint, limits = self.joint, self.conf_int(alpha, method)
        columns = {
            "estimate": joint.estimate,
            "std_error": joint.covariance.std_errors,
            "statistic": z,
            "p_value": two_sided_p_values(z, joint.covariance.tails()),
            "p_adjusted": (max_t or joint.max_t).adjusted_p_values(z, centred=False),
            "conf_low": limits["lower"],
            "conf_high": limits["upper"],
            "interval": INTERVAL_KINDS[method],
        }
        frame = pd.DataFrame(columns, index=joint.index)
        return frame.rename_axis([*joint.index.names[:-1], "term"]).reset_index()

    def _reversals(self, models: Sequence[str], signs: Mapping[str, int]) -> pd.DataFrame:
        """Return pairs of models that two results, or groups, order differently; see :meth:`Comparison.reversals`.

        ``signs`` has all results, with -1 where the lowest score is the best.
        """
        joint, scores = self.joint, list(self.joint.index)
        shown = zip(scores, joint.estimate, self._is_unseen, strict=True)
        value = {score: signs[score[0]] * number for score, number, is_unseen in shown if not is_unseen}
        reversed_pairs = [
            (model, other, a, b)
            for a, b in combinations(signs, 2)
            for model, other in permutations([name for name in models if {(a, name), (b, name)} <= value.keys()], 2)
            if value[a, model] > value[a, other] and value[b, model] < value[b, other]
        ]
        columns = ["model", "other", "above_in", "below_in", "gap_above", "gap_below", "p_value", "p_adjusted"]
        if not reversed_pairs:
            return pd.DataFrame(columns=columns)
        # All differences within results; step-down tests have both directions of each.
        pairs = [(j, k) for j, k in combinations(range(len(scores)), 2) if scores[j][0] == scores[k][0]]
        contrasts, law = law_of_differences(joint.estimate, joint.max_t, *np.array(pairs).T)
        varies, z = contrasts.std_error > 0, law.tails.to_normal(law.statistics(0.0))
        adjusted = np.full((2, len(pairs)), np.nan)
        adjusted[:, varies] = joint.max_t.step_down(contrasts.only(varies), z[varies])[0]
        both = np.hstack(
            [(sign * law.estimate, normal_tail(sign * z), p) for sign, p in zip((1, -1), adjusted, strict=True)]
        )
        in_both = [*pairs, *((k, j) for j, k in pairs)]
        test_of = {(scores[j], scores[k]): test for (j, k), test in zip(in_both, both.T, strict=True)}

        def test_that(result: str, better: str, worse: str) -> FloatArray:
            high, low = (better, worse) if signs[result] > 0 else (worse, better)
            return test_of[(result, high), (result, low)]

        rows = []
        for model, other, above, below in reversed_pairs:
            up, down = test_that(above, model, other), test_that(below, other, model)
            rows.append((model, other, above, below, up[0], -down[0], *np.maximum(up, down)[1:]))
        frame = pd.DataFrame(rows, columns=columns)
        return frame.sort_values(["p_adjusted", "p_value"], kind="stable", ignore_index=True)


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
    >>> battles = dr.datasets.simulate_bt(300, rng=0)
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

        ``raw`` (without adjustment), ``averaged`` (over style, with no slope removed) and ``equal`` (at equal style),
        each followed by its standard errors, then ``rank_raw`` and ``rank_equal``. In the order of ``equal``.
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
            ``change_high``; ``shift`` (equal minus raw score) with ``shift_se``, ``shift_low``, ``shift_high`` and
            ``p_adjusted``. Rank sets hold with probability 1 - alpha / 2 each, and so their differences jointly.
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
        moves = pd.DataFrame(rank_changes((raw, equal), above), index=pd.Index(self.estimates.models, name="model"))
        moves = moves.set_axis(["rank_raw", "rank_equal", "change", "change_low", "change_high"], axis=1)
        shifts = {
            "shift": shift,
            "shift_se": errors,
            "shift_low": shift - critical * errors,
            "shift_high": shift + critical * errors,
            "p_adjusted": family.p_values(z_statistics(shift, errors)),
        }
        return moves.assign(**shifts).sort_values("rank_equal", kind="stable")

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
        z = z_statistics(self.joint.estimate, self.joint.covariance.std_errors)
        return self._tidy(z, alpha, "none").assign(deviation=self._style.deviations)

    def summary(self, alpha: float | None = None) -> Summary:
        """Return the three leaderboards side by side, with rank changes and slopes.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level of the rank changes; that of the fit by default.

        Returns
        -------
        Summary
            The table with notes.
        """
        alpha, results, style = alpha_or_default(alpha, self.estimates.alpha), self.estimates, self._style
        table, changes = self.table, self.rank_changes(alpha)
        functional = results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")
        header = (("Functional:", functional, "No. Votes:", f"{style.n_votes:,}"),)
        title = "Scores Adjusted for Style" + (f": {results.part}" if results.part else "")
        digits = decimals(table["equal_se"].to_numpy(), fewest=2)
        heads = ("raw", "averaged", "equal", "rank raw", "rank equal", "change", "change CI", "shift P")
        moved = changes.loc[table.index]
        columns = [score_texts(table[board].to_numpy(), table[f"{board}_se"].to_numpy(), digits) for board in _BOARDS]
        columns += [[f"{rank:.0f}" for rank in table[name]] for name in ("rank_raw", "rank_equal")]
        ends = zip(moved["change_low"], moved["change_high"], strict=True)
        columns += [
            [f"{change:+.0f}" for change in moved["change"]],
            [f"[{low:+.0f}, {high:+.0f}]" for low, high in ends],
            [p_value_text(p) for p in moved["p_adjusted"]],
        ]
        rows = tuple((str(name), *cells) for name, *cells in zip(table.index, *columns, strict=True))
        return Summary(title, header, tuple((head, 1) for head in heads), rows, self._notes(alpha))

    def _notes(self, alpha: float) -> tuple[str, ...]:
        """Return the notes of the summary: slopes, the three leaderboards, changes of ranks, and log-loss."""
        link = "log-odds" if self.estimates.kind.link == "logit" else "preferences"
        boards = (
            f"raw: scores without adjustment. averaged: {link} given prompt and style, averaged over the style of the "
            "answers that were shown. equal: the same with the slopes on style removed. Standard errors are in "
            "brackets."
        )
        if self.estimates.kind.link == "logit":
            boards += " Raw and averaged scores differ because the mean of log-odds is not the log-odds of the mean."
        changes = (
            "rank: ranks by raw scores and by scores at equal style. change: rise in ranks, with intervals that hold "
            f"for all models at the same time with {100 * (1 - alpha):g} % confidence. shift P: adjusted p-value of "
            "the test that the scores at equal style and the raw scores are equal (max-t)."
        )
        loss = (
            f"The out-of-fold log-loss of the preference is {self._style.log_loss:.4f} with style and "
            f"{self._style.log_loss_without:.4f} without."
        )
        return (slope_sentences(self.estimates, self._style), boards, changes, loss)

    def __repr__(self) -> str:
        return str(self.summary())

    @property
    def _style(self) -> StyleEstimates:
        assert self.estimates.style is not None
        return self.estimates.style

"""Scores of several groups or results, or several coefficients, with one covariance, tests and intervals."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import check_type
from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..inference.covariance import Covariance
from ..inference.score_limits import normal_tail
from ..inference.simultaneous import MaxT, law_of_differences
from ..inference.wald import (
    NamedEstimates,
    WaldTestResults,
    read_alternative,
    two_sided_p_values,
    wald_test,
    z_tests,
)
from ..report.fit_summary import INTERVAL_KINDS
from ..report.render_page import Board, Masthead, check_page_extra, write_page
from ..tables.summary_table import Summarised, Summary
from .pareto import Pareto
from .requirements import ModelTable, joined_names
from .score_tests import ZTestResults
from .sequential_and_bootstrap import alpha_or_default


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
        index: pd.MultiIndex,
        estimate: FloatArray,
        covariance: Covariance,
        fit: Estimates,
        reason: str | None = None,
    ) -> JointEstimates:
        """Return estimates that are named by block and model, ``block: model``, with level and seed of a fit.

        Where two names would be equal, names of blocks or models that contain ``": "`` are quoted.
        """
        return cls(
            estimate=estimate,
            covariance=covariance,
            names=joined_names(list(index), ": "),
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

        Raises
        ------
        OptionError
            If there is no joint covariance, or alpha or the method cannot be used.
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

        Raises
        ------
        OptionError
            If there is no joint covariance.
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

        Raises
        ------
        HypothesisError
            If there are too few clusters for so many restrictions.
        OptionError
            If there is no joint covariance.
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


class JointBoards(JointResults, ModelTable):
    """Groups and comparisons: several leaderboards, which one page shows behind tabs."""

    __slots__ = ()

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        source: str = "",
        unit: str = "",
        links: Mapping[str, str] | None = None,
        group: Mapping[str, str] | None = None,
        alpha: float | None = None,
        pareto: Pareto | None = None,
    ) -> str:
        """Write one HTML file with all leaderboards behind tabs, the first of which has them side by side.

        Rank sets, groups of letters and tests of pairs hold within each leaderboard. The page needs Jinja2.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.
        title, source, unit, links, group
            As for :meth:`RankResults.report`.
        alpha : float, optional
            One minus the joint level within each leaderboard; that of each fit when None.
        pareto : Pareto, optional
            What :meth:`RankResults.pareto` returned; the leaderboard with its scores gets a section on cost.

        Returns
        -------
        str
            The path; the text of the page where ``path`` is None.
        """
        check_page_extra()
        check_type("pareto", pareto, Pareto | None, "what the method pareto() of a result returned, or None")
        differing, boards, tables = self._page(alpha, unit)
        if pareto is not None:
            own = boards if not unit else self._page(alpha, "")[1]
            place = next((place for place, board in enumerate(own) if pareto.is_of(board.results)), None)
            if place is None:
                raise OptionError(
                    "pareto= was computed from another result: no leaderboard of this page has its scores"
                )
            boards[place] = replace(boards[place], pictures=(pareto.page_section(boards[place].results),))
        # The table of the page is made from the leaderboards, and says itself what its columns are.
        notes = (
            re.sub(r"^Each (?:result|column) has .*?\. ?|\"P equal\" tests .*?\. ?", "", note)
            for note in tables[0].notes
        )
        tables[0] = replace(tables[0], notes=tuple(filter(None, notes)))
        masthead = Masthead("Leaderboards" if title is None else title, source, links or {}, group or {})
        return write_page(path, masthead, boards, tables, side_by_side=differing)

    # What leaderboards differ in, these, and the tables of the first tab.
    _page: Callable[[float | None, str], tuple[str, list[Board], list[Summary]]]


def reversals_in(joint: JointEstimates, models: Sequence[str], signs: Mapping[str, int]) -> pd.DataFrame:
    """Return pairs of models that two results, or groups, order differently; see :meth:`Comparison.reversals`.

    ``signs`` has all results, with -1 where the lowest score is the best.
    """
    scores = list(joint.index)
    value = {score: signs[score[0]] * number for score, number in zip(scores, joint.estimate, strict=True)}
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
    adjusted[:, varies] = joint.max_t.step_down(contrasts.take(varies), z[varies])[0]
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
    return pd.DataFrame(rows, columns=columns).sort_values(["p_adjusted", "p_value"], kind="stable", ignore_index=True)

"""The results of a fit: scores with their covariance, and the questions that can be put to them."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.contrast import ContrastResults

from .._utils.atomic_write import write_file
from .._utils.progress import Report, reporting
from .._utils.warning_collection import collected_warnings, warn
from ..data.graph import Graph
from ..data.hypotheses import HypothesisLike
from ..exceptions import listed
from ..fit.collect_estimates import collect
from ..fit.estimates import Diagnostics, Estimates
from ..fit.estimators import options_of_update
from ..fit.pipeline import run
from ..fit.state import FitSteps, Source
from ..inference.ellipsoid import Ellipsoid
from ..inference.wald import wald_test
from ..inference.win_probability import WinProbability
from ..inference.z_tests import two_sided_p_values, z_statistics
from ..options import Options
from ..planning.contrasts import ContrastsLike
from ..planning.from_fit import design_fit
from ..planning.plan import Plan
from ..planning.validate import PlanOptions
from ..plotting.intervals import forest_plot
from ..report.fit_summary import build_summary
from ..report.judge_summary import JudgeReport
from ..report.pairwise_summary import PairwiseResults
from ..report.table import Summary
from ..report.tidy_frames import augment_frame, glance_frame, tidy_frame
from ..storage.json_format import to_text
from ..storage.pickled_fit import Rebuilt, read_pickle, store_steps, write_pickle
from .context_scores import fitted_scores, influence_values, predicted_scores
from .critical_values import (
    critical_value_or_nan,
    interval_critical_value,
    interval_frame,
    intervals_to_draw,
    level_or_default,
    separation_of_models,
)
from .groups import GroupResults
from .heterogeneity import project_scores, scores_by_group
from .judge_table import judge_table
from .lookup import estimate_index, named_estimates, require_intervals, require_models, require_steps
from .projection import Projection
from .ranking import (
    best_models,
    compare_models,
    confidence_region,
    rank_table,
    t_test_of_scores,
    win_probability_of,
)
from .rescaling import make_scale, rescaled
from .restriction_test import RestrictionTest, bradley_terry_test

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankResults:
    """Scores of K models with their covariance, and tests, intervals and regions made from them.

    A functional of one's own may estimate other numbers: their names then stand where the models' would, and what is
    about order (:meth:`ranks`, :meth:`t_test_pairwise`, :meth:`best_set`) is refused.

    Made by :func:`dmlrank.dml_rank`. Nothing that is called on a result changes it. Names that statsmodels has mean
    here what they mean there.
    """

    estimates: Estimates
    steps: FitSteps | None = None

    # --- what was estimated -------------------------------------------------------------------------------------------

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def names(self) -> list[str]:
        """What the estimates are called, in the order of every array: the models, or a functional's own outputs."""
        return list(self.estimates.names)

    @property
    def params(self) -> pd.Series:
        """Scores by model."""
        return self._series(self.estimates.estimate, "params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors by model; NaN where the result is an estimate without intervals."""
        return self._series(self.estimates.std_errors, "bse")

    @property
    def tvalues(self) -> pd.Series:
        """z statistics against the neutral value (or the mean score); NaN where a standard error is zero or NaN.

        The summary's notes say what is tested and why a statistic is missing.
        """
        return self._series(z_statistics(*self.estimates.against_neutral()), "tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of :attr:`tvalues`, each for itself; the summary has those adjusted for all models."""
        return self._series(two_sided_p_values(self.tvalues.to_numpy()), "pvalues")

    @property
    def plugin(self) -> pd.Series:
        """Plug-in scores, the mean of F(mu), by model; without valid intervals."""
        return self._series(self.estimates.plugin, "plugin")

    @property
    def influence(self) -> NDArray[np.float64]:
        """Influence values phi, (n, K), one row per context in order of first appearance, with mean zero."""
        return influence_values(require_steps(self.estimates, self.steps, "influence"), self.estimates.scale)

    @property
    def nobs(self) -> int:
        """Number of contexts, labelled or not."""
        return self.estimates.description.n_contexts

    @property
    def ncomparisons(self) -> int:
        """Number of labelled (context, ordered pair) cells."""
        return self.estimates.description.n_comparisons

    @property
    def nvotes(self) -> int:
        """Number of votes."""
        return self.estimates.description.n_votes

    @property
    def functional(self) -> str:
        """Name of the functional."""
        return self.estimates.functional

    @property
    def estimator(self) -> str:
        """Name of the estimator."""
        return self.estimates.estimator

    @property
    def cov_type(self) -> str:
        """Kind of covariance."""
        return self.estimates.description.cov_type

    @property
    def graph(self) -> Graph:
        """The comparison graph."""
        return self.estimates.graph

    @property
    def diagnostics(self) -> Diagnostics:
        """How well the first stages fit and overlap."""
        return self.estimates.diagnostics

    # --- inference ----------------------------------------------------------------------------------------------------

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the scores, (K, K); singular where the functional fixes a combination of them.

        An estimate without intervals has one, too; it leaves out what the learner has wrong and is for studies of that.
        """
        return pd.DataFrame(self.estimates.covariance.matrix.copy(), index=self.names, columns=self.names)

    def conf_int(self, alpha: float | None = None, method: str = "max-t", bootstrap: str | None = None) -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            Simultaneous for all models (the first two), or each for itself.
        bootstrap : {"gaussian", "rademacher", "webb"}, optional
            Multiplier bootstrap of the influence values, for ``"max-t"``; see :meth:`t_test_pairwise`.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, a row per model.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.conf_int().columns.tolist()
        ['lower', 'upper']
        """
        require_intervals(self.estimates, "conf_int")
        level = level_or_default(alpha, self.estimates.alpha)
        critical = interval_critical_value(self.estimates, level, method, bootstrap=bootstrap, steps=self.steps)
        return interval_frame(self.estimates, critical)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ContrastResults:
        """z tests of linear combinations of scores, each for itself.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            ``"gpt-4 - claude-v1"``, ``"a - b = 0.1"``, ``"a = b = c"``, ``("a", "b")``, ``{"a": 1, "b": -1}``, a matrix
            (J, K). Model names are matched whole.
        delta : float
            In the unit of the scores; a margin above zero for the last two sides.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            The alternative: what is left over after the hypothesis' own value is not ``delta``, above it, below it,
            above ``-delta``, or between ``-delta`` and ``delta``.

        Returns
        -------
        statsmodels ContrastResults
            p-values are each for itself, as if what is tested had been chosen before the data were seen; where it is
            first against second of these scores, which the data chose, the table says so (:meth:`t_test_pairwise`
            holds for every pair at once). With one side, ``conf_int`` has one limit; for equivalence (two one-sided
            tests) the two that have to lie between ``-delta`` and ``delta``.

        Raises
        ------
        UnknownModelError
            If a model is not among the ranked ones.
        HypothesisError
            If the hypothesis cannot be read, or a contrast is a constant whatever the data say.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> test = res.t_test("gpt-4 - claude-v1")
        >>> test.summary_frame().index.tolist()
        ['gpt-4 - claude-v1']
        """
        return t_test_of_scores(self.estimates, hypothesis, delta=delta, side=side)

    def wald_test(self, hypothesis: HypothesisLike) -> ContrastResults:
        """One joint chi-squared test of linear restrictions; its degrees of freedom are the structural rank.

        Parameters
        ----------
        hypothesis
            As for :meth:`t_test`; ``"a = b = c"`` has two degrees of freedom.

        Returns
        -------
        statsmodels ContrastResults
        """
        require_intervals(self.estimates, "wald_test")
        named = named_estimates(self.estimates)
        return wald_test(named, named.hypothesis(hypothesis))

    def win_probability(self, first: str, second: str, alpha: float | None = None) -> WinProbability:
        """Share of comparisons that ``first`` wins against ``second``, with an interval.

        The mean over contexts of the symmetrised preference, ties counted as the category weights say, estimated as the
        scores are and with their covariance type.

        Raises
        ------
        GraphError
            If the two were not compared often enough.
        DataNotStoredError
            If the result was loaded without data.
        """
        level = level_or_default(alpha, self.estimates.alpha)
        return win_probability_of(self.estimates, self.steps, first, second, alpha=level)

    def predict(self, newdata: object = None) -> pd.DataFrame:
        """Scores per prompt, F(mu(x)).

        Parameters
        ----------
        newdata : frame, optional
            Prompts with the formula's feature columns; the mean of the folds' learners is evaluated there. None means
            the prompts of the fit, out of fold; with ``subsample=`` those of its sample.

        Returns
        -------
        DataFrame, shape (n, K)
        """
        steps = require_steps(self.estimates, self.steps, "predict")
        if newdata is None:
            return fitted_scores(self.estimates, steps)
        return predicted_scores(self.estimates, steps, newdata)

    # --- order --------------------------------------------------------------------------------------------------------

    def t_test_pairwise(
        self,
        method: str = "max-t",
        *,
        models: Sequence[str] | None = None,
        against: str | None = None,
        side: str = "two-sided",
        delta: float = 0.0,
        alpha: float | None = None,
        bootstrap: str | None = None,
    ) -> PairwiseResults:
        """Tests of all differences between models, as one family.

        Parameters
        ----------
        method : {"max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none"}
            Adjustment of the p-values. ``"max-t"``: the joint normal distribution of all differences, in one step, with
            intervals that hold jointly. ``"step-down"``: the same step by step (Romano and Wolf), which rejects at
            least as much; intervals stay those of the single step. ``"holm"`` and ``"bonferroni"`` know nothing of the
            correlations; ``"fdr_bh"`` holds the false discovery rate only, with intervals each for itself. What
            :meth:`ranks` separates lies between the first two: it steps down, too, but over both directions of each
            difference, because ranks claim directions.
        models : sequence of str, optional
            Some of the models; all when None.
        against : str, optional
            A model that all others are compared with (Dunnett), instead of all pairs.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            The alternative: the difference is not ``delta``, above it, below it, above ``-delta``, or between
            ``-delta`` and ``delta``. All pairs are asked both ways where one side is tested.
        delta : float
            In the unit of the scores; a margin above zero for the last two.
        alpha : float, optional
            One minus the level; the fit's when None.
        bootstrap : {"gaussian", "rademacher", "webb"}, optional
            Multiplier bootstrap of the influence values (by cluster, where there are clusters) in place of the joint
            normal distribution, for ``"max-t"`` and ``"step-down"``.

        Returns
        -------
        PairwiseResults
            ``.result_frame``, ``.summary()``, ``.plot()``.

        Raises
        ------
        UnknownModelError, OptionError, OptionTypeError
        DataNotStoredError
            With ``bootstrap`` if the result was loaded without data.

        Notes
        -----
        Equivalence is two one-sided tests; its limits are those that have to lie between ``-delta`` and ``delta``.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> tests = res.t_test_pairwise(against="gpt-4")
        >>> tests.result_frame.columns.tolist()[:4], len(tests.result_frame)
        (['first', 'second', 'estimate', 'std_error'], 7)
        """
        return compare_models(
            self.estimates,
            self.steps,
            method,
            models=models,
            against=against,
            side=side,
            delta=delta,
            alpha=alpha,
            bootstrap=bootstrap,
        )

    def ranks(
        self, alpha: float | None = None, simultaneous: bool = True, bootstrap: str | None = None
    ) -> pd.DataFrame:
        """Ranks with confidence sets, and groups that the data cannot separate.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        simultaneous : bool
            Whether the sets hold for all models at once, or each for itself.
        bootstrap : {"gaussian", "rademacher", "webb"}, optional
            As in :meth:`t_test_pairwise`.

        Returns
        -------
        DataFrame
            A row per model, the best first: ``rank`` by score, ``lower`` and ``upper`` (best and worst rank that the
            data leave open) and ``group``: two models share a letter exactly where neither is shown to be above the
            other, at the joint level whatever ``simultaneous`` says. A shared letter does not show equality.

        Notes
        -----
        A model's best possible rank is one plus the number of models shown to be above it, its worst K less those shown
        to be below, by step-down max-t tests of the one-sided hypotheses theta_j <= theta_k: for all ordered pairs
        (simultaneous), or those of one model. Sets hold with ties, too.

        References
        ----------
        Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across
        neighbourhoods and academic achievement across countries, Review of Economic Studies 91.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.ranks().columns.tolist()
        ['rank', 'lower', 'upper', 'group']
        """
        level = level_or_default(alpha, self.estimates.alpha)
        return rank_table(self.estimates, self.steps, level, simultaneous=simultaneous, bootstrap=bootstrap)

    def best_set(self, n_best: int = 1, alpha: float | None = None, bootstrap: str | None = None) -> list[str]:
        """The models that may be among the ``n_best`` best.

        With probability ``1 - alpha`` all models that truly are among them are in the set, for every ``n_best`` at
        once: it is those whose simultaneous rank set begins at ``n_best`` or better.

        Parameters
        ----------
        n_best : int
            From 1 to the number of models.
        alpha, bootstrap
            As in :meth:`ranks`.

        Returns
        -------
        list of str
            The best first.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> set(res.best_set(1)) <= set(res.best_set(3))
        True
        """
        return best_models(self.estimates, self.steps, n_best, alpha=alpha, bootstrap=bootstrap)

    def ellipsoid(
        self,
        alpha: float | None = None,
        models: Sequence[str] | None = None,
        contrasts: HypothesisLike | None = None,
    ) -> Ellipsoid:
        """The joint confidence region of some or all scores, or of contrasts of them.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        models : sequence of str, optional
            All when None.
        contrasts : optional
            Hypotheses as for :meth:`t_test`, in place of models: ``["a - b", "(a + b)/2 - c"]``. A hypothesis' own
            value (``"a - b = 0.1"``) is subtracted.

        Returns
        -------
        Ellipsoid
            Its degrees of freedom, radius and volume are those of the directions that the functional leaves free.
            ``plot()`` draws the region of a pair.

        Raises
        ------
        UnknownModelError, OptionError
        HypothesisError
            If what is asked for is fixed by the functional, or does not vary in the data.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> region = res.ellipsoid(models=["gpt-4", "claude-v1"])
        >>> region.df, region.contains(res.params[["gpt-4", "claude-v1"]])
        (2, True)
        >>> res.ellipsoid(contrasts=["gpt-4 - claude-v1", "claude-v1 - koala-13b"]).models
        ('gpt-4 - claude-v1', 'claude-v1 - koala-13b')
        """
        level = level_or_default(alpha, self.estimates.alpha)
        return confidence_region(self.estimates, level, models=models, contrasts=contrasts)

    def restriction_test(self) -> RestrictionTest:
        """Test of the Bradley-Terry model by what assuming it changes (Hausman), for ``estimator="bt_restricted"``.

        The restricted scores are held against the projection, from the same first stages, with the covariance of the
        difference of their influence values. Where contexts are independent the p-value comes from samples of labels
        from the restricted model, because chi-squared rejects too often where probabilities are near 0 or 1. It sees
        departures that move the scores; a small p-value says that the restricted scores are not those of the
        projection, and ``estimator="debiased"`` is the one to report.

        Returns
        -------
        RestrictionTest
            ``statistic``, ``df``, ``pvalue`` and a ``frame`` by model.

        Raises
        ------
        OptionError
            If the estimator is another, or nothing is restricted (two models, a graph without cycles).
        DataNotStoredError
            If the result was loaded without data.

        References
        ----------
        Hausman (1978), Specification tests in econometrics, Econometrica 46.

        Examples
        --------
        >>> import dmlrank as dr
        >>> sim = dr.datasets.Bt(n_items=3, n_features=1, gamma=0)
        >>> battles = sim.sample(800, rng=0)
        >>> x = battles.drop_duplicates("question_id")[["x0"]].to_numpy()
        >>> known = {"mu": sim.mu(x), "propensity": sim.propensity(x), "context": "question_id"}
        >>> formula = "winner ~ x0 | model_a + model_b"
        >>> res = dr.dml_rank(formula, battles, functional="bt", estimator="bt_restricted", rng=0, **known)
        >>> test = res.restriction_test()
        >>> test.df, test.pvalue > 0.05
        (2, True)
        """
        return bradley_terry_test(self.estimates, self.steps)

    # --- groups of contexts -------------------------------------------------------------------------------------------

    def by(self, *columns: str) -> GroupResults[RankResults]:
        """A leaderboard for every group of prompts, from this fit, with the joint covariance of all.

        The scores of group g are theta_g = E[F(mu(X)) | G = g]. They come from the fit's influence values,
        phi_g = 1(G = g) (phi_raw - theta_g) / p_g, so that nothing is trained anew, and their mean by share of the
        groups is the score over all prompts (with ``subsample=``, up to what the sample's shares of the groups differ).

        Parameters
        ----------
        *columns : str
            A column of categories, or several: groups are the combinations that occur. Each has to be a feature of the
            formula or a function of the features; the data show the latter where prompts share their features.

        Returns
        -------
        GroupResults
            ``groups["coding"]`` is a result like this one: scores, intervals, tests, rank sets, summary.

        Raises
        ------
        OptionError
            If a column is not a function of the features, or the estimator is not the debiased one.
        DataError, MissingDataError
            If a group has fewer than two labelled prompts, or a column varies within a prompt or is missing.
        DataNotStoredError
            If the result was loaded without data.

        Warns
        -----
        DmlrankWarning
            Where a group has fewer than 30 prompts, or no vote on a model: its score is what the learner guesses.

        Notes
        -----
        A non-linear functional of a group needs preferences *given* the group: with mu(x) averaged over it,
        E[F(mu(X)) | G = g] is another number than the score of a leaderboard of the group. Hence the condition on
        columns.

        What the covariance of the fit has beyond the sum over influence values (for bt and rank_centrality, the
        correction for a shrunken mu) stretches the errors of all groups alike, as it does the overall scores. Clusters
        are the fit's, with their number in the small-sample factor.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)
        >>> groups = res.by("category")
        >>> groups.params.shape, groups["coding"].params.idxmax()
        ((8, 6), 'gpt-4')
        """
        require_models(self.estimates, "by", "gives scores of models by group")
        return scores_by_group(self.estimates, self.steps, columns, type(self))

    def project(self, formula: str) -> Projection:
        """What the scores of prompts depend on: the projection of F(mu(x)) on functions v of the prompt.

        beta = E[v v']^-1 E[v F(mu(X))'], one column of coefficients per model: the best linear description of how
        scores vary over prompts, whether or not it is linear. Estimated by regressing phi_raw on v, with influence
        E[v v']^-1 v (phi_raw - v'beta).

        Parameters
        ----------
        formula : str
            ``"~ C(category) + length"``, read by patsy, with a constant unless it says ``0 +``. Variables have to be
            features of the fit's formula, or functions of the features; see :meth:`by`.

        Returns
        -------
        Projection
            Coefficients, tests, simultaneous intervals and bands over a grid of one variable.

        Raises
        ------
        FormulaError
            If the formula cannot be read or its columns are collinear.
        OptionError
            If a variable is not a function of the features, or the estimator is not the debiased one.
        DataError, MissingDataError
            If a variable varies within a prompt or is missing.
        DataNotStoredError
            If the result was loaded without data.

        References
        ----------
        Semenova and Chernozhukov (2021), Debiased machine learning of conditional average treatment effects and other
        causal functions, Econometrics Journal 24.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) + length | model_a + model_b", battles, rng=0, n_jobs=1)
        >>> res.project("~ length").params.index.tolist()
        ['Intercept', 'length']
        >>> bool((res.project("~ 1").params.loc["Intercept"] - res.params).abs().max() < 1e-12)
        True
        """
        require_models(self.estimates, "project", "describes scores of models")
        return project_scores(self.estimates, self.steps, formula)

    # --- judges, and what to label next -------------------------------------------------------------------------------

    @property
    def judge(self) -> JudgeReport | None:
        """How judges agree with humans and what they bought; None where the fit has none."""
        e = self.estimates
        return None if e.judge is None else JudgeReport(e.judge, e.names, e.scale.factor)

    def judge_table(self, alpha: float | None = None) -> pd.DataFrame:
        """Scores from humans alone, from humans and judges, and from the judges' verdicts alone, side by side.

        The last are estimated from the verdicts as the first are from the votes (of several judges from their mean), so
        that they rank models as the judge does, with an interval for that. ``judge_differs`` says where this interval
        excludes the estimate from both.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of each interval; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model: ``humans humans_se both both_se judge judge_se judge_lower judge_upper judge_differs``.

        Raises
        ------
        OptionError
            If the fit has no judge.
        JudgeError
            If verdicts are no probabilities.
        DataNotStoredError
            If the result was loaded without data.
        """
        steps = require_steps(self.estimates, self.steps, "judge_table")
        return judge_table(self.estimates, steps, level_or_default(alpha, self.estimates.alpha))

    def design(
        self,
        budget: float,
        criterion: str = "A",
        *,
        contrasts: ContrastsLike = None,
        costs: ArrayLike = 1.0,
        min_propensity: float | None = None,
        one_pair: bool = False,
        explore: float = 0.0,
        newdata: object = None,
        from_scratch: bool = False,
        progress: bool | Report = False,
    ) -> Plan:
        """What to label next: the plan that makes the scores most precise for a budget.

        Its labels are added to those that the fit has: what they know already, verdicts of judges included, is counted
        in what the plan predicts and in where it spends. Functional, graph, category weights, position bias, floor,
        ``alpha`` and the unit of the scores are the fit's, probabilities its learners'.

        Parameters
        ----------
        budget, criterion, contrasts, costs, min_propensity, one_pair, explore
            As for :func:`dmlrank.design`.
        newdata : frame, optional
            The prompts to plan for, a row each, with the formula's feature columns and, where the fit has it, the
            column that identifies a prompt. None: the prompts of the fit, out of fold.
        from_scratch : bool
            Whether the fit's labels are left out of account: a plan for an estimate from the planned labels alone.
        progress : bool or callable
            As for :func:`dmlrank.dml_rank`.

        Returns
        -------
        Plan
            Predicted standard errors are those of an estimate from the fit's labels and the planned ones together, new
            prompts independent. An annotator's or cluster's effect on several new labels is not foreseen.

        Raises
        ------
        OptionError
            If an option cannot be used, or the fit has no probabilities (``bt_mle``).
        DataNotStoredError
            If the result was loaded without data.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
        >>> plan = res.design(budget=1000, one_pair=True)
        >>> round(plan.expected_cost), len(plan.sample(rng=1))
        (1000, 2000)
        """
        options = PlanOptions(
            budget=budget,
            criterion=criterion,
            contrasts=contrasts,
            costs=costs,
            min_propensity=min_propensity,
            one_pair=one_pair,
            explore=explore,
        )
        steps = require_steps(self.estimates, self.steps, "design")
        with reporting(progress):
            return design_fit(self.estimates, steps, newdata, options, from_scratch)

    # --- summaries, frames and plots ----------------------------------------------------------------------------------

    def summary(self, alpha: float | None = None, title: str | None = None) -> Summary:
        """Return the table for a report: best model first, with simultaneous intervals, rank sets and groups.

        p-values are adjusted for all models (single-step max-t), so that a p-value is below alpha exactly where the
        interval excludes the value that is tested; :attr:`pvalues` are not adjusted. Of an estimate without intervals
        the table shows the scores in their order, and a note says why there are no tests.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; the fit's when None.
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> table = res.summary(title="Win rates")
        >>> table.title, table.rows[0][0]
        ('Win rates', 'gpt-4')
        """
        level = level_or_default(alpha, self.estimates.alpha)
        e = self.estimates
        ranked = e.of_models and e.has_intervals
        separation = separation_of_models(e, self.steps, level) if ranked else None
        return build_summary(e, level, critical_value_or_nan(e, level), separation).with_title(title)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """One row per model: term, estimate, std_error, statistic, p_value, conf_low, conf_high, votes, votes_left_out.

        ``votes`` are those on the pairs that are compared. Where the estimates are not scores of models there are none.
        """
        level = level_or_default(alpha, self.estimates.alpha)
        return tidy_frame(self.estimates, critical_value_or_nan(self.estimates, level, method))

    def glance(self, alpha: float | None = None) -> pd.DataFrame:
        """One row about the fit: functional, estimator, counts, first stages, covariance, critical value, seed.

        ``critical`` is that of the simultaneous intervals at ``alpha``; ``n_clusters`` the smallest number of clusters
        (of contexts where they are independent).

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.glance()[["functional", "nobs", "n_models", "seed"]].to_dict("records")
        [{'functional': 'borda', 'nobs': 2000, 'n_models': 8, 'seed': 0}]
        """
        level = level_or_default(alpha, self.estimates.alpha)
        return glance_frame(self.estimates, critical_value_or_nan(self.estimates, level), level)

    def augment(self, model: str | None = None) -> pd.DataFrame:
        """One row per comparison: its labels, what the first stages say of it, and its context's influence.

        Parameters
        ----------
        model : str, optional
            The model whose influence is wanted; all when None.

        Returns
        -------
        DataFrame
            A row for every labelled (context, first, second) cell: the columns that identify the context
            (``context``, the row's number, where there are none), ``first second n_votes``, the mean label
            ``mean_<category>``, ``fold``, out-of-fold probabilities ``prob_<category>`` (not floored), ``propensity``,
            ``weight`` = 1 / propensity, and the influence phi of the context, which all its rows share, on every model
            (``influence_<model>``) or on the one asked for (``influence``). A score is the mean over contexts of what
            it would be from them, and phi is how far one context is from it. With ``estimator="bt_mle"`` the first
            stages' columns are replaced by ``fitted``, the probability that ``first`` wins.

        Raises
        ------
        DataNotStoredError
            If the result was loaded without data.
        UnknownModelError
            If the model is not among the ranked ones.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> rows = res.augment(model="gpt-4")
        >>> len(rows) == res.ncomparisons, rows.columns[:4].tolist()
        (True, ['context', 'first', 'second', 'n_votes'])
        """
        steps = require_steps(self.estimates, self.steps, "augment")
        if model is not None:
            estimate_index(self.estimates, model)
        return augment_frame(steps, influence_values(steps, self.estimates.scale), self.estimates.names, model)

    def plot(self, ax: Axes | None = None, alpha: float | None = None) -> Axes:
        """Forest plot of the scores with simultaneous intervals; needs matplotlib."""
        level = level_or_default(alpha, self.estimates.alpha)
        return forest_plot(intervals_to_draw(self.estimates, level), self.estimates.neutral, ax)

    def __repr__(self) -> str:
        e = self.estimates
        part = f" ({e.part})" if e.part else ""
        known = f"first {e.models[int(np.argmax(e.estimate))]!r}" if e.of_models else f"outputs {listed(e.names, 3)}"
        return (
            f"<RankResults: {e.functional}, {len(e.models)} models, {e.description.n_contexts:,} contexts, "
            f"{e.description.n_votes:,} votes{part}; {known}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    # --- storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], with_data: bool = False) -> None:
        """Store the result in a file that :func:`dmlrank.load` reads.

        Parameters
        ----------
        path : path-like
        with_data : bool
            Whether to store the data (the whole frame, since an update may ask for another of its columns) and the
            learners, too, so that the loaded result answers everything; otherwise the numbers alone are stored.

        Raises
        ------
        StorageError
            If something that the fit uses cannot be stored, such as a lambda in the formula.
        FileWriteError
            If the file cannot be written.
        DataNotStoredError
            If ``with_data=True`` and the result was itself loaded without data.

        Notes
        -----
        The file is written beside and renamed: where anything fails, what stood at ``path`` still does.
        """
        stored = (self.estimates, store_steps(require_steps(self.estimates, self.steps, "save"))) if with_data else None
        write_pickle(path, self if stored is None else Rebuilt(type(self), stored))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a result that :meth:`save` has stored. Only load files that you trust: the format is pickle."""
        return read_pickle(path, cls)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The numbers as JSON, without data, learners or code; :func:`dmlrank.read_json` reads it.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Raises
        ------
        FileWriteError
            If the file cannot be written; what stood there before still does.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> dr.read_json(res.to_json()).params.equals(res.params)
        True
        """
        text = to_text(self.estimates)
        if path is None:
            return text
        write_file(path, text)
        return None

    def __copy__(self) -> Self:
        return type(self)(self.estimates, self.steps)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return type(self)(copy.deepcopy(self.estimates, memo), copy.deepcopy(self.steps, memo))

    def __reduce__(self) -> tuple[type[RankResults], tuple[Estimates]]:
        return type(self), (self.estimates,)

    # --- other fits ---------------------------------------------------------------------------------------------------

    def update(self, **changes: object) -> RankResults:
        """The same fit with some options of :func:`dmlrank.dml_rank` changed; only what they touch is redone.

        Another functional, estimator, floor, covariance of the same folds or level trains nothing anew. Another
        ``context``, ``categories``, ``missing``, ``votes``, ``unlabelled``, column of propensities or clusters reads
        the frame again, as it is then. Another judge or ``propensity_formula``, or another function of prompts, reads
        only the columns that it lacks, and is refused if the frame's rows have changed or moved since the fit.

        Raises
        ------
        OptionError
            If an option is unknown.
        DataNotStoredError
            If the result was loaded without data.
        """
        steps = require_steps(self.estimates, self.steps, "update")
        made = fit(options_of_update(steps.options, changes), steps.source, steps)
        view = self.estimates.scale
        return made if view.natural else made.rescale(view.request, mean=view.mean, anchor=view.anchor)

    def rescale(
        self,
        scale: str | float,
        *,
        mean: float | None = None,
        anchor: Mapping[str, float] | tuple[str, float] | None = None,
    ) -> RankResults:
        """The same result in another unit, such as Elo points: scores are multiplied and shifted.

        The shift is a constant chosen for display. No difference to the anchor is taken: intervals have the same width
        with and without it, the anchor's own interval included, and z statistics and p-values stay.

        Parameters
        ----------
        scale : {"elo", "log-odds"} or float
            400 / ln 10 points per log-odds, log-odds, or a positive number to multiply the scores with. The first two
            are for bt; a difference of other scores is worth no number of Elo points. A view of a view starts again
            from the scores themselves.
        mean : float, optional
            What the mean score becomes.
        anchor : mapping or tuple, optional
            ``{"gpt-4": 1200}`` or ``("gpt-4", 1200)``: what the score of one model becomes.

        Returns
        -------
        RankResults
            ``update`` of it gives a view in the same unit.

        Raises
        ------
        OptionError, OptionTypeError, UnknownModelError
            If the scale is none of the functional's, or the anchor is not one ranked model with a number.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
        >>> elo = res.rescale("elo", mean=1000)
        >>> round(elo.params.mean()), float((elo.bse / res.bse).mean().round(1))
        (1000, 173.7)
        """
        return replace(self, estimates=rescaled(self.estimates, make_scale(self.estimates, scale, mean, anchor)))

    def _series(self, values: NDArray[np.float64], name: str) -> pd.Series:
        return pd.Series(values.copy(), index=self.names, name=name)


def fit(options: Options, source: Source, previous: FitSteps | None = None) -> RankResults:
    """Carry out a fit; its warnings are given once, at the line that asked for it, and kept in the diagnostics."""
    with collected_warnings() as given:
        steps = run(options, source, previous)
    results = RankResults(collect(steps, tuple(given)), steps)
    for message in given:
        warn(message, stacklevel=3)
    return results

"""The results of a fit: scores with their covariance, and the questions that can be put to them."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import check_flag, check_whole, place_of, places_of, resolve_seed
from .._utils.atomic_write import write_file
from .._utils.tasks_and_threads import (
    Report,
    collected_warnings,
    computing_with,
    one_thread,
    warn,
)
from ..data.graph import Graph
from ..data.hypotheses import HypothesisLike, LinearHypothesis
from ..data.pairs_from_scores import read_scores
from ..exceptions import OptionError, check_choice, listed
from ..fit.estimates import Diagnostics, Estimates, collect
from ..fit.estimators import options_for
from ..fit.fit_covariance import multiplier_bootstrap
from ..fit.method import run
from ..fit.state import FitState, Source
from ..inference.bootstrap_and_max_t import BOOTSTRAP_DRAWS, differences
from ..inference.covariance import FEWEST_FOR_WEBB, WEBB_HINT
from ..inference.ranks import letter_groups, rank_bounds, ranks_of
from ..inference.simultaneous import (
    PAIR_METHODS,
    TEST_COLUMNS,
    MaxT,
    Simultaneous,
    compare_differences,
    separate,
    separate_each,
)
from ..inference.wald import WaldTestResults, read_alternative, wald_test
from ..options import DEFAULT_START, Options, in_full
from ..report.fact_words import Subject
from ..report.facts import FIRST, explanation_text, short_facts
from ..report.fit_summary import (
    INTERVAL_KINDS,
    build_summary,
    fit_facts,
    rows_to_show,
    slim_summary,
    tidy_frame,
)
from ..report.phrases import SummaryLevel, doubt_note, enumerated, some_of
from ..tables.summary_table import Summary, inert
from .ranking import Boards, PairwiseResults, RankSets, make_boards, pairs_to_compare, places_to_compare
from .requirements import Needs, members, named_estimates, require_steps
from .units_and_views import (
    adjusted_p_values,
    alpha_of,
    alpha_or_default,
    critical_value_of,
    drawn,
    in_unit,
    make_scale,
    rescaled,
    sequential_view,
    simultaneous_of,
    summary_level,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..planning.plan import Plan
    from ..report.render_page import Board
    from .annotators import AnnotatorReport
    from .fragility import FragilityResults
    from .heterogeneity import GroupColumns
    from .joint_estimates import StyleResults
    from .judges import GradeReport, JudgeReport
    from .pareto import Pareto
    from .score_tests import Ellipsoid, RestrictionTest, WinProbability, ZTestResults
    from .sensitivity_results import ScoreBounds, SensitivityResults


# What several methods say where a result does not have them.
_ORDER = "puts models in an order"
_AS_SHOWN = "it describes votes on the answers that were shown, and scores at equal style do not"
_NO_PREFERENCES = (
    "means of scores have no preferences between models; update(functional='borda') compares the models on every prompt"
)
_OF_FORMULAS = Needs(
    unadjusted="scores at equal style are no mean of scores of single prompts that a formula could describe, because "
    "slopes are those of all prompts together",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankResults(Boards):
    """Scores of K models with their covariance; tests, intervals, ranks and regions are methods.

    :func:`dmlrank.dml_rank` returns an object of this class. No method changes the object. Names that occur in
    statsmodels have the meaning that they have there.

    Where a user's own functional estimates other numbers than scores of models, the names of these outputs take the
    place of the models' names.

    A result lacks methods that need what it does not have (data and learners, intervals, scores of models): they raise
    an error that says what is missing, such as :class:`~dmlrank.DataNotStoredError`, and ``hasattr`` says no.

    A result can be pickled, and written as JSON (:meth:`to_json`). Both leave out data and learners: what is read
    answers what numbers alone answer, such as tests, ranks and tables. Reading a pickle runs the code in it; JSON holds
    none.

    Parameters
    ----------
    estimates : Estimates
        Scores, covariance and description of the fit.
    steps : FitState, optional
        Data and learners of the fit; None in a result that was stored, or of a group of prompts.
    simultaneous : MaxT or AllLooks, optional
        How wide simultaneous statements are: what is drawn for them is kept here.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
    >>> res.params.idxmax(), len(res.models)
    ('gpt-4', 8)
    """

    estimates: Estimates
    steps: FitState | None = None
    simultaneous: Simultaneous = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.simultaneous is None:
            object.__setattr__(self, "simultaneous", simultaneous_of(self.estimates))
        if isinstance(self.simultaneous, MaxT) and self.steps is not None:
            self.simultaneous.n_jobs = self.steps.options.n_jobs

    def __dir__(self) -> list[str]:
        return members(self)

    @property
    def _fit(self) -> FitState:
        return require_steps(self.estimates, self.steps, "this method")

    def _level(self, alpha: float | None) -> SummaryLevel:
        return summary_level(self.estimates, self.simultaneous, alpha)

    # --- what was estimated -------------------------------------------------------------------------------------------

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def names(self) -> list[str]:
        """Names of the estimates in the order of every array: the models, or the outputs of a user's functional."""
        return list(self.estimates.names)

    @property
    def params(self) -> pd.Series:
        """Scores by model; in a group NaN without a vote on the model, as a score would be a prediction alone."""
        return self._series(self.estimates.estimate, "params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors by model; NaN where the result is an estimate without intervals."""
        return self._series(self.estimates.std_errors, "bse")

    @property
    def tvalues(self) -> pd.Series:
        """Statistics of z tests against the neutral value, or the mean score; NaN without a positive standard error.

        The notes of :meth:`summary` say which value is tested, and why a statistic is missing.
        """
        return self._series(self.estimates.neutral_statistics(), "tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of :attr:`tvalues`, not adjusted; those of :meth:`summary` are adjusted for all models."""
        return self._series(self.estimates.p_values(), "pvalues")

    @property
    def influence(self) -> NDArray[np.float64]:
        """Influence values phi, (n, K), one row per context in order of first appearance, with mean zero.

        ``cov_params`` adds to phi'phi / n^2 what phi lacks: the variance correction and that of unanimous pairs; the
        second-order bias lowers no variance.
        """
        from .heterogeneity import influence_values

        return influence_values(require_steps(self.estimates, self.steps, "influence"), self.estimates.scale)

    @property
    def nobs(self) -> int:
        """Number of contexts, labelled or not."""
        return self.estimates.description.n_contexts

    @property
    def functional(self) -> str:
        """Name of the functional."""
        return self.estimates.functional

    @property
    def graph(self) -> Graph:
        """The comparison graph."""
        return self.estimates.graph

    @property
    def diagnostics(self) -> Diagnostics:
        """How well the first stages (outcome and propensity models) fit the data, and how small propensities become."""
        return self.estimates.diagnostics

    # --- inference ----------------------------------------------------------------------------------------------------

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the scores, (K, K); singular where the functional fixes a combination of them.

        An estimate without intervals has a covariance, too, which does not contain the learner's error: use it to study
        this error, not for tests.

        Returns
        -------
        DataFrame, shape (K, K)
            Covariance matrix with the names of the scores.
        """
        return pd.DataFrame(self.estimates.covariance.matrix.copy(), index=self.names, columns=self.names)

    @Needs(intervals=True, drawn=True)
    def conf_int(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return confidence intervals of the scores.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            ``"max-t"`` and ``"bonferroni"``: intervals that hold simultaneously for all models. ``"none"``: intervals
            that each hold for one model.

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, a row per model.

        Notes
        -----
        Limits of means of scores are not symmetric: each counts one prompt, or cluster, that has not been seen
        (the module ``score_limits``), so that 0 of 500 unsafe answers are at most .7 %. Those of win shares are the
        limits of Clopper and Pearson with as many votes as have the standard error.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.conf_int().columns.tolist()
        ['lower', 'upper']
        """
        critical = critical_value_of(self.estimates, self.simultaneous, alpha, method)
        lower, upper = self.estimates.intervals(critical)
        limits = pd.DataFrame({"lower": lower, "upper": upper}, index=self.names)
        limits.loc[self.estimates.is_unseen] = np.nan
        return limits

    @Needs(intervals=True)
    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> ZTestResults:
        """Test linear combinations of scores, one z test for each.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            ``"gpt-4 - claude-v1"``, ``"a - b = 0.1"``, ``"a = b = c"``, ``("a", "b")``, ``{"a": 1, "b": -1}``, a matrix
            (J, K). A name that can also be read as an expression of other models has to be in quotes.
        delta : float
            In the unit of the scores. For ``"noninferiority"`` and ``"equivalence"`` the margin, which is above zero.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            The alternative, for the combination minus the value in the hypothesis: it is not ``delta``, above
            ``delta``, below ``delta``, above ``-delta``, or between ``-delta`` and ``delta``.

        Returns
        -------
        ZTestResults
            As in statsmodels. The p-values are not adjusted: they are valid for a hypothesis that was chosen before the
            data were seen, and the table says where the data seem to have chosen it. For equivalence (two one-sided
            tests) the two limits of ``conf_int`` have to lie between ``-delta`` and ``delta``.

        Raises
        ------
        HypothesisError
            If the hypothesis cannot be read, or a combination has the same value whatever the data are.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> test = res.t_test("gpt-4 - claude-v1")
        >>> test.summary_frame().index.tolist()
        ['gpt-4 - claude-v1']
        """
        from .score_tests import t_test_of_scores

        return t_test_of_scores(self.estimates, hypothesis, delta=delta, side=side)

    @Needs(intervals=True)
    def wald_test(self, hypothesis: HypothesisLike) -> WaldTestResults:
        """Test linear restrictions jointly by one chi-squared test.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list
            As for :meth:`t_test`.

        Returns
        -------
        WaldTestResults
            As in statsmodels. The degrees of freedom are the structural rank: ``"a = b = c"`` has two.

        Raises
        ------
        HypothesisError
            If the hypothesis cannot be read, the functional fixes what it restricts, or there are too few clusters.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> int(res.wald_test("gpt-4 = claude-v1 = palm-2").df_denom)
        2
        """
        named = named_estimates(self.estimates)
        return wald_test(named, named.hypothesis(hypothesis))

    @Needs(unadjusted=_AS_SHOWN, no_means=_NO_PREFERENCES)
    def win_probability(self, first: str, second: str, alpha: float | None = None) -> WinProbability:
        """Return the share of comparisons that ``first`` wins against ``second``, with an interval.

        The share is the mean over contexts of the preference for ``first``, averaged over both display orders; ties
        count as the category weights say. It is about votes on this pair; scores rest on all pairs, so that a lead of
        bt may promise another share.

        Parameters
        ----------
        first, second : str
            Two models.
        alpha : float, optional
            One minus the level; the fit's when None.

        Returns
        -------
        WinProbability
            The share with its standard error and interval.

        Raises
        ------
        GraphError
            If the two models are not a compared pair.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> bool(res.win_probability("gpt-4", "dolly-v2-12b").estimate > 0.5)
        True
        """
        from .score_tests import win_probability_of

        return win_probability_of(self.estimates, self.steps, first, second, alpha=alpha_of(self.estimates, alpha))

    @Needs(unadjusted=_AS_SHOWN, data=True, no_means=_NO_PREFERENCES)
    def predict(self, newdata: object = None) -> pd.DataFrame:
        """Return the scores of single prompts, F(mu(x)).

        With ``average="preferences"`` and a functional that is not linear, the scores of the result are no means of
        these scores.

        Parameters
        ----------
        newdata : frame, optional
            Prompts with the formula's feature columns. Their probabilities are the means of the folds' learners. None
            means the prompts of the fit, out of fold.

        Returns
        -------
        DataFrame, shape (n, K)
            A row per prompt, a column per model.

        Raises
        ------
        ColumnError
            If newdata lacks a column of the formula.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.predict().shape
        (2000, 8)
        """
        from .heterogeneity import scores_of_prompts

        return scores_of_prompts(self.estimates, self._fit, newdata)

    # --- order --------------------------------------------------------------------------------------------------------

    @Needs(models=_ORDER, intervals=True, drawn=True)
    def t_test_pairwise(
        self,
        method: str = "max-t",
        *,
        models: Sequence[str] | None = None,
        against: str | None = None,
        side: str = "two-sided",
        delta: float = 0.0,
        alpha: float | None = None,
    ) -> PairwiseResults:
        """Test all differences between models as one family.

        Parameters
        ----------
        method : {"max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none"}
            Adjustment of the p-values. ``"max-t"`` uses the joint normal distribution of all differences in one step;
            its intervals hold jointly. ``"step-down"`` repeats this step by step (Romano and Wolf) and rejects at least
            as many hypotheses; its intervals are those of the single step. Two-sided, its error rate does not count
            conclusions of the wrong direction, which :meth:`ranks` and one-sided alternatives control. ``"holm"`` and
            ``"bonferroni"`` do not use the correlations. ``"fdr_bh"`` controls the false discovery rate, and its
            intervals each hold for one difference. ``"none"`` adjusts nothing.
        models : sequence of str, optional
            The models that are compared; all when None.
        against : str, optional
            A model that all others are compared with (Dunnett), instead of all pairs.
        side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
            The alternative: the difference is not ``delta``, above ``delta``, below ``delta``, above ``-delta``, or
            between ``-delta`` and ``delta``. A one-sided alternative is tested for both directions of every pair.
        delta : float
            In the unit of the scores. For ``"noninferiority"`` and ``"equivalence"`` the margin, which is above zero.
        alpha : float, optional
            One minus the level; the fit's when None.

        Returns
        -------
        PairwiseResults
            ``.result_frame``, ``.summary()``, ``.plot()``.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> tests = res.t_test_pairwise(against="gpt-4")
        >>> tests.result_frame.columns.tolist()[:4], len(tests.result_frame)
        (['first', 'second', 'estimate', 'std_error'], 7)
        """
        e, alternative, alpha = self.estimates, read_alternative(side, delta), alpha_of(self.estimates, alpha)
        check_choice(method, PAIR_METHODS, "method")
        side, margin, method = alternative.side, alternative.delta, self.simultaneous.adjustment(method)
        if against is None and side == "two-sided" and margin:
            raise OptionError(
                f"delta={delta!r} with side='two-sided': differences of all pairs have no direction; give "
                f"side='larger', 'noninferiority' or 'equivalence', or a model with against="
            )
        chosen = places_to_compare(e, models, against)
        first, second = pairs_to_compare(chosen, None if against is None else place_of(e.models, against), side)
        tests = compare_differences(
            e.estimate, self.simultaneous, first, second, method=method, alternative=alternative, alpha=alpha
        )
        names = np.array(e.models, dtype=object)
        columns = {"first": names[first], "second": names[second]}
        return PairwiseResults(
            pd.DataFrame(columns | {name: getattr(tests, name) for name in TEST_COLUMNS}).assign(
                std_error=differences(e.covariance, first, second).std_error
            ),
            method=method,
            side=side,
            delta=margin,
            alpha=alpha,
            critical=tests.critical,
            against=against,
            models=tuple(e.models[j] for j in chosen),
            estimates=e,
        )

    @Needs(models=_ORDER, intervals=True, drawn=True)
    def ranks(self, alpha: float | None = None, simultaneous: bool = True) -> RankSets:
        """Return ranks with confidence sets, and groups of models that are not separated.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        simultaneous : bool
            Whether the rank sets hold for all models at once, or each for one model.

        Returns
        -------
        RankSets
            ``.result_frame``, ``.summary()``, ``.plot()``. Letters hold at the joint level also with
            ``simultaneous=False``. A shared letter does not show equality.

        Notes
        -----
        The best rank in a set is one plus the number of models shown to be above the model. The worst rank is K minus
        the number of models shown to be below. Step-down max-t tests of the one-sided hypotheses theta_j <= theta_k
        show this: for all ordered pairs (simultaneous), or for the pairs of one model. The sets also hold where models
        have equal true scores.

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
        e, alpha = self.estimates, alpha_of(self.estimates, alpha)
        separation = separate(e.estimate, self.simultaneous, alpha, e.sign)
        seen = np.flatnonzero(~e.is_unseen)
        among_seen = np.ix_(seen, seen)
        lower, upper = rank_bounds(separation.above[among_seen])
        if not simultaneous:
            by_model = separate_each(e.estimate, self.simultaneous, alpha, e.sign)[among_seen]
            lower, upper = rank_bounds(by_model[:, :, 0], by_model[:, :, 1])
        groups = letter_groups(separation.separated[among_seen], e.merit[seen])
        few, models = e.diagnostics.models_with_few_prompts, [self.models[j] for j in seen]
        rank = pd.Series(ranks_of(e.merit[seen]), index=models)
        if few:
            rank = rank.astype("Int64").mask(rank.index.isin(few))
        columns = {"rank": rank, "lower": lower, "upper": upper, "group": groups}
        return RankSets(
            pd.DataFrame(columns, index=models).iloc[np.argsort(-e.merit[seen], kind="stable")],
            alpha=alpha,
            simultaneous=simultaneous,
            n_separated=int(separation.separated[among_seen].sum()) // 2,
            bootstrap=self.simultaneous.multipliers,
            estimates=e,
        )

    @Needs(models=_ORDER, intervals=True, drawn=True)
    def best_set(self, n_best: int = 1, alpha: float | None = None) -> list[str]:
        """Return the models that may be among the ``n_best`` best, of which not each is shown to be.

        With probability ``1 - alpha`` the set contains all models that truly are among the ``n_best`` best, for every
        ``n_best`` at once: those whose simultaneous rank set begins at ``n_best`` or better. ``verdict(top=n_best)``
        names those that are shown to be.

        Parameters
        ----------
        n_best : int
            From 1 to the number of models.
        alpha : float, optional
            As in :meth:`ranks`.

        Returns
        -------
        list of str
            The best model first.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> set(res.best_set(1)) <= set(res.best_set(3))
        True
        """
        check_whole("n_best", n_best, 1, len(self.models))
        frame = self.ranks(alpha).result_frame
        return frame.index[frame["lower"] <= n_best].tolist()

    @Needs(intervals=True)
    def ellipsoid(
        self, alpha: float | None = None, models: Sequence[str] | None = None, contrasts: HypothesisLike | None = None
    ) -> Ellipsoid:
        """Return the joint confidence region of scores, or of contrasts of scores.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        models : sequence of str, optional
            Models of the region; all when None.
        contrasts : str, tuple, mapping, array or list, optional
            Hypotheses as for :meth:`t_test`, in place of models; the value of a hypothesis is subtracted.

        Returns
        -------
        Ellipsoid
            Of the directions that the functional does not fix.

        Raises
        ------
        HypothesisError
            If the functional fixes all of these scores or contrasts, or one of them does not vary in the data.

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
        from .score_tests import confidence_ellipsoid

        e, named, alpha = self.estimates, named_estimates(self.estimates), alpha_of(self.estimates, alpha)
        if contrasts is not None and models is not None:
            raise OptionError("models= and contrasts= both define the region; give one of them")
        places = places_of(e.names, models, "model" if e.of_models else "output")
        names = tuple(e.names[place] for place in places)
        rows = LinearHypothesis(np.eye(len(e.names))[places], np.zeros(len(places)), names)
        rows = rows if contrasts is None else named.hypothesis(contrasts)
        return confidence_ellipsoid(named, rows, alpha, scores=contrasts is None, is_natural=e.scale.natural)

    @Needs(
        unadjusted="its bounds are those of scores of all votes without adjustment",
        one_look="intervals of its bounds hold for one look only",
        data=True,
    )
    def sensitivity(
        self,
        hypothesis: HypothesisLike | None = None,
        gamma: float | Sequence[float] | None = None,
        *,
        score_range: tuple[float, float] | None = None,
    ) -> SensitivityResults | ScoreBounds:
        """Bound contrasts of scores if those who vote differ from those who do not.

        For means of scores of which some are missing, of a model on a prompt (``missing="model"``) or of some of its
        runs there, the bounds hold whatever the missing scores are: all of them the worst for the contrast, or all the
        best [1]_.

        Shown battles without a vote are rows with two models and a missing winner. Given the label that a voter would
        give, the odds of voting are assumed to be within 1/gamma and gamma of the odds given the prompt and the pair;
        gamma = 1 is the assumption of the fit. ``docs/sensitivity.md`` has the formulas.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list, optional
            As for :meth:`t_test`. By default, the differences of neighbours on the leaderboard, whose intervals have
            the critical value of :meth:`t_test_pairwise` for all pairs.
        gamma : float or sequence of float, optional
            Bounds of the odds ratio, at least 1; by default 1, 1.1, 1.25, 1.5 and 2. Of votes only.
        score_range : tuple of two floats, optional
            The smallest and the largest possible score, for means of scores; by default those in the data.

        Returns
        -------
        SensitivityResults or ScoreBounds
            Bounds with their intervals; of votes also the gamma at which each result changes.

        Raises
        ------
        OptionError, OptionTypeError
            If the fit has another estimator than ``"debiased"`` or a judge, or no score is missing.

        Warns
        -----
        IntervalWarning
            If the data have no shown battles without a vote. The bounds are then wide.

        References
        ----------
        .. [1] Manski (1990), Nonparametric bounds on treatment effects.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> battles.loc[::5, "winner"] = None   # shown, and nobody voted
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0)
        >>> sensitivity = res.sensitivity("gpt-4 - dolly-v2-12b")
        >>> bool(sensitivity.tipping["gamma_interval"][0] > 2)
        True
        """
        from .sensitivity_results import analyse_sensitivity, score_bounds

        with one_thread(), self._computing():
            if (gamma if self.estimates.are_means else score_range) is not None:
                raise OptionError("gamma= is about votes, and score_range= is about means of scores; leave it out")
            if self.estimates.are_means:
                return score_bounds(self.estimates, self._fit, self.simultaneous, hypothesis, score_range)
            gammas = (1, 1.1, 1.25, 1.5, 2) if gamma is None else gamma
            return analyse_sensitivity(self.estimates, self._fit, self.simultaneous, hypothesis, gammas)

    @Needs(
        one_look="its refits and their intervals are those of one look",
        intervals=True,
        data=True,
        no_means="it drops votes, and scores are no votes; influence shows which prompts count most",
    )
    def fragility(
        self,
        hypothesis: HypothesisLike | None = None,
        unit: str = "context",
        *,
        flip: bool = False,
        progress: bool | Report = False,
    ) -> FragilityResults:
        """Find how few votes, prompts or groups of them turn a result if they are dropped or flipped.

        A result turns when a contrast changes its sign. The units with the largest influence come first. The model is
        fitted again without as many as influence values predict, and without more until the result turns. Fewer may do.

        Parameters
        ----------
        hypothesis : str, tuple, mapping, array or list, optional
            As for :meth:`t_test`. By default first place: the first model against the rival that overtakes it with the
            fewest units, by their influence.
        unit : str
            What is dropped: ``"context"`` (all rows of a prompt), ``"vote"`` (a label; its row stays), or a column,
            such as that of the annotators. A value of a column that varies within prompts stands for its votes.
        flip : bool
            Whether the labels of the units are flipped, so that a win is a loss, in place of dropping the units.
        progress : bool or callable
            As for :func:`dmlrank.dml_rank`: of the refits.

        Returns
        -------
        FragilityResults
            The number of units, the estimates before and after, whether the refit confirmed it, and the units.

        Raises
        ------
        OptionError, OptionTypeError, ColumnError
            If the unit is unknown, or the influence of single votes is not known.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> bool(res.fragility("gpt-4 - dolly-v2-12b").result_frame["confirmed"].all())
        True
        """
        from .fragility import analyse_fragility

        with self._computing(progress):
            return analyse_fragility(self.estimates, self._fit, hypothesis, unit, flip)

    @Needs(one_look="its p-value holds for one look only", data=True, no_means=_NO_PREFERENCES)
    def restriction_test(self) -> RestrictionTest:
        """Test the Bradley-Terry model by a Hausman test, for ``estimator="bt_restricted"``.

        The test compares the scores of the restricted estimator with those of the debiased estimator, which projects mu
        on the Bradley-Terry model, from the same first stages. Where contexts are independent, the p-value comes from
        samples of labels from the restricted model, because chi-squared rejects too often where probabilities are near
        0 or 1. A small p-value says that the two differ; report ``estimator="debiased"`` then.

        Returns
        -------
        RestrictionTest
            ``statistic``, ``df``, ``pvalue`` and a ``frame`` by model.

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
        from .score_tests import bradley_terry_test

        return bradley_terry_test(self.estimates, self._fit)

    # --- groups of contexts -------------------------------------------------------------------------------------------

    @Needs(
        models="gives scores of models by group",
        one_look="tests across groups hold for one look only; res.by(...)[name].sequential(...) is the view of a group",
        data=True,
    )
    def by(self, *columns: GroupColumns, progress: bool | Report = False) -> Any:
        """Return scores in every group of prompts from this fit, or their projection on functions of the prompt.

        The scores of group g are theta_g = E[F(mu(X)) | G = g]. They are computed without training from phi_raw, the
        values F(mu(x)) + correction of the prompts, whose mean is the score over all prompts. The influence of theta_g
        is phi_g = 1(G = g) (phi_raw - theta_g) / p_g with the group's share p_g of the prompts. The mean of the scores
        in groups that do not overlap, weighted by their shares of the prompts, is the score over all prompts.

        With ``average="preferences"`` the scores of group g are F(m_g), where m_g = E[mu(X) | G = g] are the mean
        preferences of the group, and phi_raw is F(m_g) plus the derivative of F at m_g along mu(x) + S / pi (Y - mu(x))
        - m_g.

        A formula such as ``"~ length"`` projects the scores of prompts on functions v of the prompt. The coefficients
        are beta = E[v v']^-1 E[v F(mu(X))'], one column per model: the best linear approximation of how scores vary
        over prompts, whether or not the relation is linear. The estimate is the regression of phi_raw on v [1]_; its
        influence is E[v v']^-1 v (phi_raw - v'beta).

        Parameters
        ----------
        *columns : str or sequence of str
            Columns of categories, whose combinations are the groups; or one list of columns of booleans, for groups
            that may overlap; or one formula ``"~ C(category) + length"``. Each column has to be a feature of the fit's
            formula, or a function of the features: it is accepted where most prompts share their features with another
            prompt and such prompts agree in the column; one of booleans in a list also where it is a set of values, or
            an interval, of a column that the formula uses.
        progress : bool or callable
            As for :func:`dmlrank.dml_rank`.

        Returns
        -------
        GroupResults or Projection
            ``groups["coding"]`` is a result like this one, with scores, intervals, tests, rank sets and summary. The
            projection on a formula has coefficients, tests, simultaneous intervals and bands over a grid of a variable.

        Raises
        ------
        OptionError, FormulaError
            If a column is not a function of the features, the estimator is not the debiased one, or the formula cannot
            be read.
        DataError, MissingDataError
            If a column has gaps or varies within a prompt, or a group has fewer than two labelled prompts. Groups that
            may overlap are left out then, and where their labels do not connect the models.

        Warns
        -----
        DmlrankWarning
            Where a group has fewer than 30 labelled prompts, or no vote on a model, whose score there is NaN.

        Notes
        -----
        A non-linear functional of a group needs preferences *given* the group. If the learner did not know the group,
        mu(x) would be an average over groups, and E[F(mu(X)) | G = g] would differ from the scores of a fit to the
        group alone. For bt and rank_centrality, the variance correction of the fit increases the errors of all groups
        in the same proportion as those of the overall scores.

        References
        ----------
        .. [1] Semenova and Chernozhukov (2021), Debiased machine learning of conditional average treatment effects and
           other causal functions, Econometrics Journal 24.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)
        >>> groups = res.by("category")
        >>> groups.params.shape, groups["coding"].params.idxmax()
        ((8, 6), 'gpt-4')
        >>> bool((res.by("~ 1").params.loc["Intercept"] - res.params).abs().max() < 1e-12)
        True
        """
        from .heterogeneity import project_scores, scores_by_group

        formula = next((name for name in columns if isinstance(name, str) and name.lstrip().startswith("~")), None)
        if formula is not None:
            if len(columns) > 1:
                raise OptionError(f"by() got the formula {formula!r} beside others; give one formula, or columns alone")
            _OF_FORMULAS.check("by", self)
        with one_thread(), self._computing(progress):
            if formula is not None:
                return project_scores(self.estimates, self._fit, formula)
            return scores_by_group(self.estimates, self._fit, columns, partial(result_of, kind=type(self)))

    # --- judges, and what to label next -------------------------------------------------------------------------------

    @property
    def style(self) -> StyleResults | None:
        """Slopes on style, and scores before and after the adjustment of ``adjust=``; None without an adjustment."""
        from .joint_estimates import StyleResults

        return None if self.estimates.style is None else StyleResults(self.estimates)

    @property
    def judge(self) -> JudgeReport | GradeReport | None:
        """Agreement of judges with humans, and the precision that verdicts add; None where the fit has no judge.

        Of a table of scores: how well judges explain grades, whom they favour, and what grades are worth beside them.
        """
        from .judges import GradeReport, JudgeReport

        if self.estimates.grades is not None:
            return GradeReport(self.estimates)
        return None if self.estimates.judge is None else JudgeReport(self.estimates, self.steps, self.simultaneous)

    @Needs(
        one_look="its tests hold for one look only",
        data=True,
        no_means="it compares the votes of people, and scores have none",
    )
    def annotators(self, column: str, alpha: float | None = None) -> AnnotatorReport[RankResults]:
        """Say how often each annotator agrees with the others on the same pairs, and what the board is without some.

        Parameters
        ----------
        column : str
            Column of the data that names the annotators.
        alpha : float, optional
            Share of wrong names among those who are named; the fit's when None.

        Returns
        -------
        AnnotatorReport
            A table with a row per annotator; who agrees less than the others and not more than by chance, with the
            board without them; and who seems to be counted twice.

        Notes
        -----
        An answer is compared with the majority of the others on the same prompt and pair, or, without ``context=``, on
        the same pair of models. Where the annotator's answers do not depend on the pair, the number of agreements is
        hypergeometric, also for somebody who always takes the first answer. The agreement of the others is that of all
        other annotators together, as if known.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> battles["worker"] = np.where(np.arange(2000) % 5 == 0, "random", np.arange(2000) % 7)
        >>> battles.loc[battles["worker"] == "random", "winner"] = "model_a"
        >>> dr.dml_rank("winner ~ 1 | model_a + model_b", battles, rng=0).annotators("worker").near_chance
        ('random',)
        """
        from .annotators import annotators_of

        alpha = alpha_or_default(alpha, self.estimates.alpha)
        return annotators_of(self._fit, column, alpha, lambda rows: self.update(data=rows))

    @Needs(means="it counts runs that succeed", one_look="its bands are those of one look", data=True)
    def curve(self, kind: str | None = None, most: int | None = None, alpha: float | None = None) -> pd.DataFrame:
        """Return pass@k or pass^k of every model over k, the number of runs; ``plot("curve")`` draws it.

        Parameters
        ----------
        kind : {"pass@k", "pass^k"}, optional
            The chance that at least one of k runs of a model solves a prompt, or that all do; that of the fit when
            None, or pass@k.
        most : int, optional
            Largest k; the fewest runs of a model on a prompt when None.
        alpha : float, optional
            Probability that an interval of any model at any k is wrong; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model and k: pass@k or pass^k, its ``std_error``, and limits ``lower`` and ``upper`` that hold
            jointly for all models and all k.

        Notes
        -----
        The numbers at each k are those of a fit with :class:`dmlrank.functionals.PassAtK` or
        :class:`dmlrank.functionals.PassHatK` to the same prompts; the covariance of all of them is that of their
        influence values by prompt.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import dmlrank as dr
        >>> solved = [1, 0, 0, 0, 1, 1, 0, 1] * 20
        >>> runs = pd.DataFrame({"task": np.repeat(np.arange(40), 4), "model": "a", "solved": solved})
        >>> res = dr.dml_rank("solved ~ 1 | model", runs, context="task", rng=0)
        >>> res.curve("pass^k")["pass^k"].loc["a"].round(3).to_dict()
        {1: 0.5, 2: 0.25, 3: 0.125, 4: 0.0}
        """
        from .run_table import table_of_curve

        return table_of_curve(self.estimates, self._fit, kind, most, alpha_of(self.estimates, alpha))

    @Needs(means="it divides mean costs by mean scores", one_look="its intervals are those of one look", data=True)
    def per_success(self, cost: str, against: str | None = None, alpha: float | None = None) -> pd.DataFrame:
        """Divide mean costs by mean scores: what a solved prompt costs, in money, tokens or seconds.

        Parameters
        ----------
        cost : str
            The column of the table of scores that holds the cost of each run. Runs that failed or were lost count with
            what they cost; runs of which no cost was recorded are left out, and a warning says how many. Of pass@k,
            the cost is that of k runs.
        against : str, optional
            A model; the frame then has the cost per success of every other model divided by that of this one.
        alpha : float, optional
            Probability that an interval of any model is wrong; the fit's alpha when None.

        Returns
        -------
        DataFrame
            A row per model: mean ``score`` and ``cost``, and their ratio ``per_success``; or, with ``against=``, a row
            per other model with the ``ratio``. Its ``std_error`` is that of the delta method, and the limits ``lower``
            and ``upper`` hold jointly for all rows (Fieller's: without an upper limit where a denominator is not shown
            to be above zero).

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import dmlrank as dr
        >>> task, model = (index.ravel() for index in np.indices((200, 2)))
        >>> solved = (task + model) % 4 > 0
        >>> table = pd.DataFrame({"task": task, "model": np.array(["a", "b"])[model], "solved": solved * 1.0})
        >>> table["tokens"] = 300 + 10 * (task % 3)
        >>> res = dr.dml_rank("solved ~ 1 | model", table, context="task", rng=0)
        >>> res.per_success("tokens")["per_success"].round(1).to_dict()
        {'a': 413.3, 'b': 413.3}
        """
        from .run_table import table_per_success

        return table_per_success(self.estimates, self._fit, cost, against, alpha_of(self.estimates, alpha))

    @Needs(models=_ORDER, intervals=True, one_look="power is that of one look")
    def sample_size(self, difference: float | None = None, power: float = 0.8) -> pd.DataFrame:
        """Say how many prompts would show a difference, and which difference these data can show.

        Parameters
        ----------
        difference : float, optional
            The true lead of the first model over every other one; the estimated leads when None.
        power : float
            Probability that the test of first place finds it.

        Returns
        -------
        DataFrame
            A row for the first model minus every other model, and one to decide first place, which needs all at once:
            the ``difference``; its ``std_error``; the ``smallest`` difference that these data find with the power; how
            many ``times`` the data it needs, and so many prompts (or clusters) and scores (votes) in all. Of means of
            several runs also ``share_runs``, the share of the variance that comes from runs, ``times_runs``, how many
            times the runs it needs on the same prompts (infinite where no number is enough), and ``prompts_many_runs``,
            the prompts that it needs with unlimited runs of each.

        Notes
        -----
        The verdict, the gate and plans take the same numbers, rounded to two digits. They suppose data like these. With
        R runs of each prompt now, s as ``share_runs`` and a further prompt that costs c times as much as a run on it,
        sqrt(R c s / (1 - s)) runs of each prompt give the smallest error for the money.

        Examples
        --------
        >>> import dmlrank as dr
        >>> votes = dr.datasets.simulate_arena(n=1000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, rng=0)
        >>> sizes = res.sample_size(difference=0.1)
        >>> bool((sizes["times"].iloc[-1] >= sizes["times"].iloc[:-1]).all())
        True
        """
        from .run_table import table_of_sizes

        return table_of_sizes(self.estimates, self.steps, self._level(None), difference, power)

    @Needs(models=_ORDER, intervals=True)
    def pareto(self, cost: str | Mapping[str, float], alpha: float | None = None, *, unit: str = "") -> Pareto:
        """Set scores against costs: which models are best at their cost, and which are worse and not cheaper.

        Parameters
        ----------
        cost : str or mapping
            The column of a table of scores that holds the cost of each run (tokens, dollars, seconds): a mean over
            prompts, with a sampling error that depends on that of the scores. Or a known number for each model. Less
            is better.
        alpha : float, optional
            Probability that any status is wrong; the fit's alpha when None.
        unit : str
            Unit of the costs, such as "USD", for tables and pictures.

        Returns
        -------
        Pareto
            ``table``, ``tests``, ``summary()`` and ``plot()``; ``report(pareto=...)`` adds it to the page.

        Notes
        -----
        All differences of scores and of mean costs have max-t intervals that hold simultaneously. Statuses follow from
        these intervals alone, so that with probability ``1 - alpha`` none is wrong.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import dmlrank as dr
        >>> task, model = (index.ravel() for index in np.indices((200, 3)))
        >>> rng = np.random.default_rng(0)
        >>> score = (rng.random(600) < np.array([0.9, 0.6, 0.5])[model]).astype(float)
        >>> tokens = rng.gamma(4, np.array([100, 20, 60])[model])
        >>> table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model], "score": score})
        >>> res = dr.dml_rank("score ~ 1 | model", table.assign(tokens=tokens), context="task", rng=0)
        >>> res.pareto("tokens").table[["model", "status"]].to_numpy().tolist()
        [['b', 'best at its cost'], ['c', 'undecided at its cost'], ['a', 'best at its cost']]
        """
        from .pareto import score_against_cost

        return score_against_cost(self.estimates, self.steps, cost, unit, alpha_of(self.estimates, alpha))

    @Needs(
        unadjusted="it plans labels for scores without adjustment, and the style of answers is not known before they "
        "are shown",
        one_look="widths and power of a plan are those of one look",
        data=True,
    )
    def design(
        self,
        budget: float,
        criterion: str = "A",
        *,
        contrasts: HypothesisLike | None = None,
        top: int | None = None,
        against: str | None = None,
        costs: str | ArrayLike = 1.0,
        min_propensity: float | None = None,
        one_pair: bool = False,
        explore: float = 0.0,
        newdata: object = None,
        from_scratch: bool = False,
        candidate: str | None = None,
        progress: bool | Report = False,
    ) -> Plan:
        """Plan which pairs to label next so that the scores become most precise for a budget.

        The planned labels are added to those of the fit, whose labels, verdicts, learners and options the plan uses.

        For means of scores: plan which models to run next on which prompts. A cell, a prompt and a model, is run once;
        its residual variance is learnt from what features and the scores of complete models leave, and models that are
        compared are run on the same prompts. Propensities are those after all rounds; fit all runs with
        ``propensity=plan``.

        Parameters
        ----------
        budget : float
            Largest expected cost of all planned labels together, in the unit of ``costs``.
        criterion : {"A", "D"}
            The sum of the variances, or the log determinant of the covariance, as for :func:`dmlrank.design`.
        contrasts : optional
            Combinations of scores that the plan is to estimate precisely, as for :func:`dmlrank.design`. Without, the
            plan is for all scores, or of a fit with ``pairs="arena"`` for the leader against its rivals.
        top, against : optional
            In place of contrasts: the differences that decide which models are the ``top`` best (1: who is first), or
            those of the model ``against`` from all others, as for :func:`dmlrank.design`.
        costs : float, str or array
            Cost of a label, as for :func:`dmlrank.design`, or the name of a column with costs by prompt. For scores:
            (n,) by prompt, (K,) by model or (n, K), or a column with a cost for each run, from which costs of runs that
            have not been made are predicted.
        min_propensity : float, optional
            Smallest propensity of a compared pair; a tenth of the propensity of the uniform plan when None.
        one_pair : bool
            Whether every prompt gets at most one label.
        explore : float
            Share of the uniform plan that is mixed in.
        newdata : frame, optional
            The prompts to plan for, a row each, with the formula's feature columns and, where the fit has it, the
            column that identifies a prompt. None means the prompts of the fit, with out-of-fold probabilities.
        from_scratch : bool
            Whether to ignore the labels of the fit and plan for an estimate from the planned labels alone. For scores:
            a round of all models on the prompts of the fit, whose scores must be complete.
        candidate : str, optional
            For scores: the name of a model without a score, which the plan runs, by default for its difference from the
            best of the models that were run on every prompt, which it is expected to be like.
        progress : bool or callable
            As for :func:`dmlrank.dml_rank`.

        Returns
        -------
        Plan
            Its predicted standard errors are those of one fit of all labels, each with the propensity of its own round.
            New prompts are taken as independent; effects of clusters on several new labels are not predicted.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
        >>> plan = res.design(budget=1000, one_pair=True)
        >>> round(plan.expected_cost), int(plan.sample(rng=1)["propensity"].count())
        (1000, 1000)
        """
        from ..planning.criteria import Goal
        from ..planning.from_fit import design_fit
        from ..planning.problem import Limits
        from .run_table import costs_in_column

        if isinstance(costs, str):
            models = [*self.models, *([] if candidate is None else [candidate])]
            costs = costs_in_column(self._fit, models, costs, newdata)
        goal = Goal(criterion, contrasts, top, against)
        limits = Limits(budget, costs, min_propensity, one_pair, explore)
        with one_thread(), self._computing(progress):
            return design_fit(self.estimates, self._fit, newdata, goal, limits, from_scratch, candidate=candidate)

    # --- summaries, frames and plots ----------------------------------------------------------------------------------

    def summary(
        self,
        alpha: float | None = None,
        title: str | None = None,
        *,
        slim: bool = False,
        models: Sequence[str] | None = None,
        top: int | None = None,
    ) -> Summary:
        """Return the table for a report: best model first, with simultaneous intervals and rank sets.

        p-values are adjusted for all models (single-step max-t; Bonferroni in a sequential view), and :attr:`pvalues`
        are not. For an estimate without intervals the table shows the scores in their order.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; the fit's when None.
        title : str, optional
            Stands above the table in place of the default title.
        slim : bool
            Whether to show a short table for publication: rank set, model, score, interval and votes, with one note.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None.
        top : int, optional
            Number of models that the table shows, those with the highest scores. Statements refer to all models.

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
        e, level = self.estimates, self._level(alpha)
        check_flag("slim", slim)
        shown = rows_to_show(e, models, top)
        if slim:
            return slim_summary(e, level, shown).with_title(title)
        return build_summary(e, level, adjusted_p_values(e, self.simultaneous), shown).with_title(title)

    @Needs(models=_ORDER, intervals=True, drawn=True)
    def verdict(self, alpha: float | None = None, *, top: int | None = None) -> str:
        """Return the result in three to five sentences for those who decide.

        Who leads and whether first place is decided, by how much, how many pairs of models are separated, and how many
        prompts would decide first place, from the tests behind :meth:`summary`.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        top : int, optional
            Also say which models are shown to be among so many best, and which others may be.

        Returns
        -------
        str
            The sentences, on one line.

        Notes
        -----
        P answers one question: is the leader above every other model? It is the largest two-sided p-value of the
        differences between the leader and each other model, and needs no adjustment for the number of models (the proof
        is in ``dmlrank/inference/ranks.py``). Rank sets, letters and adjusted p-values answer all questions about
        all pairs at once. Sequential and bootstrap views take P from their tests of all pairs.

        References
        ----------
        Gutmann and Maymin (1987), Is the selected population the best?, Annals of Statistics 15.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.verdict().split(":")[0]
        'First place is not decided'
        """
        e, level = self.estimates, self._level(alpha)
        sentences, is_first = short_facts(Subject(e, level), FIRST), level.first is not None and level.first.decided
        if not sentences:
            sentences = ["Nothing is decided: no difference between models varies in these data."]
        if top is not None:
            check_whole("top", top, 1, len(self.models))
        # Rank sets come from a stricter check than the test of first place.
        if top is not None and not (top == 1 and is_first):
            may_be, ends = self.best_set(top, alpha), self.ranks(alpha).result_frame["upper"]
            sets = [name for name in may_be if ends[name] <= top], [name for name in may_be if ends[name] > top]
            are, others = enumerated(sets[0]) or "none", some_of(sets[1]) or "none"
            confidence = f"{level.confidence} joint confidence"
            sentences.append(f"Shown to be in the top {top} ({confidence}): {are}; others that may be: {others}.")
        about = [f"{e.part}:"] if e.part else []
        looks = [f"This holds {e.looks}."] if e.looks else []
        return inert(" ".join([*about, *sentences, *looks, *doubt_note(e)]))

    def explain(self, alpha: float | None = None) -> str:
        """Return in words what the scores, intervals and rank sets are, what is assumed, and the figures of the fit.

        The notes below :meth:`summary` are the short form of this text.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        str
            Titles, each with its paragraphs, in lines of at most 78 characters.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> print(res.explain()[:107])
        What the scores are
          Each score is the mean share of comparisons that the model wins against the
          other 7
        """
        return explanation_text(self.estimates, self._level(alpha), fit_facts(self.estimates))

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return one row per model with estimate, standard error, test, interval and votes.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of the intervals; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`conf_int`.

        Returns
        -------
        DataFrame
            Columns ``term estimate std_error statistic p_value p_adjusted conf_low conf_high interval votes
            votes_left_out``. ``p_value`` is for each test alone, ``p_adjusted`` is adj. P of the summary. ``votes``
            counts votes on compared pairs.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.tidy().columns.tolist()[:4]
        ['term', 'estimate', 'std_error', 'statistic']
        """
        e, critical = self.estimates, critical_value_of(self.estimates, self.simultaneous, alpha, method)
        kind = INTERVAL_KINDS[method] if e.has_intervals else "none"
        return tidy_frame(e, critical, adjusted_p_values(e, self.simultaneous), kind)

    def plot(
        self,
        picture: str = "forest",
        ax: Axes | None = None,
        alpha: float | None = None,
        *,
        models: Sequence[str] | None = None,
        top: int | None = None,
        contrast: HypothesisLike | None = None,
    ) -> Any:
        """Draw a picture of the results; this needs matplotlib.

        Parameters
        ----------
        picture : str
            ``"forest"``: scores with simultaneous intervals. ``"ranks"``: rank sets, as :meth:`ranks`. ``"matrix"``:
            differences of all pairs, as :meth:`t_test_pairwise`. ``"curve"``: pass@k or pass^k over the number of runs,
            as :meth:`curve`. ``"overlap"``: propensities of the labelled cells. ``"calibration"``: fitted probabilities
            beside the labels. ``"influence"``: the prompts with the largest influence on the best model's score, or on
            ``contrast=``. ``"sheet"``: the most important ones in one figure, which says what is left out and why;
            without ``models`` or ``top``, of the best 20 models.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        alpha : float, optional
            One minus the level; the fit's when None.
        models : sequence of str, optional
            Models in the picture. Intervals, ranks and tests are always those among all models.
        top : int, optional
            Number of the best models in the picture; for ``"influence"`` the number of prompts (20 when None).
        contrast : str, tuple, mapping, array or list, optional
            For ``"influence"``, a score or a combination of scores, as for :meth:`t_test`.

        Returns
        -------
        matplotlib Axes
            The axes of the picture; a matplotlib Figure for ``"sheet"``.

        Raises
        ------
        OptionError, OptionTypeError
            If there is no such picture, it does not use an option, or there are too many models to draw.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.plot("ranks", top=3).get_title()
        '95 % simultaneous rank sets, 3 of 8 models'
        """
        from .pictures import SHEET_MODELS, draw_picture, draw_sheet

        if picture == "sheet":
            if ax is not None or contrast is not None:
                raise OptionError("plot('sheet') draws a figure of its own; leave ax= and contrast= out")
            n_best = SHEET_MODELS if models is None and top is None and self.estimates.of_models else top
            rows_to_show(self.estimates, models, n_best)
            return draw_sheet(self, alpha=alpha_of(self.estimates, alpha), models=models, top=n_best)
        return draw_picture(self, picture, ax, alpha=alpha, models=models, top=top, contrast=contrast)

    def _page(self, alpha: float | None, unit: str) -> tuple[str, list[Board], list[Summary]]:
        e, simultaneous = in_unit(self.estimates, self.simultaneous, unit)
        # At equal style the page begins with the three leaderboards side by side.
        style = replace(self, estimates=e, simultaneous=simultaneous).style
        tables = [] if style is None else [style.summary(alpha)]
        return "", make_boards(e, simultaneous, alpha), tables

    def __repr__(self) -> str:
        e = self.estimates
        part = f" ({e.part})" if e.part else ""
        looks = f"; {e.looks}" if e.looks else ""
        best = f"first {e.models[int(np.argmax(e.merit))]!r}" if e.of_models else f"outputs {listed(e.names, 3)}"
        return (
            f"<RankResults: {e.functional}, {len(e.models)} models, {e.description.n_contexts:,} contexts, "
            f"{e.description.n_votes:,} {e.counts}s{part}; {best}{looks}>"
        )

    # --- storage ------------------------------------------------------------------------------------------------------

    @Needs()
    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return or write the numbers as JSON, without data, learners or code; :func:`dmlrank.read_json` reads them.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.

        Returns
        -------
        str or None
            The text; None where it was written to a file.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> dr.read_json(res.to_json()).params.equals(res.params)
        True
        """
        from ..fit.json_format import to_text

        text = to_text(self.estimates)
        if path is None:
            return text
        write_file(path, text)
        return None

    def __copy__(self) -> Self:
        return type(self)(self.estimates, self.steps, self.simultaneous)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return replace(self, **{name: copy.deepcopy(getattr(self, name), memo) for name in self.__slots__})

    def __reduce__(self) -> tuple[type[RankResults], tuple[Estimates, None, Simultaneous]]:
        # Patsy's transforms and many learners cannot be pickled.
        return type(self), (self.estimates, None, self.simultaneous)

    # --- other fits ---------------------------------------------------------------------------------------------------

    @Needs(data=True)
    def update(self, data: object = None, **changes: object) -> RankResults:
        """Repeat the fit with some options of :func:`dmlrank.dml_rank` changed, or of other rows.

        Only steps that depend on the changed options run; with ``data=`` all do. A change of functional, estimator,
        floor, type of covariance or level trains no learner. A change of ``context``, ``categories`` or ``missing``, of
        the column of propensities or of the columns of clusters reads the whole frame again, with all changes that were
        made to it since the fit. A change of the judge or of ``propensity="~ features"`` reads new columns only, and
        raises an error if the frame's rows have changed.

        Parameters
        ----------
        data : frame, optional
            All rows of the new fit, such as last month's and this month's; the rows of this fit when None. Formula and
            options are those of this fit. Arrays among the options, such as ``mu=``, have to be given for these rows.
        **changes
            Options of :func:`dmlrank.dml_rank` with their new values. Those in ``pairs``, ``learning`` and ``cov_kwds``
            are changed by their own names, such as ``min_labels=5``, which keeps the others; a whole object takes the
            place of the earlier one.

        Returns
        -------
        RankResults
            In the unit of this result, and a sequential view where this result is one.

        Raises
        ------
        OptionError
            If there is no such option, or this result is a sequential view and the fit would rank further models.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.update(functional="bt").functional
        'bt'
        >>> res.update(data=dr.datasets.simulate_arena(n=2500, rng=0)).nobs
        2500
        """
        steps, changes = self.steps, in_full(changes)
        assert steps is not None
        if self.estimates.sequence is not None:
            alpha_of(self.estimates, changes.get("alpha"))  # type: ignore[arg-type]
        options, source = steps.options.changed(changes), steps.source
        if data is not None:
            rows = read_scores(source.formula, data, context=options.context, run=options.run)
            source = replace(source, data=rows, copies=None)
        options = options_for(source.data, options, changes)
        with computing_with(options.n_jobs):
            other = fit(options, source, steps if data is None else None)
        scale, sequence = self.estimates.scale, self.estimates.sequence
        if not scale.natural:
            other = other.rescale(scale.request, mean=scale.mean, anchor=scale.anchor)
        if sequence is None:
            return other
        if further := [name for name in other.names if name not in self.names]:
            raise OptionError(
                f"update() of a sequential view would rank {listed(further)}, too, and its models were fixed before "
                f"the first look; start a new sequence, or leave the rows of these models out"
            )
        return other.sequential(sequence.planned, sequence.start)

    def _computing(self, progress: bool | Report = False) -> AbstractContextManager[None]:
        """Compute with the number of threads of the fit."""
        return computing_with(None if self.steps is None else self.steps.options.n_jobs, progress)

    @Needs(unadjusted="slopes on style and rank changes have intervals for one look only", intervals=True)
    def sequential(self, planned: int, start: int = DEFAULT_START) -> RankResults:
        """Return a view of the result whose intervals, tests and rank sets hold at all looks at growing data at once.

        With probability ``1 - alpha`` all intervals of the view contain the true scores at every look from ``start``
        contexts on, however often the data are looked at; the same holds for the tests of all pairs and for rank sets.
        Fit the data at every look, and call this method with the same ``planned`` and ``start``. These two, ``alpha``
        (that of the fit) and the compared models have to be chosen before the first look.

        Parameters
        ----------
        planned : int
            Number of contexts, or of clusters where the covariance has clusters, at which intervals are tightest: the
            number at which you expect to decide.
        start : int
            Number of contexts, or clusters, at the first look.

        Returns
        -------
        RankResults
            The same estimates and standard errors; all statements hold at all looks. Methods without a sequential form,
            such as :meth:`by` (use the view of a group's result) and :meth:`design`, raise an error. :meth:`rescale`
            and :meth:`update` return views again.

        Raises
        ------
        OptionError
            If there are fewer contexts, or clusters, than ``start``, or the result has no sequential form
            (fixed prompts, crossed clusters, scores at equal style, a view already).

        Notes
        -----
        With t contexts and tau = t rho^2, the half-width is sqrt((1 + 1/tau) (log(1 + tau) - 2 log a)) standard errors,
        with a = alpha / m for m scores or pairs. rho is fixed by ``planned``. Adjusted p-values are Bonferroni's
        (``"max-t"``, ``"bonferroni"``) or Holm's (``"step-down"``, ``"holm"``, rank sets). The guarantee is asymptotic,
        in the limit of large ``start``; the page "A board that is looked at every day" has the conditions.

        References
        ----------
        Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Time-uniform central limit theory and asymptotic
        confidence sequences, Annals of Statistics 52.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> view = res.sequential(planned=10_000)
        >>> bool((view.conf_int()["lower"] < res.conf_int()["lower"]).all())
        True
        """
        return result_of(sequential_view(self.estimates, planned=planned, start=start), self.steps, type(self))

    @Needs(one_look="the bootstrap draws the estimates of one look", intervals=True, data=True)
    def bootstrap(
        self, multipliers: str = "webb", *, n_boot: int = BOOTSTRAP_DRAWS, rng: int | np.random.Generator | None = None
    ) -> RankResults:
        """Return a view of the result whose critical values come from a multiplier bootstrap, for few clusters.

        The influence value of each independent unit (a context, or a cluster) is multiplied by a random number. With at
        most 1,000 units every draw is divided by a standard error of its own. Estimates and standard errors stay.

        Parameters
        ----------
        multipliers : {"gaussian", "rademacher", "webb"}
            Distribution of the random numbers. Use ``"webb"`` with 30 clusters or fewer.
        n_boot : int
            Number of draws, at least 100.
        rng : int or numpy Generator, optional
            Seed of the draws; the seed of the fit when None.

        Returns
        -------
        RankResults
            Intervals, :meth:`t_test_pairwise` by ``"max-t"`` or ``"step-down"``, :meth:`ranks`, tables, pictures and
            the page have the draws of the bootstrap. The view has no other tests.

        Raises
        ------
        OptionError
            If there are clusters in two columns or fewer than 5, or the result is a view already.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> res.bootstrap("webb").conf_int().columns.tolist()
        ['lower', 'upper']
        """
        e = self.estimates
        check_whole("n_boot", n_boot, 100)
        seed = e.description.seed if rng is None else resolve_seed(rng)
        n_clusters = min((*e.covariance.n_clusters, round(e.covariance.df + 1)))
        n_clusters = n_clusters if e.covariance.n_clusters else FEWEST_FOR_WEBB
        if n_clusters < FEWEST_FOR_WEBB:
            raise OptionError(
                f"bootstrap() of {n_clusters} effective clusters has too few different draws; at least "
                f"{FEWEST_FOR_WEBB} are needed. The result itself allows for few clusters"
            )
        said, doubts = e.diagnostics.warnings, e.diagnostics.doubts
        said, doubts = (tuple(text.replace(WEBB_HINT, "") for text in texts) for texts in (said, doubts))
        e = replace(e, diagnostics=replace(e.diagnostics, warnings=said, doubts=doubts))
        bootstrap = multiplier_bootstrap(self._fit, multipliers, e.scale.factor, seed, n_boot)
        # Intervals of the draws need no degrees of freedom of each score.
        e = replace(e, covariance=replace(e.covariance, of_scores=None))
        return replace(self, estimates=e, simultaneous=MaxT(e.covariance, bootstrap=bootstrap))

    @Needs()
    def rescale(
        self,
        scale: str | float,
        *,
        mean: float | None = None,
        anchor: Mapping[str, float] | tuple[str, float] | None = None,
    ) -> RankResults:
        """Return the result in another unit, such as Elo points: scores are multiplied and shifted.

        The shift is a constant for display: it changes no standard error, and the anchor keeps its interval.

        Parameters
        ----------
        scale : {"elo", "log-odds"} or float
            ``"elo"``: 400 / ln 10 points per unit of log-odds. A number: a positive factor. ``"elo"`` and
            ``"log-odds"`` need ``functional="bt"``, because other scores are not log-odds. A result that is rescaled
            again starts from its original scores.
        mean : float, optional
            The new mean score, at most 1e8 times the factor.
        anchor : mapping or tuple, optional
            ``{"gpt-4": 1200}`` or ``("gpt-4", 1200)``: the new score of one model.

        Returns
        -------
        RankResults
            ``update`` of this result returns results in the same unit.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
        >>> elo = res.rescale("elo", mean=1000)
        >>> round(elo.params.mean()), float((elo.bse / res.bse).mean().round(1))
        (1000, 173.7)
        """
        return type(self)(rescaled(self.estimates, make_scale(self.estimates, scale, mean, anchor)), self.steps)

    def _series(self, values: NDArray[np.float64], name: str) -> pd.Series:
        return pd.Series(np.where(self.estimates.is_unseen, np.nan, values), index=self.names, name=name)


def result_of(
    estimates: Estimates, steps: FitState | None = None, kind: type[RankResults] = RankResults
) -> RankResults:
    """Return a result whose critical value is still to be drawn; the draws are kept for its p-values."""
    estimates, simultaneous = drawn(estimates)
    return kind(estimates, steps, simultaneous)


def fit(options: Options, source: Source, previous: FitState | None = None) -> RankResults:
    """Run a fit; issue its warnings once, at the user's line, and keep them in the diagnostics."""
    with one_thread():
        with collected_warnings() as fit_warnings:
            steps = run(options, source, previous)
        results = result_of(collect(steps, tuple(fit_warnings)), steps)
    for message in fit_warnings:
        warn(message)
    return results

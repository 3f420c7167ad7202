"""What a fit returns: labelled views of the estimates, and the questions that can be put to them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.formula.features import new_features
from ..data.frames import column_names, require_columns, take_columns
from ..data.graph import Graph
from ..exceptions import DmlrankWarning, GraphError, OptionError
from ..fit.collect_estimates import collect
from ..fit.estimates import Diagnostics, Estimates
from ..fit.pipeline import pair_share, run, scores_at
from ..fit.state import Source, Steps
from ..inference.alternatives import check_side
from ..inference.hypotheses import HypothesisLike, read_hypothesis
from ..inference.wald import t_test, wald_test
from ..inference.win_probability import WinProbability, win_probability
from ..options import Options, changed_options
from ..report.fit_summary import standardised, two_sided
from .labelling import Labelling
from .rescaling import make_scale, rescaled


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankResults(Labelling):
    """Scores of K models with their covariance, and tests, intervals and regions made from them.

    A functional of one's own may estimate other numbers: their names then stand where the models' would, and what is
    about order (:meth:`ranks`, :meth:`t_test_pairwise`, :meth:`best_set`) is refused.

    Made by :func:`dmlrank.dml_rank`. Nothing that is called on a result changes it. Names that statsmodels has mean
    here what they mean there.
    """

    estimates: Estimates
    steps: Steps | None = None

    # --- what was estimated -------------------------------------------------------------------------------------

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
        """Standard errors by model."""
        return self._series(self.estimates.covariance.std_errors, "bse")

    @property
    def tvalues(self) -> pd.Series:
        """z statistics against the neutral value (or the mean score); NaN where a standard error is zero.

        The summary's notes say what is tested and why a statistic is missing.
        """
        return self._series(standardised(*self.estimates.against_neutral()), "tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of :attr:`tvalues`, each for itself."""
        return self._series(two_sided(self.tvalues.to_numpy()), "pvalues")

    @property
    def plugin(self) -> pd.Series:
        """Plug-in scores, the mean of F(mu), by model; without valid intervals."""
        return self._series(self.estimates.plugin, "plugin")

    @property
    def influence(self) -> NDArray[np.float64]:
        """Influence values phi, (n, K), one row per context in order of first appearance, with mean zero."""
        return self._live("influence").influence.by_context().centred * self.estimates.scale.factor

    @property
    def nobs(self) -> int:
        """Number of contexts, labelled or not."""
        return self.estimates.design.n_contexts

    @property
    def ncomparisons(self) -> int:
        """Number of labelled (context, ordered pair) cells."""
        return self.estimates.design.n_comparisons

    @property
    def nvotes(self) -> int:
        """Number of votes."""
        return self.estimates.design.n_votes

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
        return self.estimates.design.cov_type

    @property
    def graph(self) -> Graph:
        """The comparison graph."""
        return self.estimates.graph

    @property
    def diagnostics(self) -> Diagnostics:
        """How well the first stages fit and overlap."""
        return self.estimates.diagnostics

    # --- inference ----------------------------------------------------------------------------------------------

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the scores, (K, K); singular where the functional fixes a combination of them."""
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
        half_width = self._critical(alpha, method, bootstrap) * self.estimates.covariance.std_errors
        center = self.estimates.estimate
        return pd.DataFrame({"lower": center - half_width, "upper": center + half_width}, index=self.names)

    def t_test(self, hypothesis: HypothesisLike, delta: float = 0.0, side: str = "two-sided") -> Any:
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
            With one side, ``conf_int`` has one limit; for equivalence (two one-sided tests) the two that have to lie
            between ``-delta`` and ``delta``.

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
        margin = check_side(side, delta)
        return t_test(*(*self._tested(hypothesis), side, margin))

    def wald_test(self, hypothesis: HypothesisLike) -> Any:
        """One joint chi-squared test of linear restrictions; its degrees of freedom are the structural rank.

        Parameters
        ----------
        hypothesis
            As for :meth:`t_test`; ``"a = b = c"`` has two degrees of freedom.

        Returns
        -------
        statsmodels ContrastResults
        """
        return wald_test(*self._tested(hypothesis))

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
        j, k = self._model(first), self._model(second)
        if j == k:
            raise OptionError(f"win_probability needs two different models, not {first!r} twice")
        if not self.graph.edges[j, k]:
            raise GraphError(
                f"{first!r} and {second!r} are not compared (too few labels in an order), so no share is known"
            )
        estimate, covariance = pair_share(self._live("win_probability"), j, k)
        return win_probability(first, second, estimate, covariance, self._alpha(alpha))

    def predict(self, newdata: Any = None) -> pd.DataFrame:
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
        steps, scale = self._live("predict"), self.estimates.scale
        if newdata is None:
            # With subsample= only the sample's prompts have been evaluated.
            if steps.sample is None:
                known, value = np.arange(steps.data.n_contexts), steps.influence.by_context().value
            else:
                known, value = steps.sample, steps.first.evaluated.influences[0].value
            index = pd.Index([steps.data.context_ids[i] for i in known], name="context", tupleize_cols=False)
            return pd.DataFrame(scale.of(value[known]), index=index, columns=self.names)
        feature_map = steps.data.feature_map
        require_columns(feature_map.variables, column_names(newdata), "newdata")
        table = take_columns(newdata, feature_map.variables)
        x = new_features(feature_map, table, keep_missing=steps.options.missing == "keep")
        return pd.DataFrame(scale.of(scores_at(steps, x)), columns=self.names)

    # --- other fits ------------------------------------------------------------------------------------

    def update(self, **changes: Any) -> RankResults:
        """The same fit with some options of :func:`dmlrank.dml_rank` changed; only what they touch is redone.

        Another functional, estimator, floor, covariance of the same folds or level trains nothing anew. Another
        ``context``, ``categories``, ``missing``, ``votes``, ``unlabelled``, column of propensities or clusters reads
        the frame again, as it is then.

        Raises
        ------
        OptionError
            If an option is unknown.
        DataNotStoredError
            If the result was loaded without data.
        """
        steps = self._live("update")
        made = fit(changed_options(steps.options, changes), steps.source, steps)
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

    # --- within -------------------------------------------------------------------------------------------------

    def _series(self, values: NDArray[np.float64], name: str) -> pd.Series:
        return pd.Series(values.copy(), index=self.names, name=name)

    def _tested(self, hypothesis: HypothesisLike) -> tuple[Any, ...]:
        read = read_hypothesis(hypothesis, self.names)
        e = self.estimates
        return e.estimate, e.covariance, e.names, read.matrix, read.value, read.labels, e.reason


def fit(options: Options, source: Source, previous: Steps | None = None) -> RankResults:
    """Carry out a fit; its warnings are given once, at the line that asked for it, and kept in the diagnostics."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DmlrankWarning)
        steps = run(options, source, previous)
    own = [str(w.message) for w in caught if issubclass(w.category, DmlrankWarning)]
    results = RankResults(collect(steps, tuple(own)), steps)
    for warning in caught:
        if issubclass(warning.category, DmlrankWarning):
            warnings.warn(str(warning.message), DmlrankWarning, stacklevel=3)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return results

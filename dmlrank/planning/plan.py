"""A plan, and how it is made: the steps in their order, the same for votes and scores, from a fit and from scratch.

1. *The problem*, what a label or a run adds to the precision of scores and what it costs: a ``VoteProblem`` from
   probabilities (:mod:`~dmlrank.planning.design`) or from a fit (:mod:`~dmlrank.planning.from_fit`), a ``ScoreProblem``
   from a fit of scores (:mod:`~dmlrank.planning.score_plan`), also of a table of scores.
2. *The goal*, a criterion for contrasts with what a fit knows (:mod:`~dmlrank.planning.criteria`), and *the limits*:
   budget, costs, smallest propensities (:mod:`~dmlrank.planning.problem`; :mod:`~dmlrank.planning.reading` reads them).
3. :func:`specify` makes the plan. One pass over the problem gives the scores and their covariance between prompts; the
   goal gets its coefficients, and says how precise scores become. Where the fit weights pairs by counts, weights are
   searched for.
4. *The search* (:mod:`~dmlrank.planning.allocation`): steps, each of which is an allocation of the budget.
5. *The solution* (:mod:`~dmlrank.planning.solution`) says how precise scores become; the plan shows it, a summary
   (:mod:`~dmlrank.planning.plan_summary`), samples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import check_alpha, check_path, check_positive, number_in, resolve_seed
from .._utils.atomic_write import write_file
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import DataNotStoredError, NuisanceError, OptionError
from ..inference.ranks import power_of, smallest_gap
from ..nuisance.outcome_model.user_learners import check_mu
from ..tables.summary_table import Summarised, Summary, safe_csv
from .allocation import allocate, propensities_at_multiplier
from .criteria import Goal
from .plan_summary import draw_plan, plan_summary
from .problem import Computed, Limits, Problem, Rows, VoteProblem, at_rows, propensity_table
from .reading import mu_array
from .solution import (
    Solution,
    cheapest,
    covariance_of,
    errors_and_widths,
    pair_test,
    precision_of,
    solve,
    weighted_by_counts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The rule of an interdependent plan for other contexts is a fixed point: the information of a label depends on the
# propensities, and the propensities on the information. The steps towards this point end after _MAX_STEPS, or if no
# propensity changes by more than _TOLERANCE, relative to its size.
_MAX_STEPS, _TOLERANCE = 2000, 1e-9
# Largest number of budgets, and a relative change from one to the next that is none, where weights follow the budget.
_MAX_BUDGETS, _CLOSE_BUDGETS = 20, 5e-4


def specify(problem: Problem, goal: Goal, limits: Limits) -> Plan:
    """Return the optimal plan of a problem for a goal within limits."""
    implied, problem = problem.scanned()
    goal = goal.settled(implied, problem.names, problem.gauge)
    if goal.counts is not None:
        assert isinstance(problem, VoteProblem)
        return weighted_by_counts(Plan, problem, goal, limits)
    return solve(Plan, problem, goal, limits)


class Plan(Solution, Summarised):
    """Which pairs are labelled on which contexts, with what probability; :func:`dmlrank.design` makes it.

    Attributes
    ----------
    budget, expected_cost : float
        The largest expected cost that was allowed, and the expected cost of the plan.
    slack : bool
        Whether a larger budget changes nothing, because every label that adds precision is collected for certain.
    kkt_residual : float
        Largest relative violation of the optimality conditions, or a bound on it, before exploration is mixed in.

    Examples
    --------
    >>> import dmlrank as dr
    >>> ties = dr.datasets.Ties()
    >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), "bt", budget=600)
    >>> plan
    <Plan: A-optimal, 500 contexts, 3 models, cost 600>
    >>> plan.propensity.shape
    (500, 3, 3)
    """

    __slots__ = ()

    @property
    def propensity(self) -> FloatArray:
        """Probability that a pair is labelled on a context, (n, K, K), zero off the graph; computed on every call.

        In a plan for scores: the probability that a model is run on a prompt in this or an earlier round, (n, K).
        ``[:, j, k]`` is about j shown first and k second. With ``position_bias=False`` the array is symmetric, and the
        probability is that of a label in either order.
        """
        return self.problem.matrices(propensity_table(self.propensities))[self.problem.row]

    @property
    def models(self) -> list[str]:
        """Names of the K models, in the order of every array."""
        return list(self.problem.models)

    @property
    def names(self) -> list[str]:
        """Names of the scores: those of the models, or of the outputs of a custom functional."""
        return list(self.problem.names)

    @property
    def contexts(self) -> list[Hashable]:
        """Identifiers of the n contexts."""
        return list(self.problem.contexts.index)

    @property
    def position_bias(self) -> bool:
        """Whether both orders of a pair have propensities of their own."""
        return isinstance(self.problem, VoteProblem) and self.problem.ordered

    @property
    def objective(self) -> float:
        """The number that the plan minimises: a sum of variances ("A") or a log determinant ("D").

        Sigma is n times the predicted covariance of the scores, and the rows of L are the plan's contrasts, or all
        scores. "A" is the trace of L Sigma L', "D" its log determinant; for "D" combinations that are fixed by the
        functional or follow from others are left out of L.
        """
        return self.goal.objective(self.sigma)

    @property
    def uniform_objective(self) -> float:
        """The objective of the uniform plan, which labels all pairs with the same probability at the same cost."""
        return self.goal.objective(self.uniform_sigma)

    @property
    def std_errors(self) -> pd.Series:
        """Predicted standard errors of the scores by model."""
        variances = np.maximum(np.diag(self.sigma), 0) / self.problem.n_contexts
        return pd.Series(np.sqrt(variances), index=self.names, name="std_errors")

    def cov_params(self) -> pd.DataFrame:
        """Return the predicted covariance of the scores, (K, K), with their names."""
        return pd.DataFrame(self.sigma / self.problem.n_contexts, index=self.names, columns=self.names)

    def predicted(
        self, hypothesis: HypothesisLike | None = None, alpha: float | None = None, method: str = "max-t"
    ) -> pd.DataFrame:
        """Return predicted standard errors and widths of intervals, beside those of the uniform plan of the same cost.

        Parameters
        ----------
        hypothesis : optional
            Combinations of scores, as for :meth:`RankResults.t_test`. None: the plan's contrasts, or all scores where
            the plan has no contrasts.
        alpha : float, optional
            One minus the level of the intervals. When None: the level of the fit, or 0.05 for a plan without a fit.
        method : {"max-t", "bonferroni", "none"}
            The first two give simultaneous intervals, which all cover together with the level 1 - alpha. With
            ``"none"`` each single interval has this level.

        Returns
        -------
        DataFrame
            ``score``, ``std_error``, ``width`` (from the lower to the upper limit), ``uniform_std_error``,
            ``uniform_width`` and ``ratio`` of the standard errors.

        Notes
        -----
        Widths have the quantiles of the later fit: Student's where prompts are few, with effective clusters of the fit
        and new labels where it has clusters, and limits of win shares and of means of scores (those of a candidate
        without scores are normal).

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> plan.predicted("model_0 - model_1")["std_error"].round(3).tolist()
        [0.033]
        """
        targets = self.goal.targets
        if hypothesis is not None:
            combinations = read_hypothesis(hypothesis, self.names)
            targets = combinations.matrix, combinations.labels
        return precision_of(self, targets, self._alpha(alpha), method)

    def power(
        self,
        first: str,
        second: str,
        alpha: float | None = None,
        difference: float | None = None,
        method: str = "max-t",
    ) -> float:
        """Return the power to show that two models differ, the probability that the test rejects equality.

        Parameters
        ----------
        first, second : str
            The two models.
        alpha : float, optional
            Error probability of the test. When None: that of the fit, or 0.05 for a plan without a fit.
        difference : float, optional
            The true difference of the scores, first minus second. When None: the fit's estimate, or, for a plan without
            a fit, the difference that follows from the probabilities. The power is as uncertain as this estimate;
            :meth:`smallest_gap` needs no estimate.
        method : {"max-t", "bonferroni", "none"}
            The first two control the family-wise error over all pairs, as the summary of a fit and
            :meth:`RankResults.t_test_pairwise` do. ``"none"`` tests this pair alone, which is right if the pair was
            chosen before there were data.

        Returns
        -------
        float
            From 0 to 1.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> 0.05 < plan.power("model_0", "model_1", difference=0.1) < 1
        True
        """
        row, gap = self._pair(first, second, difference)
        return power_of(gap, *pair_test(self, row, self._alpha(alpha), method))

    def smallest_gap(
        self, first: str, second: str, power: float = 0.8, alpha: float | None = None, *, method: str = "max-t"
    ) -> float:
        """Return the smallest true difference of two models that the plan shows with the given power.

        Parameters
        ----------
        first, second, alpha, method
            As for :meth:`power`.
        power : float
            Between ``alpha`` and 1.

        Returns
        -------
        float
            A positive difference, in the unit of the scores.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> gap = plan.smallest_gap("model_0", "model_1")
        >>> round(plan.power("model_0", "model_1", difference=gap), 6)
        0.8
        """
        row, _ = self._pair(first, second)
        return smallest_gap(*pair_test(self, row, self._alpha(alpha, power), method), power)

    def for_width(self, width: float, alpha: float | None = None, method: str = "max-t") -> Plan:
        """Return the plan with the smallest budget whose widest interval is no wider than ``width``.

        Raised is an :class:`OptionError` if no budget reaches the width, or the labels of the fit reach it already.

        Parameters
        ----------
        width : float
            Full width, from the lower to the upper limit, of the widest interval of the scores, or of the contrasts
            where the plan is for contrasts.
        alpha, method
            As for :meth:`predicted`.

        Returns
        -------
        Plan
            The plan with this budget.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> float(plan.for_width(0.2).predicted()["width"].max().round(3))
        0.2
        """
        target, level = check_positive(width, "width"), self._alpha(alpha)
        rows = self.goal.targets[0]
        return self._cheapest(
            lambda solution: errors_and_widths(solution, rows, level, method)[1].max() / target,
            lambda ratio: f"makes the widest interval {ratio * target:.4g} wide, not {target:g}",
        )

    def for_std_error(self, std_error: float) -> Plan:
        """Return the plan with the smallest budget whose largest standard error is no larger than ``std_error``.

        The standard error is that of the scores, or of the contrasts where the plan is for contrasts; what is raised is
        said at :meth:`for_width`.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> float(plan.for_std_error(0.03).std_errors.max().round(4))
        0.03
        """
        target, rows = check_positive(std_error, "std_error"), self.goal.targets[0]
        return self._cheapest(
            lambda solution: covariance_of(solution, rows).std_errors.max() / target,
            lambda ratio: f"leads to a standard error of {ratio * target:.4g}, not {target:g}",
        )

    def for_power(
        self,
        first: str,
        second: str,
        power: float = 0.8,
        alpha: float | None = None,
        difference: float | None = None,
        *,
        method: str = "max-t",
    ) -> Plan:
        """Return the plan with the smallest budget that shows the difference of two models with the given power.

        The plan is still optimal for its own contrasts: to spend the whole budget on this pair, make it with
        ``contrasts=(first, second)``. What is raised is said at :meth:`for_width`.

        Parameters
        ----------
        first, second, alpha, difference, method
            As for :meth:`power`.
        power : float
            Between ``alpha`` and 1.

        Returns
        -------
        Plan
            The plan with this budget.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> round(plan.for_power("model_0", "model_1", power=0.9).power("model_0", "model_1"), 3)
        0.9
        """
        row, gap = self._pair(first, second, difference)
        level = self._alpha(alpha, power)
        if gap == 0:
            raise OptionError(f"{first!r} and {second!r} have equal scores; pass the difference to show as difference=")
        pair = f"{first!r} and {second!r} differ by {gap:.3g}"
        return self._cheapest(
            lambda solution: smallest_gap(*pair_test(solution, row, level, method), power) / abs(gap),
            lambda ratio: f"shows differences from {ratio * abs(gap):.3g} on with power {power:g}, and {pair}",
        )

    def at(self, contexts: object) -> FloatArray:
        """Apply the plan's rule to other contexts and return their propensities, (n, K, K).

        Parameters
        ----------
        contexts : array (n, K, K, C) or frame
            Probabilities of the other contexts; or, for a plan made by :meth:`RankResults.design`, a frame of prompts.

        Returns
        -------
        ndarray, shape (n, K, K)
            Propensities in the form of :attr:`propensity`.
        """
        problem, explore = self._votes("at"), self.limits.explore
        if self.goal.predict is not None and np.ndim(cast("ArrayLike", contexts)) != 4:
            mu = self.goal.predict(contexts)
        else:
            mu = self._probabilities(contexts)
        if len(problem.cost) > 1 or len(problem.context_weight) > 1:
            raise OptionError(
                "costs or weights by context are not known for other contexts; make the plan without them"
            )
        other = problem.of_contexts(mu)
        least = np.array([[self.smallest_propensity]])
        metric = self.goal.metric(self.labelling, problem.between)
        propensity = np.full(other.shape, 1.0 / other.n_cells if other.one_pair else 0.5)
        for _ in range(_MAX_STEPS if other.interdependent else 1):
            before, rates = propensity, other.cell_rates(metric, propensity)
            propensity = propensities_at_multiplier(other, rates, least, self.multiplier)
            if np.abs(np.log(propensity / before)).max(initial=0.0) < _TOLERANCE:
                break
        return problem.matrices((1 - explore) * propensity + explore * problem.uniform(self.budget))

    def regret(self, mu: ArrayLike) -> pd.Series:
        """Return what the plan loses if the probabilities that it was made from are wrong.

        Pass other probabilities that may be true: those of another judge, of a fit to new labels, or a mean of the
        judge's probabilities and equal ones.

        Parameters
        ----------
        mu : array, shape (n, K, K, C)
            The true probabilities on the plan's contexts.

        Returns
        -------
        Series
            ``excess``: the sum of variances of the plan's contrasts (or of all scores) minus that of the best plan for
            ``mu`` with the same budget and smallest propensity, and ``relative`` to it. ``uniform_excess``: that of the
            uniform plan of the same cost. ``sharp_bound`` and ``bound``: upper bounds on ``excess``, (1/n) E sum
            ``|a(mu_hat) - a(mu)|`` (1 / pi + 1 / floor) and that with 2 / floor, plus the loss from exploration under
            mu_hat; pi are the plan's propensities, a(mu) the information of a label of a pair. ``distance``: E sum
            ``|a(mu_hat) - a(mu)|``. ``floor``: the smallest propensity before the uniform plan is mixed in.

        References
        ----------
        Frauen et al., arXiv 2601.21816, [P thm:aopt_robustness]; the sharp bound is a step of its proof.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> judge = ties.mu(ties.features(500, rng=0))
        >>> even = np.where(judge > 0, 1 / 3, 0.0)
        >>> loss = dr.design(judge, "bt", budget=600).regret((judge + even) / 2)
        >>> bool(0 < loss.excess < loss.sharp_bound < loss.bound)
        True
        """
        problem, goal, explore = self._votes("regret"), self.goal, self.limits.explore
        reasons = [
            (goal.criterion == "D", "minimises a determinant, and regret is about sums of variances: take 'A'"),
            (problem.interdependent, "is for 'bt_restricted', whose labels depend on each other: take 'debiased'"),
            (goal.earlier is not None, "adds labels to those of a fit, which have no regret: take from_scratch=True"),
            (goal.counts is not None, "weights pairs by its own labels, and regret is about given weights"),
        ]
        if wrong := [reason for holds, reason in reasons if holds]:
            raise OptionError(f"this plan {wrong[0]}")
        table, n = self._probabilities(mu, self.contexts), problem.n_contexts
        row, metric = problem.row, goal.metric(problem.between, problem.between)
        cost, weight = at_rows(problem.cost, row), at_rows(problem.context_weight, row)
        _, truth = replace(problem.of_contexts(table), cost=cost, context_weight=weight).scanned()
        assumed, information = problem.label_information(metric)[row], truth.label_information(metric)
        floor, rates = self.smallest_propensity, truth.cell_rates(metric)
        best = propensity_table(allocate(truth, rates, truth.least(self.limits), self.budget)[0])

        def variance(information: FloatArray, propensity: FloatArray | float) -> float:
            return float((information / propensity).sum()) / n

        propensity, uniform = propensity_table(self.propensities)[row], problem.uniform(self.expected_cost)
        best_variance, gap = variance(information, best), np.abs(assumed - information)
        excess = variance(information, propensity) - best_variance
        # The theorem is about the optimal propensities. Exploration mixes the uniform plan into them; the bounds allow
        # for the loss of this mixture under mu_hat.
        optimal = (propensity - explore * problem.uniform(self.budget)) / (1 - explore)
        loss_from_mixing = variance(assumed, propensity) - variance(assumed, optimal) if explore else 0.0
        losses = {
            "excess": excess / n,
            "relative": excess / (best_variance + float(np.trace(metric @ truth.between))),
            "uniform_excess": (variance(information, uniform) - best_variance) / n,
            "sharp_bound": (variance(gap, propensity) + variance(gap, floor) + loss_from_mixing) / n,
            "bound": (2 * variance(gap, floor) + loss_from_mixing) / n,
            "distance": float(gap.sum()) / n,
            "floor": floor,
        }
        return pd.Series(losses, name="regret")

    def summary(
        self,
        alpha: float | None = None,
        title: str | None = None,
        *,
        models: Sequence[str] | None = None,
        top: int | None = None,
    ) -> Summary:
        """Return the table for a report: cost, predicted errors beside the uniform plan's, labels by model and pair.

        Parameters
        ----------
        alpha : float, optional
            One minus the level of the simultaneous intervals, as for :meth:`predicted`.
        title : str, optional
            Stands above the table in place of the default title.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None.
        top : int, optional
            Number of models that the table shows, those with the highest scores. Of pairs, the table shows the ten
            with the most expected labels in which one of these models is compared.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        table = plan_summary(self, self._alpha(alpha), models=models, top=top)
        return table.with_title(title)

    def plot(self, ax: Axes | None = None, *, models: Sequence[str] | None = None) -> Axes:
        """Draw the expected number of labels by pair, a square with a cell per pair; needs matplotlib.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw into; a new figure when None.
        models : sequence of str, optional
            The picture shows pairs of these models; all when None.

        Returns
        -------
        Axes
            The axes with the picture.
        """
        self._votes("plot")
        return draw_plan(self, ax, models)

    def sample(self, rng: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw the pairs to label: a row for each label, and a row without models for each context without a label.

        The rows without models (their ``propensity`` is missing) are no labels to buy, but belong to the sample:
        estimation uses the features of their contexts. ``rows.dropna(subset="propensity")`` is what to label.

        Parameters
        ----------
        rng : int, Generator or None
            Seed or source of the draws; another one in every round, because rounds are drawn independently.

        Returns
        -------
        DataFrame
            The columns that identify the context, the two models in their display order, and ``propensity``, which
            estimation needs (``dml_rank(..., propensity="propensity")``). Of a plan for scores: a row for every run to
            make that the fit does not have, with the prompt, the model and ``propensity``, that after all rounds. Add
            the scores to the table and fit it with the plan: ``dml_rank(..., propensity=plan)``.

        Notes
        -----
        Every pair is drawn on every context with exactly its propensity, and its number of labels is the expected one,
        rounded down or up; with ``one_pair=True`` that of all labels. Draws of contexts therefore depend on each other.
        Estimates stay unbiased, and standard errors, which are those of independent contexts, are not too small.
        Sequential views hold at the ends of rounds, but not within a round.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(100, rng=0)), budget=30)
        >>> int(plan.sample(rng=0)["propensity"].count())
        30
        """
        generator = np.random.default_rng(resolve_seed(rng)) if not isinstance(rng, np.random.Generator) else rng
        problem = self.problem
        context, places, propensity = problem.draw(self.propensities, generator)
        rows, models = problem.contexts.iloc[context].reset_index(), np.array([*problem.models, None], dtype=object)
        for column, place in zip(problem.columns, places, strict=True):
            rows[column] = models[place]
        return rows.infer_objects().assign(propensity=propensity)

    def export(self, path: str | os.PathLike[str], rng: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw the pairs to label, as :meth:`sample` does, and write them to a file for an annotation tool.

        Parameters
        ----------
        path : path-like
            ``.csv``: the rows of :meth:`sample`. ``.json``: an object with the ``tasks`` (rows to label, each with its
            ``propensity``), the ``unlabelled`` contexts, and what the plan was (``criterion``, ``budget``,
            ``expected_cost``, ``position_bias``, ``seed``); of a plan for scores also the ``propensities`` of all
            prompts and models, which ``dmlrank fit --propensity plan.json`` reads.
        rng : int, Generator or None
            As for :meth:`sample`. The seed is written to JSON.

        Returns
        -------
        DataFrame
            The rows of the file; where it cannot be written, an earlier file of this name is left as it was.

        Examples
        --------
        >>> import dmlrank as dr, os, tempfile
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600, position_bias=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = plan.export(os.path.join(folder, "tasks.csv"), rng=0)
        >>> int(rows[["model_a", "model_b"]].value_counts().sum())
        600
        """
        check_path(path)
        kind = Path(os.fsdecode(path)).suffix.lower()
        if kind not in (".csv", ".json"):
            raise OptionError(f"the path {os.fspath(path)!r} ends in {kind!r}; a plan is written as .csv or .json")
        problem, seed = self.problem, resolve_seed(rng)
        rows = self.sample(seed)
        if kind == ".csv":
            content = safe_csv(rows)
        else:
            header: dict[str, object] = {
                "criterion": self.goal.criterion,
                "budget": self.budget,
                "expected_cost": self.expected_cost,
                "position_bias": self.position_bias,
                "seed": seed,
            }
            if problem.of_scores:
                table = self.propensity.tolist()
                header["propensities"] = {"prompts": self.contexts, "models": self.models, "table": table}
            content = _tasks_json(rows, [*problem.columns, "propensity"], header)
        write_file(path, content)
        return rows

    def _cheapest(self, relative_width: Callable[[Solution], float], failure: Callable[[float], str]) -> Plan:
        """Return the plan with the smallest budget at which a relative width is at most one.

        ``failure`` describes for the error what labels on all pairs reach, from their relative width.
        """
        before = self.goal.sigma_without_plan(self.problem.between)
        if before is not None and relative_width(replace(self, sigma=before)) <= 1:
            raise OptionError("labels of the fit already reach this; ask for more, or plan from_scratch=True")
        found, least = cheapest(self, relative_width)
        if self.goal.counts is not None:
            # Weights by counts follow the budget, which follows them in turn.
            assert isinstance(self.problem, VoteProblem)
            for _ in range(_MAX_BUDGETS):
                budget = found.budget
                weighted = weighted_by_counts(Plan, self.problem, self.goal, replace(self.limits, budget=budget))
                found, least = cheapest(weighted, relative_width)
                if abs(np.log(found.budget / budget)) <= _CLOSE_BUDGETS:
                    break
        if self.problem.spent and found.budget < self.problem.cost.min():
            raise OptionError("runs of the fit already reach this; ask for more")
        if least > 1:
            n, advice = self.problem.n_contexts, "plan for more prompts: pass them to design() of the fit as newdata="
            if before is None:
                advice = f"about {int(np.ceil(n * least**2)):,} prompts like these would be enough in the same way"
            everything = self.problem.words(self.goal.earlier is not None)["everything"]
            raise OptionError(f"even {everything} all {n:,} prompts {failure(least)}; {advice}")
        return found

    def _probabilities(self, mu: object, contexts: Sequence[Hashable] | None = None) -> FloatArray:
        """Return probabilities of the plan's models and categories, in the plan's contexts where these are given."""
        problem, table = self._votes("at"), mu_array(mu)
        shape = (len(table if contexts is None else contexts), *problem.mu.shape[1:])
        if table.shape != shape:
            raise NuisanceError(
                f"mu has shape {table.shape}; that of contexts, models and categories of the plan is {shape}"
            )
        check_mu(table, self.models, range(len(table)) if contexts is None else contexts, problem.ordered)
        return table

    def _votes(self, method: str) -> VoteProblem:
        """Return the problem of a plan of labels; raise where the plan is for scores."""
        if not isinstance(self.problem, VoteProblem):
            raise OptionError(f"{method}() is about labels of pairs, and this plan is for {self.problem.what}")
        return self.problem

    def _alpha(self, alpha: float | None, power: float | None = None) -> float:
        """Return the error probability, which is the fit's when None and smaller than a ``power`` below 1."""
        level = self.goal.alpha if alpha is None else check_alpha(alpha)
        if power is not None:
            number_in("power", power, lambda x: level < x < 1, f"it must be a number between alpha={level:g} and 1")
        return level

    def _pair(self, first: str, second: str, difference: float | None = None) -> tuple[FloatArray, float]:
        """Return the coefficients, (K,), and the value of the difference of two models' scores."""
        row = read_hypothesis((first, second), self.names).matrix[0]
        if difference is None:
            return row, float(row @ self.goal.scores)
        allowed = "it must be a finite number, in the unit of the scores"
        return row, number_in("difference", difference, lambda x: bool(np.isfinite(x)), allowed)

    def __deepcopy__(self, memo: object = None) -> Plan:
        # A plan never changes.
        return self

    __copy__ = __deepcopy__

    def __getstate__(self) -> list[object]:
        # Functions that predict hold the data and the learners of a fit, which a stored plan leaves out.
        goal, problem = replace(self.goal, predict=None), _without_tables(self.problem)
        return [problem, goal, *(getattr(self, field.name) for field in fields(self)[2:])]

    def __repr__(self) -> str:
        size = f"{self.problem.n_contexts:,} contexts, {len(self.models)} models"
        return f"<Plan: {self.goal.criterion}-optimal, {size}, cost {self.expected_cost:,.6g}>"


def _without_tables(problem: Problem) -> Problem:
    """Return a problem, and that of its uniform plan, without probabilities that are computed when they are needed."""
    if problem.even is not None:
        problem = replace(problem, even=_without_tables(problem.even))
    if not isinstance(problem.mu, Computed):
        return problem
    return replace(problem, mu=Computed(problem.mu.shape, partial(_not_stored, len(problem.mu))))


def _not_stored(n_tables: int, rows: Rows) -> FloatArray:
    """Stand for the probabilities of a stored plan, which are not in the file."""
    raise DataNotStoredError(
        f"this plan was stored without the probabilities of its {n_tables:,} different contexts; make it again"
    )


def _tasks_json(rows: pd.DataFrame, of_labels: list[str], header: dict[str, object]) -> str:
    """Return the rows of a sample as JSON: the tasks, the contexts without a task, and the header of the plan."""
    drawn = rows["propensity"].notna()
    tasks = json.loads(rows[drawn].to_json(orient="records", double_precision=15))
    # pandas writes 15 digits at most. Propensities are written with all digits, so that reading gives the same numbers.
    for task, propensity in zip(tasks, rows.loc[drawn, "propensity"], strict=True):
        task["propensity"] = float(propensity)
    unlabelled = json.loads(rows[~drawn].drop(columns=of_labels).to_json(orient="records"))
    content = {**header, "tasks": tasks, "unlabelled": unlabelled}
    # Names of prompts may be numbers of numpy.
    return json.dumps(content, indent=1, ensure_ascii=False, default=lambda name: getattr(name, "item", name.__str__)())

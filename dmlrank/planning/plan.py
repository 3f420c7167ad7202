"""A labelling plan: propensities, what they cost and buy, and the rows to send to annotators."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import check_alpha, resolve_seed
from .._utils.atomic_write import write_file
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError
from ..inference.ranks import power_of, smallest_gap
from ..plotting.heat_maps import heat_map
from ..report.table import Summary
from .plan_summary import expected_labels, plan_summary
from .power import cheapest_solution, max_width, pair_critical_value, predicted_precision
from .problem import TablesNotStored
from .robustness import Regret, regret_of
from .sampling import PlanHeader, draw_cells, sample_frame, tasks_json
from .specification import PlanSolution, PlanSpecification, solve
from .validate import check_mu, check_positive, mu_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """Which pairs are labelled on which contexts, with what probability. Made by :func:`dmlrank.design`.

    Attributes
    ----------
    specification : PlanSpecification
        What the plan is for, and what limits it beside the budget.
    solution : PlanSolution
        The optimal propensities within the budget, and the covariance that they lead to.
    """

    specification: PlanSpecification
    solution: PlanSolution

    @classmethod
    def within(cls, specification: PlanSpecification, budget: float) -> Plan:
        """The optimal plan of a specification within a budget."""
        return cls.of(specification, solve(specification, budget))

    @classmethod
    def of(cls, specification: PlanSpecification, solution: PlanSolution) -> Plan:
        """The plan that a solution of a specification is."""
        return cls(specification, solution)

    @property
    def propensity(self) -> FloatArray:
        """Probability that a pair is labelled on a context, (n, K, K), zero off the graph; made on every call.

        j first and k second in ``[:, j, k]``. With ``position_bias=False`` symmetric: that of either order.
        """
        problem = self.specification.problem
        return problem.pairs.table(self.solution.propensity)[problem.rows_of(slice(0, problem.n_contexts))]

    @property
    def models(self) -> list[str]:
        """Names of the K models, in the order of every array."""
        return list(self.specification.names.models)

    @property
    def names(self) -> list[str]:
        """What the scores are called: the models, or the outputs of a functional of one's own."""
        return list(self.specification.names.scores)

    @property
    def contexts(self) -> list[Hashable]:
        """Identifiers of the n contexts."""
        return list(self.specification.names.contexts)

    @property
    def position_bias(self) -> bool:
        """Whether both orders of a pair have propensities of their own."""
        return self.specification.problem.pairs.ordered

    @property
    def budget(self) -> float:
        """What the plan was allowed to cost."""
        return self.solution.budget

    @property
    def expected_cost(self) -> float:
        """What it costs in expectation."""
        return self.solution.expected_cost

    @property
    def slack(self) -> bool:
        """Whether a larger budget would buy nothing: every label that tells something is bought already."""
        return self.solution.slack

    @property
    def objective(self) -> float:
        """tr L Sigma L' ("A") or log det of the reduced Sigma ("D"), Sigma being n times the covariance."""
        return self.specification.criterion.objective(self.solution.sigma)

    @property
    def uniform_objective(self) -> float:
        """The objective of the plan that labels all pairs alike at the same cost."""
        return self.specification.criterion.objective(self.solution.uniform_sigma)

    @property
    def kkt_residual(self) -> float:
        """Largest relative violation of the optimality conditions; before exploration is mixed in."""
        return self.solution.kkt_residual

    @property
    def std_errors(self) -> pd.Series:
        """Predicted standard errors of the scores by model."""
        return self._errors(self.solution.sigma, "std_errors")

    @property
    def uniform_std_errors(self) -> pd.Series:
        """Those of the uniform plan of the same cost."""
        return self._errors(self.solution.uniform_sigma, "uniform_std_errors")

    def cov_params(self, uniform: bool = False) -> pd.DataFrame:
        """Predicted covariance of the scores, (K, K), for the plan or for the uniform one of the same cost."""
        sigma = self.solution.uniform_sigma if uniform else self.solution.sigma
        return pd.DataFrame(sigma / self.specification.problem.n_contexts, index=self.names, columns=self.names)

    def predicted(
        self, hypothesis: HypothesisLike | None = None, alpha: float | None = None, method: str = "max-t"
    ) -> pd.DataFrame:
        """What the plan will know, beside the uniform plan of the same cost.

        Parameters
        ----------
        hypothesis : optional
            Combinations of scores, as for :meth:`RankResults.t_test`. None: the plan's contrasts, or all scores.
        alpha : float, optional
            One minus the level of the intervals; the fit's where a fit made the plan, else 0.05.
        method : {"max-t", "bonferroni", "none"}
            Whether they hold for all rows at once, or each for itself.

        Returns
        -------
        DataFrame
            ``score``, ``std_error``, ``width`` (from the lower to the upper limit), ``uniform_std_error``,
            ``uniform_width`` and ``ratio`` of the standard errors.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> plan.predicted("model_0 - model_1")["std_error"].round(3).tolist()
        [0.033]
        """
        specification = self.specification
        rows: FloatArray
        labels: Sequence[str]
        if hypothesis is not None:
            read = read_hypothesis(hypothesis, self.names)
            rows, labels = read.matrix, read.labels
        elif len(specification.contrasts):
            rows, labels = specification.contrasts, specification.contrast_labels
        else:
            rows, labels = np.eye(len(self.names)), self.names
        level = self._alpha(alpha)
        return predicted_precision(specification, self.solution, rows, labels, alpha=level, method=method)

    def power(
        self,
        first: str,
        second: str,
        alpha: float | None = None,
        difference: float | None = None,
        method: str = "max-t",
    ) -> float:
        """Power to show that two models differ.

        Parameters
        ----------
        first, second : str
        alpha : float, optional
            Error of the test; the fit's where a fit made the plan, else 0.05.
        difference : float, optional
            Their true difference; the fit's estimate, or what the probabilities say, when None. An estimate that is
            itself uncertain gives a power that is: :meth:`smallest_gap` asks for none.
        method : {"max-t", "bonferroni", "none"}
            Whether the test is one of all pairs, with the family-wise error held, as in the summary of a fit and in
            :meth:`RankResults.t_test_pairwise`; ``"none"``: of this pair alone, chosen before there were data.
        """
        gap, error = self._gap(first, second, difference)
        return power_of(gap, error, pair_critical_value(self.specification, self.solution, self._alpha(alpha), method))

    def smallest_gap(
        self, first: str, second: str, power: float = 0.8, alpha: float | None = None, *, method: str = "max-t"
    ) -> float:
        """The smallest true difference of two models that the plan shows with the power.

        Parameters
        ----------
        first, second, alpha, method
            As for :meth:`power`.
        power : float
            Between ``alpha`` and 1.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> gap = plan.smallest_gap("model_0", "model_1")
        >>> round(plan.power("model_0", "model_1", difference=gap), 6)
        0.8
        """
        level = self._alpha(alpha)
        _check_power(power, level)
        critical = pair_critical_value(self.specification, self.solution, level, method)
        return smallest_gap(self._error_of(self._row(first, second), self.solution), critical, power)

    def for_width(self, width: float, alpha: float | None = None, method: str = "max-t") -> Plan:
        """The plan with the smallest budget whose widest interval is no wider than ``width``.

        Parameters
        ----------
        width : float
            Full width, from the lower to the upper limit, of the widest interval of the scores, or of the contrasts
            where the plan is for contrasts.
        alpha, method
            As for :meth:`predicted`.

        Raises
        ------
        OptionError
            If labelling everything does not reach it, or the labels that the fit has already do.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> float(plan.for_width(0.2).predicted()["width"].max().round(3))
        0.2
        """
        wanted, level = check_positive(width, "width"), self._alpha(alpha)

        def excess(solution: PlanSolution) -> float:
            return max_width(self.specification, solution, level, method) / wanted

        def explain(solution: PlanSolution) -> str:
            reached = excess(solution)
            return self._too_few(f"makes the widest interval {reached * wanted:.4g} wide, not {wanted:g}", reached)

        return Plan.of(self.specification, cheapest_solution(self.specification, self.budget, excess, explain))

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
        """The plan with the smallest budget that shows the difference of two models with the given power.

        The budget is for labels in addition to those of the fit, where a fit made the plan. What the plan is optimal
        for does not change: to spend all on this pair, make it with ``contrasts=(first, second)``.

        Parameters
        ----------
        first, second, alpha, difference, method
            As for :meth:`power`.
        power : float
            Between ``alpha`` and 1.

        Raises
        ------
        OptionError
            If labelling everything does not reach it, or the labels that the fit has already do.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(500, rng=0)), budget=600)
        >>> round(plan.for_power("model_0", "model_1", power=0.9).power("model_0", "model_1"), 3)
        0.9
        """
        gap, _ = self._gap(first, second, difference)
        level = self._alpha(alpha)
        _check_power(power, level)
        if gap == 0:
            raise OptionError(f"{first!r} and {second!r} score the same, which no test separates; give difference=")
        row = self._row(first, second)

        def excess(solution: PlanSolution) -> float:
            critical = pair_critical_value(self.specification, solution, level, method)
            return smallest_gap(self._error_of(row, solution), critical, power) / abs(gap)

        def explain(solution: PlanSolution) -> str:
            critical = pair_critical_value(self.specification, solution, level, method)
            has = power_of(gap, self._error_of(row, solution), critical)
            return self._too_few(
                f"separates {first!r} and {second!r} (difference {gap:.3g}) with power {has:.2f}, not {power:g}",
                excess(solution),
            )

        return Plan.of(self.specification, cheapest_solution(self.specification, self.budget, excess, explain))

    def at(self, contexts: object) -> FloatArray:
        """Propensities of the same rule in other contexts, (n, K, K).

        Parameters
        ----------
        contexts : array (n, K, K, C) or frame
            Probabilities there; or, for a plan made by :meth:`RankResults.design`, a frame of prompts.

        Raises
        ------
        OptionError
            If costs or weights are given by context, so that those of other contexts are not known.
        """
        specification, problem = self.specification, self.specification.problem
        if specification.predict is not None and np.ndim(cast("ArrayLike", contexts)) != 4:
            mu = specification.predict(contexts)
        else:
            mu = mu_array(contexts)
            check_mu(mu, self.models, range(len(mu)), self.position_bias)
        if len(problem.cost) > 1 or problem.context_weight is not None:
            raise OptionError("costs or weights are given by context, so that the rule is known in the plan's own only")
        if mu.shape[1:] != problem.mu.shape[1:]:
            raise NuisanceError(f"mu has shape {mu.shape}, the plan was made from {problem.mu.shape}")
        metric, explore = self.solution.metric, specification.explore
        lower = np.full((1, 1), self.solution.floor)
        made = replace(problem, mu=mu, row=None, deviations=None).propensities_at(
            metric, lower, self.solution.multiplier
        )
        if explore:
            made = (1 - explore) * made + explore * specification.uniform(self.budget)
        return problem.pairs.table(made)

    def regret(self, mu: ArrayLike) -> Regret:
        """What the plan loses if the probabilities are ``mu``, (n, K, K, C), and not those it was made from.

        What a wrong judge could cost: hand in other probabilities that may be true, such as another judge's, those of a
        refit, or the judge's drawn towards even ones.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> judge = ties.mu(ties.features(500, rng=0))
        >>> even = np.where(judge > 0, 1 / 3, 0.0)
        >>> loss = dr.design(judge, "bt", budget=600).regret((judge + even) / 2)
        >>> 0 < loss.excess < loss.sharp_bound < loss.bound
        True
        """
        return regret_of(self.specification, self.solution, mu)

    def summary(self, alpha: float | None = None, title: str | None = None) -> Summary:
        """Return the table for a report: cost, predicted errors beside the uniform plan's, expected labels by model.

        Parameters
        ----------
        alpha : float, optional
            One minus the joint level; that of the plan when None.
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        return plan_summary(self.specification, self.solution, self._alpha(alpha)).with_title(title)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Heat map of the expected number of labels by pair; needs matplotlib."""
        label = "expected labels" + (", first model in rows" if self.position_bias else ", either order")
        return heat_map(self.models, expected_labels(self.specification, self.solution), label, ax)

    def sample(self, rng: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw what is to be labelled.

        Pairs are drawn independently, or at most one of a context where the plan says so. With ``position_bias=False``
        the order in which a drawn pair is shown is drawn, too.

        Parameters
        ----------
        rng : int, Generator or None

        Returns
        -------
        DataFrame
            A row for every label to buy: the columns that identify the context, the two models in the order in which
            they are shown, and ``propensity``, which estimation needs (``dml_rank(..., propensity="propensity")``).
            Contexts without a label have one row with the others missing: they tell what prompts are like.

        Examples
        --------
        >>> import dmlrank as dr
        >>> ties = dr.datasets.Ties()
        >>> plan = dr.design(ties.mu(ties.features(100, rng=0)), budget=30)
        >>> int(plan.sample(rng=0)["propensity"].count())
        22
        """
        generator = np.random.default_rng(resolve_seed(rng)) if not isinstance(rng, np.random.Generator) else rng
        problem = self.specification.problem
        cells = draw_cells(
            self.solution.propensities, problem.pairs, problem.one_pair, generator, row=problem.row, rows=1024
        )
        return sample_frame(cells, self.specification.names)

    def export(self, path: str | os.PathLike[str], rng: int | np.random.Generator | None = None) -> pd.DataFrame:
        """Draw what is to be labelled and write it for an annotation tool.

        Parameters
        ----------
        path : path-like
            ``.csv``: the rows of :meth:`sample`. ``.json``: an object with the ``tasks`` (rows to label, each with its
            ``propensity``), the ``unlabelled`` contexts, and what the plan was (``criterion``, ``budget``,
            ``expected_cost``, ``position_bias``, ``seed``).
        rng : int, Generator or None
            As for :meth:`sample`; the seed that is drawn or given is written to JSON.

        Returns
        -------
        DataFrame
            The same rows.

        Raises
        ------
        OptionError
            If the path ends otherwise.
        FileWriteError
            If the file cannot be written; what stood there before still does.
        """
        kind = Path(path).suffix.lower()
        if kind not in (".csv", ".json"):
            raise OptionError(f"{os.fspath(path)!r}: a plan is written as .csv or .json")
        seed = resolve_seed(rng)
        rows = self.sample(seed)
        if kind == ".csv":
            write_file(path, rows.to_csv(index=False))
        else:
            header: PlanHeader = {
                "criterion": self.specification.criterion.kind,
                "budget": self.budget,
                "expected_cost": self.expected_cost,
                "position_bias": self.position_bias,
                "seed": seed,
            }
            write_file(path, tasks_json(rows, self.specification.names, header))
        return rows

    def _errors(self, sigma: FloatArray, name: str) -> pd.Series:
        variances = np.maximum(np.diag(sigma), 0) / self.specification.problem.n_contexts
        return pd.Series(np.sqrt(variances), index=self.names, name=name)

    def _alpha(self, alpha: float | None) -> float:
        return self.specification.alpha if alpha is None else check_alpha(alpha)

    def _row(self, first: str, second: str) -> FloatArray:
        return read_hypothesis((first, second), self.names).matrix[0]

    def _gap(self, first: str, second: str, difference: float | None) -> tuple[float, float]:
        """The difference of two models' scores, and its predicted standard error."""
        row = self._row(first, second)
        gap = float(row @ self.specification.scores) if difference is None else float(difference)
        return gap, self._error_of(row, self.solution)

    def _error_of(self, row: FloatArray, solution: PlanSolution) -> float:
        return float(np.sqrt(row @ solution.sigma @ row / self.specification.problem.n_contexts))

    def _too_few(self, what: str, excess: float) -> str:
        problem = self.specification.problem
        n, each = problem.n_contexts, "one pair" if problem.one_pair else "every pair"
        failed = f"even labelling {each} of all {n:,} contexts {what}"
        if self.specification.earlier is not None:
            return f"{failed}; plan for more prompts (newdata=)"
        return f"{failed}; about {int(np.ceil(n * excess**2)):,} contexts like these would, labelled alike"

    def __copy__(self) -> Plan:
        return Plan(self.specification, self.solution)

    def __deepcopy__(self, memo: dict[int, object]) -> Plan:
        # Nothing changes what a plan was made from, and what predicts in further contexts holds a fit.
        return Plan(self.specification, self.solution)

    def __reduce__(self) -> tuple[type[Plan], tuple[PlanSpecification, PlanSolution]]:
        # What predicts, in further contexts or in its own, holds a fit's data and learners; a stored plan does without.
        problem = self.specification.problem
        tables = problem.mu if isinstance(problem.mu, np.ndarray) else TablesNotStored(problem.mu.shape)
        return Plan, (replace(self.specification, predict=None, problem=replace(problem, mu=tables)), self.solution)

    def __repr__(self) -> str:
        size = f"{self.specification.problem.n_contexts:,} contexts, {len(self.models)} models"
        return f"<Plan: {self.specification.criterion.kind}-optimal, {size}, cost {self.expected_cost:,.6g}>"


def _check_power(power: float, alpha: float) -> None:
    if not alpha < check_positive(power, "power") < 1:
        raise OptionError(f"power={power!r}; needed is a number between alpha={alpha:g} and 1")

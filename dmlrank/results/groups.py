"""How scores vary with the prompt: scores in groups, projections on functions of the prompt, and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import place_of, places_of
from .._utils.tasks_and_threads import one_thread
from ..data.frames import require_columns
from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, OptionError, listed, nearest
from ..fit.estimates import Estimates
from ..inference.bootstrap_and_max_t import holm
from ..inference.covariance import Covariance
from ..inference.score_limits import WaldLaw
from ..inference.simultaneous import Family, MaxT
from ..inference.wald import WaldTestResults, f_law_of_groups, wald_test
from ..plotting.charts import grouped_forest_plot, level_words, models_words
from ..report import phrases
from ..report.fact_words import score_head
from ..report.first_place import headline
from ..report.fit_summary import covariance_words, rows_to_show
from ..report.render_page import Board
from ..tables.summary_table import Summary, decimals, fewest_decimals, p_value_clause, p_value_text, score_texts
from .context_variables import ContextDesign
from .joint_estimates import JointEstimates, JointResults
from .ranking import Boards, make_board
from .requirements import ModelTable
from .units_and_views import alpha_or_default, drawn, in_unit, simultaneous_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Result = TypeVar("Result")

# Points of a grid along a numeric variable.
_POINTS = 25


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupResults(JointResults, ModelTable, Boards, Generic[Result]):
    """Scores in every group of prompts; :meth:`RankResults.by` returns an object of this class.

    ``groups["coding"]`` is the result of one group. Tests across groups name scores as ``"group: model"``.

    Attributes
    ----------
    variable : str
        The columns that define the groups.
    estimates : Estimates
        Estimates of the fit to all prompts.
    joint : JointEstimates
        Scores of all groups with their covariance, group by group.
    of_groups : dict of Estimates
        The estimates of every group by name, as if they came from a fit of their own.
    values : tuple of tuple of str
        The value of every grouping column in each group.
    as_result : callable
        Returns the result of a group from its estimates.
    is_partition : bool
        Whether every prompt belongs to exactly one group; otherwise groups may overlap.
    left_out : tuple of (str, str)
        Groups that have no scores, with the reason.
    dependent_groups : tuple of str
        Groups whose indicators are linear combinations of those of the groups before; usually none.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, functional="bt", rng=0)
    >>> groups = res.by("category")
    >>> groups.params.shape, groups.t_test("coding: gpt-4 - writing: gpt-4").effect.shape
    ((8, 6), (1,))
    """

    variable: str
    estimates: Estimates
    joint: JointEstimates
    of_groups: dict[str, Estimates]
    values: tuple[tuple[str, ...], ...]
    as_result: Callable[[Estimates], Result]
    is_partition: bool = True
    left_out: tuple[tuple[str, str], ...] = ()
    dependent_groups: tuple[str, ...] = ()

    @property
    def groups(self) -> list[str]:
        """Names of the G groups."""
        return list(self.of_groups)

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def params(self) -> pd.DataFrame:
        """Scores: a row per model, a column per group; NaN where a model has no vote in a group."""
        return self.joint.table(np.where(self._is_unseen, np.nan, self.joint.estimate)).T

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors: a row per model, a column per group; NaN as for scores."""
        return self.joint.table(np.where(self._is_unseen, np.nan, self.joint.covariance.std_errors)).T

    @property
    def slopes(self) -> pd.DataFrame:
        """Slopes on style within the prompts of every group: a row per group and style column; none without style."""
        rows = [
            (name, term, slope, error)
            for name, e in self.of_groups.items()
            if (style := e.style) is not None
            for term, slope, error in zip(style.columns, style.slopes, style.slope_covariance.std_errors, strict=True)
        ]
        return pd.DataFrame(rows, columns=["group", "term", "estimate", "std_error"])

    @property
    def nobs(self) -> pd.Series:
        """Number of contexts by group."""
        return pd.Series({name: e.description.n_contexts for name, e in self.of_groups.items()}, name="nobs")

    def __len__(self) -> int:
        return len(self.of_groups)

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __getitem__(self, group: object) -> Result:
        """Return the result of a group, a :class:`RankResults` without data; values of several columns are a tuple."""
        values = tuple(map(str, group)) if isinstance(group, tuple) else (str(group),)
        name = dict(zip(self.values, self.groups, strict=True)).get(values, ", ".join(values))
        return self.as_result(self.of_groups[self.groups[place_of(self.groups, name, "group")]])

    def test_equal(self, models: Sequence[str] | None = None) -> WaldTestResults:
        """Test by a Wald test that models have the same scores in every group.

        Means of scores may all be lower in a group whose prompts are harder. For them the test is about differences
        between models: the score of a model less the mean score of all models.

        Parameters
        ----------
        models : sequence of str, optional
            The models whose scores are compared. When None, all but those with few votes: models that are apart, that
            have no vote in a group, or whose intervals a warning of the fit calls too short.

        Returns
        -------
        WaldTestResults
            As in statsmodels, F where groups are independent samples of prompts, and otherwise chi-squared: for groups
            that overlap, and with clusters. The (first) degrees of freedom are (G - 1) times the structural rank, which
            is K - 1 where the functional fixes a combination of the scores, and for means of scores.

        Raises
        ------
        HypothesisError
            If there are too few clusters, or one of several overlapping groups is determined by the others.

        Notes
        -----
        The law is Johansen's (1980), in which each group's covariance is estimated from its own prompts (docs/groups.md
        has simulations). :meth:`equal_by_model` tests fewer restrictions at once.
        """
        tested = phrases.in_joint_tests(self.models, self.of_groups.values())[0] if models is None else models
        places, n_groups = places_of(self.models, tested), len(self)
        if n_groups < 2:
            raise OptionError(f"{self.variable} has one group only, {self.groups[0]!r}")
        if self.dependent_groups:
            raise HypothesisError(
                f"the prompts of the groups {listed(self.dependent_groups)} are determined by those of the others; "
                f"call by() without one of these groups"
            )
        between = np.eye(n_groups)[1:] - np.eye(n_groups)[0]
        matrix = np.kron(between, self._compared[places])
        first, *others = self.groups
        chosen = [self.models[place] for place in places]
        labels = tuple(f"{group}: {name} - {first}: {name}" for group in others for name in chosen)
        # The groups together have the units of the fit.
        covariance, n_prompts = self._between
        joint = replace(self.joint, covariance=replace(covariance, df=self.estimates.covariance.df))
        return wald_test(joint, LinearHypothesis(matrix, np.zeros(len(matrix)), labels), n_prompts)

    @property
    def _compared(self) -> FloatArray:
        """What is compared between groups, (K, K): scores, or means of scores less the mean score of all models."""
        n_models = len(self.models)
        return np.eye(n_models) - (1 / n_models if self.estimates.are_means else 0.0)

    @property
    def _between(self) -> tuple[Covariance, tuple[int, ...]]:
        """The joint covariance, and labelled prompts of each group where groups are independent samples of prompts.

        Independent samples have the divisor n - 1 in place of n; for other groups, there are no numbers of prompts.
        """
        joint, n_models = self.joint.covariance, len(self.models)
        between = np.kron(1 - np.eye(len(self)), np.ones((n_models, n_models))) * joint.matrix
        if joint.n_clusters or not np.abs(between).max() <= 1e-12 * np.abs(joint.matrix).max():
            return joint, ()
        n_prompts = tuple(map(phrases.independent_prompts, self.of_groups.values()))
        n = np.repeat(np.array(n_prompts, dtype=float), n_models)
        return replace(joint, matrix=joint.matrix * np.sqrt(np.outer(n / (n - 1), n / (n - 1)))), n_prompts

    def equal_by_model(self) -> pd.DataFrame:
        """Test for every model by a Wald test that it has the same score in every group.

        As in :meth:`test_equal`, a mean of scores counts less the mean score of all models.

        Returns
        -------
        DataFrame
            A row per model: ``statistic``, ``df``, ``p_value`` and ``p_holm``, adjusted for all models by Holm's
            method. NaN where a score does not vary or rests on too few votes.
        """
        maps, (covariance, n_prompts) = np.kron(np.eye(len(self)), self._compared), self._between
        # A row of indices per group, a column per model.
        index_of_score, estimate = np.arange(len(maps)).reshape(len(self), -1), maps @ self.joint.estimate
        matrix = maps @ covariance.matrix @ maps.T
        rows = [
            equality_test(estimate[scores], matrix[np.ix_(scores, scores)], n_prompts) for scores in index_of_score.T
        ]
        frame = pd.DataFrame(np.array(rows), columns=["statistic", "df", "p_value"], index=self.models)
        p = frame["p_value"].dropna()
        frame = frame.assign(df=frame["df"].astype(int), p_holm=pd.Series(holm(p.to_numpy()), p.index))
        # Holm's method counts these models, too, so that no p-value depends on them otherwise.
        is_unseen = self._is_unseen.reshape(len(self), -1).any(axis=0)
        in_doubt = frame.index.isin(self.estimates.diagnostics.doubtful_models)
        frame.loc[is_unseen | in_doubt, ["statistic", "p_value", "p_holm"]] = np.nan
        return frame

    def reversals(self) -> pd.DataFrame:
        """Return pairs of models that two groups order differently, with tests of both orders.

        Returns
        -------
        DataFrame
            The columns of :meth:`Comparison.reversals`, with groups in place of results: all reversals with
            ``p_adjusted <= 0.05`` can be claimed jointly.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0)
        >>> res.by("category").reversals().columns.tolist()[:4]
        ['model', 'other', 'above_in', 'below_in']
        """
        return self._reversals(self.models, dict.fromkeys(self.groups, self.estimates.sign))

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return one row per group and model with estimate, standard error, test and interval.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`RankResults.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``group term estimate std_error statistic p_value p_adjusted conf_low conf_high interval``.
            ``p_adjusted`` and intervals hold for all groups and models together; the statistic compares a score with
            the neutral value. Numbers are NaN where a model has no vote in a group.
        """
        z = np.concatenate([e.neutral_statistics() for e in self.of_groups.values()])
        max_t, n_models = None, len(self.models)
        if self.estimates.neutral is None:
            # A score is then compared with the mean score of its group.
            centring = np.kron(np.eye(len(self)), np.eye(n_models) - 1 / n_models)
            max_t = MaxT(self.joint.covariance.of_combinations(np.asarray(centring)), self.joint.seed)
        frame = self._tidy(z, alpha, method, max_t)
        frame.loc[self._is_unseen, list(frame.columns[2:])] = np.nan
        return frame

    def _equality(self) -> WaldTestResults | str:
        """Return the test that groups have equal scores, or why there is none."""
        if len(self.models) == 1:
            return "a single model has no differences between models"
        try:
            return self.test_equal()
        except (HypothesisError, OptionError) as error:
            return str(error)

    def _table(
        self, models: Sequence[str] | None, top: int | None, equality: WaldTestResults | str | None = None
    ) -> Summary:
        fit, groups, shown = self.estimates, self.of_groups, rows_to_show(self.estimates, models, top)
        scores, std_errors = self.params.to_numpy(), self.bse.to_numpy()
        digits = decimals(std_errors, fewest=fewest_decimals(fit.scale.natural))
        pairs = [(fit.estimate, fit.covariance.std_errors), *zip(scores.T, std_errors.T, strict=True)]
        columns = [score_texts(*of, digits) for of in pairs]
        heads, unseen = ["all", *groups], {name: phrases.unseen_models(e) for name, e in groups.items()}
        if len(groups) > 1:
            p_equal = self.equal_by_model()["p_holm"].items()
            without = {*chain(*unseen.values()), *fit.diagnostics.doubtful_models}
            columns.append(["-" if model in without else p_value_text(p) for model, p in p_equal])
            heads.append("P equal")
        rows = tuple((fit.models[j], *(column[j] for column in columns)) for j in shown.places)
        n_prompts = {name: e.description.n_contexts for name, e in groups.items()}
        smallest = min(n_prompts, key=n_prompts.__getitem__)
        header = (
            ("Functional:", phrases.functional_unit(fit), "Cov. Type:", covariance_words(fit)),
            ("Groups:", f"{len(groups)} of {self.variable}", "No. Prompts:", f"{fit.description.n_contexts:,}"),
            ("Estimator:", fit.estimator, "Smallest group:", f"{smallest}, {n_prompts[smallest]:,} prompts"),
        )
        shares = "their shares of the weights" if fit.description.weighted else "their shares of the prompts"
        shares = "the shares of their tasks" if fit.description.equal_tasks else shares
        relation = f"The mean of the groups' scores, weighted by {shares}, is the score over all prompts."
        if not self.is_partition:
            relation = "Groups may overlap: a prompt counts in each of its groups, and tests between groups take "
            relation += "account of prompts that groups share."
        elif fit.averages_preferences:
            relation = "Scores in a group are computed from the mean preferences of the group, so that their mean over "
            relation += "groups is not the score over all prompts."
        notes = [
            "Each column has score and (standard error) in a group. The scores of all groups come from one fit. "
            f"{relation} {phrases.as_sentence(f'in every group, {fit.reason}') if fit.reason else ''}".strip(),
            phrases.equality_note(fit, groups, equality or self._equality()),
        ]
        if absent := "; ".join(f"{name} ({', '.join(some)})" for name, some in unseen.items() if some):
            notes.append(
                f"Some models have no vote in a group and no score there (-): {absent}. A score would be a prediction "
                f"of the outcome model that no vote corrects, with too short an interval. P-values are adjusted for "
                f"all models."
            )
        if without_pair := ", ".join(name for name, e in groups.items() if e.description.smallest_pair == 0):
            notes.append(
                f"In some groups a compared pair has no vote: {without_pair}. The part of the scores that comes from "
                f"such a pair is predicted by the outcome model."
            )
        sizes = (
            f"{name} {n:,} prompts ({groups[name].description.n_votes:,} {fit.counts}s)"
            for name, n in n_prompts.items()
        )
        notes.append(f"Groups: {', '.join(sizes)}.")
        if reasons := "; ".join(f"{name} ({reason})" for name, reason in self.left_out):
            notes.append(f"These groups have no scores: {reasons}.")
        notes += [phrases.as_sentence(self.joint.covariance.note), *phrases.few_votes_note(fit)]
        notes += phrases.doubt_note(fit)
        table = Summary(f"Scores by {self.variable}", header, tuple((head, 1) for head in heads), rows, tuple(notes))
        return table.with_notes(shown.note("Tests and adjusted p-values"))

    def plot(
        self,
        ax: Axes | None = None,
        alpha: float | None = None,
        *,
        models: Sequence[str] | None = None,
        top: int | None = None,
    ) -> Axes:
        """Draw the scores by group with intervals; this needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        alpha : float, optional
            One minus the joint level over all groups and models; the fit's when None.
        models : sequence of str, optional
            Models in the picture; all when None. Intervals are those among all models.
        top : int, optional
            Number of the best models over all prompts in the picture.

        Returns
        -------
        matplotlib Axes
            The axes of the picture.

        Raises
        ------
        OptionError
            If there are too many models to draw, or more than 12 groups.
        """
        e, alpha = self.estimates, alpha_or_default(alpha, self.joint.alpha)
        columns = list(rows_to_show(e, models, top).places)
        counts = f"{models_words(len(columns), len(e.models))}, {len(self)} groups by {self.variable}"
        limits, title = self.conf_int(alpha), f"{level_words(alpha)}\n{counts}"
        scores = np.where(self._is_unseen, np.nan, self.joint.estimate)
        numbers = pd.DataFrame({"estimate": scores, "low": limits["lower"], "high": limits["upper"]})
        intervals = {group: pd.DataFrame(numbers.loc[group]).iloc[columns] for group in self.groups}
        label = score_head(e)
        return grouped_forest_plot(intervals, e.neutral, variable=self.variable, label=label, title=title, ax=ax)

    def _page(self, alpha: float | None, unit: str) -> tuple[str, list[Board], list[Summary]]:
        whole = in_unit(self.estimates, simultaneous_of(self.estimates), unit)
        boards = [make_board(*whole, "All prompts", alpha=alpha, beside_others=True)]
        for name, e in self.of_groups.items():
            of_group = in_unit(*drawn(e), unit)
            boards.append(make_board(*of_group, name, alpha=alpha, is_explained=False, beside_others=True))
        equality = self._equality()
        notes = [self._first_places(boards, equality)]
        if len(self.models) > 1 < len(self):
            fits = [self.estimates] * len(self)
            notes.append(phrases.reversal_note(self.groups, fits, self.reversals(), self.joint.alpha, "groups"))
        table = self._table(None, None, equality).with_notes(*notes)
        return f"by {self.variable}", boards, [table]

    def _first_places(self, boards: Sequence[Board], equality: WaldTestResults | str) -> str:
        """Say who leads in all prompts and in the groups, where this is decided, and whether groups differ."""
        leaders: dict[str, list[str]] = {}
        decided = []
        for board in boards[1:]:
            if (first := board.level.first) is not None:
                leaders.setdefault(board.results.models[first.leader], []).append(board.name)
                decided += [board.name] * (first.decided and bool(first.separated.all()))
        overall = headline(boards[0].results, boards[0].level)
        if not leaders or not overall:
            return ""
        by_size = sorted(leaders.items(), key=lambda leads: -len(leads[1]))
        places = "; ".join(
            f"{model} has the {self.estimates.best_end} score in {phrases.some_of(names)}" for model, names in by_size
        )
        where = f"in {phrases.some_of(decided)}, each group tested by itself" if decided else "in none of them"
        differ, of_whom = "", ""
        if not isinstance(equality, str):
            p_equal, by_model = float(equality.pvalue), self.equal_by_model()["p_holm"]
            depend = "depend" if p_equal <= 0.05 else "are not shown to depend"
            differ = f" Differences between models {depend} on {self.variable} (P {p_value_clause(p_equal)})."
            if p_equal <= 0.05:
                # Leaders may be others than the models whose scores differ.
                differing = by_model.index[by_model <= 0.05].tolist()
                of_whom = f" Of single models, this is shown for {phrases.some_of(differing) if differing else 'none'}."
        below = f"{of_whom} By {self.variable}: {places}; who is first is decided {where}."
        return f"{phrases.OVERALL} {overall}{differ}\n{below}"

    @property
    def _is_unseen(self) -> NDArray[np.bool_]:
        """Whether no vote of the group is on the model, (G K,): a score there would be a prediction alone."""
        return np.concatenate([e.is_unseen for e in self.of_groups.values()])

    def __repr__(self) -> str:
        return f"<GroupResults: {len(self)} groups by {self.variable}, {len(self.models)} models>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection(JointResults, ModelTable):
    """Coefficients of the scores on functions of the prompt; :meth:`RankResults.by` of a formula returns this class.

    Tests name coefficients as ``"length: gpt-4"``.

    Attributes
    ----------
    design : ContextDesign
        The functions of the prompt.
    estimates : Estimates
        Estimates of the fit.
    joint : JointEstimates
        Coefficients of all models with their covariance, coefficient by coefficient.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, functional="bt", rng=0)
    >>> projection = res.by("~ length")
    >>> projection.coefficients, projection.test_terms().index.tolist()
    (['Intercept', 'length'], ['length'])
    """

    design: ContextDesign
    estimates: Estimates
    joint: JointEstimates

    @property
    def models(self) -> list[str]:
        """Names of the K models."""
        return list(self.estimates.models)

    @property
    def coefficients(self) -> list[str]:
        """Names of the P coefficients."""
        return list(self.design.names)

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients: a row per coefficient, a column per model."""
        return self.joint.table(self.joint.estimate)

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors: a row per coefficient, a column per model."""
        return self.joint.table(self.joint.covariance.std_errors)

    def tidy(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return one row per coefficient and model with estimate, standard error, test and interval.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the fit's when None.
        method : {"max-t", "bonferroni", "none"}
            As for :meth:`RankResults.conf_int`.

        Returns
        -------
        DataFrame
            Columns ``coefficient term estimate std_error statistic p_value p_adjusted conf_low conf_high interval``.
            ``p_adjusted`` and intervals hold for all coefficients and models together. A coefficient is tested against
            zero, the constant against the neutral value of a score.
        """
        null = np.zeros((len(self.coefficients), len(self.models)))
        if self.design.constant:
            null[0] = np.nan if self.estimates.neutral is None else self.estimates.neutral
        z = self.joint.covariance.law(self.joint.estimate).statistics(null.ravel())
        return self._tidy(z, alpha, method)

    def test_terms(self) -> pd.DataFrame:
        """Test for every term of the formula, by a Wald test, that no model's scores vary with the term.

        Models that are apart or whose intervals a warning of the fit calls too short are left out.

        Returns
        -------
        DataFrame
            A row per term: ``statistic``, ``df`` (columns of the term times the structural rank) and ``p_value``; NaN
            where a term cannot be tested.
        """
        rows, joint, n_models = {}, self.joint, len(self.models)
        tested = places_of(self.models, phrases.in_joint_tests(self.models, [self.estimates])[0])
        for term, columns in self.design.terms:
            places = [column * n_models + j for column in columns for j in tested]
            try:
                test = joint.test_zero(places)
                rows[term] = (float(test.statistic), test.rank, float(test.pvalue))
            except HypothesisError:
                rows[term] = (np.nan, np.linalg.matrix_rank(joint.covariance.basis[places]), np.nan)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["statistic", "df", "p_value"])

    def bands(
        self,
        variable: str,
        grid: Sequence[object] | None = None,
        *,
        at: Mapping[str, object] | None = None,
        models: Sequence[str] | None = None,
        alpha: float | None = None,
    ) -> pd.DataFrame:
        """Return projected scores along one variable, with bands that hold at all points and for all models at once.

        Parameters
        ----------
        variable : str
            A variable of the formula.
        grid : sequence, optional
            Values of the variable. By default 25 values from the smallest to the largest for numbers, and all values
            otherwise.
        at : mapping, optional
            Values of the other variables. By default the mean of numbers and the most frequent of other values.
        models : sequence of str, optional
            Models of the bands; all when None. Bands of fewer models are narrower.
        alpha : float, optional
            One minus the joint level; the fit's when None.

        Returns
        -------
        DataFrame
            A row per model and point: ``variable``, model, estimate, std_error, lower, upper.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ length | model_a + model_b", battles, rng=0)
        >>> res.by("~ length").bands("length", grid=[0, 100], models=["gpt-4"]).columns.tolist()
        ['length', 'model', 'estimate', 'std_error', 'lower', 'upper']
        """
        alpha = alpha_or_default(alpha, self.joint.alpha)
        values = self._grid(variable, grid)
        places, n_models = places_of(self.models, models), len(self.models)
        v = self.design.at(self._points(variable, values, at or {}))
        contrasts = np.vstack([np.kron(v, np.eye(n_models)[place]) for place in places])
        covariance, estimate = self.joint.covariance, contrasts @ self.joint.estimate
        variance = np.einsum("jd,de,je->j", contrasts, covariance.matrix, contrasts, optimize=True)
        std_error = np.sqrt(np.maximum(variance, 0.0))
        critical = Family.of_contrasts(self.joint.max_t.widened, contrasts).critical(alpha)
        low, high = covariance.law(estimate, std_error, contrasts).limits(critical)
        return pd.DataFrame(
            {
                variable: np.tile(np.asarray(values), len(places)),
                "model": np.repeat(np.array(self.models, dtype=object)[places], len(values)),
                "estimate": estimate,
                "std_error": std_error,
                "lower": low,
                "upper": high,
            }
        )

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        fit, shown = self.estimates, rows_to_show(self.estimates, models, top)
        cells = [
            score_texts(values, errors, decimals(errors, fewest=fewest_decimals(fit.scale.natural)))
            for values, errors in zip(self.params.to_numpy(), self.bse.to_numpy(), strict=True)
        ]
        rows = tuple((fit.models[j], *(column[j] for column in cells)) for j in shown.places)
        header = (
            ("Functional:", phrases.functional_unit(fit), "Cov. Type:", covariance_words(fit)),
            ("Projected on:", self.design.formula, "No. Prompts:", f"{fit.description.n_contexts:,}"),
        )
        heads = tuple((str(name), 1) for name in self.params.index)
        meaning = (
            "Each cell has a coefficient and its (standard error). The coefficients are the best linear approximation "
            f"of how a model's score varies over prompts, whether or not the relation is linear. "
            f"{phrases.as_sentence(fit.reason)}"
        ).rstrip()
        basis = fit.covariance.basis
        if basis.shape[1] < len(fit.models) and np.allclose(basis.sum(axis=0), 0.0):
            meaning += " The models' coefficients on every term except the constant therefore sum to 0."
        tests = "; ".join(
            f"{name}: chi2({df:g}) = {statistic:.1f}, P {p_value_clause(p)}"
            if np.isfinite(statistic)
            else f"{name}: cannot be tested ({df:g} restrictions)"
            for name, statistic, df, p in self.test_terms().itertuples(name=None)
        )
        without = phrases.in_joint_tests(self.models, [fit])[1]
        tested = f"Tests of the terms{without} (hypothesis: no model's score varies with the term): {tests}."
        tested *= bool(tests)
        notes = (meaning, tested, phrases.as_sentence(self.joint.covariance.note), *phrases.doubt_note(fit))
        table = Summary("Scores Projected on Functions of the Prompt", header, heads, rows, notes)
        return table.with_notes(shown.note("Sums of coefficients and tests of terms"))

    def __repr__(self) -> str:
        n_coefficients, n_models = len(self.coefficients), len(self.models)
        return f"<Projection: {self.design.formula}, {n_coefficients} coefficients of {n_models} models>"

    def _grid(self, variable: str, grid: Sequence[object] | None) -> list[object]:
        """Return the values of the variable at which bands are computed."""
        table = self.design.table
        require_columns([variable], list(table.columns), f"bands() of {self.design.formula!r}")
        if grid is not None:
            if not len(grid):
                raise OptionError("grid is empty; give at least one value")
            return list(grid)
        column = table[variable]
        if column.dtype.kind in "fiu" and column.nunique() > _POINTS:
            return list(np.linspace(column.min(), column.max(), _POINTS))
        return sorted(column.unique(), key=lambda value: (isinstance(value, str), value))

    def _points(self, variable: str, values: Sequence[object], at: Mapping[str, object]) -> pd.DataFrame:
        """Return the variables at the points of the grid, a row per point."""
        table = self.design.table
        for name in at:
            if name not in table.columns or name == variable:
                allowed = [column for column in table.columns if column != variable]
                raise OptionError(
                    f"at: {name!r} is none of the other variables{nearest(name, allowed)} ({listed(allowed)})"
                )
        columns = {}
        for name in table.columns:
            column = table[name]
            usual = column.mean() if column.dtype.kind in "fiu" else column.mode().iloc[0]
            columns[name] = list(values) if name == variable else [at.get(name, usual)] * len(values)
        return pd.DataFrame(columns)


@one_thread()
def equality_test(
    estimate: FloatArray, covariance: FloatArray, n_units: Sequence[int] = ()
) -> tuple[float, float, float]:
    """Return statistic, degrees of freedom and p-value of a test of equal means, (G,); NaN without variation.

    The test is chi-squared; with ``n_units`` it is F for means of independent groups of so many units.
    """
    df = len(estimate) - 1
    between = np.eye(df + 1)[1:] - np.eye(df + 1)[0]
    gap = between @ estimate
    gap_covariance = between @ covariance @ between.T
    spectrum = np.linalg.eigvalsh(gap_covariance)
    if not spectrum[0] > 1e-12 * max(spectrum[-1], 1e-300):
        return np.nan, df, np.nan
    statistic = float(gap @ np.linalg.solve(gap_covariance, gap))
    if n_units:
        factor, second = f_law_of_groups(between, covariance, n_units)
        return statistic, df, float(WaldLaw(df, second).tail(statistic / factor))
    return statistic, df, float(WaldLaw(df).tail(statistic))

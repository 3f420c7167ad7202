"""Comparison of results, side by side and by tests between them; several criteria."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import scipy

from .._utils.argument_checks import check_flag, check_type, real_number
from .._utils.tasks_and_threads import collected_warnings, one_thread, warn
from ..data.arrays import FloatArray
from ..data.columns import similar_names
from ..data.graph import Graph, VoteCounts, losses_clause
from ..data.hypotheses import LinearHypothesis
from ..exceptions import HypothesisError, OptionError, OptionTypeError, check_choice, listed, nearest, shown
from ..fit.estimates import Estimates
from ..fit.estimators import BT_MLE, DEBIASED
from ..inference.ranks import rank_changes, ranks_of
from ..inference.simultaneous import separate
from ..inference.wald import WaldTestResults, wald_test
from ..options import METHODS
from ..report import phrases
from ..report.fact_words import score_words
from ..report.fit_summary import choose_models
from ..report.render_page import Board
from ..tables.summary_table import Summary, decimals, fewest_decimals, p_value_clause, p_value_text, score_texts
from .joint_estimates import JointEstimates, JointResults
from .joint_results import Changes, changes_between, joint_results, mapped_covariance, why_not_comparable
from .rank_results import RankResults, result_of
from .ranking import Boards, make_board
from .requirements import ModelTable, Needs
from .units_and_views import alpha_or_default, in_unit

# Properties that automatic names are made from, in this order.
_TRAITS: tuple[Callable[[Estimates], str], ...] = (
    lambda e: e.functional if e.estimated_by.has_first_stages else e.estimator,
    lambda e: "" if e.estimated_by in (DEBIASED, BT_MLE) else e.estimator,
    lambda e: e.part,
    lambda e: "mean preferences" if e.averages_preferences else "",
    lambda e: "" if e.description.edge_weights == "equal" else f"{e.description.edge_weights} edges",
    lambda e: e.functional_label,
    lambda e: e.description.learner,
    lambda e: e.description.propensity,
    lambda e: ", ".join(e.description.clusters) or e.description.cov_type,
    lambda e: e.scale.name,
    lambda e: e.description.formula,
    lambda e: f"{e.description.n_votes:,} votes",
)

_NEEDS = Needs(models="puts scores of models side by side", one_look="tests between results hold for one look only")
# Models or groups of names that a warning lists.
_MOST_NAMED = 5
# What the leaderboard of one result says where the table of all results has other scores.
_ALL_PAIRS = (
    "This leaderboard has all models and pairs of {name}. The scores under “Side by side” are computed again on the "
    "pairs that all results compare, and may differ from these."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(JointResults, ModelTable, Boards):
    """Results side by side; :func:`dmlrank.compare` returns an object of this class.

    Tests name scores as ``"result: model"``. They need the covariance between the results, which exists for live
    results whose prompts are identified by ``context=``, and for independent samples; otherwise they raise an error
    with the reason.

    Attributes
    ----------
    names : tuple of str
        Names of the R results, in the order of the columns.
    results : tuple of RankResults
        The results.
    joint_or_reason : JointEstimates or str
        All scores with one covariance, or why there is none.
    samples : str
        How the samples of prompts are related; empty where all results are of the same prompts.
    basis : str
        What the scores are computed from, where they were computed again on the pairs that all results compare.
    as_given : tuple of RankResults
        The results before that: the leaderboards of the page.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
    >>> comparison = dr.compare(res, res.update(functional="borda"))
    >>> comparison.ranks.columns.tolist()
    ['bt', 'borda']
    """

    names: tuple[str, ...]
    results: tuple[RankResults, ...]
    joint_or_reason: JointEstimates | str
    samples: str = ""
    basis: str = ""
    as_given: tuple[RankResults, ...] = ()

    @property
    def models(self) -> list[str]:
        """Models of all results: those of the first result by score, then the others by name."""
        first = self.results[0].params.sort_values(ascending=False, kind="stable").index.tolist()
        return first + sorted({name for result in self.results for name in result.models} - set(first))

    @property
    def params(self) -> pd.DataFrame:
        """Scores: a row per model, a column per result; NaN where a result does not have the model."""
        return self._columns([result.params for result in self.results])

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors: a row per model, a column per result."""
        return self._columns([result.bse for result in self.results])

    @property
    def ranks(self) -> pd.DataFrame:
        """Ranks by score within each result: a row per model, a column per result."""
        ranks = [pd.Series(ranks_of(r.estimates.merit), index=r.models) for r in self.results]
        return self._columns(ranks).astype("Int64")

    @property
    def joint(self) -> JointEstimates:
        """All scores with one covariance; where there is none, the error says why."""
        if isinstance(self.joint_or_reason, str):
            raise OptionError(self.joint_or_reason)
        return self.joint_or_reason

    def changes(self, alpha: float | None = None, method: str = "max-t") -> pd.DataFrame:
        """Return how much every model's score differs from its score in the first result, with tests.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; the first fit's when None.
        method : {"max-t", "bonferroni", "none"}
            ``"max-t"`` and ``"bonferroni"``: intervals that hold for all rows at once, and p-values adjusted for all
            rows. ``"none"``: intervals and p-values that each hold for one row.

        Returns
        -------
        DataFrame
            Columns ``result model before after estimate std_error statistic p_value p_adjusted conf_low conf_high
            rank_before rank_after rank_change rank_change_low rank_change_high``, a row per later result and model that
            all results have. ``estimate`` is ``after - before``. Ranks are those among the models of the first and the
            later result; ``rank_change`` counts places gained, and its limits hold for all rows at once.

        Raises
        ------
        OptionError
            If the results have no joint covariance, or if their scores are different quantities.

        Notes
        -----
        Where an estimator assumes a Bradley-Terry model, results may have different models. Their scores are then taken
        relative to the mean of the common models. Any other score depends on all models of its result.

        The rank sets of R results hold with probability 1 - alpha / R each, so that all changes of ranks lie between
        the differences of their ends with probability 1 - alpha, however the results depend on each other.

        Examples
        --------
        >>> import dmlrank as dr
        >>> months = [dr.datasets.simulate_arena(n=1500, rng=seed) for seed in (0, 1)]
        >>> january, february = (dr.dml_rank("winner ~ 1 | model_a + model_b", month, rng=0) for month in months)
        >>> comparison = dr.compare(january=january, february=february, independent=True)
        >>> changes = comparison.changes()
        >>> changes.shape, bool((changes["p_adjusted"] < 0.05).any())
        ((8, 16), False)
        """
        check_choice(method, METHODS, "method")
        alpha = alpha_or_default(alpha, self.joint.alpha)
        return self._changes().of_models(alpha, method).merge(self._place_changes(alpha), on=["result", "model"])

    def test_unchanged(self) -> WaldTestResults:
        """Test by one Wald test that no model's score differs between the results.

        Models that are apart or whose intervals a warning of a fit calls too short are left out.

        Returns
        -------
        WaldTestResults
            As in statsmodels. The degrees of freedom are (R - 1) times the structural rank, which is K - 1 where the
            functional fixes a combination of the K scores.
        """
        return self._test_unchanged(self._changes().joint)[0]

    def _test_unchanged(self, changes: JointEstimates) -> tuple[WaldTestResults, str]:
        """Return the test that changes are zero, and which models it leaves out."""
        shared = list(dict.fromkeys(changes.index.get_level_values("model")))
        tested, without = phrases.in_joint_tests(shared, [result.estimates for result in self.as_given or self.results])
        if not without:
            return changes.test_zero(), ""
        # The level of scores may rest on the models that are left out.
        is_tested, n_later = np.isin(shared, tested), len(self.results) - 1
        centred = np.kron(np.eye(n_later), (np.eye(len(shared)) - is_tested / len(tested))[is_tested])
        labels = tuple(np.array(changes.names)[np.tile(is_tested, n_later)].tolist())
        matrix = np.asarray(centred, dtype=np.float64)
        return wald_test(changes, LinearHypothesis(matrix, np.zeros(len(matrix)), labels)), without

    def tidy(self) -> pd.DataFrame:
        """Return one row per result and model with score, standard error and rank.

        Returns
        -------
        DataFrame
            Columns ``result term estimate std_error rank``.
        """
        tables = {"estimate": self.params, "std_error": self.bse, "rank": self.ranks}
        frame = pd.DataFrame({name: table.unstack() for name, table in tables.items()})
        # A result has no rank of a model of others.
        return frame[frame["rank"].notna()].rename_axis(["result", "term"]).reset_index()

    def reversals(self) -> pd.DataFrame:
        """Return pairs of models that two results order differently, with tests of both orders.

        Returns
        -------
        DataFrame
            A row per reversal, the strongest evidence first. ``model`` is above ``other`` in the result ``above_in`` by
            ``gap_above``, and below it in ``below_in`` by ``gap_below``. ``p_value``, the larger of the two one-sided
            p-values (intersection-union test), is of both orders; ``p_adjusted`` is adjusted for all differences of all
            results (step-down max-t), so that all reversals with ``p_adjusted <= 0.05`` can be claimed jointly.

        References
        ----------
        Berger (1982), Multiparameter hypothesis testing and acceptance sampling, Technometrics 24.
        """
        signs = {name: result.estimates.sign for name, result in zip(self.names, self.results, strict=True)}
        return self._reversals(self.models, signs)

    def _page(self, alpha: float | None, unit: str) -> tuple[str, list[Board], list[Summary]]:
        boards = []
        for name, result in zip(self.names, self.as_given or self.results, strict=True):
            shown = in_unit(result.estimates, result.simultaneous, unit)
            boards.append(make_board(*shown, name, alpha=alpha, beside_others=True))
        if self.as_given:
            boards = [replace(board, about=_ALL_PAIRS.format(name=board.name)) for board in boards]
        tables = [self._table(None, None)]
        if self.samples:
            with suppress(OptionError):
                level, changes = alpha_or_default(alpha, self.joint.alpha), self._changes()
                tables.append(self._changes_table(level, changes))
        return f"{', '.join(self.names)} side by side", boards, tables

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.names)}; {len(self.models)} models>"

    def _changes(self) -> Changes:
        estimates = [result.estimates for result in self.results]
        return changes_between(self.names, estimates, self.joint)

    @one_thread()
    def _place_changes(self, alpha: float | None) -> pd.DataFrame:
        """Return how ranks of the models that both results have differ from those in the first result."""
        level = alpha_or_default(alpha, self.results[0].estimates.alpha) / len(self.results)
        parts = [(result.estimates, result.simultaneous) for result in self.results]
        above = [separate(e.estimate, simultaneous, level, e.sign).above for e, simultaneous in parts]
        first, frames = self.results[0], []
        for name, result, later in zip(self.names[1:], self.results[1:], above[1:], strict=True):
            shared = [model for model in self.models if model in first.models and model in result.models]
            places = [[one.models.index(model) for model in shared] for one in (first, result)]
            scores = [one.estimates.merit[at] for one, at in zip((first, result), places, strict=True)]
            of_shared = [pairs[np.ix_(at, at)] for pairs, at in zip((above[0], later), places, strict=True)]
            frames.append(pd.DataFrame({"result": name, "model": shared, **rank_changes(scores, of_shared)}))
        return pd.concat(frames, ignore_index=True)

    def _news(self) -> tuple[dict[tuple[str, str], int], list[str], list[str]]:
        """Return changes of ranks by result and model, sentences on what is new, and notes for the end of the table."""
        alpha, further_notes = self.results[0].estimates.alpha, [self.samples]
        # A change of rank may be noise: only those that are shown to be none stand in the table.
        moved: dict[tuple[str, str], int] = {}
        news = phrases.arrival_sentences(self.names, [result.estimates for result in self.as_given or self.results])
        if all(result.estimates.has_intervals for result in self.results):
            moves = self._place_changes(None)
            moves = moves[(moves["rank_change_low"] > 0) | (moves["rank_change_high"] < 0)]
            places = zip(moves["result"], moves["model"], strict=True)
            moved = dict(zip(places, moves["rank_change"], strict=True))
            if self.samples or isinstance(self.joint_or_reason, str):
                news.insert(0, phrases.move_sentence(moves, self.names, 1 - alpha))
        if self.samples:
            changed, *further = self._change_notes()
            news.append(changed)
            further_notes += further
        for name, result in zip(self.names, self.results, strict=True):
            further_notes += phrases.few_votes_note(result.estimates, f" in {name!r}")
        return moved, news, further_notes

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        shown = choose_models(self.models, range(len(self.models)), models, top)
        moved, news, further_notes = self._news()
        all_models, ranks, columns, heads, header = self.models, self.ranks, [], [], []
        results = [result.estimates for result in self.results]
        for name, e in zip(self.names, results, strict=True):
            digits = decimals(e.std_errors, fewest=fewest_decimals(e.scale.natural))
            cells = dict(zip(e.models, score_texts(e.estimate, e.std_errors, digits), strict=True))
            columns.append([cells.get(model, "") for model in all_models])
            heads += [(name, 1), ("rank", 1)]
            # The places gained or lost stand in brackets.
            places = {
                model: f"{rank}" if (name, model) not in moved else f"{rank} ({moved[name, model]:+d})"
                for model, rank in zip(all_models, ranks[name], strict=True)
            } | dict.fromkeys(e.diagnostics.models_with_few_prompts, "-")
            columns.append([places[model] if model in cells else "" for model in all_models])
            d = e.description
            cov = f"cluster ({', '.join(d.clusters)})" if d.clusters else "robust"
            size = f"{d.n_contexts:,} prompts, {d.n_votes:,} {e.counts}s, {len(e.models)} models, {cov}"
            method = f"{phrases.functional_unit(e)}, {e.estimator}" + (f", {e.part}" if e.part else "")
            header.append((f"{name}:", method, "Data:", size))
        rows = tuple((all_models[place], *(column[place] for column in columns)) for place in shown.places)
        meaning = (
            "Each result has a column with the score and its standard error in brackets, and a column with the rank."
        )
        if any(result.diagnostics.models_with_few_prompts for result in results):
            meaning += ' "-": too few votes for a rank.'
        if moved:
            meaning += (
                f" A number in brackets beside a rank is the number of places gained (+) or lost (-) compared with "
                f"{self.names[0]!r}, among the models that both results have; changes that may be noise have none."
            )
        if len({phrases.functional_unit(result) for result in results}) > 1:
            meaning += " Scores of different functionals have different units: compare ranks, not scores."
        without_intervals = [
            f"{name!r} is an estimate without intervals, so that no test supports its order: {result.why_no_intervals}."
            for name, result in zip(self.names, results, strict=True)
            if not result.has_intervals
        ]
        joint = self.joint_or_reason
        reversals = joint if isinstance(joint, str) else self.reversals()
        reversed_pairs = phrases.reversal_note(self.names, results, reversals, results[0].alpha)
        notes = (" ".join(news), self.basis, meaning, *without_intervals, *further_notes, reversed_pairs)
        table = Summary("Results Side by Side", tuple(header), tuple(heads), rows, notes)
        return table.with_notes(shown.note("Ranks, changes of ranks and tests"))

    def _change_notes(self) -> list[str]:
        """Say which scores changed from the first result, or why there is no test of this."""
        try:
            changes = self._changes()
        except OptionError as error:
            return [f"There are no tests of changes of scores. {phrases.as_sentence(str(error))}"]
        try:
            test, without = self._test_unchanged(changes.joint)
            joint = f"Test that no score differs from {self.names[0]!r}{without}: {test.figures}, "
            joint += f"P {p_value_clause(float(test.pvalue))}."
        except HypothesisError as error:
            joint = f"There is no joint test of all changes: {error}."
        joined, alpha = f"{joint} {changes.level_note}".strip(), self.joint.alpha
        frame, level = changes.of_models(alpha, "max-t"), f"at a joint confidence level of {100 * (1 - alpha):g} %"
        significant = frame[frame["p_adjusted"] <= alpha].sort_values("p_adjusted", kind="stable")
        if not len(significant):
            return [f"The tests show no change of any single model's score {level}.", joined]
        fewest = fewest_decimals(self.results[0].estimates.scale.natural)
        digits = decimals(frame["std_error"].to_numpy(), fewest=fewest)
        rows = significant[["model", "result", "estimate"]].to_numpy(dtype=object)
        named = [f"{model} by {estimate:+.{digits}f} in {result}" for model, result, estimate in rows]
        of_all = f"{len(significant):,} of {phrases.counted(len(frame), 'change')} of scores"
        return [f"The tests show {of_all} {level}: {phrases.first_of(named, phrases.CHANGES_NAMED, ', ')}.", joined]

    def _changes_table(self, alpha: float, changes: Changes) -> Summary:
        """Return the table with the change of every model's score (rows) in every later result (columns)."""
        frame, reference, first = changes.of_models(alpha, "max-t"), self.names[0], self.results[0].estimates
        later = list(dict.fromkeys(frame["result"]))
        digits = decimals(frame["std_error"].to_numpy(), fewest=fewest_decimals(first.scale.natural))
        cells: dict[str, list[str]] = {}
        row: Any
        for row in frame.itertuples():
            change = f"{row.estimate:+.{digits}f}"
            ends = [f"{end:.{digits}f}" if np.isfinite(end) else "" for end in (row.conf_low, row.conf_high)]
            is_tested = row.std_error > 0
            texts = [change, " to ".join(ends), p_value_text(row.p_adjusted)] if is_tested else [change, "", "n/a"]
            cells.setdefault(row.model, []).extend(texts)
        rows = tuple((model, *texts) for model, texts in cells.items())
        heads = [(f"{name} minus {reference}", f"{100 * (1 - alpha):g} % interval", "adj. P") for name in later]
        note = (
            f"A change is the score in the later result minus the score in {reference!r}. Intervals hold for all "
            f"changes in the table at once, and p-values are adjusted for their number."
        )
        counts = f"{phrases.counted(len(rows), 'model')}, {phrases.counted(len(later), 'later result')}"
        header = (("Scores:", score_words(first), "Changes:", counts),)
        columns = tuple((head, 1) for of_result in heads for head in of_result)
        return Summary(f"Changes of Scores from {reference}", header, columns, rows, (note, changes.level_note))

    def _columns(self, columns: Sequence[pd.Series]) -> pd.DataFrame:
        return pd.DataFrame(dict(zip(self.names, columns, strict=True)), index=self.models)


def compare(*results: RankResults, independent: bool = False, **named: RankResults) -> Comparison:
    """Put results side by side: functionals, estimators, groups, months or data sets.

    Parameters
    ----------
    *results : RankResults
        Results that get automatic names from the properties in which they differ; with ``independent=True`` the names
        of the caller's variables. At least two results are needed, counting the named ones.
    independent : bool
        Whether the samples of all results are independent, such as the votes of two months on different prompts. By
        default the columns of ``context=`` decide: samples without a common prompt or cluster are independent. True is
        needed where there are no identifiers, as in stored results, and where equal identifiers stand for different
        prompts; clusters of equal names are the same clusters.
    **named : RankResults
        Results with names: ``dr.compare(human=res, judge=other)``.

    Returns
    -------
    Comparison
        Its tests name scores as in ``t_test("bt: gpt-4 - bt: claude-v1, borda: gpt-4 - borda: claude-v1")``;
        ``changes()`` and ``reversals()`` say what differs between the results.

    Raises
    ------
    OptionError
        If there are fewer than two results, or if ``independent`` is True for results of one data set.
    OptionTypeError
        If an argument is not a result.

    Notes
    -----
    With ``independent=True``, live results with other models, pairs or weights of pairs are computed again on the
    models and pairs that all of them compare, so that scores are the same quantity; the summary says so. Pairs have
    equal weights, or with ``edge_weights="counts"`` in all of them the harmonic means of their numbers of prompts.

    The block of a result in the joint covariance is the covariance that the result reports. The covariance between two
    results with n_1 and n_2 prompts is the sum of the products of their influence values over the prompts that both
    have, divided by n_1 n_2; products of sums by cluster where they have clusters. Prompts are the same where the
    columns of ``context=`` have the same value, also in different frames. Between independent samples the covariance is
    zero. Results whose prompts cannot be identified stand side by side without tests between them.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0)
    >>> comparison = dr.compare(res, res.update(functional="borda"))
    >>> comparison.names, comparison.params.shape
    (('bt', 'borda'), (8, 2))
    >>> round(float(comparison.cov_params().loc[("bt", "gpt-4"), ("bt", "gpt-4")] ** 0.5 / res.bse["gpt-4"]), 12)
    1.0
    """
    all_results = [*results, *named.values()]
    for result in all_results:
        if not isinstance(result, RankResults):
            may_be_names = isinstance(result, str | list | tuple)
            hint = "; to name the results, write compare(jan=a, feb=b)" if may_be_names else ""
            raise OptionTypeError(f"compare takes results of dml_rank, not a {type(result).__name__}{hint}")
    if len(all_results) < 2:
        raise OptionError(f"compare needs at least two results, and got {len(all_results)}")
    frame = inspect.currentframe()
    variables = dict(frame.f_back.f_locals) if independent and frame is not None and frame.f_back else {}
    own = [next((name for name, value in variables.items() if value is result), "") for result in results]
    if not all(own) or len({*own, *named}) < len(all_results):
        # Samples have the names of the caller's variables where these are different names.
        own = list(automatic_names([result.estimates for result in results], tuple(named)))
    names = (*own, *named)
    return named_results(names, all_results, independent=independent)


def named_results(names: Sequence[str], results: Sequence[RankResults], *, independent: bool = False) -> Comparison:
    """Compare results under names that need not be identifiers, such as names of files."""
    if len(names) != len(results) or len(set(names)) < len(names):
        raise OptionError(f"{len(results)} results need {len(results)} different names; got {listed(names)}")
    check_flag("independent", independent)
    for result in results:
        _NEEDS.check("compare", result)
    models = [result.models for result in results]
    # The fit has warned of names that look the same within one result.
    alike = [group for group in similar_names(chain(*models)) if not any(set(group) <= set(own) for own in models)]
    if alike:
        named = "; ".join(" and ".join(map(repr, group)) for group in alike[:_MOST_NAMED])
        warn(
            f"names of {phrases.counted(len(alike), 'model')} in these results differ only by letter case, blanks or "
            f"Unicode form, and count as new and gone: {named}{'; ...' if len(alike) > _MOST_NAMED else ''}. Give each "
            f"model one name before the fits",
        )
    again, basis = on_common_pairs(names, results) if independent else (results, "")
    joint = joint_results(names, again, independent)
    return Comparison(tuple(names), tuple(again), *joint, basis, () if again is results else tuple(results))


def on_common_pairs(names: Sequence[str], results: Sequence[RankResults]) -> tuple[Sequence[RankResults], str]:
    """Return results whose scores are the same quantity: on the models and pairs that all compare, equally weighted.

    Results that are comparable, or that cannot be made so, are returned as they are. The sentence says what was done,
    or why nothing could be done.
    """
    estimates = [result.estimates for result in results]
    are_comparable = all(not why_not_comparable(estimates[0], other) for other in estimates[1:])
    are_fits = all(r.steps is not None and r.estimates.estimated_by.has_first_stages for r in results)
    if are_comparable or not are_fits or any(e.part or not e.scale.natural for e in estimates):
        return results, ""
    models = [name for name in estimates[0].models if all(name in e.models for e in estimates)]
    places = [[e.models.index(name) for name in models] for e in estimates]
    edges = np.logical_and.reduce(
        [e.graph.edges[np.ix_(chosen, chosen)] for e, chosen in zip(estimates, places, strict=True)]
    )
    if len(models) < 2 or not edges.any():
        return results, "No pair of models is compared in all results, so that scores are not computed on common pairs."
    # Models that the common pairs do not connect with the others have no score that is comparable.
    chosen = Graph(edges).components()[0]
    apart = [name for place, name in enumerate(models) if place not in chosen]
    models, edges = [models[place] for place in chosen], edges[np.ix_(chosen, chosen)]
    read = dict.fromkeys(name for e in estimates for name in (*models, *e.models, *e.diagnostics.models_dropped))
    graph = pd.DataFrame(False, index=list(read), columns=list(read))
    graph.loc[models, models] = edges
    edge_weights: str | pd.DataFrame = "equal"
    if all(e.description.edge_weights == "counts" for e in estimates):
        edge_weights = graph.astype(float)
        edge_weights.loc[models, models] = np.where(edges, _harmonic_counts(results, models), 0.0)
    with collected_warnings():
        again = [result.update(graph=graph, component="largest", edge_weights=edge_weights) for result in results]
    if any(why_not_comparable(again[0].estimates, other.estimates) for other in again[1:]):
        return results, ""
    left_out = []
    for name, e, result in zip(names, estimates, again, strict=True):
        votes, n_votes = result.estimates.votes, e.description.n_votes
        if votes is not None and e.votes is not None and (n_lost := n_votes - votes.n_used):
            counts = VoteCounts(votes.used, e.votes.total[[e.models.index(model) for model in result.models]])
            named = losses_clause(counts, result.models)
            left_out.append(
                f"{n_lost:,} of {n_votes:,} votes of {name} ({phrases.percentage(n_lost / n_votes)}){named}"
            )
    lost, harmonic = "; ".join(left_out), "the harmonic means of their numbers of prompts as weights"
    without = f"There is no score of {listed(apart, _MOST_NAMED)}, which these pairs do not connect with the others. "
    return again, (
        f"Scores of all results are computed on the {int(edges.sum()) // 2:,} pairs of {len(models)} models that "
        f"{phrases.enumerated(names)} all compare; these pairs have "
        f"{'equal weights' if isinstance(edge_weights, str) else harmonic}. "
        f"{without if apart else ''}{f'This leaves out {lost}.' if lost else ''}".strip()
    )


def _harmonic_counts(results: Sequence[RankResults], models: Sequence[str]) -> FloatArray:
    """Return the harmonic mean over results of the number of labelled prompts of each pair, (K, K)."""
    counts = []
    for data in (result.steps.data for result in results if result.steps is not None):
        both, places = data.pair_counts() + data.pair_counts().T, [data.items.index(name) for name in models]
        counts.append(np.maximum(both[np.ix_(places, places)], 1))
    return np.asarray(scipy.stats.hmean(counts))


def automatic_names(estimates: Sequence[Estimates], used_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return short names from the properties in which results differ, with numbers where they differ in none."""
    names = [_TRAITS[0](e) for e in estimates]
    for trait in _TRAITS[1:]:
        if len({*names, *used_names}) == len(names) + len(used_names):
            break
        words = [trait(e) for e in estimates]
        if len(set(words)) > 1:
            ambiguous = {name for name in names if names.count(name) > 1 or name in used_names}
            names = [
                f"{name}, {word}" if name in ambiguous and word and word not in name else name
                for name, word in zip(names, words, strict=True)
            ]
    counts: dict[str, int] = dict.fromkeys(used_names, 1)
    unique = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(unique)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Criteria(Comparison):
    """Scores of K models on M criteria with one covariance: a fit of ``"accuracy + style ~ 1 | model"``.

    ``results`` are the leaderboards of the criteria, and tests name scores as ``"style: gpt-4"``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dmlrank as dr
    >>> task, model = (index.ravel() for index in np.indices((200, 3)))
    >>> noise = np.random.default_rng(0).normal(size=(2, 600))
    >>> table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model]})
    >>> table = table.assign(right=model + noise[0], style=-2 * model + noise[1])
    >>> res = dr.dml_rank("right + style ~ 1 | model", table, context="task", rng=0)
    >>> res.weighted({"right": 0.9, "style": 0.1}).params.idxmax(), res.weighted({"style": 1}).params.idxmax()
    ('c', 'a')
    """

    def weighted(self, weights: Mapping[str, float]) -> RankResults:
        """Return the leaderboard of one weighting that was chosen before the data were seen.

        Parameters
        ----------
        weights : mapping
            A number of at least zero by criterion; criteria that are not named have none. Weights are divided by their
            sum.

        Returns
        -------
        RankResults
            Its intervals, tests and rank sets are those of the weighted scores. They do not hold for weightings that
            are tried out.
        """
        w, first = self._weights(weights), self.results[0].estimates
        n_models = len(first.models)
        matrix: FloatArray = np.asarray(np.kron(w, np.eye(n_models)), dtype=np.float64)
        by_criterion = np.stack([result.estimates.plugin for result in self.results])
        label = " + ".join(f"{share:.3g} {name}" for name, share in zip(self.names, w, strict=True) if share)
        estimates = replace(
            first,
            functional_label="weighted mean",
            description=replace(first.description, outcome=label),
            estimate=matrix @ self.joint.estimate,
            plugin=w @ by_criterion,
            covariance=mapped_covariance(self.joint.covariance, matrix),
            fixed=np.zeros(n_models, dtype=bool),
        )
        return result_of(estimates)

    def _weights(self, weights: Mapping[str, float]) -> FloatArray:
        """Return the weights of all criteria, (M,), which sum to one."""
        check_type("weights", weights, Mapping, "a dictionary with a number for each criterion")
        for name, weight in weights.items():
            if name not in self.names:
                close = nearest(str(name), self.names)
                raise OptionError(f"there is no criterion {shown(name)}{close} (criteria: {listed(self.names)})")
            number = real_number(weight)
            if number is None or not 0 <= number < np.inf:
                raise OptionError(f"the weight of {name!r} is {shown(weight)}; a weight is a number of at least zero")
        values = np.array([float(weights.get(name, 0.0)) for name in self.names])
        if not values.sum() > 0:
            raise OptionError("all weights are zero; give at least one criterion a positive weight")
        return np.asarray(values / values.sum())


def criteria_of_results(results: Mapping[str, RankResults]) -> Criteria:
    """Return the fits of several criteria with one covariance."""
    comparison = named_results(list(results), list(results.values()))
    models = {tuple(result.models) for result in results.values()}
    if len(models) > 1:
        raise OptionError(
            f"the criteria {listed(list(results))} have different models; every model needs scores on every criterion"
        )
    return Criteria(comparison.names, comparison.results, comparison.joint, comparison.samples)

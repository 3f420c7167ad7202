"""Tables of several estimates: groups, projections, results side by side, changes, and scores at equal style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, p_value_clause, p_value_text, score_text
from ..data.graph import VoteCounts
from ..data.preferences import FloatArray
from ..fit.adjusted_for_style import StyleEstimates
from ..fit.estimates import Estimates
from ..inference.wald import WaldTestResults
from ..tables.summary_table import Summary
from .explanations import ASSOCIATION, balanced_sentences, slope_sentences
from .fit_summary import ShownModels, choose_models, covariance_words
from .statements import SummaryLevel, as_sentence, counted, doubt_note, functional_unit, score_words, some_of

# Labelled prompts or clusters that a group needs for each free score before the law of the test of equality holds: with
# 25, a 5 % test by chi-squared rejects true hypotheses in up to 8 % of simulations (docs/groups.md), with 3 the test of
# independent groups by F.
_PER_SCORE, _PER_SCORE_OF_F = 25, 3


@dataclass(frozen=True, slots=True, eq=False)
class GroupFacts:
    """Size and composition of a group.

    values: The group's value of every grouping column.
    share: p_g, the group's (weighted) share of the contexts.
    n_contexts, n_unlabelled, n_comparisons, n_votes, smallest_pair: As in
        :class:`dmlrank.fit.estimates.FitDescription`, within the group; ``smallest_pair`` may be zero.
    n_clusters: Clusters with contexts or votes in the group, for every column of clusters.
    n_units: Clusters, or contexts, on whose number t quantiles rest; effective ones where scores are missing.
    unseen: Models without a vote in the group.
    plugin, shares (K,): Plug-in scores and shares of comparisons won.
    effective_contexts: Equivalent number of contexts on which a standard error rests; the smallest over models.
    """

    name: str
    values: tuple[str, ...]
    share: float
    n_contexts: int
    n_unlabelled: int
    n_comparisons: int
    n_votes: int
    smallest_pair: int
    n_clusters: tuple[int, ...]
    n_units: float
    unseen: tuple[str, ...]
    plugin: FloatArray
    shares: FloatArray
    effective_contexts: float
    votes: VoteCounts

    @property
    def n_independent(self) -> int:
        """Number of labelled contexts, or of clusters where these are fewer."""
        return min(self.n_contexts - self.n_unlabelled, *(self.n_clusters or (self.n_contexts,)))


def group_summary(
    fit: Estimates,
    groups: Sequence[GroupFacts],
    scores: FloatArray,
    *,
    std_errors: FloatArray,
    variable: str,
    equality: WaldTestResults | str,
    p_equal: Sequence[float] | None,
    note: str,
    shown: ShownModels,
    is_partition: bool = True,
    left_out: Sequence[tuple[str, str]] = (),
) -> Summary:
    """Build a table with score and standard error of every model (rows) in every group (columns)."""
    digits = decimals(std_errors[np.isfinite(std_errors)], fewest=fewest_decimals(fit.scale.natural))
    pairs = [(fit.estimate, fit.covariance.std_errors), *zip(scores.T, std_errors.T, strict=True)]
    columns = [
        ["-" if np.isnan(value) else score_text(value, error, digits) for value, error in zip(*of, strict=True)]
        for of in pairs
    ]
    heads = ["all", *(group.name for group in groups)]
    if p_equal is not None:
        unseen_models = {name for group in groups for name in group.unseen}
        columns.append(
            ["-" if m in unseen_models else p_value_text(p) for m, p in zip(fit.models, p_equal, strict=True)]
        )
        heads.append("P equal")
    rows = tuple((fit.models[j], *(column[j] for column in columns)) for j in shown.places)
    smallest = min(groups, key=lambda group: group.n_contexts)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Groups:", f"{len(groups)} of {variable}", "No. Prompts:", f"{fit.description.n_contexts:,}"),
        ("Estimator:", fit.estimator, "Smallest group:", f"{smallest.name}, {smallest.n_contexts:,} prompts"),
    )
    relation = "The mean of the groups' scores, weighted by their shares of the prompts, is the score over all prompts."
    if not is_partition:
        relation = "Groups may overlap: a prompt counts in each of its groups, and tests between groups take account "
        relation += "of prompts that groups share."
    elif fit.averages_preferences:
        relation = "Scores in a group are computed from the mean preferences of the group, so that their mean over "
        relation += "groups is not the score over all prompts."
    notes = [
        "Each column has score and (standard error) in a group. The scores of all groups come from one fit. "
        f"{relation} {as_sentence(f'in every group, {fit.reason}') if fit.reason else ''}".strip(),
        _equality_note(fit, groups, equality, is_partition),
    ]
    if unseen := "; ".join(f"{group.name} ({', '.join(group.unseen)})" for group in groups if group.unseen):
        notes.append(
            f"Some models have no vote in a group and no score there (-): {unseen}. A score would be a prediction of "
            f"the outcome model that no vote corrects, with too short an interval. The test of all scores uses these "
            f"predictions; the other models' p-values are adjusted for all models."
        )
    if without_pair := ", ".join(group.name for group in groups if group.smallest_pair == 0):
        notes.append(
            f"In some groups a compared pair has no vote: {without_pair}. The part of the scores that comes from such "
            f"a pair is predicted by the outcome model."
        )
    sizes = (f"{group.name} {group.n_contexts:,} prompts ({group.n_votes:,} {fit.counts}s)" for group in groups)
    notes.append(f"Groups: {', '.join(sizes)}.")
    if reasons := "; ".join(f"{name} ({reason})" for name, reason in left_out):
        notes.append(f"These groups have no scores: {reasons}.")
    notes += [*filter(None, [as_sentence(note)]), *doubt_note(fit)]
    table = Summary(f"Scores by {variable}", header, tuple((head, 1) for head in heads), rows, tuple(notes))
    return table.with_notes(shown.note("Tests and adjusted p-values"))


def _equality_note(
    fit: Estimates, groups: Sequence[GroupFacts], equality: WaldTestResults | str, is_partition: bool
) -> str:
    """Return the test that all models have the same scores in every group, with a caution where groups are small."""
    if isinstance(equality, str):
        return f"There is no test of equal scores in all groups: {equality}."
    what = "every model has the same score in all groups"
    hardness = ""
    if fit.are_means:
        what = "differences between models are the same in all groups (each model's score less the mean score of all "
        what += "models)"
        hardness = " Whether the prompts of some groups are harder for all models is another question, and not tested."
    note = (
        f'Test that {what}: {equality.figures}, P {p_value_clause(float(equality.pvalue))}. "P equal" tests one model '
        f"at a time, adjusted for all models by Holm's method.{hardness}"
    )
    smallest = min(groups, key=lambda group: group.n_independent)
    has_own_law = equality.law == "F" and is_partition and not fit.covariance.n_clusters
    n_required = (_PER_SCORE_OF_F if has_own_law else _PER_SCORE) * equality.rank // (len(groups) - 1)
    if smallest.n_independent < n_required:
        note += (
            f" The joint test rejects too often for these data: it needs {n_required} labelled prompts or clusters in "
            f"every group, and {smallest.name} has {smallest.n_independent}."
        )
    return note


def projection_summary(
    fit: Estimates,
    coefficients: pd.DataFrame,
    std_errors: pd.DataFrame,
    *,
    formula: str,
    terms: pd.DataFrame,
    note: str,
    shown: ShownModels,
) -> Summary:
    """Build a table of coefficients with standard errors: a row per model, a column per coefficient."""
    cells = []
    for values, errors in zip(coefficients.to_numpy(), std_errors.to_numpy(), strict=True):
        digits = decimals(errors, fewest=fewest_decimals(fit.scale.natural))
        cells.append([score_text(number, std_error, digits) for number, std_error in zip(values, errors, strict=True)])
    rows = tuple((fit.models[j], *(column[j] for column in cells)) for j in shown.places)
    header = (
        ("Functional:", functional_unit(fit), "Cov. Type:", covariance_words(fit)),
        ("Projected on:", formula, "No. Prompts:", f"{fit.description.n_contexts:,}"),
    )
    heads = tuple((str(name), 1) for name in coefficients.index)
    meaning = (
        "Each cell has a coefficient and its (standard error). The coefficients are the best linear approximation of "
        f"how a model's score varies over prompts, whether or not the relation is linear. {as_sentence(fit.reason)}"
    )
    basis = fit.covariance.basis
    if basis.shape[1] < len(fit.models) and np.allclose(basis.sum(axis=0), 0.0):
        meaning += " The models' coefficients on every term except the constant therefore sum to 0."
    numbers = zip(terms.index, terms["statistic"], terms["df"], terms["p_value"], strict=True)
    tests = "; ".join(
        f"{name}: chi2({df:g}) = {statistic:.1f}, P {p_value_clause(p)}"
        if np.isfinite(statistic)
        else f"{name}: cannot be tested ({df:g} restrictions)"
        for name, statistic, df, p in numbers
    )
    tested = f"Tests of the terms (hypothesis: no model's score varies with the term): {tests}." if tests else ""
    notes = (meaning, *filter(None, [tested, as_sentence(note)]), *doubt_note(fit))
    return Summary("Scores Projected on Functions of the Prompt", header, heads, rows, notes).with_notes(
        shown.note("Sums of coefficients and tests of terms")
    )


# Numbers of reversals, and of changes of ranks or scores, that a sentence names.
_REVERSALS_NAMED, _CHANGES_NAMED = 3, 5


def _first_of(texts: Sequence[str], n_named: int, separator: str = "; ") -> str:
    """Return the first of several texts as one, which says how many others there are."""
    n_others = len(texts) - n_named
    return separator.join([*texts[:n_named], *[f"and {n_others:,} more"] * (n_others > 0)])


@dataclass(frozen=True, slots=True, eq=False)
class ScoreIntervals:
    """Intervals of the scores of all results: a frame with ``lower`` and ``upper`` for each; empty for no intervals.

    head: Head of the columns.
    note: What the intervals hold for, in a sentence.
    """

    of_result: Mapping[str, pd.DataFrame]
    head: str
    note: str


def comparison_summary(
    names: Sequence[str],
    results: Sequence[Estimates],
    ranks: pd.DataFrame,
    *,
    rank_changes: pd.DataFrame,
    reversals: pd.DataFrame | str,
    alpha: float,
    first_notes: Sequence[str] = (),
    further_notes: Sequence[str] = (),
    intervals: ScoreIntervals | None = None,
    shown: ShownModels | None = None,
) -> Summary:
    """Build a table with score, standard error and rank of every model (rows) in every result (columns)."""
    models, columns, heads, header = list(ranks.index), [], [], []
    for name, e in zip(names, results, strict=True):
        std_errors = e.std_errors
        digits = decimals(std_errors, fewest=fewest_decimals(e.scale.natural))
        cells = {
            model: score_text(score, error if intervals is None else np.nan, digits)
            for model, score, error in zip(e.models, e.estimate, std_errors, strict=True)
        }
        columns.append([cells.get(model, "") for model in models])
        heads.append((name, 1))
        if intervals is not None:
            limits = intervals.of_result[name]
            ends = limits[["lower", "upper"]].itertuples() if len(limits) else ()
            texts = {model: f"{low:.{digits}f} to {high:.{digits}f}" for model, low, high in ends}
            columns.append([texts.get(model, "") for model in models])
            heads.append((intervals.head, 1))
        # The places gained or lost stand in brackets.
        columns.append(
            [
                "" if pd.isna(rank) else f"{rank}" if pd.isna(change) or change == 0 else f"{rank} ({change:+d})"
                for rank, change in zip(ranks[name], rank_changes[name], strict=True)
            ]
        )
        heads.append(("rank", 1))
        d = e.description
        cov = f"cluster ({', '.join(d.clusters)})" if d.clusters else "robust"
        size = f"{d.n_contexts:,} prompts, {d.n_votes:,} {e.counts}s, {len(e.models)} models, {cov}"
        what = functional_unit(e) if intervals is None else score_words(e, on_page=True).partition(";")[0]
        method = f"{what}, {e.estimator}" + (f", {e.part}" if e.part else "")
        header.append((f"{name}:", method, "Data:", size))
    shown = choose_models(models, range(len(models))) if shown is None else shown
    rows = tuple((models[place], *(column[place] for column in columns)) for place in shown.places)
    shows = "a column with the score and its standard error in brackets, and a column with the rank."
    if intervals is not None:
        shows = f"columns with the score, its interval and its rank. {intervals.note}"
    meaning = f"Each result has {shows}"
    if rank_changes.fillna(0).any(axis=None):
        meaning += (
            f" A number in brackets beside a rank is the number of places gained (+) or lost (-) compared with "
            f"{names[0]!r}, among the models that both results have; changes that may be noise have none."
        )
    if len({functional_unit(result) for result in results}) > 1:
        meaning += " Scores of different functionals have different units: compare ranks, not scores."
    without_intervals = [
        f"{name!r} is an estimate without intervals, so that no test supports its order: {result.why_no_intervals}."
        for name, result in zip(names, results, strict=True)
        if not result.has_intervals
    ]
    reversed_pairs = _reversal_note(names, results, reversals, alpha)
    notes = (*first_notes, meaning, *without_intervals, *further_notes, reversed_pairs)
    together = 2 if intervals is None else 3
    table = Summary("Results Side by Side", tuple(header), tuple(heads), rows, notes, heads_together=together)
    return table.with_notes(shown.note("Ranks, changes of ranks and tests"))


# The words with which the news of a comparison begins, which pages show above its table.
MOVED, _NEW, _GONE, _ONLY, OVERALL = NEWS = ("What moved", "New in", "Gone in", "Ranked only in", "All prompts:")


def first_places(
    variable: str,
    overall: str,
    groups: Sequence[tuple[str, Estimates, SummaryLevel]],
    p_equal: float | None,
    differing: Sequence[str],
) -> str:
    """Say who leads in all prompts and in the groups, where this is decided, and whether groups differ.

    ``differing`` are the models whose own tests show that they differ between groups.
    """
    leaders: dict[str, list[str]] = {}
    decided = []
    for name, results, level in groups:
        if level.first is not None:
            leaders.setdefault(results.models[level.first.leader], []).append(name)
            decided += [name] * level.first.decided
    if not leaders or not overall:
        return ""
    by_size = sorted(leaders.items(), key=lambda leads: -len(leads[1]))
    places = "; ".join(f"{model} has the highest score in {some_of(names)}" for model, names in by_size)
    where = f"in {some_of(decided)}, each group tested by itself" if decided else "in none of them"
    differ = ""
    if p_equal is not None:
        shown = "depend" if p_equal <= 0.05 else "are not shown to depend"
        # Leaders may be others than the models whose scores differ.
        of_whom = (
            f"single models, this is shown for {some_of(differing)}" if differing else "no single model this is shown"
        )
        of_whom = f"; of {of_whom}" if p_equal <= 0.05 else ""
        differ = f" The differences between models {shown} on {variable} (P {p_value_clause(p_equal)}){of_whom}."
    return f"{OVERALL} {overall} By {variable}: {places}; who is first is decided {where}.{differ}"


def arrival_sentences(
    names: Sequence[str], of_results: Sequence[Mapping[str, str]], unranked: Sequence[Mapping[str, str]]
) -> list[str]:
    """Say which models are new in a result, which are gone, and which have votes in both results and one rank.

    ``of_results`` has what is said of each result's models, and ``unranked`` why others have no score there.
    """
    sentences = []
    for after in range(1, len(names)):
        for word, ranked, other in ((_NEW, after, after - 1), (_GONE, after - 1, after)):
            alone = {model: said for model, said in of_results[ranked].items() if model not in of_results[other]}
            reasons = unranked[other]
            absent = [f"{model} ({said})" for model, said in alone.items() if model not in reasons]
            if absent:
                sentences.append(f"{word} {names[after]!r}: {_first_of(absent, _CHANGES_NAMED)}.")
            present = [
                f"{model} ({said}; {names[other]}: {reasons[model]})"
                for model, said in alone.items()
                if model in reasons
            ]
            if present:
                sentences.append(f"{_ONLY} {names[ranked]!r}: {_first_of(present, _CHANGES_NAMED)}.")
    return sentences


def move_sentence(moves: pd.DataFrame, names: Sequence[str], level: float) -> str:
    """Say which models' ranks are shown to have changed; ``moves`` has these rows only."""
    confidence = f"({100 * level:g} % joint confidence)"
    if not len(moves):
        later = repr(names[1]) if len(names) == 2 else "any later result"
        return f"{MOVED}: no model's rank is shown to differ between {names[0]!r} and {later} {confidence}."
    texts = []
    row: Any
    for row in moves.itertuples():
        low, high = sorted((abs(row.conf_low), abs(row.conf_high)))
        places = f"{low}" if low == high else f"{low} to {high}"
        verb = "rose" if row.conf_low > 0 else "fell"
        texts.append(f"{row.model} {verb} by {places} place{'s' * (high > 1)} in {row.result!r}")
    return f"{MOVED} from {names[0]!r}: {_first_of(texts, _CHANGES_NAMED)} {confidence}."


def _reversal_note(
    names: Sequence[str], results: Sequence[Estimates], reversals: pd.DataFrame | str, alpha: float
) -> str:
    """Say which pairs of models two results order differently, and for which of them a test shows it."""
    without_intervals = [name for name, result in zip(names, results, strict=True) if not result.has_intervals]
    if without_intervals:
        # The note before this one says why there are no intervals.
        return f"There are no tests between the results, because {without_intervals[0]!r} has no intervals."
    if isinstance(reversals, str):
        return f"There are no tests between the results. {as_sentence(reversals)}"
    if not len(reversals):
        return "All results have the models that they share in the same order."
    statement = (
        f"{counted(len(reversals), 'pair')} of models {'is' if len(reversals) == 1 else 'are'} in opposite orders"
    )
    confidence = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    significant = reversals[reversals["p_adjusted"] <= alpha]
    if not len(significant):
        return (
            f"{statement} in two of the results. The tests do not show for any of them {confidence} that both orders "
            f"are real."
        )
    columns = ["model", "other", "above_in", "below_in", "p_adjusted"]
    named = [
        f"{model} is above {other} in {above_in} and below in {below_in} (adjusted p {p_value_clause(p)})"
        for model, other, above_in, below_in, p in significant[columns].to_numpy(dtype=object)
    ]
    return (
        f"{statement} in two of the results. For {len(significant):,} of them the tests show {confidence} that both "
        f"orders are real: {_first_of(named, _REVERSALS_NAMED)}."
    )


def changes_summary(
    changes: pd.DataFrame, reference: str, *, alpha: float, unit: str, is_natural: bool, level_note: str
) -> Summary:
    """Build a table with the change of every model's score (rows) in every later result (columns)."""
    results = list(dict.fromkeys(changes["result"]))
    digits = decimals(changes["std_error"].to_numpy(), fewest=fewest_decimals(is_natural))
    level = f"{100 * (1 - alpha):g} %"
    cells: dict[str, list[str]] = {}
    row: Any
    for row in changes.itertuples():
        change = f"{row.estimate:+.{digits}f}"
        ends = [f"{end:.{digits}f}" if np.isfinite(end) else "" for end in (row.conf_low, row.conf_high)]
        is_tested = row.std_error > 0
        texts = [change, " to ".join(ends), p_value_text(row.p_adjusted)] if is_tested else [change, "", "n/a"]
        cells.setdefault(row.model, []).extend(texts)
    rows = tuple((model, *texts) for model, texts in cells.items())
    columns = tuple(
        head for name in results for head in ((f"{name} minus {reference}", 1), (f"{level} interval", 1), ("adj. P", 1))
    )
    note = (
        f"A change is the score in the later result minus the score in {reference!r}. Intervals hold for all changes "
        f"in the table at once, and p-values are adjusted for their number."
    )
    header = (("Scores:", unit, "Changes:", f"{counted(len(rows), 'model')}, {counted(len(results), 'later result')}"),)
    notes = (note, level_note) if level_note else (note,)
    return Summary(f"Changes of Scores from {reference}", header, columns, rows, notes)


def change_notes(
    changes: pd.DataFrame | str,
    unchanged: WaldTestResults | str,
    reference: str,
    *,
    alpha: float,
    is_natural: bool,
    level_note: str,
) -> list[str]:
    """Say which scores changed from the first result, or why there is no test of this."""
    if isinstance(changes, str):
        return [f"There are no tests of changes of scores. {as_sentence(changes)}"]
    joint = (
        f"There is no joint test of all changes: {unchanged}."
        if isinstance(unchanged, str)
        else f"Test that no score differs from {reference!r}: {unchanged.figures}, "
        f"P {p_value_clause(float(unchanged.pvalue))}."
    )
    joined = f"{joint} {level_note}".strip()
    significant = changes[changes["p_adjusted"] <= alpha].sort_values("p_adjusted", kind="stable")
    level = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    if not len(significant):
        return [f"The tests show no change of any single model's score {level}.", joined]
    digits = decimals(changes["std_error"].to_numpy(), fewest=fewest_decimals(is_natural))
    rows = significant[["model", "result", "estimate"]].to_numpy(dtype=object)
    named = [f"{model} by {estimate:+.{digits}f} in {result}" for model, result, estimate in rows]
    of_all = f"{len(significant):,} of {counted(len(changes), 'change')} of scores"
    changed = f"The tests show {of_all} {level}: {_first_of(named, _CHANGES_NAMED, ', ')}."
    return [changed, joined]


# One head for every column of the table of the three leaderboards, where no head stands over two columns.
_COLUMN_HEADS = (
    *(f"{board}{number}" for board in ("raw", "averaged", "equal") for number in ("", " std err")),
    *("rank raw", "rank equal", "change", "change CI", "shift P"),
)


def build_style_summary(
    results: Estimates, table: pd.DataFrame | None, changes: pd.DataFrame | None, alpha: float
) -> Summary:
    """Build the table of scores before and after the adjustment, with rank changes."""
    style = results.style
    assert style is not None
    functional = results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")
    header = (("Functional:", functional, "No. Votes:", f"{style.n_votes_left:,} of {style.n_votes:,}"),)
    title = "Scores Adjusted for Style" + (f": {results.part}" if results.part else "")
    if table is None or changes is None:
        digits, errors = decimals(results.std_errors, fewest=2), results.std_errors
        balanced = tuple(
            (results.names[j], f"{results.estimate[j]:.{digits}f}", f"({errors[j]:.{digits}f})")
            for j in np.argsort(-results.estimate, kind="stable")
        )
        names = ("balanced", "balanced std err")
        return Summary(title, header, (("balanced", 2),), balanced, (balanced_sentences(style),), column_heads=names)
    digits = decimals(table["equal_se"].to_numpy(), fewest=2)
    heads = (("raw", 2), ("averaged", 2), ("equal", 2), ("rank", 2), ("change", 2), ("shift P", 1))
    moved = changes.loc[table.index]
    columns: list[list[str]] = []
    for board in ("raw", "averaged", "equal"):
        columns.append([f"{score:.{digits}f}" for score in table[board]])
        columns.append([f"({error:.{digits}f})" for error in table[f"{board}_se"]])
    columns += [[f"{rank:.0f}" for rank in table[name]] for name in ("rank_raw", "rank_equal")]
    ends = zip(moved["change_low"], moved["change_high"], strict=True)
    columns += [
        [f"{change:+.0f}" for change in moved["change"]],
        [f"[{low:+.0f}, {high:+.0f}]" for low, high in ends],
        [p_value_text(p) for p in moved["p_adjusted"]],
    ]
    rows = tuple((str(name), *cells) for name, *cells in zip(table.index, *columns, strict=True))
    return Summary(title, header, heads, rows, _style_notes(results, style, alpha), column_heads=_COLUMN_HEADS)


def side_by_side_on_page(summary: Summary) -> Summary:
    """Return the table of the three leaderboards for a page: a score and its standard error share a cell."""
    rows = tuple(
        (name, *(f"{cells[place]} {cells[place + 1]}" for place in (0, 2, 4)), *cells[6:])
        for name, *cells in summary.rows
    )
    heads = ("raw", "averaged", "equal", *_COLUMN_HEADS[6:])
    return replace(summary, columns=tuple((head, 1) for head in heads), rows=rows, column_heads=())


def _style_notes(results: Estimates, style: StyleEstimates, alpha: float) -> tuple[str, ...]:
    """Return the notes of a summary of scores before and after the adjustment."""
    link = "log-odds" if results.kind.link == "logit" else "preferences"
    boards = (
        f"raw: scores without adjustment. averaged: {link} given prompt and style, averaged over the style of the "
        f"answers that were shown. equal: the same with the slopes on style removed. Standard errors are in brackets."
    )
    if results.kind.link == "logit":
        boards += " Raw and averaged scores differ because the mean of log-odds is not the log-odds of the mean."
    changes = (
        "rank: ranks by raw scores and by scores at equal style. change: rise in ranks, with intervals that hold for "
        f"all models at the same time with {100 * (1 - alpha):g} % confidence. shift P: adjusted p-value of the test "
        "that the scores at equal style and the raw scores are equal (max-t)."
    )
    loss = (
        f"The out-of-fold log-loss of the preference is {style.log_loss:.4f} with style and "
        f"{style.log_loss_without:.4f} without."
    )
    return (slope_sentences(results, style), ASSOCIATION, boards, changes, loss)

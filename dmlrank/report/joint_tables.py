"""What tables of several estimates say: of groups, of results side by side; and the table of scores at equal style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ..fit.estimates import Estimates
from ..fit.state import StyleEstimates
from ..inference.wald import WaldTestResults
from ..tables.display_text import decimals, p_value_clause, p_value_text
from ..tables.summary_table import Summary
from .fact_words import slope_sentences
from .phrases import as_sentence, counted, first_of, some_of

# Labelled prompts or clusters that a group needs for each free score before the law of the test of equality holds: with
# 25, a 5 % test by chi-squared rejects true hypotheses in up to 8 % of simulations (docs/groups.md), with 3 the test of
# independent groups by F.
_PER_SCORE, _PER_SCORE_OF_F = 25, 3


def independent_prompts(e: Estimates) -> int:
    """Return the number of labelled prompts of a group, or of clusters where these are fewer."""
    return min(
        e.description.n_contexts - e.description.n_unlabelled, *(e.covariance.n_clusters or [e.description.n_contexts])
    )


def unseen_models(e: Estimates) -> list[str]:
    """Return the models without a vote in a group."""
    return [name for name, is_unseen in zip(e.models, e.is_unseen, strict=True) if is_unseen]


def in_joint_tests(names: Sequence[str], estimates: Iterable[Estimates]) -> tuple[list[str], str]:
    """Return the models of joint tests, all where fewer than two would be left, and say in brackets which are not.

    A covariance says too little of models with few votes: those that are apart, whose intervals are in doubt, or that
    have no vote in a group.
    """
    few = set[str]()
    for e in estimates:
        few |= {*e.description.models_apart, *e.diagnostics.doubtful_models, *unseen_models(e)}
    left_out = [name for name in names if name in few]
    if not 0 < len(left_out) < len(names) - 1:
        return [*names], ""
    return [name for name in names if name not in few], f" (without {some_of(left_out)}: too few votes)"


def equality_note(fit: Estimates, groups: Mapping[str, Estimates], equality: WaldTestResults | str) -> str:
    """Return the test that all models have the same scores in every group, with a caution where groups are small."""
    if isinstance(equality, str):
        return f"There is no test of equal scores in all groups: {equality}."
    what = "every model has the same score in all groups"
    hardness, without = "", in_joint_tests(fit.models, groups.values())[1]
    if fit.are_means:
        what = "differences between models are the same in all groups (each model's score less the mean score of all "
        what += "models)"
        hardness = " Whether the prompts of some groups are harder for all models is another question, and not tested."
    note = (
        f"Test that {what}{without}: {equality.figures}, P {p_value_clause(float(equality.pvalue))}. "
        f'"P equal" tests one model at a time, '
        f"adjusted for all models by Holm's method.{hardness}"
    )
    sizes = {name: independent_prompts(e) for name, e in groups.items()}
    smallest = min(sizes, key=sizes.__getitem__)
    n_required = (_PER_SCORE_OF_F if equality.law == "F" else _PER_SCORE) * equality.rank // (len(groups) - 1)
    if sizes[smallest] < n_required:
        note += (
            f" The joint test rejects too often for these data: it needs {n_required} labelled prompts or clusters in "
            f"every group, and {smallest} has {sizes[smallest]}."
        )
    return note


# Numbers of reversals, and of changes of ranks or scores, that a sentence names.
_REVERSALS_NAMED, CHANGES_NAMED = 3, 5


# The words with which the news of a comparison begins, which pages show above its table.
MOVED, _NEW, _GONE, _ONLY, OVERALL = NEWS = ("What moved", "New in", "Gone in", "Ranked only in", "All prompts:")


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
                sentences.append(f"{word} {names[after]!r}: {first_of(absent, CHANGES_NAMED)}.")
            present = [
                f"{model} ({said}; {names[other]}: {reasons[model]})"
                for model, said in alone.items()
                if model in reasons
            ]
            if present:
                sentences.append(f"{_ONLY} {names[ranked]!r}: {first_of(present, CHANGES_NAMED)}.")
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
        low, high = sorted((abs(row.rank_change_low), abs(row.rank_change_high)))
        places = f"{low}" if low == high else f"{low} to {high}"
        verb = "rose" if row.rank_change_low > 0 else "fell"
        texts.append(f"{row.model} {verb} by {places} place{'s' * (high > 1)} in {row.result!r}")
    return f"{MOVED} from {names[0]!r}: {first_of(texts, CHANGES_NAMED)} {confidence}."


def reversal_note(
    names: Sequence[str], results: Sequence[Estimates], reversals: pd.DataFrame | str, alpha: float, of: str = "results"
) -> str:
    """Say which pairs of models two results, or groups, order differently, and for which of them a test shows it."""
    without_intervals = [name for name, result in zip(names, results, strict=True) if not result.has_intervals]
    if without_intervals:
        # The note before this one says why there are no intervals.
        return f"There are no tests between the results, because {without_intervals[0]!r} has no intervals."
    if isinstance(reversals, str):
        return f"There are no tests between the results. {as_sentence(reversals)}"
    if not len(reversals):
        return f"All {of} have the models that they share in the same order."
    statement = (
        f"{counted(len(reversals), 'pair')} of models {'is' if len(reversals) == 1 else 'are'} in opposite orders"
    )
    confidence = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    significant = reversals[reversals["p_adjusted"] <= alpha]
    if not len(significant):
        return (
            f"{statement} in two of the {of}. The tests do not show for any of them {confidence} that both orders "
            f"are real."
        )
    columns = ["model", "other", "above_in", "below_in", "p_adjusted"]
    named = [
        f"{model} is above {other} in {above_in} and below in {below_in} (adjusted p {p_value_clause(p)})"
        for model, other, above_in, below_in, p in significant[columns].to_numpy(dtype=object)
    ]
    return (
        f"{statement} in two of the {of}. For {len(significant):,} of them the tests show {confidence} that both "
        f"orders are real: {first_of(named, _REVERSALS_NAMED)}."
    )


# One head for every column of the table of the three leaderboards, where no head stands over two columns.
_COLUMN_HEADS = (
    *(f"{board}{number}" for board in ("raw", "averaged", "equal") for number in ("", " std err")),
    *("rank raw", "rank equal", "change", "change CI", "shift P"),
)


def build_style_summary(
    results: Estimates, style: StyleEstimates, table: pd.DataFrame, changes: pd.DataFrame, alpha: float
) -> Summary:
    """Build the table of scores before and after the adjustment, with rank changes."""
    functional = results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")
    header = (("Functional:", functional, "No. Votes:", f"{style.n_votes:,}"),)
    title = "Scores Adjusted for Style" + (f": {results.part}" if results.part else "")
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
    return (slope_sentences(results, style), boards, changes, loss)

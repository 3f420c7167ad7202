"""The leaderboard of a fit: which models are shown, its columns, the summary, the short table, and tidy frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_whole, places_of
from ..data.derived_pairs import DERIVED_KINDS
from ..data.preferences import FloatArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..inference.ranks import rank_bounds, ranks_of
from ..tables.summary_table import Summary, decimals, fewest_decimals, fixed_text, p_value_text
from . import phrases
from .fact_words import Subject, better_words, meaning, score_head, score_words
from .facts import short_note, summary_notes
from .phrases import SummaryLevel

# --- which models are shown -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownModels:
    """The models that a table shows, by their places among all in the order of the rows; ``noun`` is singular."""

    places: tuple[int, ...]
    n_models: int
    noun: str = "model"

    def note(self, joint_statements: str) -> str:
        """How many models are left out, and which statements refer to all models; empty where none is left out."""
        n_left_out = self.n_models - len(self.places)
        if not n_left_out:
            return ""
        verb = "is" if n_left_out == 1 else "are"
        return (
            f"The table shows {len(self.places)} of {self.n_models} {self.noun}s; {n_left_out} {verb} left out. "
            f"{joint_statements} refer to all {self.n_models} {self.noun}s."
        )


def choose_models(
    names: Sequence[str], ranking: Sequence[int], models: object = None, top: object = None, *, noun: str = "model"
) -> ShownModels:
    """Return the models that a table shows."""
    if models is not None and top is not None:
        raise OptionError("models= and top= were both given; give models= (names) or top= (a number), not both")
    if top is not None and noun != "model":
        raise OptionError(
            f"top= shows the models with the highest scores, and the outputs of this functional ({listed(names, 5)}) "
            f"are not scores of models; use models= with names of outputs"
        )
    if top is not None:
        check_whole("top", top, 1)
    if models is None:
        return ShownModels(tuple(ranking[: None if top is None else int(str(top))]), len(names), noun)
    return ShownModels(tuple(places_of(list(names), models, noun)), len(names), noun)


def chosen_names(best_first: Sequence[str], models: object = None, top: object = None) -> list[str]:
    """Return the names of the models that a picture shows; see :func:`choose_models` for the errors."""
    return [best_first[place] for place in choose_models(best_first, range(len(best_first)), models, top).places]


def rows_to_show(results: Estimates, models: object = None, top: object = None) -> ShownModels:
    """Return the scores that a table shows, the best model first; outputs of a user's functional keep their order."""
    if not results.of_models:
        return choose_models(results.names, range(len(results.names)), models, top, noun="output")
    ranking = np.argsort(-results.merit, kind="stable").tolist()
    return choose_models(results.models, ranking, models, top)


def joint_statements(results: Estimates) -> str:
    """Return what refers to all models in a table of some models, as the subject of a sentence."""
    if not results.has_intervals:
        return "Ranks"
    return f"{'Rank sets, s' if results.of_models else 'S'}imultaneous intervals and adjusted p-values"


# --- the columns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the leaderboard, for the summary, the short table and the page.

    head: In the summary and the short table.
    title: On the page.
    cells: Texts of every row; two for an interval.
    keys: Numbers by which a page sorts the rows; an empty key sorts by the text.
    explanation: What the column shows, in a sentence; may be empty.
    ascending: Whether the first click on the head sorts from the smallest to the largest.
    hyphen: What a hyphen in the cells becomes on the page: a minus sign, or a dash between ranks.
    """

    head: str
    title: str
    cells: Sequence[tuple[str, ...]]
    keys: Sequence[str] = ()
    explanation: str = ""
    ascending: bool = False
    hyphen: str = "-"

    @property
    def page_cells(self) -> list[tuple[str, str]]:
        """Text and sort key of every row on a page."""
        texts = [
            "\u2013" if cell[0] == "-" != self.hyphen else " to ".join(text.replace("-", self.hyphen) for text in cell)
            for cell in self.cells
        ]
        return list(zip(texts, self.keys or [""] * len(texts), strict=True))


def score_digits(results: Estimates) -> int:
    """Return the decimals of scores and differences; the covariance exists without intervals, too."""
    return decimals(results.covariance.std_errors, fewest=fewest_decimals(results.scale.natural))


def leaderboard_columns(
    results: Estimates, level: SummaryLevel, p_adjusted: FloatArray | None = None
) -> dict[str, Column]:
    """Return the columns that a result has, by name; those of tests need adjusted p-values."""
    digits, has_tests = score_digits(results), results.has_intervals
    row_head = "Model" if results.of_models else "Output"
    lead = phrases.as_sentence(score_words(results).partition("; ")[2])
    explanation = " ".join(filter(None, (meaning(Subject(results, level)), lead, better_words(results))))
    columns = {
        "name": Column("model", row_head, [(name,) for name in results.names], ascending=True),
        "score": _numbers(
            results.functional if results.are_means else "coef",
            score_head(results),
            results.estimate,
            digits,
            explanation,
        ),
    }
    if has_tests and p_adjusted is not None:
        # Scores without a test say why.
        z = results.neutral_statistics()
        fates = ["fixed" if fixed else "n/a" if np.isnan(x) else "" for fixed, x in zip(results.fixed, z, strict=True)]
        z_texts = [(fate or fixed_text(number, 2),) for fate, number in zip(fates, z, strict=True)]
        p_texts = [("" if fate else p_value_text(p),) for fate, p in zip(fates, p_adjusted, strict=True)]
        columns["std_error"] = _numbers("std err", "Standard error", results.std_errors, digits)
        if len(results.names) > 1:
            columns["z"] = Column("z", "z", z_texts)
            columns["p"] = Column("adj. P", "Adjusted p", p_texts)
    if has_tests:
        low, high = results.intervals(level.critical)
        limits = [tuple(fixed_text(end, digits) for end in ends) for ends in zip(low, high, strict=True)]
        all_rows = f"all {len(results.names)} intervals contain the true values at once"
        all_rows = all_rows if len(results.names) > 1 else "the interval contains the true value"
        said = f"{level.confidence} confidence: {all_rows}."
        columns["interval"] = Column(
            f"[{100 * (1 - level.alpha):g}% simult. CI]",
            f"{level.confidence} interval",
            limits,
            [f"{end:.6g}" for end in low],
            said,
            hyphen="\u2212",
        )
    if not results.of_models or len(results.models) == 1:
        return columns
    # Models without a vote in the group have no rank, and are below all others.
    unseen = results.is_unseen
    few, order = results.diagnostics.models_with_few_prompts, ranks_of(np.where(unseen, -np.inf, results.merit))
    ranks = [("-" if model in few else str(rank),) for model, rank in zip(results.models, order, strict=True)]
    said, keys = "Order of the scores, which no test supports.", [str(rank) for rank in order]
    columns["rank"] = Column("order", "Order", ranks, keys, said, ascending=True, hyphen="\u2013")
    if level.separation is not None:
        above = np.zeros((len(unseen), len(unseen)), dtype=bool)
        above[np.ix_(~unseen, ~unseen)] = level.separation.above[np.ix_(~unseen, ~unseen)]
        best, worst = rank_bounds(above)
        sets = list(zip(best.tolist(), (worst - int(unseen.sum())).tolist(), strict=True))
        columns["rank_set"] = Column(
            "rank",
            "Rank",
            [(str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}",) for ends in sets],
            [f"{best}.{worst:05d}" for best, worst in sets],
            f"All ranks that the data leave possible, with {level.confidence} confidence for all models at once: "
            f"1\u20132 is first or second.",
            ascending=True,
            hyphen="\u2013",
        )
    if head := phrases.win_head(results):
        said = "Estimated probability of a win, averaged over opponents that all count the same"
        title = "Win probability" if results.graph.complete else "Win probability, own opponents"
        columns["share"] = share = _numbers(head, title, results.shares, 2, said)
        if fewest := phrases.fewest_opponents(results):
            no = results.graph.degrees < fewest
            shown = [("-",) if none else cell for cell, none in zip(share.cells, no, strict=True)]
            said += f"; none with fewer than {fewest} opponents"
            columns["share"] = replace(share, cells=shown, keys=["-1" if x else "" for x in no], explanation=said)
    if results.votes is not None:
        # Where some votes are not used, used and all votes, such as 8/10.
        votes = list(zip(results.votes.used.tolist(), results.votes.total.tolist(), strict=True))
        texts = [f"{used:,}" if used == total else f"{used:,}/{total:,}" for used, total in votes]
        keys = ["" if text == str(used) else str(used) for text, (used, _) in zip(texts, votes, strict=True)]
        head = f"{results.counts}s"
        title, said = head.capitalize(), f"{head.capitalize()} with the model"
        if head == "votes":
            said = "Votes on the model's comparisons"
        elif results.grades is not None:
            title, said = "Grades", "Answers of the model that people graded"
        elif results.are_means:
            title, said = "Runs", "Runs of the model that have a score"
        columns["votes"] = Column(head, title, [(text,) for text in texts], keys, said)
    for name, column in columns.items():
        if results.is_unseen.any() and name not in ("name", "votes"):
            cells = zip(column.cells, results.is_unseen, strict=True)
            columns[name] = replace(
                column, cells=[("-", *[""] * (len(cell) - 1)) if no else cell for cell, no in cells]
            )
    return columns


def _numbers(head: str, title: str, values: FloatArray, digits: int, explanation: str = "") -> Column:
    """Return a column of numbers with so many decimals; negative ones sort by their key, as their sign is no hyphen."""
    texts = [fixed_text(value, digits) for value in values]
    keys = [text if text.startswith("-") else "" for text in texts]
    return Column(head, title, [(text,) for text in texts], keys, explanation, hyphen="\u2212")


# --- the summary ------------------------------------------------------------------------------------------------------


def build_summary(results: Estimates, level: SummaryLevel, p_adjusted: FloatArray, shown: ShownModels) -> Summary:
    """Build the summary of a fit."""
    found = leaderboard_columns(results, level, p_adjusted)
    rank = "rank_set" if results.has_intervals else "rank"
    wanted = ("name", "score", "std_error", "z", "p", "interval", rank, "share")
    heads, rows = _cells([found[name] for name in wanted if name in found], shown)
    left, right = ([(label, value) for label, value, brief in side if brief] for side in _facts(results))
    header = tuple((*a, *b) for a, b in zip_longest(left, right, fillvalue=("", "")))
    title = "Nonparametric Ranking Results" + (f": {results.part}" if results.part else "")
    table = Summary(title, header, heads, rows, summary_notes(results, level), numbered=False)
    return table.with_notes(shown.note(joint_statements(results)))


def fit_facts(results: Estimates) -> list[tuple[str, str]]:
    """Return labels and values of all facts on a fit, for a page."""
    facts = (fact for pair in zip_longest(*_facts(results)) for fact in pair if fact is not None)
    return [(label, value) for label, value, _ in facts]


def _facts(results: Estimates) -> tuple[list[tuple[str, str, bool]], list[tuple[str, str, bool]]]:
    """Return the facts in two columns, each with its label and whether the summary of this fit shows it."""
    description, diagnostics, votes = results.description, results.diagnostics, results.votes
    n_models, n_edges = len(results.models), results.graph.n_edges
    target = "these prompts only" if description.prompts == "fixed" else "new prompts like these"
    target += ", weighted" if description.weighted else ""
    propensity = f" ({diagnostics.min_propensity:.3g})" if diagnostics.min_propensity > 0 else ""
    n_votes = f"{description.n_votes:,}"
    if votes is not None and votes.n_left_out:
        n_votes = f"{votes.n_used:,} of {description.n_votes:,} used"
    estimator = f"{results.estimator} (assumes Bradley-Terry)"
    if results.estimated_by.has_first_stages:
        repetitions = f", {description.n_rep} repetitions" if description.n_rep > 1 else ""
        no_intervals = "" if results.has_intervals else " (no intervals)"
        folds = "no folds (no features)" if description.n_folds == 1 else f"{description.n_folds} folds{repetitions}"
        estimator = f"{results.estimator}, {folds}{no_intervals}"
    clusters = zip(results.covariance.n_clusters, description.clusters, strict=True)
    noun, counts = results.counts, f"{n_votes} ({description.n_unlabelled:,} unlabelled)"
    if diagnostics.models_dropped or diagnostics.outcome_kind in DERIVED_KINDS:
        counts = f"{n_votes} ({description.n_unlabelled:,} prompts without one)"
    if results.are_means:
        estimator, n_runs = "means over prompts", description.n_votes / description.n_comparisons
        counts = n_votes if n_runs == 1 else f"{n_votes} ({n_runs:.3g} runs)"
    is_special = description.prompts == "fixed" or description.weighted
    units = ", ".join(f"{count:,} {name}" for count, name in clusters)
    dates = [("Data from:", " to ".join(description.period), False)] * bool(description.period)
    dates += [("Date of fit:", description.date, False)] * bool(description.date)
    left: list[tuple[str, str, bool]] = [
        ("Dep. Variable:", description.outcome, True),
        ("Functional:", phrases.functional_unit(results), True),
        ("Estimator:", estimator, True),
        ("Learner:", description.learner, not results.are_means),
        ("Inference for:", target, is_special),
        ("Edge weights:", description.edge_weights, description.edge_weights not in ("equal", "votes")),
        ("Tie weight:", phrases.tie_weight(description.tie_weights), False),
        ("Models:", f"{n_models:,}", False),
    ]
    right = [
        ("No. Prompts:", f"{description.n_contexts:,} ({', '.join(description.context) or 'rows'})", True),
        (f"No. {noun.capitalize()}s:", counts, True),
        ("Pairs compared:", f"{n_edges:,} of {n_models * (n_models - 1) // 2:,}", not results.are_means),
        ("Covariance:", covariance_words(results), True),
        ("Clusters:", units or "none", bool(description.clusters)),
        ("Smallest pair:", phrases.counted(description.smallest_pair, "prompt" if results.are_means else noun), False),
        ("Propensity (min):", f"{description.propensity}{propensity}", False),
        ("Seed:", str(description.seed), False),
        *dates,
    ]
    return left, right


def covariance_words(results: Estimates) -> str:
    """Return which units the covariance treats as independent."""
    names = results.description.clusters
    return f"cluster ({', '.join(names)})" if names else "robust (prompts independent)"


# --- the short table --------------------------------------------------------------------------------------------------


def slim_summary(results: Estimates, level: SummaryLevel, shown: ShownModels) -> Summary:
    """Build the short table of a fit, which has one note that says what the numbers are."""
    n_rows, found = len(results.names), leaderboard_columns(results, level)
    subject = f"Ranks and Scores of {n_rows} Models" if results.of_models else f"Estimates of {n_rows} Outputs"
    title = f"{subject}: {results.part}" if results.part else subject
    joint = "Rank sets and simultaneous intervals" if level.separation else joint_statements(results)
    note = " ".join(filter(None, (shown.note(joint), *short_note(results, level))))
    rank = "rank_set" if level.separation else "rank"
    wanted = (rank, "name", "score", "interval", "votes") if results.of_models else ("name", "score", "interval")
    score = phrases.functional_unit(results) if results.are_means else "score" if results.of_models else "value"
    found["score"] = replace(found["score"], head=score)
    heads, rows = _cells([found[name] for name in wanted if name in found], shown)
    head = "rank set" if level.separation else "order" if results.of_models else "output"
    return Summary(title, (), heads, rows, (note,), row_head=head, name_place=int(results.of_models), numbered=False)


def _cells(
    columns: Sequence[Column], shown: ShownModels
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, ...], ...]]:
    """Return the heads of all columns but the first with their spans, and the rows of a table."""
    rows = tuple(tuple(text for column in columns for text in column.cells[j]) for j in shown.places)
    return tuple((column.head, len(column.cells[0])) for column in columns[1:]), rows


# --- frames -----------------------------------------------------------------------------------------------------------


# What the intervals of each method are.
INTERVAL_KINDS = {"max-t": "simultaneous", "bonferroni": "simultaneous (Bonferroni)", "none": "pointwise"}


def tidy_frame(results: Estimates, critical: float, p_adjusted: FloatArray, kind: str) -> pd.DataFrame:
    """Return one row per score, with its test, interval and votes; ``kind`` says what the intervals are."""
    lower, upper = results.intervals(critical)
    frame = pd.DataFrame(
        {
            "term": list(results.names),
            "estimate": results.estimate,
            "std_error": results.std_errors,
            "statistic": results.neutral_statistics(),
            "p_value": results.p_values(),
            "p_adjusted": p_adjusted,
            "conf_low": lower,
            "conf_high": upper,
            "interval": kind,
        }
    )
    frame.loc[results.is_unseen, list(frame.columns[1:-1])] = np.nan
    if results.votes is not None and results.of_models:
        if results.are_means:
            return frame.assign(scores=results.votes.used)
        frame["votes"] = results.votes.used
        frame["votes_left_out"] = results.votes.total - results.votes.used
    return frame

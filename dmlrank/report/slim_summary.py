"""The short table of a fit for publication: rank set, model, score, interval and votes."""

from __future__ import annotations

from .._utils.number_text import decimals, fewest_decimals, fixed_text
from ..fit.estimates import Estimates
from ..inference.ranks import rank_bounds, ranks_of
from ..tables.summary_table import Summary
from .fit_notes import SummaryLevel, doubt_note, sequential_note
from .fit_summary import functional_unit, joint_statements, rank_set_text, votes_of
from .score_meaning import score_definition, unit_sentences
from .sentences import as_sentence
from .shown_models import ShownModels


def slim_summary(results: Estimates, level: SummaryLevel, shown: ShownModels) -> Summary:
    """Build the short table of a fit, which has one note that says what the numbers are."""
    n_rows = len(results.names)
    subject = f"Ranks and Scores of {n_rows} Models" if results.of_models else f"Estimates of {n_rows} Outputs"
    title = f"{subject}: {results.part}" if results.part else subject
    interval = ((f"[{100 * (1 - level.alpha):g}% simult. CI]", 2),) if results.has_intervals else ()
    votes = (("votes", 1),) if results.of_models and results.votes else ()
    joint = "Rank sets and simultaneous intervals" if level.separation else joint_statements(results)
    note = " ".join(filter(None, (shown.note(joint), *_sentences(results, level))))
    if not results.of_models:
        return Summary(title, (), (("value", 1), *interval), _rows(results, level, shown), (note,), row_head="output")
    columns = (("model", 1), ("score", 1), *interval, *votes)
    head = "rank set" if level.separation else "order"
    return Summary(title, (), columns, _rows(results, level, shown), (note,), row_head=head, name_place=1)


def _rows(results: Estimates, level: SummaryLevel, shown: ShownModels) -> tuple[tuple[str, ...], ...]:
    """Return the cells of every model: rank set, name, score, limits of the interval, votes."""
    digits = decimals(results.covariance.std_errors, fewest=fewest_decimals(results.scale.natural))
    low, high = results.intervals(level.critical)
    ranks = [str(rank) for rank in ranks_of(results.estimate)]
    if level.separation:
        ranks = [rank_set_text(best, worst) for best, worst in zip(*rank_bounds(level.separation.above), strict=True)]
    rows = []
    for j in shown.places:
        numbers = (results.estimate[j], low[j], high[j]) if results.has_intervals else (results.estimate[j],)
        cells = [results.names[j], *(fixed_text(number, digits) for number in numbers)]
        rows.append((ranks[j], *cells, *votes_of(results, j)) if results.of_models else tuple(cells))
    return tuple(rows)


def _sentences(results: Estimates, level: SummaryLevel) -> list[str]:
    """Return the sentences of the note: scores, intervals and rank sets, sizes, conditions."""
    d = results.description
    sentences = [f"Functional: {functional_unit(results)}."]
    if results.of_models:
        sentences = [score_definition(results), *unit_sentences(results)]
    if not results.has_intervals:
        sentences.append(as_sentence(f"estimates without intervals: {results.why_no_intervals}"))
    else:
        confidence = f"With {level.confidence} confidence{level.bootstrap_words}{',' * bool(level.bootstrap)}"
        jointly = f"{confidence} all intervals contain the true values at the same time"
        looks = "" if results.sequence is None else f", {results.sequence.clause}"
        sentences.append(f"{jointly}{looks}.")
        sentences += sequential_note(results)
        if level.separation:
            sentences.append(
                f"The rank set of a model has the ranks that the data leave possible; with {level.confidence} "
                f"confidence all rank sets contain the true ranks."
            )
    units = "prompts" if d.context else "rows"
    sentences.append(f"Estimated from {d.n_votes:,} votes on {d.n_contexts:,} {units}.")
    return [*sentences, *doubt_note(results)]

"""The page itself: a template filled with leaderboards, with its style, scripts and numbers inside."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from ..._utils.argument_checks import check_text
from ..._utils.atomic_write import write_file
from ..._version import __version__
from ...data.preferences import FloatArray
from ...exceptions import MissingExtraError
from ...fit.estimates import FitDescription
from ...tables.display_text import printable, undirected
from ...tables.summary_table import Summary
from ..explanations import explanations
from ..leaderboard import fit_facts, leaderboard_columns, score_digits
from ..statements import (
    as_sentence,
    bootstrap_sentence,
    fit_warnings,
    functional_unit,
    part_note,
    untested_note,
    verdict_sentences,
    without_code,
)
from .board import Board, board_data, content_hash, script_json
from .svg import ROW_HEIGHT, ROWS_TOP, forest_svg, matrix_svg

# A rank with a score, such as "2. 0.71 (0.02)", and another number at the start of a cell.
_RANK = re.compile(r"^(\d+)\. ")
_NUMBER = re.compile(r"^<?\+?(-?\d*\.?\d+)(?: \(| to |$)")
_RANKED_SCORE = re.compile(r"^\d+\. ([+-]?\d+\.\d+) \(")
# A score with decimals, alone or with its standard error.
_SCORE = re.compile(r"^[+-]?\d+\.\d+(?: \(|$)")
# The columns of the leaderboard's table.
_COLUMNS = ("rank", "name", "score", "interval", "rank_set", "group", "share", "votes")
_PAPER = (
    "D. Frauen, A. Deviyani, M. van der Schaar and S. Feuerriegel (2026). Nonparametric LLM Evaluation from "
    "Preference Data. arXiv:2601.21816."
)
_ADDRESS = "https://arxiv.org/abs/2601.21816"
_HYPHEN = re.compile(r"(?<![\w.])-(?=[\d.])")


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Scores of K models on M criteria, which a reader weights by sliders.

    scores (M, K): Scores by criterion and model.
    covariance (K, M, M): Covariance of the scores of each model.
    critical: Half-width of intervals in standard errors, for all weightings and models at once.
    digits: Decimals of scores.
    note: What the intervals hold for, in words.
    """

    criteria: tuple[str, ...]
    models: tuple[str, ...]
    scores: FloatArray
    covariance: FloatArray
    critical: float
    digits: int
    note: str

    def data(self) -> dict[str, object]:
        """Return the numbers for the page's script, in full precision."""
        return {
            "scores": self.scores.tolist(),
            "covariance": self.covariance.tolist(),
            "critical": self.critical,
            "digits": self.digits,
        }


def check_page_extra() -> None:
    """Raise where the library that fills templates is not installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("a page needs Jinja2: pip install 'dmlrank[report]'") from None


def write_page(path: str | os.PathLike[str] | None, text: str) -> str:
    """Write the text of a page and return the path, or return the text where the path is None."""
    if path is None:
        return text
    write_file(path, text)
    return os.fsdecode(path)


def render_page(
    title: str,
    boards: Sequence[Board],
    overview: Sequence[Summary] = (),
    *,
    problems: Sequence[str] | None = None,
    weighting: Weighting | None = None,
) -> str:
    """Return one HTML file with leaderboards; several leaderboards stand behind tabs.

    The file needs no network: its content security policy allows its own style and scripts, known by their hashes, and
    nothing else. Names are escaped. Without JavaScript all tables, plots and explanations can be read.
    """
    check_page_extra()
    check_text("title", title)
    from jinja2 import Environment, StrictUndefined

    style, scripts = _compact(_asset("page.css")), [_asset("sortable.min.js").strip(), _compact(_asset("page.js"))]
    # This style, these scripts, an empty icon, and nothing else.
    hashes = " ".join(map(content_hash, scripts))
    policy = f"default-src 'none'; style-src {content_hash(style)}; script-src {hashes}; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    data: dict[str, object] = {"title": printable(title), "boards": [board_data(board) for board in boards]}
    if weighting is not None:
        data["weighting"] = weighting.data()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string(_asset("page.html")).render(
        title=printable(title),
        style=style,
        scripts=scripts,
        policy=policy,
        data=script_json(data),
        boards=[_view(board) for board in boards],
        overview=[_overview(summary) for summary in overview],
        paper=_PAPER,
        address=_ADDRESS,
        stripe_top=ROWS_TOP,
        stripe_height=ROW_HEIGHT,
        sorter_licence=_asset("sortable.LICENSE.txt").strip(),
        weighting=weighting,
        problems=None if problems is None else [undirected(text) for text in problems],
        version=__version__,
    )
    # A browser reads a carriage return as the end of a line, unless a reference stands for the character.
    return printable(text).replace("\r", "&#13;")


def page_title(board: Board) -> str:
    """Return the title of a page about one leaderboard.

    The number of models, the kind of score and the part of the prompts identify the leaderboard.
    """
    results = board.results
    rows = f"{len(results.models)} models" if results.of_models else f"{len(results.names)} outputs"
    return f"Leaderboard of {rows}" + (f": {results.part}" if results.part else "")


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _compact(text: str) -> str:
    """Return a style sheet or script without comment lines and without blanks at the start of lines."""
    without_comments = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    lines = (line.strip() for line in without_comments.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _view(board: Board) -> Mapping[str, object]:
    """Return what the template shows of a leaderboard."""
    results, level, d = board.results, board.level, board.results.description
    units = "prompts" if d.context else "rows"
    looks = "" if results.sequence is None else f" Intervals, tests and rank sets hold {results.sequence.clause}."
    forest, matrix = _plots(board)
    warnings = [without_code(text) for text in fit_warnings(results)]
    verdict = " ".join(verdict_sentences(results, level))
    found = leaderboard_columns(results, level)
    columns = [found[name] for name in _COLUMNS if name in found]
    cells = [(column.kind, column.page_cells) for column in columns]
    sections = explanations(results, level, board.tests, board.remarks, on_page=True) if board.is_explained else ()
    notes = [] if board.is_explained else [*part_note(results), *untested_note(results)]
    return {
        "name": printable(board.name),
        "facts": _facts(fit_facts(results)),
        "lead": printable(
            f"{d.n_votes:,} {results.counts}s on {d.n_contexts:,} {units}{_dates(d)}. "
            f"Scores: {functional_unit(results)}.{looks}"
        ),
        "reason": without_code(as_sentence(results.why_no_intervals)),
        "has_intervals": results.has_intervals,
        "of_models": results.of_models,
        "doubted": bool(results.diagnostics.doubts) and results.has_intervals,
        "warnings": [undirected(text) for text in (*warnings, *(bootstrap_sentence(level) if warnings else []))],
        "verdict": undirected(verdict),
        "columns": columns,
        "rows": [[(*of_column[j], kind) for kind, of_column in cells] for j in board.order],
        "forest": forest,
        "matrix": matrix,
        "pictures": [(title, picture, list(map(undirected, texts))) for title, picture, texts in board.pictures],
        "confidence": level.confidence,
        "notes": [undirected(text) for text in notes],
        "sections": [
            (title, [undirected(without_code(text)) for text in paragraphs]) for title, paragraphs in sections
        ],
    }


def _dates(description: FitDescription) -> str:
    """Return the days of the data and of the fit, after a comma; empty where they are not known."""
    period = f", {' to '.join(dict.fromkeys(description.period))}" if description.period else ""
    return period + (f"; fitted on {description.date}" if description.date else "")


def _facts(facts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return labels and values of the lines above a table, as the page shows them."""
    return [(printable(label).rstrip(":"), printable(value)) for label, value in facts]


def _plots(board: Board) -> tuple[str, str]:
    """Return the forest plot and the matrix of differences; empty without intervals, and without tests of pairs."""
    results, level, order = board.results, board.level, board.order
    if not results.has_intervals:
        return "", ""
    names, scores, digits = [results.names[j] for j in order], results.estimate[order], score_digits(results)
    low, high = results.intervals(level.critical)
    unit = "score" if results.of_models else "value"
    forest = forest_svg(
        names,
        scores,
        low[order],
        high[order],
        neutral=results.neutral,
        digits=digits,
        label=f"{unit}: {printable(functional_unit(results))}",
        description=f"Forest plot of {len(order)} {unit}s with {level.confidence} simultaneous intervals; the table "
        "above has the same numbers.",
    )
    if board.tests is None or level.separation is None:
        return forest, ""
    matrix = matrix_svg(
        names,
        scores[:, None] - scores[None, :],
        np.asarray(level.separation.separated[np.ix_(order, order)]),
        digits=digits,
        description=f"Matrix of differences of {len(order)} models: {level.separation.n_separated:,} of "
        f"{len(order) * (len(order) - 1) // 2:,} pairs are separated.",
    )
    return forest, matrix


def _overview(summary: Summary) -> Mapping[str, object]:
    """Return what the template shows of a table of several leaderboards."""
    heads = [head for head, span in summary.columns for _ in range(span)]
    columns = [[row[place] for row in summary.rows if row[place]] for place in range(1, len(heads) + 1)]
    return {
        "title": printable(summary.title),
        "row_head": printable(summary.row_head.capitalize()),
        "heads": [(printable(head), span) for head, span in summary.columns],
        # Columns of scores, changes and shares, whose largest value is the best, and not of p-values.
        "descending": [
            re.search(r"\bP\b", head) is None and all(map(_SCORE.match, cells))
            for head, cells in zip(heads, columns[: len(summary.columns)], strict=False)
        ],
        "rows": [
            [
                (printable(row[0]), "", ""),
                *(
                    (_HYPHEN.sub("\u2212", cell), _sort_key(cell), shade)
                    for cell, shade in zip(row[1:], of_row, strict=True)
                ),
            ]
            for row, of_row in zip(summary.rows, _shades(summary), strict=True)
        ],
        "notes": [undirected(note) for note in summary.notes],
        "facts": _facts(summary.facts()),
    }


def _shades(summary: Summary) -> list[list[str]]:
    """Return a class of the style sheet for every cell with a rank and a score: blue for high scores, orange for low.

    Scores of all columns are divided into six shades with as many cells each.
    """
    matches = [[_RANKED_SCORE.match(cell) for cell in row[1:]] for row in summary.rows]
    scores = sorted(float(match[1]) for row in matches for match in row if match)
    classes = ("b3", "b2", "b1", "a1", "a2", "a3")
    limits = [scores[len(scores) * place // len(classes)] for place in range(1, len(classes))] if scores else []
    return [[classes[bisect_right(limits, float(match[1]))] if match else "" for match in row] for row in matches]


def _sort_key(cell: str) -> str:
    """Return the rank or the number at the start of a cell; empty where there is none."""
    match = _RANK.match(cell) or _NUMBER.match(cell.replace(",", ""))
    return match[1] if match else ""

"""A page: its leaderboards, and the template that is filled with them, with style, scripts and numbers inside."""

from __future__ import annotations

import base64
import hashlib
import json
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
from ...data.preferences import FloatArray, IntArray
from ...exceptions import MissingExtraError
from ...fit.estimates import Estimates
from ...inference.ranks import rank_bounds
from ...inference.simultaneous import PairTests
from ...tables.display_text import printable, quoted, undirected
from ...tables.summary_table import Summary
from ..facts import (
    FIRST,
    PART,
    SCORES,
    explanations,
    fit_warnings,
    short_facts,
)
from ..fit_summary import fit_facts, leaderboard_columns, score_digits
from ..joint_tables import NEWS
from ..statements import (
    SummaryLevel,
    as_sentence,
    counted,
    doubt_note,
    models_to_mark,
    without_code,
)
from ..words import Subject, score_words
from .svg import ROW_HEIGHT, ROWS_TOP, forest_svg, matrix_svg

# A number at the start of a cell, and a score with its standard error, such as "0.71 (0.02)".
_NUMBER = re.compile(r"^<?\+?(-?\d*\.?\d+)(?: \(| to |$)")
_SCORE_AND_ERROR = re.compile(r"^([+-]?\d+\.\d+) \(\d")
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


_FIGURES = 9
# Characters that could end the script element, or that old parsers read as the end of a line.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard of a page.

    name: Text of the leaderboard's tab.
    level: The level of confidence, with critical value, separation and letters.
    tests: Two-sided max-t tests of all differences: the best model with each of the others, then the second best with
        each of those below it, and so on. None where there are no intervals or no models.
    is_explained: Whether the page explains method, assumptions and diagnostics below this leaderboard.
    remarks: Titles and paragraphs of further sections below the leaderboard.
    pictures: Titles, tables (HTML) and paragraphs of further sections with a table.
    about: A sentence below the leaderboard's title; may be empty.
    """

    name: str
    results: Estimates
    level: SummaryLevel
    tests: PairTests | None
    is_explained: bool = True
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pictures: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    about: str = ""

    @property
    def order(self) -> IntArray:
        """Places of the estimates in the order of the page: the best model first; outputs keep their order.

        Models without a vote in a group have no place.
        """
        if not self.results.of_models:
            return np.arange(len(self.results.names))
        best_first = np.argsort(-self.results.merit, kind="stable")
        return np.asarray(best_first[~self.results.is_unseen[best_first]])


def check_page_extra() -> None:
    """Raise where the library that fills templates is not installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("a page needs Jinja2: pip install 'dmlrank[report]'") from None


def write_page(
    path: str | os.PathLike[str] | None,
    title: str,
    boards: Sequence[Board],
    overview: Sequence[Summary] = (),
    *,
    problems: Sequence[str] | None = None,
) -> str:
    """Write one HTML file with leaderboards and return its path, or its text where the path is None.

    Several leaderboards stand behind tabs.
    The file needs no network: its content security policy allows its own style and scripts, known by their hashes, and
    nothing else. Names are escaped. Without JavaScript all tables, plots and explanations can be read.
    """
    check_page_extra()
    check_text("title", title)
    from jinja2 import Environment, StrictUndefined

    style, scripts = _compact(_asset("page.css")), [_asset("sortable.min.js").strip(), _compact(_asset("page.js"))]
    # This style, these scripts, an empty icon, and nothing else.
    style_hash, *hashes = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, *scripts)
    )
    policy = f"default-src 'none'; style-src {style_hash}; script-src {' '.join(hashes)}; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    data: dict[str, object] = {"title": printable(title), "boards": [board_data(board) for board in boards]}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string(_asset("page.html")).render(
        title=printable(title),
        style=style,
        scripts=scripts,
        policy=policy,
        # JSON that is safe within a script element: ASCII without <, > and &.
        data=json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES),
        boards=[_view(board) for board in boards],
        overview=[_overview(summary) for summary in overview],
        # One leaderboard, or further ones of parts of the prompts of the first.
        about_one_fit=bool(boards) and (len(boards) > 1 or not overview) and all(b.results.part for b in boards[1:]),
        paper=_PAPER,
        address=_ADDRESS,
        stripe_top=ROWS_TOP,
        stripe_height=ROW_HEIGHT,
        sorter_licence=_asset("sortable.LICENSE.txt").strip(),
        problems=None if problems is None else [undirected(text) for text in problems],
        version=__version__,
    )
    # A browser reads a carriage return as the end of a line, unless a reference stands for the character.
    text = printable(text).replace("\r", "&#13;")
    if path is None:
        return text
    write_file(path, text)
    return os.fsdecode(path)


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
    dates = f", {' to '.join(dict.fromkeys(d.period))}" if d.period else ""
    dates += f"; computed on {d.date}" if d.date else ""
    subject = Subject(results, level, board.tests, on_page=True)
    marked = models_to_mark(results) if results.of_models else []
    few = [results.names[j] in marked for j in board.order]
    forest, matrix = _plots(board, few)
    warnings = fit_warnings(results)
    found = leaderboard_columns(results, level)
    columns = [found[name] for name in _COLUMNS if name in found]
    cells = [(column.kind, column.page_cells) for column in columns]
    sections = explanations(subject, board.remarks) if board.is_explained else ()
    notes = [] if board.is_explained else short_facts(subject, PART)
    return {
        "name": printable(board.name),
        "facts": _facts(fit_facts(results)),
        "lead": printable(" ".join([f"{_size(results)}{dates}.", *short_facts(subject, SCORES)])),
        "about": undirected(board.about),
        "reason": without_code(as_sentence(results.why_no_intervals)),
        "has_intervals": results.has_intervals,
        "of_models": results.of_models,
        "doubted": " ".join(doubt_note(results)),
        "warnings": [_said(without_code(text)) for text in warnings],
        "verdict": [_said(without_code(text)) for text in short_facts(subject, FIRST)],
        "columns": columns,
        "rows": [
            (is_few, [(quoted(of_column[j][0]), of_column[j][1], kind) for kind, of_column in cells])
            for j, is_few in zip(board.order, few, strict=True)
        ],
        "has_few": any(few),
        "forest": forest,
        "matrix": matrix,
        "pictures": [(title, picture, list(map(_said, texts))) for title, picture, texts in board.pictures],
        "confidence": level.confidence,
        "notes": [_said(text) for text in notes],
        "sections": [(title, [_said(without_code(text)) for text in paragraphs]) for title, paragraphs in sections],
    }


def _said(text: str) -> str:
    """Return a text as a page shows it: without marks of direction, and with minus signs before numbers."""
    return undirected(_HYPHEN.sub("\u2212", text))


def _size(results: Estimates) -> str:
    """Return how many votes the scores rest on, of how many rows or on how many prompts."""
    d, votes = results.description, results.votes
    n_used = d.n_votes if votes is None or results.are_means else votes.n_used
    on = f" on {d.n_contexts - d.n_unlabelled:,} {'prompts' if d.context else 'rows'}"
    if d.rows_lost and not results.part and n_used < d.n_rows:
        return f"{counted(n_used, results.counts)}{on * bool(d.context)} used, of {d.n_rows:,} rows (see Data below)"
    return f"{counted(d.n_votes, results.counts)}{on}"


def _facts(facts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return labels and values of the lines above a table, as the page shows them."""
    return [(printable(label).rstrip(":"), printable(value)) for label, value in facts]


def _plots(board: Board, few: Sequence[bool]) -> tuple[str, str]:
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
        label=f"{unit}: {printable(score_words(results).split(';')[0])}",
        description=f"Forest plot of {len(order)} {unit}s with {level.confidence} simultaneous intervals; the table "
        "above has the same numbers.",
        few=few,
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
    # Six shades with as many cells of all columns each: blue for high scores, orange for low.
    matches = [[_SCORE_AND_ERROR.match(cell) for cell in row[1:]] for row in summary.rows]
    scores = sorted(float(match[1]) for row in matches for match in row if match)
    classes = ("b3", "b2", "b1", "a1", "a2", "a3")
    limits = [scores[len(scores) * place // len(classes)] for place in range(1, len(classes))] if scores else []
    shades = [[classes[bisect_right(limits, float(match[1]))] if match else "" for match in row] for row in matches]
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
                (quoted(printable(row[0])), "", ""),
                *(
                    (_HYPHEN.sub("\u2212", cell), _sort_key(cell), shade)
                    for cell, shade in zip(row[1:], of_row, strict=True)
                ),
            ]
            for row, of_row in zip(summary.rows, shades, strict=True)
        ],
        "shaded": any(map(any, shades)),
        "news": [_said(without_code(note)) for note in summary.notes if note.startswith(NEWS)],
        "notes": [_said(without_code(note)) for note in summary.notes if not note.startswith(NEWS)],
        "facts": _facts(summary.facts()),
    }


def _sort_key(cell: str) -> str:
    """Return the number at the start of a cell; empty where there is none."""
    match = _NUMBER.match(cell.replace(",", ""))
    return match[1] if match else ""


# --- the numbers for the page's scripts -------------------------------------------------------------------------------


def board_data(board: Board) -> dict[str, object]:
    """Return the numbers of a leaderboard for the page's scripts, by column; the table has the names."""
    results, order = board.results, board.order
    low, high = results.intervals(board.level.critical)
    data: dict[str, object] = {
        "name": printable(board.name),
        "score": _rounded(results.estimate[order]),
        "digits": score_digits(results),
        "level": board.level.confidence,
        "ofModels": results.of_models,
        "about": _about(board),
    }
    if results.kind.link == "logit":
        data["unit"] = results.scale.factor
    if results.has_intervals:
        data |= {"se": _rounded(results.std_errors[order]), "low": _rounded(low[order]), "high": _rounded(high[order])}
    if results.of_models and not results.are_means:
        data["share"] = _rounded(results.shares[order])
    if results.of_models and results.votes is not None and not results.are_means:
        data |= {"votes": results.votes.used[order].tolist(), "allVotes": results.votes.total[order].tolist()}
    if board.level.separation is not None:
        best, worst = rank_bounds(board.level.separation.above)
        data |= {"best": best[order].tolist(), "worst": worst[order].tolist()}
        data |= {"group": [board.level.letters[j] for j in order]} if any(board.level.letters) else {}
    first = board.level.first
    if first is not None and first.decided and first.is_single and order[0] == first.leader:
        data["first"] = float(first.p.max())
    if board.tests is None and results.has_intervals:
        # Leaderboards have the standard errors of all differences instead, which the covariance follows from.
        matrix = results.covariance.matrix[np.ix_(order, order)]
        data["covariance"] = [list(_rounded(row)) for row in matrix]
    if board.tests is not None and board.level.separation is not None:
        tests = board.tests
        separated = board.level.separation.separated[tests.first, tests.second]
        # Numbers of 32 bits, the low byte first, which keep seven digits; truth values as bits, the lowest bit first.
        numbers = {"se": tests.std_error.astype("<f4"), "p": tests.p_adjusted.astype("<f4")}
        if results.covariance.means is not None:
            numbers |= {"low": tests.conf_low.astype("<f4"), "high": tests.conf_high.astype("<f4")}
        packed = numbers | {"separated": np.packbits(separated, bitorder="little")}
        data["pairs"] = {
            "critical": _finite(tests.critical),
            **{name: base64.b64encode(part.tobytes()).decode() for name, part in packed.items()},
        }
    return data


def _about(board: Board) -> Mapping[str, object]:
    """Return what identifies the fit in downloaded files."""
    results = board.results
    description, sequence = results.description, results.sequence
    looks = {"planned": sequence.planned, "start": sequence.start, "unit": printable(sequence.unit)} if sequence else {}
    return {
        "formula": printable(description.formula),
        "functional": printable(results.functional_label),
        "scale": printable(results.scale.name),
        "estimator": results.estimator,
        "part": printable(results.part),
        "learner": printable(description.learner),
        "covarianceType": description.cov_type,
        "clusters": [printable(name) for name in description.clusters],
        "constraint": printable(results.reason),
        "prompts": description.n_contexts,
        f"{results.counts}s": description.n_votes,
        "level": float(f"{1 - board.level.alpha:.12g}"),
        "alpha": board.level.alpha,
        "critical": _finite(board.level.critical),
        "whyNoIntervals": printable(results.why_no_intervals),
        **({"sequential": looks} if looks else {}),
        "seed": description.seed,
        "version": description.version,
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _rounded(values: FloatArray) -> Sequence[float | None]:
    """Return numbers with nine significant figures; None where a number is not finite."""
    return [float(f"{value:.{_FIGURES}g}") if np.isfinite(value) else None for value in values]

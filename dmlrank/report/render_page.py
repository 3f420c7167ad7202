"""A page: its leaderboards, its drawings as SVG, and the template that is filled with them, with style and scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from .._utils.argument_checks import check_text, check_type
from .._utils.atomic_write import write_file
from .._version import __version__
from ..data.preferences import FloatArray, IntArray
from ..exceptions import MissingExtraError, OptionError, listed
from ..fit.estimates import Estimates
from ..inference.ranks import rank_bounds
from ..inference.score_limits import FEW_UNITS
from ..inference.simultaneous import PairTests
from ..tables.summary_table import Summary, fixed_text, inert, printable, undirected
from . import phrases
from .fact_words import Subject, better_words, measure, score_head, score_words
from .facts import FIRST, PART, SCORES, explanations, fit_warnings, long_facts, short_facts
from .first_place import headline
from .fit_summary import fit_facts, leaderboard_columns, score_digits

_TICKS = 4
# Share of the range of the numbers that is added on either side of the axis.
_MARGIN = 0.05


def number_text(value: float, digits: int) -> str:
    """Return a number with this number of decimals and a minus sign that is not a hyphen."""
    return fixed_text(value, digits).replace("-", "\u2212")


def ends_of_axis(low: FloatArray, high: FloatArray, is_few: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the ends of intervals on an axis, on which those of models with few votes leave room for the others, (d,).

    They reach beyond the others, if these are four or more, by at most a quarter of the range of these on either side.
    """
    others, ends = ~is_few & np.isfinite(low) & np.isfinite(high), (float(np.nanmin(low)), float(np.nanmax(high)))
    if others.sum() < 4:
        return ends
    least, most = float(low[others].min()), float(high[others].max())
    room = (most - least) / 4
    return max(least - room, ends[0]), min(most + room, ends[1])


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a table's intervals, from ``start`` to ``end``; places along it are percentages of the width.

    Texts keep their size while the axis is as wide as its box. Colours, sizes and heights are those of the style sheet.
    """

    start: float
    end: float
    is_logarithmic: bool = False

    @classmethod
    def of(cls, values: FloatArray, *, is_logarithmic: bool = False, margin: float = _MARGIN) -> Axis:
        """Return the axis that has room for all finite values."""
        seen = values[np.isfinite(values)]
        seen = np.log10(seen) if is_logarithmic else seen
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
        room = margin * ((high - low) or max(abs(high), 1.0))
        return cls(low - room, high + room, is_logarithmic)

    def at(self, value: float) -> str:
        """Return the place of a value."""
        place = np.log10(value) if self.is_logarithmic else value
        return f"{float(np.clip(100 * (place - self.start) / (self.end - self.start), 0, 100)):.1f}%"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Places and texts of round numbers."""
        if self.is_logarithmic:
            powers = range(int(np.floor(self.start)), int(np.ceil(self.end)) + 1)
            values = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            return [(self.at(x), f"{x:g}") for x in values if self.start <= np.log10(x) <= self.end]
        # A number at either end would reach beyond the axis.
        room = _MARGIN / 2 * (self.end - self.start)
        low, high = self.start + room, self.end - room
        width = (high - low) or max(abs(high), 1.0)
        step = 10.0 ** np.floor(np.log10(width / _TICKS))
        step *= next(factor for factor in (1, 2, 5, 10) if width / (step * factor) <= _TICKS)
        decimals = int(max(0, -np.floor(np.log10(step) + 1e-9)))
        places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
        numbers = [round(float(place * step), decimals) + 0.0 for place in places]
        return [(self.at(x), number_text(x, decimals)) for x in numbers]

    def head(self) -> str:
        """Draw the numbers along the axis for the head of a column."""
        texts = "".join(f'<text x="{place}" y="11">{text}</text>' for place, text in self.ticks)
        return f'<svg class="axis" aria-hidden="true">{texts}</svg>'

    def mark(self, score: float, low: float, high: float) -> str:
        """Draw a score with its interval for a row; an arrow says that they go on beyond the axis."""
        start, end = self.at(low), self.at(high)
        width = float(end[:-1]) - float(start[:-1])
        dot = f'<circle cx="{self.at(score)}"/>' * bool(self.start <= score <= self.end)
        arrows = '<text class="cut">\u25c2</text>' * bool(low < self.start)
        arrows += '<text class="cut" x="100%">\u25b8</text>' * bool(high > self.end)
        return f'<svg><rect x="{start}" width="{width:.1f}%"/>{dot}{arrows}</svg>'


# The height of the plot of scores against costs in pixels, with room for the numbers below it.
_PLOT_HEIGHT, _BOTTOM, _TOP = 320, 24, 12


def scatter_svg(
    names: Sequence[str], kinds: Sequence[str], cost: FloatArray, score: FloatArray, *, named: bool, label: str
) -> str:
    """Draw scores over costs, each (3, K): number and limits, NaN for none; ``kinds`` are classes of the page."""
    positive = cost[np.isfinite(cost)]
    across = Axis.of(
        cost, is_logarithmic=bool(positive.min() > 0 and positive.max() > 30 * positive.min()), margin=0.12
    )
    up = Axis.of(score)

    def height(value: float) -> float:
        return _TOP + (1 - float(up.at(value)[:-1]) / 100) * _PLOT_HEIGHT

    bottom = _TOP + _PLOT_HEIGHT
    grid = "".join(
        f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/><text x="{x}" y="{bottom + 16}">{text}</text>'
        for x, text in across.ticks
    )
    for place, text in up.ticks:
        y = _TOP + (1 - float(place[:-1]) / 100) * _PLOT_HEIGHT
        grid += f'<line x2="100%" y1="{y:.0f}" y2="{y:.0f}"/><text class="up" x="2" y="{y - 3:.0f}">{text}</text>'
    points = ""
    for j, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        (x, left, right), (y, low, high) = cost[:, j], score[:, j]
        lines = f'<line x1="{across.at(x)}" x2="{across.at(x)}" y1="{height(low):.0f}" y2="{height(high):.0f}"/>'
        if np.isfinite(left):
            lines += f'<line x1="{across.at(left)}" x2="{across.at(right)}" y1="{height(y):.0f}" y2="{height(y):.0f}"/>'
        dot = f'<circle cx="{across.at(x)}" cy="{height(y):.0f}" r="5"/>'
        side = " class=left" * (float(across.at(x)[:-1]) > 75)
        text = f'<text x="{across.at(x)}" y="{height(y) - 8:.0f}"{side}>{html.escape(inert(name))}</text>'
        points += f'<g class="{kind}">{lines}{dot}{text if named or kind == "best" else ""}</g>'
    return (
        f'<svg class="scatter" role="img" aria-label="{html.escape(label)}" width="100%" height="{bottom + _BOTTOM}">'
        f'<g class="grid">{grid}</g>{points}</svg>'
    )


# A number at the start of a cell.
_NUMBER = re.compile(r"^<?\+?([-\u2212]?\d*\.?\d+)(?: \(| to |$)")
# The columns of the leaderboard's table with their classes: narrow windows leave out some.
_COLUMNS = {"rank": "rank", "name": "name", "score": "score", "interval": "wide", "share": "wide", "votes": "middle"}
_OF_NAME = (
    "Tied for first: no model is shown to be better. Shown worse than 5: tests of all pairs at once show five models "
    "to be better."
)
_PLAIN = ("mean", "bt", "borda")
# Models among which pairs are compared on larger pages; colours of makers.
_MOST_PAIRED, _PAIRED_OF_MANY, _COLOURS = 200, 60, 8
# Models that are marked as tied for first, at most.
_MOST_TIED = 3
_PAPER = (
    "D. Frauen, A. Deviyani, M. van der Schaar and S. Feuerriegel (2026). Nonparametric LLM Evaluation from "
    "Preference Data. arXiv:2601.21816."
)
_ADDRESS = "https://arxiv.org/abs/2601.21816"
# Words that not all readers know, with what they mean; the first one in a section explains itself.
_GLOSSARY = {
    r"[Ll]og-odds": "ln(p / (1 - p)) of a probability p of winning: 0 is 50 wins in 100, 0.4 is 60, 1.1 is 75.",
    r"[Pp]ropensit(?:y|ies)": "The probability that a pair of models was compared on a prompt.",
    r"max-t": "Limits for the largest of all test statistics, so that all statements hold at once.",
    r"step-down": "Tests in several steps, each of which leaves out what is shown; all statements hold at once.",
    r"cross-fitting": "Predictions for a prompt come from a model that has not seen this prompt.",
    r"debiased": "Errors of the learnt model are corrected by what was observed, so that intervals hold.",
    r"Bradley-Terry": "A model in which each pair's odds of winning are those of the two scores.",
    r"[Ss]tandard errors?": "The typical distance of an estimate from the true value.",
    r"projection": "The scores whose differences come closest to the log-odds of wins of all pairs.",
    r"P [<=]": "How probable so large a difference would be if there were none.",
    r"told apart": "Tests show which one of the two is better.",
    r"critical value": "How many standard errors an interval reaches to each side.",
    r"bootstrap": "Limits from drawing again from the data.",
    r"[Ff]unctional": "The rule that turns preferences or scores of single prompts into one score of a model.",
    r"[Ee]stimator": "The method that computes scores from the data.",
}
_WORD = re.compile("|".join(f"({pattern})" for pattern in _GLOSSARY))
_HYPHEN = re.compile(r"(?<![\w.])-(?=[\d.])")


_FIGURES = 9
# Characters that could end the script element, or that old parsers read as the end of a line.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True)
class Masthead:
    """What the writer of a page says of it: title, source of the data, addresses and makers of models."""

    title: str
    source: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, str] = field(default_factory=dict)

    def check(self, models: Collection[str]) -> None:
        """Raise where a text is none, or a name is not that of a model."""
        check_text("title", self.title)
        check_text("source", self.source)
        for option, given in {"links": self.links, "group": self.group}.items():
            check_type(option, given, Mapping, "a dictionary with a text for each model")
            for name, text in given.items():
                check_text(f"{option}[{name!r}]", text)
                if name not in models:
                    raise OptionError(f"{option}= names {name!r}, which the page lacks; models: {listed(models, 25)}")
                if option == "links" and not text.startswith(("https://", "http://")):
                    raise OptionError(f"links[{name!r}] is {text!r}; an address begins with https:// or http://")

    @property
    def makers(self) -> list[str]:
        """The makers, those with the most models first."""
        return [maker for maker, _ in Counter(self.group.values()).most_common()]

    def colour(self, model: str) -> str:
        """Return the class of the colour of a model's maker."""
        return f"m{min(self.makers.index(self.group[model]), _COLOURS)}" if model in self.group else ""


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard of a page.

    name: Text of the leaderboard's tab.
    level: The level of confidence, with critical value and separation.
    tests: Two-sided max-t tests of all differences: the best model with each of the others, then the second best with
        each of those below it, and so on. None where there are no intervals or no models.
    is_explained: Whether the page explains method, assumptions and diagnostics below this leaderboard.
    sections: Titles, pictures (if any), tables and notes of further sections.
    about: A sentence below the leaderboard's title; may be empty.
    p_mean (K,): Adjusted p-values of the test that a score is the mean, where the page shows leaderboards side by side.
    """

    name: str
    results: Estimates
    level: phrases.SummaryLevel
    tests: PairTests | None
    is_explained: bool = True
    sections: tuple[tuple[str, str, Summary, str], ...] = ()
    about: str = ""
    p_mean: FloatArray | None = None

    @property
    def order(self) -> IntArray:
        """Places of the estimates in the order of the page: the best model first; outputs keep their order.

        Models without a vote in a group have no place.
        """
        if not self.results.of_models:
            return np.arange(len(self.results.names))
        best_first = np.argsort(-self.results.merit, kind="stable")
        return np.asarray(best_first[~self.results.is_unseen[best_first]])

    @property
    def paired(self) -> IntArray:
        """Places of the models between which the page has tests: all, or of many models the best."""
        return self.order if len(self.order) <= _MOST_PAIRED else self.order[:_PAIRED_OF_MANY]

    @property
    def size(self) -> str:
        """How many prompts there are, in a few words for the head of a column."""
        return phrases.counted(self.results.description.n_contexts - self.results.description.n_unlabelled, "prompt")

    @property
    def is_small(self) -> bool:
        """Whether there are few prompts, or clusters."""
        return phrases.independent_prompts(self.results) < FEW_UNITS


def check_page_extra() -> None:
    """Raise where the library that fills templates is not installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("a page needs Jinja2: pip install 'dmlrank[report]'") from None


def write_page(
    path: str | os.PathLike[str] | None,
    masthead: Masthead,
    boards: Sequence[Board],
    overview: Sequence[Summary] = (),
    *,
    problems: Sequence[str] | None = None,
    side_by_side: str = "",
) -> str:
    """Write one HTML file with leaderboards and return its path, or its text where the path is None.

    Several leaderboards stand behind tabs; with ``side_by_side``, what they differ in, the first tab has one table of
    them.
    The file needs no network: its content security policy allows its own style and script, known by their hashes, and
    nothing else. Names are escaped. Without JavaScript all tables, plots and explanations can be read.
    """
    check_page_extra()
    masthead.check({name for board in boards for name in board.results.names})
    from jinja2 import Environment, StrictUndefined

    subject = "" if side_by_side or not boards else measure(boards[0].results)
    if side_by_side:
        measures = dict.fromkeys(_measures(boards))
        better = {better_words(board.results)[:-1].lower() for board in boards}
        what = ", ".join(filter(None, (" and ".join(measures), side_by_side)))
        subject = "; ".join([what, *(better if len(better) == 1 else ())])
    title = printable(": ".join(filter(None, (masthead.title, subject))))
    views = [_view(board, masthead, number) for number, board in enumerate(boards)]
    # Where the line of reference stands in the rows of each leaderboard.
    places = "".join(f"#b{number}{{--r:{view['reference']}}}" for number, view in enumerate(views) if view["reference"])
    style, script = _compact(_asset("page.css")) + places, _compact(_asset("page.js"))
    # This style, this script, an empty icon, and nothing else.
    style_hash, script_hash = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script)
    )
    policy = f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    data: dict[str, object] = {"title": title, "boards": [board_data(board) for board in boards]}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["explained"] = _explained
    text = environment.from_string(_asset("page.html")).render(
        title=title,
        name=masthead.title,
        subject=subject,
        lead=_lead(masthead, boards),
        makers=[(f"m{min(n, _COLOURS)}", maker) for n, maker in enumerate(masthead.makers)],
        style=style,
        script=script,
        policy=policy,
        # JSON that is safe within a script element: ASCII without <, > and &.
        data=json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES),
        boards=views,
        overview=[_overview(summary) for summary in overview],
        grid=_grid(boards, masthead) if side_by_side else None,
        paper=_PAPER,
        address=_ADDRESS,
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


def _lead(masthead: Masthead, boards: Sequence[Board]) -> str:
    """Return what rare scores are, the source of the data, and their days, or else the day of the fit."""
    parts, dates = [], set()
    for e in (board.results for board in boards):
        # Names of other scores do not say what these are.
        rare = e.of_models and e.functional not in _PLAIN
        parts += [score_words(e).partition(";")[0].removesuffix(f", {e.scale.name}")] * rare
        period = " to ".join(dict.fromkeys(e.description.period))
        dates.add(f"Data of {period}" if period else f"Computed on {e.description.date}")
    parts += [f"Source: {masthead.source}"] * bool(masthead.source)
    return " \u00b7 ".join([*dict.fromkeys(parts), *(dates if len(dates) == 1 else ())])


def _view(board: Board, masthead: Masthead, number: int) -> Mapping[str, object]:
    """Return what the template shows of a leaderboard."""
    results, level, order = board.results, board.level, board.order
    subject = Subject(results, level, board.tests, on_page=True)
    marked = phrases.models_to_mark(results) if results.of_models else []
    found = leaderboard_columns(results, level)
    found |= {"rank": found["rank_set"]} if "rank_set" in found else {}
    found["name"] = replace(found["name"], explanation=_OF_NAME * (level.separation is not None))
    columns = [(name, found[name]) for name in _COLUMNS if name in found]
    heads = [(_COLUMNS[name], column.title, column.explanation, column.ascending) for name, column in columns]
    texts = [(name, column.page_cells) for name, column in columns]
    cells = [[(*of_column[j], _COLUMNS[name]) for name, of_column in texts] for j in order]
    reference = ""
    if results.has_intervals:
        low, high = results.intervals(level.critical)
        axis = Axis.of(np.array(ends_of_axis(low[order], high[order], np.isin(results.names, marked)[order])))
        reference = axis.at(float(results.estimate[order].mean())) * (results.of_models and len(order) > 1)
        place = [head[0] for head in heads].index("score") + 1
        heads.insert(place, ("iv", axis.head(), "The line is the mean of the models." * bool(reference), True))
        for row, j in zip(cells, order, strict=True):
            row.insert(place, (axis.mark(results.estimate[j], low[j], high[j]), f"{low[j]:.6g}", "iv"))
    chips = _standing(board, marked)
    names = [results.names[j] for j in order]
    says = short_facts(subject, FIRST)
    said = headline(results, level) or (says or [""])[0]
    few = f" Only {board.size}." if board.is_small and results.has_intervals else ""
    sections = explanations(subject) if board.is_explained else ()
    # The formula of the score in one sentence, and what a lead of log-odds means.
    facts = [*long_facts(subject, SCORES)[:2], phrases.as_sentence(score_words(results).partition("; ")[2])]
    facts += [text for text in short_facts(subject, SCORES, PART) if not text.startswith("Scores:")]
    below = filter(None, [*says, f"{_size(results)}.", *facts])
    return {
        "id": f"b{number}",
        "name": board.name,
        "measure": measure(results),
        "facts": fit_facts(results),
        "about": undirected(board.about),
        "reason": phrases.without_code(phrases.as_sentence(results.why_no_intervals)),
        "of_models": results.of_models,
        "sorted": ("descending" if results.sign > 0 else "ascending") * results.of_models,
        "doubted": " ".join(phrases.doubt_note(results)),
        "warnings": [_said(phrases.without_code(text)) for text in fit_warnings(results)],
        "headline": _said(phrases.without_code(said + few)),
        "more": [_said(phrases.without_code(text)) for text in dict.fromkeys(below) if text != said],
        "heads": heads,
        "rows": [
            (masthead.colour(name), name in marked, chip, masthead.links.get(name), masthead.group.get(name), row)
            for name, chip, row in zip(names, chips, cells, strict=True)
        ],
        "has_pairs": board.tests is not None,
        "reference": reference,
        "n_paired": len(board.paired),
        "further": [(title, picture, _overview(table), _said(text)) for title, picture, table, text in board.sections],
        "confidence": level.confidence,
        "sections": [(title, [_said(phrases.without_code(text)) for text in texts]) for title, texts in sections],
    }


def _standing(board: Board, marked: Collection[str]) -> list[tuple[str, str]]:
    """Return class and text of what is shown of each model's place, in the order of the table."""
    above = board.level.separation.above[np.ix_(board.order, board.order)] if board.level.separation else None
    best = np.zeros(len(board.order), dtype=int) if above is None else rank_bounds(above)[0]
    chips = {0: ("", ""), 1: ("first", "tied for first" if (best == 1).sum() > 1 else "first")}
    return [
        ("few", "little data")
        if board.results.names[j] in marked
        else chips.get(place, ("", f"shown worse than {place - 1} other{'s' * (place > 2)}"))
        for j, place in zip(board.order, best.tolist(), strict=True)
    ]


def _measures(boards: Sequence[Board]) -> list[str]:
    """Return what each leaderboard measures; empty where its name says it."""
    measures = [score_head(board.results, False) for board in boards]
    return [""] * len(boards) if measures == [board.name for board in boards] else measures


def _grid(boards: Sequence[Board], masthead: Masthead) -> Mapping[str, object]:
    """Return the table of several leaderboards side by side: a row per model, a column per leaderboard."""
    models = dict.fromkeys(board.results.models[j] for board in boards for j in board.order)
    measures = _measures(boards)
    is_one, columns, heads = len(set(measures)) == 1, [], []
    for board, what in zip(boards, measures, strict=True):
        results, cells = board.results, dict[str, tuple[str, ...]]()
        digits = min(score_digits(one.results) for one in (boards if is_one and measures[0] else [board]))
        low, high = results.intervals(board.level.critical)
        best = rank_bounds(board.level.separation.above)[0] if board.level.separation else np.zeros(len(results.models))
        is_first = (best == 1) & (0 < (best == 1).sum() <= _MOST_TIED)
        side = results.sign * np.sign(results.neutral_statistics())
        shown = np.zeros(len(side), dtype=bool) if board.p_mean is None else board.p_mean <= board.level.alpha
        for j in board.order:
            kind = ("a" if side[j] > 0 else "b") * bool(shown[j]) + " top" * bool(is_first[j]) + " few" * board.is_small
            ends = " to ".join(number_text(end, digits) for end in (low[j], high[j])) if results.has_intervals else ""
            limits = ends if low[j] < 0 else ends.replace(" to ", "\u2013")
            score = float(results.estimate[j])
            cells[results.models[j]] = (number_text(score, digits), f"{score:.6g}", kind, limits)
        # Where all models have low scores, the prompts are hard.
        mean = f"mean {number_text(float(results.estimate[board.order].mean()), digits)}" * results.are_means
        lines = filter(None, (board.size, mean, "" if is_one else what))
        heads.append((board.name, list(lines), board.is_small))
        columns.append(cells)
    rows = [(name, masthead.colour(name), [of.get(name, ("\u2013", "", "", "")) for of in columns]) for name in models]
    return {"rows": rows, "heads": heads, "confidence": boards[0].level.confidence}


def _explained(texts: Sequence[str]) -> list[str]:
    """Return the texts of a section as HTML, in which the first one of each word of the glossary explains itself."""
    seen = set[str]()

    def explain(match: re.Match[str]) -> str:
        place = next(number for number, part in enumerate(match.groups()) if part)
        pattern = list(_GLOSSARY)[place]
        if pattern in seen:
            return match[0]
        seen.add(pattern)
        return f'<dfn tabindex="0">{match[0]}<span> ({_GLOSSARY[pattern][:-1]})</span></dfn>'

    return [_WORD.sub(explain, html.escape(text, quote=False)) for text in texts]


def _said(text: str) -> str:
    """Return a text as a page shows it: without marks of direction, and with minus signs before numbers."""
    return undirected(_HYPHEN.sub("\u2212", text))


def _size(results: Estimates) -> str:
    """Return how many votes the scores rest on, of how many rows or on how many prompts."""
    d, votes = results.description, results.votes
    n_used = d.n_votes if votes is None or results.are_means else votes.n_used
    on = f" on {d.n_contexts - d.n_unlabelled:,} {'prompts' if d.context else 'rows'}"
    if d.rows_lost and not results.part and n_used < d.n_rows:
        used = phrases.counted(n_used, results.counts) + on * bool(d.context)
        return f"{used} used, of {d.n_rows:,} rows (see Data below)"
    return f"{phrases.counted(d.n_votes, results.counts)}{on}"


def _overview(summary: Summary) -> Mapping[str, object]:
    """Return what the template shows of a table of several leaderboards."""
    columns = [list(filter(None, cells)) for cells in zip(*summary.rows, strict=True)][1:]
    return {
        "title": summary.title,
        "row_head": summary.row_head.capitalize(),
        "heads": [(head.replace("adj. P", "P of all rows at once"), span) for head, span in summary.columns],
        "rows": [
            [
                (inert(row[0]), "", ""),
                *(
                    (_HYPHEN.sub("\u2212", cell), key := _sort_key(cell), "" if key or not cell else "l")
                    for cell in row[1:]
                ),
            ]
            for row in summary.rows
        ],
        # Columns of text, which are aligned left.
        "texts": [bool(cells) and not any(map(_sort_key, cells)) for cells in columns[: len(summary.columns)]],
        # One line, and what is folded below it.
        "news": [
            _said(phrases.without_code(part.strip()))
            for note in summary.notes
            if note.startswith(phrases.NEWS)
            for part in re.split(r"\n" if "\n" in note else r"(?<=\.) (?=[A-Z])", note, maxsplit=1)
        ],
        "notes": [_said(phrases.without_code(note)) for note in summary.notes if not note.startswith(phrases.NEWS)],
        "facts": summary.facts(),
    }


def _sort_key(cell: str) -> str:
    """Return the number at the start of a cell; empty where there is none."""
    match = _NUMBER.match(cell.replace(",", ""))
    return match[1].replace("\u2212", "-") if match else ""


# --- the numbers for the page's scripts -------------------------------------------------------------------------------


def board_data(board: Board) -> dict[str, object]:
    """Return the numbers of a leaderboard for the page's scripts, by column; the table has the names."""
    results, order, level = board.results, board.order, board.level
    low, high = results.intervals(level.critical)
    data: dict[str, object] = {
        "name": printable(board.name),
        "score": _rounded(results.estimate[order]),
        "digits": score_digits(results),
        "level": board.level.confidence,
        "ofModels": results.of_models,
        "sign": results.sign,
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
    if board.tests is None and results.has_intervals:
        # Leaderboards have the standard errors of all differences instead, which the covariance follows from.
        matrix = results.covariance.matrix[np.ix_(order, order)]
        data["covariance"] = [list(_rounded(row)) for row in matrix]
    if board.tests is not None and board.level.separation is not None:
        kept, subject = np.isin(board.tests.first, board.paired), Subject(results, level, board.tests)
        kept &= np.isin(board.tests.second, board.paired)
        tests = board.tests.only(kept)
        separated = board.level.separation.separated[tests.first, tests.second]
        # Numbers of 32 bits, the low byte first, which keep seven digits; truth values as bits, the lowest bit first.
        # Limits are given where they are not those of one critical value.
        names = {"se": "std_error", "p": "p_adjusted"}
        half = tests.critical * tests.std_error
        if not np.allclose(tests.conf_high - tests.estimate, half, rtol=1e-6, equal_nan=True):
            names |= {"low": "conf_low", "high": "conf_high"}
        packed = {name: getattr(tests, of).astype("<f4") for name, of in names.items()}
        packed |= {"separated": np.packbits(separated, bitorder="little")}
        data["method"] = (
            f"Intervals of scores hold jointly ({subject['jointly_by']}). Intervals and p-values of differences hold "
            f"for all pairs ({subject['tests_of_pairs']}."
        )
        data["pairs"] = {
            "count": len(board.paired),
            "critical": _finite(board.tests.critical),
            **{name: base64.b64encode(part.tobytes()).decode() for name, part in packed.items()},
        }
    return data


def _about(board: Board) -> Mapping[str, object]:
    """Return what identifies the fit in downloaded files."""
    e, alpha = board.results, board.level.alpha
    facts = {label.removesuffix(":"): value for label, value in fit_facts(e)} | {"Formula": e.description.formula}
    facts |= {"Part": e.part, "Looks": e.looks.strip(), "Constraint": e.reason, "No intervals": e.why_no_intervals}
    numbers = {"level": float(f"{1 - alpha:.12g}"), "alpha": alpha, "critical": _finite(board.level.critical)}
    texts = {label: printable(text) for label, text in facts.items() if text}
    return texts | numbers | {"version": e.description.version}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _rounded(values: FloatArray) -> Sequence[float | None]:
    """Return numbers with nine significant figures; None where a number is not finite."""
    return [float(f"{value:.{_FIGURES}g}") if np.isfinite(value) else None for value in values]

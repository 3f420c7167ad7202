"""One leaderboard of a page: results, level and tests, the rows of its table, and the numbers for the scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

from ..._utils.number_text import decimals, fewest_decimals
from ...data.preferences import FloatArray, IntArray
from ...exceptions import OptionError
from ...fit.estimates import Estimates
from ...inference.ranks import abbreviate_letters, rank_bounds, ranks_of
from ...inference.simultaneous import PairTests
from ..leaderboard import votes_of
from ..statements import SummaryLevel
from .page_text import printable

_MINUS = "\u2212"


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard of a page.

    name: Text of the leaderboard's tab.
    level: The level of confidence, with critical value, separation and letters.
    tests: Two-sided max-t tests of all differences: the best model with each of the others, then the second best with
        each of those below it, and so on. None where there are no intervals or no models.
    is_explained: Whether the page explains method, assumptions and diagnostics below this leaderboard.
    remarks: Titles and paragraphs of further sections below the leaderboard.
    """

    name: str
    results: Estimates
    level: SummaryLevel
    tests: PairTests | None
    is_explained: bool = True
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        if self.tests is not None:
            first, second = np.triu_indices(len(self.order), 1)
            if not (self.tests.first == self.order[first]).all() or not (self.tests.second == self.order[second]).all():
                raise OptionError("tests of a page must compare all models, the best first")

    @property
    def order(self) -> IntArray:
        """Places of the estimates in the order of the page: the best model first; outputs keep their order."""
        if not self.results.of_models:
            return np.arange(len(self.results.names))
        return np.argsort(-self.results.estimate, kind="stable")

    @property
    def digits(self) -> int:
        """Decimals of scores and differences."""
        return decimals(self.results.covariance.std_errors, fewest=fewest_decimals(self.results.scale.natural))

    @property
    def separated(self) -> NDArray[np.bool_] | None:
        """Whether each tested pair is separated, in the order of the tests; None where there are no tests."""
        if self.tests is None or self.level.separation is None:
            return None
        return self.level.separation.separated[self.tests.first, self.tests.second]

    @property
    def has_letters(self) -> bool:
        """Whether there is a compact letter display; there is none where it would have too many groups."""
        return any(self.level.letters)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper limits of the scores, in the order of the estimates; NaN without intervals."""
        return self.results.intervals(self.level.critical)

    def rank_sets(self) -> tuple[IntArray, IntArray] | None:
        """Return the best and worst rank of each model's rank set; None where there are no rank sets."""
        return None if self.level.separation is None else rank_bounds(self.level.separation.above)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    text: What the cell shows.
    key: Number by which the column is sorted; empty where the text itself is sorted.
    kind: "name" for the row's head, "text" for text aligned left, empty for numbers.
    """

    text: str
    key: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    explanation: What the column shows, in a sentence; may be empty.
    ascending: Whether the first click on the head sorts from the smallest to the largest.
    kind: As in :class:`Cell`.
    """

    head: str
    explanation: str = ""
    ascending: bool = False
    kind: str = ""


def number_text(value: float, digits: int) -> str:
    """Return a number with this number of decimals and a minus sign that is not a hyphen."""
    text = f"{value:.{digits}f}"
    # A negative number that is rounded to zero has no sign.
    return text.replace("-", _MINUS) if float(text) else text.lstrip("-")


def interval_text(low: float, high: float, digits: int) -> str:
    """Return an interval as text."""
    return f"{number_text(low, digits)} to {number_text(high, digits)}"


def table_columns(board: Board) -> tuple[Column, ...]:
    """Return the columns of the leaderboard's table."""
    results, confidence = board.results, board.level.confidence
    if not results.of_models:
        score = (Column("Output", ascending=True, kind="name"), Column("Value", "The estimate"))
        return (*score, Column(f"{confidence} interval", "Simultaneous interval")) if results.has_intervals else score
    rank = "Rank by score" if results.has_intervals else "Order of the scores, which no test supports"
    columns = [Column("Rank" if results.has_intervals else "Order", rank, ascending=True)]
    if results.has_intervals:
        columns.append(Column("Rank set", "Ranks that the data leave possible", ascending=True))
    columns += [Column("Model", ascending=True, kind="name"), Column("Score", "Estimated score")]
    if results.has_intervals:
        columns.append(Column(f"{confidence} interval", "Simultaneous interval of the score"))
        if board.has_letters:
            columns.append(Column("Group", "Models without a common letter are separated", ascending=True, kind="text"))
    columns.append(Column("Win share", "Share of comparisons won"))
    if results.votes is not None:
        columns.append(Column("Votes", "Votes on the model's comparisons"))
    return tuple(columns)


def table_rows(board: Board) -> list[list[Cell]]:
    """Return the rows of the leaderboard's table, a cell for each of :func:`table_columns`."""
    results, digits, sets = board.results, board.digits, board.rank_sets()
    low, high = board.intervals()
    ranks = ranks_of(results.estimate)
    rows = []
    for j in board.order:
        score = _number_cell(results.estimate[j], digits)
        interval = [Cell(interval_text(low[j], high[j], digits), f"{low[j]:.6g}")] if results.has_intervals else []
        name = Cell(results.names[j], kind="name")
        if not results.of_models:
            rows.append([name, score, *interval])
            continue
        row = [Cell(str(ranks[j]))]
        if sets is not None:
            row.append(_rank_set_cell(int(sets[0][j]), int(sets[1][j])))
        row += [name, score, *interval]
        if sets is not None and board.has_letters:
            row.append(_group_cell(board.level.letters[j]))
        row.append(_number_cell(results.shares[j], 2))
        votes = votes_of(results, j)
        rows.append([*row, *(_votes_cell(text) for text in votes)])
    return rows


def _number_cell(value: float, digits: int) -> Cell:
    text = number_text(value, digits)
    return Cell(text, f"{value:.{digits}f}" if text.startswith(_MINUS) else "")


def _rank_set_cell(best: int, worst: int) -> Cell:
    """Return a rank set, which is sorted by its best and then by its worst rank."""
    return Cell(str(best) if best == worst else f"{best}\u2013{worst}", f"{best}.{worst:05d}")


def _group_cell(letters: str) -> Cell:
    """Return the groups of a model, which are sorted by the first and then by the last of them."""
    groups = letters.split(",") if "," in letters or letters.isdigit() else list(letters)
    first, last = (int(name) if name.isdigit() else 1 + ascii_letters.index(name) for name in (groups[0], groups[-1]))
    return Cell(abbreviate_letters(letters), f"{first}.{last:04d}", "text")


def _votes_cell(text: str) -> Cell:
    plain = text.split("/")[0].replace(",", "")
    return Cell(text, "" if plain == text else plain)


_FIGURES = 9
# Characters that could end the script element, or that old parsers read as the end of a line.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def script_json(value: object) -> str:
    r"""Return a value as JSON that is safe within a ``script`` element: ASCII without ``<``, ``>`` and ``&``."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def content_hash(text: str) -> str:
    """Return the source expression of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def pack_floats(values: FloatArray) -> str:
    """Return numbers as base64 of their 32-bit floating-point form, low byte first; seven digits remain."""
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def pack_bits(values: NDArray[np.bool_]) -> str:
    """Return truth values as base64 of bits, the first value in the lowest bit of the first byte."""
    return base64.b64encode(np.packbits(values, bitorder="little").tobytes()).decode()


def board_data(board: Board) -> dict[str, object]:
    """Return the numbers of a leaderboard for the page's scripts: a list per column, in the order of the page.

    The scripts read the names, which may be long, from the table.
    """
    results, order = board.results, board.order
    low, high = board.intervals()
    data: dict[str, object] = {
        "name": printable(board.name),
        "score": _rounded(results.estimate[order]),
        "digits": board.digits,
        "level": board.level.confidence,
        "ofModels": results.of_models,
        "about": _about(board),
    }
    if results.has_intervals:
        data |= {"se": _rounded(results.std_errors[order]), "low": _rounded(low[order]), "high": _rounded(high[order])}
    if results.of_models:
        data["share"] = _rounded(results.shares[order])
    if results.of_models and results.votes is not None:
        data |= {"votes": results.votes.used[order].tolist(), "allVotes": results.votes.total[order].tolist()}
    sets = board.rank_sets()
    if sets is not None:
        data |= {
            "best": sets[0][order].tolist(),
            "worst": sets[1][order].tolist(),
            "group": [board.level.letters[j] for j in order],
        }
    if board.tests is None and results.has_intervals:
        # Leaderboards have the standard errors of all differences instead, which the covariance follows from.
        matrix = results.covariance.matrix[np.ix_(order, order)]
        data["covariance"] = [list(_rounded(row)) for row in matrix]
    if board.tests is not None and board.separated is not None:
        data["pairs"] = {
            "critical": None if np.isnan(board.tests.critical) else float(board.tests.critical),
            "se": pack_floats(board.tests.std_error),
            "p": pack_floats(board.tests.p_adjusted),
            "separated": pack_bits(board.separated),
        }
    return data


def _about(board: Board) -> Mapping[str, object]:
    """Return what identifies the fit in downloaded files."""
    results = board.results
    description, sequence = results.description, results.sequence
    looks: dict[str, object] = {}
    if sequence is not None:
        unit = printable(sequence.unit)
        looks = {"sequential": {"planned": sequence.planned, "start": sequence.start, "unit": unit}}
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
        "votes": description.n_votes,
        "level": float(f"{1 - board.level.alpha:.12g}"),
        "alpha": board.level.alpha,
        "critical": float(board.level.critical) if np.isfinite(board.level.critical) else None,
        "whyNoIntervals": printable(results.why_no_intervals),
        **looks,
        "seed": description.seed,
        "version": description.version,
    }


def _rounded(values: FloatArray) -> Sequence[float | None]:
    """Return numbers with nine significant figures; None where a number is not finite."""
    return [float(f"{value:.{_FIGURES}g}") if np.isfinite(value) else None for value in values]

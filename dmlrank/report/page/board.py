"""What one leaderboard of a page holds: its results, level and tests, and the rows of its table."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

from ..._utils.number_text import decimals, fewest_decimals
from ...data.preferences import FloatArray, IntArray
from ...exceptions import OptionError
from ...fit.estimates import Estimates
from ...inference.compact_letters import abbreviate_letters
from ...inference.pairwise import PairTests
from ...inference.ranks import rank_bounds, ranks_of
from ..fit_notes import SummaryLevel
from ..fit_summary import votes_of

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

"""Style columns: counts of form in texts, and the differences in style of the two answers of a vote."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from .._utils.argument_checks import as_names, checked
from ..exceptions import ColumnError, DataError, OptionTypeError, listed, named_rows, shown
from .arrays import AnyArray, FloatArray
from .frames import column_names, require_columns, take_columns
from .preferences import PreferenceData

# The measures of the style of one answer by name, such as the number of headers.
Measures: TypeAlias = dict[str, float]

_METADATA = "conv_metadata"
# Names of the counts in the arenas' metadata; {} stands for the side, a or b.
_METADATA_KEYS = {
    "length": "sum_assistant_{}_tokens",
    "headers": "header_count_{}",
    "bold": "bold_count_{}",
    "lists": "list_count_{}",
}
_CODE_BLOCK = re.compile(r"```[^`]*```")
_HEADER = re.compile(r"^#{1,6}\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")
_LIST_ITEM = re.compile(r"^\s*(?:\d+\.|[-*+])\s", re.MULTILINE)
_LENGTHS = {"length": "log_length", "words": "log_words"}


@checked
def style_columns(
    frame: object, answers: str | Sequence[str] = ("answer_a", "answer_b"), *, replace: bool = False
) -> pd.DataFrame:
    """Add columns with the style of the first answer minus the style of the second answer.

    Headers, bold passages, list items and code blocks are counted as public arenas count them, the former three without
    code blocks. All columns change their sign where the two answers are exchanged.

    Parameters
    ----------
    frame : frame
        One row per vote: a pandas or polars DataFrame, a pyarrow Table or a DuckDB relation. The frame is not changed.
    answers : pair of str, or str
        Names of the columns with the answers that were shown first and second. An answer is a text, or a conversation:
        a list of turns ``{"role", "content"}``, of which those of the ``assistant`` are joined by line breaks. A single
        name is that of a column with counts, as LMArena publishes them in ``conv_metadata``, which is used where the
        frame lacks the default columns.
    replace : bool
        Whether columns of the frame with the same names are replaced; otherwise they are an error.

    Returns
    -------
    pandas.DataFrame
        A copy of the frame with additional columns. A row in which an answer is missing has NaN in them.

        - ``log_length``: log(a / b), with a and b the numbers of characters of the two answers (of tokens, where counts
          are read). An empty answer counts as one character.
        - ``log_words``: the same for the numbers of words, which are separated by white space; not of counts.
        - ``headers``, ``bold``, ``lists``: (a - b) / (a + b + 1), with a and b the counts of the two answers.
        - ``code_blocks``: the same for the number of blocks between triple backquotes; only for texts.

    Raises
    ------
    ColumnError, DataError
        If a column is not there, or there already, or a cell is neither a text, a conversation nor counts.

    Notes
    -----
    The counting rules are those of FastChat's ``add_markdown_info.py``: a header is one to six ``#`` and white space at
    the beginning of a line; a bold passage is text in a single line between ``**`` or between ``__``; a list item is
    ``-``, ``*``, ``+`` or a number with a full stop, then white space, at the beginning of a line; a code block
    contains no backquote. One detail differs: FastChat deletes the text of a code block wherever else it occurs in the
    answer, this function deletes the blocks alone.

    References
    ----------
    Li, Angelopoulos and Chiang (2024), Does style matter? Disentangling style and substance in Chatbot Arena,
    https://lmsys.org/blog/2024-08-28-style-control/. FastChat, ``fastchat/serve/monitor/add_markdown_info.py``.

    Examples
    --------
    >>> battles = pd.DataFrame({"answer_a": ["**Yes.**", "No"], "answer_b": ["# No", "No"]})
    >>> style_columns(battles)[["log_length", "headers", "bold"]].round(3)
       log_length  headers  bold
    0       0.693     -0.5   0.5
    1       0.000      0.0   0.0
    """
    available, names = column_names(frame), as_names(answers, "answers")
    if len(names) != (1 if isinstance(answers, str) else 2):
        raise OptionTypeError(f"answers={answers!r} is not allowed: name two columns of answers, or one of counts")
    is_default = names == ("answer_a", "answer_b")
    if is_default and _METADATA in available and not set(names) <= set(available):
        names = (_METADATA,)
    require_columns(names, available, "answers")
    table = take_columns(frame, available)
    if len(names) == 1:
        first, second = (_read_counts(table[names[0]], side) for side in ("a", "b"))
    else:
        first, second = (_map_cells(table[name], _measure_answer) for name in names)
    style = {}
    for name, a in first.items():
        b = second[name]
        if name in _LENGTHS:
            style[_LENGTHS[name]] = np.log(np.maximum(a, 1)) - np.log(np.maximum(b, 1))
        else:
            style[name] = (a - b) / (a + b + 1)
    existing = [name for name in style if name in table]
    if existing and not replace:
        raise ColumnError(
            f"the frame has columns {listed(existing)} already; pass replace=True to compute them again, or rename them"
        )
    return table.assign(**style)


def _map_cells(column: pd.Series, measure: Callable[[object], Measures]) -> dict[str, AnyArray]:
    """Return the measures of all cells by name, (rows,) each; NaN where a cell is missing."""
    is_missing = [cell is None or (isinstance(cell, float) and np.isnan(cell)) for cell in column]
    measures = [None if missing else measure(cell) for cell, missing in zip(column, is_missing, strict=True)]
    names = next((list(one) for one in measures if one is not None), None)
    if names is None:
        raise DataError(f"all cells of column {column.name!r} are missing: it holds no answers whose style is measured")
    return {name: np.array([np.nan if one is None else one[name] for one in measures]) for name in names}


def _measure_answer(answer: object) -> Measures:
    """Return length, words and the counts of one answer, a text or a conversation."""
    text = answer if isinstance(answer, str) else "\n".join(turn_texts(answer, "assistant"))
    without_code, n_code_blocks = _CODE_BLOCK.subn("", text)
    return {
        "length": len(text),
        "words": len(text.split()),
        "headers": len(_HEADER.findall(without_code)),
        "bold": len(_BOLD.findall(without_code)),
        "lists": len(_LIST_ITEM.findall(without_code)),
        "code_blocks": n_code_blocks,
    }


def turn_texts(conversation: object, role: str) -> list[str]:
    """Return the texts of the turns of a role, without parts that have none; a turn without role is the assistant's."""
    texts = []
    for turn in conversation if isinstance(conversation, list | tuple | np.ndarray) else [None]:
        content = turn.get("content", 0) if isinstance(turn, Mapping) else 0
        cells = content if isinstance(content, list | tuple | np.ndarray) else [content]
        parts: list[Any] = [part.get("text") if isinstance(part, Mapping) else part for part in cells]
        if not isinstance(turn, Mapping) or not all(part is None or isinstance(part, str) for part in parts):
            raise DataError(
                f"an answer is {str(conversation)[:80]!r}; it must be a text, or a list of turns {{'role': ..., "
                f"'content': ...}}"
            )
        if turn.get("role", "assistant") == role:
            texts.append("\n".join(part for part in parts if part is not None))
    return texts


def _read_counts(column: pd.Series, side: str) -> dict[str, AnyArray]:
    """Return the counts of one side's answers from a column of mappings, (rows,) each."""
    keys = {name: key.format(side) for name, key in _METADATA_KEYS.items()}

    def counts(cell: object) -> Measures:
        if not isinstance(cell, Mapping):
            raise DataError(
                f"column {column.name!r} holds {shown(cell, 80)}; it must hold mappings of {keys['length']!r}, ..."
            )
        totals = {}
        for name, key in keys.items():
            if key not in cell:
                raise DataError(f"a cell of column {column.name!r} lacks {key!r}; it has {listed(cell)}")
            # A count is a number, or a mapping whose values are added up.
            count = cell[key]
            values = [value for value in count.values() if value is not None] if isinstance(count, Mapping) else [count]
            if not all(isinstance(value, int | float | np.integer | np.floating | None) for value in values):
                raise DataError(f"{key!r} of a cell of column {column.name!r} is {count!r}; a count must be a number")
            totals[name] = float(sum((np.nan if value is None else float(value) for value in values), 0.0))
        return totals

    return _map_cells(column, counts)


# The largest style difference; the largest of a column is at least its inverse. Rounding in a covariance of scores and
# slopes of other orders of magnitude is larger than its smallest entries.
_LARGEST = 1e9
# A style column with a smaller standard deviation than this multiple of its largest value does not vary.
_TINY = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class StyleDifferences:
    """Style differences D of the answers of every vote: item ``first`` of the vote's cell minus item ``second``.

    names: Names of the r columns.
    values (v, r): Differences by vote. Where display order does not matter, the sign of votes in flipped cells is
        changed, so that the differences refer to the cell's items.
    """

    names: tuple[str, ...]
    values: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Root mean square of every column over the votes, (r,)."""
        return np.asarray(np.sqrt(np.square(self.values).mean(axis=0)))


def read_style_differences(data: PreferenceData, names: Sequence[str]) -> StyleDifferences:
    """Return the style differences of every vote."""
    values = np.empty((data.n_votes, len(names)))
    for place, name in enumerate(names):
        cells = data.columns[name][data.vote_row]
        numbers = data.columns.numbers(name)[data.vote_row]
        wrong = ~(np.abs(numbers) <= _LARGEST)
        if wrong.any():
            rows = named_rows(wrong, data.row_index[data.vote_row])
            raise DataError(
                f"style column {name!r} holds {shown(cells[wrong][0], 80)} in {rows}; allowed: finite numbers up to "
                f"{_LARGEST:g}, in another unit"
            )
        size = float(np.abs(numbers).max())
        if 0 < size < 1 / _LARGEST:
            raise DataError(
                f"style column {name!r} is at most {size:g}; use a unit in which it reaches {1 / _LARGEST:g}"
            )
        if numbers.std() <= _TINY * size:
            raise DataError(f"style column {name!r} is {numbers[0]:g} for all {data.n_votes:,} votes; leave it out")
        values[:, place] = np.where(data.cells.flipped[data.vote_cell], -numbers, numbers)
    scaled = values / np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    if np.linalg.matrix_rank(scaled.T @ scaled / len(scaled), hermitian=True, tol=1e-8) < len(names):
        raise DataError(f"the style columns {listed(names)} are linearly dependent; leave one out")
    return StyleDifferences(tuple(names), values)

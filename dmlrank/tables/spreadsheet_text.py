"""Protection of texts in CSV files that a spreadsheet would run as formulas, and its removal."""

from __future__ import annotations

import re

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

# Characters that start a formula in spreadsheets, after any number of apostrophes that this module has put before them.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff0b\uff1d\uff20\uff0d]")


def not_a_formula(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet runs: an apostrophe precedes what looks like a formula.

    Numbers and single signs, such as the "-" of an empty cell, are returned as they are. :func:`as_written` is the
    inverse.
    """
    return f"'{text}" if _FORMULA.match(text) and not _is_harmless(text) else text


def safe_csv(frame: pd.DataFrame, index_label: str | None = None) -> str:
    """Return a frame as CSV in which no name is a formula; with ``index_label`` the index is a column of this name."""
    table = frame if index_label is None else frame.rename_axis(index_label).reset_index()
    texts = {
        name: table[name].map(lambda cell: not_a_formula(cell) if isinstance(cell, str) else cell)
        for name in table.columns
        if not (is_numeric_dtype(table[name].dtype) or is_bool_dtype(table[name].dtype))
    }
    heads = [not_a_formula(name) if isinstance(name, str) else name for name in table.columns]
    return table.assign(**texts).set_axis(heads, axis=1).to_csv(index=False)


def as_written(text: str) -> str:
    """Return a cell without the apostrophe that :func:`not_a_formula` puts before it."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) and not _is_harmless(text[1:]) else text


def _is_harmless(text: str) -> bool:
    """Whether a cell that begins like a formula is a number or a single sign."""
    if len(text) == 1:
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True

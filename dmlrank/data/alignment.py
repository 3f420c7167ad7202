"""Alignment of the user's pandas objects by their index, so that a value stays with its row, context or model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pandas as pd

from ..exceptions import DataError, OptionError, listed
from .arrays import AnyArray
from .plain_columns import name_of

T = TypeVar("T")


def row_index(data: object, n_rows: int) -> pd.Index:
    """Return the index of a pandas frame, and an index 0, 1, ... for a frame of any other kind."""
    return data.index if isinstance(data, pd.DataFrame) else pd.RangeIndex(n_rows)


def align_by_index(value: T, index: pd.Index, *, name: str, of: str) -> T | pd.Series | pd.DataFrame:
    """Return a Series or DataFrame with its rows in the order of ``index``; return anything else as it is."""
    if not isinstance(value, pd.Series | pd.DataFrame) or value.index.equals(index):
        return value
    if value.index.is_unique and index.is_unique:
        place = value.index.get_indexer(index)
        if (place >= 0).all():
            return value.iloc[place]
    raise DataError(
        f"{name} is a {type(value).__name__} whose index does not have the labels of {of}: the index has "
        f"{listed(value.index, 3)}, {of} have {listed(index, 3)}; set the index to these labels (each once), or pass "
        f"{name}.to_numpy() with the values in the order of {of}"
    )


def align_pairs_by_name(value: T, items: Sequence[str], *, name: str) -> T | AnyArray:
    """A DataFrame about pairs of models as an array in the order of the models; return anything else as it is."""
    if not isinstance(value, pd.DataFrame):
        return value
    places = []
    for side, labels in (("rows", value.index), ("columns", value.columns)):
        names = pd.Index([name_of(label) for label in labels])
        missing = [item for item in items if item not in names]
        if missing or not names.is_unique:
            finding = f"no {listed(missing)}" if missing else "a model twice"
            raise OptionError(
                f"{name} is a frame with {finding} among its {side} ({listed(names)}); its rows and its columns must "
                f"name every model once; an array (models, models) in their order, {listed(items)}, is allowed too"
            )
        places.append(names.get_indexer(pd.Index(items)))
    return value.to_numpy()[places[0]][:, places[1]]

"""Any eager frame at the door: the columns that are needed, as one pandas frame with plain numpy types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ..exceptions import ColumnError, DataError, FrameTypeError, listed, nearest


def column_names(data: Any) -> list[str]:
    """Names of the columns of an eager frame.

    Raises
    ------
    FrameTypeError
        If ``data`` is not a frame that can be read at once.
    DataError
        If a name stands for more than one column, or there are no rows.
    """
    frame = _eager(data)
    if isinstance(data, pd.DataFrame) and not data.columns.is_unique:
        repeated = data.columns[data.columns.duplicated()].unique()
        raise DataError(f"the frame has several columns named {listed(repeated)}; every column needs a name of its own")
    if len(frame) == 0:
        raise DataError("the frame has no rows; one row is one comparison")
    return [str(name) for name in frame.columns]


def take_columns(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """The named columns as a pandas frame with a fresh index and numpy types.

    Nullable integers and booleans become numbers (missing ones NaN), strings become objects with None where missing,
    categoricals keep their order and lose unused levels. The caller's frame is not changed.
    """
    frame = _eager(data).select(list(names)) if names else None
    if frame is None:
        return pd.DataFrame(index=pd.RangeIndex(len(_eager(data))))
    table = frame.to_pandas().reset_index(drop=True)
    return pd.DataFrame({name: _plain(table[name]) for name in names}, index=table.index)


def require_columns(names: Iterable[str], available: Sequence[str], purpose: str) -> None:
    """Raise :class:`ColumnError` for the first name that is not a column, with the nearest one that is."""
    for name in names:
        if name not in available:
            raise ColumnError(
                f"{purpose}: there is no column {name!r}{nearest(name, available)} (columns: {listed(available)})"
            )


def is_vector_column(column: pd.Series) -> bool:
    """Whether the cells of a column are themselves vectors, such as embeddings."""
    if column.dtype != object:
        return False
    known = column.dropna()
    return len(known) > 0 and isinstance(known.iloc[0], list | tuple | np.ndarray)


def stack_vectors(column: pd.Series) -> np.ndarray:
    """A column of equally long vectors as a float matrix (rows, length); missing cells are rows of NaN."""
    missing = column.isna().to_numpy()
    vectors = [np.asarray(cell, dtype=float) for cell in column[~missing]]
    lengths = {vector.shape for vector in vectors}
    if len(lengths) != 1 or vectors[0].ndim != 1:
        raise DataError(f"column {column.name!r} holds vectors of different shapes: {listed(sorted(lengths))}")
    stacked = np.full((len(column), len(vectors[0])), np.nan)
    stacked[~missing] = vectors
    return stacked


def _eager(data: Any) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        kind = f"{type(data).__module__}.{type(data).__name__}"
        raise FrameTypeError(f"data is a {kind}; needed is an eager frame such as a pandas DataFrame") from None


def _plain(column: pd.Series) -> pd.Series:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if isinstance(dtype, pd.DatetimeTZDtype) or np.dtype("M8") == getattr(dtype, "kind", None):
        return column
    if pd.api.types.is_extension_array_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        if pd.api.types.is_numeric_dtype(dtype):
            return column.astype(float) if column.isna().any() else pd.Series(np.asarray(column), name=column.name)
        values = column.astype(object)
        return values.where(values.notna(), None)
    return column

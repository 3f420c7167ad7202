"""Labels of pandas objects: what a caller's Series or frame says of a row, a context or a model stays with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..exceptions import DataError, OptionError, listed
from .frames import name_of


def row_labels(data: Any, n_rows: int) -> pd.Index:
    """Labels of the rows of a frame: the index of a pandas one, 0, 1, ... of any other."""
    return data.index if isinstance(data, pd.DataFrame) else pd.RangeIndex(n_rows)


def by_label(value: Any, labels: pd.Index, *, name: str, of: str) -> Any:
    """A Series or frame in the order of the labels; anything else as it is.

    Parameters
    ----------
    value : Series, DataFrame or anything else
    labels : Index
        Of what the value is about.
    name : str
        How the value is called, for the error.
    of : str
        What the labels are those of, for the error.

    Raises
    ------
    DataError
        If a label is not in the index, or labels are not unique and in another order.

    Examples
    --------
    >>> by_label(pd.Series([1, 2], ["b", "a"]), pd.Index(["a", "b"]), name="w", of="the prompts").tolist()
    [2, 1]
    """
    if not isinstance(value, pd.Series | pd.DataFrame) or value.index.equals(labels):
        return value
    if value.index.is_unique and labels.is_unique:
        place = value.index.get_indexer(labels)
        if (place >= 0).all():
            return value.iloc[place]
    raise DataError(
        f"{name} is a {type(value).__name__} whose index does not have the labels of {of}: it has "
        f"{listed(value.index, 3)}, these are {listed(labels, 3)}; give it their labels (each once), or pass "
        f"{name}.to_numpy(), in their order, which needs none"
    )


def square_by_name(value: Any, items: Sequence[str], *, name: str) -> Any:
    """A frame about pairs of models as an array in the order of the models, by its names; anything else as it is.

    Parameters
    ----------
    value : DataFrame or anything else
        With the models' names on both sides; others may be among them.
    items : sequence of str
    name : str
        How the value is called, for the error.

    Raises
    ------
    OptionError
        If a model is missing on a side, or is there twice.

    Examples
    --------
    >>> square_by_name(pd.DataFrame([[0, 1], [2, 0]], ["b", "a"], ["b", "a"]), ["a", "b"], name="w").tolist()
    [[0, 2], [1, 0]]
    """
    if not isinstance(value, pd.DataFrame):
        return value
    places = []
    for side, labels in (("rows", value.index), ("columns", value.columns)):
        names = pd.Index([name_of(label) for label in labels])
        missing = [item for item in items if item not in names]
        if missing or not names.is_unique:
            what = f"no {listed(missing)}" if missing else "a model twice"
            raise OptionError(
                f"{name} is a frame with {what} among its {side} ({listed(names)}); needed are the models on both "
                f"sides, or an array (models, models) in their order: {listed(items)}"
            )
        places.append(names.get_indexer(pd.Index(items)))
    return value.to_numpy()[places[0]][:, places[1]]

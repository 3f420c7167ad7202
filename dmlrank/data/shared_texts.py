"""Contexts that share a text: equal texts, embeddings or other features that are rich enough to tell texts apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from .._utils.warning_collection import warn
from ..exceptions import listed
from .columns import value_codes
from .formula.parse import read_by_functions
from .frames import each_vector, is_vector_column

IntArray = NDArray[np.intp]

# A text takes more values than this in many contexts, and in few contexts more than one for every two.
_VALUES = 50
# Columns of numbers, none of them whole in all contexts, that together tell texts apart as an embedding does.
_COLUMNS = 5

# Vectors that are looked at to see whether they hold fractions, and what hashes of columns are multiplied by.
_LOOKED_AT = 50
_PRIME = 1_099_511_628_211


@dataclass(frozen=True, slots=True, eq=False)
class SharedTexts:
    """Which contexts have the same text.

    Attributes
    ----------
    names : tuple of str
        Features that are the same.
    column : str or None
        The column of texts, where it is one.
    code : ndarray of int, shape (n,)
        Text of each context.
    is_known : bool
        Whether a warning about repeated values has been given already.
    """

    names: tuple[str, ...]
    column: str | None
    code: IntArray
    is_known: bool = False

    @property
    def n_different(self) -> int:
        """Number of different texts."""
        return int(self.code.max()) + 1

    @property
    def n_repeats(self) -> int:
        """Contexts beyond the first one with their text."""
        return len(self.code) - self.n_different

    def within(self, group: IntArray) -> bool:
        """Whether contexts with the same text are always in the same group, (n,)."""
        first = np.unique(self.code, return_index=True)[1]
        return bool((group == group[first][self.code]).all())


def find_shared_texts(features: str, columns: Mapping[str, Any]) -> SharedTexts | None:
    """The contexts with the same text; None where every context has its own, or no feature tells texts apart.

    Parameters
    ----------
    features : str
        As in the formula.
    columns : mapping
        What the features read, a value per context: Series or arrays.

    Examples
    --------
    >>> prompts = pd.Series(["sort a list", "write a poem", "sort a list"])
    >>> find_shared_texts("text(prompt, 2)", {"prompt": prompts}).code.tolist()
    [0, 1, 0]
    >>> find_shared_texts("C(prompt)", {"prompt": prompts}) is None
    True
    """
    read = read_by_functions(features)
    rich = {name: code for name, column in columns.items() if (code := _text_code(column, name in read)) is not None}
    numbers = [name for name, column in columns.items() if _is_fraction(column)]
    if len(numbers) >= _COLUMNS:
        several = [np.asarray(columns[name]) for name in numbers]
        missing = np.logical_and.reduce([np.isnan(column) for column in several])
        code = _own_where_missing(np.where(missing, -1, _joint_code(several)))
        rich |= {", ".join(numbers): code} if _is_rich(code) else {}
    if not rich:
        return None
    codes = np.stack(list(rich.values()), axis=1)
    code = codes[:, 0] if len(rich) == 1 else value_codes(codes)
    if code.max(initial=-1) + 1 == len(code):
        return None
    of_texts = [name for name in rich if name in columns and _is_text(columns[name])]
    return SharedTexts(tuple(rich), of_texts[0] if of_texts else None, code)


def join_shared(unit: IntArray, shared: SharedTexts | None, n_folds: int) -> IntArray:
    """Units of contexts, (n,), joined where they share a text, so that no text is in two folds.

    A joined unit has the smallest number among its parts. Where a joined unit would be larger than a fold, units stay
    as they are.

    Parameters
    ----------
    unit : ndarray of int, shape (n,)
        Contexts, or clusters of them, by a number.
    shared : SharedTexts or None
    n_folds : int

    Examples
    --------
    >>> join_shared(np.arange(4), SharedTexts(("prompt",), "prompt", np.array([0, 1, 0, 2])), 2).tolist()
    [0, 1, 0, 3]
    """
    if shared is None:
        return unit
    n_units, n_texts = int(unit.max()) + 1, shared.n_different
    edges = coo_matrix((np.ones(len(unit)), (unit, n_units + shared.code)), shape=(n_units + n_texts,) * 2)
    part = connected_components(edges, directed=False)[1][unit]
    if np.bincount(part).max() > len(unit) / n_folds:
        return unit
    smallest = np.full(int(part.max()) + 1, n_units)
    np.minimum.at(smallest, part, unit)
    return smallest[part]


def warn_of_shared_texts(shared: SharedTexts | None, groups: Sequence[IntArray], context: tuple[str, ...]) -> None:
    """Warn where contexts share a text and are taken as independent.

    Parameters
    ----------
    shared : SharedTexts or None
    groups : sequence of ndarray of int, shape (n,)
        Groupings of the contexts as clusters.
    context : tuple of str
        Columns that identify a context.
    """
    if shared is not None and not shared.is_known and not any(shared.within(group) for group in groups):
        warn(explain_shared_texts(shared, context), stacklevel=2)


def explain_shared_texts(shared: SharedTexts, context: tuple[str, ...]) -> str:
    """What was found, what follows, and what to do."""
    under = f" under another {listed(context)}" if context else ""
    name = shared.column
    join = f"context={name!r} joins them" if name else "context= with the column of the texts joins them"
    groups = repr(name) if name else "column of the texts"
    return (
        f"{shared.n_repeats:,} of {len(shared.code):,} contexts repeat a value of {listed(shared.names)}{under} "
        f"({shared.n_different:,} different values): if these are the same prompt, its votes are not independent and "
        f"standard errors are too small; {join}, cov_type='cluster' with cov_kwds={{'groups': {groups}}} keeps them "
        f"apart and allows for it"
    )


def _text_code(column: Any, by_function: bool) -> IntArray | None:
    """The text of each context, (n,); None where the column does not tell texts apart."""
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            vectors = list(islice(each_vector(column), _LOOKED_AT))
            if max(map(len, vectors), default=0) < 2 or not any(map(_has_fractions, vectors)):
                return None
        elif not (by_function and _is_text(column)):
            return None
    elif column.ndim != 2 or column.shape[1] < 2 or not _has_fractions(column[:_LOOKED_AT]):
        return None
    code = value_codes(column)
    code = _own_where_missing(np.where(_holds_nothing(column), -1, code))
    return code if _is_rich(code) else None


def _holds_nothing(column: Any) -> NDArray[np.bool_]:
    """Contexts, (n,), whose vector is missing: all of its numbers are NaN."""
    if isinstance(column, pd.Series) and not is_vector_column(column):
        return np.zeros(len(column), dtype=bool)
    vectors = each_vector(column) if isinstance(column, pd.Series) else column
    return np.fromiter(
        (v.dtype.kind == "f" and bool(np.isnan(v).all()) for v in vectors), dtype=bool, count=len(column)
    )


def _is_text(column: Any) -> bool:
    return isinstance(column, pd.Series) and pd.api.types.infer_dtype(column, skipna=True) == "string"


def _is_fraction(column: Any) -> bool:
    """Whether a column holds single numbers that are not all whole."""
    numeric = isinstance(column, pd.Series | np.ndarray) and column.ndim == 1 and column.dtype.kind == "f"
    return numeric and _has_fractions(np.asarray(column))


def _joint_code(columns: Sequence[NDArray[np.float64]]) -> IntArray:
    """Equal rows of several columns have equal codes, (n,); columns are hashed one by one, and never stacked."""
    joint = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        joint = joint * np.uint64(_PRIME) + pd.util.hash_array(column + 0.0)
    return pd.factorize(joint)[0]


def _has_fractions(numbers: NDArray[Any]) -> bool:
    return numbers.dtype.kind == "f" and bool((np.isfinite(numbers) & (numbers != np.floor(numbers))).any())


def _is_rich(code: IntArray) -> bool:
    return bool(int(code.max(initial=-1)) + 1 > min(_VALUES, len(code) / 2))


def _own_where_missing(code: IntArray) -> IntArray:
    """Codes, (n,), with a new one for every context that has none."""
    missing = code < 0
    filled = code.copy()
    filled[missing] = code.max(initial=-1) + 1 + np.arange(missing.sum())
    return filled

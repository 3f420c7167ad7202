"""Codes for equal values: of a column of names or numbers, of vectors, and of rows of several columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arrays import AnyArray, IntArray
from .plain_columns import Variable, is_vector_column, row_slices, vector_blocks


def value_codes(column: Variable) -> IntArray:
    """Return a code for each value, (rows,): equal values, or equal rows of an array, have equal codes.

    Codes count up from 0 in order of first appearance. A missing cell has the code -1. A missing vector counts as a
    vector of NaN, so that all missing vectors have the same code, which is not -1.
    """
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            return row_codes(vector_blocks(column))
        return pd.factorize(column, use_na_sentinel=True)[0]
    matrix = column.reshape(len(column), -1) if column.size else np.zeros((len(column), 1))
    if matrix.dtype.kind in "biuf":
        return row_codes(matrix[rows] for rows in row_slices(*matrix.shape))
    groups = pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False)
    return np.asarray(groups.ngroup(), dtype=np.intp)


def joint_codes(columns: Sequence[NDArray[np.floating]]) -> IntArray:
    """Return a code for each row of several columns of numbers, (rows,): equal rows have equal codes."""
    slices = row_slices(len(columns[0]), len(columns))
    return row_codes(np.stack([column[rows] for column in columns], axis=1) for rows in slices)


def row_codes(blocks: Iterable[AnyArray]) -> IntArray:
    """Return a code for each row of a matrix of numbers, (rows,): equal rows have equal codes.

    Two rows are equal if their hashes of 128 bits are equal; this is faster than sorting or comparing the rows. NaN
    equals NaN, and -0.0 equals 0.0.

    Shapes: blocks (b, width).
    """
    hashes = np.concatenate([np.empty((0, 2), np.uint64), *_row_hashes(blocks)])
    codes = pd.factorize(hashes[:, 0])[0]
    # If rows with equal first hashes always have equal second hashes, the first hash is enough.
    first_row = np.unique(codes, return_index=True)[1]
    if (hashes[:, 1] == hashes[first_row, 1][codes]).all():
        return codes
    return np.asarray(pd.DataFrame(hashes).groupby([0, 1], sort=False).ngroup(), dtype=np.intp)


def _row_hashes(blocks: Iterable[AnyArray]) -> Iterator[NDArray[np.uint64]]:
    """Yield two independent hashes for each row of each block, (b, 2), from the bits of its numbers."""
    scramble = multipliers = np.empty((0, 2), np.uint64)
    for block in blocks:
        width = block.shape[1]
        if len(multipliers) != width:
            even = np.random.default_rng(0).integers(2**63, size=(width, 3), dtype=np.uint64) * np.uint64(2)
            scramble, multipliers = even[:, 0] + np.uint64(1), even[:, 1:] + np.uint64(1)
        # Adding zero turns -0.0 into 0.0 and makes a copy.
        bits = (block.astype(np.float64) + 0.0).view(np.uint64)
        bits *= scramble
        # Numbers such as 1.0 have zeros in their lower bits; the upper bits are copied there.
        bits ^= bits >> np.uint64(32)
        yield np.stack([(bits * column).sum(axis=1) for column in multipliers.T], axis=1)

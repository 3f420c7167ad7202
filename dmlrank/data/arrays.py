"""Types of arrays that modules of the package pass to each other, and chunks of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Positions in another array, integer codes of values, and counts.
IntArray: TypeAlias = NDArray[np.intp]
# Numbers in double precision.
FloatArray: TypeAlias = NDArray[np.float64]
# Values of any type, such as the cells of a column of the user's frame.
AnyArray: TypeAlias = NDArray[Any]
# Numbers of a matrix that are read at a time, where a pass over all rows would otherwise make a copy of the matrix.
_CHUNK_NUMBERS = 2**21


def row_slices(n_rows: int, width: int, numbers: int = _CHUNK_NUMBERS, *, multiple_of: int = 1) -> Iterator[slice]:
    """Yield slices that divide the rows of a matrix, (n_rows, width), in chunks of up to so many numbers.

    A chunk has a multiple of ``multiple_of`` rows, the last one excepted.
    """
    step = max(1, numbers // max(width, 1) // multiple_of) * multiple_of
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))

"""Types of arrays that modules of the package pass to each other."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Positions in another array, integer codes of values, and counts.
IntArray: TypeAlias = NDArray[np.intp]
# Numbers in double precision.
FloatArray: TypeAlias = NDArray[np.float64]
# Values of any type, such as the cells of a column of the user's frame.
AnyArray: TypeAlias = NDArray[Any]

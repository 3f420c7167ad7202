"""Types of arrays that travel between rooms."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Places, codes and counts.
IntArray: TypeAlias = NDArray[np.intp]
# Numbers in double precision.
FloatArray: TypeAlias = NDArray[np.float64]
# Values of any type: what a column of the user's frame holds is the user's choice.
AnyArray: TypeAlias = NDArray[Any]

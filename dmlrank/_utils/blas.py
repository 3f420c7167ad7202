"""Matrix products that keep to one thread: in blocks too small for the linear algebra library to share out.

Its threads wait for one another by spinning. Beside threads of our own, or on a busy machine, that costs more than they
gain on products of this size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Multiplications in a matrix product from which OpenBLAS may use threads of its own (SMP_THRESHOLD_MIN times
# GEMM_MULTITHREAD_THRESHOLD in its sources).
PRODUCT = 65_536 * 4


def product(a: FloatArray, b: FloatArray, limit: int = PRODUCT) -> FloatArray:
    """a @ b for tall a, (n, q), and small b, (q, m), in blocks of at most ``limit`` multiplications.

    Examples
    --------
    >>> product(np.ones((3, 2)), np.array([[1.0], [2.0]])).ravel()
    array([3., 3., 3.])
    """
    made = np.empty((len(a), b.shape[1]))
    step = max(1, limit // max(b.size, 1))
    for at in range(0, len(a), step):
        np.matmul(a[at : at + step], b, out=made[at : at + step])
    return made


def gathered(a: FloatArray, b: FloatArray, limit: int = PRODUCT) -> FloatArray:
    """a' b for tall a, (n, q), and b, (n, m), in blocks of at most ``limit`` multiplications.

    Examples
    --------
    >>> gathered(np.ones((3, 2)), np.array([[1.0], [2.0], [3.0]])).ravel()
    array([6., 6.])
    """
    made = np.zeros((a.shape[1], b.shape[1]))
    step = max(1, limit // max(made.size, 1))
    for at in range(0, len(a), step):
        made += a[at : at + step].T @ b[at : at + step]
    return made

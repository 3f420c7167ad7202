"""Matrix products on one thread: in blocks too small for the linear algebra library to divide among its threads.

The library's threads wait for one another by spinning. For products of this size, the waiting costs more time than the
threads save, if the package's own threads run at the same time or the machine is busy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# OpenBLAS computes a matrix product with at most so many multiplications on one thread (SMP_THRESHOLD_MIN times
# GEMM_MULTITHREAD_THRESHOLD in its sources).
SINGLE_THREAD_MULTIPLICATIONS = 65_536 * 4


def product(a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> FloatArray:
    """Return a @ b for tall a, (n, q), and small b, (q, m), in blocks of at most ``limit`` multiplications.

    Examples
    --------
    >>> product(np.ones((3, 2)), np.array([[1.0], [2.0]])).ravel()
    array([3., 3., 3.])
    """
    rows = np.empty((len(a), b.shape[1]))
    step = rows_of_a_product(b, limit)
    for start in range(0, len(a), step):
        np.matmul(a[start : start + step], b, out=rows[start : start + step])
    return rows


def rows_of_a_product(b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> int:
    """Return the number of rows of a in a block of :func:`product`.

    The last digits of a row may depend on its place in the block. A caller that computes a product in parts, and needs
    the same bits, divides the rows at multiples of this number.

    Examples
    --------
    >>> rows_of_a_product(np.ones((2, 4)), limit=80)
    10
    """
    return max(1, limit // max(b.size, 1))


def transposed_product(
    a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS, *, start: FloatArray | None = None
) -> FloatArray:
    """Return a.T @ b for tall a, (n, q), and b, (n, m), in blocks of at most ``limit`` multiplications.

    Parameters
    ----------
    a : ndarray, shape (n, q)
    b : ndarray, shape (n, m)
    limit : int
        Largest number of multiplications in a block.
    start : ndarray, shape (q, m), optional
        The product of earlier rows, to which the product is added.

    Examples
    --------
    >>> transposed_product(np.ones((3, 2)), np.array([[1.0], [2.0], [3.0]])).ravel()
    array([6., 6.])
    """
    total = np.zeros((a.shape[1], b.shape[1])) if start is None else start
    step = rows_of_a_product(total, limit)
    for first in range(0, len(a), step):
        total = total + a[first : first + step].T @ b[first : first + step]
    return total

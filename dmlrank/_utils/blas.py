"""Linear algebra on one thread: the same bits on every machine, and no threads that wait for one another.

A linear algebra library with several threads adds numbers up in another order than with one thread, so that the last
bits of products, eigenvectors and solutions depend on the number of threads. Therefore fits and tests run within
:func:`one_thread`. The library's threads also wait for one another by spinning, which costs more time than the threads
save where the package's own threads run at the same time or the machine is busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401 (loads the second linear algebra library, so that the controller finds it)
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

FloatArray = NDArray[np.float64]

# OpenBLAS computes a matrix product with at most so many multiplications on one thread (SMP_THRESHOLD_MIN times
# GEMM_MULTITHREAD_THRESHOLD in its sources).
SINGLE_THREAD_MULTIPLICATIONS = 65_536 * 4


class _Shared:
    """The libraries whose number of threads belongs to the process, and how many blocks use them with one thread.

    The first block that is open sets the number to one, and the last block that ends restores it, so that blocks in
    several threads can overlap in any order.
    """

    def __init__(self) -> None:
        self._lock, self._n_open, self._before = Lock(), 0, list[int]()

    def enter(self) -> None:
        """Set every library to one thread, if no other block is open."""
        with self._lock:
            if self._n_open == 0:
                self._before = [library.get_num_threads() for library in _libraries(per_thread=False)]
                self._set([1] * len(self._before))
            self._n_open += 1

    def leave(self) -> None:
        """Restore the numbers of threads, if no other block is open."""
        with self._lock:
            self._n_open -= 1
            if self._n_open == 0:
                self._set(self._before)

    def _set(self, numbers: list[int]) -> None:
        for library, number in zip(_libraries(per_thread=False), numbers, strict=True):
            _set_threads(library, number)


_shared = _Shared()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the linear algebra libraries use one thread within the ``with`` block or the decorated function."""
    before = [library.get_num_threads() for library in _libraries(per_thread=True)]
    keep_one_thread()
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()
        for library, number in zip(_libraries(per_thread=True), before, strict=True):
            _set_threads(library, number)


def keep_one_thread() -> None:
    """Set the libraries whose number of threads belongs to the calling thread to one, for threads of the package."""
    for library in _libraries(per_thread=True):
        _set_threads(library, 1)


@lru_cache(maxsize=2)
def _libraries(per_thread: bool) -> list[Any]:
    """Return the libraries whose number of threads belongs to each thread, or else those where the process has one."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    kinds = [one.internal_api == "mkl" or one.info().get("threading_layer") == "openmp" for one in libraries]
    return [library for library, of_thread in zip(libraries, kinds, strict=True) if of_thread is per_thread]


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads of a library."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


def product(a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> FloatArray:
    """Return a @ b for tall a, (n, q), and small b, (q, m), in blocks of at most ``limit`` multiplications."""
    rows = np.empty((len(a), b.shape[1]))
    step = rows_of_a_product(b, limit)
    for start in range(0, len(a), step):
        np.matmul(a[start : start + step], b, out=rows[start : start + step])
    return rows


def rows_of_a_product(b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> int:
    """Return the number of rows of a in a block of :func:`product`.

    The last digits of a row may depend on its place in the block. A caller that computes a product in parts, and needs
    the same bits, divides the rows at multiples of this number.
    """
    return max(1, limit // max(b.size, 1))


def transposed_product(
    a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS, *, start: FloatArray | None = None
) -> FloatArray:
    """Return a.T @ b for tall a, (n, q), and b, (n, m), in blocks of at most ``limit`` multiplications.

    Shapes: a (n, q), b (n, m), start (q, m).
    """
    total = np.zeros((a.shape[1], b.shape[1])) if start is None else start
    step = rows_of_a_product(total, limit)
    for first in range(0, len(a), step):
        total = total + a[first : first + step].T @ b[first : first + step]
    return total

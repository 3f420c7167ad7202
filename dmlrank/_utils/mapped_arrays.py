"""Arrays in temporary files that are mapped into memory, for data that are larger than memory.

A file has no name: the operating system removes it with the last reference to its array, also where the process is
ended from outside. An array that is made from a mapped array with the functions of this module is mapped, too.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..exceptions import StorageError

Scalar = TypeVar("Scalar", bound=np.generic)

# Arrays with fewer bytes than this stay in memory: the memory saved would not be worth the time to create a file.
_SMALLEST = 2**12
# Bytes that are copied at a time.
_BLOCK = 2**24
# Mapped bytes that may be resident in the memory of the process. Beyond this number, the pages are released.
_MOST_RESIDENT = 2**27
# Bytes of a mapped file that one page fault can make resident: the operating system maps the pages around, too.
_BYTES_OF_A_FAULT = 2**16
# Seconds between two measurements of the resident bytes.
_INTERVAL = 0.02
# Measurements in a row without any mapped array, after which the thread that measures ends.
_INTERVALS_BEFORE_END = 50
# Measurements between two requests to the C library to give unused memory back to the system.
_INTERVALS_BETWEEN_TRIMS = 25
# The maps of all living arrays.
_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_lock = threading.Lock()
_releasing: threading.Thread | None = None
# Whether the system says how many bytes of mapped files are resident. Other systems release pages if memory is short.
_CAN_RELEASE = sys.platform.startswith("linux")
# Resident bytes of files that are not arrays of this module, as they were after the last release.
_other_bytes = 0


def is_mapped(array: object) -> bool:
    """Return whether an object is an array that :func:`mapped` returned, or a view of such an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap) and array in _maps


def mapped(shape: Sequence[int] | int, dtype: DTypeLike = float) -> NDArray[Any]:
    """Return an array of zeros in a temporary file."""
    kind = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size == 0:
        return np.zeros(shape, kind)
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="dmlrank-", dir=folder) as file:
            _reserve(file.fileno(), size)
            memory = mmap.mmap(file.fileno(), size)
    except OSError as error:
        remedy = "Make space, or choose another folder with the environment variable TMPDIR"
        if error.errno == errno.EMFILE:
            remedy = (
                "Each numeric column is a file. Keep many features as one column of vectors, or allow more open files "
                "(ulimit -n)"
            )
        raise StorageError(
            f"a temporary file of {size / 1e9:.2g} GB cannot be written to {folder}: {error.strerror or error}; a fit "
            f"of data that are larger than memory keeps its arrays there. {remedy}"
        ) from error
    with _lock:
        _maps.add(memory)
    _start_releasing()
    return np.ndarray(shape, kind, buffer=memory)


def empty(shape: Sequence[int] | int, dtype: DTypeLike = float, *, like: NDArray[Any]) -> NDArray[Any]:
    """Return a new array whose values are not set: in a file if ``like`` is mapped and the array is large."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return mapped(shape, dtype) if size >= _SMALLEST and is_mapped(like) else np.empty(shape, dtype)


def zeros(shape: Sequence[int] | int, dtype: DTypeLike = float, *, like: NDArray[Any]) -> NDArray[Any]:
    """An array of zeros: in a file if ``like`` is mapped and the array is large; arguments as in :func:`empty`."""
    array = empty(shape, dtype, like=like)
    if not is_mapped(array):
        array[...] = 0
    return array


def take(array: NDArray[Scalar], rows: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> NDArray[Scalar]:
    """Return rows of an array, by numbers or by a mask; where the array is mapped, a large result is mapped, too."""
    if not is_mapped(array):
        return array[rows]
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    selected = empty((len(rows), *array.shape[1:]), array.dtype, like=array)
    row_bytes = max(array.nbytes // max(len(array), 1), 1)
    # Rows that are far from each other make more bytes resident than they have.
    step = max(_MOST_RESIDENT // 2 // (row_bytes + _BYTES_OF_A_FAULT), 1)
    for block in row_blocks(selected):
        chosen = rows[block]
        span = (int(chosen.max(initial=0)) - int(chosen.min(initial=len(array))) + 1) * row_bytes
        if span <= _MOST_RESIDENT // 2:
            selected[block] = array[chosen]
            continue
        for start in range(0, len(chosen), step):
            selected[block][start : start + step] = array[chosen[start : start + step]]
            release_pages()
    return selected


def stored(array: NDArray[Scalar], *, like: NDArray[Any]) -> NDArray[Scalar]:
    """Return an array with the same numbers: in a file if ``like`` is mapped and the array is large, or the array."""
    if is_mapped(array):
        return array
    copy = empty(array.shape, array.dtype, like=like)
    if not is_mapped(copy):
        return array
    copy[...] = array
    return copy


def in_memory(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a copy in memory of a mapped array, such as a block of rows; return other arrays unchanged."""
    return np.array(array) if is_mapped(array) else array


def with_constant(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix with a column of ones in front; where the matrix is mapped, a large result is mapped, too."""
    design = empty((len(columns), 1 + columns.shape[1]), like=columns)
    for block in row_blocks(design):
        design[block, 0] = 1
        design[block, 1:] = columns[block]
    return design


def concatenate(arrays: Sequence[NDArray[Scalar]]) -> NDArray[Scalar]:
    """Return arrays below each other; where one of them is mapped, a large result is mapped, too."""
    source = next((array for array in arrays if is_mapped(array)), None)
    if source is None:
        return np.concatenate(arrays)
    joined = empty((sum(map(len, arrays)), *source.shape[1:]), np.result_type(*arrays), like=source)
    start = 0
    for array in arrays:
        for block in row_blocks(array):
            joined[start + block.start : start + block.stop] = array[block]
        start += len(array)
    return joined


def column_sums(
    matrix: NDArray[np.floating[Any]], function: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> NDArray[Any]:
    """Return the sums of the columns of a matrix, or of a function of its entries, block by block.

    numpy adds up the rows of a matrix one after the other, if the matrix has several columns. The sums therefore have
    the same bits as ``function(matrix).sum(axis=0)``.

    Shapes: matrix (n, p).
    """
    if not is_mapped(matrix) or matrix.shape[1] < 2:
        # numpy sums a single column in another order, pairwise, and sums by block would have other bits.
        return np.asarray((matrix if function is None else function(matrix)).sum(axis=0))
    total: NDArray[Any] | None = None
    for block in row_blocks(matrix):
        rows = matrix[block] if function is None else function(matrix[block])
        total = np.add.reduce(rows if total is None else np.vstack([total[None], rows]), axis=0)
    return np.zeros(matrix.shape[1]) if total is None else total


def row_blocks(array: NDArray[Any], multiple_of: int = 1) -> Iterator[slice]:
    """Yield slices that divide the rows of an array into blocks, each of which is copied at once.

    The rows of an array in memory form one block.
    """
    n = len(array)
    if not is_mapped(array):
        yield slice(0, n)
        return
    step = max(1, _BLOCK * n // max(array.nbytes, 1))
    step = max(1, step // multiple_of) * multiple_of
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
        release_pages()


def release_pages() -> None:
    """Release the pages of all mapped arrays if more bytes than allowed are resident.

    Released pages stay in the file and in the system's cache. They would be released anyway where memory is short; but
    until then the operating system counts them as memory of the process.
    """
    global _other_bytes
    if len(_maps) and _CAN_RELEASE and _resident_bytes() - _other_bytes > _MOST_RESIDENT:
        for memory in list(_maps):
            memory.madvise(mmap.MADV_DONTNEED)
        _other_bytes = _resident_bytes()


def _reserve(file: int, size: int) -> None:
    """Reserve the space of a file, so that a full disk is an error here and does not end the process later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    block = b"\0" * 2**20
    for start in range(0, size, len(block)):
        os.write(file, block[: size - start])


def _start_releasing() -> None:
    """Start the thread that releases pages, where the system says how many are resident."""
    global _releasing
    if not _CAN_RELEASE:
        return
    with _lock:
        if _releasing is None or not _releasing.is_alive():
            _releasing = threading.Thread(target=_release_regularly, name="dmlrank-pages", daemon=True)
            _releasing.start()


def _release_regularly() -> None:
    """Release pages whenever too many have become resident; end after a while without arrays."""
    global _releasing
    n_without_arrays = 0
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    for number in itertools.count():
        time.sleep(_INTERVAL)
        if trim is not None and number % _INTERVALS_BETWEEN_TRIMS == 0:
            # glibc keeps the memory of arrays that are no longer used, up to 32 MB for each, for later arrays.
            trim(0)
        release_pages()
        n_without_arrays = 0 if len(_maps) else n_without_arrays + 1
        if n_without_arrays > _INTERVALS_BEFORE_END:
            with _lock:
                if not len(_maps):
                    _releasing = None
                    return


def _resident_bytes() -> int:
    """Return the size of the pages of mapped files that are resident in the memory of this process."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[2]) * mmap.PAGESIZE

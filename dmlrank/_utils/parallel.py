"""Work on folds or parts at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import lightgbm as lgb
import numpy as np

T = TypeVar("T")


def at_once(work: Callable[[int], T], count: int, workers: int) -> Iterator[T]:
    """``work(0)``, ``work(1)``, ... in this order, ``workers`` of them at a time.

    LightGBM does not hold Python's lock. On small data folds side by side gain what its own threads do not, because
    these meet after every node.

    Examples
    --------
    >>> list(at_once(lambda number: number**2, 4, workers=2))
    [0, 1, 4, 9]
    """
    if workers == 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(workers, initializer=_quiet) as pool:
        yield from pool.map(work, range(count))


@contextmanager
def side_by_side(work: Callable[[int], T], count: int, workers: int) -> Iterator[Callable[[], list[T]]]:
    """The same for work that is asked for again and again: calling it gives ``[work(0), work(1), ...]``."""
    if workers == 1:
        yield lambda: [work(number) for number in range(count)]
        return
    with ThreadPoolExecutor(workers, initializer=_quiet) as pool:
        yield lambda: list(pool.map(work, range(count)))


def _quiet() -> None:
    """Every thread has a level of LightGBM's messages of its own, and starts with one that lets warnings through."""
    lgb.Dataset(np.array([[0.0], [1.0]]), params={"verbosity": -1}).construct()

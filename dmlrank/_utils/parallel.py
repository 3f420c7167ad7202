"""Threads of our own: results in the order of the tasks, a bounded number of tasks at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

import lightgbm as lgb
import numpy as np

from .warning_collection import with_callers_collection

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Threads that carry out tasks; one worker is the calling thread itself.

    NumPy and LightGBM do not hold Python's lock while they compute. On small data folds side by side gain what
    LightGBM's own threads do not, because these meet after every node.

    Parameters
    ----------
    n : int
        Tasks at a time.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     [list(workers.in_order(lambda number: number * factor, [1, 2, 3])) for factor in (1, 10)]
    [[1, 2, 3], [10, 20, 30]]
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Workers:
        self._stack.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._pool = None
        self._stack.close()

    def in_order(
        self, work: Callable[[T], R], tasks: Iterable[T], together: Callable[[T], bool] | None = None
    ) -> Iterator[R]:
        """Results of the tasks in their order.

        At most one task more than there are workers is begun ahead of the result that the caller waits for: a result
        may be large. An error of a task is raised in its place, and tasks that nobody has begun are dropped.

        Parameters
        ----------
        work : callable
        tasks : iterable
        together : callable, optional
            Whether a task may be carried out beside others; one that may not is carried out by the calling thread.
        """
        waiting: deque[Future[R]] = deque()
        inline = self.n == 1 or (isinstance(tasks, Collection) and len(tasks) < 2)
        try:
            for task in tasks:
                if not inline and (together is None or together(task)):
                    waiting.append(self._threads().submit(with_callers_collection(work), task))
                    if len(waiting) > self.n:
                        yield waiting.popleft().result()
                else:
                    while waiting:
                        yield waiting.popleft().result()
                    yield work(task)
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = self._stack.enter_context(ThreadPoolExecutor(self.n, initializer=_quiet))
        return self._pool


def in_order(
    work: Callable[[T], R], tasks: Iterable[T], n_workers: int, together: Callable[[T], bool] | None = None
) -> Iterator[R]:
    """Results of tasks in their order, of workers who are there for these tasks only; see :meth:`Workers.in_order`.

    Examples
    --------
    >>> list(in_order(lambda number: number**2, range(4), n_workers=2))
    [0, 1, 4, 9]
    """
    with Workers(n_workers) as workers:
        yield from workers.in_order(work, tasks, together)


def core_count(n_jobs: int | None) -> int:
    """Threads that ``n_jobs`` asks for: all cores when None.

    Examples
    --------
    >>> core_count(3), core_count(None) >= 1
    (3, True)
    """
    return n_jobs or os.cpu_count() or 1


def _quiet() -> None:
    """Every thread has a level of LightGBM's messages of its own, and starts with one that lets warnings through."""
    lgb.Dataset(np.array([[0.0], [1.0]]), params={"verbosity": -1}).construct()

"""The package's own threads: results in the order of the tasks, a bounded number of tasks at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import TypeVar

import lightgbm as lgb
import numpy as np

from ..exceptions import DmlrankWarning
from .blas import keep_one_thread
from .warning_collection import collected_warnings, warn, with_callers_warnings

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Threads that carry out tasks; with one worker, the calling thread carries them out.

    NumPy and LightGBM do not hold Python's lock while they compute. On small data, folds in parallel are faster than
    LightGBM's own threads, because LightGBM's threads wait for one another after every split of a tree.

    n: Number of tasks at a time.
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
        self, work: Callable[[T], R], tasks: Iterable[T], is_concurrent: Callable[[T], bool] | None = None
    ) -> Iterator[R]:
        """Yield the results of the tasks in their order.

        With n workers, at most n + 1 tasks are begun before the caller has taken their results, because results may be
        large. An error of a task is raised in the place of its result, and tasks that have not begun are dropped.
        """
        waiting: deque[Future[R]] = deque()
        inline = self.n == 1 or (isinstance(tasks, Collection) and len(tasks) < 2)
        try:
            for task in tasks:
                if not inline and (is_concurrent is None or is_concurrent(task)):
                    waiting.append(self._threads().submit(with_callers_warnings(work), task))
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
        """Return the pool of threads; the first call makes it."""
        if self._pool is None:
            self._pool = self._stack.enter_context(ThreadPoolExecutor(self.n, initializer=prepare_thread))
        return self._pool


def in_order(
    work: Callable[[T], R], tasks: Iterable[T], n_workers: int, is_concurrent: Callable[[T], bool] | None = None
) -> Iterator[R]:
    """Yield the results of tasks in their order, from workers for these tasks only; see :meth:`Workers.in_order`."""
    with Workers(n_workers) as workers:
        yield from workers.in_order(work, tasks, is_concurrent)


def at_the_same_time(first: Callable[[], T], second: Callable[[], R]) -> tuple[T, R]:
    """Return the results of two functions that run at the same time, for steps that wait for the user's workers.

    Warnings of the package come in the order of the functions. If the first function raises an error, that of the
    second one is dropped.
    """

    def with_warnings() -> tuple[R, list[DmlrankWarning]]:
        with collected_warnings() as second_warnings:
            return second(), second_warnings

    with ThreadPoolExecutor(1, initializer=prepare_thread) as thread:
        pending = thread.submit(copy_context().run, with_warnings)
        first_result = first()
        second_result, second_warnings = pending.result()
    for message in second_warnings:
        warn(message, stacklevel=2)
    return first_result, second_result


def core_count(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for: one per core for None."""
    return n_jobs or os.cpu_count() or 1


@contextmanager
def lightgbm_memory_errors() -> Iterator[None]:
    """Raise ``MemoryError`` where LightGBM has not enough memory within the ``with`` block, as numpy does."""
    try:
        yield
    except lgb.basic.LightGBMError as error:
        if "bad_alloc" not in str(error):
            raise
        raise MemoryError("LightGBM needs more memory than there is") from error


def prepare_thread() -> None:
    """Silence LightGBM in this thread, and let its linear algebra use one thread."""
    silence_lightgbm()
    keep_one_thread()


def silence_lightgbm() -> None:
    """Silence LightGBM in this thread.

    LightGBM has one level of messages for each thread, and a new thread begins at the level at which warnings are
    printed.
    """
    lgb.Dataset(np.array([[0.0], [1.0]]), params={"verbosity": -1}).construct()

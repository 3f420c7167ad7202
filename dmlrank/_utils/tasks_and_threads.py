"""How the steps of a fit are computed: on how many threads, by whose workers, and who hears of progress and warnings.

A public function enters one :class:`Computation` (``with computing_with(...)``), and all that it calls reads it
(:func:`current`). The number and content of tasks do not depend on it, and therefore no computed number does.

The package's warnings are collected without changing the filters of the process: ``warnings.catch_warnings`` replaces
those of all threads, so that fits in several threads would collect one another's warnings. A context variable has a
value for each thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Event, Lock, RLock, Semaphore
from typing import Any, TextIO, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ..exceptions import DmlrankWarning, OptionTypeError, shown
from .executors import DaskWorkers, ExecutorWorkers, Shared, results_of_tasks, workers_of

# Where the code of the package lies, and that of its decorators.
_WITHIN = (os.path.dirname(os.path.dirname(__file__)) + os.sep, contextlib.__file__)
_collected: ContextVar[list[DmlrankWarning] | None] = ContextVar("dmlrank_warnings", default=None)


# Texts of the warnings that a process shows once, and has shown.
_shown_once = set[str]()


def warn(message: str | DmlrankWarning, kind: type[DmlrankWarning] = DmlrankWarning, *, once: bool = False) -> None:
    """Add a :class:`DmlrankWarning` to this thread's collection; warn of the line that called the package if none."""
    warning = message if isinstance(message, DmlrankWarning) else kind(message)
    warning.once = warning.once or once
    collected = _collected.get()
    if collected is not None:
        collected.append(warning)
        return
    if warning.once:
        if str(warning) in _shown_once:
            return
        _shown_once.add(str(warning))
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_WITHIN):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


@contextmanager
def collected_warnings() -> Iterator[list[DmlrankWarning]]:
    """Collect the package's own warnings within the ``with`` block, instead of calling ``warnings.warn``."""
    collected: list[DmlrankWarning] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


FloatArray = NDArray[np.float64]

# OpenBLAS computes a matrix product with at most so many multiplications on one thread (SMP_THRESHOLD_MIN times
# GEMM_MULTITHREAD_THRESHOLD in its sources).
SINGLE_THREAD_MULTIPLICATIONS = 65_536 * 4


@lru_cache(maxsize=2)
def _libraries(per_thread: bool) -> list[Any]:
    """Return the libraries whose number of threads belongs to each thread, or else those where the process has one."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    kinds = [one.internal_api == "mkl" or one.info().get("threading_layer") == "openmp" for one in libraries]
    return [library for library, of_thread in zip(libraries, kinds, strict=True) if of_thread is per_thread]


def _set_threads(per_thread: bool, numbers: list[int] | None = None) -> list[int]:
    """Set the number of threads of each library, to one for None, and return the numbers before."""
    libraries = _libraries(per_thread)
    before = [library.get_num_threads() for library in libraries]
    for library, number in zip(libraries, numbers or [1] * len(libraries), strict=True):
        getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
    return before


# The numbers of threads of the process before the first of the open blocks of one_thread() was entered, and how many
# blocks are open. The first one sets the numbers, and the last one that ends restores them, so that blocks in several
# threads can overlap in any order.
_before_blocks: list[int] = []
_open_blocks: list[object] = []
_blocks_lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the linear algebra libraries use one thread within the ``with`` block or the decorated function."""
    of_thread = _set_threads(True)
    with _blocks_lock:
        if not _open_blocks:
            _before_blocks[:] = _set_threads(False)
        _open_blocks.append(None)
    try:
        yield
    finally:
        with _blocks_lock:
            _open_blocks.pop()
            if not _open_blocks:
                _set_threads(False, _before_blocks)
        _set_threads(True, of_thread)


def product(a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> FloatArray:
    """Return a @ b for tall a, (n, q), and small b, (q, m), in blocks of at most ``limit`` multiplications."""
    rows = np.empty((len(a), b.shape[1]))
    step = rows_of_a_product(b, limit)
    for start in range(0, len(a), step):
        np.matmul(a[start : start + step], b, out=rows[start : start + step])
    return rows


def rows_of_a_product(b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS) -> int:
    """Return the number of rows of a in a block of :func:`product`."""
    # The last digits of a row may depend on its place in the block: who computes a product in parts, and needs the same
    # bits, divides the rows at multiples of this number.
    return max(1, limit // max(b.size, 1))


def transposed_product(
    a: FloatArray, b: FloatArray, limit: int = SINGLE_THREAD_MULTIPLICATIONS, *, start: FloatArray | None = None
) -> FloatArray:
    """Return ``start`` + a.T @ b for tall a, (n, q), and b, (n, m), in blocks of up to ``limit`` multiplications."""
    total = np.zeros((a.shape[1], b.shape[1])) if start is None else start
    step = rows_of_a_product(total, limit)
    for first in range(0, len(a), step):
        total = total + a[first : first + step].T @ b[first : first + step]
    return total


S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

# Called with the number of steps done, the number of steps in all, and the name of the stage.
Report: TypeAlias = Callable[[int, int, str], None]

_BAR_WIDTH = 30
_MANY_ROWS = 100_000
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, slots=True)
class Computation:
    """How steps are computed.

    n_jobs: Number of threads; None for one per core, which LightGBM calls 0.
    workers: The user's, which carry out tasks; None for the package's own threads.
    slots: As many threads as steps that run at the same time share for their tasks, which have one each; None where
        there is one step.
    reporting: Held during a report of one of these steps, which report from two threads; None where there is one step.
    is_stopped: Set where one of these steps has failed or was interrupted: no further task of the other begins.
    """

    n_jobs: int | None = None
    workers: ExecutorWorkers | DaskWorkers | None = None
    report: Report | None = None
    slots: tuple[int, Semaphore] | None = None
    reporting: AbstractContextManager[object] | None = None
    is_stopped: Event | None = None

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return self.slots[0] if self.slots else self.n_jobs or os.cpu_count() or 1

    def require_go_on(self) -> None:
        """Raise where no further task of this step is to begin."""
        if self.is_stopped is not None and self.is_stopped.is_set():
            raise CancelledError("the step at the same time has failed or was interrupted")


_AS_OUTSIDE_OF_A_FIT = Computation()
_current: ContextVar[Computation] = ContextVar("dmlrank_computation", default=_AS_OUTSIDE_OF_A_FIT)


def current() -> Computation:
    """Return how the steps of the calling thread are computed."""
    return _current.get()


def threads_of_fit() -> int:
    """Return the number of threads within :func:`computing_with`, and one outside of it, where no fit says how many."""
    return 1 if current() is _AS_OUTSIDE_OF_A_FIT else current().n_threads


@contextmanager
def computing(*, executor: object) -> Iterator[None]:
    """Let workers compute the steps of all calls within the ``with`` block.

    The numbers are the same as on the package's own threads, to the last bit. The executor is not shut down.

    Parameters
    ----------
    executor : concurrent.futures.Executor or dask.distributed.Client
        Workers that train the folds and score the contexts: threads, processes (started by spawn) or the machines of a
        Dask cluster.

    Yields
    ------
    None
        The block computes with these workers.

    Raises
    ------
    OptionTypeError
        If it is no executor.
    ExecutorError
        In a fit whose tasks the workers cannot carry out.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
    >>> with ThreadPoolExecutor(2) as executor, dr.computing(executor=executor):
    ...     res = dr.dml_rank("winner ~ length | model_a + model_b", battles, context="question_id", rng=0)
    >>> res.params.idxmax()
    'gpt-4'
    """
    workers = workers_of(executor)
    token = _current.set(replace(current(), workers=workers))
    try:
        yield
    finally:
        _current.reset(token)
        workers.close()


@contextmanager
def computing_with(n_jobs: int | None, progress: bool | Report = False) -> Iterator[None]:
    """Compute all steps within the ``with`` block on so many threads; without progress, report as outside of it."""
    if not isinstance(progress, bool) and not callable(progress):
        raise OptionTypeError(
            f"progress={shown(progress)} is not allowed; allowed are True, False and a function of (step, total, what)"
        )
    with ExitStack() as stack:
        changes: dict[str, Any] = {"n_jobs": n_jobs}
        if progress:
            changes["report"] = progress if callable(progress) else stack.enter_context(Bar(sys.stderr))
        stack.callback(_current.reset, _current.set(replace(current(), **changes)))
        yield


# --- progress ---------------------------------------------------------------------------------------------------------


def report(step: int, total: int, what: str, minor: bool = False) -> None:
    """Report that ``step`` of ``total`` steps of a stage are done."""
    receiver, one_by_one = current().report, current().reporting
    if receiver is not None and not (minor and isinstance(receiver, Bar) and not receiver.is_terminal):
        with one_by_one or nullcontext():
            receiver(step, total, what)


class Bar:
    """A bar on a terminal; elsewhere, such as in a log file, a line every ten seconds and one when a stage ends."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self.is_terminal = stream.isatty()
        self._last = clock()
        self._open = False

    def __call__(self, step: int, total: int, what: str) -> None:
        """Show one report."""
        done = step >= total
        if self.is_terminal:
            n_done = _BAR_WIDTH * step // max(total, 1)
            bar = "#" * n_done + "." * (_BAR_WIDTH - n_done)
            self._stream.write(f"\r\x1b[K{what} [{bar}] {step}/{total}" + "\n" * done)
            self._open = not done
        elif done or self._clock() - self._last >= _SECONDS_BETWEEN_LINES:
            self._stream.write(f"{what}: {step}/{total}\n")
            self._last = self._clock()
        self._stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        """End the line of a bar that is not complete."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False


# --- the package's own threads ----------------------------------------------------------------------------------------


class Threads(ThreadPoolExecutor):
    """Threads that carry out tasks, each task with ``n_jobs_of_each`` threads of its own; for n = 1 the calling thread.

    ``boosts`` says whether the tasks use LightGBM, whose number of threads, one for the process, is then set.

    NumPy and LightGBM do not hold Python's lock while they compute. On small data, folds in parallel are faster than
    LightGBM's own threads, because LightGBM's threads wait for one another after every split of a tree.
    """

    def __init__(self, n: int, n_jobs_of_each: int | None = 1, *, boosts: bool = True) -> None:
        super().__init__(n, initializer=_prepare_thread, initargs=(n_jobs_of_each, boosts))
        self.n, self.n_jobs_of_each = n, n_jobs_of_each

    def in_order(
        self, work: Callable[[T], R], tasks: Iterable[T], is_concurrent: Callable[[T], bool] | None = None
    ) -> Iterator[R]:
        """Yield the results of the tasks in their order; a task adds its warnings to those of the calling thread.

        With n threads, at most n + 1 tasks are begun before the caller has taken their results, because results may be
        large. An error of a task is raised in the place of its result, and tasks that have not begun are dropped.
        """
        waiting: deque[Future[R]] = deque()
        here = current()

        def in_slot(context: Context, task: T) -> R:
            with here.slots[1] if here.slots else nullcontext():
                here.require_go_on()
                return context.run(work, task)

        inline = self.n == 1 or (isinstance(tasks, Collection) and len(tasks) < 2)
        try:
            for task in tasks:
                if not inline and (is_concurrent is None or is_concurrent(task)):
                    context = copy_context()
                    context.run(_current.set, Computation(self.n_jobs_of_each))
                    waiting.append(self.submit(in_slot, context, task))
                    if len(waiting) > self.n:
                        yield waiting.popleft().result()
                else:
                    while waiting:
                        yield waiting.popleft().result()
                    here.require_go_on()
                    yield work(task)
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def in_order(
    work: Callable[[T], R],
    tasks: Iterable[T],
    n_threads: int,
    is_concurrent: Callable[[T], bool] | None = None,
    *,
    n_jobs_of_each: int | None = 1,
    boosts: bool = True,
) -> Iterator[R]:
    """Yield the results of tasks in their order, from threads for these tasks only; see :meth:`Threads.in_order`."""
    with Threads(n_threads, n_jobs_of_each, boosts=boosts) as threads:
        yield from threads.in_order(work, tasks, is_concurrent)


def at_the_same_time(first: Callable[[], T], second: Callable[[], R]) -> tuple[T, R]:
    """Return the results of two functions that run at the same time, on the user's workers or on the same threads."""
    is_stopped = Event()
    here = replace(current(), reporting=RLock(), is_stopped=is_stopped)
    if here.workers is None:
        # One number of LightGBM's threads for both: see lightgbm_threads.
        here = replace(here, n_jobs=1, slots=(here.n_threads, Semaphore(here.n_threads)))
    token = _current.set(here)
    # Warnings come in the order of the functions. If the first function raises an error, or is interrupted, that of the
    # second is dropped. The tasks that this has begun are waited for: see lightgbm_threads.
    try:
        with ThreadPoolExecutor(1, initializer=_prepare_thread, initargs=(here.n_jobs,)) as thread:
            with collected_warnings() as second_warnings:
                # The context of the second function is copied here, and with it where its warnings go.
                pending = thread.submit(copy_context().run, second)
            try:
                first_result, second_result = first(), pending.result()
            except BaseException:
                is_stopped.set()
                raise
    finally:
        _current.reset(token)
    for message in second_warnings:
        warn(message)
    return first_result, second_result


def trim_memory(n_rows: int) -> None:
    """Give memory back that a step on many rows has freed: the C library of Linux keeps a part for each thread."""
    if n_rows >= _MANY_ROWS and sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


def lightgbm_threads(n_jobs: int | None) -> dict[str, Any]:
    """Return the parameter that every LightGBM object of a thread has to have, with ``n_jobs`` threads."""
    # LightGBM has one number of threads for the process, that of the object made last. An object with another number in
    # a second thread makes a booster write beyond its arrays, which ends the process (version 4.7).
    return {"num_threads": n_jobs or 0}


def _prepare_thread(n_jobs: int | None, boosts: bool = True) -> None:
    """Let the linear algebra of this thread use one thread, and silence LightGBM, which in a new thread would warn."""
    _set_threads(True)
    # What trains trees has loaded LightGBM before it starts threads.
    if boosts and (lgb := sys.modules.get("lightgbm")):
        params = {"verbosity": -1, **lightgbm_threads(n_jobs)}
        lgb.Dataset(np.array([[0.0], [1.0]]), params=params).construct()


@contextmanager
def warnings_as_lines(line_of: Callable[[str], str]) -> Iterator[None]:
    """Print a warning as one line, which a function makes of its text, within the ``with`` block."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: line_of(" ".join(str(message).split())) + "\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


# --- tasks on the user's workers, or on the package's own threads -----------------------------------------------------


def in_workers(
    work: Callable[[S, T], R],
    shared: S,
    tasks: Sequence[T],
    *,
    name: str,
    is_concurrent: Callable[[T], bool] | None = None,
    threads: tuple[int, int | None] | None = None,
) -> Iterator[R]:
    """Yield ``work(shared, task)`` for every task in order.

    ``threads``: Number of tasks at the same time without workers, and of the threads of each; None for one of each.
    """
    here = current()
    if here.workers is None:
        n, of_each = threads or (here.n_threads, 1)
        yield from in_order(partial(work, shared), tasks, n, is_concurrent, n_jobs_of_each=of_each)
    elif here.workers.in_this_process and is_concurrent is not None and not all(map(is_concurrent, tasks)):
        yield from (work(shared, task) for task in tasks)
    else:
        carry_out = partial(_carry_out, work)
        for result, task_warnings in results_of_tasks(here.workers, carry_out, shared, tasks, name):
            here.require_go_on()
            for message in task_warnings:
                warn(message)
            yield result


@one_thread()
def _carry_out(work: Callable[[Any, T], R], shared: Shared, task: T) -> tuple[R, tuple[DmlrankWarning, ...]]:
    """Carry out a task in a worker; the package's warnings are returned beside the result."""
    import lightgbm  # noqa: F401

    _prepare_thread(1)
    value = shared.load()
    token = _current.set(Computation(n_jobs=1))
    try:
        with collected_warnings() as task_warnings:
            return work(value, task), tuple(task_warnings)
    finally:
        _current.reset(token)

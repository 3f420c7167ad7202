"""Tasks on the user's workers: an executor with the standard library's interface, or a client of Dask.

The steps of a fit hand their tasks to :func:`in_workers`. Within ``with executing(executor)`` the tasks run on the
workers of the executor, otherwise on the package's own threads. The number and content of the tasks do not depend on
the workers, and therefore the computed numbers do not depend on the workers.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from ..exceptions import DmlrankWarning, ExecutorError, OptionTypeError, shown
from .blas import one_thread
from .parallel import core_count, in_order, silence_lightgbm
from .shared_values import InFile, InMemory, Shared
from .versions import versions
from .warning_collection import collected_warnings, warn

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
# A function of two arguments: the value that all tasks share, and one task.
Task: TypeAlias = Callable[[Any, Any], Any]
# The result of a task, and the warnings of this package that the task gave.
Outcome: TypeAlias = tuple[Any, tuple[DmlrankWarning, ...]]

# Number of tasks for each worker that are handed over before the first result is taken.
_TASKS_PER_WORKER = 2
# How often tasks are handed over again after workers were lost with the data that they held.
_ATTEMPTS = 3
# Seconds to wait for a new worker where a Dask cluster has none.
_PATIENCE = 120.0


class WorkersLostError(Exception):
    """Workers were lost with their data; the tasks can be handed over again."""


class Workers(Protocol):
    """Workers that carry out tasks.

    kept: The shared value that the workers keep for further tasks, and what :meth:`share` returned for it.
    """

    kept: tuple[object, Any] | None

    @property
    def n(self) -> int:
        """Number of tasks that run at the same time."""
        ...

    @property
    def in_this_process(self) -> bool:
        """Whether the workers are threads of this process."""
        ...

    def share(self, value: object) -> Any:
        """Make a value available to all workers; what is returned is passed to :meth:`submit`."""
        ...

    def submit(self, work: Task, shared: Any, task: object, key: tuple[str, int]) -> Any:
        """Hand a task over."""
        ...

    def result(self, pending: Any) -> Outcome:
        """Wait for the result of a task and the package's warnings."""
        ...

    def close(self) -> None:
        """Remove the shared values, such as their files."""
        ...


@one_thread()
def carry_out(work: Task, shared: Shared, task: object) -> Outcome:
    """Carry out a task in a worker; the package's warnings are returned beside the result."""
    silence_lightgbm()
    value = shared.load()
    with collected_warnings() as task_warnings:
        result = work(value, task)
    return result, tuple(task_warnings)


class ExecutorWorkers:
    """The workers of an executor: threads, or processes that read shared values from a file."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.kept: tuple[object, Any] | None = None
        self.n = int(getattr(executor, "_max_workers", None) or core_count(None))
        context = getattr(executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ExecutorError(
                "the executor starts its processes by fork, in which LightGBM's threads can hang; start them by spawn: "
                "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn'))"
            )
        self.in_this_process = self._submit(os.getpid).result() == os.getpid()
        self._folder: Path | None = None

    def share(self, value: object) -> Shared:
        """Return the value itself for threads, and a file of it for processes."""
        if self.in_this_process:
            return InMemory(value)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dmlrank-"))
        return InFile.write(value, self._folder)

    def submit(self, work: Task, shared: Shared, task: object, key: tuple[str, int]) -> Any:
        """Hand a task over; executors have no names for tasks."""
        return self._submit(carry_out, work, shared, task)

    def _submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        try:
            return self.executor.submit(function, *arguments)
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise ExecutorError(
                f"the executor takes no tasks: {error}; pass an executor that has not been shut down"
            ) from error

    def result(self, pending: Any) -> Outcome:
        """Wait for a result."""
        try:
            outcome: Outcome = pending.result()
        except BrokenExecutor as error:
            raise _broken(error) from error
        return outcome

    def close(self) -> None:
        """Remove the files of the shared values."""
        self.kept = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _broken(error: BaseException) -> ExecutorError:
    return ExecutorError(
        f"a worker of the executor has ended, and the executor takes no more tasks ({error}); nothing of the fit is "
        f"kept. Often a process was ended because the machine had no memory left: use fewer workers. Fit again with a "
        f"new executor, or with a Dask client, which starts lost tasks again"
    )


def _has_arrived(value: object) -> bool:
    """Return True; Dask carries out this task on a worker as soon as the worker has the value."""
    return value is not None


class DaskWorkers:
    """The workers of a Dask cluster; each worker receives a shared value once."""

    in_this_process = False

    def __init__(self, client: Any, patience: float = _PATIENCE) -> None:
        self.client = client
        self.kept: tuple[object, Any] | None = None
        self.patience = patience
        self._wait_for_a_worker()

    @property
    def n(self) -> int:
        """Number of threads of all workers."""
        return max(1, sum(self.client.nthreads().values()))

    def share(self, value: object) -> Any:
        """Send a value to all workers."""
        for attempt in range(_ATTEMPTS + 1):
            self._wait_for_a_worker()
            try:
                return self._send_to_all(InMemory(value, versions()))
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                raise ExecutorError(
                    f"the data of the workers' tasks cannot be sent to Dask's workers: {error}; learners, functionals "
                    f"and judges must be defined at the top level of a module that the workers can import"
                ) from error
            except (TimeoutError, OSError, KeyError, WorkersLostError) as error:
                # Dask finds no worker, or loses one that is receiving the value.
                if attempt == _ATTEMPTS:
                    raise ExecutorError(
                        f"Dask cannot send the data of the workers' tasks to its workers ({error!r}); nothing of the "
                        f"fit is kept. Use workers with more memory, or fewer of them"
                    ) from error
        raise AssertionError("the loop returns or raises")

    def _send_to_all(self, value: object) -> Any:
        """Send a value to one worker, from which all others fetch it."""
        shared = self.client.scatter(value, hash=False)
        name = f"dmlrank data of tasks {uuid.uuid4().hex}"
        arrivals = [
            self.client.submit(
                _has_arrived, shared, workers=[address], allow_other_workers=True, key=(name, number), pure=False
            )
            for number, address in enumerate(self.client.nthreads())
        ]
        for arrival in arrivals:
            self.result(arrival)
        return shared

    def submit(self, work: Task, shared: Any, task: object, key: tuple[str, int]) -> Any:
        """Hand a task over, under a name that Dask's dashboard shows."""
        return self.client.submit(carry_out, work, shared, task, key=key, pure=False)

    def result(self, pending: Any) -> Outcome:
        """Wait for a result."""
        import distributed

        while True:
            try:
                distributed.wait([pending], timeout=1.0)
            except TimeoutError:
                self._wait_for_a_worker()
                continue
            except CancelledError as error:
                raise WorkersLostError from error
            try:
                outcome: Outcome = pending.result()
            except distributed.KilledWorker as error:
                raise ExecutorError(
                    f"a task has ended {_ATTEMPTS + 1} workers, one after the other: {error}; often the machine has no "
                    f"memory left. Use fewer threads for each worker, or workers with more memory"
                ) from error
            except CancelledError as error:
                raise WorkersLostError from error
            return outcome

    def _wait_for_a_worker(self) -> None:
        """Raise an error if the cluster has no worker, and gets none for ``patience`` seconds."""
        until = time.monotonic() + self.patience
        while not self.client.nthreads():
            if time.monotonic() > until:
                raise ExecutorError(
                    f"the Dask cluster has had no worker for {self.patience:g} seconds; nothing of the fit is kept. "
                    f"Start workers, and fit again"
                )
            time.sleep(min(0.2, self.patience))

    def close(self) -> None:
        """Forget the kept value: Dask removes shared values that nobody refers to."""
        self.kept = None


def workers_of(executor: object) -> ExecutorWorkers | DaskWorkers:
    """Return the workers of an executor or a Dask client."""
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(executor, "scatter"):
        return DaskWorkers(executor)
    if callable(getattr(executor, "submit", None)) and not isinstance(executor, type):
        return ExecutorWorkers(executor)
    raise OptionTypeError(
        f"executor={shown(executor)} is not allowed; allowed are an executor with the interface of "
        f"concurrent.futures.Executor (of threads or processes), a dask.distributed.Client, and None for the package's "
        f"own threads"
    )


_current: ContextVar[Workers | None] = ContextVar("dmlrank_workers", default=None)


@contextmanager
def executing(executor: object) -> Iterator[None]:
    """Carry out the tasks within the ``with`` block on the workers of ``executor``; None for the package's threads."""
    if executor is None:
        yield
        return
    workers = workers_of(executor)
    token = _current.set(workers)
    try:
        yield
    finally:
        _current.reset(token)
        workers.close()


def has_workers() -> bool:
    """Return whether tasks are carried out by the user's workers."""
    return _current.get() is not None


def jobs_of_a_task(n_jobs: int | None) -> int | None:
    """Return the number of threads in a task: one on the user's workers, ``n_jobs`` in the package's own process."""
    return 1 if has_workers() else n_jobs


def in_workers(
    work: Callable[[S, T], R],
    shared: S,
    tasks: Sequence[T],
    *,
    name: str,
    n_jobs: int | None,
    is_concurrent: Callable[[T], bool] | None = None,
    is_kept: bool = False,
) -> Iterator[R]:
    """Yield ``work(shared, task)`` for every task, in the order of the tasks."""
    workers = _current.get()
    if workers is None:
        yield from in_order(partial(work, shared), tasks, core_count(n_jobs), is_concurrent)
        return
    if workers.in_this_process and is_concurrent is not None and not all(map(is_concurrent, tasks)):
        yield from (work(shared, task) for task in tasks)
        return
    for result, task_warnings in _results(workers, work, shared, tasks, name=name, is_kept=is_kept):
        for message in task_warnings:
            warn(message, stacklevel=2)
        yield result


def _shared_with(workers: Workers, value: object, *, renew: bool = False) -> Any:
    """Return what ``share`` returned for the kept value, or share the value and keep it; ``renew`` shares it again."""
    if renew or workers.kept is None or workers.kept[0] is not value:
        workers.kept = (value, workers.share(value))
    return workers.kept[1]


def _results(
    workers: Workers, work: Callable[[S, T], R], shared: S, tasks: Sequence[T], *, name: str, is_kept: bool
) -> Iterator[tuple[R, tuple[DmlrankWarning, ...]]]:
    """Yield results and warnings of tasks in their order; lost tasks are handed over again."""
    if not len(tasks):
        return
    handle = _shared_with(workers, shared) if is_kept else workers.share(shared)
    label = f"dmlrank {name}-{uuid.uuid4().hex}"
    waiting: deque[tuple[int, Any]] = deque()
    n_submitted, n_lost = 0, 0

    def submit(number: int) -> Any:
        return workers.submit(work, handle, tasks[number], (f"{label}{n_lost or ''}", number))

    try:
        while n_submitted < len(tasks) or waiting:
            while n_submitted < len(tasks) and len(waiting) < _TASKS_PER_WORKER * workers.n:
                waiting.append((n_submitted, submit(n_submitted)))
                n_submitted += 1
            try:
                result = workers.result(waiting[0][1])
            except WorkersLostError as error:
                n_lost += 1
                if n_lost > _ATTEMPTS:
                    raise ExecutorError(
                        f"workers were lost {n_lost} times with the data of their tasks; nothing of the fit is kept. "
                        f"Use workers with more memory, or fewer of them"
                    ) from error
                handle = _shared_with(workers, shared, renew=True) if is_kept else workers.share(shared)
                waiting = deque((number, submit(number)) for number, _ in waiting)
                continue
            waiting.popleft()
            yield result
    finally:
        for _, pending in waiting:
            with suppress(Exception):
                pending.cancel()

"""The user's workers: an executor with the standard library's interface, or a client of Dask.

What they do not give by themselves is here: a value that all tasks share is sent once, tasks whose worker has ended are
handed over again, and what cannot be carried out is one clear error.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import pickle
import shutil
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from ..exceptions import ExecutorError, OptionTypeError, shown
from .versions import require_versions, versions

# Number of tasks for each worker that are handed over before the first result is taken.
_TASKS_PER_WORKER = 2
# How often tasks are handed over again after workers were lost with the data that they held.
_ATTEMPTS = 3
# Seconds to wait for a new worker where a Dask cluster has none.
_PATIENCE = 120.0


# --- values that all tasks share --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InMemory:
    """A value for workers in the same process, or one that Dask has brought to the worker.

    versions: Versions of the process that shares the value; None where the worker is in the same process.
    """

    value: Any
    versions: dict[str, str] | None = None

    def load(self) -> Any:
        """Return the value, after the worker's versions have been compared."""
        if self.versions is not None:
            require_versions(self.versions)
        return self.value


@dataclass(frozen=True, slots=True)
class InFile:
    """A value in a file, whose arrays the workers map into memory: one copy serves all processes of a machine.

    path: The file: the buffers of the arrays, then the pickled value.
    buffers: Start and length of each buffer.
    start: Start of the pickled value.
    versions: Versions of the process that wrote the file.
    """

    path: str
    buffers: tuple[tuple[int, int], ...]
    start: int
    versions: dict[str, str]

    @classmethod
    def write(cls, value: object, folder: Path) -> InFile:
        """Write a value to a new file of a folder."""
        large: list[pickle.PickleBuffer] = []
        pickled = _pickled(value, large.append)
        path = folder / uuid.uuid4().hex
        places = []
        try:
            with open(path, "wb") as file:
                for buffer in large:
                    with buffer.raw() as raw:
                        file.write(b"\0" * (-file.tell() % 64))
                        places.append((file.tell(), raw.nbytes))
                        file.write(raw)
                start = file.tell()
                file.write(pickled)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise ExecutorError(
                f"the data of the workers' tasks cannot be written to {folder}: {error.strerror or error}; allowed is "
                f"a folder with enough space that all workers can read. Choose one with the environment variable TMPDIR"
            ) from error
        return cls(str(path), tuple(places), start, versions())

    def load(self) -> Any:
        """Return the value, from the memory of this process where an earlier task has loaded it."""
        require_versions(self.versions)
        return _read(self.path, self.buffers, self.start)


Shared: TypeAlias = InMemory | InFile


@lru_cache(maxsize=4)
def _read(path: str, places: tuple[tuple[int, int], ...], start: int) -> Any:
    """Read a value that :meth:`InFile.write` has written."""
    try:
        with open(path, "rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ExecutorError(
            f"a worker cannot read {path}: {error.strerror or error}; workers read the data of their tasks "
            f"from a file that the fit has written. Set the environment variable TMPDIR to a folder that all "
            f"workers can read, or pass a Dask client, which sends the data to its workers"
        ) from error
    return pickle.loads(mapped[start:], buffers=[mapped[first : first + length] for first, length in places])


def _pickled(value: object, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    """Pickle a value; where pickle fails and the package cloudpickle is installed, cloudpickle is used."""
    try:
        return pickle.dumps(value, protocol=5, buffer_callback=buffer_callback)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if importlib.util.find_spec("cloudpickle") is None:
            raise ExecutorError(
                f"the data of the workers' tasks cannot be pickled: {error}; learners, functionals and judges must be "
                f"defined at the top level of a module that the workers can import, or the package cloudpickle must be "
                f"installed"
            ) from error
    import cloudpickle

    return bytes(cloudpickle.dumps(value, protocol=5, buffer_callback=buffer_callback))


# --- workers ----------------------------------------------------------------------------------------------------------


class WorkersLostError(Exception):
    """Workers were lost with their data; the tasks can be handed over again."""


class ExecutorWorkers:
    """The workers of an executor: threads, or processes that read shared values from a file."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.n = int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
        context = getattr(executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ExecutorError(
                "the executor starts its processes by fork, in which LightGBM's threads can hang; start them by spawn: "
                "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn'))"
            )
        self._folder: Path | None = None
        self.in_this_process = self.result(self.submit("process", os.getpid)) == os.getpid()
        self.kept: tuple[object, Any] | None = None

    def share(self, value: object) -> Shared:
        """Return the value itself for threads, and a file of it for processes."""
        if self.in_this_process:
            return InMemory(value)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dmlrank-"))
        return InFile.write(value, self._folder)

    def submit(self, key: object, function: Callable[..., Any], *arguments: object) -> Any:
        """Hand a task over; executors have no names for tasks."""
        try:
            return self.executor.submit(function, *arguments)
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise ExecutorError(
                f"the executor takes no tasks: {error}; pass an executor that has not been shut down"
            ) from error

    def result(self, pending: Any) -> Any:
        """Wait for a result."""
        try:
            return pending.result()
        except BrokenExecutor as error:
            raise _broken(error) from error

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
        """Send a value to one worker, from which all others fetch it."""
        for attempt in range(_ATTEMPTS + 1):
            self._wait_for_a_worker()
            try:
                shared = self.client.scatter(InMemory(value, versions()), hash=False)
                name = f"dmlrank data of tasks {uuid.uuid4().hex}"
                where = {"allow_other_workers": True, "pure": False}
                for arrival in [
                    self.client.submit(_has_arrived, shared, workers=[address], key=(name, number), **where)
                    for number, address in enumerate(self.client.nthreads())
                ]:
                    self.result(arrival)
                return shared
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

    def submit(self, key: object, function: Callable[..., Any], *arguments: object) -> Any:
        """Hand a task over, under a name that Dask's dashboard shows."""
        return self.client.submit(function, *arguments, key=key, pure=False)

    def result(self, pending: Any) -> Any:
        """Wait for a result."""
        import distributed

        while True:
            try:
                distributed.wait([pending], timeout=1.0)
                break
            except TimeoutError:
                self._wait_for_a_worker()
            except CancelledError as error:
                raise WorkersLostError from error
        try:
            return pending.result()
        except distributed.KilledWorker as error:
            raise ExecutorError(
                f"a task has ended {_ATTEMPTS + 1} workers, one after the other: {error}; often the machine has no "
                f"memory left. Use fewer threads for each worker, or workers with more memory"
            ) from error
        except CancelledError as error:
            raise WorkersLostError from error

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


def _shared_with(workers: ExecutorWorkers | DaskWorkers, value: object) -> Any:
    """Share a value, unless it is the last one that was shared."""
    kept = workers.kept
    if kept is None or kept[0] is not value:
        workers.kept = kept = (value, workers.share(value))
    return kept[1]


def results_of_tasks(
    workers: ExecutorWorkers | DaskWorkers,
    carry_out: Callable[[Shared, Any], Any],
    value: object,
    tasks: Sequence[Any],
    name: str,
) -> Iterator[Any]:
    """Yield the results of tasks that share a value, in their order; lost tasks are handed over again."""
    if not len(tasks):
        return
    shared = _shared_with(workers, value)
    label = f"dmlrank {name}-{uuid.uuid4().hex}"
    waiting: deque[tuple[int, Any]] = deque()
    n_submitted, n_lost = 0, 0

    def submit(number: int) -> Any:
        return workers.submit((f"{label}{n_lost or ''}", number), carry_out, shared, tasks[number])

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
                workers.kept = None
                shared = _shared_with(workers, value)
                waiting = deque((number, submit(number)) for number, _ in waiting)
                continue
            waiting.popleft()
            yield result
    finally:
        for _, pending in waiting:
            with suppress(Exception):
                pending.cancel()

"""Tasks on the user's workers: an executor with the standard library's interface, or a client of Dask.

What they do not give by themselves is here: a value that all tasks share is sent once, tasks whose worker has ended are
handed over again, and what cannot be carried out is one clear error.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import pickle
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
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

_MUST_BE_IMPORTABLE = (
    "learners and functionals must be defined at the top level of a module that the workers can import"
)


@dataclass(frozen=True, slots=True)
class InMemory:
    """A value for workers in the same process (``versions`` is None), or one that Dask has brought to the worker."""

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

    places: Start and end in the file of the pickled value and of the buffers of its arrays.
    """

    path: str
    places: tuple[tuple[int, int], ...]
    versions: dict[str, str] = field(compare=False)

    @classmethod
    def write(cls, value: object, folder: Path) -> InFile:
        """Write a value to a new file of a folder; where pickle fails, cloudpickle is used if it is installed."""
        buffers: list[pickle.PickleBuffer] = []
        try:
            pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if importlib.util.find_spec("cloudpickle") is None:
                raise ExecutorError(
                    f"data of the tasks cannot be pickled: {error}; {_MUST_BE_IMPORTABLE}, or install cloudpickle"
                ) from error
            import cloudpickle

            buffers.clear()
            pickled = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        path, places = folder / uuid.uuid4().hex, []
        try:
            with open(path, "wb") as file:
                for part in (memoryview(pickled), *(buffer.raw() for buffer in buffers)):
                    file.write(b"\0" * (-file.tell() % 64))
                    places.append((file.tell(), file.tell() + part.nbytes))
                    file.write(part)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise ExecutorError(
                f"the data of the tasks cannot be written to {folder}: {error}; set TMPDIR to a folder with space for "
                f"all workers"
            ) from error
        return cls(str(path), tuple(places), versions())

    def load(self) -> Any:
        """Return the value, from the memory of this process where an earlier task has loaded it."""
        require_versions(self.versions)
        return _read(self)


Shared: TypeAlias = InMemory | InFile


@lru_cache(maxsize=4)
def _read(stored: InFile) -> Any:
    """Read a value that :meth:`InFile.write` has written."""
    try:
        with open(stored.path, "rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ExecutorError(
            f"a worker cannot read {stored.path}: {error}; set TMPDIR to a folder that all workers can read, or use "
            f"Dask"
        ) from error
    pickled, *buffers = (mapped[start:end] for start, end in stored.places)
    return pickle.loads(pickled, buffers=buffers)


class WorkersLostError(Exception):
    """Workers were lost with their data; the tasks can be handed over again."""


class ExecutorWorkers:
    """The workers of an executor: threads, or processes that read shared values from a file.

    kept: The last value that was shared, and what tasks receive in its place.
    """

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.n = int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
        context = getattr(executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ExecutorError(
                "the executor forks its processes, in which LightGBM's threads can hang; start them by spawn"
            )
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._making_folder = threading.Lock()
        self.in_this_process = self.result(self.submit("process", os.getpid)) == os.getpid()
        self.kept: tuple[object, Any] | None = None

    def share(self, value: object) -> Shared:
        """Return the value itself for threads, and a file of it for processes."""
        if self.in_this_process:
            return InMemory(value)
        # Two threads may share at the same time; a second folder would remove the first with the files in it.
        with self._making_folder:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="dmlrank-", ignore_cleanup_errors=True)
            folder = Path(self._folder.name)
        return InFile.write(value, folder)

    def submit(self, key: object, function: Callable[..., Any], *arguments: object) -> Any:
        """Hand a task over; executors have no names for tasks."""
        try:
            return self.executor.submit(function, *arguments)
        except (RuntimeError, OSError) as error:
            raise ExecutorError(
                f"the executor takes no tasks: {error}; pass one that is open and whose workers have not ended"
            ) from error

    def result(self, pending: Any) -> Any:
        """Wait for a result."""
        try:
            return pending.result()
        except (CancelledError, OSError, EOFError) as error:
            raise ExecutorError(
                f"a task was not carried out ({type(error).__name__}: {error}); keep the executor open until the fit "
                f"has ended"
            ) from error
        except BrokenExecutor as error:
            raise ExecutorError(
                f"a worker of the executor has ended ({error}); fit again with fewer, or a Dask client, which starts "
                f"tasks again"
            ) from error

    def close(self) -> None:
        """Remove the files of the shared values."""
        self.kept = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class DaskWorkers:
    """The workers of a Dask cluster; each receives a shared value once, as a future.

    kept: The last value that was shared, and its future.
    """

    in_this_process = False

    def __init__(self, client: Any, patience: float = _PATIENCE) -> None:
        self.client, self.patience = client, patience
        self.kept: tuple[object, Any] | None = None
        self._wait_for_a_worker()

    @property
    def n(self) -> int:
        """Number of threads of all workers."""
        return max(1, sum(self.client.nthreads().values()))

    def share(self, value: object) -> Any:
        """Send a value to a worker; every other worker fetches it once."""
        self._wait_for_a_worker()
        try:
            # Workers fetch the value from one another. With broadcast=True, Dask waits for ever for a worker that ends
            # while it receives the value.
            return self.client.scatter(InMemory(value, versions()), hash=False)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ExecutorError(
                f"the data of the workers' tasks cannot be sent to Dask's workers: {error}; {_MUST_BE_IMPORTABLE}"
            ) from error
        except (TimeoutError, OSError, KeyError) as error:
            # Dask finds no worker, or loses one that is receiving the value.
            raise WorkersLostError(repr(error)) from error

    def submit(self, key: object, function: Callable[..., Any], *arguments: object) -> Any:
        """Hand a task over, under a name that Dask's dashboard shows."""
        return self.client.submit(function, *arguments, key=key, pure=False)

    def result(self, pending: Any) -> Any:
        """Wait for a result, as long as there are workers."""
        import distributed

        try:
            while True:
                try:
                    distributed.wait([pending], timeout=1.0)
                    break
                except TimeoutError:
                    self._wait_for_a_worker()
            return pending.result()
        except distributed.KilledWorker as error:
            raise ExecutorError(f"a task has ended {_ATTEMPTS + 1} workers: {error}; often memory is short") from error
        except CancelledError as error:
            raise WorkersLostError(repr(error)) from error

    def _wait_for_a_worker(self) -> None:
        """Raise an error if the cluster has no worker, and gets none for ``patience`` seconds."""
        if getattr(self.client, "status", None) == "closed":
            raise ExecutorError("the Dask client is closed; fit again with an open client")
        until = time.monotonic() + self.patience
        while not self.client.nthreads():
            if time.monotonic() > until:
                raise ExecutorError(f"the Dask cluster has had no worker for {self.patience:g} seconds; start workers")
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
        f"executor={shown(executor)}; allowed: a concurrent.futures.Executor or a dask.distributed.Client"
    )


def results_of_tasks(
    workers: ExecutorWorkers | DaskWorkers,
    carry_out: Callable[[Shared, Any], Any],
    value: object,
    tasks: Sequence[Any],
    name: str,
) -> Iterator[Any]:
    """Yield the results of tasks that share a value, in their order; lost tasks are handed over again."""
    label, n_lost, n_done = f"dmlrank {name}-{uuid.uuid4().hex}", 0, 0
    while n_done < len(tasks):
        waiting: deque[Any] = deque()
        try:
            # Tasks of two kinds may be handed over at the same time, in two threads: ``kept`` is then of either.
            kept = workers.kept
            if kept is None or kept[0] is not value:
                workers.kept = kept = (value, workers.share(value))
            while n_done < len(tasks):
                n_ahead = min(len(tasks), n_done + _TASKS_PER_WORKER * workers.n)
                for number in range(n_done + len(waiting), n_ahead):
                    key = (f"{label}{n_lost or ''}", number)
                    waiting.append(workers.submit(key, carry_out, kept[1], tasks[number]))
                result = workers.result(waiting[0])
                waiting.popleft()
                n_done += 1
                yield result
        except WorkersLostError as error:
            n_lost, workers.kept = n_lost + 1, None
            if n_lost > _ATTEMPTS:
                raise ExecutorError(f"workers were lost {n_lost} times with their data ({error}); use fewer") from error
        finally:
            for pending in waiting:
                with suppress(Exception):
                    pending.cancel()

"""Transport of values that all tasks share to the workers: in memory, or in a file that workers map into memory."""

from __future__ import annotations

import importlib.util
import mmap
import pickle
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..exceptions import ExecutorError
from .versions import require_versions, versions

# Largest number of shared values that a worker process keeps in memory.
_KEPT = 4


class Shared(Protocol):
    """A value that all tasks of a step share, in the form in which the workers receive it."""

    def load(self) -> Any:
        """Return the value; called by a worker."""
        ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """A value for workers in the same process, or one that Dask has brought to the worker.

    value: The value.
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
        with _lock:
            if self.path not in _loaded:
                require_versions(self.versions)
                _loaded[self.path] = self._read()
                while len(_loaded) > _KEPT:
                    _loaded.popitem(last=False)
            return _loaded[self.path]

    def _read(self) -> Any:
        try:
            with open(self.path, "rb") as file:
                mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise ExecutorError(
                f"a worker cannot read {self.path}: {error.strerror or error}; workers read the data of their tasks "
                f"from a file that the fit has written. Set the environment variable TMPDIR to a folder that all "
                f"workers can read, or pass a Dask client, which sends the data to its workers"
            ) from error
        buffers = [mapped[start : start + length] for start, length in self.buffers]
        return pickle.loads(mapped[self.start :], buffers=buffers)


_loaded: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


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

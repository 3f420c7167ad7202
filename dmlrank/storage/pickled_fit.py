"""The steps of a fit as bytes and back, so that a stored result can answer everything.

What patsy has fitted cannot be pickled. It is left out, and made again on loading from the data, the formula and what
the formula names, which the file holds; stateful transforms see the same rows and come out the same. The features are
compared with the stored ones.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import types
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import patsy.builtins

from .._utils.atomic_write import write_file
from .._utils.warning_collection import collected_warnings
from ..data.derived_pairs import DerivedPairs
from ..data.formula.features import FeatureMap, caller_environment
from ..data.formula.parse import names_in, parse_formula
from ..data.frames import column_names, take_columns
from ..data.read_votes import check_same_rows
from ..exceptions import DataError, DmlrankError, StorageError
from ..fit.inputs import Reading, read_source
from ..fit.state import FitSteps, Source
from ..options import Options

T = TypeVar("T")

_FORMAT = 1
# Bytes from which an array is stored once, however often it occurs.
_LARGE = 10_000
_SOURCE, _FEATURES = "source", "features"
_ADVICE = "define it in a module that can be imported, or save without with_data=True"


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """FitSteps as bytes; pickled and loaded, it becomes the steps themselves.

    Attributes
    ----------
    reading : bytes
        What the data were read from: formula, frame, names of the formula, options; packed.
    steps : bytes
        The steps without that, and the large arrays in them, each once; packed.
    """

    reading: bytes
    steps: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return revive, (_FORMAT, self.reading, self.steps)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An object that a call makes when it is loaded."""

    call: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call, self.arguments


def write_pickle(path: str | os.PathLike[str], result: object) -> None:
    """Write a result to a file; where it cannot be pickled or written, the file is as it was."""
    write_file(path, pickle.dumps(result))


def read_pickle(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Read a result of a class that :func:`write_pickle` has written.

    Raises
    ------
    StorageError
        If the file holds something else.
    """
    try:
        with open(path, "rb") as file:
            stored = pickle.load(file)
    except (pickle.UnpicklingError, EOFError, UnicodeDecodeError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, DmlrankError):
            raise
        raise StorageError(f"{os.fspath(path)!r} was not written by save: {error or 'it is empty'}") from None
    if not isinstance(stored, kind):
        raise StorageError(f"{os.fspath(path)!r} holds a {type(stored).__name__}, not a {kind.__name__}")
    return stored


def store_steps(steps: FitSteps) -> StoredSteps:
    """The steps with their data.

    Raises
    ------
    StorageError
        If a function of the formula or an option cannot be stored, because it is a lambda, or defined in a function or
        in the script that was started; or the frame is not as it was when the fit read it.
    """
    source, names = steps.source, _formula_names(steps.source)
    for name, value in names.items():
        _dump(value, f"{name!r}, which the formula uses,")
    for item in fields(Options):
        _dump(getattr(steps.options, item.name), f"the option {item.name}")
    derived = isinstance(source.data, DerivedPairs)
    frame = source.data if derived else take_columns(source.data, column_names(source.data))
    try:
        check_same_rows(steps.data, frame, steps.options.unlabelled)
    except DataError as error:
        raise StorageError(f"the data cannot be stored: {error}") from None
    reading = _dump((source.formula, frame, names, steps.options), "the data frame")
    arrays: dict[str, np.ndarray] = {}
    rest = _dump(steps, "a step of the fit", arrays)
    return StoredSteps(_packed(reading), _packed(_dump((rest, arrays), "a step of the fit")))


def _packed(stored: bytes) -> bytes:
    """Compressed at the fastest level: codes, labels and corrections are zeros for the most part."""
    return zlib.compress(stored, 1)


def revive(version: int, reading: bytes, steps: bytes) -> FitSteps:
    """The steps of :func:`store_steps`.

    Raises
    ------
    StorageError
        If they were stored by another version, or the formula now gives other features.
    """
    if version != _FORMAT:
        raise StorageError(f"the file has data in format {version}; this version of dmlrank reads format {_FORMAT}")
    plain, arrays = pickle.loads(zlib.decompress(steps))
    try:
        formula, frame, names, options = pickle.loads(zlib.decompress(reading))
    except (ImportError, AttributeError) as error:
        raise StorageError(
            f"something that the formula or an option uses cannot be imported any more: {error}"
        ) from None
    source = Source(formula, frame, caller_environment(names, depth=0))
    with collected_warnings():
        # They were given when the fit was made, and are kept with it.
        try:
            read = read_source(source, Reading.of(options))
        except DmlrankError as error:
            raise StorageError(f"the data cannot be read as they were when the result was saved: {error}") from error
    loaded = _Unpickler(plain, {_SOURCE: source, _FEATURES: read.feature_map, **arrays}).load()
    if not isinstance(loaded, FitSteps) or not _alike(loaded.data.x, read.x):
        raise StorageError(
            f"the features {parse_formula(formula).features!r} come out otherwise than when the result was saved: do "
            f"the functions in them still do the same?"
        )
    return loaded


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    scale = np.nanmax(np.abs(one), initial=0.0)
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=1e-9 * scale, equal_nan=True)


def _formula_names(source: Source) -> dict[str, Any]:
    """What the formula uses beside columns: functions, modules and arrays of the caller, by name."""
    values, calls, _ = names_in(parse_formula(source.formula).features)
    columns = set(column_names(source.data))
    # text() is known wherever a formula is read.
    own = caller_environment({}, depth=0).namespace
    known = source.environment.namespace
    wanted = [name for name in (*values, *calls) if not (name in values and name in columns)]
    return {
        name: known[name]
        for name in wanted
        if name in known and not (name in own and known[name] is own[name]) and not _is_builtin(name, known[name])
    }


def _is_builtin(name: str, value: Any) -> bool:
    return name in patsy.builtins.__all__ and value is getattr(patsy.builtins, name)


def _dump(value: Any, what: str, arrays: dict[str, np.ndarray] | None = None) -> bytes:
    """A value as bytes; large arrays go to ``arrays``, where there is one, under their digests."""
    out = io.BytesIO()
    try:
        _Pickler(out, what, arrays).dump(value)
    except StorageError:
        raise
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError, RecursionError) as error:
        raise StorageError(f"{what} cannot be stored with the data: {error}; {_ADVICE}") from None
    return out.getvalue()


def _is_large(value: Any) -> bool:
    """Whether a value is a large array of numbers whose bytes say all about it."""
    if type(value) is not np.ndarray or value.dtype.kind not in "biuf":
        return False
    return value.nbytes >= _LARGE and value.flags.c_contiguous


class _Pickler(pickle.Pickler):
    """Leaves out what is made again on loading or kept apart, and refuses what no other process could import."""

    def __init__(self, out: io.BytesIO, what: str, arrays: dict[str, np.ndarray] | None = None) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL)
        self._what, self._arrays = what, arrays

    def persistent_id(self, value: Any) -> str | None:
        if self._arrays is not None and _is_large(value):
            digest = f"{value.dtype.str} {value.shape} {blake2b(value.data, digest_size=16).hexdigest()}"
            return self._keep(f"{digest} {value.flags.writeable}", value)
        return _SOURCE if isinstance(value, Source) else _FEATURES if isinstance(value, FeatureMap) else None

    def _keep(self, name: str, array: np.ndarray) -> str:
        assert self._arrays is not None
        self._arrays.setdefault(name, array)
        return name

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        transform = getattr(value, "__patsy_stateful_transform__", None)
        if isinstance(value, types.FunctionType) and transform is not None:
            return patsy.stateful_transform, (transform,)
        if isinstance(value, types.FunctionType | type):
            name = value.__qualname__
            if value.__module__ == "__main__" or "<" in name:
                where = "the script that was started" if value.__module__ == "__main__" else value.__module__
                raise StorageError(f"{self._what} cannot be stored with the data: {name!r} of {where}; {_ADVICE}")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Puts in what was left out."""

    def __init__(self, stored: bytes, rebuilt: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(stored))
        self._rebuilt = rebuilt

    def persistent_load(self, name: str) -> Any:
        return self._rebuilt[name]

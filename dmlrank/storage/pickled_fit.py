"""The steps of a fit as bytes and back, so that all methods of a loaded result work, also those that need the data.

The objects of patsy cannot be pickled. They are left out of the file. On loading, they are built again from the data,
the formula and the objects that the formula names, all of which are in the file. Stateful transforms learn from the
same rows and therefore give the same features. Loading compares these features with the stored ones.
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
from typing import Any, TypeAlias, TypeVar

import numpy as np
import patsy.builtins
from numpy.typing import NDArray

from .._utils.argument_checks import check_path
from .._utils.atomic_write import write_file
from .._utils.computation import collected_warnings
from ..data.derived_pairs import DerivedPairs
from ..data.formula.features import FeatureMap, caller_environment, resolve_functions
from ..data.formula.parse import names_in, parse_formula
from ..data.frames import column_names, take_columns
from ..data.read_votes import read_again
from ..exceptions import DataError, DmlrankError, StorageError
from ..fit.stages import read_source
from ..fit.state import FitState, Source
from ..options import Options

T = TypeVar("T")

# Large arrays by their digests (hashes of their contents).
ArrayByDigest: TypeAlias = dict[str, NDArray[np.generic]]

# Raised whenever a class of a saved fit changes, see tests/stored_results/saved_classes.py: other files are refused.
_FORMAT = 20
# Bytes from which an array is stored once, however often it occurs.
_LARGE = 10_000
_SOURCE, _FEATURES = "source", "features"
_ADVICE = "define it in a module that can be imported, or save without with_data=True"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A stand-in that is pickled for an object: when it is loaded, ``call`` builds the object from ``arguments``."""

    call: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call, self.arguments


def write_pickle(path: str | os.PathLike[str], result: object) -> None:
    """Write a result to a file; if pickling or writing fails, an existing file stays unchanged."""
    write_file(path, pickle.dumps(result))


def read_pickle(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Read an object of the class ``kind`` from a file that :func:`write_pickle` has written."""
    check_path(path)
    try:
        with open(path, "rb") as file:
            stored = pickle.load(file)
    except (DmlrankError, OSError, MemoryError):
        raise
    except Exception as error:
        # A file that is not a pickle, or has changed bytes, can raise any error: its bytes are calls of functions.
        raise StorageError(
            f"{os.fspath(path)!r} was not written by save() and cannot be loaded: {error or 'the file is empty'}"
        ) from None
    if not isinstance(stored, kind):
        raise StorageError(f"{os.fspath(path)!r} holds a {type(stored).__name__}, not a {kind.__name__}")
    return stored


def store_steps(steps: FitState) -> Rebuilt:
    """Return a stand-in for the steps of a fit with their data, to be pickled; :func:`revive` returns the steps.

    It holds two compressed parts: formula, frame, objects that the formula names, and options, from which the data are
    read again; and the steps with their large arrays, each array stored once. The steps lack the frame and the
    features of the data, because the first part gives them.
    """
    source, names = steps.source, _formula_names(steps.source)
    for name, value in names.items():
        _dump(value, f"{name!r}, which the formula uses,")
    for item in fields(Options):
        _dump(getattr(steps.options, item.name), f"the option {item.name}")
    derived = isinstance(source.data, DerivedPairs)
    frame = source.data if derived else take_columns(source.data, column_names(source.data))
    try:
        read_again(steps.data, frame)
    except DataError as error:
        raise StorageError(f"the data cannot be stored: {error}") from None
    reading = _dump((source.formula, frame, names, steps.options), "the data frame")
    arrays: ArrayByDigest = {}
    steps_without_arrays = _dump(steps, "a step of the fit", arrays)
    parts = (reading, _dump((steps_without_arrays, arrays), "a step of the fit"))
    # The fastest level of compression is enough for arrays that consist mostly of zeros.
    return Rebuilt(revive, (_FORMAT, *(zlib.compress(part, 1) for part in parts)))


def revive(version: int, reading: bytes, steps: bytes) -> FitState:
    """Return the steps that :func:`store_steps` has stored."""
    if version != _FORMAT:
        raise StorageError(
            f"the file has data in format {version}, but this version of dmlrank reads format {_FORMAT}; load the "
            f"file with the version that wrote it, or fit the votes again"
        )
    steps_without_arrays, arrays = pickle.loads(zlib.decompress(steps))
    try:
        formula, frame, names, options = pickle.loads(zlib.decompress(reading))
    except (ImportError, AttributeError) as error:
        raise StorageError(
            f"an object of the formula or an option cannot be imported any more: {error}; make its module importable"
        ) from None
    source = Source(formula, frame, caller_environment(names, depth=0))
    with collected_warnings():
        # The warnings of reading were given when the fit was made, and are stored with the fit.
        try:
            data = read_source(source, options)
        except DmlrankError as error:
            raise StorageError(f"the data cannot be read as they were when the result was saved: {error}") from error
    loaded: FitState = _Unpickler(steps_without_arrays, {_SOURCE: source, _FEATURES: data.feature_map, **arrays}).load()
    old, new = loaded.data.x, data.x
    scale = np.nanmax(np.abs(old), initial=0.0)
    if old.shape != new.shape or not np.allclose(old, new, rtol=1e-6, atol=1e-9 * scale, equal_nan=True):
        raise StorageError(
            f"the features {parse_formula(formula).features!r} differ from those of the saved result; make sure "
            f"that the functions in them have not changed"
        )
    return loaded


def _formula_names(source: Source) -> dict[str, object]:
    """Return the objects of the caller that the formula uses by name: functions, modules and arrays, not columns."""
    features = parse_formula(source.formula).features
    values, calls = names_in(features).values, names_in(features).calls
    columns = set(column_names(source.data))
    # Names such as text() are defined wherever a formula is read.
    predefined = caller_environment({}, depth=0).namespace
    namespace = resolve_functions(features, source.environment).namespace
    used = [name for name in (*values, *calls) if not (name in values and name in columns) and name in namespace]
    return {
        name: namespace[name]
        for name in used
        if not (name in predefined and namespace[name] is predefined[name])
        and not (name in patsy.builtins.__all__ and namespace[name] is getattr(patsy.builtins, name))
    }


def _dump(value: object, description: str, arrays: ArrayByDigest | None = None) -> bytes:
    """Return a value as pickled bytes."""
    out = io.BytesIO()
    try:
        _Pickler(out, description, arrays).dump(value)
    except StorageError:
        raise
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError, RecursionError) as error:
        raise StorageError(f"{description} cannot be stored with the data: {error}; {_ADVICE}") from None
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Pickler that writes names for the source of the data, the features and large arrays, and refuses local functions.

    A function or class of the started script, or one defined inside a function, cannot be imported where the file is
    loaded.
    """

    def __init__(self, out: io.BytesIO, description: str, arrays: ArrayByDigest | None = None) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL)
        self._description, self._arrays = description, arrays

    def persistent_id(self, value: Any) -> str | None:
        """Return the name under which an object is found on loading; None for an object that is pickled."""
        is_array = type(value) is np.ndarray and value.dtype.kind in "biuf" and value.flags.c_contiguous
        if self._arrays is not None and is_array and value.nbytes >= _LARGE:
            digest = f"{value.dtype.str} {value.shape} {blake2b(value.data, digest_size=16).hexdigest()}"
            name = f"{digest} {value.flags.writeable}"
            self._arrays.setdefault(name, value)
            return name
        return _SOURCE if isinstance(value, Source) else _FEATURES if isinstance(value, FeatureMap) else None

    def reducer_override(self, value: object) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Return how modules and stateful transforms are made again; refuse functions that cannot be imported."""
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        transform = getattr(value, "__patsy_stateful_transform__", None)
        if isinstance(value, types.FunctionType) and transform is not None:
            return patsy.stateful_transform, (transform,)
        if isinstance(value, types.FunctionType | type):
            name = value.__qualname__
            if value.__module__ == "__main__" or "<" in name:
                module = "the script that was started" if value.__module__ == "__main__" else value.__module__
                raise StorageError(
                    f"{self._description} cannot be stored with the data: {name!r} of {module} cannot be imported "
                    f"elsewhere; {_ADVICE}"
                )
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Unpickler that puts objects in the places where the pickler wrote their names."""

    def __init__(self, stored: bytes, rebuilt: dict[str, object]) -> None:
        super().__init__(io.BytesIO(stored))
        self._rebuilt = rebuilt

    def persistent_load(self, name: str) -> object:
        """Return the object that stands for a name in the file."""
        return self._rebuilt[name]

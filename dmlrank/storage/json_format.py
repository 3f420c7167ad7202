"""Estimates as JSON and back: no code in the file, every number exact, everything checked when it is read."""

from __future__ import annotations

import json
import math
import os
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..exceptions import StorageError, listed, nearest
from ..fit.estimates import Estimates
from ..options import ESTIMATORS

FORMAT = "dmlrank.RankResults"
SCHEMA = 1

# JSON has no words for these.
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_text(estimates: Estimates) -> str:
    """The estimates as one JSON object.

    Floats are written with as many digits as it takes to read the same float again; NaN and infinities as the strings
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    content = {"format": FORMAT, "schema": SCHEMA, "estimates": _plain(estimates)}
    return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1)


def from_text(text: str, where: str = "the text") -> Estimates:
    """Estimates from what :func:`to_text` has written.

    Raises
    ------
    StorageError
        If it is no JSON, not of this format, of an unknown schema, or an entry is missing, unknown or not what it
        should be.
    """
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise StorageError(f"{where} is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        seen = content.get("format", "no format") if isinstance(content, dict) else f"a {type(content).__name__}"
        raise StorageError(f"{where} does not hold a result of dmlrank ({seen!r} in place of format {FORMAT!r})")
    if content.get("schema") != SCHEMA:
        raise StorageError(
            f"{where} has schema {content.get('schema')!r}; this version of dmlrank reads schema {SCHEMA}, a newer one "
            f"may read it"
        )
    try:
        estimates = _read(content.get("estimates"), Estimates, "estimates")
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None
    _check(estimates, where)
    return estimates


def read_text(path_or_text: str | os.PathLike[str]) -> tuple[str, str]:
    """The JSON text, and what to call it in errors: a text that begins with a brace, or what a file holds."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text, "the text"
    path = Path(path_or_text)
    try:
        return path.read_text(encoding="utf-8"), repr(str(path))
    except FileNotFoundError:
        raise StorageError(f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{str(path)!r} cannot be read as text: {error}") from None


def _plain(value: Any) -> Any:
    """Dataclasses as objects, arrays and tuples as lists, numbers as JSON has them."""
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else _special(number)
    return value


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _read(value: Any, kind: Any, at: str) -> Any:
    """The value as what the annotation says."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (other,) = [part for part in parts if part is not type(None)]
        return _read(value, other, at)
    if is_dataclass(kind):
        return _read_object(value, kind, at)
    if origin is np.ndarray:
        return _read_array(value, get_args(parts[1])[0], at)
    if origin is tuple:
        return _read_tuple(value, parts, at)
    if origin is dict:
        entries = _expect(value, isinstance(value, dict), "an object", at)
        return {name: _read(entry, parts[1], f"{at}.{name}") for name, entry in entries.items()}
    reader = _SCALARS.get(kind)
    if reader is None:
        raise StorageError(f"{at} is a {kind}, which this file format cannot hold")
    return reader(value, at)


def _read_object(value: Any, kind: Any, at: str) -> Any:
    _expect(value, isinstance(value, dict), "an object", at)
    known = {item.name: item for item in fields(kind)}
    for name in value:
        if name not in known:
            raise StorageError(f"{at} has an unknown entry {name!r}{nearest(name, known)} (a newer version's?)")
    lacking = [n for n, item in known.items() if n not in value and item.default is item.default_factory is MISSING]
    if lacking:
        raise StorageError(f"{at} lacks {listed(lacking)}")
    hints = get_type_hints(kind)
    return kind(**{name: _read(entry, hints[name], f"{at}.{name}") for name, entry in value.items()})


def _read_array(value: Any, dtype: Any, at: str) -> Any:
    _expect(value, isinstance(value, list), "a list", at)
    logical = dtype is np.bool_
    flat: list[Any] = []
    shape = _flatten(value, flat, at)
    read = _boolean if logical else _number
    return np.array([read(entry, at) for entry in flat], dtype=bool if logical else dtype).reshape(shape)


def _flatten(value: Any, into: list[Any], at: str) -> tuple[int, ...]:
    """Append the numbers of nested lists of one shape; that shape."""
    if not isinstance(value, list):
        into.append(value)
        return ()
    shapes = [_flatten(entry, into, at) for entry in value]
    if len(set(shapes)) > 1:
        raise StorageError(f"{at} has rows of different lengths")
    return (len(value), *(shapes[0] if shapes else ()))


def _read_tuple(value: Any, parts: tuple[Any, ...], at: str) -> tuple[Any, ...]:
    _expect(value, isinstance(value, list), "a list", at)
    kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(value):
        raise StorageError(f"{at} has {len(value)} entries; needed are {len(kinds)}")
    return tuple(_read(entry, kind, f"{at}[{i}]") for i, (entry, kind) in enumerate(zip(value, kinds, strict=True)))


def _expect(value: Any, right: bool, needed: str, at: str) -> Any:
    if not right:
        shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
        raise StorageError(f"{at} is {shown}; needed is {needed}")
    return value


def _number(value: Any, at: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    return float(_expect(value, isinstance(value, int | float) and not isinstance(value, bool), "a number", at))


def _whole(value: Any, at: str) -> int:
    return int(_expect(value, isinstance(value, int) and not isinstance(value, bool), "a whole number", at))


def _boolean(value: Any, at: str) -> bool:
    return bool(_expect(value, isinstance(value, bool), "true or false", at))


def _text(value: Any, at: str) -> str:
    return str(_expect(value, isinstance(value, str), "a string", at))


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {float: _number, int: _whole, bool: _boolean, str: _text}


def _check(estimates: Estimates, where: str) -> None:
    """Raise where the arrays do not fit together."""
    e, n_models, n_names = estimates, len(estimates.models), len(estimates.names)
    shapes = {
        "estimate": (e.estimate, (n_names,)),
        "plugin": (e.plugin, (n_names,)),
        "shares": (e.shares, (n_models,)),
        "fixed": (e.fixed, (n_names,)),
        "covariance.matrix": (e.covariance.matrix, (n_names, n_names)),
        "graph.edges": (e.graph.edges, (n_models, n_models)),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise StorageError(f"{where}: {name} has the shape {array.shape}; needed for {n_models} models is {shape}")
    basis = e.covariance.basis
    if basis.ndim != 2 or len(basis) != n_names or basis.shape[1] > n_names:
        raise StorageError(f"{where}: covariance.basis has the shape {basis.shape}; needed is ({n_names}, rank)")
    if e.estimator not in ESTIMATORS:
        raise StorageError(f"{where}: estimator is {e.estimator!r}; needed is one of {listed(ESTIMATORS)}")
    if len(set(e.models)) < n_models or n_models < 2:
        raise StorageError(f"{where}: models are {listed(e.models)}; needed are two or more different names")
    if len(set(e.outputs)) < len(e.outputs):
        raise StorageError(f"{where}: outputs are {listed(e.outputs)}; needed are different names")
    if not (0 < e.alpha < 1 and e.critical > 0 and np.isfinite(e.estimate).all()):
        raise StorageError(f"{where}: scores, alpha or critical value are not finite numbers in their range")
    if not np.isfinite(e.covariance.matrix).all() or (np.diag(e.covariance.matrix) < 0).any():
        raise StorageError(f"{where}: covariance.matrix is not the covariance of anything")

"""Estimates written as JSON and read back: the file holds no code, numbers are exact, a checksum shows any change."""

from __future__ import annotations

import hashlib
import json
import math
import os
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from .._utils.argument_checks import check_type
from ..data.columns import HALF_PAIR
from ..exceptions import StorageError, failing_as
from .estimates import Estimates

FORMAT = "dmlrank.RankResults"
SCHEMA = 1

# Largest number of characters of a file that is read. A result of 3,000 models has 700 million.
MAX_CHARACTERS = 2**30


def to_text(estimates: Estimates) -> str:
    """Return the estimates as one JSON object.

    A float is written with as many digits as are needed to read the same float again. NaN and infinities are written
    as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    encoded = _encode(estimates)
    content = {"format": FORMAT, "schema": SCHEMA, "estimates": encoded, "checksum": _checksum(encoded)}
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1)
    # UTF-8 cannot encode half of a surrogate pair. A text with one gets escapes for all characters beyond ASCII.
    return json.dumps(content, allow_nan=False, indent=1) if HALF_PAIR.search(text) else text


def from_text(text: str, source: str = "the text", *, max_characters: int = MAX_CHARACTERS) -> Estimates:
    """Return the estimates that :func:`to_text` has written."""
    if len(text) > max_characters:
        raise StorageError(f"{source} has more than {max_characters:,} characters, the largest size of a result")
    # The text may be no JSON, have a number of thousands of digits or lists that are nested too deeply.
    with failing_as(StorageError, f"reading {source} as JSON", (ValueError, RecursionError)):
        content = json.loads(text)
        found_format = content.get("format", "no format") if isinstance(content, dict) else type(content).__name__
        if not isinstance(content, dict) or found_format != FORMAT:
            raise StorageError(
                f"{source} does not hold a result of dmlrank: its format is {found_format!r}, not {FORMAT!r}"
            )
        if content.get("schema") != SCHEMA:
            raise StorageError(
                f"{source} has schema {content.get('schema')!r}, not {SCHEMA}; read it with the version that wrote it"
            )
        if content.get("checksum") != _checksum(content.get("estimates")):
            raise StorageError(
                f"{source} was changed or is damaged (the checksum differs); take the original file or write it again "
                f"with to_json()"
            )
    with failing_as(StorageError, f"reading {source}, which a newer version may have written,"):
        return _decode(content["estimates"], Estimates)


def _checksum(encoded: object) -> str:
    """Return a checksum of encoded estimates, whatever the order of entries and the spaces between them."""
    return hashlib.sha256(json.dumps(encoded, sort_keys=True).encode()).hexdigest()


def read_text(path_or_text: str | os.PathLike[str]) -> tuple[str, str]:
    """Return a JSON text, and its name in errors; a string is the path of a file unless it begins with a brace."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text, "the text"
    check_type("path_or_text", path_or_text, str | os.PathLike, "the path of a file, or the JSON text")
    path = Path(path_or_text)
    # One character more than is allowed is enough to refuse a file, even a device without end.
    with failing_as(StorageError, f"reading {str(path)!r} as text", (OSError, ValueError)):
        if not path.exists():
            raise StorageError(f"there is no file {str(path)!r}")
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1), repr(str(path))


def _encode(value: object) -> object:
    """Return dataclasses as objects, arrays and tuples as lists, and numbers as JSON writes them."""
    if is_dataclass(value):
        stored = (item.name for item in fields(value) if item.metadata.get("stored", True))
        return {name: _encode(getattr(value, name)) for name in stored}
    if isinstance(value, np.ndarray | np.generic):
        return _encode(value.tolist())
    if isinstance(value, list | tuple):
        return [_encode(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _decode(value: Any, kind: Any) -> Any:
    """Return a value of JSON, converted to the type that an annotation names."""
    # NDArray is an alias from numpy 2.5 and Python 3.12 on.
    meaning = getattr(get_origin(kind), "__value__", None)
    kind = kind if meaning is None else meaning[get_args(kind)]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (other,) = [part for part in parts if part is not type(None)]
        return None if value is None else _decode(value, other)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _decode(item, hints[name]) for name, item in value.items()})
    if origin is np.ndarray:
        # Numpy reads the strings for NaN and infinities as floats.
        return np.array(value, dtype=get_args(parts[1])[0])
    if origin is tuple:
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(_decode(item, of_item) for item, of_item in zip(value, kinds, strict=True))
    return kind(value)

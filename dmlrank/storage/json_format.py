"""Estimates written as JSON and read back: the file holds no code, numbers are exact, and all entries are checked."""

from __future__ import annotations

import json
import math
import os
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..exceptions import OptionTypeError, StorageError, listed, nearest
from ..fit.estimates import Estimates
from .check_estimates import MAX_COUNT, check_estimates

FORMAT = "dmlrank.RankResults"
SCHEMA = 1

# Largest number of characters of a file that is read. A result of 3,000 models has 700 million.
MAX_CHARACTERS = 2**30
# Largest number of dimensions of an array.
_MAX_DEPTH = 2

# Numbers that JSON cannot write are written as these strings.
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_text(estimates: Estimates) -> str:
    """Return the estimates as one JSON object.

    A float is written with as many digits as are needed to read the same float again. NaN and infinities are written
    as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    content = {"format": FORMAT, "schema": SCHEMA, "estimates": _encode(estimates)}
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1)
    # UTF-8 cannot encode half of a surrogate pair. A text with one gets escapes for all characters beyond ASCII.
    return text if text.isascii() or _is_utf8(text) else json.dumps(content, allow_nan=False, indent=1)


def from_text(text: str, source: str = "the text", *, max_characters: int = MAX_CHARACTERS) -> Estimates:
    """Return the estimates that :func:`to_text` has written."""
    if len(text) > max_characters:
        raise StorageError(f"{source} has more than {max_characters:,} characters, the largest size of a result")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        # The text is no JSON, or it has a number of thousands of digits or lists that are nested too deeply.
        raise StorageError(f"{source} is not JSON that can be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found_format = content.get("format", "no format") if isinstance(content, dict) else type(content).__name__
        raise StorageError(
            f"{source} does not hold a result of dmlrank: its format is {found_format!r}, not {FORMAT!r}"
        )
    if content.get("schema") != SCHEMA:
        raise StorageError(
            f"{source} has schema {content.get('schema')!r}, but this version of dmlrank reads schema {SCHEMA}; read "
            f"the result with the version that wrote it, or a newer one"
        )
    try:
        estimates = _decode(content.get("estimates"), Estimates, "estimates")
        if not isinstance(estimates, Estimates):
            raise StorageError("estimates is no object; a result has one object of this name")
        check_estimates(estimates)
    except StorageError as error:
        raise StorageError(f"{source}: {error}") from None
    return estimates


def read_text(path_or_text: str | os.PathLike[str]) -> tuple[str, str]:
    """Return a JSON text, and a name for the text in errors.

    A string that begins with a brace is the text itself. Everything else is the path of a file with the text.
    """
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return path_or_text, "the text"
    if not isinstance(path_or_text, str | os.PathLike):
        kind = type(path_or_text).__name__
        raise OptionTypeError(f"path_or_text is a {kind}; give the path of a file, or the JSON text")
    path = Path(path_or_text)
    try:
        # One character more than is allowed is enough to refuse a file, even a device without end.
        with open(path, encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1), repr(str(path))
    except FileNotFoundError:
        raise StorageError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{str(path)!r} cannot be read as text: {error}") from None


def _is_utf8(text: str) -> bool:
    """Return whether the text can be encoded in UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _encode(value: object) -> object:
    """Return dataclasses as objects, arrays and tuples as lists, and numbers as JSON writes them."""
    if is_dataclass(value):
        return {item.name: _encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, np.ndarray):
        return _encode(value.tolist())
    if isinstance(value, list | tuple):
        return [_encode(entry) for entry in value]
    if isinstance(value, dict):
        return {str(name): _encode(entry) for name, entry in value.items()}
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else _special(number)
    return value


def _special(number: float) -> str:
    """Return the string that stands for NaN or an infinity."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _decode(value: object, kind: object, entry: str) -> object:
    """Return a value of JSON, converted to the type that an annotation names."""
    kind = _without_alias(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (other,) = [part for part in parts if part is not type(None)]
        return _decode(value, other, entry)
    if isinstance(kind, type) and is_dataclass(kind):
        return _decode_object(value, kind, entry)
    if origin is np.ndarray:
        return _decode_array(value, np.dtype(get_args(parts[1])[0]), entry)
    if origin is tuple:
        return _decode_tuple(value, parts, entry)
    if origin is dict:
        content = _require_object(value, entry)
        return {name: _decode(item, parts[1], f"{entry}.{name}") for name, item in content.items()}
    reader = _SCALARS.get(kind)
    if reader is None:
        raise StorageError(f"{entry} is a {kind}, which this file format cannot hold")
    return reader(value, entry)


def _without_alias(kind: object) -> object:
    """Return the type that a type alias stands for. ``NDArray`` is an alias from numpy 2.5 and Python 3.12 on."""
    meaning = getattr(get_origin(kind), "__value__", None)
    return kind if meaning is None else meaning[get_args(kind)]


def _decode_object(value: object, kind: type, entry: str) -> object:
    """Return an object of JSON as a dataclass."""
    content = _require_object(value, entry)
    field_of_name = {item.name: item for item in fields(kind)}
    for name in content:
        if name not in field_of_name:
            raise StorageError(
                f"{entry} has an unknown entry {name!r}{nearest(name, field_of_name)}; a newer version may have "
                f"written it"
            )
    missing = [
        name
        for name, item in field_of_name.items()
        if name not in content and item.default is item.default_factory is MISSING
    ]
    if missing:
        raise StorageError(f"{entry} lacks {listed(missing)}")
    hints = get_type_hints(kind)
    return kind(**{name: _decode(item, hints[name], f"{entry}.{name}") for name, item in content.items()})


def _decode_array(value: object, dtype: np.dtype[np.generic], entry: str) -> NDArray[np.generic]:
    """Return a list of numbers, or of rows of numbers, as an array."""
    numbers: list[object] = []
    shape = _flatten(_require_list(value, entry), numbers, entry)
    reader: Callable[[object, str], float] = {"b": _boolean, "i": _count}.get(dtype.kind, _number)
    return np.array([reader(number, entry) for number in numbers], dtype=dtype).reshape(shape)


def _flatten(value: object, numbers: list[object], entry: str, depth: int = 1) -> tuple[int, ...]:
    """Return the shape of nested lists, and append their numbers to the list ``numbers``."""
    if not isinstance(value, list):
        numbers.append(value)
        return ()
    if depth > _MAX_DEPTH:
        raise StorageError(f"{entry} has lists in lists in lists; it must hold numbers, or rows of numbers")
    shapes = [_flatten(item, numbers, entry, depth + 1) for item in value]
    if len(set(shapes)) > 1:
        raise StorageError(f"{entry} has rows of different lengths; all rows must have the same length")
    return (len(value), *(shapes[0] if shapes else ()))


def _decode_tuple(value: object, parts: tuple[object, ...], entry: str) -> tuple[object, ...]:
    """Return a list of JSON as a tuple of these types; an ellipsis repeats the first one."""
    items = _require_list(value, entry)
    kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(items):
        raise StorageError(f"{entry} has {len(items)} entries; it must have {len(kinds)}")
    return tuple(_decode(item, kind, f"{entry}[{i}]") for i, (item, kind) in enumerate(zip(items, kinds, strict=True)))


def _wrong_value(value: object, expected: str, entry: str) -> StorageError:
    """Return the error for an entry with a wrong value; ``expected`` says what the value must be."""
    text = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
    return StorageError(f"{entry} is {text}; it must be {expected}")


def _require_object(value: object, entry: str) -> dict[str, object]:
    """Return an object of JSON, or raise."""
    if not isinstance(value, dict):
        raise _wrong_value(value, "an object", entry)
    return value


def _require_list(value: object, entry: str) -> list[object]:
    """Return a list of JSON, or raise."""
    if not isinstance(value, list):
        raise _wrong_value(value, "a list", entry)
    return value


def _number(value: object, entry: str) -> float:
    """Return a number or one of the strings for NaN and infinities as a float."""
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong_value(value, "a number", entry)
    try:
        return float(value)
    except OverflowError:
        raise StorageError(f"{entry} is a number of {len(str(value))} digits, too large for a float") from None


def _whole_number(value: object, entry: str) -> int:
    """Return a count or a seed."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong_value(value, "a whole number of at least 0", entry)
    return value


def _count(value: object, entry: str) -> int:
    """Return a count of at most 64 bits."""
    if _whole_number(value, entry) > MAX_COUNT:
        raise _wrong_value(value, f"a count of at most {MAX_COUNT}", entry)
    return _whole_number(value, entry)


def _boolean(value: object, entry: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise _wrong_value(value, "true or false", entry)
    return value


def _text(value: object, entry: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise _wrong_value(value, "a string", entry)
    return value


_SCALARS: dict[object, Callable[[object, str], object]] = {
    float: _number,
    int: _whole_number,
    bool: _boolean,
    str: _text,
}

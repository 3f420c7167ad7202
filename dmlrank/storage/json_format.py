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
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import one_thread
from ..data.arrays import FloatArray
from ..data.derived_pairs import DERIVED_KINDS
from ..exceptions import OptionTypeError, StorageError, listed, nearest
from ..fit.adjusted_for_style import StyleEstimates
from ..fit.estimates import Estimates
from ..fit.judge_value import JudgeFigures
from ..inference.covariance import Covariance
from ..options import OPTIONS

T = TypeVar("T")

FORMAT = "dmlrank.RankResults"
SCHEMA = 1

# Largest number of characters of a file that is read. A result of 3,000 models has 700 million.
MAX_CHARACTERS = 2**30
# Largest number of dimensions of an array.
_MAX_DEPTH = 2

# Numbers that JSON cannot write are written as these strings.
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# The largest count.
MAX_COUNT = 2**63 - 1
# Largest effect of rounding on a covariance, relative to its largest variance.
_ROUNDING = 1e-8


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
        if math.isfinite(number):
            return number
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return value


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
        content = _require(value, dict, entry)
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
    content = _require(value, dict, entry)
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
    shape = _flatten(_require(value, list, entry), numbers, entry)
    reader: Callable[[object, str], Any] = {"b": _SCALARS[bool], "i": _count}.get(dtype.kind, _number)
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
    items = _require(value, list, entry)
    kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(items):
        raise StorageError(f"{entry} has {len(items)} entries; it must have {len(kinds)}")
    return tuple(_decode(item, kind, f"{entry}[{i}]") for i, (item, kind) in enumerate(zip(items, kinds, strict=True)))


def _wrong_value(value: object, expected: str, entry: str) -> StorageError:
    """Return the error for an entry with a wrong value; ``expected`` says what the value must be."""
    text = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
    return StorageError(f"{entry} is {text}; it must be {expected}")


def _require(value: object, kind: type[T], entry: str) -> T:
    """Return a value of JSON that is of a kind, or raise."""
    if not isinstance(value, kind):
        raise _wrong_value(value, _KINDS[kind], entry)
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


# Types of JSON, in words.
_KINDS: dict[Any, str] = {dict: "an object", list: "a list", bool: "true or false", str: "a string"}
_SCALARS: dict[object, Callable[[object, str], object]] = {
    float: _number,
    int: _whole_number,
    bool: lambda value, entry: _require(value, bool, entry),
    str: lambda value, entry: _require(value, str, entry),
}


# --- whether entries fit together, and have values that a fit can give ------------------------------------------------


def check_estimates(estimates: Estimates) -> None:
    """Check that the entries of a stored result fit together and have values that a fit can give."""
    _check_names(estimates)
    _check_shapes(estimates)
    _check_numbers(estimates)
    _check_counts(estimates)
    if estimates.judge is not None:
        _check_judge(estimates.judge, len(estimates.models))
    if estimates.style is not None:
        _check_style(estimates.style, len(estimates.models))


def _check_names(e: Estimates) -> None:
    """Raise where names of models or outputs repeat, or the estimator or the anchor is unknown."""
    estimators = OPTIONS["estimator"].words
    if e.estimator not in estimators:
        raise StorageError(f"estimator is {e.estimator!r}; it must be one of {listed(estimators)}")
    if len(set(e.models)) < len(e.models) or len(e.models) < 2:
        raise StorageError(f"models are {listed(e.models)}; there must be two or more different names")
    if len(set(e.outputs)) < len(e.outputs):
        raise StorageError(f"outputs are {listed(e.outputs)}; the names must be different")
    anchor = e.scale.anchor
    if anchor is not None and anchor[0] not in e.models:
        raise StorageError(f"scale.anchor is {anchor[0]!r}; it must be one of the models")


def _check_shapes(e: Estimates) -> None:
    """Raise where an array has another shape than the names ask for."""
    n_models, n_names = len(e.models), len(e.names)
    shapes = {
        "estimate": (e.estimate, (n_names,)),
        "plugin": (e.plugin, (n_names,)),
        "shares": (e.shares, (n_models,)),
        "fixed": (e.fixed, (n_names,)),
        "covariance.matrix": (e.covariance.matrix, (n_names, n_names)),
        "graph.edges": (e.graph.edges, (n_models, n_models)),
    }
    if e.votes is not None:
        shapes |= {"votes.used": (e.votes.used, (n_models,)), "votes.total": (e.votes.total, (n_models,))}
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise StorageError(f"{name} has the shape {array.shape}; for {n_models} models it must be {shape}")
    if e.votes is not None and not ((e.votes.used >= 0) & (e.votes.used <= e.votes.total)).all():
        raise StorageError(
            "votes.used has numbers below zero or above votes.total; they must be from zero to votes.total"
        )
    _check_basis(e.covariance, n_names, "covariance")


def _check_basis(covariance: Covariance, n_names: int, entry: str) -> None:
    """Raise where the free directions of a covariance have another shape than (d, rank)."""
    shape = covariance.basis.shape
    if len(shape) != 2 or shape[0] != n_names or shape[1] > n_names:
        raise StorageError(f"{entry}.basis has the shape {shape}; it must be ({n_names}, rank)")


def _check_numbers(e: Estimates) -> None:
    """Raise where a number is outside its range, or a table is no graph or no covariance."""
    scale, anchor = e.scale, e.scale.anchor
    finite_numbers = {"neutral": e.neutral, "scale.shift": scale.shift, "scale.mean": scale.mean}
    finite_numbers |= {"scale.anchor": None if anchor is None else anchor[1]}
    wrong = [name for name, value in finite_numbers.items() if value is not None and not math.isfinite(value)]
    if wrong:
        raise StorageError(f"{wrong[0]} is {finite_numbers[wrong[0]]}; it must be a finite number")
    _check_sequence(e)
    positive = {"critical": e.critical, "scale.factor": scale.factor}
    wrong = [name for name, value in positive.items() if not (math.isfinite(value) and value > 0)]
    if wrong or not 0 < e.alpha < 1 or not np.isfinite(e.estimate).all():
        raise StorageError("a score, alpha, the critical value or the scale is not finite or out of its range")
    if np.isinf(e.plugin).any() or np.isinf(e.shares).any():
        raise StorageError("plugin or shares have infinite values; they must be finite numbers or NaN")
    edges = e.graph.edges
    if (edges != edges.T).any() or edges.diagonal().any():
        raise StorageError("graph.edges is no graph: it must be a symmetric table, false on its diagonal")
    _check_covariance(e.covariance, e.estimate, "covariance")


def _check_sequence(e: Estimates) -> None:
    """Raise where the numbers of a sequential view contradict each other or the result."""
    sequence = e.sequence
    if sequence is None:
        return
    if not 2 <= sequence.start <= min(sequence.planned, sequence.n_units) or sequence.alpha != e.alpha:
        raise StorageError(
            f"sequence has start {sequence.start}, planned {sequence.planned}, n_units {sequence.n_units} and alpha "
            f"{sequence.alpha}; start must be at least 2 and at most planned and n_units, and alpha must be that of "
            f"the result"
        )


@one_thread()
def _check_covariance(covariance: Covariance, estimate: FloatArray, entry: str) -> None:
    """Raise where a matrix is no covariance of the estimates, (d,), or its basis has no orthonormal columns."""
    basis = covariance.basis
    if not ((np.abs(basis) <= 1 + 1e-6).all() and np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6)):
        raise StorageError(f"{entry}.basis does not have orthonormal columns")
    if not _is_covariance(covariance.matrix, float(np.abs(estimate).max())):
        raise StorageError(f"{entry}.matrix is no covariance: it must be finite, symmetric and positive semidefinite")


def _is_covariance(matrix: NDArray[np.float64], scale: float) -> bool:
    """Return whether a matrix is finite, symmetric and positive semidefinite, up to rounding."""
    if not np.isfinite(matrix).all():
        return False
    # Where labels have no variation, the covariance is zero up to squared rounding errors of the scores, and its
    # eigenvalues may be negative. A matrix within this slack is accepted as it is.
    largest = float(np.abs(matrix).max())
    rounding = min(4 * float(np.finfo(float).eps) * scale, 1e150)  # its square is finite
    slack = _ROUNDING * largest + rounding**2
    if largest == 0 or slack >= largest:
        return True
    if np.abs(matrix - matrix.T).max() > slack:
        return False
    return bool(np.linalg.eigvalsh((matrix + matrix.T) / (2 * largest)).min() >= -slack / largest)


def _check_counts(e: Estimates) -> None:
    """Raise where a count is too large or missing, or a word is unknown."""
    for part, holder in (("description", e.description), ("diagnostics", e.diagnostics)):
        for item in fields(holder):
            value = getattr(holder, item.name)
            # A seed may be any whole number.
            if isinstance(value, int) and item.name != "seed" and value > MAX_COUNT:
                raise StorageError(f"{part}.{item.name} is {value}; a count is at most {MAX_COUNT}")
    if any(number > MAX_COUNT for number in e.covariance.n_clusters):
        raise StorageError(f"covariance.n_clusters has a number above {MAX_COUNT}, the largest count")
    if len(e.covariance.n_clusters) != len(e.description.clusters):
        raise StorageError(
            f"covariance.n_clusters has {len(e.covariance.n_clusters)} entries; it must have one for each column "
            f"of description.clusters ({listed(e.description.clusters) or 'none'})"
        )
    if e.description.n_contexts < 1:
        raise StorageError("description.n_contexts is 0; there must be at least one context")
    words = {
        "description.cov_type": (e.description.cov_type, OPTIONS["cov_type"].words),
        "description.prompts": (e.description.prompts, OPTIONS["prompts"].words),
        "diagnostics.outcome_kind": (
            e.diagnostics.outcome_kind,
            ("labels", "grades", "preferences", "probabilities", *DERIVED_KINDS),
        ),
    }
    for name, (word, allowed) in words.items():
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; it must be one of {listed(allowed)}{nearest(word, allowed)}")


def _check_judge(judge: JudgeFigures, n_models: int) -> None:
    """Raise where an array about judges has another shape than the numbers of judges and models ask for."""
    n_judges = len(judge.names)
    shapes = {
        "compared": (n_judges, 2),
        "agreement": (n_judges, 2),
        "kappa": (n_judges, 2),
        "position": (n_judges, 3),
        "human_position": (n_judges, 3),
        "both_orders": (n_judges, 2),
        "log_loss": (3,),
        "alone": (n_models,),
        "alone_errors": (n_models,),
        "errors": (n_models,),
    }
    for name, shape in shapes.items():
        array = getattr(judge, name)
        if array.shape != shape:
            raise StorageError(f"judge.{name} has the shape {array.shape}; it must be {shape}")


def _check_style(style: StyleEstimates, n_models: int) -> None:
    """Raise where the numbers of an adjustment for style do not fit together."""
    words = {
        "style.kind": (style.kind, ("equal", "balanced")),
        "style.weights": (style.weights, ("",) if style.kind == "equal" else ("band", "smooth")),
    }
    for name, (word, allowed) in words.items():
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; it must be one of {listed(allowed)}")
    if len(set(style.columns)) < len(style.columns) or not style.columns:
        raise StorageError(
            f"style.columns are {listed(style.columns)}; there must be at least one, with different names"
        )
    is_equal, n_columns = style.kind == "equal", len(style.columns)
    n_estimates = 3 * n_models + n_columns if is_equal else 0
    if style.n_votes > MAX_COUNT or style.n_votes_left > style.n_votes:
        raise StorageError("style.n_votes_left is larger than style.n_votes, or a count is too large")
    if not style.within > 0:
        raise StorageError(f"style.within is {style.within}; it must be a positive number")
    for name, array, length in (
        ("deviations", style.deviations, n_columns),
        ("estimate", style.estimate, n_estimates),
    ):
        if array.shape != (length,):
            raise StorageError(f"style.{name} has the shape {array.shape}; it must be ({length},)")
        if not np.isfinite(array).all():
            raise StorageError(f"style.{name} has numbers that are not finite")
    if (style.deviations < 0).any():
        raise StorageError("style.deviations has a negative number; deviations are at least zero")
    if (style.covariance is None) is is_equal:
        raise StorageError("style.covariance must be given for the kind 'equal', and null for 'balanced'")
    if style.covariance is not None:
        if style.covariance.matrix.shape != (n_estimates, n_estimates):
            raise StorageError(
                f"style.covariance.matrix has the shape {style.covariance.matrix.shape}; it must be "
                f"({n_estimates}, {n_estimates})"
            )
        _check_basis(style.covariance, n_estimates, "style.covariance")
        _check_covariance(style.covariance, style.estimate, "style.covariance")

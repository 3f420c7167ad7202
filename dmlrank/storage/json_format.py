"""Estimates written as JSON and read back: the file holds no code, numbers are exact, and all entries are checked."""

from __future__ import annotations

import hashlib
import json
import math
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from .._utils.argument_checks import check_type
from .._utils.tasks_and_threads import one_thread
from ..data.arrays import FloatArray
from ..data.columns import is_unicode
from ..data.derived_pairs import DERIVED_KINDS
from ..data.outcomes import COUNTS, WINNERS
from ..exceptions import StorageError, failing_as, listed, nearest, shown
from ..fit.estimates import UNITS, Estimates, Scale
from ..fit.estimators import MEANS
from ..inference.covariance import Covariance
from ..inference.simultaneous import AllLooks, MaxT
from ..options import COV_TYPES, ESTIMATORS, PROMPTS

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
# Largest effect of rounding on a covariance, relative to its largest variance, and on a number with a range.
_ROUNDING, _ROUNDING_OF_RANGES = 1e-8, 1e-9
# Largest relative error of a critical value that is drawn.
_DRAWN = 0.02
# A covariance with a larger entry would overflow in sums and products.
_LARGEST_COVARIANCE = 1e300
# Ranges of numbers that are not NaN, ends included.
_RANGES: dict[str, tuple[float, float]] = dict.fromkeys(
    ("shares", "diagnostics.min_propensity", "diagnostics.effective_share", "judge.agreement", "judge.position"), (0, 1)
)
_RANGES |= {"judge.human_position": (0, 1), "judge.kappa": (-1, 1), "diagnostics.floor": (0, 0.5)}
_RANGES |= dict.fromkeys(
    [
        *(f"{part}.log_loss" for part in ("diagnostics", "judge", "style")),
        *("diagnostics.log_loss_constant", "diagnostics.effective_contexts"),
        *("diagnostics.second_order", "diagnostics.bias_subtracted", "diagnostics.propensity_factor"),
        *("judge.alone_errors", "judge.errors", "style.log_loss_without"),
        *("grades.alone_errors", "grades.judge_errors", "grades.answers", "grades.graded", "grades.judged"),
    ],
    (0, math.inf),
)
_RANGES |= dict.fromkeys(
    (f"description.n_{what}" for what in ("contexts", "comparisons", "votes", "folds", "rep")), (1, MAX_COUNT)
)

# What is kept of judges of scores by model.
_GRADES_BY_MODEL = (
    *("answers", "graded", "judged", "alone", "alone_errors", "judge"),
    *("judge_errors", "favour", "correlation", "worth"),
)


def to_text(estimates: Estimates) -> str:
    """Return the estimates as one JSON object.

    A float is written with as many digits as are needed to read the same float again. NaN and infinities are written
    as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    encoded = _encode(estimates)
    content = {"format": FORMAT, "schema": SCHEMA, "estimates": encoded, "checksum": _checksum(encoded)}
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1)
    # UTF-8 cannot encode half of a surrogate pair. A text with one gets escapes for all characters beyond ASCII.
    return text if is_unicode(text) else json.dumps(content, allow_nan=False, indent=1)


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
            f"{source} has schema {content.get('schema')!r}, but this version of dmlrank reads schema {SCHEMA}; read "
            f"the result with the version that wrote it, or a newer one"
        )
    try:
        estimates = _decode(content.get("estimates"), Estimates, "estimates")
        if not isinstance(estimates, Estimates):
            raise StorageError("estimates is no object; a result has one object of this name")
        check_estimates(estimates)
        # Version 0.1.0 has written no checksum.
        if content.get("checksum", found := _checksum(content["estimates"])) != found:
            raise StorageError(
                "its numbers or words are not those that dmlrank has written (the checksum differs); it was changed or "
                "is damaged, so take the original file or write it again with to_json()"
            )
    except StorageError as error:
        raise StorageError(f"{source}: {error}") from None
    return estimates


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
    if isinstance(value, dict):
        return {str(name): _encode(entry) for name, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _decode(value: object, kind: object, entry: str) -> object:
    """Return a value of JSON, converted to the type that an annotation names."""
    # NDArray is an alias from numpy 2.5 and Python 3.12 on.
    meaning = getattr(get_origin(kind), "__value__", None)
    kind = kind if meaning is None else meaning[get_args(kind)]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (other,) = [part for part in parts if part is not type(None)]
        return _decode(value, other, entry)
    if isinstance(kind, type) and is_dataclass(kind):
        return _decode_object(value, kind, entry)
    if origin is np.ndarray:
        numbers = np.array(_require(value, list, entry), dtype=object)
        if numbers.ndim > _MAX_DEPTH:
            raise StorageError(f"{entry} has lists in lists in lists; it must hold numbers, or rows of numbers")
        dtype = np.dtype(get_args(parts[1])[0])
        count: Callable[[object, str], Any] = partial(_whole_number, most=MAX_COUNT)
        reader = {"b": _SCALARS[bool], "i": count}.get(dtype.kind, _number)
        return np.array([reader(number, entry) for number in numbers.flat], dtype=dtype).reshape(numbers.shape)
    if origin is tuple:
        items = _require(value, list, entry)
        kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else parts
        if len(kinds) != len(items):
            raise StorageError(f"{entry} has {len(items)} entries; it must have {len(kinds)}")
        return tuple(_decode(item, kinds[place], f"{entry}[{place}]") for place, item in enumerate(items))
    if origin is dict:
        content = _require(value, dict, entry)
        return {name: _decode(item, parts[1], f"{entry}.{name}") for name, item in content.items()}
    if kind not in _SCALARS:
        raise StorageError(f"{entry} is a {kind}, which this file format cannot hold")
    return _SCALARS[kind](value, entry)


def _decode_object(value: object, kind: type, entry: str) -> object:
    """Return an object of JSON as a dataclass."""
    content, hints = _require(value, dict, entry), get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    unknown = next((name for name in content if name not in names), None)
    if unknown is not None:
        raise StorageError(
            f"{entry} has an unknown entry {unknown!r}{nearest(unknown, names)}; a newer version may have written it"
        )
    needed = [item.name for item in fields(kind) if item.default is item.default_factory is MISSING]
    if missing := [name for name in needed if name not in content]:
        raise StorageError(f"{entry} lacks {listed(missing)}")
    return kind(**{name: _decode(item, hints[name], f"{entry}.{name}") for name, item in content.items()})


def _wrong_value(value: object, expected: str, entry: str) -> StorageError:
    """Return the error for an entry with a wrong value; ``expected`` says what the value must be."""
    return StorageError(f"{entry} is {shown(value, 40)}; it must be {expected}")


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


def _whole_number(value: object, entry: str, most: float = math.inf) -> int:
    """Return a count or a seed."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        limit = "" if most == math.inf else f" and at most {most}"
        raise _wrong_value(value, f"a whole number of at least 0{limit}", entry)
    return value


# Types of JSON, in words.
_KINDS: dict[Any, str] = {dict: "an object", list: "a list", bool: "true or false", str: "a string"}
_SCALARS: dict[object, Callable[[object, str], object]] = {
    float: _number,
    int: _whole_number,
    bool: lambda value, entry: _require(value, bool, entry),
    str: lambda value, entry: _require(value, str, entry),
}


# --- whether entries fit together, and have values that a fit can give ------------------------------------------------


@one_thread()
def check_estimates(e: Estimates) -> None:
    """Check that the entries of a stored result fit together and have values that a fit can give."""
    style, anchor, description, n_clusters = e.style, e.scale.anchor, e.description, e.covariance.n_clusters
    for name, allowed in _words(e).items():
        word = _entry(e, name)
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; it must be one of {listed(allowed)}{nearest(word, allowed)}")
    for name, shape in _shapes(e).items():
        array = _entry(e, name)
        if array is not None and array.shape != shape:
            raise StorageError(f"{name} has the shape {array.shape}; for {len(e.models)} models it must be {shape}")
    name, own_name = e.scale.name, Scale.name_of(e.scale.factor)
    factor = ({"natural": 1.0} | UNITS).get(name)
    possible: dict[str, object] = {
        "models": len(set(e.models)) == len(e.models) >= (1 if e.are_means else 2) and all(map(is_unicode, e.models)),
        "outputs": len(set(e.outputs)) == len(e.outputs) and all(map(is_unicode, e.outputs)),
        "scale.anchor": anchor is None or (anchor[0] in e.models and math.isfinite(anchor[1])),
        "neutral": e.neutral is None or math.isfinite(e.neutral),
        "scale.shift": e.scale.shift is None or math.isfinite(e.scale.shift),
        "scale.mean": e.scale.mean is None or math.isfinite(e.scale.mean),
        "scale.factor": 0 < e.scale.factor < math.inf,
        "scale.name": math.isclose(factor, e.scale.factor, rel_tol=1e-12) if factor else name == own_name,
        "critical": 0 < e.critical < math.inf,
        "alpha": 0 < e.alpha < 1,
        "estimate": np.isfinite(e.estimate).all(),
        "plugin": not np.isinf(e.plugin).any(),
        "graph.edges": (e.graph.edges == e.graph.edges.T).all() and not e.graph.edges.diagonal().any(),
        "covariance.df": e.covariance.df >= 1,
        "covariance.of_scores": e.covariance.of_scores is None or (e.covariance.of_scores >= 1).all(),
        "covariance.n_clusters": len(n_clusters) == len(description.clusters)
        and all(count <= MAX_COUNT for count in n_clusters),
        "description.n_unlabelled": description.n_unlabelled < description.n_contexts,
        "description.n_votes": description.n_comparisons <= description.n_votes,
    }
    means = e.covariance.means
    if means is not None:
        possible["covariance.means"] = means.is_possible(len(e.names))
    shares = e.covariance.shares
    if shares is not None:
        possible["covariance.shares"] = shares.is_possible(len(e.names))
    if e.votes is not None:
        possible["votes.used"] = ((e.votes.used >= 0) & (e.votes.used <= e.votes.total)).all()
        is_of_votes = e.diagnostics.outcome_kind not in DERIVED_KINDS
        possible["votes.total"] = not is_of_votes or e.votes.total.sum() == 2 * description.n_votes
    if e.sequence is not None:
        possible["sequence.start"] = 2 <= e.sequence.start <= min(e.sequence.planned, e.sequence.n_units)
        possible["sequence.alpha"] = e.sequence.alpha == e.alpha
    if style is not None:
        possible |= {
            "style.columns": len(set(style.columns)) == len(style.columns) >= 1,
            "style.n_votes": style.n_votes <= MAX_COUNT,
            "style.deviations": (np.isfinite(style.deviations) & (style.deviations >= 0)).all(),
            "style.estimate": np.isfinite(style.estimate).all(),
        }
    for name, (low, high) in _RANGES.items():
        value = _entry(e, name)
        if value is not None:
            # A count of hundreds of digits is no float, and beyond every range.
            number = min(value, 2 * MAX_COUNT) if isinstance(value, int) else value
            slack, numbers = _ROUNDING_OF_RANGES, np.asarray(number, dtype=float)
            is_inside = (numbers >= low - slack) & (numbers <= high + slack) | np.isnan(numbers)
            possible[name] = is_inside.all() and possible.get(name, True)
    # A count beyond 64 bits would be a float beside others.
    for part in ("description", "diagnostics"):
        for name in (f"{part}.{item.name}" for item in fields(_entry(e, part)) if item.name != "seed"):
            if isinstance(count := _entry(e, name), int):
                possible[name] = count <= MAX_COUNT and possible.get(name, True)
    _raise_where_impossible(e, possible)
    _check_covariance(e.covariance, e.estimate, "covariance")
    if style is not None and style.covariance is not None:
        _check_covariance(style.covariance, style.estimate, "style.covariance")
    # Simultaneous intervals are wider than those of single scores, and not wider than those of Bonferroni.
    simultaneous = MaxT(e.covariance) if e.sequence is None else AllLooks(e.covariance, e.sequence)
    narrow, wide = (simultaneous.critical(e.alpha, method) for method in ("none", "bonferroni"))
    low, high = e.limits
    slack = _ROUNDING_OF_RANGES * float(np.abs(e.estimate).max(initial=1.0))
    is_critical = (1 - _DRAWN) * narrow <= e.critical <= (1 + _DRAWN) * wide
    is_inside = (e.estimate >= low - slack) & (e.estimate <= high + slack)
    _raise_where_impossible(e, {"critical": is_critical, "estimate": is_inside.all()})


def _raise_where_impossible(e: Estimates, possible: Mapping[str, object]) -> None:
    """Raise at the first entry that has no possible value; ``possible`` says of each whether it is one."""
    for name, is_possible in possible.items():
        if not is_possible:
            value = shown(_entry(e, name), 60)
            raise StorageError(f"{name} is {value}, which no fit gives; the file was changed or is damaged")


def _entry(e: Estimates, name: str) -> Any:
    """Return an entry such as ``description.n_votes``; None where it, or what holds it, is not there."""
    value: Any = e
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _words(e: Estimates) -> dict[str, tuple[str, ...]]:
    """Return the words that are allowed in entries that hold one of a few."""
    words = {
        "estimator": (*ESTIMATORS, MEANS.name),
        "description.cov_type": COV_TYPES,
        "description.prompts": PROMPTS,
        "diagnostics.outcome_kind": (
            "labels",
            WINNERS,
            "grades",
            "preferences",
            "probabilities",
            COUNTS,
            *DERIVED_KINDS,
        ),
    }
    if e.style is not None:
        words["functional"] = ("borda", "bt")
    return words


def _shapes(e: Estimates) -> dict[str, tuple[int, ...]]:
    """Return the shapes of arrays, from the numbers of models, names, judges and style columns."""
    k, d, n_judges = len(e.models), len(e.names), 0 if e.judge is None else len(e.judge.names)
    n_graders = 0 if e.grades is None else len(e.grades.names)
    n_columns = 0 if e.style is None else len(e.style.columns)
    n_estimates = 0 if e.style is None else 3 * k + n_columns
    by_model = ("shares", "votes.used", "votes.total", "judge.alone", "judge.alone_errors", "judge.errors")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("estimate", "plugin", "fixed"), (d,)),
        **dict.fromkeys(by_model, (k,)),
        **dict.fromkeys([f"judge.{name}" for name in ("compared", "agreement", "kappa", "both_orders")], (n_judges, 2)),
        **dict.fromkeys(("judge.position", "judge.human_position"), (n_judges, 3)),
        **{"graph.edges": (k, k), "judge.log_loss": (3,), "grades.favour_covariance": (k, k)},
        **dict.fromkeys([f"grades.{name}" for name in _GRADES_BY_MODEL], (k,)),
        **{"grades.explained": (n_graders + 1,), "grades.unlike": (n_graders,)},
        **{"style.deviations": (n_columns,), "style.estimate": (n_estimates,)},
    }
    for name, length in (("covariance", d), ("style.covariance", n_estimates)):
        covariance: Covariance | None = _entry(e, name)
        if covariance is not None:
            shapes[f"{name}.matrix"], shapes[f"{name}.of_scores"] = (length, length), (length,)
            shapes[f"{name}.basis"] = length, min(covariance.basis.shape[-1], length)
    return shapes


def _check_covariance(covariance: Covariance, estimate: FloatArray, entry: str) -> None:
    """Raise where a matrix is no covariance of the estimates, (d,), or its basis has no orthonormal columns."""
    basis, matrix = covariance.basis, covariance.matrix
    if not ((np.abs(basis) <= 1 + 1e-6).all() and np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6)):
        raise StorageError(f"{entry}.basis does not have orthonormal columns")
    # Where labels have no variation, the covariance is zero up to squared rounding errors of the scores, and its
    # eigenvalues may be negative. A matrix within this slack is accepted as it is.
    largest = float(np.abs(matrix).max())
    rounding = min(4 * float(np.finfo(float).eps) * float(np.abs(estimate).max()), 1e150)  # its square is finite
    slack = _ROUNDING * largest + rounding**2
    is_covariance = largest <= _LARGEST_COVARIANCE
    if is_covariance and largest > max(slack, 0):
        is_covariance = bool(np.abs(matrix - matrix.T).max() <= slack) and bool(
            np.linalg.eigvalsh((matrix / largest + matrix.T / largest) / 2).min() >= -slack / largest
        )
    if not is_covariance:
        raise StorageError(
            f"{entry}.matrix is no covariance: symmetric, positive semidefinite, entries up to {_LARGEST_COVARIANCE:g}"
        )

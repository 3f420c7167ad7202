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
from numpy.typing import NDArray

from ..exceptions import OptionTypeError, StorageError, listed, nearest
from ..fit.estimates import Estimates
from ..fit.judge_value import JudgeFigures
from ..options import ESTIMATORS, PROMPTS, CovType

FORMAT = "dmlrank.RankResults"
SCHEMA = 1

# What a file may hold: characters, and how deep its lists lie in each other. A result of 3,000 models has 700 million.
_LARGEST = 2**30
_DEEPEST = 2
# The largest count, and how much rounding may add to a covariance, relative to its largest variance.
_MOST = 2**63 - 1
_ROUNDING = 1e-8

# JSON has no words for these.
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_text(estimates: Estimates) -> str:
    """The estimates as one JSON object.

    Floats are written with as many digits as it takes to read the same float again; NaN and infinities as the strings
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    content = {"format": FORMAT, "schema": SCHEMA, "estimates": _plain(estimates)}
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1)
    # Half of a surrogate pair, which no file in UTF-8 can hold, is written by its number.
    return text if text.isascii() or _is_utf8(text) else json.dumps(content, allow_nan=False, indent=1)


def from_text(text: str, where: str = "the text") -> Estimates:
    """Estimates from what :func:`to_text` has written.

    Raises
    ------
    StorageError
        If it is no JSON, not of this format, of an unknown schema, or an entry is missing, unknown or not what it
        should be.
    """
    if len(text) > _LARGEST:
        raise StorageError(f"{where} has {len(text):,} characters; a result has {_LARGEST:,} at most")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        # No JSON, a number of thousands of digits, or lists in lists without end.
        raise StorageError(f"{where} is not JSON that can be read: {error}") from None
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
    if not isinstance(path_or_text, str | os.PathLike):
        kind = type(path_or_text).__name__
        raise OptionTypeError(f"path_or_text is a {kind}; needed is the path of a file, or the JSON text")
    path = Path(path_or_text)
    try:
        # One more than is allowed, so that a device without end is refused, too.
        with open(path, encoding="utf-8") as file:
            return file.read(_LARGEST + 1), repr(str(path))
    except FileNotFoundError:
        raise StorageError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{str(path)!r} cannot be read as text: {error}") from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
    kind = _without_alias(kind)
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


def _without_alias(kind: Any) -> Any:
    """What a type stands for that has a name of its own, as ``NDArray`` has with numpy 2.5 on Python 3.12 and later.

    Examples
    --------
    >>> get_origin(_without_alias(NDArray[np.float64])) is np.ndarray
    True
    """
    meaning = getattr(get_origin(kind), "__value__", None)
    return kind if meaning is None else meaning[get_args(kind)]


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
    kind = np.dtype(dtype)
    flat: list[Any] = []
    shape = _flatten(value, flat, at)
    read = {"b": _boolean, "i": _count}.get(kind.kind, _number)
    return np.array([read(entry, at) for entry in flat], dtype=kind).reshape(shape)


def _flatten(value: Any, into: list[Any], at: str, depth: int = 1) -> tuple[int, ...]:
    """Append the numbers of nested lists of one shape; that shape."""
    if not isinstance(value, list):
        into.append(value)
        return ()
    if depth > _DEEPEST:
        raise StorageError(f"{at} has lists in lists in lists; needed are numbers, or rows of numbers")
    shapes = [_flatten(entry, into, at, depth + 1) for entry in value]
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
    _expect(value, isinstance(value, int | float) and not isinstance(value, bool), "a number", at)
    try:
        return float(value)
    except OverflowError:
        raise StorageError(f"{at} is a number of {len(str(value))} digits, beyond what a float holds") from None


def _whole(value: Any, at: str) -> int:
    """A count or a seed."""
    needed = "a whole number of at least 0"
    return int(_expect(value, isinstance(value, int) and not isinstance(value, bool) and value >= 0, needed, at))


def _count(value: Any, at: str) -> int:
    return int(_expect(value, _whole(value, at) <= _MOST, "a count", at))


def _boolean(value: Any, at: str) -> bool:
    return bool(_expect(value, isinstance(value, bool), "true or false", at))


def _text(value: Any, at: str) -> str:
    return str(_expect(value, isinstance(value, str), "a string", at))


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {float: _number, int: _whole, bool: _boolean, str: _text}


def _check(estimates: Estimates, where: str) -> None:
    """Raise where the entries do not fit together, or hold what no fit gives."""
    try:
        _check_names(estimates)
        _check_shapes(estimates)
        _check_numbers(estimates)
        _check_counts(estimates)
        if estimates.judge is not None:
            _check_judge(estimates.judge, len(estimates.models))
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None


def _check_names(e: Estimates) -> None:
    if e.estimator not in ESTIMATORS:
        raise StorageError(f"estimator is {e.estimator!r}; needed is one of {listed(ESTIMATORS)}")
    if len(set(e.models)) < len(e.models) or len(e.models) < 2:
        raise StorageError(f"models are {listed(e.models)}; needed are two or more different names")
    if len(set(e.outputs)) < len(e.outputs):
        raise StorageError(f"outputs are {listed(e.outputs)}; needed are different names")
    anchor = e.scale.anchor
    if anchor is not None and anchor[0] not in e.models:
        raise StorageError(f"scale.anchor is {anchor[0]!r}; needed is one of the models")


def _check_shapes(e: Estimates) -> None:
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
            raise StorageError(f"{name} has the shape {array.shape}; needed for {n_models} models is {shape}")
    if e.votes is not None and not ((e.votes.used >= 0) & (e.votes.used <= e.votes.total)).all():
        raise StorageError("votes.used has numbers below zero or above votes.total; a model uses some of its votes")
    basis = e.covariance.basis
    if basis.ndim != 2 or len(basis) != n_names or basis.shape[1] > n_names:
        raise StorageError(f"covariance.basis has the shape {basis.shape}; needed is ({n_names}, rank)")


def _check_numbers(e: Estimates) -> None:
    scale, anchor = e.scale, e.scale.anchor
    single = {"neutral": e.neutral, "scale.shift": scale.shift, "scale.mean": scale.mean}
    single |= {"scale.anchor": None if anchor is None else anchor[1]}
    wrong = [name for name, value in single.items() if value is not None and not math.isfinite(value)]
    if wrong:
        raise StorageError(f"{wrong[0]} is {single[wrong[0]]}; needed is a finite number")
    positive = {"critical": e.critical, "scale.factor": scale.factor}
    wrong = [name for name, value in positive.items() if not (math.isfinite(value) and value > 0)]
    if wrong or not 0 < e.alpha < 1 or not np.isfinite(e.estimate).all():
        raise StorageError("scores, alpha, critical value or scale are not finite numbers in their range")
    if np.isinf(e.plugin).any() or np.isinf(e.shares).any():
        raise StorageError("plugin or shares are infinite; needed are finite numbers, or NaN")
    edges = e.graph.edges
    if (edges != edges.T).any() or edges.diagonal().any():
        raise StorageError("graph.edges is no graph: needed is a symmetric table, false on its diagonal")
    basis = e.covariance.basis
    if not (np.isfinite(basis).all() and np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6)):
        raise StorageError("covariance.basis does not have orthonormal columns")
    if not _is_covariance(e.covariance.matrix, float(np.abs(e.estimate).max())):
        raise StorageError("covariance.matrix is not the covariance of anything")


def _is_covariance(matrix: NDArray[np.float64], scale: float) -> bool:
    """Whether a matrix is finite, symmetric and positive semidefinite, up to the rounding of scores of this size."""
    if not np.isfinite(matrix).all():
        return False
    # Labels without variation leave variances that are nothing but the square of a rounding error.
    most = float(np.abs(matrix).max())
    slack = _ROUNDING * most + (4 * np.finfo(float).eps * scale) ** 2
    if most == 0 or slack >= most:
        return True
    if np.abs(matrix - matrix.T).max() > slack:
        return False
    return bool(np.linalg.eigvalsh((matrix + matrix.T) / (2 * most)).min() >= -slack / most)


def _check_counts(e: Estimates) -> None:
    """Raise where a count is none, or a word is not one of those that a fit knows."""
    for part, holder in (("description", e.description), ("diagnostics", e.diagnostics)):
        for item in fields(holder):
            value = getattr(holder, item.name)
            # A seed may be any whole number.
            if isinstance(value, int) and item.name != "seed" and value > _MOST:
                raise StorageError(f"{part}.{item.name} is larger than any count")
    if any(number > _MOST for number in e.covariance.n_clusters):
        raise StorageError("covariance.n_clusters is larger than any count")
    if len(e.covariance.n_clusters) != len(e.description.clusters):
        raise StorageError(
            f"covariance.n_clusters has {len(e.covariance.n_clusters)} entries; needed is one for each of the columns "
            f"of description.clusters ({listed(e.description.clusters) or 'none'})"
        )
    if e.description.n_contexts < 1:
        raise StorageError("description.n_contexts is 0; needed is at least one context")
    words = {
        "description.cov_type": (e.description.cov_type, get_args(CovType)),
        "description.prompts": (e.description.prompts, PROMPTS),
        "diagnostics.outcome_kind": (e.diagnostics.outcome_kind, ("labels", "preferences", "probabilities")),
    }
    for name, (word, allowed) in words.items():
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; needed is one of {listed(allowed)}{nearest(word, allowed)}")


def _check_judge(judge: JudgeFigures, n_models: int) -> None:
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
            raise StorageError(f"judge.{name} has the shape {array.shape}; needed is {shape}")

"""Checks of arguments, one by one or by their declared types; what is stored of names, numbers and seeds."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import (
    DmlrankError,
    NuisanceError,
    OptionError,
    OptionTypeError,
    UnknownModelError,
    check_choice,
    listed,
    nearest,
    shown,
)

T = TypeVar("T")

# Shares of a smaller one underflow.
_SMALLEST_ALPHA = 1e-300
# No option of the package has a use for larger whole numbers.
_LARGEST = 2**31 - 1


def check_alpha(alpha: object) -> float:
    """Return ``alpha``, one minus the confidence level, as a float."""
    level = real_number(alpha)
    if level is None or not _SMALLEST_ALPHA <= level < 1:
        hint = "; for 95 % intervals it is 0.05" if isinstance(alpha, Real) and alpha in (0, 1, 95) else ""
        raise OptionError(
            f"alpha={shown(alpha)}: allowed is one minus the confidence level, {_SMALLEST_ALPHA:g} to below 1{hint}"
        )
    return level


def real_number(value: object) -> float | None:
    """Return a real number as a float, infinite where it is too large; None for anything else, also for a bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if bool(value > 0) else -math.inf  # type: ignore[operator]


def number_in(name: str, value: object, is_allowed: Callable[[float], bool], allowed: str) -> float:
    """Return a number as a float; raise where it is none, or is not allowed; ``allowed`` says which numbers are."""
    number = real_number(value)
    if number is None or not is_allowed(number):
        raise (OptionTypeError if number is None else OptionError)(f"{name}={shown(value)} is not allowed; {allowed}")
    return number


def check_positive(value: object, option: str) -> float:
    """Return an option that must be positive and finite as a float."""
    return number_in(option, value, lambda x: 0 < x < math.inf, "it must be a positive number")


def check_type(name: str, value: object, kind: type | UnionType, allowed: str) -> None:
    """Raise unless ``value`` is an instance of a class, or of one of several; ``allowed`` says what is."""
    if not isinstance(value, kind):
        raise OptionTypeError(f"{name}={shown(value, 60)} is a {type(value).__name__}; allowed: {allowed}")


def check_flag(name: str, value: object) -> None:
    """Raise unless ``value`` is True or False."""
    check_type(name, value, bool | np.bool_, "True and False")


def check_text(name: str, value: object) -> None:
    """Raise unless ``value`` is a string."""
    check_type(name, value, str, "a string")


def check_path(value: object) -> None:
    """Raise unless ``value`` is the path of a file: a string or a path object."""
    check_type("path", value, str | os.PathLike, "the path of a file")


def check_whole(name: str, value: object, least: int, most: int = _LARGEST) -> None:
    """Raise unless ``value`` is a whole number of at least ``least`` and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise OptionError(f"{name}={shown(value)} is not allowed: {name} is a whole number from {least} to {most:,}")


def as_names(value: object, option: str) -> tuple[str, ...]:
    """Return one or several column names as a tuple, which is empty for None."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray | pd.Series | pd.DataFrame):
        raise OptionTypeError(f"{option} names columns, and was given values ({kind}); pass the name of their column")
    if isinstance(value, Mapping | set | frozenset) or not isinstance(value, Iterable | None):
        raise OptionTypeError(f"{option}={shown(value)} is a {kind}; pass the name of a column, or a list of names")
    names = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        check_text(f"a name in {option}", name)
    if "" in names:
        raise OptionError(f"{option} names a column ''; names of columns are not empty")
    if len(set(names)) < len(names):
        raise OptionError(f"{option} names a column twice: {listed(names)}; name each column once")
    return names


def place_of(names: Sequence[str], name: str, noun: str = "model") -> int:
    """Return the place of a name among those of models, outputs of a user's functional, or groups."""
    if not isinstance(name, str) or name not in names:
        raise UnknownModelError(
            f"there is no {noun} {shown(name)}{nearest(name, names)} ({noun}s: {listed(names, 25)})"
        )
    return names.index(name)


def names_or_all(names: object, all_names: Sequence[str]) -> list[str]:
    """Return the names that a user gives, one or several, or all names where the user gives None."""
    if names is None:
        return list(all_names)
    if not isinstance(names, Iterable):
        raise OptionTypeError(f"models={shown(names)} is a {type(names).__name__}; give a list of names, or None")
    return [names] if isinstance(names, str) else list(names)


def places_of(names: Sequence[str], chosen: object, noun: str = "model", least: int = 1) -> list[int]:
    """Return the places of the names that a user chooses, one or several; of all names where the user gives None."""
    given = names_or_all(chosen, names)
    places = [place_of(names, name, noun) for name in given]
    if len(set(places)) < len(places) or len(places) < least:
        raise OptionError(f"models={given} is not allowed; name at least {least} of the {noun}s, and each once")
    return places


def resolve_seed(rng: int | np.random.Generator | None) -> int:
    """Return the seed of a fit: ``rng`` itself if it is a number, a draw from a Generator, or a fresh seed for None."""
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**32))
    if isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0:
        return int(rng)
    raise OptionTypeError(
        f"rng={shown(rng)} is not allowed; allowed: a whole number from 0, None, or np.random.default_rng(0)"
    )


def is_classifier(learner: object) -> bool:
    """Whether something is a classifier like those of scikit-learn: an instance with ``fit`` and ``predict_proba``."""
    return not inspect.isclass(learner) and hasattr(learner, "fit") and hasattr(learner, "predict_proba")


def unfitted_copy(learner: T) -> T:
    """Return a copy of a classifier, unfitted where scikit-learn can clone it; any other learner as it is."""
    if not is_classifier(learner):
        return learner
    if hasattr(learner, "get_params"):
        with suppress(ImportError):
            from sklearn.base import clone

            copied: T = clone(learner)
            return copied
    return copy.deepcopy(learner)


def real_array(
    value: object, name: str, allowed: str, error: type[DmlrankError] = OptionTypeError
) -> NDArray[np.float64]:
    """Return ``value`` as an array of floats; raise where it is none (NumPy would merely drop imaginary parts)."""
    numbers = array_of_numbers(value)
    if numbers is None:
        raise error(f"{name} is a {type(value).__name__} that holds no real numbers; allowed: {allowed}")
    return numbers


def require_shape(
    array: NDArray[Any], shape: tuple[int, ...], name: str, axes: str, error: type[DmlrankError] = NuisanceError
) -> None:
    """Raise unless an array has a shape; ``axes`` says what its axes are."""
    if array.shape != shape:
        raise error(f"{name} has shape {array.shape}; allowed: {axes} = {shape}")


def array_of_numbers(value: object, ndim: int | None = None) -> NDArray[np.float64] | None:
    """Return ``value`` as an array of real numbers with ``ndim`` dimensions; None where this is not possible."""
    try:
        array = np.asarray(value)
        numbers = np.asarray(array, dtype=np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if numbers is not None and ndim in (None, numbers.ndim) else None


def as_judge(judge: Any) -> Any:
    """Return names of columns with verdicts as a tuple, and a frame of verdicts or None as it is."""
    # An update compares these with those of the fit, and the caller could change a list in the meantime.
    if judge is None or is_frame(judge):
        return judge
    if not isinstance(judge, str | list | tuple):
        raise OptionTypeError(
            f"judge={shown(judge)} is not allowed; allowed: the name of a column of verdicts, a list of such names "
            f"(one for each judge, or of probabilities, as ['p_a', 'p_b', 'p_tie']), a frame of verdicts, or None"
        )
    names = as_names(judge, "judge")
    if not names:
        raise OptionError("judge= is an empty list; pass a column, columns, a frame, or None")
    return names


def is_frame(value: object) -> bool:
    """Return whether a value is a data frame."""
    return hasattr(value, "columns") or hasattr(value, "column_names")


def must_be(
    is_allowed: Callable[[Any], bool], allowed: str, error: type[DmlrankError] = OptionTypeError
) -> Callable[[str, object], None]:
    """Return a check that raises ``error`` unless a value is allowed; ``allowed`` says which values are."""

    def check(name: str, value: object) -> None:
        if not is_allowed(value):
            raise error(f"{name}={shown(value)} is not allowed; allowed: {allowed}")

    return check


def at_least(least: int, *, or_none: bool = False, or_auto: bool = False) -> Callable[[str, object], None]:
    """Return a check that raises unless a value is a whole number of at least ``least``, or None, or "auto"."""

    def check(name: str, value: object) -> None:
        if or_auto and isinstance(value, str):
            if value != "auto":
                raise OptionError(f"{name}={value!r} is not allowed; allowed: 'auto', or a whole number from {least}")
        elif not (or_none and value is None):
            check_whole(name, value, least)

    return check


# --- by declared types ------------------------------------------------------------------------------------------------


def _is_list(value: object) -> bool:
    """Whether a value is a list in any container, or one text; an array without axes is a single value."""
    is_single = isinstance(value, bytes | Mapping) or getattr(value, "ndim", 1) != 1
    return isinstance(value, Iterable) and not is_single


# Of each declared type: whether a value is of it, and what it is called in an error.
_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "None": (lambda value: value is None, "None"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True and False"),
    "int": (lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "Sequence": (_is_list, "a list"),
    "Mapping": (lambda value: isinstance(value, Mapping), "a mapping"),
    "Callable": (callable, "a function"),
}


def _require(name: str, value: object, kinds: Sequence[str], words: Sequence[str]) -> None:
    """Raise unless a value is of one of the kinds, or one of the words."""
    if words and isinstance(value, str) and "str" not in kinds:
        check_choice(value, words, name)
    elif not any(_KINDS[kind][0](value) for kind in kinds):
        allowed = ", ".join([*map(repr, words), *(_KINDS[kind][1] for kind in kinds)])
        raise OptionTypeError(f"{name}={shown(value, 60)} is a {type(value).__name__}; allowed: {allowed}")


def _declared(annotation: str) -> tuple[list[str], list[str]] | None:
    """Return kinds and words that an annotation allows; None where it names a type that the function itself checks."""
    parts, kinds, words = [ast.parse(annotation, mode="eval").body], list[str](), list[str]()
    while parts:
        match parts.pop(0):
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                parts = [left, right, *parts]
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inside):
                words += ast.literal_eval(ast.Tuple([inside]) if isinstance(inside, ast.Constant) else inside)
            case ast.Constant(value=None):
                kinds.append("None")
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in _KINDS:
                kinds.append(name)
            case _:
                return None
    return kinds, words


def checked(public: T) -> T:
    """Return a function, or a class with its public methods, that checks its arguments by their annotations."""
    if inspect.isclass(public):
        for name, member in list(vars(public).items()):
            if inspect.isfunction(member) and not name.startswith("_") and not hasattr(member, "__wrapped__"):
                setattr(public, name, checked(member))
        return public
    function = cast(Callable[..., Any], public)

    @functools.cache
    def declared() -> tuple[list[str], dict[str, tuple[list[str], list[str]]]]:
        single = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        found = {p.name: _declared(p.annotation) for p in single if isinstance(p.annotation, str)}
        known = {name: allowed for name, allowed in found.items() if allowed is not None}
        return [p.name for p in single if p.kind is not p.KEYWORD_ONLY], known

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        positional, known = declared()
        for name, value in (*zip(positional, args, strict=False), *given.items()):
            if name in known:
                _require(name, value, *known[name])
        return function(*args, **given)

    return cast(T, call)

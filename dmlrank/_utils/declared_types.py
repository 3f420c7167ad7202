"""Checks of the arguments of public functions and methods by their declared types."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np

from ..exceptions import OptionTypeError, check_choice, shown

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class _Declared:
    """What the annotation of a parameter allows: some of the kinds, and words."""

    kinds: tuple[str, ...]
    words: tuple[str, ...]

    def require(self, name: str, value: object) -> None:
        """Raise unless a value is of a declared type."""
        if self.words and isinstance(value, str) and "str" not in self.kinds:
            check_choice(value, self.words, name)
        elif not any(_KINDS[kind][0](value) for kind in self.kinds):
            allowed = ", ".join([*map(repr, self.words), *(_KINDS[kind][1] for kind in self.kinds)])
            raise OptionTypeError(f"{name}={shown(value, 60)} is a {type(value).__name__}; allowed: {allowed}")


def _declared(annotation: str) -> _Declared | None:
    """Return what an annotation allows; None where it names a type that the function itself checks."""
    parts, kinds, words = [ast.parse(annotation, mode="eval").body], [], []
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
    return _Declared(tuple(kinds), tuple(words))


def checked(public: T) -> T:
    """Return a public function, or a class with its public methods, that checks its arguments by their annotations.

    Arguments whose declared type is a class of the package or an array are checked where they are used.
    """
    if inspect.isclass(public):
        for name, member in list(vars(public).items()):
            if inspect.isfunction(member) and not name.startswith("_") and not hasattr(member, "__wrapped__"):
                setattr(public, name, checked(member))
        return public
    function = cast(Callable[..., Any], public)
    positional: list[str] = []
    declared: dict[str, _Declared] = {}

    def read_annotations() -> None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in kinds:
                positional.append(name)
            is_single = parameter.kind in (*kinds, inspect.Parameter.KEYWORD_ONLY)
            found = _declared(parameter.annotation) if is_single and isinstance(parameter.annotation, str) else None
            if found is not None:
                declared[name] = found

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if not positional and not declared:
            read_annotations()
        for name, value in (*zip(positional, args, strict=False), *given.items()):
            if name in declared:
                declared[name].require(name, value)
        return function(*args, **given)

    return cast(T, call)

"""The cache of a fit's steps: a function is called again only where one of its arguments has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .._utils.warning_collection import collected_warnings, warn
from ..exceptions import DmlrankWarning
from ..nuisance.boosting.tuning import RandomSearch

P = ParamSpec("P")
T = TypeVar("T")

# Arguments that do not change the result, so that a change of them does not call a function again: the columns that are
# read in advance for later steps (a later step reads a column that is missing).
_NOT_COMPARED = ("extra_columns",)
# Types whose values are compared by equality; values of other types are compared by identity.
_COMPARED_BY_VALUE = (str, int, float, bool, dict, RandomSearch, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class CachedStep:
    """The result of one call of a function.

    arguments: The arguments of the call: first those by position, then pairs of name and value.
    result: What the function returned.
    warnings: Warnings of the package that the function gave.
    """

    arguments: tuple[object, ...]
    result: Any
    warnings: tuple[DmlrankWarning, ...]


class Cache:
    """Results of functions by name, so that a later fit calls only those whose arguments have changed.

    previous: The results of an earlier fit.
    steps: For every function that may be called, the function that is called in its place with the same arguments,
        which may be the same one. The result is stored under the name of the former, so that a later fit uses it as the
        result of that function.
    results: The results of the calls through this cache.
    """

    def __init__(
        self,
        previous: dict[str, CachedStep] | None = None,
        steps: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    ) -> None:
        self._previous = previous or {}
        self._steps = steps
        self._slot = ""
        self.results: dict[str, CachedStep] = {}

    @property
    def all_results(self) -> dict[str, CachedStep]:
        """The results of the calls through this cache, and those of the earlier fit for all other functions."""
        return {**self._previous, **self.results}

    def slot(self, name: str) -> Cache:
        """Return a view of this cache that stores the results of its calls under a name of their own.

        A fit uses slots for functions that it calls several times.
        """
        slot = Cache(self._previous, self._steps)
        slot.results, slot._slot = self.results, name
        return slot

    def call(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Return a function's result: the earlier one where all arguments are the same, else that of a new call."""
        if "<" in function.__qualname__:
            raise TypeError(
                f"{function.__qualname__} may depend on more than its arguments; pass a function of a module"
            )
        key = f"{function.__module__}.{function.__qualname__}" + (f" ({self._slot})" if self._slot else "")
        compared_keywords = tuple(
            sorted((name, value) for name, value in keywords.items() if name not in _NOT_COMPARED)
        )
        compared_arguments = (*arguments, *compared_keywords)
        earlier = self._previous.get(key)
        if earlier is not None and _all_same(earlier.arguments, compared_arguments):
            step = earlier
        else:
            with collected_warnings() as call_warnings:
                result = self._called_for(function)(*arguments, **keywords)
            step = CachedStep(compared_arguments, result, tuple(call_warnings))
        self.results[key] = step
        for message in step.warnings:
            warn(message, stacklevel=2)
        returned: T = step.result
        return returned

    def _called_for(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function that is called in the place of a function."""
        if self._steps is None:
            return function
        if function not in self._steps:
            raise LookupError(
                f"{function.__module__}.{function.__qualname__} is no known step of an extension; say in "
                f"fit/extended_stages.py whether an extension replaces this step or computes it again"
            )
        return self._steps[function]


def _all_same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    """Whether two tuples of arguments are the same, entry by entry."""
    return len(old) == len(new) and all(_is_same(a, b) for a, b in zip(old, new, strict=True))


def _is_same(a: object, b: object) -> bool:
    """Whether two arguments are the same; see :meth:`Cache.call`."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _all_same(a, b)
    return a is b or (isinstance(a, _COMPARED_BY_VALUE) and isinstance(b, _COMPARED_BY_VALUE) and a == b)

"""The cache of a fit's steps: a function of its sources, called again only where one of them has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .._utils.warning_collection import collected_warnings, warn
from ..exceptions import DmlrankWarning
from ..nuisance.boosting.random_search import RandomSearch

P = ParamSpec("P")
T = TypeVar("T")

# No number depends on them, so that a step is not made again for them: how many threads work, and which columns are
# taken along for later steps, which take those that are lacking themselves.
_NOT_COMPARED = ("n_jobs", "columns_along")
_PLAIN = (str, int, float, bool, dict, RandomSearch, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class CachedStep:
    """What a function returned.

    Attributes
    ----------
    arguments : tuple
        What it was called with: arguments by place, then arguments by name.
    result : object
    warnings : tuple of DmlrankWarning
        The package's own warnings that it gave.
    """

    arguments: tuple[Any, ...]
    result: Any
    warnings: tuple[DmlrankWarning, ...]


class Cache:
    """Results of functions by name, so that a later fit calls only those whose arguments have changed.

    Parameters
    ----------
    previous : mapping of str to CachedStep, optional
        What an earlier fit has made.

    Examples
    --------
    >>> first = Cache()
    >>> halves = first.call(divmod, 7, 2)
    >>> Cache(first.made).call(divmod, 7, 2) is halves, Cache(first.made).call(divmod, 8, 2)
    (True, (4, 0))
    """

    def __init__(self, previous: dict[str, CachedStep] | None = None) -> None:
        self._previous = previous or {}
        self._slot = ""
        self.made: dict[str, CachedStep] = {}

    @property
    def kept(self) -> dict[str, CachedStep]:
        """What was made now, and what an earlier fit made beside it."""
        return {**self._previous, **self.made}

    def slot(self, name: str) -> Cache:
        """The same cache with places of their own for functions that are called several times, such as by repetition.

        Parameters
        ----------
        name : str
            Of the places.
        """
        other = Cache(self._previous)
        other.made, other._slot = self.made, name
        return other

    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What a function returns for these arguments: the earlier result where all of them are the same.

        The function sees nothing but its arguments, so that a source which is not among them cannot be forgotten.
        Arrays and objects are the same where they are one object, plain values where they are equal, and tuples
        (records that are named tuples, too) where all their entries are the same. ``n_jobs`` and
        ``columns_along`` are passed on and not compared. Warnings of the package that the function gave are given
        again.

        Parameters
        ----------
        function : callable
            A function of a module or a class; lambdas and functions within functions are refused, because they see more
            than their arguments.
        arguments, named
            Its sources.

        Raises
        ------
        TypeError
            If the function is a lambda or defined in another function.
        """
        if "<" in function.__qualname__:
            raise TypeError(
                f"{function.__qualname__} sees more than its arguments; the cache calls functions of a module"
            )
        place = f"{function.__module__}.{function.__qualname__}" + (f" ({self._slot})" if self._slot else "")
        compared = tuple(sorted((name, value) for name, value in named.items() if name not in _NOT_COMPARED))
        sources = (*arguments, *compared)
        known = self._previous.get(place)
        if known is not None and _same(known.arguments, sources):
            self.made[place] = known
            for message in known.warnings:
                warn(message, stacklevel=2)
            result: T = known.result
            return result
        with collected_warnings() as given:
            result = function(*arguments, **named)
        self.made[place] = CachedStep(sources, result, tuple(given))
        for message in given:
            warn(message, stacklevel=2)
        return result


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    return len(old) == len(new) and all(_equal(a, b) for a, b in zip(old, new, strict=True))


def _equal(a: Any, b: Any) -> bool:
    """Whether two sources are the same thing."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _same(a, b)
    return a is b or (isinstance(a, _PLAIN) and isinstance(b, _PLAIN) and a == b)

"""What can go wrong, one base class: every error says what was seen, what is allowed and the nearest right thing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ColumnError",
    "DataError",
    "DataNotStoredError",
    "DmlrankError",
    "DmlrankWarning",
    "FileWriteError",
    "FormulaError",
    "FrameTypeError",
    "GraphError",
    "HypothesisError",
    "IntervalWarning",
    "JudgeError",
    "MissingDataError",
    "MissingExtraError",
    "NoIntervalError",
    "NuisanceError",
    "OptionError",
    "OptionTypeError",
    "OutcomeError",
    "StorageError",
    "UnknownModelError",
]


class DmlrankError(Exception):
    """Base class of every error that dmlrank raises on purpose."""

    def __str__(self) -> str:
        # KeyError prints the repr of its message; a sentence is to be read as a sentence.
        return str(self.args[0]) if self.args else ""


class DmlrankWarning(UserWarning):
    """Base class of every warning that dmlrank gives."""


class IntervalWarning(DmlrankWarning):
    """A sign that standard errors, intervals and tests of a fit may not hold."""


class FormulaError(DmlrankError, ValueError):
    """The formula cannot be read as ``winner ~ features | first_item + second_item``."""


class ColumnError(DmlrankError, KeyError):
    """A column that was named does not exist."""


class FrameTypeError(DmlrankError, TypeError):
    """The data are not in a kind of frame that can be read."""


class DataError(DmlrankError, ValueError):
    """The data contradict themselves or what the method needs."""


class OutcomeError(DataError):
    """A label cannot be read as an outcome of a comparison."""


class MissingDataError(DataError):
    """Values are missing where they are needed."""


class StorageError(DataError):
    """A result cannot be stored, or a file does not hold one."""


class FileWriteError(StorageError, OSError):
    """A file cannot be written; what stood there before still does."""


class GraphError(DataError):
    """The comparisons do not connect the models."""


class NuisanceError(DmlrankError, ValueError):
    """Probabilities or propensities cannot be used or estimated."""


class JudgeError(NuisanceError):
    """Verdicts of a judge cannot be used: none, on the wrong pairs, or where they add nothing."""


class OptionError(DmlrankError, ValueError):
    """An option has a value that is not allowed."""


class OptionTypeError(DmlrankError, TypeError):
    """An option has a value of the wrong kind."""


class HypothesisError(DmlrankError, ValueError):
    """A hypothesis cannot be read, or the scores cannot answer it."""


class NoIntervalError(DmlrankError, ValueError):
    """The result is an estimate without intervals: nothing is known of how far off it may be."""


class UnknownModelError(DmlrankError, KeyError):
    """A model that was named is not among the ranked ones."""


class DataNotStoredError(DmlrankError, ValueError):
    """The result was loaded without the data and learners that this method needs."""


class MissingExtraError(DmlrankError, ImportError):
    """An optional dependency is not installed."""


def nearest(name: object, known: Iterable[object], cutoff: float = 0.5) -> str:
    """``; did you mean 'x'?`` for the known name closest to ``name``, or nothing when none is close.

    Examples
    --------
    >>> nearest("brda", ["borda", "bt"])
    "; did you mean 'borda'?"
    >>> nearest("elo", ["borda", "bt"])
    ''
    """
    by_folded = {str(k).casefold(): k for k in known}
    matches = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=cutoff)
    return f"; did you mean {by_folded[matches[0]]!r}?" if matches else ""


def listed(names: Iterable[object], limit: int = 10) -> str:
    """The names as ``'a', 'b', 'c'``, the rest counted where there are more than ``limit``.

    Examples
    --------
    >>> listed(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = list(names)
    rest = len(shown) - limit
    text = ", ".join(repr(str(name)) for name in shown[:limit])
    return f"{text} and {rest} more" if rest > 0 else text


def check_choice(value: object, allowed: Iterable[str], option: str) -> None:
    """Raise :class:`OptionError` unless ``value`` is one of the ``allowed`` words of ``option``.

    Examples
    --------
    >>> check_choice("borda", ["borda", "bt"], "functional")
    """
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        raise OptionError(f"{option}={value!r} is not known; allowed: {listed(words)}{nearest(value, words)}")

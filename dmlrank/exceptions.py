"""Errors and warnings of the package: each says what was found, what is allowed or why it matters, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LONGEST_MESSAGE = 8_000


class DmlrankError(Exception):
    """Base class of every error that dmlrank raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the repr of its message, in quotation marks. A value of the caller may be a long text.
        text = str(self.args[0]) if self.args else ""
        half = _LONGEST_MESSAGE // 2
        return text if len(text) <= _LONGEST_MESSAGE else f"{text[:half]} ... {text[-half:]}"


class DmlrankWarning(UserWarning):
    """Base class of every warning that dmlrank gives.

    Attributes
    ----------
    once : bool
        Whether the same text is shown once only in a process; results list it every time.
    """

    once: bool = False


class IntervalWarning(DmlrankWarning):
    """A sign that standard errors, intervals and tests of a fit may not hold.

    Attributes
    ----------
    models : tuple of str
        The models that it is about, where these are few; empty where it may be about every model.
    """

    models: tuple[str, ...] = ()


class FormulaError(DmlrankError, ValueError):
    """The formula cannot be read as ``winner ~ features | first_item + second_item``."""


class ColumnError(DmlrankError, KeyError):
    """The data have no column of the name that was asked for."""


class FrameTypeError(DmlrankError, TypeError):
    """The data are not in a kind of frame that the package reads."""


class DataError(DmlrankError, ValueError):
    """The data contradict themselves, or lack something that the method needs.

    Attributes
    ----------
    rows : sequence of int
        Places in the frame of the rows without which the others could be read; empty where it is not about rows.
    """

    @property
    def rows(self) -> Sequence[int]:
        return self.args[1] if len(self.args) > 1 else ()


class OutcomeError(DataError):
    """A label cannot be read as an outcome of a comparison."""


class MissingDataError(DataError):
    """Values are missing in columns that must be complete."""


class ExecutorError(DmlrankError, RuntimeError):
    """The workers that were passed to :func:`dmlrank.computing` cannot carry out the tasks of a fit."""


class StorageError(DataError):
    """A result cannot be stored, or a file does not hold a stored result."""


class FileWriteError(StorageError, OSError):
    """A file cannot be written; an old file is unchanged."""


class GraphError(DataError):
    """The comparisons do not connect the models."""


class NuisanceError(DmlrankError, ValueError):
    """Outcome probabilities or propensities cannot be used or estimated."""


class JudgeError(NuisanceError):
    """Verdicts of a judge cannot be used: there are none, they are on other pairs, or they add no information."""


class OptionError(DmlrankError, ValueError):
    """An option has a value that is not allowed."""


class OptionTypeError(DmlrankError, TypeError):
    """An option has a value of the wrong type."""


class HypothesisError(DmlrankError, ValueError):
    """A hypothesis cannot be read, or the scores cannot answer it."""


class NoIntervalError(DmlrankError, ValueError):
    """The result is an estimate without intervals, so that there are no tests and standard errors either."""


class UnknownModelError(DmlrankError, KeyError):
    """A model of this name was not ranked."""


class DataNotStoredError(DmlrankError, ValueError):
    """The result was stored without the data and learners that this method needs."""


class MissingExtraError(DmlrankError, ImportError):
    """An optional dependency is not installed."""


def nearest(name: object, names: Iterable[object], cutoff: float = 0.5) -> str:
    """Return a hint such as ``; did you mean 'borda'?`` about a misspelt name; empty where no name is close."""
    by_folded = {str(candidate).casefold(): candidate for candidate in names}
    matches = difflib.get_close_matches(
        (name if isinstance(name, str) else shown(name)).casefold(), by_folded, n=1, cutoff=cutoff
    )
    return f"; did you mean {by_folded[matches[0]]!r}?" if matches else ""


def listed(names: Iterable[object], limit: int = 10) -> str:
    """Return a list of names as text, ``'a', 'b', 'c'``; names beyond the first ``limit`` are counted only."""
    all_names = list(names)
    n_more = len(all_names) - limit
    text = ", ".join(repr(str(name)) for name in all_names[:limit])
    return f"{text} and {n_more} more" if n_more > 0 else text


def shown(value: object, limit: int = 200) -> str:
    """Return a value as Python writes it, for an error, cut at ``limit`` characters; its type where it has no text.

    Numbers of numpy, in which columns are read, are written without their type. Python cannot write a whole number of
    more than 4,300 digits, and a foreign class may fail.
    """
    try:
        text = repr(value.item() if isinstance(value, (np.integer, np.float64, np.bool_, np.str_)) else value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else text[:limit] + "..."


def named_rows(wrong: ArrayLike, rows: Sequence[object] | NDArray[np.intp] | None = None, noun: str = "row") -> str:
    """Return where a mask, (rows,), is true: ``row 7 and 3 more``; ``rows`` are the numbers of its rows, if others."""
    places = np.flatnonzero(wrong)
    first = int(places[0]) if rows is None else rows[int(places[0])]
    return f"{noun} {first}" + (f" and {len(places) - 1:,} more" if len(places) > 1 else "")


@contextmanager
def failing_as(
    kind: type[DmlrankError],
    what: str,
    errors: type[Exception] | tuple[type[Exception], ...] = Exception,
    advice: str = "",
) -> Iterator[None]:
    """Raise what other code raises as an error of this package, which says what fails; warnings stay warnings."""
    try:
        yield
    except (DmlrankError, MemoryError, Warning):
        raise
    except errors as error:
        raise kind(f"{what} fails: {type(error).__name__}: {error}{advice}") from error


def check_choice(value: object, allowed: Iterable[str], option: str) -> None:
    """Raise :class:`OptionError` unless ``value`` is one of the ``allowed`` words of ``option``."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        hint = nearest(value, words) if isinstance(value, str) else ""
        raise OptionError(f"{option}={shown(value)} is not allowed; allowed: {listed(words)}{hint}")

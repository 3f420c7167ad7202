"""The package's own warnings: collected while a fit runs, without touching the filters of the process.

``warnings.catch_warnings`` replaces what belongs to the whole process: fits in several threads would take each other's
warnings, and leave the filters of one another behind. A context variable is every thread's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from ..exceptions import DmlrankWarning

T = TypeVar("T")
R = TypeVar("R")

_collected: ContextVar[list[str] | None] = ContextVar("dmlrank_warnings", default=None)


def warn(message: str, stacklevel: int = 1) -> None:
    """Give a :class:`DmlrankWarning`: to what collects them, else to Python's warnings.

    Parameters
    ----------
    message : str
    stacklevel : int
        Whose line Python's warning names: 1 is the line that calls this function, 2 the caller of that.
    """
    collected = _collected.get()
    if collected is None:
        warnings.warn(message, DmlrankWarning, stacklevel=stacklevel + 1)
    else:
        collected.append(message)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """The package's own warnings that are given within, as sentences; nothing else sees them.

    Examples
    --------
    >>> with collected_warnings() as given:
    ...     warn("few clusters")
    >>> given
    ['few clusters']
    """
    given: list[str] = []
    token = _collected.set(given)
    try:
        yield given
    finally:
        _collected.reset(token)


def with_callers_collection(work: Callable[[T], R]) -> Callable[[T], R]:
    """A task for another thread, whose warnings go to what collects them here: a new thread collects nothing.

    Examples
    --------
    >>> from threading import Thread
    >>> with collected_warnings() as given:
    ...     thread = Thread(target=with_callers_collection(warn), args=["few clusters"])
    ...     thread.start()
    ...     thread.join()
    >>> given
    ['few clusters']
    """
    callers = _collected.get()

    def carried(task: T) -> R:
        token = _collected.set(callers)
        try:
            return work(task)
        finally:
            _collected.reset(token)

    return carried

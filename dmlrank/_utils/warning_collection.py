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

_collected: ContextVar[list[DmlrankWarning] | None] = ContextVar("dmlrank_warnings", default=None)


def warn(message: str | DmlrankWarning, stacklevel: int = 1, kind: type[DmlrankWarning] = DmlrankWarning) -> None:
    """Give a :class:`DmlrankWarning`: to what collects them, else to Python's warnings.

    Parameters
    ----------
    message : str or DmlrankWarning
        A sentence, or a warning that was collected before and is given again.
    stacklevel : int
        Whose line Python's warning names: 1 is the line that calls this function, 2 the caller of that.
    kind : type
        The kind of warning that a sentence is given as.
    """
    warning = message if isinstance(message, DmlrankWarning) else kind(message)
    collected = _collected.get()
    if collected is None:
        warnings.warn(warning, stacklevel=stacklevel + 1)
    else:
        collected.append(warning)


@contextmanager
def collected_warnings() -> Iterator[list[DmlrankWarning]]:
    """The package's own warnings that are given within; nothing else sees them.

    Examples
    --------
    >>> with collected_warnings() as given:
    ...     warn("few clusters")
    >>> given
    [DmlrankWarning('few clusters')]
    """
    given: list[DmlrankWarning] = []
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
    [DmlrankWarning('few clusters')]
    """
    callers = _collected.get()

    def carried(task: T) -> R:
        token = _collected.set(callers)
        try:
            return work(task)
        finally:
            _collected.reset(token)

    return carried

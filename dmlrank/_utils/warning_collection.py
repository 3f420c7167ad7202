"""Collection of the package's own warnings while a fit runs, without changing the warning filters of the process.

``warnings.catch_warnings`` replaces filters of the whole process: fits in several threads would collect one another's
warnings, and leave changed filters behind. A context variable has a value for each thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..exceptions import DmlrankWarning

_collected: ContextVar[list[DmlrankWarning] | None] = ContextVar("dmlrank_warnings", default=None)


def warn(message: str | DmlrankWarning, stacklevel: int = 1, kind: type[DmlrankWarning] = DmlrankWarning) -> None:
    """Add a :class:`DmlrankWarning` to this thread's collection; call ``warnings.warn`` if there is none."""
    warning = message if isinstance(message, DmlrankWarning) else kind(message)
    collected = _collected.get()
    if collected is None:
        warnings.warn(warning, stacklevel=stacklevel + 1)
    else:
        collected.append(warning)


@contextmanager
def collected_warnings() -> Iterator[list[DmlrankWarning]]:
    """Collect the package's own warnings within the ``with`` block, instead of calling ``warnings.warn``."""
    collected: list[DmlrankWarning] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)

"""Progress reports of a long fit: none by default, a bar, or calls of the user's function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from ..exceptions import OptionTypeError, shown

# Called with the number of steps done, the number of steps in all, and the name of the stage.
Report = Callable[[int, int, str], None]

_WIDTH = 30
_SECONDS_BETWEEN_LINES = 10.0

_current: ContextVar[Report | None] = ContextVar("dmlrank_progress", default=None)


@contextmanager
def reporting(progress: bool | Report) -> Iterator[None]:
    """Send all reports within the ``with`` block to ``progress``: True for a bar, False for nothing, or a function."""
    if not isinstance(progress, bool) and not callable(progress):
        raise OptionTypeError(
            f"progress={shown(progress)} is not allowed; allowed are True, False and a function of (step, total, what)"
        )
    bar = Bar(sys.stderr) if progress is True else None
    token = _current.set(bar if bar is not None else progress if callable(progress) else None)
    try:
        yield
    finally:
        _current.reset(token)
        if bar is not None:
            bar.close()


def report(step: int, total: int, what: str, minor: bool = False) -> None:
    """Report that ``step`` of ``total`` steps of a stage are done."""
    receiver = _current.get()
    if receiver is not None and not (minor and isinstance(receiver, Bar) and not receiver.is_terminal):
        receiver(step, total, what)


class Bar:
    """A bar on a terminal; elsewhere, such as in a log file, a line every ten seconds and one when a stage ends."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self.is_terminal = stream.isatty()
        self._last = clock()
        self._open = False

    def __call__(self, step: int, total: int, what: str) -> None:
        """Show one report."""
        done = step >= total
        if self.is_terminal:
            n_done = _WIDTH * step // max(total, 1)
            bar = "#" * n_done + "." * (_WIDTH - n_done)
            self._stream.write(f"\r\x1b[K{what} [{bar}] {step}/{total}" + "\n" * done)
            self._open = not done
        elif done or self._clock() - self._last >= _SECONDS_BETWEEN_LINES:
            self._stream.write(f"{what}: {step}/{total}\n")
            self._last = self._clock()
        self._stream.flush()

    def close(self) -> None:
        """End the line of a bar that is not complete."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

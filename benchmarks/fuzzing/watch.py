"""Watches calls of dmlrank: an answer, one of its own errors, or a finding (a defect of the package)."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

import dmlrank as dr
from dmlrank.exceptions import shown

T = TypeVar("T")

# The shortest message that can say what was found and what to do.
_SHORTEST_MESSAGE = 20


class Finding(Exception):
    """A defect of dmlrank: its kind, the call, and what happened."""

    def __init__(self, kind: str, call: str, detail: str) -> None:
        super().__init__(f"{kind}: {call}: {detail}")
        self.kind, self.call, self.detail = kind, call, detail


class _TimeIsUp(BaseException):
    """Raised by the alarm; no ``except Exception`` of the package catches it."""


class Watch:
    """Makes calls and counts them; raises a :class:`Finding` where a call breaks a promise.

    inputs: Number of calls.
    outcomes: Number of calls by outcome: ``"answered"``, or the name of dmlrank's error.
    comparisons: Number of answers that were compared with a reference.
    """

    def __init__(self) -> None:
        self.inputs, self.comparisons, self.outcomes = 0, 0, Counter[str]()

    def ask(self, call: str, function: Callable[..., T], /, *args: Any, **options: Any) -> T | None:
        """Return the answer of a call, or None where dmlrank refuses the call with an error of its own.

        call: What is called, for findings.
        *args, **options: Arguments of the function.
        """
        self.inputs += 1
        call = f"{call}({_arguments(args, options)})"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = function(*args, **options)
            except dr.DmlrankError as error:
                self.outcomes[type(error).__name__] += 1
                if len(str(error)) <= _SHORTEST_MESSAGE:
                    raise Finding("short message", call, repr(error)) from error
                answer = None
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {error} at {place.filename}:{place.lineno}"
                raise Finding("foreign exception", call, text) from error
            else:
                self.outcomes["answered"] += 1
        for warning in caught:
            if not issubclass(warning.category, dr.DmlrankWarning):
                text = f"{warning.category.__name__}: {warning.message} at {warning.filename}:{warning.lineno}"
                raise Finding("foreign warning", call, text)
        return answer

    def require(self, holds: bool, call: str, detail: str) -> None:
        """Raise a finding of a wrong answer unless the condition holds."""
        self.comparisons += 1
        if not holds:
            raise Finding("wrong answer", call, detail)

    def near(self, call: str, found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-12) -> None:
        """Raise a finding of a wrong answer unless numbers equal those of the reference, NaN at the same places."""
        found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
        same = found.shape == expected.shape and np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
        self.require(bool(same), call, f"{found.tolist()} and not {expected.tolist()}")


def _arguments(args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """Return arguments as text, each shortened to 200 characters."""
    texts = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in options.items())]
    return ", ".join(text.replace("\n", " ") for text in texts)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise a finding in the block when it takes longer; only in the main thread, where alarms are heard."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    # Seconds of the processor, because another program may keep it busy; and a wait that never ends takes none.
    before_profile = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 20 * seconds)
    try:
        yield
    except _TimeIsUp as late:
        place = traceback.extract_tb(late.__traceback__)[-1]
        raise Finding("hang", f"{place.filename}:{place.lineno}", f"still busy after {seconds:g} s") from late
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before_profile)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def silence(call: str) -> Iterator[None]:
    """Raise a finding when the block writes to standard output or error, also from native code such as LightGBM's."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in zip((1, 2), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
            file.seek(0)
            text = file.read().decode(errors="replace")
    if text:
        raise Finding("printed", call, text[:500])

"""Atomic writing of files: beside the old file and renamed, so that what fails or is killed leaves the old one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..exceptions import FileWriteError


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write text, as UTF-8 with its line ends as they are, or bytes to a file: all of them or nothing.

    Raises
    ------
    FileWriteError
        If the file cannot be written. What stood there before still does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(Path(folder) / "a.txt", "new")
    ...     (Path(folder) / "a.txt").read_text()
    'new'
    """
    with written_beside(path) as beside, errors_of(path):
        beside.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, of the same folder and ending, whose file takes the place of ``path`` at the end.

    Where something is raised in between, the file is removed and ``path`` is as it was. A device or a pipe, such as
    ``/dev/stdout``, is written to as it is. A link stays, and what it points to is replaced.

    Raises
    ------
    FileWriteError
        If no file can be made in the folder, or it cannot take the place of the old one.
    """
    with errors_of(path):
        # Of the path itself: where a pipe leads to, as /dev/stdout does, has no path of its own.
        old, target = _status(path), Path(os.path.realpath(path))
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise FileWriteError(f"{os.fsdecode(path)!r} is a folder; needed is the name of a file")
        special = old is not None and not stat.S_ISREG(old.st_mode)
        if not special:
            beside = _new_file(target, None if old is None else stat.S_IMODE(old.st_mode))
    if special:
        yield Path(path)
        return
    try:
        yield beside
        with errors_of(path):
            _flush_to_disk(beside)
            os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileWriteError` where a file could not be written; nothing is left behind and nothing changed."""
    with suppress(_OnlyTried), written_beside(path):
        raise _OnlyTried


@contextmanager
def errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the operating system says against writing a file, as one of our errors that names the file asked for."""
    try:
        yield
    except FileWriteError:
        raise
    except (OSError, ValueError) as error:
        why, folder = getattr(error, "strerror", None) or str(error), os.path.dirname(os.fsdecode(path))
        lacking = folder and "\0" not in folder and not os.path.exists(folder)
        hint = f"; there is no folder {folder!r}" if lacking else ""
        raise FileWriteError(f"{os.fsdecode(path)!r} cannot be written: {why}{hint}") from error


class _OnlyTried(Exception):
    """Ends an attempt before anything is written."""


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _new_file(target: Path, mode: int | None) -> Path:
    """An empty file in the folder of another, with its permissions where it exists."""
    beside = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    # Not tempfile: what it makes is for its owner alone, whatever the user's mask of permissions says.
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if mode is not None:
        with suppress(OSError):
            os.chmod(beside, mode)
    return beside


def _flush_to_disk(path: Path) -> None:
    """Let the disk hold what was written before the name points to it: else a power cut leaves an empty file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())

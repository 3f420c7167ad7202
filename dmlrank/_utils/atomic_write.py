"""Atomic writing of files: a new file is written first and then renamed, so that a failure leaves the old file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..exceptions import FileWriteError
from .argument_checks import check_path


def write_file(path: str | os.PathLike[str], text: str) -> None:
    """Write text to a file, completely or not at all, as UTF-8 with its line ends unchanged."""
    with replacement_file(path) as new_file, write_errors(path):
        new_file.write_bytes(text.encode("utf-8"))


@contextmanager
def replacement_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new file beside ``path`` that replaces it after the ``with`` block, unless the block raises an error."""
    # A device or a pipe, such as /dev/stdout, is written to directly. A symbolic link stays: its target is replaced.
    check_path(path)
    mode = None
    with write_errors(path):
        target = Path(os.path.realpath(path))
        new_file = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
        with suppress(FileNotFoundError):
            # The mode is that of ``path`` and not of ``target``: /dev/stdout may point to a pipe, which has no path.
            mode = os.stat(path).st_mode
        if mode is not None and stat.S_ISDIR(mode):
            raise FileWriteError(f"{os.fsdecode(path)!r} is a folder; give the name of a file")
        is_special = mode is not None and not stat.S_ISREG(mode)
        if not is_special:
            # tempfile is not used: only the owner may read its files, even where the umask lets others read new files.
            os.close(os.open(new_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if is_special:
        yield Path(path)
        return
    try:
        if mode is not None:
            with suppress(OSError):
                os.chmod(new_file, stat.S_IMODE(mode))
        yield new_file
        with write_errors(path):
            with open(new_file, "rb") as file:
                # The content is written to the disk before the name: otherwise a power cut could leave an empty file.
                os.fsync(file.fileno())
            os.replace(new_file, target)
    except BaseException:
        with suppress(OSError):
            new_file.unlink()
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileWriteError` where ``path`` cannot be written, by making and removing a new file beside it."""
    with suppress(_TrialEnded), replacement_file(path):
        raise _TrialEnded


@contextmanager
def write_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the operating system in the ``with`` block into :class:`FileWriteError`, which names ``path``."""
    try:
        yield
    except FileWriteError:
        raise
    except (OSError, ValueError) as error:
        reason, folder = getattr(error, "strerror", None) or str(error), os.path.dirname(os.fsdecode(path))
        is_missing = folder and "\0" not in folder and not os.path.exists(folder)
        hint = f"; there is no folder {folder!r}" if is_missing else ""
        raise FileWriteError(f"{os.fsdecode(path)!r} cannot be written: {reason}{hint}") from error


class _TrialEnded(Exception):
    """Ends the block of :func:`replacement_file` in :func:`check_writable`, so that the new file is removed."""

"""Bounded reading of the files of evaluation harnesses: JSON, JSON lines and zip, compressed by gzip or zstandard."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pandas as pd

from .._utils.argument_checks import check_path
from ..exceptions import DataError, DmlrankError, MissingExtraError, failing_as, listed, nearest, shown

Record: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A JSON object of a log and its place there, whose fields are read by their type.

    Null is a field that is not there. Fields without a default are required.
    """

    fields: Record
    where: str

    @classmethod
    def of(cls, value: Any, where: str) -> Entry:
        """Return a value that has to be a JSON object."""
        if not isinstance(value, dict):
            raise DataError(f"{where} is {shown(value, 60)}, and must be a JSON object; leave the file out or mend it")
        return cls(value, where)

    @classmethod
    def of_file(cls, file: Path) -> Entry:
        """Return the JSON object that a file holds."""
        return cls.of(read_json(file), repr(str(file)))

    def name(self, field: str) -> str:
        """Return a text or a number as text."""
        if (found := self.name_or(field, None)) is None:
            raise DataError(f"{self.where} has no {field!r}; leave the file out or mend it")
        return found

    def name_or(self, field: str, default: T) -> str | T:
        """Return a text or a number as text."""
        value = self._of_type(field, (str, int, float), "a text or a number")
        return default if value is None else str(value)

    def number_or(self, field: str, default: T) -> float | T:
        """Return a number."""
        value = self._of_type(field, (int, float), "a number")
        return default if value is None else value

    def whole_or(self, field: str, default: int) -> int:
        """Return a whole number."""
        value = self._of_type(field, (int,), "a whole number")
        return default if value is None else int(value)

    def entry(self, field: str) -> Entry:
        """Return an object; an empty one where there is none."""
        value = self._of_type(field, (dict,), "an object")
        return Entry(value or {}, f"{self.where}, {field!r}")

    def entries(self, field: str) -> list[Entry]:
        """Return the objects of a list, empty ones for null; none where there is no list."""
        values, where = self._of_type(field, (list,), "a list") or [], f"{self.where}, {field!r}"
        return [Entry.of({} if value is None else value, f"{where} {place}") for place, value in enumerate(values)]

    def names(self, field: str) -> str | None:
        """Return a text, or the texts of a list joined by a comma."""
        value = self.fields.get(field)
        if not isinstance(value, list):
            return self.name_or(field, None)
        return ", ".join(Entry({field: one}, self.where).name(field) for one in value)

    def _of_type(self, field: str, types: tuple[type, ...], noun: str) -> Any:
        value = self.fields.get(field)
        if value is None or (isinstance(value, types) and not isinstance(value, bool)):
            return value
        raise DataError(
            f"{self.where}: {field!r} is {shown(value, 60)}, and must be {noun}; leave the file out or mend it"
        )


# What is read as a whole may expand to so many times its size, to so many bytes at least and at most; a line may have
# so many. Logs of text expand to 5 to 30 times their size; files made to fill the memory to 1,000 times and more.
_LARGEST_RATIO, _LEAST_EXPANDED, _LARGEST_EXPANDED, _LARGEST_LINE = 200, 2**27, 2**29, 2**26
LOG_ENDINGS = (".eval", ".json", ".jsonl")
_COMPRESSIONS = (".gz", ".zst")
# RuntimeError: an encrypted zip file; NotImplementedError: a zip file with another compression.
# ValueError: a damaged name in a zip file, or csv that cannot be read.
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, struct.error, ValueError)
# Half of a surrogate pair, as JSON writes it.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# The number of zstandard among the compressions of zip files, which Python's zipfile reads from 3.14 on.
_ZIP_ZSTANDARD = 93


def log_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files of a path, a folder and those in it, a pattern or a list, by name, without hidden ones."""
    if isinstance(path, Sequence) and not isinstance(path, str | bytes):
        return sorted({file for one in path for file in log_files(one)})
    check_path(path)
    place = Path(path)
    # Not Path's own tests, which raise where a name is too long for a file.
    if os.path.isdir(place):
        inside = (
            file for file in place.rglob("*") if not any(part[0] == "." for part in file.relative_to(place).parts)
        )
        files = [file for file in inside if file.is_file() and ending(file) in LOG_ENDINGS]
        if not files:
            raise DataError(f"the folder {str(place)!r} has no file that ends with {listed(LOG_ENDINGS)}")
        return sorted(files)
    if os.path.isfile(place):
        return [place]
    if os.path.exists(place):
        raise DataError(f"{str(path)!r} is neither a file nor a folder")
    matches = sorted(Path(match) for match in glob(str(path), recursive=True) if os.path.isfile(match))
    if not matches:
        names = [other.name for other in place.parent.iterdir()] if os.path.isdir(place.parent) else []
        raise DataError(f"there is no file or folder {str(path)!r}{nearest(place.name, names)}")
    return matches


def ending(file: Path) -> str:
    """Return the ending that names the kind of a file, without that of a compression."""
    last = file.suffix.lower()
    return Path(file.stem).suffix.lower() if last in _COMPRESSIONS else last


def read_json(file: Path) -> Any:
    """Return the value of a JSON file."""
    return parsed(_content(file), file)


def read_csv(file: Path) -> Iterator[Record]:
    """Yield the rows of a csv file whose first row names the columns; cells are text, None where empty."""
    with readable(file):
        table = pd.read_csv(io.BytesIO(_content(file)), dtype=object, keep_default_na=False, na_values=[""])
    names = [str(name) for name in table]
    for cells in table.where(table.notna(), None).itertuples(index=False, name=None):
        yield dict(zip(names, cells, strict=True))


def read_lines(file: Path) -> Iterator[Record]:
    """Yield the objects of a file of JSON lines, or of a JSON array."""
    with readable(file), _opened(file) as lines:
        start = lines.peek(64).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        if start == b"[":
            records = read_json(file)
            if not all(isinstance(record, dict) for record in records):
                raise DataError(f"{str(file)!r} is no list of JSON objects")
            yield from records
            return
        # Lines are read one by one, so that the file as a whole may be larger than the memory.
        size = file.stat().st_size
        n_bytes, limit, number = 0, max(_LARGEST_EXPANDED, _LARGEST_RATIO * size), 0
        while line := lines.readline(_LARGEST_LINE + 1):
            number += 1
            n_bytes += len(line)
            if len(line) > _LARGEST_LINE or n_bytes > limit:
                raise DataError(f"{str(file)!r}: line {number} makes the file larger than a log is; {_TRUST}")
            if line.strip():
                record = parsed(line, file, number)
                if not isinstance(record, dict):
                    raise DataError(f"{str(file)!r}, line {number} is no JSON object")
                yield record


def parsed(content: bytes, file: Path, line: int | None = None) -> Any:
    """Return the value of JSON text."""
    where, advice = "" if line is None else f", line {line}", "; leave the file out or mend it"
    with failing_as(DataError, f"reading {str(file)!r}{where} as JSON", (ValueError, RecursionError), advice):
        # The codec utf-8-sig is slow, and many logs have a million lines.
        value = json.loads(content.removeprefix(codecs.BOM_UTF8).decode())
        if _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode()  # raises where a text has half of a pair
        return value


def zip_member(archive: zipfile.ZipFile, name: str, file: Path) -> bytes | None:
    """Return the bytes of a member of a zip file; None where there is none of this name."""
    try:
        member = archive.getinfo(name)
    except KeyError:
        return None
    if member.file_size > _limit(member.compress_size):
        raise DataError(f"{str(file)!r}: {name} says that it expands to {member.file_size:,} bytes; {_TRUST}")
    if member.compress_type != _ZIP_ZSTANDARD:
        with archive.open(member) as content:
            return expanded(content, member.compress_size, file)
    # The local header has 30 bytes, then a name and further fields whose lengths stand at byte 26.
    with file.open("rb") as raw:
        raw.seek(member.header_offset + 26)
        raw.seek(sum(struct.unpack("<HH", raw.read(4))), os.SEEK_CUR)
        compressed = io.BytesIO(raw.read(member.compress_size))
    return expanded(_zstandard(compressed), member.compress_size, file)


_TRUST = "a file that was made to fill the memory looks like this; expand it yourself if you trust it"


def _limit(size: int) -> int:
    return max(size, min(max(_LEAST_EXPANDED, _LARGEST_RATIO * size), _LARGEST_EXPANDED))


def expanded(content: Any, size: int, file: object, smallest_limit: int | None = None) -> bytes:
    """Return what the ``size`` compressed bytes of an open file expand to; raise where this is too much."""
    limit = _limit(size) if smallest_limit is None else max(smallest_limit, _LARGEST_RATIO * size)
    found: bytes = content.read(limit + 1)
    if len(found) > limit:
        raise DataError(f"{str(file)!r} expands to more than {limit:,} bytes; {_TRUST}")
    return found


def _zstandard(file: Any) -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile
    except ModuleNotFoundError:
        raise MissingExtraError(
            "the log is compressed by zstandard, which needs a package: pip install 'dmlrank[logs]'"
        ) from None
    return ZstdFile(file)


def _opened(file: Path) -> io.BufferedReader:
    """Return the bytes of a file as they are without compression."""
    if file.suffix.lower() == ".gz":
        return io.BufferedReader(gzip.open(file))
    return io.BufferedReader(_zstandard(file)) if file.suffix.lower() == ".zst" else file.open("rb")


def _content(file: Path) -> bytes:
    """Return all bytes of a file."""
    with readable(file), _opened(file) as content:
        return expanded(content, file.stat().st_size, file)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Raise what goes wrong while a file is read and expanded as an error that names the file."""
    try:
        yield
    except DmlrankError:
        raise
    except Exception as error:
        # The class of zstandard's errors is known where the package is installed only.
        if isinstance(error, _UNREADABLE) or type(error).__name__ == "ZstdError":
            raise DataError(f"{str(file)!r} cannot be read: {error}") from None
        raise

"""Reading frames from files of the command line and from standard input: csv, JSON, parquet, Arrow IPC."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from ..data.frames import column_names
from ..data.partitions import has_several_files
from ..data.plain_columns import arrow_module
from ..exceptions import DataError, OptionError, nearest
from ..tables.display_text import as_written
from .column_roles import ColumnRoles, whole_numbers_as_text

if TYPE_CHECKING:
    import pyarrow as pa

# A frame, or the path of parquet files that are read in parts.
Frame: TypeAlias = "pd.DataFrame | pa.Table | str"

STANDARD_INPUT = "-"
FORMATS = {
    ".csv": "csv",
    ".tsv": "csv with tabs",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".parquet": "parquet",
    ".feather": "Arrow IPC",
    ".arrow": "Arrow IPC",
}
_COMPRESSED: Mapping[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
# A compressed file may expand to so many bytes, and a larger one to so many times its size. Tables of votes expand to
# 5 to 30 times their size; a file that was made to fill the memory expands to 1,000 times its size and more.
_LARGEST_EXPANDED, _LARGEST_RATIO = 2**28, 200
# The first bytes of compressed files, and of parquet and Arrow files.
_MARKS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
_ARROW_MARKS = {b"PAR1": "parquet", b"ARROW1": "Arrow IPC"}


def read_frames(paths: Mapping[str, str], roles: Mapping[str, ColumnRoles]) -> dict[str, Frame]:
    """Read several files about the same models and prompts, each with the roles of its columns.

    Cells of csv have no type, and names in csv are text. If some files are csv and others have types, names that are
    whole numbers in the others become text, so that the names agree.
    """
    if list(paths.values()).count(STANDARD_INPUT) > 1:
        raise OptionError("'-', standard input, stands for one file, but was given several times; name the other files")
    frames = {key: _read(path, roles[key]) for key, path in paths.items()}
    all_of_one_kind = len({has_types for _, has_types in frames.values()}) < 2
    if all_of_one_kind:
        return {key: frame for key, (frame, _) in frames.items()}
    return {key: _with_text_names(frame, roles[key].names) for key, (frame, _) in frames.items()}


def read_frame(path: str, roles: ColumnRoles | None = None) -> Frame:
    """Read a frame from a file: pandas for csv and JSON, a pyarrow Table for parquet and Arrow IPC (feather).

    The path of a folder with parquet files, or a pattern of their names, is returned as it is: the fit reads the files
    in parts.
    """
    return _read(path, roles or ColumnRoles())[0]


def known_file(path: str) -> bool:
    """Return whether a word is the name of a file that can be read, by its ending, or standard input."""
    return path == STANDARD_INPUT or _endings(path)[0] in FORMATS


def _read(path: str, roles: ColumnRoles) -> tuple[Frame, bool]:
    """Return the frame, and whether the cells of the file have types (those of csv have none)."""
    kind, compression = _endings(path)
    name = "standard input" if path == STANDARD_INPUT else repr(path)
    if path != STANDARD_INPUT:
        if has_several_files(path):
            # Errors of the files are raised here, before the files are read.
            column_names(path)
            return path, True
        if Path(path).is_dir():
            raise DataError(
                f"{path!r} is a folder without parquet files; give a folder with files *.parquet, or a file that ends "
                f"with {', '.join(FORMATS)}"
            )
        if kind not in FORMATS:
            raise DataError(
                f"{path!r} has an unknown ending; readable files end with {', '.join(FORMATS)}{nearest(kind, FORMATS)}"
            )
        if not Path(path).exists():
            raise DataError(f"there is no file {path!r}")
    file_format = FORMATS.get(kind, "a file")
    try:
        content = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
        if path == STANDARD_INPUT:
            compression = next((ending for mark, ending in _MARKS.items() if content.startswith(mark)), "")
        if compression:
            content = _expanded(content, compression)
        if path == STANDARD_INPUT:
            file_format = _format_of(content)
        return _parsed(content, file_format, roles), not file_format.startswith("csv")
    except (DataError, ImportError):
        raise
    except (ValueError, OSError, EOFError, RecursionError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name} cannot be read as {file_format}: {error}") from None


def _expanded(content: bytes, compression: str, smallest_limit: int = _LARGEST_EXPANDED) -> bytes:
    """Return the bytes of a compressed file; raise where they are so many that the file can hold no table of votes."""
    limit = max(smallest_limit, _LARGEST_RATIO * len(content))
    with _COMPRESSED[compression](io.BytesIO(content)) as file:
        expanded = file.read(limit + 1)
    if len(expanded) > limit:
        raise ValueError(
            f"its {len(content):,} bytes expand to more than {limit:,} bytes, as a file does that was made to fill the "
            f"memory; expand it yourself if you trust it"
        )
    return expanded


def _endings(path: str) -> tuple[str, str]:
    """Return the ending that names the kind of a file, and the ending of a compression or an empty one."""
    last = Path(path).suffix.lower()
    if last in _COMPRESSED:
        return Path(Path(path).stem).suffix.lower(), last
    return last, ""


def _format_of(content: bytes) -> str:
    """Return the format of standard input, recognised by its beginning."""
    for mark, kind in _ARROW_MARKS.items():
        if content.startswith(mark):
            return kind
    start = content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise DataError("standard input is empty; give csv, JSON, parquet or Arrow IPC")
    if start[:1] in (b"{", b"["):
        return "JSON"
    head = start.split(b"\n", 1)[0]
    return "csv with tabs" if b"\t" in head and b"," not in head else "csv"


def _parsed(content: bytes, file_format: str, roles: ColumnRoles) -> Frame:
    """Return the frame of a file's bytes."""
    if file_format.startswith("csv"):
        return roles.typed(_cells(io.BytesIO(content), "\t" if "tabs" in file_format else ","))
    if file_format == "JSON":
        return _records(content.decode("utf-8-sig"))
    arrow_module(f"{file_format} files")
    from pyarrow import BufferReader, feather, parquet

    file = BufferReader(content)
    return parquet.read_table(file) if file_format == "parquet" else feather.read_table(file)


def _cells(file: IO[bytes], separator: str) -> pd.DataFrame:
    """Return the cells of a csv file as text, missing where empty; the first row names the columns."""
    table = pd.read_csv(
        file, sep=separator, header=None, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig"
    )
    head = [f"Unnamed: {place}" if pd.isna(name) else name for place, name in enumerate(table.iloc[0])]
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise ValueError(f"there are several columns named {twice[0]!r}; every column needs a name of its own")
    cells = table.iloc[1:].set_axis(head, axis=1).reset_index(drop=True)
    # Tables of this package have an apostrophe before names that a spreadsheet would run as formulas.
    return cells.map(as_written, na_action="ignore")


def _records(text: str) -> pd.DataFrame:
    """Return the objects of a JSON array, or of lines of JSON, as rows; values keep their types."""
    if text.lstrip().startswith("["):
        records = json.loads(text)
    else:
        # Not splitlines(): a JSON string may hold a line separator such as U+2028 as it is.
        records = [_line(line, number) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    not_an_object = next((record for record in records if not isinstance(record, dict)), None)
    if not records or not_an_object is not None:
        content = "nothing" if not records else f"a {type(not_an_object).__name__}"
        raise ValueError(f"it holds {content}; it must hold objects, one per row, in an array or one per line")
    if len(records) == 1 and all(isinstance(entry, dict) for entry in records[0].values()):
        raise ValueError("it holds one object of columns; it must hold one object per row (pandas: orient='records')")
    return pd.DataFrame(records, dtype=object)


def _line(line: str, number: int) -> object:
    """Return the value of one line of JSON."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None


def _with_text_names(frame: Frame, names: Sequence[str]) -> Frame:
    """Return a frame in which names that are whole numbers are text, as they are in csv."""
    if isinstance(frame, str):
        raise DataError(
            f"{frame!r} is read in parts and its cells have types, and another file is csv, whose cells have none; "
            f"write the csv file as parquet, so that names agree"
        )
    if isinstance(frame, pd.DataFrame):
        return frame.assign(**{name: whole_numbers_as_text(frame[name]) for name in names if name in frame.columns})
    pa = arrow_module("an Arrow table")
    for name in names:
        place = frame.schema.get_field_index(name)
        if place >= 0 and pa.types.is_integer(frame.schema.field(place).type):
            frame = frame.set_column(place, name, frame.column(place).cast(pa.string()))
    return frame

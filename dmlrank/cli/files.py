"""Files of the command line: frames that are read, tables and figures that are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pandas as pd

from .._utils.atomic_write import errors_of, write_file, written_beside
from ..data.frames import arrow_module
from ..exceptions import DataError, OptionError, nearest
from ..report.table import Summary

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = {
    ".csv": "csv",
    ".json": "JSON lines",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".parquet": "parquet",
    ".feather": "Arrow IPC",
    ".arrow": "Arrow IPC",
}


class Plottable(Protocol):
    """Anything with a figure: a result, a comparison, a plan."""

    def plot(self) -> Axes: ...


def read_frame(path: str) -> pd.DataFrame | pa.Table:
    """A frame from a file: pandas for csv and JSON lines, a pyarrow Table for parquet and Arrow IPC (feather).

    Raises
    ------
    DataError
        If the file does not exist, its kind is not known, or it cannot be read as what its name says.
    MissingExtraError
        If its kind needs pyarrow, which is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise DataError(f"{path!r} is of an unknown kind; readable are {', '.join(FORMATS)}{nearest(suffix, FORMATS)}")
    if not Path(path).is_file():
        raise DataError(f"there is no file {path!r}")
    try:
        return _read(path, FORMATS[suffix])
    except (ValueError, OSError) as error:
        raise DataError(f"{path!r} cannot be read as {FORMATS[suffix]}: {error}") from None


def read_verdicts(files: Sequence[str]) -> Any:
    """A frame of verdicts from one file, or a dictionary of frames from files given as NAME=FILE, one for each judge.

    Raises
    ------
    OptionError
        If there are several files and not each has a name of its own.
    """
    named = [text.partition("=") for text in files]
    if len(files) == 1 and not named[0][1]:
        return read_frame(files[0])
    if not all(equals for _, equals, _ in named) or len({name for name, _, _ in named}) < len(named):
        raise OptionError(f"--judge-file takes one file, or several as NAME=FILE with different names; got {files}")
    return {name: read_frame(path) for name, _, path in named}


def names_of_files(paths: Sequence[str]) -> list[str]:
    """Names of stored results: those of their files, or their whole paths where these repeat."""
    stems = [Path(path).stem for path in paths]
    return stems if len(set(stems)) == len(stems) else list(paths)


def write_summary(summary: Summary, *, html: str | None, latex: str | None, markdown: str | None) -> None:
    """Write a summary to each path that is given, in that format."""
    for path, written in (
        (html, summary.as_html),
        (latex, summary.as_latex),
        (markdown, summary.as_markdown),
    ):
        if path:
            write_file(path, written())


def write_figure(shown: Plottable, path: str) -> None:
    """Write the figure of ``shown.plot()``, in the format that the path's ending names."""
    with written_beside(path) as beside, errors_of(path):
        # Axes of a figure of their own, so that no release of matplotlib is asked for the root of a figure in another.
        cast("Figure", shown.plot().figure).savefig(beside)


def _read(path: str, file_format: str) -> pd.DataFrame | pa.Table:
    if file_format == "csv":
        return pd.read_csv(path)
    if file_format == "JSON lines":
        return pd.read_json(path, lines=True)
    arrow_module(f"{file_format} files")
    from pyarrow import feather, parquet

    return parquet.read_table(path) if file_format == "parquet" else feather.read_table(path)

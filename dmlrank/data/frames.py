"""Named columns with plain numpy types from frames of any kind: pandas, polars, Arrow, DuckDB, parquet files and Dask.

The rows of parquet files are those of the files one after the other, in the order of their names; those of a Dask
DataFrame are the partitions' in their order. A context may therefore have rows in several files.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import ColumnError, DataError, FrameTypeError, StorageError, failing_as, listed, nearest
from .arrays import arrow_module, arrow_to_series, plain_column, unequal_vectors_error
from .derived_pairs import DerivedPairs

if TYPE_CHECKING:
    import pyarrow as pa


# Bytes of columns that are read at a time, counted with eight bytes for each number.
_READ_AT_A_TIME = 2**26
# Vectors that are read at a time.
_VECTORS_AT_A_TIME = 2**12


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """Parquet files with the same columns: those that have rows, in the order of names, and the types by column."""

    paths: tuple[str, ...]
    types: dict[str, pa.DataType]
    n_rows: int

    @classmethod
    def at(cls, location: str | os.PathLike[str]) -> ParquetFiles:
        """Find the files of a directory, of a pattern such as ``"votes/2024-*.parquet"``, or a single file."""
        arrow_module("a parquet file")
        types: dict[str, pa.DataType] = {}
        paths_with_rows, n_rows, first = [], 0, None
        for path in _paths(os.fspath(location)):
            with _opened(path) as file:
                schema, n_of_file = file.schema_arrow, file.metadata.num_rows
            if not (names := pd.Index(schema.names)).is_unique:
                raise _repeated_names_error(names, path)
            of_file = dict(zip(schema.names, schema.types, strict=True))
            if first is None:
                first, types = path, of_file
            for name in sorted(set(types) ^ set(of_file)):
                lacking, having = (first, path) if name in of_file else (path, first)
                raise DataError(f"the file {lacking} has no column {name!r}, which {having} has; write it to all files")
            for name, kind in types.items():
                # A column without any value has the type null in a file; its type is then that of another file.
                if str(kind) == "null":
                    types[name] = of_file[name]
                elif kind != of_file[name] and str(of_file[name]) != "null":
                    raise DataError(
                        f"column {name!r} is {kind} in {first} and {of_file[name]} in {path}; write one type"
                    )
            if n_of_file:
                paths_with_rows.append(path)
                n_rows += n_of_file
        return cls(tuple(paths_with_rows), types, n_rows)

    def columns(self, names: Sequence[str]) -> dict[str, pd.Series]:
        """Return columns with plain types; vectors are rows of a file."""
        import pyarrow.types as types

        columns: dict[str, pd.Series] = {}
        plain = []
        for name in dict.fromkeys(names):
            kind = self.types[name]
            is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
            if is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)):
                columns[name] = self._vectors(name)
            else:
                plain.append(name)
        step = max(1, _READ_AT_A_TIME // (8 * max(self.n_rows, 1)))
        for start in range(0, len(plain), step):
            columns |= self._plain(plain[start : start + step])
            release_unused_memory()
        return columns

    def _plain(self, names: list[str]) -> dict[str, pd.Series]:
        """Return columns that hold one value in each cell."""
        import pyarrow as pa

        tables = []
        for path in self.paths:
            with _opened(path) as file:
                table = file.read(columns=names, use_threads=False)
                tables.append([table.column(name).cast(self.types[name]) for name in names])
        columns = {}
        for place, name in enumerate(names):
            chunks = [chunk for table in tables for chunk in table[place].chunks]
            columns[name] = plain_column(arrow_to_series(pa.chunked_array(chunks, self.types[name]))).rename(name)
        return columns

    def _vectors(self, name: str) -> pd.Series:
        """Return a column of vectors as objects: rows of one matrix in a file, and None where the vector is missing."""
        import pyarrow as pa
        import pyarrow.compute as compute

        matrix: NDArray[np.float32] | None = None
        is_missing = np.zeros(self.n_rows, dtype=bool)
        start = 0
        for path in self.paths:
            with _opened(path) as file:
                for batch in file.iter_batches(_VECTORS_AT_A_TIME, columns=[name], use_threads=False):
                    vectors, missing = batch.column(0).drop_null(), np.asarray(batch.column(0).is_null())
                    rows = slice(start, start + len(missing))
                    start, is_missing[rows] = rows.stop, missing
                    if not len(vectors):
                        continue
                    lengths = set(np.asarray(compute.list_value_length(vectors)).tolist())
                    lengths |= set() if matrix is None else {matrix.shape[1]}
                    if len(lengths) != 1 or 0 in lengths:
                        raise unequal_vectors_error(name, lengths)
                    matrix = array_in_file((self.n_rows, lengths.pop())) if matrix is None else matrix
                    numbers = vectors.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
                    matrix[rows][~missing] = numbers.reshape(len(vectors), -1)
        cells = np.empty(self.n_rows, dtype=object)
        if matrix is not None:
            cells[:] = list(matrix)
        cells[is_missing] = None
        return pd.Series(cells, name=name, dtype=object, copy=False)


def array_in_file(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return an array in a temporary file without a name, which disappears with the array; ``np.memmap`` by type."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(prefix="dmlrank-", dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                # A full disk is an error here; later it would end the process.
                os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
            return np.memmap(file, np.float32, "r+" if os.fstat(file.fileno()).st_size else "w+", shape=shape)
    except OSError as error:
        raise StorageError(
            f"{4e-9 * shape[0] * shape[1]:.2g} GB cannot be written to {folder}: {error}; set TMPDIR to another folder"
        ) from error


def is_partitioned(data: object) -> bool:
    """Return whether the data are the path of parquet files, or a Dask DataFrame, whose rows may exceed the memory."""
    return isinstance(data, str | os.PathLike) or _is_dask(data)


def has_several_files(location: str) -> bool:
    """Return whether a location is a directory with parquet files, or a pattern of their names."""
    return len(_matching(location)) > 0 and not os.path.isfile(location)


def release_unused_memory() -> None:
    """Give memory back to the system that Arrow keeps for further columns."""
    arrow_module("a parquet file").default_memory_pool().release_unused()


def _is_dask(data: object) -> bool:
    """Return whether the data are a Dask DataFrame, without importing Dask."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "npartitions")


def _write_partitions(data: Any, names: list[str], folder: Path) -> None:
    """Write columns of a Dask DataFrame, computed one partition at a time, to parquet files."""
    pa = arrow_module("a Dask DataFrame")
    import pyarrow.parquet as pq

    # Without a column, a file would have no rows.
    chosen = data[names or list(data.columns[:1])]
    for number in range(data.npartitions):
        with failing_as(DataError, f"partition {number} of the Dask DataFrame"):
            frame = chosen.partitions[number].compute(scheduler="synchronous").reset_index(drop=True)
        advice = "; each column must hold values of one type: convert it, for example with data[column].astype(str)"
        kinds = pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError
        with failing_as(DataError, f"reading partition {number} of the Dask DataFrame", kinds, advice):
            table = pa.Table.from_pandas(frame, preserve_index=False)
        advice = "; make space, or choose another folder with the environment variable TMPDIR"
        with failing_as(StorageError, f"writing partition {number} of the Dask DataFrame", OSError, advice):
            pq.write_table(table, folder / f"{number:09d}.parquet")


def _paths(location: str) -> list[str]:
    """Return the parquet files at a location, sorted by name."""
    paths = _matching(location)
    is_parquet = location.endswith((".parquet", ".pq")) or glob.has_magic(location) or os.path.isdir(location)
    if not is_parquet:
        raise FrameTypeError(
            f"data is the path {location!r}; of files, only parquet files (*.parquet) are read: pass a frame, such as "
            f"that of pandas.read_csv"
        )
    if not paths:
        raise DataError(
            f"there is no parquet file at {location!r}; allowed: a file, a directory, or a pattern of names"
        )
    return paths


def _matching(location: str) -> list[str]:
    """Return the parquet files of a directory or of a pattern, or a single file, sorted by name."""
    if os.path.isdir(location):
        found = glob.glob("**/*.parquet", root_dir=location, recursive=True)
        # Other programs keep no rows, or unfinished ones, in files and folders that begin with an underscore.
        names = [name for name in found if not any(part.startswith("_") for part in name.split(os.sep))]
        return sorted(os.path.join(location, name) for name in names)
    if os.path.exists(location):
        return [location]
    # A folder in a pattern that has half of a surrogate pair in its name cannot be looked for.
    with suppress(UnicodeEncodeError):
        return sorted(path for path in glob.glob(location, recursive=True) if path.endswith((".parquet", ".pq")))
    return []


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a parquet file; errors of reading it are :class:`DataError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    advice = "; write the file again, or leave it out of the directory"
    with failing_as(DataError, f"reading {path} as parquet", (OSError, pa.ArrowException), advice):
        # Read by plain system calls: mapped pages would count as memory of the process.
        yield pq.ParquetFile(path, memory_map=False, pre_buffer=False)


def column_names(data: Any) -> list[str]:
    """Return the names of the columns of a frame. No row of a DuckDB relation is read."""
    if isinstance(data, DerivedPairs):
        return column_names(data.table)
    holds_rows = isinstance(data, pd.DataFrame) or _is_dask(data) or hasattr(data, "__arrow_c_stream__")
    found: Iterable[object] | None = None
    if is_partitioned(data) and not _is_dask(data):
        found = ParquetFiles.at(data).types
    elif holds_rows or _is_relation(data):
        of_arrow = type(data).__module__.partition(".")[0] == "pyarrow"
        with _querying() if _is_relation(data) else nullcontext():
            found = getattr(data, "column_names" if of_arrow else "columns", None)
    if found is None:
        hint = "; pandas.DataFrame(data) makes one" if isinstance(data, dict | list | np.ndarray) else ""
        hint = "; data.collect() makes one" if hasattr(data, "collect") else hint
        raise FrameTypeError(
            f"data is a {type(data).__module__}.{type(data).__name__}; allowed: a DataFrame of pandas, polars or Dask, "
            f"a pyarrow Table, a DuckDB relation or the path of parquet files{hint}"
        )
    names = pd.Index([str(name) for name in found])
    if not names.is_unique:
        raise _repeated_names_error(names)
    return list(names)


def period_of(data: object) -> tuple[str, ...]:
    """Return the first and the last day in the only column of times of a pandas frame; empty for other data."""
    times = data.select_dtypes(["datetime", "datetimetz"]) if isinstance(data, pd.DataFrame) else pd.DataFrame()
    known = times.iloc[:, 0].dropna() if times.shape[1] == 1 else pd.Series()
    return (str(known.min().date()), str(known.max().date())) if len(known) else ()


def take_columns(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return the named columns as a pandas frame with a fresh index and plain types, rows in the frame's order."""
    if is_partitioned(data):
        with tempfile.TemporaryDirectory(prefix="dmlrank-", ignore_cleanup_errors=True) as folder:
            if _is_dask(data):
                _write_partitions(data, list(names), Path(folder))
            files = ParquetFiles.at(folder if _is_dask(data) else data)
            taken, n_rows = files.columns(names), files.n_rows
    else:
        columns, n_rows = _relation_columns(data, names) if _is_relation(data) else _eager_columns(data, names)
        index, named = pd.RangeIndex(n_rows), zip(names, columns, strict=True)
        taken = {name: plain_column(column.set_axis(index).rename(name)) for name, column in named}
    if n_rows == 0:
        raise DataError("the frame has no rows; a fit needs one row for each vote: check how the frame was filtered")
    # Columns of files that are joined to a block would be in memory twice.
    return pd.DataFrame({n: taken[n] for n in names}, index=pd.RangeIndex(n_rows), copy=not is_partitioned(data))


def require_columns(
    names: Iterable[str], available: Sequence[str], purpose: str, advice: str = "", words: Sequence[str] = ()
) -> None:
    """Raise :class:`ColumnError` for the first name that is no column; the caller may have meant one of ``words``."""
    for name in names:
        if name not in available:
            hint = nearest(name, [*words, *available])
            raise ColumnError(f"{purpose}: there is no column {name!r}{hint} (columns: {listed(available)}){advice}")


def _repeated_names_error(names: pd.Index, what: str = "the frame") -> DataError:
    """Return the error for a frame in which several columns have one name."""
    repeated = listed(names[names.duplicated()].unique())
    return DataError(f"{what} has several columns named {repeated}; rename or drop all but one of them")


def _eager_columns(data: Any, names: Sequence[str]) -> tuple[list[pd.Series], int]:
    """Return columns of a frame that holds its rows as pandas Series, and the number of rows."""
    all_names, frame = column_names(data), data.table if isinstance(data, DerivedPairs) else data
    if isinstance(frame, pd.DataFrame):
        return [frame.iloc[:, all_names.index(name)] for name in names], len(frame)
    pa, chosen = arrow_module("a frame that is not of pandas"), frame.select(list(names))
    if not hasattr(chosen, "to_arrow"):
        return [arrow_to_series(column) for column in pa.table(chosen).columns], len(frame)
    # Categories of polars have no order, but those of an Enum.
    columns = [
        column.cast(column.type.value_type)
        if pa.types.is_dictionary(column.type) and not column.type.ordered
        else column
        for column in chosen.to_arrow().columns
    ]
    return [arrow_to_series(column) for column in columns], len(frame)


def _is_relation(data: object) -> bool:
    """Return whether a caller's frame is a DuckDB relation, which is a query and holds no rows."""
    kind = type(data)
    return kind.__name__ == "DuckDBPyRelation" and kind.__module__.lstrip("_").startswith("duckdb")


def _relation_columns(relation: Any, names: Sequence[str]) -> tuple[list[pd.Series], int]:
    """Return columns of a DuckDB relation, read by one query, in the order of its rows, and the number of rows."""
    arrow_module("a DuckDB relation")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with _querying():
        # The setting is read by a query on an empty selection of rows, so that DuckDB computes no row of the relation.
        setting = relation.limit(0).aggregate("count(*), current_setting('preserve_insertion_order')").fetchall()
        if not setting[0][1]:
            raise DataError("the DuckDB connection has preserve_insertion_order = false; set it to true")
        if not names:
            return [], int(relation.aggregate("count(*)").fetchall()[0][0])
        table = relation.project(quoted).to_arrow_table()
    return [arrow_to_series(table.column(place)) for place in range(len(names))], table.num_rows


def _querying() -> AbstractContextManager[None]:
    """Raise the errors of DuckDB as :class:`DataError`; other errors pass as they are."""
    import duckdb

    return failing_as(DataError, "the query of the DuckDB relation", duckdb.Error)


def count_copies(frame: object, outcomes: Sequence[str]) -> int:
    """Return the number of rows that equal an earlier row in every column.

    Columns of lists and other values without a hash are not compared. Where less than half of all rows are different,
    or one repeated row in five has another outcome, the columns do not tell votes apart, and equal rows are no copies.
    """
    frame = frame if isinstance(frame, pd.DataFrame) else take_columns(frame, column_names(frame))
    rows, number, n_repeated = np.arange(len(frame)), np.zeros(len(frame), dtype=np.uint64), 0
    for name in sorted(frame, key=lambda name: str(name) in outcomes):
        if [str(name)] == list(outcomes[:1]):
            n_repeated = len(rows) - len(np.unique(number))
        with suppress(TypeError):
            codes = pd.util.hash_pandas_object(frame[name].iloc[rows], index=False).to_numpy(dtype=np.uint64)
            number *= np.uint64(1_000_003)
            number += codes
        # Rows that differ from all others so far need no further look.
        is_repeated = pd.Series(number).duplicated(keep=False).to_numpy()
        rows, number = rows[is_repeated], number[is_repeated]
    n_copies = len(rows) - len(np.unique(number))
    return n_copies if 2 * n_copies < len(frame) and n_copies > 0.8 * n_repeated else 0

"""Files that the command line reads: csv, JSON, parquet and Arrow IPC, roles of columns in csv, benchmark scores."""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from ..data.derived_pairs import DerivedPairs
from ..data.formula.parse import names_in, one_sided, parse_formula
from ..data.frames import column_names, has_several_files, require_columns, take_columns
from ..data.outcomes import is_category
from ..data.pairs_from_scores import pairs_from_scores
from ..data.plain_columns import arrow_module, name_of
from ..exceptions import DataError, OptionError, listed, nearest
from ..tables.display_text import as_written

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
# A number as csv files have it. One that begins with a zero, such as 007, is a name.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d+")
# Words that stand for a missing number in a column of numbers. In a column of text they are text.
_NO_NUMBER = frozenset(
    ("NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan")
)
_NAN = frozenset(("NaN", "nan"))
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_INT64 = np.iinfo(np.int64)
# Names of the two columns that a table with a column for every model gets when it becomes one with a row per score.
_MODEL, _SCORE = "model", "score"


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


# --- roles of columns: names, labels or numbers, in files whose cells have no type ----------------------------------


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Roles of a file's columns; a column without a role holds numbers where every cell is a number, else text.

    names: Columns of names and identifiers: models, prompts, clusters.
    labels: Columns of labels. They hold numbers where every cell is a number and no cell is the name of a model, else
        text.
    models: Columns of names that are models.
    features: Columns that features use.
    is_of_verdicts: Whether the file holds verdicts of a judge. Then columns without a role hold labels, too, unless
        their names say that they hold probabilities.
    """

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    is_of_verdicts: bool = False

    @classmethod
    def of_fit(
        cls,
        formula: str,
        *,
        context: Sequence[str] = (),
        groups: Sequence[str] = (),
        judge: Sequence[str] = (),
        propensity: str | None = None,
    ) -> ColumnRoles:
        """Return the roles that follow from a formula and the options of a fit."""
        parsed = parse_formula(formula)
        models = (parsed.first, parsed.second)
        verdicts = () if judge and all(is_category(name) for name in judge) else tuple(judge)
        further = one_sided(propensity)
        features = names_in(parsed.features).values + (names_in(further).values if further else ())
        labels = verdicts if parsed.probabilities else (parsed.outcome, *verdicts)
        return cls((*models, *context, *groups), labels, models, features)

    @property
    def for_verdict_file(self) -> ColumnRoles:
        """The roles of columns in a further file, with a judge's verdicts on the same prompts and models."""
        return ColumnRoles(self.names, self.labels[:1], self.models, is_of_verdicts=True)

    def typed(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of a file with the types of their roles."""
        return pd.DataFrame({name: self._typed(cells, name) for name in cells.columns}, index=cells.index)

    def _typed(self, cells: pd.DataFrame, name: str) -> pd.Series:
        """Return one column with the type of its role."""
        column = cells[name]
        if name in self.names:
            return _named_feature(column) if name in self.features else _as_text(column)
        if name in self.labels or (self.is_of_verdicts and not is_category(name)):
            return _labels_of(column, [cells[model] for model in self.models if model in cells.columns])
        return numbers_or_text(column, _NO_NUMBER)


def numbers_or_text(column: pd.Series, missing: Iterable[str] = _NO_NUMBER) -> pd.Series:
    """Convert a column of strings to whole numbers, floats or truth values where every cell is one of these.

    Floats are those that Python reads, to the last bit. A whole number beyond 64 bits, or that begins with a zero, is
    text, and so is the whole column.
    """
    # Each different word is converted once. Missing cells have the code -1, which selects the last entry of the arrays.
    codes, levels = pd.factorize(column)
    words = [str(level).strip() for level in levels]
    absent = np.array([word in missing or not word for word in words] + [True])
    present = [word for word, is_absent in zip(words, absent, strict=False) if not is_absent]
    is_missing = absent[codes]
    if present and all(word in _TRUTH for word in present):
        values: list[object] = [None if is_absent else _TRUTH[w] for w, is_absent in zip(words, absent, strict=False)]
        truth = np.array([*values, None], dtype=object)[codes]
        return pd.Series(truth if is_missing.any() else truth.astype(bool), index=column.index, name=column.name)
    if not all(_NUMBER.fullmatch(word) for word in present):
        return _as_text(column)
    if present and all(_WHOLE.fullmatch(word) for word in present):
        integers = [0 if is_absent else int(w) for w, is_absent in zip(words, absent, strict=False)]
        if min(integers) < _INT64.min or max(integers) > _INT64.max:
            return _as_text(column)
        if not is_missing.any():
            return pd.Series(np.array([*integers, 0])[codes], index=column.index, name=column.name)
    floats = [np.nan if is_absent else float(w) for w, is_absent in zip(words, absent, strict=False)]
    return pd.Series(np.array([*floats, np.nan])[codes], index=column.index, name=column.name)


def _labels_of(column: pd.Series, models: Sequence[pd.Series]) -> pd.Series:
    """Return labels as numbers where every label is a number, else as text."""
    numbers = numbers_or_text(column, _NAN)
    if numbers.dtype.kind not in "iuf":
        return numbers
    named = set().union(*(names.dropna().unique() for names in models))
    words = column.dropna().unique()
    return _as_text(column) if any(word in named and float(word) not in (0, 1) for word in words) else numbers


def _named_feature(column: pd.Series) -> pd.Series:
    """Return a column of names that is a feature, too: as numbers, if no two names are the same number."""
    numbers = numbers_or_text(column)
    if numbers.dtype.kind in "iuf" and numbers.nunique() < column.nunique():
        pairs = pd.DataFrame({"word": column, "number": numbers}).drop_duplicates().dropna()
        name, other, *_ = pairs.loc[pairs["number"].duplicated(keep=False)].sort_values("number")["word"]
        raise DataError(
            f"column {column.name!r} holds names and is a feature, too: {name!r} and {other!r} are different names but "
            f"the same number; put the names into a column of their own"
        )
    return numbers


def _as_text(column: pd.Series) -> pd.Series:
    """Return the cells as Python strings, None where they are missing."""
    values = column.astype(object)
    return values.where(values.notna(), None)


def whole_numbers_as_text(column: pd.Series) -> pd.Series:
    """Return a column of whole numbers as text, as csv files have it, and any other column unchanged."""
    if column.dtype.kind in "iu" or pd.api.types.infer_dtype(column, skipna=True) == "integer":
        return column.astype(object).map(name_of, na_action="ignore").astype(object)
    return column


# --- benchmark scores -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The columns and rules of a file of benchmark scores, as the options of the command line give them.

    prompts: Columns that identify a prompt.
    model, score: Columns of the model and of the score; empty for a file with a column for every model.
    others: Columns that the formula and options name. In a file with a column for every model, these columns are not
        read as models.
    margin: Two scores that differ by at most this number tie.
    lower_is_better: Whether the smaller score wins.
    """

    prompts: tuple[str, ...]
    model: str
    score: str
    others: tuple[str, ...]
    margin: float
    lower_is_better: bool

    @classmethod
    def of(cls, arguments: argparse.Namespace, formula: str, others: Collection[str]) -> ScoreTable | None:
        """Read the options about a file of scores; return None for a file of votes."""
        columns = getattr(arguments, "scores", None)
        if not columns:
            unused = [name for name in ("margin", "lower_is_better") if getattr(arguments, name, None) is not None]
            if unused:
                raise OptionError(
                    f"--{unused[0].replace('_', '-')} is for a file of scores, but --scores is not given; name the "
                    f"columns of the prompt, the model and the score with --scores, or leave the option out"
                )
            return None
        if len(columns) == 2:
            raise OptionError(
                f"--scores has {' '.join(columns)}; give the columns of the prompt, the model and the score, or the "
                f"column of the prompt alone where every model has a column of its own"
            )
        prompts, model, score = (columns, "", "") if len(columns) == 1 else (columns[:-2], *columns[-2:])
        further = one_sided(getattr(arguments, "propensity", None))
        formulas = [parse_formula(formula).features, *([further] if further else [])]
        features = [name for terms in formulas for name in names_in(terms).values]
        return cls(
            tuple(prompts),
            model,
            score,
            tuple(dict.fromkeys([*features, *others])),
            0.0 if arguments.margin is None else arguments.margin,
            bool(arguments.lower_is_better),
        )

    @property
    def roles(self) -> ColumnRoles:
        """Roles of the columns of a file without types."""
        return ColumnRoles((*self.prompts, *([self.model] if self.model else [])), features=self.others)

    def pairs(self, frame: Frame) -> DerivedPairs:
        """Return the comparisons of models that follow from the scores of a file."""
        table: object = frame
        model, score = self.model, self.score
        if not model:
            model, score = self._free_name(frame, _MODEL), self._free_name(frame, _SCORE)
            table = self._one_row_per_score(frame, model, score)
        return pairs_from_scores(
            table,
            prompt=self.prompts,
            model=model,
            score=score,
            margin=self.margin,
            lower_is_better=self.lower_is_better,
        )

    def _free_name(self, frame: Frame, name: str) -> str:
        """Return the name, with underscores at its end as long as a column of the frame has the same name."""
        taken = set(column_names(frame))
        while name in taken:
            name += "_"
        return name

    def _one_row_per_score(self, frame: Frame, model: str, score: str) -> pd.DataFrame:
        """Turn a table with a column for every model into one with a row per prompt and model."""
        available = column_names(frame)
        require_columns(self.prompts, available, "--scores")
        table = take_columns(frame, available)
        kept = [name for name in available if name in self.prompts or name in self.others]
        models = [name for name in available if name not in kept]
        no_scores = [name for name in models if table[name].dtype.kind not in "iuf" and not _has_numbers(table[name])]
        if no_scores:
            raise DataError(
                f"--scores {' '.join(self.prompts)} says that every other column is a model with its scores, but "
                f"{listed(no_scores)} {'holds' if len(no_scores) == 1 else 'hold'} something else; leave out columns "
                f"that are no models, or name the columns of the prompt, the model and the score, where a row is one "
                f"score"
            )
        if len(models) < 2:
            raise DataError(
                f"--scores {' '.join(self.prompts)} says that every other column is a model with its scores, and there "
                f"are {len(models)}: {listed(models) or 'none'}; name the columns of the prompt, the model and the "
                f"score, where a row is one score"
            )
        repeated = table.duplicated(list(self.prompts))
        if repeated.any():
            row = int(np.flatnonzero(repeated)[0])
            name = ", ".join(str(table[prompt].iloc[row]) for prompt in self.prompts)
            raise DataError(f"several rows have the prompt {name!r}; a table with a column per model has one row each")
        long = table.melt(kept, models, var_name=model, value_name=score)
        return long.astype({score: float})


def _has_numbers(column: pd.Series) -> bool:
    """Return whether all present cells of a column of objects are numbers."""
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in column.dropna()
        if value is not None
    )

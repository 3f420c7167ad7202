"""Files that the command line reads: csv, JSON, parquet and Arrow IPC, roles of columns in csv, benchmark scores."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from ..data.arrays import MISSING_WORDS, NUMBER, arrow_module, name_of, number_in_cell
from ..data.formula.parse import names_in, one_sided, parse_formula
from ..data.frames import column_names, has_several_files, require_columns, take_columns
from ..data.outcomes import category_of_column
from ..datasets.log_files import expanded, read_json
from ..exceptions import DataError, OptionError, listed, nearest, shown

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
_COMPRESSED: Mapping[str, Callable[[IO[bytes]], Any]] = {".gz": gzip.open, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
# A compressed file may expand to so many bytes, and a larger one to so many times its size.
_LARGEST_EXPANDED = 2**28
# The first bytes of compressed files, and of parquet and Arrow files.
_MARKS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz"}
_ARROW_MARKS = {b"PAR1": "parquet", b"ARROW1": "Arrow IPC"}
_WHOLE = re.compile(r"[+-]?\d+")
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_INT64 = np.iinfo(np.int64)


def read_frames(paths: Mapping[str, Sequence[str]], roles: Mapping[str, ColumnRoles]) -> dict[str, Frame]:
    """Read tables about the same models and prompts, each from one or several files, with the roles of its columns."""
    if [path for files in paths.values() for path in files].count(STANDARD_INPUT) > 1:
        raise OptionError("'-', standard input, stands for one file, but was given several times; name the other files")
    read = {key: [_read(path, roles[key]) for path in files] for key, files in paths.items()}
    # Cells of csv have no type: whole numbers that are names in the other files become text, so that names agree.
    is_mixed = len({has_types for parts in read.values() for _, has_types in parts}) > 1
    frames: dict[str, Frame] = {}
    for key, parts in read.items():
        # The type of a column of csv follows from all of its cells.
        is_text = not any(has_types for _, has_types in parts)
        typed = [frame if has_types or is_text else roles[key].typed(frame) for frame, has_types in parts]
        named = [_with_text_names(frame, roles[key].names) for frame in typed] if is_mixed and not is_text else typed
        table = _one_table(named, paths[key])
        frames[key] = roles[key].typed(table) if is_text else table
    return frames


def _one_table(frames: Sequence[Frame], paths: Sequence[str]) -> Frame:
    """Return the rows of several files, whose columns must be the same, as one frame."""
    if len(frames) == 1:
        return frames[0]
    tables = []
    for frame, path in zip(frames, paths, strict=True):
        if isinstance(frame, str):
            raise DataError(f"{path!r} is read in parts; give it alone, or all parquet files as one pattern or folder")
        tables.append(take_columns(frame, column_names(frame)))
        if differing := sorted(set(tables[0].columns) ^ set(tables[-1].columns)):
            raise DataError(f"{paths[0]!r} and {path!r} are one table, but their columns differ in {listed(differing)}")
    return pd.concat(tables, ignore_index=True)


def read_propensities(path: str) -> pd.DataFrame:
    """Read the propensities of all prompts and models from a plan for scores that ``design --out`` has written."""
    content: Any = read_json(Path(path)) if Path(path).suffix.lower() == ".json" else {}
    found = content.get("propensities") if isinstance(content, dict) else None
    if found is None:
        raise DataError(
            f"propensity='{path}' has no propensities of all prompts and models, as a plan for scores in JSON has: "
            f"make the plan with --out plan.json"
        )
    prompts = [tuple(prompt) if isinstance(prompt, list) else prompt for prompt in found["prompts"]]
    table = pd.DataFrame(found["table"], index=pd.Index(prompts), columns=found["models"])
    # A row of the plan has the columns of the prompt first, and that of the model before the propensity.
    rows = [list(task.values())[: list(task).index("propensity")] for task in content.get("tasks", ())]
    table.attrs["planned"] = [tuple(map(name_of, (*row[: table.index.nlevels], row[-1]))) for row in rows]
    return table


def refuse_lost_runs(propensity: object, frame: Frame, context: Sequence[str], formula: str) -> None:
    """Refuse a table without the score of a run that the file of a plan has, such as of one that failed."""
    planned: list[tuple[str, ...]] = getattr(propensity, "attrs", {}).get("planned", [])
    parts = parse_formula(formula)
    names = [*context, parts.first, parts.outcome]
    if not planned or len(planned[0]) != len(names) - 1 or not set(names) <= set(column_names(frame)):
        return
    rows, of_plan = take_columns(frame, names).dropna(subset=names[:-1]), pd.DataFrame(planned, columns=names[:-1])
    table = pd.DataFrame({name: rows[name].map(name_of) for name in names[:-1]})
    scored = table[rows[parts.outcome].notna()].drop_duplicates()
    is_lost = (of_plan.merge(scored, how="left", indicator="found")["found"] == "left_only").to_numpy()
    # The fit says what to do with new prompts in the places of the plan's.
    if is_lost.any() and len(table[names[:-2]].drop_duplicates().merge(of_plan)):
        *prompt, model = of_plan[is_lost].iloc[0]
        raise DataError(
            f"the plan of propensity= has {len(planned):,} runs, and {is_lost.sum():,} of them have no score in the "
            f"table, first prompt {', '.join(map(repr, prompt))} and model {model!r}; write the score of a failed run, "
            f"such as 0, and make the runs that were not made"
        )


def known_file(path: str) -> bool:
    """Return whether a word is the name of a file that can be read, by its ending, or standard input."""
    return path == STANDARD_INPUT or _endings(path)[0] in FORMATS


def _read(path: str, roles: ColumnRoles) -> tuple[Frame, bool]:
    """Return the frame, and whether the cells of the file have types (those of csv are texts)."""
    kind, compression = _endings(path)
    name = "standard input" if path == STANDARD_INPUT else repr(path)
    if path != STANDARD_INPUT:
        if has_several_files(path):
            # Errors of the files are raised here, before the files are read.
            column_names(path)
            return path, True
        if Path(path).is_dir():
            raise DataError(f"{path!r} is a folder without parquet files; give a file, or a folder with some")
        if kind not in FORMATS:
            raise DataError(f"{path!r} has an unknown ending; known: {', '.join(FORMATS)}{nearest(kind, FORMATS)}")
        if not Path(path).exists():
            raise DataError(f"there is no file {path!r}")
    file_format = FORMATS.get(kind, "a file")
    try:
        content = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
        if path == STANDARD_INPUT:
            compression = next((ending for mark, ending in _MARKS.items() if content.startswith(mark)), "")
        if compression:
            with _COMPRESSED[compression](io.BytesIO(content)) as packed:
                content = expanded(packed, len(content), path, _LARGEST_EXPANDED)
        if path == STANDARD_INPUT:
            file_format = _format_of(content)
        return _parsed(content, file_format, roles), not file_format.startswith("csv")
    except (DataError, ImportError):
        raise
    except (ValueError, OSError, EOFError, RecursionError, NotImplementedError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name} cannot be read as {file_format}: {error}") from None


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
        return _cells(content, "tabs" in file_format, set(roles.names) - set(roles.features))
    if file_format == "JSON":
        return _records(_decoded(content)[0])
    arrow_module(f"{file_format} files")
    from pyarrow import BufferReader, feather, parquet

    file = BufferReader(content)
    return parquet.read_table(file) if file_format == "parquet" else feather.read_table(file)


def _cells(content: bytes, has_tabs: bool, names: Collection[str]) -> pd.DataFrame:
    """Return the cells of a csv file as text, missing where empty; the first row names the columns.

    The separator is the one that the header has, and that the next rows have as often; a file of spreadsheets may name
    it in a first line ``sep=;``. Beside semicolons or tabs, numbers may have a decimal comma, and ``names`` are none.
    """
    text, encoding = _decoded(content)
    told = re.match(r"sep=(.)\r?\n", text)
    text = text[told.end() :] if told else text
    if not text.strip():
        raise ValueError("it is empty")
    first_line = text.lstrip().split("\n", 1)[0]
    separator = told[1] if told else "\t" if has_tabs and "\t" in first_line else _separator(text)
    as_text: dict[str, Any] = {"header": None, "dtype": str, "keep_default_na": False, "na_values": [""]}
    table = pd.read_csv(io.StringIO(text), sep=separator, **as_text)
    head = [f"Unnamed: {place}" if pd.isna(name) else name for place, name in enumerate(table.iloc[0])]
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise ValueError(f"there are several columns named {twice[0]!r}; every column needs a name of its own")
    table = table.iloc[1:].set_axis(head, axis=1).reset_index(drop=True)
    numbers = [] if separator == "," else [name for name in head if name not in names]
    with_commas = [name for name in numbers if _has_decimal_commas(table[name])]
    table = table.assign(**{name: table[name].str.replace(",", ".") for name in with_commas})
    seen = [f"the separator {separator!r}"] * (separator != "," and not has_tabs)
    seen += [f"decimal commas in {listed(with_commas)}"] * bool(with_commas) + [encoding] * (encoding != "utf-8")
    if seen:
        print(f"dmlrank: the csv file was read with {', '.join(seen)}", file=sys.stderr)
    return table


def _decoded(content: bytes) -> tuple[str, str]:
    """Return the text of a file and its encoding: UTF-8, UTF-16 with its mark, or the one of older spreadsheets."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16"), "utf-16"
    if b"\0" in content[:1000]:
        raise ValueError("it has NUL characters, as UTF-16 without a mark has; save it as csv UTF-8")
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding).removeprefix("\ufeff"), encoding
    raise ValueError("its encoding is neither UTF-8 nor Windows' cp1252; save it as csv UTF-8")


def _separator(text: str) -> str:
    """Return the separator of a csv file; raise where the header leaves it open."""
    found = {}
    for mark in ",;\t|":
        with suppress(csv.Error):
            rows = list(islice(filter(None, csv.reader(io.StringIO(text), delimiter=mark)), 6))
            found[mark] = len(rows[0]) if all(len(row) == len(rows[0]) for row in rows) else 1
    likely = [mark for mark, n in found.items() if n > 1]
    if len(likely) > 1:
        seen = " or ".join(f"{mark!r} ({found[mark]} columns)" for mark in likely)
        raise ValueError(f"its separator may be {seen}; name the separator in a first line such as 'sep=;'")
    return likely[0] if likely else ","


def _has_decimal_commas(column: pd.Series) -> bool:
    """Return whether a column of strings holds numbers with decimal commas, and nothing else."""
    words = [word.strip() for word in column.dropna().unique()]
    known = [word for word in words if word.casefold() not in MISSING_WORDS]
    with_comma = [word for word in known if "," in word]
    if not with_comma or not all(NUMBER.fullmatch(word.replace(",", ".", 1)) for word in known):
        return False
    if all(re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", word) for word in with_comma):
        raise ValueError(
            f"{with_comma[0]!r} in column {column.name!r} may have a decimal comma, or thousands; write it with a point"
        )
    return True


def _records(text: str) -> pd.DataFrame:
    """Return the objects of a JSON array, or of lines of JSON, as rows; values keep their types."""
    is_array = text.lstrip().startswith("[")
    records: list[Any] = json.loads(text) if is_array else []
    # Not splitlines(): a JSON string may hold a line separator such as U+2028 as it is.
    for number, line in enumerate([] if is_array else text.split("\n"), start=1):
        try:
            records += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    not_an_object = next((record for record in records if not isinstance(record, dict)), None)
    if not records or not_an_object is not None:
        content = "nothing" if not records else f"a {type(not_an_object).__name__}"
        raise ValueError(f"it holds {content}; it must hold objects, one per row, in an array or one per line")
    if len(records) == 1 and all(isinstance(entry, dict) for entry in records[0].values()):
        raise ValueError("it holds one object of columns; it must hold one object per row (pandas: orient='records')")
    return pd.DataFrame(records, dtype=object)


def _with_text_names(frame: Frame, names: Sequence[str]) -> Frame:
    """Return a frame in which names that are whole numbers are text, as they are in csv."""
    if isinstance(frame, str):
        raise DataError(f"{frame!r} is read in parts, and another file is csv; write it as parquet")
    table = take_columns(frame, column_names(frame))
    whole = {
        str(name): column.map(name_of, na_action="ignore").astype(object)
        for name, column in table.items()
        if name in names and pd.api.types.infer_dtype(column, skipna=True) == "integer"
    }
    return table.assign(**whole)


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
        context: Sequence[str] = (),
        groups: Sequence[str] = (),
        judge: Sequence[str] = (),
        propensity: str | None = None,
    ) -> ColumnRoles:
        """Return the roles that follow from a formula and the options of a fit."""
        parsed = parse_formula(formula)
        models = (parsed.first, parsed.second)
        verdicts = () if judge and all(category_of_column(name) for name in judge) else tuple(judge)
        features = names_in(parsed.features).values + names_in(one_sided(propensity) or "1").values
        labels = verdicts if parsed.probabilities else (parsed.outcome, *verdicts)
        return cls((*models, *context, *groups), labels, models, features)

    def typed(self, cells: Frame) -> pd.DataFrame:
        """Return the columns of a csv file, whose cells are texts, with the types of their roles."""
        assert isinstance(cells, pd.DataFrame)
        columns = {}
        for name in cells.columns:
            column = cells[name]
            if name in self.names:
                columns[name] = _named_feature(column) if name in self.features else _as_text(column)
            elif name in self.labels or (self.is_of_verdicts and not category_of_column(name)):
                # Labels are numbers where every label is one and none names a model.
                sides = [cells[model].dropna() for model in self.models if model in cells.columns]
                models, numbers = set().union(*(side.unique() for side in sides)), numbers_or_text(column)
                is_name = numbers.dtype.kind in "iuf" and any(
                    word in models and float(word) not in (0, 1) for word in column.dropna().unique()
                )
                columns[name] = _as_text(column) if is_name else numbers
            else:
                columns[name] = numbers_or_text(column)
        return pd.DataFrame(columns, index=cells.index)


def numbers_or_text(column: pd.Series) -> pd.Series:
    """Convert strings to whole numbers, floats or truth values where every cell is one of these, or is missing.

    In a column of text, words for a missing number are text. Floats are those that Python reads, to the last bit. A
    whole number beyond 64 bits, or that begins with a zero, is text, and so is the whole column.
    """
    # Each different word is converted once. Missing cells have the code -1, which selects the last entry of the table.
    codes, levels = pd.factorize(column)
    words = [str(level).strip() for level in levels]
    present = {word for word in words if word.casefold() not in MISSING_WORDS}
    is_truth = bool(present) and present <= _TRUTH.keys()
    if not is_truth and not all(NUMBER.fullmatch(word) for word in present):
        return _as_text(column)
    is_whole = not is_truth and bool(present) and all(_WHOLE.fullmatch(word) for word in present)
    if is_whole and not all(_INT64.min <= int(word) <= _INT64.max for word in present):
        return _as_text(column)
    convert: Callable[[str], object] = _TRUTH.__getitem__ if is_truth else int if is_whole else float
    table = np.array([*(convert(word) if word in present else None for word in words), None], dtype=object)
    if present.issuperset(words) and (codes >= 0).all():
        values = table[:-1].astype(bool if is_truth else np.int64 if is_whole else np.float64)[codes]
    else:
        values = (table if is_truth else table.astype(np.float64))[codes]
    return pd.Series(values, index=column.index, name=column.name)


def _named_feature(column: pd.Series) -> pd.Series:
    """Return a column of names that is a feature, too: as numbers, if no two names are the same number."""
    numbers = numbers_or_text(column)
    if numbers.dtype.kind in "iuf" and numbers.nunique() < column.nunique():
        pairs = pd.DataFrame({"word": column, "number": numbers}).drop_duplicates().dropna()
        name, other, *_ = pairs.loc[pairs["number"].duplicated(keep=False)].sort_values("number")["word"]
        raise DataError(
            f"column {column.name!r} holds names and is a feature, too, but {name!r} and {other!r} are the same "
            f"number; put the names into a column of their own"
        )
    return numbers


def _as_text(column: pd.Series) -> pd.Series:
    """Return the cells as Python strings, None where they are missing."""
    values = column.astype(object)
    return values.where(values.notna(), None)


# --- benchmark scores -----------------------------------------------------------------------------------------------


def _no_model(column: pd.Series, name: str) -> str:
    """Return why a column of a wide table holds no scores of a model; empty where most of its cells are numbers."""
    values, others = [], []
    for cell in column:
        try:
            values.append(number_in_cell(cell))
        except ValueError as error:
            others.append(str(error))
    if len(others) > len(values) or any(isinstance(cell, bool) for cell in column):
        return f"it holds {shown(others[0], 40)}" if others else "it holds true and false"
    if name.startswith("Unnamed: ") or not name.strip():
        return "it has no name"
    if len(values) > 2 and (np.diff(values) == 1).all():
        return "it counts the rows"
    # Of a model that solves all, or none, the scores are 1, or 0.
    is_constant = len(values) > 2 and len(set(values)) == 1 and values[0] not in (0, 1)
    return "it is the same in every row" if is_constant else ""


def one_row_per_score(
    frame: Frame, prompt: str, others: Collection[str], named: Sequence[str]
) -> tuple[pd.DataFrame, str, str, str]:
    """Turn a table with a column for every model, or those ``named``, into a row per score; return three columns."""
    available = column_names(frame)
    require_columns([prompt, *named], available, "--scores")
    table = take_columns(frame, available)
    kept = [name for name in available if name == prompt or name in others or (named and name not in named)]
    said = f"--scores {prompt} says that every other column is a model with its scores"
    advice = "name the columns of the prompt, the model and the score, where a row is one score"
    models, left_out = [], {}
    for name in available:
        if name in kept:
            continue
        if not named and (why := _no_model(table[name], name)):
            left_out[name] = why
        else:
            models.append(name)
    if left_out:
        reasons = ", ".join(f"{name!r} ({why})" for name, why in left_out.items())
        print(f"dmlrank: columns that are no models are left out: {reasons}", file=sys.stderr)
    print(f"dmlrank: {len(models)} models were read: {listed(models, 20)}", file=sys.stderr)
    if len(models) < 2:
        raise DataError(f"{said}, and there are {len(models)}: {listed(models) or 'none'}; {advice}")
    if sorted(map(name_of, table[prompt])) == sorted(models):
        raise DataError(
            f"{said}, and the rows are these models, too, as in a table of wins; give a row per pair with its wins, as "
            f"in 'wins_a + wins_b ~ 1 | model_a + model_b'"
        )
    repeated = table.duplicated([prompt])
    if repeated.any():
        name = str(table.loc[repeated, prompt].iloc[0])
        raise DataError(f"several rows have the prompt {name!r}; a table with a column per model has one row each")
    free = ((f"{name}{'_' * n}" for n in range(99)) for name in ("model", "score"))
    model, score = (next(name for name in names if name not in available) for names in free)
    return table.melt(kept, models, var_name=model, value_name=score), prompt, model, score

"""Logs of evaluation harnesses as tables of scores or votes: one reader for each format, and one for all of them."""

from __future__ import annotations

import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..exceptions import DataError, OptionError, listed, nearest
from .log_files import Record, ending, log_files, parsed, read_json, read_lines, records_of, zip_member

LogPath: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
_SCORE_COLUMNS = ("prompt", "model", "score", "run", "task")
_VOTE_COLUMNS = ("prompt", "model_a", "model_b", "winner", "judge", "task")
# inspect_ai's grades, and words for right and wrong.
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
# Verdicts with A first; Arena-Hard also writes B>A as A<B.
_VERDICTS = {
    **dict.fromkeys(("A>>B", "A>B", "A++", "A+"), "model_a"),
    **dict.fromkeys(("B>>A", "B>A", "A<B", "A<<B", "B++", "B+"), "model_b"),
    **dict.fromkeys(("A=B", "B=A"), "tie"),
}
_SWAPPED = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
# Keys of a line of lm-evaluation-harness that are no metrics.
_NO_METRIC = frozenset(
    [
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    ]
)


class LogReport(dict[str, Any]):
    """What a log holds and what was not used, as plain values by name; its text says the same in lines.

    Keys: ``kind``, ``files``, ``models``, ``prompts``, ``runs``, ``tasks``, ``rows``, ``missing`` (scores or votes that
    are not there), ``errors`` (how often each error occurs) and ``notes`` (sentences on what was not used, and why).
    """

    def __str__(self) -> str:
        counts = (
            f"{self['kind']}: {self['rows']:,} rows of {self['prompts']:,} prompts, {len(self['models'])} models "
            f"({listed(self['models'])}), {len(self['tasks'])} tasks ({listed(self['tasks'])}), runs: {self['runs']}, "
            f"missing: {self['missing']:,}, files: {self['files']}"
        )
        errors = [f"{count:,} x {error}" for error, count in self["errors"].items()]
        return "\n".join([counts, *errors, *self["notes"]])


class _Table:
    """Rows that readers collect, with notes on what was not used."""

    def __init__(self, kind: str, files: Sequence[Path]) -> None:
        self.kind, self.files = kind, files
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return the rows as a frame with its report in ``attrs``."""
        if not self.rows:
            raise DataError(
                f"{listed(str(file) for file in self.files)}: no sample was found, read as {self.kind!r}; pass another "
                f"kind=, one of {listed(READERS)}"
            )
        table = pd.DataFrame(self.rows)
        first = [name for name in columns if name in table]
        table = table[first + [name for name in table if name not in first]]
        value = "score" if "score" in first else "winner"
        named = [name for name in ("model", "model_a", "model_b") if name in first]
        errors: Iterable[object] = table["error"].dropna() if "error" in table else ()
        table.attrs["report"] = LogReport(
            kind=self.kind,
            files=len(self.files),
            models=sorted(set(table[named].to_numpy().astype(str).ravel().tolist())),
            prompts=int(table["prompt"].nunique()),
            runs=int(table["run"].nunique()) if "run" in first else 1,
            tasks=sorted(map(str, table["task"].unique())),
            rows=len(table),
            missing=int(table[value].isna().sum()),
            errors=dict(Counter(str(error)[:200] for error in errors)),
            notes=list(dict.fromkeys(self.notes)),
        )
        return table


def read_log(
    path: LogPath,
    kind: str | None = None,
    metric: str | None = None,
    filter: str | None = None,
    scorer: str | None = None,
) -> pd.DataFrame:
    """Read what an evaluation harness has written, as a table of scores or of votes.

    Nothing is guessed: where a log has several metrics, filters or scorers, the error lists them. A score that is not
    there is missing, never zero.

    Parameters
    ----------
    path : str, path or list of them
        A file, a folder with many runs, or a pattern such as ``"logs/*.eval"``. Files may end with ``.gz`` or ``.zst``
        (extra ``logs``).
    kind : str, optional
        ``"inspect"`` (inspect_ai, ``.eval`` and ``.json``), ``"lm_eval"`` (lm-evaluation-harness with
        ``--log_samples``), ``"alpaca_eval"``, ``"arena_hard"``, ``"mt_bench_pair"``, ``"mt_bench_single"``,
        ``"wildbench"``, ``"every_eval_ever"`` or ``"promptfoo"``; by default it is recognised.
    metric : str, optional
        The metric of lm-evaluation-harness, the score of promptfoo's ``namedScores``, or the evaluation of Every Eval
        Ever, where there are several.
    filter : str, optional
        The filter of lm-evaluation-harness, where there are several.
    scorer : str, optional
        The scorer of inspect_ai, where there are several; ``"name.key"`` for a scorer that gives several values.

    Returns
    -------
    pandas.DataFrame
        Scores have the columns ``prompt``, ``model``, ``score``, ``run`` and ``task``, votes ``prompt``, ``model_a``,
        ``model_b``, ``winner`` (a label, or the share of a win for ``model_a``), ``judge`` and ``task``; then columns
        of the log's metadata, and ``error`` where a score is missing. ``attrs["report"]`` is a dictionary of counts,
        errors and notes, whose text says the same in lines. A table of votes fits as it is: ``dml_rank("winner ~ 1 |
        model_a + model_b", table, context="prompt")``.

    Raises
    ------
    DataError
        If a file cannot be read, was cancelled, holds a score that is no number, or if files contradict each other.
    OptionError
        If several metrics, filters or scorers are there and none is named, or if a name is unknown.
    MissingExtraError
        If a file is compressed by zstandard and the package for it is not installed.

    Examples
    --------
    >>> import json, tempfile
    >>> header = {"status": "success", "eval": {"task": "sums", "model": "acme/m7b"}}
    >>> samples = [{"id": i, "epoch": 1, "scores": {"match": {"value": v}}} for i, v in enumerate("CIC")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "log.json").write_text(json.dumps(header | {"samples": samples}))
    ...     table = read_log(folder)
    >>> table[["prompt", "model", "score"]].values.tolist()
    [['sums/0', 'acme/m7b', 1.0], ['sums/1', 'acme/m7b', 0.0], ['sums/2', 'acme/m7b', 1.0]]
    >>> table.attrs["report"]["models"]
    ['acme/m7b']
    """
    files = log_files(path)
    if kind is not None and kind not in READERS:
        raise OptionError(f"kind={kind!r} is unknown; it is one of {listed(READERS)}{nearest(kind, READERS)}")
    kinds = {file: _kind_of(file) for file in files} if kind is None else dict.fromkeys(files, kind)
    found = {value for value in kinds.values() if value}
    if len(found) != 1:
        what = f"logs of several kinds, {listed(sorted(found))}" if found else "no log of a known kind"
        raise DataError(f"{str(path)!r} holds {what}; pass kind=, one of {listed(READERS)}")
    (kind,) = found
    used = [file for file in files if kinds[file] == kind]
    table = _Table(kind, used)
    table.notes += [f"not used, of another kind: {file.name}" for file in files if not kinds[file]][:20]
    chosen = {"metric": metric, "filter": filter, "scorer": scorer}
    reader, options = READERS[kind]
    for name, value in chosen.items():
        if value is not None and name not in options:
            raise OptionError(f"{name}={value!r} says nothing about a log of {kind}; leave it out")
    reader(table, used, **{name: chosen[name] for name in options})
    return table.frame(_VOTE_COLUMNS if "winner" in (table.rows[0] if table.rows else ()) else _SCORE_COLUMNS)


def _kind_of(file: Path) -> str | None:
    """Return the kind of a log by its name and the keys of its first record; None where it is none."""
    if ending(file) == ".eval":
        return "inspect"
    if ending(file) not in (".json", ".jsonl"):
        return None
    if file.name.startswith("results_") and ending(file) == ".json":
        return None  # Read beside the samples of lm-evaluation-harness.
    if ending(file) == ".jsonl":
        value: Any = next(iter(read_lines(file)), {})
    else:
        value = read_json(file)
        if isinstance(value, dict) and "eval" in value and "status" in value:
            return "inspect"
        results = value.get("results") if isinstance(value, dict) else None
        if isinstance(results, dict) and isinstance(results.get("results"), list):
            return "promptfoo"
        value = value[0] if isinstance(value, list) and value else {}
    if not isinstance(value, dict):
        return None
    marks = {
        "lm_eval": ("doc_id", "filter"),
        "alpaca_eval": ("generator_1", "generator_2", "preference"),
        "arena_hard": ("uid", "games", "baseline"),
        "mt_bench_pair": ("question_id", "g1_winner", "g2_winner"),
        "mt_bench_single": ("question_id", "model", "score", "judge"),
        "wildbench": ("session_id", "parsed_result"),
        "every_eval_ever": ("evaluation_id", "sample_id"),
    }
    return next((kind for kind, keys in marks.items() if all(key in value for key in keys)), None)


def _score(value: Any, where: str) -> float:
    """Return a score as a number, NaN where there is none; refuse what is no number."""
    if value is None:
        return np.nan
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        if value in _GRADES or value.lower() in _GRADES:
            return _GRADES[value if value in _GRADES else value.lower()]
        try:
            return float(value)
        except ValueError:
            pass
    raise DataError(
        f"{where} has the score {str(value)[:80]!r}, which is no number; name another scorer or metric, or leave "
        f"out the sample"
    )


def _choose(name: str, given: str | None, there: Iterable[str], where: str) -> str:
    """Return the name that was asked for, or the only one there is."""
    names = sorted(set(there))
    if given is not None:
        if given not in names:
            raise OptionError(f"{where} has no {name} {given!r}; it has {listed(names)}{nearest(given, names)}")
        return given
    if len(names) != 1:
        raise OptionError(f"{where} has {len(names)} of {name}: {listed(names)}; name one with {name}=")
    return names[0]


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries of metadata that fit into a cell."""
    return {str(k): v for k, v in (values or {}).items() if isinstance(v, str | int | float | bool) or v is None}


# --- inspect_ai -------------------------------------------------------------------------------------------------------


def _read_inspect(table: _Table, files: Sequence[Path], scorer: str | None) -> None:
    logs = []
    for file in files:
        header, samples = _inspect_samples(file)
        status, about = str(header.get("status")), header.get("eval") or {}
        if status in ("cancelled", "started"):
            raise DataError(f"{str(file)!r} was {status}, not run to its end; leave the file out, or run it again")
        if status != "success":
            table.notes.append(f"{file.name} ended with status {status!r}: samples without a score are missing")
        logs.append((file, about, samples))
    for file, about, samples in _newest(table, logs):
        where = f"{str(file)!r}"
        task, model = str(about.get("task", "")), str(about.get("model", ""))
        there = {name for sample in samples for name in (sample.get("scores") or {})}
        chosen, _, key = (scorer or "").partition(".")
        if there or chosen:
            chosen = _choose("scorer", chosen or None, there, where)
        for sample in samples:
            name = f"{where}, sample {sample.get('id')!r}"
            value = ((sample.get("scores") or {}).get(chosen) or {}).get("value")
            if isinstance(value, dict):
                part = _choose("scorer", key or None, value, f"{name}, scorer {chosen!r},")
                value = value[part]
            error = sample.get("error") or sample.get("limit")
            table.rows.append(
                {
                    "prompt": f"{task}/{sample.get('id')}",
                    "model": model,
                    "score": np.nan if error else _score(value, name),
                    "run": sample.get("epoch", 1),
                    "task": task,
                    **_plain(sample.get("metadata")),
                    **({"total_time": sample["total_time"]} if "total_time" in sample else {}),
                    "error": None if not error and value is not None else str(error or "no score"),
                }
            )


def _inspect_samples(file: Path) -> tuple[Record, list[Record]]:
    """Return the header and the samples of a log, in either format."""
    if ending(file) == ".json":
        log = read_json(file)
        return log, records_of(log.get("samples") or [], file)
    try:
        with zipfile.ZipFile(file) as archive:
            header = zip_member(archive, "header.json", file) or zip_member(archive, "_journal/start.json", file)
            if header is None:
                raise DataError(f"{str(file)!r} has no header.json: the log was not written to its end")
            summaries = zip_member(archive, "summaries.json", file)
    except zipfile.BadZipFile as error:
        raise DataError(f"{str(file)!r} is no zip file, which a log of inspect_ai is: {error}") from None
    start: Record = parsed(header, file)
    if "status" not in start:
        start = {"status": "started", **start}
    return start, [] if summaries is None else records_of(parsed(summaries, file), file)


def _newest(table: _Table, logs: list[tuple[Path, Record, list[Record]]]) -> list[tuple[Path, Record, list[Record]]]:
    """Return the newest log of each task and model; name the others."""
    newest: dict[tuple[str, str], tuple[Path, Record, list[Record]]] = {}
    for log in sorted(logs, key=lambda one: (str(one[1].get("created", "")), one[0].name)):
        key = (str(log[1].get("task")), str(log[1].get("model")))
        if key in newest:
            table.notes.append(f"not used, older than another log of {key[1]} on {key[0]}: {newest[key][0].name}")
        newest[key] = log
    return list(newest.values())


# --- lm-evaluation-harness --------------------------------------------------------------------------------------------

_SAMPLES_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?$")


def _read_lm_eval(table: _Table, files: Sequence[Path], metric: str | None, filter: str | None) -> None:
    logs: dict[tuple[str, str], tuple[str, Path]] = {}
    for file in files:
        name = _SAMPLES_NAME.match(file.name.split(".jsonl")[0])
        if name is None:
            raise DataError(
                f"{file.name!r} is not named samples_TASK_DATE.jsonl, so that its task is not known; rename it"
            )
        key, date = (_lm_eval_model(file), name["task"]), name["date"] or ""
        if key in logs:
            older = file if date <= logs[key][0] else logs[key][1]
            table.notes.append(f"not used, older than another log of {key[0]} on {key[1]}: {older.name}")
        if key not in logs or date > logs[key][0]:
            logs[key] = (date, file)
    hashes: dict[tuple[str, Any], tuple[str, str]] = {}
    for (model, task), (_, file) in logs.items():
        lines = list(read_lines(file))
        chosen_filter = _choose("filter", filter, (str(line.get("filter", "none")) for line in lines), f"{str(file)!r}")
        lines = [line for line in lines if str(line.get("filter", "none")) == chosen_filter]
        there = {name for line in lines for name in line.get("metrics") or set(line) - _NO_METRIC}
        chosen = _choose("metric", metric, there, f"{str(file)!r}")
        for line in lines:
            doc_key, doc = str(line.get("doc_hash", line.get("doc_id"))), (task, line.get("doc_id"))
            known, other = hashes.setdefault(doc, (doc_key, model))
            if known != doc_key:
                raise DataError(
                    f"task {task!r}: doc_id {doc[1]} is another document for {model!r} than for {other!r} (doc_hash "
                    f"{doc_key[:12]} and {known[:12]}): the models saw other versions of the task; read logs "
                    f"of one version"
                )
            value = line.get(chosen)
            if isinstance(value, list):
                raise DataError(
                    f"{str(file)!r}: the metric {chosen!r} is a list, not a score of one document; name another"
                )
            row = {
                "prompt": f"{task}/{doc_key}",
                "model": model,
                "score": _score(value, f"{str(file)!r}, doc_id {doc[1]}"),
            }
            table.rows.append({**row, "run": 1, "task": task, "error": "no score" if value is None else None})


def _lm_eval_model(file: Path) -> str:
    """Return the model of a file: that of the results beside it, or of the name of its folder."""
    names = set()
    for results in sorted(file.parent.glob("results_*.json")):
        value = read_json(results)
        name = value.get("model_name") if isinstance(value, dict) else None
        if name:
            names.add(str(name))
    return names.pop() if len(names) == 1 else file.parent.name.replace("__", "/")


# --- judgments of pairs -----------------------------------------------------------------------------------------------


def _read_alpaca_eval(table: _Table, files: Sequence[Path]) -> None:
    for file in files:
        for record in _records_in(file):
            preference = record.get("preference")
            if preference is not None and not (isinstance(preference, int | float) and 1 <= preference <= 2):
                raise DataError(f"{str(file)!r} has the preference {preference!r}; AlpacaEval's lie in [1, 2]")
            table.rows.append(
                {
                    "prompt": str(record.get("instruction")),
                    "model_a": str(record.get("generator_1")),
                    "model_b": str(record.get("generator_2")),
                    # preference - 1 is the share of a win for the second answer.
                    "winner": np.nan if preference is None else 2.0 - preference,
                    "judge": str(record.get("annotator")),
                    "task": "alpaca_eval",
                    "dataset": record.get("dataset"),
                }
            )
    _note_star(table)


def _read_arena_hard(table: _Table, files: Sequence[Path]) -> None:
    for file in files:
        for record in _records_in(file):
            model, baseline = str(record.get("model")), str(record.get("baseline"))
            for number, game in enumerate(record.get("games") or []):
                # The first game shows the baseline first, the second one the model.
                first, second = (baseline, model) if number % 2 == 0 else (model, baseline)
                verdict = (game or {}).get("score")
                table.rows.append(
                    {
                        "prompt": str(record.get("uid")),
                        "model_a": first,
                        "model_b": second,
                        "winner": _verdict(verdict, file),
                        "judge": str(record.get("judge")),
                        "task": "arena_hard",
                        "category": record.get("category"),
                        "grade": verdict,
                    }
                )
    _note_star(table)


def _read_mt_bench_pair(table: _Table, files: Sequence[Path]) -> None:
    for file in files:
        for record in _records_in(file):
            models = {"model_1": str(record.get("model_1")), "model_2": str(record.get("model_2"))}
            for game, (first, second) in (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1"))):
                verdict = record.get(f"{game}_winner")
                labels = {first: "model_a", second: "model_b", "tie": "tie", "error": None, None: None}
                if verdict not in labels:
                    raise DataError(
                        f"{str(file)!r} has the verdict {verdict!r}; MT-Bench's are {listed(map(str, labels))}"
                    )
                table.rows.append(
                    {
                        "prompt": f"{record['question_id']} turn {record.get('turn', 1)}",
                        "model_a": models[first],
                        "model_b": models[second],
                        "winner": labels[verdict],
                        "judge": _judge(record.get("judge")),
                        "task": "mt_bench",
                        "question": record["question_id"],
                        "turn": record.get("turn", 1),
                    }
                )


def _read_mt_bench_single(table: _Table, files: Sequence[Path]) -> None:
    for file in files:
        for record in _records_in(file):
            score = _score(record.get("score"), f"{str(file)!r}, question {record['question_id']}")
            is_parsed = score >= 0
            table.rows.append(
                {
                    "prompt": f"{record['question_id']} turn {record.get('turn', 1)}",
                    "model": str(record.get("model")),
                    "score": score if is_parsed else np.nan,
                    "run": 1,
                    "task": "mt_bench",
                    "question": record["question_id"],
                    "turn": record.get("turn", 1),
                    "judge": _judge(record.get("judge")),
                    "error": None if is_parsed else "the judge's score could not be read",
                }
            )


def _read_wildbench(table: _Table, files: Sequence[Path]) -> None:
    for file in files:
        parts = dict(part.split("=", 1) for part in file.parts if "=" in part)
        model, judge = file.name.split(".json")[0], parts.get("eval", "")
        for record in _records_in(file):
            prompt, result = str(record.get("session_id")), record.get("parsed_result") or {}
            if "choice" not in result and "ref" not in parts:
                score = _score(result.get("score"), f"{str(file)!r}, session {prompt}")
                row = {"prompt": prompt, "model": model, "score": score, "run": 1, "task": "wildbench", "judge": judge}
                table.rows.append({**row, "error": "no score" if np.isnan(score) else None})
                continue
            names = record.get("assignment") or {"A": record.get("model_A"), "B": record.get("model_B")}
            if not (names.get("A") and names.get("B")):
                raise DataError(
                    f"{str(file)!r}, session {prompt}: it does not say which answer was A ('assignment', or 'model_A' "
                    f"and 'model_B'); a verdict without it says nothing"
                )
            table.rows.append(
                {
                    "prompt": prompt,
                    "model_a": str(names["A"]),
                    "model_b": str(names["B"]),
                    "winner": _verdict(result.get("choice"), file),
                    "judge": judge,
                    "task": "wildbench",
                    "grade": result.get("choice"),
                }
            )
    _note_star(table)


def _records_in(file: Path) -> Iterable[Record]:
    """Return the records of a file of either kind."""
    return read_lines(file) if ending(file) == ".jsonl" else records_of(read_json(file), file)


def _verdict(verdict: Any, file: Path) -> str | None:
    """Return the label of a verdict on the answers A and B; None where there is none."""
    if verdict is None:
        return None
    label = _VERDICTS.get(str(verdict).strip("[] "))
    if label is None:
        raise DataError(f"{str(file)!r} has the verdict {verdict!r}; those that are read are {listed(_VERDICTS)}")
    return label


def _judge(judge: Any) -> str:
    return ", ".join(map(str, judge)) if isinstance(judge, list) else str(judge)


def _note_star(table: _Table) -> None:
    """Say that every model meets one baseline only, where that is so."""
    models = [{row["model_a"], row["model_b"]} for row in table.rows if "model_a" in row]
    shared = set.intersection(*models) if models else set()
    if len(shared) == 1 and len(set.union(*models)) > 2:
        table.notes.append(
            f"every model was compared with {shared.pop()!r} only: two other models are compared through it, in the "
            f"log-odds of bt"
        )


# --- Every Eval Ever, promptfoo ---------------------------------------------------------------------------------------


def _read_every_eval_ever(table: _Table, files: Sequence[Path], metric: str | None) -> None:
    seen: dict[tuple[str, str], list[float]] = {}
    lines = [(file, line) for file in files for line in read_lines(file)]
    there = {str(line.get("evaluation_name", "")) for _, line in lines}
    chosen = _choose("metric", metric, there, "the log")
    for file, line in lines:
        if str(line.get("evaluation_name", "")) != chosen:
            continue
        result = line.get("evaluation") or {}
        error = line.get("error")
        value = result.get("score", result.get("is_correct"))
        model, sample = str(line.get("model_id")), str(line.get("sample_hash") or line.get("sample_id"))
        runs = seen.setdefault((model, sample), [])
        score = np.nan if error else _score(value, f"{str(file)!r}, sample {line.get('sample_id')!r}")
        runs.append(score)
        prompt, task = f"{chosen}/{sample}", chosen or str(line.get("evaluation_id"))
        row = {"prompt": prompt, "model": model, "score": score, "run": len(runs), "task": task}
        error = error or (None if value is not None else "no score")
        table.rows.append({**row, **_plain(line.get("metadata")), "error": error})
    repeated = [values for values in seen.values() if len(values) > 1]
    if repeated and all(np.isclose(values, values[0], equal_nan=True).all() for values in repeated):
        raise DataError(
            f"{len(repeated):,} samples stand in the log several times, each with the same score every time: "
            f"converters write one reduced score for every epoch; read the harness's own log, or keep one "
            f"line of each sample"
        )


def _read_promptfoo(table: _Table, files: Sequence[Path], metric: str | None) -> None:
    for file in files:
        records = records_of(read_json(file)["results"]["results"], file)
        labels = {record.get("promptIdx", 0) for record in records}
        named = {name for record in records for name in (record.get("namedScores") or {})}
        if metric is not None:
            _choose("metric", metric, named, f"{str(file)!r}")
        runs: Counter[tuple[str, str]] = Counter()
        for record in records:
            provider = record.get("provider") or {}
            model = str(provider.get("label") or provider.get("id")) if isinstance(provider, dict) else str(provider)
            if len(labels) > 1:
                prompt_label = (record.get("prompt") or {}).get("label")
                model = f"{model} x {prompt_label or record.get('promptIdx')}"
            prompt = repr(sorted((record.get("vars") or {}).items()))
            runs[prompt, model] += 1
            failed = record.get("failureReason") == 2
            value = record.get("score") if metric is None else (record.get("namedScores") or {}).get(metric)
            table.rows.append(
                {
                    "prompt": prompt,
                    "model": model,
                    "score": np.nan if failed else _score(value, f"{str(file)!r}, test {record.get('testIdx')}"),
                    "run": runs[prompt, model],
                    "task": file.name.split(".json")[0],
                    **_plain(record.get("namedScores")),
                    "cost": record.get("cost"),
                    "latency_ms": record.get("latencyMs"),
                    "error": str(record.get("error") or "error")[:200] if failed else None,
                }
            )


# The reader of every kind, and the options that say what it takes.
READERS: Mapping[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "inspect": (_read_inspect, ("scorer",)),
    "lm_eval": (_read_lm_eval, ("metric", "filter")),
    "alpaca_eval": (_read_alpaca_eval, ()),
    "arena_hard": (_read_arena_hard, ()),
    "mt_bench_pair": (_read_mt_bench_pair, ()),
    "mt_bench_single": (_read_mt_bench_single, ()),
    "wildbench": (_read_wildbench, ()),
    "every_eval_ever": (_read_every_eval_ever, ("metric",)),
    "promptfoo": (_read_promptfoo, ("metric",)),
}

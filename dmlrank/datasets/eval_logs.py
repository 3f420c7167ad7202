"""Logs of evaluation harnesses as tables of scores or votes: one reader for each format, and one for all of them."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from .._utils.declared_types import checked
from ..data.pairs_from_scores import GRADES
from ..exceptions import DataError, OptionError, listed, nearest, shown
from .log_files import (
    LOG_ENDINGS,
    Record,
    ending,
    first_keys,
    log_files,
    parsed,
    read_csv,
    read_json,
    read_lines,
    readable,
    records_of,
    zip_member,
)

LogPath: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
_SCORE_COLUMNS = ("prompt", "model", "score", "run", "task")
_VOTE_COLUMNS = ("prompt", "model_a", "model_b", "winner", "judge", "task")
# Names of metadata and of named scores that would take the place of a column.
_OWN_COLUMNS = frozenset((*_SCORE_COLUMNS, *_VOTE_COLUMNS, "cost", "latency_ms", "error"))
# Grades, and words for right and wrong.
_GRADES = {**GRADES, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
# Verdicts with A first; Arena-Hard also writes B>A as A<B.
_VERDICTS = {
    **dict.fromkeys(("A>>B", "A>B"), "model_a"),
    **dict.fromkeys(("B>>A", "B>A", "A<B", "A<<B"), "model_b"),
    **dict.fromkeys(("A=B", "B=A"), "tie"),
}
# The keys by which a log is recognised: of its first record, or of the whole file. The last stands beside samples.
_KEYS: Mapping[str | None, tuple[str, ...]] = {
    "inspect": ("eval", "status"),
    "promptfoo": ("evalId", "results"),
    "lm_eval": ("doc_id", "filter"),
    "alpaca_eval": ("generator_1", "generator_2", "preference"),
    "arena_hard": ("uid", "games", "baseline"),
    "mt_bench_pair": ("question_id", "g1_winner", "g2_winner"),
    "every_eval_ever": ("evaluation_id", "sample_id"),
    None: ("evaluation_id", "evaluation_results"),
}
# Keys of a line of lm-evaluation-harness that are no metrics.
_NO_METRIC = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash"),
}


class LogReport(dict[str, Any]):
    """What a log holds and what was not used, as plain values by name; its text says the same in lines.

    Keys: ``kind``, ``files``, ``models``, ``prompts``, ``runs``, ``tasks``, ``rows``, ``missing`` (scores or votes that
    are not there), ``errors`` (how often each error occurs), ``notes`` (sentences on what was not used, and why) and
    ``fit`` (the arguments of :func:`dmlrank.dml_rank` that the log suggests).
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
    """Rows that readers collect, column by column, with notes on what was not used."""

    def __init__(self, kind: str, files: Sequence[Path]) -> None:
        self.kind, self.files = kind, files
        self.columns: dict[str, list[Any]] = {}
        self.n_rows = 0
        self.notes: list[str] = []
        self.clusters: list[str] = []
        # Names that occur in many rows are kept once.
        self._texts: dict[str, str] = {}

    def add_score(
        self,
        prompt: str,
        model: str,
        score: float,
        run: int,
        task: str,
        further: Mapping[str, Any] | None = None,
        error: Any = None,
    ) -> None:
        """Add a score, NaN where there is none, with its further columns and the reason why it is missing."""
        row = {"prompt": prompt, "model": model, "score": score, "run": run, "task": task, **(further or {})}
        self._add({**row, "error": error or ("no score" if np.isnan(score) else None)})

    def add_vote(
        self, prompt: str, models: Iterable[Any], winner: Any, judge: Any, task: str, further: Mapping[str, Any]
    ) -> None:
        """Add a vote on the answers of two models, with its further columns."""
        first, second = models
        row = {"prompt": prompt, "model_a": first, "model_b": second, "winner": winner, "judge": judge, "task": task}
        self._add({**row, **further})

    def _add(self, row: Mapping[str, Any]) -> None:
        """Add a row; columns that it lacks are missing in it."""
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            if len(column) < self.n_rows:
                column.extend([None] * (self.n_rows - len(column)))
            column.append(self.once(value) if isinstance(value, str) else value)
        self.n_rows += 1

    def once(self, text: str) -> str:
        """Return the copy of a text that is kept."""
        return self._texts.setdefault(text, text)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame with its report in ``attrs``."""
        if not self.n_rows:
            raise DataError(
                f"{listed(map(str, self.files))}: no sample, read as {self.kind!r}; pass another kind={listed(READERS)}"
            )
        is_votes = "winner" in self.columns
        first = [name for name in (_VOTE_COLUMNS if is_votes else _SCORE_COLUMNS) if name in self.columns]
        for column in self.columns.values():
            column.extend([None] * (self.n_rows - len(column)))
        table = pd.DataFrame({name: self.columns[name] for name in [*first, *self.columns]})
        runs = int(table["run"].nunique()) if "run" in first else 1
        baseline = _baseline(table) if is_votes else None
        if is_votes:
            judges = table["judge"].unique()
            of_pair = table.groupby(["prompt", "model_a", "model_b"])["judge"] if len(judges) > 1 else None
            if of_pair is not None and (of_pair.nunique() > 1).any():
                self.notes.append(f"{len(judges)} judges, with a vote each: {listed(map(str, judges))}")
            if baseline is not None:
                self.notes.append(
                    f"every model was compared with {baseline!r} only: others are compared through it, in log-odds"
                )
        elif again := int(table.duplicated(["prompt", "model", "run"]).sum()):
            self.notes.append(f"{again:,} rows repeat a prompt, model and run, and a fit uses the mean of such rows")
        formula = "winner ~ 1 | model_a + model_b" if is_votes else "score ~ 1 | model"
        fit: dict[str, Any] = {"formula": formula, "context": "prompt"}
        fit |= {"functional": "bt"} if baseline is not None else {}
        fit |= {"run": "run"} if runs > 1 else {}
        fit |= {"cov_type": "cluster", "cov_kwds": {"groups": self.clusters}} if self.clusters else {}
        table.attrs["report"] = LogReport(
            kind=self.kind,
            files=len(self.files),
            models=sorted({model for name in first if name.startswith("model") for model in table[name].unique()}),
            prompts=int(table["prompt"].nunique()),
            runs=runs,
            tasks=sorted(map(str, table["task"].unique())),
            rows=self.n_rows,
            missing=int(table["winner" if is_votes else "score"].isna().sum()),
            errors=dict(Counter(str(error)[:200] for error in table["error"].dropna()) if "error" in table else ()),
            notes=list(dict.fromkeys(self.notes)),
            fit=fit,
        )
        return table


@checked
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
        A file, a folder with many runs, or a pattern such as ``"logs/*.eval"``. Files other than ``.eval`` may end with
        ``.gz`` or ``.zst`` (extra ``logs``).
    kind : str, optional
        ``"inspect"`` (inspect_ai, ``.eval`` and ``.json``), ``"lm_eval"`` (lm-evaluation-harness with
        ``--log_samples``), ``"alpaca_eval"``, ``"arena_hard"``, ``"mt_bench_pair"``, ``"every_eval_ever"``,
        ``"promptfoo"`` or ``"lmarena"`` (votes with ``model_a``, ``model_b`` and ``winner`` as LMArena publishes them,
        in csv or JSON); by default it is recognised, but for votes in JSON. Logs of other kinds in a folder are then
        left out and named in the report.
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
        errors and notes, whose text says the same in lines; its entry ``"fit"`` has the arguments of the fit that the
        log suggests: ``dml_rank(data=table, **table.attrs["report"]["fit"])``. A table of votes fits as it is:
        ``dml_rank("winner ~ 1 | model_a + model_b", table, context="prompt")``. Scores are multiplied by -1 where the
        log says that smaller values are better.

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
    >>> table.attrs["report"]["fit"]
    {'formula': 'score ~ 1 | model', 'context': 'prompt'}
    """
    if kind is not None and kind not in READERS:
        raise OptionError(f"kind={kind!r} is unknown; it is one of {listed(READERS)}{nearest(kind, READERS)}")
    files = files_by_kind(path)
    found = [name for name in files if name]
    if kind is None and len(found) != 1:
        what = f"logs of several kinds, {listed(found)}" if found else "no log of a known kind"
        raise DataError(f"{str(path)!r} holds {what}; pass kind=, one of {listed(READERS)}")
    kind = kind or found[0]
    # A log that is not recognised is read as what the caller says.
    used = files.get(kind) or files.get("")
    if not used:
        raise DataError(f"{str(path)!r} holds no log of kind {kind!r}; it holds logs of {listed(found)}")
    table = _Table(kind, used)
    others = {name: listed(map(str, group), 5) for name, group in files.items() if kind in files and name != kind}
    table.notes += [f"not used, {'logs of ' + name if name else 'no log'}: {names}" for name, names in others.items()]
    chosen = {"metric": metric, "filter": filter, "scorer": scorer}
    reader, options = READERS[kind]
    for name, value in chosen.items():
        if value is not None and name not in options:
            raise OptionError(f"{name}={value!r} says nothing about a log of {kind}; leave it out")
    reader(table, used, **{name: chosen[name] for name in options})
    return table.frame()


def files_by_kind(path: LogPath) -> dict[str, list[Path]]:
    """Return the files of a path by the kind of their log; those of no known kind are under the empty text."""
    kinds: dict[str, list[Path]] = {}
    for file in log_files(path):
        if not file.stat().st_size:
            raise DataError(f"{str(file)!r} is empty: its run wrote nothing; leave the file out, or run it again")
        kind = _kind_of(file)
        if kind is not None:
            kinds.setdefault(kind, []).append(file)
    return dict(sorted(kinds.items()))


def _kind_of(file: Path) -> str | None:
    """Return the kind of a log by its first keys; empty where it is no log, None where it is read beside one."""
    if ending(file) == ".eval":
        return "inspect"
    if file.name.startswith("results_") and ending(file) == ".json" and any(file.parent.glob("samples_*")):
        return None
    if ending(file) == ".csv" and {"model_a", "model_b"} <= next(iter(read_csv(file)), {}).keys():
        return "lmarena"
    if ending(file) not in LOG_ENDINGS:
        return ""
    # Long documents and answers may stand before the keys of a record.
    for n_bytes in (2**16, 2**24):
        value = first_keys(file, n_bytes)
        if isinstance(results := value.get("results"), dict) and isinstance(results.get("results"), list):
            return "promptfoo"
        for kind, keys in _KEYS.items():
            if value.keys() >= set(keys):
                return kind
    return ""


def _score(value: Any, where: str) -> float:
    """Return a score as a number, NaN where there is none; refuse what is no number."""
    number: Any = _GRADES.get(value, _GRADES.get(value.lower(), value)) if isinstance(value, str) else value
    with suppress(TypeError, ValueError, OverflowError):
        score = np.nan if value is None else float(number)
        if abs(score) != np.inf:
            return score
    raise DataError(
        f"{where} has the score {shown(value, 80)}, no finite number; name another scorer or metric, or leave it out"
    )


def _choose(name: str, given: str | None, there: Iterable[str], where: str, prefix: str = "") -> str:
    """Return the name that was asked for, or the only one there is; ``prefix`` stands before names in an option."""
    names = sorted(set(there))
    if given is not None:
        if given not in names:
            raise OptionError(
                f"{where} has no {name} {given!r}; it has {listed(names) or 'none'}{nearest(given, names)}"
            )
        return given
    if len(names) != 1:
        said = f"name one with {name}= (--{name}), such as {prefix + names[0]!r}" if names else "it holds none"
        raise OptionError(f"{where} has {len(names)} values of {name}: {listed(names)}; {said}")
    return names[0]


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries of metadata that fit into a cell; ``log_`` stands before names that the table needs itself."""
    return {
        f"log_{k}" if k in _OWN_COLUMNS else str(k): v
        for k, v in (values or {}).items()
        if isinstance(v, str | int | float | bool) or v is None
    }


# --- inspect_ai -------------------------------------------------------------------------------------------------------


def _read_inspect(table: _Table, files: Sequence[Path], scorer: str | None) -> None:
    documents: dict[str, tuple[int, str]] = {}
    other_documents: Counter[tuple[str, str]] = Counter()
    ages = []
    for file in files:
        header = _inspect_header(file)
        about, is_done = header.get("eval") or {}, header.get("status") == "success"
        age = (is_done, str(about.get("created", "")), file.name, file)
        ages.append(((str(about.get("model", "")), str(about.get("task", ""))), age, file))
    logs = _newest(table, ages, "another log of {} on {} was taken, the newest complete one")
    for (model, task), file in sorted(logs.items(), key=lambda item: item[1]):
        header = _inspect_header(file)
        found = header.get("samples") if ending(file) == ".json" else _inspect_member(file, "summaries.json")
        samples = records_of(found or [], file)
        status, where = str(header.get("status")), f"{str(file)!r}"
        if status in ("cancelled", "started"):
            raise DataError(f"{where} was {status}, not run to its end; leave the file out, or run it again")
        if status != "success":
            table.notes.append(f"{file.name} ended with status {status!r}: samples without a score are missing")
        about = header.get("eval") or {}
        config, size = about.get("config") or {}, (about.get("dataset") or {}).get("samples")
        planned = size * (config.get("epochs") or 1) if isinstance(size, int) and config.get("limit") is None else 0
        if len(samples) < planned:
            table.notes.append(f"{file.name} has {len(samples):,} of {planned:,} samples; the others are missing")
        there = {name for sample in samples for name in (sample.get("scores") or {})}
        chosen, _, key_of_value = (scorer or "").partition(".")
        if scorer in there:
            chosen, key_of_value = str(scorer), ""
        if there or chosen:
            chosen = _choose("scorer", chosen or None, there, where)
        for sample in samples:
            name, prompt = f"{where}, sample {sample.get('id')!r}", f"{task}/{sample.get('id')}"
            if "input" in sample:
                document = hash(json.dumps(sample["input"], sort_keys=True))
                known, other = documents.setdefault(prompt, (document, model))
                other_documents[model, other] += known != document
            value = ((sample.get("scores") or {}).get(chosen) or {}).get("value")
            if isinstance(value, dict):
                part = _choose("scorer", key_of_value or None, value, f"{name}, scorer {chosen!r},", f"{chosen}.")
                value = value[part]
            # A sample that met a limit is scored by the harness; one that failed is not.
            error = sample.get("error")
            score = np.nan if error else _score(value, name)
            error = error or (sample.get("limit") if np.isnan(score) else None)
            timing = {name: sample[name] for name in ("total_time", "limit") if name in sample}
            further = _plain(sample.get("metadata")) | _plain(timing)
            # An error or a limit may be an object with a message or a type.
            said = (error.get("message") or error.get("type") or "error") if isinstance(error, dict) else error
            table.add_score(prompt, model, score, sample.get("epoch", 1), task, further, said and str(said)[:200])
    table.notes += [
        f"{count:,} samples of {model!r} have another input than those of {other!r}: are the tasks of one version?"
        for (model, other), count in other_documents.items()
        if count
    ]


def _newest(table: _Table, logs: Iterable[tuple[tuple[str, str], Any, Path]], said: str) -> dict[tuple[str, str], Path]:
    """Return the newest log of every model and task, from the age of each; the others are noted."""
    kept: dict[tuple[str, str], tuple[Any, Path]] = {}
    for key, age, file in logs:
        known, other = kept.setdefault(key, (age, file))
        if other != file:
            older = other if age > known else file
            kept[key] = (age, file) if older == other else (known, other)
            table.notes.append(f"not used, {said.format(*key)}: {older.name}")
    return {key: file for key, (_, file) in kept.items()}


def _inspect_header(file: Path) -> Record:
    """Return what a log says of itself; of a .json log this is all of it."""
    if ending(file) == ".json":
        log = read_json(file)
        if not isinstance(log, dict):
            raise DataError(f"{str(file)!r} is no log of inspect_ai: it holds no JSON object")
        return log
    header = _inspect_member(file, "header.json", "_journal/start.json")
    if header is None:
        raise DataError(f"{str(file)!r} has no header.json: the log was not written to its end")
    return {"status": "started", **header}


def _inspect_member(file: Path, *names: str) -> Any:
    """Return the value of the first of these members that an .eval file has."""
    if file.suffix.lower() != ".eval":
        raise DataError(f"{str(file)!r}: an .eval file is compressed in itself; unpack {file.suffix} first")
    with readable(file), zipfile.ZipFile(file) as archive:
        contents = (zip_member(archive, name, file) for name in names)
        return next((parsed(content, file) for content in contents if content is not None), None)


# --- lm-evaluation-harness --------------------------------------------------------------------------------------------

_SAMPLES_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?$")


def _read_lm_eval(table: _Table, files: Sequence[Path], metric: str | None, filter: str | None) -> None:
    # What the results beside samples say of the model, and of metrics whose smaller values are better.
    beside: dict[Path, list[Record]] = {}
    for folder in {file.parent for file in files}:
        found = [read_json(path) for path in sorted(folder.glob("results_*.json*")) if ending(path) == ".json"]
        kept = ("model_name", "higher_is_better")
        beside[folder] = [{name: value.get(name) for name in kept} for value in found if isinstance(value, dict)]
    named = []
    for file in files:
        name = _SAMPLES_NAME.match(file.name.split(".jsonl")[0])
        if name is None:
            raise DataError(
                f"{file.name!r} is not named samples_TASK_DATE.jsonl, so that its task is not known; rename it"
            )
        # The model is that of the results beside the file, or of the name of its folder.
        models = {str(value["model_name"]) for value in beside[file.parent] if value["model_name"]}
        model = models.pop() if len(models) == 1 else file.absolute().parent.name.replace("__", "/")
        named.append(((model, name["task"]), name["date"] or "", file))
    copies: dict[tuple[str, str, str], list[Any]] = {}
    hashes: dict[tuple[str, Any], tuple[str, str]] = {}
    lower: dict[str, bool] = {}
    directions = [result.get("higher_is_better") or {} for results in beside.values() for result in results]
    for (model, task), file in _newest(table, named, "older than another log of {} on {}").items():
        lines, where = list(read_lines(file)), f"{str(file)!r}"
        chosen_filter = _choose("filter", filter, {str(line.get("filter", "none")) for line in lines}, where)
        lines = [line for line in lines if str(line.get("filter", "none")) == chosen_filter]
        lines.sort(key=lambda line: str(line.get("doc_id")).zfill(12))
        there = {name for line in lines for name in line.get("metrics") or set(line) - _NO_METRIC}
        chosen = _choose("metric", metric, there, where)
        is_lower = any((of_tasks.get(task) or {}).get(chosen) is False for of_tasks in directions)
        sign = _sign(table, chosen, lower, task, is_lower=is_lower)
        for line in lines:
            doc_key, doc = str(line.get("doc_hash", line.get("doc_id"))), (task, line.get("doc_id"))
            known, other = hashes.setdefault(doc, (doc_key, model))
            if known != doc_key:
                raise DataError(
                    f"task {task!r}: doc_id {doc[1]} is another document for {model!r} than for {other!r} (doc_hash "
                    f"{doc_key[:12]} and {known[:12]}): read logs of one version of the task"
                )
            value = line.get(chosen)
            if isinstance(value, list):
                raise DataError(f"{where}: the metric {chosen!r} is a list, not a score of one document; name another")
            score = sign * _score(value, f"{where}, doc_id {doc[1]}")
            # A document that stands in the task twice counts twice, as it does in the harness's mean.
            places = copies.setdefault((model, task, doc_key), [])
            if doc[1] not in places:
                places.append(doc[1])
            copy = places.index(doc[1])
            table.add_score(f"{task}/{doc_key}{f' #{copy + 1}' if copy else ''}", model, score, 1, task)


def _sign(table: _Table, metric: str, lower: dict[str, bool], task: str, *, is_lower: bool) -> int:
    """Return -1 where smaller values are better, and say so; refuse tasks that differ in this."""
    lower[task] = is_lower
    if len(set(lower.values())) > 1:
        raise DataError(f"{metric!r} is better when smaller in some files and when larger in others: {lower}; read one")
    if is_lower:
        table.notes.append(f"smaller is better for {metric!r}: scores are its values times -1")
    return -1 if is_lower else 1


# --- judgments of pairs -----------------------------------------------------------------------------------------------


def _read_alpaca_eval(table: _Table, files: Sequence[Path]) -> None:
    for file, record in _records_in(files):
        preference = record.get("preference")
        # Older versions wrote 0 for a draw.
        preference = 1.5 if preference == 0 else None if preference != preference else preference
        if preference is not None and not (isinstance(preference, int | float) and 1 <= preference <= 2):
            raise DataError(f"{str(file)!r} has the preference {preference!r}; AlpacaEval's lie in [1, 2]")
        # preference - 1 is the share of a win for the second answer.
        winner = np.nan if preference is None else 2.0 - preference
        names = ("instruction", "generator_1", "generator_2", "annotator")
        prompt, *models, judge = (str(record.get(name)) for name in names)
        table.add_vote(prompt, models, winner, judge, "alpaca_eval", {"dataset": record.get("dataset")})


def _read_arena_hard(table: _Table, files: Sequence[Path]) -> None:
    seen: dict[tuple[str, ...], Path] = {}
    for file, record in _records_in(files):
        prompt, *models, judge = (str(record.get(name)) for name in ("uid", "baseline", "model", "judge"))
        other = seen.setdefault((prompt, *models, judge), file)
        if other != file:
            raise DataError(
                f"{str(file)!r} and {str(other)!r} both judge {models[1]!r} on {prompt!r}; read one of them"
            )
        games = list(record.get("games") or [])
        # A judgment has two games; one that is not there is a missing vote.
        for number, game in enumerate([*games, *[None] * (2 - len(games))]):
            # The first game shows the baseline first, the second one the model.
            shown, grade = models if number % 2 == 0 else models[::-1], (game or {}).get("score")
            further = {"category": record.get("category"), "grade": grade}
            table.add_vote(prompt, shown, _verdict(grade, file), judge, "arena_hard", further)


def _read_mt_bench_pair(table: _Table, files: Sequence[Path]) -> None:
    table.clusters = ["question"]
    for file, record in _records_in(files):
        question, turn, judge = record["question_id"], record.get("turn", 1), record.get("judge")
        names_of_judge = ", ".join(map(str, judge)) if isinstance(judge, list) else str(judge)
        for game, names in (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1"))):
            verdict = record.get(f"{game}_winner")
            labels = {names[0]: "model_a", names[1]: "model_b", "tie": "tie", "error": None, None: None}
            if verdict not in labels:
                raise DataError(f"{str(file)!r} has the verdict {verdict!r}; MT-Bench's are {listed(map(str, labels))}")
            models = [str(record.get(name)) for name in names]
            # A prompt is a turn of a question.
            further = {"question": question, "turn": turn}
            table.add_vote(f"{question} turn {turn}", models, labels[verdict], names_of_judge, "mt_bench", further)


def _records_in(files: Sequence[Path]) -> Iterator[tuple[Path, Record]]:
    """Yield the records of files of either kind, each with its file."""
    for file in files:
        for record in read_lines(file) if ending(file) == ".jsonl" else records_of(read_json(file), file):
            yield file, record


def _verdict(verdict: Any, file: Path) -> str | None:
    """Return the label of a verdict on the answers A and B; None where there is none."""
    if verdict is None:
        return None
    word = str(verdict).strip("[] ")
    if word not in _VERDICTS:
        raise DataError(f"{str(file)!r} has the verdict {verdict!r}; those that are read are {listed(_VERDICTS, 20)}")
    return _VERDICTS[word]


def _baseline(table: pd.DataFrame) -> str | None:
    """Return the model that is in every comparison, where there are at least three models."""
    pairs = {frozenset(pair) for pair in zip(table["model_a"], table["model_b"], strict=True)}
    shared = frozenset.intersection(*pairs)
    return str(*shared) if len(shared) == 1 and len(pairs) > 1 else None


# --- Every Eval Ever, promptfoo ---------------------------------------------------------------------------------------


def _read_every_eval_ever(table: _Table, files: Sequence[Path], metric: str | None) -> None:
    table.notes.append("where the harness's own log is there, read that: Every Eval Ever has no runs")
    seen: dict[tuple[str, str, str], list[float]] = {}
    lower: dict[str, bool] = {}
    there = {str(line.get("evaluation_name", "")) for file in files for line in read_lines(file)}
    chosen = _choose("metric", metric, there, "the log")
    for file in files:
        # The file beside the samples says what the metric of an evaluation is.
        stem, marker, _ = file.name.partition("_samples.jsonl")
        beside = file.with_name(f"{stem}.json")
        results = read_json(beside).get("evaluation_results") or [] if marker and beside.is_file() else []
        configs = [one.get("metric_config") or {} for one in results if one.get("evaluation_name") == chosen]
        config = configs[0] if configs else {}
        sign = _sign(table, chosen, lower, file.name, is_lower=config.get("lower_is_better") is True)
        judges = [judge.get("model_info") or {} for judge in (config.get("llm_scoring") or {}).get("judges") or []]
        judge = {"judge": ", ".join(str(one.get("id") or one.get("name")) for one in judges)} if judges else {}
        for line in read_lines(file):
            if str(line.get("evaluation_name", "")) != chosen:
                continue
            result, error = line.get("evaluation") or {}, line.get("error")
            value = result.get("score", result.get("is_correct"))
            if value == -1 and config.get("has_unknown_level"):
                value = None
            model, sample = str(line.get("model_id")), str(line.get("sample_hash") or line.get("sample_id"))
            # The task is the evaluation, after its benchmark where the identifier is BENCHMARK/MODEL/TIME.
            about = str(line.get("evaluation_id"))
            benchmark = about.split("/")[0] if about.count("/") > 1 else ""
            task = "/".join(dict.fromkeys(name for name in (benchmark, chosen) if name)) or about
            score = np.nan if error else sign * _score(value, f"{str(file)!r}, sample {line.get('sample_id')!r}")
            runs = seen.setdefault((model, task, sample), [])
            runs.append(score)
            further = judge | _plain(line.get("metadata"))
            table.add_score(f"{task}/{sample}", model, score, len(runs), task, further, error)
    repeated = [values for values in seen.values() if len(values) > 1]
    equal = sum(bool(np.isclose(values, values[0], equal_nan=True).all()) for values in repeated)
    if 0 < equal < len(repeated):
        table.notes.append(f"{equal:,} of {len(repeated):,} samples with several lines have one score in all of them")
    if repeated and equal == len(repeated):
        raise DataError(
            f"{len(repeated):,} samples stand in the log several times with one score: converters write the reduced "
            f"score for every epoch; read the harness's own log, or keep one line of each sample"
        )


def _read_promptfoo(table: _Table, files: Sequence[Path], metric: str | None) -> None:
    runs: Counter[tuple[str, str]] = Counter()
    for file in files:
        log = read_json(file)
        records = records_of((log.get("results") or {}).get("results"), file)
        task = str((log.get("config") or {}).get("description") or "promptfoo")
        # promptIdx numbers the pairs of provider and prompt; the label is that of the prompt.
        labels = [str((record.get("prompt") or {}).get("label"))[:80] for record in records]
        named = {name for record in records for name in (record.get("namedScores") or {})}
        if metric is not None:
            _choose("metric", metric, named, f"{str(file)!r}")
        for record, label in zip(records, labels, strict=True):
            provider = record.get("provider") or {}
            model = str(provider.get("label") or provider.get("id")) if isinstance(provider, dict) else str(provider)
            if len(set(labels)) > 1:
                model = f"{model} x {label}"
            prompt = table.once(f"{task}/{json.dumps(record.get('vars') or {}, sort_keys=True, ensure_ascii=False)}")
            runs[prompt, model] += 1
            # Reason 1 is an assertion that failed, a score; without a reason, an error that was not graded is no score.
            reason, is_graded = record.get("failureReason"), bool(record.get("gradingResult"))
            failed = reason == 2 or (reason in (None, 0) and bool(record.get("error")) and not is_graded)
            value = record.get("score") if metric is None else (record.get("namedScores") or {}).get(metric)
            score = np.nan if failed else _score(value, f"{str(file)!r}, test {record.get('testIdx')}")
            error = str(record.get("error") or "error")[:200] if failed else None
            costs = {"cost": record.get("cost"), "latency_ms": record.get("latencyMs")}
            further = _plain(record.get("namedScores")) | costs
            table.add_score(prompt, model, score, runs[prompt, model], task, further, error)


# Columns that identify a vote of LMArena, and the cells of a column of 0 and 1 that mean 1.
_VOTE_IDENTIFIERS = ("question_id", "conversation_id", "evaluation_session_id", "id")
_TRUE = ("1", "1.0", "True", "true")


def _read_lmarena(table: _Table, files: Sequence[Path]) -> None:
    """Read votes with one column for the winner, or with a column of 0 and 1 for each outcome."""
    columns = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
    known = {"model_a", "model_b", "winner", "judge", *columns}
    for file in files:
        rows = read_csv(file) if ending(file) == ".csv" else (record for _, record in _records_in([file]))
        for number, record in enumerate(rows):
            if not {"model_a", "model_b"} <= record.keys():
                raise DataError(
                    f"{str(file)!r} has no columns 'model_a' and 'model_b'; the columns are {listed(record)}"
                )
            identifiers = (record.get(name) for name in _VOTE_IDENTIFIERS)
            prompt = str(next((one for one in identifiers if one is not None), number))
            winner = record.get("winner")
            if "winner" not in record:
                winner = next((label for name, label in columns.items() if str(record.get(name)) in _TRUE), None)
            further = {
                name: cell for name, cell in record.items() if name not in known and not isinstance(cell, list | dict)
            }
            if "prompt" in further:
                further["text"] = further.pop("prompt")
            models = (record["model_a"], record["model_b"])
            table.add_vote(prompt, models, winner, record.get("judge"), "lmarena", further)


# The reader of every kind, and the options that say what it takes.
READERS: Mapping[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "inspect": (_read_inspect, ("scorer",)),
    "lm_eval": (_read_lm_eval, ("metric", "filter")),
    "alpaca_eval": (_read_alpaca_eval, ()),
    "arena_hard": (_read_arena_hard, ()),
    "mt_bench_pair": (_read_mt_bench_pair, ()),
    "every_eval_ever": (_read_every_eval_ever, ("metric",)),
    "promptfoo": (_read_promptfoo, ("metric",)),
    "lmarena": (_read_lmarena, ()),
}

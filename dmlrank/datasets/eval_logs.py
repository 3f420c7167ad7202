"""Logs of evaluation harnesses as tables of scores or votes: one reader for each format, and one for all of them."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from .._utils.argument_checks import checked
from ..data.arrays import number_in_cell
from ..data.pairs_from_scores import GRADES
from ..exceptions import DataError, OptionError, check_choice, listed, nearest, shown
from .log_files import (
    LOG_ENDINGS,
    Entry,
    ending,
    log_files,
    parsed,
    read_csv,
    read_json,
    read_lines,
    readable,
    zip_member,
)

LogPath: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
_SCORE_COLUMNS = ("prompt", "model", "score", "run", "task")
# The kinds of logs that hold votes.
_OF_VOTES = ("alpaca_eval", "arena_hard", "mt_bench_pair", "lmarena")
_VOTE_COLUMNS = ("prompt", "model_a", "model_b", "winner", "judge", "task")
# Names of metadata and of named scores that would take the place of a column.
_OWN_COLUMNS = frozenset((*_SCORE_COLUMNS, *_VOTE_COLUMNS, "cost", "latency_ms", "error"))
# Grades, and words for right and wrong.
_GRADES = {**GRADES, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
# Verdicts on A and B; Arena-Hard's judges also write B>A as A<B, and A>B as B<A.
_VERDICTS = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A", "A++", "A+", "A"), "model_a"),
    **dict.fromkeys(("B>>A", "B>A", "A<B", "A<<B", "B++", "B+", "B"), "model_b"),
    **dict.fromkeys(("A=B", "B=A", "tie"), "tie"),
    "N/A": None,
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
# Columns of a model's usage in a sample of inspect_ai.
_USAGE = {name: name for name in ("input_tokens", "output_tokens", "total_tokens")} | {"total_cost": "cost"}
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
        self.first = _VOTE_COLUMNS if kind in _OF_VOTES else _SCORE_COLUMNS
        self.columns: dict[str, list[Any]] = {}
        self.n_rows = 0
        self.notes: list[str] = []
        self.clusters: list[str] = []
        # What a prompt's name stands for; the scorer, metric or filter of each task, with the first file that has it.
        self._prompts: dict[str, tuple[str, Any]] = {}
        self._choices: dict[tuple[str, str], tuple[str, Path]] = {}
        # Names that occur in many rows are kept once.
        self._texts: dict[str, str] = {}

    def prompt(self, task: str, identifier: Any) -> str:
        """Return the name of a prompt, its task and its identifier; refuse another prompt of the same name."""
        name, about = self.once(f"{task}/{identifier}"), (task, identifier)
        known = self._prompts.setdefault(name, about)
        if known != about:
            raise DataError(f"two prompts have the name {name!r}, {known!r} and {about!r}; read the tasks one by one")
        return name

    def agree(self, option: str, task: str, chosen: str, file: Path) -> None:
        """Refuse files of a task of which other scorers, metrics or filters are read: they cannot be compared."""
        known, other = self._choices.setdefault((option, task), (chosen, file))
        if known != chosen:
            raise OptionError(
                f"the logs of task {task!r} have different values of {option}: {known!r} in {str(other)!r} and "
                f"{chosen!r} in {str(file)!r}; name one that all have with {option}=, or leave files out"
            )

    def add(self, *cells: Any, further: Mapping[str, Any] = {}, error: Any = None) -> None:
        """Add the cells of the first columns, with a score of NaN where an error left none, and of ``further`` ones."""
        row = {**dict(zip(self.first, cells, strict=True)), **further}
        if "score" in row:
            row["error"] = str(error)[:200] if error else "no score" if np.isnan(row["score"]) else None
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (self.n_rows - len(column)))
            column.append(self.once(value) if isinstance(value, str) else value)
        self.n_rows += 1

    def once(self, text: str) -> str:
        """Return the copy of a text that is kept."""
        return self._texts.setdefault(text, text)

    def frame(self, task: Sequence[str] | None) -> pd.DataFrame:
        """Return the rows as a frame with its report in ``attrs``; ``task`` has the tasks that were asked for."""
        if not self.n_rows:
            of_task, remedy = (f" of task={listed(task)}", "another or no task=, or ") if task else ("", "")
            raise DataError(
                f"{listed(map(str, self.files))}: no sample{of_task}, read as {self.kind!r}; pass {remedy}another "
                f"kind={listed(READERS)}"
            )
        is_votes = "winner" in self.first
        for column in self.columns.values():
            column.extend([None] * (self.n_rows - len(column)))
        table = pd.DataFrame({name: self.columns[name] for name in [*self.first, *self.columns]})
        runs = 1 if is_votes else int(table["run"].nunique())
        baseline = None
        if is_votes:
            # The model that is in every comparison, where there are at least three models.
            pairs = {frozenset(pair) for pair in zip(table["model_a"], table["model_b"], strict=True)}
            shared = frozenset.intersection(*pairs)
            baseline = str(*shared) if len(shared) == 1 and len(pairs) > 1 else None
            judges = table["judge"].unique()
            if (table.groupby(["prompt", "model_a", "model_b"])["judge"].nunique() > 1).any():
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
            models=sorted({model for name in self.first if name.startswith("model") for model in table[name].unique()}),
            prompts=int(table["prompt"].nunique()),
            runs=runs,
            tasks=sorted(map(str, table["task"].unique())),
            rows=self.n_rows,
            missing=int(table["winner" if is_votes else "score"].isna().sum()),
            errors=dict(Counter(table["error"].dropna()) if "error" in table else ()),
            notes=list(dict.fromkeys(self.notes)),
            fit=fit,
        )
        return table


@checked
def read_log(
    path: LogPath,
    kind: str | None = None,
    metric: str | None = None,
    filter: str | Mapping[str, str] | None = None,
    scorer: str | None = None,
    task: str | Sequence[str] | None = None,
    *,
    skip_damaged: bool = False,
) -> pd.DataFrame:
    """Read what an evaluation harness has written, as a table of scores or of votes.

    Nothing is guessed: where a log has several metrics, filters or scorers, the error lists them. A score that is not
    there is missing, never zero.

    Parameters
    ----------
    path : str, path or list of them
        A file, a folder, or a pattern such as ``"logs/*.eval"``; files may end with ``.gz`` or ``.zst``, not ``.eval``.
    kind : str, optional
        ``"inspect"`` (inspect_ai, ``.eval`` and ``.json``), ``"lm_eval"`` (lm-evaluation-harness with
        ``--log_samples``), ``"alpaca_eval"``, ``"arena_hard"``, ``"mt_bench_pair"``, ``"every_eval_ever"``,
        ``"promptfoo"`` or ``"lmarena"`` (votes with ``model_a``, ``model_b`` and ``winner`` as LMArena publishes them,
        in csv or JSON); by default it is recognised, but for votes in JSON. Logs of other kinds in a folder are then
        left out and named in the report.
    metric : str, optional
        The metric of lm-evaluation-harness, named score of promptfoo or evaluation of Every Eval Ever.
    filter : str or mapping, optional
        The filter of lm-evaluation-harness; by task where they differ: ``{"gsm8k": "strict-match"}``.
    scorer : str, optional
        The scorer of inspect_ai, where there are several; ``"name.key"`` for a scorer that gives several values.
    task : str or sequence of str, optional
        The tasks that are read, of inspect_ai, lm-evaluation-harness and Every Eval Ever; all by default.
    skip_damaged : bool
        Whether files that cannot be read are left out and named in the report; by default they are errors.

    Returns
    -------
    pandas.DataFrame
        Scores have the columns ``prompt``, ``model``, ``score``, ``run`` and ``task``, votes ``prompt``, ``model_a``,
        ``model_b``, ``winner`` (a label, or the share of a win for ``model_a``), ``judge`` and ``task``; then columns
        of the log's metadata, and ``error`` where a score is missing. ``attrs["report"]`` is a dictionary of counts,
        errors and notes, whose text says the same in lines; its entry ``"fit"`` has the arguments of the fit that the
        log suggests: ``dml_rank(data=table, **table.attrs["report"]["fit"])``. Scores are multiplied by -1 where the
        log says that smaller values are better.

    Raises
    ------
    DataError
        If a file cannot be read, was cancelled, lacks a field or holds no numbers, or if files contradict each other.
    OptionError
        If several metrics, filters or scorers are there and none is named, or a name is unknown.

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
    if kind is not None:
        check_choice(kind, READERS, "kind")
    damaged: list[str] = []
    files = files_by_kind(path, damaged if skip_damaged else None)
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
    table.notes += [f"damaged and left out: {reason}" for reason in damaged]
    chosen: dict[str, Any] = {"metric": metric, "filter": filter, "scorer": scorer, "task": task}
    reader, options = READERS[kind]
    for name, value in chosen.items():
        if value is not None and name not in options:
            raise OptionError(f"{name}={value!r} says nothing about a log of {kind}; leave it out")
    chosen["task"] = [task] if isinstance(task, str) else task
    reader(table, used, **{name: chosen[name] for name in options})
    return table.frame(chosen["task"])


def files_by_kind(path: LogPath, damaged: list[str] | None = None) -> dict[str, list[Path]]:
    """Return files by the kind of their log, empty where unknown; ``damaged``, if given, gets what cannot be read."""
    kinds: dict[str, list[Path]] = {}
    for file in log_files(path):
        try:
            if not file.stat().st_size:
                raise DataError(f"{str(file)!r} is empty: its run wrote nothing; leave the file out, or run it again")
            kind = _kind_of(file)
            if damaged is not None and ending(file) == ".eval":
                _inspect_header(file)
                _inspect_member(file, "summaries.json")
            elif damaged is not None and ending(file) == ".jsonl":
                deque(read_lines(file), maxlen=0)  # raises where the file cannot be read to its end
        except DataError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
            continue
        if kind is not None:
            kinds.setdefault(kind, []).append(file)
    return dict(sorted(kinds.items()))


def _kind_of(file: Path) -> str | None:
    """Return the kind of a log by its first keys; empty where it is no log, None where it is read beside one."""
    if ending(file) == ".eval":
        return "inspect"
    if file.name.startswith("results_") and ending(file) == ".json" and any(file.parent.glob("samples_*")):
        return None
    if ending(file) == ".csv":
        return "lmarena" if {"model_a", "model_b"} <= next(iter(read_csv(file)), {}).keys() else ""
    if ending(file) not in LOG_ENDINGS:
        return ""
    content = read_json(file) if ending(file) == ".json" else read_lines(file)
    first = next(iter(content), None) if isinstance(content, Iterable) and not isinstance(content, dict) else content
    keys = first if isinstance(first, dict) else {}
    if isinstance(results := keys.get("results"), dict) and isinstance(results.get("results"), list):
        return "promptfoo"
    return next((kind for kind, known in _KEYS.items() if keys.keys() >= set(known)), "")


def _score(value: Any, where: str) -> float:
    """Return a score as a number, NaN where there is none; refuse what is no number."""
    number: Any = _GRADES.get(value, _GRADES.get(value.lower(), value)) if isinstance(value, str) else value
    # Words for a missing number are missing, but an empty text is none.
    with suppress(ValueError, OverflowError):
        score = number_in_cell(number if number != "" else "?")
        if abs(score) != np.inf:
            return score
    raise DataError(f"{where} has the score {shown(value, 80)}, no finite number; name another scorer or metric")


def _choose(
    name: str,
    given: str | Mapping[str, str] | None,
    there: Iterable[str],
    where: str,
    prefix: str = "",
    task: str | None = None,
) -> str:
    """Return the name that was asked for, or the only one there is; ``prefix`` stands before names in an option.

    With a ``task``, names may be given by task.
    """
    names = sorted(set(there))
    by_task = "" if task is None or not names else f"; tasks that differ: {name}={{{task!r}: {names[0]!r}, ...}}"
    given = given.get(str(task)) if isinstance(given, Mapping) else given
    if given is not None:
        if given not in names:
            hint = f"{nearest(str(given), names)}{by_task}"
            raise OptionError(f"{where} has no {name} {given!r}; it has {listed(names) or 'none'}{hint}")
        return given
    if len(names) != 1:
        said = f"name one with {name}= (--{name}), such as {prefix + names[0]!r}" if names else "it holds none"
        raise OptionError(f"{where} has {len(names)} values of {name}: {listed(names)}; {said}{by_task}")
    return names[0]


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries of metadata that fit into a cell; ``log_`` stands before names that the table needs itself."""
    return {
        f"log_{k}" if k in _OWN_COLUMNS else str(k): v
        for k, v in (values or {}).items()
        if isinstance(v, str | int | float | bool) or v is None
    }


# --- inspect_ai -------------------------------------------------------------------------------------------------------


def _read_inspect(table: _Table, files: Sequence[Path], scorer: str | None, task: str | Sequence[str] | None) -> None:
    documents: dict[str, tuple[int, str]] = {}
    other_documents: Counter[tuple[str, str]] = Counter()
    ages, names = [], _inspect_models(files)
    for file in files:
        header = _inspect_header(file)
        about, is_done = header.entry("eval"), header.name_or("status", "") == "success"
        age = (is_done, about.name_or("created", ""), file.name, file)
        if task is None or about.name("task") in task:
            ages.append(((names[file], about.name("task")), age, file))
    logs = _newest(table, ages, "another log of {} on {} was taken, the newest complete one")
    for (model, of_task), file in logs.items():
        header = _inspect_header(file)
        if ending(file) == ".json":
            samples = header.entries("samples")
        else:
            found = _inspect_member(file, "summaries.json")
            samples = Entry({"samples": found}, repr(str(file))).entries("samples")
        status, where = header.name_or("status", "started"), f"{str(file)!r}"
        if status in ("cancelled", "started"):
            raise DataError(f"{where} was {status}, not run to its end; leave the file out, or run it again")
        if status != "success":
            table.notes.append(f"{file.name} ended with status {status!r}: samples without a score are missing")
        about = header.entry("eval")
        if not samples:
            raise DataError(
                f"{where} has no sample of {model!r}; leave the file out, or run it again with samples logged"
            )
        config, size = about.entry("config"), about.entry("dataset").whole_or("samples", 0)
        planned = size * config.whole_or("epochs", 1) if config.fields.get("limit") is None else 0
        if len(samples) < planned:
            table.notes.append(f"{file.name} has {len(samples):,} of {planned:,} samples; the others are missing")
        there = {name for sample in samples for name in sample.entry("scores").fields}
        chosen, _, key_of_value = (scorer or "").partition(".")
        if scorer in there:
            chosen, key_of_value = str(scorer), ""
        if there or chosen:
            chosen = _choose("scorer", chosen or None, there, where)
        for found in samples:
            identifier = found.name("id")
            sample = Entry(found.fields, f"{found.where}, sample {identifier}")
            prompt = table.prompt(of_task, found.fields["id"])
            name = f"{where}, sample {found.fields['id']!r}"
            if "input" in sample.fields:
                document = hash(json.dumps(sample.fields["input"], sort_keys=True))
                known, other = documents.setdefault(prompt, (document, model))
                other_documents[model, other] += known != document
            value, scored = sample.entry("scores").entry(chosen).fields.get("value"), chosen
            if isinstance(value, dict):
                part = _choose("scorer", key_of_value or None, value, f"{name}, scorer {chosen!r},", f"{chosen}.")
                value, scored = value[part], f"{chosen}.{part}"
            if value is not None:
                table.agree("scorer", of_task, scored, file)
            # A sample that met a limit is scored by the harness; one that failed is not.
            error = sample.fields.get("error")
            score = np.nan if error else _score(value, name)
            error = error or (sample.fields.get("limit") if np.isnan(score) else None)
            timing = {name: sample.fields[name] for name in ("total_time", "limit") if name in sample.fields}
            further = _plain(sample.entry("metadata").fields) | _plain(timing) | _usage(sample)
            # An error or a limit may be an object with a message or a type.
            said = (error.get("message") or error.get("type") or "error") if isinstance(error, dict) else error
            table.add(prompt, model, score, sample.whole_or("epoch", 1), of_task, further=further, error=said)
    table.notes += [
        f"{count:,} samples of {model!r} have another input than those of {other!r}: are the tasks of one version?"
        for (model, other), count in other_documents.items()
        if count
    ]


def _inspect_models(files: Sequence[Path]) -> dict[Path, str]:
    """Return the model of each file; checkpoints of one model have the arguments that differ in their names."""
    about = {file: _inspect_header(file).entry("eval") for file in files}
    arguments = {file: one.entry("model_args").fields for file, one in about.items()}
    names = {}
    for file, one in about.items():
        model = one.name("model")
        alike = [arguments[other] for other, two in about.items() if two.name("model") == model]
        differs = sorted(key for key in {*chain(*alike)} if any(two.get(key) != alike[0].get(key) for two in alike))
        said = ", ".join(f"{key}={arguments[file].get(key)}" for key in differs)
        names[file] = f"{model} ({said})" if differs else model
    return names


def _usage(sample: Entry) -> dict[str, float]:
    """Return the tokens and the costs of a sample, summed over the models that it used."""
    usage = sample.entry("model_usage")
    totals: dict[str, float] = {}
    for model, (name, column) in product(usage.fields, _USAGE.items()):
        if (number := usage.entry(model).number_or(name, None)) is not None:
            totals[column] = totals.get(column, 0) + number
    return totals


def _newest(table: _Table, logs: Iterable[tuple[tuple[str, str], Any, Path]], said: str) -> dict[tuple[str, str], Path]:
    """Return the newest log of every model and task, from the age of each, sorted by file; the others are noted."""
    kept: dict[tuple[str, str], Path] = {}
    for key, _, file in sorted(logs, key=lambda log: log[1], reverse=True):
        if kept.setdefault(key, file) != file:
            table.notes.append(f"not used, {said.format(*key)}: {file.name}")
    return dict(sorted(kept.items(), key=lambda item: item[1]))


def _inspect_header(file: Path) -> Entry:
    """Return what a log says of itself; of a .json log this is all of it."""
    if ending(file) == ".json":
        return Entry.of_file(file)
    header = _inspect_member(file, "header.json", "_journal/start.json")
    if header is None:
        raise DataError(f"{str(file)!r} has no header.json: the log was not written to its end")
    return Entry.of(header, repr(str(file)))


def _inspect_member(file: Path, *names: str) -> Any:
    """Return the value of the first of these members that an .eval file has."""
    if file.suffix.lower() != ".eval":
        raise DataError(f"{str(file)!r}: an .eval file is compressed in itself; unpack {file.suffix} first")
    with readable(file), zipfile.ZipFile(file) as archive:
        contents = (zip_member(archive, name, file) for name in names)
        return next((parsed(content, file) for content in contents if content is not None), None)


# --- lm-evaluation-harness --------------------------------------------------------------------------------------------

_SAMPLES_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?$")


def _read_lm_eval(
    table: _Table,
    files: Sequence[Path],
    metric: str | None,
    filter: str | Mapping[str, str] | None,
    task: str | Sequence[str] | None,
) -> None:
    # What the results beside samples say of the model, of a limit, and of metrics whose smaller values are better.
    beside: dict[Path, dict[str, Entry]] = {}
    for folder in {file.parent for file in files}:
        beside[folder] = {
            path.name.removeprefix("results_").split(".json")[0]: Entry.of_file(path)
            for path in sorted(folder.glob("results_*.json*"))
            if ending(path) == ".json"
        }
    named = []
    for file in files:
        name = _SAMPLES_NAME.match(file.name.split(".jsonl")[0])
        if name is None:
            raise DataError(f"{file.name!r} is not named samples_TASK_DATE.jsonl; rename it, so that its task is known")
        # The model is that of the results beside the file, or of the name of its folder.
        results, date = beside[file.parent], name["date"] or ""
        models = {model for one in results.values() if (model := one.name_or("model_name", None))}
        model = models.pop() if len(models) == 1 else file.absolute().parent.name.replace("__", "/")
        limit = results[date].entry("config").fields.get("limit") if date in results else None
        if task is None or name["task"] in task:
            named.append(((model, name["task"]), (limit is None, date), file))
    copies: dict[tuple[str, str, str], list[Any]] = {}
    hashes: dict[tuple[str, Any], tuple[str, str]] = {}
    lower: dict[str, bool] = {}
    directions = [one.entry("higher_is_better") for results in beside.values() for one in results.values()]
    said = "older than another log of {} on {}, or run with a limit"
    for (model, of_task), file in _newest(table, named, said).items():
        where = f"{str(file)!r}"
        lines = [Entry(line, f"{where}, line {number}") for number, line in enumerate(read_lines(file), start=1)]
        filters = {line.name_or("filter", "none") for line in lines}
        chosen_filter = _choose("filter", filter, filters, where, task=of_task)
        lines = [line for line in lines if line.name_or("filter", "none") == chosen_filter]
        lines.sort(key=lambda line: line.name("doc_id").zfill(12))
        metrics = [line.fields.get("metrics") or sorted(set(line.fields) - _NO_METRIC) for line in lines]
        there = {name for names in metrics if isinstance(names, list) for name in names if isinstance(name, str)}
        chosen = _choose("metric", metric, there, where)
        table.agree("filter", of_task, chosen_filter, file)
        table.agree("metric", of_task, chosen, file)
        is_lower = any(of_tasks.entry(of_task).fields.get(chosen) is False for of_tasks in directions)
        sign = _sign(table, chosen, lower, of_task, is_lower=is_lower)
        seen: set[str] = set()
        for line in lines:
            doc_id = line.name("doc_id")
            if doc_id in seen:
                raise DataError(
                    f"{where} has doc_id {doc_id} twice with the filter {chosen_filter!r}: filters without a name, or "
                    f"runs put together, cannot be told apart; keep one line of a document"
                )
            seen.add(doc_id)
            doc_key, doc = line.name_or("doc_hash", doc_id), (of_task, doc_id)
            known, other = hashes.setdefault(doc, (doc_key, model))
            if known != doc_key:
                raise DataError(
                    f"task {of_task!r}: doc_id {doc_id} is another document for {model!r} than for {other!r} (doc_hash "
                    f"{doc_key[:12]} and {known[:12]}): read logs of one version of the task"
                )
            value = line.fields.get(chosen)
            if isinstance(value, list):
                raise DataError(f"{where}: the metric {chosen!r} is a list, not a score of one document; name another")
            score = sign * _score(value, f"{where}, doc_id {doc_id}")
            # A document that stands in the task twice counts twice, as it does in the harness's mean.
            places = copies.setdefault((model, of_task, doc_key), [])
            places.append(doc_id)
            copy = f" #{len(places)}" if len(places) > 1 else ""
            table.add(table.prompt(of_task, f"{doc_key}{copy}"), model, score, 1, of_task)


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
    for _, record in _entries_in(files):
        preference = record.number_or("preference", None)
        # Older versions wrote 0 for a draw.
        preference = 1.5 if preference == 0 else None if preference != preference else preference
        if preference is not None and not 1 <= preference <= 2:
            raise DataError(f"{record.where} has the preference {preference!r}; AlpacaEval's lie in [1, 2]")
        # preference - 1 is the share of a win for the second answer.
        winner = np.nan if preference is None else 2.0 - preference
        prompt, *models = (record.name(name) for name in ("instruction", "generator_1", "generator_2"))
        judge, further = record.name_or("annotator", None), {"dataset": record.name_or("dataset", None)}
        table.add(prompt, *models, winner, judge, "alpaca_eval", further=further)


def _read_arena_hard(table: _Table, files: Sequence[Path]) -> None:
    seen: dict[tuple[str | None, ...], tuple[Path, list[Any]]] = {}
    n_again = 0
    for file, record in _entries_in(files):
        prompt, *models = (record.name(name) for name in ("uid", "baseline", "model"))
        judge, games = record.name_or("judge", None), record.entries("games")
        grades = [game.name_or("score", None) for game in games]
        other, known = seen.setdefault((prompt, *models, judge), (file, grades))
        if known is not grades and known == grades:
            n_again += 1
            continue
        if other != file:
            raise DataError(
                f"{str(file)!r} and {str(other)!r} both judge {models[1]!r} on {prompt!r}, and differ; read one of them"
            )
        # A judgment has two games; one that is not there is a missing vote.
        for number, grade in enumerate([*grades, *[None] * (2 - len(grades))]):
            # The first game shows the baseline first, the second one the model.
            shown = models if number % 2 == 0 else models[::-1]
            further = {"category": record.name_or("category", None), "grade": grade}
            word = "N/A" if grade is None else grade.strip("[] ")
            if word not in _VERDICTS:
                raise DataError(f"{str(file)!r} has the verdict {grade!r}; allowed: {listed(_VERDICTS, 20)}")
            table.add(prompt, *shown, _VERDICTS[word], judge, "arena_hard", further=further)
    if n_again:
        table.notes.append(f"{n_again:,} judgments stand in the files twice, and count once")


def _read_mt_bench_pair(table: _Table, files: Sequence[Path]) -> None:
    table.clusters = ["question"]
    for _, record in _entries_in(files):
        question, turn = record.name("question_id"), record.whole_or("turn", 1)
        for game, names in (("g1", ("model_1", "model_2")), ("g2", ("model_2", "model_1"))):
            verdict = record.name_or(f"{game}_winner", None)
            labels = {names[0]: "model_a", names[1]: "model_b", "tie": "tie", "error": None, None: None}
            if verdict not in labels:
                raise DataError(f"{record.where} has the verdict {verdict!r}; allowed: {listed(map(str, labels))}")
            models = [record.name(name) for name in names]
            further = {"question": record.fields["question_id"], "turn": turn}
            prompt, judge = f"{question} turn {turn}", record.names("judge")
            table.add(prompt, *models, labels[verdict], judge, "mt_bench", further=further)


def _entries_in(files: Sequence[Path]) -> Iterator[tuple[Path, Entry]]:
    """Yield the records of files of any kind, each with its file and its place there."""
    for file in files:
        records = read_csv(file) if ending(file) == ".csv" else read_lines(file)
        for number, record in enumerate(records, start=1):
            yield file, Entry(record, f"{str(file)!r}, record {number}")


# --- Every Eval Ever, promptfoo ---------------------------------------------------------------------------------------


def _read_every_eval_ever(
    table: _Table, files: Sequence[Path], metric: str | None, task: str | Sequence[str] | None
) -> None:
    table.notes.append("where the harness's own log is there, read that: Every Eval Ever has no runs")
    seen: dict[tuple[str, str, str], list[float]] = {}
    lower: dict[str, bool] = {}
    there = {line.name_or("evaluation_name", "") for _, line in _entries_in(files)}
    chosen = _choose("metric", metric, there, "the log")
    for file in files:
        # The file beside the samples says what the metric of an evaluation is.
        stem, marker, _ = file.name.partition("_samples.jsonl")
        beside = file.with_name(f"{stem}.json")
        results = Entry.of_file(beside).entries("evaluation_results") if marker and beside.is_file() else []
        configs = [one.entry("metric_config") for one in results if one.name_or("evaluation_name", "") == chosen]
        config = configs[0] if configs else Entry({}, repr(str(beside)))
        sign = _sign(table, chosen, lower, file.name, is_lower=config.fields.get("lower_is_better") is True)
        judges = [judge.entry("model_info") for judge in config.entry("llm_scoring").entries("judges")]
        names = [one.name_or("id", "") or one.name("name") for one in judges]
        judge = {"judge": ", ".join(names)} if judges else {}
        for _, line in _entries_in([file]):
            if line.name_or("evaluation_name", "") != chosen:
                continue
            result, error = line.entry("evaluation"), line.fields.get("error")
            value = result.fields.get("score", result.fields.get("is_correct"))
            if value == -1 and config.fields.get("has_unknown_level"):
                value = None
            model, sample = line.name("model_id"), line.name_or("sample_hash", "") or line.name("sample_id")
            # The task is the evaluation, after its benchmark where the identifier is BENCHMARK/MODEL/TIME.
            about = line.name("evaluation_id")
            benchmark = about.split("/")[0] if about.count("/") > 1 else ""
            of_task = "/".join(dict.fromkeys(name for name in (benchmark, chosen) if name)) or about
            if task is not None and of_task not in task:
                continue
            score = np.nan if error else sign * _score(value, f"{line.where}, sample {sample!r}")
            runs = seen.setdefault((model, of_task, sample), [])
            runs.append(score)
            further = judge | _plain(line.entry("metadata").fields)
            prompt = table.prompt(of_task, sample)
            table.add(prompt, model, score, len(runs), of_task, further=further, error=error)
    repeated = [values for values in seen.values() if len(values) > 1]
    equal = sum(bool(np.isclose(values, values[0], equal_nan=True).all()) for values in repeated)
    if 0 < equal < len(repeated):
        table.notes.append(f"{equal:,} of {len(repeated):,} samples with several lines have one score in all of them")
    if repeated and equal == len(repeated):
        raise DataError(
            f"{len(repeated):,} samples stand in the log several times with one score, the reduced one of all epochs; "
            f"read the harness's own log, or keep one line of each sample"
        )


def _read_promptfoo(table: _Table, files: Sequence[Path], metric: str | None) -> None:
    runs: Counter[tuple[str, str]] = Counter()
    for file in files:
        log = Entry.of_file(file)
        records = log.entry("results").entries("results")
        task = log.entry("config").name_or("description", None) or "promptfoo"
        # promptIdx numbers the pairs of provider and prompt; the prompt's label is by default its whole text.
        labels = [
            record.entry("prompt").name_or("label", "")
            if isinstance(record.fields.get("prompt"), dict)
            else record.name_or("prompt", "")
            for record in records
        ]
        named = {name for record in records for name in record.entry("namedScores").fields}
        if metric is not None:
            _choose("metric", metric, named, f"{str(file)!r}")
        for record, label in zip(records, labels, strict=True):
            if isinstance(record.fields.get("provider"), dict):
                provider = record.entry("provider")
                model = provider.name_or("label", None) or provider.name("id")
            else:
                model = record.name("provider")
            if len(set(labels)) > 1:
                model = f"{model} x {label}"
            variables = json.dumps(record.entry("vars").fields, sort_keys=True, ensure_ascii=False)
            prompt = table.prompt(task, variables)
            runs[prompt, model] += 1
            # Reason 1 is an assertion that failed, a score; without a reason, an error that was not graded is no score.
            reason, is_graded = record.number_or("failureReason", None), bool(record.fields.get("gradingResult"))
            failed = reason == 2 or (reason in (None, 0) and bool(record.fields.get("error")) and not is_graded)
            scores = record.entry("namedScores").fields
            value = record.fields.get("score") if metric is None else scores.get(metric)
            score = np.nan if failed else _score(value, f"{record.where}, test {record.name_or('testIdx', '?')}")
            error = record.fields.get("error") or "error" if failed else None
            costs = {"cost": record.number_or("cost", None), "latency_ms": record.number_or("latencyMs", None)}
            table.add(prompt, model, score, runs[prompt, model], task, further=_plain(scores) | costs, error=error)


# Columns that identify a vote of LMArena.
_VOTE_IDENTIFIERS = ("question_id", "conversation_id", "evaluation_session_id", "id")


def _read_lmarena(table: _Table, files: Sequence[Path]) -> None:
    """Read votes with one column for the winner, or with a column of 0 and 1 for each outcome."""
    columns = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
    known = {"model_a", "model_b", "winner", "judge", *columns}
    for file in files:
        for number, (_, row) in enumerate(_entries_in([file])):
            record = row.fields
            if not {"model_a", "model_b"} <= record.keys():
                raise DataError(f"{str(file)!r} has no columns 'model_a' and 'model_b'; it has {listed(record)}")
            identifiers = (row.name_or(name, None) for name in _VOTE_IDENTIFIERS)
            prompt = next((one for one in identifiers if one is not None), str(number))
            winner = record.get("winner")
            if "winner" not in record:
                cells = {label: _score(record.get(name), row.where) for name, label in columns.items()}
                won = [label for label, cell in cells.items() if cell == 1]
                if len(won) > 1 or not all(cell in (0, 1) or np.isnan(cell) for cell in cells.values()):
                    raise DataError(f"{row.where} has the outcomes {cells}; one of them is 1, and the others are 0")
                winner = won[0] if won else None
            further = {
                name: cell for name, cell in record.items() if name not in known and not isinstance(cell, list | dict)
            }
            if "prompt" in further:
                further["text"] = further.pop("prompt")
            models = (row.name("model_a"), row.name("model_b"))
            table.add(prompt, *models, winner, row.names("judge"), "lmarena", further=further)


# The reader of every kind, and the options that say what it takes.
READERS: Mapping[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "inspect": (_read_inspect, ("scorer", "task")),
    "lm_eval": (_read_lm_eval, ("metric", "filter", "task")),
    "alpaca_eval": (_read_alpaca_eval, ()),
    "arena_hard": (_read_arena_hard, ()),
    "mt_bench_pair": (_read_mt_bench_pair, ()),
    "every_eval_ever": (_read_every_eval_ever, ("metric", "task")),
    "promptfoo": (_read_promptfoo, ("metric",)),
    "lmarena": (_read_lmarena, ()),
}

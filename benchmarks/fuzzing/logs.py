"""Logs of evaluation harnesses with values of wrong types: what their readers make of them.

One value of a good log is replaced, removed, renamed or moved, anywhere in it. A reader has to read the log, or to
refuse it with an error of the package; no name may be read as "None".
"""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

import dmlrank as dr

from .draws import Generator, choice
from .watch import Watch

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 1.5, -0.0, 1e-320, 1e308, 10**30, 10**400, -(10**25), "", "a", "NaN", "None",
    "Infinity", "-Infinity", "nan", "0", "\0", "x" * 2000, "\ud800", [], {}, [[]], [1], ["a"], [[1, 2], [3, 4]],
    [[[[1]]]], {"a": 1}, [None],
    "borda", "bt", "cluster", 2**63 - 1, 2**63, 2**64, 1e16, "1e5",
)  # fmt: skip
_SAMPLE = {
    "id": "q1",
    "epoch": 1,
    "input": "2 + 2?",
    "metadata": {"domain": "physics", "level": 2},
    "scores": {"choice": {"value": "C"}, "judge": {"value": {"tone": 1, "facts": 0.5}}},
    "total_time": 3.1,
    "model_usage": {"acme/m7b": {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}},
}
_INSPECT = {
    "status": "success",
    "eval": {
        "task": "gpqa",
        "model": "acme/m7b",
        "created": "2026-01-01",
        "model_args": {"revision": "a"},
        "dataset": {"name": "gpqa", "samples": 2},
        "config": {"epochs": 1, "limit": None},
    },
}
_LINE = {
    "doc_id": 0,
    "doc": {"q": "?"},
    "target": "18",
    "filter": "none",
    "metrics": ["acc"],
    "doc_hash": "a",
    "acc": 1,
}
_RESULTS = {"model_name": "acme/m7b", "higher_is_better": {"t": {"acc": True}}, "config": {"limit": None}}
_ARENA = {"uid": "u1", "category": "hard", "judge": "j", "model": "m", "baseline": "b", "games": [{"score": "A>B"}] * 2}
_ALPACA = {"instruction": "Hi", "generator_1": "b", "generator_2": "m", "annotator": "j", "preference": 1.5}
_PAIR = {
    "question_id": 81,
    "model_1": "x",
    "model_2": "y",
    "g1_winner": "model_1",
    "g2_winner": "tie",
    "judge": ["gpt-4", "pair-v2"],
    "turn": 1,
}
_EVERY = {
    "evaluation_id": "b/m/1",
    "model_id": "m",
    "evaluation_name": "acc",
    "sample_id": "1",
    "sample_hash": "h1",
    "evaluation": {"score": 1.0, "is_correct": True},
    "metadata": {"subject": "law"},
}
_BESIDE = {
    "evaluation_id": "b/m/1",
    "evaluation_results": [
        {
            "evaluation_name": "acc",
            "metric_config": {"lower_is_better": False, "llm_scoring": {"judges": [{"model_info": {"id": "j"}}]}},
        }
    ],
}
_ROW = {
    "promptIdx": 0,
    "testIdx": 0,
    "provider": {"id": "x", "label": "x"},
    "prompt": {"label": "p"},
    "vars": {"q": "1"},
    "score": 1,
    "namedScores": {"tone": 0.5},
    "cost": 0.1,
    "latencyMs": 10,
    "failureReason": 0,
}
_FOO = {"evalId": "e", "results": {"results": [_ROW, {**_ROW, "vars": {"q": "2"}}]}, "config": {"description": "sums"}}
_VOTE = {"question_id": "q1", "model_a": "x", "model_b": "y", "winner": "model_a", "judge": "u"}
# The files of a good log of each kind by their names, and the options with which it is read. A list is a file of lines.
LOGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "inspect": ({"a.json": {**_INSPECT, "samples": [_SAMPLE, {**_SAMPLE, "id": "q2"}]}}, {"scorer": "choice"}),
    "inspect in a zip": ({"a.eval": {"header.json": _INSPECT, "summaries.json": [_SAMPLE]}}, {"scorer": "judge.tone"}),
    "lm_eval": ({"samples_t_2026-01-01.jsonl": [_LINE, {**_LINE, "doc_id": 1, "doc_hash": "b"}]}, {}),
    "lm_eval with results": ({"samples_t_2026-01-01.jsonl": [_LINE], "results_2026-01-01.json": _RESULTS}, {}),
    "arena_hard": ({"m.jsonl": [_ARENA, {**_ARENA, "uid": "u2"}]}, {}),
    "alpaca_eval": ({"annotations.json": {"": [_ALPACA]}}, {}),
    "mt_bench_pair": ({"gpt-4_pair.jsonl": [_PAIR]}, {}),
    "every_eval_ever": ({"u_samples.jsonl": [_EVERY], "u.json": _BESIDE}, {}),
    "promptfoo": ({"r.json": _FOO}, {}),
    "lmarena": ({"votes.json": {"": [_VOTE, {**_VOTE, "winner": "tie"}]}}, {}),
}


def write(folder: Path, files: dict[str, Any]) -> None:
    """Write the files of a log into a folder."""
    for name, value in files.items():
        if name.endswith(".eval") and isinstance(value, dict):
            with zipfile.ZipFile(folder / name, "w") as archive:
                for member, content in value.items():
                    archive.writestr(member, json.dumps(content))
        elif name.endswith(".jsonl") and isinstance(value, list):
            (folder / name).write_text("\n".join(map(json.dumps, value)), encoding="utf-8")
        else:
            plain = value[""] if isinstance(value, dict) and set(value) == {""} else value
            (folder / name).write_text(json.dumps(plain), encoding="utf-8")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in nested objects and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in inner for deeper in _paths(item, (*path, key)))]


def changed(rng: Generator, content: Any) -> Any:
    """Return a copy of a content with one value replaced, removed, repeated, renamed, moved or scaled."""
    content = copy.deepcopy(content)
    path = choice(rng, _paths(content)[1:])
    holder = content
    for key in path[:-1]:
        holder = holder[key]
    key, kind = path[-1], rng.random()
    value = holder[key]
    if kind < 0.5:
        holder[key] = copy.deepcopy(choice(rng, _VALUES))
    elif kind < 0.6:
        del holder[key]
    elif kind < 0.7 and isinstance(holder, list):
        holder.insert(int(rng.integers(len(holder) + 1)), copy.deepcopy(value))
    elif kind < 0.75 and isinstance(holder, dict):
        holder[choice(rng, ["extra", key + " ", "", "x" * 500])] = holder.pop(key)
    elif kind < 0.9 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value * choice(rng, [-1, 2, 0, 1e10, 1e-10, 1.0000001, 1e300])
    else:
        other = choice(rng, _paths(content)[1:])
        source = content
        for step in other:
            source = source[step]
        holder[key] = copy.deepcopy(source)
    return content


def mutated(rng: Generator, watch: Watch, folder: str) -> None:
    """Read a log with one wrong value."""
    kind = choice(rng, list(LOGS))
    (files, options), path = LOGS[kind], Path(folder)
    name = choice(rng, list(files))
    if name.endswith(".eval"):
        member = choice(rng, list(files[name]))
        new = {**files[name], member: changed(rng, files[name][member])}
    else:
        new = changed(rng, files[name])
    write(path, {**files, name: new})
    table = watch.ask("read_log", dr.read_log, folder, kind=kind.split()[0], **options)
    if table is None:
        return
    names = [name for name in ("prompt", "model", "model_a", "model_b") if name in table]
    texts = table[names].astype(str).to_numpy().ravel()
    has_none = any(text == "None" or text.endswith("/None") for text in texts)
    # A name may be the text "None" where the change wrote this text.
    written = any(b'"None"' in file.read_bytes() for file in path.iterdir())
    watch.require(not has_none or written, "read_log", f"a name that is not there is 'None' in {kind}")

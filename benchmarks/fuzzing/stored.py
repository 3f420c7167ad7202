"""Targets that read files: results in JSON, changed at a value, in their structure or at bytes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

import dmlrank as dr

from .draws import Generator, choice
from .questions import N_RESULTS, results_of
from .watch import Watch

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 1.5, -0.0, 1e-320, 1e308, 10**30, 10**400, -(10**25), "", "a", "NaN", "None",
    "Infinity", "-Infinity", "nan", "0", "\0", "x" * 2000, "\ud800", [], {}, [[]], [1], ["a"], [[1, 2], [3, 4]],
    [[[[1]]]], {"a": 1}, [None],
    "borda", "bt", "cluster", 2**63 - 1, 2**63, 2**64, 1e16, "1e5",
)  # fmt: skip


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


def json_values(rng: Generator, watch: Watch, folder: str) -> None:
    """Read results in JSON with one to three changes; what is read must answer like a result, or refuse."""
    results = results_of(int(rng.integers(N_RESULTS)))
    content = json.loads(results.to_json())
    for _ in range(int(choice(rng, [1, 1, 1, 2, 3]))):
        content = changed(rng, content)
        if not isinstance(content, dict):
            break
    read = watch.ask("read_json", dr.read_json, json.dumps(content))
    if read is None:
        return
    ask_read_result(watch, read)
    again = watch.ask("read_json", dr.read_json, watch.ask("to_json", read.to_json))
    watch.require(again is not None, "read_json", "refuses what to_json of a read result wrote")


def ask_read_result(watch: Watch, read: Any) -> None:
    """Ask a result that was read everything that needs no data."""
    watch.ask("summary", lambda: str(read.summary()))
    watch.ask("html", lambda: read.summary().as_html())
    watch.ask("latex", lambda: read.summary().as_latex())
    for name in ("tidy", "conf_int", "ranks", "t_test_pairwise", "best_set", "report", "diagnostics"):
        answer = watch.ask(name, lambda name=name: getattr(read, name))
        if callable(answer):
            answer = watch.ask(name, answer)
        if hasattr(answer, "summary"):
            watch.ask(f"{name}.summary", lambda answer=answer: str(answer.summary()))
    watch.ask("rescale", lambda: read.rescale("elo"))
    watch.ask("compare", lambda: str(dr.compare(a=read, b=read, independent=True).summary()))
    watch.ask("style", lambda: read.style)
    watch.ask("judge", lambda: (read.judge, read.judge.table()))


def json_bytes(rng: Generator, watch: Watch, folder: str) -> None:
    """Read files of results with changed, missing or added bytes, and files that never were results."""
    results = results_of(int(rng.integers(N_RESULTS)))
    path = Path(folder) / choice(rng, ["r.json", "r", "r.json.gz"])
    raw = results.to_json().encode("utf-8", "surrogatepass")
    kind = rng.random()
    data = bytearray(raw)
    if kind < 0.4:
        for _ in range(int(rng.integers(1, 5))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    elif kind < 0.6:
        data = data[: int(rng.integers(len(data)))]
    elif kind < 0.7:
        data = bytearray(
            choice(
                rng,
                [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"\x80\x04.", b"1", b'"a"', b"{" * 5000, b"[" * 200000],
            )
        )
    elif kind < 0.8:
        data = data + bytearray(rng.integers(256, size=20, dtype=np.uint8).tobytes())
    else:
        start, stop = sorted(int(place) for place in rng.integers(len(data), size=2))
        data = data[:start] + data[stop : stop + 200] + data[start:]
    path.write_bytes(bytes(data))
    read = watch.ask("read_json", dr.read_json, choice(rng, [path, str(path)]))
    if read is not None:
        ask_read_result(watch, read)

"""Targets that read files: results in JSON, changed at bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import dmlrank as dr

from .draws import Generator, choice
from .questions import N_RESULTS, results_of
from .watch import Watch


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
    watch.ask("judge", lambda: read.judge and read.judge.table())


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

"""Time and memory of reading many logs of an evaluation harness.

The logs are drawn from a seed and written first. Each reading is a process of its own: seconds by the clock and of the
processor, without the import, and the peak of its memory with that of the imported package. A sample carries a text of
``--text`` characters, as questions and answers do. Logs of inspect_ai also hold the transcripts of the first samples,
which a reader need not open.

    python benchmarks/eval_logs.py
    python benchmarks/eval_logs.py --kinds inspect lm_eval --files 100 --samples 500
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dmlrank as dr

MODELS = 20
DOMAINS = ("physics", "biology", "history")
# Transcripts in each log of inspect_ai, and how many times as long as the text of a sample they are.
TRANSCRIPTS, TRANSCRIPT_LENGTH = 3, 20
FIELDS = ("kind", "files", "samples", "megabytes", "rows", "clock_s", "cpu_s", "peak_gb")

Json = dict[str, Any]


def texts(n: int, length: int, rng: np.random.Generator) -> list[str]:
    """Texts of words, which compress about as well as real ones."""
    words = np.array([f"{word}{number}" for word in ("the", "model", "answers", "question") for number in range(50)])
    return [" ".join(words[rng.integers(0, len(words), length // 8 + 1)])[:length] for _ in range(n)]


def write_inspect(folder: Path, model: str, task: str, score: np.ndarray, text: Sequence[str]) -> None:
    """A log of inspect_ai: header, summaries of all samples, and some transcripts."""
    eval_spec = {"task": task, "model": model, "created": "2026-01-01T00:00:00", "config": {"epochs": 1}}
    summaries = [
        {
            "id": f"q{i}",
            "epoch": 1,
            "input": text[i],
            "target": "A",
            "metadata": {"domain": DOMAINS[i % len(DOMAINS)]},
            "scores": {"choice": {"value": "C" if value else "I", "answer": "A"}},
            "model_usage": {model: {"input_tokens": 100, "output_tokens": 20}},
            "total_time": 3.1,
        }
        for i, value in enumerate(score)
    ]
    with zipfile.ZipFile(folder / f"{task}_{model.replace('/', '_')}.eval", "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": eval_spec}))
        log.writestr("summaries.json", json.dumps(summaries))
        for sample in summaries[:TRANSCRIPTS]:
            transcript = {**sample, "messages": [sample["input"]] * TRANSCRIPT_LENGTH}
            log.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(transcript))


def write_lm_eval(folder: Path, model: str, task: str, score: np.ndarray, text: Sequence[str]) -> None:
    """Samples of lm-evaluation-harness in the folder of the model."""
    lines = [
        {
            "doc_id": i,
            "doc": {"question": text[i]},
            "target": "A",
            "resps": [["A"]],
            "filter": "none",
            "metrics": ["acc"],
            "doc_hash": f"{task}-{i}",
            "acc": float(value),
        }
        for i, value in enumerate(score)
    ]
    write_lines(folder / model.replace("/", "__") / f"samples_{task}_2026-01-01T00-00-00.0.jsonl", lines)


def write_arena_hard(folder: Path, model: str, task: str, score: np.ndarray, text: Sequence[str]) -> None:
    """Judgments of Arena-Hard: the model wins both games of a prompt, or loses both."""
    about = {"category": task, "judge": "judge", "model": model, "baseline": "baseline"}
    lines = [
        {
            "uid": f"{task}-{i}",
            **about,
            "games": [{"score": "B>A" if value else "A>B"}, {"score": "A>B" if value else "B>A"}],
            "prompt": text[i],
        }
        for i, value in enumerate(score)
    ]
    write_lines(folder / task / f"{model.replace('/', '_')}.jsonl", lines)


def write_every_eval_ever(folder: Path, model: str, task: str, score: np.ndarray, text: Sequence[str]) -> None:
    """Samples of Every Eval Ever, without the aggregate file."""
    lines = [
        {
            "evaluation_id": f"{task}/{model}",
            "model_id": model,
            "evaluation_name": "accuracy",
            "sample_id": f"{task}-{i}",
            "input": {"raw": text[i]},
            "evaluation": {"score": float(value), "is_correct": bool(value)},
        }
        for i, value in enumerate(score)
    ]
    write_lines(folder / model / f"{task}_samples.jsonl", lines)


def write_promptfoo(folder: Path, model: str, task: str, score: np.ndarray, text: Sequence[str]) -> None:
    """Results of promptfoo with one provider."""
    about = {"promptIdx": 0, "provider": {"id": model, "label": ""}, "failureReason": 0, "cost": 0.001}
    results = [
        {**about, "testIdx": i, "vars": {"task": task, "question": text[i]}, "score": float(value), "success": True}
        for i, value in enumerate(score)
    ]
    log = {"evalId": "e", "config": {"description": task}, "results": {"version": 3, "results": results}}
    (folder / f"{task}_{model.replace('/', '_')}.json").write_text(json.dumps(log))


def write_lines(file: Path, lines: Sequence[Json]) -> None:
    """A file of JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


WRITERS: dict[str, Callable[[Path, str, str, np.ndarray, Sequence[str]], None]] = {
    "inspect": write_inspect,
    "lm_eval": write_lm_eval,
    "arena_hard": write_arena_hard,
    "every_eval_ever": write_every_eval_ever,
    "promptfoo": write_promptfoo,
}


def write_logs(kind: str, folder: Path, n_files: int, n_samples: int, length: int = 600, seed: int = 0) -> Json:
    """Write logs of models on tasks, a file each; return the mean score of every model."""
    rng = np.random.default_rng(seed)
    n_models = min(MODELS, n_files)
    shares, right = np.linspace(0.8, 0.3, n_models), np.zeros((n_models, 2))
    for number in range(n_files):
        task, m = divmod(number, n_models)
        if m == 0:
            text = texts(n_samples, length, rng)
        score = (rng.random(n_samples) < shares[m]).astype(int)
        right[m] += score.sum(), n_samples
        WRITERS[kind](folder, f"org/model-{m:02d}", f"task{task:03d}", score, text)
    return {f"org/model-{m:02d}": float(total / n) for m, (total, n) in enumerate(right)}


def read(kind: str, folder: str) -> Json:
    """Read the logs of a folder in this process; return rows, seconds and memory."""
    read_log = dr.read_log  # Imported when it is first named.
    start, cpu = time.perf_counter(), time.process_time()
    table = read_log(folder, kind=kind)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    # ru_maxrss is in bytes on macOS and in kilobytes elsewhere.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"rows": len(table), "clock_s": round(seconds, 2), "cpu_s": round(cpu, 2), "peak_gb": round(peak / 1e9, 3)}


def measure(kind: str, n_files: int, n_samples: int, length: int, seed: int = 0) -> Json:
    """Write logs of a kind, and read them in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_logs(kind, Path(folder), n_files, n_samples, length, seed)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        command = [sys.executable, __file__, "--read", kind, folder]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"kind": kind, "files": n_files, "samples": n_samples, "megabytes": round(size / 1e6), **found}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=tuple(WRITERS), default=list(WRITERS))
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--text", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--read", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.read:
        print(json.dumps(read(*chosen.read)))
        return
    print(",".join(FIELDS))
    for kind in chosen.kinds:
        row = measure(kind, chosen.files, chosen.samples, chosen.text, chosen.seed)
        print(",".join(str(row[field]) for field in FIELDS), flush=True)


if __name__ == "__main__":
    main()

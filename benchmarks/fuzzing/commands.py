"""Targets of the command line: odd words, odd files, and fits that must equal those of the API."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.options import in_objects

from .arenas import FORMULA, draw_arena, plain_options
from .draws import ODD_NAMES, Generator, choice
from .watch import Finding, Watch


def run(watch: Watch, words: list[str]) -> tuple[int, str, str]:
    """Run the command line in this process; return its status and what it prints."""
    out, err = io.StringIO(), io.StringIO()

    def call() -> int:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                return main(words)
            except SystemExit as end:
                return int(end.code or 0)

    status = watch.ask(f"dmlrank {words}", call)
    if status is None or status not in (0, 1, 2):
        raise Finding("foreign status", f"dmlrank {words}", f"{status}")
    if "Traceback" in err.getvalue():
        raise Finding("traceback", f"dmlrank {words}", err.getvalue()[-500:])
    if status == 1:
        lines = [line for line in err.getvalue().splitlines() if line.startswith("dmlrank: ")]
        watch.require(len(lines) == 1, f"dmlrank {words}", f"an error is one line: {err.getvalue()!r}")
    return status, out.getvalue(), err.getvalue()


def same_as_api(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit a file and the frame that it was written from; the stored results must be the same."""
    arena, options = draw_arena(rng, n_categories=int(rng.integers(2, 6))), plain_options(rng)
    options = {name: value for name, value in options.items() if name not in ("position_bias", "n_jobs")}
    frame = arena.frame
    if any(name == "" or "\ud800" in name or "\0" in name for name in map(str, arena.models)):
        return  # an empty cell of csv is a missing value, half a surrogate pair has no UTF-8
    for role in ("model_a", "model_b"):
        frame[role] = frame[role].map(str)
    kind = choice(rng, ["csv", "json", "jsonl", "parquet", "tsv"])
    path = os.path.join(folder, f"battles.{kind}")
    writers = {
        "csv": lambda: frame.to_csv(path, index=False),
        "tsv": lambda: frame.to_csv(path, index=False, sep="\t"),
        "json": lambda: Path(path).write_text(json.dumps(frame.to_dict("records")), encoding="utf-8"),
        "jsonl": lambda: Path(path).write_text("\n".join(map(json.dumps, frame.to_dict("records"))), encoding="utf-8"),
        "parquet": lambda: frame.to_parquet(path),
    }
    writers[kind]()
    words = ["fit", FORMULA, path, "--out", os.path.join(folder, "out.json")]
    for name, value in options.items():
        if name == "cov_kwds":
            groups = value["groups"]
            words += ["--groups", *([groups] if isinstance(groups, str) else groups)]
        elif value is not None:
            words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    expected = watch.ask("dml_rank", dr.dml_rank, FORMULA, frame, **in_objects({"n_jobs": 1, **options}))
    status, _, err = run(watch, words)
    watch.require((status == 0) == (expected is not None), f"dmlrank {words}", f"status {status} {err}, API {expected}")
    if expected is None:
        return
    written = json.loads(Path(folder, "out.json").read_text(encoding="utf-8"))
    # The command line adds the rows of its table.
    watch.require(written.pop("models", None) is not None, f"dmlrank {words}", "no rows of models")
    watch.require(written == json.loads(expected.to_json()), f"dmlrank {words}", "the API stores another result")


def odd_words(rng: Generator, watch: Watch, folder: str) -> None:
    """Run subcommands with options and values put together at random."""
    path = os.path.join(folder, "battles.csv")
    arena = draw_arena(rng, n_votes=60, plain_names=True)
    arena.frame.to_csv(path, index=False)
    stored = os.path.join(folder, "stored.json")
    if not os.path.exists(stored):
        dr.dml_rank(
            FORMULA, arena.frame, pairs=dr.Pairs(min_labels=1, graph="complete"), rng=0, propensity="marginal"
        ).to_json(stored)
    flags = (
        "--functional", "--context", "--propensity", "--estimator", "--judge", "--adjust", "--position-bias",
        "--weights", "--groups", "--categories", "--missing", "--alpha", "--rng", "--progress", "--by", "--models",
        "--top", "--slim", "--budget", "--std-error", "--candidate", "--independent", "--title", "--scores",
        "--out", "--average", "--set", "--set", "--nonsense", "-h", "--", "-",
    )  # fmt: skip
    values = (
        "borda", "bt", "n_folds=2", "graph=complete", "min_labels=-1", "tune=none", "x=",
        "prompt", "x", "g", "topic", "verdict", "importance", "auto", "yes", "no", "1", "2", "0", "-1",
        "0.5", "nan",
        "inf", "1e400", "9" * 5000, "", " ", "tie=tie", "=", "a=b=c", "0.5=tie", "all", "largest", "counts",
        "cluster", "robust", "fixed",
        "drop", "keep", "m0", "m1", "m0 - m1", "A", "D", path, stored, os.path.join(folder, "o.csv"),
        os.path.join(folder, "o.html"), folder,
        "/nonexistent/x.csv", "marginal", "estimate", "~ x", "plugin", "bt_mle", "none", "cv", "max-t", *ODD_NAMES[:40],
    )  # fmt: skip
    command = choice(rng, ["fit", "fit", "fit", "check", "compare", "design", "report", "demo", "nonsense"])
    words: list[str] = []
    if command in ("fit", "check", "design", "compare"):
        words = (
            [FORMULA, path, "--set", "min_labels=1", "--rng", "0", "--propensity", "marginal"]
            if command != "check"
            else [FORMULA, path]
        )
        if command == "design":
            words += ["--budget", "10"]
    elif command == "report":
        words = [stored, "--out", os.path.join(folder, "p.html")]
    else:
        words = ["--rng", choice(rng, ["300", "0", "-5", "1", "x"])]
    for _ in range(int(rng.integers(1, 5))):
        flag = choice(rng, flags)
        added = [flag, *(choice(rng, values) for _ in range(int(choice(rng, [0, 1, 1, 1, 2]))))]
        place = int(rng.integers(len(words) + 1)) if rng.random() < 0.3 else len(words)
        words[place:place] = added
    if any("\0" in word or "\ud800" in word for word in words):
        return
    if "--n-rep" in words or "random" in words:
        return
    here = os.getcwd()
    os.chdir(folder)  # an option such as --csv may name any file
    try:
        run(watch, [command, *words])
    finally:
        os.chdir(here)


def odd_files(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit files with changed bytes, odd cells and odd heads."""
    arena = draw_arena(rng, n_votes=40)
    kind = choice(rng, ["csv", "csv", "tsv", "json", "jsonl", "parquet", "feather", "csv.gz", "xlsx", ""])
    path = os.path.join(folder, f"odd.{kind}")
    frame = arena.frame
    for role in ("model_a", "model_b"):
        frame[role] = [
            name.encode("utf-8", "replace").decode() if isinstance(name, str) else name for name in frame[role]
        ]
    texts = {
        "csv": frame.to_csv(index=False), "tsv": frame.to_csv(index=False, sep="\t"),
        "json": json.dumps(frame.to_dict("records")),
        "jsonl": "\n".join(map(json.dumps, frame.to_dict("records"))),
    }  # fmt: skip
    data = bytearray(texts.get(kind, texts["csv"]).encode("utf-8", "replace"))
    if kind in ("parquet", "feather"):
        plain = frame.astype({"model_a": str, "model_b": str})
        getattr(plain, f"to_{kind}")(path)
        data = bytearray(Path(path).read_bytes())
    if kind == "csv.gz":
        import gzip

        data = bytearray(gzip.compress(bytes(data)))
    change = rng.random()
    if change < 0.3:
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    elif change < 0.4:
        data = data[: int(rng.integers(len(data)))]
    elif change < 0.5:
        data = bytearray(choice(rng, [b"", b"\n", b"\xff\xfe", b"\xef\xbb\xbf", b"winner,model_a,model_b\n", b"{}",
        b"[]", b"[1]", b"null", b"\0" * 50, b'"', b"[[1]]", b'{"a": 1}\n', b"a,a,a\n1,2,3\n",
        b"winner,model_a,model_b\nmodel_a,x\n", b'winner,model_a,model_b\nmodel_a,"x,y\n']))  # fmt: skip
    elif change < 0.8 and kind in ("csv", "tsv", "json", "jsonl"):
        text = data.decode("utf-8", "replace")
        old, new = choice(rng, ["model_a", "tie", "q0001", ",", "\n", "0.", '"', "winner", ":"]), choice(rng, ["",
        "NaN", "é", "\r", '"', "'", ",", "\t", "\0", "1e999", "null", "\ufeff", "[1, 2]", "{}", "=1+1",
        " "])  # fmt: skip
        data = bytearray(text.replace(old, new, int(choice(rng, [1, 3, -1]))).encode("utf-8", "replace"))
    Path(path).write_bytes(bytes(data))
    words = [choice(rng, ["fit", "check"]), choice(rng, [FORMULA, "winner ~ x | model_a + model_b"]), path]
    if words[0] == "fit":
        words += ["--set", "min_labels=1", "--rng", "0", "--propensity", "marginal", "--set", "n_folds=2"]
    if rng.random() < 0.3:
        words += ["--context", "prompt"]
    run(watch, words)

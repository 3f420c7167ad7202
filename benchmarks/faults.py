"""Faults injected into fits, files and commands, each in a process of its own, and what comes of them.

    python benchmarks/faults.py                       # every kind
    python benchmarks/faults.py lightgbm --stride 5   # every fifth case of one kind

Kinds: ``lightgbm`` (every parameter that can be set, with wild values, in a fit), ``callables`` (learners, judges,
propensities, functionals and arrays that raise, return NaN or wrong shapes), ``interrupts`` (Ctrl-C at moments spread
over a fit), ``writes`` (a disk that is full after so many bytes). A case is well if it ends with an error of this
package, with the user's own error, or with a finite result, prints nothing, and leaves no file, thread or setting
behind. The cases that are not well are listed, and are the exit status.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.cli.main import main as command
from dmlrank.nuisance.boosting import SETTABLE
from dmlrank.options import in_objects

FORMULA = "winner ~ x | model_a + model_b"
OPTIONS: dict[str, Any] = {"context": "question_id", "n_folds": 2, "min_labels": 1, "rng": 0, "n_jobs": 1}
Case = tuple[str, Callable[[], str]]


class OfTheUser(Exception):
    """An error that a user's function raises."""


def battles(n: int = 150) -> pd.DataFrame:
    """Votes on three models with one feature."""
    rng = np.random.default_rng(0)
    pairs = np.array([(0, 1), (1, 2), (2, 0)])[rng.integers(3, size=n)]
    names = np.array(["ada", "bea", "cat"])
    labels = rng.choice(["model_a", "model_b", "tie"], size=n)
    first, second = names[pairs[:, 0]], names[pairs[:, 1]]
    columns = {"question_id": np.arange(n), "x": rng.normal(size=n), "model_a": first, "model_b": second}
    return pd.DataFrame({**columns, "winner": labels, "verdict": rng.permutation(labels)})


def fit(**options: Any) -> str:
    """Fit the votes, and say what comes of it."""
    return outcome(lambda: dr.dml_rank(FORMULA, battles(), **in_objects(OPTIONS | options)))


def outcome(work: Callable[[], Any]) -> str:
    """Return the kind of error that a fit raises, or whether its numbers are finite."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = work()
        except dr.DmlrankError:
            return "own error"
        except OfTheUser:
            return "error of the user"
        except Exception as error:
            return f"FOREIGN {type(error).__name__}: {error}\n{traceback.format_exc()[-600:]}"
    foreign = [warning for warning in caught if not issubclass(warning.category, dr.DmlrankWarning)]
    if foreign:
        return f"FOREIGN WARNING {foreign[0].message}"
    if isinstance(result, dr.RankResults):
        numbers = np.concatenate([result.params, np.asarray(result.cov_params()).ravel()])
        return "result" if np.isfinite(numbers).all() else "NOT FINITE without a word"
    return "result"


def run(work: Callable[[], str], seconds: int = 60) -> str:
    """Return the outcome of a case in a process of its own; what it prints and a signal that ends it are not well.

    The process may take so many seconds of the processor, and ten times as many in all on a busy machine. This process
    itself must not have trained boosters, because LightGBM's threads do not survive a fork.
    """
    with tempfile.TemporaryDirectory() as folder:
        said, answer = Path(folder) / "said", Path(folder) / "answer"
        child = os.fork()
        if not child:
            with suppress(BaseException):
                stream = os.open(said, os.O_RDWR | os.O_CREAT)
                os.dup2(stream, 1)
                os.dup2(stream, 2)
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                answer.write_text(work())
                sys.stdout.flush()
            os._exit(0)
        status = _wait(child, 10 * seconds)
        printed = said.read_text(errors="replace").strip() if said.exists() else ""
        if status < 0:
            return (
                "HUNG" if -status in (signal.SIGKILL, signal.SIGXCPU) else f"DIED of signal {-status} {printed[-200:]}"
            )
        text = answer.read_text() if answer.exists() else f"NO ANSWER, STATUS {status}: {printed[-300:]}"
    return f"{text.splitlines()[0]}, PRINTED {printed[:200]!r}" if printed and text.islower() else text


def _wait(child: int, seconds: float) -> int:
    """Return the exit status of a process, which is killed after so many seconds."""
    ends = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


# --- LightGBM -----------------------------------------------------------------------------------------------------

WILD: tuple[Any, ...] = (
    0, 1, 2, -1, 3, 0.5, 1e-300, 1e300, 10**9, 2**31 - 1, -(2**31), 2**31, 10**30, np.nan, np.inf, True, None,
    "", "x", "1", "true", "1e999", "nan", "1,2,3", [], [1, 2], {"a": 1}, (0, 1), b"1", "a\nb=c", object(),
)  # fmt: skip


def lightgbm_cases() -> Iterator[Case]:
    """Every parameter that can be set, with every wild value."""
    # A user who asks LightGBM for messages gets them.
    for name in (name for name in SETTABLE if name != "verbosity"):
        for value in WILD:
            yield f"{name}={value!r}", lambda name=name, value=value: fit(tune={name: value}, learner="lightgbm")


# --- functions and arrays of the user -----------------------------------------------------------------------------


def _raises(*_: Any, **__: Any) -> Any:
    raise OfTheUser("of the user")


def _misbehaved(right: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions that return something else than the right array."""

    def changed(change: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: change(np.array(right(*arguments, **named), dtype=float))

    return {
        "raises": _raises,
        "None": lambda *_, **__: None,
        "a word": lambda *_, **__: "word",
        "a number": lambda *_, **__: 0.5,
        "an empty array": lambda *_, **__: np.empty(0),
        "NaN": changed(lambda p: p * np.nan),
        "one NaN": changed(lambda p: np.where(np.arange(p.size).reshape(p.shape) == 0, np.nan, p)),
        "infinite": changed(lambda p: p + np.inf),
        "negative": changed(lambda p: p - 2),
        "above one": changed(lambda p: p + 2),
        "huge": changed(lambda p: p * 1e300),
        "complex": changed(lambda p: p + 1j),
        "objects": changed(lambda p: p.astype(object)),
        "text": changed(lambda p: p.astype(str)),
        "a row too few": changed(lambda p: p[:-1]),
        "a row too many": changed(lambda p: np.concatenate([p, p[:1]])),
        "a further axis": changed(lambda p: p[..., None]),
        "transposed": changed(lambda p: p.T),
        "a column too few": changed(lambda p: p[..., :-1]),
        "a list": changed(lambda p: p.tolist()),
        "a frame": changed(lambda p: pd.DataFrame(p.reshape(len(p), -1))),
        "a ragged list": changed(lambda p: [[1.0], [1.0, 2.0]]),
        "all zero": changed(lambda p: p * 0),
    }


class _Classifier:
    """A classifier of scikit-learn's kind whose fit and predictions can be replaced."""

    def __init__(self, predict: Callable[..., Any] | None = None, train: Callable[..., Any] | None = None) -> None:
        self.predict, self.train = predict, train

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the two functions."""
        return {"predict": self.predict, "train": self.train}

    def set_params(self, **_: Any) -> _Classifier:
        """Change nothing."""
        return self

    def fit(self, x: Any, y: Any, sample_weight: Any = None) -> _Classifier:
        """Learn the categories."""
        if self.train is not None:
            self.train()
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x: Any) -> Any:
        """Return equal probabilities, or what the function makes of them."""
        right = np.full((len(x), len(self.classes_)), 1 / len(self.classes_))
        return right if self.predict is None else self.predict(right)


def callable_cases() -> Iterator[Case]:
    """Learners, judges, propensities, functionals and arrays that misbehave in every way."""
    n, k, c = 150, 3, 3
    shares = np.full((n, k, k, c), 1 / 3)

    def train(predict: Callable[..., Any]) -> Callable[..., Any]:
        return lambda features, labels, weights, rng: predict

    for how, predict in _misbehaved(lambda features: np.full((len(features), c), 1 / c)).items():
        yield f"learner predicts {how}", lambda predict=predict: fit(learner=train(predict), propensity="marginal")
    for how, returned in _misbehaved(lambda *_: np.zeros(2)).items():
        learner = lambda *arguments, returned=returned: returned()  # noqa: E731
        yield f"learner returns {how}", lambda learner=learner: fit(learner=learner, propensity="marginal")
    for how, predict in _misbehaved(lambda p: p).items():
        yield (
            f"classifier predicts {how}",
            lambda predict=predict: fit(learner=_Classifier(predict), propensity="marginal"),
        )
    yield "classifier raises in fit", lambda: fit(learner=_Classifier(train=_raises), propensity="marginal")
    arrays = {
        "mu": lambda: shares,
        "propensity": lambda: np.full((n, k, k), 0.1),
        "judge": lambda: shares,
        "edge_weights": lambda: 1 - np.eye(k),
        "category_weights": lambda: np.full((3, 2), 0.5),
        "weights": lambda: np.ones(n),
    }
    for option, right in arrays.items():
        for how, value in _misbehaved(right).items():
            yield f"{option} is {how}", lambda option=option, value=value: fit(**{option: _value_of(value)})
            if option == "propensity":
                yield f"{option} returns {how}", lambda option=option, value=value: fit(**{option: lambda *_: value()})
    for how, value in _misbehaved(lambda mu: mu[..., 0].sum(axis=2)).items():
        yield f"functional returns {how}", lambda value=value: fit(functional=value, mu=shares, propensity="marginal")
    for option in ("progress", "env", "rng", "context", "cov_kwds", "graph", "floor"):
        yield f"{option} raises", lambda option=option: fit(**{option: _raises})
    for number in range(8):
        yield f"progress raises at call {number}", lambda number=number: fit(progress=_later(number, OfTheUser))


def _value_of(value: Callable[[], Any]) -> Any:
    try:
        return value()
    except OfTheUser:
        return object()


def _later(number: int, error: type[BaseException]) -> Callable[..., None]:
    """Return a function that raises an error at the call with this number."""
    calls = iter(range(10**9))

    def report(step: int, total: int, what: str) -> None:
        if next(calls) == number:
            raise error("of the user")

    return report


# --- Ctrl-C -------------------------------------------------------------------------------------------------------


def interrupt_cases() -> Iterator[Case]:
    """Ctrl-C at moments that are spread over a fit, with one and two threads."""
    for n_jobs in (1, 2):
        seconds = float(run(lambda n_jobs=n_jobs: _seconds_of_fit(n_jobs)))
        for moment in np.linspace(0.002, seconds, 40):
            yield (
                f"fit with n_jobs={n_jobs} after {moment:.3f} s",
                lambda moment=moment, n_jobs=n_jobs: interrupted_fit(moment, n_jobs),
            )


def _seconds_of_fit(n_jobs: int) -> str:
    began = time.perf_counter()
    fit(n_jobs=n_jobs)
    return str(time.perf_counter() - began)


def interrupted_fit(moment: float, n_jobs: int) -> str:
    """Interrupt a fit; nothing may be left behind, and the next fit has to give the same bits."""
    expected = dr.dml_rank(FORMULA, battles(), **in_objects(OPTIONS)).to_json()
    filters, threads = list(warnings.filters), threading.active_count()
    files = set(os.listdir(tempfile.gettempdir()))
    _interrupt_after(moment)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dr.dml_rank(FORMULA, battles(), **in_objects(OPTIONS | {"n_jobs": n_jobs}))
        _interrupt_after(0)
        ended = "result"
    except KeyboardInterrupt:
        ended = "interrupted"
    if warnings.filters != filters:
        return "FILTERS CHANGED"
    if threading.active_count() > threads:
        return "THREADS LEFT"
    if {name for name in set(os.listdir(tempfile.gettempdir())) - files if name.startswith("dmlrank")}:
        return "FILES LEFT"
    again = dr.dml_rank(FORMULA, battles(), **in_objects(OPTIONS)).to_json()
    return ended if again == expected else "OTHER BITS AFTERWARDS"


def _interrupt_after(seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


# --- writes -------------------------------------------------------------------------------------------------------


def write_cases() -> Iterator[Case]:
    """A disk that is full after so many bytes, for everything that writes files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = battles().assign(low=lambda rows: rows["x"] < 0, high=lambda rows: rows["x"] >= 0)
        result = dr.dml_rank(FORMULA, frame, **in_objects(OPTIONS | {"functional": "bt"}))
        plan = result.design(40)
        groups = result.by(["low", "high"])
    writers: dict[str, Callable[[Path], object]] = {
        "result.json": result.to_json,
        "page.html": result.report,
        "groups.html": groups.report,
        "check.html": lambda path: dr.check(FORMULA, battles(), context="question_id").report(path),
        "plan.csv": lambda path: plan.export(path, rng=0),
        "plan.json": lambda path: plan.export(path, rng=0),
    }
    file = Path(tempfile.mkdtemp(prefix="faults-")) / "b.csv"
    battles().to_csv(file, index=False)
    for name in ("out.csv", "out.json", "out.html", "out.tex", "out.md", "out.txt", "out.svg", "out.png"):
        words = [
            "fit",
            FORMULA,
            str(file),
            *["--set", "min_labels=1", "--set", "n_folds=2", "--set", "n_jobs=1", "--rng", "0"],
            "--out",
        ]

        def by_command(path: Path, words: list[str] = words) -> None:
            if command([*words, str(path)]):
                raise dr.exceptions.FileWriteError("the command failed")

        writers[f"command {name}"] = by_command
    for name, write in writers.items():
        for share in (0.0, 0.001, 0.3, 0.6, 0.999):
            yield (
                f"{name}: disk full after {share:.1%}",
                lambda name=name, write=write, share=share: full_disk(name.split()[-1], write, share),
            )


def full_disk(name: str, write: Callable[[Path], object], share: float) -> str:
    """Write with a limit on the size of files; the old file has to stay, and nothing else."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        sys.stdout = sys.stderr = nothing
        path = Path(folder) / name
        write(path)
        size, before = path.stat().st_size, path.read_bytes()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size * share), unlimited[1]))
        try:
            write(path)
            ended = "RESULT ON A FULL DISK"
        except dr.exceptions.FileWriteError:
            ended = "own error"
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        left = sorted(set(os.listdir(folder)) - {name})
        same = path.read_bytes() == before
        os.chdir("/")
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    return f"FILES LEFT {left}" if left else ended if same else "OLD FILE CHANGED"


KINDS: dict[str, Callable[[], Iterator[Case]]] = {
    "lightgbm": lightgbm_cases,
    "callables": callable_cases,
    "interrupts": interrupt_cases,
    "writes": write_cases,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, count the outcomes, and list those that are not well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    parser.add_argument("--only", default="", help="run cases whose names contain this text only")
    parser.add_argument("--stride", type=int, default=1, help="run every so manieth case only")
    given = parser.parse_args(arguments)
    n_bad = 0
    for kind in given.kinds:
        counts: Counter[str] = Counter()
        for number, (name, work) in enumerate(KINDS[kind]()):
            if number % given.stride or given.only not in name:
                continue
            ended = run(work)
            is_well = ended.replace("130", "").islower()
            counts[ended if is_well else "NOT WELL"] += 1
            if not is_well:
                print(f"{kind}: {name}: {ended}", flush=True)
        n_bad += counts["NOT WELL"]
        print(f"{kind}: {sum(counts.values())} faults: {dict(counts)}", flush=True)
    return min(n_bad, 100)


if __name__ == "__main__":
    raise SystemExit(main())

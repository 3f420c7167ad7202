"""Small mistakes, sown into the code one at a time, that the tests have to find.

A mutant is a module with one operator, comparison, constant or condition changed, or with a small change of meaning
that somebody wrote down in ``mutants.csv``: path, old text, new text, tests. Tests run until one of them fails, which
kills the mutant. A mutant that survives shows code that no test depends on, or a change that changes nothing. The
sample of mutants is drawn with a seed. The libraries are loaded once; every mutant runs in a process of its own, which
is limited in seconds of the processor. A process that needs far more than the limit hangs, and counts as killed.

    python -m benchmarks.mutants dmlrank/inference dmlrank/cli/gate.py --sample 60
    python -m benchmarks.mutants dmlrank/inference/ranks.py:103 --tests tests/unit/inference
    python -m benchmarks.mutants --written                              # those of mutants.csv

Without further words the unit tests of the mutant's room run.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TOP = Path(__file__).parents[1]
LIBRARIES = (
    "numpy", "pandas", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats", "scipy.sparse.csgraph",
    "patsy", "statsmodels.api", "lightgbm", "threadpoolctl", "sklearn.linear_model", "polars", "pytest",
)  # fmt: skip
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES = {
    "min": "max", "max": "min", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any",
    "zeros": "ones", "ones": "zeros", "floor": "ceil", "ceil": "floor", "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One mistake in one module.

    path: The module, relative to the top of the repository.
    change: The mistake in words.
    number: Which of the module's places, in the order of :func:`places`; -1 for a change that is written down.
    texts: Old and new text of a change that is written down.
    tests: Tests that have to find it; those of the room where there are none.
    """

    path: str
    line: int
    change: str
    number: int = -1
    texts: tuple[str, str] = ("", "")
    tests: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The changed text of the module."""
        text = (TOP / self.path).read_text(encoding="utf-8")
        return text.replace(*self.texts) if self.number < 0 else mutated(text, self.number)


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int]]:
    """Yield every place of a module that can be changed: the node, the change, and the number of an operand."""
    left_alone = _left_alone(tree)
    for node in ast.walk(tree):
        if id(node) in left_alone:
            continue
        if isinstance(node, ast.Compare):
            for i, operator in enumerate(node.ops):
                yield node, f"{type(operator).__name__} -> {_SWAPPED[type(operator)].__name__}", i
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in _SWAPPED:
            yield node, f"{type(node.op).__name__} -> {_SWAPPED[type(node.op)].__name__}", 0
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield node, f"no {type(node.op).__name__}", 0
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            yield node, f"{node.value} -> {_other_number(node.value)}", 0
        elif isinstance(node, ast.If | ast.IfExp):
            yield node, "condition negated", 0
        elif isinstance(node, ast.Attribute | ast.Name) and _name(node) in _NAMES and isinstance(node.ctx, ast.Load):
            yield node, f"{_name(node)} -> {_NAMES[_name(node)]}", 0


def _left_alone(tree: ast.AST) -> set[int]:
    """Return the nodes that are not changed: annotations, decorators, texts of errors and what only raises them."""
    left_alone: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            parts += [node.returns, *node.decorator_list, *(argument.annotation for argument in arguments)]
        elif isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            parts.append(node)
        elif isinstance(node, ast.ClassDef):
            parts += node.decorator_list
        elif (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or (
            isinstance(node, ast.keyword) and node.arg == "stacklevel"
        ):
            parts.append(node)
        left_alone |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return left_alone


def _name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def _other_number(value: float) -> float:
    """Return a wrong number in the place of a right one."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) or not value else value * 2


def mutated(source: str, number: int) -> str:
    """Return the text of a module with the change at one of its places."""
    tree = ast.parse(source)
    node, _, operand = list(places(tree))[number]
    if isinstance(node, ast.Compare):
        node.ops[operand] = _SWAPPED[type(node.ops[operand])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        node.op = _SWAPPED[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value = _other_number(node.value)
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.UnaryOp):
        replacement = copy.copy(node.operand)
        node.__class__, node.__dict__ = type(replacement), replacement.__dict__
    elif isinstance(node, ast.Attribute):
        node.attr = _NAMES[node.attr]
    elif isinstance(node, ast.Name):
        node.id = _NAMES[node.id]
    return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(place: str) -> list[Mutant]:
    """Return all mutants of a folder, of a module, or of a line of a module (PATH:LINE)."""
    name, _, line = place.partition(":")
    mutants = []
    for path in sorted((TOP / name).rglob("*.py")) if (TOP / name).is_dir() else [TOP / name]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for number, (node, change, _) in enumerate(places(tree)):
            mutants.append(Mutant(str(path.relative_to(TOP)), getattr(node, "lineno", 0), change, number))
    return [mutant for mutant in mutants if line in ("", str(mutant.line))]


def written_mutants(places: Sequence[str]) -> list[Mutant]:
    """Return the mutants of mutants.csv, those of some paths alone where any are given."""
    mutants = []
    with (Path(__file__).with_suffix(".csv")).open(encoding="utf-8", newline="") as file:
        for path, old, new, tests in list(csv.reader(file))[1:]:
            if (TOP / path).read_text(encoding="utf-8").count(old) != 1:
                print(f"{path} does not have {old!r} once: mutants.csv is older than the module", file=sys.stderr)
            elif not places or path.startswith(tuple(places)):
                mutants.append(Mutant(path, 0, f"{old} -> {new}", -1, (old, new), tuple(tests.split())))
    return mutants


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed text and leaves all others alone."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self.path, self.source = TOP / mutant.path, mutant.source

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Return where the module is found if it is the changed one."""
        if name != self.name:
            return None
        places = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        spec = importlib.machinery.ModuleSpec(name, self, origin=str(self.path), is_package=places is not None)
        spec.submodule_search_locations = places
        spec.has_location = True
        return spec

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        """Run the changed text."""
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


class _Limit:
    """A plugin of pytest: starts no further test after so many seconds of the processor, and counts failures."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.n_failed = seconds, 0

    def pytest_runtest_logreport(self, report):  # type: ignore[no-untyped-def]
        """Count failures."""
        self.n_failed += report.failed

    def pytest_runtest_setup(self, item):  # type: ignore[no-untyped-def]
        """End the run after the limit."""
        if time.process_time() > self.seconds:
            item.session.shouldstop = "the seconds of a mutant are over"


def run(mutant: Mutant | None, tests: Sequence[str], seconds: int) -> str:
    """Return what becomes of a mutant: "killed", or "survived" where no test fails within the limit.

    mutant: None changes nothing.
    tests: Files of tests, in the order in which they run.
    seconds: Seconds of the processor after which no test is started. A test that is not over after four times as many
    seconds hangs, which kills the mutant.
    """
    if not tests:
        return "survived"
    child = os.fork()
    if not child:
        code = 3
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (4 * seconds, 4 * seconds + 5))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            code = _run_tests(mutant, tests, seconds)
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "survived" if status == 0 else "killed"


def _run_tests(mutant: Mutant | None, tests: Sequence[str], seconds: float) -> int:
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, _MutantFinder(mutant))
    limit = _Limit(time.process_time() + seconds)
    words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"]
    code = int(pytest.main([*words, *tests], plugins=[limit]))
    was_stopped = code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return int(limit.n_failed > 0) if was_stopped else code


def tests_of(mutant: Mutant, tests: Sequence[str]) -> list[str]:
    """Return the files of tests, without any those of the mutant's room; those named after the module come first."""
    chosen = [TOP / test for test in mutant.tests or tests or [f"tests/unit/{Path(mutant.path).parts[1]}"]]
    files = [file for test in chosen for file in ([test] if test.is_file() else sorted(test.rglob("test_*.py")))]
    files.sort(key=lambda file: not file.stem.startswith(f"test_{Path(mutant.path).stem}"))
    return [str(file.relative_to(TOP)) for file in files]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sample of mutants and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", metavar="PLACE", help="PATH of a folder or a module, or PATH:LINE")
    parser.add_argument(
        "--written", action="store_true", help="the mutants of mutants.csv, of the places if any are given"
    )
    parser.add_argument("--tests", nargs="+", default=[], help="files or folders of tests (default: of the room)")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each place (default 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=40, help="seconds of the processor for a mutant (default 40)")
    parser.add_argument("--out", type=Path, help="append a line of csv for each mutant")
    given = parser.parse_args(arguments)
    for library in LIBRARIES:
        importlib.import_module(library)
    rng, n_survivors = np.random.default_rng(given.seed), 0
    found = (
        {"mutants.csv": written_mutants(given.places)} if given.written else {p: mutants_of(p) for p in given.places}
    )
    for place, mutants in found.items():
        outcomes = []
        for number in range(len(mutants)) if given.written else rng.permutation(len(mutants))[: given.sample]:
            mutant, began = mutants[number], time.perf_counter()
            outcomes.append(run(mutant, tests_of(mutant, given.tests), given.seconds))
            row = (mutant.path, mutant.line, mutant.number, mutant.change, outcomes[-1])
            if given.out:
                with given.out.open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerow([*row, round(time.perf_counter() - began)])
            if outcomes[-1] == "survived":
                print(*row, sep=",", flush=True)
        n_survivors += outcomes.count("survived")
        print(f"{place}: {outcomes.count('killed')} of {len(outcomes)} mutants killed, of {len(mutants)}", flush=True)
    return int(n_survivors > 0)


if __name__ == "__main__":
    raise SystemExit(main())

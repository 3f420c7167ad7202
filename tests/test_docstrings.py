"""Public names pass numpydoc's validation; records and long signatures are explained."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import re
from itertools import pairwise

import pytest

import dmlrank as dr

ROOT = pathlib.Path(dr.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# Checks of numpydoc that are not asked for, and why.
NOT_ASKED = {
    "ES01": "many functions need no more than their summary line",
    "SA01": "pages link related functions",
    "EX01": "asked for functions and classes only, below: a property needs no example",
}


def public_names():
    """Every public name with its owner: functions, classes, and the methods and properties of public classes."""
    names = {}
    for module in (dr, dr.datasets, dr.functionals):
        for name in module.__all__:
            owner = getattr(module, name)
            if not (name.startswith("__") or inspect.ismodule(owner)):
                names[f"{module.__name__}.{name}"] = owner
    for name, owner in list(names.items()):
        for member, value in inspect.getmembers(owner) if inspect.isclass(owner) else []:
            documented = inspect.isfunction(value) or isinstance(value, property) or inspect.ismethod(value)
            home = inspect.getmodule(value.fget if isinstance(value, property) else value)
            if not member.startswith("_") and documented and home is not None and home.__name__.startswith("dmlrank"):
                names[f"{name}.{member}"] = value
    return names


PUBLIC = public_names()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_pass_numpydoc_s_validation(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    errors = [f"{code} {message}" for code, message in validate(name)["errors"] if code not in NOT_ASKED]
    assert not errors, f"{name}: {errors}"


@pytest.mark.parametrize("name", sorted(name for name, owner in PUBLIC.items() if name.count(".") <= 2))
def test_public_functions_and_classes_have_an_example(name):
    doc = inspect.getdoc(PUBLIC[name]) or ""
    if isinstance(PUBLIC[name], type) and issubclass(PUBLIC[name], (Exception, Warning)):
        pytest.skip("an exception is not called")
    if not name.startswith("dmlrank.") or name.split(".")[1] in ("datasets", "functionals") or name.count(".") == 1:
        assert "Examples\n---" in doc, f"{name} has no section Examples"


def sections(doc):
    """Names that each section of a docstring explains, by the section's title."""
    found, title = {}, None
    for line, below in pairwise([*doc.splitlines(), ""]):
        if line.strip() and re.fullmatch(r"\s*-{3,}\s*", below):
            title = line.strip()
            found[title] = set()
        entry = re.match(r"(\*{0,2}[A-Za-z_][\w, *]*?)\s*(:|$)", line)
        if title and entry:
            found[title] |= {name.strip().strip("*") for name in entry.group(1).split(",")}
    return found


def is_record(node):
    """Whether a class is a dataclass, a named tuple or a typed dictionary."""
    marks = [ast.unparse(mark) for mark in [*node.decorator_list, *node.bases]]
    return any(kind in mark for mark in marks for kind in ("dataclass", "NamedTuple", "TypedDict"))


def is_overload(node):
    return any("overload" in ast.unparse(mark) for mark in node.decorator_list)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_long_signatures_and_records_are_explained(path):
    missing = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_overload(node):
            spec = node.args
            names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs) if a.arg not in ("self", "cls")]
            names += [a.arg for a in (spec.vararg, spec.kwarg) if a]
            explained = sections(ast.get_docstring(node) or "").get("Parameters", set())
            if len(names) >= 4 and node.name != "__init__" and not explained.issuperset(names):
                missing.append(f"line {node.lineno}, {node.name}: {sorted(set(names) - explained)}")
        if isinstance(node, ast.ClassDef) and is_record(node):
            fields = [
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                and not any(marker in ast.unparse(field.annotation) for marker in ("ClassVar", "KW_ONLY"))
            ]
            titles = sections(ast.get_docstring(node) or "")
            explained = titles.get("Parameters", set()) | titles.get("Attributes", set())
            if not explained.issuperset(fields):
                missing.append(f"line {node.lineno}, class {node.name}: {sorted(set(fields) - explained)}")
    assert not missing, "\n".join(missing)


def test_modules_that_are_looked_at_exist():
    assert len(MODULES) > 100
    assert importlib.import_module("dmlrank.api").dml_rank is PUBLIC["dmlrank.dml_rank"]

"""The documentation site: every public name is in the reference, every page with code is run or says why not."""

import ast
import fnmatch
import importlib
import inspect
import pathlib
import pkgutil
import posixpath
import re

import pytest

import dmlrank as dr
from dmlrank.results.pictures import PICTURES

DOCS = pathlib.Path(__file__).parents[1] / "docs"
PAGES = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in DOCS.rglob("*.md")}
STANDS_FOR = re.compile(r"<!-- the text of this page: (\S+) -->")
# Objects of a fit that code may look at and that are no results: numbers without methods, and the steps of the fit.
NOT_RESULTS = {"Estimates", "FitState"}


def reference_entries():
    """Names that the reference lists, without ``~``."""
    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    return set(re.findall(r"^   ~?(dmlrank[\w.]+)$", text, flags=re.M))


def text_of(path):
    """The text of a page; that of the file outside docs/ for which it stands, such as a vignette."""
    text = path.read_text(encoding="utf-8")
    file = STANDS_FOR.match(text)
    return (DOCS.parent / file[1]).read_text(encoding="utf-8") if file else text


def look_up(name):
    """The object with a dotted name: a member of the module that is the longest importable part of the name."""
    module, _, member = name.rpartition(".")
    return getattr(importlib.import_module(module), member)


ENTRIES = {name: look_up(name) for name in reference_entries()}


def setting(name):
    """A list or dictionary that docs/conf.py assigns to a name."""
    for node in ast.parse((DOCS / "conf.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise LookupError(name)


@pytest.mark.parametrize("module", [dr, dr.datasets, dr.functionals, dr.exceptions], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module):
    names = [name for name in getattr(module, "__all__", vars(module)) if not name.startswith("__")]
    public = [getattr(module, name) for name in names]
    missing = {
        owner.__name__
        for owner in public
        if (inspect.isclass(owner) or inspect.isfunction(owner))
        and owner.__module__.startswith("dmlrank")
        and owner not in ENTRIES.values()
        and owner.__name__ not in ("check_choice", "failing_as", "listed", "named_rows", "nearest", "shown")
    }
    assert not missing


def test_every_class_that_a_public_method_returns_is_in_the_reference():
    """The methods of a class are on its page (``:members:`` of the template), so the class has to be there."""
    assert ":members:" in (DOCS / "_templates" / "autosummary" / "class.rst").read_text(encoding="utf-8")
    classes = {}
    for found in pkgutil.walk_packages(dr.__path__, "dmlrank."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            classes |= {name: value for name, value in vars(module).items() if inspect.isclass(value)}
    returned = set()
    for entry in ENTRIES.values():
        members = [entry] if inspect.isfunction(entry) else []
        if inspect.isclass(entry):
            public = [value for name, value in inspect.getmembers(entry) if not name.startswith("_")]
            members = [value.fget if isinstance(value, property) else value for value in public]
        for member in filter(inspect.isfunction, members):
            returned |= set(re.findall(r"\w+", str(inspect.signature(member).return_annotation)))
    wanted = {
        name
        for name in returned - NOT_RESULTS
        if name in classes and classes[name].__module__.startswith("dmlrank") and hasattr(classes[name], "summary")
    }
    assert len(wanted) > 15
    assert wanted <= {entry.__name__ for entry in ENTRIES.values()}


def test_every_page_with_code_is_run_by_the_build_or_says_why_not():
    run, not_run = setting("executed_pages"), setting("executed_pages_not_run")
    for name, path in PAGES.items():
        if re.search(r"^```python$", text_of(path), flags=re.M):
            matched = any(fnmatch.fnmatch(name, pattern) for pattern in run)
            assert matched != (name in not_run), f"{name}: name it in executed_pages or executed_pages_not_run"
    assert set(not_run) <= set(PAGES)


def test_every_page_that_is_run_says_where_to_go_next():
    run = setting("executed_pages")
    pages = {name: path for name, path in PAGES.items() if any(fnmatch.fnmatch(name, pattern) for pattern in run)}
    for name, path in pages.items():
        text = text_of(path)
        if name.rpartition("/")[2] != "index":
            assert re.search(r"^## Where to (read on|go next)$", text, flags=re.M), f"{name}: say where to go next"


def test_code_of_pages_fits_the_width_of_a_page():
    """A page shows 94 characters on a screen of 1280 points (docs/ruff.toml, docs/_static/site.css)."""
    for name, path in PAGES.items():
        for block in re.findall(r"^```python\n(.*?)^```$", text_of(path), flags=re.M | re.S):
            longest = max(block.splitlines(), key=len)
            assert len(longest) <= 94, f"{name}: break the line {longest.strip()!r}"


def test_every_vignette_is_a_page():
    shown = {file[1] for path in PAGES.values() if (file := STANDS_FOR.match(path.read_text(encoding="utf-8")))}
    assert {f"vignettes/{path.name}" for path in (DOCS.parent / "vignettes").glob("*.md")} <= shown


def test_every_page_is_in_one_menu():
    listed = ["index"]
    for name, path in PAGES.items():
        for menu in re.findall(r"^```{toctree}\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.M | re.S):
            lines = [line.split("<")[-1].rstrip(">") for line in menu.splitlines() if line and line[0] != ":"]
            listed += [posixpath.normpath(posixpath.join(posixpath.dirname(name), line)) for line in lines]
    assert sorted(listed) == sorted(PAGES)


# What draws a picture, and the words of the gallery that call it.
IN_THE_GALLERY = {
    "RankResults": ["res.plot()", 'res.plot("sheet"'],
    "GroupResults": ["groups.plot(models"],
    "PairwiseResults": ["t_test_pairwise("],
    "RankSets": ["res.ranks().plot()"],
    "Pareto": ["pareto.plot()"],
    "Plan": ["plan.plot()"],
}


def test_every_picture_is_in_the_gallery():
    text = (DOCS / "gallery.md").read_text(encoding="utf-8").replace("(\n    ", "(")  # calls may have several lines
    # A class that inherits its picture has no other one.
    drawing = {entry.__name__ for entry in ENTRIES.values() if inspect.isclass(entry) and "plot" in vars(entry)}
    assert drawing == set(IN_THE_GALLERY)
    for calls in IN_THE_GALLERY.values():
        for call in calls:
            assert call in text, call
    # Pictures of a fit by name, of which some stand in the gallery as the method of the result that they draw.
    by_method = {"forest": "res.plot()", "ranks": "res.ranks().plot()", "groups": "groups.plot"}
    for name in PICTURES:
        assert f'"{name}"' in text or by_method[name] in text, name
    assert 'report("board.html"' in text

"""The rooms of the house: which imports from which, and that names are not used twice."""

import ast
import collections
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "dmlrank"
# The same thing in rooms of different kinds: its numbers, its steps in a fit, its plans.
SHARED_NAMES = {"__init__", "bt_mle", "bt_restricted", "win_probability"}


def module_parts(path: pathlib.Path) -> tuple[str, ...]:
    return path.relative_to(PACKAGE).with_suffix("").parts


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: pathlib.Path):
    """Modules or rooms inside the package that a file imports from, as tuples of names."""
    here = module_parts(path)[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            if node.module:
                yield (*base, *node.module.split("."))
            else:
                for alias in node.names:
                    yield (*base, alias.name)


def test_a_room_imports_only_from_rooms_below_it():
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    rooms = re.findall(r"^  (\w+)(?:\.py|/)", picture, flags=re.M)
    order = {room: place for place, room in enumerate(rooms)}
    for path in PACKAGE.rglob("*.py"):
        room = module_parts(path)[0]
        if room in ("__init__", "_version"):
            continue
        assert room in order, f"{room} is not in the picture"
        for target in imports(path):
            name = target[0]
            assert name in (room, "_version") or order[name] > order[room], f"{path.name} imports {name}"


def test_no_circle_of_modules():
    edges = {}
    for path in PACKAGE.rglob("*.py"):
        edges[module_parts(path)] = {target for target in imports(path) if target != module_parts(path)}
    settled: set[tuple[str, ...]] = set()

    def visit(module: tuple[str, ...], way: tuple[tuple[str, ...], ...]) -> None:
        assert module not in way, " -> ".join(".".join(name) for name in (*way, module))
        if module in edges and module not in settled:
            for target in edges[module]:
                visit(target, (*way, module))
            settled.add(module)

    for module in edges:
        visit(module, ())


def test_below_data_there_are_only_arrays():
    """Names enter in data/ and leave in results: between them nothing is joined by the rows of a frame."""
    for room in ("nuisance", "estimation", "functionals", "inference"):
        for path in (PACKAGE / room).rglob("*.py"):
            tree = parsed(path)
            # A type of a library may be named in an annotation; nothing is imported for it when the code runs.
            for_types = {
                id(node)
                for block in tree.body
                if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
                for node in ast.walk(block)
            }
            nodes = [node for node in ast.walk(tree) if id(node) not in for_types]
            named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
            named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
            assert "pandas" not in {name.split(".")[0] for name in named}, f"{path.name} imports pandas"


def test_no_two_files_of_one_name():
    names = collections.Counter(path.stem for path in PACKAGE.rglob("*.py"))
    assert [name for name, number in names.items() if number > 1 and name not in SHARED_NAMES] == []


def test_no_module_reaches_into_what_another_keeps_to_itself():
    reached = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = parsed(path)
        nodes = list(ast.walk(tree))
        own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        own |= {
            node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        for node in nodes:
            private = isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr) and node.attr not in own
            # What named tuples have is public.
            if private and node.attr != "_replace" and ast.unparse(node.value) not in ("self", "cls"):
                reached.append(f"{path.name}: {ast.unparse(node)}")
            if isinstance(node, ast.ImportFrom) and node.level:
                reached += [f"{path.name}: {a.name}" for a in node.names if re.match(r"_[^_]", a.name)]
    assert reached == []


def test_every_module_stands_in_the_picture_and_every_module_named_exists():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = text.split("```")[1]
    named = set(re.findall(r"([\w]+)\.py", picture))
    modules = {path.stem for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__", "_version"}
    assert named == modules
    for path in re.findall(r"`([\w/]+\.py)`", text.split("## Where to change what")[1]):
        found = (ROOT / path).exists() or (PACKAGE / path).exists() or any(PACKAGE.rglob(path))
        assert found, f"{path} is named in docs/architecture.md and does not exist"


def test_warnings_are_given_in_one_way():
    """Others would not reach the diagnostics of a fit, and what replaces filters replaces those of all threads."""
    for path in PACKAGE.rglob("*.py"):
        if path.name != "tasks_and_threads.py":
            modules = {
                alias.name for node in ast.walk(parsed(path)) if isinstance(node, ast.Import) for alias in node.names
            }
            assert "warnings" not in modules, f"{path.name}: use dmlrank._utils.tasks_and_threads"

"""A room imports only from rooms below it in docs/architecture.md."""

from __future__ import annotations

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def test_a_room_imports_only_from_rooms_below_it():
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    rooms = re.findall(r"^  (\w+)(?:\.py|/)", picture, flags=re.M)
    order = {room: place for place, room in enumerate(rooms)}
    for path in (ROOT / "dmlrank").rglob("*.py"):
        parts = path.relative_to(ROOT / "dmlrank").with_suffix("").parts
        if parts[0] in ("__init__", "_version"):
            continue
        assert parts[0] in order, f"{parts[0]} is not in the picture"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == len(parts):
                for name in [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]:
                    assert name == "_version" or order[name] > order[parts[0]], f"{path.name} imports {name}"

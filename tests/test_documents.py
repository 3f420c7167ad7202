"""The code of the README runs, and its commands are where they are looked for.

The code of all other pages runs when the site is built (``.ci/run``).
"""

from __future__ import annotations

import pathlib
import re

import pytest

from dmlrank.cli.main import main

ROOT = pathlib.Path(__file__).parents[1]


def test_the_code_of_the_readme_runs():
    document = ROOT / "README.md"
    cells = re.findall(r"^```python\n(.*?)^```$", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert cells
    if any("parquet" in cell for cell in cells):
        pytest.importorskip("pyarrow")
    namespace: dict[str, object] = {}
    for number, cell in enumerate(cells, start=1):
        exec(compile(cell, f"{document.name}, cell {number}", "exec"), namespace)


def test_the_readme_has_two_commands_of_one_line_each_the_main_job_first():
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [block.count("\n") for block in blocks] == [1, 1]
    assert "dmlrank demo" in blocks[0]
    assert "pytest" in blocks[1]


def test_the_readme_quotes_the_demo_word_for_word(capsys):
    """Numbers aside, which depend in their last digit on the versions of the libraries underneath."""
    assert main(["demo"]) == 0
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = re.search(r"^```text\n(4,000 simulated.*?)^```$", text, flags=re.M | re.S).group(1)
    shown, expected = (re.sub(r"[-\d.,]+", "#", part).split() for part in (quoted, capsys.readouterr().out))
    assert shown == expected

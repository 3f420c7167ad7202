"""The code of the README runs, and its commands are where they are looked for.

The code of all other pages runs when the site is built (``.ci/run``).
"""

import pathlib
import re
import struct

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


def text_chunks(png):
    """The texts that a PNG file carries, by keyword: chunks of a length, a type, the data and a checksum."""
    texts, at = {}, 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"tEXt":
            keyword, _, text = png[at + 8 : at + 8 + length].partition(b"\0")
            texts[keyword.decode("latin-1")] = text.decode("latin-1")
        at += length + 12
    return texts


def test_the_picture_and_the_text_of_the_readme_are_of_one_fit():
    """``benchmarks/pictures.py`` writes the verdict of the fit into the picture."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n(4,000 simulated.*?)^```$", text, flags=re.M | re.S).group(1)
    file = re.search(r"!\[The page of the fit above.*?\]\((.+?)\)", text).group(1)
    verdict = text_chunks((ROOT / file).read_bytes())["verdict"]
    assert " ".join(verdict.split()) in " ".join(shown.split())

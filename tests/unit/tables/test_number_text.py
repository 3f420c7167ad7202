"""How numbers are written, and that it is written once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmlrank.tables.display_text import p_value_clause, p_value_text

PACKAGE = Path(__file__).parents[3] / "dmlrank"


@pytest.mark.parametrize(
    ("p", "text", "clause"),
    [
        (1.0, "1.000", "= 1.000"),
        (0.1, "0.100", "= 0.100"),
        (0.01234, "0.012", "= 0.012"),
        (0.0005, "0.001", "= 0.001"),
        (0.00049, "<0.001", "< 0.001"),
        (0.0, "<0.001", "< 0.001"),
    ],
)
def test_p_values(p, text, clause):
    assert p_value_text(p) == text
    assert p_value_clause(p) == clause


def test_no_other_module_cuts_small_p_values_by_itself():
    for path in PACKAGE.rglob("*.py"):
        # Docstrings may quote what a function returns.
        code = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        written = re.search(r"< ?0?\.001|\bp(?:_value)?(?:\[\w\])?:\.[0-9]", code)
        assert path.stem == "display_text" or written is None, path.name

"""How numbers are written."""

import pytest

from dmlrank.tables.display_text import p_value_clause, p_value_text


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

"""Tipping points as text."""

import pytest

from dmlrank.results.sensitivity_results import gamma_text


@pytest.mark.parametrize(("gamma", "text"), [(1.0, "1.00"), (2.345, "2.35"), (12.34, "12.3"), (float("inf"), ">100")])
def test_a_tipping_point_has_three_digits(gamma, text):
    assert gamma_text(gamma) == text

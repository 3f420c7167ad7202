"""The table of what differs between runs names it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.determinism import differences, table


def test_the_table_names_what_differs():
    numbers = {"params": np.array([1.0, 2.0]), "text": "same"}
    other = {"params": np.array([1.0, 2.0 + 4e-16]), "text": "same"}
    assert differences(numbers, dict(numbers)) == {}
    assert differences(numbers, other) == {"params": pytest.approx(2e-16, rel=0.2)}
    assert differences(numbers, {"params": numbers["params"]}) == {"text": np.inf}
    text, n_different = table(["fit"], {"one": {"fit": numbers}, "two": {"fit": numbers}, "three": {"fit": other}})
    assert n_different == 1
    assert "fit, three: params 2e-16" in text
    assert "1 of 2 cells differ" in text

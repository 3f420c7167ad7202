"""The study of settings in a small version: what the page on settings says holds on a seed of its own."""

from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def settings(load_benchmark):
    return load_benchmark("settings")


@pytest.mark.parametrize("name", ["arena-26919", "small-1500"])
def test_settings_cost_what_the_page_says(settings, name):
    rows = pd.DataFrame(settings.replicate(name, seed=1001)).set_index("settings")
    small = name.startswith("small")
    assert bool(rows.loc["True, 10, equal", "failed"]) == small
    assert rows.loc["default", "used"] > (0.9 if small else 0.99)
    every = rows.loc["False, 1, counts"]
    assert every["used"] == 1
    assert every["ratio_median"] < 1.12
    assert every["ratio_largest"] < 1.3
    assert every["pointwise"] > 0.8
    assert rows.loc["default", "ratio_largest"] > every["ratio_largest"]

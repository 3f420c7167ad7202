"""The decomposition of bt's missing coverage: on normal errors it returns what is known of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("studentised", "scenarios", "coverage")


def samples(bias, slope, n=2000):
    """One model; the default's error has a bias and moves its standard error, the oracle's has neither."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=n)
    return pd.DataFrame(
        {
            "scenario": "drawn",
            "seed": np.arange(n),
            "model": "a",
            "truth": 0.0,
            "default": noise + bias,
            "default_se": np.exp(slope * noise),
            "default_critical": 1.96,
            "oracle": noise,
            "oracle_se": 1.0,
            "oracle_critical": 1.96,
        }
    )


def test_a_bias_costs_what_the_normal_distribution_says(study):
    row = study.decomposition(samples(bias=-0.5, slope=0.0)).loc["drawn"]
    assert row["oracle"] == pytest.approx(0.95, abs=0.002)
    assert row["default"] == pytest.approx(0.9210, abs=0.002)
    assert row["default without bias"] == pytest.approx(0.95, abs=0.002)
    assert row["default without correlation"] == pytest.approx(row["default"], abs=0.002)


def test_short_intervals_where_the_bias_goes_cost_more(study):
    results = samples(bias=-0.5, slope=0.1)
    row = study.decomposition(results).loc["drawn"]
    assert row["default"] < row["default without correlation"] - 0.005
    covers = study.coverage_of(results)
    assert covers["default, errors of default"].mean() == pytest.approx(row["default"], abs=0.015)
    assert covers["oracle, errors of oracle"].mean() == pytest.approx(0.95, abs=0.015)

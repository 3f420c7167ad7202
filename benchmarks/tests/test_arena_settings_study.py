"""The study of settings with a feature or a position effect in a small version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("arena_settings", "settings")


def test_targets_are_the_strengths_where_nothing_stands_between(study):
    scenario = study.arena("lopsided-1000")
    counts = study.ordered_counts(scenario.sample(0), scenario.models)
    plain = replace(scenario, position=0.0)
    for settings in ("False, 1, equal", "False, 1, counts", "bt_mle"):
        np.testing.assert_allclose(plain.target(settings, False, counts), scenario.strengths, atol=1e-6)
        assert abs(scenario.target(settings, False, counts) - scenario.strengths).max() > 0.1
    np.testing.assert_array_equal(scenario.target("True, 10, equal", True, counts), scenario.strengths)


def test_a_position_effect_moves_what_is_estimated_without_order(study):
    rows = pd.DataFrame(study.replicate("lopsided-26919", seed=1001)).set_index("settings")
    assert rows.loc["default", "ordered"] == 0
    for settings in ("False, 1, counts", "bt_mle"):
        assert rows.loc[settings, "warned"] > 0
        assert rows.loc[settings, "strengths_pointwise"] < 0.8 < rows.loc[settings, "target_pointwise"]
    # The default takes the effect off.
    for settings in ("default", "True, 10, counts"):
        assert rows.loc[settings, "strengths_pointwise"] > 0.8

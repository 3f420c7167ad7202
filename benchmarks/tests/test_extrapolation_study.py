"""A small version of the study of extrapolated scores: their intervals fail, those of compared pairs hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("extrapolation")


def test_intervals_hold_on_compared_pairs_and_fail_on_extrapolated_ones(study):
    small = {"n_models": 16, "n_pairs": 22, "votes": 120}
    valid, extrapolated = "min_labels=1, position_bias=False", 'graph="complete"'
    found = pd.DataFrame(
        [study.replicate(setting, seed, **small) for setting in (valid, extrapolated) for seed in range(20)]
    )
    by_setting = found.groupby("setting")[["simultaneous", "pointwise"]].mean()
    # Twenty seeds at 95 %: fewer than sixteen that cover have a probability below one in three hundred.
    assert by_setting.loc[valid, "simultaneous"] >= 0.8
    assert by_setting.loc[valid, "pointwise"] >= 0.9
    assert by_setting.loc[extrapolated, "simultaneous"] <= 0.1
    assert by_setting.loc[extrapolated, "pointwise"] <= 0.8


def test_the_graph_of_the_study_is_sparse_and_connected(study):
    pairs = study.sparse_graph(study.N_MODELS, study.N_PAIRS)
    assert len(np.unique(pairs, axis=0)) == 251
    assert len(np.unique(pairs)) == 59
    assert study.true_scores(59).sum() == pytest.approx(0)

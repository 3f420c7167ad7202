"""The study of fewer runs: what three seeds of two settings show."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dmlrank.exceptions import DmlrankWarning


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("fewer_runs")


def test_the_truth_is_that_of_a_large_sample(study):
    scores = study.scores_of("tasks", np.random.default_rng(3), 100_000)[1]
    assert scores.mean(axis=0) == pytest.approx(study.truth_of("tasks"), abs=0.008)


@pytest.mark.parametrize(("setting", "ratio"), [("steep", 0.6), ("no structure", 1.03)])
def test_planned_runs_are_more_precise_than_random_ones(study, setting, ratio):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        found = study.of_seed(setting, 0, n=1000)
    assert found["planned_ratio"] < ratio
    assert found["means_ratio"] < 1.15

"""Extreme numbers, odd names, odd objects and long texts are right, or refused by short errors of the package."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
RNG = np.random.default_rng(0)
SCORES = pd.DataFrame([(q, m, float(RNG.random() < 0.5)) for q in range(120) for m in "abc"], columns=["q", "m", "s"])
VOTES = dr.datasets.simulate_arena(n=400, rng=0)
OF_VOTES = "winner ~ 1 | model_a + model_b"


def fit(data=SCORES, **options):
    return dr.dml_rank("s ~ 1 | m", data, context="q", rng=0, **options)


@pytest.mark.parametrize("size", [1e100, 1e300])
def test_extreme_costs_and_budgets(size):
    with pytest.raises(dr.DmlrankError, match="divide all of them"):
        fit(SCORES.assign(c=np.where(SCORES.q == 3, size, SCORES.index + 1.0))).pareto("c")
    with pytest.raises(dr.DmlrankError, match="budget="):
        dr.dml_rank(OF_VOTES, VOTES, rng=0).design(1 / size)


@pytest.mark.parametrize("name", ["2", "1.0", " d", "d ", "", "2*b", "a - b", "3 - b", "'", "b"])
def test_names_of_candidates(name):
    data = SCORES.assign(m=SCORES.m.map({"a": "1", "b": "b", "c": "3"}))
    if name == "b":
        with pytest.raises(dr.DmlrankError, match="has scores already"):
            fit(data).design(30, candidate=name)
    else:
        assert set(fit(data).design(30, candidate=name).sample(rng=0)["m"]) == {name}


def test_the_task_of_an_error_is_named_as_in_the_data():
    with pytest.raises(dr.DmlrankError, match="task '0' has one prompt"):
        fit(SCORES.assign(t=SCORES.q.clip(upper=1)), weights=dr.EqualTasks("t"))

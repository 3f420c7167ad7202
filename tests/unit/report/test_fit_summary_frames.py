"""Tidy frames and the forest plot show the result's own numbers under plain names."""

import io

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr


@pytest.fixture(scope="module")
def result():
    battles = dr.datasets.simulate_arena(n=1500, rng=1)
    return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", pairs=dr.Pairs(min_labels=5), rng=0)


def test_tidy_holds_the_numbers_of_the_result(result):
    tidy = result.tidy().set_index("term")
    numbers = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
    assert list(tidy) == [*numbers, "interval", "votes", "votes_left_out"]
    shown = pd.read_csv(io.StringIO(result.summary().as_csv()), index_col="model")["adj. P"].astype(str)
    np.testing.assert_allclose(shown.str.lstrip("<").astype(float)[tidy.index], tidy["p_adjusted"], atol=0.001)
    assert (tidy["p_adjusted"] >= tidy["p_value"]).all()
    np.testing.assert_array_equal(tidy["estimate"], result.params)
    np.testing.assert_array_equal(tidy["p_value"], result.pvalues)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], result.conf_int())


@pytest.mark.parametrize("method", ["bonferroni", "none"])
def test_tidy_takes_the_methods_of_conf_int(result, method):
    tidy = result.tidy(alpha=0.1, method=method)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], result.conf_int(alpha=0.1, method=method))
    assert set(tidy["interval"]) == {
        {"none": "pointwise", "max-t": "simultaneous"}.get(method, "simultaneous (Bonferroni)")
    }
    np.testing.assert_array_equal(tidy["p_adjusted"], result.tidy()["p_adjusted"])

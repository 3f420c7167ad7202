"""The methods of the study of small tables agree with other programs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel
from statsmodels.stats.proportion import proportion_confint


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("studies.small_tables")


def binary(samples, n, k, seed):
    return (np.random.default_rng(seed).random((samples, n, k)) < 0.7).astype(float)


def test_wilson_is_that_of_statsmodels(study):
    y = binary(5, 30, 1, 0)
    centre, half = study.wilson(y, 1)
    for s in range(5):
        low, high = proportion_confint(y[s, :, 0].sum(), 30, method="wilson")
        np.testing.assert_allclose([centre[s, 0] - half[s, 0], centre[s, 0] + half[s, 0]], [low, high], atol=1e-12)


def test_the_standard_error_of_a_difference_is_that_of_a_paired_t_test(study):
    y = np.random.default_rng(1).normal(size=(4, 25, 2))
    c = study.contrasts(2, "differences")
    cov = study.covariances(y) * 25 / 24
    for s in range(4):
        expected = ttest_rel(y[s, :, 0], y[s, :, 1])
        z = (y[s].mean(axis=0) @ c[0]) / np.sqrt(c[0] @ cov[s] @ c[0])
        np.testing.assert_allclose(z, expected.statistic, atol=1e-10)


def test_tango_inverts_its_score_test_and_is_symmetric(study):
    y = binary(6, 40, 2, 2)
    low, high = study.tango(y)
    low_of_other, high_of_other = study.tango(y[:, :, ::-1])
    np.testing.assert_allclose(low, -high_of_other, atol=1e-9)
    np.testing.assert_allclose(high, -low_of_other, atol=1e-9)
    d = (y[:, :, 0] - y[:, :, 1]).mean(axis=1)
    assert ((low[:, 0] < d) & (d < high[:, 0])).all()


def test_limits_of_clopper_and_pearson_are_those_of_statsmodels(study):
    y = binary(5, 30, 1, 0)
    low, high = study.clopper_pearson(y, 0.025)
    for s in range(5):
        expected = proportion_confint(y[s, :, 0].sum(), 30, method="beta")
        np.testing.assert_allclose([low[s, 0], high[s, 0]], expected, rtol=1e-9)


def test_the_exact_size_of_the_gate_is_that_of_simulated_releases(load_benchmark):
    n, won, margin = 50, 0.02, 0.1
    sizes = load_benchmark("studies.gate_exact").gate_sizes(n, 0.05, won, np.array([margin]))
    rng = np.random.default_rng(1)
    counts = rng.multinomial(n, [margin + won, won, 1 - margin - 2 * won], size=20_000)
    d = (counts[:, 1] - counts[:, 0]) / n
    share = (counts[:, 1] + counts[:, 0]) / n
    passes = d - 1.6448536 * np.sqrt((share - d**2) / n) > -margin
    assert sizes["normal"] == pytest.approx(passes.mean(), abs=0.01)
    assert sizes["dmlrank"] < 0.05 < sizes["normal"]

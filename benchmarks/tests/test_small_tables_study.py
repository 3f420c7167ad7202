"""The methods of the study of small tables agree with other programs."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("studies.small_tables")


def test_tango_inverts_its_score_test_and_is_symmetric(study):
    y = (np.random.default_rng(2).random((40, 2)) < 0.7).astype(float)
    low, high = study.tango(y)
    np.testing.assert_allclose(study.tango(y[:, ::-1]), (-high, -low), atol=1e-9)
    assert low < (y[:, 0] - y[:, 1]).mean() < high


def test_the_standard_error_of_a_difference_is_that_of_a_paired_t_test(study):
    y = np.random.default_rng(1).normal(size=(25, 2))
    se, _ = study.max_t(y, study.contrasts(2, "differences"))
    assert se[0] * np.sqrt(25 / 24) == pytest.approx((y[:, 0] - y[:, 1]).std(ddof=1) / 5)


def test_the_exact_size_of_the_gate_is_that_of_simulated_releases(load_benchmark):
    n, won, margin = 50, 0.02, 0.1
    sizes = load_benchmark("studies.gate").gate_sizes(n, 0.05, won, np.array([margin]))
    rng = np.random.default_rng(1)
    counts = rng.multinomial(n, [margin + won, won, 1 - margin - 2 * won], size=20_000)
    d = (counts[:, 1] - counts[:, 0]) / n
    share = (counts[:, 1] + counts[:, 0]) / n
    passes = d - 1.6448536 * np.sqrt((share - d**2) / n) > -margin
    assert sizes["normal"] == pytest.approx(passes.mean(), abs=0.01)
    assert sizes["dmlrank"] < 0.05 < sizes["normal"]

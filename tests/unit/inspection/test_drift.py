"""Drift tests against statsmodels, brute force and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import StratifiedTable

from dmlrank.inspection.time_check import FEWEST_ROWS, Column, bounded_features, drift_tests


def draw(seed, n=900, n_strata=4, n_periods=2):
    rng = np.random.default_rng(seed)
    stratum, period = rng.integers(n_strata, size=n), rng.integers(n_periods, size=n)
    value = (rng.random(n) < 0.2 + 0.15 * stratum + 0.08 * period).astype(float)
    return Column(value, period, stratum)


def tables(column, t):
    for s in np.unique(column.stratum):
        part = column.stratum == s
        yield [
            [np.sum(part & (column.value == v) & ((column.period == t) == inside)) for inside in (True, False)]
            for v in (1, 0)
        ]


@pytest.mark.parametrize("n_periods", [2, 5])
def test_binary_values_give_the_mantel_haenszel_test(n_periods):
    column = draw(0, n_periods=n_periods)
    tests = drift_tests([column], n_periods)
    for t in range(n_periods):
        expected = StratifiedTable(np.array(list(tables(column, t))).transpose(1, 2, 0)).test_null_odds(
            correction=False
        )
        assert tests.z[t, 0] ** 2 == pytest.approx(expected.statistic)
        # The Mantel-Haenszel difference of shares.
        sides = [np.array(table, dtype=float) for table in tables(column, t)]
        weights = [table[:, 0].sum() * table[:, 1].sum() / table.sum() for table in sides]
        differences = [table[0, 0] / table[:, 0].sum() - table[0, 1] / table[:, 1].sum() for table in sides]
        assert tests.difference[t, 0] == pytest.approx(np.average(differences, weights=weights))


def test_the_variance_is_that_of_exchanged_times():
    rng = np.random.default_rng(1)
    column = Column(rng.normal(size=160), np.repeat([0, 1, 1], [50, 50, 60]), np.repeat([0, 1, 0], [60, 60, 40]))
    tests = drift_tests([column], 2)
    statistic = []
    for _ in range(1500):
        period = column.period.copy()
        for s in range(2):
            part = np.flatnonzero(column.stratum == s)
            period[part] = rng.permutation(period[part])
        statistic.append(drift_tests([column._replace(period=period)], 2).z[0, 0])
    assert np.std(statistic) == pytest.approx(1, abs=0.06)
    assert np.mean(statistic) == pytest.approx(0, abs=0.08)
    assert np.isfinite(tests.z).all()


def test_what_differs_between_strata_alone_is_no_drift():
    stratum = np.repeat([0, 1], 500)
    # The second stratum has larger values and stands mostly in the second period.
    period = np.concatenate([np.arange(500) % 4 == 0, np.arange(500) % 4 > 0]).astype(int)
    value = np.random.default_rng(2).normal(size=1000) + 3.0 * stratum
    in_strata, pooled = (drift_tests([Column(value, period, s)], 2) for s in (stratum, 0 * stratum))
    assert abs(in_strata.z).max() < 3
    assert abs(pooled.z).min() > 10


def test_clusters_against_a_sum_by_hand():
    rng = np.random.default_rng(3)
    cluster = np.repeat(np.arange(60), 5)
    value = rng.normal(size=300) + 2 * rng.normal(size=60)[cluster]
    period = (cluster >= 25).astype(int)
    stratum = np.zeros(300, dtype=int)
    alone, together = (drift_tests([Column(value, period, stratum, c)], 2) for c in ((), (cluster,)))
    deviation = (value - value.mean()) * np.sqrt(300 / 299)
    by_cluster = [((period == 0) - (period == 0).mean())[cluster == c] @ deviation[cluster == c] for c in range(60)]
    total = (value - value.mean())[period == 0].sum()
    assert together.z[0, 0] == pytest.approx(total / np.sqrt(np.square(by_cluster).sum()))
    assert abs(together.z[0, 0]) < 0.6 * abs(alone.z[0, 0])
    several = drift_tests([Column(value, period, stratum, (np.arange(300), cluster))], 2)
    np.testing.assert_allclose(several.z, together.z)


def test_an_order_of_rows_and_other_numbers_change_nothing():
    column = draw(4, n_periods=3)
    order = np.random.default_rng(5).permutation(900)
    renumbered = Column(column.value[order], column.period[order], 7 * column.stratum[order] + 3)
    tests, again = drift_tests([column], 3), drift_tests([renumbered], 3)
    np.testing.assert_allclose(again.z, tests.z)
    scaled = drift_tests([column._replace(value=5 - 2 * column.value)], 3)
    np.testing.assert_allclose(scaled.z, -tests.z)
    np.testing.assert_allclose(scaled.difference, -2 * tests.difference)


def test_few_rows_rare_events_and_constants_are_not_tested():
    period, stratum = np.repeat([0, 1], [FEWEST_ROWS - 1, 400]), np.zeros(FEWEST_ROWS + 399, dtype=int)
    value = np.random.default_rng(6).normal(size=len(period))
    assert np.isnan(drift_tests([Column(value, period, stratum)], 2).p_value).tolist() == [[True], [False]]
    half = np.arange(2000) % 2
    rare = (np.arange(2000) % 250 == 0).astype(float)
    constant = np.full(2000, 0.1)
    tests = drift_tests([Column(v, half, 0 * half) for v in (rare, constant)], 2)
    assert np.isnan(tests.p_value).all()
    assert np.isnan(tests.p_adjusted).all()
    # A pair that was voted on in one period alone says nothing.
    tests = drift_tests([Column(value, period, period)], 2)
    assert np.isnan(tests.p_value).all()
    assert tests.n_rows.tolist() == [[0], [0]]


def test_no_columns():
    assert drift_tests([], 4).p_value.shape == (4, 0)


def test_without_drift_few_data_sets_have_a_small_adjusted_p_value():
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(200):
        period, stratum = rng.integers(8, size=600), rng.integers(3, size=600)
        columns = [rng.normal(size=600), rng.random(600) < 0.15, rng.lognormal(size=600)]
        tests = drift_tests([Column(np.asarray(c, dtype=float), period, stratum) for c in columns], 8)
        found += np.nanmin(tests.p_adjusted) < 0.05
    # 0.05 plus three standard errors of 200 data sets.
    assert 0.005 <= found / 200 <= 0.097


def test_many_features_are_projected():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(500, 80))
    period = np.repeat([0, 1], 250)
    x[period == 1, :40] += 0.4
    columns, names = bounded_features(x, [f"e{j}" for j in range(80)], most=20)
    assert columns.shape == (500, 20)
    assert names[0] == "projection 1 of 80 features"
    np.testing.assert_array_equal(columns, bounded_features(x, [f"e{j}" for j in range(80)], most=20)[0])
    tests = drift_tests([Column(c, period, 0 * period) for c in columns.T], 2)
    assert np.nanmin(tests.p_adjusted) < 1e-4

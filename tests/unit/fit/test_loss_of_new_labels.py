"""The test that later labels are predicted no worse: its error rate at many looks, and its power."""

import numpy as np
import pytest
from scipy import integrate

from dmlrank.data.preferences import Cells
from dmlrank.fit.extension import LOSS_ERROR_RATE, compare_losses

N_ITEMS, N_EARLY, N_LATER = 3, 400, 100
PAIRS = np.array([(0, 1), (0, 2), (1, 2)])
WIN = np.array([0.8, 0.65, 0.5])


def p_values(rng, shift, looks):
    """p-values at looks after some of the later labels; ``shift`` moves the true probability of a win."""
    n = N_EARLY + N_LATER
    pair, is_later = rng.integers(3, size=n), np.arange(n) >= N_EARLY
    won = rng.random(n) < WIN[pair] - shift * is_later
    y = np.stack([won, ~won], axis=1).astype(float)
    context = np.arange(n)
    cells = Cells(context, *PAIRS[pair].T, y, np.ones(n, dtype=np.intp), np.zeros(n, dtype=bool))
    mu = np.stack([WIN[pair], 1 - WIN[pair]], axis=1)
    for look in looks:
        seen = np.arange(n) < N_EARLY + look
        test = compare_losses(
            cells.only(seen), mu[seen], is_later[seen], context[seen], n_items=N_ITEMS, planned=N_LATER
        )
        yield test.p_value


@pytest.mark.long
def test_the_error_rate_holds_at_all_looks_together():
    rng = np.random.default_rng(1)
    rejected = [min(p_values(rng, 0.0, range(30, 101, 10))) <= LOSS_ERROR_RATE for _ in range(300)]
    # The binomial probability of more than 26 of 300 is below 0.001 where the rate is 0.05.
    assert sum(rejected) <= 26


def test_labels_that_are_predicted_worse_are_found():
    rng = np.random.default_rng(2)
    assert np.mean([next(p_values(rng, 0.45, [100])) <= LOSS_ERROR_RATE for _ in range(50)]) > 0.9


def test_few_later_labels_are_not_tested():
    assert np.isnan(next(p_values(np.random.default_rng(3), 0.0, [29])))


def test_the_p_value_is_one_over_the_one_sided_martingale_by_quadrature():
    rng = np.random.default_rng(4)
    n = N_EARLY + N_LATER
    pair, is_later = rng.integers(3, size=n), np.arange(n) >= N_EARLY
    won = rng.random(n) < WIN[pair] - 0.2 * is_later
    y = np.stack([won, ~won], axis=1).astype(float)
    # Two later votes on each prompt, so that there are half as many units as labels.
    context = np.where(is_later, np.arange(n) // 2, np.arange(n))
    cells = Cells(context, *PAIRS[pair].T, y, np.ones(n, dtype=np.intp), np.zeros(n, dtype=bool))
    mu = np.stack([WIN[pair], 1 - WIN[pair]], axis=1)
    planned, t = 80, N_LATER / 2
    test = compare_losses(cells, mu, is_later, context, n_items=N_ITEMS, planned=planned)
    # tau at ``planned`` units is where the two-sided boundary of level 0.05 is lowest.
    grid = np.linspace(1, 30, 2_900_001)
    rho = np.sqrt(grid[np.argmin((1 + 1 / grid) * (np.log1p(grid) - 2 * np.log(LOSS_ERROR_RATE)))] / planned)
    slope = np.linspace(0, 10 * rho, 200_001)
    half_normal = 2 * np.exp(-((slope / rho) ** 2) / 2) / (rho * np.sqrt(2 * np.pi))
    martingale = integrate.trapezoid(half_normal * np.exp(slope * test.z * np.sqrt(t) - slope**2 * t / 2), slope)
    assert 1 < martingale < 1e4
    assert test.p_value == pytest.approx(1 / martingale, rel=1e-5)

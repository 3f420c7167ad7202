"""A chain of daily extensions is near one fit at the end, and flat in memory and in time: a small benchmark."""

import gc

import numpy as np
import pytest

import dmlrank as dr

DAYS, BY_DAY, N_FIRST = 20, 6, 400
pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


@pytest.fixture(scope="module")
def benchmark(load_benchmark):
    return load_benchmark("extend", "scenarios", "coverage")


def shares(features, labels, weights, rng):
    """A learner of shares of the categories, which takes no time."""
    share = np.bincount(labels, weights, minlength=4) / weights.sum()
    return lambda features: np.tile(share, (len(features), 1))


def count_results():
    gc.collect()
    return sum(type(found) is dr.RankResults for found in gc.get_objects())


def test_a_chain_of_extensions_is_right_and_flat(benchmark):
    frame = dr.datasets.simulate_arena(n=N_FIRST + DAYS * BY_DAY, rng=5)
    settings = {**benchmark.options(5), "learner": shares}
    n_results, rows = count_results(), []
    for result, row in benchmark.chain(frame, n_first=N_FIRST, by_day=BY_DAY, days=DAYS, settings=settings):
        rows.append(row)
        last = result
    assert [row["prompts"] for row in rows] == list(range(N_FIRST + BY_DAY, len(frame) + 1, BY_DAY))
    # After 100 further prompts the votes have grown by a quarter.
    assert sum(row["trained"] for row in rows) == 1
    assert last.extension.number < DAYS
    distance = benchmark.distances(last, frame, settings)
    assert distance.mean() < 0.1
    assert distance.max() < 0.3
    # Only the last result is kept.
    del result
    assert count_results() <= n_results + 1
    seconds = [row["cpu_seconds"] for row in rows if not row["trained"]]
    assert np.median(seconds[-10:]) < 3 * np.median(seconds[:10])

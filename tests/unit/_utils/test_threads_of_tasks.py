"""Tasks and folds at the same time give the same results, in the same order, as one after the other."""

from __future__ import annotations

import threading

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank._utils.computation import Threads, computing_with, current, in_order
from dmlrank.nuisance import boosting as train
from dmlrank.nuisance import effects_and_trees
from dmlrank.nuisance.boosting import split_jobs
from dmlrank.nuisance.outcome_model.main_effects import fit_smooth_boosted
from dmlrank.nuisance.propensity_model.pair_choice import fit_pair_shares


@pytest.mark.parametrize("n", [1, 3])
def test_results_come_in_order(n):
    assert list(in_order(lambda number: number + 1, range(5), n)) == [1, 2, 3, 4, 5]
    assert list(in_order(str, iter("abc"), n)) == ["a", "b", "c"]
    with Threads(n) as workers:
        assert [list(workers.in_order(lambda number: number * 2, range(4))) for _ in range(2)] == [[0, 2, 4, 6]] * 2


def test_a_task_sees_its_own_number_of_threads_and_reports_nothing():
    def seen(_):
        return current()

    with computing_with(3, progress=lambda *report: None):
        assert current().n_threads == 3
        assert [here.n_jobs for here in in_order(seen, range(4), 2)] == [1] * 4
        assert [here.n_jobs for here in in_order(seen, range(4), 2, n_jobs_of_each=5)] == [5] * 4
        assert [here.report for here in in_order(seen, range(4), 2)] == [None] * 4
        assert [here.n_jobs for here in in_order(seen, range(4), 1)] == [3] * 4
        with computing_with(1):
            assert current().n_jobs == 1
            assert current().report is not None
    assert current().n_jobs is None


def test_two_tasks_run_at_the_same_time():
    # Each task waits for the other one. If they ran one after the other, the first would wait in vain.
    meet = threading.Barrier(2, timeout=30)
    assert list(in_order(lambda number: meet.wait() >= 0, range(2), 2)) == [True, True]


@pytest.mark.parametrize(("tasks", "n"), [(range(3), 1), (range(1), 4), ([], 4)])
def test_one_worker_or_one_task_needs_no_threads(tasks, n):
    assert list(in_order(lambda number: threading.current_thread(), tasks, n)) == [threading.main_thread()] * len(tasks)


def test_few_tasks_begin_ahead_of_the_result_that_the_caller_waits_for():
    begun: list[int] = []
    numbers = iter(range(100))

    def tasks():
        for number in numbers:
            begun.append(number)
            yield number

    results = in_order(lambda number: number, tasks(), 3)
    assert next(results) == 0
    assert len(begun) == 4
    results.close()
    assert len(begun) == 4


def test_tasks_that_may_not_run_with_others_run_alone_and_in_their_place():
    running: set[int] = set()

    def work(number):
        running.add(number)
        alone = len(running) == 1
        thread = threading.current_thread()
        running.discard(number)
        return number, alone, thread is threading.main_thread()

    results = list(in_order(work, range(7), 3, is_concurrent=lambda number: number not in (2, 3, 6)))
    assert [number for number, _, _ in results] == list(range(7))
    assert [number for number, _, in_main_thread in results if in_main_thread] == [2, 3, 6]
    assert all(alone for _, alone, in_main_thread in results if in_main_thread)


def test_errors_reach_the_caller_in_their_place():
    results = in_order(lambda number: 1 // (1 - number), range(3), 2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_jobs_are_split_between_boosters_at_the_same_time_and_threads_of_each():
    cases = [(2, 5), (8, 2), (1, 3), (None, 1)]
    jobs = []
    for n_jobs, n_boosters in cases:
        with computing_with(n_jobs):
            jobs.append(split_jobs(500_000, n_boosters))
    assert jobs == [(2, 1), (2, 4), (1, 1), (1, None)]


@pytest.mark.long
def test_folds_at_once_give_the_numbers_of_folds_in_turn(rank, draw_battles):
    rng = np.random.default_rng(0)
    frame = draw_battles(rng, 3000, 4).frame
    noise = {f"z{number}": rng.integers(2, size=len(frame)) for number in range(80)}
    frame = frame.assign(**noise)
    # Many features make the training matrices so large that boosters of several folds are trained at once.
    with computing_with(2):
        assert split_jobs(len(frame) // 2 * 2 * (len(noise) + 4), 2) == (2, 1)
    formula = f"winner ~ x0 + x1 + {' + '.join(noise)} | model_a + model_b"
    results = [rank(frame, formula, functional="bt", n_jobs=n_jobs) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(results[0].params, results[1].params)
    np.testing.assert_array_equal(results[0].cov_params(), results[1].cov_params())


def votes_with_jumps(make_data, n):
    """One vote per context on four items; trees lower the log-loss of labels and of the pairs that are shown."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(n, 2))
    jump = x[:, 0] * x[:, 1] > 0
    first = np.where(jump & (rng.random(n) < 0.7), 0, rng.integers(4, size=n))
    second = (first + rng.integers(1, 4, size=n)) % 4
    label = (rng.random(n) < np.where(jump, 0.8, 0.2)).astype(int)
    return make_data(np.arange(n), first, second, label, n_items=4, n_categories=2, x=x)


def fit_first_stages(data, n_jobs, selection_sample, monkeypatch, own_threads=10**9):
    """Return the models of mu and of the shown pair by fold; small boosters, too, are trained at the same time."""
    fold, seeds = np.arange(data.n_contexts) % 3, np.random.SeedSequence(1).spawn(3)
    monkeypatch.setattr(train, "OWN_THREADS_FROM", own_threads)
    monkeypatch.setattr(train, "SEVERAL_BOOSTERS_FROM", 0)
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", selection_sample)
    with computing_with(n_jobs):
        mu = fit_smooth_boosted(data, fold, seeds)
        shares = fit_pair_shares(data, fold, [np.random.default_rng(seed) for seed in seeds])
    return mu, shares


@pytest.mark.long
@pytest.mark.parametrize("selection_sample", [20_000, 300])
def test_first_stages_do_not_depend_on_the_number_of_folds_at_once(make_data, selection_sample, monkeypatch):
    data = votes_with_jumps(make_data, 500)
    in_turn, at_once = (fit_first_stages(data, n_jobs, selection_sample, monkeypatch) for n_jobs in (1, 2))
    for (mu, shares), (other_mu, other_shares) in zip(
        zip(*in_turn, strict=True), zip(*at_once, strict=True), strict=True
    ):
        assert mu.trees is not None
        np.testing.assert_array_equal(mu.predict(data.x[:20]), other_mu.predict(data.x[:20]))
        np.testing.assert_array_equal(shares.table(data.x[:20]), other_shares.table(data.x[:20]))


def test_lightgbm_is_as_quiet_in_our_threads_as_elsewhere(capfd):
    """Without the package's setting, LightGBM would print that no further splits are possible."""
    x = np.zeros((40, 1))
    data = [lgb.Dataset(x, np.arange(40) % 2, params={"verbosity": -1}).construct() for _ in range(2)]
    boosters = [lgb.Booster({"objective": "binary", "verbosity": -1, "num_threads": 1}, dataset) for dataset in data]
    assert list(in_order(lambda booster: booster.update(), boosters, 2)) == [True, True]
    assert capfd.readouterr().out == ""


@pytest.mark.long
def test_boosters_and_their_data_ask_for_as_many_threads(make_data, monkeypatch):
    """LightGBM warns where they differ. Small and large boosters are trained, on a sample and on all cells."""
    counts: list[tuple[int, int]] = []

    class RecordingBooster(lgb.Booster):
        def __init__(self, params=None, train_set=None, *args, **kwargs):
            super().__init__(params, train_set, *args, **kwargs)
            if train_set is not None:
                self.n_threads = params["num_threads"]
                counts.append((self.n_threads, train_set.params["num_threads"]))

        def add_valid(self, data, name):
            counts.append((self.n_threads, data.params["num_threads"]))
            return super().add_valid(data, name)

    monkeypatch.setattr(lgb, "Booster", RecordingBooster)
    monkeypatch.setattr(lgb.engine, "Booster", RecordingBooster)
    data = votes_with_jumps(make_data, 400)
    for selection_sample in (20_000, 200):
        for own_threads in (0, 1500, 3000, 10**9):
            fit_first_stages(data, 2, selection_sample, monkeypatch, own_threads)
    assert len(counts) > 50
    assert all(of_booster == of_data for of_booster, of_data in counts)
    assert {of_booster for of_booster, _ in counts} == {1, 2}

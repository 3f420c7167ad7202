"""Tasks and folds at the same time give the same results, in the same order, as one after the other."""

import threading
from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dmlrank._utils.tasks_and_threads import (
    Threads,
    computing_with,
    current,
    in_order,
    one_thread,
    product,
    transposed_product,
)
from dmlrank.nuisance.boosting import split_jobs


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


@pytest.mark.parametrize("limit", [1, 40, 10**6])
@pytest.mark.parametrize("shape", [(7, 3, 2), (1, 1, 1), (0, 3, 2), (5, 0, 2)])
def test_blocks_of_any_size_give_the_product(limit, shape):
    n, q, m = shape
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(n, q)), rng.normal(size=(q, m)), rng.normal(size=(n, m))
    np.testing.assert_allclose(product(a, b, limit), a @ b, atol=1e-14)
    np.testing.assert_allclose(transposed_product(a, c, limit), a.T @ c, atol=1e-14)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blocks_of_one_thread_may_overlap_in_any_order():
    """One begins, the other begins, the first ends, the other ends: the order that mixes up what is restored."""
    begun, overlap = Event(), Event()
    inside = []

    def first():
        with one_thread():
            begun.set()
            overlap.wait(30)

    def other():
        begun.wait(30)
        with one_thread():
            overlap.set()
            thread.join(30)
            inside.extend(blas_threads())

    with threadpool_limits(3, "blas"):
        # A library that another test has loaded may have one thread only.
        before = blas_threads()
        thread, later = Thread(target=first), Thread(target=other)
        thread.start()
        later.start()
        later.join(60)
        assert set(inside) == {1}
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert blas_threads() == before

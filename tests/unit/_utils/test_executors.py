"""Tasks on threads, on spawned processes and on a Dask cluster, and what happens when workers end; versions."""

import configparser
import contextlib
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dmlrank as dr
from dmlrank._utils.executors import DaskWorkers, ExecutorWorkers, InFile, InMemory, results_of_tasks
from dmlrank._utils.tasks_and_threads import (
    at_the_same_time,
    collected_warnings,
    computing,
    computing_with,
    current,
    in_workers,
    report,
    warn,
)
from dmlrank._utils.versions import EXTRAS, REQUIRED, require_versions, versions, versions_text
from dmlrank.exceptions import DmlrankWarning, ExecutorError, OptionTypeError


def scale(array, factor):
    """A task."""
    return factor * array.sum()


def jobs_of_a_task(_, number):
    """A task that returns the number of its threads."""
    return current().n_jobs


def warn_of(_, number):
    """A task with a warning."""
    warn(f"task {number}")
    return number


def end_worker(folder, number):
    """A task that ends its worker, once."""
    flag = Path(folder) / "ended"
    if number == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(_, number):
    """A task that fails."""
    if number == 2:
        raise KeyError("two")
    return number


def run(work, shared, tasks):
    return list(in_workers(work, shared, tasks, name="tasks", threads=(1, 1)))


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


class AtOnce(Executor):
    """An executor that carries out a task when it gets it."""

    def submit(self, function, /, *arguments, **keywords):
        future = Future()
        future.set_result(function(*arguments, **keywords))
        return future


def test_results_come_in_the_order_of_the_tasks(processes):
    array, factors = np.arange(1000.0), range(20)
    expected = [factor * array.sum() for factor in factors]
    assert run(scale, array, factors) == expected
    assert current().workers is None
    with ThreadPoolExecutor(3) as threads:
        for executor in (threads, processes, AtOnce()):
            with computing(executor=executor):
                assert current().workers is not None
                assert run(jobs_of_a_task, None, [0, 1]) == [1, 1]
                assert run(scale, array, factors) == expected
                assert run(scale, array, []) == []
    with computing_with(3):
        assert run(jobs_of_a_task, None, [0]) == [3]


def test_values_that_two_threads_share_at_once_are_kept_in_one_folder(processes, monkeypatch):
    new_folder = tempfile.TemporaryDirectory

    def slowly(*arguments, **options):
        time.sleep(0.2)
        return new_folder(*arguments, **options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", slowly)
    workers = ExecutorWorkers(processes)
    with ThreadPoolExecutor(2) as threads:
        shared = list(threads.map(workers.share, ["one", "other"]))
    assert [stored.load() for stored in shared] == ["one", "other"]
    assert len({Path(stored.path).parent for stored in shared}) == 1
    workers.close()
    assert not Path(shared[0].path).parent.exists()


def test_tasks_that_may_not_run_together_run_one_after_the_other_in_a_process():
    running = []

    def task(_, number):
        running.append(threading.get_ident())
        return number

    with ThreadPoolExecutor(2) as threads, computing(executor=threads):
        tasks = in_workers(task, None, range(4), name="tasks", is_concurrent=lambda number: number != 2)
        assert list(tasks) == [0, 1, 2, 3]
    assert set(running) == {threading.get_ident()}


def test_warnings_of_tasks_reach_the_caller_in_the_order_of_the_tasks(processes):
    for executor in (processes, AtOnce()):
        with computing(executor=executor), collected_warnings() as collected:
            run(warn_of, None, range(3))
        assert [str(message) for message in collected] == ["task 0", "task 1", "task 2"]
        assert all(isinstance(message, DmlrankWarning) for message in collected)


@pytest.mark.long
def test_an_error_of_a_task_is_raised_and_the_workers_stay_usable(processes):
    with computing(executor=processes):
        with pytest.raises(KeyError, match="two"):
            run(fail, None, range(100))
        assert run(fail, None, [0, 1]) == [0, 1]


@pytest.mark.long
def test_files_of_shared_values_are_removed(processes, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with computing(executor=processes):
        run(scale, np.ones(100), [1, 2])
        assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
    assert list(tmp_path.iterdir()) == []
    with contextlib.suppress(KeyboardInterrupt), computing(executor=processes):
        for _ in in_workers(scale, np.ones(100), range(50), name="tasks"):
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    assert current().workers is None


@pytest.mark.long
def test_a_process_that_ends_is_said():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        with tempfile.TemporaryDirectory() as folder, computing(executor=executor), pytest.raises(ExecutorError):
            run(end_worker, folder, range(10))
        with pytest.raises(ExecutorError), computing(executor=executor):
            pass


def test_executors_that_cannot_be_used_are_refused():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor,
        pytest.raises(ExecutorError, match=r"forks its processes.*spawn"),
        computing(executor=executor),
    ):
        pass
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ExecutorError), computing(executor=executor):
        pass
    for value in (2, "dask", ThreadPoolExecutor):
        with pytest.raises(OptionTypeError, match="executor"), computing(executor=value):
            pass


def test_an_array_in_a_file_is_mapped_and_read_only(tmp_path):
    value = {"x": np.arange(100_000.0), "names": ["a", "b"], "order": np.arange(6).reshape(2, 3).T}
    stored = InFile.write(value, tmp_path)
    loaded = stored.load()
    np.testing.assert_array_equal(loaded["x"], value["x"])
    np.testing.assert_array_equal(loaded["order"], value["order"])
    assert loaded["names"] == ["a", "b"]
    assert not loaded["x"].flags.writeable
    assert stored.load() is loaded
    assert Path(stored.path).stat().st_size < 8 * 100_000 + 2000


def test_values_that_cannot_be_shared_are_said(tmp_path, monkeypatch):
    with pytest.raises(ExecutorError):
        InFile.write(np.ones(3), tmp_path / "missing")
    stored = InFile.write(np.ones(3), tmp_path)
    Path(stored.path).unlink()
    with pytest.raises(ExecutorError):
        stored.load()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExecutorError):
        InFile.write(lambda: None, tmp_path)


def test_versions_that_differ_are_refused_with_both_lists(tmp_path):
    require_versions(versions())
    other = versions() | {"numpy": "0.1"}
    with pytest.raises(ExecutorError, match=f"{np.__version__}"):
        InMemory(1, other).load()


def test_two_functions_at_the_same_time_keep_the_order_of_their_warnings():
    begun = threading.Event()

    def first():
        assert begun.wait(10)
        warn("first")
        return 1

    def second():
        begun.set()
        warn("second")
        return "two"

    with collected_warnings() as collected:
        assert at_the_same_time(first, second) == (1, "two")
    assert [str(message) for message in collected] == ["first", "second"]


@pytest.mark.parametrize("on_workers", [False, True])
def test_where_one_of_two_functions_is_interrupted_the_other_begins_no_further_task(on_workers):
    begun, interrupted, done = threading.Event(), threading.Event(), []

    def task(_, number):
        begun.set()
        assert interrupted.wait(10)
        done.append(number)

    def first():
        assert begun.wait(10)
        threading.Timer(0.2, interrupted.set).start()
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor, computing(executor=executor) if on_workers else contextlib.nullcontext():
        with pytest.raises(KeyboardInterrupt):
            at_the_same_time(first, lambda: list(in_workers(task, None, range(50), name="tasks")))
        # A few tasks had begun, or were with the workers.
        assert 0 < len(done) < 10
        assert at_the_same_time(lambda: 1, lambda: list(in_workers(scale, np.ones(2), [3], name="tasks"))) == (1, [6.0])


def test_reports_of_two_functions_at_the_same_time_come_one_by_one():
    inside, overlaps = [], []

    def receive(step, total, what):
        inside.append(what)
        time.sleep(0.002)
        overlaps.append(len(inside) > 1)
        inside.pop()

    def steps(what):
        for step in range(20):
            report(step, 20, what)

    with computing_with(2, receive):
        at_the_same_time(lambda: steps("first"), lambda: steps("second"))
    assert len(overlaps) == 40
    assert not any(overlaps)


class LosingClient:
    """A stand-in for a Dask client that loses its workers while it sends a value."""

    def __init__(self, n_failures):
        self.n_failures, self.n_calls = n_failures, 0

    def nthreads(self):
        return {"tcp://127.0.0.1:1": 1}

    def scatter(self, value, **options):
        self.n_calls += 1
        if self.n_calls <= self.n_failures:
            raise TimeoutError("No valid workers found")
        return value

    def submit(self, work, *values, **options):
        return work(*values)


class WorkersOfAStandIn(DaskWorkers):
    """Workers whose tasks are done as soon as they are handed over."""

    def result(self, pending):
        return pending


def test_a_value_is_sent_again_where_workers_are_lost():
    def added(shared, task):
        return shared.value + task

    client = LosingClient(2)
    assert list(results_of_tasks(WorkersOfAStandIn(client), added, 5, [1, 2], "tasks")) == [6, 7]
    assert client.n_calls == 3
    with pytest.raises(ExecutorError):
        list(results_of_tasks(WorkersOfAStandIn(LosingClient(100)), added, 5, [1, 2], "tasks"))


class FailsLater(AtOnce):
    """An executor that carries out two tasks; those after them end otherwise."""

    def __init__(self, error):
        self.error, self.left = error, 2

    def submit(self, function, /, *arguments, **keywords):
        self.left -= 1
        if self.left >= 0:
            return super().submit(function, *arguments)
        if isinstance(self.error, RuntimeError):
            raise self.error
        future = Future()
        if self.error is None:
            future.cancel()
        else:
            future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    "error", [None, OSError("gone"), TimeoutError(), EOFError(), RuntimeError("cannot schedule new futures")]
)
def test_an_executor_that_ends_while_it_has_tasks_is_an_error_of_the_executor(error):
    with pytest.raises(ExecutorError), computing(executor=FailsLater(error)):
        run(scale, np.arange(3.0), range(5))


def test_versions_are_those_installed(capsys):
    dr.show_versions()
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["numpy"] == np.__version__
    assert shown["dmlrank"] == dr.__version__
    assert shown["python"].startswith(sys.version.split()[0])
    assert shown["matplotlib"].endswith("(extra: plot)")


def test_what_is_absent_is_said():
    text = versions_text({"plot": ("no-such-distribution",)})
    assert re.search(r"no-such-distribution +absent \(extra: plot\)", text)


def test_every_dependency_is_listed():
    parser = configparser.ConfigParser()
    parser.read(Path(__file__).parents[3] / "setup.cfg", encoding="utf-8")
    needed = {re.split(r"[<>=~!]", line)[0] for line in parser["options"]["install_requires"].split()}
    assert needed == set(REQUIRED)
    for extra, names in EXTRAS.items():
        if extra in parser["options.extras_require"]:
            assert set(names) == {
                re.split(r"[<>=~!]", line)[0] for line in parser["options.extras_require"][extra].split()
            }

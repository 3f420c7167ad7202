"""Fits, groups and plans on real Dask clusters have the bits of one thread, also after a worker has ended."""

import os

import numpy as np
import pytest

import dmlrank as dr

pytest.importorskip("distributed", reason="distributed is not installed (extra: dask)")

from benchmarks.dask_clusters import ending_a_worker, local_cluster, workers_by_hand
from benchmarks.executors import are_equal, judged, numbers

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("DMLRANK_CLUSTERS") != "1",
        reason="starting clusters takes half a minute; DMLRANK_CLUSTERS=1 in the environment runs these tests",
    ),
    pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning"),
]


@pytest.fixture(scope="module")
def battles():
    return judged(dr.datasets.simulate_arena(n=400, rng=0))


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as client:
        yield client


@pytest.mark.parametrize("name", ["mean preferences", "judge", "plan, rank centrality"])
def test_a_cluster_changes_no_bit(battles, client, name):
    assert are_equal(numbers(name, battles, n_jobs=1), numbers(name, battles, executor=client))


def test_a_fit_of_parquet_files_on_a_cluster_has_the_bits_of_one_thread(battles, client):
    pytest.importorskip("pyarrow")
    assert are_equal(numbers("parquet", battles, n_jobs=1), numbers("parquet", battles, executor=client))


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("settings of mu", "bt"),
        ("scores of contexts", "bt"),
        ("scores of groups", "mean preferences"),
        ("prompts of a plan", "plan, rank centrality"),
    ],
)
def test_a_worker_that_ends_changes_no_bit(battles, client, stage, name):
    expected = numbers(name, battles, n_jobs=1)
    client.wait_for_workers(2, timeout=60)
    with ending_a_worker(client, stage) as ending:
        assert are_equal(expected, numbers(name, battles, executor=client))
    assert ending.ended


def test_the_dashboard_shows_the_names_of_stages(battles, client):
    numbers("mean preferences", battles, executor=client)
    names = set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))
    assert {
        "dmlrank settings of mu",
        "dmlrank settings of the propensity",
        "dmlrank scores of contexts",
        "dmlrank mean preferences of contexts",
        "dmlrank scores of groups of contexts",
    } <= names


def test_workers_started_by_hand_over_tcp(battles):
    with workers_by_hand(2) as client:
        assert all(address.startswith("tcp://127.0.0.1") for address in client.scheduler_info()["workers"])
        assert are_equal(numbers("bt", battles, n_jobs=1), numbers("bt", battles, executor=client))


def test_progress_counts_the_tasks_of_a_cluster(battles, client):
    reports = []
    with dr.computing(executor=client):
        dr.dml_rank(
            "winner ~ length | model_a + model_b",
            battles,
            context="question_id",
            rng=0,
            progress=lambda *report: reports.append(report),
        )
    by_stage = {}
    for step, total, stage in reports:
        by_stage.setdefault(stage, []).append((step, total))
    for stage in ("mu, settings", "propensity, settings", "scores, contexts"):
        steps = [step for step, _ in by_stage[stage]]
        assert steps == sorted(set(steps))
        assert by_stage[stage][-1][0] == by_stage[stage][-1][1]
    assert np.all([total >= step for step, total, _ in reports])

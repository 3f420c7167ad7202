"""Fits, groups and plans on real Dask clusters have the bits of one thread, also after a worker has ended."""

import os

import numpy as np
import pytest

import dmlrank as dr

pytest.importorskip("distributed", reason="distributed is not installed (extra: dask)")

from benchmarks.dask_clusters import ending_a_worker, local_cluster, workers_by_hand
from benchmarks.determinism import Setting, compute, differences

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("DMLRANK_CLUSTERS") != "1",
        reason="starting clusters takes half a minute; DMLRANK_CLUSTERS=1 in the environment runs these tests",
    ),
    pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning"),
]


def differ(name, client):
    """The parts of a case that do not have the bits of one thread."""
    expected = compute(name, Setting())
    with dr.computing(executor=client):
        return differences(expected, compute(name, Setting(n_jobs=None)))


@pytest.fixture(scope="module")
def client():
    with local_cluster(2) as client:
        yield client


@pytest.mark.parametrize(
    "name", ["mean preferences, groups", "judge", "plan from scratch, rank centrality", "parquet files"]
)
def test_a_cluster_changes_no_bit(client, name):
    if name == "parquet files":
        pytest.importorskip("pyarrow")
    assert not differ(name, client)


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("settings of mu", "bt"),
        ("scores of contexts", "bt"),
        ("scores of groups", "mean preferences, groups"),
        ("prompts of a plan", "plan from scratch, rank centrality"),
    ],
)
def test_a_worker_that_ends_changes_no_bit(client, stage, name):
    client.wait_for_workers(2, timeout=60)
    with ending_a_worker(client, stage) as ending:
        assert not differ(name, client)
    assert ending.ended


def test_the_dashboard_shows_the_names_of_stages(client):
    assert not differ("mean preferences, groups", client)
    names = set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))
    assert {
        "dmlrank settings of mu",
        "dmlrank settings of the propensity",
        "dmlrank scores of contexts",
        "dmlrank mean preferences of contexts",
        "dmlrank scores of groups of contexts",
    } <= names


def test_workers_started_by_hand_over_tcp():
    with workers_by_hand(2) as client:
        assert all(address.startswith("tcp://127.0.0.1") for address in client.scheduler_info()["workers"])
        assert not differ("bt", client)


def test_progress_counts_the_tasks_of_a_cluster(client):
    reports = []
    with dr.computing(executor=client):
        dr.dml_rank(
            "winner ~ length | model_a + model_b",
            dr.datasets.simulate_arena(n=400, rng=0),
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

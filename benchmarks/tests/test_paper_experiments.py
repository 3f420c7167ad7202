"""The paper's experiments in a small version: they run, they resume, and their formulas are the paper's."""

from __future__ import annotations

import csv
import importlib
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

NAMES = ("arena", "collection", "debiasing", "judges", "misspecification", "mt_bench", "report", "tables", "ways")
SYNTHETIC = ("debiasing", "judges", "collection", "misspecification")

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


@pytest.fixture(scope="module")
def paper():
    return SimpleNamespace(**{name: importlib.import_module(f"benchmarks.paper.{name}") for name in NAMES})


@pytest.mark.parametrize("way", ["described", "default"])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_an_experiment_runs_in_both_ways(paper, name, way):
    experiment = getattr(paper, name).EXPERIMENT
    tasks = list(experiment.tasks(3, way))
    assert len(set(tasks)) == len(tasks)
    assert all(task[:2] == (3, way) and len(task) == len(experiment.key) for task in tasks)
    rows = pd.DataFrame(experiment.run(tasks[-1], small=True))
    assert set(rows.columns) == set(experiment.columns)
    assert (rows["mse"].astype(float) > 0).all()


def test_shrinkage_is_measured_on_the_samples_of_the_misspecification_experiment(paper):
    experiment = paper.misspecification
    rows = pd.DataFrame(experiment.SHRINKAGE.run((3, "described", 0), small=True)).set_index("estimator")
    others = pd.DataFrame(experiment.run((3, "described", 0, 0.0), small=True)).set_index("estimator")
    assert set(rows.columns) | {"estimator"} == set(experiment.SHRINKAGE.columns)
    assert (rows.loc[others.index, "mse"] == others["mse"]).all()
    slope = rows["slope"].astype(float)
    # Half of a correction takes the slope half of the way.
    between = (slope["plugin"] + slope["restricted, the paper's"]) / 2
    assert slope[experiment.HALF] == pytest.approx(between, abs=1e-4)
    assert slope["plugin"] < slope["restricted, the paper's"]


def test_a_task_has_the_same_rows_every_time(paper):
    task = (3, "described", 0, 1.0)
    assert paper.misspecification.run(task, small=True) == paper.misspecification.run(task, small=True)


def test_debiased_intervals_cover_and_those_of_the_plug_in_do_not(paper):
    rows = [
        row | {"seed": seed}
        for seed in range(4)
        for row in paper.debiasing.run((seed, "default", "", 5, 1000), small=True)
        if row["functional"] == "bt"
    ]
    covers = pd.DataFrame(rows).groupby("estimator")["covers"].sum()
    assert covers["debiased"] >= 3
    assert covers["plugin"] <= 1


@pytest.mark.parametrize(("way", "how"), [("described", "features"), ("default", "features"), ("default", "two-stage")])
def test_a_fit_that_is_updated_with_a_judge_equals_one_that_began_with_it(paper, way, how):
    judges, ways = paper.judges, paper.ways
    battles = judges._battles(3, True)
    fit = dr.dml_rank(
        ways.formula_of(judges.SIMULATOR),
        battles,
        **in_objects(
            {
                "functional": "bt",
                "context": "question_id",
                "propensity": "propensity",
                "rng": 3,
                "n_jobs": 1,
                **ways.options_of(way, "collection", small=True),
                **judges._judge_options(battles, 3, how, 0.4),
            }
        ),
    )
    truth = ways.truth_of(judges.SIMULATOR, "bt", 20_000)
    expected = {"functional": "bt"} | ways.figures(fit, truth, plain=way == "described")
    assert expected in judges.run((3, way, how, 0.4), small=True)


def test_the_noise_of_a_judge_is_the_same_however_it_is_used(paper):
    mu = paper.judges.SIMULATOR.mu(paper.judges.SIMULATOR.features(5, rng=0))
    exact = paper.judges.judge_of(mu, 0.0, np.random.default_rng(1))
    off_diagonal = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(exact[:, off_diagonal], mu[:, off_diagonal], rtol=1e-12)
    noisy = paper.judges.judge_of(mu, 1.0, np.random.default_rng(1))
    np.testing.assert_allclose(noisy[:, off_diagonal].sum(axis=-1), 1)
    assert np.isnan(noisy[:, ~off_diagonal]).all()


def test_both_plans_cost_the_budget_and_buy_the_same_labels(paper):
    study = paper.collection.Study(dr.datasets.Bt(0, n_items=3, n_features=2, gamma=1), 1, {}, 200, 300, 400.0)
    plans = {kind: study.plan(kind, "bt", None) for kind in ("random", "true mu")}
    for plan in plans.values():
        assert plan.expected_cost == pytest.approx(400)
    assert np.ptp(plans["random"].propensities[:]) < 1e-9
    assert np.ptp(plans["true mu"].propensities[:]) > 0.05
    assert plans["true mu"].objective < plans["random"].objective
    labels = []
    for plan in plans.values():
        data = study.fit(plan, "bt").steps.data
        cells = data.cells
        keys = zip(data.context_ids[cells.context], cells.first, cells.second, strict=True)
        labels.append(dict(zip(keys, cells.y[:, 0], strict=True)))
    both = labels[0].keys() & labels[1].keys()
    assert len(both) > 30
    assert all(labels[0][key] == labels[1][key] for key in both)


def paper_formula(battles, models, mu, pi):
    """The mean of the paper's restricted influence values [P eq:eif_bt_restricted] at known mu and pi."""
    k = len(models)
    score = dr.functionals.BradleyTerry(dr.functionals.CategoryWeights.half(2)).value(mu)
    fitted = expit(score[:, :, None] - score[:, None, :])
    weight = fitted * (1 - fitted) * ~np.eye(k, dtype=bool)
    inverse = np.linalg.pinv(weight.sum(axis=2)[:, :, None] * np.eye(k) - weight)
    rows = battles.dropna(subset=["winner"])
    i = rows["question_id"].to_numpy(int)
    a, b = (pd.Categorical(rows[c], categories=models).codes.astype(int) for c in ("model_a", "model_b"))
    residual = (rows["winner"] == "model_a").to_numpy() - mu[i, a, b, 0]
    phi = score.copy()
    np.add.at(phi, i, (inverse[i, :, a] - inverse[i, :, b]) * (residual / pi[i, a, b])[:, None])
    return phi.mean(axis=0)


def test_the_papers_restricted_estimate_is_its_formula(paper, load_benchmark):
    simulator = dr.datasets.Bt(gamma=1.0)
    battles = simulator.sample(300, rng=0)
    x = paper.ways.contexts_of(simulator, battles)
    mu, pi = simulator.mu(x), simulator.propensity(x)
    known = {"mu": mu, "propensity": pi, "floor": 0.0, "context": "question_id", "rng": 0}
    free = dr.dml_rank(paper.ways.formula_of(simulator), battles, **in_objects({"functional": "bt", **known}))
    expected = paper_formula(battles, free.models, mu, pi)
    np.testing.assert_allclose(paper.misspecification.paper_restricted(free, battles, pi), expected, atol=1e-10)


def test_the_critical_value_is_that_of_the_largest_t_value(paper):
    independent = 2.387740  # (2 Phi(c) - 1)^3 = 0.95
    assert paper.ways.critical_value(np.diag([1.0, 4.0, 9.0])) == pytest.approx(independent, abs=0.02)
    assert paper.ways.critical_value(np.ones((3, 3))) == pytest.approx(1.959964, abs=0.02)


def test_finished_tasks_are_not_run_again_and_seeds_are_the_outer_loop(paper, tmp_path):
    experiments = [getattr(paper, name).EXPERIMENT for name in SYNTHETIC]
    missing = paper.tables.missing_tasks(experiments, ("described", "default"), 2, tmp_path)
    seeds = [task[0] for _, task in missing]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1}
    experiment, task = missing[0]
    experiment.append(task, [dict.fromkeys(experiment.columns, 1)], tmp_path)
    left = paper.tables.missing_tasks(experiments, ("described", "default"), 2, tmp_path)
    assert (experiment, task) not in left
    assert len(left) == len(missing) - 1


@pytest.mark.skipif(not os.environ.get("DMLRANK_DATA"), reason="DMLRANK_DATA names no folder with real data")
def test_the_tables_of_the_docs_are_those_of_the_stored_results(paper):
    page = (paper.report.FOLDER.parent / "paper.md").read_text(encoding="utf-8")
    for name in paper.report.TABLES:
        assert f"results/paper_{name}.csv" in page
        with (paper.report.FOLDER / f"paper_{name}.csv").open(encoding="utf-8", newline="") as file:
            assert list(csv.reader(file)) == paper.report.lines_of(name)

"""Small runs of the benchmarks: they run, and their plain versions say what the package says."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

ROOT = pathlib.Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_context_runs_small(monkeypatch, capsys):
    benchmark = load("no_context")
    monkeypatch.setattr(sys, "argv", ["no_context.py", "--small"])
    assert benchmark.main() == 0
    printed = capsys.readouterr().out
    assert "20,000 battles of 10 models, 1 turns" in printed
    for method in ("FastChat's method", "dmlrank, bt", "dmlrank, borda", "dmlrank, rank_centrality"):
        assert method in printed


def test_fastchats_method_fits_the_same_model():
    benchmark = load("no_context")
    battles = benchmark.draw_battles(6000, 6, seed=1)
    exact = dr.dml_rank(benchmark.FORMULA, battles, estimator="bt_mle", rng=0)
    models, share, counts, names = benchmark.count_battles(battles)
    assert counts.sum() == len(battles)
    scores = benchmark.fit_scores(models, share, len(names), 1e-10, counts / counts.sum())
    np.testing.assert_allclose(pd.Series(scores, index=names).sort_index(), exact.params, atol=1e-6)
    assert benchmark.check_scores(battles, {})["FastChat's method"] < 1e-3
    # A bootstrap of 300 knows a standard error to about 4 %.
    bootstrap = benchmark.fastchat(battles, rounds=300, processes=1)
    np.testing.assert_allclose(bootstrap["score"], exact.params, atol=0.2 * exact.bse.max())
    length = (bootstrap["upper"] - bootstrap["lower"]) / (2 * 1.96)
    np.testing.assert_allclose(length, exact.bse, rtol=0.25)


def test_counted_battles_are_all_battles():
    benchmark = load("no_context")
    battles = benchmark.draw_battles(500, 4, seed=2)
    models, share, counts, names = benchmark.count_battles(battles)
    worth = battles["winner"].map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5})
    for (j, k), won, count in zip(models, share, counts, strict=True):
        same = (battles["model_a"] == names[j]) & (battles["model_b"] == names[k]) & (worth == won)
        assert same.sum() == count
    assert counts.sum() == 500


@pytest.mark.parametrize("functional", ["bt", "borda", "rank_centrality"])
def test_ranked_covers_the_order_of_the_battles(functional):
    benchmark = load("no_context")
    scores = benchmark.ranked(functional, benchmark.draw_battles(8000, 4, seed=3))
    # Strengths are drawn in the order of the names.
    assert scores["score"].is_monotonic_increasing
    assert ((scores["lower"] < scores["score"]) & (scores["score"] < scores["upper"])).all()

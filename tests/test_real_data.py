"""Public preference data, found through DMLRANK_DATA."""

from __future__ import annotations

import os
import pathlib
import warnings

import pandas as pd
import pytest

import dmlrank as dr

FUNCTIONALS = ("borda", "bt", "rank_centrality")


@pytest.fixture(scope="module")
def folder():
    path = os.environ.get("DMLRANK_DATA")
    if not path:
        pytest.skip("DMLRANK_DATA does not name the folder of public preference data")
    return pathlib.Path(path)


@pytest.fixture(scope="module")
def arena(folder):
    battles = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
    # Every pair has two labelled prompts in each order: the graph is complete and Borda compares like with like.
    return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, context="question_id", min_labels=2, rng=0)


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_chatbot_arena_agrees_with_its_published_ranking(folder, arena, functional):
    elo = pd.read_csv(folder / "reference" / "lmsys_elo_reference.csv", index_col="model")["elo_2023_06_22_42k"]
    scores = arena.update(functional=functional).params
    assert len(scores) == 20
    assert scores.corr(elo[scores.index], method="spearman") >= 0.985


def test_chatbot_arena_averages_repeated_prompts(arena):
    assert (arena.nobs, arena.nvotes, arena.ncomparisons) == (26_910, 26_919, 26_910)
    assert arena.estimates.design.categories == ("first", "second", "both_good", "both_bad")


def test_by_default_pairs_with_few_labels_are_left_out_and_borda_warns(folder):
    battles = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
    formula = "winner ~ 1 | model_a + model_b"
    with pytest.warns(dr.DmlrankWarning, match=r"incomplete graph \(177 of 190 pairs\)"):
        dr.dml_rank(formula, battles, context="question_id", rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dr.dml_rank(formula, battles, functional="bt", context="question_id", rng=0).graph.n_edges == 177


def test_mt_bench_with_prompts_and_judges_clustered(folder):
    votes = dr.datasets.read_mt_bench(folder / "mt_bench")
    formula = "winner ~ text(prompt, 20) + C(category) + turn | model_a + model_b"
    prompt = ["question_id", "turn"]
    groups = {"groups": ["question_id", "judge"]}
    tune = {"extra_trees": True, "num_leaves": 6, "min_data_in_leaf": 10, "n_estimators": 50}
    result = dr.dml_rank(formula, votes, context=prompt, cov_type="cluster", cov_kwds=groups, tune=tune, rng=0)
    for functional in FUNCTIONALS:
        assert result.update(functional=functional).params.idxmax() == "gpt-4"
    assert (result.nobs, result.nvotes) == (160, 3355)
    assert result.estimates.covariance.n_clusters == (80, 65)
    votes = votes.assign(vote=range(len(votes)))
    independent = dr.dml_rank(formula, votes, context="vote", propensity="marginal", tune=tune, rng=0)
    assert (result.bse / independent.bse).median() > 1.2

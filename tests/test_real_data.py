"""Public preference data, found through DMLRANK_DATA."""

from __future__ import annotations

import os
import pathlib
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

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
    # Every pair has two labelled prompts in each order: the graph is complete and Borda compares like with like. That
    # standard errors then rest on few of them is said.
    with pytest.warns(dr.DmlrankWarning, match="rests on the equivalent of 9 of 26,910 prompts"):
        return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, context="question_id", min_labels=2, rng=0)


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_chatbot_arena_agrees_with_its_published_ranking(folder, arena, functional):
    elo = pd.read_csv(folder / "reference" / "lmsys_elo_reference.csv", index_col="model")["elo_2023_06_22_42k"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
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
    # Pairs with ten labels are enough for a graph, but their log-odds are noisy.
    with pytest.warns(dr.DmlrankWarning, match="too few labels for this functional") as caught:
        assert dr.dml_rank(formula, battles, functional="bt", context="question_id", rng=0).graph.n_edges == 177
    assert not any("incomplete graph" in str(w.message) for w in caught)


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


def test_maximum_likelihood_is_statsmodels_glm_and_the_published_ranking(folder):
    battles = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
    formula = "winner ~ 1 | model_a + model_b"
    result = dr.dml_rank(formula, battles, estimator="bt_mle", rng=0)
    elo = pd.read_csv(folder / "reference" / "lmsys_elo_reference.csv", index_col="model")["elo_2023_06_22_42k"]
    assert round(result.params.corr(elo[result.models], method="spearman"), 3) == 0.994
    codes = [battles[name].map({m: j for j, m in enumerate(result.models)}) for name in ("model_a", "model_b")]
    rows = np.eye(20)[codes[0]] - np.eye(20)[codes[1]]
    y = battles["winner"].map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5).to_numpy()
    sum_zero = np.vstack([np.eye(19), -np.ones(19)])
    glm = sm.GLM(y, rows @ sum_zero, family=sm.families.Binomial())
    prompts = {"groups": pd.factorize(battles["question_id"])[0], "use_correction": False}
    by_prompt = dr.dml_rank(formula, battles, estimator="bt_mle", context="question_id", rng=0)
    for ours, kwds in ((result, {"cov_type": "HC0"}), (by_prompt, {"cov_type": "cluster", "cov_kwds": prompts})):
        fitted = glm.fit(tol=1e-14, maxiter=100, **kwds)
        np.testing.assert_allclose(ours.params, sum_zero @ fitted.params, rtol=0, atol=1e-8)
        expected = sum_zero @ fitted.cov_params() @ sum_zero.T
        np.testing.assert_allclose(ours.cov_params(), expected, rtol=0, atol=1e-8 * np.abs(expected).max())

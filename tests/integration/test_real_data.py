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
    with pytest.warns(dr.DmlrankWarning, match="their effective number is 9 of 26,910 prompts"):
        return dr.dml_rank(
            "winner ~ 1 | model_a + model_b", battles, context="question_id", pairs=dr.Pairs(min_labels=2), rng=0
        )


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_chatbot_arena_agrees_with_its_published_ranking(folder, arena, functional):
    elo = pd.read_csv(folder / "reference" / "lmsys_elo_reference.csv", index_col="model")["elo_2023_06_22_42k"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        scores = arena.update(functional=functional).params
    assert len(scores) == 20
    assert scores.corr(elo[scores.index], method="spearman") >= 0.985


def test_chatbot_arena_averages_repeated_prompts(arena):
    assert (arena.nobs, arena.diagnostics.n_votes, arena.diagnostics.n_comparisons) == (26_910, 26_919, 26_910)
    assert arena.estimates.description.categories == ("first", "second", "both_good", "both_bad")


@pytest.mark.long
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
        # Two pairs have votes that all say the same in one order, but not in both: nothing is added for them.
        assert ours.diagnostics.pairs_without_variation == 0
        np.testing.assert_allclose(ours.cov_params(), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_pairs_of_the_arena_that_are_separated(arena):
    """Where parametric Bradley-Terry with the same tests separates some 166 of 190."""
    separated = {}
    # Models with few battles: their rare pairs decide a standard error, and the fit says so, unless they count less.
    with pytest.warns(dr.exceptions.IntervalWarning, match="few prompts determine"):
        equal = arena.update(functional="bt", edge_weights="equal")
    counts = arena.update(functional="bt", edge_weights="counts")
    for edge_weights, result in (("equal", equal), ("counts", counts)):
        groups = result.ranks()["group"].tolist()
        separated[edge_weights] = sum(not set(a) & set(b) for i, a in enumerate(groups) for b in groups[:i])
        assert result.best_set(1)[0] == "gpt-4"
    assert 138 <= separated["equal"] <= 155
    assert 158 <= separated["counts"] <= 170

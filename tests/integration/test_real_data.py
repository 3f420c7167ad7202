"""Public preference data, found through DMLRANK_DATA."""

from __future__ import annotations

import os
import pathlib

import pandas as pd
import pytest

import dmlrank as dr

from ..support import quiet

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
    with quiet():
        scores = arena.update(functional=functional).params
    assert len(scores) == 20
    assert scores.corr(elo[scores.index], method="spearman") >= 0.985


def test_chatbot_arena_averages_repeated_prompts(arena):
    assert (arena.nobs, arena.diagnostics.n_votes, arena.diagnostics.n_comparisons) == (26_910, 26_919, 26_910)
    assert arena.estimates.description.categories == ("first", "second", "both_good", "both_bad")


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

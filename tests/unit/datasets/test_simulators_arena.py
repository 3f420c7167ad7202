"""The simulated arena: what it promises about pairs, votes, ties and text, and its exact truth against sampling."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.datasets import Arena, simulate_arena
from dmlrank.exceptions import ColumnError, DataError
from dmlrank.functionals import CategoryWeights, named

LABELS = ["model_a", "model_b", "tie", "tie (bothbad)"]
Z_BOUND = 4.5


@pytest.fixture(scope="module")
def battles():
    return simulate_arena(4000, rng=0)


@pytest.fixture(scope="module")
def many():
    return Arena(1).sample(20_000, rng=1)


def test_one_row_per_prompt_with_the_documented_columns(battles):
    assert list(battles) == [
        "question_id",
        "prompt",
        "category",
        "length",
        "model_a",
        "model_b",
        "winner",
        "judge",
        "propensity",
    ]
    assert len(battles) == 4000
    assert battles["question_id"].is_unique
    assert battles.drop(columns="winner").notna().all(axis=None)
    assert (battles["model_a"] != battles["model_b"]).all()
    assert sorted({*battles["model_a"], *battles["model_b"]}) == list(Arena().models)
    assert {"gpt-4", "claude-v1", "koala-13b"} <= set(Arena().models)
    assert set(battles["winner"].dropna()) == set(LABELS)
    assert (battles["prompt"].str.len() == battles["length"]).all()


@pytest.mark.parametrize("coefficients", range(6))
def test_every_draw_is_a_usable_arena(coefficients):
    battles = simulate_arena(4000, coefficients=coefficients, rng=coefficients)
    votes = battles.groupby(["model_a", "model_b"])["winner"].count()
    assert len(votes) == 56
    assert votes.min() >= 15
    assert votes.max() > 2 * votes.min()
    assert 0.2 < battles["winner"].isin(LABELS[2:]).mean() < 0.3
    assert 0.02 < battles["winner"].isna().mean() < 0.04
    assert battles["propensity"].min() > 0.005
    counts = battles["judge"].value_counts()
    assert 250 < len(counts) <= 300
    assert counts.iloc[:30].sum() > 0.4 * 4000


def test_pairs_are_shown_and_voted_on_with_the_stated_propensity(many):
    arena = Arena(1)
    propensity = arena.propensity(many)
    np.testing.assert_allclose(propensity.sum(axis=(1, 2)), 1 - arena.no_vote)
    first, second = (pd.Index(arena.models).get_indexer(many[column]) for column in ("model_a", "model_b"))
    np.testing.assert_array_equal(many["propensity"], propensity[np.arange(len(many)), first, second])
    for category in arena.categories:
        rows = (many["category"] == category).to_numpy()
        voted = rows & many["winner"].notna().to_numpy()
        counts = np.zeros((8, 8))
        np.add.at(counts, (first[voted], second[voted]), 1)
        expected = propensity[rows][0]
        off = ~np.eye(8, dtype=bool)
        z = (counts - rows.sum() * expected)[off] / np.sqrt(rows.sum() * expected * (1 - expected))[off]
        assert np.abs(z).max() < Z_BOUND


def test_votes_follow_mu(many):
    arena = Arena(1)
    voted = many.dropna(subset=["winner"])
    first, second = (pd.Index(arena.models).get_indexer(voted[column]) for column in ("model_a", "model_b"))
    chosen = arena.mu(voted)[np.arange(len(voted)), first, second]
    error = np.eye(4)[pd.Index(LABELS).get_indexer(voted["winner"])] - chosen
    active = (voted["judge"] == voted["judge"].mode()[0]).to_numpy(float)
    weights = [np.ones(len(voted)), np.log(voted["length"] / 150).to_numpy(), active]
    weights += [(first == item) - 1.0 * (second == item) for item in range(8)]
    weights += [(voted["category"] == category).to_numpy(float) for category in arena.categories]
    for weight in weights:
        z = weight @ error / np.sqrt(weight**2 @ (chosen * (1 - chosen)))
        assert np.abs(z).max() < Z_BOUND


@pytest.mark.parametrize("name", ["borda", "bt", "rank_centrality"])
def test_truth_is_the_mean_over_the_prompts(name, many):
    arena = Arena(1)
    scores = named(name).bind(CategoryWeights.half(4)).value(arena.mu(many))
    truth = arena.truth(name)
    z = (scores.mean(axis=0) - truth.to_numpy()) / (scores.std(axis=0) / np.sqrt(len(many)))
    assert np.abs(z).max() < Z_BOUND
    assert list(truth.index) == list(arena.models)
    np.testing.assert_allclose(arena.truth(named(name)), truth)


def test_mu_is_a_distribution_on_every_pair_and_nothing_on_the_diagonal(battles):
    mu = Arena().mu(battles)
    assert mu.shape == (4000, 8, 8, 4)
    np.testing.assert_allclose(mu.sum(axis=-1), np.broadcast_to(1 - np.eye(8), (4000, 8, 8)), atol=1e-12)
    assert mu[:, ~np.eye(8, dtype=bool)].min() > 0.005


def test_the_same_seed_gives_the_same_frame(battles):
    assert simulate_arena(rng=0).equals(battles)
    assert Arena().contexts(4000, rng=0).equals(battles[["question_id", "prompt", "category", "length"]])
    assert not simulate_arena(60, rng=4, coefficients=1).equals(simulate_arena(60, rng=4))
    assert simulate_arena(60, rng=4, no_vote=0.0)["winner"].notna().all()


def test_contexts_that_are_not_the_arenas_are_refused():
    arena = Arena()
    with pytest.raises(ColumnError, match="categry"):
        arena.propensity(pd.DataFrame({"categry": ["math"]}))
    with pytest.raises(ColumnError, match="'length'"):
        arena.mu(pd.DataFrame({"category": ["math"]}))
    with pytest.raises(DataError, match="math"):
        arena.mu(pd.DataFrame({"category": ["maths"], "length": [3]}))
    for length in (0, np.nan, "long"):
        with pytest.raises(DataError, match="positive"):
            arena.mu(pd.DataFrame({"category": ["math"], "length": [length]}))

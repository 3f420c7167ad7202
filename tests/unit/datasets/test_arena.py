"""The simulated arena: what it promises about pairs, votes, ties and text, and its exact truth against sampling."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.datasets import Arena, simulate_arena
from dmlrank.datasets.arena import SHARES, draw_prompts, length_distribution
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


def test_propensities_differ_by_category_and_pair():
    arena = Arena()
    tables = arena.propensity(pd.DataFrame({"category": arena.categories}))[:, ~np.eye(8, dtype=bool)]
    assert np.median(tables.max(axis=0) / tables.min(axis=0)) > 1.2
    assert tables.mean(axis=0).max() > 2 * tables.mean(axis=0).min()


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


@pytest.mark.long
def test_lengths_of_prompts_have_the_distribution_that_truth_uses():
    groups, prompts = draw_prompts(30_000, np.random.default_rng(0))
    lengths = np.array([len(prompt) for prompt in prompts])
    np.testing.assert_allclose(np.bincount(groups) / 30_000, SHARES, atol=0.015)
    assert SHARES.sum() == pytest.approx(1)
    for group, category in enumerate(Arena().categories):
        pmf = length_distribution(category)
        assert pmf.sum() == pytest.approx(1)
        cdf = np.cumsum(pmf)
        own = lengths[groups == group]
        assert pmf[own].min() > 0
        empirical = np.cumsum(np.bincount(own, minlength=len(pmf))) / len(own)
        assert np.abs(empirical - cdf).max() < 2.0 / np.sqrt(len(own))


def test_outcomes_and_pairings_depend_on_category_and_length_alone(battles):
    arena = Arena()
    only = pd.DataFrame({"category": battles["category"], "length": battles["length"]})
    np.testing.assert_array_equal(arena.mu(only), arena.mu(battles))
    np.testing.assert_array_equal(arena.propensity(only), arena.propensity(battles))
    longer = arena.mu(only.assign(length=only["length"] * 3))
    assert np.abs(longer - arena.mu(only)).max() > 0.05


def advantage(mu):
    return np.log((mu[..., 0] + np.eye(8)) / (mu[..., 1] + np.eye(8)))


def test_no_bradley_terry_model_holds_unless_interaction_is_zero(battles):
    contexts = battles.head(50)
    for interaction in (0.0, 1.0):
        arena = Arena(interaction=interaction, position_effect=0.0)
        score = advantage(arena.mu(contexts))
        strength = score.mean(axis=2)
        gap = np.abs(score - strength[:, :, None] + strength[:, None, :]).max()
        spread = np.abs(score - score[0]).max()
        assert (gap < 1e-10 and spread < 1e-10) if interaction == 0 else (gap > 0.1 and spread > 0.1)


def test_being_shown_first_helps_by_the_position_effect(battles):
    score = advantage(Arena(position_effect=0.3).mu(battles.head(20)))
    off = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose((score + np.swapaxes(score, 1, 2))[:, off], 0.6)


def test_mu_is_a_distribution_on_every_pair_and_nothing_on_the_diagonal(battles):
    mu = Arena().mu(battles)
    assert mu.shape == (4000, 8, 8, 4)
    np.testing.assert_allclose(mu.sum(axis=-1), np.broadcast_to(1 - np.eye(8), (4000, 8, 8)), atol=1e-12)
    assert mu[:, ~np.eye(8, dtype=bool)].min() > 0.005


def test_mean_strengths_hold_in_every_draw():
    scores = pd.concat([Arena(seed).truth("bt") for seed in range(4)], axis=1)
    assert scores.std(axis=1).max() < 0.05
    assert list(scores.mean(axis=1).sort_values().index[-3:]) == ["gpt-3.5-turbo", "claude-v1", "gpt-4"]


def test_prompts_are_text_about_their_category(battles):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    decomposition = pytest.importorskip("sklearn.decomposition")
    counts = text.TfidfVectorizer().fit_transform(battles["prompt"])
    assert counts.shape[1] > 60
    assert battles["prompt"].nunique() > 0.95 * len(battles)
    scores = decomposition.TruncatedSVD(50, random_state=0).fit_transform(counts)
    assert np.linalg.matrix_rank(scores) == 50
    centres = pd.DataFrame(scores).groupby(battles["category"]).mean()
    distance = ((scores[:, None] - centres.to_numpy()) ** 2).sum(axis=2)
    assert (centres.index[distance.argmin(axis=1)] == battles["category"]).mean() > 0.7
    assert not battles["prompt"].str.contains("  ").any()


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

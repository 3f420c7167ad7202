"""Simulators against their formulas written out, and samples against the probabilities and pairs they promise."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from dmlrank.datasets import Arena, Bt, Ties, simulate_arena, simulate_bt, simulate_ties
from dmlrank.exceptions import ColumnError, DataError, OptionError, OptionTypeError
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality, named

SIMULATORS = [Ties(3), Ties(1, n_items=4, n_features=1, position_effect=0.5), Bt(2, gamma=1.5), Bt(0, n_items=2)]
Z_BOUND = 4.5


def ids(simulator):
    return f"{type(simulator).__name__}-{simulator.n_items}-{simulator.n_features}"


@pytest.fixture(params=SIMULATORS, ids=ids)
def simulator(request):
    return request.param


def utilities_by_hand(sim, x):
    """u_j(x) of app:sim with the documented order of draws, one number at a time."""
    r = np.random.default_rng(sim.coefficients)
    K, p, q = sim.n_items, sim.n_features, min(2, sim.n_features)
    W, b = r.normal(size=(K, p)), 0.5 * r.normal(size=K)
    W_q, phase, b_pi = 0.6 * r.normal(size=(K, q)), r.uniform(0, 2 * np.pi, K), 0.2 * r.normal(size=K)
    u = []
    for j in range(K):
        linear = sum(W[j, a] * x[a] for a in range(p))
        quadratic = sum(W_q[j, a] * x[a] ** 2 for a in range(q))
        u.append(linear + b[j] + quadratic + 0.6 * math.sin(2 * math.pi * x[0] + phase[j]))
    return u, b_pi


def sigmoid(t):
    return 1 / (1 + math.exp(-t))


def mu_by_hand(sim, x, j, k):
    u, _ = utilities_by_hand(sim, x)
    d = (u[j] - u[k]) / sim.temperature + sim.position_effect * (x[0] - 0.5)
    if isinstance(sim, Bt):
        cycle = 0 if sim.n_items == 2 else (k == (j + 1) % sim.n_items) - (j == (k + 1) % sim.n_items)
        first = sigmoid(d + sim.gamma * cycle)
        return [first, 1 - first]
    tie = 0.2 - 1.2 * abs(d) + 0.4 * math.cos(2 * math.pi * x[min(1, len(x) - 1)])
    exponentials = [math.exp(d), math.exp(-d), math.exp(tie)]
    raised = [max(e / sum(exponentials), sim.min_mass) for e in exponentials]
    return [value / sum(raised) for value in raised]


def propensity_by_hand(sim, x, j, k):
    u, b_pi = utilities_by_hand(sim, x)
    d = (u[j] - u[k]) / sim.temperature + sim.position_effect * (x[0] - 0.5)
    score = math.log(0.3 / 0.7) - 0.8 * abs(d) + 0.4 * (x[0] - 0.5) + b_pi[j] + b_pi[k]
    mixed = (1 - sim.selection_strength) * 0.3 + sim.selection_strength * sigmoid(score)
    return min(max(mixed, sim.propensity_min), sim.propensity_max)


def test_mu_and_propensity_are_the_papers_formulas(simulator):
    simulator = dataclasses.replace(simulator, selection_strength=0.9, propensity_min=0.1, propensity_max=0.35)
    X = simulator.features(5, rng=0)
    mu, propensity = simulator.mu(X), simulator.propensity(X)
    K = simulator.n_items
    assert mu.shape == (5, K, K, 2 if isinstance(simulator, Bt) else 3)
    for i, j, k in np.ndindex(5, K, K):
        if j == k:
            assert not mu[i, j, j].any()
            assert propensity[i, j, j] == 0
        else:
            np.testing.assert_allclose(mu[i, j, k], mu_by_hand(simulator, X[i], j, k), rtol=1e-12)
            np.testing.assert_allclose(propensity[i, j, k], propensity_by_hand(simulator, X[i], j, k), rtol=1e-12)


class Stacked:
    """The three named functionals side by side, so that one pass over the contexts serves all."""

    def value(self, mu):
        weights = CategoryWeights.half(mu.shape[-1])
        return np.hstack([kind(weights).value(mu) for kind in (Borda, BradleyTerry, RankCentrality)])


@pytest.mark.long
def test_draw_5_has_the_scores_by_which_it_is_known():
    scores = Ties(5).truth(Stacked())
    # 0.0005 of rounding, and three Monte-Carlo standard errors.
    np.testing.assert_allclose(scores.to_numpy()[[2, 5, 8]], [0.889, 1.494, 0.405], atol=0.002)


@pytest.mark.parametrize("functional", ["borda", "bt", Borda(), RankCentrality(CategoryWeights.half(3), walk="rate")])
def test_truth_is_the_mean_score_over_fresh_contexts(functional):
    ties = Ties(1)
    named = {"borda": Borda(), "bt": BradleyTerry()}
    scorer = (named[functional] if isinstance(functional, str) else functional).bind(CategoryWeights.half(3))
    mu = ties.mu(ties.features(3000, rng=0))
    by_hand = np.mean([scorer.value(mu[i : i + 1])[0] for i in range(3000)], axis=0)
    scores = ties.truth(functional, n=3000)
    np.testing.assert_allclose(scores.to_numpy(), by_hand, rtol=1e-10)
    assert list(scores.index) == ["model_0", "model_1", "model_2"]


def test_truth_refuses_what_has_no_scores():
    with pytest.raises(OptionError, match="borda"):
        Ties().truth("brda", n=10)
    with pytest.raises(OptionTypeError, match="value"):
        Ties().truth(Borda, n=10)
    with pytest.raises(OptionTypeError, match="value"):
        Ties().truth(3, n=10)


def cells(simulator, frame):
    """Features, selection and labels of a sample in arrays."""
    contexts = frame.drop_duplicates("question_id")
    X = contexts[[f"x{a}" for a in range(simulator.n_features)]].to_numpy()
    labelled = frame.dropna(subset=["winner"])
    names, labels = list(simulator.models), ["model_a", "model_b", "tie"]
    cell = (
        labelled["question_id"].to_numpy(),
        labelled["model_a"].map(names.index).to_numpy(),
        labelled["model_b"].map(names.index).to_numpy(),
    )
    return X, cell, labelled["winner"].map(labels.index).to_numpy(), labelled


@pytest.mark.parametrize(
    "simulator", [Ties(5, selection_strength=0.8), Bt(1, gamma=2, selection_strength=0.5)], ids=ids
)
def test_samples_follow_the_propensity_and_mu(simulator):
    n = 20_000
    X, cell, labels, labelled = cells(simulator, simulator.sample(n, rng=1))
    propensity, mu = simulator.propensity(X), simulator.mu(X)
    np.testing.assert_array_equal(labelled["propensity"].to_numpy(), propensity[cell])

    selected = np.zeros(propensity.shape)
    selected[cell] = 1
    assert selected.sum() == len(labelled)
    off = ~np.eye(simulator.n_items, dtype=bool)
    residual = selected - propensity
    z = residual.sum(axis=0)[off] / np.sqrt((propensity * (1 - propensity)).sum(axis=0)[off])
    assert np.abs(z).max() < Z_BOUND
    between = np.corrcoef(residual[:, off].T)
    assert np.abs(between - np.eye(len(between))).max() < Z_BOUND / np.sqrt(n)

    chosen = mu[cell]
    error = np.eye(mu.shape[-1])[labels] - chosen
    for weight in (np.ones(len(labels)), X[cell[0], 0] - 0.5, cell[1] - 1.0, cell[2] - 1.0):
        z = weight @ error / np.sqrt(weight**2 @ (chosen * (1 - chosen)))
        assert np.abs(z).max() < Z_BOUND


def test_the_frame_keeps_every_context_and_its_features_exactly(simulator):
    frame = simulator.sample(400, rng=2)
    columns = [f"x{a}" for a in range(simulator.n_features)]
    assert list(frame) == ["question_id", *columns, "model_a", "model_b", "winner", "propensity"]
    assert frame["question_id"].is_monotonic_increasing
    assert not frame.duplicated(["question_id", "model_a", "model_b"]).any()
    contexts = frame.groupby("question_id")[columns]
    assert (contexts.nunique() == 1).all(axis=None)
    np.testing.assert_array_equal(contexts.first().to_numpy(), simulator.features(400, rng=2))
    np.testing.assert_array_equal(contexts.first().index, np.arange(400))


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_log_odds_around_the_cycle_add_up_to_gamma_per_step(gamma):
    bt = Bt(gamma=gamma)
    mu = bt.mu(bt.features(4, rng=0)) + np.eye(4)[..., None]
    score = np.log(mu[..., 0] / mu[..., 1])
    np.testing.assert_allclose(score[:, [0, 1, 2, 3], [1, 2, 3, 0]].sum(axis=1), 4 * gamma, atol=1e-12)
    np.testing.assert_allclose(score, -np.swapaxes(score, 1, 2), atol=1e-12)


@pytest.mark.parametrize(("function", "kind"), [(simulate_ties, Ties), (simulate_bt, Bt)])
def test_the_functions_sample_from_the_classes(function, kind):
    frame = function(50, coefficients=4, n_items=5, propensity_rate=0.2, rng=3)
    assert frame.equals(kind(4, n_items=5, propensity_rate=0.2).sample(50, rng=3))
    assert function(rng=0)["question_id"].nunique() == 2000
    with pytest.raises(OptionTypeError, match="temperature"):
        function(10, temprature=2.0)


@pytest.mark.parametrize(
    ("kind", "parameters", "error"),
    [
        (Ties, {"n_items": 1}, OptionError),
        (Ties, {"n_features": 0}, OptionError),
        (Ties, {"coefficients": -1}, OptionError),
        (Ties, {"temperature": 0.0}, OptionError),
        (Ties, {"min_mass": 0.5}, OptionError),
        (Ties, {"propensity_rate": 1.0}, OptionError),
        (Ties, {"propensity_min": 0.6}, OptionError),
        (Ties, {"tie_level": np.nan}, OptionError),
        (Ties, {"tie_wave": "0.4"}, OptionTypeError),
        (Ties, {"selection_strength": -0.1}, OptionError),
        (Arena, {"coefficients": 0.5}, OptionError),
        (Arena, {"no_vote": 1.0}, OptionError),
        (Arena, {"n_judges": 0}, OptionError),
        (Arena, {"interaction": -1.0}, OptionError),
    ],
)
def test_parameters_out_of_range_are_named(kind, parameters, error):
    with pytest.raises(error, match=next(iter(parameters)) if "propensity_min" not in parameters else "propensity_max"):
        kind(**parameters)


def test_features_of_the_wrong_shape_are_refused():
    for wrong in (np.zeros(2), np.zeros((4, 3)), np.full((1, 2), np.nan)):
        with pytest.raises(DataError, match="X "):
            Ties().mu(wrong)
        with pytest.raises(DataError, match="X "):
            Ties().propensity(wrong)
    with pytest.raises(OptionError, match="n=0"):
        Ties().sample(0)


LABELS = ["model_a", "model_b", "tie", "tie (bothbad)"]


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

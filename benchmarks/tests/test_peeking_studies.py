"""Small versions of the studies of looks at growing data; their closed forms against the package."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr


@pytest.fixture(scope="module")
def peeking(load_benchmark):
    return load_benchmark("peeking")


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_influence_of_the_study_is_the_packages(peeking, functional):
    people, n = peeking.population(), 1200
    battles = peeking.battles_of(people, n, np.random.default_rng(5))
    stratum, pairs = battles["stratum"].to_numpy(), (peeking.FIRST, peeking.SECOND)
    mu, propensity = np.zeros((n, 6, 6, 3)), np.zeros((n, 6, 6))
    mu[:, *pairs], mu[:, *pairs[::-1]] = people.p[stratum], people.p[stratum][..., [1, 0, 2]]
    propensity[:, *pairs] = propensity[:, *pairs[::-1]] = people.shown[stratum]
    res = dr.dml_rank(
        "winner ~ C(stratum) | model_a + model_b",
        battles,
        functional=functional,
        context="prompt",
        position_bias=False,
        learning=dr.Learning(mu=mu, floor=1e-4),
        propensity=propensity,
        pairs=dr.Pairs(min_labels=1),
        rng=0,
    )
    names = [f"m{j}" for j in range(6)]
    cell = np.full(n, peeking.PAIRS * 3)
    labelled = battles["winner"].notna().to_numpy()
    place = {(names[j], names[k]): number for number, (j, k) in enumerate(zip(*pairs, strict=True))}
    votes = battles[labelled]
    outcome = votes["winner"].map({"model_a": 0, "model_b": 1, "tie": 2}).to_numpy()
    cell[labelled] = (
        3 * np.array([place[pair] for pair in zip(votes["model_a"], votes["model_b"], strict=True)]) + outcome
    )
    counts = np.zeros((peeking.STRATA, peeking.PAIRS * 3 + 1), dtype=int)
    np.add.at(counts, (stratum, cell), 1)
    phi = peeking.terms(functional, people.p, people.shown)
    mean, covariance = peeking.moments(phi.reshape(-1, 6), counts.ravel())
    order = [res.names.index(name) for name in names]
    np.testing.assert_allclose(mean, res.params[names], rtol=1e-9)
    np.testing.assert_allclose(phi[stratum, cell] - mean, res.influence[:, order], atol=1e-9)
    of_influence = np.cov(res.influence[:, order].T) / n
    np.testing.assert_allclose(covariance, of_influence, atol=1e-12)


def test_fixed_intervals_are_wrong_at_some_look_and_sequential_ones_are_not(peeking):
    table = peeking.study(12, ("borda", "bt"), seed=3).set_index(["statement", "critical values"])
    any_look = table["any look"].groupby(level=[0, 1]).mean()
    assert any_look["pairs", "fixed"] > 0.15
    assert any_look["pairs", "sequential"] < 0.1
    assert (table["last look"] <= table["any look"]).all()
    widths = peeking.widths(peeking.truth_of("bt", peeking.population()), "bt")
    assert all(1 < row["pairs"] < row["one contrast"] < 2 for row in widths)


# --- users as clusters ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clusters(load_benchmark):
    return load_benchmark("peeking_clusters", "peeking")


def test_moments_of_the_study_of_users_are_the_packages(clusters, monkeypatch):
    monkeypatch.setattr(clusters, "looks", lambda: np.array([30, 60]))
    people = clusters.population(0, balanced=True, spread=2.0)
    counts, fold = clusters.draw(people, 60, np.random.default_rng(1))
    sums, products = clusters.totals(counts, fold)
    phi = np.broadcast_to(clusters.mean_terms("borda", people), (*sums.shape, clusters.K))
    mean, by_user, by_prompt = clusters.moments(phi, sums, products)
    user, cell = (np.repeat(index, counts[counts > 0]) for index in np.nonzero(counts))
    pair, outcome = np.divmod(cell, 3)
    is_labelled = pair < clusters.PAIRS
    pair = np.minimum(pair, clusters.PAIRS - 1)
    combinations = np.array([(j, k) for j in range(6) for k in range(j + 1, 6)])
    names = np.array([f"m{j}" for j in range(6)], dtype=object)
    battles = pd.DataFrame(
        {
            "user": user,
            "model_a": np.where(is_labelled, names[combinations[pair, 0]], None),
            "model_b": np.where(is_labelled, names[combinations[pair, 1]], None),
            "winner": np.where(is_labelled, np.array(["model_a", "model_b", "tie"], dtype=object)[outcome], None),
        }
    )
    n = len(battles)
    mu, propensity = np.zeros((n, 6, 6, 3)), np.zeros((n, 6, 6))
    first, second = combinations.T
    p = people.p.mean(axis=0)
    mu[:, first, second], mu[:, second, first] = p, p[:, [1, 0, 2]]
    propensity[:, first, second] = propensity[:, second, first] = people.shown[0]
    res = dr.dml_rank(
        "winner ~ 1 | model_a + model_b",
        battles,
        position_bias=False,
        learning=dr.Learning(mu=mu, floor=1e-4),
        propensity=propensity,
        pairs=dr.Pairs(min_labels=1),
        rng=0,
        cov_type="cluster",
        cov_kwds={"groups": "user"},
    )
    order = [list(names).index(name) for name in res.names]
    np.testing.assert_allclose(res.params, mean[-1][order], atol=1e-9)
    own = res.cov_params().to_numpy()
    np.testing.assert_allclose(own, by_user[-1][np.ix_(order, order)], rtol=1e-6, atol=1e-12)
    assert (np.diagonal(by_user[-1]) > np.diagonal(by_prompt[-1])).mean() > 0.5


def test_sequential_intervals_of_users_rarely_miss_and_fixed_ones_often_do(clusters):
    table = clusters.study(8).set_index(["critical values", "statement"]).sort_index()["any look"]
    assert table.loc[("fixed", "pairs")].mean() > 0.2
    assert table.loc[("sequential", "pairs")].mean() < 0.1

"""A model with few votes is ranked by default, and changes neither scores nor errors of the others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights

_FORMULA = "winner ~ 1 | model_a + model_b"
_STRENGTH = np.linspace(0.6, -0.6, 8)


def _votes(n: int, seed: int, first: int | None = None, strength: float = 0.0) -> pd.DataFrame:
    """Votes on eight models, or of a new model against them."""
    rng = np.random.default_rng(seed)
    a, b = np.array([rng.choice(8, 2, replace=False) for _ in range(n)]).T
    names = np.array([f"m{j}" for j in range(8)])
    left = _STRENGTH[a] if first is None else np.full(n, strength)
    won, flipped = rng.random(n) < 1 / (1 + np.exp(_STRENGTH[b] - left)), rng.random(n) < 0.5
    of_left = names[a] if first is None else np.full(n, "new")
    shown = np.where(flipped, names[b], of_left), np.where(flipped, of_left, names[b])
    winner = np.where(won != flipped, "model_a", "model_b")
    return pd.DataFrame({"model_a": shown[0], "model_b": shown[1], "winner": winner})


OLD = _votes(4000, 0)
WITH_NEW = pd.concat([OLD, _votes(90, 1, first=1, strength=0.5)], ignore_index=True)


def _generated(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, object]]:
    """Votes of some models, those on one or two more with few votes, and options; without a feature all is exact."""
    rng = np.random.default_rng(seed)
    n_models, of_order = int(rng.integers(3, 8)), rng.choice([0.0, 0.5])
    strength, ties = rng.normal(0, 1, n_models), rng.choice([0, 0.3])
    names = np.array([f"m{j}" for j in range(n_models)])

    def votes(n: int, orders: str, name: str | None = None) -> pd.DataFrame:
        a, b = np.array([rng.choice(n_models, 2, replace=False) for _ in range(n)]).T
        of_a, left = (names[a], strength[a]) if name is None else (np.full(n, name), np.full(n, rng.normal()))
        # Pairs in both orders, in one only, or mostly in one.
        is_first = {"one": of_a < names[b], "both": rng.random(n) < 0.5}.get(
            orders, (of_a < names[b]) ^ (rng.random(n) < 0.1)
        )
        gap = np.where(is_first, 1, -1) * (left - strength[b]) + of_order
        won = np.where(rng.random(n) < 1 / (1 + np.exp(-gap)), "model_a", "model_b")
        shown = np.where(is_first, of_a, names[b]), np.where(is_first, names[b], of_a)
        columns = {"model_a": shown[0], "model_b": shown[1], "winner": np.where(rng.random(n) < ties, "tie", won)}
        prompts = [f"{name}{i}" for i in rng.integers(0, n, n)]
        return pd.DataFrame(columns | {"worker": rng.integers(0, 20, n).astype(str), "prompt": prompts})

    old = votes(int(rng.integers(300, 1500)), rng.choice(["both", "one", "mostly"]))
    few = [votes(int(rng.integers(1, 9)), orders, f"z{orders}") for orders in ("one", "both")[: rng.integers(1, 3)]]
    options: dict[str, object] = {"functional": rng.choice(["bt", "borda"])}
    options |= [{}, {}, {"pairs": "arena"}, {"position_bias": False}][rng.integers(4)]
    options |= [{}, {"context": "prompt"}, {"cov_type": "cluster", "cov_kwds": {"groups": "worker"}}][rng.integers(3)]
    return old, pd.concat([old, *few], ignore_index=True), options


@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
@pytest.mark.parametrize("seed", range(20))
def test_thin_models_change_nothing_of_the_others(seed):
    old, all_votes, options = _generated(seed)
    without, with_few = (dr.dml_rank(_FORMULA, votes, rng=0, **options) for votes in (old, all_votes))
    others = list(without.models)
    assert len(with_few.models) > len(others)
    differences = np.eye(len(others))[:-1] - np.eye(len(others))[1:]
    np.testing.assert_allclose(differences @ with_few.params[others], differences @ without.params, atol=1e-12)
    covariances = [differences @ one.cov_params().loc[others, others] @ differences.T for one in (with_few, without)]
    np.testing.assert_allclose(*covariances, rtol=1e-9, atol=1e-12 * without.bse.max() ** 2)
    np.testing.assert_allclose(with_few.bse[others], without.bse, rtol=1e-10)
    assert "With few votes" in " ".join(str(with_few.summary()).split())


def test_mean_preferences_need_both_orders_of_a_model_apart():
    in_one = WITH_NEW[(WITH_NEW["model_b"] != "new")]
    with pytest.warns(dr.DmlrankWarning, match="'new'"):
        res = dr.dml_rank(_FORMULA, in_one, functional="bt", average="preferences", rng=0)
    assert "new" not in res.models


def test_likelihood_refers_to_the_models_with_enough_votes():
    options = {"functional": "bt", "estimator": "bt_mle", "rng": 0}
    without, with_it = (dr.dml_rank(_FORMULA, votes, **options) for votes in (OLD, WITH_NEW))
    over_all = dr.dml_rank(_FORMULA, WITH_NEW, pairs=dr.Pairs(apart=0), **options)
    others = list(without.params.index)
    assert with_it.params[others].sum() == pytest.approx(0, abs=1e-12)
    assert over_all.params.sum() == pytest.approx(0, abs=1e-12)
    assert (with_it.bse[others] / without.bse).max() < 1.01 < 1.05 < (over_all.bse[others] / without.bse).min()
    # Another reference moves all scores together: differences have the same estimates and errors.
    contrasts = np.eye(9)[:-1] - np.eye(9)[1:]
    covariances = [contrasts @ one.cov_params().to_numpy() @ contrasts.T for one in (with_it, over_all)]
    np.testing.assert_allclose(np.diff(with_it.params), np.diff(over_all.params), atol=1e-12)
    np.testing.assert_allclose(*covariances, atol=1e-12)


def test_new_model_has_the_error_of_its_own_votes():
    estimates = []
    for seed in range(30):
        votes = pd.concat([OLD, _votes(90, 10 + seed, first=1, strength=0.9)], ignore_index=True)
        res = dr.dml_rank(_FORMULA, votes, functional="bt", position_bias=False, rng=0)
        estimates.append((res.params["new"] - 0.9, res.bse["new"]))
    error, std_error = np.array(estimates).T
    assert abs(error.mean()) < 0.15
    assert (np.abs(error) < 2 * std_error).mean() > 0.85


@pytest.mark.parametrize("kind", [Borda, BradleyTerry])
def test_derivatives_of_scores_with_models_apart(kind):
    rng, n_items = np.random.default_rng(0), 5
    weights = rng.random((n_items, n_items))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    apart = np.array([False, True, False, False, True])
    functional = kind(CategoryWeights.half(3), None, weights, apart)
    mu, delta = rng.dirichlet(np.ones(3), (2, n_items, n_items)), rng.normal(size=(2, n_items, n_items, 3))
    step = 1e-6 * delta
    numeric = (functional.value(mu + step) - functional.value(mu - step)) / 2e-6
    np.testing.assert_allclose(functional.derivative(mu, delta), numeric, atol=1e-6)
    gauge = functional.gauge(n_items).basis
    np.testing.assert_allclose(
        functional.derivative(mu, np.where(True, delta - delta.mean(-1, keepdims=True), 0)) @ gauge.T, 0, atol=1e-9
    )
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    by_pair = sum(
        functional.derivative_at(mu[0, j, k][None], delta[0, j, k][None], np.array([j]), np.array([k]), n_items)
        for j, k in zip(first, second, strict=True)
    )
    np.testing.assert_allclose(by_pair[0], functional.derivative(mu, delta)[0], atol=1e-9)
    if kind is BradleyTerry:
        amounts, directions = rng.random((n_items, n_items)) * (weights > 0), functional.label_directions(n_items)
        expected = np.einsum("jk,jka,jkb->ab", amounts, directions, directions)
        np.testing.assert_allclose(functional.sum_over_pairs(amounts), expected, atol=1e-12)
    kept = np.ix_(~apart, ~apart)
    alone = kind(CategoryWeights.half(3), None, weights[kept])
    np.testing.assert_allclose(functional.value(mu)[:, ~apart], alone.value(mu[:, ~apart][:, :, ~apart]), atol=1e-12)


def test_arena_is_one_word_for_all_votes_weights_by_counts_and_pooled_orders():
    said = {"pairs": dr.Pairs(min_labels=1, edge_weights="counts"), "position_bias": False}
    default = dr.dml_rank(_FORMULA, WITH_NEW, functional="bt", rng=0)
    results = [
        dr.dml_rank(_FORMULA, WITH_NEW, functional="bt", rng=0, pairs="arena"),
        default.update(pairs="arena"),
        dr.dml_rank(_FORMULA, WITH_NEW, functional="bt", rng=0, **said),
    ]
    for res in results[:2]:
        np.testing.assert_array_equal(res.params, results[2].params)
        np.testing.assert_array_equal(res.bse, results[2].bse)
    with pytest.raises(OptionError, match="arena"):
        dr.dml_rank(_FORMULA, WITH_NEW, pairs="areena")

"""Pairs without order: against the estimator written out, what it gains, and the test of its assumption."""

import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.functionals import CategoryWeights, named
from dmlrank.inference.covariance import Covariance
from dmlrank.options import in_objects

from ..support import FORMULA, either_order, quiet, without_order

LABELS = {
    2: ["model_a", "model_b"],
    3: ["model_a", "model_b", "tie"],
    4: ["model_a", "model_b", "both_good", "both_bad"],
}
FUNCTIONALS = ("borda", "bt", "rank_centrality")


def simulate(rng, mu, propensity, advantage=0.0):
    """Every ordered pair of every prompt with its own chance; ``advantage`` moves labels to the item shown first."""
    n, n_items, _, n_categories = mu.shape
    rows = []
    for i in range(n):
        shown = [
            (j, k) for j in range(n_items) for k in range(n_items) if j != k and rng.uniform() < propensity[i, j, k]
        ]
        for j, k in shown:
            label = 0 if rng.uniform() < advantage else rng.choice(n_categories, p=mu[i, j, k])
            rows.append((f"q{i:05d}", f"m{j}", f"m{k}", LABELS[n_categories][label]))
        if not shown:
            rows.append((f"q{i:05d}", None, None, None))
    return pd.DataFrame(rows, columns=["prompt", "model_a", "model_b", "winner"])


def written_out(functional, mu, propensity, votes):
    n_categories = mu.shape[-1]
    flip = [1, 0, *range(2, n_categories)]
    delta = np.zeros_like(mu)
    for row in votes.dropna().itertuples():
        i, j, k = int(row.prompt[1:]), int(row.model_a[1:]), int(row.model_b[1:])
        y = np.eye(n_categories)[LABELS[n_categories].index(row.winner)]
        total = propensity[i, j, k] + propensity[i, k, j]
        delta[i, j, k] += (y - mu[i, j, k]) / total
        delta[i, k, j] += (y[flip] - mu[i, k, j]) / total
    phi = functional.value(mu) + functional.derivative(mu, delta)
    theta = phi.mean(axis=0)
    return theta, phi - theta


@pytest.mark.parametrize("n_categories", [2, 3, 4])
@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_known_nuisances_give_the_formula_written_out(draw_mu, rank, functional, n_categories):
    rng = np.random.default_rng(n_categories)
    mu = without_order(draw_mu(rng, 80, 4, n_categories))
    propensity = rng.uniform(0.1, 0.9, size=(80, 4, 4))
    votes = simulate(rng, mu, propensity)
    expected = either_order(propensity)
    fit = rank(votes, functional=functional, position_bias=False, mu=mu, propensity=expected, floor=0)
    bound = named(functional).bind(CategoryWeights.half(n_categories))
    theta, phi = written_out(bound, mu, propensity, votes)
    np.testing.assert_allclose(fit.params, theta, rtol=1e-8)
    np.testing.assert_allclose(fit.influence, phi, rtol=1e-8, atol=1e-12)
    # What is added for a shrunken mu has tests of its own.
    covariance = Covariance(phi.T @ phi / 80**2, fit.estimates.covariance.basis)
    if functional != "borda":
        covariance = covariance.with_variance_correction(fit.steps.influence.variance_correction / 80)
    np.testing.assert_allclose(fit.cov_params(), covariance.matrix, rtol=1e-8, atol=1e-12)


def test_pairs_shown_in_one_order_only_are_compared(rank):
    votes = simulate(np.random.default_rng(5), np.full((300, 3, 3, 3), 1 / 3), np.full((300, 3, 3), 0.5))
    one_order = votes[(votes["model_a"] < votes["model_b"]) | votes["model_a"].isna()]
    with pytest.raises(dr.DmlrankError, match="position_bias"):
        rank(one_order, min_labels=10, position_bias=True)
    for order in (False, "auto"):
        assert rank(one_order, min_labels=10, position_bias=order).graph.complete


def test_given_probabilities_and_counts_have_to_ignore_order(rank, draw_mu):
    rng = np.random.default_rng(7)
    mu, propensity = draw_mu(rng, 60, 3, 3), rng.uniform(0.2, 0.8, size=(60, 3, 3))
    votes = simulate(rng, without_order(mu), propensity)
    with pytest.raises(dr.DmlrankError):
        rank(votes, position_bias=False, mu=mu)
    with pytest.raises(dr.DmlrankError):
        rank(votes, position_bias=False, mu=without_order(mu), propensity=propensity)


@pytest.mark.parametrize("merged", [False, True])
def test_the_position_test_sees_an_advantage_of_the_first(rank, merged):
    mu = np.full((800, 3, 3, 3), 1 / 3)
    votes = simulate(np.random.default_rng(8), mu, np.full((800, 3, 3), 0.4), advantage=0.2)
    diagnostics = rank(votes, position_bias=not merged, propensity="marginal").diagnostics
    assert diagnostics.position_z > 4
    assert diagnostics.position_effect == pytest.approx(0.2, abs=0.06)


def uneven_votes(advantage, share_first, seed=5):
    """Votes on four equal models; "d" is shown first in ``share_first`` of its votes."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(j, k) for j in range(4) for k in range(j)])[rng.integers(6, size=3000)]
    is_reversed = rng.random(3000) < np.where(pairs[:, 0] == 3, 1 - share_first, 0.5)
    names = np.array(list("abcd"))[np.where(is_reversed[:, None], pairs[:, ::-1], pairs)]
    winner = np.where(rng.random(3000) < 0.5 + advantage, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[:, 0], "model_b": names[:, 1], "winner": winner})


@pytest.mark.parametrize("estimator", ["debiased", "bt_mle"])
def test_an_ignored_position_effect_is_warned_of_where_it_moves_the_scores(estimator):
    options = {"functional": "bt", "estimator": estimator, "rng": 0, "n_jobs": 1}
    options |= {} if estimator == "bt_mle" else {"position_bias": False}
    pattern = r"display order is ignored.*an advantage.*'d' in (79|80|81) %.*position_bias=True"

    def warned(votes):
        result = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, **in_objects(options))
        return any(re.search(pattern, text) for text in result.diagnostics.warnings)

    with quiet():
        assert warned(uneven_votes(0.15, 0.8))
        # Without an effect, or with orders in balance, nothing is lost.
        assert not warned(uneven_votes(0.0, 0.8))
        assert not warned(uneven_votes(0.15, 0.5))
        # A name that is spelt otherwise on one side is warned of as such.
        spelt = uneven_votes(0.15, 0.5)
        spelt.loc[(spelt["model_a"] == "d") & (spelt.index % 2 == 0), "model_a"] = "D"
        said = dr.dml_rank("winner ~ 1 | model_a + model_b", spelt, **in_objects(options)).diagnostics.warnings
        assert "differ only by letter case" in said[0]
        assert not any("display order is ignored" in text for text in said)


@pytest.mark.parametrize("share_first", [0.5, 0.9])
@pytest.mark.filterwarnings("ignore:display order:dmlrank.DmlrankWarning")
def test_orders_out_of_balance_do_not_shrink_the_position_effect(share_first):
    votes = pd.concat([uneven_votes(0.1, share_first, seed) for seed in range(3)], ignore_index=True)
    votes = votes[(votes == "d").any(axis=1)]
    found = dr.dml_rank(FORMULA, votes, functional="bt", position_bias=False, rng=0, n_jobs=1).diagnostics
    # The model shown first wins 60 of 100, by 0.2 more than the other.
    assert abs(found.position_effect - 0.2) < 2.5 * found.position_effect / found.position_z < 0.12

"""Columns that are no display order: of winners and losers, or one with the pair; what a fit and its verdict say."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dmlrank as dr
from dmlrank.exceptions import IntervalWarning, OptionError
from dmlrank.options import in_objects

WINNERS = "winner ~ 1 | first + second"


def drawn(rng, n_models, n, effect=0.0, one_order=False):
    """Votes in display order: a model wins by its strength, and more often where it is shown first."""
    strength = np.linspace(0.8, -0.8, n_models)
    pairs = np.array([rng.choice(n_models, 2, replace=False) for _ in range(n)])
    pairs = np.sort(pairs, axis=1) if one_order else pairs
    wins = rng.random(n) < 1 / (1 + np.exp(strength[pairs[:, 1]] - strength[pairs[:, 0]] - effect))
    names = np.array([f"m{j}" for j in range(n_models)])
    label = np.where(wins, "model_a", "model_b")
    return pd.DataFrame({"first": names[pairs[:, 0]], "second": names[pairs[:, 1]], "winner": label})


# The family of winner and loser columns: any number of models and votes, the winner's column first or second, some
# votes ties in either order, or no outcome at all. The scores are those of the same votes with
# the two models of each row in random order.
@pytest.mark.parametrize("seed", range(6))
def test_columns_of_winners_and_losers_are_no_display_order(seed):
    rng = np.random.default_rng(seed)
    votes = drawn(rng, int(rng.integers(3, 6)), int(rng.integers(300, 600)))
    is_tie = rng.random(len(votes)) < rng.choice([0.0, 0.2])
    votes.loc[is_tie, "winner"] = "tie"
    column, label = (("first", "home"), ("second", "away"))[seed % 2]
    is_there = votes["winner"] == ("model_a" if column == "first" else "model_b")
    table, swap = votes.copy(), ~(is_there | is_tie)
    table.loc[swap, ["first", "second"]] = votes.loc[swap, ["second", "first"]].to_numpy()
    table["winner"] = np.where(is_tie, "draw", label)
    options = {"functional": "borda", "min_labels": 1, "rng": 0}
    res = dr.dml_rank(WINNERS, table, **in_objects(options))
    random = dr.dml_rank(WINNERS, votes, **in_objects({"position_bias": False, **options}))
    np.testing.assert_allclose(res.params, random.params, rtol=1e-12)
    np.testing.assert_allclose(res.bse, random.bse, rtol=1e-12)
    assert "who won and who lost" in " ".join(str(res.summary()).split())
    assert "when shown first" not in " ".join(str(res.summary()).split())
    assert dr.read_json(res.to_json()).diagnostics.outcome_kind == "winners"
    with pytest.raises(OptionError, match="who won and who lost, and not who was shown first"):
        dr.dml_rank(WINNERS, table, **in_objects({"position_bias": True, **options}))
    if not is_tie.any() and column == "first":
        without = dr.dml_rank("~ 1 | first + second", table, **in_objects(options))
        assert without.params.equals(res.params)
        assert dr.check("~ 1 | first + second", table).labels["votes"].tolist() == [len(table)]


def test_an_interval_of_an_effect_of_order_stays_within_0_and_100(ignore_warnings):
    votes = drawn(np.random.default_rng(0), 3, 90, effect=2.5)
    res = dr.dml_rank(WINNERS, votes, functional="borda", pairs=dr.Pairs(min_labels=1), position_bias=True, rng=0)
    text = " ".join(str(res.summary()).split())
    low, high = map(float, re.search(r"interval by itself ([-\d.]+) to ([-\d.]+)", text).groups())
    assert 0 <= low < high <= 100


# The family of orders that are one with the pair: some share of the pairs is shown in one order only. The lead, in
# shares of wins, is that of the effect that the warning names.
@pytest.mark.parametrize("estimator", ["debiased", "bt_mle"])
@pytest.mark.parametrize("seed", range(3))
def test_order_that_is_one_with_the_pair_is_named_as_what_may_make_the_lead(seed, estimator):
    rng = np.random.default_rng(seed)
    votes = drawn(rng, 3, 2000, one_order=True)
    votes["winner"] = np.where(rng.random(2000) < 0.5 + rng.uniform(0.04, 0.15), "model_a", "model_b")
    functional = {"functional": "bt"} if estimator == "bt_mle" else {}
    with pytest.warns(IntervalWarning, match="100 % of the compared pairs were shown in one display order only"):
        res = dr.dml_rank(WINNERS, votes, **in_objects({"estimator": estimator, "rng": 0, **functional}))
    assert res.diagnostics.order_of_lead == pytest.approx(100 * (votes["winner"] == "model_a").mean(), abs=4)
    assert "display order alone makes this lead" in res.verdict()


def partly_in_one_order(rng, n_models, n, effect=0.4):
    """Votes of which two thirds of the pairs are shown in one order only; scores are linear, and sum to zero."""
    strength = np.linspace(0.8, -0.8, n_models)
    pairs = np.array([(j, k) for j in range(n_models) for k in range(j + 1, n_models)])
    pair = rng.integers(len(pairs), size=n)
    pairs, swap = pairs[pair], (pair % 3 == 0) & (rng.random(n) < 0.5)
    pairs[swap] = pairs[swap, ::-1]
    wins = rng.random(n) < 1 / (1 + np.exp(strength[pairs[:, 1]] - strength[pairs[:, 0]] - effect))
    names = np.array([f"m{j}" for j in range(n_models)])
    votes = pd.DataFrame({"first": names[pairs[:, 0]], "second": names[pairs[:, 1]], "x": rng.normal(size=n)})
    return votes.assign(winner=np.where(wins, "model_a", "model_b")), strength


# Without features the pooled effect is that of a regression with a constant for every pair in both orders: a logistic
# one of the log-odds of bt, and a linear one of the shares of borda.
def test_the_effect_of_order_is_that_of_a_regression_with_pairs(ignore_warnings):
    votes, _ = partly_in_one_order(np.random.default_rng(0), 5, 3000)
    res = dr.dml_rank(WINNERS, votes, functional="bt", rng=0)
    turned = votes["first"] > votes["second"]
    names = np.sort(votes[["first", "second"]], axis=1)
    pair = pd.Series(names[:, 0] + names[:, 1])
    in_both = turned.groupby(pair).transform("nunique") == 2
    design = pd.get_dummies(pair[in_both], dtype=float).assign(order=np.where(turned[in_both], -1.0, 1.0))
    won = (votes["winner"] == "model_a") ^ turned
    glm = sm.GLM(won[in_both].astype(float), design, family=sm.families.Binomial()).fit(cov_type="HC0")
    assert res.diagnostics.order_effect == pytest.approx(glm.params["order"], rel=1e-8)
    assert res.diagnostics.order_effect_error == pytest.approx(glm.bse["order"], rel=1e-6)
    linear, borda = sm.OLS(won[in_both].astype(float), design).fit(cov_type="HC0"), res.update(functional="borda")
    assert borda.diagnostics.order_effect == pytest.approx(linear.params["order"], rel=1e-8)
    assert borda.diagnostics.order_effect_error == pytest.approx(linear.bse["order"], rel=1e-6)
    model = dr.dml_rank(WINNERS, votes, functional="bt", estimator="bt_mle", position_bias=True)
    assert (res.params - model.params).abs().max() < model.bse.max()
    ignored = dr.dml_rank(WINNERS, votes, functional="bt", position_bias=False, rng=0)
    assert (ignored.params - model.params).abs().max() > 3 * model.bse.max()
    assert (res.bse >= ignored.bse - 1e-3).all()
    text = " ".join(str(res.summary()).split())
    assert "is taken off the scores of all, which assumes that order has the same effect in every pair" in text
    assert not any("order" in warning for warning in res.diagnostics.warnings)
    assert dr.read_json(res.to_json()).diagnostics.order_effect == res.diagnostics.order_effect
    assert borda.update(functional="bt").params.equals(res.params)

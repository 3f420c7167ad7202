"""Data of extreme size: a thousand models, 300,000 clusters, 5,000 features; minutes, and so no part of the suite."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

from ..support import FORMULA

pytestmark = pytest.mark.usefixtures("ignore_warnings")


def votes_of(n, n_models, seed=0):
    rng = np.random.default_rng(seed)
    first = np.arange(n) % n_models
    second = (first + 1 + rng.integers(n_models - 1, size=n)) % n_models
    strength = np.linspace(1, -1, n_models)
    wins = rng.random(n) < 1 / (1 + np.exp(strength[second] - strength[first]))
    return pd.DataFrame({
        "winner": np.where(wins, "model_a", "model_b"),
        "model_a": np.char.add("m", first.astype(str)),
        "model_b": np.char.add("m", second.astype(str)),
    })  # fmt: skip


@pytest.mark.slow
def test_a_thousand_models():
    votes = votes_of(8000, 1000)
    results = dr.dml_rank(
        FORMULA, votes, functional="bt", rng=0, pairs=dr.Pairs(min_labels=1), n_jobs=2, propensity="marginal"
    )
    assert len(results.models) == 1000
    assert abs(results.params.sum()) < 1e-6
    expected = results.params[[f"m{place}" for place in range(1000)]].to_numpy()
    assert np.corrcoef(expected, np.linspace(1, -1, 1000))[0, 1] > 0.3
    assert np.isfinite(results.bse).all()


def test_three_hundred_thousand_clusters():
    votes = votes_of(400_000, 4)
    votes["session"] = np.arange(400_000) * 3 // 4
    results = dr.dml_rank(FORMULA, votes, rng=0, cov_type="cluster", cov_kwds={"groups": "session"}, n_jobs=2)
    assert results.estimates.covariance.n_clusters == (300_000,)
    robust = results.update(cov_type="robust")
    # Folds of sessions are other folds than those of prompts.
    np.testing.assert_allclose(results.params, robust.params, rtol=0, atol=1e-4)
    # Votes of a session are independent here, so that clusters change standard errors by little.
    np.testing.assert_allclose(results.bse, robust.bse, rtol=0.05)


def test_five_thousand_features():
    votes, rng = votes_of(1500, 3), np.random.default_rng(1)
    votes["embedding"] = list(rng.normal(size=(1500, 5000)).astype(np.float32))
    tune = {"n_estimators": 2, "num_leaves": 3}
    results = dr.dml_rank(
        "winner ~ embedding | model_a + model_b",
        votes,
        rng=0,
        learning=dr.Learning(tune=tune, n_folds=2),
        propensity="marginal",
        n_jobs=2,
    )
    assert results.steps.data.x.shape == (1500, 5000)
    plain = dr.dml_rank(FORMULA, votes, rng=0, propensity="marginal", learning=dr.Learning(n_folds=2))
    assert np.abs(results.params - plain.params).max() < 2 * plain.bse.max()

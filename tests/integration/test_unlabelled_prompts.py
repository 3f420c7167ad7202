"""Prompts without a vote: rows with a missing winner belong to the prompts over which scores are averaged."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dmlrank as dr


def test_scores_are_means_over_all_prompts(draw_battles, rank, draw_mu, tmp_path):
    rng = np.random.default_rng(6)
    votes = draw_battles(np.random.default_rng(4), 150, n_items=3, n_pairs=2).frame
    prompts = pd.DataFrame({"prompt": [f"new{i}" for i in range(40)], "x0": rng.normal(size=40), "topic": "t1"})
    mu = draw_mu(np.random.default_rng(9), 190, 3, 3)
    battles = pd.concat([votes, prompts], ignore_index=True)
    result = rank(battles, mu=mu, propensity="marginal", functional="borda")
    win = mu[..., 0] + mu[..., 2] / 2
    lose = mu[..., 1] + mu[..., 2] / 2
    shares = (win + np.swapaxes(lose, 1, 2)).sum(axis=2) / 4
    np.testing.assert_allclose(result.estimates.plugin, shares.mean(axis=0), rtol=1e-12)
    assert len(result.predict()) == result.nobs == 190
    assert dr.read_json(result.to_json()).estimates.description.n_unlabelled == 40

"""Soft labels against the hard votes they stand for, numbers against words, and what the summary says of them."""

import numpy as np
import pandas as pd
import pytest

from ..support import two_of

ONE, SOFT = "winner ~ {} | model_a + model_b", "p_a + p_b + p_tie ~ {} | model_a + model_b"
EACH = 4


@pytest.fixture(scope="module")
def battles():
    """A frame with a row per prompt, and one with four hard votes for each of these, of which the first is the mean."""
    rng = np.random.default_rng(5)
    n, names = 160, np.array(["m0", "m1", "m2"])
    first, second = two_of(rng, 3, n)
    counts = rng.multinomial(EACH, [0.45, 0.3, 0.25], size=n)
    prompts = pd.DataFrame({"prompt": [f"q{i:03d}" for i in range(n)], "x": rng.normal(size=n)})
    prompts = prompts.assign(model_a=names[first], model_b=names[second])
    prompts[["p_a", "p_b", "p_tie"]] = counts / EACH
    labels = np.concatenate([np.repeat(["model_a", "model_b", "tie"], row) for row in counts])
    hard = prompts.loc[np.repeat(np.arange(n), EACH)].assign(winner=labels).reset_index(drop=True)
    return prompts, hard


@pytest.fixture
def mu(battles, draw_mu):
    return draw_mu(np.random.default_rng(8), len(battles[0]), 3, 3)


def same(left, right, rtol=0.0):
    """The scores and their errors are equal, and what the learner says of the labels."""
    for name in ("params", "bse"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=rtol)
    assert left.diagnostics.log_loss == pytest.approx(right.diagnostics.log_loss, rel=max(rtol, 1e-15))


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_a_soft_label_is_the_mean_of_hard_votes(battles, mu, rank, functional):
    prompts, hard = battles
    options = {"mu": mu, "propensity": "marginal", "functional": functional}
    same(rank(prompts, SOFT.format("1"), **options), rank(hard, ONE.format("1"), **options), rtol=1e-13)


def test_the_log_loss_of_soft_labels_is_their_cross_entropy(battles, mu, rank):
    prompts = battles[0]
    result = rank(prompts, SOFT.format("1"), mu=mu, propensity="marginal")
    code = {name: place for place, name in enumerate(result.models)}
    y, losses = prompts[["p_a", "p_b", "p_tie"]].to_numpy(), []
    for i, (first, second) in enumerate(zip(prompts["model_a"], prompts["model_b"], strict=True)):
        losses.append(-(y[i] * np.log(mu[i, code[first], code[second]])).sum())
    share = y.mean(axis=0)
    assert result.diagnostics.log_loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert result.diagnostics.log_loss_constant == pytest.approx(-(share * np.log(share)).sum(), rel=1e-12)

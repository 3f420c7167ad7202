"""Soft labels against the hard votes they stand for, numbers against words, and what the summary says of them."""

import numpy as np
import pandas as pd
import pytest

ONE, SOFT = "winner ~ {} | model_a + model_b", "p_a + p_b + p_tie ~ {} | model_a + model_b"
QUICK = {"tune": {"n_estimators": 4, "num_leaves": 4, "min_data_in_leaf": 5}, "n_folds": 2}
EACH = 4


@pytest.fixture(scope="module")
def battles():
    """A frame with a row per prompt, and one with four hard votes for each of these, of which the first is the mean."""
    rng = np.random.default_rng(5)
    n, names = 160, np.array(["m0", "m1", "m2"])
    first = rng.integers(3, size=n)
    second = (first + rng.integers(1, 3, size=n)) % 3
    counts = rng.multinomial(EACH, [0.45, 0.3, 0.25], size=n)
    prompts = pd.DataFrame(
        {
            "prompt": [f"q{i:03d}" for i in range(n)],
            "x": rng.normal(size=n),
            "model_a": names[first],
            "model_b": names[second],
            "p_a": counts[:, 0] / EACH,
            "p_b": counts[:, 1] / EACH,
            "p_tie": counts[:, 2] / EACH,
        }
    )
    labels = np.concatenate([np.repeat(["model_a", "model_b", "tie"], row) for row in counts])
    hard = prompts.loc[np.repeat(np.arange(n), EACH)].assign(winner=labels).reset_index(drop=True)
    return prompts, hard


@pytest.fixture
def mu(battles, draw_mu):
    return draw_mu(np.random.default_rng(8), len(battles[0]), 3, 3)


def same(left, right, rtol=0.0):
    """The scores and their errors are equal, and what the learner says of the labels."""
    for name in ("params", "bse", "plugin"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=rtol)
    assert left.diagnostics.log_loss == pytest.approx(right.diagnostics.log_loss, rel=max(rtol, 1e-15))


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_a_soft_label_is_the_mean_of_hard_votes(battles, mu, rank, functional):
    prompts, hard = battles
    options = {"mu": mu, "propensity": "marginal", "functional": functional}
    same(rank(prompts, SOFT.format("1"), **options), rank(hard, ONE.format("1"), **options), rtol=1e-13)


@pytest.mark.parametrize("features", ["1", "x"])
def test_repeated_soft_votes_are_as_many_hard_ones(battles, rank, features):
    prompts, hard = battles
    repeated = prompts.loc[np.repeat(np.arange(len(prompts)), EACH)]
    soft, votes = (
        rank(frame, formula.format(features), functional="bt", **QUICK)
        for frame, formula in ((repeated, SOFT), (hard, ONE))
    )
    assert soft.diagnostics.n_votes == votes.diagnostics.n_votes == EACH * len(prompts)
    same(soft, votes)


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


@pytest.mark.parametrize(
    ("winner", "options", "words"),
    [
        (lambda p: p, {}, ["preferences from 0 to 1 (1 = first wins, 0 = second wins). There is no category"]),
        (lambda p: (p > 0.4).astype(float), {}, ["Labels: ", "1 = first wins", "0 = second wins"]),
        (lambda p: p > 0.4, {}, ["Labels: ", "False = second wins", "True = first wins"]),
        (
            lambda p: 2 * (p > 0.3) - (p > 0.6),
            {"categories": {2: "both_bad", 1: "first", 0: "second"}},
            ["Labels: ", "1 = first wins", "2 = both bad"],
        ),
    ],
)
def test_the_summary_says_which_number_is_which(battles, rank, winner, options, words):
    result = rank(battles[0].assign(winner=winner(battles[0]["p_a"])), ONE.format("1"), **options)
    text = " ".join(result.explain().split())
    for part in words:
        assert part in text

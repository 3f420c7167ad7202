"""Fits with prompts from a frame of their own: the same as with rows without a winner, counted, and updated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

FORMULA = "winner ~ x0 + C(topic) | model_a + model_b"
QUICK = {"tune": {"n_estimators": 3, "num_leaves": 4, "min_data_in_leaf": 5}, "n_folds": 2, "functional": "bt"}


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(4), 150, n_items=3, n_pairs=2).frame


@pytest.fixture(scope="module")
def prompts(battles):
    rng = np.random.default_rng(6)
    new = pd.DataFrame({"prompt": [f"new{i}" for i in range(40)], "x0": rng.normal(size=40), "topic": "t1"})
    return pd.concat([battles.drop_duplicates("prompt")[["prompt", "x0", "topic"]].iloc[:5], new], ignore_index=True)


def same(left, right):
    for name in ("params", "bse", "plugin"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert left.nobs == right.nobs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"context": None},
        {"propensity": "marginal", "estimator": "plugin"},
        {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    ],
)
def test_the_same_ranking_as_with_rows_without_a_winner(battles, prompts, rank, options):
    below = pd.concat([battles, prompts], ignore_index=True)
    found = rank(battles, FORMULA, unlabelled=prompts, **QUICK, **options)
    same(found, rank(below, FORMULA, **QUICK, **options))
    added = 45 if "context" in options else 40
    assert found.diagnostics.contexts_added == found.estimates.description.n_unlabelled == added
    assert f"{added} prompts come from unlabelled=" in " ".join(found.summary().as_text().split())


def test_scores_are_means_over_all_prompts(battles, prompts, rank, draw_mu):
    mu = draw_mu(np.random.default_rng(9), 190, 3, 3)
    result = rank(battles, unlabelled=prompts, mu=mu, propensity="marginal", functional="borda")
    win = mu[..., 0] + mu[..., 2] / 2
    lose = mu[..., 1] + mu[..., 2] / 2
    shares = (win + np.swapaxes(lose, 1, 2)).sum(axis=2) / 4
    np.testing.assert_allclose(result.plugin, shares.mean(axis=0), rtol=1e-12)
    assert len(result.predict()) == 190


def test_prompts_that_are_known_add_nothing(battles, prompts, rank):
    known = rank(battles, FORMULA, unlabelled=prompts.iloc[:5], **QUICK)
    same(known, rank(battles, FORMULA, **QUICK))
    assert known.diagnostics.contexts_added == 0
    assert "unlabelled=" not in known.summary().as_text()


@pytest.mark.usefixtures("ignore_warnings")
def test_update_takes_them_and_leaves_them_out_again(battles, prompts, rank):
    alone, together = rank(battles, FORMULA, **QUICK), rank(battles, FORMULA, unlabelled=prompts, **QUICK)
    same(alone.update(unlabelled=prompts), together)
    same(together.update(unlabelled=None), alone)
    borda = together.update(functional="borda")
    assert borda.steps.mu is together.steps.mu
    assert borda.nobs == 190


def test_a_stored_result_keeps_the_count_and_not_the_prompts(battles, prompts, rank, tmp_path):
    result = rank(battles, FORMULA, unlabelled=prompts, **QUICK)
    result.save(tmp_path / "result")
    stored = dr.load(tmp_path / "result")
    assert stored.summary().as_text() == result.summary().as_text()
    assert stored.steps is None

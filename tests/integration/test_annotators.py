"""Annotators: who votes like chance, who votes twice, and the board without those near chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy

import dmlrank as dr
from dmlrank.exceptions import DataError

_FORMULA = "winner ~ 1 | model_a + model_b"


@pytest.fixture(scope="module")
def report():
    """Six annotators on the same 300 prompts: three careful ones, a copy, a random one, and one who answers first."""
    rng, n = np.random.default_rng(0), 300
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(n)])
    true = rng.random(n) < 1 / (1 + np.exp(1.5 * (pairs[:, 0] - pairs[:, 1])))
    answers = {name: np.where(rng.random(n) < 0.85, true, ~true) for name in ("ann", "bo", "cy")}
    answers |= {"ann again": answers["ann"], "random": rng.random(n) < 0.5, "first": np.full(n, True)}
    shown = {"model_a": pairs[:, 0].astype(str), "model_b": pairs[:, 1].astype(str), "prompt": np.arange(n)}
    votes = pd.concat(
        pd.DataFrame(shown | {"worker": name, "winner": np.where(won, "model_a", "model_b")})
        for name, won in answers.items()
    )
    res = dr.dml_rank(_FORMULA, votes.reset_index(drop=True), context="prompt", functional="bt", rng=0)
    return res, res.annotators("worker")


def test_finds_who_votes_like_chance_and_who_votes_twice(report):
    found = report[1]
    assert set(found.near_chance) == {"random", "first"}
    assert found.same_answers.to_numpy().tolist() == [["ann", "ann again", 300]]
    assert found.frame.loc["first", "first"] == 1
    assert found.frame["votes"].tolist() == [300] * 6
    # The furthest from the others stands first.
    assert found.summary().rows[0][0] == "random"
    # Equal rows are no copies where no column tells votes apart.
    assert "equal an earlier row" not in str(found.summary().notes)


def test_p_value_against_chance_is_exact_for_somebody_who_answers_first(report):
    row = report[1].frame.loc["first"]
    assert row["agreement"] == pytest.approx(row["chance"])
    assert row["p_chance"] == pytest.approx(1)
    rest = report[1].frame.drop(index="random")
    of_rest = (rest["agreement"] * rest["pairs"]).sum() / rest["pairs"].sum()
    assert report[1].frame.loc["random", "agreement"] < of_rest
    exact = scipy.stats.binom.cdf(
        round(report[1].frame.loc["random", "agreement"] * report[1].frame.loc["random", "pairs"]),
        report[1].frame.loc["random", "pairs"],
        of_rest,
    )
    assert exact <= report[1].frame.loc["random", "p_others"] <= 6 * exact


def test_needs_two_annotators():
    votes = dr.datasets.simulate_arena(n=3000, rng=3).assign(worker="one")
    res = dr.dml_rank(
        _FORMULA, votes, functional="bt", pairs=dr.Pairs(edge_weights="counts"), position_bias=False, rng=0
    )
    with pytest.raises(DataError, match="names one annotator"):
        res.annotators("worker")
    votes.loc[:4, "worker"] = None
    with pytest.raises(DataError, match="empty in 5 rows"):
        dr.dml_rank(_FORMULA, votes, functional="bt", position_bias=False, rng=0).annotators("worker")


def test_annotators_without_a_pair_in_common():
    votes = dr.datasets.simulate_arena(n=800, rng=0).assign(worker=lambda frame: frame.index % 3)
    res = dr.dml_rank(_FORMULA, votes, context="question_id", functional="bt", estimator="bt_mle")
    with pytest.raises(DataError, match="no pair of a prompt was decided by an annotator and by the others"):
        res.annotators("worker")
    votes.loc[:1, ["question_id", "model_a", "model_b", "winner"]] = [-1, "gpt-4", "palm-2", "model_a"]
    res = dr.dml_rank(_FORMULA, votes, context="question_id", functional="bt", estimator="bt_mle")
    assert res.annotators("worker").frame["chance"].isna().tolist() == [False, False, True]

"""Cycles of a fit: a planted one is found, Bradley-Terry data have none, and win shares are those of the fit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, NoIntervalError, OptionError
from dmlrank.fit.post_estimation import pair_margins

from ..support import COVARIANCES, draw_with_groups, fits_of

FORMULA = "winner ~ 1 | model_a + model_b"


def battles_of(margin, n, seed):
    """One vote per row on a random pair; ``margin``, (K, K), is the win share of the row's model minus one half."""
    rng = np.random.default_rng(seed)
    n_items = len(margin)
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    won = rng.random(n) < 0.5 + margin[first, second]
    names = np.array([f"m{j}" for j in range(n_items)])
    return pd.DataFrame(
        {"model_a": names[first], "model_b": names[second], "winner": np.where(won, "model_a", "model_b")}
    )


def planted(size):
    """Margins of five models, of which the second beats the third, the third the fourth, the fourth the second."""
    margin = np.zeros((5, 5))
    margin[0, 1:] = 0.2
    for winner, loser in ((1, 2), (2, 3), (3, 1)):
        margin[winner, loser] = size
    margin[1:4, 4] = 0.15
    return margin - margin.T


def fit(frame, **options):
    defaults = {"rng": 0, "n_jobs": 1, "propensity": "marginal", "position_bias": False}
    return dr.dml_rank(FORMULA, frame, **(defaults | options))


@pytest.mark.parametrize("functional", ["borda", "bt"])
def test_a_planted_cycle_is_found(functional):
    cycles = fit(battles_of(planted(0.2), 4000, 0), functional=functional).cycles()
    assert [set(row) for row in cycles.result_frame[["a", "b", "c"]].to_numpy()] == [{"m1", "m2", "m3"}]
    triple = cycles.result_frame.iloc[0]
    order = [triple["a"], triple["b"], triple["c"]]
    assert order in (["m1", "m2", "m3"], ["m2", "m3", "m1"], ["m3", "m1", "m2"])
    assert triple["p_adjusted"] < 0.05
    assert (cycles.shares.to_numpy() > 0.6).all()
    assert cycles.n_raw >= 1
    assert cycles.n_triples == 10
    text = cycles.summary().as_text()
    assert f"{order[0]} > {order[1]} > {order[2]} > {order[0]}" in text
    assert "adjusted for all 10 compared pairs (max-t)" in " ".join(text.split())
    for form in ("as_html", "as_latex", "as_markdown", "as_csv"):
        assert order[0] in getattr(cycles.summary(), form)()


@pytest.mark.long
def test_bradley_terry_data_have_no_certified_cycle():
    # Ten models of nearly equal strength: the estimates have cycles. 500 seeds are in benchmarks/cycles.py.
    strength = np.linspace(-0.2, 0.2, 10)
    margin = 1 / (1 + np.exp(strength[None, :] - strength[:, None])) - 0.5
    results = [fit(battles_of(margin, 1500, seed)).cycles() for seed in range(6)]
    assert sum(cycles.n_raw for cycles in results) > 60
    assert sum(len(cycles) for cycles in results) == 0
    text = " ".join(results[0].summary().as_text().split())
    assert "(no certified cycle)" in text
    assert "comes closest" in text


@pytest.mark.parametrize("kind", COVARIANCES)
def test_margins_are_win_probabilities_of_pairs(draw_battles, rank, ignore_warnings, kind):
    battles = draw_with_groups(draw_battles, seed=0, n=120, unlabelled=9)
    result = fits_of(battles, rank, "winner ~ C(half) + x0 | model_a + model_b")("bt", **COVARIANCES[kind])
    first, second = np.triu_indices(4, 1)
    whole = pair_margins(result.steps, first, second)
    in_passes = pair_margins(result.steps, first, second, max_values=120)
    assert in_passes.covariance is None
    assert whole.covariance is not None
    np.testing.assert_allclose(in_passes.estimate, whole.estimate, atol=1e-12)
    np.testing.assert_allclose(in_passes.std_error, whole.std_error, rtol=1e-6 if kind != "fixed" else 0.05)
    for p, (j, k) in enumerate(zip(first, second, strict=True)):
        probability = result.win_probability(f"m{j}", f"m{k}")
        assert whole.estimate[p] == pytest.approx(2 * probability.estimate - 1, abs=1e-10)
        assert in_passes.std_error[p] == pytest.approx(2 * probability.std_error, rel=1e-6)


def test_results_without_intervals_or_first_stages_have_no_cycles(ignore_warnings):
    result = fit(battles_of(planted(0.2), 600, 0))
    with pytest.raises(OptionError):
        dr.dml_rank(FORMULA, battles_of(planted(0.2), 600, 0), functional="bt", estimator="bt_mle", rng=0).cycles()
    with pytest.raises(NoIntervalError, match="cycles"):
        result.update(estimator="plugin").cycles()
    with pytest.raises(DataNotStoredError, match="cycles"):
        dr.read_json(result.to_json()).cycles()


def test_the_note_names_the_bound_where_there_is_no_joint_covariance():
    cycles = fit(battles_of(planted(0.2), 600, 0)).cycles()
    text = dataclasses.replace(cycles, method="sidak").summary().as_text()
    assert "Sidak's bound" in " ".join(text.split())

"""Sensitivity of fits: at gamma = 1 nothing changes, bounds are nested, what is not supported is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr


def battles_with_silence(n=900, seed=0):
    """Battles of four models with two features, ties, annotators and clusters; about a third got no vote."""
    rng = np.random.default_rng(seed)
    names = np.array(["ant", "bee", "cat", "dog"])
    skill = np.array([0.9, 0.4, -0.2, -1.1])
    first = rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    x = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-(skill[first] - skill[second]) * (1 + 0.3 * x)))
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(rng.random(n) < chance, "model_a", "model_b")).astype(
        object
    )
    winner[rng.random(n) < 0.25 + 0.15 * (x > 0)] = None
    return pd.DataFrame(
        {
            "model_a": names[first],
            "model_b": names[second],
            "winner": winner,
            "x": x,
            "prompt": np.arange(n) // 2,
            "judge": rng.integers(35, size=n),
            "topic": (np.arange(n) // 2) % 40,
        }
    )


@pytest.fixture(scope="module")
def battles():
    return battles_with_silence()


FITS = {
    "borda": {},
    "bt": {"functional": "bt", "position_bias": False},
    "ordered": {"functional": "bt", "position_bias": True},
    "clusters": {"functional": "bt", "cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "annotators": {"context": "prompt", "cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "judge"]}},
    "repetitions": {"n_rep": 2, "functional": "bt"},
    "rank_centrality": {"functional": "rank_centrality"},
}


def fitted(battles, formula="winner ~ 1 | model_a + model_b", **options):
    return dr.dml_rank(formula, battles, min_labels=5, n_folds=3, rng=0, **options)


@pytest.mark.parametrize("name", FITS)
def test_at_gamma_one_nothing_changes_and_bounds_are_nested(battles, name):
    res = fitted(battles, **FITS[name])
    sensitivity = res.sensitivity(gamma=(1, 1.2, 2))
    pairs = res.t_test_pairwise().result_frame
    pairs.index = pairs["first"] + " - " + pairs["second"]
    frame = sensitivity.result_frame.set_index("hypothesis")
    at_one = frame[frame["gamma"] == 1]
    expected = pairs.loc[at_one.index]
    for column in ("lower", "upper"):
        np.testing.assert_allclose(at_one[column], expected["estimate"], atol=1e-12)
    # Battles without a vote have annotators, too, so that the mean correction is spread over more blocks.
    tolerance = 1e-3 if name == "annotators" else 1e-9
    np.testing.assert_allclose(at_one["conf_lower"], expected["conf_low"], atol=tolerance)
    np.testing.assert_allclose(at_one["conf_upper"], expected["conf_high"], atol=tolerance)
    for _, of_contrast in frame.groupby(level=0, sort=False):
        assert (np.diff(of_contrast["lower"]) < 0).all()
        assert (np.diff(of_contrast["upper"]) > 0).all()


def test_with_features_the_vote_rates_are_learnt(battles):
    res = fitted(battles, "winner ~ x | model_a + model_b", functional="bt")
    frame = res.sensitivity("ant - dog", gamma=1).result_frame
    np.testing.assert_allclose(frame[["lower", "upper"]], [[res.t_test("ant - dog").effect[0]] * 2], atol=1e-12)

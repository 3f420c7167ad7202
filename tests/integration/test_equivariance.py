"""Names, the order of rows and the order of display are labels: renaming and reordering change nothing else."""

import numpy as np
import pandas as pd
import pytest

N_ITEMS = 4


@pytest.fixture
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 160, N_ITEMS, 4, n_pairs=2, repeats=True, unlabelled=10)


@pytest.fixture
def long_battles(draw_battles):
    """One pair per prompt, so that propensities are normalised; annotators voted more than once."""
    return draw_battles(np.random.default_rng(1), 400, N_ITEMS, 3, n_pairs=1, repeats=True, unlabelled=20)


def shuffled(frame, seed):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


def assert_same(results, expected, places=None, tolerance=1e-10):
    places = np.arange(N_ITEMS) if places is None else places
    np.testing.assert_allclose(results.params.to_numpy(), expected.params.to_numpy()[places], rtol=0, atol=tolerance)
    covariance = expected.cov_params().to_numpy()[np.ix_(places, places)]
    np.testing.assert_allclose(results.cov_params(), covariance, rtol=0, atol=tolerance)
    np.testing.assert_allclose(results.estimates.shares, expected.estimates.shares[places], rtol=0, atol=tolerance)


def test_a_categorical_sets_the_order(battles, rank):
    levels = ["m2", "m0", "m3", "m1"]
    frame = battles.frame.assign(
        model_a=pd.Categorical(battles.frame["model_a"], levels),
        model_b=pd.Categorical(battles.frame["model_b"], levels),
    )
    results = rank(frame, functional="bt")
    assert results.models == levels
    assert_same(results, rank(battles.frame, functional="bt"), [2, 0, 3, 1])


SMOOTH = {"n_folds": 2, "propensity": "shown", "functional": "bt"}
FORMULA = "winner ~ x0 + x1 | model_a + model_b"


def test_shuffling_rows_with_the_default_learner(long_battles, rank):
    fits = [rank(rows, FORMULA, **SMOOTH) for rows in (long_battles.frame, shuffled(long_battles.frame, 4))]
    assert_same(*fits)
    assert fits[0].diagnostics.second_order == pytest.approx(fits[1].diagnostics.second_order, rel=1e-8)
    assert fits[0].diagnostics.floor == fits[1].diagnostics.floor > 0
    linear = rank(long_battles.frame, FORMULA, **SMOOTH | {"functional": "borda"}).diagnostics
    assert linear.floor == linear.second_order == 0

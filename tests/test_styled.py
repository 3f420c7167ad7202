"""The simulator of votes that follow style: truth by quadrature against a large sample."""

import numpy as np
import pytest

from .styled import Styled


@pytest.mark.parametrize("nonlinearity", [0.0, 1.0])
def test_the_truth_of_a_pair_is_that_of_a_large_sample(nonlinearity):
    # With two models, the preference in a narrow cell of prompts and the slope within it are means over battles.
    styled = Styled(nonlinearity=nonlinearity, n_items=2, tie_share=0.0)
    truth = styled.truth("borda")
    battles = styled.sample(150_000, rng=0)
    sign = np.where(battles["model_a"] == "model_1", 1, -1)
    won = np.where((battles["winner"] == "model_a") == (sign == 1), 1.0, 0.0)
    assert won.mean() == pytest.approx(truth.averaged["model_1"], abs=0.005)
    style = battles[["log_length", "headers"]].to_numpy() * sign[:, None]
    x = battles[["x0", "x1"]].to_numpy()
    cell = (np.minimum(x * 12, 11).astype(int) @ [12, 1]).astype(int)
    count = np.bincount(cell)
    for table in (won, *style.T):
        table -= (np.bincount(cell, table) / count)[cell]
    slopes = np.linalg.lstsq(style, won, rcond=None)[0]
    np.testing.assert_allclose(slopes, truth.slopes, atol=0.012)

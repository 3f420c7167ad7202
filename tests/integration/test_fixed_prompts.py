"""Scores of these prompts alone: intervals that are never wider than those for new prompts."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

# A few dozen prompts rest on few, as the fits say.
pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")

FORMULA = "winner ~ x | model_a + model_b"
SKILL = np.array([-0.7, -0.2, 0.2, 0.7])


def chances(x):
    """Probability that the model in the row wins on every prompt, (n, 4, 4)."""
    slope = np.array([0.5, -0.5, 0.5, -0.5])
    score = SKILL + np.multiply.outer(x, slope)
    return expit(score[:, :, None] - score[:, None, :])


def grid(x, rng):
    """Every ordered pair of four models labelled on every prompt."""
    rows = list(itertools.permutations(range(4), 2))
    p = chances(x)
    return pd.DataFrame(
        [
            (i, f"m{j}", f"m{k}", "model_a" if rng.random() < p[i, j, k] else "model_b", x[i])
            for i in range(len(x))
            for j, k in rows
        ],
        columns=["q", "model_a", "model_b", "winner", "x"],
    )


@pytest.mark.parametrize("formula", [FORMULA, FORMULA.replace("x", "1")])
@pytest.mark.parametrize("functional", ["borda", "bt"])
@pytest.mark.long
def test_fixed_prompts_are_never_less_certain_than_new_ones(rank, formula, functional):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        fit = rank(grid(rng.normal(size=20), rng), formula, context="q", functional=functional, tune=None, min_labels=2)
        fixed = fit.update(prompts="fixed")
        larger, smaller = fit.cov_params().to_numpy(), fixed.cov_params().to_numpy()
        assert np.linalg.eigvalsh(larger - smaller)[0] > -1e-10 * larger.max()
        assert (fixed.bse <= fit.bse * (1 + 1e-9)).all()

"""Inputs that once ended in an error of another library, or in numbers that were no answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

from ..support import FORMULA

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
TREES = {"n_estimators": 2, "num_leaves": 3}


@pytest.mark.parametrize("alpha", [1e-5, 1e-9])
def test_max_t_holds_beyond_the_reach_of_its_draws(arena_result, alpha):
    """No interval for all models at once is shorter than one for a single model, or longer than Bonferroni's."""
    width = {
        method: (limits["upper"] - limits["lower"]).to_numpy()
        for method in ("none", "max-t", "bonferroni")
        for limits in [arena_result.conf_int(alpha, method)]
    }
    assert (width["none"] < width["max-t"]).all()
    assert (width["max-t"] <= width["bonferroni"] * (1 + 1e-9)).all()


@pytest.mark.long
def test_a_formula_of_600_columns():
    rng = np.random.default_rng(0)
    first = rng.integers(3, size=90)
    battles = pd.DataFrame({"model_a": first, "model_b": (first + 1) % 3}).map("m{}".format)
    names = [f"x{place}" for place in range(600)]
    battles = pd.concat([battles, pd.DataFrame(rng.normal(size=(90, 600)), columns=names)], axis=1)
    battles["winner"] = rng.choice(["model_a", "model_b"], size=90)
    formula = f"winner ~ {' + '.join(names)} | model_a + model_b"
    results = dr.dml_rank(
        formula,
        battles,
        learning=dr.Learning(tune=TREES, n_folds=2),
        propensity="marginal",
        pairs=dr.Pairs(min_labels=1),
        rng=0,
    )
    assert results.steps.data.x.shape == (90, 600)


def test_a_bootstrap_of_scores_that_do_not_vary_gives_numbers_or_the_reason():
    votes = dr.datasets.simulate_arena(n=200, rng=0).assign(winner="tie")
    results = dr.dml_rank(FORMULA, votes, pairs=dr.Pairs(min_labels=1, graph="complete"), rng=0, propensity="marginal")
    if results.estimates.has_intervals:
        assert np.isfinite(results.bootstrap("webb").conf_int()).all().all()
    else:
        with pytest.raises(dr.exceptions.NoIntervalError):
            results.bootstrap("webb").conf_int()

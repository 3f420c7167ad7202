"""Costs per success: the delta method by hand, Fieller's limits, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, MissingDataError


def draw(n=200, seed=0, rates=(0.8, 0.8)):
    """Runs that solve prompts, with costs that are skewed and larger where the run fails."""
    rng = np.random.default_rng(seed)
    task, model = (part.ravel() for part in np.indices((n, len(rates))))
    solved = (rng.random(len(task)) < np.array(rates)[model]).astype(float)
    cost = rng.lognormal(0.5 * (1 - solved), 0.7) * (1 + model)
    return pd.DataFrame({"task": task, "model": np.array(list("ab"))[model], "solved": solved, "cost": cost})


def fit(table):
    return dr.dml_rank("solved ~ 1 | model", table, context="task", rng=0)


def test_ratios_by_the_delta_method_and_by_fieller():
    table = draw()
    found = fit(table).per_success("cost")
    for name in "ab":
        part = table[table.model == name]
        c, s = part["cost"].to_numpy(), part["solved"].to_numpy()
        row, ratio = found.loc[name], c.mean() / s.mean()
        rest = (c - ratio * s) / s.mean()
        np.testing.assert_allclose(row[["score", "cost", "per_success"]], [s.mean(), c.mean(), ratio], rtol=1e-12)
        np.testing.assert_allclose(row["std_error"], rest.std() / np.sqrt(len(s)), rtol=1e-10)
        # At both limits the difference c - r s is the same number of its own errors from zero.
        z = [(c - r * s).mean() / ((c - r * s).std() / np.sqrt(len(s))) for r in (row["lower"], row["upper"])]
        np.testing.assert_allclose(z[0], -z[1], rtol=1e-8)
        assert 1.96 < z[0] < 2.4


def test_few_successes_have_no_upper_limit_and_none_have_no_ratio():
    table = draw(60)
    rare = table.assign(solved=table["solved"].where(table["model"] == "a", (table["task"] == 3) * 1.0))
    row = fit(rare).per_success("cost").loc["b"]
    assert row["upper"] == np.inf
    assert 0 < row["lower"] < row["per_success"]
    never = fit(table.assign(solved=table["solved"] * (table["model"] == "a")))
    with pytest.raises(DataError, match="mean score of 'b' is not above 0"):
        never.per_success("cost")
    with pytest.raises(MissingDataError, match="no value for 'a' on 1 of 60"):
        fit(table.assign(cost=table["cost"].where(table.index != 4))).per_success("cost")


@pytest.mark.long
def test_joint_intervals_of_ratios_cover():
    # E exp(N(m, .7^2)) = exp(m + .245); a run fails with probability .2.
    truth = np.exp(0.245) * (0.8 + 0.2 * np.exp(0.5)) / 0.8 * np.array([1.0, 2.0])
    found = [fit(draw(300, seed)).per_success("cost") for seed in range(300)]
    covered = [((f["lower"] <= truth) & (truth <= f["upper"])).all() for f in found]
    assert 0.92 < np.mean(covered) < 0.98

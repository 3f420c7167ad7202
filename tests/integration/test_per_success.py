"""Costs per success: the delta method by hand, Fieller's limits, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, DmlrankWarning, IntervalWarning, MissingDataError


def draw(n=200, seed=0, rates=(0.8, 0.8)):
    """Runs that solve prompts, with costs that are skewed and larger where the run fails."""
    rng = np.random.default_rng(seed)
    task, model = (part.ravel() for part in np.indices((n, len(rates))))
    solved = (rng.random(len(task)) < np.array(rates)[model]).astype(float)
    cost = rng.lognormal(0.5 * (1 - solved), 0.7) * (1 + model)
    return pd.DataFrame({"task": task, "model": np.array(list("ab"))[model], "solved": solved, "cost": cost})


def fit(table, **options):
    return dr.dml_rank("solved ~ 1 | model", table, context="task", rng=0, **options)


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


def test_ratios_of_two_models_by_the_delta_method_and_by_fieller():
    table = draw()
    res, y = fit(table), table.pivot(index="task", columns="model", values=["solved", "cost"])
    row, m = res.per_success("cost", against="a").loc["b / a"], y.mean()
    c, s, ratio = m["cost"], m["solved"], m["cost"]["b"] * m["solved"]["a"] / (m["solved"]["b"] * m["cost"]["a"])
    each = res.per_success("cost")["per_success"]
    np.testing.assert_allclose([row["ratio"], each["b"] / each["a"]], ratio, rtol=1e-12)
    of_log = y["cost"]["b"] / c["b"] - y["solved"]["b"] / s["b"] - y["cost"]["a"] / c["a"] + y["solved"]["a"] / s["a"]
    np.testing.assert_allclose(row["std_error"], ratio * of_log.std(ddof=0) / np.sqrt(len(y)), rtol=1e-10)
    z = []
    for r in (row["lower"], row["upper"]):
        above = y["cost"]["b"] * s["a"] + c["b"] * y["solved"]["a"]
        rest = above - r * (y["solved"]["b"] * c["a"] + s["b"] * y["cost"]["a"])
        z.append((c["b"] * s["a"] - r * s["b"] * c["a"]) / (rest.std(ddof=0) / np.sqrt(len(y))))
    np.testing.assert_allclose(z[0], -z[1], rtol=1e-8)
    assert 1.9 < z[0] < 2.1
    # Units, and whose cost is divided, change nothing.
    turned = fit(table.assign(cost=1000 * table["cost"])).per_success("cost", against="b").loc["a / b"]
    np.testing.assert_allclose(1 / turned[["ratio", "upper", "lower"]], row[["ratio", "lower", "upper"]], rtol=1e-6)


def test_costs_of_failed_and_lost_runs_count_where_they_were_recorded():
    """Three runs of a on each task; one of them is lost, with or without a record of its cost."""
    table = pd.concat([draw(300, seed).assign(run=seed) for seed in range(3)], ignore_index=True)
    lost = (table["model"] == "a") & (table["task"] == 7) & (table["run"] == 1)
    recorded = table.assign(solved=table["solved"].mask(lost))
    unknown, absent = recorded.assign(cost=table["cost"].mask(lost)), table[~lost]
    full = fit(table).per_success("cost")["cost"]
    pd.testing.assert_series_equal(fit(recorded, missing=0.0).per_success("cost")["cost"], full)
    on_task = table[(table["model"] == "a") & (table["task"] == 7)]
    expected = full["a"] + (on_task.loc[on_task["run"] != 1, "cost"].mean() - on_task["cost"].mean()) / 300
    for given in (unknown, absent):
        res = fit(given)
        for costs in (res.per_success, res.pareto):
            with pytest.warns(DmlrankWarning, match="1 of 1,800 runs have no cost"):
                found = costs("cost")
        assert found.table.set_index("model")["cost"]["a"] == pytest.approx(expected, rel=1e-12)


def test_the_cost_of_pass_at_k_is_that_of_k_runs():
    table = pd.concat([draw(300, seed) for seed in range(3)], ignore_index=True)
    one, two = (fit(table, functional=name).per_success("cost")["cost"] for name in ("mean", "PassAtK(2)"))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Intervals of costs are too narrow")
def test_few_successes_have_no_upper_limit_and_none_have_no_ratio():
    table = draw(60)
    rare = table.assign(solved=table["solved"].where(table["model"] == "a", (table["task"] == 3) * 1.0))
    with pytest.warns(IntervalWarning, match="costs per success have a skewness of"):
        row = fit(rare).per_success("cost").loc["b"]
    assert row["upper"] == np.inf
    assert 0 < row["lower"] < row["per_success"]
    assert fit(rare).per_success("cost", against="a").loc["b / a", "upper"] == np.inf
    assert fit(rare).per_success("cost", against="b").loc["a / b", "lower"] == 0
    never = fit(table.assign(solved=table["solved"] * (table["model"] == "a")))
    with pytest.raises(DataError, match="mean score of 'b' is not above 0"):
        never.per_success("cost")
    with pytest.raises(DataError, match="mean cost of 'a' is not above 0"):
        fit(table.assign(cost=table["cost"] * (table["model"] == "b"))).per_success("cost", against="b")
    with pytest.raises(MissingDataError, match="no value for 'a' on 1 of 60"):
        fit(table.assign(cost=table["cost"].where(table.index != 4))).per_success("cost")

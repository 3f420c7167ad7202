"""Plans for scores: optimal propensities, the variance formula, draws in rounds, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy

import dmlrank as dr
from dmlrank.exceptions import (
    DataError,
    DmlrankWarning,
    IntervalWarning,
    MissingDataError,
    NuisanceError,
    OptionError,
    OptionTypeError,
)
from dmlrank.planning.plan import Plan
from dmlrank.planning.score_plan import ScoreProblem

from ...support import drawn_scores

MODELS = np.array(["a", "b", "c", "d"])
N = 240


@cache
def fitted() -> tuple[np.ndarray, np.ndarray, dr.RankResults]:
    """Return all scores, (n, 4), the propensities of a first round, and its fit; model a is complete."""
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(N, 1))
    scores = (signal + 0.6 * rng.normal(size=(N, 4)) + [0.6, 0.2, 0.0, -0.2] > 0).astype(float)
    propensity = np.tile([1.0, 0.2, 0.2, 0.2], (N, 1))
    is_drawn = rng.random((N, 1)) < propensity
    table = table_of(scores, is_drawn)
    first = pd.DataFrame(propensity, columns=MODELS)
    return scores, is_drawn, fit(table, propensity=first)


def fit(table: pd.DataFrame, **options: object) -> dr.RankResults:
    return dr.dml_rank("score ~ 1 | model", table, **({"context": "prompt", "rng": 0} | options))


def table_of(scores: np.ndarray, is_drawn: np.ndarray | None = None) -> pd.DataFrame:
    """Return the drawn scores, or all, as a long table."""
    return drawn_scores(scores, np.ones(scores.shape, dtype=bool) if is_drawn is None else is_drawn, MODELS)


def problem_of(plan: Plan) -> ScoreProblem:
    """Return the design problem of a plan for scores."""
    problem = plan.problem
    assert isinstance(problem, ScoreProblem)
    return problem


def variance_of_contrasts(plan: Plan, propensity: np.ndarray) -> float:
    """Return the sum of variances of the plan's contrasts, n times, from the draws: by brute force over prompts."""
    problem, rows = problem_of(plan), plan.goal.rows
    total = 0.0
    for deviation, p in zip(np.asarray(problem.mu), propensity, strict=True):
        joint = np.minimum(p[:, None], p) / np.outer(p, p)
        total += np.trace(rows @ (np.outer(deviation, deviation) * problem.correlation * joint) @ rows.T)
    return float(total / len(propensity) + np.trace(rows @ plan.problem.between @ rows.T))


@pytest.mark.parametrize("contrasts", [None, ["b - c"], ["b - c", "a - d"]])
def test_propensities_are_those_of_a_convex_solver(contrasts: list[str] | None) -> None:
    rng = np.random.default_rng(2)
    costs = rng.uniform(0.5, 2.0, size=(N, 4))
    plan = fitted()[2].design(120, contrasts=contrasts, costs=costs)
    problem, group = problem_of(plan), problem_of(plan).group
    assert plan.objective == pytest.approx(variance_of_contrasts(plan, plan.propensity), rel=1e-9)
    p, every = plan.propensity, np.asarray(problem.mu)
    joint = np.minimum(p[:, :, None], p[:, None]) / (p[:, :, None] * p[:, None])
    drawn = (every[:, :, None] * every[:, None] * joint).mean(axis=0) * problem.correlation
    np.testing.assert_allclose(plan.sigma, problem.between + drawn, rtol=1e-9, atol=1e-12)
    assert plan.expected_cost == pytest.approx(120)
    assert (plan.propensity * costs)[:, 1:].sum() - 0.2 * costs[:, 1:].sum() == pytest.approx(120)
    # The information of each prompt and group, from its definition; a generic solver for the sum of a / p.
    metric, deviation = plan.goal.rows.T @ plan.goal.rows, np.asarray(problem.mu)
    chosen = np.arange(0, N, 12)
    part = [np.where(group == g, 1.0, 0.0) for g in range(problem.n_cells)]
    gains = np.stack([((deviation * s) @ (metric * problem.correlation) * deviation * s).sum(axis=1) for s in part], 1)
    cost = np.stack([(costs * s).sum(axis=1) for s in part], axis=1)
    optimal = plan.propensities[:][chosen].ravel()
    gain, cost = gains[chosen].ravel() + 1e-9, cost[chosen].ravel()
    found = scipy.optimize.minimize(
        lambda p: (gain / p).sum(),
        np.full(len(gain), 0.4),
        jac=lambda p: -gain / p**2,
        bounds=[(0.2, 1.0)] * len(gain),
        constraints={"type": "ineq", "fun": lambda p: cost @ optimal - cost @ p, "jac": lambda p: -cost},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert (gain / optimal).sum() <= found.fun * (1 + 1e-6)
    assert (gain / optimal).sum() == pytest.approx(found.fun, rel=1e-4)


def test_compared_models_get_the_largest_propensity_so_far_at_least() -> None:
    rng, before = np.random.default_rng(4), np.tile([1.0, 0.2, 0.4, 0.3], (N, 1))
    is_drawn = rng.random((N, 1)) < before
    table, known = table_of(fitted()[0], is_drawn), pd.DataFrame(before, columns=MODELS)
    res = fit(table, propensity=known)
    plan = res.design(150, contrasts=["b - c"], costs=[1.0, 3.0, 1.0, 1.0], min_propensity=0.01)
    assert (plan.propensity[:, 1:3] >= 0.4 - 1e-9).all()
    # A prompt on which c was run and b was not has its number between their propensities: b is run there for certain.
    cells = plan.sample(rng=0)
    price = np.array([1.0, 3.0, 1.0, 1.0])[pd.Index(MODELS).get_indexer(cells["model"])]
    assert price.sum() == pytest.approx(plan.expected_cost, abs=0.15 * plan.expected_cost)


def test_the_variance_of_the_draws_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(3)
    residual, p = rng.normal(size=(50, 2)) + rng.normal(size=(50, 1)), rng.uniform(0.2, 1.0, size=(50, 2))
    is_drawn = rng.random((20_000, 50, 1)) < p
    error = ((is_drawn / p - 1) * residual) @ [1.0, -1.0]
    outer = residual[:, :, None] * residual[:, None, :]
    weight = 1 / np.maximum(p[:, :, None], p[:, None, :]) - 1
    expected = np.einsum("ijk,j,k->", outer * weight, [1, -1], [1, -1])
    assert error.sum(axis=1).var() == pytest.approx(expected, rel=0.05)


def test_several_runs_of_the_fit_do_not_make_planned_runs_more_precise() -> None:
    names, n = [f"m{j}" for j in range(6)], 300
    difficulty, errors, predicted, reported = np.linspace(-2.2, 2.2, n), [], [], []
    chance = 1 / (1 + np.exp(difficulty[:, None] - np.linspace(-0.5, 1.0, 6)))
    for seed in range(50):
        rng = np.random.default_rng(seed)
        solved = (rng.random((n, 6, 5)) < chance[:, :, None]).astype(float)
        prompt, model, run = (place.ravel() for place in np.indices(solved.shape))
        table = pd.DataFrame({"prompt": prompt, "model": np.array(names)[model], "run": run, "score": solved.ravel()})
        earlier = table[table["model"] != "m4"]
        res = fit(earlier, run="run")
        plan = res.design(150, candidate="m4")
        new = plan.sample(rng)[["prompt", "model"]].assign(run=0)
        new["score"] = solved[new["prompt"], 4, 0]
        both = pd.concat([earlier, new])
        after = fit(both, run="run", propensity=plan)
        test = after.t_test("m4 - m5")
        errors.append(float(test.effect[0]) - float((chance[:, 4] - chance[:, 5]).mean()))
        predicted.append(float(plan.predicted()["std_error"].iloc[0]))
        reported.append(float(test.sd[0]))
    # The standard error of a standard deviation from 50 samples is 10 % of it; before, it was predicted half as large.
    assert np.mean(predicted) == pytest.approx(np.std(errors), rel=0.22)
    assert np.mean(predicted) == pytest.approx(np.mean(reported), rel=0.1)


def test_a_plan_adds_single_runs_to_several_runs() -> None:
    rng, (scores, is_drawn, _) = np.random.default_rng(9), fitted()
    once = table_of(scores, is_drawn)
    noisy = pd.concat([once.assign(run=run) for run in range(4)], ignore_index=True)
    noisy["score"] += rng.normal(size=len(noisy))
    first = pd.DataFrame(np.tile([1.0, 0.2, 0.2, 0.2], (N, 1)), columns=MODELS)
    res = fit(noisy, run="run", propensity=first)
    plan, problem = res.design(150, contrasts=["b - c"]), problem_of(res.design(150, contrasts=["b - c"]))
    before = res.design(1e-6, contrasts=["b - c"], min_propensity=1e-9)
    assert before.std_errors.to_numpy() == pytest.approx(res.bse.to_numpy(), rel=0.06)
    # Three quarters of the variance of a run.
    assert problem.single_run[:, 1:].mean() == pytest.approx(0.75, rel=0.15)
    new = plan.sample(rng)[["prompt", "model"]].assign(run=0)
    new["score"] = scores[new["prompt"], np.searchsorted(MODELS, new["model"])] + rng.normal(size=len(new))
    both = pd.concat([noisy, new])
    after = fit(both, run="run", propensity=plan)
    assert after.t_test("b - c").sd[0] == pytest.approx(plan.predicted("b - c")["std_error"].iloc[0], rel=0.15)


def test_a_second_run_of_a_cell_pays_only_where_every_prompt_is_run() -> None:
    rng = np.random.default_rng(4)
    names, task = np.tile(["a", "b"], 60), np.repeat(np.arange(60), 2)
    table = pd.DataFrame({"prompt": task, "model": names, "score": rng.normal(size=120)})
    res = fit(table)
    for budget, text in ((45, "run once on a prompt"), (100, "cost 60 together. Use"), (2e5, "cell 3,333 times")):
        assert text in " ".join(str(res.design(budget, candidate="c").summary()).split())
    with pytest.raises(OptionError, match="further runs of all cells"):
        res.design(45)


def test_costs_are_taken_from_a_column() -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"prompt": np.repeat(np.arange(60), 4), "model": np.tile(["a", "b"], 120)})
    table = table.assign(run=np.tile([0, 0, 1, 1], 60), score=rng.normal(size=240), usd=rng.uniform(1, 3, 240))
    res = fit(table, run="run")
    by_cell = table.groupby(["prompt", "model"])["usd"].mean().unstack()
    costs = np.column_stack([by_cell, by_cell.mean(axis=1)])
    plan = res.design(50, costs="usd", candidate="c")
    np.testing.assert_allclose(plan.propensity, res.design(50, costs=costs, candidate="c").propensity, rtol=1e-12)
    # A model that costs twice as much as the mean of the others costs so where it was not run, too.
    b = table["model"] == "b"
    of_others = table["usd"].where(~b).groupby(table["prompt"]).transform("mean")
    dear = table.assign(usd=table["usd"].mask(b, 3.0 * of_others))
    gaps = dear.assign(usd=dear["usd"].mask(b & (table["prompt"] == 0)))
    res = fit(gaps, run="run")
    known = dear.groupby(["prompt", "model"])["usd"].mean().unstack()
    found = problem_of(res.design(50, costs="usd", from_scratch=True)).cost_of_run
    np.testing.assert_allclose(found[1:], known[1:], rtol=1e-12)
    assert 1 < found[0, 1] / found[0, 0] < 3
    res = fit(table.assign(usd=table["usd"].mask(table["prompt"] == 3)), run="run")
    with pytest.raises(MissingDataError, match="'usd' has no value on 1 of 60 prompts"):
        res.design(50, costs="usd", from_scratch=True)
    with pytest.raises(OptionError, match="positive"):
        fit(table.assign(usd=0.0), run="run").design(50, costs="usd", from_scratch=True)


def test_samples_of_runs_keep_every_propensity_and_cost_what_is_expected() -> None:
    rng = np.random.default_rng(6)
    for contrasts, costs, far in ((["b - c"], 1.0, 2.0), (None, rng.uniform(0.5, 2, size=(N, 4)), 8.0)):
        plan = fitted()[2].design(120, contrasts=contrasts, costs=costs)
        problem, share, spent = problem_of(plan), np.zeros((N, 4)), []
        for _ in range(300):
            rows = plan.sample(rng)
            at = rows["prompt"].to_numpy(), np.searchsorted(MODELS, rows["model"])
            np.add.at(share, at, 1 / 300)
            spent.append(np.broadcast_to(costs, (N, 4))[at].sum())
        # Given that a model was not run in the first round.
        given = np.where(
            problem.is_there, 0.0, (plan.propensity - problem.so_far) / np.maximum(1 - problem.so_far, 1e-9)
        )
        z = (share - given) / np.sqrt(np.maximum(given * (1 - given), 1e-12) / 300)
        assert np.abs(z).max() < 4.7
        assert np.abs(np.array(spent) - (given * costs).sum()).max() < far


def test_rounds_keep_propensities_and_run_models_on_the_same_prompts() -> None:
    rng, share, both = np.random.default_rng(4), np.zeros((N, 4)), np.zeros(N)
    before = np.tile([1.0, 0.2, 0.1, 0.3], (N, 1))
    plan = fitted()[2].design(150)
    problem, n_draws = problem_of(plan), 400
    groups = np.maximum(rng.uniform(0.2, 0.9, size=(N, 3)), [0.2, 0.1, 0.3])
    after = problem.matrices(groups)
    for _ in range(n_draws):
        is_drawn = rng.random((N, 1)) < before
        prompt, (model,), _ = replace(problem, so_far=before, is_there=is_drawn).draw(groups, rng)
        is_drawn[prompt, model] = True
        share += is_drawn / n_draws
        both += (is_drawn[:, 1] & is_drawn[:, 2]) / n_draws
    error = np.sqrt(after * (1 - after) / n_draws)
    assert np.all(np.abs(share - after) <= 5 * error + 1e-9)
    assert both.mean() == pytest.approx(after[:, [1, 2]].min(axis=1).mean(), abs=0.01)


def test_a_plan_predicts_the_standard_errors_of_the_fit_after_it() -> None:
    scores, is_drawn, res = fitted()
    plan = res.design(150, contrasts=["b - c"])
    before = res.design(1e-6, contrasts=["b - c"], min_propensity=1e-9)
    assert before.std_errors.to_numpy() == pytest.approx(res.bse.to_numpy(), rel=0.06)
    rows = plan.sample(rng=5)
    is_drawn = is_drawn.copy()
    is_drawn[rows["prompt"], np.searchsorted(MODELS, rows["model"])] = True
    after = fit(table_of(scores, is_drawn), propensity=plan)
    predicted = plan.predicted("b - c")["std_error"].iloc[0]
    assert after.t_test("b - c").sd[0] == pytest.approx(predicted, rel=0.2)
    assert predicted < plan.predicted("b - c")["uniform_std_error"].iloc[0]
    # Limits are those of means of scores with the runs after the plan; today's are wider in standard errors.
    ratios = [np.ptp(fit.t_test("b - c").conf_int()) / fit.t_test("b - c").sd[0] for fit in (after, res)]
    width = plan.predicted("b - c", method="none")["width"].iloc[0]
    assert width / predicted == pytest.approx(ratios[0], rel=0.03)
    assert ratios[1] > 1.03 * ratios[0] > 1.03 * 3.92
    assert set(rows["model"]) == {"b", "c"}
    assert rows.groupby("prompt").size().max() == 2
    assert "Expected runs:" in str(plan.summary())
    top = res.design(150, top=2)
    assert set(res.best_set(2)) == {name for label in top.goal.targets[1] for name in label.split(" - ")}
    assert "not decided which 2 models are the best" in " ".join(str(top).split())
    assert "With 150 runs, " in " ".join(str(top).split())


def test_a_plan_from_scratch_predicts_the_fit_of_its_runs_alone() -> None:
    scores, _, _ = fitted()
    full = fit(table_of(scores))
    plan = full.design(400, contrasts=["a - b", "c - d"], from_scratch=True)
    rows, other = plan.sample(rng=2), np.random.default_rng(12)
    signal = other.normal(size=(N, 1))
    fresh = (signal + 0.6 * other.normal(size=(N, 4)) + [0.6, 0.2, 0.0, -0.2] > 0).astype(float)
    # Prompts that nothing is run on are rows without a model.
    assert sorted(rows["prompt"].unique()) == list(range(N))
    assert abs(rows["model"].count() - 400) <= 4
    has_run = rows["model"].notna()
    assert has_run.sum() < len(rows)
    rows.loc[has_run, "score"] = fresh[rows["prompt"][has_run], np.searchsorted(MODELS, rows["model"][has_run])]
    after = fit(rows, propensity=plan)
    for contrast in ("a - b", "c - d"):
        predicted = plan.predicted(contrast)["std_error"].iloc[0]
        assert after.t_test(contrast).sd[0] == pytest.approx(predicted, rel=0.2)
    text = " ".join(str(plan.summary()).split())
    assert "for a fit of these runs alone" in text
    # One fit of the earlier prompts, on which everything was run, and of the new ones.
    said = r"Standard error of (\S+ - \S+): ([\d.]+) from the new prompts alone, ([\d.]+) together with the data"
    contrast, alone, together = re.search(said, text).groups()
    assert float(alone) == pytest.approx(plan.predicted(contrast)["std_error"].iloc[0], abs=1e-3)
    known = pd.DataFrame(1.0, index=range(N), columns=list(MODELS))
    drawn = pd.DataFrame(plan.propensity, index=range(N, 2 * N), columns=list(MODELS))
    later = rows.drop(columns="propensity").assign(prompt=rows["prompt"] + N)
    every = pd.concat([table_of(scores), later])
    both = fit(every, propensity=pd.concat([known, drawn]))
    assert both.t_test(contrast).sd[0] == pytest.approx(float(together), rel=0.1)
    assert both.t_test(contrast).sd[0] < 0.9 * after.t_test(contrast).sd[0]
    with pytest.raises(NuisanceError, match="add a row without a model"):
        fit(rows[has_run], propensity=plan)
    # A small round has too few scores for one fit of all rows, which is less precise than the fit of the earlier ones.
    small = full.design(100, contrasts=["a - b"], from_scratch=True)
    said = (
        r"Standard error of a - b: ([\d.]+) from the new prompts alone, ([\d.]+) together .* \(the fit: ([\d.]+)\)\. "
        r"Fit the new rows by themselves"
    )
    alone, together, before = map(float, re.search(said, " ".join(str(small).split())).groups())
    assert before == pytest.approx(full.t_test("a - b").sd[0], abs=1e-3)
    assert before < together < alone
    drawn = pd.DataFrame(small.propensity, index=range(N, 2 * N), columns=list(MODELS))
    rows = small.sample(rng=2)
    has_run = rows["model"].notna()
    rows.loc[has_run, "score"] = fresh[rows["prompt"][has_run], np.searchsorted(MODELS, rows["model"][has_run])]
    every = pd.concat([every[: N * 4], rows.drop(columns="propensity").assign(prompt=rows["prompt"] + N)])
    few = pytest.warns(IntervalWarning, match="few prompts determine the standard error of 'c'")
    with few, pytest.warns(DmlrankWarning, match="of 'c', 'd' were drawn with very different propensities"):
        both = fit(every, propensity=pd.concat([known, drawn]))
    assert both.t_test("a - b").sd[0] > full.t_test("a - b").sd[0]


def test_the_smallest_budget_for_a_standard_error_counts_the_runs_so_far() -> None:
    plan = fitted()[2].design(60)
    largest = float(plan.std_errors.max())
    assert plan.for_std_error(1.1 * largest).std_errors.max() == pytest.approx(1.1 * largest, rel=1e-4)
    with pytest.raises(OptionError, match="runs of the fit already reach this"):
        plan.for_std_error(2 * largest)
    # Models that are compared are run on the same prompts: the one that was run on fewer first has to follow.
    scores, known = fitted()[0], np.tile([1.0, 0.5, 0.2, 0.2], (N, 1))
    is_drawn = np.random.default_rng(0).random((N, 1)) < known
    res = fit(table_of(scores, is_drawn), propensity=pd.DataFrame(known, columns=MODELS))
    plan = res.design(190, contrasts=["b - c"])
    assert plan.for_std_error(2 * float(plan.std_errors["b"])).budget == pytest.approx(0.3 * N, rel=1e-4)


def test_weights_of_prompts_count_in_what_the_runs_so_far_leave_open() -> None:
    scores, is_drawn, _ = fitted()
    known = pd.DataFrame(np.tile([1.0, 0.2, 0.2, 0.2], (N, 1)), columns=MODELS)
    table = table_of(scores, is_drawn).assign(weight=lambda rows: 1.0 + 8 * (rows["prompt"] % 2))
    res = fit(table, propensity=known, weights="weight")
    errors = [res.design(budget).std_errors for budget in (1, 20, 50)]
    np.testing.assert_allclose(errors[0], res.bse, rtol=0.06)
    for less, more in pairwise(errors):
        assert (more[1:] < 0.95 * less[1:]).all()


def test_a_candidate_is_run_where_its_score_is_not_foreseen() -> None:
    scores, _, _ = fitted()
    full = fit(table_of(scores))
    plan = full.design(60, candidate="new", contrasts="new - b")
    assert plan.propensity[:, :4].min() == 1.0
    assert plan.names == ["a", "b", "c", "d", "new"]
    assert plan.goal.targets[1] == ("new - b",)
    # A prompt that all others solve says little.
    is_solved = scores.all(axis=1)
    assert plan.propensity[is_solved, 4].max() < 0.7 * plan.propensity[~is_solved, 4].mean()
    assert "assumed to be zero is found" in " ".join(str(full.design(60, candidate="new")).split())
    lines = [line.split() for line in str(full.design(60, candidate="new")).splitlines()]
    found = [line[:2] for line in lines if line and line[0] == "new" and "assumed" in line]
    assert found == [["new", "assumed"], ["new", "-"]]
    assert "new has not been run: its score is assumed to be that of a." in " ".join(map(" ".join, lines))
    richer = full.design(60, candidate="new").for_power("new", "a", difference=0.2, method="none")
    assert richer.power("new", "a", difference=0.2, method="none") == pytest.approx(0.8, abs=1e-3)


def test_few_runs_of_a_model_say_which_complete_models_it_is_like() -> None:
    rng = np.random.default_rng(4)
    n, skill, difficulty = 1500, np.linspace(1.5, -1.5, 7), 2 * rng.normal(size=(1500, 1))
    p = scipy.special.expit(3 * (np.append(skill, -1.2) - difficulty))
    scores = (rng.random((n, 8)) < p).astype(float)
    table = pd.DataFrame({"prompt": np.repeat(np.arange(n), 8), "model": np.tile(list("abcdefgn"), n)})
    table["score"] = scores.ravel()
    is_new = table["model"] == "n"
    full = fit(table[~is_new])

    def expected_variance(plan: Plan) -> float:
        variance = (p * (1 - p))[:, 7]
        return float((variance / plan.propensity[:, 7]).mean() / (np.sqrt(variance).mean() ** 2 * n / 250))

    best, first = full.design(250, candidate="n"), full.design(60, candidate="n")
    is_drawn = np.isin(np.arange(n), first.sample(rng=2)["prompt"])
    rows = table[~is_new | is_drawn[table["prompt"]]]
    res = fit(rows, propensity=first)
    second = res.design(190, contrasts=["n - a"])
    # The candidate is weak: a plan that takes it for one of the best runs it on the wrong prompts.
    assert expected_variance(best) > 3
    assert expected_variance(second) < 1.8


def test_what_a_plan_for_scores_refuses() -> None:
    scores, is_drawn, res = fitted()
    full = fit(table_of(scores))
    refused: list[tuple[dr.RankResults, float, dict[str, object], str]] = [
        (full, 60, {}, r"candidate=.*from_scratch=True"),
        (full, 60, {"candidate": "new", "from_scratch": True}, "leave candidate= out"),
        (full, 60, {"candidate": "a"}, "has scores already"),
        (res, 60, {"one_pair": True}, "one_pair="),
        (res, 3, {"min_propensity": 0.25}, "budget=3 is too small"),
        (res, 60, {"newdata": pd.DataFrame({"prompt": [1]})}, "plan for scores"),
    ]
    for result, budget, options, words in refused:
        with pytest.raises(OptionError, match=words):
            result.design(budget, **options)
    with pytest.raises(OptionTypeError, match=r"a number per model \(4,\)"):
        res.design(60, costs=[1.0, 2.0])
    column = table_of(scores, is_drawn).assign(pi=0.2)
    column.loc[column["model"] == "a", "pi"] = 1.0
    with pytest.raises(OptionError, match="not known from a column"):
        fit(column, propensity="pi").design(60)
    with pytest.raises(OptionError, match=r"plot\(\) is about labels"):
        res.design(60).plot()


def test_a_table_of_earlier_models_plans_as_their_fit_does() -> None:
    scores = pd.DataFrame(fitted()[0], columns=MODELS).rename_axis("item")
    long = scores.stack().rename_axis(["item", "model"]).rename("score").reset_index()
    res = fit(long, context="item")
    for ours, theirs in [
        (dr.design(scores, budget=60, candidate="new"), res.design(60, candidate="new")),
        (dr.design(scores, budget=60, contrasts=["a - b"]), res.design(60, contrasts=["a - b"], from_scratch=True)),
    ]:
        np.testing.assert_array_equal(ours.propensity, theirs.propensity)
        pd.testing.assert_frame_equal(ours.sample(rng=1), theirs.sample(rng=1))
    assert dr.design(scores, budget=60, candidate="new").sample(rng=1)["model"].unique().tolist() == ["new"]


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (lambda table: table.assign(a=np.nan), {}, DataError, "240 of 960 scores of the table are missing"),
        (lambda table: table.assign(name="x"), {}, DataError, "holds 'x' (model 'name') in row 4"),
        (lambda table: table, {"graph": np.eye(4)}, OptionError, "graph= belongs to a plan of labels"),
        (lambda table: table, {"prompts": "fixed"}, OptionError, "prompts= belongs to a plan of labels"),
        (lambda table: table.rename_axis("model"), {}, DataError, "the index of the table is named 'model'"),
        (lambda table: table, {"functional": "bt"}, OptionError, "functional= belongs to a plan of labels"),
        (lambda _: np.full((5, 2, 2, 2), 0.5), {"candidate": "new"}, OptionError, "candidate= is a model of a plan"),
    ],
)
def test_a_table_that_no_plan_of_runs_can_use_is_refused(
    change: Callable[[pd.DataFrame], object], options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        dr.design(change(pd.DataFrame(fitted()[0], columns=MODELS)), budget=60, **options)


def test_a_plan_for_the_lowest_scores_is_that_for_the_highest_of_their_opposites() -> None:
    table, texts = table_of(fitted()[0]), []
    for rows, lower in ((table, True), (table.assign(score=-table["score"]), False)):
        res = fit(rows, lower_is_better=lower)
        plan = res.design(200, top=1, from_scratch=True)
        assert [row[0] for row in plan.summary().rows[:4]] == res.params.sort_values(ascending=lower).index.tolist()
        said = " ".join(str(plan).split())
        texts.append(re.search(r"With 200 runs, .*? needs about [\d,]+|With 200 runs, [^;]*", said)[0])
    assert texts[0] == texts[1]
    assert "first place (" in texts[0]


def test_precision_out_of_reach_is_said_in_runs() -> None:
    plan = dr.design(pd.DataFrame(fitted()[0], columns=MODELS), budget=60, candidate="new")
    with pytest.raises(OptionError, match="even running every model that is not complete on all 240 prompts"):
        plan.for_width(0.01)

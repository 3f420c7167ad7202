"""What a plan says of itself, what it draws, and what it refuses."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from scipy.stats import t as student

import dmlrank as dr
from dmlrank._utils.tasks_and_threads import collected_warnings, computing, computing_with
from dmlrank.exceptions import GraphError, HypothesisError, NuisanceError, OptionError, OptionTypeError
from dmlrank.functionals import Custom, Functional
from dmlrank.options import in_objects
from dmlrank.planning import allocation, problem
from dmlrank.planning.allocation import allocate, kkt_residual
from dmlrank.planning.criteria import Goal
from dmlrank.planning.problem import Limits
from dmlrank.planning.solution import solve

from ...support import FORMULA, needs, two_of, without_order

FUNCTIONALS = ("borda", "bt", "rank_centrality")


@pytest.fixture(scope="module")
def mu():
    ties = dr.datasets.Ties(coefficients=5, n_items=4)
    return ties.mu(ties.features(60, rng=0))


@pytest.fixture(scope="module")
def flat(mu):
    return without_order(mu)


# --- closed forms and slack ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_a_plan_is_the_clipped_square_root(mu, functional):
    plan = dr.design(mu, functional, budget=150, min_propensity=0.17)
    root = np.sqrt(plan.problem.functional.information(mu))
    pairs = ~np.eye(4, dtype=bool)
    free = (plan.propensity > 0.17 * 1.0001) & (plan.propensity < 0.9999)
    level = (plan.propensity[free] / root[free]).mean()
    np.testing.assert_allclose(plan.propensity, np.where(pairs, np.clip(level * root, 0.17, 1), 0), rtol=1e-9)
    assert 0 < (plan.propensity == 0.17).sum() < pairs.sum() * len(mu)


@pytest.mark.parametrize("one_pair", [False, True])
def test_a_slack_budget_says_so(mu, one_pair):
    plan = dr.design(mu, budget=10_000, one_pair=one_pair)
    assert plan.slack
    assert "The budget is slack" in " ".join(plan.summary().as_text().split())
    assert "(slack)" in plan.summary().as_text()
    assert plan.expected_cost == pytest.approx(60 if one_pair else 60 * 12)
    again = dr.design(mu, budget=20_000, one_pair=one_pair, min_propensity=plan.smallest_propensity)
    np.testing.assert_allclose(again.propensity, plan.propensity, rtol=1e-12)


def test_a_wrong_plan_fails_the_optimality_conditions(mu):
    plan = dr.design(mu, "bt", budget=150)
    rates, least = plan.problem.cell_rates(np.eye(4)), plan.problem.least(plan.limits)
    propensities, *multipliers = allocate(plan.problem, rates, least, 150)
    assert kkt_residual(plan.problem, rates, least, (propensities, *multipliers)) < 1e-12
    moved = propensities[:]
    moved[0, 0] *= 1.05
    assert kkt_residual(plan.problem, rates, least, (moved, *multipliers)) > 0.05


def test_a_plan_that_is_not_certified_says_so(mu, monkeypatch):
    plan = dr.design(mu, "bt", budget=60, criterion="D")
    monkeypatch.setattr(allocation, "MAX_STEPS", 1)
    with pytest.warns(dr.DmlrankWarning, match="may not be optimal"):
        solution = solve(dr.planning.Plan, plan.problem, plan.goal, plan.limits)
    assert solution.kkt_residual > 1e-4


# --- what does not matter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("one_pair", [False, True])
def test_names_and_orders_do_not_matter(mu, functional, criterion, one_pair):
    rng = np.random.default_rng(4)
    costs = rng.uniform(0.5, 2, size=(4, 4))
    plan = dr.design(mu, functional, budget=40, criterion=criterion, one_pair=one_pair, costs=costs)
    items, contexts = rng.permutation(4), rng.permutation(60)
    moved = mu[contexts][:, items][:, :, items]
    other = dr.design(
        moved, functional, budget=40, criterion=criterion, one_pair=one_pair, costs=costs[np.ix_(items, items)]
    )
    expected = plan.propensity[contexts][:, items][:, :, items]
    np.testing.assert_allclose(other.propensity, expected, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(other.std_errors, plan.std_errors.to_numpy()[items], rtol=1e-6)


def test_passes_have_the_same_bits_on_all_threads_and_workers(mu, monkeypatch):
    plan = dr.design(mu, "rank_centrality", budget=50, n_jobs=1)
    monkeypatch.setattr(problem, "CHUNK_SIZE", 4 * 4 * 3 * 7)
    metric = np.diag(np.arange(1.0, 5.0))

    def results():
        mean, scanned = plan.problem.scanned()
        labelling = scanned.labelling_covariance(plan.propensities)
        return [mean, scanned.between, labelling, scanned.label_information(metric)]

    with computing_with(1):
        expected = results()
    with ThreadPoolExecutor(3) as threads, computing(executor=threads), computing_with(1):
        on_workers = results()
    with computing_with(3):
        on_threads = results()
    for other in (on_threads, on_workers):
        for one, same in zip(expected, other, strict=True):
            np.testing.assert_array_equal(one, same)


# --- what it is for ------------------------------------------------------------------------------------------------


def test_top_and_against_are_the_differences_they_say(mu):
    plan = dr.design(mu, "bt", budget=90, top=2)
    best = plan.goal.scores.argsort()[-2:]
    assert set(plan.predicted().index[0].split(" - ")) == {f"model_{j}" for j in best}
    against = dr.design(mu, "bt", budget=90, against="model_2")
    expected = dr.design(mu, "bt", budget=90, contrasts=[("model_2", f"model_{j}") for j in (0, 1, 3)])
    np.testing.assert_allclose(against.propensity, expected.propensity, rtol=1e-12)


def test_pairs_off_the_graph_are_never_labelled(mu):
    path = dr.Graph.of([(0, 1), (1, 2), (2, 3)], 4)
    plan = dr.design(mu, "bt", budget=50, graph=path)
    assert not plan.propensity[:, ~path.edges].any()
    assert plan.propensity[:, path.edges].min() > 0
    weighted = dr.design(mu, "bt", budget=50, edge_weights=np.where(path.edges, 2.0, 0.0))
    np.testing.assert_allclose(weighted.propensity, plan.propensity, rtol=1e-9)
    heavy = np.where(path.edges, 1.0, 0.0)
    heavy[0, 1] = heavy[1, 0] = 30
    assert not np.allclose(dr.design(mu, "borda", budget=50, edge_weights=heavy + 0.01).propensity, plan.propensity)


def test_weights_of_contexts_are_repetitions(mu):
    weights = np.r_[np.full(30, 2.0), np.full(30, 0.5)]
    plan = dr.design(mu, "bt", budget=90, weights=weights)
    unweighted = dr.design(mu, "bt", budget=90)
    assert plan.propensity[:30].sum() > unweighted.propensity[:30].sum()
    # A context of weight w has the information w^2: pi is proportional to w where nothing is clipped.
    ratio = plan.propensity[0, 0, 1] / plan.propensity[30, 0, 1]
    unclipped = unweighted.propensity[0, 0, 1] / unweighted.propensity[30, 0, 1]
    assert ratio == pytest.approx(4 * unclipped, rel=1e-6)


def test_fixed_prompts_leave_out_what_prompts_differ_by(mu):
    fixed, random = (dr.design(mu, "bt", budget=90, prompts=prompts) for prompts in ("fixed", "random"))
    np.testing.assert_allclose(fixed.propensity, random.propensity, rtol=1e-12)
    between = np.cov(random.problem.functional.value(mu).T, bias=True)
    np.testing.assert_allclose(random.sigma - fixed.sigma, between, rtol=1e-9, atol=1e-12)


# --- drawing -------------------------------------------------------------------------------------------------------


def places_of(rows):
    return rows["context"].to_numpy(), *(rows[c].str[-1].astype(int).to_numpy() for c in ("model_a", "model_b"))


@pytest.mark.parametrize("one_pair", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_pairs_are_drawn_with_their_propensities(mu, flat, one_pair, ordered):
    n = 6000
    table = np.tile((mu if ordered else flat)[:1], (n, 1, 1, 1))
    plan = dr.design(table, "bt", budget=0.8 * n, one_pair=one_pair, position_bias=ordered)
    rows = plan.sample(np.random.default_rng(8))
    drawn = rows[rows["propensity"].notna()]
    at = places_of(drawn)
    np.testing.assert_array_equal(drawn["propensity"], plan.propensity[at])
    counts = np.zeros(table.shape[:3])
    np.add.at(counts, at, 1)
    expected = plan.propensity[0] if ordered else plan.propensity[0] / 2
    error = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(counts.mean(axis=0) - expected) <= 4.5 * error).all()
    assert counts.max() == 1
    per_context = counts.sum(axis=(1, 2))
    assert (per_context.max() == 1) == one_pair
    assert rows["context"].tolist() == sorted(rows["context"])
    assert len(rows) == len(drawn) + (per_context == 0).sum()
    assert rows["context"].nunique() == n
    together = (counts + np.swapaxes(counts, 1, 2))[:, 0, 1]
    assert together.max() == (2 if ordered and not one_pair else 1)
    if not one_pair:
        # Independent pairs: the number of labels has the variance of a sum of Bernoulli variables.
        taken = plan.propensities[:][0]
        assert per_context.var() == pytest.approx((taken * (1 - taken)).sum(), rel=0.08)


class _Fixed:
    """Stands for a generator: units are in their order, and the number that a systematic sample starts at is given."""

    def __init__(self, start):
        self.start = start

    def random(self, size=None):
        return self.start if size is None else np.linspace(0, 0.9, size)


def test_a_draw_of_a_fixed_size_has_the_propensities_of_its_units():
    rng = np.random.default_rng(0)
    propensity, cost = rng.uniform(size=40), rng.integers(1, 4, size=40).astype(float)
    propensity[[3, 7]] = 1.0, 0.0
    starts = (np.arange(4000) + 0.5) / 4000
    draws = np.array([problem.drawn_together(propensity, cost, _Fixed(start)) for start in starts])
    # Over all starts each unit is drawn in the share that is its propensity, up to the ends of two intervals.
    np.testing.assert_allclose(draws.mean(axis=0), propensity, atol=2 / 4000)
    assert np.abs(draws.sum(axis=1) - propensity.sum()).max() < 1
    assert np.abs(draws @ cost - propensity @ cost).max() <= 3


@pytest.mark.parametrize(("one_pair", "costly"), [(False, True), (True, False)])
def test_samples_cost_the_budget_and_keep_every_propensity(mu, one_pair, costly):
    rng, n_draws = np.random.default_rng(3), 400
    cost = rng.choice([1.0, 3.0], size=60) if costly else np.ones(60)
    plan = dr.design(mu, "bt", budget=50, costs=cost, one_pair=one_pair)
    expected = plan.propensity.sum(axis=0)
    share, spent, residual, weighted = np.zeros((60, 4, 4)), [], rng.normal(0.3, 1, size=(60, 4, 4)), []
    for _ in range(n_draws):
        drawn = plan.sample(rng).dropna(subset=["propensity"])
        at = places_of(drawn)
        np.add.at(share, at, 1 / n_draws)
        spent.append(cost[at[0]].sum())
        weighted.append((residual[at] / drawn["propensity"]).sum())
        counts = np.zeros((4, 4))
        np.add.at(counts, at[1:], 1)
        assert one_pair or np.abs(counts - expected).max() < 1
        assert abs(len(drawn) - expected.sum()) < 1
    z = (share - plan.propensity) / np.sqrt(np.maximum(plan.propensity * (1 - plan.propensity), 1e-12) / n_draws)
    assert np.abs(z).max() < 4.5
    assert np.std(z[plan.propensity > 0]) == pytest.approx(1, abs=0.1)
    assert np.mean(spent) == pytest.approx(50, abs=0.5)
    assert np.std(spent) < (3 if costly else 1e-6)
    # Weighted residuals vary no more than those of contexts that are drawn independently.
    inside = plan.propensity > 0
    variances = np.where(inside, np.square(residual) / np.where(inside, plan.propensity, 1), 0).sum(axis=(1, 2))
    squared_means = np.square(np.where(inside, residual, 0)).sum(axis=(1, 2))
    if one_pair:
        squared_means = np.square(np.where(inside, residual, 0).sum(axis=(1, 2)))
    assert np.var(weighted) < 1.2 * (variances - squared_means).sum()


def test_samples_are_written_for_annotation_tools(mu, tmp_path):
    names = ['new, "model"', "a$b", "gpt-4", "é"]
    plan = dr.design(mu, budget=90, models=names, contexts=[f"q{i}" for i in range(60)])
    rows = plan.export(tmp_path / "tasks.csv", rng=3)
    pd.testing.assert_frame_equal(rows, plan.sample(3))
    read = pd.read_csv(tmp_path / "tasks.csv")
    # Earlier versions of pandas read the last digit of a number imprecisely.
    np.testing.assert_allclose(read["propensity"], rows["propensity"], rtol=1e-14)
    written = (tmp_path / "tasks.csv").read_text(encoding="utf-8")
    assert all(repr(float(share)) in written for share in rows["propensity"].dropna())
    assert read["model_a"].dropna().tolist() == rows["model_a"].dropna().tolist()
    plan.export(tmp_path / "tasks.json", rng=3)
    made = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert made["seed"] == 3
    assert made["budget"] == 90
    assert [task["propensity"] for task in made["tasks"]] == rows["propensity"].dropna().tolist()
    assert [c["context"] for c in made["unlabelled"]] == rows.loc[rows["propensity"].isna(), "context"].tolist()
    with pytest.raises(OptionError):
        plan.export(tmp_path / "tasks.xlsx")


# --- forecasts -----------------------------------------------------------------------------------------------------


def test_the_uniform_plan_beside_it_costs_as_much(mu):
    plan = dr.design(mu, "bt", budget=90)
    even = dr.design(mu, "bt", budget=90, min_propensity=90 / 720)
    np.testing.assert_allclose(even.propensity[:, ~np.eye(4, dtype=bool)], 90 / 720, rtol=1e-9)
    np.testing.assert_allclose(plan.predicted()["uniform_std_error"], even.std_errors, rtol=1e-9)
    assert plan.uniform_objective == pytest.approx(even.objective)
    np.testing.assert_allclose(plan.uniform_sigma, even.sigma, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(np.sqrt(np.diag(plan.cov_params())), plan.std_errors, rtol=1e-12)
    assert plan.objective == pytest.approx(60 * np.trace(plan.cov_params()))
    ratio = plan.std_errors / plan.predicted()["uniform_std_error"]
    np.testing.assert_allclose(plan.predicted()["ratio"], ratio, rtol=1e-12)


@pytest.mark.parametrize("one_pair", [False, True])
@pytest.mark.parametrize("criterion", ["A", "D"])
def test_for_width_finds_the_smallest_budget(mu, one_pair, criterion):
    plan = dr.design(mu, "bt", budget=20, one_pair=one_pair, criterion=criterion)
    wanted = 0.97 * plan.predicted()["width"].max()
    wider = plan.for_width(wanted)
    reached = wider.predicted()["width"].max()
    assert wanted * (1 - 1e-3) < reached <= wanted
    assert wider.budget > 20
    assert plan.for_width(reached * 1.2).budget < wider.budget
    # The search itself certifies nothing; what it ends with is certified as any plan is.
    assert wider.kkt_residual < 1e-5
    tight = plan.for_width(wanted, method="none")
    assert tight.predicted(method="none")["width"].max() == pytest.approx(wanted, rel=1e-3)
    assert tight.budget < wider.budget


def test_a_budget_for_a_label_on_every_context_has_no_price(mu):
    costs = np.random.default_rng(0).uniform(1, 2, size=(4, 4))
    plan = dr.design(mu, budget=1e4, one_pair=True, costs=(costs + costs.T) / 2)
    np.testing.assert_allclose(plan.propensity.sum(axis=(1, 2)), 1, rtol=1e-9)
    assert plan.multiplier == 0


def test_for_power_finds_the_smallest_budget(mu):
    plan = dr.design(mu, "bt", budget=20)
    pair = ("model_0", "model_2")
    wanted = plan.power(*pair) + 0.1
    more = plan.for_power(*pair, power=wanted)
    assert more.power(*pair) == pytest.approx(wanted, abs=1e-3)
    assert more.power(*pair) >= wanted
    row = more.predicted(pair)
    distance = abs(row["score"].item()) / row["std_error"].item()
    # A fit of 60 prompts has quantiles of Student's t.
    critical = np.sqrt(60 / 59) * student.isf(0.025, 59)
    alone = norm.sf(critical - distance) + norm.cdf(-critical - distance)
    assert more.power(*pair, method="none") == pytest.approx(alone, rel=1e-6)
    assert more.power(*pair, method="bonferroni") < more.power(*pair) < alone
    assert plan.for_power(*pair, power=wanted, method="none").budget < more.budget
    gap = 1.5 * abs(row["score"].item())
    assert plan.for_power(*pair, power=wanted, difference=gap).budget < more.budget


def test_what_no_budget_reaches_is_an_error_with_the_contexts_it_takes(mu):
    plan = dr.design(mu, "bt", budget=90)
    with pytest.raises(OptionError) as e:
        plan.for_width(0.05)
    n_needed = int(str(e.value).split("about ")[1].split(" prompts")[0].replace(",", ""))
    everything = dr.design(mu, "bt", budget=720)
    assert everything.slack
    assert everything.predicted()["width"].max() * np.sqrt(60 / n_needed) == pytest.approx(0.05, rel=1e-3)
    with pytest.raises(OptionError, match="with power"):
        plan.for_power("model_0", "model_1", power=0.999, difference=1e-3)
    with pytest.raises(OptionError, match="between alpha"):
        plan.for_power("model_0", "model_1", power=0.01)
    with pytest.raises(OptionError):
        plan.for_power("model_0", "model_1", difference=0)


def test_a_floor_that_suffices_ends_the_search(mu):
    plan = dr.design(mu, "bt", budget=200, min_propensity=0.2)
    loose = plan.for_width(50.0)
    assert loose.budget == pytest.approx(0.2 * 720)


# --- the rule elsewhere, regret, rounds ----------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("one_pair", [False, True])
@pytest.mark.parametrize("costly", [False, True])
def test_the_rule_in_its_own_contexts_is_the_plan(mu, criterion, one_pair, costly):
    costs = np.random.default_rng(1).uniform(0.5, 2, size=(4, 4)) if costly else 1.0
    plan = dr.design(mu, "bt", budget=45, criterion=criterion, one_pair=one_pair, costs=costs, explore=0.1)
    np.testing.assert_allclose(plan.at(mu), plan.propensity, rtol=1e-5)
    np.testing.assert_allclose(plan.at(mu[10:20]), plan.propensity[10:20], rtol=1e-5)


def test_the_rule_needs_costs_that_are_known_elsewhere(mu):
    plan = dr.design(mu, "bt", budget=45, costs=np.linspace(1, 2, 60))
    with pytest.raises(OptionError):
        plan.at(mu)


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize("one_pair", [False, True])
def test_regret_is_what_a_wrong_judge_costs_and_its_bounds_hold(mu, functional, explore, one_pair):
    rng = np.random.default_rng(3)
    options = {"budget": 40, "min_propensity": 0.01, "one_pair": one_pair, "floor": 0}
    noise = np.exp(rng.normal(scale=0.7, size=mu.shape))
    judge = mu * noise / np.maximum((mu * noise).sum(axis=-1, keepdims=True), 1e-300)
    plan = dr.design(judge, functional, explore=explore, **options)
    best = dr.design(mu, functional, **options)
    found = plan.regret(mu)
    information = best.problem.label_information(np.eye(4))
    lost = (information / plan.propensities[:] - information / best.propensities[:]).sum() / 60 / 60
    assert found.excess == pytest.approx(lost, rel=1e-9)
    assert found.relative == pytest.approx(found.excess * 60 / best.objective, rel=1e-9)
    assert found.uniform_excess == pytest.approx((best.uniform_objective - best.objective) / 60, rel=1e-6)
    assert 0 < found.excess <= found.sharp_bound <= found.bound
    assert found.floor == 0.01
    none = dr.design(mu, functional, **options).regret(mu)
    assert abs(none.excess) < 1e-12
    assert none.bound == none.distance == 0


def test_regret_is_about_traces_and_the_same_contexts(mu):
    with pytest.raises(OptionError, match="determinant"):
        dr.design(mu, budget=40, criterion="D").regret(mu)
    with pytest.raises(NuisanceError):
        dr.design(mu, budget=40).regret(mu[:3])


def test_mixture_and_repeated_propensities():
    rng = np.random.default_rng(0)
    first, second = rng.uniform(size=(2, 5, 3, 3))
    np.testing.assert_allclose(dr.planning.mixture_propensity([first, second], [0.3, 0.7]), 0.3 * first + 0.7 * second)
    np.testing.assert_allclose(dr.planning.repeated_propensity([first, second]), first + second - first * second)
    draws = rng.random((100_000, 2)) < [0.5, 0.8]
    order = rng.random((100_000, 2)) < 0.5
    cells = (draws & order).any(axis=1).mean() + (draws & ~order).any(axis=1).mean()
    tables = [np.full((1, 2, 2), 0.5), np.full((1, 2, 2), 0.8)]
    assert dr.planning.repeated_propensity(tables, position_bias=False)[0, 0, 1] == pytest.approx(cells, abs=0.01)
    with pytest.raises(OptionError):
        dr.planning.mixture_propensity([first, second], [0.3, 0.3])
    with pytest.raises(NuisanceError):
        dr.planning.mixture_propensity([first, second[:2]], [0.3, 0.7])
    with pytest.raises(NuisanceError):
        dr.planning.repeated_propensity([first + 1])


# --- what is refused -----------------------------------------------------------------------------------------------


def test_a_min_propensity_beyond_the_budget_names_the_smallest_budget(mu):
    with pytest.raises(OptionError):
        dr.design(mu, budget=71, min_propensity=0.1)
    assert dr.design(mu, budget=72, min_propensity=0.1).expected_cost == pytest.approx(72)


def test_floors_beyond_one_pair_name_the_largest_possible_one(mu):
    with pytest.raises(OptionError, match="one_pair"):
        dr.design(mu, budget=30, min_propensity=0.1, one_pair=True)
    full = dr.design(mu, budget=100, min_propensity=1 / 12, one_pair=True)
    np.testing.assert_allclose(full.propensity[:, ~np.eye(4, dtype=bool)], 1 / 12)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget": 0}, OptionError),
        ({"budget": "many"}, OptionTypeError),
        ({"criterion": "E"}, OptionError),
        ({"functional": "brda"}, OptionError),
        ({"explore": 1.0}, OptionError),
        ({"min_propensity": 0}, OptionError),
        ({"min_propensity": 1.5}, OptionError),
        ({"costs": 0}, OptionError),
        ({"costs": np.r_[np.ones(59), -1]}, OptionError),
        ({"costs": np.ones(7)}, OptionTypeError),
        ({"costs": np.where(np.eye(4), 0, np.nan)}, OptionError),
        ({"contrasts": "model_0 - model_9"}, KeyError),
        ({"contrasts": np.ones(4)}, HypothesisError),
        ({"contrasts": "model_0 - model_1 = 0.1"}, HypothesisError),
        ({"top": 9}, OptionError),
        ({"top": 2, "against": "model_1"}, OptionError),
        ({"against": "x"}, KeyError),
        ({"models": ["a", "b"]}, OptionError),
        ({"models": ["a", "b", "a", "c"]}, OptionError),
        ({"contexts": [0] * 60}, OptionError),
        ({"graph": np.eye(4, dtype=bool)}, GraphError),
        ({"graph": np.ones((3, 3), dtype=bool)}, OptionTypeError),
        ({"category_weights": "paper4"}, OptionError),
        ({"category_weights": 3}, OptionTypeError),
        ({"weights": np.zeros(60)}, OptionError),
        ({"weights": np.ones(3)}, OptionTypeError),
        ({"prompts": "some"}, OptionError),
        ({"floor": 0.4}, OptionError),
        ({"floor": "x"}, OptionTypeError),
        ({"edge_weights": "counts"}, OptionError),
        ({"edge_weights": np.ones((2, 2))}, OptionError),
        ({"position_bias": False}, NuisanceError),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, error):
    ties = dr.datasets.Ties(coefficients=5, n_items=4, position_effect=1.0)
    table = ties.mu(ties.features(60, rng=0))
    with pytest.raises(error):
        dr.design(table, **({"functional": "bt", "budget": 100} | options))


@pytest.mark.parametrize(
    ("table", "error"),
    [
        *((np.ones(shape), NuisanceError) for shape in [(3, 4), (0, 2, 2, 2), (3, 2, 3, 2), (3, 1, 1, 2)]),
        (np.full((3, 2, 2, 2), 0.9), NuisanceError),
        ("mu", NuisanceError),
    ],
)
def test_what_is_no_array_of_probabilities_is_refused(table, error):
    with pytest.raises(error):
        dr.design(table, budget=10)


@pytest.mark.parametrize(
    "options", [{"costs": np.triu(np.ones((4, 4)), 1) + 1}, {"category_weights": ((1, 0, 0.3), (0, 1, 0.7))}]
)
def test_costs_and_weights_by_order_are_refused_where_order_does_not_matter(flat, options):
    with pytest.raises(OptionError, match="position_bias"):
        dr.design(flat, budget=10, position_bias=False, **options)


def test_certain_scores_have_no_determinant():
    mu = np.zeros((5, 3, 3, 2))
    mu[..., 0] = np.triu(np.ones((3, 3)), 1)
    mu[..., 1] = np.tril(np.ones((3, 3)), -1)
    with pytest.raises(OptionError):
        dr.design(mu, "borda", budget=5, criterion="D")
    even = dr.design(mu, "borda", budget=5)
    assert even.slack
    assert not even.std_errors.any()


def test_a_plan_from_probabilities_and_one_from_a_fit_take_the_same_options_with_the_same_defaults():
    described = {item.name: item.default for item in dataclasses.fields(Limits)}
    described |= {name: getattr(Goal(), name) for name in ("criterion", "contrasts", "top", "against")}
    for function in (dr.design, dr.RankResults.design):
        parameters = inspect.signature(function).parameters
        taken = {name: parameters[name].default for name in described}
        required = {name for name, default in taken.items() if default is inspect.Parameter.empty}
        assert required == {name for name, default in described.items() if default is dataclasses.MISSING}
        assert {name: taken[name] for name in taken if name not in required} == {
            name: described[name] for name in described if name not in required
        }


# --- what is shown -------------------------------------------------------------------------------------------------


def test_the_summary_holds_the_numbers(mu):
    plan = dr.design(mu, "bt", budget=90, top=3, models=["gpt-4", "a", "b", "c"])
    shown = plan.summary()
    text = shown.as_text()
    for words in ("Labelling Plan", "3 contrasts", "90 (binding)", "12 ordered", "Expected labels:", "gpt-4"):
        assert words in text
    rows = {row[0]: row for row in shown.rows}
    assert {name for name in rows if "vs." not in name} == {"gpt-4", "a", "b", "c", *plan.predicted().index}
    labels = plan.propensity.sum(axis=0)
    assert float(rows["gpt-4"][-1]) == pytest.approx(labels[0].sum() + labels[:, 0].sum(), abs=0.06)
    assert float(rows["gpt-4"][2]) == pytest.approx(plan.std_errors["gpt-4"], abs=6e-4)
    assert "<table" in shown.as_html()
    many = dr.datasets.Ties(coefficients=5, n_items=7)
    plan_of_seven = dr.design(many.mu(many.features(20, rng=0)), "borda", budget=60, models=list("abcdefg"))
    assert sum("vs." in row[0] for row in plan_of_seven.summary().rows) == 10
    labels = plan_of_seven.propensity.sum(axis=0)
    rest = np.sort((labels + labels.T)[np.triu_indices(7, 1)])[:11].sum()
    assert f"of the plan have {rest:.1f} labels" in " ".join(str(plan_of_seven).split())
    of_one = [row[0] for row in plan_of_seven.summary(models="c").rows if "vs." in row[0]]
    assert len(of_one) == 6
    assert all("c" in name.split(" vs. ") for name in of_one)
    assert repr(plan) == "<Plan: A-optimal, 60 contexts, 4 models, cost 90>"


@pytest.mark.parametrize(("ordered", "budget"), [(False, 90), (True, 90), (False, 3)])
def test_the_summary_has_the_labels_of_the_pairs_with_most_of_them(flat, ordered, budget):
    plan = dr.design(flat, "bt", budget=budget, top=2, models=list("abcd"), position_bias=ordered)
    labels = plan.propensity.sum(axis=0)
    both = labels + ordered * labels.T
    pairs = {f"{j} vs. {k}": both[x, y] for x, j in enumerate("abcd") for y, k in enumerate("abcd")}
    shown = [row for row in plan.summary().rows if "vs." in row[0]]
    assert len(shown) == 6
    assert [float(row[-1]) for row in shown] == sorted((float(row[-1]) for row in shown), reverse=True)
    for name, *_, number in shown:
        first, second = name.split(" vs. ")
        assert float(number) == pytest.approx(pairs[name], abs=0.06)
        # The model with the higher score comes first.
        assert plan.predicted()["score"].get(f"{first} - {second}", 1) > 0
    text = " ".join(plan.summary().as_text().split())
    assert "'vs.' are all pairs" in text
    assert ("both display orders together" in text) == ordered


@needs("matplotlib")
@pytest.mark.parametrize("ordered", [False, True])
def test_the_heat_map_shows_expected_labels(flat, ordered):
    plan = dr.design(flat, "bt", budget=90, position_bias=ordered)
    shown = np.ma.filled(plan.plot().images[0].get_array(), np.nan)
    np.testing.assert_allclose(np.nan_to_num(shown), plan.propensity.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(plan.plot(models=plan.models[:2]).images[0].get_array(), shown[:2, :2])


# --- who the best are, and whether the budget is enough ---------------------------------------------------------------


def test_top_has_the_differences_that_decide_who_the_best_are(mu):
    models, scores = list("abcde"), np.array([0.5, 0.9, 0.3, 0.8, 0.4])
    above = np.zeros((5, 5), dtype=bool)
    # b and d are above e; b, d and a are above c, so that c is not among the best three, and e may be.
    above[[1, 3, 1, 3, 0], [4, 4, 2, 2, 2]] = True
    top = Goal(top=3, above=above)
    rows, labels = top.contrasts_of(models, scores)
    assert labels == ("a - b", "a - d", "b - d", "a - e")
    np.testing.assert_array_equal(rows[-1], [1, 0, 0, 0, -1])
    assert "besides b, d and a, which have the highest scores, e may be among them" in top.remark(models, scores)
    above[0, 4] = True
    of_scores = Goal(top=3).contrasts_of(models, scores)[1]
    assert top.contrasts_of(models, scores)[1] == of_scores == ("a - b", "a - d", "b - d")
    assert top.remark(models, scores) == "It is decided that the best 3 models are b, d and a."
    plan = dr.design(mu, "bt", budget=90, top=2)
    assert "The best 2 models are taken to be those with the highest scores" in " ".join(str(plan).split())


def test_a_plan_from_a_fit_decides_who_the_best_are():
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    res = dr.dml_rank(FORMULA, battles, context="question_id", functional="bt", rng=0)
    plan = res.design(500, top=3)
    open_models = [name for name in res.best_set(3) if name not in set(res.params.nlargest(3).index)]
    labels = plan.goal.targets[1]
    assert open_models
    assert {label.split(" - ")[1] for label in labels[3:]} == set(open_models)
    narrow = res.design(500, contrasts=list(labels[:3]))
    assert (plan.predicted(list(labels[3:]))["std_error"] < narrow.predicted(list(labels[3:]))["std_error"]).all()
    assert "not decided which 3 models are the best" in " ".join(str(plan).split())


def test_top_one_decides_first_place_by_the_test_of_first_place(mu):
    battles = dr.datasets.simulate_arena(n=2400, rng=3)
    res = dr.dml_rank(FORMULA, battles, functional="bt", rng=0)
    plan = res.design(500, top=1)
    leader, rival = res.params.nlargest(2).index
    assert plan.goal.targets[1] == (f"{leader} - {rival}",)
    text, of_fit = (" ".join(str(one).split()) for one in (plan, res.summary()))
    assert f"First place is not decided: {leader} has the highest score" in text
    assert f"the closest other model, {rival}." in text
    assert "(test of first place); deciding first place needs about " in text
    wanted = float(text.split("first place needs about ")[1].split()[0].replace(",", ""))
    of_summary = float(of_fit.split("told apart. About ")[1].split()[0].replace(",", ""))
    # Planned labels are worth more than further votes on the pairs of both models, but the test is the same.
    assert 0.5 * of_summary < wanted < of_summary
    assert plan.power(leader, rival, method="none") < 0.8
    above = np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]], dtype=bool)
    with pytest.raises(OptionError, match="first, and this is decided: b is above"):
        Goal(top=1, above=above).contrasts_of(list("abc"), np.array([0.1, 0.9, 0.5]))
    alone = dr.design(mu, "bt", budget=90, top=1)
    assert len(alone.goal.targets[0]) == 3
    assert "differences of model_" in " ".join(str(alone).split())
    with pytest.raises(OptionError, match="from 1 to 4"):
        dr.design(mu, "bt", budget=90, top=0)


def test_a_plan_from_a_fit_says_why_its_predictions_may_not_hold():
    battles = dr.datasets.simulate_arena(n=400, rng=0).assign(prompt=lambda d: np.arange(len(d)) % 12)
    with pytest.warns(dr.DmlrankWarning):
        few = dr.dml_rank(FORMULA, battles, **in_objects(BY_COUNTS))
    text = " ".join(str(few.design(200)).split())
    first = text.split("[1]")[1].split("[2]")[0]
    assert f"intervals may not hold for these data ({len(few.diagnostics.doubts)} warning" in first
    assert "prompts have votes already, and labels of the same prompt are taken as independent" in first
    with pytest.warns(dr.DmlrankWarning):
        by_share = few.update(functional="borda")
    assert "Weights of pairs are held at the present counts" in " ".join(str(by_share.design(200)).split())
    battles, options = dr.datasets.simulate_arena(n=2400, rng=0), {"functional": "bt", "rng": 0, "min_labels": 1}
    sure = dr.dml_rank("winner ~ length | model_a + model_b", battles, **in_objects(options))
    prompts = pd.DataFrame({"length": np.linspace(-1, 1, 50)})
    text = " ".join(str(sure.design(200, newdata=prompts)).split())
    assert "have votes already" not in text
    assert "held at the present counts" not in text
    assert "Pairs have equal weights" not in text
    assert "edge_weights='counts') needs fewer labels" in " ".join(str(sure.design(200, top=2)).split())
    assert ("may not hold for these data" in text) == bool(sure.diagnostics.doubts)


def test_the_uniform_plan_of_a_summary_costs_as_much_as_the_plan(mu):
    plan = dr.design(mu, "borda", budget=1e6, contrasts=["model_0 - model_1"])
    assert plan.slack
    assert plan.expected_cost < 0.9 * plan.problem.total_cost
    assert f"the uniform plan has {plan.expected_cost / 6:,.1f} labels of each pair" in " ".join(str(plan).split())


class OneOrder(Functional):
    """A functional of a user that reads the pairs (j, k) with j < k alone."""

    name = "one_order"
    interior = False

    def value(self, mu):
        first, second = np.triu_indices(mu.shape[1], 1)
        signs = np.zeros((len(first), mu.shape[1]))
        signs[np.arange(len(first)), first], signs[np.arange(len(first)), second] = 1, -1
        return mu[:, first, second, 0] @ signs

    def derivative(self, mu, delta):
        return self.value(delta)


def test_a_functional_of_one_display_order_has_fits_and_plans_of_ordered_pairs_alone(mu):
    votes = dr.datasets.simulate_arena(n=300, rng=0)
    for call in (
        lambda: dr.design(mu, OneOrder(), budget=30, position_bias=False),
        lambda: dr.dml_rank("winner ~ 1 | model_a + model_b", votes, OneOrder(), position_bias=False),
    ):
        with pytest.raises(OptionError, match="reads the two display orders of a pair in different ways"):
            call()
    assert dr.design(mu, OneOrder(), budget=30).propensity[:, 3, 0].max() < 0.1
    of_both = dr.design(mu, Custom(OneOrder().value, interior=False), budget=30, position_bias=False)
    assert of_both.expected_cost == pytest.approx(30)


BY_COUNTS = {"functional": "bt", "edge_weights": "counts", "context": "prompt", "min_labels": 1, "rng": 0}


def voted(rng, skill, first, second, prompt):
    """Votes on pairs of models from their skills."""
    names = np.array([f"m{j:02d}" for j in range(len(skill))])
    wins = rng.random(len(first)) < expit(skill[first] - skill[second])
    columns = {"prompt": prompt, "model_a": names[first], "model_b": names[second]}
    return pd.DataFrame(columns | {"winner": np.where(wins, "model_a", "model_b")})


@pytest.mark.parametrize("ordered", [False, True])
def test_weights_by_counts_follow_the_labels_of_the_plan(ordered):
    """Labels for one difference are bought on its own pair, and a fit of all labels is as precise as predicted."""
    rng, skill = np.random.default_rng(3), np.linspace(0.6, -0.6, 12)
    votes = voted(rng, skill, *two_of(rng, 12, 3000), [f"old-{i}" for i in range(3000)])
    options = in_objects({"position_bias": ordered, **BY_COUNTS})
    res = dr.dml_rank(FORMULA, votes, **options)
    pair = tuple(res.params.nlargest(2).index)
    plan = res.design(1500, contrasts=[pair])
    # The uniform plan beside it has weights of its own, those of half as many labels again.
    uniform, present = plan.predicted(pair)["uniform_std_error"].item(), res.t_test(pair).sd.item()
    assert uniform == pytest.approx(present / np.sqrt(1.5), rel=0.1)
    rows = plan.sample(0).dropna(subset="propensity")
    assert (rows["model_a"].isin(pair) & rows["model_b"].isin(pair)).mean() > 0.5
    places = [rows[side].str[1:].astype(int).to_numpy() for side in ("model_a", "model_b")]
    new = voted(rng, skill, *places, [f"new-{i}" for i in range(len(rows))])
    realised = dr.dml_rank(FORMULA, pd.concat([votes, new]), **options).t_test(pair).sd.item()
    assert plan.predicted(pair)["std_error"].item() == pytest.approx(realised, rel=0.05)
    # No other plan of this cost is better, such as one for the pair alone; a few labels are on their pair, too.
    few = res.design(60, contrasts=[pair])
    a, b = sorted(res.models.index(name) for name in pair)
    labels = few.problem.expected_labels(few.propensities)
    assert labels[a, b] + (labels[b, a] if ordered else 0) > 0.8 * 60
    assert few.power(*pair) < plan.power(*pair)
    tables = plan.problem.mu[:1]
    np.testing.assert_allclose(plan.at(np.asarray(tables))[0], plan.propensity[0], rtol=1e-6, atol=1e-12)
    # A fit of all rows joins the labels of a pair, on old and new prompts.
    further = res.design(1500, contrasts=[pair], newdata=pd.DataFrame({"prompt": [f"next-{i}" for i in range(3000)]}))
    said = " ".join(str(further).split())
    assert further.predicted(pair)["std_error"].item() == pytest.approx(realised, rel=0.05)
    figures = re.search(r"([\d.]+) from the fit, ([\d.]+) from one fit of all rows \(", said)
    assert [float(figure) for figure in figures.groups()] == pytest.approx([present, realised], rel=0.05)
    assert "standard error is larger than that of the fit" not in said
    # Where labels make an error larger than that of the fit, a plan for the fit's own prompts says so, too.
    goal = replace(plan.goal, earlier=plan.goal.earlier / 9)
    less = replace(plan, goal=goal)
    assert "larger than that of the fit without the planned labels" in " ".join(str(less).split())
    with pytest.raises(OptionError, match="weights pairs by its own labels"):
        res.design(1500, contrasts=[pair], from_scratch=True).regret(np.asarray(tables))


def test_the_smallest_budget_has_the_weights_of_its_own_labels():
    rng = np.random.default_rng(3)
    votes = voted(rng, np.linspace(0.6, -0.6, 6), *two_of(rng, 6, 900), np.arange(900))
    res = dr.dml_rank(FORMULA, votes, **in_objects({"position_bias": False, **BY_COUNTS}))
    plan = res.design(60)
    # The second differs by much in the weights that it has from those of its own budget.
    found = plan.for_width(0.7 * plan.predicted()["width"].max())
    assert found.objective == pytest.approx(res.design(found.budget).objective, rel=1e-3)
    assert found.predicted()["width"].max() == pytest.approx(0.7 * plan.predicted()["width"].max(), rel=1e-3)


def unequal_arena(seed, n=300):
    """Return votes on five models of very unequal skill and numbers of votes."""
    rng = np.random.default_rng(seed)
    skill = 2 * rng.normal(size=5)
    first = rng.choice(5, size=n, p=rng.dirichlet(np.full(5, 1.5)))
    return voted(rng, skill, first, (first + rng.integers(1, 5, size=n)) % 5, np.arange(n))


@pytest.mark.parametrize(("ordered", "criterion"), [(False, "A"), (True, "A"), (False, "D")])
@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_other_labels_are_better_where_weights_follow_counts(ordered, criterion, new, seed):
    """A general optimiser over the labels of each pair, by which pairs are weighted, finds no better plan."""
    votes, budget = unequal_arena(seed), 150
    with collected_warnings():
        res = dr.dml_rank(FORMULA, votes, **in_objects({"position_bias": ordered, **BY_COUNTS}))
    best, second, third = res.params.nlargest(3).index
    prompts = {"newdata": pd.DataFrame({"prompt": np.arange(250)})} if new else {}
    options = {"criterion": criterion, "one_pair": not ordered, "contrasts": [(best, second), (best, third)]}
    plan = res.design(budget, **options, **prompts)
    planned, rows = plan.problem, plan.goal.rows
    first, last, n, k = planned.first, planned.second, planned.n_contexts, 5
    ends = np.eye(k)[first] - np.eye(k)[last]
    names = pd.Index(res.models)
    counts = np.zeros((k, k))
    np.add.at(counts, (names.get_indexer(votes["model_a"]), names.get_indexer(votes["model_b"])), 1)
    before = (counts + counts.T)[first, last] / (2 if ordered else 1)
    # Prompts of a fold have the same probabilities. Log-odds of a pair are the mean over its two orders.
    mu = np.clip(np.asarray(planned.mu[:])[:, first, last], planned.floor, 1 - planned.floor)
    variance = planned.count @ (1 / (mu[..., 0] * mu[..., 1])) / n / (4 if ordered else 1)

    def objective(labels):
        joined = np.zeros((k, k))
        joined[first, last] = before + labels
        weight = (joined + joined.T)[first, last]
        directions = rows @ np.linalg.pinv(ends.T @ (weight[:, None] * ends)) @ (ends.T * weight)
        directions *= 2 if ordered else 1
        covariance = n * (directions * variance / (before + labels)) @ directions.T
        return np.trace(covariance) if criterion == "A" else np.linalg.slogdet(covariance)[1]

    least, found = plan.smallest_propensity * n, []
    rng, limits = np.random.default_rng(0), {"type": "eq", "fun": lambda labels: labels.sum() - budget}
    for _ in range(4):
        start = least + rng.dirichlet(np.ones(len(first))) * (budget - least * len(first))
        bounds = [(least, n)] * len(first)
        found.append(minimize(objective, start, bounds=bounds, constraints=limits, method="SLSQP").fun)
    value = plan.goal.objective
    labels = planned.expected_labels(plan.propensities)[first, last]
    even = np.full(len(first), budget / len(first))
    assert value(plan.sigma) == pytest.approx(objective(labels), rel=0.01)
    assert value(plan.uniform_sigma) == pytest.approx(objective(even), rel=0.01)
    assert value(plan.sigma) < value(plan.uniform_sigma)
    assert objective(labels) <= min(found) + 1e-3 * (min(found) if criterion == "A" else 1)


def test_weights_by_counts_are_held_where_a_pair_has_a_label_for_every_prompt():
    """With five prompts and up to 60 labels of a pair, no propensity says what further labels add."""
    rng, pair = np.random.default_rng(5), ("m00", "m01")
    votes = voted(rng, np.array([0.4, 0.2, -0.2, -0.4]), *two_of(rng, 4, 900), rng.integers(5, size=900))
    with pytest.warns(dr.DmlrankWarning):
        res = dr.dml_rank(FORMULA, votes, **in_objects({"position_bias": False, **BY_COUNTS}))
    plan = res.design(12, contrasts=[pair])
    assert plan.propensity.min() >= 0
    assert plan.propensity.max() <= 1
    precision = plan.predicted(pair)
    assert (precision["std_error"] <= precision["uniform_std_error"] * (1 + 1e-9)).all()
    text = " ".join(str(plan).split())
    assert "Weights of pairs are held at the present counts" in text
    assert "The plan is for further labels on the same 5 prompts" in text


def test_the_summary_says_whether_the_budget_is_enough(mu, monkeypatch):
    table = np.tile(mu, (40, 1, 1, 1))
    plan = dr.design(table, "bt", budget=60, contrasts=[("model_0", "model_1"), ("model_1", "model_3")])
    powers = [plan.power("model_0", "model_1"), plan.power("model_1", "model_3")]
    assert min(powers) < 0.8 < max(powers)
    text = " ".join(str(plan).split())
    assert "With 60 labels, 1 of 2 differences will be found with power 0.80 or more" in text
    enough = plan.for_power("model_0", "model_1").expected_cost
    for size in (problem.SAMPLE_SIZE, 500):
        monkeypatch.setattr(problem, "SAMPLE_SIZE", size)
        text = " ".join(str(plan).split())
        named = float(text.split("all at once need about ")[1].split()[0].replace(",", ""))
        assert named == pytest.approx(enough, rel=0.15 if size == 500 else 0.06)
    few = dr.design(mu, "bt", budget=40, contrasts=("model_1", "model_2"))
    alone = few.smallest_gap("model_1", "model_2", method="none")
    said = f"(it takes at least {alone:.3f} tested alone); all labels that these prompts "
    assert f"{said}allow are too few for it, so more" in " ".join(str(few).split())
    equal = dr.design(np.where(mu > 0, 1 / mu.shape[3], 0.0), budget=40, contrasts=[("model_0", "model_1")])
    alone = equal.smallest_gap("model_0", "model_1", method="none")
    said = f"with power 0.80 if it is at least {alone:.3f} tested alone."
    assert f"estimated as zero is found {said}" in " ".join(str(equal).split())
    others = dr.design(mu, budget=400), dr.design(mu, budget=40, contrasts="model_0 - 2*model_1")
    assert not any("power" in str(other) for other in others)


@pytest.fixture(scope="module")
def leads():
    """A plan for first place in which each of four leads has a power above .80; rates of wins."""
    skill = 0.6 * np.array([0.75, 0.1, 0.05, 0.0, -0.1])
    wins = expit(skill[:, None] - skill)
    np.fill_diagonal(wins, 0)
    mu = np.tile(np.stack([wins, wins.T], axis=2), (1500, 1, 1, 1))
    return dr.design(mu, "borda", budget=900, top=1, position_bias=False), wins


def promised_for_first_place(plan):
    said = (
        r"4 of 4 differences will be found with power 0.80 or more, first place \(model_0 above all 4 others at once\) "
    )
    return re.search(rf"{said}with power (0\.\d\d), .* needs about ([\d,]+) labels", " ".join(str(plan).split()))


def test_the_power_of_first_place_is_that_of_all_leads_at_once(leads):
    plan, _ = leads
    named = promised_for_first_place(plan)
    needed = int(named[2].replace(",", ""))
    more = solve(dr.planning.Plan, plan.problem, plan.goal, replace(plan.limits, budget=needed))
    for of_plan, power, within in ((plan, float(named[1]), 0.015), (more, 0.8, 0.02)):
        scores, sigma = plan.goal.scores, of_plan.sigma / len(plan.contexts)
        drawn = np.random.default_rng(0).multivariate_normal(scores, sigma, size=20_000)
        errors = np.sqrt(sigma[0, 0] + np.diag(sigma)[1:] - 2 * sigma[0, 1:])
        z = (drawn[:, :1] - drawn[:, 1:]) / errors
        assert (z > norm.isf(0.025)).mean(axis=0).min() > power + 0.03
        assert (z > norm.isf(0.025)).all(axis=1).mean() == pytest.approx(power, abs=within)

"""A search over many rows ends when the optimality conditions nearly hold, close to the smallest criterion."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.planning import problem, search
from dmlrank.planning.allocation import kkt_residual


def test_a_slow_search_ends_near_the_smallest_criterion(monkeypatch):
    battles = dr.datasets.simulate_arena(n=4000, rng=0)
    fit = dr.dml_rank(
        "winner ~ length | model_a + model_b", battles, functional="rank_centrality", context="question_id", rng=0
    )
    monkeypatch.setattr(problem, "SAMPLE_SIZE", 330)
    steps, allocate = [], search.allocate
    monkeypatch.setattr(search, "allocate", lambda *args, **options: steps.append(1) or allocate(*args, **options))
    exact = fit.design(1000)
    n_exact = len(steps)
    monkeypatch.setattr(problem.VoteProblem, "cell_type", property(lambda _: np.float32))
    near = fit.design(1000)
    assert len(steps) < 2 * n_exact
    of_plan, goal = near.problem, near.goal
    rates = of_plan.cell_rates(goal.metric(near.labelling, of_plan.between))
    least = of_plan.least(near.limits)
    # The search ends at a bound on the violation, which takes no pass over the probabilities.
    residual = kkt_residual(of_plan, rates, least, (near.propensities, near.multiplier, None))
    assert 1e-5 < residual < near.kkt_residual <= 0.03
    values = [np.trace(goal.sigma(plan.labelling, of_plan.between)) for plan in (near, exact)]
    assert values[0] == pytest.approx(values[1], rel=2e-4)

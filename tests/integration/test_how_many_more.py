"""How many more labels: one definition, one number, whether the summary or a plan is asked."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

from ..support import FORMULA, two_of, votes_of

MODELS = np.array(["a", "b", "c", "d"])


def votes(n, gap, seed):
    """One vote a prompt on a random ordered pair; a is ``gap`` log-odds better than b, the others are far behind."""
    rng = np.random.default_rng(seed)
    skill = np.array([gap, 0.0, -0.8, -1.2])
    first, second = two_of(rng, 4, n)
    wins = rng.random(n) < expit(skill[first] - skill[second])
    return votes_of(MODELS, first, second, wins, question_id=[f"q{seed}-{i}" for i in range(n)])


def fit(rows, **options):
    given = {"context": "question_id", "functional": "bt", "rng": 0, "propensity": "marginal", "min_labels": 5}
    return dr.dml_rank(FORMULA, rows, **in_objects(given | options))


@pytest.fixture(scope="module")
def result():
    return fit(votes(1200, 0.1, 0))


@pytest.mark.parametrize("scale", [None, "elo"])
def test_a_fit_and_its_plan_say_the_same_of_a_difference(result, scale):
    res = result if scale is None else result.rescale(scale, mean=1000)
    row = res.t_test("a - b")
    for newdata in (None, votes(300, 0.1, 7)[["question_id"]]):
        plan = res.design(200, newdata=newdata)
        predicted = plan.predicted("a - b").iloc[0]
        # New prompts have the mean mu of all folds, whose bt scores are not the mean of the folds' scores, in which a
        # larger fold counts more.
        close = {"rel": 1e-9} if newdata is None else {"abs": 0.05 * row.sd.item()}
        assert predicted["score"] == pytest.approx(row.effect.item(), **close)
        assert predicted["std_error"] < row.sd.item()
        assert plan.power("a", "b") == plan.power("a", "b", difference=predicted["score"])
    np.testing.assert_allclose(res.design(200).predicted()["score"], res.params, rtol=1e-9)


def test_the_plan_differs_from_the_plug_in_as_the_fit_does():
    """With a learner that shrinks hard, the plug-in's difference is not the fit's; the plan's is."""
    rows = votes(600, 0.5, 3)
    even = np.broadcast_to(np.where(np.eye(4)[:, :, None] > 0, 0.0, 0.5), (600, 4, 4, 2))
    res = fit(rows, mu=np.ascontiguousarray(even))
    assert abs(np.diff(res.estimates.plugin[[res.names.index(name) for name in "ad"]])[0]) < 1e-9
    assert res.design(100).predicted("a - d")["score"].item() == pytest.approx(res.params["a"] - res.params["d"])


def test_summary_and_plan_agree_on_what_as_many_prompts_again_would_show(result):
    """The summary extrapolates the fit's standard error, the plan predicts: the same question, the same answer."""
    new = votes(1200, 0.1, 8)[["question_id"]]
    plan = result.design(1200, newdata=new, one_pair=True)
    first, second = result.params.nlargest(2).index
    again = result.sample_size()["smallest"].iloc[0] / np.sqrt(2)
    assert plan.smallest_gap(first, second, method="none") == pytest.approx(again, rel=0.12)
    assert plan.power(first, second, difference=again, method="none") == pytest.approx(0.8, abs=0.1)
    # The critical value is the summary's: that of the test of first place.
    gap, error = plan.smallest_gap(first, second, method="none"), plan.predicted((first, second))["std_error"].item()
    assert gap / error - 0.8416 == pytest.approx(1.96, rel=0.03)
    labels = plan.for_power(first, second, difference=again, method="none").expected_cost
    assert labels == pytest.approx(1200, rel=0.3)


def number(text, pattern):
    return int(re.search(pattern, text)[1].replace(",", ""))


def test_verdicts_of_a_judge_are_counted():
    rows = votes(800, 0.3, 4)
    rows["verdict"] = rows["winner"]
    rows.loc[::2, "winner"] = None
    human, judged = fit(rows), fit(rows, judge="verdict")
    assert (judged.bse < human.bse).all()
    assert (judged.design(200).std_errors < human.design(200).std_errors).all()


def test_a_plan_spends_where_the_fit_knows_least():
    """Half of all votes are on a and b already: a plan for all scores that knows them labels other pairs more."""
    rows = pd.concat([votes(600, 0.3, 5), votes(4000, 0.3, 6).query("model_a in ['a', 'b'] and model_b in ['a', 'b']")])
    res = fit(rows)
    labels = [plan.propensity.sum(axis=0) for plan in (res.design(300), res.design(300, from_scratch=True))]
    share = [(table[0, 1] + table[1, 0]) / table.sum() for table in labels]
    assert share[0] < 0.7 * share[1]


@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("own", [True, False])
def test_the_plan_is_optimal_for_all_labels_together(result, criterion, own):
    """No plan nearby does better for the covariance of the combined estimate."""
    newdata = None if own else votes(400, 0.1, 9)[["question_id"]]
    plan = result.design(400, criterion=criterion, newdata=newdata)
    assert plan.kkt_residual < 1e-4
    goal, rng = plan.goal, np.random.default_rng(0)

    def objective(labelling):
        return goal.objective(goal.sigma(labelling, plan.problem.between))

    best = objective(plan.problem.labelling_covariance(plan.propensities[:]))
    assert best == pytest.approx(plan.objective, rel=1e-9)
    for _ in range(10):
        other = plan.propensities[:] * np.exp(0.3 * rng.normal(size=plan.propensities[:].shape[1]))
        other = np.clip(other * plan.expected_cost / plan.problem.expected_cost(other), 1e-6, 1)
        assert objective(plan.problem.labelling_covariance(other)) > best

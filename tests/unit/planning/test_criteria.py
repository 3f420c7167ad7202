"""Plans that add labels to a fit whose labels depend on each other in clusters."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import t as student

import dmlrank as dr
from dmlrank.options import in_objects
from dmlrank.planning.criteria import Goal
from dmlrank.planning.solution import covariance_of

from ...support import two_of, votes_of

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


def drawn(seed, kinds=3, kind="A"):
    """A goal with covariances that are drawn: between contexts, of the fit's labels, and of those of a plan."""
    rng = np.random.default_rng(seed)
    between, of_labels, dependence, labelling = (
        part @ part.T for part in rng.normal(size=(4, kinds, kinds)) * np.array([0.3, 1, 1, 2])[:, None, None]
    )
    goal = Goal(kind, earlier=between + of_labels + dependence, dependence=dependence, rows=np.eye(kinds))
    return goal, between, of_labels, labelling


def test_one_fit_weights_labels_as_if_they_were_independent():
    goal, between, of_labels, labelling = drawn(0, 1)
    weight = labelling / (of_labels + labelling)
    expected = between + weight**2 * (of_labels + goal.dependence) + (1 - weight) ** 2 * labelling
    np.testing.assert_allclose(goal.sigma(labelling, between), expected, rtol=1e-12)
    np.testing.assert_allclose(goal.sigma_without_plan(between), goal.earlier, rtol=1e-12)


@pytest.mark.parametrize("kind", ["A", "D"])
def test_the_metric_is_the_derivative_of_the_objective(kind):
    goal, between, _, labelling = drawn(1, kind=kind)
    step = np.random.default_rng(2).normal(size=(3, 3))
    step, h = step @ step.T, 1e-5
    after, before = (goal.objective(goal.sigma(labelling + move, between)) for move in (h * step, -h * step))
    slope = np.trace(goal.metric(labelling, between) @ step)
    np.testing.assert_allclose(slope, (after - before) / (2 * h), rtol=1e-6)


def votes(n, raters, rng):
    """Votes on three models; raters have tastes of their own."""
    taste, rater = rng.normal(0, 0.8, (len(raters), 3)), rng.integers(len(raters), size=n)
    first, second = two_of(rng, 3, n)
    gap = (np.array([0.3, 0.0, -0.3]) + taste[rater])[np.arange(n)[:, None], np.stack([first, second], axis=1)]
    won = rng.random(n) < expit(gap[:, 0] - gap[:, 1])
    return votes_of(["a", "b", "c"], first, second, won, rater=np.array(raters)[rater])


def test_refits_have_the_standard_errors_that_a_plan_predicts():
    """New labels by new raters are independent, and those of the fit are not."""
    rng = np.random.default_rng(3)
    options = {"functional": "bt", "rng": 0, "cov_type": "cluster", "cov_kwds": {"groups": "rater"}, "n_jobs": 1}
    options |= {"position_bias": False, "propensity": "marginal"}
    formula = "winner ~ 1 | model_a + model_b"
    old = votes(3000, [f"r{k}" for k in range(60)], rng)
    res = dr.dml_rank(formula, old, **in_objects(options))
    n_new = 1500
    uniform = res.design(n_new, contrasts=[("a", "c")]).predicted(("a", "c"))["uniform_std_error"].item()
    errors = []
    for _ in range(5):
        new = votes(n_new, [f"n{k}" for k in range(200_000)], rng)
        new = new.assign(rater=[f"n{k}" for k in range(n_new)])
        contrast = dr.dml_rank(formula, pd.concat([old, new], ignore_index=True), **in_objects(options)).t_test("a - c")
        errors.append(float(contrast.sd[0]))
    assert float(res.t_test("a - c").sd[0]) > 1.3 * np.mean(errors)
    assert uniform == pytest.approx(np.mean(errors), rel=0.05)


@pytest.mark.parametrize(("functional", "own", "n_raters"), [("bt", True, 25), ("borda", False, 12), ("bt", False, 60)])
def test_widths_have_the_quantiles_of_the_fit_of_all_labels(functional, own, n_raters):
    """Few raters of the fit and many new ones: degrees of freedom, and widths with them, are those of a refit."""
    rng, n_new = np.random.default_rng(3), 600
    options = {"functional": functional, "rng": 0, "cov_type": "cluster", "cov_kwds": {"groups": "rater"}, "n_jobs": 1}
    options |= {"position_bias": False, "propensity": "marginal", "context": "prompt"}
    formula = "winner ~ 1 | model_a + model_b"
    old = votes(1500, [f"r{k}" for k in range(n_raters)], rng)
    old["prompt"] = [f"o{i}" for i in range(len(old))]
    res = dr.dml_rank(formula, old, **in_objects(options))
    prompts = pd.DataFrame({"prompt": [f"n{i}" for i in range(n_new)]})
    plan = res.design(n_new) if own else res.design(n_new, newdata=prompts, one_pair=True)
    df, widths = [], []
    for _ in range(3):
        new = votes(n_new, [f"n{k}" for k in range(200_000)], rng).assign(prompt=prompts, rater=prompts)
        both = dr.dml_rank(formula, pd.concat([old, new], ignore_index=True), **in_objects(options))
        df.append(both.estimates.covariance.of_scores)
        widths.append(np.ptp(both.conf_int(), axis=1))
    predicted = covariance_of(plan, uniform=True)
    assert (predicted.of_scores > 1.01 * res.estimates.covariance.of_scores).all()
    np.testing.assert_allclose(predicted.of_scores, np.mean(df, axis=0), rtol=0.08)
    np.testing.assert_allclose(plan.predicted()["uniform_width"], np.mean(widths, axis=0), rtol=0.05)


@pytest.mark.parametrize("functional", ["bt", "borda"])
def test_widths_of_few_prompts_have_quantiles_of_student(functional):
    ties = dr.datasets.Ties()
    few = dr.design(ties.mu(ties.features(40, rng=0)), functional, budget=200).predicted(method="none")
    ratio = few["width"] / few["std_error"]
    np.testing.assert_allclose(
        ratio, 2 * np.sqrt(40 / 39) * student.isf(0.025, 39), rtol=1e-9 if functional == "bt" else 0.05
    )

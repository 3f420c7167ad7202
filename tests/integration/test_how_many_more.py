"""How many more labels: one definition, one number, whether the summary or a plan is asked."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import OptionError
from dmlrank.options import in_objects

from ..support import simulated_votes

FORMULA = "winner ~ 1 | model_a + model_b"
MODELS = np.array(["a", "b", "c", "d"])


def votes(n, gap, seed):
    """One vote a prompt on a random ordered pair; a is ``gap`` log-odds better than b, the others are far behind."""
    rng = np.random.default_rng(seed)
    skill = np.array([gap, 0.0, -0.8, -1.2])
    first = rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    wins = rng.random(n) < expit(skill[first] - skill[second])
    return pd.DataFrame(
        {
            "question_id": [f"q{seed}-{i}" for i in range(n)],
            "model_a": MODELS[first],
            "model_b": MODELS[second],
            "winner": np.where(wins, "model_a", "model_b"),
        }
    )


def fit(rows, **options):
    given = {"context": "question_id", "functional": "bt", "rng": 0, "propensity": "marginal", "min_labels": 5}
    return dr.dml_rank(FORMULA, rows, **in_objects(given | options))


def claimed(result):
    """The gaps that the summary names: with these prompts, as many more, nine times as many more; None if decided."""
    text = " ".join(result.explain().split())
    found = re.search(
        r"power 0\.80 is ([\d.]+) with these [\d,]+ prompts, ([\d.]+) with [\d,]+ more and ([\d.]+) with [\d,]+ more",
        text,
    )
    return None if found is None else np.array([float(number) for number in found.groups()])


@pytest.fixture(scope="module")
def result():
    return fit(votes(1200, 0.1, 0))


@pytest.mark.long
def test_the_claim_holds_where_the_true_z_is_one():
    """At a true z of one the claims hardly vary, and gaps of that size are shown as often as they say."""
    n = 500
    claims = [claimed(fit(votes(n, 0.22, seed))) for seed in range(16)]
    claims = np.array([claim for claim in claims if claim is not None])
    assert len(claims) > 10
    # The gap that the estimated difference needs more prompts for ranges over orders of magnitude; the claim does not.
    assert (claims.max(axis=0) / claims.min(axis=0) < 1.4).all()
    gap = claims[:, 1].mean()
    said = [fit(votes(2 * n, gap, 1000 + seed)).verdict() for seed in range(40)]
    shown = [
        re.search("place is decided: a|a is first if this is the only question", text) is not None for text in said
    ]
    assert 0.80 - 0.15 < np.mean(shown) < 0.80 + 0.15


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
    again = claimed(result)[1]
    assert plan.smallest_gap(first, second, method="none") == pytest.approx(again, rel=0.12)
    assert plan.power(first, second, difference=again, method="none") == pytest.approx(0.8, abs=0.1)
    # The critical value is the summary's: that of the test of first place.
    gap, error = plan.smallest_gap(first, second, method="none"), plan.predicted((first, second))["std_error"].item()
    assert gap / error - 0.8416 == pytest.approx(1.96, rel=0.03)
    labels = plan.for_power(first, second, difference=again, method="none").expected_cost
    assert labels == pytest.approx(1200, rel=0.3)


@pytest.mark.long
def test_labels_already_bought_are_counted(result):
    own = result.design(0.01)
    np.testing.assert_allclose(own.std_errors, result.bse, rtol=1e-3)
    more, alone = result.design(300), result.design(300, from_scratch=True)
    assert (more.std_errors < result.bse).all()
    assert (more.std_errors < alone.std_errors).all()
    first, second = result.params.nlargest(2).index
    wanted = {"difference": claimed(result)[0] * 0.8, "method": "none"}
    assert more.for_power(first, second, **wanted).budget < alone.for_power(first, second, **wanted).budget
    with pytest.raises(OptionError):
        more.for_power(first, second, difference=claimed(result)[0] * 1.05, method="none")
    with pytest.raises(OptionError, match="from_scratch=True"):
        more.regret(np.zeros((1200, 4, 4, 2)))


@pytest.mark.parametrize(("n_new", "budget"), [(300, 500), (1200, 300)])
def test_a_plan_for_new_prompts_predicts_the_fit_of_all_rows(n_new, budget):
    """One fit of all rows with the propensity of each round weights every prompt equally, also where labels are few."""
    rng, old = np.random.default_rng(1), votes(800, 0.3, 11).assign(propensity=1 / 12)
    options = {"propensity": "propensity", "min_labels": 1}
    res = fit(old, **options)
    prompts = votes(n_new, 0.3, 12)[["question_id"]]
    plan, alone = (res.design(budget, newdata=prompts, from_scratch=scratch) for scratch in (False, True))
    share = n_new / (n_new + 800)
    together = (1 - share) ** 2 * res.cov_params() + share**2 * alone.cov_params()
    np.testing.assert_allclose(plan.cov_params(), together, atol=1e-9)
    said = r"error of (\w): ([\d.]+) from the new prompts alone, ([\d.]+) together .* own round \(the fit: ([\d.]+)\)"
    model, *errors = re.search(said, " ".join(str(plan).split())).groups()
    stated = [alone.std_errors[model], plan.std_errors[model], res.bse[model]]
    np.testing.assert_allclose(np.array(errors, dtype=float), stated, atol=6e-4)
    drawn = plan.sample(rng=2)
    skill = pd.Series([0.3, 0.0, -0.8, -1.2], index=MODELS)
    wins = rng.random(len(drawn)) < expit(drawn["model_a"].map(skill) - drawn["model_b"].map(skill))
    drawn["winner"] = np.where(drawn["model_a"].isna(), None, np.where(wins, "model_a", "model_b"))
    both = fit(pd.concat([old, drawn]), **options)
    np.testing.assert_allclose(plan.std_errors, both.bse, rtol=0.15)
    is_worse = bool((plan.std_errors > res.bse).any())
    assert is_worse == (n_new > 1000)
    assert ("mixture_propensity" in str(plan)) == is_worse


def number(text, pattern):
    return int(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
def test_numbers_say_what_they_count_and_few_prompts_give_none():
    """By annotators and by votes the same votes are wanted; a plan's labels are said to be another number."""
    rows = simulated_votes(12, 3000, seed=4)
    rows["person"], rows["prompt"] = np.arange(3000) % 100, np.random.default_rng(0).integers(12, size=3000)
    plain = fit(rows, context=None)
    of_votes, of_persons, of_both, of_prompts = (
        " ".join(one.explain().split())
        for one in (
            plain,
            fit(rows, context=None, cov_type="cluster", cov_kwds={"groups": "person"}),
            fit(rows, context=None, cov_type="cluster", cov_kwds={"groups": ["person", "prompt"]}),
            fit(rows, context="prompt", min_labels=1),
        )
    )
    in_all = number(of_votes, r"as so far, it takes about ([\d,]+) independent votes in all \(3,000 so far\)")
    further = number(of_votes, r"About ([\d,]+) more independent votes on pairs with the leader")
    of_column = r"more votes on pairs with the leader [^,]*, from [\d,]+ further values of the column 'person', would "
    assert number(of_persons, rf"About ([\d,]+) {of_column}") == pytest.approx(further, rel=0.5)
    persons = number(
        of_persons, r"about ([\d,]+) independent values of the column 'person' in all \(100 so far; about 30 "
    )
    same = number(of_persons, r"votes of each, ([\d,]+) votes\)\.")
    assert same == pytest.approx(30 * persons, rel=0.05)
    assert same == pytest.approx(in_all, rel=0.5)
    for text, few in ((of_both, "12 values of the column 'prompt'"), (of_prompts, "12 prompts")):
        assert f"{few} are too few to say how many would decide it." in text
        assert "more independent votes" not in text
    plan = " ".join(str(plain.design(200, contrasts=dr.planning.Top(1))).split())
    asks = "another question than with equal weights, about opponents as often as met"
    by_counts = plain.update(edge_weights="counts")
    assert f"needs fewer labels for a few differences, but asks {asks}." in plan
    assert f"Pairs weigh as much as they have labels: {asks}, and with smaller" in " ".join(str(by_counts).split())
    assert asks not in " ".join(str(plain).split()) + " ".join(str(by_counts.design(200)).split())
    assert "weights by counts ask another question" in " ".join(str(dr.check(FORMULA, rows)).split())
    assert number(plan, r"place needs about ([\d,]+) further independent labels .*; the fit's summary ") < in_all
    plan = " ".join(str(fit(rows, context="prompt", min_labels=1).design(20, contrasts=dr.planning.Top(1))).split())
    assert "12 prompts are too few to say how many labels it takes to decide first place." in plan
    repeated = rows.assign(prompt=np.arange(3000) // 2)
    assert "on new prompts, would decide it" in " ".join(fit(repeated, context="prompt").verdict().split())


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
    specification, rng = plan.specification, np.random.default_rng(0)

    def objective(labelling):
        return specification.objective(specification.sigma(labelling))

    best = objective(specification.problem.labelling_covariance(plan.propensities[:]))
    assert best == pytest.approx(plan.objective, rel=1e-9)
    for _ in range(10):
        other = plan.propensities[:] * np.exp(0.3 * rng.normal(size=plan.propensities[:].shape[1]))
        other = np.clip(other * plan.expected_cost / specification.problem.expected_cost(other), 1e-6, 1)
        assert objective(specification.problem.labelling_covariance(other)) > best

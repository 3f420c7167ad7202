"""Plans and the estimator: what is predicted is what happens, and what is drawn can be estimated from."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, MissingDataError, OptionError

from ...support import chunks_of, simulated_votes, two_of, without_order

FUNCTIONALS = ("borda", "bt", "rank_centrality")
FORMULA = "winner ~ x0 + x1 | model_a + model_b"


@pytest.fixture(scope="module")
def label():
    def draw(rows, mu, rng):
        """Rows of a plan's sample with features of the context and labels, from probabilities (n, K, K, 3)."""
        rows = rows.astype({"model_a": object, "model_b": object}).assign(winner=None)
        known = rows["propensity"].notna()
        at = (rows.loc[known, "context"], *(rows.loc[known, c].str[-1].astype(int) for c in ("model_a", "model_b")))
        p = np.cumsum(mu[tuple(part.to_numpy() for part in at)], axis=1)
        names = np.array(["model_a", "model_b", "tie"], dtype=object)
        rows.loc[known, "winner"] = names[(rng.random((len(p), 1)) > p[:, :-1]).sum(axis=1)]
        return rows

    return draw


@pytest.fixture(scope="module")
def ties():
    return dr.datasets.Ties(coefficients=5)


def in_order(rows):
    """Contexts in order, so that ready probabilities are in the data's order of first appearance."""
    return rows.sort_values("context", kind="stable")


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize(("ordered", "one_pair"), [(False, True), (True, False)])
@pytest.mark.long
def test_predicted_standard_errors_are_those_of_the_estimator(ties, label, rank, functional, ordered, one_pair):
    """The package's own estimator with true nuisances: its covariance estimates what the plan predicted."""
    rng = np.random.default_rng(5)
    x = ties.features(4000, rng=rng)
    mu = ties.mu(x)
    plan = dr.design(mu, functional, budget=3000, position_bias=ordered, one_pair=one_pair, floor=0)
    rows = label(plan.sample(rng), mu, rng).assign(x0=lambda d: x[d["context"], 0], x1=lambda d: x[d["context"], 1])
    options = {"context": "context", "functional": functional, "mu": mu, "position_bias": ordered, "floor": 0}
    fits = [
        rank(rows, FORMULA, propensity=propensity, graph="complete", **options) for propensity in (plan, "propensity")
    ]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)
    np.testing.assert_allclose(fits[0].bse, plan.std_errors, rtol=0.15)
    truth = ties.truth(functional, n=200_000)
    assert (np.abs(fits[0].params - truth) < 4 * plan.std_errors).all()


@pytest.mark.long
def test_repeated_offers_need_the_probability_of_a_label_not_the_expected_number(ties, label, rank):
    """Borda with useless probabilities: what is left of the bias is that of the propensity."""
    rng = np.random.default_rng(6)
    x = ties.features(3000, rng=rng)
    mu = ties.mu(x)
    useless = np.where(mu > 0, 1 / 3, 0.0)
    plans = [dr.design(mu, budget=9000, n_jobs=1), dr.design(useless, budget=9000, n_jobs=1)]
    rows = pd.concat([label(plan.sample(rng), mu, rng) for plan in plans])
    rows = in_order(rows)
    truth = ties.truth("borda", n=200_000)
    errors = []
    for propensity in (
        dr.planning.repeated_propensity([p.propensity for p in plans]),
        sum(p.propensity for p in plans),
    ):
        fit = rank(rows, context="context", mu=useless, propensity=np.minimum(propensity, 1))
        errors.append(((fit.params - truth) / fit.bse).abs().max())
    assert errors[0] < 3.5
    assert errors[1] > 6


def arena(n, seed):
    """Votes on six models; the two best never met."""
    rng, names = np.random.default_rng(seed), np.array([f"m{j}" for j in range(6)])
    first, second = two_of(rng, 6, n)
    met = np.minimum(first, second) + np.maximum(first, second) > 1
    rows = pd.DataFrame({"model_a": names[first[met]], "model_b": names[second[met]]})
    return voted(rows, rng).assign(prompt=[f"o{i}" for i in range(met.sum())])


def voted(rows, rng):
    skill = pd.Series([0.3, 0.2, 0.1, 0.0, -0.2, -0.4], index=[f"m{j}" for j in range(6)])
    gap = rows["model_a"].map(skill) - rows["model_b"].map(skill)
    return rows.assign(winner=np.where(rng.random(len(rows)) < 1 / (1 + np.exp(-gap)), "model_a", "model_b"))


def test_a_plan_of_an_arena_is_for_the_leader_also_on_pairs_without_votes():
    """The later fit of all votes, with the pair that never met, is as precise as the plan predicts."""
    rng, options = np.random.default_rng(1), {"functional": "bt", "context": "prompt", "pairs": "arena", "rng": 0}
    old, formula = arena(1500, 0), "winner ~ 1 | model_a + model_b"
    res = dr.dml_rank(formula, old, **options)
    plan = res.design(600)
    text = " ".join(str(plan).split())
    assert "Votes count as in an arena, and the plan is for the leader against its rivals" in text
    assert "No votes compare m0 with m1: labels of a pair without votes are planned with the learner's" in text
    assert plan.propensity.sum(axis=0)[0, 1] > 0.3 * 600
    new = voted(plan.sample(rng).dropna(subset="propensity")[["model_a", "model_b"]], rng)
    both = pd.concat([old, new.assign(prompt=[f"n{i}" for i in range(len(new))])])
    after = dr.dml_rank(formula, both, **options)
    for contrast in ("m0 - m1", "m0 - m2"):
        assert plan.predicted(contrast)["std_error"].item() == pytest.approx(after.t_test(contrast).sd.item(), rel=0.03)
        assert after.t_test(contrast).sd.item() < 0.85 * res.t_test(contrast).sd.item()
    every = res.design(600, contrasts=res.models)
    assert every.goal.targets[1] == tuple(res.models)
    assert "as in an arena" not in str(every)
    # Where first place is decided, the plan is for all differences of the leader.
    far = arena(3000, 2)
    for side in ("model_a", "model_b"):
        far.loc[(far[side] == "m5") & (rng.random(len(far)) < 0.7), "winner"] = side
    decided = dr.dml_rank(formula, far, **options).design(300)
    assert decided.goal.targets[1] == tuple(f"m5 - m{j}" for j in range(5))
    # A model of few votes is a rival in neither case, also where it has the highest score.
    for votes, targets in ((old, plan.goal.targets[1]), (far, decided.goal.targets[1])):
        two = pd.DataFrame({"model_a": "new", "model_b": ["m3", "m4"], "winner": "model_a", "prompt": ["p", "q"]})
        with pytest.warns(dr.DmlrankWarning):
            fit = dr.dml_rank(formula, pd.concat([votes, two]), **options)
        assert fit.params.idxmax() == "new"
        assert "new (2 votes) has too few votes to be placed" in fit.verdict()
        assert fit.design(300).goal.targets[1] == targets
        assert fit.design(300, contrasts="new - m3").goal.targets[1] == ("new - m3",)


def test_a_plan_for_all_scores_that_separates_nothing_says_so_and_names_the_call_that_does():
    options = {"functional": "bt", "context": "prompt", "position_bias": False, "rng": 0}
    res = dr.dml_rank("winner ~ 1 | model_a + model_b", simulated_votes(8, 400, seed=1), **options)
    said = r"\[1\] With 100 labels, 0 of \d+ differences of models that the fit leaves open will be found .* With "
    said += r"contrasts=\('(\S+)', '(\S+)'\), 1 of 1 difference will be\."
    named = res.design(100, contrasts=re.search(said, " ".join(str(res.design(100)).split())).groups())
    assert "With 100 labels, 1 of 1 difference will be found" in " ".join(str(named).split())
    assert " 0 of" not in str(res.design(20_000))
    # A plan for first place is refused where this is decided.
    battles = dr.datasets.simulate_arena(n=3000, rng=0)
    decided = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, **(options | {"context": "question_id"}))
    said = str(decided.design(200))
    assert " 0 of 4 differences" in said
    assert "top=1" not in said


# --- from a fit ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(rank):
    battles = dr.datasets.Ties(5).sample(400, rng=0)
    return battles, rank(battles, FORMULA, context="question_id", functional="bt", tune=None, propensity="propensity")


def test_a_fit_plans_for_its_own_prompts_with_its_own_probabilities(fitted):
    battles, fit = fitted
    plan = fit.design(300, one_pair=True, from_scratch=True)
    steps = fit.steps
    mu = np.empty((400, 3, 3, 3))
    for contexts, table in chunks_of(steps.first.inputs.mu, 50):
        mu[contexts] = table
    floor = steps.first.inputs.floor
    expected = dr.design(mu, "bt", budget=300, one_pair=True, models=fit.models, floor=floor)
    np.testing.assert_allclose(plan.propensity, expected.propensity, rtol=1e-12)
    assert plan.contexts == battles["question_id"].drop_duplicates().tolist()
    assert plan.sample(0).columns.tolist() == ["question_id", "model_a", "model_b", "propensity"]
    assert plan.problem.functional is steps.setup.functional


def test_a_fit_plans_for_new_prompts(fitted):
    _, fit = fitted
    new = pd.DataFrame({"question_id": [f"n{i}" for i in range(50)]}).assign(
        x0=np.linspace(0, 1, 50), x1=np.linspace(1, 0, 50)
    )
    plan = fit.design(80, newdata=new, contrasts=("model_0", "model_1"), from_scratch=True)
    mu = fit.steps.first.inputs.mu.average(new[["x0", "x1"]].to_numpy())
    floor = fit.steps.first.inputs.floor
    expected = dr.design(mu, "bt", budget=80, contrasts=("model_0", "model_1"), floor=floor)
    np.testing.assert_allclose(plan.propensity, expected.propensity, rtol=1e-12)
    assert plan.contexts == new["question_id"].tolist()
    np.testing.assert_allclose(plan.at(new.iloc[5:9]), plan.propensity[5:9], rtol=1e-9)
    assert fit.design(80, newdata=new[["x0", "x1"]]).sample(0).columns[0] == "row"
    with pytest.raises(DataError):
        fit.design(80, newdata=new.assign(question_id=0))
    with pytest.raises(MissingDataError, match=r"newdata: 2 of 50 rows have no 'x0'; drop these"):
        fit.design(80, newdata=new.assign(x0=new["x0"].where(new.index > 1)))


def test_a_plan_for_one_kind_of_order_serves_a_fit_of_the_other(rank, label):
    ties = dr.datasets.Ties()
    rng = np.random.default_rng(2)
    mu = without_order(ties.mu(ties.features(300, rng=rng)))
    for ordered in (True, False):
        plan = dr.design(mu, budget=600, position_bias=ordered)
        rows = label(plan.sample(rng), mu, rng)
        pi = plan.propensity
        same = rank(rows, context="context", mu=mu, propensity=plan, position_bias=ordered)
        np.testing.assert_array_equal(
            same.params, rank(rows, context="context", mu=mu, propensity=pi, position_bias=ordered).params
        )
        other = pi + np.swapaxes(pi, 1, 2) if ordered else pi / 2
        turned = rank(rows, context="context", mu=mu, propensity=plan, position_bias=not ordered)
        expected = rank(rows, context="context", mu=mu, propensity=other, position_bias=not ordered)
        np.testing.assert_array_equal(turned.params, expected.params)


def test_weights_and_fixed_prompts_of_the_fit_are_the_plans(rank):
    battles = dr.datasets.Ties().sample(200, rng=0)
    options = {"context": "question_id", "propensity": "propensity", "tune": None}
    weighted = battles.assign(w=np.where(battles["question_id"] < 100, 2.0, 1.0))
    fit = rank(weighted, FORMULA, weights="w", prompts="fixed", **options)
    plan = fit.design(150)
    assert not plan.problem.between.any()
    np.testing.assert_allclose(plan.problem.context_weight, fit.steps.units.context_weight)
    with pytest.raises(OptionError, match="weights="):
        fit.design(150, newdata=battles)


def test_maximum_likelihood_has_no_probabilities_to_plan_with():
    data = dr.datasets.Ties().sample(200, rng=0)
    fit = dr.dml_rank("winner ~ 1 | model_a + model_b", data, context="question_id", estimator="bt_mle")
    with pytest.raises(OptionError, match="estimator='debiased'"):
        fit.design(100)


def test_several_columns_of_a_context_come_back(rank):
    battles = dr.datasets.Ties().sample(200, rng=0)
    battles = battles.assign(turn=battles["question_id"] % 2, question=battles["question_id"] // 2)
    fit = rank(battles, FORMULA, context=["question", "turn"], tune=None, propensity="propensity")
    rows = fit.design(100).sample(0)
    assert rows.columns.tolist() == ["question", "turn", "model_a", "model_b", "propensity"]
    assert rows[["question", "turn"]].drop_duplicates().shape[0] == 200


def test_the_uniform_plan_of_an_arena_is_sampled_and_stored_with_the_plan(monkeypatch) -> None:
    monkeypatch.setattr("dmlrank.planning.problem.SAMPLE_SIZE", 50)
    monkeypatch.setattr("dmlrank.planning.from_fit.STORED_NUMBERS", 0)
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    options = {"functional": "bt", "pairs": "arena", "context": "question_id", "rng": 0}
    plan = dr.dml_rank("winner ~ length | model_a + model_b", battles, **options).design(500)
    sample = plan.problem.sample()
    assert sample.n_rows == sample.even.n_rows == 50
    assert b"CrossFittedMu" not in pickle.dumps(plan)

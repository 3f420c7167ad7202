"""Whole fits with a judge: what it changes, what it must not change, and what is reported of it."""

import io
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import JudgeError, OptionError, OptionTypeError, OutcomeError
from dmlrank.fit.post_estimation import equivalent_votes, estimate_without_judge, winner_agreement
from dmlrank.options import in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
SWAP = {"model_a": "model_b", "model_b": "model_a"}


def arena(n=3000, hidden=0.75, accuracy=0.7, seed=0):
    """Battles of which most have no human vote, and a judge that agrees with humans more or less often."""
    rng = np.random.default_rng(seed)
    battles = dr.datasets.simulate_arena(n=n, no_vote=0.0, rng=seed)
    said = battles["winner"].where(rng.random(n) < accuracy, rng.choice(battles["winner"].unique(), n))
    known = rng.random(n) >= hidden
    return battles.assign(verdict=said, all_votes=battles["winner"], winner=battles["winner"].where(known, None))


def fit(battles, judge="verdict", formula=FORMULA, **options):
    given = {
        "functional": "bt",
        "context": "question_id",
        "position_bias": False,
        "min_labels": 2,
        "rng": 0,
        "n_jobs": 1,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        return dr.dml_rank(formula, battles, **in_objects({"judge": judge, **(given | options)}))


@pytest.fixture(scope="module")
def battles():
    return arena()


@pytest.fixture(scope="module")
def fitted(battles):
    return fit(battles)


def test_a_good_judge_sharpens_and_the_answer_stays_the_humans(battles, fitted):
    alone = fitted.update(judge=None)
    assert (fitted.bse / alone.bse).mean() < 0.9
    every_vote = fit(battles.assign(winner=battles["all_votes"]), judge=None)
    assert ((fitted.params - every_vote.params).abs() < 3.5 * fitted.bse).all()
    assert fitted.bse.mean() > every_vote.bse.mean()


def test_without_it_the_fit_is_the_one_that_never_had_one(battles, fitted):
    pd.testing.assert_series_equal(fitted.update(judge=None).params, fit(battles, judge=None).params)
    assert fitted.update(judge=None).judge is None


@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.long
def test_a_constant_judge_says_nothing(battles, position_bias):
    # With a judge, the second-order bias is left in.
    options = {"position_bias": position_bias, "propensity": "marginal", "min_labels": 1, "second_order": False}
    # Without features, only a fit with a judge has folds.
    formula = "winner ~ length | model_a + model_b"
    constant = fit(battles.assign(verdict="model_a"), formula=formula, **options)
    alone = constant.update(judge=None)
    np.testing.assert_allclose(constant.params, alone.params, atol=1e-12)
    np.testing.assert_allclose(constant.bse, alone.bse, rtol=1e-6)


@pytest.mark.long
def test_a_verdict_that_could_not_be_read_is_missing_for_the_judge_alone(battles):
    unread = np.random.default_rng(0).random(len(battles)) < 0.1
    none = fit(battles.assign(verdict=battles["verdict"].mask(unread, None)))
    for word, categories in (("I cannot say", {"I cannot say": "missing"}), ("n/a", None)):
        res = fit(battles.assign(verdict=battles["verdict"].mask(unread, word)), categories=categories)
        np.testing.assert_allclose(res.params, none.params, atol=1e-12)
        assert res.nobs == none.nobs == len(battles)
    with pytest.raises(OutcomeError, match=r"judge 'verdict': unknown winner label 'I cannot say'"):
        fit(battles.assign(verdict=battles["verdict"].mask(unread, "I cannot say")))


def test_a_judge_that_guesses_does_no_harm():
    ratios = []
    for seed in range(4):
        result = fit(arena(accuracy=0.0, seed=seed), propensity="marginal")
        ratios.append((result.bse / result.update(judge=None).bse).mean())
    assert max(ratios) < 1.03


@pytest.mark.long
def test_a_biased_judge_does_not_move_the_scores():
    battles = arena(n=4000)
    favours = battles["model_a"].eq("dolly-v2-12b").map({True: "model_a", False: None})
    favours = favours.where(favours.notna(), battles["model_b"].eq("dolly-v2-12b").map({True: "model_b", False: None}))
    result = fit(battles.assign(verdict=favours.where(favours.notna(), battles["verdict"])))
    every_vote = fit(battles.assign(winner=battles["all_votes"]), judge=None)
    assert abs(result.params["dolly-v2-12b"] - every_vote.params["dolly-v2-12b"]) < 3.5 * result.bse["dolly-v2-12b"]
    table = result.judge.table()
    assert table.loc["dolly-v2-12b", "judge_differs"]
    assert table.loc["dolly-v2-12b", "judge"] > table.loc["dolly-v2-12b", "both"] + 1


@pytest.mark.long
def test_order_of_rows_and_display_and_names_do_not_matter(battles, fitted):
    shuffled = fit(battles.sample(frac=1.0, random_state=3))
    np.testing.assert_allclose(shuffled.params, fitted.params, atol=1e-9)
    np.testing.assert_allclose(shuffled.bse, fitted.bse, rtol=1e-6)
    names = {name: f"z{99 - place}" for place, name in enumerate(fitted.models)}
    renamed = fit(battles.assign(**{side: battles[side].map(names) for side in ("model_a", "model_b")}))
    np.testing.assert_allclose(renamed.params[list(names.values())], fitted.params, atol=1e-6)
    turned = battles.rename(columns=SWAP).assign(
        **{name: battles[name].replace(SWAP) for name in ("winner", "verdict")}
    )
    displayed = fit(turned)
    np.testing.assert_allclose(displayed.params, fitted.params, atol=1e-6)
    np.testing.assert_allclose(displayed.bse, fitted.bse, rtol=1e-5)


@pytest.mark.long
def test_with_features_unlabelled_battles_teach_mu(battles):
    formula = "winner ~ length | model_a + model_b"
    result = fit(battles, formula=formula, propensity="marginal", functional="borda")
    alone = result.update(judge=None)
    assert (result.bse / alone.bse).mean() < 0.92
    assert result.judge.log_loss["mu"] <= result.judge.log_loss["without"]
    assert result.judge.log_loss["given verdict"] < result.judge.log_loss["mu"] - 0.1
    # A score of its own, estimated in the same way.
    assert (
        result.win_probability("gpt-4", "dolly-v2-12b").std_error
        < alone.win_probability("gpt-4", "dolly-v2-12b").std_error
    )


def on_every_pair(simulator, battles):
    """A frame with the true probabilities of every ordered pair of every prompt."""
    prompts = battles.drop_duplicates("question_id")
    mu = simulator.mu(prompts[["x0", "x1"]].to_numpy())
    first, second = np.nonzero(~np.eye(len(simulator.models), dtype=bool))
    names = np.array(simulator.models)
    columns = {
        "question_id": np.repeat(prompts["question_id"].to_numpy(), len(first)),
        "model_a": np.tile(names[first], len(prompts)),
        "model_b": np.tile(names[second], len(prompts)),
    }
    shares = pd.DataFrame(mu[:, first, second].reshape(-1, 3), columns=["p_a", "p_b", "p_tie"])
    return pd.DataFrame(columns).join(shares)


@pytest.mark.long
def test_a_verdict_on_every_pair_of_every_prompt():
    simulator = dr.datasets.Ties()
    battles = simulator.sample(400, rng=1)
    x = battles.drop_duplicates("question_id")[["x0", "x1"]].to_numpy()
    mu = simulator.mu(x)
    formula = "winner ~ x0 + x1 | model_a + model_b"
    options = {"formula": formula, "position_bias": True, "propensity": "propensity"}
    result = fit(battles, judge=on_every_pair(simulator, battles), **options)
    assert result.steps.verdicts.covers_all_pairs
    truth = simulator.truth("bt", n=50_000)
    assert ((result.params - truth).abs() < 4 * result.bse).all()
    # The judge is the truth: nothing is left of mu's error, and mu is close to it.
    learnt = result.steps.first.mu.at(result.steps.verdicts.cells)
    at = result.steps.verdicts.cells
    before = result.steps.repetitions[0].mu_without_judge.at(at)
    true = mu[at.context, at.first, at.second]
    assert np.square(learnt - true).mean() < 0.7 * np.square(before - true).mean()
    features = result.update(judge_as="features")
    assert features.estimates.description.learner == "lightgbm, with verdicts"
    assert ((features.params - truth).abs() < 5 * features.bse).all()
    with pytest.raises(dr.DmlrankError):
        features.predict(pd.DataFrame({"x0": [0.5], "x1": [0.5]}))


def test_features_need_a_verdict_on_every_pair(battles):
    formula = "winner ~ length | model_a + model_b"
    with pytest.raises(JudgeError, match="two-stage"):
        fit(battles, formula=formula, judge_as="features", propensity="marginal")
    with pytest.raises(OptionError, match="learner"):
        fit(battles, judge_as="features", learner=lambda *rest: None)
    with pytest.raises(OptionError, match="pass judge="):
        fit(battles, judge=None, judge_as="features")
    with pytest.raises(OptionError, match="allowed"):
        fit(battles, judge_as="feature")
    with pytest.raises(OptionError, match="empty"):
        fit(battles, judge=[])
    for wrong in (np.zeros((2, 3, 3, 3)), lambda contexts, models: None, {"gpt": "verdict"}, 3):
        with pytest.raises(OptionTypeError, match="allowed: the name of a column of verdicts"):
            fit(battles, judge=wrong)


def test_given_probabilities_stay_and_the_verdicts_still_help(battles):
    n, k, c = 3000, 8, 4
    mu = np.full((n, k, k, c), 0.25)
    mu[:, range(k), range(k)] = 0
    result = fit(battles, mu=mu, propensity="marginal", functional="borda", edge_weights="counts")
    alone = result.update(judge=None)
    assert result.steps.first.mu is alone.steps.first.mu
    assert (result.bse / alone.bse).mean() < 0.9


@pytest.mark.long
def test_labels_that_the_verdict_chose(battles):
    # Humans are asked more often where the judge saw a tie: pi is estimated from the verdict.
    rng = np.random.default_rng(5)
    asked = rng.random(len(battles)) < np.where(battles["verdict"].str.startswith("tie"), 0.6, 0.15)
    chosen = battles.assign(winner=battles["all_votes"].where(asked, None))
    result = fit(chosen)
    pi = result.steps.first.propensity.cells
    cells = result.steps.data.cells
    tied = result.steps.verdicts.cells.y[result.steps.verdicts.label][:, 2:].sum(axis=1) > 0.5
    rate = result.steps.repetitions[0].judge_propensity[result.steps.verdicts.label]
    assert len(cells) == len(pi)
    assert np.median((pi / rate)[tied]) > 2.5 * np.median((pi / rate)[~tied])
    every_vote = fit(battles.assign(winner=battles["all_votes"]), judge=None)
    assert ((result.params - every_vote.params).abs() < 3.5 * result.bse).all()


@pytest.mark.long
def test_repetitions_clusters_and_annotators(battles):
    whole = fit(battles)
    twice = whole.update(n_rep=2)
    assert np.isfinite(twice.bse).all()
    votes = battles.assign(annotator=battles["judge"]) if "judge" in battles else battles
    groups = {"groups": ["question_id", "annotator"]}
    crossed = fit(votes, cov_type="cluster", cov_kwds=groups)
    np.testing.assert_allclose(crossed.params, whole.params, atol=1e-9)
    np.testing.assert_allclose(crossed.bse, whole.bse, rtol=0.35)


# --- the report -------------------------------------------------------------------------------------------------


def test_kappa_and_agreement_by_hand():
    human, judge = np.array([0, 0, 1, 1, 2, 0]), np.array([0, 1, 1, 1, 2, 2])
    count, share, kappa = winner_agreement(human, judge)
    assert count.tolist() == [6, 4]
    # Chance: (3 1 + 2 3 + 1 2) / 36 with ties; (2 1 + 2 3) / 16 on the four decided pairs.
    np.testing.assert_allclose(share, [4 / 6, 3 / 4])
    np.testing.assert_allclose(kappa, [(4 / 6 - 11 / 36) / (25 / 36), (3 / 4 - 1 / 2) / (1 / 2)])
    assert np.isnan(winner_agreement(human[:0], judge[:0])[1:]).all()


def test_the_report_says_what_the_data_say(battles, fitted):
    report = fitted.judge
    labelled = battles[battles["winner"].notna()]
    row = report.agreement.loc["verdict"]
    human, judge = (
        labelled[name].where(~labelled[name].str.startswith("tie"), "tie") for name in ("winner", "verdict")
    )
    assert len(labelled) == row["pairs"]
    assert row["agreement"] == pytest.approx((human == judge).mean())
    assert report.position.loc["verdict", "first"] == pytest.approx((battles["verdict"] == "model_a").mean())
    assert report.position.loc["verdict", "human_second"] == pytest.approx((labelled["winner"] == "model_b").mean())
    np.testing.assert_allclose(report.variance_ratio, (fitted.bse / report.without["std_error"]) ** 2)
    assert report.worth > 100
    assert "human votes" in " ".join(str(report).split())
    assert str(report) == report.summary().as_text()
    shown = pd.read_csv(io.StringIO(report.summary().as_csv()), index_col="judge")
    assert shown.loc["verdict", "agree"] == pytest.approx(row["agreement"], abs=5e-4)
    assert shown.loc["verdict", "kappa dec."] == pytest.approx(row["kappa_decided"], abs=5e-4)
    assert "Verdicts of the judge 'verdict' on" in fitted.explain()


def test_votes_that_a_judge_is_worth():
    # All variance comes from labels: a third of it is what three times as many votes would leave.
    fitted = fit(arena(n=1500), functional="borda", edge_weights="counts")
    influence, covariance = estimate_without_judge(fitted.steps)
    constant = replace(influence, value=np.broadcast_to(influence.plugin, influence.value.shape))
    third = replace(covariance, matrix=covariance.matrix / 3)
    assert equivalent_votes(constant, covariance, third, n_votes=500) == pytest.approx(1000)
    assert equivalent_votes(constant, covariance, covariance, n_votes=500) == pytest.approx(0, abs=1e-9)
    without_variance = replace(covariance, matrix=covariance.matrix * 0)
    assert equivalent_votes(constant, covariance, without_variance, n_votes=500) == np.inf


def test_the_judge_alone_is_a_fit_to_its_verdicts(battles, fitted):
    table = fitted.judge.table()
    as_votes = fit(battles.assign(winner=battles["verdict"]), judge=None)
    np.testing.assert_allclose(table["judge"], as_votes.params, atol=0.02)
    np.testing.assert_allclose(table["judge_se"], as_votes.bse, rtol=0.05)
    np.testing.assert_allclose(table["both"], fitted.params)
    assert as_votes.judge is None
    of_view = fitted.sequential(planned=5000).judge
    for name in ("table", "audit"):
        with pytest.raises(OptionError, match="one look only"):
            getattr(of_view, name)


def test_the_report_is_stored_and_scaled(fitted):
    again = dr.read_json(fitted.to_json())
    assert str(again.judge) == str(fitted.judge)
    assert again.judge.worth == fitted.judge.worth
    elo = fitted.rescale("elo", mean=1000)
    np.testing.assert_allclose(elo.judge.without["std_error"], fitted.judge.without["std_error"] * 400 / np.log(10))
    np.testing.assert_allclose(elo.judge.without["coef"], elo.judge.table()["humans"])
    np.testing.assert_allclose(elo.judge.table()["judge_se"], fitted.judge.table()["judge_se"] * 400 / np.log(10))
    with pytest.raises(dr.DmlrankError, match="stored without"):
        again.judge.table()


@pytest.mark.long
def test_several_judges_are_at_least_as_good_as_one(battles, fitted):
    rng = np.random.default_rng(9)
    second = battles["all_votes"].where(
        rng.random(len(battles)) < 0.6, rng.choice(battles["all_votes"].unique(), len(battles))
    )
    both = fit(battles.assign(second=second), judge=["verdict", "second"])
    assert both.judge.figures.names == ("verdict", "second")
    assert both.bse.mean() < fitted.bse.mean()


def test_the_restricted_estimator_has_no_place_for_verdicts(battles):
    with pytest.raises(OptionError):
        fit(battles, estimator="bt_restricted", propensity="marginal")

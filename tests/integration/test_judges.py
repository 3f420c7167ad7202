"""Whole fits with a judge: what it changes, what it must not change, and what is reported of it."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import JudgeError, OptionError, OptionTypeError, OutcomeError
from dmlrank.fit.post_estimation import equivalent_votes, estimate_without_judge, winner_agreement
from dmlrank.options import in_objects

from ..support import FORMULA, quiet


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
    with quiet():
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


def test_features_need_a_verdict_on_every_pair(battles):
    formula = "winner ~ length | model_a + model_b"
    with pytest.raises(JudgeError, match="two-stage"):
        fit(battles, formula=formula, judge_as="features", propensity="marginal")
    for options, words in (
        ({"judge_as": "features", "learner": lambda *rest: None}, "learner"),
        ({"judge_as": "features", "judge": None}, "pass judge="),
        ({"judge_as": "feature"}, "allowed"),
        ({"judge": []}, "empty"),
    ):
        with pytest.raises(OptionError, match=words):
            fit(battles, **options)
    for wrong in (np.zeros((2, 3, 3, 3)), lambda contexts, models: None, {"gpt": "verdict"}, 3):
        with pytest.raises(OptionTypeError, match="allowed: the name of a column of verdicts"):
            fit(battles, judge=wrong)


def test_verdicts_on_every_pair_as_features():
    rng, n = np.random.default_rng(0), 600
    won, agrees, is_labelled = (rng.random(n) < share for share in (0.7, 0.85, 0.4))
    verdict, winner = (np.where(is_first, "model_a", "model_b") for is_first in (won == agrees, won))
    pairs = {"model_a": list("aab") * (n // 3), "model_b": list("bcc") * (n // 3), "question_id": np.arange(n) // 3}
    battles = pd.DataFrame(pairs | {"verdict": verdict, "winner": np.where(is_labelled, winner, None)})
    options = {"functional": "borda", "propensity": "marginal", "tune": {"n_estimators": 10}}
    features = fit(battles, judge_as="features", **options)
    alone = features.update(judge=None, judge_as="two-stage")
    assert (features.bse < 0.9 * alone.bse).all()
    assert ((features.params - alone.params).abs() < 3.5 * alone.bse).all()
    without, with_features, given_verdict = features.judge.figures.log_loss
    assert with_features == given_verdict < 0.8 * without
    np.testing.assert_allclose(features.design(100).predicted()["score"], features.params)


def test_given_probabilities_stay_and_the_verdicts_still_help(battles):
    n, k, c = 3000, 8, 4
    mu = np.full((n, k, k, c), 0.25)
    mu[:, range(k), range(k)] = 0
    result = fit(battles, mu=mu, propensity="marginal", functional="borda", edge_weights="counts")
    alone = result.update(judge=None)
    assert result.steps.first.inputs.mu is alone.steps.first.inputs.mu
    assert (result.bse / alone.bse).mean() < 0.9


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
    np.testing.assert_allclose(report.variance_ratio, (fitted.bse / report.table()["humans_se"]) ** 2)
    without, _, given_verdict = report.figures.log_loss
    assert given_verdict < 0.7 * without
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
    np.testing.assert_allclose(elo.judge.table()["humans_se"], fitted.judge.table()["humans_se"] * 400 / np.log(10))
    np.testing.assert_allclose(elo.judge.table()["judge_se"], fitted.judge.table()["judge_se"] * 400 / np.log(10))
    with pytest.raises(dr.DmlrankError, match="stored without"):
        again.judge.table()


def test_the_restricted_estimator_has_no_place_for_verdicts(battles):
    with pytest.raises(OptionError):
        fit(battles, estimator="bt_restricted", propensity="marginal")

"""Sensitivity of fits: what is read, bounds, fragility, and what is refused."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.data.preferences import read_shown_battles
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DataNotStoredError,
    HypothesisError,
    IntervalWarning,
    OptionError,
    OptionTypeError,
)
from dmlrank.fit.tipping_points import BoundEvaluation
from dmlrank.options import in_objects

from ..support import FORMULA, needs, two_of, votes_of


def battles_with_silence(n=900, seed=0):
    """Battles of four models with two features, ties, annotators and clusters; about a third got no vote."""
    rng = np.random.default_rng(seed)
    skill = np.array([0.9, 0.4, -0.2, -1.1])
    first, second = two_of(rng, 4, n)
    x = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-(skill[first] - skill[second]) * (1 + 0.3 * x)))
    is_tie, won, is_silent = (rng.random(n) for _ in range(3))
    votes = votes_of(["ant", "bee", "cat", "dog"], first, second, won < chance, x=x, prompt=np.arange(n) // 2)
    votes["winner"] = votes["winner"].astype(object).mask(is_tie < 0.15, "tie")
    votes["winner"] = votes["winner"].mask(is_silent < 0.25 + 0.15 * (x > 0), None)
    return votes.assign(judge=rng.integers(35, size=n), topic=votes["prompt"] % 40)


@pytest.fixture(scope="module")
def battles():
    return battles_with_silence()


def fitted(battles, formula="winner ~ 1 | model_a + model_b", **options):
    return dr.dml_rank(formula, battles, **in_objects({"min_labels": 5, "n_folds": 3, "rng": 0, **options}))


@pytest.mark.parametrize(("propensity", "is_shared"), [("estimate", True), ("~ x", False)])
@pytest.mark.parametrize("position_bias", [True, False])
def test_contexts_with_equal_features_share_vote_rates(battles, propensity, is_shared, position_bias):
    """Without battles that got no vote the rates are the propensities: equal where these have the features of mu."""
    data = battles.dropna(subset=["winner"]).assign(high=lambda d: d["x"] > 0)
    options = {"functional": "bt", "propensity": propensity, "position_bias": position_bias}
    fit = fitted(data, "winner ~ high | model_a + model_b", **options)
    evaluation = BoundEvaluation.of(fit._fit, np.array([[1.0, -1.0, 0.0, 0.0]]))
    assert evaluation.inputs[0].voting.shares_rates == is_shared
    apart = [replace(one, voting=replace(one.voting, shares_rates=False)) for one in evaluation.inputs]
    one_by_one = replace(evaluation, inputs=tuple(apart)).at([1.5], 0.05)
    bounds = evaluation.at([1.5], 0.05)
    np.testing.assert_allclose(bounds.lower, one_by_one.lower, rtol=1e-10)
    np.testing.assert_allclose(bounds.upper_error, one_by_one.upper_error, rtol=1e-10)


@pytest.fixture(scope="module")
def res(battles):
    return fitted(battles, functional="bt", position_bias=False, context="prompt")


@pytest.fixture(scope="module")
def sensitivity(res):
    return res.sensitivity(["ant - dog", "ant - bee"], gamma=(1, 1.5, 2))


# --- what is read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
def test_sums_over_contexts_have_the_covariance_of_their_influence_values(battles, functional):
    """Clusters of one context each multiply the covariance of the influence values by G / (G - 1)."""
    row = battles["prompt"]
    data, found = battles.assign(weight=1 + row % 3, length=row % 7), []
    given = {"context": "prompt", "functional": functional, "weights": "weight"}
    for of_clusters in ({}, {"cov_type": "cluster", "cov_kwds": {"groups": "prompt"}}):
        fit = fitted(data, "winner ~ length | model_a + model_b", **given, **of_clusters)
        evaluation = BoundEvaluation.of(fit._fit, np.eye(4)[:2] - np.eye(4)[2:])
        bounds = evaluation.at([1.0, 1.5], 0.05)
        variances = np.square(np.hstack([bounds.lower_error, bounds.upper_error]))
        found.append((bounds.lower, bounds.upper, variances - np.diag(evaluation.added_covariance)))
    found[0][2][...] *= row.nunique() / (row.nunique() - 1)
    for summed, stored in zip(*found, strict=True):
        np.testing.assert_allclose(summed, stored, rtol=1e-10)


def test_rows_with_two_models_are_shown_battles(battles, res):
    shown = read_shown_battles(res.steps.data, "model_a", "model_b")
    assert len(shown) == len(battles)
    assert shown.n_unvoted == battles["winner"].isna().sum() == len(battles) - res.diagnostics.n_votes
    cell = shown.cells(4, 3)[1]
    np.testing.assert_allclose(np.bincount(cell, shown.share), 1)
    names = np.array(res.models)
    first = np.where(shown.flipped, shown.second, shown.first)
    assert (names[first] == battles["model_a"].to_numpy()[res.steps.data.row_index[shown.row]]).all()


def test_battles_without_models_are_not_shown(battles):
    silent = battles.copy()
    silent.loc[silent["winner"].isna(), ["model_a", "model_b"]] = None
    res = fitted(silent)
    with pytest.warns(IntervalWarning, match="no shown battles without a vote"):
        wide = res.sensitivity("ant - dog", gamma=1.5)
    narrow = fitted(battles).sensitivity("ant - dog", gamma=1.5)
    lower, upper = (frame.result_frame[["lower", "upper"]].to_numpy()[0] for frame in (wide, narrow))
    assert lower[0] < upper[0] < upper[1] < lower[1]
    assert "Every pair of every prompt therefore counts as shown" in " ".join(str(wide.summary()).split())


def test_labels_that_the_two_models_order_differently_have_bounds_of_first_order(battles):
    """A tie is worth less to the second model than a loss, and more to the first one."""
    res = fitted(battles, functional="bt", category_weights=([1, 0, 0.5], [0.3, 1, 0]))
    assert "hold to first order" in str(res.sensitivity("ant - dog", gamma=1).summary().notes)


# --- tables ------------------------------------------------------------------------------------------


def test_tables_hold_the_same_numbers(sensitivity):
    frame, tipping = sensitivity.result_frame, sensitivity.tipping
    assert frame.columns.tolist() == ["hypothesis", "gamma", "lower", "upper", "conf_lower", "conf_upper"]
    assert tipping.columns.tolist() == ["hypothesis", "gamma_estimate", "gamma_interval"]
    text = str(sensitivity.summary())
    assert "ant - dog" in text
    assert sensitivity.sentence() in " ".join(text.split())
    assert sensitivity.sentence().count(" and its sign ") == 1
    assert "<table" in sensitivity.summary().as_html()
    heads = list(pd.read_csv(io.StringIO(sensitivity.summary().as_csv())))
    assert heads[-2:] == ["tipping gamma", "of CI"]
    assert [head.rsplit(" ", 1)[-1] for head in heads[2:6]] == ["lower", "upper"] * 2


def test_the_command_line_prints_the_bounds(battles, tmp_path, capsys):
    votes = tmp_path / "votes.csv"
    battles.to_csv(votes, index=False)
    assert main(["fit", FORMULA, str(votes), "--rng", "0", "--set", "sensitivity=yes"]) == 0
    bounds = dr.dml_rank(FORMULA, battles, rng=0).sensitivity()
    assert str(bounds) in capsys.readouterr().out
    assert bounds.result_frame["gamma"].unique().tolist() == [1, 1.1, 1.25, 1.5, 2]
    assert "Contrasts are neighbours on the leaderboard" in str(bounds.summary().notes)


@needs("jinja2")
def test_a_page_has_a_section_on_votes_not_cast(res, sensitivity):
    page = res.report(sensitivity=sensitivity)
    assert "If those who vote differ from those who do not" in page
    assert "If those who vote" not in res.report()
    assert f"of {sensitivity.n_shown:,} that were shown" in page
    assert "<bdi>ant - dog</bdi>" in page
    # Beside other leaderboards the section is that of the one with the scores; on a page in percent it is, too.
    borda = res.update(functional="borda")
    shares = borda.sensitivity("ant - dog", gamma=1.5)
    share, digits = shares.estimate[0], len(shares.summary().rows[0][1].partition(".")[2])
    assert f">{share:.{digits}f}<" in dr.compare(res, borda).report(sensitivity=shares)
    assert f">{100 * share:.{max(digits - 2, 1)}f}<" in borda.report(sensitivity=shares, unit="%")
    with pytest.raises(OptionError, match="no leaderboard of this page"):
        res.report(sensitivity=shares)


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error"),
    [([0.5, float("inf"), float("nan"), [], [1, -2]], OptionError), (["2", [None], [True], ["a"]], OptionTypeError)],
)
def test_gammas_that_bound_no_odds_ratio_are_refused(res, values, error):
    for gamma in values:
        with pytest.raises(error, match="gamma"):
            res.sensitivity(gamma=gamma)


def test_a_fixed_contrast_and_missing_data_are_refused(res, tmp_path):
    with pytest.raises(HypothesisError):
        res.sensitivity("ant + bee + cat + dog")
    loaded = dr.read_json(res.to_json())
    for name in ("sensitivity", "fragility"):
        with pytest.raises(DataNotStoredError):
            getattr(loaded, name)


# --- fragility ----------------------------------------------------------------------------------------------------


def without(battles, prompts):
    return battles[~battles["prompt"].isin(prompts)]


def test_dropped_prompts_turn_first_place_in_a_fit_of_ones_own(battles, res):
    fragility = res.fragility()
    (row,) = fragility.result_frame.itertuples(index=False)
    assert row.hypothesis == "ant - bee"
    assert row.confirmed
    dropped = fragility.units["ant - bee"]
    assert len(dropped) == row.number == round(row.share * res.nobs)
    again = fitted(without(battles, dropped), functional="bt", position_bias=False, context="prompt")
    assert again.params["ant"] - again.params["bee"] == pytest.approx(row.after)
    assert row.after < 0 < row.before
    fewer = fitted(without(battles, dropped[:-1]), functional="bt", position_bias=False, context="prompt")
    assert fewer.params["ant"] > fewer.params["bee"]


@pytest.mark.parametrize("changes", [{}, {"functional": "borda"}, {"position_bias": True}])
def test_changed_labels_are_confirmed_in_a_fit_of_ones_own(battles, res, changes):
    result = res.update(**changes)
    for flip in (False, True):
        fragility = result.fragility("ant - bee", unit="vote", flip=flip)
        rows = battles.index[fragility.units["ant - bee"]]
        changed = battles.copy()
        other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
        changed.loc[rows, "winner"] = changed.loc[rows, "winner"].map(other) if flip else None
        again = fitted(changed, **{"functional": "bt", "position_bias": False, "context": "prompt", **changes})
        assert again.params["ant"] - again.params["bee"] == pytest.approx(fragility.result_frame["after"][0])
        assert fragility.result_frame["confirmed"][0]


def test_fewer_labels_have_to_be_flipped_than_dropped_and_progress_is_reported(res):
    stages = []
    numbers = [
        res.fragility("ant - bee", flip=flip, progress=lambda *step: stages.append(step)).result_frame["number"][0]
        for flip in (True, False)
    ]
    assert numbers[0] < numbers[1]
    assert stages


def test_winners_and_losers_are_flipped_and_left_out(battles):
    voted = battles[battles["winner"].isin(["model_a", "model_b"])].reset_index(drop=True)
    is_first = voted["winner"] == "model_a"
    ends = {
        "won": np.where(is_first, voted["model_a"], voted["model_b"]),
        "lost": np.where(is_first, voted["model_b"], voted["model_a"]),
    }
    options = {"functional": "bt", "position_bias": False, "formula": "~ 1 | won + lost"}
    data = pd.DataFrame(ends)
    result = fitted(data, **options)
    for flip in (False, True):
        fragility = result.fragility("ant - bee", unit="vote", flip=flip)
        rows = fragility.units["ant - bee"]
        changed = data.drop(rows)
        if flip:
            changed = data.copy()
            changed.loc[rows] = data.loc[rows, ["lost", "won"]].to_numpy()
        again = fitted(changed, **options)
        assert again.params["ant"] - again.params["bee"] == pytest.approx(fragility.result_frame["after"][0])


@pytest.mark.parametrize(("unit", "kind"), [("judge", "votes"), ("topic", "prompts")])
def test_groups_of_rows_are_dropped(battles, res, unit, kind):
    fragility = res.fragility("bee - ant", unit=unit)
    assert fragility.result_frame["confirmed"][0]
    rows = battles[unit].astype(str).isin(fragility.units["bee - ant"])
    rest = battles.assign(winner=battles["winner"].mask(rows)) if kind == "votes" else battles[~rows]
    again = fitted(rest, functional="bt", position_bias=False, context="prompt")
    assert again.params["bee"] - again.params["ant"] == pytest.approx(fragility.result_frame["after"][0])
    assert f"how many values of '{unit}'" in " ".join(str(fragility.summary()).split())


def test_a_likelihood_knows_the_influence_of_prompts_alone(battles):
    res = dr.dml_rank(FORMULA, battles, **in_objects({"context": "prompt", "estimator": "bt_mle", "rng": 0}))
    fragility = res.fragility(unit="topic")
    assert fragility.result_frame["confirmed"][0]
    with pytest.raises(OptionError, match="estimator='debiased'"):
        res.fragility(flip=True)


def test_votes_have_no_influence_on_scores_of_mean_preferences(res):
    with pytest.raises(OptionError, match="average='scores'"):
        res.update(average="preferences").fragility("bee - ant", unit="judge")
    linear = res.update(functional="borda")
    frames = [r.fragility("bee - ant", "judge").result_frame for r in (linear, linear.update(average="preferences"))]
    assert frames[0].equals(frames[1])


def test_more_than_half_of_the_units_is_no_answer_and_is_not_tried(res):
    (row,) = res.fragility("ant - dog = -30").result_frame.itertuples(index=False)
    assert pd.isna(row.number)
    assert not row.confirmed
    assert row.before == row.after


def test_units_that_do_not_exist_are_refused(res, battles):
    with pytest.raises(ColumnError, match="judge"):
        res.fragility(unit="judgee")
    with pytest.raises(OptionTypeError):
        res.fragility(unit=3)
    with pytest.raises(DataError, match="empty"):
        fitted(battles.assign(judge=battles["judge"].where(battles["judge"] > 0))).fragility(unit="judge")


def test_options_with_an_array_follow_votes_and_no_prompts(battles):
    weight = np.random.default_rng(0).uniform(1, 2, len(battles))
    res = fitted(battles, weights=weight, functional="bt")
    fragility = res.fragility("ant - bee", unit="vote")
    rows = np.isin(np.arange(len(battles)), fragility.units["ant - bee"])
    again = fitted(battles.assign(winner=battles["winner"].mask(rows)), weights=weight, functional="bt")
    assert again.params["ant"] - again.params["bee"] == pytest.approx(fragility.result_frame["after"][0])
    with pytest.raises(OptionError, match="weights"):
        res.fragility()


def test_other_units_multiply_the_bounds(res, sensitivity):
    elo = res.rescale("elo", mean=1000).sensitivity(["ant - dog", "ant - bee"], gamma=(1, 1.5, 2))
    factor = 400 / np.log(10)
    np.testing.assert_allclose(elo.result_frame["lower"], factor * sensitivity.result_frame["lower"])
    pd.testing.assert_frame_equal(elo.tipping, sensitivity.tipping)
    shifted = res.rescale("elo", mean=1000).sensitivity("ant = 900", gamma=1).result_frame
    assert shifted["lower"][0] == pytest.approx(res.rescale("elo", mean=1000).params["ant"])


def test_given_propensities_of_labelled_cells_need_the_battles_without_a_vote(battles):
    voted = battles.dropna().assign(pi=1 / 12)
    res = fitted(voted, propensity="pi")
    with pytest.raises(OptionError):
        res.sensitivity("ant - dog")

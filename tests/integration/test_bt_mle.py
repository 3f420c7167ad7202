"""Maximum likelihood against statsmodels' GLM on one row per vote, and what it refuses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import dmlrank as dr
from dmlrank.estimation.bt_mle import fit_bradley_terry
from dmlrank.exceptions import GraphError, OptionError

FORMULA = "winner ~ 1 | model_a + model_b"
MLE = {"estimator": "bt_mle", "min_labels": "auto"}


@pytest.fixture(scope="module")
def single(draw_battles):
    """One vote per prompt, some prompts without one."""
    return draw_battles(np.random.default_rng(1), 400, 5, 4, unlabelled=20).frame


@pytest.fixture(scope="module")
def repeated(draw_battles):
    """Two pairs per prompt with up to three votes each."""
    return draw_battles(np.random.default_rng(2), 250, 4, 3, n_pairs=2, repeats=True).frame


def glm(votes, models, order=False, **fit):
    """Scores (and order effect) and covariance by statsmodels, one row per vote, scores that sum to zero; log-loss."""
    votes, k = votes[votes["winner"].notna()], len(models)
    codes = [votes[name].map({model: place for place, model in enumerate(models)}) for name in ("model_a", "model_b")]
    rows = np.eye(k)[codes[0].astype(int)] - np.eye(k)[codes[1].astype(int)]
    y = votes["winner"].map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5)
    both = np.zeros((k + order, k - 1 + order))
    both[: k - 1, : k - 1], both[k - 1, : k - 1], both[k:, k - 1 :] = np.eye(k - 1), -1, 1
    design = np.column_stack([rows, np.ones(len(votes))])[:, : k + order] @ both
    fitted = sm.GLM(y.to_numpy(), design, family=sm.families.Binomial()).fit(tol=1e-14, maxiter=100, **fit)
    return both @ fitted.params, both @ fitted.cov_params() @ both.T, -fitted.llf / len(votes)


def assert_same(result, scores, covariance):
    np.testing.assert_allclose(result.params, scores, rtol=0, atol=1e-8)
    np.testing.assert_allclose(result.cov_params(), covariance, rtol=0, atol=1e-8 * float(np.max(np.abs(covariance))))


def test_robust_is_hc0_where_every_prompt_has_one_vote(single, rank):
    result = rank(single, FORMULA, **MLE)
    assert_same(result, *glm(single, result.models, cov_type="HC0")[:2])


def test_robust_is_by_prompt_where_prompts_have_more_votes(repeated, rank):
    result = rank(repeated, FORMULA, **MLE)
    groups = {"groups": pd.factorize(repeated["prompt"])[0], "use_correction": False}
    assert_same(result, *glm(repeated, result.models, cov_type="cluster", cov_kwds=groups)[:2])


def test_clusters_have_the_factor_g_over_g_minus_one(repeated, rank):
    result = rank(repeated, FORMULA, cov_type="cluster", cov_kwds={"groups": "topic"}, **MLE)
    groups = {"groups": pd.factorize(repeated["topic"])[0]}
    scores, covariance, _ = glm(repeated, result.models, cov_type="cluster", cov_kwds=groups)
    # statsmodels multiplies by (v - 1) / (v - K + 1) beside G / (G - 1); with thousands of votes that is one.
    n_votes = len(repeated)
    assert_same(result, scores, covariance * (n_votes - len(scores) + 1) / (n_votes - 1))


def test_influence_makes_the_covariance(single, rank):
    result = rank(single, FORMULA, **MLE)
    phi = result.influence
    assert phi.shape == (400, 5)
    np.testing.assert_allclose(phi.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(phi.T @ phi / 400**2, result.cov_params(), atol=1e-14)


def test_a_win_share_comes_from_the_model(single, rank):
    result = rank(single, FORMULA, **MLE)
    share = result.win_probability("m0", "m1")
    p = expit(result.params["m0"] - result.params["m1"])
    assert share.estimate == pytest.approx(p)
    assert share.std_error == pytest.approx(p * (1 - p) * result.t_test("m0 - m1").sd.item())
    np.testing.assert_allclose(result.predict(single[["prompt"]]).iloc[3], result.params)
    np.testing.assert_allclose(result.predict().iloc[3], result.params)


def test_the_summary_says_what_was_assumed(single, rank):
    text = " ".join(rank(single, FORMULA, **MLE).explain().split())
    for words in ("bt_mle (assumes Bradley-Terry)", "bt (maximum likelihood)", "not used", "In-sample log-loss"):
        assert words in text
    assert "nan" not in text


def test_updates_go_there_and_back_without_training(repeated, rank, monkeypatch):
    trees = {"tune": {"n_estimators": 5}, "n_folds": 2, "propensity": "marginal"}
    debiased = rank(repeated, "winner ~ x0 | model_a + model_b", functional="rank_centrality", **trees)
    monkeypatch.setattr("lightgbm.train", None)
    fitted = debiased.update(estimator="bt_mle")
    assert (fitted.functional, fitted.estimates.estimator) == ("bt", "bt_mle")
    assert fitted.params.equals(rank(repeated, FORMULA, **MLE).params)
    back = fitted.update(alpha=0.1).update(estimator="debiased", alpha=0.05)
    assert back.summary().as_text() == debiased.summary().as_text()


def test_weights_must_share_one_win(single, rank):
    with pytest.raises(OptionError, match="half"):
        rank(single, FORMULA, category_weights="paper", **MLE)


def frame(*votes):
    return pd.DataFrame(votes, columns=["model_a", "model_b", "winner"])


def test_models_that_won_or_lost_everything_are_named():
    even = [("a", "b", "model_a"), ("a", "b", "model_b")]
    for others in ([("a", "c", "model_b")], [("c", "d", "tie"), ("b", "c", "model_a")]):
        with pytest.raises(GraphError):
            dr.dml_rank(FORMULA, frame(*even, *others), estimator="bt_mle", rng=0)


def test_a_given_graph_leaves_votes_out(single, rank):
    edges = ~np.eye(5, dtype=bool)
    edges[0, 1] = edges[1, 0] = False
    result = rank(single, FORMULA, graph=edges, **MLE)
    pair = single[["model_a", "model_b"]].isin(["m0", "m1"]).all(axis=1)
    assert_same(result, *glm(single[~pair], result.models, cov_type="HC0")[:2])


def test_extreme_scores_converge(make_data):
    won = np.array([[0.0, 1e5, 1e6], [1.0, 0.0, 1e5], [0.5, 2.0, 0.0]])
    first, second = np.triu_indices(3, 1)
    votes = won[first, second] + won[second, first]
    share = won[first, second] / votes
    data = make_data(np.arange(3), first, second, np.zeros(3, int), n_items=3, n_categories=2, n_contexts=3)
    data = replace(data, cells=replace(data.cells, y=np.column_stack([share, 1 - share]), n_votes=votes))
    fitted = fit_bradley_terry(data, np.array([1.0, 0.0]), ~np.eye(3, dtype=bool))
    scores = fitted.coefficients[:, 0]
    p = expit(np.subtract.outer(scores, scores))
    np.testing.assert_allclose((won - (won + won.T) * p).sum(axis=1), 0, atol=1e-7)


def test_votes_of_unanimous_pairs_on_one_prompt_are_one_label(rank):
    pairs = [("a", "b", "model_a")] * 12 + [("b", "c", w) for w in ("model_a", "model_b") * 10]
    pairs += [("a", "c", w) for w in ("model_a", "model_a", "model_b") * 8]
    once = pd.DataFrame(pairs, columns=["model_a", "model_b", "winner"]).assign(prompt=range(len(pairs)))
    thrice = once.loc[once.index.repeat(3)].reset_index(drop=True)
    results = [rank(votes, FORMULA, context="prompt", **MLE) for votes in (once, thrice)]
    assert [result.diagnostics.pairs_without_variation for result in results] == [1, 1]
    np.testing.assert_allclose(*[result.params for result in results], atol=1e-9)
    np.testing.assert_allclose(*[result.bse for result in results], rtol=1e-9)
    # So are those of a cluster.
    by_cluster = {"cov_type": "cluster", "cov_kwds": {"groups": "prompt"}}
    results = [rank(votes, FORMULA, **by_cluster, **MLE) for votes in (once, thrice)]
    np.testing.assert_allclose(*[result.bse for result in results], rtol=1e-9)


@pytest.fixture(scope="module")
def with_order():
    """Votes in both orders with an advantage of the first model, a pair without variation, and uneven orders."""
    rng = np.random.default_rng(3)
    strength = {"a": 0.5, "b": 0.0, "c": -0.4, "d": 0.2}
    pairs = [("a", "b")] * 90 + [("b", "a")] * 20 + [("b", "c")] * 60 + [("c", "a")] * 70 + [("d", "c")] * 60
    pairs += [("d", "b")] * 40 + [("b", "d")] * 30
    rows = [
        (first, second, "model_a" if rng.random() < expit(strength[first] - strength[second] + 0.5) else "model_b")
        for first, second in pairs
    ]
    rows += [("d", "a", "model_a")] * 9
    return frame(*rows).assign(prompt=range(len(rows)))


def test_an_effect_of_order_its_error_and_win_shares_are_those_of_a_logistic_regression(with_order, rank):
    votes = with_order[:-9]
    result = rank(votes, FORMULA, position_bias=True, **MLE)
    effects, covariance, log_loss = glm(votes, result.models, order=True, cov_type="HC0")
    assert_same(result, effects[:-1], covariance[:-1, :-1])
    of_order = [getattr(result.diagnostics, name) for name in ("order_effect", "order_effect_error", "log_loss")]
    np.testing.assert_allclose(of_order, [effects[-1], np.sqrt(covariance[-1, -1]), log_loss], rtol=1e-8)
    # A win share is the mean over both orders, and so are the shares beside the scores.
    p = np.array([expit(effects[:-1, None] - effects[:-1] + order) for order in (effects[-1], -effects[-1])])
    derivative = np.zeros(len(effects))
    slope = p[:, 0, 1] * (1 - p[:, 0, 1])
    derivative[[0, 1, -1]] = slope.mean(), -slope.mean(), (slope[0] - slope[1]) / 2
    share = result.win_probability("a", "b")
    assert share.estimate == pytest.approx(p[:, 0, 1].mean(), abs=1e-9)
    assert share.std_error == pytest.approx(np.sqrt(derivative @ covariance @ derivative), rel=1e-7)
    edges = result.graph.edges
    expected = np.where(edges, p.mean(axis=0), 0).sum(axis=1) / edges.sum(axis=1)
    np.testing.assert_allclose(result.estimates.shares, expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
def test_order_is_said_to_be_ignored_only_where_it_is(with_order):
    said = [
        [str(w) for w in dr.dml_rank(FORMULA, with_order, rng=0, estimator="bt_mle", **order).diagnostics.warnings]
        for order in ({}, {"position_bias": True})
    ]
    assert [any("in one display order only" in one for one in warnings) for warnings in said] == [True, False]


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
@pytest.mark.parametrize("order", [{}, {"position_bias": True}])
def test_names_do_not_change_what_is_added_for_pairs_without_variation(with_order, rank, order):
    names = dict(zip("abcd", "zxwy", strict=True))
    renamed = with_order.replace({"model_a": names, "model_b": names})
    result, other = (rank(votes, FORMULA, **order, **MLE) for votes in (with_order, renamed))
    assert result.diagnostics.pairs_without_variation == other.diagnostics.pairs_without_variation == 1
    np.testing.assert_allclose(other.bse[list(names.values())], result.bse[list(names)], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
def test_few_prompts_are_no_doubt_where_clusters_are_independent(rank):
    votes = frame(*[("a", "b", "model_a")] * 11, ("a", "b", "model_b")).assign(who=[*"kkllmmnnoopp"])
    given = {"estimator": "bt_mle", "rng": 0}
    alone, by_who = (
        " ".join(dr.dml_rank(FORMULA, votes, **given, **clusters).diagnostics.warnings)
        for clusters in ({}, {"cov_type": "cluster", "cov_kwds": {"groups": "who"}})
    )
    assert "few prompts determine" in alone
    assert "few prompts determine" not in by_who

"""Fits that assume Bradley-Terry: against their parts, with every kind of propensity, tested, refused."""

import numpy as np
import pytest
from scipy.stats import chi2

import dmlrank as dr
from dmlrank.estimation.bt_restricted import RestrictedResampling
from dmlrank.exceptions import DataNotStoredError, GraphError, NuisanceError, OptionError
from dmlrank.fit.post_estimation import restriction_null

from ..support import either_order, true_first_stages, without_order

FORMULA = "winner ~ x0 + x1 | model_a + model_b"


@pytest.fixture(scope="module")
def sim():
    return dr.datasets.Bt(n_items=4, n_features=2, position_effect=1.0)


@pytest.fixture(scope="module")
def battles(sim):
    made = sim.sample(400, rng=0).rename(columns={"question_id": "prompt"})
    made["judge"] = [f"j{i}" for i in np.random.default_rng(0).integers(40, size=len(made))]
    return made


@pytest.fixture(scope="module")
def known(sim, battles):
    return true_first_stages(sim, battles, "prompt") | {"floor": 0.0, "functional": "bt"}


@pytest.fixture(scope="module")
def result(rank, battles, known):
    return rank(battles, FORMULA, estimator="bt_restricted", **known)


def test_it_says_what_it_assumes(result):
    text = result.explain()
    assert "bt (Bradley-Terry assumed)" in text
    assert "bt_restricted, 5 folds" in text
    assert result.estimates.estimator == "bt_restricted"
    assert dr.read_json(result.to_json()).explain() == text
    assert result.rescale("elo").bse.iloc[0] == pytest.approx(result.bse.iloc[0] * 400 / np.log(10))


@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.long
def test_the_restriction_test_is_chi_squared_of_the_influence_values(rank, battles, known, position_bias):
    if not position_bias:
        known = known | {"mu": without_order(known["mu"]), "propensity": either_order(known["propensity"])}
    res = rank(battles, FORMULA, estimator="bt_restricted", position_bias=position_bias, **known)
    free = rank(battles, FORMULA, position_bias=position_bias, **known)
    test = res.restriction_test()
    gap = (free.params - res.params).to_numpy()
    delta = free.influence - res.influence
    # Without the last model: differences sum to zero.
    covariance = (delta.T @ delta / 400**2)[:3, :3]
    assert test.df == 3
    assert test.statistic == pytest.approx(gap[:3] @ np.linalg.solve(covariance, gap[:3]), rel=1e-8)
    # Samples from the model have heavier tails than chi-squared.
    assert chi2.sf(test.statistic, 3) - 0.03 < test.pvalue < chi2.sf(test.statistic, 3) + 0.15
    assert test.n_draws == 1999
    assert res.restriction_test().pvalue == test.pvalue
    np.testing.assert_allclose(test.frame["difference"], gap, atol=1e-12)
    np.testing.assert_allclose(test.frame["std_error"], delta.std(axis=0) / 20, rtol=1e-8)
    assert "chi2(3)" in str(test)
    assert "power against failures that change the scores" in " ".join(str(test).split())


@pytest.mark.parametrize("position_bias", [True, False])
def test_what_a_label_moves_is_what_another_outcome_would_have_changed(rank, battles, known, position_bias):
    if not position_bias:
        known = known | {"mu": without_order(known["mu"]), "propensity": either_order(known["propensity"])}
    voted = battles["winner"].notna()
    # One label at a time in each of a few contexts: the last vote of the context is turned round.
    last = battles[voted].groupby("prompt").tail(1).index[:40]
    turned = battles["winner"].replace({"model_a": "model_b", "model_b": "model_a"})
    other = battles.assign(winner=battles["winner"].where(~battles.index.isin(last), turned))
    fits = [
        rank(frame, FORMULA, estimator="bt_restricted", position_bias=position_bias, **known)
        for frame in (battles, other)
    ]
    res, after = fits

    def gap(result):
        frame = battles if result is res else other
        free = rank(frame, FORMULA, position_bias=position_bias, **known)
        mean = (free.params - result.params).to_numpy()
        return free.influence - result.influence + mean

    changed = gap(after) - gap(res)
    noise, data = restriction_null(res.steps), res.steps.data
    expected, found = np.zeros_like(changed), 0
    names = list(data.items)
    for row in last:
        context = list(data.context_ids).index(battles.loc[row, "prompt"])
        first, second = names.index(battles.loc[row, "model_a"]), names.index(battles.loc[row, "model_b"])
        cells = data.cells
        order = np.lexsort((cells.second, cells.first, data.seed_order[cells.context]))
        shown = tuple(part[order] for part in cells.in_display_order)
        cell = np.flatnonzero((noise.context == context) & (shown[0] == first) & (shown[1] == second))[0]
        # A cell holds the mean of its votes, in the order of the items of the cell.
        sign = 1 if cells.y[order][cell, 0] < 0.5 else -1
        expected[context] += sign * noise.difference_change[cell] / noise.n_votes[cell]
        found += noise.n_votes[cell] == 1
    assert found == len(last)
    np.testing.assert_allclose(changed, expected, atol=1e-9)


def test_draws_are_samples_of_labels_from_the_model():
    rng = np.random.default_rng(0)
    moved = rng.normal(size=(50, 3))
    moved -= moved.mean(axis=1, keepdims=True)
    context = np.sort(rng.integers(40, size=50))
    noise = RestrictedResampling(context, rng.uniform(0.2, 0.8, size=50), moved, rng.integers(1, 3, size=50), 40)
    along = np.linalg.svd(np.ones((1, 3)))[2][1:].T
    made = noise.statistics(along, np.random.default_rng(1))
    again, plain = np.random.default_rng(1), []
    for _ in range(20):
        y = again.binomial(noise.n_votes, noise.share) / noise.n_votes
        phi = np.zeros((40, 2))
        for cell in range(50):
            phi[context[cell]] += (y[cell] - noise.share[cell]) * (along.T @ moved[cell])
        plain.append(phi.mean(axis=0) @ np.linalg.inv(np.cov(phi.T, bias=True) / 40) @ phi.mean(axis=0))
    assert len(made) == 1999
    np.testing.assert_allclose(made[:20], plain, rtol=1e-9)


def test_zeros_are_allowed_where_the_model_does_without(rank, battles, known):
    # Every pair in one order only, but round in a ring: the model still tells effect and scores apart.
    shown = {(0, 1), (1, 2), (2, 0), (0, 3), (3, 1), (2, 3)}
    keep = [
        w is None or (int(a[-1]), int(b[-1])) in shown
        for a, b, w in battles[["model_a", "model_b", "winner"]]
        .astype(object)
        .where(battles["winner"].notna(), None)
        .itertuples(index=False)
    ]
    some = battles[keep]
    pi = known["propensity"] * [[(j, k) in shown for k in range(4)] for j in range(4)]
    kept = battles["prompt"].drop_duplicates().isin(some["prompt"]).to_numpy()
    given = known | {"mu": known["mu"][kept], "propensity": pi[kept], "graph": "complete"}
    res = rank(some, FORMULA, estimator="bt_restricted", **given)
    assert (res.bse > 0).all()
    with pytest.raises(NuisanceError):
        res.update(estimator="debiased")
    line = known["propensity"][kept] * [[(j, k) in {(0, 1), (1, 2), (2, 3)} for k in range(4)] for j in range(4)]
    with pytest.raises((GraphError, NuisanceError)):
        rank(some, FORMULA, estimator="bt_restricted", **given | {"propensity": line})


def test_two_models_have_no_restriction_to_test(rank):
    sim = dr.datasets.Bt(n_items=2, n_features=2)
    battles = sim.sample(300, rng=2)
    given = true_first_stages(sim, battles) | {"context": "question_id", "functional": "bt"}
    res = rank(battles, FORMULA, estimator="bt_restricted", **given)
    np.testing.assert_allclose(res.params, res.update(estimator="debiased").params, atol=1e-10)
    with pytest.raises(OptionError):
        res.restriction_test()


@pytest.mark.usefixtures("ignore_warnings")
def test_what_is_refused(rank, battles, known, result, draw_battles):
    with pytest.raises(NuisanceError):
        rank(battles, FORMULA, estimator="bt_restricted", **known | {"propensity": "propensity"})
    with pytest.raises(OptionError):
        rank(draw_battles(np.random.default_rng(0), 60).frame, estimator="bt_restricted")
    with pytest.raises(OptionError):
        rank(battles, FORMULA, estimator="bt_restricted", category_weights=[[0.9, 0.1], [0.1, 0.9]], **known)
    with pytest.raises(OptionError, match="functional"):
        result.update(functional="rank_centrality")
    with pytest.raises(OptionError, match="bt_restricted"):
        result.update(estimator="debiased").restriction_test()
    with pytest.raises(DataNotStoredError):
        dr.read_json(result.to_json()).restriction_test()

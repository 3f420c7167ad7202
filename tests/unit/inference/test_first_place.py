"""First place: the proof's inequality, error rates, and sentences that agree with the table."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.inference.covariance import Covariance
from dmlrank.inference.ranks import first_place
from dmlrank.inference.simultaneous import MaxT, separate

from ...support import from_benchmarks


def decide(estimate, matrix):
    simultaneous = MaxT(Covariance(matrix, np.eye(len(matrix))), n_draws=10_000)
    separation = separate(estimate, simultaneous, 0.05)
    return first_place(estimate, simultaneous, separation), separation


def a_case(rng, k):
    """Estimates of k models with any covariance, of which the first leads by a few standard errors."""
    loadings = rng.normal(size=(k, k)) * np.exp(rng.normal(size=k))[:, None]
    matrix = loadings @ loadings.T
    errors = np.sqrt(matrix[0, 0] + np.diag(matrix) - 2 * matrix[0])
    estimate = -rng.uniform(1.0, 6.0, size=k) * errors
    estimate[0] = 0.0
    return estimate, matrix


def conditional_p_value(estimate, matrix, other):
    """p-value of "the leader is not above the other", given that it leads and all that is independent of its lead."""
    leader, others = 0, np.delete(np.arange(len(estimate)), 0)
    contrast = np.zeros(len(estimate))
    contrast[[leader, other]] = 1.0, -1.0
    variance = contrast @ matrix @ contrast
    lead = contrast @ estimate
    slope = matrix @ contrast / variance
    independent = estimate - slope * lead
    # The leader leads where independent + slope * D is largest at the leader.
    gaps, rates = independent[leader] - independent[others], slope[leader] - slope[others]
    low = max([0.0, *(-g / r for g, r in zip(gaps, rates, strict=True) if r > 1e-12)])
    high = min([np.inf, *(-g / r for g, r in zip(gaps, rates, strict=True) if r < -1e-12)])
    lead, low, high = (norm.sf(value / np.sqrt(variance)) for value in (lead, low, high))
    return (lead - high) / (low - high)


@pytest.mark.parametrize("seed", range(60))
def test_the_p_value_bounds_every_conditional_one(seed):
    rng = np.random.default_rng(seed)
    estimate, matrix = a_case(rng, int(rng.integers(2, 7)))
    place, _ = decide(estimate, matrix)
    z = -np.delete(estimate, 0) / np.sqrt(matrix[0, 0] + np.diag(matrix) - 2 * matrix[0])[1:]
    p = 2 * norm.sf(z.min())
    assert place.leader == 0
    assert place.p.max() <= p * (1 + 1e-9)
    assert p - place.p.max() < 0.02  # tests of all pairs are below it by the error of their draws alone
    assert max(conditional_p_value(estimate, matrix, k) for k in range(1, len(estimate))) <= p * (1 + 1e-9)


def test_two_models_are_one_test_and_names_do_not_matter():
    matrix, estimate = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.0, 2.6])
    place, _ = decide(estimate, matrix)
    assert place.p[0] == pytest.approx(2 * norm.sf(2.6 / np.sqrt(2)), abs=2e-3)
    rng = np.random.default_rng(0)
    estimate, matrix = a_case(rng, 6)
    order = rng.permutation(6)
    place, again = decide(estimate, matrix)[0], decide(estimate[order], matrix[np.ix_(order, order)])[0]
    assert order[again.leader] == place.leader
    assert order[again.others].tolist() == place.others.tolist()
    np.testing.assert_allclose(again.p, place.p, atol=2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_what_all_pairs_decide_is_decided(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        estimate, matrix = a_case(rng, int(rng.integers(2, 5)))
        place, separation = decide(estimate, matrix)
        assert place.decided or not separation.above[place.leader, place.others].all()


@pytest.mark.parametrize("kind", ["independent", "correlated", "unequal", "negative"])
@pytest.mark.parametrize("truth", ["all equal", "two share first place, others near", "one is first, others near"])
def test_wrong_claims_are_rare(kind, truth):
    """The single tests alone, which the level of first place rests on, in many samples at once."""
    study, n = from_benchmarks("decisions"), 20_000
    for k in (2, 3, 6):
        scores, matrix = study.scores_of_truth(truth, k), study.covariance_of_kind(kind, k)
        estimate = np.random.default_rng(k).multivariate_normal(scores, matrix, size=n)
        leader = estimate.argmax(axis=1)
        errors = np.sqrt(np.add.outer(np.diag(matrix), np.diag(matrix)) - 2 * matrix)
        np.fill_diagonal(errors, np.inf)
        z = (estimate[np.arange(n), leader, None] - estimate) / errors[leader]
        z[np.arange(n), leader] = np.inf
        alone = np.array([(np.delete(scores, j) < scores[j]).all() for j in range(k)])
        wrong = (z.min(axis=1) >= norm.isf(0.025)) & ~alone[leader]
        assert wrong.mean() < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
        if k == 2 and truth != "one is first, others near":
            assert wrong.mean() > 0.045


@pytest.mark.parametrize("rivals", [[0.0, -30.0], [0.1, 0.0], [0.3, 0.0, -0.1, -0.2]])
def test_the_multiple_of_the_data_has_the_power_it_promises(rivals):
    """First place is decided where the leader is above all rivals at once, which takes more than the nearest alone."""
    scores = np.array([1.0, *rivals])
    matrix = np.eye(len(scores)) / 2
    place, _ = decide(scores, matrix)
    times, rng = place.times_more(0.8), np.random.default_rng(0)
    drawn = rng.multivariate_normal(scores, matrix / times, size=20_000)
    shown = (drawn[:, [0]] - drawn[:, 1:]) / np.sqrt(1 / times) >= norm.isf(0.025)
    assert shown.all(axis=1).mean() == pytest.approx(0.8, abs=0.015)
    matrix = np.eye(3) / 2
    assert decide(np.array([1.0, 1.0, 0.0]), matrix)[0].times_more(0.8) == np.inf


@pytest.fixture(scope="module")
def template(arena_result):
    return arena_result.update(functional="borda")


@pytest.mark.parametrize("seed", range(40))
def test_no_verdict_contradicts_the_table(template, seed):
    study = from_benchmarks("decisions")
    result = study.a_result(template, np.random.default_rng(seed), largest=20)
    assert study.contradictions(result) == []


def test_a_contradiction_would_be_found(template, monkeypatch):
    study = from_benchmarks("decisions")
    results = [study.a_result(template, np.random.default_rng(seed), largest=10) for seed in range(20)]
    monkeypatch.setattr("dmlrank.inference.ranks.FirstPlace.decided", property(lambda place: True))
    assert any(study.contradictions(result) for result in results)


def test_verdicts_speak_in_the_unit_of_the_reader(template):
    assert re.search(
        r"; its score is [\d.]+ Elo points higher\.", template.update(functional="bt").rescale("elo").verdict()
    )
    assert "of 100 comparisons" in template.verdict()
    looks = template.sequential(9000).verdict()
    assert looks.endswith("A later look may decide it. This holds at all looks from 500 prompts on.")
    with pytest.raises(dr.exceptions.NoIntervalError):
        template.update(estimator="plugin").verdict()

"""Rank sets against their definition over all pairs, and letters against their meaning."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.inference import bootstrap_and_max_t
from dmlrank.inference.bootstrap_and_max_t import differences, holm
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.ranks import (
    letter_groups,
    multiple_needed,
    power_of,
    rank_bounds,
    rank_changes,
    ranks_of,
    smallest_gap,
)
from dmlrank.inference.simultaneous import MaxT, Separation, separate, separate_each


def draw_covariance(rng, d, size=1.0):
    basis = free_basis(np.ones((1, d)) / np.sqrt(d), d)
    root = size * basis @ (0.5 * rng.normal(size=(d - 1, d - 1)) + np.eye(d - 1))
    return Covariance(root @ root.T, basis)


def by_definition(estimate, noise, alpha, about=None):
    """Sets for all ranks (or that of one model): step down over ordered pairs, then count who is above and below."""
    k = len(estimate)
    left = [p for p in itertools.permutations(range(k), 2) if about is None or about in p]
    pairs = differences(noise.covariance, *np.array(left).T)
    rows = np.hstack([rows(np.arange(len(left))) for rows in noise.draws.blocks(pairs)])
    drawn = dict(zip(left, rows, strict=True))
    t = {p: (estimate[p[0]] - estimate[p[1]]) / s for p, s in zip(left, pairs.std_error, strict=True)}
    above = np.zeros((k, k), dtype=bool)
    while left:
        critical = np.quantile(np.max([drawn[p] for p in left], axis=0), 1 - alpha)
        rejected = [p for p in left if t[p] > critical]
        if not rejected:
            break
        for better, worse in rejected:
            above[better, worse] = True
        left = [p for p in left if p not in rejected]
    lower = [1 + sum(above[other, j] for other in range(k)) for j in range(k)]
    upper = [k - sum(above[j, other] for other in range(k)) for j in range(k)]
    return np.array(lower), np.array(upper)


@pytest.mark.parametrize("seed", range(8))
def test_sets_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    covariance, estimate = draw_covariance(rng, k), 2 * rng.normal(size=k)
    # So many draws that both round to the same decision, and one block of them.
    noise = MaxT(covariance, seed, n_draws=4096)
    joint = separate(estimate, noise, 0.1)
    np.testing.assert_array_equal(rank_bounds(joint.above), by_definition(estimate, noise, 0.1))
    each = separate_each(estimate, noise, 0.1)
    lower, upper = rank_bounds(each[:, :, 0], each[:, :, 1])
    for j in range(k):
        alone = by_definition(estimate, noise, 0.1, about=j)
        assert (lower[j], upper[j]) == (alone[0][j], alone[1][j])
    both = rank_bounds(joint.above)
    assert (both[0] <= lower).all()
    assert (upper <= both[1]).all()
    assert ((both[0] <= ranks_of(estimate)) & (ranks_of(estimate) <= both[1])).all()


def test_two_models_are_separated_by_a_plain_two_sided_test():
    basis = np.array([[1.0], [-1.0]]) / np.sqrt(2)
    covariance = Covariance(np.array([[1.0, -1.0], [-1.0, 1.0]]), basis)
    joint = separate(np.array([1.9, 0.0]), MaxT(covariance), 0.05)
    assert joint.critical == pytest.approx(norm.ppf(0.975), abs=0.02)
    assert joint.n_separated == 0
    apart = separate(np.array([3.95, 0.0]), MaxT(covariance), 0.05)
    assert apart.above.tolist() == [[False, True], [False, False]]


def test_scores_that_do_not_vary_separate_nothing():
    covariance = Covariance(np.zeros((3, 3)), free_basis(np.ones((1, 3)) / np.sqrt(3), 3))
    joint = separate(np.array([1.0, 0.0, -1.0]), MaxT(covariance), 0.05)
    assert not joint.separated.any()
    assert np.isnan(joint.critical)
    assert not separate_each(np.zeros(3), MaxT(covariance), 0.05).any()


def test_the_smallest_gap_is_shown_with_the_power_that_is_promised():
    for critical in (1.96, 3.1):
        gap = smallest_gap(0.11, critical, 0.9)
        assert norm.sf(critical - gap / 0.11) == pytest.approx(0.9, abs=1e-6)
        assert power_of(gap, 0.11, critical) == pytest.approx(0.9)
        assert power_of(-gap, 0.11, critical) == pytest.approx(0.9)
        assert multiple_needed(-gap / 2, 0.11, critical, 0.9) == pytest.approx(4)
    assert multiple_needed(0.0, 0.11, 1.96) == np.inf


def test_ranks_and_their_changes_by_hand():
    above, below, first, later = np.zeros((4, 3, 3), dtype=bool)
    above[0, 2] = below[1, 0] = below[2, 0] = below[2, 1] = True
    np.testing.assert_array_equal(rank_bounds(above, below), [[1, 2, 3], [2, 3, 3]])
    # The first model is above both others, and then below them.
    first[0, 1:] = later[1:, 0] = True
    found = rank_changes((np.array([3.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0])), (first, later))
    expected = {"rank_before": [1, 2, 2], "rank_after": [3, 2, 1], "rank_change": [-2, 0, 1]}
    expected |= {"rank_change_low": [-2, 0, 0], "rank_change_high": [-2, 2, 2]}
    assert {name: values.tolist() for name, values in found.items()} == expected


def test_the_critical_value_of_differences_is_the_separations():
    for k in (2, 5):
        covariance = draw_covariance(np.random.default_rng(k), k)
        draws = MaxT(covariance, 3)
        found = draws.critical_of_pairs(0.1)
        assert found == separate(np.arange(len(covariance.matrix)), draws, 0.1).critical


# --- letters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_models_share_a_letter_exactly_where_they_are_not_separated(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    separated = np.triu(rng.uniform(size=(k, k)) < rng.uniform(), 1)
    separated |= separated.T
    scores = rng.normal(size=k)
    letters = letter_groups(separated, scores)
    for j, other in itertools.combinations(range(k), 2):
        assert bool(set(letters[j]) & set(letters[other])) != separated[j, other]
    assert all(letters)
    assert letters[int(np.argmax(scores))].startswith("a")
    used = sorted(set("".join(letters)))
    # No letter can be left out: each is the only one of some pair, or of a model that stands alone.
    for letter in used:
        fewer = [set(text) - {letter} for text in letters]
        lost = any(
            not separated[j, other] and not fewer[j] & fewer[other] for j, other in itertools.combinations(range(k), 2)
        )
        assert lost or not all(fewer)
    order = rng.permutation(k)
    again = letter_groups(separated[np.ix_(order, order)], scores[order])
    assert [again[place] for place in np.argsort(order)] == list(letters)


def test_more_groups_than_letters_are_numbered():
    k = 60
    far = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) > 1
    letters = letter_groups(far, -np.arange(k, dtype=float))
    assert letters[0] == "1"
    assert letters[1] == "1,2"
    assert letters[-1] == "59"


def test_too_many_groups_have_no_letters_and_take_no_time():
    """Each pair of neighbours 2 j, 2 j + 1 is separated and no other pair: 2^30 groups of one model of each pair."""
    separated = np.zeros((60, 60), dtype=bool)
    even = np.arange(0, 60, 2)
    separated[even, even + 1] = separated[even + 1, even] = True
    assert letter_groups(separated, -np.arange(60.0)) == ("",) * 60
    assert letter_groups(separated[:8, :8], -np.arange(8.0), max_groups=15) == ("",) * 8
    assert all(letter_groups(separated[:8, :8], -np.arange(8.0), max_groups=16))


@pytest.mark.long
def test_many_models_are_separated_in_blocks_with_fewer_draws():
    """Against a plain twin with all t statistics in one array; 250 models have 62,250 ordered pairs."""
    rng = np.random.default_rng(9)
    k = 250
    covariance, estimate = Covariance(np.diag(rng.uniform(0.5, 2.0, k)), np.eye(k)), 3 * rng.normal(size=k)
    noise = MaxT(covariance, n_draws=200)
    tracemalloc.start()
    joint = separate(estimate, noise, 0.05)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pairs = differences(covariance, *np.nonzero(~np.eye(k, dtype=bool)))
    (rows,) = [made(np.arange(len(pairs.first))) for made in noise.draws.blocks(pairs)]
    t = (estimate[pairs.first] - estimate[pairs.second]) / pairs.std_error
    order = np.argsort(-t)
    p = np.empty(len(t))
    running = np.maximum.accumulate(rows[order[::-1]], axis=0)[::-1]
    p[order] = (1 + (running >= t[order, None].astype(rows.dtype)).sum(axis=1)) / 201
    single = norm.sf(t)
    p = np.clip(p, single, holm(single))
    p[order] = np.maximum.accumulate(p[order])
    up = t > 0
    np.testing.assert_allclose(joint.p_above[pairs.first[up], pairs.second[up]], p[up])
    assert peak < rows.nbytes


def test_a_p_value_of_exactly_alpha_separates():
    p_above = np.array([[1.0, 0.05, 0.05 + 1e-12], [1.0, 1.0, 0.01], [1.0, 1.0, 1.0]])
    separation = Separation(p_above, 2.0, 0.05)
    np.testing.assert_array_equal(separation.above, [[False, True, False], [False, False, True], [False] * 3])
    assert separation.n_separated == 2
    np.testing.assert_array_equal(separation.separated, separation.above | separation.above.T)


@pytest.mark.long
def test_each_model_is_separated_up_to_a_p_value_of_exactly_alpha():
    """For two models, the families are one two-sided pair of tests with the p-value of a plain test."""
    estimate, covariance = np.array([0.2, -0.2]), Covariance(0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(2))
    draws = MaxT(covariance)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_above = separate_each(estimate, draws, middle)[0, 1, 0]
        low, high = (low, middle) if is_above else (middle, high)
    # ``high`` is the p-value itself: the smallest float at which the models are separated.
    p = separate(estimate, draws, 0.05).p_above[0, 1]
    assert high == pytest.approx(p, abs=1e-12)
    assert separate_each(estimate, draws, p)[0, 1, 0]
    assert not separate_each(estimate, draws, np.nextafter(p, 0))[0, 1, 0]


def test_tests_of_many_differences_use_the_threads_of_the_fit(monkeypatch):
    numbers = []

    def in_order(work, tasks, n_threads, *, boosts):
        # The number of threads of LightGBM, one for the process, is left alone.
        assert not boosts
        numbers.append(n_threads)
        return map(work, tasks)

    monkeypatch.setattr(bootstrap_and_max_t, "in_order", in_order)
    noise = MaxT(Covariance(np.eye(50), np.eye(50)), n_draws=200)
    for n_jobs in (1, 3):
        noise.n_jobs = n_jobs
        separate_each(np.arange(50.0), noise, 0.05)
    assert numbers == [1, 3]
    votes = dr.datasets.simulate_arena(n=2000, rng=0)
    fitted = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, n_jobs=2, rng=0)
    assert fitted.simultaneous.n_jobs == 2
    assert fitted.bootstrap("gaussian").simultaneous.n_jobs == 2

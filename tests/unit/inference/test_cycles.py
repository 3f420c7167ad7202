"""Cycles are found and counted as by going through all triples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from dmlrank.inference.covariance import Covariance
from dmlrank.inference.ranks import closest_cycle, count_cycles, find_cycles, margin_p_values


def drawn_p_values(seed, n_items, share_compared):
    """P-values at (winner, loser) of random pairs, infinite elsewhere."""
    rng = np.random.default_rng(seed)
    p = np.full((n_items, n_items), np.inf)
    for j, k in itertools.combinations(range(n_items), 2):
        if rng.random() < share_compared:
            winner, loser = (j, k) if rng.random() < 0.5 else (k, j)
            p[winner, loser] = rng.random()
    return p


def all_cycles(p):
    """Every triple a > b > c > a with a before b and c, by its largest p-value."""
    found = {}
    for a, b, c in itertools.permutations(range(len(p)), 3):
        largest = max(p[a, b], p[b, c], p[c, a])
        if a < min(b, c) and np.isfinite(largest):
            found[a, b, c] = largest
    return found


@pytest.mark.parametrize("share_compared", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_cycles_are_those_of_all_triples(seed, share_compared):
    p = drawn_p_values(seed, 9, share_compared)
    expected = all_cycles(p)
    assert count_cycles(np.isfinite(p)) == len(expected)
    found = find_cycles(p, 0.5)
    limited = {triple: largest for triple, largest in expected.items() if largest <= 0.5}
    assert dict(zip(map(tuple, found.items.tolist()), found.p_adjusted.tolist(), strict=True)) == limited
    assert (np.diff(found.p_adjusted) >= 0).all()
    closest = closest_cycle(p)
    assert tuple(closest.items[0].tolist()) == min(expected, key=expected.get)
    assert closest.p_adjusted[0] == min(expected.values())


def test_a_transitive_tournament_has_no_cycle():
    p = np.where(np.triu(np.ones((6, 6)), 1) > 0, 0.01, np.inf)
    assert count_cycles(np.isfinite(p)) == 0
    assert len(find_cycles(p, 1.0).items) == len(closest_cycle(p).items) == 0


@pytest.mark.parametrize("first", range(5))
def test_a_cycle_is_found_wherever_its_models_stand(first):
    p = np.where(np.triu(np.ones((7, 7)), 1) > 0, 0.01, np.inf)
    p[first, first + 2], p[first + 2, first] = np.inf, 0.02
    assert count_cycles(np.isfinite(p)) == 1
    for found in (find_cycles(p, 0.05), closest_cycle(p)):
        assert found.items.tolist() == [[first, first + 1, first + 2]]
        assert found.p_adjusted.tolist() == [0.02]


def test_p_values_are_adjusted_for_all_pairs():
    estimate, error = np.array([0.4, 0.3, 0.0, 0.2]), np.array([0.1, 0.1, 0.1, 0.0])
    bound = margin_p_values(estimate, error, None)
    single = 2 * norm.sf(np.abs(estimate[:3] / error[:3]))
    np.testing.assert_allclose(bound[:3], 1 - (1 - single) ** 4, rtol=1e-9)
    assert bound[3] == 1.0
    joint = margin_p_values(estimate, error, Covariance(np.diag(error**2), np.eye(4)))
    np.testing.assert_allclose(joint[:3], 1 - (1 - single) ** 3, atol=0.01)
    assert joint[3] == 1.0
    # Where all margins are the same number, there is one test.
    one_number = Covariance(np.full((3, 3), 0.01), np.ones((3, 1)) / 3**0.5)
    same = margin_p_values(np.full(3, 0.3), np.full(3, 0.1), one_number)
    np.testing.assert_allclose(same, single[1], rtol=0.05)


def test_two_hundred_models_have_more_than_a_million_triples():
    p = drawn_p_values(0, 200, 1.0)
    n_cycles = count_cycles(np.isfinite(p))
    assert 300_000 < n_cycles < 350_000
    assert len(find_cycles(p, 1.0).items) == n_cycles

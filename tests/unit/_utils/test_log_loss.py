"""Log-loss against loops."""

import numpy as np
import pytest

from dmlrank.nuisance.training_rows import log_loss


def test_it_is_the_sum_over_votes_and_impossible_labels_cost_what_the_smallest_probability_costs():
    rng = np.random.default_rng(0)
    p, votes = rng.dirichlet(np.ones(3), size=20), rng.integers(4, size=(20, 3)).astype(float)
    expected = -sum(votes[i, c] * np.log(p[i, c]) for i in range(20) for c in range(3))
    assert log_loss(p, votes) == pytest.approx(expected, rel=1e-12)
    never = np.array([[1.0, 0.0]])
    assert log_loss(never, np.array([[0.0, 2.0]])) == pytest.approx(-2 * np.log(1e-12))
    assert log_loss(never, np.array([[0.0, 2.0]]), smallest=1e-3) == pytest.approx(-2 * np.log(1e-3))

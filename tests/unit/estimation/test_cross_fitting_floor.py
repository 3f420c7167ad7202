"""The floor of mu against a search by loops, and that it follows what the labels say of the extremes."""

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation import cross_fitting as floor
from dmlrank.estimation.cross_fitting import HeldOutLabels, select_floor


def cells_of(y, n_votes=None):
    n = len(y)
    zeros = np.zeros(n, dtype=int)
    votes = np.ones(n, dtype=int) if n_votes is None else n_votes
    return Cells(np.arange(n), zeros, zeros + 1, np.asarray(y, dtype=float), votes, np.zeros(n, dtype=bool))


def draw(seed, n_categories, n=300, concentration=0.5):
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(n_categories, concentration), size=n)
    votes = rng.integers(1, 5, size=n)
    y = np.stack([rng.multinomial(count, p) / count for count, p in zip(votes, mu, strict=True)])
    return mu, cells_of(y, votes)


@pytest.mark.parametrize("overconfidence", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_it_has_the_smallest_log_loss_of_its_grid(n_categories, overconfidence):
    mu, cells = draw(0, n_categories)
    predicted = mu**overconfidence / (mu**overconfidence).sum(axis=1, keepdims=True)
    losses = {}
    for level in floor.FLOORS:
        if level * n_categories >= 0.5:
            continue
        losses[level] = 0.0
        for p, y, votes in zip(predicted, cells.y, cells.n_votes, strict=True):
            raised = [max(value, level) for value in p]
            losses[level] -= sum(
                votes * share * np.log(value / sum(raised)) for share, value in zip(y, raised, strict=True)
            )
    assert select_floor(HeldOutLabels(predicted, cells)) == min(losses, key=losses.get)


def test_predictions_more_extreme_than_the_truth_raise_it():
    mu, cells = draw(1, 3, n=3000)
    assert select_floor(HeldOutLabels(mu, cells)) <= 0.005
    too_sure = mu**3 / (mu**3).sum(axis=1, keepdims=True)
    assert select_floor(HeldOutLabels(too_sure, cells)) >= 0.02


@pytest.mark.parametrize(("n_categories", "largest"), [(2, 0.1), (3, 0.1), (4, 0.1), (5, 0.07)])
def test_floors_leave_room_for_the_other_categories(n_categories, largest):
    wrong = np.tile(np.r_[1.0, np.zeros(n_categories - 1)], (50, 1))
    assert select_floor(HeldOutLabels(np.roll(wrong, 1, axis=1), cells_of(wrong))) == largest

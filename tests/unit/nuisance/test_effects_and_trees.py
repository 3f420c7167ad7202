"""How long all folds are boosted together, and what is left of the boosters."""

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank.nuisance import effects_and_trees
from dmlrank.nuisance.boosting import RANDOM_THRESHOLDS
from dmlrank.nuisance.effects_and_trees import BoostingPath, boost_together, booster_parameters


class Scripted:
    """A booster whose held-out losses are known beforehand."""

    def __init__(self, losses):
        self.losses, self.done = losses, 0

    def update(self):
        self.done += 1

    def eval_valid(self):
        return [("held out", "loss", self.losses[self.done - 1], False)]

    def current_iteration(self):
        return self.done


def boosted(losses, best=None):
    return boost_together([(Scripted(losses), 1.0)], 1.0, 1, best)


def test_it_goes_on_until_nothing_was_gained_for_ten_rounds():
    falling = [0.9, 0.8, 0.7, *[0.75] * 50]
    path = boosted(falling)
    assert path.rounds == 3
    assert len(path.losses) == 1 + 3 + 10
    assert path.loss == 0.7


def test_where_the_first_rounds_gain_nothing_it_ends_early():
    path = boosted([1.1] * 50)
    assert path.rounds == 0
    assert len(path.losses) == 1 + 5
    late = boosted([1.1, 1.1, 1.1, 1.1, 0.9, *[0.95] * 50])
    assert late.rounds == 5


def test_boosting_ends_after_the_largest_number_of_rounds(monkeypatch):
    monkeypatch.setattr(effects_and_trees, "MAX_ROUNDS", 8)
    assert boosted([1 - 0.01 * number for number in range(50)]).rounds == 8


def test_a_configuration_behind_the_best_one_is_given_up_once_warm():
    best = BoostingPath([], [1.0, *[0.9 - 0.01 * number for number in range(20)]], [()] * 21)
    behind = boosted([0.95 - 0.01 * number for number in range(20)], best)
    assert len(behind.losses) == 1 + 5
    ahead = boosted([0.85 - 0.01 * number for number in range(20)] + [0.9] * 20, best)
    assert ahead.rounds == 20


def test_folds_count_by_their_weight_and_one_without_held_out_cells_has_no_say():
    boosters = [Scripted([0.5, 0.7] + [9.0] * 20), Scripted([0.9, 0.4] + [9.0] * 20), Scripted([-5.0] * 30)]
    path = boost_together(list(zip(boosters, [1.0, 3.0, 0.0], strict=True)), 4.0, 1, None)
    np.testing.assert_allclose(path.losses[1:3], [0.5 + 2.7, 0.7 + 1.2])
    assert path.rounds == 2
    assert [booster.done for booster in boosters] == [12] * 3


def trained(y, x, n_classes=None, held_out=None):
    booster = lgb.Booster(
        booster_parameters(n_classes, RANDOM_THRESHOLDS, 1, 1), lgb.Dataset(x, y, params={"verbosity": -1})
    )
    booster.add_valid(booster.train_set.create_valid(x, y if held_out is None else held_out), "held out")
    return booster


@pytest.mark.parametrize("n_classes", [None, 3])
def test_cut_leaves_the_best_rounds(n_classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = (x[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int) + (n_classes == 3) * (x[:, 1] > 0)
    # Held-out labels of chance alone soon stop the loss from falling.
    other = np.where(rng.random(300) < 0.5, y, rng.permutation(y))
    booster = trained(y, x, n_classes, other)
    path = boost_together([(booster, 300.0)], 1e9, 1, None)
    assert 0 < path.rounds < len(path.losses) - 1
    path.keep_best_rounds()
    assert booster.current_iteration() == path.iterations[path.rounds][0]
    retrained = trained(y, x, n_classes, other)
    for _ in range(path.rounds):
        retrained.update()
    np.testing.assert_allclose(booster.predict(x), retrained.predict(x), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [None, 3])
def test_a_first_round_without_a_split_is_no_round(n_classes):
    """LightGBM keeps the trees of such a round, however often they are removed."""
    booster = trained(np.arange(15) % (n_classes or 2), np.arange(15.0)[:, None], n_classes)
    path = boost_together([(booster, 0.0)], 0.0, 1, None)
    assert path.rounds == 0
    assert booster.num_trees() == (n_classes or 1)
    path.keep_best_rounds()
    scores = booster.predict(np.arange(5.0)[:, None], raw_score=True)
    np.testing.assert_array_equal(scores, 0.0)


def test_rounds_without_a_split_take_no_tree_of_earlier_rounds_with_them():
    """Labels that a few trees tell apart for good: the other fold goes on for longer."""
    rng = np.random.default_rng(1)
    flat = trained(np.arange(60) % 2, np.zeros((60, 1)))
    x = rng.normal(size=(300, 1))
    y = (x[:, 0] > 0).astype(int)
    useful = trained(y, x)
    path = BoostingPath([flat, useful], [1.0], [(0, 0)])
    for loss in (0.9, 0.8, 0.85, 0.85):
        for booster in path.boosters:
            booster.update()
        path.losses.append(loss)
        path.iterations.append(tuple(booster.current_iteration() for booster in path.boosters))
    assert path.iterations[-1][0] < 4 == path.iterations[-1][1]
    iterations = path.iterations[2]
    path.keep_best_rounds()
    assert tuple(booster.current_iteration() for booster in path.boosters) == iterations

"""Boosting on all folds at once, for as long as the held-out log-loss falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from ..._utils.parallel import Workers
from .parameters import Parameter, fixed_parameters

MAX_ROUNDS = 500
PATIENCE = 10
# Rounds after which a configuration that has gained nothing, or is behind the best one's loss at the same round, is
# given up.
WARM_UP = 5
# Random thresholds (Geurts, Ernst and Wehenkel 2006) average to smooth functions: on the tie simulator they halve the
# squared error of mu that exhaustive thresholds have. These are for functions that really jump.
TREES: Mapping[str, Parameter] = {"extra_trees": True, "num_leaves": 15, "min_data_in_leaf": 10, "lambda_l2": 10.0}
JUMPS: Mapping[str, Parameter] = {"extra_trees": False, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 5.0}


@dataclass(frozen=True, slots=True, eq=False)
class Boosted:
    """Boosters of the trial folds, their held-out log-loss after 0, 1, 2, ... rounds, and how many trees they had.

    A round in which no split is to be had adds no tree.
    """

    boosters: list[lgb.Booster]
    losses: list[float]
    iterations: list[tuple[int, ...]]

    @property
    def loss(self) -> float:
        """The smallest loss."""
        return min(self.losses)

    @property
    def rounds(self) -> int:
        """The first number of rounds with the smallest loss."""
        return int(np.argmin(self.losses))

    def given_up(self, best: Boosted | None) -> bool:
        """Whether nothing is to be hoped for from further rounds, seen the best one of other configurations."""
        done = len(self.losses) - 1
        stale = done - self.rounds >= (PATIENCE if self.rounds else WARM_UP)
        behind = best is not None and WARM_UP <= done < len(best.losses) and self.losses[done] > best.losses[done]
        return done >= MAX_ROUNDS or stale or behind

    def cut(self) -> None:
        """Leave the best rounds only."""
        for booster, kept in zip(self.boosters, self.iterations[self.rounds], strict=True):
            while booster.current_iteration() > kept:
                booster.rollback_one_iter()
            booster.free_dataset()


def parameters_of(
    n_classes: int | None, own: Mapping[str, Parameter], seed: int, n_threads: int
) -> dict[str, Parameter]:
    """Parameters of a booster that starts from given scores; binary where ``n_classes`` is None."""
    metric = "binary_logloss" if n_classes is None else "multi_logloss"
    return {**fixed_parameters(n_classes, seed, n_threads), "metric": metric, "boost_from_average": False, **own}


def boost_together(
    boosters: list[lgb.Booster], sizes: Sequence[float], unboosted: float, workers: int, best: Boosted | None
) -> Boosted:
    """Boost on all trial folds at once, as long as their held-out log-loss falls and is not behind the best one's.

    Parameters
    ----------
    boosters : list of Booster
        One per fold, with a valid set where ``sizes`` is not zero.
    sizes : sequence of float
        Weights of the held-out cells of each fold.
    unboosted : float
        Held-out log-loss before the first round.
    workers : int
        Folds at a time.
    best : Boosted or None
        The best configuration so far.
    """
    made = Boosted(boosters, [unboosted], [(0,) * len(boosters)])

    def another_round(number: int) -> tuple[float, int]:
        booster = boosters[number]
        booster.update()
        loss = float(sizes[number] * booster.eval_valid()[0][2]) if sizes[number] else 0.0
        return loss, booster.current_iteration()

    with Workers(workers) as folds:
        while not made.given_up(best):
            losses, iterations = zip(*folds.in_order(another_round, range(len(boosters))), strict=True)
            made.losses.append(sum(losses))
            made.iterations.append(iterations)
    return made

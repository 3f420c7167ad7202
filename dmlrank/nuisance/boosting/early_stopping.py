"""Early stopping of boosters of all trial folds together, by their held-out log-loss."""

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
class TrialFold:
    """A booster of a fold whose held-out cells say how many rounds are enough.

    Attributes
    ----------
    booster : lightgbm.Booster
        The held-out cells are its only valid set.
    weight : float
        Of the held-out cells; zero where there are none.
    """

    booster: lgb.Booster
    weight: float

    @classmethod
    def of(
        cls, parameters: Mapping[str, Parameter], training: lgb.Dataset, held_out: lgb.Dataset | None, weight: float
    ) -> TrialFold:
        """Begin to boost; without held-out cells the fold has no say."""
        booster = lgb.Booster(dict(parameters), training)
        if held_out is not None:
            booster.add_valid(held_out, "held out")
        return cls(booster, weight)


@dataclass(frozen=True, slots=True, eq=False)
class BoostingPath:
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

    def given_up(self, best: BoostingPath | None) -> bool:
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
    folds: Sequence[TrialFold], unboosted: float, workers: int, best: BoostingPath | None
) -> BoostingPath:
    """Boost on all trial folds at once, as long as their held-out log-loss falls and is not behind the best one's.

    Parameters
    ----------
    folds : sequence of TrialFold
    unboosted : float
        Held-out log-loss before the first round.
    workers : int
        Folds at a time.
    best : BoostingPath or None
        The best configuration so far.
    """
    made = BoostingPath([fold.booster for fold in folds], [unboosted], [(0,) * len(folds)])

    def another_round(fold: TrialFold) -> tuple[float, int]:
        fold.booster.update()
        loss = float(fold.weight * fold.booster.eval_valid()[0][2]) if fold.weight else 0.0
        return loss, fold.booster.current_iteration()

    with Workers(workers) as threads:
        while not made.given_up(best):
            losses, iterations = zip(*threads.in_order(another_round, folds), strict=True)
            made.losses.append(sum(losses))
            made.iterations.append(iterations)
    return made

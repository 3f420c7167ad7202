"""Selection of a booster's hyperparameters: a few configurations with early stopping, or a random search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from ..._utils.computation import report
from ...data.preferences import IntArray
from ...exceptions import OptionError, OptionTypeError, check_choice
from .early_stopping import EXHAUSTIVE_THRESHOLDS, MAX_ROUNDS, PATIENCE, RANDOM_THRESHOLDS, WARM_UP
from .parameter_names import ROUND_NAMES
from .parameters import Parameter, Settings, as_settings, check_parameters
from .random_search import CrossValidate, InnerFolds, RandomSearch, best_draw, cross_validate_last_round

Tune: TypeAlias = str | Mapping[str, Parameter] | RandomSearch | None

INNER_FOLDS = 3
# With at least this number of rows, one inner fold is enough to compare configurations.
_SINGLE_FOLD_ROWS = 10_000

CONFIGURATIONS: tuple[Mapping[str, Parameter], ...] = (
    {"extra_trees": True, "num_leaves": 6, "min_data_in_leaf": 10, "lambda_l2": 1.0},
    RANDOM_THRESHOLDS,
    {"extra_trees": True, "num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 10.0},
    EXHAUSTIVE_THRESHOLDS,
)


def check_tune(tune: Tune) -> None:
    """Check that ``tune`` is ``"cv"``, ``"random"``, a search, None or a mapping of LightGBM's parameters."""
    if isinstance(tune, Mapping):
        rounds = {name: tune[name] for name in ROUND_NAMES if name in tune}
        if len(rounds) > 1 or not all(_is_round_count(count) for count in rounds.values()):
            raise OptionError(
                f"tune has the number of rounds {rounds}; pass one number of rounds, a whole number of at least 1"
            )
        check_parameters(tune, "tune")
    elif isinstance(tune, str):
        check_choice(tune, ["cv", "random"], "tune")
    elif tune is RandomSearch:
        raise OptionTypeError("tune is the class RandomSearch; pass an instance: tune=RandomSearch()")
    elif tune is not None and not isinstance(tune, RandomSearch):
        raise OptionTypeError(
            f"tune has the type {type(tune).__name__}, which is not allowed; pass 'cv', 'random', RandomSearch(...), a "
            f"dict of LightGBM's parameters, or None"
        )


def _is_round_count(value: object) -> bool:
    """Return whether a value is a number of rounds that LightGBM can count to."""
    return not isinstance(value, bool) and isinstance(value, int | np.integer) and 1 <= int(value) < 2**31


def tuned_settings(
    tune: Tune,
    train: lgb.Dataset,
    unit: IntArray,
    fixed: Mapping[str, Parameter],
    rng: np.random.Generator,
    *,
    configurations: Sequence[Mapping[str, Parameter]] = CONFIGURATIONS,
    single_fold_rows: int = _SINGLE_FOLD_ROWS,
    cross_validate: CrossValidate | None = None,
) -> Settings:
    """Return the hyperparameters that are selected for one training set.

    Shapes: unit (r,).
    """
    if isinstance(tune, Mapping):
        return as_settings(tune)
    search = RandomSearch() if tune == "random" else tune
    n_folds = search.n_folds if isinstance(search, RandomSearch) else INNER_FOLDS
    if tune is None or len(np.unique(unit)) < 2 * n_folds:
        return Settings()
    folds = draw_inner_folds(unit, rng, n_folds)
    if isinstance(search, RandomSearch):
        run = cross_validate_last_round if cross_validate is None else cross_validate
        return best_draw(search, train, folds, fixed, rng=rng, cross_validate=run)
    run = lgb.cv if cross_validate is None else cross_validate
    trial_folds = folds if len(unit) < single_fold_rows else folds[:1]
    best: list[float] = []
    selected = Settings()
    for n_tried, configuration in enumerate(configurations, start=1):
        stopping = _EarlyStopping(best)
        parameters = {**fixed, **configuration}
        run(parameters, train, num_boost_round=MAX_ROUNDS, folds=trial_folds, callbacks=[stopping])
        if not best or min(stopping.losses) < min(best):
            best, selected = stopping.losses, Settings(configuration, int(np.argmin(stopping.losses)) + 1)
        report(n_tried, len(configurations), "tuning, configurations", minor=True)
    return selected


class _EarlyStopping:
    """A callback of LightGBM that records the held-out log-loss by round and stops a cross-validation.

    Boosting stops where the loss no longer falls, or where it is larger than the best configuration's at the same
    round.

    best: Losses of the best configuration so far, by round; empty for the first configuration.
    """

    def __init__(self, best: Sequence[float]) -> None:
        self._best = best
        self.losses: list[float] = []

    def __call__(self, env: CallbackEnv) -> None:
        self.losses.append(float(env.evaluation_result_list[0][2]))
        n_rounds = len(self.losses)
        stale = n_rounds - 1 - int(np.argmin(self.losses)) >= PATIENCE
        behind = WARM_UP <= n_rounds <= len(self._best) and self.losses[-1] > self._best[n_rounds - 1]
        if stale or behind:
            raise EarlyStopException(env.iteration, env.evaluation_result_list)


def draw_inner_folds(unit: IntArray, rng: np.random.Generator, n_folds: int = INNER_FOLDS) -> InnerFolds:
    """Return training rows and held-out rows of random folds that never split a unit.

    Shapes: unit (r,).
    """
    units, place = np.unique(unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(units)) % n_folds)[place]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]

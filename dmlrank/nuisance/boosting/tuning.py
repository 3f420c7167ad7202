"""Hyperparameter tuning of a booster: a few configurations with early stopping, a random search, or given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException
from numpy.typing import NDArray

from ..._utils.progress import report
from ...exceptions import OptionError, OptionTypeError, check_choice
from .early_stopping import EXHAUSTIVE_THRESHOLDS, MAX_ROUNDS, PATIENCE, RANDOM_THRESHOLDS, WARM_UP
from .parameter_names import ROUND_NAMES
from .parameters import Parameter, Settings, as_settings, check_parameters
from .random_search import InnerFolds, RandomSearch, best_draw

Tune = str | Mapping[str, Parameter] | RandomSearch | None

INNER_FOLDS = 3
# Rows from which one inner fold says enough.
_ENOUGH = 10_000

CONFIGURATIONS: tuple[Mapping[str, Parameter], ...] = (
    {"extra_trees": True, "num_leaves": 6, "min_data_in_leaf": 10, "lambda_l2": 1.0},
    RANDOM_THRESHOLDS,
    {"extra_trees": True, "num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 10.0},
    EXHAUSTIVE_THRESHOLDS,
)


def check_tune(tune: Tune) -> None:
    """Raise unless ``tune`` is ``"cv"``, ``"random"``, a search, None or a mapping of LightGBM parameters.

    Examples
    --------
    >>> check_tune("cv")
    """
    if isinstance(tune, Mapping):
        rounds = [tune[name] for name in ROUND_NAMES if name in tune]
        if len(rounds) > 1 or any(
            isinstance(r, bool) or not isinstance(r, int | np.integer) or not 1 <= r < 2**31 for r in rounds
        ):
            raise OptionError(f"tune: the number of rounds is one whole number of at least 1, not {rounds}")
        check_parameters(tune, "tune")
    elif isinstance(tune, str):
        check_choice(tune, ["cv", "random"], "tune")
    elif tune is RandomSearch:
        raise OptionTypeError("tune is the class RandomSearch; an instance is needed: tune=RandomSearch()")
    elif tune is not None and not isinstance(tune, RandomSearch):
        raise OptionTypeError(
            f"tune is a {type(tune).__name__}; allowed: 'cv', 'random', RandomSearch(...), a dict of LightGBM "
            f"parameters, None"
        )


def tuned_settings(
    tune: Tune,
    train: lgb.Dataset,
    unit: NDArray[np.intp],
    fixed: Mapping[str, Parameter],
    rng: np.random.Generator,
) -> Settings:
    """Hyperparameters selected for one training set.

    ``"cv"`` compares a handful of configurations by their log-loss on inner folds that never split a unit, or on one of
    these where rows are many, each with early stopping; all of them use the bins of ``train``. ``"random"`` is
    ``RandomSearch()``. None means LightGBM's own defaults with 100 rounds, and so does a search with fewer than two
    units for every inner fold.

    Parameters
    ----------
    train : lightgbm.Dataset
        The training rows, (r,).
    unit : ndarray of int, shape (r,)
        What inner folds must not split.
    fixed : mapping
        Objective, seed and threads.
    """
    if isinstance(tune, Mapping):
        return as_settings(tune)
    search = RandomSearch() if tune == "random" else tune
    n_folds = search.n_folds if isinstance(search, RandomSearch) else INNER_FOLDS
    if tune is None or len(np.unique(unit)) < 2 * n_folds:
        return Settings()
    folds = _inner_folds(unit, rng, n_folds)
    if isinstance(search, RandomSearch):
        return best_draw(search, train, folds, fixed, rng)
    used = folds if len(unit) < _ENOUGH else folds[:1]
    best: list[float] = []
    chosen = Settings()
    for done, configuration in enumerate(CONFIGURATIONS, start=1):
        losses = _trial(configuration, train, used, fixed, best)
        if not best or min(losses) < min(best):
            best, chosen = losses, Settings(configuration, int(np.argmin(losses)) + 1)
        report(done, len(CONFIGURATIONS), "tuning, configurations", minor=True)
    return chosen


def _trial(
    configuration: Mapping[str, Parameter],
    train: lgb.Dataset,
    folds: InnerFolds,
    fixed: Mapping[str, Parameter],
    leader: Sequence[float],
) -> list[float]:
    """Held-out log-loss by round, as long as it falls and is not behind the leader's."""
    losses: list[float] = []

    def stop(env: CallbackEnv) -> None:
        losses.append(float(env.evaluation_result_list[0][2]))
        done = len(losses)
        stale = done - 1 - int(np.argmin(losses)) >= PATIENCE
        behind = WARM_UP <= done <= len(leader) and losses[-1] > leader[done - 1]
        if stale or behind:
            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    lgb.cv({**fixed, **configuration}, train, num_boost_round=MAX_ROUNDS, folds=folds, callbacks=[stop])
    return losses


def _inner_folds(unit: NDArray[np.intp], rng: np.random.Generator, n_folds: int = INNER_FOLDS) -> InnerFolds:
    units, position = np.unique(unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(units)) % n_folds)[position]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]

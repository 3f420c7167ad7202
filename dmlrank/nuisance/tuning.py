"""Which hyperparameters a booster is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..exceptions import OptionError, OptionTypeError, check_choice

Parameter = float | int | str | bool

_MAX_ROUNDS = 500
_PATIENCE = 20
_INNER_FOLDS = 3

# From stumps that see main effects only to trees deep enough for interactions of both items with a feature.
_CONFIGURATIONS: tuple[Mapping[str, Parameter], ...] = (
    {"num_leaves": 4, "min_data_in_leaf": 10, "lambda_l2": 1.0},
    {"num_leaves": 8, "min_data_in_leaf": 20, "lambda_l2": 1.0},
    {"num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 5.0},
    {"num_leaves": 31, "min_data_in_leaf": 40, "lambda_l2": 5.0},
)
_ROUND_NAMES = ("n_estimators", "num_iterations", "num_boost_round", "num_round", "num_rounds", "n_iter")


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of a booster and its number of rounds."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    rounds: int = 100


def check_tune(tune: str | Mapping[str, Parameter] | None) -> None:
    """Raise unless ``tune`` is ``"cv"``, None or a mapping of LightGBM parameters.

    Examples
    --------
    >>> check_tune("cv")
    """
    if isinstance(tune, Mapping):
        rounds = [tune[name] for name in _ROUND_NAMES if name in tune]
        if len(rounds) > 1 or any(not isinstance(r, int | np.integer) or r < 1 for r in rounds):
            raise OptionError(f"tune: the number of rounds is one whole number of at least 1, not {rounds}")
        fixed = [name for name in ("objective", "num_class", "linear_tree") if name in tune]
        if fixed:
            raise OptionError(f"tune: {fixed[0]!r} is settled by the outcome and cannot be set")
    elif isinstance(tune, str):
        check_choice(tune, ["cv"], "tune")
    elif tune is not None:
        raise OptionTypeError(f"tune is a {type(tune).__name__}; allowed: 'cv', a dict of LightGBM parameters, None")


def settle(
    tune: str | Mapping[str, Parameter] | None,
    train: lgb.Dataset,
    unit: NDArray[np.intp],
    fixed: Mapping[str, Parameter],
    rng: np.random.Generator,
) -> Settings:
    """Settle the hyperparameters for one training set.

    ``"cv"`` compares a handful of configurations by their log-loss on inner folds that never split a unit, each with
    early stopping; all of them use the bins of ``train``. None means LightGBM's own defaults with 100 rounds.

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
        rounds = [int(tune[name]) for name in _ROUND_NAMES if name in tune]
        return Settings({k: v for k, v in tune.items() if k not in _ROUND_NAMES}, rounds[0] if rounds else 100)
    n_units = len(np.unique(unit))
    if tune is None or n_units < 2 * _INNER_FOLDS:
        return Settings()
    folds = _inner_folds(unit, rng)
    trials = [_trial(configuration, train, folds, fixed) for configuration in _CONFIGURATIONS]
    return min(trials, key=lambda trial: trial[0])[1]


def _trial(
    configuration: Mapping[str, Parameter],
    train: lgb.Dataset,
    folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    fixed: Mapping[str, Parameter],
) -> tuple[float, Settings]:
    history = lgb.cv(
        {**fixed, **configuration},
        train,
        num_boost_round=_MAX_ROUNDS,
        folds=folds,
        callbacks=[lgb.early_stopping(_PATIENCE, verbose=False)],
    )
    losses = next(values for name, values in history.items() if name.endswith("-mean"))
    return float(losses[-1]), Settings(configuration, len(losses))


def _inner_folds(unit: NDArray[np.intp], rng: np.random.Generator) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    units, position = np.unique(unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(units)) % _INNER_FOLDS)[position]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(_INNER_FOLDS)]

"""Which hyperparameters a booster is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from .._progress import report
from ..exceptions import OptionError, OptionTypeError, check_choice

Parameter = float | int | str | bool

_MAX_ROUNDS = 500
_PATIENCE = 20
_INNER_FOLDS = 3

# Random thresholds (Geurts, Ernst and Wehenkel 2006) average to smooth functions: on the tie simulator they halve the
# squared error of mu that exhaustive thresholds have. The last configuration is for functions that really jump.
_CONFIGURATIONS: tuple[Mapping[str, Parameter], ...] = (
    {"extra_trees": True, "num_leaves": 6, "min_data_in_leaf": 10, "lambda_l2": 1.0},
    {"extra_trees": True, "num_leaves": 15, "min_data_in_leaf": 10, "lambda_l2": 10.0},
    {"extra_trees": True, "num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 10.0},
    {"extra_trees": False, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 5.0},
)
# LightGBM's names for one and the same parameter.
_ROUND_NAMES = (
    "n_estimators",
    "num_iterations",
    "num_iteration",
    "num_boost_round",
    "num_round",
    "num_rounds",
    "nrounds",
    "num_tree",
    "num_trees",
    "n_iter",
    "max_iter",
)
_SETTLED = (
    "objective",
    "objective_type",
    "app",
    "application",
    "loss",
    "num_class",
    "num_classes",
    "linear_tree",
    "linear_trees",
    "categorical_feature",
    "cat_feature",
    "categorical_column",
    "cat_column",
)
_STOPPING = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")


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
        fixed = [name for name in _SETTLED if name in tune]
        if fixed:
            raise OptionError(f"tune: {fixed[0]!r} is settled by the data and cannot be set")
        stopping = [name for name in _STOPPING if name in tune]
        if stopping:
            raise OptionError(f"tune: {stopping[0]!r} needs held-out rows; tune='cv' stops early, a dict does not")
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
    trials = []
    for done, configuration in enumerate(_CONFIGURATIONS, start=1):
        trials.append(_trial(configuration, train, folds, fixed))
        report(done, len(_CONFIGURATIONS), "tuning, configurations", minor=True)
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

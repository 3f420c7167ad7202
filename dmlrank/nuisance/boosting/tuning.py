"""Selection of a booster's settings: early stopping, a few configurations, or a random search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any, TypeAlias

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from ..._utils.computation import report
from ...data.preferences import IntArray
from ...exceptions import OptionError, OptionTypeError, check_choice, listed, shown
from .parameters import (
    OF_BINS,
    Parameter,
    Settings,
    as_settings,
    check_name,
    check_parameters,
    names_in,
    parameters_by_name,
)

MAX_ROUNDS = 500
# Boosting ends after this number of rounds without a new smallest loss.
PATIENCE = 10
# Boosting ends after this number of rounds if none of them has lowered the loss. After this number of rounds or more,
# it also ends if the loss is larger than the best configuration's loss after the same number of rounds.
WARM_UP = 5
# Each split uses one random threshold per feature (Geurts, Ernst and Wehenkel 2006). Sums of such trees are nearly
# smooth functions. On data from the package's simulator with ties, the squared error of mu is half as large as with
# exhaustive thresholds.
RANDOM_THRESHOLDS: Mapping[str, Parameter] = {
    "extra_trees": True,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "lambda_l2": 10.0,
}
# Each split uses the best of all thresholds, which suits functions that jump.
EXHAUSTIVE_THRESHOLDS: Mapping[str, Parameter] = {
    "extra_trees": False,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "lambda_l2": 5.0,
}


# --- random search ----------------------------------------------------------------------------------------------------

# Training rows and held-out rows of each inner fold. Inner folds divide the training rows of one fold of the fit.
InnerFolds: TypeAlias = list[tuple[IntArray, IntArray]]
Grid: TypeAlias = Mapping[str, Sequence[Parameter]]
# The function cv of LightGBM, which is not typed, or a function with its arguments.
CrossValidate: TypeAlias = Callable[..., Any]

# The grids of Frauen et al. (arXiv 2601.21816, appendix "Hyperparameter tuning details"), in LightGBM's own names. The
# paper calls the parameters n_estimators, learning_rate, num_leaves, min_child_samples, subsample, colsample_bytree,
# reg_alpha, reg_lambda and max_depth.
_WIDE: Grid = {
    "num_iterations": (50, 100, 300, 600),
    "learning_rate": (0.03, 0.07, 0.1),
    "num_leaves": (15, 31, 63),
    "min_data_in_leaf": (10, 30, 60, 80),
    "bagging_fraction": (0.7, 0.9, 1.0),
    "feature_fraction": (0.7, 0.9, 1.0),
    "lambda_l1": (0.0, 0.1, 1.0),
    "lambda_l2": (0.0, 0.1, 0.5, 1.0),
    "max_depth": (-1, 6, 10, 15),
}
_NARROW: Grid = {
    **_WIDE,
    "num_iterations": (100, 300, 600),
    "min_data_in_leaf": (10, 30, 60),
    "lambda_l2": (0.0, 0.1, 1.0),
    "max_depth": (-1, 6, 10),
}
# The grid of the real data and the grid of the debiasing experiments are the same.
GRIDS: Mapping[str, Grid] = {"real": _WIDE, "debiasing": _WIDE, "collection": _NARROW}


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """A random search for the hyperparameters of LightGBM, for ``tune=``.

    The search draws distinct configurations from a grid and selects the one with the smallest log-loss in a
    cross-validation. This cross-validation divides the training votes of each fold of the fit into inner folds, which
    never split a prompt (or a cluster of prompts). The seed of the fit determines the draws, which differ between the
    folds of the fit.

    Parameters
    ----------
    n_draws : int
        Number of configurations that are tried. A grid with no more configurations than this is tried as a whole.
    n_folds : int
        Number of inner folds.
    grid : {"real", "debiasing", "collection"} or mapping
        One of the paper's grids: for real data (62,208 configurations), for its debiasing and misspecification
        experiments (the same grid), or for its judge and data collection experiments (19,683 configurations). Or
        ``{parameter: values}`` with LightGBM's parameters. A fraction of the rows (``bagging_fraction``) is drawn for
        every tree unless ``bagging_freq`` is given: LightGBM by itself would ignore the fraction.

    Raises
    ------
    OptionError, OptionTypeError
        If a number is too small, or if the grid is empty, not known, or has a parameter that cannot be searched.

    References
    ----------
    Frauen et al., arXiv 2601.21816, appendix "Hyperparameter tuning details".

    Examples
    --------
    >>> search = RandomSearch(n_draws=10, grid={"num_leaves": [4, 8], "n_estimators": [50, 100, 200]})
    >>> search.n_configurations
    6
    """

    n_draws: int = 30
    n_folds: int = 3
    grid: str | Grid = "real"

    def __post_init__(self) -> None:
        for name, least in (("n_draws", 1), ("n_folds", 2)):
            value = getattr(self, name)
            if not _is_whole_number(value, least):
                raise OptionError(
                    f"RandomSearch: {name}={shown(value)} is not allowed; pass a whole number of at least {least}"
                )
        if isinstance(self.grid, str):
            check_choice(self.grid, GRIDS, "RandomSearch: grid")
        else:
            object.__setattr__(self, "grid", _check_grid(self.grid))

    @property
    def values(self) -> Grid:
        """The values of each parameter, also where ``grid`` is the name of a grid."""
        return GRIDS[self.grid] if isinstance(self.grid, str) else self.grid

    @property
    def n_configurations(self) -> int:
        """Number of configurations in the grid."""
        return prod(len(values) for values in self.values.values())

    def draws(self, rng: np.random.Generator) -> list[dict[str, Parameter]]:
        """Draw distinct configurations, each with one value of every parameter of the grid.

        Parameters
        ----------
        rng : Generator
            Source of the draws.

        Returns
        -------
        list of dict
            ``n_draws`` configurations, or all of a smaller grid.

        Examples
        --------
        >>> search = RandomSearch(n_draws=2, grid={"num_leaves": [4, 8], "max_depth": [3, -1]})
        >>> search.draws(np.random.default_rng(0))
        [{'num_leaves': 8, 'max_depth': 3}, {'num_leaves': 8, 'max_depth': -1}]
        """
        size = self.n_configurations
        codes = rng.choice(size, size=min(self.n_draws, size), replace=False)
        places = np.unravel_index(codes, [len(values) for values in self.values.values()])
        columns = [[values[at] for at in place] for values, place in zip(self.values.values(), places, strict=True)]
        return [dict(zip(self.values, row, strict=True)) for row in zip(*columns, strict=True)]


def best_draw(
    search: RandomSearch,
    train: lgb.Dataset,
    folds: InnerFolds,
    fixed: Mapping[str, Parameter],
    *,
    rng: np.random.Generator,
    cross_validate: CrossValidate,
) -> Settings:
    """Return the drawn configuration with the smallest mean log-loss over the folds."""
    trials = [as_settings(_with_bagging(draw)) for draw in search.draws(rng)]
    losses = []
    for trial in trials:
        parameters = {**fixed, **trial.parameters}
        history = cross_validate(parameters, train, num_boost_round=trial.rounds, folds=folds)
        losses.append(next(values for name, values in history.items() if name.endswith("-mean"))[-1])
        report(len(losses), len(trials), "tuning, draws", minor=True)
    return trials[int(np.argmin(losses))]


def cross_validate_last_round(
    parameters: Mapping[str, Parameter], train: lgb.Dataset, *, num_boost_round: int, folds: InnerFolds
) -> dict[str, list[float]]:
    """Return the mean log-loss of a configuration after its last round.

    The boosters and the loss are those of ``lightgbm.cv``, which computes the loss after every round. A random search
    needs the last one only, as the number of rounds is a part of the configuration. The losses of all other rounds took
    a sixth of its time.
    """
    losses = []
    for training_rows, held_out_rows in folds:
        booster = lgb.Booster(dict(parameters), _rows(train, training_rows, parameters))
        booster.add_valid(_rows(train, held_out_rows, parameters), "valid")
        for _ in range(num_boost_round):
            booster.update()
        losses.append(booster.eval_valid()[0][2])
    return {"valid loss-mean": [float(np.mean(losses))]}


def _rows(dataset: lgb.Dataset, rows: IntArray, parameters: Mapping[str, Parameter]) -> lgb.Dataset:
    """Return some rows of a data set, in the same bins."""
    return dataset.subset(np.sort(rows).tolist(), params={**dataset.params, **parameters})


def _with_bagging(draw: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return a configuration in which a fraction of the rows, if there is one, is drawn for every tree."""
    needs_frequency = names_in(draw, "bagging_fraction") and not names_in(draw, "bagging_freq")
    return {**draw, "bagging_freq": 1} if needs_frequency else dict(draw)


def _check_grid(grid: object) -> dict[str, tuple[Parameter, ...]]:
    """Check a user's grid, and return a copy of it in which each value of a parameter stands once."""
    if not isinstance(grid, Mapping):
        raise OptionTypeError(
            f"RandomSearch: grid has the type {type(grid).__name__}, which is not allowed; pass one of "
            f"{listed(GRIDS)}, or a mapping such as {{'num_leaves': [4, 8, 16]}}"
        )
    if not grid:
        raise OptionError("RandomSearch: grid is empty; add a parameter, such as {'num_leaves': [4, 8, 16]}")
    for name, values in grid.items():
        check_name(name, "RandomSearch: grid")
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise OptionError(
                f"RandomSearch: grid has {name!r}: {values!r}, which is not allowed; pass a list with at least one "
                f"value"
            )
        if parameters_by_name()[name] in OF_BINS:
            raise OptionError(
                f"RandomSearch: grid has {name!r}, which cannot be searched, because all draws share their bins; leave "
                f"the parameter out"
            )
    rounds = names_in(grid, "num_iterations")
    if len(rounds) > 1:
        raise OptionError(
            f"RandomSearch: grid has the number of rounds {len(rounds)} times, as {', '.join(rounds)}; keep one of them"
        )
    for name in rounds:
        for count in grid[name]:
            if not _is_whole_number(count, 1):
                raise OptionError(
                    f"RandomSearch: grid has {name}={shown(count)}, which is not allowed; pass whole numbers of at "
                    f"least 1"
                )
    copied = {
        name: tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for name, values in grid.items()
    }
    # Each value is checked together with the first values of the other parameters.
    first_values = {name: values[0] for name, values in copied.items()}
    for name, values in copied.items():
        for value in values:
            check_parameters(_with_bagging({**first_values, name: value}), "RandomSearch: grid")
    return {name: tuple(dict.fromkeys(values)) for name, values in copied.items()}


def _is_whole_number(value: object, least: int) -> bool:
    """Return whether a value is a whole number that is not below ``least``, and that LightGBM can count to."""
    return not isinstance(value, bool) and isinstance(value, Integral) and least <= int(value) < 2**31


# --- the option tune= -------------------------------------------------------------------------------------------------

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
        rounds = {name: tune[name] for name in names_in(tune, "num_iterations")}
        if len(rounds) > 1 or not all(_is_whole_number(count, 1) for count in rounds.values()):
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

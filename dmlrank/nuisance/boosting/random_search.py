"""The paper's way to tune boosters: a random search over a grid, scored by cross-validated log-loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.progress import report
from ...exceptions import OptionError, OptionTypeError, check_choice, listed
from .parameter_names import BAGGING_FREQUENCY_NAMES, BAGGING_NAMES, BIN_NAMES, ROUND_NAMES, check_names
from .parameters import Parameter, Settings, as_settings, check_parameters, known_names

InnerFolds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
Grid = Mapping[str, Sequence[Parameter]]

# The paper's tables (tab:sim_hparam_grids, tab:real_hparam_grids), in the native names of LightGBM: n_estimators,
# learning_rate, num_leaves, min_child_samples, subsample, colsample_bytree, reg_alpha, reg_lambda, max_depth.
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
# The grid of the real data and that of the debiasing experiments are the same.
GRIDS: Mapping[str, Grid] = {"real": _WIDE, "debiasing": _WIDE, "collection": _NARROW}


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """A random search for the hyperparameters of LightGBM, for ``tune=``.

    Draws distinct configurations from a grid and takes the one with the smallest log-loss on inner folds, which never
    split a prompt (or a cluster of prompts). The draws follow from the seed of the fit and differ between its folds.

    Parameters
    ----------
    n_draws : int
        Configurations that are tried; all of the grid where it has no more.
    n_folds : int
        Inner folds.
    grid : {"real", "debiasing", "collection"} or mapping
        The paper's grids for real data (62,208 configurations), for its debiasing and misspecification experiments (the
        same), and for its judge and data collection experiments (19,683); or ``{parameter: values}`` with LightGBM's
        parameters. A fraction of rows (``bagging_fraction``) is drawn anew for every tree unless ``bagging_freq`` says
        otherwise: LightGBM by itself would ignore it.

    Raises
    ------
    OptionError, OptionTypeError
        If a number is too small, or the grid is empty, is not known or has a parameter that cannot be searched.

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
            if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
                raise OptionError(f"RandomSearch: {name}={value!r}; needed is a whole number of at least {least}")
        if isinstance(self.grid, str):
            check_choice(self.grid, GRIDS, "RandomSearch: grid")
        else:
            object.__setattr__(self, "grid", _own_grid(self.grid))

    @property
    def values(self) -> Grid:
        """The values of each parameter."""
        return GRIDS[self.grid] if isinstance(self.grid, str) else self.grid

    @property
    def n_configurations(self) -> int:
        """Number of configurations in the grid."""
        return prod(len(values) for values in self.values.values())

    def draws(self, rng: np.random.Generator) -> list[dict[str, Parameter]]:
        """Distinct configurations, each with one value for every parameter of the grid.

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
    rng: np.random.Generator,
) -> Settings:
    """The drawn configuration with the smallest mean log-loss over the folds.

    Parameters
    ----------
    search : RandomSearch
    train : lightgbm.Dataset
        The training rows; every trial uses its bins.
    folds : list of (train rows, test rows)
    fixed : mapping
        Objective, seed and threads.
    rng : Generator
        Draws the configurations.
    """
    trials = [as_settings(_with_bagging(draw)) for draw in search.draws(rng)]
    losses = []
    for trial in trials:
        losses.append(_log_loss(trial, train, folds, fixed))
        report(len(losses), len(trials), "tuning, draws", minor=True)
    return trials[int(np.argmin(losses))]


def _log_loss(trial: Settings, train: lgb.Dataset, folds: InnerFolds, fixed: Mapping[str, Parameter]) -> float:
    """Log-loss after the last round: the number of rounds is a part of the configuration."""
    history = lgb.cv({**fixed, **trial.parameters}, train, num_boost_round=trial.rounds, folds=folds)
    return float(next(values for name, values in history.items() if name.endswith("-mean"))[-1])


def _with_bagging(draw: Mapping[str, Parameter]) -> dict[str, Parameter]:
    bagged = any(name in draw for name in BAGGING_NAMES)
    return {**draw, "bagging_freq": 1} if bagged and not _among(BAGGING_FREQUENCY_NAMES, draw) else dict(draw)


def _own_grid(grid: Any) -> dict[str, tuple[Parameter, ...]]:
    """A copy of a user's grid, checked, in which no value stands twice."""
    if not isinstance(grid, Mapping):
        raise OptionTypeError(
            f"RandomSearch: grid is a {type(grid).__name__}; needed is one of {listed(GRIDS)} or a mapping such as "
            f"{{'num_leaves': [4, 8, 16]}}"
        )
    check_names(grid, "RandomSearch: grid", known_names())
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise OptionError(f"RandomSearch: grid has {name!r}: {values!r}; needed is a list with at least one value")
    shared = _among(BIN_NAMES, grid)
    if shared:
        raise OptionError(f"RandomSearch: grid has {shared[0]!r}, but all draws share their bins; leave it out")
    rounds = _among(ROUND_NAMES, grid)
    if not grid or len(rounds) > 1:
        what = f"names the number of rounds {len(rounds)} times ({', '.join(rounds)})" if grid else "is empty"
        raise OptionError(f"RandomSearch: grid {what}")
    for count in grid[rounds[0]] if rounds else ():
        if isinstance(count, bool) or not isinstance(count, Integral) or int(count) < 1:
            raise OptionError(f"RandomSearch: {rounds[0]} has {count!r}; needed are whole numbers of at least 1")
    own = {name: tuple(_plain(value) for value in values) for name, values in grid.items()}
    # Every value once, beside the first ones of the others.
    base = {name: values[0] for name, values in own.items()}
    for name, values in own.items():
        for value in values:
            check_parameters(_with_bagging({**base, name: value}), "RandomSearch: grid")
    return {name: tuple(dict.fromkeys(values)) for name, values in own.items()}


def _plain(value: Any) -> Any:
    """A number of Python's where it is one of numpy's."""
    return value.item() if isinstance(value, np.generic) else value


def _among(known: Iterable[str], names: Iterable[str]) -> list[str]:
    given = set(names)
    return [name for name in known if name in given]

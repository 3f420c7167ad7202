"""A random search for the hyperparameters of boosters: draws from a grid, scored by cross-validated log-loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any, TypeAlias

import lightgbm as lgb
import numpy as np

from ..._utils.computation import report
from ...data.preferences import IntArray
from ...exceptions import OptionError, OptionTypeError, check_choice, listed, shown
from .parameter_names import BAGGING_FREQUENCY_NAMES, BAGGING_NAMES, BIN_NAMES, ROUND_NAMES, check_names
from .parameters import Parameter, Settings, as_settings, check_parameters, lightgbm_names

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
        losses.append(_last_loss(history))
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


def _last_loss(history: Mapping[str, Sequence[float]]) -> float:
    """Return the mean log-loss after the last round, as the number of rounds is a part of the configuration."""
    return float(next(values for name, values in history.items() if name.endswith("-mean"))[-1])


def _with_bagging(draw: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return a configuration in which a fraction of the rows, if there is one, is drawn for every tree."""
    has_fraction = any(name in draw for name in BAGGING_NAMES)
    has_frequency = any(name in draw for name in BAGGING_FREQUENCY_NAMES)
    return {**draw, "bagging_freq": 1} if has_fraction and not has_frequency else dict(draw)


def _check_grid(grid: object) -> dict[str, tuple[Parameter, ...]]:
    """Check a user's grid, and return a copy of it in which each value of a parameter stands once."""
    if not isinstance(grid, Mapping):
        raise OptionTypeError(
            f"RandomSearch: grid has the type {type(grid).__name__}, which is not allowed; pass one of "
            f"{listed(GRIDS)}, or a mapping such as {{'num_leaves': [4, 8, 16]}}"
        )
    if not grid:
        raise OptionError("RandomSearch: grid is empty; add a parameter, such as {'num_leaves': [4, 8, 16]}")
    check_names(grid, "RandomSearch: grid", lightgbm_names())
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise OptionError(
                f"RandomSearch: grid has {name!r}: {values!r}, which is not allowed; pass a list with at least one "
                f"value"
            )
    for name in _names_in(BIN_NAMES, grid):
        raise OptionError(
            f"RandomSearch: grid has {name!r}, which cannot be searched, because all draws share their bins; leave the "
            f"parameter out"
        )
    _check_rounds(grid)
    copied = {name: tuple(_as_python_value(value) for value in values) for name, values in grid.items()}
    # Each value is checked together with the first values of the other parameters.
    first_values = {name: values[0] for name, values in copied.items()}
    for name, values in copied.items():
        for value in values:
            check_parameters(_with_bagging({**first_values, name: value}), "RandomSearch: grid")
    return {name: tuple(dict.fromkeys(values)) for name, values in copied.items()}


def _check_rounds(grid: Mapping[str, Sequence[object]]) -> None:
    """Check that a grid has the number of rounds under one name at most, with whole numbers of at least 1."""
    names = _names_in(ROUND_NAMES, grid)
    if len(names) > 1:
        raise OptionError(
            f"RandomSearch: grid has the number of rounds {len(names)} times, as {', '.join(names)}; keep one of them"
        )
    for count in grid[names[0]] if names else ():
        if not _is_whole_number(count, 1):
            raise OptionError(
                f"RandomSearch: grid has {names[0]}={shown(count)}, which is not allowed; pass whole numbers of at "
                f"least 1"
            )


def _is_whole_number(value: object, least: int) -> bool:
    """Return whether a value is a whole number that is not below ``least``."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def _as_python_value(value: Any) -> Any:
    """Return a scalar of numpy as a value of Python's own types, and any other value as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _names_in(candidates: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the candidates that are among the names."""
    present = set(names)
    return [name for name in candidates if name in present]

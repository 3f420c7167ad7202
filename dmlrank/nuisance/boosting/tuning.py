"""Hyperparameters of LightGBM: what a user may set, a few configurations, and a random search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import lightgbm as lgb
import numpy as np
from lightgbm.callback import CallbackEnv, EarlyStopException

from ..._utils.computation import report
from ...data.preferences import IntArray
from ...exceptions import OptionError, OptionTypeError, check_choice, listed, nearest, shown

Parameter: TypeAlias = float | int | str | bool

# The parameters that a user may set: they say how trees are grown, what is drawn at random, how the computation is
# organised, and how features are binned. The others follow from the data (a vector for other columns would end the
# process), need held-out rows, or are about files and devices.
_OF_TREES = """
    num_iterations learning_rate num_leaves max_depth min_data_in_leaf min_sum_hessian_in_leaf min_gain_to_split
    lambda_l1 lambda_l2 max_delta_step path_smooth extra_trees extra_seed feature_fraction feature_fraction_bynode
    feature_fraction_seed bagging_fraction bagging_freq bagging_seed boosting data_sample_strategy top_rate other_rate
    drop_rate max_drop skip_drop xgboost_dart_mode uniform_drop drop_seed cat_l2 cat_smooth max_cat_to_onehot
    max_cat_threshold min_data_per_group cegb_tradeoff cegb_penalty_split boost_from_average use_quantized_grad
    num_grad_quant_bins quant_train_renew_leaf stochastic_rounding seed deterministic force_row_wise
    histogram_pool_size verbosity
"""
# A random search bins the data once, so that these parameters cannot be searched.
_OF_BINS = """
    max_bin min_data_in_bin bin_construct_sample_cnt data_random_seed enable_bundle is_enable_sparse use_missing
    zero_as_missing feature_pre_filter
"""
SETTABLE = (*_OF_TREES.split(), *_OF_BINS.split())
_MOST_ROUNDS = 100_000

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


class Settings(NamedTuple):
    """Hyperparameters of a booster.

    parameters: LightGBM's parameters, without the number of rounds.
    rounds: Number of rounds.
    """

    parameters: Mapping[str, Parameter]
    rounds: int = 100


def fixed_parameters(n_classes: int | None, seed: int, n_threads: int) -> dict[str, Parameter]:
    """Return the parameters that are the same for all configurations."""
    objective: dict[str, Parameter] = {"objective": "binary"}
    if n_classes is not None:
        objective = {"objective": "multiclass", "num_class": n_classes}
    return {
        **objective,
        "seed": seed,
        "num_threads": n_threads,
        "verbosity": -1,
        # These two make the trees independent of the number of threads.
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        # LightGBM's default of 100 rows per group of categories would merge all but the most frequent models.
        "min_data_per_group": 10,
    }


# --- what a user may set ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parameters_by_name() -> Mapping[str, str]:
    """Return the parameter that each name stands for, by LightGBM's own table of names."""
    table: dict[str, list[str]] = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return {name: name for name in SETTABLE} | {
        name: parameter for parameter, names in table.items() for name in (parameter, *names)
    }


def _names_in(parameters: Mapping[str, object], parameter: str) -> list[str]:
    """Return the names of one of LightGBM's parameters that are among the names of some parameters."""
    return [name for name in parameters if _parameters_by_name().get(name) == parameter]


def as_settings(parameters: Mapping[str, Parameter]) -> Settings:
    """Return the parameters of a booster and its number of rounds, which is 100 where no parameter gives one."""
    rounds = _names_in(parameters, "num_iterations")
    others = {name: value for name, value in parameters.items() if name not in rounds}
    return Settings(others, int(parameters[rounds[0]])) if rounds else Settings(others)


def check_parameters(parameters: Mapping[str, Parameter], option: str) -> None:
    """Check that a user may set the parameters, and that LightGBM accepts their values.

    LightGBM would ignore a misspelt parameter without a warning, and would refuse a value only when it trains, which is
    after all other steps of a fit.
    """
    for name, value in parameters.items():
        parameter = _parameters_by_name().get(name) if isinstance(name, str) else None
        if parameter is None:
            names = [name for name, parameter in _parameters_by_name().items() if parameter in SETTABLE]
            raise OptionError(f"{option}: LightGBM has no parameter {name!r}{nearest(name, names)}")
        if parameter not in SETTABLE:
            raise OptionError(
                f"{option}: {name!r} cannot be set, because it follows from the data, from other options of the fit "
                f"(n_jobs=, tune='cv' for early stopping), or does not control how trees are grown; leave it out"
            )
        # A text with a space could set further parameters; LightGBM ignores None, and reads too large numbers wrongly.
        if isinstance(value, str):
            allowed = value.replace(".", "").replace("_", "").lstrip("+-").isalnum()
        elif isinstance(value, float | np.floating):
            allowed = math.isfinite(value)
        else:
            allowed = isinstance(value, bool | np.bool_) or (isinstance(value, Integral) and abs(int(value)) < 2**31)
        if not allowed:
            raise OptionError(f"{option}: {name}={shown(value)} is not allowed; pass a number, a word, True or False")
        # LightGBM does not see the number of rounds before a fit trains so many.
        if parameter == "num_iterations" and not (_is_whole_number(value, 1) and int(value) <= _MOST_ROUNDS):
            raise OptionError(f"{option}: {name}={shown(value)}; pass a whole number of rounds, 1 to {_MOST_ROUNDS:,}")
    rounds = _names_in(parameters, "num_iterations")
    if len(rounds) > 1:
        raise OptionError(f"{option} has the number of rounds {len(rounds)} times, as {listed(rounds)}; keep one")
    # The types are a part of what is remembered: 1 and True are equal, and LightGBM tells them from each other.
    _grow_two_trees(tuple((name, type(value), value) for name, value in sorted(parameters.items())), option)


# The parameters are checked again whenever a fit is updated. The cache avoids growing the same trees again.
@lru_cache(maxsize=1000)
def _grow_two_trees(items: tuple[tuple[str, type, Parameter], ...], option: str) -> None:
    """Check that LightGBM grows two trees with these parameters on a few rows, of two categories and of three."""
    parameters = {name: value for name, _, value in items}
    for n_classes in (None, 3):
        settings = {**fixed_parameters(n_classes, 0, 1), **as_settings(parameters).parameters}
        try:
            rows = np.arange(120.0).reshape(60, 2)
            data = lgb.Dataset(rows, np.arange(60) % (n_classes or 2), params=settings).construct()
            booster = lgb.Booster(settings, data)
            for _ in range(2):
                booster.update()
        except (lgb.basic.LightGBMError, TypeError, ValueError, OverflowError) as error:
            reason = str(error).split(" at /")[0]
            raise OptionError(
                f"{option}: LightGBM refuses {parameters} with the message {reason!r}; change these parameters"
            ) from None


def _is_whole_number(value: object, least: int) -> bool:
    """Return whether a value is a whole number that is not below ``least``, and that LightGBM can count to."""
    return not isinstance(value, bool) and isinstance(value, Integral) and least <= int(value) < 2**31


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


def _check_grid(grid: object) -> dict[str, tuple[Parameter, ...]]:
    """Check a user's grid, and return a copy of it in which each value of a parameter stands once."""
    option = "RandomSearch: grid"
    if not isinstance(grid, Mapping):
        raise OptionTypeError(
            f"{option} has the type {type(grid).__name__}, which is not allowed; pass one of {listed(GRIDS)}, or a "
            f"mapping such as {{'num_leaves': [4, 8, 16]}}"
        )
    if not grid:
        raise OptionError(f"{option} is empty; add a parameter, such as {{'num_leaves': [4, 8, 16]}}")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
            raise OptionError(f"{option} has {name!r}: {values!r}; pass a list with at least one value")
        if isinstance(name, str) and _parameters_by_name().get(name) in _OF_BINS.split():
            raise OptionError(f"{option} has {name!r}; all draws share their bins, so leave the parameter out")
    copied = {
        name: tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for name, values in grid.items()
    }
    # Each value is checked together with the first values of the other parameters.
    first_values = {name: values[0] for name, values in copied.items()}
    for name, values in copied.items():
        for value in values:
            check_parameters(_with_bagging({**first_values, name: value}), option)
    return {name: tuple(dict.fromkeys(values)) for name, values in copied.items()}


def _with_bagging(draw: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return a configuration in which a fraction of the rows, if there is one, is drawn for every tree."""
    needs_frequency = _names_in(draw, "bagging_fraction") and not _names_in(draw, "bagging_freq")
    return {**draw, "bagging_freq": 1} if needs_frequency else dict(draw)


def cross_validate_last_round(
    parameters: Mapping[str, Parameter], train: lgb.Dataset, *, num_boost_round: int, folds: InnerFolds
) -> dict[str, list[float]]:
    """Return the mean log-loss of a configuration after its last round.

    The boosters and the loss are those of ``lightgbm.cv``, which computes the loss after every round. A random search
    needs the last one only, as the number of rounds is a part of the configuration. The losses of all other rounds took
    a sixth of its time.
    """
    losses = []
    for fold in folds:
        training, held_out = (train.subset(np.sort(rows).tolist(), {**train.params, **parameters}) for rows in fold)
        booster = lgb.Booster(dict(parameters), training)
        booster.add_valid(held_out, "valid")
        for _ in range(num_boost_round):
            booster.update()
        losses.append(booster.eval_valid()[0][2])
    return {"valid loss-mean": [float(np.mean(losses))]}


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
        check_parameters(tune, "tune")
    elif isinstance(tune, str):
        check_choice(tune, ["cv", "random"], "tune")
    elif tune is not None and not isinstance(tune, RandomSearch):
        what = "the class RandomSearch" if tune is RandomSearch else f"of type {type(tune).__name__}"
        raise OptionTypeError(
            f"tune is {what}; pass 'cv', 'random', RandomSearch(), a dict of LightGBM's parameters, or None"
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
        return Settings({})
    folds = draw_inner_folds(unit, rng, n_folds)
    if isinstance(search, RandomSearch):
        run = cross_validate or cross_validate_last_round
        trials, means = [as_settings(_with_bagging(draw)) for draw in search.draws(rng)], []
        for trial in trials:
            history = run({**fixed, **trial.parameters}, train, num_boost_round=trial.rounds, folds=folds)
            means.append(next(values for name, values in history.items() if name.endswith("-mean"))[-1])
            report(len(means), len(trials), "tuning, draws", minor=True)
        return trials[int(np.argmin(means))]
    run = cross_validate or lgb.cv
    trial_folds = folds if len(unit) < single_fold_rows else folds[:1]
    best: list[float] = []
    selected = Settings({})
    for n_tried, configuration in enumerate(configurations, start=1):
        losses: list[float] = []
        stopping = [partial(_record_or_stop, losses, best)]
        run({**fixed, **configuration}, train, num_boost_round=MAX_ROUNDS, folds=trial_folds, callbacks=stopping)
        if not best or min(losses) < min(best):
            best, selected = losses, Settings(configuration, int(np.argmin(losses)) + 1)
        report(n_tried, len(configurations), "tuning, configurations", minor=True)
    return selected


def _record_or_stop(losses: list[float], best: Sequence[float], env: CallbackEnv) -> None:
    """Record the held-out log-loss of a round in ``losses``, and stop LightGBM's cross-validation.

    It stops where the loss no longer falls, or is larger than the best configuration's at the same round.
    """
    losses.append(float(env.evaluation_result_list[0][2]))
    n_rounds = len(losses)
    stale = n_rounds - 1 - int(np.argmin(losses)) >= PATIENCE
    behind = WARM_UP <= n_rounds <= len(best) and losses[-1] > best[n_rounds - 1]
    if stale or behind:
        raise EarlyStopException(env.iteration, env.evaluation_result_list)


def draw_inner_folds(unit: IntArray, rng: np.random.Generator, n_folds: int = INNER_FOLDS) -> InnerFolds:
    """Return training rows and held-out rows of random folds that never split a unit.

    Shapes: unit (r,).
    """
    units, place = np.unique(unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(units)) % n_folds)[place]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]

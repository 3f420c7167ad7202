"""LightGBM's parameters: those that every booster has, and checks of those that a user passes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import lightgbm as lgb
import numpy as np

from ...exceptions import OptionError, nearest, shown

Parameter: TypeAlias = float | int | str | bool

# The parameters that a user may set: they say how trees are grown, what is drawn at random, how the computation is
# organised, and how features are binned.
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
OF_BINS = tuple(_OF_BINS.split())
SETTABLE = (*_OF_TREES.split(), *OF_BINS)
MOST_ROUNDS = 100_000
_OF_DATA = ("objective", "num_class", "linear_tree", "categorical_feature")
# A vector of the wrong length would make LightGBM end the process.
_OF_COLUMNS = """
    monotone_constraints monotone_constraints_method monotone_penalty interaction_constraints feature_contri
    forcedsplits_filename forcedbins_filename max_bin_by_feature cegb_penalty_feature_lazy
    cegb_penalty_feature_coupled ignore_column label_column weight_column group_column
"""
_REASONS = {
    **dict.fromkeys(_OF_DATA, "is determined by the data and cannot be set; leave the parameter out"),
    **dict.fromkeys(
        _OF_COLUMNS.split(),
        "refers to the columns of LightGBM's data, which the fit arranges by itself (features, then codes of the two "
        "models), and cannot be set; leave the parameter out",
    ),
    "num_threads": "cannot be set, because n_jobs= of the fit determines it; pass n_jobs= instead",
    "early_stopping_round": "cannot be set, because early stopping needs held-out rows, which only tune='cv' has; pass "
    "tune='cv', or leave the parameter out",
}
_OF_SOMETHING_ELSE = (
    "does not control how trees are grown, but files, devices, metrics or other objectives of LightGBM, and cannot be "
    "set; leave the parameter out"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters of a booster.

    parameters: LightGBM's parameters, without the number of rounds.
    rounds: Number of rounds.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
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


@lru_cache(maxsize=1)
def parameters_by_name() -> Mapping[str, str]:
    """Return the parameter that each name stands for, by LightGBM's own table of names."""
    table: dict[str, list[str]] = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return {name: name for name in (*SETTABLE, *_REASONS)} | {
        name: parameter for parameter, names in table.items() for name in (parameter, *names)
    }


def check_parameters(parameters: Mapping[str, Parameter], option: str) -> None:
    """Check that a user may set the parameters, and that LightGBM accepts their values.

    LightGBM would ignore a misspelt parameter without a warning, and would refuse a value only when it trains, which is
    after all other steps of a fit.
    """
    for name, value in parameters.items():
        check_name(name, option)
        # A text with a space could set further parameters; LightGBM ignores None, and reads too large numbers wrongly.
        if isinstance(value, str):
            allowed = value.replace(".", "").replace("_", "").lstrip("+-").isalnum()
        elif isinstance(value, float | np.floating):
            allowed = math.isfinite(value)
        else:
            allowed = isinstance(value, bool | np.bool_) or (isinstance(value, int | np.integer) and abs(value) < 2**31)
        if not allowed:
            raise OptionError(f"{option}: {name}={shown(value)} is not allowed; pass a number, a word, True or False")
        # LightGBM does not see the number of rounds before a fit trains so many.
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if parameters_by_name()[name] == "num_iterations" and not (is_whole and 1 <= int(value) <= MOST_ROUNDS):
            raise OptionError(f"{option}: {name}={shown(value)}; pass a whole number of rounds, 1 to {MOST_ROUNDS:,}")
    # The types are a part of what is remembered: 1 and True are equal, and LightGBM tells them from each other.
    items = tuple((name, type(value), value) for name, value in sorted(parameters.items()))
    for n_classes in (None, 3):
        _grow_two_trees(items, option, n_classes)


def check_name(name: object, option: str) -> None:
    """Check that a user may set the parameter that a name stands for."""
    parameter = parameters_by_name().get(name) if isinstance(name, str) else None
    if parameter is None:
        names = [name for name, parameter in parameters_by_name().items() if parameter in SETTABLE]
        raise OptionError(f"{option}: LightGBM has no parameter {name!r}{nearest(name, names)}")
    if parameter not in SETTABLE:
        raise OptionError(f"{option}: {name!r} {_REASONS.get(parameter, _OF_SOMETHING_ELSE)}")


# The parameters are checked again whenever a fit is updated. The cache avoids growing the same trees again.
@lru_cache(maxsize=1000)
def _grow_two_trees(items: tuple[tuple[str, type, Parameter], ...], option: str, n_classes: int | None) -> None:
    """Check that LightGBM grows two trees with these parameters on a few rows."""
    parameters = {name: value for name, _, value in items}
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


def as_settings(parameters: Mapping[str, Parameter]) -> Settings:
    """Return the parameters of a booster and its number of rounds, which is 100 where no parameter gives one."""
    rounds = names_in(parameters, "num_iterations")
    others = {name: value for name, value in parameters.items() if name not in rounds}
    return Settings(others, int(parameters[rounds[0]]) if rounds else 100)


def names_in(parameters: Mapping[str, object], parameter: str) -> list[str]:
    """Return the names of one of LightGBM's parameters that are among the names of some parameters."""
    return [name for name in parameters if parameters_by_name().get(name) == parameter]

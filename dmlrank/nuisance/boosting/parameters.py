"""LightGBM's parameters: their aliases, those of every booster, and which are not the user's to set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import lightgbm as lgb
import numpy as np

from ...exceptions import OptionError, nearest

Parameter = float | int | str | bool

# All names that LightGBM takes for a parameter ("Parameters" in its documentation). Its own table in Python is private;
# a test compares the two.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_iterations": (
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
    ),
    "bagging_fraction": ("bagging_fraction", "subsample", "sub_row", "bagging"),
    "bagging_freq": ("bagging_freq", "subsample_freq"),
    "max_bin": ("max_bin", "max_bins"),
    "max_bin_by_feature": ("max_bin_by_feature",),
    "min_data_in_bin": ("min_data_in_bin",),
    "bin_construct_sample_cnt": ("bin_construct_sample_cnt", "subsample_for_bin"),
    "data_random_seed": ("data_random_seed", "data_seed"),
    "enable_bundle": ("enable_bundle", "is_enable_bundle", "bundle"),
    "use_missing": ("use_missing",),
    "zero_as_missing": ("zero_as_missing",),
    "feature_pre_filter": ("feature_pre_filter",),
    "forcedbins_filename": ("forcedbins_filename",),
    "objective": ("objective", "objective_type", "app", "application", "loss"),
    "num_class": ("num_class", "num_classes"),
    "linear_tree": ("linear_tree", "linear_trees"),
    "categorical_feature": (
        "categorical_feature",
        "cat_feature",
        "categorical_column",
        "cat_column",
        "categorical_features",
    ),
    "early_stopping_round": ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"),
}


def names_of(*parameters: str) -> tuple[str, ...]:
    """All names of some parameters.

    Examples
    --------
    >>> names_of("bagging_freq")
    ('bagging_freq', 'subsample_freq')
    """
    return tuple(name for parameter in parameters for name in ALIASES[parameter])


ROUND_NAMES = names_of("num_iterations")
BAGGING_NAMES = names_of("bagging_fraction")
BAGGING_FREQUENCY_NAMES = names_of("bagging_freq")
# Parameters of the bins that all trials of a search share.
BIN_NAMES = names_of(
    "max_bin",
    "max_bin_by_feature",
    "min_data_in_bin",
    "bin_construct_sample_cnt",
    "data_random_seed",
    "enable_bundle",
    "use_missing",
    "zero_as_missing",
    "feature_pre_filter",
    "forcedbins_filename",
)
_KNOWN_FROM_DATA = names_of("objective", "num_class", "linear_tree", "categorical_feature")
_STOPPING = names_of("early_stopping_round")


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of a booster and its number of rounds."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    rounds: int = 100


def fixed_parameters(n_classes: int | None, seed: int, n_threads: int) -> dict[str, Parameter]:
    """What every booster is trained with beside its configuration; binary where ``n_classes`` is None.

    Examples
    --------
    >>> fixed_parameters(None, 1, 2)["objective"], fixed_parameters(3, 1, 2)["num_class"]
    ('binary', 3)
    """
    kind: dict[str, Parameter] = {"objective": "binary"}
    if n_classes is not None:
        kind = {"objective": "multiclass", "num_class": n_classes}
    return {
        **kind,
        "seed": seed,
        "num_threads": n_threads,
        "verbosity": -1,
        # The same trees whatever the number of threads.
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        # LightGBM's default of 100 rows per group of categories would merge all but the most frequent models.
        "min_data_per_group": 10,
    }


def check_names(names: Iterable[str], option: str) -> None:
    """Raise where a parameter follows from the data, or would need held-out rows.

    Examples
    --------
    >>> check_names(["num_leaves", "lambda_l2"], "tune")
    """
    given = set(names)
    for name in _KNOWN_FROM_DATA:
        if name in given:
            raise OptionError(f"{option}: {name!r} is settled by the data and cannot be set")
    for name in _STOPPING:
        if name in given:
            raise OptionError(f"{option}: {name!r} needs held-out rows; tune='cv' stops early, nothing else does")


def check_values(parameters: Mapping[str, Parameter], option: str) -> None:
    """Raise where LightGBM does not know a parameter or refuses its value.

    A misspelt parameter would be ignored without a word, and a bad value found after everything else was done.

    Examples
    --------
    >>> check_values({"num_leaves": 4}, "tune")
    """
    known = _known_names()
    for name in parameters:
        if known and name not in known:
            raise OptionError(f"{option}: LightGBM has no parameter {name!r}{nearest(name, known)}")
    settings = {"objective": "binary", "verbosity": -1, **as_settings(parameters).parameters}
    try:
        data = lgb.Dataset(np.arange(40.0).reshape(20, 2), np.arange(20) % 2, params=settings).construct()
        lgb.Booster(settings, data)
    except (lgb.basic.LightGBMError, TypeError, ValueError) as error:
        raise OptionError(f"{option}: LightGBM refuses {dict(parameters)}: {str(error).split(' at /')[0]}") from None


def _known_names() -> set[str]:
    """LightGBM's names of parameters; empty where its release does not tell, so that names go unchecked there."""
    table: dict[str, list[str]] = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return {name for names in table.values() for name in names}


def as_settings(parameters: Mapping[str, Parameter]) -> Settings:
    """The number of rounds (100 where there is none) apart from the other parameters.

    Examples
    --------
    >>> as_settings({"num_leaves": 4, "n_estimators": 50})
    Settings(parameters={'num_leaves': 4}, rounds=50)
    """
    rounds = [int(parameters[name]) for name in ROUND_NAMES if name in parameters]
    return Settings({k: v for k, v in parameters.items() if k not in ROUND_NAMES}, rounds[0] if rounds else 100)

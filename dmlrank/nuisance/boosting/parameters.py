"""LightGBM's parameters: the parameters that every booster has, and checks of the parameters that a user passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import lightgbm as lgb
import numpy as np

from ...exceptions import OptionError
from .parameter_names import ROUND_NAMES, check_names
from .parameter_values import check_values

Parameter: TypeAlias = float | int | str | bool


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


def check_parameters(parameters: Mapping[str, Parameter], option: str) -> None:
    """Check that LightGBM has the parameters, that they can be set, and that it accepts their values.

    LightGBM would ignore a misspelt parameter without a warning, and would refuse a value only when it trains, which is
    after all other steps of a fit.
    """
    check_names(parameters, option, lightgbm_names())
    check_values(parameters, option)
    for n_classes in (None, 3):
        _grow_two_trees(tuple(sorted(parameters.items())), option, n_classes)


# The parameters are checked again whenever a fit is updated. The cache avoids growing the same trees again.
@lru_cache(maxsize=1000)
def _grow_two_trees(parameters: tuple[tuple[str, Parameter], ...], option: str, n_classes: int | None) -> None:
    """Check that LightGBM grows two trees with these parameters on a few rows."""
    settings = {**fixed_parameters(n_classes, 0, 1), **as_settings(dict(parameters)).parameters}
    try:
        rows = np.arange(120.0).reshape(60, 2)
        data = lgb.Dataset(rows, np.arange(60) % (n_classes or 2), params=settings).construct()
        booster = lgb.Booster(settings, data)
        for _ in range(2):
            booster.update()
    except (lgb.basic.LightGBMError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).split(" at /")[0]
        raise OptionError(
            f"{option}: LightGBM refuses {dict(parameters)} with the message {reason!r}; change these parameters"
        ) from None


def lightgbm_names() -> set[str]:
    """Return all names that the installed LightGBM accepts; none if this release of LightGBM has no table of names."""
    table: dict[str, list[str]] = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", dict)()
    return {name for names in table.values() for name in names}


def as_settings(parameters: Mapping[str, Parameter]) -> Settings:
    """Return the parameters of a booster and its number of rounds, which is 100 where no parameter gives one."""
    rounds = [int(parameters[name]) for name in ROUND_NAMES if name in parameters]
    return Settings({k: v for k, v in parameters.items() if k not in ROUND_NAMES}, rounds[0] if rounds else 100)

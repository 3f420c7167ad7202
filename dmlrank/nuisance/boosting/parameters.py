"""LightGBM's parameters: those of every booster, and the user's, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Real

import lightgbm as lgb
import numpy as np

from ...exceptions import OptionError
from .parameter_names import ROUND_NAMES, check_names

Parameter = float | int | str | bool

_LARGEST = 1e300


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


def check_parameters(parameters: Mapping[str, Parameter], option: str) -> None:
    """Raise where a parameter is not the user's to set, or LightGBM refuses its value.

    A misspelt parameter would be ignored without a word, and a bad value found after everything else was done.

    Examples
    --------
    >>> check_parameters({"num_leaves": 4}, "tune")
    """
    check_names(parameters, option, known_names())
    for name, value in parameters.items():
        # LightGBM reads one text of all parameters: a value with a blank would be further parameters.
        number = isinstance(value, Real | np.bool_) and -_LARGEST <= value <= _LARGEST
        if not number and not (isinstance(value, str) and re.fullmatch(r"[\w.+-]+", value)):
            raise OptionError(f"{option}: {name}={value!r}; needed is a finite number, True or False, or a word")
    for n_classes in (None, 3):
        _try(tuple(sorted(parameters.items())), option, n_classes)


# An update of a fit has the same parameters: what LightGBM has accepted once is not tried again.
@lru_cache(maxsize=1000)
def _try(parameters: tuple[tuple[str, Parameter], ...], option: str, n_classes: int | None) -> None:
    """Raise where LightGBM refuses to grow two trees with these parameters on a few rows."""
    settings = {**fixed_parameters(n_classes, 0, 1), **as_settings(dict(parameters)).parameters}
    try:
        rows = np.arange(120.0).reshape(60, 2)
        data = lgb.Dataset(rows, np.arange(60) % (n_classes or 2), params=settings).construct()
        booster = lgb.Booster(settings, data)
        for _ in range(2):
            booster.update()
    except (lgb.basic.LightGBMError, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"{option}: LightGBM refuses {dict(parameters)}: {str(error).split(' at /')[0]}") from None


def known_names() -> set[str]:
    """LightGBM's names of parameters; empty where its release does not tell."""
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

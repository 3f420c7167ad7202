"""Values that LightGBM's parameters may have.

LightGBM itself checks most values, but it writes every refusal to the standard error stream of the process, where no
setting silences it. Therefore values are checked here first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...exceptions import OptionError, listed, shown
from .parameter_names import parameter_of

_LARGEST_INTEGER = 2**31 - 1
_LARGEST_NUMBER = 1e300
_INTEGERS = (int, np.integer)
_NUMBERS = (int, float, np.integer, np.floating)
_INTEGER_TEXT = re.compile(r"[+-]?\d+")
_NUMBER_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class _Interval:
    """Numbers between two bounds.

    low, high: The bounds; infinite where there is none.
    is_integer: Whether only whole numbers are allowed.
    excludes_low: Whether the lower bound itself is not allowed.
    """

    low: float = -math.inf
    high: float = math.inf
    is_integer: bool = False
    excludes_low: bool = False

    def contains(self, value: object) -> bool:
        """Return whether a value is a number in the interval; a text of a number counts as the number."""
        if isinstance(value, str):
            if not (_INTEGER_TEXT if self.is_integer else _NUMBER_TEXT).fullmatch(value):
                return False
        elif isinstance(value, bool) or not isinstance(value, _INTEGERS if self.is_integer else _NUMBERS):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        is_finite = abs(number) <= (_LARGEST_INTEGER if self.is_integer else _LARGEST_NUMBER)
        above = number > self.low if self.excludes_low else number >= self.low
        return is_finite and above and number <= self.high

    def __str__(self) -> str:
        kind = "a whole number" if self.is_integer else "a finite number"
        if math.isinf(self.low):
            return kind
        if self.excludes_low:
            return f"{kind} above {self.low:g}" + ("" if math.isinf(self.high) else f" and at most {self.high:g}")
        return (
            f"{kind} of at least {self.low:g}"
            if math.isinf(self.high)
            else f"{kind} from {self.low:g} to {self.high:g}"
        )


@dataclass(frozen=True, slots=True)
class _Words:
    """A list of words, one of which is the value.

    words: The words that are allowed.
    """

    words: tuple[str, ...]

    def contains(self, value: object) -> bool:
        """Return whether a value is one of the words."""
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"one of {listed(self.words)}"


class _TrueOrFalse:
    """True or False."""

    def contains(self, value: object) -> bool:
        """Return whether a value is True or False, or a text that LightGBM reads as one of them."""
        return isinstance(value, bool | np.bool_) or (isinstance(value, str) and value.lower() in ("true", "false"))

    def __str__(self) -> str:
        return "True or False"


def _whole_numbers(low: float = -math.inf, high: float = math.inf) -> _Interval:
    """Return the whole numbers between two bounds."""
    return _Interval(low, high, is_integer=True)


_NOT_NEGATIVE = _Interval(low=0.0)
_POSITIVE_FRACTION = _Interval(low=0.0, high=1.0, excludes_low=True)
_FRACTION = _Interval(low=0.0, high=1.0)
_BOOLEAN = _TrueOrFalse()
_ALLOWED: Mapping[str, _Interval | _Words | _TrueOrFalse] = {
    "num_iterations": _whole_numbers(1, 100_000),
    "learning_rate": _Interval(low=0.0, excludes_low=True),
    "num_leaves": _whole_numbers(2, 131072),
    "max_depth": _whole_numbers(),
    "min_data_in_leaf": _whole_numbers(0),
    "min_sum_hessian_in_leaf": _NOT_NEGATIVE,
    "min_gain_to_split": _NOT_NEGATIVE,
    "lambda_l1": _NOT_NEGATIVE,
    "lambda_l2": _NOT_NEGATIVE,
    "max_delta_step": _Interval(),
    "path_smooth": _NOT_NEGATIVE,
    "extra_trees": _BOOLEAN,
    "extra_seed": _whole_numbers(),
    "feature_fraction": _POSITIVE_FRACTION,
    "feature_fraction_bynode": _POSITIVE_FRACTION,
    "feature_fraction_seed": _whole_numbers(),
    "bagging_fraction": _POSITIVE_FRACTION,
    "bagging_freq": _whole_numbers(),
    "bagging_seed": _whole_numbers(),
    "boosting": _Words(("gbdt", "gbrt", "dart", "goss", "rf", "random_forest")),
    "data_sample_strategy": _Words(("bagging", "goss")),
    "top_rate": _FRACTION,
    "other_rate": _FRACTION,
    "drop_rate": _FRACTION,
    "max_drop": _whole_numbers(),
    "skip_drop": _FRACTION,
    "xgboost_dart_mode": _BOOLEAN,
    "uniform_drop": _BOOLEAN,
    "drop_seed": _whole_numbers(),
    "cat_l2": _NOT_NEGATIVE,
    "cat_smooth": _NOT_NEGATIVE,
    "max_cat_to_onehot": _whole_numbers(1),
    "max_cat_threshold": _whole_numbers(1),
    "min_data_per_group": _whole_numbers(1),
    "cegb_tradeoff": _NOT_NEGATIVE,
    "cegb_penalty_split": _NOT_NEGATIVE,
    "boost_from_average": _BOOLEAN,
    "use_quantized_grad": _BOOLEAN,
    "num_grad_quant_bins": _whole_numbers(),
    "quant_train_renew_leaf": _BOOLEAN,
    "stochastic_rounding": _BOOLEAN,
    "max_bin": _whole_numbers(2),
    "min_data_in_bin": _whole_numbers(1),
    "bin_construct_sample_cnt": _whole_numbers(1),
    "data_random_seed": _whole_numbers(),
    "enable_bundle": _BOOLEAN,
    "is_enable_sparse": _BOOLEAN,
    "use_missing": _BOOLEAN,
    "zero_as_missing": _BOOLEAN,
    "feature_pre_filter": _BOOLEAN,
    "seed": _whole_numbers(),
    "deterministic": _BOOLEAN,
    "force_row_wise": _BOOLEAN,
    "histogram_pool_size": _Interval(),
    "verbosity": _whole_numbers(),
}


def check_values(parameters: Mapping[str, object], option: str) -> None:
    """Check that LightGBM accepts the value of every parameter, and the combination of these values."""
    for name, value in parameters.items():
        allowed = _ALLOWED[parameter_of(name)]
        if not allowed.contains(value):
            raise OptionError(f"{option}: {name}={shown(value)} is not allowed; pass {allowed} as {name}")
    _check_sampling({parameter_of(name): value for name, value in parameters.items()}, option)


def _check_sampling(parameters: Mapping[str, object], option: str) -> None:
    """Check that the parameters that sample rows and features for each tree can be combined."""

    def number(name: str, default: float) -> float:
        return float(str(parameters.get(name, default)))

    boosting = parameters.get("boosting")
    uses_goss = "goss" in (boosting, parameters.get("data_sample_strategy"))
    has_bags = number("bagging_freq", 0) > 0 and number("bagging_fraction", 1) < 1
    is_random = uses_goss or has_bags or number("feature_fraction", 1) < 1
    if boosting in ("rf", "random_forest") and not is_random:
        raise OptionError(
            f"{option}: boosting={boosting!r} grows trees on random parts of the data, but the parameters ask for all "
            f"rows and all features; add bagging_freq=1 and a bagging_fraction below 1, or a feature_fraction below 1"
        )
    if not uses_goss:
        return
    if has_bags:
        raise OptionError(
            f"{option}: 'goss' selects rows by their gradients and cannot be combined with bagging; leave out "
            f"bagging_fraction and bagging_freq, or 'goss'"
        )
    rates = number("top_rate", 0.2), number("other_rate", 0.1)
    if not (sum(rates) <= 1 and min(rates) > 0):
        raise OptionError(
            f"{option}: top_rate={rates[0]:g} and other_rate={rates[1]:g} are not allowed with 'goss'; pass two "
            f"positive numbers with a sum of at most 1"
        )

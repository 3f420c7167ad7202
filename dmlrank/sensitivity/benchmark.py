"""Benchmarks for omitted variables: the model is fitted again without some of its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from patsy import Term

from .._utils.warning_collection import collected_warnings
from ..data.formula.parse import names_in, parse_formula, terms_of
from ..estimation.omitted_variables import relative_second_moment, residual_variance
from ..exceptions import OptionError, OptionTypeError, listed, nearest, shown
from ..fit.method import run
from ..fit.state import FitState
from .vote_bounds import SensitivityNumbers


def benchmark_frame(steps: FitState, numbers: SensitivityNumbers, factor: float, features: object) -> pd.DataFrame:
    """Return the strengths of features that are left out, see :meth:`SensitivityResults.benchmark`."""
    if steps.options.mu is not None:
        raise OptionError(
            "benchmark() fits the outcome model again without features, and this fit was given mu=; fit with learner= "
            "instead of mu="
        )
    groups = [features] if isinstance(features, str) else features if isinstance(features, list | tuple) else []
    named = [(group,) if isinstance(group, str) else group for group in groups]
    if not named or not all(
        isinstance(group, list | tuple) and group and all(isinstance(name, str) for name in group) for group in named
    ):
        raise OptionTypeError(
            f"features={shown(features)} is not allowed; give a feature of the formula, a list of features that are "
            f"left out one at a time, or a list of lists of features that are left out together"
        )
    return pd.concat([_one_benchmark(steps, numbers, factor, group) for group in named], ignore_index=True)


def _one_benchmark(steps: FitState, numbers: SensitivityNumbers, factor: float, group: Sequence[str]) -> pd.DataFrame:
    """Return the rows of one refit."""
    formula, options = parse_formula(steps.source.formula), steps.options
    outcome_terms = [term for term in terms_of(formula.features) if term.factors]
    available = list(dict.fromkeys(name for term in outcome_terms for name in _names_of(term)))
    for name in group:
        if name not in available:
            raise OptionError(
                f"features: {name!r} is not a feature of {steps.source.formula!r}{nearest(name, available)} (features: "
                f"{listed(available) or 'none'})"
            )
    features = _without(formula.features, group)
    short_formula = f"{formula.outcome} ~ {features} | {formula.first} + {formula.second}"
    if options.propensity_formula is not None:
        one_sided = options.propensity_formula.split("~", 1)[1]
        options = replace(options, propensity=f"~ {_without(one_sided, group)}")
    with collected_warnings():
        short = run(replace(options, position_bias=steps.data.ordered), replace(steps.source, formula=short_formula))
    # By sampling error, the residual variance may fall or the second moment may rise when a feature is left out. The
    # strength of the feature is then zero.
    (variance, moment), (variance_without, moment_without) = _strengths(steps), _strengths(short)
    explained_label = min(max(variance_without / variance - 1, 0.0), 1.0)
    explained_moment = max(1 - moment_without / moment, 0.0)
    change = factor * numbers.hypothesis.matrix @ (short.influence.estimate - steps.influence.estimate)
    bias = np.sqrt(explained_label * explained_moment) * numbers.spread
    return pd.DataFrame(
        {
            "features": ", ".join(group),
            "c_y2": explained_label,
            "c_d2": explained_moment,
            "hypothesis": list(numbers.hypothesis.labels),
            "estimate": numbers.estimate,
            "estimate_without": numbers.estimate + change,
            "bias": bias,
            "lower": numbers.estimate - bias,
            "upper": numbers.estimate + bias,
        }
    )


def _strengths(steps: FitState) -> tuple[float, float]:
    """Return the mean squared out-of-fold error of a vote's worth, and the relative second moment of 1/pi by pair."""
    cells, weights = steps.data.cells, steps.setup.weights
    worth = np.subtract(weights.first, weights.second) / 2
    pair = cells.first * steps.data.n_items + cells.second
    return (
        residual_variance(steps.first.one_step_result.cell_mu, cells.y, cells.n_votes, worth),
        relative_second_moment(steps.first.propensity.cells, pair, steps.data.n_contexts),
    )


def _without(features: str, names: Sequence[str]) -> str:
    """Return the features of a formula without the terms that are named, or that use a column that is named."""
    terms = [term for term in terms_of(features) if term.factors]
    return " + ".join(term.name() for term in terms if not set(names) & set(_names_of(term))) or "1"


def _names_of(term: Term) -> tuple[str, ...]:
    """Return the name of a term, the names of its factors, and the columns that these use."""
    factors = [factor.name() for factor in term.factors]
    return (term.name(), *factors, *(name for f in factors for name in names_in(f).values))

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
    frames = [_one_benchmark(steps, numbers, factor, group) for group in _groups_of_features(features)]
    return pd.concat(frames, ignore_index=True)


def _groups_of_features(features: object) -> list[tuple[str, ...]]:
    """Return the features that are left out together, one tuple for each refit."""
    if isinstance(features, str):
        return [(features,)]
    groups = list(features) if isinstance(features, list | tuple) else []
    named = [(group,) if isinstance(group, str) else group for group in groups]
    if not named or not all(
        isinstance(group, list | tuple) and group and all(isinstance(name, str) for name in group) for group in named
    ):
        raise OptionTypeError(
            f"features={shown(features)} is not allowed; give a feature of the formula, a list of features that are "
            f"left out one at a time, or a list of lists of features that are left out together"
        )
    return [tuple(group) for group in named]


def _one_benchmark(steps: FitState, numbers: SensitivityNumbers, factor: float, group: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of one refit."""
    source = replace(steps.source, formula=formula_without(steps.source.formula, group))
    options = steps.options
    if options.propensity_formula is not None:
        options = replace(options, propensity=_one_sided_without(options.propensity_formula, group))
    with collected_warnings():
        short = run(replace(options, position_bias=steps.data.ordered), source)
    variance, variance_without = _residual_variance(steps), _residual_variance(short)
    moment, moment_without = _second_moment(steps), _second_moment(short)
    # By sampling error, the residual variance may fall or the second moment may rise when a feature is left out. The
    # strength of the feature is then zero.
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


def _residual_variance(steps: FitState) -> float:
    """Return the mean squared difference between a vote's worth and its out-of-fold prediction by mu."""
    cells, weights = steps.data.cells, steps.setup.weights
    worth = np.subtract(weights.first, weights.second) / 2
    return residual_variance(steps.one_step_result.cell_mu, cells.y, cells.n_votes, worth)


def _second_moment(steps: FitState) -> float:
    """Return the second moment of 1/pi over labelled cells, relative to the labelling rates of their pairs."""
    cells = steps.data.cells
    pair = cells.first * steps.data.n_items + cells.second
    return relative_second_moment(steps.propensity.cells, pair, steps.data.n_contexts)


def formula_without(formula: str, names: Sequence[str]) -> str:
    """Return a formula without the terms that are named, or that use a column that is named."""
    parts = parse_formula(formula)
    terms = _terms(parts.features)
    available = list(dict.fromkeys(name for term in terms for name in _names_of_term(term)))
    for name in names:
        if name not in available:
            raise OptionError(
                f"features: {name!r} is not a feature of {formula!r}{nearest(name, available)} (features: "
                f"{listed(available) or 'none'})"
            )
    return f"{parts.outcome} ~ {_joined(terms, names)} | {parts.first} + {parts.second}"


def _one_sided_without(formula: str, names: Sequence[str]) -> str:
    """Return the formula of the propensity without the terms that are named or use a named column."""
    return f"~ {_joined(_terms(formula.split('~', 1)[1]), names)}"


def _terms(features: str) -> list[Term]:
    """Return the terms of the features, without the intercept."""
    return [term for term in terms_of(features) if term.factors]


def _joined(terms: list[Term], names: Sequence[str]) -> str:
    """Return the terms that do not have or use one of the names, as text."""
    kept = [term.name() for term in terms if not set(names) & set(_names_of_term(term))]
    return " + ".join(kept) or "1"


def _names_of_term(term: Term) -> tuple[str, ...]:
    """Return the name of a term, the names of its factors, and the columns that these use."""
    factors = [factor.name() for factor in term.factors]
    return tuple(dict.fromkeys([term.name(), *factors, *(name for f in factors for name in names_in(f).values)]))

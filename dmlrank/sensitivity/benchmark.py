"""Benchmarks for omitted variables: the model is fitted again without some of its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from patsy import Term

from .._utils.computation import collected_warnings, computing, one_thread
from ..data.formula.parse import names_in, parse_formula, terms_of
from ..data.preferences import FloatArray
from ..estimation.omitted_variables import BiasScale, bias_scale
from ..exceptions import OptionError, OptionTypeError, listed, nearest, shown
from ..fit.method import run
from ..fit.state import FitState
from .tipping_points import SensitivityNumbers


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
    with one_thread(), computing(steps.options.n_jobs):
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
    contrasts = numbers.hypothesis.matrix
    # The cells of both fits by a row of theirs: more rows are used where a feature that is left out has gaps.
    votes_of_short, votes = (fit.data.row_index[fit.data.vote_row] for fit in (short, steps))
    row = votes[np.unique(steps.data.vote_cell, return_index=True)[1]]
    order = np.argsort(votes_of_short)
    cell = short.data.vote_cell[order[np.searchsorted(votes_of_short, row, sorter=order)]]
    scales = list(zip(scales_of_bias(steps, contrasts), scales_of_bias(short, contrasts), strict=True))
    c_y2, c_d2 = (
        np.mean(strength, axis=0) for strength in zip(*(a.strengths(b, cell) for a, b in scales), strict=True)
    )
    change = factor * contrasts @ (short.influence.estimate - steps.influence.estimate)
    bias = np.sqrt(c_y2 * c_d2) * numbers.spread
    return pd.DataFrame(
        {
            "features": ", ".join(group),
            "c_y2": c_y2,
            "c_d2": c_d2,
            "hypothesis": list(numbers.hypothesis.labels),
            "estimate": numbers.estimate,
            "estimate_without": numbers.estimate + change,
            "bias": bias,
            "lower": numbers.estimate - bias,
            "upper": numbers.estimate + bias,
        }
    )


def scales_of_bias(steps: FitState, contrasts: FloatArray) -> list[BiasScale]:
    """Return what bounds the bias of contrasts of a fit, in the functional's own unit, one for each repetition."""
    functional, weights = steps.setup.functional, steps.setup.weights
    worth = np.subtract(weights.first, weights.second) / 2
    return [
        bias_scale(functional, contrasts, steps.data, one.nuisances, steps.population(one), worth)
        for one in steps.repetitions
    ]


def _without(features: str, names: Sequence[str]) -> str:
    """Return the features of a formula without the terms that are named, or that use a column that is named."""
    terms = [term for term in terms_of(features) if term.factors]
    return " + ".join(term.name() for term in terms if not set(names) & set(_names_of(term))) or "1"


def _names_of(term: Term) -> tuple[str, ...]:
    """Return the name of a term, the names of its factors, and the columns that these use."""
    factors = [factor.name() for factor in term.factors]
    return (term.name(), *factors, *(name for f in factors for name in names_in(f).values))

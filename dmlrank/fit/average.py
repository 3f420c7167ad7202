"""Scores of mean preferences, F(E mu(X)), for ``average="preferences"``.

The other average, ``"scores"``, is the mean of scores, E F(mu(X)). For a linear functional F the two are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.influence import Estimands, InfluenceBlocks, NuisanceEstimates, OneStepResult, TargetPopulation
from ..estimation.mean_preferences import FlooredPreferences, MeanPreferences, make_finite, mean_preferences
from ..estimation.one_step import one_step
from ..functionals import Functional
from ..functionals.linear_scores import Linearised, curvature_bias
from ..options import Options
from .estimand import Setup
from .estimators import estimator_named


class MeanTarget(NamedTuple):
    """The scores of mean preferences, as a target of the one-step estimator.

    score: The functional, linearised at the mean preferences.
    plugin (d,): The functional at the mean of mu, without bias correction.
    floored: The mean preferences at which the functional is evaluated.
    bias (d,): Estimated second-order bias, which is subtracted: the functional is curved, and the mean preferences are
        estimated with error. Zero where it cannot be computed.
    """

    score: Linearised
    plugin: FloatArray
    floored: FlooredPreferences
    bias: FloatArray


def uses_mean_preferences(average: str, setup: Setup) -> bool:
    """Whether the scores are those of mean preferences, and differ from the mean of scores."""
    return average == "preferences" and not setup.functional.linear


def mean_target(
    data: PreferenceData,
    setup: Setup,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    options: Options,
) -> MeanTarget:
    """Estimate the mean preferences of all contexts, and linearise the functional there."""
    means = mean_preferences(data, nuisances, blocks, population)
    return targets_of(means, data, setup, floor=options.floor, estimator=options.estimator)[0]


def estimate_target(
    data: PreferenceData,
    setup: Setup,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    options: Options,
) -> OneStepResult:
    """Estimate the scores by one step, with the average that the options ask for."""
    score: Functional = setup.functional
    if uses_mean_preferences(options.average, setup):
        score = mean_target(data, setup, nuisances, blocks, population, options).score
    return one_step(Estimands(score), data, nuisances, blocks, population)


def targets_of(
    means: MeanPreferences, data: PreferenceData, setup: Setup, *, floor: float | str, estimator: str
) -> list[MeanTarget]:
    """Linearise the functional at the mean preferences of each group."""
    functional, is_debiased, targets = setup.functional, estimator_named(estimator).is_debiased, []
    for debiased, plugin, n_labels, moment in zip(
        means.one_step, means.plugin, means.n_labels, means.moment, strict=True
    ):
        floored, plugin_floored = (finite_table(table, n_labels, setup, floor) for table in (debiased, plugin))
        table, centre = (floored, debiased) if is_debiased else (plugin_floored, plugin)
        bias = np.zeros(len(functional.value(table.table[None])[0]))
        if is_debiased:
            bias = curvature_bias(functional, table.table, moment, setup.graph.edges, data.ordered)
            bias = np.where(np.isfinite(bias), bias, 0.0)
        targets.append(
            MeanTarget(
                Linearised.at(functional, table.table, centre, bias),
                functional.value(plugin_floored.table[None])[0],
                table,
                bias,
            )
        )
    return targets


def finite_table(table: FloatArray, n_labels: IntArray, setup: Setup, floor: float | str) -> FlooredPreferences:
    """Return a table of mean preferences at which the functional of the fit is finite.

    Shapes: table (K, K, C), n_labels (K, K).
    """
    return make_finite(
        table,
        n_labels,
        setup.weights,
        uses=setup.graph.edges,
        by_share=setup.functional.uses_shares,
        interior=setup.functional.interior,
        floor=None if isinstance(floor, str) else floor,
    )

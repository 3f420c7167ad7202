"""Scores in groups of contexts, which may overlap, from the first stages of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray
from ..estimation.equal_style import EqualStyleTerms
from ..estimation.influence import GroupParts, Influence, InfluenceInGroups, influence_in_groups
from ..estimation.mean_preferences import mean_preference_influence, mean_preferences
from .average import targets_of
from .state import FitSteps, Repetition


class GroupScores(NamedTuple):
    """The scores of G groups in one repetition.

    influence: The scores with their influence values.
    plugin (G, d): Plug-in scores, without bias correction.
    style: With ``adjust=EqualStyle(...)``, the raw scores, scores averaged over style, scores at equal style, and
        slopes; otherwise None.
    """

    influence: InfluenceInGroups
    plugin: FloatArray
    style: InfluenceInGroups | None = None


def scores_in_groups(steps: FitSteps, members: NDArray[np.bool_]) -> list[GroupScores]:
    """Return the scores of groups of contexts in each repetition; no first stage is fitted again.

    With ``average="scores"`` a group's scores are means of its contexts' scores. With ``average="preferences"`` they
    are the functional at the mean preferences of the group, F(E[mu(X) | G]).

    Shapes: members (G, n).
    """
    return [_scores_of_repetition(steps, repetition, members) for repetition in steps.repetitions]


def _scores_of_repetition(steps: FitSteps, repetition: Repetition, members: NDArray[np.bool_]) -> GroupScores:
    """Return the scores of groups of contexts in one repetition."""
    if repetition.style_terms is not None:
        return _scores_at_equal_style(repetition.style_terms, repetition.one_step_result.target.by_context(), members)
    if repetition.mean is None:
        influence = influence_in_groups(repetition.one_step_result.target.by_context(), members)
        return GroupScores(influence, np.stack([part.plugin for part in influence.parts]))
    options, data, nuisances = steps.options, steps.data, repetition.nuisances
    population = steps.population(repetition)
    means = mean_preferences(data, nuisances, steps.blocks, population, members=members)
    targets = targets_of(means, data, steps.setup, floor=options.floor, estimator=options.estimator)
    scores = [target.score for target in targets]
    influence = mean_preference_influence(scores, data, nuisances, steps.blocks, population, members=members)
    return GroupScores(influence, np.stack([target.plugin for target in targets]))


def _scores_at_equal_style(terms: EqualStyleTerms, raw: Influence, members: NDArray[np.bool_]) -> GroupScores:
    """Return scores at equal style in groups, each with the slopes of its own group."""
    equal, stacked = list[InfluenceInGroups](), list[InfluenceInGroups]()
    for inside in members:
        influence = terms.influence([inside.astype(float)])
        parts = (raw, influence.averaged, influence.equal, influence.slopes)
        every = replace(
            influence.equal,
            value=np.hstack([part.value for part in parts]),
            correction=np.hstack([part.correction for part in parts]),
        )
        equal.append(influence_in_groups(influence.equal, inside[None]))
        stacked.append(influence_in_groups(every, inside[None]))
    joint = _joined(equal)
    return GroupScores(joint, np.stack([part.plugin for part in joint.parts]), _joined(stacked))


def _joined(groups: list[InfluenceInGroups]) -> InfluenceInGroups:
    """Return the influence of several groups from a list whose entries have one group each."""
    return InfluenceInGroups(
        GroupParts(lambda group: groups[group].parts[0], len(groups)),
        tuple(one.contexts[0] for one in groups),
        tuple(one.blocks[0] for one in groups),
        groups[0].n_contexts,
        groups[0].n_blocks,
    )

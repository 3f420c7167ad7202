"""Pictures of scores and ranks by group of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..data.preferences import FloatArray
from ..fit.estimates import Estimates
from ..inference.ranks import ranks_of
from ..inference.simultaneous import Family
from ..plotting.heat_maps import group_heat_map
from ..plotting.intervals import Intervals, grouped_forest_plot
from ..plotting.rank_charts import bump_chart
from ..plotting.theme import level_words, models_words
from .joint_estimates import JointEstimates, score_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUP_PICTURES = ("forest", "heat_map", "differences", "bump")


@dataclass(frozen=True, slots=True, eq=False)
class DrawnGroupScores:
    """Scores by group, as the pictures need them.

    estimates: Estimates of the fit to all prompts.
    joint: Scores of the G groups, group by group.
    groups: Names of the groups.
    shares (G,): The groups' shares of the prompts.
    variable: The columns that define the groups.
    """

    estimates: Estimates
    joint: JointEstimates
    groups: tuple[str, ...]
    shares: FloatArray
    variable: str

    @property
    def scores(self) -> FloatArray:
        """Scores, (G, K)."""
        return self.joint.estimate.reshape(len(self.groups), -1)

    def differences(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return every score minus its mean over groups, and half-widths of simultaneous intervals, (G, K) each.

        The intervals hold for all groups and models at once, by max-t. The mean is weighted by the groups' shares.
        """
        n_groups, n_models = self.scores.shape
        from_mean = np.eye(n_groups) - self.shares / self.shares.sum()
        contrasts = np.kron(from_mean, np.eye(n_models))
        variance = np.square(contrasts @ self.joint.covariance.factor).sum(axis=1)
        critical = Family.of_contrasts(self.joint.covariance, contrasts).critical(alpha)
        half_width = critical * np.sqrt(variance)
        return from_mean @ self.scores, half_width.reshape(n_groups, n_models)


def draw_groups(
    scores: DrawnGroupScores, picture: str, places: Sequence[int], *, alpha: float, ax: Axes | None
) -> Axes:
    """Draw one picture of scores by group, see :meth:`GroupResults.plot`."""
    e, columns = scores.estimates, list(places)
    names, label = [e.models[j] for j in columns], score_label(e)
    counts = f"{models_words(len(names), len(e.models))}, {len(scores.groups)} groups by {scores.variable}"
    if picture == "forest":
        intervals = _intervals(scores, columns, alpha, label, counts)
        return grouped_forest_plot(intervals, scores.groups, e.neutral, variable=scores.variable, ax=ax)
    if picture == "bump":
        ranks = np.array([ranks_of(group) for group in scores.scores], dtype=float)[:, columns].T
        return bump_chart(names, scores.groups, ranks, ax, title=f"Ranks by score within each group\n{counts}")
    coloured, values = None, scores.scores[:, columns].T
    title = f"Scores by group\n{counts}"
    if picture == "differences":
        differences, half_width = scores.differences(alpha)
        values, coloured = differences[:, columns].T, (np.abs(differences) > half_width)[:, columns].T
        title = f"Coloured: differs from the mean over groups\n{level_words(alpha)}, {counts}"
        label = f"score in the group minus mean over groups\n{label.removeprefix('score: ')}"
    return group_heat_map(names, scores.groups, values, label=label, title=title, coloured=coloured, ax=ax)


def _intervals(
    scores: DrawnGroupScores, places: Sequence[int], alpha: float, label: str, counts: str
) -> list[Intervals]:
    """Return the intervals of every group, for a forest plot."""
    columns, limits = list(places), scores.joint.conf_int(alpha)
    low, high = (limits[side].to_numpy().reshape(scores.scores.shape)[:, columns] for side in ("lower", "upper"))
    names = [scores.estimates.models[j] for j in columns]
    title = f"{level_words(alpha)}\n{counts}"
    numbers = zip(scores.scores[:, columns], low, high, strict=True)
    return [Intervals(names, *group, label, title) for group in numbers]

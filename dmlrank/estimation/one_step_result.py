"""The estimands of a one-step estimate and what it finds, both by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..data.preferences import FloatArray
from ..functionals.protocols import LabelScore, Score
from .cross_fitting import HeldOutLabels
from .influence import InfluenceFunction

EstimandName: TypeAlias = Literal["target", "win_share", "position_effect", "projection"]
_NAMES: tuple[EstimandName, ...] = ("target", "win_share", "position_effect", "projection")


@dataclass(frozen=True, slots=True, eq=False)
class Estimands:
    """Functionals of mu that are estimated together, from one pass over the probabilities.

    Attributes
    ----------
    target : Score or LabelScore
        What the fit is about.
    win_share : Score or None
        The share of comparisons that each item wins.
    position_effect : Score or None
        How much being shown first helps.
    projection : Score or None
        The projection on Bradley-Terry scores, where the target assumes that model.
    """

    target: Score | LabelScore
    win_share: Score | None = None
    position_effect: Score | None = None
    projection: Score | None = None

    def scores(self) -> dict[EstimandName, Score | LabelScore]:
        """Those that are asked for, by name; the target comes first."""
        scores = {name: getattr(self, name) for name in _NAMES}
        return {name: score for name, score in scores.items() if score is not None}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OneStepResult:
    """What the one-step estimator finds.

    Attributes
    ----------
    target, win_share, position_effect, projection : InfluenceFunction or None
        Estimate and influence of each estimand; None for those that were not asked for.
    cell_mu : ndarray, shape (m, C)
        Out-of-fold probabilities at the labelled cells, not clipped.
    n_floored : int
        Entries of mu (context, ordered pair, category) below the floor, pairs off the graph included.
    n_entries : int
        Entries looked at; zero where no estimand needs a floor.
    labels : HeldOutLabels
    """

    target: InfluenceFunction
    win_share: InfluenceFunction | None = None
    position_effect: InfluenceFunction | None = None
    projection: InfluenceFunction | None = None
    cell_mu: FloatArray
    n_floored: int = 0
    n_entries: int = 0
    labels: HeldOutLabels

    def influence(self, name: EstimandName) -> InfluenceFunction:
        """That of an estimand that was asked for.

        Raises
        ------
        LookupError
            If it was not.
        """
        found: InfluenceFunction | None = getattr(self, name)
        if found is None:
            raise LookupError(f"{name} is not among the estimands of this one-step estimate")
        return found


def name_influences(
    estimands: Estimands, influences: Sequence[InfluenceFunction]
) -> dict[EstimandName, InfluenceFunction]:
    """Influences in the order of :meth:`Estimands.scores`, under their names."""
    return dict(zip(estimands.scores(), influences, strict=True))

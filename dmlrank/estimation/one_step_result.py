"""The estimands of the one-step estimator, and its result for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray
from ..functionals import Functional
from .cross_fitting import HeldOutLabels
from .influence import InfluenceFunction

EstimandName: TypeAlias = Literal["target", "win_share", "position_effect", "projection"]
_NAMES: tuple[EstimandName, ...] = ("target", "win_share", "position_effect", "projection")


@dataclass(frozen=True, slots=True, eq=False)
class Estimands:
    """Functionals of mu that are estimated together, from one pass over the probabilities.

    target: The functional that the user fits.
    win_share: The share of comparisons that each model wins.
    position_effect: The position effect: how much a model gains from being shown first.
    projection: The projection on Bradley-Terry scores, where the target assumes the Bradley-Terry model.
    """

    target: Functional
    win_share: Functional | None = None
    position_effect: Functional | None = None
    projection: Functional | None = None

    def scores(self) -> dict[EstimandName, Functional]:
        """Return the functionals that are not None by name; the target comes first."""
        scores = {name: getattr(self, name) for name in _NAMES}
        return {name: score for name, score in scores.items() if score is not None}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OneStepResult:
    """Result of the one-step estimator.

    target, win_share, position_effect, projection: Estimate and influence of each estimand; None for estimands that
        were not estimated.
    cell_mu (m, C): Out-of-fold probabilities at the labelled cells, not clipped.
    n_floored: Number of entries of mu (context, ordered pair, category) below the floor; pairs that are not edges count
        too.
    n_entries: Number of entries of mu in all; zero where no estimand needs a floor.
    labels: The labels beside their out-of-fold probabilities.
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
        """Return the influence function of one estimand."""
        influence: InfluenceFunction | None = getattr(self, name)
        if influence is None:
            raise LookupError(f"{name} is not among the estimands of this one-step estimate")
        return influence


@dataclass(frozen=True, slots=True, eq=False)
class KnownValues:
    """F(mu) of contexts for which an earlier estimate has computed it, with the same mu and the same estimands.

    by_name (n, d): F(mu) of each estimand; rows of other contexts are not used.
    is_known (n,).
    n_floored: Number of entries of mu below the floor in the known contexts.
    """

    by_name: dict[EstimandName, FloatArray]
    is_known: NDArray[np.bool_]
    n_floored: int


def name_influences(
    estimands: Estimands, influences: Sequence[InfluenceFunction]
) -> dict[EstimandName, InfluenceFunction]:
    """Name influence functions that are in the order of :meth:`Estimands.scores`."""
    return dict(zip(estimands.scores(), influences, strict=True))

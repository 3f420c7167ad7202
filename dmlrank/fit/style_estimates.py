"""Estimates of a fit that adjusts for style: scores before and after the adjustment, and slopes on style."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..data.preferences import FloatArray
from ..data.style_differences import StyleDifferences
from ..estimation.equal_style import EqualStyleTerms
from ..inference.covariance import Covariance


@dataclass(frozen=True, slots=True, eq=False)
class StyleFit:
    """The estimates of a fit at equal style, jointly, averaged over repetitions.

    by_repetition: Terms of the one-step estimates in each repetition.
    estimate (3 K + r,): Raw scores, scores averaged over style, scores at equal style, and slopes.
    covariance: Joint covariance of ``estimate``, of dimension 3 K + r.
    """

    differences: StyleDifferences
    by_repetition: tuple[EqualStyleTerms, ...]
    estimate: FloatArray
    covariance: Covariance


@dataclass(frozen=True, slots=True, eq=False)
class StyleEstimates:
    """What a result keeps of an adjustment for style.

    formula: The style columns, as the user wrote them.
    columns: Names of the r style columns.
    deviations (r,): Root mean square of each style difference over the votes.
    estimate (3 K + r,): Raw scores, scores averaged over style, scores at equal style, and slopes; empty for balanced
        style.
    covariance: Joint covariance of ``estimate``; None for balanced style.
    log_loss, log_loss_without: Out-of-fold log-loss per vote of the preference with and without style; NaN for balanced
        style.
    n_votes, n_votes_left: Number of votes, and of votes that count. All votes count at equal style.
    within: Largest style difference of a vote that counts; infinite at equal style.
    weights: How votes with differences up to ``within`` are weighted: "band" or "smooth"; empty at equal style.
    """

    kind: str
    formula: str
    columns: tuple[str, ...]
    deviations: FloatArray
    estimate: FloatArray
    covariance: Covariance | None
    log_loss: float
    log_loss_without: float
    n_votes: int
    n_votes_left: int
    within: float = float("inf")
    weights: str = ""

    @property
    def n_models(self) -> int:
        """Number of models, K."""
        return (len(self.estimate) - len(self.columns)) // 3

    def scores(self, which: str) -> FloatArray:
        """Return the scores "raw", "averaged" or "equal", (K,)."""
        return self.estimate[self._place(which)]

    def errors(self, which: str) -> FloatArray:
        """Return the standard errors of the scores "raw", "averaged" or "equal", (K,)."""
        assert self.covariance is not None
        return self.covariance.std_errors[self._place(which)]

    @property
    def slopes(self) -> FloatArray:
        """Slopes on style, (r,)."""
        return self.estimate[3 * self.n_models :]

    @property
    def slope_covariance(self) -> Covariance:
        """Covariance of the slopes, (r, r)."""
        assert self.covariance is not None
        last = slice(3 * self.n_models, None)
        return Covariance(self.covariance.matrix[last, last], np.eye(len(self.columns)), self.covariance.n_clusters)

    def score_covariance(self, *which: str) -> FloatArray:
        """Return the joint covariance of s vectors of K scores, (K s, K s), named "raw", "averaged" or "equal"."""
        assert self.covariance is not None
        places = np.concatenate([np.arange(len(self.estimate))[self._place(one)] for one in which])
        return self.covariance.matrix[np.ix_(places, places)]

    def rescaled(self, factor: float, shift: float) -> StyleEstimates:
        """Return the estimates with scores factor * score + shift and slopes factor * slope."""
        if self.covariance is None:
            return self
        estimate = factor * self.estimate
        estimate[: 3 * self.n_models] += shift
        covariance = replace(self.covariance, matrix=factor**2 * self.covariance.matrix)
        return replace(self, estimate=estimate, covariance=covariance)

    def _place(self, which: str) -> slice:
        number = ("raw", "averaged", "equal").index(which)
        return slice(number * self.n_models, (number + 1) * self.n_models)

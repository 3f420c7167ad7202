"""Dominance: the share of opponents that an item beats clearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .category_weights import CategoryWeights, require_weights
from .preference_aggregates import PreferenceAggregate, checked_sharpness


@dataclass(frozen=True, slots=True, eq=False)
class Dominance(PreferenceAggregate):
    r"""Share of opponents whom an item beats with a preference above ``tau``, smoothly counted.

    .. math:: F_j(\mu) = \frac{1}{\deg_j} \sum_k \sigma\{a (s^{sym}_{jk} - \tau)\}

    over the opponents of j on the graph, with the sharpness a. The hard share, a to infinity, is not differentiable.

    Parameters
    ----------
    weights : CategoryWeights or None
        What each category contributes to the first and to the second item. None is filled in by :meth:`bind`.
    graph : Graph or None
        Pairs that count. None means every pair.
    tau : float
        In (0, 1): the preference from which on a win is clear.
    sharpness : float
        How fast the count goes from 0 to 1 around ``tau``: from 0.12 to 0.88 within 4 / sharpness.

    Raises
    ------
    OptionError
        On a threshold outside (0, 1) or a sharpness that is not positive and finite.

    References
    ----------
    Frauen et al., arXiv 2601.21816, "Custom ranking estimands".

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.8, 0.2]; mu[0, 1, 0] = [0.2, 0.8]
    >>> Dominance(CategoryWeights.half(2)).value(mu).round(3)
    array([[0.982, 0.   ]])
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    tau: float = 0.6
    sharpness: float = 20.0
    name = "dominance"
    interior = False
    linear = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharpness", checked_sharpness(self.sharpness, "dominance", "indicator"))
        if not 0 < self.tau < 1:
            raise OptionError(f"dominance(tau={self.tau!r}): needed is a preference between 0 and 1, such as 0.6")

    @property
    def label(self) -> str:
        """Human words for a header."""
        return f"dominance (share beaten above {self.tau:g})"

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> Dominance:
        return Dominance(weights, graph, self.tau, self.sharpness)

    def _pair_total(self, n_items: int) -> float | None:
        # sigma(x) + sigma(-x) = 1 where the threshold is half of what the two items share.
        total = require_weights(self.weights, self.name).total
        return 1.0 if total is not None and abs(total - 2 * self.tau) < 1e-12 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        clear = expit(self.sharpness * (preference - self.tau))
        return np.asarray((clear * edges).sum(axis=2) / edges.sum(axis=1))

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        clear = expit(self.sharpness * (preference - self.tau))
        return np.asarray(self.sharpness * clear * (1 - clear) * edges / edges.sum(axis=1)[:, None])

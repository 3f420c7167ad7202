"""Dominance: the share of its opponents that an item beats clearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .._utils.argument_checks import real_number
from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import OptionError, shown
from .category_weights import CategoryWeights, require_weights
from .graph_weights import check_weights_and_graph
from .preference_aggregates import PreferenceAggregate, checked_sharpness


@dataclass(frozen=True, slots=True, eq=False)
class Dominance(PreferenceAggregate):
    r"""Share of its opponents that an item beats with a preference above ``tau``, in a smooth version.

    .. math:: F_j(\mu) = \frac{1}{\deg_j} \sum_k \sigma\{a (s^{sym}_{jk} - \tau)\}

    where k runs over the opponents of j on the graph and a is the sharpness. The limit for large a, the share itself,
    is not differentiable.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for the first and for the second item. None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs of opponents. None means every pair.
    tau : float
        Preference from which a win is clear, in (0, 1).
    sharpness : float
        How fast the term of an opponent rises from 0 to 1 with the preference over this opponent: from 0.12 to 0.88 in
        an interval of length 4 / sharpness around ``tau``.

    Raises
    ------
    OptionError
        If the threshold is outside (0, 1), or the sharpness is not positive and finite.

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
        check_weights_and_graph("dominance", self.weights, self.graph)
        threshold = real_number(self.tau)
        if threshold is None or not 0 < threshold < 1:
            raise OptionError(f"dominance(tau={shown(self.tau)}); allowed: a preference between 0 and 1, such as 0.6")

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"dominance (share beaten above {self.tau:g})"

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> Dominance:
        return Dominance(weights, graph, self.tau, self.sharpness)

    def _pair_total(self, n_items: int) -> float | None:
        """Return 1 where the threshold is half the sum of the two preferences, and None elsewhere."""
        # sigma(x) + sigma(-x) = 1: the terms sum to 1 where the threshold is half the sum of the two preferences.
        total = require_weights(self.weights, self.name).total
        return 1.0 if total is not None and abs(total - 2 * self.tau) < 1e-12 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        terms = expit(self.sharpness * (preference - self.tau))
        return np.asarray((terms * edges).sum(axis=2) / edges.sum(axis=1))

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        terms = expit(self.sharpness * (preference - self.tau))
        return np.asarray(self.sharpness * terms * (1 - terms) * edges / edges.sum(axis=1)[:, None])

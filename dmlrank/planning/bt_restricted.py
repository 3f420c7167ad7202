"""The design problem of the restricted Bradley-Terry estimator, in which the labels of a context depend on each other.

The information of a label depends on the other labels of its context. A plan therefore needs a search by steps, each of
which solves a problem with fixed information; see :mod:`dmlrank.planning.criteria`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..data.preferences import FloatArray
from ..estimation.bt_restricted import RestrictedBradleyTerry, check_restricted_categories, information_inverse
from ..exceptions import OptionError
from ..functionals import BradleyTerry
from ..nuisance.propensity_model.estimate import TabulatedPairPropensity
from .allocation import at_rows, propensities_at_multiplier
from .problem import DesignProblem

# A plan's rule for contexts outside the plan is a fixed point: the information of a label depends on the propensities,
# and the propensities on the information. The steps towards this point end after _MAX_STEPS, or if no propensity
# changes by more than _TOLERANCE, relative to its size.
_MAX_STEPS, _TOLERANCE = 2000, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedDesignProblem(DesignProblem):
    r"""A design problem for the estimator ``bt_restricted``, with the labelling covariance E [I(X; pi)^-1].

    The information matrix of a context is :math:`I = \sum_{jk} \pi_{jk} w_{jk} z_{jk} z_{jk}'`, as in
    :class:`dmlrank.estimation.bt_restricted.RestrictedBradleyTerry`: :math:`w_{jk}` is the variance of a label, and
    :math:`z_{jk}` is the derivative of its logit by the scores and the position effect. The covariance of the scores is
    the block of the scores in the inverse.

    With the metric G, the derivative of the objective by Sigma, a plan minimises the trace of :math:`G I^{-1}`, which
    is convex in :math:`\pi`. A step starts at propensities :math:`\pi_0`, where the information matrix is :math:`I_0`.
    By the Gauss-Markov theorem the objective is at most :math:`\sum_{jk} \pi_{0,jk}^2 g_{jk} / \pi_{jk}` with
    :math:`g_{jk} = w_{jk} z_{jk}' I_0^{-1} G I_0^{-1} z_{jk}`, and equals this bound at :math:`\pi_0`. The step
    minimises the bound, which is a sum over pairs, and so lowers the objective. In the bound a label has the
    information :math:`\pi_0^2 g`.
    """

    interdependent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        functional = self.functional
        if not isinstance(functional, BradleyTerry) or functional.weights is None:
            raise OptionError(
                f"functional={functional.name!r} with estimator='bt_restricted'; this estimator needs functional='bt'"
            )
        check_restricted_categories(functional.weights, ("first", "second", "ties")[: self.mu.shape[3]])

    def propensities_at(self, metric: FloatArray, lower: float, multiplier: float) -> FloatArray:
        """Return the propensities of this problem's contexts, (g, m), by the rule of a plan for other contexts.

        The information of a label depends on the propensities, so that these are a fixed point, found by iteration.
        """
        propensity = np.full(self.shape, 1.0 / len(self.pairs) if self.one_pair else 0.5)
        for _ in range(_MAX_STEPS):
            information = self.label_information(metric, propensity)
            new = propensities_at_multiplier(information, self.cost, lower, multiplier, self.one_pair)
            change = np.abs(np.log(new / propensity)).max(initial=0.0)
            propensity = new
            if change < _TOLERANCE:
                break
        return propensity

    def variances_and_inverse(self, mu: FloatArray, propensity: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return variances of labels in the Bradley-Terry model nearest to ``mu``, and inverse information matrices.

        Shapes: mu (b, K, K, C), propensity (b, m), returns (b, K, K) and (b, D, D).
        """
        functional, n_items, ordered = self.functional, self.pairs.n_items, self.pairs.ordered
        if not isinstance(functional, BradleyTerry) or functional.graph is None:
            raise OptionError("a plan for estimator='bt_restricted' needs a functional that is bound to a graph")
        # The estimator needs propensities for its estimate, but not for the probabilities of the nearest model.
        unused = TabulatedPairPropensity(np.zeros((1, n_items, n_items)))
        fitted = RestrictedBradleyTerry(functional, functional.graph, unused, ordered).probabilities(mu)
        variance = np.asarray(fitted * (1 - fitted))
        return variance, information_inverse(self.pairs.directed(propensity) * variance, ordered)

    def information_in(self, part: slice, mu: FloatArray, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the information of the labels of a range of rows, (b, m), in the bound at ``propensity``, (b, m)."""
        first, second, n_items = self.pairs.first, self.pairs.second, self.pairs.n_items
        variance, inverse = self.variances_and_inverse(mu, propensity)
        gram = inverse[:, :, :n_items] @ metric @ inverse[:, :n_items]
        diagonal = np.einsum("njj->nj", gram)
        length = diagonal[:, first] + diagonal[:, second] - 2 * gram[:, first, second]
        if self.pairs.ordered:
            # The last coordinate of z belongs to the position effect and is one.
            length += 2 * (gram[:, first, n_items] - gram[:, second, n_items]) + diagonal[:, n_items, None]
        scale = np.square(self.unit * at_rows(self.context_weight, part))[:, None]
        return np.asarray(scale * np.square(propensity) * self.pairs.take(variance) * np.maximum(length, 0))

    def added_covariance(self, part: slice, mu: FloatArray, count: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the sum over the contexts of a range of rows of the block of the scores in I^-1, (K, K)."""
        n_items = self.pairs.n_items
        _, inverse = self.variances_and_inverse(mu, propensity)
        weight = count[:, 0] * np.square(self.unit * at_rows(self.context_weight, part))
        return np.asarray(np.einsum("n,njk->jk", weight, inverse[:, :n_items, :n_items]))

"""The design problem of the restricted Bradley-Terry estimator, whose labels of a context inform each other."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ..data.preferences import FloatArray
from ..estimation.bt_restricted import RestrictedBradleyTerry, check_restricted_categories, information_inverse
from ..exceptions import OptionError
from ..functionals import BradleyTerry
from ..nuisance.propensity_model.all_pairs import TabulatedPairPropensity
from .allocation import propensities_at_multiplier
from .problem import DesignProblem
from .propensities import Propensities, as_propensities, propensity_table

# Most steps towards the fixed point of a rule in other contexts, and the relative change at which they end.
_MAX_STEPS, _TOLERANCE = 2000, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedDesignProblem(DesignProblem):
    r"""A design problem in which labels of a context inform each other: Sigma(pi) = Cov r(X) + E [I(X; pi)^-1]_rr.

    :math:`I = \sum \pi_{jk} w_{jk} z_{jk} z_{jk}'` as in
    :class:`dmlrank.estimation.bt_restricted.RestrictedBradleyTerry`.
    The trace of metric times its inverse is convex in pi, and by the Gauss-Markov theorem it lies below
    :math:`\sum \pi_{0,jk}^2 g_{jk} / \pi_{jk}`, equal at :math:`\pi_0`, with the gradient
    :math:`g_{jk} = w_{jk} z_{jk}' I_0^{-1} metric\, I_0^{-1} z_{jk}`. So each step solves a separable
    problem, in which a label has the information :math:`\pi_0^2 g`, and lowers the objective.
    """

    @classmethod
    def of(cls, problem: DesignProblem) -> RestrictedDesignProblem:
        """Return the same problem for the restricted estimator.

        Raises
        ------
        OptionError
            If the functional is not bt, or outcomes are not wins and losses.
        """
        functional = problem.functional
        if not isinstance(functional, BradleyTerry) or functional.weights is None:
            raise OptionError(
                f"functional={functional.name!r} with estimator='bt_restricted'; this estimator needs functional='bt'"
            )
        check_restricted_categories(functional.weights, ("first", "second", "ties")[: problem.mu.shape[3]])
        return cls(**{item.name: getattr(problem, item.name) for item in fields(problem)})

    @property
    def interdependent(self) -> bool:
        """Labels of a context inform each other."""
        return True

    def label_information(self, metric: FloatArray, propensity: FloatArray | None = None) -> FloatArray:
        """Information of a label, (n, m), in the separable problem that majorises the objective at ``propensity``.

        Parameters
        ----------
        metric : ndarray, shape (K, K)
        propensity : ndarray, shape (n, m), optional
            One for every pair when None.
        """
        propensity = np.ones((self.n_rows, len(self.pairs))) if propensity is None else propensity
        information = np.empty(self.shape)
        first, second, n_items = self.pairs.first, self.pairs.second, self.pairs.n_items

        def fill(part: slice, mu: FloatArray) -> None:
            weight = self._label_weights(mu)
            inverse = self._inverse(part, weight, propensity[part])
            gram = inverse[:, :, :n_items] @ metric @ inverse[:, :n_items]
            diagonal = np.einsum("njj->nj", gram)
            length = diagonal[:, first] + diagonal[:, second] - 2 * gram[:, first, second]
            if self.pairs.ordered:
                # z has a last coordinate of one: the position effect.
                length += 2 * (gram[:, first, n_items] - gram[:, second, n_items]) + diagonal[:, n_items, None]
            scale = self._squared_weight(part)[:, None]
            information[part] = scale * np.square(propensity[part]) * self.pairs.take(weight) * np.maximum(length, 0)

        self.map_chunks(fill)
        return information

    def labelling_covariance(self, propensity: Propensities | FloatArray | float) -> FloatArray:
        """Return what labelling adds to the covariance Sigma, (K, K): E [I^-1]_rr; numbers broadcast to (n, m)."""
        table, count = propensity_table(as_propensities(propensity, self.shape)), self.count
        n_items = self.pairs.n_items

        def add_up(part: slice, mu: FloatArray) -> FloatArray:
            inverse = self._inverse(part, self._label_weights(mu), table[part])[:, :n_items, :n_items]
            return np.asarray(np.einsum("n,njk->jk", count[part] * self._squared_weight(part), inverse))

        return np.asarray(sum(self.map_chunks(add_up)) / self.n_contexts)

    def propensities_at(self, metric: FloatArray, lower: FloatArray, multiplier: float) -> FloatArray:
        """Propensities, (n, m), by the rule of a plan with this multiplier in the problem's contexts."""
        propensity = np.full((self.n_rows, len(self.pairs)), 1.0 / len(self.pairs) if self.one_pair else 0.5)
        for _ in range(_MAX_STEPS):
            information = self.label_information(metric, propensity)
            new = propensities_at_multiplier(information, self.cost, lower, multiplier, self.one_pair)
            change = _largest_change(new, propensity)
            propensity = new
            if change < _TOLERANCE:
                break
        return propensity

    def _label_weights(self, mu: FloatArray) -> FloatArray:
        """Variance of a label of every pair in the model nearest to ``mu``, (b, K, K)."""
        functional, n_items = self.functional, self.pairs.n_items
        if not isinstance(functional, BradleyTerry) or functional.graph is None:
            raise OptionError("a plan for estimator='bt_restricted' needs a functional that is bound to a graph")
        unused = TabulatedPairPropensity(np.zeros((1, n_items, n_items)))
        fitted = RestrictedBradleyTerry(functional, functional.graph, unused, self.pairs.ordered).probabilities(mu)
        return np.asarray(fitted * (1 - fitted))

    def _squared_weight(self, part: slice) -> FloatArray:
        """Squared weights of contexts, (b,), times the squared unit."""
        if self.context_weight is None:
            return np.full(part.stop - part.start, self.unit**2)
        return np.square(self.unit * self.context_weight[part])

    def _inverse(self, part: slice, weight: FloatArray, propensity: FloatArray) -> FloatArray:
        # A pair without order is one label, counted where its first item stands first.
        return information_inverse(replace(self.pairs, ordered=True).table(propensity) * weight, self.pairs.ordered)


def _largest_change(new: FloatArray, old: FloatArray) -> float:
    return float(np.abs(np.log(new / old)).max(initial=0.0))

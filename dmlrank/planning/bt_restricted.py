"""Plans for the estimator that assumes Bradley-Terry, where what a label is worth depends on the other labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from ..data.preferences import FloatArray
from ..estimation.bt_restricted import RestrictedBradleyTerry, check_restricted_categories, information_inverse
from ..exceptions import OptionError
from ..functionals import BradleyTerry
from ..nuisance.propensity_model.all_pairs import GivenPairs
from .allocation import follow
from .problem import Problem

_STEPS = 2000
_CLOSE = 1e-9
# Longest leap, in steps.
_LONGEST = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedProblem(Problem):
    r"""A problem in which labels of a context work together: Sigma(pi) = Cov r(X) + E [I(X; pi)^-1]_rr.

    :math:`I = \sum \pi_{jk} w_{jk} z_{jk} z_{jk}'` as in
    :class:`dmlrank.estimation.bt_restricted.RestrictedBradleyTerry`.
    The trace of metric times its inverse is convex in pi, and by the Gauss-Markov theorem it lies below
    :math:`\sum \pi_{0,jk}^2 g_{jk} / \pi_{jk}`, equal at :math:`\pi_0`, with the gradient
    :math:`g_{jk} = w_{jk} z_{jk}' I_0^{-1} metric\, I_0^{-1} z_{jk}`. So each step is a plan of the plain kind, whose
    worths are :math:`\pi_0^2 g`, and lowers the objective.
    """

    @classmethod
    def of(cls, problem: Problem) -> RestrictedProblem:
        """The same problem for the restricted estimator.

        Raises
        ------
        OptionError
            If the functional is not bt, or outcomes are not wins and losses.
        """
        functional = problem.functional
        if not isinstance(functional, BradleyTerry) or functional.weights is None:
            raise OptionError(f"estimator='bt_restricted' plans for functional='bt', not {functional.name!r}")
        check_restricted_categories(functional.weights, ("first", "second", "ties")[: problem.mu.shape[3]])
        parts = {name: getattr(problem, name) for name in Problem.__slots__}
        return cls(**parts)

    @property
    def interdependent(self) -> bool:
        """Labels of a context work together."""
        return True

    def worth_at(self, metric: FloatArray, propensity: FloatArray) -> FloatArray:
        """Worths, (n, m), of the plan that lies above the objective and touches it at ``propensity``, (n, m)."""
        made = np.empty((self.n_contexts, len(self.pairs)))
        first, second, n_items = self.pairs.first, self.pairs.second, self.pairs.n_items

        def one(part: slice, mu: FloatArray) -> None:
            weight = self._label_weights(mu)
            inverse = self._inverse(part, weight, propensity[part])
            gram = inverse[:, :, :n_items] @ metric @ inverse[:, :n_items]
            own = np.einsum("njj->nj", gram)
            length = own[:, first] + own[:, second] - 2 * gram[:, first, second]
            if self.pairs.ordered:
                # z has a last coordinate of one: the position effect.
                length += 2 * (gram[:, first, n_items] - gram[:, second, n_items]) + own[:, n_items, None]
            scale = 1.0 if self.weight is None else np.square(self.weight[part])[:, None]
            made[part] = scale * np.square(propensity[part]) * self.pairs.take(weight) * np.maximum(length, 0)

        self.over_chunks(one)
        return made

    def spread(self, propensity: FloatArray) -> FloatArray:
        """What labels with these propensities, broadcast to (n, m), add to the covariance Sigma: E [I^-1]_rr."""
        table = np.broadcast_to(propensity, (self.n_contexts, len(self.pairs)))
        n_items = self.pairs.n_items

        def one(part: slice, mu: FloatArray) -> FloatArray:
            inverse = self._inverse(part, self._label_weights(mu), table[part])[:, :n_items, :n_items]
            scale = np.ones(len(mu)) if self.weight is None else np.square(self.weight[part])
            return np.asarray(np.einsum("n,njk->jk", scale, inverse))

        return np.asarray(sum(self.over_chunks(one)) / self.n_contexts)

    def followed(self, metric: FloatArray, lower: FloatArray, multiplier: float) -> FloatArray:
        """The rule of a plan with this multiplier in the problem's contexts, (n, m)."""
        propensity = np.full((self.n_contexts, len(self.pairs)), 1.0 / len(self.pairs) if self.one_pair else 0.5)
        for _ in range(_STEPS):
            new = follow(self.worth_at(metric, propensity), self.cost, lower, multiplier, self.one_pair)
            moved = _moved(new, propensity)
            propensity = new
            if moved < _CLOSE:
                break
        return propensity

    def _label_weights(self, mu: FloatArray) -> FloatArray:
        """Variance of a label of every pair in the model nearest to ``mu``, (b, K, K)."""
        graph, n_items = self.functional.graph, self.pairs.n_items
        if graph is None:
            raise OptionError("a plan for estimator='bt_restricted' needs a functional that is bound to a graph")
        unused = GivenPairs(np.zeros((1, n_items, n_items)))
        scores, effect = RestrictedBradleyTerry(self.functional, graph, unused, self.pairs.ordered).projected(mu)
        fitted = expit(scores[:, :, None] - scores[:, None, :] + effect[:, None, None])
        return np.asarray(fitted * (1 - fitted))

    def _inverse(self, part: slice, weight: FloatArray, propensity: FloatArray) -> FloatArray:
        # A pair without order is one label, counted where its first item stands first.
        return information_inverse(replace(self.pairs, ordered=True).table(propensity) * weight, self.pairs.ordered)


def squared_step(start: FloatArray, once: FloatArray, twice: FloatArray, lower: FloatArray) -> FloatArray:
    """Where two steps of a slowly converging iteration point to, (n, m), extrapolated by context on the log scale.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm, Scandinavian Journal of Statistics 35 (the third step length).
    """
    origin, first = np.log(start), np.log(once) - np.log(start)
    turn = np.log(twice) - np.log(once) - first
    size = np.sqrt(np.square(turn).sum(axis=1, keepdims=True))
    length = np.divide(
        np.sqrt(np.square(first).sum(axis=1, keepdims=True)), size, out=np.ones_like(size), where=size > 0
    )
    length = np.clip(length, 1.0, _LONGEST)
    return np.asarray(np.clip(np.exp(origin + 2 * length * first + length**2 * turn), lower / 2, 1.0))


def _moved(new: FloatArray, old: FloatArray) -> float:
    return float(np.abs(np.log(new / old)).max(initial=0.0))

"""Bradley-Terry scores where the Bradley-Terry model is assumed: the efficient estimator of the restricted model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ..data.graph import Graph, inverse_on_differences
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import GraphError, NuisanceError, OptionError
from ..functionals import BradleyTerry, CategoryWeights
from ..functionals.protocols import LabelRows
from ..nuisance.propensity_model.all_pairs import PairPropensity
from ..nuisance.propensity_model.estimate import Propensity
from .influence_by_context import contexts_at_a_time
from .nuisance_estimates import NuisanceEstimates
from .outcome_floor import clip_and_renormalise

# Samples of labels for the test of the model, and what they may cost together in multiplications; never fewer than the
# second.
_DRAWS, _FEWEST, _WORK = 1999, 199, 2e10


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedBradleyTerry:
    r"""One-step estimator under :math:`\mu_{jk1}(x) = \sigma(r_j(x) - r_k(x) + b(x))`, sum of r zero.

    The fitted mu is first projected on the model: r is the least-squares projection of its log-odds, b what is left of
    them on average, and :math:`\tilde\mu_{jk} = \sigma(r_j - r_k + b)`. With :math:`z_{jk} = (e_j - e_k, 1)`,
    :math:`w = \tilde\mu (1 - \tilde\mu)` and :math:`I(x) = \sum \pi_{jk} w_{jk} z_{jk} z_{jk}'` the influence of a
    context is

    .. math:: r(x) - \theta + [I(x)^+ \sum S_{jk} z_{jk} (Y_{jk1} - \tilde\mu_{jk})]_r .

    Sums are over the pairs of the graph in both orders. Without position effect the last coordinate is dropped, and
    pairs count once, :math:`\pi` the expected number of their labelled orders.

    Parameters
    ----------
    functional : BradleyTerry
        Bound to graph and edge weights: the projection.
    pairs : PairPropensity
        pi of all pairs.
    position : bool
        Whether there is a position effect b.

    References
    ----------
    Frauen et al., arXiv 2601.21816, app:bt_restricted; its formula for the influence is not used. See
    docs/bt_restricted.md.
    """

    functional: BradleyTerry
    graph: Graph
    pairs: PairPropensity
    position: bool
    interior = True
    linear = False

    def by_label(self, mu: FloatArray, contexts: IntArray, labels: LabelRows) -> tuple[FloatArray, FloatArray]:
        """Scores of the contexts, (b, K), and what each label adds to its context's influence, (e, K).

        Parameters
        ----------
        mu : ndarray, shape (b, K, K, 2)
            Probabilities clipped at the floor.
        contexts : ndarray of int, shape (b,)
        labels : LabelRows
            Labels of these contexts.
        """
        place, first, second = labels.place, labels.first, labels.second
        scores, effect = self.projected(mu)
        fitted = _model(scores, effect)
        used = np.where(self._used(), self.pairs.table(contexts), 0.0)
        check_identified(used > 0, self.position)
        inverse = information_inverse(used * fitted * (1 - fitted), self.position)
        n_items = scores.shape[1]
        along = inverse[place, :n_items, first] - inverse[place, :n_items, second]
        if self.position:
            along = along + inverse[place, :n_items, n_items]
        residual = (labels.y[:, 0] - fitted[place, first, second]) * self.graph.edges[first, second]
        return scores, along * residual[:, None]

    def projected(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores r, (b, K), and position effects, (b,), of the model nearest to ``mu``."""
        scores = self.functional.value(mu)
        if not self.position:
            return scores, np.zeros(len(mu))
        edges = self.graph.edges
        odds = logit(np.where(edges, mu[..., 0], 0.5))
        # Differences of scores cancel over both orders of a pair.
        return scores, np.asarray(odds.sum(axis=(1, 2)) / edges.sum())

    def fitted(self, mu: FloatArray) -> FloatArray:
        """Probabilities that the first wins, (b, K, K), in the model nearest to ``mu``."""
        return _model(*self.projected(mu))

    def _used(self) -> NDArray[np.bool_]:
        """Places of the pairs, (K, K): both orders, or the one above the diagonal where they are one."""
        return np.asarray(self.graph.edges if self.position else np.triu(self.graph.edges), dtype=bool)


def _model(scores: FloatArray, effect: FloatArray) -> FloatArray:
    return np.asarray(expit(scores[:, :, None] - scores[:, None, :] + effect[:, None, None]))


def information_inverse(amount: FloatArray, position: bool) -> FloatArray:
    """Inverse, (b, D, D), of the sum of amount z z' on scores that sum to zero; D = K + 1 with position effect, else K.

    Parameters
    ----------
    amount : ndarray, shape (b, K, K)
        pi w of every ordered pair.
    position : bool
        Whether z_jk = (e_j - e_k, 1) or e_j - e_k.
    """
    n_items = amount.shape[1]
    won, lost = amount.sum(axis=2), amount.sum(axis=1)
    total = np.zeros((len(amount), n_items + position, n_items + position))
    items = np.arange(n_items)
    total[:, :n_items, :n_items] = -amount - np.swapaxes(amount, 1, 2)
    total[:, items, items] += won + lost
    if position:
        total[:, :n_items, n_items] = total[:, n_items, :n_items] = won - lost
        total[:, n_items, n_items] = won.sum(axis=1)
    return inverse_on_differences(total, n_items)


def check_identified(offered: NDArray[np.bool_], position: bool) -> None:
    """Raise where the pairs that may be labelled in a context do not identify its scores.

    Parameters
    ----------
    offered : ndarray of bool, shape (b, K, K)
        Where pi is positive.
    position : bool

    Raises
    ------
    GraphError
        If in some context the pairs do not connect the items, or the position effect cannot be told from the scores.
    """
    n_items = offered.shape[1]
    for pattern in np.unique(offered.reshape(len(offered), -1), axis=0).reshape(-1, n_items, n_items):
        if not Graph(pattern | pattern.T).connected:
            raise GraphError(
                "estimator='bt_restricted' needs pairs that connect all models in every context: in some context the "
                "pairs with a positive propensity do not; estimator='debiased' with functional='bt' has the same need"
            )
        if position:
            j, k = np.nonzero(pattern)
            z = np.zeros((len(j), n_items + 1))
            z[np.arange(len(j)), j], z[np.arange(len(j)), k], z[:, -1] = 1.0, -1.0, 1.0
            if np.linalg.matrix_rank(z) < n_items:
                raise GraphError(
                    "position effect not separable from scores: in some context the pairs with a positive propensity "
                    "are shown in orders that a difference of scores explains as well (for example each pair in one "
                    "order only); position_bias=False assumes that there is no such effect"
                )


def require_pair_propensities(propensity: Propensity) -> PairPropensity:
    """Propensities of all pairs, or an error that says where to get them."""
    if propensity.pairs is None:
        raise NuisanceError(
            "estimator='bt_restricted' needs the propensities of all pairs of a context (its information I(x) sums "
            "over them), and a column knows those of the shown pairs only; give an array (contexts, models, models), a "
            "function, a plan, or 'marginal' or 'estimate'"
        )
    return propensity.pairs


def check_restricted_categories(weights: CategoryWeights, categories: Sequence[str]) -> None:
    """Raise :class:`OptionError` unless outcomes are wins and losses that count one and nothing."""
    if len(categories) != 2:
        raise OptionError(
            f"estimator='bt_restricted' is for two outcomes, first wins and second wins; these data have "
            f"{len(categories)}: {', '.join(categories)}. Bradley-Terry has no probability of a tie: leave ties "
            f"out of the data if that answers your question, or use estimator='debiased' with functional='bt'"
        )
    if (weights.first, weights.second) != ((1.0, 0.0), (0.0, 1.0)):
        raise OptionError(
            f"estimator='bt_restricted' needs a win to count 1 and a loss 0; got {weights.first} and {weights.second}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedResampling:
    """Samples of labels from the Bradley-Terry model: the distribution of a Wald statistic where the model holds.

    The labelled cells stand in an order that does not depend on the order of the rows.

    Attributes
    ----------
    context : ndarray of int, shape (m,)
    share : ndarray, shape (m,)
        Probability that the first wins, in the model.
    difference_change : ndarray, shape (m, K)
        By how much a win of the first moves phi(projection) - phi(restricted) of its context.
    n_votes : ndarray of int, shape (m,)
    n_contexts : int
    """

    context: IntArray
    share: FloatArray
    difference_change: FloatArray
    n_votes: IntArray
    n_contexts: int

    def statistics(self, along: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Wald statistics of the difference in samples of labels from the model, with each sample's own covariance.

        Parameters
        ----------
        along : ndarray, shape (K, r)
            Directions in which the estimators differ.
        rng : Generator
        """
        return np.array(list(self._statistics(along, rng)))

    def _statistics(self, along: FloatArray, rng: np.random.Generator) -> Iterator[float]:
        moved = self.difference_change @ along
        n, m = self.n_contexts, len(self.share)
        into = csr_array((np.ones(m), (self.context, np.arange(m))), shape=(n, m))
        for _ in range(int(np.clip(_WORK / max(moved.size * along.shape[1], 1), _FEWEST, _DRAWS))):
            noise = rng.binomial(self.n_votes, self.share) / self.n_votes - self.share
            phi = into @ (moved * noise[:, None])
            mean = phi.mean(axis=0)
            phi -= mean
            yield float(mean @ np.linalg.lstsq(phi.T @ phi / n**2, mean, rcond=None)[0])


def resampling_under_restriction(
    score: RestrictedBradleyTerry,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    weight: FloatArray | None = None,
) -> RestrictedResampling:
    """How every label moves the difference, and its probability in the model.

    Both influence values start from the same F(mu), so that their difference is a sum over labels, linear in each Y.

    Parameters
    ----------
    score : RestrictedBradleyTerry
    data : PreferenceData
    nuisances : NuisanceEstimates
    weight : ndarray, shape (n,), optional
        Weights of the contexts in the target population; one when None.
    """
    cells = data.cells
    share, moved = np.empty(len(cells)), np.empty((len(cells), data.n_items))
    for part in nuisances.mu.parts(contexts_at_a_time(data)):
        table = clip_and_renormalise(part.probabilities(), nuisances.floor)[part.place]
        place = np.full(data.n_contexts, -1)
        place[part.contexts] = np.arange(len(part.contexts))
        here = np.flatnonzero(place[cells.context] >= 0)
        pairs = place[cells.context[here]], cells.first[here], cells.second[here]
        share[here] = score.fitted(table)[pairs]
        won = np.tile([1.0, 0.0], (len(here), 1))
        assumed = [score.by_label(table, part.contexts, LabelRows(*pairs, y))[1] for y in (won, won[:, ::-1])]
        projected = _projection_moves(score, table[pairs], nuisances.propensity[here], *pairs[1:])
        moved[here] = projected - (assumed[0] - assumed[1])
    if weight is not None:
        moved *= weight[cells.context][:, None]
    order = np.lexsort((cells.second, cells.first, data.seed_order[cells.context]))
    return RestrictedResampling(cells.context[order], share[order], moved[order], cells.n_votes[order], data.n_contexts)


def _projection_moves(
    score: RestrictedBradleyTerry, own: FloatArray, propensity: FloatArray, first: IntArray, second: IntArray
) -> FloatArray:
    """By how much a win of the first, instead of the second, moves the projection's influence, (e, K)."""
    step, n_items = np.array([1.0, -1.0]) / propensity[:, None], len(score.graph.edges)
    change = score.functional.derivative_at(own, step, first, second, n_items)
    if score.position:
        return change
    return change + score.functional.derivative_at(own[:, ::-1], step[:, ::-1], second, first, n_items)

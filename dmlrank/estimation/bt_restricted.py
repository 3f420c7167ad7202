"""The efficient estimator of Bradley-Terry scores under the assumption that the Bradley-Terry model holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ..data.graph import Graph, inverse_on_differences
from ..data.preferences import FloatArray, IntArray
from ..exceptions import GraphError, NuisanceError, OptionError
from ..functionals import BradleyTerry, CategoryWeights
from ..functionals.base import Functional
from ..nuisance.propensity import PairPropensity, Propensity
from .cross_fitting import clip_and_renormalise, contexts_at_a_time
from .influence import OneStepInputs

# Number of samples of labels for the test of the model. Where there are many labels and models, fewer samples are
# drawn, so that all samples together take at most _MAX_MULTIPLICATIONS, but never fewer than _FEWEST_SAMPLES.
_N_SAMPLES, _FEWEST_SAMPLES, _MAX_MULTIPLICATIONS = 1999, 199, 2e10


@dataclass(frozen=True, eq=False)
class RestrictedBradleyTerry(Functional):
    r"""One-step estimator under :math:`\mu_{jk1}(x) = \sigma(r_j(x) - r_k(x) + b(x))`, sum of r zero.

    functional: The projection, with its graph and edge weights.
    graph: The graph of compared pairs.
    pairs: pi of all pairs.
    position: Whether the model has a position effect b.

    Notes
    -----
    The fitted mu is first projected on the Bradley-Terry model: r is the least-squares projection of its log-odds, b is
    the mean of the remaining log-odds, and :math:`\tilde\mu_{jk} = \sigma(r_j - r_k + b)`. With
    :math:`z_{jk} = (e_j - e_k, 1)`, :math:`w = \tilde\mu (1 - \tilde\mu)` and
    :math:`I(x) = \sum \pi_{jk} w_{jk} z_{jk} z_{jk}'` the influence of a context is

    .. math:: r(x) - \theta + [I(x)^+ \sum S_{jk} z_{jk} (Y_{jk1} - \tilde\mu_{jk})]_r .

    Here :math:`Y_{jk1}` is 1 where the first model of the ordered pair (j, k) wins, :math:`S_{jk}` is 1 where the pair
    is labelled, :math:`A^+` is a pseudo-inverse, and :math:`[v]_r` are the first K entries of v, which belong to r. The
    sums are over the edges of the graph in both orders.

    Without position effect, z has no last coordinate and the sums are over unordered pairs. A pair may then be labelled
    in either order, and its :math:`\pi` is the sum of the probabilities of the two orders.

    References
    ----------
    Frauen et al., arXiv 2601.21816, app:bt_restricted. The paper's formula for the influence is not used; see
    docs/bt_restricted.md.
    """

    functional: BradleyTerry
    graph: Graph = field()
    pairs: PairPropensity
    position: bool

    def value(self, mu: FloatArray) -> FloatArray:
        return self.project(mu)[0]

    def by_label(
        self, mu: FloatArray, contexts: IntArray, place: IntArray, first: IntArray, second: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the scores of b contexts, (b, K), P(first wins) at e labels, (e,), and what a win adds there, (e, K).

        A label contributes to the influence what a win adds, times its residual.

        Shapes: mu (b, K, K, 2), contexts (b,), place, first, second (e,).
        """
        scores, effect = self.project(mu)
        fitted = _win_probabilities(scores, effect)
        # The sums are over both orders of each edge, or over one order without position effect.
        summed = self.graph.edges if self.position else np.triu(self.graph.edges)
        pi = np.where(summed, self.pairs.table(contexts), 0.0)
        check_identified(pi > 0, self.position)
        inverse = information_inverse(pi * fitted * (1 - fitted), self.position)
        n_items = scores.shape[1]
        change = inverse[place, :n_items, first] - inverse[place, :n_items, second]
        if self.position:
            change = change + inverse[place, :n_items, n_items]
        return scores, fitted[place, first, second], change * self.graph.edges[first, second, None]

    def project(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return scores r, (b, K), and position effects, (b,), of the Bradley-Terry model nearest to ``mu``."""
        scores = self.functional.value(mu)
        if not self.position:
            return scores, np.zeros(len(mu))
        edges = self.graph.edges
        odds = logit(np.where(edges, mu[..., 0], 0.5))
        # b is the mean of the log-odds themselves: over both orders of a pair, the differences of scores cancel.
        return scores, np.asarray(odds.sum(axis=(1, 2)) / edges.sum())

    def probabilities(self, mu: FloatArray) -> FloatArray:
        """Return P(first wins), (b, K, K), in the Bradley-Terry model nearest to ``mu``."""
        return _win_probabilities(*self.project(mu))


def _win_probabilities(scores: FloatArray, effect: FloatArray) -> FloatArray:
    """Return P(first wins), (b, K, K), for scores, (b, K), and position effects, (b,)."""
    return np.asarray(expit(scores[:, :, None] - scores[:, None, :] + effect[:, None, None]))


def information_inverse(pair_information: FloatArray, position: bool) -> FloatArray:
    """Invert the information, the sum of pi w z z' over ordered pairs, on scores that sum to zero: (b, D, D).

    D is K + 1 with a position effect, else K.

    Shapes: pair_information (b, K, K).
    """
    n_items = pair_information.shape[1]
    as_first, as_second = pair_information.sum(axis=2), pair_information.sum(axis=1)
    total = np.zeros((len(pair_information), n_items + position, n_items + position))
    items = np.arange(n_items)
    total[:, :n_items, :n_items] = -pair_information - np.swapaxes(pair_information, 1, 2)
    total[:, items, items] += as_first + as_second
    if position:
        total[:, :n_items, n_items] = total[:, n_items, :n_items] = as_first - as_second
        total[:, n_items, n_items] = as_first.sum(axis=1)
    return inverse_on_differences(total, n_items)


def check_identified(has_propensity: NDArray[np.bool_], position: bool) -> None:
    """Check that pairs with a positive propensity, (b, K, K), identify the scores in every context."""
    n_items = has_propensity.shape[1]
    for pattern in np.unique(has_propensity.reshape(len(has_propensity), -1), axis=0).reshape(-1, n_items, n_items):
        if not Graph(pattern | pattern.T).connected:
            raise GraphError(
                "in some context the pairs with a positive propensity do not connect all models, which "
                "estimator='bt_restricted' needs in every context (as does estimator='debiased' with functional='bt'); "
                "give propensities that connect the models, or leave models out"
            )
        if position:
            j, k = np.nonzero(pattern)
            z = np.zeros((len(j), n_items + 1))
            z[np.arange(len(j)), j], z[np.arange(len(j)), k], z[:, -1] = 1.0, -1.0, 1.0
            if np.linalg.matrix_rank(z) < n_items:
                raise GraphError(
                    "the position effect cannot be told apart from the scores: in some context no pair has a positive "
                    "propensity in both display orders, so that differences of scores can explain the labels as "
                    "well as a position effect. Give propensities of both orders, or use position_bias=False, which "
                    "assumes that there is no position effect"
                )


def require_pair_propensities(propensity: Propensity) -> PairPropensity:
    """Return the propensities of all pairs."""
    if propensity.pairs is None:
        raise NuisanceError(
            "estimator='bt_restricted' needs the propensities of all pairs of a context, because its information I(x) "
            "is a sum over all pairs, and a column has the propensities of the shown pairs only; give an array "
            "(contexts, models, models), a function, a plan, or 'marginal' or 'estimate'"
        )
    return propensity.pairs


def restricted_score(functional: Functional, propensity: Propensity, ordered: bool) -> RestrictedBradleyTerry:
    """Return the score of a fit that assumes Bradley-Terry; ``functional`` is its projection."""
    assert isinstance(functional, BradleyTerry)
    assert functional.graph is not None
    return RestrictedBradleyTerry(functional, functional.graph, require_pair_propensities(propensity), ordered)


def check_restricted_categories(weights: CategoryWeights, categories: Sequence[str]) -> None:
    """Raise :class:`OptionError` unless there are two outcomes, of which a win counts 1 and a loss 0."""
    if len(categories) != 2:
        raise OptionError(
            f"estimator='bt_restricted' is for two outcomes, first wins and second wins; these data have "
            f"{len(categories)}: {', '.join(categories)}. The Bradley-Terry model has no probability of a tie: leave "
            f"ties out of the data if your question allows it, or use estimator='debiased' with functional='bt'"
        )
    if (weights.first, weights.second) != ((1.0, 0.0), (0.0, 1.0)):
        raise OptionError(
            f"estimator='bt_restricted' needs a win to count 1 and a loss 0, and category_weights has "
            f"{weights.first} for the model shown first and {weights.second} for the model shown second; use "
            f"estimator='debiased' with these weights"
        )


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedResampling:
    """A sampler of labels from the fitted Bradley-Terry model, for the distribution of a statistic under the model.

    The statistic is the Wald statistic of the difference between two estimates: the projection on the model (the
    debiased estimate), and the restricted estimate.

    The labelled cells are in an order that does not depend on the order of the data's rows.

    context (m,): Context of each labelled cell.
    share (m,): P(first wins) in the model.
    difference_change (m, K): What a win of the model shown first instead of the model shown second adds to the
        difference between the influence values of the two estimates in the cell's context.
    n_votes (m,): Number of votes of each cell.
    n_contexts: Number of contexts, n.
    """

    context: IntArray
    share: FloatArray
    difference_change: FloatArray
    n_votes: IntArray
    n_contexts: int

    def statistics(self, directions: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the Wald statistic of each sample of labels, with a covariance estimated from the same sample.

        Shapes: directions (K, r).
        """
        statistics = []
        change = self.difference_change @ directions
        n, m = self.n_contexts, len(self.share)
        sum_by_context = csr_array((np.ones(m), (self.context, np.arange(m))), shape=(n, m))
        affordable = _MAX_MULTIPLICATIONS / max(change.size * directions.shape[1], 1)
        for _ in range(int(np.clip(affordable, _FEWEST_SAMPLES, _N_SAMPLES))):
            noise = rng.binomial(self.n_votes, self.share) / self.n_votes - self.share
            phi = sum_by_context @ (change * noise[:, None])
            mean = phi.mean(axis=0)
            phi -= mean
            statistics.append(float(mean @ np.linalg.lstsq(phi.T @ phi / n**2, mean, rcond=None)[0]))
        return np.array(statistics)


def resampling_under_restriction(score: RestrictedBradleyTerry, inputs: OneStepInputs) -> RestrictedResampling:
    """Compute the probability of every label in the model, and what the label adds to the difference of the estimates.

    The two estimates are the projection and the restricted estimate. Their influence values have the same part F(mu),
    so that the difference of the influence values is a sum over labels, linear in each label.
    """
    data, cells = inputs.data, inputs.data.cells
    share, change = np.empty(len(cells)), np.empty((len(cells), data.n_items))
    for part in inputs.mu.parts(contexts_at_a_time(data)):
        table = clip_and_renormalise(part.probabilities(), inputs.floor)[part.place]
        place = np.full(data.n_contexts, -1)
        place[part.contexts] = np.arange(len(part.contexts))
        in_part = np.flatnonzero(place[cells.context] >= 0)
        pairs = place[cells.context[in_part]], cells.first[in_part], cells.second[in_part]
        _, share[in_part], of_restricted = score.by_label(table, part.contexts, *pairs)
        # What a win of the first instead of the second model adds to the projection's influence.
        mu, step, (first, second) = table[pairs], np.array([1.0, -1.0]) / inputs.propensity[in_part, None], pairs[1:]
        of_projection = score.functional.derivative_at(mu, step, first, second, data.n_items)
        if not score.position:
            other_order = score.functional.derivative_at(mu[:, ::-1], step[:, ::-1], second, first, data.n_items)
            of_projection = of_projection + other_order
        change[in_part] = of_projection - of_restricted
    change *= inputs.weight[cells.context][:, None]
    by_cell = np.lexsort((cells.second, cells.first, data.seed_order[cells.context]))
    return RestrictedResampling(
        context=cells.context[by_cell],
        share=share[by_cell],
        difference_change=change[by_cell],
        n_votes=cells.n_votes[by_cell],
        n_contexts=data.n_contexts,
    )

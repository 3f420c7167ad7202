"""The efficient estimator of Bradley-Terry scores under the assumption that the Bradley-Terry model holds."""

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

# Number of label samples for the test of the model; their smallest number, where there are many labels and models; and
# the number of multiplications that all samples together may take.
_N_SAMPLES, _FEWEST_SAMPLES, _MAX_MULTIPLICATIONS = 1999, 199, 2e10


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedBradleyTerry:
    r"""One-step estimator under :math:`\mu_{jk1}(x) = \sigma(r_j(x) - r_k(x) + b(x))`, sum of r zero.

    The fitted mu is first projected on the Bradley-Terry model: r is the least-squares projection of its log-odds, b is
    the mean of the remaining log-odds, and :math:`\tilde\mu_{jk} = \sigma(r_j - r_k + b)`. With
    :math:`z_{jk} = (e_j - e_k, 1)`, :math:`w = \tilde\mu (1 - \tilde\mu)` and
    :math:`I(x) = \sum \pi_{jk} w_{jk} z_{jk} z_{jk}'` the influence of a context is

    .. math:: r(x) - \theta + [I(x)^+ \sum S_{jk} z_{jk} (Y_{jk1} - \tilde\mu_{jk})]_r .

    The sums are over the edges of the graph in both orders. Without position effect, z has no last coordinate, each
    pair counts once, and :math:`\pi` is the expected number of labelled orders of the pair.

    Attributes
    ----------
    functional : BradleyTerry
        The projection, with its graph and edge weights.
    graph : Graph
        The graph of compared pairs.
    pairs : PairPropensity
        pi of all pairs.
    position : bool
        Whether the model has a position effect b.

    References
    ----------
    Frauen et al., arXiv 2601.21816, app:bt_restricted. The paper's formula for the influence is not used; see
    docs/bt_restricted.md.
    """

    functional: BradleyTerry
    graph: Graph
    pairs: PairPropensity
    position: bool
    interior = True
    linear = False

    def by_label(self, mu: FloatArray, contexts: IntArray, labels: LabelRows) -> tuple[FloatArray, FloatArray]:
        """Return the scores of b contexts, (b, K), and the contribution of each of e labels to the influence, (e, K).

        Parameters
        ----------
        mu : ndarray, shape (b, K, K, 2)
            Probabilities clipped at the floor.
        contexts : ndarray of int, shape (b,)
            Indices of the contexts.
        labels : LabelRows
            The e labels of these contexts.
        """
        place, first, second = labels.place, labels.first, labels.second
        scores, effect = self.project(mu)
        fitted = _win_probabilities(scores, effect)
        pi = np.where(self._summed_pairs(), self.pairs.table(contexts), 0.0)
        check_identified(pi > 0, self.position)
        inverse = information_inverse(pi * fitted * (1 - fitted), self.position)
        n_items = scores.shape[1]
        change = inverse[place, :n_items, first] - inverse[place, :n_items, second]
        if self.position:
            change = change + inverse[place, :n_items, n_items]
        residual = (labels.y[:, 0] - fitted[place, first, second]) * self.graph.edges[first, second]
        return scores, change * residual[:, None]

    def project(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return scores r, (b, K), and position effects, (b,), of the Bradley-Terry model nearest to ``mu``."""
        scores = self.functional.value(mu)
        if not self.position:
            return scores, np.zeros(len(mu))
        edges = self.graph.edges
        odds = logit(np.where(edges, mu[..., 0], 0.5))
        # The differences of scores add up to zero over both orders of a pair.
        return scores, np.asarray(odds.sum(axis=(1, 2)) / edges.sum())

    def probabilities(self, mu: FloatArray) -> FloatArray:
        """Return P(first wins), (b, K, K), in the Bradley-Terry model nearest to ``mu``."""
        return _win_probabilities(*self.project(mu))

    def _summed_pairs(self) -> NDArray[np.bool_]:
        """Return which ordered pairs count, (K, K): both orders of each edge, or one where order does not matter."""
        return np.asarray(self.graph.edges if self.position else np.triu(self.graph.edges), dtype=bool)


def _win_probabilities(scores: FloatArray, effect: FloatArray) -> FloatArray:
    """Return P(first wins), (b, K, K), for scores, (b, K), and position effects, (b,)."""
    return np.asarray(expit(scores[:, :, None] - scores[:, None, :] + effect[:, None, None]))


def information_inverse(amount: FloatArray, position: bool) -> FloatArray:
    """Invert the information, the sum of pi w z z' over ordered pairs, on scores that sum to zero: (b, D, D).

    D is K + 1 with a position effect, else K.

    Parameters
    ----------
    amount : ndarray, shape (b, K, K)
        pi w of every ordered pair.
    position : bool
        Whether z_jk is (e_j - e_k, 1), with a position effect, or e_j - e_k.
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


def check_identified(has_propensity: NDArray[np.bool_], position: bool) -> None:
    """Check that the pairs with a positive propensity identify the scores in every context.

    Parameters
    ----------
    has_propensity : ndarray of bool, shape (b, K, K)
        Whether pi of each ordered pair is positive.
    position : bool
        Whether there is a position effect.

    Raises
    ------
    GraphError
        If in some context the pairs do not connect the models, or do not identify the position effect.
    """
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
                    "position effect not separable from scores: in some context each pair has a positive propensity in "
                    "orders that differences of scores explain as well as a position effect (for example each pair in "
                    "one order only). Give propensities of both orders, or use position_bias=False, which assumes that "
                    "there is no position effect"
                )


def require_pair_propensities(propensity: Propensity) -> PairPropensity:
    """Return the propensities of all pairs.

    Raises
    ------
    NuisanceError
        If the user gave the propensities of the shown pairs only.
    """
    if propensity.pairs is None:
        raise NuisanceError(
            "estimator='bt_restricted' needs the propensities of all pairs of a context, because its information I(x) "
            "sums over them, and a column knows those of the shown pairs only; give an array (contexts, models, "
            "models), a function, a plan, or 'marginal' or 'estimate'"
        )
    return propensity.pairs


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
    """Samples of labels from the Bradley-Terry model: the distribution of a Wald statistic where the model holds.

    The labelled cells are in an order that does not depend on the order of the data's rows.

    Attributes
    ----------
    context : ndarray of int, shape (m,)
        Context of each labelled cell.
    share : ndarray, shape (m,)
        P(first wins) in the model.
    difference_change : ndarray, shape (m, K)
        Change of phi(projection) - phi(restricted) of the context when the first wins instead of the second.
    n_votes : ndarray of int, shape (m,)
        Number of votes of each cell.
    n_contexts : int
        Number of contexts, n.
    """

    context: IntArray
    share: FloatArray
    difference_change: FloatArray
    n_votes: IntArray
    n_contexts: int

    def statistics(self, along: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return Wald statistics of the difference in samples of labels, each with the covariance of its own sample.

        Parameters
        ----------
        along : ndarray, shape (K, r)
            Directions in which the two estimators differ.
        rng : Generator
            Draws the labels.
        """
        return np.array(list(self._draw_statistics(along, rng)))

    def _draw_statistics(self, along: FloatArray, rng: np.random.Generator) -> Iterator[float]:
        """Yield the Wald statistic of one sample after the other."""
        change = self.difference_change @ along
        n, m = self.n_contexts, len(self.share)
        sum_by_context = csr_array((np.ones(m), (self.context, np.arange(m))), shape=(n, m))
        affordable = _MAX_MULTIPLICATIONS / max(change.size * along.shape[1], 1)
        for _ in range(int(np.clip(affordable, _FEWEST_SAMPLES, _N_SAMPLES))):
            noise = rng.binomial(self.n_votes, self.share) / self.n_votes - self.share
            phi = sum_by_context @ (change * noise[:, None])
            mean = phi.mean(axis=0)
            phi -= mean
            yield float(mean @ np.linalg.lstsq(phi.T @ phi / n**2, mean, rcond=None)[0])


def resampling_under_restriction(
    score: RestrictedBradleyTerry,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    weight: FloatArray | None = None,
) -> RestrictedResampling:
    """Compute, for every label, its probability in the model and the change of the difference that it makes.

    The influence values of the projection and of the restricted estimator have the same F(mu). Their difference is
    therefore a sum over labels, linear in each Y.

    Parameters
    ----------
    score : RestrictedBradleyTerry
    data : PreferenceData
    nuisances : NuisanceEstimates
    weight : ndarray, shape (n,), optional
        Weights of the contexts in the target population; one when None.
    """
    cells = data.cells
    share, change = np.empty(len(cells)), np.empty((len(cells), data.n_items))
    for part in nuisances.mu.parts(contexts_at_a_time(data)):
        table = clip_and_renormalise(part.probabilities(), nuisances.floor)[part.place]
        place = np.full(data.n_contexts, -1)
        place[part.contexts] = np.arange(len(part.contexts))
        in_part = np.flatnonzero(place[cells.context] >= 0)
        pairs = place[cells.context[in_part]], cells.first[in_part], cells.second[in_part]
        share[in_part] = score.probabilities(table)[pairs]
        win = np.tile([1.0, 0.0], (len(in_part), 1))
        of_win, of_loss = (score.by_label(table, part.contexts, LabelRows(*pairs, y))[1] for y in (win, win[:, ::-1]))
        of_projection = _projection_changes(score, table[pairs], nuisances.propensity[in_part], *pairs[1:])
        change[in_part] = of_projection - (of_win - of_loss)
    if weight is not None:
        change *= weight[cells.context][:, None]
    by_cell = np.lexsort((cells.second, cells.first, data.seed_order[cells.context]))
    return RestrictedResampling(
        context=cells.context[by_cell],
        share=share[by_cell],
        difference_change=change[by_cell],
        n_votes=cells.n_votes[by_cell],
        n_contexts=data.n_contexts,
    )


def _projection_changes(
    score: RestrictedBradleyTerry, mu: FloatArray, propensity: FloatArray, first: IntArray, second: IntArray
) -> FloatArray:
    """Return the change of the projection's influence when the first wins instead of the second, (e, K).

    Parameters
    ----------
    score : RestrictedBradleyTerry
    mu : ndarray, shape (e, 2)
        Probabilities at the labelled cells.
    propensity : ndarray, shape (e,)
        pi at the labelled cells.
    first, second : ndarray of int, shape (e,)
        The ordered pair of each labelled cell.
    """
    step, n_items = np.array([1.0, -1.0]) / propensity[:, None], len(score.graph.edges)
    change = score.functional.derivative_at(mu, step, first, second, n_items)
    if score.position:
        return change
    return change + score.functional.derivative_at(mu[:, ::-1], step[:, ::-1], second, first, n_items)

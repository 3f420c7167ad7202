"""Cross-fitting of the outcome model mu: for every fold, a model is fitted to the labels of the other folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln, softmax

from ..._utils.tasks_and_threads import report
from ...data.outcomes import exchanged_wins, in_other_order
from ...data.preferences import BoolArray, Cells, FloatArray, IntArray, PreferenceData
from ..boosting import BinnedRows, Tune, predict_pairs, train_booster
from ..training_rows import Folds, outcome_rows

if TYPE_CHECKING:
    from ..all_pairs.predict import PairTrees
    from .main_effects import SmoothBoostedMu
    from .user_learners import RowsMu

# Prior precision of an item's effects. It is far below the information of one vote, and large enough to keep the effect
# of an item that never wins finite.
_RIDGE = 0.1
_MAX_STEPS = 100
# Numbers of votes that the main effects may count for: with the smallest one the votes on a pair prevail, with the
# largest one the main effects alone remain.
_PRIOR_STRENGTHS = np.concatenate([2.0 ** np.arange(-1, 14), [1e6]])


def shrunken_frequencies(counts: FloatArray) -> ConstantMu:
    """Estimate the category probabilities of every ordered pair from counts of votes, (K, K, C).

    The estimate is the posterior mean under a Dirichlet prior. The mean of the prior is the fit of the main effects,
    and the strength of the prior maximises the marginal likelihood of the counts (empirical Bayes; Good 1965).
    """
    probabilities = main_effects(counts)
    pairs = PairVotes.of(counts)
    expected = probabilities[pairs.first, pairs.second]
    strength = max(_PRIOR_STRENGTHS, key=lambda m: _marginal_likelihood(pairs.votes, expected, m))
    votes = counts.sum(axis=-1) + strength
    probabilities *= strength
    probabilities += counts
    probabilities /= votes[:, :, None]
    return ConstantMu(probabilities, votes)


class PairVotes(NamedTuple):
    """The ordered pairs with votes, m of them, and votes by category, (m, C). Of many items, most pairs have none."""

    first: IntArray
    second: IntArray
    votes: FloatArray

    @classmethod
    def of(cls, counts: FloatArray) -> PairVotes:
        """Collect the pairs with votes in a table of counts, (K, K, C)."""
        first, second = np.nonzero(counts.any(axis=-1))
        return cls(first, second, counts[first, second])


def scores_of_pairs(effects: FloatArray, first: IntArray, second: IntArray, n_categories: int) -> FloatArray:
    """Return the scores of ordered pairs by category, (C, m), from effects, (C + K (C - 1),).

    The constants stand first, then the strengths, which both wins share, then each kind of tie's inclinations.
    """
    strength, *ties = effects[n_categories:].reshape(n_categories - 1, -1)
    of_first = np.stack([strength, -strength, *ties])
    of_second = of_first[exchanged_wins(n_categories)]
    return np.asarray(effects[:n_categories, None] + of_first[:, first] + of_second[:, second])


def main_effects(counts: FloatArray) -> FloatArray:
    """Return the category probabilities, (K, K, C), of a multinomial logit with main effects of the items.

    Every item has one strength r, and one inclination t_c to every kind c of tie. The scores of the categories are
    a_1 + r_j - r_k (first wins), a_2 - r_j + r_k (second wins) and a_c + t_cj + t_ck (ties). This is the Bradley-Terry
    model with a position effect and ties; it is fitted by penalised Newton steps.

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
    """
    n_items, n_categories = counts.shape[0], counts.shape[2]
    penalty = np.full(n_categories + n_items * (n_categories - 1), _RIDGE)
    # The intercepts are identified up to a constant only; a very small penalty selects one of the solutions.
    penalty[:n_categories] = 1e-6
    pairs, effects = PairVotes.of(counts), np.zeros(len(penalty))
    value, p = penalised_likelihood(effects, pairs, penalty)
    for _ in range(_MAX_STEPS):
        gradient, hessian = likelihood_derivatives(effects, pairs, p, penalty)
        step = cho_solve(cho_factor(hessian.T, overwrite_a=True, check_finite=False), gradient)
        size, (new_value, p) = 1.0, penalised_likelihood(effects + step, pairs, penalty)
        while new_value < value and size > 1e-6:
            size /= 2
            new_value, p = penalised_likelihood(effects + size * step, pairs, penalty)
        effects, gain, value = effects + size * step, new_value - value, new_value
        if gain <= 1e-10 * (1 + abs(value)):
            break
    first, second = np.indices((n_items, n_items)).reshape(2, -1)
    table = softmax(scores_of_pairs(effects, first, second, n_categories), axis=0).T.reshape(counts.shape)
    table[np.arange(n_items), np.arange(n_items)] = 0.0
    return np.asarray(table)


def penalised_likelihood(effects: FloatArray, pairs: PairVotes, penalty: FloatArray) -> tuple[float, FloatArray]:
    """Return the penalised log-likelihood of effects (C + K (C - 1),), and the probabilities of pairs, (m, C)."""
    log_p = scores_of_pairs(effects, pairs.first, pairs.second, pairs.votes.shape[1]).T
    log_p -= log_p.max(axis=-1, keepdims=True)
    p = np.exp(log_p)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    log_p -= np.log(total)
    return float((pairs.votes * log_p).sum() - (penalty * effects**2).sum() / 2), p


def likelihood_derivatives(
    effects: FloatArray, pairs: PairVotes, p: FloatArray, penalty: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient and the negative Hessian of the penalised log-likelihood in effects (C + K (C - 1),)."""
    first, second, n_categories, n_votes = pairs.first, pairs.second, p.shape[1], pairs.votes.sum(axis=1)
    n_items, unit = (len(effects) - n_categories) // (n_categories - 1), np.eye(n_categories)
    residual, gradient, hessian = (pairs.votes - n_votes[:, None] * p).T, -penalty * effects, np.diag(penalty)
    # The votes of a pair are multinomial; here is their covariance, (C, C, m).
    covariance = n_votes * p.T * (unit[:, :, None] - p.T[:, None])
    # What the effects of the first and of the second item add to the scores of the categories, (C - 1, C).
    of_first, of_second = (np.vstack([sign * (unit[0] - unit[1]), unit[2:]]) for sign in (1, -1))
    with_first, with_second = (np.tensordot(added, covariance, 1) for added in (of_first, of_second))

    def by_item(at_first: FloatArray, at_second: FloatArray) -> FloatArray:
        """Add up rows of numbers, (e, m), of the first and of the second item of each pair, (e, K)."""
        both = zip(at_first, at_second, strict=True)
        return np.stack([np.bincount(first, a, n_items) + np.bincount(second, b, n_items) for a, b in both])

    gradient[:n_categories] += residual.sum(axis=1)
    gradient[n_categories:] += by_item(of_first @ residual, of_second @ residual).ravel()
    hessian[:n_categories, :n_categories] += covariance.sum(axis=2)
    for c in range(n_categories):
        hessian[c, n_categories:] = by_item(with_first[:, c], with_second[:, c]).ravel()
    hessian[n_categories:, :n_categories] = hessian[:n_categories, n_categories:].T
    blocks, items = (n_categories - 1, n_items) * 2, np.arange(n_items)
    of_items, of_pairs = hessian[n_categories:, n_categories:].reshape(blocks), np.zeros((n_items, n_items))
    for e, (at_first, at_second) in enumerate(zip(with_first, with_second, strict=True)):
        of_items[e, items, :, items] += by_item(of_first @ at_first, of_second @ at_second).T
        for f, crossed in enumerate(of_second @ at_first):
            of_pairs[first, second] = crossed
            of_items[e, :, f] += of_pairs
            of_items[f, :, e] += of_pairs.T
    return gradient, hessian


def _marginal_likelihood(votes: FloatArray, expected: FloatArray, strength: float) -> float:
    """Return the log-likelihood of votes, (m, C), under the prior Dirichlet(strength * expected), up to a constant."""
    # A category without votes contributes zero.
    has_votes, total = votes > 0, votes.sum(axis=1)
    n, prior = votes[has_votes], strength * np.maximum(expected[has_votes], 1e-12)
    return float((gammaln(n + prior) - gammaln(prior)).sum() - (gammaln(total + strength) - gammaln(strength)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class BoosterMu:
    """A booster over rows [x, first, second] as an outcome model, in a form that scores all pairs fast."""

    trees: PairTrees

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C)."""
        from ..all_pairs.predict import predict_all_pairs

        return predict_all_pairs(self.trees, x, self.trees.n_items)

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        return predict_pairs(self.trees.booster, x, first, second)


@dataclass(frozen=True, slots=True, eq=False)
class ConstantMu:
    """An outcome model with the same probabilities in every context: a table (K, K, C) with zero diagonal.

    votes (K, K): Votes behind the probabilities of each pair, with those that the prior counts for.
    """

    table: FloatArray
    votes: FloatArray

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C)."""
        return np.broadcast_to(self.table, (len(x), *self.table.shape))

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        return self.table[first, second]

    def without(self, own: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the probabilities, (r, C), of one pair each if r sets of its votes, (r, C), had not been cast."""
        votes = self.votes[first, second][:, None] * self.table[first, second] - own
        votes = np.maximum(votes, 0.0)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class MirroredMu:
    """An outcome model in which display order does not matter.

    Its prediction for a pair is the mean of another model's prediction for the pair and of that model's prediction for
    the other order, with first and second wins exchanged, for which ``flip``, (C,), has the codes.
    """

    model: MuModel
    flip: IntArray

    @property
    def concurrent(self) -> bool:
        """Whether several threads may predict at the same time."""
        return getattr(self.model, "concurrent", False)

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities, (n, K, K, C), in which mu_kj is the flip of mu_jk."""
        mu = self.model.predict(x)
        return (mu + in_other_order(mu)) / 2

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        return (self.model.at(x, first, second) + self.model.at(x, second, first)[:, self.flip]) / 2


# A trained model of mu: probabilities of all pairs in b contexts, ``predict``, (b, K, K, C), and of one pair in each
# context, ``at``, (b, C).
MuModel: TypeAlias = "SmoothBoostedMu | BoosterMu | ConstantMu | MirroredMu | RowsMu"


def fit_all(
    data: PreferenceData,
    folds: Folds,
    seeds: Sequence[np.random.SeedSequence],
    *,
    tune: Tune,
    learner: object = "auto",
    soft: Sequence[Cells] | None = None,
    like: MuModel | None = None,
) -> tuple[MuModel, ...]:
    """Fit one model of mu per fold, each trained on the other folds."""
    fold = folds.fold
    if learner == "auto" and tune == "cv" and data.x.shape[1]:
        in_fold = np.stack([data.cells.y[fold[data.cells.context] == f].sum(axis=0) for f in range(len(seeds))])
        n_categories = (in_fold.sum(axis=0) - in_fold > 0).sum(axis=1)
        if (n_categories > 1).all():
            from .main_effects import SmoothBoostedMu, fit_smooth_boosted

            stage = like.stage if isinstance(like, SmoothBoostedMu) else None
            return fit_smooth_boosted(data, fold, seeds, soft=soft, like=stage)
    models = []
    for held_out, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        with_soft = data if soft is None else replace(data, cells=data.cells.joined(soft[held_out]))
        models.append(fit_mu(with_soft, fold != held_out, folds.unit, rng, tune=tune, learner=learner))
        report(held_out + 1, len(seeds), "mu, folds")
    return tuple(models)


def fit_mu(
    data: PreferenceData,
    in_training: BoolArray,
    unit: IntArray,
    rng: np.random.Generator,
    *,
    tune: Tune,
    learner: object = "auto",
) -> MuModel:
    """Fit mu on the labelled cells of the training contexts with LightGBM or with the user's learner.

    Neither is needed without features, where votes are counted, or where all labels have one and the same category.
    """
    from ..all_pairs.predict import PairTrees
    from .user_learners import fit_learner

    counts = _vote_counts(data, in_training)
    if not data.ordered:
        counts = counts + in_other_order(counts)
    model: MuModel
    if data.x.shape[1] == 0 or np.count_nonzero(counts.sum(axis=(0, 1))) <= 1:
        model = frequencies(counts)
    else:
        rows = outcome_rows(data, in_training, unit)
        if not isinstance(learner, str):
            model = fit_learner(learner, rows, data.n_items, data.n_categories, rng)
        else:
            booster = train_booster(BinnedRows.of(rows, tune, data.n_categories), rng)
            model = BoosterMu(PairTrees.of(booster, data.n_items))
    return model if data.ordered else MirroredMu(model, data.flip)


def frequencies(counts: FloatArray) -> ConstantMu:
    """Estimate the probabilities of pairs from counts (K, K, C), together where all labels have one category."""
    total = counts.sum(axis=(0, 1))
    if np.count_nonzero(total) > 1:
        return shrunken_frequencies(counts)
    # The overall shares of the categories; equal shares without labels.
    share = total / total.sum() if total.sum() else np.full(len(total), 1 / len(total))
    table = np.where(np.eye(len(counts), dtype=bool)[:, :, None], 0.0, share)
    return ConstantMu(table, np.full(table.shape[:2], total.sum() + 1))


def fit_pilot(data: PreferenceData, apart: BoolArray | None = None) -> ConstantMu:
    """Estimate mu without features from all labels; where display order does not matter, both orders agree.

    Labels of models apart, (K,), are not used for pairs of the others.
    """
    counts = _vote_counts(data, np.ones(len(data.x), dtype=bool))
    pilot = _pilot(counts, data)
    if apart is not None:
        core = np.ix_(~apart, ~apart)
        of_core = _pilot(counts[core], data)
        pilot.table[core], pilot.votes[core] = of_core.table, of_core.votes
    return pilot


def _pilot(counts: FloatArray, data: PreferenceData) -> ConstantMu:
    """Estimate mu from the votes on every pair by category, (K, K, C)."""
    if data.ordered:
        return frequencies(counts)
    pilot = frequencies(counts + in_other_order(counts))
    return replace(pilot, table=(pilot.table + in_other_order(pilot.table)) / 2)


def _vote_counts(data: PreferenceData, counted: BoolArray) -> FloatArray:
    """Return the votes in some contexts, (n,), on every ordered pair by category, (K, K, C)."""
    n_votes = data.cells.n_votes * counted[data.cells.context]
    return np.stack([data.cells.sums(share * n_votes, data.n_items) for share in data.cells.y.T], axis=-1)

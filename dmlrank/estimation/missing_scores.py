"""Means of scores of which some are missing: corrected by what features say, or drawn with known propensities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from ..data.preferences import FloatArray, IntArray
from ..nuisance.style import AdditiveModel, AdditiveRows, context_design, fit_by_fold, predict_by_fold

# A propensity is at least this share of the rate at which the model's scores are there.
_RELATIVE_FLOOR = 0.1
# Penalties of the ridge regression of scores, in units of the variance of a regressor; the last one leaves the mean.
_PENALTIES = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 1e6])
# Quantiles of the mean of complete models' scores at which its curve bends.
_KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
# Number of rows by which chance may improve on the mean; see ridge_out_of_fold.
_CHANCE = 4.0
# Fewest scores of a model from which a regression is learnt; with fewer its mean is used.
_FEWEST_TO_REGRESS = 10
# Number of complete models, those with the closest scores, that say how a model with few scores does.
_N_ALIKE = 3


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedMeans:
    """Fitted scores m, (n, K), corrections S / pi (Y - m), (n, K), and the weights S / pi, (n, K)."""

    fitted: FloatArray
    correction: FloatArray
    inverse: FloatArray


def corrected_means(
    scores: FloatArray, x: FloatArray, seed_order: IntArray, *, fold: IntArray, n_folds: int, weight: FloatArray
) -> CorrectedMeans:
    r"""Correct the means of scores for missing scores, by what is learnt from features on the other folds.

    Shapes: scores (n, K), NaN where missing, x (n, p), seed_order, fold, weight (n,).

    Notes
    -----
    Let S_ij = 1 where prompt i has a score Y_ij of model j. With m_j(x) = E[Y_ij | x] and \pi_j(x) = P(S_ij = 1 | x),

        theta_j = mean over i of { m_j(x_i) + S_ij / \pi_j(x_i) (Y_ij - m_j(x_i)) }

    estimates E[Y_ij] if a score is missing for reasons that x holds. The error of order n^-1/2 is that of the influence
    values, because the bias is the product of the errors of m and \pi. Both are additive in smooth curves of the
    features: a linear regression of scores, and a logistic regression of S, in which models share curves and deviate
    from them. They are fitted out of fold, with ridges by held-out loss. \pi is at least a tenth of the share of
    prompts with a score, and scaled so that the mean of S / \pi is one. Without features m_j is the mean of the scores
    that are there and \pi_j their share, so that theta_j is this mean.

    References
    ----------
    Robins, Rotnitzky and Zhao (1994), Estimation of regression coefficients when some regressors are not always
    observed.
    """
    is_there = np.isfinite(scores)
    share = np.average(is_there, axis=0, weights=weight)
    known = np.where(is_there, scores, 0.0)
    fitted = np.broadcast_to(np.average(known, axis=0, weights=weight) / share, scores.shape)
    propensity = np.broadcast_to(share, scores.shape)

    def learnt(values: FloatArray, logistic: bool) -> FloatArray:
        """Regress values, (n, K), on features and models, one regression per fold; return predictors out of fold."""
        n, n_items = values.shape
        context, item = (part.ravel() for part in np.indices((n, n_items)))
        design = context_design(x[np.argsort(seed_order)], x, n_items)
        # The second item of a row is one further item that stands for all models.
        all_models, values = np.full(n * n_items, n_items), values.ravel()
        rows = AdditiveRows(design[context], item, all_models, np.empty((n * n_items, 0)), np.ones(n * n_items))
        model, used = AdditiveModel(n_items + 1, 1, False, logistic, np.empty(0)), np.flatnonzero(np.isfinite(values))
        centre, scale = (0.0, 1.0) if logistic else (values[used].mean(), values[used].std() or 1.0)
        y = ((values[used] - centre) / scale)[:, None]
        fits = fit_by_fold(model, rows.only(used), [y] * n_folds, fold[context[used]])
        return centre + scale * predict_by_fold(fits, rows, fold[context])[:, 0].reshape(n, n_items)

    if n_folds > 1:
        fitted, propensity, has_gaps = learnt(scores, False), np.ones(scores.shape), ~is_there.all(axis=0)
        of_gaps = expit(learnt(is_there[:, has_gaps].astype(float), True))
        propensity[:, has_gaps] = np.maximum(of_gaps, _RELATIVE_FLOOR * share[has_gaps])
    inverse = is_there / propensity
    inverse = inverse / np.average(inverse, axis=0, weights=weight)
    return CorrectedMeans(np.array(fitted), inverse * (known - fitted), inverse)


def drawn_means(
    scores: FloatArray,
    x: FloatArray,
    seed_order: IntArray,
    propensity: FloatArray,
    *,
    fold: IntArray,
    n_folds: int,
    weight: FloatArray,
) -> CorrectedMeans:
    r"""Correct the means of scores that were drawn with known propensities.

    Shapes: scores, propensity (n, K), NaN where a score was not drawn, x (n, p), seed_order, fold, weight (n,).

    Notes
    -----
    The estimate is the mean of m_j(x_i) + S_ij / \pi_ij (Y_ij - m_j(x_i)). The regressors of m_j are smooth features
    and the scores of *complete* models, whose propensities are one. A regression learns little from few scores, but all
    scores of a complete model k tell E[Y_k | scores of the others]. m_j starts from the mean of these predictions for
    the three complete models with the closest scores, and a ridge regression on other folds predicts what is left.

    *Unbiased.* Let G hold features, all scores that the models would have, and every draw on other folds. If
    P(S_ij = 1 | G) = \pi_ij, the term of prompt i has the conditional mean Y_ij whatever m_j is, because m_j is a
    function of G: features, scores of complete models, and a fit to other folds. Scores of models that are not complete
    are no regressors. Models are drawn together, so that their S_ik would tell S_ij.

    *Rounds.* Each prompt has one uniform number u_i that never changes, and S_ij = 1 if u_i < \pi_ij. A round raises
    \pi_ij. What is known of u_i after a round is an interval: above the propensities of models without a score, below
    those of models with one. The next round draws u_i from it, so that no number has to be stored, and S_ij has again
    the probability \pi_ij.

    Let \pi_i^{(r)} be a function of G for every round r: of features, scores of complete models, and draws and scores
    of *other* folds. Then S_i^{(r)} / \pi_i^{(r)} has the conditional mean one after every round, so that the estimate
    is unbiased whenever rounds end. Since P(S^{(r-1)} = 1 | S^{(r)} = 1, G) = \pi^{(r-1)} / \pi^{(r)}, it is a reverse
    martingale in r, E[S^{(r-1)} / \pi^{(r-1)} | S^{(r)}, G] = S^{(r)} / \pi^{(r)}, whose mean squared error decreases
    from look to look. With R planned looks, intervals of level 1 - alpha / R hold jointly at all looks.

    The rules of a round are learnt on the other folds, but the rules of different folds depend on each other, and G
    contains the draws of prompt i through them. Each rule is a few numbers (ridge coefficients, variances, one
    multiplier of the budget), averages that one prompt changes by O(1 / n). If they converge, and propensities stay
    above a floor, the estimate differs from that with the limiting rules by o(n^-1/2); it is asymptotically normal, and
    the variance between prompts of its terms is consistent. Which models a round is for, such as the best three, is
    such a rule once their order has settled.

    References
    ----------
    Ohlsson (1995), Coordination of samples using permanent random numbers; Robins, Rotnitzky and Zhao (1994).
    """
    is_there = np.isfinite(scores)
    inverse = np.divide(is_there, propensity, out=np.zeros(scores.shape), where=is_there)
    is_complete = np.asarray((propensity >= 1).all(axis=0) & is_there.all(axis=0))
    known = np.where(is_there, scores, 0.0)
    fitted, complete = known.copy(), scores[:, is_complete]
    regressors = score_regressors(complete, x, seed_order)

    @cache
    def predicted(k: int) -> FloatArray:
        others = score_regressors(np.delete(complete, k, axis=1), x, seed_order)
        return ridge_out_of_fold(complete[:, k], others, weight, fold=fold, n_folds=n_folds)

    for item in np.flatnonzero(~is_complete):
        y, row_weight = known[:, item], inverse[:, item] * weight

        def start(used: IntArray, y: FloatArray = y, row_weight: FloatArray = row_weight) -> FloatArray:
            gaps = row_weight[used] @ (complete[used] - y[used, None])
            return np.mean([predicted(int(k)) for k in closest(gaps)], axis=0)

        fitted[:, item] = ridge_out_of_fold(
            y, regressors, row_weight, fold=fold, n_folds=n_folds, start=start if complete.shape[1] > 1 else None
        )
    return CorrectedMeans(fitted, inverse * (known - fitted), inverse)


def closest(gaps: FloatArray) -> IntArray:
    """Return which complete models say how another model does, from the gaps between its score and theirs, (K,)."""
    return np.argsort(np.abs(gaps), kind="stable")[:_N_ALIKE]


def score_regressors(complete: FloatArray, x: FloatArray, seed_order: IntArray) -> FloatArray:
    """Return smooth features, scores of complete models and a curve of their mean, (n, q), to regress scores on."""
    columns = [complete]
    if complete.shape[1] > 1:
        # A curve of straight pieces: where models are much alike, success is nearly a step in the mean of the others.
        mean = complete.mean(axis=1, keepdims=True)
        knots = np.unique(np.quantile(mean, _KNOTS))
        columns.append(np.maximum(mean - knots, 0.0))
    if x.shape[1]:
        columns.append(context_design(x[np.argsort(seed_order)], x, 1)[:, 1:])
    return np.hstack(columns)


def ridge_out_of_fold(
    y: FloatArray,
    regressors: FloatArray,
    weight: FloatArray,
    *,
    fold: IntArray,
    n_folds: int,
    start: Callable[[IntArray], FloatArray] | None = None,
) -> FloatArray:
    """Predict y, (n,), from a ridge regression on the other folds, with the penalty of the least leave-one-out loss.

    Rows with a weight of zero are predicted, but not learnt from. The regression is of what a first prediction, (n,),
    leaves, which ``start`` returns for the rows that are learnt from. No prediction is outside the range of both.

    Shapes: regressors (n, q), weight, fold (n,).
    """
    fitted = np.zeros(len(y))
    for number in range(n_folds):
        is_held_out = fold == number
        used = np.flatnonzero((weight > 0) & (~is_held_out if n_folds > 1 else is_held_out))
        if not len(used):
            # No score of the model in any other fold: any number is valid, and zero is one.
            continue
        base, seen = np.zeros(len(y)), y[used]
        if start is not None:
            base = start(used)
            seen = np.append(seen, base)
        w = weight[used] / weight[used].sum()
        centre, mean = w @ regressors[used], float(w @ (y - base)[used])
        left, z = (y - base)[used] - mean, regressors[used] - centre
        scale = np.sqrt(w @ np.square(z))
        is_varying = scale > 1e-9
        found = base[is_held_out] + mean
        if is_varying.any() and len(used) >= _FEWEST_TO_REGRESS:
            z = z[:, is_varying] / scale[is_varying]
            values, vectors = np.linalg.eigh((z * w[:, None]).T @ z)
            turned, shrunk = z @ vectors, 1 / (np.maximum(values, 0)[:, None] + _PENALTIES)
            slopes = (w * left @ turned)[:, None] * shrunk
            leverage = w[:, None] * (1 + np.square(turned) @ shrunk)
            losses = w @ np.square((left[:, None] - turned @ slopes) / np.maximum(1 - leverage, 0.05))
            # Chance improves on the mean by a few rows in their effective number; regressors have to improve by more.
            if losses.min() < losses[-1] * (1 - _CHANCE * w @ w):
                rows = (regressors[is_held_out][:, is_varying] - centre[is_varying]) / scale[is_varying]
                found = found + rows @ (vectors @ slopes[:, losses.argmin()])
        fitted[is_held_out] = np.clip(found, seen.min(), seen.max())
    return fitted

r"""Means of scores of which many are missing: one predictor of every score, corrected by the scores that are there.

Scores may be runs that a plan drew, grades that people gave to some of the answers that a judge has seen, or results on
tasks that some models were never run on.

Notes
-----
Let R_ij = 1 where prompt i has a score Y_ij of model j, with probability rho_ij, and let m_ij predict it. The estimate
is

    theta_j = mean over i of { m_ij + W_ij (Y_ij - m_ij) },   W_ij = R_ij / rho_ij, divided by its mean over prompts.

*Unbiased.* If rho is known and m_ij does not depend on R_ij, the term of prompt i has the conditional mean Y_ij given
everything but R_ij, whatever m is. If rho is estimated, the bias is the product of the errors of m and rho. A constant
in m_ij, for all prompts of a model, changes nothing, because the mean of W is one.

*The predictor* has two linear steps, both learnt on other folds. (1) A regression of scores on the answer's judges and
the prompt's features: slopes of all models and deviations of each one, with ridges in units of scores. (2) What it
leaves of other models on the prompt says what it leaves of this one: the conditional mean of a normal vector, whose
correlations are drawn to a line in the distance of the models' means. With clusters, first for the mean residuals of
clusters, then for the deviations from them. Each fold takes the candidate that is best on the other folds, if it beats
a constant by more than by chance.

*Whose scores may predict whose.* Where models are drawn together, as every plan of this package does, m_ij would differ
between R_ij = 1 and 0 if it used the other models' scores, and errors of their means would enter at first order.
Complete models may predict all others, and models whose draws have nothing to do with each other.

*Rounds.* Each prompt has one uniform number u_i that never changes, and R_ij = 1 if u_i < rho_ij. A round raises
rho_ij. What is known of u_i after a round is an interval: above the propensities of models without a score, below those
of models with one. The next round draws u_i from it, so that no number has to be stored. If the rules of rounds depend
on features, judges, complete models and *other* folds alone, W_i has the conditional mean one after every round, and is
a reverse martingale in rounds: the estimate is unbiased whenever rounds end. Rules of different folds depend on each
other through a few averages, which one prompt changes by O(1 / n).

References
----------
Robins, Rotnitzky and Zhao (1994), Estimation of regression coefficients when some regressors are not always observed;
Angelopoulos et al. (2023), Prediction-powered inference; Ohlsson (1995), Coordination of samples using permanent random
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ..data.arrays import BoolArray, FloatArray, IntArray
from .influence import unit_sums

# Penalties of common slopes and of deviations by model, in scores; the first leaves the mean.
_SLOPES = ((1e12, 1e12), (3.0, 1e6), (3.0, 100.0), (3.0, 30.0), (3.0, 10.0))
# Number of scores that the line of correlations of residuals counts as; the first uses no other model.
_CORRELATIONS = (0.0, 1e6, 100.0, 20.0)
# Number of scores by which chance may improve on the first candidate.
_CHANCE = 4.0
# Number of scores that the common mean counts as, and the common variance of residuals.
_PRIOR_OF_MEAN, _PRIOR_OF_VARIANCE = 1.0, 10.0
_LARGEST_CORRELATION, _LEAST_EIGENVALUE = 0.95, 0.05
# Draws of two models with a larger correlation are not independent; two standard errors are added.
_COUPLED = 0.1
# Number of cells that no effect on the propensity counts as, for slopes and for intercepts.
_PENALTY_OF_SLOPES, _PENALTY_OF_SHARES = 10.0, 0.5
# A propensity is at least this share of the rate at which the model's scores are there.
RELATIVE_FLOOR = 0.1
# Numbers in memory at a time.
_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedMeans:
    """Predicted scores m, (n, K), that leave nothing on average, corrections W (Y - m), weights W and propensities.

    ``fitted`` has the scores themselves of models that are complete, ``predicted`` what is predicted out of fold, from
    ``cells``.
    """

    cells: ScoreCells
    predicted: FloatArray
    fitted: FloatArray
    correction: FloatArray
    inverse: FloatArray
    propensity: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCells:
    """What is known of the cells of n prompts and K models.

    scores (n, K): NaN where there is none.
    columns (n, K, q): Regressors of :func:`answer_columns`.
    fold, weight (n,): Fold and weight of each prompt.
    cluster (n,): Its cluster, which is in one fold; None where prompts are independent.
    """

    scores: FloatArray
    columns: FloatArray
    fold: IntArray
    weight: FloatArray
    cluster: IntArray | None = None

    @property
    def is_there(self) -> BoolArray:
        """Cells with a score, (n, K)."""
        return np.isfinite(self.scores)

    @property
    def folds(self) -> list[BoolArray]:
        """The prompts of each fold."""
        return [self.fold == number for number in range(int(self.fold.max()) + 1)]


def corrected_means(cells: ScoreCells, propensity: FloatArray | None) -> CorrectedMeans:
    """Correct means for missing scores; ``propensity``, (n, K), is estimated where it is None.

    A known propensity may be NaN where there is no score.
    """
    is_there, n = cells.is_there, len(cells.scores)
    if propensity is None:
        propensity = estimated_propensities(cells)
    is_complete = np.asarray(is_there.all(axis=0) & (propensity >= 1).all(axis=0))
    inverse = np.divide(is_there, propensity, out=np.zeros(is_there.shape), where=is_there)
    inverse = inverse / np.average(inverse, axis=0, weights=cells.weight)
    n_units = n if cells.cluster is None else len(np.unique(cells.cluster))
    m = predicted_scores(cells, inverse, regressors(is_there, propensity, is_complete, n_units))
    left = np.where(is_there, cells.scores - m, 0.0)
    m = m + np.average(inverse * left, axis=0, weights=cells.weight)
    fitted = np.where(is_complete, cells.scores, m)
    correction = inverse * np.where(is_there, cells.scores - fitted, 0.0)
    return CorrectedMeans(cells, m, fitted, correction, inverse, propensity)


def regressors(is_there: BoolArray, propensity: FloatArray, is_complete: BoolArray, n_units: int) -> BoolArray:
    """Return whose scores (columns) may predict whose (rows), (K, K)."""
    is_known = np.isfinite(propensity).all(axis=0)
    draws: FloatArray = is_there - np.where(is_known, propensity, is_there.mean(axis=0))
    draws[:, is_complete] = 0.0
    size = np.sqrt(np.square(draws).sum(axis=0))
    correlation = draws.T @ draws / np.maximum(np.outer(size, size), 1e-12)
    is_free = (np.abs(correlation) <= _COUPLED + 2 / np.sqrt(n_units)) & ~is_complete & ~is_complete[:, None]
    # A model never predicts itself; that it is named gives all models that are drawn independently the same row.
    np.fill_diagonal(is_free, is_free.any(axis=1))
    return np.asarray(is_complete | is_free)


def answer_columns(judges: FloatArray, features: FloatArray) -> FloatArray:
    """Return regressors of every answer, (n, K, q): each judge's score with two bends, its mean over models, features.

    They have mean zero for each model and deviation one. Where a judge has no score of an answer, its scores of other
    answers to the prompt stand in. Shapes: judges (n, K, L), NaN where missing, features (n, p).
    """
    n, n_items, n_judges = judges.shape
    columns = list[FloatArray]()
    for judge in range(n_judges):
        own = completed(judges[:, :, judge])
        columns.append(own)
        if n_items > 1:
            deviation = own - own.mean(axis=0)
            columns.append(np.broadcast_to(deviation.mean(axis=1, keepdims=True), own.shape))
        bends = np.unique(np.nanquantile(judges[:, :, judge], [1 / 3, 2 / 3]))
        columns += [np.maximum(own - bend, 0.0) for bend in bends]
    columns += [np.broadcast_to(feature[:, None], (n, n_items)) for feature in features.T]
    return _standardised(columns) if columns else np.empty((n, n_items, 0))


def completed(judge: FloatArray) -> FloatArray:
    """Return a judge's scores, (n, K), in which those of other answers to the prompt stand in for missing ones."""
    is_seen = np.isfinite(judge)
    if is_seen.all():
        return judge
    level = np.nanmean(judge, axis=0)
    deviation = np.where(is_seen, judge - level, 0.0)
    covariance = shrunken_covariances(deviation, is_seen.astype(float), level)[-1]
    return np.where(is_seen, judge, level + conditional_means(deviation, is_seen, covariance))


def _standardised(columns: list[FloatArray]) -> FloatArray:
    """Return columns, (n, K) each, with mean zero for each model and deviation one, (n, K, q), without constants."""
    z = np.stack(columns, axis=2)
    z = z - z.mean(axis=0)
    deviation = np.sqrt(np.square(z).mean(axis=(0, 1)))
    varies = deviation > 1e-9 * np.maximum(np.abs(z).max(axis=(0, 1), initial=0.0), 1e-300)
    return z[:, :, varies] / deviation[varies]


def predicted_scores(cells: ScoreCells, inverse: FloatArray, may_predict: BoolArray) -> FloatArray:
    """Predict every score out of fold, (n, K), whether it is there or not; no prediction leaves the range of scores.

    inverse (n, K): Weights W of the scores.
    may_predict (K, K): Whose scores (columns) may predict whose (rows).
    """
    is_there, folds = cells.is_there, cells.folds
    n, n_items = is_there.shape
    if len(folds) == 1:
        folds = [~folds[0], folds[0]]
    y, w = np.where(is_there, cells.scores, 0.0), inverse * cells.weight[:, None]
    total = w.sum(axis=0)
    mean: FloatArray = (w * y).sum(axis=0) / total
    w = np.asarray(w * (is_there.sum(axis=0) / total))
    design = np.concatenate([np.ones((n_items, n, 1)), np.moveaxis(cells.columns, 1, 0)], axis=2)
    weighted = design * w.T[:, :, None]
    gram = np.stack([np.swapaxes(weighted[:, rows], 1, 2) @ design[:, rows] for rows in folds])
    moment = np.stack([(np.swapaxes(weighted[:, rows], 1, 2) @ y.T[:, rows, None])[..., 0] for rows in folds])
    del weighted
    n_elsewhere = np.array([is_there[~rows].sum() for rows in folds])

    def best(candidates: list[FloatArray]) -> IntArray:
        """Return the candidate, a prediction (n, K), of each fold: the best on other folds by more than chance."""
        losses = np.stack([(w * np.square(y - m)).sum(axis=1) for m in candidates])
        by_fold = np.stack([losses[:, rows].sum(axis=1) for rows in folds])
        elsewhere = by_fold.sum(axis=0) - by_fold
        is_better = elsewhere.min(axis=1) < elsewhere[:, 0] * (1 - _CHANCE / np.maximum(n_elsewhere, 1))
        return np.where(is_better, elsewhere.argmin(axis=1), 0)

    slopes = np.array(
        [
            [hierarchical_ridge(gram.sum(axis=0) - g, moment.sum(axis=0) - s, *c) for c in _SLOPES]
            for g, s in zip(gram, moment, strict=True)
        ]
    )
    out_of_fold = list[FloatArray]()
    for number in range(len(_SLOPES)):
        m = np.empty((n, n_items))
        for rows, beta in zip(folds, slopes[:, number], strict=True):
            m[rows] = _fitted(design[:, rows], beta)
        out_of_fold.append(m)
    chosen = [slopes[number, place] for number, place in enumerate(best(out_of_fold))]
    # Estimates do not depend on a constant: one for all folds, so that a judge that says nothing changes nothing.
    fitted, level = np.empty((n, n_items)), np.empty((n, n_items))
    for rows, beta in zip(folds, chosen, strict=True):
        fitted[rows] = _fitted(design[:, rows], beta)
        level[rows] = mean - beta[:, 0]
    if n_items > 1 and may_predict.any():
        added = [np.zeros((n, n_items)) for _ in _CORRELATIONS]
        groups, group = np.unique(may_predict, axis=0, return_inverse=True)
        for rows, beta in zip(folds, chosen, strict=True):
            residual = np.where(is_there, y - _fitted(design, beta), 0.0)
            learnt, of_clusters, between = ~rows, None, list[FloatArray]()
            average = np.asarray((w * y)[learnt].sum(axis=0) / np.maximum(w[learnt].sum(axis=0), 1e-12))
            if cells.cluster is not None:
                of_clusters, sizes = _means_by_cluster(residual, w, cells.cluster)
                residual = np.where(is_there, residual - of_clusters[cells.cluster], 0.0)
                trained = np.unique(cells.cluster[learnt])
                between = shrunken_covariances(of_clusters[trained], (sizes[trained] > 0).astype(float), average)
            within = shrunken_covariances(residual[learnt], w[learnt], average)
            for number, covariance in enumerate(within):
                for place, allowed in enumerate(groups):
                    of = group.ravel() == place
                    found = conditional_means(residual[rows], is_there[rows] & allowed, covariance)
                    if of_clusters is not None and cells.cluster is not None:
                        of_cluster = conditional_means(of_clusters, (sizes > 0) & allowed, between[number])
                        found = found + of_cluster[cells.cluster[rows]]
                    added[number + 1][np.ix_(rows, of)] = found[:, of]
        for rows, place in zip(folds, best([fitted + more for more in added]), strict=True):
            fitted[rows] += added[place][rows]
    m = fitted + level
    for rows in folds:
        seen = y[~rows][is_there[~rows]]
        if len(seen):
            m[rows] = np.clip(m[rows], seen.min(), seen.max())
    return m


def _fitted(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the predictions of regressors, (K, n, p), with coefficients of each model, (K, p): (n, K)."""
    return (design @ coefficients[:, :, None])[..., 0].T


def hierarchical_ridge(gram: FloatArray, moment: FloatArray, common: float, deviation: float) -> FloatArray:
    """Return coefficients of each model, (K, p): common ones with deviations; the first one is the mean.

    Given the common ones c, those of a model are c + (G + P)^-1 (g - G c), so that c solves the sum of the K Schur
    complements. Shapes: gram (K, p, p), moment (K, p).
    """
    p = gram.shape[1]
    of_common = np.diag(np.r_[1e-9, np.full(p - 1, common)])
    of_deviation = np.diag(np.r_[_PRIOR_OF_MEAN, np.full(p - 1, deviation)])
    solved = np.linalg.solve(gram + of_deviation, np.concatenate([gram, moment[:, :, None]], axis=2))
    left = gram - gram @ solved[:, :, :p]
    of_all = (moment - (gram @ solved[:, :, p:])[:, :, 0]).sum(axis=0)
    c = np.linalg.solve(left.sum(axis=0) + of_common, of_all)
    return np.asarray(c + solved[:, :, p] - solved[:, :, :p] @ c)


def shrunken_covariances(residual: FloatArray, weight: FloatArray, mean: FloatArray) -> list[FloatArray]:
    """Return covariances, (K, K), from the pairs that are there, one for each prior of the correlations.

    Correlations are drawn to a line in the distance of the models' means: those that are alike succeed and fail
    together. Shapes: residual, weight (n, K), zero where there is none, mean (K,).
    """
    there = (weight > 0).astype(float)
    squares, total = (weight * np.square(residual)).sum(axis=0), weight.sum(axis=0)
    variance, n_own = squares / np.maximum(total, 1e-12), there.sum(axis=0)
    common = max(squares.sum() / max(total.sum(), 1e-12), 1e-12)
    variance = (n_own * variance + _PRIOR_OF_VARIANCE * common) / (n_own + _PRIOR_OF_VARIANCE)
    scaled = weight * residual / np.sqrt(variance)
    pairs, count = weight.T @ weight, there.T @ there
    r = np.divide(scaled.T @ scaled, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    between = count * ~np.eye(len(r), dtype=bool)
    n_pairs, distance = max(between.sum(), 1.0), np.abs(mean[:, None] - mean)
    distance = distance - (between * distance).sum() / n_pairs
    slope = (between * distance * r).sum() / max((between * np.square(distance)).sum(), 1e-12)
    line = (between * r).sum() / n_pairs + slope * distance
    found = []
    for prior in _CORRELATIONS[1:]:
        drawn = (count * r + prior * line) / (count + prior)
        drawn = np.clip(drawn, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
        np.fill_diagonal(drawn, 1.0)
        values, vectors = np.linalg.eigh(drawn)
        drawn = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
        scale = np.sqrt(variance / np.diag(drawn))
        found.append(drawn * np.outer(scale, scale))
    return found


def conditional_means(values: FloatArray, is_seen: BoolArray, covariance: FloatArray) -> FloatArray:
    """Return the mean of each entry of a normal vector with mean zero given the *other* entries that are seen, (n, K).

    With P the inverse of the covariance of the seen entries, that of a seen entry j is v_j - (P v)_j / P_jj, and of
    another one C_j P v. Rows with the same entries share an inverse. Shapes: values, is_seen (n, K).
    """
    out, size = np.zeros(values.shape), is_seen.sum(axis=1)
    pattern = np.unique(np.packbits(is_seen, axis=1), axis=0, return_inverse=True)[1].ravel()
    for n_seen in np.unique(size[size > 0]):
        alike = np.flatnonzero(size == n_seen)
        alike = alike[np.argsort(pattern[alike], kind="stable")]
        step = max(1, _CHUNK // int(n_seen) ** 2)
        for start in range(0, len(alike), step):
            rows = alike[start : start + step]
            _, first, at = np.unique(pattern[rows], return_index=True, return_inverse=True)
            place = np.nonzero(is_seen[rows])[1].reshape(len(rows), n_seen)
            of_pattern = place[first]
            inverse = np.linalg.inv(covariance[of_pattern[:, :, None], of_pattern[:, None, :]])
            seen = np.take_along_axis(values[rows], place, axis=1)
            turned = (inverse[at.ravel()] @ seen[:, :, None])[:, :, 0]
            found = np.zeros((len(rows), values.shape[1]))
            np.put_along_axis(found, place, turned, axis=1)
            found = found @ covariance
            own = seen - turned / np.diagonal(inverse, axis1=1, axis2=2)[at.ravel()]
            np.put_along_axis(found, place, own, axis=1)
            out[rows] = found
    return out


def _means_by_cluster(residual: FloatArray, weight: FloatArray, cluster: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return weighted means of residuals by cluster and their weights, (C, K) each; zero where there is none."""
    total, size = unit_sums(weight * residual, cluster), unit_sums(weight, cluster)
    return np.divide(total, size, out=np.zeros_like(total), where=size > 0), size


def estimated_propensities(cells: ScoreCells) -> FloatArray:
    """Return P(there is a score | regressors) out of fold, (n, K), 1 for models that have all scores.

    A logistic regression with an intercept of each model and common slopes; at least a tenth of the model's share.
    """
    is_there, z = cells.is_there, cells.columns
    is_open = ~is_there.all(axis=0)
    found, share = np.ones(is_there.shape), is_there.mean(axis=0)
    if not is_open.any():
        return found
    z, observed = z[:, is_open], is_there[:, is_open].astype(float)
    start = logit(observed.mean())
    for rows in cells.folds:
        used = ~rows if not rows.all() else rows
        x, s = z[used], observed[used]
        level, slope = np.full(s.shape[1], start), np.zeros(z.shape[2])
        for _ in range(12):
            p = expit(level + x @ slope)
            w = p * (1 - p)
            # Newton's step, by the Schur complement of the intercepts.
            of_levels, of_both = w.sum(axis=0) + _PENALTY_OF_SHARES, np.einsum("nk,nkq->kq", w, x)
            of_slopes = np.tensordot(x * w[:, :, None], x, ((0, 1), (0, 1))) + _PENALTY_OF_SLOPES * np.eye(len(slope))
            by_level = (s - p).sum(axis=0) - _PENALTY_OF_SHARES * (level - start)
            by_slope = np.tensordot(s - p, x, ((0, 1), (0, 1))) - _PENALTY_OF_SLOPES * slope
            scaled = of_both / of_levels[:, None]
            step = np.linalg.solve(of_slopes - of_both.T @ scaled, by_slope - by_level @ scaled)
            change = by_level / of_levels - scaled @ step
            level, slope = level + change, slope + step
            if max(np.abs(change).max(), np.abs(step).max(initial=0.0)) < 1e-8:
                break
        found[np.ix_(rows, is_open)] = expit(level + z[rows] @ slope)
    return np.maximum(found, RELATIVE_FLOOR * share)

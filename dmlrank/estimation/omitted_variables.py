"""Bias from an omitted variable U that both the choice of the labelled pairs and the labels depend on.

Notes
-----
U explains at most the share C_Y^2 of the label's variance in any cell. With U, the second moment of 1/pi among labelled
cells is larger by at most the factor 1 + C_D^2. In a cell, the bias of mu in the direction of the contrast is the
covariance of pi(x) / pi(x, U) and the contrast's derivative along mu(x, U), so that

    |bias| <= |rho| C_Y C_D B,    B = E sum_q sd_q(X),    sd_q = sqrt(g_q V_q g_q')

where g_q is the derivative of the contrast in the probabilities of pair q, V_q is the covariance of one label, and rho
is a correlation. The bound is exact for a linear functional and holds to first order for others.

References
----------
Chernozhukov, Cinelli, Newey, Sharma, Syrgkanis (2022), Long story short: omitted variable bias in causal machine
learning, NBER Working Paper 30302.
Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, JRSS B 82.
"""

from __future__ import annotations

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals import Functional
from .cross_fitting import clip_and_renormalise, contexts_at_a_time
from .influence import NuisanceEstimates, TargetPopulation


def label_spread(
    functional: Functional,
    contrasts: FloatArray,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    population: TargetPopulation,
) -> FloatArray:
    """Return B of each contrast, (J,): the mean over contexts of the sum over pairs of sd_q.

    Shapes: contrasts (J, d).

    Notes
    -----
    Where display order does not matter, one label of a pair moves the probabilities of both orders. The standard
    deviation sd_q of the pair is twice that of one order, so that the sum over both orders is sd_q.
    """
    weight, total = population.weights(data.n_contexts), np.zeros(len(contrasts))
    directions = functional.label_directions(data.n_items)
    slopes = None if directions is None else np.abs(directions @ contrasts.T).reshape(-1, len(contrasts))
    for part in nuisances.mu.parts(contexts_at_a_time(data)):
        mu = part.probabilities()
        mu = clip_and_renormalise(mu, nuisances.floor) if functional.interior else mu
        of_row = np.bincount(part.place, weight[part.contexts], len(mu))
        if slopes is not None:
            spread = np.sqrt(functional.label_variances(mu)).reshape(len(mu), -1)
            total += of_row @ spread @ slopes
            continue
        for number, contrast in enumerate(contrasts):
            variance = functional.information(mu, np.outer(contrast, contrast))
            total[number] += of_row @ np.sqrt(np.maximum(variance, 0.0)).sum(axis=(1, 2))
    return total / data.n_contexts


def robustness_value(distance: FloatArray, spread: FloatArray, rho: float = 1.0) -> FloatArray:
    """Return the strength of an omitted variable that can explain an estimate's distance from a value, (J,).

    This is the share RV such that C_Y^2 = RV and C_D^2 = RV / (1 - RV) give a bias of this distance. C_D^2 = R / (1 -
    R) where U explains the share R of the second moment of 1/pi.

    Shapes: distance (J,), spread (J,).
    """
    square = (distance / (abs(rho) * spread)) ** 2
    # (sqrt(f^4 + 4 f^2) - f^2) / 2, in a form without a difference of large numbers.
    return np.asarray(2 * np.sqrt(square) / (np.sqrt(square + 4) + np.sqrt(square)))


def residual_variance(mu: FloatArray, cell_y: FloatArray, n_votes: IntArray, worth: FloatArray) -> float:
    """Return the mean over all votes of the squared difference between a vote's worth and its prediction by mu.

    Shapes: mu (m, C), cell_y (m, C), n_votes (m,), worth (C,).
    """
    expected = mu @ worth
    square = cell_y @ worth**2 - 2 * expected * (cell_y @ worth) + expected**2
    return float(n_votes @ square / n_votes.sum())


def relative_second_moment(propensity: FloatArray, pair: IntArray, n_contexts: int) -> float:
    """Return the mean over labelled cells of (rate / pi)^2, where rate is the labelling rate of the cell's pair.

    Shapes: propensity (m,), pair (m,).
    """
    rate = np.bincount(pair)[pair] / n_contexts
    return float(np.mean((rate / propensity) ** 2))

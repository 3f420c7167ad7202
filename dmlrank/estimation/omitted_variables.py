"""Bias from an omitted variable U that both the choice of the labelled pairs and the labels depend on.

Notes
-----
p_q is the expected worth of a label of pair q and V_q its variance, pi_q the propensity, gamma_q the derivative of the
contrast in p_q, and alpha_q = gamma_q / pi_q. S_q is 1 where the pair is labelled; p~ and alpha~ are given U as well.
The bias is E sum_q S_q (p~_q - p_q)(alpha~_q - alpha_q), so that by the inequality of Cauchy and Schwarz

    |bias| <= |rho| C_Y C_D B.

It is exact for a linear functional and holds to first order for others; rho is a correlation. The strengths C_Y and C_D
have two forms, each with a B of its own.

Of all labelled cells together: C_Y^2 = E sum S (p~ - p)^2 / s2, C_D^2 = E sum S (alpha~ - alpha)^2 / nu2, and

    B^2 = s2 nu2,    s2 = E sum_q S_q V_q = E sum_q pi_q V_q,    nu2 = E sum_q S_q alpha_q^2 = E sum_q gamma_q^2 / pi_q.

In every cell: U explains at most the share C_Y^2 of the label's variance in any cell, and makes the second moment of
1/pi larger by at most the factor 1 + C_D^2 in any cell. Then B is smaller,

    B = E sum_q |gamma_q| sqrt(V_q).

Means over cells are strengths of the first form: a U that moves few pairs is weak on average and strong in these pairs.

References
----------
Chernozhukov, Cinelli, Newey, Sharma, Syrgkanis (2022), Long story short: omitted variable bias in causal machine
learning, NBER Working Paper 30302.
Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, JRSS B 82.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals import Functional
from .cross_fitting import ContextPart, clip_and_renormalise, contexts_at_a_time, held_out_probabilities, over_parts
from .influence import NuisanceEstimates, TargetPopulation

# Probabilities are raised to this number where the derivative along a label is computed from the label's variance.
_INNER = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class BiasScale:
    """What bounds the bias of J contrasts from an omitted variable, see the notes of this module.

    every_cell (J,): B for strengths that hold in every cell.
    weight (m,): Weight of each labelled cell: of its context in the target population, over n.
    error (m,): Squared error of the worth of the cell's labels.
    slope (m, J): |gamma|.
    propensity (m,): pi.
    """

    every_cell: FloatArray
    weight: FloatArray
    error: FloatArray
    slope: FloatArray
    propensity: FloatArray

    @property
    def aggregate(self) -> FloatArray:
        """B for strengths of all labelled cells together, (J,)."""
        return np.sqrt((self.weight @ self.error) * (self.weight @ (self.slope / self.propensity[:, None]) ** 2))

    def strengths(self, short: BiasScale, cell: IntArray) -> tuple[float, FloatArray]:
        """Return C_Y^2 and C_D^2, (J,), of the features that a fit with fewer features lacks.

        Shapes: cell (m,), the cells of the short fit that are the cells of this one.

        Notes
        -----
        Both moments of the weights have gamma of the short fit, because E F(mu~) - E F(mu) is to first order the mean
        of gamma(mu) (mu~ - mu). By sampling error, the residual variance may fall or the second moment may rise when a
        feature is left out; its strength is then zero.
        """
        tiny, slope = np.finfo(float).tiny, short.slope[cell]
        long, without = (self.weight @ (slope / pi[:, None]) ** 2 for pi in (self.propensity, short.propensity[cell]))
        more = self.weight @ (short.error[cell] - self.error)
        c_y2 = float(np.maximum(more, 0.0) / np.maximum(self.weight @ self.error, tiny))
        return c_y2, np.maximum(long - without, 0.0) / np.maximum(long, tiny)


def bias_scale(
    functional: Functional,
    contrasts: FloatArray,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    population: TargetPopulation,
    worth: FloatArray,
) -> BiasScale:
    """Return what bounds the bias of each contrast.

    Shapes: contrasts (J, d), worth (C,).

    Notes
    -----
    Where display order does not matter, one label of a pair moves the probabilities of both orders. The standard
    deviation of the pair's contribution is twice that of one order, so that the sum over both orders is that of the
    pair. gamma_q is the standard deviation of the contribution over that of the label's worth.
    """
    cells, weight, n_contrasts = data.cells, population.weights(data.n_contexts), len(contrasts)
    directions = functional.label_directions(data.n_items)
    slopes = None if directions is None else np.abs(directions @ contrasts.T)
    total, deviation, slope = np.zeros(n_contrasts), np.zeros(data.n_items**2), np.zeros((len(cells), n_contrasts))
    evaluate = partial(_in_part, functional, contrasts, slopes, cells, nuisances.floor, worth, weight)
    parts = over_parts(evaluate, nuisances.mu, contexts_at_a_time(data), "omitted variables")
    for _, (of_contrasts, of_pairs, cell, of_cells) in parts:
        total += of_contrasts
        deviation += of_pairs
        slope[cell] = of_cells
    if slopes is not None:
        total += deviation @ slopes.reshape(-1, n_contrasts)
    return BiasScale(
        total / data.n_contexts,
        weight[cells.context] / data.n_contexts,
        squared_error(held_out_probabilities(nuisances.mu, cells), cells.y, worth),
        slope if data.ordered else 2 * slope,
        nuisances.propensity,
    )


def _in_part(
    functional: Functional,
    contrasts: FloatArray,
    slopes: FloatArray | None,
    cells: Cells,
    floor: float,
    worth: FloatArray,
    weight: FloatArray,
    part: ContextPart,
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Return sums over a part of the contexts by contrast, or else by ordered pair, and the slopes at its labels.

    Shapes: slopes (K, K, J), of scores that are a sum over pairs; returns (J,), (K K,) or () without
    slopes, labelled cells (r,), (r, J).
    """
    begin = np.searchsorted(cells.context, part.contexts)
    size = np.searchsorted(cells.context, part.contexts, side="right") - begin
    labelled = np.repeat(begin - (np.cumsum(size) - size), size) + np.arange(size.sum())
    place = np.repeat(part.place, size)
    by_place = np.argsort(place, kind="stable")
    labelled, place = labelled[by_place], place[by_place]
    of_contexts, total = np.bincount(part.place, weight[part.contexts]), np.zeros(len(contrasts))
    deviation, slope = np.zeros(()), np.zeros((len(labelled), len(contrasts)))
    for rows, mu in part.blocks():
        inner = clip_and_renormalise(mu, floor if functional.interior else _INNER)
        mu = inner if functional.interior else mu
        here, of_row = slice(*np.searchsorted(place, [rows.start, rows.stop])), of_contexts[rows]
        first, second = cells.first[labelled[here]], cells.second[labelled[here]]
        at = (place[here] - rows.start, first, second)
        expected = inner[at] @ worth
        scale = np.sqrt(inner[at] @ worth**2 - expected**2)
        if slopes is not None:
            variance = functional.label_variances(mu)
            deviation = deviation + of_row @ np.sqrt(variance).reshape(len(mu), -1)
            variance = variance if inner is mu else functional.label_variances(inner)
            slope[here] = (np.sqrt(variance[at]) / scale)[:, None] * slopes[first, second]
            continue
        for number, contrast in enumerate(contrasts):
            square = np.outer(contrast, contrast)
            variance, inner_variance = (functional.information(table, square) for table in (mu, inner))
            total[number] += of_row @ np.sqrt(np.maximum(variance, 0.0)).sum(axis=(1, 2))
            slope[here, number] = np.sqrt(np.maximum(inner_variance[at], 0.0)) / scale
    return total, deviation, labelled, slope


def robustness_value(distance: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the strength of an omitted variable that can explain an estimate's distance from a value, (J,).

    This is the share RV such that C_Y^2 = RV and C_D^2 = RV / (1 - RV) give a bias of this distance. C_D^2 = R / (1 -
    R) where U explains the share R of the second moment. RV is 0 where there is no distance, and 1 where labels do not
    vary, so that no variable can explain a distance.

    Shapes: distance (J,), scale (J,), the B of the strengths.
    """
    # (sqrt(f^4 + 4 f^2) - f^2) / 2 with f = distance / scale, in a form that divides by no zero and has no difference
    # of large numbers.
    return np.asarray(2 * distance / np.maximum(np.hypot(distance, 2 * scale) + distance, np.finfo(float).tiny))


def squared_error(mu: FloatArray, cell_y: FloatArray, worth: FloatArray) -> FloatArray:
    """Return the mean over each cell's votes of the squared difference between worth and its prediction by mu, (m,).

    Shapes: mu (m, C), cell_y (m, C), worth (C,).
    """
    expected = mu @ worth
    return np.asarray(cell_y @ worth**2 - 2 * expected * (cell_y @ worth) + expected**2)

"""The one-step estimator of scores at equal style and of the slopes of the preference on style differences.

Notes
-----
Every estimate is a function of four means over contexts, each of which is estimated by one step: T, the scores averaged
over style; E, the style of the items in the unit of the scores; G, the covariance of style and link; and H, the
covariance of style. The slopes are beta = H^-1 G and the scores at equal style theta = T - E beta.

For a pair q with edge weight a_q, whose link enters the scores with the coefficients A_q: m = E[Y | x, q, D] is the
preference given the style differences D, l is the link, lbar_q = E[l(m) | x, q], e_q = E[D | x, q], and c_q and V_q are
the covariance of D and l(m) and that of D, given x and q. R_q = l(m) - lbar_q + l'(m) (Y - m) is the residual of the
link, less (D - e_q) beta. The influence values are

    phi_beta  = H^-1 sum_q a_q { c_q - V_q beta + S/pi [ (D - e_q) R_q - (c_q - V_q beta) ] }
    phi_theta = sum_q A_q { lbar_q - e_q beta + S/pi R_q } - theta - E phi_beta

Errors of the means lbar and e in products such as (D - e)(l(m) - lbar) add no term, because the other factor has the
mean zero given x and q. The equation mean(phi_beta) = 0 is linear in beta, and its solution is the estimate.
``docs/style.md`` derives the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.arrays import row_slices
from ..data.preferences import FloatArray
from ..exceptions import DataError
from ..functionals.linear_scores import LinkedScore
from ..nuisance.style import AdditiveFit, StyleRows, StyleStages, predict_by_fold
from .influence import Influence, InfluenceBlocks, unit_sums

# The style varies too little within prompt and pair where the smallest eigenvalue of H is below this number. H is first
# divided by the number of pairs, and scaled by the root mean squares of the style differences over all votes.
_LEAST_VARIATION = 1e-6
# Largest number of votes whose corrections are in memory at a time.
_CHUNK = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class StyleMeans:
    """The four means T, E, G and H over all contexts, or over a part of them.

    averaged (K,): T, scores averaged over style.
    style (K, r): E, style in the unit of the scores.
    cross (r,): G, covariance of style and link.
    variance (r, r): H, covariance of style.
    """

    averaged: FloatArray
    style: FloatArray
    cross: FloatArray
    variance: FloatArray

    @property
    def slopes(self) -> FloatArray:
        """beta, (r,), the solution of the one-step equation H beta = G."""
        return np.asarray(np.linalg.solve(self.variance, self.cross), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class StyleInfluence:
    """Influence of the three estimates of a fit at equal style; all have the same contexts and blocks.

    equal: Scores at equal style, d = K.
    averaged: Scores averaged over style, d = K.
    slopes: Slopes on style, d = r.
    """

    equal: Influence
    averaged: Influence
    slopes: Influence


@dataclass(frozen=True, slots=True, eq=False)
class EqualStyleTerms:
    """The terms of the four means: their values by context, and their corrections by vote.

    weight (n,): Weights of the contexts in the target population, with mean one.
    residual (v,): l(m) - lbar + l'(m) (Y - m), the residual of the link l, where lbar = E[l(m) | x, pair].
    style_residual (v, r): D - e: style differences less their mean e = E[D | x, pair].
    expected_cross, expected_variance (v, r): At the votes, c and V: the conditional covariance of D and l(m), and that
        of D, given context and pair.
    """

    link: LinkedScore
    stages: StyleStages
    rows: StyleRows
    weight: FloatArray
    blocks: InfluenceBlocks
    residual: FloatArray
    style_residual: FloatArray
    expected_cross: FloatArray
    expected_variance: FloatArray

    @classmethod
    def of(
        cls, link: LinkedScore, stages: StyleStages, rows: StyleRows, blocks: InfluenceBlocks, weight: FloatArray
    ) -> EqualStyleTerms:
        """Compute the residuals of all votes; shapes: weight (n,)."""
        plain, n_style, m = rows.regression_rows(stages.design), rows.style.shape[1], stages.m
        link_mean = predict_by_fold(stages.link_mean, plain, rows.fold)[:, 0]
        moments = predict_by_fold(stages.moments, plain, rows.fold)
        return cls(
            link=link,
            stages=stages,
            rows=rows,
            weight=weight,
            blocks=blocks,
            residual=link.value(m) - link_mean + link.slope(m) * (rows.y - m),
            style_residual=rows.style - predict_by_fold(stages.style_mean, plain, rows.fold),
            expected_cross=moments[:, :n_style],
            expected_variance=_symmetric(moments[:, n_style:], n_style),
        )

    def means(self, selected: FloatArray | None = None) -> StyleMeans:
        """Return the four means of all contexts, or of contexts with weights ``selected``, (n,)."""
        weight = self.weight if selected is None else self.weight * selected
        of_row = weight[self.rows.context] * self.rows.share / self.rows.propensity / weight.sum()
        # The weighted means over contexts of the values of T, and of E.
        averaged, style = np.zeros(self.link.n_items), np.zeros((self.link.n_items, self.rows.style.shape[1]))
        for f, (link_mean, style_mean) in enumerate(zip(self.stages.link_mean, self.stages.style_mean, strict=True)):
            share = np.where(self.stages.fold == f, weight, 0.0) / weight.sum()
            design, total = share @ self.stages.design, share.sum()
            if total == 0:
                continue
            mean = (design / total)[None]
            averaged += total * (self.link.constant + self._map_items(link_mean, mean, np.ones(1))[0])
            for r, unit in enumerate(np.eye(style.shape[1])):
                style[:, r] += total * self._map_items(style_mean, mean, unit)[0]
        cross, variance = self._moments_by_context()
        cross, variance = weight @ cross / weight.sum(), np.einsum("n,nab->ab", weight, variance) / weight.sum()
        first, second, n_items = self.rows.first, self.rows.second, self.link.n_items
        a = of_row * self.link.edges[first, second]
        # The corrections of T and E are sums over pairs q of the coefficients A_q of the pair in the scores times the
        # residuals of the votes on q.
        code, pair = np.unique(first * n_items + second, return_inverse=True)
        amount = unit_sums(of_row[:, None] * np.column_stack([self.residual, self.style_residual]), pair)
        change = self.link.coefficients(code // n_items, code % n_items).T @ amount
        style_residual = self.style_residual
        cross = cross + a @ (style_residual * self.residual[:, None] - self.expected_cross)
        variance = variance + np.einsum(
            "v,vab->ab", a, style_residual[:, :, None] * style_residual[:, None, :] - self.expected_variance
        )
        # H is positive definite unless the style does not vary within prompt and pair.
        smallest = float(np.linalg.eigvalsh(self.relative(variance))[0])
        if smallest < _LEAST_VARIATION:
            raise DataError(
                f"style differences do not vary within prompt and pair (smallest relative variance {smallest:.2g}), so "
                f"that the effect of style cannot be told from that of the models; leave style columns out that are "
                f"determined by models and features, or use fewer features"
            )
        return StyleMeans(averaged + change[:, 0], style + change[:, 1:], cross, variance)

    def relative(self, variance: FloatArray) -> FloatArray:
        """Return H, (r, r), per pair, in units of the root mean squares of the style differences over all votes."""
        n_pairs = float(np.triu(self.link.edges).sum())
        scale = np.sqrt(np.square(self.rows.style).mean(axis=0) * max(n_pairs, 1.0))
        return np.asarray(variance / np.outer(scale, scale))

    def share_at_edge(self, log_odds: float) -> FloatArray:
        """Return the share of each style column's variation that is in votes with larger absolute log-odds, (r,)."""
        m, variation = self.stages.m, np.square(self.style_residual)
        return np.asarray(variation[np.abs(np.log(m / (1 - m))) > log_odds].sum(axis=0) / variation.sum(axis=0))

    def influence(self, selected: FloatArray | None = None) -> StyleInfluence:
        """Return the influence of contexts on the estimates, or on those of contexts with weights ``selected``, (n,).

        The influence of contexts with a weight of zero is left at zero.
        """
        n_items, n_estimates = self.link.n_items, 2 * self.link.n_items + self.rows.style.shape[1]
        values = np.zeros((len(self.weight), n_estimates))
        inside = np.flatnonzero(np.ones(len(values)) if selected is None else selected)
        means = self.means(selected)
        # In each context: equal, averaged, slopes.
        beta, inverse = means.slopes, np.linalg.inv(means.variance)
        # The values of T, and of E beta, by context.
        of_scores, of_style = (np.empty((len(inside), n_items)) for _ in range(2))
        for f, maps in enumerate(zip(self.stages.link_mean, self.stages.style_mean, strict=True)):
            in_fold = np.flatnonzero(self.stages.fold[inside] == f)
            design = self.stages.design[inside[in_fold]]
            of_scores[in_fold] = self.link.constant + self._map_items(maps[0], design, np.ones(1))
            of_style[in_fold] = self._map_items(maps[1], design, beta)
        cross, variance = (table[inside] for table in self._moments_by_context())
        of_slopes = (cross - variance @ beta) @ inverse.T
        at_equal_style = of_scores - of_style - of_slopes @ means.style.T
        values[inside] = np.hstack([at_equal_style, of_scores, beta + of_slopes])
        corrections = self._corrections(means)
        if selected is not None:
            corrections[selected[self.blocks.context] == 0] = 0.0
        blocks = (self.blocks.context, self.blocks.weight, self.weight)
        bounds = [slice(0, n_items), slice(n_items, 2 * n_items), slice(2 * n_items, None)]
        equal, averaged, slopes = (Influence(values[:, s], corrections[:, s], *blocks) for s in bounds)
        return StyleInfluence(equal, averaged, slopes)

    def _corrections(self, means: StyleMeans) -> FloatArray:
        """Return the corrections of the three estimates by block, (q, 2 K + r)."""
        beta, inverse, rows = means.slopes, np.linalg.inv(means.variance), self.rows
        weight = rows.share / rows.propensity
        predicted = self.style_residual @ beta
        expected = self.expected_cross - self.expected_variance @ beta
        score = self.style_residual * (self.residual - predicted)[:, None] - expected
        slope_rows = (weight * self.link.edges[rows.first, rows.second])[:, None] * score @ inverse.T
        n_items, n_blocks = self.link.n_items, len(self.blocks.context)
        code, pair = np.unique(rows.first * n_items + rows.second, return_inverse=True)
        coefficients = self.link.coefficients(code // n_items, code % n_items)
        total = np.zeros((n_blocks, 2 * n_items + len(beta)))
        for part in row_slices(len(rows.context), 1, _CHUNK):
            of_pair = weight[part, None] * coefficients[pair[part]]
            averaged = of_pair * self.residual[part, None]
            equal = averaged - of_pair * predicted[part, None] - slope_rows[part] @ means.style.T
            np.add.at(total, rows.block[part], np.hstack([equal, averaged, slope_rows[part]]))
        return total

    # --- sums over all pairs of a context -----------------------------------------------------------------------------

    def _map_items(self, fit: AdditiveFit, design: FloatArray, combination: FloatArray) -> FloatArray:
        """Return sum_q A_q f_q in b contexts, (b, K), for the additive function f = fit @ combination."""
        first, second = self.link.pairs()
        coefficients = self.link.coefficients(first, second)
        of_difference = np.zeros((self.link.n_items,) * 2)
        np.add.at(of_difference.T, first, coefficients)
        np.subtract.at(of_difference.T, second, coefficients)
        constant = fit.pair[first, second] @ combination + (fit.shared.sum(axis=0) @ combination)
        return design @ (fit.item @ combination).T @ of_difference.T + constant @ coefficients

    def _moments_by_context(self) -> tuple[FloatArray, FloatArray]:
        """Return sum_q a_q c_q, (n, r), and sum_q a_q V_q, (n, r, r), in every context."""
        first, second = self.link.pairs()
        a = self.link.edges[first, second]
        degree = np.bincount(first, a, self.link.n_items) + np.bincount(second, a, self.link.n_items)
        sums = np.empty((len(self.stages.design), self.stages.moments[0].item.shape[2]))
        for f, fit in enumerate(self.stages.moments):
            in_fold = self.stages.fold == f
            coefficients = np.einsum("k,kqr->qr", degree, fit.item) + a.sum() * fit.shared
            sums[in_fold] = self.stages.design[in_fold] @ coefficients + a @ fit.pair[first, second]
        n_style = self.rows.style.shape[1]
        return sums[:, :n_style], _symmetric(sums[:, n_style:], n_style)


def _symmetric(upper: FloatArray, size: int) -> FloatArray:
    """Return symmetric matrices, (n, r, r), from their upper triangles, (n, r (r + 1) / 2)."""
    matrices = np.empty((len(upper), size, size))
    row, column = np.triu_indices(size)
    matrices[:, row, column] = upper
    matrices[:, column, row] = upper
    return matrices

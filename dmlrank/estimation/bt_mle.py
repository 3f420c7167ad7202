"""Parametric Bradley-Terry by maximum likelihood, and the influence of each vote on its scores.

The model is P(j beats k | x) = sigma(r_j(x) - r_k(x)) with r_j(x) = b_j + w_j'x, where sigma is the logistic function;
without features the scores r are the same in all contexts. Only differences between models matter, so that the
constants b_j, and the coefficients w_j of each feature, sum to zero over the models. Without features, the log-odds may
have an effect of display order h, too: P(j beats k) = sigma(r_j - r_k + h) where j is shown first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, log_expit

from ..data.arrays import BoolArray, row_slices
from ..data.graph import inverse_on_differences, laplacian_inverse
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, FormulaError, GraphError, NuisanceError, listed
from .influence import Influence, InfluenceBlocks, add_to_rows

_MAX_STEPS = 200
# Largest number of names, and of groups of models, that an error lists.
_MAX_NAMED = 5
# Log-odds beyond which a linear program examines whether the likelihood has a maximum.
_SUSPICIOUS_LOG_ODDS = 25.0
# Smallest pivot of a matrix of full rank, relative to the largest.
_SMALLEST_PIVOT = 1e-9
# The information matrix is stored as a whole: with this number of coefficients it takes 0.5 GB.
_MOST_COEFFICIENTS = 8000
# Largest number of entries of an array in memory at a time.
_CHUNK_ENTRIES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class BradleyTerryFit:
    """Maximum-likelihood coefficients of the Bradley-Terry model.

    centre, spread (p,): Numbers that are subtracted from the features, and by which these are divided: z = (1, (x -
        centre) / spread). Without features in the model, p is 0.
    coefficients (K, p + 1): Coefficients of z for each model; every column sums to zero, over the models not apart.
    inverse (K (p + 1), K (p + 1)): Pseudo-inverse of the information of all votes on the coefficients; with an effect
        of display order in the model, (K + 1, K + 1), and the last row is that of the effect.
    mean_z (p + 1,): Mean of z over all contexts, those without labels included.
    log_loss: In-sample log-loss per vote, with a tie counted as half a win for each of the two models.
    first_weights (C,): How much each category counts for the model shown first.
    edges (K, K): The compared pairs, whose votes count.
    order: Effect of being shown first on the log-odds; None where it is not in the model.
    """

    centre: FloatArray
    spread: FloatArray
    coefficients: FloatArray
    inverse: FloatArray
    mean_z: FloatArray
    log_loss: float
    first_weights: FloatArray
    edges: BoolArray
    order: float | None = None

    def without(self, apart: BoolArray | None) -> BradleyTerryFit:
        """Return the fit with coefficients whose sums over the models that are not apart are zero."""
        if apart is None:
            return self
        n_items, n_columns = self.coefficients.shape
        centring = np.eye(n_items) - ~apart / (~apart).sum()
        of_all = np.eye(len(self.inverse))
        of_all[: n_items * n_columns, : n_items * n_columns] = np.kron(centring, np.eye(n_columns))
        return replace(self, coefficients=centring @ self.coefficients, inverse=of_all @ self.inverse @ of_all.T)

    def z(self, x: FloatArray) -> FloatArray:
        """Return the constant and the scaled features, (n, p + 1), of contexts with features ``x``, (n, p)."""
        return _design(x[:, : len(self.centre)], self.centre, self.spread)

    def scores_at(self, x: FloatArray) -> FloatArray:
        """Return the scores r(x), (n, K), of contexts with features ``x``, (n, p)."""
        return self.z(x) @ self.coefficients.T

    def mean_derivative(self, rows: FloatArray) -> FloatArray:
        """Return the derivative of the scores at several values of z with respect to the coefficients.

        Shapes: rows (P, p + 1), returns (K, p + 1, P K).
        """
        n_items = len(self.coefficients)
        derivative = np.einsum("jk,pc->jcpk", np.eye(n_items), rows)
        return np.asarray(derivative.reshape(n_items, rows.shape[1], -1), dtype=float)

    def cell_probabilities(self, data: PreferenceData) -> FloatArray:
        """Return for every labelled cell, (m,), the probability that the model shown first wins."""
        cells = data.cells
        difference = self.coefficients[cells.first] - self.coefficients[cells.second]
        of_order = np.where(cells.flipped, -1.0, 1.0) * (self.order or 0.0)
        return np.asarray(expit((self.z(data.x[cells.context]) * difference).sum(axis=1) + of_order))

    def mean_probabilities(self, x: FloatArray, n_categories: int) -> FloatArray:
        """Return the mean over contexts of the category probabilities, (K, K, C); the model has no ties.

        Probabilities are the means over both display orders. The result has a zero diagonal.

        Shapes: x (n, p).
        """
        # Without features, all contexts have the probabilities of the first one.
        scores, n_items = self.scores_at(x if len(self.centre) else x[:1]), len(self.coefficients)
        mu = np.zeros((n_items, n_items, n_categories))
        for j in range(n_items):
            for order in _orders(self.order):
                mu[j, :, 0] += expit(scores[:, [j]] - scores + order).mean(axis=0) / len(_orders(self.order))
        mu[..., 1] = mu[..., 0].T
        mu[np.arange(n_items), np.arange(n_items)] = 0.0
        return mu

    def win_probability(self, x: FloatArray, item: int, opponent: int) -> tuple[FloatArray, FloatArray]:
        """Return P(item beats opponent | x), (n,), the mean over both orders, and the derivative of its mean.

        Shapes: x (n, p), derivative (K, p + 1, 1), or (K + 1, 1, 1) with an effect of display order in the model.
        """
        z, orders = self.z(x), _orders(self.order)
        by_order = [expit(z @ (self.coefficients[item] - self.coefficients[opponent]) + order) for order in orders]
        slopes = [(p * (1 - p)) @ z / len(x) for p in by_order]
        slope = np.mean(slopes, axis=0)
        derivative = np.zeros((len(self.coefficients) + (self.order is not None), z.shape[1], 1))
        derivative[item, :, 0], derivative[opponent, :, 0] = slope, -slope
        if self.order is not None:
            derivative[-1, :, 0] = (slopes[0] - slopes[1]) / 2
        return np.mean(by_order, axis=0), derivative

    def changes(self, derivative: FloatArray, directions: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return how d targets change if the label of one vote in a context with the mean z changes, (r, d).

        Shapes: derivative (K, p + 1, d), directions (r, C), first, second (r,).
        """
        by_model = np.einsum("c,jcd->jd", self.mean_z, self._solved(derivative))
        win_change = directions @ self.first_weights
        return np.asarray(win_change[:, None] * (by_model[first] - by_model[second]))

    def corrections(self, derivative: FloatArray, data: PreferenceData, blocks: InfluenceBlocks) -> FloatArray:
        """Return the influence values of targets that come from the labels, n D'H^-1 s_b for every block b, (q, d).

        n is the number of contexts, D the derivative of the targets with respect to the coefficients, H the information
        of all votes, and s_b the gradient of the log-likelihood of the votes of block b: the sum of
        (y - p) (e_j - e_k) z' over these votes. The gradient in an effect of display order is the sum of y - p.

        Shapes: derivative (K, p + 1, d), or (K + 1, 1, d) with that in an effect of display order.
        """
        cell, solved = blocks.entry_cell, self._solved(derivative)
        context, first, second = (getattr(data.cells, name)[cell] for name in ("context", "first", "second"))
        votes = blocks.entry_share * data.cells.votes_each[cell] * self.edges[first, second]
        residual = votes * (blocks.entry_y @ self.first_weights - self.cell_probabilities(data)[cell])
        if not len(self.centre):
            # Without features, a block's gradient has K entries, and one product solves for all blocks.
            gradient = np.zeros((len(blocks.context), len(solved)))
            np.add.at(gradient, (blocks.entry_block, first), residual)
            np.add.at(gradient, (blocks.entry_block, second), -residual)
            if self.order is not None:
                gradient[:, -1] = np.bincount(blocks.entry_block, residual, minlength=len(gradient))
            return np.asarray(data.n_contexts * gradient @ solved[:, 0])
        total = np.zeros((len(blocks.context), solved.shape[2]))
        for part in row_slices(len(cell), solved[0].size, _CHUNK_ENTRIES):
            amount = residual[part, None] * self.z(data.x[context[part]])
            change = np.einsum("rc,rcd->rd", amount, solved[first[part]] - solved[second[part]])
            add_to_rows(total, blocks.entry_block[part], change)
        return data.n_contexts * total

    def influence(self, data: PreferenceData, blocks: InfluenceBlocks) -> Influence:
        """Return the influence values of the mean scores: r(x_i) of the contexts, and the corrections of the labels.

        Notes
        -----
        Let theta be the mean of r(x_i). The mean of phi phi' / n is the sandwich covariance H^-1 (sum s s') H^-1 of the
        coefficients, mapped to theta by the delta method, plus the variance of r(x) between contexts and the covariance
        of the two parts.
        """
        correction = self.corrections(self.mean_derivative(self.mean_z[None]), data, blocks)
        of_blocks, weight = (blocks.context, blocks.weight), np.ones(len(data.x))
        return Influence(self.scores_at(data.x), correction, *of_blocks, weight, copies=data.copies)

    def _solved(self, derivative: FloatArray) -> FloatArray:
        """Return H^-1 D, (K, p + 1, d), or (K + 1, 1, d) with an effect of display order in the model."""
        if self.order is not None and len(derivative) == len(self.coefficients):
            derivative = np.concatenate([derivative, np.zeros_like(derivative[:1])])
        return (self.inverse @ derivative.reshape(-1, derivative.shape[2])).reshape(derivative.shape)


def _orders(order: float | None) -> tuple[float, ...]:
    """Return what the two display orders add to the log-odds."""
    return (0.0,) if order is None else (order, -order)


def votes_by_order(data: PreferenceData, first_weights: FloatArray, edges: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Count votes that model j won, and lost, against k where j was shown first, on ``edges``, (K, K) each."""
    cells = data.cells
    won = cells.sums(cells.n_votes * (cells.y @ first_weights), data.n_items)
    lost = np.maximum(cells.sums(cells.n_votes, data.n_items) - won, 0.0)
    # Whether the scores exist depends on which numbers of wins are zero, so that rounding errors are set to zero.
    lost[lost < 1e-9] = 0.0
    return np.where(edges, won, 0.0), np.where(edges, lost, 0.0)


def fit_bradley_terry(
    data: PreferenceData, first_weights: FloatArray, edges: BoolArray, *, has_order: bool = False
) -> BradleyTerryFit:
    """Maximise the likelihood, which is concave, of the model without features, and with an effect of order if asked.

    Shapes: first_weights (C,), edges (K, K).

    References
    ----------
    Ford (1957), Solution of a ranking problem from binary comparisons: the scores exist where, for every division
    of the models into two groups, some model of each group has won against a model of the other group. Davidson and
    Beaver (1977), On extending the Bradley-Terry model to incorporate within-pair order effects, Biometrics 33.
    """
    won, lost = votes_by_order(data, first_weights, edges)
    check_scores_exist(won + lost.T, data.items)
    n_items, total = len(won), won + lost

    def log_odds(place: FloatArray) -> FloatArray:
        scores = place[:n_items]
        return np.subtract.outer(scores, scores) + place[n_items:].sum()

    def log_likelihood(place: FloatArray) -> float:
        return float((won * log_expit(log_odds(place)) + lost * log_expit(-log_odds(place))).sum())

    def inverse(place: FloatArray) -> FloatArray:
        p = expit(log_odds(place))
        weight = total * p * (1 - p)
        of_scores, of_both = weight + weight.T, weight.sum(axis=1) - weight.sum(axis=0)
        if not has_order:
            return laplacian_inverse(of_scores)
        # What is left of the information on the effect where the scores are not known.
        if weight.sum() - of_both @ laplacian_inverse(of_scores) @ of_both <= _SMALLEST_PIVOT * weight.sum():
            raise DataError(
                "position_bias=True: which model was shown first follows from the pair alone, so that an effect of "
                "display order cannot be told from the scores; show pairs in both orders, or leave position_bias= out"
            )
        laplacian = np.diag(of_scores.sum(axis=1)) - of_scores
        information = np.block([[laplacian, of_both[:, None]], [of_both[None], np.array([[weight.sum()]])]])
        return inverse_on_differences(information, n_items)

    def newton_step(place: FloatArray) -> FloatArray:
        residual = won - total * expit(log_odds(place))
        of_scores = residual.sum(axis=1) - residual.sum(axis=0)
        return inverse(place) @ np.append(of_scores, [residual.sum()] * has_order)

    place = _maximise(log_likelihood, newton_step, np.zeros(n_items + has_order))
    if place is None:
        raise NuisanceError(
            f"the Bradley-Terry likelihood was not maximised in {_MAX_STEPS} Newton steps; use "
            f"estimator='debiased' with functional='bt'"
        )
    return BradleyTerryFit(
        centre=np.empty(0),
        spread=np.empty(0),
        coefficients=(place[:n_items] - place[:n_items].mean())[:, None],
        inverse=inverse(place),
        mean_z=np.ones(1),
        log_loss=-log_likelihood(place) / float(total.sum()),
        first_weights=first_weights,
        edges=edges,
        order=float(place[-1]) if has_order else None,
    )


def check_scores_exist(won: FloatArray, items: Sequence[str]) -> None:
    """Raise :class:`GraphError` where the likelihood has no maximum; see :func:`fit_bradley_terry`."""
    n_parts, part = connected_components(won > 0, directed=True, connection="strong")
    if n_parts == 1:
        return
    winners, losers = [], []
    for label in range(n_parts):
        inside = part == label
        names = listed((items[int(j)] for j in np.flatnonzero(inside)), _MAX_NAMED)
        if not won[~inside][:, inside].any():
            winners.append(f"{names} never lost to the others")
        elif not won[inside][:, ~inside].any():
            losers.append(f"{names} never won against the others")
    reasons = winners + losers
    n_more = len(reasons) - _MAX_NAMED
    reason_text = "; ".join(reasons[:_MAX_NAMED]) + (f"; and {n_more} more" if n_more > 0 else "")
    raise GraphError(
        f"the maximum-likelihood scores do not exist, because the likelihood grows as some scores go to infinity: "
        f"{reason_text}. Every group of models needs a win and a loss against the other models: drop the rows of these "
        f"models, collect more labels, or use estimator='debiased'"
    )


def _maximise(
    log_likelihood: Callable[[FloatArray], float],
    newton_step: Callable[[FloatArray], FloatArray | None],
    start: FloatArray,
) -> FloatArray | None:
    """Return the maximum of a concave function by Newton steps, halved where they go too far; None without success."""
    place, value, n_final_steps = start, log_likelihood(start), 2
    for _ in range(_MAX_STEPS):
        step = newton_step(place)
        if step is None:
            return None
        size, candidate = 1.0, log_likelihood(place + step)
        while candidate < value - 1e-12 * abs(value) and size > 1e-8:
            size /= 2
            candidate = log_likelihood(place + size * step)
        place, value = place + size * step, candidate
        # Newton steps converge quadratically: after the first tiny step, two more steps reach machine precision.
        n_final_steps -= np.abs(step).max() < 1e-6
        if n_final_steps < 0:
            return place
    return None


def fit_contextual_bradley_terry(data: PreferenceData, first_weights: FloatArray, edges: BoolArray) -> BradleyTerryFit:
    """Maximise the likelihood of the model with features.

    Shapes: first_weights (C,), edges (K, K).

    References
    ----------
    Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models,
    Biometrika 71: the maximum exists where no combination of the columns separates wins from losses.
    """
    won, lost = votes_by_order(data, first_weights, edges)
    check_scores_exist(won + lost.T, data.items)
    rows = _Rows.of(data, first_weights, edges)
    _check_identified(rows, data)
    n_items, n_columns = data.n_items, rows.z.shape[1]
    size = (n_items - 1) * n_columns

    def newton_step(coefficients: FloatArray) -> FloatArray | None:
        p = expit(rows.log_odds(coefficients))
        gradient = rows.incidence @ ((rows.votes * (rows.won - p))[:, None] * rows.z)
        try:
            factor = cho_factor(rows.information(p * (1 - p)).reshape(size, size))
        except LinAlgError:
            return None
        return np.asarray(cho_solve(factor, gradient.ravel())).reshape(gradient.shape)

    # Coefficients relative to the last model, whose coefficients are zero.
    reference = _maximise(rows.log_likelihood, newton_step, np.zeros((n_items - 1, n_columns)))
    if reference is None or np.abs(rows.log_odds(reference)).max() > _SUSPICIOUS_LOG_ODDS:
        _check_not_separated(rows, data)
    if reference is None:
        raise NuisanceError(
            f"the likelihood of the contextual Bradley-Terry model was not maximised in {_MAX_STEPS} Newton steps; use "
            f"fewer features, or estimator='debiased' with functional='bt'"
        )
    p = expit(rows.log_odds(reference))
    solved = cho_solve(cho_factor(rows.information(p * (1 - p)).reshape(size, size)), np.eye(size))
    solved = ((solved + solved.T) / 2).reshape(n_items - 1, n_columns, n_items - 1, n_columns)
    # Coefficients relative to the last model become coefficients that sum to zero.
    centring = (np.eye(n_items) - 1 / n_items)[:, :-1]
    inverse = np.einsum("ja,acbd,kb->jckd", centring, solved, centring, optimize=True)
    return BradleyTerryFit(
        centre=rows.centre,
        spread=rows.spread,
        coefficients=centring @ reference,
        inverse=inverse.reshape(n_items * n_columns, n_items * n_columns),
        mean_z=_design(data.x, rows.centre, rows.spread).mean(axis=0),
        log_loss=-rows.log_likelihood(reference) / float(rows.votes.sum()),
        first_weights=first_weights,
        edges=edges,
    )


def _design(x: FloatArray, centre: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the constant and the scaled features, (n, p + 1)."""
    return np.column_stack([np.ones(len(x)), (np.asarray(x, dtype=float) - centre) / spread])


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Labelled cells as rows of a logistic regression, sorted by pair.

    z (m, p + 1): The constant and the scaled features of each cell's context.
    centre, spread (p,): As in :class:`BradleyTerryFit`.
    first, second (m,): Models of each cell, the one with the smaller index first.
    won (m,): Share of the cell's votes that ``first`` won.
    votes (m,): Number of votes.
    incidence (K - 1, m): 1 where the model is the first of the cell, -1 where it is the second. The last model has no
        row: its coefficients are zero.
    """

    z: FloatArray
    centre: FloatArray
    spread: FloatArray
    first: IntArray
    second: IntArray
    won: FloatArray
    votes: FloatArray
    incidence: csr_array

    @classmethod
    def of(cls, data: PreferenceData, first_weights: FloatArray, edges: BoolArray) -> _Rows:
        """Return the labelled cells of compared pairs as rows."""
        cells = data.cells.only(edges[data.cells.first, data.cells.second])
        if not np.isfinite(data.x).all():
            raise DataError(
                "estimator='bt_contextual' was given missing='keep' and features with missing values, which a linear "
                "model cannot use; use missing='drop', or fill the values"
            )
        low, high = np.minimum(cells.first, cells.second), np.maximum(cells.first, cells.second)
        order = np.lexsort((high, low))
        low, high, won = low[order], high[order], (cells.y @ first_weights)[order]
        won = np.clip(np.where((cells.first > cells.second)[order], 1 - won, won), 0.0, 1.0)
        # Whether the maximum exists depends on which shares are exactly zero or one.
        won = np.where(won < 1e-12, 0.0, np.where(won > 1 - 1e-12, 1.0, won))
        x = np.asarray(data.x[cells.context[order]], dtype=float)
        centre, spread = x.mean(axis=0), x.std(axis=0)
        is_constant = spread <= 1e-12 * np.maximum(np.abs(centre), 1.0)
        if is_constant.any():
            names = listed((data.feature_map.names[f] for f in np.flatnonzero(is_constant)), _MAX_NAMED)
            raise FormulaError(
                f"features are collinear: {names} {'is' if is_constant.sum() == 1 else 'are'} the same in every "
                f"labelled prompt, so that a coefficient cannot be told from the constant; leave such features out of "
                f"the formula"
            )
        models, rows = np.concatenate([low, high]), np.tile(np.arange(len(low)), 2)
        signs = np.repeat([1.0, -1.0], len(low))
        kept = models < data.n_items - 1
        incidence = csr_array((signs[kept], (models[kept], rows[kept])), shape=(data.n_items - 1, len(low)))
        votes = cells.n_votes[order].astype(float)
        return cls(_design(x, centre, spread), centre, spread, low, high, won, votes, incidence)

    def log_odds(self, coefficients: FloatArray) -> FloatArray:
        """Return the log-odds that ``first`` wins, (m,), for coefficients (K - 1, p + 1)."""
        return np.asarray(((self.incidence.T @ coefficients) * self.z).sum(axis=1))

    def log_likelihood(self, coefficients: FloatArray) -> float:
        """Return the log-likelihood of all votes."""
        log_odds = self.log_odds(coefficients)
        return float(self.votes @ (self.won * log_expit(log_odds) + (1 - self.won) * log_expit(-log_odds)))

    def information(self, variance: FloatArray) -> FloatArray:
        """Return the information, (K - 1, p + 1, K - 1, p + 1), for variances of a vote, (m,)."""
        n_items, n_columns = self.incidence.shape[0] + 1, self.z.shape[1]
        total = np.zeros((n_items, n_columns, n_items, n_columns))
        starts = np.flatnonzero(np.diff(self.first * n_items + self.second, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(self.z)], strict=True):
            j, k, z = self.first[start], self.second[start], self.z[start:end]
            products = z.T @ ((self.votes[start:end] * variance[start:end])[:, None] * z)
            total[j, :, j] += products
            total[k, :, k] += products
            total[j, :, k] -= products
            total[k, :, j] -= products
        return total[:-1, :, :-1]


def _check_identified(rows: _Rows, data: PreferenceData) -> None:
    """Raise where the labels cannot tell the coefficients apart."""
    n_columns, names = rows.z.shape[1], ("1", *data.feature_map.names)
    n_coefficients = (data.n_items - 1) * n_columns
    if n_coefficients > min(_MOST_COEFFICIENTS, len(rows.won)):
        limit = f"there are only {len(rows.won):,} labels"
        if n_coefficients > _MOST_COEFFICIENTS:
            limit = f"at most {_MOST_COEFFICIENTS:,} are allowed, because their information matrix is stored as a whole"
        raise DataError(
            f"estimator='bt_contextual' with {data.n_items} models and {n_columns - 1} features has {n_coefficients:,} "
            f"coefficients; {limit}; use fewer features or models, or estimator='debiased'"
        )
    triangle, order = qr(rows.z, mode="r", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    dependent = order[len(pivots[pivots > _SMALLEST_PIVOT * pivots[0]]) :]
    if len(dependent):
        raise FormulaError(
            f"features are collinear: {listed((names[c] for c in dependent), _MAX_NAMED)} "
            f"{'is a combination' if len(dependent) == 1 else 'are combinations'} of the other features and a constant "
            f"in the labelled prompts; leave such features out of the formula"
        )
    information = rows.information(np.ones(len(rows.won))).reshape(n_coefficients, n_coefficients)
    try:
        smallest = float((np.square(np.diag(np.linalg.cholesky(information))) / np.diag(information)).min())
    except LinAlgError:
        smallest = 0.0
    if smallest <= _SMALLEST_PIVOT:
        _, vectors = np.linalg.eigh(information)
        raise DataError(
            f"the labels do not identify the coefficients of {_places(vectors[:, 0], n_columns, names, data.items)}: "
            f"each model needs labels in prompts that differ in every feature; use fewer features, or "
            f"estimator='debiased'"
        )


def _places(direction: FloatArray, n_columns: int, names: Sequence[str], items: Sequence[str]) -> str:
    """Return the features and the models that a direction of the coefficients, ((K - 1) (p + 1),), changes most."""
    # Coefficients are relative to the last model. Relative to the mean of the models, a change that concerns one model
    # is large for this model alone, also if it is the last one.
    change = np.vstack([direction.reshape(-1, n_columns), np.zeros(n_columns)])
    size = np.abs(change - change.mean(axis=0))
    large = size > 0.5 * size.max()
    features = listed((names[int(c)] for c in np.flatnonzero(large.any(axis=0))), _MAX_NAMED)
    models = listed((items[int(j)] for j in np.flatnonzero(large.any(axis=1))), _MAX_NAMED)
    return f"{features} (models {models})"


def _check_not_separated(rows: _Rows, data: PreferenceData) -> None:
    """Raise where the likelihood grows without end along a direction of the coefficients: no maximum exists."""
    n_rows, n_columns = rows.z.shape
    # Entry (j, c) of a row is sign times z_c: the row's coefficients as one sparse matrix, (m, (K - 1) (p + 1)).
    by_row = csr_array(rows.incidence.T)
    row = np.repeat(np.arange(n_rows), np.diff(by_row.indptr))
    columns = by_row.indices[:, None] * n_columns + np.arange(n_columns)
    values = by_row.data[:, None] * rows.z[row]
    size = (data.n_items - 1) * n_columns
    matrix = csr_array((values.ravel(), (np.repeat(row, n_columns), columns.ravel())), shape=(n_rows, size))
    sign = np.where(rows.won == 1, 1.0, np.where(rows.won == 0, -1.0, 0.0))
    is_one_sided = sign != 0
    signed = matrix[is_one_sided] * sign[is_one_sided, None]
    solution = scipy.optimize.linprog(
        -np.asarray(signed.sum(axis=0)).ravel() / max(1, is_one_sided.sum()),
        A_ub=-signed,
        b_ub=np.zeros(signed.shape[0]),
        A_eq=matrix[~is_one_sided] if (~is_one_sided).any() else None,
        b_eq=np.zeros((~is_one_sided).sum()) if (~is_one_sided).any() else None,
        bounds=(-1, 1),
        method="highs",
    )
    if solution.status == 0 and -solution.fun > 1e-7:
        names = ("1", *data.feature_map.names)
        raise NuisanceError(
            f"the maximum-likelihood coefficients do not exist, because features separate wins from losses: the "
            f"likelihood grows as coefficients of {_places(solution.x, n_columns, names, data.items)} go to infinity; "
            f"use fewer features, collect more labels, or use estimator='debiased'"
        )

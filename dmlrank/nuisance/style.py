"""First stages of scores at equal style: additive regressions on the features of contexts and the style of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from ..data.arrays import FloatArray, IntArray, RowRecord
from ..functionals.linear_scores import LinkedScore
from .smooth import SmoothBasis
from .training_rows import FLOORS, log_loss

# Ridges that are tried, in decreasing order, and numbers of prior votes that shrink a pair's deviation to zero.
RIDGES = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
PRIOR_VOTES = (np.inf, 300.0, 100.0, 30.0, 10.0)
# With more rows than this number, the settings are selected on a sample of this size with one trial fold.
SELECTION_SAMPLE = 20_000
# Penalty of an item's constant as a multiple of the ridge; a penalty of all coefficients that keeps them finite.
_CONSTANT_PENALTY, _SMALL_PENALTY = 0.1, 1e-4
_NEWTON_STEPS, _TOLERANCE = 12, 1e-9
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveRows(RowRecord):
    """Rows of an additive regression.

    Shapes: design (r, 1 + q), a constant and the smooth columns of each row's context; extra (r, p); all others (r,).
    """

    design: FloatArray
    first: IntArray
    second: IntArray
    extra: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """The form of an additive regression: logistic or linear.

    sign: Sign of the second item's part.
    position: With the sign -1, whether the item shown first has a constant advantage.
    extra_penalty (p,): Penalties of the extra columns, as multiples of the ridge.
    """

    n_items: int
    sign: int
    position: bool
    logistic: bool
    extra_penalty: FloatArray

    def shared(self, rows: AdditiveRows) -> FloatArray:
        """Return the shared columns, (r, s): the position, or a constant and the smooth columns with the sign +1."""
        return rows.design if self.sign > 0 else np.ones((len(rows), int(self.position)))

    def penalty(self, width: int) -> FloatArray:
        """Return the penalties of all coefficients, as multiples of the ridge, for ``width`` columns of the design."""
        item = np.ones(width)
        item[0] = _CONSTANT_PENALTY
        shared = np.ones(width) if self.sign > 0 else np.zeros(int(self.position))
        shared[:1] = 0.0
        return np.concatenate([np.tile(item, self.n_items), shared, self.extra_penalty])

    def losses(self, predictor: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row, (r,): minus the log-likelihood, or the squared error."""
        return np.asarray(np.logaddexp(0, predictor) - y * predictor if self.logistic else (y - predictor) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveFit:
    """Coefficients of an additive regression of R responses: u of every item, shared, extra, and deviations of pairs.

    Shapes: item (K, 1 + q, R), shared (s, R), extra (p, R), pair (K, K, R), antisymmetric or symmetric by the sign.
    """

    item: FloatArray
    shared: FloatArray
    extra: FloatArray
    pair: FloatArray
    model: AdditiveModel

    def predictor(self, rows: AdditiveRows) -> FloatArray:
        """Return the linear predictor of r rows, (r, R)."""
        predictor = np.empty((len(rows), self.item.shape[2]))
        for number in range(predictor.shape[1]):
            coefficients = self.item[..., number]
            of_row = coefficients[rows.first] + self.model.sign * coefficients[rows.second]
            predictor[:, number] = np.einsum("rq,rq->r", rows.design, of_row)
        predictor += self.model.shared(rows) @ self.shared + rows.extra @ self.extra
        return np.asarray(predictor + self.pair[rows.first, rows.second])


def fit_by_fold(
    model: AdditiveModel, rows: AdditiveRows, responses: Sequence[FloatArray], fold: IntArray
) -> tuple[AdditiveFit, ...]:
    """Fit one regression of all responses, (r, R), per fold to the rows of the other folds.

    For every response, the held-out loss selects ridge and shrinkage of the pairs' deviations once for all folds.
    """
    n_folds = len(responses)
    trial_folds, sample = range(n_folds), np.arange(len(rows))
    if len(rows) > SELECTION_SAMPLE:
        trial_folds, sample = range(1), np.linspace(0, len(rows) - 1, SELECTION_SAMPLE).astype(np.intp)
    trials = []
    for f in trial_folds:
        y, held_out = responses[f][sample], fold[sample] == f
        if 0 < held_out.sum() < len(sample):
            equations = _Equations(model, rows.only(sample[~held_out]), y[~held_out])
            trials.append((equations, rows.only(sample[held_out]), y[held_out]))
    settings = [_select(trials, response) for response in range(responses[0].shape[1])]
    fits = []
    for f in range(n_folds):
        equations = _Equations(model, rows.only(fold != f), responses[f][fold != f])
        fit = equations.fit_of(np.stack([equations.solve(ridge, r) for r, (ridge, _) in enumerate(settings)], axis=1))
        fits.append(equations.with_pairs(fit, range(len(settings)), [votes for _, votes in settings]))
    return tuple(fits)


# The equations of the training rows of a trial fold, and its held-out rows with their responses, (r, R).
_Trial: TypeAlias = "tuple[_Equations, AdditiveRows, FloatArray]"


def _select(trials: Sequence[_Trial], response: int) -> tuple[float, float]:
    """Return the ridge and the prior votes, by which pairs' deviations are shrunk, with the smallest held-out loss."""

    def held_out_loss(fits: Sequence[AdditiveFit]) -> float:
        return sum(
            float(held_out.weight @ fit.model.losses(fit.predictor(held_out)[:, 0], y[:, response]))
            for (_, held_out, y), fit in zip(trials, fits, strict=True)
        )

    best_loss, ridge, best = np.inf, RIDGES[0], list[AdditiveFit]()
    starts: list[FloatArray | None] = [None] * len(trials)
    for tried in RIDGES:
        flats = [of.solve(tried, response, start) for (of, _, _), start in zip(trials, starts, strict=True)]
        fits = [of.fit_of(flat[:, None]) for (of, _, _), flat in zip(trials, flats, strict=True)]
        loss = held_out_loss(fits)
        if loss >= best_loss:
            break
        best_loss, best, ridge, starts = loss, fits, tried, list(flats)
    prior = np.inf
    for votes in PRIOR_VOTES[1:]:
        loss = held_out_loss(
            [of.with_pairs(fit, [response], [votes]) for (of, _, _), fit in zip(trials, best, strict=True)]
        )
        if loss >= best_loss:
            break
        best_loss, prior = loss, votes
    return ridge, prior


class _Equations:
    """The normal equations of penalised least squares, and Newton's method with them for logistic regressions.

    The flat vector of the d coefficients holds those of every item, then those of shared and of extra columns.

    columns (r, 1 + q + s + p): Columns of the design, shared and extra columns, of the rows sorted by ordered pair.
    blocks: First item, second item, first row and end of the rows of every ordered pair.
    width: Number of columns of the design, 1 + q.
    """

    def __init__(self, model: AdditiveModel, rows: AdditiveRows, y: FloatArray) -> None:
        self.model, self.rows, self.y = model, rows, y
        code = rows.first * model.n_items + rows.second
        order = np.argsort(code, kind="stable")
        codes, starts = np.unique(code[order], return_index=True)
        ends = [*starts[1:].tolist(), len(rows)]
        self.blocks = [
            (c // model.n_items, c % model.n_items, begin, end)
            for c, begin, end in zip(codes.tolist(), starts.tolist(), ends, strict=True)
        ]
        self.columns = np.hstack([rows.design, model.shared(rows), rows.extra])[order]
        self.width = rows.design.shape[1]
        self.penalty, self.weight, self.sorted_y = model.penalty(self.width), rows.weight[order], y[order]
        # Of linear regressions, the sums over all rows, and factorised matrices by ridge.
        if not model.logistic:
            self._matrix, self._moment = self._sums(self.weight, self.weight[:, None] * self.sorted_y)
        self._factors: dict[float, tuple[FloatArray, bool]] = {}

    def solve(self, ridge: float, response: int, start: FloatArray | None = None) -> FloatArray:
        """Return the coefficients of one response, (d,), under a ridge; Newton's method begins at ``start``."""
        penalty = ridge * self.penalty + _SMALL_PENALTY
        if self.model.logistic:
            return self._newton(penalty, self.sorted_y[:, response], start)
        if ridge not in self._factors:
            self._factors[ridge] = cho_factor(self._matrix + np.diag(penalty), overwrite_a=True)
        return np.asarray(cho_solve(self._factors[ridge], self._moment[:, response]))

    def fit_of(self, flat: FloatArray) -> AdditiveFit:
        """Return coefficients, (d, R), as a fit without deviations of the pairs."""
        n_items, n_responses = self.model.n_items, flat.shape[1]
        n_shared = len(self.penalty) - n_items * self.width - len(self.model.extra_penalty)
        item, shared, extra = np.split(flat, np.cumsum([n_items * self.width, n_shared]))
        pair = np.zeros((n_items, n_items, n_responses))
        return AdditiveFit(item.reshape(n_items, self.width, n_responses), shared, extra, pair, self.model)

    def with_pairs(self, fit: AdditiveFit, responses: Sequence[int], prior_votes: Sequence[float]) -> AdditiveFit:
        """Add deviations of the pairs: one Newton step from zero for each pair, shrunk towards zero."""
        model, rows, predictor = fit.model, self.rows, fit.predictor(self.rows)
        mean = expit(predictor) if model.logistic else predictor
        curvature = mean * (1 - mean) if model.logistic else np.ones_like(mean)
        low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
        sign = np.where(rows.first <= rows.second, 1.0, float(model.sign))
        code, shape = low * model.n_items + high, (model.n_items, model.n_items)
        pair = np.zeros((*shape, len(responses)))
        for r, (response, votes) in enumerate(zip(responses, prior_votes, strict=True)):
            if np.isfinite(votes):
                residual = sign * rows.weight * (self.y[:, response] - mean[:, r])
                sums = np.bincount(code, residual, minlength=model.n_items**2)
                information = np.bincount(code, rows.weight * curvature[:, r], minlength=model.n_items**2)
                upper = (sums / (information + votes * curvature[:, r].mean())).reshape(shape)
                pair[..., r] = upper + model.sign * upper.T
        return replace(fit, pair=pair)

    def _newton(self, penalty: FloatArray, y: FloatArray, start: FloatArray | None) -> FloatArray:
        """Return the coefficients of a logistic regression, (d,)."""
        flat = np.zeros(len(penalty)) if start is None else start
        value, predictor = self._penalised_loss(flat, y, penalty)
        for _ in range(_NEWTON_STEPS):
            mean = expit(predictor)
            curvature = self.weight * np.maximum(mean * (1 - mean), _LEAST_VARIANCE)
            matrix, gradient = self._sums(curvature, (self.weight * (y - mean))[:, None])
            gradient = gradient[:, 0] - penalty * flat
            step = cho_solve(cho_factor(matrix + np.diag(penalty), overwrite_a=True), gradient)
            if float(gradient @ step) / 2 < _TOLERANCE * len(y):
                break
            size = 1.0
            new_value, new_predictor = self._penalised_loss(flat + step, y, penalty)
            while new_value > value and size > 1e-3:
                size /= 2
                new_value, new_predictor = self._penalised_loss(flat + size * step, y, penalty)
            flat, value, predictor = flat + size * step, new_value, new_predictor
        return flat

    def _penalised_loss(self, flat: FloatArray, y: FloatArray, penalty: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised loss of coefficients, (d,), and the linear predictor, (r,)."""
        n_items, predictor = self.model.n_items, np.empty(len(y))
        item, tail = flat[: n_items * self.width].reshape(n_items, self.width), flat[n_items * self.width :]
        for j, k, begin, end in self.blocks:
            coefficients = np.concatenate([item[j] + self.model.sign * item[k], tail])
            predictor[begin:end] = self.columns[begin:end] @ coefficients
        loss = float(self.weight @ self.model.losses(predictor, y)) + float(penalty @ flat**2) / 2
        return loss, predictor

    def _sums(self, weight: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weighted sums over rows of squared regressors, (d, d), and of regressors times targets."""
        width, sign, d = self.width, self.model.sign, len(self.penalty)
        matrix, moment = np.zeros((d, d)), np.zeros((d, target.shape[1]))
        tail = slice(self.model.n_items * width, d)
        for j, k, begin, end in self.blocks:
            z = self.columns[begin:end]
            square = z.T @ (weight[begin:end, None] * z)
            products = z.T @ target[begin:end]
            for item, item_sign in ((j, 1), (k, sign)):
                here = slice(item * width, (item + 1) * width)
                matrix[here, here] += square[:width, :width]
                matrix[here, tail] += item_sign * square[:width, width:]
                moment[here] += item_sign * products[:width]
            of_first, of_second = slice(j * width, (j + 1) * width), slice(k * width, (k + 1) * width)
            matrix[of_first, of_second] += sign * square[:width, :width]
            matrix[of_second, of_first] += sign * square[:width, :width]
            matrix[tail, tail] += square[width:, width:]
            moment[tail] += products[width:]
        matrix[tail, : tail.start] = matrix[: tail.start, tail].T
        return matrix, moment


# Largest number of coefficients of all items together; largest number of products of style differences and features.
_MOST_COEFFICIENTS, _MOST_PRODUCTS = 1500, 40
# Penalty of the straight lines of style differences, as a multiple of the ridge.
_LINE_PENALTY = 0.01
_TINY = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class StyleRows:
    """The votes of a fit as rows, sorted by context in an order that does not depend on the order of the data's rows.

    share (v,): One divided by the number of votes on the cell.
    style (v, r): Style differences D of the two answers.
    y (v,): Preference for the first item.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    share: FloatArray
    propensity: FloatArray
    style: FloatArray
    y: FloatArray
    fold: IntArray

    def regression_rows(self, design: FloatArray, extra: FloatArray | None = None) -> AdditiveRows:
        """Return the rows of a regression on the design of the contexts, (n, 1 + q), and extra columns, (v, p)."""
        extra = np.empty((len(self.context), 0)) if extra is None else extra
        return AdditiveRows(design[self.context], self.first, self.second, extra, np.ones(len(self.context)))


@dataclass(frozen=True, slots=True, eq=False)
class StyleStages:
    """The cross-fitted first stages of scores at equal style; predictions at votes are out of fold.

    m (v,): m = E[Y | x, D], the preference for the first item given context and style, clipped at the floor.
    floor: Smallest preference; 0 for the identity link.
    link_mean: By fold, the mean of the link given context and pair.
    style_mean: By fold, e = E[D | x, pair], the mean style differences; r responses.
    moments: By fold, the conditional covariances of D and the link, r responses, then those of D with itself, r (r + 1)
        / 2 responses in the order of ``numpy.triu_indices``.
    log_loss, log_loss_without: Out-of-fold log-loss per vote of m, and of the same regression without style.
    """

    design: FloatArray
    fold: IntArray
    m: FloatArray
    floor: float
    link_mean: tuple[AdditiveFit, ...]
    style_mean: tuple[AdditiveFit, ...]
    moments: tuple[AdditiveFit, ...]
    log_loss: float
    log_loss_without: float


def fit_style_stages(
    rows: StyleRows, link: LinkedScore, x: FloatArray, *, fold: IntArray, seed_order: IntArray
) -> StyleStages:
    """Fit the first stages of scores at equal style, one model per fold on the votes of the other folds."""
    n_folds, is_in_fold = int(fold.max()) + 1, (rows.fold, np.arange(len(rows.fold)))
    design = context_design(x[np.argsort(seed_order)], x, link.n_items)
    extra, extra_penalty = style_regressors(rows.style, design[rows.context])
    with_style, plain = rows.regression_rows(design, extra), rows.regression_rows(design)

    def model(sign: int, logistic: bool, extra_penalty: FloatArray | None = None) -> AdditiveModel:
        penalty = np.empty(0) if extra_penalty is None else extra_penalty
        return AdditiveModel(link.n_items, sign, sign < 0 and link.ordered, logistic, penalty)

    def preferences(model: AdditiveModel, of_rows: AdditiveRows) -> list[FloatArray]:
        """Return the preferences for the first item that the models of all folds predict, (v,) each."""
        fits = fit_by_fold(model, of_rows, [rows.y[:, None]] * n_folds, rows.fold)
        return [1 / (1 + np.exp(-fit.predictor(of_rows)[:, 0])) for fit in fits]

    by_fold = preferences(model(-1, True, extra_penalty), with_style)
    m = np.stack(by_fold)[is_in_fold]
    # The floor with the smallest log-loss of the out-of-fold preferences.
    floor = min(FLOORS, key=lambda floor: _loss(np.clip(m, floor, 1 - floor), rows.y)) if link.is_logit else 0.0
    without_style = np.stack(preferences(model(-1, True), plain))[is_in_fold]
    link_values = [link.value(np.clip(one, floor, 1 - floor)) for one in by_fold]
    link_mean = fit_by_fold(model(-1, False), plain, [value[:, None] for value in link_values], rows.fold)
    style_mean = fit_by_fold(model(-1, False), plain, [rows.style] * n_folds, rows.fold)
    row, column = np.triu_indices(rows.style.shape[1])
    products = []
    for value, mean, e in zip(link_values, link_mean, style_mean, strict=True):
        of_style, of_link = rows.style - e.predictor(plain), value - mean.predictor(plain)[:, 0]
        products.append(np.hstack([of_style * of_link[:, None], of_style[:, row] * of_style[:, column]]))
    return StyleStages(
        design=design,
        fold=fold,
        m=np.clip(m, floor, 1 - floor),
        floor=floor,
        link_mean=link_mean,
        style_mean=style_mean,
        moments=fit_by_fold(model(1, False), plain, products, rows.fold),
        log_loss=_loss(m, rows.y),
        log_loss_without=_loss(without_style, rows.y),
    )


def predict_by_fold(fits: Sequence[AdditiveFit], rows: AdditiveRows, fold: IntArray) -> FloatArray:
    """Return the linear predictors of rows, (r, R), by the fit of each row's fold."""
    predictor = np.empty((len(rows), fits[0].item.shape[2]))
    for f, fit in enumerate(fits):
        in_fold = np.flatnonzero(fold == f)
        predictor[in_fold] = fit.predictor(rows.only(in_fold))
    return predictor


def context_design(x_in_order: FloatArray, x: FloatArray, n_items: int) -> FloatArray:
    """Return a constant and smooth columns of the contexts, (n, 1 + q), or leading components if these are too many."""
    columns = SmoothBasis.learn(x_in_order).of(x)
    n_columns = max(1, _MOST_COEFFICIENTS // n_items - 1)
    if columns.shape[1] > n_columns:
        centred = columns - columns.mean(axis=0)
        columns = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -n_columns:]
        columns /= columns[:, -1].std()
    return np.hstack([np.ones((len(x), 1)), columns])


def style_regressors(style: FloatArray, design: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return curves of style differences and products with features, (v, p), as regressors, and penalties, (p,)."""
    both_signs = np.concatenate([style, -style])
    scale = np.sqrt(np.square(style).mean(axis=0))
    columns, penalties = [], []
    for r in range(style.shape[1]):
        basis = SmoothBasis.learn(both_signs[:, [r]])
        odd = (basis.of(style[:, [r]]) - basis.of(-style[:, [r]])) / 2
        odd = odd[:, np.square(odd).mean(axis=0) > _TINY]
        columns += [style[:, [r]] / scale[r], odd]
        penalties += [_LINE_PENALTY, *np.ones(odd.shape[1])]
    n_products = min(design.shape[1] - 1, _MOST_PRODUCTS // style.shape[1])
    for r in range(style.shape[1]):
        columns.append(style[:, [r]] / scale[r] * design[:, 1 : 1 + n_products])
        penalties += [1.0] * n_products
    return np.hstack(columns), np.array(penalties)


def _loss(m: FloatArray, y: FloatArray) -> float:
    """Return the log-loss per vote of preferences for labels, (v,) each."""
    probabilities = np.clip(np.stack([m, 1 - m], axis=1), _TINY, None)
    return log_loss(probabilities, np.stack([y, 1 - y], axis=1)) / len(y)

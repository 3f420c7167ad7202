"""First stages of scores at equal style: the outcome model with style, and regressions on context and pair.

The regressions on context and pair give the means of the style differences D and of the link l(m) of the outcome model,
and their conditional covariances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..._utils.log_loss import FLOORS, log_loss
from ...data.preferences import FloatArray, IntArray
from ...functionals.linear_scores import LinkedScore
from ..smooth.basis import SmoothBasis
from .additive_regression import AdditiveFit, AdditiveModel, AdditiveRows, fit_by_fold

# Largest number of coefficients of all items together; largest number of products of style differences and features.
_MOST_COEFFICIENTS, _MOST_PRODUCTS = 1500, 40
# Penalty of the straight lines of style differences, as a multiple of the ridge.
_LINE_PENALTY = 0.01
_TINY = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class StyleRows:
    """The votes of a fit as rows, sorted by context in an order that does not depend on the order of the data's rows.

    context, block, first, second (v,): Context, influence block and items of each vote.
    share (v,): One divided by the number of votes on the cell.
    propensity (v,): pi of the vote's cell.
    style (v, r): Style differences D of the two answers.
    y (v,): Preference for the first item.
    fold (v,): Fold of each vote's context.
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

    design (n, 1 + q): A constant and the smooth columns of every context.
    fold (n,): Fold of every context.
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
    """Fit the first stages of scores at equal style, one model per fold on the votes of the other folds.

    Shapes: x (n, p), fold (n,), seed_order (n,).
    """
    n_folds = int(fold.max()) + 1
    design = context_design(x[np.argsort(seed_order)], x, link.n_items)
    extra, extra_penalty = style_regressors(rows.style, design[rows.context])
    with_style = rows.regression_rows(design, extra)
    m_model = AdditiveModel(link.n_items, -1, link.ordered, True, extra_penalty)
    response = rows.y[:, None]
    m_fits = fit_by_fold(m_model, with_style, [response] * n_folds, rows.fold)
    by_fold = [_preference(fit, with_style) for fit in m_fits]
    m = _out_of_fold(by_fold, rows.fold)
    floor = _select_floor(m, rows.y) if link.is_logit else 0.0
    plain = rows.regression_rows(design)
    no_extra = np.empty(0)
    without = fit_by_fold(
        AdditiveModel(link.n_items, -1, link.ordered, True, no_extra), plain, [response] * n_folds, rows.fold
    )
    odd = AdditiveModel(link.n_items, -1, link.ordered, False, no_extra)
    link_values = [link.value(np.clip(one, floor, 1 - floor)) for one in by_fold]
    link_mean = fit_by_fold(odd, plain, [value[:, None] for value in link_values], rows.fold)
    style_mean = fit_by_fold(odd, plain, [rows.style] * n_folds, rows.fold)
    products = [
        _products(rows.style - e.predictor(plain), value - mean.predictor(plain)[:, 0])
        for value, mean, e in zip(link_values, link_mean, style_mean, strict=True)
    ]
    moments = fit_by_fold(AdditiveModel(link.n_items, 1, False, False, no_extra), plain, products, rows.fold)
    return StyleStages(
        design=design,
        fold=fold,
        m=np.clip(m, floor, 1 - floor),
        floor=floor,
        link_mean=link_mean,
        style_mean=style_mean,
        moments=moments,
        log_loss=_loss(m, rows.y),
        log_loss_without=_loss(_out_of_fold([_preference(fit, plain) for fit in without], rows.fold), rows.y),
    )


def predict_by_fold(fits: Sequence[AdditiveFit], rows: AdditiveRows, fold: IntArray) -> FloatArray:
    """Return the linear predictors of rows, (r, R), by the fit of each row's fold."""
    predictor = np.empty((len(rows), fits[0].item.shape[2]))
    for f, fit in enumerate(fits):
        in_fold = np.flatnonzero(fold == f)
        predictor[in_fold] = fit.predictor(rows.only(in_fold))
    return predictor


def context_design(x_in_order: FloatArray, x: FloatArray, n_items: int) -> FloatArray:
    """Return a constant and smooth columns of the contexts, (n, 1 + q).

    Where there are too many smooth columns, their leading principal components replace them.

    Shapes: x_in_order (n, p), x (n, p).
    """
    basis = SmoothBasis.learn(x_in_order)
    columns = basis.of(x)
    n_columns = max(1, _MOST_COEFFICIENTS // n_items - 1)
    if columns.shape[1] > n_columns:
        centred = columns - columns.mean(axis=0)
        columns = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -n_columns:]
        columns /= columns[:, -1].std()
    return np.hstack([np.ones((len(x), 1)), columns])


def style_regressors(style: FloatArray, design: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return regressors of m that change their sign with the style differences, (v, p), and their penalties, (p,).

    They are curves of each style difference, and products of the style differences and the smooth columns of the
    context.

    Shapes: style (v, r), design (v, 1 + q).
    """
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


def _preference(fit: AdditiveFit, rows: AdditiveRows) -> FloatArray:
    """Return the predicted preference for the first item, (v,)."""
    return np.asarray(1 / (1 + np.exp(-fit.predictor(rows)[:, 0])))


def _out_of_fold(by_fold: Sequence[FloatArray], fold: IntArray) -> FloatArray:
    """Return the prediction of the model of each row's fold, (v,)."""
    return np.stack(by_fold)[fold, np.arange(len(fold))]


def _products(style_residual: FloatArray, link_residual: FloatArray) -> FloatArray:
    """Return products of residuals, (v, r + r (r + 1) / 2): of style and link, then of style with itself."""
    row, column = np.triu_indices(style_residual.shape[1])
    of_style = style_residual[:, row] * style_residual[:, column]
    return np.hstack([style_residual * link_residual[:, None], of_style])


def _select_floor(m: FloatArray, y: FloatArray) -> float:
    """Return the floor with the smallest log-loss of the out-of-fold preferences."""
    return min(FLOORS, key=lambda floor: _loss(np.clip(m, floor, 1 - floor), y))


def _loss(m: FloatArray, y: FloatArray) -> float:
    """Return the log-loss per vote of preferences for labels, (v,) each."""
    probabilities = np.clip(np.stack([m, 1 - m], axis=1), _TINY, None)
    return log_loss(probabilities, np.stack([y, 1 - y], axis=1)) / len(y)

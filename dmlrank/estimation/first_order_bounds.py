"""Bounds of contrasts of any differentiable score if those who vote differ from those who do not, to first order.

:mod:`dmlrank.estimation.voting_bounds` has the model and the influence values. For scores that are not a sum over pairs
of terms, the derivative of the contrast at mu determines the category probabilities of the votes that were not cast:
categories along which the contrast increases have the largest probabilities that the model allows. These probabilities
are possible, so that the contrast can be as large as the upper bound. To first order in gamma - 1 the contrast cannot
be larger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._utils.computation import report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray
from ..functionals import Functional
from .cross_fitting import ContextPart
from .extreme_shares import ExtremeShares
from .influence import Influence
from .voting_bounds import BoundInputs, CorrectionRows
from .voting_stage import block_sums

# Largest number of derivatives (with respect to category probabilities) that are in memory at a time.
_ENTRIES = 5_000_000


def first_order_bounds(
    functional: Functional, contrasts: FloatArray, gammas: Sequence[float], inputs: BoundInputs
) -> list[Influence]:
    """Return the influence of the lower and upper bounds of contrasts, one for each gamma.

    Shapes: contrasts (J, d).

    Notes
    -----
    The derivatives in the probabilities of all pairs and all categories are computed in every context, or once for
    contexts of a fold with equal features. The cost grows with the fourth power of the number of models.
    """
    data, voting, n_estimates = inputs.data, inputs.voting, 2 * len(contrasts)
    rows = CorrectionRows.of(inputs, functional.interior)
    by_context = np.argsort(rows.context, kind="stable")
    bounds = np.searchsorted(rows.context[by_context], np.arange(data.n_contexts + 1))
    values = np.zeros((len(gammas), data.n_contexts, n_estimates))
    corrections = np.zeros((len(gammas), len(voting.block_context), n_estimates))
    size = max(1, _ENTRIES // (data.n_items**2 * data.n_categories * contrasts.shape[1]))
    n_done = 0
    for part in inputs.nuisances.mu.parts(size):
        of_part = np.concatenate([by_context[bounds[i] : bounds[i + 1]] for i in part.contexts])
        for number, change in enumerate(
            _evaluate_part(functional, contrasts, gammas, inputs, part=part, rows=rows.only(of_part))
        ):
            values[number, part.contexts] = change[0]
            block_sums(corrections[number], *change[1])
        n_done += len(part.contexts)
        report(n_done, data.n_contexts, "bounds, contexts")
    return [
        Influence(value, correction, voting.block_context, voting.block_weight, inputs.weight)
        for value, correction in zip(values, corrections, strict=True)
    ]


def _evaluate_part(
    functional: Functional,
    contrasts: FloatArray,
    gammas: Sequence[float],
    inputs: BoundInputs,
    *,
    part: ContextPart,
    rows: CorrectionRows,
) -> list[tuple[FloatArray, tuple[IntArray, FloatArray]]]:
    """Return, for each gamma, values of the part's contexts, (c, 2 J), and corrections with their blocks.

    Shapes: contrasts (J, d).
    """
    rates, row_of_mu, place = inputs.rates(part)
    mu = inputs.mu(part.probabilities(), functional.interior)[row_of_mu]
    gradients = pair_gradients(functional, mu, inputs.data.ordered)
    block, first_row, row_block = np.unique(rows.block, return_index=True, return_inverse=True)
    place_of = np.full(inputs.data.n_contexts, -1)
    place_of[part.contexts] = place
    block_place = place_of[rows.context[first_row]]
    row_place, row_block = place_of[rows.context], row_block.reshape(-1)
    results = []
    for gamma in gammas:
        value = np.empty((len(part.contexts), 2 * len(contrasts)))
        correction = np.empty((len(block), 2 * len(contrasts)))
        for column in range(2 * len(contrasts)):
            is_upper, contrast = column >= len(contrasts), contrasts[column % len(contrasts)]
            order = _order_of_categories(gradients @ (contrast if is_upper else -contrast))
            moved, by_row = _moved(mu, rates, ExtremeShares(order, gamma), inputs.data.ordered)
            at_rows = ExtremeShares(order[row_place, rows.first, rows.second], gamma)
            delta = np.zeros((len(block), *mu.shape[1:]))
            np.add.at(delta, (row_block, rows.first, rows.second), rows.directions(at_rows)[1])
            if not inputs.data.ordered:
                delta += in_other_order(delta)
            correction[:, column] = functional.derivative(moved[block_place], delta) @ contrast
            of_mu = functional.value(moved)
            if inputs.voting.all_shown:
                of_mu = of_mu - functional.derivative(moved, rates[..., None] * (mu - by_row))
            value[:, column] = (of_mu @ contrast)[place]
        results.append((value, (block, correction)))
    return results


def _order_of_categories(gradient: FloatArray) -> IntArray:
    """Return the categories of every pair from the largest to the smallest derivative, (..., C)."""
    return np.argsort(-gradient, axis=-1, kind="stable")


def _moved(mu: FloatArray, rates: FloatArray, shares: ExtremeShares, ordered: bool) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities mu+ of all shown battles and the extreme shares u, (s, K, K, C) each.

    Shapes: mu (s, K, K, C), rates (s, K, K).
    """
    extreme = shares.of(mu)
    if not ordered:
        is_upper = np.triu(np.ones(mu.shape[1:3], dtype=bool), 1)[..., None]
        extreme = np.where(is_upper, extreme, in_other_order(extreme))
    return rates[..., None] * mu + (1 - rates[..., None]) * extreme, extreme


def pair_gradients(functional: Functional, mu: FloatArray, ordered: bool) -> FloatArray:
    """Return the derivatives of all scores in the category probabilities of all pairs, (s, K, K, C, d).

    The derivative in a category is the one along the direction that raises this category and lowers the last category
    by the same amount. The derivative in the last category is therefore zero. Where display order does not matter, the
    probabilities of both orders of the pair change together.

    Shapes: mu (s, K, K, C).
    """
    n_items, n_categories = mu.shape[1], mu.shape[3]
    columns = []
    for category in range(n_categories - 1):
        unit = np.zeros(n_categories)
        unit[category], unit[-1] = 1.0, -1.0
        columns.append(_derivatives_along(functional, mu, unit, ordered))
    total = np.stack([*columns, np.zeros_like(columns[0])], axis=3)
    items = np.arange(n_items)
    total[:, items, items] = 0.0
    return total


def _derivatives_along(functional: Functional, mu: FloatArray, unit: FloatArray, ordered: bool) -> FloatArray:
    """Return the derivatives along one direction of the categories at every pair, (s, K, K, d).

    Shapes: mu (s, K, K, C), unit (C,).
    """
    n_items = mu.shape[1]
    pairs = [(j, k) for j in range(n_items) for k in range(n_items) if j != k]
    flip = [1, 0, *range(2, len(unit))]
    first, second = np.array(pairs).T
    if functional.has_fast_pairs and not functional.pair_local:
        delta = np.tile(unit, (len(pairs), 1))
        by_context = []
        for one in mu:
            by_context.append(functional.derivative_along(one, delta, first, second, ordered=ordered))
        change = np.array(by_context)
    else:
        delta = np.zeros_like(mu)
        along = []
        for j, k in pairs:
            delta[:, j, k] = unit
            if not ordered:
                delta[:, k, j] = unit[flip]
            along.append(functional.derivative(mu, delta))
            delta[:, j, k] = delta[:, k, j] = 0.0
        change = np.stack(along, axis=1)
    total = np.zeros((len(mu), n_items, n_items, change.shape[-1]))
    total[:, first, second] = change
    return total

"""The test of a position effect where display order is ignored, and a warning where such an effect moves the scores."""

from __future__ import annotations

import numpy as np

from .._utils.warning_collection import warn
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .estimand import Setup

# The z statistic from which a position effect is taken to be real.
_REAL_EFFECT = 3.0
# A model is shown first too often or too rarely if the share of its labels in which it is shown first differs from one
# half by more than _UNEVEN_SHARE and by more than _UNEVEN_Z standard errors.
_UNEVEN_SHARE = 0.1
_UNEVEN_Z = 4.0
# Names that the warning lists at most.
_MOST_NAMED = 5


def residual_position_test(cells: Cells, gap: FloatArray, mu: FloatArray, unit: IntArray) -> tuple[float, float]:
    """Return the position effect and its z statistic, from a fit that ignores display order.

    The effect is the mean of the residuals, counted for the model that was shown first.

    Shapes: gap (C,), mu (m, C), unit (n,).
    """
    sign = np.where(cells.flipped, -1.0, 1.0)
    residual = sign * ((cells.y - mu) @ gap)
    std_error_of_sum = np.sqrt((np.bincount(unit[cells.context], weights=residual) ** 2).sum())
    both_orders = cells.flipped.any() and not cells.flipped.all()
    z = float(residual.sum() / std_error_of_sum) if both_orders and std_error_of_sum > 0 else float("nan")
    return float(residual.mean()), z


def warn_of_uneven_orders(data: PreferenceData, setup: Setup, mu: FloatArray, *, unit: IntArray, remedy: str) -> None:
    """Warn where display order is ignored although it has an effect and some models are shown first more often.

    The effect cancels in the scores of models that are shown first as often as second. The scores of other models
    contain part of the effect.

    Shapes: mu (m, C), unit (n,).
    """
    if data.ordered:
        return
    gap = np.subtract(setup.weights.first, setup.weights.second)
    z = residual_position_test(data.cells, gap, mu, unit)[1]
    if not abs(z) > _REAL_EFFECT:
        return
    share, n_labels = shares_shown_first(data.cells.only(setup.graph.edges[data.cells.first, data.cells.second]), data)
    distance = np.abs(share - 0.5)
    uneven = (distance > _UNEVEN_SHARE) & (2 * np.sqrt(n_labels) * distance > _UNEVEN_Z)
    if not uneven.any():
        return
    furthest = [j for j in np.argsort(-distance, kind="stable") if uneven[j]]
    names = ", ".join(f"{data.items[j]!r} in {100 * share[j]:.0f} %" for j in furthest[:_MOST_NAMED])
    names += f" and {len(furthest) - _MOST_NAMED} more" if len(furthest) > _MOST_NAMED else ""
    warn(
        f"display order is ignored, but the model shown first has {'an advantage' if z > 0 else 'a disadvantage'} "
        f"(z = {z:.1f}), and not every model is shown first in about half of its labels: {names}. The scores of these "
        f"models contain part of the effect of display order, and their intervals do not allow for this. {remedy} "
        f"takes display order into account, for pairs with min_labels= labelled prompts in each order (a smaller "
        f"min_labels= keeps more pairs)",
        stacklevel=2,
    )


def shares_shown_first(cells: Cells, data: PreferenceData) -> tuple[FloatArray, IntArray]:
    """Return the share of each model's labels in which it was shown first, and its number of labels, (K,) each."""
    shown_first, shown_second = cells.in_display_order
    first, second = (np.bincount(side, minlength=data.n_items) for side in (shown_first, shown_second))
    n_labels = first + second
    return first / np.maximum(n_labels, 1), n_labels

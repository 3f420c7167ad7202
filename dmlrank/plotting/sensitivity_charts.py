"""Charts of sensitivity: bounds over gamma, and the strength of an omitted variable with contours of the estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..data.preferences import FloatArray
from .style import DARK, LIGHT, hide_spines, literal, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class BoundCurve:
    """Bounds of one contrast over gamma.

    name: Name of the contrast.
    gamma, lower, upper, conf_lower, conf_upper (G,): Values of gamma, the bounds, and the confidence limits of the
        bounds.
    value: The value that the contrast is compared with.
    label: Label of the vertical axis.
    """

    name: str
    gamma: FloatArray
    lower: FloatArray
    upper: FloatArray
    conf_lower: FloatArray
    conf_upper: FloatArray
    value: float
    label: str


def bound_chart(curve: BoundCurve, ax: Axes | None = None) -> Axes:
    """Draw bounds over gamma as a dark band, and their intervals as a light band."""
    axes = new_axes(ax, height=4.2)
    axes.fill_between(curve.gamma, curve.conf_lower, curve.conf_upper, color=LIGHT, alpha=0.35, linewidth=0)
    axes.fill_between(curve.gamma, curve.lower, curve.upper, color=DARK, alpha=0.45, linewidth=0)
    for side in (curve.lower, curve.upper):
        axes.plot(curve.gamma, side, color=DARK, linewidth=1.6)
    axes.axhline(curve.value, color="0.4", linewidth=0.9, linestyle="--", zorder=1)
    axes.set_xscale("log")
    ticks = _few_ticks(curve.gamma)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlim(curve.gamma[0], curve.gamma[-1])
    axes.set_xlabel("gamma: largest factor by which the label changes the odds of voting")
    axes.set_ylabel(curve.label)
    axes.set_title(literal(curve.name))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    hide_spines(axes)
    return axes


def _few_ticks(gamma: FloatArray) -> FloatArray:
    """Return the values of gamma, without those that would overlap on a logarithmic axis."""
    kept, least = [gamma[0]], (np.log(gamma[-1]) - np.log(gamma[0])) / 14
    for value in gamma[1:]:
        if np.log(value) - np.log(kept[-1]) >= least:
            kept.append(value)
    return np.array(kept)


def strength_contour(
    estimate: float,
    spread: float,
    value: float,
    *,
    marks: Sequence[tuple[str, float, float]] = (),
    name: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw contours of an estimate less the largest bias from an omitted variable, over its two strengths."""
    axes = new_axes(ax, height=5.0, width=6.0)
    limit = min(0.95, 1.3 * max([0.1, _equal_strength(abs(estimate - value) / spread), *(max(m[1:]) for m in marks)]))
    shares = np.linspace(0.0, limit, 120)
    of_propensity, of_label = np.meshgrid(shares, shares)
    bias = np.sqrt(of_label * of_propensity / (1 - of_propensity)) * spread
    left = estimate - np.sign(estimate - value) * bias
    contours = axes.contour(of_propensity, of_label, left, levels=8, colors=LIGHT, linewidths=1.0)
    axes.clabel(contours, fontsize=8, fmt="%.3g")
    if left.min() < value < left.max():
        axes.contour(of_propensity, of_label, left, levels=[value], colors=DARK, linewidths=1.8, linestyles="--")
    for mark, across, up in marks:
        axes.scatter([across], [up], color=DARK, zorder=3)
        axes.annotate(literal(mark), (across, up), xytext=(5, 5), textcoords="offset points", fontsize=9)
    axes.set_xlabel("explained share of the second moment of 1/propensity")
    axes.set_ylabel("explained share of the label's variance")
    axes.set_title(literal(name))
    hide_spines(axes)
    return axes


def _equal_strength(distance: float) -> float:
    """Return the share at which both strengths are equal and the bias is ``distance`` times B."""
    return 2 * distance / (np.hypot(distance, 2) + distance)

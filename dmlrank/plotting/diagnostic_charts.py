"""Charts behind a fit: overlap, calibration, influence of prompts, pairs of a plan, and sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..data.preferences import FloatArray
from .theme import (
    DARK,
    LIGHT,
    REFERENCE,
    TEXT_SIZE,
    draw_reference,
    finish,
    horizontal_rows,
    literal,
    new_axes,
    outside_legend,
    row_columns,
    series_styles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BARS = 30


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityCurve:
    """Fitted probabilities of one category beside the observed shares, by bins of the fitted probability.

    category: Name of the category.
    fitted, observed, low, high (b,): Of each bin: the mean fitted probability, the observed share of the category, and
        the limits of the confidence interval of this share.
    """

    category: str
    fitted: NDArray[np.float64]
    observed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def overlap_chart(propensity: NDArray[np.float64], title: str, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the propensities of the labelled cells, and the share of cells below each propensity.

    Shapes: propensity (m,).
    """
    axes = new_axes(ax, height=4.2, width=7.5)
    ordered = np.sort(propensity)
    low, high = float(ordered[0]), float(ordered[-1])
    # Equal propensities are one bar of a visible width.
    low, high = (low / 1.3, high * 1.3) if high < 1.01 * low else (low * 0.98, high * 1.02)
    bins = np.geomspace(low, high, _BARS + 1)
    share = np.histogram(ordered, bins)[0] / len(ordered)
    axes.bar(
        bins[:-1], share, np.diff(bins), align="edge", color=LIGHT, edgecolor="white", linewidth=0.4, label="in the bar"
    )
    axes.step(
        np.r_[low, ordered, high],
        np.r_[0.0, np.arange(1, len(ordered) + 1) / len(ordered), 1.0],
        where="post",
        color=DARK,
        linewidth=1.6,
        label="up to the propensity",
    )
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.02)
    _plain_log_ticks(axes)
    axes.legend(frameon=False, fontsize=TEXT_SIZE, loc="upper left")
    across = "propensity of the labelled cell (probability that the pair is labelled)"
    finish(axes, across, "share of labelled cells", title, grid="y")
    return axes


def _plain_log_ticks(axes: Axes) -> None:
    """Write numbers such as 0.02 beside a logarithmic axis, at few places."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axes.get_xlim()
    per_decade = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    if high / low < 4:
        axes.set_xticks(np.round(np.geomspace(low, high, 5)[1:-1], 2 - int(np.floor(np.log10(low)))))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=per_decade))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def reliability_curve(
    category: str, fitted: FloatArray, labels: FloatArray, votes: NDArray[np.int64], *, alpha: float, n_bins: int = 10
) -> ReliabilityCurve:
    """Compare fitted probabilities of one category with the observed shares, by bins with equal numbers of votes.

    The intervals are Wilson's, each for one bin, and take votes as independent.

    Shapes: fitted (m,), labels (m,), votes (m,).

    References
    ----------
    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.
    """
    place = np.unique(fitted, return_inverse=True)[1]
    votes_of_distinct = np.bincount(place, votes)
    # The bin of a probability follows from the votes up to the middle of its own votes.
    middle = (np.cumsum(votes_of_distinct) - votes_of_distinct / 2) / votes.sum()
    bins = np.unique(np.minimum((middle * n_bins).astype(int), n_bins - 1), return_inverse=True)[1][place]
    n_votes = np.bincount(bins, votes).astype(np.float64)
    mean_fitted, observed = (np.bincount(bins, votes * numbers) / n_votes for numbers in (fitted, labels))
    low, high = wilson_interval(observed, n_votes, alpha)
    return ReliabilityCurve(category, mean_fitted, observed, low, high)


def wilson_interval(share: FloatArray, n: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's interval of a binomial share."""
    z2 = float(norm.ppf(1 - alpha / 2)) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    # Rounding may move a limit beyond the share where all labels agree.
    return np.minimum(np.maximum(middle - half, 0.0), share), np.maximum(np.minimum(middle + half, 1.0), share)


def reliability_chart(curves: Sequence[ReliabilityCurve], title: str, ax: Axes | None = None) -> Axes:
    """Draw observed shares against fitted probabilities by category, with a dashed line where the two are equal."""
    axes = new_axes(ax, height=4.8, width=6.4)
    axes.axline((0.0, 0.0), slope=1, color=REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    for curve, look in zip(curves, series_styles(len(curves)), strict=True):
        axes.errorbar(
            curve.fitted,
            curve.observed,
            yerr=np.stack([curve.observed - curve.low, curve.high - curve.observed]),
            fmt=look.marker,
            color=look.colour,
            markersize=5,
            elinewidth=1.1,
            capsize=2,
            label=literal(curve.category),
        )
    ends = np.concatenate([np.r_[curve.fitted, curve.low, curve.high] for curve in curves])
    room = 0.04 * (ends.max() - ends.min() or 1.0)
    limits = max(-0.02, ends.min() - room), min(1.02, ends.max() + room)
    axes.set_xlim(*limits)
    axes.set_ylim(*limits)
    axes.set_aspect("equal")
    outside_legend(axes, "category")
    finish(axes, "fitted probability (out of fold)", "observed share of labels", title)
    return axes


_RAISES, _LOWERS = DARK, "#e8953a"
# Largest number of letters in the name of a pair, which consists of the names of two models.
_LONGEST_PAIR = 48


def influence_chart(
    names: Sequence[str], values: NDArray[np.float64], *, label: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the largest influence values as bars: dark blue where a prompt raises the score, light orange elsewhere.

    Shapes: values (m,).
    """
    columns = row_columns(ax, len(names), f"a chart of {len(names):,} prompts")
    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows = values[part]
        colours = np.where(rows > 0, _RAISES, _LOWERS).tolist()
        axes.barh(np.arange(len(rows))[::-1], rows, 0.66, color=colours)
        axes.axvline(0.0, color=REFERENCE, linewidth=0.9)
        axes.locator_params(axis="x", nbins=6)
        horizontal_rows(axes, names[part], label, columns.pitch)
    columns.write_title(title)
    return columns.axes[0]


def pair_chart(
    names: Sequence[str],
    labels: NDArray[np.float64],
    *,
    parts: Sequence[str],
    mean: float,
    n_contexts: int,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the expected labels of pairs as bars, which have a plain and a hatched part for the two display orders.

    Shapes: labels (m, 1).
    """
    columns = row_columns(ax, len(names), f"a chart of {len(names):,} pairs", width=10.0)
    from matplotlib.ticker import MaxNLocator

    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows = labels[part]
        place, start = np.arange(len(rows))[::-1], np.zeros(len(rows))
        for length, name, colour, hatch in zip(rows.T, parts, (DARK, LIGHT), ("", "///"), strict=False):
            axes.barh(place, length, 0.66, left=start, color=colour, hatch=hatch, edgecolor="white", label=name)
            start = start + length
        draw_reference(axes, mean)
        axes.plot([], [], color=REFERENCE, linewidth=0.9, linestyle="--", label="uniform plan")
        axes.set_xlim(0, 1.05 * max(float(labels.sum(axis=1).max()), mean))
        horizontal_rows(axes, names[part], "expected labels", columns.pitch, longest=_LONGEST_PAIR)
        upper = axes.secondary_xaxis(
            "top", functions=(partial(np.multiply, 1 / n_contexts), partial(np.multiply, n_contexts))
        )
        upper.set_xlabel("expected labels per prompt", fontsize=TEXT_SIZE)
        # Small numbers have many digits.
        upper.xaxis.set_major_locator(MaxNLocator(5))
    outside_legend(columns.axes[-1])
    columns.write_title(title)
    return columns.axes[0]


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
    across = "gamma: largest factor by which the label changes the odds of voting"
    finish(axes, across, curve.label, literal(curve.name))
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
    horizontal, vertical = (
        "explained share of the second moment of 1/propensity",
        "explained share of the label's variance",
    )
    finish(axes, horizontal, vertical, literal(name), grid="")
    return axes


def _equal_strength(distance: float) -> float:
    """Return the share at which both strengths are equal and the bias is ``distance`` times B."""
    return 2 * distance / (np.hypot(distance, 2) + distance)

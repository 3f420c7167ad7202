"""Tests of all differences as the user sees them: a frame, a table and a win matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..inference import alternatives as sides
from ..inference.pairwise import PairTests
from ..plotting.style import literal, new_axes
from .fit_summary import decimals
from .table import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_METHODS = {
    "max-t": "single-step max-t over these differences; family-wise error held, intervals hold jointly",
    "step-down": "step-down max-t over these differences; family-wise error held, the intervals are those of the "
    "single step and hold jointly",
    "holm": "Holm; family-wise error held, the intervals are Bonferroni's and hold jointly",
    "bonferroni": "Bonferroni; family-wise error held, intervals hold jointly",
    "fdr_bh": "Benjamini-Hochberg; the share of false rejections is held, the intervals are each for itself",
    "none": "none; p-values and intervals are each for itself and hold for no two at once",
}
# Up to so many models the cells of a win matrix have room for a number.
_ROOM = 14


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseResults:
    """Tests of differences of scores, as one family.

    Attributes
    ----------
    result_frame : DataFrame
        A row per difference, first - second, the best models first: ``first second estimate std_error statistic
        p_value p_adjusted conf_low conf_high``. What cannot be tested is NaN, and :meth:`summary` says why.
    method, side : str
    delta, alpha : float
    critical : float
        Half-width of the intervals in standard errors.
    against : str or None
        The model that all others are compared with.
    models : tuple of str
        The models in it, the best first.
    functional, remark : str
        What the scores are, and what the reader has to know of them.
    """

    result_frame: pd.DataFrame
    method: str
    side: str
    delta: float
    alpha: float
    critical: float
    against: str | None
    models: tuple[str, ...]
    functional: str
    remark: str = ""

    @property
    def rejected(self) -> pd.Series:
        """Where the hypothesis is rejected at ``alpha``, in the order of the frame."""
        return (self.result_frame["p_adjusted"] <= self.alpha).rename("rejected")

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        found = int(self.rejected.sum())
        return f"<PairwiseResults: {found} of {len(self.result_frame)} differences, {self.method}, {self.side}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def summary(self) -> Summary:
        """The table for a report; ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()``, ``as_csv()``."""
        frame, level = self.result_frame, f"{100 * (1 - self.alpha):g}%"
        joint = self.method not in ("none", "fdr_bh")
        interval = f"[{level} simult. CI]" if joint and len(frame) > 1 else f"[{level} pointwise CI]"
        if self.side == "equivalence":
            interval = "[limits that decide]"
        tested = frame["std_error"] > 0
        header = (
            ("Functional:", self.functional, "Differences:", f"{len(frame):,} of {len(self.models)} models"),
            ("Alternative:", sides.question(self.side, self.delta), "Rejected:", f"{int(self.rejected.sum()):,}"),
            ("Adjustment:", self.method, "Compared with:", self.against or "each other"),
        )
        heads = ("diff", "std err", "z", "P", "adj. P", interval)
        std_errors = frame["std_error"].to_numpy()
        digits = decimals(std_errors, fewest=3 if np.median(std_errors) < 1 else 1)
        records: list[Any] = list(frame.itertuples(index=False))
        rows = tuple(_cells(row, row.std_error > 0, digits) for row in records)
        columns = tuple((head, 1 + head.startswith("[")) for head in heads)
        return Summary("Tests of Differences of Scores", header, columns, rows, self._notes(int((~tested).sum())))

    def _notes(self, n_untested: int) -> tuple[str, ...]:
        adjusted = f"Adjustment: {_METHODS[self.method]}."
        if np.isfinite(self.critical):
            adjusted += f" Critical value of the intervals {self.critical:.2f}."
        notes = [f"P is for the alternative that {sides.question(self.side, self.delta)}. {adjusted}"]
        notes.append(
            "A difference that is not separated is open, not zero: side='equivalence' tests whether it is small."
        )
        if n_untested:
            notes.append(
                f"{n_untested} differences are not tested (n/a): their standard error is zero, the functional fixes "
                f"them or they do not vary in these data."
            )
        return (*notes, self.remark) if self.remark else tuple(notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Win matrix: the row's score less the column's, coloured where the hypothesis is rejected; needs matplotlib.

        Compared with one model, the differences with their intervals instead.
        """
        return _difference_plot(self, ax) if self.against is not None else _win_matrix(self, ax)


def pairwise_results(tests: PairTests, names: tuple[str, ...], **about: Any) -> PairwiseResults:
    """Labelled tests.

    Parameters
    ----------
    tests : PairTests
    names : tuple of str
        All K models, in the order of the scores.
    about
        The other attributes of :class:`PairwiseResults`.
    """
    labels = np.array(names, dtype=object)
    frame = pd.DataFrame(
        {
            "first": labels[tests.first],
            "second": labels[tests.second],
            "estimate": tests.estimate,
            "std_error": tests.std_error,
            "statistic": tests.statistic,
            "p_value": tests.p_value,
            "p_adjusted": tests.p_adjusted,
            "conf_low": tests.low,
            "conf_high": tests.high,
        }
    )
    return PairwiseResults(frame, critical=tests.critical, **about)


def _cells(row: Any, tested: bool, digits: int) -> tuple[str, ...]:
    name, gap = f"{row.first} - {row.second}", f"{row.estimate:.{digits}f}"
    if not tested:
        return (name, gap, "0", "n/a", "", "", "", "")
    limits = (f"{limit:.{digits}f}" if np.isfinite(limit) else "inf" if limit > 0 else "-inf" for limit in row[-2:])
    p, adjusted = (f"{value:.3f}" if value >= 0.0005 else "<.001" for value in (row.p_value, row.p_adjusted))
    return (name, gap, f"{row.std_error:.{digits}f}", f"{row.statistic:.2f}", p, adjusted, *limits)


def _win_matrix(results: PairwiseResults, ax: Axes | None) -> Axes:
    models, frame = results.models, results.result_frame
    n_models = len(models)
    place = {name: position for position, name in enumerate(models)}
    rows, columns = (frame[side].map(place).to_numpy() for side in ("first", "second"))
    gap, found = np.full((n_models, n_models), np.nan), np.zeros((n_models, n_models), dtype=bool)
    gap[rows, columns], found[rows, columns] = frame["estimate"], results.rejected
    if results.side in ("two-sided", "equivalence"):
        gap[columns, rows], found[columns, rows] = -frame["estimate"], results.rejected
    side = max(3.2, 1.6 + 0.42 * n_models)
    axes = new_axes(ax, height=side, width=side + 1.2)
    scale = float(np.nanmax(np.abs(gap))) or 1.0
    axes.set_facecolor("0.93")
    image = axes.pcolormesh(
        np.where(found, gap, np.nan), cmap="RdBu", vmin=-scale, vmax=scale, edgecolors="white", linewidth=0.6
    )
    for row, column in np.argwhere(np.isfinite(gap)) if n_models <= _ROOM else []:
        strong = found[row, column] and abs(gap[row, column]) > 0.6 * scale
        colour = "white" if strong else "black" if found[row, column] else "0.45"
        shown = f"{gap[row, column]:.2f}"
        axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center", fontsize=7.5, color=colour)
    _label_matrix(axes, models)
    # Parasite axes of a colour bar take room from the figure; a given axes keeps its own.
    axes.figure.colorbar(image, ax=axes, label="score of the row less that of the column", shrink=0.8)
    axes.set_title(
        f"Coloured: {sides.question(results.side, results.delta)}\n{results.method}, level {1 - results.alpha:g}; "
        f"grey: open",
        fontsize=9,
    )
    return axes


def _label_matrix(axes: Any, models: tuple[str, ...]) -> None:
    centres = np.arange(len(models)) + 0.5
    size = 9 if len(models) <= 30 else 9 * 30 / len(models)
    axes.set_xticks(centres, [literal(name) for name in models], rotation=90, fontsize=size)
    axes.set_yticks(centres, [literal(name) for name in models], fontsize=size)
    axes.tick_params(length=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    for side in axes.spines.values():
        side.set_visible(False)


def _difference_plot(results: PairwiseResults, ax: Axes | None) -> Axes:
    frame = results.result_frame.iloc[::-1]
    axes = new_axes(ax, height=1.2 + 0.32 * len(frame))
    place = np.arange(len(frame))
    estimate = frame["estimate"].to_numpy()
    low, high = frame["conf_low"].to_numpy(), frame["conf_high"].to_numpy()
    ends = np.concatenate([estimate, low[np.isfinite(low)], high[np.isfinite(high)], [0.0]])
    margin = 0.08 * (np.nanmax(ends) - np.nanmin(ends) or 1.0)
    edge = np.nanmin(ends) - margin, np.nanmax(ends) + margin
    colours = np.where(results.rejected.iloc[::-1], "#1f4e79", "0.55")
    # A side without a limit runs out of the picture.
    axes.hlines(place, np.clip(low, *edge), np.clip(high, *edge), color=colours, linewidth=1.6)
    axes.scatter(estimate, place, color=colours, zorder=3)
    for line in _lines(results):
        axes.axvline(line, color="0.4", linewidth=0.9, linestyle="--", zorder=1)
    axes.set_yticks(place, [literal(name) for name in frame["first"]])
    axes.set_xlim(*edge)
    axes.set_ylim(-0.7, len(frame) - 0.3)
    axes.set_xlabel(
        f"score less that of {literal(str(results.against))}, level {1 - results.alpha:g}, {results.method}"
    )
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _lines(results: PairwiseResults) -> list[float]:
    """Where the hypothesis begins."""
    delta = results.delta
    return {"noninferiority": [-delta], "equivalence": [-delta, delta]}.get(results.side, [delta])

"""Results of pairwise comparisons: their frame, table and plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, p_value_text
from ..data.preferences import FloatArray
from ..inference.alternatives import Alternative
from ..inference.pairwise import PairTests
from ..plotting.intervals import Intervals, difference_plot
from ..plotting.style import literal
from ..plotting.win_matrix import win_matrix
from .table import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
_METHODS = {
    "max-t": "single-step max-t over these differences; family-wise error held, intervals hold jointly",
    "step-down": "step-down max-t over these differences; family-wise error held, the intervals are those of the "
    "single step and hold jointly",
    "holm": "Holm; family-wise error held, the intervals are Bonferroni's and hold jointly",
    "bonferroni": "Bonferroni; family-wise error held, intervals hold jointly",
    "fdr_bh": "Benjamini-Hochberg; the share of false rejections is held, the intervals are each for itself",
    "none": "none; p-values and intervals are each for itself and hold for no two at once",
}


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
            ("Alternative:", Alternative(self.side, self.delta).words, "Rejected:", f"{int(self.rejected.sum()):,}"),
            ("Adjustment:", self.method, "Compared with:", self.against or "each other"),
        )
        heads = ("diff", "std err", "z", "P", "adj. P", interval)
        std_errors = frame["std_error"].to_numpy()
        digits = decimals(std_errors, fewest=3 if np.median(std_errors) < 1 else 1)
        names = frame["first"] + " - " + frame["second"]
        numbers = frame[_NUMBERS].to_numpy(dtype=float)
        rows = tuple(_cells(*one, digits) for one in zip(names, numbers, strict=True))
        columns = tuple((head, 1 + head.startswith("[")) for head in heads)
        return Summary("Tests of Differences of Scores", header, columns, rows, self._notes(int((~tested).sum())))

    def _notes(self, n_untested: int) -> tuple[str, ...]:
        adjusted = f"Adjustment: {_METHODS[self.method]}."
        if np.isfinite(self.critical):
            adjusted += f" Critical value of the intervals {self.critical:.2f}."
        notes = [f"P is for the alternative that {Alternative(self.side, self.delta).words}. {adjusted}"]
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
        frame, rejected = self.result_frame, self.rejected.to_numpy()
        level = f"level {1 - self.alpha:g}"
        if self.against is not None:
            estimate, low, high = (frame[name].to_numpy() for name in ("estimate", "conf_low", "conf_high"))
            label = f"score less that of {literal(self.against)}, {level}, {self.method}"
            intervals = Intervals(frame["first"].tolist(), estimate, low, high, label)
            return difference_plot(intervals, rejected, self._margins(), ax)
        n_models, place = len(self.models), {name: position for position, name in enumerate(self.models)}
        rows, columns = (frame[side].map(place).to_numpy() for side in ("first", "second"))
        gap, found = np.full((n_models, n_models), np.nan), np.zeros((n_models, n_models), dtype=bool)
        gap[rows, columns], found[rows, columns] = frame["estimate"], rejected
        if self.side in ("two-sided", "equivalence"):
            gap[columns, rows], found[columns, rows] = -frame["estimate"], rejected
        title = f"Coloured: {Alternative(self.side, self.delta).words}\n{self.method}, {level}; grey: open"
        return win_matrix(self.models, gap, found, title=title, ax=ax)

    def _margins(self) -> list[float]:
        """Where the hypothesis begins."""
        delta = self.delta
        return {"noninferiority": [-delta], "equivalence": [-delta, delta]}.get(self.side, [delta])


def pairwise_frame(tests: PairTests, names: Sequence[str]) -> pd.DataFrame:
    """The tests under the names of all K models, which are in the order of the scores: a row per difference."""
    labels = np.array(names, dtype=object)
    return pd.DataFrame(
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


def _cells(name: str, numbers: FloatArray, digits: int) -> tuple[str, ...]:
    """The cells of one difference, from its numbers in the order of the frame, (7,)."""
    gap, error, z, p, adjusted, low, high = numbers
    if not error > 0:
        return (name, f"{gap:.{digits}f}", "0", "n/a", "", "", "", "")
    # An infinite limit is written inf or -inf.
    shown = (f"{number:.{digits}f}" for number in (gap, error))
    limits = (f"{limit:.{digits}f}" for limit in (low, high))
    return (name, *shown, f"{z:.2f}", p_value_text(p), p_value_text(adjusted), *limits)

"""Results of pairwise comparisons: their frame, table and plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..data.preferences import FloatArray
from ..exceptions import OptionError, listed
from ..inference.alternatives import Alternative
from ..inference.pairwise import PairTests
from ..plotting.intervals import Intervals, difference_plot
from ..plotting.style import literal
from ..plotting.win_matrix import win_matrix
from ..tables.summary_table import Summary
from .sentences import counted
from .shown_models import ShownModels, choose_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
_METHODS = {
    "max-t": "The p-values are adjusted by single-step max-t over these differences. The family-wise error rate is "
    "controlled and the intervals hold jointly.",
    "step-down": "The p-values are adjusted by step-down max-t over these differences. The family-wise error rate is "
    "controlled. The intervals are those of the single-step method and hold jointly.",
    "holm": "The p-values are adjusted by Holm's method. The family-wise error rate is controlled. The intervals are "
    "Bonferroni's and hold jointly.",
    "bonferroni": "The p-values are adjusted by Bonferroni's method. The family-wise error rate is controlled and the "
    "intervals hold jointly.",
    "fdr_bh": "The p-values are adjusted by the method of Benjamini and Hochberg, which controls the expected share of "
    "false rejections. Each interval holds for one difference, not for several jointly.",
    "none": "The p-values are not adjusted. p-values and intervals hold for one difference, not for several jointly.",
}


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseResults:
    """Tests of differences of scores, as one family.

    Attributes
    ----------
    result_frame : DataFrame
        A row per difference, first - second, the best models first: ``first second estimate std_error statistic
        p_value p_adjusted conf_low conf_high``. The statistics of a difference that cannot be tested are NaN;
        :meth:`summary` gives the reason.
    method : str
        Adjustment for multiple tests.
    side : str
        Alternative of the tests.
    delta : float
        Margin of the alternative, in the unit of the scores.
    alpha : float
        One minus the level of the intervals.
    critical : float
        Half-width of the intervals in standard errors.
    against : str or None
        The model that all others are compared with; None where all pairs are compared.
    models : tuple of str
        The models in the comparisons, the best first.
    functional : str
        The functional and the unit of the scores.
    remark : str
        A further note for the summary; may be empty.
    is_natural : bool
        Whether the scores have the functional's own unit.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=1500, rng=0)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", min_labels=5, rng=0)
    >>> tests = res.t_test_pairwise(models=["gpt-4", "claude-v1", "dolly-v2-12b"])
    >>> tests.rejected.tolist()
    [False, True, True]
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
    is_natural: bool = True

    @property
    def rejected(self) -> pd.Series:
        """Whether each hypothesis is rejected at ``alpha``, in the order of the frame."""
        return (self.result_frame["p_adjusted"] <= self.alpha).rename("rejected")

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        n_rejected = int(self.rejected.sum())
        counts = f"{n_rejected} of {len(self.result_frame)} hypotheses rejected"
        return f"<PairwiseResults: {counts}, {self.method}, {self.side}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.
        models : str or sequence of str, optional
            The models that the table shows, in this order; all when None.
        top : int, optional
            Number of models that the table shows, those with the highest scores. A difference is shown where both
            of its models are. Adjusted p-values and intervals refer to all differences in any case; a note says so.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.

        Raises
        ------
        UnknownModelError
            If no model has a name of ``models``.
        OptionError
            If ``models`` and ``top`` are both given, or have values that they cannot have.
        """
        shown = choose_models(self.models, range(len(self.models)), models, top)
        all_differences, level = self.result_frame, f"{100 * (1 - self.alpha):g}%"
        frame = all_differences if models is None and top is None else self._between(shown)
        joint = self.method not in ("none", "fdr_bh")
        interval = f"[{level} simult. CI]" if joint and len(all_differences) > 1 else f"[{level} pointwise CI]"
        if self.side == "equivalence":
            interval = "[equivalence limits]"
        n_untested = int((~(all_differences["std_error"] > 0)).sum())
        n_differences = f"{len(all_differences):,} between {len(self.models)} models"
        header = (
            ("Functional:", self.functional, "Differences:", n_differences),
            ("Alternative:", Alternative(self.side, self.delta).clause, "Rejected:", f"{int(self.rejected.sum()):,}"),
            ("Adjustment:", self.method, "Compared with:", self.against or "each other"),
        )
        heads = ("diff", "std err", "z", "P", "adj. P", interval)
        std_errors = all_differences["std_error"].to_numpy()
        digits = decimals(std_errors, fewest=fewest_decimals(self.is_natural))
        names = frame["first"] + " - " + frame["second"]
        numbers = frame[_NUMBERS].to_numpy(dtype=float)
        rows = tuple(_cells(name, row, digits) for name, row in zip(names, numbers, strict=True))
        columns = tuple((head, 1 + head.startswith("[")) for head in heads)
        table = Summary("Tests of Differences of Scores", header, columns, rows, self._notes(n_untested))
        left_out = shown.note("Adjusted p-values, intervals and the numbers above the table")
        return table.with_notes(left_out).with_title(title)

    def _between(self, shown: ShownModels) -> pd.DataFrame:
        """Return the rows of the differences between shown models, or between them and ``against``.

        Rows are in the order of their models.

        Raises
        ------
        OptionError
            If there is no such row.
        """
        order = {self.models[place]: number for number, place in enumerate(shown.places)}
        if self.against is not None:
            order.setdefault(self.against, len(order))
        frame = self.result_frame
        frame = frame[frame["first"].isin(order) & frame["second"].isin(order)]
        if not len(frame):
            raise OptionError(
                f"there is no difference between {listed(order)} in this table; name two models whose difference was "
                f"tested, or increase top="
            )
        places = frame[["first", "second"]].map(order.__getitem__).to_numpy()
        return frame.iloc[np.lexsort((places.max(axis=1), places.min(axis=1)))]

    def _notes(self, n_untested: int) -> tuple[str, ...]:
        """Return the notes on the alternative, the adjustment, and differences without a test."""
        critical = f" The critical value of the intervals is {self.critical:.2f}." if np.isfinite(self.critical) else ""
        notes = [
            f"The alternative of every test is that {Alternative(self.side, self.delta).clause}. "
            f"{_METHODS[self.method]}{critical}"
        ]
        if self.side == "equivalence":
            notes.append(
                f"A difference is shown to be small where both equivalence limits lie between {-self.delta:g} and "
                f"{self.delta:g}."
            )
        else:
            notes.append(
                "A difference that is not significant need not be zero. side='equivalence' tests whether a difference "
                "is small."
            )
        if n_untested:
            differences = counted(n_untested, "difference")
            verb, subject = ("is", "its standard error is") if n_untested == 1 else ("are", "their standard errors are")
            notes.append(
                f"{differences} {verb} not tested (n/a), because {subject} zero: the functional fixes the difference, "
                f"or the estimate does not vary in these data."
            )
        return (*notes, self.remark) if self.remark else tuple(notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the differences as a win matrix; this needs matplotlib.

        A cell shows the score of the row's model minus the score of the column's model, coloured where the hypothesis
        is rejected. Where all models are compared with one model, the differences are drawn with their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        frame, rejected = self.result_frame, self.rejected.to_numpy()
        level = f"level {1 - self.alpha:g}"
        if self.against is not None:
            estimate, low, high = (frame[name].to_numpy() for name in ("estimate", "conf_low", "conf_high"))
            label = f"score minus score of {literal(self.against)}, {level}, {self.method}"
            intervals = Intervals(frame["first"].tolist(), estimate, low, high, label)
            return difference_plot(intervals, rejected, self._margins(), ax)
        n_models, place = len(self.models), {name: position for position, name in enumerate(self.models)}
        rows, columns = (frame[side].map(place).to_numpy() for side in ("first", "second"))
        gap, coloured = np.full((n_models, n_models), np.nan), np.zeros((n_models, n_models), dtype=bool)
        gap[rows, columns], coloured[rows, columns] = frame["estimate"], rejected
        if self.side in ("two-sided", "equivalence"):
            gap[columns, rows], coloured[columns, rows] = -frame["estimate"], rejected
        title = f"Coloured: {Alternative(self.side, self.delta).clause}\n{self.method}, {level}; grey: not rejected"
        return win_matrix(self.models, gap, coloured, title=title, ax=ax)

    def _margins(self) -> list[float]:
        """Return the differences on the boundary between hypothesis and alternative; the plot marks them with lines."""
        delta = self.delta
        return {"noninferiority": [-delta], "equivalence": [-delta, delta]}.get(self.side, [delta])


def pairwise_frame(tests: PairTests, names: Sequence[str]) -> pd.DataFrame:
    """Return the tests as a frame with a row per difference; ``names`` are those of the K models, best first."""
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
    """Return the cells of one difference, from its numbers in the order of the frame, (7,)."""
    gap, error, z, p, adjusted, low, high = numbers
    if not error > 0:
        return (name, fixed_text(gap, digits), "0", "n/a", "", "", "", "")
    # An infinite limit is written inf or -inf.
    scores = (fixed_text(number, digits) for number in (gap, error))
    limits = (fixed_text(limit, digits) for limit in (low, high))
    return (name, *scores, fixed_text(z, 2), p_value_text(p), p_value_text(adjusted), *limits)

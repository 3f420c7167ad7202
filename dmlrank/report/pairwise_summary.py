"""Results of pairwise comparisons: their frame, table and plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.number_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice, listed
from ..inference.alternatives import Alternative
from ..inference.pairwise import PairTests
from ..plotting.heat_maps import win_matrix
from ..plotting.intervals import Intervals, difference_plot
from ..plotting.theme import level_words, literal, short_names
from ..tables.summary_table import Summary
from .sentences import counted
from .shown_models import ShownModels, choose_models, chosen_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
# Letters of the name of a model in the name of a drawn difference.
_LONGEST_NAME = 22
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
    looks : str
        When the tests of a sequential view hold, such as "at all looks from 500 prompts on"; empty for tests that hold
        for one look.

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
    looks: str = ""

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
            *([("Valid:", self.looks, "", "")] if self.looks else []),
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
        """Return the rows of the differences between shown models, or between them and ``against``."""
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

    def plot(
        self,
        picture: str | None = None,
        ax: Axes | None = None,
        *,
        models: Sequence[str] | None = None,
        top: int | None = None,
    ) -> Axes:
        """Draw the differences as a win matrix, or with their intervals; this needs matplotlib.

        Parameters
        ----------
        picture : {"matrix", "intervals"}, optional
            ``"matrix"``: a cell shows the score of the row's model minus the score of the column's model, coloured
            where the hypothesis is rejected. ``"intervals"``: the differences with their intervals, one below the
            other. By default the intervals where all models are compared with one model, the matrix otherwise.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        models : sequence of str, optional
            Models in the picture; all when None. The tests are always those of the whole family.
        top : int, optional
            Number of the best models in the picture.

        Returns
        -------
        matplotlib Axes
            The axes of the picture; the first column where there are several, because the differences are many.

        Raises
        ------
        OptionError, OptionTypeError
            If there is no such picture, or too many models to draw.
        UnknownModelError
            If a model is not among those that are compared.
        """
        if picture is not None and not isinstance(picture, str):
            raise OptionTypeError(
                f"plot takes the name of a picture ('matrix', 'intervals'), not a {type(picture).__name__}; give axes "
                f"as ax="
            )
        kind = picture or ("matrix" if self.against is None else "intervals")
        check_choice(kind, ("matrix", "intervals"), "picture")
        chosen = chosen_names(self.models, models, top)
        is_shown = self.result_frame["first"].isin(chosen) & (
            self.result_frame["second"].isin(chosen) | (self.result_frame["second"] == self.against)
        )
        if not is_shown.any():
            raise OptionError(
                f"no difference is between the models of the picture, {listed(chosen)}; name more with models= or top="
            )
        draw = self._draw_matrix if kind == "matrix" else self._draw_intervals
        return draw(self.result_frame[is_shown], chosen, ax)

    def _draw_intervals(self, frame: pd.DataFrame, chosen: Sequence[str], ax: Axes | None) -> Axes:
        """Draw the differences in the frame with their intervals."""
        estimate, low, high = (frame[name].to_numpy() for name in ("estimate", "conf_low", "conf_high"))
        if self.against is not None:
            names, label = frame["first"].tolist(), f"score minus score of {literal(self.against)}"
        else:
            short = dict(zip(chosen, short_names(chosen, _LONGEST_NAME), strict=True))
            pairs = zip(frame["first"].map(short), frame["second"].map(short), strict=True)
            names, label = [f"{first} − {second}" for first, second in pairs], "difference of scores"
        title = f"{self._held()}\n{self._family(frame)}; filled: {Alternative(self.side, self.delta).clause}"
        intervals = Intervals(names, estimate, low, high, f"{label}: {self.functional}", title)
        return difference_plot(intervals, (frame["p_adjusted"] <= self.alpha).to_numpy(), self._margins(), ax)

    def _draw_matrix(self, frame: pd.DataFrame, chosen: Sequence[str], ax: Axes | None) -> Axes:
        """Draw the differences in the frame between the chosen models as a matrix."""
        rejected = (frame["p_adjusted"] <= self.alpha).to_numpy()
        if self.against is not None:
            raise OptionError(
                f"there is no matrix of differences from one model, {self.against!r}; draw plot('intervals'), or test "
                f"all pairs"
            )
        n_models, place = len(chosen), {name: position for position, name in enumerate(chosen)}
        rows, columns = (frame[side].map(place).to_numpy() for side in ("first", "second"))
        gap, coloured = np.full((n_models, n_models), np.nan), np.zeros((n_models, n_models), dtype=bool)
        gap[rows, columns], coloured[rows, columns] = frame["estimate"], rejected
        if self.side in ("two-sided", "equivalence"):
            gap[columns, rows], coloured[columns, rows] = -frame["estimate"], rejected
        clause = Alternative(self.side, self.delta).clause
        title = f"Coloured: {clause}; grey: not rejected\n{self._adjustment()}, {self._family(frame)}"
        return win_matrix(chosen, gap, coloured, title=title, ax=ax)

    def _held(self) -> str:
        """Return what the intervals hold: all together, or each alone."""
        if self.side == "equivalence":
            return f"limits of two one-sided tests at {self.alpha:g} ({self.method})"
        held, method = ("simultaneous", self.method) if self.method not in ("none", "fdr_bh") else ("pointwise", "")
        # The intervals of the step-down tests are those of the single step, and Holm's are Bonferroni's.
        words = level_words(
            self.alpha, held=held, method={"step-down": "max-t", "holm": "bonferroni"}.get(method, method)
        )
        return f"{words} {self.looks}" if self.looks else words

    def _adjustment(self) -> str:
        """Return which error the tests control, at which level."""
        error = {"none": "error of each test", "fdr_bh": "false discovery rate"}.get(self.method, "family-wise error")
        return f"{error} {100 * self.alpha:g} % ({self.method}) {self.looks}".rstrip()

    def _family(self, frame: pd.DataFrame) -> str:
        """Return the number of models, and of differences where some are not drawn."""
        n_all = len(self.result_frame)
        drawn = "" if len(frame) == n_all else f", {len(frame):,} of {n_all:,} differences drawn"
        return f"{len(self.models)} models{drawn}"

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

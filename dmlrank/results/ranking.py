"""Order of the models of a result: tests of pairs, rank sets, and the leaderboards of its page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_type, names_or_all, places_of
from ..data.preferences import IntArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..inference.simultaneous import TEST_COLUMNS, Simultaneous, compare_differences
from ..inference.wald import Alternative
from ..report.fit_summary import ShownModels, choose_models, chosen_names
from ..report.phrases import counted, doubt_note, few_prompts_note, functional_unit, sequential_note, unseen_note
from ..tables.summary_table import Summarised, Summary, decimals, fewest_decimals, fixed_text, p_value_text
from .requirements import ModelTable, have_same_scores
from .units_and_views import adjusted_p_values, drawn, summary_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..report.render_page import Board
    from .pareto import Pareto
    from .sensitivity_results import SensitivityResults

# A table of all differences between more models is by default about so many, the best.
_MANY_MODELS, _MODELS_OF_MANY = 15, 10
_METHODS = {
    "max-t": "p-values are adjusted by single-step max-t (family-wise error), and intervals hold jointly.",
    "step-down": "p-values are adjusted by step-down max-t (family-wise error); intervals are those of the single "
    "step, and hold jointly.",
    "holm": "p-values are adjusted by Holm's method (family-wise error); intervals are Bonferroni's, and hold jointly.",
    "bonferroni": "p-values are adjusted by Bonferroni's method (family-wise error), and intervals hold jointly.",
    "fdr_bh": "p-values are adjusted by the method of Benjamini and Hochberg (false discovery rate); each interval "
    "holds for one difference.",
    "none": "p-values are not adjusted, and hold for one difference, as intervals do.",
}


def pairs_to_compare(
    e: Estimates, models: Sequence[str] | None, against: str | None, side: str
) -> tuple[list[int], IntArray, IntArray]:
    """Return the places of the models to compare, the best first, and first and second model of every difference.

    One-sided tests of all pairs have both directions of each.
    """
    names = names_or_all(models, e.models)
    if against is not None and against not in names:
        names.append(against)
    chosen = sorted(places_of(e.models, names, least=2), key=lambda j: (-e.merit[j], j))
    places = np.array(chosen)
    if against is not None:
        is_base = places == e.models.index(against)
        return chosen, places[~is_base], np.full(len(places) - 1, places[is_base][0])
    differ = ~np.eye(len(places), dtype=bool)
    first, second = np.nonzero(differ if side in ("larger", "smaller", "noninferiority") else np.triu(differ))
    return chosen, places[first], places[second]


class Boards(Summarised):
    """Results whose leaderboards one page shows: a fit, and groups and comparisons with several."""

    __slots__ = ()

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        source: str = "",
        unit: str = "",
        links: Mapping[str, str] | None = None,
        group: Mapping[str, str] | None = None,
        alpha: float | None = None,
        sensitivity: SensitivityResults | None = None,
        pareto: Pareto | None = None,
    ) -> str:
        """Write one HTML file with the leaderboard, or with several behind tabs, for publication; this needs Jinja2.

        The page says what is measured and who is first, then shows a sortable table of rank sets, scores and intervals.
        Below it are a form that compares two models, warnings, method, assumptions and diagnostics of this fit, and
        downloads as CSV and JSON; of more than 200 models, pairs are compared among the best 60. With scores at equal
        style, raw scores and scores averaged over style have tabs of their own. Groups and comparisons have their
        leaderboards side by side in the first tab; rank sets, groups of letters and tests of pairs hold within each
        leaderboard. The page loads nothing from the network.

        Parameters
        ----------
        path : path-like, optional
            Where to write; None returns the text.
        title : str, optional
            Subject of the page, such as the name of the benchmark.
        source : str, optional
            Where the data come from; it stands below the title.
        unit : str, optional
            Unit of the scores: ``"%"`` shows shares times 100; other units, such as ``"points"``, are only written.
        links : mapping, optional
            Address of a model by its name; not all models need one.
        group : mapping, optional
            Maker of a model by its name: makers have colours, by which a reader filters the table.
        alpha : float, optional
            One minus the joint level within each leaderboard; that of each fit when None.
        sensitivity : SensitivityResults, optional
            What :meth:`RankResults.sensitivity` returned; the leaderboard with its scores gets a section on votes that
            were not cast.
        pareto : Pareto, optional
            What :meth:`RankResults.pareto` returned; the leaderboard with its scores gets a section on score against
            cost.

        Returns
        -------
        str
            The path; the text of the page where ``path`` is None.

        Examples
        --------
        >>> import dmlrank as dr
        >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
        >>> page = res.report(title="Win rates")
        >>> "<title>Win rates: share of wins, " in page, len(page) < 60_000
        (True, True)
        """
        from ..report.render_page import Masthead, write_page
        from .pareto import Pareto
        from .sensitivity_results import SensitivityResults

        for name, given, kind in (("pareto", pareto, Pareto), ("sensitivity", sensitivity, SensitivityResults)):
            check_type(name, given, kind | None, f"what the method {name}() of a result returned, or None")
        differing, boards, tables = self._page(alpha, unit)
        for name, given in (("pareto", pareto), ("sensitivity", sensitivity)):
            if given is None:
                continue
            place = next((at for at, one in enumerate(boards) if have_same_scores(given.estimates, one.results)), None)
            if place is None:
                raise OptionError(
                    f"{name}= was computed from another result: no leaderboard of this page has its scores; pass this "
                    f"one's"
                )
            section = given.page_section(boards[place].results)
            boards[place] = replace(boards[place], sections=(*boards[place].sections, section))
        shown, heading = boards[0].results, "Leaderboards"
        if not differing:
            heading = f"Leaderboard of {counted(len(shown.names), 'model' if shown.of_models else 'output')}"
        else:
            # The table of the page is made from the leaderboards, and says itself what its columns are.
            notes = (
                re.sub(r"^Each (?:result|column) has .*?\. ?|\"P equal\" tests .*?\. ?", "", note)
                for note in tables[0].notes
            )
            tables[0] = replace(tables[0], notes=tuple(notes))
        masthead = Masthead(heading if title is None else title, source, links or {}, group or {})
        return write_page(path, masthead, boards, tables, side_by_side=differing)

    # What leaderboards differ in, these, and the tables of the first tab.
    _page: Callable[[float | None, str], tuple[str, list[Board], list[Summary]]]


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseResults(ModelTable):
    """Tests of differences of scores, as one family.

    Attributes
    ----------
    result_frame : DataFrame
        A row per difference, first - second, the best models first: ``first second estimate std_error statistic
        p_value p_adjusted conf_low conf_high``. Differences that cannot be tested have NaN.
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
    estimates : Estimates
        The scores.

    Examples
    --------
    >>> import dmlrank as dr
    >>> battles = dr.datasets.simulate_arena(n=1500, rng=0)
    >>> pairs = dr.Pairs(min_labels=5)
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", pairs=pairs, rng=0)
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
    estimates: Estimates

    @property
    def rejected(self) -> pd.Series:
        """Whether each hypothesis is rejected at ``alpha``, in the order of the frame."""
        return (self.result_frame["p_adjusted"] <= self.alpha).rename("rejected")

    def __repr__(self) -> str:
        n_rejected = int(self.rejected.sum())
        counts = f"{n_rejected} of {len(self.result_frame)} hypotheses rejected"
        return f"<PairwiseResults: {counts}, {self.method}, {self.side}>"

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        e, all_differences, level = self.estimates, self.result_frame, f"{100 * (1 - self.alpha):g}%"
        is_long = models is None and top is None and self.against is None and len(self.models) > _MANY_MODELS
        top = _MODELS_OF_MANY if is_long else top
        shown = choose_models(self.models, range(len(self.models)), models, top)
        frame = all_differences if models is None and top is None else self._between(shown)
        joint = self.method not in ("none", "fdr_bh")
        interval = f"[{level} simult. CI]" if joint and len(all_differences) > 1 else f"[{level} pointwise CI]"
        if self.side == "equivalence":
            interval = "[equivalence limits]"
        n_untested = int((~(all_differences["std_error"] > 0)).sum())
        n_differences = f"{len(all_differences):,} between {len(self.models)} models"
        header = (
            ("Functional:", functional_unit(e), "Differences:", n_differences),
            ("Alternative:", Alternative(self.side, self.delta).clause, "Rejected:", f"{int(self.rejected.sum()):,}"),
            ("Adjustment:", self.method, "Compared with:", self.against or "each other"),
            *([("Valid:", e.looks, "", "")] if e.looks else []),
        )
        heads = ("diff", "std err", "z", "P", "adj. P", interval)
        std_errors = all_differences["std_error"].to_numpy()
        digits = decimals(std_errors, fewest=fewest_decimals(e.scale.natural))
        names = frame["first"] + " - " + frame["second"]
        numbers = frame[TEST_COLUMNS].to_numpy(dtype=float)
        rows = []
        for name, (gap, error, z, p, adjusted, low, high) in zip(names, numbers, strict=True):
            if error > 0:
                size, spread, *limits = (fixed_text(number, digits) for number in (gap, error, low, high))
                rows.append((name, size, spread, fixed_text(z, 2), p_value_text(p), p_value_text(adjusted), *limits))
            else:
                rows.append((name, fixed_text(gap, digits), "0", "n/a", "", "", "", ""))
        columns = tuple((head, 1 + head.startswith("[")) for head in heads)
        table = Summary("Tests of Differences of Scores", header, columns, tuple(rows), self._notes(n_untested))
        left_out = shown.note("Adjusted p-values, intervals and the numbers above the table")
        left_out += f" All differences: summary(top={len(self.models)}), or the frame result_frame." * is_long
        return table.with_notes(left_out)

    def _between(self, shown: ShownModels) -> pd.DataFrame:
        """Return the rows of the differences between shown models, or between them and ``against``."""
        order = {self.models[place]: number for number, place in enumerate(shown.places)}
        if self.against is not None:
            order.setdefault(self.against, len(order))
        frame = self.result_frame
        frame = frame[frame["first"].isin(order) & frame["second"].isin(order)]
        if not len(frame):
            raise OptionError(f"no difference is among {listed(order)}; name further models with models= or top=")
        places = frame[["first", "second"]].map(order.__getitem__).to_numpy()
        return frame.iloc[np.lexsort((places.max(axis=1), places.min(axis=1)))]

    def _notes(self, n_untested: int) -> tuple[str, ...]:
        """Return the notes on the alternative, the adjustment, and differences without a test."""
        critical = f" The critical value of the intervals is {self.critical:.2f}." if np.isfinite(self.critical) else ""
        notes = [
            f"The alternative of every test is that {Alternative(self.side, self.delta).clause}. "
            f"{_METHODS[self.method]}{critical}"
        ]
        small = "A difference that is not significant need not be zero; side='equivalence' tests whether it is small."
        if self.side == "equivalence":
            small = (
                f"A difference is shown to be small where both limits lie between {-self.delta:g} and {self.delta:g}."
            )
        notes.append(small)
        if n_untested:
            notes.append(
                f"{counted(n_untested, 'difference')} {'is' if n_untested == 1 else 'are'} not tested (n/a): the "
                f"standard error is zero, because the functional fixes the difference or the data do not vary."
            )
        return (*notes, *doubt_note(self.estimates), *sequential_note(self.estimates))

    def plot(self, ax: Axes | None = None, *, models: Sequence[str] | None = None, top: int | None = None) -> Axes:
        """Draw the differences as a matrix, or of those from one model a forest plot; this needs matplotlib.

        A cell of the matrix shows the score of the row's model minus the score of the column's model, coloured where
        the hypothesis is rejected.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        models : sequence of str, optional
            Models in the picture. The tests are always those of the whole family.
        top : int, optional
            Number of the best models in the picture. When neither is given, a matrix of 60 or more models shows the
            best 40, and a forest plot all models.

        Returns
        -------
        matplotlib Axes
            The axes of the picture.
        """
        from ..plotting.charts import BEST_IN_MATRIX, MOST_IN_MATRIX

        if self.against is None and models is None and top is None and len(self.models) > MOST_IN_MATRIX:
            top = BEST_IN_MATRIX
        shown = choose_models(self.models, range(len(self.models)), models, top)
        chosen, frame, n_all = [self.models[j] for j in shown.places], self._between(shown), len(self.result_frame)
        drawn = "" if len(frame) == n_all else f", {len(frame):,} of {n_all:,} differences drawn"
        draw = self._draw_matrix if self.against is None else self._draw_intervals
        return draw(frame, chosen, f"{len(self.models)} models{drawn}", ax)

    def _draw_intervals(self, frame: pd.DataFrame, chosen: Sequence[str], counts: str, ax: Axes | None) -> Axes:
        """Draw the differences from one model in the frame with their intervals."""
        from ..plotting.charts import forest_plot, level_words, literal

        # The intervals of the step-down tests are those of the single step, and Holm's are Bonferroni's.
        method = {"step-down": "max-t", "holm": "bonferroni"}.get(self.method, self.method)
        held = f"{level_words(self.alpha, method=method)} {self.estimates.looks}".rstrip()
        if self.side == "equivalence":
            held = f"limits of two one-sided tests at {self.alpha:g} ({self.method})"
        elif self.method in ("none", "fdr_bh"):
            held = f"{level_words(self.alpha, held='pointwise', method='')} {self.estimates.looks}".rstrip()
        intervals = frame[["estimate", "conf_low", "conf_high"]].set_axis(["estimate", "low", "high"], axis=1)
        # Infinite limits of one-sided tests end a little beyond all others.
        ends = intervals.replace([-np.inf, np.inf], np.nan)
        least, most = min(self.delta, ends.min().min()), max(self.delta, ends.max().max())
        room = 0.08 * (most - least or 1.0)
        intervals = intervals.clip(least - room, most + room).set_axis(frame["first"].tolist())
        # The line is the boundary between hypothesis and alternative; that of equivalence has two, and 0 between them.
        at = {"noninferiority": -self.delta, "equivalence": 0.0}.get(self.side, self.delta)
        label = f"score minus score of {literal(str(self.against))}: {functional_unit(self.estimates)}"
        return forest_plot(intervals, at, label=label, title=f"{held}\n{counts}", ax=ax)

    def _draw_matrix(self, frame: pd.DataFrame, chosen: Sequence[str], counts: str, ax: Axes | None) -> Axes:
        """Draw the differences in the frame between the chosen models as a matrix."""
        from ..plotting.charts import difference_matrix

        rejected = (frame["p_adjusted"] <= self.alpha).to_numpy()
        n_models, place = len(chosen), {name: position for position, name in enumerate(chosen)}
        rows, columns = (frame[side].map(place).to_numpy() for side in ("first", "second"))
        gap, coloured = np.full((n_models, n_models), np.nan), np.zeros((n_models, n_models), dtype=bool)
        gap[rows, columns], coloured[rows, columns] = frame["estimate"], rejected
        if self.side in ("two-sided", "equivalence"):
            gap[columns, rows], coloured[columns, rows] = -frame["estimate"], rejected
        clause = Alternative(self.side, self.delta).clause
        error = {"none": "error of each test", "fdr_bh": "false discovery rate"}.get(self.method, "family-wise error")
        control = f"{error} {100 * self.alpha:g} % ({self.method}) {self.estimates.looks}".rstrip()
        title = f"Coloured: {clause}; grey: not rejected\n{control}, {counts}"
        return difference_matrix(chosen, gap, coloured, title=title, ax=ax, scores=functional_unit(self.estimates))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankSets(ModelTable):
    """Ranks with confidence sets and groups of models that are not separated; :meth:`RankResults.ranks` returns it.

    The object can be used like its ``result_frame``, as in ``ranks["group"]`` and ``ranks.to_csv(path)``.

    Attributes
    ----------
    result_frame : DataFrame
        A row per model, the best first: ``rank`` by score; ``lower`` and ``upper``, the best and the worst rank in
        the confidence set; ``group``, letters: two models share a letter exactly where they are not separated.
    alpha : float
        One minus the level of the sets.
    simultaneous : bool
        Whether the sets hold for all models at once, or each for one model.
    n_separated : int
        Number of pairs of models that are separated at the joint level.
    bootstrap : str or None
        Multipliers of the bootstrap behind the critical values; None for normal draws.
    estimates : Estimates
        The scores.

    Examples
    --------
    >>> import dmlrank as dr
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
    >>> ranks = res.ranks()
    >>> ranks.result_frame.columns.tolist(), bool(ranks["rank"].iloc[0] == 1)
    (['rank', 'lower', 'upper', 'group'], True)
    >>> len(ranks.summary(top=3).rows)
    3
    """

    result_frame: pd.DataFrame
    alpha: float
    simultaneous: bool
    n_separated: int
    bootstrap: str | None
    estimates: Estimates

    @property
    def models(self) -> list[str]:
        """Names of the K models, the best first."""
        return self.result_frame.index.tolist()

    def __getattr__(self, name: str) -> Any:
        # Private names are not looked up in the frame: copy and pickle ask for such names before there is a frame.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.result_frame, name)

    def __getitem__(self, key: Any) -> Any:
        return self.result_frame[key]

    def __len__(self) -> int:
        return len(self.result_frame)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.result_frame)

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        from ..plotting.charts import models_words

        chosen = chosen_names(self.models, models, top)
        e, frame, n_models = self.estimates, self.result_frame.loc[chosen], len(self)
        held = "simult." if self.simultaneous else "pointwise"
        level = f"{100 * (1 - self.alpha):g}%"
        critical = "normal draws" if self.bootstrap is None else f"{self.bootstrap} bootstrap"
        header = (
            ("Functional:", functional_unit(e), "Models:", models_words(len(chosen), n_models)),
            (
                "Separated pairs:",
                f"{self.n_separated:,} of {n_models * (n_models - 1) // 2:,}",
                "Tests:",
                f"Holm, {e.looks}" if e.looks else f"step-down max-t, {critical}",
            ),
        )
        texts = [frame.index.map(str), *(frame[name].map(str) for name in ("rank", "lower", "upper", "group"))]
        rows = tuple(zip(*texts, strict=True))
        columns = (("rank", 1), (f"[{level} {held} set]", 2), ("grp", 1))
        how = "jointly for all models" if self.simultaneous else "for each model alone, not jointly"
        how += f", {e.looks}" if e.looks else ""
        notes = (
            f"The set of a model contains its true rank among {counted(n_models, 'model')} with probability "
            f"{100 * (1 - self.alpha):g} %, {how}. The best rank of a set is one plus the number of models shown to be "
            f"above the model.",
            "Two models share a letter in the column grp exactly where they are not separated at the joint level. A "
            "shared letter does not show equality.",
            " ".join([*few_prompts_note(e), *unseen_note(e), *doubt_note(e), *sequential_note(e)]),
        )
        return Summary("Ranks", header, columns, rows, notes)

    def plot(self, ax: Axes | None = None, *, models: Sequence[str] | None = None, top: int | None = None) -> Axes:
        """Draw every model's rank as a point on a bar that is its confidence set; this needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        models : sequence of str, optional
            Models in the picture; all when None. Ranks and sets are always those among all models.
        top : int, optional
            Number of the best models in the picture.

        Returns
        -------
        matplotlib Axes
            The axes of the picture.
        """
        from ..plotting.charts import models_words, rank_set_chart

        chosen = chosen_names(self.models, models, top)
        frame = self.result_frame.loc[chosen]
        held = "simultaneous" if self.simultaneous else "pointwise"
        title = f"{100 * (1 - self.alpha):g} % {held} rank sets, {models_words(len(chosen), len(self))}"
        title += f"\n{self.estimates.looks}" if self.estimates.looks else ""
        return rank_set_chart(frame, title, ax, scores=functional_unit(self.estimates))

    def __repr__(self) -> str:
        # A console shows the frame instead of the fields of the dataclass.
        return repr(self.result_frame)


def make_board(
    e: Estimates,
    simultaneous: Simultaneous,
    name: str,
    *,
    alpha: float | None,
    is_explained: bool = True,
    beside_others: bool = False,
) -> Board:
    """Return a leaderboard of a page, with the tests that its tables and plots show, beside others also of the mean."""
    from ..report.render_page import Board

    # Step-down tests first, whose draws the others use again.
    level, about, tests = summary_level(e, simultaneous, alpha), " ".join(unseen_note(e)), None
    if e.of_models and e.has_intervals and len(e.models) > 1:
        method = simultaneous.adjustment("max-t")
        _, *pairs = pairs_to_compare(e, None, None, "two-sided")
        tests = compare_differences(e.estimate, simultaneous, *pairs, method=method, alpha=level.alpha)
        # The others keep the p-values of the family of all models.
        tests = tests.only(~(e.is_unseen[tests.first] | e.is_unseen[tests.second]))
    p_mean = adjusted_p_values(e, simultaneous) if beside_others and e.has_intervals else None
    return Board(name, e, level, tests, is_explained, about=about, p_mean=p_mean)


def make_boards(estimates: Estimates, simultaneous: Simultaneous, alpha: float | None) -> list[Board]:
    """Return the leaderboards of a page: one; with equal style also raw scores and those averaged over style."""
    style = estimates.style
    if style is None:
        return [make_board(estimates, simultaneous, "Leaderboard", alpha=alpha)]
    if simultaneous.multipliers is not None:
        raise OptionError(
            "report() of a bootstrap view of scores at equal style: the page also has raw scores and scores averaged "
            "over style, for which a fit keeps no influence values to multiply; publish summary() of the view, or the "
            "page of the result that bootstrap() was called on"
        )
    boards = [make_board(estimates, simultaneous, "Equal style", alpha=alpha)]
    for which, name in (("raw", "Raw"), ("averaged", "Averaged over style")):
        scores = replace(
            estimates,
            estimate=style.scores(which),
            plugin=np.full(len(estimates.models), np.nan),
            covariance=replace(estimates.covariance, matrix=style.score_covariance(which)),
            style=None,
        )
        boards.append(make_board(*drawn(scores), name, alpha=alpha, is_explained=False))
    return boards

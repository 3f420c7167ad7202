"""Order of the models of a result: tests of pairs, rank sets, certified cycles, and the leaderboards of its page."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._utils.argument_checks import names_or_all, places_of
from .._utils.computation import one_thread
from ..data.preferences import IntArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..fit.post_estimation import pair_margins
from ..fit.state import FitState
from ..inference.ranks import closest_cycle, count_cycles, find_cycles, margin_p_values
from ..inference.simultaneous import TEST_COLUMNS, Simultaneous, compare_differences
from ..inference.wald import Alternative
from ..plotting.heat_maps import BEST_IN_MATRIX, MOST_IN_MATRIX, difference_matrix
from ..plotting.intervals import difference_plot
from ..plotting.rank_charts import rank_set_chart
from ..plotting.theme import level_words, literal, models_words, short_names
from ..report.fit_summary import ShownModels, choose_models, chosen_names
from ..report.page.render_page import Board
from ..report.statements import counted, functional_unit, unseen_note
from ..tables.display_text import decimals, fewest_decimals, fixed_text, p_value_text
from ..tables.summary_table import Summary
from .requirements import ModelTable, TitledTable, check_picture
from .views import alpha_of, drawn, summary_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A table of all differences between more models is by default about so many, the best.
_MANY_MODELS, _MODELS_OF_MANY = 15, 10
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


def places_to_compare(estimates: Estimates, models: Sequence[str] | None, against: str | None) -> list[int]:
    """Return the places of the models to compare, the best first."""
    names = names_or_all(models, estimates.models)
    if against is not None and against not in names:
        names.append(against)
    return sorted(places_of(estimates.models, names, least=2), key=lambda j: (-estimates.estimate[j], j))


def pairs_to_compare(models: list[int], against: int | None, side: str) -> tuple[IntArray, IntArray]:
    """Return first and second model of every difference; in both directions for one-sided tests of all pairs."""
    if against is not None:
        opponents = [j for j in models if j != against]
        return np.array(opponents), np.full(len(opponents), against)
    both_directions = side in ("larger", "smaller", "noninferiority")
    places = np.array(models)
    differ = ~np.eye(len(models), dtype=bool)
    first, second = np.nonzero(differ if both_directions else np.triu(differ))
    return places[first], places[second]


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseResults(ModelTable):
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

    def __repr__(self) -> str:
        n_rejected = int(self.rejected.sum())
        counts = f"{n_rejected} of {len(self.result_frame)} hypotheses rejected"
        return f"<PairwiseResults: {counts}, {self.method}, {self.side}>"

    def _table(self, models: Sequence[str] | None, top: int | None) -> Summary:
        all_differences, level = self.result_frame, f"{100 * (1 - self.alpha):g}%"
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
            ("Functional:", self.functional, "Differences:", n_differences),
            ("Alternative:", Alternative(self.side, self.delta).clause, "Rejected:", f"{int(self.rejected.sum()):,}"),
            ("Adjustment:", self.method, "Compared with:", self.against or "each other"),
            *([("Valid:", self.looks, "", "")] if self.looks else []),
        )
        heads = ("diff", "std err", "z", "P", "adj. P", interval)
        std_errors = all_differences["std_error"].to_numpy()
        digits = decimals(std_errors, fewest=fewest_decimals(self.is_natural))
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
        """Draw the differences as a matrix of differences, or with their intervals; this needs matplotlib.

        Parameters
        ----------
        picture : {"matrix", "intervals"}, optional
            ``"matrix"``: a cell shows the score of the row's model minus the score of the column's model, coloured
            where the hypothesis is rejected. ``"intervals"``: the differences with their intervals, one below the
            other. By default the intervals where all models are compared with one model, the matrix otherwise.
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise.
        models : sequence of str, optional
            Models in the picture. The tests are always those of the whole family.
        top : int, optional
            Number of the best models in the picture. When neither is given, a matrix of 60 or more models shows the
            best 40, and other pictures show all models.

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
        kind = picture or ("matrix" if self.against is None else "intervals")
        check_picture(kind, ("matrix", "intervals"))
        if kind == "matrix" and models is None and top is None and len(self.models) > MOST_IN_MATRIX:
            top = BEST_IN_MATRIX
        chosen = chosen_names(self.models, models, top)
        is_shown = self.result_frame["first"].isin(chosen) & (
            self.result_frame["second"].isin(chosen) | (self.result_frame["second"] == self.against)
        )
        if not is_shown.any():
            raise OptionError(
                f"no difference is between the models of the picture, {listed(chosen)}; name more with models= or top="
            )
        frame, n_all = self.result_frame[is_shown], len(self.result_frame)
        drawn = "" if len(frame) == n_all else f", {len(frame):,} of {n_all:,} differences drawn"
        draw = self._draw_matrix if kind == "matrix" else self._draw_intervals
        return draw(frame, chosen, f"{len(self.models)} models{drawn}", ax)

    def _draw_intervals(self, frame: pd.DataFrame, chosen: Sequence[str], counts: str, ax: Axes | None) -> Axes:
        """Draw the differences in the frame with their intervals."""
        if self.against is not None:
            names, label = frame["first"].tolist(), f"score minus score of {literal(self.against)}"
        else:
            short = dict(zip(chosen, short_names(chosen, _LONGEST_NAME), strict=True))
            pairs = zip(frame["first"].map(short), frame["second"].map(short), strict=True)
            names, label = [f"{first} − {second}" for first, second in pairs], "difference of scores"
        if self.side == "equivalence":
            held = f"limits of two one-sided tests at {self.alpha:g} ({self.method})"
        elif self.method in ("none", "fdr_bh"):
            held = f"{level_words(self.alpha, held='pointwise', method='')} {self.looks}".rstrip()
        else:
            # The intervals of the step-down tests are those of the single step, and Holm's are Bonferroni's.
            method = {"step-down": "max-t", "holm": "bonferroni"}.get(self.method, self.method)
            held = f"{level_words(self.alpha, method=method)} {self.looks}".rstrip()
        title = f"{held}\n{counts}; filled: {Alternative(self.side, self.delta).clause}"
        intervals = frame[["estimate", "conf_low", "conf_high"]].set_axis(["estimate", "low", "high"], axis=1)
        intervals = intervals.assign(rejected=frame["p_adjusted"] <= self.alpha).set_axis(names)
        # Lines mark the boundary between hypothesis and alternative.
        delta = self.delta
        margins = {"noninferiority": [-delta], "equivalence": [-delta, delta]}.get(self.side, [delta])
        return difference_plot(intervals, margins, label=f"{label}: {self.functional}", title=title, ax=ax)

    def _draw_matrix(self, frame: pd.DataFrame, chosen: Sequence[str], counts: str, ax: Axes | None) -> Axes:
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
        error = {"none": "error of each test", "fdr_bh": "false discovery rate"}.get(self.method, "family-wise error")
        control = f"{error} {100 * self.alpha:g} % ({self.method}) {self.looks}".rstrip()
        title = f"Coloured: {clause}; grey: not rejected\n{control}, {counts}"
        return difference_matrix(chosen, gap, coloured, title=title, ax=ax)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankSets(ModelTable):
    """Ranks with confidence sets and groups of models that are not separated; :meth:`RankResults.ranks` returns it.

    The object can be used like its :attr:`result_frame`: ``ranks["group"]``, ``ranks.loc["gpt-4"]``, ``len(ranks)``,
    ``ranks.to_csv(path)`` and other names of a DataFrame that this class does not define are those of the frame.

    Attributes
    ----------
    result_frame : DataFrame
        A row per model, the best first: ``rank`` by score; ``lower`` and ``upper``, the best and the worst rank in
        the confidence set; ``group``, letters: two models share a letter exactly where they are not separated.
    alpha : float
        One minus the level of the sets.
    simultaneous : bool
        Whether the sets hold for all models at once, or each for one model.
    functional : str
        The functional and the unit of the scores.
    n_separated : int
        Number of pairs of models that are separated at the joint level.
    bootstrap : str or None
        Multipliers of the bootstrap behind the critical values; None for normal draws.
    remark : str
        A further note for the summary; may be empty.
    looks : str
        When the sets of a sequential view hold, such as "at all looks from 500 prompts on"; empty for sets that hold
        for one look.

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
    functional: str
    n_separated: int
    bootstrap: str | None = None
    remark: str = ""
    looks: str = ""

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
        chosen = chosen_names(self.models, models, top)
        frame, n_models = self.result_frame.loc[chosen], len(self)
        held = "simult." if self.simultaneous else "pointwise"
        level = f"{100 * (1 - self.alpha):g}%"
        critical = "normal draws" if self.bootstrap is None else f"{self.bootstrap} bootstrap"
        header = (
            ("Functional:", self.functional, "Models:", models_words(len(chosen), n_models)),
            (
                "Separated pairs:",
                f"{self.n_separated:,} of {n_models * (n_models - 1) // 2:,}",
                "Tests:",
                f"Holm, {self.looks}" if self.looks else f"step-down max-t, {critical}",
            ),
        )
        texts = [frame.index.map(str), *(frame[name].map(str) for name in ("rank", "lower", "upper", "group"))]
        rows = tuple(zip(*texts, strict=True))
        columns = (("rank", 1), (f"[{level} {held} set]", 2), ("grp", 1))
        how = "jointly for all models" if self.simultaneous else "for each model alone, not jointly"
        how += f", {self.looks}" if self.looks else ""
        notes = (
            f"The set of a model contains its true rank among {counted(n_models, 'model')} with probability "
            f"{100 * (1 - self.alpha):g} %, {how}. The best rank of a set is one plus the number of models shown to be "
            f"above the model.",
            "Two models share a letter in the column grp exactly where they are not separated at the joint level. A "
            "shared letter does not show equality.",
            *([self.remark] if self.remark else []),
        )
        return Summary("Ranks", header, columns, rows, notes)

    def plot(self, ax: Axes | None = None, *, models: Sequence[str] | None = None, top: int | None = None) -> Axes:
        """Draw every model's rank as a point on a bar that is its confidence set; this needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure otherwise, with several columns where there are more than 60 models.
        models : sequence of str, optional
            Models in the picture; all when None. Ranks and sets are always those among all models.
        top : int, optional
            Number of the best models in the picture.

        Returns
        -------
        matplotlib Axes
            The first column of the picture.

        Raises
        ------
        OptionError
            If a model is named twice, or there are too many models for a picture.
        """
        chosen = chosen_names(self.models, models, top)
        frame = self.result_frame.loc[chosen]
        held = "simultaneous" if self.simultaneous else "pointwise"
        title = f"{100 * (1 - self.alpha):g} % {held} rank sets, {models_words(len(chosen), len(self))}"
        title += f"\n{self.looks}" if self.looks else ""
        return rank_set_chart(frame, title, ax)

    def __repr__(self) -> str:
        # A console shows the frame instead of the fields of the dataclass.
        return repr(self.result_frame)


_SHARES = ("share_ab", "share_bc", "share_ca")
# Rows of the table; the frame holds all triples.
_MOST_ROWS = 30


@dataclass(frozen=True, slots=True, eq=False)
class CycleResults(TitledTable):
    """Triples of models a > b > c > a; :meth:`RankResults.cycles` returns an object of this class.

    The table of a report has at most 30 triples, those with the smallest p-values.

    Attributes
    ----------
    result_frame : DataFrame
        A row per certified triple, the smallest p-value first: ``a b c p_adjusted``. Every model beats the next one,
        and c beats a; a has the highest score of the three.
    shares : DataFrame
        Win shares in the same triples: ``share_ab``, ``share_bc`` and ``share_ca``.
    n_raw : int
        Number of triples a > b > c > a in the estimates, certified or not.
    n_triples : int
        Number of triples of models all three of whose pairs are compared.
    n_pairs : int
        Number of compared pairs, for which p-values are adjusted.
    alpha : float
        Largest adjusted p-value of a certified triple.
    closest : tuple, or None
        The models of the triple with the smallest p-value, and this p-value; None where the estimates have no triple.
    method : {"max-t", "sidak"}
        How p-values are adjusted.
    functional : str
        The functional of the fit, for the title.

    Examples
    --------
    >>> import dmlrank as dr
    >>> res = dr.dml_rank("winner ~ 1 | model_a + model_b", dr.datasets.simulate_arena(n=2000, rng=0), rng=0)
    >>> cycles = res.cycles()
    >>> len(cycles.result_frame), cycles.n_triples
    (0, 56)
    """

    result_frame: pd.DataFrame
    shares: pd.DataFrame
    n_raw: int
    n_triples: int
    n_pairs: int
    alpha: float
    closest: tuple[str, str, str, float] | None
    method: str
    functional: str

    def __len__(self) -> int:
        return len(self.result_frame)

    def __repr__(self) -> str:
        return f"<CycleResults: {len(self)} certified of {self.n_raw} in the estimates>"

    def _table(self) -> Summary:
        triples = self.result_frame[["a", "b", "c"]].head(_MOST_ROWS).to_numpy(dtype=object)
        shares = self.shares[list(_SHARES)].head(_MOST_ROWS).to_numpy(dtype=float)
        p_values = self.result_frame["p_adjusted"].head(_MOST_ROWS).to_numpy(dtype=float)
        rows = [
            (f"{a} > {b} > {c} > {a}", *(f"{share:.2f}" for share in shares[row]), p_value_text(float(p_values[row])))
            for row, (a, b, c) in enumerate(triples)
        ]
        if not rows:
            rows.append(("(no certified cycle)", "", "", "", ""))
        header = (
            ("Certified cycles:", f"{len(self):,}", "In the estimates:", f"{self.n_raw:,}"),
            ("Level:", f"{100 * (1 - self.alpha):g} %", "Compared triples:", f"{self.n_triples:,}"),
        )
        columns = (("a beats b", 1), ("b beats c", 1), ("c beats a", 1), ("adj. P", 1))
        return Summary("Cycles of preferences", header, columns, tuple(rows), self._notes())

    def _notes(self) -> tuple[str, ...]:
        """Return the notes: what a certified cycle is, what the raw number means, and the closest triple."""
        method = "max-t" if self.method == "max-t" else "Sidak's bound"
        notes = [
            f"A cycle is a triple of models a > b > c > a, where > means a win share above one half. A cycle is "
            f"certified if all three win shares differ from one half with p-values that are adjusted for all "
            f"{counted(self.n_pairs, 'compared pair')} ({method}). The probability that any certified triple is no "
            f"cycle is at most {self.alpha:g}.",
            "The estimates contain no cycle."
            if not self.n_raw
            else f"The estimates contain {counted(self.n_raw, 'cycle')}, by chance or in truth: models of nearly equal "
            f"strength form cycles in every sample.",
        ]
        if len(self) > _MOST_ROWS:
            notes.append(f"The table shows {_MOST_ROWS} of {len(self):,} certified cycles; result_frame has all.")
        if not len(self) and self.closest:
            a, b, c, p = self.closest
            notes.append(
                f"The triple that comes closest is {a} > {b} > {c} > {a} with an adjusted p-value of {p_value_text(p)}."
            )
        return tuple(notes)


@one_thread()
def certified_cycles(estimates: Estimates, steps: FitState, alpha: float) -> CycleResults:
    """Return the triples that :meth:`RankResults.cycles` documents."""
    if not estimates.estimated_by.has_first_stages:
        raise OptionError(
            "cycles() with estimator='bt_mle': the win shares of this model follow from its scores, so that they have "
            "no cycles; use update(estimator='debiased')"
        )
    data, graph = steps.data, steps.setup.graph
    first, second = np.nonzero(np.triu(graph.edges))
    margins = pair_margins(steps, first, second)
    p_values = margin_p_values(margins.estimate, margins.std_error, margins.covariance)
    # Models in the order of their scores, so that the search starts every triple at the best of its models.
    ranking = np.argsort(-estimates.estimate, kind="stable") if estimates.of_models else np.arange(data.n_items)
    place = np.argsort(ranking)
    is_won = margins.estimate > 0
    winner, loser = np.where(is_won, first, second), np.where(is_won, second, first)
    is_decided = margins.estimate != 0
    p = np.full((data.n_items, data.n_items), np.inf)
    p[place[winner[is_decided]], place[loser[is_decided]]] = p_values[is_decided]
    share = np.full((data.n_items, data.n_items), np.nan)
    share[place[winner], place[loser]] = (1 + np.abs(margins.estimate)) / 2
    found, closest = find_cycles(p, alpha), closest_cycle(p)
    names = [data.items[j] for j in ranking]
    triples = [tuple(names[j] for j in triple) for triple in found.items]
    frame = pd.DataFrame(triples, columns=["a", "b", "c"]).assign(p_adjusted=found.p_adjusted)
    a, b, c = found.items.T
    shares = pd.DataFrame({"share_ab": share[a, b], "share_bc": share[b, c], "share_ca": share[c, a]})
    edges = graph.edges.astype(float)
    nearest_triple = None
    if len(closest.items):
        nearest_triple = (*(names[j] for j in closest.items[0]), float(closest.p_adjusted[0]))
    return CycleResults(
        frame,
        shares,
        n_raw=count_cycles(np.isfinite(p)),
        n_triples=round(float(((edges @ edges) * edges).sum()) / 6),
        n_pairs=len(first),
        alpha=alpha,
        closest=nearest_triple,
        method="sidak" if margins.covariance is None else "max-t",
        functional=functional_unit(estimates),
    )


def make_board(
    e: Estimates, simultaneous: Simultaneous, name: str, *, alpha: float | None = None, is_explained: bool = True
) -> Board:
    """Return a leaderboard of a page, with the tests that its table and plots show."""
    joint, tests = alpha_of(e, alpha), None
    if e.of_models and e.has_intervals:
        method = simultaneous.adjustment("max-t")
        pairs = pairs_to_compare(places_to_compare(e, None, None), None, "two-sided")
        tests = compare_differences(e.estimate, simultaneous, *pairs, method=method, alpha=joint)
        # The others keep the p-values of the family of all models.
        is_shown = ~(e.is_unseen[tests.first] | e.is_unseen[tests.second])
        shown = {one.name: getattr(tests, one.name)[is_shown] for one in fields(tests) if one.name != "critical"}
        tests = replace(tests, **shown)
    return Board(name, e, summary_level(e, simultaneous, joint), tests, is_explained, about=" ".join(unseen_note(e)))


def make_boards(estimates: Estimates, simultaneous: Simultaneous, alpha: float) -> list[Board]:
    """Return the leaderboards of a page: one; with equal style also raw scores and those averaged over style."""
    style = estimates.style
    if style is None or style.kind != "equal":
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

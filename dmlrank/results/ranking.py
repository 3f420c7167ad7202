"""Differences, ranks and rank sets of the models of a result, and the leaderboards of its page."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.preferences import IntArray
from ..exceptions import OptionError, listed
from ..fit.estimates import Estimates
from ..inference.simultaneous import (
    Simultaneous,
    compare_differences,
)
from ..plotting.rank_charts import rank_set_chart
from ..plotting.theme import models_words
from ..report.leaderboard import chosen_names
from ..report.page.render_page import Board
from ..report.statements import counted
from ..tables.summary_table import Summary
from .requirements import ModelTable, names_or_all, place_of
from .views import alpha_of, drawn, summary_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def places_to_compare(estimates: Estimates, models: Sequence[str] | None, against: str | None) -> list[int]:
    """Return the places of the models to compare, the best first."""
    names = names_or_all(models, estimates.models)
    places = [place_of(estimates.models, name) for name in names]
    if against is not None and place_of(estimates.models, against) not in places:
        places.append(place_of(estimates.models, against))
    if len(set(places)) < len(places) or len(places) < 2:
        raise OptionError(
            f"models={listed(names) or names} is not allowed; name at least two models, and each model once"
        )
    return sorted(places, key=lambda j: (-estimates.estimate[j], j))


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

    def summary(
        self, title: str | None = None, *, models: Sequence[str] | None = None, top: int | None = None
    ) -> Summary:
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
        return Summary("Ranks", header, columns, rows, notes).with_title(title)

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
        UnknownModelError
            If a model was not ranked.
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


def make_board(
    estimates: Estimates,
    simultaneous: Simultaneous,
    name: str = "",
    *,
    alpha: float | None = None,
    is_explained: bool = True,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
    pictures: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
) -> Board:
    """Return a leaderboard of a page, with the tests that its table and plots show."""
    e, joint = estimates, alpha_of(estimates, alpha)
    level = summary_level(e, simultaneous, joint)
    tests = None
    if e.of_models and e.has_intervals:
        method = simultaneous.adjustment("max-t")
        pairs = pairs_to_compare(places_to_compare(e, None, None), None, "two-sided")
        tests = compare_differences(e.estimate, simultaneous, *pairs, method=method, alpha=joint)
    return Board(name or "Leaderboard", e, level, tests, is_explained, remarks, pictures)


def make_boards(
    estimates: Estimates,
    simultaneous: Simultaneous,
    alpha: float,
    *,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
    pictures: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
) -> list[Board]:
    """Return the leaderboards of a result's page: one, or three with scores at equal style.

    The other two are the raw scores and those averaged over style.
    """
    style = estimates.style
    if style is None or style.kind != "equal":
        return [make_board(estimates, simultaneous, alpha=alpha, remarks=remarks, pictures=pictures)]
    if simultaneous.multipliers is not None:
        raise OptionError(
            "report() of a bootstrap view of scores at equal style: the page also has raw scores and scores averaged "
            "over style, for which a fit keeps no influence values to multiply; publish summary() of the view, or the "
            "page of the result that bootstrap() was called on"
        )
    boards = [make_board(estimates, simultaneous, "Equal style", alpha=alpha, remarks=remarks, pictures=pictures)]
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

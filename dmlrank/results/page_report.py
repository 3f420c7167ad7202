"""Pages of results: leaderboards with their tests, which become one HTML file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..inference.simultaneous import Simultaneous, compare_differences
from ..report.page.board import Board
from ..report.page.render_page import check_page_extra, page_title, render_page, write_page
from .ranking import pairs_best_first
from .views import alpha_of, bootstrap_of, drawn, summary_level

__all__ = ["check_page_extra", "make_board", "make_boards", "page_title", "render_page", "write_page"]


def make_board(
    estimates: Estimates,
    simultaneous: Simultaneous,
    name: str = "",
    *,
    alpha: float | None = None,
    is_explained: bool = True,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Board:
    """Return a leaderboard of a page, with the tests that its table and plots show."""
    e, joint = estimates, alpha_of(estimates, alpha)
    level = summary_level(e, simultaneous, joint)
    tests = None
    if e.of_models and e.has_intervals:
        method = simultaneous.adjustment("max-t")
        tests = compare_differences(e.estimate, simultaneous, *pairs_best_first(e), method=method, alpha=joint)
    return Board(name or "Leaderboard", e, level, tests, is_explained, remarks)


def make_boards(
    estimates: Estimates,
    simultaneous: Simultaneous,
    alpha: float,
    *,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> list[Board]:
    """Return the leaderboards of a result's page: one, or three with scores at equal style.

    The other two are the raw scores and those averaged over style.
    """
    style = estimates.style
    if style is None or style.kind != "equal":
        return [make_board(estimates, simultaneous, alpha=alpha, remarks=remarks)]
    if bootstrap_of(simultaneous) is not None:
        raise OptionError(
            "report() of a bootstrap view of scores at equal style: the page also has raw scores and scores averaged "
            "over style, for which a fit keeps no influence values to multiply; publish summary() of the view, or the "
            "page of the result that bootstrap() was called on"
        )
    boards = [make_board(estimates, simultaneous, "Equal style", alpha=alpha, remarks=remarks)]
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

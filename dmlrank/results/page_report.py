"""Pages of results: leaderboards with their tests, which become one HTML file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..fit.estimates import Estimates
from ..inference.alternatives import Alternative
from ..inference.compact_letters import letter_groups
from ..inference.pairwise import PairTests
from ..inference.simultaneous import critical_value
from ..report.fit_notes import SummaryLevel
from ..report.page.board import Board
from ..report.page.render_page import check_page_extra, page_title, render_page, write_page
from .critical_values import (
    adjustment_in_use,
    alpha_of,
    critical_value_or_nan,
    pair_tests,
    separation_of_models,
)
from .ranking import pairs_best_first

__all__ = ["check_page_extra", "make_board", "make_boards", "page_title", "render_page", "write_page"]


def make_board(
    estimates: Estimates,
    name: str = "",
    *,
    alpha: float | None = None,
    is_explained: bool = True,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Board:
    """Return a leaderboard of a page, with the tests that its table and plots show.

    Parameters
    ----------
    estimates : Estimates
    name : str
        Text of the leaderboard's tab; the title of the leaderboard where it is empty.
    alpha : float, optional
        One minus the joint level; the fit's when None.
    is_explained : bool
        Whether method, assumptions and diagnostics stand below the leaderboard.
    remarks : tuple of (str, tuple of str)
        Titles and paragraphs of further sections.
    """
    e, level = estimates, alpha_of(estimates, alpha)
    ranked = e.of_models and e.has_intervals
    separation = separation_of_models(e, None, level) if ranked else None
    letters = letter_groups(separation.separated, e.estimate) if separation else ()
    summary_level = SummaryLevel(level, critical_value_or_nan(e, level), separation, letters)
    return Board(name or "Leaderboard", e, summary_level, _tests(e, level) if ranked else None, is_explained, remarks)


def make_boards(
    estimates: Estimates, alpha: float | None = None, *, remarks: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> list[Board]:
    """Return the leaderboards of a result's page: one, or three with scores at equal style.

    The other two are the raw scores and those averaged over style.

    Parameters
    ----------
    estimates : Estimates
    alpha : float, optional
        One minus the joint level; the fit's when None.
    remarks : tuple of (str, tuple of str)
        Titles and paragraphs of further sections of the first leaderboard.
    """
    style = estimates.style
    if style is None or style.kind != "equal":
        return [make_board(estimates, alpha=alpha, remarks=remarks)]
    boards = [make_board(estimates, "Equal style", alpha=alpha, remarks=remarks)]
    for which, name in (("raw", "Raw"), ("averaged", "Averaged over style")):
        covariance = replace(estimates.covariance, matrix=style.score_covariance(which))
        scores = replace(
            estimates,
            estimate=style.scores(which),
            plugin=np.full(len(estimates.models), np.nan),
            covariance=covariance,
            critical=critical_value(covariance, estimates.alpha),
            style=None,
        )
        boards.append(make_board(scores, name, alpha=alpha, is_explained=False))
    return boards


def _tests(estimates: Estimates, alpha: float) -> PairTests:
    """Return the two-sided max-t tests of all differences, as ``t_test_pairwise()`` computes them."""
    first, second = pairs_best_first(estimates)
    method = adjustment_in_use(estimates, "max-t")
    return pair_tests(estimates, None, first, second, method=method, alternative=Alternative(), alpha=alpha)

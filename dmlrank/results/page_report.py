"""Pages of results: leaderboards with their tests, which become one HTML file."""

from __future__ import annotations

from ..fit.estimates import Estimates
from ..inference.alternatives import Alternative
from ..inference.compact_letters import letter_groups
from ..inference.pairwise import PairTests, compare_differences
from ..report.fit_notes import SummaryLevel
from ..report.page.board import Board
from ..report.page.render_page import check_page_extra, page_title, render_page, write_page
from .critical_values import critical_value_or_nan, level_or_default, separation_of_models, t_statistic_draws
from .ranking import pairs_best_first

__all__ = ["check_page_extra", "make_board", "page_title", "render_page", "write_page"]


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
    e, level = estimates, level_or_default(alpha, estimates.alpha)
    ranked = e.of_models and e.has_intervals
    separation = separation_of_models(e, None, level) if ranked else None
    letters = letter_groups(separation.separated, e.estimate) if separation else ()
    summary_level = SummaryLevel(level, critical_value_or_nan(e, level), separation, letters)
    return Board(name or "Leaderboard", e, summary_level, _tests(e, level) if ranked else None, is_explained, remarks)


def _tests(estimates: Estimates, alpha: float) -> PairTests:
    """Return the two-sided max-t tests of all differences, as ``t_test_pairwise()`` computes them."""
    first, second = pairs_best_first(estimates)
    draws = t_statistic_draws(estimates, None)
    return compare_differences(
        estimates.estimate,
        estimates.covariance,
        draws,
        first,
        second,
        method="max-t",
        alternative=Alternative(),
        alpha=alpha,
    )

"""Pages of results: leaderboards with their tests, which become one HTML file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..exceptions import OptionError, shown
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..inference.alternatives import Alternative
from ..inference.pairwise import PairTests
from ..inference.simultaneous import critical_value
from ..report.page.board import Board
from ..report.page.render_page import check_page_extra, page_title, render_page, write_page
from .critical_values import (
    adjustment_in_use,
    alpha_of,
    pair_tests,
    summary_level,
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
    bootstrap: str | None = None,
    steps: FitSteps | None = None,
) -> Board:
    """Return a leaderboard of a page, with the tests that its table and plots show."""
    e, joint = estimates, alpha_of(estimates, alpha)
    level = summary_level(e, steps, joint, bootstrap)
    tests = _tests(e, steps, joint, bootstrap) if e.of_models and e.has_intervals else None
    return Board(name or "Leaderboard", e, level, tests, is_explained, remarks)


def make_boards(
    estimates: Estimates,
    alpha: float | None = None,
    *,
    remarks: tuple[tuple[str, tuple[str, ...]], ...] = (),
    bootstrap: str | None = None,
    steps: FitSteps | None = None,
) -> list[Board]:
    """Return the leaderboards of a result's page: one, or three with scores at equal style.

    The other two are the raw scores and those averaged over style.
    """
    style = estimates.style
    if style is None or style.kind != "equal":
        return [make_board(estimates, alpha=alpha, remarks=remarks, bootstrap=bootstrap, steps=steps)]
    if bootstrap is not None:
        raise OptionError(
            f"report(bootstrap={shown(bootstrap)}) of scores at equal style: the page also has raw scores and scores "
            f"averaged over style, for which a fit keeps no influence values to multiply; leave bootstrap= out, or "
            f"publish summary(bootstrap={shown(bootstrap)})"
        )
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


def _tests(estimates: Estimates, steps: FitSteps | None, alpha: float, bootstrap: str | None) -> PairTests:
    """Return the two-sided max-t tests of all differences, as ``t_test_pairwise()`` computes them."""
    first, second = pairs_best_first(estimates)
    method = adjustment_in_use(estimates, "max-t")
    return pair_tests(
        estimates,
        steps,
        first,
        second,
        method=method,
        alternative=Alternative(),
        alpha=alpha,
        bootstrap=bootstrap,
    )

"""Progress: silent by default, a function of the caller, a bar on a terminal, lines in a log."""

import io

import numpy as np
import pytest

import dmlrank as dr
from dmlrank._utils.tasks_and_threads import Bar, computing_with, report

FORMULA = "winner ~ x0 | model_a + model_b"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 80, n_pairs=3).frame


def test_a_fit_is_silent_unless_asked(battles, rank, capfd):
    rank(battles, FORMULA)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_function_hears_of_folds_tuning_and_chunks_to_their_ends(battles, rank):
    heard = {}
    rank(
        battles, FORMULA, n_folds=3, progress=lambda step, total, what: heard.setdefault(what, []).append((step, total))
    )
    first_stages = {"propensity, folds", "tuning, configurations", "mu, folds"}
    default_learner = {"main effects, ridges", "boosting, configurations"}
    assert set(heard) == first_stages | default_learner | {"scores, contexts"}
    assert heard["boosting, configurations"] == [(1, 3), (2, 3), (3, 3)]
    assert heard["mu, folds"] == [(1, 3), (2, 3), (3, 3)]
    assert heard["scores, contexts"][-1] == (80, 80)


def test_a_random_search_tells_of_its_draws(battles, rank):
    heard = []
    search = dr.RandomSearch(n_draws=2, grid={"num_iterations": [3], "num_leaves": [3, 4]})
    options = {"propensity": "marginal", "n_folds": 2, "tune": search}
    rank(battles, FORMULA, progress=lambda *a: heard.append(a), **options)
    assert heard[:3] == [(1, 2, "tuning, draws"), (2, 2, "tuning, draws"), (1, 2, "mu, folds")]


def test_a_terminal_gets_a_bar_that_ends_its_line():
    out = Terminal()
    bar = Bar(out)
    bar(1, 2, "mu, folds")
    assert out.getvalue().endswith(f"mu, folds [{'#' * 15}{'.' * 15}] 1/2")
    bar(2, 2, "mu, folds")
    assert out.getvalue().endswith("2/2\n")


def test_a_bar_left_half_full_is_closed():
    out = Terminal()
    with Bar(out) as bar:
        bar(1, 2, "mu, folds")
    assert out.getvalue().endswith("1/2\n")


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end_without_control_characters():
    out, now = io.StringIO(), [0.0]
    bar = Bar(out, clock=lambda: now[0])
    for step in range(1, 31):
        now[0] += 1.0
        bar(step, 30, "scores")
    assert out.getvalue().splitlines() == ["scores: 10/30", "scores: 20/30", "scores: 30/30"]


def test_reporting_ends_with_its_block():
    heard = []
    with computing_with(None, progress=lambda *a: heard.append(a)):
        report(1, 1, "inside")
    report(1, 1, "outside")
    assert heard == [(1, 1, "inside")]


def test_anything_else_is_refused(battles, rank):
    with pytest.raises(dr.DmlrankError, match="progress='yes'"):
        rank(battles, FORMULA, progress="yes")

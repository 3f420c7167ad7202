"""Folds at the same time: the order and the numbers of one after the other."""

from __future__ import annotations

import threading

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank._utils import parallel as module
from dmlrank._utils.parallel import at_once, side_by_side
from dmlrank.nuisance.boosting import train as lightgbm
from dmlrank.nuisance.boosting.train import workers_at
from dmlrank.nuisance.smooth import penalty as smooth_effects


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order(workers):
    assert list(at_once(lambda number: number + 1, 5, workers)) == [1, 2, 3, 4, 5]
    with side_by_side(lambda number: number * 2, 4, workers) as ask:
        assert ask() == ask() == [0, 2, 4, 6]


def test_two_are_at_work_together():
    # Each waits for the other: in turns they would wait in vain.
    meet = threading.Barrier(2, timeout=30)
    assert list(at_once(lambda number: meet.wait() >= 0, 2, 2)) == [True, True]


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(at_once(lambda number: 1 // number, 3, 2))


def test_folds_are_trained_at_once_where_that_pays():
    assert [workers_at(500_000, *rest) for rest in ((5, 2), (2, 8), (3, 1))] == [(2, 1), (2, 4), (1, 1)]
    assert workers_at(500_000, 1, None) == (1, None)


@pytest.mark.parametrize("many", [20_000, 200])
def test_folds_at_once_give_the_numbers_of_folds_in_turn(rank, draw_battles, monkeypatch, many):
    monkeypatch.setattr(lightgbm, "_SIDE_BY_SIDE", (0, 20_000_000))
    monkeypatch.setattr(smooth_effects, "MANY", many)
    frame = draw_battles(np.random.default_rng(0), 500, 4).frame
    formula = "winner ~ x0 + x1 | model_a + model_b"
    results = [rank(frame, formula, functional="bt", n_jobs=n_jobs) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(results[0].params, results[1].params)
    np.testing.assert_array_equal(results[0].cov_params(), results[1].cov_params())


def test_lightgbm_is_as_quiet_in_our_threads_as_elsewhere(capfd):
    """It would say that no further splits are to be had."""
    x = np.zeros((40, 1))
    data = [lgb.Dataset(x, np.arange(40) % 2, params={"verbosity": -1}).construct() for _ in range(2)]
    boosters = [lgb.Booster({"objective": "binary", "verbosity": -1, "num_threads": 1}, own) for own in data]
    with side_by_side(lambda number: boosters[number].update(), 2, workers=2) as update:
        update()
    assert list(at_once(lambda number: boosters[number].update(), 2, workers=2)) == [True, True]
    assert capfd.readouterr().out == ""


def test_boosters_and_their_data_ask_for_as_many_threads(rank, draw_battles, monkeypatch, capfd):
    """Whatever is large enough for threads of LightGBM's own, and whether one fold settles everything or all do."""
    monkeypatch.setattr(lightgbm, "_SIDE_BY_SIDE", (0, 20_000_000))
    # Else our threads keep the complaint to themselves.
    monkeypatch.setattr(module, "_quiet", lambda: None)
    frame = draw_battles(np.random.default_rng(0), 400, 4).frame
    for many in (20_000, 200):
        monkeypatch.setattr(smooth_effects, "MANY", many)
        for large in (0, 1500, 3000, 10**9):
            monkeypatch.setattr(lightgbm, "_LARGE", large)
            rank(frame, "winner ~ x0 + x1 | model_a + model_b", functional="borda", n_folds=2, n_jobs=2)
    assert "num_threads" not in capfd.readouterr().out

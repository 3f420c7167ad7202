"""Fits in several threads: each has its own warnings, and the filters of the process stay as they were."""

import warnings
from threading import Event, Thread

import numpy as np
import pytest

import dmlrank as dr
from dmlrank._utils.tasks_and_threads import Threads, collected_warnings, warn
from dmlrank.options import in_objects

FORMULA = "winner ~ C(category) + length | model_a + model_b"
OPTIONS = {"rng": 0, "tune": None, "n_folds": 2, "min_labels": 1, "n_jobs": 1}


def fit(n, **options):
    return dr.dml_rank(FORMULA, dr.datasets.simulate_arena(n=n, rng=n), **in_objects({**OPTIONS, **options}))


@pytest.mark.long
def test_fits_that_overlap_have_their_own_warnings_and_leave_the_filters_alone():
    """One begins, the other begins, the first ends, the other ends: the order that mixes replaced filters up."""
    begun, ended = Event(), Event()
    made = {}

    def first_waits(step, total, what):
        begun.set()
        overlap.wait(60)

    def other_waits(step, total, what):
        overlap.set()
        ended.wait(60)

    def first():
        made[600] = fit(600, progress=first_waits)
        ended.set()

    def other():
        begun.wait(60)
        made[900] = fit(900, progress=other_waits)

    overlap = Event()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alone = {n: fit(n).diagnostics.warnings for n in (600, 900)}
        filters, show = list(warnings.filters), warnings.showwarning
        del caught[:]
        threads = [Thread(target=first), Thread(target=other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert warnings.filters == filters
        assert warnings.showwarning is show
    assert all(alone.values())
    assert alone[600] != alone[900]
    assert {n: result.diagnostics.warnings for n, result in made.items()} == alone
    given = [w for w in caught if issubclass(w.category, dr.DmlrankWarning)]
    assert sorted(str(w.message) for w in given) == sorted([*alone[600], *alone[900]])
    assert {w.filename for w in given} == {__file__}


def test_warnings_from_threads_of_a_fit_go_where_the_fit_collects_them():
    with collected_warnings() as given, Threads(2) as workers:
        list(workers.in_order(warn, ["one", "two", "three"]))
    assert sorted(map(str, given)) == ["one", "three", "two"]


def test_other_warnings_are_given_where_they_arise_by_the_filters_of_the_process():
    def learner(features, labels, weights, rng):
        warnings.warn("of the learner", RuntimeWarning, stacklevel=1)
        share = np.bincount(labels, weights, minlength=4) / weights.sum()
        return lambda features: np.tile(share, (len(features), 1))

    battles = dr.datasets.simulate_arena(n=600, rng=0)
    options = {"propensity": "marginal", "n_folds": 2, "min_labels": 1, "rng": 0}
    with pytest.raises(RuntimeWarning):
        dr.dml_rank(FORMULA, battles, learner=learner, **in_objects(options))

"""Fits on the user's workers have the numbers of fits on the package's own threads, to the last bit."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning
from dmlrank.options import in_objects

FORMULA = "winner ~ C(category) + length | model_a + model_b"


@pytest.fixture(scope="module")
def battles():
    """Battles of which some have no votes, with a judge and clusters."""
    frame = dr.datasets.simulate_arena(n=400, rng=0)
    rng = np.random.default_rng(1)
    verdict = np.where(rng.random(len(frame)) < 0.75, frame["winner"], rng.permutation(frame["winner"].to_numpy()))
    frame = frame.assign(verdict=verdict, topic=rng.integers(40, size=len(frame)))
    frame.loc[rng.random(len(frame)) < 0.2, "winner"] = None
    frame.loc[rng.random(len(frame)) < 0.2, ["model_a", "model_b", "winner", "verdict"]] = None
    return frame


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


CLUSTERS = {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}
FITS = {
    "mean preferences, clusters": {"average": "preferences", "functional": "bt", **CLUSTERS},
    "judge": {"judge": "verdict", "position_bias": False},
}


def numbers(result):
    return [result.params.to_numpy(), np.asarray(result.cov_params()), result.steps.influence.centred]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
def test_workers_change_no_bit(battles, processes, options):
    options = {"context": "question_id", "n_folds": 2, "rng": 0, "min_labels": 1} | options
    expected = numbers(dr.dml_rank(FORMULA, battles, **in_objects({**options, "n_jobs": 1})))
    with ThreadPoolExecutor(2) as threads:
        results = []
        for executor in (threads, processes):
            with dr.computing(executor=executor):
                results.append(dr.dml_rank(FORMULA, battles, **in_objects(options)))
        with dr.computing(executor=threads):
            updated = results[0].update(n_folds=3).update(n_folds=2)
    for result in [*results, updated]:
        for one, other in zip(expected, numbers(result), strict=True):
            np.testing.assert_array_equal(one, other)


def test_warnings_of_a_fit_do_not_depend_on_the_workers(battles, rank):
    options = {"context": "question_id", "pairs": dr.Pairs(min_labels=1), "learning": dr.Learning(n_folds=2), "rng": 0}

    def messages():
        with pytest.warns(DmlrankWarning) as caught:
            dr.dml_rank(FORMULA, battles.head(150), **in_objects(options))
        return [str(record.message) for record in caught]

    with ThreadPoolExecutor(2) as threads, dr.computing(executor=threads):
        on_threads = messages()
    assert on_threads == messages()

"""The bits of a result do not depend on threads: of the fit, of the linear algebra, or of other fits."""

from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dmlrank as dr
from dmlrank._utils.computation import one_thread
from dmlrank.options import in_objects
from tests.support import needs

FORMULA = "winner ~ text(prompt, 30) | model_a + model_b"


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def battles_of(n_models, n):
    rng = np.random.default_rng(0)
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    return pd.DataFrame(
        {
            "question_id": np.arange(n),
            "prompt": [" ".join(f"word{word}" for word in row) for row in rng.zipf(1.3, size=(n, 10)) % 3000],
            "model_a": [f"m{i:03d}" for i in first],
            "model_b": [f"m{i:03d}" for i in second],
            "winner": rng.choice(["model_a", "model_b"], size=n),
        }
    )


def bits(result):
    frames = [result.params, result.cov_params(), result.conf_int()]
    return [result.steps.data.x.tobytes(), *(frame.to_numpy(float).tobytes() for frame in frames)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("formula", "n_models", "n"),
    [
        pytest.param(FORMULA, 3, 500, marks=needs("sklearn"), id="texts"),
        pytest.param("winner ~ 1 | model_a + model_b", 110, 700, id="110 models"),
    ],
)
def test_threads_of_the_linear_algebra_change_no_bit(formula, n_models, n, ignore_warnings):
    battles = battles_of(n_models, n)
    options = {"functional": "bt", "n_folds": 2, "min_labels": 1, "rng": 0, "tune": None, "context": "question_id"}
    expected = None
    for threads in (1, 3):
        with threadpool_limits(threads, "blas"):
            limited = blas_threads()
            found = bits(dr.dml_rank(formula, battles, **in_objects({"n_jobs": threads, **options})))
            assert blas_threads() == limited
        expected = expected or found
        assert found == expected


def test_blocks_of_one_thread_may_overlap_in_any_order():
    """One begins, the other begins, the first ends, the other ends: the order that mixes up what is restored."""
    begun, overlap = Event(), Event()
    inside = []

    def first():
        with one_thread():
            begun.set()
            overlap.wait(30)

    def other():
        begun.wait(30)
        with one_thread():
            overlap.set()
            thread.join(30)
            inside.extend(blas_threads())

    with threadpool_limits(3, "blas"):
        # A library that another test has loaded may have one thread only.
        before = blas_threads()
        thread, later = Thread(target=first), Thread(target=other)
        thread.start()
        later.start()
        later.join(60)
        assert set(inside) == {1}
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert blas_threads() == before

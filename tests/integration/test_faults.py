"""What misbehaves outside the package is named by an error of the package: arrays and functions of the user."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DmlrankError, NuisanceError
from dmlrank.options import in_objects

N_CONTEXTS, N_MODELS, N_CATEGORIES = 60, 3, 3
FORMULA = "winner ~ x | model_a + model_b"
OPTIONS = {"context": "question_id", "n_folds": 2, "min_labels": 1, "rng": 0, "n_jobs": 1}
WITHOUT_ORDER = OPTIONS | {"position_bias": False}


@pytest.fixture(scope="module")
def battles():
    rng = np.random.default_rng(0)
    pairs = np.array([(0, 1), (1, 2), (2, 0)])[rng.integers(3, size=N_CONTEXTS)]
    names = np.array(["ada", "bea", "cat"])[pairs]
    frame = pd.DataFrame({"question_id": np.arange(N_CONTEXTS), "x": rng.normal(size=N_CONTEXTS)})
    winner = rng.choice(["model_a", "model_b", "tie"], size=N_CONTEXTS)
    return frame.assign(model_a=names[:, 0], model_b=names[:, 1], winner=winner)


SHARES = np.full((N_CONTEXTS, N_MODELS, N_MODELS, N_CATEGORIES), 1 / 3)


def test_the_next_fit_after_ctrl_c_has_the_same_bits(battles, ignore_warnings):
    expected = dr.dml_rank(FORMULA, battles, **in_objects(OPTIONS)).to_json()
    for number in (0, 2, 5):
        calls = iter(range(99))

        def interrupt(step, total, what, calls=calls, number=number):
            if next(calls) == number:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dr.dml_rank(FORMULA, battles, **in_objects(OPTIONS | {"n_jobs": 2, "progress": interrupt}))
    assert dr.dml_rank(FORMULA, battles, **in_objects(OPTIONS)).to_json() == expected


# --- stored results with an adjustment for style ------------------------------------------------------------------


def fails(*_):
    raise RuntimeError("a fault of the caller")


class Fails:
    """A classifier whose method fails."""

    classes_ = (0, 1, 2)

    def __init__(self, method):
        self.method = method

    def fit(self, x, y, sample_weight=None):
        return fails() if self.method == "fit" else self

    def predict_proba(self, x):
        return fails()


@pytest.mark.parametrize(
    "options",
    [
        {"learner": fails},
        {"learner": lambda *_: fails},
        {"learner": Fails("fit")},
        {"learner": Fails("predict_proba")},
        {"propensity": fails, "mu": SHARES},
        {"functional": fails, "mu": SHARES, "propensity": "marginal"},
    ],
)
def test_what_fails_in_code_of_the_caller_is_the_cause_of_an_error_of_the_package(battles, options):
    with pytest.raises(DmlrankError) as caught:
        dr.dml_rank(FORMULA, battles, **in_objects({**({"propensity": "marginal"} | options), **WITHOUT_ORDER}))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("smallest", [1e-300, 1e-150, 1e-14])
def test_propensities_that_no_label_can_have_are_refused(battles, smallest):
    column = battles.assign(p=np.where(np.arange(N_CONTEXTS) < 3, smallest, 0.2))
    with pytest.raises(NuisanceError):
        dr.dml_rank(FORMULA, column, **in_objects({"mu": SHARES, "propensity": "p", **WITHOUT_ORDER}))
    table = np.where(np.arange(N_CONTEXTS) < 3, smallest, 0.2)[:, None, None] * np.ones((N_MODELS, N_MODELS))
    with pytest.raises(NuisanceError):
        dr.dml_rank(FORMULA, battles, **in_objects({"mu": SHARES, "propensity": table, **WITHOUT_ORDER}))

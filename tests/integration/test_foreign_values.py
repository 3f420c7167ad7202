"""Values of types that no argument takes: each is refused with an error of dmlrank, and none by numpy or Python."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, OptionError, OptionTypeError

HUGE = 10**5000  # more digits than Python writes
MU = np.full((2, 3, 3, 2), 0.5)


def test_numpy_does_not_warn_of_features_that_are_refused():
    battles = dr.datasets.simulate_arena(n=200, rng=0).assign(x=-1.0)
    for features in ("np.log(x)", "np.log(x) + C(category)", "I(1 / (x + 1))"):
        with pytest.raises(DataError, match="features"):
            dr.dml_rank(f"winner ~ {features} | model_a + model_b", battles, rng=0)


def test_models_of_a_plan_that_read_the_same_are_refused():
    with pytest.raises(OptionError, match="repeated names"):
        dr.design(MU, budget=1, models=[1, "1", 2])


def test_contexts_of_a_plan_may_be_tuples():
    plan = dr.design(MU, budget=1, contexts=[("a", 1), ("b", 2)])
    assert list(plan.contexts) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("column", ["model_a", "question_id"])
def test_names_that_are_no_unicode_text_are_refused(column):
    battles = dr.datasets.simulate_arena(n=200, rng=0)
    battles[column] = battles[column].astype(object).where(battles.index > 3, "half \ud800")
    with pytest.raises(DataError, match="surrogate"):
        dr.dml_rank("winner ~ 1 | model_a + model_b", battles, context="question_id", rng=0)


@pytest.mark.parametrize("model", [np.zeros((2, 0)), HUGE, None, ["gpt-4"]], ids=["array", "number", "None", "list"])
def test_names_of_models_are_texts(arena_result, model):
    with pytest.raises(OptionTypeError, match=r"first=.*allowed: a text"):
        arena_result.win_probability(model, "gpt-4")

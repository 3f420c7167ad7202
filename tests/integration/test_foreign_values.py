"""Values of types that no argument takes: each is refused with an error of dmlrank, and none by numpy or Python."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import (
    DataError,
    NuisanceError,
    OptionError,
    OptionTypeError,
)
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Custom, Dominance, RankCentrality, SoftMin, named

HUGE = 10**5000  # more digits than Python writes
TABLES = [np.full((1, 2, 2), 0.5)]
SCORES = pd.DataFrame({"task": [1, 1], "model": ["a", "b"], "score": [0.0, 1.0]})
MU = np.full((2, 3, 3, 2), 0.5)


@pytest.mark.parametrize("functional", [Borda, BradleyTerry, Dominance, RankCentrality, SoftMin])
@pytest.mark.parametrize("setting", ["weights", "graph"])
@pytest.mark.parametrize("value", [{}, 1, np.eye(3), len], ids=["mapping", "number", "array", "function"])
def test_functionals_take_category_weights_and_graphs_alone(functional, setting, value):
    with pytest.raises(OptionTypeError, match=f"{setting}="):
        functional(**{setting: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: CategoryWeights(0.0, range(3)),
        lambda: CategoryWeights((1, 1j), (0, 1)),
        lambda: Borda(edge_weights="equal"),
        lambda: Dominance(tau="0.6"),
        lambda: Dominance(sharpness=None),
        lambda: SoftMin(sharpness=1j),
        lambda: Custom(len, outputs=3),
        lambda: Custom(len, reference="0"),
        lambda: Custom(len, linear="yes"),
        lambda: named([]),
        lambda: dr.planning.mixture_propensity(TABLES, None),
        lambda: dr.planning.mixture_propensity(0.5, [1.0]),
        lambda: dr.planning.repeated_propensity(len),
        lambda: dr.planning.repeated_propensity(TABLES, position_bias=pd.Series(dtype=float)),
        lambda: dr.design(MU, budget=1, contexts=np.nan),
        lambda: dr.design(MU, budget=1, models=3),
        lambda: dr.design(1j, budget=1),
        lambda: dr.design(MU, budget=HUGE),
        lambda: dr.design(MU, budget=1, floor=HUGE),
        lambda: dr.design(MU, budget=1, position_bias="no"),
        lambda: dr.design(MU, budget=1).export(None),
        lambda: dr.design(MU, budget=1).for_power("model_0", "model_1", difference=pd.DataFrame()),
        lambda: dr.datasets.simulate_bt(10, gamma=HUGE, rng=0),
        lambda: dr.design(MU, budget=1).for_std_error(np.ones(2)),
        lambda: dr.data.pairs_from_scores(
            SCORES, prompt="task", model="model", score="score", lower_is_better=np.zeros(0)
        ),
        lambda: dr.data.pairs_from_scores(SCORES, prompt="task", model="model", score="score", margin=HUGE),
    ],
)
def test_values_of_another_type_are_refused(make):
    with pytest.raises((OptionError, OptionTypeError, NuisanceError)):
        make()


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

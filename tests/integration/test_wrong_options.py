"""Wrong types, wrong values, extreme numbers and odd cells of every option are errors of ours, or fits."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, FormulaError, OptionError, OptionTypeError, OutcomeError
from dmlrank.options import OPTIONS, in_objects

from ..support import FORMULA

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
# What is no value of any option, and what only a few take.
WRONG = {
    "an object": object(),
    "a complex number": 1j,
    "bytes": b"x",
    "an empty text": "",
    "an unknown word": "no such thing",
    "a negative number": -3,
    "a huge number": 10**400,
    "nan": float("nan"),
    "infinity": float("inf"),
    "an empty list": [],
    "a list of lists": [[1], [2, 3]],
    "a list of texts": ["a", 1],
    "an empty mapping": {},
    "a mapping": {"a": [1, 2]},
    "numbers": np.array([0.1, 0.2]),
    "an empty array": np.zeros((0, 0)),
    "an array of objects": np.array([None, "a"], dtype=object),
    "a frame": pd.DataFrame({"x": [1, 2]}),
    "a series": pd.Series([0.1, 0.2]),
    "a set": {1, 2},
    "a class": dict,
    "a function of nothing": lambda: 1,
}
# What is allowed all the same: nothing to cluster by, nothing to map, any seed; what a function of the caller's does is
# its own.
ALLOWED = {
    *((name, "an empty mapping") for name in ("cov_kwds", "categories", "tune", "env")),
    *((name, "a mapping") for name in ("categories", "env")),
    *((name, "an empty list") for name in ("context", "groups")),
    ("rng", "a huge number"),
    *((name, kind) for name in ("propensity", "judge", "progress") for kind in ("a class", "a function of nothing")),
}


@pytest.mark.parametrize("name", [*OPTIONS, "cov_kwds"])
def test_every_option_refuses_what_it_cannot_use(name, small_arena):
    options = {"min_labels": 1, "graph": "complete", "propensity": "marginal", "n_folds": 2, "rng": 0}
    if name not in ("mu", "learner", "judge_as"):
        options["mu"] = np.full((300, 8, 8, 4), 0.25)
    for kind in [kind for kind in WRONG if (name, kind) not in ALLOWED]:
        with pytest.raises(dr.DmlrankError):
            dr.dml_rank(FORMULA, small_arena, **in_objects({**options, name: WRONG[kind]}))


QUICK = {"rng": 0, "min_labels": 1, "graph": "complete", "propensity": "marginal", "n_folds": 2}
HUGE = 10**400


@pytest.fixture
def battles(small_arena):
    return small_arena.copy()


def test_levels_that_lack_a_value_of_a_boolean(battles):
    with pytest.raises(FormulaError):
        dr.dml_rank("winner ~ C(length > 0, levels=[0]) | model_a + model_b", battles, **in_objects(QUICK))


def test_whole_numbers_that_no_float_holds(battles):
    battles["huge"] = battles["length"].astype(object)
    battles.loc[3, "huge"] = HUGE
    for options in ({"weights": "huge"}, {"propensity": "huge"}):
        with pytest.raises(DataError, match="huge"):
            dr.dml_rank(FORMULA, battles, **in_objects({**QUICK, **options}))
    battles["winner"] = np.array([0, 1] * 150, dtype=object)
    battles.loc[3, "winner"] = HUGE
    with pytest.raises(OutcomeError):
        dr.dml_rank(FORMULA, battles, **in_objects(QUICK))


@pytest.mark.parametrize("known", [slice(None), slice(None, None, 2)])
def test_verdicts_on_part_of_the_pairs_beside_an_array_of_propensities(known):
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    verdict = battles["winner"].fillna("tie")
    battles["verdict"] = verdict[known].reindex(verdict.index)
    battles.loc[::3, "winner"] = None
    table, options = np.full((600, 8, 8), 1 / 60), {**QUICK, "judge": "verdict"}
    given = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": table}))
    called = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": lambda contexts, models: table}))
    np.testing.assert_array_equal(given.params, called.params)
    assert np.isfinite(given.bse).all()
    assert given.judge is not None


RNG = np.random.default_rng(0)
SCORES = pd.DataFrame([(q, m, float(RNG.random() < 0.5)) for q in range(120) for m in "abc"], columns=["q", "m", "s"])


def fit(data=SCORES, **options):
    return dr.dml_rank("s ~ 1 | m", data, context="q", rng=0, **options)


@pytest.mark.parametrize("size", [1e100, 1e300])
def test_extreme_costs_and_budgets(size, small_arena):
    with pytest.raises(dr.DmlrankError, match="divide all of them"):
        fit(SCORES.assign(c=np.where(SCORES.q == 3, size, SCORES.index + 1.0))).pareto("c")
    with pytest.raises(dr.DmlrankError, match="budget="):
        dr.dml_rank(FORMULA, small_arena, rng=0).design(1 / size)


@pytest.mark.parametrize("name", ["2", "1.0", " d", "d ", "", "2*b", "a - b", "3 - b", "'", "b"])
def test_names_of_candidates(name):
    data = SCORES.assign(m=SCORES.m.map({"a": "1", "b": "b", "c": "3"}))
    if name == "b":
        with pytest.raises(dr.DmlrankError, match="has scores already"):
            fit(data).design(30, candidate=name)
    else:
        assert set(fit(data).design(30, candidate=name).sample(rng=0)["m"]) == {name}


MU = np.full((2, 3, 3, 2), 0.5)


def test_numpy_does_not_warn_of_features_that_are_refused(small_arena):
    for features in ("np.log(x)", "np.log(x) + C(category)", "I(1 / (x + 1))"):
        with pytest.raises(DataError, match="features"):
            dr.dml_rank(f"winner ~ {features} | model_a + model_b", small_arena.assign(x=-1.0), rng=0)


def test_models_of_a_plan_that_read_the_same_are_refused():
    with pytest.raises(OptionError, match="repeated names"):
        dr.design(MU, budget=1, models=[1, "1", 2])


def test_contexts_of_a_plan_may_be_tuples():
    plan = dr.design(MU, budget=1, contexts=[("a", 1), ("b", 2)])
    assert list(plan.contexts) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("column", ["model_a", "question_id"])
def test_names_that_are_no_unicode_text_are_refused(column, battles):
    battles[column] = battles[column].astype(object).where(battles.index > 3, "half \ud800")
    with pytest.raises(DataError, match="surrogate"):
        dr.dml_rank(FORMULA, battles, context="question_id", rng=0)


def test_names_of_models_are_texts(arena_result):
    for model in (np.zeros((2, 0)), 10**5000, None, ["gpt-4"]):  # the number has more digits than Python writes
        with pytest.raises(OptionTypeError, match=r"first=.*allowed: a text"):
            arena_result.win_probability(model, "gpt-4")

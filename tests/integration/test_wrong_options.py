"""Wrong types, wrong values and odd cells of every option are errors of ours, or fits."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, FormulaError, OutcomeError
from dmlrank.options import OPTIONS, in_objects

from ..support import FORMULA, quiet

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
    with quiet():
        given = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": table}))
        called = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": lambda contexts, models: table}))
    np.testing.assert_array_equal(given.params, called.params)
    assert np.isfinite(given.bse).all()
    assert given.judge is not None

"""Wrong types and wrong values of every option are errors of ours, whatever they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.options import OPTIONS, in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
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


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=300, rng=0)


@pytest.mark.parametrize("name", [*OPTIONS, "cov_kwds"])
def test_every_option_refuses_what_it_cannot_use(name, battles):
    options = {"min_labels": 1, "graph": "complete", "propensity": "marginal", "n_folds": 2, "rng": 0}
    if name not in ("mu", "learner", "judge_as"):
        options["mu"] = np.full((300, 8, 8, 4), 0.25)
    for kind in [kind for kind in WRONG if (name, kind) not in ALLOWED]:
        with pytest.raises(dr.DmlrankError):
            dr.dml_rank(FORMULA, battles, **in_objects({**options, name: WRONG[kind]}))

"""Which values are the same: of models, contexts, clusters and groups; and names that collide."""

import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, JudgeError, NuisanceError, UnknownModelError
from dmlrank.options import in_objects

from ..support import two_of

FORMULA = "winner ~ 1 | model_a + model_b"
QUICK = {"rng": 0, "min_labels": 1}


def battles(n=600, seed=0):
    rng = np.random.default_rng(seed)
    a, b = two_of(rng, 3, n)
    names = np.array(["m0", "m1", "m2"], dtype=object)
    winner = rng.choice(["model_a", "model_b"], size=n, p=[0.6, 0.4])
    return pd.DataFrame({"winner": winner, "model_a": names[a], "model_b": names[b], "q": np.arange(n) // 6})


def mixed(values, n=600):
    return pd.Series([values[i // 6 % len(values)] for i in range(n)], dtype=object)


def test_a_column_named_context_is_that_column():
    data = battles().assign(context=lambda table: table["q"])
    fits = [
        dr.dml_rank(FORMULA, data, **in_objects({"cov_type": "cluster", "cov_kwds": {"groups": name}, **QUICK}))
        for name in ("q", "context")
    ]
    assert [fit.estimates.covariance.n_clusters for fit in fits] == [(100,), (100,)]
    pd.testing.assert_series_equal(fits[0].bse, fits[1].bse)
    found = dr.check(FORMULA, data, cov_kwds={"groups": "context"})
    assert found.clusters.loc["context", "clusters"] == 100


def fit_by_odd(data):
    formula = "winner ~ C(odd) | model_a + model_b"
    return dr.dml_rank(formula, data, **in_objects({"context": "q", "tune": None, "n_folds": 2, **QUICK})).by("odd")


def fit_odd_models(data):
    firsts, seconds = data["model_a"].replace("m0", data["odd"].iloc[0]), data["model_b"].replace("m0", "1")
    return dr.dml_rank(FORMULA, data.assign(model_a=firsts.astype(object), model_b=seconds), **in_objects(QUICK))


ROLES = {
    "context": lambda data: dr.dml_rank(FORMULA, data, **in_objects({"context": "odd", **QUICK})),
    "cluster": lambda data: dr.dml_rank(
        FORMULA, data, **in_objects({"cov_type": "cluster", "cov_kwds": {"groups": "odd"}, **QUICK})
    ),
    "model": fit_odd_models,
    "group": fit_by_odd,
}


@pytest.mark.parametrize("number", [1, 1.0, np.int64(1)])
@pytest.mark.parametrize("role", ROLES)
def test_a_number_and_its_text_are_refused_with_both_shown(role, number):
    data = battles().assign(odd=mixed([number, "1", "z", "y"]))
    with pytest.raises(DataError):
        ROLES[role](data)


def test_whole_numbers_among_texts_are_one_value_whatever_their_type():
    ids = [("x" if i > 500 else 7 if i % 2 else 7.0) if i > 300 else f"q{i}" for i in range(600)]
    data = battles().assign(q=pd.Series(ids, dtype=object))
    assert dr.dml_rank(FORMULA, data, **in_objects({"context": "q", **QUICK})).nobs == 303


@pytest.fixture(scope="module")
def colliding():
    code = np.random.default_rng(1).integers(3, size=100)
    data = battles()
    group = code[data["q"]]
    data["g1"] = np.array(["a, b", "a", "a"])[group]
    data["g2"] = np.array(["c", "b, c", "z"])[group]
    data["g3"] = np.array(["a: m0", "a", "b"])[group]
    formula = "winner ~ g1 * g2 + g3 | model_a + model_b"
    data["model_a"] = data["model_a"].replace("m1", "m0: m0")
    data["model_b"] = data["model_b"].replace("m1", "m0: m0")
    return dr.dml_rank(formula, data, **in_objects({"context": "q", "tune": None, "n_folds": 2, **QUICK}))


def test_groups_of_several_columns_have_names_of_their_own(colliding):
    groups = colliding.by("g1", "g2")
    assert groups.groups == ["a, 'b, c'", "a, z", "'a, b', c"]
    scores = groups.params.to_numpy()
    assert len({tuple(column) for column in scores.T}) == 3
    for place, values in enumerate([("a", "b, c"), ("a", "z"), ("a, b", "c")]):
        np.testing.assert_array_equal(groups[values].params, scores[:, place])
    with pytest.raises(UnknownModelError):
        groups["a, b, c"]


def test_names_of_scores_across_groups_are_different(colliding):
    groups = colliding.by("g3")
    assert len(set(groups.joint.names)) == 9
    # "a: m0: m0" would be a model of either group.
    test = groups.t_test("'a: m0': m0 - a: 'm0: m0'")
    expected = groups.params.loc["m0", "a: m0"] - groups.params.loc["m0: m0", "a"]
    assert test.effect[0] == pytest.approx(expected)


# Identifiers that a missing value made decimals, in what is matched with the data by them: examples of both sides and
# what to do, also where nothing is refused.
def test_identifiers_with_decimals_are_named_beside_those_of_the_data(ignore_warnings):
    votes = dr.datasets.simulate_arena(n=300, rng=0).assign(question_id=[str(n) for n in range(300)])
    decimals = votes.assign(question_id=votes["question_id"] + ".0")
    options = {"context": "question_id", "position_bias": False, "pairs": dr.Pairs(min_labels=1), "rng": 0}
    formula = "winner ~ 1 | model_a + model_b"
    res, other = (dr.dml_rank(formula, frame, **options) for frame in (votes, decimals))
    advice = r"such as '0', '1' beside '0\.0', '1\.0': a missing value .* read both as text"
    assert re.search(advice, dr.compare(a=res, b=other).samples)
    verdicts = decimals[["question_id", "model_a", "model_b", "winner"]].rename(columns={"winner": "verdict"})
    with pytest.raises(JudgeError, match=advice):
        dr.dml_rank(formula, votes, judge=verdicts, **options)
    with pytest.raises(NuisanceError, match=r"such as '0\.0', '1\.0' beside '0', '1': a missing value"):
        dr.dml_rank(formula, decimals, propensity=res.design(100), **options)

"""Names that a formula calls: variables of the caller, and columns, with the name of a function."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import FormulaError
from dmlrank.options import in_objects

QUICK = {"propensity": "marginal", "min_labels": 1, "tune": {"n_estimators": 2}, "rng": 0, "n_jobs": 1}


@pytest.mark.parametrize(
    ("features", "hidden"),
    [
        ("C(topic)", "C"),
        ("C(topic, Treatment('math'))", "Treatment"),
        ("I(length**2)", "I"),
        ("Q('length') + center(length)", "Q"),
        ("center(length)", "center"),
        ("standardize(length)", "standardize"),
        ("bs(length, df=4)", "bs"),
        ("text(topic, 1)", "text"),
        ("I(abs(length))", "abs"),
    ],
)
@pytest.mark.parametrize("value", [3.0, "a text", np.arange(3.0), None], ids=["number", "text", "array", "none"])
def test_a_variable_of_the_caller_does_not_hide_a_function(read, votes, features, hidden, value):
    expected = read(votes, features, context=["question"])
    data = read(votes, features, env={hidden: value}, context=["question"])
    np.testing.assert_array_equal(data.x, expected.x)
    assert data.feature_map.names == expected.feature_map.names


def test_a_variable_in_the_notebook_does_not_hide_a_function(many_votes):
    C = 3.0  # noqa: F841 - a name that the formula reads
    res = dr.dml_rank("winner ~ C(topic) + length | a + b", many_votes, **in_objects({"context": "question", **QUICK}))
    assert res.nobs == 60


def test_a_function_of_the_caller_goes_before_that_of_patsy(read, votes):
    data = read(votes, "center(length)", env={"center": lambda x: x - 1}, context=["question"])
    np.testing.assert_array_equal(data.x[:, 0], [2, 0, 1, 4, 3])


def test_an_array_with_the_name_of_a_function_is_still_a_feature(read, votes):
    array = votes["length"].to_numpy() * 2
    data = read(votes, "C(topic) + C", env={"C": array}, context=["question"])
    np.testing.assert_array_equal(data.x[:, -1], [6, 2, 4, 10, 8])


@pytest.mark.parametrize(
    ("features", "columns", "env", "fragments"),
    [
        ("C(C)", {"topic": "C"}, {}, ["C()", "column 'C'", "hides", "rename"]),
        ("double(length)", {}, {"double": 2.0}, ["'double'", "2.0", "env="]),
    ],
)
def test_a_function_that_is_hidden_is_named(read, votes, features, columns, env, fragments):
    with pytest.raises(FormulaError) as caught:
        read(votes.rename(columns=columns), features, env=env, context=["question"])
    assert all(fragment in str(caught.value) for fragment in fragments)


def test_a_column_may_have_the_name_of_its_transform(read, votes):
    data = read(votes.rename(columns={"length": "center"}), "center(center)", context=["question"])
    np.testing.assert_allclose(data.x[:, 0], np.array([3, 1, 2, 5, 4]) - 3.0)


@pytest.mark.parametrize("name", ["criteria_v0.1.length", "math_v0.1.math", "a.1b", "x v2.0"])
def test_a_name_that_is_not_python_is_quoted_as_it_was_written(name):
    battles = dr.datasets.simulate_arena(n=60, rng=0).rename(columns={"length": name})
    with pytest.raises(FormulaError) as error:
        dr.dml_rank(f"winner ~ {name} | model_a + model_b", battles)
    assert f"Q({name!r})" in str(error.value)

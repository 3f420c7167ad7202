"""A cached function is called again exactly where one of its arguments has changed, and sees nothing else."""

from __future__ import annotations

import ast
import pathlib
import warnings
from typing import NamedTuple

import numpy as np
import pytest

from dmlrank._utils import warning_collection
from dmlrank.fit import first_stages
from dmlrank.fit.cache import Cache

FIT = pathlib.Path(__file__).parents[3] / "dmlrank" / "fit"
ARRAY, OTHER = np.zeros(2), np.zeros(2)
calls: list[tuple] = []


class Record(NamedTuple):
    """Sources that belong together."""

    array: np.ndarray
    number: int


def called(first, second=None, *, named=None, extra_columns=None):
    calls.append((first, second, named))
    return [first, second, named]


def warn(number):
    warning_collection.warn(f"number {number}", stacklevel=2)
    warnings.warn("of someone else", UserWarning, stacklevel=2)
    return [number]


@pytest.fixture(autouse=True)
def nothing_called():
    calls.clear()


CHANGED = {
    "a number": ((1,), {}, (2,), {}),
    "a word": (("cv",), {}, ("random",), {}),
    "None": ((None,), {}, (0,), {}),
    "an array, equal or not": ((ARRAY,), {}, (OTHER,), {}),
    "a dictionary": (({"num_leaves": 4},), {}, ({"num_leaves": 5},), {}),
    "an entry of a record": ((Record(ARRAY, 1),), {}, (Record(ARRAY, 2),), {}),
    "an array in a record": ((Record(ARRAY, 1),), {}, (Record(OTHER, 1),), {}),
    "the length of a tuple": (((1, 2),), {}, ((1,),), {}),
    "one more argument": ((1,), {}, (1, None), {}),
    "an argument by name": ((1,), {"named": 1}, (1,), {"named": 2}),
    "whether it is named": ((1,), {}, (1,), {"named": None}),
}


@pytest.mark.parametrize(("before", "before_named", "after", "after_named"), CHANGED.values(), ids=CHANGED)
def test_a_changed_argument_is_never_answered_stale(before, before_named, after, after_named):
    first = Cache()
    old = first.call(called, *before, **before_named)
    assert Cache(first.results).call(called, *before, **before_named) is old
    assert len(calls) == 1
    new = Cache(first.results).call(called, *after, **after_named)
    assert len(calls) == 2
    assert new[0] is after[0]
    assert new[2] is after_named.get("named")


def test_equal_plain_values_are_the_same():
    first = Cache()
    old = first.call(called, {"num_leaves": 4}, Record(ARRAY, 1), named=("prompt", 0.5))
    assert Cache(first.results).call(called, {"num_leaves": 4}, Record(ARRAY, 1), named=("prompt", 0.5)) is old


def test_the_number_of_threads_is_no_source():
    first = Cache()
    old = first.call(called, 1, extra_columns=1)
    assert Cache(first.results).call(called, 1, extra_columns=4) is old


def test_a_function_has_a_place_in_every_slot():
    first = Cache()
    made = [first.slot(f"repetition {number}").call(called, number) for number in range(3)]
    again = Cache(first.results)
    assert [again.slot(f"repetition {number}").call(called, number) for number in range(3)] == made
    assert len(calls) == 3
    assert again.slot("repetition 1").call(called, 1) is made[1]


def test_what_was_not_asked_for_is_forgotten_unless_it_is_kept():
    first = Cache()
    first.call(called, 1)
    second = Cache(first.results)
    second.slot("another").call(called, 1)
    assert [len(made) for made in (second.results, second.all_results)] == [1, 2]


def test_own_warnings_are_given_again():
    first = Cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first.call(warn, 3)
    assert [str(w.message) for w in caught] == ["of someone else", "number 3"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Cache(first.results).call(warn, 3)
    assert [str(w.message) for w in caught] == ["number 3"]


def test_functions_that_see_more_than_their_arguments_are_refused():
    def inner():
        return ARRAY

    for function in (inner, lambda: 1):
        with pytest.raises(TypeError, match="may depend on more than its arguments"):
            Cache().call(function)


def test_every_step_of_a_fit_is_a_function_of_a_module():
    """No lambda, method or function within a function is passed to the cache anywhere in the room."""
    found = 0
    for path in FIT.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_module = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        of_module |= {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
        for node in ast.walk(tree):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call"
            if not is_call or path.stem == "cache":
                continue
            found += 1
            assert isinstance(node.args[0], ast.Name), f"{path.name}:{node.lineno}"
            assert node.args[0].id in of_module, f"{path.name}:{node.lineno}"
    assert found > 20


@pytest.mark.parametrize("repetition", [0, 1, 5])
def test_the_children_of_a_seed_are_those_of_a_spawned_sequence(repetition):
    spawned = np.random.SeedSequence([7, repetition] if repetition else 7).spawn(max(first_stages.Draw) + 1)
    seed = first_stages.RepetitionSeed(7, repetition)
    for draw in first_stages.Draw:
        assert (seed.child(draw).generate_state(4) == spawned[draw].generate_state(4)).all()


def replaced(value):
    return value


def test_steps_name_what_is_called_in_the_place_of_a_function():
    cache = Cache(steps={replaced: lambda value: -value, called: called})
    assert cache.call(replaced, 3) == -3
    # A later fit finds the result under the name of the function that was replaced.
    assert Cache(cache.results).call(replaced, 3) == -3


def test_a_function_that_is_not_among_the_steps_is_refused():
    cache = Cache(steps={called: called})
    with pytest.raises(LookupError, match=r"test_cache.replaced is no known step of an extension; say in fit/extended"):
        cache.slot("repetition 0").call(replaced, 3)

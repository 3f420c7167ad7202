"""RankResults and joint results are frozen and say what their tests return."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pathlib

import pytest
from statsmodels.stats.contrast import ContrastResults

import dmlrank as dr
from dmlrank.inference.wald import WaldTestResults, ZTestResults
from dmlrank.results.comparison import Comparison
from dmlrank.results.groups import GroupResults
from dmlrank.results.projection import Projection

JOINT = (GroupResults, Projection, Comparison)


@pytest.fixture(scope="module")
def fitted():
    battles = dr.datasets.simulate_arena(n=2000, rng=0)
    return dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)


@pytest.mark.parametrize("kind", [dr.RankResults, *JOINT])
def test_results_are_frozen_and_have_no_room_for_more(kind):
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.__dictoffset__ == 0
    tree = ast.parse(pathlib.Path(inspect.getsourcefile(kind)).read_text(encoding="utf-8"))
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    assert [ast.unparse(target) for target in stored] == []


# statsmodels has no annotations, so that these protocols describe what its results hold.
TYPES = {"t_test": ZTestResults, "wald_test": WaldTestResults}


@pytest.mark.parametrize("kind", [dr.RankResults, *JOINT])
@pytest.mark.parametrize("name", ["t_test", "wald_test"])
def test_tests_say_what_they_return(kind, name):
    assert inspect.signature(getattr(kind, name)).return_annotation == TYPES[name].__name__


@pytest.mark.parametrize("side", ["two-sided", "larger", "equivalence"])
def test_tests_return_what_they_say(fitted, side):
    groups = fitted.by("category")
    names = groups.groups[:2]
    across = " - ".join(f"{group}: gpt-4" for group in names)
    z_tests = [fitted.t_test("gpt-4 - claude-v1", delta=0.1, side=side), groups.t_test(across, delta=0.1, side=side)]
    wald_tests = [fitted.wald_test("gpt-4 = claude-v1 = koala-13b"), groups.wald_test(across)]
    for name, all_tests in (("t_test", z_tests), ("wald_test", wald_tests)):
        members = [member for member in vars(TYPES[name]) if not member.startswith("_")]
        assert len(members) >= 4
        for tests in all_tests:
            assert isinstance(tests, ContrastResults)
            assert all(hasattr(tests, member) for member in members)


def test_a_group_is_a_result_of_the_class_that_it_comes_from(fitted):
    class Own(dr.RankResults):
        """A user's own class."""

    whole = Own(fitted.estimates, fitted.steps)
    one = whole.by("category")["coding"]
    assert type(one) is Own
    assert one.steps is None
    assert one.estimates.part == "category = coding"


def test_warnings_of_small_groups_point_at_the_line_that_asks():
    battles = dr.datasets.simulate_arena(n=1500, rng=0)
    few = battles.index[battles["category"] == "coding"][20:]
    battles = battles.drop(index=few)
    result = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)
    with pytest.warns(dr.DmlrankWarning, match="fewer than 30 labelled prompts") as caught:
        result.by("category")
    assert {warning.filename for warning in caught} == {__file__}

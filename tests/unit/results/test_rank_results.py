"""RankResults and joint results are frozen and say what their tests return."""

import dataclasses

import pytest

import dmlrank as dr
from dmlrank.results.comparison import Comparison
from dmlrank.results.groups import GroupResults, Projection

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


def test_tests_have_the_names_of_statsmodels(fitted):
    tests, joint = fitted.t_test("gpt-4 - claude-v1"), fitted.wald_test("gpt-4 = claude-v1 = koala-13b")
    for name in ("effect", "sd", "statistic", "pvalue", "c_names", "conf_int", "summary", "summary_frame"):
        assert hasattr(tests, name)
    assert list(tests.summary_frame()) == ["coef", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp."]
    assert joint.df_denom == 2
    assert 0 <= joint.pvalue <= 1


def test_a_group_is_a_result_of_the_class_that_it_comes_from(fitted):
    class Own(dr.RankResults):
        """A user's own class."""

    whole = Own(fitted.estimates, fitted.steps)
    one = whole.by("category")["coding"]
    assert type(one) is Own
    assert one.steps is None
    assert one.estimates.part == "category = coding"


@pytest.mark.long
def test_warnings_of_small_groups_point_at_the_line_that_asks():
    battles = dr.datasets.simulate_arena(n=1500, rng=0)
    few = battles.index[battles["category"] == "coding"][20:]
    battles = battles.drop(index=few)
    result = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)
    with pytest.warns(dr.DmlrankWarning, match="fewer than 30 labelled prompts") as caught:
        result.by("category")
    assert {warning.filename for warning in caught} == {__file__}

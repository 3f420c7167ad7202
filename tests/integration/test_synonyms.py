"""Words of other programs and odd column names: taken, or answered with what stands for them here."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import DmlrankError, OptionError, OptionTypeError
from dmlrank.options import in_objects

LEAD = "winner ~ {} | model_a + model_b"


def message(formula, data, **options):
    with pytest.raises(DmlrankError) as caught:
        dr.check(formula, data, **in_objects({"min_labels": 1, **options}))
    return str(caught.value)


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (LEAD.format("my col"), "Q('my col')"),
        (LEAD.format("`my col`"), "Q('my col'), not in backticks"),
        ("winner ~ 1 | model.a + model_b", "Q('model.a')"),
        ("winner ~ 1 | `model.a` + model_b", "Q('model.a'), not in backticks"),
    ],
)
def test_odd_column_names_are_written_in_quotes(small_arena, formula, shown):
    odd = small_arena.assign(**{"prompt.len": small_arena["length"], "my col": 1.0, "model.a": small_arena["model_a"]})
    assert shown in message(formula, odd)
    read = dr.check("winner ~ Q('prompt.len') | Q('model.a') + model_b", odd, pairs=dr.Pairs(min_labels=1))
    assert read.counts.loc["prompts", "number"] == 300


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("log(length)", "write np.log(x)"),
        ("sqrt(length)", "write np.sqrt(x)"),
        ("as.factor(category)", "write C(x)"),
        ("poly(length, 2)", "write x + I(x**2)"),
        ("s(length)", "write bs(x, df=4)"),
        ("ns(length, 3)", "write cr(x, df=4)"),
        ("winsorise(length)", "pass env={'winsorise': function}"),
    ],
)
def test_functions_of_other_programs_have_an_equivalent_and_no_guess(small_arena, call, shown):
    told = message(LEAD.format(call), small_arena)
    assert shown in told
    assert "did you mean" not in told


def test_numpy_is_known_wherever_the_formula_is_written(small_arena):
    assert dr.check(LEAD.format("np.log(length + 1)"), small_arena, env={}).features.index == "np.log(length + 1)"


@pytest.mark.parametrize("name", ["HC0", "HC3", "nonrobust"])
def test_covariances_of_statsmodels_are_refused_with_those_that_there_are(small_arena, name):
    with pytest.raises(OptionError, match=f"{name}.*'robust', 'cluster'"):
        dr.dml_rank(LEAD.format("1"), small_arena, cov_type=name)


@pytest.mark.parametrize("kind", [lambda c: c, lambda c: c.to_numpy(), lambda c: c.to_frame()])
def test_values_in_place_of_a_column_are_refused_with_what_to_do(small_arena, kind):
    with pytest.raises(OptionTypeError):
        dr.dml_rank(
            LEAD.format("1"), small_arena, cov_type="cluster", cov_kwds={"groups": kind(small_arena["category"])}
        )
    with pytest.raises(OptionTypeError):
        dr.check(LEAD.format("1"), small_arena, context=kind(small_arena["question_id"]))


@pytest.mark.parametrize(("word", "own"), [("greater", "larger"), ("less", "smaller")])
def test_sides_have_scipys_words_too(arena_result, word, own):
    pairs = [arena_result.t_test_pairwise(side=side).result_frame for side in (word, own)]
    assert pairs[0].equals(pairs[1])
    tests = [arena_result.t_test(("gpt-4", "claude-v1"), side=side).pvalue for side in (word, own)]
    np.testing.assert_array_equal(*tests)

"""Questions that end rounds of labelling: how they are read, what a sequential view answers, what is refused."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.planning.rounds import read_until

NAMES = ["a", "b", "a > b", "c"]


@pytest.fixture(scope="module")
def res():
    battles = dr.datasets.Ties().sample(900, rng=1)
    return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", context="question_id", rng=0)


@pytest.fixture(scope="module")
def make_plan():
    ties = dr.datasets.Ties()
    mu = ties.mu(ties.features(300, rng=0))
    return lambda **options: dr.design(mu, "bt", budget=200, models=ties.models, **options)


@pytest.mark.parametrize(
    ("until", "pairs"),
    [
        ("a > b", (("a", "b"),)),
        ("a>c", (("a", "c"),)),
        (("a", "c"), (("a", "c"),)),
        ("a > b > c", (("a > b", "c"),)),
        (["a > c", ("b", "c")], (("a", "c"), ("b", "c"))),
        (None, ()),
    ],
)
def test_questions_are_read(until, pairs):
    assert read_until(until, NAMES) == pairs


@pytest.mark.parametrize(
    ("until", "error"),
    [
        ("a - b", dr.exceptions.OptionError),
        ("a > d", dr.exceptions.UnknownModelError),
        ("a > a", dr.exceptions.OptionError),
        ([], dr.exceptions.OptionError),
        (["a > b", ("b", "a")], dr.exceptions.OptionError),
        (3, dr.exceptions.OptionTypeError),
        ([("a", "b", "c")], dr.exceptions.OptionTypeError),
    ],
)
def test_other_questions_are_refused(until, error):
    with pytest.raises(error):
        read_until(until, NAMES)


def test_a_question_is_the_contrast_of_the_plan(make_plan):
    asked, named = make_plan(until="model_0 > model_2"), make_plan(contrasts=("model_0", "model_2"))
    np.testing.assert_array_equal(asked.propensity, named.propensity)
    all_scores = make_plan(until="model_0 > model_2", contrasts=["model_0 - model_1", "model_1 - model_2"])
    assert not np.allclose(all_scores.propensity, asked.propensity)
    assert "model_0 > model_2" in " ".join(str(asked.summary()).split())


def test_decisions_are_the_tests_of_the_view(res, make_plan):
    view = res.sequential(planned=2000)
    one = make_plan(until="model_1 > model_0").decide(view)
    test = view.t_test(("model_1", "model_0"))
    row = one.result_frame.iloc[0]
    np.testing.assert_allclose([row["conf_low"], row["conf_high"]], test.conf_int()[0], rtol=1e-12)
    assert row["p_value"] == pytest.approx(float(test.pvalue))
    pairs = [(first, second) for first in view.models for second in view.models if first < second]
    several = make_plan(until=pairs).decide(view)
    frame = view.t_test_pairwise().result_frame.set_index(["first", "second"])["p_adjusted"]
    expected = [frame.get(pair, frame.get(pair[::-1])) for pair in pairs]
    np.testing.assert_allclose(several.result_frame["p_value"], expected)
    decided = several.result_frame[several.result_frame["decided"]]
    assert len(decided)
    for answer, estimate, question in zip(decided["answer"], decided["estimate"], decided["question"], strict=True):
        assert (answer == question) == (estimate > 0)
    assert bool(several) == (len(decided) == len(pairs))
    text = " ".join(str(several).split())
    assert "at all looks from 500 prompts on" in text
    assert several.answers[0] in text


def test_a_question_is_decided_against_its_wording_too(res, make_plan):
    view = res.sequential(planned=2000)
    best, worst = view.params.idxmax(), view.params.idxmin()
    for question in ((best, worst), (worst, best)):
        decision = make_plan(until=[question]).decide(view)
        assert bool(decision)
        assert decision.answers == [f"{best} > {worst}"]


def test_a_decision_needs_a_question_and_a_sequential_view(res, make_plan):
    with pytest.raises(dr.exceptions.OptionError):
        make_plan(until="model_0 > model_1").decide(res)
    with pytest.raises(dr.exceptions.OptionError, match="no question"):
        make_plan().decide(res.sequential(planned=2000))

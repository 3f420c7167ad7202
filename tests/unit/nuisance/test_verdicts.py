"""Verdicts from every kind of source give the same arrays; verdicts that add nothing are refused with the reason."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.formula.features import caller_environment
from dmlrank.data.formula.parse import parse_formula
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.exceptions import ColumnError, DataError, DmlrankError, DmlrankWarning, JudgeError, OutcomeError
from dmlrank.nuisance.verdicts import read_verdicts
from dmlrank.options import Options, in_objects

FORMULA = "winner ~ x | model_a + model_b"
MODELS = ["m0", "m1", "m2"]


def battles(n=60, seed=0):
    """One battle per prompt, half of them voted on, all of them judged."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(MODELS, 2, replace=False) for _ in range(n)]
    labels = ["model_a", "model_b", "tie"]
    frame = pd.DataFrame(pairs, columns=["model_a", "model_b"])
    frame["question"] = [f"q{i}" for i in range(n)]
    frame["x"] = rng.normal(size=n)
    frame["winner"] = pd.Series(rng.choice(labels, n)).where(np.arange(n) % 2 == 0, None)
    frame["verdict"] = rng.choice(labels, n)
    return frame


def read(judge, frame, position_bias=True, context=("question",), categories=None):
    options = Options.of(in_objects({"context": context, "judge": judge}))
    rows = take_rows(FORMULA, frame, caller_environment(None, 0), options, optional=options.judge_columns)
    data = preferences_of(rows)
    data = data if position_bias else data.unordered()
    return read_verdicts(judge, data, parse_formula(FORMULA), context=context, categories=categories), data


def as_probabilities(labels):
    return np.stack([(labels == name).to_numpy(float) for name in ("model_a", "model_b", "tie")], axis=1)


@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.parametrize("kind", ["column", "probabilities", "frame", "frame of probabilities"])
def test_every_source_is_the_same_arrays(kind, position_bias):
    frame = battles()
    frame[["p_a", "p_b", "p_tie"]] = as_probabilities(frame["verdict"])
    long = frame[["question", "model_a", "model_b"]]
    judge = {
        "column": ("verdict",),
        "probabilities": ("p_a", "p_b", "p_tie"),
        "frame": long.assign(winner=frame["verdict"]).sample(frac=1.0, random_state=1),
        "frame of probabilities": long.join(frame[["p_tie", "p_b", "p_a"]]),
    }[kind]
    (expected, _), (got, _) = (read(one, frame, position_bias) for one in (("verdict",), judge))
    for name in ("context", "first", "second", "y", "flipped"):
        np.testing.assert_array_equal(getattr(got.cells, name), getattr(expected.cells, name))
    for name in ("features", "shares", "label"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    assert got.names == (("verdict",) if kind == "column" else ("judge",))
    assert not got.covers_all_pairs


def test_what_is_read_stands_where_it_was_said():
    frame = battles()
    verdicts, data = read(("verdict",), frame)
    assert len(verdicts.cells) == len(frame)
    assert int((~verdicts.labelled).sum()) == int(frame["winner"].isna().sum())
    for row in range(len(frame)):
        j, k = (MODELS.index(frame[column][row]) for column in ("model_a", "model_b"))
        assert (verdicts.cells.first[row], verdicts.cells.second[row]) == (j, k)
        assert verdicts.shares[0, row].tolist() == as_probabilities(frame["verdict"])[row].tolist()
    labels = data.cells
    assert (verdicts.cells.context[verdicts.label] == labels.context).all()
    assert (verdicts.cells.first[verdicts.label] == labels.first).all()


def test_without_order_a_verdict_is_flipped_with_its_pair_and_features_stay_as_shown():
    frame = battles()
    turned = frame.rename(columns={"model_a": "model_b", "model_b": "model_a"})
    other = {"model_a": "model_b", "model_b": "model_a"}
    turned = turned.assign(**{name: turned[name].replace(other) for name in ("winner", "verdict")})
    (one, _), (two, _) = read(("verdict",), frame, False), read(("verdict",), turned, False)
    np.testing.assert_array_equal(one.cells.y, two.cells.y)
    np.testing.assert_array_equal(one.cells.flipped, ~two.cells.flipped)
    np.testing.assert_array_equal(one.shares, two.shares[:, :, [1, 0, 2]])
    assert (one.cells.first < one.cells.second).all()


def test_a_pair_judged_in_both_orders_is_one_without_order_and_two_with_it():
    frame = battles()
    long = frame[["question", "model_a", "model_b"]].assign(winner="model_a")
    back = long.rename(columns={"model_a": "model_b", "model_b": "model_a"})
    frames = pd.concat([long, back.assign(winner=["model_b"] * 40 + ["model_a"] * 20)])
    verdicts, _ = read(frames, frame)
    assert len(verdicts.cells) == 120
    assert verdicts.both_orders.tolist() == [[60, 40]]
    merged, _ = read(frames, frame, False)
    assert len(merged.cells) == 60
    assert not merged.cells.flipped.any()
    wins = np.where(frame["model_a"] < frame["model_b"], 0, 1)
    assert (merged.cells.y[np.arange(40), wins[:40]] == 1).all()
    assert (merged.cells.y[40:, :2] == 0.5).all()


def test_several_judges_stand_side_by_side_and_silence_is_told():
    frame = battles()
    frame["other"] = frame["verdict"].where(np.arange(60) < 30, None)
    verdicts, _ = read(("verdict", "other"), frame)
    assert verdicts.names == ("verdict", "other")
    assert verdicts.features.shape == (60, 3 + 3 + 1)
    assert verdicts.features[:, -1].tolist() == [1.0] * 30 + [0.0] * 30
    assert np.isnan(verdicts.shares[1, 30:]).all()
    np.testing.assert_array_equal(verdicts.shares[0, :30], verdicts.shares[1, :30])


def test_soft_verdicts_become_centred_log_probabilities():
    frame = battles()
    soft = np.random.default_rng(1).dirichlet(np.ones(3), 60)
    frame[["p_a", "p_b", "p_tie"]] = soft
    verdicts, _ = read(("p_a", "p_b", "p_tie"), frame)
    logs = np.log(np.maximum(soft, 1e-3))
    np.testing.assert_allclose(verdicts.features, logs - logs.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(verdicts.cells.y, soft)


def test_kinds_of_ties_that_humans_do_not_have_are_spread():
    frame = battles()
    four = frame["winner"].replace("tie", "tie (bothbad)")
    four[four.eq("tie (bothbad)") & (np.arange(60) % 4 == 0)] = "tie"
    verdicts, data = read(("verdict",), frame.assign(winner=four))
    assert data.categories == ("first", "second", "both_good", "both_bad")
    tied = (frame["verdict"] == "tie").to_numpy()
    np.testing.assert_array_equal(verdicts.cells.y[tied], np.tile([0, 0, 0.5, 0.5], (tied.sum(), 1)))


@pytest.mark.parametrize(
    ("change", "judge", "error"),
    [
        (lambda f: f.assign(verdict=f["verdict"].where(f["winner"].notna(), None)), ("verdict",), JudgeError),
        (lambda f: f.assign(verdict=f["verdict"].where(f["winner"].isna(), None)), ("verdict",), JudgeError),
        (lambda f: f.assign(verdict=None), ("verdict",), JudgeError),
        (lambda f: f, ("verdit",), ColumnError),
        (lambda f: f.assign(verdict="good"), ("verdict",), OutcomeError),
        (lambda f: f, pd.DataFrame({"question": ["q0"], "model_a": ["m0"]}), ColumnError),
        (
            lambda f: f,
            pd.DataFrame({"question": ["z"], "model_a": ["m0"], "model_b": ["m1"], "winner": ["tie"]}),
            JudgeError,
        ),
        (
            lambda f: f,
            pd.DataFrame({"question": ["q0"], "model_a": ["m0"], "model_b": ["m0"], "winner": ["tie"]}),
            DataError,
        ),
        (lambda f: f, pd.DataFrame({"question": ["q0"], "model_a": ["m0"], "model_b": ["m1"]}), JudgeError),
        (
            lambda f: f,
            pd.DataFrame({"question": ["q0"], "model_a": ["m0"], "model_b": ["m1"], "say": ["tie"], "why": ["so"]}),
            JudgeError,
        ),
    ],
)
def test_refusals_say_why(change, judge, error):
    with pytest.raises(error) as caught:
        read(judge, change(battles()))
    assert isinstance(caught.value, DmlrankError)


def test_a_frame_needs_contexts_with_names():
    frame = battles()
    long = frame[["question", "model_a", "model_b"]].assign(winner=frame["verdict"])
    with pytest.raises(JudgeError, match="pass context="):
        read(long, frame, context=())


def test_verdicts_on_other_prompts_or_models_are_counted_where_they_are_left_out():
    frame = battles()
    long = frame[["question", "model_a", "model_b"]].assign(winner=frame["verdict"])
    others = pd.DataFrame(
        [("q60", "m0", "m1", "tie"), ("q1", "m0", "new", "tie"), ("q61", "m0", "m1", None)], columns=[*long.columns]
    )
    with pytest.warns(DmlrankWarning, match="^2 of 63 verdicts .* 'm0' with 'm1' in row 61$"):
        verdicts, _ = read(pd.concat([long, others]), frame)
    assert len(verdicts.cells) == 60

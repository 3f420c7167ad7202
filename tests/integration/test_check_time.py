"""check(time=): availability, votes by period and drift, found in data where they were put."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import ColumnError, DataError, OptionError
from tests.support import needs

FORMULA = "winner ~ C(category) + length | model_a + model_b"
MODELS = dr.datasets.Arena().models


def battles(n=6000, seed=0):
    """Twelve weeks of votes; one model retires before another one arrives."""
    frame = dr.datasets.simulate_arena(n=n, rng=seed)
    day = np.random.default_rng(seed + 100).uniform(0, 84, size=n)
    frame["tstamp"] = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(day, unit="D")
    with_old = (frame[["model_a", "model_b"]] == "dolly-v2-12b").any(axis=1)
    with_new = (frame[["model_a", "model_b"]] == "gpt-4").any(axis=1)
    return frame[~(with_old & (day > 30)) & ~(with_new & (day < 40))].reset_index(drop=True)


@pytest.fixture(scope="module")
def frame():
    return battles()


def inspect(frame, **options):
    return dr.check(FORMULA, frame, context="question_id", **({"time": "tstamp"} | options))


@pytest.fixture(scope="module")
def found(frame):
    return inspect(frame)


def test_availability_against_a_count_by_hand(frame, found):
    voted = frame[frame["winner"].notna()]
    table = found.time.models
    for model in found.models.index:
        times = voted.loc[(voted[["model_a", "model_b"]] == model).any(axis=1), "tstamp"]
        assert table.loc[model, "first"] == times.min().tz_localize(None)
        assert table.loc[model, "last"] == times.max().tz_localize(None)
        assert table.loc[model, "share_prompts"] == pytest.approx(
            frame["tstamp"].between(times.min(), times.max()).mean()
        )
        assert table.loc[model, "periods"] == times.dt.tz_localize(None).dt.to_period("W-SUN").nunique()
    assert len(found.time.pairs) == 28
    for pair in found.time.pairs.itertuples():
        start = table.loc[[pair.first, pair.second], "first"].max()
        end = table.loc[[pair.first, pair.second], "last"].min()
        assert pair.together == (start <= end)
        inside = frame["tstamp"].dt.tz_localize(None).between(start, end)
        assert pair.share_prompts == pytest.approx(inside.mean())
        both = {pair.first, pair.second}
        assert pair.votes == sum({a, b} == both for a, b in voted[["model_a", "model_b"]].to_numpy())
    assert found.time.never_together[["first", "second"]].to_numpy().tolist() == [["dolly-v2-12b", "gpt-4"]]


def test_what_follows_for_a_fit_is_said(found):
    text = " ".join(found.problems)
    assert "1 of 28 pairs were never available at the same time, by first and last vote: dolly-v2-12b - gpt-4" in text
    assert "The propensity of such a pair is zero for every prompt" in text
    assert "rest on extrapolation" in text
    assert "The prompts change" not in text
    assert "Votes change" not in text
    page = str(found)
    assert "Votes by week:" in page
    assert "12 weeks" in page


def test_votes_and_prompts_by_period(frame, found):
    week = frame["tstamp"].dt.tz_localize(None).dt.to_period("W-SUN")
    table = found.time.periods
    assert table["prompts"].tolist() == week.value_counts().sort_index().tolist()
    assert table["votes"].tolist() == week[frame["winner"].notna()].value_counts().sort_index().tolist()
    assert table.index[0] == "2024-01-01"
    by_month = inspect(frame, period="month").time
    assert by_month.periods.index.tolist() == ["2024-01", "2024-02", "2024-03"]
    assert by_month.periods["votes"].sum() == table["votes"].sum()


def test_empty_periods_are_shown(frame):
    gap = inspect(frame[~frame["tstamp"].between("2024-01-15", "2024-01-29")])
    assert gap.time.periods["votes"].iloc[2:4].tolist() == [0, 0]
    assert "none in 2 weeks" in str(gap)


def test_drift_of_prompts_is_found_where_it_is(frame):
    late = frame["tstamp"] > pd.Timestamp("2024-03-11", tz="UTC")
    moved = frame.assign(length=frame["length"] + 60 * late)
    drift = inspect(moved)
    tests = drift.time.prompts.set_index(["feature", "period"])
    assert set(tests.index[tests["p_adjusted"] < 0.01].get_level_values(0)) == {"length"}
    row = tests.loc["length", "2024-03-11"]
    length = moved["length"]
    expected = (
        length[late & (moved["tstamp"] < "2024-03-18")].mean()
        - length[~(late & (moved["tstamp"] < "2024-03-18"))].mean()
    )
    assert row["difference"] == pytest.approx(expected / length.std(ddof=0))
    assert any("The prompts change over time. Against the other weeks: length +" in text for text in drift.problems)
    assert drift.time.votes["p_adjusted"].min() > 0.05


@pytest.mark.long
def test_drift_of_votes_is_found_where_it_is(frame):
    worse = (frame["tstamp"] > pd.Timestamp("2024-03-04", tz="UTC")) & (np.arange(len(frame)) % 2 == 0)
    lost = frame.copy()
    lost.loc[worse & (frame["model_a"] == "palm-2"), "winner"] = "model_b"
    lost.loc[worse & (frame["model_b"] == "palm-2"), "winner"] = "model_a"
    tests = inspect(lost).time.votes
    found = tests[tests["p_adjusted"] < 0.05]
    assert found["model"].mode().tolist() == ["palm-2"]
    difference = tests[tests["model"] == "palm-2"].set_index("period")["difference"]
    assert (difference["2024-03-04":] < -0.1).all()
    assert (difference[:"2024-02-26"] > 0).all()
    assert any("Votes change over time." in text and "palm-2 -0." in text for text in inspect(lost).problems)
    # Where strong opponents come and go, shares of wins within pairs are the same.
    assert inspect(frame).time.votes["p_adjusted"].min() > 0.05


@pytest.mark.parametrize("kind", ["naive", "Tokyo", "seconds", "text", "shuffled", "sides"])
@pytest.mark.long
def test_other_forms_of_the_same_data(frame, found, kind):
    times = frame["tstamp"].dt.floor("us")
    other = frame.assign(tstamp=times)
    reference = inspect(other)
    if kind == "shuffled":
        other = other.sample(frac=1, random_state=0)
    elif kind == "sides":
        other = other.rename(columns={"model_a": "model_b", "model_b": "model_a"})
        other["winner"] = other["winner"].replace({"model_a": "model_b", "model_b": "model_a"})
    else:
        other["tstamp"] = {
            "naive": times.dt.tz_localize(None),
            "Tokyo": times.dt.tz_convert("Asia/Tokyo"),
            "seconds": (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta("1s"),
            "text": times.astype(str),
        }[kind]
    again = inspect(other)
    for name in ("periods", "models", "pairs", "prompts", "votes"):
        pd.testing.assert_frame_equal(getattr(again.time, name), getattr(reference.time, name))


@pytest.mark.long
def test_dependent_votes_make_p_values_larger(frame):
    user = np.random.default_rng(3).integers(400, size=len(frame))
    taste = np.random.default_rng(4).normal(size=400)
    opinionated = frame.assign(user=user, length=frame["length"] + 300 * taste[user])
    opinionated["tstamp"] = opinionated.groupby("user")["tstamp"].transform("min")
    alone, clustered = (inspect(opinionated, **given) for given in ({}, {"cov_kwds": {"groups": "user"}}))
    both = [c.time.prompts.query("feature == 'length'").set_index("period")["z"].abs() for c in (alone, clustered)]
    shared = both[0].index.intersection(both[1].index)
    assert (both[1][shared] < both[0][shared]).all()
    assert (alone.time.prompts["p_adjusted"] < 0.001).any()
    assert clustered.time.prompts["p_adjusted"].min() > 0.01


def test_formulas_without_features_and_short_data_say_that_nothing_is_tested(frame):
    plain = dr.check("winner ~ 1 | model_a + model_b", frame, context="question_id", time="tstamp")
    assert "not tested, because no feature has enough values" in str(plain)
    short = dr.check("winner ~ 1 | model_a + model_b", frame.head(60), time="tstamp", min_labels=1, period="week")
    assert short.time.votes.empty
    assert "not tested, because no model has enough values" in str(short)
    assert inspect(frame, time=None).time is None


def test_features_that_follow_the_time_are_no_drift(frame):
    day = (frame["tstamp"] - frame["tstamp"].min()) / pd.Timedelta("1D")
    dated = frame.assign(month=frame["tstamp"].dt.month, day=day)
    found = dr.check("winner ~ C(month) + day + length | model_a + model_b", dated, time="tstamp")
    assert found.time.time_features == ("C(month)[T.2]", "C(month)[T.3]", "day")
    assert set(found.time.prompts["feature"]) == {"length"}
    expected = "not tested, because they follow the time itself: C(month)[T.2], C(month)[T.3], day"
    assert expected in " ".join(str(found).split())


def test_benchmark_scores_have_times_too():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"task": np.repeat(np.arange(200), 3), "model": list("xyz") * 200, "score": rng.normal(size=600)}
    )
    table["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.repeat(np.arange(200) // 4, 3), unit="D")
    pairs = dr.pairs_from_scores(table, prompt="task", model="model", score="score")
    found = dr.check("winner ~ 1 | model_a + model_b", pairs, time="day")
    assert found.time.periods["votes"].sum() == 600
    assert found.time.pairs["share_prompts"].tolist() == [1, 1, 1]


def test_what_cannot_be_read_is_refused(frame):
    with pytest.raises(ColumnError, match="tstamp"):
        inspect(frame, time="tstmp")
    missing = frame.assign(tstamp=frame["tstamp"].mask(np.arange(len(frame)) == 7))
    with pytest.raises(DataError, match="tstamp"):
        inspect(missing)
    with pytest.raises(OptionError, match="fortnight"):
        inspect(frame, period="fortnight")
    with pytest.raises(OptionError, match="hour"):
        inspect(frame, period="hour")


@needs("jinja2")
@pytest.mark.long
def test_the_command_line_writes_what_the_check_finds(frame, found, tmp_path, capsys):
    frame.to_csv(tmp_path / "battles.csv", index=False)
    call = ["check", FORMULA, str(tmp_path / "battles.csv"), "--context", "question_id", "--time", "tstamp"]
    assert main([*call, "--out", str(tmp_path / "check.json"), "--report", str(tmp_path / "check.html")]) == 0
    assert "Votes by week:" in capsys.readouterr().out
    content = json.loads((tmp_path / "check.json").read_text())["time"]
    assert content["period"] == "week"
    assert [row["votes"] for row in content["periods"]] == found.time.periods["votes"].tolist()
    assert [row["period"] for row in content["periods"]] == found.time.periods.index.tolist()
    np.testing.assert_allclose([row["p_value"] for row in content["votes"]], found.time.votes["p_value"])
    assert content["models"][0]["first"].startswith("2024-01-01 ")
    assert [row["together_from"] for row in content["pairs"]].count(None) == 1
    page = (tmp_path / "check.html").read_text()
    assert "Votes by week" in page
    assert "Availability of models" in page
    assert main([*call, "--period", "month"]) == 0
    assert "Votes by month:" in capsys.readouterr().out
    assert main(["check", FORMULA, str(tmp_path / "battles.csv"), "--period", "month"]) == 1
    assert "time" in capsys.readouterr().err

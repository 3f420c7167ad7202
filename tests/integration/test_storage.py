"""What comes out of a file is what went in; what is no result is refused with a reason."""

import copy
import hashlib
import json
import math
import pathlib
import pickle
import threading
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, OptionTypeError, StorageError
from dmlrank.fit.json_format import FORMAT, SCHEMA, from_text, to_text

from ..styled import Styled
from ..support import needs

try:
    import resource
except ImportError:  # Windows has none
    resource = None

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
TREES = {"tune": {"n_estimators": 4, "num_leaves": 4}, "n_folds": 2}


@pytest.fixture(scope="module")
def frame(draw_battles):
    return draw_battles(np.random.default_rng(0), 240, 4, 4, repeats=True, unlabelled=12).frame


@pytest.fixture(scope="module")
def results(frame, rank):
    return rank(frame, FORMULA, **TREES)


KINDS = {
    "debiased": {},
    "bt": {"functional": "bt"},
    "clusters": {"cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "judge"]}},
    "rank centrality": {"functional": "rank_centrality"},
    "maximum likelihood": {"estimator": "bt_mle"},
    "contextual": {"estimator": "bt_contextual"},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def any_result(request, results, ignore_warnings):
    return results.update(**request.param)


def same(one, other):
    assert one.summary().as_text() == other.summary().as_text()
    assert one.tidy().equals(other.tidy())
    assert repr(one.diagnostics) == repr(other.diagnostics)
    assert one.cov_params().equals(other.cov_params())
    assert repr(one) == repr(other)
    np.testing.assert_array_equal(one.graph.edges, other.graph.edges)
    assert one.estimates.why_no_intervals == other.estimates.why_no_intervals
    if not one.estimates.has_intervals:
        return
    for method in ("max-t", "bonferroni", "none"):
        assert one.conf_int(0.2, method).equals(other.conf_int(0.2, method))
    assert one.t_test("m0 - m1").summary_frame().equals(other.t_test("m0 - m1").summary_frame())
    assert one.wald_test("m0 = m1 = m2").statistic == other.wald_test("m0 = m1 = m2").statistic
    assert one.ellipsoid(models=["m0", "m2"]).volume == other.ellipsoid(models=["m0", "m2"]).volume


# --- JSON ---------------------------------------------------------------------------------------------------------


def test_a_json_round_trip_says_the_same(any_result):
    read = dr.read_json(any_result.to_json())
    same(read, any_result)
    assert read.steps is None
    again = read.to_json()
    assert again == any_result.to_json()
    json.loads(again, parse_constant=pytest.fail)


def test_json_has_no_words_for_nan_but_this_has(results):
    estimates = results.update(estimator="bt_mle").estimates
    infinite = replace(estimates, diagnostics=replace(estimates.diagnostics, calibration=-math.inf))
    text = to_text(infinite)
    assert '"NaN"' in text
    assert '"-Infinity"' in text
    read = from_text(text)
    assert math.isnan(read.diagnostics.min_propensity)
    assert read.diagnostics.calibration == -math.inf


@pytest.mark.parametrize(
    "entries", [{"format": "other"}, {"schema": 99}, {"checksum": None}, {"estimates": None}, {"estimates": {}}]
)
def test_json_that_is_no_result(results, entries):
    with pytest.raises(StorageError):
        dr.read_json(json.dumps(json.loads(results.to_json()) | entries))


@pytest.mark.parametrize("entries", [{"unknown": 1}, {"alpha": "a word"}, {"models": 3}, {"estimate": {}}])
def test_another_content_with_a_checksum_of_its_own_is_refused(results, entries):
    with pytest.raises(StorageError, match="a newer version"):
        dr.read_json(with_checksum(json.loads(results.to_json())["estimates"] | entries))


def with_checksum(estimates):
    """A file with these entries, as another version of the package might write it."""
    checksum = hashlib.sha256(json.dumps(estimates, sort_keys=True).encode()).hexdigest()
    return json.dumps({"format": FORMAT, "schema": SCHEMA, "estimates": estimates, "checksum": checksum})


@pytest.mark.parametrize("kind", ["bt", "elo", "all looks", "judge", "style"])
def test_results_of_all_kinds_are_read_again(results, frame, rank, kind):
    styled = Styled().sample(300, rng=0)
    judged = frame.assign(verdict=frame["winner"], winner=frame["winner"].mask(np.arange(len(frame)) % 5 == 0))
    result = {
        "bt": lambda: results.update(functional="bt"),
        "elo": lambda: results.update(functional="bt").rescale("elo", mean=1000),
        "all looks": lambda: results.sequential(planned=1000, start=100),
        "judge": lambda: rank(judged, FORMULA, judge="verdict", **TREES),
        "style": lambda: dr.dml_rank("winner ~ 1 | model_a + model_b", styled, adjust="~ log_length", rng=0),
    }[kind]()
    assert dr.read_json(result.to_json()).to_json() == result.to_json()


def test_a_file_that_was_changed_is_refused(results):
    content = json.loads(results.to_json())
    again = json.dumps(dict(reversed(content.items())), indent=3, ensure_ascii=True)
    assert dr.read_json(again).to_json() == results.to_json()
    content["estimates"]["estimate"][0] += 1e-9
    with pytest.raises(StorageError, match="checksum"):
        dr.read_json(json.dumps(content))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"format": NaN',
        "{" * 3000,
        '{"a":' * 200_000,
        '{"a": 1' + "0" * 5000 + "}",
        '{"a": ' + "[" * 200_000,
    ],
    ids=["brace", "empty", "open", "braces", "deep", "digits", "brackets"],
)
def test_garbage_is_refused(text):
    with pytest.raises(StorageError):
        dr.read_json(text)


def test_what_is_neither_a_path_nor_a_text_is_refused(results):
    for other in (None, 3, b"{}"):
        with pytest.raises(OptionTypeError):
            dr.read_json(other)
    with pytest.raises(StorageError):
        dr.read_json("a\0b")
    text = results.to_json()
    assert from_text(text, max_characters=len(text)).models == tuple(results.models)
    with pytest.raises(StorageError):
        from_text(text, max_characters=len(text) - 1)


@pytest.fixture
def trained(monkeypatch):
    """Counts trainings of boosters, not LightGBM's trial of the caller's parameters on a few rows."""
    calls = []
    for name in ("train", "cv"):
        kept = getattr(lgb, name)
        monkeypatch.setattr(lgb, name, lambda *a, kept=kept, **k: calls.append(1) or kept(*a, **k))
    return calls


def answers_the_same(loaded, result, newdata):
    same(loaded, result)
    np.testing.assert_array_equal(loaded.influence, result.influence)
    assert loaded.predict().equals(result.predict())
    assert loaded.predict(newdata).equals(result.predict(newdata))
    assert loaded.win_probability("m0", "m1") == result.win_probability("m0", "m1")


# --- copies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_keep_data_and_learners(results, copied, frame, trained):
    again = copied(results)
    assert again is not results
    answers_the_same(again, results, frame.head(5))
    same(again.update(functional="bt"), results.update(functional="bt"))
    pair = copied(dr.compare(one=results, other=results.update(functional="bt")))
    assert pair.results[0].predict().equals(results.predict())
    assert not trained
    plan = copied(results.design(40))
    assert plan.at(frame.drop_duplicates("prompt").head(3)).shape == (3, 4, 4)


@needs("sklearn")
def test_a_pickle_leaves_out_data_and_learners_and_answers_as_json_does(frame, rank, ignore_warnings):
    from sklearn.naive_bayes import GaussianNB

    lock = threading.Lock()  # cannot be pickled
    environment = {"doubled": lambda column: 2 * column, "lock": lock}
    result = rank(frame, "winner ~ doubled(x0) | model_a + model_b", learner=GaussianNB(), env=environment)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    same(again, result)
    assert again.steps is None
    assert again.to_json() == result.to_json()
    assert dir(again) == dir(dr.read_json(result.to_json()))
    for name in ("update", "influence", "predict", "by", "design"):
        for stored in (again, dr.read_json(result.to_json())):
            with pytest.raises(DataNotStoredError, match="was stored without them; fit again"):
                getattr(stored, name)
    with pytest.raises(DataNotStoredError):
        again.win_probability("m0", "m1")


def test_pickles_of_views_and_comparisons(results):
    bootstrap = results.bootstrap("gaussian")
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(bootstrap)).conf_int(), bootstrap.conf_int())
    looks = results.sequential(planned=1000, start=100)
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(looks)).conf_int(), looks.conf_int())
    pair = pickle.loads(pickle.dumps(dr.compare(one=results, other=results.update(functional="bt"))))
    assert pair.results[0].params.equals(results.params)


# --- a write that fails -------------------------------------------------------------------------------------------


def test_files_that_cannot_be_written(results, tmp_path):
    with pytest.raises(StorageError):
        results.to_json(tmp_path / "none" / "file")
    with pytest.raises(OSError, match="is a folder; give the name of a file"):
        results.to_json(tmp_path)


def test_files_that_are_not_there_or_no_text(tmp_path):
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "nowhere.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "bytes.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "list.json")


STORED = pathlib.Path(__file__).parents[1] / "stored_results"
FILES = sorted(path for path in STORED.glob("*/*.json") if path.name != "expected.json")


def test_there_are_stored_results():
    assert len(FILES) >= 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_results_of_earlier_releases_say_what_they_said(path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    result = dr.read_json(path)
    intervals = result.conf_int()
    assert list(result.params.index) == expected["models"]
    np.testing.assert_array_equal(result.params, expected["params"])
    np.testing.assert_allclose(result.bse, expected["bse"], rtol=1e-12)
    # Critical values come from draws of the normal distribution, whose last bits depend on the linear algebra.
    np.testing.assert_allclose(intervals["lower"], expected["lower"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(intervals["upper"], expected["upper"], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(result.ranks().result_frame[["lower", "upper"]], expected["rank_sets"])
    assert "95" in result.summary().as_text()


def test_a_result_says_by_which_version_it_was_made():
    """The version of the code that runs, whatever version of the package is installed elsewhere."""
    battles = dr.datasets.simulate_arena(n=300, rng=0)
    res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, estimator="bt_mle", context="question_id", rng=0)
    assert res.estimates.description.version == dr.__version__
    assert dr.read_json(res.to_json()).estimates.description.version == dr.__version__


def test_entries_that_later_versions_add_have_a_default():
    """A file of an earlier release lacks entries that were added later; one entry less is read as its default."""
    path = STORED / "0.1.0" / "bt.json"
    estimates = json.loads(path.read_text(encoding="utf-8"))["estimates"]
    assert estimates.pop("sequence", "missing") is None
    assert dr.read_json(with_checksum(estimates)).params.equals(dr.read_json(path).params)

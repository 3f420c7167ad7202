"""What comes out of a file is what went in; what is no result is refused with a reason."""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import zlib
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import patsy
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, OptionTypeError, StorageError
from dmlrank.storage import pickled_fit
from dmlrank.storage.json_format import from_text, to_text

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
    assert one.glance().equals(other.glance())
    assert one.cov_params().equals(other.cov_params())
    assert repr(one) == repr(other)
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


def test_json_of_a_view_in_elo(results):
    elo = results.update(functional="bt").rescale("elo", anchor={"m1": 1000})
    read = dr.read_json(elo.to_json())
    same(read, elo)
    np.testing.assert_allclose(read.rescale("log-odds").params, results.update(functional="bt").params, atol=1e-12)


def test_json_files(results, tmp_path):
    path = tmp_path / "result.json"
    assert results.to_json(path) is None
    same(dr.read_json(path), results)
    same(dr.read_json(str(path)), results)


def test_floats_come_back_to_the_last_bit(results):
    e = results.estimates
    read = from_text(to_text(e))
    for one, other in (
        (read.estimate, e.estimate),
        (read.covariance.matrix, e.covariance.matrix),
        (read.covariance.basis, e.covariance.basis),
    ):
        assert one.tobytes() == np.ascontiguousarray(other).tobytes()
    assert read.diagnostics == e.diagnostics
    assert read.description == e.description


def test_names_of_any_kind(frame, rank):
    odd = frame.replace({"m0": 'quo"te\\', "m1": "ünïcode ☃", "m2": "line\nbreak"})
    result = rank(odd, "winner ~ 1 | model_a + model_b")
    assert dr.read_json(result.to_json()).models == result.models


def test_json_has_no_words_for_nan_but_this_has(results):
    text = to_text(results.update(estimator="bt_mle").estimates)
    assert '"NaN"' in text
    assert math.isnan(from_text(text).diagnostics.min_propensity)
    infinite = from_text(changed(text, estimates__diagnostics__calibration="-Infinity"))
    assert infinite.diagnostics.calibration == -math.inf
    assert '"-Infinity"' in to_text(infinite)


def changed(text, **entries):
    content = json.loads(text)
    # A file of an earlier version has no checksum.
    content.pop("checksum", None)
    for path, value in entries.items():
        *parents, name = path.split("__")
        place = content
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[name]
        else:
            place[name] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "entries",
    [
        {"format": "other"},
        {"schema": 99},
        {"estimates": []},
        {"estimates__estimate": None},
        {"estimates__estimat": 1},
        {"estimates__alpha": "0.05"},
        {"estimates__alpha": 2.0},
        {"estimates__critical": "NaN"},
        {"estimates__models": ["a", "b"]},
        {"estimates__models": ["a", "a", "b", "c"]},
        {"estimates__models": [1, 2, 3, 4]},
        {"estimates__estimate": [1, 2, True, 3]},
        {"estimates__fixed": [0, 0, 0, 0]},
        {"estimates__covariance__matrix": [[1, 2], [3]]},
        {"estimates__covariance__matrix": [[-1, 0, 0, 0]] * 4},
        {"estimates__covariance__basis": [[1.0]]},
        {"estimates__description__seed": 1.5},
        {"estimates__description__tie_weights": [["tie", 0.5]]},
        {"estimates__graph": 3},
        {"estimates__alpha": 10**400},
        {"estimates__critical": "Infinity"},
        {"estimates__neutral": "NaN"},
        {"estimates__scale__factor": -1.0},
        {"estimates__scale__anchor": ["m9", 0.0]},
        {"estimates__plugin": ["Infinity", 0, 0, 0]},
        {"estimates__estimate": [[[0.5]], [[0.5]]]},
        {"estimates__description__n_votes": -1},
        {"estimates__description__n_votes": 10**30},
        {"estimates__description__n_contexts": 0},
        {"estimates__description__cov_type": "robst"},
        {"estimates__diagnostics__mu_floored": -3},
        {"estimates__covariance__n_clusters": [4]},
        {"estimates__covariance__basis": [[1.0], [1.0], [0.0], [0.0]]},
        {"estimates__covariance__matrix": (np.eye(4) + np.eye(4, k=1)).tolist()},
        {"estimates__covariance__matrix": (np.ones((4, 4)) - np.eye(4)).tolist()},
        {"estimates__covariance__matrix": np.diag([1, 1, 1, -1e-6]).tolist()},
        {"estimates__graph__edges": np.triu(np.ones((4, 4), bool), 1).tolist()},
        {"estimates__graph__edges": np.ones((4, 4), bool).tolist()},
        {"estimates__alpha": 0.5},
        {"estimates__critical": 99.0},
        {"estimates__description__n_votes": 10**6},
        {"estimates__description__n_unlabelled": 10**6},
        {"estimates__description__n_folds": 0},
        {"estimates__description__n_rep": 0},
        {"estimates__diagnostics__min_propensity": -1.0},
        {"estimates__diagnostics__min_propensity": "-Infinity"},
        {"estimates__diagnostics__effective_share": 2.0},
        {"estimates__diagnostics__log_loss": -1.0},
        {"estimates__diagnostics__floor": 0.7},
        {"estimates__shares": [1e308] * 4},
        {"estimates__estimate": [0.5, 0.5, 0.5, 1.5]},
        {"estimates__scale": {"name": "elo", "factor": 174.7}},
        {"estimates__scale": {"name": "2 times", "factor": 3.0}},
        {"estimates__scale__factor": 2.0},
        {"estimates__covariance__matrix": np.full((4, 4), 1e308).tolist()},
        {"estimates__covariance__matrix": (np.eye(4) * 1.7e308).tolist()},
    ],
)
def test_json_that_is_no_result(results, entries):
    with pytest.raises(StorageError):
        dr.read_json(changed(results.to_json(), **entries))


@pytest.mark.parametrize("kind", [None, "bt", "elo", "all looks", "judge", "style"])
def test_what_a_fit_gives_is_in_the_ranges(results, frame, rank, kind):
    styled = dr.datasets.simulate_styled(n=300, rng=0)
    judged = frame.assign(verdict=frame["winner"], winner=frame["winner"].mask(np.arange(len(frame)) % 5 == 0))
    result = {
        None: lambda: results,
        "bt": lambda: results.update(functional="bt"),
        "elo": lambda: results.update(functional="bt").rescale("elo", mean=1000),
        "all looks": lambda: results.sequential(planned=1000, start=100),
        "judge": lambda: rank(judged, FORMULA, judge="verdict", **TREES),
        "style": lambda: dr.dml_rank("winner ~ 1 | model_a + model_b", styled, adjust="~ log_length", rng=0),
    }[kind]()
    text = result.to_json()
    assert from_text(changed(text)).estimate.tobytes() == from_text(text).estimate.tobytes()
    wrong = {
        "judge": {"judge__agreement": [[2.0, 0.5]]},
        "style": {"style__log_loss": -1.0, "functional": "rank_centrality"},
    }
    for entry, value in wrong.get(kind, {"critical": 1.9}).items():
        with pytest.raises(StorageError, match=entry.replace("__", ".")):
            from_text(changed(text, **{f"estimates__{entry}": value}))


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


ODD = [None, True, -1, 0, 1.5, 10**30, 10**400, "NaN", "Infinity", "x", [], {}, [[]], [[[1]]], [1, 2]]


def entries_of(content, path=()):
    yield path
    if isinstance(content, dict):
        for name, entry in content.items():
            yield from entries_of(entry, (*path, name))
    elif isinstance(content, list) and content:
        yield from entries_of(content[0], (*path, 0))


def with_entry(text, path, value):
    place = content = json.loads(changed(text))
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return json.dumps(content)


@pytest.mark.long
def test_any_entry_of_any_kind_is_refused_or_answers(results, ignore_warnings):
    text = results.update(functional="bt").rescale("elo", anchor={"m1": 1000}).to_json()
    paths = [path for path in entries_of(json.loads(text)) if path]
    for number, path in enumerate(paths):
        for value in ODD[number % 6 :: 6]:
            try:
                read = dr.read_json(with_entry(text, path, value))
            except StorageError:
                continue
            assert read.summary().as_text()
            assert dr.read_json(read.to_json()).to_json() == read.to_json()


def test_variances_that_are_rounding_noise_come_back(rank, ignore_warnings):
    rng = np.random.default_rng(0)
    a = rng.integers(3, size=60)
    b = (a + rng.integers(1, 3, size=60)) % 3
    data = pd.DataFrame({"winner": 0.5, "model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b]})
    options = {"position_bias": False, "min_labels": 1, "propensity": "marginal", "graph": "complete"}
    result = dr.dml_rank(
        "winner ~ 1 | model_a + model_b", data, functional="rank_centrality", rng=0, n_jobs=1, **options
    )
    assert dr.read_json(result.to_json()).cov_params().equals(result.cov_params())


def test_half_of_a_surrogate_pair_in_a_name(results, tmp_path):
    odd = replace(results, estimates=replace(results.estimates, models=("half \ud800", "m1", "m2", "m3")))
    odd.to_json(tmp_path / "half.json")
    # No fit has such a name, and pandas has no index of it.
    with pytest.raises(StorageError, match="models"):
        dr.read_json(tmp_path / "half.json")
    with pytest.raises(dr.exceptions.OptionError, match="Unicode"):
        dr.compare(**{"half \ud800": results, "other": results})


def test_bytes_are_no_path(results):
    readers = (dr.load, dr.read_json, dr.read_log, dr.datasets.read_chatbot_arena)
    for call in (results.to_json, results.save, results.design(40).export, *readers):
        with pytest.raises(OptionTypeError):
            call(b"file.json")


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


def test_a_deep_copy_has_numbers_of_its_own(results):
    again = copy.deepcopy(results)
    assert not np.shares_memory(again.estimates.estimate, results.estimates.estimate)
    assert again.steps is results.steps


# --- a write that fails -------------------------------------------------------------------------------------------


def fails_to_write(write, path):
    """What stands at a path after a write in a process whose files may have no more than 1,000 bytes."""
    before = path.read_bytes()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            try:
                write(path)
            except dr.exceptions.FileWriteError as error:
                os._exit(0 if "cannot be written: File too large" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return path.read_bytes() == before and list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(resource is None, reason="limits of a process are Unix's")
@pytest.mark.parametrize("how", ["json", "save", "data", "export.csv", "export.json"])
def test_a_full_disk_leaves_the_old_file(results, tmp_path, how):
    plan = results.design(40)
    writes = {
        "json": results.to_json,
        "save": results.save,
        "data": lambda path: results.save(path, with_data=True),
        "export.csv": lambda path: plan.export(path, rng=0),
        "export.json": lambda path: plan.export(path, rng=0),
    }
    path = tmp_path / f"old{pathlib.Path(how).suffix}"
    writes[how](path)
    assert fails_to_write(writes[how], path)


def test_files_that_cannot_be_written(results, tmp_path):
    for write in (results.to_json, results.save):
        with pytest.raises(StorageError):
            write(tmp_path / "none" / "file")
        with pytest.raises(OSError, match="is a folder; give the name of a file"):
            write(tmp_path)


def test_files_that_are_not_there_or_no_text(tmp_path):
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "nowhere.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "bytes.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(StorageError):
        dr.read_json(tmp_path / "list.json")


# --- with data ----------------------------------------------------------------------------------------------------


@pytest.fixture
def trained(monkeypatch):
    """Counts trainings of boosters, not LightGBM's trial of the caller's parameters on a few rows."""
    calls = []
    for name in ("train", "cv"):
        kept = getattr(lgb, name)
        monkeypatch.setattr(lgb, name, lambda *a, kept=kept, **k: calls.append(1) or kept(*a, **k))
    return calls


def stored(result, path):
    result.save(path, with_data=True)
    return dr.load(path)


def answers_the_same(loaded, result, newdata):
    same(loaded, result)
    np.testing.assert_array_equal(loaded.influence, result.influence)
    assert loaded.augment().equals(result.augment())
    assert loaded.predict().equals(result.predict())
    assert loaded.predict(newdata).equals(result.predict(newdata))
    assert loaded.win_probability("m0", "m1") == result.win_probability("m0", "m1")


def test_with_data_everything_is_answered(any_result, frame, tmp_path, trained):
    loaded = stored(any_result, tmp_path / "all")
    answers_the_same(loaded, any_result, frame.head(30))
    assert not trained


@pytest.mark.parametrize(
    "changes",
    [
        {"functional": "bt"},
        {"functional": "rank_centrality", "floor": 0.02},
        {"estimator": "plugin"},
        {"estimator": "bt_mle"},
        {"alpha": 0.2},
    ],
    ids=lambda changes: next(iter(changes.values())),
)
def test_updates_after_loading_train_nothing(results, tmp_path, trained, changes):
    loaded = stored(results, tmp_path / "all")
    same(loaded.update(**changes), results.update(**changes))
    assert not trained


def test_updates_after_loading_can_train_and_name_any_column(results, tmp_path, trained, ignore_warnings):
    changes = {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}, "rng": 5}
    same(stored(results, tmp_path / "all").update(**changes), results.update(**changes))
    assert trained


def test_update_then_store_then_update(results, tmp_path, trained):
    made = stored(results.update(functional="bt"), tmp_path / "bt")
    same(stored(made, tmp_path / "again").update(functional="borda"), results)
    assert not trained


def test_without_data_the_file_is_small(results, tmp_path):
    results.save(tmp_path / "small")
    results.save(tmp_path / "large", with_data=True)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "large").stat().st_size / 5
    with pytest.raises(DataNotStoredError):
        dr.load(tmp_path / "small").save(tmp_path / "other", with_data=True)


def test_stateful_transforms_texts_and_categories(rank, tmp_path, frame):
    words = np.random.default_rng(0).choice(
        ["write", "read", "sort", "list", "poem", "code", "maths", "proof"], size=(240, 5)
    )
    by_prompt = {name: " ".join(row) for name, row in zip(frame["prompt"].unique(), words, strict=True)}
    data = frame.assign(prompt_text=frame["prompt"].map(by_prompt))
    formula = "winner ~ text(prompt_text, 3) + bs(x0, df=4) + C(topic) + center(x1) | model_a + model_b"
    result = rank(data, formula, **TREES)
    answers_the_same(stored(result, tmp_path / "all"), result, data.iloc[50:60])


def test_modules_arrays_and_vectors_of_the_caller(frame, rank, tmp_path):
    numbers = frame["x0"].to_numpy() ** 2
    data = frame.assign(embedding=[list(pair) for pair in frame[["x0", "x1"]].to_numpy()])
    result = rank(
        data,
        "winner ~ np.exp(x0) + numbers + embedding | model_a + model_b",
        **TREES,
        env={"np": np, "numbers": numbers},
    )
    loaded = stored(result, tmp_path / "all")
    same(loaded, result)
    same(loaded.update(functional="bt"), result.update(functional="bt"))


@pytest.mark.long
def test_missing_values_and_dropped_models(frame, rank, tmp_path):
    data = frame.copy()
    data.loc[data["prompt"] == "q003", "x0"] = np.nan
    kept = rank(data, FORMULA, missing="keep", **TREES)
    same(stored(kept, tmp_path / "kept"), kept)
    dropped = rank(data, FORMULA, missing="drop", **TREES)
    same(stored(dropped, tmp_path / "dropped").update(functional="bt"), dropped.update(functional="bt"))
    few = data.assign(model_a=data["model_a"].where(data.index != data.index[data["winner"].notna()][0], "rare"))
    fewer = rank(few, "winner ~ 1 | model_a + model_b", min_labels=3, component="largest")
    assert fewer.diagnostics.models_dropped == ("rare",)
    same(stored(fewer, tmp_path / "fewer").update(functional="bt"), fewer.update(functional="bt"))


def test_polars_frames_come_back_as_pandas(frame, rank, tmp_path):
    polars = pytest.importorskip("polars")
    result = rank(polars.from_pandas(frame), FORMULA, **TREES)
    same(stored(result, tmp_path / "all").update(functional="bt"), result.update(functional="bt"))


def test_what_cannot_be_stored_is_named(frame, rank, tmp_path):
    def doubled(column):
        return 2 * column

    path = tmp_path / "all"
    for name, function in (("doubled", doubled), ("halved", lambda column: column / 2)):
        result = rank(frame, f"winner ~ {name}(x0) | model_a + model_b", **TREES, env={name: function})
        with pytest.raises(StorageError, match=name):
            result.save(path, with_data=True)
        assert not path.exists()
        result.save(path)
        path.unlink()


@pytest.mark.long
def test_functions_of_an_imported_module_are_found_by_another_process(tmp_path, monkeypatch, ignore_warnings):
    module, path = tmp_path / "own_features.py", tmp_path / "stored"
    module.write_text("import patsy\n\ndef doubled(column):\n    return 2 * column\n")
    monkeypatch.syspath_prepend(tmp_path)
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    doubled = importlib.import_module("own_features").doubled
    formula, options = "winner ~ doubled(length) + center(length) | model_a + model_b", {"tune": {"n_estimators": 3}}
    res = dr.dml_rank(formula, battles, context="question_id", min_labels=1, rng=0, env={"doubled": doubled}, **options)
    res.save(path, with_data=True)
    again = "import sys, dmlrank as dr; print(dr.load(sys.argv[1]).update(functional='bt').to_json())"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{dr.__file__.rsplit('/', 2)[0]}", "PATH": ""}
    loaded = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", again, str(path)],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    # Another process has its arrays elsewhere in memory, which may change the last bit of a sum.
    read, here = dr.read_json(loaded.stdout), res.update(functional="bt")
    np.testing.assert_allclose(read.params, here.params, rtol=1e-12)
    np.testing.assert_allclose(read.cov_params(), here.cov_params(), rtol=1e-10)
    module.write_text("def doubled(column):\n    return 3 * column\n")
    monkeypatch.delitem(sys.modules, "own_features")
    importlib.invalidate_caches()
    with pytest.raises(StorageError, match="differ"):
        dr.load(path).update(functional="bt")
    module.unlink()
    monkeypatch.delitem(sys.modules, "own_features")
    importlib.invalidate_caches()
    with pytest.raises(StorageError, match="own_features"):
        dr.load(path).update(functional="bt")


class Scaled:
    """A stateful transform of the caller's own."""

    def __init__(self):
        self.top = 0.0

    def memorize_chunk(self, column):
        self.top = max(self.top, float(np.abs(column).max()))

    def memorize_finish(self):
        pass

    def transform(self, column):
        return np.asarray(column) / self.top


def test_stateful_transforms_of_the_caller(frame, rank, tmp_path):
    scaled = patsy.stateful_transform(Scaled)
    result = rank(frame, "winner ~ scaled(x0) | model_a + model_b", **TREES, env={"scaled": scaled})
    answers_the_same(stored(result, tmp_path / "all"), result, frame.head(7))


def test_files_that_were_not_written_by_save(tmp_path):
    path = tmp_path / "other"
    for content in (b"", b"not a pickle", pickle.dumps(pd.DataFrame({"a": [1]})), b"\x80\x04"):
        path.write_bytes(content)
        with pytest.raises(StorageError):
            dr.load(path)


class NewerFormat:
    """Pickled as a later version of the package may write a fit with its data."""

    def __reduce__(self):
        return pickled_fit.revive, (1_000, b"", b"")


def test_another_format_is_refused(tmp_path):
    (tmp_path / "new").write_bytes(pickle.dumps(NewerFormat()))
    with pytest.raises(StorageError, match="format 1000"):
        dr.load(tmp_path / "new")


@needs("sklearn")
def test_a_result_with_a_classifier_of_ones_own_is_stored_with_its_data(tmp_path):
    from sklearn.linear_model import LogisticRegression

    battles = dr.datasets.simulate_ties(1000, rng=0)
    fit = dr.dml_rank(
        "winner ~ x0 | model_a + model_b",
        battles,
        context="question_id",
        propensity="propensity",
        learner=LogisticRegression(),
        rng=0,
    )
    fit.save(tmp_path / "own", with_data=True)
    again = dr.load(tmp_path / "own").update(edge_weights="counts")
    np.testing.assert_array_equal(again.params, fit.update(edge_weights="counts").params)


def test_large_arrays_are_stored_once_and_packed(draw_battles, rank, tmp_path):
    """The scores and the win shares have the same influence values, which are the bulk of a fit's steps."""
    frame = draw_battles(np.random.default_rng(1), 900, 4, 4).frame
    result = rank(frame, FORMULA, **TREES)
    result.save(tmp_path / "fit.pkl", with_data=True)
    influence = result.steps.influence
    one = influence.value.nbytes + influence.correction.nbytes
    assert (tmp_path / "fit.pkl").stat().st_size < 5 * one
    stored = pickled_fit.store_steps(result.steps)
    _, arrays = pickle.loads(zlib.decompress(stored.arguments[2]))
    assert sum(np.array_equal(array, influence.value) for array in arrays.values()) == 1
    loaded = dr.load(tmp_path / "fit.pkl")
    win_share = loaded.steps.first.one_step_result.influences["win_share"]
    assert loaded.steps.first.one_step_result.target.value is win_share.value
    np.testing.assert_array_equal(loaded.influence, result.influence)

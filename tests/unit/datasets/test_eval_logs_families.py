"""Logs that contradict themselves or each other: what would be compared wrongly is refused."""

import json
import zipfile

import pytest

import dmlrank as dr
from dmlrank.datasets import log_files
from dmlrank.exceptions import DataError, OptionError


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = isinstance(value, list) and path.suffix == ".jsonl"
    path.write_text("\n".join(map(json.dumps, value)) if lines else json.dumps(value), encoding="utf-8")
    return path


def inspect(model, scorer="s", values="CICC", task="t", ids=range(9), **about):
    samples = [{"id": i, "epoch": 1, "scores": {scorer: {"value": v}}} for i, v in zip(ids, values, strict=False)]
    return {"status": "success", "eval": {"task": task, "model": model, **about}, "samples": samples}


def line(number, **values):
    return {
        "doc_id": number,
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"h{number}",
        "acc": number % 2,
        **values,
    }


def harness(folder, task, lines, date="2026-01-01", limit=None):
    write(folder / f"samples_{task}_{date}T10-00-00.jsonl", lines)
    write(folder / f"results_{date}T10-00-00.json", {"model_name": folder.name, "config": {"limit": limit}})


# --- the logs of one task have one scorer, metric and filter (breaks 1) ---


@pytest.mark.parametrize("kind", ["scorer", "metric", "filter"])
def test_logs_of_a_task_that_differ_in_what_they_score_are_refused(tmp_path, kind):
    if kind == "scorer":
        for model in ("old", "new"):
            write(tmp_path / f"{model}.json", inspect(model, scorer=model))
    else:
        other = {"filter": "flexible"} if kind == "filter" else {"metrics": ["acc_norm"], "acc_norm": 1}
        harness(tmp_path / "old", "t", [line(k) for k in range(3)])
        harness(tmp_path / "new", "t", [line(k, **other) for k in range(3)])
    with pytest.raises(OptionError, match=f"different values of {kind}: .*name one that all have with {kind}="):
        dr.read_log(tmp_path)


def test_tasks_with_other_filters_are_read_by_task(tmp_path):
    harness(tmp_path / "m", "a", [line(k, filter=f) for k in range(3) for f in ("strict", "flexible")])
    harness(tmp_path / "m", "b", [line(k) for k in range(3)])
    with pytest.raises(OptionError, match=r"tasks that differ: filter=\{'a': 'flexible', ...\}"):
        dr.read_log(tmp_path)
    with pytest.raises(OptionError, match=r"no filter 'strict'; .*filter=\{'b': 'none', ...\}"):
        dr.read_log(tmp_path, filter="strict")
    assert len(dr.read_log(tmp_path, filter={"a": "strict"})) == 6
    assert dr.read_log(tmp_path, task="b")["task"].unique().tolist() == ["b"]
    assert len(dr.read_log(tmp_path, filter="strict", task=["a"])) == 3


def test_a_newer_run_with_a_limit_does_not_replace_a_complete_one(tmp_path):
    harness(tmp_path / "m", "t", [line(k) for k in range(30)])
    harness(tmp_path / "m", "t", [line(k) for k in range(5)], date="2026-02-01", limit=5)
    table = dr.read_log(tmp_path)
    assert len(table) == 30
    assert any("limit" in note for note in table.attrs["report"]["notes"])


def test_a_document_twice_without_filters_is_refused(tmp_path):
    harness(tmp_path / "m", "t", [{k: v for k, v in line(n).items() if k != "filter"} for n in (0, 1, 0)])
    with pytest.raises(DataError, match="doc_id 0 twice"):
        dr.read_log(tmp_path, kind="lm_eval")


# --- names are whole, and those of different things differ (breaks 2 and 4) ---


@pytest.mark.parametrize("length", [5, 80, 81, 500])
def test_prompts_of_promptfoo_that_differ_after_any_number_of_characters_are_two_models(tmp_path, length):
    rows = [
        {"provider": "m", "prompt": {"label": "x" * length + end}, "vars": {"i": i}, "score": 1}
        for i in range(3)
        for end in "AB"
    ]
    table = dr.read_log(write(tmp_path / "r.json", {"evalId": "e", "results": {"results": rows}}))
    assert table["model"].nunique() == 2
    assert table["run"].max() == 1


@pytest.mark.parametrize(
    "logs",
    [
        [inspect("m", task="x", ids=["y/1"]), inspect("m", task="x/y", ids=["1"])],
        [inspect("m", ids=[1, "1"])],
        [inspect("m", ids=[1]), inspect("k", ids=["1"])],
    ],
)
def test_prompts_of_one_name_are_refused(tmp_path, logs):
    for number, log in enumerate(logs):
        write(tmp_path / f"{number}.json", log)
    with pytest.raises(DataError, match="two prompts have the name"):
        dr.read_log(tmp_path)


def test_checkpoints_are_told_apart_by_their_arguments(tmp_path):
    for step in (100, 200):
        write(tmp_path / f"{step}.json", inspect("hf/m", model_args={"revision": f"step{step}", "device": "cuda"}))
    table = dr.read_log(tmp_path)
    assert sorted(table["model"].unique()) == ["hf/m (revision=step100)", "hf/m (revision=step200)"]


def test_tokens_and_costs_are_columns(tmp_path):
    log = inspect("m", values="C")
    usage = {"m": {"input_tokens": 10, "output_tokens": 2, "total_cost": 0.5}, "grader": {"input_tokens": 5}}
    log["samples"][0]["model_usage"] = usage
    table = dr.read_log(write(tmp_path / "a.json", log))
    assert table.loc[0, ["input_tokens", "output_tokens", "cost"]].tolist() == [15, 2, 0.5]


def test_judgments_that_stand_in_two_files_count_once(tmp_path):
    games = [{"score": "B<<A"}, {"score": "B<A"}]
    record = {"uid": "u", "judge": "j", "model": "m", "baseline": "b", "games": games}
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", [record])
    table = dr.read_log(tmp_path)
    assert table["winner"].tolist() == ["model_a", "model_a"]
    assert any("count once" in note for note in table.attrs["report"]["notes"])


# --- files (breaks 9, 14 and 15) ---


def test_damaged_files_are_left_out_only_where_this_is_asked_for(tmp_path):
    write(tmp_path / "a.json", inspect("m"))
    (tmp_path / "b.json").write_text('{"status": "success", "eval": {"task"')
    (tmp_path / "c.eval").write_bytes(b"PK nothing")
    (tmp_path / "d.json").touch()
    with pytest.raises(DataError, match=r"b\.json"):
        dr.read_log(tmp_path)
    table = dr.read_log(tmp_path, skip_damaged=True)
    assert len(table) == 4
    notes = [note for note in table.attrs["report"]["notes"] if "damaged" in note]
    assert [name in note for name, note in zip(("b.json", "c.eval", "d.json"), notes, strict=True)] == [True] * 3


@pytest.mark.parametrize("ratio", [2, 1000])
def test_what_expands_to_much_more_than_its_size_is_refused_before_it_is_expanded(tmp_path, monkeypatch, ratio):
    monkeypatch.setattr(log_files, "_LEAST_EXPANDED", 10_000)
    monkeypatch.setattr(log_files, "_LARGEST_EXPANDED", 100_000)
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(inspect("m")))
        archive.writestr("summaries.json", "[]" + " " * 4_000 * ratio)
    if ratio < 10:
        with pytest.raises(DataError, match="no sample"):
            dr.read_log(tmp_path)
    else:
        with pytest.raises(DataError, match="says that it expands to 4,000,002 bytes"):
            dr.read_log(tmp_path)


@pytest.mark.parametrize("value", ["1_000", "\u0663", "0x10", "1,5", "12 %"])
def test_texts_that_only_python_reads_as_numbers_are_no_scores(tmp_path, value):
    with pytest.raises(DataError, match="no finite number"):
        dr.read_log(write(tmp_path / "a.json", inspect("m", values=[value])))


@pytest.mark.parametrize(
    ("outcomes", "winner"),
    [((1, 0, 0), "model_a"), (("1.00", "0", "0"), "model_a"), (("0", "true", "0"), "model_b"), ((0, 0, 0), None)],
)
def test_outcomes_of_lmarena_are_numbers_of_which_one_is_1(tmp_path, outcomes, winner):
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    vote = {"model_a": "x", "model_b": "y", **dict(zip(names, outcomes, strict=True))}
    assert dr.read_log(write(tmp_path / "v.json", [vote]), kind="lmarena")["winner"].tolist() == [winner]
    with pytest.raises(DataError, match="one of them is 1"):
        dr.read_log(write(tmp_path / "v.json", [vote | {"winner_tie": 1, "winner_model_b": 1}]), kind="lmarena")

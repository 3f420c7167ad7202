"""The generator of large logs: every kind is read whole, with the means that were drawn, and the same from one seed."""

from __future__ import annotations

import json

import pytest

import dmlrank as dr

SWAPPED = {"model_a": "model_b", "model_b": "model_a"}


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("eval_logs")


@pytest.mark.parametrize("kind", ["inspect", "lm_eval", "arena_hard", "every_eval_ever", "promptfoo"])
def test_logs_are_read_whole_with_the_means_that_were_drawn(study, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(study, "MODELS", 3)
    means = study.write_logs(kind, tmp_path, n_files=6, n_samples=40, length=50, seed=1)
    table = dr.read_log(tmp_path)
    assert table.attrs["report"]["files"] == 6
    if kind == "arena_hard":
        assert len(table) == 2 * 6 * 40
        model = table["model_a"].where(table["model_a"] != "baseline", table["model_b"])
        won = table["winner"].where(table["model_a"] != "baseline", table["winner"].map(SWAPPED)) == "model_a"
        found = won.groupby(model).mean()
    else:
        assert len(table) == 6 * 40
        assert table["prompt"].nunique() == 2 * 40
        found = table.groupby("model")["score"].mean()
    assert found.to_dict() == pytest.approx(means)


def test_a_seed_gives_the_same_logs_and_another_seed_others(study, tmp_path):
    contents = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        study.write_logs("lm_eval", tmp_path / name, n_files=2, n_samples=5, length=30, seed=seed)
        contents.append([file.read_bytes() for file in sorted((tmp_path / name).rglob("*.jsonl"))])
    assert contents[0] == contents[1] != contents[2]


def test_a_reading_counts_rows_time_and_memory(study, tmp_path, capsys):
    study.write_logs("inspect", tmp_path, n_files=2, n_samples=10, length=40)
    study.main(["--read", "inspect", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 20
    assert found["clock_s"] >= 0
    assert found["cpu_s"] >= 0
    assert 0 < found["peak_gb"] < 10

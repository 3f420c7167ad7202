"""Logs of evaluation harnesses: every format, with what is missing, contradicts itself or has to be asked for."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, OptionError


def write(path, value, lines=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(one) for one in value) if lines else json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def scores(table):
    return table.set_index(["model", "prompt", "run"])["score"].to_dict()


# --- inspect_ai ---

HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"task": "gpqa", "model": "acme/m7b", "created": "2026-01-01", "config": {"epochs": 2}},
}
SAMPLES = [
    {
        "id": "q1",
        "epoch": 1,
        "metadata": {"domain": "physics"},
        "scores": {"choice": {"value": "C"}},
        "total_time": 3.1,
    },
    {"id": "q1", "epoch": 2, "metadata": {"domain": "physics"}, "scores": {"choice": {"value": "I"}}},
    {"id": "q2", "epoch": 1, "metadata": {"domain": "bio"}, "scores": None, "error": "timeout"},
    {"id": "q2", "epoch": 2, "metadata": {"domain": "bio"}, "scores": {"choice": {"value": "P"}}},
]


def eval_file(path, header=HEADER, samples=SAMPLES, method=zipfile.ZIP_DEFLATED):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("summaries.json", json.dumps(samples))
    return path


def zstandard_zip(path):
    """Write a zip whose members are compressed by zstandard, which zipfile cannot write before Python 3.14."""
    zstandard = pytest.importorskip("zstandard")
    stored = path.with_suffix(".stored")
    with zipfile.ZipFile(stored, "w") as archive:
        for name, value in (("header.json", HEADER), ("summaries.json", SAMPLES)):
            archive.writestr(name, zstandard.compress(json.dumps(value).encode()))
    content = bytearray(stored.read_bytes())
    with zipfile.ZipFile(stored) as archive:
        members = archive.infolist()
    # The method of compression stands at byte 8 of a local header and at byte 10 of the directory's entry.
    for member in members:
        struct.pack_into("<H", content, member.header_offset + 8, 93)
    place = -1
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        struct.pack_into("<H", content, place + 10, 93)
    stored.unlink()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", ["zip", "zstandard", "json", "json.gz"])
def test_inspect_logs_of_every_form_are_one_table(tmp_path, kind):
    if kind == "zip":
        eval_file(tmp_path / "log.eval")
    elif kind == "zstandard":
        zstandard_zip(tmp_path / "log.eval")
    elif kind == "json":
        write(tmp_path / "log.json", HEADER | {"samples": SAMPLES})
    else:
        (tmp_path / "log.json.gz").write_bytes(gzip.compress(json.dumps(HEADER | {"samples": SAMPLES}).encode()))
    table = dr.datasets.read_log(tmp_path)
    assert list(table.columns[:5]) == ["prompt", "model", "score", "run", "task"]
    assert table["score"].tolist()[:2] == [1.0, 0.0]
    assert np.isnan(table["score"][2])
    assert table["score"][3] == 0.5
    assert table["prompt"].unique().tolist() == ["gpqa/q1", "gpqa/q2"]
    assert table["domain"].tolist() == ["physics", "physics", "bio", "bio"]
    report = table.attrs["report"]
    assert (report["kind"], report["missing"], report["runs"], report["errors"]) == ("inspect", 1, 2, {"timeout": 1})
    json.dumps(report)
    assert "timeout" in str(report)


def test_inspect_takes_the_newest_log_of_a_model_and_names_the_other(tmp_path):
    for name, date, value in (("a", "2026-01-01", "I"), ("b", "2026-02-01", "C")):
        header = HEADER | {"eval": HEADER["eval"] | {"created": date}}
        eval_file(tmp_path / f"{name}.eval", header, [{"id": 1, "epoch": 1, "scores": {"s": {"value": value}}}])
    table = dr.datasets.read_log(str(tmp_path / "*.eval"))
    assert table["score"].tolist() == [1.0]
    assert any("a.eval" in note for note in table.attrs["report"]["notes"])


@pytest.mark.parametrize(
    ("value", "score"),
    [("C", 1), ("I", 0), ("P", 0.5), ("N", 0), (True, 1), ("yes", 1), ("no", 0), ("0.25", 0.25), (3, 3)],
)
def test_inspect_values_become_numbers(tmp_path, value, score):
    eval_file(tmp_path / "x.eval", samples=[{"id": 1, "epoch": 1, "scores": {"s": {"value": value}}}])
    assert dr.datasets.read_log(tmp_path)["score"].tolist() == [score]


def test_inspect_refuses_what_it_cannot_know(tmp_path):
    one = {"id": 1, "epoch": 1, "scores": {"s": {"value": "excellent"}}}
    with pytest.raises(DataError, match="excellent"):
        dr.datasets.read_log(eval_file(tmp_path / "value.eval", samples=[one]))
    two = {"id": 1, "epoch": 1, "scores": {"a": {"value": "C"}, "b": {"value": {"x": 1, "y": 0}}}}
    file = eval_file(tmp_path / "scorers.eval", samples=[two])
    with pytest.raises(OptionError, match="'a', 'b'"):
        dr.datasets.read_log(file)
    assert dr.datasets.read_log(file, scorer="a")["score"].tolist() == [1]
    with pytest.raises(OptionError, match="'x', 'y'"):
        dr.datasets.read_log(file, scorer="b")
    assert dr.datasets.read_log(file, scorer="b.x")["score"].tolist() == [1]
    with pytest.raises(OptionError):
        dr.datasets.read_log(file, scorer="c")
    for status in ("cancelled", "started"):
        with pytest.raises(DataError, match=status):
            dr.datasets.read_log(eval_file(tmp_path / f"{status}.eval", HEADER | {"status": status}))
    (tmp_path / "broken.eval").write_bytes(b"PK nothing")
    with pytest.raises(DataError):
        dr.datasets.read_log(tmp_path / "broken.eval")


def test_a_zip_that_expands_without_end_is_refused(tmp_path, monkeypatch):
    from dmlrank.datasets import log_files

    monkeypatch.setattr(log_files, "_LARGEST_EXPANDED", 1000)
    monkeypatch.setattr(log_files, "_LARGEST_RATIO", 2)
    with zipfile.ZipFile(tmp_path / "bomb.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "[" + "0," * 100_000 + "0]")
    with pytest.raises(DataError, match="expands"):
        dr.datasets.read_log(tmp_path / "bomb.eval")
    monkeypatch.setattr(log_files, "_LARGEST_LINE", 100)
    with pytest.raises(DataError, match="line 1"):
        dr.datasets.read_log(write(tmp_path / "samples_t.jsonl", [LINE | {"target": "x" * 200}], lines=True))


# --- lm-evaluation-harness ---

LINE = {
    "doc_id": 0,
    "doc": {"question": "..."},
    "target": "18",
    "filter": "strict-match",
    "metrics": ["exact_match"],
    "doc_hash": "a1",
    "exact_match": 1.0,
}


def harness(folder, model="acme__m7b", task="gsm8k", date="2026-01-01T10-00-00.1", lines=(LINE,)):
    return write(folder / model / f"samples_{task}_{date}.jsonl", lines, lines=True)


def test_lm_eval_reads_models_of_folders_and_takes_the_newest_date(tmp_path):
    harness(tmp_path, lines=[LINE, LINE | {"doc_id": 1, "doc_hash": "b2", "exact_match": 0.0}])
    harness(tmp_path, date="2025-01-01T10-00-00.1", lines=[LINE | {"exact_match": 0.0}])
    harness(tmp_path, model="other", lines=[LINE])
    write(tmp_path / "other" / "results_2026-01-01.json", {"model_name": "org/other"})
    table = dr.datasets.read_log(tmp_path)
    expected = {("acme/m7b", "gsm8k/a1", 1): 1.0, ("acme/m7b", "gsm8k/b2", 1): 0.0, ("org/other", "gsm8k/a1", 1): 1.0}
    assert scores(table) == expected
    assert any("2025" in note for note in table.attrs["report"]["notes"])


def test_lm_eval_asks_for_metric_and_filter_and_refuses_documents_that_differ(tmp_path):
    file = harness(tmp_path, lines=[LINE, LINE | {"filter": "flexible", "exact_match": 0.0}])
    with pytest.raises(OptionError, match="'flexible', 'strict-match'"):
        dr.datasets.read_log(file)
    assert dr.datasets.read_log(file, filter="flexible")["score"].tolist() == [0.0]
    two = LINE | {"metrics": ["acc", "acc_norm"], "acc": 1, "acc_norm": 0}
    file = harness(tmp_path / "two", lines=[two])
    with pytest.raises(OptionError, match="'acc', 'acc_norm'"):
        dr.datasets.read_log(file)
    assert dr.datasets.read_log(file, metric="acc_norm")["score"].tolist() == [0]
    harness(tmp_path / "hash", lines=[LINE])
    harness(tmp_path / "hash", model="other", lines=[LINE | {"doc_hash": "zz"}])
    with pytest.raises(DataError, match="doc_id 0"):
        dr.datasets.read_log(tmp_path / "hash")
    with pytest.raises(DataError, match="list"):
        dr.datasets.read_log(harness(tmp_path / "ppl", lines=[LINE | {"exact_match": [1.0, 2.0]}]))


# --- judgments of pairs ---


def test_alpaca_eval_preferences_are_shares_for_the_baseline(tmp_path):
    base = {"instruction": "Say hi", "generator_1": "base", "dataset": "helpful", "annotator": "judge-1"}
    records = [base | {"generator_2": m, "preference": p} for m, p in (("m1", 1.75), ("m2", None), ("m2", 1.0))]
    table = dr.datasets.read_log(write(tmp_path / "annotations.json", records))
    assert table["winner"].tolist()[::2] == [0.25, 1.0]
    assert np.isnan(table["winner"][1])
    assert any("'base'" in note for note in table.attrs["report"]["notes"])
    with pytest.raises(DataError, match=r"2\.5"):
        dr.datasets.read_log(write(tmp_path / "x.json", [base | {"generator_2": "m", "preference": 2.5}]))


def test_arena_hard_keeps_both_orders(tmp_path):
    games = [{"score": "B>>A"}, {"score": "A>B"}]
    record = {"uid": "u1", "category": "hard", "judge": "j", "model": "m", "baseline": "b", "games": games}
    records = [record, record | {"uid": "u2", "games": [{"score": None}, {"score": "A=B"}]}]
    table = dr.datasets.read_log(write(tmp_path / "m.jsonl", records, lines=True))
    assert table[["model_a", "model_b"]].values.tolist()[:2] == [["b", "m"], ["m", "b"]]
    assert table["winner"].tolist()[:2] == ["model_b", "model_a"]
    assert pd.isna(table["winner"][2])
    assert table["winner"][3] == "tie"


def test_mt_bench_pairs_and_single_scores(tmp_path):
    pair = {"question_id": 81, "model_1": "x", "model_2": "y", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    file = write(tmp_path / "gpt-4_pair.jsonl", [pair | {"g1_winner": "model_1", "g2_winner": "error"}], lines=True)
    table = dr.datasets.read_log(file)
    assert table[["model_a", "model_b"]].values.tolist() == [["x", "y"], ["y", "x"]]
    assert table["winner"][0] == "model_a"
    assert pd.isna(table["winner"][1])
    single = {"question_id": 81, "model": "x", "judge": ["gpt-4", "single-v1"], "turn": 1}
    file = write(
        tmp_path / "gpt-4_single.jsonl", [single | {"score": 8}, single | {"turn": 2, "score": -1}], lines=True
    )
    table = dr.datasets.read_log(file)
    assert table["score"][0] == 8
    assert np.isnan(table["score"][1])


def test_wildbench_needs_to_know_which_answer_was_a(tmp_path):
    place = tmp_path / "eval=judge" / "ref=base"
    record = {"session_id": "s", "parsed_result": {"choice": "A+"}, "assignment": {"A": "m", "B": "base"}}
    table = dr.datasets.read_log(write(place / "m.json", [record]))
    assert table[["model_a", "model_b", "winner", "judge"]].values.tolist() == [["m", "base", "model_a", "judge"]]
    with pytest.raises(DataError, match="assignment"):
        dr.datasets.read_log(write(place / "m.json", [{"session_id": "s", "parsed_result": {"choice": "A+"}}]))
    scored = write(tmp_path / "eval=judge" / "m.json", [{"session_id": "s", "parsed_result": {"score": "7"}}])
    assert dr.datasets.read_log(scored)["score"].tolist() == [7]


# --- Every Eval Ever, promptfoo ---


def test_every_eval_ever_refuses_reduced_scores_that_look_like_runs(tmp_path):
    line = {
        "evaluation_id": "e",
        "model_id": "m",
        "evaluation_name": "acc",
        "sample_id": "1",
        "evaluation": {"score": 1.0},
    }
    lines = [
        line,
        line | {"sample_id": "2", "evaluation": {"is_correct": False}},
        line | {"sample_id": "3", "error": "x"},
    ]
    table = dr.datasets.read_log(write(tmp_path / "u_samples.jsonl", lines, lines=True))
    assert table["score"].tolist()[:2] == [1.0, 0.0]
    assert np.isnan(table["score"][2])
    with pytest.raises(DataError, match="several times"):
        dr.datasets.read_log(write(tmp_path / "v_samples.jsonl", [line, line], lines=True))
    runs = [line, line | {"evaluation": {"score": 0.0}}]
    assert dr.datasets.read_log(write(tmp_path / "w_samples.jsonl", runs, lines=True))["run"].tolist() == [1, 2]


def test_promptfoo_rows_with_equal_variables_are_runs(tmp_path):
    row = {"promptIdx": 0, "testIdx": 0, "provider": {"id": "openai:x", "label": "x"}, "vars": {"q": "1"}, "score": 1}
    rows = [
        row | {"cost": 0.1, "failureReason": 0},
        row | {"score": 0},
        row | {"failureReason": 2, "error": "rate limit"},
    ]
    table = dr.datasets.read_log(write(tmp_path / "results.json", {"results": {"results": rows}}))
    assert table["run"].tolist() == [1, 2, 3]
    assert table["score"].tolist()[:2] == [1, 0]
    assert np.isnan(table["score"][2])
    assert table["cost"][0] == 0.1


# --- what holds for all ---


def test_unknown_files_kinds_and_mixtures_are_named(tmp_path):
    with pytest.raises(DataError):
        dr.datasets.read_log(tmp_path)
    with pytest.raises(DataError):
        dr.datasets.read_log(tmp_path / "nothing.eval")
    with pytest.raises(DataError, match="kind="):
        dr.datasets.read_log(write(tmp_path / "table.json", [{"a": 1}]))
    eval_file(tmp_path / "x.eval")
    harness(tmp_path)
    with pytest.raises(DataError, match="'inspect', 'lm_eval'"):
        dr.datasets.read_log(tmp_path)
    assert set(dr.datasets.read_log(tmp_path / "x.eval", kind="inspect")["model"]) == {"acme/m7b"}
    with pytest.raises(OptionError, match="'inspect'"):
        dr.datasets.read_log(tmp_path, kind="inspekt")
    with pytest.raises(OptionError, match="metric"):
        dr.datasets.read_log(tmp_path / "x.eval", metric="acc")


def test_the_order_of_files_and_lines_does_not_matter(tmp_path):
    lines = [LINE | {"doc_id": i, "doc_hash": f"h{i}", "exact_match": float(i % 2)} for i in range(6)]
    for name, order in (("one", lines), ("two", lines[::-1])):
        harness(tmp_path / name, lines=order)
        harness(tmp_path / name, model="b", lines=order)
    one, two = (scores(dr.datasets.read_log(tmp_path / name)) for name in ("one", "two"))
    assert one == two


def test_votes_of_a_log_fit_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    models = ["m0", "m1", "m2"]
    records = [
        {"uid": f"u{i}", "judge": "j", "model": m, "baseline": "base", "games": [{"score": s} for s in pair]}
        for i in range(60)
        for m in models
        for pair in [rng.choice(["A>B", "B>A", "A=B"], size=2).tolist()]
    ]
    table = dr.datasets.read_log(write(tmp_path / "all.jsonl", records, lines=True))
    res = dr.dml_rank("winner ~ 1 | model_a + model_b", table, functional="bt", context="prompt", rng=0)
    assert set(res.models) == {"base", *models}

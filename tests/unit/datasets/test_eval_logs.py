"""Logs of evaluation harnesses: every format, with what is missing, contradicts itself or has to be asked for."""

import gzip
import json
import struct
import zipfile

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import DataError, OptionError
from dmlrank.options import in_objects


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
PHYSICS = {"id": "q1", "metadata": {"domain": "physics"}}
SAMPLES = [
    {**PHYSICS, "epoch": 1, "scores": {"choice": {"value": "C"}}, "total_time": 3.1},
    {**PHYSICS, "epoch": 2, "scores": {"choice": {"value": "I"}}},
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
    zstandard = pytest.importorskip("backports.zstd")
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
    # A model without samples would be missing on the board.
    full, empty = eval_file(tmp_path / "full.eval"), HEADER["eval"] | {"model": "acme/empty"}
    with pytest.raises(DataError, match="no sample of 'acme/empty'"):
        dr.datasets.read_log([full, eval_file(tmp_path / "empty.eval", HEADER | {"eval": empty}, [])])
    with pytest.raises(DataError, match=r"no sample of task='nothing', .* pass another or no task="):
        dr.datasets.read_log(full, task="nothing")


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    from dmlrank.datasets import log_files

    monkeypatch.setattr(log_files, "_LARGEST_LINE", 100)
    with pytest.raises(DataError, match="line 1"):
        dr.datasets.read_log(write(tmp_path / "samples_t.jsonl", [LINE | {"target": "x" * 200}], lines=True))


def one_sample(**values):
    return [{"id": 1, "epoch": 1, "scores": {"s": {"value": "C"}}} | values]


@pytest.mark.parametrize("value", ["excellent", [1, 0], "inf", 1e999, 10**400, ""])
def test_inspect_values_that_are_no_numbers_are_refused_with_the_sample(tmp_path, value):
    file = eval_file(tmp_path / "x.eval", samples=one_sample(scores={"s": {"value": value}}))
    with pytest.raises(DataError, match="sample 1 has the score"):
        dr.datasets.read_log(file)


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        ({"scores": None}, "no score"),
        ({"scores": {}}, "no score"),
        ({"scores": {"s": {"value": None}}}, "no score"),
        ({"scores": {"s": {"value": float("nan")}}}, "no score"),
        ({"scores": None, "limit": "token"}, "token"),
        ({"error": "timeout"}, "timeout"),
    ],
)
def test_a_score_that_is_not_there_is_missing_and_never_zero(tmp_path, sample, error):
    samples = [*one_sample(), *one_sample(id=2, **sample)]
    table = dr.datasets.read_log(eval_file(tmp_path / "x.eval", samples=samples))
    assert table["score"][0] == 1
    assert np.isnan(table["score"][1])
    assert table.attrs["report"]["errors"] == {error: 1}


def test_a_sample_that_met_a_limit_keeps_the_score_that_the_harness_gave_it(tmp_path):
    table = dr.datasets.read_log(eval_file(tmp_path / "x.eval", samples=one_sample(limit="token")))
    assert table[["score", "limit"]].values.tolist() == [[1.0, "token"]]


def test_a_complete_log_is_taken_before_one_that_ended_early(tmp_path):
    about = HEADER["eval"]
    eval_file(tmp_path / "a.eval", HEADER | {"eval": about | {"created": "2026-01-01"}}, one_sample())
    cancelled = HEADER | {"status": "cancelled", "eval": about | {"created": "2026-03-01"}}
    eval_file(tmp_path / "b.eval", cancelled, one_sample(scores=None))
    table = dr.datasets.read_log(tmp_path)
    assert table["score"].tolist() == [1.0]
    assert any("b.eval" in note for note in table.attrs["report"]["notes"])
    whole = HEADER | {"eval": about | {"dataset": {"samples": 2}}}
    assert not dr.read_log(eval_file(tmp_path / "whole" / "a.eval", whole)).attrs["report"]["notes"]
    (tmp_path / "whole" / "a.eval").unlink()
    failed = about | {"model": "other", "dataset": {"samples": 3}}
    eval_file(tmp_path / "c.eval", HEADER | {"status": "error", "eval": failed}, one_sample())
    notes = dr.datasets.read_log(tmp_path).attrs["report"]["notes"]
    assert any("'error'" in note for note in notes)
    assert any("1 of 6 samples" in note for note in notes)
    limited = HEADER | {"eval": failed | {"config": {"epochs": 2, "limit": 1}}}
    assert not dr.read_log(eval_file(tmp_path / "c.eval", limited, one_sample())).attrs["report"]["notes"]
    eval_file(tmp_path / "c.eval", HEADER | {"status": "error", "eval": failed}, one_sample())
    with zipfile.ZipFile(tmp_path / "d.eval", "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"eval": about | {"model": "third"}}))
    with pytest.raises(DataError, match=r"d\.eval' was started"):
        dr.datasets.read_log(tmp_path)


def test_prompts_of_two_tasks_with_the_same_identifier_are_two_prompts(tmp_path):
    for task in ("a", "b"):
        eval_file(tmp_path / f"{task}.eval", HEADER | {"eval": HEADER["eval"] | {"task": task}}, one_sample())
    table = dr.datasets.read_log(tmp_path)
    assert table["prompt"].tolist() == ["a/1", "b/1"]
    assert table.attrs["report"]["tasks"] == ["a", "b"]


def test_empty_and_hidden_files_and_other_documents_are_not_passed_over(tmp_path):
    eval_file(tmp_path / "a.eval", samples=[one | {"input": "2 + 2?"} for one in SAMPLES])
    other = HEADER | {"eval": HEADER["eval"] | {"model": "acme/m8b"}}
    eval_file(tmp_path / "b.eval", other, [one | {"input": "2 + 3?"} for one in SAMPLES])
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "broken.eval").write_text("{")
    notes = dr.datasets.read_log(tmp_path).attrs["report"]["notes"]
    assert any("4 samples of 'acme/m8b' have another input" in note for note in notes)
    packed = tmp_path / "c.eval.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.eval").read_bytes()))
    with pytest.raises(DataError, match=r"unpack \.gz first"):
        dr.datasets.read_log(packed)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "samples_x.jsonl").touch()
    with pytest.raises(DataError, match=r"samples_x\.jsonl' is empty"):
        dr.datasets.read_log(tmp_path)


def test_damaged_files_are_named(tmp_path):
    zstandard = pytest.importorskip("backports.zstd")
    text = json.dumps(HEADER | {"samples": SAMPLES}).encode()
    whole = zstandard.compress(text)
    (tmp_path / "two_frames.json.zst").write_bytes(zstandard.compress(text[:50]) + zstandard.compress(text[50:]))
    assert len(dr.datasets.read_log(tmp_path)) == len(SAMPLES)
    damaged = {"a.json.zst": b"no zstandard", "b.json.gz": gzip.compress(text)[:-20], "c.eval": b"PK\x03\x04 nothing"}
    damaged |= {"d.json": text[:-30], "e.json.zst": whole[:10] + b"xx" + whole[12:], "f.json.gz": b"\x1f\x8b nothing"}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=name.replace(".", r"\.")):
            dr.datasets.read_log(tmp_path / name, kind="inspect")
    lines = tmp_path / "samples_t.jsonl"
    lines.write_text(json.dumps(LINE) + "\n{nonsense\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        dr.datasets.read_log(lines)
    lines.write_text("\ufeff" + json.dumps(LINE) + "\n[1]\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2 is no JSON object"):
        dr.datasets.read_log(lines)


# --- lm-evaluation-harness ---

LINE = {"doc_id": 0, "doc": {"question": "..."}, "target": "18", "filter": "strict-match"}
LINE |= {"metrics": ["exact_match"], "doc_hash": "a1", "exact_match": 1.0}


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
    # The results beside samples are read with them, and are no log of their own.
    (note,) = table.attrs["report"]["notes"]
    assert "2025" in note


def test_lm_eval_counts_a_document_that_is_there_twice_twice(tmp_path):
    """The harness's mean is that of lines: a document that stands in the task twice counts twice in it."""
    for name, right in (("a", [1, 0, 1, 1]), ("b", [0, 0, 1, 0])):
        lines = [
            LINE | {"doc_id": i, "doc_hash": doc_hash, "exact_match": float(right[i])}
            for i, doc_hash in enumerate(["h0", "h0", "h1", "h2"])
        ]
        harness(tmp_path, model=name, lines=lines[::-1] if name == "b" else lines)
    table = dr.read_log(tmp_path)
    assert table["prompt"].nunique() == 4
    assert scores(table)["b", "gsm8k/h0 #2", 1] == 0
    assert table.groupby("model")["score"].mean().to_dict() == {"a": 0.75, "b": 0.25}


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


def test_lm_eval_scores_that_are_not_there_ready_made_metrics_and_smaller_is_better(tmp_path):
    lines = [
        {"doc_id": i, "doc_hash": f"h{i}", "filter": "none", "prompt_hash": "p", "metrics": ["pass@1", "wer"], **value}
        for i, value in enumerate([{"pass@1": 0.25, "wer": 0.1}, {"wer": None}, {"pass@1": None, "wer": 0.3}])
    ]
    file = harness(tmp_path, lines=lines)
    # The hash of the prompt differs between chat templates, and is no key.
    harness(tmp_path, model="other", lines=[line | {"prompt_hash": "q"} for line in lines])
    table = dr.datasets.read_log(tmp_path, metric="pass@1")
    assert table["prompt"].nunique() == 3
    assert table["score"][:3].tolist()[0] == 0.25
    assert table["score"].isna().sum() == 4
    write(file.parent / "results_1.json", {"model_name": "m", "higher_is_better": {"gsm8k": {"wer": False}}})
    table = dr.datasets.read_log(file, metric="wer")
    assert table["score"].tolist()[::2] == [-0.1, -0.3]
    assert any("smaller is better" in note for note in table.attrs["report"]["notes"])
    harness(tmp_path, model="other", task="asr", lines=lines)
    with pytest.raises(DataError, match="read one"):
        dr.datasets.read_log(tmp_path, metric="wer")


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


def test_alpaca_eval_draws_of_older_versions_and_preferences_that_are_no_number(tmp_path):
    base = {"instruction": "Say hi", "generator_1": "base", "generator_2": "m", "annotator": "j"}
    records = [base | {"preference": value} for value in (0, 1.5, float("nan"))]
    table = dr.read_log(write(tmp_path / "annotations.json", records))
    assert table["winner"].tolist()[:2] == [0.5, 0.5]
    assert np.isnan(table["winner"][2])


def test_arena_hard_keeps_both_orders(tmp_path):
    games = [{"score": "B>>A"}, {"score": "A>B"}]
    record = {"uid": "u1", "category": "hard", "judge": "j", "model": "m", "baseline": "b", "games": games}
    records = [record, record | {"uid": "u2", "games": [{"score": None}, {"score": "A=B"}]}]
    table = dr.datasets.read_log(write(tmp_path / "m.jsonl", records, lines=True))
    assert table[["model_a", "model_b"]].values.tolist()[:2] == [["b", "m"], ["m", "b"]]
    assert table["winner"].tolist()[:2] == ["model_b", "model_a"]
    assert pd.isna(table["winner"][2])
    assert table["winner"][3] == "tie"
    # A game that is not there is a missing vote, and a judgment that stands in two files is refused.
    table = dr.datasets.read_log(write(tmp_path / "m.jsonl", [record | {"games": games[:1]}], lines=True))
    assert table.attrs["report"]["missing"] == 1
    write(tmp_path / "copy" / "m.jsonl", records, lines=True)
    with pytest.raises(DataError, match="both judge 'm' on 'u1'"):
        dr.datasets.read_log(tmp_path)


def test_mt_bench_pairs_have_both_orders(tmp_path):
    pair = {"question_id": 81, "model_1": "x", "model_2": "y", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    file = write(tmp_path / "gpt-4_pair.jsonl", [pair | {"g1_winner": "model_1", "g2_winner": "error"}], lines=True)
    table = dr.datasets.read_log(file)
    assert table[["model_a", "model_b"]].values.tolist() == [["x", "y"], ["y", "x"]]
    assert table["winner"][0] == "model_a"
    assert pd.isna(table["winner"][1])


def test_verdicts_of_every_spelling_and_unknown_ones(tmp_path):
    spellings = {"A>>B": "model_a", "A>B": "model_a", "A=B": "tie", "B>A": "model_b", "[[A<<B]]": "model_b"}
    base = {"judge": "j", "model": "m", "baseline": "b"}
    records = [base | {"uid": word, "games": [{"score": word}, {"score": None}]} for word in spellings]
    table = dr.datasets.read_log(write(tmp_path / "m.jsonl", records, lines=True))
    assert table["winner"][::2].tolist() == [*spellings.values()]
    assert table["winner"][1::2].isna().all()
    unknown = base | {"uid": "u", "games": [{"score": "A>>>B"}]}
    with pytest.raises(DataError, match="A>>>B"):
        dr.datasets.read_log(write(tmp_path / "m.jsonl", [unknown], lines=True))


def test_judges_turns_and_the_star_are_said(tmp_path):
    pair = {"question_id": 1, "model_1": "x", "model_2": "y", "g1_winner": "tie", "g2_winner": "model_2", "turn": 2}
    pairs = [pair | {"judge": judge} for judge in (["gpt-4", "pair-v2"], ["other", "pair-v2"])]
    table = dr.datasets.read_log(write(tmp_path / "pair.jsonl", pairs, lines=True))
    assert table["judge"].unique().tolist() == ["gpt-4, pair-v2", "other, pair-v2"]
    assert table["prompt"].tolist() == ["1 turn 2"] * 4
    report = table.attrs["report"]
    assert any("2 judges" in note for note in report["notes"])
    # Both turns of a question are in one cluster; two models are no star.
    assert report["fit"]["cov_kwds"] == {"groups": ["question"]}
    assert "functional" not in report["fit"]
    turns = [pair, pair | {"turn": 1, "judge": ["gpt-4", "pair-v1"]}]
    turns = [{"judge": ["gpt-4", "pair-v2"]} | turn for turn in turns]
    assert dr.datasets.read_log(write(tmp_path / "turns.jsonl", turns, lines=True)).attrs["report"]["notes"] == []


def test_turns_of_a_question_are_a_cluster_of_the_fit(tmp_path, capsys):
    rng = np.random.default_rng(8)
    pairs = [
        {"question_id": q, "turn": turn, "judge": ["gpt-4", "v1"], "model_1": first, "model_2": second}
        | {f"{game}_winner": str(rng.choice(["model_1", "model_2", "tie"])) for game in ("g1", "g2")}
        for q in range(40)
        for turn in (1, 2)
        for first, second in (("x", "y"), ("x", "z"), ("y", "z"))
    ]
    file = write(tmp_path / "gpt-4_pair.jsonl", pairs, lines=True)
    table = dr.read_log(file)
    res = dr.dml_rank(**in_objects({"data": table, "rng": 0, **table.attrs["report"]["fit"]}))
    assert res.estimates.description.clusters == ("question",)
    assert main(["fit", str(file), "--rng", "0", "--out", str(tmp_path / "res.json")]) == 0
    np.testing.assert_allclose(dr.read_json(tmp_path / "res.json").bse, res.bse)
    assert "--groups question" in capsys.readouterr().err


# --- Every Eval Ever, promptfoo ---


def test_every_eval_ever_refuses_reduced_scores_that_look_like_runs(tmp_path):
    line = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "acc", "evaluation": {"score": 1.0}}
    line |= {"sample_id": "1"}
    lines = [line, line | {"sample_id": "2", "evaluation": {"is_correct": False}}]
    lines += [line | {"sample_id": "3", "error": "x"}]
    table = dr.datasets.read_log(write(tmp_path / "u_samples.jsonl", lines, lines=True))
    assert table["score"].tolist()[:2] == [1.0, 0.0]
    assert np.isnan(table["score"][2])
    with pytest.raises(DataError, match="several times"):
        dr.datasets.read_log(write(tmp_path / "v_samples.jsonl", [line, line], lines=True))
    runs = [line, line | {"evaluation": {"score": 0.0}}]
    assert dr.datasets.read_log(write(tmp_path / "w_samples.jsonl", runs, lines=True))["run"].tolist() == [1, 2]


def test_every_eval_ever_benchmarks_with_the_same_names_are_two_tasks(tmp_path):
    for name, right in (("gsm8k", True), ("mmlu", False)):
        line = {"evaluation_id": f"{name}/m/17", "model_id": "m", "evaluation_name": "accuracy", "sample_id": "1"}
        write(tmp_path / name / "u_samples.jsonl", [line | {"evaluation": {"is_correct": right}}], lines=True)
    table = dr.read_log(tmp_path)
    assert table.set_index("prompt")["score"].to_dict() == {"gsm8k/accuracy/1": 1.0, "mmlu/accuracy/1": 0.0}
    assert table["run"].tolist() == [1, 1]


def test_rows_that_repeat_and_equal_scores_of_some_samples_are_said(tmp_path):
    line = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "acc"}
    values = [("1", 1.0), ("1", 1.0), ("2", 1.0), ("2", 0.0)]
    lines = [line | {"sample_id": sample, "evaluation": {"score": value}} for sample, value in values]
    report = dr.read_log(write(tmp_path / "u_samples.jsonl", lines, lines=True)).attrs["report"]
    assert any("1 of 2 samples" in note for note in report["notes"])
    report = dr.read_log(eval_file(tmp_path / "x.eval", samples=SAMPLES[:1] * 2)).attrs["report"]
    assert any("1 rows repeat" in note for note in report["notes"])


def test_promptfoo_rows_with_equal_variables_are_runs(tmp_path):
    row = {"promptIdx": 0, "testIdx": 0, "provider": {"id": "openai:x", "label": "x"}, "vars": {"q": "1"}, "score": 1}
    rows = [
        row | {"cost": 0.1, "failureReason": 0},
        row | {"score": 0},
        row | {"failureReason": 2, "error": "rate limit"},
        row | {"score": 0, "error": "API error 500"},
        row | {"score": 0, "error": "expected 1", "gradingResult": {"pass": False}},
    ]
    table = dr.datasets.read_log(write(tmp_path / "results.json", {"results": {"results": rows}}))
    assert table["run"].tolist() == [1, 2, 3, 4, 5]
    assert table["score"].fillna(-1).tolist() == [1, 0, -1, -1, 0]
    assert table["cost"][0] == 0.1


def test_every_eval_ever_takes_direction_unknown_level_and_judges_from_the_file_beside(tmp_path):
    line = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "harm", "evaluation": {"score": 2.0}}
    lines = [line | {"sample_id": "1", "sample_hash": "h1", "metadata": {"subject": "law"}}]
    lines += [line | {"sample_id": "2", "sample_hash": "h2", "evaluation": {"score": -1}}]
    file = write(tmp_path / "u_samples.jsonl", lines, lines=True)
    config = {"lower_is_better": True, "has_unknown_level": True}
    config |= {"llm_scoring": {"judges": [{"model_info": {"id": "org/judge"}}], "input_prompt": "?"}}
    results = [{"evaluation_name": "harm", "metric_config": config, "score_details": {"score": 2.0}}]
    write(tmp_path / "u.json", {"evaluation_id": "e", "evaluation_results": results})
    table = dr.datasets.read_log(tmp_path)
    assert table["prompt"].tolist() == ["harm/h1", "harm/h2"]
    assert table["score"][0] == -2.0
    assert np.isnan(table["score"][1])
    assert table["judge"].tolist() == ["org/judge"] * 2
    assert table["subject"][0] == "law"
    notes = table.attrs["report"]["notes"]
    assert any("smaller is better" in note for note in notes)
    assert any("own log" in note for note in notes)
    assert not any("not used" in note for note in notes)
    config["has_unknown_level"] = False
    write(tmp_path / "u.json", {"evaluation_id": "e", "evaluation_results": results})
    assert dr.datasets.read_log(tmp_path)["score"].tolist() == [-2.0, 1.0]
    write(file, [*lines, lines[0] | {"evaluation_name": "other"}], lines=True)
    with pytest.raises(OptionError, match="'harm', 'other'"):
        dr.datasets.read_log(tmp_path)
    assert len(dr.datasets.read_log(tmp_path, metric="other")) == 1


def test_promptfoo_models_are_providers_and_prompts_if_there_are_several(tmp_path):
    def result(place, provider, label, **values):
        said = {"promptIdx": place, "testIdx": 0, "provider": {"id": provider}, "prompt": {"label": label, "raw": "r"}}
        return said | {"vars": {"b": 1, "a": "x"}, "score": 1, "namedScores": {"tone": 0.5, "facts": 1}} | values

    rows = [result(0, "x", "p"), result(1, "y", "p", score=0, failureReason=1), result(0, "x", "p", score=None)]
    log = {"evalId": "e", "results": {"version": 3, "results": rows}, "config": {"description": "sums"}}
    table = dr.datasets.read_log(write(tmp_path / "one" / "out.json", log))
    # promptIdx counts pairs of provider and prompt: it says nothing of the number of prompts.
    assert table["model"].tolist() == ["x", "y", "x"]
    assert table["score"].tolist()[:2] == [1, 0]
    assert table["error"][2] == "no score"
    assert table["prompt"].unique().tolist() == ['sums/{"a": "x", "b": 1}']
    # Runs are counted over files.
    write(tmp_path / "one" / "again.json", log)
    assert dr.datasets.read_log(tmp_path / "one")["run"].max() == 4
    assert dr.datasets.read_log(tmp_path / "one" / "out.json", metric="tone")["score"].tolist() == [0.5] * 3
    with pytest.raises(OptionError, match="'facts', 'tone'"):
        dr.datasets.read_log(tmp_path / "one", metric="other")
    log["results"]["results"] = [result(0, "x", "p"), result(1, "x", "q")]
    assert dr.datasets.read_log(write(tmp_path / "two.json", log))["model"].tolist() == ["x x p", "x x q"]


# --- what holds for all ---


def test_unknown_files_kinds_and_mixtures_are_named(tmp_path):
    for nothing in (tmp_path, tmp_path / "nothing.eval"):
        with pytest.raises(DataError):
            dr.datasets.read_log(nothing)
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


def test_names_in_metadata_do_not_take_the_place_of_columns(tmp_path):
    wrong = {"score": 0.1, "model": "other", "prompt": "p", "task": "t", "run": 9, "error": "none", "domain": "bio"}
    sample = {"id": 1, "epoch": 1, "metadata": wrong, "scores": {"s": {"value": "C"}}}
    table = dr.read_log(eval_file(tmp_path / "x.eval", samples=[sample]))
    assert table.loc[0, ["prompt", "model", "score", "run", "task"]].tolist() == ["gpqa/1", "acme/m7b", 1.0, 1, "gpqa"]
    assert table["error"].isna().all()
    assert table.loc[0, ["log_score", "log_model", "domain"]].tolist() == [0.1, "other", "bio"]
    row = {"provider": {"id": "x"}, "vars": {"q": "1"}, "score": 1, "namedScores": {"score": 0.2, "cost": 7}, "cost": 3}
    table = dr.read_log(write(tmp_path / "results.json", {"results": {"results": [row]}}))
    assert table.loc[0, ["score", "log_score", "cost", "log_cost"]].tolist() == [1, 0.2, 3, 7]


def test_a_kind_is_recognised_behind_a_long_document(tmp_path):
    log = harness(tmp_path, lines=[LINE | {"doc": {"question": "x" * 100_000}}])
    assert dr.read_log(log).attrs["report"]["kind"] == "lm_eval"


def test_errors_are_said_in_a_few_words(tmp_path):
    failed = {"id": 1, "epoch": 1, "scores": None, "error": {"message": "boom", "traceback": "line " * 1000}}
    limited = {"id": 2, "epoch": 1, "scores": None, "limit": {"type": "token", "limit": 10}}
    table = dr.read_log(write(tmp_path / "x.json", HEADER | {"samples": [failed, limited]}))
    assert table.attrs["report"]["errors"] == {"boom": 1, "token": 1}


def test_scores_are_the_numbers_that_the_harnesses_print(tmp_path):
    rng = np.random.default_rng(12)
    models = {"x": 0.7, "y": 0.5, "z": 0.4}
    printed, errors = {}, {}
    for model, share in models.items():
        scores = (rng.random(50) < share).astype(float)
        lines = [LINE | {"doc_id": i, "doc_hash": f"h{i}", "exact_match": s} for i, s in enumerate(scores)]
        harness(tmp_path / "lm", model=model, lines=lines)
        # lm-evaluation-harness: the mean, and the sample's standard deviation over the root of n.
        printed[model], errors[model] = scores.mean(), scores.std(ddof=1) / np.sqrt(50)
    res = dr.dml_rank(**in_objects({"data": (table := dr.read_log(tmp_path / "lm")), **table.attrs["report"]["fit"]}))
    np.testing.assert_allclose(res.params[list(models)], list(printed.values()))
    np.testing.assert_allclose(res.bse[list(models)], list(errors.values()), rtol=0.02)
    preferences = {model: 1 + rng.random(50) for model in models}
    for model, values in preferences.items():
        base = {"generator_1": "base", "generator_2": model, "annotator": "j", "dataset": "d"}
        records = [base | {"instruction": f"i{i}", "preference": value} for i, value in enumerate(values)]
        write(tmp_path / "alpaca" / model / "annotations.json", records)
    table = dr.read_log(tmp_path / "alpaca")
    assert table.attrs["report"]["fit"]["functional"] == "bt"
    # AlpacaEval's win rate is the mean of preference - 1.
    rates = 1 - table.groupby("model_b")["winner"].mean()
    np.testing.assert_allclose(rates[list(models)], [np.mean(preferences[model] - 1) for model in models])


def test_verdicts_of_arena_hard_give_the_score_that_it_prints(tmp_path):
    rng = np.random.default_rng(13)
    worth = {"A>B": [1], "A>>B": [1] * 3, "A=B": [0.5], "A<B": [0], "B>A": [0], "A<<B": [0] * 3, "B>>A": [0] * 3}
    games = [[{"score": s} for s in rng.choice(list(worth), 2)] for _ in range(60)]
    base = {"judge": "j", "model": "m", "baseline": "b"}
    records = [base | {"uid": f"u{i}", "games": two} for i, two in enumerate(games)]
    # Its score of a model: strong verdicts count three times; the model is B in the first game and A in the second.
    printed = [one for two in games for one in [1 - s for s in worth[two[0]["score"]]] + worth[two[1]["score"]]]
    table = dr.read_log(write(tmp_path / "m.jsonl", records, lines=True))
    first = table["winner"].map({"model_a": 1.0, "tie": 0.5, "model_b": 0.0})
    share = first.where(table["model_a"] == "m", 1 - first)
    times = table["grade"].str.contains(">>|<<").map({True: 3, False: 1})
    assert np.average(share, weights=times) == pytest.approx(np.mean(printed))


# --- the command line ---


@pytest.fixture(scope="module")
def inspect_logs(tmp_path_factory):
    """Return a folder with logs of three models, two runs of 40 samples each."""
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(5)
    for model, share in {"acme/large": 0.7, "acme/small": 0.55, "base": 0.4}.items():
        right = np.where(rng.random((40, 2)) < share, "C", "I")
        values = [(*place, {"match": {"value": str(value)}}) for place, value in np.ndenumerate(right)]
        samples = [{"id": i, "epoch": run + 1, "scores": scores} for i, run, scores in values]
        header = HEADER | {"eval": {"task": "t", "model": model}}
        eval_file(folder / f"{model.replace('/', '__')}.eval", header, samples)
    return folder


def test_commands_on_logs_say_what_they_read_and_agree_with_python(inspect_logs, tmp_path, capsys):
    folder = inspect_logs
    assert main(["check", str(folder)]) == 0
    shown = capsys.readouterr()
    assert "Common prompts:" in shown.out
    assert "read as: 'score ~ 1 | model' --context prompt --run run" in shown.err
    pattern, stored = str(folder / "*.eval"), tmp_path / "res.json"
    assert main(["fit", "score ~ 1 | model", pattern, "--scorer", "match", "--out", str(stored)]) == 0
    table = dr.read_log(folder)
    fit = table.attrs["report"]["fit"]
    res = dr.dml_rank(**in_objects({"data": table, **fit}))
    np.testing.assert_allclose(dr.read_json(stored).params, res.params)
    # inspect_ai's accuracy: the mean over samples of the mean over epochs.
    printed = table.groupby(["model", "prompt"])["score"].mean().groupby("model").mean()
    np.testing.assert_allclose(res.params[printed.index], printed)
    assert main(["compare", "score ~ 1 | model", str(folder), "--functional", "mean", "borda"]) == 0
    assert main(["gate", str(folder), "--candidate", "acme/large", "--baseline", "base", "--margin", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("pass: acme/large")


def test_a_table_without_a_formula_and_a_wrong_option_are_explained(inspect_logs, tmp_path, printed):
    (tmp_path / "votes.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    for words, message in (
        (["fit", str(tmp_path / "votes.csv")], "a table needs a formula"),
        (["fit", str(tmp_path / "nothing")], "there is no file or folder"),
        (["fit", str(inspect_logs), "--scorer", "other"], "it has 'match'"),
        (["check", str(inspect_logs), "--metric", "acc"], "says nothing about a log of inspect"),
        (["fit", str(inspect_logs), "--kind", "lm_eval"], "it holds logs of 'inspect'"),
        (["fit", str(write(tmp_path / "table.jsonl", [{"a": 1}]))], "a table needs a formula"),
    ):
        assert message in printed(words, 1)
    assert "a pattern such as" in printed(["fit", "a.eval", "b.eval", "c.eval"], 1)

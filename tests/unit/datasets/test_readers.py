"""The readers on small files in every format they know, on broken ones, and on the real data where it is at hand."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dmlrank.datasets import read_chatbot_arena, read_mt_bench
from dmlrank.exceptions import ColumnError, DataError

VOTES = [
    {"judge": judge, "model_a": a, "model_b": b, "question_id": question, "turn": turn, "winner": winner}
    for judge, a, b, question, turn, winner in (
        ("expert_1", "gpt-4", "llama-13b", 81, 1, "model_a"),
        ("expert_2", "gpt-4", "llama-13b", 81, 2, "tie"),
        ("gpt4_pair", "b", "a", 90, 1, "tie (inconsistent)"),
    )
]
QUESTIONS = [
    {"question_id": 90, "category": "math", "turns": ["What is 1 + 1?", "And 2 + 2?"]},
    {"question_id": 81, "category": "writing", "turns": ["Write a letter.", "Rewrite it in Caf\u00e9 style.\u2028"]},
]
MT_COLUMNS = ["question_id", "turn", "judge", "model_a", "model_b", "winner"]


def write_lines(path, records):
    path.write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "\n\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "human.jsonl", VOTES)
    write_lines(tmp_path / "question.jsonl", QUESTIONS)
    return tmp_path


def test_a_folder_of_mt_bench_is_joined_with_its_questions(folder):
    votes = read_mt_bench(folder)
    assert list(votes) == [*MT_COLUMNS, "category", "prompt"]
    assert votes["category"].tolist() == ["writing", "writing", "math"]
    assert votes["prompt"].tolist() == ["Write a letter.", "Rewrite it in Caf\u00e9 style.\u2028", "What is 1 + 1?"]
    assert votes["winner"].tolist() == ["model_a", "tie", "tie (inconsistent)"]
    assert votes["question_id"].tolist() == [81, 81, 90]


def test_a_judges_own_file_becomes_one_vote_per_pair(tmp_path):
    verdicts = [
        ("model_1", "model_1", "model_a"),
        ("model_2", "model_2", "model_b"),
        ("tie", "tie", "tie"),
        ("model_1", "model_2", "tie (inconsistent)"),
        ("tie", "model_2", "tie (inconsistent)"),
        ("error", "model_2", None),
        ("error", "error", None),
    ]
    common = {"question_id": 81, "model_1": "gpt-4", "model_2": "llama-13b", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    records = [common | {"g1_winner": one, "g2_winner": two, "tstamp": 1.5} for one, two, _ in verdicts]
    votes = read_mt_bench(write_lines(tmp_path / "gpt-4_pair.jsonl", records))
    assert list(votes) == MT_COLUMNS
    assert votes["judge"].unique().tolist() == ["gpt-4, pair-v2"]
    assert votes["model_b"].unique().tolist() == ["llama-13b"]
    assert [None if pd.isna(winner) else winner for winner in votes["winner"]] == [winner for *_, winner in verdicts]


def test_votes_about_unknown_questions_and_turns_are_named(folder):
    write_lines(folder / "human.jsonl", [VOTES[0] | {"question_id": 7}])
    with pytest.raises(DataError):
        read_mt_bench(folder)
    write_lines(folder / "human.jsonl", [VOTES[0] | {"turn": 3}])
    with pytest.raises(DataError, match="2 turns"):
        read_mt_bench(folder)
    write_lines(folder / "human.jsonl", VOTES)
    write_lines(folder / "question.jsonl", QUESTIONS * 2)
    with pytest.raises(DataError):
        read_mt_bench(folder)


BATTLES = [
    {"num": 0, "question_id": "f0", "model_a": "koala-13b", "model_b": "gpt-4", "winner": "model_b"},
    {"num": 1, "question_id": "f1", "model_a": "gpt-4", "model_b": "koala-13b", "winner": "tie (bothbad)"},
]


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_battles_are_read_from_lines_and_from_an_array(tmp_path, array, mark):
    file = tmp_path / "human.json"
    text = json.dumps(BATTLES, indent=2) if array else "\n".join(map(json.dumps, BATTLES))
    file.write_text(mark + text, encoding="utf-8")
    battles = read_chatbot_arena(str(file))
    assert list(battles) == ["question_id", "model_a", "model_b", "winner", "num"]
    assert battles["winner"].tolist() == ["model_b", "tie (bothbad)"]
    assert battles["question_id"].tolist() == ["f0", "f1"]


def test_conversations_become_the_prompt(tmp_path):
    turns = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "First question"},
        {"role": "assistant", "content": "Answer"},
        {"role": "user", "content": "Second question"},
    ]
    common = {"judge": "arena_user_1", "turn": 2, "language": "English", "tstamp": 1682351591.1}
    records = [
        BATTLES[0] | common | {"conversation_a": turns, "conversation_b": turns, "toxic": {"flagged": False}},
        BATTLES[1] | common | {"conversation_a": [], "conversation_b": turns, "toxic": None},
    ]
    battles = read_chatbot_arena(write_lines(tmp_path / "arena.jsonl", records))
    front = ["question_id", "model_a", "model_b", "winner", "judge", "turn", "language", "tstamp", "prompt"]
    assert list(battles) == [*front, "num"]
    assert battles["prompt"][0] == "First question"
    assert pd.isna(battles["prompt"][1])


@pytest.mark.parametrize("read", [read_mt_bench, read_chatbot_arena])
def test_a_missing_file_is_named(read, folder):
    with pytest.raises(DataError, match=r"humans\.jsonl"):
        read(folder / "humans.jsonl")
    with pytest.raises(DataError):
        read(folder / "no" / "such" / "file.json")
    with pytest.raises(DataError):
        read_mt_bench(folder, questions=folder / "q.jsonl")
    with pytest.raises(DataError):
        read_chatbot_arena(folder)


@pytest.mark.parametrize("read", [read_mt_bench, read_chatbot_arena])
def test_a_missing_column_is_named_with_what_is_there(read, tmp_path):
    record = {"question_id": 1, "model_a": "a", "model_b": "b", "win": "tie"}
    with pytest.raises(ColumnError, match="win"):
        read(write_lines(tmp_path / "votes.jsonl", [record]))
    with pytest.raises(ColumnError, match="model_a"):
        read(write_lines(tmp_path / "votes.jsonl", [{"question_id": 1, "winner": "tie"}]))


@pytest.mark.parametrize("read", [read_mt_bench, read_chatbot_arena])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": ', "line 2"),
        (b'[{"a": 1}', "as JSON fails"),
        (b"question_id,winner\n1,tie\n", "line 1"),
        (b"", "no records"),
        (b"[1, 2]", "JSON objects"),
        (b"\xff\xfe\x00", "utf-8"),
    ],
)
def test_a_file_that_is_no_json_says_where(read, content, message, tmp_path):
    file = tmp_path / "votes.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(file)


@pytest.fixture(scope="module")
def real():
    folder = os.environ.get("DMLRANK_DATA")
    if not folder:
        pytest.skip("DMLRANK_DATA is not set: the real data are not at hand")
    return Path(folder)


def agreement(one, other):
    """Share of equal labels and Cohen's kappa."""
    table = pd.crosstab(one, other, normalize=True)
    labels = table.index.union(table.columns)
    table = table.reindex(index=labels, columns=labels, fill_value=0.0).to_numpy()
    chance = table.sum(axis=0) @ table.sum(axis=1)
    return np.trace(table), (np.trace(table) - chance) / (1 - chance)


def majority(votes):
    """The label of each (question, turn, unordered pair): first by name, second by name or tie."""
    swap = votes["model_a"] > votes["model_b"]
    sign = votes["winner"].map({"model_a": 1, "model_b": -1}).fillna(0).astype(int).where(~swap, lambda s: -s)
    pair = votes["model_a"].where(~swap, votes["model_b"]) + "|" + votes["model_b"].where(~swap, votes["model_a"])
    counts = pd.crosstab([votes["question_id"], votes["turn"], pair.rename("pair")], sign)
    top = counts.eq(counts.max(axis=1), axis=0)
    return top.idxmax(axis=1).where(top.sum(axis=1) == 1, 0)


def test_mt_bench_gives_the_published_agreement(real):
    human = read_mt_bench(real / "mt_bench")
    judge = read_mt_bench(real / "mt_bench" / "gpt4_pair.jsonl")
    assert human.shape == (3355, 8)
    assert human.notna().all(axis=None)
    assert (human["judge"].nunique(), human["category"].nunique(), judge.shape) == (65, 8, (2400, 8))
    assert judge["winner"].eq("tie (inconsistent)").sum() == 380
    both = pd.concat([majority(human), majority(judge)], axis=1, keys=["human", "judge"]).dropna()
    assert len(both) == 1814
    assert agreement(both["human"], both["judge"]) == pytest.approx((0.672, 0.505), abs=6e-4)
    decided = both[(both != 0).all(axis=1)]
    assert len(decided) == 1078
    assert agreement(decided["human"], decided["judge"]) == pytest.approx((0.884, 0.767), abs=6e-4)


@pytest.mark.parametrize("name", ["human", "gpt-4-0125-preview", "gpt-3.5-turbo"])
@pytest.mark.long
def test_chatbot_arena_has_its_battles(real, name):
    battles = read_chatbot_arena(real / "chatbot_arena" / f"{name}.json")
    assert list(battles) == ["question_id", "model_a", "model_b", "winner", "num"]
    assert len(battles) == 26_919
    assert len({*battles["model_a"], *battles["model_b"]}) == 20
    assert battles["question_id"].duplicated().sum() == 9
    assert set(battles["winner"]) == {"model_a", "model_b", "tie"} | ({"tie (bothbad)"} if name == "human" else set())

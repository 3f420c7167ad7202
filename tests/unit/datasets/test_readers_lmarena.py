"""LMArena's parquet files: a fixture in the schema of each of the two published files, nested types included."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import ColumnError, DataError, OutcomeError
from dmlrank.options import in_objects

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CRITERIA = [
    "specificity",
    "domain_knowledge",
    "complexity",
    "problem_solving",
    "creativity",
    "technical_accuracy",
    "real_world",
]


def struct(**fields):
    return pa.struct(list(fields.items()))


def booleans(*names):
    return pa.struct([(name, pa.bool_()) for name in names])


def metadata_type(integer, *, first=()):
    """Counts of both sides, with headers, lists and bold passages by kind."""
    headers, lists = (
        pa.struct([(name, pa.int64()) for name in names])
        for names in (["h1", "h2", "h3", "h4", "h5", "h6"], ["ordered", "unordered"])
    )
    bold, fields = pa.struct([("**", pa.int64()), ("__", pa.int64())]), list(first)
    for side in "ab":
        fields += [(f"sum_assistant_{side}_tokens", integer), (f"header_count_{side}", headers)]
        fields += [(f"list_count_{side}", lists), (f"bold_count_{side}", bold), (f"context_{side}_tokens", integer)]
    return pa.struct([*fields, ("sum_user_tokens", integer), ("turns", integer)])


PART = struct(type=pa.string(), text=pa.string(), image=pa.string(), mimeType=pa.string())
TURN = struct(role=pa.string(), content=pa.list_(PART))
TAGS = pa.struct(
    [
        ("creative_writing_v0.1", struct(creative_writing=pa.bool_(), score=pa.string())),
        ("criteria_v0.1", booleans(*CRITERIA)),
        ("if_v0.1", pa.struct([("if", pa.bool_()), ("score", pa.int64())])),
        ("math_v0.1", booleans("math")),
    ]
)
SCHEMA_140K = pa.schema(
    [
        ("id", pa.string()),
        ("model_a", pa.string()),
        ("model_b", pa.string()),
        ("winner", pa.string()),
        ("evaluation_session_id", pa.string()),
        ("evaluation_order", pa.int32()),
        ("conversation_a", pa.list_(TURN)),
        ("conversation_b", pa.list_(pa.struct([*TURN, pa.field("num_tokens", pa.int32())]))),
        ("full_conversation", pa.list_(struct(user=TURN, model_side_a=TURN, model_side_b=TURN))),
        ("conv_metadata", metadata_type(pa.int32())),
        ("category_tag", TAGS),
        ("language", pa.string()),
        ("is_code", pa.bool_()),
        ("timestamp", pa.string()),
    ]
)
OLD_TURN = struct(role=pa.string(), content=pa.string(), num_tokens=pa.int64())
SCHEMA_100K = pa.schema(
    [
        ("question_id", pa.string()),
        ("model_a", pa.string()),
        ("model_b", pa.string()),
        ("winner", pa.string()),
        ("judge_hash", pa.string()),
        ("conversation_a", pa.list_(OLD_TURN)),
        ("conversation_b", pa.list_(OLD_TURN)),
        ("turn", pa.int64()),
        ("anony", pa.bool_()),
        ("language", pa.string()),
        ("tstamp", pa.float64()),
        ("conv_metadata", metadata_type(pa.int64())),
        ("is_code", pa.bool_()),
        ("is_refusal", pa.bool_()),
        ("dedup_tag", booleans("high_freq", "sampled")),
        ("category_tag", TAGS),
    ]
)
ANSWERS = ["# Title\n**bold** text\n- one\n- two", "Plain words.", "```py\nx = 1\n```\nDone **now**", ""]


def draw_votes(n, rng):
    """What both files say about n votes, in plain Python."""
    models = np.array(["gpt-4o", "llama-4", "claude-4", "qwen-3"])
    votes = []
    for i in range(n):
        pair = rng.choice(4, 2, replace=False)
        votes.append(
            {
                "key": f"vote-{i:03d}",
                "models": models[pair].tolist(),
                "session": f"s{i // 3}",
                "prompt": f"Question {i}\nWhy?",
                "answers": [ANSWERS[rng.integers(4)] for _ in range(2)],
                "criteria": (rng.random(7) < 0.8).tolist(),
                "creative": bool(rng.random() < 0.3),
                "if": bool(rng.random() < 0.4),
                "math": bool(rng.random() < 0.2),
                "is_code": bool(rng.random() < 0.5),
                "language": str(rng.choice(["en", "zh", "de"])),
                "tokens": rng.integers(1, 900, size=2).tolist(),
                "headers": rng.integers(0, 4, size=(2, 6)).tolist(),
                "lists": rng.integers(0, 9, size=(2, 2)).tolist(),
                "bold": rng.integers(0, 9, size=(2, 2)).tolist(),
                "label": int(rng.integers(4)),
            }
        )
    return votes


def metadata(vote):
    cell = {"sum_user_tokens": 7, "turns": 1}
    for number, side in enumerate("ab"):
        cell[f"sum_assistant_{side}_tokens"] = vote["tokens"][number]
        cell[f"context_{side}_tokens"] = 3
        cell[f"header_count_{side}"] = {f"h{level + 1}": n for level, n in enumerate(vote["headers"][number])}
        cell[f"list_count_{side}"] = dict(zip(("ordered", "unordered"), vote["lists"][number], strict=True))
        cell[f"bold_count_{side}"] = dict(zip(("**", "__"), vote["bold"][number], strict=True))
    return cell


def tags(vote):
    return {
        "creative_writing_v0.1": {"creative_writing": vote["creative"], "score": "no"},
        "criteria_v0.1": dict(zip(CRITERIA, vote["criteria"], strict=True)),
        "if_v0.1": {"if": vote["if"], "score": 3},
        "math_v0.1": {"math": vote["math"]},
    }


def row_140k(vote):
    def turn(role, *texts):
        parts = [{"type": "text", "text": text, "image": None, "mimeType": None} for text in texts]
        return {"role": role, "content": parts}

    image = {"type": "image", "text": None, "image": "aGVsbG8=", "mimeType": "image/png"}
    user = turn("user", *vote["prompt"].split("\n"))
    user["content"].insert(1, image)
    sides = [[user, turn("assistant", answer)] for answer in vote["answers"]]
    both = {"user": user, "model_side_a": sides[0][1], "model_side_b": sides[1][1]}
    return {
        "id": vote["key"],
        "model_a": vote["models"][0],
        "model_b": vote["models"][1],
        "winner": ["model_a", "model_b", "tie", "both_bad"][vote["label"]],
        "evaluation_session_id": vote["session"],
        "evaluation_order": 1,
        "conversation_a": sides[0],
        "conversation_b": [{**turn, "num_tokens": 5} for turn in sides[1]],
        "full_conversation": [both],
        "conv_metadata": metadata(vote),
        "category_tag": tags(vote),
        "language": vote["language"],
        "is_code": vote["is_code"],
        "timestamp": "2025-05-29T14:48:41.602925",
    }


def row_100k(vote):
    def talk(answer):
        turns = [("user", vote["prompt"]), ("assistant", answer)]
        return [{"role": role, "content": text, "num_tokens": 4} for role, text in turns]

    return {
        "question_id": vote["key"],
        "model_a": vote["models"][0],
        "model_b": vote["models"][1],
        "winner": ["model_a", "model_b", "tie", "tie (bothbad)"][vote["label"]],
        "judge_hash": vote["session"],
        "conversation_a": talk(vote["answers"][0]),
        "conversation_b": talk(vote["answers"][1]),
        "turn": 1,
        "anony": True,
        "language": vote["language"],
        "tstamp": 1718000000.5,
        "conv_metadata": metadata(vote),
        "is_code": vote["is_code"],
        "is_refusal": False,
        "dedup_tag": {"high_freq": False, "sampled": True},
        "category_tag": tags(vote),
    }


FILES = {"140k": (SCHEMA_140K, row_140k), "100k": (SCHEMA_100K, row_100k)}


def write(path, schema, rows, **options):
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **options)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_a_published_file_becomes_a_frame(kind, tmp_path):
    schema, row = FILES[kind]
    votes = draw_votes(60, np.random.default_rng(0))
    frame = dr.datasets.read_arena(write(tmp_path / "votes.parquet", schema, map_rows(row, votes), row_group_size=17))
    assert list(frame)[:5] == ["question_id", "model_a", "model_b", "winner", "prompt"]
    assert frame["question_id"].tolist() == [vote["key"] for vote in votes]
    assert frame["prompt"].tolist() == [vote["prompt"] for vote in votes]
    assert frame["session"].tolist() == [vote["session"] for vote in votes]
    assert frame["language"].tolist() == [vote["language"] for vote in votes]
    assert pd.api.types.is_datetime64_any_dtype(frame["timestamp"])
    expected = {"creative_writing": "creative", "instruction_following": "if", "math": "math", "is_code": "is_code"}
    for name, key in expected.items():
        assert frame[name].dtype == bool
        assert frame[name].tolist() == [vote[key] for vote in votes]
    for number, name in enumerate(CRITERIA):
        assert frame[name].tolist() == [vote["criteria"][number] for vote in votes]
    assert frame["hard_prompt"].tolist() == [sum(vote["criteria"]) >= 6 for vote in votes]
    assert 0 < frame["hard_prompt"].mean() < 1
    assert not {"score", "conv_metadata", "conversation_a", "full_conversation"} & set(frame)


@pytest.mark.parametrize("kind", FILES)
def test_style_is_computed_from_the_counts_and_code_blocks_from_the_answers(kind, tmp_path):
    schema, row = FILES[kind]
    votes = draw_votes(40, np.random.default_rng(1))
    frame = dr.datasets.read_arena(write(tmp_path / "votes.parquet", schema, map_rows(row, votes)))
    tokens = np.array([vote["tokens"] for vote in votes])
    np.testing.assert_allclose(frame["log_length"], np.log(tokens[:, 0] / tokens[:, 1]), rtol=1e-12)
    for name in ("headers", "lists", "bold"):
        a, b = np.array([vote[name] for vote in votes]).sum(axis=2).T
        np.testing.assert_allclose(frame[name], (a - b) / (a + b + 1), rtol=1e-12)
    a, b = np.array([[answer.count("```") // 2 for answer in vote["answers"]] for vote in votes]).T
    np.testing.assert_allclose(frame["code_blocks"], (a - b) / (a + b + 1), rtol=1e-12)
    assert frame["code_blocks"].abs().sum() > 0


def map_rows(row, votes):
    return [row(vote) for vote in votes]


def test_a_folder_of_files_is_read_in_order_and_fits(tmp_path, ignore_warnings):
    votes = draw_votes(300, np.random.default_rng(3))
    write(tmp_path / "train-00001-of-00002.parquet", SCHEMA_140K, map_rows(row_140k, votes[180:]))
    write(tmp_path / "train-00000-of-00002.parquet", SCHEMA_140K, map_rows(row_140k, votes[:180]))
    frame = dr.datasets.read_arena(tmp_path)
    assert frame["question_id"].tolist() == [vote["key"] for vote in votes]
    cluster = {"cov_type": "cluster", "cov_kwds": {"groups": "session"}}
    res = dr.dml_rank(
        "winner ~ 1 | model_a + model_b", frame, **in_objects({"context": "question_id", "rng": 0, **cluster})
    )
    assert res.estimates.covariance.n_clusters == (100,)
    assert ("both_bad", "both_bad") in res.diagnostics.labels


def test_missing_cells_stay_missing(tmp_path):
    rows = map_rows(row_140k, draw_votes(4, np.random.default_rng(4)))
    rows[0]["conversation_a"] = None
    rows[1]["category_tag"] = None
    rows[2]["conv_metadata"] = None
    rows[3]["conversation_a"] = [rows[3]["conversation_a"][1]]
    frame = dr.datasets.read_arena(write(tmp_path / "votes.parquet", SCHEMA_140K, rows))
    assert frame["prompt"].isna().tolist() == [True, False, False, True]
    assert frame["math"].isna().tolist() == [False, True, False, False]
    assert frame["hard_prompt"].isna().tolist() == [False, True, False, False]
    assert frame["log_length"].isna().tolist() == [False, False, True, False]
    assert frame["code_blocks"].isna().tolist() == [True, False, False, False]
    write(tmp_path / "none.parquet", SCHEMA_140K, [row | {"conv_metadata": None} for row in rows])
    assert dr.datasets.read_arena(tmp_path / "none.parquet")["bold"].isna().all()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda t: t.drop(["winner"]), ColumnError),
        (lambda t: t.set_column(3, "winner", pa.array(["model_a", "A", None, "A"])), OutcomeError),
        (lambda t: t.set_column(6, "conversation_a", pa.array(['[{"role": "user"}]'] * 4)), DataError),
        (lambda t: t.set_column(9, "conv_metadata", pa.array([1, 2, 3, 4])), DataError),
        (lambda t: t.set_column(13, "timestamp", pa.array(["yesterday"] * 4)), DataError),
        (lambda t: t.slice(0, 0), DataError),
    ],
)
def test_files_that_cannot_be_used(change, error, tmp_path):
    rows = map_rows(row_140k, draw_votes(4, np.random.default_rng(6)))
    table = change(pa.Table.from_pylist(rows, schema=SCHEMA_140K))
    pq.write_table(table, tmp_path / "votes.parquet")
    with pytest.raises(error):
        dr.datasets.read_arena(tmp_path / "votes.parquet")


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError):
        dr.datasets.read_arena(tmp_path)
    (tmp_path / "votes.parquet").write_text("question_id,winner", encoding="utf-8")
    with pytest.raises(DataError):
        dr.datasets.read_arena(tmp_path / "votes.parquet")
    with pytest.raises(DataError, match=r"vote\.parquet"):
        dr.datasets.read_arena(tmp_path / "vote.parquet")
    rows = map_rows(row_140k, draw_votes(2, np.random.default_rng(7)))
    write(tmp_path / "votes.parquet", SCHEMA_140K, rows)
    write(tmp_path / "others.parquet", SCHEMA_100K, map_rows(row_100k, draw_votes(2, np.random.default_rng(7))))
    with pytest.raises(DataError):
        dr.datasets.read_arena(tmp_path)

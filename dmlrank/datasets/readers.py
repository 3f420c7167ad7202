"""Readers of public preference files: MT-Bench judgments and Chatbot Arena battles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_path, checked
from ..data.arrays import arrow_module
from ..data.frames import require_columns
from ..data.style_columns import style_columns, turn_texts
from ..exceptions import ColumnError, DataError, OutcomeError, failing_as, listed
from .log_files import read_lines

if TYPE_CHECKING:
    import pyarrow as pa

_ARENA_COLUMNS = ("question_id", "model_a", "model_b", "winner", "judge", "turn", "language", "tstamp", "prompt")
_LABEL_OF_VERDICT = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}


@checked
def read_mt_bench(path: str | os.PathLike[str], questions: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Read MT-Bench judgments, with the category and the prompt of each question where the questions file exists.

    Parameters
    ----------
    path : str or path
        A judgment file in JSON lines, or a folder with ``human.jsonl`` and perhaps ``question.jsonl``. Two kinds of
        judgment files can be read: published votes (columns ``model_a``, ``model_b``, ``winner``), and verdicts of a
        judge who saw each pair in both orders (columns ``model_1``, ``model_2``, ``g1_winner``, ``g2_winner``).
    questions : str or path, optional
        The questions file. By default it is ``question.jsonl`` in the same folder, if this file exists.

    Returns
    -------
    pandas.DataFrame
        One row per vote: ``question_id``, ``turn``, ``judge``, ``model_a``, ``model_b``, ``winner``, and with questions
        also ``category`` and ``prompt``, the text of the turn. A column that the file does not have is left out. The
        names of several judges are joined by a comma.

        The label ``tie (inconsistent)`` of a vote means that a verdict changed with the order of the answers;
        ``dml_rank`` reads it as a tie unless ``categories=`` gives it another meaning. A vote is missing if one of its
        verdicts could not be read. The order of the two models in a file of verdicts has no meaning.

    Raises
    ------
    DataError
        If a file does not exist or is no JSON, or the questions file lacks the question or turn of a vote.

    References
    ----------
    Zheng et al. (2023), Judging LLM-as-a-judge with MT-Bench and Chatbot Arena.

    Examples
    --------
    >>> import json, tempfile
    >>> vote = {"question_id": 81, "turn": 1, "judge": ["gpt-4", "pair-v2"], "winner": "tie"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "votes.jsonl"
    ...     _ = file.write_text(json.dumps(vote | {"model_a": "gpt-4", "model_b": "claude-v1"}))
    ...     read_mt_bench(file)["judge"].item()
    'gpt-4, pair-v2'
    """
    check_path(path)
    file = Path(path)
    if os.path.isdir(file):
        file /= "human.jsonl"
    votes = _read_records(file)
    if "winner" not in votes and {"model_1", "model_2", "g1_winner", "g2_winner"} <= set(votes):
        # One vote for the two verdicts of a judge who saw both orders.
        first, second = (votes[game].map(_LABEL_OF_VERDICT).astype(object) for game in ("g1_winner", "g2_winner"))
        winner = first.where(first == second, "tie (inconsistent)").where(first.notna() & second.notna())
        votes = votes.rename(columns={"model_1": "model_a", "model_2": "model_b"}).assign(winner=winner)
    require_columns(("question_id", "model_a", "model_b", "winner"), list(map(str, votes)), str(file))
    if "judge" in votes:
        votes["judge"] = votes["judge"].map(_judge_names)
    question_file = file.with_name("question.jsonl") if questions is None else Path(questions)
    if questions is not None or os.path.exists(question_file):
        votes = _with_questions(votes, question_file)
    columns = ("question_id", "turn", "judge", "model_a", "model_b", "winner", "category", "prompt")
    return votes[[column for column in columns if column in votes]]


@checked
def read_chatbot_arena(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read battles of the Chatbot Arena.

    Parameters
    ----------
    path : str or path
        A file of JSON lines or of one JSON array: the 33,000 conversations, a ``clean_battle`` file, or a file of
        judges' verdicts about the battles in one of these.

    Returns
    -------
    pandas.DataFrame
        One row per battle, in the order of the file. The columns ``question_id``, ``model_a``, ``model_b``,
        ``winner``, ``judge``, ``turn``, ``language``, ``tstamp`` and ``prompt`` come first, as far as the file has
        them, then its other columns. The first user turn of ``conversation_a`` becomes ``prompt``. Columns of lists or
        objects are left out. Labels are unchanged: ``model_a``, ``model_b``, ``tie``, ``tie (bothbad)``.

    Raises
    ------
    ColumnError, DataError
        If a column is missing, or the file does not exist or is neither JSON lines nor a JSON array of records.

    References
    ----------
    Zheng et al. (2023), Judging LLM-as-a-judge with MT-Bench and Chatbot Arena; Chiang et al. (2024), Chatbot Arena.

    Examples
    --------
    >>> import json, tempfile
    >>> battle = {"model_a": "gpt-4", "model_b": "koala-13b", "winner": "tie (bothbad)", "turn": 1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "clean_battle.json"
    ...     _ = file.write_text(json.dumps([battle]))
    ...     list(read_chatbot_arena(file))
    ['model_a', 'model_b', 'winner', 'turn']
    """
    check_path(path)
    battles = _read_records(Path(path))
    require_columns(("model_a", "model_b", "winner"), list(map(str, battles)), str(path))
    if "conversation_a" in battles and "prompt" not in battles:
        battles["prompt"] = battles["conversation_a"].map(_first_prompt, na_action="ignore")
    if "judge" in battles:
        battles["judge"] = battles["judge"].map(_judge_names)
    flat = [name for name in battles if not battles[name].map(lambda value: isinstance(value, list | dict)).any()]
    leading = [name for name in _ARENA_COLUMNS if name in flat]
    return battles[leading + [name for name in flat if name not in leading]]


def _read_records(file: Path) -> pd.DataFrame:
    """Return the records of a file of JSON lines or of a JSON array, one row each."""
    records = list(read_lines(file))
    if not records:
        raise DataError(f"{str(file)!r} holds no records; it must hold one JSON object for each vote")
    return pd.DataFrame(records)


def _with_questions(votes: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Return the votes with the category of their question and the prompt of their turn."""
    questions = _read_records(file)
    require_columns(("question_id", "category", "turns"), list(map(str, questions)), str(file))
    if questions["question_id"].duplicated().any():
        raise DataError(f"{str(file)!r} has several rows for one question_id; drop all but one")
    by_id = questions.set_index("question_id")
    unknown = votes.loc[~votes["question_id"].isin(by_id.index), "question_id"].unique()
    if len(unknown):
        raise DataError(f"{str(file)!r} has no question_id {listed(unknown)}, but there are votes on it")
    turns = votes["turn"] if "turn" in votes else pd.Series(1, index=votes.index)
    prompts, asked = [], votes["question_id"]
    for question, turn, texts in zip(asked, turns, by_id.loc[asked, "turns"], strict=True):
        if turn not in range(1, len(texts) + 1):
            raise DataError(f"question_id {question!r} has {len(texts)} turns in {str(file)!r}, a vote is on {turn!r}")
        prompts.append(texts[int(turn) - 1])
    return votes.assign(category=by_id.loc[asked, "category"].to_numpy(), prompt=prompts)


def _judge_names(judge: object) -> object:
    """Return the names of several judges joined by a comma, and anything else as it is."""
    return ", ".join(map(str, judge)) if isinstance(judge, list) else judge


def _first_prompt(conversation: object) -> str | None:
    """Return the text of the first turn of the user; None where there is none."""
    return next(iter(turn_texts(conversation, "user")), None)


# Number of rows that are read at a time. With long conversations these rows take some tens of megabytes.
_ROWS_PER_BATCH = 2_000
_WINNERS = ("model_a", "model_b", "tie", "both_bad", "tie (bothbad)")
# Columns of the result, each with the names that it may have in a file; the first name that a file has counts.
_REQUIRED = ("question_id", "model_a", "model_b", "winner")
_OTHERS = ("language", "session", "evaluation_order", "turn", "timestamp", "is_code", "is_refusal", "anony")
_PLAIN: dict[str, tuple[str, ...]] = {name: (name,) for name in (*_REQUIRED, *_OTHERS)} | {
    "question_id": ("question_id", "id"),
    "session": ("evaluation_session_id", "judge_hash", "judge"),
    "timestamp": ("timestamp", "tstamp"),
}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_METADATA = "conv_metadata"
_TAGS = ("category_tag", "dedup_tag")
# Names of columns for tags whose name in the files does not say what the tag means.
_TAG_NAMES = {"if": "instruction_following"}
_CRITERIA = (
    *("specificity", "domain_knowledge", "complexity", "problem_solving"),
    *("creativity", "technical_accuracy", "real_world"),
)
# Criteria that a prompt must meet to be a hard prompt on LMArena's leaderboards.
_HARD = 6
_STYLE = ("log_length", "headers", "bold", "lists", "code_blocks")


@checked
def read_arena(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read LMArena's published votes: the parquet files of 100,000 and of 140,000 human preferences.

    Files are read by column and in batches, so that memory holds a few thousand conversations at a time.

    Parameters
    ----------
    path : str or path
        A parquet file, or a folder whose parquet files are read in the order of their names.

    Returns
    -------
    pandas.DataFrame
        One row per vote, in the order of the file.

        - ``question_id``: identifier of the vote (``id`` in the file of 140,000).
        - ``model_a``, ``model_b``, ``winner``: as in the file.
        - ``prompt``: the text of the user's first turn, without images.
        - ``language``, ``evaluation_order``, ``turn``, ``timestamp``, ``is_code``, ``is_refusal``, ``anony``: as far as
          the file has them.
        - ``session``: votes that may depend on each other, for ``cov_kwds={"groups": "session"}``.
        - A column of booleans for each tag of the prompt: ``creative_writing``, ``math``, ``instruction_following`` and
          the seven criteria such as ``complexity``; ``hard_prompt`` says that six of the criteria hold. ``high_freq``
          and ``sampled`` are LMArena's marks of repeated prompts.
        - ``log_length``, ``headers``, ``bold``, ``lists``, ``code_blocks``: style of the first answer minus style of
          the second, as :func:`dmlrank.data.style_columns` defines it. Lengths (in tokens), headers, bold passages and
          lists come from the counts in ``conv_metadata`` where the file has them, else from the conversations.

    Raises
    ------
    ColumnError, DataError
        If there is no parquet file, a column is missing or has another form than LMArena's, or a winner is unknown.

    References
    ----------
    LMArena, datasets ``arena-human-preference-100k`` and ``arena-human-preference-140k`` (2024, 2025). Li, Chiang and
    Dunlap (2024), Introducing Hard Prompts Category in Chatbot Arena.

    Examples
    --------
    >>> import json, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> talk = [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
    >>> vote = {"id": "v1", "model_a": "gpt-4o", "model_b": "llama-4", "winner": "both_bad", "conversation_a": talk}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.Table.from_pylist([vote]), Path(folder) / "votes.parquet")
    ...     read_arena(folder).iloc[0].to_dict()
    {'question_id': 'v1', 'model_a': 'gpt-4o', 'model_b': 'llama-4', 'winner': 'both_bad', 'prompt': 'Hello?'}
    """
    arrow_module("a parquet file")
    check_path(path)
    folder = Path(path)
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not files:
        raise DataError(f"the folder {str(path)!r} has no file that ends with .parquet")
    parts = [part for file in files for part in _read_file(file)]
    columns = list(parts[0])
    other = next((part for part in parts if list(part) != columns), None)
    if other is not None:
        raise DataError(
            f"the parquet files in {str(path)!r} have different columns: {listed(set(columns) ^ set(other))} are not "
            f"in all; read the files one by one"
        )
    votes = pd.concat(parts, ignore_index=True)
    is_unknown = ~votes["winner"].isin(_WINNERS)
    if is_unknown.any():
        counts = votes.loc[is_unknown, "winner"].fillna("missing").value_counts()
        found = ", ".join(f"{label!r} in {count:,} rows" for label, count in counts.items())
        raise OutcomeError(f"{str(path)!r} has unknown winners: {found}; allowed: {listed(_WINNERS)}")
    return votes


def _read_file(path: Path) -> Iterator[pd.DataFrame]:
    """Yield the votes of one file, a batch of rows at a time."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    errors = (ArrowException, OSError)
    with failing_as(DataError, f"reading {str(path)!r} as a parquet file", errors), ParquetFile(path) as file:
        available = file.schema_arrow.names
        plain = {
            name: next(spelling for spelling in spellings if spelling in available)
            for name, spellings in _PLAIN.items()
            if any(spelling in available for spelling in spellings)
        }
        missing = [" or ".join(_PLAIN[name][::-1]) for name in _REQUIRED if name not in plain]
        if missing:
            raise ColumnError(f"{str(path)!r} has the columns {listed(available)}, but not {listed(missing)}")
        if not file.metadata.num_rows:
            raise DataError(f"{str(path)!r} holds no votes: it has no rows")
        nested = [name for name in (*_CONVERSATIONS, _METADATA, *_TAGS) if name in available]
        for batch in file.iter_batches(_ROWS_PER_BATCH, columns=[*plain.values(), *nested]):
            yield _frame(batch, plain)


def _frame(batch: pa.RecordBatch, plain: Mapping[str, str]) -> pd.DataFrame:
    """Return the votes of a batch of rows as a frame."""
    columns: dict[str, object] = {name: batch.column(spelling).to_pandas() for name, spelling in plain.items()}
    if "timestamp" in columns:
        columns["timestamp"] = _times(batch.column(plain["timestamp"]))
    conversations = {
        name: pd.Series(batch.column(name).to_pylist(), dtype=object)
        for name in _CONVERSATIONS
        if name in batch.schema.names
    }
    if "conversation_a" in conversations:
        prompts = conversations["conversation_a"].map(_first_prompt, na_action="ignore")
        columns = {name: columns[name] for name in _REQUIRED} | {"prompt": prompts} | columns
    columns |= _tags(batch)
    style: dict[str, pd.Series] = {}
    if len(conversations) == len(_CONVERSATIONS):
        style = _differences(pd.DataFrame(conversations), _CONVERSATIONS)
    if _METADATA in batch.schema.names:
        counts = pd.DataFrame({_METADATA: pd.Series(batch.column(_METADATA).to_pylist(), dtype=object)})
        style |= _differences(counts, _METADATA)
    return pd.DataFrame(columns | {name: style[name] for name in _STYLE if name in style})


def _times(column: pa.Array) -> pd.Series:
    """Return dates with times from texts, from timestamps, or from seconds since 1970."""
    from pyarrow import types

    values = column.to_pandas()
    if types.is_floating(column.type) or types.is_integer(column.type):
        return pd.to_datetime(values, unit="s")
    advice = "; it must be a time in ISO format, or seconds"
    with failing_as(DataError, "reading a timestamp", (ValueError, TypeError), advice):
        return pd.to_datetime(values, format="ISO8601")


def _tags(batch: pa.RecordBatch) -> dict[str, pd.Series]:
    """Return the boolean fields of the nested tags by name, and whether a prompt is hard."""
    from pyarrow import compute, types

    tags: dict[str, pd.Series] = {}
    columns = [(name, batch.column(name)) for name in _TAGS if name in batch.schema.names]
    while columns:
        group, column = columns.pop(0)
        if not types.is_struct(column.type):
            raise DataError(f"column {group!r} has the type {column.type}; it must be a struct of tags")
        inner = []
        for place in range(column.type.num_fields):
            field, values = column.type.field(place).name, compute.struct_field(column, [place])
            if types.is_struct(values.type):
                inner.append((field, values))
            elif types.is_boolean(values.type):
                name = _TAG_NAMES.get(field, field)
                tags[name if name not in tags else f"{name}_{group}"] = values.to_pandas()
        columns = inner + columns
    if set(_CRITERIA) <= set(tags):
        met = pd.concat([tags[name] for name in _CRITERIA], axis=1)
        is_hard = met.eq(True).sum(axis=1) >= _HARD
        tags["hard_prompt"] = is_hard.where(met.notna().all(axis=1), None) if met.isna().to_numpy().any() else is_hard
    return tags


def _differences(frame: pd.DataFrame, answers: str | Sequence[str]) -> dict[str, pd.Series]:
    """Return the columns of :func:`style_columns`; NaN in all of them where no row of the batch has both answers."""
    if frame.isna().to_numpy().any(axis=1).all():
        names = _STYLE if len(frame.columns) > 1 else _STYLE[:-1]
        return {name: pd.Series(np.nan, index=frame.index) for name in names}
    table = style_columns(frame, answers)
    return {str(name): table[name] for name in table if name not in frame}

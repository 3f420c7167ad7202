"""Readers of public preference files: MT-Bench judgments and Chatbot Arena battles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from ..exceptions import ColumnError, DataError, listed, nearest

__all__ = ["read_chatbot_arena", "read_mt_bench"]

_ARENA_COLUMNS = ("question_id", "model_a", "model_b", "winner", "judge", "turn", "language", "tstamp", "prompt")
_BOTH_ORDERS = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}


class DataFileNotFoundError(DataError, FileNotFoundError):
    """A data file that was named does not exist."""


def read_mt_bench(path: str | os.PathLike[str], questions: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Read MT-Bench judgments, with category and prompt where the questions are at hand.

    Parameters
    ----------
    path : str or path
        A judgment file in JSON lines, or a folder with ``human.jsonl`` and perhaps ``question.jsonl``. Both the
        published votes (``model_a``, ``model_b``, ``winner``) and the judges' own files (``model_1``, ``model_2``,
        ``g1_winner``, ``g2_winner``) are read.
    questions : str or path, optional
        The questions file; by default ``question.jsonl`` in the same folder, if there is one.

    Returns
    -------
    pandas.DataFrame
        One row per vote: ``question_id``, ``turn``, ``judge``, ``model_a``, ``model_b``, ``winner``, and with questions
        also ``category`` and ``prompt``, the text of that turn. A column that the file does not have is left out. A
        list of judge names is joined by a comma. The label ``tie (inconsistent)``, a verdict that flipped with the
        order of the answers, is kept: ``dml_rank`` needs ``categories=`` to be told what it means. In the judges'
        own files two verdicts that differ get this label, a verdict that could not be read makes the vote missing, and
        the order of the two models says nothing: both orders were judged.

    Raises
    ------
    FileNotFoundError
        If a file does not exist (a :class:`DataError`, too).
    ColumnError
        If a needed column is missing.
    DataError
        If a file is not JSON lines, or a vote is about a question or turn that the questions file does not have.

    References
    ----------
    Zheng et al. (2023), Judging LLM-as-a-judge with MT-Bench and Chatbot Arena.

    Examples
    --------
    >>> import tempfile
    >>> vote = {"question_id": 81, "turn": 1, "judge": ["gpt-4", "pair-v2"], "winner": "tie"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "votes.jsonl"
    ...     _ = file.write_text(json.dumps(vote | {"model_a": "gpt-4", "model_b": "claude-v1"}))
    ...     read_mt_bench(file)["judge"].item()
    'gpt-4, pair-v2'
    """
    file = Path(path)
    if file.is_dir():
        file /= "human.jsonl"
    votes = _reconciled(_read_records(file))
    _require(votes, ("question_id", "model_a", "model_b", "winner"), file)
    if "judge" in votes:
        votes["judge"] = votes["judge"].map(_joined)
    asked = file.with_name("question.jsonl") if questions is None else Path(questions)
    if questions is not None or asked.exists():
        votes = _with_questions(votes, asked)
    columns = ("question_id", "turn", "judge", "model_a", "model_b", "winner", "category", "prompt")
    return votes[[column for column in columns if column in votes]]


def read_chatbot_arena(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read battles of the Chatbot Arena.

    Parameters
    ----------
    path : str or path
        JSON lines or one JSON array: the 33,000 conversations, the ``clean_battle`` dumps, or verdicts about either.

    Returns
    -------
    pandas.DataFrame
        One row per battle, in the file's order: those of ``question_id``, ``model_a``, ``model_b``, ``winner``,
        ``judge``, ``turn``, ``language``, ``tstamp`` and ``prompt`` that the file has, then its other columns. The
        first user turn of ``conversation_a`` becomes ``prompt``; columns that hold lists or objects are left out.
        Labels are kept as they are: ``model_a``, ``model_b``, ``tie``, ``tie (bothbad)``.

    Raises
    ------
    FileNotFoundError
        If the file does not exist (a :class:`DataError`, too).
    ColumnError
        If ``model_a``, ``model_b`` or ``winner`` is missing.
    DataError
        If the file is neither JSON lines nor a JSON array of records.

    References
    ----------
    Zheng et al. (2023), Judging LLM-as-a-judge with MT-Bench and Chatbot Arena; Chiang et al. (2024), Chatbot Arena.

    Examples
    --------
    >>> import tempfile
    >>> battle = {"model_a": "gpt-4", "model_b": "koala-13b", "winner": "tie (bothbad)", "turn": 1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "clean_battle.json"
    ...     _ = file.write_text(json.dumps([battle]))
    ...     list(read_chatbot_arena(file))
    ['model_a', 'model_b', 'winner', 'turn']
    """
    file = Path(path)
    battles = _read_records(file)
    _require(battles, ("model_a", "model_b", "winner"), file)
    if "conversation_a" in battles and "prompt" not in battles:
        battles["prompt"] = battles["conversation_a"].map(_first_user_turn)
    if "judge" in battles:
        battles["judge"] = battles["judge"].map(_joined)
    flat = [name for name in battles if not battles[name].map(lambda value: isinstance(value, list | dict)).any()]
    known = [name for name in _ARENA_COLUMNS if name in flat]
    return battles[known + [name for name in flat if name not in known]]


def _read_records(file: Path) -> pd.DataFrame:
    """The records of a JSON lines file or of a JSON array, one row each."""
    if not file.is_file():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        what = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise DataFileNotFoundError(f"{str(file)!r} {what}{nearest(file.name, beside)}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{str(file)!r} is not a text file in UTF-8: {error}") from error
    records = _parse_array(text, file) if text.lstrip().startswith("[") else _parse_lines(text, file)
    if not records:
        raise DataError(f"{str(file)!r} holds no records")
    if not all(isinstance(record, dict) for record in records):
        raise DataError(f"{str(file)!r} must hold JSON objects, one per vote")
    return pd.DataFrame(records)


def _parse_array(text: str, file: Path) -> list:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{str(file)!r} starts like a JSON array but is none: {error}") from error


def _parse_lines(text: str, file: Path) -> list:
    records = []
    # Not splitlines(): a JSON string may hold a line separator such as U+2028 as it is.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{str(file)!r} is neither JSON lines nor a JSON array; line {number}: {error}"
                ) from error
    return records


def _require(frame: pd.DataFrame, needed: tuple[str, ...], file: Path) -> None:
    missing = [name for name in needed if name not in frame]
    if missing:
        hint = nearest(missing[0], [name for name in frame if name not in needed])
        raise ColumnError(
            f"{str(file)!r} has the columns {listed(frame)}; needed are {listed(needed)}, "
            f"and {listed(missing)} is not there{hint}"
        )


def _reconciled(votes: pd.DataFrame) -> pd.DataFrame:
    """Votes of a judge who saw both orders as one vote each; other votes as they are."""
    if "winner" in votes or not {"model_1", "model_2", "g1_winner", "g2_winner"} <= set(votes):
        return votes
    one, two = (votes[game].map(_BOTH_ORDERS).astype(object) for game in ("g1_winner", "g2_winner"))
    winner = one.where(one == two, "tie (inconsistent)").where(one.notna() & two.notna())
    return votes.rename(columns={"model_1": "model_a", "model_2": "model_b"}).assign(winner=winner)


def _with_questions(votes: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Votes with the category of their question and the prompt of their turn."""
    questions = _read_records(file)
    _require(questions, ("question_id", "category", "turns"), file)
    if questions["question_id"].duplicated().any():
        raise DataError(f"{str(file)!r} has more than one row for some question_id")
    by_id = questions.set_index("question_id")
    unknown = votes.loc[~votes["question_id"].isin(by_id.index), "question_id"].unique()
    if len(unknown):
        raise DataError(f"{str(file)!r} has no question_id {listed(unknown)}, about which there are votes")
    turns = votes["turn"] if "turn" in votes else pd.Series(1, index=votes.index)
    asked = by_id.loc[votes["question_id"], "turns"]
    for question, turn, texts in zip(votes["question_id"], turns, asked, strict=True):
        if turn not in range(1, len(texts) + 1):
            raise DataError(f"question_id {question!r} has {len(texts)} turns in {str(file)!r}, a vote is on {turn!r}")
    return votes.assign(
        category=by_id.loc[votes["question_id"], "category"].to_numpy(),
        prompt=[texts[int(turn) - 1] for turn, texts in zip(turns, asked, strict=True)],
    )


def _joined(judge: object) -> object:
    return ", ".join(map(str, judge)) if isinstance(judge, list) else judge


def _first_user_turn(conversation: object) -> object:
    turns = conversation if isinstance(conversation, list) else []
    return next((turn.get("content") for turn in turns if isinstance(turn, dict) and turn.get("role") == "user"), None)

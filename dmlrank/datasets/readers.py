"""Readers of public preference files: MT-Bench judgments and Chatbot Arena battles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from ..exceptions import ColumnError, DataError, listed, nearest

__all__ = ["read_chatbot_arena", "read_mt_bench"]

_ARENA_COLUMNS = ("question_id", "model_a", "model_b", "winner", "judge", "turn", "language", "tstamp", "prompt")
_LABEL_OF_VERDICT = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}


class DataFileNotFoundError(DataError, FileNotFoundError):
    """A data file does not exist."""


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

        The label ``tie (inconsistent)`` means that a verdict changed with the order of the answers; ``dml_rank`` reads
        it as a tie unless ``categories=`` gives it another meaning. In a file of verdicts, each vote has two verdicts,
        one for each order. A vote whose verdicts differ gets this label. A vote is missing if one of its verdicts could
        not be read. The order of the two models in such a file has no meaning, because both orders were judged.

    Raises
    ------
    FileNotFoundError
        If a file does not exist (a :class:`DataError`, too).
    ColumnError
        If a column that is needed is missing.
    DataError
        If a file is not JSON lines, or if the questions file lacks the question or turn of a vote.

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
    votes = _merge_verdicts(_read_records(file))
    _require(votes, ("question_id", "model_a", "model_b", "winner"), file)
    if "judge" in votes:
        votes["judge"] = votes["judge"].map(_judge_names)
    question_file = file.with_name("question.jsonl") if questions is None else Path(questions)
    if questions is not None or question_file.exists():
        votes = _with_questions(votes, question_file)
    columns = ("question_id", "turn", "judge", "model_a", "model_b", "winner", "category", "prompt")
    return votes[[column for column in columns if column in votes]]


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
        battles["judge"] = battles["judge"].map(_judge_names)
    flat = [name for name in battles if not battles[name].map(lambda value: isinstance(value, list | dict)).any()]
    leading = [name for name in _ARENA_COLUMNS if name in flat]
    return battles[leading + [name for name in flat if name not in leading]]


def _read_records(file: Path) -> pd.DataFrame:
    """Return the records of a file of JSON lines or of a JSON array, one row each."""
    if not file.is_file():
        file_names = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        finding = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise DataFileNotFoundError(f"{str(file)!r} {finding}{nearest(file.name, file_names)}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{str(file)!r} is not a text file in UTF-8: {error}; convert it to UTF-8") from error
    records = _parse_array(text, file) if text.lstrip().startswith("[") else _parse_lines(text, file)
    if not records:
        raise DataError(f"{str(file)!r} holds no records; it must hold one JSON object for each vote")
    if not all(isinstance(record, dict) for record in records):
        raise DataError(f"{str(file)!r} holds entries that are not JSON objects; it must hold one JSON object per vote")
    return pd.DataFrame(records)


def _parse_array(text: str, file: Path) -> list[object]:
    """Return the entries of a JSON array."""
    try:
        records: list[object] = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{str(file)!r} begins with '[' but is not a JSON array: {error}; it must be a JSON array or JSON lines"
        ) from error
    return records


def _parse_lines(text: str, file: Path) -> list[object]:
    """Return the values of JSON lines; empty lines are passed over."""
    records = []
    # splitlines() would also split at separators such as U+2028, which a JSON string may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{str(file)!r} is neither JSON lines nor a JSON array; line {number}: {error}"
                ) from error
    return records


def _require(frame: pd.DataFrame, columns: tuple[str, ...], file: Path) -> None:
    """Raise where the records of a file lack one of these columns."""
    missing = [name for name in columns if name not in frame]
    if missing:
        hint = nearest(missing[0], [name for name in frame if name not in columns])
        raise ColumnError(
            f"{str(file)!r} has the columns {listed(frame)}, but not {listed(missing)}; it must have {listed(columns)}"
            f"{hint}"
        )


def _merge_verdicts(votes: pd.DataFrame) -> pd.DataFrame:
    """Return one vote for the two verdicts of a judge who saw both orders; return other votes as they are."""
    if "winner" in votes or not {"model_1", "model_2", "g1_winner", "g2_winner"} <= set(votes):
        return votes
    first, second = (votes[game].map(_LABEL_OF_VERDICT).astype(object) for game in ("g1_winner", "g2_winner"))
    winner = first.where(first == second, "tie (inconsistent)").where(first.notna() & second.notna())
    return votes.rename(columns={"model_1": "model_a", "model_2": "model_b"}).assign(winner=winner)


def _with_questions(votes: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Return the votes with the category of their question and the prompt of their turn."""
    questions = _read_records(file)
    _require(questions, ("question_id", "category", "turns"), file)
    if questions["question_id"].duplicated().any():
        raise DataError(f"{str(file)!r} has several rows for one question_id; drop all but one")
    by_id = questions.set_index("question_id")
    unknown = votes.loc[~votes["question_id"].isin(by_id.index), "question_id"].unique()
    if len(unknown):
        raise DataError(f"{str(file)!r} has no question_id {listed(unknown)}, but there are votes on it")
    turns = votes["turn"] if "turn" in votes else pd.Series(1, index=votes.index)
    texts_of_vote = by_id.loc[votes["question_id"], "turns"]
    for question, turn, texts in zip(votes["question_id"], turns, texts_of_vote, strict=True):
        if turn not in range(1, len(texts) + 1):
            raise DataError(f"question_id {question!r} has {len(texts)} turns in {str(file)!r}, a vote is on {turn!r}")
    return votes.assign(
        category=by_id.loc[votes["question_id"], "category"].to_numpy(),
        prompt=[texts[int(turn) - 1] for turn, texts in zip(turns, texts_of_vote, strict=True)],
    )


def _judge_names(judge: object) -> object:
    """Return the names of several judges joined by a comma, and anything else as it is."""
    return ", ".join(map(str, judge)) if isinstance(judge, list) else judge


def _first_user_turn(conversation: object) -> object:
    """Return the text of the first turn of the user, None where there is none."""
    turns = conversation if isinstance(conversation, list) else []
    return next((turn.get("content") for turn in turns if isinstance(turn, dict) and turn.get("role") == "user"), None)

"""Files of benchmark scores on the command line: the results are those of ``pairs_from_scores`` in Python."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.cli.main import main

FORMULA = "winner ~ 1 | model_a + model_b"
MODELS = ["4.1", "4.10", "llama", "model_a"]


@pytest.fixture
def wide():
    """A row per task and a column for every model; one model has the name of a number, and one score is missing."""
    rng = np.random.default_rng(0)
    scores = (rng.random((60, 4)) + np.linspace(0, 0.6, 4)).round(2)
    scores[3, 1] = np.nan
    table = pd.DataFrame(scores, columns=MODELS)
    return table.assign(
        task=[f"00{number}" for number in range(60)], topic=rng.choice(["code", "law", "art", "maths"], 60)
    )


@pytest.fixture
def long(wide):
    """A row per task and model."""
    return wide.melt(["task", "topic"], var_name="model", value_name="accuracy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scores", "task", "model"], "give those of prompt, model and score"),
        (["--scores", "task", "model", "acc"], "there is no column 'acc'"),
        (["--scores", "task"], "left out: 'topic' (it holds '"),
        (["--scores", "nowhere"], "no column 'nowhere'"),
        (["--scores", "task", "model", "accuracy", "--set", "margin=-1"], "0 or more"),
        (["--scores", "task", "model", "accuracy", "--position-bias", "yes"], "no display order"),
    ],
)
def test_what_cannot_be_used(long, words, message, printed, tmp_path):
    long.to_csv(tmp_path / "scores.csv", index=False)
    assert message in printed(["fit", str(tmp_path / "scores.csv"), *words], 1)


def test_wide_tables_need_one_row_a_prompt_and_two_models(wide, printed, tmp_path):
    file = tmp_path / "scores.csv"
    pd.concat([wide, wide.iloc[:1]]).drop(columns="topic").to_csv(file, index=False)
    assert "000" in printed(["fit", str(file), "--scores", "task"], 1)
    wide[["task", "llama"]].to_csv(file, index=False)
    assert "llama" in printed(["fit", str(file), "--scores", "task"], 1)


def test_options_of_scores_need_scores(long, capsys, tmp_path, printed):
    long.to_csv(tmp_path / "scores.csv", index=False)
    assert main(["fit", FORMULA, str(tmp_path / "scores.csv"), "--set", "lower_is_better=yes"]) == 1
    assert "lower_is_better=True is for means of a table of scores" in capsys.readouterr().err
    assert "--context is an option of a fit" in printed(["compare", "a.json", "b.json", "--context", "task"], 1)
    assert "knows no option 'margin'" in printed(["compare", "a.json", "b.json", "--set", "margin=0.1"], 1)

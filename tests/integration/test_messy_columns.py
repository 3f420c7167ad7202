"""Columns as arenas publish them: names with blanks and capitals, labels without a vote, numbers as labels, copies."""

from __future__ import annotations

import re
import warnings

import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import OutcomeError

PLAIN = "winner ~ 1 | model_a + model_b"


def with_messy_names(n=900):
    """Votes of which some names have blanks or capitals, and every tenth label says that nobody voted."""
    battles = dr.datasets.simulate_arena(n=n, rng=0).dropna(subset=["winner"]).reset_index(drop=True)
    messy = battles.copy()
    messy.loc[::7, "model_a"] = messy["model_a"].str.upper() + " "
    messy.loc[3::5, "model_b"] = "  " + messy["model_b"]
    return battles, messy


def test_names_that_look_the_same_have_one_note_and_can_be_one_model():
    clean, messy = with_messy_names()
    options = {"min_labels": 1, "position_bias": False, "rng": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dr.dml_rank(PLAIN, messy, **options)
    (note,) = [str(one.message) for one in caught if "differ only by" in str(one.message)]
    assert re.match(r"24 names differ only by blanks.*; and 3 more\. fold_names=True makes them 8 models, ", note)
    notes = [problem for problem in dr.check(PLAIN, messy).problems if "differ only by" in problem]
    assert len(notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded = dr.dml_rank(PLAIN, messy, fold_names=True, **options)
    assert folded.params.equals(dr.dml_rank(PLAIN, clean, **options).params)
    # Labels that name the winning model are folded, too.
    by_name = messy.assign(winner=messy["model_a"].where(messy["winner"] == "model_a", messy["model_b"].str.strip()))
    named = dr.dml_rank(PLAIN, by_name, fold_names=True, **options)
    sides = messy["winner"].where(messy["winner"] == "model_a", "model_b")
    assert named.params.equals(dr.dml_rank(PLAIN, clean.assign(winner=sides), **options).params)


@pytest.mark.parametrize(
    "words", [["--fold-names", "{file}"], ["{file}", "--fold-names"], ["--fold-names", "yes", "{file}"]]
)
def test_a_question_on_the_command_line_is_answered_by_yes(words, tmp_path, capsys):
    _, messy = with_messy_names()
    file = str(tmp_path / "votes.csv")
    messy.to_csv(file, index=False)
    assert main(["check", PLAIN, *(word.format(file=file) for word in words)]) == 0
    assert "differ only by" not in capsys.readouterr().out


def test_a_label_can_mean_that_there_is_no_vote():
    battles, _ = with_messy_names()
    options = {"min_labels": 1, "position_bias": False, "rng": 0}
    none = battles.assign(winner=battles["winner"].where(battles.index % 10 > 0))
    said = none.assign(winner=none["winner"].fillna("n/a"))
    found = dr.dml_rank(PLAIN, said, categories={"n/a": "missing"}, **options)
    assert found.params.equals(dr.dml_rank(PLAIN, none, **options).params)
    assert dr.check(PLAIN, said, categories={"n/a": "missing"}).n_unlabelled == none["winner"].isna().sum()
    with pytest.raises(OutcomeError, match="'missing'"):
        dr.dml_rank(PLAIN, said, **options)
    with pytest.warns(dr.DmlrankWarning, match="labels that do not occur: 'skip'"):
        dr.dml_rank(PLAIN, battles, categories={"skip": "missing"}, **options)


def test_numbers_that_need_a_meaning_say_so_without_contradiction():
    battles, _ = with_messy_names()
    numbers = battles.assign(winner=battles["winner"].map({"model_a": 1, "model_b": 2}).fillna(0).astype(int))
    with pytest.raises(OutcomeError, match="only where no other whole number occurs") as error:
        dr.dml_rank(PLAIN, numbers, rng=0)
    assert re.findall(r"categories=({.*?})", str(error.value)) == ["{1: ..., 2: ..., 0: ...}"]
    meanings = {1: "first", 2: "second", 0: "tie"}
    joined = battles.assign(winner=battles["winner"].replace("tie (bothbad)", "tie"))
    res, other = (dr.dml_rank(PLAIN, table, categories=c, rng=0) for table, c in ((numbers, meanings), (joined, None)))
    assert res.params.equals(other.params)


def test_copies_of_rows_are_counted():
    battles, _ = with_messy_names()
    copied = pd.concat([battles, battles[:5], battles[:2]], ignore_index=True)
    found = dr.check(PLAIN, copied)
    assert found.n_copies == 7
    assert any("7 rows equal an earlier row in every column" in problem for problem in found.problems)
    assert dr.check(PLAIN, battles).n_copies == 0
    assert dr.check(PLAIN, battles[["model_a", "model_b", "winner"]]).n_copies == 0

"""Columns as arenas publish them: names with blanks and capitals, labels without a vote, numbers as labels, copies."""

from __future__ import annotations

import re
import warnings

import numpy as np
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
    assert re.match(
        r"24 names differ only by blanks.*are probably 8 models: .*; and 3 more\. fold_names=True counts", note
    )
    notes = [problem for problem in dr.check(PLAIN, messy).problems if "differ only by" in problem]
    assert len(notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded = dr.dml_rank(PLAIN, messy, fold_names=True, **options)
    assert folded.params.equals(dr.dml_rank(PLAIN, clean, **options).params)
    said = "16 further spellings of names (blanks, letter case, Unicode form) count as the same."
    assert said in " ".join(folded.explain().split())
    assert "further spelling" not in dr.dml_rank(PLAIN, clean, fold_names=True, **options).explain()
    # Labels that name the winning model are folded, too.
    by_name = messy.assign(winner=messy["model_a"].where(messy["winner"] == "model_a", messy["model_b"].str.strip()))
    named = dr.dml_rank(PLAIN, by_name, fold_names=True, **options)
    sides = messy["winner"].where(messy["winner"] == "model_a", "model_b")
    assert named.params.equals(dr.dml_rank(PLAIN, clean.assign(winner=sides), **options).params)


@pytest.mark.filterwarnings("ignore:2 names differ only by")
def test_a_leader_whose_votes_are_split_over_two_names_is_no_winner(tmp_path, capsys):
    pytest.importorskip("jinja2", reason="pages need Jinja2")
    battles = dr.datasets.simulate_arena(n=3000, rng=0).dropna(subset=["winner"])
    leader = dr.dml_rank(PLAIN, battles, min_labels=1, rng=0).params.idxmax()
    for side in ("model_a", "model_b"):
        battles.loc[battles.index % 3 == 0, side] = battles[side].replace(leader, f"{leader} ")
    file, page = tmp_path / "votes.csv", tmp_path / "board.html"
    battles.to_csv(file, index=False)
    call = ["fit", PLAIN, str(file), "--functional", "bt", "--min-labels", "1", "--context", "question_id"]
    assert main([*call, "--report", str(page)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"'{leader} ' " in out.partition("=" * 20)[2]
    assert "probably one model, but are ranked as different models (" in out
    assert "--fold-names counts them as one. This fit does not say who is first" in out
    shown = page.read_text(encoding="utf-8")
    assert "would decide" not in out.partition("Warning")[0]
    assert "dmlrank fit --fold-names counts them as one. This fit does not say" in shown
    assert f"<bdi>&#39;{leader} &#39;</bdi>" in shown
    # Another model's names leave the verdict as it is, after the sentence about them.
    last = dr.dml_rank(PLAIN, battles, fold_names=True, functional="bt", min_labels=1, rng=0).params.idxmin()
    tail = dr.datasets.simulate_arena(n=3000, rng=0).dropna(subset=["winner"])
    for side in ("model_a", "model_b"):
        tail.loc[tail.index % 3 == 0, side] = tail[side].replace(last, last.upper())
    said = dr.dml_rank(PLAIN, tail, functional="bt", min_labels=1, rng=0).verdict()
    assert "fold_names=True counts them as one. First place is" in said


@pytest.mark.parametrize(
    "words", [["--fold-names", "{file}"], ["{file}", "--fold-names"], ["--fold-names", "yes", "{file}"]]
)
def test_a_question_on_the_command_line_is_answered_by_yes(words, tmp_path, capsys):
    _, messy = with_messy_names()
    file = str(tmp_path / "votes.csv")
    messy.to_csv(file, index=False)
    assert main(["check", PLAIN, *(word.format(file=file) for word in words)]) == 0
    assert "differ only by" not in capsys.readouterr().out


def test_names_are_folded_over_all_files_of_a_comparison(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    battles = dr.datasets.simulate_arena(n=4500, rng=0)
    # The first file has the other spelling more often, all files together do not.
    earlier, later = battles[:1800].copy(), battles[1800:].copy()
    for side in ("model_a", "model_b"):
        earlier[side] = earlier[side].replace("gpt-4", "GPT-4 ")
    paths = [str(tmp_path / f"{name}.csv") for name in ("january", "february")]
    for frame, path in zip((earlier, later), paths, strict=True):
        frame.to_csv(path, index=False)
    call = ["compare", PLAIN, *paths, "--min-labels", "1", "--functional", "bt", "--independent"]
    assert main([*call, "--fold-names"]) == 0
    shown = capsys.readouterr()
    out = " ".join(shown.out.split())
    assert "Test that no score differs" in out
    assert not re.search("New in|Gone in", out)
    said = (
        "dmlrank: further spellings of names (blanks, letter case, Unicode form) that count as the same: 1 in 2 files\n"
    )
    assert shown.err == said
    parquet = [path.replace(".csv", ".parquet") for path in paths]
    for frame, path in zip((earlier, later), parquet, strict=True):
        frame.to_parquet(path)
    assert main(["compare", PLAIN, *parquet, *call[4:], "--fold-names"]) == 0
    assert " ".join(capsys.readouterr().out.split()) == out
    # Without the option, and for fits that are compared as objects, a warning says what is new by its spelling only.
    said = "1 model has names in these results that differ only by blanks, letter case or Unicode form"
    with pytest.warns(dr.DmlrankWarning, match=said):
        assert main(call) == 0
    fits = [dr.dml_rank(PLAIN, frame, min_labels=1, functional="bt", rng=0) for frame in (earlier, later)]
    with pytest.warns(dr.DmlrankWarning, match=said):
        dr.compare(*fits, independent=True)


@pytest.mark.filterwarnings("default")
def test_a_comparison_does_not_advise_what_it_has_tried(tmp_path, capsys):
    """The models of the two files have no pair in common, although --independent was given."""
    battles = dr.datasets.simulate_arena(n=900, rng=0)
    models = sorted(set(battles["model_a"]))
    is_half = [battles[side].isin(models[:4]) for side in ("model_a", "model_b")]
    paths = [str(tmp_path / f"{name}.csv") for name in ("january", "february")]
    for path, rows in zip(paths, (is_half[0] & is_half[1], ~is_half[0] & ~is_half[1]), strict=True):
        battles[rows].to_csv(path, index=False)
    assert main(["compare", PLAIN, *paths, "--min-labels", "1", "--independent"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "There are no tests of changes" in out
    assert "No pair of models is compared in all results" in out
    assert "--independent does by itself" not in out


def test_a_label_can_mean_that_there_is_no_vote(tmp_path):
    battles, _ = with_messy_names()
    options = {"min_labels": 1, "position_bias": False, "rng": 0}
    none = battles.assign(winner=battles["winner"].where(battles.index % 10 > 0))
    said = none.assign(winner=none["winner"].fillna("n/a"))
    found = dr.dml_rank(PLAIN, said, categories={"n/a": "missing"}, **options)
    assert found.params.equals(dr.dml_rank(PLAIN, none, **options).params)
    assert dr.check(PLAIN, said, categories={"n/a": "missing"}).n_unlabelled == none["winner"].isna().sum()
    with pytest.raises(OutcomeError, match="'missing'"):
        dr.dml_rank(PLAIN, said, **options)
    # pandas has read the word as a missing value; warnings are errors here.
    file = tmp_path / "votes.csv"
    said.to_csv(file, index=False)
    read = pd.read_csv(file)
    assert "n/a" not in set(read["winner"])
    assert dr.dml_rank(PLAIN, read, categories={"n/a": "missing"}, **options).params.equals(found.params)
    with pytest.warns(dr.DmlrankWarning, match="labels that do not occur: 'n/a'"):
        dr.dml_rank(PLAIN, battles, categories={"n/a": "missing"}, **options)
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


def test_rows_without_a_pair_have_one_error_that_says_what_to_do():
    battles, _ = with_messy_names()
    for in_fifty, advice in (
        (1, "to leave these rows out$"),
        (49, "one model a row is a table of"),
    ):
        rows = battles.copy()
        rows.loc[rows.index % 50 < in_fifty, "model_b"] = None
        n = rows["model_b"].isna().sum()
        with pytest.raises(dr.exceptions.MissingDataError, match=f"'model_b' in {n} of 873 rows; a vote.*{advice}"):
            dr.dml_rank(PLAIN, rows)
    (problem,) = [problem for problem in dr.check(PLAIN, rows).problems if "Values are missing" in problem]
    assert "keep" not in problem
    one = battles.rename(columns={"model_a": "model"})
    with pytest.raises(dr.exceptions.DataError, match=r"a score must be a number, .* where rows are votes"):
        dr.dml_rank("winner ~ 1 | model", one, context="question_id")


def test_copies_of_rows_are_counted():
    battles, _ = with_messy_names()
    copied = pd.concat([battles, battles[:5], battles[:2]], ignore_index=True)
    found = dr.check(PLAIN, copied)
    assert found.n_copies == 7
    assert any("7 rows equal an earlier row in every column" in problem for problem in found.problems)
    assert any("fit counts each of them as a vote. If they are copies, drop" in problem for problem in found.problems)
    # With identifiers of prompts copies are averaged.
    by_prompt = {"context": "question_id", "functional": "bt", "min_labels": 1, "position_bias": False, "rng": 0}
    known = dr.check(PLAIN, copied, context="question_id")
    assert any("7 rows equal an earlier row in every column. If" in problem for problem in known.problems)
    assert any("they hardly matter, because a fit averages the votes" in problem for problem in known.problems)
    fits = [dr.dml_rank(PLAIN, frame, **by_prompt) for frame in (battles, copied)]
    assert ((fits[0].params - fits[1].params).abs() < 0.02 * fits[0].bse).all()
    pd.testing.assert_series_equal(fits[0].bse, fits[1].bse, rtol=0.01)
    said = "^7 rows equal an earlier row in every column, and each counts as a vote; if they are copies, drop them$"
    with pytest.warns(dr.DmlrankWarning, match=said):
        dr.dml_rank(PLAIN, copied, min_labels=1, fold_names=True, rng=0)
    assert dr.check(PLAIN, battles).n_copies == 0
    assert dr.check(PLAIN, battles[["model_a", "model_b", "winner"]]).n_copies == 0
    # One who votes on a pair again may say the same or not, which is chance and no copy.
    again = battles[["model_a", "model_b", "winner"]].assign(
        person=np.random.default_rng(0).integers(40, size=len(battles))
    )
    assert again.duplicated().any()
    assert dr.check(PLAIN, again).n_copies == 0

"""Columns as arenas publish them: names with blanks and capitals, labels without a vote, numbers as labels, copies."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import OutcomeError
from dmlrank.options import in_objects

PLAIN = "winner ~ 1 | model_a + model_b"


def with_messy_names(n=900):
    """Votes of which some names have blanks or capitals, and every tenth label says that nobody voted."""
    battles = dr.datasets.simulate_arena(n=n, rng=0).dropna(subset=["winner"]).reset_index(drop=True)
    messy = battles.copy()
    messy.loc[::7, "model_a"] = messy["model_a"].str.upper() + " "
    messy.loc[3::5, "model_b"] = "  " + messy["model_b"]
    return battles, messy


def test_names_that_differ_by_letter_case_are_named_and_stay():
    _, messy = with_messy_names()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = dr.dml_rank(PLAIN, messy, pairs=dr.Pairs(min_labels=1), position_bias=False, rng=0)
    (note,) = [str(one.message) for one in caught if "differ only by" in str(one.message)]
    assert re.match(r"16 names differ only by letter case.*as different models: .*; and 3 more\. Write one name", note)
    assert {"gpt-4", "GPT-4"} <= {*fitted.models, *fitted.diagnostics.models_dropped}
    notes = [problem for problem in dr.check(PLAIN, messy).problems["found"] if "differ only by" in problem]
    assert len(notes) == 1


def test_a_label_can_mean_that_there_is_no_vote(tmp_path):
    battles, _ = with_messy_names()
    options = {"min_labels": 1, "position_bias": False, "rng": 0}
    none = battles.assign(winner=battles["winner"].where(battles.index % 10 > 0))
    said = none.assign(winner=none["winner"].fillna("n/a"))
    found = dr.dml_rank(PLAIN, said, **in_objects({"categories": {"n/a": "missing"}, **options}))
    assert found.params.equals(dr.dml_rank(PLAIN, none, **in_objects(options)).params)
    assert (
        dr.check(PLAIN, said, categories={"n/a": "missing"}).counts.loc["prompts_without_a_label", "number"]
        == none["winner"].isna().sum()
    )
    # Words such as n/a mean a missing vote by themselves.
    assert dr.dml_rank(PLAIN, said, **in_objects(options)).params.equals(found.params)
    # pandas has read the word as a missing value; warnings are errors here.
    file = tmp_path / "votes.csv"
    said.to_csv(file, index=False)
    read = pd.read_csv(file)
    assert "n/a" not in set(read["winner"])
    assert dr.dml_rank(PLAIN, read, **in_objects({"categories": {"n/a": "missing"}, **options})).params.equals(
        found.params
    )
    with pytest.warns(dr.DmlrankWarning, match="labels that do not occur: 'n/a'"):
        dr.dml_rank(PLAIN, battles, **in_objects({"categories": {"n/a": "missing"}, **options}))
    with pytest.warns(dr.DmlrankWarning, match="labels that do not occur: 'skip'"):
        dr.dml_rank(PLAIN, battles, **in_objects({"categories": {"skip": "missing"}, **options}))


def test_numbers_that_need_a_meaning_say_so_without_contradiction():
    battles, _ = with_messy_names()
    numbers = battles.assign(winner=battles["winner"].map({"model_a": 1, "model_b": 2}).fillna(0).astype(int))
    with pytest.raises(OutcomeError, match="unknown winner label") as error:
        dr.dml_rank(PLAIN, numbers, rng=0)
    assert re.findall(r"categories=({.*?})", str(error.value)) == ["{1: ..., 2: ..., 0: ...}"]
    meanings = {1: "first", 2: "second", 0: "tie"}
    joined = battles.assign(winner=battles["winner"].replace("tie (bothbad)", "tie"))
    res, other = (dr.dml_rank(PLAIN, table, categories=c, rng=0) for table, c in ((numbers, meanings), (joined, None)))
    assert res.params.equals(other.params)


def test_rows_without_a_pair_have_one_error_that_says_what_to_do():
    battles, _ = with_messy_names()
    for in_fifty, advice in ((1, "to leave these rows out$"), (49, "one model a row is a table of")):
        rows = battles.copy()
        rows.loc[rows.index % 50 < in_fifty, "model_b"] = None
        n = rows["model_b"].isna().sum()
        with pytest.raises(
            dr.exceptions.MissingDataError, match=f"'model_b' in {n} of 873 rows, first row 0; a vote.*{advice}"
        ):
            dr.dml_rank(PLAIN, rows)
    problems = dr.check(PLAIN, rows).problems
    assert problems["found"].str.contains("Values are missing").sum() == 1
    assert not problems["advice"].str.contains("keep").any()
    one = battles.rename(columns={"model_a": "model"})
    with pytest.raises(dr.exceptions.DataError, match=r"a score must be a number .* name two columns of models"):
        dr.dml_rank("winner ~ 1 | model", one, context="question_id")


def copies(check):
    return check.counts.loc["copies_of_rows", "number"]


def told(check):
    return " ".join(check.problems[["found", "advice"]].to_numpy().ravel())


def test_copies_of_rows_are_counted():
    battles, _ = with_messy_names()
    copied = pd.concat([battles, battles[:5], battles[:2]], ignore_index=True)
    found = dr.check(PLAIN, copied)
    assert copies(found) == 7
    assert "7 rows equal an earlier row in every column, and a fit counts each of them as a vote" in told(found)
    # With identifiers of prompts copies are averaged.
    by_prompt = {"context": "question_id", "functional": "bt", "min_labels": 1, "position_bias": False, "rng": 0}
    known = dr.check(PLAIN, copied, context="question_id")
    assert "7 rows equal an earlier row in every column. Copies hardly matter" in told(known)
    fits = [dr.dml_rank(PLAIN, frame, **in_objects(by_prompt)) for frame in (battles, copied)]
    assert ((fits[0].params - fits[1].params).abs() < 0.02 * fits[0].bse).all()
    pd.testing.assert_series_equal(fits[0].bse, fits[1].bse, rtol=0.01)
    said = "^7 rows equal an earlier row in every column, and each counts as a vote; if they are copies, drop them$"
    with pytest.warns(dr.DmlrankWarning, match=said):
        dr.dml_rank(PLAIN, copied, pairs=dr.Pairs(min_labels=1), rng=0)
    assert copies(dr.check(PLAIN, battles)) == 0
    assert copies(dr.check(PLAIN, battles[["model_a", "model_b", "winner"]])) == 0
    # One who votes on a pair again may say the same or not, which is chance and no copy.
    again = battles[["model_a", "model_b", "winner"]].assign(
        person=np.random.default_rng(0).integers(40, size=len(battles))
    )
    assert again.duplicated().any()
    assert copies(dr.check(PLAIN, again)) == 0

"""Cells of score columns: missing words, texts of numbers, and cells that are named in an error with their remedy."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.arrays import MISSING_WORDS
from dmlrank.exceptions import DataError

# The family of cells: a column of scores as numbers, texts or both, some of them missing words in any letter case with
# blanks around, and perhaps a cell in another form. Missing words are missing; another form is named with its row, its
# model, how many there are, and the remedy.
FORMS = ["12.5 %", "1,234", "0,5", "abc", "1_000", "٣"]


def drawn(rng):
    table = pd.DataFrame({"q": np.repeat(np.arange(30), 3), "m": list("xyz") * 30, "s": rng.random(90).round(3)})
    cells = table["s"].astype(object)
    as_text = rng.random(90) < rng.choice([0.0, 0.5, 1.0])
    cells[as_text] = [f" {number} " for number in cells[as_text]]
    missing = rng.random(90) < 0.1
    words = sorted(MISSING_WORDS)
    cells[missing] = [str(rng.choice([word, word.upper(), f" {word} "])) for word in rng.choice(words, missing.sum())]
    return table, table.assign(s=cells), missing


@pytest.mark.parametrize("seed", range(20))
def test_missing_words_and_texts_of_numbers_are_read(seed, tmp_path):
    table, cells, missing = drawn(np.random.default_rng(seed))
    expected = dr.data.pairs_from_scores(table.assign(s=table["s"].mask(missing)), prompt="q", model="m", score="s")
    found = dr.data.pairs_from_scores(cells, prompt="q", model="m", score="s")
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.n_missing.sum() == missing.sum()
    bad = str(np.random.default_rng(seed).choice(FORMS))
    cells.loc[[7, 50], "s"] = bad
    with pytest.raises(DataError, match=r"\(model 'y'\) in row 7 and 1 more; .*number without"):
        dr.data.pairs_from_scores(cells, prompt="q", model="m", score="s")


def test_missing_words_are_missing_votes_unless_they_mean_something(ignore_warnings):
    battles = dr.datasets.simulate_arena(n=400, rng=0).dropna()
    said = battles.assign(winner=battles["winner"].mask(np.arange(len(battles)) % 9 == 0, "N/A"))
    gone = said.assign(winner=said["winner"].replace("N/A", None))
    fits = [dr.dml_rank("winner ~ 1 | model_a + model_b", one, rng=0) for one in (said, gone)]
    assert fits[0].params.equals(fits[1].params)
    assert all("(0 unlabelled)" not in str(one.summary()) for one in fits)
    ties = dr.dml_rank("winner ~ 1 | model_a + model_b", said, rng=0, categories={"N/A": "tie"})
    assert "(0 unlabelled)" in str(ties.summary())


@pytest.mark.parametrize("ranks", [[0, 1, 2], [1, 0, 0], [-1, 1, 2]])
def test_ranks_below_one_are_refused(ranks):
    table = pd.DataFrame({"q": np.repeat(np.arange(60), 3), "m": list("xyz") * 60, "rank": ranks * 60})
    with pytest.raises(DataError, match="1 is the best rank"):
        dr.data.pairs_from_rankings(table, prompt="q", model="m", rank="rank")


@pytest.mark.parametrize("seed", range(5))
def test_preferences_from_one_to_two_are_for_the_second_item(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.choice(["u", "v"], 200), "p": rng.random(200).round(2)})
    table["b"] = np.where(table["a"] == "u", "v", "u")
    one = dr.dml_rank("p ~ 1 | a + b", table, rng=0)
    two = dr.dml_rank("p ~ 1 | a + b", table.assign(p=2 - table["p"]), rng=0)
    np.testing.assert_allclose(one.params, two.params, rtol=1e-12)
    assert "preferences from 1 to 2 (1 = first wins, 2 = second wins)" in " ".join(two.explain().split())


# The family of extreme numbers: scores times or plus a number of any size. Standard errors are those of the scores as
# they are, or the scores are refused with a remedy.
@pytest.mark.parametrize("seed", range(25))
def test_extreme_scores_have_the_same_errors_or_are_refused(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"q": np.repeat(np.arange(40), 3), "m": list("xyz") * 40, "s": rng.random(120)})
    plain = dr.dml_rank("s ~ 1 | m", table, context="q")
    scale, shift = 10.0 ** rng.uniform(-300, 300), 10.0 ** rng.uniform(0, 20)
    for changed, size in ((table["s"] * scale, scale), (table["s"] + shift, 1.0)):
        is_computed = 1e-65 < size < 1e65 and shift * (size == 1.0) < 1e9
        is_refused = not (1e-70 < size < 1e70) or 1e11 < shift * (size == 1.0) < 1e15
        if is_refused:
            with pytest.raises(DataError, match=r"divide all of them|subtract one number"):
                dr.dml_rank("s ~ 1 | m", table.assign(s=changed), context="q")
        if is_computed:
            res = dr.dml_rank("s ~ 1 | m", table.assign(s=changed), context="q")
            np.testing.assert_allclose(res.bse / size, plain.bse, rtol=1e-4)

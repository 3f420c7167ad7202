"""Every written form of a table holds every number and every name, whatever the names are."""

import io
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.tables.summary_table import Summary, latex_number, not_a_formula

NASTY = (
    "100% <b>&amp;",
    "a_b^c~d#e$f{g}h",
    "back\\slash \\input{x}",
    "pipe|star*`tick`",
    "[brackets] first",
    "\"quotes\" and 'these', too",
    "two\nlines",
    "--dashes--",
    "*starred",
    "comma, semicolon; 1,5",
)


@pytest.fixture(scope="module")
def summary():
    """Ten models with names that every format could stumble over."""
    rng = np.random.default_rng(0)
    pair = np.array([rng.permutation(len(NASTY))[:2] for _ in range(3000)])
    names = np.array(NASTY, dtype=object)
    winner = np.where(rng.uniform(size=3000) < 0.5, "model_a", "model_b")
    battles = pd.DataFrame({"winner": winner, "model_a": names[pair[:, 0]], "model_b": names[pair[:, 1]]})
    return dr.dml_rank(
        "winner ~ 1 | model_a + model_b", battles, functional="bt", pairs=dr.Pairs(min_labels=1), rng=0
    ).summary()


@pytest.fixture(scope="module")
def plain():
    battles = dr.datasets.simulate_arena(n=3000, rng=0)
    result = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", context="question_id", rng=0)
    return result.rescale("elo", mean=1000).summary()


def numbers(summary):
    return [cell for row in summary.rows for cell in row[1:]]


# --- CSV ----------------------------------------------------------------------------------------------------------


def test_csv_reads_back(summary):
    table = pd.read_csv(io.StringIO(summary.as_csv()), dtype=str, keep_default_na=False)
    # Before a name that looks like a formula stands an apostrophe.
    assert table.to_numpy()[:, 1:].tolist() == [list(row[1:]) for row in summary.rows]
    assert table["model"].tolist() == [not_a_formula(row[0]) for row in summary.rows]
    assert set(table["model"]) == {*NASTY, "'--dashes--"} - {"--dashes--"}
    limits = ["[95% simult. CI] lower", "[95% simult. CI] upper"]
    assert list(table) == ["model", "coef", "std err", "z", "adj. P", *limits, "rank", "win"]


def test_csv_numbers_are_numbers(plain):
    table = pd.read_csv(io.StringIO(plain.as_csv()))
    # A small p-value is "<0.001".
    texts = ["model", "rank", "adj. P"]
    assert all(pd.api.types.is_numeric_dtype(dtype) for dtype in table.drop(columns=texts).dtypes)
    assert pd.to_numeric(table["adj. P"].astype(str).str.lstrip("<")).between(0.001, 1).all()
    assert (table["[95% simult. CI] lower"] < table["coef"]).all()


# --- Markdown -----------------------------------------------------------------------------------------------------


def cells_of(line):
    """Cells of a row in Markdown, escapes undone."""
    parts = re.split(r"(?<!\\)((?:\\\\)*)\|", line)
    joined = ["".join(parts[i : i + 2]) for i in range(0, len(parts), 2)][1:-1]
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in joined]


def test_markdown_tables_have_the_same_pipes_in_every_line(summary):
    blocks = re.findall(r"(?:^\|.*\n)+", summary.as_markdown(), flags=re.M)
    assert len(blocks) == 2
    for block, n_columns in zip(blocks, (4, 9), strict=True):
        assert {len(cells_of(line)) for line in block.splitlines()} == {n_columns}
    shown = [cells_of(line) for line in blocks[1].splitlines()[2:]]
    assert shown == [[" ".join(row[0].split()) if "\n" in row[0] else row[0], *row[1:]] for row in summary.rows]


def test_markdown_escapes_markup(summary):
    text = summary.as_markdown()
    for markup in ("<b>", "&amp;", "`tick`", "*star", "_b"):
        assert not re.search(rf"(?<!\\){re.escape(markup)}", text)
    assert "\\<b\\>" in text


def test_markdown_has_the_notes(plain):
    text = plain.as_markdown()
    assert text.startswith("**Nonparametric Ranking Results**")
    assert all(note.split()[-1] in text for note in plain.notes)


# --- LaTeX --------------------------------------------------------------------------------------------------------


def test_latex_has_every_number_and_balanced_braces(summary):
    text = summary.as_latex()
    body = text.split("\\midrule")[-1]
    for row in summary.rows:
        assert " & ".join(map(latex_number, row[1:])) in body
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    for environment in ("longtable", "tabular"):
        assert text.count(f"\\begin{{{environment}}}") == text.count(f"\\end{{{environment}}}")
    rows = [line for line in body.splitlines() if line.endswith("\\\\")]
    assert len(rows) == len(NASTY)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {8}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("50%", r"50\%"),
        ("a_b", r"a\_b"),
        ("a&b", r"a\&b"),
        ("x^2", r"x\textasciicircum{}2"),
        ("~", r"\textasciitilde{}"),
        ("\\input", r"\textbackslash{}input"),
        ("[a]", "{[}a{]}"),
        ("*", "{*}"),
        ("a--b", "a-{-}b"),
        ("a\n\nb", "a b"),
    ],
)
def test_latex_escapes(name, written):
    table = Summary("t", (("a", "b", "c", "d"),), (("coef", 1),), ((name, "1.0"),), ())
    assert f"{written} & 1.0" in table.as_latex()


def test_latex_has_a_paragraph_for_each_note(plain):
    text = plain.as_latex(longtable=False)
    notes = text[text.index("\\end{tabular}") :]
    assert notes.count("\\par\n") == len(plain.notes) + len(plain.facts())


# --- text and HTML ------------------------------------------------------------------------------------------------


def test_text_has_one_line_per_model(summary):
    text = summary.as_text().rsplit("\n====", 1)[0]
    for row in summary.rows:
        assert sum(" ".join(row[0].split()) in line for line in text.splitlines()) == 1
    for cell in numbers(summary):
        assert cell in text

"""LaTeX that compiles, over pages where tables are long, whatever the names are."""

import re
import shutil
import subprocess

import pytest

from dmlrank.tables.summary_table import Summary, latex_text

PACKAGES = "\\usepackage{booktabs,longtable}"
DOCUMENT = f"\\documentclass{{article}}\n{PACKAGES}\n\\begin{{document}}\n%s\n\\end{{document}}\n"
NAMES = ["gpt-4", "meta-llama-3.1-405b-instruct-fp8-2024-07-23", "RWKV-4-Raven-14B", "通义千问-72B", "x" * 60, "été_%&"]
MARKUP = ["100% <b>&amp;", "a_b^c~d#e$f{g}h", "back\\slash \\input{x}", "[brackets] first", "two\nlines", "*starred"]


def fit_table(n_rows, **options):
    """A table with the columns of a fit."""
    columns = tuple((head, 1) for head in ("coef", "std err", "z", "adj. P"))
    columns += (("[95% simult. CI]", 2), *((head, 1) for head in ("rank", "set", "grp", "win", "votes")))
    cells = ("-1191.7", "10.5", "-118.26", "<0.001", "-1160.0", "1223.4", "10", "10-14", "a-f", "0.75", "11,224")
    rows = tuple((f"{NAMES[j % 6]}-{j}", *cells) for j in range(n_rows))
    header = (("Functional:", "bt (log-odds projection), elo", "Cov. Type:", "robust (prompts independent)"),) * 7
    return Summary("Results", header, columns, rows, ("A sentence of a note. " * 20,) * 3, **options)


def group_table(n_rows, n_groups):
    """A table with the columns of groups."""
    heads = ["all", *(f"creative writing {g}" for g in range(n_groups)), "P equal"]
    cells = (*(["10. -0.512 (0.032)"] * (n_groups + 1)), "<0.001")
    rows = tuple((f"{NAMES[j % 3]}-{j}", *cells) for j in range(n_rows))
    return Summary("Groups", (("Functional:", "bt", "Groups:", "6"),), tuple((h, 1) for h in heads), rows, ("Note.",))


def sentence_table(n_rows):
    """A table with sentences above it, and a column of text."""
    header = tuple((f"Label {number}:", "a long sentence " * number) for number in range(1, 9))
    rows = tuple((f"figure {j}", "0.5", "what the figure means " * 4) for j in range(n_rows))
    return Summary("S", header, (("value", 1), ("meaning", 1)), rows, ("Note.",) * 2, "figure", text_columns=(2,))


def slim_table(n_rows):
    rows = tuple(("1-4", f"{NAMES[j % 6]}-{j}", "1191.7", "1160.0", "1223.4", "1,224") for j in range(n_rows))
    columns = (("model", 1), ("score", 1), ("[95% simult. CI]", 2), ("votes", 1))
    return Summary("Slim", (), columns, rows, ("A note. " * 30,), row_head="rank set", name_place=1)


def compiled(text, tmp_path):
    """The log of the last of three runs of pdfLaTeX; a longtable learns its widths from the run before."""
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex")
    (tmp_path / "table.tex").write_text(DOCUMENT % text, encoding="utf-8")
    call = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    for _ in range(3):
        run = subprocess.run(
            call, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False, timeout=120
        )
        if ".sty' not found" in run.stdout:
            pytest.skip("booktabs is not installed")
        assert run.returncode == 0, run.stdout[-2000:]
    return (tmp_path / "table.log").read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(
    "table",
    [
        *(fit_table(3), fit_table(52), group_table(8, 6), group_table(52, 6), sentence_table(10), slim_table(52)),
        Summary("S", (), (("coef", 1),), tuple((name, "0.1") for name in MARKUP), ()),
    ],
    ids=["fit 3", "fit 52", "groups 8", "groups 52", "sentences", "slim 52", "markup"],
)
def test_tables_compile(table, tmp_path):
    log = compiled(table.as_latex(), tmp_path)
    assert "Output written" in log


def test_a_short_table_fits_the_line_and_a_long_one_takes_pages(tmp_path):
    def slim(n):
        rows = tuple(("1-4", f"model-{j}", "1191.7", "1160.0", "1223.4") for j in range(n))
        columns = (("model", 1), ("score", 1), ("[95% simult. CI]", 2))
        return Summary("Slim", (), columns, rows, ("A note. " * 30,), row_head="rank set", name_place=1)

    for n, n_pages in ((20, 1), (90, 3)):
        log = compiled(slim(n).as_latex(), tmp_path)
        assert "Overfull" not in log
        assert int(re.search(r"Output written on table\.pdf \((\d+) page", log)[1]) == n_pages


def test_a_table_that_is_forced_to_break_or_not_compiles(tmp_path):
    both = fit_table(5).as_latex(longtable=True, label="tab:a") + fit_table(4).as_latex(longtable=False)
    log = compiled(both + r"See table~\ref{tab:a}.", tmp_path)
    assert "undefined references" not in log


def test_heads_are_repeated_on_every_page_of_a_long_table_alone():
    text = group_table(52, 6).as_latex()
    head, again = text.split(r"\endfirsthead")
    assert head.count("creative writing 0") == again.split(r"\endhead")[0].count("creative writing 0") == 1
    assert text.count(r"\caption{") == 1
    assert "longtable}{" not in group_table(40, 6).as_latex()


@pytest.mark.parametrize("rows", [3, 52])
def test_names_are_written_in_one_piece(rows):
    name = "Acme-Large v2.0 (2026-06-11)"
    table = Summary("S", (), (("coef", 1),), ((name, "0.1"),) * rows, ())
    assert table.as_latex().count(f"\n{name} & 0.1 \\\\") == rows


def test_sentences_of_a_column_are_paragraphs():
    text = sentence_table(3).as_latex()
    assert r"{@{}lrp{0.5\linewidth}@{}}" in text
    assert "Label 8: a long sentence a long" in text


def test_names_that_pdflatex_cannot_set_keep_their_characters_and_their_code_points():
    assert latex_text("通义") == r"{\ifdefined\Umathchar 通义\else U+901A\allowbreak{}U+4E49\fi}"
    assert latex_text("e\u0301") == "é"
    assert "XeLaTeX" in fit_table(6).as_latex().splitlines()[0]
    assert "XeLaTeX" not in fit_table(3).as_latex().splitlines()[0]
    assert latex_text("a\u202eb\x00").startswith("ab")

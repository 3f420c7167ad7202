"""LaTeX that compiles: tables no wider than the line, over pages where they are long, whatever the names are."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from dmlrank.tables.latex import latex_text
from dmlrank.tables.summary_table import Summary

PACKAGES = "\\usepackage{array,booktabs,graphicx,longtable}"
DOCUMENT = f"\\documentclass{{article}}\n{PACKAGES}\n\\begin{{document}}\n%s\n\\end{{document}}\n"
NAMES = ["gpt-4", "meta-llama-3.1-405b-instruct-fp8-2024-07-23", "RWKV-4-Raven-14B", "通义千问-72B", "x" * 60, "été_%&"]


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
    ("table", "n_pages"),
    [
        (fit_table(3), 1),
        (fit_table(52), 5),
        (group_table(8, 6), 1),
        (group_table(52, 6), 5),
        (sentence_table(10), 1),
        (slim_table(20), 1),
        (slim_table(52), 2),
    ],
    ids=["fit 3", "fit 52", "groups 8", "groups 52", "sentences", "slim 20", "slim 52"],
)
def test_tables_compile_within_the_line_and_break_over_pages(table, n_pages, tmp_path):
    log = compiled(table.as_latex(), tmp_path)
    assert re.findall(r"Overfull \\hbox.*", log) == []
    assert re.findall(r"Overfull \\vbox.*|Float too large.*", log) == []
    pages = int(re.search(r"Output written on table\.pdf \((\d+) page", log)[1])
    assert abs(pages - n_pages) <= (n_pages > 2)


def test_a_table_that_is_forced_to_break_or_not_compiles(tmp_path):
    both = fit_table(5).as_latex(longtable=True, label="tab:a") + fit_table(4).as_latex(longtable=False)
    log = compiled(both + r"See table~\ref{tab:a}.", tmp_path)
    assert "Overfull" not in log
    assert "undefined references" not in log


def test_heads_are_repeated_and_panels_hold_every_column_once():
    text = group_table(52, 6).as_latex()
    n_panels = text.count(r"\begin{longtable}")
    assert n_panels == text.count(r"\endhead") == text.count(r"\endfirsthead") > 1
    assert text.count(r"\addtocounter{table}{-1}") == n_panels - 1
    assert text.count(r"\caption{") == 1
    body = re.findall(r"^gpt-4-0 & (.*) \\\\$", text, flags=re.M)
    assert len(body) == n_panels
    assert sum(line.count("&") + 1 for line in body) == 8


def test_panels_of_a_float_stand_in_one_tabular():
    text = group_table(8, 6).as_latex()
    assert text.count(r"\begin{tabular}{@{}>") == 2
    assert text.count(r"\midrule") == 2 * len(re.findall(r"^gpt-4-0 &", text, flags=re.M)) - 1
    assert "longtable" not in text


def test_columns_that_belong_together_stay_together():
    heads = tuple(head for g in range(8) for head in ((f"result {g}", 1), ("rank", 1)))
    rows = (("gpt-4", *(["-0.512 (0.032)", "10 (+2)"] * 8)),)
    text = Summary("C", (), heads, rows, (), heads_together=2).as_latex()
    lines = re.findall(r"^gpt-4 & (.*) \\\\$", text, flags=re.M)
    assert len(lines) > 1
    assert all(line.count("&") % 2 == 1 and line.startswith("$-$0.512") for line in lines)


def test_a_wider_line_needs_fewer_panels():
    table = group_table(8, 6)
    n_panels = [table.as_latex(width=width).count("gpt-4-0 &") for width in (240, 345, 500, 800)]
    assert n_panels == sorted(n_panels, reverse=True)
    assert n_panels[0] > n_panels[-1] == 1


def test_names_that_pdflatex_cannot_set_keep_their_characters_and_their_code_points():
    assert latex_text("通义") == r"{\ifdefined\Umathchar 通义\else U+901A\allowbreak{}U+4E49\fi}"
    assert latex_text("e\u0301") == "é"
    assert "XeLaTeX" in fit_table(6).as_latex().splitlines()[0]
    assert "XeLaTeX" not in fit_table(3).as_latex().splitlines()[0]
    assert latex_text("a\u202eb\x00").startswith("ab")

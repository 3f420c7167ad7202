"""Every form of a table holds the same cells; text is aligned, HTML touches nothing else, CSV runs nothing."""

import html.parser
import io
import pathlib
import re

import pandas as pd
import pytest

from dmlrank._utils.atomic_write import write_file
from dmlrank.tables.summary_table import Summary, display_width, not_a_formula, safe_csv

from ...support import read_frame

HEBREW = "\u05d2\u05d9\u05df"
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'=quoted", "\t=x", "\uff1d1"]
NAMES = ["gpt-4", "通义千问-72B", "e\u0301te\u0301", "\U0001f469\u200d\U0001f680 pilot", HEBREW, "a<b>&c", *FORMULAS]


def table(names=NAMES, **options):
    rows = tuple((name, f"{place}.125", "-0.5", "1-3", "<0.001") for place, name in enumerate(names))
    columns = (("score", 1), ("[95% CI]", 2), ("adj. P", 1))
    header = (("Functional:", "bt", "Votes:", "1,000"), ("About:", "a sentence " * 12))
    return Summary("A title", header, columns, rows, ("First note.", f"{HEBREW} leads by 0.5."), **options)


def test_text_is_aligned_whatever_the_names_are():
    lines = table().as_text().splitlines()
    rules = [line for line in lines if set(line) <= set("=-") and line]
    assert len({len(line) for line in rules}) == 1
    rows = [line for line in lines if line.endswith("<0.001")]
    assert len(rows) == len(NAMES)
    assert {display_width(line) for line in rows} == {len(rules[0])}
    # A header wider than the rows has one blank after each label, and two between its sides.
    wide = Summary("Wide", (("A:", "x" * 60, "B:", "y" * 30),), (("score", 1),), (("model", "0.5"),), ())
    assert {len(line) for line in wide.as_text().splitlines()[1:4]} == {3 + 60 + 2 + 3 + 30}


@pytest.mark.parametrize("width", [40, 60, 80, 94])
def test_text_in_a_given_width_has_every_cell_once_in_panels(width):
    columns = tuple((f"group {number}", 1) for number in range(8))
    rows = tuple((f"model-{j}", *(f"{j}.{g} (0.{g}{j})" for g in range(8))) for j in range(5))
    wide = Summary("Wide", (("Functional:", "bt"),), columns, rows, ("A note of some length. " * 5,))
    text = wide.as_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    for row in rows:
        for cell in row[1:]:
            assert text.count(cell) == 1
    assert text.count("model-3") == text.count("model-0") > 1
    assert max(map(len, wide.as_text().splitlines())) > 94


class Page(html.parser.HTMLParser):
    """Cells of the tables of a page, and its tags, which have to be balanced."""

    def __init__(self):
        super().__init__()
        self.open, self.rows, self.style, self.tags = [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        elif self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_html_has_every_cell_and_a_style_for_itself_alone():
    page = Page()
    page.feed(table().as_html())
    assert not page.open
    names = [re.sub("[\u2068\u2069]", "", row[0]) for row in page.rows[1:]]
    assert names == [" ".join(name.split()) if "\t" in name else name for name in NAMES]
    assert all(row[1:] == list(cells[1:]) for row, cells in zip(page.rows[1:], table().rows, strict=True))
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)\}", r"\1", page.style))
    parts = [part.strip() for selector in selectors for part in re.split(r",(?![^(]*\))", selector)]
    assert len(parts) > 15
    assert all(part.startswith((".dmlrank-table", ":root:has(>body>.dmlrank-table:only-child)")) for part in parts)
    assert not re.search(r"url\(|@import|expression|#[0-9a-f]{3,6}", page.style)
    assert {"script", "link", "img", "iframe"}.isdisjoint(tag for tag, _ in page.tags)
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert scopes.count("row") == len(NAMES)


def test_a_name_from_right_to_left_is_isolated_in_every_form():
    for form in (table().as_text(), table().as_html(), table().as_markdown()):
        assert form.count(HEBREW) == form.count(f"\u2068{HEBREW}\u2069") == 2


def test_csv_has_no_formulas_and_its_cells_are_read_as_they_are(tmp_path):
    text = table().as_csv()
    cells = [line.split(",")[0].strip('"') for line in text.splitlines()[1:]]
    assert not any(cell[:1] in "=+-@\t\uff1d" for cell in cells)
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    frame = read_frame(str(tmp_path / "table.csv"))
    assert frame["model"].tolist() == [not_a_formula(name) for name in NAMES]
    # Numbers below zero stay numbers.
    assert frame["[95% CI] lower"].astype(float).tolist() == [-0.5] * len(NAMES)


HOSTILE = ["m\r=cmd", "m\n@x", "m\r\n-1+2", "\r=x", 'q"\r"=x', "m\u2028+x", "m;=x", "m\t=x", "m\r'=x", "m"]


def test_no_line_break_in_a_name_starts_a_row_or_a_formula(tmp_path):
    path = str(tmp_path / "frame.csv")
    write_file(path, safe_csv(pd.DataFrame({"model": HOSTILE, "m\r=x": 0.5})))
    for text in (pathlib.Path(path).read_bytes().decode(), table(HOSTILE).as_csv()):
        frame = pd.read_csv(io.StringIO(text, newline=""))
        assert frame["model"].tolist() == [not_a_formula(name) for name in HOSTILE]
        assert len(set(frame["model"])) == len(HOSTILE)
        # Rows end with a line feed, and also a reader that knows no quotation marks finds no formula.
        assert text.endswith("\n")
        assert not text.endswith("\r\n")
        assert not re.search(r"(^|[,;\s])\"?[=+@]", text)
        assert not re.search(r"(^|[;\s])\"?-", text)


def test_names_with_apostrophes_are_read_as_they_are(tmp_path):
    names = ["'=x", "=x", "''=x", "'-z", "-z", "'", "'plain"]
    pd.DataFrame({"model": names}).to_csv(tmp_path / "names.csv", index=False)
    assert read_frame(str(tmp_path / "names.csv"))["model"].tolist() == names


@pytest.mark.parametrize("text", [*NAMES, "-", "-0.5", "+1", "-inf", "", "'", "''", "'a'", "''=x", "1=2"])
def test_apostrophes_are_put_before_formulas_and_nothing_else_changes(text):
    written = not_a_formula(text)
    assert written.replace("'", "") == text.replace("'", "")
    try:
        float(text)
    except ValueError:
        assert len(text) < 2 or not re.match(r"[=+\-@\t\uff1d]", written)
    else:
        assert written == text


def test_the_first_column_may_hold_something_else_than_the_name():
    ranked = Summary("T", (), (("model", 1), ("score", 1)), (("1-2", "a", "0.5"),), (), "rank set", name_place=1)
    assert ranked.as_text().splitlines()[2].split() == ["rank", "set", "model", "score"]
    assert '<td class="l">1-2</td><th scope="row" class="l">a</th><td>0.5</td>' in ranked.as_html()
    assert ranked.as_csv() == "rank set,model,score\n1-2,a,0.5\n"
    assert "| rank set | model | score |\n|:--|:--|--:|" in ranked.as_markdown()

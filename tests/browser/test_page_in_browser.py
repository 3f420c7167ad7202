"""The page of a result in a browser: sorting, pairs, matrix, tabs, downloads, hostile names, widths, accessibility."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.tables.display_text import not_a_formula

from ..support import HOSTILE_NAMES, needs, simulated_votes

pytestmark = [needs("playwright"), needs("jinja2")]

FORMULA = "winner ~ 1 | model_a + model_b"


@pytest.fixture(scope="module")
def hostile():
    battles = simulated_votes(len(HOSTILE_NAMES), 400, names=HOSTILE_NAMES)
    return dr.dml_rank(FORMULA, battles, context="prompt", position_bias=False, pairs=dr.Pairs(min_labels=1), rng=0)


@pytest.fixture(scope="module")
def groups():
    battles = simulated_votes(4, 1200).assign(topic=np.tile(["code", "math"], 600))
    return dr.dml_rank("winner ~ C(topic) | model_a + model_b", battles, context="prompt", rng=0).by("topic")


def column(page, place):
    return page.locator(f"table.board tbody tr > :nth-child({place})").all_inner_texts()


def as_number(text):
    return float(text.replace("−", "-").replace(",", ""))


def download(page, name):
    with page.expect_download() as saved:
        page.get_by_role("button", name=name).click()
    return saved.value.suggested_filename, saved.value.path().read_bytes().decode("utf-8")


def head(page, name):
    return page.locator("table.board thead th", has_text=name).first


def test_the_table_sorts_by_mouse(open_page, arena_result):
    page = open_page(arena_result)
    assert head(page, "Rank").get_attribute("aria-sort") == "ascending"
    best_first = column(page, 2)
    head(page, "Votes").get_by_role("button").click()
    page.wait_for_timeout(50)
    votes = [as_number(text) for text in column(page, 8)]
    assert votes == sorted(votes, reverse=True)
    assert head(page, "Votes").get_attribute("aria-sort") == "descending"
    assert head(page, "Rank").get_attribute("aria-sort") is None
    head(page, "Score").get_by_role("button").click()
    page.wait_for_timeout(50)
    assert column(page, 2) == best_first
    head(page, "Model").get_by_role("button").click()
    page.wait_for_timeout(50)
    assert head(page, "Model").get_attribute("aria-sort") == "ascending"
    assert column(page, 2) == sorted(best_first)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_table_sorts_by_keyboard(open_page, arena_result, key):
    page = open_page(arena_result)
    head(page, "Win probability").get_by_role("button").focus()
    page.keyboard.press(key)
    page.wait_for_timeout(50)
    assert head(page, "Win probability").get_attribute("aria-sort") == "descending"
    page.keyboard.press(key)
    page.wait_for_timeout(50)
    assert head(page, "Win probability").get_attribute("aria-sort") == "ascending"
    shares = [as_number(text) for text in column(page, 7)]
    assert shares == sorted(shares)


def test_the_filter_hides_other_models(open_page, arena_result):
    page = open_page(arena_result)
    page.get_by_label("Filter by name").fill("GPT")
    rows = page.locator("table.board tbody tr:visible")
    assert rows.count() == 2
    assert page.locator(".tools .note").inner_text() == "2 of 8 shown"


def test_the_answer_about_every_pair_is_that_of_t_test_pairwise(open_page, arena_result):
    page = open_page(arena_result)
    answers = page.evaluate(
        """() => {
          const form = document.querySelector(".picker"), found = [];
          for (let a = 0; a < 8; a++) for (let b = 0; b < 8; b++) if (a !== b) {
            form.elements.first.selectedIndex = a; form.elements.second.selectedIndex = b;
            form.dispatchEvent(new Event("change"));
            found.push([form.elements.first.selectedOptions[0].text, form.elements.second.selectedOptions[0].text,
              document.querySelector(".answer").textContent]);
          }
          return found;
        }"""
    )
    tests = arena_result.t_test_pairwise().result_frame
    both = pd.concat(
        [
            tests,
            tests.rename(columns={"first": "second", "second": "first"}).assign(
                estimate=-tests["estimate"], conf_low=-tests["conf_high"], conf_high=-tests["conf_low"]
            ),
        ]
    ).set_index(["first", "second"])
    groups = arena_result.ranks()["group"]
    assert len(answers) == 56
    for first, second, text in answers:
        a, b = (name.split(". ", 1)[1] for name in (first, second))
        row = both.loc[(a, b)]
        number = r"([−\d.]+)"
        found = re.search(
            rf"difference {number}, 95 % simultaneous interval {number} to {number}, p (.*?) adjusted for all pairs",
            text,
        )
        shown = [as_number(part) for part in found.groups()[:3]]
        np.testing.assert_allclose(shown, row[["estimate", "conf_low", "conf_high"]].astype(float), atol=5.01e-4)
        p = row["p_adjusted"]
        assert found[4] == ("< 0.001" if p < 0.0005 else f"= {p:.3f}")
        assert text.startswith("Not separated") == bool(set(groups[a]) & set(groups[b]))


def test_pairs_are_picked_by_keyboard_and_swapped(open_page, arena_result):
    page = open_page(arena_result)
    first, second = page.get_by_label("First model"), page.get_by_label("Second model")
    answer = page.locator(".answer")
    first.select_option(index=0)
    second.select_option(index=7)
    assert "Separated: gpt-4 is above dolly-v2-12b." in answer.inner_text()
    page.get_by_role("button", name="Swap").click()
    assert "dolly-v2-12b minus gpt-4: difference −" in answer.inner_text()
    second.select_option(index=7)
    assert "choose two different models" in answer.inner_text()


def test_the_matrix_answers_on_hover_focus_and_click(open_page, arena_result):
    page = open_page(arena_result)
    matrix, detail = page.locator("svg.matrix"), page.locator("p.detail")
    matrix.scroll_into_view_if_needed()
    size, left, top = (float(matrix.get_attribute(f"data-{name}")) for name in ("size", "x", "y"))
    place = {"x": left + 7.5 * size, "y": top + 0.5 * size}
    matrix.hover(position=place)
    assert detail.inner_text().startswith("Separated: gpt-4 is above dolly-v2-12b.")
    matrix.click(position=place)
    assert page.get_by_label("Second model").input_value() == "7"
    other = open_page(arena_result)
    box, detail = other.locator(".matrix-box"), other.locator("p.detail")
    other.get_by_role("button", name="Swap").focus()
    other.keyboard.press("Tab")
    assert box.evaluate("box => box === document.activeElement")
    assert "gpt-4 minus claude-v1" in detail.inner_text()
    other.keyboard.press("ArrowDown")
    assert "The diagonal" in detail.inner_text()
    other.keyboard.press("ArrowRight")
    assert "claude-v1 minus gpt-3.5-turbo" in detail.inner_text()
    other.keyboard.press("Enter")
    assert other.get_by_label("First model").input_value() == "1"


def test_tabs_follow_the_pattern(open_page, groups):
    page = open_page(groups)
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Side by side", "All prompts", "code", "math"]
    assert page.get_by_role("tabpanel").count() == 1
    tabs.nth(0).focus()
    page.keyboard.press("ArrowLeft")
    assert tabs.nth(3).get_attribute("aria-selected") == "true"
    assert page.locator("#b2").is_visible()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tabpanel", name="All prompts").is_visible()
    assert [tab.get_attribute("tabindex") for tab in tabs.all()] == ["-1", "0", "-1", "-1"]


def test_the_tables_side_by_side_sort_by_scores_and_ranks(open_page, arena_result, groups):
    page = open_page(dr.compare(bt=arena_result, borda=arena_result.update(functional="borda")))
    best_first = arena_result.params.sort_values(ascending=False).index.tolist()
    head(page, "borda").get_by_role("button").click()
    page.wait_for_timeout(50)
    assert head(page, "borda").get_attribute("aria-sort") == "descending"
    shares = [
        as_number(text.split(" ")[0]) for text in page.locator("#overview tbody td:nth-child(5)").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    head(page, "bt").get_by_role("button").click()
    page.wait_for_timeout(50)
    assert page.locator("#overview tbody th").all_inner_texts() == best_first
    other = open_page(groups)
    head(other, "math").get_by_role("button").click()
    other.wait_for_timeout(50)
    cells = other.locator("#overview tbody td:nth-child(4)").all_inner_texts()
    scores = [as_number(text.split(" ")[0]) for text in cells]
    assert scores == sorted(scores, reverse=True)


def test_a_link_to_a_part_of_a_leaderboard_opens_its_tab(open_page, groups):
    page = open_page(groups)
    page.evaluate("location.hash = '#b2-table'")
    page.wait_for_timeout(50)
    assert page.get_by_role("tab").nth(3).get_attribute("aria-selected") == "true"
    assert page.locator("#b2-table").is_visible()


def test_downloads_have_the_numbers(open_page, arena_result):
    page = open_page(arena_result)
    name, text = download(page, "Table (CSV)")
    assert name == "leaderboard.csv"
    table = pd.read_csv(io.StringIO(text)).set_index("model")
    expected = arena_result.tidy().set_index("term").loc[table.index]
    np.testing.assert_allclose(table["score"], expected["estimate"], atol=1e-8)
    np.testing.assert_allclose(table["conf_low"], expected["conf_low"], atol=1e-8)
    assert table["votes"].tolist() == expected["votes"].tolist()
    ranks = arena_result.ranks()
    assert table[["rank_low", "rank_high", "group"]].to_numpy().tolist() == (
        ranks[["lower", "upper", "group"]].to_numpy().tolist()
    )
    pairs = pd.read_csv(io.StringIO(download(page, "All pairs (CSV)")[1]))
    tests = arena_result.t_test_pairwise().result_frame
    assert pairs[["first", "second"]].to_numpy().tolist() == tests[["first", "second"]].to_numpy().tolist()
    for column_name in ("estimate", "std_error", "conf_low", "conf_high", "p_adjusted"):
        np.testing.assert_allclose(pairs[column_name], tests[column_name], rtol=1e-5, atol=1e-7)
    stored = json.loads(download(page, "JSON")[1])
    assert len(stored["pairs"]) == 28
    critical = stored["critical_of_pairs"]
    assert critical == arena_result.t_test_pairwise().critical
    assert (stored["level"], stored["alpha"], stored["functional"]) == (0.95, 0.05, "bt (log-odds projection)")
    # Whoever has the file can compute every difference again.
    place = {model: number for number, model in enumerate(stored["names"])}
    scores, covariance = np.array(stored["scores"]), np.array(stored["covariance"])
    np.testing.assert_allclose(
        covariance, arena_result.cov_params().loc[list(place), list(place)], rtol=1e-5, atol=1e-9
    )
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), stored["std_errors"], rtol=1e-8)
    for row in tests.itertuples():
        a, b = place[row.first], place[row.second]
        error = np.sqrt(covariance[a, a] + covariance[b, b] - 2 * covariance[a, b])
        low = scores[a] - scores[b] - critical * error
        np.testing.assert_allclose([error, low], [row.std_error, row.conf_low], rtol=1e-5, atol=1e-6)


def test_hostile_names_are_inert(open_page, hostile):
    page = open_page(hostile)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    names = page.locator("table.board tbody th").evaluate_all("cells => cells.map(cell => cell.textContent)")
    assert sorted(names) == sorted(hostile.models)
    for select in ("First model", "Second model"):
        page.get_by_label(select).select_option(index=3)
    page.locator("svg.matrix").hover()
    assert page.evaluate("window.hacked") is None


def test_downloads_have_the_apostrophes_of_other_csv_files(open_page):
    names = [
        "=1+1",
        "+x",
        "-model",
        "@here",
        "'=quoted",
        "'plain'",
        "-",
        "-0.82",
        "+1e5",
        "-inf",
        "gpt-4",
    ]
    battles = simulated_votes(len(names), 3000, names=names)
    fit = dr.dml_rank(
        FORMULA, battles, functional="bt", context="prompt", position_bias=False, pairs=dr.Pairs(min_labels=1), rng=0
    )
    page = open_page(fit)
    table = list(csv.DictReader(io.StringIO(download(page, "Table (CSV)")[1], newline="")))
    assert sorted(row["model"] for row in table) == sorted(map(not_a_formula, fit.models))
    assert sum(row["model"].startswith("'") for row in table) == 6
    # Negative numbers stay numbers.
    assert min(float(row["score"]) for row in table) < 0
    pairs = list(csv.DictReader(io.StringIO(download(page, "All pairs (CSV)")[1], newline="")))
    assert {row[place] for row in pairs for place in ("first", "second")} == set(map(not_a_formula, fit.models))


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_page_is_wider_than_the_window(open_page, arena_result, hostile, groups, width):
    for reportable in (arena_result, hostile, groups):
        page = open_page(reportable, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_rank_sets_are_in_sight_on_a_phone(open_page):
    prompt, model = (a.ravel() for a in np.indices((300, 9)))
    score = np.random.default_rng(0).random(2700) < 0.2 + 0.07 * model
    names = np.array([f"system-{j}-large" for j in range(9)])[model]
    table = pd.DataFrame({"prompt": prompt, "model": names, "score": score.astype(float)})
    of_scores = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0)
    votes = simulated_votes(9, 900, names=[f"system-{j}-large" for j in range(9)])
    of_votes = dr.dml_rank(FORMULA, votes, functional="bt", context="prompt", pairs=dr.Pairs(min_labels=1), rng=0)
    assert (of_votes.conf_int() < 0).all(axis=1).any()  # intervals with two minus signs, the widest ones
    for fit in (of_scores, of_votes):
        page = open_page(fit, width=390)
        box, head = page.locator(".box").first.bounding_box(), page.locator("th", has_text="Rank set").bounding_box()
        assert head["x"] + head["width"] <= box["x"] + box["width"]


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_the_forest_plot_stand_in_their_rows_and_end_with_dots_where_there_is_no_room(open_page, width):
    long = "borealis-2-instruct-2024-08-05"
    battles = simulated_votes(4, 400, names=["a", "b", "c", long])
    fit = dr.dml_rank(FORMULA, battles, context="prompt", position_bias=False, rng=0)
    page = open_page(fit, width=width)
    forest, names, plot = (page.locator(place).bounding_box() for place in (".forest", ".names", ".forest .plot"))
    assert names["width"] > (0.35 if width == 390 else 0.25) * forest["width"]
    assert names["x"] + names["width"] < plot["x"]
    name = page.locator(".names div", has_text=long)
    assert name.evaluate("e => getComputedStyle(e).textOverflow") == "ellipsis"
    assert name.evaluate("e => e.scrollWidth > e.clientWidth") == (width == 390)
    marks = [mark.bounding_box() for mark in page.locator(".marks circle").all()]
    rows = [row.bounding_box() for row in page.locator(".names div").all()]
    for mark, row in zip(marks, rows, strict=True):
        assert mark["y"] + mark["height"] / 2 == pytest.approx(row["y"] + row["height"] / 2, abs=1.0)


def test_printing_unfolds_everything(open_page, arena_result):
    page = open_page(arena_result)
    page.emulate_media(media="print")
    assert not page.locator(".tools").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".panel details:not([open])").count() == 0


def test_the_page_can_be_read_without_scripts(open_page, groups):
    page = open_page(groups, java_script_enabled=False)
    assert page.locator("table.board:visible").count() == 4
    assert page.locator("form:visible, button:visible").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page, arena_result, hostile, groups, scheme):
    axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    check = dr.check(FORMULA, simulated_votes(4, 100), context="prompt")
    for reportable in (arena_result, hostile, groups, arena_result.update(estimator="plugin"), check):
        page = open_page(reportable, color_scheme=scheme, bypass_csp=True)
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        for tab in page.get_by_role("tab").all() or [None]:
            if tab is not None:
                tab.click()
            found = axe_module.Axe().run(page).response["violations"]
            told = [(v["id"], v["impact"], [n["html"] for n in v["nodes"][:3]]) for v in found]
            assert [finding for finding in told if finding[1] in ("serious", "critical", "moderate")] == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
def test_a_table_of_many_models_scrolls_in_its_frame_below_its_head(open_page, arena_result, width):
    battles = simulated_votes(45, 4000, names=[f"model-{number:03d}" for number in range(45)])
    page = open_page(
        dr.dml_rank(FORMULA, battles, context="prompt", position_bias=False, pairs=dr.Pairs(min_labels=1), rng=0), width
    )
    frame = page.get_by_role("region", name="Table, Leaderboard")
    assert frame.bounding_box()["height"] < 800
    assert "45 rows, scroll down within the frame" in frame.locator("caption").inner_text()
    rows = frame.locator("tbody tr")
    assert rows.count() == 45
    # A name with a hyphen stands in one line.
    assert rows.first.bounding_box()["height"] < 40
    last = rows.last
    last.scroll_into_view_if_needed()
    top, at = frame.bounding_box(), frame.locator("thead th").first.bounding_box()
    assert abs(at["y"] - top["y"]) < 3
    assert top["y"] < last.bounding_box()["y"] < top["y"] + top["height"]
    few = open_page(arena_result, width).get_by_role("region", name="Table, Leaderboard")
    assert "scroll down" not in few.locator("caption").inner_text()

"""The page of a result in a browser: sorting, pairs, matrix, tabs, downloads, hostile names, widths, accessibility."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.tables.summary_table import not_a_formula

from ..support import FORMULA, HOSTILE_NAMES, needs, simulated_votes

pytestmark = [needs("playwright"), needs("jinja2")]


@pytest.fixture(scope="module")
def hostile():
    battles = simulated_votes(len(HOSTILE_NAMES), 400, names=HOSTILE_NAMES)
    return dr.dml_rank(FORMULA, battles, context="prompt", position_bias=False, pairs=dr.Pairs(min_labels=1), rng=0)


@pytest.fixture(scope="module")
def groups():
    battles = simulated_votes(4, 1200).assign(topic=np.tile(["code", "math"], 600))
    return dr.dml_rank("winner ~ C(topic) | model_a + model_b", battles, context="prompt", rng=0).by("topic")


def column(page, place):
    cells = page.locator(f"table.board tbody tr > :nth-child({place})")
    return [text.split("\n")[0] for text in cells.all_inner_texts()]


def names_in_order(page):
    return page.locator(".leaders tbody th bdi").all_inner_texts()


def as_number(text):
    return float(text.replace("−", "-").replace(",", ""))


def download(page, name):
    with page.expect_download() as saved:
        page.get_by_role("button", name=name).click()
    return saved.value.suggested_filename, saved.value.path().read_bytes().decode("utf-8")


def head(page, name):
    return page.locator("table.board thead th", has=page.get_by_role("button", name=name)).first


def test_the_table_sorts_by_mouse(open_page, arena_result):
    page = open_page(arena_result)
    assert head(page, "log-odds").get_attribute("aria-sort") == "descending"
    best_first = names_in_order(page)
    head(page, "Votes").get_by_role("button").click()
    page.wait_for_timeout(50)
    votes = [as_number(text) for text in column(page, 7)]
    assert votes == sorted(votes, reverse=True)
    assert head(page, "Votes").get_attribute("aria-sort") == "descending"
    assert head(page, "log-odds").get_attribute("aria-sort") is None
    head(page, "log-odds").get_by_role("button").click()
    page.wait_for_timeout(50)
    assert names_in_order(page) == best_first
    head(page, "Model").get_by_role("button").press("Enter")
    page.wait_for_timeout(50)
    assert head(page, "Model").get_attribute("aria-sort") == "ascending"
    assert names_in_order(page) == sorted(best_first)


@pytest.mark.filterwarnings("ignore::dmlrank.DmlrankWarning")
def test_names_and_makers_filter_the_table_and_many_rows_are_folded(open_page):
    names = [f"model-{number:03d}" for number in range(120)]
    prompt, model = (part.ravel() for part in np.indices((130, 120)))
    score = np.random.default_rng(0).random(len(prompt)) < 0.2 + 0.005 * model
    table = pd.DataFrame({"prompt": prompt, "model": np.array(names)[model], "score": score.astype(float)})
    makers = {name: "Even" if number % 2 == 0 else "Odd & Co" for number, name in enumerate(names)}
    page = open_page(dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0), group=makers)
    rows, said = page.locator(".leaders tbody tr:visible"), page.locator(".tools .note").first
    assert rows.count() == 100
    page.get_by_label("Filter").fill("MODEL-00")
    assert (rows.count(), said.inner_text()) == (10, "10 of 120 shown")
    page.get_by_role("button", name="Odd & Co").click()
    assert (rows.count(), said.inner_text()) == (5, "5 of 120 shown")
    page.get_by_label("Filter").fill("")
    assert rows.count() == 60
    page.get_by_role("button", name="Odd & Co").click()
    page.get_by_role("button", name="Show all 120").click()
    assert rows.count() == 120
    # The head stays in sight.
    rows.last.scroll_into_view_if_needed()
    assert abs(page.locator(".leaders thead th").first.bounding_box()["y"]) < 2


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
            rf"difference {number}, 95 % interval {number} to {number}, p (.*?)\. Interval and p hold for all pairs",
            text,
        )
        shown = [as_number(part) for part in found.groups()[:3]]
        np.testing.assert_allclose(shown, row[["estimate", "conf_low", "conf_high"]].astype(float), atol=5.01e-4)
        p = row["p_adjusted"]
        assert found[4] == ("< 0.001" if p < 0.0005 else f"= {p:.3f}")
        assert text.startswith("Not shown which is better") == bool(set(groups[a]) & set(groups[b]))


def test_pairs_are_picked_by_keyboard_and_swapped(open_page, arena_result):
    page = open_page(arena_result)
    first, second = page.get_by_label("First model"), page.get_by_label("Second model")
    answer = page.locator(".answer")
    first.select_option(index=0)
    second.select_option(index=7)
    assert "Of 7 others, 6 are shown to be worse than gpt-4 and 0 to be better." in answer.inner_text()
    assert "gpt-4 is shown to be better than dolly-v2-12b." in answer.inner_text()
    page.get_by_role("button", name="Swap").click()
    assert "dolly-v2-12b minus gpt-4: difference −" in answer.inner_text()
    second.select_option(index=7)
    assert "choose two different models" in answer.inner_text()


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


def test_the_table_side_by_side_sorts_by_scores_and_keeps_its_models_in_sight(open_page, groups):
    page = open_page(groups, width=390)
    head(page, "math").get_by_role("button").click()
    page.wait_for_timeout(50)
    cells = page.locator("#overview tbody td:nth-child(4)").all_inner_texts()
    scores = [as_number(text.split("\n")[0]) for text in cells]
    assert scores == sorted(scores, reverse=True)
    page.locator("#overview .box").evaluate("box => { box.scrollLeft = 200; }")
    assert page.locator("#overview tbody th").first.bounding_box()["x"] < 20


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
    assert table[["rank_low", "rank_high"]].to_numpy().tolist() == ranks[["lower", "upper"]].to_numpy().tolist()
    pairs = pd.read_csv(io.StringIO(download(page, "All pairs (CSV)")[1]))
    tests = arena_result.t_test_pairwise().result_frame
    assert pairs[["first", "second"]].to_numpy().tolist() == tests[["first", "second"]].to_numpy().tolist()
    for column_name in ("estimate", "std_error", "conf_low", "conf_high", "p_adjusted"):
        np.testing.assert_allclose(pairs[column_name], tests[column_name], rtol=1e-5, atol=1e-7)
    stored = json.loads(download(page, "JSON")[1])
    assert len(stored["pairs"]) == 28
    critical = stored["critical_of_pairs"]
    assert critical == arena_result.t_test_pairwise().critical
    assert (stored["level"], stored["alpha"], stored["Functional"]) == (0.95, 0.05, "bt (log-odds projection)")
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
    names = page.locator(".leaders tbody th bdi").evaluate_all("cells => cells.map(cell => cell.textContent)")
    assert sorted(names) == sorted(hostile.models)
    for select in ("First model", "Second model"):
        page.get_by_label(select).select_option(index=3)
    assert page.evaluate("window.hacked") is None


def test_downloads_have_the_apostrophes_of_other_csv_files(open_page):
    names = ["=1+1", "+x", "-model", "@here", "'=quoted", "'plain'", "-", "-0.82", "+1e5", "-inf", "gpt-4"]
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
        # The word before the buttons is not broken into letters.
        words = page.evaluate("""[...document.querySelectorAll(".tools")].flatMap((row) => [...row.childNodes])
            .filter((node) => node.nodeType === 3 && node.textContent.trim() && node.parentNode.offsetParent)
            .map((node) => { const r = new Range(); r.selectNodeContents(node); return r.getClientRects().length; })""")
        assert set(words) <= {1}


@pytest.mark.parametrize("kind", ["scores", "votes", "groups"])
def test_the_first_screen_of_a_phone_has_five_rows_and_few_words_above_them(open_page, groups, kind):
    names = [f"system-{j}-large" for j in range(9)]
    prompt, model = (a.ravel() for a in np.indices((300, 9)))
    score = np.random.default_rng(0).random(2700) < 0.2 + 0.07 * model
    table = pd.DataFrame({"prompt": prompt, "model": np.array(names)[model], "score": score.astype(float)})
    fit = groups
    if kind == "scores":
        fit = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0)
    elif kind == "votes":
        votes = simulated_votes(9, 900, names=names)
        fit = dr.dml_rank(FORMULA, votes, functional="bt", context="prompt", pairs=dr.Pairs(min_labels=1), rng=0)
    page = open_page(fit, width=390, height=844, title="Support tasks", source="Helpdesk logs")
    rows = [row.bounding_box() for row in page.locator("table.board tbody tr:visible").all()]
    assert sum(row["y"] + row["height"] <= 844 for row in rows) >= min(5, len(rows))
    above = page.locator("header .lead:visible, .verdict summary:visible").all_inner_texts()
    assert len(" ".join(above).split()) <= 35
    if kind != "groups":
        for place in ("first", "last"):
            assert getattr(page.locator(".leaders .iv svg"), place).bounding_box()["x"] < 390


@pytest.mark.parametrize("touch", [False, True])
def test_heads_and_words_explain_themselves_to_pointer_and_finger(open_page, arena_result, touch):
    page = open_page(arena_result, has_touch=touch)
    tip = page.locator("th.rank .tip")
    assert not tip.is_visible()
    button = page.locator("th.rank button")
    button.tap() if touch else button.hover()
    assert tip.is_visible()
    page.locator("summary", has_text="Method").click()
    word = page.locator(".section[open] dfn").first
    word.tap() if touch else word.hover()
    assert word.locator("span").is_visible()


def test_printing_unfolds_everything(open_page, arena_result):
    page = open_page(arena_result)
    page.emulate_media(media="print")
    assert page.locator(".tools:visible").count() == 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".panel details:not([open])").count() == 0


def test_the_page_can_be_read_without_scripts(open_page, groups):
    page = open_page(groups, java_script_enabled=False)
    assert page.locator("table.board:visible").count() == 4
    assert page.locator("form:visible, button:visible").count() == 0
    assert page.locator(".leaders .iv circle:visible").count() == 12


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

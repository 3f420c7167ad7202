"""The page of a result: structure, escaping, size, and numbers equal to those of the summary and the tests."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import html.parser
import json
import re
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.graph import Graph, VoteCounts
from dmlrank.inference.covariance import Covariance
from dmlrank.inference.simultaneous import PairTests, Separation
from dmlrank.report.phrases import SummaryLevel, without_code
from dmlrank.report.render_page import Board, Masthead, number_text, write_page

from ...support import FORMULA, HOSTILE_NAMES, needs, simulated_votes

pytestmark = needs("jinja2")

VOID = {"meta", "link", "input", "br"}
OPTIONAL_END = {"th", "td", "tr", "li", "dt", "dd"}


class Elements(html.parser.HTMLParser):
    """All elements of a page as (tag, attributes), and whether they are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts, self.problems = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in OPTIONAL_END:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def names_in(text):
    """Names of the rows of the first table, which the scripts read from there."""
    table = re.search(r"<tbody>(.*?)</tbody>", text, re.S)[1]
    return [html.unescape(name) for name in re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', table, re.S)]


def best_first(result):
    return result.params.sort_values(ascending=False).index


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def fit_of(battles, **options):
    pairs = dr.Pairs(min_labels=1)
    return dr.dml_rank(FORMULA, battles, context="prompt", position_bias=False, pairs=pairs, rng=0, **options)


def floats(packed):
    return np.frombuffer(base64.b64decode(packed), dtype="<f4").astype(float)


@pytest.fixture(scope="module")
def page(arena_result):
    return arena_result.report()


def test_the_page_is_well_formed_and_has_the_parts(page):
    elements = Elements(page)
    assert elements.problems == []
    assert elements.open == []
    assert page.startswith("<!DOCTYPE html>")
    ids = [attributes["id"] for _, attributes in elements.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [a.get("scope") for a in elements.all("th")].count("row") == 8
    assert len(elements.all("caption")) == len(elements.all("table")) == 1
    classes = {a.get("class") for a in elements.all("svg")}
    assert "axis" in classes
    assert {a["class"] for a in elements.all("form")} == {"picker"}


def test_the_policy_names_the_hash_of_every_script_and_style_and_nothing_from_outside(page):
    elements = Elements(page)
    policy = next(a["content"] for a in elements.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    for text in (*re.findall(r"<script>(.*?)</script>", page, re.S), *re.findall(r"<style>(.*?)</style>", page, re.S)):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    for tag, attributes in elements.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert "style" not in attributes
        for name in ("src", "href"):
            if name in attributes and tag != "a":
                assert attributes[name] in ("data:,",)


def test_the_table_has_the_numbers_of_the_summary(page, arena_result):
    rows = [
        re.findall(r"<t[hd][^>]*>(?:<bdi>)?([^<]*)", row) for row in re.findall(r"<tr[^>]*>(<td class=.*?)\n", page)
    ]
    votes, expected = arena_result.tidy().set_index("term")["votes"], []
    for name, coef, _, _, _, low, high, rank_set, win in arena_result.summary().rows:
        score, interval = (text.replace("-", "−") for text in (coef, f"{low} to {high}"))
        expected.append([rank_set.replace("-", "–"), name, score, "", interval, win, f"{votes[name]:,}"])
    assert rows == expected


def test_intervals_are_drawn_in_their_rows_on_one_axis(page, arena_result):
    drawn = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"/><circle cx="([\d.]+)%"/>', page)
    start, width, score = np.array(drawn, dtype=float).T
    limits, params = arena_result.conf_int().loc[names_in(page)], arena_result.params[names_in(page)]
    slope, first = np.polyfit(params, score, 1)
    for numbers, places in ((params, score), (limits["lower"], start), (limits["upper"], start + width)):
        np.testing.assert_allclose(first + slope * numbers, places, atol=0.25)
    # The line is at the mean of the models.
    assert float(re.search(r"#b0\{--r:([\d.]+)%\}", page)[1]) == pytest.approx(first, abs=0.25)


def test_chips_and_the_first_line_agree_with_the_ranks(page, arena_result):
    ranks = arena_result.ranks().result_frame
    chips = dict(re.findall(r'<bdi>([^<]*)</bdi><span class="chip[^"]*">(.*?)</span>', page))
    expected = {
        name: f"shown worse than {lower - 1} other{'s' * (lower > 2)}" for name, lower in ranks["lower"].items()
    }
    assert chips == expected | dict.fromkeys(ranks.index[ranks["lower"] == 1], "tied for first")
    assert "<summary><b>gpt-4 and claude-v1 are tied for first.</b>" in page


def test_no_two_pages_of_different_quantities_have_one_title(arena_result, ignore_warnings):
    rng = np.random.default_rng(5)
    prompt, model, run = (part.ravel() for part in np.indices((90, 3, 2)))
    right = (rng.random(540) < 0.4 + 0.2 * model).astype(float)
    table = pd.DataFrame({"prompt": prompt, "model": np.array(list("abc"))[model], "run": run, "right": right})
    table = table.assign(task=prompt % 3, weight=1.0 + prompt % 2)

    def of(data=table, **options):
        return dr.dml_rank("right ~ 1 | model", data, context="prompt", run="run", rng=0, **options)

    kinds = [dr.functionals.PassAtK(2), dr.functionals.PassHatK(2), "mean"]
    fits = [of(functional=kind) for kind in kinds]
    fits += [of(weights="weight"), of(weights=dr.EqualTasks("task")), of(lower_is_better=True)]
    fits += [of(table[5:], missing=0.0), fits[2].by("task")["1"]]
    by_votes = [arena_result, arena_result.rescale("elo"), arena_result.rescale(10)]
    options = ({"functional": "borda"}, {"functional": "rank_centrality"}, {"average": "preferences"})
    options += ({"estimator": "bt_mle"}, {"estimator": "plugin"}, {"prompts": "fixed"}, {"edge_weights": "counts"})
    by_votes += [arena_result.update(**one) for one in options]
    by_votes += [arena_result.sequential(4000)]
    pages = [fit.report(title="Tasks") for fit in (*fits, *by_votes)]
    pages += [fits[2].by("task").report(title="Tasks"), fits[2].report(title="Tasks", unit="points")]
    titles = [re.search("<title>(.*?)</title>", page)[1] for page in pages]
    assert titles[2] == "Tasks: right, mean of 90 prompts; more is better"
    assert titles[0] == "Tasks: pass@2 of right, mean of 90 prompts; more is better"
    assert [title for title, n in Counter(titles).items() if n > 1] == []


def test_a_page_says_what_it_is_in_the_unit_of_its_reader(arena_result):
    borda = arena_result.update(functional="borda")
    page = borda.report(
        title="Arena",
        source="Volunteers <2026>",
        unit="%",
        links={"gpt-4": "https://example.org/?a=1&b"},
        group={"gpt-4": "A & Co", "claude-v1": "B"},
    )
    assert "Source: Volunteers &lt;2026&gt;" in page
    assert '<bdi><a href="https://example.org/?a=1&amp;b">gpt-4</a></bdi><small>A &amp; Co</small>' in page
    assert [a["class"] for a in Elements(page).all("button") if "maker" in a.get("class", "")] == [
        "maker m0",
        "maker m1",
    ]
    assert 'class="score" aria-sort="descending">share of wins in %' in page
    np.testing.assert_allclose(embedded(page)["boards"][0]["score"], 100 * borda.params[best_first(borda)], rtol=1e-8)
    for option, found in (
        ({"unit": "%"}, "unit='%' is for scores from 0 to 1, and these are from -"),
        ({"links": {"gpt-4": "javascript:alert(1)"}}, "an address begins with https:// or http://"),
        ({"group": {"gpt-44": "A"}}, "group= names 'gpt-44', which the page lacks"),
        ({"group": {"gpt-4": 3}}, r"group\['gpt-4'\]"),
    ):
        with pytest.raises(dr.exceptions.DmlrankError, match=found):
            arena_result.report(**option)


def test_colours_of_groups_are_tests_against_the_mean_of_the_group():
    battles = simulated_votes(4, 1200).assign(topic=np.where(np.arange(1200) < 40, "few", "many"))
    groups = dr.dml_rank("winner ~ C(topic) | model_a + model_b", battles, context="prompt", rng=0).by("topic")
    page = groups.report()
    # Only the limits of negative numbers are joined by a word.
    assert re.search(r"<small>0\.\d+–0\.\d+</small>", page)
    head = re.search(r"<thead>.*?</thead>", page, re.S)[0]
    assert re.findall(r'<bdi>(.*?)</bdi><small>(.*?)</small>(<small class="chip few">few)?', head) == [
        ("All prompts", "1,200 prompts", ""),
        ("few", "40 prompts", '<small class="chip few">few'),
        ("many", "1,160 prompts", ""),
    ]
    found = {}
    for row in re.search(r"<tbody>(.*?)</tbody>", page, re.S)[1].strip().split("\n"):
        kinds = [re.search('class="([^"]*)"', cell) for cell in re.findall("<td[^>]*>", row)]
        found[re.search("<bdi>(.*?)</bdi>", row)[1]] = [
            set((kind[1] if kind else "").split()) & {"a", "b"} for kind in kinds
        ]
    for place, group in enumerate(groups.groups, start=1):
        tests = groups[group].tidy().set_index("term")
        for name, row in tests.iterrows():
            expected = ({"a"} if row.statistic > 0 else {"b"}) if row.p_adjusted <= 0.05 else set()
            assert found[name][place] == expected


def test_limits_of_pairs_are_those_of_each_pair():
    prompt, model = (part.ravel() for part in np.indices((40, 3)))
    right = np.random.default_rng(5).random(120) < 0.4 + 0.2 * model
    table = pd.DataFrame({"prompt": prompt, "model": np.array(list("abc"))[model], "right": right.astype(float)})
    scores = dr.dml_rank("right ~ 1 | model", table, context="prompt", rng=0)
    pairs, tests = embedded(scores.report())["boards"][0]["pairs"], scores.t_test_pairwise().result_frame
    for name in ("low", "high"):
        np.testing.assert_allclose(floats(pairs[name]), tests[f"conf_{name}"], rtol=1e-6)


def test_the_embedded_pairs_are_those_of_t_test_pairwise(page, arena_result):
    board, tests = embedded(page)["boards"][0], arena_result.t_test_pairwise()
    frame, pairs = tests.result_frame, board["pairs"]
    names, scores = np.array(names_in(page)), np.array(board["score"])
    first, second = np.triu_indices(len(names), 1)
    assert names[first].tolist() == frame["first"].tolist()
    assert names[second].tolist() == frame["second"].tolist()
    assert pairs["critical"] == tests.critical
    np.testing.assert_allclose(scores[first] - scores[second], frame["estimate"], atol=1e-8)
    np.testing.assert_allclose(floats(pairs["se"]), frame["std_error"], rtol=1e-6)
    np.testing.assert_allclose(floats(pairs["p"]), frame["p_adjusted"], rtol=1e-6, atol=1e-30)
    bits = np.unpackbits(np.frombuffer(base64.b64decode(pairs["separated"]), np.uint8), bitorder="little")
    groups = arena_result.ranks()["group"]
    apart = [not set(groups[a]) & set(groups[b]) for a, b in zip(frame["first"], frame["second"], strict=True)]
    assert bits[: len(frame)].astype(bool).tolist() == apart


def test_level_and_title(arena_result):
    page = arena_result.report(title="A & B <1>", alpha=0.1)
    assert "<title>A &amp; B &lt;1&gt;: log-odds of a win, 2,422 votes; more is better</title>" in page
    assert "90 % interval" in page
    board = embedded(page)["boards"][0]
    assert board["pairs"]["critical"] == arena_result.t_test_pairwise(alpha=0.1).critical
    expected = arena_result.conf_int(alpha=0.1).loc[names_in(page)]
    np.testing.assert_allclose(board["low"], expected["lower"], rtol=1e-7)


def test_what_is_open_has_no_words_of_statisticians(page, arena_result):
    assert f"is {arena_result.diagnostics.log_loss:.3f} (" in page
    before, statisticians = page[page.index("<h1>") : page.index("<footer>")].split("<h2>For statisticians</h2>")
    words = ("projection", "max-t", "step-down", "ropensit", "calibration", "separated", "imultaneous", "unctional")
    seen = re.sub('<details.*?</details>|<span class="tip">.*?</span>', "", before, flags=re.S)
    assert [word for word in (*words, "coef", "estimator") if word in seen] == []
    assert "A lead of 0.4 means 60 wins in 100 comparisons" in before.split("<table")[0]
    assert "The scores are those whose differences come closest to the" in statisticians


def test_hostile_names_are_text():
    result = fit_of(simulated_votes(len(HOSTILE_NAMES), 400, names=HOSTILE_NAMES))
    page = result.report(title="</title><script>alert(1)</script>")
    elements = Elements(page)
    assert elements.problems == []
    assert len(elements.all("script")) == 2
    assert elements.all("img") == []
    assert names_in(page) == result.params.sort_values(ascending=False).index.tolist()
    script = re.search(r'id="data">(.*?)</script>', page, re.S)[1]
    assert not re.search("[<>&\u2028\u2029]", script)


def test_names_do_not_turn_sentences_around():
    names = ["\u202eleft", "\u2067right", "c"]
    page = fit_of(simulated_votes(3, 600, names=names)).report()
    assert "<b>left is first.</b>" in page
    for place in (found.start() for found in re.finditer("[\u202e\u2067]", page)):
        assert page[:place].endswith("<bdi>")


def test_control_characters_are_replaced(tmp_path):
    fit_of(simulated_votes(3, 300, names=["a\x07", "b\x1b", "c"])).report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<bdi>a\ufffd</bdi>" in text
    assert not re.search("[\x00\x07\x1b]", text)


def long_names(n_models):
    """Names of 63 characters, most of which differ at both ends alone."""
    return [f"organisation-{j:03d}/a-language-model-with-a-long-name-and-a-version-{j:03d}" for j in range(n_models)]


@pytest.mark.parametrize(
    ("n_models", "n_votes", "names", "limit"), [(8, 1000, None, 56_000), (60, 8000, long_names(60), 112_000)]
)
@pytest.mark.long
def test_the_page_is_small(n_models, n_votes, names, limit):
    result = fit_of(simulated_votes(n_models, n_votes, names=names), functional="bt")
    assert len(result.report().encode()) < limit


@pytest.mark.long
def test_the_page_of_1000_models_is_small_and_compares_the_best(arena_result):
    """Scores, standard errors and p-values of 1,000 models drawn at random, since a fit of them takes minutes."""
    rng, n_models = np.random.default_rng(0), 1000
    scores, loadings = np.sort(rng.normal(size=n_models))[::-1], rng.normal(size=(n_models, n_models + 9)) / 90
    names = tuple(long_names(n_models))
    estimates = replace(
        arena_result.estimates,
        models=names,
        estimate=scores,
        shares=1 / (1 + np.exp(-scores)),
        covariance=Covariance(loadings @ loadings.T, np.eye(n_models)),
        graph=Graph(~np.eye(n_models, dtype=bool)),
        votes=VoteCounts(np.full(n_models, 1234), np.full(n_models, 5678)),
    )
    first, second = np.triu_indices(n_models, 1)
    std_error = np.ones(len(first)) / 3
    difference, p = scores[first] - scores[second], rng.random(len(first))
    limits = (difference - 1.5, difference + 1.5)
    tests = PairTests(first, second, difference, std_error, difference / std_error, p, p, *limits, 4.5)
    above = np.ones((n_models, n_models))
    above[first, second] = np.where(difference > 1.5, 0.01, 1.0)
    level = SummaryLevel(0.05, 3.8, Separation(above, 4.5, 0.05))
    page = write_page(None, Masthead("One thousand models"), [Board("Leaderboard", estimates, level, tests)])
    assert names_in(page) == list(names)
    assert len(page.encode()) < 600_000
    pairs, kept = embedded(page)["boards"][0]["pairs"], second < 60
    assert pairs["count"] == 60
    np.testing.assert_allclose(floats(pairs["p"]), p[kept], rtol=1e-6)
    assert "Compare two models of the best 60</h2>" in page


def test_estimates_without_intervals_show_a_table_without_claims(arena_result):
    page = arena_result.update(estimator="plugin").report()
    assert "No intervals." in page
    assert "No test supports this order." in page
    assert Elements(page).all("form") == []
    assert Elements(page).all("svg") == []
    assert "rank set" not in page
    board = embedded(page)["boards"][0]
    assert "pairs" not in board
    assert "se" not in board


def test_warnings_are_shown(rank):
    battles = simulated_votes(4, 40)
    result = rank(battles, functional="bt", position_bias=False)
    warnings = result.estimates.diagnostics.warnings
    assert warnings
    page = result.report()
    assert 'class="alert"' in page
    for text in warnings:
        assert text.split(";")[0][:40].lower() in page.replace("&#39;", "'").lower()


def test_own_functionals_have_no_order(arena_result, ignore_warnings):
    def gaps(mu):
        return np.stack([mu[:, 0, 1, 0], mu[:, 1, 2, 0]], axis=1)

    page = arena_result.update(functional=gaps).report()
    assert "Outputs in their order" in page
    assert page.count("<rect x=") == 2
    assert "Compare two models" not in page


@pytest.mark.long
def test_groups_and_comparisons_have_a_tab_for_every_leaderboard(arena_result, tmp_path):
    battles = simulated_votes(4, 1200).assign(topic=np.tile(["code", "math"], 600))
    groups = dr.dml_rank("winner ~ C(topic) | model_a + model_b", battles, context="prompt", rng=0).by("topic")
    path = tmp_path / "groups.html"
    assert groups.report(path) == str(path)
    text = path.read_text(encoding="utf-8")
    panels = [a["data-panel"] for a in Elements(text).all("button") if "data-panel" in a]
    assert panels == ["overview", *(f"b{place}" for place in range(len(groups) + 1))]
    boards = embedded(text)["boards"]
    assert [board["name"] for board in boards] == ["All prompts", *groups.groups]
    tests = groups[groups.groups[0]].t_test_pairwise()
    np.testing.assert_allclose(floats(boards[1]["pairs"]["p"]), tests.result_frame["p_adjusted"], rtol=1e-6, atol=1e-30)
    comparison = dr.compare(bt=arena_result, borda=arena_result.update(functional="borda"))
    text = comparison.report(title="Two scores")
    assert [board["name"] for board in embedded(text)["boards"]] == ["bt", "borda"]
    assert (
        "<title>Two scores: log-odds of a win and share of wins, bt, borda side by side; more is better</title>" in text
    )


def test_a_check_has_a_page_of_its_own(tmp_path):
    battles = simulated_votes(4, 400, names=["<b>", "B", "c", "b "])
    check = dr.check(FORMULA, battles, context="prompt")
    page = check.report(title="Votes & labels")
    elements = Elements(page)
    assert elements.problems == []
    assert "<h1><bdi>Votes &amp; labels</bdi></h1>" in page
    assert len(elements.all("table")) == 5
    assert "&lt;b&gt;" in page
    names, pair = check.pairs.index[0], check.pairs.iloc[0]
    row = re.search(r"<h2>Pairs</h2>.*?<tbody>\n<tr>(.*?)\n", page, re.S)[1]
    cells = [html.unescape(text) for text in re.findall(r"<t[hd][^>]*>(?:<bdi>)?([^<]*)", row)]
    assert cells[:2] == [", ".join(names), str(pair["contexts"])]
    assert "<h2>Settings</h2>" in page
    assert f">{check.settings['se_largest'].iloc[0]:.3f}<td" in page
    assert page.split("<table")[0].count("<p>") == len(check.problems) - 1
    assert check.report(tmp_path / "check.html") == str(tmp_path / "check.html")


def test_the_page_needs_jinja(arena_result, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'dmlrank\[report\]'") as refusal:
        arena_result.report()
    assert isinstance(refusal.value, dr.exceptions.MissingExtraError)


def test_sentences_have_minus_signs_like_the_table_and_the_verdict_comes_first(arena_result):
    said = ("the error biases 'a' by an estimated -0.08; see gpt-4",)
    diagnostics = dataclasses.replace(arena_result.diagnostics, warnings=said, doubts=said)
    doubted = dr.RankResults(dataclasses.replace(arena_result.estimates, diagnostics=diagnostics)).report()
    assert "an estimated \u22120.08; see gpt-4." in doubted
    assert doubted.index('class="verdict"') < doubted.index('class="alert"') < doubted.index("<table")


def test_numbers_are_written_with_a_minus_sign():
    assert number_text(-0.0004, 3) == "0.000"
    assert number_text(-1.5, 1) == "−1.5"


def test_days_of_data_and_fit_stand_below_the_title():
    times = pd.date_range("2026-01-05", "2026-03-31", periods=600)
    result = dr.dml_rank("winner ~ 1 | model_a + model_b", simulated_votes(3, 600).assign(time=times), rng=0)
    day = result.estimates.description.date
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", day)
    assert '<p class="lead">Data of 2026-01-05 to 2026-03-31</p>' in result.report()
    assert "Data from: 2026-01-05 to 2026-03-31" in result.explain()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The slope is 0.52; try another learner=, or collect more labels", "The slope is 0.52."),
        (
            "2 of 9 pairs have fewer than min_labels=5 prompts; graph='observed' leaves such pairs out.",
            "2 of 9 pairs have fewer than 5 prompts.",
        ),
        ("Not used. More labels help (n_folds=2); update(learner=x) does not.", "Not used. More labels help."),
        ("Two causes: one; another; look at min_votes=2. Scores stay.", "Two causes: one; another. Scores stay."),
        ("No model 'k=3' has a vote.", "No model 'k=3' has a vote."),
        ("ant - dog: 0.2, not decided.", "ant - dog: 0.2, not decided."),
    ],
)
def test_pages_name_no_options_and_methods(text, shown):
    assert without_code(text) == shown


def test_pages_of_scores_do_not_speak_of_votes():
    rng = np.random.default_rng(5)
    prompts, models = np.repeat(np.arange(120), 3), np.tile(["a", "b", "c"], 120)
    table = pd.DataFrame({"prompt": prompts, "model": models, "score": rng.random(360).round(2)})
    for functional in ("mean", "borda"):
        page = dr.dml_rank("score ~ 1 | model", table, context="prompt", functional=functional, rng=0).report()
        assert not re.findall(r"\bvot\w*", re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.S))

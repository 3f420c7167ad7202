"""Scores against costs: statuses from the intervals by brute force, joint covariance, pictures, page and errors."""

import importlib.util
import json
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy.stats import skew

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import ColumnError, IntervalWarning, MissingDataError, OptionError, OptionTypeError
from dmlrank.options import in_objects

from ..support import table_of_costs

FORMULA = "score ~ 1 | model"
CLUSTERS = {"cov_type": "cluster", "cov_kwds": {"groups": "suite"}}
BEST, UNDECIDED, WORSE = "best at its cost", "undecided at its cost", "worse and not cheaper"


@pytest.mark.filterwarnings("ignore:few prompts:dmlrank.exceptions.IntervalWarning")
def test_skewed_costs_of_few_prompts_are_said_to_have_narrow_intervals():
    rng = np.random.default_rng(0)
    for n, spread, is_doubtful in ((25, 2.0, True), (400, 0.3, False)):
        cost = np.exp(spread * rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 4)) + 0.3 * np.arange(4))
        models = {"prompt": np.repeat(np.arange(n), 4), "model": [*"abcd"] * n}
        table = pd.DataFrame(models | {"score": rng.integers(2, size=4 * n), "cost": cost.ravel()})
        res = fit(table)
        warned = pytest.warns(IntervalWarning, match="Intervals of costs are too narrow")
        with warned if is_doubtful else nullcontext():
            found = res.pareto("cost")
        gaps = np.stack([cost[:, j] - cost[:, k] for j in range(4) for k in range(j)])
        skewness = np.median(np.abs(skew(gaps, axis=1)))
        assert (n < 25 * skewness**2) == is_doubtful == bool(found.doubt)
        said = f"a skewness of {skewness:.1f} (median), for which 25 prompts or clusters are too few; about"
        for text in (str(found.summary()), found.page_section(res.estimates)[3]):
            assert (said in " ".join(text.split())) == is_doubtful


def a_table(seed, n=450, k=6):
    return table_of_costs(n, k, np.random.default_rng(seed))


def fit(table, **options):
    return dr.dml_rank(FORMULA, table, **in_objects({"context": "prompt", "rng": 0} | options))


def brute_force(found, costs=None):
    """Return statuses and dominating models by enumeration of the pairs of models and their intervals."""
    intervals = {}
    for row in found.tests.itertuples():
        intervals[row.quantity, row.first, row.second] = (row.conf_low, row.conf_high)
        intervals[row.quantity, row.second, row.first] = (-row.conf_high, -row.conf_low)
    statuses = {}
    for j in found.models:
        by, ahead = [], True
        for k in found.models:
            if k == j:
                continue
            score_low, score_high = intervals["score", k, j]
            if costs is None:
                cheaper, dearer = intervals["cost", k, j][1] < 0, intervals["cost", k, j][0] > 0
            else:
                cheaper, dearer = costs[k] <= costs[j], costs[k] > costs[j]
            if score_low > 0 and cheaper:
                by.append(k)
            ahead &= score_high < 0 or dearer
        statuses[j] = (WORSE if by else BEST if ahead else UNDECIDED, set(by))
    return statuses


def statuses_of(found):
    rows = found.table.itertuples()
    return {row.model: (row.status, set(filter(None, row.dominated_by.split(", ")))) for row in rows}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("known", [False, True])
def test_statuses_are_those_of_the_intervals(seed, known):
    res = fit(a_table(seed))
    costs = dict(zip(res.models, np.random.default_rng(seed).integers(1, 4, 6).tolist(), strict=True))
    found = res.pareto(costs if known else "tokens")
    assert statuses_of(found) == brute_force(found, costs if known else None)
    assert len(set(found.table["status"])) > 1


@pytest.mark.parametrize("options", [{}, CLUSTERS, {"weights": "w"}])
def test_errors_are_those_of_scores_and_costs_by_hand(options):
    table = a_table(1)
    prompt = table["prompt"].to_numpy()
    table = table.assign(suite=prompt // 3, w=1.0 + prompt % 2).sample(frac=1, random_state=0)
    res = fit(table, **options)
    found = res.pareto("tokens")
    costs = fit(table.assign(score=table["tokens"]), **options)
    by_model = found.table.set_index("model").loc[res.models]
    np.testing.assert_allclose(by_model["cost"], costs.params, rtol=1e-12)
    pairs = found.tests.set_index("quantity")
    for quantity, of in (("score", res), ("cost", costs)):
        tests = [of.t_test((row.first, row.second)) for row in pairs.loc[quantity].itertuples()]
        np.testing.assert_allclose(pairs.loc[quantity, "std_error"], [t.sd[0] for t in tests], rtol=1e-9)
        np.testing.assert_allclose(pairs.loc[quantity, "estimate"], [t.effect[0] for t in tests], rtol=1e-9, atol=1e-12)

    # One critical value for all, between that of the scores alone and Bonferroni's.
    alone = res.t_test_pairwise(method="max-t").result_frame
    by_pair = dict(zip(zip(alone["first"], alone["second"], strict=True), alone["conf_high"], strict=True))
    for row in pairs.loc["score"].itertuples():
        pair = row.first, row.second
        assert by_pair.get(pair, -1) < row.conf_high < res.t_test(pair).conf_int(0.05 / 30)[0, 1]


def test_a_cost_that_is_the_score_itself_depends_on_it_fully():
    """A model is then never dominated, and the critical value is that of the scores alone, up to the error of draws."""
    res = fit(a_table(2).assign(tokens=lambda t: 5 * t["score"]))
    found = res.pareto("tokens")
    assert WORSE not in set(found.table["status"])
    frames = found.tests, res.rescale(50.0).pareto("tokens").tests, res.t_test_pairwise().result_frame
    wide = [(t["conf_high"] - t["conf_low"]).iloc[0] / t["std_error"].iloc[0] for t in frames]
    assert wide[:2] == pytest.approx([wide[2]] * 2, abs=0.1)


@pytest.mark.filterwarnings("ignore:few prompts:dmlrank.exceptions.IntervalWarning")
def test_an_unseen_prompt_has_a_cost_that_does_not_follow_its_score():
    """Scores and costs that are multiples of them have one critical value, but for the unseen prompt.

    It adds variance to a score and, independently, to its cost: few new prompts cost what the seen ones let expect. It
    may be one of the smallest task, whose prompts weigh most where tasks count the same, and intervals are then wider.
    """
    rng = np.random.default_rng(0)
    prompt, model = (places.ravel() for places in np.indices((60, 6)))
    score = (rng.random(360) < rng.uniform(0.3, 0.8, 6)[model]).astype(float)
    task = np.repeat(np.arange(12), [2, 8] * 6)[prompt]
    table = pd.DataFrame({"prompt": prompt, "model": [f"m{j}" for j in model], "score": score, "task": task})
    excess = []
    for options in ({}, {"weights": dr.EqualTasks("task")}):
        res = fit(table.assign(tokens=5 * table["score"]), **options)
        frames = res.pareto("tokens").tests[:15], res.t_test_pairwise().result_frame
        width = [((t["conf_high"] - t["conf_low"]) / t["std_error"]).median() for t in frames]
        excess.append(width[0] - width[1])
    assert 0.05 < excess[0] < excess[1] < 0.5


def test_units_order_and_runs_change_nothing():
    table = a_table(3)
    found = fit(table).pareto("tokens").table
    other = fit(table[::-1].assign(tokens=lambda t: 1e-6 * t["tokens"])).pareto("tokens").table
    twice = fit(pd.concat([table, table])).pareto("tokens").table
    for frame, factor in ((other, 1e6), (twice, 1.0)):
        assert frame["model"].tolist() == found["model"].tolist()
        assert frame["status"].tolist() == found["status"].tolist()
        np.testing.assert_allclose(frame["cost_high"] * factor, found["cost_high"], rtol=1e-6)
    lowest = fit(table.assign(score=1 - table["score"]), lower_is_better=True)
    alike = lowest.pareto(dict.fromkeys(lowest.models, 1.0)).table["model"]
    assert alike.tolist() == lowest.params.sort_values(kind="stable").index.tolist()
    assert list(lowest.t_test_pairwise().models) == alike.tolist()
    errors = lowest.pareto("tokens").table
    assert errors[["model", "status", "dominated_by"]].equals(found[["model", "status", "dominated_by"]])
    assert WORSE in set(found["status"])


@pytest.mark.filterwarnings("ignore:fixed prompts:dmlrank.exceptions.DmlrankWarning")
def test_a_column_that_is_one_number_for_each_model_is_known():
    table = a_table(4)
    price = table["model"].map({name: place for place, name in enumerate(sorted(set(table["model"])))})
    res = fit(table.assign(price=price))
    column, numbers = res.pareto("price"), res.pareto({name: place for place, name in enumerate(res.models)})
    pd.testing.assert_frame_equal(column.table, numbers.table, check_dtype=False)
    assert "Costs are taken as known." in numbers.sentence()
    # So are all costs where the prompts of the fit are all there are.
    fixed = fit(table, functional="borda", prompts="fixed").pareto("tokens")
    assert "Costs are taken as known." in fixed.sentence()


@pytest.mark.long
def test_common_prompts_votes_looks_and_further_rows(arena_result):
    table = a_table(5)
    gaps = table.drop(index=table.index[[0, 7, 20]])
    common = gaps[gaps.groupby("prompt")["model"].transform("size") == 6]
    a, b = fit(gaps, missing="common").pareto("tokens"), fit(common).pareto("tokens")
    pd.testing.assert_frame_equal(a.table, b.table)
    updated = fit(table[:2400]).update(data=table).pareto("tokens")
    pd.testing.assert_frame_equal(updated.table, fit(table).pareto("tokens").table)
    costs = {name: float(len(name)) for name in arena_result.models}
    assert set(arena_result.pareto(costs).table["status"]) <= {BEST, UNDECIDED, WORSE}
    looks = fit(pd.concat([a_table(5, n=700)])).sequential(900).pareto("tokens")
    assert "at all looks" in looks.sentence()
    assert brute_force(looks) == statuses_of(looks)


@pytest.mark.long
def test_what_is_shown(tmp_path, printed):
    table = a_table(0).assign(model=lambda t: "Sys-" + t["model"].str.upper())
    res = fit(table)
    found = res.pareto("tokens")
    counts = found.table["status"].value_counts()
    said = ", ".join(f"{status} {counts.get(status, 0)}" for status in (BEST, UNDECIDED, WORSE))
    assert said in repr(found)
    assert f"{said.capitalize()}. With 95 %" in " ".join(str(found).split())
    axes = found.plot()
    assert {text.get_text().split(" (")[0] for text in axes.get_legend().get_texts()} == set(found.table["status"])
    assert found.summary(top=2).rows[0][0] in res.params.nlargest(2).index
    for models in (found.models[::-1], None):
        assert [row[0] for row in found.summary(models=models).rows] == (models or found.models)
    page = res.report(pareto=found)
    assert "Score against cost: score and tokens per prompt</h2>" in page
    assert all(better in page for better in found.table["dominated_by"])
    assert "tokens (thousands) per prompt" in " ".join(str(res.pareto("tokens", unit="thousands")).split())
    with pytest.raises(OptionError, match="computed from another result"):
        fit(a_table(1)).report(pareto=found)
    path, written = tmp_path / "scores.csv", tmp_path / "page.html"
    table.to_csv(path, index=False)
    arguments = ["fit", FORMULA, str(path), "--context", "prompt", "--set", "cost=tokens", "--report", str(written)]
    assert str(found).splitlines()[-3] in printed(arguments)
    assert "Score against cost: score and tokens per prompt</h2>" in written.read_text()


def test_files_of_out_have_the_costs(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table = a_table(0)
    table = table.assign(half=np.where(table["prompt"] % 2, "odd", "even"))
    path, files = tmp_path / "scores.csv", {ending: tmp_path / f"cost.{ending}" for ending in ("csv", "md", "json")}
    table.to_csv(path, index=False)
    outputs = [word for file in files.values() for word in ("--out", str(file))]
    arguments = ["fit", FORMULA, str(path), "--context", "prompt", "--set", "cost=tokens"]
    assert main([*arguments, *outputs]) == 0
    found = fit(table).pareto("tokens")
    rows = pd.read_csv(files["csv"])
    assert rows["status"].tolist() == found.table["status"].tolist()
    assert set(rows["functional"]) == {"mean (of score)"}
    # Files have the estimates with their intervals and ranks beside the costs, and the JSON is still a result.
    res = fit(table)
    expected = res.tidy().merge(res.ranks().result_frame, left_on="term", right_index=True).set_index("term")
    for found_rows in (rows, pd.DataFrame(json.loads(files["json"].read_text())["models"])):
        of_models = found_rows.set_index("model").loc[expected.index]
        shared = ["estimate", "std_error", "conf_low", "rank"]
        np.testing.assert_allclose(of_models[shared], expected[shared], rtol=1e-12)
        np.testing.assert_allclose(of_models["rank_high"], expected["upper"])
        np.testing.assert_allclose(of_models["cost"], found.table.set_index("model").loc[expected.index, "cost"])
    assert dr.read_json(files["json"]).params.equals(res.params)
    assert "Score against Cost" in files["md"].read_text()
    page = tmp_path / "page.html"
    outputs = ["--out", str(files["csv"]), "--out", str(files["json"])]
    assert main([*arguments, "--by", "half", "--report", str(page), *outputs]) == 0
    content = json.loads(files["json"].read_text())
    assert {row["group"] for row in content["groups"]} == {"even", "odd"}
    assert {row["status"] for row in content["models"]} == set(found.table["status"])
    capsys.readouterr()
    assert pd.read_csv(files["csv"])["group"].unique().tolist() == ["even", "odd"]
    text = page.read_text()
    # Score against cost is on the tab of all prompts, and on no other.
    assert text.count("Score against cost: score and tokens per prompt</h") == 1
    assert "All prompts" in text
    groups = fit(table).by("half")
    with pytest.raises(OptionError, match="no leaderboard of this page has its scores"):
        groups.report(pareto=fit(a_table(1)).pareto("tokens"))
    with pytest.raises(OptionTypeError, match="pareto="):
        groups.report(pareto="tokens")
    assert main([*arguments, "--by", "half", "--verdict"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 groups were tested, each at 5 %.\n\n")
    assert said.count("\nhalf = ") == 2


def test_a_figure_without_matplotlib_is_refused_before_the_fit(tmp_path, capsys, monkeypatch):
    path, figure = tmp_path / "scores.csv", tmp_path / "board.png"
    a_table(0).to_csv(path, index=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert main(["fit", FORMULA, str(path), "--context", "prompt", "--out", str(figure)]) == 1
    assert "plots need matplotlib" in capsys.readouterr().err


def test_bad_costs_are_errors(arena_result):
    table = a_table(0)
    res = fit(table.assign(gap=table["tokens"].where(table.index != 4)))
    for result, cost, error, words in (
        (res, "tokes", ColumnError, "tokes"),
        (res, "gap", MissingDataError, r"no value for '.*' on 1 of 450 prompts"),
        (res, {res.models[0]: 1.0}, OptionError, "has no number for"),
        (res, dict.fromkeys(res.models, np.nan), OptionError, "a cost is a finite number"),
        (res, 3.0, OptionTypeError, "allowed: a text, a mapping"),
        (arena_result, "length", OptionError, "for votes, give a number for each model"),
    ):
        with pytest.raises(error, match=words):
            result.pareto(cost)


def test_scores_that_do_not_vary_leave_the_costs_their_intervals():
    rng = np.random.default_rng(8)
    task, model = (places.ravel() for places in np.indices((30, 3)))
    table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model], "score": 1.0})
    table.loc[0, "score"] = 0.0
    found = dr.dml_rank("score ~ 1 | model", table.assign(cost=rng.uniform(1, 2, size=90)), context="task", rng=0)
    tests = found.pareto("cost").tests
    assert np.isfinite(tests[["std_error", "conf_low", "conf_high"]]).all(axis=None)


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_scores_that_are_mostly_missing_have_the_quantiles_of_the_fit():
    rng = np.random.default_rng(9)
    task, model = (places.ravel() for places in np.indices((60, 3)))
    table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model], "x": rng.normal(size=60)[task]})
    score = np.where((model == 2) & (rng.random(180) < 0.7), np.nan, rng.normal(size=180))
    table = table.assign(score=score, cost=rng.uniform(1, 2, size=180))
    res = dr.dml_rank("score ~ x | model", table, context="task", missing="model", rng=0)
    known, random = (res.pareto(cost).tests for cost in (dict(zip("abc", (1, 2, 3), strict=True)), "cost"))
    # Six differences at once need wider intervals than three of them.
    width = [(tests["conf_high"] - tests["conf_low"])[:3].to_numpy() for tests in (known, random)]
    assert (width[1] > width[0]).all()


@pytest.mark.filterwarnings("ignore:fixed prompts:dmlrank.exceptions.DmlrankWarning")
def test_known_costs_are_of_weighted_prompts():
    table = a_table(4).assign(w=lambda t: 1.0 + t["prompt"] % 3)
    fixed = fit(table, functional="borda", prompts="fixed", weights="w").pareto("tokens").table.set_index("model")
    mean = {name: np.average(rows["tokens"], weights=rows["w"]) for name, rows in table.groupby("model")}
    np.testing.assert_allclose(fixed["cost"], [mean[name] for name in fixed.index])


@pytest.mark.filterwarnings("ignore:few prompts:dmlrank.exceptions.IntervalWarning")
def test_costs_have_two_figures_of_their_error():
    prompt, model = (places.ravel() for places in np.indices((12, 2)))
    score = np.random.default_rng(1).random(24)
    table = pd.DataFrame({"prompt": prompt, "model": np.array(list("ab"))[model], "score": score})
    found = fit(table.assign(tokens=np.where(prompt % 6 == 0, 1.0, 2.0) + 0.001 * score)).pareto("tokens")
    size = (found.table["cost_high"] - found.table["cost_low"]).min() / 4
    assert 0.1 < size < 0.3
    assert f" {found.table['cost'].iloc[0]:.2f} " in str(found.summary())


@pytest.mark.filterwarnings("ignore:there are only:dmlrank.exceptions.IntervalWarning")
def test_a_view_of_all_looks_has_the_intervals_of_its_tests_of_pairs():
    view = fit(a_table(2, n=60).assign(suite=lambda t: t["prompt"] // 3), **CLUSTERS).sequential(20, start=10)
    tests = view.pareto(dict.fromkeys(view.models, 1.0)).tests.set_index(["first", "second"])
    for row in view.t_test_pairwise().result_frame.itertuples():
        ends = (row.conf_low, row.conf_high)
        other = (row.first, row.second) if (row.first, row.second) in tests.index else (row.second, row.first)
        mine = tests.loc[other, ["conf_low", "conf_high"]].to_numpy(dtype=float)
        np.testing.assert_allclose(mine if other == (row.first, row.second) else -mine[::-1], ends, rtol=1e-9)

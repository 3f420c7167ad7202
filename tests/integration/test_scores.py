"""Tables of scores: means and their errors, repeated runs, missing scores, pass@k, and what follows a fit."""

import itertools
import json
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_ind, ttest_rel
from statsmodels.api import OLS

import dmlrank as dr
from dmlrank.cli.gate import decide
from dmlrank.cli.main import main
from dmlrank.cli.read_files import read_propensities, refuse_lost_runs
from dmlrank.exceptions import DataError, DmlrankWarning, IntervalWarning, MissingDataError, OptionError
from dmlrank.options import in_objects

from ..support import needs

FORMULA = "accuracy ~ 1 | model"


def draw(n=99, n_models=3, n_runs=2, seed=0, binary=True):
    rng = np.random.default_rng(seed)
    task, model, run = (a.ravel() for a in np.indices((n, n_models, n_runs)))
    strength = rng.normal(size=n)[task] + 0.9 * model / n_models + (0 if binary else rng.normal(size=task.size))
    score = (rng.random(task.size) < 1 / (1 + np.exp(-strength))).astype(float) if binary else strength
    names = np.array([f"m{j:02d}" for j in range(n_models)], dtype=object)[model]
    table = pd.DataFrame({"task": task, "model": names, "run": run, "accuracy": score})
    return table.assign(topic=np.where(task % 3, "code", "maths"), suite=task // 3, weight=1.0 + task % 2)


def fit(table, formula=FORMULA, **options):
    return dr.dml_rank(formula, table, **in_objects({"context": "task", "rng": 0} | options))


def wide(table):
    return table.groupby(["task", "model"])["accuracy"].mean().unstack()


@pytest.mark.parametrize("binary", [True, False])
def test_scores_are_plain_means_with_textbook_errors(binary):
    table = draw(binary=binary)
    # Unequal numbers of runs: every prompt counts once.
    table = table.drop(index=[1, 7, 30])
    res, y = fit(table.sample(frac=1, random_state=1)), wide(table)
    np.testing.assert_allclose(res.params, y.mean(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(res.bse, y.std(ddof=0) / np.sqrt(len(y)), rtol=1e-12)
    assert res.diagnostics.effective_contexts > 10
    assert (res.functional, res.estimates.estimator, res.nobs, res.diagnostics.n_votes) == (
        "mean",
        "means",
        99,
        len(table),
    )
    test = res.t_test("m01 - m00")
    np.testing.assert_allclose(test.effect, y["m01"].mean() - y["m00"].mean(), atol=1e-12)
    # scipy divides by n - 1, and the package by n.
    scipy_error = (y["m01"] - y["m00"]).mean() / ttest_rel(y["m01"], y["m00"]).statistic
    np.testing.assert_allclose(test.sd, abs(scipy_error) * np.sqrt(98 / 99), rtol=1e-10)


def test_clustered_errors_are_those_of_least_squares():
    table = draw()
    res, y = fit(table, cov_type="cluster", cov_kwds={"groups": "suite"}), wide(table)
    for model in y:
        groups = np.arange(99) // 3
        ols = OLS(y[model].to_numpy(), np.ones(99)).fit(
            cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
        )
        # The small-sample factor is G / (G - 1) for G = 33 clusters.
        np.testing.assert_allclose(res.bse[model], ols.bse[0] * np.sqrt(33 / 32), rtol=1e-10)


def test_weights_and_groups():
    table = draw()
    y, w = wide(table), 1.0 + np.arange(99) % 2
    res = fit(table, weights="weight")
    np.testing.assert_allclose(res.params, np.average(y, axis=0, weights=w), atol=1e-12)
    groups, single = fit(table).by("topic"), fit(table[table.topic == "code"])
    np.testing.assert_allclose(groups.params["code"], single.params, atol=1e-12)
    np.testing.assert_allclose(groups.bse["code"], single.bse, rtol=1e-10)
    assert groups["code"].estimates.votes.used.tolist() == [2 * single.nobs] * 3


def test_shares_of_unequal_runs_by_enumeration():
    rng = np.random.default_rng(3)
    rows = [
        (i, name, value)
        for i in range(60)
        for name in "abc"
        for value in rng.integers(0, 3, size=rng.integers(1, 5)).astype(float)
    ]
    table = pd.DataFrame(rows, columns=["task", "model", "accuracy"])
    won = dict.fromkeys("abc", 0.0)
    for _, prompt in table.groupby("task"):
        runs = {name: part["accuracy"].to_numpy() for name, part in prompt.groupby("model")}
        for a, b in itertools.permutations("abc", 2):
            pairs = [(x > y) + (x == y) / 2 for x in runs[a] for y in runs[b]]
            won[a] += np.mean(pairs) / 2 / 60
    np.testing.assert_allclose(fit(table, functional="borda").params, list(won.values()), atol=1e-12)


def draw_runs(n=40, most=7):
    """Runs of two models that succeed or fail, 3 to 6 on a prompt."""
    rng = np.random.default_rng(0)
    rows = [(i, m, s) for i in range(n) for m in "ab" for s in rng.integers(0, 2, size=rng.integers(3, most))]
    return pd.DataFrame(rows, columns=["task", "model", "solved"])


@pytest.mark.parametrize("name", ["PassAtK", "PassHatK"])
def test_functionals_of_runs_by_enumeration(name):
    table, kind = draw_runs(), {"PassAtK": max, "PassHatK": min}[name]
    of_mean = fit(table, formula="solved ~ 1 | model")
    with pytest.warns(dr.DmlrankWarning, match="ends at k=3: .* fewer than 6 runs of a model, and 3 at least"):
        curve = of_mean.curve("pass@k" if name == "PassAtK" else "pass^k")
    for k in (1, 2, 3):
        by_task = table.groupby(["task", "model"])["solved"].agg(
            lambda runs, k=k: np.mean([kind(subset) for subset in itertools.combinations(runs, k)])
        )
        by_hand = by_task.rename("solved").reset_index()
        # The scores, their covariance and their limits are those of means of the shares of subsets.
        found, expected = (
            fit(data, formula="solved ~ 1 | model", functional=functional)
            for data, functional in ((table, f"{name}({k})"), (by_hand, "mean"))
        )
        np.testing.assert_allclose(found.params, expected.params, atol=1e-12)
        np.testing.assert_allclose(found.cov_params(), expected.cov_params(), atol=1e-12)
        np.testing.assert_allclose(found.conf_int(), expected.conf_int(), atol=1e-9)
        at_k = curve.xs(k, level="k")
        np.testing.assert_allclose(at_k.iloc[:, :2], np.column_stack([found.params, found.bse]), atol=1e-12)
        # Bands hold at all k: they are wider than intervals at one k.
        assert (at_k["lower"] < found.conf_int()["lower"]).all()
        assert (at_k["upper"] > found.conf_int()["upper"]).all()
    assert curve.index.tolist() == [(model, k) for model in "ab" for k in (1, 2, 3)]
    assert found.rescale(100).curve(most=3).equals(of_mean.rescale(100).curve(curve.columns[0], most=3))
    assert (
        found.update(functional="mean").update(functional=getattr(dr.functionals, name)(3)).params.equals(found.params)
    )


@needs("matplotlib")
def test_curves_are_drawn():
    found = fit(draw_runs(), formula="solved ~ 1 | model", functional="PassHatK(2)")
    with pytest.warns(dr.DmlrankWarning, match="ends at k=3"):
        assert found.plot("curve").get_ylabel() == "pass^k (of solved)"


def test_functionals_of_runs_name_what_they_need():
    table, call = draw_runs(), {"formula": "solved ~ 1 | model"}
    n_runs = table.groupby(["task", "model"])["solved"].size()
    with pytest.raises(DataError, match=r"k=7 .*use a smaller k$"):
        fit(table, functional=dr.functionals.PassAtK(7), missing="common", **call)
    first = n_runs.index[np.argmax(n_runs < 4)]
    with pytest.raises(
        DataError, match=rf"{(n_runs < 4).sum()} pairs .* k=4 .* task '{first[0]}', model '{first[1]}' \(3\)"
    ):
        fit(table, functional=dr.functionals.PassHatK(4), **call)
    with pytest.warns(IntervalWarning, match="'common' leaves out"):
        common = fit(table, functional=dr.functionals.PassHatK(4), missing="common", **call)
    assert common.nobs == (n_runs.unstack().min(axis=1) >= 4).sum()
    with pytest.raises(DataError, match="succeed"):
        fit(table.assign(solved=0.5), functional=dr.functionals.PassAtK(1), **call)
    with pytest.raises(OptionError, match="lower_is_better"):
        fit(table, functional=dr.functionals.PassAtK(1), lower_is_better=True, **call)
    with pytest.raises(OptionError, match="k=0"):
        dr.functionals.PassAtK(0)
    res = fit(table, functional=dr.functionals.PassAtK(2), **call)
    assert "share_runs" not in res.sample_size()
    with pytest.raises(DataError, match=r"fewer than k=4 runs"):
        res.curve(most=4)
    with pytest.raises(OptionError, match="lower_is_better"):
        fit(table, lower_is_better=True, **call).curve()


@pytest.mark.parametrize("are_absent", [True, False])
def test_functionals_of_runs_count_lost_runs_as_failures(are_absent):
    # No run of b on the first task, and one of three of a on the second, which another run solves.
    rows = {("t0", "a"): [1, 0, 0], ("t0", "b"): [None] * 3, ("t1", "a"): [0, None, 1], ("t1", "b"): [0, 0, 1]}
    table = pd.DataFrame([(*key, s) for key, runs in rows.items() for s in runs], columns=["task", "model", "solved"])
    given, call = table.dropna() if are_absent else table, {"formula": "solved ~ 1 | model"}
    for k in (1, 2, 3):
        functional = dr.functionals.PassAtK(k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit(given, functional=functional, missing=0.0, **call)
            by_hand = fit(table.fillna({"solved": 0}), functional=functional, **call)
        np.testing.assert_array_equal(found.params, by_hand.params)
        np.testing.assert_array_equal(found.curve(), by_hand.curve())
    assert found.params.tolist() == [1.0, 0.5]


@pytest.mark.long
def test_every_output_names_the_functional_of_runs(tmp_path):
    text_of = pytest.importorskip("matplotlib.text").Text
    res = fit(draw_runs(most=4), formula="solved ~ 1 | model", functional=dr.functionals.PassHatK(2))
    res.report(tmp_path / "page.html")
    res.to_json(tmp_path / "fit.json")
    page = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<script")[0]
    stored = dr.read_json(tmp_path / "fit.json")
    short, costs = res.summary(slim=True), res.pareto({"a": 1.0, "b": 2.0})
    tables = (res.summary().as_csv(), short.as_text(), short.as_csv(), short.as_markdown(), costs.summary().as_csv())
    tests = (str(res.t_test("a - b").summary()), str(res.t_test_pairwise().summary()), str(res.ranks().summary()))
    for text in (page, str(res), res.explain(), stored.explain(), stored.verdict(), *tables, *tests):
        assert "pass^2" in text
        assert "mean solved" not in text
    for axes in (*map(res.plot, ("forest", "ranks", "matrix", "influence", "curve")), costs.plot()):
        words = [text.get_text() for each in axes.figure.axes for text in each.findobj(text_of)]
        assert any("pass^" in word and "solved" in word for word in words), axes.get_title()
    assert "all of 2 runs" in " ".join(stored.explain().split())


def test_missing_scores():
    table = draw(n_runs=1)
    table = table.drop(index=[0, 10]).assign(accuracy=lambda d: d.accuracy.where(d.index != 31))
    y = wide(table)
    with pytest.raises(MissingDataError, match=r"3 of 297 .* 96 of 99 prompts have"):
        fit(table)
    common = fit(table, missing="common")
    np.testing.assert_allclose(common.params, y.dropna().mean(), atol=1e-12)
    assert (common.nobs, common.estimates.description.n_dropped) == (96, 3)
    np.testing.assert_allclose(fit(table, missing=0.0).params, y.fillna(0).mean(), atol=1e-12)
    assert fit(table, functional="borda").nobs == 99
    with pytest.raises(OptionError, match="missing"):
        fit(table, missing="zero")


def test_what_is_refused():
    table = draw()
    assert fit(table, run="run").nobs == 99
    with pytest.raises(DataError, match="run '0'"):
        fit(pd.concat([table, table[:1]]), run="run")
    refused = {"n_folds": 3, "estimator": "plugin", "graph": "complete", "prompts": "fixed"}
    for name, value in refused.items():
        with pytest.raises(OptionError, match=name):
            fit(table, functional="mean", **{name: value})
    with pytest.raises(DataError, match="'run' differs"):
        dr.dml_rank("accuracy ~ run | model", table, context="task")
    with pytest.raises(OptionError, match="context="):
        dr.dml_rank(FORMULA, table)
    votes = dr.datasets.simulate_arena(n=100, rng=0)
    for options in ({"functional": "mean"}, {"run": "question_id"}, {"missing": "common"}):
        with pytest.raises(OptionError):
            dr.dml_rank("winner ~ 1 | model_a + model_b", votes, **in_objects(options))
    with pytest.raises(OptionError, match="run"):
        fit(table).update(run="run")


def test_what_has_no_meaning_for_means_is_lacking():
    res = fit(draw())
    for name in ("win_probability", "predict", "fragility", "restriction_test"):
        assert not hasattr(res, name)
        assert hasattr(res.update(functional="borda"), name) or name == "fragility"


def test_updates_and_views():
    res = fit(draw())
    borda = res.update(functional="borda")
    assert (borda.estimates.estimator, borda.update(functional="mean").params.tolist()) == (
        "debiased",
        res.params.tolist(),
    )
    assert res.update(estimator="bt_mle").functional == "bt"
    assert (res.sequential(200, 20).bse == res.bse).all()
    with pytest.raises(OptionError, match="this result has 99 prompts; collect more, or"):
        res.sequential(1000)
    assert set(res.best_set()) <= set(res.models)
    np.testing.assert_allclose(np.square(res.influence[:, 1]).sum() ** 0.5 / 99, res.bse["m01"], rtol=1e-10)
    assert list(res.tidy().columns)[-1] == "scores"
    assert dr.compare(mean=res, borda=borda).summary().as_text()


def test_tasks_of_the_command_line_count_the_same(tmp_path, printed):
    table = draw().assign(area=lambda d: np.where(d.task < 20, "small", "large"))
    path, out = str(tmp_path / "scores.csv"), tmp_path / "fit.json"
    table.to_csv(path, index=False)
    options = ["fit", FORMULA, path, "--context", "task", "--tasks", "area"]
    assert main([*options, "--out", str(out)]) == 0
    expected = fit(table, weights=dr.EqualTasks("area"))
    np.testing.assert_allclose(dr.read_json(out).params, expected.params, atol=1e-12)
    assert "--tasks and --weights" in printed([*options, "--weights", "weight"], 1)


def test_groups_that_differ_in_difficulty_alone_are_equal():
    rng = np.random.default_rng(4)
    task, model = (a.ravel() for a in np.indices((90, 2)))
    topic = np.where(task < 30, "code", "math")
    # Scores vary more in one group than in the other.
    score = rng.normal(size=180) * np.where(task < 30, 3.0, 1.0)
    table = pd.DataFrame({"task": task, "model": np.array(["a", "b"])[model], "topic": topic, "accuracy": score})
    harder = table.assign(accuracy=score - 50 * (task < 30))
    groups, shifted = (fit(data).by("topic") for data in (table, harder))
    # A note that ends with a blank is quoted.
    assert "\n[1] Each cell has a coefficient" in str(fit(table).by("~ C(topic)").summary())
    gap = table.pivot(index="task", columns="model", values="accuracy").eval("b - a").to_numpy()
    welch = ttest_ind(gap[:30], gap[30:], equal_var=False)
    for found in (groups, shifted):
        by_model = found.equal_by_model()
        np.testing.assert_allclose(by_model["statistic"], welch.statistic**2, rtol=1e-8)
        np.testing.assert_allclose(by_model["p_value"], welch.pvalue, rtol=1e-8)
        test = found.test_equal()
        assert (test.law, test.rank) == ("F", 1)
        # The allowance of small tables widens the joint test a little.
        np.testing.assert_allclose(test.df_denom, welch.df, rtol=0.05)
        assert welch.pvalue < test.pvalue < welch.pvalue + 0.05
    said = " ".join(str(shifted).split())
    assert "Test that differences between models are the same in all groups (each" in said
    assert "harder for all models is another question, and not tested" in said
    assert "rejects too often" not in said
    # Clusters may lie in both groups.
    assert (
        fit(table.assign(c=task % 40), cov_type="cluster", cov_kwds={"groups": "c"}).by("topic").test_equal().rank == 1
    )


def draw_variances(seed, n=100, n_runs=3):
    """Scores of two models whose difference has a variance of 2 between prompts and of 1 between runs."""
    rng = np.random.default_rng(seed)
    task, model, run = (a.ravel() for a in np.indices((n, 2, n_runs)))
    score = rng.normal(size=(n, 2))[task, model] + rng.normal(size=task.size) * np.sqrt(0.5)
    return pd.DataFrame({"task": task, "model": np.array(["a", "b"])[model], "run": run, "accuracy": score})


def test_runs_divide_the_variance():
    table = draw_variances(0)
    res = fit(table)
    sizes = res.sample_size()
    within = table.groupby(["task", "model"])["accuracy"].var().unstack().mean()
    error = sizes["std_error"].iloc[0]
    share = within.sum() / 3 / 100 / error**2
    np.testing.assert_allclose(sizes["share_runs"].iloc[0], share, rtol=1e-10)
    # Of all numbers of runs for a fixed budget, the one of the formula has the smallest error.
    numbers = np.linspace(0.5, 20, 100_000)
    price = (1 - share + share * 3 / numbers) * (10 + numbers)
    np.testing.assert_allclose(numbers[price.argmin()], np.sqrt(3 * 10 * share / (1 - share)), rtol=1e-3)
    assert "share_runs" not in fit(table[table.run == 0]).sample_size()
    np.testing.assert_allclose(res.rescale(100).sample_size()["share_runs"], sizes["share_runs"], rtol=1e-12)


def test_prompts_that_do_not_differ_have_no_part_in_the_variance():
    # The estimate of their variance is zero or below for some model.
    rng = np.random.default_rng(0)
    task, model, run = (a.ravel() for a in np.indices((60, 3, 4)))
    table = pd.DataFrame({"task": task, "model": model.astype(str), "run": run, "accuracy": rng.normal(size=720)})
    res = fit(table)
    share = res.sample_size()["share_runs"].iloc[:-1]
    assert share.max() == 1 > share.min()


# --- missing scores that are modelled, and tasks ----------------------------------------------------------------------


def with_gaps(n, seed, slope=1.2):
    """Scores of three models that depend on a feature, of which the first model has all, and the truth."""
    rng = np.random.default_rng(seed)
    x, effect, mean = rng.normal(size=n), np.array([1.0, 0.8, 1.2]), np.array([0.2, 0.0, -0.2])
    y = mean + effect * x[:, None] + 0.5 * rng.normal(size=n)[:, None] + 0.5 * rng.normal(size=(n, 3))
    is_there = rng.random((n, 3)) < 1 / (1 + np.exp(-1 - slope * x))[:, None]
    is_there[:, 0] = True
    task, model = (part.ravel() for part in np.indices((n, 3)))
    names = np.array(["m0", "m1", "m2"], dtype=object)[model]
    table = pd.DataFrame({"task": task, "model": names, "accuracy": np.where(is_there, y, np.nan).ravel()})
    return table.assign(x=x[task], topic=np.where(task % 2, "a", "b")), mean, y


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_modelled_scores_are_unbiased_where_plain_means_are_not():
    errors, plain = [], []
    for seed in range(25):
        table, mean, _ = with_gaps(300, seed, slope=0.8)
        res = dr.dml_rank("accuracy ~ x | model", table, context="task", missing="model", rng=seed)
        errors.append((res.params.to_numpy() - mean) / res.bse.to_numpy())
        seen = table.groupby("model")["accuracy"]
        plain.append((seen.mean() - mean) / (seen.std() / np.sqrt(seen.count())))
    # Means of 25 standardised errors have a standard error of 0.2.
    assert np.abs(np.mean(errors, axis=0)).max() < 0.7
    assert np.mean(plain, axis=0)[1:].min() > 1.5
    assert (np.abs(errors) < 1.96).mean() > 0.85


def test_without_features_scores_of_other_models_predict_missing_ones():
    table, _, y = with_gaps(80, 0)
    with pytest.warns(dr.exceptions.IntervalWarning, match="without features"):
        res = fit(table, missing="model")
    text = " ".join(res.explain().split())
    assert "although some models have no score on some of them" in text
    assert "on the same prompts" not in text
    together = wide(table).notna().astype(int)
    assert res.estimates.description.smallest_pair == (together.T @ together).to_numpy()[np.triu_indices(3, 1)].min()
    plain, full = table.groupby("model")["accuracy"].mean(), y.mean(axis=0)
    assert (np.abs(res.params - full)[1:] < 0.6 * np.abs(plain - full)[1:]).all()
    complete = draw()
    np.testing.assert_array_equal(fit(complete, missing="model").params, fit(complete).params)


@pytest.mark.long
def test_modelled_scores_in_another_order_and_what_follows():
    table, *_ = with_gaps(150, 3, slope=0.5)
    options = {"context": "task", "missing": "model", "rng": 0}
    res = dr.dml_rank("accuracy ~ x | model", table, **in_objects(options))
    other = dr.dml_rank("accuracy ~ x | model", table.sample(frac=1, random_state=0), **in_objects(options))
    np.testing.assert_allclose(other.params, res.params, atol=1e-9)
    np.testing.assert_allclose(other.bse, res.bse, rtol=1e-8)
    scaled = dr.dml_rank("accuracy ~ x | model", table.assign(accuracy=table.accuracy * 3 + 1), **in_objects(options))
    np.testing.assert_allclose(scaled.params, res.params * 3 + 1, atol=1e-8)
    groups = res.by("topic")
    share = table.drop_duplicates("task")["topic"].value_counts(normalize=True)
    np.testing.assert_allclose(share[groups.params.columns] @ groups.params.T[res.models], res.params, atol=1e-10)
    twice = dr.dml_rank("accuracy ~ x | model", pd.concat([table, table]), **in_objects(options))
    np.testing.assert_allclose(twice.params, res.params, atol=1e-10)
    assert "share_runs" not in twice.sample_size()


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_equal_tasks_are_stratified_means():
    table = draw(n=60)
    table["area"] = np.select([table.task < 30, table.task < 50], ["a", "b"], "c")
    table["accuracy"] += table.area.map({"a": 0, "b": 5, "c": 9})
    res = fit(table, weights=dr.EqualTasks("area"))
    y = wide(table)
    by_area = y.groupby(table.drop_duplicates("task").set_index("task")["area"])
    np.testing.assert_allclose(res.params, by_area.mean().mean(), atol=1e-12)
    size = by_area.size().to_numpy()[:, None]
    # The variance of the other tasks is worth one prompt of each.
    own, variance = 1 - 1 / size, by_area.var().to_numpy()
    variance = own * variance + (own * variance).sum(axis=0) / own.sum() / size
    np.testing.assert_allclose(res.bse, np.sqrt((variance / size).sum(axis=0) / 9), rtol=1e-10)
    clustered = fit(table, weights=dr.EqualTasks("area"), cov_type="cluster", cov_kwds={"groups": "area"})
    np.testing.assert_allclose(clustered.bse, by_area.mean().std() / np.sqrt(3), rtol=1e-10)
    drawn = res.bootstrap("webb").conf_int()
    assert ((drawn["upper"] - drawn["lower"]) < 12 * res.bse).all()
    assert res.update(weights=None).bse.min() > 2 * res.bse.max()
    # Every place that says what a score is says that prompts of small tasks count more.
    said = "Tasks (values of"
    assert said in res.report()
    assert said in " ".join(res.explain().split())
    assert said not in res.update(weights=None).report()
    with pytest.warns(DmlrankWarning, match="fewer than 30"):
        groups = res.by("area")
    np.testing.assert_allclose(groups.params.mean(axis=1), res.params, atol=1e-12)
    assert "weighted by the shares of their tasks, is the score" in " ".join(str(groups.summary()).split())


@pytest.mark.parametrize(
    ("area", "said"),
    [
        (lambda t: np.where(t.task == 0, "alone", "a"), "task 'alone' has one prompt"),
        (lambda t: np.where(t.task == 0, 39, 7), "task '39' has one prompt"),
        (lambda t: t.model + "x", "area"),
    ],
)
def test_tasks_that_cannot_count_the_same_are_refused(area, said):
    with pytest.raises(DataError, match=said):
        fit(draw(n=30).assign(area=area), weights=dr.EqualTasks("area"))


@pytest.mark.filterwarnings("ignore:missing='model' without features")
def test_bounds_contain_the_mean_whatever_the_missing_scores_are():
    table, _, complete = with_gaps(60, 4, slope=0.5)
    limits = (complete.min(), complete.max())
    res = fit(table, missing="model")
    every = {f"m{j}": complete[:, j].mean() for j in range(3)}
    rng = np.random.default_rng(0)
    bounds = res.sensitivity(["m0 - m1", "m1", "m2 - m1"], score_range=limits)
    frame = bounds.result_frame.set_index("hypothesis")
    y = wide(table)
    for name, sign in (("m0 - m1", (1, -1, 0)), ("m1", (0, 1, 0)), ("m2 - m1", (0, -1, 1))):
        worst = [y.iloc[:, j].fillna(limits[0] if s > 0 else limits[1]) for j, s in enumerate(sign)]
        best = [y.iloc[:, j].fillna(limits[1] if s > 0 else limits[0]) for j, s in enumerate(sign)]
        low, high = (sum(s * part for s, part in zip(sign, parts, strict=True)) for parts in (worst, best))
        np.testing.assert_allclose(frame.loc[name, ["lower", "upper"]].to_list(), [low.mean(), high.mean()], atol=1e-12)
        error = low.std(ddof=0) / np.sqrt(60)
        np.testing.assert_allclose(
            frame.loc[name, "conf_lower"], low.mean() - t.isf(0.025, 59) * np.sqrt(60 / 59) * error, rtol=1e-5
        )
        for _ in range(50):
            filled = y.to_numpy().copy()
            filled[np.isnan(filled)] = rng.uniform(*limits, int(np.isnan(filled).sum()))
            assert low.mean() <= filled.mean(axis=0) @ sign <= high.mean()
        assert low.mean() <= np.array(list(every.values())) @ sign <= high.mean()
    assert "worst" in str(bounds.summary())
    # No model is predicted for a cluster on which it was never run.
    assert frame["tipping"].isna().all()
    assert bounds.placebo.empty
    widest = res.sensitivity("m1", score_range=(-9, 9)).result_frame
    assert widest["upper"][0] - widest["lower"][0] == pytest.approx(18 * y["m1"].isna().mean())
    for options in ({"gamma": 2}, {"score_range": (0.0, 0.1)}, {"score_range": 3}):
        with pytest.raises(OptionError):
            res.sensitivity("m1", **options)
    with pytest.raises(OptionError, match="missing"):
        fit(draw()).sensitivity()


@pytest.mark.parametrize("are_absent", [True, False])
def test_bounds_of_runs_that_were_lost(are_absent):
    table = draw(n=60)
    is_lost = table.index.isin([0, 7, 8, 20])
    res = fit(table[~is_lost] if are_absent else table.assign(accuracy=table.accuracy.mask(is_lost)))
    bounds = res.sensitivity(["m00", "m01 - m00"])
    ends = {value: wide(table.assign(accuracy=table.accuracy.mask(is_lost, value))).mean() for value in (0.0, 1.0)}
    expected = [[ends[0.0]["m00"], ends[1.0]["m00"]]]
    lost = [wide(table.assign(accuracy=is_lost))[name].mean() for name in ("m00", "m01")]
    least = ends[0.0]["m01"] - ends[0.0]["m00"] - lost[0]
    expected.append([least, least + sum(lost)])
    np.testing.assert_allclose(bounds.result_frame[["lower", "upper"]], expected, atol=1e-12)
    assert bounds.n_missing == 4
    with pytest.warns(IntervalWarning, match="without features"):
        gone = fit(table[table.index > 1], missing="model")
    assert gone.sensitivity("m00").n_missing == 2
    with pytest.raises(OptionError, match=r"this fit has none$"):
        fit(table, missing="model").sensitivity()
    with pytest.raises(OptionError, match=r"with its gaps \(missing='model'\)"):
        fit(table[~is_lost], missing=0.0).sensitivity()


def test_a_check_of_scores_speaks_of_scores(tmp_path, capsys):
    table = draw(n=30, n_models=3, n_runs=2)
    table["task"], table["prompt"] = np.where(table.task < 20, "algebra", "code"), table.task
    table["error"] = None
    table.loc[[0, 1, 9], "accuracy"] = np.nan
    table.loc[[0, 9], "error"] = "timeout"
    check = dr.check("accuracy ~ 1 | model", table, context="prompt")
    text = str(check)
    assert "votes" not in text.lower()
    assert check.counts.loc[["prompts", "common_prompts", "scores"], "number"].tolist() == [30, 29, 177]
    assert check.models["prompts"].to_dict() == {"m00": 29, "m01": 30, "m02": 30}
    assert check.models["errors"].sum() == 2
    assert check.tasks.loc[("m00", "algebra"), "missing"] == 1
    assert check.tasks.loc[("m00", "code"), "prompts"] == 10
    cells = table.dropna(subset="accuracy").groupby(["prompt", "model"])["accuracy"].mean().unstack()
    np.testing.assert_allclose(check.models["mean"], cells.mean(), atol=1e-12)
    # Where tasks count the same, means are those of the fit.
    suites = draw(n=90, n_models=3, n_runs=1, seed=2)
    suites["suite"] = np.where(suites["task"] < 20, "small", "large")
    options = {"context": "task", "weights": dr.EqualTasks("suite")}
    equal = dr.check(FORMULA, suites, **in_objects(options))
    np.testing.assert_allclose(equal.models["mean"], fit(suites, weights=options["weights"]).params, rtol=1e-12)
    assert equal.counts.loc["prompts", "number"] == 90
    assert "over the tasks of 'suite'" in str(equal)
    suites.to_csv(tmp_path / "suites.csv", index=False)
    assert main(["check", FORMULA, str(tmp_path / "suites.csv"), "--context", "task", "--tasks", "suite"]) == 0
    assert "over the tasks of 'suite'" in capsys.readouterr().out
    assert "missing='common'" in check.problems["advice"][0]
    assert "1 run without a score is left out" in check.problems["found"][1]
    # A run without a score counts as a failure, too, beside one with a score.
    failed = dr.dml_rank("accuracy ~ 1 | model", table, context="prompt", missing=0.0, rng=0)
    by_hand = table.fillna({"accuracy": 0}).groupby(["model", "prompt"])["accuracy"].mean().groupby("model").mean()
    np.testing.assert_allclose(failed.params, by_hand, atol=1e-12)
    by_task = dr.check(
        "accuracy ~ 1 | model", draw(n=2, n_models=2, n_runs=30).rename(columns={"task": "prompt"}), context="prompt"
    )
    assert "prompts tasks of many prompts?" in by_task.problems["found"][0]
    path = tmp_path / "scores.csv"
    table.to_csv(path, index=False)
    assert main(["check", "accuracy ~ 1 | model", str(path), "--context", "prompt"]) == 1
    assert "<h2>Tasks</h2>" in check.report()


def plan_files(tmp_path, capsys):
    """Return a table with the runs of a plan for a candidate, the plan in both forms, and what design printed."""
    table = draw(n=200, n_models=4)
    earlier, files = (
        table[table.model != "m03"],
        [tmp_path / name for name in ("log.csv", "plan.csv", "plan.json", "all.csv")],
    )
    earlier.to_csv(files[0], index=False)
    outs = [word for file in files[1:3] for word in ("--out", str(file))]
    assert main(["design", FORMULA, str(files[0]), *OF_RUNS, "--budget", "90", "--candidate", "m03", *outs]) == 0
    # The rows of the plan have all columns that its command names.
    drawn = pd.read_csv(files[1])[["task", "model", "run"]].merge(table, on=["task", "model", "run"])
    pd.concat([earlier, drawn]).to_csv(files[3], index=False)
    return files, capsys.readouterr().out


OF_RUNS = ["--context", "task", "--run", "run"]


def test_planned_runs_without_a_score_are_refused(tmp_path, capsys, printed):
    (_, csv, plan, every), _ = plan_files(tmp_path, capsys)
    table, planned = pd.read_csv(every), pd.read_csv(csv)
    failed = table.index[(table["model"] == "m03") & (table["accuracy"] == 0)][:15]
    first = planned.loc[planned["task"].isin(table.loc[failed, "task"]), "task"].iloc[0]
    said = f"15 of them have no score in the table, first prompt '{first}' and model 'm03'; write"
    question = ["--candidate", "m03", "--baseline", "m02", "--margin", "0.5"]
    lost = tmp_path / "lost.csv"
    # A run that failed before it succeeded.
    again = pd.concat([table.assign(accuracy=np.nan), table])
    refuse_lost_runs(read_propensities(str(plan)), again, ["task"], FORMULA)
    for without in (table.drop(failed), table.assign(accuracy=table["accuracy"].mask(table.index.isin(failed)))):
        without.to_csv(lost, index=False)
        for command, further in (("fit", []), ("gate", question)):
            assert main([command, FORMULA, str(lost), *OF_RUNS, "--propensity", str(plan), *further]) == 1
            assert f"the plan of propensity= has {len(planned)} runs, and {said}" in capsys.readouterr().err
    # A row without a score counts as the value of --missing, and a planned run without a row is still refused.
    options = [*OF_RUNS, "--propensity", str(plan), "--missing", "0"]
    outs = [str(tmp_path / name) for name in ("filled.json", "counted.json")]
    assert main(["fit", FORMULA, str(every), *OF_RUNS, "--propensity", str(plan), "--out", outs[0]]) == 0
    assert main(["fit", FORMULA, str(lost), *options, "--out", outs[1]]) == 0
    assert dr.read_json(outs[0]).params.equals(dr.read_json(outs[1]).params)
    table.drop(failed).to_csv(lost, index=False)
    capsys.readouterr()
    assert said in printed(["fit", FORMULA, str(lost), *options], 1)
    # The column of propensities, of rows of which the earlier ones have none.
    table.merge(planned, how="left").to_csv(every, index=False)
    assert main(["fit", FORMULA, str(every), *OF_RUNS, "--propensity", "propensity"]) == 1
    assert "give the plan itself, which has those of all prompts and models (on the command line --propensity " in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("formula", "further"),
    [(FORMULA, ["--tasks", "topic"]), (FORMULA, ["--groups", "suite"]), ("accuracy ~ C(topic) | model", [])],
)
def test_the_rows_of_a_plan_have_the_columns_of_its_fit(formula, further, tmp_path):
    table = draw(n=200, n_models=4)
    earlier, files = table[table["model"] != "m03"], [str(tmp_path / name) for name in ("log.csv", "p.csv", "p.json")]
    earlier.to_csv(files[0], index=False)
    options = [*OF_RUNS, *further]
    outs = ["--out", files[1], "--out", files[2]]
    assert main(["design", formula, files[0], *options, "--budget", "90", "--candidate", "m03", *outs]) == 0
    planned = pd.read_csv(files[1]).drop(columns="propensity")
    of_prompts = table.drop_duplicates("task").set_index("task")
    for name in {"topic", "suite"} & set(planned):
        assert planned[name].tolist() == of_prompts.loc[planned["task"], name].tolist()
    drawn = planned.merge(table[["task", "model", "run", "accuracy"]])
    assert len(drawn) == len(planned)
    pd.concat([earlier, drawn]).to_csv(files[0], index=False)
    assert main(["fit", formula, files[0], *options, "--propensity", files[2]]) == 0


def test_prompts_that_nothing_was_run_on_are_no_failures():
    table = draw(n_runs=1)
    others = pd.DataFrame({"task": range(1000, 1040)})
    with pytest.raises(MissingDataError, match="40 of 139 prompts have rows without a model"):
        fit(pd.concat([table, others]), missing=0.0)
    lost = table.assign(accuracy=table.accuracy.where((table.model != "m01") | (table.task >= 30)))
    with pytest.warns(IntervalWarning, match=r"30 missing scores of 'm01' \(30 %\) count as 0"):
        res = fit(lost, missing=0.0)
    for text in (str(res.summary()), str(res.summary(slim=True))):
        assert "30 missing scores count as 0." in " ".join(text.split())


@pytest.mark.parametrize("are_absent", [True, False])
def test_models_that_lose_more_runs_than_others_are_named(are_absent, tmp_path, capsys, printed):
    table, rng = draw(n=400, seed=1), np.random.default_rng(1)
    share = np.where(table["model"] == "m01", 0.11, 0.02)

    def without(is_lost):
        return table[~is_lost] if are_absent else table.assign(accuracy=table.accuracy.mask(is_lost))

    lost = without(rng.random(len(table)) < share)
    # No cell is empty, so that nothing but the runs says that scores are missing.
    lost = lost[lost.groupby(["task", "model"])["accuracy"].transform("count") > 0]
    lost = lost[lost.groupby("task")["model"].transform("nunique") == 3]
    lost.to_csv(tmp_path / "lost.csv", index=False)
    with pytest.warns(IntervalWarning, match=r"their runs, by more than chance: m01 \d+\.\d % \(\d+ of \d+\), but m0"):
        res = fit(lost, run="run")
    n_missing = res.estimates.description.runs_there
    file = [FORMULA, str(tmp_path / "lost.csv"), *OF_RUNS]
    assert "Models lack different shares of their runs" in printed(["check", *file])
    with pytest.warns(IntervalWarning, match="different shares of their runs"):
        main(["gate", *file, "--candidate", "m02", "--baseline", "m01", "--margin", "0.05"])
    assert "runs, as many as either has on a prompt, have a score; fewest: m01 (" in capsys.readouterr().out
    assert "fewest: m01" in n_missing
    filled = fit(lost, run="run", missing=0.0)
    wanted = lost.groupby(["task", "model"])["accuracy"].sum().unstack() / 2
    np.testing.assert_allclose(filled.params, wanted.mean(), atol=1e-12)
    # The same losses of all models, and differences that are small, are no reason.
    fit(without(rng.random(len(table)) < 0.05), run="run", missing="common")
    fit(without(table.index.isin(table.index[table.model == "m01"][:12])), run="run", missing="common")


def test_several_rows_of_a_prompt_a_model_and_a_run_are_refused(tmp_path, capsys, printed):
    table = draw().rename(columns={"task": "item"}).assign(noise=np.random.default_rng(0).normal(size=594))
    table["task"] = "t" + (table["item"] % 5).astype(str)
    with pytest.raises(DataError, match=r"task 't0', model 'm\d+', run '?\d'? has \d+ rows; one is allowed"):
        fit(table, run="run")
    table.to_csv(tmp_path / "scores.csv", index=False)
    scores = ["fit", str(tmp_path / "scores.csv"), "--scores"]
    assert "identify a prompt (context=)" in printed([*scores, "task", "model", "accuracy"], 1)
    assert main([*scores, "item", "model", "accuracy", "--run", "run", "--out", str(tmp_path / "fit.json")]) == 0
    expected = fit(table, context="item", run="run", functional="borda")
    np.testing.assert_allclose(dr.read_json(tmp_path / "fit.json").params, expected.params, rtol=1e-12)
    capsys.readouterr()
    assert main([*scores, "item", "model", "accuracy", "--run", "run", "--set", "margin=0.1"]) == 1
    assert "runs (--run) are not; leave it out" in capsys.readouterr().err


def test_a_plan_for_scores_has_a_target_of_precision_and_says_what_else_would_reach_it(tmp_path, capsys, printed):
    table = draw(n=200, n_models=4)
    log, plan = str(tmp_path / "log.csv"), tmp_path / "plan.json"
    table[table["model"] != "m03"].to_csv(log, index=False)
    command = ["design", FORMULA, log, *OF_RUNS, "--candidate", "m03"]
    assert "Use the rest for further prompts" in printed([*command, "--budget", "1000"])
    assert main([*command, "--set", "std_error=0.06", "--out", str(plan)]) == 0
    said = capsys.readouterr().out
    assert " 0.060" in said
    budget = json.loads(plan.read_text())["expected_cost"]
    assert " 0.060" not in printed([*command, "--budget", f"{0.9 * budget}"])
    assert main([*command, "--set", "std_error=0.01"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"even running every model .* on all 200 prompts .* about [\d,]+ prompts like these", said)
    assert "it must be a positive number" in printed([*command, "--set", "std_error=0"], 1)
    with pytest.raises(OptionError, match="run all models on them and fit the rows of all prompts"):
        fit(table[table["model"] != "m03"]).design(90, candidate="m03", newdata=table)


def test_scores_in_the_notation_of_inspect_are_read(tmp_path, printed):
    table = draw(n=60, n_runs=2)
    table.loc[5, "accuracy"] = np.nan
    grades = table["accuracy"].map({0.0: {"value": "I"}, 1.0: {"value": "C"}}).astype(object)
    grades[3], grades[5] = {"value": 0.25, "explanation": "partly"}, None
    graded, table = table.assign(accuracy=grades), table.assign(accuracy=table["accuracy"].mask(table.index == 3, 0.25))
    path = tmp_path / "graded.jsonl"
    graded.to_json(path, orient="records", lines=True)
    out = str(tmp_path / "fit.json")
    assert main(["fit", FORMULA, str(path), *OF_RUNS, "--out", out]) == 0
    expected = fit(table, run="run").params
    np.testing.assert_allclose(dr.read_json(out).params, expected, rtol=1e-12)
    np.testing.assert_allclose(fit(graded, run="run").params, expected, rtol=1e-12)
    graded.assign(accuracy=[{"grade": 1}] * len(graded)).to_json(path, orient="records", lines=True)
    assert "holds {'grade': 1}" in printed(["fit", FORMULA, str(path), *OF_RUNS], 1)


def test_one_model_has_a_mean_with_its_interval_and_no_ranks():
    task = np.arange(60)
    table = pd.DataFrame({"task": task, "model": "a", "topic": task % 2, "accuracy": (task % 5 > 0).astype(float)})
    res = fit(table)
    other = fit(pd.concat([table, table.assign(model="b", accuracy=0.5)]))
    np.testing.assert_allclose(res.conf_int(), other.conf_int(method="none").loc[["a"]])
    said = " ".join(str(res.summary()).split())
    assert "a has a mean accuracy of 0.800 (95 % interval 0.6" in said
    assert "rank" not in said
    assert dr.read_json(res.to_json()).summary().as_text() == res.summary().as_text()
    assert res.by("topic").conf_int().shape == (2, 2)
    assert "a has a mean accuracy of 0.800" in " ".join(res.report().split())
    assert dr.check("accuracy ~ 1 | model", table, context="task").models.index.tolist() == ["a"]
    for call in (res.t_test_pairwise, partial(res.update, functional="borda")):
        with pytest.raises(dr.DmlrankError, match="at least 2"):
            call()


def test_where_the_lowest_score_is_the_best_all_follows():
    rng, task = np.random.default_rng(0), np.arange(300)
    errors = (rng.random((300, 3)) < [0.1, 0.25, 0.3]).astype(float)
    table = pd.DataFrame({"task": np.repeat(task, 3), "model": list("abc") * 300, "accuracy": errors.ravel()})
    low, high = fit(table, lower_is_better=True), fit(table.assign(accuracy=1 - table["accuracy"]))
    np.testing.assert_allclose(low.params, 1 - high.params)
    np.testing.assert_allclose(low.conf_int()["lower"], 1 - high.conf_int()["upper"], atol=1e-9)
    assert [[*low.ranks()[name]] for name in ("rank", "upper")] == [[*high.ranks()[name]] for name in ("rank", "upper")]
    assert low.t_test_pairwise().models == high.t_test_pairwise().models == ("a", "b", "c")
    assert "First place is decided: a is first" in low.verdict()
    assert re.search(r"a has a mean accuracy of 0\.\d+, 0\.\d+ less than b", low.verdict())
    rows = [line.split()[0] for line in str(low.summary()).splitlines() if line[:1] in "abc" and line[1:2] == " "]
    assert rows[:3] == ["a", "b", "c"]
    stored = dr.read_json(low.to_json())
    assert stored.summary().as_text() == low.summary().as_text()
    updated = fit(table).update(lower_is_better=True, bounds=(0, 2))
    assert updated.summary().as_text() == fit(table, lower_is_better=True, bounds=(0, 2)).summary().as_text()
    decisions = [decide(res, "b", "a", 0.05, 0.95) for res in (low, high)]
    assert decisions[0]["decision"] == decisions[1]["decision"] == "worse"
    assert decisions[0]["upper"] == pytest.approx(decisions[1]["upper"], abs=1e-9)
    assert "its score is assumed to be that of a." in str(low.design(50, candidate="d"))
    # Beside a fit of the same scores in which the highest is the best, every order is reversed.
    found = dr.compare(low=low, plain=fit(table)).reversals()
    assert set(zip(found["model"], found["other"], found["above_in"], strict=True)) >= {
        ("a", "b", "low"),
        ("a", "c", "low"),
    }
    assert (found[["gap_above"]] > 0).all(axis=None)
    with pytest.raises(OptionError, match="the best score is the 'lowest' and the 'highest'"):
        dr.compare(low=low, plain=fit(table)).changes()
    with pytest.raises(OptionError, match="lower_is_better"):
        fit(table, lower_is_better=True, functional="borda")


def test_bounds_are_those_that_are_given():
    table = pd.DataFrame({"task": np.arange(40), "model": "a", "accuracy": 6.0 + np.arange(40) % 4})
    inside, wide = fit(table), fit(table, bounds=(1, 10))
    reach = [float(res.params["a"] - res.conf_int()["lower"]["a"]) for res in (inside, wide)]
    assert reach[0] < reach[1] < 1.5 * reach[0]
    rare = table.assign(accuracy=10.0)
    assert fit(rare, bounds=(1, 10)).conf_int()["lower"]["a"] == pytest.approx(
        10 - 9 * (1 - 0.025 ** (1 / 40)), abs=1e-6
    )
    with pytest.raises(OptionError, match="the scores lie between 6 and 9"):
        fit(table, bounds=(7, 10))
    with pytest.raises(OptionError, match="bounds="):
        fit(table, bounds=(10, 1))


def test_runs_of_weighted_prompts():
    rng = np.random.default_rng(5)
    task, model, run = (a.ravel() for a in np.indices((90, 4, 3)))
    table = pd.DataFrame({"task": task, "model": np.array(list("abcd"))[model], "run": run})
    table["accuracy"] = rng.normal(size=(90, 4))[task, model] + 0.3 * model + rng.normal(size=len(task)) * (1 + model)
    # A weighted mean has the squares of the weights in the part of runs, as in the whole variance.
    res = fit(table.assign(w=1.0 + (task % 3) ** 2), weights="w")
    sizes, weight = res.sample_size().iloc[:-1], 1.0 + (np.arange(90) % 3) ** 2
    within = table.groupby(["task", "model"])["accuracy"].var().unstack().to_numpy()
    part = dict(zip("abcd", np.square(weight / weight.sum()) @ within / 3, strict=True))
    expected = [sum(part[name] for name in pair.split(" - ")) for pair in sizes.index]
    np.testing.assert_allclose(sizes["share_runs"] * sizes["std_error"] ** 2, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_an_unseen_cluster_has_one_other_prompt():
    def lowest(n, size):
        task, model = (a.ravel() for a in np.indices((n * size, 2)))
        names = np.array(["a", "b"])[model]
        table = pd.DataFrame({"task": task, "model": names, "accuracy": 1.0, "suite": task // size})
        options = {"cov_type": "cluster", "cov_kwds": {"groups": "suite"}} if size > 1 else {}
        return fit(table, **options).conf_int(method="none")["lower"].iloc[0]

    # Of 40 suites of four prompts without a failure, a quarter of the allowance of 40 prompts is left.
    np.testing.assert_allclose(1 - lowest(40, 4), (1 - lowest(40, 1)) / 4, rtol=0.05)


def test_drawn_at_random_means_the_share_of_each_model():
    rng = np.random.default_rng(6)
    task, model = (a.ravel() for a in np.indices((200, 3)))
    is_there = rng.random(600) < np.array([1.0, 0.8, 0.4])[model]
    table = pd.DataFrame({"task": task, "model": np.array(list("abc"))[model], "accuracy": rng.random(600)})[is_there]
    found = fit(table, propensity="marginal").diagnostics
    assert found.min_propensity == pytest.approx(is_there[model == 2].mean())


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")
def test_the_latest_clusters_are_left_out_and_predicted():
    rng = np.random.default_rng(7)
    task, model = (a.ravel() for a in np.indices((240, 3)))
    suite = task // 6
    table = pd.DataFrame({"task": task, "suite": suite, "model": np.array(list("abc"))[model]})
    table["accuracy"] = rng.normal(size=240)[task] + 0.2 * rng.normal(size=720) + ((model == 2) & (suite >= 34))
    table = table[(model < 2) | (suite >= 10)]
    res = fit(table, missing="model", cov_type="cluster", cov_kwds={"groups": "suite"})
    found = res.sensitivity("a - c").placebo.loc["c"]
    # In the latest sixth of all clusters, of those on which it was run a fifth, the model is better by one.
    assert found["clusters"] == 6
    assert found["lower"] > 0.5

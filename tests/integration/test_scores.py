"""Tables of scores: means and their errors, repeated runs, missing scores, pass@k, and what follows a fit."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from statsmodels.api import OLS

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import DataError, MissingDataError, OptionError

FORMULA = "accuracy ~ 1 | model"


def draw(n=99, n_models=3, n_runs=2, seed=0, binary=True):
    rng = np.random.default_rng(seed)
    task, model, run = (a.ravel() for a in np.indices((n, n_models, n_runs)))
    strength = rng.normal(size=n)[task] + 0.9 * model / n_models + (0 if binary else rng.normal(size=task.size))
    score = (rng.random(task.size) < 1 / (1 + np.exp(-strength))).astype(float) if binary else strength
    names = np.array([f"m{j:02d}" for j in range(n_models)], dtype=object)[model]
    table = pd.DataFrame({"task": task, "model": names, "run": run, "accuracy": score})
    return table.assign(topic=np.where(task % 3, "code", "maths"), suite=task // 3, weight=1.0 + task % 2)


def fit(table, **options):
    return dr.dml_rank(FORMULA, table, **{"context": "task", "rng": 0} | options)


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
    assert (res.functional, res.estimator, res.nobs, res.nvotes) == ("mean", "means", 99, len(table))
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


def test_order_and_names_of_models_do_not_matter():
    table = draw()
    renamed = table.assign(model=table.model.map({"m00": "c", "m01": "b", "m02": "a"}))
    one, other = fit(table), fit(renamed.iloc[::-1])
    np.testing.assert_allclose(one.params.to_numpy(), other.params[["c", "b", "a"]].to_numpy(), atol=1e-12)
    np.testing.assert_allclose(one.cov_params(), other.cov_params().iloc[::-1, ::-1], atol=1e-15)


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
    means = table.groupby(["task", "model"], as_index=False)["accuracy"].mean()
    pairs = dr.pairs_from_scores(means, prompt="task", model="model", score="accuracy")
    of_means = dr.dml_rank("winner ~ 1 | a + b", pairs, rng=0)
    np.testing.assert_array_equal(fit(table, functional="borda", runs="mean").params, of_means.params)


def test_pass_at_k_by_enumeration():
    rng = np.random.default_rng(0)
    rows = [(i, m, s) for i in range(4) for m in "ab" for s in rng.integers(0, 2, size=rng.integers(3, 7))]
    table = pd.DataFrame(rows, columns=["task", "model", "solved"])
    for k in (1, 2, 3):
        found = dr.pass_at_k(table, k, prompt="task", model="model", score="solved").set_index(["task", "model"])
        for key, part in table.groupby(["task", "model"])["solved"]:
            subsets = [max(subset) for subset in itertools.combinations(part, k)]
            np.testing.assert_allclose(found.loc[key, "solved"], np.mean(subsets), atol=1e-12)
    with pytest.raises(DataError, match="k=7"):
        dr.pass_at_k(table, 7, prompt="task", model="model", score="solved")
    with pytest.raises(DataError, match="succeed"):
        dr.pass_at_k(table.assign(solved=0.5), 1, prompt="task", model="model", score="solved")


def test_an_extension_is_one_fit():
    table = draw()
    res = fit(table[table.task < 50]).extend(table[table.task >= 50])
    whole = fit(table)
    np.testing.assert_allclose(res.params, whole.params, atol=1e-12)
    np.testing.assert_allclose(res.cov_params(), whole.cov_params(), atol=1e-12)
    assert (res.extension.contexts_new, res.extension.rows_added) == (49, 294)
    with_model = fit(table[table.model != "m01"]).extend(table[table.model == "m01"])
    np.testing.assert_allclose(with_model.params[whole.models], whole.params, atol=1e-12)


def test_missing_scores():
    table = draw(n_runs=1)
    table = table.drop(index=[0, 10]).assign(accuracy=lambda d: d.accuracy.where(d.index != 31))
    y = wide(table)
    with pytest.raises(MissingDataError, match="missing='common'"):
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
    refused = {"n_folds": 3, "estimator": "plugin", "judge": "verdict", "graph": "complete", "prompts": "fixed"}
    for name, value in refused.items():
        with pytest.raises(OptionError, match=name):
            fit(table, functional="mean", **{name: value})
    with pytest.raises(DataError, match="'run' differs"):
        dr.dml_rank("accuracy ~ run | model", table, context="task")
    with pytest.raises(OptionError, match="context="):
        dr.dml_rank(FORMULA, table)
    votes = dr.datasets.simulate_arena(n=100, rng=0)
    for options in ({"functional": "mean"}, {"run": "question_id"}, {"runs": "mean"}, {"missing": "common"}):
        with pytest.raises(OptionError):
            dr.dml_rank("winner ~ 1 | model_a + model_b", votes, **options)
    with pytest.raises(OptionError, match="run"):
        fit(table).update(run="run")


def test_what_has_no_meaning_for_means_is_lacking():
    res = fit(draw())
    for name in ("win_probability", "predict", "cycles", "sensitivity", "fragility", "design", "restriction_test"):
        assert not hasattr(res, name)
        assert hasattr(res.update(functional="borda"), name) or name in ("sensitivity", "fragility")


def test_updates_and_views():
    res = fit(draw())
    borda = res.update(functional="borda")
    assert (borda.estimator, borda.update(functional="mean").params.tolist()) == ("debiased", res.params.tolist())
    assert res.update(estimator="bt_mle").functional == "bt"
    assert (res.sequential(200, 20).bse == res.bse).all()
    assert set(res.best_set()) <= set(res.models)
    np.testing.assert_allclose(res.augment("m01")["influence"].pow(2).sum() ** 0.5 / 99, res.bse["m01"], rtol=1e-10)
    assert list(res.tidy().columns)[-1] == "scores"
    assert dr.compare(mean=res, borda=borda).summary().as_text()


def test_stored_results(tmp_path):
    res = fit(draw())
    assert dr.read_json(res.to_json()).summary().as_text() == res.summary().as_text()
    res.save(tmp_path / "fit", with_data=True)
    loaded = dr.load(tmp_path / "fit")
    assert loaded.params.equals(res.params)
    assert loaded.by("topic").params.equals(res.by("topic").params)
    assert loaded.update(functional="bt").params.equals(res.update(functional="bt").params)


@pytest.mark.parametrize("n_models", [3, 60])
def test_tables_and_page_speak_of_scores(n_models, tmp_path):
    res = fit(draw(n_models=n_models))
    res.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    texts = [
        res.summary().as_text(),
        res.summary(slim=True).as_text(),
        res.explain(),
        res.by("topic").summary().as_text(),
    ]
    for text in (*texts, page.partition("<script")[0]):
        assert not {"votes", "vote", "labels", "nan"} & set(text.lower().replace(".", " ").split())
    assert f"No. Scores: {99 * n_models * 2:,}" in " ".join(texts[0].split())


def test_command_line(tmp_path, capsys):
    table = draw()
    table.to_csv(tmp_path / "scores.csv", index=False)
    assert main(["fit", FORMULA, str(tmp_path / "scores.csv"), "--context", "task", "--rng", "0"]) == 0
    # The summary of the command line names no methods of Python.
    printed, words = capsys.readouterr().out.split(), fit(table).summary().as_text().split()
    assert printed[:100] == words[:100]


def draw_variances(seed, n=100, n_runs=3):
    """Scores of two models whose difference has a variance of 2 between prompts and of 1 between runs."""
    rng = np.random.default_rng(seed)
    task, model, run = (a.ravel() for a in np.indices((n, 2, n_runs)))
    score = rng.normal(size=(n, 2))[task, model] + rng.normal(size=task.size) * np.sqrt(0.5)
    return pd.DataFrame({"task": task, "model": np.array(["a", "b"])[model], "run": run, "accuracy": score})


def test_runs_divide_the_variance():
    table = draw_variances(0)
    res = fit(table)
    runs = res.runs(prompt_cost=10, run_cost=1)
    within = table.groupby(["task", "model"])["accuracy"].var().unstack().mean()
    name = runs.index[-1]
    np.testing.assert_allclose(
        runs.loc["a", "share_runs"] * runs.loc["a", "se"] ** 2, within["a"] / 3 / 100, rtol=1e-10
    )
    np.testing.assert_allclose(runs.loc["a", "se"], res.bse["a"], rtol=1e-12)
    total, of_runs = runs.loc[name, "se"] ** 2 * 100, within.sum()
    np.testing.assert_allclose(runs.loc[name, "se_unlimited_runs"] ** 2 * 100, total - of_runs / 3, rtol=1e-10)
    # The best number of runs against all numbers, for a fixed budget: (s_p^2 + s_r^2 / R) (10 + R) is smallest.
    numbers = np.linspace(0.5, 20, 100_000)
    price = (total - of_runs / 3 + of_runs / numbers) * (10 + numbers)
    np.testing.assert_allclose(runs.loc[name, "best_runs"], numbers[price.argmin()], rtol=1e-3)
    assert "More runs" in res.summary().as_text()
    with pytest.raises(OptionError, match="run_cost"):
        res.runs(prompt_cost=1)
    with pytest.raises(DataError, match="two runs"):
        fit(table[table.run == 0]).runs()
    assert not hasattr(res.update(functional="borda"), "runs")
    np.testing.assert_allclose(res.rescale(100).runs()["se"], 100 * runs["se"], rtol=1e-12)


def test_variance_split_is_right_on_average():
    shares = [fit(draw_variances(seed)).runs()["share_runs"].iloc[-1] for seed in range(60)]
    # Variances of 2 between prompts and of 1 / 3 between the means of three runs.
    np.testing.assert_allclose(np.mean(shares), (1 / 3) / (2 + 1 / 3), rtol=0.1)

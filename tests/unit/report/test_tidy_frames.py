"""Tidy frames and the forest plot show the result's own numbers under plain names."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, UnknownModelError

from ...support import optional

plt = optional("matplotlib.pyplot")

FORMULA = "winner ~ x0 | model_a + model_b"


@pytest.fixture(scope="module")
def result():
    battles = dr.datasets.simulate_arena(n=1500, rng=1)
    return dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", min_labels=5, rng=0)


def test_tidy_holds_the_numbers_of_the_result(result):
    tidy = result.tidy().set_index("term")
    numbers = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
    assert list(tidy) == [*numbers, "interval", "votes", "votes_left_out"]
    shown = pd.read_csv(io.StringIO(result.summary().as_csv()), index_col="model")["adj. P"].astype(str)
    np.testing.assert_allclose(shown.str.lstrip("<").astype(float)[tidy.index], tidy["p_adjusted"], atol=0.001)
    assert (tidy["p_adjusted"] >= tidy["p_value"]).all()
    np.testing.assert_array_equal(tidy["estimate"], result.params)
    np.testing.assert_array_equal(tidy["p_value"], result.pvalues)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], result.conf_int())


@pytest.mark.parametrize("method", ["bonferroni", "none"])
def test_tidy_takes_the_methods_of_conf_int(result, method):
    tidy = result.tidy(alpha=0.1, method=method)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], result.conf_int(alpha=0.1, method=method))
    assert set(tidy["interval"]) == {
        {"none": "pointwise", "max-t": "simultaneous"}.get(method, "simultaneous (Bonferroni)")
    }
    np.testing.assert_array_equal(tidy["p_adjusted"], result.tidy()["p_adjusted"])


def test_the_forest_plot_draws_every_score_with_its_interval(result):
    axes = result.plot()
    line, _, (bars,) = axes.containers[0]
    order = np.argsort(-result.params.to_numpy(), kind="stable")
    np.testing.assert_allclose(line.get_xdata(), result.params.to_numpy()[order])
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, result.conf_int().to_numpy()[order])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [result.models[j] for j in order]


def test_the_forest_plot_draws_into_given_axes(result):
    _, axes = plt.subplots()
    assert result.plot(ax=axes) is axes


@pytest.fixture(scope="module")
def frame(draw_battles):
    return draw_battles(np.random.default_rng(3), 200, 4, 4, n_pairs=2, repeats=True, unlabelled=10).frame


@pytest.fixture(scope="module")
def results(frame, rank):
    return rank(frame, FORMULA, tune={"n_estimators": 4}, n_folds=3)


def test_glance_is_one_row_of_the_result_s_numbers(results):
    (row,) = results.glance(alpha=0.1).to_dict("records")
    assert row["functional"] == "borda"
    assert (row["nobs"], row["nvotes"], row["ncomparisons"]) == (results.nobs, results.nvotes, results.ncomparisons)
    assert (row["n_models"], row["n_pairs"], row["n_folds"], row["seed"]) == (4, results.graph.n_edges, 3, 0)
    assert row["log_loss"] == results.diagnostics.log_loss
    half_width = np.ptp(results.conf_int(0.1), axis=1) / 2
    np.testing.assert_allclose(row["critical"] * results.bse, half_width)
    assert row["alpha"] == 0.1
    assert row["n_clusters"] == results.nobs
    assert pd.concat([results.glance(), results.rescale(2).glance()])["scale"].tolist() == ["natural", "2 times"]


def test_glance_counts_the_fewest_clusters(frame, rank):
    clustered = rank(
        frame, "winner ~ 1 | model_a + model_b", cov_type="cluster", cov_kwds={"groups": ["prompt", "judge"]}
    )
    assert clustered.glance()["n_clusters"].item() == 5


def test_augment_has_a_row_per_cell(frame, results):
    rows = results.augment()
    labelled = frame[frame["winner"].notna()]
    sizes = labelled.groupby(["prompt", "model_a", "model_b"]).size()
    assert len(rows) == len(sizes) == results.ncomparisons
    assert rows.set_index(["prompt", "first", "second"])["n_votes"].to_dict() == sizes.to_dict()
    one = rows.iloc[5]
    votes = labelled[(labelled["prompt"] == one["prompt"]) & (labelled["model_a"] == one["first"])]
    votes = votes[votes["model_b"] == one["second"]]
    assert one["mean_first"] == pytest.approx((votes["winner"] == "model_a").mean())
    assert one["mean_both_bad"] == pytest.approx((votes["winner"] == "both_bad").mean())


def test_augment_shows_the_first_stages(results):
    rows = results.augment()
    names = [f"prob_{name}" for name in results.estimates.description.categories]
    np.testing.assert_allclose(rows[names].sum(axis=1), 1)
    means = rows[[f"mean_{name}" for name in results.estimates.description.categories]].to_numpy()
    loss = -(rows["n_votes"].to_numpy()[:, None] * means * np.log(rows[names].to_numpy())).sum() / results.nvotes
    assert loss == pytest.approx(results.diagnostics.log_loss)
    np.testing.assert_allclose(rows["weight"] * rows["propensity"], 1)
    assert sorted(rows["fold"].unique()) == [0, 1, 2]
    assert (rows.groupby("prompt")["fold"].nunique() == 1).all()


def test_augment_shows_the_influence_of_the_context(results):
    rows, one = results.augment(), results.augment(model="m2")
    np.testing.assert_array_equal(one["influence"], rows["influence_m2"])
    assert "influence_m2" not in one
    place = {name: number for number, name in enumerate(results.predict().index)}
    at = rows["prompt"].map(place).to_numpy()
    np.testing.assert_array_equal(rows[[f"influence_m{j}" for j in range(4)]], results.influence[at])
    np.testing.assert_allclose(results.rescale(10).augment("m2")["influence"], 10 * one["influence"])


def test_contexts_of_several_columns_and_of_none(frame, rank):
    options = {"formula": "winner ~ 1 | model_a + model_b"}
    several = rank(frame.rename(columns={"topic": "first"}), context=["prompt", "first"], **options).augment()
    assert list(several.columns[:3]) == ["prompt", "context_first", "first"]
    assert several["context_first"].isin(frame["topic"]).all()
    rows = rank(frame, context=None, **options).augment()
    assert rows["context"].tolist() == frame.index[frame["winner"].notna()].tolist()


def test_maximum_likelihood_has_fitted_probabilities(frame, rank):
    fitted = rank(frame, "winner ~ 1 | model_a + model_b", estimator="bt_mle", min_labels="auto")
    rows = fitted.augment(model="m0")
    assert not {"propensity", "weight", "fold"} & set(rows.columns)
    gap = rows["first"].map(fitted.params) - rows["second"].map(fitted.params)
    np.testing.assert_allclose(rows["fitted"], 1 / (1 + np.exp(-gap.astype(float))))


def test_what_augment_needs(results, tmp_path):
    with pytest.raises(UnknownModelError):
        results.augment(model="m22")
    results.save(tmp_path / "stored")
    stored = dr.load(tmp_path / "stored")
    assert stored.glance().equals(results.glance())
    with pytest.raises(DataNotStoredError):
        stored.augment()

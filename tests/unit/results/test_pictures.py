"""Pictures of a fit by name: what is drawn equals the numbers, and what cannot be drawn is refused with the reason."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, NoIntervalError, OptionError, OptionTypeError, UnknownModelError
from dmlrank.plotting.diagnostic_charts import reliability_curve

from ...support import simulated_votes

plt = pytest.importorskip("matplotlib.pyplot")

FORMULA = "winner ~ C(category) + length | model_a + model_b"


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=1200, rng=3)


@pytest.fixture(scope="module")
def result(battles):
    return dr.dml_rank(FORMULA, battles, context="question_id", min_labels=1, rng=0, n_jobs=1)


@pytest.fixture(scope="module")
def stored(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "result.json"
    result.save(path)
    return dr.load(path)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def row_names(axes):
    """Names of the rows from top to bottom."""
    order = np.argsort(-np.asarray(axes.get_yticks()))
    return [axes.get_yticklabels()[place].get_text() for place in order]


# --- ranks as a class -------------------------------------------------------------------------------------------------


def test_ranks_can_be_used_like_their_frame(result):
    ranks = result.ranks()
    frame = ranks.result_frame
    assert list(frame.columns) == ["rank", "lower", "upper", "group"]
    pd.testing.assert_series_equal(ranks["rank"], frame["rank"])
    assert ranks.loc["gpt-4", "rank"] == frame.loc["gpt-4", "rank"]
    assert len(ranks) == 8
    assert list(ranks) == list(frame.columns)
    assert [name for name, _ in ranks.iterrows()] == ranks.models == frame.index.tolist()
    assert ranks.to_csv() == frame.to_csv()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ranks.no_such_name
    for other in (copy.copy(ranks), pickle.loads(pickle.dumps(ranks))):
        pd.testing.assert_frame_equal(other.result_frame, frame)


def test_ranks_have_a_table_in_every_form(result):
    ranks = result.ranks(alpha=0.1)
    table = ranks.summary(top=2)
    first = ranks.result_frame.iloc[0]
    assert table.rows[0] == (
        ranks.models[0],
        *(str(first[name]) for name in ("rank", "lower", "upper")),
        first["group"],
    )
    assert len(table.rows) == 2
    assert ("Models:", "2 of 8 models") in [line[2:] for line in table.header]
    for text in (str(ranks), table.as_html(), table.as_latex(), table.as_markdown(), ranks._repr_html_()):
        assert "90" in text
        assert ranks.models[0] in text
    assert table.as_csv().splitlines()[0].startswith("model,rank,")
    assert "each model alone" in " ".join(result.ranks(simultaneous=False).summary().notes)
    assert ranks.summary(title="Places").title == "Places"


def test_rank_bars_are_the_sets_and_points_the_ranks(result):
    ranks = result.ranks()
    axes = ranks.plot()
    frame = ranks.result_frame
    assert row_names(axes) == ranks.models
    ends = [(bar.get_x() + 0.33, bar.get_x() + bar.get_width() - 0.33) for bar in axes.patches]
    np.testing.assert_allclose(ends, frame[["lower", "upper"]].to_numpy())
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), frame["rank"])
    assert [text.get_text() for text in axes.texts if text.get_text() != " group"] == frame["group"].tolist()
    assert axes.get_title() == "95 % simultaneous rank sets, 8 models"
    some = ranks.plot(models=["koala-13b", "gpt-4"])
    np.testing.assert_array_equal(some.lines[0].get_xdata(), frame.loc[["koala-13b", "gpt-4"], "rank"])


# --- pictures by name -------------------------------------------------------------------------------------------------


def test_an_unknown_picture_is_answered_with_the_names_and_the_nearest(result):
    with pytest.raises(OptionError, match="ranks"):
        result.plot("rnaks")
    _, axes = plt.subplots()
    with pytest.raises(OptionTypeError):
        result.plot(axes)


@pytest.mark.parametrize(
    ("picture", "options"),
    [
        ("overlap", {"models": ["gpt-4"]}),
        ("forest", {"by": "category"}),
        ("heat_map", {}),
        ("bands", {}),
        ("influence", {"models": ["gpt-4", "palm-2"]}),
        ("influence", {"models": ["gpt-4"], "contrast": "gpt-4 - palm-2"}),
        ("forest", {"top": 0}),
        ("forest", {"alpha": 2}),
    ],
)
def test_options_that_a_picture_cannot_use_are_refused(result, picture, options):
    with pytest.raises(OptionError):
        result.plot(picture, **options)
    assert plt.get_fignums() == []


def test_an_unknown_model_is_refused_before_a_figure_is_made(result):
    for picture in ("forest", "ranks", "matrix", "influence"):
        with pytest.raises(UnknownModelError, match="gpt-5"):
            result.plot(picture, models=["gpt-5"])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("picture", ["overlap", "calibration", "influence"])
def test_a_stored_result_refuses_pictures_of_the_data(stored, picture):
    with pytest.raises(DataNotStoredError, match=picture):
        stored.plot(picture)
    assert plt.get_fignums() == []


def test_a_stored_result_draws_what_needs_no_data(result, stored):
    for picture in ("forest", "ranks", "matrix", "ellipse"):
        one, other = (r.plot(picture, ax=plt.subplots()[1]) for r in (result, stored))
        assert one.get_title() == other.get_title()
        for line, same in zip(one.lines, other.lines, strict=True):
            np.testing.assert_allclose(line.get_xdata(), same.get_xdata())


def test_the_forest_of_some_models_keeps_the_joint_intervals(result):
    axes = result.plot(top=3, alpha=0.1)
    _, _, (bars,) = axes.containers[0]
    best = result.params.sort_values(ascending=False).index[:3]
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, result.conf_int(alpha=0.1).loc[best])
    assert axes.get_title() == "90 % simultaneous intervals (max-t), 3 of 8 models"
    assert axes.get_xlabel() == "score: borda (mean win share)"


def test_the_matrix_of_some_models_keeps_the_tests_of_all_pairs(result):
    axes = result.plot("matrix", models=["koala-13b", "gpt-4"])
    mesh = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(2, 2)
    frame = result.t_test_pairwise().result_frame.set_index(["first", "second"])
    row = frame.loc[("gpt-4", "koala-13b")]
    assert row["p_adjusted"] <= 0.05
    np.testing.assert_allclose([mesh[1, 0], mesh[0, 1]], [row["estimate"], -row["estimate"]])
    assert "1 of 28 differences drawn" in axes.get_title().replace("\n", " ")


def test_intervals_of_all_pairs_can_be_drawn(result):
    tests = result.t_test_pairwise()
    axes = tests.plot("intervals", top=3)
    frame = tests.result_frame
    best = tests.models[:3]
    part = frame[frame["first"].isin(best) & frame["second"].isin(best)]
    segments = np.array(axes.collections[0].get_segments())[:, :, 0]
    np.testing.assert_allclose(segments, part[["conf_low", "conf_high"]])
    with pytest.raises(OptionError):
        result.t_test_pairwise(against="gpt-4").plot("matrix")
    with pytest.raises(OptionError, match="matrix"):
        tests.plot("matrx")


def test_overlap_draws_the_distribution_of_the_propensities(result):
    axes = result.plot("overlap")
    pi = np.sort(result.augment()["propensity"].to_numpy())
    curve = axes.lines[0]
    np.testing.assert_allclose(curve.get_xdata()[1:-1], pi)
    np.testing.assert_allclose(curve.get_ydata()[1:-1], np.arange(1, len(pi) + 1) / len(pi))
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)
    assert f"{result.diagnostics.propensity_floored:,} (" in axes.get_title()
    assert f"smallest {pi[0]:.3g}" in axes.get_title()


def test_equal_propensities_are_one_bar(battles):
    options = {"context": "question_id", "propensity": "known", "min_labels": 1, "rng": 0}
    axes = dr.dml_rank("winner ~ 1 | model_a + model_b", battles.assign(known=0.02), **options).plot("overlap")
    assert sorted(bar.get_height() for bar in axes.patches)[-1] == 1
    assert "none is clipped" in axes.get_title()


@pytest.mark.long
def test_calibration_draws_the_bins_of_the_labels(result):
    axes = result.plot("calibration")
    cells = result.augment()
    categories = [name.removeprefix("mean_") for name in cells if name.startswith("mean_")]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == categories
    for container, category in zip(axes.containers, categories, strict=True):
        points = container[0]
        fitted, observed = (cells[f"{kind}_{category}"].to_numpy() for kind in ("prob", "mean"))
        # Deciles of the fitted probabilities, by brute force.
        tenth = np.minimum((pd.Series(fitted).rank(method="average").to_numpy() - 0.5) / len(fitted) * 10, 9.9).astype(
            int
        )
        means = pd.DataFrame({"x": fitted, "y": observed}).groupby(tenth).mean()
        np.testing.assert_allclose(points.get_xdata(), means["x"], atol=1e-12)
        np.testing.assert_allclose(points.get_ydata(), means["y"], atol=1e-12)


def test_intervals_of_bins_are_wilson_s():
    fitted = np.repeat([0.1, 0.5, 0.9], 40)
    labels = np.concatenate([np.repeat([0.0, 1.0], [40, 0]), np.repeat([0.0, 1.0], [17, 23]), np.ones(40)])
    curve = reliability_curve(fitted, labels, np.ones(120, dtype=int), alpha=0.1, n_bins=3)
    for k, low, high in zip([0, 23, 40], curve.low, curve.high, strict=True):
        expected = binomtest(k, 40).proportion_ci(0.9, method="wilson")
        np.testing.assert_allclose([low, high], [expected.low, expected.high], atol=1e-12)


def test_influence_draws_the_largest_values(result, battles):
    axes = result.plot("influence", contrast="gpt-4 - palm-2", top=5)
    j, k = (result.models.index(name) for name in ("gpt-4", "palm-2"))
    phi = result.influence[:, j] - result.influence[:, k]
    largest = np.argsort(-np.abs(phi), kind="stable")[:5]
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], phi[largest] / len(phi))
    assert row_names(axes) == [str(battles["question_id"].drop_duplicates().iloc[i]) for i in largest]
    assert f"{100 * (phi[largest] ** 2).sum() / (phi**2).sum():.1f} %" in axes.get_title()
    signs = {bar.get_facecolor() for bar, i in zip(axes.patches, largest, strict=True) if phi[i] > 0}
    assert signs.isdisjoint(bar.get_facecolor() for bar, i in zip(axes.patches, largest, strict=True) if phi[i] < 0)


def test_pictures_do_not_depend_on_the_order_of_the_rows(battles):
    shuffled = battles.sample(frac=1, random_state=1)
    known = {"propensity": "propensity", "context": "question_id", "min_labels": 1, "rng": 0}
    one, other = (dr.dml_rank("winner ~ 1 | model_a + model_b", frame, **known) for frame in (battles, shuffled))
    for picture in ("overlap", "influence", "ranks"):
        left, right = (r.plot(picture, ax=plt.subplots()[1]) for r in (one, other))
        assert row_names(left) == row_names(right)
        for bar, same in zip(left.patches, right.patches, strict=True):
            np.testing.assert_allclose([bar.get_x(), bar.get_width()], [same.get_x(), same.get_width()], atol=1e-9)


# --- groups, comparisons, projections ---------------------------------------------------------------------------------


def test_heat_maps_and_bump_charts_show_scores_and_ranks_by_group(result):
    groups = result.by("category")
    best_first = result.params.sort_values(ascending=False).index
    axes = result.plot("heat_map", by="category", top=4)
    shown = np.ma.filled(axes.collections[0].get_array(), np.nan)
    np.testing.assert_allclose(shown.reshape(4, -1), groups.params.loc[best_first[:4]])
    lines = result.plot("bump", by="category", models=["gpt-4", "palm-2"]).lines
    expected = groups.params.rank(ascending=False, method="min").loc[["gpt-4", "palm-2"]]
    np.testing.assert_array_equal([line.get_ydata() for line in lines], expected)
    best = np.argsort(-result.conf_int()["lower"].to_numpy(), kind="stable")[:3]
    lines = result.plot("bump", by="category", top=3).lines
    expected = groups.params.rank(ascending=False, method="min").iloc[best]
    np.testing.assert_array_equal([line.get_ydata() for line in lines], expected)


@pytest.mark.long
def test_a_matrix_of_many_models_shows_the_best_40():
    votes = simulated_votes(60, 4000)
    result = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, estimator="bt_mle", rng=0)
    axes = result.plot("matrix")
    assert axes.collections[0].get_array().shape == (40, 40)
    assert "60 models, 780 of 1,770 differences drawn" in axes.get_title().replace("\n", " ")


def test_differences_between_groups_are_coloured_where_their_joint_interval_excludes_zero(result):
    groups = result.by("category")
    axes = groups.plot("differences", alpha=0.2)
    share = groups.nobs / groups.nobs.sum()
    gap = groups.params.sub(groups.params @ share, axis=0)
    # The standard error of each difference, from the joint covariance of all groups.
    covariance, variance = groups.cov_params(), pd.DataFrame(index=gap.index, columns=gap.columns, dtype=float)
    for model in gap.index:
        block = covariance.loc[pd.IndexSlice[:, model], pd.IndexSlice[:, model]].to_numpy()
        contrast = np.eye(len(share)) - share.to_numpy()
        variance.loc[model] = np.diag(contrast @ block @ contrast.T)
    z = (gap / np.sqrt(variance)).loc[result.params.sort_values(ascending=False).index]
    shown = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(z.shape)
    coloured = np.isfinite(shown)
    np.testing.assert_allclose(shown[coloured], gap.loc[z.index].to_numpy()[coloured])
    size = np.abs(z.to_numpy())
    # One critical value separates what is coloured from what is grey.
    assert size[~coloured].max() < size[coloured].min(initial=np.inf)
    assert size[~coloured].max() < 4
    with pytest.raises(OptionError, match="alpha"):
        groups.plot("heat_map", alpha=0.1)


def test_bands_of_chosen_models(result):
    axes = result.plot("bands", variable="length", top=2)
    best = result.params.sort_values(ascending=False).index[:2].tolist()
    frame = result.project("~ length").bands("length", models=best)
    for line, model in zip(axes.lines, best, strict=True):
        np.testing.assert_allclose(line.get_ydata(), frame.loc[frame["model"] == model, "estimate"])
    assert "95 % simultaneous bands (max-t), 2 of 8 models" in axes.get_title().replace("\n", " ")


# --- sheet and plan ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_sheet_has_the_important_pictures_and_says_what_is_left_out(result, stored):
    sheet = result.plots(top=3)
    titles = " ".join(axes.get_title() for axes in sheet.axes)
    for words in ("simultaneous intervals", "rank sets", "Coloured", "Propensities", "Calibration", "influence"):
        assert words in titles
    assert "'heat_map', because no groups are named" in sheet.get_supxlabel().replace("\n", " ")
    small = stored.plots()
    assert "Propensities" not in " ".join(axes.get_title() for axes in small.axes)
    reasons = small.get_supxlabel().replace("\n", " ")
    assert "'overlap': plot('overlap') needs the data and learners of the fit" in reasons
    with pytest.raises(UnknownModelError, match="gpt-5"):
        result.plots(models=["gpt-5"])
    # One model has no differences: the reason stands in the place of the matrix.
    assert any(
        "no difference is between the models" in text.get_text().replace("\n", " ")
        for part in result.plots(top=1).subfigs
        for text in part.texts
    )


def test_an_estimate_without_intervals_draws_scores_only(battles):
    plain = dr.dml_rank(
        "winner ~ 1 | model_a + model_b", battles, context="question_id", estimator="plugin", min_labels=1, rng=0
    )
    with pytest.raises(NoIntervalError):
        plain.plot("ranks")
    assert plain.plot().get_title().startswith("estimates without intervals")
    assert "'ranks': ranks: this result is an estimate without intervals" in plain.plots().get_supxlabel().replace(
        "\n", " "
    )


@pytest.mark.parametrize("ordered", [False, True])
def test_pairs_of_a_plan_are_sorted_and_join_the_orders(ordered):
    ties = dr.datasets.Ties()
    plan = dr.design(ties.mu(ties.features(60, rng=0)), "bt", budget=60, position_bias=ordered)
    axes = plan.plot("pairs")
    labels = plan.propensity.sum(axis=0)
    first, second = np.triu_indices(3, 1)
    by_order = np.stack([labels[first, second], labels[second, first]] if ordered else [labels[first, second]])
    order = np.argsort(-by_order.sum(axis=0), kind="stable")
    np.testing.assert_allclose(np.reshape([bar.get_width() for bar in axes.patches], (-1, 3)), by_order[:, order])
    expected = [f"model_{first[p]} − model_{second[p]}" for p in order]
    assert row_names(axes) == expected
    assert sum(by_order.sum(axis=0)) == pytest.approx(60, rel=1e-3)
    assert row_names(plan.plot("pairs", models=["model_2", "model_0"])) == ["model_2 − model_0"]
    with pytest.raises(OptionError, match="top"):
        plan.plot(top=2)
    with pytest.raises(OptionError, match="pairs"):
        plan.plot("pair")

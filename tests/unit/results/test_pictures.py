"""Pictures of a fit by name: what is drawn equals the numbers, and what cannot be drawn is refused with the reason."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError, NoIntervalError, OptionError, OptionTypeError, UnknownModelError
from dmlrank.plotting.charts import reliability_curve

from ...support import row_names

plt = pytest.importorskip("matplotlib.pyplot")

FORMULA = "winner ~ C(category) + length | model_a + model_b"


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=1200, rng=3)


@pytest.fixture(scope="module")
def result(battles):
    return dr.dml_rank(FORMULA, battles, context="question_id", pairs=dr.Pairs(min_labels=1), rng=0, n_jobs=1)


@pytest.fixture(scope="module")
def stored(result):
    return dr.read_json(result.to_json())


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
    assert list(table.rows[0]) == [ranks.models[0], *ranks.result_frame.iloc[0].astype(str)]
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
        ("influence", {"models": ["gpt-4"]}),
        ("influence", {"contrast": ["gpt-4 - palm-2", "gpt-4"]}),
        ("forest", {"top": 0}),
        ("forest", {"alpha": 2}),
    ],
)
def test_options_that_a_picture_cannot_use_are_refused(result, picture, options):
    with pytest.raises(OptionError):
        result.plot(picture, **options)
    assert plt.get_fignums() == []


def test_an_unknown_model_is_refused_before_a_figure_is_made(result):
    for picture in ("forest", "ranks", "matrix"):
        with pytest.raises(UnknownModelError, match="gpt-5"):
            result.plot(picture, models=["gpt-5"])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("picture", ["overlap", "calibration", "influence"])
def test_a_stored_result_refuses_pictures_of_the_data(stored, picture):
    with pytest.raises(DataNotStoredError, match=picture):
        stored.plot(picture)
    assert plt.get_fignums() == []


def test_a_stored_result_draws_what_needs_no_data(result, stored):
    for picture in ("forest", "ranks", "matrix"):
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
    assert axes.get_xlabel() == "share of wins"


def test_the_matrix_of_some_models_keeps_the_tests_of_all_pairs(result):
    axes = result.plot("matrix", models=["koala-13b", "gpt-4"])
    mesh = np.ma.filled(axes.collections[0].get_array(), np.nan).reshape(2, 2)
    frame = result.t_test_pairwise().result_frame.set_index(["first", "second"])
    row = frame.loc[("gpt-4", "koala-13b")]
    assert row["p_adjusted"] <= 0.05
    np.testing.assert_allclose([mesh[1, 0], mesh[0, 1]], [row["estimate"], -row["estimate"]])
    assert "1 of 28 differences drawn" in axes.get_title().replace("\n", " ")


def test_overlap_draws_the_distribution_of_the_propensities(result):
    axes = result.plot("overlap")
    pi = np.sort(result.steps.first.propensity.cells)
    curve = axes.lines[0]
    np.testing.assert_allclose(curve.get_xdata()[1:-1], pi)
    np.testing.assert_allclose(curve.get_ydata()[1:-1], np.arange(1, len(pi) + 1) / len(pi))
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)
    assert f"{result.diagnostics.propensity_floored:,} (" in axes.get_title()
    assert f"smallest {pi[0]:.3g}" in axes.get_title()


@pytest.mark.long
def test_calibration_draws_the_bins_of_the_labels(result):
    axes = result.plot("calibration")
    labels, mu = result.steps.data.cells.y, result.steps.first.one_step_result.held_out
    categories = list(result.diagnostics.categories)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == categories
    for container, fitted, observed in zip(axes.containers, mu.T, labels.T, strict=True):
        points = container[0]
        # Deciles of the fitted probabilities, by brute force.
        place = (pd.Series(fitted).rank(method="average").to_numpy() - 0.5) / len(fitted)
        means = pd.DataFrame({"x": fitted, "y": observed}).groupby(np.minimum(place * 10, 9.9).astype(int)).mean()
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


# --- groups and large matrices ---------------------------------------------------------------------------------


def test_scores_by_group_have_the_joint_intervals(result):
    groups = result.by("category")
    axes = groups.plot(top=2, alpha=0.1)
    best = result.params.sort_values(ascending=False).index[:2]
    for container, name in zip(axes.containers, groups.groups, strict=True):
        ends = np.array([segment[:, 0] for segment in container[2][0].get_segments()])
        np.testing.assert_allclose(ends, groups.conf_int(0.1).loc[name].loc[best])


# --- the sheet ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_sheet_has_the_important_pictures_and_says_what_is_left_out(result, stored):
    sheet = result.plot("sheet", top=3)
    titles = " ".join(axes.get_title() for axes in sheet.axes)
    for words in ("simultaneous intervals", "rank sets", "Coloured", "Propensities", "Calibration", "influence"):
        assert words in titles
    small = stored.plot("sheet")
    assert "Propensities" not in " ".join(axes.get_title() for axes in small.axes)
    reasons = small.get_supxlabel().replace("\n", " ")
    assert "'overlap': plot('overlap') needs the data and learners of the fit" in reasons
    with pytest.raises(UnknownModelError, match="gpt-5"):
        result.plot("sheet", models=["gpt-5"])
    # One model has no differences: the reason stands in the place of the matrix.
    texts = [text.get_text() for part in result.plot("sheet", top=1).subfigs for text in part.texts]
    assert any("no difference is among" in text.replace("\n", " ") for text in texts)


def test_an_estimate_without_intervals_draws_scores_only(battles):
    options = {"context": "question_id", "estimator": "plugin", "pairs": dr.Pairs(min_labels=1), "rng": 0}
    plain = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, **options)
    with pytest.raises(NoIntervalError):
        plain.plot("ranks")
    assert plain.plot().get_title().startswith("estimates without intervals")
    left_out = plain.plot("sheet").get_supxlabel().replace("\n", " ")
    assert "'ranks': ranks: this result is an estimate without intervals" in left_out

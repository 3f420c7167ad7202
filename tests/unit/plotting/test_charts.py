"""Figures from plain arrays: bins of calibration, and sizes, names and colours that all pictures share."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from dmlrank.exceptions import OptionError
from dmlrank.plotting.charts import (
    NOT_SIGNIFICANT,
    SERIES,
    difference_matrix,
    forest_plot,
    grouped_forest_plot,
    reliability_curve,
    short_names,
    signed_colours,
)

from ...support import row_names

plt = pytest.importorskip("matplotlib.pyplot")


def two_intervals(*estimates, names=("a", "b$")):
    estimate = np.array(estimates)
    return pd.DataFrame({"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.2}, index=names)


def by_group():
    return grouped_forest_plot(
        {"one": two_intervals(1.0, 0.5), "two": two_intervals(0.3, 0.2)}, 0.7, variable="topic", label="score"
    )


def test_an_interval_beyond_the_ends_is_an_arrow_alone():
    rows = pd.DataFrame({"estimate": [0.0, -3.0, 1.0], "low": [-1.0, -4.0, 0.0], "high": [1.0, -2.0, 5.0]}, list("abc"))
    axes = forest_plot(rows, 0.0, label="score", ends=(-1.5, 2.0))
    bars = [segment for segment in axes.containers[0][2][0].get_segments() if len(segment)]
    np.testing.assert_allclose([bar[:, 0] for bar in bars], [[-1.0, 1.0], [0.0, 2.0]])
    arrows = {line.get_marker(): line.get_xydata().tolist() for line in axes.lines if line.get_marker() in ("<", ">")}
    assert arrows == {"<": [[-1.5, 1]], ">": [[2.0, 0]]}


def test_forest_plots_list_names_from_the_top_with_asymmetric_limits():
    for axes in (forest_plot(two_intervals(1.0, 0.5), 0.7, label="score"), by_group()):
        assert row_names(axes) == ["a", r"b\$"]
        ends = [segment[:, 0].tolist() for segment in axes.containers[0][2][0].get_segments()]
        np.testing.assert_allclose(ends, [[0.9, 1.2], [0.4, 0.7]])
        assert 0.7 in [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]


def test_groups_stand_in_the_order_of_the_legend():
    axes = by_group()
    first, second = (container[0].get_ydata() for container in axes.containers)
    assert (first > second).all()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_bins_hold_equal_numbers_of_votes_and_their_means():
    rng = np.random.default_rng(0)
    fitted, labels, votes = rng.random(4000), rng.random(4000), rng.integers(1, 5, size=4000)
    curve = reliability_curve(fitted, labels, votes, alpha=0.05, n_bins=5)
    order = np.argsort(fitted)
    share = (np.cumsum(votes[order]) - votes[order] / 2) / votes.sum()
    parts = [order[(share >= i / 5) & (share < (i + 1) / 5)] for i in range(5)]
    for got, numbers in ((curve.fitted, fitted), (curve.observed, labels)):
        np.testing.assert_allclose(got, [np.average(numbers[part], weights=votes[part]) for part in parts])
    n_votes = np.array([votes[part].sum() for part in parts], float)
    expected = proportion_confint(curve.observed * n_votes, n_votes, method="wilson")
    np.testing.assert_allclose([curve.low, curve.high], expected)


def test_limits_do_not_pass_the_share_where_all_labels_agree():
    for label in (0.0, 1.0):
        curve = reliability_curve(np.linspace(0.1, 0.9, 70), np.full(70, label), np.ones(70, dtype=int), alpha=0.05)
        assert (curve.low <= curve.observed).all()
        assert (curve.high >= curve.observed).all()


def test_equal_probabilities_are_never_in_two_bins():
    fitted = np.repeat([0.1, 0.5, 0.9], [10, 80, 10])
    curve = reliability_curve(fitted, np.zeros(100), np.ones(100, dtype=int), alpha=0.05, n_bins=4)
    np.testing.assert_allclose(curve.fitted, [0.1, 0.5, 0.9])


to_rgb = pytest.importorskip("matplotlib.colors").to_rgb
Text = pytest.importorskip("matplotlib.text").Text


def relative_luminance(colour):
    """The relative luminance of a colour as WCAG 2.1 defines it: 0 for black, 1 for white."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def names(number):
    """Names of models, some of them long."""
    return [f"maker-{j % 7}-{j}{'-instruct-2024-08-05-preview' if j % 5 == 2 else ''}" for j in range(number)]


def intervals(number):
    place = np.arange(number, dtype=float)
    return pd.DataFrame({"estimate": -place, "low": -place - 2, "high": -place + 1}, index=names(number))


def forest(number, ax=None):
    return forest_plot(intervals(number), 0.0, label="score: bt", title="title", ax=ax)


def groups(number, ax=None, of=("coding", "maths", "roleplay", "writing")):
    return grouped_forest_plot(
        dict.fromkeys(of, intervals(number)), 0.0, variable="topic", label="score: bt", title="title", ax=ax
    )


def matrix(number, ax=None):
    gap = np.arange(number)[None, :] - np.arange(number)[:, None].astype(float)
    return difference_matrix(names(number), gap, np.abs(gap) > 3, title="Coloured: the difference is not 0", ax=ax)


def overlaps(texts, renderer):
    """Pairs of texts whose boxes share more than a sliver."""
    # The box of the text alone, without a line that points to its place.
    boxes = [Text.get_window_extent(text, renderer) for text in texts if text.get_visible() and text.get_text()]
    return [
        (a, b)
        for a, b in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.5 and min(a.y1, b.y1) - max(a.y0, b.y0) > 0.5
    ]


def check_names_do_not_overlap(axes):
    figure = axes.figure.figure if hasattr(axes.figure, "figure") else axes.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    for part in figure.axes:
        for labels in (part.get_yticklabels(), part.get_xticklabels(), part.texts if part.lines else []):
            assert overlaps(labels, renderer) == []


@pytest.mark.long
@pytest.mark.parametrize(("draw", "number"), [(forest, 200), (groups, 60), (matrix, 60)])
def test_names_do_not_overlap_where_models_are_many(draw, number):
    check_names_do_not_overlap(draw(number))


@pytest.mark.parametrize("number", [2, 3, 5])
def test_the_square_of_few_models_fills_its_picture(number):
    axes = matrix(number)
    axes.figure.draw_without_rendering()
    width = axes.get_window_extent().width
    assert width > 0.5 * axes.figure.bbox.width


def test_many_rows_show_every_model_once():
    axes = forest(200)
    assert [label.get_text() for label in axes.get_yticklabels()] == short_names(names(200))
    np.testing.assert_array_equal(axes.containers[0][0].get_xdata(), -np.arange(200.0))


@pytest.mark.parametrize("number", [3, 20, 200])
def test_rows_stand_in_one_column(number):
    axes = forest(number)
    assert axes.figure.axes == [axes]
    assert axes.get_title() == "title"


@pytest.mark.parametrize(("draw", "number"), [(forest, 500), (matrix, 301), (groups, 400)])
def test_what_nobody_could_read_is_refused(draw, number):
    with pytest.raises(OptionError):
        draw(number)
    assert plt.get_fignums() == []


def test_a_forest_of_many_groups_is_refused_with_advice():
    with pytest.raises(OptionError, match="coarser column"):
        groups(2, of=[f"group {g}" for g in range(13)])


def test_series_differ_in_more_than_their_hue():
    assert len({look.marker for look in SERIES}) == len(SERIES) == 12
    lightness = [relative_luminance(look.colour) for look in SERIES[:4]]
    # The contrast of two colours that are drawn next to each other, as WCAG defines it.
    contrast = [(max(a, b) + 0.05) / (min(a, b) + 0.05) for a, b in combinations(lightness, 2)]
    assert min(contrast) > 1.4


def test_a_grey_copy_of_the_win_matrix_tells_the_sign_and_what_is_not_significant():
    colours = signed_colours()
    negative = [relative_luminance(colours(x)) for x in np.linspace(0, 0.498, 50)]
    positive = [relative_luminance(colours(x)) for x in np.linspace(0.502, 1, 50)]
    assert min(negative) > max(positive) + 0.05
    assert max(negative) < relative_luminance(NOT_SIGNIFICANT) - 0.05
    assert (np.diff(positive) < 0).all()


def test_long_names_are_shortened_only_where_they_stay_different():
    long = [f"{'x' * 40}-{end}-{'y' * 40}" for end in "ab"]
    assert short_names(long) == long
    assert short_names([*long[:1], "short"])[0] == f"{'x' * 30}…{'y' * 29}"
    assert short_names(["organisation/a-model-of-60-letters-and-its-version-2026-11"])[0][-7:] == "2026-11"


def test_a_name_with_an_underscore_stands_in_the_legend():
    axes = groups(2, of=("_one", "two"))
    assert [text.get_text().lstrip("\u200b") for text in axes.get_legend().get_texts()] == ["_one", "two"]
    axes.figure.draw_without_rendering()

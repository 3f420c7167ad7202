"""Figures from plain arrays, and that nothing outside of plotting/ draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmlrank.plotting.intervals import Bands, Intervals, band_plot, difference_plot, forest_plot, grouped_forest_plot

plt = pytest.importorskip("matplotlib.pyplot")
PACKAGE = Path(__file__).parents[3] / "dmlrank"


def intervals(*estimates, names=("a", "b$")):
    estimate = np.array(estimates)
    return Intervals(names, estimate, estimate - 0.1, estimate + 0.2, "score")


def row_names(axes):
    """Names of the rows from top to bottom."""
    places = axes.get_yticks()
    return [axes.get_yticklabels()[place].get_text() for place in np.argsort(-np.asarray(places))]


def test_forest_plots_list_names_from_the_top_with_asymmetric_limits():
    for axes in (
        forest_plot(intervals(1.0, 0.5), 0.7),
        grouped_forest_plot([intervals(1.0, 0.5), intervals(0.3, 0.2)], ["one", "two"], 0.7, variable="topic"),
    ):
        assert row_names(axes) == ["a", r"b\$"]
        ends = [segment[:, 0].tolist() for segment in axes.containers[0][2][0].get_segments()]
        np.testing.assert_allclose(ends, [[0.9, 1.2], [0.4, 0.7]])
        assert 0.7 in [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]


def test_groups_stand_in_the_order_of_the_legend():
    axes = grouped_forest_plot([intervals(1.0, 0.5), intervals(0.3, 0.2)], ["one", "two"], None, variable="topic")
    first, second = (container[0].get_ydata() for container in axes.containers)
    assert (first > second).all()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_a_limit_that_is_missing_ends_at_the_edge_of_the_figure():
    one_sided = Intervals(["a", "b"], np.array([1.0, 0.5]), np.array([0.9, 0.1]), np.full(2, np.inf), "difference")
    axes = difference_plot(one_sided, np.array([True, False]), [0.2])
    ends = np.array(axes.collections[0].get_segments())[:, :, 0]
    np.testing.assert_allclose(ends, [[0.9, axes.get_xlim()[1]], [0.1, axes.get_xlim()[1]]])


def test_bands_over_words_are_intervals():
    numbers = np.array([[1.0, 2.0], [0.0, 0.5]])
    axes = band_plot(Bands(["a", "b"], "topic", ["code", "maths"], numbers, numbers - 1, numbers + 1), "score", "title")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["code", "maths"]
    assert len(axes.containers) == 2
    smooth = band_plot(Bands(["a", "b"], "length", [1, 2], numbers, numbers - 1, numbers + 1), "score", "title")
    assert len(smooth.collections) == 2
    assert not smooth.containers

"""Figures from plain arrays, and that nothing outside of plotting/ draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dmlrank.plotting.intervals import band_plot, difference_plot, forest_plot, grouped_forest_plot

plt = pytest.importorskip("matplotlib.pyplot")
PACKAGE = Path(__file__).parents[3] / "dmlrank"


def intervals(*estimates, names=("a", "b$")):
    estimate = np.array(estimates)
    return pd.DataFrame({"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.2}, index=names)


def by_group():
    return grouped_forest_plot(
        {"one": intervals(1.0, 0.5), "two": intervals(0.3, 0.2)}, 0.7, variable="topic", label="score"
    )


def row_names(axes):
    """Names of the rows from top to bottom."""
    places = axes.get_yticks()
    return [axes.get_yticklabels()[place].get_text() for place in np.argsort(-np.asarray(places))]


def test_forest_plots_list_names_from_the_top_with_asymmetric_limits():
    for axes in (forest_plot(intervals(1.0, 0.5), 0.7, label="score"), by_group()):
        assert row_names(axes) == ["a", r"b\$"]
        ends = [segment[:, 0].tolist() for segment in axes.containers[0][2][0].get_segments()]
        np.testing.assert_allclose(ends, [[0.9, 1.2], [0.4, 0.7]])
        assert 0.7 in [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]


def test_groups_stand_in_the_order_of_the_legend():
    axes = by_group()
    first, second = (container[0].get_ydata() for container in axes.containers)
    assert (first > second).all()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_a_limit_that_is_missing_ends_at_the_edge_of_the_figure():
    one_sided = pd.DataFrame(
        {"estimate": [1.0, 0.5], "low": [0.9, 0.1], "high": np.inf, "rejected": [True, False]}, index=["a", "b"]
    )
    axes = difference_plot(one_sided, [0.2], label="difference")
    ends = np.array(axes.collections[0].get_segments())[:, :, 0]
    np.testing.assert_allclose(ends, [[0.9, axes.get_xlim()[1]], [0.1, axes.get_xlim()[1]]])


def test_bands_over_words_are_intervals():
    def bands(variable, values):
        models = {"a": intervals(1.0, 2.0, names=values), "b": intervals(0.0, 0.5, names=values)}
        return band_plot(models, variable=variable, label="score", title="title")

    axes = bands("topic", ["code", "maths"])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["code", "maths"]
    assert len(axes.containers) == 2
    smooth = bands("length", [1, 2])
    assert len(smooth.collections) == 2
    assert not smooth.containers

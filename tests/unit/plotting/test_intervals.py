"""Figures from plain arrays."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.plotting.intervals import forest_plot, grouped_forest_plot

plt = pytest.importorskip("matplotlib.pyplot")


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

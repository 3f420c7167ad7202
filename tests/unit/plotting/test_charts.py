"""Figures from plain arrays; bins of calibration against statsmodels."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from dmlrank.plotting.charts import forest_plot, grouped_forest_plot, reliability_curve

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

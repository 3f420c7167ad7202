"""A few seeds of the study of scores at equal style."""

from __future__ import annotations

import pandas as pd


def test_the_parametric_route_is_biased_where_style_depends_on_the_prompt(load_benchmark):
    study = load_benchmark("style")
    rows = pd.DataFrame([row for seed in range(4) for row in study.replicate("parametric", "curved", seed)])
    slope = rows.query("what == 'log_length'")
    # Over 146 seeds the mean is -0.19, with a standard deviation of 0.07.
    assert slope["bias"].mean() < -0.08
    assert slope["covers"].mean() < 1

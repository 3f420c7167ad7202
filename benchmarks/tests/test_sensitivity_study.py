"""A small version of the study of bounds: they cover the truth, and the extreme law attains them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("sensitivity")


def test_bounds_cover_and_the_extreme_law_attains_them(study):
    rows = pd.concat([study.replicate(2.0, seed, n=500, functionals=("borda",)) for seed in range(4)])
    table = study.summarise(rows).set_index("law")
    # Four seeds at 95 %: fewer than three that cover have a probability of about one in seventy for each law.
    assert (table["joint_coverage"] >= 3 / 4).all()
    assert table.loc["extreme", "joint_coverage_at_one"] <= 1 / 4
    error = rows[(rows["law"] == "extreme") & (rows["hypothesis"] == study.CONTRASTS[0])]
    z = (error["upper"] - error["truth"]).mean() / (error["upper_error"].mean() / np.sqrt(len(error)))
    assert abs(z) < 4


def test_the_laws_of_the_study_keep_to_gamma(study):
    node = np.linspace(-2, 2, 5)
    mu = study.voters(node)
    for law in study.LAWS:
        tilted = study.tilted(mu, study.favoured(node, law), 1.25)
        off = ~np.eye(4, dtype=bool)
        np.testing.assert_allclose(tilted[:, off].sum(axis=-1), 1)
        ratio = (tilted[:, off] / mu[:, off]).ravel()
        assert ratio.min() >= 1 / 1.25 - 1e-12
        assert ratio.max() <= 1.25 + 1e-12
        # The item shown first in one order is the other item in the other order.
        np.testing.assert_allclose(tilted[:, 0, 1, 0], tilted[:, 1, 0, 1])

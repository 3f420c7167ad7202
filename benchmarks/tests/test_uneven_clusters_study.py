"""The study of clusters of unequal size, in a small seeded version."""

from __future__ import annotations

import pytest


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_effective_clusters_widen_intervals_where_three_users_have_most_votes(load_benchmark):
    study = load_benchmark("uneven_clusters")
    by_number, fourth_powers, effective = study.cell("three have 45 %", 100, 6, "plain", samples=40)
    assert by_number["all pairs"] < 0.9 < effective["all pairs"]
    assert effective["df"] < fourth_powers["df"] < by_number["df"]
    assert effective["size of the joint test"] < 0.1 < by_number["size of the joint test"]
    rare = study.cell("equal", 100, 6, "rare", samples=10)[-1]
    assert rare["least df"] < 20 < rare["df"]

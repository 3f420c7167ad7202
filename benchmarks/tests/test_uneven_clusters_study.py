"""The study of clusters of unequal size, in a small seeded version."""

from __future__ import annotations

import pytest


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_effective_clusters_widen_intervals_where_three_users_have_most_votes(load_benchmark):
    study = load_benchmark("uneven_clusters")
    by_number, effective = study.cell("three have 45 %", 100, 0.1, 6, False, samples=40)
    assert by_number["all pairs"] < 0.9 < effective["all pairs"]
    assert effective["df"] < 15
    assert effective["size of the joint test"] < 0.1 < by_number["size of the joint test"]

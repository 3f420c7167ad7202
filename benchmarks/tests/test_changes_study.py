"""The study of changes between two samples, in a small seeded version."""

from __future__ import annotations

import numpy as np


def test_simultaneous_intervals_of_changes_cover_together(load_benchmark):
    """Twelve pairs of months of which two models change."""
    study = load_benchmark("changes")
    covered = np.sum([study.covers(study.independent, "borda", 400, seed)[:2] for seed in range(12)], axis=0)
    # With 95 % coverage, fewer than 9 of 12 have a probability of 0.2 %.
    assert covered.min() >= 9

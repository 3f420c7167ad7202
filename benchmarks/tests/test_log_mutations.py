"""A small version of the study of logs with values of wrong types."""

from __future__ import annotations

from benchmarks import log_mutations


def test_no_mutation_of_a_log_ends_in_a_foreign_exception_or_a_name_that_is_none():
    counts = log_mutations.run(400, seed=7)
    assert set(counts) == {"read", "refused"}
    assert min(counts.values()) > 50

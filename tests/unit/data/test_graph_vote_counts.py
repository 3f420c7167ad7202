"""Votes by model, used and left out, and rules that use more."""

import itertools

import numpy as np
import pytest

from dmlrank.data.graph import Graph, PairRule, VoteCounts, losses_clause


def test_counts_are_those_of_a_loop_over_votes():
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 9, size=(5, 5))
    np.fill_diagonal(votes, 0)
    graph = Graph.observed(votes, 4)
    counts = VoteCounts.of(votes, graph)
    used, total = np.zeros(5, int), np.zeros(5, int)
    for j, k in np.ndindex(5, 5):
        for model in (j, k):
            total[model] += votes[j, k]
            used[model] += votes[j, k] * graph.edges[j, k]
    np.testing.assert_array_equal(counts.used, used)
    np.testing.assert_array_equal(counts.total, total)
    assert counts.n_total == votes.sum()
    assert counts.n_used == votes[graph.edges].sum()


@pytest.mark.parametrize(
    ("used", "total", "most", "losing"),
    [
        ([95, 95], [100, 100], True, []),
        ([94, 94], [100, 100], False, []),
        ([980, 980, 80, 80], [980, 1000, 100, 80], True, []),
        ([980, 980, 79, 81], [980, 1000, 100, 81], False, [2]),
    ],
)
def test_a_twentieth_of_all_and_a_fifth_of_a_model_may_be_left_out(used, total, most, losing):
    counts = VoteCounts(np.array(used), np.array(total))
    assert counts.uses_most == most
    assert counts.models_losing_many.tolist() == losing


def test_many_models_are_counted_and_not_all_named():
    counts = VoteCounts(np.full(8, 10), np.full(8, 20))
    text = losses_clause(counts, list("abcdefgh"), most_named=2)
    assert text == (
        ", among them 10 of the 20 votes of 'a', 10 of the 20 votes of 'b' and more "
        "than a fifth of the votes of 6 further models"
    )


@pytest.mark.parametrize("rule", [PairRule(True, 10), PairRule(False, 10), PairRule(True, 2), PairRule(False, 1)])
@pytest.mark.parametrize("ignored", [True, False])
def test_looser_rules_compare_more_pairs_one_after_the_other(rule, ignored):
    counts = np.random.default_rng(1).poisson(4, size=(8, 8))
    edges = [r.graph(counts).edges for r in (rule, *rule.looser(ignored))]
    assert all((fewer <= more).all() for fewer, more in itertools.pairwise(edges))
    assert ignored or all(r.position_bias == rule.position_bias for r in rule.looser(ignored))

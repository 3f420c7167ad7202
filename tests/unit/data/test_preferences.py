"""Votes averaged over cells, against loops; restricting to some items."""

import numpy as np
import pytest

from dmlrank.data.preferences import gather_cells


def cells_by_loop(context, first, second, y):
    votes = {}
    for i, j, k, row in zip(context, first, second, y, strict=True):
        votes.setdefault((i, j, k), []).append(row)
    return {place: (np.mean(rows, axis=0), len(rows)) for place, rows in sorted(votes.items())}


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_gathered_cells_agree_with_a_loop(n_categories):
    rng = np.random.default_rng(n_categories)
    context, first, second = rng.integers(6, size=90), rng.integers(3, size=90), rng.integers(3, 6, size=90)
    y = np.eye(n_categories)[rng.integers(n_categories, size=90)]
    cells, vote_cell = gather_cells(context, first, second, y)
    expected = cells_by_loop(context, first, second, y)
    assert list(zip(cells.context, cells.first, cells.second, strict=True)) == list(expected)
    np.testing.assert_allclose(cells.y, [mean for mean, _ in expected.values()])
    np.testing.assert_array_equal(cells.n_votes, [count for _, count in expected.values()])
    np.testing.assert_array_equal(cells.context[vote_cell], context)
    np.testing.assert_array_equal(cells.first[vote_cell], first)
    np.testing.assert_array_equal(cells.second[vote_cell], second)


def test_one_vote_per_context_in_order_is_not_sorted_and_says_the_same():
    rng = np.random.default_rng(1)
    context, first = np.arange(40) * 3, rng.integers(3, size=40)
    second, y = (first + 1) % 3, rng.dirichlet(np.ones(3), size=40)
    short, places = gather_cells(context, first, second, y)
    shuffled = rng.permutation(40)
    sorted_again, where = gather_cells(context[shuffled], first[shuffled], second[shuffled], y[shuffled])
    for name in short.__slots__:
        np.testing.assert_array_equal(getattr(short, name), getattr(sorted_again, name))
    np.testing.assert_array_equal(places, np.arange(40))
    np.testing.assert_array_equal(where, shuffled)


def test_counts_agree_with_a_loop(read, many_votes):
    data = read(many_votes, context=["question"])
    contexts, votes = np.zeros((4, 4), dtype=int), np.zeros((4, 4), dtype=int)
    for j, a in enumerate(data.items):
        for k, b in enumerate(data.items):
            rows = many_votes[(many_votes["a"] == a) & (many_votes["b"] == b)]
            contexts[j, k], votes[j, k] = rows["question"].nunique(), len(rows)
    np.testing.assert_array_equal(data.pair_counts(), contexts)
    np.testing.assert_array_equal(data.pair_votes(), votes)
    assert (data.n_votes, data.n_contexts, data.n_items, data.n_categories) == (200, 60, 4, 3)
    assert len(data.cells) == contexts.sum()


def test_restricting_is_reading_without_the_others_labels(read, many_votes):
    kept = np.array([0, 2, 3])
    restricted = read(many_votes, "length", context=["question"]).restrict(kept)
    outside = (many_votes[["a", "b"]] == "m1").any(axis=1)
    silent = many_votes.assign(winner=many_votes["winner"].mask(outside), a=many_votes["a"].mask(outside))
    silent["b"] = silent["b"].mask(outside)
    expected = read(silent, "length", context=["question"])
    assert restricted.items == expected.items == ("m0", "m2", "m3")
    for name in ("context", "first", "second", "y", "n_votes"):
        np.testing.assert_array_equal(getattr(restricted.cells, name), getattr(expected.cells, name))
    for name in ("vote_cell", "vote_y", "vote_row", "x", "context_ids", "row_context"):
        np.testing.assert_array_equal(getattr(restricted, name), getattr(expected, name))
    assert restricted.n_unlabelled == expected.n_unlabelled
    assert restricted.n_contexts == 60


def test_a_category_that_only_the_others_had_is_left_out(read, many_votes):
    with_m1 = (many_votes[["a", "b"]] == "m1").any(axis=1)
    winner = many_votes["winner"].where(with_m1 | (many_votes["winner"] != "tie"), "model_b")
    data = read(many_votes.assign(winner=winner), context=["question"])
    restricted = data.restrict(np.array([0, 2, 3]))
    assert (data.categories, restricted.categories) == (("first", "second", "tie"), ("first", "second"))
    np.testing.assert_array_equal(restricted.cells.y.sum(axis=1), 1)
    assert restricted.vote_y.shape == (restricted.n_votes, 2)
    assert data.restrict(np.array([0, 1])).categories == data.categories


def test_restricting_can_put_items_into_another_order(read, many_votes):
    data = read(many_votes, context=["question"])
    order = np.array([3, 0, 2, 1])
    turned = data.restrict(order)
    assert turned.items == ("m3", "m0", "m2", "m1")
    np.testing.assert_array_equal(turned.pair_counts(), data.pair_counts()[np.ix_(order, order)])


def test_unlabelled_contexts_are_counted(read, votes):
    silent = votes.assign(winner=votes["winner"].mask(votes["question"].isin(["q1", "q5"])))
    assert read(silent, context=["question"]).n_unlabelled == 2
    assert read(votes, context=["question"]).n_unlabelled == 0

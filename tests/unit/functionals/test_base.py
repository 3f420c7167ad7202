"""Properties that every functional has, and the weights, graphs and gauges that functionals are made of."""

import itertools

import numpy as np
import pytest

from dmlrank.exceptions import GraphError, NuisanceError, OptionError, OptionTypeError
from dmlrank.functionals import (
    FUNCTIONALS,
    Borda,
    BradleyTerry,
    CategoryWeights,
    Dominance,
    Gauge,
    Graph,
    RankCentrality,
    SoftMin,
    named,
)
from dmlrank.functionals.base import edge_matrix, symmetric_metric

STEP = 1e-6

# Every functional with a name, without edge weights, and variants.
KINDS = {
    name: lambda weights, graph, edge_weights, kind=kind: kind(weights, graph) for name, kind in FUNCTIONALS.items()
} | {
    "borda-weighted": Borda,
    "bt-weighted": BradleyTerry,
    "rank_centrality-rate": lambda weights, graph, edge_weights: RankCentrality(weights, graph, walk="rate"),
    "dominance-even": lambda weights, graph, edge_weights: Dominance(weights, graph, tau=0.5, sharpness=8),
    "softmin-flat": lambda weights, graph, edge_weights: SoftMin(weights, graph, sharpness=8),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def cases(kind, weights, draw_graph, draw_edge_weights):
    """The functional on random connected graphs of 2 to 8 items, where it exists: (rng, functional, K)."""

    def draw(seed, sizes=(2, 3, 5, 8), extra=0.3):
        rng = np.random.default_rng(seed)
        for n_items in sizes:
            if n_items > 2 or kind is not KINDS["rank_centrality"]:
                functional = kind(weights, draw_graph(rng, n_items, extra), draw_edge_weights(rng, n_items))
                yield rng, functional, n_items

    return draw


def jacobian(functional, mu, j, k):
    """Derivative of all scores with respect to each category of one pair, (K, C), in the first context."""
    columns = []
    for category in range(mu.shape[-1]):
        unit = np.zeros_like(mu[:1])
        unit[0, j, k, category] = 1.0
        columns.append(functional.derivative(mu[:1], unit)[0])
    return np.stack(columns, axis=1)


def singular_values(scores):
    """Singular values of a root of the covariance of the scores."""
    return np.linalg.svd(scores - scores.mean(axis=0), compute_uv=False) / np.sqrt(len(scores))


@pytest.mark.parametrize("extra", [0.0, 0.3], ids=["tree", "some"])
def test_derivative_agrees_with_central_differences(cases, weights, draw_mu, extra):
    for rng, functional, n_items in cases(0, extra=extra):
        mu, other = (draw_mu(rng, 4, n_items, weights.n_categories) for _ in range(2))
        delta = other - mu
        expected = (functional.value(mu + STEP * delta) - functional.value(mu - STEP * delta)) / (2 * STEP)
        np.testing.assert_allclose(functional.derivative(mu, delta), expected, rtol=0, atol=1e-7)


def test_value_and_derivative_returns_both(cases, weights, draw_mu):
    for rng, functional, n_items in cases(1):
        mu, delta = (draw_mu(rng, 3, n_items, weights.n_categories) for _ in range(2))
        value, derivative = functional.value_and_derivative(mu, delta)
        np.testing.assert_allclose(value, functional.value(mu), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(derivative, functional.derivative(mu, delta), rtol=1e-10, atol=1e-13)


def test_information_agrees_with_the_jacobian_written_out(cases, weights, draw_mu):
    for rng, functional, n_items in cases(2, sizes=(2, 4)):
        mu = draw_mu(rng, 2, n_items, weights.n_categories)
        root = rng.normal(size=(n_items, n_items))
        metric = root @ root.T
        information, plain = functional.information(mu, metric), functional.information(mu)
        assert information.shape == (2, n_items, n_items)
        for j, k in itertools.product(range(n_items), repeat=2):
            rows, p = jacobian(functional, mu, j, k), mu[0, j, k]
            covariance = rows @ (np.diag(p) - np.outer(p, p)) @ rows.T
            np.testing.assert_allclose(information[0, j, k], np.trace(metric @ covariance), rtol=1e-9, atol=1e-15)
            np.testing.assert_allclose(plain[0, j, k], np.trace(covariance), rtol=1e-9, atol=1e-15)


def test_accumulate_agrees_with_the_jacobian_written_out(cases, weights, draw_mu):
    for rng, functional, n_items in cases(9, sizes=(2, 4)):
        mu = draw_mu(rng, 2, n_items, weights.n_categories)
        amount = rng.uniform(1, 5, size=(2, n_items, n_items))
        expected = np.zeros((n_items, n_items))
        for i, j, k in itertools.product(range(2), range(n_items), range(n_items)):
            rows, p = jacobian(functional, mu[i : i + 1], j, k), mu[i, j, k]
            expected += amount[i, j, k] * rows @ (np.diag(p) - np.outer(p, p)) @ rows.T
        np.testing.assert_allclose(functional.accumulate(mu, amount), expected, rtol=1e-9, atol=1e-13)


def test_probabilities_off_the_graph_are_not_looked_at(cases, weights, draw_mu):
    for rng, functional, n_items in cases(4):
        mu, delta = (draw_mu(rng, 2, n_items, weights.n_categories) for _ in range(2))
        blank, blank_delta = (np.where(functional.graph.edges[:, :, None], array, 0.0) for array in (mu, delta))
        np.testing.assert_array_equal(functional.value(mu), functional.value(blank))
        np.testing.assert_array_equal(functional.derivative(mu, delta), functional.derivative(blank, blank_delta))
        np.testing.assert_array_equal(functional.information(mu), functional.information(blank))


def test_renaming_items_renames_scores(kind, weights, draw_mu, draw_graph, draw_edge_weights):
    rng = np.random.default_rng(5)
    for n_items in (3, 6):
        graph, edge_weights = draw_graph(rng, n_items), draw_edge_weights(rng, n_items)
        mu, delta = (draw_mu(rng, 3, n_items, weights.n_categories) for _ in range(2))
        order = rng.permutation(n_items)
        cells = np.ix_(order, order)
        functional, renamed = (
            kind(weights, graph, edge_weights),
            kind(weights, Graph(graph.edges[cells]), edge_weights[cells]),
        )
        moved, moved_delta = (array[:, order][:, :, order] for array in (mu, delta))
        expected = functional.value(mu)[:, order]
        np.testing.assert_allclose(renamed.value(moved), expected, rtol=1e-10, atol=1e-13)
        expected = functional.derivative(mu, delta)[:, order]
        np.testing.assert_allclose(renamed.derivative(moved, moved_delta), expected, rtol=1e-9, atol=1e-12)
        expected = functional.information(mu)[:, order][:, :, order]
        np.testing.assert_allclose(renamed.information(moved), expected, rtol=1e-9, atol=1e-14)


def test_contexts_do_not_see_each_other(cases, weights, draw_mu):
    for rng, functional, n_items in cases(6, sizes=(4,)):
        mu = draw_mu(rng, 5, n_items, weights.n_categories)
        np.testing.assert_allclose(functional.value(mu)[3:4], functional.value(mu[3:4]), rtol=1e-12)
        np.testing.assert_allclose(functional.information(mu)[3:4], functional.information(mu[3:4]), rtol=1e-9)


def test_no_contexts_give_no_scores(cases, weights):
    for _, functional, n_items in cases(7, sizes=(4,)):
        none = np.empty((0, n_items, n_items, weights.n_categories))
        assert [part.shape for part in functional.value_and_derivative(none, none)] == [(0, n_items)] * 2
        assert functional.value(none).shape == (0, n_items)
        assert functional.information(none).shape == (0, n_items, n_items)


@pytest.mark.parametrize("extra", [0.0, 0.15], ids=["tree", "sparse"])
def test_the_gauge_is_exactly_what_the_scores_cannot_do(cases, weights, draw_mu, extra):
    for seed in range(2):
        for rng, functional, n_items in cases(10 + seed, sizes=(2, 3, 5, 6), extra=extra):
            scores = functional.value(draw_mu(rng, 60, n_items, weights.n_categories))
            basis = functional.gauge(n_items).basis
            np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-14)
            assert np.ptp(scores @ basis.T, axis=0).max(initial=0.0) < 1e-12
            assert (singular_values(scores) > 1e-9).sum() == n_items - len(basis)


def test_a_label_moves_no_score_along_the_gauge_and_every_other_way(cases, weights, draw_mu):
    # Without features the covariance is that of the correction alone, at one mu: it must have the same rank.
    for rng, functional, n_items in cases(20, sizes=(3, 4, 6), extra=0.1):
        mu = np.repeat(draw_mu(rng, 1, n_items, weights.n_categories), 80, axis=0)
        delta = rng.normal(size=mu.shape)
        moves = functional.derivative(mu, delta - delta.mean(axis=-1, keepdims=True))
        basis = functional.gauge(n_items).basis
        np.testing.assert_allclose(moves @ basis.T, 0, atol=1e-11)
        # A pair moves one number, or two where its items share no fixed total; a tree has fewer pairs than items.
        n_numbers = functional.graph.n_edges * (1 if weights.shared else 2)
        assert (singular_values(moves) > 1e-9).sum() == min(n_items - len(basis), n_numbers)


def test_bind_fills_in_only_what_is_unset(kind, weights):
    graph, other = Graph.all_pairs(3), Graph.of([(0, 1), (1, 2)], 3)
    functional = kind(None, None, None)
    bound = functional.bind(weights, graph)
    assert (functional.weights, functional.graph) == (None, None)
    assert (bound.weights, bound.graph) == (weights, graph)
    again = bound.bind(CategoryWeights((1.0, 0.2), (0.0, 0.8)), other)
    assert (again.weights, again.graph) == (weights, graph)
    assert type(again) is type(functional)


@pytest.mark.parametrize(
    "functional", [Borda(), BradleyTerry(), RankCentrality(), Dominance(), SoftMin()], ids=lambda f: f.name
)
def test_weights_are_asked_for(functional):
    mu = np.full((1, 3, 3, 2), 0.5)
    for call in (functional.value, functional.information, lambda mu: functional.value_and_derivative(mu, mu)):
        with pytest.raises(OptionError):
            call(mu)


def test_graphs_that_do_not_fit_are_refused(kind, weights, draw_mu):
    mu = draw_mu(np.random.default_rng(22), 1, 4, weights.n_categories)
    edge_weights = np.ones((4, 4))
    with pytest.raises(GraphError):
        kind(weights, Graph.all_pairs(3), edge_weights).value(mu)
    split = kind(weights, Graph.of([(0, 2), (1, 3)], 4), edge_weights)
    for call in (lambda: split.value(mu), lambda: split.gauge(4)):
        with pytest.raises(GraphError):
            call()
    with pytest.raises(GraphError):
        kind(weights, None, None).gauge(1)


@pytest.mark.parametrize("shape", [(3, 3, 3, 9), (3, 3, 4, 2), (3, 3, 2)])
def test_probabilities_of_another_shape_are_refused(shape):
    with pytest.raises(NuisanceError):
        CategoryWeights.half(2).scores(np.ones(shape))


def test_functionals_by_name():
    assert {name: type(named(name)) for name in ("borda", "bt", "rank_centrality")} == {
        "borda": Borda,
        "bt": BradleyTerry,
        "rank_centrality": RankCentrality,
    }
    assert [named(name).interior for name in ("borda", "bt", "rank_centrality")] == [False, True, True]
    with pytest.raises(OptionError, match="borda"):
        named("brda")


@pytest.mark.parametrize(
    ("meanings", "kind", "first", "second"),
    [
        (("first", "second", "both_good", "both_bad", "tie"), "half", (1, 0, 0.5, 0.5, 0.5), (0, 1, 0.5, 0.5, 0.5)),
        (("first", "second", "both_bad"), "half", (1, 0, 0.5), (0, 1, 0.5)),
        (("first", "second", "both_bad"), "paper", (1, 0, 0), (0, 1, 0)),
        (("first", "tie"), "half", (1, 0.5), (0, 0.5)),
    ],
)
def test_weights_by_meaning(meanings, kind, first, second):
    weights = CategoryWeights.for_categories(meanings, kind)
    assert (weights.first, weights.second) == (first, second)


def test_the_papers_weights():
    # arXiv 2601.21816, app:weighted_gars, "Default weights for common label semantics".
    assert CategoryWeights.paper(2) == CategoryWeights((1, 0), (0, 1))
    assert CategoryWeights.paper(3) == CategoryWeights((1, 0, 0.5), (0, 1, 0.5))
    assert CategoryWeights.paper(4) == CategoryWeights((1, 0, 1, 0), (0, 1, 1, 0))
    assert CategoryWeights.paper(5) == CategoryWeights((1, 0, 1, 0, 0.5), (0, 1, 1, 0, 0.5))


@pytest.mark.parametrize(
    ("weights", "shared", "total", "mirrored"),
    [
        (CategoryWeights.half(5), True, 1.0, True),
        (CategoryWeights.paper(4), False, None, True),
        (CategoryWeights((1, 0, 0.7), (0, 1, 0.3)), True, 1.0, False),
        (CategoryWeights((0.5, 0.0, 0.25), (0.0, 0.5, 0.25)), True, 0.5, True),
        (CategoryWeights((1, 0.5), (0, 0.5)), True, 1.0, False),
    ],
)
def test_what_weights_have_in_common(weights, shared, total, mirrored):
    assert (weights.shared, weights.total, weights.mirrored) == (shared, total, mirrored)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, 0, 0.5), (0, 1)),
        ((1,), (0,)),
        ((1, -0.1), (0, 1)),
        ((1, np.nan), (0, 1)),
        ((0.5, 0.5), (0.5, 0.5)),
        ((0.9, 0.4), (0.6, 0.1)),
    ],
)
def test_weights_that_make_no_sense_are_refused(first, second):
    with pytest.raises(OptionError):
        CategoryWeights(first, second)


def test_numbers_and_words_for_weights_are_checked():
    with pytest.raises(OptionError):
        CategoryWeights.paper(6)
    with pytest.raises(OptionError):
        CategoryWeights.half(1)
    with pytest.raises(OptionError, match="half"):
        CategoryWeights.for_categories(("first", "second"), "halves")
    with pytest.raises(OptionError, match="both_good"):
        CategoryWeights.for_categories(("first", "second", "both_god"))
    with pytest.raises(OptionError):
        CategoryWeights.for_categories(("first", "second", "tie", "tie"))


def test_moments_of_a_label_agree_with_sums_over_categories(weights, draw_mu):
    mu = draw_mu(np.random.default_rng(23), 2, 3, weights.n_categories)
    first, second = weights.scores(mu)
    var_first, var_second, covariance = weights.covariances(mu)
    a, b = np.array(weights.first), np.array(weights.second)
    for i, j, k in [(0, 0, 1), (1, 2, 0)]:
        p = mu[i, j, k]
        mean_a, mean_b = sum(p * a), sum(p * b)
        assert first[i, j, k] == pytest.approx(mean_a)
        assert second[i, j, k] == pytest.approx(mean_b)
        assert var_first[i, j, k] == pytest.approx(sum(p * (a - mean_a) ** 2))
        assert var_second[i, j, k] == pytest.approx(sum(p * (b - mean_b) ** 2))
        assert covariance[i, j, k] == pytest.approx(sum(p * (a - mean_a) * (b - mean_b)))
        mean_b_swapped = sum(mu[i, k, j] * b)
        assert weights.symmetric(mu)[i, j, k] == pytest.approx((mean_a + mean_b_swapped) / 2)


def test_a_gauge_is_orthonormal_and_knows_fixed_scores():
    gauge = Gauge.spanned_by([[1.0, 1.0, 1.0], [2.0, -1.0, -1.0]], "a star")
    np.testing.assert_allclose(gauge.basis @ gauge.basis.T, np.eye(2), atol=1e-15)
    assert (gauge.basis[0] > 0).all()
    np.testing.assert_array_equal(gauge.fixed, [True, False, False])
    assert Gauge.none(4).basis.shape == (0, 4)
    assert not Gauge.none(4).fixed.any()


@pytest.mark.parametrize(
    "edge_weights", [np.ones((3, 2)), [[0, 1, 2], [1, 0, 1], [1, 1, 0]], [[0, -1], [-1, 0]], [[0, np.nan], [np.nan, 0]]]
)
@pytest.mark.parametrize("functional", [Borda, BradleyTerry])
def test_edge_weights_that_make_no_sense_are_refused(functional, edge_weights):
    with pytest.raises(OptionError):
        functional(edge_weights=edge_weights)


@pytest.mark.parametrize("functional", [Borda, BradleyTerry])
def test_edge_weights_are_bound_where_unset_and_kept_as_they_were(functional):
    edge_weights = np.ones((3, 3))
    bound = functional().bind(CategoryWeights.half(2), Graph.all_pairs(3), edge_weights)
    edge_weights[0, 1] = 7.0
    np.testing.assert_array_equal(bound.edge_weights, np.ones((3, 3)))
    np.testing.assert_array_equal(bound.bind(edge_weights=5 * np.ones((3, 3))).edge_weights, np.ones((3, 3)))


def test_edge_weights_count_on_the_graph_only():
    graph = Graph.of([(0, 1), (1, 2)], 3)
    matrix = edge_matrix(graph, np.array([[9.0, 2.0, 5.0], [2.0, 9.0, 4.0], [5.0, 4.0, 9.0]]), 3)
    np.testing.assert_array_equal(matrix, [[0, 0.5, 0], [0.5, 0, 1], [0, 1, 0]])
    with pytest.raises(OptionError):
        edge_matrix(graph, np.ones((2, 2)), 3)
    with pytest.raises(GraphError):
        edge_matrix(graph, np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 3)


def test_a_metric_counts_by_its_symmetric_part():
    np.testing.assert_array_equal(symmetric_metric(np.array([[1.0, 2.0], [0.0, 3.0]]), 2), [[1, 1], [1, 3]])
    with pytest.raises(OptionError):
        symmetric_metric(np.eye(2), 3)


@pytest.mark.parametrize("apart", [(1, 2), ["a"], "x", [[True, False]]])
@pytest.mark.parametrize("kind", [Borda, BradleyTerry])
def test_items_apart_are_true_or_false_for_each(kind, apart):
    with pytest.raises(OptionTypeError, match="allowed: a truth value for each item"):
        kind(apart=apart)

"""Bradley-Terry scores against least squares on the edges, and what the paper's edge log-odds lack."""

import math

import numpy as np
import pytest

from dmlrank.exceptions import NuisanceError, OptionError
from dmlrank.functionals import BradleyTerry, CategoryWeights


def log_odds(weight, p):
    share = sum(w * q for w, q in zip(weight, p, strict=True))
    return math.log(share / (1 - share))


def projected(weights, graph, edge_weights, mu):
    """Least squares over the edges of one context, (K,), smallest norm."""
    rows, targets = [], []
    for j, k in np.argwhere(np.triu(graph.edges)):
        edge = np.zeros(graph.n_items)
        edge[j], edge[k] = 1.0, -1.0
        target = log_odds(weights.first, mu[j, k]) + log_odds(weights.second, mu[k, j])
        target -= log_odds(weights.second, mu[j, k]) + log_odds(weights.first, mu[k, j])
        rows.append(math.sqrt(edge_weights[j, k]) * edge)
        targets.append(math.sqrt(edge_weights[j, k]) * target / 4)
    return np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]


def test_scores_are_the_least_squares_fit_of_the_log_odds(weights, draw_mu, draw_graph, draw_edge_weights):
    rng = np.random.default_rng(0)
    for n_items in (2, 4, 7):
        graph, edge_weights = draw_graph(rng, n_items), draw_edge_weights(rng, n_items)
        mu = draw_mu(rng, 3, n_items, weights.n_categories)
        for option, expected_weights in ((None, np.ones((n_items, n_items))), (edge_weights, edge_weights)):
            scores = BradleyTerry(weights, graph, option).value(mu)
            expected = [projected(weights, graph, expected_weights, context) for context in mu]
            np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_categories", [2, 3])
def test_where_totals_are_one_the_scores_are_the_papers(draw_mu, n_categories):
    # [P eq:weighted_bt_logit]: for j < k half of logit s1_jk + logit s2_kj; on all pairs the row mean over K items.
    weights = CategoryWeights.paper(n_categories)
    mu = draw_mu(np.random.default_rng(1), 1, 5, n_categories)[0]
    edge = np.zeros((5, 5))
    for j in range(5):
        for k in range(j + 1, 5):
            edge[j, k] = (log_odds(weights.first, mu[j, k]) + log_odds(weights.second, mu[k, j])) / 2
            edge[k, j] = -edge[j, k]
    np.testing.assert_allclose(BradleyTerry(weights).value(mu[None])[0], edge.sum(axis=1) / 5, atol=1e-13)


def test_a_bradley_terry_model_is_recovered_on_any_graph(draw_graph, draw_edge_weights, strengths_to_mu):
    rng = np.random.default_rng(3)
    for n_items in (2, 5, 8):
        truth = rng.normal(size=n_items)
        scores = BradleyTerry(CategoryWeights.half(2), draw_graph(rng, n_items), draw_edge_weights(rng, n_items)).value(
            strengths_to_mu(np.exp(truth))
        )[0]
        np.testing.assert_allclose(scores, truth - truth.mean(), atol=1e-11)


def test_even_preferences_score_zero(weights, draw_graph):
    mu = np.full((1, 6, 6, weights.n_categories), 1 / weights.n_categories)
    for graph in (None, draw_graph(np.random.default_rng(7), 6)):
        bt = BradleyTerry(weights, graph)
        assert bt.neutral(6) == 0.0
        np.testing.assert_allclose(bt.value(mu), 0.0, atol=1e-15)


@pytest.mark.parametrize("certain", [[1.0, 0.0], [0.0, 1.0], [np.nan, np.nan]], ids=["one", "zero", "nan"])
def test_infinite_log_odds_are_refused_by_pair(draw_mu, certain):
    mu = draw_mu(np.random.default_rng(8), 3, 4, 2)
    mu[1, 3, 2] = certain
    bt = BradleyTerry(CategoryWeights.half(2))
    for call in (bt.value, bt.information, lambda mu: bt.derivative(mu, mu)):
        with pytest.raises(NuisanceError, match=r"item 3 .*item 2 .*context 1"):
            call(mu)


@pytest.mark.parametrize(("first", "second"), [((0.5, 0.5), (0, 1)), ((1, 0), (0, 0))])
def test_weights_without_log_odds_are_refused(first, second):
    with pytest.raises(OptionError):
        BradleyTerry(CategoryWeights(first, second))
    with pytest.raises(OptionError):
        BradleyTerry().bind(CategoryWeights(first, second))


def test_the_reason_of_the_gauge_is_that_only_differences_are_identified():
    assert BradleyTerry().gauge(4).reason == "scores sum to 0, so only differences between models are identified"


def test_derivatives_at_few_and_at_many_pairs_have_the_same_bits():
    n_items, rng = 4, np.random.default_rng(0)
    functional = BradleyTerry(CategoryWeights.half(2))
    first, second = (place.ravel() for place in np.indices((n_items, n_items)))
    mu = rng.dirichlet([5, 5], size=n_items**2)
    many = functional.derivative_at(mu, mu - 0.5, first, second, n_items)
    few = np.vstack(
        [functional.derivative_at(mu[[r]], mu[[r]] - 0.5, first[[r]], second[[r]], n_items) for r in range(16)]
    )
    np.testing.assert_array_equal(many, few)

"""Random probabilities and graphs that the tests of all functionals draw from."""

from functools import partial

import numpy as np
import pytest

from dmlrank.functionals import CategoryWeights, Graph

SCHEMES = {"half-2": CategoryWeights.half(2), "half-5": CategoryWeights.half(5), "paper-4": CategoryWeights.paper(4)}


@pytest.fixture(params=SCHEMES.values(), ids=SCHEMES)
def weights(request):
    return request.param


@pytest.fixture(scope="session")
def draw_mu(draw_mu):
    """Probabilities nearer to zero than those of other tests."""
    return partial(draw_mu, floor=0.05)


@pytest.fixture(scope="session")
def draw_graph():
    def draw(rng, n_items, extra=0.3):
        """A random tree and a share ``extra`` of the other pairs."""
        tree = [(i, int(rng.integers(i))) for i in range(1, n_items)]
        more = [(j, k) for j in range(n_items) for k in range(j) if rng.random() < extra]
        return Graph.of(tree + more, n_items)

    return draw


@pytest.fixture(scope="session")
def draw_edge_weights():
    def draw(rng, n_items):
        """Positive and symmetric, from 1 to 100."""
        matrix = 10 ** rng.uniform(0, 2, size=(n_items, n_items))
        return np.triu(matrix, 1) + np.triu(matrix, 1).T

    return draw


@pytest.fixture(scope="session")
def strengths_to_mu():
    def build(strengths):
        """Bradley-Terry probabilities, (1, K, K, 2), of positive strengths."""
        strengths = np.asarray(strengths, dtype=float)
        first = strengths[:, None] / (strengths[:, None] + strengths)
        mu = np.stack([first, 1 - first], axis=-1)
        mu[np.arange(len(strengths)), np.arange(len(strengths))] = 0.0
        return mu[None]

    return build

"""Small problems, and their covariance written out from derivatives, one label at a time."""

import itertools

import numpy as np
import pytest


@pytest.fixture(scope="session")
def label_covariances():
    def make(functional, mu, ordered=True):
        """M of every context and pair, (n, m, K, K): J V J' with J from derivatives along unit vectors.

        Where order does not matter a label of j < k moves both orders: along e at (j, k) and along flip e at (k, j).
        """
        n, n_items, _, n_categories = mu.shape
        flip = [1, 0, *range(2, n_categories)]
        places = list(
            itertools.permutations(range(n_items), 2) if ordered else itertools.combinations(range(n_items), 2)
        )
        made = np.empty((n, len(places), n_items, n_items))
        for cell, (j, k) in enumerate(places):
            columns = []
            for category in range(n_categories):
                unit = np.zeros_like(mu)
                unit[:, j, k, category] = 1
                if not ordered:
                    unit[:, k, j, flip[category]] = 1
                columns.append(functional.derivative(mu, unit))
            rows, p = np.stack(columns, axis=2), mu[:, j, k]
            variance = np.eye(n_categories) * p[:, None] - p[:, :, None] * p[:, None, :]
            made[:, cell] = rows @ variance @ np.swapaxes(rows, 1, 2)
        return made, places

    return make

"""Products in blocks are the products."""

import numpy as np
import pytest

from dmlrank._utils.computation import product, transposed_product


@pytest.mark.parametrize("limit", [1, 40, 10**6])
@pytest.mark.parametrize("shape", [(7, 3, 2), (1, 1, 1), (0, 3, 2), (5, 0, 2)])
def test_blocks_of_any_size_give_the_product(limit, shape):
    n, q, m = shape
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(n, q)), rng.normal(size=(q, m)), rng.normal(size=(n, m))
    np.testing.assert_allclose(product(a, b, limit), a @ b, atol=1e-14)
    np.testing.assert_allclose(transposed_product(a, c, limit), a.T @ c, atol=1e-14)

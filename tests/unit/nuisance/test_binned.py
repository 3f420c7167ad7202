"""Shared bins: parts of them are training sets like any other."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank.nuisance.binned import BinnedCells, bins

K, FEATURES = 70, 3
PARAMETERS = {
    "objective": "multiclass",
    "num_class": 3,
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    "min_data_in_leaf": 3,
    "boost_from_average": False,
    **bins(FEATURES, 2),
}


@pytest.fixture(scope="module")
def drawn():
    """Rows [x, first, second], labels of which some are shared between categories, votes and scores."""
    rng = np.random.default_rng(0)
    n = 400
    first = rng.integers(K, size=n)
    rows = np.column_stack([rng.normal(size=(n, FEATURES)), first, (first + rng.integers(1, K, size=n)) % K])
    y = np.eye(3)[rng.integers(3, size=n)]
    y[::7] = [0.5, 0.25, 0.25]
    return rows, y, rng.integers(1, 4, size=n).astype(float), rng.normal(size=(n, 3))


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_part_is_the_data_set_of_its_rows_written_out(drawn, mirrored):
    rows, y, votes, scores = drawn
    binned = BinnedCells.of(rows, y, votes, PARAMETERS)
    cells = np.sort(np.random.default_rng(1).choice(len(rows), 250, replace=False))
    made = [(i, c, False) for i in cells for c in range(3) if y[i, c]]
    if mirrored:
        made += [(i, c, True) for i, c, _ in made]
    swap = [1, 0, 2]
    x = np.array([rows[i][[0, 1, 2, 4, 3]] if back else rows[i] for i, _, back in made])
    label = [swap[c] if back else c for _, c, back in made]
    weight = [votes[i] * y[i, c] / (2 if mirrored else 1) for i, c, _ in made]
    begin = np.array([scores[i][swap] if back else scores[i] for i, _, back in made])
    plain = lgb.Dataset(
        x, label, weight=weight, init_score=begin, params=PARAMETERS, reference=binned.dataset, free_raw_data=False
    )
    part = binned.part(cells, scores[cells], mirrored)
    one, two = (lgb.train(PARAMETERS, data, 4).predict(x, raw_score=True) for data in (part, plain))
    np.testing.assert_array_equal(one, two)
    assert np.ptp(one) > 0.1


def test_features_have_few_bins_and_every_item_its_own():
    """Sixty common items and sixty that are shown in one battle of two hundred: LightGBM would leave these out."""
    rng = np.random.default_rng(2)
    first = np.concatenate([rng.integers(60, size=24_000), 60 + np.arange(120) % 60])
    rows = np.column_stack([rng.normal(size=len(first)), first, rng.permutation(first)])
    y, votes = np.eye(3)[rng.integers(3, size=len(first))], np.ones(len(first))
    counts = []
    for parameters in (bins(1, 2), {"max_bin": 63}):
        dataset = BinnedCells.of(rows, y, votes, {"verbosity": -1, **parameters}).dataset
        counts.append([dataset.feature_num_bin(f) for f in range(3)])
    assert counts[0][0] <= 64
    assert min(counts[0][1:]) >= 120
    assert max(counts[1][1:]) < 70

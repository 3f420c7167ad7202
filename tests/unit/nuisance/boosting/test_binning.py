"""Shared bins: parts of them are training sets like any other."""

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank.nuisance.boosting import BinnedPairs
from dmlrank.nuisance.outcome_model.main_effects import VoteRows
from dmlrank.nuisance.training_rows import LabelledRows

from ....support import two_of

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
}


@pytest.fixture(scope="module")
def drawn():
    """Cells of a hundred contexts in no order, labels of which some are shared between categories, votes, scores."""
    rng = np.random.default_rng(0)
    n = 400
    x, context = rng.normal(size=(100, FEATURES)), rng.integers(100, size=n)
    x[rng.random(x.shape) < 0.1] = np.nan
    first, second = two_of(rng, K, n)
    y = np.eye(3)[rng.integers(3, size=n)]
    y[::7] = [0.5, 0.25, 0.25]
    return x, context, first, second, y, rng.integers(1, 4, size=n).astype(float), rng.normal(size=(n, 3))


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_part_is_the_data_set_of_its_rows_stacked(drawn, mirrored):
    x, context, first, second, y, votes, scores = drawn
    binned = VoteRows.of(x, LabelledRows(np.empty((len(x), 0)), context, first, second, y, votes))
    cells = np.sort(np.random.default_rng(1).choice(len(y), 250, replace=False))
    swap, rows_of_cells = [1, 0, 2], []
    for i in dict.fromkeys(context):
        for back in (False, True) if mirrored else (False,):
            for cell in cells[context[cells] == i]:
                rows_of_cells += [(cell, c, back) for c in range(3) if y[cell, c]]
    pairs = [(second[cell], first[cell]) if back else (first[cell], second[cell]) for cell, _, back in rows_of_cells]
    rows = np.array([[*x[context[cell]], *pair] for (cell, _, _), pair in zip(rows_of_cells, pairs, strict=True)])
    stacked = lgb.Dataset(
        rows,
        [swap[c] if back else c for _, c, back in rows_of_cells],
        weight=[votes[cell] * y[cell, c] / (2 if mirrored else 1) for cell, c, _ in rows_of_cells],
        init_score=np.array([scores[cell][swap] if back else scores[cell] for cell, _, back in rows_of_cells]),
        reference=binned.binned.rows(None, 1),
        params=binned.binned.rows(None, 1).params,
    )
    part = binned.subset(cells, scores[cells], mirrored, 1)
    one, two = (lgb.train(PARAMETERS, data, 4).predict(rows, raw_score=True) for data in (part, stacked))
    np.testing.assert_array_equal(one, two)
    assert np.ptp(one) > 0.1


def test_features_have_few_bins_and_every_item_its_own():
    """Sixty common items and sixty that one battle in a hundred shows: LightGBM would leave these out."""
    rng = np.random.default_rng(2)
    first = np.concatenate([rng.integers(60, size=24_000), 60 + np.arange(180) % 60])
    second, x = rng.permutation(first), rng.normal(size=(len(first), 1))
    binned, order = BinnedPairs.of(x, np.arange(len(first)), first, second)
    dataset = binned.rows(None, 1)
    np.testing.assert_array_equal(order, np.arange(len(first)))
    with_default_bins = lgb.Dataset(
        first[:, None], categorical_feature=[0], params={"verbosity": -1, "max_bin": 63}
    ).construct()
    assert dataset.feature_num_bin(0) <= 64
    assert min(dataset.feature_num_bin(1), dataset.feature_num_bin(2)) >= 120
    assert with_default_bins.feature_num_bin(0) < 70


def test_features_that_do_not_vary():
    binned, _ = BinnedPairs.of(np.ones((40, 2)), np.arange(40), np.arange(40) % 3, np.arange(1, 41) % 3)
    dataset = binned.rows(None, 1)
    dataset.set_label(np.arange(40) % 3)
    booster = lgb.train(PARAMETERS, dataset, 2)
    p = booster.predict(np.array([[1.0, 1.0, item, (item + 1) % 3] for item in range(3)]))
    assert (p.argmax(axis=1) == np.arange(3)).all()

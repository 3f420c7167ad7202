"""Boosters over rows [x, first, second] of all the kinds that LightGBM trains, and contexts that are hard to read."""

from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

# Numbers at the edges of LightGBM's rules: read as zero, just not, minus zero, beyond every threshold.
EDGES = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, 1.1e-35, 1e-34, 1e300, -1e300, np.inf, -np.inf, np.nan])
# Categories: known ones, fractions of them, unseen, negative, missing, too large for an integer.
CODES = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 1.7, 0.2, -0.3, -1.0, -7.0, 40.0, 31.0, 32.0, 1e5, 1e12, np.nan])


@dataclass(frozen=True)
class Case:
    """A booster with its number of items and contexts to ask it about."""

    booster: lgb.Booster
    n_items: int
    x: np.ndarray
    n_outputs: int


def draw_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n_items, p, n_rows = int(rng.integers(2, 9)), int(rng.integers(1, 6)), 500
    categorical = np.flatnonzero(rng.random(p) < 0.3)
    parameters = _parameters(rng)
    n_outputs = parameters.get("num_class", 1)
    x = _features(rng, n_rows, p, categorical)
    # Not all items are seen in training.
    first, second = rng.integers(rng.integers(1, n_items + 1), size=n_rows), rng.integers(n_items, size=n_rows)
    signal = np.nansum(np.clip(x, -3, 3), axis=1) + first - second + np.sin(3 * first) * np.cos(2 * second)
    signal += rng.normal(size=n_rows)
    bins = np.quantile(signal, np.arange(1, max(n_outputs, 2)) / max(n_outputs, 2))
    items = [p, p + 1] if rng.random() < 0.8 else []
    train = lgb.Dataset(
        np.column_stack([x, first, second]),
        np.digitize(signal, bins),
        categorical_feature=[*categorical.tolist(), *items],
        params=parameters,
    )
    booster = lgb.train(parameters, train, int(rng.integers(1, 12)))
    if rng.random() < 0.2:
        booster.best_iteration = max(1, booster.current_iteration() // 2)
    return Case(booster, n_items, _hard_contexts(rng, 40, p, categorical), n_outputs)


def _parameters(rng: np.random.Generator) -> dict:
    n_classes = int(rng.integers(1, 6))
    objective = (
        {"objective": "binary", "sigmoid": float(rng.choice([1.0, 2.5]))}
        if n_classes == 1
        else {"objective": "multiclass", "num_class": n_classes}
    )
    boosting = [{}, {}, {"boosting": "dart"}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}]
    return {
        "verbosity": -1,
        "num_threads": 1,
        "seed": int(rng.integers(1000)),
        "num_leaves": int(rng.integers(2, 32)),
        # A minimum that no split can keep leaves trees of a single leaf.
        "min_data_in_leaf": int(rng.choice([3, 3, 3, 10, 400])),
        "min_data_per_group": int(rng.choice([1, 10])),
        "cat_smooth": 1.0,
        "max_cat_to_onehot": int(rng.choice([1, 4, 20])),
        "use_missing": bool(rng.random() < 0.8),
        "zero_as_missing": bool(rng.random() < 0.3),
        "extra_trees": bool(rng.random() < 0.5),
        **objective,
        **boosting[int(rng.integers(len(boosting)))],
    }


def _features(rng: np.random.Generator, n: int, p: int, categorical: np.ndarray) -> np.ndarray:
    x = rng.normal(size=(n, p))
    x[rng.random((n, p)) < 0.2] = 0.0
    x[:, categorical] = rng.integers(0, rng.choice([4, 40]), size=(n, len(categorical)))
    x[(rng.random((n, p)) < 0.2) & (rng.random(p) < 0.5)] = np.nan
    return x


def _hard_contexts(rng: np.random.Generator, n: int, p: int, categorical: np.ndarray) -> np.ndarray:
    x = np.where(rng.random((n, p)) < 0.4, rng.choice(EDGES, size=(n, p)), rng.normal(size=(n, p)))
    x[:, categorical] = rng.choice(CODES, size=(n, len(categorical)))
    x[n // 2 : n // 2 + 5] = x[:5]
    return x


@dataclass(frozen=True)
class TableOffset:
    """An offset that is known for all pairs, (n, K, K, C)."""

    table: np.ndarray
    mirrored: bool = False

    def of_contexts(self, contexts):
        return TableOffset(self.table[contexts], self.mirrored)

    def add_to_all(self, scores, contexts, pairs, spare):
        table = self.table[contexts]
        scores += np.moveaxis(table if pairs is None else table[:, pairs[0], pairs[1]], -1, 0)
        spare[...] = np.nan


def in_other_order(table):
    """Exchange the items of every pair, and the first two categories, in a table (n, K, K, C)."""
    return np.swapaxes(table, 1, 2)[..., [1, 0, *range(2, table.shape[-1])]]

"""Intervals and joint tests with clusters of unequal size: what effective clusters change.

Votes on pairs of six (or 22) models by clusters whose tastes explain a tenth of the variance; by annotators that are
crossed with prompts; on a model that 12 clusters saw; or fits with features. Coverage of all pairs at once (max-t), of
one pair, of one pair with the last model, and the size of the test that all models are equal: "number" has the
quantiles of the number of clusters, "effective" those of the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.data.hypotheses import LinearHypothesis
from dmlrank.estimation.influence import Influence
from dmlrank.inference.covariance import Covariance, one_way, two_way
from dmlrank.inference.wald import NamedEstimates, wald_test
from dmlrank.options import in_objects

from .runner import Row, Study

SHARES = {
    "equal": lambda g: np.ones(g),
    "geometric": lambda g: 0.9 ** (np.arange(g) * min(30, g) / g),
    "one has a quarter": lambda g: np.r_[(g - 1) / 3, np.ones(g - 1)],
    "three have 45 %": lambda g: np.r_[np.full(3, 0.15 / 0.55 * (g - 3)), np.ones(g - 3)],
}
TASTE = 0.1
SETTINGS = {
    ", ".join(map(str, setting)): setting
    for setting in (
        *itertools.product((12, 30, 100, 300), SHARES, (6,), ("plain",)),
        *itertools.product((100,), SHARES, (22,), ("plain",)),
        *itertools.product((100,), SHARES, (6,), ("crossed", "rare")),
        *itertools.product((100,), ("geometric", "three have 45 %"), (6,), ("features",)),
    )
}
KEY = ["clusters", "shares", "models", "design", "by"]


def votes(rng: np.random.Generator, shares: str, n_clusters: int, n_models: int, rare: bool) -> pd.DataFrame:
    """Votes without any difference between models: cluster, both models and the winner, 1 or -1."""
    share = SHARES[shares](n_clusters)
    size = np.maximum(np.round(1500 * share / share.sum()), 1).astype(int)
    cluster = np.repeat(rng.permutation(n_clusters), size)
    first = rng.integers(n_models, size=len(cluster))
    if rare:
        first = np.where(cluster < 12, first, rng.integers(n_models - 1, size=len(cluster)))
    among = np.where(rare & (cluster >= 12), n_models - 1, n_models)
    second = (first + rng.integers(1, among)) % among
    liking = rng.normal(size=(n_clusters, n_models)) * np.sqrt(TASTE / 2)
    gap = liking[cluster, first] - liking[cluster, second] + np.sqrt(1 - TASTE) * rng.normal(size=len(cluster))
    return pd.DataFrame({"cluster": cluster, "first": first, "second": second, "y": np.sign(gap)})


def plain(table: pd.DataFrame, n_models: int, crossed: bool) -> tuple[np.ndarray, Covariance]:
    """Each model's mean vote with its covariance."""
    n, group = len(table), table["cluster"].to_numpy()
    value, seen, rows = np.zeros((n, n_models)), np.zeros((n, n_models)), np.arange(n)
    value[rows, table["first"]], value[rows, table["second"]] = table["y"], -table["y"]
    seen[rows, table["first"]] = seen[rows, table["second"]] = 1
    mean = value.sum(axis=0) / seen.sum(axis=0)
    value = mean + (value - seen * mean) * n / seen.sum(axis=0)
    influence = Influence(np.zeros_like(value), value, rows, np.ones(n), np.ones(n))
    gauge = np.empty((0, n_models))
    if crossed:
        return influence.estimate, two_way(influence, rows // 2, group, gauge)
    return influence.estimate, one_way(influence, group, gauge)


def fitted(table: pd.DataFrame, rng: np.random.Generator) -> tuple[np.ndarray, Covariance]:
    """Borda scores of a fit with three features, with their covariance."""
    names = np.array([f"m{j}" for j in range(6)])
    frame = pd.DataFrame({"user": table["cluster"], "a": names[table["first"]], "b": names[table["second"]]})
    frame["winner"] = np.where(table["y"] > 0, "model_a", "model_b")
    frame[["x", "y", "z"]] = rng.normal(size=(len(frame), 3))
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": "user"}}
    res = dr.dml_rank("winner ~ x + y + z | a + b", frame, functional="borda", rng=0, **in_objects(clusters))
    return res.estimates.estimate, res.estimates.covariance


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """One data set: a row for each way."""
    n_clusters, shares, n_models, design = SETTINGS[cell]
    rng, (first, second) = np.random.default_rng([seed, n_clusters, n_models]), np.triu_indices(n_models, 1)
    pairs, normal = np.eye(n_models)[first] - np.eye(n_models)[second], rng.normal(size=(4096, n_models))
    equal = LinearHypothesis(np.eye(n_models)[1:] - np.eye(n_models)[:1], np.zeros(n_models - 1), ("equal",))
    table = votes(rng, shares, n_clusters, n_models, design == "rare")
    estimate, made = fitted(table, rng) if design == "features" else plain(table, n_models, design == "crossed")
    factor = pairs @ made.factor
    errors = np.sqrt(np.square(factor).sum(axis=1))
    # As max-t of the package: draws say how t statistics with normal tails depend on each other.
    critical = np.quantile(np.abs(normal[:, : factor.shape[1]] @ (factor.T / errors)).max(axis=1), 0.95)
    number = replace(made, df=made.n_clusters[-1] - 1.0, scale=1.0, of_scores=None)
    for way, covariance in {"number": number, "effective": made}.items():
        z = np.abs(covariance.tails(pairs).to_normal(pairs @ estimate / errors))
        try:
            names = [str(j) for j in range(n_models)]
            rejects = float(wald_test(NamedEstimates(estimate, covariance, names, ""), equal).pvalue < 0.05)
        except dr.exceptions.HypothesisError:
            rejects = np.nan
        least = np.min(covariance.df if covariance.of_scores is None else covariance.of_scores)
        row = {"by": way, "all pairs": z.max() < critical, "one pair": (z < 1.96).mean(), "last pair": z[-1] < 1.96}
        yield row | {"size of the joint test": rejects, "df": covariance.df, "least df": least}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by setting and way."""
    keys = pd.DataFrame([SETTINGS[cell] for cell in rows["cell"]], columns=KEY[:4])
    rows = pd.concat([keys, rows.drop(columns=["cell", "seed"])], axis=1)
    return {"uneven_clusters": rows.groupby(KEY, sort=False).mean().round(3).reset_index()}


STUDY = Study(tuple(SETTINGS), replicate, tables, 400)

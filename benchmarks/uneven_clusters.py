"""Intervals and joint tests with clusters of unequal size: what effective clusters change.

    python benchmarks/uneven_clusters.py run OUT.csv --samples 150

Votes on pairs of six (or 22) models by clusters whose tastes explain a share of the variance, or by annotators that are
crossed with prompts. Coverage of all pairs at once (max-t), of one pair, and the size of the test that all models are
equal: "number" has the quantiles of the number of clusters, "effective" those of the package.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd

from dmlrank.estimation.influence import Influence
from dmlrank.inference.covariance import Covariance, one_way, two_way
from dmlrank.inference.simultaneous import MaxT, compare_differences

SHARES = {
    "equal": lambda g: np.ones(g),
    "geometric": lambda g: 0.9 ** (np.arange(g) * min(30, g) / g),
    "one has a quarter": lambda g: np.r_[(g - 1) / 3, np.ones(g - 1)],
    "three have 45 %": lambda g: np.r_[np.full(3, 0.15 / 0.55 * (g - 3)), np.ones(g - 3)],
}


def draw(rng: np.random.Generator, shares: str, n_clusters: int, taste: float, n_models: int) -> tuple:
    """Votes without any difference between models, as influence values with the cluster of each vote."""
    share = SHARES[shares](n_clusters)
    size = np.maximum(np.round(1500 * share / share.sum()), 1).astype(int)
    cluster = np.repeat(np.arange(n_clusters), size)
    rows, n = np.arange(len(cluster)), len(cluster)
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    liking = rng.normal(size=(n_clusters, n_models)) * np.sqrt(taste / 2)
    gap = liking[cluster, first] - liking[cluster, second] + np.sqrt(1 - taste) * rng.normal(size=n)
    value = np.zeros((n, n_models))
    value[rows, first], value[rows, second] = np.sign(gap), -np.sign(gap)
    return Influence(np.zeros_like(value), value, rows, np.ones(n), np.ones(n)), cluster


def covariances(influence: Influence, cluster: np.ndarray, crossed: bool) -> dict[str, Covariance]:
    """By the number of clusters, and by the package."""
    gauge = np.ones((1, influence.n_scores))
    if crossed:
        made = two_way(influence, np.arange(influence.n_contexts) // 2, cluster, gauge)
    else:
        made = one_way(influence, cluster, gauge)
    return {"number": replace(made, df=made.n_clusters[-1] - 1.0, scale=1.0), "effective": made}


def cell(shares: str, n_clusters: int, taste: float, n_models: int, crossed: bool, samples: int) -> list[dict]:
    """The two ways in one setting."""
    rng, found = np.random.default_rng([n_clusters, n_models, int(100 * taste)]), {"number": [], "effective": []}
    pairs, free = np.triu_indices(n_models, 1), np.linalg.qr(np.eye(n_models) - 1 / n_models)[0][:, :-1]
    for _ in range(samples):
        influence, cluster = draw(rng, shares, n_clusters, taste, n_models)
        for kind, covariance in covariances(influence, cluster, crossed).items():
            tests = compare_differences(
                influence.estimate, MaxT(covariance, n_draws=4096), *pairs, method="max-t", alpha=0.05
            )
            x, rank = free.T @ influence.estimate, n_models - 1
            statistic = x @ np.linalg.solve(free.T @ covariance.matrix @ free, x)
            rejects = np.nan if covariance.df + 1 <= rank else covariance.wald_law(rank).sf(statistic) < 0.05
            found[kind].append([tests.p_adjusted.min() > 0.05, (tests.p_value > 0.05).mean(), rejects, covariance.df])
    setting = {"clusters": n_clusters, "shares": shares, "taste": taste, "models": n_models, "crossed": crossed}
    columns = ("all pairs", "one pair", "size of the joint test", "df")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = {kind: np.nanmean(np.array(rows, float), axis=0).round(4) for kind, rows in found.items()}
    return [setting | {"by": kind} | dict(zip(columns, mean, strict=True)) for kind, mean in means.items()]


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run"])
    parser.add_argument("out")
    parser.add_argument("--samples", type=int, default=150)
    arguments, rows = parser.parse_args(), []
    warnings.simplefilter("ignore", UserWarning)
    settings = [*itertools.product(SHARES, (12, 30, 100, 300), (0.1,), (6,), (False,))]
    settings += [*itertools.product(SHARES, (100,), (0.1,), (22,), (False,))]
    settings += [*itertools.product(SHARES, (100,), (0.1,), (6,), (True,))]
    for setting in settings:
        rows += cell(*setting, samples=arguments.samples)
        pd.DataFrame(rows).to_csv(arguments.out, index=False)


if __name__ == "__main__":
    main()

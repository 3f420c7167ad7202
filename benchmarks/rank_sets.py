"""Family-wise error, coverage of rank sets, few clusters, and what all pairs of 200 models cost.

Estimates are drawn from a normal distribution with a known covariance, so that only the tests themselves are looked at.
Error: one difference of models that are truly equal is rejected. Joint: every model's set holds all ranks that its ties
allow. Alone: the same for one model, the worst of them.

    python benchmarks/rank_sets.py --replications 1000
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dmlrank.inference.bootstrap_and_max_t import (
    MULTIPLIERS,
    MultiplierBootstrap,
    NormalDraws,
    differences,
    max_t_draws,
)
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.ranks import rank_bounds
from dmlrank.inference.simultaneous import MaxT, compare_differences, separate, separate_each

METHODS = ("max-t", "step-down", "holm", "fdr_bh", "none")


def covariances(k: int) -> dict[str, Covariance]:
    """Of independent scores, of a balanced arena, and of one whose models met from 1 to 100 times as often."""
    basis = free_basis(np.ones((1, k)) / np.sqrt(k), k)
    labels = np.logspace(0, 2, k)
    met = np.sqrt(np.outer(labels, labels)) * ~np.eye(k, dtype=bool)
    laplacian = np.diag(met.sum(axis=1)) - met
    return {
        "independent": Covariance(np.eye(k), np.eye(k)),
        "balanced": Covariance(basis @ basis.T, basis),
        "skewed": Covariance(100 * np.linalg.pinv(laplacian), basis),
    }


def truths(k: int) -> dict[str, NDArray[np.float64]]:
    """Equal scores; pairs of ties; close scores."""
    place = np.arange(k)[::-1]
    return {"equal": np.zeros(k), "tied pairs": 2.5 * (place // 2), "close": 0.4 * place}


def replicate(
    truth: NDArray[np.float64], noise: MaxT, rng: np.random.Generator, alpha: float
) -> dict[str, float | NDArray[np.bool_]]:
    """What went wrong in one draw."""
    k = len(truth)
    estimate = rng.multivariate_normal(truth, noise.covariance.matrix, method="eigh")
    first, second = np.triu_indices(k, 1)
    same = truth[first] == truth[second]
    figures: dict[str, float | NDArray[np.bool_]] = {}
    for method in METHODS:
        tests = compare_differences(estimate, noise, first, second, method=method, alpha=alpha)
        figures[method] = bool((tests.p_adjusted[same] <= alpha).any())
    best = 1 + (truth[None, :] > truth[:, None]).sum(axis=1)
    worst = (truth[None, :] >= truth[:, None]).sum(axis=1)
    lower, upper = rank_bounds(separate(estimate, noise, alpha).above)
    figures["joint"] = bool(((lower <= best) & (worst <= upper)).all())
    figures["width"] = float((upper - lower + 1).mean())
    each = separate_each(estimate, noise, alpha)
    lower, upper = rank_bounds(each[:, :, 0], each[:, :, 1])
    figures["alone"] = (lower <= best) & (worst <= upper)
    figures["width alone"] = float((upper - lower + 1).mean())
    return figures


def study(replications: int, k: int = 10, alpha: float = 0.05, n_draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """A row per covariance and truth: shares of errors and of coverage, and mean widths of the sets."""
    rows = []
    for kind, covariance in covariances(k).items():
        noise = MaxT(covariance, n_draws=n_draws)
        for name, truth in truths(k).items():
            rng = np.random.default_rng(seed)
            drawn = pd.DataFrame([replicate(truth, noise, rng, alpha) for _ in range(replications)])
            alone = np.stack(drawn.pop("alone").to_numpy()).mean(axis=0).min()
            rows.append({"covariance": kind, "scores": name} | drawn.mean().to_dict() | {"alone": alone})
    columns = ["covariance", "scores", *METHODS, "joint", "alone", "width", "width alone"]
    return pd.DataFrame(rows)[columns]


def few_clusters(
    replications: int, n_clusters: int, k: int = 6, alpha: float = 0.05, seed: int = 0
) -> dict[str, float]:
    """How often simultaneous intervals of all differences hold with few clusters, by kind of critical value."""
    rng = np.random.default_rng(seed)
    pairs = np.triu_indices(k, 1)
    small_sample = n_clusters / (n_clusters - 1)
    held = dict.fromkeys(("normal", *MULTIPLIERS), 0)
    for number in range(replications):
        rows = rng.standard_normal((n_clusters, k)) * rng.uniform(0.5, 1.5, size=(n_clusters, 1)) / n_clusters
        estimate = rows.sum(axis=0)
        rows -= rows.mean(axis=0)
        covariance = Covariance(small_sample * rows.T @ rows, np.eye(k))
        contrasts = differences(covariance, *pairs)
        size = np.abs(estimate[pairs[0]] - estimate[pairs[1]]) / contrasts.std_error
        for kind in held:
            noise = (
                NormalDraws(covariance.factor, number, 2000)
                if kind == "normal"
                else MultiplierBootstrap(rows, small_sample, np.zeros((k, k)), kind, number, 2000)
            )
            held[kind] += int(size.max() <= np.quantile(max_t_draws(noise, contrasts, absolute=True), 1 - alpha))
    return {kind: count / replications for kind, count in held.items()}


def cost(k: int) -> dict[str, float]:
    """Seconds for tests of all pairs and rank sets of k models with 100,000 draws, and the peak memory."""
    rng = np.random.default_rng(0)
    basis = free_basis(np.ones((1, k)) / np.sqrt(k), k)
    root = basis @ (np.eye(k - 1) + 0.1 * rng.standard_normal((k - 1, k - 1)))
    covariance, estimate = Covariance(root @ root.T, basis), 3 * rng.standard_normal(k)
    noise = MaxT(covariance)
    figures = {"models": float(k)}
    first, second = np.triu_indices(k, 1)
    for method in ("max-t", "step-down"):
        start = time.perf_counter()
        compare_differences(estimate, noise, first, second, method=method, alpha=0.05)
        figures[method] = time.perf_counter() - start
    for name, ask in (("rank sets", separate), ("rank sets alone", separate_each)):
        start = time.perf_counter()
        ask(estimate, noise, 0.05)
        figures[name] = time.perf_counter() - start
    figures["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return figures


def main() -> int:
    """Print the tables; one, where an error or a coverage is off by more than four standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--models", type=int, default=200, help="of the measurement of cost")
    given = parser.parse_args()
    warnings.simplefilter("error")
    print(pd.DataFrame([cost(k) for k in (20, given.models)]).round(2).to_string(index=False), "\n")
    table = study(given.replications)
    print(table.round(3).to_string(index=False), "\n")
    clusters = pd.DataFrame({g: few_clusters(given.replications, g) for g in (8, 15, 30, 60)}).T
    print(clusters.rename_axis("clusters").round(3).to_string())
    slack = 4 * np.sqrt(0.05 * 0.95 / given.replications)
    errors = table[["max-t", "step-down", "holm"]].to_numpy().max()
    covered = table[["joint", "alone"]].to_numpy().min()
    return int(errors > 0.05 + slack or covered < 0.95 - slack)


if __name__ == "__main__":
    sys.exit(main())

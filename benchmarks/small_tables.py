"""Which simultaneous intervals hold for small tables of scores: 20 to 200 prompts, 2 to 20 models.

``python benchmarks/small_tables.py run --samples 1000`` simulates every cell of the study and writes coverage and mean
half-width of every method to ``benchmarks/results/small_tables.csv``. ``tables`` prints, for every method, how often it
holds, and its width where it does, and writes docs/results/small_tables.csv.

Scores are 0/1 (with one or three runs a prompt) or continuous (beta). Models are correlated by a normal copula. All
methods are functions of the table alone, written out here, so that they can be compared without the package.

Methods for all differences of models at once, or all means: ``normal`` and ``t`` are max-t with normal and Student's
quantiles, ``bootstrap t`` is the studentised bootstrap. ``dmlrank`` is the rule of the package: Student's quantiles and
an allowance in the covariance. ``bonett-price`` is the adjusted Wald interval of Bonett and Price (2012), ``logit t`` a
t interval on the logit scale, ``wilson`` is for means of 0/1 runs: what the package evalstats (0.3) recommends for
0/1 and for other bounded scores, here with Sidak's bound. ``tango`` is Tango's score interval (two models).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta, norm
from scipy.stats import t as student

RESULTS = Path(__file__).parent / "results" / "small_tables.csv"
TABLE = Path(__file__).parents[1] / "docs" / "results" / "small_tables.csv"
SIZES = (20, 30, 50)
MODELS = (2, 5, 10, 20)
# Student's quantiles end at 100 prompts, the allowance does not.
LARGER_SIZES, FEWER_MODELS = (100, 200), (2, 5)
KINDS = ("binary", "three runs", "continuous")
MEANS = (0.5, 0.9, 0.97)
CORRELATIONS = (0.0, 0.5, 0.9)
LEVEL = 0.95
DRAWS = 1000
RULE_OF_THREE = (3 / norm.isf(0.025)) ** 2
Array = np.ndarray


def means_of(k: int, mean: float) -> Array:
    """Return the true means of k models, whose log-odds are evenly spread by 1 around that of the mean."""
    return expit(logit(mean) + np.linspace(-0.5, 0.5, k))


def tables(kind: str, n: int, k: int, mean: float, rho: float, samples: int, rng: np.random.Generator) -> Array:
    """Return simulated mean scores of prompts and models, (samples, n, k)."""
    means = means_of(k, mean)
    shared, own = rng.normal(size=(samples, n, 1)), rng.normal(size=(samples, n, k))
    latent = np.sqrt(rho) * shared + np.sqrt(1 - rho) * own
    if kind == "continuous":
        return beta.ppf(norm.cdf(latent), 4 * means, 4 * (1 - means))
    if kind == "binary":
        return (latent < norm.ppf(means)).astype(float)
    runs = rng.normal(size=(samples, n, k, 3))
    return (np.sqrt(0.7) * latent[..., None] + np.sqrt(0.3) * runs < norm.ppf(means)[:, None]).mean(axis=-1)


def covariances(y: Array) -> Array:
    """Return the covariance of the means, divisor n, (samples, k, k)."""
    deviations = y - y.mean(axis=1, keepdims=True)
    return np.einsum("sij,sik->sjk", deviations, deviations) / y.shape[1] ** 2


def typical_squares(d: Array) -> tuple[Array, Array]:
    """Return the sums of d^4 and of d^2 over all but the first axis."""
    square = np.where(np.abs(d) > 1e-12, d, 0.0) ** 2
    return (square**2).sum(axis=(1, 2)), square.sum(axis=(1, 2))


def allowance(y: Array) -> Array:
    """Return what the package adds to the covariance of the means of tables, (samples, k, k)."""
    _, n, k = y.shape
    parts = [typical_squares(y[:, :, :j] - y[:, :, [j]]) for j in range(1, k)]
    gaps = tuple(sum(part[i] for part in parts) for i in (0, 1))
    own, common = (
        np.divide(fourth, square, out=np.zeros(len(y)), where=square > 0)
        for fourth, square in (gaps, typical_squares(y - np.median(y, axis=1, keepdims=True)))
    )
    # Without any deviation, scores are 0 or 1 in this study.
    own, common = (np.where(a > 0, a, np.where(b > 0, b, 1.0)) for a, b in ((own, common), (common, own)))
    return (own[:, None, None] * np.eye(k) / 2 + (RULE_OF_THREE - 0.5) * common[:, None, None]) / n**2


def contrasts(k: int, target: str) -> Array:
    """Return all differences of models, or all models, (m, k)."""
    if target == "means":
        return np.eye(k)
    return np.array([np.eye(k)[a] - np.eye(k)[b] for a, b in combinations(range(k), 2)])


def max_t(cov: Array, c: Array, normal: Array) -> tuple[Array, Array]:
    """Return standard errors (samples, m) and critical values (samples,); contrasts without variance are left out."""
    se = np.sqrt(np.maximum(np.einsum("mk,skl,ml->sm", c, cov, c, optimize=True), 0.0))
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    critical = np.empty(len(cov))
    for s in range(len(cov)):
        scaled = (c @ root[s])[se[s] > 1e-12] / se[s][se[s] > 1e-12, None]
        largest = np.abs(scaled @ normal.T).max(axis=0, initial=0.0)
        critical[s] = np.quantile(largest, LEVEL)
    return se, critical


def student_value(critical: Array, df: int) -> Array:
    """Return what a t variable exceeds as often as a normal one exceeds a critical value."""
    return student.isf(norm.sf(critical), df)


def bootstrap_t(y: Array, c: Array, rng: np.random.Generator, draws: int = 299) -> tuple[Array, Array]:
    """Return standard errors and critical values of the studentised bootstrap of prompts."""
    se = np.sqrt(np.maximum(np.einsum("mk,skl,ml->sm", c, covariances(y), c), 0.0))
    n, critical = y.shape[1], np.empty(len(y))
    for s in range(len(y)):
        d = y[s] @ c.T
        again = d[rng.integers(n, size=(draws, n))]
        spread = again.std(axis=1) / np.sqrt(n)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(again.mean(axis=1) - d.mean(axis=0)) / spread
        critical[s] = np.quantile(np.where(spread > 1e-12, z, 0.0).max(axis=1), LEVEL)
    return se, critical


def sidak(m: int) -> float:
    """Return the level of each of m intervals."""
    return 1 - LEVEL ** (1 / m)


def bonett_price(y: Array, c: Array) -> tuple[Array, Array]:
    """Return centres and half-widths (samples, m) of adjusted Wald intervals of differences, with Sidak's bound."""
    n, d = y.shape[1], y @ c.T
    centre = d.sum(axis=1) / (n + 2)
    variance = ((d**2).sum(axis=1) + 2) / (n + 2) - centre**2
    return centre, norm.isf(sidak(len(c)) / 2) * np.sqrt(variance / (n + 2))


def wilson(y: Array, m: int) -> tuple[Array, Array]:
    """Return centres and half-widths of Wilson intervals of means, with Sidak's bound."""
    n, p, z = y.shape[1], y.mean(axis=1), norm.isf(sidak(m) / 2)
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    return centre, z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))


def logit_t(y: Array, c: Array, *, differences: bool) -> tuple[Array, Array]:
    """Return lower and upper limits of t intervals on the logit scale of bounded means or differences."""
    d = y @ c.T
    low, width = (-1.0, 2.0) if differences else (0.0, 1.0)
    n, m = d.shape[1], d.mean(axis=1)
    unit = np.clip((m - low) / width, 1e-9, 1 - 1e-9)
    se = d.std(axis=1, ddof=1) / np.sqrt(n) / width / (unit * (1 - unit))
    reach = student.isf(sidak(len(c)) / 2, n - 1) * se
    return low + width * expit(logit(unit) - reach), low + width * expit(logit(unit) + reach)


def tango(y: Array) -> tuple[Array, Array]:
    """Return limits of Tango's (1998) score interval of the difference of two paired proportions, (samples, 1)."""
    n = y.shape[1]
    b = ((y[:, :, 0] > y[:, :, 1]).sum(axis=1)).astype(float)
    c = ((y[:, :, 0] < y[:, :, 1]).sum(axis=1)).astype(float)
    z = norm.isf((1 - LEVEL) / 2)

    def outside(delta: Array) -> Array:
        big_a, big_b = 2 * n, -b - c + (2 * n - b + c) * delta
        big_c = -c * delta * (1 - delta)
        q = (np.sqrt(np.maximum(big_b**2 - 4 * big_a * big_c, 0.0)) - big_b) / (2 * big_a)
        variance = np.maximum(n * (2 * q + delta * (1 - delta)), 1e-300)
        return (b - c - n * delta) / np.sqrt(variance)

    limits = []
    for sign in (1, -1):
        inner, outer = (b - c) / n, np.full(len(y), -float(sign))
        for _ in range(60):
            middle = (inner + outer) / 2
            is_in = sign * outside(middle) <= z
            inner, outer = np.where(is_in, middle, inner), np.where(is_in, outer, middle)
        limits.append((inner + outer) / 2)
    return limits[0][:, None], limits[1][:, None]


def limits_of(
    y: Array, kind: str, target: str, rng: np.random.Generator, slow: int
) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of every method and its limits, (samples, m); slow methods take the first ``slow`` samples."""
    _, n, k = y.shape
    c, cov = contrasts(k, target), covariances(y)
    normal = np.random.default_rng(1).normal(size=(DRAWS, k))
    centre = y.mean(axis=1) @ c.T

    def around(se: Array, critical: Array) -> tuple[Array, Array]:
        return centre[: len(se)] - critical[:, None] * se, centre[: len(se)] + critical[:, None] * se

    se, critical = max_t(cov, c, normal)
    yield "normal", *around(se, critical)
    yield "t", *around(se * np.sqrt(n / (n - 1)), student_value(critical, n - 1))
    yield "bootstrap t", *around(*bootstrap_t(y[:slow], c, rng))
    se, critical = max_t(cov + allowance(y), c, normal)
    yield (
        "dmlrank",
        *(around(se * np.sqrt(n / (n - 1)), student_value(critical, n - 1)) if n < 100 else around(se, critical)),
    )
    if target == "differences":
        if kind != "continuous":
            middle, half = bonett_price(y, c)
            yield "bonett-price", middle - half, middle + half
        else:
            yield "logit t", *logit_t(y, c, differences=True)
        if kind == "binary" and k == 2:
            yield "tango", *tango(y)
    elif kind != "continuous":
        middle, half = wilson(y, k)
        yield "wilson", middle - half, middle + half
    else:
        yield "logit t", *logit_t(y, c, differences=False)


def cell(kind: str, n: int, k: int, mean: float, rho: float, samples: int) -> list[dict[str, object]]:
    """Return coverage and half-widths of all methods in one cell."""
    rng = np.random.default_rng([KINDS.index(kind), n, k, round(100 * mean), round(100 * rho)])
    y = tables(kind, n, k, mean, rho, samples, rng)
    rows: list[dict[str, object]] = []
    for target in ("differences", "means"):
        truth = contrasts(k, target) @ means_of(k, mean)
        for name, lower, upper in limits_of(y, kind, target, rng, slow=min(samples, 200)):
            covers = ((lower <= truth + 1e-12) & (truth - 1e-12 <= upper)).all(axis=1)
            half = float((upper - lower).mean() / 2)
            key = {"kind": kind, "n": n, "models": k, "mean": mean, "correlation": rho, "target": target}
            rows.append(key | {"method": name, "samples": len(covers), "coverage": covers.mean(), "half_width": half})
    return rows


def cells() -> Iterator[tuple[str, int, int, float, float]]:
    """Yield the cells of the study."""
    for models, sizes in ((MODELS, SIZES), (FEWER_MODELS, LARGER_SIZES)):
        for k, kind, n, mean, rho in product(models, KINDS, sizes, MEANS, CORRELATIONS):
            yield kind, n, k, mean, rho


def run(samples: int) -> None:
    """Compute the cells that are missing."""
    done = set()
    if RESULTS.exists():
        stored = pd.read_csv(RESULTS)
        done = set(stored[["kind", "n", "models", "mean", "correlation"]].itertuples(index=False, name=None))
    for key in cells():
        if key not in done:
            rows = pd.DataFrame(cell(*key, samples))
            rows.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False, float_format="%.5g")


def figures_of(part: pd.DataFrame) -> pd.Series:
    """Return how often a method holds (0.93), its lowest and median coverage, and its width where it holds."""
    holds = part["coverage"] >= 0.93
    return pd.Series(
        {
            "cells": len(part),
            "holds": holds.mean(),
            "lowest": part["coverage"].min(),
            "median": part["coverage"].median(),
            "width / narrowest that holds": part.loc[holds, "ratio"].median(),
        }
    )


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the figures of every method over the cells."""
    keys = ["target", "kind", "n", "models", "mean", "correlation"]
    best = rows[rows["coverage"] >= 0.93].groupby(keys)["half_width"].min().rename("best").reset_index()
    rows = rows.merge(best, on=keys, how="left")
    rows = rows.assign(ratio=rows["half_width"] / rows["best"])
    rows = rows.assign(prompts=np.where(rows["n"] < min(LARGER_SIZES), "20 to 50", "100 and 200"))
    grouped = rows.groupby(["prompts", "target", "kind", "method"])
    return grouped.apply(figures_of, include_groups=False).round(3).reset_index()


def main() -> int:
    """Run the study or print and write its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("--samples", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "run":
        run(given.samples)
    else:
        figures = summary(pd.read_csv(RESULTS))
        figures.to_csv(TABLE, index=False)
        print(figures.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

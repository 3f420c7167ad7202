"""Which simultaneous intervals hold for small tables of scores, and how often a gate passes a release at its margin.

``python benchmarks/small_tables.py run --samples 300`` simulates every cell of the study and writes coverage, mean
half-width and the misses of each side of every method to ``benchmarks/results/small_tables.csv``; ``clusters`` adds
fits with clusters and tasks; ``tables`` prints, for every method, how often it holds, and its width where it does, and
writes docs/results/small_tables.csv. ``gate`` writes docs/results/gate_exact.csv: the exact probability that a release
at the margin passes, by enumeration over prompts lost and won.

Scores are 0/1 (with one or three runs a prompt) or continuous (beta). Models are correlated by a normal copula. Means
are alike, rare, or mixed from .02 to .98. Methods for all differences of models at once, or all means: ``normal`` and
``t`` are max-t with normal and Student's quantiles, ``dmlrank`` is the rule of the package. ``bonett-price`` is the
adjusted Wald interval of Bonett and Price (2012), ``logit t`` a t interval on the logit scale, ``wilson`` is for means:
what the package evalstats (0.3) recommends for 0/1 and for other bounded scores, here with Sidak's bound, as
``clopper`` (Clopper and Pearson 1934). ``tango`` is Tango's score interval, ``newcombe`` method 10 of Newcombe (1998),
both for two models.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, gammaln, logit
from scipy.stats import beta, norm
from scipy.stats import t as student

import dmlrank as dr
from dmlrank.inference.score_limits import Moments, Side
from dmlrank.options import in_objects

RESULTS = Path(__file__).parent / "results" / "small_tables.csv"
TABLE = Path(__file__).parents[1] / "docs" / "results" / "small_tables.csv"
GATE_TABLE = Path(__file__).parents[1] / "docs" / "results" / "gate_exact.csv"
SIZES = (20, 60, 200, 1000)
MODELS = (2, 4, 12)
KINDS = ("binary", "three runs", "continuous")
# A mean of zero stands for means from .02 to .98.
MEANS = (0.02, 0.35, 0.75, 0.98, 0.0)
CORRELATIONS = (0.25, 0.8)
LEVEL = 0.95
DRAWS = 1000
Array = np.ndarray


def means_of(k: int, mean: float) -> Array:
    """Return the true means of k models, whose log-odds are evenly spread by 1 around that of the mean, or mixed."""
    if mean == 0:
        return expit(np.linspace(logit(0.02), logit(0.98), k))
    return expit(logit(mean) + np.linspace(-0.5, 0.5, k))


def tables(kind: str, n: int, k: int, means: Array, rho: float, samples: int, rng: np.random.Generator) -> Array:
    """Return simulated mean scores of prompts and models, (samples, n, k)."""
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


def unseen(y: Array) -> tuple[Array, Array, Array]:
    """Return the lowest and the highest mean score of an unseen prompt, (samples, k), and the size of a difference."""
    middle = np.median(y, axis=1)
    fourth, square = typical_squares(y - middle[:, None])
    own = np.sqrt((fourth + 0.05) / (square + 0.05))
    parts = [typical_squares(y[:, :, :j] - y[:, :, [j]]) for j in range(1, y.shape[2])]
    fourth, square = (sum(part[i] for part in parts) for i in (0, 1))
    pair = np.sqrt(np.where(square > 0, (fourth + 5e-5) / (square + 5e-5), own**2))
    return np.maximum(middle - own[:, None], 0), np.minimum(middle + own[:, None], 1), pair


def of_package(y: Array, c: Array, target: str, normal: Array) -> tuple[Array, Array]:
    """Return the limits of the rule of the package, (samples, m), of scores from 0 to 1."""
    samples, n, k = y.shape
    low, high, pair = unseen(y)
    critical = max_t(covariances(y) + np.eye(k) * (pair**2 / (2 * n**2))[:, None, None], c, normal)[1]
    d = y @ c.T
    centre = d.mean(axis=1)
    powers = [((d - centre[:, None]) ** power).mean(axis=1).ravel() for power in (2, 3)]
    is_difference = np.full(samples * len(c), target == "differences")
    if target == "differences":
        high = np.repeat(pair, len(c))
        low = -high
    moments = Moments(np.full(samples * len(c), float(n)), centre.ravel(), *powers)
    least = np.full(samples * len(c), -1.0 if target == "differences" else 0.0)
    sides = (
        Side.of(moments, low.ravel(), is_difference, least),
        Side.of(moments.mirrored(), -high.ravel(), is_difference, np.full(samples * len(c), -1.0)),
    )
    z = np.repeat(critical, len(c))
    return sides[0].limit(z).reshape(samples, -1), -sides[1].limit(z).reshape(samples, -1)


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


def clopper_pearson(y: Array, tail: float) -> tuple[Array, Array]:
    """Return Clopper and Pearson's limits of means of scores of 0 and 1, (samples, k)."""
    n = y.shape[1]
    x = y.sum(axis=1)
    low = np.where(x > 0, beta.ppf(tail, np.maximum(x, 1), n - x + 1), 0.0)
    return low, np.where(x < n, beta.isf(tail, x + 1, np.maximum(n - x, 1)), 1.0)


def newcombe(y: Array) -> tuple[Array, Array]:
    """Return Newcombe's limits (method 10) of the difference of two paired proportions, (samples, 1)."""
    n, p = y.shape[1], y.mean(axis=1)
    centre, half = wilson(y, 1)
    below, above = p - (centre - half), centre + half - p
    a, d = ((y == value).all(axis=2).sum(axis=1).astype(float) for value in (1, 0))
    b, c = ((y[:, :, 0] > y[:, :, 1]).sum(axis=1), (y[:, :, 0] < y[:, :, 1]).sum(axis=1))
    size = np.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    product_ = a * d - b * c
    phi = np.divide(
        np.where(product_ > n / 2, product_ - n / 2, np.minimum(product_, 0)), size, out=0 * size, where=size > 0
    )
    gap = p[:, 0] - p[:, 1]
    low = below[:, 0] ** 2 - 2 * phi * below[:, 0] * above[:, 1] + above[:, 1] ** 2
    high = above[:, 0] ** 2 - 2 * phi * above[:, 0] * below[:, 1] + below[:, 1] ** 2
    return (gap - np.sqrt(np.maximum(low, 0)))[:, None], (gap + np.sqrt(np.maximum(high, 0)))[:, None]


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


def limits_of(y: Array, kind: str, target: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of every method and its limits, (samples, m)."""
    _, n, k = y.shape
    c, cov = contrasts(k, target), covariances(y)
    normal = np.random.default_rng(1).normal(size=(DRAWS, k))
    centre = y.mean(axis=1) @ c.T
    se, critical = max_t(cov, c, normal)
    yield "normal", centre - critical[:, None] * se, centre + critical[:, None] * se
    half = (student_value(critical, n - 1) * np.sqrt(n / (n - 1)))[:, None] * se
    yield "t", centre - half, centre + half
    yield "dmlrank", *of_package(y, c, target, normal)
    if target == "differences":
        if kind != "continuous":
            middle, half = bonett_price(y, c)
            yield "bonett-price", middle - half, middle + half
        else:
            yield "logit t", *logit_t(y, c, differences=True)
        if kind == "binary" and k == 2:
            yield "tango", *tango(y)
            yield "newcombe", *newcombe(y)
    elif kind != "continuous":
        middle, half = wilson(y, k)
        yield "wilson", middle - half, middle + half
        if kind == "binary":
            yield "clopper", *clopper_pearson(y, sidak(k) / 2)
    else:
        yield "logit t", *logit_t(y, c, differences=False)


def cell(kind: str, n: int, k: int, mean: float, rho: float, samples: int) -> list[dict[str, object]]:
    """Return coverage, misses below and above, and half-widths of all methods in one cell."""
    rng = np.random.default_rng([56, KINDS.index(kind), n, k, round(100 * mean), round(100 * rho)])
    y = tables(kind, n, k, means_of(k, mean), rho, samples, rng)
    rows: list[dict[str, object]] = []
    for target in ("differences", "means"):
        truth = contrasts(k, target) @ means_of(k, mean)
        for name, lower, upper in limits_of(y, kind, target):
            misses = [(lower > truth + 1e-12).any(axis=1), (truth - 1e-12 > upper).any(axis=1)]
            key = {"kind": kind, "n": n, "models": k, "mean": mean, "correlation": rho, "target": target}
            key |= {"method": name, "samples": samples, "coverage": 1 - np.logical_or(*misses).mean()}
            half = float((upper - lower).mean() / 2)
            rows.append(key | {"above": misses[0].mean(), "below": misses[1].mean(), "half_width": half})
    return rows


def cluster_cells(samples: int) -> Iterator[dict[str, object]]:
    """Yield coverage and half-widths of fits with 20 and 60 clusters of 1 to 8 prompts, and with equal tasks."""
    for units, kind, mean in product((20, 60), ("clusters", "tasks"), (0.5, 0.9, 0.98)):
        rng = np.random.default_rng([57, units, round(100 * mean), len(kind)])
        size = 1 + np.arange(units) % 8 if kind == "clusters" else np.array([5, units - 5, 2 * units])
        code, k, covers, half = np.repeat(np.arange(len(size)), size), 3, [], []
        options = {"weights": dr.EqualTasks("unit")} if kind == "tasks" else {}
        if kind == "clusters":
            options = {"cov_type": "cluster", "cov_kwds": {"groups": "unit"}}
        for _ in range(samples):
            shared = rng.normal(size=(len(size), 1))[code] * (kind == "clusters")
            latent = np.sqrt(0.3) * shared + np.sqrt(0.7 if kind == "clusters" else 1) * rng.normal(size=(len(code), k))
            y = (latent < norm.ppf(mean)).astype(float)
            prompt, model = (place.ravel() for place in np.indices(y.shape))
            table = pd.DataFrame(
                {"prompt": prompt, "model": model.astype(str), "unit": code[prompt], "score": y.ravel()}
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                res = dr.dml_rank("score ~ 1 | model", table, **in_objects({"context": "prompt", "rng": 0, **options}))
            pairs, limits = res.t_test_pairwise().result_frame, res.conf_int()
            covers.append([(limits["lower"] <= mean).all() and (limits["upper"] >= mean).all()])
            covers[-1].append((pairs["conf_low"] <= 0).all() and (pairs["conf_high"] >= 0).all())
            half.append([(limits["upper"] - limits["lower"]).mean(), (pairs["conf_high"] - pairs["conf_low"]).mean()])
        for place, target in enumerate(("means", "differences")):
            key = {"kind": kind, "n": units, "models": k, "mean": mean, "correlation": 0.3, "target": target}
            key |= {"method": "dmlrank", "samples": samples, "coverage": np.mean(covers, axis=0)[place]}
            yield key | {"above": np.nan, "below": np.nan, "half_width": np.mean(half, axis=0)[place] / 2}


def gate_sizes(n: int, level: float, won: float, margins: Array) -> dict[str, float]:
    """Return the largest probability, over margins, that a release at its margin passes, by method.

    A prompt is lost with probability margin + ``won`` and won with probability ``won``; all outcomes are enumerated.
    """
    most = n if n <= 60 else int(n * (margins.max() + won) + 8 * np.sqrt(n * (margins.max() + won)) + 8)
    lost, gained = (part.ravel() for part in np.meshgrid(np.arange(most + 1), np.arange(most + 1 if won else 1)))
    is_possible = lost + gained <= n
    lost, gained = lost[is_possible], gained[is_possible]
    mean = (gained - lost) / n
    share = (gained + lost) / n
    z = norm.isf(level)
    raw = [share, mean]
    moments = Moments(
        np.full(len(mean), float(n)),
        mean,
        raw[0] - mean**2,
        raw[1] - 3 * mean * raw[0] + 2 * mean**3,
    )
    one = np.ones(len(mean))
    side = Side.of(moments, -one, one > 0, -one)
    limits = {
        "dmlrank": side.limit(z),
        "normal": mean - z * np.sqrt((share - mean**2) / n),
        "bonett-price": (gained - lost) / (n + 2)
        - z * np.sqrt((share * n + 2) / (n + 2) ** 2 - (mean * n) ** 2 / (n + 2) ** 3),
    }
    largest = dict.fromkeys(limits, 0.0)
    for margin in margins:
        log_p = np.array([np.log(margin + won), np.log(won) if won else 0.0, np.log1p(-margin - 2 * won)])
        probability = multinomial_log(lost, gained, n, log_p)
        for name, limit in limits.items():
            largest[name] = max(largest[name], float(probability[limit > -margin].sum()))
    return largest


def multinomial_log(lost: Array, gained: Array, n: int, log_p: Array) -> Array:
    """Return the probabilities of numbers of prompts lost and won."""
    rest = n - lost - gained
    coefficient = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(rest + 1)
    return np.exp(coefficient + lost * log_p[0] + gained * log_p[1] + rest * log_p[2])


def gate() -> pd.DataFrame:
    """Return the exact size of the gate over sixty margins, by number of prompts, level and share of prompts won."""
    rows = []
    for n, level, won in product((20, 50, 80, 120, 170, 300, 500, 1000), (0.05, 0.025), (0.0, 0.005, 0.02)):
        margins = np.linspace(0.005, 0.3, 60)
        rows.append({"n": n, "level": level, "won": won} | gate_sizes(n, level, won, margins))
    return pd.DataFrame(rows)


def cells() -> Iterator[tuple[str, int, int, float, float]]:
    """Yield the cells of the study."""
    for k, kind, n, mean, rho in product(MODELS, KINDS, SIZES, MEANS, CORRELATIONS):
        if k < max(MODELS) or n < max(SIZES):
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
    grouped = rows.groupby(["n", "target", "kind", "method"])
    return grouped.apply(figures_of, include_groups=False).round(3).reset_index()


def main() -> int:
    """Run the study or print and write its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "clusters", "tables", "gate"))
    parser.add_argument("--samples", type=int, default=400)
    given = parser.parse_args()
    if given.what == "run":
        run(given.samples)
    elif given.what == "clusters":
        rows = pd.DataFrame(cluster_cells(given.samples))
        rows.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False, float_format="%.5g")
    elif given.what == "gate":
        figures = gate()
        figures.to_csv(GATE_TABLE, index=False, float_format="%.4g")
        print(figures.to_string(index=False))
    else:
        figures = summary(pd.read_csv(RESULTS))
        figures.to_csv(TABLE, index=False)
        print(figures.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

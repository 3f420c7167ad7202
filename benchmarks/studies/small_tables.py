"""Which simultaneous intervals hold for small tables of scores.

Scores are 0/1 (with one or three runs a prompt) or continuous (beta). Models are correlated by a normal copula. Means
are alike, rare, or mixed from .02 to .98. Methods for all differences of models at once, or all means: ``normal`` and
``t`` are max-t with normal and Student's quantiles, ``dmlrank`` is a fit of the package. ``bonett-price`` is the
adjusted Wald interval of Bonett and Price (2012), ``logit t`` a t interval on the logit scale, ``wilson`` is for means:
what the package evalstats (0.3) recommends for 0/1 and for other bounded scores, here with Sidak's bound, as
``clopper`` (Clopper and Pearson 1934). ``tango`` is Tango's score interval, ``newcombe`` method 10 of Newcombe (1998),
both for two models.
A cell "clusters" or "tasks" has clusters of one to eight prompts, or three tasks of equal weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta, norm
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study

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


def scores_of(kind: str, n: int, k: int, means: Array, rho: float, rng: np.random.Generator) -> Array:
    """Return simulated mean scores of prompts and models, (n, k)."""
    latent = np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, k))
    if kind == "continuous":
        return beta.ppf(norm.cdf(latent), 4 * means, 4 * (1 - means))
    if kind == "binary":
        return (latent < norm.ppf(means)).astype(float)
    runs = rng.normal(size=(n, k, 3))
    return (np.sqrt(0.7) * latent[..., None] + np.sqrt(0.3) * runs < norm.ppf(means)[:, None]).mean(axis=-1)


def contrasts(k: int, target: str) -> Array:
    """Return all differences of models, or all models, (m, k)."""
    if target == "means":
        return np.eye(k)
    return np.array([np.eye(k)[a] - np.eye(k)[b] for a, b in combinations(range(k), 2)])


def max_t(y: Array, c: Array) -> tuple[Array, float]:
    """Return standard errors of contrasts, (m,), and their critical value; those without variance are left out."""
    factor = c @ ((y - y.mean(axis=0)) / len(y)).T
    se = np.sqrt(np.square(factor).sum(axis=1))
    varies = se > 1e-12
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(y.T, ddof=0)) / len(y))
    scaled = c[varies] @ (vectors * np.sqrt(np.maximum(values, 0.0))) / se[varies, None]
    normal = np.random.default_rng(1).normal(size=(DRAWS, y.shape[1]))
    return se, float(np.quantile(np.abs(scaled @ normal.T).max(axis=0, initial=0.0), LEVEL))


def sidak(m: int) -> float:
    """Return the level of each of m intervals."""
    return 1 - LEVEL ** (1 / m)


def bonett_price(y: Array, c: Array) -> tuple[Array, Array]:
    """Return adjusted Wald limits of differences, with Sidak's bound."""
    n, d = len(y), y @ c.T
    centre = d.sum(axis=0) / (n + 2)
    variance = ((d**2).sum(axis=0) + 2) / (n + 2) - centre**2
    half = norm.isf(sidak(len(c)) / 2) * np.sqrt(variance / (n + 2))
    return centre - half, centre + half


def of_shares(y: Array, m: int, method: str) -> tuple[Array, Array]:
    """Return limits of Wilson, or of Clopper and Pearson ("beta"), of means of scores, with Sidak's bound."""
    return proportion_confint(y.sum(axis=0), len(y), alpha=sidak(m), method=method)


def newcombe(y: Array) -> tuple[float, float]:
    """Return Newcombe's limits (method 10) of the difference of two paired proportions."""
    n, p = len(y), y.mean(axis=0)
    low, high = of_shares(y, 1, "wilson")
    (a, d), (b, c) = (
        ((y == value).all(axis=1).sum() for value in (1, 0)),
        ((s * (y[:, 0] - y[:, 1]) > 0).sum() for s in (1, -1)),
    )
    size, product_ = np.sqrt((a + b) * (c + d) * (a + c) * (b + d)), a * d - b * c
    product_ = product_ - n / 2 if product_ > n / 2 else min(product_, 0)
    phi = product_ / size if size > 0 else 0.0
    (x, u), (z, w) = (p - low), (high - p)
    reach = [np.sqrt(max(0, e**2 - 2 * phi * e * f + f**2)) for e, f in ((x, w), (z, u))]
    return p[0] - p[1] - reach[0], p[0] - p[1] + reach[1]


def logit_t(y: Array, c: Array, *, differences: bool) -> tuple[Array, Array]:
    """Return lower and upper limits of t intervals on the logit scale of bounded means or differences."""
    d = y @ c.T
    low, width = (-1.0, 2.0) if differences else (0.0, 1.0)
    unit = np.clip((d.mean(axis=0) - low) / width, 1e-9, 1 - 1e-9)
    se = d.std(axis=0, ddof=1) / np.sqrt(len(d)) / width / (unit * (1 - unit))
    reach = student.isf(sidak(len(c)) / 2, len(d) - 1) * se
    return low + width * expit(logit(unit) - reach), low + width * expit(logit(unit) + reach)


def tango(y: Array) -> tuple[float, float]:
    """Return limits of Tango's (1998) score interval of the difference of two paired proportions."""
    n, b, c = len(y), float((y[:, 0] > y[:, 1]).sum()), float((y[:, 0] < y[:, 1]).sum())

    def outside(delta: float) -> float:
        big_a, big_b = 2 * n, -b - c + (2 * n - b + c) * delta
        big_c = -c * delta * (1 - delta)
        q = (np.sqrt(max(big_b**2 - 4 * big_a * big_c, 0.0)) - big_b) / (2 * big_a)
        return (b - c - n * delta) / np.sqrt(max(n * (2 * q + delta * (1 - delta)), 1e-300))

    limits = []
    for sign in (1, -1):
        inner, outer = (b - c) / n, -float(sign)
        for _ in range(60):
            middle = (inner + outer) / 2
            is_in = sign * outside(middle) <= norm.isf((1 - LEVEL) / 2)
            inner, outer = (middle, outer) if is_in else (inner, middle)
        limits.append((inner + outer) / 2)
    return limits[0], limits[1]


def others(y: Array, kind: str, target: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name of every other method and its limits, (m,)."""
    n, k = y.shape
    c = contrasts(k, target)
    centre, (se, critical) = c @ y.mean(axis=0), max_t(y, c)
    yield "normal", centre - critical * se, centre + critical * se
    half = student.isf(norm.sf(critical), n - 1) * np.sqrt(n / (n - 1)) * se
    yield "t", centre - half, centre + half
    if kind == "continuous":
        yield "logit t", *logit_t(y, c, differences=target == "differences")
    elif target == "differences":
        yield "bonett-price", *bonett_price(y, c)
        if kind == "binary" and k == 2:
            yield "tango", *tango(y)
            yield "newcombe", *newcombe(y)
    else:
        yield "wilson", *of_shares(y, k, "wilson")
        if kind == "binary":
            yield "clopper", *of_shares(y, k, "beta")


def of_package(y: Array, **options: object) -> dict[str, tuple[Array, Array]]:
    """Return the limits of all differences and of all means by the package, for scores of prompts and models."""
    prompt, model = (place.ravel() for place in np.indices(y.shape))
    table = pd.DataFrame({"prompt": prompt, "model": [f"m{j:02d}" for j in model], "score": y.ravel()})
    unit = options.pop("unit", None)
    table = table if unit is None else table.assign(unit=np.asarray(unit)[prompt])
    options = in_objects({"context": "prompt", "rng": 0, "n_jobs": 1, **options})
    fit = dr.dml_rank("score ~ 1 | model", table, **options)
    place, limits = {name: j for j, name in enumerate(sorted(fit.models))}, fit.conf_int().sort_index()
    pairs = fit.t_test_pairwise().result_frame
    first, second = (pairs[side].map(place).to_numpy() for side in ("first", "second"))
    low, high = np.zeros((2, y.shape[1], y.shape[1]))
    low[first, second], high[first, second] = pairs["conf_low"], pairs["conf_high"]
    low[second, first], high[second, first] = -pairs["conf_high"], -pairs["conf_low"]
    above = np.triu_indices(y.shape[1], 1)
    return {"differences": (low[above], high[above]), "means": (limits["lower"].to_numpy(), limits["upper"].to_numpy())}


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Whether the limits of every method hold in one table, and their mean half-width."""
    kind, n, k, mean, rho = cell.split(", ")
    n, k, rng = int(n), int(k), np.random.default_rng([56, seed, CELLS.index(cell)])
    if kind in ("clusters", "tasks"):
        truth = np.full(k, float(mean))
        size = 1 + np.arange(n) % 8 if kind == "clusters" else np.array([5, n - 5, 2 * n])
        code = np.repeat(np.arange(len(size)), size)
        shared = rng.normal(size=(len(size), 1))[code] * (kind == "clusters")
        latent = np.sqrt(0.3) * shared + np.sqrt(0.7 if kind == "clusters" else 1) * rng.normal(size=(len(code), k))
        options = {"weights": dr.EqualTasks("unit")} if kind == "tasks" else {"cov_type": "cluster"}
        options |= {} if kind == "tasks" else {"cov_kwds": {"groups": "unit"}}
        y = (latent < norm.ppf(truth)).astype(float)
        ours = of_package(y, unit=code, **options)
    else:
        truth = means_of(k, float(mean))
        y = scores_of(kind, n, k, truth, float(rho), rng)
        ours = of_package(y)
    for target in ("differences", "means"):
        true = contrasts(k, target) @ truth
        rest = others(y, kind, target) if kind in KINDS else ()
        for name, lower, upper in (("dmlrank", *ours[target]), *rest):
            holds = ((lower <= true + 1e-12) & (true - 1e-12 <= upper)).all()
            yield {"target": target, "method": name, "holds": holds, "half": np.mean(upper - lower) / 2}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """How often a method holds (0.93), its lowest and median coverage, and its width where it holds."""
    rows = rows.assign(kind=rows["cell"].str.split(", ").str[0], n=rows["cell"].str.split(", ").str[1].astype(int))
    cells = rows.groupby(["cell", "n", "target", "kind", "method"])[["holds", "half"]].mean().reset_index()
    holds = cells["holds"] >= 0.93
    best = cells[holds].groupby(["cell", "target"])["half"].min().rename("best").reset_index()
    cells = cells.merge(best, on=["cell", "target"], how="left")
    cells["ratio"] = (cells["half"] / cells["best"]).where(cells["holds"] >= 0.93)
    by = cells.groupby(["n", "target", "kind", "method"])
    made = by.agg(cells=("holds", "size"), holds=("holds", lambda share: (share >= 0.93).mean()))
    made = made.join(by["holds"].agg(lowest="min", median="median"))
    made["width / narrowest that holds"] = by["ratio"].median()
    return {"small_tables": made.round(3).reset_index()}


CELLS = tuple(
    ", ".join(map(str, (kind, n, k, mean, rho)))
    for k, kind, n, mean, rho in product(MODELS, KINDS, SIZES, MEANS, CORRELATIONS)
    if k < max(MODELS) or n < max(SIZES)
) + tuple(
    f"{kind}, {n}, 3, {mean}, 0.3" for n, kind, mean in product((20, 60), ("clusters", "tasks"), (0.5, 0.9, 0.98))
)
STUDY = Study(CELLS, replicate, tables, 300)

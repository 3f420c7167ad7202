"""Do intervals of scores and slopes at equal style cover, and how far off is the parametric route of the arenas?

Battles come from the simulator in tests/styled.py, whose lengths and headers depend on prompt and model, and whose
truth is computed by quadrature. In "linear" the log-odds are linear in style; in "curved" they are not, and slopes are
variance-weighted means. The arenas' route is one logistic Bradley-Terry regression with standardised style columns, a
ridge (that of scikit-learn's default, C = 1) and a bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from tests.styled import Styled

from .runner import Row, Study, covers

CURVED = {"linear": 0.0, "curved": 1.0}
STYLE = ["log_length", "headers"]
truth_of = cache(lambda cell, functional: Styled(nonlinearity=CURVED[cell]).truth(functional))


def replicate(cell: str, seed: int, n: int = 3000, bootstrap: int = 100) -> Iterator[Row]:
    """Rows of the slopes and of the coverage of all scores, for both links and for the arenas' route."""
    battles = Styled(nonlinearity=CURVED[cell]).sample(n, rng=seed)
    fit = dr.dml_rank(
        "winner ~ x0 + x1 | model_a + model_b",
        battles,
        adjust=f"~ {' + '.join(STYLE)}",
        position_bias=False,
        rng=seed,
        n_jobs=1,
    )
    for functional in ("bt", "borda"):
        fit, truth = fit.update(functional=functional), truth_of(cell, functional)
        yield {"functional": functional, "quantity": "scores", "covers": covers(fit, truth.equal)}
        for name, slope, se in zip(STYLE, fit.style.params, fit.style.bse, strict=True):
            error = slope - truth.slopes[name]
            head = {"functional": functional, "quantity": name, "covers": abs(error) < 1.959964 * se}
            yield {**head, "error": error, "se": se}
    yield from arena_rows(battles, cell, seed, bootstrap)


def arena_rows(battles: pd.DataFrame, cell: str, seed: int, bootstrap: int) -> Iterator[Row]:
    """Style columns in a logistic Bradley-Terry regression: a row per score and slope."""
    models, n = sorted(battles["model_a"].unique()), len(battles)
    sides = (pd.get_dummies(battles[side])[models].to_numpy(float) for side in ("model_a", "model_b"))
    style = battles[STYLE].to_numpy()
    spread = style.std(axis=0)
    design = np.hstack([np.subtract(*sides), (style - style.mean(axis=0)) / spread])
    y = battles["winner"].map({"model_a": 1.0, "tie": 0.5, "model_b": 0.0}).to_numpy()
    rng, weights = np.random.default_rng(seed), [np.ones(n)]
    weights += [rng.multinomial(n, np.full(n, 1 / n)).astype(float) for _ in range(bootstrap)]
    found = np.stack([ridge_logistic(design, y, weight) for weight in weights])
    found[:, : len(models)] -= found[:, : len(models)].mean(axis=1, keepdims=True)
    found[:, len(models) :] /= spread
    truth = truth_of(cell, "bt")
    target = np.concatenate([truth.equal.to_numpy(), truth.slopes.to_numpy()])
    low, high = np.quantile(found[1:], [0.025, 0.975], axis=0)
    for place, name in enumerate([*models, *STYLE]):
        row = {"functional": "arenas", "quantity": name, "covers": low[place] <= target[place] <= high[place]}
        yield {**row, "error": found[0, place] - target[place], "se": found[1:, place].std()}


def ridge_logistic(design: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients of a logistic regression with a ridge, by Newton's method."""
    theta = np.zeros(design.shape[1])
    for _ in range(8):
        p = expit(design @ theta)
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design + np.eye(len(theta))
        theta += np.linalg.solve(hessian, design.T @ (weight * (y - p)) - theta)
    return theta


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage and bias of scores and slopes at equal style, and of the arenas' route."""
    by = rows.groupby(["cell", "functional", "quantity"], sort=False)
    figures = by.agg(covers=("covers", "mean"), bias=("error", "mean"), sd=("error", "std"), se=("se", "mean"))
    equal, arenas = [], []
    for (cell, functional), part in figures.groupby(level=[0, 1], sort=False):
        part = part.droplevel([0, 1])
        if functional == "arenas":
            for name, (covered, bias, sd, se) in part.iterrows():
                arenas.append((cell, name, f"{bias:+.3f}", f"{sd:.3f}", f"{se:.3f}", f"{covered:.2f}"))
            continue
        pairs = [", ".join(f"{v:{sign}.3f}" for v in part.loc[STYLE, c]) for c, sign in zip(part, "-+--", strict=True)]
        shares = [f"{part.loc[name, 'covers']:.3f}" for name in ("scores", *STYLE)]
        equal.append((cell, functional, *shares, *pairs[1:]))
    columns = ["scenario", "functional", "coverage: scores", *STYLE, "bias of the slopes", "spread of the slopes"]
    regression = ["scenario", "quantity", "bias", "spread", "mean bootstrap std. err.", "coverage"]
    return {
        "style_equal": pd.DataFrame(equal, columns=[*columns, "mean std. err."]),
        "style_regression": pd.DataFrame(arenas, columns=regression),
    }


STUDY = Study(tuple(CURVED), replicate, tables, 200, {"n": 600, "bootstrap": 20})

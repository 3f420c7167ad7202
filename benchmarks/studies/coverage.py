"""Do the intervals cover? Data sets with known truth from many scenarios, with the learner and with the true nuisances.

Every replication fits all functionals, debiased and plug-in. A simultaneous interval covers when it holds for all
models at once. The oracle's intervals come from the plain mean of its influence values' squares, which is the efficient
variance: the correction for a shrunken mu, which a fit adds to it, has nothing to correct there. The learner "given"
has the true nuisances, too, and the intervals of the fit.

    python -m benchmarks.studies coverage --cells "ties-0-1000, auto" "ties-0-1000, oracle" --seeds 300
    python -m benchmarks.studies.coverage    # a small study that fails where coverage leaves its band
"""

from __future__ import annotations

import os

# The processes share the cores; threads within each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.scenarios import FUNCTIONALS, Scenario, scenarios
from dmlrank.options import in_objects

from .runner import Row, Study, clopper_pearson, replication

# What a warning of the intervals begins with; others are about the data's form.
_DOUBTS = ("the standard error of", "too few labels for this functional", "the fitted probabilities are")
# Cell and seeds of the small study.
_SMALL, _SMALL_SEEDS = "ties-5-1000, auto", 40


@cache
def truth_of(name: str) -> pd.DataFrame:
    """True scores of a scenario, computed once per process."""
    return scenarios()[name].truth()


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """All fits of one scenario, seed and learner: a row per functional and estimator, or one that says what failed."""
    name, _, learner = cell.rpartition(", ")
    scenario, truth = scenarios()[name], truth_of(name)
    try:
        fit = first_fit(scenario, seed, learner)
    except dr.DmlrankError as error:
        yield {"failed": f"{type(error).__name__}: {error}"[:80]}
        return
    for functional in FUNCTIONALS:
        for estimator in ("debiased",) if learner == "oracle" else ("debiased", "plugin"):
            fit = fit.update(functional=functional, estimator=estimator)
            limits = efficient_limits(fit, scenario.cluster) if learner == "oracle" else limits_of(fit)
            true, known = truth[functional], fit.diagnostics
            error = fit.params - true
            yield {
                "functional": functional,
                "estimator": estimator,
                "covers": bool(((limits["lower"] <= true) & (true <= limits["upper"])).all()),
                "mse": float((error**2).mean()),
                "error_top": float(error[true.idxmax()]),
                "half_width": float((limits["upper"] - limits["lower"]).mean() / 2),
                "warned": any(text.startswith(_DOUBTS) for text in known.warnings),
            }


def limits_of(fit: dr.RankResults) -> pd.DataFrame:
    """Simultaneous 95 % limits from the covariance, which the plug-in has, too, though it claims no intervals."""
    half_width = fit.estimates.critical * np.sqrt(np.diag(fit.cov_params()))
    return pd.DataFrame({"lower": fit.params - half_width, "upper": fit.params + half_width})


def efficient_limits(fit: dr.RankResults, cluster: int) -> pd.DataFrame:
    """Simultaneous 95 % limits from the influence values as they are; ``cluster`` contexts in a row belong together."""
    phi = fit.influence
    n, factor = len(phi), 1.0
    if cluster:
        groups = np.arange(n) // cluster
        phi = np.stack([np.bincount(groups, weights=column) for column in phi.T], axis=1)
        factor = len(phi) / (len(phi) - 1)
    covariance = factor * phi.T @ phi / n**2
    errors = np.sqrt(np.diag(covariance))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(errors)), covariance, 50_000, method="eigh")
    half_width = np.quantile(np.abs(draws / errors).max(axis=1), 0.95) * errors
    return pd.DataFrame({"lower": fit.params - half_width, "upper": fit.params + half_width})


def first_fit(scenario: Scenario, seed: int, learner: str) -> dr.RankResults:
    """Fit the data set of a seed with a learner, or with the true nuisances."""
    draw = scenario.draw(seed)
    options = {"propensity": "propensity", **draw.options, "rng": seed, "n_jobs": 1}
    if learner in ("oracle", "given"):
        options |= {"mu": draw.mu, "propensity": "propensity", "floor": 0.0}
    else:
        options["learner"] = learner
    return dr.dml_rank(scenario.formula, draw.frame, **in_objects(options))


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Figures by learner and estimator; the learner beside the oracle and the plug-in, where there are all of them."""
    rows = rows.assign(learner=rows["cell"].str.rpartition(", ")[2], scenario=rows["cell"].str.rpartition(", ")[0])
    if "failed" in rows:
        rows = rows[rows["failed"].isna()]
    by_learner, beside = [], []
    for (scenario, functional), part in rows.groupby(["scenario", "functional"], sort=False):
        by = {key: group.set_index("seed") for key, group in part.groupby(["learner", "estimator"], sort=False)}
        for (learner, estimator), own in by.items():
            covers, (low, high) = own["covers"].mean(), clopper_pearson(int(own["covers"].sum()), len(own))
            missed = own["warned"][~own["covers"].astype(bool)]
            row = {"scenario": scenario, "functional": functional, "learner": learner, "estimator": estimator}
            row |= {"seeds": len(own), "coverage [99 % band]": f"{covers:.3f} [{low:.2f}, {high:.2f}]"}
            bias = f"{own['error_top'].mean() / np.sqrt(own['mse'].mean()):+.2f}"
            doubts = {
                "warned": f"{own['warned'].mean():.2f}",
                "when missed": f"{missed.mean():.2f}" if len(missed) else "-",
            }
            by_learner.append(row | {"bias / RMSE": bias} | doubts)
            oracle, plugin = by.get(("oracle", "debiased")), by.get(("auto", "plugin"))
            if (learner, estimator) == ("auto", "debiased") and oracle is not None and plugin is not None:
                oracle = oracle.reindex(own.index).dropna(how="all")
                mse, width = (own[name].mean() / oracle[name].mean() for name in ("mse", "half_width"))
                row = {name: row[name] for name in ("scenario", "functional", "seeds", "coverage [99 % band]")}
                row |= {"oracle": f"{oracle['covers'].mean():.3f}", "plug-in": f"{plugin['covers'].mean():.2f}"}
                row["MSE, plug-in / debiased"] = f"{plugin['mse'].mean() / own['mse'].mean():.2f}"
                row |= {"MSE / oracle": f"{mse:.2f}", "width / oracle": f"{width:.2f}", "bias / RMSE": bias}
                beside.append(row | doubts)
    made = {"coverage_by_learner": by_learner, "coverage": beside}
    return {title: pd.DataFrame(part) for title, part in made.items() if part}


def check() -> bool:
    """A small study that fails where coverage leaves its band or the plug-in's intervals are as good."""
    rows = [row for seed in range(_SMALL_SEEDS) for row in replication("coverage", _SMALL, 10_000 + seed)]
    good = True
    for functional, group in pd.DataFrame(rows).groupby("functional"):
        share = group.groupby("estimator")["covers"].mean()
        low, high = clopper_pearson(round(share["debiased"] * _SMALL_SEEDS), _SMALL_SEEDS, 0.999)
        held = low <= 0.95 <= high and share["plugin"] < share["debiased"]
        good &= held
        shares = f"debiased {share['debiased']:.2f}, plug-in {share['plugin']:.2f}"
        print(f"{functional:16s} {shares} {'' if held else 'OUT OF ITS BAND'}", flush=True)
    return good


CELLS = tuple(f"{name}, {learner}" for name in scenarios() for learner in ("auto", "oracle", "given"))
STUDY = Study(CELLS, replicate, tables, 200)

if __name__ == "__main__":
    raise SystemExit(not check())

"""Why do the intervals of bt cover less than the oracle's? Errors over standard errors of both, on the same samples.

Every replication fits bt twice to a data set of the coverage study, with the default learner and with the true
nuisances, and keeps each model's estimate and standard error. The oracle's are those of the efficient variance.

The decomposition describes, for each estimator, the errors and the logarithms of the standard errors of all models as
jointly normal with the moments of the samples, and takes the coverage of the simultaneous intervals from draws. The
oracle is unbiased, so that the bias of the default is estimated by the mean of the paired differences, and errors are
scaled by the oracle's standard deviations. Leaving the bias or the correlation out shows what each of them costs.

The table is resumable: replications that it holds are not run again.

    python benchmarks/studentised.py run --scenarios ties-5-1000 ties-0-1000 --seeds 100
    python benchmarks/studentised.py tables
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import sys
import warnings

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.coverage import first_fit, truth_of
from benchmarks.scenarios import scenarios

RESULTS = pathlib.Path(__file__).parent / "results" / "studentised.csv"
COLUMNS = (
    "scenario",
    "seed",
    "model",
    "truth",
    "default",
    "default_se",
    "default_critical",
    "oracle",
    "oracle_se",
    "oracle_critical",
)
# Seeds of the coverage study end below.
_FIRST_SEED = 300
_DRAWS = 400_000


def replicate(name: str, seed: int) -> list[dict[str, object]]:
    """Return a row per model for one data set."""
    scenario, truth = scenarios()[name], truth_of(name)["bt"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        default, oracle = (first_fit(scenario, seed, learner).update(functional="bt") for learner in ("auto", "oracle"))
    phi = oracle.influence
    covariance = phi.T @ phi / len(phi) ** 2
    critical, errors = _critical_value(covariance), np.sqrt(np.diag(covariance))
    return [
        {
            "scenario": name,
            "seed": seed,
            "model": model,
            "truth": round(float(truth[model]), 6),
            "default": round(float(default.params[model]), 6),
            "default_se": round(float(default.bse[model]), 6),
            "default_critical": round(default.estimates.critical, 5),
            "oracle": round(float(oracle.params[model]), 6),
            "oracle_se": round(float(error), 6),
            "oracle_critical": round(critical, 5),
        }
        for model, error in zip(default.params.index, errors, strict=True)
    ]


def _critical_value(covariance: np.ndarray) -> float:
    """Return the 95 % quantile of the largest absolute z statistic, by simulation."""
    errors = np.sqrt(np.diag(covariance))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(errors)), covariance, 50_000, method="eigh")
    return float(np.quantile(np.abs(draws / errors).max(axis=1), 0.95))


def run(names: list[str], seeds: int) -> None:
    """Add the replications that the table does not hold yet."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[["scenario", "seed"]].itertuples(index=False, name=None))
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        for seed in range(_FIRST_SEED, _FIRST_SEED + seeds):
            for name in names:
                if (name, seed) not in done:
                    writer.writerows(replicate(name, seed))
                    file.flush()


def coverage_of(results: pd.DataFrame) -> pd.DataFrame:
    """Return whether the simultaneous intervals cover: a row per sample, with estimates and errors exchanged, too."""
    covers = {}
    for estimate in ("default", "oracle"):
        for error in ("default", "oracle"):
            half_width = results[f"{error}_se"] * results[f"{error}_critical"]
            inside = (results[estimate] - results["truth"]).abs() <= half_width
            covers[f"{estimate}, errors of {error}"] = inside.groupby([results["scenario"], results["seed"]]).all()
    return pd.DataFrame(covers).astype(float)


def moments(results: pd.DataFrame) -> pd.DataFrame:
    """Return moments of the errors by scenario and model, bias and deviations in the estimator's standard errors."""
    rows = {}
    for key, group in results.groupby(["scenario", "model"]):
        row = {"truth": group["truth"].iloc[0], "samples": len(group)}
        for name in ("default", "oracle"):
            error, se = group[name] - group["truth"], group[f"{name}_se"]
            z = error / se
            row |= {
                f"{name} bias": (group[name] - group["oracle"]).mean() / se.mean(),
                f"{name} sd / se": error.std() / se.mean(),
                f"{name} correlation": np.corrcoef(error, se)[0, 1],
                f"{name} skewness": z.skew(),
            }
        rows[key] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def decomposition(results: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage that normal errors and log standard errors with these moments would have, by scenario."""
    rows = {name: _decomposed(group) for name, group in results.groupby("scenario")}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.loc["mean"] = table.mean()
    return table


def _decomposed(results: pd.DataFrame) -> dict[str, float]:
    samples = results.set_index(["seed", "model"])
    error, log_se, scale, critical = {}, {}, {}, {}
    for name in ("default", "oracle"):
        se = samples[f"{name}_se"].unstack()
        scale[name] = se.mean()
        error[name] = (samples[name] - samples["truth"]).unstack() / scale[name]
        log_se[name] = np.log(se / scale[name])
        critical[name] = float(samples[f"{name}_critical"].mean())
    k, unit = error["oracle"].shape[1], error["oracle"].std()
    bias = ((samples["default"] - samples["oracle"]).unstack().mean() / scale["default"] / unit).to_numpy()

    def coverage(name: str, *, biased: bool, correlated: bool) -> float:
        joint = np.cov(np.hstack([error[name] / unit, log_se[name]]).T)
        if not correlated:
            joint[:k, k:] = joint[k:, :k] = 0.0
        mean = np.concatenate([bias if biased else np.zeros(k), np.zeros(k)])
        draws = np.random.default_rng(0).multivariate_normal(mean, joint, _DRAWS, method="eigh")
        return float((np.abs(draws[:, :k]) <= critical[name] * np.exp(draws[:, k:])).all(axis=1).mean())

    return {
        "oracle": coverage("oracle", biased=False, correlated=True),
        "default without bias": coverage("default", biased=False, correlated=True),
        "default without correlation": coverage("default", biased=True, correlated=False),
        "default without both": coverage("default", biased=False, correlated=False),
        "default": coverage("default", biased=True, correlated=True),
    }


def main(argv: list[str]) -> int:
    """Run, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "tables"))
    parser.add_argument("--scenarios", nargs="+", default=["ties-0-1000", "ties-5-1000", "ties-0-3000", "ties-5-3000"])
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args(argv)
    if arguments.command == "run":
        run(arguments.scenarios, arguments.seeds)
        return 0
    results = pd.read_csv(RESULTS)
    covers = coverage_of(results)
    difference = covers["default, errors of default"] - covers["oracle, errors of oracle"]
    print(f"{len(covers)} samples", covers.mean().round(3).to_string(), sep="\n")
    print(f"default less oracle {difference.mean():.4f}, paired standard error {difference.sem():.4f}\n")
    for table in (moments(results), decomposition(results)):
        print(table.round(3).to_string(), "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

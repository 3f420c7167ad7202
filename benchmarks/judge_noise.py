"""A simulated judge of six qualities: error and coverage of the two-stage estimator and of the paper's variant.

The judge sees the true preference probabilities through Gaussian noise on the logit scale [P app:sim]. Every
replication fits all functionals without a judge, with the true mu, with the judge in two stages, and with its verdict
as a feature of mu. Each use of the judge is compared with the same learner without a judge: the default learner for two
stages, LightGBM alone for the features. Rows are appended to a table, so that a study can grow.

    python -m benchmarks.judge_noise run --seeds 50
    python -m benchmarks.judge_noise table --figure judge_noise.png
"""

from __future__ import annotations

import argparse
import os
import pathlib
import warnings
from collections.abc import Iterator, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import softmax
from scipy.stats import beta

import dmlrank as dr
from benchmarks.paper.ways import verdicts_on_all_pairs

RESULTS = pathlib.Path(__file__).parent / "results" / "judge_noise.csv"
NOISE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FUNCTIONALS = ("borda", "bt", "rank_centrality")
SIMULATOR = dr.datasets.Ties(n_features=5, selection_strength=0.1, propensity_max=0.5)
CONTEXTS = 2000
# The fits without a judge, by how the judge is used.
WITHOUT_JUDGE = {"two-stage": "no judge", "features": "no judge, LightGBM"}


def judge_of(mu: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Noisy probabilities, (n, K, K, C), NaN on the diagonal."""
    with np.errstate(divide="ignore"):
        logits = np.log(mu) + noise * rng.normal(size=mu.shape)
    logits[:, np.arange(mu.shape[1]), np.arange(mu.shape[1])] = np.nan
    return np.asarray(softmax(logits, axis=-1))


def replicate(seed: int, truth: pd.DataFrame, features: bool) -> Iterator[dict[str, object]]:
    """All fits of one data set."""
    rng = np.random.default_rng(seed)
    battles = SIMULATOR.sample(CONTEXTS, rng)
    contexts = battles.drop_duplicates("question_id")
    mu = SIMULATOR.mu(contexts[[f"x{p}" for p in range(SIMULATOR.n_features)]].to_numpy())
    formula = "winner ~ " + " + ".join(f"x{p}" for p in range(SIMULATOR.n_features)) + " | model_a + model_b"
    fit = dr.dml_rank(formula, battles, context="question_id", propensity="propensity", rng=seed, n_jobs=1)
    yield from figures(fit, truth, {"seed": seed, "noise": np.nan, "how": WITHOUT_JUDGE["two-stage"]})
    if features:
        yield from figures(
            fit.update(learner="lightgbm"), truth, {"seed": seed, "noise": np.nan, "how": WITHOUT_JUDGE["features"]}
        )
    given = dr.dml_rank(
        formula,
        battles,
        context="question_id",
        propensity="propensity",
        learning=dr.Learning(mu=mu, floor=0.0),
        n_jobs=1,
    )
    yield from figures(given, truth, {"seed": seed, "noise": np.nan, "how": "true mu"})
    for noise in NOISE:
        judge = verdicts_on_all_pairs(SIMULATOR, battles, judge_of(mu, noise, rng))
        for how in ("two-stage", "features") if features else ("two-stage",):
            judged = fit.update(judge=judge, judge_as=how)
            yield from figures(judged, truth, {"seed": seed, "noise": noise, "how": how})


def figures(fit: dr.RankResults, truth: pd.DataFrame, common: dict[str, object]) -> Iterator[dict[str, object]]:
    """Squared error, coverage of single and of simultaneous intervals and standard error, by functional."""
    for functional in FUNCTIONALS:
        result = fit.update(functional=functional)
        error = result.params - truth[functional]
        joint = result.conf_int()
        yield common | {
            "functional": functional,
            "mse": float((error**2).mean()),
            "single": float((error.abs() <= 1.959964 * result.bse).mean()),
            "joint": bool(((joint["lower"] <= truth[functional]) & (truth[functional] <= joint["upper"])).all()),
            "variance": float((result.bse**2).mean()),
        }


def run(seeds: Sequence[int], features: bool) -> None:
    """Append the replications that the table does not hold."""
    RESULTS.parent.mkdir(exist_ok=True)
    known = set(pd.read_csv(RESULTS)["seed"]) if RESULTS.exists() else set()
    truth = pd.DataFrame({name: SIMULATOR.truth(name) for name in FUNCTIONALS})
    for seed in seeds:
        if seed not in known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dr.DmlrankWarning)
                rows = pd.DataFrame(list(replicate(seed, truth, features)))
            rows.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False)
            print(f"seed {seed}", flush=True)


def table() -> pd.DataFrame:
    """Mean squared error relative to no judge, with its standard error over seeds, and coverage with binomial bands."""
    rows = pd.read_csv(RESULTS)
    base = rows.set_index(["how", "seed", "functional"])["mse"]
    made = []
    for (functional, how, noise), part in rows.groupby(["functional", "how", "noise"], dropna=False):
        own = part.set_index("seed")["mse"]
        without = base.xs((WITHOUT_JUDGE.get(how, WITHOUT_JUDGE["two-stage"]), functional), level=("how", "functional"))
        own = own[own.index.isin(without.index)]
        without = without.loc[own.index]
        gap = own - without
        n, hits = len(part), int(part["joint"].sum())
        made.append(
            {
                "functional": functional,
                "how": how,
                "noise": noise,
                "seeds": n,
                "relative_mse": own.mean() / without.mean(),
                "se": gap.std(ddof=1) / np.sqrt(n) / without.mean() if n > 1 else np.nan,
                "single": part["single"].mean(),
                "joint": hits / n,
                "joint_low": beta.ppf(0.005, hits, n - hits + 1) if hits else 0.0,
                "joint_high": beta.ppf(0.995, hits + 1, n - hits) if hits < n else 1.0,
                "se_over_rmse": np.sqrt(part["variance"].mean() / own.mean()),
            }
        )
    return pd.DataFrame(made)


def draw(path: str) -> None:
    """Relative error against noise, a panel per functional."""
    import matplotlib.pyplot as plt

    found = table()
    figure, axes = plt.subplots(1, len(FUNCTIONALS), figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, functional in zip(axes, FUNCTIONALS, strict=True):
        for how in ("two-stage", "features"):
            part = found[(found["functional"] == functional) & (found["how"] == how)].sort_values("noise")
            if len(part):
                axis.errorbar(part["noise"], part["relative_mse"], 1.96 * part["se"], marker="o", label=how, capsize=2)
        axis.axhline(1.0, color="grey", linewidth=1)
        axis.set(title=functional, xlabel="noise of the judge (logits)")
    axes[0].set_ylabel("squared error, without a judge = 1")
    axes[0].legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--no-features", action="store_true", help="leave the paper's variant out")
    parser.add_argument("--figure", metavar="OUT")
    given = parser.parse_args()
    if given.what == "run":
        run(range(given.first, given.first + given.seeds), not given.no_features)
    print(table().round(3).to_string(index=False))
    if given.figure:
        draw(given.figure)


if __name__ == "__main__":
    main()

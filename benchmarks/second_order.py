"""Is the second-order bias of bt removed? Paired replications with and without, and what the estimate costs.

A replication fits a scenario of ``benchmarks/scenarios.py`` with the default learner, once with ``second_order=True``
and once without, and with the true nuisances. Rows are appended to a table; replications that it holds are not run
again.

    python benchmarks/second_order.py run --seeds 40
    python benchmarks/second_order.py tables
    python benchmarks/second_order.py real --seeds 200
    python benchmarks/second_order.py cost
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import pathlib
import resource
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from benchmarks.coverage import _efficient_limits, _limits, first_fit
from benchmarks.scenarios import Scenario, scenarios
from dmlrank.exceptions import DmlrankWarning
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "second_order.csv"
TABLE = pathlib.Path(__file__).parents[1] / "docs" / "results" / "second_order.csv"
COLUMNS = ("scenario", "seed", "estimate", "covers", "mse", "error_top", "half_width", "change_top", "own_error_top")


@dataclass(frozen=True, slots=True)
class Steps:
    """Four models whose strengths are steps in one feature and products of two others."""

    n_items = 4
    n_features = 3
    n_categories = 2
    models = ("model_0", "model_1", "model_2", "model_3")

    def features(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Features, (n, 3)."""
        return rng.uniform(-1, 1, (n, 3))

    def mu(self, x: np.ndarray) -> np.ndarray:
        """Probabilities, (n, K, K, 2)."""
        step, product = np.where(x[:, 0] > 0.2, 1.0, -0.6), 1.5 * x[:, 1] * x[:, 2]
        scores = np.stack([0.8 + step, 0.3 + product, -0.2 - step, -0.9 - product], axis=1)
        won = expit(scores[:, :, None] - scores[:, None, :])
        mu = np.stack([won, 1 - won], axis=-1)
        items = np.arange(4)
        mu[:, items, items] = 0.0
        return mu

    def propensity(self, x: np.ndarray) -> np.ndarray:
        """Propensities of the ordered pairs, (n, K, K)."""
        pi = np.full((len(x), 4, 4), 1 / 6)
        items = np.arange(4)
        pi[:, items, items] = 0.0
        return pi


def studied() -> dict[str, Scenario]:
    """The scenarios of the study by name."""
    names = (
        "five features",
        "five features, extreme draw",
        "ties-0-1000",
        "ties-5-1000",
        "ties-7-1000",
        "ties-9-1000",
        "no minimum mass",
        "four categories",
        "incomplete graph",
        "clusters",
        "rare pairs",
        "one pair of 6 models chosen by prompt, estimated propensities",
        "98 noise features",
        "ties-0-3000",
        "ties-5-3000",
        "ties-7-3000",
        "ties-9-3000",
        "one pair of 20 models, estimated propensities",
    )
    known = scenarios()
    return {"steps and products": Scenario("steps and products", Steps(), 1500)} | {name: known[name] for name in names}


@lru_cache
def truth_of(name: str) -> pd.Series:
    """True scores of a scenario, computed once per process."""
    return studied()[name].truth()["bt"]


def replicate(name: str, seed: int) -> list[dict[str, object]]:
    """Fit one data set three times: a row for each."""
    scenario, rows = studied()[name], []
    truth = truth_of(name)
    best = truth.idxmax()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        removed = first_fit(scenario, seed, "auto").update(functional="bt")
        fits = {"removed": removed, "left in": removed.update(second_order=False)}
        fits["oracle"] = first_fit(scenario, seed, "oracle").update(functional="bt")
    for estimate, fit in fits.items():
        limits = _efficient_limits(fit, scenario.cluster) if estimate == "oracle" else _limits(fit)
        error = fit.params - truth
        known = {model: (bias, own) for model, bias, own in fit.diagnostics.second_order_by_model}
        bias, own = known.get(best, (np.nan, np.nan))
        rows.append(
            {
                "scenario": name,
                "seed": seed,
                "estimate": estimate,
                "covers": int(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
                "mse": f"{float((error**2).mean()):.5g}",
                "error_top": f"{error[best]:.5g}",
                "half_width": f"{float((limits['upper'] - limits['lower']).mean() / 2):.5g}",
                "change_top": f"{-bias * fit.bse[best]:.4g}",
                "own_error_top": f"{own * fit.bse[best]:.4g}",
            }
        )
    return rows


def run(names: list[str], seeds: int, processes: int) -> None:
    """Add the replications that are missing to the table, a seed of every scenario before the next seed."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[["scenario", "seed"]].drop_duplicates().itertuples(index=False, name=None))
    tasks = [(name, seed) for seed in range(seeds) for name in names if (name, seed) not in done]
    with (
        RESULTS.open("a", newline="") as file,
        ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as workers,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for future in as_completed([workers.submit(replicate, *task) for task in tasks]):
            writer.writerows(future.result())
            file.flush()


def tables() -> None:
    """Print coverage, bias of the best model and squared errors, with paired standard errors; write them to docs/."""
    table = pd.read_csv(RESULTS)
    rows, ratios = [], []
    for name, group in table.groupby("scenario", sort=False):
        by = group.pivot(index="seed", columns="estimate")
        n, mse = len(by), by["mse"]
        ratio = mse["removed"].mean() / mse["left in"].mean()
        error = (mse["removed"] - ratio * mse["left in"]).std() / np.sqrt(n) / mse["left in"].mean()
        ratios.append((mse["removed"] / mse["left in"].mean()).rename(name))
        bias = {k: by["error_top"][k].mean() / np.sqrt(np.square(by["error_top"][k]).mean()) for k in mse}
        difference = by["covers"]["removed"] - by["covers"]["left in"]
        rows.append(
            {
                "scenario": name,
                "n": n,
                **{f"coverage {k}": f"{by['covers'][k].mean():.3f}" for k in ("left in", "removed", "oracle")},
                "difference (se)": f"{difference.mean():+.3f} ({difference.std() / np.sqrt(n):.3f})",
                "bias / RMSE": f"{bias['left in']:+.2f} -> {bias['removed']:+.2f} ({bias['oracle']:+.2f})",
                "MSE ratio (se)": f"{ratio:.2f} ({error:.2f})",
                "MSE / oracle": f"{mse['left in'].mean() / mse['oracle'].mean():.2f} -> "
                f"{mse['removed'].mean() / mse['oracle'].mean():.2f}",
                "width ratio": f"{by['half_width']['removed'].mean() / by['half_width']['left in'].mean():.3f}",
            }
        )
    printed = pd.DataFrame(rows)
    print(printed.to_string(index=False))
    printed.to_csv(TABLE, index=False, lineterminator="\n")
    wide = table.pivot(index=["scenario", "seed"], columns="estimate", values="covers")
    difference = wide["removed"] - wide["left in"]
    print(
        f"\npooled over {len(wide)}: {wide.mean().round(3).to_dict()}, difference {difference.mean():+.3f} "
        f"({difference.std() / np.sqrt(len(wide)):.3f}); MSE ratio {np.mean([r.mean() for r in ratios]):.3f}"
    )


def real(seeds: int) -> None:
    """Print how often intervals from a part of real votes cover the estimate from all of them.

    The part is drawn without replacement, so that its distance from the whole has the variance of the part's estimate
    times 1 less the share that was drawn.
    """
    folder = pathlib.Path(os.environ["DMLRANK_DATA"])
    battles = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
    battles["time"] = np.arange(len(battles)) / len(battles)
    shown = pd.concat([battles["model_a"], battles["model_b"]]).value_counts().index[:8]
    # Before a fifth of the battles, four of the eight models had not arrived.
    kept = battles["model_a"].isin(shown) & battles["model_b"].isin(shown) & (battles["time"] > 0.2)
    votes = dr.datasets.read_mt_bench(folder / "mt_bench")
    common = {"functional": "bt", "position_bias": False, "min_labels": 1, "n_jobs": 1}
    by_question = {"context": ["question_id", "turn"], "cov_type": "cluster", "cov_kwds": {"groups": "question_id"}}
    text = "C(category) + turn + text(prompt, 20)"
    studies = (
        ("arena, 8 models", battles[kept].assign(unit=np.arange(kept.sum())), "time", 0.2, {"graph": "complete"}),
        ("MT-Bench", votes.assign(unit=votes["question_id"]), text, 0.5, by_question),
    )
    for name, frame, features, share, more in studies:
        formula, units = f"winner ~ {features} | model_a + model_b", np.unique(frame["unit"])
        rows: list[tuple[str, int, float, float, float]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DmlrankWarning)
            whole = dr.dml_rank(formula, frame, **in_objects({"rng": 0, **common, **more}))
            best = whole.params.idxmax()
            for seed in range(seeds):
                drawn = np.random.default_rng([seed, 9]).permutation(units)[: int(share * len(units))]
                fit = dr.dml_rank(
                    formula, frame[frame["unit"].isin(drawn)], **in_objects({"rng": seed, **common, **more})
                )
                for estimate, part in (("removed", fit), ("left in", fit.update(second_order=False))):
                    error, own = part.params - whole.params, np.sqrt(1 - share) * part.bse
                    covers = int((error.abs() <= part.estimates.critical * own).all())
                    rows.append((estimate, covers, float((error**2).mean()), error[best], own[best]))
        by = pd.DataFrame(rows, columns=["estimate", "covers", "mse", "top", "own"]).groupby("estimate").mean()
        for estimate, mean in by.iterrows():
            print(
                f"{name}, {share:.0%} of the units, {seeds} samples, bias {estimate}: coverage {mean['covers']:.3f}, "
                f"RMSE {np.sqrt(mean['mse']):.4f}, bias of the best model {mean['top'] / mean['own']:+.2f} errors",
                flush=True,
            )


def cost() -> None:
    """Print the time of a fit with and without the estimate, and what it costs at the size of a public arena."""
    for n, n_items, n_features in ((4000, 20, 102), (135_000, 53, 12)):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(n, n_features)).astype(np.float32)
        strength = rng.normal(size=n_items)[None] + 0.3 * x[:, :3] @ rng.normal(size=(3, n_items))
        first = rng.integers(n_items, size=n)
        second = (first + rng.integers(1, n_items, size=n)) % n_items
        rows = np.arange(n)
        won = rng.random(n) < expit(strength[rows, first] - strength[rows, second])
        names = np.array([f"m{k:02}" for k in range(n_items)])
        frame = pd.DataFrame(x, columns=[f"x{f}" for f in range(n_features)]).assign(
            winner=np.where(won, "model_a", "model_b"), model_a=names[first], model_b=names[second]
        )
        formula = f"winner ~ {' + '.join(frame.columns[:n_features])} | model_a + model_b"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DmlrankWarning)
            start = time.process_time()
            fit = dr.dml_rank(
                formula, frame, functional="borda", pairs=dr.Pairs(min_labels=1), rng=0, position_bias=False, n_jobs=1
            )
            learnt = time.process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            from dmlrank.estimation.second_order import second_order

            bt = fit.update(functional="bt", second_order=False)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            steps = bt.steps
            start = time.process_time()
            second_order(
                steps.setup.functional,
                steps.data,
                steps.first.mu,
                steps.first.floor,
                blocks=steps.units.blocks,
                weight=np.ones(n),
                units=steps.units.of_blocks(steps.data),
            )
            alone = time.process_time() - start
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{n:,} x {n_items} x {n_features}: fit of borda {learnt:.1f} s, second order {alone:.1f} s more "
            f"({1 + alone / learnt:.2f}); peak {peak:.2f}, bt {before:.2f}, with second order {after:.2f} GB",
            flush=True,
        )


def main() -> None:
    """Run, tabulate or time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("run", "tables", "real", "cost"))
    parser.add_argument("--scenarios", nargs="+", choices=list(studied()), default=list(studied()))
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if given.action == "run":
        run(given.scenarios, given.seeds, given.processes)
    elif given.action == "tables":
        tables()
    elif given.action == "real":
        real(given.seeds)
    else:
        cost()


if __name__ == "__main__":
    main()

"""Is the second-order bias of curved scores removed? Paired replications with and without, and what it costs.

A replication fits a scenario with the default learner, once with ``second_order=True`` and once without, and with the
true nuisances. Rows are appended to a table; replications that it holds are not run again. The study "second_order" is
about bt in scenarios of ``benchmarks/scenarios.py``, "curved" about other scores in those of ``benchmarks/curved.py``.

    python benchmarks/second_order.py run --seeds 40
    python benchmarks/second_order.py tables --study curved
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
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import curved
import numpy as np
import pandas as pd
from coverage import _efficient_limits, _limits, first_fit
from scenarios import Scenario, scenarios
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning
from dmlrank.functionals import BradleyTerry, Functional
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results"
TABLES = pathlib.Path(__file__).parents[1] / "docs" / "results"
COLUMNS = (
    *("scenario", "functional", "seed", "estimate", "covers", "mse", "error_top", "half_width", "change_top"),
    "own_error_top",
)


STUDIES = ("second_order", "curved")
_OF_BT = (
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


def studied(study: str) -> tuple[dict[str, Scenario], Mapping[str, type[Functional]]]:
    """The scenarios of a study by name, and the functionals that are fitted in each."""
    if study == "curved":
        return curved.scenarios(), curved.FUNCTIONALS
    known = scenarios()
    steps = Scenario("steps and products", curved.Steps(), 1500)
    return {steps.name: steps} | {name: known[name] for name in _OF_BT}, {"bt": BradleyTerry}


@lru_cache
def truth_of(study: str, name: str) -> pd.DataFrame:
    """True scores of a scenario, a column per functional, computed once per process."""
    known, functionals = studied(study)
    return known[name].truth(functionals)


def replicate(study: str, name: str, seed: int) -> list[dict[str, object]]:
    """Fit one data set with each functional, without the bias and with it: a row for each; of bt with the oracle."""
    known, functionals = studied(study)
    scenario, truths, rows = known[name], truth_of(study, name), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        learnt, fits = first_fit(scenario, seed, "auto"), {}
        oracle = first_fit(scenario, seed, "oracle") if study == STUDIES[0] else None
        for functional, kind in functionals.items():
            fits[functional, "removed"] = learnt.update(functional=kind())
            fits[functional, "left in"] = fits[functional, "removed"].update(second_order=False)
            if oracle is not None:
                fits[functional, "oracle"] = oracle.update(functional=kind())
    for (functional, estimate), fit in fits.items():
        truth = truths[functional].loc[fit.models]
        limits = _efficient_limits(fit, scenario.cluster) if estimate == "oracle" else _limits(fit)
        error, best = fit.params - truth, truth.idxmax()
        biases = {model: (bias, own) for model, bias, own in fit.diagnostics.second_order_by_model}
        bias, own = biases.get(best, (np.nan, np.nan))
        rows.append(
            {
                "scenario": name,
                "functional": functional,
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


def run(study: str, names: list[str], seeds: int, processes: int) -> None:
    """Add the replications that are missing to the table, a seed of every scenario before the next seed."""
    path, done = RESULTS / f"{study}.csv", set()
    if path.exists():
        done = set(pd.read_csv(path)[["scenario", "seed"]].drop_duplicates().itertuples(index=False, name=None))
    tasks = [(study, name, seed) for seed in range(seeds) for name in names if (name, seed) not in done]
    with (
        path.open("a", newline="") as file,
        ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as workers,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for future in as_completed([workers.submit(replicate, *task) for task in tasks]):
            writer.writerows(future.result())
            file.flush()


def tables(study: str) -> None:
    """Print coverage, bias of the best model and squared errors, with paired standard errors; write them to docs/."""
    table = pd.read_csv(RESULTS / f"{study}.csv")
    printed = summarise(table)
    print(printed.to_string(index=False))
    printed.to_csv(TABLES / f"{study}.csv", index=False, lineterminator="\n")
    wide = table.pivot(index=["scenario", "functional", "seed"], columns="estimate", values="covers")
    difference = wide["removed"] - wide["left in"]
    print(
        f"\npooled over {len(wide)}: {wide.mean().round(3).to_dict()}, difference {difference.mean():+.3f} "
        f"({difference.std() / np.sqrt(len(wide)):.3f}); "
        f"MSE ratio {printed['MSE ratio (se)'].str.split().str[0].astype(float).mean():.3f}"
    )


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """A row per scenario and functional."""
    rows = []
    for (name, functional), group in table.groupby(["scenario", "functional"], sort=False):
        by = group.pivot(index="seed", columns="estimate")
        n, mse, covers = len(by), by["mse"].mean(), by["covers"]
        ratio, difference = mse["removed"] / mse["left in"], covers["removed"] - covers["left in"]
        error = (by["mse"]["removed"] - ratio * by["mse"]["left in"]).std() / np.sqrt(n) / mse["left in"]
        bias = by["error_top"].mean() / np.sqrt(np.square(by["error_top"]).mean())
        oracle = {} if "oracle" not in mse else {"oracle": f" ({bias['oracle']:+.2f})"}
        row = {
            "scenario": name,
            "functional": functional,
            "n": n,
            **{f"coverage {k}": f"{covers[k].mean():.3f}" for k in ("left in", "removed", *oracle)},
            "difference (se)": f"{difference.mean():+.3f} ({difference.std() / np.sqrt(n):.3f})",
            "bias / RMSE": f"{bias['left in']:+.2f} -> {bias['removed']:+.2f}{oracle.get('oracle', '')}",
            "MSE ratio (se)": f"{ratio:.2f} ({error:.2f})",
        }
        if oracle:
            row["MSE / oracle"] = " -> ".join(f"{mse[k] / mse['oracle']:.2f}" for k in ("left in", "removed"))
        width = by["half_width"].mean()
        rows.append(row | {"width ratio": f"{width['removed'] / width['left in']:.3f}"})
    return pd.DataFrame(rows)


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
                target=steps.first.before_change.target.by_context(),
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
    parser.add_argument("--study", choices=STUDIES, default=STUDIES[0])
    parser.add_argument("--scenarios", nargs="+", help="names (default: all of the study)")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if given.action == "run":
        run(given.study, given.scenarios or list(studied(given.study)[0]), given.seeds, given.processes)
    elif given.action == "tables":
        tables(given.study)
    elif given.action == "real":
        real(given.seeds)
    else:
        cost()


if __name__ == "__main__":
    main()

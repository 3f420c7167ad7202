"""Is the second-order bias of curved scores removed? Paired fits with and without it, and with the true nuisances.

bt in scenarios of the coverage study, and other scores ("curved") in those of ``benchmarks/curved.py``. Real votes:
how often intervals from a part of them cover the estimate from all. The part is drawn without replacement, so that its
distance from the whole has the variance of the part's estimate times one less the share that was drawn.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks import curved
from benchmarks.scenarios import Scenario, scenarios
from dmlrank.functionals import BradleyTerry
from dmlrank.options import in_objects

from .coverage import efficient_limits, first_fit, limits_of
from .runner import Row, Study

OF_BT = (
    *("five features", "steps and products", "five features, extreme draw", "ties-0-1000", "ties-5-1000"),
    *("ties-7-1000", "ties-9-1000", "no minimum mass", "four categories", "incomplete graph", "clusters", "rare pairs"),
    *("one pair of 6 models chosen by prompt, estimated propensities", "98 noise features", "ties-0-3000"),
    *("ties-5-3000", "ties-7-3000", "ties-9-3000", "one pair of 20 models, estimated propensities"),
)
CURVED = tuple(f"curved: {name}" for name in curved.scenarios())
# Features, the share of the units that is drawn, and options.
REAL = {
    "real: arena, 8 models": ("time", 0.2, {"graph": "complete"}),
    "real: MT-Bench": (
        "C(category) + turn + text(prompt, 20)",
        0.5,
        {"context": ["question_id", "turn"], "cov_type": "cluster", "cov_kwds": {"groups": "question_id"}},
    ),
}


@cache
def scenario_of(cell: str) -> tuple[Any, pd.DataFrame]:
    """The scenario of a cell, and true scores, a column per functional."""
    if cell in CURVED:
        scenario: Any = curved.scenarios()[cell.removeprefix("curved: ")]
        return scenario, scenario.truth(curved.FUNCTIONALS)
    known = scenarios() | {"steps and products": Scenario("steps and products", curved.Steps(), 1500)}
    return known[cell], known[cell].truth({"bt": BradleyTerry})


@cache
def whole(cell: str) -> tuple[str, pd.DataFrame, dict[str, Any], dr.RankResults]:
    """Formula, votes and options of real data, and the fit of all votes; a unit is drawn or left as one."""
    folder, (features, _, more) = pathlib.Path(os.environ["DMLRANK_DATA"]), REAL[cell]
    if "arena" in cell:
        votes = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
        votes["unit"] = np.arange(len(votes))
        votes["time"] = votes["unit"] / len(votes)
        shown = pd.concat([votes["model_a"], votes["model_b"]]).value_counts().index[:8]
        # Before a fifth of the battles, four of the eight models had not arrived.
        votes = votes[votes["model_a"].isin(shown) & votes["model_b"].isin(shown) & (votes["time"] > 0.2)]
    else:
        votes = dr.datasets.read_mt_bench(folder / "mt_bench")
        votes["unit"] = votes["question_id"]
    options = in_objects({"functional": "bt", "position_bias": False, "min_labels": 1, "n_jobs": 1, **more})
    formula = f"winner ~ {features} | model_a + model_b"
    return formula, votes, options, dr.dml_rank(formula, votes, rng=0, **options)


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Fit one data set with each functional, without the bias and with it: a row for each; of bt with the oracle."""
    if cell in REAL:
        yield from of_real_votes(cell, seed)
        return
    scenario, truths = scenario_of(cell)
    learnt, fits = first_fit(scenario, seed, "auto"), {}
    for name, kind in (curved.FUNCTIONALS if cell in CURVED else {"bt": BradleyTerry}).items():
        fits[name, "removed"] = learnt.update(functional=kind())
        fits[name, "left in"] = fits[name, "removed"].update(second_order=False)
    if cell not in CURVED:
        fits["bt", "oracle"] = first_fit(scenario, seed, "oracle").update(functional="bt")
    for (name, estimate), fit in fits.items():
        truth = truths[name].loc[fit.models]
        limits = efficient_limits(fit, scenario.cluster) if estimate == "oracle" else limits_of(fit)
        error = fit.params - truth
        yield {
            "functional": name,
            "estimate": estimate,
            "covers": float(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
            "mse": (error**2).mean(),
            "top": error[truth.idxmax()],
            "half": (limits["upper"] - limits["lower"]).mean() / 2,
            "warned": any(text.startswith("held-out labels show") for text in fit.diagnostics.warnings),
        }


def of_real_votes(cell: str, seed: int) -> Iterator[Row]:
    """Fit a part of the votes."""
    (formula, votes, options, all_of_them), share = whole(cell), REAL[cell][1]
    units, best = np.unique(votes["unit"]), all_of_them.params.idxmax()
    drawn = np.random.default_rng([seed, 9]).permutation(units)[: int(share * len(units))]
    fit = dr.dml_rank(formula, votes[votes["unit"].isin(drawn)], rng=seed, **options)
    for estimate, part in (("removed", fit), ("left in", fit.update(second_order=False))):
        error, own = part.params - all_of_them.params, np.sqrt(1 - share) * part.bse
        covers = float((error.abs() <= part.estimates.critical * own).all())
        yield {"estimate": estimate, "covers": covers, "mse": (error**2).mean(), "top": error[best] / own[best]}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage, bias of the best model and squared errors, with paired standard errors."""
    made: dict[str, list[Row]] = {}
    real = rows[rows["cell"].isin(REAL)]
    for (cell, functional), part in rows.drop(index=real.index).groupby(["cell", "functional"], sort=False):
        by = part.pivot(index="seed", columns="estimate")
        n, mse, covers = len(by), by["mse"].mean(), by["covers"]
        ratio, gap = mse["removed"] / mse["left in"], covers["removed"] - covers["left in"]
        error = (by["mse"]["removed"] - ratio * by["mse"]["left in"]).sem() / mse["left in"]
        bias, width = by["top"].mean() / np.sqrt(np.square(by["top"]).mean()), by["half"].mean()
        oracle = f" ({bias['oracle']:+.2f})" if "oracle" in bias else ""
        row = {"scenario": cell} | ({} if oracle else {"functional": functional}) | {"n": n}
        row |= {f"coverage {k}": f"{covers[k].mean():.3f}" for k in ("left in", "removed", "oracle") if k in covers}
        row["difference (se)"] = f"{gap.mean():+.3f} ({gap.sem():.3f})"
        row["bias / RMSE"] = f"{bias['left in']:+.2f} -> {bias['removed']:+.2f}{oracle}"
        row["MSE ratio (se)"] = f"{ratio:.2f} ({error:.2f})"
        if oracle:
            row["MSE / oracle"] = " -> ".join(f"{mse[k] / mse['oracle']:.2f}" for k in ("left in", "removed"))
        row["width ratio"] = f"{width['removed'] / width['left in']:.3f}"
        if not oracle:
            row["warned"] = f"{by['warned']['removed'].mean():.2f}"
        made.setdefault("second_order" if oracle else "curved", []).append(row)
    found = {title: pd.DataFrame(part) for title, part in made.items()}
    if len(real):
        means = real.groupby(["cell", "estimate"], sort=False)[["covers", "mse", "top"]].mean()
        found["second_order_real"] = means.round(4).reset_index()
    return found


STUDY = Study((*OF_BT, *CURVED, *REAL), replicate, tables, 200)

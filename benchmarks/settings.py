"""Which settings for an arena? position_bias, min_labels and edge_weights against maximum likelihood.

Votes are drawn without features where Bradley-Terry is exactly true, so that bt with every weighting of the pairs and
maximum likelihood estimate the same scores. What differs is how many labels the pairs have: as in chatbot_arena, or
as where models are chosen with probabilities by Zipf's law. Which of the two models is shown first is drawn.

The table is resumable: replications that it holds are not run again.

    python benchmarks/settings.py run --scenarios arena-5000 zipf-20000 --seeds 200
    python benchmarks/settings.py tables
    python benchmarks/settings.py real
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "settings.csv"
PLAIN = "winner ~ 1 | model_a + model_b"
# What is compared; the first is the default.
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "True, 10, equal": {"min_labels": 10, "position_bias": True},
    "False, 10, equal": {"min_labels": 10, "position_bias": False},
    "False, 1, equal": {"position_bias": False, "min_labels": 1},
    "True, 10, counts": {"min_labels": 10, "position_bias": True, "edge_weights": "counts"},
    "auto, 10, counts": {"min_labels": 10, "edge_weights": "counts"},
    "False, 1, counts": {"position_bias": False, "min_labels": 1, "edge_weights": "counts"},
    "bt_mle": {"estimator": "bt_mle"},
}
COLUMNS = (
    "scenario",
    "seed",
    "settings",
    "used",
    "least_used",
    "pointwise",
    "simultaneous",
    "rarest",
    "ratio_median",
    "ratio_largest",
    "rmse",
    "warned",
    "seconds",
    "failed",
)
_TIES = 0.3


@dataclass(frozen=True)
class Arena:
    """Votes on pairs with given probabilities.

    Attributes
    ----------
    shares : ndarray, shape (K, K)
        Probability that a vote is on an unordered pair, above the diagonal.
    scores : ndarray, shape (K,)
        True scores; they sum to zero.
    n : int
        Votes.
    """

    shares: np.ndarray
    scores: np.ndarray
    n: int

    @property
    def models(self) -> list[str]:
        """Names in alphabetical order."""
        return [f"model{j:02d}" for j in range(len(self.scores))]

    def sample(self, seed: int) -> pd.DataFrame:
        """One data set: a row per vote."""
        rng = np.random.default_rng(seed)
        pairs = np.argwhere(np.triu(np.ones_like(self.shares), 1) > 0)
        chosen = pairs[rng.choice(len(pairs), size=self.n, p=self.shares[pairs[:, 0], pairs[:, 1]])]
        chosen = np.where(rng.random((self.n, 1)) < 0.5, chosen, chosen[:, ::-1])
        wins = 1 / (1 + np.exp(self.scores[chosen[:, 1]] - self.scores[chosen[:, 0]]))
        tie = 2 * _TIES * np.minimum(wins, 1 - wins)
        u, names = rng.random(self.n), np.array(self.models)
        label = np.where(u < tie, "tie", np.where(u < tie + wins - tie / 2, "model_a", "model_b"))
        return pd.DataFrame({"model_a": names[chosen[:, 0]], "model_b": names[chosen[:, 1]], "winner": label})


def real_counts() -> np.ndarray:
    """Votes of chatbot_arena on every unordered pair, (20, 20), above the diagonal."""
    return pd.read_csv(pathlib.Path(__file__).parent / "arena_pair_counts.csv", header=None).to_numpy()


def arena(name: str) -> Arena:
    """A scenario by name: ``arena-N`` (pair counts of chatbot_arena), ``zipf-N`` (52 models) or ``small-N`` (15)."""
    kind, n = name.split("-")
    if kind == "arena":
        shares = real_counts().astype(float)
    else:
        n_models, power = {"zipf": (52, 1.0), "small": (15, 0.0)}[kind]
        popularity = np.arange(1, n_models + 1) ** -power
        shares = np.triu(np.outer(popularity, popularity), 1)
    n_models = len(shares)
    # Scores in an order that has nothing to do with popularity.
    scores = np.random.default_rng(7).permutation(np.linspace(1.2, -1.2, n_models))
    return Arena(shares / shares.sum(), scores - scores.mean(), int(n))


def fit(battles: pd.DataFrame, settings: dict[str, Any], seed: int) -> tuple[Any, int, float]:
    """A fit, how many warnings it gave, and its seconds."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Models are never left out, so that every setting ranks the same ones.
        options = {"functional": "bt", "component": "all", "rng": seed, "n_jobs": 1} | settings
        result = dr.dml_rank(PLAIN, battles, **in_objects(options))
    return result, len(caught), time.perf_counter() - began


def replicate(name: str, seed: int) -> list[dict[str, Any]]:
    """All settings on one data set: a row for each."""
    here = arena(name)
    battles = here.sample(seed)
    truth = pd.Series(here.scores, index=here.models)
    likelihood, _, _ = fit(battles, SETTINGS["bt_mle"], seed)
    rarest = pd.concat([battles["model_a"], battles["model_b"]]).value_counts().index[-1]
    rows = []
    for settings, options in SETTINGS.items():
        row: dict[str, Any] = {"scenario": name, "seed": seed, "settings": settings, "failed": ""}
        try:
            result, warned, seconds = fit(battles, options, seed)
        except dr.DmlrankError as error:
            rows.append(row | {"failed": type(error).__name__})
            continue
        own = truth.loc[result.params.index]
        error, bse = result.params - own, result.bse
        votes = result.estimates.votes
        ratio = bse / likelihood.bse
        rows.append(
            row
            | {
                "used": round(votes.share_used, 5),
                "least_used": round(float((votes.used / votes.total).min()), 5),
                "pointwise": round(float((error.abs() <= 1.959964 * bse).mean()), 4),
                "simultaneous": int((error.abs() <= result.estimates.critical * bse).all()),
                "rarest": int(abs(error[rarest]) <= 1.959964 * bse[rarest]),
                "ratio_median": round(float(ratio.median()), 4),
                "ratio_largest": round(float(ratio.max()), 4),
                "rmse": round(float(np.sqrt((error**2).mean())), 5),
                "warned": warned,
                "seconds": round(seconds, 2),
            }
        )
    return rows


def run(names: list[str], seeds: int) -> None:
    """Replications that the table does not hold yet."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[["scenario", "seed"]].itertuples(index=False, name=None))
    with RESULTS.open("a", newline="") as file:
        out = csv.DictWriter(file, COLUMNS)
        if not file.tell():
            out.writeheader()
        for seed in range(seeds):
            for name in names:
                if (name, seed) not in done:
                    out.writerows(replicate(name, seed))
                    file.flush()


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Means by scenario and settings, in the order of both."""
    fitted = results[results["failed"].isna()]
    by = fitted.groupby(["scenario", "settings"], sort=False)
    made = by[["used", "least_used", "pointwise", "simultaneous", "rarest", "ratio_median", "ratio_largest"]].mean()
    made["rmse"] = by["rmse"].mean()
    made["warned"] = by["warned"].apply(lambda w: (w > 0).mean())
    runs = results.groupby(["scenario", "settings"], sort=False).size()
    made.insert(0, "fitted", by.size().reindex(made.index).astype(str) + "/" + runs.reindex(made.index).astype(str))
    return made.round(3)


def real() -> pd.DataFrame:
    """Votes used and standard errors on chatbot_arena itself."""
    battles = dr.datasets.read_chatbot_arena(os.environ["DMLRANK_DATA"] + "/chatbot_arena/human.json")
    likelihood, _, _ = fit(battles, SETTINGS["bt_mle"], 0)
    rows = {}
    for settings, options in SETTINGS.items():
        result, warned, seconds = fit(battles, options, 0)
        votes, ratio = result.estimates.votes, result.bse / likelihood.bse
        rows[settings] = {
            "used": votes.share_used,
            "least_used": float((votes.used / votes.total).min()),
            "ratio_median": ratio.median(),
            "ratio_largest": ratio.max(),
            "warned": warned,
            "seconds": seconds,
        }
    return pd.DataFrame.from_dict(rows, orient="index").round(3)


def main(argv: list[str]) -> int:
    """Run, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "tables", "real"))
    parser.add_argument("--scenarios", nargs="+", default=["small-1500", "arena-5000", "arena-26919", "zipf-20000"])
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args(argv)
    if given.command == "run":
        run(given.scenarios, given.seeds)
    elif given.command == "real":
        print(real().to_string())
    else:
        print(table(pd.read_csv(RESULTS)).to_string())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

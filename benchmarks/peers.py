"""Other programs beside dmlrank on the same votes: processor time, memory, and how often intervals cover all scores.

Votes are drawn from a Bradley-Terry model in which a tie counts half, so that all programs estimate the same scores.
Every program is a process of its own; its time is that of the first call, imports left out. A program that is not
installed is left out with the reason: pip install arena-rank evalica choix arenakit statsmodels.

    python benchmarks/peers.py --seeds 40
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

# Votes and models of the inputs; coverage is that of the first.
INPUTS = ((8_000, 20), (135_000, 53))
# Lower and upper limits by model; None from programs that give scores alone.
Limits = tuple[np.ndarray, np.ndarray] | None


def draw_battles(n: int, n_items: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Votes on random pairs, and the true scores, which sum to zero."""
    rng = np.random.default_rng(seed)
    names, strength = np.array([f"model-{item:03d}" for item in range(n_items)]), np.linspace(-1.5, 1.5, n_items)
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    share = expit(strength[first] - strength[second])
    tie = 0.3 * np.minimum(share, 1 - share)
    drawn = rng.random(n)
    winner = np.select([drawn < share - tie / 2, drawn < share + tie / 2], ["model_a", "tie"], "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner}), strength


def wins(battles: pd.DataFrame) -> np.ndarray:
    """Wins of every model over every other, ties half, (K, K)."""
    share = battles["winner"].map({"model_a": 1.0, "tie": 0.5, "model_b": 0.0})
    pair = [battles["model_a"], battles["model_b"]]
    won, lost = (each.groupby(pair).sum().unstack(fill_value=0.0).to_numpy() for each in (share, 1 - share))
    return won + lost.T


def dmlrank(battles: pd.DataFrame) -> Limits:
    import dmlrank as dr

    warnings.simplefilter("ignore", dr.DmlrankWarning)
    return tuple(dr.dml_rank("winner ~ 1 | model_a + model_b", battles, functional="bt", rng=0).conf_int().to_numpy().T)


def arena_rank(battles: pd.DataFrame) -> Limits:
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    data = PairDataset.from_pandas(battles)
    found = BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(data)
    place, unit = np.argsort(np.asarray(found["competitors"])), np.log(10) / 400
    low, high = (unit * (np.asarray(found[f"rating_{end}"])[place] - 1000) for end in ("lower", "upper"))
    return low, high


def arenakit(battles: pd.DataFrame) -> Limits:
    from arenakit import boot, schema

    drawn = boot.bootstrap(schema.Arena(schema.battles_from_records(battles.to_dict("records"))), n_resamples=100)
    return tuple(drawn.score_ci().T)


def statsmodels(battles: pd.DataFrame) -> Limits:
    import statsmodels.api as sm

    table = wins(battles)
    n_items, (first, second) = len(table), np.triu_indices(len(table), 1)
    centred = np.linalg.qr(np.eye(n_items) - 1 / n_items)[0][:, : n_items - 1]
    counts = np.column_stack([table[first, second], table[second, first]])
    found = sm.GLM(counts, centred[first] - centred[second], family=sm.families.Binomial()).fit()
    scores, error = centred @ found.params, np.sqrt(np.diag(centred @ found.cov_params() @ centred.T))
    return scores - ndtri(0.975) * error, scores + ndtri(0.975) * error


def evalica(battles: pd.DataFrame) -> Limits:
    from evalica import Winner, bradley_terry

    named = {"model_a": Winner.X, "model_b": Winner.Y, "tie": Winner.Draw}
    bradley_terry(battles["model_a"], battles["model_b"], battles["winner"].map(named), limit=1000)


def choix(battles: pd.DataFrame) -> Limits:
    from choix import ilsr_pairwise_dense

    ilsr_pairwise_dense(wins(battles))


PEERS: dict[str, tuple[Callable[[pd.DataFrame], Limits], str]] = {
    "dmlrank": (dmlrank, "scores, simultaneous intervals"),
    "arena-rank": (arena_rank, "scores, an interval each"),
    "arenakit": (arenakit, "scores, an interval each by a bootstrap of 100"),
    "statsmodels": (statsmodels, "GLM on counts by pair: scores, an interval each"),
    "evalica": (evalica, "scores"),
    "choix": (choix, "scores"),
}


def measure(name: str, n: int, n_items: int, seeds: int) -> dict[str, object]:
    """One program in this process: seconds of the processors, largest memory in gigabytes, share of seeds covered."""
    peer = PEERS[name][0]
    peer(draw_battles(2_000, 3, 0)[0])
    battles, _ = draw_battles(n, n_items, 0)
    start = time.process_time()
    found = peer(battles)
    used, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    covered = []
    for seed in range(seeds if found else 0):
        battles, truth = draw_battles(n, n_items, seed)
        low, high = peer(battles) or ()
        shift = ((low + high) / 2).mean()
        covered.append(bool(((low - shift <= truth) & (truth <= high - shift)).all()))
    return {"cpu": used, "peak": peak, "covered": float(np.mean(covered)) if covered else None}


def main() -> int:
    """Print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--one", nargs=4, help="a program, votes, models and seeds, for a process of its own")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], *map(int, given.one[1:]))))
        return 0
    rows = {}
    for name, (_, claim) in PEERS.items():
        rows[name] = {"gives": claim}
        for (n, n_items), seeds in zip(INPUTS, (given.seeds, 0), strict=True):
            command = [sys.executable, __file__, "--one", name, str(n), str(n_items), str(seeds)]
            made = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            if made.returncode:
                rows[name]["gives"] = f"left out: {made.stderr.strip().splitlines()[-1]}"
                break
            found = json.loads(made.stdout.splitlines()[-1])
            rows[name] |= {f"s, {n:,} of {n_items}": round(found["cpu"], 2), "GB": round(found["peak"], 2)}
            if seeds and found["covered"] is not None:
                rows[name]["covered"] = found["covered"]
    print(pd.DataFrame(rows).T.to_csv(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

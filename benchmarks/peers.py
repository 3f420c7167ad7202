"""Other programs beside dmlrank on the same votes and scores: processor time, memory, how often intervals cover all.

Votes are drawn from a Bradley-Terry model in which a tie counts half, so that all programs estimate the same scores;
of runs on prompts they estimate the differences of all pairs of models. Every program is a process of its own; its time
is that of the first call, imports left out. A program that is not installed is left out with the reason: pip install
arena-rank evalica choix arenakit statsmodels evalstats.

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
from functools import partial
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

# Lower and upper limits by model, or of the difference of each pair; None from programs that give scores alone.
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


def draw_scores(n: int, n_items: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Three runs of each model on n prompts, right or wrong, and the true differences of means."""
    rng = np.random.default_rng(seed)
    strength, error = np.linspace(-1, 1, n_items), rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, n_items))
    right = rng.random((3, n, n_items)) < expit(strength + error)
    run, item, model = (index.ravel() for index in np.indices(right.shape))
    table = pd.DataFrame({"item": item, "run": run, "score": right.ravel().astype(float)})
    table["model"] = [f"model-{place:03d}" for place in model]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    mean = expit(strength[:, None] + np.sqrt(1.25) * nodes) @ weights / weights.sum()
    first, second = np.triu_indices(n_items, 1)
    return table, mean[first] - mean[second]


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


def dmlrank_scores(table: pd.DataFrame) -> Limits:
    import dmlrank as dr

    fit = dr.dml_rank("score ~ 1 | model", table, context="item", run="run", rng=0)
    found = fit.t_test_pairwise().result_frame.set_index(["first", "second"])[["conf_low", "conf_high"]]
    found = pd.concat([found, -found.swaplevel().set_axis(["conf_high", "conf_low"], axis=1)])
    return tuple(found.loc[[*combinations(sorted(fit.models), 2)], ["conf_low", "conf_high"]].to_numpy().T)


def evalstats(table: pd.DataFrame) -> Limits:
    import evalstats

    warnings.simplefilter("ignore")
    found = evalstats.compare(evalstats.load_from(table), factors="model").pairwise.results
    pairs = [found[pair] for pair in combinations(sorted(set(table["model"])), 2)]
    return np.array([pair.ci_low for pair in pairs]), np.array([pair.ci_high for pair in pairs])


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


# What is drawn with a seed, and whether coverage is counted.
INPUTS: dict[str, tuple[Callable[[int], tuple[pd.DataFrame, np.ndarray]], bool]] = {
    "8,000 votes of 20": (partial(draw_battles, 8_000, 20), True),
    "135,000 votes of 53": (partial(draw_battles, 135_000, 53), False),
    "3 runs of 10 on 500 prompts": (partial(draw_scores, 500, 10), True),
}
# Function of votes, function of scores, and what the program gives.
PEERS: dict[str, tuple[Callable[..., Limits] | None, Callable[..., Limits] | None, str]] = {
    "dmlrank": (dmlrank, dmlrank_scores, "scores and differences, simultaneous intervals"),
    "evalstats": (None, evalstats, "differences, simultaneous intervals"),
    "arena-rank": (arena_rank, None, "scores, an interval each"),
    "arenakit": (arenakit, None, "scores, an interval each by a bootstrap of 100"),
    "statsmodels": (statsmodels, None, "GLM on counts by pair: scores, an interval each"),
    "evalica": (evalica, None, "scores"),
    "choix": (choix, None, "scores"),
}


def measure(name: str, of_input: str, seeds: int) -> dict[str, object]:
    """One program in this process: seconds of the processors, largest memory in gigabytes, share of seeds covered."""
    of_scores, (draw, is_counted) = "runs" in of_input, INPUTS[of_input]
    peer = PEERS[name][of_scores]
    assert peer is not None, f"{name} does not read this input"
    peer((draw_scores if of_scores else draw_battles)(2_000, 3, 0)[0])
    table, _ = draw(0)
    start, found = time.process_time(), peer(table)
    used, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    covered = []
    for seed in range(seeds if found and is_counted else 0):
        table, truth = draw(seed)
        low, high = peer(table) or ()
        # Scores are known up to their mean.
        shift = 0.0 if of_scores else ((low + high) / 2).mean()
        covered.append(bool(((low - shift <= truth) & (truth <= high - shift)).all()))
    return {"s": round(used, 2), "GB": round(peak, 2), "covered": float(np.mean(covered)) if covered else None}


def main() -> int:
    """Print a row for each program and input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--one", nargs=3, help="a program, input and seeds, for a process of its own")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one[:2], int(given.one[2]))))
        return 0
    rows = []
    for (name, (*functions, claim)), of_input in product(PEERS.items(), INPUTS):
        if functions["runs" in of_input] is not None:
            command = [sys.executable, __file__, "--one", name, of_input, str(given.seeds)]
            made = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
            found = made.stdout.splitlines()[-1:] or [json.dumps({"s": made.stderr.strip().splitlines()[-1]})]
            rows.append({"program": name, "gives": claim, "input": of_input, **json.loads(found[0])})
    print(pd.DataFrame(rows).to_csv(index=False), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

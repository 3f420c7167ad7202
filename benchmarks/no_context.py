"""Leaderboards without context: scores with simultaneous intervals, against bootstrapped Bradley-Terry models.

All methods read the same frame of battles in turn, each in a process of its own that has warmed up, and the ratio of
their times is taken within each turn. FastChat's method is written out below after ``compute_bootstrap_bt`` in its
fastchat/serve/monitor/rating_systems.py (github.com/lm-sys/FastChat): equal battles are counted once, and the
Bradley-Terry fit is repeated on multinomial counts, in as many processes as there are cores. Other packages take part
where they are installed. Processor seconds include those of child processes.

    python benchmarks/no_context.py
    python benchmarks/no_context.py --battles 20000 --items 10 --turns 1 --methods "FastChat's method" "dmlrank, bt"
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

import dmlrank as dr

FORMULA = "winner ~ 1 | model_a + model_b"
ROUNDS = 100


def draw_battles(n: int, n_items: int, seed: int) -> pd.DataFrame:
    """Battles between random models with evenly spread strengths, 15 % ties."""
    rng = np.random.default_rng(seed)
    names = np.array([f"model-{item:03d}" for item in range(n_items)])
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    strength = np.linspace(-1.5, 1.5, n_items)
    won = rng.random(n) < expit(strength[first] - strength[second])
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(won, "model_a", "model_b"))
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})


def count_battles(battles: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Models, (r, 2), share won by the first, (r,), and number, (r,), of the battles that differ; and the names."""
    n = len(battles)
    codes, names = pd.factorize(pd.concat([battles["model_a"], battles["model_b"]]))
    share = np.select([battles["winner"] == "model_a", battles["winner"] == "model_b"], [2, 0], 1)
    rows, counts = np.unique(np.column_stack([codes[:n], codes[n:], share]), axis=0, return_counts=True)
    return rows[:, :2], rows[:, 2] / 2, counts.astype(float), names.tolist()


def fit_scores(
    models: np.ndarray, share: np.ndarray, n_items: int, tolerance: float, weights: np.ndarray
) -> np.ndarray:
    """Scores of a Bradley-Terry model, ties one half, that sum to zero, (K,)."""

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        p = expit(scores[models[:, 0]] - scores[models[:, 1]])
        slope, gradient = weights * (p - share), np.zeros_like(scores)
        np.add.at(gradient, models, np.column_stack([slope, -slope]))
        return -float((weights * (share * np.log(p) + (1 - share) * np.log1p(-p))).sum()), gradient

    options = {"maxiter": 100, "gtol": tolerance}
    found = minimize(loss, np.zeros(n_items), jac=True, method="L-BFGS-B", options=options)
    return found.x - found.x.mean()


def fastchat(battles: pd.DataFrame, rounds: int = ROUNDS, processes: int | None = None) -> pd.DataFrame:
    """FastChat's bootstrap: median and 95 % percentile interval of every model's score."""
    models, share, counts, names = count_battles(battles)
    drawn = np.random.default_rng(0).multinomial(len(battles), counts / counts.sum(), size=rounds) / len(battles)
    fit = partial(fit_scores, models, share, len(names), 1e-6)
    if processes == 1:
        scores = np.array([fit(weights) for weights in drawn])
    else:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            scores = np.array(pool.map(fit, drawn))
    middle, lower, upper = np.quantile(scores, [0.5, 0.025, 0.975], axis=0)
    return pd.DataFrame({"score": middle, "lower": lower, "upper": upper}, index=names).sort_index()


def ranked(functional: str, battles: pd.DataFrame) -> pd.DataFrame:
    """dmlrank's scores with simultaneous intervals."""
    result = dr.dml_rank(FORMULA, battles, functional=functional, rng=0)
    return result.conf_int().assign(score=result.params)


def evalica(battles: pd.DataFrame) -> Any:
    """Scores by evalica; no intervals."""
    from evalica import Winner, bradley_terry

    named = {"model_a": Winner.X, "model_b": Winner.Y, "tie": Winner.Draw}
    return bradley_terry(battles["model_a"], battles["model_b"], battles["winner"].map(named), limit=1000)


def choix(battles: pd.DataFrame) -> Any:
    """Scores by choix from the matrix of wins; no intervals."""
    from choix import ilsr_pairwise_dense

    models, share, counts, names = count_battles(battles)
    wins = np.zeros((len(names), len(names)))
    np.add.at(wins, (models[:, 0], models[:, 1]), counts * share)
    np.add.at(wins, (models[:, 1], models[:, 0]), counts * (1 - share))
    return ilsr_pairwise_dense(wins)


def arena_rank(battles: pd.DataFrame) -> Any:
    """Scores by arena-rank, with a pointwise sandwich interval each."""
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    data = PairDataset.from_pandas(battles)
    return BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(data)


def arenakit(battles: pd.DataFrame) -> Any:
    """Scores by arenakit with its bootstrap."""
    from arenakit import boot, bt, schema

    arena = schema.Arena(schema.battles_from_records(battles.to_dict("records")))
    return boot.bootstrap(arena, n_resamples=ROUNDS), bt.fit_bt(arena.counts())


METHODS: dict[str, tuple[str, Callable[[pd.DataFrame], Any]]] = {
    "FastChat's method": (f"bootstrap of {ROUNDS}", fastchat),
    **{f"dmlrank, {f}": ("simultaneous intervals", partial(ranked, f)) for f in ("bt", "borda", "rank_centrality")},
    "evalica": ("scores", evalica),
    "choix": ("scores", choix),
    "arena-rank": ("pointwise intervals", arena_rank),
    "arenakit": (f"bootstrap of {ROUNDS}", arenakit),
}


def seconds_of(name: str, battles: pd.DataFrame) -> tuple[float, float] | None:
    """Seconds by the clock and by the processors after a small run; None where the package is not installed."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    try:
        METHODS[name][1](draw_battles(500, 3, 0))
    except ImportError:
        return None
    before, start = [resource.getrusage(kind) for kind in kinds], time.perf_counter()
    METHODS[name][1](battles)
    clock, after = time.perf_counter() - start, [resource.getrusage(kind) for kind in kinds]
    return clock, sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))


def compare(battles: pd.DataFrame, methods: list[str], turns: int) -> pd.DataFrame:
    """Median seconds of every method, and how many times longer the first one takes, over turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for _ in range(turns):
        for name in methods:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
                if (seconds := apart.submit(seconds_of, name, battles).result()) is not None:
                    found[name].append(seconds)
    rows = {}
    for name, seconds in found.items():
        if seconds:
            ratios = np.array(found[methods[0]]) / np.array(seconds)
            clock, processor = np.median(seconds, axis=0)
            row = {"gives": METHODS[name][0], "clock, s": clock, "processor, s": processor}
            low, middle, high = np.quantile(ratios[:, 0], [0, 0.5, 1])
            ends = {"ratio": middle, "lowest": low, "highest": high, "ratio, processor": np.median(ratios[:, 1])}
            rows[name] = row | ends
    return pd.DataFrame(rows).T.rename_axis("method").infer_objects().round(2)


def main() -> int:
    """Print versions and a row per method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--battles", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    dr.show_versions()
    print(f"{os.cpu_count()} cores; {given.battles:,} battles of {given.items} models, {given.turns} turns\n")
    print(compare(draw_battles(given.battles, given.items, seed=0), given.methods, given.turns).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Leaderboards without context: scores with simultaneous intervals, against bootstrapped Bradley-Terry models.

All methods read the same frame of battles in turn, and the ratio of their times is taken within each turn. FastChat's
method is written out below after ``compute_bootstrap_bt`` in its fastchat/serve/monitor/rating_systems.py
(github.com/lm-sys/FastChat): equal battles are counted once, and the Bradley-Terry fit is repeated on multinomial
counts, in as many processes as there are cores. Other packages take part where they are installed. Processor seconds
include those of child processes.

    python benchmarks/no_context.py
    python benchmarks/no_context.py --small
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

import dmlrank as dr

FORMULA = "winner ~ 1 | model_a + model_b"
FUNCTIONALS = ("bt", "borda", "rank_centrality")
ROUNDS = 100
# Battles on which scores of the same model by different programs are compared.
_CHECKED = 50_000


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


def bradley_terry_loss(
    scores: np.ndarray, models: np.ndarray, share: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Weighted log-loss of a Bradley-Terry model, ties one half, and its gradient."""
    p = expit(scores[models[:, 0]] - scores[models[:, 1]])
    loss = -(weights * (share * np.log(p) + (1 - share) * np.log1p(-p))).sum()
    slope = weights * (p - share)
    gradient = np.zeros_like(scores)
    np.add.at(gradient, models, np.column_stack([slope, -slope]))
    return float(loss), gradient


def fit_scores(
    models: np.ndarray, share: np.ndarray, n_items: int, tolerance: float, weights: np.ndarray
) -> np.ndarray:
    """Scores that sum to zero, (K,)."""
    found = minimize(
        bradley_terry_loss,
        np.zeros(n_items),
        args=(models, share, weights),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 100, "gtol": tolerance},
    )
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


def with_evalica(battles: pd.DataFrame) -> pd.Series:
    """Scores by evalica; no intervals."""
    from evalica import Winner, bradley_terry

    named = {"model_a": Winner.X, "model_b": Winner.Y, "tie": Winner.Draw}
    found = bradley_terry(battles["model_a"], battles["model_b"], battles["winner"].map(named), limit=1000)
    return np.log(found.scores)


def with_choix(battles: pd.DataFrame) -> pd.Series:
    """Scores by choix from the matrix of wins; no intervals."""
    import choix

    models, share, counts, names = count_battles(battles)
    wins = np.zeros((len(names), len(names)))
    np.add.at(wins, (models[:, 0], models[:, 1]), counts * share)
    np.add.at(wins, (models[:, 1], models[:, 0]), counts * (1 - share))
    return pd.Series(choix.ilsr_pairwise_dense(wins), index=names)


def with_arena_rank(battles: pd.DataFrame) -> pd.Series:
    """Scores by arena-rank, with a pointwise sandwich interval each."""
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    data = PairDataset.from_pandas(battles)
    model = BradleyTerry(n_competitors=len(data.competitors))
    found = model.compute_ratings_and_cis(data)
    return pd.Series(np.asarray(found["ratings"]) * np.log(10) / 400, index=found["competitors"])


def with_arenakit(battles: pd.DataFrame, rounds: int = ROUNDS) -> pd.Series:
    """Scores by arenakit with its bootstrap."""
    from arenakit import boot, bt, schema

    arena = schema.Arena(schema.battles_from_records(battles.to_dict("records")))
    boot.bootstrap(arena, n_resamples=rounds)
    return pd.Series(bt.fit_bt(arena.counts()).scores, index=arena.models)


PEERS: dict[str, tuple[str, Callable[[pd.DataFrame], pd.Series]]] = {
    "evalica": ("scores", with_evalica),
    "choix": ("scores", with_choix),
    "arena-rank": ("pointwise intervals", with_arena_rank),
    "arenakit": ("bootstrap of 100", with_arenakit),
}


def check_scores(battles: pd.DataFrame, found: Mapping[str, pd.Series]) -> dict[str, float]:
    """Largest distance, in standard errors, of Bradley-Terry scores from those of maximum likelihood."""
    reference = dr.dml_rank(FORMULA, battles, estimator="bt_mle", rng=0)
    models, share, counts, names = count_battles(battles)
    fitted = fit_scores(models, share, len(names), 1e-9, counts / counts.sum())
    every = {"FastChat's method": pd.Series(fitted, index=names)} | dict(found)
    centred = {name: scores - scores.mean() for name, scores in every.items()}
    return {name: float(((s - reference.params).abs() / reference.bse).max()) for name, s in centred.items()}


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and by the processors."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    before, start = [resource.getrusage(kind) for kind in kinds], time.perf_counter()
    work()
    clock = time.perf_counter() - start
    after = [resource.getrusage(kind) for kind in kinds]
    return clock, sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))


def peer(name: str, battles: pd.DataFrame) -> tuple[pd.Series, tuple[float, float]]:
    """Scores of another program, and its seconds."""
    kept: list[pd.Series] = []
    seconds = timed(lambda: kept.append(PEERS[name][1](battles)))
    return kept[0], seconds


def installed(name: str) -> str | None:
    """Version of a package, None where it is not there or does not start."""
    try:
        PEERS[name][1](draw_battles(500, 3, 0))
        return version(name)
    except (ImportError, PackageNotFoundError):
        return None


def compare(
    battles: pd.DataFrame, functionals: Sequence[str], peers: Sequence[str], turns: int, apart: Executor | None = None
) -> pd.DataFrame:
    """Median seconds of every method, and how many times longer FastChat's takes, over turns.

    Peers run in the process of ``apart``, which stays: FastChat's method forks, which the threads of others forbid.
    Without it FastChat's method runs in one process.
    """
    of_fastchat = partial(fastchat, battles, processes=None if apart else 1)
    works: dict[str, tuple[str, Callable[[], tuple[float, float]]]] = {
        "FastChat's method": (f"bootstrap of {ROUNDS}", partial(timed, of_fastchat))
    }
    for name in functionals:
        works[f"dmlrank, {name}"] = ("simultaneous intervals", partial(timed, partial(ranked, name, battles)))
    for name in peers:
        assert apart
        works[name] = (PEERS[name][0], partial(_seconds_apart, apart, name, battles))
    seconds = np.array([[work() for _, work in works.values()] for _ in range(turns)])
    ratios = seconds[:, :1] / seconds
    clock, processor = np.median(seconds, axis=0).T
    return pd.DataFrame(
        {
            "gives": [what for what, _ in works.values()],
            "clock, s": clock.round(2),
            "processor, s": processor.round(2),
            "ratio": np.median(ratios[..., 0], axis=0).round(2),
            "lowest": ratios[..., 0].min(axis=0).round(2),
            "highest": ratios[..., 0].max(axis=0).round(2),
            "ratio, processor": np.median(ratios[..., 1], axis=0).round(2),
        },
        index=pd.Index(works, name="method"),
    )


def _seconds_apart(apart: Executor, name: str, battles: pd.DataFrame) -> tuple[float, float]:
    return apart.submit(peer, name, battles).result()[1]


def run(given: argparse.Namespace, apart: Executor | None) -> None:
    """Print which peers are there, whether scores agree, and a row per method."""
    peers = []
    for name in given.peers if apart else []:
        known = apart.submit(installed, name).result() if apart else None
        print(f"{name} {known}" if known else f"{name} is not installed here: left out")
        peers += [name] if known else []
    battles = draw_battles(given.battles, given.items, seed=0)
    some = battles[:_CHECKED]
    found = {name: apart.submit(peer, name, some).result()[0] for name in peers if apart}
    print(f"\nScores of {len(some):,} battles against estimator='bt_mle', largest distance in standard errors:")
    print(pd.Series(check_scores(some, found)).map("{:.1e}".format).to_string())
    table = compare(battles, given.functionals, peers, given.turns, apart)
    print(f"\n{given.battles:,} battles of {given.items} models, {given.turns} turns")
    print(table.to_string())


def main() -> int:
    """Read the options and print versions, then see :func:`run`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--battles", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--functionals", nargs="+", choices=FUNCTIONALS, default=list(FUNCTIONALS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="20,000 battles of 10 models, one turn, no peers")
    given = parser.parse_args()
    if given.small:
        given.battles, given.items, given.turns = 20_000, 10, 1
    dr.show_versions()
    print(f"{os.cpu_count()} cores\n")
    warnings.simplefilter("ignore", dr.DmlrankWarning)
    if given.small:
        run(given, None)
    else:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
            run(given, apart)
    return 0


if __name__ == "__main__":
    sys.exit(main())

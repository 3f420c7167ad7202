"""The gate: the exact probability that it passes a release at its margin, and its decisions about simulated releases.

The probability is enumerated over prompts lost and won, and is the largest over sixty margins, by number of prompts,
level and share of prompts won; no seeds are needed. Simulated releases, margin 0.05, are better, worse, and worse by
exactly the margin; the baseline is right on 7 of 10 prompts. With looks, a decision is that of the first of the looks
at 100, 200, 400 and 800 prompts that decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import norm

import dmlrank as dr
from dmlrank.cli.gate import EXIT_CODES, decide
from dmlrank.inference.score_limits import Moments, Side

from .runner import Row, Study

Array = np.ndarray
SIZES = ("20", "50", "80", "120", "170", "300", "500", "1000")
DIFFERENCE = {"better": 0.03, "equal by the margin": -0.05, "worse": -0.15}


def gate_sizes(n: int, level: float, won: float, margins: Array) -> dict[str, float]:
    """Return the largest probability, over margins, that a release at its margin passes, by method.

    A prompt is lost with probability margin + ``won`` and won with probability ``won``; all outcomes are enumerated.
    """
    most = n if n <= 60 else int(n * (margins.max() + won) + 8 * np.sqrt(n * (margins.max() + won)) + 8)
    lost, gained = (part.ravel() for part in np.meshgrid(np.arange(most + 1), np.arange(most + 1 if won else 1)))
    is_possible = lost + gained <= n
    lost, gained = lost[is_possible], gained[is_possible]
    mean = (gained - lost) / n
    share = (gained + lost) / n
    z = norm.isf(level)
    raw = [share, mean]
    moments = Moments(np.full(len(mean), float(n)), mean, raw[0] - mean**2, raw[1] - 3 * mean * raw[0] + 2 * mean**3)
    one = np.ones(len(mean))
    side = Side.of(moments, -one, one > 0, -one)
    limits = {
        "dmlrank": side.limit(z),
        "normal": mean - z * np.sqrt((share - mean**2) / n),
        "bonett-price": (gained - lost) / (n + 2)
        - z * np.sqrt((share * n + 2) / (n + 2) ** 2 - (mean * n) ** 2 / (n + 2) ** 3),
    }
    largest = dict.fromkeys(limits, 0.0)
    for margin in margins:
        log_p = np.array([np.log(margin + won), np.log(won) if won else 0.0, np.log1p(-margin - 2 * won)])
        probability = multinomial_log(lost, gained, n, log_p)
        for name, limit in limits.items():
            largest[name] = max(largest[name], float(probability[limit > -margin].sum()))
    return largest


def multinomial_log(lost: Array, gained: Array, n: int, log_p: Array) -> Array:
    """Return the probabilities of numbers of prompts lost and won."""
    rest = n - lost - gained
    coefficient = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(rest + 1)
    return np.exp(coefficient + lost * log_p[0] + gained * log_p[1] + rest * log_p[2])


def decision(scores: np.ndarray, planned: int | None) -> str:
    """The decision about 0/1 scores of baseline and candidate, (n, 2)."""
    table = pd.DataFrame(scores, columns=["baseline", "candidate"]).rename_axis("prompt").reset_index()
    table = table.melt("prompt", var_name="model", value_name="accuracy")
    result = dr.dml_rank("accuracy ~ 1 | model", table, context="prompt")
    result = result if planned is None else result.sequential(planned, start=100)
    return str(decide(result, "candidate", "baseline", 0.05, 0.95)["decision"])


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """All levels and shares with one number of prompts; or decisions about one release with one look and with four."""
    if cell in SIZES:
        for level, won in product((0.05, 0.025), (0.0, 0.005, 0.02)) if seed == 0 else ():
            key = {"n": int(cell), "level": level, "won": won}
            yield key | gate_sizes(int(cell), level, won, np.linspace(0.005, 0.3, 60))
        return
    for looks in (False, True):
        rng = np.random.default_rng([seed, len(cell), looks])
        n, sizes = (800, (100, 200, 400, 800)) if looks else (300, (300,))
        latent = np.where(rng.random((n, 1)) < 0.5, rng.random((n, 1)), rng.random((n, 2)))
        scores = (latent < [0.7, 0.7 + DIFFERENCE[cell]]).astype(float)
        made = (decision(scores[:size], 400 if looks else None) for size in sizes)
        decided = next((d for d in made if d != "not decided"), "not decided")
        yield {"looks": "four looks" if looks else "one look", "decision": decided}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Probabilities, and shares of the decisions."""
    made, exact, rest = {}, rows[rows["cell"].isin(SIZES)], rows[~rows["cell"].isin(SIZES)]
    if len(exact):
        figures = exact[["n", "level", "won", "dmlrank", "normal", "bonett-price"]]
        made["gate_exact"] = figures.map(lambda value: float(f"{value:.4g}")).astype({"n": int})
    if len(rest):
        by = rest.groupby(["cell", "looks"], sort=False)["decision"]
        shares = pd.DataFrame({name: by.agg(lambda found, name=name: (found == name).mean()) for name in EXIT_CODES})
        shares.insert(0, "samples", by.size())
        made["gate"] = shares.round(4).rename_axis(["candidate", "looks"]).reset_index()
    return made


STUDY = Study((*SIZES, *DIFFERENCE), replicate, tables, 500)

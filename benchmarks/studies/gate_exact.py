"""The exact probability that a gate passes a release at its margin, by enumeration over prompts lost and won.

The largest probability over sixty margins, by number of prompts, level and share of prompts won; a study without seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import norm

from dmlrank.inference.score_limits import Moments, Side

from .runner import Row, Study

Array = np.ndarray


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
    moments = Moments(
        np.full(len(mean), float(n)),
        mean,
        raw[0] - mean**2,
        raw[1] - 3 * mean * raw[0] + 2 * mean**3,
    )
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


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """All levels and shares with one number of prompts."""
    for level, won in product((0.05, 0.025), (0.0, 0.005, 0.02)):
        key = {"n": int(cell), "level": level, "won": won}
        yield key | gate_sizes(int(cell), level, won, np.linspace(0.005, 0.3, 60))


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """All rows of the first seed."""
    figures = rows[rows["seed"] == 0].drop(columns=["cell", "seed"])
    return {"gate_exact": figures.map(lambda value: float(f"{value:.4g}")).astype({"n": int})}


STUDY = Study(("20", "50", "80", "120", "170", "300", "500", "1000"), replicate, tables, 1)

"""Claims of first place: how often they are wrong, and how often the best model is rightly claimed to be first.

"level" cells count claims for a model that is not alone in first place. "power" cells count right claims by the test of
the leader, by comparisons with the best (Edwards and Hsu, in the form that also holds where models share first place)
and by all pairs (step-down max-t). Estimates are normal with a known covariance whose differences have standard errors
near one, or means of 0/1 scores on 200 prompts. A replication is 100 samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import norm

from dmlrank.inference.covariance import Covariance
from dmlrank.inference.ranks import first_place
from dmlrank.inference.simultaneous import MaxT, separate

from .runner import Row, Study

ALPHA, SAMPLES = 0.05, 100
# True scores, the best first.
TRUTHS: dict[str, Callable[[int], np.ndarray]] = {
    "all equal": np.zeros,
    "two share first place": lambda k: np.r_[0.0, 0.0, np.full(k - 2, -4.0)],
    "two share first place, others near": lambda k: np.r_[0.0, 0.0, np.full(k - 2, -0.7)],
    "one is first, others near": lambda k: np.r_[0.0, np.full(k - 1, -0.3)],
    "a ladder": lambda k: -2.8 * np.arange(k),
    "a crowd behind": lambda k: np.r_[0.0, np.full(k - 1, -3.5)],
    "one rival": lambda k: np.r_[0.0, -2.8, np.full(k - 2, -8.0)],
}
RHO = {"independent": 0.0, "correlated": 0.8, "unequal": 0.3, "negative": -0.9}
LEVEL = {
    f"level: {k}, {t}, {kind}": (k, t, kind) for k, t, kind in product((2, 4, 10), [*TRUTHS][:4], [*RHO, "0/1 scores"])
}
POWER = {f"power: {k}, {t}": (k, t, "correlated") for k, t in product((3, 8, 20, 52), [*TRUTHS][4:])}


def samples(kind: str, truth: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Estimates and their covariances."""
    k = len(truth)
    for _ in range(SAMPLES):
        if kind == "0/1 scores":
            latent = rng.normal(size=(200, 1)) + rng.normal(size=(200, k))
            scores = (latent < np.sqrt(2) * (0.5 + 0.1 * truth)).astype(float)
            yield scores.mean(axis=0), np.cov(scores.T, ddof=0) / 200
        else:
            rho, spread = RHO[kind], np.geomspace(0.3, 3.0, k) if kind == "unequal" else np.ones(k)
            rho = rho / max(k - 1, 1) if rho < 0 else rho
            matrix = ((1 - rho) * np.eye(k) + rho) * np.outer(spread, spread) / (2 * (1 - rho))
            yield rng.multivariate_normal(truth, matrix), matrix


def decides(estimate: np.ndarray, simultaneous: MaxT) -> tuple[int, bool, bool]:
    """The leader, and whether its test and tests of all pairs decide first place."""
    place = first_place(estimate, simultaneous, separate(estimate, simultaneous, ALPHA))
    return (0, False, False) if place is None else (place.leader, place.decided, bool(place.separated.all()))


def with_the_best(matrix: np.ndarray, rng: np.random.Generator) -> Callable[[np.ndarray], bool]:
    """Whether comparisons with the best decide: each other model is excluded in favour of the leader.

    The statistic of candidate i is compared with the largest one-sided statistic of all others against i, and with the
    opposite statistic, which holds where i shares first place.
    """
    errors = np.sqrt(np.add.outer(np.diag(matrix), np.diag(matrix)) - 2 * matrix)
    np.fill_diagonal(errors, np.inf)
    drawn = rng.multivariate_normal(np.zeros(len(matrix)), matrix, size=20_000)
    maxima = np.stack([np.sort(((drawn - drawn[:, [i]]) / errors[i]).max(axis=1)) for i in range(len(matrix))])

    def decide(estimate: np.ndarray) -> bool:
        leader = int(estimate.argmax())
        z = (estimate[leader] - estimate) / errors[leader]
        tail = np.array([1 - np.searchsorted(row, t) / 20_000 for row, t in zip(maxima, z, strict=True)])
        return bool((np.delete(tail + norm.sf(z), leader) <= ALPHA).all())

    return decide


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Numbers of claims among 100 samples."""
    k, truth, kind = (LEVEL | POWER)[cell]
    scores, rng = TRUTHS[truth](k), np.random.default_rng([seed, *cell.encode()])
    counts, simultaneous, best = np.zeros(4), None, None
    for estimate, matrix in samples(kind, scores, rng):
        if simultaneous is None or kind == "0/1 scores":
            simultaneous = MaxT(Covariance(matrix, np.eye(k)), n_draws=10_000)
            best = with_the_best(matrix, rng) if cell in POWER else None
        leader, decided, by_pairs = decides(estimate, simultaneous)
        is_first = bool((np.delete(scores, leader) < scores[leader]).all())
        counts += [
            decided and not is_first,
            *(is_first * np.array([decided, best and best(estimate), by_pairs], float)),
        ]
    yield dict(zip(("wrong claims", "first place", "comparisons with the best", "all pairs"), counts, strict=True))


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of wrong and of right claims by cell."""
    level, power = [], []
    for cell, part in rows.groupby("cell", sort=False):
        n, shares = SAMPLES * len(part), part.drop(columns=["cell", "seed"]).mean() / SAMPLES
        if cell in LEVEL:
            level.append((*LEVEL[cell], n, shares.iloc[0]))
        else:
            power.append((*POWER[cell][:2], n, *shares.iloc[1:]))
    found = {"first_place_level": (level, ["models", "truth", "covariance", "samples", "wrong claims"])}
    found["first_place_power"] = (power, ["models", "truth", "samples", *rows.columns[3:]])
    return {title: pd.DataFrame(part, columns=columns).round(4) for title, (part, columns) in found.items() if part}


STUDY = Study((*LEVEL, *POWER), replicate, tables, 20)

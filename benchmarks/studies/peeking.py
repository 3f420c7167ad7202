"""Boards that are looked at every 250 prompts: how often fixed and sequential statements are wrong at some look.

Each prompt belongs to one of four strata and shows at most one of the 15 pairs of six models. Models 1 and 2 are
equally good, and so are models 3 and 4. Probabilities of wins, losses and ties and of the pairs that are shown depend
on the stratum. There are looks every 250 units from 500 to 20,000: prompts, or users of one stratum each who bring
twenty prompts. First stages are the true ones, or learnt anew at every look, out of fold, by tables of counts, so that
all 79 refits of a run are cheap. "package": those of ``dml_rank`` at eight looks from 500 to 4,000 prompts.

A look is wrong if an interval of a score excludes the true score. Fixed intervals have the max-t critical value of the
true covariance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality
from dmlrank.inference.confidence_sequence import ConfidenceSequence
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.simultaneous import MaxT

from .runner import Row, Study, covers

FUNCTIONALS = {f.name: f for f in (kind(CategoryWeights.half(3)) for kind in (Borda, BradleyTerry, RankCentrality))}
K, C, STRATA, FOLDS, START, PLANNED, ALPHA = 6, 3, 4, 5, 500, 5_000, 0.05
FIRST, SECOND = (np.array(side) for side in zip(*combinations(range(K), 2), strict=True))
PAIRS, LOOKS = len(FIRST), np.arange(500, 20_001, 250)
# What an outcome is worth for the first model, and mean number of prompts of a user beyond the first.
WORTH, FURTHER = np.array([1.0, 0.0, 0.5]), 19.0
PACKAGE_LOOKS, PACKAGE_PLANNED = range(500, 4001, 500), 2_000
KINDS = ("fixed intervals", "sequential intervals")


@cache
def population(cell: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the categories, (STRATA, PAIRS, C), and that a prompt shows a pair, (STRATA, PAIRS)."""
    users, rng = cell == "users", np.random.default_rng(0)
    strength = np.array([0.5, 0.5, 0.0, 0.0, -0.3, -0.7]) + (2.0 if users else 0.5) * rng.normal(size=(STRATA, K))
    # Equal models have equal strength in every stratum, so that they are equal by every functional.
    strength[:, 1], strength[:, 3] = strength[:, 0], strength[:, 2]
    win = 1 / (1 + np.exp(strength[:, SECOND] - strength[:, FIRST]))
    weight = np.ones((STRATA, PAIRS)) if users else np.exp(0.5 * rng.normal(size=(STRATA, PAIRS)))
    p = np.stack([0.8 * win, 0.8 * (1 - win), np.full_like(win, 0.2)], axis=2)
    return p, 0.95 * weight / weight.sum(axis=1, keepdims=True)


def terms(name: str, p: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """F(mu) + DF(mu) (e_c - p) / pi for every pair and category, and F(mu) for no label, (..., PAIRS * C + 1, K)."""
    lead, functional = p.shape[:-2], FUNCTIONALS[name]
    p, shown = p.reshape(-1, PAIRS, C), np.broadcast_to(shown, p.shape[:-1]).reshape(-1, PAIRS)
    mu = np.zeros((len(p), K, K, C))
    mu[:, FIRST, SECOND], mu[:, SECOND, FIRST] = p, p[..., [1, 0, 2]]
    score, labelled = functional.value(mu), []
    for pair, (j, k) in enumerate(zip(FIRST, SECOND, strict=True)):
        step = np.zeros_like(mu)
        step[:, j, k], step[:, k, j] = [1, -1, 0], [-1, 1, 0]
        residual = (WORTH - (p[:, pair] @ WORTH)[:, None]) / shown[:, pair, None]
        labelled.append(score[:, None] + residual[..., None] * functional.derivative(mu, step)[:, None])
    return np.concatenate([*labelled, score[:, None]], axis=1).reshape(*lead, PAIRS * C + 1, K)


def learnt(counts: np.ndarray, pooled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Out-of-fold shares of categories and pairs from counts, (..., FOLDS, STRATA, PAIRS * C + 1)."""
    others = (counts.sum(axis=-3, keepdims=True) - counts).astype(float)
    labels = others[..., :-1].reshape(*others.shape[:-1], PAIRS, C)
    if pooled:
        p, shown = labels + 1.0, labels.sum(axis=-1) / others.sum(axis=-1)[..., None]
        return p / p.sum(axis=-1, keepdims=True), shown
    # The shares of a stratum are shrunk towards those of all strata.
    every = labels.sum(axis=-3, keepdims=True) + 1.0
    p, prompts, shares = (
        labels + 15 * every / every.sum(axis=-1, keepdims=True),
        others.sum(-1)[..., None],
        labels.sum(-1),
    )
    overall = shares.sum(axis=-2, keepdims=True) / prompts.sum(axis=-2, keepdims=True)
    return p / p.sum(axis=-1, keepdims=True), (shares + 5 * PAIRS * overall) / (prompts + 5 * PAIRS)


@dataclass(frozen=True)
class Truth:
    """Influence values of the cells with known first stages, true scores, and fixed critical values."""

    phi: np.ndarray
    score: np.ndarray
    of_scores: float
    of_pairs: float


def cells_of(cell: str) -> np.ndarray:
    """Probabilities of pair and category, or no label, by stratum, (STRATA, PAIRS * C + 1)."""
    p, shown = population(cell)
    return np.concatenate([(shown[..., None] * p).reshape(STRATA, -1), 1 - shown.sum(1, keepdims=True)], axis=1)


@cache
def truth_of(cell: str, name: str) -> Truth:
    """The truth about a functional; users are known by nothing, so that their scores are of mean preferences."""
    (p, shown), weight = population(cell), cells_of(cell) / STRATA
    if cell == "users":
        phi = terms(name, p.mean(axis=0), shown[0])
        score = phi[-1]
        of_type = STRATA * weight @ (phi - score)
        # With M prompts: E[M] times the second moment of a prompt, and E[M (M - 1)] times that of the means of types.
        within = (1 + FURTHER) * ((phi - score).T * weight.sum(axis=0)) @ (phi - score)
        matrix = within + (FURTHER**2 + 2 * FURTHER) * of_type.T @ of_type / STRATA
    else:
        phi = terms(name, p, shown)
        score = np.einsum("sc,sck->k", weight, phi)
        matrix = np.einsum("sc,scj,sck->jk", weight, phi - score, phi - score)
    # Scores of borda and rank centrality have a fixed sum, and bt scores sum to zero.
    covariance = Covariance(matrix, free_basis(np.ones((1, K)) / np.sqrt(K), K))
    of_pairs = MaxT(covariance, n_draws=20_000).critical_of_pairs(ALPHA)
    return Truth(phi, score, MaxT(covariance).critical(ALPHA), of_pairs)


@cache
def sequence(n: int) -> ConfidenceSequence:
    """The confidence sequence at a look."""
    return ConfidenceSequence(PLANNED, START, ALPHA, n, "prompts")


def wrong_intervals(mean: np.ndarray, variance: np.ndarray, truth: Truth) -> Row:
    """Whether a fixed and a sequential interval is wrong at any look, from means and variances of all looks, (L, K)."""
    z = (np.abs(mean - truth.score) / np.sqrt(variance)).max(axis=1)
    values = truth.of_scores, np.array([sequence(n).critical(K) for n in LOOKS.tolist()])
    return {kind: (z > value).any() for kind, value in zip(KINDS, values, strict=True)}


def of_prompts(seed: int) -> Iterator[Row]:
    """One run of prompts: counts of the cells at every look, (looks, FOLDS, STRATA, PAIRS * C + 1)."""
    rng, weight, added = (
        np.random.default_rng([0, seed]),
        cells_of("prompts").ravel(),
        np.diff(LOOKS, prepend=0) // FOLDS,
    )
    parts = rng.multinomial(added[:, None], weight / weight.sum(), size=(len(added), FOLDS))
    counts = np.cumsum(parts, axis=0).reshape(-1, FOLDS, STRATA, PAIRS * C + 1)
    for stages, name in ((stages, name) for stages in ("known", "learnt") for name in FUNCTIONALS):
        truth, n = truth_of("prompts", name), counts.sum(axis=(1, 2, 3))[:, None]
        phi = truth.phi if stages == "known" else terms(name, *learnt(counts, False))
        phi = np.broadcast_to(phi, (*counts.shape, K)).reshape(len(counts), -1, K)
        weighted = np.swapaxes(phi * counts.reshape(len(counts), -1, 1), 1, 2)
        mean = weighted.sum(axis=-1) / n
        variance = (np.einsum("lkc,lck->lk", weighted, phi) / n - mean**2) / (n - 1)
        yield {"row": f"{name}, {stages} first stages", **wrong_intervals(mean, variance, truth)}


def of_users(seed: int) -> Iterator[Row]:
    """One run of users: sums over users, at every look and by fold, of counts and of their products."""
    rng, last = np.random.default_rng([0, 2, seed]), int(LOOKS[-1])
    counts = rng.multinomial(1 + rng.poisson(FURTHER, size=last), cells_of("users")[rng.integers(STRATA, size=last)])
    fold, parts = rng.integers(FOLDS, size=last), list(zip([0, *LOOKS[:-1]], LOOKS, strict=True))
    of = [[counts[a:b][fold[a:b] == f].astype(float) for f in range(FOLDS)] for a, b in parts]
    sums = np.array([[users.sum(axis=0) for users in part] for part in of]).cumsum(axis=0)
    products = np.array([[users.T @ users for users in part] for part in of]).cumsum(axis=0)
    n = sums.sum(axis=(1, 2))[:, None, None]
    for stages, name in ((stages, name) for stages in ("known", "learnt") for name in FUNCTIONALS):
        truth = truth_of("users", name)
        phi = truth.phi if stages == "known" else terms(name, *learnt(sums[:, :, None], True))[:, :, 0]
        phi = np.broadcast_to(phi, (*sums.shape, K))
        mean = np.einsum("lfc,lfck->lk", sums, phi) / n[:, 0]
        centred, users = phi - mean[:, None, None, :], LOOKS[:, None]
        by_user = np.einsum("lfck,lfcd,lfdk->lk", centred, products, centred, optimize=True) / n[:, 0] ** 2
        by_prompt = np.einsum("lfc,lfck->lk", sums, centred**2) / n[:, 0] ** 2
        ignored = wrong_intervals(mean, by_prompt, truth)["sequential intervals"]
        row = {"row": f"{name}, {stages} first stages", **wrong_intervals(mean, by_user * users / (users - 1), truth)}
        yield {**row, "sequential intervals that ignore users": ignored}


def of_package(seed: int, looks: range = PACKAGE_LOOKS) -> Iterator[Row]:
    """One run of the package, which fits all votes with its learner at every look."""
    (p, shown), rng, n = population("package"), np.random.default_rng([0, 1, seed]), looks[-1]
    stratum = rng.integers(STRATA, size=n)
    pair = (rng.random((n, 1)) > shown.cumsum(axis=1)[stratum]).sum(axis=1)
    labelled, pair = pair < PAIRS, pair.clip(max=PAIRS - 1)
    winner = (rng.random((n, 1)) > p[stratum, pair].cumsum(axis=1)).sum(axis=1).clip(max=C - 1)
    names = np.array([f"m{j}" for j in range(K)], dtype=object)
    labels = np.array(["model_a", "model_b", "tie"], dtype=object)
    made = {"model_a": names[FIRST[pair]], "model_b": names[SECOND[pair]], "winner": labels[winner]}
    made = {column: np.where(labelled, values, None) for column, values in made.items()}
    votes = pd.DataFrame({"prompt": np.arange(n), "stratum": stratum, **made})
    rows = {name: dict.fromkeys(KINDS, False) for name in ("borda", "bt")}
    options = {"context": "prompt", "position_bias": False, "pairs": dr.Pairs(min_labels=1), "rng": 0, "n_jobs": 1}
    for look in looks:
        fit = dr.dml_rank("winner ~ C(stratum) | model_a + model_b", votes[:look], **options)
        for name in rows:
            fit = fit.update(functional=name)
            score = pd.Series(truth_of("package", name).score, index=names)
            for how, view in (("fixed", fit), ("sequential", fit.sequential(PACKAGE_PLANNED, START))):
                rows[name][f"{how} intervals"] |= not covers(view, score)
    for name, row in rows.items():
        yield {"row": name, **row}


def replicate(cell: str, seed: int, **small: range) -> Iterator[Row]:
    """One run."""
    return {"prompts": of_prompts, "users": of_users, "package": of_package}[cell](seed, **small)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of runs with a false claim at any look, and widths relative to those of one look."""
    made = {}
    titles = {"prompts": ("peeking", "at any of 79 looks"), "package": ("peeking_package", "at any of 8 looks")}
    titles["users"] = "peeking_users", "at any look, by users"
    for cell, part in rows.groupby("cell", sort=False):
        (title, looks), runs = titles[cell], part["seed"].nunique()
        shares = part.drop(columns=["cell", "seed"]).dropna(axis=1).groupby("row", sort=False).mean()
        shares = shares.map(lambda value: f"{100 * value:.1f} %")
        made[title] = shares.rename_axis(f"share of {runs} runs with a false claim {looks}").reset_index()
    truth = truth_of("prompts", "bt")
    widths = []
    for n in (START, PLANNED, 4 * PLANNED, 16 * PLANNED):
        scores, pairs, one = (sequence(n).critical(*number) for number in ((K,), (PAIRS,), ()))
        label = f"{n:,}{' (planned)' if n == PLANNED else ''}"
        ratios = scores / truth.of_scores, pairs / truth.of_pairs, one / 1.959964
        widths.append((label, *(f"{ratio:.2f}" for ratio in ratios)))
    columns = ["prompts", "scores", "differences", "one difference asked in advance"]
    return {**made, "sequential_widths": pd.DataFrame(widths, columns=columns)}


STUDY = Study(("prompts", "users", "package"), replicate, tables, 500)

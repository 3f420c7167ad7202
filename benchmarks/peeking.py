"""Boards that are looked at every 250 prompts: how often fixed and sequential statements are wrong at some look.

Each prompt belongs to one of four strata and shows at most one of the 15 pairs of six models. Models 1 and 2 are
equally good, and so are models 3 and 4. Probabilities of wins, losses and ties and of the pairs that are shown depend
on the stratum. There are looks every 250 prompts from 500 to 20,000.

- Known first stages: mu and pi are the true ones.
- Learnt first stages: both are estimated anew at every look, out of fold (five folds), by the shares in each stratum,
  shrunk towards the shares in all strata. This learner is a table of counts, so that all 79 refits of a run are cheap.
- Package: mu and pi are those of ``dml_rank("winner ~ C(stratum) | ...")``, which fits all votes at each of eight looks
  from 500 to 4,000 prompts.

A claim is false at a look if an interval of a score excludes the true score ("intervals"); if an interval of a
difference excludes the true difference ("pairs"); or if a model is placed above another one that is at least as good
("order", by the tests behind rank sets). Fixed intervals have the max-t critical value of the true covariance.

    python benchmarks/peeking.py --runs 500 --out benchmarks/results/peeking.csv
    python benchmarks/peeking.py --runs 33 --package --out benchmarks/results/peeking_package.csv
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr
from dmlrank.inference.confidence_sequence import ConfidenceSequence
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.simultaneous import AllLooks, MaxT, separate

Array = NDArray[np.float64]
FUNCTIONALS = ("borda", "bt", "rank_centrality")
K, C, STRATA, FOLDS, LARGEST, STEP, START, PLANNED, ALPHA = 6, 3, 4, 5, 20_000, 250, 500, 5_000, 0.05
FIRST, SECOND = (np.array(side) for side in zip(*combinations(range(K), 2), strict=True))
PAIRS = len(FIRST)
# What an outcome is worth for the first model.
WORTH = np.array([1.0, 0.0, 0.5])
# Looks of the study with the package's learner, whose fits take longer.
PACKAGE_LOOKS, PACKAGE_PLANNED, PACKAGE_FUNCTIONALS = tuple(range(500, 4001, 500)), 2_000, ("borda", "bt")
# Strength of the shares in all strata, as a number of votes, in the learnt tables of a stratum.
_SHRINKAGE = 15.0


@dataclass(frozen=True)
class Population:
    """Strata with equal weights: tables of win, loss and tie, and the probability that a prompt shows a pair.

    Attributes
    ----------
    p : ndarray, shape (STRATA, PAIRS, C)
        Probabilities of the categories.
    shown : ndarray, shape (STRATA, PAIRS)
        Probabilities that a prompt of the stratum is labelled on each pair; the sum over pairs is below one.
    """

    p: Array
    shown: Array


def population(seed: int = 0, *, balanced: bool = False, spread: float = 0.5) -> Population:
    """Return the population.

    Parameters
    ----------
    seed : int
    balanced : bool
        Whether the pairs are shown independently of the stratum.
    spread : float
        Standard deviation of the strength of a model between the strata, in log-odds.
    """
    rng = np.random.default_rng(seed)
    strength = np.array([0.5, 0.5, 0.0, 0.0, -0.3, -0.7])[None, :] + spread * rng.normal(size=(STRATA, K))
    # Equal models have equal strength in every stratum, so that they are equal by every functional.
    strength[:, 1], strength[:, 3] = strength[:, 0], strength[:, 2]
    win = 1 / (1 + np.exp(strength[:, SECOND] - strength[:, FIRST]))
    p = np.stack([0.8 * win, 0.8 * (1 - win), np.full_like(win, 0.2)], axis=2)
    weight = np.ones((STRATA, PAIRS)) if balanced else np.exp(0.5 * rng.normal(size=(STRATA, PAIRS)))
    return Population(p, 0.95 * weight / weight.sum(axis=1, keepdims=True))


def scores_and_slopes(name: str, win: Array) -> tuple[Array, Array]:
    """Return scores and their derivatives by the win shares of the pairs, in closed form.

    Parameters
    ----------
    name : {"borda", "bt", "rank_centrality"}
    win : ndarray, shape (..., PAIRS)
        Share that the first model of each pair wins; a tie counts one half.

    Returns
    -------
    score : ndarray, shape (..., K)
    slope : ndarray, shape (..., PAIRS, K)
    """
    incidence = np.eye(K)[FIRST] - np.eye(K)[SECOND]
    if name == "borda":
        score = 0.5 + (win - 0.5) @ incidence / (K - 1)
        return score, np.broadcast_to(incidence / (K - 1), (*win.shape, K))
    if name == "bt":
        slope = incidence / (K * win * (1 - win))[..., None]
        return np.log(win / (1 - win)) @ incidence / K, slope
    # A walk goes from the loser to the winner of a pair, with shares of wins that are divided by their sum.
    rate = np.zeros((*win.shape[:-1], K, K))
    rate[..., FIRST, SECOND], rate[..., SECOND, FIRST] = 1 - win, win
    total = rate.sum(axis=-1)
    move = rate / total[..., None]
    stay = np.eye(K) - move
    score = np.linalg.solve(np.swapaxes(stay, -1, -2) + 1.0, np.ones((*win.shape[:-1], K, 1)))[..., 0]
    # Scores s with s = s P and sum one change by s dP (1 - P + 1 s)^-1.
    inverse = np.linalg.inv(stay + score[..., None, :])
    gain = score / total
    from_second = gain[..., SECOND, None] * (np.eye(K)[FIRST] - move[..., SECOND, :])
    from_first = gain[..., FIRST, None] * (np.eye(K)[SECOND] - move[..., FIRST, :])
    return score, (from_second - from_first) @ inverse


def terms(name: str, p: Array, shown: Array) -> Array:
    """Return F(mu) + DF(mu) (e_c - p) / pi for every pair and category, and F(mu) alone for no label.

    Parameters
    ----------
    name : str
        The functional F.
    p : ndarray, shape (..., PAIRS, C)
    shown : ndarray, shape (..., PAIRS)

    Returns
    -------
    ndarray, shape (..., PAIRS * C + 1, K)
        The last entry of the axis before the last belongs to prompts without a label.
    """
    win = p @ WORTH
    score, slope = scores_and_slopes(name, win)
    residual = (WORTH - win[..., None]) / shown[..., None]
    labelled = score[..., None, None, :] + residual[..., None] * slope[..., None, :]
    labelled = labelled.reshape(*win.shape[:-1], PAIRS * C, K)
    return np.concatenate([labelled, score[..., None, :]], axis=-2)


def learnt(counts: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return out-of-fold shares of categories and pairs from counts, (..., FOLDS, STRATA, PAIRS * C + 1).

    Returns
    -------
    p : ndarray, shape (..., FOLDS, STRATA, PAIRS, C)
    shown : ndarray, shape (..., FOLDS, STRATA, PAIRS)
    """
    others = (counts.sum(axis=-3, keepdims=True) - counts).astype(float)
    labels = others[..., :-1].reshape(*others.shape[:-1], PAIRS, C)
    pooled = labels.sum(axis=-3, keepdims=True) + 1.0
    p = labels + _SHRINKAGE * pooled / pooled.sum(axis=-1, keepdims=True)
    prompts, shares = others.sum(axis=-1)[..., None], labels.sum(axis=-1)
    overall = shares.sum(axis=-2, keepdims=True) / prompts.sum(axis=-2, keepdims=True)
    shown = (shares + 5 * PAIRS * overall) / (prompts + 5 * PAIRS)
    return p / p.sum(axis=-1, keepdims=True), shown


def moments(phi: Array, counts: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return mean, (..., K), and covariance of the mean, (..., K, K), of values, (..., cells, K), with their counts."""
    n = counts.sum(axis=-1)[..., None]
    weighted = np.swapaxes(phi * counts[..., None], -1, -2)
    mean = weighted.sum(axis=-1) / n
    second = weighted @ phi / n[..., None]
    return mean, (second - mean[..., :, None] * mean[..., None, :]) / (n - 1)[..., None]


@dataclass(frozen=True)
class Truth:
    """True scores of a functional, and fixed critical values of its scores and of their differences."""

    score: Array
    basis: Array
    of_scores: float
    of_pairs: float


def truth_of(name: str, people: Population) -> Truth:
    """Return the true scores, with the critical values that belong to the true covariance of known first stages."""
    probability = np.concatenate(
        [(people.shown[..., None] * people.p).reshape(STRATA, -1), 1 - people.shown.sum(axis=1, keepdims=True)], axis=1
    )
    phi = terms(name, people.p, people.shown).reshape(-1, K)
    weight = probability.ravel() / STRATA
    score = weight @ phi
    # Scores of borda and rank centrality have a fixed sum, and bt scores sum to zero.
    basis = free_basis(np.ones((1, K)) / np.sqrt(K), K)
    covariance = Covariance((phi - score).T @ ((phi - score) * weight[:, None]), basis)
    of_pairs = MaxT(covariance, n_draws=20_000).critical_of_pairs(ALPHA)
    return Truth(score, basis, MaxT(covariance).critical(ALPHA), of_pairs)


def looks() -> NDArray[np.int64]:
    """Return the numbers of prompts at which the board is looked at."""
    return np.arange(START, LARGEST + 1, STEP)


def draw(people: Population, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the counts of one run at every look, (looks, FOLDS, STRATA, PAIRS * C + 1)."""
    labelled = (people.shown[..., None] * people.p).reshape(STRATA, -1)
    weight = np.concatenate([labelled, 1 - labelled.sum(axis=1, keepdims=True)], axis=1).ravel() / STRATA
    added = np.diff(looks(), prepend=0) // FOLDS
    parts = rng.multinomial(added[:, None], weight / weight.sum(), size=(len(added), FOLDS))
    return np.cumsum(parts, axis=0).reshape(-1, FOLDS, STRATA, PAIRS * C + 1)


@cache
def sequential_values() -> tuple[Array, Array, Array]:
    """Return critical values of scores and pairs at each look, and the smallest of Holm's steps, (looks,) each."""
    every = [ConfidenceSequence(PLANNED, START, ALPHA, n, "prompts") for n in looks().tolist()]
    last_step = [look.boundary(PAIRS).one_sided_critical(ALPHA) for look in every]
    return (
        np.array([look.critical(K) for look in every]),
        np.array([look.critical(PAIRS) for look in every]),
        np.array(last_step),
    )


def false_claims(mean: Array, matrix: Array, truth: Truth) -> pd.DataFrame:
    """Return a row per look: which fixed and sequential claims are false, from means and covariances of all looks."""
    variance = np.diagonal(matrix, axis1=1, axis2=2)
    gap, true_gap = mean[:, FIRST] - mean[:, SECOND], truth.score[FIRST] - truth.score[SECOND]
    gap_error = np.sqrt(variance[:, FIRST] + variance[:, SECOND] - 2 * matrix[:, FIRST, SECOND])
    z_scores, z_pairs = np.abs(mean - truth.score) / np.sqrt(variance), np.abs(gap - true_gap) / gap_error
    of_scores, of_pairs, of_last_step = (values[:, None] for values in sequential_values())
    # Pairs that are equal, or whose estimated order is wrong: separating one of these is an error.
    is_wrong = (np.sign(gap) != np.sign(true_gap)) | (np.abs(true_gap) < 1e-9)
    z_wrong = np.where(is_wrong, np.abs(gap) / gap_error, 0.0)
    # Step-down tests of one look are slow, and their first step is counted as "order fixed".
    frame = pd.DataFrame(
        {
            "n": looks(),
            "intervals fixed": (z_scores > truth.of_scores).any(axis=1),
            "intervals sequential": (z_scores > of_scores).any(axis=1),
            "pairs fixed": (z_pairs > truth.of_pairs).any(axis=1),
            "pairs sequential": (z_pairs > of_pairs).any(axis=1),
            "order fixed": (z_wrong > truth.of_pairs).any(axis=1),
            "order sequential": False,
        }
    )
    not_above = truth.score[:, None] - truth.score[None, :] <= 1e-9
    for place in np.flatnonzero((z_wrong >= of_last_step).any(axis=1)).tolist():
        look = ConfidenceSequence(PLANNED, START, ALPHA, int(looks()[place]), "prompts")
        above = separate(mean[place], AllLooks(Covariance(matrix[place], truth.basis), look), ALPHA).above
        frame.loc[place, "order sequential"] = bool((above & not_above).any())
    return frame


def run(name: str, people: Population, truth: Truth, counts: NDArray[np.int64], *, known: bool) -> pd.DataFrame:
    """Return a row per look with the false claims of one run.

    Parameters
    ----------
    name : str
        The functional.
    people : Population
    truth : Truth
    counts : ndarray of int, shape (looks, FOLDS, STRATA, PAIRS * C + 1)
    known : bool
        Whether first stages are the true ones.
    """
    if known:
        phi = terms(name, people.p, people.shown).reshape(-1, K)
        return false_claims(*moments(phi, counts.sum(axis=1).reshape(len(counts), -1)), truth)
    phi = terms(name, *learnt(counts)).reshape(len(counts), -1, K)
    return false_claims(*moments(phi, counts.reshape(len(counts), -1)), truth)


def summarise(claims: pd.DataFrame, functional: str, stages: str) -> list[dict[str, object]]:
    """Return rows with shares of runs with a false claim: at any look, and at the last look."""
    rows: list[dict[str, object]] = []
    kinds = [name for name in claims.columns if name not in ("n", "run")]
    any_look = claims.groupby("run")[kinds].any().mean()
    last = claims[claims["n"] == claims["n"].max()][kinds].mean()
    for kind in kinds:
        statement, how = kind.split()
        rows.append(
            {
                "functional": functional,
                "first stages": stages,
                "statement": statement,
                "critical values": how,
                "any look": any_look[kind],
                "last look": last[kind],
                "runs": claims["run"].nunique(),
            }
        )
    return rows


def widths(truth: Truth, functional: str) -> list[dict[str, object]]:
    """Return widths of sequential intervals relative to those of one look."""
    rows = []
    for n in (START, PLANNED, 4 * PLANNED, 16 * PLANNED):
        look = ConfidenceSequence(PLANNED, START, ALPHA, n, "prompts")
        scores, pairs = look.critical(K) / truth.of_scores, look.critical(PAIRS) / truth.of_pairs
        one = look.critical() / 1.959964
        rows.append({"functional": functional, "n": n, "scores": scores, "pairs": pairs, "one contrast": one})
    return rows


def study(
    n_runs: int, functionals: tuple[str, ...] = FUNCTIONALS, seed: int = 0, out: str | None = None
) -> pd.DataFrame:
    """Return shares of runs with false claims; they are written every 20 runs where ``out`` names a file."""
    people = population(seed)
    truths = {name: truth_of(name, people) for name in functionals}
    if out:
        table = pd.DataFrame([row for name in functionals for row in widths(truths[name], name)])
        table.to_csv(out.replace(".csv", "_widths.csv"), index=False, float_format="%.3f")
    parts: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for number in range(n_runs):
        counts = draw(people, np.random.default_rng([seed, number]))
        for stages in ("known", "learnt"):
            for name in functionals:
                claims = run(name, people, truths[name], counts, known=stages == "known")
                parts.setdefault((stages, name), []).append(claims.assign(run=number))
        if number == n_runs - 1 or (out and number % 20 == 19):
            rows = [row for (stages, name), runs in parts.items() for row in summarise(pd.concat(runs), name, stages)]
            table = pd.DataFrame(rows)
            if out:
                table.to_csv(out, index=False, float_format="%.4f")
    return table


def battles_of(people: Population, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return votes of n prompts as a frame for the package; prompts without a label have no winner."""
    stratum = rng.integers(STRATA, size=n)
    pair = (rng.random((n, 1)) > people.shown.cumsum(axis=1)[stratum]).sum(axis=1)
    labelled = pair < PAIRS
    pair = pair.clip(max=PAIRS - 1)
    winner = (rng.random((n, 1)) > people.p[stratum, pair].cumsum(axis=1)).sum(axis=1).clip(max=C - 1)
    frame = pd.DataFrame(
        {
            "prompt": np.arange(n),
            "stratum": stratum,
            "model_a": np.where(labelled, [f"m{j}" for j in FIRST[pair]], None),
            "model_b": np.where(labelled, [f"m{k}" for k in SECOND[pair]], None),
            "winner": np.where(labelled, np.array(["model_a", "model_b", "tie"], dtype=object)[winner], None),
        }
    )
    return frame


def package_study(n_runs: int, seed: int = 0, out: str | None = None) -> pd.DataFrame:
    """Return shares of runs with false claims of the package, which fits all votes with its learner at every look."""
    people = population(seed)
    true_scores = {name: truth_of(name, people).score for name in PACKAGE_FUNCTIONALS}
    rows = []
    for number in range(n_runs):
        battles = battles_of(people, PACKAGE_LOOKS[-1], np.random.default_rng([seed, 1, number]))
        for n in PACKAGE_LOOKS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                board = _fit_of_look(battles[:n])
                fits = {name: board.update(functional=name) for name in PACKAGE_FUNCTIONALS}
            for name, fit in fits.items():
                for how, result in (("fixed", fit), ("sequential", fit.sequential(PACKAGE_PLANNED, START))):
                    rows.append(
                        {"functional": name, "n": n, "run": number, "how": how, **_misses(result, true_scores[name])}
                    )
        frame = pd.DataFrame(rows)
        shares = frame.groupby(["functional", "how", "run"])[["intervals", "pairs", "order"]].any()
        table = shares.groupby(["functional", "how"]).mean().assign(runs=number + 1, looks=len(PACKAGE_LOOKS))
        if out:
            table.reset_index().to_csv(out, index=False, float_format="%.4f")
    return table.reset_index()


def _fit_of_look(battles: pd.DataFrame) -> dr.RankResults:
    """Fit the votes of a look with the package's learner of mu and of the propensities."""
    return dr.dml_rank(
        "winner ~ C(stratum) | model_a + model_b",
        battles,
        context="prompt",
        position_bias=False,
        pairs=dr.Pairs(min_labels=1),
        rng=0,
        n_jobs=1,
    )


def _misses(result: dr.RankResults, score: Array) -> dict[str, bool]:
    """Return which kinds of claims of a result of the package are false."""
    true = pd.Series(score, index=[f"m{j}" for j in range(K)])
    limits = result.conf_int()
    pairs = result.t_test_pairwise().result_frame
    true_gap = true[pairs["first"]].to_numpy() - true[pairs["second"]].to_numpy()
    ranks = result.ranks().result_frame
    best = 1 + (true.to_numpy()[None, :] > true.to_numpy()[:, None] + 1e-9).sum(axis=1)
    worst = (true.to_numpy()[None, :] >= true.to_numpy()[:, None] - 1e-9).sum(axis=1)
    ranks = ranks.loc[true.index]
    return {
        "intervals": bool(((limits["lower"] > true[limits.index]) | (limits["upper"] < true[limits.index])).any()),
        "pairs": bool(((pairs["conf_low"] > true_gap) | (pairs["conf_high"] < true_gap)).any()),
        "order": bool(((ranks["lower"] > best) | (ranks["upper"] < worst)).any()),
    }


def main() -> None:
    """Run the study from the command line and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--package", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.package:
        print(package_study(options.runs, options.seed, options.out).round(3).to_string(index=False))
        return
    print(study(options.runs, seed=options.seed, out=options.out).round(3).to_string(index=False))
    people = population(options.seed)
    for name in FUNCTIONALS:
        print(pd.DataFrame(widths(truth_of(name, people), name)).round(2).to_string(index=False))


if __name__ == "__main__":
    sys.exit(main())

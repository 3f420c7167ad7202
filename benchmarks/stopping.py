"""Labels needed to decide between two models: plans with sequential tests, random pairs, and a fixed number.

Six models, of which model 0 and model 1 are to be compared by Bradley-Terry scores. Rounds have 250 prompts, and 500
prompts from 3,000 on; 95 % of the prompts get a label on one pair. There are tests after every round from 500 prompts
on, until model 0 and model 1 are separated, or four times the fixed number of labels is spent.

- fixed: random pairs; one test at the number of labels that has power 0.8 for the assumed gap.
- random, sequential: random pairs; stop when the confidence sequence of the difference excludes zero.
- plan, sequential: from the third round on the pairs of ``dr.design(..., until="model_0 > model_1")`` for the
  probabilities learnt so far, 20 % of it spread evenly over all pairs; a new plan whenever there are 1.25 times the
  prompts of the last one.
- random, repeated: random pairs; stop when an ordinary test at 5 % rejects. This is what peeking does.

mu is learnt at every look, out of fold, by the shares of all rounds; propensities are those with which each round was
drawn. The sequences are planned for the fixed number of prompts.

    python benchmarks/stopping.py --seeds 300 --out benchmarks/results/stopping.csv
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from peeking import FIRST, FOLDS, PAIRS, SECOND, WORTH, C, K, scores_and_slopes, terms
from scipy.stats import norm

import dmlrank as dr
from dmlrank.inference.confidence_sequence import ConfidenceSequence

Array = NDArray[np.float64]
ROUND, START, RATE, EXPLORE, ALPHA, GAP = 250, 500, 0.95, 0.2, 0.05, 0.2
ARMS = ("fixed", "random, sequential", "plan, sequential", "random, repeated")
_UNIFORM = np.full(PAIRS, RATE / PAIRS)


@dataclass(frozen=True)
class World:
    """True probabilities of win, loss and tie, (PAIRS, C), and the true difference of model 0 and model 1."""

    p: Array
    gap: float


def world(gap: float) -> World:
    """Return models whose first two differ by about ``gap`` in log-odds."""
    strength = np.array([0.2 + gap / 2, 0.2 - gap / 2, 0.0, 0.3, -0.3, -0.6])
    win = 1 / (1 + np.exp(strength[SECOND] - strength[FIRST]))
    p = np.stack([0.8 * win, 0.8 * (1 - win), np.full_like(win, 0.2)], axis=1)
    score, _ = scores_and_slopes("bt", p @ WORTH)
    return World(p, float(score[0] - score[1]))


def variance(place: World, shown: Array) -> float:
    """Return the variance of one prompt's influence on the difference, for known first stages."""
    phi = terms("bt", place.p, shown)
    weight = np.append((shown[:, None] * place.p).ravel(), 1 - shown.sum())
    contrast = phi[:, 0] - phi[:, 1]
    return float(weight @ (contrast - weight @ contrast) ** 2)


def fixed_prompts(assumed: World, power: float = 0.8) -> int:
    """Return the number of prompts with random pairs at which one test at 5 % has this power for the assumed gap."""
    needed = (norm.isf(ALPHA / 2) + norm.isf(1 - power)) ** 2 * variance(assumed, _UNIFORM) / assumed.gap**2
    return int(np.ceil(needed / (2 * ROUND)) * 2 * ROUND)


def planned_pairs(p: Array) -> Array:
    """Return the propensities of the plan for one prompt with these probabilities, (PAIRS,)."""
    mu = np.zeros((1, K, K, C))
    mu[0, FIRST, SECOND], mu[0, SECOND, FIRST] = p, p[:, [1, 0, 2]]
    plan = dr.design(
        mu,
        "bt",
        budget=RATE,
        until="model_0 > model_1",
        one_pair=True,
        explore=EXPLORE,
        position_bias=False,
        n_jobs=1,
    )
    return plan.propensity[0, FIRST, SECOND]


def shares(counts: NDArray[np.int64]) -> Array:
    """Return shares of categories from counts, (..., PAIRS, C), with three votes of an even match in advance."""
    with_prior = counts + np.array([1.2, 1.2, 0.6])
    return with_prior / with_prior.sum(axis=-1, keepdims=True)


def difference(counts: NDArray[np.int64], shown: Array) -> tuple[float, float]:
    """Return the difference of model 0 and model 1 with its standard error.

    Parameters
    ----------
    counts : ndarray of int, shape (FOLDS, rules, PAIRS * C + 1)
        Labels of the rounds with each rule.
    shown : ndarray, shape (rules, PAIRS)
        Propensities of each rule.
    """
    by_fold = counts.sum(axis=1)[:, :-1].reshape(FOLDS, PAIRS, C)
    p = shares(by_fold.sum(axis=0) - by_fold)[:, None]
    phi = terms("bt", np.broadcast_to(p, (FOLDS, len(shown), PAIRS, C)), shown)
    every = phi[..., 0] - phi[..., 1]
    n = counts.sum()
    mean = float((counts * every).sum() / n)
    return mean, float(np.sqrt((counts * (every - mean) ** 2).sum() / n / (n - 1)))


def draw_round(place: World, shown: Array, n_prompts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the counts of a round by fold, (FOLDS, PAIRS * C + 1)."""
    weight = np.append((shown[:, None] * place.p).ravel(), max(0.0, 1 - shown.sum()))
    return rng.multinomial(n_prompts // FOLDS, weight / weight.sum(), size=FOLDS)


def label(place: World, n_fixed: int, arm: str, rng: np.random.Generator) -> dict[str, object]:
    """Label round by round until the arm stops; return labels, and which of the two models is declared better."""
    # Counts and propensities of each rule: rounds with the same propensities are counted together.
    counts, shown = [np.zeros((FOLDS, PAIRS * C + 1), dtype=np.int64)], [_UNIFORM]
    last = n_fixed if arm == "fixed" else 4 * n_fixed
    answer, last_plan = 0, START / 2
    sizes = [*range(ROUND, 3000, ROUND), *range(3000, last + 1, 2 * ROUND)]
    for before, n in zip([0, *sizes], sizes, strict=False):
        if arm == "plan, sequential" and n > START and n >= 1.25 * last_plan:
            shown.append(planned_pairs(shares(np.sum(counts, axis=(0, 1))[:-1].reshape(PAIRS, C))))
            counts.append(np.zeros_like(counts[0]))
            last_plan = n
        counts[-1] += draw_round(place, shown[-1], n - before, rng)
        if n < (last if arm == "fixed" else START):
            continue
        estimate, error = difference(np.stack(counts, axis=1), np.array(shown))
        look = ConfidenceSequence(n_fixed, START, ALPHA, n, "prompts")
        critical = look.critical() if "sequential" in arm else norm.isf(ALPHA / 2)
        if abs(estimate) > critical * error:
            answer = int(np.sign(estimate))
            break
    labels = int(np.sum(counts) - np.sum([part[:, -1].sum() for part in counts]))
    return {"arm": arm, "labels": labels, "prompts": n, "answer": answer}


def study(
    n_seeds: int, factors: tuple[float, ...] = (1.0, 1.5, 0.0), *, seed: int = 0, out: str | None = None
) -> pd.DataFrame:
    """Return labels and error rates by true gap, as a multiple of the assumed gap, and by arm."""
    n_fixed, rows = fixed_prompts(world(GAP)), []
    places = {factor: world(factor * GAP) for factor in factors}
    for number in range(n_seeds):
        for factor, place in places.items():
            for arm in ARMS:
                rng = np.random.default_rng([seed, number, int(10 * factor), ARMS.index(arm)])
                rows.append({"gap": factor, **label(place, n_fixed, arm, rng)})
        if number == n_seeds - 1 or (out and number % 10 == 9):
            table = summarise(pd.DataFrame(rows), number + 1)
            if out:
                table.to_csv(out, index=False, float_format="%.4f")
    return table


def summarise(rows: pd.DataFrame, n_seeds: int) -> pd.DataFrame:
    """Return a row per gap and arm: labels, share of right and of wrong answers."""
    right = (rows["answer"] > 0) & (rows["gap"] > 0)
    wrong = (rows["answer"] != 0) & ~right
    groups = rows.assign(right=right, wrong=wrong).groupby(["gap", "arm"], sort=False)
    table = groups.agg(
        labels=("labels", "mean"),
        median=("labels", "median"),
        lower_quartile=("labels", lambda labels: labels.quantile(0.25)),
        upper_quartile=("labels", lambda labels: labels.quantile(0.75)),
        right=("right", "mean"),
        wrong=("wrong", "mean"),
    )
    return table.reset_index().assign(seeds=n_seeds)


def main() -> None:
    """Run the study from the command line and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    print(f"fixed number of prompts: {fixed_prompts(world(GAP)):,}")
    print(study(options.seeds, seed=options.seed, out=options.out).round(3).to_string(index=False))


if __name__ == "__main__":
    sys.exit(main())

"""Boards whose votes come from users: how often fixed and sequential statements are wrong at some look.

Users arrive over time, each with all of their prompts (1 + Poisson(19) prompts). A user is of one of four types, which
decides what the user votes for; the type is not observed, so that the votes of a user depend on each other. There are
looks every 250 users from 500 to 20,000. Six models, of which two pairs are equally good, as in ``peeking.py``.

Mu is the mean over types, pi is known. Both are the true ones ("known") or estimated anew at every look, out of fold,
by the shares among the users of the other folds ("learnt"). Influence values are summed by user. "ignored" are the
sequential intervals that take every prompt for a unit of its own, with ``planned`` in prompts.

    python benchmarks/peeking_clusters.py --runs 500 --out benchmarks/results/peeking_clusters.csv
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from peeking import (
    ALPHA,
    FOLDS,
    FUNCTIONALS,
    PAIRS,
    STRATA,
    WORTH,
    Array,
    C,
    K,
    Population,
    Truth,
    false_claims,
    looks,
    population,
    scores_and_slopes,
    summarise,
    terms,
)

from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.simultaneous import MaxT

CELLS = PAIRS * C + 1
# Standard deviation of the strength of a model between the types of users, in log-odds.
_SPREAD = 2.0
# Mean number of prompts of a user beyond the first.
_FURTHER = 19.0


def probabilities(people: Population) -> Array:
    """Return the probabilities of the cells of a prompt by type, (STRATA, CELLS); the last cell is "no label"."""
    labelled = (people.shown[..., None] * people.p).reshape(STRATA, -1)
    return np.concatenate([labelled, 1 - labelled.sum(axis=1, keepdims=True)], axis=1)


def mean_terms(name: str, people: Population) -> Array:
    """Return influence values, not centred, of the cells, (CELLS, K), with the true mean mu and the true pi."""
    return terms(name, people.p.mean(axis=0), people.shown[0])


def truth_of(name: str, people: Population) -> Truth:
    """Return the true scores, with fixed critical values from the true covariance of a user's sums."""
    score = scores_and_slopes(name, people.p.mean(axis=0) @ WORTH)[0]
    phi, weight = mean_terms(name, people) - score, probabilities(people)
    of_type = weight @ phi
    # With M prompts: E[M] times the second moment of a prompt, and E[M (M - 1)] times that of the means of types.
    within = (1 + _FURTHER) * (phi.T * weight.mean(axis=0)) @ phi
    matrix = within + (_FURTHER**2 + 2 * _FURTHER) * of_type.T @ of_type / STRATA
    covariance = Covariance(matrix, free_basis(np.ones((1, K)) / np.sqrt(K), K))
    of_pairs = MaxT(covariance, n_draws=20_000).critical_of_pairs(ALPHA)
    return Truth(score, covariance.basis, MaxT(covariance).critical(ALPHA), of_pairs)


def draw(people: Population, n_users: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of prompts of each user in each cell, (n_users, CELLS), and the fold of each user."""
    kind = rng.integers(STRATA, size=n_users)
    counts = rng.multinomial(1 + rng.poisson(_FURTHER, size=n_users), probabilities(people)[kind])
    return counts, rng.integers(FOLDS, size=n_users)


def totals(counts: NDArray[np.int64], fold: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return, at every look and by fold, the sums of the counts and of their products over users.

    Returns
    -------
    ndarray, shape (looks, FOLDS, CELLS)
    ndarray, shape (looks, FOLDS, CELLS, CELLS)
    """
    sums, products = np.zeros((len(looks()), FOLDS, CELLS)), np.zeros((len(looks()), FOLDS, CELLS, CELLS))
    for place, (start, stop) in enumerate(zip([0, *looks()[:-1]], looks(), strict=True)):
        for f in range(FOLDS):
            users = counts[start:stop][fold[start:stop] == f].astype(float)
            sums[place, f], products[place, f] = users.sum(axis=0), users.T @ users
    return sums.cumsum(axis=0), products.cumsum(axis=0)


def learnt(sums: Array) -> tuple[Array, Array]:
    """Return the shares of categories by pair and of pairs among the prompts of the other folds.

    Parameters
    ----------
    sums : ndarray, shape (looks, FOLDS, CELLS)

    Returns
    -------
    p : ndarray, shape (looks, FOLDS, PAIRS, C)
    shown : ndarray, shape (looks, FOLDS, PAIRS)
    """
    others = sums.sum(axis=1, keepdims=True) - sums
    labels = others[..., :-1].reshape(*others.shape[:-1], PAIRS, C)
    p = labels + 1.0
    return p / p.sum(axis=-1, keepdims=True), labels.sum(axis=-1) / others.sum(axis=-1)[..., None]


def moments(phi: Array, sums: Array, products: Array) -> tuple[Array, Array, Array]:
    """Return estimates with their covariance by users, and with the covariance that ignores users.

    Parameters
    ----------
    phi : ndarray, shape (looks, FOLDS, CELLS, K)
    sums, products : ndarray
        As :func:`totals` returns them.

    Returns
    -------
    mean : ndarray, shape (looks, K)
    by_user, by_prompt : ndarray, shape (looks, K, K)
    """
    n_prompts = sums.sum(axis=(1, 2))
    mean = np.einsum("lfc,lfck->lk", sums, phi) / n_prompts[:, None]
    centred = phi - mean[:, None, None, :]
    transposed = np.swapaxes(centred, -1, -2)
    by_user = (transposed @ products @ centred).sum(axis=1) / n_prompts[:, None, None] ** 2
    by_prompt = (transposed @ (sums[..., None] * centred)).sum(axis=1) / n_prompts[:, None, None] ** 2
    n_users = looks()[:, None, None]
    return mean, by_user * n_users / (n_users - 1), by_prompt


def study(n_runs: int, seed: int = 0, out: str | None = None) -> pd.DataFrame:
    """Return shares of runs with false claims; they are written every 20 runs where ``out`` names a file."""
    people = population(seed, balanced=True, spread=_SPREAD)
    truths = {name: truth_of(name, people) for name in FUNCTIONALS}
    parts: dict[tuple[str, str], list[pd.DataFrame]] = {}
    for number in range(n_runs):
        counts, fold = draw(people, int(looks()[-1]), np.random.default_rng([seed, 2, number]))
        sums, products = totals(counts, fold)
        for name in FUNCTIONALS:
            known = np.broadcast_to(mean_terms(name, people), (*sums.shape, K))
            for stages, phi in (("known", known), ("learnt", terms(name, *learnt(sums)))):
                mean, by_user, by_prompt = moments(phi, sums, products)
                claims = false_claims(mean, by_user, truths[name])
                ignored = false_claims(mean, by_prompt, truths[name])
                for statement in ("intervals", "pairs", "order"):
                    claims[f"{statement} ignored"] = ignored[f"{statement} sequential"]
                parts.setdefault((stages, name), []).append(claims.assign(run=number))
        if number == n_runs - 1 or (out and number % 20 == 19):
            rows = [row for (stages, name), runs in parts.items() for row in summarise(pd.concat(runs), name, stages)]
            table = pd.DataFrame(rows)
            if out:
                table.to_csv(out, index=False, float_format="%.4f")
    return table


def main() -> None:
    """Run the study from the command line and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out")
    options = parser.parse_args()
    print(study(options.runs, options.seed, options.out).round(3).to_string(index=False))


if __name__ == "__main__":
    sys.exit(main())

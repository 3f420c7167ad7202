"""Decisions: error rates of first place, of the gate and of score against cost.

``python benchmarks/decisions.py level`` counts claims of first place for a model that is not alone in first place:
2,000 samples a row, nominal at most 0.05. ``power`` counts right claims by the test of the leader, by comparisons with
the best (Edwards and Hsu, in the form that also holds where models share first place) and by all pairs (step-down
max-t), in 12 settings. ``gate`` counts the decisions of the gate where the candidate is better, worse, and worse by
exactly the margin (``--samples 500``). ``pareto`` counts wrong statuses of score against cost with 8 models, and
``criteria`` coverage at 50 random weightings at once (``--samples 500``). Each writes a table to docs/results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from scipy.stats import norm

import dmlrank as dr
from dmlrank.cli.gate import EXIT_CODES, decide
from dmlrank.inference import bootstrap_and_max_t
from dmlrank.inference.covariance import Covariance
from dmlrank.inference.ranks import first_place
from dmlrank.inference.simultaneous import MaxT, separate

TABLES = Path(__file__).parents[1] / "docs" / "results"
ALPHA = 0.05
Array = np.ndarray


# --- first place ------------------------------------------------------------------------------------------------------


def covariance_of_kind(kind: str, k: int) -> Array:
    """Return a covariance of k scores whose differences have standard errors near one."""
    spread = np.ones(k) if kind != "unequal" else np.geomspace(0.3, 3.0, k)
    rho = {"independent": 0.0, "correlated": 0.8, "unequal": 0.3, "negative": -0.9 / max(k - 1, 1)}[kind]
    correlation = (1 - rho) * np.eye(k) + rho
    return correlation * np.outer(spread, spread) / (2 * (1 - rho))


def scores_of_truth(truth: str, k: int) -> Array:
    """Return true scores, the best first, in units of a standard error of a difference."""
    return {
        "all equal": np.zeros(k),
        "two share first place": np.r_[0.0, 0.0, np.full(k - 2, -4.0)],
        "two share first place, others near": np.r_[0.0, 0.0, np.full(k - 2, -0.7)],
        "one is first, others near": np.r_[0.0, np.full(k - 1, -0.3)],
    }[truth]


def samples(kind: str, truth: Array, number: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield estimates and their covariances: normal with a known one, or means of 0/1 scores on 200 prompts."""
    k = len(truth)
    if kind != "0/1 scores":
        matrix = covariance_of_kind(kind, k)
        for estimate in rng.multivariate_normal(truth, matrix, size=number):
            yield estimate, matrix
        return
    for _ in range(number):
        latent = rng.normal(size=(200, 1)) + rng.normal(size=(200, k))
        scores = (latent < np.sqrt(2) * (0.5 + 0.1 * truth)).astype(float)
        yield scores.mean(axis=0), np.cov(scores.T, ddof=0) / 200


def claims(estimate: Array, matrix: Array) -> tuple[int, bool]:
    """Return the leader, and whether the package decides first place."""
    leader = int(estimate.argmax())
    variance = np.delete(matrix[leader, leader] + np.diag(matrix) - 2 * matrix[leader], leader)
    z = np.delete(estimate[leader] - estimate, leader) / np.sqrt(variance)
    if 2 * norm.sf(z.min()) > 2 * ALPHA:
        # Tests of all pairs have larger p-values, up to the error of their draws, and take long.
        return leader, False
    simultaneous = MaxT(Covariance(matrix, np.eye(len(matrix))), n_draws=10_000)
    place = first_place(estimate, simultaneous, separate(estimate, simultaneous, ALPHA))
    return (0, False) if place is None else (place.leader, place.decided)


def level(number: int) -> pd.DataFrame:
    """Return the share of samples with a wrong claim of first place."""
    rows = []
    truths = ("all equal", "two share first place", "two share first place, others near", "one is first, others near")
    kinds = ("independent", "correlated", "unequal", "negative", "0/1 scores")
    for k, truth, kind in product((2, 4, 10), truths, kinds):
        scores = scores_of_truth(truth, k)
        rng = np.random.default_rng([k, len(truth), len(kind)])
        wrong = 0
        for estimate, matrix in samples(kind, scores, number, rng):
            leader, decided = claims(estimate, matrix)
            wrong += decided and bool((np.delete(scores, leader) >= scores[leader]).any())
        rows.append((k, truth, kind, number, wrong / number))
    return pd.DataFrame(rows, columns=["models", "truth", "covariance", "samples", "wrong claims"])


def comparisons_with_the_best(matrix: Array, draws: int, rng: np.random.Generator) -> Callable[[Array], bool]:
    """Return a function that says whether comparisons with the best decide first place for an estimate.

    Candidate i is excluded in favour of the leader where its statistic exceeds the critical value of the largest
    one-sided statistic of all other models against i, and of the opposite statistic, which holds where i shares first
    place.
    """
    errors = np.sqrt(np.add.outer(np.diag(matrix), np.diag(matrix)) - 2 * matrix)
    np.fill_diagonal(errors, np.inf)
    drawn = rng.multivariate_normal(np.zeros(len(matrix)), matrix, size=draws)
    maxima = np.stack([((drawn - drawn[:, [i]]) / errors[i]).max(axis=1) for i in range(len(matrix))])
    maxima.sort(axis=1)

    def decide(estimate: Array) -> bool:
        leader = int(estimate.argmax())
        z = (estimate[leader] - estimate) / errors[leader]
        share = np.array([1 - np.searchsorted(row, t) / draws for row, t in zip(maxima, z, strict=True)])
        return bool((np.delete(share + norm.sf(z), leader) <= ALPHA).all())

    return decide


def power(number: int) -> pd.DataFrame:
    """Return the shares of samples in which the best model is rightly claimed to be first, by three methods."""
    rows = []
    patterns: dict[str, Callable[[int], Array]] = {
        "a ladder": lambda k: -2.8 * np.arange(k),
        "a crowd behind": lambda k: np.r_[0.0, np.full(k - 1, -3.5)],
        "one rival": lambda k: np.r_[0.0, -2.8, np.full(k - 2, -8.0)],
    }
    for k, (pattern, truth) in product((3, 8, 20, 52), patterns.items()):
        rng = np.random.default_rng([k, len(pattern)])
        matrix = covariance_of_kind("correlated", k)
        with_best = comparisons_with_the_best(matrix, 20_000, rng)
        simultaneous = MaxT(Covariance(matrix, np.eye(k)), n_draws=10_000)
        right = np.zeros(3)
        for estimate in rng.multivariate_normal(truth(k), matrix, size=number):
            separation = separate(estimate, simultaneous, ALPHA)
            place = first_place(estimate, simultaneous, separation)
            assert place is not None
            if place.leader == 0:
                right += [place.decided, with_best(estimate), place.separated.all()]
        rows.append((k, pattern, number, *right / number))
    return pd.DataFrame(
        rows, columns=["models", "truth", "samples", "first place", "comparisons with the best", "all pairs"]
    )


# --- the gate ---------------------------------------------------------------------------------------------------------


def table_of_scores(prompts: int, difference: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return 0/1 scores of a baseline, right on 7 of 10 prompts, and of a candidate that differs by ``difference``."""
    shared = rng.random(prompts) < 0.5
    latent = np.where(shared[:, None], rng.random((prompts, 1)), rng.random((prompts, 2)))
    scores = (latent < [0.7, 0.7 + difference]).astype(float)
    return pd.DataFrame(
        {
            "prompt": np.repeat(np.arange(prompts), 2),
            "model": np.tile(["baseline", "candidate"], prompts),
            "accuracy": scores.ravel(),
        }
    )


def decision(table: pd.DataFrame, planned: int | None = None) -> str:
    """Return the decision of the gate with a margin of 0.05 about a table."""
    result = dr.dml_rank("accuracy ~ 1 | model", table, context="prompt")
    result = result if planned is None else result.sequential(planned, start=100)
    return str(decide(result, "candidate", "baseline", 0.05, 1 - ALPHA)["decision"])


def gate(number: int, with_looks: tuple[bool, ...] = (False, True)) -> pd.DataFrame:
    """Return the shares of decisions where the candidate is better, worse, and worse by the margin.

    With looks, a decision is that of the first of the looks at 100, 200, 400 and 800 prompts that decides.
    """
    rows = []
    for truth, difference in (("better", 0.03), ("equal by the margin", -0.05), ("worse", -0.15)):
        for looks in with_looks:
            rng = np.random.default_rng([len(truth), looks])
            made = []
            for _ in range(number):
                table = table_of_scores(800 if looks else 300, difference, rng)
                sizes = (100, 200, 400, 800) if looks else (300,)
                decisions = [decision(table[: 2 * n], 400 if looks else None) for n in sizes]
                made.append(next((d for d in decisions if d != "not decided"), "not decided"))
            shares = [made.count(name) / number for name in EXIT_CODES]
            rows.append((truth, "four looks" if looks else "one look", number, *shares))
    return pd.DataFrame(rows, columns=["candidate", "looks", "samples", *EXIT_CODES])


# --- score against cost -----------------------------------------------------------------------------------------------


def costs_and_abilities(k: int, rng: np.random.Generator) -> Array:
    """Return true mean costs and mean scores of k models, (2, k)."""
    ability = np.sort(rng.uniform(0.35, 0.85, size=k))
    return np.stack([100 * np.exp(2 * ability + 0.5 * rng.normal(size=k)), ability])


def few_draws() -> AbstractContextManager[object]:
    """Draw 10,000 times for a critical value, which takes less time and moves the level by at most 0.004."""
    return mock.patch.multiple(bootstrap_and_max_t, _FEWEST_DRAWS=10_000, _MAX_PRODUCTS=0, _MAX_STATISTICS=0)


def table_of_costs(prompts: int, truth: Array, rng: np.random.Generator) -> pd.DataFrame:
    """Return 0/1 scores and tokens of models with these mean costs and scores: hard prompts take more tokens."""
    k = truth.shape[1]
    hard = rng.normal(size=(prompts, 1))
    scores = (norm.cdf(0.7 * hard + np.sqrt(0.51) * rng.normal(size=(prompts, k))) < truth[1]).astype(float)
    log_tokens = 0.3 * hard + 0.39 * rng.normal(size=(prompts, k))
    return pd.DataFrame(
        {
            "prompt": np.repeat(np.arange(prompts), k),
            "model": np.tile([f"m{j}" for j in range(k)], prompts),
            "score": scores.ravel(),
            "tokens": (truth[0] * np.exp(log_tokens - (0.3**2 + 0.39**2) / 2)).ravel(),
        }
    )


def pareto(number: int, k: int = 8, sizes: tuple[int, ...] = (300,)) -> pd.DataFrame:
    """Return the shares of samples with a wrong status and with an interval that misses, and of decided statuses."""
    rows = []
    for n, kind in product(sizes, ("correlated", "equal models")):
        rng = np.random.default_rng([n, len(kind)])
        wrong, missed, decided = 0, 0, 0
        for _ in range(number):
            truth = costs_and_abilities(k, rng)
            if kind == "equal models":
                # Pairs of models with one cost and score each: no relation between the two may be claimed.
                truth = np.repeat(truth[:, ::2], 2, axis=1)
            table = table_of_costs(n, truth, rng)
            with few_draws():
                found = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0).pareto("tokens")
            place = {f"m{j}": j for j in range(k)}
            claims = found.table[["model", "status", "dominated_by"]].itertuples(index=False)
            wrong += any(_is_wrong(truth, place, *claim) for claim in claims)
            first, second = (found.tests[side].map(place).to_numpy() for side in ("first", "second"))
            difference = truth[(found.tests["quantity"] == "score").to_numpy().astype(int)]
            rows_of = np.arange(len(first))
            gaps = difference[rows_of, first] - difference[rows_of, second]
            missed += bool(((gaps < found.tests["conf_low"]) | (gaps > found.tests["conf_high"])).any())
            decided += int((found.table["status"] != "open").sum())
        rows.append((n, kind, number, wrong / number, missed / number, decided / number / k))
    columns = ["prompts", "kind", "samples", "a wrong status", "an interval misses", "decided statuses"]
    return pd.DataFrame(rows, columns=columns)


def _is_wrong(truth: Array, place: dict[str, int], model: str, status: str, dominated_by: str) -> bool:
    """Return whether a status claims what is not true."""
    cost, score = truth
    j = place[model]
    if status == "dominated":
        by = [place[name] for name in dominated_by.split(", ")]
        return not all(score[k] > score[j] and cost[k] < cost[j] for k in by)
    others = np.delete(np.arange(len(cost)), j)
    return status == "front" and not ((score[j] > score[others]) | (cost[j] < cost[others])).all()


# --- criteria ---------------------------------------------------------------------------------------------------------


CRITERIA = ("right", "style", "safety")


def true_criteria(k: int) -> Array:
    """Return true mean scores of k models on three criteria, (3, k): the best model depends on the criterion."""
    place = np.linspace(-1, 1, k)
    return np.stack([0.6 + 0.15 * place, 3.0 - 0.4 * place, 0.8 - 0.1 * place**2])


def table_of_criteria(prompts: int, rng: np.random.Generator, k: int = 4) -> pd.DataFrame:
    """Return scores on three correlated criteria: right or wrong, a grade with a bell curve, and rarely unsafe."""
    truth = true_criteria(k)
    shared, hard = rng.normal(size=(prompts, k)), rng.normal(size=(prompts, 1))
    latent = (hard + shared)[None] * 0.5 + np.sqrt(0.5) * rng.normal(size=(3, prompts, k))
    scores = (norm.cdf(latent[0]) < truth[0], truth[1] - latent[1], norm.cdf(latent[2]) < truth[2])
    columns = {name: np.ravel(score).astype(float) for name, score in zip(CRITERIA, scores, strict=True)}
    prompt, model = np.repeat(np.arange(prompts), k), np.tile([f"m{j}" for j in range(k)], prompts)
    return pd.DataFrame({"prompt": prompt, "model": model, **columns})


def criteria(number: int, sizes: tuple[int, ...] = (500,)) -> pd.DataFrame:
    """Return how often intervals at 50 random weightings cover all true scores, and nobody wrong is shown to be first.

    For comparison, how often intervals that each hold for one weighting cover at all 50.
    """
    rows = []
    formula, truth = f"{' + '.join(CRITERIA)} ~ 1 | model", true_criteria(4)
    for n in sizes:
        rng = np.random.default_rng(n)
        covered, single, right = 0, 0, 0
        for _ in range(number):
            with few_draws():
                fitted = dr.dml_rank(formula, table_of_criteria(n, rng), context="prompt", rng=0)
            inside, inside_single = True, True
            for w in rng.dirichlet(np.ones(3), size=50):
                found = fitted.at_weights(dict(zip(CRITERIA, w, strict=True)))
                error = (found["score"] - w @ truth).abs()
                inside &= bool((error <= found["upper"] - found["score"]).all())
                inside_single &= bool((error <= norm.isf(ALPHA / 8) * found["std_error"]).all())
            first = fitted.first_for_some_weighting()
            claimed = first.index[first["shown"]]
            leads = [w @ truth for w in first.loc[claimed, list(CRITERIA)].to_numpy()]
            right += all(scores.argmax() == int(name[1:]) for name, scores in zip(claimed, leads, strict=True))
            covered, single = covered + inside, single + inside_single
        rows.append((n, number, covered / number, single / number, 1 - right / number))
    columns = ["prompts", "samples", "covered", "covered by intervals of one weighting", "a wrong first"]
    return pd.DataFrame(rows, columns=columns)


def main() -> int:
    """Run a study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("level", "power", "gate", "pareto", "criteria"))
    parser.add_argument("--samples", type=int, default=2000)
    given = parser.parse_args()
    studies = {"level": level, "power": power, "gate": gate, "pareto": pareto, "criteria": criteria}
    figures = studies[given.what](given.samples)
    name = given.what if given.what in ("gate", "pareto", "criteria") else f"first_place_{given.what}"
    figures.round(4).to_csv(TABLES / f"{name}.csv", index=False)
    print(figures.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Do the bounds for votes not cast cover the truth, are they attained, and what do sensitivity analyses cost?

Battles are simulated in which voting depends on the label that the voter would give. Votes that are cast follow mu,
votes that are not cast follow mu w with 1/gamma <= w <= gamma. The truth is the score of all shown battles.

    extreme    every pair has the law that moves the first contrast up as far as gamma allows: the bound is attained
    mixed      every pair is moved up or down as far as gamma allows, in a direction that depends on pair and prompt

    python benchmarks/sensitivity.py coverage --seeds 200 --out benchmarks/results/sensitivity.csv
    python benchmarks/sensitivity.py real          # MT-Bench and Chatbot Arena, from $DMLRANK_DATA
    python benchmarks/sensitivity.py cost          # 135,000 battles of 53 models
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr
from dmlrank.data.hypotheses import read_hypothesis
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.sensitivity.tipping_points import BoundEvaluation

FloatArray = NDArray[np.float64]

MODELS = ("ant", "bee", "cat", "dog")
SKILL = np.array([0.8, 0.3, -0.2, -0.9])
SLOPE = np.array([0.4, -0.2, 0.1, -0.3])
CONTRASTS = ("ant - bee", "bee - cat", "cat - dog")
LAWS = ("extreme", "mixed")
TIES = 0.15
FUNCTIONALS = ("borda", "bt")
FORMULA = "winner ~ x | model_a + model_b"


def voters(x: FloatArray) -> FloatArray:
    """Category probabilities of votes that are cast, (n, K, K, 3): first wins, second wins, tie."""
    score = SKILL + np.outer(x, SLOPE)
    first = 1 / (1 + np.exp(score[:, None, :] - score[:, :, None]))
    mu = np.stack([(1 - TIES) * first, (1 - TIES) * (1 - first), np.full_like(first, TIES)], axis=-1)
    mu[:, np.arange(4), np.arange(4)] = 0.0
    return mu


def vote_rate(x: FloatArray) -> FloatArray:
    """Probability that a shown battle gets a vote, (n,)."""
    return 0.35 + 0.3 / (1 + np.exp(-x))


def tilted(mu: FloatArray, up: NDArray[np.bool_], gamma: float) -> FloatArray:
    """Probabilities of votes not cast, (n, K, K, 3), category by category, as a greedy knapsack.

    ``up``, (n, K, K), says who is favoured: the item shown first or the other one.
    """
    worth = np.where(up[..., None], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5])
    order = np.argsort(-worth, axis=-1)
    law = mu / gamma
    left = np.full(mu.shape[:-1], 1 - 1 / gamma)
    for place in range(3):
        category = order[..., place : place + 1]
        share = np.take_along_axis(mu, category, axis=-1)[..., 0]
        added = np.minimum(left, share * (gamma - 1 / gamma))
        np.put_along_axis(
            law, category, (np.take_along_axis(law, category, axis=-1)[..., 0] + added)[..., None], axis=-1
        )
        left -= added
    return law


def favoured(x: FloatArray, law: str) -> NDArray[np.bool_]:
    """Who is favoured by votes not cast, (n, K, K): whether it is the item shown first."""
    if law == "mixed":
        sign = np.add.outer(np.arange(4), np.arange(4)) % 2 == 0
        up = np.where((x > 0)[:, None, None], sign, ~sign)
    else:
        # The first contrast, ant - bee, rises with every preference for ant and falls with every one for bee.
        value = np.array([1.0, -1.0, 0.0, 0.0])
        up = np.broadcast_to(value[:, None] > value[None, :], (len(x), 4, 4)).copy()
    first = np.triu(np.ones((4, 4), dtype=bool), 1)
    return np.where(first, up, ~np.swapaxes(up, 1, 2))


def truth(law: str, gamma: float) -> dict[str, FloatArray]:
    """Contrasts of the scores of all shown battles, by quadrature over x ~ N(0, 1)."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    mu, rate = voters(node), vote_rate(node)[:, None, None, None]
    everybody = rate * mu + (1 - rate) * tilted(mu, favoured(node, law), gamma)
    functionals = {"borda": Borda, "bt": BradleyTerry}
    scores = {
        name: weight @ functionals[name](CategoryWeights.half(3)).value(everybody) / weight.sum()
        for name in FUNCTIONALS
    }
    return {name: score[:-1] - score[1:] for name, score in scores.items()}


def draw(law: str, gamma: float, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw n shown battles, each on a prompt of its own; the winner is missing where nobody voted.

    Votes that are cast are drawn from mu. By the definition of the law, the votes that are not cast then have the
    probabilities mu w; nobody sees them, so that they are not drawn.
    """
    x = rng.normal(size=n)
    first = rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    mu = voters(x)[np.arange(n), first, second]
    label = (rng.random(n)[:, None] > np.cumsum(mu, axis=1)).sum(axis=1)
    winner = np.array(["model_a", "model_b", "tie"], dtype=object)[np.minimum(label, 2)]
    winner[rng.random(n) > vote_rate(x)] = None
    names = np.array(MODELS)
    return pd.DataFrame({"x": x, "model_a": names[first], "model_b": names[second], "winner": winner})


def replicate(gamma: float, seed: int, n: int = 2000, functionals: tuple[str, ...] = FUNCTIONALS) -> pd.DataFrame:
    """Rows with bounds, intervals and truths of all contrasts, for every law and functional.

    The law of votes not cast leaves no trace in the data, so that one sample serves all laws.
    """
    rng = np.random.default_rng([seed, int(100 * gamma)])
    battles = draw("extreme", gamma, n, rng)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = dr.dml_rank(FORMULA, battles, functional=functionals[0], position_bias=False, rng=seed)
        for functional in functionals:
            fitted = fit.update(functional=functional)
            contrasts = read_hypothesis(list(CONTRASTS), fitted.names).matrix
            bounds = BoundEvaluation.of(fitted.steps, contrasts).at([1.0, gamma], 0.05)
            sides = ("lower", "upper", "conf_lower", "conf_upper")
            at = {
                level: pd.DataFrame(
                    {"hypothesis": CONTRASTS, "gamma": level} | {s: getattr(bounds, s)[g] for s in sides}
                )
                for g, level in enumerate((1.0, gamma))
            }
            error = bounds.upper_error[1]
            for law in LAWS:
                true = truth(law, gamma)[functional]
                part = at[gamma].assign(law=law, functional=functional, seed=seed, truth=true, upper_error=error)
                part["covered"] = (part["conf_lower"] <= true) & (true <= part["conf_upper"])
                part["covered_at_one"] = (at[1.0]["conf_lower"] <= true) & (true <= at[1.0]["conf_upper"])
                rows.append(part)
    return pd.concat(rows, ignore_index=True)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Shares of joint coverage, and how far the upper bound of the first contrast is from the truth."""
    rows = []
    for (gamma, law, functional), part in frame.groupby(["gamma", "law", "functional"]):
        joint = part.groupby("seed")[["covered", "covered_at_one"]].all().mean()
        first = part[part["hypothesis"] == CONTRASTS[0]]
        error = first["upper"] - first["truth"]
        rows.append(
            {
                "gamma": gamma,
                "law": law,
                "functional": functional,
                "seeds": part["seed"].nunique(),
                "joint_coverage": joint["covered"],
                "joint_coverage_at_one": joint["covered_at_one"],
                "bias_of_upper": error.mean(),
                "sd_of_upper": error.std(),
                "mean_error_of_upper": first["upper_error"].mean(),
                "above_upper": (error + 1.96 * first["upper_error"] < 0).mean(),
            }
        )
    return pd.DataFrame(rows)


def coverage(seeds: int, n: int, out: str | None) -> None:
    """Run the coverage study and print its table; write all rows as they come."""
    parts: list[pd.DataFrame] = []
    for seed in range(seeds):
        for gamma in (1.25, 2.0):
            parts.append(replicate(gamma, seed, n))
        if out and (seed % 10 == 9 or seed == seeds - 1):
            pd.concat(parts).to_csv(out + ".rows", index=False)
    table = summarise(pd.concat(parts))
    print(table.round(4).to_string(index=False))
    if out:
        table.round(5).to_csv(out, index=False)
        pathlib.Path(out + ".rows").unlink()


def real() -> None:
    """Bounds on MT-Bench; fragility on Chatbot Arena."""
    data = pathlib.Path(os.environ["DMLRANK_DATA"])
    warnings.simplefilter("ignore")
    mt_bench = dr.datasets.read_mt_bench(data / "mt_bench")
    fit = dr.dml_rank(
        "winner ~ C(category) + C(turn) | model_a + model_b",
        mt_bench,
        functional="bt",
        context=["question_id", "turn"],
        rng=0,
    )
    print(fit.sensitivity(gamma=(1, 1.25, 2)).summary())
    arena = dr.datasets.read_chatbot_arena(data / "chatbot_arena" / "human.json")
    print("Chatbot Arena", arena.shape, list(arena))
    for functional in ("bt", "borda"):
        fit = dr.dml_rank("winner ~ 1 | model_a + model_b", arena, functional=functional, rng=0)
        for flip in (False, True):
            start = time.perf_counter()
            fragility = fit.fragility(flip=flip)
            print(functional, f"{time.perf_counter() - start:.1f} s")
            print(fragility.summary())


def cost(n: int = 135_000, n_models: int = 53, formulas: tuple[str, ...] = ("~ 1", "~ x0 + x1")) -> None:
    """Time and memory of each analysis on a large arena, without and with features."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    skill = np.linspace(1, -1, n_models)
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    x = rng.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(skill[second] - skill[first] + 0.2 * x[:, 0] * (second - first) / n_models))
    winner = np.where(rng.random(n) < chance, "model_a", "model_b").astype(object)
    winner[rng.random(n) < 0.4] = None
    names = np.array([f"m{place:02}" for place in range(n_models)])
    frame = pd.DataFrame(
        {"x0": x[:, 0], "x1": x[:, 1], "model_a": names[first], "model_b": names[second], "winner": winner}
    )

    for features in formulas:
        formula = f"winner {features} | model_a + model_b"
        fit = timed(f"fit {formula}", dr.dml_rank, formula, frame, functional="bt", position_bias=False, rng=0)
        timed("sensitivity(), 52 neighbours", fit.sensitivity)
        timed("sensitivity of one pair", fit.sensitivity, "m00 - m01")
        timed("fragility()", fit.fragility)


def timed(what: str, call: Callable[..., Any], *arguments: object, **options: object) -> Any:
    """Call a function and print its time, the processor's time in all threads, and the largest memory so far."""
    start, processor = time.perf_counter(), time.process_time()
    result = call(*arguments, **options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = f"{time.perf_counter() - start:8.1f} s, {time.process_time() - processor:8.1f} s of processor time"
    print(f"{what:45} {seconds}   peak {peak:.2f} GB", flush=True)
    return result


def main() -> None:
    """Run the part of the study that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("coverage", "real", "cost"))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--contexts", type=int, default=2000)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    if arguments.part == "coverage":
        coverage(arguments.seeds, arguments.contexts, arguments.out)
    else:
        {"real": real, "cost": cost}[arguments.part]()


if __name__ == "__main__":
    main()

"""Do the bounds for votes not cast cover the truth, and are they attained?

Voting depends on the label that the voter would give. Votes that are cast follow mu, votes that are not cast follow
mu w with 1/gamma <= w <= gamma. The truth is the score of all shown battles. In "extreme" every pair has the law that
moves the first contrast up as far as gamma allows, so that the bound is attained; in "mixed" every pair is moved up or
down as far as gamma allows, in a direction that depends on pair and prompt. The law leaves no trace in the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.data.hypotheses import read_hypothesis
from dmlrank.fit.tipping_points import BoundEvaluation
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights

from .runner import Row, Study

MODELS, CONTRASTS = ("ant", "bee", "cat", "dog"), ["ant - bee", "bee - cat", "cat - dog"]
SKILL, SLOPE, TIES = np.array([0.8, 0.3, -0.2, -0.9]), np.array([0.4, -0.2, 0.1, -0.3]), 0.15
FUNCTIONALS, LAWS = {"borda": Borda, "bt": BradleyTerry}, ("extreme", "mixed")


def voters(x: np.ndarray) -> np.ndarray:
    """Category probabilities of votes that are cast, (n, K, K, 3): first wins, second wins, tie."""
    score = SKILL + np.outer(x, SLOPE)
    first = 1 / (1 + np.exp(score[:, None, :] - score[:, :, None]))
    mu = np.stack([(1 - TIES) * first, (1 - TIES) * (1 - first), np.full_like(first, TIES)], axis=-1)
    return mu * ~np.eye(4, dtype=bool)[..., None]


def vote_rate(x: np.ndarray) -> np.ndarray:
    """Probability that a shown battle gets a vote, (n,)."""
    return 0.35 + 0.3 / (1 + np.exp(-x))


def tilted(mu: np.ndarray, up: np.ndarray, gamma: float) -> np.ndarray:
    """Probabilities of votes not cast, (n, K, K, 3), as a greedy knapsack; ``up``: the first is favoured."""
    order = np.argsort(-np.where(up[..., None], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5]), axis=-1)
    ordered, left = np.take_along_axis(mu, order, axis=-1), np.full(mu.shape[:-1], 1 - 1 / gamma)
    law = ordered / gamma
    for place in range(3):
        added = np.minimum(left, ordered[..., place] * (gamma - 1 / gamma))
        law[..., place] += added
        left -= added
    return np.take_along_axis(law, np.argsort(order, axis=-1), axis=-1)


def favoured(x: np.ndarray, law: str) -> np.ndarray:
    """Whether votes not cast favour the item shown first, (n, K, K)."""
    if law == "mixed":
        sign = np.add.outer(np.arange(4), np.arange(4)) % 2 == 0
        up = np.where((x > 0)[:, None, None], sign, ~sign)
    else:
        # The first contrast, ant - bee, rises with every preference for ant and falls with every one for bee.
        value = np.array([1.0, -1.0, 0.0, 0.0])
        up = np.broadcast_to(value[:, None] > value[None, :], (len(x), 4, 4))
    return np.where(np.triu(np.ones((4, 4), dtype=bool), 1), up, ~np.swapaxes(up, 1, 2))


@cache
def truth_of(law: str, gamma: float, functional: str) -> np.ndarray:
    """Contrasts of the scores of all shown battles, by quadrature over x ~ N(0, 1)."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    mu, rate = voters(node), vote_rate(node)[:, None, None, None]
    everybody = rate * mu + (1 - rate) * tilted(mu, favoured(node, law), gamma)
    return -np.diff(weight @ FUNCTIONALS[functional](CategoryWeights.half(3)).value(everybody) / weight.sum())


def replicate(cell: str, seed: int, n: int = 2000) -> Iterator[Row]:
    """Coverage of all contrasts, and the error of the first upper bound, for every law and functional."""
    gamma, rng = float(cell), np.random.default_rng([seed, int(100 * float(cell))])
    x, first = rng.normal(size=n), rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    label = (rng.random(n)[:, None] > voters(x)[np.arange(n), first, second].cumsum(axis=1)).sum(axis=1)
    winner = np.array(["model_a", "model_b", "tie"], dtype=object)[np.minimum(label, 2)]
    winner[rng.random(n) > vote_rate(x)] = None
    names = np.array(MODELS)
    battles = pd.DataFrame({"x": x, "model_a": names[first], "model_b": names[second], "winner": winner})
    fit = dr.dml_rank("winner ~ x | model_a + model_b", battles, position_bias=False, rng=seed, n_jobs=1)
    for functional in FUNCTIONALS:
        fit = fit.update(functional=functional)
        bounds = BoundEvaluation.of(fit.steps, read_hypothesis(CONTRASTS, fit.names).matrix).at([1.0, gamma], 0.05)
        for law in LAWS:
            truth = truth_of(law, gamma, functional)
            held = ((bounds.conf_lower <= truth) & (truth <= bounds.conf_upper)).all(axis=1)
            row = {"law": law, "functional": f"`{functional}`", "joint coverage": held[1], "at gamma = 1": held[0]}
            yield {**row, "error": bounds.upper[1][0] - truth[0], "se": bounds.upper_error[1][0]}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of joint coverage, and how far the upper bound of the first contrast is from the truth it attains."""
    made = []
    for (gamma, law, functional), part in rows.groupby(["cell", "law", "functional"], sort=False):
        error = f"{part['error'].mean():.3f} ({part['error'].std():.3f})" if law == "extreme" else ""
        se = f"{part['se'].mean():.3f}" if law == "extreme" else ""
        shares = f"{part['joint coverage'].mean():.3f}", f"{part['at gamma = 1'].mean():.2f}"
        made.append((gamma, law, functional, *shares, error, se))
    columns = ["gamma", "law", "functional", "joint coverage", "at gamma = 1"]
    columns += ["mean of upper bound less truth (s.d.)", "mean standard error"]
    return {"sensitivity_coverage": pd.DataFrame(made, columns=columns)}


STUDY = Study(("1.25", "2.0"), replicate, tables, 200, {"n": 500})

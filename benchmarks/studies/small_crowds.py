"""Small crowds: do limits of win shares hold with 20 and 60 prompts, one-sided pairs, and a model with few votes?

Two, four and eight models without features; the strengths of four and eight differ by prompt. Scores are those of
``borda``; the truth of a score is its value at the mean preferences.
Coverage of all scores at once, all differences at once, each score and the win probability of the first model against
the last one by itself, and the widths of the intervals of a score and of a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study

# Models, votes by prompt and crowds; the votes of a prompt are on different pairs.
SETTINGS = [
    *((2, 1, n, kind) for n, kind in product((20, 60), ("even", "far", "hopeless"))),
    *((4, 6, 20, kind) for kind in ("even", "hopeless", "far")),
    *((4, 1, n, kind) for n, kind in product((20, 60), ("even", "dominant", "rare and hopeless"))),
    *((8, 3, n, kind) for n, kind in product((20, 60), ("far", "rare and hopeless"))),
]
# Standard deviation of a model's strength between prompts, but of two models.
BY_PROMPT = 0.5
KEY = ["models", "votes by prompt", "prompts", "kind"]


def strengths(k: int, kind: str) -> np.ndarray:
    """Return the log-odds of K models; of two, the first one wins .73, .94 or .98."""
    if k == 2:
        return np.array([0.5, -0.5]) * {"even": 1, "far": 2.8, "hopeless": 4}[kind]
    if kind in ("even", "far"):
        return np.linspace(1, -1, k) * (0.5 if kind == "even" else 0.75 * (k - 1))
    others = np.linspace(0.5, -0.5, k - 1)
    return np.append(4.0, others) if kind == "dominant" else np.append(others, -4.0)


def draw_crowd(k: int, v: int, n: int, kind: str, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return votes, and the mean preferences of all pairs, (K, K); a rare model has a quarter of the others' votes."""
    strength, spread = strengths(k, kind), BY_PROMPT * (k > 2)
    by_prompt, (a, b) = strength + spread * rng.normal(size=(n, k)), np.triu_indices(k, 1)
    p = np.where(b == k - 1, 0.25, 1.0) if kind.startswith("rare") else np.ones(len(a))
    pair = np.concatenate([rng.choice(len(a), v, replace=False, p=p / p.sum()) for _ in range(n)])
    prompt, first, second = np.repeat(np.arange(n), v), a[pair], b[pair]
    won = rng.random(n * v) < expit(by_prompt[prompt, first] - by_prompt[prompt, second])
    names, is_turned = np.array([f"m{j}" for j in range(k)]), rng.random(n * v) < 0.5
    sides = [np.where(is_turned, names[y], names[x]) for x, y in ((first, second), (second, first))]
    votes = pd.DataFrame({"prompt": prompt, "model_a": sides[0], "model_b": sides[1]})
    votes["winner"] = np.where(won != is_turned, "model_a", "model_b")
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    gap = (strength[:, None] - strength)[..., None] + np.sqrt(2) * spread * nodes
    return votes, expit(gap) @ (weights / weights.sum())


def figures_of(votes: pd.DataFrame, preferences: np.ndarray, seed: int) -> dict[str, float]:
    """Return whether intervals contain the truth, and their widths; of models without a vote there is none."""
    options = {"functional": "borda", "context": "prompt", "position_bias": False, "min_labels": 1, "rng": seed}
    result = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, **in_objects(options | {"n_jobs": 1}))
    places = [int(name[1:]) for name in result.params.index]
    table = preferences[np.ix_(places, places)]
    table = np.stack([table, 1 - table], axis=-1)
    table[np.diag_indices(len(table))] = 0
    truth = pd.Series(result.steps.setup.functional.value(table[None])[0], result.params.index)

    def covers(low: pd.Series, high: pd.Series, values: pd.Series) -> np.ndarray:
        return ((low <= values + 1e-9) & (values <= high + 1e-9)).to_numpy()

    joint, each, pairs = result.conf_int(), result.conf_int(method="none"), result.t_test_pairwise().result_frame
    gaps = truth[pairs["first"]].to_numpy() - truth[pairs["second"]].to_numpy()
    by_itself, first, last = covers(each["lower"], each["upper"], truth), *result.params.index[[0, -1]]
    figures = {
        "scores": covers(joint["lower"], joint["upper"], truth).all(),
        "differences": covers(pairs["conf_low"], pairs["conf_high"], pd.Series(gaps)).all(),
        "each": by_itself.mean(),
        "last": by_itself[-1],
        "width": (each["upper"] - each["lower"]).mean(),
        "width of a difference": (pairs["conf_high"] - pairs["conf_low"]).mean(),
    }
    if result.steps.setup.graph.edges[0, -1]:
        one = result.win_probability(first, last)
        figures["win probability"] = float(one.conf_low <= preferences[places[0], places[-1]] <= one.conf_high)
    return figures


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """One crowd."""
    number = CELLS.index(cell)
    yield figures_of(*draw_crowd(*SETTINGS[number], np.random.default_rng([56, number, seed])), seed)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by setting."""
    keys = pd.DataFrame([SETTINGS[CELLS.index(cell)] for cell in rows["cell"]], columns=KEY)
    rows = pd.concat([keys, rows.drop(columns=["cell", "seed"])], axis=1)
    return {"small_crowds": rows.groupby(KEY, sort=False).mean().round(3).reset_index()}


CELLS = tuple(", ".join(map(str, setting)) for setting in SETTINGS)
STUDY = Study(CELLS, replicate, tables, 300)

"""How far scores by group and the test of their equality hold.

"K models, G groups of n": one vote per prompt on a random pair, a coin's flip in every group; how often the test of
"the same scores in every group" rejects at 5 %, by Johansen's F and by chi-squared. "categories" and "tags": the
simulated arena with known first stages, 1,500 prompts; coverage of the intervals of all categories, or of five tags
that overlap, and what the joint covariance says of the correlation of bt and borda scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import chi2, f

import dmlrank as dr
from dmlrank.estimation.influence import Influence, project_influence
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.inference.covariance import robust
from dmlrank.inference.wald import f_law_of_groups
from dmlrank.options import in_objects

from .runner import Row, Study

SIZES = ((4, 2, 20), (4, 2, 50), (4, 2, 200), (4, 5, 50), (4, 5, 200), (8, 5, 50), (8, 5, 200), (8, 5, 500))
ARENA = dr.datasets.Arena()


def equality(n_items: int, n_groups: int, size: int, rng: np.random.Generator) -> Row:
    """Whether the test of equal Borda scores rejects, from coins."""
    n = n_groups * size
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    # One ordered pair of K (K - 1), and a derivative of 1 / (2 (K - 1)) for either model.
    gap = (rng.integers(2, size=n) - 0.5) * n_items / 2
    correction = np.zeros((n, n_items))
    correction[np.arange(n), first] += gap
    correction[np.arange(n), second] -= gap
    influence = Influence(np.full((n, n_items), 0.5), correction, np.arange(n), np.ones(n), np.ones(n))
    projected = project_influence(influence, np.eye(n_groups)[np.repeat(np.arange(n_groups), size)], with_blocks=False)
    gauge = np.full((1, n_items), n_items**-0.5)
    covariance = robust(projected, np.kron(np.eye(n_groups), gauge))
    free = np.linalg.qr(np.vstack([gauge, np.eye(n_items)]).T)[0][:, 1:].T
    contrasts = np.kron(np.eye(n_groups)[1:] - np.eye(n_groups)[0], free)
    off = contrasts @ projected.estimate
    statistic = off @ np.linalg.solve(contrasts @ covariance.matrix @ contrasts.T, off)
    factor, df = f_law_of_groups(contrasts, covariance.matrix, [size] * n_groups)
    by_f = f.sf(statistic * (size - 1) / size / factor, len(off), df)
    return {"rejected": by_f <= 0.05, "rejected by chi-squared": chi2.sf(statistic, len(off)) <= 0.05}


def groups_of(battles: pd.DataFrame, cell: str) -> dict[str, np.ndarray]:
    """Categories, or five tags, which overlap and contain one another."""
    category, length = battles["category"].to_numpy(), battles["length"].to_numpy()
    if cell == "categories":
        return {name: category == name for name in np.unique(category)}
    members = {"coding": ["coding"], "technical": ["coding", "math"], "language": ["writing", "roleplay", "extraction"]}
    tags = {name: np.isin(category, of) for name, of in members.items()}
    return tags | {"long": length > 0, "every": length > -np.inf}


@cache
def truth_of(cell: str) -> dict[str, np.ndarray]:
    """True scores by functional, groups x models, from 40,000 prompts."""
    many, total = ARENA.sample(40_000, np.random.default_rng(0)), {}
    chunks = [many.iloc[start : start + 4000] for start in range(0, len(many), 4000)]
    for functional in (Borda(CategoryWeights.half(4)), BradleyTerry(CategoryWeights.half(4))):
        value = np.vstack([functional.value(ARENA.mu(chunk)) for chunk in chunks])
        total[functional.name] = np.stack([value[inside].mean(axis=0) for inside in groups_of(many, cell).values()])
    return total


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """One test of coins, or one arena."""
    rng = np.random.default_rng([seed, 1])
    if found := re.findall(r"\d+", cell):
        yield equality(*map(int, found), rng)
        return
    battles = ARENA.sample(1500, rng)
    known = {"mu": ARENA.mu(battles), "propensity": ARENA.propensity(battles), "floor": 0.0, "graph": "complete"}
    options = in_objects({"context": "question_id", "rng": 0, "n_jobs": 1, **known})
    borda = dr.dml_rank("winner ~ C(category) + length | model_a + model_b", battles, **options)
    row: Row = {}
    for fit in (borda, borda.update(functional="bt")):
        limits, truth = fit.by(groups_of(battles, cell)).conf_int(), truth_of(cell)[fit.functional].ravel()
        row[fit.functional] = ((limits["lower"] <= truth) & (truth <= limits["upper"])).all()
        row[f"{fit.functional} scores"] = fit.params.tolist()
    matrix = dr.compare(borda, fit).cov_params().to_numpy()
    k, spread = len(borda.params), np.sqrt(np.diag(matrix))
    yield {**row, "correlation": (np.diag(matrix[:k, k:]) / spread[:k] / spread[k:]).mean()}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rejections of equal scores; coverage of all groups at once, and the correlation as found and as estimated."""
    equal, coverage = [], []
    for cell, part in rows.groupby("cell", sort=False):
        if sizes := re.findall(r"\d+", cell):
            shares = part[["rejected", "rejected by chi-squared"]].astype(float).mean()
            equal.append((*sizes, *(f"{100 * share:.1f} %" for share in shares)))
            continue
        borda, bt = (np.stack(part[f"{name} scores"].to_list()).T for name in ("borda", "bt"))
        found = np.mean([np.corrcoef(*pair)[0, 1] for pair in zip(borda, bt, strict=True)])
        held = [part[name].astype(float).mean() for name in ("borda", "bt")]
        coverage.append((cell, len(part), *held, found, part["correlation"].mean()))
    columns = ["models", "groups", "prompts in each", "rejected", "rejected by chi-squared"]
    titles = ["groups", "samples", "borda", "bt", "correlation found", "correlation estimated"]
    made = {"groups_equal": pd.DataFrame(equal, columns=columns)} if equal else {}
    return made | ({"groups_coverage": pd.DataFrame(coverage, columns=titles).round(3)} if coverage else {})


CELLS = tuple(f"{items} models, {groups} groups of {size}" for items, groups, size in SIZES)
STUDY = Study((*CELLS, "categories", "tags"), replicate, tables, 200)

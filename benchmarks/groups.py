"""How far scores by group and the test of their equality hold, where the first stages are known.

``equality``: one vote per prompt on a random pair, a coin's flip in every group; how often the test of "the same scores
in every group" rejects at 5 %, by Johansen's F and by chi-squared. ``arena``: the simulated arena, 1,500 prompts;
coverage of 95 % intervals by category, and what the joint covariance says of the correlation of bt and borda scores.
``tags``: the same arena with groups that overlap; coverage of simultaneous intervals of all tags and models, also for
scores of mean preferences.

    python benchmarks/groups.py equality
    python benchmarks/groups.py arena
    python benchmarks/groups.py tags
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2, f

import dmlrank as dr
from dmlrank.estimation.influence import Influence
from dmlrank.estimation.joint_influence import on_functions
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.inference.covariance import robust
from dmlrank.inference.wald import f_law_of_groups
from dmlrank.options import in_objects

SIZES = ((4, 2, 20), (4, 2, 50), (4, 2, 200), (4, 5, 50), (4, 5, 200), (8, 5, 50), (8, 5, 200), (8, 5, 500))
_FORMULA = "winner ~ C(category) + length | model_a + model_b"


def equality(n_items: int, n_groups: int, size: int, rng: np.random.Generator) -> tuple[float, float]:
    """p-values of the test of equal Borda scores, from coins: by F and by chi-squared."""
    n = n_groups * size
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    # One ordered pair of K (K - 1), and a derivative of 1 / (2 (K - 1)) for either model.
    gap = (rng.integers(2, size=n) - 0.5) * n_items / 2
    correction = np.zeros((n, n_items))
    correction[np.arange(n), first] += gap
    correction[np.arange(n), second] -= gap
    influence = Influence(np.full((n, n_items), 0.5), correction, np.arange(n), np.ones(n), np.ones(n))
    projected = on_functions(influence, np.eye(n_groups)[np.repeat(np.arange(n_groups), size)], with_blocks=False)
    gauge = np.full((1, n_items), n_items**-0.5)
    covariance = robust(projected, np.kron(np.eye(n_groups), gauge))
    free = np.linalg.qr(np.vstack([gauge, np.eye(n_items)]).T)[0][:, 1:].T
    contrasts = np.kron(np.eye(n_groups)[1:] - np.eye(n_groups)[0], free)
    off = contrasts @ projected.estimate
    statistic = off @ np.linalg.solve(contrasts @ covariance.matrix @ contrasts.T, off)
    factor, df = f_law_of_groups(contrasts, covariance.matrix, [size] * n_groups)
    by_f = f.sf(statistic * (size - 1) / size / factor, len(off), df)
    return float(by_f), float(chi2.sf(statistic, len(off)))


def arena(replications: int, rng: np.random.Generator) -> pd.Series:
    """Coverage by category, and the correlation of the two scores of a model: found and as estimated."""
    simulator, weights = dr.datasets.Arena(), CategoryWeights.half(4)
    many = simulator.sample(40_000, rng)
    chunks = [many.iloc[start : start + 4000] for start in range(0, len(many), 4000)]
    truth = {}
    for functional in (Borda(weights), BradleyTerry(weights)):
        values = np.vstack([functional.value(simulator.mu(chunk)) for chunk in chunks])
        truth[functional.name] = pd.DataFrame(values).groupby(many["category"].to_numpy()).mean().to_numpy().T
    rows, estimates, covariances = [], [], []
    for _ in range(replications):
        battles = simulator.sample(1500, rng)
        known = {"mu": simulator.mu(battles), "propensity": simulator.propensity(battles), "floor": 0.0}
        borda = dr.dml_rank(
            _FORMULA,
            battles,
            **in_objects({"context": "question_id", "graph": "complete", "rng": 0, "n_jobs": 1, **known}),
        )
        bt = borda.update(functional="bt")
        row = {}
        for results in (borda, bt):
            groups, name = results.by("category"), results.functional
            off = np.abs(groups.params.to_numpy() - truth[name]) / groups.bse.to_numpy()
            row[f"{name}, each"] = (off < 1.96).mean()
            limits = groups.conf_int().to_numpy().T.reshape(2, len(groups), -1).transpose(0, 2, 1)
            row[f"{name}, all at once"] = ((limits[0] <= truth[name]) & (truth[name] <= limits[1])).all()
        rows.append(row)
        estimates.append(np.concatenate([borda.params, bt.params]))
        covariances.append(dr.compare(borda, bt).cov_params().to_numpy())
    found = pd.DataFrame(rows).mean()
    for name, matrix in (("found", np.cov(np.array(estimates).T)), ("estimated", np.mean(covariances, axis=0))):
        k = len(matrix) // 2
        spread = np.sqrt(np.diag(matrix))
        found[f"correlation of the two scores, {name}"] = (np.diag(matrix[:k, k:]) / spread[:k] / spread[k:]).mean()
    return found


def tags_of(battles: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """Five tags, which overlap and contain one another."""
    category, length = battles["category"], battles["length"]
    masks = {
        "coding": category == "coding",
        "technical": category.isin(["coding", "math"]),
        "language": category.isin(["writing", "roleplay", "extraction"]),
        "long": length > 0,
        "every": length > -np.inf,
    }
    return {name: np.asarray(mask, dtype=bool) for name, mask in masks.items()}


def tags(replications: int, rng: np.random.Generator) -> pd.Series:
    """Coverage of single and of simultaneous intervals in overlapping groups."""
    simulator, weights = dr.datasets.Arena(), CategoryWeights.half(4)
    many = simulator.sample(40_000, rng)
    mu = np.concatenate([simulator.mu(many.iloc[start : start + 4000]) for start in range(0, len(many), 4000)])
    truth = {}
    for functional in (Borda(weights), BradleyTerry(weights)):
        value = functional.value(mu)
        truth[functional.name, "scores"] = np.stack([value[inside].mean(axis=0) for inside in tags_of(many).values()])
        means = np.stack([mu[inside].mean(axis=0) for inside in tags_of(many).values()])
        truth[functional.name, "preferences"] = functional.value(means)
    rows = []
    for _ in range(replications):
        battles = simulator.sample(1500, rng)
        known = {"mu": simulator.mu(battles), "propensity": simulator.propensity(battles), "floor": 0.0}
        fit = dr.dml_rank(
            _FORMULA,
            battles,
            **in_objects({"context": "question_id", "graph": "complete", "rng": 0, "n_jobs": 1, **known}),
        )
        row = {}
        for functional, average in (("borda", "scores"), ("bt", "scores"), ("bt", "preferences")):
            # Mean preferences that are estimated from few labels need a floor; the true mu(x) needs none.
            floor = "auto" if average == "preferences" else 0.0
            groups = fit.update(functional=functional, average=average, floor=floor).by(tags_of(battles))
            true_scores, name = truth[functional, average].ravel(), f"{functional} of {average}"
            limits = groups.conf_int()
            covers = (limits["lower"].to_numpy() <= true_scores) & (true_scores <= limits["upper"].to_numpy())
            off = np.abs(groups.joint.estimate - true_scores) / groups.joint.covariance.std_errors
            row[f"{name}, each"], row[f"{name}, all at once"] = (off < 1.96).mean(), covers.all()
        rows.append(row)
    return pd.DataFrame(rows).astype(float).mean()


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=("equality", "arena", "tags"))
    parser.add_argument("--replications", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    if given.study in ("arena", "tags"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dr.DmlrankWarning)
            if given.study == "arena":
                print(arena(given.replications or 100, rng).round(3).to_string())
            else:
                print(tags(given.replications or 200, rng).round(3).to_string())
        return
    for n_items, n_groups, size in SIZES:
        p = [equality(n_items, n_groups, size, rng) for _ in range(given.replications or 2000)]
        by_f, by_chi2 = (np.array(p) <= 0.05).mean(axis=0)
        print(
            f"{n_items} models, {n_groups} groups of {size}: rejected {by_f:.3f}, by chi-squared {by_chi2:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

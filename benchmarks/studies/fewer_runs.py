"""How much do plans of runs save on simulated benchmarks, and do intervals hold after three adaptive rounds?

2,000 prompts, 12 models, scores of 0 and 1 from an item response model (difficulties, discriminations, clusters by
task); in three further settings scores have no structure that a plan could use. With 10 % of all runs:

- *uniform*: random cells, plain means of the scores that are there.
- *rounds*: 4 % of all runs, on random prompts, for all models; then two plans for the differences of the best six and
  of the best three. A fit after each round. Standard errors of the differences of the three models that are best in
  truth, and coverage of their intervals after each fit. ``covered_at_all_looks``: all intervals at 1 - .05 / 3 / 3.
- *candidate*: a new model, the second best in truth, against the best of 11 that were run on all prompts, with a sixth
  of the runs: a quarter of them planned from the other models, the rest after a fit. ``candidate_runs`` is their number
  over that with which plain means of random prompts are as precise, and ``candidate_least_runs`` that of a plan that
  knows the probability of success given the other models' scores. *weaker*: the same of the seventh model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr

from .runner import Row, Study

K = 12
NAMES = np.array([f"m{j:02d}" for j in range(K)])
PILOT, TOTAL = 0.04, 0.10
CANDIDATES = {"candidate": 1, "weaker": 6}
# Standard deviations of difficulties between tasks and within tasks, and the mean discrimination; gap between models.
SETTINGS = {
    "difficulty": (0.0, 1.5, 1.5, 0.15),
    "tasks": (1.0, 1.2, 1.5, 0.15),
    "steep": (0.5, 2.0, 3.0, 0.3),
    "no structure": (0.0, 0.0, 1.0, 0.15),
    "no structure, equal models": (0.0, 0.0, 1.0, 0.0),
    "no structure, rare successes": (0.0, 0.0, 1.0, 0.15),
}


def scores_of(setting: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of success and scores, (n, K); the best model comes first."""
    of_task, of_item, slope, gap = SETTINGS[setting]
    # The tasks are the same in all benchmarks of a setting, and prompts are their units.
    tasks = np.random.default_rng(1).normal(size=20)
    difficulty = of_task * tasks[rng.integers(20, size=n)] + of_item * rng.normal(size=n)
    ability = gap * np.arange(K)[::-1] - 5 * gap - (3.0 if "rare" in setting else 0.0)
    discrimination = slope * np.exp(0.3 * rng.normal(size=n)) if of_item else np.ones(n)
    p = expit(discrimination[:, None] * (ability - difficulty[:, None]))
    return p, (rng.random((n, K)) < p).astype(float)


@cache
def truth_of(setting: str) -> np.ndarray:
    """Return the means of the population that the prompts are a sample of, (K,)."""
    return scores_of(setting, np.random.default_rng(2), 400_000)[0].mean(axis=0)


def least_runs(setting: str, new: int) -> float:
    """Return the runs, over those of plain means, of a plan that knows E[Y | scores of the other models] = m.

    No prediction and no plan does better: the variance of the new model's mean is at least Var(m) / prompts +
    (E sd(Y | m))^2 / runs, with six prompts for every run.
    """
    p, scores = scores_of(setting, np.random.default_rng(2), 400_000)
    pattern = np.delete(scores, new, axis=1) @ 2.0 ** np.arange(K - 1)
    m = pd.Series(p[:, new]).groupby(pattern).transform("mean").to_numpy()
    return float((m.var() / 6 + np.sqrt(m * (1 - m)).mean() ** 2) / (m.mean() * (1 - m.mean())))


def table_of(scores: np.ndarray, is_drawn: np.ndarray) -> pd.DataFrame:
    """Return the drawn scores as a long table, with a row for every prompt without a run."""
    prompt, model = np.nonzero(is_drawn)
    drawn = pd.DataFrame({"prompt": prompt, "model": NAMES[model], "score": scores[is_drawn]})
    return pd.concat([drawn, pd.DataFrame({"prompt": np.flatnonzero(~is_drawn.any(axis=1))})], ignore_index=True)


def differences(contrasts: np.ndarray, res: dr.RankResults) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and standard errors of contrasts."""
    covariance = res.cov_params().loc[NAMES, NAMES].to_numpy()
    return contrasts @ res.params[NAMES].to_numpy(), np.sqrt(np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts))


def covered(res: dr.RankResults, alpha: float, contrasts: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return whether the interval of each difference, by itself, contains the true one."""
    pairs = [(NAMES[row.argmax()], NAMES[row.argmin()]) for row in contrasts]
    limits = np.stack([res.t_test(pair).conf_int(alpha)[0] for pair in pairs])
    return (limits[:, 0] <= contrasts @ truth) & (contrasts @ truth <= limits[:, 1])


def fitted(scores: np.ndarray, is_drawn: np.ndarray, propensity: object) -> dr.RankResults:
    """Fit the drawn scores."""
    return dr.dml_rank("score ~ 1 | model", table_of(scores, is_drawn), context="prompt", propensity=propensity, rng=0)


def run_rounds(scores: np.ndarray, rng: np.random.Generator, plans: tuple[int, ...]) -> list[dr.RankResults]:
    """Return the fits after the pilot and after each of the plans, which share the rest of the budget.

    A plan is for the differences among so many models with the highest scores, whether or not others may be among the
    best.
    """
    n = len(scores)
    propensity: object = pd.DataFrame(np.full((n, K), PILOT), columns=NAMES)
    is_drawn = np.repeat(rng.random((n, 1)) < PILOT, K, axis=1)
    fits = [fitted(scores, is_drawn, propensity)]
    for count in plans:
        res = fits[-1]
        contrasts = list(combinations(sorted(res.params.nlargest(count).index), 2))
        plan = res.design((TOTAL - PILOT) * n * K / len(plans), contrasts=contrasts)
        rows = plan.sample(rng)
        is_drawn[rows["prompt"], np.searchsorted(NAMES, rows["model"])] = True
        fits.append(fitted(scores, is_drawn, plan))
    return fits


def of_seed(setting: str, seed: int, n: int) -> Row:
    """Return what one simulated benchmark shows."""
    rng = np.random.default_rng([seed, list(SETTINGS).index(setting)])
    scores = scores_of(setting, rng, n)[1]
    truth, top = truth_of(setting), np.zeros((3, K))
    top[[0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2]] = [1, -1, 1, -1, 1, -1]
    is_drawn = rng.random((n, K)) < TOTAL
    known = np.where(is_drawn, scores, np.nan)
    count = is_drawn.sum(axis=0)
    variances = np.nanvar(known, axis=0) / count
    uniform = np.sqrt(np.square(top) @ variances)
    found: Row = {"uniform_se": uniform.mean()}
    looks = []
    for look, fit in enumerate(run_rounds(scores, rng, (6, 3))):
        found[f"covered_{look}"] = covered(fit, 0.05, top, truth).mean()
        looks.append(covered(fit, 0.05 / 9, top, truth).all())
        found["se"] = differences(top, fit)[1].mean()
    found["covered_at_all_looks"] = float(np.all(looks))
    return found


def of_candidates(setting: str, seed: int, n: int) -> Row:
    """Return whether intervals of the best model less a new one cover, and the runs over those of plain means."""
    found = {}
    for name, new in CANDIDATES.items():
        rng = np.random.default_rng([seed, list(SETTINGS).index(setting), new])
        scores, contrast = scores_of(setting, rng, n)[1], np.eye(K)[[0]] - np.eye(K)[[new]]
        is_drawn = np.ones((n, K), dtype=bool)
        is_drawn[:, new] = False
        fit = dr.dml_rank("score ~ 1 | model", table_of(scores, is_drawn), context="prompt", rng=0)
        for share, candidate in ((0.25, NAMES[new]), (0.75, None)):
            plan = fit.design(share * n / 6, candidate=candidate, contrasts=[f"{NAMES[new]} - {NAMES[0]}"])
            is_drawn[plan.sample(rng)["prompt"], new] = True
            fit = fitted(scores, is_drawn, plan)
        error = differences(contrast, fit)[1]
        # Plain means: the new model on m random prompts, the best on all prompts.
        variance, covariance = scores.var(axis=0), float(np.cov(scores[:, [0, new]].T, ddof=0)[0, 1])
        m = variance[new] / (error[0] ** 2 - (variance[0] - 2 * covariance) / n)
        found[f"{name}_runs"] = float(is_drawn[:, new].sum() / (min(m, n) if m > 0 else n))
        found[f"{name}_covered"] = float(covered(fit, 0.05, contrast, truth_of(setting))[0])
    return found


def replicate(cell: str, seed: int, n: int = 2000) -> Iterator[Row]:
    """One simulated benchmark."""
    yield of_seed(cell, seed, n) | of_candidates(cell, seed, n)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by setting, and standard errors over those of random cells."""
    by = rows.drop(columns="seed").groupby("cell", sort=False)
    means, made = by.mean(), {"seeds": by.size()}
    rounds = {"se_over_uniform": means["se"] / means["uniform_se"]}
    least = {f"{name}_least_runs": [least_runs(cell, new) for cell in means.index] for name, new in CANDIDATES.items()}
    own = [name for name in means if name.startswith(tuple(CANDIDATES))]
    others = means.drop(columns=[*own, "uniform_se", "se"])
    parts = {"fewer_runs": (rounds, others), "fewer_runs_candidate": (least, means[own])}
    return {
        title: pd.DataFrame(made | figures, index=means.index).join(rest).round(4).rename_axis("setting").reset_index()
        for title, (figures, rest) in parts.items()
    }


STUDY = Study(tuple(SETTINGS), replicate, tables, 300, {"n": 1000})

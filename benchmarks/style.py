"""Do intervals of scores and slopes at equal style cover, and how far off is the parametric route of the arenas?

Every replication draws battles from the simulator in tests/styled.py, whose lengths and headers depend on prompt and
model, and fits scores at equal style with both links. Their truth is computed by quadrature. In the scenario "linear"
the log-odds are linear in style; in "curved" they are not, and the slopes are variance-weighted means. Beside them
stands the parametric route: one logistic Bradley-Terry regression with standardised style columns, a ridge, and a
bootstrap.

The table is resumable: replications that it holds are not run again.

    python -m benchmarks.style run --seeds 200
    python -m benchmarks.style tables
    python -m benchmarks.style cost --battles 135000 --models 53
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import beta

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning
from dmlrank.options import in_objects
from tests.styled import Styled

RESULTS = pathlib.Path(__file__).parent / "results" / "style.csv"
COLUMNS = ("scenario", "seed", "kind", "functional", "what", "covers", "bias", "se", "seconds")
KINDS = ("equal", "parametric")
SCENARIOS = {"linear": 0.0, "curved": 1.0}
STYLE = ("log_length", "headers")
FORMULA = "winner ~ x0 + x1 | model_a + model_b"
ADJUST = "~ log_length + headers"
N = 3000
_BOOTSTRAP = 100
# The penalty of scikit-learn's default logistic regression, which the arenas' code uses: C = 1.
_RIDGE = 1.0
_LEVEL = 0.99


@lru_cache
def truth(scenario: str, functional: str) -> tuple[pd.Series, pd.Series]:
    """True scores and slopes, by quadrature."""
    found = Styled(nonlinearity=SCENARIOS[scenario]).truth(functional)
    return found.equal, found.slopes


def replicate(kind: str, scenario: str, seed: int) -> Iterator[dict[str, object]]:
    """All fits of one kind to one data set: a row per vector of scores, per score and per slope."""
    battles = Styled(nonlinearity=SCENARIOS[scenario]).sample(N, rng=seed)
    if kind == "parametric":
        yield from parametric_rows(battles, scenario, seed)
        return
    fit = None
    for functional in ("bt", "borda"):
        start = time.perf_counter()
        if fit is None:
            options = {"rng": seed, "n_jobs": 1, "position_bias": False}
            fit = dr.dml_rank(FORMULA, battles, **in_objects({"functional": functional, "adjust": ADJUST, **options}))
        else:
            fit = fit.update(functional=functional)
        scores, slopes = truth(scenario, functional)
        style = fit.estimates.style
        head = {"kind": kind, "functional": functional}
        yield from rows_of(fit, scores, head, time.perf_counter() - start)
        for name, slope, error in zip(STYLE, style.slopes, style.slope_covariance.std_errors, strict=True):
            yield {
                **head,
                "what": name,
                "covers": int(abs(slope - slopes[name]) <= 1.959964 * error),
                "bias": slope - slopes[name],
                "se": error,
            }


def rows_of(
    fit: dr.RankResults, scores: pd.Series, head: dict[str, object], seconds: float
) -> Iterator[dict[str, object]]:
    """A row for the simultaneous intervals of all scores, and one per score for its bias."""
    interval = fit.conf_int()
    inside = (interval.iloc[:, 0] <= scores) & (scores <= interval.iloc[:, 1])
    yield {**head, "what": "scores", "covers": int(inside.all()), "seconds": round(seconds, 2)}
    for model in scores.index:
        yield {**head, "what": model, "bias": fit.params[model] - scores[model], "se": fit.bse[model]}


def parametric_rows(battles: pd.DataFrame, scenario: str, seed: int) -> Iterator[dict[str, object]]:
    """The arenas' route: standardised style columns in a logistic Bradley-Terry regression, ridge, bootstrap."""
    models = sorted(battles["model_a"].unique())
    code = {model: place for place, model in enumerate(models)}
    n, n_models = len(battles), len(models)
    design = np.zeros((n, n_models + len(STYLE)))
    design[np.arange(n), battles["model_a"].map(code)] = 1
    design[np.arange(n), battles["model_b"].map(code)] -= 1
    style = battles[list(STYLE)].to_numpy()
    deviation = style.std(axis=0)
    design[:, n_models:] = (style - style.mean(axis=0)) / deviation
    y = battles["winner"].map({"model_a": 1.0, "tie": 0.5, "model_b": 0.0}).to_numpy()
    rng = np.random.default_rng(seed)
    fitted = ridge_logistic(design, y, np.ones(n))
    draws = np.stack(
        [
            ridge_logistic(design, y, rng.multinomial(n, np.full(n, 1 / n)).astype(float), fitted)
            for _ in range(_BOOTSTRAP)
        ]
    )
    for table in (fitted[None], draws):
        table[:, :n_models] -= table[:, :n_models].mean(axis=1, keepdims=True)
        table[:, n_models:] /= deviation
    scores, slopes = truth(scenario, "bt")
    target = np.concatenate([scores.to_numpy(), slopes.to_numpy()])
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    for place, name in enumerate([*models, *STYLE]):
        yield {
            "kind": "parametric",
            "functional": "bt",
            "what": name,
            "covers": int(low[place] <= target[place] <= high[place]),
            "bias": fitted[place] - target[place],
            "se": draws[:, place].std(),
        }


def ridge_logistic(
    design: np.ndarray, y: np.ndarray, weight: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients of a logistic regression with a ridge, by Newton's method."""
    theta = np.zeros(design.shape[1]) if start is None else start.copy()
    for _ in range(8):
        p = expit(design @ theta)
        gradient = design.T @ (weight * (y - p)) - _RIDGE * theta
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        theta += step
        if np.abs(step).max() < 1e-9:
            break
    return theta


def run(kinds: list[str], seeds: int, path: pathlib.Path) -> None:
    """Run the replications that the table lacks, both scenarios of a seed one after the other."""
    path.parent.mkdir(exist_ok=True)
    is_new, done = not path.exists(), set()
    if not is_new:
        known = pd.read_csv(path, usecols=["kind", "scenario", "seed"]).drop_duplicates()
        done = set(known[["kind", "scenario", "seed"]].itertuples(index=False, name=None))
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        for seed, scenario, kind in itertools.product(range(seeds), SCENARIOS, kinds):
            if (kind, scenario, seed) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DmlrankWarning)
                rows = list(replicate(kind, scenario, seed))
            writer.writerows({"scenario": scenario, "seed": seed, **row} for row in rows)
            file.flush()


def clopper_pearson(hits: int, trials: int) -> tuple[float, float]:
    """Exact 99 % limits of a share."""
    tail = (1 - _LEVEL) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def tables(path: pathlib.Path) -> None:
    """Print coverage with its 99 % limits, bias, spread and mean standard error."""
    table = pd.read_csv(path)
    print("| scenario | kind | functional | what | seeds | coverage [99 % limits] | bias | sd | mean std. err. |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key, group in table.groupby(["scenario", "kind", "functional", "what"], sort=False):
        known = group["covers"].dropna()
        coverage = "-"
        if len(known):
            low, high = clopper_pearson(int(known.sum()), len(known))
            coverage = f"{known.mean():.3f} [{low:.2f}, {high:.2f}]"
        figures = [f"{group['bias'].mean():+.3f}", f"{group['bias'].std():.3f}", f"{group['se'].mean():.3f}"]
        cells = [*map(str, key), str(len(group)), coverage, *("-" if "nan" in figure else figure for figure in figures)]
        print(f"| {' | '.join(cells)} |")


def cost(n_battles: int, n_models: int) -> None:
    """Time and memory of one fit at equal style, and of the raw fit before it."""
    import resource

    battles = Styled(n_items=n_models).sample(n_battles, rng=0)
    start = time.perf_counter()
    raw = dr.dml_rank(FORMULA, battles, functional="bt", rng=0, position_bias=False)
    middle = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"raw: {middle - start:.0f} s, peak {peak:.2f} GB", flush=True)
    raw.update(adjust=ADJUST)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"equal style, further: {time.perf_counter() - middle:.0f} s, peak {peak:.2f} GB")


def main() -> int:
    """Run, tabulate or measure the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--seeds", type=int, default=200)
    running.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    running.add_argument("--path", type=pathlib.Path, default=RESULTS)
    showing = commands.add_parser("tables")
    showing.add_argument("--path", type=pathlib.Path, default=RESULTS)
    costing = commands.add_parser("cost")
    costing.add_argument("--battles", type=int, default=135_000)
    costing.add_argument("--models", type=int, default=53)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.kinds, arguments.seeds, arguments.path)
    elif arguments.command == "tables":
        tables(arguments.path)
    else:
        cost(arguments.battles, arguments.models)
    return 0


if __name__ == "__main__":
    sys.exit(main())

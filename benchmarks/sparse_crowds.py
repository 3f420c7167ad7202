"""Sparse crowds without features: few prompts, many models, and most pairs labelled on one or two prompts.

Strengths of models differ by prompt, so that the votes on a prompt depend on each other. The truth of a score is the
functional of the mean preferences on the pairs that were compared. ``run`` adds rows to a file, one for each crowd and
method; another version of the package runs by ``PYTHONPATH`` and its own ``--label``. Other packages take part where
they are installed, by ``--packages``. ``table`` writes means over crowds.

    python benchmarks/sparse_crowds.py run sparse_crowds.csv --label new
    python benchmarks/sparse_crowds.py table sparse_crowds.csv docs/results/sparse_crowds.csv
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import kendalltau

import dmlrank as dr
from dmlrank.options import in_objects

# Models and votes; prompts; whether a few prompts have most of the votes.
CELLS = [(k, v, q, even) for k, v in ((20, 1500), (60, 5000)) for q in (13, 150) for even in (True, False)]
# Standard deviation of a model's strength between models, and of its change between prompts.
SPREAD, BY_PROMPT = 0.8, 0.5


def draw_crowd(
    n_models: int, n_votes: int, n_prompts: int, even: bool, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray]:
    """Votes, and the mean preferences of all pairs over new prompts, (K, K)."""
    strength = np.sort(rng.normal(scale=SPREAD, size=n_models))[::-1]
    by_prompt = strength + BY_PROMPT * rng.normal(size=(n_prompts, n_models))
    share = np.ones(n_prompts) if even else 1 / np.arange(1, n_prompts + 1)
    prompt = rng.choice(n_prompts, n_votes, p=share / share.sum())
    first = rng.integers(n_models, size=n_votes)
    second = (first + rng.integers(1, n_models, size=n_votes)) % n_models
    won = rng.random(n_votes) < expit(by_prompt[prompt, first] - by_prompt[prompt, second])
    names = np.array([f"m{j:02d}" for j in range(n_models)])
    votes = pd.DataFrame({"prompt": prompt, "model_a": names[first], "model_b": names[second]})
    votes["winner"] = np.where(won, "model_a", "model_b")
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    gap = (strength[:, None] - strength)[..., None] + np.sqrt(2) * BY_PROMPT * nodes
    return votes, expit(gap) @ (weights / weights.sum())


def compare(
    label: str, functional: str, scores: np.ndarray, truth: np.ndarray, errors: np.ndarray
) -> dict[str, object]:
    """Error, order and coverage of scores, (K,), with standard errors, (K,), that may be NaN."""
    distance = np.abs(scores - truth)
    return {
        "method": label,
        "functional": functional,
        "error": float(np.sqrt(np.mean(distance**2))),
        "tau": float(kendalltau(scores, truth)[0]),
        "coverage": float(np.mean(distance <= 1.96 * errors)) if np.isfinite(errors).all() else np.nan,
        "std_error": float(np.mean(errors)),
    }


def of_version(label: str, votes: pd.DataFrame, preferences: np.ndarray, seed: int) -> list[dict[str, object]]:
    """Rows of the package itself: its two most used functionals."""
    rows = []
    for functional in ("borda", "bt"):
        options = {"functional": functional, "context": "prompt", "position_bias": False, "min_labels": 1}
        began = time.perf_counter()
        result = dr.dml_rank(
            "winner ~ 1 | model_a + model_b", votes, **in_objects({"rng": seed, "n_jobs": 1, **options})
        )
        seconds = time.perf_counter() - began
        table = np.stack([preferences, 1 - preferences], axis=-1)
        table[np.diag_indices(len(table))] = 0
        truth = result.steps.setup.functional.value(table[None])[0]
        row = compare(label, functional, result.params.to_numpy(), truth, result.bse.to_numpy())
        rows.append(row | {"seconds": seconds})
    return rows


def of_packages(votes: pd.DataFrame, preferences: np.ndarray) -> list[dict[str, object]]:
    """Rows of Bradley-Terry by other packages; their scores are those of a maximum likelihood on all votes."""
    rows, names = [], sorted({*votes["model_a"], *votes["model_b"]})
    logit = np.log(preferences / (1 - preferences)) - np.eye(len(preferences)) * 0
    truth = np.nan_to_num(logit).mean(axis=1)
    try:
        import evalica
    except ImportError:
        pass
    else:
        won = votes["winner"] == "model_a"
        winners = [evalica.Winner.X if x else evalica.Winner.Y for x in won]
        scores = np.log(evalica.bradley_terry(votes["model_a"], votes["model_b"], winners).scores[names].to_numpy())
        missing = np.full(len(names), np.nan)
        rows.append(compare("evalica", "bt", scores - scores.mean(), truth, missing))
    try:
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset
    except ImportError:
        return rows
    data = PairDataset.from_pandas(votes, outcome_col="winner")
    found = BradleyTerry(n_competitors=len(names)).compute_ratings_and_cis(data, significance_level=0.05)
    frame = pd.DataFrame(found).set_index("competitors").loc[names]
    scale = np.log(10) / 400
    scores, width = frame["ratings"].to_numpy() * scale, (frame["rating_upper"] - frame["rating_lower"]).to_numpy()
    rows.append(compare("arena-rank", "bt", scores - scores.mean(), truth, width * scale / (2 * 1.96)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--label", default="new")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50), metavar=("FROM", "TO"))
    parser.add_argument("--packages", action="store_true", help="other packages instead of this one")
    given = parser.parse_args()
    if given.command == "table":
        crowd = ["models", "prompts", "even", "functional", "method"]
        means = pd.concat(map(pd.read_csv, given.files[:-1])).groupby(crowd).mean(numeric_only=True)
        means.drop(columns=["seed"]).round(4).to_csv(given.files[-1])
        return
    warnings.simplefilter("ignore")
    for seed in range(*given.seeds):
        for number, (n_models, n_votes, n_prompts, even) in enumerate(CELLS):
            drawn = draw_crowd(n_models, n_votes, n_prompts, even, np.random.default_rng([seed, number]))
            rows = of_packages(*drawn) if given.packages else of_version(given.label, *drawn, seed)
            crowd = {"models": n_models, "prompts": n_prompts, "even": even, "seed": seed}
            frame = pd.DataFrame([crowd | row for row in rows])
            frame.to_csv(given.files[0], mode="a", header=not given.files[0].exists(), index=False)


if __name__ == "__main__":
    main()

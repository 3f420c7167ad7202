"""Do intervals of mean scores hold where scores are missing for reasons that a feature holds?

Four models, 500 prompts; the first model has all scores. ``python benchmarks/missing_scores.py --seeds 200`` prints
coverage at 95 % of the plain means of the scores that are there, and of ``missing="model"``, and writes them to
docs/results/missing_scores.csv.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binom

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning

TABLE = Path(__file__).parents[1] / "docs" / "results" / "missing_scores.csv"
MEAN, EFFECT = np.array([0.2, 0.1, 0.0, -0.2]), np.array([1.0, 0.8, 0.6, 1.2])


def table_of(seed: int, slope: float, curved: bool, n: int = 500) -> pd.DataFrame:
    """Return scores with gaps that follow a feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    signal = (x**2 - 1) / np.sqrt(2) if curved else x
    scores = MEAN + EFFECT * signal[:, None] + 0.5 * rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 4))
    is_there = rng.random((n, 4)) < expit(1 + slope * np.tanh(signal))[:, None]
    is_there[:, 0] = True
    prompt, model = (part.ravel() for part in np.indices((n, 4)))
    return pd.DataFrame(
        {
            "prompt": prompt,
            "model": np.array(["m0", "m1", "m2", "m3"])[model],
            "score": np.where(is_there, scores, np.nan).ravel(),
            "x": x[prompt],
        }
    )


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    n_seeds = parser.parse_args().seeds
    rows = []
    for curved in (False, True):
        for slope in (0.8, 1.6):
            plain, modelled = [], []
            for seed in range(n_seeds):
                table = table_of(seed, slope, curved)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DmlrankWarning)
                    fit = dr.dml_rank("score ~ x | model", table, context="prompt", missing="model", rng=seed)
                modelled.append(((fit.params - MEAN) / fit.bse).to_numpy()[1:])
                seen = table.groupby("model")["score"]
                plain.append(((seen.mean() - MEAN) / (seen.std() / np.sqrt(seen.count()))).to_numpy()[1:])
            low, high = (binom.ppf(q, n_seeds, 0.95) / n_seeds for q in (0.005, 0.995))
            for model, ours, theirs in zip(("m1", "m2", "m3"), np.array(modelled).T, np.array(plain).T, strict=True):
                rows.append(
                    {
                        "scores follow": "a curve" if curved else "a line",
                        "gaps follow it with slope": slope,
                        "model": model,
                        "bias of plain means (se)": f"{theirs.mean():.1f}",
                        "coverage of plain means": f"{(np.abs(theirs) < 1.96).mean():.3f}",
                        "bias of missing='model' (se)": f"{ours.mean():+.2f}",
                        "coverage of missing='model'": f"{(np.abs(ours) < 1.96).mean():.3f}",
                        "99 % band of 0.95": f"{low:.3f} to {high:.3f}",
                    }
                )
    found = pd.DataFrame(rows)
    print(found.to_string(index=False))
    found.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main()

"""How often do slopes on style that cannot be estimated give a warning or an error, and how often do harmless ones?

Log-odds are gaps of models that depend on a feature, plus slope times style. Style is a smooth function of model and
feature plus noise; ``noise`` is the standard deviation of the noise. In the case "decides" the sign of style decides.

    python benchmarks/style_limits.py --seeds 25
"""

from __future__ import annotations

import argparse
import os
import pathlib
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import DataError

TABLE = pathlib.Path(__file__).parents[1] / "docs" / "results" / "style_limits.csv"
HARMLESS = {
    "slope 0": {"slope": 0.0},
    "slope 0.5": {"slope": 0.5},
    "slope 1": {},
    "slope 1, 400 votes": {"n": 400},
    "slope 1, 6,000 votes": {"n": 6000},
    "slope 1, 8 models": {"n_models": 8, "gap": 0.25},
    "slope 1, strong models": {"gap": 1.0},
    "slope 1, noise 0.3": {"noise": 0.3},
    "slope 2": {"slope": 2.0},
}
HARMFUL = {
    "slope 3": {"slope": 3.0},
    "slope 4": {"slope": 4.0},
    "slope 8": {"slope": 8.0},
    "slope 20": {"slope": 20.0},
    "decides": {"slope": np.inf},
    "noise 0.05": {"noise": 0.05},
    "determined by model and feature": {"noise": 0.0},
    "determined, 400 votes": {"noise": 0.0, "n": 400},
    "determined, 6,000 votes": {"noise": 0.0, "n": 6000},
}


def sample(
    seed: int, slope: float = 1.0, n: int = 1500, n_models: int = 4, noise: float = 1.0, gap: float = 0.5
) -> pd.DataFrame:
    """Battles with one style column."""
    rng = np.random.default_rng(seed)
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    x = rng.normal(size=n)
    style_of = [0.5 * np.sin(x * (model + 1) / 2) + 0.3 * model for model in (first, second)]
    style = style_of[0] - style_of[1] + noise * rng.normal(size=n)
    log_odds = gap * (first - second) * (1 + 0.3 * x) + slope * style
    wins = style > 0 if np.isinf(slope) else rng.uniform(size=n) < expit(log_odds)
    names = np.array([f"m{model}" for model in range(n_models)])
    winner = np.where(wins, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner, "x": x, "style": style})


def outcome(seed: int, case: dict[str, float]) -> dict[str, float]:
    """What a fit to one sample says about the slope."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit = dr.dml_rank(
                "winner ~ x | model_a + model_b",
                sample(seed, **case),  # type: ignore[arg-type]
                functional="bt",
                adjust="~ style",
                position_bias=False,
                propensity="marginal",
                rng=seed,
                n_jobs=1,
            )
        except DataError:
            return {"refused": 1.0, "warned": 0.0, "silent": 0.0}
    warned = float(any("style column" in str(one.message) for one in caught))
    error, se = fit.style.params.item() - case.get("slope", 1.0), fit.style.bse.item()
    covers = float(abs(error) <= 1.959964 * se)
    return {
        "refused": 0.0,
        "warned": warned,
        "silent": 1 - warned,
        "covers": covers,
        "silent_and_wrong": (1 - warned) * (1 - covers),
        "error": error,
        "se": se,
    }


def main() -> None:
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=25)
    n_seeds, rows = parser.parse_args().seeds, []
    for kind, cases in (("harmless", HARMLESS), ("harmful", HARMFUL)):
        for name, case in cases.items():
            table = pd.DataFrame([outcome(seed, case) for seed in range(n_seeds)])
            counts = {key: int(table[key].sum()) for key in table if key not in ("error", "se")}
            means = {f"mean_{key}": round(table[key].mean(), 3) for key in ("error", "se") if key in table}
            rows.append({"kind": kind, "case": name, "samples": n_seeds, **counts, **means})
            print(rows[-1], flush=True)
    counted = ["refused", "warned", "silent", "covers", "silent_and_wrong"]
    pd.DataFrame(rows).astype(dict.fromkeys(counted, "Int64")).to_csv(TABLE, index=False)


if __name__ == "__main__":
    main()

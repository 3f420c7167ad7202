"""Draw the pictures of docs/pictures.md from simulated votes, at 3, 20, 60 and 200 models.

    python benchmarks/pictures.py [--only NAME ...] [--out docs/figures]

The whole gallery takes about three minutes. Every picture is written as ``pictures_NAME.png`` with 128 colours.
"""

from __future__ import annotations

import argparse
import functools
import io
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

import dmlrank as dr

MAKERS = ("aurora", "borealis", "cumulus", "delta", "ember", "fjord", "glacier", "harbour", "isle", "juniper")
KINDS = ("coding", "maths", "roleplay", "writing")
_DPI = 80


def model_names(n_models: int) -> list[str]:
    """Return invented names of models, some of them long."""
    suffixes = ("", "", "-mini", "", "-instruct-2024-08-05", "", "-preview")
    return [f"{MAKERS[j % 10]}-{j // 10 + 1}{suffixes[j % 7]}" for j in range(n_models)]


def battles(n_models: int, n_prompts: int, seed: int = 0) -> pd.DataFrame:
    """Simulate one vote per prompt; skills depend on the kind and the length of the prompt.

    Parameters
    ----------
    n_models, n_prompts : int
    seed : int
    """
    rng = np.random.default_rng(seed)
    skill = np.sort(rng.normal(0, 1, n_models))[::-1]
    by_kind, by_length = rng.normal(0, 0.45, (n_models, len(KINDS))), rng.normal(0, 0.004, n_models)
    kind, length = rng.integers(0, len(KINDS), n_prompts), rng.gamma(4.0, 30.0, n_prompts).round()
    first = rng.integers(0, n_models, n_prompts)
    second = (first + rng.integers(1, n_models, n_prompts)) % n_models
    gap = skill[first] - skill[second] + by_kind[first, kind] - by_kind[second, kind]
    gap += (by_length[first] - by_length[second]) * (length - 120)
    wins = rng.random(n_prompts) < 1 / (1 + np.exp(-gap))
    winner = np.where(rng.random(n_prompts) < 0.15, "tie", np.where(wins, "model_a", "model_b"))
    names = np.array(model_names(n_models))
    return pd.DataFrame(
        {
            "prompt": [f"q{i:05d}" for i in range(n_prompts)],
            "model_a": names[first],
            "model_b": names[second],
            "winner": winner,
            "category": np.array(KINDS)[kind],
            "length": length,
        }
    )


@functools.cache
def fit(n_models: int) -> dr.RankResults:
    """Return a fit to simulated votes."""
    n_prompts = {3: 1500, 20: 8000, 60: 20000, 200: 60000}[n_models]
    features = "1" if n_models == 200 else "C(category) + length"
    formula = f"winner ~ {features} | model_a + model_b"
    return dr.dml_rank(formula, battles(n_models, n_prompts), context="prompt", pairs=dr.Pairs(min_labels=1), rng=0)


def figure(axes: plt.Axes) -> Figure:
    """Return the whole figure of some axes."""
    return axes.figure


def pictures() -> dict[str, Callable[[], Figure]]:
    """Return the pictures of the gallery by name."""
    return {
        "forest_3": lambda: figure(fit(3).plot()),
        "forest_20": lambda: figure(fit(20).plot()),
        "forest_60": lambda: figure(fit(60).plot()),
        "forest_200": lambda: figure(fit(200).plot()),
        "ranks_20": lambda: figure(fit(20).ranks().plot()),
        "ranks_200": lambda: figure(fit(200).plot("ranks")),
        "matrix_20": lambda: figure(fit(20).plot("matrix")),
        "matrix_60": lambda: figure(fit(60).plot("matrix")),
        "matrix_200": lambda: figure(fit(200).plot("matrix")),
        "against_20": lambda: figure(fit(20).t_test_pairwise(against=fit(20).models[4]).plot()),
        "groups_3": lambda: figure(fit(3).by("category").plot()),
        "plan": lambda: figure(fit(20).design(500).plot()),
        "overlap": lambda: figure(fit(20).plot("overlap")),
        "calibration": lambda: figure(fit(20).plot("calibration")),
        "influence": lambda: figure(fit(20).plot("influence", top=15)),
        "sheet_3": lambda: fit(3).plot("sheet"),
        "sheet_20": lambda: fit(20).plot("sheet", by="category"),
        "sheet_200": lambda: fit(200).plot("sheet"),
    }


def save(drawn: Figure, path: Path) -> None:
    """Write a figure with 128 colours, which makes the file a fraction of its size."""
    content = io.BytesIO()
    drawn.savefig(content, dpi=_DPI)
    plt.close(drawn)
    Image.open(content).convert("RGB").quantize(128).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of pictures")
    parser.add_argument("--out", default="docs/figures", help="directory of the files")
    arguments = parser.parse_args()
    for name, draw in pictures().items():
        if not arguments.only or name in arguments.only:
            path = Path(arguments.out) / f"pictures_{name}.png"
            save(draw(), path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()

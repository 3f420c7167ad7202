"""Draw the pictures of docs/pictures.md from simulated votes, at 3, 20, 60 and 200 models, and take those of pages.

    python benchmarks/pictures.py [--only NAME ...] [--out docs/figures]
    python benchmarks/pictures.py --only page page_phone page_months page_groups page_cost [--chromium PATH]

The whole gallery takes about three minutes. Every picture is written with 128 colours. Those of pages need the extras
``report`` and ``browser``, and Chromium; that of the README carries the verdict of its fit, which is that of ``dmlrank
demo``, as a text chunk, which a test compares with the text of the README.
"""

from __future__ import annotations

import argparse
import functools
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import dmlrank as dr

MAKERS = ("aurora", "borealis", "cumulus", "delta", "ember", "fjord", "glacier", "harbour", "isle", "juniper")
KINDS = ("coding", "maths", "roleplay", "writing")
_DPI = 80


def model_names(n_models: int) -> list[str]:
    """Return invented names of models, some of them long."""
    suffixes = ("", "", "-mini", "", "-instruct-2024-08-05", "", "-preview")
    return [f"{MAKERS[j % 10]}-{j // 10 + 1}{suffixes[j % 7]}" for j in range(n_models)]


def battles(n_models: int, n_prompts: int, seed: int = 0) -> pd.DataFrame:
    """Simulate one vote per prompt; skills depend on the kind and the length of the prompt."""
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
        "sheet_20": lambda: fit(20).plot("sheet"),
        "sheet_200": lambda: fit(200).plot("sheet"),
    }


def arena(n: int = 4000, seed: int = 0, prefix: str = "") -> dr.RankResults:
    """Return the fit of the README, or one of other votes of the simulated arena."""
    votes = dr.datasets.simulate_arena(n=n, rng=seed)
    votes["question_id"] = [f"{prefix}{number}" for number in votes["question_id"]]
    formula = "winner ~ C(category) + length | model_a + model_b"
    return dr.dml_rank(formula, votes, functional="bt", context="question_id", rng=0)


def months() -> Any:
    """Return a comparison of three months, whose prompts have different identifiers."""
    names = ("january", "february", "march")
    return dr.compare(**{name: arena(3000, seed, f"{name}-") for seed, name in enumerate(names, start=1)})


@functools.cache
def tasks() -> dr.RankResults:
    """Return the scores of ten models on tasks of eight kinds, some of which are rare, with costs."""
    rng, n, k = np.random.default_rng(2), 1200, 10
    names = ["billing", "returns", "shipping", "account", "warranty", "technical", "refunds", "legal"]
    kind = rng.choice(names, n, p=np.array([25, 20, 16, 13, 10, 8, 5, 3]) / 100)
    prompt, model = (part.ravel() for part in np.indices((n, k)))
    chance = 1 / (1 + np.exp(rng.normal(0, 1.2, n)[prompt] - np.linspace(2.4, 0.3, k)[model]))
    table = pd.DataFrame({"prompt": prompt, "model": [f"system-{chr(97 + j)}" for j in model], "kind": kind[prompt]})
    table["accuracy"] = (rng.random(n * k) < chance).astype(float)
    table["cost"] = rng.lognormal(np.linspace(1, 0, k), 0.8)[model] * rng.gamma(4, 0.25, n * k)
    return dr.dml_rank("accuracy ~ C(kind) | model", table, context="prompt", rng=0)


# What a page reports and says of it, the size of its window, and its colours.
_ARENA, _TASKS = {"title": "Arena", "source": "simulated votes"}, {"title": "Support tasks", "unit": "%"}
PAGES: dict[str, tuple[Callable[[], Any], dict[str, Any], tuple[int, int], str]] = {
    "page": (arena, _ARENA, (1240, 640), "light"),
    "page_phone": (lambda: fit(60).update(functional="bt"), _ARENA, (390, 844), "dark"),
    "page_months": (months, _ARENA, (1040, 760), "light"),
    "page_groups": (lambda: tasks().by("kind"), _TASKS, (1040, 800), "light"),
    "page_cost": (tasks, _TASKS, (1040, 900), "light"),
}


def content_of(drawn: Figure) -> tuple[bytes, PngInfo]:
    """Return a figure as PNG."""
    content = io.BytesIO()
    drawn.savefig(content, dpi=_DPI)
    plt.close(drawn)
    return content.getvalue(), PngInfo()


def page_of(name: str, chromium: str | None) -> tuple[bytes, PngInfo]:
    """Return a picture of a page, and the verdict of its fit."""
    from playwright.sync_api import sync_playwright

    make, words, size, scheme = PAGES[name]
    reported, texts = make(), PngInfo()
    words = words | {"pareto": reported.pareto("cost", unit="US cents")} if name == "page_cost" else words
    if isinstance(reported, dr.RankResults):
        texts.add_text("verdict", reported.verdict())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "page.html"
        reported.report(path, **words)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page.goto(path.as_uri())
        if name == "page_cost":
            page.locator(".scatter").evaluate("plot => plot.scrollIntoView()")
        return page.screenshot(), texts


def main() -> None:
    gallery = pictures()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*gallery, *PAGES], default=list(gallery), help="names of pictures"
    )
    parser.add_argument("--out", default="docs/figures", help="directory of the files")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of Chromium")
    given = parser.parse_args()
    for name in given.only:
        content, texts = page_of(name, given.chromium) if name in PAGES else content_of(gallery[name]())
        path = Path(given.out) / (f"{name}.png" if name in PAGES else f"pictures_{name}.png")
        # 128 colours make the file a fraction of its size.
        Image.open(io.BytesIO(content)).convert("RGB").quantize(128).save(path, optimize=True, pnginfo=texts)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()

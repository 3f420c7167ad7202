"""Take the pictures of pages in docs/figures with Chromium: page, phone, three months, groups, costs.

    python benchmarks/page_pictures.py [--only NAME ...] [--out docs/figures] [--chromium PATH]

Needs the extras ``report`` and ``browser``, and Chromium. The fits are that of the README, which is that of ``dmlrank
demo`` (8 models), and those of ``benchmarks/pictures.py`` (60 models). The picture of the README carries the verdict of
its fit as a text chunk, which a test compares with the text of the README.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from pictures import battles
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright

import dmlrank as dr


def fit(votes: pd.DataFrame) -> dr.RankResults:
    """Return a fit to votes of the simulated arena."""
    formula = "winner ~ C(category) + length | model_a + model_b"
    return dr.dml_rank(formula, votes, functional="bt", context="question_id", rng=0)


def arena() -> dr.RankResults:
    """Return the fit of the README and of ``dmlrank demo``."""
    return fit(dr.datasets.simulate_arena(n=4000, rng=0))


def sixty() -> dr.RankResults:
    """Return a fit to simulated votes on 60 models."""
    formula = "winner ~ C(category) + length | model_a + model_b"
    return dr.dml_rank(
        formula, battles(60, 20000), functional="bt", context="prompt", pairs=dr.Pairs(min_labels=1), rng=0
    )


def months() -> object:
    """Return a comparison of three months, whose prompts have different identifiers."""
    fits = {}
    for seed, name in enumerate(("january", "february", "march"), start=1):
        votes = dr.datasets.simulate_arena(n=3000, rng=seed)
        fits[name] = fit(votes.assign(question_id=[f"{name}-{number}" for number in votes["question_id"]]))
    return dr.compare(**fits)


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


def kinds() -> object:
    """Return the scores by kind of task."""
    return tasks().by("kind")


def show_costs(page: Page) -> None:
    """Scroll to the plot of scores against costs."""
    page.locator("h2", has_text="Score against cost").evaluate("heading => heading.scrollIntoView()")


def picture(browser: Browser, kind: Callable, size: tuple[int, int], scheme: str, show: Callable | None) -> tuple:
    """Return what a page is about, and its picture in a window of this size."""
    reportable = kind()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        words = {"title": "Arena, November", "source": "simulated votes"}
        if kind in (kinds, tasks):
            words = {"title": "Support tasks", "unit": "%"}
        if kind is months:
            words["title"] = "Arena"
        if kind is tasks:
            words["pareto"] = reportable.pareto("cost", unit="US cents")
        reportable.report(path, **words)
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        page.goto(path.as_uri())
        if show is not None:
            show(page)
        return reportable, page.screenshot()


PICTURES = {
    "page": (arena, (1240, 640), "light", None),
    "page_phone": (sixty, (390, 844), "dark", None),
    "page_months": (months, (1040, 760), "light", None),
    "page_groups": (kinds, (1040, 800), "light", None),
    "page_cost": (tasks, (1040, 900), "light", show_costs),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PICTURES, help="names of pictures")
    parser.add_argument("--out", default="docs/figures", help="directory of the files")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of Chromium")
    arguments = parser.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        for name, (make, size, scheme, show) in PICTURES.items():
            if not arguments.only or name in arguments.only:
                texts = PngInfo()
                result, screenshot = picture(browser, make, size, scheme, show)
                content = io.BytesIO(screenshot)
                if isinstance(result, dr.RankResults):
                    texts.add_text("verdict", result.verdict())
                path = Path(arguments.out) / f"{name}.png"
                Image.open(content).convert("RGB").quantize(128).save(path, optimize=True, pnginfo=texts)
                print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()


if __name__ == "__main__":
    main()

"""Take the pictures of pages in docs/figures with Chromium: page, differences, phone, three months.

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


def months() -> dr.Comparison:
    """Return a comparison of three months, whose prompts have different identifiers."""
    fits = {}
    for seed, name in enumerate(("january", "february", "march"), start=1):
        votes = dr.datasets.simulate_arena(n=3000, rng=seed)
        fits[name] = fit(votes.assign(question_id=[f"{name}-{number}" for number in votes["question_id"]]))
    return dr.compare(**fits)


def show_matrix(page: Page) -> None:
    """Scroll to the matrix of differences and choose a cell."""
    page.locator("h2", has_text="Differences").evaluate("heading => heading.scrollIntoView()")
    page.locator(".matrix").hover(position={"x": 300, "y": 120})


def picture(browser: Browser, reportable: object, size: tuple[int, int], scheme: str, show: Callable | None) -> bytes:
    """Return a picture of a page in a window of this size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        reportable.report(path)
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        page.goto(path.as_uri())
        if show is not None:
            show(page)
        return page.screenshot()


PICTURES = {
    "page": (arena, (1040, 1010), "light", None),
    "page_matrix": (sixty, (1040, 900), "light", show_matrix),
    "page_phone": (sixty, (390, 844), "dark", None),
    "page_months": (months, (1280, 960), "light", None),
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
                result, texts = make(), PngInfo()
                content = io.BytesIO(picture(browser, result, size, scheme, show))
                if isinstance(result, dr.RankResults):
                    texts.add_text("verdict", result.verdict())
                path = Path(arguments.out) / f"{name}.png"
                Image.open(content).convert("RGB").quantize(128).save(path, optimize=True, pnginfo=texts)
                print(f"{path}: {path.stat().st_size / 1000:.0f} kB", flush=True)
        browser.close()


if __name__ == "__main__":
    main()

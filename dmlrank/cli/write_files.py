"""Files that the command line writes: paths are checked before a fit, and files are written after it."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import pandas as pd

from .._utils.atomic_write import check_writable, replacement_file, write_errors, write_file
from ..exceptions import DmlrankError, FileWriteError, MissingExtraError, OptionError, nearest
from .read_files import STANDARD_INPUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..results.comparison import Comparison
    from ..results.pareto import Pareto
    from ..results.rank_results import RankResults
    from ..tables.summary_table import Summary

FIGURES = (".png", ".svg", ".pdf")
# Endings that a file of --out may have, by what it holds; the ending decides the format.
ENDINGS = {
    "plan": (".csv", ".json", *FIGURES),
    "page": (".html", ".htm"),
    "result": (".txt", ".md", ".html", ".tex", ".csv", ".json", *FIGURES),
    "comment": (".md",),
    "comparison": (".txt", ".md", ".html", ".tex", ".csv", ".json"),
    "check": (".txt", ".html", ".json"),
}

Write: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command prints at its end, the message of an error that leaves this standing, and its exit status."""

    text: object
    error: str = ""
    status: int = 0


def check_outputs(outputs: Mapping[str, str | Sequence[str] | None], inputs: Iterable[str], out: str) -> None:
    """Check, before anything is computed, that all files can be written at the end; ``out`` is what --out holds."""
    sources = [path for path in inputs if os.path.exists(path)]
    earlier: dict[str, str] = {}
    for option, value in outputs.items():
        for path in [value] if isinstance(value, str) else value or ():
            ending = Path(path).suffix.lower()
            if path == STANDARD_INPUT:
                raise OptionError(f"--{option} '-' is not the name of a file; only the summary goes to standard output")
            if option == "report" or out == "page" or (option == "out" and out == "check" and ending == ".html"):
                from ..report.render_page import check_page_extra

                check_page_extra()
            if option == "out" and ending not in ENDINGS[out]:
                raise OptionError(
                    f"--{option} {path!r} has the ending {ending!r}; a {out} is written as "
                    f"{' or '.join(ENDINGS[out])}{nearest(ending, ENDINGS[out])}"
                )
            if option == "out" and ending in FIGURES and importlib.util.find_spec("matplotlib") is None:
                raise MissingExtraError(f"--out {path!r}: plots need matplotlib: pip install 'dmlrank[plot]'")
            with suppress(OSError):
                if any(os.path.samefile(path, source) for source in sources):
                    raise OptionError(
                        f"--{option} {path!r} is a file that is read; it would be overwritten: give another name"
                    )
            try:
                check_writable(path)
            except FileWriteError as error:
                raise FileWriteError(f"--{option}: {error}") from None
            # A device such as /dev/null may be written to twice.
            real_path = os.path.realpath(path)
            if real_path in earlier and (os.path.isfile(real_path) or not os.path.exists(real_path)):
                raise OptionError(
                    f"--{option} and --{earlier[real_path]} name the same file, {path!r}; give two different names"
                )
            earlier.setdefault(real_path, option)


def formats_of(text: object, summary: Summary, csv: Write, json: Write) -> dict[str, Write]:
    """Return the function that writes each format of ``--out`` but figures."""
    return {
        ".txt": lambda path: write_file(path, f"{text}\n"),
        ".md": lambda path: write_file(path, summary.as_markdown()),
        ".html": lambda path: write_file(path, summary.as_html()),
        ".tex": lambda path: write_file(path, summary.as_latex()),
        ".csv": csv,
        ".json": json,
    }


def write_all(
    text: object, out: Sequence[str] | None, formats: Mapping[str, Write], others: Iterable[tuple[str | None, Write]]
) -> Said:
    """Write all files that are asked for; return what the command says, with an error where a file failed."""
    failed: dict[str, str] = {}
    written = []
    for path, write in [*others, *((path, formats[Path(path).suffix.lower()]) for path in out or ())]:
        if path is not None:
            try:
                write(path)
                written.append(path)
            except DmlrankError as error:
                failed[path] = str(error)
    others_are = f"; written: {', '.join(written)}" if written else ""
    return Said(text, f"{'; '.join(failed.values())}; not written: {', '.join(failed)}{others_are}" if failed else "")


def write_json(path: str, content: Mapping[str, object]) -> None:
    """Write a mapping as JSON; frames become lists of records, and numbers that are not finite become null."""

    def records(frame: pd.DataFrame) -> object:
        return json.loads(frame.to_json(orient="records", double_precision=15))

    write_file(path, json.dumps(content, indent=1, default=records) + "\n")


def rows_of_models(view: RankResults, pareto: Pareto | None) -> pd.DataFrame:
    """Return a row per model: estimate, interval and test, what it is, rank set where there are intervals, costs."""
    from ..report.phrases import functional_unit

    table = view.tidy().rename(columns={"term": "model"}).assign(functional=functional_unit(view.estimates))
    if view.estimates.has_intervals:
        sets = {"lower": "rank_low", "upper": "rank_high"}
        table = table.join(view.ranks().result_frame.rename(columns=sets), on="model")
    return table if pareto is None else pareto.table.merge(table, on="model")


def content_of_comparison(comparison: Comparison) -> dict[str, object]:
    """Return the scores of a comparison and the tests that it has, for JSON."""
    content: dict[str, object] = {"scores": comparison.tidy(), "samples": comparison.samples}
    for name in ("changes", "reversals"):
        try:
            content[name] = getattr(comparison, name)()
        except OptionError as error:
            content[name] = str(error)
    return content


def write_figure(path: str, draw: Callable[[], Axes]) -> None:
    """Write the figure that a function draws, in the format that the path's ending names."""
    # Not get_figure(root=True), which matplotlib has since 3.10: these axes are in a figure of their own.
    figure = cast("Figure", draw().figure)
    with replacement_file(path) as temporary_path, write_errors(path):
        figure.savefig(temporary_path)

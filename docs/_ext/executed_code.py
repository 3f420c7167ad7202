"""Python blocks of the documentation are run while a page is read; their output is shown below each block.

The pages stay plain Markdown, which GitHub shows and the tests run as well. The blocks of a page share one namespace,
as the cells of a notebook do. A block that fails is a warning of Sphinx, which stops a strict build.
"""

from __future__ import annotations

import ast
import contextlib
import fnmatch
import io
import pathlib
import tempfile
import textwrap
import time
import traceback
import warnings
from typing import Any

import matplotlib as mpl
import pandas as pd
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

mpl.use("Agg")
from matplotlib import pyplot as plt

logger = getLogger(__name__)
# Pictures are written for screens with two pixels per point.
_DPI = 150
_POINTS_PER_INCH = 78
# Characters that a line of a page holds on a screen of 1280 points.
_WIDTH = 94
# Seconds of processor time that the code of a page may take.
_LONGEST = 60


class ExecutedCode(SphinxTransform):
    """Run the Python blocks of a page of ``executed_pages`` and insert their output."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Run the blocks in their order on the page."""
        page = self.env.docname
        blocks = [block for block in self.document.findall(nodes.literal_block) if block.get("language") == "python"]
        if not blocks or not any(fnmatch.fnmatch(page, pattern) for pattern in self.config.executed_pages):
            return
        with tempfile.TemporaryDirectory() as folder:
            self._run(page, blocks, folder)

    def _run(self, page: str, blocks: list[nodes.literal_block], folder: str) -> None:
        """Run all blocks of a page in one folder, which disappears with the files that they write."""
        namespace: dict[str, object] = {"__name__": "__main__"}
        start = time.process_time()
        for number, block in enumerate(blocks, start=1):
            with contextlib.chdir(folder):
                outputs, problem = run_block(block.astext(), f"{page}, block {number}", namespace)
            cell = [self._node(output, page, number, place) for place, output in enumerate(outputs)]
            if cell:
                container = nodes.container("", *cell, classes=["cell-output"])
                block.parent.insert(block.parent.index(block) + 1, container)
            if problem:
                logger.warning("block %d of %s fails:\n%s", number, page, problem, location=block)
                break
        seconds = time.process_time() - start
        logger.info("ran %d blocks of %s in %.1f s", len(blocks), page, seconds)
        if seconds > _LONGEST:
            logger.warning("the code of %s takes %.0f s; pages may take %d s", page, seconds, _LONGEST)

    def _node(self, output: tuple[str, Any], page: str, number: int, place: int) -> nodes.Node:
        kind, content = output
        if kind == "text":
            text = break_sentences(content)
            return nodes.literal_block(text, text, language="none", classes=["printed"])
        if kind == "html":
            return nodes.raw("", f'<div class="table-output">{content}</div>', format="html")
        picture, alternative = content
        folder = pathlib.Path(self.env.srcdir, "_drawn")
        folder.mkdir(exist_ok=True)
        name = f"{page.replace('/', '-')}-{number}-{place}.png"
        (folder / name).write_bytes(picture)
        inches = int.from_bytes(picture[16:20], "big") / _DPI  # the width stands in the header of a PNG file
        return nodes.image(uri=f"/_drawn/{name}", alt=alternative, width=f"{inches * _POINTS_PER_INCH:.0f}px")


def break_sentences(text: str) -> str:
    """Return printed text with lines that fit a page, except lines of tables, whose columns are aligned by blanks.

    Examples
    --------
    >>> print(break_sentences("The budget is slack. " * 5))
    The budget is slack. The budget is slack. The budget is slack. The budget is slack. The budget
      is slack.
    """
    lines = (
        textwrap.fill(line, _WIDTH, subsequent_indent="  ") if len(line) > _WIDTH and "  " not in line.strip() else line
        for line in text.splitlines()
    )
    return "\n".join(lines)


def run_block(code: str, name: str, namespace: dict[str, object]) -> tuple[list[tuple[str, Any]], str]:
    """Run one block; the value of a last line that is an expression is shown, as in a notebook.

    Parameters
    ----------
    code, name : str
        Python code, and what a traceback calls it.
    namespace : dict
        Names of the blocks above, to which the names of this block are added.

    Returns
    -------
    outputs : list of (kind, content)
        Printed text, HTML of the last value, and pictures, in this order.
    problem : str
        The traceback of a block that fails, else empty.
    """
    tree = ast.parse(code, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value, problem = io.StringIO(), None, ""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            exec(compile(tree, name, "exec"), namespace)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        except Exception:
            problem = traceback.format_exc()
    lines = [str(item.message) for item in caught if item.category.__module__.startswith("dmlrank")]
    text = printed.getvalue() + "".join(f"{line}\n" for line in lines)
    outputs: list[tuple[str, Any]] = [("text", text.rstrip("\n"))] if text.strip() else []
    alternative = f"Picture drawn by {code.strip().splitlines()[-1]}"
    pictures = [("picture", (png(number), alternative)) for number in plt.get_fignums()]
    plt.close("all")
    if value is not None and not pictures:
        represent = getattr(value, "_repr_html_", None)
        outputs.append(("html", represent()) if represent else ("text", repr(value)))
    return outputs + pictures, problem


def png(number: int) -> bytes:
    """Return a figure of matplotlib by its number as a PNG file."""
    stream = io.BytesIO()
    plt.figure(number).savefig(stream, dpi=_DPI, bbox_inches="tight")
    return stream.getvalue()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the setting ``executed_pages`` (patterns of page names) and the transform."""
    pd.set_option("display.width", 100)
    app.add_config_value("executed_pages", [], "env", list)
    app.add_transform(ExecutedCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas as MathML, which browsers show without a script or a font from elsewhere.

Docutils, on which Sphinx is built, translates LaTeX to MathML; Sphinx has renderers for MathJax and images only.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

logger = getLogger(__name__)
# A letter with an accent and a subscript, which docutils sets below the letter; after an empty group it is beside it.
ACCENTED = re.compile(r"(\\(?:hat|tilde|bar)\s*(?:\\[a-zA-Z]+|\w|\{[^}]*\}))_")


def mathml(node: nodes.Element, block: bool) -> str:
    """Return the MathML of a formula; a formula that cannot be translated is a warning, which stops a strict build."""
    source = ACCENTED.sub(r"\1{}_", node.astext())
    if block and "\\\\" in source and "\\begin" not in source:
        source = f"\\begin{{aligned}}{source}\\end{{aligned}}"
    try:
        return str(latex2mathml.tex2mathml(source, as_block=block))
    except Exception as problem:
        logger.warning("formula cannot be translated to MathML: %s: %s", source, problem, location=node)
        return f"<code>{source}</code>"


def visit_math(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula inside a line."""
    self.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula on a line of its own, which scrolls where it is wider than the page."""
    self.body.append(f'<div class="math-block">{mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

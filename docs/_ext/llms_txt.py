"""The file ``llms.txt`` of the site: address and first sentence of every page, in the order of the menu."""

from __future__ import annotations

import pathlib

from docutils import nodes
from sphinx.application import Sphinx


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of a page, the pointer to the glossary aside."""
    for paragraph in document.findall(nodes.paragraph):
        text = isinstance(paragraph.parent, nodes.section | nodes.document)
        if text and not paragraph.astext().startswith("Terms are explained"):
            return paragraph.astext().replace("\n", " ").split(". ")[0].rstrip(".:") + "."
    return ""


def entry(app: Sphinx, page: str) -> str:
    """Return the line of a page: its title, the address of its source, its first sentence."""
    title = app.env.titles[page].astext()
    address = f"{app.config.html_baseurl}_sources/{page}.md.txt"
    return f"- [{title}]({address}): {first_sentence(app.env.get_doctree(page))}"


def pages_below(app: Sphinx, page: str) -> list[str]:
    """Return a page and all pages below it in the menu; generated pages of the reference stand for themselves."""
    below = [page]
    for child in app.env.toctree_includes.get(page, []):
        below += pages_below(app, child)
    return [name for name in below if "/generated/" not in name]


def write_llms_txt(app: Sphinx, problem: Exception | None) -> None:
    """Write the file after a build of HTML pages."""
    if problem is not None or app.builder.name not in ("html", "dirhtml"):
        return
    root = app.config.root_doc
    lines = [f"# {app.config.project}", "", f"> {app.config.llms_summary}", "", entry(app, root)]
    for section in app.env.toctree_includes[root]:
        lines += ["", f"## {app.env.titles[section].astext()}", ""]
        lines += [entry(app, page) for page in pages_below(app, section)]
    pathlib.Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the sentence about the project, and the writer."""
    app.add_config_value("llms_summary", "", "html", str)
    app.connect("build-finished", write_llms_txt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

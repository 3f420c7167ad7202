"""Pages of the site whose text is a file outside docs/, such as the changelog and the vignettes.

These files stand where everybody looks for them in the repository. A page of the site that stands for such a file names
it in its first line, as a comment. The links of the file become links of the page.
"""

from __future__ import annotations

import pathlib
import posixpath
import re

from sphinx.application import Sphinx

STANDS_FOR = re.compile(r"<!-- the text of this page: (\S+) -->")
_LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")


def standing_pages(docs: pathlib.Path) -> dict[str, str]:
    """Return which file each page stands for: paths of files, and of their pages, from the top of the repository."""
    first_lines = {
        f"docs/{path.relative_to(docs).as_posix()}": STANDS_FOR.match(path.read_text(encoding="utf-8"))
        for folder in (docs, *docs.glob("[!_]*/"))
        for path in folder.glob("*.md")
    }
    return {match[1]: page for page, match in first_lines.items() if match}


def translated_link(target: str, file: str, page: str, pages: dict[str, str]) -> str:
    """Return a link of a file as a link of the page that stands for the file.

    Parameters
    ----------
    target : str
        The link. Addresses of other hosts, anchors of the file itself and files that are no pages stay as they are.
    file, page : str
        Paths of the file and of the page, from the top of the repository.
    pages : dict
        See :func:`standing_pages`.

    Examples
    --------
    >>> pages = {"vignettes/a.md": "docs/a.md", "CHANGELOG.md": "docs/project/changelog.md"}
    >>> translated_link("../docs/data.md#votes", "vignettes/a.md", "docs/a.md", pages)
    'data.md#votes'
    >>> translated_link("vignettes/a.md", "CHANGELOG.md", "docs/project/changelog.md", pages)
    '../a.md'
    """
    linked, anchor, rest = target.partition("#")
    if "://" in target or not linked:
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), linked))
    path = pages.get(path, path)
    if not path.startswith("docs/"):
        return target
    return f"{posixpath.relpath(path, posixpath.dirname(page))}{anchor}{rest}"


def insert_file(app: Sphinx, page_name: str, source: list[str]) -> None:
    """Replace the text of a page by that of the file that it names."""
    name = STANDS_FOR.match(source[0])
    if not name:
        return
    docs = pathlib.Path(app.srcdir)
    path, page, pages = docs.parent / name[1], f"docs/{page_name}.md", standing_pages(docs)
    source[0] = _LINK.sub(lambda link: translated_link(link[0], name[1], page, pages), path.read_text(encoding="utf-8"))
    app.env.note_dependency(str(path))


def setup(app: Sphinx) -> dict[str, bool]:
    """Read the files before Markdown is parsed."""
    app.connect("source-read", insert_file)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

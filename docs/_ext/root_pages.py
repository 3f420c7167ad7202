"""Pages of the site whose text is a file at the root of the repository, such as the changelog.

GitHub shows these files where everybody looks for them. A page of the site that stands for such a file names it in its
first line, as a comment; links of the file are translated to pages of the site.
"""

from __future__ import annotations

import pathlib
import re

from sphinx.application import Sphinx

STANDS_FOR = re.compile(r"<!-- the text of this page: (\S+) -->")


def page_of(target: str, pages: dict[str, str]) -> str:
    """Return a link of a root file as a link of a page in ``project/``; addresses of other hosts stay."""
    file, anchor, rest = target.partition("#")
    if file.startswith("docs/"):
        return f"../{target.removeprefix('docs/')}"
    return f"{pages[file]}{anchor}{rest}" if file in pages else target


def insert_root_file(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the text of a page by that of the root file that it names."""
    name = STANDS_FOR.match(source[0])
    if not name:
        return
    root, folder = pathlib.Path(app.srcdir).parent, pathlib.Path(app.srcdir, "project")
    first_lines = {path.name: STANDS_FOR.match(path.read_text(encoding="utf-8")) for path in folder.glob("*.md")}
    pages = {match[1]: page_name for page_name, match in first_lines.items() if match}
    text = (root / name[1]).read_text(encoding="utf-8")
    source[0] = re.sub(r"(?<=\]\()[^)\s]+(?=\))", lambda link: page_of(link[0], pages), text)
    app.env.note_dependency(str(root / name[1]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Read root files before Markdown is parsed."""
    app.connect("source-read", insert_root_file)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

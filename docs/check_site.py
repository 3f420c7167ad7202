"""Check a built site: internal links lead somewhere and name pages, and no page loads a file from another host.

python docs/check_site.py docs/_build/html
"""

from __future__ import annotations

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

# Elements that load a file when a page is shown, with the attribute that names the file.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
# Relations of <link> that name a page and load nothing.
NOT_LOADED = {"canonical", "next", "prev", "search", "index", "author"}


class Page(HTMLParser):
    """Identifiers, links and loaded files of a page.

    Attributes
    ----------
    anchors : set of str
        Values of ``id`` and ``name``.
    links, loaded : list of str
        Addresses to which the page links, and of files that it loads.
    texts : list of str
        The text of each link.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.texts: list[str] = []
        self._is_in_link = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element names."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
            self.texts.append("")
            self._is_in_link = True
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in NOT_LOADED:
            self.loaded.append(values[LOADED[tag]])

    def handle_endtag(self, tag: str) -> None:
        """End the text of a link."""
        self._is_in_link = self._is_in_link and tag != "a"

    def handle_data(self, data: str) -> None:
        """Collect the text of a link."""
        if self._is_in_link:
            self.texts[-1] += data


def problems(root: pathlib.Path) -> list[str]:
    """Return a sentence for every link that leads nowhere or names a file, and for every file of another host."""
    files = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        name = path.relative_to(root)
        for address, text in zip(page.links, page.texts, strict=True):
            if text.strip().endswith(".md"):
                found.append(
                    f"{name} links to {address} as {text.strip()!r}; write the title of the page"
                )
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    found.append(f"{name} loads {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name} links to {address}, which does not exist")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                found.append(f"{name} links to {address}, which has no such anchor")
    return found


if __name__ == "__main__":
    site = pathlib.Path(sys.argv[1]).resolve()
    sentences = problems(site)
    print(
        "\n".join(sentences)
        or "links inside the site lead somewhere, and no file is loaded from another host"
    )
    sys.exit(bool(sentences))

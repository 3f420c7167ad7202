"""Whether a tag may be released: it is the version of the package, and the changelog has a dated section for it."""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]


def problems(tag: str, version: str, changelog: str) -> list[str]:
    """Return what stands against the release, one sentence each."""
    found = []
    if tag != f"v{version}":
        found.append(f"The tag is {tag}, but the version of the package is {version}: the tag must be v{version}.")
    if "dev" in version:
        found.append(f"{version} is a version under development: set the version in dmlrank/_version.py.")
    section = re.search(
        rf"^## {re.escape(version)} \((\d{{4}}-\d{{2}}-\d{{2}})\)\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if section is None:
        found.append(f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'.")
    elif not section.group(2).strip():
        found.append(f"The section of {version} in CHANGELOG.md is empty.")
    return found


def main() -> int:
    """Check the tag that the command line names; without one, the tag that the version would get."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "dmlrank/_version.py").read_text(encoding="utf-8")).group(1)
    tag = sys.argv[1] if len(sys.argv) > 1 else f"v{version}"
    found = problems(tag, version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    print("\n".join(found) or f"{tag} may be released.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

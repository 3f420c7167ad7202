"""What is installed, for a bug report."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_NEEDED = ("numpy", "scipy", "pandas", "patsy", "statsmodels", "lightgbm", "narwhals")
_EXTRAS = {
    "plot": ("matplotlib",),
    "text": ("scikit-learn",),
    "arrow": ("pyarrow",),
    "other frames": ("polars", "duckdb"),
}


def show_versions() -> None:
    """Print the versions of Python, dmlrank and what it uses, and which extras are there.

    Examples
    --------
    >>> import dmlrank as dr
    >>> dr.show_versions()  # doctest: +ELLIPSIS
    dmlrank      ...
    python       ...
    """
    print(versions_text())


def versions_text() -> str:
    """What :func:`show_versions` prints."""
    lines = [
        ("dmlrank", installed("dmlrank")),
        ("python", f"{sys.version.split()[0]} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        *((name, installed(name)) for name in _NEEDED),
    ]
    for extra, names in _EXTRAS.items():
        lines += [(name, f"{installed(name)} (extra: {extra})") for name in names]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}} {shown}" for name, shown in lines)


def installed(name: str) -> str:
    """The installed version of a distribution, or ``absent``.

    Examples
    --------
    >>> installed("no-such-distribution")
    'absent'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"

"""Versions of Python, the package and its dependencies, for a bug report."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

REQUIRED = ("numpy", "scipy", "pandas", "patsy", "statsmodels", "lightgbm", "narwhals", "threadpoolctl")
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "plot": ("matplotlib",),
    "text": ("scikit-learn",),
    "arrow": ("pyarrow",),
    "dask": ("distributed",),
    "other frames": ("polars", "duckdb"),
}


def show_versions() -> None:
    """Print the versions of Python, dmlrank and its dependencies, required and optional.

    Examples
    --------
    >>> import dmlrank as dr
    >>> dr.show_versions()  # doctest: +ELLIPSIS
    dmlrank      ...
    python       ...
    """
    print(versions_text())


def versions_text(extras: Mapping[str, tuple[str, ...]] = EXTRAS) -> str:
    """Return the text that :func:`show_versions` prints.

    Parameters
    ----------
    extras : mapping of str to tuple of str
        Names of the optional dependencies, by the extra of the package that installs them.
    """
    lines = [
        ("dmlrank", installed_version("dmlrank")),
        ("python", f"{sys.version.split()[0]} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        *((name, installed_version(name)) for name in REQUIRED),
    ]
    for extra, names in extras.items():
        lines += [(name, f"{installed_version(name)} (extra: {extra})") for name in names]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}} {text}" for name, text in lines)


def installed_version(name: str) -> str:
    """Return the installed version of a distribution, or ``absent``.

    Examples
    --------
    >>> installed_version("no-such-distribution")
    'absent'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"

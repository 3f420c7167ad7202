"""Versions of Python, the package and its dependencies: for a bug report, and compared between workers."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from .._version import __version__
from ..exceptions import ExecutorError

REQUIRED = ("numpy", "scipy", "pandas", "patsy", "statsmodels", "lightgbm", "lazy_loader", "threadpoolctl")
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
    """Return the text that :func:`show_versions` prints."""
    lines = [
        ("dmlrank", __version__),
        ("python", f"{sys.version.split()[0]} ({platform.python_implementation()})"),
        ("platform", platform.platform()),
        *((name, installed_version(name)) for name in REQUIRED),
    ]
    for extra, names in extras.items():
        lines += [(name, f"{installed_version(name)} (extra: {extra})") for name in names]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}} {text}" for name, text in lines)


def installed_version(name: str) -> str:
    """Return the installed version of a distribution, or ``absent``."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which computed numbers depend, by name."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python, "dmlrank": __version__} | {name: installed_version(name) for name in REQUIRED}


def require_versions(expected: Mapping[str, str]) -> None:
    """Raise an :class:`ExecutorError` with both lists where versions of this process differ from those expected."""
    present = versions()
    if present != dict(expected):
        both = "; ".join(
            f"{where}: {', '.join(f'{name} {version}' for name, version in named.items())}"
            for where, named in (("the fit has", expected), ("a worker has", present))
        )
        raise ExecutorError(
            f"versions of packages differ between the process of the fit and a worker, and numbers could differ. "
            f"{both}. Install the same on all"
        )

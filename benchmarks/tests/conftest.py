"""Fixtures, guards and the one thread of every worker are those of the package's tests."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import pytest

from tests.conftest import (
    figures_closed,
    global_generator_left_alone,
    ignore_warnings,
    pytest_configure,
    pytest_pyfunc_call,
    pytest_xdist_auto_num_workers,
    rank,
)

__all__ = [
    "figures_closed",
    "global_generator_left_alone",
    "ignore_warnings",
    "pytest_configure",
    "pytest_pyfunc_call",
    "pytest_xdist_auto_num_workers",
    "rank",
]

BENCHMARKS = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="session")
def load_benchmark():
    """A script of benchmarks/ as a module, by its name; then the names of scripts of the folder that it imports."""
    loaded = {}

    def module(name):
        if name not in loaded:
            spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
            loaded[name] = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look it up
            spec.loader.exec_module(loaded[name])
        return loaded[name]

    def load(name, *imported):
        with pytest.MonkeyPatch.context() as patch:
            for other in imported:
                patch.setitem(sys.modules, other, module(other))
            return module(name)

    yield load
    for made in loaded.values():
        del sys.modules[made.__name__]


@pytest.fixture(scope="session")
def folder():
    """The folder of public preference data."""
    if not os.environ.get("DMLRANK_DATA"):
        pytest.skip("DMLRANK_DATA does not name the folder of public preference data")
    return pathlib.Path(os.environ["DMLRANK_DATA"])

"""Fixtures, guards and the one thread of every worker are those of the package's tests."""

from __future__ import annotations

import importlib
import os
import pathlib

import pytest

from tests.conftest import *  # noqa: F403


@pytest.fixture(scope="session")
def load_benchmark():
    """A module of benchmarks/, by its name."""
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture(scope="session")
def folder():
    """The folder of public preference data."""
    if not os.environ.get("DMLRANK_DATA"):
        pytest.skip("DMLRANK_DATA does not name the folder of public preference data")
    return pathlib.Path(os.environ["DMLRANK_DATA"])

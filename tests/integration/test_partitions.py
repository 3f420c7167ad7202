"""Data larger than memory: parquet files and Dask DataFrames give the numbers of the same rows in memory."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank._utils.mapped_arrays import is_mapped, mapped
from dmlrank.cli.main import main
from dmlrank.data.frames import column_names, take_columns
from dmlrank.exceptions import ColumnError, DataError, FrameTypeError, MissingDataError, StorageError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FORMULA = "winner ~ length + bs(u, df=4) + C(category) + center(v) + standardize(length) | model_a + model_b"


@pytest.fixture(scope="module")
def votes():
    """900 prompts, a third of them with two rows that are far apart, and columns of every role."""
    rng = np.random.default_rng(0)
    first = dr.datasets.simulate_arena(n=900, rng=0)
    first["u"], first["v"] = rng.normal(size=(2, len(first)))
    first["group"] = rng.integers(0, 200, len(first))
    first["weight"] = rng.uniform(0.5, 2, len(first))
    first["verdict"] = np.where(rng.random(len(first)) < 0.7, first["winner"], "tie")
    second = first.sample(300, random_state=1)
    second = second.assign(
        model_a=second["model_b"],
        model_b=second["model_a"],
        winner=second["winner"].replace({"model_a": "model_b", "model_b": "model_a"}),
    )
    return pd.concat([first, second], ignore_index=True)


@pytest.fixture(scope="module")
def folder(votes, tmp_path_factory):
    path = tmp_path_factory.mktemp("votes")
    for number, rows in enumerate(np.array_split(np.arange(len(votes)), 4)):
        votes.iloc[rows].to_parquet(path / f"{number}.parquet", index=False)
    votes.iloc[:0].to_parquet(path / "no rows.parquet", index=False)
    return path


@pytest.fixture(scope="module")
def table(votes):
    return pa.Table.from_pandas(votes, preserve_index=False)


def assert_same_bits(one, two):
    assert one.params.equals(two.params)
    assert one.cov_params().equals(two.cov_params())
    assert one.tidy().equals(two.tidy())


OPTIONS = {
    "bt, order matters": {"functional": "bt", "position_bias": True},
    "borda, order does not matter, clusters, weights": {
        "functional": "borda",
        "position_bias": False,
        "cov_type": "cluster",
        "cov_kwds": {"groups": "group"},
        "weights": "weight",
    },
    "sample, marginal propensities": {"functional": "bt", "subsample": 500, "propensity": "marginal"},
    "rank centrality, repetitions, LightGBM": {
        "functional": "rank_centrality",
        "n_rep": 2,
        "learner": "lightgbm",
        "propensity": "marginal",
    },
    "judge": {"functional": "borda", "judge": "verdict", "propensity": "marginal"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_files_give_the_bits_of_the_same_rows_in_memory(options, folder, table):
    kwargs = {"context": "question_id", "n_folds": 2, "rng": 0, "n_jobs": 1} | options
    assert_same_bits(*(dr.dml_rank(FORMULA, data, **kwargs) for data in (table, str(folder))))

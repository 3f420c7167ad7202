"""Data larger than memory: parquet files and Dask DataFrames give the numbers of the same rows in memory."""

import errno
import os
import pathlib
import re

import numpy as np
import pandas as pd
import pytest
from patsy import EvalEnvironment

import dmlrank as dr
from dmlrank.data.formula.features import text
from dmlrank.data.frames import array_in_file, column_names, take_columns
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.exceptions import ColumnError, DataError, FrameTypeError, StorageError
from dmlrank.options import Options, in_objects

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PLAIN = "winner ~ 1 | model_a + model_b"
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
    other = {"model_a": "model_b", "model_b": "model_a"}
    second = first.sample(300, random_state=1).rename(columns=other)
    return pd.concat([first, second.assign(winner=second["winner"].replace(other))], ignore_index=True)


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


def assert_alike(one, two):
    """Features of files are in single precision: scores and errors agree far within the standard errors."""
    assert list(one.params.index) == list(two.params.index)
    np.testing.assert_allclose(one.params, two.params, atol=float(0.05 * one.bse.max()))
    np.testing.assert_allclose(one.bse, two.bse, rtol=0.02)


OPTIONS_OF_DATA = Options.of(in_objects({"context": "question_id"}))
OPTIONS = {
    "bt, order matters": {"functional": "bt", "position_bias": True},
    "borda, order does not matter, clusters, weights": {
        "functional": "borda",
        "position_bias": False,
        "cov_type": "cluster",
        "cov_kwds": {"groups": "group"},
        "weights": "weight",
    },
    "rank centrality, repetitions, LightGBM": {
        "functional": "rank_centrality",
        "n_rep": 2,
        "learner": "lightgbm",
        "propensity": "marginal",
    },
    "judge": {"functional": "borda", "judge": "verdict", "propensity": "marginal"},
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:too few labels for this functional:dmlrank.exceptions.IntervalWarning")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_files_give_the_numbers_of_the_same_rows_in_memory(options, folder, table):
    kwargs = {"context": "question_id", "n_folds": 2, "rng": 0, "n_jobs": 1} | options
    assert_alike(*(dr.dml_rank(FORMULA, data, **in_objects(kwargs)) for data in (table, str(folder))))


def test_features_are_in_a_file_in_single_precision(folder, table):
    formula = "winner ~ u + v:C(category) + np.log(length + 1) + cr(u, df=3) + text(prompt, 3) | model_a + model_b"
    pytest.importorskip("sklearn")
    environment = EvalEnvironment([{"np": np, "text": text}])
    in_memory, in_file = (
        preferences_of(take_rows(formula, data, environment, OPTIONS_OF_DATA)) for data in (table, folder)
    )
    assert isinstance(in_file.x, np.memmap)
    assert not isinstance(in_memory.x, np.memmap)
    np.testing.assert_array_equal(in_file.x, in_memory.x.astype(np.float32))
    assert list(in_file.context_ids) == list(in_memory.context_ids)
    # Numbers that only the features use are read again where a later step asks for them.
    assert set(in_memory.columns) - set(in_file.columns) == {"u", "v", "length"}


def test_a_full_disk_is_said(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(StorageError, match=r"0\.4 GB cannot be written.*No space left.*TMPDIR"):
        array_in_file((1_000_000, 100))


@pytest.mark.parametrize("pattern", ["{}", "{}/*.parquet", "{}/[0-3].parquet"])
def test_columns_have_the_values_and_types_of_the_same_frame(pattern, folder, table):
    data = pattern.format(folder)
    assert column_names(data) == table.column_names
    names = ["winner", "length", "u", "propensity", "question_id", "category"]
    taken, expected = take_columns(data, names), take_columns(table, names)
    pd.testing.assert_frame_equal(taken, expected)


def test_columns_that_the_formula_does_not_need_are_not_read(folder, monkeypatch):
    read = []
    original = pq.ParquetFile.read

    def recorded(self, columns=None, **options):
        read.extend(columns)
        return original(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", recorded)
    preferences_of(take_rows("winner ~ u | model_a + model_b", folder, EvalEnvironment([{}]), OPTIONS_OF_DATA))
    assert set(read) == {"winner", "model_a", "model_b", "u", "question_id"}


def test_wrong_files_are_said(folder, votes, tmp_path):
    formula = "winner ~ u | model_a + model_b"
    nowhere = (str(tmp_path), str(tmp_path / "*.parquet"), "half \udc80/*.parquet", tmp_path / "votes.parquet")
    for pattern in nowhere:
        with pytest.raises(DataError):
            dr.dml_rank(formula, pattern)
    with pytest.raises(FrameTypeError):
        dr.dml_rank(formula, "votes.csv")
    with pytest.raises(ColumnError):
        dr.dml_rank("winner ~ w | model_a + model_b", folder)
    first = tmp_path / "a.parquet"
    votes.iloc[:0].to_parquet(first, index=False)
    with pytest.raises(DataError, match="no rows"):
        dr.dml_rank(formula, tmp_path)
    votes.iloc[:50].to_parquet(first, index=False)
    for other in (votes.drop(columns="u"), votes.assign(u=votes["u"].astype(str))):
        other.iloc[50:].to_parquet(tmp_path / "b.parquet", index=False)
        with pytest.raises(DataError):
            dr.dml_rank(formula, tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError):
        dr.dml_rank(formula, tmp_path)
    vectors = pa.table({"e": [[1.0, 2.0], [1.0]] * 10})
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    with pytest.raises(DataError):
        take_columns(tmp_path / "vectors.parquet", ["e"])


def test_files_and_folders_that_begin_with_an_underscore_are_left_out(folder, votes, tmp_path):
    for name in ("_x.parquet", "_log/00.parquet", ".hidden.parquet", "part/b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        votes[:700].to_parquet(tmp_path / name, index=False)
    assert dr.dml_rank(PLAIN, str(tmp_path), rng=0).estimates.description.n_rows == 700
    (tmp_path / "part" / "b.parquet").unlink()
    with pytest.raises(DataError, match="no parquet file"):
        dr.dml_rank(PLAIN, str(tmp_path), rng=0)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.long
def test_a_dask_frame_is_read_partition_by_partition(known, votes):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(votes, npartitions=3)
    frame = frame if known else frame.clear_divisions()
    frame = dd.concat([frame, frame[frame["length"] < 0]])
    assert column_names(frame) == list(votes.columns)
    options = {"context": "question_id", "n_folds": 2, "rng": 0, "n_jobs": 1, "propensity": "marginal"}
    assert_alike(
        *(dr.dml_rank("winner ~ u + v | model_a + model_b", data, **in_objects(options)) for data in (votes, frame))
    )


def test_a_partition_that_fails_is_named(votes):
    dd = pytest.importorskip("dask.dataframe")

    def fails(part):
        raise RuntimeError("a fault of the caller")

    frame = dd.from_pandas(votes, npartitions=2).map_partitions(fails, meta=votes.iloc[:0])
    with pytest.raises(DataError) as caught:
        dr.dml_rank("winner ~ u + v | model_a + model_b", frame, rng=0)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_the_code_of_the_page_runs():
    """Without features, because the fits are then fast; the page defines battles and formula in its first block."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S)
    (cell,) = (cell for cell in cells if "from_files" in cell)
    namespace = {
        "dr": dr,
        "battles": dr.datasets.simulate_arena(n=2000, rng=0),
        "formula": "winner ~ 1 | model_a + model_b",
    }
    exec(compile(cell, "scale.md", "exec"), namespace)
    assert namespace["from_files"].params.equals(namespace["in_memory"].params)


def test_every_type_of_column_is_read_as_from_one_table(tmp_path):
    n = 1200
    table = pa.table(
        {
            "whole": pa.array([None if i % 5 == 0 else i for i in range(n)]),
            "large": pa.array([None if i == 7 else 2**60 + i for i in range(n)]),
            "yes": pa.array([i % 2 == 0 for i in range(n)]),
            "maybe": pa.array([None if i == 3 else i % 2 == 0 for i in range(n)]),
            "single": pa.array(np.linspace(0, 1, n).astype(np.float32)),
            "kind": pa.array([f"k{i % 3}" for i in range(n)]).dictionary_encode(),
            "vector": pa.array([[float(i), 1.0] for i in range(n)], pa.list_(pa.float32())),
            "fixed": pa.array([None if i == 9 else [i, 2] for i in range(n)], pa.list_(pa.int64(), 2)),
            "empty": pa.array([None] * n, pa.float64()),
        }
    )
    try:
        pq.write_table(table.slice(0, 500), tmp_path / "a.parquet")
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"this version of pyarrow cannot write the columns: {error}")
    pq.write_table(table.slice(500), tmp_path / "b.parquet")
    taken, expected = take_columns(tmp_path, table.column_names), take_columns(table, table.column_names)
    for name in table.column_names:
        if name in ("vector", "fixed"):
            one, other = ([None if c is None else c.tolist() for c in read[name]] for read in (taken, expected))
            assert one == other
        else:
            pd.testing.assert_series_equal(taken[name], expected[name])
    assert taken["vector"].iloc[0].dtype == np.float32

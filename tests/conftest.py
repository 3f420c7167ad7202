"""What all tests share: battles as arrays and frames, fits without warnings, a guard of the global generator."""

import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace

# Every worker of a run has one thread: on small data more of them only wait for each other. The libraries read this
# when they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.data.columns import Columns
from dmlrank.data.formula.features import FeatureMap
from dmlrank.data.preferences import PreferenceData, gather_cells
from dmlrank.options import in_objects

from .support import FORMULA, optional, quiet, read_frame

duckdb, pl, pa, parquet = (optional(name) for name in ("duckdb", "polars", "pyarrow", "pyarrow.parquet"))

LABELS = {
    2: ["model_a", "model_b"],
    3: ["model_a", "model_b", "tie"],
    4: ["model_a", "model_b", "both_good", "both_bad"],
    5: ["model_a", "model_b", "both_good", "both_bad", "tie"],
}


def pytest_configure(config):
    """Tests run in random order (pytest-randomly), but nobody seeds numpy's global generator before each of them."""
    config.option.randomly_reset_seed = False


def pytest_xdist_auto_num_workers(config):
    """One process for files that are named, because every worker imports all libraries again; else all cores."""
    return 0 if any(".py" in argument for argument in config.args) else None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Skip a test that meets dmlrank's own refusal of an extra that is not installed here."""
    try:
        return (yield)
    except dr.exceptions.MissingExtraError as refusal:
        pytest.skip(str(refusal))


@pytest.fixture(autouse=True)
def global_generator_left_alone():
    """Fail a test after which numpy's global generator is in another state, and so any later test might be."""
    before = _state()
    yield
    assert _state() == before, "the test used or seeded numpy's global generator"


@pytest.fixture(autouse=True)
def figures_closed():
    """No figure outlives the test that drew it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def arena_result():
    """A fit of simulated battles without features, whose questions the prompts are."""
    battles = dr.datasets.simulate_arena(n=2500, rng=0)
    return dr.dml_rank(FORMULA, battles, functional="bt", context="question_id", rng=0)


@pytest.fixture(scope="session")
def small_arena():
    """A few battles, of which a test that changes them takes a copy."""
    return dr.datasets.simulate_arena(n=300, rng=0)


@pytest.fixture(scope="session")
def global_seed():
    """numpy's global generator with a seed, which what runs meanwhile leaves as it is."""

    @contextmanager
    def seeded(seed):
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        fresh = _state()
        try:
            yield
            assert _state() == fresh
        finally:
            np.random.set_state(before)  # noqa: NPY002

    return seeded


def _state():
    kind, key, *others = np.random.get_state()  # noqa: NPY002
    return kind, key.tobytes(), *others


@pytest.fixture(scope="session")
def make_data():
    def make(
        context, first, second, label, *, n_items, n_categories, x=None, n_contexts=None, columns=None, order=None
    ):
        """Preference data, one vote per entry; a row per vote, then one for every context without a vote."""
        context, first, second, label = (np.asarray(part, dtype=np.intp) for part in (context, first, second, label))
        n = len(x) if x is not None else n_contexts or int(context.max()) + 1
        y = np.eye(n_categories)[label]
        cells, vote_cell = gather_cells(context, first, second, y)
        rows = np.concatenate([context, np.setdiff1d(np.arange(n), context)])
        return PreferenceData(
            items=tuple(f"m{j}" for j in range(n_items)),
            categories=("first", "second", "both_good", "both_bad", "tie")[:n_categories],
            labels=(),
            x=np.empty((n, 0)) if x is None else np.asarray(x, dtype=float),
            feature_map=FeatureMap("1", (), (), None),
            context_ids=np.array([f"q{i}" for i in range(n)], dtype=object),
            seed_order=np.arange(n) if order is None else np.asarray(order),
            cells=cells,
            vote_cell=vote_cell,
            vote_y=y,
            vote_row=np.arange(len(context)),
            row_context=rows,
            row_index=np.arange(len(rows)),
            first_row=np.unique(rows, return_index=True)[1],
            columns=Columns(tuple(columns or ()), pd.DataFrame(columns or {}, index=range(len(rows)))),
            n_rows=len(rows),
            n_dropped=0,
        )

    return make


@pytest.fixture(scope="session")
def draw_mu():
    def draw(rng, n, n_items, n_categories, floor=0.1):
        """Category probabilities, none below floor / C, zero on the diagonal."""
        mu = floor / n_categories + (1 - floor) * rng.dirichlet(np.ones(n_categories), size=(n, n_items, n_items))
        mu[:, np.arange(n_items), np.arange(n_items)] = 0.0
        return mu

    return draw


@pytest.fixture(scope="session")
def draw_battles(draw_mu):
    def draw(rng, n, n_items=4, n_categories=3, edges=None, n_pairs=1, repeats=False, unlabelled=0, mu=None):
        """Votes on ``n_pairs`` ordered pairs of each of ``n`` prompts, all categories among them.

        ``repeats`` adds further votes on the same pairs, ``unlabelled`` prompts without a vote stand in between.
        """
        mu = draw_mu(rng, n, n_items, n_categories) if mu is None else mu
        propensity = rng.uniform(0.2, 1.0, size=(n, n_items, n_items))
        x = rng.normal(size=(n, 2))
        allowed = np.argwhere(~np.eye(n_items, dtype=bool) if edges is None else edges)
        silent = rng.choice(n, size=unlabelled, replace=False)
        rows, seen = [], 0
        for i in range(n):
            about = {"prompt": f"q{i:03d}", "x0": x[i, 0], "x1": x[i, 1], "topic": f"t{i % 7}"}
            if i in silent:
                rows.append(
                    about | {"model_a": None, "model_b": None, "winner": None, "shown": np.nan, "judge": "none"}
                )
                continue
            for j, k in allowed[rng.choice(len(allowed), size=n_pairs, replace=False)]:
                for _ in range(int(rng.integers(1, 4)) if repeats else 1):
                    label = seen if seen < n_categories else rng.choice(n_categories, p=mu[i, j, k])
                    seen += 1
                    vote = {"model_a": f"m{j}", "model_b": f"m{k}", "winner": LABELS[n_categories][label]}
                    judge = {"judge": f"judge{rng.integers(5)}"}
                    rows.append(about | vote | {"shown": propensity[i, j, k]} | judge)
        return SimpleNamespace(frame=pd.DataFrame(rows), mu=mu, propensity=propensity)

    return draw


@pytest.fixture(scope="session")
def rank():
    def fit(data, formula=FORMULA, **options):
        """A fit by prompt on one thread in which warnings of dmlrank are no errors."""
        with quiet():
            defaults = {"context": "prompt", "min_labels": 1, "rng": 0, "n_jobs": 1}
            return dr.dml_rank(formula, data, **in_objects(defaults | options))

    return fit


@pytest.fixture
def ignore_warnings():
    with quiet():
        yield


@pytest.fixture
def printed(capsys):
    """What a call of the command line prints, on one line; where its exit code is 1, what it says is wrong."""

    def call(arguments, status=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == status
        shown = capsys.readouterr()
        return " ".join((shown.err if status == 1 else shown.out).split())

    return call


@pytest.fixture
def as_kind(tmp_path):
    """An Arrow table as another kind of frame; categories as the kind's own, in the table's order."""

    def polars(table):
        frame = pl.DataFrame(table)
        levels = {
            c: table[c].combine_chunks().dictionary.to_pylist() for c in table.column_names if _is_coded(table[c])
        }
        return frame.with_columns(pl.col(name).cast(pl.Enum(known)) for name, known in levels.items())

    # A relation does not keep its connection open in every version of DuckDB.
    connections = []

    def relation(table):
        connection = duckdb.connect()
        connections.append(connection)
        connection.execute("SET threads = 2")
        columns = []
        for name in table.column_names:
            quoted = '"' + name.replace('"', '""') + '"'
            levels = table[name].combine_chunks().dictionary.to_pylist() if _is_coded(table[name]) else None
            declared = f"::ENUM({', '.join(repr(level) for level in levels)})" if levels else ""
            columns.append(f"{quoted}{declared} AS {quoted}")
        connection.register("source", table)
        connection.execute(f"CREATE TABLE battles AS SELECT {', '.join(columns)} FROM source")
        return connection.table("battles")

    def parquet_file(table):
        path = tmp_path / "frame.parquet"
        try:
            parquet.write_table(table, path)
        except pa.ArrowNotImplementedError as error:
            pytest.skip(f"this version of pyarrow cannot write the column: {error}")
        return read_frame(str(path))

    kinds = {
        "pandas": lambda table: table.to_pandas(integer_object_nulls=True),
        "nullable": lambda table: _nullable(table.to_pandas(integer_object_nulls=True)),
        "arrow dtypes": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": polars,
        "pyarrow": lambda table: table,
        "duckdb": relation,
        "parquet": parquet_file,
    }
    yield lambda table, kind: kinds[kind](table)
    for connection in connections:
        connection.close()


def _is_coded(column):
    return pa.types.is_dictionary(column.type)


def _nullable(frame):
    """Nullable types; floats stay floats, for ``convert_dtypes`` makes integers of whole ones."""
    floats = {name: "Float64" for name in frame.columns if frame[name].dtype.kind == "f"}
    return frame.astype(floats).astype({n: frame[n].convert_dtypes().dtype for n in frame.columns if n not in floats})

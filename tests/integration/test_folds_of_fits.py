"""The folds of a fit follow from the identifiers of its contexts and its seed alone."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.formula.features import caller_environment
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.estimation.cross_fitting import assign_folds, fold_key
from dmlrank.fit.stages import fold_units
from dmlrank.options import Options, in_objects

FORMULA = "winner ~ length | model_a + model_b"
FRAME = dr.datasets.simulate_arena(n=1200, rng=0).assign(topic=lambda frame: frame["question_id"] % 7)
KEY = fold_key(0, 0)
ENVIRONMENT = caller_environment({}, depth=0)


def deal(frame, *, context=("question_id",), n_folds=5, formula=FORMULA):
    """Fold of each identifier."""
    data = preferences_of(take_rows(formula, frame, ENVIRONMENT, Options.of(in_objects({"context": context}))))
    units = fold_units(data, None, n_folds=n_folds)
    return dict(zip(data.context_ids, assign_folds(units, n_folds, KEY).fold.tolist(), strict=True))


EXPECTED = deal(FRAME)


def test_more_or_fewer_contexts():
    some = FRAME[np.random.default_rng(0).random(len(FRAME)) < 0.9]
    assert some["question_id"].nunique() >= 1000
    folds = deal(some)
    assert folds == {name: EXPECTED[name] for name in folds}


TYPES = ["int32", "uint16", "float32", "float64", "str", "category", "Int64", "string", object]


@pytest.mark.parametrize("dtype", TYPES)
def test_other_types_of_the_identifier(dtype):
    folds = deal(FRAME.assign(question_id=FRAME["question_id"].astype(dtype)))
    assert {int(name): fold for name, fold in folds.items()} == EXPECTED


@pytest.mark.parametrize("kind", ["nullable", "arrow dtypes", "polars", "pyarrow", "duckdb", "parquet"])
def test_other_kinds_of_frames(kind, as_kind):
    pa = pytest.importorskip("pyarrow")
    assert deal(as_kind(pa.Table.from_pandas(FRAME, preserve_index=False), kind)) == EXPECTED


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_times_as_identifiers_are_instants(zone):
    times = pd.Timestamp("2024-05-01", tz="UTC") + pd.to_timedelta(FRAME["question_id"], unit="h")
    in_zone = times.dt.tz_localize(None) if zone is None else times.dt.tz_convert(zone)
    expected = times.dt.strftime("%Y-%m-%d %H:%M:%S" + ("" if zone is None else "+00:00"))
    folds, of_texts = (deal(FRAME.assign(question_id=column)) for column in (in_zone, expected))
    assert list(folds.values()) == list(of_texts.values())


def test_without_context_rows_are_dealt_by_their_position_and_can_be_appended():
    one_row = FRAME.drop_duplicates("question_id")
    folds = deal(one_row, context=())
    assert folds == {place: EXPECTED[place] for place in range(len(one_row))}
    assert len(one_row) == 1200
    first = deal(one_row.head(1000), context=())
    assert first == {place: folds[place] for place in range(1000)}


def test_contexts_that_share_a_text_share_the_fold_of_the_smallest_number():
    text = "text " + (FRAME["question_id"] // 3).astype(str)
    frame, formula = FRAME.assign(prompt=text), "winner ~ text(prompt, 2) | model_a + model_b"
    folds = pd.Series(deal(frame, formula=formula))
    firsts = frame[frame["question_id"] % 3 == 0]
    np.testing.assert_array_equal(folds.to_numpy(), np.repeat(pd.Series(deal(firsts)).to_numpy(), 3)[: len(folds)])


def test_folds_that_nothing_uses_cost_no_hashes_of_texts():
    data = preferences_of(take_rows(FORMULA, FRAME, ENVIRONMENT, Options.of(in_objects({"context": "question_id"}))))
    units = fold_units(data, None, n_folds=5, are_used=False)
    np.testing.assert_array_equal(units.identity, data.seed_order)

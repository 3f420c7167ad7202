"""The user's frame is read once in a fit: rows that come in another order the next time change nothing."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError
from dmlrank.options import in_objects

from ..support import optional

duckdb = optional("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")

FORMULA = "winner ~ C(category) + length | model_a + model_b"
OPTIONS = {"context": "question_id", "n_folds": 2, "rng": 0, "min_labels": 1}


def constant_shares(features, labels, weights, rng):
    """A learner that predicts the labels' shares, whatever the order of the rows."""
    shares = np.bincount(labels, weights, minlength=labels.max() + 1) / weights.sum()
    return lambda rows: np.tile(shares, (len(rows), 1))


@pytest.fixture(scope="module")
def battles():
    frame = dr.datasets.simulate_arena(n=400, no_vote=0.0, rng=0)
    rng = np.random.default_rng(1)
    frame["verdict"] = np.where(rng.random(400) < 0.7, frame["winner"], "tie")
    frame.loc[frame.index % 3 == 0, "winner"] = None
    frame["site"] = rng.choice([f"s{i}" for i in range(40)], 400)
    frame["hardness"] = frame["category"].map({name: i % 2 for i, name in enumerate(sorted(set(frame["category"])))})
    return frame


@pytest.fixture
def restless(battles):
    """A query without an order of its own: its rows come otherwise at every reading."""
    with duckdb.connect() as connection:
        relation = connection.from_df(battles).query("t", "SELECT * FROM t ORDER BY random()")
        first, second = (relation.to_arrow_table()["question_id"].to_pylist() for _ in range(2))
        assert first != second
        yield relation


def test_groups_of_a_feature_are_those_of_the_fit(battles, restless):
    given = OPTIONS | {"learner": constant_shares, "propensity": "marginal"}
    expected, found = (dr.dml_rank(FORMULA, data, **in_objects(given)).by("category") for data in (battles, restless))
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-8)
    expected, found = (dr.dml_rank(FORMULA, data, **in_objects(given)).by("~ length") for data in (battles, restless))
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6)


def test_a_later_reading_of_other_rows_is_refused(battles, restless):
    result = dr.dml_rank(
        FORMULA, restless, **in_objects({"learner": constant_shares, "propensity": "marginal", **OPTIONS})
    )
    for later in (lambda: result.by("hardness"), lambda: result.update(judge="verdict")):
        with pytest.raises(DataError):
            later()


def test_a_later_reading_of_the_same_rows_is_joined(battles):
    given = OPTIONS | {"learner": constant_shares, "propensity": "marginal"}
    result = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, **in_objects(given))
    assert result.by("hardness").groups == ["0", "1"]
    result = dr.dml_rank(FORMULA, battles, **in_objects(given))
    later, at_once = (
        result.update(judge="verdict"),
        dr.dml_rank(FORMULA, battles, **in_objects({"judge": "verdict", **given})),
    )
    np.testing.assert_array_equal(later.params, at_once.params)
    assert later.steps.data is result.steps.data


def test_a_check_reads_probabilities_and_unsteady_rows(battles, restless):
    expected, found = (
        dr.check(FORMULA, data, context="question_id", pairs=dr.Pairs(min_labels=1)) for data in (battles, restless)
    )
    pd.testing.assert_frame_equal(found.labels.sort_index(), expected.labels.sort_index())
    share = np.random.default_rng(0).uniform(size=len(battles))
    soft = battles.assign(p_a=share, p_b=1 - share)
    shown = dr.check("p_a + p_b ~ 1 | model_a + model_b", soft, context="question_id")
    assert shown.labels["read_as"].to_dict() == {"p_a": "first", "p_b": "second"}

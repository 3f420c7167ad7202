"""Results that earlier releases have stored are read, and say what they said then."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import dmlrank as dr

STORED = pathlib.Path(__file__).parents[1] / "stored_results"
FILES = sorted(path for path in STORED.glob("*/*.json") if path.name != "expected.json")


def test_there_are_stored_results():
    assert len(FILES) >= 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_results_of_earlier_releases_say_what_they_said(path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    result = dr.read_json(path)
    intervals = result.conf_int()
    assert list(result.params.index) == expected["models"]
    np.testing.assert_array_equal(result.params, expected["params"])
    np.testing.assert_allclose(result.bse, expected["bse"], rtol=1e-12)
    # Critical values come from draws of the normal distribution, whose last bits depend on the linear algebra.
    np.testing.assert_allclose(intervals["lower"], expected["lower"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(intervals["upper"], expected["upper"], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(result.ranks().result_frame[["lower", "upper"]], expected["rank_sets"])
    assert "95" in result.summary().as_text()


def test_a_result_says_by_which_version_it_was_made():
    """The version of the code that runs, whatever version of the package is installed elsewhere."""
    battles = dr.datasets.simulate_arena(n=300, rng=0)
    res = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, estimator="bt_mle", context="question_id", rng=0)
    assert res.estimates.description.version == dr.__version__
    assert dr.read_json(res.to_json()).estimates.description.version == dr.__version__


def test_entries_that_later_versions_add_have_a_default():
    """A file of an earlier release lacks entries that were added later; one entry less is read as its default."""
    path = STORED / "0.1.0" / "bt.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["estimates"].pop("sequence", "missing") is None
    assert dr.read_json(json.dumps(content)).params.equals(dr.read_json(path).params)

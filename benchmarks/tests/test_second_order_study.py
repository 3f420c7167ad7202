"""The study of curved scores: a small replication, and what the table makes of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("second_order", "scenarios", "coverage", "curved")


def test_a_replication_compares_fits_of_one_data_set(study, monkeypatch):
    small = study.Scenario("small", dr.datasets.Bt(coefficients=2, n_items=3), 600)
    monkeypatch.setattr(study.curved, "scenarios", lambda: {"small": small})
    rows = pd.DataFrame(study.replicate("curved", "small", 0))
    table = rows.astype(dict.fromkeys(study.COLUMNS[5:], float))
    assert list(table["estimate"]) == ["removed", "left in"] * 2
    error = table.pivot(index="functional", columns="estimate", values="error_top")
    change = table[table["estimate"] == "removed"].set_index("functional")["change_top"]
    np.testing.assert_allclose(error["removed"] - error["left in"], change.loc[error.index], rtol=0.02, atol=1e-4)
    row = study.summarise(table).set_index("functional").loc["copeland"]
    assert row["n"] == 1
    assert float(row["width ratio"]) >= 1

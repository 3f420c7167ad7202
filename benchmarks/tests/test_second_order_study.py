"""The study of curved scores: a small replication, and what the table makes of its rows."""

from __future__ import annotations

import curved
import numpy as np
import pandas as pd
import pytest
import second_order
from scenarios import Scenario

import dmlrank as dr


@pytest.mark.long
def test_a_replication_compares_fits_of_one_data_set(monkeypatch):
    small = Scenario("small", dr.datasets.Bt(coefficients=2, n_items=3), 600)
    monkeypatch.setattr(curved, "scenarios", lambda: {"small": small})
    rows = pd.DataFrame(second_order.replicate("curved", "small", 0))
    table = rows.astype(dict.fromkeys(second_order.COLUMNS[5:], float))
    assert list(table["estimate"]) == ["removed", "left in"] * 2
    error = table.pivot(index="functional", columns="estimate", values="error_top")
    change = table[table["estimate"] == "removed"].set_index("functional")["change_top"]
    np.testing.assert_allclose(error["removed"] - error["left in"], change.loc[error.index], rtol=0.02, atol=1e-4)
    row = second_order.summarise(table).set_index("functional").loc["copeland"]
    assert row["n"] == 1
    assert float(row["width ratio"]) >= 1

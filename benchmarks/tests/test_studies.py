"""Every study in a small version: it runs, and its tables have the columns of those in docs/results."""

from __future__ import annotations

import os
import re

import pandas as pd
import pytest

from benchmarks.studies import runner


@pytest.mark.parametrize("name", runner.names())
def test_a_study_makes_the_tables_of_the_pages(name):
    study = runner.load(name)
    if name == "judge_arena" and not os.environ.get("DMLRANK_DATA"):
        pytest.skip("DMLRANK_DATA names no folder with real data")
    rows = [row for seed in range(2) for row in runner.replication(name, study.cells[0], seed, **study.small)]
    for title, table in study.tables(pd.DataFrame(rows)).items():
        assert len(table)
        path = runner.TABLES / f"{title}.csv"
        if path.exists():
            stored = pd.read_csv(path, header=None, nrows=1, keep_default_na=False)
            # Some columns name the number of runs.
            found, expected = (re.sub(r"\d+ runs", "runs", " | ".join(names)) for names in (table, stored.iloc[0]))
            assert found == expected


@pytest.mark.long
def test_curves_costs_and_ratios_of_runs_hold_jointly():
    rows = pd.DataFrame([row for seed in range(100) for row in runner.replication("runs", "few 4", seed)])
    assert rows.groupby("quantity")["holds"].mean().between(0.89, 1).all()
    assert rows["quantity"].nunique() == 4

"""The study of averages of preferences and of scores: its targets, and the rows that it adds."""

from __future__ import annotations

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def study(load_benchmark):
    return load_benchmark("averages", "scenarios", "coverage")


def test_the_study_of_averages_compares_each_fit_with_its_own_target(study):
    truth = study.truths("ties-5-300", 20_000)
    # Log-odds of mean preferences are closer together than means of log-odds.
    assert truth["bt", "preferences"].std() < truth["bt", "scores"].std()
    table = pd.DataFrame(study.replicate("ties-5-300", 0, truth_contexts=20_000))
    assert len(table) == 12
    assert tuple(table.columns) == study.COLUMNS
    table[["mse", "bias", "half_width", "second_order"]] = table[["mse", "bias", "half_width", "second_order"]].astype(
        float
    )
    # 300 prompts: errors are of the order of the intervals, not of another target's.
    assert (table["mse"] < (2 * table["half_width"]) ** 2).all()


def test_the_study_of_averages_adds_the_rows_that_its_table_lacks(study, monkeypatch, tmp_path):
    made = []

    def replicate(name, seed):
        made.append((name, seed))
        rest = dict.fromkeys(study.COLUMNS, 0)
        keys = [(functional, fit) for functional in study.FUNCTIONALS for fit in study._FITS]
        return [
            {**rest, "scenario": name, "seed": seed, "functional": f, "target": fit[2], "fit": f"{fit[0]}, {fit[1]}"}
            for f, fit in keys
        ]

    monkeypatch.setattr(study, "replicate", replicate)
    path = tmp_path / "averages.csv"
    study.run(["a", "b"], 2, path)
    whole = pd.read_csv(path)
    assert len(whole) == 2 * 2 * 12
    lacks = (whole["scenario"] == "b") & (whole["seed"] == 1) & whole["fit"].str.endswith(", preferences")
    whole[~lacks].to_csv(path, index=False)
    made.clear()
    study.run(["a", "b"], 2, path)
    assert made == [("b", 1)]
    again = pd.read_csv(path).sort_values(list(study._KEYS), ignore_index=True)
    pd.testing.assert_frame_equal(again, whole.sort_values(list(study._KEYS), ignore_index=True))

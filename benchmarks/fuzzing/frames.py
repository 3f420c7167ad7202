"""Frames with odd cells, types, names and indexes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .answers import check_result
from .arenas import draw_arena
from .draws import Generator, choice
from .watch import Watch

LABELS = {
    "sides": ["model_a", "model_b"],
    "ties": ["A", "B", "tie"],
    "buttons": ["model_a", "model_b", "tie", "tie (bothbad)"],
    "five": ["first", "second", "both_good", "both_bad", "Draw"],
    "numbers": [1, 0],
    "booleans": [True, False],
    "floats": [1.0, 0.0, 0.5],
    "odd": ["model_a", "?", ""],
    "preferences": [0.25, 0.7, 1.0, 0.0],
    "percentages": [37.5, 80, 0.5],
    "one": ["model_a"],
}
FEATURES = ["1", "0", "x", "x + g", "C(g)", "center(x)", "np.abs(x) + g:x", "e", "Q('odd name')", "0 + g", "t", "b * x"]
OPTIONS = {
    "missing": ["raise", "drop", "keep"],
    "functional": ["borda", "bt", "rank_centrality"],
    "context": [None, "q", ["q", "g"], "x"],
    "propensity": ["marginal", "estimate", "p"],
    "graph": ["observed", "complete"],
    "component": ["all", "largest"],
    "edge_weights": ["equal", "counts"],
    "category_weights": ["half", "paper"],
    "categories": [None, {0.5: "tie", "?": "tie", "": "both_bad"}],
    "tune": [{"n_estimators": 2, "num_leaves": 3, "min_data_in_leaf": 3}],
    "min_labels": [1, 1, 2],
    "n_folds": [2, 3],
}


def random_dtype(rng: Generator, column: pd.Series) -> pd.Series:
    dtype = choice(rng, [object, "category", "category", "string", "Int64", "Float64", float, "float32"])
    try:
        with np.errstate(all="ignore"):
            return column.astype(dtype)
    except (TypeError, ValueError):
        return column


def random_frame(rng: Generator) -> pd.DataFrame:
    frame = draw_arena(rng, n_votes=int(rng.integers(1, 120)), n_models=int(rng.integers(2, 6))).frame
    frame = frame.rename(columns={"model_a": "first", "model_b": "second", "prompt": "q"})
    n, prompt, labels = len(frame), frame["q"].str[1:].astype(int), choice(rng, [*LABELS.values(), None])
    if labels is not None:
        frame["winner"] = pd.Series([choice(rng, labels) for _ in range(n)], dtype=object).infer_objects()
    frame["x"] *= choice(rng, [1.0, 1e300, 0.0])
    frame["e"] = list(np.stack([frame["x"], prompt], axis=1))
    frame["odd name"], frame["t"], frame["b"] = prompt, "prompt number " + frame["q"], prompt % 2 == 0
    frame["p_tie"], frame["p_a"] = (prompt % 3) / 4, (prompt % 5) / 8
    frame["p_b"] = 1 - frame["p_tie"] - frame["p_a"]
    frame["p"] = rng.choice([0.1, 0.5, 1.0, 1.0, -1.0], size=n, p=[0.3, 0.3, 0.2, 0.19, 0.01])
    for name in frame.columns:
        if rng.random() < 0.2:
            frame[name] = random_dtype(rng, frame[name])
        if rng.random() < 0.06:
            frame[name] = frame[name].mask(rng.random(n) < choice(rng, [0.02, 0.3, 1.0]))
    frame.index = pd.Index(choice(rng, [range(n), rng.integers(5, size=n), [f"row {i}" for i in range(n)]]))
    if rng.random() < 0.1:
        # Earlier versions of pandas warn of NaN while they look for whole numbers.
        with np.errstate(invalid="ignore"):
            return frame.convert_dtypes()
    return frame


def random_call(rng: Generator) -> tuple[str, dict[str, Any]]:
    outcome = choice(rng, ["winner", "winner", "winner", "winner", "p_a + p_b + p_tie", "p_b + p_a", "p_a"])
    formula = f"{outcome} ~ {choice(rng, FEATURES)} | first + second"
    changed = [name for name in OPTIONS if rng.random() < 0.4 or name in ("tune", "min_labels", "n_folds")]
    return formula, {"propensity": "marginal", "rng": 0, "n_jobs": 1} | {n: choice(rng, OPTIONS[n]) for n in changed}


def odd_frames(rng: Generator, watch: Watch, folder: str) -> None:
    """Fit odd frames with odd options; the frame stays as it was, and the counts are those of its rows."""
    frame, (formula, options) = random_frame(rng), random_call(rng)
    before = frame.copy(deep=True)
    results = watch.ask("dml_rank", dr.dml_rank, formula, frame, **in_objects(options))
    pd.testing.assert_frame_equal(frame, before)
    if results is not None:
        check_result(watch, results)
        watch.require(results.nobs <= len(frame), "nobs", f"{results.nobs} of {len(frame)} rows")

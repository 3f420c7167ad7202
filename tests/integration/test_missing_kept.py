"""``missing="keep"``: missing numbers, categories, texts and vectors reach LightGBM as NaN, in new prompts too."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

QUICK = {"tune": {"n_estimators": 4, "num_leaves": 5, "min_data_in_leaf": 5}, "n_folds": 2, "functional": "bt"}
PARTS = {
    "x": lambda d: [d["x"]],
    "code": lambda d: [d["code"]],
    "place": lambda d: [d["place"]],
    "topic": lambda d: [_dummy(d["topic"], level) for level in ("math", "poems")],
    "C(place)": lambda d: [_dummy(d["place"], level) for level in (1.0, 2.0)],
    "e": lambda d: [d["e"].str[0], d["e"].str[1]],
    "np.exp(x)": lambda d: [np.exp(d["x"])],
    "x:code": lambda d: [d["x"] * d["code"]],
    "np.isnan(x)": lambda d: [d["x"].isna()],
}


def _dummy(column, level):
    return (column == level).astype(float).where(column.notna())


@pytest.fixture(scope="module")
def battles(draw_battles):
    """Two votes on each of 150 prompts, every feature of every eighth prompt missing, the topic with the length."""
    frame = draw_battles(np.random.default_rng(4), 150, n_items=3, n_pairs=2).frame
    prompt = frame["prompt"].str[1:].astype(int)
    return frame.assign(
        x=frame["x0"].mask(prompt % 8 == 1),
        topic=pd.Series(np.array(["code", "math", "poems"])[prompt % 3], dtype=object).mask(prompt % 8 == 2, None),
        text=pd.Series([f"write {'a poem' if q % 2 else 'code'} number x{q}" for q in prompt]).mask(
            prompt % 8 == 3, None
        ),
        code=pd.Series(prompt % 2 == 0, dtype=object).mask(prompt % 8 == 4, None).astype("boolean"),
        place=(prompt % 3).astype("Int64").mask(prompt % 8 == 5),
        e=pd.Series([[float(q), float(q % 5)] for q in prompt]).mask(prompt % 8 == 6, None),
    )


@pytest.mark.parametrize("features", PARTS)
def test_missing_features_are_nan_to_the_learner(battles, rank, features):
    columns = pd.concat(
        [part.astype(float) for part in PARTS[features](battles.astype({"place": float, "code": float}))], axis=1
    )
    ready = battles.assign(features=columns.to_numpy().tolist())
    found = rank(battles, f"winner ~ {features} | model_a + model_b", missing="keep", **QUICK)
    expected = rank(ready, "winner ~ features | model_a + model_b", missing="keep", **QUICK)
    np.testing.assert_allclose(found.steps.data.x, expected.steps.data.x, rtol=0, atol=1e-15)
    assert np.isnan(found.steps.data.x).any() == (features != "np.isnan(x)")
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-12)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-12)


def test_everything_at_once(battles, rank):
    formula = "winner ~ x + topic + text(text, 3) + code + place + e | model_a + model_b"
    kept = rank(battles, formula, missing="keep", **QUICK)
    assert (kept.nobs, kept.estimates.description.n_dropped) == (150, 0)
    np.testing.assert_allclose(np.isnan(kept.steps.data.x).mean(axis=0), 1 / 8, atol=0.01)
    dropped = rank(battles, formula, missing="drop", **QUICK)
    assert dropped.nobs < 0.4 * 150
    with pytest.raises(dr.exceptions.MissingDataError, match="keep"):
        rank(battles, formula, **QUICK)
    pd.testing.assert_frame_equal(
        kept.predict(battles), rank(battles, formula, missing="keep", **QUICK).predict(battles)
    )
    assert np.isfinite(kept.predict(battles.assign(x=np.nan, topic=None, text=None, code=None, e=None))).all(axis=None)


def test_new_prompts_may_miss_what_the_fit_may(battles, rank):
    formula = "winner ~ x + code + topic | model_a + model_b"
    kept, dropped = (rank(battles, formula, missing=missing, **QUICK) for missing in ("keep", "drop"))
    complete = battles.dropna(subset=["x", "code", "topic"]).iloc[:9]
    for frame in (complete, complete.astype({"code": bool}), complete.assign(code=[True] * 4 + [None] * 5)):
        assert np.isfinite(kept.predict(frame)).all(axis=None)
    np.testing.assert_array_equal(kept.predict(complete), kept.predict(complete.astype({"code": bool})))
    assert np.isfinite(dropped.predict(complete)).all(axis=None)
    holes = complete.assign(x=[np.nan, *complete["x"][1:]], topic=[None, None, *complete["topic"][2:]])
    with pytest.raises(dr.exceptions.MissingDataError, match="topic"):
        dropped.predict(holes)


def test_transforms_of_patsy_that_know_no_missing_value_are_refused(battles, rank):
    with pytest.raises(dr.exceptions.MissingDataError, match="leave the function out"):
        rank(battles, "winner ~ center(x) | model_a + model_b", missing="keep", **QUICK)

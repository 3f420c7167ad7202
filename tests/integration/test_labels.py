"""Labels of the caller's pandas objects: aligned, or refused, and never passed over."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, OptionError
from dmlrank.options import in_objects

from ..support import FORMULA, optional, two_of

pl = optional("polars")
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Features are noise here


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    a, b = two_of(rng, 3, 300)
    names = np.array(["m0", "m1", "m2"])
    winner = rng.choice(["model_a", "model_b"], size=300, p=[0.6, 0.4])
    frame = pd.DataFrame({"winner": winner, "model_a": names[a], "model_b": names[b], "x": rng.normal(size=300)})
    return frame.assign(id=[f"q{i}" for i in range(300)])


def fit(data, formula=FORMULA, **options):
    settings = {"rng": 0, "min_labels": 1, "tune": None, "n_folds": 2, "propensity": "marginal"}
    return dr.dml_rank(formula, data, **in_objects(settings | options))


def test_a_series_in_the_formula_is_aligned_with_the_rows(data):
    shuffled = data.sample(frac=1, random_state=1)
    z = data["x"].copy()
    x = fit(shuffled, "winner ~ z | model_a + model_b", env={"z": z}).steps.data.x
    np.testing.assert_array_equal(x[:, 0], shuffled["x"])
    both = pd.DataFrame({"one": z, "two": -z})
    x = fit(shuffled, "winner ~ both | model_a + model_b", env={"both": both}).steps.data.x
    np.testing.assert_array_equal(x, both.loc[shuffled.index])


def test_a_series_with_other_labels_is_refused(data):
    other = data["x"].set_axis(data["id"])
    for frame in (data, pl.from_pandas(data)):
        with pytest.raises(DataError):
            fit(frame, "winner ~ z | model_a + model_b", env={"z": other})
    x = fit(data, "winner ~ z | model_a + model_b", env={"z": other.to_numpy()}).steps.data.x
    np.testing.assert_array_equal(x[:, 0], data["x"])


@pytest.mark.parametrize("context", ["id", None])
def test_weights_are_those_of_their_labels(data, context):
    frame = data if context else data.set_axis(data["id"])
    weights = pd.Series(np.where(np.arange(300) < 150, 1.0, 5.0), index=data["id"])
    expected = fit(frame, context=context, weights=weights.to_numpy()).params
    for given in (weights, weights[::-1], pd.concat([weights, pd.Series([7.0], ["further"])])):
        pd.testing.assert_series_equal(fit(frame, context=context, weights=given).params, expected)
    with pytest.raises(DataError):
        fit(frame, context=context, weights=weights.reset_index(drop=True))


def test_frames_about_pairs_are_read_by_name(data):
    names, order = ["m0", "m1", "m2"], ["m2", "m0", "m1"]
    weights = pd.DataFrame([[0, 1, 9], [1, 0, 1], [9, 1, 0.0]], names, names)
    graph = pd.DataFrame([[False, True, True], [True, False, False], [True, False, False]], names, names)
    expected = fit(data, functional="bt", edge_weights=weights.to_numpy()).params
    one = fit(data, functional="bt", graph=graph.to_numpy()).params
    pd.testing.assert_series_equal(fit(data, functional="bt", edge_weights=weights.loc[order, order]).params, expected)
    pd.testing.assert_series_equal(fit(data, functional="bt", graph=graph.loc[order, order]).params, one)
    with pytest.raises(OptionError):
        fit(data, functional="bt", edge_weights=pd.DataFrame(weights.to_numpy()))


def test_a_plan_reads_labels_too():
    ties = dr.datasets.Ties()
    mu, names = ties.mu(ties.features(40, rng=0)), list(ties.models)
    turned = names[::-1]
    ids = [f"q{i}" for i in range(40)]
    weights = pd.Series(np.arange(40) + 1.0, ids)
    edges = pd.DataFrame(1.0 + np.add.outer(np.arange(len(names)), np.arange(len(names))), names, names)
    plans = [
        dr.design(mu, "bt", budget=60, models=names, contexts=ids, weights=w, edge_weights=e)
        for w, e in ((weights.to_numpy(), edges.to_numpy()), (weights[::-1], edges.loc[turned, turned]))
    ]
    np.testing.assert_allclose(plans[0].propensity, plans[1].propensity, atol=1e-9)

"""Supplied propensities: arrays, columns, functions and plans; features of an estimated one; the mean of S / pi."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.columns import Columns
from dmlrank.data.graph import Graph
from dmlrank.exceptions import NuisanceError
from dmlrank.nuisance.propensity import Propensity, TabulatedPairPropensity
from dmlrank.nuisance.supplied_propensity import column_propensity, mean_weight, supplied_propensity

FORMULA = "winner ~ x0 | model_a + model_b"
QUICK = {"n_estimators": 40, "num_leaves": 6, "min_data_in_leaf": 5}


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 90, n_pairs=2, unlabelled=6)


def fit(battles, rank, propensity, **options):
    return rank(battles.frame, mu=battles.mu, propensity=propensity, **options)


def test_a_function_gets_a_row_per_context_and_the_models(battles, rank):
    calls = []

    def policy(contexts, models):
        calls.append((contexts, models))
        return battles.propensity

    result = fit(battles, rank, policy)
    np.testing.assert_array_equal(result.params, fit(battles, rank, battles.propensity).params)
    contexts, models = calls[0]
    assert models == ["m0", "m1", "m2", "m3"]
    assert contexts["prompt"].tolist() == battles.frame["prompt"].unique().tolist()
    first = battles.frame.groupby("prompt", sort=False)[["x0", "topic"]].first().reset_index(drop=True)
    pd.testing.assert_frame_equal(contexts[["x0", "topic"]], first, check_dtype=False)
    assert len(calls) == 1


def test_a_plan_is_matched_by_name(battles, rank):
    rng = np.random.default_rng(1)
    items, prompts = rng.permutation(4), rng.permutation(90)
    shuffled = SimpleNamespace(
        propensity=battles.propensity[prompts][:, items][:, :, items],
        models=[f"m{j}" for j in items],
        contexts=battles.frame["prompt"].unique()[prompts],
    )
    np.testing.assert_array_equal(fit(battles, rank, shuffled).params, fit(battles, rank, battles.propensity).params)


@pytest.mark.parametrize(
    "propensity",
    [
        lambda contexts, models: np.ones((3, 2, 2)),
        SimpleNamespace(propensity=np.ones((90, 4, 4)), models=["m0", "m1", "m2", "mx"]),
        SimpleNamespace(propensity=np.ones((90, 4, 4)), contexts=list(range(90))),
        SimpleNamespace(propensity=np.ones((90, 4))),
        3.5,
    ],
)
def test_values_that_cannot_be_propensities_are_refused(battles, rank, propensity):
    with pytest.raises(dr.DmlrankError):
        fit(battles, rank, propensity)


def selected_on(n, seed):
    """Battles in which a score outside the formula decides which pair is shown."""
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 2, size=n)
    pairs = np.array([(j, k) for j in range(3) for k in range(3) if j != k])
    chance = np.where((pairs == 0).any(axis=1), 3.0, 1.0)[None] ** score[:, None]
    chance = chance / chance.sum(axis=1, keepdims=True)
    drawn = pairs[[rng.choice(6, p=p) for p in chance]]
    winner = np.where(rng.uniform(size=n) < 0.5, "model_a", "model_b")
    frame = pd.DataFrame({"winner": winner, "x0": rng.normal(size=n), "score": score, "prompt": np.arange(n)})
    frame[["model_a", "model_b"]] = np.char.add("m", drawn.astype(str))
    return frame, chance[np.arange(n), [int(np.flatnonzero((pairs == d).all(axis=1))[0]) for d in drawn]]


def test_a_formula_for_the_propensity_works_without_features_for_the_preferences(rank):
    frame, truth = selected_on(1500, seed=3)
    result = rank(frame, "winner ~ 1 | model_a + model_b", tune=QUICK, propensity="~ C(score)")
    assert np.corrcoef(result.steps.first.propensity.cells, truth)[0, 1] > 0.9


@pytest.mark.parametrize("formula", ["~", "~ score | model_a + model_b", "~ scoer"])
def test_formulas_that_cannot_be_read_are_refused(rank, formula):
    frame, _ = selected_on(60, seed=4)
    with pytest.raises(dr.DmlrankError):
        rank(frame, FORMULA, propensity=formula)


def test_columns_that_vary_within_a_prompt_or_have_missing_values_are_refused(rank):
    frame, _ = selected_on(60, seed=5)
    twice = pd.concat([frame, frame.assign(score=1 - frame["score"])])
    with pytest.raises(dr.DmlrankError, match="score"):
        rank(twice, FORMULA, propensity="~ score")
    frame.loc[3, "score"] = np.nan
    with pytest.raises(dr.DmlrankError, match="score"):
        rank(frame, FORMULA, propensity="~ score")


def test_prompts_without_a_vote_have_propensity_features(rank):
    frame, _ = selected_on(400, seed=6)
    further = frame.loc[:99, ["x0", "score"]].assign(prompt=np.arange(1000, 1100))
    frames = []

    def policy(contexts, models):
        frames.append(contexts)
        return np.full((len(contexts), len(models), len(models)), 1 / 6)

    all_prompts = pd.concat([frame, further], ignore_index=True)
    rank(all_prompts, FORMULA, mu=None, tune=QUICK, propensity=policy)
    assert frames[0]["score"].tolist() == all_prompts["score"].tolist()


@pytest.fixture
def triangle(make_data):
    columns = {"shown": [0.1, 0.1, 0.4, 1.0]}
    return make_data([0, 0, 1, 2], [0, 0, 1, 2], [1, 1, 2, 0], [0, 1, 0, 1], n_items=3, n_categories=2, columns=columns)


def test_given_arrays_are_used_unchanged(triangle):
    values = np.random.default_rng(0).uniform(0.01, 1, size=(3, 3, 3))
    given = supplied_propensity(triangle, values, Graph.all_pairs(3))
    np.testing.assert_array_equal(given.cells, values[[0, 1, 2], [0, 1, 2], [1, 2, 0]])
    assert (given.how, given.n_floored) == ("given", 0)


def test_pairs_that_are_neither_ranked_nor_labelled_need_no_propensity(make_data):
    data = make_data([0, 1], [0, 1], [1, 2], [0, 1], n_items=3, n_categories=2)
    values = np.full((2, 3, 3), 0.5)
    values[:, 0, 2] = values[:, 2, 0] = np.nan
    assert supplied_propensity(data, values, Graph.of([(0, 1), (1, 2)], 3)).cells.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("wrong", [0.0, np.nan, 1.5, -0.1])
def test_given_arrays_that_are_no_propensities_are_refused(triangle, wrong):
    values = np.full((3, 3, 3), 0.5)
    values[1, 0, 2] = wrong
    with pytest.raises(NuisanceError):
        supplied_propensity(triangle, values, Graph.all_pairs(3))
    values[1, 0, 2], values[1, 1, 2] = 0.5, wrong
    with pytest.raises(NuisanceError):
        supplied_propensity(triangle, values, Graph.of([(0, 1), (0, 2)], 3))


def test_columns_are_used_unchanged(triangle):
    assert column_propensity(triangle, "shown").cells.tolist() == [0.1, 0.4, 1.0]


@pytest.mark.parametrize(
    "values", [[0.1, 0.2, 0.4, 1.0], [0.1, 0.1, 0.0, 1.0], [0.1, 0.1, np.nan, 1.0], ["a", "b", "c", "d"]]
)
def test_columns_that_are_no_propensities_are_refused(triangle, values):
    data = replace(triangle, columns=Columns(("shown",), pd.DataFrame({"shown": values})))
    with pytest.raises(NuisanceError):
        column_propensity(data, "shown")


def draw(rng, n=800, n_items=5, rate=0.03, spread=0.5, one_pair=False):
    """Propensities and labels."""
    pi = rate * np.exp(rng.normal(0, 0.6, (n_items, n_items)) + spread * rng.normal(size=(n, 1, 1)))
    pi = np.minimum(pi, 0.9) * ~np.eye(n_items, dtype=bool)
    if not one_pair:
        return pi, rng.random(pi.shape) < pi
    pi /= np.maximum(pi.sum(axis=(1, 2), keepdims=True), 1)
    flat = np.cumsum(pi.reshape(n, -1), axis=1)
    chosen = (rng.random((n, 1)) > flat).sum(axis=1)
    return pi, (np.arange(n_items**2) == chosen[:, None]).reshape(pi.shape)


def weigh(supplied, shown, table, unit=None):
    context, first, second = np.nonzero(shown)
    cells = SimpleNamespace(context=context, first=first, second=second, count=np.ones(len(context)))
    data = SimpleNamespace(cells=cells, n_items=supplied.shape[1], n_contexts=len(supplied), copies=None)
    propensity = Propensity(
        supplied[context, first, second], "given", pairs=TabulatedPairPropensity(supplied) if table else None
    )
    return mean_weight(data, propensity, np.arange(len(supplied)) if unit is None else unit)


def is_implausible(factor, z):
    return not 0.67 <= factor <= 1.25 and abs(z) > 3.9


def test_the_factor_is_labels_by_what_is_expected():
    pi, shown = draw(np.random.default_rng(0), spread=0.0)
    has_labels = shown.any(axis=0)
    expected = shown.sum() / pi.sum(axis=0)[has_labels].sum()
    assert weigh(pi, shown, table=True)[0] == pytest.approx(expected, rel=1e-12)
    # Where they are known at the labels only, it is estimated.
    assert weigh(pi, shown, table=False)[0] == pytest.approx(expected, rel=0.1)
    # A table that has them at the labels only says no more.
    pi, shown = draw(np.random.default_rng(0), n=3000)
    assert weigh(np.where(shown, pi, 0.0), shown, table=True) == weigh(pi, shown, table=False)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("one_pair", [True, False])
def test_right_propensities_give_no_alarm(table, one_pair):
    rng = np.random.default_rng(1)
    found = np.array([weigh(*draw(rng, one_pair=one_pair), table=table) for _ in range(150)])
    assert not any(is_implausible(factor, z) for factor, _, z in found)
    assert abs(found[:, 2].mean()) < 0.5
    assert 0.3 < found[:, 2].std() < 1.3


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("factor", [10.0, 2.0, 0.5])
def test_wrong_propensities_are_found_with_their_factor(table, factor):
    pi, shown = draw(np.random.default_rng(2), n=1500)
    found, _, z = weigh(pi / factor, shown, table)
    assert is_implausible(found, z)
    assert found == pytest.approx(factor, rel=0.15)


def test_prompts_that_come_in_clusters_give_larger_standard_errors():
    pi, shown = draw(np.random.default_rng(4), n=300)
    again = (np.repeat(pi, 4, axis=0), np.repeat(shown, 4, axis=0))
    unit = np.repeat(np.arange(300), 4)
    for table in (True, False):
        (_, alone, _), (_, clustered, _) = weigh(*again, table), weigh(*again, table, unit)
        assert clustered > 1.5 * alone

"""Fits of a functional of one's own: the numbers of the built-in ones, outputs with names, and what has no answer."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.outcomes import in_other_order
from dmlrank.exceptions import (
    DataNotStoredError,
    GraphError,
    OptionError,
    OptionTypeError,
    StorageError,
    UnknownModelError,
)
from dmlrank.functionals import (
    Borda,
    BradleyTerry,
    CategoryWeights,
    Custom,
    Dominance,
    Functional,
    RankCentrality,
    SoftMin,
)
from dmlrank.options import in_objects

HALF = CategoryWeights.half(3)
WINS = CategoryWeights.half(2)
BUILT_IN = {
    "borda": (Borda(WINS), {"interior": False, "linear": True, "fixed": "ones"}),
    "bt": (BradleyTerry(WINS), {"fixed": "ones"}),
    "rank_centrality": (RankCentrality(WINS, walk="rate"), {"fixed": "ones"}),
    "dominance": (Dominance(WINS), {"interior": False}),
    "softmin": (SoftMin(WINS), {"interior": False}),
}

# Propensities here are any numbers, so that what is checked is arithmetic.
pytestmark = pytest.mark.filterwarnings("ignore:the given propensities:dmlrank.exceptions.DmlrankWarning")


def top_gap(mu):
    """Gap in Borda scores of the first two models, and the chance of the first against the third."""
    share = HALF.symmetric(mu)
    score = share.sum(axis=2) / (mu.shape[1] - 1)
    return np.stack([score[:, 0] - score[:, 1], share[:, 0, 2]], axis=1)


class TopGap(Functional):
    """The same two numbers as a class."""

    name = "top_gap"
    interior = False
    linear = True

    def names(self, items):
        return ("gap", "m0 over m2")

    def value(self, mu):
        return top_gap(mu)


GAP = Custom(top_gap, outputs=("gap", "m0 over m2"), interior=False, linear=True)


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 300, n_pairs=4, unlabelled=10)


@pytest.fixture(scope="module")
def known(battles):
    return {"mu": battles.mu, "propensity": battles.propensity}


@pytest.mark.parametrize(("name", "position_bias"), [*((name, True) for name in BUILT_IN), ("bt", False)])
def test_a_copy_of_a_built_in_functional_gives_its_numbers(rank, draw_battles, name, position_bias):
    n_items, (built_in, options) = 8, BUILT_IN[name]
    drawn = draw_battles(np.random.default_rng(1), 40, n_items=n_items, n_categories=2, n_pairs=8)
    swapped = (0, 2, 1, 3)
    mu, pi = drawn.mu, drawn.propensity
    if not position_bias:
        mu, pi = (mu + mu.transpose(swapped)[..., ::-1]) / 2, pi + pi.transpose(0, 2, 1)
    given = {"mu": mu, "propensity": pi, "graph": "complete", "position_bias": position_bias}
    ready = {**options, "fixed": np.ones(n_items)} if "fixed" in options else options
    own = rank(drawn.frame, functional=Custom(built_in.value, **ready), **given)
    expected = rank(drawn.frame, functional=built_in, **given)
    np.testing.assert_allclose(own.params, expected.params, rtol=0, atol=1e-6 * expected.params.abs().max())
    spread = np.abs(expected.cov_params().to_numpy()).max()
    np.testing.assert_allclose(own.cov_params(), expected.cov_params(), rtol=0, atol=1e-6 * spread)
    np.testing.assert_array_equal(own.ranks().index, expected.ranks().index)
    assert own.models == expected.models


def test_outputs_stand_where_models_would(rank, battles, known):
    res = rank(battles.frame, functional=GAP, **known)
    names = ["gap", "m0 over m2"]
    assert res.names == res.params.index.tolist() == res.conf_int().index.tolist() == names
    assert res.models == ["m0", "m1", "m2", "m3"]
    assert res.cov_params().shape == (2, 2)
    assert res.influence.shape == (300, 2)
    assert res.tidy()["term"].tolist() == names
    assert res.predict().columns.tolist() == names
    assert res.t_test("gap").effect[0] == res.params["gap"]
    assert res.t_test("2*gap - m0 over m2 = 0.1").summary_frame().shape[0] == 1
    assert res.wald_test(["gap", "m0 over m2 = 0.5"]).df_denom == 2
    assert res.ellipsoid(models=names).contains(res.params)
    assert res.rescale(100).params["gap"] == pytest.approx(100 * res.params["gap"])
    assert 0 < res.win_probability("m0", "m1").estimate < 1
    np.testing.assert_allclose(res.tvalues, res.params / res.bse)


def test_a_gap_is_the_difference_of_the_scores(rank, battles, known):
    res, borda = rank(battles.frame, functional=GAP, **known), rank(battles.frame, **known)
    test = borda.t_test("m0 - m1")
    np.testing.assert_allclose([res.params["gap"], res.bse["gap"]], [test.effect[0], test.sd.item()], rtol=1e-8)
    share = borda.win_probability("m0", "m2")
    assert res.params["m0 over m2"] == pytest.approx(share.estimate, rel=1e-9)


@pytest.mark.parametrize("question", ["ranks", "t_test_pairwise", "best_set"])
def test_outputs_have_no_order(rank, battles, known, question):
    res = rank(battles.frame, functional=GAP, **known)
    with pytest.raises(OptionError, match=question):
        getattr(res, question)()


def test_outputs_have_no_groups_and_no_place_beside_models(rank, battles, known):
    res = rank(battles.frame, functional=GAP, **known)
    with pytest.raises(OptionError):
        dr.compare(res, res.update(functional="borda"))
    with pytest.raises(OptionError):
        res.by("topic")
    with pytest.raises(OptionError):
        res.by("~ x0")


@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("position_bias", [True, False])
def test_plans_do_not_depend_on_how_a_functional_is_written(rank, battles, criterion, position_bias):
    table, pi, options = battles.mu, battles.propensity, {"budget": 200, "criterion": criterion}
    if not position_bias:
        table, pi = (table + in_other_order(table)) / 2, pi + pi.transpose(0, 2, 1)
    function = rank(battles.frame, functional=GAP, mu=table, propensity=pi, position_bias=position_bias)
    plan = function.design(**options, from_scratch=True)
    direct = dr.design(table, GAP, **options, position_bias=position_bias, floor=0)
    np.testing.assert_allclose(plan.objective, direct.objective, rtol=1e-6)
    for functional in (TopGap(), Custom(lambda mu: top_gap(mu)[:, 0], interior=False, linear=True)):
        own = function.update(functional=functional)
        plans = [own.design(**options, from_scratch=new) for new in (False, True)]
        direct = dr.design(table, functional, **options, position_bias=position_bias, floor=0)
        assert plans[0].objective <= plans[1].objective
        np.testing.assert_allclose(plans[1].objective, direct.objective, rtol=1e-6)
        assert plans[0].summary().as_text()


def test_unknown_names_are_refused(rank, battles, known):
    res = rank(battles.frame, functional=GAP, **known)
    with pytest.raises(UnknownModelError, match="gap"):
        res.t_test("gpa")
    with pytest.raises(UnknownModelError):
        res.ellipsoid(models=["gap", "m0"])
    with pytest.raises(UnknownModelError, match="gap"):
        res.win_probability("gap", "m0")


def test_a_plain_function_is_taken_as_it_is(rank, battles, known):
    res = rank(battles.frame, functional=top_gap, **known)
    assert res.names == ["top_gap_1", "top_gap_2"]
    assert res.functional == "custom"
    res = res.update(functional=lambda mu: top_gap(mu)[:, 0])
    assert res.names == ["own function"]
    assert res.update(functional="bt").names == res.models


def test_singular_covariances_are_named(battles, known):
    shares = Custom(Borda(HALF).value, interior=False)
    options = known | {"context": "prompt", "min_labels": 1, "rng": 0}
    formula = "winner ~ 1 | model_a + model_b"
    with pytest.warns(dr.DmlrankWarning, match=r"always sum to 2; say fixed=\[np\.ones\(4\)\]"):
        res = dr.dml_rank(formula, battles.frame, **in_objects({"functional": shares, **options}))
    assert "may not hold" not in res.summary().as_text()
    with warnings.catch_warnings(record=True) as shown:
        again = res.update(alpha=0.1)
    assert not any("always sum" in str(one.message) for one in shown)
    assert any("always sum" in one for one in again.diagnostics.warnings)
    with pytest.raises(OptionError, match=r"1\*m0 .*always sum to 2; say fixed="):
        res.design(budget=100, criterion="D")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the given propensities do not fit", dr.DmlrankWarning)
        named = Custom(Borda(HALF).value, interior=False, fixed=np.ones(4))
        dr.dml_rank(formula, battles.frame, **in_objects({"functional": named, **options}))


def test_json_keeps_names_and_not_the_function(rank, battles, known):
    res = rank(battles.frame, functional=GAP, **known)
    back = dr.read_json(res.to_json())
    pd.testing.assert_series_equal(back.params, res.params)
    pd.testing.assert_frame_equal(back.conf_int(), res.conf_int())
    assert back.summary().as_text() == res.summary().as_text()
    with pytest.raises(DataNotStoredError):
        back.update(functional="borda")
    with pytest.raises(OptionError):
        back.ranks()
    text = res.to_json().replace('"m0 over m2"', '"gap"')
    with pytest.raises(StorageError, match="checksum"):
        dr.read_json(text)
    lambda_fit = rank(battles.frame, functional=lambda mu: mu[:, 0, 1, 0], **known)
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(lambda_fit)).params, lambda_fit.params)


def test_what_is_refused(rank, battles, known):
    taken = WinShare()
    taken.name = "bt"
    for options, words in (
        ({"functional": lambda mu: np.sort(HALF.symmetric(mu), axis=2)[:, :, 1]}, None),
        ({"functional": "min"}, "min"),
        ({"functional": GAP, "edge_weights": "counts"}, None),
        ({"functional": GAP, "estimator": "bt_restricted"}, "use functional='bt'"),
        ({"functional": taken}, "give its class another name"),
    ):
        with pytest.raises(OptionError, match=words):
            rank(battles.frame, **options, **known)
    with pytest.raises(OptionTypeError, match="borda"):
        rank(battles.frame, functional=3, **known)


def test_pairs_without_labels_may_not_be_used(rank, draw_battles):
    edges = np.zeros((4, 4), dtype=bool)
    edges[[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]] = True
    drawn = draw_battles(np.random.default_rng(3), 120, edges=edges, n_pairs=2)
    given = {"mu": drawn.mu, "propensity": drawn.propensity}
    with pytest.raises(GraphError, match="top_gap"):
        rank(drawn.frame, functional=top_gap, **given)
    assert len(rank(drawn.frame, functional=top_gap, graph="complete", **given).params) == 2


def test_the_categories_name_the_last_axis_of_mu():
    rng = np.random.default_rng(3)
    models = np.array(["a", "b", "c"])
    first = rng.integers(3, size=900)
    frame = pd.DataFrame({"first": models[first], "second": models[(first + rng.integers(1, 3, size=900)) % 3]})
    frame["vote"] = rng.choice(["draw", "bad", "L", "R"], p=[0.45, 0.3, 0.05, 0.2], size=900)
    meanings = {"draw": "tie", "bad": "both_bad", "L": "first", "R": "second"}
    options = {"categories": meanings, "position_bias": True, "rng": 0, "n_jobs": 1}
    res = dr.dml_rank("vote ~ 1 | first + second", frame, **in_objects(options))
    assert res.diagnostics.categories == ("first", "second", "both_bad", "tie")
    assert dr.read_json(res.to_json()).diagnostics.categories == res.diagnostics.categories
    options = {"outputs": list(res.diagnostics.categories), "interior": False, "linear": True, "fixed": [np.ones(4)]}
    shares = Custom(lambda mu: mu.sum(axis=(1, 2)) / 6, **options)
    label_shares = frame["vote"].map(meanings).value_counts(normalize=True)
    estimated = res.update(functional=shares).params
    np.testing.assert_allclose(estimated, label_shares[list(res.diagnostics.categories)], atol=0.03)


class WinShare(Functional):
    """Borda with nothing but its values."""

    name = "win_share"
    interior = False
    linear = True
    meaning = "A sentence about {n_models} models{opponents}"

    def value(self, mu):
        return self.category_weights.symmetric(mu).sum(axis=2) / (mu.shape[1] - 1)


@pytest.mark.filterwarnings("ignore:the covariance is numerically singular")
def test_classes_of_users_give_the_numbers_of_the_built_in_one(rank, battles, known):
    functional = WinShare()
    own, expected = (rank(battles.frame, functional=f, **known) for f in (functional, "borda"))
    np.testing.assert_allclose(own.params, expected.params, atol=1e-9)
    np.testing.assert_allclose(own.bse, expected.bse, rtol=1e-6)
    assert own.functional == functional.name
    assert functional.label in own.summary().as_text()
    own.design(budget=100)

"""Estimates without intervals: extrapolated scores and plug-ins say so wherever an interval or a test is asked for."""

import pickle

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import GraphError, IntervalWarning, NoIntervalError
from dmlrank.options import in_objects

from ..support import FORMULA, votes_of

MODELS = list("abcde")
RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]


def ring(n=600, seed=0, pairs=RING, one_order=()):
    """Votes on the pairs of a ring: five of ten pairs are never compared."""
    rng = np.random.default_rng(seed)
    pair = np.array(pairs)[np.arange(n) % len(pairs)]
    fixed = [tuple(p) in one_order for p in pair.tolist()]
    turned = (rng.random(n) < 0.5) & ~np.array(fixed)
    pair = np.where(turned[:, None], pair[:, ::-1], pair)
    strength = np.linspace(0.6, -0.6, 5)
    won = rng.random(n) < 1 / (1 + np.exp(strength[pair[:, 1]] - strength[pair[:, 0]]))
    return votes_of(MODELS, *pair.T, won, topic=np.where(rng.random(n) < 0.5, "x", "y"))


def fit(data, **options):
    return dr.dml_rank(FORMULA, data, **in_objects({"rng": 0, "n_jobs": 1, **({"functional": "bt"} | options)}))


@pytest.fixture(scope="module")
def extrapolated():
    with pytest.warns(dr.DmlrankWarning, match=r"5 of 10 pairs were never compared.*update\(graph='observed'\)"):
        return fit(ring(), graph="complete")


@pytest.fixture(scope="module")
def plugin():
    return fit(ring()).update(estimator="plugin")


QUESTIONS = {
    "conf_int": lambda r: r.conf_int(),
    "conf_int of another level": lambda r: r.conf_int(alpha=0.2, method="none"),
    "conf_int by bootstrap": lambda r: r.bootstrap("gaussian").conf_int(),
    "summary by bootstrap": lambda r: r.bootstrap("gaussian").summary(),
    "t_test": lambda r: r.t_test("a - b"),
    "wald_test": lambda r: r.wald_test("a = b = c"),
    "t_test_pairwise": lambda r: r.t_test_pairwise(),
    "ranks": lambda r: r.ranks(),
    "ranks each": lambda r: r.ranks(simultaneous=False),
    "best_set": lambda r: r.best_set(),
    "ellipsoid": lambda r: r.ellipsoid(models=["a", "b"]),
    "by": lambda r: r.by("topic"),
    "after a change of scale": lambda r: r.rescale("elo").conf_int(),
    "from JSON": lambda r: dr.read_json(r.to_json()).conf_int(),
    "from a pickle": lambda r: pickle.loads(pickle.dumps(r)).ranks(),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", ["extrapolated", "plugin"])
def test_what_needs_standard_errors_is_refused_with_what_has_some(request, kind, question):
    result = request.getfixturevalue(kind)
    found, valid = {
        "extrapolated": ("5 of 10 pairs were never compared", "update(graph='observed') has intervals"),
        "plugin": ("plug-in estimate is not debiased", "update(estimator='debiased') has intervals"),
    }[kind]
    with pytest.raises(NoIntervalError) as error:
        QUESTIONS[question](result)
    assert found in str(error.value)
    assert valid in str(error.value)


@pytest.mark.parametrize("kind", ["extrapolated", "plugin"])
def test_frames_have_scores_and_nothing_else(request, kind):
    result = request.getfixturevalue(kind)
    for values in (result.bse, result.tvalues, result.pvalues):
        assert values.isna().all()
    tidy = result.tidy().set_index("term")
    np.testing.assert_array_equal(tidy["estimate"], result.params)
    assert tidy.filter(regex="std_error|statistic|p_value|conf_low|conf_high").isna().all(axis=None)
    assert np.isfinite(result.cov_params()).all(axis=None)
    assert np.isfinite(result.influence).all()
    assert np.isnan(result.diagnostics.position_z)
    pytest.importorskip("matplotlib")
    assert "estimates without intervals" in result.plot().get_title()


def test_the_advice_has_intervals_and_the_pairs_are_counted(extrapolated):
    assert extrapolated.diagnostics.pairs_extrapolated == 5
    observed = extrapolated.update(graph="observed")
    assert observed.diagnostics.pairs_extrapolated == 0
    assert np.isfinite(observed.conf_int()).all(axis=None)
    assert observed.update(graph=dr.Graph.of(RING, 5)).estimates.has_intervals


def test_a_pair_in_one_display_order_only_is_extrapolated_where_order_matters():
    data = ring(one_order=[(0, 1)])
    with pytest.warns(dr.DmlrankWarning, match="1 of 5 pairs were compared in one display order only"):
        ordered = fit(data, graph=dr.Graph.of(RING, 5), position_bias=True)
    assert not ordered.estimates.has_intervals
    assert ordered.update(position_bias=False).estimates.has_intervals


def test_a_function_of_compared_pairs_alone_has_intervals_on_any_graph():
    def gap(mu):
        return mu[:, 0, 1, 0] - mu[:, 1, 0, 0]

    def other(mu):
        return mu[:, 0, 2, 0] - mu[:, 2, 0, 0]

    assert fit(ring(), functional=gap, graph="complete").estimates.has_intervals
    with pytest.warns(dr.DmlrankWarning, match="never compared"):
        assert not fit(ring(), functional=other, graph="complete").estimates.has_intervals


def test_plans_take_nothing_from_a_covariance_without_intervals(extrapolated):
    with pytest.warns(dr.DmlrankWarning, match="5 pairs were never compared: the plan rests on extrapolated"):
        plan = extrapolated.design(200)
    with pytest.warns(dr.DmlrankWarning, match="never compared"):
        alone = extrapolated.design(200, from_scratch=True)
    np.testing.assert_allclose(plan.std_errors, alone.std_errors)


def test_an_error_of_a_thin_pair_names_its_votes_and_what_answers():
    rng, names = np.random.default_rng(0), np.array(list("abc"))
    first, second = np.repeat([[0, 1], [1, 2], [0, 2]], [300, 300, 6], axis=0).T
    wins = rng.random(606) < np.array([0.6, 0.5, 0.4])[first]
    votes = pd.DataFrame({"model_a": names[first], "model_b": names[second]})
    votes["winner"] = np.where(wins, "model_a", "model_b")
    res = dr.dml_rank(FORMULA, votes, functional="bt", pairs=dr.Pairs(min_labels=10), position_bias=False)
    answer = r"6 labelled prompts .* t_test\(\('a', 'c'\)\) .*update\(min_labels=6\)"
    with pytest.raises(GraphError, match=answer):
        res.win_probability("a", "c")
    assert 0 < res.t_test(("a", "c")).pvalue < 1
    with pytest.warns(IntervalWarning, match="few prompts"):
        assert 0 < res.update(min_labels=6).win_probability("a", "c").estimate < 1
    none = dr.dml_rank(FORMULA, votes[:600], functional="bt", position_bias=False)
    with pytest.raises(GraphError, match="have no vote on each other"):
        none.win_probability("a", "c")


def test_a_share_of_two_that_were_never_compared_has_no_interval(extrapolated):
    assert extrapolated.win_probability("a", "b").std_error > 0
    with pytest.raises(NoIntervalError):
        extrapolated.win_probability("a", "c")

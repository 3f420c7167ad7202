"""Several criteria: joint covariance, weightings, intervals at all weightings, who can be first, the page, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm

import dmlrank as dr
from dmlrank.exceptions import DmlrankError, FormulaError, OptionError, OptionTypeError
from dmlrank.options import in_objects

from ..support import table_of_criteria

FORMULA = "right + style + safety ~ 1 | model"
WEIGHTS = {"right": 0.5, "style": 0.3, "safety": 0.2}


@pytest.fixture(scope="module")
def table():
    return table_of_criteria(300, np.random.default_rng(0))


def fit(table, formula=FORMULA, **options):
    return dr.dml_rank(formula, table, **in_objects({"context": "prompt", "rng": 0} | options))


@pytest.fixture(scope="module")
def fitted(table):
    return fit(table)


@pytest.mark.parametrize("options", [{}, {"cov_type": "cluster", "cov_kwds": {"groups": "suite"}}])
def test_a_weighting_is_the_fit_of_the_weighted_scores(table, options):
    table = table.assign(suite=table["prompt"] // 3)
    total = sum(weight * table[name] for name, weight in WEIGHTS.items())
    by_hand = fit(table.assign(total=total), "total ~ 1 | model", **options)
    found = fit(table, **options).weighted({name: 10 * weight for name, weight in WEIGHTS.items()})
    np.testing.assert_allclose(found.params, by_hand.params, rtol=1e-12)
    np.testing.assert_allclose(found.cov_params(), by_hand.cov_params(), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.conf_int(), by_hand.conf_int(), rtol=5e-3)
    assert "0.5 right + 0.3 style + 0.2 safety" in str(found.summary())
    assert found.verdict().startswith(by_hand.verdict()[:20])


def test_each_criterion_is_its_own_fit(table, fitted):
    for name, result in zip(fitted.names, fitted.results, strict=True):
        alone = fit(table, f"{name} ~ 1 | model")
        np.testing.assert_allclose(result.params, alone.params, rtol=1e-12)
        np.testing.assert_allclose(result.bse, alone.bse, rtol=1e-9)
        np.testing.assert_allclose(fitted.weighted({name: 2}).bse, alone.bse, rtol=1e-9)
    assert float(fitted.t_test("right: m1 - style: m1").sd[0]) > 0


def test_intervals_at_all_weights_are_scheffe_intervals(fitted):
    exact = fitted.at_weights(WEIGHTS)
    one = fitted.weighted(WEIGHTS)
    np.testing.assert_allclose(exact["std_error"], one.bse, rtol=1e-9)
    # Between one model's ellipsoid, and Bonferroni's correction for four of them.
    tails = [2 * norm.sf(np.sqrt(chi2.isf(alpha, 3))) for alpha in (0.05, 0.05 / 4 * 0.9)]
    ends = [one.conf_int(alpha=tail, method="none") for tail in tails]
    for end, sign in (("lower", -1), ("upper", 1)):
        assert (sign * exact[end] > sign * ends[0][end]).all()
        assert (sign * exact[end] < sign * ends[1][end]).all()
    # A model's interval at the worst weighting touches its ellipsoid.
    pd.testing.assert_frame_equal(exact, fitted.at_weights({name: 7 * w for name, w in WEIGHTS.items()}))


@pytest.mark.long
def test_who_can_be_first_by_brute_force(fitted):
    found = fitted.first_for_some_weighting()
    critical = fitted._critical(None, of_pairs=True)
    shown, possible = set(), set()
    for a in range(0, 101, 10):
        for b in range(0, 101 - a, 10):
            w = dict(zip(fitted.names, (a, b, 100 - a - b), strict=True))
            res = fitted.weighted(w)
            pairs = res.t_test_pairwise(method="none").result_frame
            ahead = dict.fromkeys(res.models, True)
            level = dict(ahead)
            for row in pairs.itertuples():
                half = critical * row.std_error
                for name, gap in ((row.first, row.estimate), (row.second, -row.estimate)):
                    ahead[name] &= gap > half
                    level[name] &= gap > -half
            shown |= {name for name in ahead if ahead[name]}
            possible |= {name for name in level if level[name]}
    # The grid of the method has smaller steps.
    assert shown <= set(found.index[found["shown"]])
    assert possible <= set(found.index[found["possible"]])
    assert (found["shown"] <= found["possible"]).all()
    np.testing.assert_allclose(found[list(fitted.names)].sum(axis=1), 1.0)


def test_bad_input_is_an_error(table, fitted):
    with pytest.raises(OptionError, match=r"no criterion 'stile'.*did you mean 'style'"):
        fitted.weighted({"stile": 1})
    with pytest.raises(OptionError, match="weight of 'style' is -1"):
        fitted.at_weights({"style": -1})
    with pytest.raises(OptionError, match="all weights are zero"):
        fitted.at_weights({"style": 0})
    with pytest.raises(OptionTypeError, match="allowed: a mapping"):
        fitted.weighted([1, 2, 3])
    with pytest.raises(FormulaError, match="named twice"):
        fit(table, "style + style ~ 1 | model")
    with pytest.raises(DmlrankError, match="styl"):
        fit(table, "styl + right ~ 1 | model")
    with pytest.raises(FormulaError, match="takes several as criteria"):
        dr.check(FORMULA, table, context="prompt")

"""Several criteria: joint covariance, weightings, errors."""

from __future__ import annotations

import numpy as np
import pytest

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
    assert " has a mean 0.5 right + 0.3 style + 0.2 safety of " in found.verdict()
    assert found.verdict().startswith(by_hand.verdict()[:20])


def test_each_criterion_is_its_own_fit(table, fitted):
    for name, result in zip(fitted.names, fitted.results, strict=True):
        alone = fit(table, f"{name} ~ 1 | model")
        np.testing.assert_allclose(result.params, alone.params, rtol=1e-12)
        np.testing.assert_allclose(result.bse, alone.bse, rtol=1e-9)
        np.testing.assert_allclose(fitted.weighted({name: 2}).bse, alone.bse, rtol=1e-9)
    assert float(fitted.t_test("right: m1 - style: m1").sd[0]) > 0


def test_bad_input_is_an_error(table, fitted):
    for weights, error, words in (
        ({"stile": 1}, OptionError, r"no criterion 'stile'.*did you mean 'style'"),
        ({"style": -1}, OptionError, "weight of 'style' is -1"),
        ({"style": 0}, OptionError, "all weights are zero"),
        ([1, 2, 3], OptionTypeError, "allowed: a mapping"),
    ):
        with pytest.raises(error, match=words):
            fitted.weighted(weights)
    with pytest.raises(FormulaError, match="named twice"):
        fit(table, "style + style ~ 1 | model")
    with pytest.raises(DmlrankError, match="styl"):
        fit(table, "styl + right ~ 1 | model")
    with pytest.raises(FormulaError, match="takes several as criteria"):
        dr.check(FORMULA, table, context="prompt")

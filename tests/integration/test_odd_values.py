"""Odd values of options and cells: errors of ours, or fits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataError, FormulaError, OutcomeError
from dmlrank.options import in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
OPTIONS = {"rng": 0, "min_labels": 1, "graph": "complete", "propensity": "marginal", "n_folds": 2}
HUGE = 10**400


@pytest.fixture
def battles():
    return dr.datasets.simulate_arena(n=300, rng=0)


def test_levels_that_lack_a_value_of_a_boolean(battles):
    with pytest.raises(FormulaError):
        dr.dml_rank("winner ~ C(length > 0, levels=[0]) | model_a + model_b", battles, **in_objects(OPTIONS))


def test_whole_numbers_that_no_float_holds(battles):
    battles["huge"] = battles["length"].astype(object)
    battles.loc[3, "huge"] = HUGE
    for options in ({"weights": "huge"}, {"propensity": "huge"}):
        with pytest.raises(DataError, match="huge"):
            dr.dml_rank(FORMULA, battles, **in_objects({**OPTIONS, **options}))
    battles["winner"] = np.array([0, 1] * 150, dtype=object)
    battles.loc[3, "winner"] = HUGE
    with pytest.raises(OutcomeError):
        dr.dml_rank(FORMULA, battles, **in_objects(OPTIONS))


@pytest.mark.parametrize("functional", ["softmin", "rank_centrality", "dominance"])
@pytest.mark.parametrize("estimator", ["bt_restricted", "bt_mle"])
def test_an_update_to_an_estimator_of_bradley_terry_after_another_functional(functional, estimator):
    battles = dr.datasets.simulate_bt(300, rng=0)
    options = {"min_labels": 1, "rng": 0, "context": "question_id"}
    first = dr.dml_rank(FORMULA, battles, **in_objects({"functional": functional, **options}))
    changed = first.update(estimator=estimator)
    assert changed.functional == "bt"
    new = {"rng": 0, "context": "question_id"} if estimator == "bt_mle" else options
    np.testing.assert_array_equal(
        changed.params, dr.dml_rank(FORMULA, battles, **in_objects({"estimator": estimator, **new})).params
    )
    np.testing.assert_array_equal(changed.update(estimator="debiased").params, first.params)


def test_few_clusters_do_not_matter_where_no_learner_uses_folds(battles):
    battles["topic"] = np.arange(300) % 3
    options = {**OPTIONS, "n_folds": 5, "cov_type": "cluster", "cov_kwds": {"groups": "topic"}}
    mu = np.full((300, 8, 8, 4), 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        given = dr.dml_rank(FORMULA, battles, **in_objects({"mu": mu, **options}))
        assert given.update(n_folds=2).params.equals(given.params)
    assert not any("n_folds" in message for message in given.diagnostics.warnings)


@pytest.mark.long
@pytest.mark.parametrize(("n_clusters", "propensity"), [(4, "estimate"), (3, "marginal")])
def test_there_are_as_many_folds_as_clusters_at_most(n_clusters, propensity, battles):
    battles["topic"] = np.arange(300) % n_clusters
    options = {"min_labels": 1, "graph": "complete", "propensity": propensity, "rng": 0, "tune": None, "n_jobs": 1}
    options |= {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dr.DmlrankWarning)
        fewer = dr.dml_rank("winner ~ length | model_a + model_b", battles, **in_objects({"n_rep": 2, **options}))
    messages = [str(warning.message) for warning in caught if "n_folds" in str(warning.message)]
    assert len(messages) == 1
    assert f"n_folds=5) is more than the {n_clusters} clusters of 'topic'" in messages[0]
    assert fewer.estimates.description.n_folds == n_clusters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        asked = fewer.update(n_folds=n_clusters)
    np.testing.assert_array_equal(fewer.params, asked.params)
    np.testing.assert_array_equal(fewer.bse, asked.bse)
    assert not any("n_folds" in message for message in asked.diagnostics.warnings)


@pytest.mark.parametrize("known", [slice(None), slice(None, None, 2)])
def test_verdicts_on_part_of_the_pairs_beside_an_array_of_propensities(known):
    battles = dr.datasets.simulate_arena(n=600, rng=0)
    verdict = battles["winner"].fillna("tie")
    battles["verdict"] = verdict[known].reindex(verdict.index)
    battles.loc[::3, "winner"] = None
    table, options = np.full((600, 8, 8), 1 / 60), {**OPTIONS, "judge": "verdict"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        given = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": table}))
        called = dr.dml_rank(FORMULA, battles, **in_objects({**options, "propensity": lambda contexts, models: table}))
    np.testing.assert_array_equal(given.params, called.params)
    assert np.isfinite(given.bse).all()
    assert given.judge is not None

"""Old votes with estimated propensities beside votes from a plan: the recipe of docs/how_to/stop.md."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import NuisanceError
from dmlrank.options import in_objects

FORMULA = "winner ~ C(category) + length | model_a + model_b"
OPTIONS = {"context": "question_id", "position_bias": False, "min_labels": 1, "rng": 0, "n_jobs": 1}
LABELS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
ARENA = dr.datasets.Arena(position_effect=0)
pytestmark = pytest.mark.filterwarnings("ignore::dmlrank.exceptions.DmlrankWarning")


def shares(features, labels, weights, rng):
    """A learner of shares of the categories, which takes no time."""
    share = np.bincount(labels, weights, minlength=4) / weights.sum()
    return lambda features: np.tile(share, (len(features), 1))


@pytest.fixture(scope="module")
def old():
    """Votes on pairs that the arena's own rule shows; the rule is known to the test alone."""
    frame = ARENA.sample(1500, rng=1)
    frame["question_id"] = "old-" + frame["question_id"].astype(str)
    return frame.rename(columns={"propensity": "true_propensity"})


@pytest.fixture(scope="module")
def planned():
    """Votes of a plan that shows some pairs six times as often as others, and no pair of a fifth of the prompts."""
    frame, rng = ARENA.contexts(1000, rng=2), np.random.default_rng(3)
    frame["question_id"] = "new-" + frame["question_id"].astype(str)
    first, second = np.triu_indices(len(ARENA.models), 1)
    weight = np.where((first == 0) | (second == 1), 6.0, 1.0)
    weight *= 0.8 / weight.sum()
    pair = (rng.random((len(frame), 1)) > weight.cumsum()).sum(axis=1)
    is_labelled, pair = pair < len(first), pair.clip(max=len(first) - 1)
    p = ARENA.mu(frame)[np.arange(len(frame)), first[pair], second[pair]].cumsum(axis=1)
    names = np.array(ARENA.models, dtype=object)
    frame["model_a"] = np.where(is_labelled, names[first[pair]], None)
    frame["model_b"] = np.where(is_labelled, names[second[pair]], None)
    frame["winner"] = np.where(is_labelled, LABELS[(rng.random((len(p), 1)) > p[:, :-1]).sum(axis=1)], None)
    frame["propensity"] = np.where(is_labelled, weight[pair], np.nan)
    return frame


@pytest.fixture(scope="module")
def filled(old):
    """The old votes with the propensities that a fit of them alone estimates, and this fit."""
    fit = dr.dml_rank(FORMULA, old, **in_objects({**OPTIONS, "learner": shares}))
    prompts = fit.steps.data.context_ids[fit.steps.data.cells.context]
    estimated = dict(zip(prompts, fit.steps.first.propensity.cells, strict=True))
    return old.assign(propensity=old["question_id"].map(estimated)), fit


def test_estimated_propensities_as_a_column_give_the_fit_that_estimated_them(filled):
    frame, fit = filled
    again = dr.dml_rank(FORMULA, frame, **in_objects({**OPTIONS, "learner": shares, "propensity": "propensity"}))
    np.testing.assert_array_equal(again.params, fit.params)
    np.testing.assert_array_equal(again.cov_params(), fit.cov_params())


def test_old_votes_add_their_information_to_the_votes_of_a_plan(filled, old, planned):
    options = {**OPTIONS, "learner": shares, "propensity": "propensity"}
    both = dr.dml_rank(FORMULA, pd.concat([filled[0], planned]), **in_objects(options))
    # The true propensity of the old votes is that of the ordered pair; both orders of a pair are equally likely.
    known = pd.concat([old.assign(propensity=2 * old["true_propensity"]), planned])
    oracle = dr.dml_rank(FORMULA, known, **in_objects(options))
    alone = dr.dml_rank(FORMULA, planned, **in_objects(options))
    assert ((both.params - oracle.params) / oracle.bse).abs().max() < 1
    np.testing.assert_allclose(both.bse, oracle.bse, rtol=0.15)
    assert (both.bse < alone.bse).all()
    assert both.bse.mean() < 0.7 * alone.bse.mean()
    truth = ARENA.truth("borda")
    for result in (both, oracle, alone):
        assert ((result.params - truth) / result.bse).abs().max() < 4


def test_old_and_new_rows_together_are_refused_with_a_plan():
    battles = ARENA.sample(1500, rng=1)
    res = dr.dml_rank(FORMULA, battles, **in_objects({**OPTIONS, "learner": shares}))
    plan = res.design(300, one_pair=True)
    new = battles.iloc[np.random.default_rng(0).choice(1500, 300, replace=False)]
    with pytest.raises(NuisanceError, match=r"1,\d\d\d labels of pairs, and the plan has 300 .* the plan alone"):
        dr.dml_rank(FORMULA, pd.concat([battles, new]), propensity=plan, **in_objects({**OPTIONS, "learner": shares}))

"""What settings cost, from counts of labels: held against simulated scores and against fits."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

import dmlrank as dr
from dmlrank.data.graph import PairRule, laplacian_inverse
from dmlrank.inspection.check import recommended_settings
from dmlrank.inspection.run_check import score_variances, settings_table
from dmlrank.options import in_objects


@pytest.fixture(scope="module")
def labelled():
    """Labelled contexts of five models, of which one is rare."""
    counts = np.random.default_rng(3).integers(150, 900, size=(5, 5))
    counts[4] = counts[:, 4] = (160, 210, 0, 0, 0)
    np.fill_diagonal(counts, 0)
    return counts


@pytest.mark.parametrize("edge_weights", ["equal", "counts"])
@pytest.mark.parametrize("ordered", [True, False])
def test_variances_are_those_of_projected_log_odds_that_are_drawn(labelled, ordered, edge_weights):
    rng, draws = np.random.default_rng(4), 4000
    share = rng.binomial(labelled, 0.5, size=(draws, 5, 5)) / np.maximum(labelled, 1)
    edges = labelled > 0
    own = logit(np.where(edges, share, 0.5))
    if ordered:
        odds = (own - own.transpose(0, 2, 1)) / 2
    else:
        won = share * labelled + (labelled.T - (share * labelled).transpose(0, 2, 1))
        odds = logit(np.where(edges, won / np.maximum(labelled + labelled.T, 1), 0.5))
    weight = edges * 1.0 if edge_weights == "equal" else (labelled + labelled.T).astype(float)
    scores = (weight * odds).sum(axis=2) @ laplacian_inverse(weight)
    # A label's log-odds have the variance 1 / (p (1 - p)) = 4.
    expected = 4 * score_variances(labelled, PairRule(ordered, 1), edge_weights)
    np.testing.assert_allclose(scores.var(axis=0), expected, rtol=0.1)


def test_weights_by_labels_are_maximum_likelihood(labelled):
    table = settings_table(labelled, labelled, 10)
    best = table.xs((False, "counts"), level=("position_bias", "edge_weights"))
    np.testing.assert_allclose(best[["se_median", "se_largest"]], 1, rtol=1e-9)
    assert (table["se_median"] >= 1 - 1e-9).all()


def test_what_is_said_before_a_fit_is_what_the_fit_has():
    rng = np.random.default_rng(5)
    popularity = np.arange(1, 7) ** -0.7
    pairs = np.array([(j, k) for j in range(6) for k in range(6) if j != k])
    chosen = pairs[rng.choice(len(pairs), 6000, p=(w := popularity[pairs].prod(axis=1)) / w.sum())]
    names = np.array([f"m{j}" for j in range(6)])
    winner = np.where(rng.random(6000) < 0.5, "model_a", "model_b")
    battles = pd.DataFrame({"model_a": names[chosen[:, 0]], "model_b": names[chosen[:, 1]], "winner": winner})
    formula = "winner ~ 1 | model_a + model_b"
    table = dr.check(formula, battles, pairs=dr.Pairs(min_labels=1)).settings
    likelihood = dr.dml_rank(formula, battles, functional="bt", estimator="bt_mle", rng=0).bse
    for row in table.reset_index().itertuples():
        options = {"position_bias": row.position_bias, "min_labels": 1, "edge_weights": row.edge_weights}
        ratio = dr.dml_rank(formula, battles, **in_objects({"functional": "bt", "rng": 0, **options})).bse / likelihood
        assert ratio.median() == pytest.approx(row.se_median, rel=0.08)
        assert ratio.max() == pytest.approx(row.se_largest, rel=0.15)


def test_the_fewest_changes_that_are_good_enough_are_recommended():
    good = np.full((4, 4), 40)
    np.fill_diagonal(good, 0)
    # The last model is rare, and seldom shown first.
    rare = good.copy()
    rare[3], rare[:, 3] = (2, 2, 3, 0), (11, 12, 13, 0)
    apart = np.zeros((4, 4), dtype=int)
    apart[0, 1] = apart[2, 3] = 50
    for counts, expected in ((good, None), (rare, (False, 1, "equal")), (apart, None)):
        table = settings_table(counts, counts, 10)
        table["chosen"] = table.index == (True, 1, "equal")
        assert recommended_settings(table) == expected
    assert table["se_median"].isna().all()


def test_a_check_says_what_better_settings_would_use():
    first, second = np.repeat([[0, 1], [0, 2], [1, 2], [3, 0], [3, 1], [3, 2]], [60, 60, 60, 11, 9, 2], axis=0).T
    votes = pd.DataFrame({"model_a": first, "model_b": second, "winner": ["model_a", "model_b"] * 101}).astype(str)
    found = dr.check("winner ~ 1 | model_a + model_b", votes, position_bias=False, pairs=dr.Pairs(min_labels=10))
    said, advice = found.problems.query("where == 'settings'")[["found", "advice"]].to_numpy()[0]
    assert "uses 94.6 % of the votes, and its standard errors of bt are up to 1.43 times" in said
    assert "With pairs='arena' it would use 100 % of the votes, and standard errors would be up to 1.00 times" in advice

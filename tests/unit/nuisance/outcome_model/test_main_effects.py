"""Main effects against SciPy and statsmodels, their gradient against differences, and what they must not depend on."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import softmax

from dmlrank.nuisance.outcome_model.main_effects import MainEffects, MainEffectsLikelihood
from dmlrank.nuisance.smooth import PenalisedSearch
from dmlrank.nuisance.training_rows import LabelledRows

from ....support import two_of

K = 4


# A search with this tolerance ends where rounding allows no further step.
EXACT = 1e-15


def fit_main_effects(rows, n_items, ordered, ridge, start=None, tolerance=1e-3):
    """The effects, and their coefficients, from which the next fit can start."""
    problem = MainEffectsLikelihood(rows, n_items, ordered)
    search = PenalisedSearch(problem, ridge, start, tolerance)
    search.advance()
    return problem.effects(search.flat), search.flat


def labelled_rows(columns, *others):
    """Rows whose contexts are the rows of the columns."""
    return LabelledRows(columns, np.arange(len(columns)), *others)


def draw(seed, n_categories=3, n=600, q=2, soft=False, n_items=K):
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n, q))
    first, second = two_of(rng, n_items, n)
    strength = rng.normal(size=(n_items, 1 + q))
    design = np.column_stack([np.ones(n), columns])
    advantage = (design * (strength[first] - strength[second])).sum(axis=1) + 0.4
    scores = np.column_stack([advantage / 2, -advantage / 2, *[np.zeros(n)] * (n_categories - 2)])
    mu = softmax(scores, axis=1)
    label = (mu.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    y = rng.dirichlet(np.ones(n_categories), size=n) if soft else np.eye(n_categories)[label]
    return labelled_rows(columns, first, second, y, rng.integers(1, 4, size=n).astype(float))


def mirrored(rows):
    flip = [1, 0, *range(2, rows.y.shape[1])]
    return labelled_rows(rows.table, rows.second, rows.first, rows.y[:, flip], rows.weight)


def random_effects(seed, n_categories, q, n_items=K):
    rng = np.random.default_rng(seed)
    pair = rng.normal(size=(n_items, n_items))
    return MainEffects(
        rng.normal(size=(n_items, 1 + q)),
        float(rng.normal()),
        pair - pair.T,
        rng.normal(size=n_categories - 2),
        rng.normal(size=(n_categories - 2, 1 + n_items, 1 + q)),
    )


def scores_by_loops(effects, columns, j, k):
    design = np.append(1.0, columns)
    a = design @ effects.strength[j] - design @ effects.strength[k] + effects.pair[j, k] + effects.position
    ties = [
        design @ tie[0] + design @ tie[1 + j] + design @ tie[1 + k] + gamma * (np.sqrt(1 + a**2) - 1)
        for gamma, tie in zip(effects.distance_effect, effects.tie, strict=True)
    ]
    return np.array([a / 2, -a / 2, *ties])


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_scores_follow_the_formula_and_the_table_holds_those_of_every_pair(n_categories):
    effects = random_effects(0, n_categories, 2)
    columns = np.random.default_rng(1).normal(size=(6, 2))
    table = effects.table(columns)
    assert table.shape == (6, K, K, n_categories)
    for i, j, k in np.ndindex(6, K, K):
        np.testing.assert_allclose(table[i, j, k], scores_by_loops(effects, columns[i], j, k), atol=1e-12)
    i, j, k = np.indices((6, K, K)).reshape(3, -1)
    np.testing.assert_allclose(effects.at(columns[i], j, k), table[i, j, k], atol=1e-12)


def test_without_ties_and_without_a_ridge_it_is_statsmodels_logit():
    """Pairs have levels of their own, so that the twin has a column per pair, the position, and K - 1 curves."""
    rows, n_items = draw(5, 2, n=900, q=2), K
    at = np.arange(len(rows))
    sign = np.zeros((len(rows), n_items))
    sign[at, rows.first], sign[at, rows.second] = 1.0, -1.0
    low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
    pairs = [np.where((low == j) & (high == k), sign[:, j], 0.0) for j in range(K) for k in range(j + 1, K)]
    curves = [sign[:, j] * rows.table[:, f] for j in range(1, K) for f in range(2)]
    design = np.column_stack([np.ones(len(rows)), *pairs, *curves])
    twin = sm.GLM(rows.y[:, 0], design, family=sm.families.Binomial(), freq_weights=rows.weight).fit(tol=1e-12)
    effects, _ = fit_main_effects(rows, n_items, True, 1e-6, tolerance=EXACT)
    mu = softmax(effects.at(rows.table, rows.first, rows.second), axis=1)
    np.testing.assert_allclose(mu[:, 0], twin.predict(), atol=1e-4)
    assert effects.position == pytest.approx(twin.params[0], abs=1e-3)


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_showing_every_pair_the_other_way_round_negates_the_position_alone(n_categories):
    rows = draw(6, n_categories)
    one, two = (fit_main_effects(r, K, True, 1.0)[0] for r in (rows, mirrored(rows)))
    assert one.position != 0
    assert two.position == pytest.approx(-one.position, abs=1e-8)
    for name in ("strength", "pair", "distance_effect", "tie"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), atol=1e-7)


def test_where_order_does_not_matter_both_orders_of_a_pair_are_one():
    rows = draw(7)
    effects, _ = fit_main_effects(rows, K, False, 1.0)
    assert effects.position == 0
    mu = softmax(effects.table(rows.table[:10]), axis=-1)
    np.testing.assert_allclose(np.swapaxes(mu, 1, 2)[..., [1, 0, 2]], mu, atol=1e-12)


def test_a_soft_label_is_a_vote_in_shares():
    rows = draw(11, n=200, soft=True)
    place, label = np.nonzero(rows.y)
    hard = replace(rows.only(place), y=np.eye(3)[label], weight=rows.weight[place] * rows.y[place, label])
    one, two = (fit_main_effects(r, K, True, 1.0, tolerance=EXACT)[0] for r in (rows, hard))
    np.testing.assert_allclose(one.table(rows.table[:5]), two.table(rows.table[:5]), atol=1e-4)


def test_an_item_and_a_pair_that_were_never_seen_have_no_effects():
    rows = draw(15)
    effects, _ = fit_main_effects(rows, K + 1, True, 1.0)
    assert not effects.strength[K].any()
    assert not effects.tie[:, 1 + K].any()
    assert not effects.pair[K].any()
    without = rows.only(np.flatnonzero(rows.first + rows.second != 1))
    assert fit_main_effects(without, K, True, 1.0)[0].pair[0, 1] == 0


def test_a_category_that_was_never_chosen_gets_hardly_any_probability():
    rows = draw(16, 2)
    three = labelled_rows(rows.table, rows.first, rows.second, np.column_stack([rows.y, np.zeros(600)]), rows.weight)
    effects, _ = fit_main_effects(three, K, True, 1.0)
    mu = softmax(effects.at(rows.table, rows.first, rows.second), axis=1)
    assert mu[:, 2].max() < 0.02


def test_equal_rows_are_merged_where_there_are_many_and_have_the_same_likelihood(monkeypatch):
    rng = np.random.default_rng(0)
    columns, n = np.repeat([[0.0, 1.0], [1.0, -1.0]], 200, axis=0), 400
    first = rng.integers(K, size=n)
    second = (first + rng.integers(1, K, size=n)) % K
    rows = labelled_rows(columns, first, second, rng.dirichlet(np.ones(4), size=n), rng.uniform(1, 3, size=n))
    assert rows.merged(K) is rows
    monkeypatch.setattr("dmlrank.nuisance.training_rows.MERGED_FROM", 300)
    merged = rows.merged(K)
    assert len(merged) == 2 * K * (K - 1)
    different = replace(rows, table=rng.normal(size=(n, 2)))
    assert different.merged(K) is different
    every, few = (MainEffectsLikelihood(some, K, True) for some in (rows, merged))
    flat = rng.normal(size=len(every.penalty)) * every.is_free
    for one, other in zip(every.loss(flat), few.loss(flat), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(few.precision, every.precision, rtol=1e-12)

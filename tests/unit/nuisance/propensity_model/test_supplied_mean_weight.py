"""The mean of S / pi: one where propensities are right, and what it says where they are not."""

from types import SimpleNamespace

import numpy as np
import pytest

from dmlrank.nuisance.propensity_model.estimate import Propensity, TabulatedPairPropensity
from dmlrank.nuisance.propensity_model.supplied import mean_weights


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
    return mean_weights(data, propensity, np.arange(len(supplied)) if unit is None else unit)


def test_factors_are_labels_by_what_is_expected():
    pi, shown = draw(np.random.default_rng(0), spread=0.0)
    weights = weigh(pi, shown, table=True)
    rate = shown.sum(axis=0) / pi.sum(axis=0, where=pi > 0, initial=1e-300)
    np.testing.assert_allclose(weights.factors, rate[weights.first, weights.second])
    # With a constant propensity the mean of S / pi is the same number.
    np.testing.assert_allclose(weights.factors, weigh(pi, shown, table=False).factors)
    direct = (shown / np.where(pi > 0, pi, 1)).mean(axis=0)
    np.testing.assert_allclose(weights.factors, direct[weights.first, weights.second])


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("one_pair", [True, False])
def test_right_propensities_give_no_alarm(table, one_pair):
    rng = np.random.default_rng(1)
    samples = [weigh(*draw(rng, one_pair=one_pair), table=table) for _ in range(150)]
    assert not any(weights.is_implausible or len(weights.implausible_pairs) for weights in samples)
    z = np.array([weights.z for weights in samples])
    assert abs(z.mean()) < 0.5
    assert 0.3 < z.std() < 1.3


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("factor", [10.0, 2.0, 0.5])
def test_wrong_propensities_are_found_with_their_factor(table, factor):
    pi, shown = draw(np.random.default_rng(2), n=1500)
    weights = weigh(pi / factor, shown, table)
    assert weights.is_implausible
    assert weights.factor == pytest.approx(factor, rel=0.15)


@pytest.mark.parametrize("table", [True, False])
def test_one_pair_with_wrong_propensities_is_found(table):
    pi, shown = draw(np.random.default_rng(3), n=3000, spread=0.2)
    supplied = pi.copy()
    supplied[:, 1, 3] /= 6
    weights = weigh(supplied, shown, table)
    assert [(weights.first[q], weights.second[q]) for q in weights.implausible_pairs] == [(1, 3)]


def test_prompts_that_come_in_clusters_give_larger_standard_errors():
    pi, shown = draw(np.random.default_rng(4), n=300)
    again = (np.repeat(pi, 4, axis=0), np.repeat(shown, 4, axis=0))
    unit = np.repeat(np.arange(300), 4)
    for table in (True, False):
        alone, clustered = weigh(*again, table), weigh(*again, table, unit)
        assert clustered.std_error > 1.5 * alone.std_error

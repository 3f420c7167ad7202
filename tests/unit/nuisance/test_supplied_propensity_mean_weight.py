"""The mean of S / pi: one where propensities are right, and what it says where they are not."""

from types import SimpleNamespace

import numpy as np
import pytest

from dmlrank.nuisance.propensity import Propensity, TabulatedPairPropensity
from dmlrank.nuisance.supplied_propensity import mean_weight


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

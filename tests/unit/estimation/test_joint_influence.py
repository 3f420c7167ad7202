"""Linear maps of influence values: against dense arrays, and groups as functions of the context."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.estimation import joint_influence as module
from dmlrank.estimation.influence import Influence
from dmlrank.estimation.joint_influence import in_groups, on_functions, side_by_side


def draw(rng, n, q, d):
    """The influence of d scores on n weighted contexts and q blocks, of which some have no labels."""
    weight, context = rng.uniform(0.5, 2, size=n), np.sort(rng.integers(n, size=q))
    return Influence(
        1000 + rng.normal(size=(n, d)),
        rng.normal(size=(q, d)),
        context,
        rng.integers(3, size=q),
        weight / weight.mean(),
    )


@pytest.mark.parametrize("most_patterns", [0.0, 1.0])
def test_sums_over_groups_are_those_of_the_groups_one_by_one(most_patterns, monkeypatch):
    rng = np.random.default_rng(0)
    n, q, d = 300, 400, 3
    weight, context = rng.uniform(0.5, 2, size=n), np.sort(rng.integers(n, size=q))
    value = 1000 + rng.normal(size=(n, d))
    of_blocks = rng.normal(size=(q, d)), context, np.ones(q)
    influence = Influence(value, *of_blocks, weight / weight.mean())
    members = rng.random((9, n)) < rng.uniform(0.2, 0.9, size=(9, 1))
    monkeypatch.setattr(module, "_MOMENT_ENTRIES", 500)
    monkeypatch.setattr(module, "_MOST_PATTERNS", most_patterns)
    groups = in_groups(influence, members)
    one_by_one = groups.changed(lambda part: part)
    np.testing.assert_allclose(groups.plugin, one_by_one.plugin, rtol=1e-12)
    np.testing.assert_allclose(groups.estimate, one_by_one.estimate, rtol=1e-12)
    moment = one_by_one.second_moment()
    np.testing.assert_allclose(groups.second_moment(), moment, atol=1e-12 * np.abs(moment).max())


def test_fits_on_some_contexts_have_zeros_in_the_others():
    rng = np.random.default_rng(1)
    fits, places = [draw(rng, 30, 50, 2), draw(rng, 20, 25, 3)], [rng.permutation(40)[:30], np.arange(20, 40)]
    joint, unit, of_block = side_by_side(fits, places, 40), np.arange(40) % 7, rng.integers(-1, 6, size=75)
    dense, blocks = np.zeros((40, 5)), np.zeros((75, 5))
    for fit, place, rows, columns in zip(
        fits, places, (slice(50), slice(50, 75)), (slice(2), slice(2, 5)), strict=True
    ):
        dense[place, columns] = fit.centred * 40 / len(place)
        blocks[rows, columns] = fit.centred_correction * 40 / len(place)
    same = {"rtol": 1e-12, "atol": 1e-10}
    np.testing.assert_allclose(joint.second_moment(), dense.T @ dense, **same)
    for power in (1, 2, 4):
        np.testing.assert_allclose(joint.sums_by(unit, power), np.eye(7)[unit].T @ dense**power, **same)
        expected = np.eye(7)[of_block].T @ blocks**power
        np.testing.assert_allclose(joint.block_sums_by(of_block, power), expected[:6], **same)
    np.testing.assert_array_equal(
        joint.block_context, np.concatenate([place[fit.block_context] for fit, place in zip(fits, places, strict=True)])
    )


def test_indicators_of_a_partition_have_the_influence_of_its_groups():
    rng = np.random.default_rng(2)
    influence, group = draw(rng, 60, 90, 3), np.arange(60) % 4
    groups = in_groups(influence, np.eye(4, dtype=bool)[:, group])
    functions = on_functions(influence, np.eye(4)[group], with_blocks=True)
    np.testing.assert_allclose(functions.estimate, groups.estimate, rtol=1e-12)
    np.testing.assert_allclose(functions.plugin, groups.plugin, rtol=1e-12)
    moment = groups.second_moment()
    np.testing.assert_allclose(functions.second_moment(), moment, atol=1e-10 * np.abs(moment).max())
    np.testing.assert_allclose(functions.sums_by(np.arange(60)), groups.sums_by(np.arange(60)), atol=1e-9)
    np.testing.assert_array_equal(functions.block_context, groups.block_context)

"""The units that turn a result, by their influence: a loop over the units gives the same; never more than half."""

from types import SimpleNamespace

import numpy as np
import pytest

from dmlrank.sensitivity.fragility import Question, Refit, Units, answer, predicted_set

N_UNITS = 40


def made_up(seed, n_units=N_UNITS, **influence):
    """A fit of two scores and the units of its contexts, of which a unit has one to three."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, n_units).astype(float)
    values = influence.get("influence", rng.normal(0.05, 1.0, (n_units, 2)) @ [[1.0, 0.2], [0.0, 0.6]])
    steps = SimpleNamespace(
        data=SimpleNamespace(n_contexts=int(weight.sum())),
        influence=SimpleNamespace(estimate=np.array([0.09, 0.01])),
        covariance=SimpleNamespace(matrix=values.T @ values / weight.sum() ** 2),
    )
    names = np.array([f"unit {i}" for i in range(n_units)], dtype=object)
    return steps, Units("cluster", False, np.arange(n_units), names, values, weight)


def one_at_a_time(steps, units, question):
    """The smallest set by a loop that drops one unit after another, from the formulas of the docstring."""
    estimate = float(question.contrast @ steps.influence.estimate)
    error = float(np.sqrt(question.contrast @ steps.covariance.matrix @ question.contrast))
    sign = 1.0 if estimate >= question.value else -1.0
    effect = sign * units.influence @ question.contrast
    n = steps.data.n_contexts
    n_left, moved, square, dropped = float(n), 0.0, (effect**2).sum(), []
    for unit in sorted(range(len(effect)), key=lambda i: -effect[i]):
        dropped.append(unit)
        n_left, moved, square = n_left - units.weight[unit], moved + effect[unit], square - effect[unit] ** 2
        distance = sign * (estimate - question.value) - moved / n_left
        std_error = error * np.sqrt(square / (effect**2).sum()) * n / n_left
        if distance < question.critical * std_error:
            return dropped
    return None


@pytest.mark.parametrize("critical", [0.0, 0.3])
@pytest.mark.parametrize("value", [-0.08, 0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_the_predicted_set_is_that_of_a_loop(seed, value, critical):
    steps, units = made_up(seed)
    question = Question("a - b", np.array([1.0, -1.0]), value, critical)
    expected = one_at_a_time(steps, units, question)
    found = predicted_set(steps, units, question)
    if question.distance(0.08, float(np.sqrt([1, -1] @ steps.covariance.matrix @ [1, -1])), question.sign(steps)) < 0:
        assert found.tolist() == []
    else:
        assert (None if found is None else found.tolist()) == expected
        assert expected is not None


@pytest.mark.parametrize(("needed", "is_found"), [(19, True), (20, True), (21, False)])
def test_more_than_half_of_the_units_is_no_answer(needed, is_found):
    """Each unit has one context and moves the contrast by the same amount."""
    steps, units = made_up(0, influence=np.tile([[0.1, 0.0]], (N_UNITS, 1)))
    units = Units("context", False, units.code, units.identifiers, units.influence, np.ones(N_UNITS))
    steps.data.n_contexts = N_UNITS
    value = 0.09 - 0.1 * (needed - 0.5) / (N_UNITS - needed + 0.5)
    found = predicted_set(steps, units, Question("a", np.array([1.0, 0.0]), value))
    assert (found is not None) == is_found
    assert found is None or len(found) == needed


def test_no_refit_drops_more_than_half_of_the_units():
    steps, units = made_up(0, influence=np.tile([[0.1, 0.0]], (N_UNITS, 1)))
    sizes = []
    frames = SimpleNamespace(
        steps=steps, without=lambda units, dropped, contrast: sizes.append(len(dropped)) or Refit(1.0, 0.1)
    )
    result = answer(frames, units, Question("a", np.array([1.0, 0.0]), -5.0))
    assert not result.confirmed
    assert sizes == [N_UNITS // 2]

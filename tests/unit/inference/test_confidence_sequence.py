"""Confidence sequences: the closed formulas against integrals and searches, and looks at simulated Brownian motion."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, norm

from dmlrank.inference.bootstrap_and_max_t import holm
from dmlrank.inference.confidence_sequence import Boundary, ConfidenceSequence, best_tau
from dmlrank.inference.covariance import Covariance
from dmlrank.inference.simultaneous import AllLooks, compare_differences, separate, separate_each
from dmlrank.inference.wald import SIDES, Alternative

LOOK = ConfidenceSequence(planned=4000, start=500, alpha=0.05, n_units=1500, unit="prompts")


def mixture(z: float, tau: float, *, one_sided: bool) -> float:
    """Mean of exp(lambda W - lambda^2 t / 2) over lambda, with W = z sqrt(t), t = 1 and rho^2 = tau, by quadrature."""

    def term(slope: float) -> float:
        return float(np.exp(slope * z - slope**2 / 2) * norm.pdf(slope, scale=np.sqrt(tau)))

    reach = 12 * np.sqrt(tau)
    points = [slope for slope in (z * tau / (1 + tau),) if -reach < slope < reach]
    if one_sided:
        return 2 * quad(term, 0, reach, points=[p for p in points if p > 0] or None, limit=200)[0]
    return quad(term, -reach, reach, points=points, limit=200)[0]


@pytest.mark.parametrize("tau", [0.05, 0.9, 8.0, 70.0])
@pytest.mark.parametrize("z", [-2.5, 0.0, 1.7, 4.2])
def test_p_values_are_one_over_the_mixture_martingale(tau, z):
    boundary = Boundary(tau)
    for p, one_sided in ((boundary.p_values, False), (boundary.one_sided_p_values, True)):
        assert p(np.array([z]))[0] == pytest.approx(min(1.0, 1 / mixture(z, tau, one_sided=one_sided)), rel=1e-6)


@pytest.mark.parametrize("n_contrasts", [1, 2, 7])
@pytest.mark.parametrize("a", [0.2, 0.05, 0.001, 0.05 / 4950])
def test_the_boundary_is_lowest_at_the_planned_size(a, n_contrasts):
    found = minimize_scalar(
        lambda log_tau: Boundary(np.exp(log_tau)).squared_radius(a, n_contrasts),
        bounds=(-5, 6),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert best_tau(a, n_contrasts) == pytest.approx(np.exp(found.x), rel=1e-4)
    assert Boundary(best_tau(a, n_contrasts)).squared_radius(a, n_contrasts) <= found.fun + 1e-9
    if n_contrasts == 1:
        # At the planned size the half-width is sqrt(1 + tau) standard errors.
        assert Boundary(best_tau(a)).critical(a) == pytest.approx(np.sqrt(1 + best_tau(a)))


def test_the_half_width_is_the_formula_and_a_family_divides_alpha():
    t, planned, m = 1500, 4000, 10
    a = 0.05 / m
    # The root above zero of tau = log(1 + tau) - 2 log a, by fixed-point iteration.
    tau_star = 10.0
    for _ in range(200):
        tau_star = np.log(1 + tau_star) - 2 * np.log(a)
    tau = tau_star * t / planned
    assert LOOK.critical(m) == pytest.approx(np.sqrt((1 + 1 / tau) * (np.log(1 + tau) - 2 * np.log(a))), rel=1e-12)
    z = np.array([0.3, -4.0, np.nan])
    p = np.minimum(1, np.sqrt(1 + tau) * np.exp(-(z**2) * tau / (2 * (1 + tau))))
    np.testing.assert_allclose(LOOK.boundary(m).p_values(z), p, rtol=1e-12)


def test_p_values_and_limits_decide_alike():
    z = np.random.default_rng(3).normal(size=400) * 4
    for n_tests in (1, 6, 190):
        a, boundary = LOOK.alpha / n_tests, LOOK.boundary(n_tests)
        assert ((boundary.p_values(z) <= a) == (np.abs(z) >= boundary.critical(a))).all()
        assert ((boundary.one_sided_p_values(z) <= a) == (z >= boundary.one_sided_critical(a))).all()
        # A one-sided test is a little less strict than a two-sided one at twice the level.
        assert boundary.critical(2 * a) < boundary.one_sided_critical(a) < boundary.critical(a)
    some = z[:20]
    assert ((LOOK.adjusted_p_values(some) <= LOOK.alpha) == (np.abs(some) >= LOOK.critical(20))).all()
    joint = LOOK.boundary(1, 3)
    assert joint.joint_p_values(0.0, 3) == 1
    assert all((joint.joint_p_values(q, 3) <= 0.05) == (q >= joint.squared_radius(0.05, 3)) for q in z**2)


def test_sequential_statements_are_weaker_than_those_of_one_look():
    z = np.linspace(0, 7, 50)
    assert (LOOK.boundary().p_values(z) >= 2 * norm.sf(z)).all()
    assert LOOK.boundary(1, 4).squared_radius(0.05, 4) > chi2.ppf(0.95, 4)
    # ... and never decide by nothing: the boundary grows without bound on both sides of the planned size.
    widths = [ConfidenceSequence(4000, 2, 0.05, n, "prompts").critical() for n in (40, 4000, 400_000)]
    assert widths[0] > widths[1] < widths[2]


def covariance_of(seed: int, n_scores: int) -> tuple[np.ndarray, Covariance]:
    generator = np.random.default_rng(seed)
    factor = generator.normal(size=(n_scores, n_scores))
    return generator.normal(size=n_scores) * 8, Covariance(factor @ factor.T, np.eye(n_scores))


@pytest.mark.parametrize("side", SIDES)
def test_tests_of_pairs_are_dual_to_their_limits(side):
    estimate, covariance = covariance_of(1, 6)
    first, second = np.triu_indices(6, 1)
    alternative = Alternative(side, 1.5 if side in ("noninferiority", "equivalence") else 0.0)
    tests = compare_differences(
        estimate, AllLooks(covariance, LOOK), first, second, method="bonferroni", alternative=alternative, alpha=0.05
    )
    delta = alternative.delta
    decided = {
        "two-sided": (tests.conf_low > 0) | (tests.conf_high < 0),
        "larger": tests.conf_low > 0,
        "smaller": tests.conf_high < 0,
        "noninferiority": tests.conf_low > -delta,
        "equivalence": (tests.conf_low > -delta) & (tests.conf_high < delta),
    }[side]
    assert ((tests.p_adjusted <= 0.05) == decided).all()
    assert (tests.p_adjusted >= tests.p_value).all()
    stepped = compare_differences(
        estimate, AllLooks(covariance, LOOK), first, second, method="holm", alternative=alternative, alpha=0.05
    )
    np.testing.assert_allclose(stepped.p_adjusted, holm(tests.p_value))
    assert (stepped.p_adjusted <= tests.p_adjusted).all()


def test_separation_steps_down_and_does_not_depend_on_the_order_of_models():
    estimate, covariance = covariance_of(2, 7)
    separation = separate(estimate, AllLooks(covariance, LOOK), 0.05)
    first, second = np.triu_indices(7, 1)
    tests = compare_differences(estimate, AllLooks(covariance, LOOK), first, second, method="bonferroni", alpha=0.05)
    in_one_step = np.zeros((7, 7), dtype=bool)
    in_one_step[first, second] = in_one_step[second, first] = tests.p_adjusted <= 0.05
    assert (separation.separated >= in_one_step).all()
    assert separation.separated.any()
    assert not separation.separated[~np.eye(7, dtype=bool)].all()
    assert (separation.above <= (estimate[:, None] > estimate[None, :])).all()
    by_model = separate_each(estimate, AllLooks(covariance, LOOK), 0.05)
    assert (by_model[:, :, 0] >= separation.above).all()
    assert (by_model[:, :, 1] >= separation.above.T).all()
    order = np.random.default_rng(5).permutation(7)
    mixed = Covariance(covariance.matrix[np.ix_(order, order)], np.eye(7))
    permuted = separate(estimate[order], AllLooks(mixed, LOOK), 0.05)
    np.testing.assert_allclose(permuted.p_above, separation.p_above[np.ix_(order, order)], rtol=1e-12)


def test_a_direction_is_shown_by_holm_or_by_its_two_sided_interval():
    z = np.array([0.3, 3.1, -3.4, 3.8, 0.0])
    of_one, above, below = LOOK.boundary(len(z)), *LOOK.step_down(z)
    directions = np.concatenate([z, -z])
    stepped = holm(of_one.one_sided_p_values(directions))
    for j, (direction, adjusted) in enumerate(zip(directions, np.concatenate([above, below]), strict=True)):
        alone = min(1.0, 5 * of_one.p_values(np.array([direction]))[0]) if direction > 0 else 1.0
        assert adjusted == pytest.approx(min(stepped[j], alone), rel=1e-12)
    # Some direction is shown by the interval alone, and some by Holm's method.
    alone = np.minimum(1.0, 5 * of_one.p_values(z))
    assert (alone < stepped[:5])[z > 0].any()
    np.testing.assert_array_equal(below[z > 0] == 1.0, True)

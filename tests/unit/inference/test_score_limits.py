"""Limits of means of scores: exact cases, symmetries, what they share with tests, and what they become with n."""

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import binom, norm

from dmlrank.inference.score_limits import CombinedMeans, MeanScores, fewest_units, typical_sizes


def means_of(y, bounds=(0.0, 1.0)):
    """What the limits of means need, written out for prompts that count the same and have all scores."""
    y = np.asarray(y, dtype=float)
    own, pair = typical_sizes(y, bounds[1] - bounds[0])
    each, middle = np.ones(y.shape[1]), np.median(y, axis=0)
    low, high = np.maximum(middle - own, bounds[0]), np.minimum(middle + own, bounds[1])
    part = MeanScores.of(
        y, low=low, high=high, size=pair * each, reach=each, least=bounds[0] * each, most=bounds[1] * each
    )
    return CombinedMeans((part,), np.eye(y.shape[1]))


def law_of(y, contrasts=None, bounds=(0.0, 1.0)):
    contrasts = np.eye(np.shape(y)[1]) if contrasts is None else np.asarray(contrasts, dtype=float)
    d = np.asarray(y, dtype=float) @ contrasts.T
    return means_of(y, bounds).law(d.mean(axis=0), d.std(axis=0) / np.sqrt(len(d)), contrasts, 1.0)


def ones(n, x):
    return (np.arange(n) < x).astype(float)[:, None]


@pytest.mark.parametrize("n", [20, 100, 500, 5000])
def test_without_an_event_the_limit_is_exact(n):
    z = norm.isf(0.025)
    low, high = law_of(ones(n, 0)).limits(z)
    assert low[0] == 0
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / n), rel=1e-6)
    low, high = law_of(ones(n, n)).limits(z)
    assert high[0] == 1
    assert low[0] == pytest.approx(0.025 ** (1 / n), rel=1e-6)


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("z", [1.645, 1.96, 3.3])
def test_limits_of_zeros_and_ones_are_inside_those_of_clopper_and_pearson_and_close(n, z):
    for x in range(n + 1):
        (low,), (high,) = law_of(ones(n, x)).limits(z)
        exact_low = betaincinv(x, n - x + 1, norm.sf(z)) if x else 0.0
        exact_high = 1 - betaincinv(n - x, x + 1, norm.sf(z)) if x < n else 1.0
        assert exact_low - 1e-6 <= low <= x / n <= high <= exact_high + 1e-6
        assert max(exact_high - high, low - exact_low) < 0.6 / n


@pytest.fixture(scope="module", params=[20, 60, 300])
def mixed(request):
    rng, n = np.random.default_rng(request.param), request.param
    rare = [rng.random(n) < p for p in (0.02, 0.3, 0.5, 0.97)]
    return np.column_stack([*rare, rng.beta(2, 1, n), np.ones(n)]).astype(float)


def contrasts_of(k):
    first, second = np.triu_indices(k, 1)
    centred = np.eye(k) - 1 / k
    return np.vstack([np.eye(k), np.eye(k)[first] - np.eye(k)[second], centred, [[0.5, 0.5, 0, -0.2, 0, -0.8]]])


def test_limits_and_statistics_agree_are_monotone_and_stay_in_the_bounds(mixed):
    law = law_of(mixed, contrasts_of(6))
    before = law.estimate, law.estimate
    for z in np.linspace(0, 5, 26):
        low, high = law.limits(z)
        assert (low <= before[0] + 1e-12).all()
        assert (high >= before[1] - 1e-12).all()
        before = low, high
        for delta in np.linspace(-1, 1, 21) if z > 0.2 else ():
            is_clear = np.minimum(np.abs(low - delta), np.abs(high - delta)) > 1e-7
            excluded, statistics = (delta < low) | (delta > high), law.statistics(delta)
            np.testing.assert_array_equal((np.abs(statistics) > z)[is_clear], excluded[is_clear])
            assert (statistics * (law.estimate - delta) >= 0).all()
    assert all(law.statistics(delta)[place] == 0 for place, delta in enumerate(law.estimate))
    inner_low, inner_high = law.limits(-1.0)
    assert (inner_low <= law.estimate).all()
    assert (inner_high >= law.estimate).all()
    assert (low[:6] >= 0).all()
    assert (high[:6] <= 1).all()
    assert (np.abs([low, high]) <= 1 + 1e-12).all()


def test_mirror_scale_and_order_of_units_do_not_matter(mixed):
    contrasts = contrasts_of(6)
    low, high = law_of(mixed, contrasts).limits(2.5)
    np.testing.assert_allclose(law_of(mixed, -contrasts).limits(2.5), [-high, -low], atol=1e-12)
    total = contrasts.sum(axis=1)
    np.testing.assert_allclose(law_of(1 - mixed, contrasts).limits(2.5), [total - high, total - low], atol=1e-10)
    scaled = law_of(100 * mixed[::-1], contrasts, (0, 100)).limits(2.5)
    np.testing.assert_allclose(scaled, [100 * low, 100 * high], atol=1e-8)


def test_moments_by_products_are_those_of_the_values(mixed):
    contrasts = contrasts_of(6)
    found, d = means_of(mixed).parts[0].moments(contrasts), mixed @ contrasts.T
    centred = d - d.mean(axis=0)
    np.testing.assert_allclose(found.mean, d.mean(axis=0), atol=1e-14)
    for name, power in (("variance", 2), ("third", 3), ("fourth", 4)):
        np.testing.assert_allclose(getattr(found, name), (centred**power).mean(axis=0), atol=1e-14)


def test_the_law_has_the_moments_of_a_mean_with_dirichlet_weights():
    rng = np.random.default_rng(0)
    d = rng.choice([-1.0, 0.0, 1.0], 30, p=[0.1, 0.8, 0.1])
    side = law_of(np.column_stack([d, np.zeros(30)]), [[1, -1]], (-1, 1)).sides[0].lower[0]
    # The events above the mean, of typical size r, and the two units that are added.
    c = d - d.mean()
    second, third, fourth = ((c**power).mean() for power in (2, 3, 4))
    r = max(np.sqrt(fourth / second), abs(third / second))
    events = 30 * second * (1 + third / (second * r)) / (2 * r**2)
    values = np.append(d, [-1.0, min(d.mean() + r, 1.0)])
    weights = rng.dirichlet(np.append(np.ones(31), events / (2 * events + 2)), 400_000)
    drawn = weights @ values
    beta = side.left + (side.right - side.left) * rng.beta(side.a, side.b, 400_000)
    assert beta.mean() == pytest.approx(drawn.mean(), abs=5e-4)
    assert beta.std() == pytest.approx(drawn.std(), rel=5e-3)
    skewness = [((x - x.mean()) ** 3).mean() / x.std() ** 3 for x in (beta, drawn)]
    assert skewness[0] == pytest.approx(skewness[1], abs=0.02)
    # Student's t, whose excess kurtosis is 6 / (df - 4), has what the beta variable lacks.
    kurtosis = [((x - x.mean()) ** 4).mean() / x.std() ** 4 for x in (beta, drawn)]
    assert kurtosis[0] + 6 / (side.df[0] - 4) == pytest.approx(kurtosis[1], abs=0.06)


def test_limits_become_normal_as_one_over_the_root_of_the_number_of_units():
    gaps = []
    for n in (400, 6400, 102400):
        d = np.repeat([-1.0, 0.0, 1.0], [n // 20, n - n // 20 - n // 10, n // 10])
        law = law_of(np.column_stack([d, np.zeros(n)]), [[1, -1]], (-1, 1))
        (low,), (high,) = law.limits(1.96)
        gaps.append(abs((high - low) / (2 * 1.96 * law.std_error[0]) - 1))
    assert gaps[0] < 0.1
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[2] < 0.3 * gaps[1]


@pytest.mark.parametrize(("level", "size"), [(0.05, 0.0525), (0.025, 0.0275)])
@pytest.mark.parametrize("n", [20, 50, 170, 300])
def test_a_gate_rarely_passes_a_release_that_only_loses(n, level, size):
    margins, lost, z = np.linspace(0.01, 0.1, 10), np.arange(n + 1), norm.isf(level)
    least = []
    for x in lost:
        y = np.column_stack([1 - ones(n, x), np.ones(n)])
        least.append(law_of(y, [[1, -1]]).limits(z)[0][0])
    for margin in margins:
        assert binom.pmf(lost, n, margin)[np.array(least) > -margin].sum() <= size


def test_the_fewest_units_for_a_margin_are_those_from_which_no_loss_is_enough():
    z = norm.isf(0.05)
    for margin in (0.01, 0.02, 0.1):
        n = fewest_units(margin, 0.05)
        passes = [law_of(np.ones((units, 2)), [[1, -1]]).limits(z)[0][0] > -margin for units in (n - 1, n + 1)]
        assert passes == [False, True]
    assert fewest_units(0.02, 0.05) == 149
    assert fewest_units(2, 0.05) == 1


def test_means_of_the_same_units_are_paired():
    y = (np.random.default_rng(2).random((80, 2)) < 0.8).astype(float)
    law, order = law_of(y, [[1, -1]]), np.random.default_rng(3).permutation(80)
    one, other = means_of(y[:, :1]), means_of(y[order, 1:])
    both = CombinedMeans.side_by_side([one, other], [np.arange(80), np.argsort(order)])
    found = both.law(law.estimate, law.std_error, np.array([[1.0, -1.0]]), 1.0)
    np.testing.assert_allclose(found.limits(2), law.limits(2), rtol=0.02)


def test_means_of_different_units_have_the_distances_of_a_sum():
    y, contrast = (np.random.default_rng(2).random((80, 2)) < 0.8).astype(float), np.array([[1.0, -1.0]])
    alone = [law_of(y[:10, :1]), law_of(y[10:, 1:])]
    gap, error = alone[0].estimate - alone[1].estimate, np.hypot(*(law.std_error for law in alone))
    apart = CombinedMeans.side_by_side([means_of(y[:10, :1]), means_of(y[10:, 1:])])
    law = apart.law(gap, error, contrast, 1.0)
    (low, high), ((first_low, first_high), (second_low, second_high)) = law.limits(2), (a.limits(2) for a in alone)
    np.testing.assert_allclose(gap - low, np.hypot(alone[0].estimate - first_low, second_high - alone[1].estimate))
    np.testing.assert_allclose(high - gap, np.hypot(first_high - alone[0].estimate, alone[1].estimate - second_low))
    for delta in (-0.9, -0.2, 0.0, 0.4):
        z = law.statistics(delta)
        ends = law.limits(float(np.abs(z[0])))
        assert np.abs(np.subtract(ends, delta)).min() < 1e-6 or z[0] == 0 or abs(z[0]) > 37
    # A covariance of the two counts, too.
    closer = apart.law(gap, error / 2, contrast, 1.0).limits(2)
    np.testing.assert_allclose(np.subtract(closer, gap), np.subtract(law.limits(2), gap) / 2, rtol=1e-9)

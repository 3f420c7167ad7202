"""Limits of means of scores: exact cases, symmetries, what they share with tests, and what they become with n."""

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import binom, norm

from dmlrank.inference.score_limits import (
    CombinedMeans,
    ContrastLaw,
    MeanScores,
    WinShares,
    df_of_shares,
    fewest_units,
    typical_sizes,
)


def made_law(known, estimate, std_error, *further):
    """The law of contrasts with what is known of means or of win shares."""
    return ContrastLaw(estimate, std_error, known.sides(estimate, std_error, *further))


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
    return made_law(means_of(y, bounds), d.mean(axis=0), d.std(axis=0) / np.sqrt(len(d)), contrasts, 1.0)


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
def test_limits_of_zeros_and_ones_are_those_of_clopper_and_pearson(n, z):
    for x in range(n + 1):
        (low,), (high,) = law_of(ones(n, x)).limits(z)
        exact_low = betaincinv(x, n - x + 1, norm.sf(z)) if x else 0.0
        exact_high = 1 - betaincinv(n - x, x + 1, norm.sf(z)) if x < n else 1.0
        np.testing.assert_allclose([low, high], [exact_low, exact_high], atol=1e-7)


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
    for name, power in (("variance", 2), ("third", 3)):
        np.testing.assert_allclose(getattr(found, name), (centred**power).mean(axis=0), atol=1e-14)


def test_the_law_has_the_moments_of_a_mean_with_dirichlet_weights():
    rng = np.random.default_rng(0)
    d = rng.choice([-1.0, 0.0, 1.0], 30, p=[0.1, 0.8, 0.1])
    side = law_of(np.column_stack([d, np.zeros(30)]), [[1, -1]], (-1, 1)).sides[0].lower
    values = np.append(d, -1.0)
    weights = rng.dirichlet(np.ones(31), 400_000)
    drawn = weights @ values
    beta = side.left + (side.right - side.left) * rng.beta(side.a, side.b, 400_000)
    assert beta.mean() == pytest.approx(drawn.mean(), abs=5e-4)
    assert beta.std() == pytest.approx(drawn.std(), rel=5e-3)
    skewness = [((x - x.mean()) ** 3).mean() / x.std() ** 3 for x in (beta, drawn)]
    assert skewness[0] == pytest.approx(skewness[1], abs=0.02)


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


@pytest.mark.parametrize("level", [0.05, 0.025])
@pytest.mark.parametrize("n", [20, 50, 100, 170, 300])
def test_a_gate_rarely_passes_a_release_that_only_loses(n, level):
    margins, lost, z = np.linspace(0.005, 0.3, 60), np.arange(n + 1), norm.isf(level)
    least = []
    for x in lost:
        y = np.column_stack([1 - ones(n, x), np.ones(n)])
        least.append(law_of(y, [[1, -1]]).limits(z)[0][0])
    for margin in margins:
        assert binom.pmf(lost, n, margin)[np.array(least) > -margin].sum() <= level + 1e-9


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
    found = made_law(both, law.estimate, law.std_error, np.array([[1.0, -1.0]]), 1.0)
    np.testing.assert_allclose(found.limits(2), law.limits(2), rtol=0.02)


def test_means_of_different_units_have_the_distances_of_a_sum():
    y, contrast = (np.random.default_rng(2).random((80, 2)) < 0.8).astype(float), np.array([[1.0, -1.0]])
    alone = [law_of(y[:10, :1]), law_of(y[10:, 1:])]
    gap, error = alone[0].estimate - alone[1].estimate, np.hypot(*(law.std_error for law in alone))
    apart = CombinedMeans.side_by_side([means_of(y[:10, :1]), means_of(y[10:, 1:])])
    law = made_law(apart, gap, error, contrast, 1.0)
    (low, high), ((first_low, first_high), (second_low, second_high)) = law.limits(2), (a.limits(2) for a in alone)
    np.testing.assert_allclose(gap - low, np.hypot(alone[0].estimate - first_low, second_high - alone[1].estimate))
    np.testing.assert_allclose(high - gap, np.hypot(first_high - alone[0].estimate, alone[1].estimate - second_low))
    for delta in (-0.9, -0.2, 0.0, 0.4):
        z = law.statistics(delta)
        ends = law.limits(float(np.abs(z[0])))
        assert np.abs(np.subtract(ends, delta)).min() < 1e-6 or z[0] == 0 or abs(z[0]) > 37
    # A covariance of the two counts, too.
    closer = made_law(apart, gap, error / 2, contrast, 1.0).limits(2)
    np.testing.assert_allclose(np.subtract(closer, gap), np.subtract(law.limits(2), gap) / 2, rtol=1e-9)


def test_limits_of_win_shares_and_their_statistics_agree_and_are_those_of_so_many_votes():
    n, won = 40, np.array([0, 1, 20, 20, 39, 40]) / 40
    error = np.sqrt(won * (1 - won) / n)
    # Labels that are all equal have been given the variance of the rule of three.
    error[[0, -1]] = 3 / norm.isf(0.025) / n
    shares = WinShares.between((0.0, 1.0), 6, np.inf)
    low, high = made_law(shares, won, error).limits(1.96)
    x = n * won
    exact = betaincinv(x[1:], n - x[1:] + 1, norm.sf(1.96))
    np.testing.assert_allclose(low, [0, *exact], atol=1e-9, rtol=1e-4)
    np.testing.assert_allclose(high, [*(1 - exact[::-1]), 1], atol=1e-9, rtol=1e-4)
    contrasts = np.array([[1.0, -1, 0, 0, 0, 0], [0, 0, 0, 1, 0, -1], [0, 0, 1, -0.5, -0.5, 0]])
    law = made_law(shares.combined(contrasts), contrasts @ won, np.array([0.03, 0.1, 0.2]))
    for z in (0.5, 1.96, 4.0):
        low, high = law.limits(z)
        assert ((low >= [-1, -1, -1]) & (low <= law.estimate) & (law.estimate <= high) & (high <= 1)).all()
        for delta in np.linspace(-1, 1, 41):
            clear = np.minimum(np.abs(low - delta), np.abs(high - delta)) > 1e-7
            excluded = (delta < low) | (delta > high)
            np.testing.assert_array_equal((np.abs(law.statistics(delta)) > z)[clear], excluded[clear])
    assert df_of_shares(np.array([[-1.0], [1.0]] * 10)) > 1e9
    assert df_of_shares(np.random.default_rng(0).normal(size=(4000, 3))) == pytest.approx(3999, rel=0.1)
    # Rounding errors of shares that do not vary are none of their variance.
    assert df_of_shares(1e-17 * np.random.default_rng(0).normal(size=(40, 3))) > 1e9

"""Ellipsoids against brute force in coordinates of their own."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import chi2

from dmlrank.data.hypotheses import LinearHypothesis
from dmlrank.exceptions import HypothesisError
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.wald import NamedEstimates
from dmlrank.results.score_tests import WinProbability
from dmlrank.results.score_tests import confidence_ellipsoid as confidence_region

NAMES = ["a", "b", "c", "d"]


def region_of(estimate, covariance, rows, names, alpha, scores=False):
    """The region of linear combinations of scores."""
    chosen = LinearHypothesis(rows, np.zeros(len(rows)), tuple(names))
    named = NamedEstimates(estimate, covariance, NAMES, "they sum to a constant")
    return confidence_region(named, chosen, alpha, scores=scores)


def confidence_ellipsoid(estimate, covariance, names, selected, alpha):
    """The region of scores, by their places."""
    rows = np.eye(len(estimate))[list(selected)]
    return region_of(estimate, covariance, rows, [names[j] for j in selected], alpha, scores=True)


def test_what_a_hypothesis_says_is_subtracted(summed):
    estimate, covariance = summed
    row, named = np.array([[1.0, -1.0, 0.0, 0.0]]), NamedEstimates(*summed, NAMES, "they sum to a constant")
    region = confidence_region(named, LinearHypothesis(row, np.array([0.1]), ("a - b",)), 0.05)
    np.testing.assert_allclose(region.center, row @ estimate - 0.1)
    np.testing.assert_allclose(region.cov, row @ covariance.matrix @ row.T)
    assert not region.scores


@pytest.fixture
def summed():
    """Four scores that sum to a constant."""
    rng = np.random.default_rng(0)
    basis = free_basis(np.ones((1, 4)) / 2, 4)
    root = basis @ rng.normal(size=(3, 3))
    return np.array([0.4, 0.3, 0.2, 0.1]), Covariance(root @ root.T, basis)


def coordinates(rows):
    """Orthonormal coordinates of vectors that sum to zero."""
    return rows @ null_space(np.ones((1, rows.shape[-1])))


def test_a_point_is_inside_where_its_distance_says_so(summed):
    estimate, covariance = summed
    region = confidence_ellipsoid(estimate, covariance, NAMES, range(4), 0.1)
    assert region.df == 3
    assert region.radius2 == pytest.approx(chi2.ppf(0.9, 3))
    frame = null_space(np.ones((1, 4)))
    inverse = np.linalg.inv(frame.T @ covariance.matrix @ frame)
    points = np.random.default_rng(1).multivariate_normal(estimate, 3 * covariance.matrix, size=300)
    away = coordinates(points - estimate)
    expected = np.einsum("ni,ij,nj->n", away, inverse, away) <= region.radius2
    assert 50 < expected.sum() < 250
    assert [region.contains(point) for point in points] == expected.tolist()


def test_volume_of_known_shapes():
    disc = confidence_ellipsoid(np.zeros(2), Covariance(np.diag([4.0, 9.0]), np.eye(2)), NAMES[:2], [0, 1], 0.05)
    assert disc.volume == pytest.approx(np.pi * 6 * chi2.ppf(0.95, 2))
    line = confidence_ellipsoid(np.zeros(2), Covariance(np.diag([4.0, 9.0]), np.eye(2)), NAMES[:2], [1], 0.05)
    assert line.volume == pytest.approx(2 * 1.959963985 * 3)


def test_the_ends_of_the_axes_lie_on_the_surface_and_are_conjugate(summed):
    estimate, covariance = summed
    region = confidence_ellipsoid(estimate, covariance, NAMES, range(4), 0.05)
    lengths, directions = region.axes()
    assert (np.diff(lengths) < 0).all()
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(directions.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(
        directions.T @ covariance.matrix @ directions, np.diag(lengths**2) / region.radius2, atol=1e-12
    )
    for length, direction in zip(lengths, directions.T, strict=True):
        assert region.contains(region.center + 0.999 * length * direction)
        assert not region.contains(region.center - 1.001 * length * direction)
    assert np.prod(lengths) * 4 / 3 * np.pi == pytest.approx(region.volume)


def test_a_selection_is_about_its_own_scores(summed):
    estimate, covariance = summed
    region = confidence_ellipsoid(estimate, covariance, NAMES, [2, 0], 0.05)
    assert (region.models, region.df) == (("c", "a"), 2)
    np.testing.assert_array_equal(region.center, estimate[[2, 0]])
    np.testing.assert_array_equal(region.cov, covariance.matrix[np.ix_([2, 0], [2, 0])])
    away = np.array([0.3, -0.2])
    distance = away @ np.linalg.solve(region.cov, away)
    assert region.contains(region.center + away * np.sqrt(0.999 * region.radius2 / distance))
    assert not region.contains(region.center + away * np.sqrt(1.001 * region.radius2 / distance))


def test_points_that_cannot_be_are_refused_with_the_reason(summed):
    estimate, covariance = summed
    region = confidence_ellipsoid(estimate, covariance, NAMES, range(4), 0.05)
    with pytest.raises(HypothesisError):
        region.contains(estimate + np.array([0.1, 0, 0, 0]))
    for wrong in ([0.1, 0.2], [np.nan] * 4):
        with pytest.raises(HypothesisError):
            region.contains(wrong)


def test_scores_that_are_fixed_or_do_not_vary_have_no_region():
    basis = np.eye(3)[:, 1:]
    matrix = np.diag([0.0, 1.0, 0.0])
    with pytest.raises(HypothesisError):
        confidence_ellipsoid(np.zeros(3), Covariance(matrix, basis), NAMES[:3], [0], 0.05)
    with pytest.raises(HypothesisError):
        confidence_ellipsoid(np.zeros(3), Covariance(matrix, basis), NAMES[:3], [1, 2], 0.05)


def test_contrasts_are_invariant_to_how_they_are_written(summed):
    estimate, covariance = summed
    differences = np.array([[1.0, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])
    by_differences = region_of(estimate, covariance, differences, names=["ab", "bc", "cd"], alpha=0.05)
    scores = confidence_ellipsoid(estimate, covariance, NAMES, range(4), 0.05)
    assert by_differences.df == scores.df == 3
    for point in np.random.default_rng(4).multivariate_normal(estimate, 4 * covariance.matrix, size=200):
        assert by_differences.contains(differences @ point) == scores.contains(point)


def test_redundant_contrasts_do_not_count_twice(summed):
    estimate, covariance = summed
    twice = np.array([[1.0, -1, 0, 0], [2.0, -2, 0, 0]])
    region = region_of(estimate, covariance, twice, names=["ab", "2ab"], alpha=0.05)
    assert region.df == 1
    interval = region_of(estimate, covariance, twice[:1], names=["ab"], alpha=0.05)
    assert region.radius2 == interval.radius2
    assert region.volume == pytest.approx(np.sqrt(5) * interval.volume)
    with pytest.raises(HypothesisError, match="sum"):
        region_of(estimate, covariance, np.ones((1, 4)), names=["sum"], alpha=0.05)


def test_in_words():
    share = WinProbability("a", "b", 0.9, 0.05, 0.8, 0.96, 0.1)
    assert str(share) == "a wins 0.900 against b (90 %: 0.800 to 0.960)"

"""Joint covariances with given diagonal blocks."""

import numpy as np
from scipy.linalg import sqrtm

from dmlrank.inference.covariance import Covariance, free_basis, match_blocks, stack_influences, transport_map


def test_what_a_result_adds_stretches_its_errors_by_optimal_transport():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5, 5))
    joint = factor @ factor.T
    gauge = np.ones((1, 3)) / np.sqrt(3)
    basis = free_basis(gauge, 3)
    inside = basis @ basis.T
    whole = np.block([[inside, np.zeros((3, 2))], [np.zeros((2, 3)), np.eye(2)]])
    joint = whole @ joint @ whole
    grown = basis @ (basis.T @ joint[:3, :3] @ basis + np.diag([0.5, 1.0])) @ basis.T
    blocks = [Covariance(grown, basis), Covariance(joint[3:, 3:], np.eye(2))]
    found = match_blocks(joint, blocks)
    np.testing.assert_array_equal(found[:3, :3], grown)
    np.testing.assert_array_equal(found[3:, 3:], joint[3:, 3:])
    have, want = basis.T @ joint[:3, :3] @ basis, basis.T @ grown @ basis
    root = sqrtm(have).real
    back = np.linalg.inv(root)
    expected = basis @ back @ sqrtm(root @ want @ root).real @ back @ basis.T
    np.testing.assert_allclose(transport_map(joint[:3, :3], blocks[0]), expected, atol=1e-10)
    np.testing.assert_allclose(found[:3, 3:], expected @ joint[:3, 3:], atol=1e-10)
    assert np.linalg.eigvalsh(found)[0] > -1e-10


def test_where_nothing_was_added_nothing_moves():
    factor = np.random.default_rng(1).normal(size=(6, 4))
    joint = factor @ factor.T
    blocks = [Covariance(joint[:2, :2], np.eye(2)), Covariance(joint[2:, 2:], np.eye(4))]
    np.testing.assert_allclose(match_blocks(joint, blocks), joint, rtol=1e-12)
    # Four directions for a block of four, three of which vary: the fourth stays without variance.
    singular = joint[2:, 2:] - np.linalg.eigvalsh(joint[2:, 2:])[0] * np.eye(4)
    moved = transport_map(singular, Covariance(singular, np.eye(4)))
    np.testing.assert_allclose(moved @ singular @ moved.T, singular, atol=1e-12)


def test_estimates_are_stacked_with_zeros_in_the_others_pieces():
    one, two = np.ones((3, 2)), np.full((3, 1), 2.0)
    stacked = stack_influences(
        [one, two], [np.ones((4, 2)), np.full((2, 1), 3.0)], [np.array([0, 0, 1, 2]), np.array([1, 2])]
    )
    np.testing.assert_array_equal(stacked.centred, [[1, 1, 2]] * 3)
    np.testing.assert_array_equal(stacked.centred_correction, [[1, 1, 0]] * 4 + [[0, 0, 3]] * 2)
    np.testing.assert_array_equal(stacked.block_context, [0, 0, 1, 2, 1, 2])

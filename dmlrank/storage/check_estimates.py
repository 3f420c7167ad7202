"""Checks of a stored result: whether the entries of a file fit together, and have values that a fit can give."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from .._utils.blas import one_thread
from ..data.arrays import FloatArray
from ..data.derived_pairs import DERIVED_KINDS
from ..exceptions import StorageError, listed, nearest
from ..fit.estimates import Estimates
from ..fit.judge_value import JudgeFigures
from ..fit.style_estimates import StyleEstimates
from ..inference.covariance import Covariance
from ..options import ESTIMATORS, PROMPTS, CovType

# The largest count.
MAX_COUNT = 2**63 - 1
# Largest effect of rounding on a covariance, relative to its largest variance.
_ROUNDING = 1e-8


def check_estimates(estimates: Estimates) -> None:
    """Check that the entries of a stored result fit together and have values that a fit can give."""
    _check_names(estimates)
    _check_shapes(estimates)
    _check_numbers(estimates)
    _check_counts(estimates)
    if estimates.judge is not None:
        _check_judge(estimates.judge, len(estimates.models))
    if estimates.style is not None:
        _check_style(estimates.style, len(estimates.models))


def _check_names(e: Estimates) -> None:
    """Raise where names of models or outputs repeat, or the estimator or the anchor is unknown."""
    if e.estimator not in ESTIMATORS:
        raise StorageError(f"estimator is {e.estimator!r}; it must be one of {listed(ESTIMATORS)}")
    if len(set(e.models)) < len(e.models) or len(e.models) < 2:
        raise StorageError(f"models are {listed(e.models)}; there must be two or more different names")
    if len(set(e.outputs)) < len(e.outputs):
        raise StorageError(f"outputs are {listed(e.outputs)}; the names must be different")
    anchor = e.scale.anchor
    if anchor is not None and anchor[0] not in e.models:
        raise StorageError(f"scale.anchor is {anchor[0]!r}; it must be one of the models")


def _check_shapes(e: Estimates) -> None:
    """Raise where an array has another shape than the names ask for."""
    n_models, n_names = len(e.models), len(e.names)
    shapes = {
        "estimate": (e.estimate, (n_names,)),
        "plugin": (e.plugin, (n_names,)),
        "shares": (e.shares, (n_models,)),
        "fixed": (e.fixed, (n_names,)),
        "covariance.matrix": (e.covariance.matrix, (n_names, n_names)),
        "graph.edges": (e.graph.edges, (n_models, n_models)),
    }
    if e.votes is not None:
        shapes |= {"votes.used": (e.votes.used, (n_models,)), "votes.total": (e.votes.total, (n_models,))}
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise StorageError(f"{name} has the shape {array.shape}; for {n_models} models it must be {shape}")
    if e.votes is not None and not ((e.votes.used >= 0) & (e.votes.used <= e.votes.total)).all():
        raise StorageError(
            "votes.used has numbers below zero or above votes.total; they must be from zero to votes.total"
        )
    _check_basis(e.covariance, n_names, "covariance")


def _check_basis(covariance: Covariance, n_names: int, entry: str) -> None:
    """Raise where the free directions of a covariance have another shape than (d, rank)."""
    shape = covariance.basis.shape
    if len(shape) != 2 or shape[0] != n_names or shape[1] > n_names:
        raise StorageError(f"{entry}.basis has the shape {shape}; it must be ({n_names}, rank)")


def _check_numbers(e: Estimates) -> None:
    """Raise where a number is outside its range, or a table is no graph or no covariance."""
    scale, anchor = e.scale, e.scale.anchor
    finite_numbers = {"neutral": e.neutral, "scale.shift": scale.shift, "scale.mean": scale.mean}
    finite_numbers |= {"scale.anchor": None if anchor is None else anchor[1]}
    wrong = [name for name, value in finite_numbers.items() if value is not None and not math.isfinite(value)]
    if wrong:
        raise StorageError(f"{wrong[0]} is {finite_numbers[wrong[0]]}; it must be a finite number")
    _check_sequence(e)
    positive = {"critical": e.critical, "scale.factor": scale.factor}
    wrong = [name for name, value in positive.items() if not (math.isfinite(value) and value > 0)]
    if wrong or not 0 < e.alpha < 1 or not np.isfinite(e.estimate).all():
        raise StorageError("a score, alpha, the critical value or the scale is not finite or out of its range")
    if np.isinf(e.plugin).any() or np.isinf(e.shares).any():
        raise StorageError("plugin or shares have infinite values; they must be finite numbers or NaN")
    edges = e.graph.edges
    if (edges != edges.T).any() or edges.diagonal().any():
        raise StorageError("graph.edges is no graph: it must be a symmetric table, false on its diagonal")
    _check_covariance(e.covariance, e.estimate, "covariance")


def _check_sequence(e: Estimates) -> None:
    """Raise where the numbers of a sequential view contradict each other or the result."""
    sequence = e.sequence
    if sequence is None:
        return
    if not 2 <= sequence.start <= min(sequence.planned, sequence.n_units) or sequence.alpha != e.alpha:
        raise StorageError(
            f"sequence has start {sequence.start}, planned {sequence.planned}, n_units {sequence.n_units} and alpha "
            f"{sequence.alpha}; start must be at least 2 and at most planned and n_units, and alpha must be that of "
            f"the result"
        )


@one_thread()
def _check_covariance(covariance: Covariance, estimate: FloatArray, entry: str) -> None:
    """Raise where a matrix is no covariance of the estimates, (d,), or its basis has no orthonormal columns."""
    basis = covariance.basis
    if not ((np.abs(basis) <= 1 + 1e-6).all() and np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6)):
        raise StorageError(f"{entry}.basis does not have orthonormal columns")
    if not _is_covariance(covariance.matrix, float(np.abs(estimate).max())):
        raise StorageError(f"{entry}.matrix is no covariance: it must be finite, symmetric and positive semidefinite")


def _is_covariance(matrix: NDArray[np.float64], scale: float) -> bool:
    """Return whether a matrix is finite, symmetric and positive semidefinite, up to rounding."""
    if not np.isfinite(matrix).all():
        return False
    # Where labels have no variation, the covariance is zero up to squared rounding errors of the scores, and its
    # eigenvalues may be negative. A matrix within this slack is accepted as it is.
    largest = float(np.abs(matrix).max())
    rounding = min(4 * float(np.finfo(float).eps) * scale, 1e150)  # its square is finite
    slack = _ROUNDING * largest + rounding**2
    if largest == 0 or slack >= largest:
        return True
    if np.abs(matrix - matrix.T).max() > slack:
        return False
    return bool(np.linalg.eigvalsh((matrix + matrix.T) / (2 * largest)).min() >= -slack / largest)


def _check_counts(e: Estimates) -> None:
    """Raise where a count is too large or missing, or a word is unknown."""
    for part, holder in (("description", e.description), ("diagnostics", e.diagnostics)):
        for item in fields(holder):
            value = getattr(holder, item.name)
            # A seed may be any whole number.
            if isinstance(value, int) and item.name != "seed" and value > MAX_COUNT:
                raise StorageError(f"{part}.{item.name} is {value}; a count is at most {MAX_COUNT}")
    if any(number > MAX_COUNT for number in e.covariance.n_clusters):
        raise StorageError(f"covariance.n_clusters has a number above {MAX_COUNT}, the largest count")
    if len(e.covariance.n_clusters) != len(e.description.clusters):
        raise StorageError(
            f"covariance.n_clusters has {len(e.covariance.n_clusters)} entries; it must have one for each column "
            f"of description.clusters ({listed(e.description.clusters) or 'none'})"
        )
    if e.description.n_contexts < 1:
        raise StorageError("description.n_contexts is 0; there must be at least one context")
    words = {
        "description.cov_type": (e.description.cov_type, get_args(CovType)),
        "description.prompts": (e.description.prompts, PROMPTS),
        "diagnostics.outcome_kind": (
            e.diagnostics.outcome_kind,
            ("labels", "grades", "preferences", "probabilities", *DERIVED_KINDS),
        ),
    }
    for name, (word, allowed) in words.items():
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; it must be one of {listed(allowed)}{nearest(word, allowed)}")


def _check_judge(judge: JudgeFigures, n_models: int) -> None:
    """Raise where an array about judges has another shape than the numbers of judges and models ask for."""
    n_judges = len(judge.names)
    shapes = {
        "compared": (n_judges, 2),
        "agreement": (n_judges, 2),
        "kappa": (n_judges, 2),
        "position": (n_judges, 3),
        "human_position": (n_judges, 3),
        "both_orders": (n_judges, 2),
        "log_loss": (3,),
        "alone": (n_models,),
        "alone_errors": (n_models,),
        "errors": (n_models,),
    }
    for name, shape in shapes.items():
        array = getattr(judge, name)
        if array.shape != shape:
            raise StorageError(f"judge.{name} has the shape {array.shape}; it must be {shape}")


def _check_style(style: StyleEstimates, n_models: int) -> None:
    """Raise where the numbers of an adjustment for style do not fit together."""
    words = {
        "style.kind": (style.kind, ("equal", "balanced")),
        "style.weights": (style.weights, ("",) if style.kind == "equal" else ("band", "smooth")),
    }
    for name, (word, allowed) in words.items():
        if word not in allowed:
            raise StorageError(f"{name} is {word!r}; it must be one of {listed(allowed)}")
    if len(set(style.columns)) < len(style.columns) or not style.columns:
        raise StorageError(
            f"style.columns are {listed(style.columns)}; there must be at least one, with different names"
        )
    is_equal, n_columns = style.kind == "equal", len(style.columns)
    n_estimates = 3 * n_models + n_columns if is_equal else 0
    if style.n_votes > MAX_COUNT or style.n_votes_left > style.n_votes:
        raise StorageError("style.n_votes_left is larger than style.n_votes, or a count is too large")
    if not style.within > 0:
        raise StorageError(f"style.within is {style.within}; it must be a positive number")
    for name, array, length in (
        ("deviations", style.deviations, n_columns),
        ("estimate", style.estimate, n_estimates),
    ):
        if array.shape != (length,):
            raise StorageError(f"style.{name} has the shape {array.shape}; it must be ({length},)")
        if not np.isfinite(array).all():
            raise StorageError(f"style.{name} has numbers that are not finite")
    if (style.deviations < 0).any():
        raise StorageError("style.deviations has a negative number; deviations are at least zero")
    if (style.covariance is None) is is_equal:
        raise StorageError("style.covariance must be given for the kind 'equal', and null for 'balanced'")
    if style.covariance is not None:
        if style.covariance.matrix.shape != (n_estimates, n_estimates):
            raise StorageError(
                f"style.covariance.matrix has the shape {style.covariance.matrix.shape}; it must be "
                f"({n_estimates}, {n_estimates})"
            )
        _check_basis(style.covariance, n_estimates, "style.covariance")
        _check_covariance(style.covariance, style.estimate, "style.covariance")

"""Votes used and precision of a fit under different settings, computed from counts of labels alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.graph import Graph, laplacian_inverse
from ..data.preferences import FloatArray
from ..data.vote_counts import PairRule, VoteCounts

# Settings are good enough where the largest standard error is at most this multiple of maximum likelihood's.
_LARGEST_RATIO = 1.5
COLUMNS = [
    "position_bias",
    "min_labels",
    "edge_weights",
    "pairs",
    "votes",
    "share",
    "least_share",
    "se_median",
    "se_largest",
]


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Which pairs are compared, and how they are weighted.

    rule: Labels that a pair needs.
    edge_weights: The option of a fit.
    """

    rule: PairRule
    edge_weights: str


def score_variances(labelled: NDArray[np.int64], settings: PairSettings) -> FloatArray | None:
    r"""Return variances of Bradley-Terry scores, (K,); None where the pairs do not connect the models.

    The unit is the variance of one label's log-odds. Without features, and with models of about equal strength, the
    log-odds of an ordered pair with n labels have the variance v / n with the same v for all pairs. The log-odds of an
    unordered pair have the variance v / (n_jk + n_kj) where display order is ignored. Where it is modelled, they are
    the mean of both orders and have the variance v (1 / n_jk + 1 / n_kj) / 4. The scores are
    :math:`L_w^+ B' W \ell` with edge weights w, the incidence matrix B of the graph, W = diag(w)
    and the log-odds :math:`\ell` of the pairs, so that their covariance is :math:`L_w^+ L_{w^2 s} L_w^+`, with the
    Laplacian of the weights :math:`w^2 s` for variances s of the log-odds. Maximum likelihood weights pairs by their
    labels: w = 1 / s, and the covariance is :math:`L_{1/s}^+`.

    Shapes: labelled (K, K).
    """
    graph = settings.rule.graph(labelled)
    if not graph.connected:
        return None
    counts = np.where(graph.edges, labelled, 0).astype(float)
    total = counts + counts.T
    weight = total if settings.edge_weights == "counts" else graph.edges.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1 / counts + 1 / counts.T) / 4 if settings.rule.position_bias else 1 / total
    inverse = laplacian_inverse(weight)
    weighted = np.where(graph.edges, weight**2 * np.where(graph.edges, variance, 0.0), 0.0)
    return np.asarray(np.diag(inverse @ (np.diag(weighted.sum(axis=1)) - weighted) @ inverse))


def settings_table(labelled: NDArray[np.int64], votes: NDArray[np.int64], min_labels: int) -> pd.DataFrame:
    """Return votes and precision by ``position_bias``, ``min_labels`` (as given, and 1) and ``edge_weights``.

    Shapes: labelled, votes (K, K).
    """
    likelihood_covariance = laplacian_inverse((labelled + labelled.T).astype(float)) if _connected(labelled) else None
    rows: list[tuple[object, ...]] = []
    for rule in dict.fromkeys(PairRule(ordered, least) for ordered in (True, False) for least in (min_labels, 1)):
        graph = rule.graph(labelled)
        counts = VoteCounts.of(votes, graph)
        least_share = float((counts.used / np.maximum(counts.total, 1)).min())
        for edge_weights in ("equal", "counts"):
            variances = score_variances(labelled, PairSettings(rule, edge_weights))
            ratio = np.array([np.nan])
            if variances is not None and likelihood_covariance is not None:
                ratio = np.sqrt(variances / likelihood_covariance.diagonal())
            numbers = (graph.n_edges, counts.n_used, counts.share_used, least_share, np.median(ratio), ratio.max())
            rows.append((rule.position_bias, rule.min_labels, edge_weights, *numbers))
    return pd.DataFrame(rows, columns=COLUMNS)


def _connected(labelled: NDArray[np.int64]) -> bool:
    """Return whether the labels connect all models."""
    return Graph.observed(labelled, 1, ordered=False).connected


def recommended_row(table: pd.DataFrame, chosen: tuple[bool, int, str]) -> int:
    """Return the row of the recommended settings."""
    good = (table["share"] >= 0.95) & (table["least_share"] >= 0.8) & (table["se_largest"] <= _LARGEST_RATIO)
    options = table[["position_bias", "min_labels", "edge_weights"]]
    changes = (options != list(chosen)).sum(axis=1)
    error = table["se_largest"].fillna(np.inf)
    ranked = table.assign(bad=~good, changes=changes.where(good, 0), error=error, all_changes=changes)
    return int(ranked.sort_values(["bad", "changes", "error", "all_changes"], kind="stable").index[0])
